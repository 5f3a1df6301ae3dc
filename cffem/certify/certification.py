"""What a study asks of its verdicts: the tolerance, the norm, and whether the tolerance is relative."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Certification:
    """The decision rule of a study.

    Args:
        epsilon: the tolerance ε of a deletion score, positive.
        relative: whether ε is multiplied by the norm of the factual solution.
        norm: the norm in which deletions are measured.

    Example:
        >>> Certification(epsilon=1e-3, relative=True).threshold(2.0)
        0.002
    """

    epsilon: float = 1e-3
    relative: bool = False
    norm: str = "L2"

    def __post_init__(self) -> None:
        if isinstance(self.epsilon, bool) or not math.isfinite(float(self.epsilon)) or float(self.epsilon) <= 0:
            raise ValueError(f"the tolerance epsilon must be a positive number, not {self.epsilon!r}")

    def threshold(self, size: float) -> float:
        """The absolute tolerance for a factual solution of this norm."""
        return float(self.epsilon) * (size if self.relative else 1.0)
