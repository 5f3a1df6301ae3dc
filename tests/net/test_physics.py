"""Problems of physics with known answers: flows, convection, a beam, layers of rock, fields
in a box.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
import ufl
from dolfinx import fem, mesh
from mpi4py import MPI
from net_meshes import small_mesh, tagged

import cffem as cf
from cffem import curl, div, dot, dt, grad, lap, t, x, y
from cffem._compat import form
from cffem.engine.mesh.meshes import MeshData

v, q, E = (cf.VectorField(name, dim=2) for name in ("v", "q", "E"))
p, T = cf.ScalarField("p"), cf.ScalarField("T")
INCOMPRESSIBLE = cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)})
PI = float(np.pi)


def box(width, height, columns, rows, cell="triangle", origin=(0.0, 0.0)):
    """A rectangle with named sides."""
    made = mesh.create_unit_square(MPI.COMM_SELF, columns, rows, getattr(mesh.CellType, cell))
    data = MeshData(made, None, *tagged(made))
    made.geometry.x[:, :2] = made.geometry.x[:, :2] * (width, height) + np.array(origin)
    return data


def integral(integrand, function):
    domain = function.function_space.mesh
    return fem.assemble_scalar(form(integrand * ufl.dx(domain=domain), domain.comm))


def error(function, exact, time=0.0):
    """The L2 distance from an exact solution, interpolated two degrees higher."""
    space = function.function_space
    shape = tuple(function.ufl_shape)
    rich = fem.Function(fem.functionspace(space.mesh, ("DG", 4, shape) if shape else ("DG", 4)))
    parts = [sp.lambdify((x, y, t), c, "numpy") for c in (exact if shape else (exact,))]

    def values(points):
        rows = np.array(
            [np.broadcast_to(f(points[0], points[1], time), points.shape[1:]) for f in parts]
        )
        return rows if shape else rows[0]

    rich.interpolate(values)
    gap = rich - function
    return float(np.sqrt(integral(ufl.inner(gap, gap), function)))


@pytest.mark.parametrize("cell", ["triangle", "quadrilateral"])
def test_couette_and_poiseuille_flow_add_up_and_the_pressure_falls_downstream(cell):
    """v = (y + G y (1 − y)/(2ν), 0) and p = G (L − x) between a wall and one that moves, with
    a free end.
    """
    length, nu, fall = 2.0, 0.3, 0.8
    flow = (y + fall / (2 * nu) * y * (1 - y), 0)
    experiment = cf.Experiment(
        mesh=box(length, 1.0, 4, 2, cell),
        elements={v: ("Lagrange", 2)},
        boundary=[
            cf.Dirichlet(v, flow, on=("left", "bottom", "top")),
            cf.Neumann(v, 0, on="right"),
        ],
        constraint=INCOMPRESSIBLE,
    )
    library = cf.Library(terms={"convection": -dot(grad(v), v), "viscosity": lap(v)}, unknown=v)
    with cf.Model(library, {"convection": 1.0, "viscosity": nu}, experiment) as model:
        solution = model.solve()
        assert error(solution.function(), flow) < 1e-10
        assert error(solution.multiplier(), fall * (length - x)) < 1e-9


def test_couette_flow_starts_up_as_the_series_says():
    """A lid that begins to move: the velocity in the middle of the gap against the Fourier
    series.
    """
    nu, end = 1.0, 0.1
    u = cf.ScalarField("u")
    interval = mesh.create_unit_interval(MPI.COMM_SELF, 32)
    data = MeshData(interval, None, *tagged(interval))
    experiment = cf.Experiment(
        mesh=data,
        elements={u: ("Lagrange", 2)},
        initial={u: 0},
        boundary=[cf.Dirichlet(u, 0, on="left"), cf.Dirichlet(u, 1, on="right")],
        time=cf.Window(0, end, steps=40, scheme="sdirk2"),
    )
    with cf.Model(
        cf.Library(anchor=dt(u), terms={"viscosity": lap(u)}), {"viscosity": nu}, experiment
    ) as model:
        found = model.solve().function()
    middle = found.x.array[np.isclose(found.function_space.tabulate_dof_coordinates()[:, 0], 0.5)]
    k = np.arange(1, 60)
    series = 0.5 + np.sum(
        2 / (k * PI) * (-1.0) ** k * np.exp(-nu * (k * PI) ** 2 * end) * np.sin(k * PI / 2)
    )
    assert middle == pytest.approx(series, rel=1e-3)


def taylor_green(n, steps):
    """Errors of velocity and pressure of the vortices at the end, on a torus."""
    nu, end = 0.05, 0.5
    decay = sp.exp(-2 * nu * t)
    flow = (sp.sin(x) * sp.cos(y) * decay, -sp.cos(x) * sp.sin(y) * decay)
    pressure = (sp.cos(2 * x) + sp.cos(2 * y)) / 4 * decay**2
    experiment = cf.Experiment(
        mesh=box(2 * PI, 2 * PI, n, n),
        elements={v: ("Lagrange", 2)},
        initial={v: tuple(c.subs(t, 0) for c in flow)},
        boundary=[cf.Periodic(on="right", to="left"), cf.Periodic(on="top", to="bottom")],
        constraint=INCOMPRESSIBLE,
        time=cf.Window(0, end, steps=steps),
    )
    library = cf.Library(anchor=dt(v), terms={"convection": -dot(grad(v), v), "viscosity": lap(v)})
    with cf.Model(library, {"convection": 1.0, "viscosity": nu}, experiment) as model:
        solution = model.solve()
        return error(solution.function(), flow, end), error(solution.multiplier(), pressure, end)


def test_taylor_green_vortices_decay_with_their_pressure():
    coarse, fine = taylor_green(8, 4), taylor_green(16, 8)
    assert fine[0] < 0.05
    assert coarse[0] / fine[0] > 3.5  # the time step is of second order
    assert fine[1] < 0.12
    assert coarse[1] / fine[1] > 2.8


def kovasznay(n):
    """Errors of the flow behind a grid at Reynolds number 40."""
    reynolds = 40
    decay = float(reynolds / 2 - np.sqrt(reynolds**2 / 4 + 4 * np.pi**2))
    flow = (
        1 - sp.exp(decay * x) * sp.cos(2 * sp.pi * y),
        decay / (2 * sp.pi) * sp.exp(decay * x) * sp.sin(2 * sp.pi * y),
    )
    mean = (np.exp(2 * decay * 1.0) - np.exp(-decay)) / (2 * decay) / 1.5
    pressure = (mean - sp.exp(2 * decay * x)) / 2
    experiment = cf.Experiment(
        mesh=box(1.5, 2.0, n, n, origin=(-0.5, -0.5)),
        elements={v: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(v, flow)],
        constraint=INCOMPRESSIBLE,
    )
    library = cf.Library(terms={"convection": -dot(grad(v), v), "viscosity": lap(v)}, unknown=v)
    with cf.Model(library, {"convection": 1.0, "viscosity": 1 / reynolds}, experiment) as model:
        solution = model.solve()
        return error(solution.function(), flow), error(solution.multiplier(), pressure)


def test_kovasznay_flow_is_met_at_the_order_of_the_elements():
    coarse, fine = kovasznay(10), kovasznay(20)
    assert np.log2(coarse[0] / fine[0]) > 2.8
    assert np.log2(coarse[1] / fine[1]) > 1.8
    assert fine[0] < 5e-3
    assert fine[1] < 2e-2


def nusselt(rayleigh, n):
    """The mean Nusselt number of air in a square with a hot and a cold wall, and the solution."""
    prandtl = 0.71
    domain = box(1.0, 1.0, n, n, "quadrilateral")
    # Cells are smaller along the walls.
    points = domain.mesh.geometry.x
    points[:, :2] = (1 - np.cos(np.pi * points[:, :2])) / 2
    system = cf.System(
        {
            v: cf.Library(
                terms={
                    "convection": -dot(grad(v), v),
                    "viscosity": lap(v),
                    "buoyancy": cf.vector(0, T),
                },
                unknown=v,
            ),
            T: cf.Library(terms={"transport": -dot(v, grad(T)), "conduction": lap(T)}, unknown=T),
        }
    )
    experiment = cf.Experiment(
        mesh=domain,
        elements={v: ("Lagrange", 2), T: ("Lagrange", 2)},
        initial={T: 1 - x},
        boundary=[
            cf.Dirichlet(v, 0),
            cf.Dirichlet(T, 1, on="left"),
            cf.Dirichlet(T, 0, on="right"),
            cf.Neumann(T, 0, on=("bottom", "top")),
        ],
        constraint=INCOMPRESSIBLE,
    )
    coefficients = {
        "v/convection": 1.0,
        "v/viscosity": prandtl,
        "v/buoyancy": rayleigh * prandtl,
        "T/transport": 1.0,
        "T/conduction": 1.0,
    }
    with cf.Model(system, coefficients, experiment) as model:
        solution = model.solve()
        flow, heat = solution.function(v), solution.function(T)
        return integral(flow[0] * heat - heat.dx(0), heat)


@pytest.mark.parametrize(("rayleigh", "cells", "published"), [(1e3, 8, 1.1178), (1e4, 12, 2.2448)])
def test_air_between_a_hot_and_a_cold_wall_has_the_published_nusselt_number(
    rayleigh, cells, published
):
    """De Vahl Davis (1983): 1.118 and 2.243; the values here are spectral, by Le Quéré."""
    assert nusselt(rayleigh, cells) == pytest.approx(published, abs=1.5e-3)


def test_a_cantilever_bends_as_the_theory_of_elasticity_says():
    """A beam under a shear load at its end: the cubic displacements of the exact solution are
    in the space.
    """
    young, poisson, length, half, load = 7.0, 0.3, 4.0, 0.5, 0.02
    # Plane stress as plane strain with other constants.
    shear = young / (2 * (1 + poisson))
    lame = young * poisson / (1 - poisson**2)
    inertia = 2 * half**3 / 3
    ux = (
        -load
        * y
        / (6 * young * inertia)
        * ((6 * length - 3 * x) * x + (2 + poisson) * (y**2 - half**2))
    )
    uy = (
        load
        / (6 * young * inertia)
        * (
            3 * poisson * y**2 * (length - x)
            + (4 + 5 * poisson) * half**2 * x
            + (3 * length - x) * x**2
        )
    )
    stress = 2 * shear * cf.sym(grad(v)) + lame * div(v) * grad((x, y))
    # σ_xy = −load/(2I) (c² − y²) in a beam that is bent up; the traction at the end has it along y.
    traction = (0, load / (2 * inertia) * (half**2 - y**2))
    experiment = cf.Experiment(
        mesh=box(length, 2 * half, 6, 2, origin=(0.0, -half)),
        elements={v: ("Lagrange", 3)},
        boundary=[
            cf.Dirichlet(v, (ux, uy), on="left"),
            cf.Neumann(v, traction, on="right"),
            cf.Neumann(v, 0, on=("bottom", "top")),
        ],
    )
    with cf.Model(
        cf.Library(terms={"stress": div(stress)}, unknown=v), {"stress": 1.0}, experiment
    ) as model:
        found = model.solve().function()
    assert error(found, (ux, uy)) < 1e-9
    tip = float(sp.sympify(uy).subs({x: length, y: 0}))
    assert tip == pytest.approx(load * length**3 / (3 * young * inertia), rel=0.05)


@pytest.mark.parametrize("family", ["RT", "BDM"])
def test_layers_of_rock_let_through_the_harmonic_mean(family):
    """Darcy's law with a permeability that jumps by 1e4: the flux is Δp/(h₁/k₁ + h₂/k₂) in
    every cell.
    """
    first, second = 1.0, 1e-4
    resistance = sp.Piecewise((1 / first, x < sp.Rational(1, 2)), (1 / second, True))
    system = cf.System(
        {
            q: cf.Library(terms={"drag": -resistance * q, "push": -grad(p)}, unknown=q),
            p: cf.Library(terms={"balance": -div(q)}, unknown=p),
        }
    )
    experiment = cf.Experiment(
        mesh=box(1.0, 1.0, 4, 2),
        elements={q: (family, 1), p: ("DG", 0)},
        boundary=[
            cf.Dirichlet(p, 3, on="left"),
            cf.Dirichlet(p, 1, on="right"),
            cf.Dirichlet(q, 0, on=("bottom", "top")),
        ],
    )
    with cf.Model(system, {"q/drag": 1.0, "q/push": 1.0, "p/balance": 1.0}, experiment) as model:
        flux = model.solve().function(q)
    expected = 2.0 / (0.5 / first + 0.5 / second)
    assert error(flux, (sp.Float(expected), sp.S.Zero)) < 1e-10 * expected


@pytest.mark.parametrize(("cell", "degree"), [("triangle", 2), ("quadrilateral", 2)])
def test_a_field_decays_between_conducting_walls(cell, degree):
    """dt E = −η curl curl E with E × n = 0: the lowest mode decays as exp(−2π²ηt), its energy
    twice as fast.
    """
    eta, end = 0.1, 0.2
    mode = (sp.cos(sp.pi * x) * sp.sin(sp.pi * y), -sp.sin(sp.pi * x) * sp.cos(sp.pi * y))
    experiment = cf.Experiment(
        mesh=small_mesh(cell, 6),
        elements={E: ("N1curl", degree)},
        initial={E: mode},
        boundary=[cf.Tangential(E, 0)],
        time=cf.Window(0, end, steps=16),
    )
    with cf.Model(
        cf.Library(anchor=dt(E), terms={"decay": -curl(curl(E))}), {"decay": eta}, experiment
    ) as model:
        energy = [
            model.measurement(cf.Energy(E, at=at)).value(model.factual) for at in (0.0, "end")
        ]
    assert energy[1] / energy[0] == pytest.approx(np.exp(-4 * PI**2 * eta * end), rel=2e-3)


@pytest.mark.parametrize(("family", "degree"), [("BDM", 1), ("RT", 2)])
def test_a_flow_between_slippery_walls_decays(family, degree):
    """dt B = −η curl curl B with B·n = 0 and curl B = 0 at the walls: the energy falls to
    0.4540.
    """
    eta, end = 0.1, 0.2
    mode = (sp.sin(sp.pi * x) * sp.cos(sp.pi * y), -sp.cos(sp.pi * x) * sp.sin(sp.pi * y))
    experiment = cf.Experiment(
        mesh=small_mesh("triangle", 8),
        elements={E: (family, degree)},
        initial={E: mode},
        boundary=[cf.Dirichlet(E, 0), cf.Neumann(E, 0)],
        time=cf.Window(0, end, steps=16),
    )
    with cf.Model(
        cf.Library(anchor=dt(E), terms={"decay": -curl(curl(E))}), {"decay": eta}, experiment
    ) as model:
        energy = [
            model.measurement(cf.Energy(E, at=at)).value(model.factual) for at in (0.0, "end")
        ]
    assert energy[1] / energy[0] == pytest.approx(0.4540, rel=1e-2)
