# SPDX-License-Identifier: MIT
"""Initial, boundary and forcing data: from what users write to functions on a mesh.

SymPy expressions are evaluated with NumPy at the interpolation points, so data compile nothing;
measurements are moved onto the mesh by `cffem.symbols.problem.measured`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from dolfinx import fem

from cffem import _compat
from cffem.engine.inputs.numeric import numeric
from cffem.forms.elements import determines
from cffem.symbols.algebra.shapes import shape_of
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.errors import AS_TWO_FIELDS, InputError
from cffem.symbols.fields import Field
from cffem.symbols.known import Known
from cffem.symbols.operators import Vec, as_expr, component
from cffem.symbols.problem.measured import Interpolated, MeasuredFields, as_data
from cffem.symbols.real_values import real_values

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh


def depends_on_time(value: object) -> bool:
    """Whether data, or a term, contain the time itself; fields are functions of it without
    containing it.
    """
    if isinstance(value, tuple | list):
        return any(depends_on_time(part) for part in value)
    if isinstance(value, MeasuredFields):
        return not value.timeless
    return isinstance(value, sp.Basic) and t in value.atoms(sp.Symbol)


def time_derivative(value: object, what: str) -> Any:
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
    if isinstance(value, MeasuredFields):
        return value.derivative()
    derivative = sp.diff(value, t)
    if derivative.has(sp.DiracDelta, sp.Derivative):
        raise InputError(
            f"{what} jumps in time, but its field is of second order in time and needs a velocity "
            "there; smooth it"
        )
    return derivative


def evaluator(
    value: object, shape: tuple[int | None, ...], dimension: int, what: str
) -> Callable[[np.ndarray, float], np.ndarray]:
    """A function (points, time) → values of shape (components, points) for data of a given shape.

    Args:
        value: a number, a SymPy expression, a tuple of them, or a callable of the points.
        shape: () or (d,).
        dimension: the dimension of space.
        what: how to call the data in an error message.
    """
    if callable(value) and not isinstance(value, sp.Basic):
        return lambda points, time: _checked_values(value(points), points, shape, dimension, what)
    parts = components(value, shape, dimension, what)
    for part in parts:
        if part.has(Known):
            raise InputError(
                f"{what} contains the known field {min(map(str, part.atoms(Known)))}, which is not "
                "given by a formula; give a DOLFINx function or an expression in x, y, z, t"
            )
    functions = [numeric(part, (*SPACE, t)) for part in parts]

    def evaluate(points: np.ndarray, time: float) -> np.ndarray:
        with np.errstate(all="ignore"):
            rows = [
                np.broadcast_to(f(points[0], points[1], points[2], time), points.shape[1:]).astype(
                    float
                )
                for f in functions
            ]
        return _checked_values(rows if shape else rows[0], points, shape, dimension, what)

    return evaluate


def _checked_values(
    values: object, points: np.ndarray, shape: tuple[int | None, ...], dimension: int, what: str
) -> np.ndarray:
    """Values at points, refused if one is not a finite number or if they do not have the
    field's shape.
    """
    result = real_values(values, what)
    wanted = (dimension, *points.shape[1:]) if shape else points.shape[1:]
    if result.shape != wanted:
        raise InputError(
            f"{what} has values of shape {result.shape} at {points.shape[1]} points, not {wanted}"
        )
    finite = np.isfinite(result)
    lost = np.flatnonzero(~(finite.all(axis=0) if shape else finite))
    if len(lost):
        raise InputError(
            f"{what} is not finite everywhere on the mesh, for one at the point "
            f"{_place(points[:dimension, lost[0]])}"
        )
    return result


def components(
    value: object, shape: tuple[int | None, ...], dimension: int, what: str
) -> list[sp.Expr]:
    """The scalar expressions of data of a given shape."""
    expr = as_expr(value)
    # As an expression a tuple of zeros is zero, whatever its length.
    given = (
        len(value)
        if isinstance(value, tuple | list)
        else len(expr.args)
        if isinstance(expr, Vec)
        else None
    )
    if not shape:
        if shape_of(expr) != () or given is not None:
            raise InputError(f"{what} must be a scalar, not {expr if expr != 0 else value}")
        return [expr]
    if expr == 0 and given in (None, dimension):
        return [sp.S.Zero] * dimension
    if shape_of(expr) == () or given not in (None, dimension):
        raise InputError(
            f"{what} must be a vector with {dimension} components, for instance "
            f"({', '.join('0' * dimension)}), not {value}"
        )
    return [component(expr, i) for i in range(dimension)]


def _is_zero(value: object) -> bool:
    """Whether data are zero as they are written, which need not be evaluated."""
    parts = value if isinstance(value, tuple | list) else (value,)
    return all(isinstance(part, int | float | sp.Basic) and part == 0 for part in parts)


def interpolate(
    function: fem.Function,
    value: object,
    unknown: Field,
    time: float,
    what: str,
    gaps: bool = False,
) -> None:
    """Set a function of a field's own space to data at a time; collective, and so are its errors.

    Args:
        function: the function.
        value: the data.
        unknown: the field.
        time: the time.
        what: how to call the data in an error message.
        gaps: whether measured data may end within the mesh, for who needs them on a part only; the
            function is nan elsewhere.
    """
    mesh, value = function.function_space.mesh, as_data(value)
    if isinstance(value, fem.Function | Interpolated):
        source: Any = value.function if isinstance(value, Interpolated) else value
        if not determines(*(f.function_space.ufl_element() for f in (source, function))):
            raise InputError(
                f"{what} is a function that jumps between cells, where {unknown} does not, so that "
                "it has no value at a node; give it as a known field, cf.Known, and that here"
            )
    if isinstance(value, fem.Function):
        function.interpolate(value)
        function.x.scatter_forward()
        return
    if isinstance(value, Interpolated):
        missing = _compat.interpolate_nonmatching(function, value.function)
        if missing:
            raise InputError(
                f"{what}: {missing} points of the mesh lie outside of the mesh of the function, "
                "and nothing is extrapolated"
            )
        return
    dimension = mesh.geometry.dim
    evaluate = _measured(value, unknown, what, gaps) if isinstance(value, MeasuredFields) else None
    evaluate = evaluate or evaluator(value, unknown.shape, dimension, what)
    if _is_zero(value):
        function.x.array[:] = 0.0
        return
    problems: list[str] = []

    def guarded(points: np.ndarray) -> np.ndarray:
        # An error on one rank only would leave the others waiting, hence it is kept until all can
        # raise it.
        try:
            return evaluate(points, time)
        except Exception as error:
            problems.append(
                str(error)
                if isinstance(error, InputError)
                else f"{what} cannot be evaluated: {error}"
            )
            return np.zeros((dimension, points.shape[1]) if unknown.shape else points.shape[1])

    function.interpolate(guarded)
    found = [text for texts in mesh.comm.allgather(problems) for text in texts]
    if found:
        raise InputError(found[0])
    function.x.scatter_forward()


def _measured(
    value: MeasuredFields, unknown: Field, what: str, gaps: bool
) -> Callable[[np.ndarray, float], np.ndarray]:
    """Measured data as a function (points, time) → values, refused where there are none."""

    def evaluate(points: np.ndarray, time: float) -> np.ndarray:
        values = value.at(unknown, points, time, what)
        if not gaps:
            require_values(values, points, what)
        return values

    return evaluate


def require_values(values: np.ndarray, points: np.ndarray, what: str) -> None:
    """Refuse measured data that do not reach a point."""
    missing = np.isnan(values)
    lost = np.flatnonzero(missing.any(axis=0) if missing.ndim > 1 else missing)
    if len(lost):
        raise InputError(
            f"{what}: there are no data at the point {_place(points[:, lost[0]])}; give data that "
            "cover the mesh"
        )


def _place(point: np.ndarray) -> str:
    return f"({', '.join(f'{c:.6g}' for c in point)})"


def _check_called(function: Callable[[np.ndarray], object], mesh: Mesh, what: str) -> None:
    """Refuse a Python function with complex values, before anything is compiled; whatever else
    is wrong with it is found when it is interpolated.
    """
    refused = False
    try:
        real_values(function(mesh.geometry.x.T), what)
    except InputError:
        refused = True
    except Exception:
        pass
    if mesh.comm.allreduce(int(refused)):
        raise InputError(f"{what} is complex, but fields are real; {AS_TWO_FIELDS}")


def check_on_mesh(
    value: object, unknown: Field, mesh: Mesh, what: str, callables: bool = True
) -> None:
    """Refuse data that do not fit a field on this mesh: another shape, another mesh, or a
    coordinate that is not there.

    Args:
        value: the data.
        unknown: the field, or component, they are for.
        mesh: the mesh.
        what: how to call the data in an error message.
        callables: whether Python functions of the points are allowed, as they are where data are
            interpolated.
    """
    shape, dimension, value = tuple(unknown.shape), mesh.geometry.dim, as_data(value)
    if isinstance(value, MeasuredFields):
        if not callables:
            raise InputError(
                f"{what} must be an expression in x, y, z, t or a DOLFINx function, not measured "
                "data"
            )
        value.check(unknown, dimension, what)
        return
    if isinstance(value, Interpolated):
        if not callables:
            raise InputError(
                f"{what} is a function on another mesh; give it as a known field, and that here"
            )
        if tuple(value.function.ufl_shape) != shape:
            raise InputError(
                f"{what} is a function with values of shape {tuple(value.function.ufl_shape)}, "
                f"not {shape}"
            )
        return
    if isinstance(value, fem.Function):
        if value.function_space.mesh.ufl_domain() != mesh.ufl_domain():
            raise InputError(
                f"{what} is a function on another mesh; give cf.Interpolated(function) to have it "
                "interpolated onto this one first"
            )
        if tuple(value.ufl_shape) != shape:
            raise InputError(
                f"{what} is a function with values of shape {tuple(value.ufl_shape)}, not {shape}"
            )
        if callables and value.function_space.ufl_element().has_custom_quadrature:
            raise InputError(
                f"{what} is known at quadrature points only; interpolate it into a DG or Lagrange "
                "function first"
            )
        if mesh.comm.allreduce(int(not np.all(np.isfinite(value.x.array)))):
            raise InputError(f"{what} has values that are not finite numbers")
        return
    if callable(value) and not isinstance(value, sp.Basic):
        if not callables:
            raise InputError(
                f"{what} must be an expression in x, y, z, t or a DOLFINx function, not a Python "
                "function"
            )
        _check_called(value, mesh, what)
        return
    for part in components(value, shape, dimension, what):
        if part.has(sp.I):
            raise InputError(f"{what} contains I, but fields are real; {AS_TWO_FIELDS}")
        if callables and part.has(Known) and part.has(sp.Derivative):
            raise InputError(
                f"{what} contains a derivative of a known field, which has values in forms only; "
                "give the derivative as a known field of its own"
            )
        for coordinate in SPACE[dimension:]:
            if coordinate in part.atoms(sp.Symbol):
                raise InputError(
                    f"{what} contains {coordinate}, but the mesh has dimension {dimension}"
                )
