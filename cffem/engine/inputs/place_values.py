# SPDX-License-Identifier: MIT
"""Coefficients as numbers at points of the mesh, for everything that is decided by their signs.

An expression in the coordinates, the time and known fields is evaluated at the corners, the middles
of the edges and the middle of every cell, as the values are given: a Python function is called
there, and a formula by subdomain is taken by its own cells, whatever polynomials stand for them in
forms. So a sign that is found here is a sign of the data and not of an interpolation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import basix
import numpy as np
import sympy as sp

from cffem import _compat
from cffem.engine.inputs.known_fields import KnownFields
from cffem.engine.inputs.numeric import numeric
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.fields import Component, Field, Normal
from cffem.symbols.known import Known, KnownEntry

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh

# Times at which data that change in time are looked at, the ends of the window among them.
TIMES = 17


class NoNumbers(Exception):
    """An expression contains what is not known before a problem is solved; the argument says
    which symbol.
    """


def numbers(
    expr: sp.Expr, known: KnownFields, points: np.ndarray, cells: np.ndarray, time: float
) -> np.ndarray:
    """An expression at points (rows) in given cells of this rank.

    Raises:
        NoNumbers: it contains fields, or derivatives of known ones.
    """
    used = expr.atoms(KnownEntry) | {k for k in expr.atoms(Known) if not k.shape}
    plain = {symbol: sp.Dummy() for symbol in sorted(used, key=str)}
    bare = expr.xreplace(plain)
    strange = bare.atoms(sp.Symbol, sp.Derivative, Known, Field, Component, Normal) - {
        *SPACE,
        t,
        *plain.values(),
    }
    if strange:
        raise NoNumbers(min(map(str, strange)))
    values = [known.at(symbol, points, cells, time) for symbol in plain]
    function = numeric(bare, (*SPACE, t, *plain.values()))
    found = np.asarray(function(*points.T, time, *values), dtype=float)
    return np.broadcast_to(found, (len(points),))


def rates(
    expr: sp.Expr, known: KnownFields, points: np.ndarray, cells: np.ndarray, time: float
) -> np.ndarray:
    """The time derivative of an expression at points (rows) in given cells of this rank.

    Raises:
        NoNumbers: it contains fields, or derivatives of known ones.
    """
    used = expr.atoms(KnownEntry) | {k for k in expr.atoms(Known) if not k.shape}
    plain = {symbol: sp.Dummy() for symbol in sorted(used, key=str)}
    back = {dummy: symbol for symbol, dummy in plain.items()}
    bare = expr.xreplace(plain)
    found = np.zeros(len(points))
    found += numbers(bare.diff(t).xreplace(back), known, points, cells, time)
    for symbol, dummy in plain.items():
        slope = bare.diff(dummy).xreplace(back)
        whole = symbol.known if isinstance(symbol, KnownEntry) else symbol
        if known.moves(whole) and slope != 0:
            rate = known.rate_at(symbol, points, cells, time)
            found += numbers(slope, known, points, cells, time) * rate
    return found


class PlaceValues:
    """Points in all cells of this rank, and times of the window, at which coefficients are
    evaluated.

    Args:
        mesh: the mesh.
        known: its known fields.
        times: the time levels; one for a steady problem.

    Attributes:
        points: one row of three coordinates for each point.
        cells: the cell of each point.
    """

    def __init__(self, mesh: Mesh, known: KnownFields, times: np.ndarray):
        self.mesh, self.known = mesh, known
        chosen = np.linspace(0, len(times) - 1, min(TIMES, len(times))).round().astype(int)
        self.times = np.asarray(times, dtype=float)[np.unique(chosen)]
        self.points, self.cells = places_in_cells(mesh)
        self._found: dict[sp.Expr, np.ndarray] = {}

    def __call__(self, expr: sp.Expr) -> np.ndarray:
        """An expression at all points, one row for each time; a single number where it is one.

        Raises:
            NoNumbers: it contains fields, or derivatives of known ones.
        """
        if expr.is_number:
            return np.full((1, 1), float(expr))
        if expr not in self._found:
            before = float(np.real(self.known.time.value))
            try:
                self._found[expr] = np.array(
                    [
                        numbers(expr, self.known, self.points, self.cells, float(time))
                        for time in self.times_of(expr)
                    ]
                )
            finally:
                self.known.time.value = before
        return self._found[expr]

    def times_of(self, expr: sp.Expr) -> np.ndarray:
        """The times that matter to an expression: one where nothing in it moves."""
        used = {k.plain for k in expr.atoms(Known)}
        moves = t in expr.atoms(sp.Symbol) or any(self.known.moves(k) for k in used)
        return self.times if moves else self.times[:1]

    def least(self, values: np.ndarray, points: np.ndarray | None = None) -> tuple[float, str]:
        """The least of values at all times and points (default: those in cells), and where it is;
        the same on all ranks. Collective.
        """
        places = self.points if points is None else points
        if values.size:
            row, column = np.unravel_index(int(np.argmin(values)), values.shape)
            time = self.times[row] if values.shape[0] > 1 else None
            point = places[column] if values.shape[1] > 1 else None
            mine = (float(values[row, column]), self._place(point, time))
        else:
            mine = (np.inf, "")
        return min(self.mesh.comm.allgather(mine))

    def largest(self, values: np.ndarray) -> float:
        """The largest size of values on all ranks; collective."""
        return max(self.mesh.comm.allgather(float(np.abs(values).max(initial=0.0))))

    def _place(self, point: np.ndarray | None, time: float | None) -> str:
        dim = self.mesh.geometry.dim
        shown = () if point is None else (f"{round(float(c), 9) + 0.0:.3g}" for c in point[:dim])
        where = "" if point is None else f" at ({', '.join(shown)})"
        return where + ("" if time is None else f" at t = {time:.3g}")


def places_in_cells(mesh: Mesh) -> tuple[np.ndarray, np.ndarray]:
    """Corners, middles of edges and the middle of every owned cell, with their cells."""
    kind = basix.CellType[_compat.cell_name(mesh.ufl_domain())]
    corners, topology = basix.geometry(kind), basix.topology(kind)
    middles = [corners[edge].mean(axis=0) for edge in topology[1]] if mesh.topology.dim > 1 else []
    reference = np.array([*corners, *middles, corners.mean(axis=0)])
    cells = np.arange(mesh.topology.index_map(mesh.topology.dim).size_local, dtype=np.int32)
    points = mapped_points(mesh, reference, cells).reshape(-1, 3)
    return points, np.repeat(cells, len(reference)).astype(np.int32)


def mapped_points(mesh: Mesh, points: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Points of the reference cell in each of these cells: cells × points × 3."""
    element = mesh.ufl_domain().ufl_coordinate_element()
    element = getattr(element, "_sub_element", element)
    table = np.asarray(element.tabulate(0, points))[0]
    nodes = mesh.geometry.x[_compat.cell_geometry(mesh)[0][cells]]
    return np.asarray(np.einsum("pn,cnk->cpk", table, nodes))
