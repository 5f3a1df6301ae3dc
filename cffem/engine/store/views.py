# SPDX-License-Identifier: MIT
"""Fields for ParaView: VTX files by ADIOS2, which show Lagrange functions of any degree, continuous
or not.

Fields on other elements (Nédélec, Raviart–Thomas, …) are interpolated exactly into discontinuous
Lagrange functions.
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import basix.ufl
from dolfinx import fem

from cffem.forms.elements import H1, carrier
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field

if TYPE_CHECKING:
    from basix.ufl import _ElementBase

    from cffem.engine.solution import Solution


def write_views(solution: Solution, path: Path, field: Field | None) -> list[Path]:
    """One file for each field that is asked for; collective."""
    unknowns = solution.model.discretisation.unknowns if field is None else (field,)
    if field is None and solution.model.discretisation.multiplier is not None:
        unknowns = (*unknowns, solution.model.discretisation.multiplier[0])
    if path.suffix != ".bp":
        raise InputError(f"ParaView files end in .bp, not {path.name}")
    several = len(unknowns) > 1
    files = [
        path.with_name(f"{path.stem}_{unknown.name}.bp") if several else path
        for unknown in unknowns
    ]
    for unknown, file in zip(unknowns, files, strict=True):
        write_view(solution, unknown, file)
    return files


def write_view(solution: Solution, unknown: Field, file: Path) -> None:
    """All levels of one field."""
    from dolfinx.io import VTXWriter

    spaces = solution.model.spaces
    own, shown = spaces.own(unknown)[0], shown_element(spaces.elements[unknown])
    source = fem.Function(own, name=unknown.name)
    target = (
        source
        if shown is None
        else fem.Function(fem.functionspace(spaces.mesh, shown), name=unknown.name)
    )
    writer: Any = None
    try:
        writer = VTXWriter(spaces.comm, file, [target], engine="BP4")
        for time, state in zip(solution.times, solution.states, strict=True):
            source.x.array[:] = spaces.with_ghosts(state)[spaces.dofs(unknown)]
            if target is not source:
                target.interpolate(source)
            writer.write(float(time))
        writer.close()
    except RuntimeError as error:
        # When it is freed it tries to write once more, and the process ends without a word if that
        # fails.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(writer))
        raise _unwritten(error, file) from None


def _unwritten(error: RuntimeError, file: Path) -> Exception:
    """What ADIOS2 says about a file that it could not write, as the system's error where it
    names it.
    """
    found = re.search(r"errno = (\d+)", str(error))
    if found is None:
        return error
    return OSError(int(found[1]), os.strerror(int(found[1])), str(file))


def shown_element(element: _ElementBase) -> Any:
    """The Lagrange element that shows a field exactly; None where its own does."""
    base = element.sub_elements[0] if element.block_size > 1 else element
    if carrier(element).space == H1 and base.basix_element.family.name == "P":
        return None
    shape = element.reference_value_shape
    return basix.ufl.element(
        "DG", element.cell_type.name, max(element.embedded_superdegree, 1), shape=shape or None
    )
