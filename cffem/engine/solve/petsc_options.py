# SPDX-License-Identifier: MIT
"""PETSc's database of options: ours are in it while a solver reads them, and what no solver
reads is told.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from petsc4py import PETSc

log = logging.getLogger("cffem.engine")
_WARNED: set[str] = set()  # options that were warned of already


@contextmanager
def options_for(prefix: str, options: Mapping[str, Any]) -> Iterator[None]:
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


def warn_of_unread(options: Mapping[str, Any], prefix: str, ksp: PETSc.KSP) -> None:
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
