# SPDX-License-Identifier: MIT
"""Solvers from options: where Krylov solvers are made, and PETSc's database of options, which ours
are in while a solver reads them. What no solver reads is told.
"""

from __future__ import annotations

import ctypes
import itertools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from petsc4py import PETSc

if TYPE_CHECKING:
    from cffem.engine.solve.stage_types import PetscOptions


log = logging.getLogger("cffem.engine")
_WARNED: set[str] = set()  # options that were warned of already
_PREFIXES = itertools.count()


@dataclass(frozen=True)
class KrylovSettings:
    """When an iterative solve ends, unless options say otherwise.

    Args:
        relative: the residual relative to the right-hand side: scores to 1e-9 need one digit more.
        absolute: the residual itself; nothing, because fields have any unit.
        steps: as many are not needed by a preconditioner that suits.
    """

    relative: float = 1e-10
    absolute: float = 1e-300
    steps: int = 1000


KRYLOV = KrylovSettings()


def new_ksp(matrix: PETSc.Mat, settings: KrylovSettings = KRYLOV) -> PETSc.KSP:
    """A Krylov solver of a matrix that has read no options yet; the caller frees it."""
    ksp = PETSc.KSP().create(matrix.comm)
    ksp.setTolerances(rtol=settings.relative, atol=settings.absolute, max_it=settings.steps)
    ksp.setOperators(matrix)
    return ksp


@contextmanager
def reading(
    solver: PETSc.KSP | PETSc.PC, options: PetscOptions, purpose: str = "solver"
) -> Iterator[str]:
    """A solver reads options under a prefix of its own; set it up meanwhile.

    Args:
        solver: a KSP or PC.
        options: the options without prefix.
        purpose: a word that the prefix contains.

    Yields:
        The prefix.
    """
    prefix = f"cffem_{purpose}_{next(_PREFIXES)}_"
    solver.setOptionsPrefix(prefix)
    with options_for(prefix, options):
        solver.setFromOptions()
        yield prefix


@contextmanager
def options_for(prefix: str, options: PetscOptions) -> Iterator[None]:
    """Options in PETSc's database while a solver reads them, inner solvers at their set-up;
    afterwards nothing of ours stays.
    """
    database = PETSc.Options()
    for key, value in options.items():
        database[prefix + key] = value
    try:
        yield
    finally:
        for key in options:
            database.delValue(prefix + key)


def warn_of_unread(options: PetscOptions, prefix: str, ksp: PETSc.KSP) -> None:
    """Say which of the user's options this solver has not read: they are misspelt or belong
    to another solver.
    """
    library = ctypes.CDLL(PETSc.__file__)
    for name in options:
        read = [ctypes.c_int(0), ctypes.c_int(0)]
        # Whether names are asked for with their dash differs between versions of PETSc.
        for dash, answer in zip(("", "-"), read, strict=True):
            library.PetscOptionsUsed(None, f"{dash}{prefix}{name}".encode(), ctypes.byref(answer))
        if not any(answer.value for answer in read) and name not in _WARNED:
            _WARNED.add(name)
            if ksp.comm.rank == 0:
                log.warning(
                    "the PETSc option %s has no effect: the solver %s with %s does not read it",
                    name,
                    ksp.getType(),
                    ksp.getPC().getType(),
                )
