# SPDX-License-Identifier: MIT
"""Constraint classes: linear conditions a solution obeys besides its equation, declared in SymPy.

A constraint names the class 𝒞 = {u : expr[u] = 0} on which terms may vanish (constraint nulls) or
coincide (equivalence classes). How it is enforced, by a multiplier or by projection, is the
engine's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sympy as sp

from cffem.symbols.algebra.analysis import dependence
from cffem.symbols.algebra.nodes import Curl, Div, dimension_of
from cffem.symbols.algebra.shapes import Shape, shape_of
from cffem.symbols.coordinates import COORDINATES
from cffem.symbols.errors import LibraryError
from cffem.symbols.expression_like import ExpressionLike
from cffem.symbols.fields import Field, VectorField
from cffem.symbols.problem.term_checks import (
    check_fields,
    check_shape,
    check_symbols,
    named_expression,
)

Multiplier = tuple[Field, tuple[str, int]]


@dataclass(frozen=True, init=False)
class Constraint:
    """The linear condition expr = 0.

    Args:
        expr: a scalar or vector expression, linear in the fields; a part without fields makes it
            inhomogeneous.
        multiplier: the field that enforces it and its element, `{p: ("Lagrange", 1)}`, or None.

    Example:
        >>> import cffem as cf
        >>> from cffem.symbols.problem.constraint_classes import Constraint
        >>> E = cf.VectorField("E", dim=3)
        >>> Constraint(cf.div(E) - cf.x).homogeneous
        False
    """

    expr: sp.Expr
    multiplier: Multiplier | None

    def __init__(
        self, expr: ExpressionLike, multiplier: Mapping[Field, tuple[str, int]] | None = None
    ):
        condition = named_expression("the constraint", expr)
        check_symbols("the constraint", condition, [*COORDINATES, *condition.atoms(Field)])
        check_fields([("the constraint", condition)])
        kind = dependence(condition, condition.atoms(Field), dimension_of(condition))
        if kind not in ("linear", "affine"):
            problem = "contains no field" if kind == "constant" else "is not linear"
            raise LibraryError(
                f"the constraint {condition} = 0 {problem}; only linear constraints make a class "
                "of solutions"
            )
        object.__setattr__(self, "expr", condition)
        object.__setattr__(self, "multiplier", _checked_multiplier(multiplier, condition))

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields that are constrained."""
        return tuple(sorted(self.expr.atoms(Field), key=str))

    @property
    def shape(self) -> Shape:
        """The shape of the condition, which its multiplier shares."""
        return shape_of(self.expr)

    @property
    def homogeneous(self) -> bool:
        """Whether the zero field obeys it, so that the class is a linear space."""
        return dependence(self.expr, self.fields, dimension_of(self.expr)) == "linear"

    @property
    def pointwise(self) -> bool:
        """Whether it holds at every point, and not only on average."""
        return True

    def _repr_latex_(self) -> str:
        return f"${sp.latex(self.expr)} = 0$"


@dataclass(frozen=True, init=False)
class DivergenceFree(Constraint):
    """div(weight · field) = 0, kept by a multiplier p that acts as a pressure does: the force
    −weight·∇p joins the equation,

        anchor = Σ_j α_j T_j + forcing − weight·∇p,

    on every element and without a term of the library. So p falls downstream in a channel;
    `solution.multiplier()` is this p. Where all of the boundary is closed it has mean zero, and
    where the field has a natural condition (`Neumann(v, 0)`) p is zero there.

    Args:
        field: a vector field.
        multiplier: for instance `{p: ("Lagrange", 1)}` for an incompressible flow.
        weight: a scalar function of the coordinates, such as a permittivity; None is one.

    Example:
        >>> import cffem as cf
        >>> from cffem.symbols.problem.constraint_classes import DivergenceFree
        >>> v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")
        >>> DivergenceFree(v, multiplier={p: ("Lagrange", 1)}).expr
        div(v)
    """

    field: VectorField
    weight: sp.Expr

    def __init__(
        self,
        field: VectorField,
        multiplier: Mapping[Field, tuple[str, int]] | None = None,
        weight: ExpressionLike = None,
    ):
        _require_vector(field, "divergence-free")
        factor = sp.S.One if weight is None else named_expression("the weight", weight)
        if shape_of(factor) != () or factor == 0 or factor.has(Field):
            raise LibraryError(
                f"the weight {factor} must be a scalar function of the coordinates and not zero"
            )
        object.__setattr__(self, "field", field)
        object.__setattr__(self, "weight", factor)
        # Held, so that a multiplier meets the divergence of the weighted field as it is written.
        super().__init__(Div(factor * field, evaluate=False), multiplier)


@dataclass(frozen=True, init=False)
class CurlFree(Constraint):
    """curl(field) = 0, in 2D and 3D."""

    field: VectorField

    def __init__(
        self, field: VectorField, multiplier: Mapping[Field, tuple[str, int]] | None = None
    ):
        _require_vector(field, "curl-free")
        object.__setattr__(self, "field", field)
        super().__init__(Curl(field), multiplier)


@dataclass(frozen=True, init=False)
class ZeroMean(Constraint):
    """∫ field = 0 over the domain, component by component: fixes what a pure Neumann problem
    leaves free.
    """

    field: Field

    def __init__(self, field: Field):
        if not isinstance(field, Field):
            raise LibraryError(f"a zero mean is asked of a field, not of {field}")
        object.__setattr__(self, "field", field)
        super().__init__(field)

    @property
    def pointwise(self) -> bool:
        return False

    def _repr_latex_(self) -> str:
        return rf"$\int_\Omega {sp.latex(self.expr)} = 0$"


def _require_vector(field: object, what: str) -> None:
    if not isinstance(field, VectorField):
        raise LibraryError(f"only a VectorField can be {what}, not {field}")


def _checked_multiplier(given: object, condition: sp.Expr) -> Multiplier | None:
    """One field of the condition's shape that is not constrained itself, with the name and
    degree of its element.
    """
    if given is None:
        return None
    if not isinstance(given, Mapping) or len(given) != 1:
        raise LibraryError('a multiplier is one field with its element, {p: ("Lagrange", 1)}')
    ((field, element),) = given.items()
    if not isinstance(field, Field) or field in condition.atoms(Field):
        raise LibraryError(f"the multiplier must be a field of its own, not {field}")
    if not (
        isinstance(element, tuple | list)
        and len(element) == 2
        and isinstance(element[0], str)
        and isinstance(element[1], int)
    ):
        raise LibraryError(
            f'the element of the multiplier {field} is a name and a degree, ("Lagrange", 1), not '
            f"{element!r}"
        )
    check_shape(f"the multiplier {field}", field, shape_of(condition), "the constraint")
    return field, (element[0], element[1])
