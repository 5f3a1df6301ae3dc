# SPDX-License-Identifier: MIT
"""The sensitivity design: 𝒪 ∂u/∂α_j in units of the noise, one column for each term.

The matrix S = 𝒪 L_u⁻¹ T_j is the operator-evaluation design of solution space. Its rank says which
coefficients sensors can tell apart, its null vectors are the alias groups, (SᵀS)⁻¹ is what the
noise allows before any reading exists. Multipliers are eliminated by the solve; amplitudes of
uncertain data are nuisance columns, and what they can explain is taken out of the others. Two kinds
of columns are zero in exact arithmetic and are made so: terms that vanish on the constraint class,
and terms that vanish on the solution up to rounding. An equation that neither an anchor nor a
forcing holds fixes only ratios of its coefficients, S α = 0: the alias group of that null vector
has a name, "scale".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.engine.response.data_responses import amplitude_responses
from cffem.engine.response.observation_operator import ObservationOperator
from cffem.engine.response.tangent import responses
from cffem.engine.time.amplitudes import modes_of

if TYPE_CHECKING:
    from petsc4py import PETSc

    from cffem.engine.model import Model
    from cffem.engine.solution import Solution
    from cffem.symbols.problem.observations import Observation

# A term whose load is smaller than this share of that on a state of the same size with random signs
# vanishes up to rounding.
VANISHING = 1e-11
# Directions of scaled columns with less energy than this are null up to the accuracy of the solves.
NULL = 1e-13
# |S α| below this share of Σ |S_j α_j| is zero up to the accuracy of Newton's method.
INVARIANT = 1e-7
SCALE = "scale"


def sensitivity_matrix(
    solution: Solution, operator: ObservationOperator, names: Sequence[str]
) -> np.ndarray:
    """𝒪 ∂u/∂α_j in units of the noise, readings × terms; one sweep of tangent solves.

    Args:
        solution: a solution with its stages.
        operator: what is observed.
        names: the terms.
    """
    paths, _ = responses(solution, dict.fromkeys(names, 1.0))
    solution.model.counts["sensitivities"] += len(names)
    columns = operator.derivatives(solution, [paths[name] for name in names])
    return operator.noise.whitened(columns)


def nuisance_matrix(solution: Solution, operator: ObservationOperator) -> np.ndarray:
    """𝒪 ∂u/∂a_k in units of the noise, readings × amplitudes of uncertain data; no columns where
    nothing is uncertain.

    Args:
        solution: a solution with its stages.
        operator: what is observed.
    """
    if not solution.model.experiment.uncertain:
        return np.zeros((len(operator), 0))
    paths = amplitude_responses(solution)
    return operator.noise.whitened(operator.derivatives(solution, paths))


def without_nuisance(matrix: np.ndarray, nuisance: np.ndarray) -> np.ndarray:
    """Columns after nuisance columns have taken their part: what is orthogonal to them.

    Example:
        >>> without_nuisance(np.array([[1.0], [1.0]]), np.array([[2.0], [0.0]]))
        array([[0.],
               [1.]])
    """
    if not nuisance.shape[1]:
        return matrix
    size = np.linalg.norm(nuisance, axis=0)
    scaled = nuisance[:, size > 0] / size[size > 0]
    left, values, _ = np.linalg.svd(scaled, full_matrices=False)
    basis = left[:, values > np.sqrt(NULL) * max(values.max(initial=0.0), 1e-300)]
    left_over = matrix - basis @ (basis.T @ matrix)
    # What is left of a column that they explain is rounding.
    kept = np.linalg.norm(left_over, axis=0) > np.sqrt(NULL) * np.linalg.norm(matrix, axis=0)
    return left_over * kept


def sensitivity_design(
    matrix: np.ndarray,
    names: Sequence[str],
    coefficients: Mapping[str, float],
    null: Mapping[str, str],
    about: Mapping[str, object],
    unanchored: Mapping[str, Sequence[str]],
) -> Any:
    """A `Design` of whitened sensitivity columns; its anchor values are S α.

    Args:
        matrix: readings × terms.
        names: the terms.
        coefficients: α at which the columns hold.
        null: the reason for each column that is zero in exact arithmetic.
        about: notes of the design.
        unanchored: the terms of each equation without anchor, of which ratios may be all that is
            fixed, by the name of that invariance.
    """
    # By its public name, since the wings do not know each other.
    import cffem

    matrix = matrix * np.array([name not in null for name in names])
    alpha = np.array([coefficients[name] for name in names])
    design = cffem.Design.from_matrix(matrix, matrix @ alpha, names)
    invariances = {}
    for label, terms in unanchored.items():
        mine = np.array([name in terms and name not in null for name in names])
        size = np.linalg.norm(np.abs(matrix * alpha * mine).sum(axis=1))
        if size > 0 and np.linalg.norm(matrix @ (alpha * mine)) <= INVARIANT * size:
            kept = zip(names, alpha, mine, strict=True)
            invariances[label] = {name: float(a) for name, a, own in kept if own}
    design.notes.update(
        kind="sensitivity", tolerance=NULL, null=dict(null), invariances=invariances, **about
    )
    return design


def sensitivities(
    model: Model, observation: Observation, names: Iterable[str] | None = None
) -> Any:
    """What sensors feel of every coefficient at the factual solution, as a `Design`.

    Args:
        model: the model.
        observation: the sensors.
        names: the terms; default: all of the library, those with coefficient zero included.
    """
    wanted = tuple(model.library.names if names is None else names)
    operator = model.observation(observation)
    matrix = sensitivity_matrix(model.factual, operator, wanted)
    about = {"observation": repr(observation), "noise known": operator.noise.known}
    if model.experiment.uncertain:
        modes = modes_of(model)
        # A prior counts in units of the noise, which must be known for that.
        spread = np.array(modes.deviations) if operator.noise.known else np.full(len(modes), np.inf)
        held = np.isfinite(spread)
        rows = np.diag(1 / spread)[held]
        nuisance = np.concatenate([nuisance_matrix(model.factual, operator), rows])
        matrix = np.concatenate([matrix, np.zeros((len(rows), len(wanted)))])
        matrix = without_nuisance(matrix, nuisance)
        about["projected out"] = tuple(modes.labels)
    return sensitivity_design(
        matrix,
        wanted,
        model.coefficients,
        null_columns(model, model.factual, wanted),
        about,
        unanchored(model),
    )


def unanchored(model: Model) -> dict[str, tuple[str, ...]]:
    """The terms of each equation without anchor, by what its invariance is called."""
    equations = model.library.equations
    free = [unknown for unknown, equation in equations.items() if equation.time_order == 0]
    return {
        SCALE if len(equations) == 1 else f"{SCALE} of {unknown}": tuple(
            name for name in model.library.names if model.library.locate(name)[0] == unknown
        )
        for unknown in free
    }


def null_columns(
    model: Model, solution: Solution, names: Sequence[str], thorough: bool = True
) -> dict[str, str]:
    """The terms whose columns are zero in exact arithmetic, each with the reason.

    Args:
        model: the model.
        solution: where the columns are taken.
        names: the terms.
        thorough: whether several stages are looked at, or the last one only.
    """
    stages = len(solution.stages or ())
    looked = {0, stages // 2, stages - 1} if thorough else {stages - 1}
    found = dict.fromkeys(_vanishing(solution, names, sorted(looked)), "vanishes on this solution")
    if model.experiment.constraint is not None:
        for null in model.once("class nulls", lambda: model.constraint_nulls(trajectory=False)):
            if null.term in names:
                found[null.term] = "vanishes on the constraint class"
    return found


def _vanishing(solution: Solution, names: Sequence[str], looked: Sequence[int]) -> list[str]:
    """Terms that are zero up to rounding at some stages of a solution."""
    model, stages = solution.model, solution.stages
    assert stages is not None
    signs = np.random.default_rng(0).choice([-1.0, 1.0], model.spaces.owned)
    new = model.equation.new_vector
    vectors, out = (new(), new(), new()), new()
    sizes = np.zeros((2, len(names)))
    for index in looked:
        _, _, values, time = stages[index]
        for which, factor in enumerate((1.0, signs)):
            place: list[PETSc.Vec] = [None, None, None]
            for k, (vector, value) in enumerate(zip(vectors, values, strict=True)):
                if value is not None:
                    vector.array[:] = factor * value
                    place[k] = vector
            for j, name in enumerate(names):
                model.equation.term_vector(name, (place[0], place[1], place[2]), time, out)
                sizes[which, j] += float(np.sum(out.array_r**2))
    for vector in (*vectors, out):
        vector.destroy()
    loads, references = np.sqrt(model.comm.allreduce(sizes))
    return [
        name
        for name, load, reference in zip(names, loads, references, strict=True)
        if load <= VANISHING * reference
    ]
