"""Initial, boundary and forcing data: from what users write to functions on a mesh.

SymPy expressions are evaluated with NumPy at the interpolation points, so data compile nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp
from dolfinx import fem

from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field
from cffem.symbols.operators import Vec, as_expr, component
from cffem.symbols.shapes import shape_of


def depends_on_time(value: Any) -> bool:
    """Whether data change with time."""
    if isinstance(value, tuple | list):
        return any(depends_on_time(part) for part in value)
    return isinstance(value, sp.Basic) and t in value.free_symbols


def time_derivative(value: Any, what: str) -> Any:
    """The time derivative of data, for velocities at essential unknowns.

    Raises:
        InputError: it is no function, because the data jump in time.

    Example:
        >>> from cffem import x, t
        >>> time_derivative((x * t**2, 1), "the data")
        (2*t*x, 0)
    """
    if isinstance(value, tuple | list):
        return tuple(time_derivative(part, what) for part in value)
    if not depends_on_time(value):
        return 0
    derivative = sp.diff(value, t)
    if derivative.has(sp.DiracDelta, sp.Derivative):
        raise InputError(f"{what} jumps in time, but its field is of second order in time and needs a velocity there; smooth it")
    return derivative


def evaluator(value: Any, shape: tuple[int | None, ...], dimension: int, what: str) -> Callable[[np.ndarray, float], np.ndarray]:
    """A function (points, time) → values of shape (components, points) for data of a given shape.

    Args:
        value: a number, a SymPy expression, a tuple of them, or a callable of the points.
        shape: () or (d,).
        dimension: the dimension of space.
        what: how to call the data in an error message.
    """
    if callable(value) and not isinstance(value, sp.Basic):
        return lambda points, time: np.asarray(value(points))
    parts = _components(value, shape, dimension, what)
    functions = [sp.lambdify((*SPACE, t), part, "numpy") for part in parts]

    def evaluate(points: np.ndarray, time: float) -> np.ndarray:
        with np.errstate(all="ignore"):
            rows = [np.broadcast_to(f(points[0], points[1], points[2], time), points.shape[1:]).astype(float) for f in functions]
        result = np.stack(rows)
        if not np.all(np.isfinite(result)):
            raise InputError(f"{what} is not finite everywhere on the mesh")
        return result if shape else result[0]

    return evaluate


def _components(value: Any, shape: tuple[int | None, ...], dimension: int, what: str) -> list[sp.Expr]:
    expr = as_expr(value)
    if not shape:
        if shape_of(expr) != ():
            raise InputError(f"{what} must be a scalar, not {expr}")
        return [expr]
    if expr == 0:
        return [sp.S.Zero] * dimension
    if shape_of(expr) == () or (isinstance(expr, Vec) and len(expr.args) != dimension):
        raise InputError(
            f"{what} must be a vector with {dimension} components, for instance ({', '.join('0' * dimension)}), not {value}"
        )
    return [component(expr, i) for i in range(dimension)]


def interpolate(function: Any, value: Any, unknown: Field, time: float, what: str) -> None:
    """Set a function of a field's own space to data at a time."""
    if isinstance(value, fem.Function):
        try:
            function.interpolate(value)
        except RuntimeError as error:
            raise InputError(f"{what} is a function that does not fit the space of {unknown}: {error}") from None
        return
    dimension = function.function_space.mesh.geometry.dim
    evaluate = evaluator(value, unknown.shape, dimension, what)
    function.interpolate(lambda points: evaluate(points, time))
    function.x.scatter_forward()
