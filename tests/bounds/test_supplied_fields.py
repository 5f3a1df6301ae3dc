"""Residual-certified decisions on fields that were brought along: exact fields, wrong fields,
and constants of one's own.
"""

import math

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, t, x, y
from cffem.bounds.supplied_fields import brought, certify_fields, residual_size
from cffem.symbols.errors import InputError

u = cf.ScalarField("u")
MODE, SQUARE = sp.sin(sp.pi * x) * sp.sin(sp.pi * y), 2 * sp.pi**2


def steady(cells=8, degree=2):
    library = cf.Library(terms={"lap": lap(u), "u": u}, unknown=u)
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, cells, cells),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: MODE},
    )
    return cf.Model(library, {"lap": 1.0, "u": -5.0}, experiment)


EXACT, EXACT_DELETED = MODE / (SQUARE + 5), MODE / SQUARE
SCORE = float(1 / SQUARE - 1 / (SQUARE + 5)) / 2


@pytest.mark.parametrize("fault", [0.0, 0.1, -0.3])
def test_computed_constants_cover_any_field(fault):
    # A network that is wrong by a smooth fault: the margin contains the fault, so no verdict is
    # wrong.
    wrong = fault * EXACT * x

    def network(points, time):
        return sp.lambdify((x, y), EXACT + wrong)(points[0], points[1])

    bound = certify_fields(steady(), network, {"u": EXACT_DELETED})["u"]
    assert bound.certificate.kind == "guaranteed"
    assert abs(bound.score - SCORE) <= bound.margin
    assert bound.margin <= 10 * abs(bound.score - SCORE) + 0.3 * SCORE
    assert "np." not in repr(bound)
    for epsilon in SCORE * np.array([0.5, 0.9, 1.1, 2.0]):
        verdict = cf.decide(bound.score, epsilon, margin=bound.margin)
        assert verdict in ("unresolved", "relevant" if epsilon < SCORE else "irrelevant")


def test_constants_of_ones_own_give_estimated_bounds_that_cover():
    model = steady()
    # ‖w‖ ≤ ‖A w‖ / (λ₁ + c) for this operator.
    constants = float(1 / (SQUARE + 5)), {"u": float(1 / SQUARE)}
    assert residual_size(model, EXACT) == pytest.approx(0, abs=1e-12)
    fault = x * (1 - x) * y * (1 - y) / 10
    bound = certify_fields(model, EXACT + fault, {"u": EXACT_DELETED}, stability=constants)["u"]
    assert bound.certificate.kind == "estimated"
    assert bound.eta_counterfactual == pytest.approx(0, abs=1e-12)
    error = float(sp.sqrt(sp.integrate(fault**2, (x, 0, 1), (y, 0, 1))))
    assert error <= bound.eta_factual <= 2 * error
    assert r"\theta" in bound.certificate.latex()


def test_residuals_of_a_field_in_time_are_zero_for_the_solution_and_count_the_start():
    library = cf.Library(anchor=dt(u), terms={"lap": lap(u), "cube": -(u**3)})
    decay = MODE * sp.exp(-t)
    forcing = sp.simplify(decay.diff(t) + SQUARE / 10 * decay + decay**3)
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, 6, 6),
        elements={u: ("Lagrange", 1)},
        initial={u: MODE},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.5, steps=4),
        forcing={u: forcing},
    )
    model = cf.Model(library, {"lap": 0.1, "cube": 1.0}, experiment)
    assert residual_size(model, decay) == pytest.approx(0, abs=1e-12)
    # Without the cube the residual of the same field is the cube itself; the initial value is part
    # of the residual.
    cube = float(
        sp.sqrt(sp.integrate((decay**3) ** 2, (x, 0, 1), (y, 0, 1), (t, 0, sp.Rational(1, 2))))
    )
    assert residual_size(model, decay, cf.delete("cube")) == pytest.approx(cube, rel=1e-6)
    shifted = decay + MODE / 10 * t
    assert residual_size(model, shifted + MODE / 10) > residual_size(model, shifted) > 0


def test_misuse_is_named():
    model = steady(2, 1)
    assert (
        "boundary values"
        in certify_fields(model, EXACT + 1, {"u": EXACT}, stability=(1.0, {"u": 1.0}))["u"].reason
    )
    assert (
        "SymPy"
        in certify_fields(model, lambda p, s: p[0], {"u": EXACT}, stability=(1.0, {"u": 1.0}))[
            "u"
        ].reason
    )
    with pytest.raises(InputError, match="positive"):
        certify_fields(model, EXACT, {"u": EXACT}, stability=(1.0, {}))
    with pytest.raises(InputError, match="time levels"):
        brought(model, [])
    missing = certify_fields(model, EXACT, {"lap": EXACT})["lap"]
    assert math.isinf(missing.margin)


def heat(reaction, cells=8, steps=20):
    library = cf.Library(anchor=dt(u), terms={"u": u, "lap": lap(u)})
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, cells, cells),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: MODE},
        time=cf.Window(0, 1, steps=steps),
    )
    return cf.Model(library, {"u": reaction, "lap": 0.05}, experiment)


def heat_score(reaction):
    times, rate = np.linspace(0, 1, 20001), -0.05 * float(SQUARE)
    return 0.5 * math.sqrt(
        np.trapezoid((np.exp((reaction + rate) * times) - np.exp(rate * times)) ** 2, times)
    )


@pytest.mark.parametrize(
    ("reaction", "factor"), [(0.3, 1.0), (0.3, 1.1), (0.3, 1.5), (0.01, 1.02), (0.01, 0.98)]
)
def test_a_wrong_start_of_a_field_in_time_is_in_the_bound(reaction, factor):
    # The fields solve the equations exactly; only the start of the first is wrong.
    rate = -SQUARE / 20
    bound = certify_fields(
        heat(reaction),
        factor * sp.exp((reaction + rate) * t) * MODE,
        {"u": sp.exp(rate * t) * MODE},
    )["u"]
    exact = heat_score(reaction)
    assert bound.certificate.kind == "guaranteed"
    assert abs(bound.score - exact) <= bound.margin
    assert bound.margin <= 3 * abs(bound.score - exact) + 0.3 * exact + 0.002


def test_what_a_field_loses_at_the_boundary_and_between_samples_is_in_the_bound():
    model = steady()
    # Wrong by a constant: the space takes the field with zeros on the boundary, and says what that
    # changes.
    bound = certify_fields(model, EXACT + 0.01, {"u": EXACT_DELETED})["u"]
    gap = float(1 / (SQUARE + 5) - 1 / SQUARE)
    own = math.sqrt(gap**2 / 4 + 2 * 0.01 * gap * 4 / math.pi**2 + 1e-4)  # ‖u_θ − v_θ‖
    assert abs(bound.score - SCORE) <= bound.margin
    assert abs(bound.score - own) <= sum(
        bound.certificate.constants[key] for key in ("‖u_θ − u_h‖", "‖v_θ − u_jh‖")
    )
    lost = bound.certificate.constants["‖u_θ − u_h‖"]
    assert 0.002 < lost < 0.01
    # A wave that vanishes at all nodes of the space.
    blind = sp.sin(16 * sp.pi * x) * sp.sin(16 * sp.pi * y) / 100
    seen = certify_fields(model, EXACT + blind, {"u": EXACT_DELETED})["u"]
    assert seen.certificate.constants["‖u_θ − u_h‖"] == pytest.approx(0.005, rel=0.05)
    assert seen.margin >= 0.0049


def test_what_a_field_does_between_time_levels_is_in_the_bound():
    rate, model = -SQUARE / 20, heat(0.3, cells=4, steps=4)
    pulse = sp.sin(4 * sp.pi * t) / 20 * MODE  # zero at all time levels
    fields = [sp.exp((sp.Rational(3, 10) + rate) * t) * MODE, sp.exp(rate * t) * MODE]
    plain = certify_fields(model, fields[0], {"u": fields[1]})["u"]
    bound = certify_fields(model, fields[0] + pulse, {"u": fields[1]})["u"]
    assert bound.score == pytest.approx(plain.score)
    lost = [found.certificate.constants["‖u_θ − u_h‖"] for found in (plain, bound)]
    assert lost[1] == pytest.approx(math.hypot(lost[0], 0.05 * 0.5 * math.sqrt(0.5)), rel=0.02)
    assert bound.margin - plain.margin == pytest.approx(lost[1] - lost[0])
