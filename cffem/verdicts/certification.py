# SPDX-License-Identifier: MIT
"""What a study asks of its verdicts: the tolerance, the norm, and how much may be spent on
the error bars.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

from cffem.symbols.errors import InputError
from cffem.symbols.problem.interventions import CARRIED, CONDITIONS

# Unknowns times time steps of one solution that an error bar may need where nothing is said, and
# there are no levels below the user's.
BUDGET = 5e5
# What error bars may cost, in units of the factual solve with all of its deletions.
EFFORT = 4.0
SCORES = ("auto", "full", "decide")
# Unknowns times time steps of one solution from which a study is a large one, and the accuracy of
# scores that verdicts need there. Eight deletions from 11,849 unknowns and 40 steps took as long as
# 3 factual solves that way, and 5.7 to all digits.
LARGE, ENOUGH = 5e4, 1e-5


@dataclass(frozen=True)
class Certification:
    """The decision rule of a study.

    Args:
        epsilon: the tolerance ε of a deletion score, positive.
        relative: whether ε is multiplied by the norm of the factual solution; by default where
            there are several fields, each of which is judged against its own norm.
        norm: the norm in which deletions are measured: "L2", "H1", "H(curl)", "H(div)", "energy",
            one that was added, or a `cffem.Norm` with weights of the fields, a subdomain or a form.
            Without weights each field of a System is judged against its own norm.
        refine: whether the mesh and the time step are refined for terms whose error bars reach ε,
            until they are decided or the budget is spent.
        effort: what error bars may cost, in units of the study: of the factual solve with all of
            its deletions. It is counted in unknowns times time steps and not in seconds, so that
            verdicts do not depend on the machine. Guaranteed bars that cost more come after
            estimates, for terms that these leave open.
        budget: instead of that, the size of the largest problem that may be solved for an error
            bar, in unknowns times time steps of one solution (unknowns for a steady problem).
        enriched: whether the guaranteed certificates solve the problem with one degree more, which
            is sharper and costs more.
        scores: "full", every deletion is solved to working precision; "decide", only as far as the
            verdict needs, which is cheaper in time and enters the error bar; "auto", "decide" for
            large studies.
        conditions: "carried", a deleted equation keeps the essential conditions that it can carry,
            as `cffem.delete` says; "kept", all of them.

    Example:
        >>> Certification(epsilon=1e-3, relative=True).threshold(2.0)
        0.002
    """

    epsilon: float = 1e-3
    relative: bool | None = None
    norm: str = "L2"
    refine: bool = False
    budget: float | None = None
    enriched: bool = False
    scores: str = "auto"
    conditions: str = CARRIED
    effort: float = EFFORT

    def __post_init__(self) -> None:
        if self.scores not in SCORES:
            raise InputError(f"scores are {', '.join(map(repr, SCORES))}, not {self.scores!r}")
        if self.conditions not in CONDITIONS:
            raise InputError(
                f"conditions are {' or '.join(map(repr, CONDITIONS))}, not {self.conditions!r}"
            )
        for name in ("relative", "refine", "enriched"):
            if not isinstance(getattr(self, name), bool) and not (
                name == "relative" and self.relative is None
            ):
                raise InputError(f"{name} is True or False, not {getattr(self, name)!r}")
        for name, meaning in (
            ("epsilon", "the tolerance epsilon"),
            ("budget", "the budget"),
            ("effort", "the effort"),
        ):
            value = getattr(self, name)
            if name == "budget" and value is None:
                continue
            if (
                isinstance(value, bool)
                or not isinstance(value, Real)
                or not math.isfinite(value)
                or value <= 0
            ):
                raise InputError(f"{meaning} must be a positive number, not {value!r}")

    @property
    def largest(self) -> float:
        """The largest problem of one solution that may be solved for an error bar."""
        return BUDGET if self.budget is None else self.budget

    def accuracy(self, size: float) -> float:
        """The relative accuracy of scores that is asked of deletions with so many unknowns
        times time steps; zero: all digits.
        """
        return (
            ENOUGH if self.scores == "decide" or (self.scores == "auto" and size > LARGE) else 0.0
        )

    def threshold(self, size: float) -> float:
        """The absolute tolerance for a factual solution of this norm."""
        return float(self.epsilon) * (size if self.relative else 1.0)

    def uncertainty(self, error: float) -> float:
        """How far the tolerance may be from that of the exact solution, whose norm is within
        `error` of the computed one.

        A relative tolerance is known as an interval only, [ε(‖u_h‖ − η), ε(‖u_h‖ + η)].

        Example:
            >>> (
            ...     Certification(epsilon=0.5, relative=True).uncertainty(0.01),
            ...     Certification(epsilon=0.5).uncertainty(0.01),
            ... )
            (0.005, 0.0)
        """
        return float(self.epsilon) * error if self.relative else 0.0
