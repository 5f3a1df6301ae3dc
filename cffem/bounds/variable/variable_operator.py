# SPDX-License-Identifier: MIT
"""Reading −div(A ∇u) + b·∇u + c u + s off a symbolic equation with coefficients that depend on the
place.

Second derivatives give A; what the divergence differentiates of it is put into b. Where A jumps
that is no function, so a term with such an A must be written as a divergence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sympy as sp

from cffem.bounds.certificate import NotCovered
from cffem.bounds.enclosed.sources import ROUGH
from cffem.symbols.algebra.components import to_components
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.fields import Field, ScalarField
from cffem.symbols.form_terms import FormTerm
from cffem.symbols.known import Known
from cffem.symbols.operators import div, grad
from cffem.symbols.problem.library import Library
from cffem.symbols.restricted import On


@dataclass(frozen=True)
class VariableOperator:
    """u ↦ −div(A ∇u) + b·∇u + c u + s, all of them expressions in the coordinates.

    Attributes:
        tensor: A, row by row, symmetric.
        advection: b.
        reaction: c.
        source: s.
    """

    tensor: tuple[tuple[sp.Expr, ...], ...]
    advection: tuple[sp.Expr, ...]
    reaction: sp.Expr
    source: sp.Expr

    @property
    def dim(self) -> int:
        """The dimension of space."""
        return len(self.advection)

    @property
    def scalar(self) -> sp.Expr | None:
        """a, where A = a I."""
        first = self.tensor[0][0]
        for i, row in enumerate(self.tensor):
            for j, entry in enumerate(row):
                if sp.simplify(entry - (first if i == j else 0)) != 0:
                    return None
        return first

    @property
    def divergence(self) -> sp.Expr:
        """div b."""
        return sp.Add(*(b.diff(s) for b, s in zip(self.advection, SPACE, strict=False)))

    def scaled(self, factor: float) -> VariableOperator:
        """A multiple."""
        f = sp.Float(factor)
        return VariableOperator(
            tuple(tuple(f * entry for entry in row) for row in self.tensor),
            tuple(f * b for b in self.advection),
            f * self.reaction,
            f * self.source,
        )

    def __add__(self, other: VariableOperator) -> VariableOperator:
        return VariableOperator(
            tuple(
                tuple(a + b for a, b in zip(*rows, strict=True))
                for rows in zip(self.tensor, other.tensor, strict=True)
            ),
            tuple(a + b for a, b in zip(self.advection, other.advection, strict=True)),
            self.reaction + other.reaction,
            self.source + other.source,
        )


def read_term(expr: Any, unknown: Field, dim: int) -> VariableOperator:
    """The operator of an expression.

    Raises:
        NotCovered: it is of another kind; the message says why.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> found = read_term(-cf.div((1 + cf.x**2) * cf.grad(u)) + cf.y * u, u, 2)
        >>> found.scalar, found.advection, found.reaction
        (x**2 + 1, (0, 0), y)
    """
    entries = to_components(expr, dim)
    if not isinstance(unknown, ScalarField) or len(entries) != 1:
        raise NotCovered("the unknown is not a single scalar field")
    space, entry = SPACE[:dim], sp.expand(entries[0])
    stands = {
        atom: sp.Dummy()
        for atom in sorted(entry.atoms(sp.Derivative), key=str)
        if atom.expr == unknown
    }
    stands[unknown] = sp.Dummy()
    plain = entry.xreplace(stands)
    if plain.has(unknown):
        raise NotCovered("the equation is not linear in the unknown")
    found = {atom: plain.diff(stand) for atom, stand in stands.items()}
    symbols = {*stands.values()}
    if any(value.free_symbols & symbols for value in found.values()):
        raise NotCovered("the equation is not linear in the unknown")
    source = plain.xreplace(dict.fromkeys(symbols, sp.S.Zero))
    second: dict[tuple[sp.Symbol, ...], sp.Expr] = {}
    first = dict.fromkeys(space, sp.S.Zero)
    for atom, value in found.items():
        if atom == unknown or value == 0:
            continue
        variables = tuple(sorted(atom.variables, key=str))
        if len(variables) > 2 or not {*variables} <= {*space}:
            raise NotCovered("the equation has a derivative of higher order or in time")
        if len(variables) == 2:
            second[variables] = value
        else:
            first[variables[0]] = value
    tensor = [[sp.S.Zero] * dim for _ in range(dim)]
    for i, one in enumerate(space):
        for j, other in enumerate(space):
            value = second.get(tuple(sorted((one, other), key=str)), sp.S.Zero)
            tensor[i][j] = -value if i == j else -value / 2
    if any(value.has(*ROUGH) for row in tensor for value in row):
        _check_divergence(expr, unknown, tensor[0][0])
    # −A_ij u_ij = −∂_i(A_ij ∂_j u) + (∂_i A_ij) ∂_j u.
    advection = [
        sp.expand(first[s] + sp.Add(*(tensor[i][j].diff(r) for i, r in enumerate(space))))
        for j, s in enumerate(space)
    ]
    return VariableOperator(
        tuple(map(tuple, tensor)), tuple(advection), found[unknown], sp.sympify(source)
    )


def _check_divergence(expr: Any, unknown: Field, scalar: sp.Expr) -> None:
    """A jump of A is differentiated by nothing but the divergence."""
    if sp.expand(sp.sympify(expr) + div(scalar * grad(unknown))) != 0:
        raise NotCovered(
            "the diffusion may jump, and the term is not written as div(a*grad(u)) by itself"
        )


def variable_equation(
    library: Library,
    coefficients: Mapping[str, float],
    dim: int,
    known: Mapping[Known, Any],
    cellwise: Collection[Known] = (),
    moving: bool = False,
) -> VariableOperator:
    """L = anchor − Σ_j α_j T_j of a library with one unknown; an anchor that is a time derivative
    is left out, its weight as well.

    Args:
        library, coefficients, dim, known, cellwise: the equation.
        moving: whether the part without the unknown may depend on time.

    Raises:
        NotCovered: it is of another kind.
    """
    unknown = library.unknown
    parts = [(-alpha, library[name]) for name, alpha in coefficients.items() if alpha]
    if library.anchor is not None and library.time_order == 0:
        parts.append((1.0, library.anchor))
    zero = (sp.S.Zero,) * dim
    total = VariableOperator((zero,) * dim, zero, sp.S.Zero, sp.S.Zero)
    for alpha, part in parts:
        part = given(library, part, known, cellwise)
        total = total + read_term(part, unknown, dim).scaled(alpha)
    expressions = [*sum(total.tensor, ()), *total.advection, total.reaction, total.source]
    for expr in expressions:
        fixed = expr.xreplace({t: SPACE[0]}) if moving and expr is total.source else expr
        check_place(fixed, dim, "a coefficient", cellwise)
    return total


def given(
    library: Library, expr: Any, known: Mapping[Known, Any], cellwise: Collection[Known] = ()
) -> sp.Expr:
    """A term with parameters and known scalars replaced by their values, but for those that are
    constant on cells.

    Raises:
        NotCovered: a known field is no number and no expression.
    """
    values = {p: sp.Float(v) for p, v in library.parameters.items() if v is not None}
    result = sp.sympify(expr).xreplace(values)
    if result.has(FormTerm, On):
        raise NotCovered("a term is given as a UFL form, or acts in a part only")
    for field in sorted(result.atoms(Known) - {*cellwise}, key=str):
        value = known.get(field)
        if field.shape or not isinstance(value, int | float | sp.Expr):
            raise NotCovered(f"the known field {field} is no number and no expression")
        result = result.subs(field, sp.sympify(value))
    return result


def check_place(expr: sp.Expr, dim: int, what: str, cellwise: Collection[Known] = ()) -> None:
    """Whether an expression depends on the place and nothing else.

    Raises:
        NotCovered: it depends on something else.
    """
    # Derivatives of fields that jump are seen before the fields are replaced.
    odd = expr.atoms(Field, sp.Derivative, sp.DiracDelta) | (expr.atoms(Known) - {*cellwise})
    plain = expr if odd else expr.xreplace(dict.fromkeys(cellwise, sp.S.One))
    if plain.has(t):
        raise NotCovered(f"{what} depends on time")
    if odd or plain.free_symbols - {*SPACE[:dim]}:
        raise NotCovered(f"{what} is no expression in the coordinates: {expr}"[:120])
