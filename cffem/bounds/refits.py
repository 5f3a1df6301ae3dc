# SPDX-License-Identifier: MIT
"""Deletions whose other coefficients are refitted on the factual solution: the coefficients are
computed numbers as well.

The regression of `cffem.engine.deletion.refit` is made on u_h, and the true refit is the one on u.
How far the two are apart is not bounded by the error of u_h, because terms contain derivatives. So
on every level of an estimate the regression is made anew, on the factual solution of that level:
the gaps between levels then contain what the regression gains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cffem.bounds.certificate import NotCovered
from cffem.engine.deletion.refit import deleting
from cffem.engine.time.in_parts import admit, spell_ends
from cffem.symbols.errors import InputError
from cffem.symbols.problem.interventions import CARRIED, CONDITIONS, KEPT, Intervention, delete

if TYPE_CHECKING:
    from cffem.engine.model import Model


# Coefficients that differ by no more than this share of the largest are the same numbers, up to
# rounding.
SAME = 1e-9


@dataclass(frozen=True)
class RefittedDeletion:
    """The deletion of a term with the others refitted on the factual solution of whatever model it
    is applied to.

    Attributes:
        name: the deleted term.
        conditions: what becomes of essential conditions, see `cffem.delete`.
    """

    name: str
    conditions: str = CARRIED

    def on(self, model: Model) -> Intervention:
        """The intervention in a model; collective."""
        return deleting(model, (self.name,), "remaining", self.conditions)[self.name]


Change = Intervention | RefittedDeletion


def change_on(change: Change, model: Model) -> Intervention:
    """The intervention that a change is in a model; collective.

    Raises:
        NotCovered: the model does not have the subdomain or the time levels that it needs.
    """
    if isinstance(change, RefittedDeletion):
        return change.on(model)
    try:
        admit(model, change)
        spell_ends(model, change)
    except InputError as reason:
        raise NotCovered(f"another level cannot take the change: {reason}") from None
    return change


def recognised(model: Model, name: str, change: Change | None) -> Change:
    """The change as what it is: a plain deletion, given coefficients, or those of a regression on
    the factual solution; collective.

    Args:
        model: the model.
        name: the deleted term, or the name of another intervention.
        change: the deletion with other coefficients; None for a plain one.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_interval
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u), "u": u, "u^2": u**2})
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_interval(MPI.COMM_SELF, 8), elements={u: ("Lagrange", 2)},
        ...     boundary=[cf.Neumann(u, 0)], forcing={u: 6})
        >>> model = cf.Model(library, {"lap": 1.0, "u": -1.0, "u^2": -1.0}, experiment)
        >>> recognised(model, "u", model.deletions(["u"], refit="remaining")["u"].intervention)
        RefittedDeletion(name='u', conditions='carried')
        >>> print(recognised(model, "u", cf.delete("u") & cf.set("u^2", -1.4)))
        delete('u') & set('u^2', -1.4)
    """
    if isinstance(change, RefittedDeletion):
        return change
    if change is not None and name not in model.coefficients:
        return change  # an intervention with a name of its own
    if change is None or not change.changes:
        return delete(name)
    if not change.only_coefficients or is_deletion(change, name):
        return change
    refitted = RefittedDeletion(name, CARRIED if change.carried else KEPT)
    given, found = (c.apply(model.coefficients) for c in (change, refitted.on(model)))
    size = max(map(abs, found.values()), default=0.0)
    same = all(abs(given[key] - value) <= SAME * size for key, value in found.items())
    return refitted if same else change


def is_deletion(change: Intervention, name: str) -> bool:
    """Whether a change deletes one term and nothing else, whatever becomes of essential conditions.

    Example:
        >>> (
        ...     is_deletion(delete("lap", conditions="kept"), "lap"),
        ...     is_deletion(delete("lap", "u"), "lap"),
        ... )
        (True, False)
    """
    return change in [delete(name, conditions=conditions) for conditions in CONDITIONS]


def deleted_term(change: Intervention) -> str | None:
    """The term that a change deletes, where it does nothing else.

    Example:
        >>> deleted_term(delete("lap")), deleted_term(delete("lap", "u"))
        ('lap', None)
    """
    names = change.names
    return names[0] if len(names) == 1 and is_deletion(change, names[0]) else None
