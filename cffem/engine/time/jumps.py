# SPDX-License-Identifier: MIT
"""Times at which data jump or have a kink, which steps must not reach over: a Runge–Kutta scheme
has its order only where data are smooth within each step.

Looked at are `Piecewise`, `Heaviside`, `sign`, `Abs`, `Max`, `Min`, `floor` and `ceiling` of
functions of time alone in terms, forcing, boundary data and known fields, and the times of measured
data that are much coarser than the steps. A front that moves in space passes a place at a time of
its own and is no jump in this sense.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from scipy.optimize import brentq

from cffem.symbols.coordinates import t
from cffem.symbols.fields import fields_of
from cffem.symbols.problem.measured import MeasuredFields

if TYPE_CHECKING:
    from cffem.symbols.problem.experiment import Experiment
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System
    from cffem.symbols.problem.window import Window

# Functions that are no polynomials are looked at in so many places of the window for a change of
# sign.
PLACES = 4096
# Measured data are hit where they have at most one time for so many steps; between denser ones they
# are interpolated with an order that is no less than that of the schemes.
SPARSE = 4
# No more jumps than this are hit: a function that jumps as often is no datum of a few steps.
MOST = 1000
SHOWN = 6  # times in a note


def jump_times(library: Library | System, experiment: Experiment, window: Window) -> list[float]:
    """The times inside a window at which terms and data of an experiment jump or have a kink.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(anchor=cf.dt(u), terms={"u": sp.Heaviside(cf.t - 0.3) * u})
        >>> window = cf.Window(0, 1, steps=4)
        >>> experiment = cf.Experiment(None, {u: ("Lagrange", 1)}, forcing={u: sp.floor(2 * cf.t)})
        >>> jump_times(library, experiment, window)
        [0.3, 0.5]
    """
    start, end = float(window.start), float(window.end)
    found: set[float] = set()
    parameters = {p: value for p, value in library.parameters.items() if value is not None}
    terms = [library[name].xreplace(parameters) for name in library.names]
    for value in [*terms, *given_data(experiment)]:
        for part in flattened(value):
            if isinstance(part, MeasuredFields):
                found |= set(measured_times(part, window))
            elif isinstance(part, sp.Basic) and part.has(t):
                found |= set(expression_jumps(part, start, end))
    inside = sorted(time for time in found if start < time < end)
    return inside if len(inside) <= MOST else []


def with_jumps(
    library: Library | System, experiment: Experiment
) -> tuple[Experiment, tuple[float, ...]]:
    """An experiment whose steps end where data jump, and these times."""
    window = experiment.time
    if window is None:
        return experiment, ()
    jumps = jump_times(library, experiment, window)
    hit = window.with_levels(jumps)
    if hit is not window:
        experiment = replace(experiment, time=hit)
    return experiment, tuple(jumps)


def note_of_jumps(asked: Window | None, window: Window | None, jumps: Sequence[float]) -> str:
    """What was done to the steps of a window for the sake of jumps, empty for nothing."""
    if asked is None or window is None or asked is window:
        return ""
    shown = ", ".join(f"{time:.6g}" for time in jumps[:SHOWN])
    more = f" and {len(jumps) - SHOWN} more times" if len(jumps) > SHOWN else ""
    return (
        f"the window has {window.steps} time steps instead of {asked.steps}, so that steps end "
        f"where data jump or have a kink, at t = {shown}{more}"
    )


def given_data(experiment: Experiment) -> list[Any]:
    """All data of an experiment but its initial values, which belong to one time."""
    found = [*experiment.forcing.values(), *experiment.known.values()]
    found += [] if experiment.constraint is None else [experiment.constraint.expr]
    for condition in experiment.boundary:
        found += [getattr(condition, f.name) for f in fields(condition)]
    return found


def flattened(value: Any) -> Iterator[Any]:
    """The parts of a tuple, a list, a matrix, or a value for each subdomain."""
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, tuple | list | sp.MatrixBase):
        for part in value:
            yield from flattened(part)
    else:
        yield value


def measured_times(data: MeasuredFields, window: Window) -> list[float]:
    """The times of measured data inside a window, where they are few."""
    axis = np.asarray(data.dataset.coordinates.get(t, ()), dtype=float)
    inside = axis[(axis > window.start) & (axis < window.end)]
    return [] if SPARSE * len(inside) > window.steps else [float(time) for time in inside]


def expression_jumps(expr: sp.Basic, start: float, end: float) -> list[float]:
    """Where an expression jumps or has a kink in time, whatever the place.

    Example:
        >>> expression_jumps(sp.Piecewise((1, (t > 1) & (t < 2)), (0, True)), 0.0, 3.0)
        [1.0, 2.0]
    """
    return sorted({time for arg, whole in switches(expr) for time in roots(arg, whole, start, end)})


def switches(expr: sp.Basic) -> Iterator[tuple[sp.Expr, bool]]:
    """Functions of time whose zeros are jumps or kinks; those of a floor pass whole numbers."""
    for condition in expr.atoms(sp.core.relational.Relational):
        yield condition.lhs - condition.rhs, False
    for node in expr.atoms(sp.Heaviside, sp.sign, sp.Abs):
        yield node.args[0], False
    for node in expr.atoms(sp.Max, sp.Min):
        args = list(node.args)
        yield from ((a - b, False) for i, a in enumerate(args) for b in args[:i])
    for node in expr.atoms(sp.floor, sp.ceiling):
        yield node.args[0], True
    for node in expr.atoms(sp.Mod):
        yield node.args[0] / node.args[1], True


def roots(arg: sp.Expr, whole: bool, start: float, end: float) -> list[float]:
    """The zeros of a function of time, or where it passes whole numbers."""
    if arg.free_symbols != {t} or fields_of(arg):
        return []
    try:
        function = sp.lambdify(t, arg, "numpy")
        grid = np.linspace(start, end, PLACES + 1)
        values = np.broadcast_to(np.asarray(function(grid), dtype=float), grid.shape)
    except (TypeError, ValueError, NameError, AttributeError):
        return []
    if not np.all(np.isfinite(values)):
        return []
    targets: Iterable[float] = [0.0]
    if whole:
        low, high = np.ceil(values.min()), np.floor(values.max())
        if high - low > MOST:
            return []
        targets = np.arange(low, high + 1)
    slope, offset = (
        (sp.Poly(arg, t).all_coeffs())
        if arg.is_polynomial(t) and sp.degree(arg, t) == 1
        else (0, 0)
    )
    found: list[float] = []
    for target in targets:
        if slope:
            found.append(float((target - offset) / slope))
            continue
        shifted = values - target
        found += [float(time) for time in grid[shifted == 0]]
        for k in np.flatnonzero(shifted[:-1] * shifted[1:] < 0):
            found.append(
                brentq(lambda s, a=target: float(function(s)) - a, grid[k], grid[k + 1], xtol=1e-15)
            )
    return [time for time in found if start < time < end]
