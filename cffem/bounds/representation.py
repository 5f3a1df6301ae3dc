# SPDX-License-Identifier: MIT
"""How far a field that was brought along is from what a model's space and time levels make of it.

Certificates hold for functions of the model's space that are linear between time levels and have
the boundary values of the problem. A field of the user's is taken there by interpolation; what it
loses on the way, between the points of interpolation, at the boundary and between time levels, is
measured here in L2 over space and time, at quadrature points in every cell and at Gauss points in
every step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import basix.ufl
import numpy as np
import sympy as sp
import ufl
from dolfinx import fem

from cffem._compat import cell_name, form
from cffem.engine.inputs import field_data as data
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution


# Polynomials up to twice the degree of the element and so many degrees more are integrated exactly
# in space.
MORE = 6
# Gauss points in each time step, by the share of the step that lies before them.
GAUSS = tuple(
    ((1 + float(p)) / 2, float(w) / 2)
    for p, w in zip(*np.polynomial.legendre.leggauss(4), strict=True)
)


def is_sequence(value: Any) -> bool:
    """Whether a field is given by DOLFINx functions, one for each time level."""
    return isinstance(value, Sequence) and all(isinstance(part, fem.Function) for part in value)


def given_at(value: Any, unknown: Field, level: int, levels: int, now: float) -> Any:
    """What is given for a field at a time: a function, an expression or a callable of points alone.

    Args:
        value: a SymPy expression, a callable of (points, time), a function, or one for each level.
        unknown: the field, for messages.
        level, levels: the time level and how many there are.
        now: the time.

    Raises:
        InputError: there are more or fewer functions than levels.
    """
    if is_sequence(value):
        if len(value) != levels:
            raise InputError(
                f"give one function of {unknown} for each of the {levels} time levels, not "
                f"{len(value)}"
            )
        return value[level]
    if callable(value) and not isinstance(value, sp.Basic | fem.Function):
        return lambda points: value(points, now)
    return value


class Loss:
    """Measures, for one unknown of a model, how far given values are from those of a solution.

    Args:
        model: the model.
        unknown: the field.
    """

    def __init__(self, model: Model, unknown: Field):
        self.model, self.unknown = model, unknown
        mesh, own = model.discretisation.mesh, model.spaces.own(unknown)[0]
        degree = 2 * own.element.basix_element.embedded_superdegree + MORE
        element = basix.ufl.quadrature_element(
            cell_name(mesh.ufl_domain()), value_shape=own.value_shape, degree=degree
        )
        self.space = fem.functionspace(mesh, element)
        self.points = element.custom_quadrature()[0]
        self.difference = fem.Function(self.space)
        dx = ufl.dx(
            domain=mesh, metadata={"quadrature_degree": degree, "quadrature_rule": "default"}
        )
        self.square = form(ufl.inner(self.difference, self.difference) * dx, model.comm)

    def sampled(self, value: Any, now: float) -> np.ndarray:
        """Given values at the quadrature points."""
        function = fem.Function(self.space)
        if isinstance(value, fem.Function):
            value.x.scatter_forward()
            function.interpolate(fem.Expression(value, self.points))
        else:
            data.interpolate(function, value, self.unknown, now, f"the given {self.unknown}")
        return function.x.array.copy()

    def squared(self, values: np.ndarray) -> float:
        """The squared L2 norm of values at the quadrature points; collective."""
        self.difference.x.array[:] = values
        return float(self.model.comm.allreduce(fem.assemble_scalar(self.square)))

    def total(self, value: Any, solution: Solution) -> float:
        """The squared distance of what is given from a solution, over space and time;
        collective.
        """
        times, levels = solution.times, len(solution.times)
        held = [
            self.sampled(solution.function(self.unknown, k), float(now))
            for k, now in enumerate(times)
        ]

        def given(level: int, now: float) -> np.ndarray:
            return self.sampled(given_at(value, self.unknown, level, levels, now), now)

        if levels == 1:
            return self.squared(given(0, 0.0) - held[0])
        return sum(
            share * self.squared(gap) for share, gap in self._between(value, times, held, given)
        )

    def _between(
        self,
        value: Any,
        times: np.ndarray,
        held: list[np.ndarray],
        given: Callable[[int, float], np.ndarray],
    ) -> Iterator[tuple[float, np.ndarray]]:
        """Differences at the Gauss points of all steps with their weights; functions given at
        levels are linear between them.
        """
        ends = [given(k, float(now)) for k, now in enumerate(times)] if is_sequence(value) else None
        for k, (start, end) in enumerate(pairwise(map(float, times))):
            for part, share in GAUSS:
                now = start + part * (end - start)
                own = given(k, now) if ends is None else (1 - part) * ends[k] + part * ends[k + 1]
                yield share * (end - start), own - (1 - part) * held[k] - part * held[k + 1]


def representation_loss(model: Model, values: Any, solution: Solution) -> float:
    """‖u_θ − u_h‖ in L2 over space and time for a field of the user's and the solution that was
    made of it; collective.

    Args:
        model: the model.
        values: the field as it was given, see `cffem.bounds.supplied_fields.brought`.
        solution: what `brought` made of it.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_square
        >>> from cffem.bounds.supplied_fields import brought
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u)}, unknown=u)
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_square(MPI.COMM_SELF, 4, 4),
        ...     elements={u: ("Lagrange", 2)},
        ...     boundary=[cf.Dirichlet(u, 0)],
        ...     forcing={u: 1},
        ... )
        >>> model, bubble = (
        ...     cf.Model(library, {"lap": 1.0}, experiment),
        ...     cf.x * (1 - cf.x) * cf.y * (1 - cf.y),
        ... )
        >>> round(representation_loss(model, bubble, brought(model, bubble)), 5)
        0.00025
    """
    unknowns = model.discretisation.unknowns
    given = dict(values) if isinstance(values, Mapping) else {unknowns[0]: values}
    return math.sqrt(
        max(sum(Loss(model, unknown).total(given[unknown], solution) for unknown in unknowns), 0.0)
    )
