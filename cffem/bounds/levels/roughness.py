# SPDX-License-Identifier: MIT
"""How fast levels can converge at all where data jump or have a kink within cells or steps.

Gaps between levels are evidence only if they do not shrink by accident. Where data are rough they
do: how much of a jump a level misses depends on where it lies between the nodes, so that one gap
may be nearly zero and the next is not. What is known beforehand is the order of convergence. In L2
polynomials on cells or steps approximate a jump with the order 1/2 and a kink with 3/2, and the
solution has so many orders more:

    in space forcing 2 (elliptic regularity), natural boundary values 3/2, values on the boundary
                 1/2 (trace theorem), initial values 1, or 0 where nothing smooths them,
                 coefficients 1/2
    in time forcing and coefficients 1/2 (their integral over a step is wrong by the size of the
                 step where they jump), boundary values 0

since for coefficients a(x) the error in L2 is that of the gradient times that of the gradient of a
dual problem, each the oscillation of a within cells: with its ratio σ_a between levels the error
cannot shrink faster than σ_a², which is measured for smooth coefficients, as cells may not follow
them yet. Gaps that shrink faster than this order do so by accident, see `gaps`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from cffem.bounds.certificate import NotCovered
from cffem.bounds.enclosed.sources import IN_SPACE, ROUGHLY, SeparatedSource, Sources
from cffem.engine.inputs.numeric import numeric
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.errors import InputError
from cffem.symbols.problem.conditions import Dirichlet

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.symbols.problem.conditions import BoundaryCondition


JUMPING = (sp.Piecewise, sp.Heaviside, sp.sign, sp.floor, sp.ceiling)
KINKED = (sp.Abs, sp.Max, sp.Min)
# Orders of approximation in L2.
JUMP, KINK = 0.5, 1.5
# What the solution gains, in space; initial values by the order of the equation in time.
FORCING, NATURAL, ESSENTIAL, COEFFICIENT, INITIAL = 2.0, 1.5, 0.5, 0.5, {1: 1.0, 2: 0.0}
# What it gains in time.
SAMPLED, KEPT = 0.5, 0.0
# Coefficients whose oscillation within the finest cells is below this share are resolved, and their
# ratio says nothing.
RESOLVED = 0.05


@dataclass(frozen=True)
class Orders:
    """The highest orders of convergence that data leave, infinite where they are smooth.

    Attributes:
        space: by dividing cells or by powers of the degree.
        time: by dividing steps.
    """

    space: float = math.inf
    time: float = math.inf

    def joined(self, *others: Orders) -> Orders:
        """Those of several data together."""
        every = (self, *others)
        return Orders(min(each.space for each in every), min(each.time for each in every))


def order_of(expr: sp.Expr, symbols: Iterable[sp.Symbol]) -> float:
    """The order with which polynomials approximate a function of some symbols, as it is written.

    Example:
        >>> from cffem import x, y
        >>> (
        ...     order_of(sp.Heaviside(x - y), [x]),
        ...     order_of(sp.Max(x, 0) + sp.sign(y), [x]),
        ...     order_of(sp.exp(x), [x]),
        ... )
        (0.5, 1.5, inf)
    """
    given, wanted = sp.sympify(expr), {*symbols}
    nodes = [node for node in given.atoms(*JUMPING, *KINKED) if node.free_symbols & wanted]
    if any(isinstance(node, JUMPING) and not continuous(node) for node in nodes):
        return JUMP
    return KINK if nodes else math.inf


def continuous(node: sp.Basic) -> bool:
    """Whether the branches of a Piecewise of one variable meet where it changes them.

    Example:
        >>> from cffem import x
        >>> continuous(sp.Piecewise((x, x < 1), (1, True))), continuous(sp.Heaviside(x))
        (True, False)
    """
    if not isinstance(node, sp.Piecewise) or len(node.free_symbols) != 1:
        return False
    (symbol,) = node.free_symbols
    value = numeric(node, (symbol,))
    for switch in {each.lhs - each.rhs for each in node.atoms(sp.core.relational.Relational)}:
        if not switch.is_polynomial(symbol) or sp.degree(switch, symbol) != 1:
            return False
        place = float(sp.solve(switch, symbol)[0])
        step = 1e-7 * max(1.0, abs(place))
        low, high = (float(value(place + shift)) for shift in (-step, step))
        if not abs(high - low) <= 1e-4 * max(abs(low), abs(high)) + 1e-12:
            return False
    return True


def within_steps(expr: sp.Expr, times: Sequence[float]) -> bool:
    """Whether a function of the time changes its branch within steps, and not only at their ends.

    Example:
        >>> (
        ...     within_steps(sp.Heaviside(t - 0.5), [0, 0.5, 1]),
        ...     within_steps(sp.Abs(t - 0.4), [0, 0.5, 1]),
        ... )
        (False, True)
    """
    for node in expr.atoms(*JUMPING, *KINKED):
        if isinstance(node, sp.floor | sp.ceiling):
            return True
        if isinstance(node, sp.Max | sp.Min):
            switches = [a - b for i, a in enumerate(node.args) for b in node.args[i + 1 :]]
        elif isinstance(node, sp.Piecewise):
            switches = [each.lhs - each.rhs for each in node.atoms(sp.core.relational.Relational)]
        else:
            switches = [node.args[0]]
        for switch in switches:
            if t not in switch.free_symbols:
                continue
            if switch.free_symbols != {t}:
                return True
            with np.errstate(all="ignore"):
                values = np.array([float(numeric(switch, (t,))(float(when))) for when in times])
            values[np.abs(values) <= 1e-12 * np.abs(values).max(initial=1.0)] = 0.0
            if any(one * two < 0 for one, two in pairwise(values)):
                return True
    return False


class Rough:
    """Looks for jumps and kinks in the data of a model.

    Args:
        models: those of three levels in space, from coarse to fine.
    """

    def __init__(self, models: Sequence[Model]):
        self.models, self.model = models, models[0]

    def _of(self, expr: sp.Expr, gain: float, later: float, boundary: bool = False) -> Orders:
        """The orders that one function leaves; collective."""
        discretisation = self.model.discretisation
        sharp = discretisation.sharp_boundary if boundary else discretisation.sharp
        space = time = math.inf
        order = order_of(expr, SPACE)
        if order < math.inf:
            try:
                cut = sharp.unseen(expr)
            except (InputError, NotImplementedError):
                cut = True
            space = order + gain if cut else math.inf
        if self.model.experiment.time is not None and within_steps(expr, self.model.times):
            time = order_of(expr, [t]) + later
        return Orders(space, time)

    def forcing(self, entries: Iterable[sp.Expr]) -> Orders:
        """Those that a forcing leaves."""
        return Orders().joined(*(self._of(entry, FORCING, SAMPLED) for entry in entries))

    def initial(self, entries: Iterable[sp.Expr], time_order: int) -> Orders:
        """Those that initial values leave."""
        gain = INITIAL.get(time_order, 0.0)
        return Orders(
            min((self._of(entry, gain, math.inf).space for entry in entries), default=math.inf)
        )

    def condition(self, condition: BoundaryCondition, entries: Iterable[sp.Expr]) -> Orders:
        """Those that boundary values leave."""
        gain, later = (ESSENTIAL, KEPT) if isinstance(condition, Dirichlet) else (NATURAL, SAMPLED)
        return Orders().joined(*(self._of(entry, gain, later, boundary=True) for entry in entries))

    def jumps(self, condition: BoundaryCondition, expr: sp.Expr) -> bool:
        """Whether prescribed values jump between nodes or time levels; collective."""
        if not isinstance(condition, Dirichlet):
            return False
        found = self._of(expr, ESSENTIAL, KEPT, boundary=True)
        return found.space == JUMP + ESSENTIAL or found.time == JUMP + KEPT

    def coefficient(
        self, expr: sp.Expr, cells: Sequence[tuple[Any, np.ndarray]], degrees: Sequence[int]
    ) -> Orders:
        """Those that a coefficient leaves.

        Args:
            expr: the coefficient.
            cells: the communicator and the corners of the cells of the two finest levels, none
                where cells are not divided.
            degrees: those of the polynomials in which gradients are.
        """
        found = self._of(expr, COEFFICIENT, SAMPLED)
        # The oscillation of a jump depends on where it lies in its cell, and its ratio says
        # nothing.
        if not len(cells) or not expr.free_symbols & {*SPACE} or order_of(expr, SPACE) < math.inf:
            return found
        levels = list(zip(cells, degrees, strict=True))
        # A rough look is an upper bound as well, and enough where it finds little.
        (comm, corners), degree = levels[1]
        if self._oscillation(expr, Sources(comm, corners, degree, ROUGHLY)) <= RESOLVED:
            return found
        shares = [
            self._oscillation(expr, Sources(comm, corners, degree, IN_SPACE))
            for (comm, corners), degree in levels
        ]
        if shares[1] <= RESOLVED or shares[0] == 0:
            return found
        return found.joined(Orders(max(-2 * math.log2(min(shares[1] / shares[0], 1.0)), 0.0)))

    def _oscillation(self, expr: sp.Expr, sources: Sources) -> float:
        """‖a − Π a‖/‖a‖, in the middle of the window; collective."""
        times = np.asarray(self.model.times, dtype=float)
        when = float(times[0] + times[-1]) / 2 if len(times) else 0.0
        found = SeparatedSource(sources, [sp.S.One], sources.resolved([expr], when))
        missed = sources.comm.allreduce(float((found.oscillation(np.ones(1)) ** 2).sum()))
        size = found.size(np.ones(1))
        if not math.isfinite(missed) or size == 0:
            raise NotCovered("a coefficient is not finite")
        return math.sqrt(missed) / size
