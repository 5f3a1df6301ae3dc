"""Verdicts do not depend on the strategy: fifty random studies on small meshes, each decided
in every way there is.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

pytest.importorskip("dolfinx")

from random_studies import CLEAR, random_study

import cffem as cf
from cffem.bounds.refining import Refinement
from cffem.verdicts.until_decided import decide_by_refinement

SEEDS = range(50)
BATCH = 10
# Refinement starts on a mesh this much coarser and may spend this many unknowns times steps.
COARSER, BUDGET = 3, 6e3


def asked(epsilon):
    """What can be asked of a sweep, by name."""
    return {
        "difference or lock-step": {"accuracy": 1e-4},
        "the same, roughly": {"accuracy": 1e-2},
        "early exit": {"scores": "decide", "epsilon": epsilon},
    }


def exact_scores(study):
    """Scores of separate solves to working precision."""
    with study.model() as model:
        return {name: found.score for name, found in model.deletions(conditions="kept").items()}


def by_refinement(study, scores, epsilon):
    """The term next to the threshold, though not too close for a mesh's own error, and its verdict
    from coarse meshes up.

    Where the Laplacian is deleted nothing smooths the solution, and no margin of a small mesh
    covers that.
    """
    far = {name: abs(math.log(score / epsilon)) for name, score in scores.items() if name != "lap"}
    name = min(
        (name for name, distance in far.items() if distance > 0.18), key=far.get, default=None
    )
    if name is None:
        return None, None
    with study.model(coarser=COARSER) as model:
        refinement = Refinement(model, cf.Certification(epsilon=epsilon, budget=BUDGET))
        verdict = decide_by_refinement([name], epsilon, refinement)[name]
        refinement.destroy()
    return name, verdict


@pytest.mark.parametrize("first", SEEDS[::BATCH])
def test_verdicts_of_all_strategies_are_equal_on_random_studies(first):
    strategies, resolved = set(), 0
    for seed in range(first, first + BATCH):
        study = random_study(seed)
        with study.model() as model:
            exact = {
                name: found.score for name, found in model.deletions(conditions="kept").items()
            }
            epsilon = study.threshold(exact)
            assert all(abs(score / epsilon - 1) > CLEAR for score in exact.values())
            for way, demand in asked(epsilon).items():
                for name, found in model.deletions(**demand, conditions="kept").items():
                    assert (found.score > epsilon) == (exact[name] > epsilon), (seed, way, name)
                    assert found.status in ("solved", "decided")
                    strategies.add(found.strategy)
        name, verdict = by_refinement(study, exact, epsilon)
        if verdict is not None and verdict.decision != "unresolved":
            resolved += 1
            assert verdict.decision == ("relevant" if exact[name] > epsilon else "irrelevant"), (
                seed,
                name,
            )
    # The studies of every batch are of all classes, and most of them are decided from coarse meshes
    # up.
    assert strategies == {"own solve", "difference", "lock-step"}
    assert resolved >= 0.7 * BATCH


def body_of_groups(comm, path):
    expected = json.loads(Path(path).read_text())
    for seed, scores in expected.items():
        study = random_study(int(seed))
        epsilon = study.threshold(scores)
        with study.model(comm) as model:
            # One demand for each study, all three in turn.
            demand = list(asked(epsilon).values())[int(seed) % 3]
            for name, found in model.deletions(
                **demand, groups=comm.size, conditions="kept"
            ).items():
                assert (found.score > epsilon) == (scores[name] > epsilon), (seed, name)


def in_groups(on_ranks, tmp_path, seeds):
    (tmp_path / "scores.json").write_text(
        json.dumps({seed: exact_scores(random_study(seed)) for seed in seeds})
    )
    on_ranks(2, body_of_groups, str(tmp_path / "scores.json"), timeout=900)


@pytest.mark.mpi
def test_verdicts_of_groups_of_ranks_are_those_of_one(on_ranks, tmp_path):
    in_groups(on_ranks, tmp_path, (5, 25, 34))  # one of each strategy


@pytest.mark.mpi
@pytest.mark.slow
def test_verdicts_of_groups_of_ranks_are_those_of_one_on_all_studies(on_ranks, tmp_path):
    in_groups(on_ranks, tmp_path, SEEDS)
