# SPDX-License-Identifier: MIT
"""The screening contract: when the thresholded Lasso provably keeps every true term, or adds no
false one.

With ‖Aᵀη/n‖_∞ ≤ λ/2 and the restricted-eigenvalue constant κ the Lasso error is at most B_s =
4λ√s/κ (normalised columns). Hence min|β*_j| > τ + B_s keeps all true terms (recall), τ ≥ B_s adds
no false term, and irrepresentability with a beta-min condition recovers all signs. True β* and η
are unknown, so plug-ins are used unless they are given; the verdicts then are `estimated`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cffem.design.cone import Bracket
from cffem.design.spectrum import irrepresentability

HOLDS, FAILS, UNKNOWN = "holds", "fails", "unknown"


@dataclass(frozen=True)
class Contract:
    """Error bound and conditions at one λ and τ.

    Args:
        bound: B_s with the proved lower bound of κ; infinite if that is zero.
        optimistic_bound: B_s with the attained upper bound of κ.
        noise: whether ‖Aᵀη/n‖_∞ ≤ λ/2.
        recall: whether every true term is kept.
        no_false_positive: whether no false term is added.
        sign_recovery: whether the Lasso recovers all signs without a threshold.
        irrepresentability: ‖Σ_{S^c S} Σ_SS⁻¹ sign β_S‖_∞.
        estimated: whether plug-ins stand in for the true coefficients or the true noise.
    """

    bound: float
    optimistic_bound: float
    noise: str
    recall: str
    no_false_positive: str
    sign_recovery: str
    irrepresentability: float
    estimated: bool


def check_contract(
    sigma: np.ndarray,
    beta: np.ndarray,
    alpha: float,
    threshold: float,
    noise: float,
    kappa: Bracket,
    *,
    estimated: bool,
) -> Contract:
    """Check the conditions of the screening theorems.

    Args:
        sigma: normalised Gram.
        beta: true (or plug-in) coefficients on the normalised scale.
        alpha: the Lasso penalty λ.
        threshold: the threshold τ.
        noise: ‖Aᵀη/n‖_∞ or a bound of it.
        kappa: bracket of the restricted-eigenvalue constant for |support of beta|.
        estimated: whether beta or noise are plug-ins.
    """
    support = beta != 0
    s = int(support.sum())
    numerator = 4 * alpha * math.sqrt(s)
    bound = numerator / kappa.lower if kappa.lower > 0 else (0.0 if numerator == 0 else math.inf)
    optimistic = (
        numerator / kappa.upper if kappa.upper > 0 else (0.0 if numerator == 0 else math.inf)
    )
    smallest = float(np.abs(beta[support]).min()) if s else math.inf
    quiet = HOLDS if noise <= alpha / 2 else FAILS

    def verdict(surely: bool, possibly: bool) -> str:
        # A condition that fails leaves the guarantee without a premise; it does not prove that
        # screening fails.
        if quiet == FAILS:
            return UNKNOWN
        return HOLDS if surely else UNKNOWN if possibly else FAILS

    recall = verdict(smallest > threshold + bound, smallest > threshold + optimistic)
    clean = verdict(threshold >= bound, threshold >= optimistic)
    incoherence = irrepresentability(sigma, support, np.sign(beta[support])) if s else 0.0
    signs = sign_condition(sigma, support, smallest, alpha, noise, incoherence)
    return Contract(bound, optimistic, quiet, recall, clean, signs, incoherence, estimated)


def sign_condition(
    sigma: np.ndarray,
    support: np.ndarray,
    smallest: float,
    alpha: float,
    noise: float,
    incoherence: float,
) -> str:
    """Irrepresentability, small noise and beta-min together recover the signed support
    (primal–dual witness).
    """
    if not support.any():
        return HOLDS if noise <= alpha else UNKNOWN
    if incoherence >= 1:
        return FAILS
    inner = sigma[np.ix_(support, support)]
    if np.linalg.cond(inner) > 1e12:
        return FAILS
    largest_row = float(np.abs(np.linalg.inv(inner)).sum(axis=1).max())
    # Off the support the witness needs |Σ_{S^c S}Σ_SS⁻¹(λ sign − Aᵀη/n) + Aᵀη/n| < λ; the worst
    # case over S^c bounds the noise part.
    margin = irrepresentability(sigma, support)
    if noise * (1 + margin) >= alpha * (1 - incoherence):
        return UNKNOWN
    return HOLDS if smallest > largest_row * (noise + alpha) else FAILS
