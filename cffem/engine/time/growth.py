# SPDX-License-Identifier: MIT
"""A march that blows up is an error, never a number.

Schemes and equations that are unstable, discretely or by themselves, multiply a solution step by
step until no digit of it has a meaning, long before it stops to be finite. What counts as large is
told by the data: the initial state, boundary values, and what the forcing makes of a state of zero
in one stage. These are looked at when a solution has outgrown its start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.solve_errors import SolveError

if TYPE_CHECKING:
    from cffem.engine.time.march import Stage
    from cffem.engine.time.stepping import Stepping

# A solution that is so many times larger than its data are has lost all digits to what made it
# grow.
LARGEST_GROWTH = 1e12
# The accuracy of what is compared with that.
ROUGHLY = 1e-2


class Growth:
    """Watches the size of a march.

    Args:
        stage: the stage solver, fields in whose scale are compared.
        stepping: the scheme and its steps.
        times: all time levels.
        start, velocity: initial state and velocity (owned values).
    """

    def __init__(
        self,
        stage: Stage,
        stepping: Stepping,
        times: np.ndarray,
        start: np.ndarray,
        velocity: np.ndarray | None,
    ):
        assert stepping.dynamic is not None
        self.stage, self.stepping, self.times = stage, stepping, times
        self.dynamic, self.start, self.velocity = stepping.dynamic, start, velocity
        self._initial: float | None = None
        self._known = 0  # levels whose data were looked at
        self._data = 0.0

    def check(self, level: int, state: np.ndarray) -> None:
        """Refuse a state that has outgrown its data; collective.

        Raises:
            SolveError: it has.
        """
        size = self.stage.size(state * self.dynamic)
        if not np.isfinite(size):
            raise SolveError(f"the solution is not finite after step {level}", cause="blow-up")
        if self._initial is None:
            self._initial = self._measured_start()
        if size <= LARGEST_GROWTH * max(self._initial, self._data):
            return
        self._look(level)
        known = max(self._initial, self._data)
        if size > LARGEST_GROWTH * known:
            text = (
                f"the solution blows up: after step {level} it is {size / known:.0e} times as "
                "large as its data are"
            )
            raise SolveError(
                f"{text}; look at the signs of the terms, or shorten the time window",
                cause="blow-up",
            )

    def _measured_start(self) -> float:
        length = float(self.times[-1] - self.times[0])
        moved = (
            0.0 if self.velocity is None else length * self.stage.size(self.velocity * self.dynamic)
        )
        return self.stage.size(self.start * self.dynamic) + moved

    def _look(self, level: int) -> None:
        """Measure boundary values and forcing up to a level: what all stages so far could
        have made of zero.
        """
        stage, new = self.stage, self.stage.equation.new_vector
        zero, state = new(), new()
        # A forcing may vanish at all levels and act between them, where the stages see it.
        steps = [
            (n, share)
            for n in range(self._known, level + 1)
            for share in {1.0, *self.stepping.scheme.c}
            if n or share == 1
        ]
        for n, share in steps:
            time = share * self.times[n] + (1 - share) * self.times[n - 1]
            state.set(0.0)
            stage.essential.set_values(state.array, float(time))
            given = stage.size(state.array_r)
            gamma = self.stepping.gamma(max(n - 1, 0), 0)
            stage.residual(state, zero, None if self.velocity is None else zero, gamma, float(time))
            if stage.solver is not None:
                stage.solver.solve(
                    stage.right, stage.increment, "the response to the data", ROUGHLY
                )
                given += stage.size(stage.increment.array_r)
            self._data += given
        self._known = level + 1
        zero.destroy()
        state.destroy()
