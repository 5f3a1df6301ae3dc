# SPDX-License-Identifier: MIT
"""Linear observables ∫ ψ u, whose weight ψ may jump, be narrow, or live on a part of the domain:
integrals with their errors.

On each cell ∫ ψ v = ∫ (Π ψ) v for a polynomial v of degree k and the projection Π onto such
polynomials. `resolved` computes a projection p of ψ with a bound of ‖Π ψ − p‖, whatever lies
between the points of a rule, so that

    |∫ ψ v − ∫ p v| ≤ Σ_K ‖Π ψ − p‖_K ‖v‖_K.

An average is divided by ∫ ψ, which is known in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import basix
import numpy as np
import sympy as sp

from cffem._compat import cell_geometry, straight_simplices
from cffem.bounds.certificate import NotCovered
from cffem.bounds.enclosed.pieces import Prisms
from cffem.bounds.enclosed.resolved import Resolution, Resolver
from cffem.bounds.geometry.mesh_constants import volumes
from cffem.bounds.geometry.reference_cell import CELLS, orthonormal
from cffem.symbols.coordinates import SPACE
from cffem.symbols.fields import Field, ScalarField

if TYPE_CHECKING:
    from basix.ufl import _ElementBase
    from dolfinx import fem
    from mpi4py import MPI

    from cffem.engine.assembly.discretisation import Discretisation
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution
    from cffem.symbols.problem.observables import Observable


# Weights are looked at until what is not seen of them is this part of them, or cells have so many
# parts.
CLOSE = Resolution(share=0.0, vague=0.0, rounding=1e-9, parts=60_000, depth=8)


@dataclass(frozen=True)
class Enclosed:
    """A number and how far the true one may be from it."""

    value: float
    radius: float

    def over(self, other: Enclosed) -> Enclosed:
        """The quotient by a number that is not zero.

        Raises:
            NotCovered: it may be zero.

        Example:
            >>> Enclosed(3.0, 0.1).over(Enclosed(2.0, 0.5))
            Enclosed(value=1.5, radius=0.5666666666666667)
        """
        least = abs(other.value) - other.radius
        if not least > 0:
            raise NotCovered("the integral of the weight may be zero, so that there is no average")
        value = self.value / other.value
        return Enclosed(value, (self.radius + abs(value) * other.radius) / least)


def density(observable: Observable, unknown: Field) -> sp.Expr:
    """ψ of a linear observable ∫ ψ u of one scalar, without what it is divided by.

    Raises:
        NotCovered: it is of another kind.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> density(cf.Integral(2 * cf.x * u), u)
        2*x
    """
    integrand = sp.sympify(observable.integrand)
    # Nothing is expanded: exp(−(x − a)²/w²) would become a product of huge and tiny factors.
    found = sp.diff(integrand, unknown)
    rest = integrand.xreplace({unknown: sp.S.Zero})
    if integrand.atoms(sp.Derivative) or found.atoms(Field) or rest != 0:
        raise NotCovered("the observable is not an integral of the field itself with a weight")
    weight = found * sp.sympify(observable.weight)
    if weight.free_symbols - {*SPACE}:
        raise NotCovered("the weight of the observable is not a function of the place alone")
    return weight


class Weight:
    """A weight on some cells of this rank, resolved; collective.

    Args:
        comm: the communicator.
        corners: of the cells.
        weight: an expression in the coordinates.
        degree: of the polynomials that it is integrated with.

    Attributes:
        size: a bound of ‖ψ‖.
        blind: why it could not be enclosed, empty where it could.

    Raises:
        NotCovered: it is not finite.
    """

    def __init__(self, comm: MPI.Comm, corners: np.ndarray, weight: sp.Expr, degree: int):
        self.comm, self.dim = comm, corners.shape[2]
        dim = self.dim
        resolver = Resolver(comm, Prisms(corners, SPACE[:dim]), [weight], degree, CLOSE)
        found = resolver.resolve()
        self.moments, self.unseen, self.blind = found.moments[0], found.unseen[0], resolver.blind
        self.volume = volumes(corners) * math.factorial(dim)
        seen, far = comm.allreduce(np.array([found.products.sum(), (found.distance**2).sum()]))
        self.size = math.sqrt(max(float(seen), 0.0)) + 2 * math.sqrt(float(far))

    def integral(self, coefficients: np.ndarray) -> Enclosed:
        """∫ ψ v for v given by its coefficients in orthonormal polynomials, shape
        (polynomials, cells); collective.
        """
        value = float((self.moments * coefficients).sum(axis=0) @ self.volume)
        norms = np.sqrt(self.volume * (coefficients**2).sum(axis=0))
        value, radius = self.comm.allreduce(np.array([value, float(self.unseen @ norms)]))
        return Enclosed(float(value), float(radius))

    def total(self) -> Enclosed:
        """∫ ψ; collective."""
        one = np.zeros_like(self.moments)
        # The first polynomial is constant, with the integral of its square over the reference cell
        # one.
        one[0] = 1 / math.sqrt(math.factorial(self.dim))
        return self.integral(one)


class LinearObservable:
    """A linear observable of the only unknown of a model, with bounds of its quadrature errors;
    collective.

    Args:
        model: the model.
        observable: the observable.
        nodes: its nodes in time, as `cffem.engine.response.observable_values` gives them.

    Attributes:
        weight: ψ, without what it is divided by.
        scale: what the integral is multiplied by.
        size: a bound of the L2 norm of ψ times the scale.
        part: whether it is an integral over a part of the domain that the mesh names.
        blind: why the weight could not be enclosed, empty where it could.

    Raises:
        NotCovered: it is of another kind, or the model is.
    """

    def __init__(
        self, model: Model, observable: Observable, nodes: Sequence[tuple[float, int, float]]
    ):
        self.model, self.nodes = model, nodes
        self.unknown = _only_scalar(model)
        self.weight, self.part = (
            density(observable, self.unknown),
            observable.on not in (None, "domain"),
        )
        mesh, self.space = model.discretisation.mesh, model.spaces.own(self.unknown)[0]
        self.cells = cells_of(model.discretisation, observable)
        corners = mesh.geometry.x[cell_geometry(mesh)[0][self.cells], : mesh.topology.dim]
        element = self.space.element.basix_element
        self._table = nodal_to_orthonormal(element)
        self._resolved = Weight(model.comm, corners, self.weight, element.degree)
        self.blind = self._resolved.blind
        self.scale = Enclosed(1.0, 0.0)
        if observable.normalised:
            own = Weight(model.comm, corners, sp.sympify(observable.weight), 0)
            self.scale = Enclosed(1.0, 0.0).over(own.total())
            self.blind = self.blind or own.blind
        self.size = self._resolved.size * (abs(self.scale.value) + self.scale.radius)

    def integral(self, state: np.ndarray) -> Enclosed:
        """∫ ψ v of a function of the space given by its owned values, without the scale;
        collective.
        """
        local = self.model.spaces.with_ghosts(state)[self.model.spaces.dofs(self.unknown)]
        return self._resolved.integral(self._table @ local[self.space.dofmap.list[self.cells]].T)

    def effect(self, first: Solution, second: Solution) -> Enclosed:
        """What the observable of one solution is more than that of another; collective."""

        def seen(level: int, fraction: float) -> np.ndarray:
            found: np.ndarray = first.states[level] - second.states[level]
            if fraction:
                found = (1 - fraction) * found + fraction * (
                    first.states[level + 1] - second.states[level + 1]
                )
            return found

        found = self.integral(
            sum(share * seen(level, fraction) for share, level, fraction in self.nodes)
        )
        return self.scaled(found)

    def scaled(self, found: Enclosed) -> Enclosed:
        """An integral multiplied by the scale."""
        radius = abs(found.value) * self.scale.radius + found.radius * (
            abs(self.scale.value) + self.scale.radius
        )
        return Enclosed(found.value * self.scale.value, radius)


def orthonormal_coefficients(function: fem.Function) -> np.ndarray:
    """Coefficients of a Lagrange function in orthonormal polynomials on this rank's own
    cells, shape (polynomials, cells).
    """
    space = function.function_space
    mine = space.mesh.topology.index_map(space.mesh.topology.dim).size_local
    function.x.scatter_forward()
    found: np.ndarray = (
        nodal_to_orthonormal(space.element.basix_element)
        @ function.x.array[space.dofmap.list[:mine]].T
    )
    return found


def nodal_to_orthonormal(element: _ElementBase) -> np.ndarray:
    """The matrix from nodal values of a Lagrange element to coefficients in orthonormal
    polynomials of the reference cell.
    """
    dim = len(basix.topology(element.cell_type)) - 1
    points, weights = basix.make_quadrature(element.cell_type, 2 * element.degree)
    values = element.tabulate(0, points)[0, :, :, 0]
    return (weights * orthonormal(CELLS[dim], element.degree, points)) @ values


def _only_scalar(model: Model) -> ScalarField:
    """The only unknown of a model, a scalar on continuous elements on straight simplices."""
    unknowns = model.discretisation.unknowns
    if len(unknowns) != 1 or not isinstance(unknowns[0], ScalarField):
        raise NotCovered("the unknown is not a single scalar field")
    element, mesh = (
        model.spaces.own(unknowns[0])[0].element.basix_element,
        model.discretisation.mesh,
    )
    lagrange = element.family == basix.ElementFamily.P
    if (
        not lagrange
        or not straight_simplices(mesh)
        or mesh.geometry.dim != mesh.topology.dim
        or mesh.topology.dim == 1
    ):
        raise NotCovered(
            "the field is not on Lagrange elements on straight triangles or tetrahedra"
        )
    return unknowns[0]


def cells_of(discretisation: Discretisation, observable: Observable) -> np.ndarray:
    """This rank's own cells that an observable is an integral over.

    Raises:
        NotCovered: it lives on a boundary.
    """
    mine = discretisation.mesh.topology.index_map(discretisation.mesh.topology.dim).size_local
    if observable.on in (None, "domain"):
        return np.arange(mine)
    marked = discretisation.domain
    dimension, tag = marked.names.get(observable.on, (-1, -1))
    if dimension != discretisation.mesh.topology.dim or marked.cell_tags is None:
        raise NotCovered("the observable lives on a boundary")
    found = marked.cell_tags.find(tag)
    return np.sort(found[found < mine])
