"""Deletions in a subdomain and in a part of the window, against plain DOLFINx, exact solutions and
separate solves.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
import ufl

pytest.importorskip("dolfinx")

from dolfinx import fem
from dolfinx.fem.petsc import assemble_matrix, assemble_vector
from dolfinx.mesh import create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, x, y

u = cf.ScalarField("u")


def halves(comm, n=8):
    """A square with a western and an eastern half."""
    return cf.mesh.named(
        create_unit_square(comm, n, n),
        cells={"west": lambda p: p[0] < 0.5 + 1e-9, "east": lambda p: p[0] > 0.5 - 1e-9},
    )


def steady(comm=MPI.COMM_SELF):
    library = cf.Library(terms={"lap": lap(u), "drag": -u, "wind": u.diff(x)}, unknown=u)
    experiment = cf.Experiment(
        mesh=halves(comm),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1},
    )
    return cf.Model(library, {"lap": 1.0, "drag": 30.0, "wind": 2.0}, experiment)


def by_hand(model, diffusion, drag):
    """The same problem in plain DOLFINx with coefficients by cell."""
    domain = model.discretisation.domain
    mesh = domain.mesh
    space = fem.functionspace(mesh, ("Lagrange", 2))
    constant = fem.functionspace(mesh, ("DG", 0))
    found = []
    for values in (diffusion, drag):
        coefficient = fem.Function(constant)
        for name, value in values.items():
            cells = domain.cell_tags.find(domain.names[name][1])
            coefficient.x.array[cells] = value
        coefficient.x.scatter_forward()
        found.append(coefficient)
    k, c = found
    a, v = ufl.TrialFunction(space), ufl.TestFunction(space)
    form = (k * ufl.inner(ufl.grad(a), ufl.grad(v)) + c * a * v - 2.0 * a.dx(0) * v) * ufl.dx
    facets = mesh.topology
    facets.create_connectivity(1, 2)
    from dolfinx.mesh import exterior_facet_indices

    dofs = fem.locate_dofs_topological(space, 1, exterior_facet_indices(facets))
    condition = fem.dirichletbc(0.0, dofs, space)
    matrix = assemble_matrix(fem.form(form), bcs=[condition])
    matrix.assemble()
    right = assemble_vector(fem.form(1.0 * v * ufl.dx))
    from petsc4py import PETSc

    right.ghostUpdate(PETSc.InsertMode.ADD, PETSc.ScatterMode.REVERSE)
    fem.petsc.set_bc(right, [condition])
    solver = PETSc.KSP().create(mesh.comm)
    solver.setOperators(matrix)
    solver.setType("preonly")
    solver.getPC().setType("lu")
    result = fem.Function(space)
    solver.solve(right, result.x.petsc_vec)
    result.x.scatter_forward()
    return result


@pytest.mark.parametrize(
    ("change", "diffusion", "drag"),
    [
        (cf.delete("drag", on="west"), (1.0, 1.0), (0.0, 30.0)),
        (cf.delete("drag", on=("west", "east")), (1.0, 1.0), (0.0, 0.0)),
        (cf.scale("drag", 0.5) & cf.delete("drag", on="east"), (1.0, 1.0), (15.0, 0.0)),
        (cf.delete("drag") & cf.scale("lap", 2.0), (2.0, 2.0), (0.0, 0.0)),
    ],
)
def test_a_term_deleted_in_a_subdomain_is_a_coefficient_that_vanishes_there(
    change, diffusion, drag
):
    with steady() as model:
        names = ("west", "east")
        plain = by_hand(
            model, dict(zip(names, diffusion, strict=True)), dict(zip(names, drag, strict=True))
        )
        found = model.solve(change).function(u)
        error = fem.assemble_scalar(fem.form((plain - found) ** 2 * ufl.dx))
        size = fem.assemble_scalar(fem.form(plain**2 * ufl.dx))
        assert np.sqrt(error / size) < 1e-10
        # The sweep by differences gives the same.
        sweep = model.interventions({"part": change}, accuracy=1e-6)
        exact = model.factual.distance(model.solve(change))
        assert sweep["part"].score == pytest.approx(exact, rel=1e-6)


def test_parts_add_up_to_the_whole():
    with steady() as model:
        whole = model.solve(cf.delete("drag"))
        both = model.solve(cf.delete("drag", on=("west", "east")))
        assert whole.distance(both) < 1e-12 * whole.norm()
        assert model.active == ("lap", "drag", "wind")


def decay(steps=16, scheme=None, comm=MPI.COMM_SELF):
    """u' = −2 u − 3 u from 1, constant in space."""
    library = cf.Library(dt(u), {"a": -u, "b": lap(u) - u})
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(comm, 0.25),
        elements={u: ("Lagrange", 1)},
        initial={u: 1},
        boundary=[cf.Neumann(u, 0)],
        time=cf.Window(0, 2, steps=steps, scheme=scheme),
    )
    return cf.Model(library, {"a": 2.0, "b": 3.0}, experiment)


@pytest.mark.parametrize("scheme", [None, "sdirk2"])
def test_a_deletion_in_a_part_of_the_window_keeps_the_order_of_the_scheme(scheme):
    """u = e^{−5t} but for (0.5, 1), where it is e^{−3t}."""
    errors = []
    for steps in (16, 32):
        with decay(steps, scheme) as model:
            found = model.solve(cf.delete("a", during=(0.5, 1)))
            exact = [np.exp(-5 * t + 2 * np.clip(t - 0.5, 0, 0.5)) for t in model.times]
            values = [state.mean() for state in found.states]
            errors.append(np.abs(np.array(values) - exact).max())
            same = model.factual
            assert abs(same.states[steps // 4][0] - found.states[steps // 4][0]) < 1e-13
    assert 3.5 < errors[0] / errors[1] < 4.6


def test_a_deletion_during_the_whole_window_is_the_deletion():
    with decay() as model:
        whole, timed = (model.solve(cf.delete("a", **o)) for o in ({}, {"during": (0, 2)}))
        assert whole.distance(timed) < 1e-12
        spells = cf.delete("a", during=(0, 1)) & cf.delete("b", during=(1, 2))
        found = model.solve(spells)
        assert found.states[-1][0] == pytest.approx(
            model.solve(cf.delete("a")).states[8][0] * model.solve(cf.delete("b")).states[8][0],
            rel=1e-12,
        )


def test_steps_that_miss_the_ends_are_refused_with_the_number_that_hits_them():
    with decay() as model, pytest.raises(cf.InputError, match="take 20 steps"):
        model.solve(cf.delete("a", during=(0.1, 1)))
    with decay() as model, pytest.raises(cf.InputError, match="outside of the window"):
        model.solve(cf.delete("a", during=(3, 4)))
    with steady() as model, pytest.raises(cf.InputError, match="no times"):
        model.solve(cf.delete("drag", during=(0, 1)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (cf.delete("drag", on="wast"), "west"),
        (cf.delete("dreg", on="west"), "drag"),
        (cf.delete("drag", on="west") & cf.boundary(cf.Dirichlet(u, 1)), "one of them at a time"),
    ],
)
def test_what_cannot_be_deleted_in_a_part_is_refused(change, said):
    with steady() as model, pytest.raises(cf.InputError, match=said):
        model.solve(change)


@pytest.mark.parametrize("given", [{"on": ""}, {"during": (1, 0)}, {"during": 3}, {"on": ()}])
def test_what_is_no_part_is_refused(given):
    with pytest.raises(cf.InputError):
        cf.delete("drag", **given)


def parts(comm):
    """Scores in parts on any number of ranks."""
    library = cf.Library(dt(u), {"lap": lap(u), "drag": -u})
    experiment = cf.Experiment(
        mesh=halves(comm),
        elements={u: ("Lagrange", 1)},
        initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.2, steps=8),
    )
    changes = {
        "part": cf.delete("drag", on="west"),
        "time": cf.delete("drag", during=(0.05, 0.1)),
        "both": cf.delete("drag", on="east", during=(0.1, 0.2)),
        "group": cf.delete("drag", "lap"),
    }
    with cf.Model(library, {"lap": 0.2, "drag": 3.0}, experiment) as model:
        found = model.interventions(changes)
        for name, change in changes.items():
            exact = model.factual.distance(model.solve(change))
            assert found[name].score == pytest.approx(exact, rel=1e-10)
        return [deletion.score for deletion in found.values()]


def body_of_parts(comm):
    np.testing.assert_allclose(parts(comm), parts(MPI.COMM_SELF), rtol=1e-9)


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [2, 3])
def test_parts_do_not_depend_on_the_number_of_ranks(on_ranks, ranks):
    on_ranks(ranks, body_of_parts)


def test_a_study_asks_about_parts(tmp_path):
    """Bars, verdicts and maps of partial deletions; the window gets the steps that it needs."""
    library = cf.Library(dt(u), {"lap": lap(u), "drag": -u})
    experiment = cf.Experiment(
        mesh=halves(MPI.COMM_SELF, 4),
        elements={u: ("Lagrange", 2)},
        initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.3, steps=4),
    )
    report = cf.Study(
        library,
        experiment,
        coefficients={"lap": 0.1, "drag": 3.0},
        interventions={
            "no drag in the west": cf.delete("drag", on="west"),
            "no drag at first": cf.delete("drag", during=(0, 0.1)),
        },
        certification=cf.Certification(epsilon=1e-2),
    ).run(out=tmp_path / "out")
    assert report.sections["scope"]["experiment"]["window"] == [0.0, 0.3, 6]
    assert "6 time steps instead of 4" in report.sections["scope"]["sentence"]
    for found in report.interventions.values():
        assert found.certificate == "estimated"
        assert found.decision == "relevant"
        assert 0 < found.margin < found.score
    assert report.maps["no drag in the west"].subdomain == "west"
