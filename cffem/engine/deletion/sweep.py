# SPDX-License-Identifier: MIT
"""Deletion sweeps: every deleted problem against the factual solution, sharing all that can be
shared.

How a deletion is computed is chosen among the strategies of `cffem.engine.deletion.strategies` and
reported with it. A deleted problem that is singular, blows up or does not converge is a result,
`unsolvable` with its reason, and the sweep goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cffem.engine.deletion.outcomes import HANDED, OWN, Deletion, Demand, Sweep
from cffem.engine.deletion.rank_groups import expected_efforts, group_of, number_of_groups
from cffem.engine.deletion.strategies import Score, by_own_solve, cheaper
from cffem.engine.solve.linear import SolveError
from cffem.engine.time.wellposed import backward_change, backward_model
from cffem.symbols.problem.interventions import Intervention

if TYPE_CHECKING:
    from cffem.engine.model import Model


def run_sweep(
    model: Model,
    changes: Mapping[str, Intervention],
    demand: Demand,
    finished: Callable[[Deletion], object] | None = None,
    groups: int | None = None,
) -> Sweep:
    """Solve all changed problems and measure how far each is from the factual solution.

    Args:
        model: the model.
        changes: the interventions, by the names of their deletions.
        demand: what is asked of the scores.
        finished: called with each deletion when it is done, on all ranks.
        groups: how many groups of ranks share the deletions; None for what suits.
    """
    data = [value for change in changes.values() for value in change.data]
    count = number_of_groups(model, len(changes), groups, demand.keep, data)
    if count == 1:
        model.norm(demand.norm)
    deletions: dict[str, Deletion] = {}
    for found in _in_groups(model, changes, demand, count):
        model.observer.deletion(found)
        if finished is not None:
            finished(found)
        deletions[found.term] = replace(found, solution=None) if demand.keep == HANDED else found
        del found  # its solution leaves the memory before the next one comes
    return Sweep({name: deletions[name] for name in changes}, demand.norm)


def run_changes(
    model: Model, changes: Mapping[str, Intervention], demand: Demand
) -> dict[str, Deletion]:
    """Some changed problems on all ranks, each by the cheapest way to what is asked of it."""
    return {found.term: found for found in _one_by_one(model, changes, demand)}


def _one_by_one(
    model: Model, changes: Mapping[str, Intervention], demand: Demand
) -> Iterator[Deletion]:
    """Those that nobody should solve first, then the cheap ones, then those that must be
    solved themselves.
    """
    done = set()
    # A factual problem that runs backward in time is the user's own choice.
    own_choice = bool(backward_model(model))
    for name, change in changes.items():
        words = "" if own_choice else backward_change(model, change)
        if words:
            done.add(name)
            yield Score(model, change, name, demand, OWN).unsolvable(
                SolveError(words, cause="backward")
            )
    changes = {name: change for name, change in changes.items() if name not in done}
    plain = {
        name: change for name, change in changes.items() if model.changes_coefficients_only(change)
    }
    for found in cheaper(model, plain, demand):
        done.add(found.term)
        yield found
    for name, change in changes.items():
        if name not in done:
            found = by_own_solve(model, change, name, demand)
            release = model.release(change.everything())
            yield found if release is None else replace(found, conditions=release.sentence)


def _in_groups(
    model: Model, changes: Mapping[str, Intervention], demand: Demand, count: int
) -> Iterator[Deletion]:
    """The deletions of all groups of ranks, on all ranks: each round brings the next one of every
    group.
    """
    group = None if count == 1 else group_of(model, count)
    if group is None or (demand.keep and not group.returns):
        yield from _one_by_one(model, changes, demand)
        return
    share = group.share(expected_efforts(group.model, changes, demand.epsilon))
    mine = _one_by_one(group.model, {name: changes[name] for name in share}, demand)
    if demand.keep:
        while found := group.next(mine):
            for owner, deletion in found:
                change = changes[deletion.term]
                solution = group.returned(model, owner, change)
                yield replace(deletion, solution=solution, intervention=change)
    else:
        # Nothing but numbers comes of it, so no group waits for another before the end.
        everything = {found.term: found for found in group.all(mine)}
        yield from (replace(everything[name], intervention=changes[name]) for name in changes)
