# SPDX-License-Identifier: MIT
"""The three-way decision: is a term's deletion score above the tolerance, given how well the score
is known?

The paper's robust relevance decision: with ‖u − u_h‖ ≤ η_f and ‖u_j − v_h‖ ≤ η_cf the true score δ
differs from the computed one by at most η_f + η_cf. Hence score > ε + margin proves relevance,
score < ε − margin proves irrelevance, and everything else, equality included, is inconclusive.
"""

from __future__ import annotations

import math

from cffem.symbols.errors import InputError

RELEVANT, IRRELEVANT, UNRESOLVED = "relevant", "irrelevant", "unresolved"


def decide(
    score: float,
    epsilon: float,
    eta_factual: float | None = None,
    eta_counterfactual: float | None = None,
    *,
    margin: float | None = None,
) -> str:
    """Decide a deletion score against a tolerance.

    A verdict needs an error bar: give both `eta_factual` and `eta_counterfactual`, or their sum as
    `margin`. With no error bar, or with only one of the two, the answer is "unresolved", because
    nothing bounds the distance to the true score. Somebody who wants to compare the bare numbers
    says so with `margin=0`.

    Args:
        score: computed deletion score ‖u_h − v_h‖.
        epsilon: tolerance, positive.
        eta_factual: error bound of the factual solution.
        eta_counterfactual: error bound of the solution with the term deleted.
        margin: bound of |score − true score|, instead of the two etas.

    Returns:
        "relevant", "irrelevant" or "unresolved".

    Example:
        >>> decide(0.5, 0.1, 0.05, 0.05)
        'relevant'
        >>> decide(0.5, 0.1)
        'unresolved'
        >>> decide(0.01, 0.1, margin=0.02)
        'irrelevant'
    """
    checked("the score", score)
    if checked("the tolerance epsilon", epsilon) == 0:
        raise InputError(
            "the tolerance epsilon must be positive, because every score is at least zero"
        )
    etas = [eta_factual, eta_counterfactual]
    if margin is not None and any(eta is not None for eta in etas):
        raise InputError("give either margin or eta_factual and eta_counterfactual, not both")
    for name, eta in zip(("eta_factual", "eta_counterfactual"), etas, strict=True):
        if eta is not None:
            checked(name, eta, infinite=True)
    if margin is not None:
        total = checked("the margin", margin, infinite=True)
    elif eta_factual is not None and eta_counterfactual is not None:
        total = float(eta_factual) + float(eta_counterfactual)
    else:
        return UNRESOLVED
    if score > epsilon + total:
        return RELEVANT
    if score < epsilon - total:
        return IRRELEVANT
    return UNRESOLVED


def checked(name: str, value: float, infinite: bool = False) -> float:
    """A nonnegative number, finite unless infinity is a sensible error bar."""
    number = float(value)
    if math.isnan(number) or number < 0 or (math.isinf(number) and not infinite):
        raise InputError(
            f"{name} must be a nonnegative{'' if infinite else ' finite'} number, not {value!r}"
        )
    return number
