# SPDX-License-Identifier: MIT
"""Components: any expression written out as scalars whose only operators are SymPy's partial
derivatives.

`to_components` is the definition of every operator in Cartesian coordinates and thus the reference
that normal forms, rewrites and the lowering to UFL are tested against. `evaluate_on` puts given
functions in place of the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch
from itertools import product
from typing import TYPE_CHECKING

import sympy as sp

from cffem.symbols.algebra.nodes import (
    Cross,
    Curl,
    Div,
    Dot,
    Grad,
    Inner,
    Lap,
    Node,
    Outer,
    Sym,
    TensorTrace,
    Transpose,
    Vec,
    as_expr,
    dimension_of,
)
from cffem.symbols.algebra.normal_forms import normal_form
from cffem.symbols.algebra.shapes import rank_name, shape_of
from cffem.symbols.algebra.tensor_nodes import Det, Inverse, Tensor
from cffem.symbols.coordinates import SPACE
from cffem.symbols.errors import ShapeError, SymbolError
from cffem.symbols.fields import Component, Field, Normal, ScalarField, VectorField
from cffem.symbols.known import Known, KnownEntry, KnownTensor

if TYPE_CHECKING:
    pass


Entries = tuple[sp.Expr, ...]


def to_components(expr: sp.Expr, dim: int) -> Entries:
    """Write an expression out in components.

    Args:
        expr: a scalar, vector or tensor expression; tuples are vectors.
        dim: the dimension of space, 1, 2 or 3.

    Returns:
        The scalar entries, row by row: one for a scalar, `dim` for a vector, `dim**2` for a tensor.

    Example:
        >>> import cffem as cf
        >>> from cffem.symbols.algebra.components import to_components
        >>> to_components(cf.div(cf.VectorField("v", dim=2)), 2)
        (Derivative(v[0], x) + Derivative(v[1], y),)
    """
    expr = as_expr(expr)
    if isinstance(dim, bool) or dim not in (1, 2, 3):
        raise ValueError(f"the dimension must be 1, 2 or 3, not {dim!r}")
    outside = expr.atoms(sp.Symbol) & {*SPACE[dim:]}
    if outside:
        raise ShapeError(
            f"{expr} uses the coordinate {min(map(str, outside))}, which does not exist in {dim}D"
        )
    shape_of(expr)
    return _entries(expr, dim)


def evaluate_on(expr: sp.Expr, values: Mapping[sp.Expr, sp.Expr], dim: int) -> Entries:
    """Evaluate an expression on given functions of the coordinates.

    Args:
        expr: a scalar, vector or tensor expression.
        values: for each field an expression in x, y, z, t (a tuple for a vector field); parameters
            may be given values too.
        dim: the dimension of space.

    Returns:
        The scalar entries, row by row, as plain SymPy expressions.

    Example:
        >>> import cffem as cf
        >>> from cffem.symbols.algebra.components import evaluate_on
        >>> u = cf.ScalarField("u")
        >>> evaluate_on(u * cf.lap(u), {u: cf.x**2 * cf.y}, dim=2)
        (2*x**2*y**2,)
    """
    rule: dict[sp.Expr, sp.Expr] = {}
    for field, value in values.items():
        if isinstance(field, VectorField):
            rule.update(
                zip(
                    (field[i] for i in range(field.dim)),
                    _vector_values(field, value, dim),
                    strict=True,
                )
            )
        elif isinstance(field, ScalarField | sp.Symbol | Component):
            rule[field] = as_expr(value)
        else:
            raise SymbolError(f"a value can be given for a field or a parameter, not for {field}")
    entries = to_components(expr, dim)
    missing = set().union(*(entry.atoms(Field) for entry in entries)) - {*values}
    missing = {
        f
        for f in missing
        if not (isinstance(f, VectorField) and all(f[i] in rule for i in range(f.dim)))
    }
    if missing:
        raise SymbolError(f"no value is given for the field {min(map(str, missing))} in {expr}")
    return tuple(_substitute(entry, rule) for entry in entries)


def _vector_values(field: VectorField, value: object, dim: int) -> Entries:
    vector = as_expr(value)
    if vector == 0:
        return (sp.S.Zero,) * field.dim
    if shape_of(vector) not in ((field.dim,), (None,)):
        raise ShapeError(
            f"{field} has {field.dim} components, but its value {value} is a "
            f"{rank_name(shape_of(vector))}"
        )
    return to_components(vector, dim)


def _substitute(entry: sp.Expr, rule: Mapping[sp.Expr, sp.Expr]) -> sp.Expr:
    """Replace fields by functions, taking the derivatives that then can be taken."""
    derivatives = {
        d: _replace(d.expr, rule).diff(*d.variable_count) for d in entry.atoms(sp.Derivative)
    }
    return _replace(entry, {**rule, **derivatives})


def _replace(entry: sp.Expr, rule: Mapping[sp.Expr, sp.Expr]) -> sp.Expr:
    return rule[entry] if entry in rule else entry.xreplace(dict(rule))


@singledispatch
def _entries(expr: sp.Expr, dim: int) -> Entries:
    """Any other SymPy node: a function of scalars."""
    if isinstance(expr, Node):
        raise SymbolError(f"{type(expr).__name__} has no rule for its components")
    return (_scalars(expr, dim),)


def _scalars(expr: sp.Basic, dim: int) -> sp.Basic:
    if not expr.args or isinstance(expr, Component | KnownEntry):
        return expr
    return expr.func(
        *(_entries(a, dim)[0] if isinstance(a, sp.Expr) else _scalars(a, dim) for a in expr.args)
    )


@_entries.register
def _(expr: sp.Add, dim: int) -> Entries:
    parts = [_entries(a, dim) for a in expr.args]
    return tuple(sp.Add(*entry) for entry in zip(*parts, strict=True))


@_entries.register
def _(expr: sp.Mul, dim: int) -> Entries:
    scalar, entries = sp.S.One, None
    for factor in expr.args:
        if shape_of(factor) == ():
            scalar *= _entries(factor, dim)[0]
        else:
            entries = _entries(factor, dim)
    return (scalar,) if entries is None else tuple(scalar * entry for entry in entries)


@_entries.register
def _(expr: sp.Derivative, dim: int) -> Entries:
    return tuple(entry.diff(*expr.variable_count) for entry in _entries(expr.expr, dim))


@_entries.register
def _(expr: sp.Piecewise, dim: int) -> Entries:
    size = dim ** len(shape_of(expr))
    branches = [
        (_entries(v, dim) if v != 0 else (v,) * size, _scalars(c, dim)) for v, c in expr.args
    ]
    return tuple(
        sp.Piecewise(*((values[i], condition) for values, condition in branches))
        for i in range(size)
    )


@_entries.register
def _(expr: VectorField, dim: int) -> Entries:
    if expr.dim != dim:
        raise ShapeError(f"{expr} has {expr.dim} components, but space has {dim} dimensions")
    return tuple(expr[i] for i in range(dim))


@_entries.register
def _(expr: ScalarField, dim: int) -> Entries:
    if expr.dim not in (None, dim):
        raise ShapeError(f"{expr} was declared in {expr.dim}D, but space has {dim} dimensions")
    return (expr,)


@_entries.register
def _(expr: Component, dim: int) -> Entries:
    return (_entries(expr.field, dim)[expr.index],)


@_entries.register
def _(expr: Known, dim: int) -> Entries:
    if any(size != dim for size in expr.shape):
        raise ShapeError(f"{expr} has shape {expr.shape}, but space has {dim} dimensions")
    if not expr.shape:
        return (expr,)
    return tuple(KnownEntry(expr, *index) for index in product(*map(range, expr.shape)))


@_entries.register
def _(expr: Normal, dim: int) -> Entries:
    return tuple(expr[i] for i in range(dim))


@_entries.register
def _(expr: Vec, dim: int) -> Entries:
    if len(expr.args) != dim:
        raise ShapeError(f"{expr} has {len(expr.args)} components, but space has {dim} dimensions")
    return tuple(_entries(part, dim)[0] for part in expr.args)


@_entries.register
def _(expr: Grad, dim: int) -> Entries:
    return tuple(entry.diff(s) for entry in _entries(expr.args[0], dim) for s in SPACE[:dim])


@_entries.register
def _(expr: Div, dim: int) -> Entries:
    entries = _entries(expr.args[0], dim)
    rows = [entries[i : i + dim] for i in range(0, len(entries), dim)]
    return tuple(
        sp.Add(*(entry.diff(s) for entry, s in zip(row, SPACE, strict=False))) for row in rows
    )


@_entries.register
def _(expr: Curl, dim: int) -> Entries:
    entries = _entries(expr.args[0], dim)
    x, y, z = SPACE
    if len(entries) == 1:
        if dim != 2:
            raise ShapeError(f"{expr} is the curl of a scalar, which does not exist in {dim}D")
        return entries[0].diff(y), -entries[0].diff(x)
    if dim == 2:
        return (entries[1].diff(x) - entries[0].diff(y),)
    a, b, c = entries
    return c.diff(y) - b.diff(z), a.diff(z) - c.diff(x), b.diff(x) - a.diff(y)


@_entries.register
def _(expr: Lap, dim: int) -> Entries:
    return tuple(
        sp.Add(*(entry.diff(s, 2) for s in SPACE[:dim])) for entry in _entries(expr.args[0], dim)
    )


@_entries.register
def _(expr: Dot, dim: int) -> Entries:
    a, b = (_entries(arg, dim) for arg in expr.args)
    columns = len(b) // dim
    rows = range(0, len(a), dim)
    return tuple(
        sp.Add(*(a[i + k] * b[k * columns + j] for k in range(dim)))
        for i in rows
        for j in range(columns)
    )


@_entries.register
def _(expr: Inner, dim: int) -> Entries:
    a, b = (_entries(arg, dim) for arg in expr.args)
    return (sp.Add(*(p * q for p, q in zip(a, b, strict=True))),)


@_entries.register
def _(expr: Cross, dim: int) -> Entries:
    a, b = (_entries(arg, dim) for arg in expr.args)
    return cross_of_components(a, b)


@_entries.register
def _(expr: Outer, dim: int) -> Entries:
    a, b = (_entries(arg, dim) for arg in expr.args)
    return tuple(p * q for p in a for q in b)


@_entries.register
def _(expr: Transpose, dim: int) -> Entries:
    entries = _entries(expr.args[0], dim)
    return tuple(entries[j * dim + i] for i in range(dim) for j in range(dim))


@_entries.register
def _(expr: Sym, dim: int) -> Entries:
    entries = _entries(expr.args[0], dim)
    return tuple(
        (entries[i * dim + j] + entries[j * dim + i]) / 2 for i in range(dim) for j in range(dim)
    )


@_entries.register
def _(expr: TensorTrace, dim: int) -> Entries:
    return (sp.Add(*_entries(expr.args[0], dim)[:: dim + 1]),)


@_entries.register
def _(expr: Tensor, dim: int) -> Entries:
    if expr.shape[0] != dim:
        raise ShapeError(f"{expr} has {expr.shape[0]} rows, but space has {dim} dimensions")
    return tuple(_entries(part, dim)[0] for part in expr.args)


@_entries.register
def _(expr: Det, dim: int) -> Entries:
    return (determinant_of_entries(_entries(expr.args[0], dim)),)


@_entries.register
def _(expr: Inverse, dim: int) -> Entries:
    return inverse_of_entries(_entries(expr.args[0], dim))


def inverse_of_entries(a: Entries) -> Entries:
    """The inverse of a tensor given by its entries, row by row."""
    size = determinant_of_entries(a)
    if len(a) < 9:
        adjugate = (sp.S.One,) if len(a) == 1 else (a[3], -a[1], -a[2], a[0])
    else:
        rows = a[:3], a[3:6], a[6:]
        columns = [cross_of_components(rows[i - 2], rows[i - 1]) for i in range(3)]
        adjugate = tuple(column[i] for i in range(3) for column in columns)
    return tuple(entry / size for entry in adjugate)


def determinant_of_entries(a: Entries) -> sp.Expr:
    """The determinant as a sum of products, not expanded: its derivatives stay short."""
    if len(a) < 9:
        return a[0] if len(a) == 1 else a[0] * a[3] - a[1] * a[2]
    minors = cross_of_components(a[3:6], a[6:])
    return sp.Add(*(p * q for p, q in zip(a[:3], minors, strict=True)))


def cross_of_components(a: Entries, b: Entries) -> Entries:
    """Cross product of two vectors given by components (2D: one scalar)."""
    if len(a) == 2:
        return (a[0] * b[1] - a[1] * b[0],)
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@normal_form(Component)
def component(expr: sp.Expr, index: int) -> sp.Expr:
    """The scalar component `index` of a vector expression; scalar factors stay as they are.

    Example:
        >>> import cffem as cf
        >>> cf.component(cf.grad(cf.ScalarField("u")), 0)
        Derivative(u, x)
    """
    expr = sp.expand_mul(as_expr(expr))
    shape = shape_of(expr)
    if expr == 0:
        return expr
    if len(shape) != 1:
        raise ShapeError(f"{expr} is a {rank_name(shape)} and has no component {index}")
    if not 0 <= index < (shape[0] or 3):
        raise IndexError(f"{expr} has components 0 to {(shape[0] or 3) - 1}, not {index}")
    return sp.Add(*(_component_of_monomial(monomial, index) for monomial in sp.Add.make_args(expr)))


def _component_of_monomial(expr: sp.Expr, index: int) -> sp.Expr:
    factors = sp.Mul.make_args(expr)
    (vector,) = (factor for factor in factors if shape_of(factor) != ())
    scalar = sp.Mul(*(factor for factor in factors if factor is not vector))
    if isinstance(vector, VectorField | Normal):
        return scalar * Component(vector, index)
    if isinstance(vector, KnownTensor):
        return scalar * vector[index]
    if isinstance(vector, Vec):
        return scalar * vector.args[index]
    if isinstance(vector, sp.Derivative):
        return scalar * component(vector.expr, index).diff(*vector.variable_count)
    if isinstance(vector, Grad):
        return scalar * vector.args[0].diff(SPACE[index])
    if isinstance(vector, Lap):
        return scalar * Lap(component(vector.args[0], index))
    if isinstance(vector, sp.Piecewise):
        return scalar * sp.Piecewise(
            *((component(value, index), condition) for value, condition in vector.args)
        )
    dim = dimension_of(vector)
    if dim is None:
        raise ShapeError(
            f"{vector} has no components that can be written out; give a field its dim"
        )
    return scalar * to_components(vector, dim)[index]
