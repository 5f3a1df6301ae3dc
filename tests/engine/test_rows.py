"""Rows of finite-element fields: exact where the field is, streamed, and the same Gram on any
number of ranks.
"""

from __future__ import annotations

import resource
import time as clock

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from cffem import x, y
from cffem.engine.rows.strong_rows import StrongRows

u = cf.ScalarField("u")
TERMS = {
    "u": u,
    "u_x": u.diff(x),
    "u_y": u.diff(y),
    "u_xx": u.diff(x, 2),
    "u_yy": u.diff(y, 2),
    "u_xy": u.diff(x, y),
    "u2": u**2,
    "u3": u**3,
    "uu_x": u * u.diff(x),
    "uu_y": u * u.diff(y),
    "grad2": cf.dot(cf.grad(u), cf.grad(u)),
    "xu": x * u,
}


def heat(comm, n=6, steps=4, degree=2, names=tuple(TERMS)):
    """u_t = 0.5 Δu + 0.3 u + forcing with several modes, compatible with the boundary
    conditions at all times.
    """
    library = cf.Library(anchor=cf.dt(u), terms={name: TERMS[name] for name in names})
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(comm, n, n),
        elements={u: ("Lagrange", degree)},
        initial={
            u: sum(
                c * sp.sin(k * sp.pi * x) * sp.sin(m * sp.pi * y)
                for c, k, m in ((1, 1, 1), (0.5, 2, 3), (0.5, 3, 1))
            )
        },
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.05, steps=steps),
        forcing={u: cf.t * sp.sin(sp.pi * x) * sp.sin(2 * sp.pi * y)},
    )
    coefficients = {"u_xx": 0.5, "u_yy": 0.5, "u": 0.3}
    return cf.Model(library, coefficients, experiment), library


def gram(blocks, comm=None):
    """Σ ZᵀWZ of all blocks, Z = [y, A]."""
    total = 0.0
    for block in blocks:
        z = np.column_stack([block.y, block.A])
        total = total + z.T @ (block.weights[:, None] * z)
    return total if comm is None else comm.allreduce(total)


@pytest.mark.parametrize("kind", [mesh.CellType.triangle, mesh.CellType.quadrilateral])
def test_rows_of_a_polynomial_are_exact(kind):
    """u = (1 + t)(x² + 2xy + 3): quadratic in space, linear in time, so that midpoints, rates
    and quadrature have no error.
    """
    value = (1 + cf.t) * (x**2 + 2 * x * y + 3)
    terms = {name: TERMS[name] for name in ("u", "u_x", "u_xx", "u_xy", "u2", "xu")}
    library = cf.Library(anchor=cf.dt(u), terms=terms)
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, 3, 4, kind),
        elements={u: ("Lagrange", 2)},
        initial={u: value.subs(cf.t, 0)},
        boundary=[cf.Dirichlet(u, value)],
        time=cf.Window(0, 0.5, steps=2),
        forcing={u: value.diff(cf.t) - value.diff(x, 2)},
    )
    with cf.Model(library, {"u_xx": 1.0}, experiment) as model:
        found = gram(model.solve().rows(library, "strong"))
    exact = [value.diff(cf.t) - (value.diff(cf.t) - value.diff(x, 2))]
    exact += [value, value.diff(x), value.diff(x, 2), value.diff(x, y), value**2, x * value]
    nodes, weights = np.polynomial.legendre.leggauss(6)
    points, weights = 0.5 * (nodes + 1), 0.5 * weights
    columns = [sp.lambdify((x, y, cf.t), column, "numpy") for column in exact]
    expected = 0.0
    for moment in (0.125, 0.375):
        values = np.array(
            [np.broadcast_to(f(points[:, None], points[None, :], moment), (6, 6)) for f in columns]
        )
        expected = expected + 0.25 * np.einsum("iab,jab,a,b->ij", values, values, weights, weights)
    exact_by_quadrature = np.ones((7, 7), dtype=bool)
    exact_by_quadrature[5] = exact_by_quadrature[:, 5] = exact_by_quadrature[6, 6] = (
        False  # degrees five and more
    )
    assert found[exact_by_quadrature] == pytest.approx(expected[exact_by_quadrature], rel=1e-11)


def test_the_design_finds_the_coefficients_of_a_solution():
    model, library = heat(
        MPI.COMM_SELF, n=16, steps=40, degree=3, names=("u", "u_x", "u_xx", "u_yy")
    )
    with model:
        design = cf.Design.from_fields(library, [model.solve()], kind="strong")
    total = design.grams.total()
    found = np.linalg.solve(total[1:, 1:], total[1:, 0])
    assert found[1:] == pytest.approx([0.0, 0.5, 0.5], abs=0.01)
    assert found[0] == pytest.approx(
        0.3, abs=0.01 * 2 * np.pi**2 * 0.5
    )  # one per cent of the rate that diffusion makes
    assert len(design.grams.labels) == 12


def test_vector_equations_give_a_row_for_each_component_and_know_the_pressure():
    """Steady Stokes: 0 = ν Δv − ∇p + f, so −f + ∇p = ν Δv at every point up to the
    discretisation.
    """
    velocity, pressure = cf.VectorField("v", dim=2), cf.ScalarField("p")
    library = cf.Library(terms={"lap": cf.lap(velocity), "v": velocity}, unknown=velocity)
    stream = (x * (1 - x) * y * (1 - y)) ** 2
    exact, head = (stream.diff(y), -stream.diff(x)), x**2 * y
    forcing = tuple(
        -0.7 * (v.diff(x, 2) + v.diff(y, 2)) + head.diff(s)
        for v, s in zip(exact, (x, y), strict=True)
    )
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, 10, 10),
        elements={velocity: ("Lagrange", 3), pressure: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(velocity, 0)],
        constraint=cf.DivergenceFree(velocity, multiplier={pressure: ("Lagrange", 2)}),
        forcing={velocity: forcing},
    )
    with cf.Model(library, {"lap": 0.7}, experiment) as model:
        total = gram(model.solve().rows(library, "strong"))
    found = np.linalg.solve(total[1:, 1:], total[1:, 0])
    assert found[0] == pytest.approx(0.7, abs=0.01)
    assert abs(found[1]) * np.sqrt(total[2, 2]) <= 0.01 * np.sqrt(total[0, 0])
    assert total[0, 0] == pytest.approx(0.49 * total[1, 1], rel=0.01)


def test_second_order_equations_take_the_acceleration_from_the_velocities():
    library = cf.Library(anchor=cf.dt(cf.dt(u)), terms={"u_xx": u.diff(x, 2)})
    experiment = cf.Experiment(
        mesh=mesh.create_unit_interval(MPI.COMM_SELF, 20),
        elements={u: ("Lagrange", 3)},
        initial={u: sp.sin(sp.pi * x), cf.dt(u): 0},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.5, steps=50),
    )
    with cf.Model(library, {"u_xx": 1.0}, experiment) as model:
        total = gram(model.solve().rows(library, "strong"))
    assert total[0, 1] / total[1, 1] == pytest.approx(1.0, abs=1e-3)


def test_rows_that_elements_cannot_represent_are_refused():
    model, library = heat(MPI.COMM_SELF, degree=1, names=("u", "u_xx", "u_yy"))
    solution = model.solve()
    with pytest.raises(cf.InputError, match="cannot represent"):
        list(solution.rows(library, "strong"))
    assert (
        len(list(solution.rows(library, "weak"))) == 9
    )  # the weak form of degree 1 has no second derivatives
    with pytest.raises(cf.InputError, match="'strong' or 'weak'"):
        solution.rows(library, "mild")
    other = cf.ScalarField("w")
    with pytest.raises(cf.InputError, match="none of the equations"):
        list(solution.rows(cf.Library(anchor=cf.dt(other), terms={"w": other}), "strong"))


@pytest.mark.parametrize("degree", [1, 2])
def test_weak_rows_find_the_coefficients_where_strong_ones_do_not_exist(degree):
    names = ("u", "u_x", "u_xx", "u_yy")
    model, library = heat(MPI.COMM_SELF, n=24, steps=40, degree=degree, names=names)
    with model:
        design = cf.Design.from_fields(library, [model.solve()], kind="weak")
    total = design.grams.total()
    found = np.linalg.solve(total[1:, 1:], total[1:, 0])
    tolerance = {1: 0.02, 2: 0.002}[degree]  # the consistency error of the elements, h² and h⁴
    assert found[1:] == pytest.approx([0.0, 0.5, 0.5], abs=tolerance)
    if degree == 2:
        assert found[0] == pytest.approx(0.3, abs=tolerance * np.pi**2)
    assert design.effective_rows < design.rows


def test_weak_rows_of_a_polynomial_are_its_integrals_against_the_bumps():
    """For u = (1 + t) x² the rows of u and u_xx in one dimension are known integrals of (1 −
    s²)⁴.
    """
    value = (1 + cf.t) * x**2
    library = cf.Library(anchor=cf.dt(u), terms={"u": u, "u_xx": u.diff(x, 2)})
    experiment = cf.Experiment(
        mesh=mesh.create_interval(MPI.COMM_SELF, 60, (0.0, 2.0)),
        elements={u: ("Lagrange", 2)},
        initial={u: x**2},
        boundary=[cf.Dirichlet(u, value)],
        time=cf.Window(0, 1, steps=60),
        forcing={u: value.diff(cf.t) - value.diff(x, 2)},
    )
    with cf.Model(library, {"u_xx": 1.0}, experiment) as model:
        blocks = list(model.solve().rows(library, "weak"))
    mass, second = 256 / 315, 256 / 3465  # ∫ (1 − s²)⁴ and ∫ s² (1 − s²)⁴ over (−1, 1)
    width, duration = 1 / 3, 1 / 6
    centres = np.linspace(width, 2 - width, len(blocks[0].y))
    moments = np.linspace(duration, 1 - duration, len(blocks))
    for moment, block in zip(moments, blocks, strict=True):
        time_mass = duration * mass * (1 + moment)
        assert block.A[:, 1] == pytest.approx(2 * width * mass * time_mass, rel=1e-6)
        assert block.A[:, 0] == pytest.approx(
            (centres**2 * mass + width**2 * second) * width * time_mass, rel=1e-6
        )
        assert block.y == pytest.approx(block.A[:, 1], rel=1e-6)


def test_weak_rows_keep_clear_of_holes_and_corners():
    from cffem.engine.rows.weak_rows import WeakRows

    square = mesh.create_unit_square(MPI.COMM_SELF, 12, 12)
    shape = mesh.create_submesh(
        square, 2, mesh.locate_entities(square, 2, lambda p: (p[0] <= 0.51) | (p[1] <= 0.51))
    )[0]
    experiment = cf.Experiment(
        mesh=shape, elements={u: ("Lagrange", 1)}, boundary=[cf.Dirichlet(u, 0)], forcing={u: 1}
    )
    steady = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)
    with cf.Model(steady, {"lap": 1.0}, experiment) as model:
        rows = WeakRows(model.solve(), steady)
        centres, width = rows.boxes()
        assert len(centres) > 20
        for centre in centres:  # no box reaches into the quarter that was cut out, or over the edge
            assert np.all(centre - width >= -1e-9)
            assert not np.all(centre + width > 0.5 + 1 / 24 + 1e-9)
        total = gram(iter(rows))
        assert total[0, 1] / total[1, 1] == pytest.approx(1.0, rel=0.05)


def test_divergence_free_test_functions_find_the_velocity_equation_without_its_pressure():
    """Decaying flow in a box on unstructured triangles: projected rows do not see ∇p, whose
    coefficient they cannot tell.
    """
    velocity, pressure = cf.VectorField("v", dim=2), cf.ScalarField("p")
    terms = {
        "advection": cf.dot(cf.grad(velocity), velocity),
        "lap": cf.lap(velocity),
        "v": velocity,
    }
    library = cf.Library(anchor=cf.dt(velocity), terms=terms)
    stream = (x * (1 - x) * y * (1 - y)) ** 2 * (60 + 200 * sp.sin(3 * x + 1) * sp.cos(5 * y))
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.09),
        elements={velocity: ("Lagrange", 2), pressure: ("Lagrange", 1)},
        initial={velocity: (stream.diff(y), -stream.diff(x))},
        boundary=[cf.Dirichlet(velocity, 0)],
        constraint=cf.DivergenceFree(velocity, multiplier={pressure: ("Lagrange", 1)}),
        time=cf.Window(0, 0.4, steps=10),
    )
    with cf.Model(library, {"advection": -1.0, "lap": 0.02}, experiment) as model:
        rows = cf.Library(anchor=library.anchor, terms={**terms, "pressure": cf.grad(pressure)})
        projected = gram(model.solve().rows(rows, "weak"))
    found = np.linalg.solve(projected[1:4, 1:4], projected[1:4, 0])
    assert found[0] == pytest.approx(-1.0, rel=0.01)
    assert found[1] == pytest.approx(0.02, rel=0.03)
    assert abs(found[2]) * np.sqrt(projected[3, 3]) <= 0.01 * np.sqrt(projected[0, 0])
    assert projected[4, 4] <= 1e-6 * projected[0, 0]


@pytest.mark.slow
def test_divergence_free_test_functions_in_three_dimensions():
    """Stokes with friction on tetrahedra: of 0 = ν Δv + 0.3 v − ∇p + f with constant Δv only
    −Pf = 0.3 Pv is left.
    """
    z = cf.z
    velocity, pressure = cf.VectorField("v", dim=3), cf.ScalarField("p")
    library = cf.Library(terms={"lap": cf.lap(velocity), "v": velocity}, unknown=velocity)
    exact, head = (y**2 + 2 * z**2, z**2 - x**2, x * y), (1, 2, -1)
    forcing = tuple(
        -0.7 * sum(v.diff(s, 2) for s in (x, y, z)) - 0.3 * v + g
        for v, g in zip(exact, head, strict=True)
    )
    experiment = cf.Experiment(
        mesh=mesh.create_unit_cube(MPI.COMM_SELF, 5, 5, 5),
        elements={velocity: ("Lagrange", 2), pressure: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(velocity, exact)],
        constraint=cf.DivergenceFree(velocity, multiplier={pressure: ("Lagrange", 1)}),
        forcing={velocity: forcing},
    )
    with cf.Model(library, {"lap": 0.7, "v": 0.3}, experiment) as model:
        blocks = list(model.solve().rows(library, "weak"))
    assert sum(len(block.y) for block in blocks) == 3 * 5**3
    total = gram(blocks)
    assert total[0, 2] / total[2, 2] == pytest.approx(0.3, rel=0.01)
    assert (
        total[1, 1] <= 0.01 * 36 * total[2, 2]
    )  # |Δv|² is 36: quadrature of the curls leaves less than one per cent of it


def compare_grams(comm, folder):
    """One Gram for all numbers of ranks; the first run stores it."""
    model, library = heat(comm, names=("u", "u_x", "u_xx", "u_yy", "uu_x", "xu"))
    solution = model.solve()
    for kind in ("strong", "weak"):
        path = f"{folder}/{kind}.npy"
        found = cf.Design.from_fields(library, [solution], kind=kind).grams.total()
        if comm.size == 1:
            np.save(path, found)
            continue
        expected = np.load(path)
        size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        assert np.all(np.abs(found - expected) <= 1e-12 * size), (
            kind,
            np.abs((found - expected) / size).max(),
        )
    model.destroy()


@pytest.mark.mpi
def test_grams_are_the_same_on_one_two_and_three_ranks(on_ranks, tmp_path):
    for ranks in (1, 2, 3):
        on_ranks(ranks, compare_grams, str(tmp_path))


def stream_and_measure(n, steps, compare=True):
    """(rows, growth of peak memory in MB, seconds for the design, seconds for separate
    expressions and a Gram in memory).
    """
    model, library = heat(MPI.COMM_SELF, n=n, steps=steps)
    with model:
        solution = model.solve()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started = clock.process_time()
        design = cf.Design.from_fields(library, [solution], kind="strong")
        ours = clock.process_time() - started
        growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        theirs = separately(solution, library) if compare else float("nan")
    return design.rows, growth, ours, theirs


def separately(solution, library):
    """Seconds for the same values by one expression per column, cell by cell block, and
    NumPy's Gram of rows in memory.
    """
    from cffem import _compat

    rows = StrongRows(solution, library)
    context, elements = rows.discretisation.context, rows.spaces.elements
    from cffem.forms.strong import strong_form

    columns = [library.anchor, *library.terms.values()]
    compiled = [
        _compat.expression(strong_form(c, context, elements), rows.points, MPI.COMM_SELF)
        for c in columns
    ]
    cells = np.arange(rows.owned, dtype=np.int32)
    z = np.empty((len(cells) * len(rows.points), len(columns)))
    for expression in compiled:
        expression.eval(rows.mesh, cells[:1])
    started = clock.process_time()
    for step in range(len(solution.times) - 1):
        a, b = solution.states[step : step + 2]
        rows._place(0.5 * (a + b), b - a, None, 0.0)
        for j, expression in enumerate(compiled):
            z[:, j] = expression.eval(rows.mesh, cells).ravel()
        z.T @ z
    return clock.process_time() - started


def test_streaming_needs_little_memory():
    rows, growth, _, _ = stream_and_measure(40, 12, compare=False)
    assert rows >= 200_000
    assert growth < 60


@pytest.mark.slow
def test_ten_million_rows_by_twelve_columns_stream_in_constant_memory_at_no_extra_cost():
    rows, growth, ours, theirs = stream_and_measure(200, 21)
    print(f"{rows} rows: growth {growth:.0f} MB, {ours:.1f} s against {theirs:.1f} s")
    assert rows >= 10_000_000
    assert growth < 200
    assert ours <= 1.5 * theirs


def test_solutions_and_measurements_do_not_share_a_design():
    u = cf.ScalarField("u")
    library = cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u)})
    experiment = cf.Experiment(
        mesh=mesh.create_unit_interval(MPI.COMM_SELF, 4),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: sp.sin(sp.pi * x)},
        time=cf.Window(0, 1, steps=2),
    )
    solution = cf.Model(library, {"u": 0.5, "lap": 0.1}, experiment).solve()
    data = cf.Dataset.from_arrays(
        {x: np.linspace(0, 1, 9), cf.t: np.linspace(0, 1, 9)}, {u: np.eye(9)}
    )
    with pytest.raises(cf.InputError, match="solutions or of measured data, not of both"):
        cf.Design.from_fields(library, [data, solution])


def test_monomials_give_the_same_integrals_as_the_bumps_themselves():
    """F[ψ] = g ψ + h ∂_x ψ + k ∂_x ∂_y ψ with random g, h, k at random points of random cells."""
    from cffem.engine.rows.bump_moments import BumpMoments

    random = np.random.default_rng(5)
    centres = np.array([[i, j] for i in (-0.5, 0.0, 0.5) for j in (-1.0, 0.3)])
    moments = BumpMoments(centres, 4, 2)
    points, shares = random.uniform(-2, 2, (300, 3, 2)), random.uniform(0, 1, (300, 3))
    g, h, k = random.normal(size=(3, 300, 3))
    p, q = points[..., 0], points[..., 1]
    values = {(0, 0): g, (1, 0): g * p + h, (0, 1): g * q, (2, 0): g * p**2 / 2 + h * p}
    values |= {(1, 1): g * p * q + h * q + k, (0, 2): g * q**2 / 2}
    table = np.stack([values[e] for e in moments.exponents], axis=-1)[None, ..., None, :]
    total = np.zeros((1, len(centres), 1))
    moments.integrals(points, shares, table, total)
    for centre, found in zip(centres, total[0, :, 0], strict=True):
        s = points - centre
        inside = np.all(np.abs(s) < 1, axis=2)
        bump, slope = (1 - s**2) ** 4, -8 * s * (1 - s**2) ** 3
        direct = g * bump[..., 0] * bump[..., 1] + h * slope[..., 0] * bump[..., 1]
        direct += k * slope[..., 0] * slope[..., 1]
        assert found == pytest.approx(np.sum((direct * shares)[inside]), rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("power", [1, 2])
def test_averages_in_time_are_taken_only_of_what_is_linear(power):
    from cffem.engine.rows.weak_rows import WeakRows

    library = cf.Library(anchor=cf.dt(u), terms={"a": u**power, "lap": cf.lap(u)})
    experiment = cf.Experiment(
        mesh=mesh.create_unit_interval(MPI.COMM_SELF, 12),
        elements={u: ("Lagrange", 1)},
        initial={u: sp.sin(sp.pi * x)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 1, steps=4),
    )
    with cf.Model(library, {"lap": 0.1}, experiment) as model:
        assert WeakRows(model.factual, library).affine == (power == 1)
        moving = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u), "tu": cf.t * u})
        assert not WeakRows(model.factual, moving).affine
