# SPDX-License-Identifier: MIT
"""Relevance in observation space: δ_j^𝒪 = ‖C^(−½) (𝒪[u] − 𝒪[u_j])‖, how much of what is measured
changes when a term is deleted, in standard deviations of the noise.

A term can matter for the field and not be seen by the sensors; both scores stand side by side.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.symbols.problem.observations import Observation


@dataclass(frozen=True)
class ObservationDeletion:
    """What deleting one term does to readings.

    Attributes:
        term: the term.
        score: δ_j^𝒪, the norm of the changes of all readings in standard deviations; nan where the
            deleted problem is unsolvable.
        largest: the largest change of one reading, in its standard deviations.
        reading: which reading that is.
        state_score: δ_j = ‖u − u_j‖ of the whole field.
        status, reason: "solved", or "unsolvable" with the reason.
    """

    term: str
    score: float
    largest: float
    reading: str
    state_score: float
    status: str = "solved"
    reason: str = ""

    def __str__(self) -> str:
        if self.status != "solved":
            return f"{self.term}: {self.status}, {self.reason}"
        return (
            f"{self.term}: {self.score:.3g} standard deviations of what is measured, "
            f"{self.largest:.3g} in {self.reading}"
        )


def observation_deletions(
    model: Model, observation: Observation, names: Iterable[str], norm: str = "L2"
) -> dict[str, ObservationDeletion]:
    """δ_j^𝒪 of terms by solving every deleted problem.

    Args:
        model: the model.
        observation: the sensors, with known noise.
        names: the terms.
        norm: of the score of the whole field beside it.
    """
    operator = model.observation(observation)
    if not operator.noise.known:
        raise InputError(
            "relevance in observation space is measured in units of the noise: give the sensors "
            "their noise"
        )
    factual = operator.values(model.factual)
    found = {}
    for name in names:
        # One at a time, so that only one deleted trajectory is kept.
        deletion = model.deletions([name], norm=norm, keep=True)[name]
        if deletion.solution is None:
            nothing = float("nan")
            found[name] = ObservationDeletion(
                name, nothing, nothing, "", nothing, deletion.status, deletion.reason
            )
            continue
        change = operator.values(deletion.solution) - factual
        single = np.abs(change) / operator.noise.deviation
        worst = int(np.argmax(single))
        found[name] = ObservationDeletion(
            name,
            float(np.linalg.norm(operator.noise.whitened(change))),
            float(single[worst]),
            operator.labels[worst],
            deletion.score,
        )
    return found
