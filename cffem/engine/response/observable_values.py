# SPDX-License-Identifier: MIT
"""Observables on a model: their value, first and second derivative along a trajectory.

An observable is a sum over time nodes, O[u] = Σ_q ω_q o(u(t_q), t_q), on the piecewise linear
interpolant u(t) of the levels: one node at the end or at a time; over the window the trapezoidal
rule where o is linear in u and does not depend on t, which is then exact, else three Gauss points
in each step, exact for quadratic o. Value and derivatives use the same nodes, so that the
derivatives are exact for the value that is reported. A multiplier has no initial value; in the
first step it has the value of its end.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem

from cffem import _compat
from cffem.engine.response.tangent import unset_at_start
from cffem.forms.derivative import gateaux
from cffem.forms.elements import carrier
from cffem.forms.lowering import Lowering
from cffem.forms.orders import derivatives
from cffem.forms.quadrature import polynomial_degree, with_fixed_quadrature
from cffem.symbols.coordinates import SPACE
from cffem.symbols.errors import InputError
from cffem.symbols.operators import dt
from cffem.symbols.problem.known_values import formulas, substituted
from cffem.symbols.problem.observables import Front, Observable

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh
    from mpi4py import MPI
    from ufl.core.expr import Expr

    from cffem.engine.assembly.discretisation import Discretisation
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution

Node = tuple[float, int, float]  # weight ω, level, fraction of the step after that level
GAUSS = tuple(
    zip(((1 - 0.6**0.5) / 2, 0.5, (1 + 0.6**0.5) / 2), (5 / 18, 8 / 18, 5 / 18), strict=True)
)


class Measurement:
    """One observable on one model, compiled when made.

    Args:
        model: the model.
        observable: what is measured.

    Attributes:
        linear: whether o is linear in the state and does not depend on time.
        nodes: the time nodes.

    Raises:
        InputError: the observable names a part or a time that is not there, or a rate that is no
            part of the state.
    """

    def __init__(self, model: Model, observable: Observable):
        self.model, self.observable = model, observable
        self.discretisation = d = model.discretisation
        _check_fields(model, observable)
        _check_derivatives(model, observable)
        rule = formulas(model.experiment)
        factor = substituted(sp.sympify(observable.weight), rule)
        measure = measure_of(d, observable)
        whole = factor * substituted(sp.sympify(observable.integrand), rule)
        sharp = d.sharp if measure.integral_type() == "cell" else d.sharp_boundary
        context = Lowering(sharp.context(whole, d.context))
        weight, weighted = context(factor), context(whole)
        if observable.normalised:
            # One rule for the integral and for the weight it is divided by, so that the mean of a
            # constant is that constant.
            measure = measure(metadata={"quadrature_degree": polynomial_degree(weighted) + 2})
        self.form = with_fixed_quadrature(weighted * measure)
        self._value = _compat.form(self.form, model.comm)
        self._rated = d.rate in self.form.coefficients()
        self._gradients = [
            self._gradient(s) for s in ((d.state, d.rate) if self._rated else (d.state,))
        ]
        self.scale = self._scale(weight, measure)
        self.linear = self._is_linear()
        self.nodes = time_nodes(observable, model.times, self.linear)
        self._unset = unset_at_start(model)
        self._constant: list[np.ndarray] | None = None
        self._second: Any = None
        self._directions = [fem.Function(model.spaces.space) for _ in self._gradients]

    def _gradient(self, function: fem.Function) -> tuple[np.ndarray, np.ndarray]:
        derivative = gateaux(self.form, function, ufl.TestFunction(self.model.spaces.space))
        return derivative, None if derivative.empty() else _compat.form(derivative, self.model.comm)

    def _is_linear(self) -> bool:
        d = self.discretisation
        forms = [derivative for derivative, compiled in self._gradients if compiled is not None]
        return not d.depends_on_time(self.form) and not any(
            s in f.coefficients() for f in forms for s in (d.state, d.rate)
        )

    def _scale(self, weight: Expr, measure: ufl.Measure) -> float:
        observable, model = self.observable, self.model
        one = ufl.as_ufl(weight)
        if isinstance(observable, Front):
            size = _assembled(_compat.form(one * measure, model.comm), model.comm)
            return extent(self.discretisation.mesh, SPACE.index(observable.along)) / size
        if not observable.normalised:
            return 1.0
        total = _assembled(_compat.form(one * measure, model.comm), model.comm)
        if not abs(total) > 0.0:
            raise InputError(
                f"{observable}: its weight vanishes on the whole mesh, so there is no average"
            )
        return 1.0 / total

    # Along a trajectory
    # ----------------------------------------------------------------------------------------------

    def value(self, solution: Solution) -> float:
        """O[u]."""
        total = 0.0
        for weight, level, fraction in self.nodes:
            self._place(self.seen(solution, level, fraction), self._time(level, fraction))
            total += weight * _assembled(self._value, self.model.comm)
        return self.scale * total

    def gradient(self, solution: Solution) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
        """DO(u) as vectors by time level, with respect to the states and to the velocities."""
        found: tuple[dict[int, np.ndarray], dict[int, np.ndarray]] = ({}, {})
        for weight, level, fraction in self.nodes:
            vectors = self.gradient_at(solution, level, fraction)
            for levels, vector, unset in zip(
                found, vectors, (self._unset, np.zeros(1)), strict=False
            ):
                first, second = (1 - fraction) * vector, fraction * vector
                if level == 0 and not solution.steady:
                    first, second = first * (1 - unset), second + first * unset
                for place, part in ((level, first), (level + 1, second)):
                    if np.any(part) or place == 0:
                        levels[place] = levels.get(place, 0.0) + self.scale * weight * part
        return found

    def gradient_at(self, solution: Solution, level: int, fraction: float) -> list[np.ndarray]:
        """Do(u(t), t) at one node with respect to the state and, where it matters, the velocity."""
        if self._constant is not None:
            return self._constant
        self._place(self.seen(solution, level, fraction), self._time(level, fraction))
        equation = self.model.equation
        zero = np.zeros(self.model.spaces.owned)
        vectors = [zero if c is None else equation.assembled_vector(c) for _, c in self._gradients]
        if self.linear:
            self._constant = vectors
        return vectors

    def derivative(self, solution: Solution, direction: Solution) -> float:
        """DO(u) in the direction of a trajectory that has no initial value."""
        local = 0.0
        for gradients, states in zip(
            self.gradient(solution), (direction.states, direction.velocities), strict=True
        ):
            local += (
                sum(float(np.dot(vector, states[level])) for level, vector in gradients.items())
                if states
                else 0.0
            )
        return float(self.model.comm.allreduce(local))

    def curvature(self, solution: Solution, directions: list[list[np.ndarray]]) -> float:
        """D²O(u)[d, d] for directions given at each node as `seen` gives them."""
        if self._second is None:
            functions = (self.discretisation.state, self.discretisation.rate)
            pairs = list(zip(functions, self._directions, strict=False))
            once = sum(gateaux(self.form, f, d) for f, d in pairs)
            twice = sum(gateaux(once, f, d) for f, d in pairs)
            self._second = (
                (None,) if twice == 0 or twice.empty() else (_compat.form(twice, self.model.comm),)
            )
        if self._second[0] is None:
            return 0.0
        total = 0.0
        for (weight, level, fraction), direction in zip(self.nodes, directions, strict=True):
            self._place(self.seen(solution, level, fraction), self._time(level, fraction))
            for function, values in zip(self._directions, direction, strict=True):
                _fill(function, values)
            total += weight * _assembled(self._second[0], self.model.comm)
        return self.scale * total

    def seen(self, solution: Solution, level: int, fraction: float) -> list[np.ndarray]:
        """What the observable sees of a trajectory at one node: the state and, where it
        matters, the velocity.
        """
        sequences = [
            solution.states,
            *([solution.velocities] if self._rated and solution.velocities else []),
        ]
        result = []
        for states in sequences:
            before = states[level]
            if level == 0 and len(states) > 1 and states is solution.states:
                before = before * (1 - self._unset) + states[1] * self._unset
            result.append(
                before if fraction == 0 else (1 - fraction) * before + fraction * states[level + 1]
            )
        return result

    def _time(self, level: int, fraction: float) -> float:
        times = self.model.times
        return float(
            times[level]
            if fraction == 0
            else (1 - fraction) * times[level] + fraction * times[level + 1]
        )

    def _place(self, states: list[np.ndarray], time: float) -> None:
        d = self.discretisation
        d.time.value = time
        for function, values in zip((d.state, d.rate), states, strict=False):
            _fill(function, values)


def _fill(function: fem.Function, values: np.ndarray) -> None:
    function.x.array[: len(values)] = values
    function.x.scatter_forward()


def _assembled(form: ufl.Form, comm: MPI.Comm) -> float:
    return float(comm.allreduce(fem.assemble_scalar(form)))


def _check_fields(model: Model, observable: Observable) -> None:
    """Fields and rates that are part of the state."""
    if not isinstance(observable, Observable):
        raise InputError(
            f"{observable!r} is not an observable; write cf.Integral(u), cf.Average(u), "
            "cf.Flux(grad(u)), …"
        )
    for unknown in observable.fields:
        if unknown not in model.spaces.fields:
            known = ", ".join(map(str, model.spaces.fields))
            raise InputError(
                f"the observable {type(observable).__name__} is of {unknown}, but the model has "
                f"{known}"
            )
        order = (
            model.library.equations[unknown].time_order if unknown in model.library.equations else 0
        )
        if observable.integrand.has(dt(dt(unknown))) or (
            observable.integrand.has(dt(unknown)) and order < 2
        ):
            raise InputError(
                f"the observable {type(observable).__name__} needs a rate of {unknown} that is no "
                "part of the state; "
                "write the right-hand side of its equation instead"
            )


def _check_derivatives(model: Model, observable: Observable) -> None:
    """Refuse derivatives that are zero, or do not converge, whatever the field is: of a higher
    order than the polynomials of its element.
    """
    elements = model.spaces.elements
    for derived in derivatives(sp.sympify(observable.integrand)):
        if derived.field not in elements:
            continue
        carries = carrier(elements[derived.field])
        if derived.order > carries.degree and not carries.conforming(
            derived.operator, derived.order
        ):
            raise InputError(
                f"the observable {type(observable).__name__} takes derivatives of order "
                f"{derived.order} of {derived.field}, which its {carries.description} does not "
                f"have; take degree {derived.order} or higher"
            )


def measure_of(discretisation: Discretisation, observable: Observable) -> ufl.Measure:
    """The UFL measure of the cells or facets that an observable names."""
    domain, name = discretisation.mesh.ufl_domain(), observable.on
    if name in (None, "domain"):
        return ufl.dx(domain=domain)
    if name == "boundary":
        return discretisation.boundary.whole
    boundary, marked = discretisation.boundary, discretisation.domain
    if name in boundary.tags:
        return boundary.measure(boundary.tags[name])
    dimension, tag = marked.names.get(name, (-1, -1))
    if dimension == discretisation.mesh.topology.dim and marked.cell_tags is not None:
        return ufl.Measure("dx", domain=domain, subdomain_data=marked.cell_tags)(tag)
    there = ", ".join(sorted({*marked.names, *boundary.tags})) or "none"
    raise InputError(
        f"the observable {type(observable).__name__} is on {name!r}, which is no part of this "
        "mesh or of its boundary; "
        f"there are: domain, boundary, {there}"
    )


def time_nodes(observable: Observable, times: np.ndarray, linear: bool) -> list[Node]:
    """The time nodes of an observable.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> time_nodes(cf.Integral(u, at=0.25), np.array([0.0, 0.5, 1.0]), linear=True)
        [(1.0, 0, 0.5)]
        >>> time_nodes(cf.Integral(u, at="window"), np.array([0.0, 0.5, 1.0]), linear=True)
        [(0.25, 0, 0.0), (0.5, 1, 0.0), (0.25, 2, 0.0)]
    """
    last = len(times) - 1
    label = f"the observable {type(observable).__name__}"
    if last == 0:
        if observable.at != "end" or getattr(observable, "speed", False):
            raise InputError(
                f'{label} asks for a time or a speed, but the problem is steady; use at="end"'
            )
        return [(1.0, 0, 0.0)]
    length = float(times[-1] - times[0])
    if getattr(observable, "speed", False):
        return [(1 / length, last, 0.0), (-1 / length, 0, 0.0)]
    if observable.at == "end":
        return [(1.0, last, 0.0)]
    if observable.at == "window":
        scale = 1 / length if observable.normalised else 1.0
        return _window_nodes(np.diff(times) * scale, linear)
    at = float(observable.at)
    if not times[0] <= at <= times[-1]:
        raise InputError(
            f"{label} is at time {at:g}, outside the window from {times[0]:g} to {times[-1]:g}"
        )
    level = min(int(np.searchsorted(times, at, side="right")) - 1, last)
    fraction = (
        0.0 if level == last else float((at - times[level]) / (times[level + 1] - times[level]))
    )
    return [(1.0, level, fraction)]


def _window_nodes(steps: np.ndarray, linear: bool) -> list[Node]:
    if linear:
        halves = [0.0, *(steps / 2), 0.0]
        return [
            (float(a + b), level, 0.0) for level, (a, b) in enumerate(itertools.pairwise(halves))
        ]
    return [
        (float(step * weight), level, s) for level, step in enumerate(steps) for s, weight in GAUSS
    ]


def extent(mesh: Mesh, axis: int) -> float:
    """The length of a mesh along a coordinate axis."""
    if axis >= mesh.geometry.dim:
        raise InputError(
            f"the mesh has dimension {mesh.geometry.dim}, so no front moves along {SPACE[axis]}"
        )
    points = mesh.geometry.x[:, axis]
    from mpi4py import MPI

    low = mesh.comm.allreduce(points.min(initial=np.inf), op=MPI.MIN)
    high = mesh.comm.allreduce(points.max(initial=-np.inf), op=MPI.MAX)
    return float(high - low)
