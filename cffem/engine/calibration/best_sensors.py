# SPDX-License-Identifier: MIT
"""Where to measure next: sensors among candidates whose sensitivity design is best.

A candidate i adds S_iᵀS_i to the information about the coefficients. The E-criterion makes the
smallest eigenvalue of the sum large (the worst combination of coefficients is known best), the
D-criterion its determinant (the volume of the confidence region is small). Candidates are taken
greedily and then exchanged one by one while that helps. Columns are scaled to length one over all
candidates, so that units do not matter; what no candidate sees is left out and said.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.engine.response.sensitivities import (
    null_columns,
    sensitivity_design,
    sensitivity_matrix,
    unanchored,
)
from cffem.symbols.errors import InputError
from cffem.symbols.problem.observations import Observation, Sensors

if TYPE_CHECKING:
    from cffem import Design
    from cffem.engine.model import Model

CRITERIA = ("E", "D")
# Eigenvalues of the scaled information of all candidates below this are directions nobody sees.
UNSEEN = 1e-13
# Added to eigenvalues where there are still fewer readings than directions.
MISSING = 1e-12
MOST_EXCHANGES = 100


@dataclass(frozen=True)
class SensorChoice:
    """Chosen sensors.

    Attributes:
        names: of the chosen candidates, best first; numbers from 0 where they have no names.
        observation: the chosen sensors, or the sum of the chosen observations.
        design: their sensitivity design.
        value: of the criterion, columns scaled over all candidates.
        criterion: "E" or "D".
    """

    names: tuple[Any, ...]
    observation: Observation
    design: Design
    value: float
    criterion: str


def best_sensors(
    model: Model,
    candidates: Sensors | Mapping[str, Observation],
    count: int,
    *,
    criterion: str = "E",
    present: Observation | None = None,
    names: Iterable[str] | None = None,
) -> SensorChoice:
    """The sensors among candidates that tell most about the coefficients of a model.

    Args:
        model: the model, at the coefficients that are thought right.
        candidates: sensors of which some are chosen, each with all of its times; or observations by
            name.
        count: how many.
        criterion: "E": the worst combination of coefficients is known best; "D": the confidence
            region is smallest.
        present: what is measured anyway.
        names: the terms that matter; default: all of the library.

    Example:
        >>> import cffem as cf, numpy as np, sympy as sp
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_interval
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(anchor=cf.dt(u), terms={"u": u, "u_x": u.diff(cf.x)})
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_interval(MPI.COMM_SELF, 16), elements={u: ("Lagrange", 2)},
        ...     initial={u: sp.exp(-30 * (cf.x - 0.5)**2)},
        ...     boundary=[cf.Dirichlet(u, 0)], time=cf.Window(0, 0.1, steps=4))
        >>> model = cf.Model(library, {"u": 0.5, "u_x": 0.1}, experiment)
        >>> candidates = cf.Sensors(np.linspace(0.1, 0.9, 9), [u], noise=0.01)
        >>> sorted(cf.best_sensors(model, candidates, 2).names)  # on the slope, and at the peak
        [2, 4]
    """
    if criterion not in CRITERIA:
        raise InputError(f"the criterion is one of {', '.join(CRITERIA)}, not {criterion!r}")
    wanted = tuple(model.library.names if names is None else names)
    matrices = candidate_matrices(model, candidates, wanted)
    if not isinstance(count, int | np.integer) or not 1 <= count <= len(matrices):
        raise InputError(f"of {len(matrices)} candidates {count!r} cannot be chosen")
    null = null_columns(model, model.factual, wanted)
    kept = np.array([name not in null for name in wanted])
    held = np.zeros((0, len(wanted)))
    if present is not None:
        held = sensitivity_matrix(model.factual, model.observation(present), wanted)
    information = np.array([(m * kept).T @ (m * kept) for m in matrices.values()])
    chosen, value = choose(information, count, criterion, (held * kept).T @ (held * kept))
    labels = tuple(list(matrices)[i] for i in chosen)
    observation = _joined(candidates, labels)
    rows = np.concatenate([held, *(matrices[label] for label in labels)])
    notes = {"observation": repr(observation)}
    design = sensitivity_design(rows, wanted, model.coefficients, null, notes, unanchored(model))
    return SensorChoice(labels, observation, design, value, criterion)


def candidate_matrices(
    model: Model, candidates: Sensors | Mapping[str, Observation], names: tuple[str, ...]
) -> dict[Any, np.ndarray]:
    """The whitened sensitivities of each candidate, from one tangent sweep."""
    if isinstance(candidates, Sensors):
        operator = model.observation(candidates)
        if operator.noise.factor is not None:
            raise InputError("candidates whose noise is correlated cannot be chosen one by one")
        matrix = sensitivity_matrix(model.factual, operator, names)
        levels = None if model.experiment.time is None else model.times
        owners = np.array(candidates.placement(levels).sensors)
        return {i: matrix[owners == f"sensor {i + 1}"] for i in range(len(candidates.points))}
    if not isinstance(candidates, Mapping) or not candidates:
        raise InputError(
            "candidates are cf.Sensors of which some are chosen, or observations by name"
        )
    operators = {name: model.observation(one) for name, one in candidates.items()}
    whole = _joined(candidates, tuple(candidates))
    matrix = sensitivity_matrix(model.factual, model.observation(whole), names)
    ends = np.cumsum([len(operator) for operator in operators.values()])[:-1]
    return dict(zip(candidates, np.split(matrix, ends), strict=True))


def choose(
    information: np.ndarray, count: int, criterion: str, held: np.ndarray | None = None
) -> tuple[list[int], float]:
    """Greedy choice with exchanges among information matrices.

    Args:
        information: candidates × m × m.
        count: how many.
        criterion: "E" or "D".
        held: information that is there anyway.

    Example:
        >>> rows = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
        >>> sorted(choose(np.einsum("ki,kj->kij", rows, rows), 2, "E")[0])
        [0, 2]
    """
    base = np.zeros(information.shape[1:]) if held is None else held
    total = base + information.sum(axis=0)
    norms = np.sqrt(np.diag(total))
    scale = np.where(norms > 0, norms, np.inf)
    values, vectors = np.linalg.eigh(total / np.outer(scale, scale))
    seen = vectors[:, values > UNSEEN] / scale[:, None]
    parts = np.einsum("ia,kij,jb->kab", seen, information, seen)
    start = seen.T @ base @ seen

    def worth(index: Iterable[int]) -> tuple[float, float]:
        """Rank and volume first, until nothing is missing; then the criterion."""
        gram = start + sum((parts[i] for i in index), np.zeros_like(start))
        eigenvalues = np.maximum(np.linalg.eigvalsh(gram), 0.0)
        volume = float(np.sum(np.log(eigenvalues + MISSING)))
        smallest = float(eigenvalues.min(initial=np.inf))
        return (smallest if criterion == "E" and smallest > MISSING else 0.0, volume)

    chosen: list[int] = []
    for _ in range(count):
        free = [i for i in range(len(parts)) if i not in chosen]
        chosen.append(max(free, key=lambda i: worth([*chosen, i])))
    best = worth(chosen)
    for _ in range(MOST_EXCHANGES):
        free = [i for i in range(len(parts)) if i not in chosen]
        swaps = [
            [*chosen[:k], i, *chosen[k + 1 :]] for k, i in itertools.product(range(count), free)
        ]
        better = max(swaps, key=worth, default=chosen)
        if not worth(better) > best:
            break
        chosen, best = better, worth(better)
    return chosen, best[0] if criterion == "E" else best[1]


def _joined(
    candidates: Sensors | Mapping[str, Observation], labels: tuple[Any, ...]
) -> Observation:
    if isinstance(candidates, Sensors):
        return candidates.chosen(labels)
    observation = candidates[labels[0]]
    for label in labels[1:]:
        observation = observation + candidates[label]
    return observation
