# SPDX-License-Identifier: MIT
"""What the four scalar experiments check beyond their common part: the gap theorem, the
alias, the second trajectory.
"""

from __future__ import annotations

import math

import numpy as np
import sympy as sp

from cffem.validation.scalar_cases import ADVECTION, ALIASING, GAP, LIBRARY, TRAJECTORIES, mode
from cffem.validation.validate_board import Board, CaseSettings
from cffem.validation.validate_scalar import Fits, dataset, make_model, run_scalar

EIGENVALUE = 2 * math.pi**2  # of sin πx sin πy


def gap(settings: CaseSettings) -> Board:
    """C_j, δ_j and the linearised score of the reaction term, and the bound of the gap
    theorem along the deletion branch.
    """
    board, _ = run_scalar(GAP, settings)
    model = make_model(GAP, GAP.truth, GAP.initial[0], settings.quick)
    check = model.gap_check("u", points=4 if settings.quick else 8)
    contribution = model.residual_scores()["u"].contribution
    exact = math.sqrt((1 + 0.25) / 4)  # ‖initial value‖

    def integral(rate: float) -> float:
        return (math.exp(rate) - 1) / rate if rate else 1.0

    board.near_value("C_u", contribution, 0.6 * exact * math.sqrt(integral(1.2)), 1e-3)
    board.near_value(
        "δ_u", check.distances[-1], exact * math.sqrt(integral(1.2) - 2 * integral(0.6) + 1), 1e-3
    )
    # L⁻¹(κu) = κ t u: its norm squared is κ² ∫ t² e^{2κt}.
    r = 1.2
    second_moment = (math.exp(r) * (r * r - 2 * r + 2) - 2) / r**3
    board.near_value("‖L_u⁻¹ g_u‖", check.linearised, 0.6 * exact * math.sqrt(second_moment), 1e-3)
    board.check(
        "|δ_j(ρ) − ρ‖L_u⁻¹ g_j‖| ≤ ρ²M_j/2 for all ρ", max(check.gaps), check.holds, "holds"
    )
    board.pictures["gap"] = {
        "rho": check.rho,
        "distance": check.distances,
        "linear": check.linearised,
        "bounds": check.bounds,
    }
    model.destroy()
    return board


def aliasing(settings: CaseSettings) -> Board:
    """One mode identifies κ − λ_k D and nothing else: rank, null vector, two models with one
    trajectory, no split.
    """
    from cffem.design import Design

    board, fits = run_scalar(ALIASING, settings)
    count = len(settings.seeds)
    model = make_model(ALIASING, ALIASING.truth, mode(1, 1), settings.quick)
    pair = Design.from_fields(LIBRARY, model.factual, kind="weak").select(["u", "Δu"])
    model.destroy()
    board.check(
        "rank of A_S for S = {u, Δu}, weak rows of the finite elements",
        float(pair.rank()),
        pair.rank() == 1,
        "1",
    )
    groups = [g for d in fits.designs for g in d.alias_groups() if set(g.terms) == {"u", "Δu"}]
    board.everywhere(
        "seeds that report the alias group {u, Δu}", len(groups), count, "coherence 1.0000"
    )
    symbols = (
        {str(s): float(c) for s, c in groups[0].identified.as_coefficients_dict().items()}
        if groups
        else {}
    )
    board.figure(
        "what is identified (first seed)",
        f"only κ − {-symbols.get('alpha_Δu', math.nan):.4g} D is identified",
    )
    slopes = [-float(g.identified.coeff(sp.Symbol("alpha_Δu"))) for g in groups]
    error = max((abs(s / EIGENVALUE - 1) for s in slopes), default=math.inf)
    board.check("largest relative error of λ_k = 2π² in it", error, error <= 0.01, "≤ 0.01")
    value = max(
        abs(row["u"]["coefficient"] / 0.6 - 1) if set(row) == {"u"} else math.inf
        for row in fits.rows
    )
    board.check(
        "largest relative error of the value of κ − λ_k D, from the screened support",
        value,
        value <= 0.01,
        "≤ 0.01",
    )
    silent = sum(
        not s.reliable_ and any(r.startswith("aliased") for r in s.reasons_) for s in fits.screens
    )
    board.everywhere("seeds without a confident split", silent, count, "u selected in all")
    same, other = aliased_difference(settings)
    board.check(
        "relative difference of the trajectories of (κ, D) and (κ + λ_k·0.01, 0.01)",
        same,
        same <= 1e-5,
        "≤ 1e-5",
    )
    board.check("the same with κ changed alone", other, other >= 0.05, "≥ 0.05")
    return board


def aliased_difference(settings: CaseSettings) -> tuple[float, float]:
    """How far two aliased coefficient vectors are apart as trajectories, and how far a shift
    of κ alone goes.
    """
    import cffem as cf

    model = make_model(
        ALIASING, {"u": 0.6 + 0.01 * EIGENVALUE, "Δu": 0.01}, mode(1, 1), settings.quick
    )
    aliased = model.factual
    plain, shifted = model.solve([cf.set("u", 0.6), cf.delete("Δu")]), model.solve(cf.delete("Δu"))
    size = plain.norm()
    result = aliased.distance(plain) / size, shifted.distance(plain) / size
    model.destroy()
    return result


def trajectories(settings: CaseSettings) -> Board:
    """The second trajectory lifts κ̂ from zero, ends the alias, and makes the weak Δu stable."""
    from cffem.design import Design

    board, fits = run_scalar(TRAJECTORIES, settings)
    count = len(settings.seeds)
    singles = [Design.from_fields(LIBRARY, dataset(v)) for v in fits.values]
    designs = [single.select(["u", "Δu"]) for single in singles]
    both = designs[0] + designs[1]
    before, after = designs[0].restricted_eigenvalue(2), both.restricted_eigenvalue(2)
    board.check("κ̂ of {u, Δu} with one trajectory", before.upper, before.upper <= 1e-6, "≤ 1e-6")
    board.check("κ̂ of {u, Δu} with both", after.lower, after.lower >= 0.02, "≥ 0.02")
    smallest = [np.linalg.eigvalsh(d.grams.total()[1:, 1:])[0] for d in (*designs, both)]
    grows = smallest[2] >= max(smallest[:2]) * (1 - 1e-12)
    board.check(
        "λ_min of the stacked Gram is not below either one (Loewner)",
        float(smallest[2]),
        grows,
        "holds",
    )
    alone, together = (len(d.alias_groups()) for d in (singles[0], singles[0] + singles[1]))
    board.check("alias groups with one trajectory, clean", float(alone), alone >= 1, "≥ 1")
    board.check("alias groups with both", float(together), together == 0, "0")
    choice = (
        singles[0]
        .best_addition({"the same mode again": singles[0], "three modes": singles[1]})
        .name
    )
    board.check(
        "experiment that the design asks for", choice, choice == "three modes", "three modes"
    )
    stable = weak_frequency(fits)
    board.check("bootstrap frequency of the weak Δu", stable, stable >= 0.9, "≥ 0.9", 0.0)
    reliable = sum(s.reliable_ for s in fits.screens)
    board.everywhere("seeds in which the screen believes its model", reliable, count)
    board.figure("δ of the weak Δu", fits.mean("Δu", "deletion"))
    return board


def advection(settings: CaseSettings) -> Board:
    """Transport with a weak diffusion that the paper's screen misses."""
    board, fits = run_scalar(ADVECTION, settings)
    stable = weak_frequency(fits)
    board.check("bootstrap frequency of the weak Δu", stable, stable >= 0.9, "≥ 0.9", 0.0)
    reliable = sum(s.reliable_ for s in fits.screens)
    board.everywhere("seeds in which the screen believes its model", reliable, len(settings.seeds))
    return board


def weak_frequency(fits: Fits) -> float:
    """Mean bootstrap frequency of Δu."""
    return float(np.mean([s.frequencies_[list(LIBRARY.terms).index("Δu")] for s in fits.screens]))
