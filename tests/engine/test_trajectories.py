"""Trajectories in memory and on disk are the same numbers, for everything that is made of them."""

from __future__ import annotations

import gc
import os
import tracemalloc

import numpy as np
import pytest

pytest.importorskip("dolfinx")

from derivative_problems import PROBLEMS
from mpi4py import MPI

import cffem as cf
from cffem.engine.time.trajectories import DiskLevels, on_disk


@pytest.mark.parametrize("name", ["heat", "navier_stokes", "maxwell", "coupled"])
def test_scores_responses_and_adjoints_do_not_depend_on_where_trajectories_are(name):
    found = []
    for place in ("memory", "disk"):
        model, observable = PROBLEMS[name]()
        model.trajectories = place
        with model:
            assert isinstance(model.factual.states, DiskLevels) == (place == "disk")
            scores = {term: deletion.score for term, deletion in model.deletions(keep=True).items()}
            linearised = {term: float(response) for term, response in model.linearised().items()}
            adjoint = dict(model.observable_scores(observable).sensitivities)
            found.append((scores, linearised, adjoint))
    for memory, disk in zip(*found, strict=True):
        assert disk == pytest.approx(memory, rel=1e-14, nan_ok=True)
    # The numbers went through the file bit by bit; what is left is the order of sums in
    # multithreaded solves, if any.


def test_levels_are_kept_bit_by_bit_and_indexed_like_a_list():
    rng = np.random.default_rng(0)
    arrays, levels = list(rng.standard_normal((7, 5))), DiskLevels(5)
    for array in arrays:
        levels.append(array)
    for index in (0, 3, -1, -7):
        assert levels[index].tobytes() == arrays[index].tobytes()
    assert [level.tobytes() for level in levels[1:6:2]] == [
        array.tobytes() for array in arrays[1:6:2]
    ]
    assert len(list(levels)) == 7
    with pytest.raises(IndexError):
        levels[7]
    with pytest.raises(ValueError, match="5 values"):
        levels.append(np.zeros(4))


def test_scratch_files_go_with_their_levels():
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        DiskLevels(10).append(np.zeros(10))
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_large_trajectories_go_to_disk_by_themselves_and_small_ones_do_not():
    assert not on_disk("auto", 100, 1000, 1)
    assert on_disk("auto", 10**6, 10**6, 1)
    assert on_disk("disk", 1, 1, 1)
    assert not on_disk("memory", 10**9, 10**9, 1)
    model, _ = PROBLEMS["heat"]()
    with pytest.raises(cf.InputError, match="'memory', on 'disk'"):
        cf.Model(model.library, model.coefficients, model.experiment, trajectories="tape")
    model.destroy()


@pytest.mark.parametrize(
    ("name", "accuracy"), [("transient", 0.0), ("transient", 1e-4), ("nonlinear", 1e-4)]
)
def test_memory_of_a_sweep_does_not_grow_with_the_time_steps(name, accuracy):
    from benchmarks.sweep.sweep_problems import PROBLEMS as SWEEPS
    from cffem.engine.deletion.difference_systems import DIFFERENCES

    def memory(steps, place="disk"):
        """What the factual trajectory holds, and the most that the sweep takes on top of it."""
        with SWEEPS[name]().model(16, steps, MPI.COMM_SELF, trajectories=place) as model:
            gc.collect()
            tracemalloc.start()
            # Compiling and assembling take more for a moment than a sweep.
            model.deletions(["u"], accuracy=accuracy)
            # What other tests left to the collector would be counted in one run only.
            gc.collect()
            held = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            model.deletions(["u", "xu"], accuracy=accuracy)
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return np.array([held, most - held]), 8 * model.spaces.size

    memory(2)  # what is made once and kept
    # Sources are computed some stages ahead, and both runs are long enough to do that twice.
    twice = 2 * DIFFERENCES.ahead
    (few, state), (many, _) = memory(twice + 2), memory(twice + 20)
    assert np.all(
        many - few < 18 * state / 2
    )  # not one more array for every second of the further steps
    kept = (
        memory(2 * DIFFERENCES.ahead + 20, "memory")[0]
        - memory(2 * DIFFERENCES.ahead + 2, "memory")[0]
    )
    assert kept.sum() > 18 * state  # as it is where they are kept
