"""Maxwell's equations: curl-curl, waves and the first-order pair on elements of the de Rham
complex; energy and frequencies.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from engine_support import assert_order, error, forcing, unit

import cffem as cf
from cffem import t, x, y, z

DIMENSION = {"triangle": 2, "quadrilateral": 2, "tetrahedron": 3, "hexahedron": 3}
STEADY = {
    2: (sp.sin(sp.pi * y) * sp.cos(x), x * y + sp.cos(sp.pi * x)),
    3: (sp.sin(sp.pi * y) * z, x * sp.cos(z), sp.sin(x * y)),
}


def curl_curl(cell, degree, n):
    """Errors of E and curl E in −curl curl E − E + f = 0."""
    dim = DIMENSION[cell]
    E = cf.VectorField("E", dim=dim)
    library = cf.Library(terms={"curl": -cf.curl(cf.curl(E)), "mass": -E}, unknown=E)
    coefficients = {"curl": 1.0, "mass": 1.0}
    experiment = cf.Experiment(
        mesh=unit(cell, n),
        elements={E: ("N1curl", degree)},
        boundary=[cf.Tangential(E, STEADY[dim])],
        forcing=forcing(library, coefficients, {E: STEADY[dim]}, dim),
    )
    found = cf.Model(library, coefficients, experiment).solve().function()
    return error(found, STEADY[dim]), error(found, STEADY[dim], kind="curl")


@pytest.mark.parametrize(
    ("cell", "degree", "levels"),
    [
        ("triangle", 1, (8, 16)),
        ("triangle", 2, (4, 8)),
        ("quadrilateral", 1, (8, 16)),
        ("quadrilateral", 2, (4, 8)),
        ("tetrahedron", 1, (3, 6)),
        ("hexahedron", 1, (3, 6)),
        pytest.param("tetrahedron", 2, (3, 6), marks=pytest.mark.slow),
        pytest.param("hexahedron", 2, (3, 6), marks=pytest.mark.slow),
    ],
)
def test_curl_curl_converges(cell, degree, levels):
    errors = [curl_curl(cell, degree, n) for n in levels]
    assert_order([e[0] for e in errors], degree)
    assert_order([e[1] for e in errors], degree)


MOVING = {
    2: (sp.sin(sp.pi * y) * sp.cos(2 * t + x), x * y * t**3 + sp.cos(sp.pi * x) * sp.exp(t)),
    3: (sp.sin(2 * y) * sp.cos(2 * t + z), x * z * t**3 + sp.cos(2 * x), sp.sin(x + y) * sp.exp(t)),
}


def wave(cell, degree, n, steps, end=0.5):
    """Errors of E and of its rate, with tangential data that change in time."""
    dim = DIMENSION[cell]
    E, exact = cf.VectorField("E", dim=dim), MOVING[dim]
    library = cf.Library(anchor=cf.dt(cf.dt(E)), terms={"curl": -cf.curl(cf.curl(E))})
    experiment = cf.Experiment(
        mesh=unit(cell, n),
        elements={E: ("N1curl", degree)},
        boundary=[cf.Tangential(E, exact)],
        initial={
            E: tuple(c.subs(t, 0) for c in exact),
            cf.dt(E): tuple(sp.diff(c, t).subs(t, 0) for c in exact),
        },
        forcing=forcing(library, {"curl": 1.0}, {E: exact}, dim),
        time=cf.Window(0, end, steps=steps),
    )
    solution = cf.Model(library, {"curl": 1.0}, experiment).solve()
    rate = tuple(sp.diff(c, t) for c in exact)
    return error(solution.function(), exact, end), error(solution.velocity(), rate, end)


@pytest.mark.parametrize(
    ("cell", "degree", "levels"),
    [
        ("triangle", 1, (4, 8, 16)),
        ("triangle", 2, (4, 8, 16)),
        ("quadrilateral", 1, (4, 8, 16)),
        ("quadrilateral", 2, (4, 8, 16)),
        *(
            pytest.param(cell, degree, (3, 6), marks=pytest.mark.slow)
            for cell in ("tetrahedron", "hexahedron")
            for degree in (1, 2)
        ),
    ],
)
def test_wave_converges_in_space(cell, degree, levels):
    errors = [wave(cell, degree, n, 2 * n * degree) for n in levels]
    assert_order([e[0] for e in errors], degree)
    assert_order([np.mean(e) for e in errors], degree)


def test_wave_converges_in_time_with_tangential_data_that_change():
    """The rate at the boundary is the time derivative of the data: otherwise the order drops
    to one.
    """
    errors = [wave("quadrilateral", 4, 3, steps) for steps in (4, 8, 16)]
    assert_order([e[0] for e in errors], 2)
    assert_order([e[1] for e in errors], 2)


E3, B3 = cf.VectorField("E", dim=3), cf.VectorField("B", dim=3)


def test_first_order_pair_converges_and_keeps_b_free_of_divergence():
    """Ė = curl B, Ḃ = −curl E with E in Nédélec and B in Raviart–Thomas: curl E lies in the
    space of B.
    """
    system = cf.System(
        {
            "E": cf.Library(anchor=cf.dt(E3), terms={"curl": cf.curl(B3)}),
            "B": cf.Library(anchor=cf.dt(B3), terms={"curl": -cf.curl(E3)}),
        }
    )
    k = sp.sqrt(2) * sp.pi
    shape = sp.sin(sp.pi * x) * sp.sin(sp.pi * y)
    exact = {
        E3: (0, 0, shape * sp.cos(k * t)),
        B3: (-sp.diff(shape, y) * sp.sin(k * t) / k, sp.diff(shape, x) * sp.sin(k * t) / k, 0),
    }

    def errors(n):
        experiment = cf.Experiment(
            mesh=unit("tetrahedron", n),
            elements={E3: ("N1curl", 1), B3: ("RT", 1)},
            initial={E3: (0, 0, shape), B3: 0},
            boundary=[cf.Tangential(E3, 0)],
            time=cf.Window(0, 0.25, steps=2 * n),
        )
        solution = cf.Model(system, {"E/curl": 1.0, "B/curl": 1.0}, experiment).solve()
        assert error(solution.function(B3), (0, 0, 0), kind="div") < 1e-11
        return [error(solution.function(f), exact[f], 0.25) for f in (E3, B3)]

    levels = [errors(n) for n in (4, 8)]
    for i in range(2):
        assert_order([e[i] for e in levels], 1)


def cavity(n, degree, end=1.0, steps=10, **kwargs):
    """The unit cube with perfectly conducting walls."""
    library = cf.Library(anchor=cf.dt(cf.dt(E3)), terms={"curl": -cf.curl(cf.curl(E3))})
    mode = (0, 0, sp.sin(sp.pi * x) * sp.sin(sp.pi * y))
    experiment = cf.Experiment(
        mesh=unit("tetrahedron", n),
        elements={E3: ("N1curl", degree)},
        initial={E3: mode, cf.dt(E3): 0},
        boundary=[cf.Tangential(E3, 0)],
        time=cf.Window(0, end, steps=steps),
        **kwargs,
    )
    return cf.Model(library, {"curl": 1.0}, experiment)


def matrices(model):
    """Mass and curl-curl matrices of a model, from its own equation."""
    anchor = next(
        part for _, part in model.equation.fixed if part.ingredient.name.startswith("anchor")
    )
    return anchor.matrix(2), model.equation.terms["curl"].matrix(0)


def test_energy_of_a_cavity_mode_is_conserved_over_a_thousand_steps():
    model = cavity(3, 1, end=20.0, steps=1000)
    solution = model.solve()
    mass, stiffness = matrices(model)
    a, b = model.equation.new_vector(), model.equation.new_vector()

    def quadratic(matrix, values):
        a.array[:] = values
        matrix.mult(a, b)
        return a.dot(b)

    pairs = zip(solution.states, solution.velocities, strict=True)
    # The term is −curl curl: its matrix is the negative of the stiffness.
    energy = np.array(
        [quadratic(mass, rate) - quadratic(stiffness, state) for state, rate in pairs]
    )
    assert np.ptp(energy) <= 1e-10 * energy[0]
    assert np.ptp([quadratic(mass, state) for state in solution.states[:200]]) > 0.1 * energy[0] / (
        2 * np.pi**2
    )


def test_the_lowest_frequencies_of_a_cavity_have_their_multiplicity():
    """ω = π√(l² + m² + n²) with at most one index zero: √2 three times, √3 twice, √5 six times."""
    pytest.importorskip("slepc4py")
    from slepc4py import SLEPc

    model = cavity(4, 2)
    mass, stiffness = (matrix.copy() for matrix in matrices(model))
    stiffness.scale(-1.0)
    # Held unknowns get the eigenvalue 1e6, far from the wanted ones.
    stiffness.zeroRowsColumns(model.essential.rows, diag=1e6)
    mass.zeroRowsColumns(model.essential.rows, diag=1.0)
    solver = SLEPc.EPS().create(model.comm)
    solver.setOperators(stiffness, mass)
    solver.setProblemType(SLEPc.EPS.ProblemType.GHEP)
    solver.setDimensions(nev=11)
    solver.setTarget(3.3 * np.pi**2)
    solver.setWhichEigenpairs(SLEPc.EPS.Which.TARGET_REAL)
    solver.getST().setType("sinvert")
    solver.getST().getKSP().setType("preonly")
    solver.getST().getKSP().getPC().setType("lu")
    solver.getST().getKSP().getPC().setFactorSolverType("mumps")
    solver.solve()
    found = sorted(solver.getEigenvalue(i).real for i in range(solver.getConverged()))
    frequencies = np.sqrt([value for value in found if value > 1.0])[:11]
    expected = np.pi * np.sqrt([2, 2, 2, 3, 3, 5, 5, 5, 5, 5, 5])
    np.testing.assert_allclose(frequencies, expected, rtol=2e-2)
    np.testing.assert_allclose(frequencies[:5], expected[:5], rtol=5e-3)
