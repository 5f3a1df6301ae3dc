# SPDX-License-Identifier: MIT
"""Functions of other meshes, brought onto the mesh of a problem.

A function that jumps between cells is read inside of the cells of the new mesh, at the points of
Gauss that the moments of Legendre polynomials take: the nodes of a discontinuous Lagrange element
lie on the sides of cells, where it would be left to the numbering which of the values is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import basix
import basix.ufl
from dolfinx import fem

from cffem import _compat
from cffem.forms.elements import L2, carrier
from cffem.symbols.errors import InputError
from cffem.symbols.problem.measured import Interpolated

if TYPE_CHECKING:
    from basix.ufl import _ElementBase
    from dolfinx.mesh import Mesh


def on_mesh(value: fem.Function | Interpolated, mesh: Mesh, what: str) -> fem.Function:
    """A function with the values of another one, on this mesh; collective, and so are its errors.

    Args:
        value: a function of this mesh, or one of another mesh.
        mesh: the mesh.
        what: how to call the function in an error message.

    Raises:
        InputError: the mesh of the function does not cover this one.
    """
    if not isinstance(value, Interpolated):
        return value
    source = value.function
    found = fem.Function(fem.functionspace(mesh, _element(source)), name=source.name)
    missing = _compat.interpolate_nonmatching(found, source)
    if missing:
        raise InputError(
            f"{what}: {missing} points of the mesh lie outside of the mesh of the function, "
            "and nothing is extrapolated"
        )
    return found


def _element(source: fem.Function) -> _ElementBase:
    """The element on the new mesh: moments instead of nodes for what jumps."""
    element = source.function_space.ufl_element()
    if carrier(element).space != L2 or element.map_type != basix.MapType.identity:
        return element
    return basix.ufl.element(
        "Lagrange",
        element.cell_type,
        element.embedded_superdegree,
        lagrange_variant=basix.LagrangeVariant.legendre,
        discontinuous=True,
        shape=tuple(source.ufl_shape) or None,
    )
