"""What does not change a problem changes no score and no verdict: order, names, units, ranks,
halves, spurious terms.
"""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from net_studies import ADDED, DrawnStudy, Way, drawn_study

import cffem as cf
from cffem import x

SEEDS, FEW = range(20), (0, 5)
# Scores agree to this part of the norm of the solution; direct solves and Newton's method leave
# less.
SAME = 1e-8
PLAIN = Way()


def scores(study: DrawnStudy, way: Way = PLAIN, **demand: object) -> dict[str, float]:
    """Scores relative to the norm of the factual solution, nan where a deletion is unsolvable."""
    with study.model(way) as model:
        size = model.factual.norm()
        return {name: found.score / size for name, found in model.deletions(**demand).items()}


def norm(study: DrawnStudy, way: Way = PLAIN) -> float:
    """The norm of the factual solution in unit scales."""
    with study.model(way) as model:
        return model.factual.norm() / study.unit_of_scores(way)


def assert_same(
    found: dict[str, float], expected: dict[str, float], what: object, tolerance: float = SAME
) -> None:
    assert {*found} == {*expected}, what
    for name, score in expected.items():
        assert math.isnan(found[name]) == math.isnan(score), (what, name, found[name], score)
        assert math.isnan(score) or abs(found[name] - score) <= tolerance * max(1.0, score), (
            what,
            name,
            found[name],
            score,
        )


def permuted(study: DrawnStudy, seed: int) -> tuple[str, ...]:
    return tuple(map(str, np.random.default_rng(seed).permutation([*study.coefficients])))


def units(seed: int) -> Way:
    """Units of length, time and field from 1e-9 to 1e9."""
    length, time, size = 10.0 ** np.random.default_rng([seed, 7]).uniform(-9, 9, size=3)
    return Way(length=float(length), time=float(time), size=float(size))


def check_order_names_and_spurious_terms(seed: int) -> None:
    study = drawn_study(seed)
    expected = scores(study)
    added = [*ADDED][seed % (3 if study.order else 2)]
    for way in (Way(order=permuted(study, seed)), Way(name="zeta"), Way(added=added)):
        assert_same(scores(study, way), expected, (seed, way))


def check_units(seed: int) -> None:
    study, way = drawn_study(seed), units(seed)
    assert norm(study, way) == pytest.approx(norm(study), rel=1e-8), (seed, way)
    assert_same(scores(study, way), scores(study), (seed, way))


def check_halves(seed: int) -> None:
    study = drawn_study(seed)
    for name in study.coefficients:
        with study.model(PLAIN) as model, study.model(Way(split=name)) as other:
            assert other.factual.norm() == pytest.approx(model.factual.norm(), rel=1e-8), (
                seed,
                name,
            )
            try:
                whole = model.factual.distance(model.solve(cf.delete(name)))
            except cf.SolveError:
                with pytest.raises(cf.SolveError):
                    other.solve(cf.delete(f"{name}, left", f"{name}, right"))
                continue
            halves = other.factual.distance(
                other.solve(cf.delete(f"{name}, left", f"{name}, right"))
            )
            assert abs(halves - whole) <= 1e-7 * max(model.factual.norm(), whole), (seed, name)


def check_one_by_one_and_strategies(seed: int) -> None:
    study = drawn_study(seed)
    with study.model(PLAIN) as model:
        size, whole = model.factual.norm(), model.deletions()
        for name in reversed(study.coefficients):
            alone = model.deletions([name])[name]
            assert alone.status == whole[name].status
            assert_same({name: alone.score / size}, {name: whole[name].score / size}, seed)
        for accuracy in (1e-2, 1e-4, 1e-8):
            for name, found in model.deletions(accuracy=accuracy).items():
                assert (found.status == "unsolvable") == (whole[name].status == "unsolvable"), (
                    seed,
                    name,
                )
                if found.status != "unsolvable":
                    # Strategies may miss the accuracy by a little, where they say so in the error
                    # of the score.
                    bearable = max(
                        max(accuracy, SAME) * whole[name].score, found.error, 1e-3 * SAME * size
                    )
                    assert abs(found.score - whole[name].score) <= bearable, (seed, name, accuracy)
                    assert found.error <= 100 * max(accuracy, SAME) * max(
                        whole[name].score, 1e-3 * size
                    ), (seed, name, accuracy)


def check_interventions(seed: int) -> None:
    """An intervention leads to the solution of the problem that it makes."""
    study = drawn_study(seed)
    u, name = cf.ScalarField("u"), next(iter(study.coefficients))
    library, coefficients = study.written(PLAIN)
    experiment = study.experiment(PLAIN)
    forcing, start = {u: 1 + x}, {u: sp.sin(sp.pi * x) ** 2}
    on = next(c for c in experiment.boundary if isinstance(c, cf.Dirichlet)).on
    others = [c for c in experiment.boundary if not isinstance(c, cf.Dirichlet)]
    changed = {
        cf.scale(name, 0.5): (coefficients | {name: coefficients[name] / 2}, experiment),
        cf.set(name, 0.3): (coefficients | {name: 0.3}, experiment),
        cf.force(forcing): (coefficients, dataclasses.replace(experiment, forcing=forcing)),
        cf.boundary(cf.Dirichlet(u, x / 4, on=on)): (
            coefficients,
            dataclasses.replace(experiment, boundary=[cf.Dirichlet(u, x / 4, on=on), *others]),
        ),
    }
    if study.order:
        began = dataclasses.replace(experiment, initial={**experiment.initial, **start})
        changed[cf.start(start)] = (coefficients, began)
    with cf.Model(library, coefficients, experiment) as model:
        for intervention, (numbers, made) in changed.items():
            with cf.Model(library, numbers, made) as other:
                expected = [np.array(state) for state in other.solve().states]
            found = [np.array(state) for state in model.solve(intervention).states]
            gap = np.abs(np.array(found) - np.array(expected)).max()
            assert gap <= SAME * np.abs(expected).max(), (seed, intervention, gap)


def verdicts(study: DrawnStudy, way: Way) -> dict[str, str]:
    library, coefficients = study.written(way)
    certification = cf.Certification(epsilon=study.relative, relative=True)
    report = cf.Study(
        library, study.experiment(way), coefficients=coefficients, certification=certification
    ).run()
    return {name: term.decision for name, term in report.terms.items() if coefficients[name]}


def check_verdicts(seed: int) -> None:
    study = drawn_study(seed)
    expected = verdicts(study, PLAIN)
    for way in (
        Way(order=permuted(study, seed)),
        Way(name="zeta"),
        Way(added=[*ADDED][seed % 2]),
        units(seed),
    ):
        assert verdicts(study, way) == expected, (seed, way)


CHECKS = {
    "order, names and spurious terms": check_order_names_and_spurious_terms,
    "units": check_units,
    "halves": check_halves,
    "one by one and in any strategy": check_one_by_one_and_strategies,
    "interventions": check_interventions,
}


@pytest.mark.parametrize("seed", FEW)
@pytest.mark.parametrize("what", CHECKS)
def test_scores_depend_on_the_problem_only(what, seed):
    CHECKS[what](seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("what", CHECKS)
def test_scores_of_all_studies_depend_on_the_problem_only(what, seed):
    CHECKS[what](seed)


def test_verdicts_depend_on_the_problem_only():
    check_verdicts(FEW[0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_verdicts_of_all_studies_depend_on_the_problem_only(seed):
    check_verdicts(seed)


def body_of_ranks(comm, seeds):
    found = {seed: scores(drawn_study(seed), Way(comm=comm)) for seed in json.loads(seeds)}
    if comm.rank == 0:
        print("SCORES", json.dumps(found))


def check_ranks(on_ranks, ranks, seeds):
    said = on_ranks(ranks, body_of_ranks, json.dumps([*seeds]), timeout=600)
    (line,) = (line for line in said.splitlines() if line.startswith("SCORES"))
    for seed, found in json.loads(line.removeprefix("SCORES")).items():
        assert_same(found, scores(drawn_study(int(seed))), (seed, ranks))


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [2, 3])
def test_scores_are_the_same_on_any_number_of_ranks(on_ranks, ranks):
    check_ranks(on_ranks, ranks, FEW[:2])


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_scores_of_all_studies_are_the_same_on_any_number_of_ranks(on_ranks, ranks):
    check_ranks(on_ranks, ranks, SEEDS)
