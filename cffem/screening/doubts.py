# SPDX-License-Identifier: MIT
"""What speaks against a selected model: where the gates stand, a doubt in words, the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Gates:
    """Where the gates stand; all shares are relative to the anchor.

    Attributes:
        win_rate: least share of the bootstrap replicates that the support wins.
        gap: least EBIC distance to the best rival.
        idle: what an added term may improve the fit by and still be idle; chance alone gives one.
        misfit: largest share of unexplained energy, with two error bars.
        seen_misfit: unexplained energy that counts once it exceeds three error bars.
        overcorrected: error bars below zero from which the noise that was taken off is too much.
        seen_overcorrection: energy below zero from which that counts.
        noise_share: largest ratio of noise to signal in a direction of the support.
        alias_share: energy of a column outside the span of others below which it may be an alias.
        heterogeneity: how much more than noise explains the coefficients may drift from block to
            block.
        missing_gap: least EBIC distance to a model with terms from outside the library.
        cautious: standard errors from which a left-out term counts where noise is correlated.
        discretisation: amplitude that interpolation and quadrature may get wrong without any noise.
        undetected: largest amplitude that a left-out term may still have.
        suspected: the same of a left-out term whose interval excludes zero.
        improves: gain of the log-likelihood, doubled, from which Akaike's criterion adds a term.
        matters: amplitude from which such a term leaves the support open, if EBIC leaves it out.
        narrower: share of their width along space that narrower test functions have.
        fronts: how much a second derivative may grow beside the anchor under narrower test
            functions. It grows by up to 1.2 where data are resolved, and by 1.6 and more at fronts.
        front_share: amplitude under narrower test functions from which it then counts.
        defect: largest energy by which sums over few readings may fail, unless noise does more.
        written_out: terms of an alias group up to which all its combinations are written out.
    """

    win_rate: float = 0.9
    gap: float = 5.0
    idle: float = 2.0
    misfit: float = 0.1
    seen_misfit: float = 1e-3
    overcorrected: float = 2.5
    seen_overcorrection: float = 0.02
    noise_share: float = 1.0
    alias_share: float = 0.02
    heterogeneity: float = 5.0
    missing_gap: float = 0.0
    cautious: float = 2.9
    discretisation: float = 3e-3
    undetected: float = 0.35
    suspected: float = 0.07
    improves: float = 2.0
    matters: float = 0.045
    narrower: float = 0.5
    fronts: float = 1.4
    front_share: float = 0.01
    defect: float = 3e-5
    written_out: int = 4


GATES = Gates()
PROBE = "probe "  # begins the name of a common term that the library lacks


@dataclass(frozen=True)
class Doubt:
    """Why a model is not believed: `kind` is aliased, misfit, unstable, search, undetected or
    correlated noise.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True)
class Reliability:
    """The verdict on a selected model with the numbers behind it."""

    reasons: tuple[Doubt, ...]
    numbers: dict[str, Any] = field(default_factory=dict)

    @property
    def reliable(self) -> bool:
        return not self.reasons
