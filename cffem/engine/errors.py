# SPDX-License-Identifier: MIT
"""The error that a solve ends in, with its cause for programs and words for people."""

from __future__ import annotations

from collections.abc import Iterable

# What the causes of a `SolveError` mean.
CAUSES = {
    "singular": "the problem has no unique solution",
    "workspace": "the factorisation asks for more workspace than it may have",
    "memory": "the machine has not the memory that the factors need",
    "tolerance": "a linear solve missed its tolerance",
    "start": "Newton's method did not converge from where it started; a better start may help",
    "fold": "the branch of solutions that begins at the factual one turns back before the deletion is complete",
    "blow-up": "the solution grows beyond all bounds",
    "not finite": "a number is not finite",
}


class SolveError(RuntimeError):
    """A linear or nonlinear solve that did not reach its tolerance.

    Attributes:
        history: residual norms, as far as they are known.
        cause: one of `CAUSES`.
    """

    def __init__(self, message: str, history: Iterable[float] = (), cause: str = "tolerance"):
        super().__init__(message)
        self.history = [float(value) for value in history]
        self.cause = cause
