# SPDX-License-Identifier: MIT
"""Whether a problem can be followed back in time for a part of a step, as compositions of midpoint
rules do.

With the mass matrix M of the highest time derivative and the matrix D of the one below, vᵀDv/vᵀMv
is how fast v decays or grows. Back in time decay is growth, and a part of length τ of a step with
τ vᵀDv/vᵀMv of the size of one has no stable matrix. Waves have D = 0, Maxwell's first-order system
a skew one; slow damping does no harm. Diffusion acts on random v as on the finest ripples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.collective import summed
from cffem.engine.solve.scope import Scope
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from cffem.engine.time.march import Stage
    from cffem.engine.time.stepping import Stepping

# Decay or growth within the part of a step that goes back, up to which a factor of exp(0.1) is
# made and unmade.
LARGEST = 0.1
PROBES = 3


def check_reversible(
    stage: Stage, stepping: Stepping, state: np.ndarray, velocity: np.ndarray | None, time: float
) -> None:
    """Refuse a scheme that goes back in time where the equation does not; collective.

    Args:
        stage: the stage solver with its equation.
        stepping: the scheme and its steps.
        state, velocity: owned values at the start, about which the equation is linearised.
        time: the time there.

    Raises:
        InputError: it does not; the message names the schemes that do.
    """
    backward = stepping.scheme.backward * float(np.max(stepping.steps))
    if not backward:
        return
    order = 1 if velocity is None else 2
    equation, comm = stage.equation, stage.equation.comm
    random = np.random.default_rng(comm.rank)
    worst = 0.0
    with Scope() as scope:
        place, rate, fast, probe, image = (scope.own(equation.new_vector()) for _ in range(5))
        place.array[:] = state
        if velocity is not None:
            rate.array[:] = velocity
        states = (place, rate, None if velocity is None else fast)
        equation.jacobian((1.0, 1.0, 0.0 if velocity is None else 1.0), states, time)
        for _ in range(PROBES):
            values = random.standard_normal(len(state))
            values[stage.essential.owned] = 0.0
            stage.essential.complete(values)
            probe.array[:] = values
            sizes = []
            for degree in (order - 1, order):
                total = 0.0
                for factor, matrix in equation.partial(degree):
                    matrix.mult(probe, image)
                    total += factor * float(values @ image.array_r)
                sizes.append(float(summed(comm, total)))
            worst = max(worst, abs(sizes[0]) / sizes[1] if sizes[1] > 0 else np.inf)
    if backward * worst > LARGEST:
        name = stepping.scheme.name
        raise InputError(
            f"the scheme {name!r} goes back in time by {backward:.2g} within a step, and this "
            f"equation decays or grows at a rate of {worst:.2g} meanwhile; it is for waves and "
            "Maxwell's equations with little damping: take 'sdirk4' or 'midpoint', or shorter "
            "steps where the damping is slow"
        )
