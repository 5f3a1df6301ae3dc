# SPDX-License-Identifier: MIT
"""The screening-to-pruning contract: does this study recover exactly the relevant terms, and if
not, which term breaks it?

With Ŝ the screened terms, those that screening selected, and S the active ones, S ⊆ Ŝ (recall: the
beta-min condition of the thresholded Lasso) and |δ_j − ε| > η_j for every screened term (margin)
imply that {j ∈ Ŝ : δ̂_j ≥ ε} is the exact relevance set. Hence a term that was not screened is
irrelevant where recall is proved, and unresolved, because nobody deleted it, where it is not:
plug-in estimates of the coefficients say that recall holds even where the data are noise and
nothing is active.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cffem.verdicts.decisions import IRRELEVANT, UNRESOLVED

HOLDS, FAILS, UNKNOWN = "holds", "fails", "unknown"


@dataclass(frozen=True)
class PruningContract:
    """Whether pruning by deletion scores recovers the relevant terms.

    Attributes:
        recall: "holds", "fails" or "unknown": whether every active term was screened.
        margin: whether every screened term is decided.
        breaking: the screened terms whose error bars reach ε.
        estimated: whether some step rests on an estimate.
    """

    recall: str
    margin: str
    breaking: tuple[str, ...] = ()
    estimated: bool = False

    @property
    def verdict(self) -> str:
        """Whether both conditions hold, so that exactly the relevant terms were found."""
        if FAILS in (self.recall, self.margin):
            return FAILS
        return HOLDS if self.recall == self.margin == HOLDS else UNKNOWN

    def __str__(self) -> str:
        said = f"recall {self.recall}, margin condition {self.margin}"
        if self.breaking:
            said += f" (broken by {', '.join(self.breaking)})"
        return f"the pruning contract {self.verdict}: {said}" + (
            ", with estimated quantities" if self.estimated else ""
        )

    def unscreened(self) -> tuple[str, str]:
        """Decision and reason for a term that screening did not select.

        Example:
            >>> PruningContract("unknown", "holds").unscreened()
            ('unresolved', 'not screened: not selected, and it is not known that screening kept
            every active term')
        """
        if self.recall == HOLDS and not self.estimated:
            return IRRELEVANT, "not selected, and screening provably kept every active term"
        why = {
            FAILS: "screening may have lost an active term",
            UNKNOWN: "it is not known that screening kept every active term",
            HOLDS: "that screening kept every active term rests on estimates",
        }
        return UNRESOLVED, f"not screened: not selected, and {why[self.recall]}"


def pruning_contract(
    decisions: Mapping[str, str],
    screened: Iterable[str] | None = None,
    recall: str = HOLDS,
    kinds: Mapping[str, str] | None = None,
) -> PruningContract:
    """Evaluate the contract for one study.

    Args:
        decisions: for each deleted term its decision.
        screened: the screened terms; None: all of them, as with known coefficients, where nothing
            was screened away.
        recall: what screening says about recall; it holds trivially where nothing was screened
            away.
        kinds: for each term the kind of its certificate, "guaranteed" or "estimated".

    Returns:
        The contract; terms that are neither relevant nor irrelevant break the margin condition.

    Example:
        >>> print(pruning_contract({"lap": "relevant", "u": "unresolved"}))
        the pruning contract fails: recall holds, margin condition fails (broken by u)
    """
    if recall not in (HOLDS, FAILS, UNKNOWN):
        raise ValueError(f"recall holds, fails or is unknown, not {recall!r}")
    wanted = tuple(decisions) if screened is None else tuple(screened)
    missing = [name for name in wanted if name not in decisions]
    if missing:
        raise ValueError(f"the screened term {missing[0]!r} has no decision")
    breaking = tuple(
        name
        for name in wanted
        if decisions[name] not in ("relevant", "irrelevant", "constraint_null")
    )
    estimated = any((kinds or {}).get(name) == "estimated" for name in wanted)
    return PruningContract(recall, FAILS if breaking else HOLDS, breaking, estimated)
