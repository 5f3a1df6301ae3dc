# SPDX-License-Identifier: MIT
"""Weak rows from finite-element fields: the equation tested with smooth space–time functions of
compact support.

The test functions are products ψ(x) φ(t) of bumps (1 − s²)^p on overlapping boxes in the interior
of the domain, so that no boundary term remains. Derivatives that the elements do not have across
cells are on ψ (the Laplacian of degree 1 becomes −∇u·∇ψ), the others stay on the field, which has
no noise. Vector equations are tested component by component; the equation of a field with div v = 0
holds up to a gradient (Pᵀ∇p = 0 for the Leray projection P), so it is tested with divergence-free
functions, the curls of bumps, and the pressure drops out. A row is one pair of bumps; the integrals
over cells are summed over ranks, and each rank yields its share of the rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem, mesh
from mpi4py import MPI
from petsc4py import PETSc

from cffem import _compat
from cffem.engine.rows.bump_moments import BumpMoments, exponents
from cffem.engine.rows.strong_rows import FieldRows, StrongRows
from cffem.forms.elements import L2
from cffem.forms.lowering import Lowering
from cffem.forms.orders import derivatives
from cffem.forms.weakterm import WeakTerm
from cffem.symbols.algebra.splitting import is_stand_in
from cffem.symbols.errors import InputError
from cffem.symbols.problem.constraint_classes import DivergenceFree

if TYPE_CHECKING:
    from ufl.core.expr import Expr

    from cffem.engine.solution import Solution
    from cffem.symbols.problem.library import CandidateTerms

# Half-width of a bump as a share of the domain, how far apart two of them are in half-widths, and
# their power: C³ at the edge.
SPACE_SHARE, TIME_SHARE, SPACING, POWER = 1 / 6, 1 / 6, 0.5, 4
# In a volume the bumps overlap less: twice as many along each axis would be eight times the work
# for few more independent rows.
SPACINGS = {1: 0.5, 2: 0.5, 3: 1.0}
# Numbers of values at points that are held at a time.
LARGEST = 1 << 23


class WeakRows(StrongRows):
    """The weak rows of a library on a solution.

    Args:
        solution: the fields.
        library: anything with an `anchor` and `terms`.

    Raises:
        InputError: a term needs jumps between cells or auxiliary fields that the solution does not
            have, or the domain has no room for a test function.
    """

    @property
    def extra_degree(self) -> int:
        """Bumps are polynomials of higher degree than the fields; this much is enough where a
        bump covers a few cells.
        """
        return 8 if self.projected else 4  # curls of bumps vary faster than bumps

    def __init__(self, solution: Solution, library: CandidateTerms):
        domain = solution.model.discretisation.mesh
        self.dimension = domain.geometry.dim
        self.centre = fem.Constant(domain, np.zeros(self.dimension, dtype=PETSc.ScalarType))
        self.width = fem.Constant(domain, np.ones(self.dimension, dtype=PETSc.ScalarType))
        self.one = fem.Constant(domain, PETSc.ScalarType(1))  # a number would have no gradient
        position = ufl.SpatialCoordinate(domain)
        self.scaled = [
            (position[i] - self.centre[i]) / self.width[i] for i in range(self.dimension)
        ]
        self._averaged: list[tuple[tuple[np.ndarray, ...], float]] | None = None
        super().__init__(solution, library)
        places = _compat.expression(position, self.points, self.model.comm)
        self._places = places.eval(self.mesh, np.arange(self.owned, dtype=np.int32)).reshape(
            self.owned, len(self.points), self.dimension
        )

    @property
    def projected(self) -> bool:
        """Whether the equation holds up to a gradient only: its field is divergence-free, and
        the constraint is not released.
        """
        constraint = self.model.experiment.constraint
        return (
            isinstance(constraint, DivergenceFree)
            and constraint.field == self.unknown
            and constraint.weight == 1
            and not self.solution.intervention.released
        )

    def _count(self) -> int:
        """Test functions per bump: in two dimensions there is one curl, in three there are
        three.
        """
        return 1 if self.projected and self.dimension == 2 else super()._count()

    def _everything(self, anchor: sp.Expr | None) -> Expr:
        """All columns in one vector, for each monomial that stands for a bump."""
        terms = [*self.terms.values(), *([] if anchor is None else [anchor])]
        order = max(self._test_order(term) for term in terms)
        if self.model.experiment.constraint is not None:
            order = max(order, 1)
        self.order = order + (1 if self.projected else 0)
        self.monomials = exponents(self.dimension, self.order)
        parts = []
        for powers in self.monomials:
            self.shape_function = self._monomial(powers)
            parts.append(super()._everything(anchor))
        whole = ufl.as_vector(
            [part[i] for i in range(self.components * self.columns) for part in parts]
        )
        self.affine = self._is_affine(whole)
        return whole

    def _monomial(self, powers: tuple[int, ...]) -> Expr:
        result = self.one / math.prod(math.factorial(k) for k in powers)
        for s, k in zip(self.scaled, powers, strict=True):
            for _ in range(k):
                result = result * s
        return result

    def _test_order(self, term: sp.Expr) -> int:
        """How often a term differentiates its test function."""
        weak = self._weak(term)
        return max((d.order for d in derivatives(weak.volume) if d.field == weak.test), default=0)

    def _is_affine(self, columns: Any) -> bool:
        """Whether integrals over time may be taken of the fields instead of the columns."""
        # One factor for each column, so that terms cannot cancel each other.
        factors = fem.Constant(self.mesh, np.ones(len(columns), dtype=PETSc.ScalarType))
        found = self.discretisation.ingredient("rows", ufl.inner(columns, factors) * ufl.dx)
        return found.linear and found.autonomous and found.steady_constant

    def _tests(self) -> list[Expr]:
        shape, zero = self.shape_function, ufl.as_ufl(0.0)
        if not self.shape:
            return [shape]
        if not self.projected:
            return [
                ufl.as_vector([shape if i == k else zero for i in range(self.dimension)])
                for k in range(self.dimension)
            ]
        slope = [shape.dx(i) for i in range(self.dimension)]
        if self.dimension == 2:
            return [ufl.as_vector([slope[1], -slope[0]])]
        return [
            ufl.as_vector([zero, slope[2], -slope[1]]),
            ufl.as_vector([-slope[2], zero, slope[0]]),
            ufl.as_vector([slope[1], -slope[0], zero]),
        ]

    def _with_constraint_force(self, result: list[Expr]) -> list[Expr]:
        """Divergence-free functions do not see the force of the constraint, which is a gradient."""
        return result if self.projected else super()._with_constraint_force(result)

    def _weak(self, term: sp.Expr) -> WeakTerm:
        multiplier = self.discretisation.multiplier
        elements = {f: element for f, element in self.spaces.elements.items() if not is_stand_in(f)}
        return self.discretisation.weak_in_parts(
            term,
            self.unknown,
            elements,
            f"the term {term}",
            () if multiplier is None else (multiplier[0],),
            smooth=self.discretisation.kinds[self.unknown] == L2,
        )

    def _column(self, term: sp.Expr) -> list[Expr]:
        """The integrand of a term against each test function."""
        weak = self._weak(term)
        if weak.surfaces:
            raise InputError(
                f"{term} acts on a surface, and rows are taken inside the domain; the "
                "sensitivities of sensors see it"
            )
        if (
            weak.jumps
            or weak.penalties
            or weak.conserved is not None
            or any(
                not is_stand_in(a.field) or a.field not in self.spaces.elements
                for a in weak.auxiliaries
            )
        ):
            raise InputError(
                f"{term} has no weak rows on these elements: it needs fields or jumps besides the "
                "solution"
            )
        sharp, context = self.discretisation.sharp, self.discretisation.context
        within = [context.extended({weak.test: test}) for test in self._tests()]
        # Half of what the rule integrates is for the data, half for the bump.
        return [
            Lowering(sharp.context(weak.volume, around, degree=self.degree // 2))(weak.volume)
            for around in within
        ]

    def _given(self, expr: sp.Expr) -> Expr:
        sharp, context = self.discretisation.sharp, self.discretisation.context
        return Lowering(sharp.context(expr, context, degree=self.degree // 2))(expr)

    def _data(self, value: Any) -> list[Expr]:
        return [ufl.inner(value, test) for test in self._tests()]

    # Where the test functions are
    # -----------------------------------------------------------------------------------------

    def boxes(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Centres and half-width of the bumps in space whose support meets no part of the
        boundary; the same on all ranks.
        """
        points, comm = self.mesh.geometry.x[:, : self.dimension], self.model.comm
        low, high = np.full(self.dimension, np.inf), np.full(self.dimension, -np.inf)
        if len(points):
            low, high = points.min(axis=0), points.max(axis=0)
        both = np.array(comm.allgather((low, high)))
        low, high = both[:, 0].min(axis=0), both[:, 1].max(axis=0)
        width = SPACE_SHARE * (high - low)
        axes = []
        for i in range(self.dimension):
            room = high[i] - low[i] - 2 * width[i]
            count = round(room / (SPACINGS[self.dimension] * width[i])) + 1
            axes.append(np.linspace(low[i] + width[i], high[i] - width[i], count))
        facets = self._boundary_boxes()
        centres = [np.array(centre) for centre in itertools.product(*axes)]
        free = [self._clear(centre, width, facets, high - low) for centre in centres]
        agreed = np.logical_and.reduce(comm.allgather(np.array(free)))
        inside = self._inside(centres)
        chosen = [centre for centre, yes in zip(centres, agreed & inside, strict=True) if yes]
        if not chosen:
            raise InputError(
                "the domain has no room for a test function of compact support; rows of "
                "kind='strong' need none"
            )
        return chosen, width

    def _boundary_boxes(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounding boxes of this rank's exterior facets."""
        topology, dimension = self.mesh.topology, self.mesh.topology.dim
        topology.create_connectivity(dimension - 1, dimension)
        facets = _compat.exterior_facets(self.mesh)
        if not len(facets):
            return np.empty((0, self.dimension)), np.empty((0, self.dimension))
        topology.create_connectivity(dimension - 1, 0)
        nodes = mesh.entities_to_geometry(self.mesh, dimension - 1, facets)
        corners = self.mesh.geometry.x[nodes][:, :, : self.dimension]
        return corners.min(axis=1), corners.max(axis=1)

    def _clear(
        self,
        centre: np.ndarray,
        width: np.ndarray,
        facets: tuple[np.ndarray, np.ndarray],
        size: np.ndarray,
    ) -> bool:
        """Whether the open box of a bump meets no exterior facet."""
        margin = 1e-10 * size
        return not np.any(
            np.all(
                (facets[0] < centre + width - margin) & (facets[1] > centre - width + margin),
                axis=1,
            )
        )

    def _inside(self, centres: list[np.ndarray]) -> np.ndarray:
        """Whether each centre is in the domain: a box that meets no boundary is inside or
        outside as a whole.
        """
        corners = self.mesh.geometry.x[_compat.cell_geometry(self.mesh)[0][: self.owned]][
            :, :, : self.dimension
        ]
        low, high = (
            (corners.min(axis=1), corners.max(axis=1))
            if self.owned
            else (np.empty((0, self.dimension)),) * 2
        )
        slack = 1e-10 * np.abs(corners).max(initial=0.0)
        found = [
            bool(np.any(np.all((low <= c + slack) & (high >= c - slack), axis=1))) for c in centres
        ]
        return np.logical_or.reduce(self.model.comm.allgather(np.array(found)))

    def moments_of_bumps(self) -> list[tuple[float, float]]:
        """Centre and half-width of the bumps in time; one that is constant for a steady problem."""
        if self.solution.steady:
            return [(0.0, np.inf)]
        start, end = float(self.solution.times[0]), float(self.solution.times[-1])
        width = TIME_SHARE * (end - start)
        return [
            (float(c), width)
            for c in np.linspace(
                start + width, end - width, round((1 / TIME_SHARE - 2) / SPACING) + 1
            )
        ]

    # The rows
    # ----------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[FieldRows]:
        """One block for each bump in time, with this rank's share of the bumps in space."""
        centres, width = self.boxes()
        bumps = self.moments_of_bumps()
        comm = self.model.comm
        total = comm.allreduce(self._integrals(np.array(centres), width, bumps))
        mine = np.arange(len(centres)) % comm.size == comm.rank
        share = self.independent_bumps(len(centres), len(bumps))
        for number, block in enumerate(total[:, mine]):
            rows = block.reshape(-1, self.columns)
            if len(rows):
                yield FieldRows(
                    rows[:, 1:], rows[:, 0], np.ones(len(rows)), number, share * len(rows)
                )

    def _integrals(
        self, centres: np.ndarray, width: np.ndarray, bumps: list[tuple[float, float]]
    ) -> np.ndarray:
        """This rank's part of the integrals of all columns against all bumps in time and space."""
        self.centre.value[:], self.width.value[:] = centres.mean(axis=0), width
        moments = BumpMoments((centres - self.centre.value) / width, POWER, self.order)
        columns = self.components * self.columns
        total = np.zeros((len(bumps), len(centres), columns))
        size = len(bumps) * len(self.points) * columns * len(self.monomials)
        for cells in self._chunks(moments.centres, max(1, LARGEST // size)):
            shape = len(cells), len(self.points), columns, len(self.monomials)
            values = np.zeros((len(bumps), *shape))
            for shares in self._instants(bumps):
                if not len(cells):
                    continue
                found = self.expression.eval(self.mesh, cells).reshape(shape)
                for bump in np.flatnonzero(shares):
                    values[bump] += shares[bump] * found
            if len(cells):
                points = self._places[cells] - self.centre.value.real
                moments.integrals(points / width, self.cell_weights[cells], values, total)
        return total.reshape(len(bumps), len(centres), self.components, self.columns)

    def _instants(self, bumps: list[tuple[float, float]]) -> Iterator[np.ndarray]:
        """The weight of every bump in time at each instant whose fields are visible; the fields
        are averages in time where that comes to the same. Collective.
        """
        if not self.affine or self.solution.steady:
            for middle, length in self.moments():
                weights = time_weights(bumps, middle, length)
                if weights.any():
                    yield weights
            return
        for number, (fields, weight) in enumerate(self._averages(bumps)):
            for function, values in zip(self._functions, fields, strict=True):
                function.x.array[:] = values
            yield np.where(np.arange(len(bumps)) == number, weight, 0.0)

    @property
    def _functions(self) -> tuple[fem.Function, ...]:
        d = self.discretisation
        return d.state, d.rate, d.acceleration

    def _averages(
        self, bumps: list[tuple[float, float]]
    ) -> list[tuple[tuple[np.ndarray, ...], float]]:
        """Averages of the fields with the weight of each bump in time, and the sums of weights."""
        if self._averaged is None:
            functions = self._functions
            sums = [tuple(np.zeros_like(f.x.array) for f in functions) for _ in bumps]
            whole = np.zeros(len(bumps))
            for middle, length in self.moments():
                weights = time_weights(bumps, middle, length)
                whole += weights
                for bump in np.flatnonzero(weights):
                    for each, function in zip(sums[bump], functions, strict=True):
                        each += weights[bump] * function.x.array
            self._averaged = [
                (tuple(each / (w or 1.0) for each in fields), float(w))
                for fields, w in zip(sums, whole, strict=True)
            ]
        return self._averaged

    def independent_bumps(self, boxes: int, moments: int) -> float:
        """The share of independent rows: as many as bumps without overlap would fill the same
        room.
        """
        space = SPACINGS[self.dimension] ** self.dimension
        return space * (1.0 if moments == 1 else SPACING) if boxes > 1 else 1.0

    def _chunks(self, centres: np.ndarray, most: int) -> Iterator[np.ndarray]:
        """Cells of this rank near bumps, neighbours together, in as many parts on every rank."""
        cells = np.empty(0, dtype=np.int32)
        if self.owned:
            scaled = (self._places - self.centre.value.real) / self.width.value.real
            low, high = scaled.min(axis=1), scaled.max(axis=1)
            inside = np.all(
                (high > centres.min(axis=0) - 1.0) & (low < centres.max(axis=0) + 1.0), axis=1
            )
            cells = np.flatnonzero(inside).astype(np.int32)
            bins = np.floor(scaled[cells].mean(axis=1) / SPACINGS[self.dimension])
            cells = cells[np.lexsort(bins.T)]
        parts = self.model.comm.allreduce(-(-len(cells) // most), MPI.MAX)
        yield from np.array_split(cells, max(parts, 1))


def time_weights(bumps: list[tuple[float, float]], middle: float, length: float) -> np.ndarray:
    """What a time step adds to the integral against each bump in time, where the integrand is 1."""
    shares = [max(1.0 - ((middle - c) / w) ** 2, 0.0) ** POWER for c, w in bumps]
    return length * np.array(shares)
