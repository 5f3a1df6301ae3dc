# SPDX-License-Identifier: MIT
"""Strong form: a term as a UFL expression on the mesh, where the elements of its fields can
represent its derivatives.

A continuous piecewise polynomial of degree k has derivatives up to order k that approximate those
of the field it stands for; a Nédélec field has its curl, a Raviart–Thomas field its divergence.
Anything beyond (the Laplacian of degree 1, second derivatives of Nédélec fields, any derivative of
discontinuous ones) is refused unless asked for as broken, that is cell by cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import sympy as sp

from cffem.forms.elements import H1, carrier
from cffem.forms.lowering import Context, lower
from cffem.forms.orders import Derived, derivatives
from cffem.forms.translation_errors import NotRepresentable, UnsupportedTerm
from cffem.symbols.fields import Field, n
from cffem.symbols.form_terms import FormTerm

if TYPE_CHECKING:
    from basix.ufl import _ElementBase
    from ufl.core.expr import Expr


def strong_form(
    term: sp.Expr, context: Context, elements: Mapping[Field, _ElementBase], *, broken: bool = False
) -> Expr:
    """The UFL expression of a term, valid at points inside cells.

    Args:
        term: the SymPy term.
        context: what its symbols mean.
        elements: the Basix element of each field; a field without one is given exactly and has all
            derivatives.
        broken: allow derivatives that the elements cannot represent, taken cell by cell.

    Raises:
        NotRepresentable: the element of a field cannot represent a derivative in the term.
        UnsupportedTerm: a part of the term has no translation.

    Example:
        >>> import basix.ufl, ufl, cffem as cf
        >>> domain = ufl.Mesh(basix.ufl.element("Lagrange", "triangle", 1, shape=(2,)))
        >>> element = basix.ufl.element("Lagrange", "triangle", 1)
        >>> u = cf.ScalarField("u")
        >>> context = Context(
        ...     domain, {u: ufl.Coefficient(ufl.FunctionSpace(domain, element), count=0)}
        ... )
        >>> print(strong_form(u * u.diff(cf.x), context, {u: element}))
        (grad(w_0))[0] * w_0
        >>> strong_form(cf.lap(u), context, {u: element})
        Traceback (most recent call last):
        ...
        cffem.forms.translation_errors.NotRepresentable: lap(u) (Lap): the degree 1 H1 element P of
            u cannot represent ...
    """
    if term.has(n):
        raise UnsupportedTerm("the normal exists on the boundary only", n, term)
    if term.has(FormTerm):
        raise NotRepresentable("it is given as a UFL form and has no values at points", term)
    if not broken:
        check_representable(term, elements)
    return lower(term, context)


def check_representable(term: sp.Expr, elements: Mapping[Field, _ElementBase]) -> None:
    """Raise `NotRepresentable` if an element cannot represent a derivative in the term."""
    for derived in sorted(derivatives(term), key=lambda d: (str(d.field), -d.order)):
        if derived.field in elements and not carrier(elements[derived.field]).represents(
            derived.operator, derived.order
        ):
            raise NotRepresentable(_advice(derived, elements[derived.field]), node=term)


def _advice(derived: Derived, element: _ElementBase) -> str:
    carries = carrier(element)
    what = f"the {carries.description} of {derived.field} cannot represent "
    if carries.space == H1:
        return (
            f"{what}its derivative of order {derived.order}; use the weak form, degree "
            f"{derived.order} or higher, or broken=True"
        )
    name = (
        derived.operator
        if derived.order == 1
        else "second derivatives"
        if derived.order == 2
        else "higher derivatives"
    )
    return f"{what}its {name} across cells; use the weak form, a Lagrange element, or broken=True"
