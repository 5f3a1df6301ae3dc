"""What is decided by signs is decided by the values of known fields, however they are given."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

from dolfinx import fem
from dolfinx import mesh as dolfinx_mesh
from mpi4py import MPI

import cffem as cf
from cffem import div, dot, dt, grad, lap, t, x, y

u, w, k = cf.ScalarField("u"), cf.ScalarField("w"), cf.Known("k")
v, M, K = cf.VectorField("v", dim=2), cf.Known("M", dim=(2, 2)), cf.Known("K", dim=(2, 2))
START = sp.sin(sp.pi * x) * sp.sin(sp.pi * y)


def halves(comm=MPI.COMM_SELF, n=4):
    return cf.mesh.named(
        dolfinx_mesh.create_unit_square(comm, n, n),
        cells={"left": lambda p: p[0] < 0.5 + 1e-9, "right": lambda p: p[0] > 0.5 - 1e-9},
        facets={"wall": lambda p: p[0] < 1e-9},
    )


def measured():
    axis = np.linspace(0, 1, 5)
    grid = np.meshgrid(axis, axis, indexing="ij")
    return cf.Dataset.from_arrays(
        {"x": axis, "y": axis}, {cf.ScalarField("k"): 0.05 - 0.2 * grid[0]}
    )


RATE = dt(u)


def model_of(terms, coefficients, known, anchor=RATE, unknown=u, domain=None, **more):
    shape = (START, 0) if unknown.shape else START
    initial = {unknown: shape} | ({dt(unknown): 0} if anchor.has(dt(dt(unknown))) else {})
    experiment = cf.Experiment(
        mesh=domain or halves(),
        elements={unknown: ("Lagrange", 1)},
        initial=initial,
        boundary=more.pop("boundary", [cf.Dirichlet(unknown, 0)]),
        time=cf.Window(0, 0.1, steps=4),
        known=known,
        **more,
    )
    return cf.Model(cf.Library(anchor=anchor, terms=terms), coefficients, experiment)


def function_on(domain, value):
    function = fem.Function(fem.functionspace(domain.mesh, ("Lagrange", 1)))
    function.interpolate(value)
    return function


WAYS = {
    "a formula": lambda domain: 0.05 - 0.2 * x,
    "subdomains": lambda domain: {"left": 0.1, "right": -0.1},
    "formulas by subdomain": lambda domain: {"left": 0.1, "right": 0.05 - 0.2 * y},
    "tags": lambda domain: (
        domain.cell_tags,
        {domain.names["left"][1]: 1, domain.names["right"][1]: -0.1},
    ),
    "a function": lambda domain: function_on(domain, lambda p: 0.05 - 0.2 * p[0]),
    "a Python function": lambda domain: lambda p: 0.05 - 0.2 * p[0],
    "measurements": lambda domain: measured(),
    "a Python function in time": lambda domain: lambda p, s: 0.05 - 2 * s + 0 * p[0],
    "a formula in time": lambda domain: 0.05 - 2 * t + 0.01 * x,
}


@pytest.mark.parametrize("way", WAYS)
def test_backward_diffusion_is_seen_however_its_diffusivity_is_given(way):
    domain = halves()
    terms = {"lap": lap(u), "more": div(k * grad(u))}
    with model_of(terms, {"lap": 0.3, "more": 1.0}, {k: WAYS[way](domain)}, domain=domain) as model:
        found = model.deletions()
    assert found["lap"].status == "unsolvable"
    assert found["lap"].cause == "backward"
    assert "negative at (" in found["lap"].reason
    assert found["more"].status == "solved"


def test_a_study_refuses_backward_diffusion_by_subdomain():
    experiment = model_of(
        {"more": div(k * grad(u))}, {"more": 1.0}, {k: {"left": 1, "right": -0.1}}
    )
    study = cf.Study(
        library=cf.Library(anchor=dt(u), terms={"more": div(k * grad(u)), "u": u}),
        coefficients={"more": 1.0, "u": -0.1},
        experiments={"one": experiment.experiment},
        certification=cf.Certification(epsilon=0.1),
    )
    with pytest.raises(cf.InputError, match=r"negative at .*runs backward"):
        study.run()


def test_positive_values_are_not_taken_for_negative_ones():
    """Polynomials that stand for a steep Python function undershoot; its values do not."""
    steep = lambda p: np.where(p[0] < 0.3, 1.0, 0.0)  # noqa: E731
    terms = {"lap": lap(u), "more": div(k * grad(u))}
    with model_of(terms, {"lap": 0.3, "more": 1.0}, {k: steep}) as model:
        assert model.deletions(conditions="kept")["lap"].cause != "backward"


def test_equations_of_a_system_and_parts_are_judged_too():
    system = cf.System(
        {
            "u": cf.Library(dt(u), {"lap": lap(u), "more": div(k * grad(u)), "w": w}),
            "w": cf.Library(dt(w), {"lap": lap(w)}),
        }
    )
    experiment = cf.Experiment(
        mesh=halves(),
        elements={u: ("Lagrange", 1), w: ("Lagrange", 1)},
        initial={u: START, w: 0},
        boundary=[cf.Dirichlet(u, 0), cf.Dirichlet(w, 0)],
        time=cf.Window(0, 0.1, steps=4),
        known={k: {"left": -0.1, "right": 0.1}},
    )
    numbers = {"u/lap": 0.3, "u/more": 1.0, "u/w": 1.0, "w/lap": 1.0}
    with cf.Model(system, numbers, experiment) as model:
        assert model.deletions(["u/lap"])["u/lap"].cause == "backward"
        found = model.interventions(
            {
                "left": cf.delete("u/lap", on="left"),
                "right": cf.delete("u/lap", on="right"),
                "early": cf.delete("u/lap", during=(0, 0.05)),
            }
        )
    assert found["left"].cause == found["early"].cause == "backward"
    assert found["right"].status == "solved"


def test_a_tensor_is_judged_by_its_eigenvalues():
    turned = {"left": ((1, 0), (0, 1)), "right": ((0.5, 0.6), (0.6, 0.5))}
    terms = {"lap": lap(u), "more": div(dot(K, grad(u)))}
    with model_of(terms, {"lap": 0.3, "more": 1.0}, {K: turned}) as model:
        assert model.deletions(["lap"])["lap"].cause == "backward"


@pytest.mark.parametrize(
    ("anchor", "known", "words"),
    [
        (k * dt(u), {k: {"left": 1, "right": -1}}, "negative somewhere: -1 at"),
        (k * dt(u), {k: lambda p: np.where(p[0] > 0.95, -0.05, 1.0)}, "negative somewhere: -0.05"),
        (k * dt(u), {k: lambda p, s: 1 - 15 * s + 0 * p[0]}, "at t = 0.1"),
        (k * dt(dt(u)), {k: 1 - 15 * t}, "at t = 0.1"),
        (dot(M, dt(v)), {M: ((1, 2), (2, 1))}, "an eigenvalue that is negative"),
        (dot(M, dt(v)), {M: {"left": ((1, 2), (2, 1)), "right": ((1, 0), (0, 1))}}, "eigenvalue"),
        (dot(M, dt(v)), {M: ((1, 1), (1, 1))}, "a tensor without an inverse"),
    ],
)
def test_weights_of_rates_are_positive_everywhere(anchor, known, words):
    unknown = v if anchor.has(M) else u
    with pytest.raises(cf.InputError, match=words):
        model_of({"lap": lap(unknown)}, {"lap": 0.3}, known, anchor=anchor, unknown=unknown)


def test_a_tensor_of_inertia_that_is_not_symmetric_is_no_reason_to_refuse():
    tensor = {M: ((1, -0.5), (0.5, 2))}
    with model_of({"lap": lap(v)}, {"lap": 0.3}, tensor, anchor=dot(M, dt(v)), unknown=v) as model:
        assert model.solve().norm() > 0


def test_a_wall_that_feeds_waves_is_ill_posed():
    """With −2 dt(u) of an absorbing layer the wall takes energy; without it, it gives some."""
    terms = {
        "lap": lap(u),
        "absorbs": cf.on("wall", -dt(u)),
        "feeds": cf.on("wall", k * dt(u)),
    }
    walls = [cf.Neumann(u, 0, on="wall"), cf.Dirichlet(u, 0, on="untagged")]
    given = (terms, {"lap": 1.0, "absorbs": 2.0, "feeds": 1.0})
    for values, cause in (({"left": 1, "right": -1}, "backward"), ({"left": 0, "right": 1}, "")):
        with model_of(*given, {k: values}, anchor=dt(dt(u)), boundary=walls) as model:
            assert model.deletions(["absorbs"])["absorbs"].cause == cause
            assert model.deletions(["feeds"])["feeds"].status == "solved"


def test_a_steady_equation_keeps_its_values_with_either_sign():
    domain = halves()
    terms = {"lap": lap(u), "more": div(k * grad(u)), "u": u}
    experiment = cf.Experiment(
        mesh=domain,
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1},
        known={k: {"left": -0.1, "right": -0.05}},
    )
    library = cf.Library(terms=terms, unknown=u)
    with cf.Model(library, {"lap": 0.3, "more": 1.0, "u": -1.0}, experiment) as model:
        found = model.deletions(["lap"])["lap"]
        assert found.conditions == ""
        kept = model.deletions(["lap"], conditions="kept")["lap"]
    assert found.score == pytest.approx(kept.score, rel=1e-12)


def judged_on_ranks(comm):
    terms = {"lap": lap(u), "more": div(k * grad(u))}
    domain = halves(comm)
    given = {k: {"left": 0.1, "right": -0.1}}
    with model_of(terms, {"lap": 0.3, "more": 1.0}, given, domain=domain) as model:
        found = model.deletions(groups=1)
        assert found["lap"].cause == "backward"
        assert found["more"].status == "solved"


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_signs_on_ranks(on_ranks, ranks):
    on_ranks(ranks, judged_on_ranks)
