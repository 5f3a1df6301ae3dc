# SPDX-License-Identifier: MIT
"""The values of known fields: what an experiment may give, and the formulas among them put in their
place.

Numbers and SymPy expressions become part of the terms themselves, so that everything that holds for
a formula holds for them. The rest (values by subdomain, functions, measurements, Python functions)
stays a known field, which the engine gives a function on the mesh.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from cffem.symbols.algebra.shapes import shape_of
from cffem.symbols.coordinates import t
from cffem.symbols.errors import InputError
from cffem.symbols.known import Known, KnownEntry, known_in
from cffem.symbols.operators import Node, as_expr, component, has_jump
from cffem.symbols.problem.constraint_classes import Constraint, DivergenceFree
from cffem.symbols.problem.library import Library
from cffem.symbols.problem.measured import Interpolated, MeasuredFields, as_data
from cffem.symbols.problem.system import System
from cffem.symbols.real_values import check_real_function
from cffem.symbols.restricted import On

if TYPE_CHECKING:
    from cffem.symbols.problem.experiment import Experiment
    from cffem.symbols.problem.interventions import Intervention


def checked_known(known: Any) -> dict[Known, Any]:
    """The values of known fields, each of a kind that there is.

    Raises:
        InputError: a key is no `Known`, or a value is of no such kind or of another shape.
    """
    if not isinstance(known, Mapping):
        raise InputError(f"known gives each known field its values, {{k: 2.0}} say, not {known!r}")
    result: dict[Known, Any] = {}
    for key, value in known.items():
        if not isinstance(key, Known):
            raise InputError(
                f"known gives values to fields declared with cf.Known, and {key!r} is not one"
            )
        result[key.plain] = _checked(key, value)
    names = [key.name for key in result]
    for name in {name for name in names if names.count(name) > 1}:
        raise InputError(f"two known fields are called {name}; give each its own name")
    return result


def _checked(key: Known, value: Any) -> Any:
    what = f"the known field {key}"
    if isinstance(value, Mapping):
        return {name: _formula(key, part, f"{what} in {name!r}") for name, part in value.items()}
    if _is_tagged(value):
        return value[0], {
            tag: _formula(key, part, f"{what} in {tag}") for tag, part in value[1].items()
        }
    data = as_data(value)
    if isinstance(data, MeasuredFields | Interpolated) or hasattr(value, "function_space"):
        if not isinstance(data, MeasuredFields):
            check_real_function(getattr(data, "function", data), what)
        return data
    if callable(value) and not isinstance(value, sp.Basic):
        return value
    return _formula(key, value, what)


def _is_tagged(value: object) -> bool:
    """Whether values are given by the numbers of DOLFINx mesh tags: (tags, {1: 2.25, 2: 1})."""
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and hasattr(value[0], "find")
        and isinstance(value[1], Mapping)
    )


def _formula(key: Known, value: Any, what: str) -> sp.Expr:
    """A number, an expression, or tuples of them in the shape of the field."""
    if len(key.shape) == 2:
        rows = np.array(sp.Matrix(value).tolist() if _matrix(value) else value, dtype=object)
        if rows.shape != key.shape:
            raise InputError(
                f"{what} is a tensor of shape {key.shape}, ((1, 0), (0, 1)) say, not {value!r}"
            )
        return tuple(tuple(_scalar(entry, what) for entry in row) for row in rows)
    if len(key.shape) == 1:
        parts = tuple(value) if isinstance(value, tuple | list | np.ndarray | sp.MatrixBase) else ()
        if not parts and isinstance(value, sp.Basic) and len(shape_of(value)) == 1:
            parts = tuple(component(value, i) for i in range(key.shape[0]))
        if len(parts) != key.shape[0]:
            raise InputError(f"{what} is a vector with {key.shape[0]} components, not {value!r}")
        return tuple(_scalar(part, what) for part in parts)
    return _scalar(value, what)


def _matrix(value: object) -> bool:
    return isinstance(value, sp.MatrixBase)


def _scalar(value: Any, what: str) -> sp.Expr:
    from cffem.symbols.problem.experiment import check_data

    if isinstance(value, str | bool | tuple | list | np.ndarray):
        raise InputError(f"{what} takes a number or a SymPy expression, not {value!r}")
    check_data(value.item() if isinstance(value, np.generic) else value, what)
    expr = as_expr(value.item() if isinstance(value, np.generic) else value)
    if shape_of(expr) != () or known_in(expr):
        raise InputError(f"{what} takes a scalar in x, y, z and t, not {expr}")
    return expr


def is_formula(value: Any) -> bool:
    """Whether values are numbers or expressions, for the whole domain."""
    return isinstance(value, sp.Basic) or (isinstance(value, tuple) and not _is_tagged(value))


def on_one_mesh(value: Any) -> bool:
    """Whether values belong to one mesh and its ranks: functions and tags."""
    return hasattr(value, "function_space") or isinstance(value, Interpolated) or _is_tagged(value)


def is_timed(value: Any) -> bool:
    """Whether values change in time."""
    if isinstance(value, MeasuredFields):
        return not value.timeless
    if isinstance(value, Mapping):
        return any(map(is_timed, value.values()))
    if isinstance(value, tuple):
        return any(is_timed(part) for part in value)
    return isinstance(value, sp.Basic) and t in value.free_symbols


def known_text(value: Any) -> str:
    """The values of a known field in words.

    Example:
        >>> known_text({"glass": sp.Float(2.25), "air": sp.Integer(1)})
        '2.25 in glass, 1 in air'
    """
    if isinstance(value, sp.Float):
        return f"{float(value):g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{known_text(part)} in {name}" for name, part in value.items())
    if _is_tagged(value):
        return ", ".join(f"{known_text(part)} on tag {tag}" for tag, part in value[1].items())
    if isinstance(value, tuple):
        return f"({', '.join(map(known_text, value))})"
    if hasattr(value, "function_space"):
        return f"the function {value.name}"
    if callable(value) and not isinstance(value, sp.Basic):
        return f"the Python function {getattr(value, '__name__', type(value).__name__)}"
    return str(value)


# Formulas in their place
# --------------------------------------------------------------------------------------------------


def substituted(expr: sp.Basic, rule: Mapping[Known, object]) -> sp.Expr:
    """An expression with values in the place of known fields, operators taken where they now can
    be.

    Example:
        >>> import cffem as cf
        >>> k, u = cf.Known("k"), cf.ScalarField("u")
        >>> substituted(cf.div(k * cf.grad(u)), {k: sp.Integer(2)})
        2*lap(u)
    """
    if isinstance(expr, Known):
        return rule.get(expr.plain, expr)
    if not known_in(expr):
        return expr
    if isinstance(expr, On):
        return On(expr.place, substituted(expr.args[0], rule))
    if isinstance(expr, KnownEntry):
        whole = rule.get(expr.known.plain, expr.known)
        return (
            KnownEntry(whole, *expr.index)
            if isinstance(whole, Known)
            else component(whole, expr.index[0])
        )
    args = [substituted(arg, rule) for arg in expr.args]
    if isinstance(expr, sp.Derivative):
        return args[0].diff(*expr.variable_count)
    return type(expr)(*args) if isinstance(expr, Node) else expr.func(*args)


def formulas(experiment: Experiment) -> dict[Known, Any]:
    """What stands for each known field of an experiment in expressions."""
    return {key: _standing(key, value) for key, value in experiment.known.items()}


def with_known(
    library: Library | System, experiment: Experiment
) -> tuple[Library | System, Experiment]:
    """A library and an experiment with formulas in the place of the known fields that are given so.

    Raises:
        InputError: a known field has no values.
    """
    rule = formulas(experiment)
    given = [e for lib in library.equations.values() for e in lib.expressions]
    data = [part for part in _data_of(experiment) if isinstance(part, sp.Basic)]
    for known in sorted(frozenset().union(*map(known_in, [*given, *data])), key=str):
        _require_values(known, rule)
    if not rule:
        return library, experiment
    if isinstance(library, System):
        library = System({k: _replaced(part, rule) for k, part in library.libraries.items()})
    else:
        library = _replaced(library, rule)
    return library, replace(
        experiment,
        forcing={key: _in_data(value, rule) for key, value in experiment.forcing.items()},
        initial={key: _in_data(value, rule) for key, value in experiment.initial.items()},
        boundary=[_in_condition(condition, rule) for condition in experiment.boundary],
        constraint=_in_constraint(experiment.constraint, rule),
    )


def change_with_known(change: Intervention, experiment: Experiment) -> Intervention:
    """An intervention whose data have formulas in the place of the known fields that are given so.

    Raises:
        InputError: a known field has no values.
    """
    rule = formulas(experiment)
    found = [value for _, value in (*change.forcing, *change.initial)]
    for condition in change.conditions:
        found += [getattr(condition, f.name) for f in fields(condition)]
    parts = [part for value in found for part in (value if isinstance(value, tuple) else (value,))]
    used = [known_in(part) for part in parts if isinstance(part, sp.Basic)]
    for known in sorted(frozenset().union(*used), key=str):
        _require_values(known, rule)
    if not any(used):
        return change
    return replace(
        change,
        forcing=tuple((key, _in_data(value, rule)) for key, value in change.forcing),
        initial=tuple((key, _in_data(value, rule)) for key, value in change.initial),
        conditions=tuple(_in_condition(condition, rule) for condition in change.conditions),
    )


def _require_values(known: Known, rule: Mapping[Known, Any]) -> None:
    if known.plain in rule:
        return
    same = next((k for k in rule if k.name == known.name), None)
    hint = f"; {same} is given with shape {same.shape}, not {known.shape}" if same else ""
    raise InputError(
        f"the known field {known} has no values: give them in Experiment(…, "
        f"known={{{known}: …}}){hint}"
    )


def for_measured_fields(
    library: Library | System, experiments: Iterable[Experiment]
) -> Library | System:
    """A library whose rows come from measured fields, with formulas for its known fields.

    Raises:
        InputError: a known field is given in another way, or differently in two experiments, or a
            term acts in a part only.
    """
    used = [e for part in library.equations.values() for e in part.expressions]
    for expr in used:
        if expr.has(On):
            raise InputError(
                f"{expr} acts in a part of the mesh, which measured fields do not know; calibrate "
                "it with readings, or give the coefficients"
            )
    wanted = {known.plain for expr in used for known in known_in(expr)}
    if not wanted:
        return library
    first, *others = list(experiments)
    for known in sorted(wanted, key=str):
        value = first.known.get(known)
        if not is_formula(value) or len(known.shape) > 1:
            raise InputError(
                f"the known field {known} is no formula, and coefficients are identified from "
                "measured fields with formulas only; give one, or the coefficients"
            )
        if any(other.known.get(known) != value for other in others):
            raise InputError(
                f"the known field {known} differs between experiments, whose measured fields are "
                "put together; study them one by one"
            )
    return with_known(library, first)[0]


def _in_constraint(constraint: Any, rule: Mapping[Known, object]) -> object:
    if constraint is None or not known_in(constraint.expr):
        return constraint
    multiplier = None if constraint.multiplier is None else dict([constraint.multiplier])
    if isinstance(constraint, DivergenceFree):
        weight = substituted(constraint.weight, rule)
        return DivergenceFree(constraint.field, multiplier, weight)
    return Constraint(substituted(constraint.expr, rule), multiplier)


def _standing(key: Known, value: Any) -> sp.Expr:
    """What stands for a known field: its formula, its twin with a gradient, or itself."""
    if len(key.shape) == 2 or not is_formula(value):
        return key.twin if _is_smooth(value) else key
    return as_expr(value)


def _is_smooth(value: Any) -> bool:
    """Whether values have a gradient: formulas without jumps, continuous functions and
    measurements.
    """
    if isinstance(value, MeasuredFields):
        return True
    if isinstance(value, Interpolated):
        value = value.function
    if hasattr(value, "function_space"):
        element = value.function_space.ufl_element()
        return element in _continuous(element)
    if isinstance(value, tuple) and not _is_tagged(value):
        return not any(has_jump(entry) for row in value for entry in row)
    return False


def _continuous(element: Any) -> tuple[object, ...]:
    """The element itself where its functions are continuous."""
    space = getattr(element, "basix_sobolev_space", None)
    discontinuous = getattr(element, "discontinuous", False)
    smooth = space is not None and space.name in ("H1", "H2", "HInf") and not discontinuous
    return (element,) if smooth and element.embedded_superdegree > 0 else ()


def _replaced(library: Library, rule: Mapping[Known, object]) -> Library:
    if not any(map(known_in, library.expressions)):
        return library
    anchor = None if library.anchor is None else substituted(library.anchor, rule)
    terms = {name: substituted(term, rule) for name, term in library.items()}
    values: dict[sp.Symbol, float] = {p: v for p, v in library.parameters.items() if v is not None}
    return Library(anchor, terms, library.unknown, values)


def _data_of(experiment: Experiment) -> list[object]:
    """All data of an experiment, vectors by their components."""
    found = [*experiment.forcing.values(), *experiment.initial.values()]
    found += [] if experiment.constraint is None else [experiment.constraint.expr]
    for condition in experiment.boundary:
        found += [getattr(condition, f.name) for f in fields(condition)]
    return [part for value in found for part in (value if isinstance(value, tuple) else (value,))]


def _in_data(value: Any, rule: Mapping[Known, object]) -> object:
    if isinstance(value, tuple | list):
        return tuple(_in_data(part, rule) for part in value)
    return substituted(value, rule) if isinstance(value, sp.Basic) else value


def _in_condition(condition: Any, rule: Mapping[Known, object]) -> object:
    """A boundary condition with formulas in place of known fields, wherever it has data."""
    changes = {
        f.name: _in_data(getattr(condition, f.name), rule)
        for f in fields(condition)
        if f.name in ("value", "coefficient")
    }
    return replace(condition, **changes) if changes else condition
