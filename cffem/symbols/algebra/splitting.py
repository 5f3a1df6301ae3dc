# SPDX-License-Identifier: MIT
"""Terms of third and higher order: the innermost second derivative of a field becomes an auxiliary
field.

Conforming elements have first derivatives only. So u_xxx is written w_x and lap(lap(u)) is written
lap(w), with w = u_xx or w = lap(u) in the space of u, defined weakly by (w, q) = −(∇u, ∇q) + ∮
∂u/∂n q. It is the innermost derivative that is replaced, because the scheme then keeps an energy.
With the mass matrix M, D of ∂_x and K of −∂_xx on a periodic interval, u_t = −u_xxx is M u̇ = D M⁻¹
K u, which conserves uᵀ K u = ‖u_x‖² on every mesh, whereas K M⁻¹ D conserves a weaker norm and
converges badly on meshes that are not uniform; lap(lap(u)) is K M⁻¹ K, which is symmetric.

The auxiliary field has values and natural traces of its own, so a part of the boundary takes two
conditions: `Dirichlet(u, 0)` and `Neumann(u, 0)` clamp a plate, `Dirichlet(u, 0)` and
`Dirichlet(lap(u), 0)` support it simply, `Neumann(u, 0)` and `Neumann(lap(u), 0)` let nothing
through. On periodic boxes there is nothing to say.

Second derivatives inside a nonlinear function, as in lap(u)², cannot be integrated by parts either.
There w is recovered from u with the normal derivative that u itself has on the boundary, and takes
no condition, as the equation is of second order (the finite-element Hessian of Lakkis and Pryer,
SIAM J. Sci. Comput. 33, 2011).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import sympy as sp

from cffem.symbols.algebra.nodes import Lap
from cffem.symbols.coordinates import SPACE
from cffem.symbols.fields import Component, Field, ScalarField, VectorField

if TYPE_CHECKING:
    pass


class StandIn(ScalarField):
    """The field that stands for a second derivative of a scalar."""

    __slots__ = ()


class Recovered(StandIn):
    """The field that stands for a second derivative inside a nonlinear function."""

    __slots__ = ()


class VectorStandIn(VectorField):
    """The field that stands for the Laplacian of a vector field."""

    __slots__ = ()


def is_stand_in(field: sp.Expr) -> bool:
    """Whether a field stands for a second derivative of another one."""
    return isinstance(field, StandIn | VectorStandIn)


def stand_in(node: sp.Expr) -> Field:
    """The auxiliary field of a second derivative, by the same name wherever it is needed.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> stand_in(cf.lap(u)), stand_in(u.diff(cf.x, 2)), stand_in(u.diff(cf.x, cf.y))
        (lap_u, u_xx, u_xy)
    """
    source = node.args[0]
    name = f"{source.field.name}{source.index}" if isinstance(source, Component) else source.name
    if isinstance(node, Lap):
        kind = VectorStandIn if isinstance(source, VectorField) else StandIn
        return kind(f"lap_{name}", dim=base_of(source).dim)
    letters = "".join(str(variable) * int(count) for variable, count in node.variable_count)
    return StandIn(f"{name}_{letters}", dim=base_of(source).dim)


def recovered(node: sp.Expr) -> Field:
    """The field of a second derivative of a scalar that a nonlinear function contains.

    Example:
        >>> import cffem as cf
        >>> recovered(cf.lap(cf.ScalarField("u")))
        recovered_lap_u
    """
    plain = stand_in(node)
    return Recovered(f"recovered_{plain.name}", dim=plain.dim)


def as_written(field: Field) -> str:
    """What a user writes for a field: lap(u) for lap_u.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> as_written(u), as_written(stand_in(cf.lap(u)))
        ('u', 'lap(u)')
    """
    if is_stand_in(field) and field.name.startswith("lap_"):
        return f"lap({field.name.removeprefix('lap_')})"
    return str(field)


def base_of(source: sp.Expr) -> Field:
    """The field of a component, or the field itself."""
    return source.field if isinstance(source, Component) else source


def is_second_derivative(expr: sp.Expr) -> bool:
    """Whether an expression is a second derivative in space of a field itself: lap(u), u_xx,
    u_xy or lap(v).
    """
    if isinstance(expr, Lap):
        return isinstance(expr.args[0], Field | Component)
    return _is_partial(expr) and sum(int(count) for _, count in expr.variable_count) == 2


def split(expr: sp.Expr, replace: Callable[[sp.Expr], Field]) -> sp.Expr:
    """An expression with every innermost second derivative replaced by the field that `replace`
    gives for it.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> split(u * u.diff(cf.x, 3) - cf.lap(cf.lap(u)), stand_in)
        u*Derivative(u_xx, x) - lap(lap_u)
    """
    found: dict[sp.Expr, sp.Expr] = {}
    for node in sorted(expr.atoms(Lap, sp.Derivative), key=sp.default_sort_key):
        inner = node.args[0]
        if isinstance(node, Lap) and _is_partial(inner):
            # lap and partial derivatives commute; SymPy writes the Laplacian outside.
            found[node] = inner.func(replace(Lap(inner.expr)), *inner.variable_count)
        elif isinstance(node, Lap) and isinstance(inner, Field | Component):
            found[node] = replace(node)
        elif _is_partial(node) and (pair := _innermost(node)) is not None:
            rest = [
                (v, count - pair.count(v))
                for v, count in node.variable_count
                if count > pair.count(v)
            ]
            field = replace(sp.Derivative(inner, *pair))
            found[node] = sp.Derivative(field, *rest) if rest else field
    return expr.xreplace(found)


def _is_partial(expr: sp.Expr) -> bool:
    """Whether an expression is a partial derivative in space of a field or of a component."""
    partial = isinstance(expr, sp.Derivative) and isinstance(expr.expr, Field | Component)
    return partial and all(variable in SPACE for variable in expr.variables)


def _innermost(node: sp.Derivative) -> list[sp.Symbol] | None:
    """The two directions that are taken first: the same one twice where there is one."""
    if len(node.variables) < 2:
        return None
    double = [variable for variable, count in node.variable_count if count >= 2]
    return [double[0]] * 2 if double else list(node.variables[:2])
