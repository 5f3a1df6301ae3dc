# SPDX-License-Identifier: MIT
"""Scopes that free PETSc's objects: what is owned by one is freed with it, the last first."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Protocol, Self, TypeVar

from cffem.engine.solve_errors import SolveError


class Freed(Protocol):
    """Anything that can be freed."""

    def destroy(self) -> object:
        """Free it; collective."""


Thing = TypeVar("Thing", bound=Freed)


class Scope:
    """Owns objects and frees them together: as a block, or as the base of a class that holds them.

    A block that ends by a `SolveError`, which all ranks raise together, frees what it owns, too.
    Any other error may be one of a single rank, where freeing, which is collective, would wait for
    the others for ever: then the objects are let go, and PETSc frees them at its next collective
    clean-up.

    Example:
        >>> from petsc4py import PETSc
        >>> with Scope() as scope:
        ...     vector = scope.own(PETSc.Vec().createSeq(3, comm=PETSc.COMM_SELF))
        >>> bool(vector)
        False
    """

    _owned: list[Freed] | None = None

    def own(self, thing: Thing) -> Thing:
        """Take charge of an object, which is freed with this one."""
        if self._owned is None:
            self._owned = []
        self._owned.append(thing)
        return thing

    def own_all(self, things: Iterable[Thing]) -> list[Thing]:
        """Take charge of several objects."""
        return [self.own(thing) for thing in things]

    def release(self, thing: Freed) -> None:
        """Free one of the objects now."""
        self._owned = [other for other in self._owned or () if other is not thing]
        thing.destroy()

    def destroy(self) -> None:
        """Free all that is owned; collective."""
        while self._owned:
            self._owned.pop().destroy()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, SolveError):
            self.destroy()
        else:
            self._owned = None
