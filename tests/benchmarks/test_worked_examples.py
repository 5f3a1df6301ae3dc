"""The worked examples of the paper's appendix, with the values that they must give."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import curl, div, dt, grad, x, y, z

u = cf.ScalarField("u")
KAPPA, D = 0.7, 0.05
RATES = {k: KAPPA - (k * math.pi) ** 2 * D for k in (1, 2)}
LIBRARY = cf.Library(
    anchor=dt(u), terms={"u": u, "u_xx": u.diff(x, 2), "u²": u**2, "u_x": u.diff(x)}
)


def interval_model(modes, coefficients=None, steps=100):
    """u_t = κu + D u_xx on (0, 1) from a sum of sine modes."""
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, 1 / 30),
        elements={u: ("Lagrange", 3)},
        initial={u: sum(a * sp.sin(k * sp.pi * x) for k, a in modes.items())},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 1, steps=steps),
    )
    return cf.Model(LIBRARY, coefficients or {"u": KAPPA, "u_xx": D}, experiment)


def integral(rate):
    """∫ e^{rate·t} over (0, 1)."""
    return math.expm1(rate) / rate if rate else 1.0


def score(modes, changed):
    """‖Σ a_k (e^{r_k t} − e^{s_k t}) sin kπx‖ in L2((0, 1)²)."""
    squares = [
        a * a / 2 * (integral(2 * r) - 2 * integral(r + s) + integral(2 * s))
        for a, r, s in ((a, RATES[k], changed(k)) for k, a in modes.items())
    ]
    return math.sqrt(sum(squares))


def test_anchored_recovery_in_a_reaction_diffusion_model():
    modes = {1: 1.0, 2: 0.5}
    with interval_model(modes) as model:
        design = cf.Design.from_fields(LIBRARY, model.factual, kind="weak")
        screen = cf.Screening(method="subset").fit(design)
        assert screen.names_ == ("u", "u_xx")
        assert screen.coef_ == pytest.approx([KAPPA, D, 0, 0], rel=1e-3, abs=1e-12)
        sweep = model.deletions()
        assert sweep["u"].score == pytest.approx(score(modes, lambda k: RATES[k] - KAPPA), rel=2e-4)
        assert sweep["u_xx"].score == pytest.approx(score(modes, lambda k: KAPPA), rel=2e-4)


def test_one_mode_identifies_one_combination_only():
    with interval_model({1: 1.0}) as model:
        design = cf.Design.from_fields(LIBRARY, model.factual, kind="weak").select(["u", "u_xx"])
        kappa, diffusivity = sp.symbols("kappa D")
        (group,) = design.alias_groups({"u": kappa, "u_xx": diffusivity})
        assert set(group.terms) == {"u", "u_xx"}
        assert group.identified.coeff(kappa) == 1
        assert float(group.identified.coeff(diffusivity)) == pytest.approx(-(math.pi**2), rel=1e-3)
        assert group.estimates[0] == pytest.approx(RATES[1], rel=1e-3)
        assert design.rank() == 1
        # Any other pair with the same κ − π²D has the same trajectory.
        other = model.solve([cf.set("u", KAPPA + 3 * math.pi**2 * D), cf.set("u_xx", 4 * D)])
        assert other.distance(model.factual) < 1e-5 * model.factual.norm()
        assert (
            model.solve(cf.set("u_xx", 4 * D)).distance(model.factual) > 0.1 * model.factual.norm()
        )


def test_two_modes_give_both_coefficients_by_the_closed_formulas():
    r1, r2 = sp.symbols("r1 r2")
    kappa, diffusivity = sp.symbols("kappa D")
    solved = sp.solve(
        [kappa - sp.pi**2 * diffusivity - r1, kappa - 4 * sp.pi**2 * diffusivity - r2],
        [kappa, diffusivity],
    )
    assert sp.simplify(solved[diffusivity] - (r1 - r2) / (3 * sp.pi**2)) == 0
    assert sp.simplify(solved[kappa] - (4 * r1 - r2) / 3) == 0
    with interval_model({1: 1.0, 2: 0.5}) as model:
        rates = {}
        for k in (1, 2):
            amount = model.measurement(cf.Integral(u * sp.sin(k * sp.pi * x), at="end"))
            start = 0.5 * {1: 1.0, 2: 0.5}[k]  # ∫ a sin² kπx
            rates[k] = math.log(amount.value(model.factual) / start)
            assert rates[k] == pytest.approx(RATES[k], abs=2e-4)
        found = cf.Design.from_fields(LIBRARY, model.factual, kind="weak").select(["u", "u_xx"])
    assert (rates[1] - rates[2]) / (3 * math.pi**2) == pytest.approx(D, rel=2e-3)
    assert (4 * rates[1] - rates[2]) / 3 == pytest.approx(KAPPA, rel=2e-3)
    total = found.grams.total()
    assert np.linalg.solve(total[1:, 1:], total[1:, 0]) == pytest.approx([KAPPA, D], rel=1e-3)
    assert found.alias_groups() == []


def test_maxwell_null_term_has_no_coefficient():
    E = cf.VectorField("E", dim=3)
    library = cf.Library(anchor=dt(dt(E)), terms={"curl curl": -curl(curl(E)), "G": grad(div(E))})
    experiment = cf.Experiment(
        mesh=cf.mesh.box(MPI.COMM_SELF, 0.5),
        elements={E: ("N1curl", 1)},
        initial={
            E: (sp.sin(sp.pi * y) * sp.sin(sp.pi * z), sp.sin(sp.pi * x) * sp.sin(sp.pi * z), 0),
            dt(E): (0, 0, 0),
        },
        boundary=[cf.Tangential(E, 0)],
        time=cf.Window(0, 1, steps=8),
        constraint=cf.DivergenceFree(E),
    )
    with cf.Model(library, {"curl curl": 1.0, "G": 3.0}, experiment) as model:
        size = model.factual.norm()
        assert model.deletions(["G"])["G"].score <= 1e-12 * size
        assert model.solve(cf.set("G", 500.0)).distance(model.factual) <= 1e-12 * size
        assert [null.term for null in model.constraint_nulls()] == ["G"]
        assert cf.effective_library(model).library.names == ("curl curl",)


def test_adjoint_scores_of_the_terminal_mass_are_those_of_the_closed_formulas():
    mass, value = cf.Integral(u, at="end"), 2 / math.pi * math.exp(RATES[1])
    with interval_model({1: 1.0}) as model:
        scores, deletions = model.observable_scores(mass), model.observable_deletions(mass)
        assert model.measurement(mass).value(model.factual) == pytest.approx(value, rel=1e-4)
        # ∂O/∂κ = T·O and ∂O/∂D = −π² T·O.
        assert scores["u"] == pytest.approx(KAPPA * value, rel=1e-4)
        assert scores["u_xx"] == pytest.approx(math.pi**2 * D * value, rel=1e-4)
        assert deletions["u"].score == pytest.approx(abs(math.exp(-KAPPA) - 1) * value, rel=1e-4)
        assert deletions["u_xx"].score == pytest.approx(
            abs(math.exp(math.pi**2 * D) - 1) * value, rel=1e-4
        )
        assert scores.backward_solves == 1
