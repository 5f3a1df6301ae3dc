# SPDX-License-Identifier: MIT
"""Certified pruning with known scores, observables by adjoint, and a case where residuals and
deletions rank terms in reverse.

On the unit square u_t = κu + DΔu with u(0) = sin πx sin πy and u = 0 at the boundary has the
solution e^{rt} sin πx sin πy with r = κ − 2π²D, so every deletion score and every observable is
known in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from cffem.symbols.coordinates import t, x, y
from cffem.symbols.fields import ScalarField
from cffem.symbols.operators import dt, lap
from cffem.symbols.problem.library import Library
from cffem.validation.validate_board import Board, CaseSettings, TermRow
from cffem.validation.validate_scalar import unit_square

if TYPE_CHECKING:
    from cffem.engine.deletion.sweep import Sweep
    from cffem.engine.model import Model


EIGENVALUE = 2 * math.pi**2
LEVELS = np.geomspace(0.1, 10.0, 41)  # ε as multiples of the true score

u = ScalarField("u")
MODE = sp.sin(sp.pi * x) * sp.sin(sp.pi * y)
REACTION_DIFFUSION = Library(anchor=dt(u), terms={"u": u, "Δu": lap(u)})
OMEGA = 20 * sp.pi
WIND = Library(
    anchor=dt(u), terms={"u": u, "Δu": lap(u), "cos(ωt) u_x": sp.cos(OMEGA * t) * u.diff(x)}
)
WIND_TRUTH = {"u": 0.3, "Δu": 0.02, "cos(ωt) u_x": 1.5}


def square_model(
    library: Library, coefficients: Mapping[str, float], h: float, steps: int
) -> Model:
    """A problem on the unit square that starts from the first mode."""
    import cffem as cf

    experiment = cf.Experiment(
        mesh=unit_square(h),
        elements={u: ("Lagrange", 2)},
        initial={u: MODE},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 1, steps=steps),
    )
    return cf.Model(library, dict(coefficients), experiment)


def exact_score(rate: float, other: float) -> float:
    """½‖e^{rt} − e^{st}‖ in L2(0, 1): the distance of two solutions, as ‖sin πx sin πy‖ = ½."""

    def integral(c: float) -> float:
        return math.expm1(c) / c if abs(c) > 1e-12 else 1.0

    return 0.5 * math.sqrt(
        max(integral(2 * rate) - 2 * integral(rate + other) + integral(2 * other), 0.0)
    )


def draw(seed: int) -> dict[str, float]:
    """Random coefficients: reaction of either sign, diffusion that does not damp everything."""
    random = np.random.default_rng(seed)
    return {
        "u": float(random.choice([-1, 1]) * random.uniform(0.2, 1.0)),
        "Δu": float(random.uniform(0.02, 0.08)),
    }


def pruning(settings: CaseSettings) -> Board:
    """Verdicts against known scores at many tolerances: no wrong one, and equality of the
    pruned and the true relevant set.
    """
    import cffem as cf

    board = Board("pruning", "Certified pruning")
    h, steps = (1 / 6, 20) if settings.quick else (1 / 12, 40)
    board.settings += [
        "u_t = κu + DΔu, κ ∈ ±(0.2, 1) and D ∈ (0.02, 0.08) drawn for each seed, one mode, "
        f"degree 2, h = {h:.3g}, {steps} steps",
        f"{len(LEVELS)} tolerances ε from a tenth to ten times each true score",
    ]
    verdicts, covered, bounds_seen, equal, asked = [], 0, 0, 0, 0
    bars: list[tuple[float, float, float]] = []
    kinds: dict[str, int] = {}
    for seed in settings.seeds:
        coefficients = draw(seed)
        rate = coefficients["u"] - EIGENVALUE * coefficients["Δu"]
        truth = {
            "u": exact_score(rate, rate - coefficients["u"]),
            "Δu": exact_score(rate, rate + EIGENVALUE * coefficients["Δu"]),
        }
        model = square_model(REACTION_DIFFUSION, coefficients, h, steps)
        sweep = model.deletions(keep=True)
        bounds = cf.certify_sweep(model, sweep, cf.Certification(budget=2e6))
        for name, delta in truth.items():
            bound, score = bounds[name], sweep[name].score
            margin, kind = bound.margin, bound.certificate.kind if bound else "none"
            kinds[kind] = kinds.get(kind, 0) + 1
            covered, bounds_seen = covered + (abs(score - delta) <= margin), bounds_seen + 1
            bars.append((delta, score, margin))
            for epsilon in LEVELS * delta:
                verdicts.append(
                    (
                        cf.decide(score, epsilon, margin=margin),
                        "relevant" if delta > epsilon else "irrelevant",
                    )
                )
        for epsilon in np.geomspace(0.3 * min(truth.values()), 3 * max(truth.values()), 21):
            if all(abs(truth[n] - epsilon) > bounds[n].margin for n in truth):
                asked += 1
                pruned = {n for n in truth if sweep[n].score >= epsilon}
                equal += pruned == {n for n in truth if truth[n] >= epsilon}
        if seed == settings.seeds[0]:
            board.figure(
                "sets at ε = geometric mean of the two true scores (first seed)",
                three_sets(sweep, bounds, truth),
            )
        model.destroy()
    board.everywhere("error bars that contain the true score", covered, bounds_seen)
    for kind, number in sorted(kinds.items()):
        board.figure(f"certificates that are {kind}", float(number))
    wrong = sum(v not in (w, "unresolved") for v, w in verdicts)
    board.check("wrong verdicts", float(wrong), wrong == 0, "0")
    for verdict in ("relevant", "irrelevant", "unresolved"):
        board.figure(
            f"{verdict} verdicts of {len(verdicts)}", float(sum(v == verdict for v, _ in verdicts))
        )
    decided = sum(v != "unresolved" for v, _ in verdicts) / len(verdicts)
    board.check("share of decided verdicts", decided, decided >= 0.8, "≥ 0.8")
    board.everywhere(
        "tolerances outside all margins where the pruned set is the true one", equal, asked
    )
    board.pictures["pruning"] = bars
    return board


def three_sets(sweep: Sweep, bounds: Any, truth: Mapping[str, float]) -> str:
    """The relevant, irrelevant and unresolved terms at one tolerance."""
    import cffem as cf

    epsilon = math.sqrt(math.prod(truth.values()))
    sets: dict[str, list[str]] = {"relevant": [], "irrelevant": [], "unresolved": []}
    for name in truth:
        sets[cf.decide(sweep[name].score, epsilon, margin=bounds[name].margin)].append(name)
    return ", ".join(f"{verdict} {{{', '.join(names)}}}" for verdict, names in sets.items())


def observables(settings: CaseSettings) -> Board:
    """The terminal mass: adjoint scores I_j and deletions Δ_j against closed formulas, one
    backward solve, the remainder bound.
    """
    import cffem as cf

    board = Board("observables", "Observable adjoints")
    h, steps = (1 / 8, 40) if settings.quick else (1 / 16, 79)
    board.settings.append(
        f"terminal mass ∫u(T) of the same problems, degree 2, h = {h:.3g}, {steps} steps of the "
        "midpoint rule"
    )
    mass = cf.Integral(u, at="end")
    worst = {"value": 0.0, "adjoint": 0.0, "deletion": 0.0}
    ranked = bounded = backward = 0
    terms: dict[str, list[tuple[float, float]]] = {"u": [], "Δu": []}
    for seed in settings.seeds:
        coefficients = draw(seed)
        shares = {"u": coefficients["u"], "Δu": -EIGENVALUE * coefficients["Δu"]}
        value = 4 / math.pi**2 * math.exp(sum(shares.values()))
        model = square_model(REACTION_DIFFUSION, coefficients, h, steps)
        scores, deletions = model.observable_scores(mass), model.observable_deletions(mass)
        backward = max(backward, scores.backward_solves)
        worst["value"] = max(
            worst["value"], abs(model.measurement(mass).value(model.factual) / value - 1)
        )
        for name, share in shares.items():
            exact_adjoint, exact_deletion = abs(share) * value, abs(math.exp(-share) - 1) * value
            worst["adjoint"] = max(worst["adjoint"], abs(scores[name] / exact_adjoint - 1))
            worst["deletion"] = max(
                worst["deletion"], abs(deletions[name].score / exact_deletion - 1)
            )
            terms[name].append((scores[name], deletions[name].score))
        order = sorted(shares, key=lambda n: scores[n])
        ranked += order == sorted(shares, key=lambda n: abs(shares[n]))
        bounded += all(model.observable_bound(mass, name, points=4).holds for name in shares)
        model.destroy()
    for key, quantity in (
        ("value", "terminal mass"),
        ("adjoint", "I_j = |⟨φ, α_j T_j[u]⟩|"),
        ("deletion", "Δ_j = |O(u) − O(u_j)|"),
    ):
        board.check(
            f"largest relative error of {quantity}", worst[key], worst[key] <= 2e-3, "≤ 0.002"
        )
    board.everywhere(
        "seeds whose adjoint scores rank the terms as the closed formulas do",
        ranked,
        len(settings.seeds),
    )
    board.everywhere(
        "seeds within the remainder bound of the theorem", bounded, len(settings.seeds)
    )
    board.check(
        "backward solves for all terms of one observable", float(backward), backward == 1, "1"
    )
    for name, pairs in terms.items():
        adjoint, finite = np.mean(pairs, axis=0)
        board.figure(f"mean I_j and Δ_j of {name}", f"{adjoint:.4g} and {finite:.4g}")
    return board


def reversal(settings: CaseSettings) -> Board:
    """A wind that turns ten times: the largest residual contribution, the smallest deletion
    score; the linearised score knows.
    """
    board = Board("reversal", "Rank reversal")
    h, steps = (1 / 12, 160) if settings.quick else (1 / 20, 320)
    board.settings.append(
        f"u_t = 0.3 u + 0.02 Δu + 1.5 cos(20πt) u_x, one mode, degree 2, h = {h:.3g}, {steps} "
        "steps: a hard wind that comes back"
    )
    model = square_model(WIND, WIND_TRUTH, h, steps)
    residual, sweep, linear = model.residual_scores(), model.deletions(), model.linearised()
    contribution = {n: residual[n].contribution for n in WIND_TRUTH}
    deletion = {n: sweep[n].score for n in WIND_TRUTH}
    linearised = {n: float(linear[n]) for n in WIND_TRUTH}
    loudest, weakest = (
        max(contribution, key=contribution.__getitem__),
        min(deletion, key=deletion.__getitem__),
    )
    board.check("term with the largest C_j", loudest, loudest == weakest, "has the smallest δ_j")
    board.check(
        "term with the smallest linearised score",
        min(linearised, key=linearised.__getitem__),
        min(linearised, key=linearised.__getitem__) == weakest,
        "has the smallest δ_j",
    )
    others = min(v for n, v in deletion.items() if n != weakest)
    board.check(
        "its δ_j over the next smallest",
        deletion[weakest] / others,
        deletion[weakest] < 0.8 * others,
        "< 0.8",
    )
    second = max(v for n, v in contribution.items() if n != loudest)
    board.check(
        "its C_j over the next largest",
        contribution[loudest] / second,
        contribution[loudest] > 2 * second,
        "> 2",
    )
    for name, value in WIND_TRUTH.items():
        board.terms.append(
            TermRow(
                "reversal",
                name,
                value,
                rci=residual[name].rci,
                contribution=contribution[name],
                one_step=residual[name].one_step,
                deletion=deletion[name],
                linearised=linearised[name],
            )
        )
    board.pictures["reversal"] = {
        n: (contribution[n], deletion[n], linearised[n]) for n in WIND_TRUTH
    }
    model.destroy()
    return board
