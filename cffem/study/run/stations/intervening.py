# SPDX-License-Identifier: MIT
"""Station: which interventions a study asks about besides single deletions: those that its user
names, and all pairs of terms.

A pair is the joint deletion of two terms. Together with the two single deletions it tells whether
terms stand in for each other (neither alone matters, both do), cancel (both together matter less
than one alone), or act together (both together matter more than the sum).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from cffem.engine.solve.linear import SolveRecord
from cffem.engine.time.in_parts import spell_ends
from cffem.symbols.errors import InputError
from cffem.symbols.problem.interventions import KEPT, Intervention, delete, joint

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.study.run.running import Run
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System

# The classes of interventions besides single deletions.
NAMED, PAIRS = "intervention", "pair of deletions"
# Between the names of the terms of a pair.
AND = " & "


def checked_interventions(
    given: Mapping[str, Intervention], library: Library | System
) -> dict[str, Intervention]:
    """Named interventions whose terms are there.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(cf.dt(u), {"u": u, "lap": cf.lap(u)})
        >>> checked_interventions({"lap": cf.delete("u")}, library)
        Traceback (most recent call last):
        ...
        cffem.symbols.errors.InputError: the intervention 'lap' has the name of a term; choose
            another
    """
    if not isinstance(given, Mapping):
        raise InputError('give interventions by name, {"half": cf.scale("lap", 0.5)} say')
    known, found = dict.fromkeys(library.names, 1.0), {}
    for name, change in given.items():
        if not isinstance(name, str) or not name or not name.isprintable():
            raise InputError(f"the name of an intervention is printable text, not {name!r}")
        if name in known:
            raise InputError(f"the intervention {name!r} has the name of a term; choose another")
        if name in pairs_among(library.names):
            raise InputError(f"the intervention {name!r} has the name of a pair; choose another")
        try:
            found[name] = joint(change)
            found[name].everything().apply(known)
        except InputError as error:
            raise InputError(f"the intervention {name!r}: {error}") from None
        if found[name] == Intervention():
            raise InputError(f"the intervention {name!r} changes nothing")
    return found


def pair_name(first: str, second: str) -> str:
    """What a pair of terms is called.

    Example:
        >>> pair_name("drag", "lap")
        'drag & lap'
    """
    return f"{first}{AND}{second}"


def pairs_among(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """All pairs of some terms by name.

    Example:
        >>> pairs_among(["u", "lap"])
        {'u & lap': ('u', 'lap')}
    """
    return {pair_name(*pair): pair for pair in combinations(names, 2)}


def asked_changes(run: Run, kind: str, model: Model) -> dict[str, Intervention]:
    """The interventions of a class in one model, by name."""
    study = run.study
    if kind == NAMED:
        # What a study says about essential conditions counts for all of its deletions.
        kept = study.certification.conditions == KEPT
        return {
            name: replace(change, carried=False) if kept else change
            for name, change in study.interventions.items()
        }
    conditions = study.certification.conditions
    return {
        name: delete(*pair, conditions=conditions)
        for name, pair in pairs_among(model.active).items()
    }


def check_interventions(run: Run) -> None:
    """Refuse interventions that an experiment cannot take, before anything is solved; collective.

    Raises:
        InputError: a part of the boundary, a field or a constraint that is not there.
    """
    for experiment, model in run.models.items():
        for name, change in run.study.interventions.items():
            try:
                if change.initial and model.experiment.time is None:
                    raise InputError("a steady problem has no initial values")
                unknowns = {str(field) for field in model.library.equations}
                for key, _ in (*change.forcing, *change.initial):
                    field = str(getattr(key, "expr", key))
                    if field not in unknowns:
                        raise InputError(f"{field} is no field of this model")
                spell_ends(model, change)
                if not change.only_coefficients or change.places:
                    model.prepared(change, SolveRecord())
            except InputError as error:
                where = f" in {experiment!r}" if len(run.models) > 1 else ""
                raise InputError(f"the intervention {name!r}{where}: {error}") from None
