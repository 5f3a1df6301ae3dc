"""Nonlinear conservation laws of discontinuous fields by the Lax–Friedrichs flux: bounds, shocks,
orders, plain DOLFINx, shallow water.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

import ufl
from dolfinx import fem
from engine_support import assert_order, error, forcing, unit
from mpi4py import MPI
from plain_newton import plain, tag

import cffem as cf
from cffem import dt, grad, lap, x, y
from cffem.forms.conservation_laws import conservation_form, spectral_bounds, speed_matrix

u, h, q = cf.ScalarField("u"), cf.ScalarField("h"), cf.ScalarField("q")
Q = cf.VectorField("Q", dim=2)
slow = pytest.mark.slow


def riemann(left, right, degree=0):
    """Burgers' equation from one value to another."""
    experiment = cf.Experiment(
        mesh=unit("interval", 50),
        elements={u: ("DG", degree)},
        initial={u: sp.Piecewise((left, x < 0.5), (right, True))},
        boundary=[cf.Dirichlet(u, left, on="left"), cf.Dirichlet(u, right, on="right")],
        time=cf.Window(0, 0.3, steps=60, scheme="backward-euler"),
    )
    return cf.Model(cf.Library(anchor=dt(u), terms={"b": -u * u.diff(x)}), {"b": 1.0}, experiment)


def test_shocks_and_rarefactions_keep_their_bounds_and_places():
    """A shock runs with the mean of both values; 0 → 1 spreads and is no shock."""
    for left, right, mean in ((1, 0, 0.65), (0, 1, 0.35)):
        model = riemann(left, right)
        values = model.factual.function().x.array
        assert -1e-12 <= values.min() <= values.max() <= 1 + 1e-12
        assert values.mean() == pytest.approx(mean, abs=2e-3)
    assert np.abs(np.diff(np.sort(values))).max() < 0.1
    assert model.notes == ("b: the flux between cells is that of Lax and Friedrichs",)


EXACT = sp.sin(2 * x + y) + 2


@pytest.mark.parametrize(
    ("cell", "degree"),
    [("interval", 1), *(pytest.param(c, k, marks=slow) for c, k in [
        ("interval", 0), ("interval", 2), ("triangle", 1), ("quadrilateral", 1)])],
)  # fmt: skip
def test_smooth_solutions_converge_with_order_k_plus_a_half(cell, degree):
    dim = 1 if cell == "interval" else 2
    exact = EXACT.subs(y, 0) if dim == 1 else EXACT
    flux = -((u**2) / 2).diff(x) - ((u**3 / 3).diff(y) if dim == 2 else 0)
    library = cf.Library(terms={"flux": flux, "u": -u}, unknown=u)
    given = {"flux": 1.0, "u": 1.0}

    def at(n):
        experiment = cf.Experiment(
            mesh=unit(cell, n),
            elements={u: ("DG", degree)},
            boundary=[cf.Dirichlet(u, exact)],
            forcing=forcing(library, given, {u: exact}, dim),
        )
        return error(cf.Model(library, given, experiment).solve().function(), exact)

    assert_order([at(n) for n in (8, 16)], degree + 0.5)


def test_the_solution_is_that_of_plain_dolfinx():
    """Viscous Burgers in the plane: Lax–Friedrichs with interior penalty, and each deleted."""
    terms = {"flux": -u * u.diff(x) - u**2 * u.diff(y), "d": lap(u), "u": -u}
    library, domain = cf.Library(terms=terms, unknown=u), unit("triangle", 3)
    experiment = cf.Experiment(
        mesh=domain,
        elements={u: ("DG", 1)},
        boundary=[cf.Dirichlet(u, x + 1)],
        forcing={u: 2 + y},
    )
    model = cf.Model(library, {"flux": 1.0, "d": 0.2, "u": 1.0}, experiment)

    def by_hand(*numbers):
        # A plain zero would leave integrals without a mesh.
        carried, slope = (fem.Constant(domain.mesh, number) for number in numbers)

        def residual(a, b, place, ds):
            n, ds = ufl.FacetNormal(domain.mesh), ds(tuple(tag(domain, s) for s in SIDES))
            flux = lambda w: carried * ufl.dot(ufl.as_vector((w**2 / 2, w**3 / 3)), n)  # noqa: E731
            speed = lambda w: carried * abs(w * n[0] + w**2 * n[1])  # noqa: E731
            given = place[0] + 1
            edges = [ufl.Jacobian(domain.mesh) * ufl.as_vector(e) for e in EDGES]
            tau = 3 * sum(ufl.sqrt(ufl.dot(e, e)) for e in edges) / ufl.CellVolume(domain.mesh)
            top = ufl.max_value(speed(a)("+"), speed(a)("-"))
            form = (a - 2 - place[1]) * b * ufl.dx
            form -= carried * ufl.dot(ufl.as_vector((a**2 / 2, a**3 / 3)), ufl.grad(b)) * ufl.dx
            mean = flux(a)("+") - flux(a)("-")
            form += 0.5 * (mean + top * ufl.jump(a)) * ufl.jump(b) * ufl.dS
            beyond = ufl.max_value(speed(a), speed(given)) * (a - given)
            form += 0.5 * (flux(a) + flux(given) + beyond) * b * ds
            form += slope * ufl.dot(ufl.grad(a), ufl.grad(b)) * ufl.dx
            form -= slope * ufl.dot(ufl.avg(ufl.grad(a)), ufl.jump(b, n)) * ufl.dS
            form -= slope * ufl.dot(ufl.avg(ufl.grad(b)), ufl.jump(a, n)) * ufl.dS
            form += slope * ufl.avg(tau) * ufl.jump(a) * ufl.jump(b) * ufl.dS
            form -= slope * ufl.dot(ufl.grad(a), n) * b * ds
            form -= slope * (ufl.dot(ufl.grad(b), n) - 2 * tau * b) * (a - given) * ds
            return form

        return plain(domain, ("DG", 1), residual, ())

    for change, numbers in (((), (1.0, 0.2)), (cf.delete("flux"), (0.0, 0.2))):
        found = model.solve(change).function()
        assert np.abs(found.x.array - by_hand(*numbers).x.array).max() < 1e-9


SIDES, EDGES = ("left", "right", "bottom", "top"), ((1.0, 0.0), (0.0, 1.0), (-1.0, 1.0))


def water(comm=MPI.COMM_SELF, n=40, steps=20):
    """A hump of water between walls."""
    system = cf.System(
        {
            h: cf.Library(anchor=dt(h), terms={"q": -q.diff(x)}),
            q: cf.Library(
                anchor=dt(q), terms={"flux": -(q**2 / h).diff(x), "p": -(h**2 / 2).diff(x)}
            ),
        }
    )
    experiment = cf.Experiment(
        mesh=unit("interval", n, comm),
        elements={h: ("DG", 1), q: ("DG", 1)},
        initial={h: 1 + sp.exp(-50 * (x - sp.Rational(1, 2)) ** 2) / 5, q: 0},
        boundary=[cf.Dirichlet(q, 0)],
        time=cf.Window(0, 0.3, steps=steps),
    )
    return cf.Model(system, {"h/q": 1.0, "q/flux": 1.0, "q/p": 9.81}, experiment)


def scores(comm):
    found = {name: d.score for name, d in water(comm).deletions().deletions.items()}
    if comm.rank == 0:
        print("scores", json.dumps(found))
    return found


def test_shallow_water_keeps_its_mass_and_says_what_stays():
    model = water()
    masses = [model.measurement(cf.Integral(h, at=at)).value(model.factual) for at in (0.0, "end")]
    assert masses[1] == pytest.approx(masses[0], abs=1e-12)
    assert "by the largest speed of h, q with the factual coefficients" in model.notes[1]
    for name in ("q/flux", "q/p"):
        assert cf.taylor_linearised(model, name).passed()


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=slow), pytest.param(3, marks=slow)])
def test_shallow_water_on_ranks(ranks, on_ranks):
    here = scores(MPI.COMM_SELF)
    assert json.loads(on_ranks(ranks, scores).split("scores ")[1]) == pytest.approx(here, rel=1e-8)


def test_speeds_of_shallow_water_are_exact():
    gravity = sp.Rational(981, 100)
    terms = {
        h: [(1.0, -cf.div(Q))],
        Q: [(1.0, -cf.div(cf.outer(Q, Q) / h)), (9.81, -grad(h**2 / 2))],
    }
    bounds = spectral_bounds(speed_matrix(terms, 2))
    along = (cf.n[0] * Q[0] + cf.n[1] * Q[1]) / h
    assert len(bounds) == 2
    assert all(sp.simplify(a - along) == 0 for a, _ in bounds)
    wave = next(b for _, b in bounds if b != 0)
    assert sp.simplify(wave - gravity * h * (cf.n[0] ** 2 + cf.n[1] ** 2)) == 0


def test_fluxes_are_found_by_integration():
    found = conservation_form(-(q**2 / h + h**2 / 2).diff(x), [h, q], 1)
    assert found.fluxes == ((-(q**2) / h - h**2 / 2,),)
    assert conservation_form(-h * q.diff(x), [h, q], 1) is None
    moving = conservation_form(-(x * u**2).diff(x), [u], 1)
    assert moving.fluxes == ((-x * u**2,),)
    assert moving.rest == (0,)


def test_values_of_the_other_side_are_asked_for():
    experiment = cf.Experiment(
        mesh=unit("interval", 4),
        elements={u: ("DG", 1)},
        initial={u: 1},
        boundary=[cf.Dirichlet(u, 1, on="left")],
        time=cf.Window(0, 1, steps=2),
    )
    library = cf.Library(anchor=dt(u), terms={"b": -u * u.diff(x)})
    with pytest.raises(cf.InputError, match=r"boundary part 'right' needs values of the other"):
        cf.Model(library, {"b": 1.0}, experiment)
