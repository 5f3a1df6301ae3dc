"""Margins of observables: dual-weighted bounds, the error of the field times the weight, and
three levels of numbers.
"""

import pytest
import sympy as sp

pytest.importorskip("dolfinx")

from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, x, y

u = cf.ScalarField("u")


def steady(cells, degree=1, coefficients=None, tolerance=None):
    library = cf.Library(
        terms={"lap": lap(u), "u": -u, "drift": -u.diff(x) + y * u.diff(y), "cube": -(u**3)},
        unknown=u,
    )
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, cells, cells),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1 + 5 * x * y},
    )
    options = (
        {} if tolerance is None else {"ksp_type": "cg", "pc_type": "none", "ksp_rtol": tolerance}
    )
    return cf.Model(
        library, coefficients or {"lap": 1.0, "u": 4.0, "drift": 2.0}, experiment, options
    )


@pytest.mark.parametrize(
    ("observable", "degree", "share"),
    [
        (cf.Average((1 + x) * u), 1, 0.1),
        (cf.Integral(u), 2, 0.002),
        (cf.PointAverage(u, (0.3, 0.6), 0.25), 2, 0.05),
    ],
)
def test_dual_weighted_margins_cover_and_are_sharp(observable, degree, share):
    finest = steady(12, 3)
    true = finest.observable_deletions(observable, ["u", "drift"])
    found = cf.certify_observable(steady(5, degree), observable, ["u", "drift"])
    for name, margin in found.items():
        assert margin.certificate.kind == "guaranteed"
        assert abs(true[name].score - margin.score) <= margin.margin
        # The corrected value is closer than the computed one, and the bound of what is left is
        # small.
        rest = margin.certificate.constants["dual-weighted bound"]
        assert abs(true[name].score - margin.corrected) <= rest + 2e-6
        assert margin.margin <= abs(margin.corrected - margin.score) + rest + 1e-15
        assert rest < share * finest.measurement(observable).value(finest.factual)
        assert "np." not in repr(margin)


def test_margins_fall_twice_as_fast_as_errors():
    rests = [
        cf.certify_observable(steady(cells), cf.Integral(u), ["u"])["u"].certificate.constants[
            "dual-weighted bound"
        ]
        for cells in (4, 8)
    ]
    assert rests[0] / rests[1] > 6  # order 1 + 2


def test_an_observable_over_the_window_is_bounded_by_the_field():
    def heat(cells, steps, degree):
        library = cf.Library(anchor=dt(u), terms={"lap": lap(u), "u": -u})
        experiment = cf.Experiment(
            mesh=mesh.create_unit_square(MPI.COMM_SELF, cells, cells),
            elements={u: ("Lagrange", degree)},
            initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
            boundary=[cf.Dirichlet(u, 0)],
            time=cf.Window(0, 0.2, steps=steps),
        )
        return cf.Model(library, {"lap": 1.0, "u": 1.0}, experiment)

    window, end = cf.Integral(x * u, at="window"), cf.Integral(x * u, at="end")
    rough, fine = heat(8, 8, 1), heat(10, 24, 2)
    found = cf.certify_observable(rough, window, ["u"])["u"]
    assert found.certificate.kind == "guaranteed"
    assert (
        abs(fine.observable_deletions(window, ["u"])["u"].score - found.score)
        <= found.margin
        < found.score
    )
    # At the end the space-time norm says nothing: three levels do.
    found = cf.certify_observable(rough, end, ["u"])["u"]
    assert found.certificate.kind == "estimated"
    assert (
        abs(fine.observable_deletions(end, ["u"])["u"].score - found.score)
        <= found.margin
        < 0.5 * found.score
    )


def test_nonlinear_observables_and_equations_are_estimated():
    coefficients = {"lap": 1.0, "u": 4.0, "cube": 30.0}
    rough, fine = steady(4, 1, coefficients), steady(16, 2, coefficients)
    for observable in (cf.Energy(u), cf.Integral(u)):
        found = cf.certify_observable(rough, observable, ["cube"])["cube"]
        assert found.certificate.kind == "estimated"
        assert "guaranteed" not in str(found.certificate)
        true = fine.observable_deletions(observable, ["cube"])["cube"].score
        assert abs(true - found.score) <= found.margin <= 3 * abs(true - found.score)


def test_a_loose_solver_widens_the_margin():
    exact, loose = steady(5, 1, {"lap": 1.0, "u": 4.0}), steady(5, 1, {"lap": 1.0, "u": 4.0}, 0.05)
    true = (
        steady(12, 3, {"lap": 1.0, "u": 4.0}).observable_deletions(cf.Integral(u), ["u"])["u"].score
    )
    found = cf.certify_observable(loose, cf.Integral(u), ["u"])["u"]
    assert abs(true - found.score) <= found.margin
    assert found.margin > cf.certify_observable(exact, cf.Integral(u), ["u"])["u"].margin
