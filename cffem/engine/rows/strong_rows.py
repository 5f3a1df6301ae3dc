# SPDX-License-Identifier: MIT
"""Rows of the anchored regression y = Aβ from finite-element fields, block by block, for a
`Design`.

Strong rows are the equation anchor − forcing = Σ_j β_j T_j at quadrature points of every cell, and
at the middle of every time step: there the piecewise linear interpolant in time has the rate
(u_{k+1} − u_k)/Δt and the value (u_k + u_{k+1})/2. All columns come from one compiled expression; a
block is a range of cells at one time, and no block is kept. Each rank yields the rows of its own
cells; their weights are those of the quadrature in space and time, so that Grams summed over ranks
are integrals.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import basix
import numpy as np
import sympy as sp
import ufl

from cffem import _compat
from cffem.forms.lowering import Lowering
from cffem.symbols.algebra.shapes import shape_of
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field
from cffem.symbols.operators import as_expr, grad
from cffem.symbols.problem.constraint_classes import DivergenceFree
from cffem.symbols.problem.known_values import formulas, substituted

if TYPE_CHECKING:
    from ufl.core.expr import Expr

    from cffem.engine.solution import Solution
    from cffem.symbols.problem.library import CandidateTerms

BLOCK_ROWS = 1 << 15
# Resampling blocks: slabs of time, or slabs along the longest side of the domain for a steady
# problem.
SLABS = 12


@dataclass(frozen=True)
class FieldRows:
    """Some rows of a regression, with the attributes that a `Design` asks of a block.

    Attributes:
        A: the values of the terms, one column each.
        y: the values of the anchor, less the forcing.
        weights: the quadrature weight of each row, in space and time.
        block: the slab these rows belong to.
        effective: how many independent numbers these rows hold; fewer than rows where there are
            more points than unknowns.
    """

    A: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    block: Hashable
    effective: float
    denoised: None = None
    noise: None = None

    @property
    def effective_rows(self) -> float:
        """The number of independent rows these rows are worth."""
        return self.effective


class StrongRows:
    """The strong rows of a library on a solution.

    Args:
        solution: the fields.
        library: anything with an `anchor` and `terms`; its fields must be fields of the solution.

    Raises:
        NotRepresentable: the elements cannot represent a derivative in a term, as the Laplacian of
            degree 1.
        InputError: the library and the solution do not fit together.
    """

    def __init__(self, solution: Solution, library: CandidateTerms):
        self.solution, self.model = solution, solution.model
        self.discretisation = self.model.discretisation
        self.mesh, self.spaces = self.discretisation.mesh, self.model.spaces
        rule = formulas(self.model.experiment)
        self.terms: dict[str, sp.Expr] = {
            name: substituted(term, rule) for name, term in library.terms.items()
        }
        anchor = None if library.anchor is None else substituted(library.anchor, rule)
        if not self.terms:
            raise InputError("a library without terms has no rows")
        self.unknown = equation_field(library, solution)
        self.shape = self.unknown.shape
        self.columns = len(self.terms) + 1
        cell = basix.CellType[_compat.cell_name(self.mesh.ufl_domain())]
        self.degree = (
            2 * max(element.embedded_superdegree for element in self.spaces.elements.values())
            + self.extra_degree
        )
        self.points, self.point_weights = basix.make_quadrature(cell, self.degree)
        self.components = self._count()
        self.expression = _compat.expression(self._everything(anchor), self.points, self.model.comm)
        self.cell_weights = self._cell_weights()

    @property
    def extra_degree(self) -> int:
        """What the quadrature needs beyond the degree of the fields."""
        return 0

    def _count(self) -> int:
        """Scalar equations at a point: one for each component."""
        return self.mesh.geometry.dim if self.shape else 1

    # The expression
    # ----------------------------------------------------------------------------------------------

    def _everything(self, anchor: sp.Expr | None) -> Expr:
        """All columns in one vector: for each component of the equation the anchor and then
        the terms.
        """
        columns = [self._left(anchor), *(self._checked(term) for term in self.terms.values())]
        return ufl.as_vector([column[i] for i in range(self.components) for column in columns])

    def _checked(self, term: sp.Expr) -> list[Expr]:
        shape = shape_of(term)
        if len(shape) != len(self.shape) or any(
            a not in (None, b) for a, b in zip(shape, self.shape, strict=True)
        ):
            raise InputError(f"{term} does not have the shape of the equation for {self.unknown}")
        unknown = [f for f in term.atoms(Field) if f not in self.discretisation.context.values]
        if unknown:
            raise InputError(f"{term} contains {unknown[0]}, which is no field of this solution")
        return self._column(term)

    def _column(self, term: sp.Expr) -> list[Expr]:
        """The components of a term at points."""
        return self._components(self.discretisation.strong_in_parts(term, f"the term {term}"))

    def _data(self, value: Any) -> list[Expr]:
        """The components of data at points."""
        return self._components(value)

    def _given(self, expr: sp.Expr) -> Expr:
        """An expression of the coordinates at points."""
        return Lowering(self.discretisation.context)(expr)

    def _components(self, value: Any) -> list[Expr]:
        return [value[i] for i in range(self.components)] if self.shape else [value]

    def _left(self, anchor: sp.Expr | None) -> list[Expr]:
        """The anchor less what is known on the right: the forcing, and the force −w ∇λ of
        div(w v) = 0.
        """
        result = [ufl.as_ufl(0.0)] * self.components if anchor is None else self._checked(anchor)
        forcing = {
            **dict(self.model.experiment.forcing),
            **dict(self.solution.intervention.forcing),
        }.get(self.unknown, 0)
        function = hasattr(forcing, "function_space")
        if function or as_expr(forcing) != 0:
            value = forcing if function else self._given(as_expr(forcing))
            result = [a - b for a, b in zip(result, self._data(value), strict=True)]
        return self._with_constraint_force(result)

    def _with_constraint_force(self, result: list[Expr]) -> list[Expr]:
        constraint, multiplier = self.model.experiment.constraint, self.discretisation.multiplier
        if (
            constraint is not None
            and self.unknown in constraint.fields
            and not self.solution.intervention.released
        ):
            if not isinstance(constraint, DivergenceFree) or multiplier is None:
                raise InputError(
                    f"rows know the force of a divergence constraint only, not of {constraint}"
                )
            force = self._column(constraint.weight * grad(multiplier[0]))
            result = [a + b for a, b in zip(result, force, strict=True)]
        return result

    # The rows
    # ----------------------------------------------------------------------------------------------

    @property
    def owned(self) -> int:
        """The number of cells of this rank."""
        return self.mesh.topology.index_map(self.mesh.topology.dim).size_local

    def _cell_weights(self) -> np.ndarray:
        """Quadrature weights at all points of this rank's cells; collective, as compiling is."""
        determinant = abs(ufl.JacobianDeterminant(self.mesh.ufl_domain()))
        compiled = _compat.expression(determinant, self.points, self.model.comm)
        values = compiled.eval(self.mesh, np.arange(self.owned, dtype=np.int32))
        return values.reshape(-1, len(self.points)) * self.point_weights

    @cached_property
    def cell_slabs(self) -> np.ndarray:
        """For each cell of this rank its slab along the longest side of the domain; the same
        on any number of ranks.
        """
        points = self.mesh.geometry.x
        low, high = np.full(3, np.inf), np.full(3, -np.inf)
        if len(points):
            low, high = points.min(axis=0), points.max(axis=0)
        both = np.array(self.model.comm.allgather((low, high)))
        low, high = both[:, 0].min(axis=0), both[:, 1].max(axis=0)
        axis = int(np.argmax(high - low))
        middle = points[_compat.cell_geometry(self.mesh)[0][: self.owned], axis].mean(axis=1)
        return np.clip(
            ((middle - low[axis]) / (high - low)[axis] * SLABS).astype(int), 0, SLABS - 1
        )

    @cached_property
    def independent(self) -> float:
        """The share of independent rows: unknowns of the equation's field to rows at one time."""
        space, _ = self.spaces.own(self.unknown)
        cells = self.mesh.topology.index_map(self.mesh.topology.dim).size_global
        unknowns = space.dofmap.index_map.size_global * space.dofmap.index_map_bs
        return min(1.0, unknowns / (cells * len(self.points) * self.components))

    def __iter__(self) -> Iterator[FieldRows]:
        """The blocks of this rank; what happens between two blocks may be collective, so
        every rank must go to the end.
        """
        if self.solution.steady:
            for _ in self.moments():
                for slab in range(SLABS):
                    yield from self._blocks(np.flatnonzero(self.cell_slabs == slab), 1.0, slab)
            return
        steps = len(self.solution.times) - 1
        for step, (_, length) in enumerate(self.moments()):
            yield from self._blocks(
                np.arange(self.owned), length, step * min(SLABS, steps) // steps
            )

    def moments(self) -> Iterator[tuple[float, float]]:
        """The middle and the length of each time step, the fields there being visible to the
        expression; collective.
        """
        solution = self.solution
        if solution.steady:
            self._place(solution.states[0], None, None, 0.0)
            yield 0.0, 1.0
            return
        for step in range(len(solution.times) - 1):
            start, end = (float(time) for time in solution.times[step : step + 2])
            length = end - start
            state = 0.5 * (solution.states[step] + solution.states[step + 1])
            if not self.model.marching.scheme.stiffly_accurate:
                # The last stage is in the middle of the step, and algebraic unknowns have its
                # values.
                state = np.where(self.model.marching.dynamic > 0, state, solution.states[step + 1])
            rate = (solution.states[step + 1] - solution.states[step]) / length
            acceleration = None
            if solution.velocities is not None:
                acceleration = (solution.velocities[step + 1] - solution.velocities[step]) / length
            self._place(state, rate, acceleration, 0.5 * (start + end))
            yield 0.5 * (start + end), length

    def _place(
        self,
        state: np.ndarray,
        rate: np.ndarray | None,
        acceleration: np.ndarray | None,
        time: float,
    ) -> None:
        d = self.discretisation
        d.time.value = time
        for function, values in ((d.state, state), (d.rate, rate), (d.acceleration, acceleration)):
            function.x.array[:] = 0.0 if values is None else self.spaces.with_ghosts(values)

    def _blocks(self, cells: np.ndarray, length: float, label: Hashable) -> Iterator[FieldRows]:
        many = max(1, BLOCK_ROWS // (len(self.points) * self.components))
        for first in range(0, len(cells), many):
            chosen = cells[first : first + many].astype(np.int32)
            rows = self.expression.eval(self.mesh, chosen).reshape(-1, self.columns)
            weights = np.repeat(length * self.cell_weights[chosen].ravel(), self.components)
            yield FieldRows(rows[:, 1:], rows[:, 0], weights, label, self.independent * len(rows))


def equation_field(library: CandidateTerms, solution: Solution) -> Field:
    """The field whose equation a library is for: as it says, or as its anchor tells."""
    equations = solution.model.library.equations
    named: Any = getattr(library, "unknown", None)
    if named is None:
        anchor = getattr(library, "anchor", None)
        if anchor is not None:
            anchor = substituted(anchor, formulas(solution.model.experiment))
        fitting = [f for f, equation in equations.items() if equation.anchor == anchor]
        named = fitting[0] if len(fitting) == 1 else None
    if named not in equations:
        raise InputError(
            "the library is for none of the equations of this solution: "
            f"{', '.join(map(str, equations))}"
        )
    return named
