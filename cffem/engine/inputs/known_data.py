# SPDX-License-Identifier: MIT
"""Initial and boundary values that contain known fields without a formula.

Such values are evaluated cell by cell, so that a known field that jumps between cells has one value
in each. A node that several cells share takes their mean; on the boundary only the cells at the
facets where the condition holds are asked. Rates of boundary values follow by the chain rule from
the rates of the known fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
from dolfinx import fem, la

from cffem import _compat
from cffem.engine.inputs import field_data as data
from cffem.engine.inputs.place_values import NoNumbers, mapped_points, numbers, rates
from cffem.forms.elements import H1, carrier
from cffem.symbols.coordinates import t
from cffem.symbols.errors import InputError
from cffem.symbols.known import Known

if TYPE_CHECKING:
    from cffem.engine.inputs.known_fields import KnownFields
    from cffem.symbols.fields import Field


def has_known(value: object) -> bool:
    """Whether data contain a known field that no formula stands for."""
    if isinstance(value, tuple | list):
        return any(map(has_known, value))
    return isinstance(value, sp.Basic) and value.has(Known)


class KnownData:
    """Data of a field that contain known fields.

    Args:
        value: an expression or a tuple of them.
        unknown: the field.
        known: the known fields on the mesh.
        what: how to call the data in an error message.
    """

    def __init__(self, value: object, unknown: Field, known: KnownFields, what: str):
        self.known, self.what, self.shape = known, what, tuple(unknown.shape)
        self.parts = data.components(value, unknown.shape, known.mesh.geometry.dim, what)
        used = {k for part in self.parts for k in part.atoms(Known)}
        self.timeless = not any(t in part.atoms(sp.Symbol) for part in self.parts) and not any(
            known.moves(k) for k in used
        )
        self.jumps = any(not k.smooth for k in used)

    def put(
        self,
        function: fem.Function,
        time: float,
        rate: int = 0,
        facets: np.ndarray | None = None,
    ) -> None:
        """Set a function of the field's space to the values at a time, or to their rates;
        collective, and so are its errors.

        Args:
            function: the function.
            time: the time.
            rate: 0 for values, 1 for their first time derivatives; there are no others.
            facets: the facets of the boundary whose cells are asked, on this rank; None for all
                cells. Unknowns at no such cell are nan.
        """
        if rate > 1 and not self.timeless:
            raise InputError(f"{self.what}: known fields that move have no second time derivative")
        space = function.function_space
        cells = self._cells(facets)
        problems: list[str] = []

        def evaluate(points: np.ndarray, where: np.ndarray) -> np.ndarray:
            try:
                of = rates if rate else numbers
                rows = [of(part, self.known, points, where, time) for part in self.parts]
                found = np.array(rows, dtype=float)
                if not np.isfinite(found).all():
                    raise InputError(f"{self.what} is not finite everywhere on the mesh")
            except Exception as error:
                problems.append(self._words(error))
                return np.zeros((len(self.parts), len(points)))
            return found

        self._fill(function, space, cells, evaluate)
        found = [text for texts in self.known.mesh.comm.allgather(problems) for text in texts]
        if found:
            raise InputError(found[0])

    def _words(self, error: Exception) -> str:
        if isinstance(error, NoNumbers):
            return f"{self.what} contains {error}, which is not known before the problem is solved"
        known = isinstance(error, InputError)
        return str(error) if known else f"{self.what} cannot be evaluated: {error}"

    def _cells(self, facets: np.ndarray | None) -> np.ndarray:
        mesh = self.known.mesh
        topology, dim = mesh.topology, mesh.topology.dim
        owned = topology.index_map(dim).size_local
        if facets is None:
            return np.arange(owned, dtype=np.int32)
        topology.create_connectivity(dim - 1, dim)
        to_cells = topology.connectivity(dim - 1, dim)
        found = {int(c) for f in facets for c in to_cells.links(int(f))}
        return np.array(sorted(c for c in found if c < owned), dtype=np.int32)

    def _fill(
        self,
        function: fem.Function,
        space: fem.FunctionSpace,
        cells: np.ndarray,
        evaluate: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ) -> None:
        element = space.element.basix_element
        reference = _compat.interpolation_points(space)
        if carrier(space.ufl_element()).space == H1 and element.interpolation_is_identity:
            points = mapped_points(space.mesh, reference, cells).reshape(-1, 3)
            values = evaluate(points, np.repeat(cells, len(reference)).astype(np.int32))
            # A rank without such cells cannot leave the last number to NumPy.
            shape = (len(self.parts), len(cells), len(reference))
            _set_means(function, cells, values.reshape(shape))
            return

        def at(points: np.ndarray) -> np.ndarray:
            found = evaluate(points.T, np.repeat(cells, len(reference)).astype(np.int32))
            return found if self.shape else found[0]

        function.x.array[:] = np.nan
        function.interpolate(at, cells)
        # An unknown between two ranks is set by those of its cells that are asked.
        local = function.x.array.copy()
        values, count = (fem.Function(space) for _ in range(2))
        values.x.array[:], count.x.array[:] = np.nan_to_num(local), np.isfinite(local)
        _divide(function, values, count)


def _set_means(function: fem.Function, cells: np.ndarray, values: np.ndarray) -> None:
    """Set nodal values to their means over cells: components × cells × nodes."""
    space = function.function_space
    size, dofs = space.dofmap.bs, np.asarray(space.dofmap.list)[cells]
    total, count = fem.Function(space), fem.Function(space)
    for i in range(size):
        np.add.at(total.x.array, (dofs * size + i).ravel(), values[i].ravel())
        np.add.at(count.x.array, (dofs * size + i).ravel(), 1.0)
    _divide(function, total, count)


def _divide(function: fem.Function, total: fem.Function, count: fem.Function) -> None:
    """Sums of all ranks divided by their numbers; nan where there are none. Collective."""
    for sums in (total, count):
        sums.x.scatter_reverse(la.InsertMode.add)
        sums.x.scatter_forward()
    with np.errstate(invalid="ignore", divide="ignore"):
        function.x.array[:] = np.where(
            count.x.array > 0, total.x.array / np.maximum(count.x.array, 1.0), np.nan
        )
