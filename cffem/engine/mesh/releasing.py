# SPDX-License-Identifier: MIT
"""When the communicator of a mesh is given back: never while an error is on its way.

Reductions of Python objects leave a lock of mpi4py on a communicator, and mpi4py takes it off by
running Python code when the communicator is freed. If Python frees a mesh while it leaves a frame
because of an error, that code runs with the error pending, and mpi4py (4.0) hangs or crashes: in

    Study(library, Experiment(mesh=named(create_unit_square(…), …)), coefficients=wrong())

the mesh is freed on the way out of the call, and nobody would read what is wrong. The C++ part of
every mesh is therefore kept until the next collection of garbage, which Python never begins with an
error pending.
"""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh

_held: dict[int, weakref.ref[Mesh]] = {}
_left: list[object] = []


def freed_in_peace(mesh: Mesh) -> None:
    """Keep the C++ part of a mesh, when Python frees the mesh, until no error can be pending.

    Args:
        mesh: a mesh on whose communicator Python objects are reduced.
    """
    _left.clear()
    key = id(mesh)
    if key in _held:
        return
    inner = mesh._cpp_object

    def leave(_: weakref.ref[Mesh]) -> None:
        del _held[key]
        _left.append(inner)

    _held[key] = weakref.ref(mesh, leave)
    if _collected not in gc.callbacks:
        gc.callbacks.append(_collected)


def _collected(phase: str, info: dict[str, int]) -> None:
    _left.clear()
