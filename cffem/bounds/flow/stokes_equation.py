# SPDX-License-Identifier: MIT
"""Reading −ν Δv − γ ∇ div v + (b·∇) v + C v + s off a symbolic equation for a vector field, with
constants ν, γ, a constant matrix C and an affine b.

The coefficients are derivatives of the components of the SymPy terms with respect to the components
of the field and their partial derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp

from cffem.bounds.certificate import NotCovered
from cffem.bounds.scalar_problem import Key, linear_parts
from cffem.symbols.algebra.components import to_components
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.fields import VectorField
from cffem.symbols.form_terms import FormTerm
from cffem.symbols.known import Known
from cffem.symbols.problem.library import Library
from cffem.symbols.restricted import On


@dataclass(frozen=True)
class StokesOperator:
    """v ↦ −ν Δv − γ ∇ div v + (b·∇) v + C v + s.

    Attributes:
        viscosity: ν.
        bulk: γ.
        shift, slope: b(x) = shift + slope·x.
        matrix: C.
        source: the components of s.
    """

    viscosity: float
    bulk: float
    shift: np.ndarray
    slope: np.ndarray
    matrix: np.ndarray
    source: tuple[sp.Expr, ...]

    @property
    def divergence(self) -> float:
        """div b."""
        return float(np.trace(self.slope))

    @property
    def lowest(self) -> float:
        """The smallest eigenvalue of the symmetric part of C − div b/2."""
        symmetric = (self.matrix + self.matrix.T) / 2
        return float(np.linalg.eigvalsh(symmetric)[0]) - self.divergence / 2

    @property
    def adjoint(self) -> float:
        """The spectral norm of C − div b."""
        return float(np.linalg.norm(self.matrix - self.divergence * np.eye(len(self.matrix)), 2))

    @property
    def drag(self) -> float | None:
        """c, where the operator is −ν Δ − γ ∇ div + c, and so self-adjoint."""
        entry = float(self.matrix[0, 0])
        plain = np.array_equal(self.matrix, entry * np.eye(len(self.matrix)))
        return entry if plain and not self.shift.any() and not self.slope.any() else None

    def speed(self, corners: np.ndarray) -> float:
        """max |b| over the convex hull of some points."""
        return float(np.linalg.norm(self.shift + corners @ self.slope.T, axis=1).max())

    def scaled(self, factor: float) -> StokesOperator:
        """A multiple."""
        return StokesOperator(
            factor * self.viscosity,
            factor * self.bulk,
            factor * self.shift,
            factor * self.slope,
            factor * self.matrix,
            tuple(sp.Float(factor) * entry if entry != 0 else entry for entry in self.source),
        )

    def __add__(self, other: StokesOperator) -> StokesOperator:
        return StokesOperator(
            self.viscosity + other.viscosity,
            self.bulk + other.bulk,
            self.shift + other.shift,
            self.slope + other.slope,
            self.matrix + other.matrix,
            tuple(a + b for a, b in zip(self.source, other.source, strict=True)),
        )


def stokes_term(expr: sp.Expr, unknown: VectorField, dim: int) -> StokesOperator:
    """The operator of an expression.

    Raises:
        NotCovered: it is of another kind; the message says why.

    Example:
        >>> import cffem as cf
        >>> v = cf.VectorField("v", dim=2)
        >>> found = stokes_term(-2 * cf.lap(v) - 3 * cf.grad(cf.div(v)) + v, v, 2)
        >>> found.viscosity, found.bulk, found.drag
        (2.0, 3.0, 1.0)
    """
    if expr.has(FormTerm, On, Known):
        raise NotCovered(
            "a term is given as a UFL form, acts in a part only, or contains a known field"
        )
    parts = [unknown[i] for i in range(dim)]
    entries = to_components(expr, dim)
    if len(entries) != dim:
        raise NotCovered("the equation is not one for a vector field")
    read = [linear_parts(sp.expand(entry), parts) for entry in entries]
    found = [coefficients for _, coefficients in read]
    viscosity, bulk = _second_order(found, dim)
    shift, slope = _transport(found, dim)
    matrix = np.zeros((dim, dim))
    for row, coefficients in enumerate(found):
        for (part, variables), value in coefficients.items():
            if not {*variables} <= {*SPACE[:dim]} or len(variables) > 2:
                raise NotCovered("the equation has a derivative of higher order or in time")
            if not variables:
                matrix[row, part] = _constant(value, "the reaction")
    return StokesOperator(
        viscosity, bulk, shift, slope, matrix, tuple(constant for constant, _ in read)
    )


def _second_order(found: list[dict[Key, sp.Expr]], dim: int) -> tuple[float, float]:
    """ν and γ."""
    space = SPACE[:dim]

    def entry(row: int, part: int, one: sp.Symbol, other: sp.Symbol) -> float:
        variables = tuple(sorted((one, other), key=str))
        return -_constant(found[row].get((part, variables), sp.S.Zero), "the viscosity")

    viscosity = entry(0, 0, space[1], space[1])
    bulk = entry(0, 0, space[0], space[0]) - viscosity
    size = max(abs(viscosity), abs(bulk))
    for row in range(dim):
        for part in range(dim):
            for i, one in enumerate(space):
                for j, other in enumerate(space[i:], i):
                    plain = viscosity if row == part and i == j else 0.0
                    # ∂_row ∂_part of component `part`.
                    mixed = bulk if {row, part} == {i, j} else 0.0
                    if not math.isclose(
                        entry(row, part, one, other), plain + mixed, abs_tol=1e-14 * size
                    ):
                        raise NotCovered(
                            "the viscous term is no constant multiple of lap(v) and grad(div(v))"
                        )
    return viscosity + 0.0, bulk + 0.0


def _transport(found: list[dict[Key, sp.Expr]], dim: int) -> tuple[np.ndarray, np.ndarray]:
    """b, the same in all components."""
    space = SPACE[:dim]
    rows = [
        [coefficients.get((row, (s,)), sp.S.Zero) for s in space]
        for row, coefficients in enumerate(found)
    ]
    across = any(
        part != row and len(variables) == 1
        for row, coefficients in enumerate(found)
        for part, variables in coefficients
    )
    if across or any(
        sp.expand(a - b) != 0 for row in rows for a, b in zip(row, rows[0], strict=True)
    ):
        raise NotCovered("derivatives of first order are not those of (b·∇) v")
    slope = np.array([[_constant(b.diff(s), "the gradient of b") for s in space] for b in rows[0]])
    origin = dict.fromkeys(space, sp.S.Zero)
    return np.array([_constant(b.xreplace(origin), "b") for b in rows[0]]), slope


def _constant(value: sp.Expr, what: str) -> float:
    value = sp.expand(value)
    if value.free_symbols or not value.is_real:
        raise NotCovered(f"{what} is not constant: {value}"[:100])
    return float(value)


def stokes_equation(
    library: Library, coefficients: Mapping[str, float], dim: int
) -> StokesOperator:
    """L = anchor − Σ_j α_j T_j of a library with one vector field; the anchor dt(v) is left out.

    Raises:
        NotCovered: it is of another kind, or has no viscosity.
    """
    total = StokesOperator(
        0.0, 0.0, np.zeros(dim), np.zeros((dim, dim)), np.zeros((dim, dim)), (sp.S.Zero,) * dim
    )
    if library.anchor is not None and library.time_order == 0:
        total = total + stokes_library_term(library, None, 1.0, dim)
    for name, alpha in coefficients.items():
        if alpha:
            total = total + stokes_library_term(library, name, -alpha, dim)
    if not total.viscosity > 0:
        raise NotCovered(f"the viscosity {total.viscosity:g} is not positive")
    return total


_read_once = lru_cache(maxsize=256)(stokes_term)


def stokes_library_term(
    library: Library, name: str | None, factor: float, dim: int
) -> StokesOperator:
    """A multiple of one term, of the anchor where no name is given."""
    values = {p: sp.Float(v) for p, v in library.parameters.items() if v is not None}
    expr = sp.sympify(library.anchor if name is None else library[name]).xreplace(values)
    return _read_once(expr, library.unknown, dim).scaled(factor)


def vector_source(given: object, dim: int) -> tuple[sp.Expr, ...]:
    """The components of a forcing or a value that depend on the place only.

    Raises:
        NotCovered: it is no expression in the coordinates.
    """
    entries = given if isinstance(given, tuple | list) else None
    if entries is None:
        expr = sp.sympify(given) if isinstance(given, int | float | sp.Basic) else None
        if expr is None:
            raise NotCovered("data are no expressions in the coordinates")
        entries = (expr,) * dim if expr == 0 else to_components(expr, dim)
    if any(not isinstance(entry, int | float | sp.Expr) for entry in entries):
        raise NotCovered("data are no expressions in the coordinates")
    found = tuple(sp.sympify(entry) for entry in entries)
    if len(found) != dim or any(
        entry.has(Known, t) or entry.free_symbols - {*SPACE[:dim]} for entry in found
    ):
        raise NotCovered("data are no expressions in the coordinates")
    return found
