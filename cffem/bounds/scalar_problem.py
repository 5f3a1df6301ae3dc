# SPDX-License-Identifier: MIT
"""Reading −a Δu + b·∇u + c u + s off a symbolic equation, with constant a and c and affine b.

The coefficients are derivatives with respect to u and its partial derivatives, taken from the
components of the SymPy terms. No assembled form is involved, so that a certificate judges a solve
by the equation that was written down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from cffem.bounds.certificate import NotCovered
from cffem.symbols.algebra.components import to_components
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.fields import Component, Field, ScalarField
from cffem.symbols.form_terms import FormTerm
from cffem.symbols.known import Known
from cffem.symbols.operators import dt
from cffem.symbols.problem.library import Library
from cffem.symbols.restricted import On

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.symbols.problem.system import System


Key = tuple[int, tuple[sp.Symbol, ...]]


@dataclass(frozen=True)
class Operator:
    """u ↦ −a Δu + b·∇u + c u + s.

    Attributes:
        diffusion: a.
        shift, slope: b(x) = shift + slope·x.
        reaction: c.
        source: s, the part without u.
    """

    diffusion: float
    shift: np.ndarray
    slope: np.ndarray
    reaction: float
    source: sp.Expr

    @property
    def divergence(self) -> float:
        """div b, a constant."""
        return float(np.trace(self.slope))

    def speed(self, corners: np.ndarray) -> float:
        """max |b| over the convex hull of some points: |b| is convex, so it is the largest
        value at the points.
        """
        return float(np.linalg.norm(self.shift + corners @ self.slope.T, axis=1).max())


def operator(expr: sp.Expr, unknown: Field, dim: int) -> Operator:
    """Read the coefficients off an expression.

    Args:
        expr: a scalar expression in u.
        unknown: u.
        dim: the dimension of space.

    Raises:
        NotCovered: it is of another kind; the message says why.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> found = operator(-2 * cf.lap(u) + cf.x * u.diff(cf.y) + 3 * u - 1, u, 2)
        >>> found.diffusion, found.slope.tolist(), found.reaction, found.source
        (2.0, [[0.0, 0.0], [1.0, 0.0]], 3.0, -1)
    """
    entries = to_components(expr, dim)
    if not isinstance(unknown, ScalarField) or len(entries) != 1:
        raise NotCovered("the unknown is not a single scalar field")
    constant, found = linear_parts(sp.expand(entries[0]), [unknown])
    coefficients = {variables: value for (_, variables), value in found.items()}
    space = SPACE[:dim]
    second = {key: value for key, value in coefficients.items() if len(key) == 2}
    diagonal = [_number(second.pop((s, s), sp.S.Zero), "the diffusion") for s in space]
    if any(value != 0 for value in second.values()) or len(set(diagonal)) > 1:
        raise NotCovered("the diffusion is not a constant multiple of the Laplacian")
    advection = [coefficients.get((s,), sp.S.Zero) for s in space]
    slope = [
        [_number(sp.expand(b.diff(s)), "the gradient of the advection") for s in space]
        for b in advection
    ]
    shift = [_number(b.subs(dict.fromkeys(space, 0)), "the advection") for b in advection]
    if any(len(key) > 2 or not {*key} <= {*space} for key in coefficients):
        raise NotCovered("the equation has a derivative of higher order or in time")
    reaction = _number(coefficients.get((), sp.S.Zero), "the reaction")
    return Operator(0.0 - diagonal[0], np.array(shift), np.array(slope), reaction, constant)


def linear_parts(expr: sp.Expr, parts: Sequence[sp.Expr]) -> tuple[sp.Expr, dict[Key, sp.Expr]]:
    """Split an expression that is affine in a field.

    Args:
        expr: a component of the equation.
        parts: the components of the unknown; a scalar field has one, itself.

    Returns:
        The part without the unknown, and the coefficients of its components and their derivatives
        that are not zero, keyed by (component, variables of the derivative in alphabetical order).

    Raises:
        NotCovered: it is not affine in the unknown, or knows something else; the message says
            which.
    """
    stands: dict[sp.Expr, sp.Symbol] = {}
    keys: dict[sp.Symbol, Key] = {}
    for atom in [*expr.atoms(sp.Derivative), *parts]:
        inner = atom.expr if isinstance(atom, sp.Derivative) else atom
        if inner not in parts:
            raise NotCovered(f"{atom} is no derivative of the unknown")
        variables = (
            tuple(sorted(atom.variables, key=str)) if isinstance(atom, sp.Derivative) else ()
        )
        stands[atom] = sp.Dummy()
        keys[stands[atom]] = (parts.index(inner), variables)
    plain = expr.xreplace({a: s for a, s in stands.items() if isinstance(a, sp.Derivative)})
    plain = plain.xreplace({a: s for a, s in stands.items() if not isinstance(a, sp.Derivative)})
    if plain.atoms(Field, Component):
        raise NotCovered("the equation contains another field")
    coefficients = {keys[s]: sp.expand(sp.diff(plain, s)) for s in keys}
    if any(value.free_symbols & {*keys} for value in coefficients.values()):
        raise NotCovered("the equation is nonlinear in the unknown")
    constant = plain.xreplace(dict.fromkeys(keys, sp.S.Zero))
    strange = constant.free_symbols - {*SPACE, t}
    if strange:
        raise NotCovered(
            f"the data contain {min(map(str, strange))}, which is no coordinate and not the time"
        )
    return constant, {key: value for key, value in coefficients.items() if value != 0}


def _number(value: sp.Expr, what: str) -> float:
    if value.free_symbols or not value.is_real:
        raise NotCovered(
            f"{what} is not constant: {value}"
            if "gradient" not in what
            else f"the advection is not affine: {value}"
        )
    return float(value)


def check_formulas(model: Model) -> None:
    """Refuse models with parts that no formula describes: theorems ask for formulas.

    Raises:
        NotCovered: a term acts in a part only, contains a known field that is not given by a
            formula, or a time derivative has a weight.
    """
    for equation in model.library.equations.values():
        if equation.is_weighted:
            raise NotCovered(f"the time derivative has a weight, {equation.anchor}")
        for name, term in equation.items():
            if term.has(FormTerm):
                raise NotCovered(f"{name} is given as a UFL form and has no formula")
            if term.has(On):
                raise NotCovered(f"{name} acts in a part of the domain or its boundary only")
            if term.has(Known):
                raise NotCovered(f"{name} contains a known field that is not given by a formula")
        if equation.anchor is not None and equation.anchor.has(Known):
            raise NotCovered("the anchor contains a known field that is not given by a formula")
    experiment = model.experiment
    data = [*experiment.forcing.values(), *experiment.initial.values()]
    data += [getattr(c, name, 0) for c in experiment.boundary for name in ("value", "coefficient")]
    parts = [part for value in data for part in (value if isinstance(value, tuple) else (value,))]
    if any(isinstance(part, sp.Basic) and part.has(Known) for part in parts):
        raise NotCovered("data contain a known field that is not given by a formula")


def only_unknown(library: Library | System) -> Field:
    """The unknown of a library.

    Raises:
        NotCovered: it is a `System`, of which no theorem here speaks.

    Example:
        >>> import cffem as cf
        >>> u, v = cf.ScalarField("u"), cf.ScalarField("v")
        >>> heat = {
        ...     field: cf.Library(anchor=cf.dt(field), terms={"lap": cf.lap(field)})
        ...     for field in (u, v)
        ... }
        >>> only_unknown(heat[u])
        u
        >>> only_unknown(cf.System({"u": heat[u], "v": heat[v]}))
        Traceback (most recent call last):
        ...
        cffem.bounds.certificate.NotCovered: the problem is a system of equations
    """
    return only_equation(library).unknown


def only_equation(library: Library | System) -> Library:
    """The library itself, where it is one equation.

    Raises:
        NotCovered: it is a `System`.
    """
    if not isinstance(library, Library):
        raise NotCovered("the problem is a system of equations")
    return library


def equation_operator(
    library: Library | System, coefficients: Mapping[str, float], dim: int
) -> Operator:
    """L = anchor − Σ_j α_j T_j of a library with one unknown; the anchor dt(u) is left out, so that
    u_t + L u = forcing.

    Raises:
        NotCovered: it is not −a Δ + b·∇ + c with a > 0, or the library is a `System`.
    """
    library = only_equation(library)
    unknown = library.unknown
    left = sp.S.Zero if library.anchor is None or library.anchor == dt(unknown) else library.anchor
    parts = [
        (1.0, left),
        *((-alpha, library[name]) for name, alpha in coefficients.items() if alpha),
    ]
    parts = [(alpha, _with_parameters(library, sp.sympify(part))) for alpha, part in parts]
    try:
        found = combined(
            [(alpha, _read_once(part, unknown, dim)) for alpha, part in parts if part != 0], dim
        )
    except NotCovered:
        # Terms of which each is of another kind may add up to one of this kind.
        found = operator(sp.Add(*(sp.Float(alpha) * part for alpha, part in parts)), unknown, dim)
    if not found.diffusion > 0:
        raise NotCovered(f"the diffusion coefficient {found.diffusion:g} is not positive")
    return found


def smallest_diffusion(library: Library, coefficients: Mapping[str, float], dim: int) -> float:
    """The smallest coefficient of a second derivative ∂²u/∂x² of the unknown, whatever else is in
    the equation.

    Raises:
        NotCovered: one is no positive constant.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u), "cubic": -(u**3)}, unknown=u)
        >>> smallest_diffusion(library, {"lap": 0.5, "cubic": 1.0}, 2)
        0.5
    """
    unknown, expr = library.unknown, sp.S.Zero
    for name, term in library.terms.items():
        alpha = coefficients.get(name, 0.0)
        if alpha:
            expr += sp.Float(alpha) * to_components(_with_parameters(library, term), dim)[0]
    expr = sp.expand(expr)
    found = [_number(expr.coeff(unknown.diff(s, 2)), "the diffusion") for s in SPACE[:dim]]
    if not min(found) > 0:
        raise NotCovered("the equation has no diffusion")
    return min(found)


def combined(parts: list[tuple[float, Operator]], dim: int) -> Operator:
    """Σ factor · operator.

    Example:
        >>> half = Operator(1.0, np.ones(2), np.zeros((2, 2)), 2.0, sp.S.One)
        >>> both = combined([(1.0, half), (2.0, half)], 2)
        >>> both.diffusion, both.shift.tolist(), both.reaction, both.source
        (3.0, [3.0, 3.0], 6.0, 3.00000000000000)
    """
    return Operator(
        sum(factor * part.diffusion for factor, part in parts),
        sum((factor * part.shift for factor, part in parts), np.zeros(dim)),
        sum((factor * part.slope for factor, part in parts), np.zeros((dim, dim))),
        sum(factor * part.reaction for factor, part in parts),
        sp.Add(
            *(
                part.source if factor == 1 else sp.Float(factor) * part.source
                for factor, part in parts
            )
        ),
    )


# Reading a term takes longer than a small solve, and sweeps read the same ones again and again.
_read_once = lru_cache(maxsize=256)(operator)


def term_operator(library: Library, name: str, coefficient: float, dim: int) -> Operator:
    """α_j T_j of one term, its parameters replaced by their values."""
    return combined(
        [(coefficient, _read_once(_with_parameters(library, library[name]), library.unknown, dim))],
        dim,
    )


def _with_parameters(library: Library | System, expr: sp.Expr) -> sp.Expr:
    return expr.xreplace(
        {p: sp.Float(value) for p, value in library.parameters.items() if value is not None}
    )
