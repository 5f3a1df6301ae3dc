"""Deletion with refitting: aliased terms stand in for each other, independent ones cannot,
and nothing else moves.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from cffem import x, y

u, v = cf.ScalarField("u"), cf.ScalarField("v")


def heat(initial, terms, coefficients, steps=6):
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, 8, 8),
        elements={u: ("Lagrange", 2)},
        initial={u: initial},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.3, steps=steps),
    )
    return cf.Model(cf.Library(anchor=cf.dt(u), terms=terms), coefficients, experiment)


MODE = sp.sin(sp.pi * x) * sp.sin(sp.pi * y)
TERMS = {"u": u, "u_x": u.diff(x), "lap": cf.lap(u)}


def test_terms_that_coincide_on_the_solution_stand_in_for_each_other():
    """A solution that does not depend on y drifts along x and along the diagonal alike,
    exactly so on a mesh of rectangles.
    """
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, 8, 4, mesh.CellType.quadrilateral),
        elements={u: ("Lagrange", 2)},
        initial={u: 1 + sp.cos(sp.pi * x)},
        boundary=[cf.Neumann(u, 0)],
        time=cf.Window(0, 0.3, steps=6),
    )
    library = cf.Library(
        anchor=cf.dt(u),
        terms={"u_x": u.diff(x), "diagonal": u.diff(x) + u.diff(y), "lap": cf.lap(u)},
    )
    with cf.Model(library, {"u_x": 0.3, "diagonal": 0.2, "lap": 0.1}, experiment) as model:
        assert model.refitted("u_x") == pytest.approx(
            {"u_x": 0.0, "diagonal": 0.5, "lap": 0.1}, rel=1e-8
        )
        kept, refitted = (
            model.deletions(["u_x"])["u_x"],
            model.deletions(["u_x"], refit="remaining")["u_x"],
        )
        assert kept.score > 1e-2
        assert refitted.score < 1e-8
        assert refitted.intervention.deleted == ("u_x",)
        assert "diagonal" in refitted.intervention.names


def test_on_a_single_mode_the_laplacian_is_a_reaction_and_on_two_modes_it_is_not():
    """lap u = −2π² u for one mode of heat: the experiment cannot tell the two terms apart,
    and refitting shows it.
    """
    terms, coefficients = {"u": u, "lap": cf.lap(u)}, {"u": 0.6, "lap": 0.1}
    with heat(MODE, terms, coefficients) as model:
        assert model.refitted("u")["lap"] == pytest.approx(0.1 - 0.6 / (2 * np.pi**2), rel=2e-2)
        assert (
            model.deletions(["u"], refit="remaining")["u"].score
            < 0.02 * model.deletions(["u"])["u"].score
        )
    two = MODE + sp.sin(3 * sp.pi * x) * sp.sin(2 * sp.pi * y)
    with heat(two, terms, coefficients) as model:
        assert (
            model.deletions(["u"], refit="remaining")["u"].score
            > 0.2 * model.deletions(["u"])["u"].score
        )


def test_the_change_is_the_least_squares_one():
    """The Gram matrix of rows made by the design wing's own route, strong values at
    quadrature points, gives the same change.
    """
    with heat(
        MODE + x * y * (1 - x) * (1 - y), TERMS, {"u": 0.6, "u_x": 0.3, "lap": 0.05}, steps=48
    ) as model:
        rows = list(model.factual.rows(model.library, "strong"))
        A, w = np.concatenate([r.A for r in rows]), np.concatenate([r.weights for r in rows])
        names = list(model.library.names)
        j, rest = names.index("u_x"), [names.index("u"), names.index("lap")]
        root = np.sqrt(w)[:, None]
        change = np.linalg.lstsq(root * A[:, rest], (root * A[:, [j]]) * 0.3, rcond=None)[0].ravel()
        found = model.refitted("u_x")
        # Rows are taken in the middle of the steps, the scores integrate between the levels: equal
        # up to Δt².
        for k, value in zip(rest, change, strict=True):
            assert found[names[k]] == pytest.approx(model.coefficients[names[k]] + value, rel=2e-3)


def test_one_s_own_coefficients_are_used_and_checked():
    with heat(MODE, TERMS, {"u": 0.6, "u_x": 0.3, "lap": 0.05}) as model:
        own = {"u": {"lap": 0.02, "u_x": 0.3}}
        deletion = model.deletions(["u"], refit=own)["u"]
        alone = model.solve([cf.delete("u"), cf.set("lap", 0.02)])
        assert deletion.score == pytest.approx(model.factual.distance(alone), rel=1e-12)
        with pytest.raises(cf.InputError, match="'lap' are missing"):
            model.deletions(["u", "lap"], refit=own)
        with pytest.raises(cf.InputError, match="unknown refit"):
            model.deletions(["u"], refit="some")
        with pytest.raises(ValueError, match="finite"):
            model.deletions(["u"], refit={"u": {"lap": float("nan")}})


def test_only_terms_of_the_same_equation_are_refitted():
    system = cf.System(
        {
            "u": cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u)}),
            "v": cf.Library(anchor=cf.dt(v), terms={"u": u, "v": v, "lap": cf.lap(v)}),
        }
    )
    coefficients = {"u/u": 0.6, "u/lap": 0.1, "v/u": 1.0, "v/v": 0.2, "v/lap": 0.1}
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, 6, 6),
        elements={u: ("Lagrange", 2), v: ("Lagrange", 2)},
        initial={u: MODE, v: MODE},
        boundary=[cf.Dirichlet(u, 0), cf.Dirichlet(v, 0)],
        time=cf.Window(0, 0.2, steps=4),
    )
    with cf.Model(system, coefficients, experiment) as model:
        found = model.refitted("u/u")
        assert {name for name in coefficients if found[name] != coefficients[name]} == {
            "u/u",
            "u/lap",
        }
