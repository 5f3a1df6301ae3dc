# SPDX-License-Identifier: MIT
"""The error that a solve ends in, with its cause for programs and words for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from petsc4py import PETSc

# What the causes of a `SolveError` mean.
CAUSES = {
    "singular": "the problem has no unique solution",
    "workspace": "the factorisation asks for more workspace than it may have",
    "memory": "the machine has not the memory that the factors need",
    "tolerance": "a linear solve missed its tolerance",
    "start": "Newton's method did not converge from where it started; a better start may help",
    "fold": "the branch of solutions that begins at the factual one turns back before the "
    "deletion is complete",
    "blow-up": "the solution grows beyond all bounds",
    "backward": "the equation runs backward in time",
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


def petsc_words(error: PETSc.Error) -> str:
    """What PETSc says about an error last, which tells most."""
    lines = str(error).splitlines()
    said = re.sub(r"^\[\d+\] *", "", lines[-1]) if len(lines) > 1 else ""
    return f"PETSc error {error.ierr}: {said}" if said else f"PETSc error {error.ierr}"


@contextmanager
def as_raised() -> Iterator[None]:
    """What is raised in a function that PETSc or SLEPc calls arrives as it is, and not as an error
    of PETSc.

    Example:
        >>> class Broken:
        ...     def mult(self, matrix, vector, out):
        ...         raise ValueError("the words that matter")
        >>> matrix = PETSc.Mat().createPython((2, 2), Broken(), comm=PETSc.COMM_SELF).setUp()
        >>> with as_raised():
        ...     matrix.mult(*matrix.createVecs())
        Traceback (most recent call last):
        ...
        ValueError: the words that matter
    """
    try:
        yield
    except PETSc.Error as error:
        inner = error.__cause__
        while isinstance(inner, PETSc.Error) and inner.__cause__ is not None:
            inner = inner.__cause__
        if inner is None or isinstance(inner, PETSc.Error):
            raise
        raise inner from None
