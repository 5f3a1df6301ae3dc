# SPDX-License-Identifier: MIT
"""The UFL form of a term that the user gave as one, checked before anything is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ufl
from ufl.algorithms.check_arities import ArityMismatch

from cffem.forms.lowering import Context, Lowering
from cffem.symbols.errors import InputError
from cffem.symbols.form_terms import FormTerm

if TYPE_CHECKING:
    from ufl.core.expr import Expr


def given_form(
    term: FormTerm, name: str, context: Context, test: Expr, measures: Mapping[str, ufl.Measure]
) -> ufl.Form:
    """The form of a term on a mesh.

    Args:
        term: the term.
        name: its name, for messages.
        context: what fields, known fields, parameters and the time mean.
        test: the test function of its equation.
        measures: the measures `dx`, `ds` and `dS`.

    Raises:
        InputError: the function fails, or what it makes is no form that is linear in the test
            function.
    """
    low = Lowering(context)
    fields = [low(argument) for argument in term.arguments]
    chosen = {key: measures[key] for key in term.form.measures}
    try:
        form = term.form.function(*fields, test, **chosen)
    except Exception as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"term {name!r}: its form cannot be made: {words}") from error
    if not isinstance(form, ufl.Form) or form.empty():
        made = "nothing" if isinstance(form, ufl.Form) else type(form).__name__
        raise InputError(
            f"term {name!r}: its function gives {made} instead of a UFL form; multiply the "
            "integrand by dx"
        )
    try:
        arguments = ufl.algorithms.compute_form_data(form).original_form.arguments()
    except (Exception, ArityMismatch) as error:  # which is no Exception in UFL
        words = " ".join(str(error).split())
        raise InputError(f"term {name!r}: its form is no form of UFL: {words}") from error
    if len(arguments) != 1:
        raise InputError(
            f"term {name!r}: its form has {len(arguments)} arguments, but a term is linear in the "
            "test function and contains no trial function"
        )
    return form


def captured(form: ufl.Form, context: Context) -> list[Any]:
    """Functions and constants that a form brings along and that belong to one mesh."""
    own = {
        thing
        for value in context.values.values()
        for thing in (
            *ufl.algorithms.extract_coefficients(ufl.as_ufl(value)),
            *ufl.algorithms.analysis.extract_constants(ufl.as_ufl(value)),
        )
    }
    return [thing for thing in (*form.coefficients(), *form.constants()) if thing not in own]
