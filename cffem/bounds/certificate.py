# SPDX-License-Identifier: MIT
"""Certificates: an error bound together with the inequality it states, its hypotheses, its
constants and what it cost.

A bound is `guaranteed` where every hypothesis of its theorem was checked by the code (up to
floating-point rounding, which is not enclosed), and `estimated` otherwise. Where no theorem applies
there is a `NoCertificate` with an infinite margin and the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from cffem.symbols.latex_text import document_text
from cffem.symbols.reasons import SIZE_ERROR, Code

GUARANTEED, ESTIMATED = "guaranteed", "estimated"


@dataclass(frozen=True)
class Certificate:
    """An error bound and why it holds.

    Args:
        value: the bound.
        kind: "guaranteed" or "estimated".
        norm: the norm it is about.
        inequality: what it states, in plain text.
        formula: the same in LaTeX, without dollars.
        hypotheses: pairs of a statement and how it was checked.
        constants: the numbers that entered, by name.
        cost: seconds and numbers of solves, by name.
        method: how it was obtained, in a few words.

    Example:
        >>> convex = ("Ω is convex", "by its edges")
        >>> bound = Certificate(
        ...     0.1, "guaranteed", "L2", "‖u − u_h‖ ≤ 0.1", r"\\|u-u_h\\|\\leq 0.1", (convex,)
        ... )
        >>> print(bound)
        guaranteed: ‖u − u_h‖ ≤ 0.1 (norm L2)
          hypothesis: Ω is convex [by its edges]
    """

    value: float
    kind: str
    norm: str
    inequality: str
    formula: str
    hypotheses: tuple[tuple[str, str], ...] = ()
    constants: Mapping[str, float] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    method: str = ""

    def __post_init__(self) -> None:
        if self.kind not in (GUARANTEED, ESTIMATED):
            raise ValueError(f"a certificate is {GUARANTEED!r} or {ESTIMATED!r}, not {self.kind!r}")
        if not self.value >= 0:
            raise ValueError(f"an error bound is a nonnegative number, not {self.value!r}")
        object.__setattr__(self, "hypotheses", tuple((str(a), str(b)) for a, b in self.hypotheses))
        for name in ("constants", "cost"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __repr__(self) -> str:
        return f"Certificate({self.kind}: {self.inequality}, norm {self.norm})"

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.inequality} (norm {self.norm})"]
        lines += [f"  method: {self.method}"] if self.method else []
        lines += [f"  hypothesis: {statement} [{how}]" for statement, how in self.hypotheses]
        lines += [
            f"  {title}: {_listed(values)}"
            for title, values in (("constants", self.constants), ("cost", self.cost))
            if values
        ]
        return "\n".join(lines)

    def latex(self) -> str:
        """The certificate as a LaTeX paragraph with its hypotheses as a list."""
        lines = [
            rf"\textbf{{{document_text(self.kind)}}} ({document_text(self.norm)}): \[ "
            rf"{self.formula} \]"
        ]
        lines += [document_text(f"Method: {self.method}.")] if self.method else []
        if self.hypotheses:
            items = [
                rf"  \item {document_text(statement)} [{document_text(how)}]"
                for statement, how in self.hypotheses
            ]
            lines += [r"\begin{itemize}", *items, r"\end{itemize}"]
        if self.constants:
            lines.append(document_text(f"Constants: {_listed(self.constants)}."))
        return "\n".join(lines)


def without_size(certificate: Certificate) -> dict[str, float]:
    """The constants of a certificate without what it says of ‖u_h‖, for a bound of something else
    than u_h.
    """
    return {name: value for name, value in certificate.constants.items() if name != SIZE_ERROR}


def _listed(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {value:.4g}" for name, value in values.items())


def inequality_of_score(score: float, margin: float, away: float = 0.0) -> tuple[str, str]:
    """What the smaller of the bound of the difference and the sum of both bounds states about a
    score, in plain text and in LaTeX.

    Args:
        score: the score.
        margin: its margin.
        away: how far the norm of the difference that the bounds are about is from the score, which
            the margin contains.

    Example:
        >>> inequality_of_score(0.25, 0.01)[0]
        '|‖u − u_j‖ − 0.25| ≤ min(η_difference, η_factual + η_counterfactual) = 0.01'
    """
    text = f"|‖u − u_j‖ − {score:.4g}| ≤ min(η_difference, η_factual + η_counterfactual)"
    left = r"\bigl|\,\|u-u_j\| - \|u_h-u_{jh}\|\,\bigr|"
    formula = (
        rf"{left} \leq \min\{{\eta_{{\mathrm d}}, \eta_{{\mathrm f}}+\eta_{{\mathrm{{cf}}}}\}}"
    )
    # Less does not show in the digits that are printed.
    more = f" + {away:.2g}" if away > 5e-5 * margin else ""
    return f"{text}{more} = {margin:.4g}", f"{formula}{more} = {margin:.4g}"


@dataclass(frozen=True)
class DeletionBound:
    """How far a computed deletion score can be from the true one.

    Attributes:
        term: the deleted term.
        score: ‖u_h − u_jh‖.
        eta_factual: bound of ‖u − u_h‖.
        eta_counterfactual: bound of ‖u_j − u_jh‖.
        difference: bound of ‖(u − u_j) − (u_h − u_jh)‖, obtained directly.
        margin: the smaller of `difference` and `eta_factual + eta_counterfactual`.
        certificate: what the margin states and why.
        best: a better value of the score, where finer solutions were computed for the bound, and
            how far it can be off.
        size: ‖u_h‖, which a relative tolerance is relative to, where that is wanted.
    """

    term: str
    score: float
    eta_factual: float
    eta_counterfactual: float
    difference: float
    margin: float
    certificate: Certificate
    best: tuple[float, float] | None = None
    size: float = math.nan

    @property
    def size_error(self) -> float:
        """How far ‖u_h‖ can be from ‖u‖."""
        return min(self.eta_factual, self.certificate.constants.get(SIZE_ERROR, math.inf))

    def __repr__(self) -> str:
        kind = self.certificate.kind
        return f"DeletionBound({self.term}: {self.score:.4g} ± {self.margin:.2g}, {kind})"


@dataclass(frozen=True)
class NoCertificate:
    """No theorem applies: the margin is infinite, so every decision is `unresolved`.

    Args:
        reason: the hypothesis that fails, in one sentence.
        code: what kind of hypothesis that is.

    Example:
        >>> missing = NoCertificate("the problem is nonlinear")
        >>> missing.margin, bool(missing)
        (inf, False)
    """

    reason: str
    code: Code = Code.NO_THEOREM

    @classmethod
    def because(cls, error: Exception) -> NoCertificate:
        """What an error says about a certificate."""
        return cls(str(error), getattr(error, "code", None) or Code.NO_THEOREM)

    @classmethod
    def joined(cls, missing: Iterable[NoCertificate]) -> NoCertificate:
        """All reasons in one; its code is the one that more work could cure, if there is one."""
        found = list(missing)
        codes = [reason.code for reason in found]
        code = next(
            (c for c in (Code.NOT_SATURATED, Code.OVER_BUDGET) if c in codes), Code.NO_THEOREM
        )
        return cls("; ".join(dict.fromkeys(reason.reason for reason in found)), code)

    @property
    def margin(self) -> float:
        """Infinite."""
        return math.inf

    def __bool__(self) -> Literal[False]:
        return False


class NotCovered(ValueError):
    """A hypothesis of the theorem does not hold, or was not found to hold."""

    code = Code.NO_THEOREM


class NotSaturated(NotCovered):
    """The gaps between levels do not shrink as they do on fine meshes."""

    code = Code.NOT_SATURATED


class OverBudget(NotCovered):
    """The levels that a bound needs are larger than the budget allows."""

    code = Code.OVER_BUDGET
