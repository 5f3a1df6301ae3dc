# SPDX-License-Identifier: MIT
"""Fields for ParaView: VTX files (`.bp`) by ADIOS2, or VTK files (`.pvd` with `.vtu`), which need
nothing but DOLFINx. Both show Lagrange functions of any degree, continuous or not.

Fields on other elements (Nédélec, Raviart–Thomas, …) are interpolated exactly into discontinuous
Lagrange functions.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import basix.ufl
from dolfinx import fem

from cffem.forms.elements import H1, carrier
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field

if TYPE_CHECKING:
    from basix.ufl import _ElementBase
    from mpi4py import MPI

    from cffem.engine.solution import Solution


def write_views(solution: Solution, path: Path, field: Field | None) -> list[Path]:
    """One file for each field that is asked for; collective."""
    unknowns = solution.model.discretisation.unknowns if field is None else (field,)
    if field is None and solution.model.discretisation.multiplier is not None:
        unknowns = (*unknowns, solution.model.discretisation.multiplier[0])
    if path.suffix not in WRITERS:
        raise InputError(f"ParaView files end in {' or '.join(WRITERS)}, not {path.name}")
    several = len(unknowns) > 1
    files = [
        path.with_name(f"{path.stem}_{unknown.name}{path.suffix}") if several else path
        for unknown in unknowns
    ]
    for unknown, file in zip(unknowns, files, strict=True):
        write_view(solution, unknown, file)
    return files


def write_view(solution: Solution, unknown: Field, file: Path) -> None:
    """All levels of one field."""
    spaces = solution.model.spaces
    own, shown = spaces.own(unknown)[0], shown_element(spaces.elements[unknown])
    source = fem.Function(own, name=unknown.name)
    target = (
        source
        if shown is None
        else fem.Function(fem.functionspace(spaces.mesh, shown), name=unknown.name)
    )

    def levels() -> Iterator[float]:
        """Each level in turn: the function holds it when its time is handed on."""
        for time, state in zip(solution.times, solution.states, strict=True):
            source.x.array[:] = spaces.with_ghosts(state)[spaces.dofs(unknown)]
            if target is not source:
                target.interpolate(source)
            yield float(time)

    WRITERS[file.suffix](spaces.comm, file, target, levels())


def write_vtx(comm: MPI.Comm, file: Path, target: fem.Function, levels: Iterator[float]) -> None:
    """One folder of ADIOS2."""
    from dolfinx.io import VTXWriter

    writer: Any = None
    try:
        writer = VTXWriter(comm, file, [target], engine="BP4")
        for time in levels:
            writer.write(time)
        writer.close()
    except RuntimeError as error:
        # When it is freed it tries to write once more, and the process ends without a word if that
        # fails.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(writer))
        raise _unwritten(error, file) from None


def write_vtk(comm: MPI.Comm, file: Path, target: fem.Function, levels: Iterator[float]) -> None:
    """A collection with one unstructured grid for each level and rank."""
    from dolfinx.io import VTKFile

    with VTKFile(comm, str(file), "w") as collection:
        for time in levels:
            collection.write_function(target, time)


WRITERS = {".bp": write_vtx, ".pvd": write_vtk}


def _unwritten(error: RuntimeError, file: Path) -> Exception:
    """What ADIOS2 says about a file that it could not write, as the system's error where it
    names it.
    """
    found = re.search(r"errno = (\d+)", str(error))
    if found is None:
        return error
    return OSError(int(found[1]), os.strerror(int(found[1])), str(file))


def shown_element(element: _ElementBase) -> _ElementBase:
    """The Lagrange element that shows a field exactly; None where its own does."""
    base = element.sub_elements[0] if element.block_size > 1 else element
    if carrier(element).space == H1 and base.basix_element.family.name == "P":
        return None
    shape = element.reference_value_shape
    return basix.ufl.element(
        "DG", element.cell_type.name, max(element.embedded_superdegree, 1), shape=shape or None
    )
