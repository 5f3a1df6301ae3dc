# SPDX-License-Identifier: MIT
"""Deletions in a part of the domain, and in a part of the window.

A term that is deleted in a subdomain is α T − α T|part: the term in that part alone joins the
equation with coefficient zero, and the deletion gives it −α. Nothing else knows of parts. A
deletion in a part of the window changes coefficients at two time levels, at which the march goes on
with other ones; a Runge–Kutta step never reaches over such a jump, so that its order is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.assembly.equation import Assembled
from cffem.engine.assembly.experiment_checks import is_subdomain
from cffem.engine.time.march import march
from cffem.symbols.errors import InputError
from cffem.symbols.form_terms import FormTerm
from cffem.symbols.problem.interventions import Intervention, part_term
from cffem.symbols.restricted import On

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solve.linear import SolveRecord
    from cffem.engine.solve.stage_types import StageVectors
    from cffem.symbols.problem.window import Window

# How far a time may be from a level, relative to the step, to be that level.
ROUNDING = 1e-8
# By how much at most the number of steps is raised in an advice.
FINER = 16
# Up to so many times the steps are taken, all equal, before single steps are divided.
MORE = 2


def admit(model: Model, change: Intervention) -> None:
    """Let a model know the terms in parts that an intervention needs; collective.

    Raises:
        InputError: a term cannot be deleted in that part; the message says why.
    """
    for name, part in change.everything().places:
        known = part_term(name, part)
        if known in model.coefficients:
            continue
        if name not in model.library:
            change.everything().apply(model.coefficients)  # an error that names the nearest one
        if change.conditions:
            raise InputError(
                f"{change} changes boundary conditions and a part of the domain; ask for one of "
                "them at a time"
            )
        _add_term(model, name, part, known)


def _add_term(model: Model, name: str, part: str, known: str) -> None:
    discretisation, term = model.discretisation, model.library[name]
    what = f"the deletion of {name!r}"
    if term.has(FormTerm):
        raise InputError(
            f"{what} on {part!r}: the term is given as a UFL form; write a form of its own for "
            "that part"
        )
    if term.has(On):
        raise InputError(f"{what} on {part!r}: the term acts in parts already; delete it by name")
    if not is_subdomain(discretisation.domain, discretisation.boundary, part, what):
        raise InputError(
            f"{what} on {part!r}: that is a part of the boundary; terms inside are deleted in "
            "subdomains"
        )
    if known not in discretisation.library:
        library = discretisation.library.with_terms({known: On(part, term)})
        discretisation.library = library
        elements = {f: discretisation.spaces.elements[f] for f in discretisation.spaces.fields}
        weak = discretisation._weak_term(known, elements)
        strange = {a.field for a in weak.auxiliaries} - {
            a.field for a in discretisation.auxiliaries
        }
        if strange:
            raise InputError(f"{what} on {part!r} needs auxiliary fields that there are not")
        discretisation.weak_terms[known] = weak
        discretisation.context = discretisation._context()  # which knows the part's indicator now
        discretisation.__dict__.pop("upwind_terms", None)
        discretisation.__dict__.pop("conserved_terms", None)
        discretisation.part_terms.add(known)
        unknown, sign = library.locate(known)[0], discretisation.signs.get(name, 1)
        made = discretisation.ingredient(known, discretisation.form_of(weak, unknown, sign=sign))
        model.equation.terms[known] = Assembled(made, model.equation)
    model.library = discretisation.library
    model.coefficients[known] = 0.0


def spell_ends(model: Model, change: Intervention) -> list[float]:
    """The times at which what is changed begins or ends, with both ends of the window.

    Raises:
        InputError: one of them is no time level; the message says how many steps hit them.
    """
    if not change.spells:
        return []
    window = model.experiment.time
    if window is None:
        raise InputError(f"{change}: a steady problem has no times")
    start, end = float(window.start), float(window.end)
    inside = {
        time for first, last, _ in change.spells for time in (first, last) if start < time < end
    }
    if all(last <= start or first >= end for first, last, _ in change.spells):
        raise InputError(f"{change} lies outside of the window from {start:g} to {end:g}")
    if not all(window.level_at(time) is not None for time in inside):
        steps = steps_that_hit(inside, start, end, window.steps) if window.levels is None else None
        shown = ", ".join(f"{time:g}" for time in sorted(inside))
        advice = f"take {steps} steps" if steps else f"take Window(…).with_levels([{shown}])"
        raise InputError(
            f"{change}: steps must end at {shown}, which the {window.steps} steps from {start:g} "
            f"to {end:g} do not; {advice}"
        )
    return [start, *sorted(inside), end]


def _hits(time: float, start: float, end: float, steps: int) -> bool:
    place = (time - start) / (end - start) * steps
    return abs(place - round(place)) <= ROUNDING


def steps_that_hit(times: set[float], start: float, end: float, steps: int) -> int | None:
    """The smallest number of steps, no smaller than the given one, whose ends hit some times.

    Example:
        >>> steps_that_hit({1.0}, 0.0, 3.0, 10), steps_that_hit({0.5, 0.3}, 0.0, 1.0, 8)
        (12, 10)
        >>> steps_that_hit({math.pi}, 0.0, 10.0, 4)
    """
    for count in range(steps, FINER * steps + 1):
        if all(_hits(time, start, end, count) for time in times):
            return count
    return None


def window_of_spells(changes: Iterable[Intervention], window: Window) -> Window:
    """A window whose steps end where spells do: with more equal steps where at most twice as many
    hit all ends, otherwise with steps divided there; itself where nothing is to be done.

    Example:
        >>> from cffem.symbols.problem.interventions import delete
        >>> from cffem.symbols.problem.window import Window
        >>> spell = delete("u", during=(0.0, 0.3))
        >>> window_of_spells([spell], Window(0, 1, steps=8)).steps
        10
        >>> window_of_spells([spell], Window(0, 1, steps=3)).times
        array([0.        , 0.3       , 0.33333333, 0.66666667, 1.        ])
    """
    start, end = float(window.start), float(window.end)
    spells = [spell for change in changes for spell in change.spells]
    times = {time for first, last, _ in spells for time in (first, last) if start < time < end}
    if window.levels is None and not window.adaptive and times:
        steps = steps_that_hit(times, start, end, window.steps)
        if steps is not None and steps <= MORE * window.steps:
            return window if steps == window.steps else window.resampled(steps)
    return window.with_levels(times)


def march_by_spells(
    model: Model,
    change: Intervention,
    record: SolveRecord,
    start: np.ndarray,
    velocity: np.ndarray | None,
    keep: Callable[[int, np.ndarray, np.ndarray | None], bool | None],
    keep_stage: Callable[[int, int, StageVectors, float], None] | None,
) -> None:
    """March through a window in which what is changed begins and ends.

    Args:
        model: the model.
        change: the intervention, with spells.
        record: takes the statistics of the solves.
        start, velocity: at the first time.
        keep, keep_stage: as of `march`.
    """
    ends, times = spell_ends(model, change), model.times
    levels = [int(np.argmin(np.abs(times - end))) for end in ends]
    state: tuple[np.ndarray, np.ndarray | None] = (start, velocity)
    enough: bool | None = False
    for piece, (first, last) in enumerate(pairwise(levels)):

        def kept(level: int, values: np.ndarray, rates: np.ndarray | None) -> bool | None:
            nonlocal state, enough
            if level == 0 and piece > 0:  # noqa: B023
                return False
            state = (values, rates)
            enough = keep(first + level, values, rates)  # noqa: B023
            return enough

        def kept_stage(number: int, index: int, values: StageVectors, time: float) -> None:
            if keep_stage is not None:
                keep_stage(first + number, index, values, time)  # noqa: B023

        stage = model.prepared(change.between(ends[piece], ends[piece + 1]), record)
        march(
            stage,
            model.marching,
            times[first : last + 1],
            state[0],
            state[1],
            kept,
            None if keep_stage is None else kept_stage,
        )
        if enough or math.isnan(float(state[0].sum())):
            break
