"""Norms with weights, kinds, subdomains and forms: against plain DOLFINx, in studies and in TOML;
auxiliary fields and pressures count where they are named only.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import ufl

pytest.importorskip("dolfinx")


from dolfinx import fem
from mpi4py import MPI

import cffem as cf
from cffem import div, dt, grad, lap, x, y
from cffem.study.toml.study_file import read_study

u, T, p, w = (
    cf.VectorField("u", dim=2),
    cf.ScalarField("T"),
    cf.ScalarField("p"),
    cf.ScalarField("w"),
)


def thermoelastic(scale=1.0, mesh=None):
    library = cf.System(
        {
            u: cf.Library(
                terms={"mu": lap(u), "lam": grad(div(u)), "thermal": -grad(T)}, unknown=u
            ),
            T: cf.Library(terms={"lap": lap(T), "sink": -T}, unknown=T),
        }
    )
    experiment = cf.Experiment(
        mesh=mesh or cf.mesh.square(MPI.COMM_SELF, 0.25),
        elements={u: ("Lagrange", 2), T: ("Lagrange", 1)},
        boundary=[
            cf.Dirichlet(u, 0),
            cf.Dirichlet(T, scale, on="left"),
            cf.Neumann(T, 0, on=("top", "bottom", "right")),
        ],
    )
    coefficients = {"u/mu": 1.0, "u/lam": 1.5, "u/thermal": 1 / scale, "T/lap": 1.0, "T/sink": 1.0}
    return library, experiment, coefficients


def halves():
    """A square whose cells are in a western and an eastern half."""
    from dolfinx.mesh import create_unit_square, locate_entities, meshtags

    from cffem.engine.mesh.meshes import MeshData, read_mesh

    whole = read_mesh(cf.mesh.square(MPI.COMM_SELF, 0.25), MPI.COMM_SELF)
    mesh = create_unit_square(MPI.COMM_SELF, 4, 4)
    cells = locate_entities(mesh, 2, lambda y: y[0] < 0.5 + 1e-12)
    everything = np.arange(mesh.topology.index_map(2).size_local, dtype=np.int32)
    values = np.where(np.isin(everything, cells), 7, 8).astype(np.int32)
    facets = {"left": lambda y: np.isclose(y[0], 0), "right": lambda y: np.isclose(y[0], 1)}
    facets |= {"bottom": lambda y: np.isclose(y[1], 0), "top": lambda y: np.isclose(y[1], 1)}
    found = {name: locate_entities(mesh, 1, where) for name, where in facets.items()}
    places = np.concatenate(list(found.values())).astype(np.int32)
    marks = np.concatenate([np.full(len(f), k + 1) for k, f in enumerate(found.values())])
    order = np.argsort(places)
    tags = meshtags(mesh, 1, places[order], marks[order].astype(np.int32))
    names = {name: (1, k + 1) for k, name in enumerate(found)} | {"west": (2, 7), "east": (2, 8)}
    assert set(whole.names) >= set(facets)
    return MeshData(mesh, meshtags(mesh, 2, everything, values), tags, names)


def integral(form, comm):
    return math.sqrt(comm.allreduce(fem.assemble_scalar(fem.form(form))))


def test_weighted_and_mixed_norms_are_those_of_plain_dolfinx():
    library, experiment, coefficients = thermoelastic()
    with cf.Model(library, coefficients, experiment) as model:
        solution = model.factual
        a, b = solution.function(u), solution.function(T)
        dx, comm = ufl.dx, model.comm
        plain = integral(
            ufl.inner(ufl.grad(a), ufl.grad(a)) * dx + ufl.inner(a, a) * dx + 0.25 * b * b * dx,
            comm,
        )
        norm = cf.Norm({u: 1.0, T: 0.5}, kind={u: "H1", T: "L2"})
        assert solution.norm(norm) == pytest.approx(plain, rel=1e-12)
        plain = integral(ufl.inner(a, a) * dx + 1e-4 * b * b * dx, comm)
        assert solution.norm(cf.Norm({u: 1.0, T: 1e-2})) == pytest.approx(plain, rel=1e-12)
        own = cf.Norm({T: 2.0}, form=lambda a, b: ufl.inner(a, b) * ufl.ds, name="trace of T")
        assert solution.norm(own) == pytest.approx(2 * integral(b * b * ufl.ds, comm), rel=1e-12)
        for wrong, said in (("L2[q]", "'q'"), ("H(div)[T]", "scalar"), ("L2[T on sea]", "'sea'")):
            with pytest.raises(cf.InputError, match=said):
                solution.norm(wrong)


def test_norms_in_a_subdomain_add_up():
    library, experiment, coefficients = thermoelastic(mesh=halves())
    with cf.Model(library, coefficients, experiment) as model:
        parts = [model.factual.norm(cf.Norm(on=side)) for side in ("west", "east")]
        assert np.hypot(*parts) == pytest.approx(model.factual.norm("L2"), rel=1e-12)
        marked = ufl.Measure(
            "dx",
            domain=model.discretisation.mesh,
            subdomain_data=model.discretisation.domain.cell_tags,
        )
        temperature = model.factual.function(T)
        plain = integral(temperature**2 * marked(7), model.comm)
        assert model.factual.norm("L2[T on west]") == pytest.approx(plain, rel=1e-12)


def test_weights_make_one_verdict_and_none_make_one_for_each_field():
    """The displacement disappears beside a temperature of 1e6 units, unless weights or fields'
    own norms say otherwise.
    """
    library, experiment, coefficients = thermoelastic(1e6)

    def thermal(norm):
        certification = cf.Certification(epsilon=0.1, norm=norm, relative=True)
        study = cf.Study(
            library, experiment, coefficients=coefficients, certification=certification
        )
        return study.run().terms["u/thermal"]

    assert thermal("L2").decision == "relevant"
    alike = thermal(cf.Norm({u: 1.0, T: 1.0}))
    assert (alike.decision, dict(alike.fields)) == ("irrelevant", {})
    found = thermal(cf.Norm({u: 1.0, T: 1e-8}))
    assert found.decision == "relevant"
    assert found.certificate == "estimated"
    assert 0 < found.margin < found.deletion


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_verdicts_do_not_depend_on_the_units_of_fields(scale):
    library, experiment, coefficients = thermoelastic(scale)
    report = cf.Study(
        library,
        experiment,
        coefficients=coefficients,
        interventions={"no load, no sink": cf.delete("u/thermal", "T/sink")},
        certification=cf.Certification(epsilon=0.1),
    ).run()
    decisions = {name: dict(term.fields) for name, term in report.terms.items()}
    assert decisions["u/thermal"] == {"u": "relevant", "T": "irrelevant"}
    assert decisions["T/sink"] == {"u": "relevant", "T": "relevant"}
    group = report.interventions["no load, no sink"]
    assert dict(group.fields) == {"u": "relevant", "T": "relevant"}


def test_pressures_count_where_they_are_asked_for():
    """Driven flow: the pressure in a norm is ∫p² of plain DOLFINx, and its verdict has a bar."""
    v = cf.VectorField("v", dim=2)
    library = cf.Library(terms={"viscosity": lap(v), "drag": -v}, unknown=v)
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.125),
        elements={v: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(v, 0)],
        forcing={v: (y, 0)},
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    coefficients = {"viscosity": 1.0, "drag": 20.0}
    with cf.Model(library, coefficients, experiment) as model:
        pressure = model.factual.norm(cf.Norm({p: 1.0}))
        plain = integral(model.factual.function(p) ** 2 * ufl.dx, model.comm)
        assert pressure == pytest.approx(plain, rel=1e-10)
        both = model.factual.norm(cf.Norm({v: 1.0, p: 1.0}))
        assert both == pytest.approx(math.hypot(model.factual.norm("L2"), pressure), rel=1e-12)
        change = model.interventions({"half": cf.scale("drag", 0.5)}, norm=cf.Norm({p: 1.0}))
        difference = model.factual.function(p) - model.solve(cf.scale("drag", 0.5)).function(p)
        plain = integral(difference**2 * ufl.dx, model.comm)
        assert change["half"].score == pytest.approx(plain, rel=1e-9)
    report = cf.Study(
        library,
        experiment,
        coefficients=coefficients,
        certification=cf.Certification(epsilon=1e-3, norm=cf.Norm({p: 1.0}), relative=True),
    ).run()
    drag = report.terms["drag"]
    assert drag.certificate == "estimated"
    assert 0 < drag.margin < drag.deletion
    assert report.sections["scope"]["norm"] == "L2[p]"


def test_auxiliary_fields_do_not_count():
    """w = Δu is defined, not studied: the norm of the system is that of u."""
    a = cf.ScalarField("a")
    library = cf.System(
        {
            a: cf.Library(dt(a), {"plate": -lap(w), "sink": -a}),
            w: cf.Library(w - lap(a), {}, unknown=w),
        }
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, 0.1),
        elements={a: ("Lagrange", 2), w: ("Lagrange", 2)},
        initial={a: x * (1 - x)},
        boundary=[cf.Dirichlet(a, 0), cf.Dirichlet(w, 0)],
        time=cf.Window(0, 0.01, steps=4),
    )
    with cf.Model(library, {"a/plate": 1.0, "a/sink": 1.0}, experiment) as model:
        assert model.factual.norm("L2") == model.factual.norm("L2[a]")
        both = model.factual.norm(cf.Norm({a: 1.0, w: 1.0}))
        assert both > 2 * model.factual.norm("L2")


def test_toml_names_norms(tmp_path):
    from study_support import TOML, written

    for given, name in (
        ('norm = "H1"', "H1"),
        ('norm = { kind = "H1" }', "H1"),
        ("norm = { weights = { u = 0.5 } }", "L2[0.5*u]"),
    ):
        text = TOML.replace("[certification]", f"[certification]\n{given}")
        study = read_study(written(tmp_path, text), MPI.COMM_SELF)
        assert study.certification.norm == name
    text = TOML.replace("[certification]", "[certification]\nnorm = { weights = { q = 1.0 } }")
    with pytest.raises(cf.InputError, match="no field 'q'"):
        read_study(written(tmp_path, text), MPI.COMM_SELF)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"weights": {u: -1.0}}, "positive"),
        ({"weights": {}}, "field: number"),
        ({"kind": {u: "H1"}, "weights": {T: 1.0}}, "no kind for the field T"),
        ({"on": ""}, "subdomain"),
        ({"name": "odd"}, "form"),
    ],
)
def test_what_is_no_norm_is_refused(options, said):
    with pytest.raises(cf.InputError, match=said):
        cf.Norm(**options)
    with pytest.raises(cf.InputError, match="unknown norm"):
        cf.Study(
            *thermoelastic()[:2],
            coefficients=thermoelastic()[2],
            certification=cf.Certification(norm="L3"),
        )
