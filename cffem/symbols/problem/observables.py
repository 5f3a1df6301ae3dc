# SPDX-License-Identifier: MIT
"""Observables: the numbers a study watches, declared in SymPy and evaluated by the engine.

All of them are integrals, so that one adjoint solve gives their sensitivity to every term. An
observable is

    O[u] = ∫ weight · integrand / ∫ weight   if it is `normalised`, else  ∫ weight · integrand,

over the cells or facets it names, at the end, at a time, or over the window of time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

from cffem.symbols.algebra.shapes import rank_name, shape_of
from cffem.symbols.coordinates import COORDINATES, SPACE, Parameter
from cffem.symbols.errors import LibraryError, TermShapeError
from cffem.symbols.expression_like import ExpressionLike
from cffem.symbols.fields import Field, n
from cffem.symbols.operators import dot, norm2
from cffem.symbols.problem.term_checks import check_fields, check_symbols, named_expression


@dataclass(frozen=True)
class Observable:
    """Base of all observables.

    Attributes:
        expr: what is measured.
        on: None or "domain" for the whole domain, "boundary" for its whole boundary, else a
            physical name of the mesh.
        at: "end", "window" (the integral over time, or the mean over time if normalised), or a
            time.
    """

    expr: sp.Expr
    on: str | None = None
    at: str | float = "end"

    def __post_init__(self) -> None:
        label = f"the observable {type(self).__name__}"
        expr = named_expression(label, self.expr)
        known = [*COORDINATES, *expr.atoms(Field, Parameter)]
        check_symbols(label, expr, known, on_boundary=self.on not in (None, "domain"))
        check_fields([(label, expr)])
        self._check_rank(label, expr)
        object.__setattr__(self, "expr", expr)
        if self.on is not None and (not isinstance(self.on, str) or not self.on):
            raise LibraryError(
                f"{label} is on a part of the mesh given by its name, not {self.on!r}"
            )
        object.__setattr__(self, "at", _checked_time(self.at, label))

    def _check_rank(self, label: str, expr: sp.Expr) -> None:
        if shape_of(expr) != ():
            raise TermShapeError(
                f"{label} takes a scalar, but {expr} is a {rank_name(shape_of(expr))}; write "
                "norm2 or a component"
            )

    @property
    def integrand(self) -> sp.Expr:
        """The scalar that is integrated."""
        return self.expr

    @property
    def weight(self) -> sp.Expr:
        """A fixed function of the coordinates that multiplies the integrand."""
        return sp.S.One

    @property
    def normalised(self) -> bool:
        """Whether the integral is divided by that of the weight, and a window by its length."""
        return False

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields it depends on."""
        return tuple(sorted(self.integrand.atoms(Field), key=str))

    def _repr_latex_(self) -> str:
        return rf"$\int {sp.latex(self.weight * self.integrand)}$"


@dataclass(frozen=True)
class Integral(Observable):
    """∫ expr over the domain, a subdomain or a boundary; with `at="window"` over time as well.

    Example:
        >>> import cffem as cf
        >>> from cffem.symbols.problem.observables import Integral
        >>> Integral(cf.ScalarField("u"), at="end")
        Integral(expr=u, on=None, at='end')
    """


@dataclass(frozen=True)
class Average(Observable):
    """The mean value of expr over the domain, a subdomain or a boundary."""

    @property
    def normalised(self) -> bool:
        return True


@dataclass(frozen=True)
class Flux(Observable):
    """∫ expr · n through a boundary (default: all of it); expr is a vector such as -nu*grad(u).

    Example:
        >>> import cffem as cf
        >>> from cffem.symbols.problem.observables import Flux
        >>> Flux(cf.grad(cf.ScalarField("u")), on="outlet").integrand
        dot(n, grad(u))
    """

    on: str | None = "boundary"

    def _check_rank(self, label: str, expr: sp.Expr) -> None:
        if len(shape_of(expr)) != 1:
            raise TermShapeError(
                f"{label} takes a vector, but {expr} is a {rank_name(shape_of(expr))}"
            )
        if self.on in (None, "domain"):
            raise LibraryError(f"{label} goes through a boundary, not through {self.on!r}")

    @property
    def integrand(self) -> sp.Expr:
        return dot(self.expr, n)


@dataclass(frozen=True)
class Energy(Observable):
    """½ ∫ |expr|² of a scalar, vector or tensor.

    Example:
        >>> import cffem as cf
        >>> from cffem.symbols.problem.observables import Energy
        >>> Energy(cf.curl(cf.VectorField("E", dim=3))).integrand
        dot(curl(E), curl(E))/2
    """

    def _check_rank(self, label: str, expr: sp.Expr) -> None:
        pass

    @property
    def integrand(self) -> sp.Expr:
        return norm2(self.expr) / 2


@dataclass(frozen=True)
class PointAverage(Observable):
    """The mean of expr near a point, weighted by (1 − r²/radius²)², which a mesh can integrate and
    an adjoint can use.

    Args:
        point: as many coordinates as space has dimensions.
        radius: where the weight has come down to zero, a few cells at least.
    """

    point: tuple[float, ...] = ()
    radius: float = 0.0

    def __init__(
        self,
        expr: ExpressionLike,
        point: Sequence[float] | float,
        radius: float,
        on: str | None = None,
        at: str | float = "end",
    ):
        label = "the observable PointAverage"
        coordinates = tuple(point) if isinstance(point, tuple | list) else (point,)
        if not 1 <= len(coordinates) <= 3:
            raise LibraryError(f"{label} needs 1, 2 or 3 coordinates, not {point!r}")
        object.__setattr__(
            self, "point", tuple(_finite(c, f"{label}'s coordinate") for c in coordinates)
        )
        object.__setattr__(self, "radius", _finite(radius, f"{label}'s radius"))
        # The weight divides by radius², which must be a number that is not zero, as must the
        # squares of distances.
        if not 1e-100 < self.radius < 1e100:
            raise LibraryError(f"{label} needs a positive radius, not {radius!r}")
        if any(abs(c) > 1e100 for c in self.point):
            raise LibraryError(
                f"{label} needs a point that is not so far away, not {tuple(self.point)}"
            )
        object.__setattr__(self, "expr", expr)
        object.__setattr__(self, "on", on)
        object.__setattr__(self, "at", at)
        self.__post_init__()

    @property
    def weight(self) -> sp.Expr:
        square = (
            sp.Add(*((s - c) ** 2 for s, c in zip(SPACE, self.point, strict=False)))
            / sp.Float(self.radius) ** 2
        )
        return sp.Piecewise(((1 - square) ** 2, square < 1), (0, True))

    @property
    def normalised(self) -> bool:
        return True


@dataclass(frozen=True)
class Front(Observable):
    """How far a front has come along a coordinate: the length of the region where expr exceeds a
    level.

    The region is measured by ∫ ½(1 + tanh((expr − level)/width)), divided by the cross-section of
    the domain, a smooth function of the solution that is the front's position measured from the
    side where expr is above the level. `speed` asks for its mean speed over the window instead.

    Args:
        level: the value that marks the front.
        along: the coordinate x, y or z it moves along.
        width: how sharply the level is seen, in units of expr.
    """

    level: float = 0.5
    along: sp.Symbol = SPACE[0]
    width: float = 0.01
    speed: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.along not in SPACE:
            raise LibraryError(f"a front moves along x, y or z, not {self.along}")
        object.__setattr__(self, "level", _finite(self.level, "the level of a front"))
        object.__setattr__(self, "width", _finite(self.width, "the width of a front"))
        if self.width <= 0:
            raise LibraryError(f"the width of a front must be positive, not {self.width!r}")

    @property
    def integrand(self) -> sp.Expr:
        return (1 + sp.tanh((self.expr - self.level) / self.width)) / 2


def _finite(value: Any, what: str) -> float:
    number = float(value)
    if isinstance(value, bool) or not math.isfinite(number):
        raise LibraryError(f"{what} must be a finite number, not {value!r}")
    return number


def _checked_time(at: Any, label: str) -> str | float:
    if isinstance(at, str):
        if at not in ("end", "window"):
            raise LibraryError(
                f'{label} is taken at "end", over the "window" or at a time, not at {at!r}'
            )
        return at
    return _finite(at, f"{label}'s time")
