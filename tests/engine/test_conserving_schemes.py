"""The scheme of fourth order that conserves the energy of waves and of Maxwell's equations."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
import ufl
from dolfinx import fem
from dolfinx.mesh import create_unit_cube, create_unit_interval
from mpi4py import MPI

import cffem as cf
from cffem import curl, dt, lap, t, x, y

u = cf.ScalarField("u")
E = cf.VectorField("E", dim=3)
WAVES = cf.Library(anchor=dt(dt(u)), terms={"lap": lap(u), "drag": -dt(u), "mass": -u})


def string(steps: int, coefficients, exact=None, scheme="midpoint4") -> cf.Model:
    shape = sp.sin(sp.pi * x) * sp.cos(sp.pi * t) if exact is None else exact
    forcing = {} if exact is None else {u: exact.diff(t, 2) - exact.diff(x, 2)}
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 8),
        elements={u: ("Lagrange", 5)},
        boundary=[cf.Dirichlet(u, 0 if exact is None else exact)],
        initial={u: shape.subs(t, 0), dt(u): shape.diff(t).subs(t, 0)},
        forcing=forcing,
        time=cf.Window(0, 1.3, steps, scheme),
    )
    return cf.Model(WAVES, coefficients, experiment)


def energies(model: cf.Model, stiffness) -> np.ndarray:
    """½‖u̇‖² + ½a(u, u) at all levels, by matrices of DOLFINx."""
    space = model.spaces.space
    trial, test = ufl.TrialFunction(space), ufl.TestFunction(space)
    forms = (ufl.inner(trial, test) * ufl.dx, stiffness(trial, test) * ufl.dx)
    mass, stiff = (fem.assemble_matrix(fem.form(form)).to_dense() for form in forms)
    solution = model.solve()
    assert solution.velocities is not None
    pairs = zip(solution.states, solution.velocities, strict=True)
    return np.array([v @ mass @ v / 2 + w @ stiff @ w / 2 for w, v in pairs])


def error(model: cf.Model, exact) -> float:
    function = model.solve().function(u)
    nodes = function.function_space.tabulate_dof_coordinates()[:, 0]
    return float(np.abs(function.x.array - sp.lambdify(x, exact.subs(t, 1.3))(nodes)).max())


def test_the_energy_of_a_string_is_conserved_to_rounding():
    model = string(12, {"lap": 1.0, "mass": 2.0})
    found = energies(model, lambda a, b: ufl.inner(ufl.grad(a), ufl.grad(b)) + 2 * ufl.inner(a, b))
    assert np.ptp(found) <= 1e-11 * found[0]


def test_waves_converge_with_order_four_where_boundary_values_move_too():
    plain = sp.sin(sp.pi * x) * sp.cos(sp.pi * t)
    moving = sp.sin(2 * x + 1) * sp.cos(3 * t + x)
    for exact, own in ((plain, None), (moving, moving)):
        coarse, fine = (error(string(steps, {"lap": 1.0}, own), exact) for steps in (10, 20))
        assert np.log2(coarse / fine) > 3.8
        assert fine < error(string(100, {"lap": 1.0}, own, "midpoint"), exact) / 10


def test_maxwell_in_a_box():
    library = cf.Library(anchor=dt(dt(E)), terms={"curl curl": -curl(curl(E))})
    mode = sp.sin(sp.pi * x) * sp.sin(sp.pi * y)
    frequency = float(np.sqrt(2) * np.pi)
    ends = []
    for steps in (8, 16, 32):
        experiment = cf.Experiment(
            mesh=create_unit_cube(MPI.COMM_SELF, 2, 2, 1),
            elements={E: ("N1curl", 2)},
            boundary=[cf.Tangential(E, (0, 0, 0))],
            initial={E: (0, 0, mode), dt(E): (0, 0, 0)},
            time=cf.Window(0, 2 / frequency, steps, "midpoint4"),
        )
        model = cf.Model(library, {"curl curl": 1.0}, experiment)
        found = energies(model, lambda a, b: ufl.inner(ufl.curl(a), ufl.curl(b)))
        assert np.ptp(found) <= 1e-11 * found[0]
        ends.append(model.factual.states[-1])
    gaps = [np.abs(a - b).max() for a, b in zip(ends[1:], ends[:-1], strict=True)]
    assert np.log2(gaps[0] / gaps[1]) > 3.7


def test_derivatives_and_cheap_sweeps_of_parts_that_go_back():
    model = string(6, {"lap": 1.0, "mass": 2.0, "drag": 0.05})
    assert cf.taylor_linearised(model, "mass").order == pytest.approx(2, abs=0.1)
    observable = cf.Integral(u * x, at="window")
    assert cf.taylor_observable(model, observable, "drag").order == pytest.approx(2, abs=0.1)
    exact, cheap = model.deletions(), model.deletions(accuracy=1e-6)
    for name, deletion in exact.items():
        assert cheap[name].score == pytest.approx(deletion.score, rel=1e-5)


def test_a_nonlinear_wave():
    library = cf.Library(anchor=dt(dt(u)), terms={"lap": lap(u), "cubic": -(u**3)})
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 6),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: 2 * sp.sin(sp.pi * x), dt(u): 0},
        time=cf.Window(0, 1, 5, "midpoint4"),
    )
    model = cf.Model(library, {"lap": 1.0, "cubic": 1.0}, experiment)
    assert cf.taylor_linearised(model, "cubic").order == pytest.approx(2, abs=0.1)
    exact, cheap = model.deletions(["cubic"]), model.deletions(["cubic"], accuracy=1e-5)
    assert cheap["cubic"].score == pytest.approx(exact["cubic"].score, rel=1e-4)


def test_diffusion_and_algebraic_fields_are_refused():
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 8),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: sp.sin(sp.pi * x)},
        time=cf.Window(0, 1, 10, "midpoint4"),
    )
    model = cf.Model(cf.Library(anchor=dt(u), terms={"lap": lap(u)}), {"lap": 1.0}, experiment)
    with pytest.raises(cf.InputError, match="goes back in time"):
        model.solve()
    with pytest.raises(cf.InputError, match="goes back in time"):
        string(5, {"lap": 1.0, "drag": 9.0}).solve()
    w = cf.ScalarField("w")
    first = cf.Library(anchor=dt(u), terms={"w": w})
    system = cf.System({u: first, w: cf.Library(terms={"u": u, "own": w}, unknown=w)})
    both = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 4),
        elements={u: ("Lagrange", 1), w: ("Lagrange", 1)},
        boundary=[cf.Natural(u, 0), cf.Natural(w, 0)],
        initial={u: 1},
        time=cf.Window(0, 1, 10, "midpoint4"),
    )
    with pytest.raises(cf.InputError, match="all have time derivatives"):
        cf.Model(system, {"u/w": 1.0, "w/u": 1.0, "w/own": 1.0}, both)
