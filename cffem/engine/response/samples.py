# SPDX-License-Identifier: MIT
"""What the terms of a model are on its solution: values of T_j[u] at quadrature points, level by
level, and their Gram matrix.

A term whose derivatives the elements represent is evaluated as it stands; of any other the L2 Riesz
representative of its weak form in the test space is taken. Between time levels values are
interpolated linearly, and the integral over the window is that of the interpolant, exactly, as for
all space–time norms here.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import basix
import numpy as np
import ufl
from dolfinx import fem

from cffem import _compat
from cffem.engine.response.tangent import unset_at_start
from cffem.engine.solve.riesz import Riesz
from cffem.forms.quadrature import polynomial_degree
from cffem.forms.translation_errors import NotRepresentable
from cffem.symbols.problem.window import SAME_LEVEL

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution
    from cffem.engine.solve.stage_types import StageVectors
    from cffem.symbols.fields import Field

# A product of terms of higher degree is integrated by a rule of this degree.
HIGHEST_DEGREE = 14
# So many terms are evaluated by one function, which tabulates their elements once; 8 terms take a
# third of the time, and a function of very many takes long to compile.
TOGETHER = 10


class TermSamples:
    """Evaluates terms of a model at quadrature points of its own cells.

    Args:
        model: the model.
        names: the terms.

    Attributes:
        strong: whether each term is evaluated as it stands (else through its Riesz representative).
        volume: the size of the domain.
    """

    def __init__(self, model: Model, names: tuple[str, ...]):
        self.model, self.names = model, names
        self.discretisation = d = model.discretisation
        self.fields = {name: model.library.locate(name)[0] for name in names}
        self._one = fem.Constant(d.mesh, 1.0)
        self._representative = fem.Function(model.spaces.space)
        self._riesz: Riesz | None = None
        expressions = {name: self._expression(name) for name in names}
        self.strong = {name: expression is not None for name, expression in expressions.items()}
        parts = model.spaces.parts(self._representative)
        used = {
            name: parts[self.fields[name]] if e is None else e for name, e in expressions.items()
        }
        degrees = [2 * polynomial_degree(e) for e in used.values()]
        degree = min(max(degrees, default=0), HIGHEST_DEGREE)
        points, weights = basix.make_quadrature(
            basix.CellType[_compat.cell_name(d.mesh.ufl_domain())], degree
        )
        self._cells = np.arange(
            d.mesh.topology.index_map(d.mesh.topology.dim).size_local, dtype=np.int32
        )
        self._shape = (len(self._cells), len(points))
        compiled: dict[Hashable, fem.Expression] = {}
        for name, expression in used.items():
            if not self.strong[name] and expression not in compiled:
                compiled[expression] = _compat.expression(
                    self._one * expression, points, model.comm
                )
        self._compiled = {
            name: compiled[expression] for name, expression in used.items() if not self.strong[name]
        }
        self._together = [
            (
                {name: len(components(used[name])) for name in names},
                _compat.expression(
                    ufl.as_vector(
                        [self._one * c for name in names for c in components(used[name])]
                    ),
                    points,
                    model.comm,
                ),
            )
            for names in batches([name for name in self.names if self.strong[name]], TOGETHER)
        ]
        measure = _compat.expression(
            self._one * abs(ufl.JacobianDeterminant(d.mesh.ufl_domain())), points, model.comm
        )
        self._root = np.sqrt(self._values(measure)[..., 0] * weights)
        self.volume = float(model.comm.allreduce(np.sum(self._root**2)))

    def _expression(self, name: str) -> fem.Expression:
        try:
            return self.discretisation.strong_in_parts(self.model.library[name], f"term {name!r}")
        except NotRepresentable:
            return None

    def _values(self, expression: fem.Expression) -> np.ndarray:
        values = expression.eval(self.discretisation.mesh, self._cells)
        return np.asarray(values).reshape(*self._shape, -1)

    def at(self, states: StageVectors, time: float) -> dict[Field, np.ndarray]:
        """Values of the terms at a state with its rate and acceleration, by field: one row
        per term, √weight included.
        """
        d = self.discretisation
        vectors = [self.model.equation.new_vector() for _ in states]
        for function, vector, values in zip(
            (d.state, d.rate, d.acceleration), vectors, states, strict=True
        ):
            vector.array[:] = 0.0 if values is None else values
            _fill(function, vector.array_r)
        d.time.value = time
        found: dict[str, np.ndarray] = {}
        for sizes, expression in self._together:
            values, place = self._values(expression), 0
            for name, size in sizes.items():
                found[name], place = values[..., place : place + size], place + size
        for name, expression in self._compiled.items():
            first, second, third = vectors
            _fill(self._representative, self._represented(name, (first, second, third), time))
            found[name] = self._values(expression)
        rows: dict[Field, list[np.ndarray]] = {}
        for name in self.names:
            values = found[name] * self._root[..., None]
            rows.setdefault(self.fields[name], []).append(values.ravel())
        for vector in vectors:
            vector.destroy()
        return {field: np.array(values) for field, values in rows.items()}

    def _represented(self, name: str, states: StageVectors, time: float) -> np.ndarray:
        if self._riesz is None:
            self._riesz = Riesz(self.model)
        out = self.model.equation.new_vector()
        self.model.equation.term_vector(name, states, time, out)
        result = self._riesz(out.array_r)
        out.destroy()
        return result

    def gram(self, solution: Solution) -> np.ndarray:
        """(T_j[u], T_k[u]) in L2(Ω), or in L2(Ω×(0,T)) for a transient solution; zero between
        different equations.
        """
        index = {
            field: [i for i, n in enumerate(self.names) if self.fields[n] == field]
            for field in set(self.fields.values())
        }
        total = np.zeros((len(self.names), len(self.names)))
        before: dict[Field, tuple[np.ndarray, np.ndarray]] = {}
        for level, time in enumerate(solution.times):
            now = self.at(level_states(solution, level), float(time))
            for field, values in now.items():
                block = np.ix_(index[field], index[field])
                square = values @ values.T
                if solution.steady:
                    total[block] += square
                elif field in before:
                    last, last_square = before[field]
                    cross = last @ values.T
                    products = last_square + (cross + cross.T) / 2 + square
                    total[block] += (time - solution.times[level - 1]) / 3 * products
                before[field] = values, square
        return np.asarray(self.model.comm.allreduce(total))

    def destroy(self) -> None:
        """Free PETSc objects; collective."""
        if self._riesz is not None:
            self._riesz.destroy()


def components(expression: ufl.core.expr.Expr) -> list[ufl.core.expr.Expr]:
    """The components of a scalar, a vector or a tensor."""
    shape = expression.ufl_shape
    return [expression[index] for index in np.ndindex(*shape)] if shape else [expression]


def batches(names: Sequence[str], size: int) -> list[Sequence[str]]:
    """Names in groups of this size.

    Example:
        >>> batches("abcde", 2)
        ['ab', 'cd', 'e']
    """
    return [names[k : k + size] for k in range(0, len(names), size)]


def _fill(function: fem.Function, values: np.ndarray) -> None:
    function.x.array[: len(values)] = values
    function.x.scatter_forward()


def level_states(solution: Solution, level: int) -> StageVectors:
    """State, rate and acceleration at a time level; rates that are no part of the state are
    differences of levels.

    A multiplier has no initial value; at the first level it has that of the second.
    """
    if solution.steady:
        return solution.states[0], None, None
    marching, states, velocities = solution.model.marching, solution.states, solution.velocities
    state = states[level]
    if level == 0:
        unset = unset_at_start(solution.model)
        state = state * (1 - unset) + states[1] * unset
    rate = _difference(states, solution.times, level) * marching.dynamic
    if velocities is None or marching.second_order is None:
        return state, rate, None
    rate = rate * (1 - marching.second_order) + velocities[level] * marching.second_order
    return state, rate, _difference(velocities, solution.times, level)


def _difference(values: Sequence[np.ndarray], times: np.ndarray, level: int) -> np.ndarray:
    """The slope at a level of the parabola through it and its neighbours, one-sided at the ends."""
    low, high = max(level - 1, 0), min(level + 1, len(values) - 1)
    if level in (low, high):
        return (values[high] - values[low]) / (times[high] - times[low])
    before, after = times[level] - times[low], times[high] - times[level]
    if abs(after - before) <= SAME_LEVEL * before:
        return (values[high] - values[low]) / (times[high] - times[low])
    first = (values[level] - values[low]) / before
    second = (values[high] - values[level]) / after
    return (after * first + before * second) / (before + after)
