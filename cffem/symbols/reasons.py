# SPDX-License-Identifier: MIT
"""Reasons: why a verdict, an error bar or a solution is missing, as a code for programs and a text
for people.

Advice and tables follow from the code; nothing decides on the words of a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """What stands between a term and its verdict."""

    NONE = ""
    NULL = "constraint-null"
    ALIASED = "aliased"
    ZERO_COEFFICIENT = "coefficient-zero"
    UNSELECTED = "not-selected"
    DETECTION_LIMIT = "detection-limit"
    NO_THEOREM = "no-error-bar"
    NOT_SATURATED = "levels-not-saturated"
    OVER_BUDGET = "over-budget"
    MARGIN_DISCRETISATION = "margin-discretisation"
    MARGIN_COEFFICIENTS = "margin-coefficients"
    UNSOLVABLE = "deletion-unsolvable"
    PARTIAL = "deletion-in-part"
    MODEL_UNSOLVED = "model-unsolved"
    MODEL_BACKWARD = "model-backward-in-time"
    MODEL_GROWS = "model-grows"
    FIELD_VANISHES = "field-vanishes"


@dataclass(frozen=True)
class Reason:
    """A reason.

    Args:
        code: what programs look at.
        text: what people read.

    Example:
        >>> print(Reason(Code.ALIASED, "only the sum is identified"))
        only the sum is identified
    """

    code: Code
    text: str = ""

    def __str__(self) -> str:
        return self.text

    def to_plain(self) -> dict[str, str]:
        """As JSON's own types."""
        return {"code": str(self.code), "text": self.text}

    @classmethod
    def from_plain(cls, plain: dict[str, str]) -> Reason:
        """The reason that `to_plain` wrote."""
        return cls(Code(plain["code"]), plain["text"])
