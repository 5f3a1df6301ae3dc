# SPDX-License-Identifier: MIT
"""Station: terms that the screen did not select, at the largest coefficient that the data still
allow.

A term that is not seen need not be absent: the screen states an interval for the coefficient that
it could still have. Adding the term with the end of that interval that is farther from zero shows
what it could do. If that stays below ε the term is irrelevant whatever its coefficient is; else it
is unresolved.
"""

from __future__ import annotations

from collections.abc import Sequence

from cffem.engine.model import Model
from cffem.engine.solve.linear import SolveError
from cffem.engine.time.wellposed import check_model_direction
from cffem.study.run.identified_facts import LimitFact, ScreeningFacts
from cffem.study.run.running import Run
from cffem.symbols.errors import InputError
from cffem.symbols.problem.interventions import set as set_coefficient
from cffem.symbols.problem.norm_names import of_field

# The discretisation error of a change, relative to it, that is allowed for where nothing sharper is
# known.
ALLOWANCE = 0.25


def limits(run: Run, screening: ScreeningFacts) -> dict[str, dict[str, LimitFact]]:
    """For each experiment what every unselected term could do to the solution."""
    wanted = {
        term: ends
        for screen in screening.values()
        if screen.reliable
        for term, ends in screen.limits.items()
        if term not in screen.support and None not in ends
    }
    if not wanted or not run.models:
        return {}
    run.progress.begin("detection limits", len(run.models) * len(wanted))
    return {
        name: {
            term: run.fact(
                LimitFact,
                f"limits/{name}/{term}",
                lambda m=model, n=term, e=ends: effect(run, m, n, e),
                term,
            )
            for term, ends in wanted.items()
        }
        for name, model in run.models.items()
    }


def effect(run: Run, model: Model, term: str, ends: Sequence[float]) -> LimitFact:
    """How far the solution moves where a term is added with the largest coefficient that it could
    have.

    An end at which the problem is ill-posed or not solved says nothing; the same coefficient with
    the other sign is tried then.
    """
    largest = max(ends, key=abs)
    norm, fields = run.study.certification.norm, run.study.fields
    for coefficient in (largest, -largest):
        change = set_coefficient(term, coefficient)
        try:
            check_model_direction(model, change.apply(model.coefficients))
            moved = model.solve(change)
        except (SolveError, InputError):
            continue
        sizes = {
            field: float(moved.distance(model.factual, of_field(norm, field))) for field in fields
        }
        return LimitFact(largest, sizes or {"": float(moved.distance(model.factual, norm))})
    return LimitFact(largest, None)
