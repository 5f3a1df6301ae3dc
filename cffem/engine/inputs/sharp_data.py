# SPDX-License-Identifier: MIT
"""Data that a quadrature rule cannot see: which they are on a mesh, and the functions that stand
for them in forms.

A step, a kink or a peak that is narrower than a cell lies between the points of a rule. Such data
are replaced, in the integrals over cells where they are multiplied, by polynomials on each cell
with the same moments (`cffem.engine.inputs.moments`), so that what is assembled is right to the
accuracy stated there. Data that the rules do see stay as they are written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem
from mpi4py import MPI

from cffem.engine.inputs.enclosure import NotEnclosed, distances, enclosed
from cffem.engine.inputs.level_sets import level_sets
from cffem.engine.inputs.moments import Cells, by_rule, moments, orthonormal, smooth_pieces
from cffem.forms.lowering import Context, Lowering
from cffem.forms.quadrature import polynomial_degree
from cffem.symbols.algebra.components import to_components
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field
from cffem.symbols.known import Known
from cffem.symbols.operators import has_jump

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh
    from ufl.core.expr import Expr

    from cffem.engine.mesh.meshes import MeshData


@dataclass(frozen=True)
class Visibility:
    """When data count as seen by ordinary rules.

    Attributes:
        flat: data whose bounds on each cell are closer than this share of their mean size are seen
            in any case.
        error: data are seen if ordinary rules have their moments up to this share, as a bound by
            enclosures or the moments themselves say.
        near: the degree of the polynomials with which the bound compares them.
        rule: the degree of the ordinary rule; functions that are no polynomials have at least this
            one.
        moments: at so many times in the window data that move are looked at.
        degree: the largest degree of the polynomials that stand for data, by dimension.
        sides: the degree of the polynomials that stand for data which jump between cells on either
            side of a facet.
        memory: how many bytes of moving data are kept for the times when they are needed again.
    """

    flat: float = 0.05
    error: float = 1e-3
    near: int = 3
    rule: int = 4
    moments: int = 3
    degree: tuple[int, int, int] = (12, 8, 6)
    sides: int = 4
    memory: int = 100_000_000


VISIBILITY = Visibility()


class Time(fem.Constant):
    """The time in forms; functions that stand for moving data follow it."""

    def __init__(self, domain: MeshData, value: Any):
        super().__init__(domain, value)
        self.followers: list[Callable[[float], None]] = []

    @property
    def value(self) -> Any:
        """The present time."""
        return self._cpp_object.value

    @value.setter
    def value(self, new: Any) -> None:
        np.copyto(self._cpp_object.value, np.asarray(new))
        for follow in self.followers:
            follow(float(new))


class SharpData:
    """The data of one discretisation that quadrature cannot see.

    Args:
        mesh: the DOLFINx mesh.
        time: the time in forms.
        window: start and end of the window, the same for a steady problem.

    Attributes:
        moving: the functions that follow the time.
        starts: values of projected initial data, None where interpolation does.
    """

    def __init__(self, mesh: Mesh, time: Time, window: tuple[float, float]):
        self.mesh, self.time = mesh, time
        self.times = [float(s) for s in dict.fromkeys(np.linspace(*window, VISIBILITY.moments))]
        self.moving: set[Any] = set()
        self._unseen: dict[sp.Expr, bool] = {}
        self._functions: dict[tuple[sp.Expr, int], Expr] = {}
        self.starts: dict[tuple[Field, sp.Expr], np.ndarray | None] = {}

    @cached_property
    def cells(self) -> Cells:
        """The cells as maps from the reference cell."""
        return Cells(self.mesh)

    # Which data
    # ----------------------------------------------------------------------------------------------

    def unseen(self, expr: sp.Expr) -> bool:
        """Whether rules do not see a function of the coordinates: it has jumps or kinks, or
        varies within cells; collective.
        """
        if expr not in self._unseen:
            if expr.is_polynomial(*SPACE):
                self._unseen[expr] = False
            elif expr.has(sp.floor, sp.ceiling):
                self._unseen[expr] = True
            elif level_sets(expr):
                self._unseen[expr] = any(self._cut(e) for e in dict.fromkeys(self.at_times(expr)))
            else:
                self._unseen[expr] = any(
                    self._varies(e) for e in dict.fromkeys(self.at_times(expr))
                )
        return self._unseen[expr]

    def jumps(self, expr: sp.Expr) -> bool:
        """Whether a function has no limit somewhere, or varies within cells; kinks alone do
        not count.
        """
        sharp = [*expr.atoms(sp.Piecewise, sp.Heaviside, sp.sign, sp.floor, sp.ceiling)]
        return any(node.free_symbols & {*SPACE} for node in sharp) or (
            not level_sets(expr) and self.unseen(expr)
        )

    def at_times(self, expr: sp.Expr) -> list[sp.Expr]:
        """An expression at some times of the window."""
        return (
            [expr.xreplace({t: sp.Float(time)}) for time in self.times]
            if t in expr.free_symbols
            else [expr]
        )

    def _varies(self, expr: sp.Expr) -> bool:
        """Whether an ordinary rule has other moments of a smooth function, unless its
        enclosures say at once that it has not.
        """
        cells, comm = self.cells, self.mesh.comm
        parts = cells.whole()
        sizes, boxes = cells.sizes(parts), cells.boxes(parts)
        middle = cells.values(expr, parts.cells, parts.corners.mean(axis=1, keepdims=True))[:, 0]
        mean = comm.allreduce(float(np.nansum(np.abs(middle) * sizes)))
        try:
            low, high = enclosed(expr, boxes)
            with np.errstate(all="ignore"):
                spread = np.nan_to_num((high - low) * sizes, nan=np.inf, posinf=np.inf)
            if comm.allreduce(float(spread.sum())) <= VISIBILITY.flat * mean:
                return False
            far = distances(expr, boxes, cells.centres(parts), VISIBILITY.near)
        except NotEnclosed:
            return False
        if comm.allreduce(float((far * sizes).sum())) <= VISIBILITY.error * mean:
            return False
        return self._differs(expr)

    def _cut(self, expr: sp.Expr) -> bool:
        """Whether a jump or kink passes through cells, and not only between them."""
        branches = np.zeros(self.cells.count, dtype=int)
        for _, parts in smooth_pieces(expr, self.cells):
            share = np.bincount(parts.cells, parts.volumes, minlength=self.cells.count)
            branches += share > 1e-9
        return bool(self.mesh.comm.allreduce(int((branches > 1).any())))

    def _differs(self, expr: sp.Expr) -> bool:
        """Whether an ordinary rule has other moments of a function than it has."""
        cells, comm = self.cells, self.mesh.comm
        exact, weights = moments(expr, cells, 1), cells.measures[:, None]
        gap, size = (
            weights * np.abs(part)
            for part in (exact - by_rule(expr, cells, 1, VISIBILITY.rule), exact)
        )
        total = comm.allreduce(np.array([gap.sum(), size.sum()]))
        return not total[0] <= VISIBILITY.error * total[1]

    # What stands for them
    # ----------------------------------------------------------------------------------------------

    def function(self, expr: sp.Expr, degree: int) -> Expr:
        """What stands for an expression in UFL: functions with its moments up to a degree;
        collective.
        """
        degree = min(degree, VISIBILITY.degree[self.mesh.topology.dim - 1])
        key = (expr, degree)
        if key not in self._functions:
            made = self._new(degree)
            self._functions[key] = made
            if t in expr.free_symbols:
                self.moving.update(self._coefficients(made))
                follower = Follower(self, expr, degree, made)
                self.time.followers.append(follower)
                follower(float(self.time.value))
            else:
                self.fill(made, self.values(expr, degree))
        return self._standing(self._functions[key])

    def _new(self, degree: int) -> Expr:
        """What holds the moments."""
        return fem.Function(fem.functionspace(self.mesh, orthonormal(self.cells.name, degree)))

    def _coefficients(self, made: Any) -> tuple[fem.Function, ...]:
        """The functions in it."""
        return (made,)

    def _standing(self, made: Any) -> Expr:
        """What stands for the data in UFL."""
        return made

    def values(self, expr: sp.Expr, degree: int) -> np.ndarray:
        """The moments of an expression on the owned cells."""
        found = moments(expr, self.cells, degree)
        if self.mesh.comm.allreduce(int(not np.isfinite(found).all())):
            raise InputError(f"{expr} has no finite integral on some cells of the mesh")
        return found

    def fill(self, function: fem.Function, values: np.ndarray) -> None:
        """Give a function its values on the owned cells, and those of other ranks."""
        rows = function.function_space.dofmap.list[: self.cells.count]
        function.x.array[rows.ravel()] = values.ravel()
        function.x.scatter_forward()

    # Integrands
    # ----------------------------------------------------------------------------------------------

    def context(
        self, expr: sp.Expr, context: Context, times: Any = None, degree: int | None = None
    ) -> Context:
        """A context in which functions stand for the data of an integrand that rules do not see.

        Args:
            expr: the integrand over cells.
            context: what its symbols mean.
            times: a further factor of the integrand, in UFL.
            degree: of what multiplies the data, where the integrand does not tell.
        """
        found: list[sp.Expr] = []

        def noted(data: sp.Expr) -> Expr:
            if not self.unseen(data):
                return None
            found.append(data)
            return ufl.as_ufl(1.0)

        rest = Lowering(replace(context, data=noted))(expr)
        if not found:
            return context
        wanted = (
            polynomial_degree(rest if times is None else ufl.inner(rest, times))
            if degree is None
            else degree
        )
        return replace(
            context, data=lambda data: self.function(data, wanted) if self.unseen(data) else None
        )

    def on_sides(self, context: Context) -> Context:
        """A context for integrals over facets between cells, in which functions stand for data that
        jump, so that each side of a facet has its own values; of cells that a jump cuts, means.
        """

        def standing(data: sp.Expr) -> Expr | None:
            if not has_jump(data):
                return None
            return self.function(data, 0 if self.unseen(data) else VISIBILITY.sides)

        return replace(context, data=standing)

    def check_not_zero(self, expr: sp.Expr, unknown: Field, what: str) -> None:
        """Refuse data that are not zero as they are written, but have no moments on this
        mesh; collective.
        """
        parts = to_components(expr, self.mesh.geometry.dim) if unknown.shape else (expr,)
        fixed = [part for part in parts if part != 0]
        if any(part.has(Known) for part in fixed):
            return
        if any(
            t in part.free_symbols or not (level_sets(part) or self.unseen(part)) for part in fixed
        ):
            return
        largest = max(
            (float(np.abs(self.values(part, 0)).max(initial=0.0)) for part in fixed), default=1.0
        )
        if self.mesh.comm.allreduce(largest, op=MPI.MAX) == 0.0:
            raise InputError(
                f"{what}, {expr}, is zero everywhere on this mesh; it acts outside of the domain"
            )


class Follower:
    """Keeps a function at the moments of an expression at the present time.

    Args:
        data: where the function belongs.
        expr: the expression in x, y, z, t.
        degree: of the function.
        function: the function, or several, that hold the moments.
    """

    def __init__(self, data: SharpData, expr: sp.Expr, degree: int, function: fem.Function):
        self.data, self.expr, self.degree, self.function = data, expr, degree, function
        self._present: float | None = None
        self._kept: dict[float, np.ndarray] = {}

    def __call__(self, time: float) -> None:
        if time == self._present:
            return
        if time not in self._kept:
            values = self.data.values(self.expr.xreplace({t: sp.Float(time)}), self.degree)
            if (len(self._kept) + 1) * values.nbytes > VISIBILITY.memory:
                self._kept.clear()
            self._kept[time] = values
        self.data.fill(self.function, self._kept[time])
        self._present = time
