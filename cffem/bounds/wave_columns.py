# SPDX-License-Identifier: MIT
"""Whole trajectories as columns: products and solves for all time levels at once, and exact L2 norms of broken polynomials.

Functions on a mesh are mapped to coefficients with respect to discontinuous Legendre polynomials that are orthonormal on each cell.
For polynomials up to the degree of that basis this is an isometry: the L2 norm of a sum of curls, gradients and states is the
Euclidean norm of the sum of their coefficients, without cancellation of large inner products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import basix
import basix.ufl
import numpy as np
import sympy as sp
import ufl
from dolfinx import fem
from mpi4py import MPI
from petsc4py import PETSc

from cffem._compat import assemble_matrix, cell_name, form
from cffem.bounds.certificate import NotCovered
from cffem.bounds.enclosure import hidden
from cffem.bounds.geometry import Domain, volumes
from cffem.bounds.sources import ROUNDING, at_quadrature_points, encloses, finite
from cffem.engine.factorisation import Factors
from cffem.symbols.coordinates import SPACE, t

# Degrees of the quadrature rules for data above that of the basis; what the finer one sees and the other does not is added.
DATA_DEGREES = (6, 10)
# Gauss points in time for data that are not quadratic on a step.
GAUSS = (3, 5)
# How many projected values of data are kept on a rank.
KEPT_NUMBERS = 20_000_000


def product(matrix: Any, columns: np.ndarray) -> np.ndarray:
    """A matrix times columns of owned values; collective."""
    (rows, _), sizes = matrix.getSizes()
    result = np.zeros((rows, columns.shape[1]), order="F")
    right, left = _dense(sizes, columns, matrix.comm), _dense(matrix.getSizes()[0], result, matrix.comm)
    matrix.matMult(right, result=left)
    right.destroy()
    left.destroy()
    return result


def _dense(sizes: tuple[int, int], columns: np.ndarray, comm: Any) -> Any:
    """A dense matrix that shares its numbers with Fortran-ordered columns."""
    matrix = PETSc.Mat().createDense((sizes, (None, columns.shape[1])), array=np.asfortranarray(columns), comm=comm)
    matrix.assemble()
    return matrix


class Factor:
    """A factorisation by MUMPS that solves for many right-hand sides at once.

    Args:
        matrix: a symmetric matrix, positive definite unless said otherwise; it is freed with the factor.
        dim: of the mesh.
        definite: whether it is.
    """

    def __init__(self, matrix: Any, dim: int, definite: bool = True):
        self.matrix = matrix
        if definite:
            matrix.setOption(PETSc.Mat.Option.SPD, True)
        # Approximate minimum fill: in the plane nested dissection takes most of the time and saves nothing.
        ordering = {"mat_mumps_icntl_7": 2} if dim == 2 else {}
        self._factors = Factors(matrix, "cholesky", ordering, "an auxiliary problem of an error bound")

    def solve(self, columns: np.ndarray) -> np.ndarray:
        """Solutions for columns of owned values; what is wrong with them is for the bound to see; collective."""
        return self._factors.solve_many(columns)

    def destroy(self) -> None:
        """Free matrix and factors; collective."""
        self._factors.destroy()
        self.matrix.destroy()


class Broken:
    """Discontinuous polynomials with an orthonormal basis on each cell.

    Args:
        domain: the mesh.
        degree: the degree.
        components: how many components.
    """

    def __init__(self, domain: Domain, degree: int, components: int):
        self.domain, self.degree, self.components, self.comm = domain, degree, components, domain.mesh.comm
        self.cell = cell_name(domain.mesh.ufl_domain())
        shape = (components,) if components > 1 else None
        variant = basix.LagrangeVariant.legendre
        self.element = basix.ufl.element("DG", self.cell, degree, lagrange_variant=variant, shape=shape)
        self.space = fem.functionspace(domain.mesh, self.element)
        self.scale = 1 / np.sqrt(volumes(domain.corners) * math.factorial(domain.dim))

    @property
    def owned(self) -> int:
        """How many coefficients this rank owns."""
        return self.space.dofmap.index_map.size_local * self.components

    def _positions(self) -> np.ndarray:
        """Positions of the coefficients of each own cell, shape (cells, basis, components)."""
        places = self.space.dofmap.list[: len(self.domain.corners)]
        return places[:, :, None] * self.components + np.arange(self.components)

    def places(self, lower: Broken) -> np.ndarray:
        """Where the coefficients of polynomials of a lower degree are: the basis is hierarchical."""
        theirs, ours = lower._positions(), self._positions()
        result = np.empty(lower.owned, dtype=np.int64)
        result[theirs] = ours[:, : theirs.shape[1]]
        return result

    def spread(self, values: np.ndarray) -> np.ndarray:
        """One number for each own cell, repeated for its coefficients."""
        result = np.zeros(self.owned)
        result[self._positions()] = values[:, None, None]
        return result

    def moments(self, space: Any, expression: Callable[[Any], Any], weights: np.ndarray | None = None) -> Any:
        """The matrix from values in a space to the coefficients of an expression in them, weighted cell by cell."""
        trial, test = ufl.TrialFunction(space), ufl.TestFunction(self.space)
        matrix = assemble_matrix(form(ufl.inner(expression(trial), test) * ufl.dx, self.comm))
        scale = matrix.createVecLeft()
        scale.array[:] = self.spread(self.scale if weights is None else self.scale * weights)
        matrix.diagonalScale(L=scale)
        scale.destroy()
        return matrix

    def data(self, entries: Sequence[sp.Expr], when: float) -> tuple[np.ndarray, float]:
        """Coefficients of the L2 projection of given data at a time, and the L2 norm of the rest; collective.

        Raises:
            NotCovered: the data are not finite.
        """
        if all(entry == 0 for entry in entries):
            return np.zeros(self.owned), 0.0
        (coarse, _, sizes, ranges), (fine, rest, finer_sizes, finer_ranges) = (
            self._projected(entries, when, self.degree + extra) for extra in DATA_DEGREES
        )
        if not self.comm.allreduce(bool(np.isfinite(coarse).all() and np.isfinite(fine).all()), op=MPI.LAND):
            raise NotCovered("the data are not finite everywhere")
        unseen = np.maximum(np.abs(sizes - finer_sizes) - ROUNDING * np.maximum(sizes, finer_sizes), 0.0).sum()
        rest, lost = np.sqrt(self.comm.allreduce(np.array([rest, unseen])))
        both = np.minimum(ranges[0], finer_ranges[0]), np.maximum(ranges[1], finer_ranges[1])
        return fine, float(rest + lost + self._hidden(entries, when, *both))

    def _hidden(self, entries: Sequence[sp.Expr], when: float, least: np.ndarray, largest: np.ndarray) -> float:
        """The L2 size of what may lie between the points where data have been sampled, by enclosures; collective."""
        size = self.comm.allreduce(float(np.abs([least, largest]).max(initial=0.0)), op=MPI.MAX)
        total = 0.0
        for entry, low, high in zip(entries, least.T, largest.T, strict=True):
            if encloses(entry) and entry.free_symbols & {*SPACE}:
                total += hidden(entry.subs(t, when), SPACE[: self.domain.dim], self.domain.corners, (low, high), size) ** 2
        return finite(math.sqrt(self.comm.allreduce(total)))

    def _projected(
        self, entries: Sequence[sp.Expr], when: float, degree: int
    ) -> tuple[np.ndarray, float, np.ndarray, tuple[np.ndarray, np.ndarray]]:
        """Coefficients, the square of the rest, and on each cell the square of the size and the range, by one quadrature rule."""
        corners = self.domain.corners
        pairs = [at_quadrature_points(entry, corners, degree, when) for entry in entries]
        values, weights = np.stack([v for v, _ in pairs], axis=-1), pairs[0][1]
        kind = {2: basix.CellType.triangle, 3: basix.CellType.tetrahedron}[self.domain.dim]
        points, _ = basix.make_quadrature(kind, degree)
        scalar = basix.ufl.element("DG", self.cell, self.degree, lagrange_variant=basix.LagrangeVariant.legendre)
        basis = scalar.tabulate(0, points)[0]
        # On the reference cell, whose volume is 1/dim!, the weights sum to that volume.
        inside = np.tensordot(values, weights[:, None] / math.factorial(self.domain.dim) * basis, ((1,), (0,)))
        gap = values - np.moveaxis(np.tensordot(inside, basis, ((2,), (1,))), 2, 1)
        area, result = volumes(corners), np.zeros(self.owned)
        result[self._positions()] = np.moveaxis(inside / self.scale[:, None, None], 2, 1)
        rest, sizes = (np.tensordot((part**2).sum(axis=2), weights, 1) for part in (gap, values))
        return result, float(area @ rest), area * sizes, (values.min(axis=1), values.max(axis=1))


class Source:
    """Given data f as polynomials of degree two in time on each step, with the size of what they miss.

    Args:
        broken: where f is projected to.
        entries: the components of f.
        times: the time levels.
    """

    def __init__(self, broken: Broken, entries: Sequence[sp.Expr], times: np.ndarray):
        self.broken, self.entries, self.times = broken, tuple(entries), times
        self.steady = not any(entry.has(t) for entry in self.entries)
        self._known: dict[float, tuple[np.ndarray, float]] = {}
        self._keep = max(3, KEPT_NUMBERS // max(1, broken.owned))
        self._gaps: dict[int, float] = {}

    @property
    def vanishes(self) -> bool:
        """Whether f is zero."""
        return all(entry == 0 for entry in self.entries)

    def _at(self, when: float) -> tuple[np.ndarray, float]:
        key = 0.0 if self.steady else when
        if key not in self._known:
            while len(self._known) >= self._keep:
                del self._known[next(iter(self._known))]
            self._known[key] = self.broken.data(self.entries, when)
        return self._known[key]

    def polynomial(self, step: int) -> np.ndarray:
        """Legendre coefficients of f_h in time on a step, shape (3, owned); collective."""
        start, end = self.times[step], self.times[step + 1]
        (first, _), (middle, _), (last, _) = (self._at(when) for when in (start, (start + end) / 2, end))
        return np.array([(first + 4 * middle + last) / 6, (last - first) / 2, (first + last - 2 * middle) / 3])

    def gap(self, step: int) -> float:
        """A bound of ‖f − f_h‖ in L2 of a step; collective."""
        if step not in self._gaps:
            start, end = self.times[step], self.times[step + 1]
            steady = math.sqrt(end - start) * self._at(start)[1] if self.steady else None
            self._gaps[step] = self._missed(self.polynomial(step), start, end) if steady is None else steady
        return self._gaps[step]

    def _missed(self, parts: np.ndarray, start: float, end: float) -> float:
        """‖f − f_h‖ in L2 of a step by Gauss quadrature with two rules, what they disagree about included."""
        squares = []
        for count in GAUSS:
            points, weights = np.polynomial.legendre.leggauss(count)
            total = 0.0
            for place, weight in zip(points, weights / 2, strict=True):
                exact, rest = self.broken.data(self.entries, (start + end) / 2 + place * (end - start) / 2)
                gap = exact - parts[0] - place * parts[1] - (1.5 * place**2 - 0.5) * parts[2]
                total += weight * (end - start) * (self.broken.comm.allreduce(float(gap @ gap)) + rest**2)
            squares.append(total)
        scale = self.broken.comm.allreduce(float((end - start) * (parts**2).sum()))
        return math.sqrt(squares[1]) + math.sqrt(max(abs(squares[0] - squares[1]) - ROUNDING * scale, 0.0))
