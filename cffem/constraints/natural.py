# SPDX-License-Identifier: MIT
"""What the boundary adds to a proof: identities that hold inside the domain can fail in weak form
where it is not closed.

Integration by parts leaves a trace, and a natural condition puts data in its place: −∂v/∂n for lap
v, another quantity for −curl curl v. Where test functions do not vanish, a weak term is its
expression plus the difference D of the imposed and the actual trace, so terms that are equal inside
are equal in weak form only if their D are. A gradient tested against a divergence-free w leaves ∫ φ
w·n, so it is null only if its potential φ vanishes wherever w can flow out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sympy as sp
import ufl

from cffem.constraints.modulo import Modulo, entries_vanish
from cffem.constraints.projections.base import integral
from cffem.engine.assembly.traces import essential, imposed, natural_of
from cffem.forms.lowering import Lowering
from cffem.forms.orders import differentiated
from cffem.symbols.algebra.analysis import canonical
from cffem.symbols.fields import Component, Field
from cffem.symbols.operators import Grad, component, grad, inner
from cffem.symbols.problem.conditions import Dirichlet

if TYPE_CHECKING:
    import numpy as np

    from cffem.engine.assembly.discretisation import Discretisation
    from cffem.symbols.problem.conditions import BoundaryCondition


def traces_agree(
    discretisation: Discretisation, modulo: Modulo, combination: Mapping[str, sp.Expr]
) -> bool:
    """Whether Σ c_j D_j, the differences of imposed and actual traces, is proved to vanish on the
    class on every boundary part.

    Args:
        discretisation: whose weak terms and boundary conditions are meant.
        modulo: rewriting modulo the constraint.
        combination: the factors c_j of terms of one equation.
    """
    dimension = discretisation.mesh.geometry.dim
    for part, conditions in discretisation.boundary.conditions.items():
        total = sp.S.Zero
        for name, factor in combination.items():
            equation = discretisation.library.locate(name)[0]
            if essential(conditions, equation, discretisation.kinds[equation]):
                continue
            total += factor * _replaced(
                discretisation, discretisation.weak_terms[name], equation, part, conditions
            )
        if not entries_vanish([modulo.reduce(entry) for entry in canonical(total, dimension)]):
            return False
    return True


def _replaced(
    discretisation: Discretisation,
    weak: Any,
    equation: Field,
    part: str,
    conditions: Sequence[BoundaryCondition],
) -> sp.Expr:
    """What natural conditions put into the traces of a term on one part, minus what was
    there, against the test function.
    """
    dimension, change = discretisation.mesh.geometry.dim, sp.S.Zero
    whole = bool(
        natural_of(conditions, equation)
    )  # is given, so that a term has no trace of its own
    for trace, weight in weak.traces:
        new = sp.S.Zero if whole else trace
        for unknown in differentiated(new):
            new = imposed(
                new, unknown, conditions, part, discretisation.boundary.data_symbols, dimension
            )
        if new != trace:
            change += (
                inner(new, weight) - inner(trace, weight) if new != 0 else -inner(trace, weight)
            )
    held = [
        c.field.index
        for c in conditions
        if isinstance(c, Dirichlet) and isinstance(c.field, Component) and c.unknown == equation
    ]
    return (
        change.xreplace({component(weak.test, index): sp.S.Zero for index in held})
        if change != 0
        else change
    )


def potential(term: sp.Expr, modulo: Modulo) -> sp.Expr | None:
    """φ with term = ∇φ on the class, where the term is written with gradients; None where none is
    found.

    Example:
        >>> import cffem as cf
        >>> v = cf.VectorField("v", dim=2)
        >>> potential(cf.grad(cf.x * cf.dot(v, v)), Modulo(cf.DivergenceFree(v), 2))
        x*dot(v, v)
    """
    for of_fields in (True, False):
        found = sp.S.Zero
        for monomial in sp.Add.make_args(sp.expand(term)):
            nodes = [
                f
                for f in sp.Mul.make_args(monomial)
                if isinstance(f, Grad) and bool(f.atoms(Field)) == of_fields
            ]
            if len(nodes) == 1:
                found += monomial / nodes[0] * nodes[0].args[0]
        if found != 0 and modulo.vanishes(term - grad(found)):
            return found
    return None


def vanishes_on(
    parts: Sequence[str],
    expression: sp.Expr,
    discretisation: Discretisation,
    states: Sequence[np.ndarray],
) -> bool:
    """Whether a scalar expression of the state is zero on boundary parts, measured on states
    whose values there are arbitrary.
    """
    d = discretisation
    lowered = Lowering(d.context)(expression)
    for values in states:
        state = d.state.copy()
        state.x.array[: len(values)] = values
        state.x.scatter_forward()
        here = (
            ufl.replace(lowered, {d.state: state})
            if d.state in ufl.algorithms.extract_coefficients(lowered)
            else lowered
        )
        outside = sum(
            integral(here**2 * d.boundary.measure(d.boundary.tags[part]), d.mesh) for part in parts
        )
        if outside > 1e-20 * integral(here**2 * ufl.dx(domain=d.mesh.ufl_domain()), d.mesh):
            return False
    return True
