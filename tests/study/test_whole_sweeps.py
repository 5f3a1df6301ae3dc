"""A study asks for all deletions of an experiment at once, shares what they share, and takes each
as soon as it is there.
"""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI
from study_support import TOML, result, written

from cffem.engine.deletion import difference, rank_groups
from cffem.engine.deletion.outcomes import Deletion
from cffem.engine.model import Model
from cffem.study.run.checkpoint import Checkpoint
from cffem.study.run.progress import Progress
from cffem.study.run.settings import Settings, using
from cffem.study.toml.study_file import read_study

ACCURATE = TOML.split("[observables.mass]")[0].replace(
    "budget = 1", 'budget = 1000\nscores = "decide"'
)


@pytest.fixture(autouse=True)
def without_pages(monkeypatch):
    """Pages are drawn in other tests."""
    monkeypatch.setattr(
        "cffem.study.report.page.as_page", lambda report, drawing=None: "<!doctype html>"
    )


class Steps(Progress):
    """Writes down which step of which piece of work was shown."""

    def __init__(self):
        super().__init__()
        self.shown = Counter()

    def step(self, level, iterations):
        super().step(level, iterations)
        self.shown[self.stage, self.term] += 1


def counted(monkeypatch):
    """How often factors were made and sweeps asked for."""
    count = Counter()
    make, ask = difference.Differences.__init__, Model.interventions

    def made(self, model):
        count["factors", len(model.times) - 1] += 1
        make(self, model)

    def asked(self, changes, *rest, **options):
        count["sweeps"] += 1
        count["deletions"] += len(changes)
        return ask(self, changes, *rest, **options)

    monkeypatch.setattr(difference.Differences, "__init__", made)
    monkeypatch.setattr(Model, "interventions", asked)
    return count


def test_deletions_of_an_experiment_share_factors_and_so_do_their_error_bounds(
    tmp_path, monkeypatch
):
    count, steps = counted(monkeypatch), Steps()
    study = read_study(written(tmp_path, ACCURATE), MPI.COMM_SELF)
    with using(Settings(progress=steps)):
        study.run(tmp_path / "out")
    assert count["sweeps"] == 1
    assert count["deletions"] == 3
    # The user's model, and coarser ones with two and four times the time step where bars ask them.
    assert count["factors", 8] == 1
    assert all(made == 1 for key, made in count.items() if key[0] == "factors")
    assert {steps.shown["deletion", term] for term in ("u", "u_x", "lap")} == {9}


class Crash(BaseException):
    """Stands for the end of the process."""


def test_a_run_that_ends_in_the_middle_of_a_sweep_keeps_what_was_handed_over(tmp_path, monkeypatch):
    study, out = read_study(written(tmp_path, ACCURATE), MPI.COMM_SELF), tmp_path / "out"
    study.run(tmp_path / "undisturbed")
    store = Checkpoint.store

    def crash(self, key, fact):
        if key == "deletion/experiment 1/u_x":
            raise Crash
        return store(self, key, fact)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "store", crash)
        with pytest.raises(Crash):
            study.run(out)
    count = counted(monkeypatch)
    study.run(out, resume=True)
    assert count["deletions"] == 2
    assert result(out) == result(tmp_path / "undisturbed")


def test_of_large_studies_no_more_than_one_deleted_trajectory_is_in_memory(tmp_path, monkeypatch):
    import gc
    import weakref

    from cffem.study.run import running
    from cffem.study.run.stations.deleting import Deletions

    monkeypatch.setattr(running, "LARGEST_HELD", 0)

    take, alive = Deletions.take, []

    def taken(self, kind, name, deletion: Deletion):
        gc.collect()
        assert sum(reference() is not None for reference in alive) <= 1
        alive.append(weakref.ref(deletion.solution))
        take(self, kind, name, deletion)

    monkeypatch.setattr(Deletions, "take", taken)
    read_study(written(tmp_path, ACCURATE), MPI.COMM_SELF).run(tmp_path / "out")
    assert len(alive) == 3


def body_of_groups(comm, folder):
    """Two ranks that delete for themselves give the report of one."""
    from pathlib import Path

    import cffem.study.report.page

    cffem.study.report.page.as_page = lambda report, drawing=None: "<!doctype html>"
    rank_groups.SMALLEST = 10
    seen = []
    group_of = rank_groups.group_of
    import cffem.engine.deletion.sweep as sweep

    sweep.group_of = lambda model, groups: (seen.append(groups), group_of(model, groups))[1]
    read_study(Path(folder) / "study.toml", comm).run(Path(folder) / "two")
    assert seen == [2]


@pytest.mark.mpi
def test_two_ranks_share_the_deletions_of_a_study(tmp_path, on_ranks):
    read_study(written(tmp_path, ACCURATE), MPI.COMM_SELF).run(tmp_path / "one")
    on_ranks(2, body_of_groups, str(tmp_path))
    one, two = result(tmp_path / "one"), result(tmp_path / "two")
    for here, there in zip(two["terms"], one["terms"], strict=True):
        assert here["decision"] == there["decision"]
        assert here["deletion"] == pytest.approx(there["deletion"], rel=1e-4)


def test_small_trajectories_are_not_read_back_from_the_folder(tmp_path, monkeypatch):
    from cffem.engine.model import Model

    def refuse(*_):
        raise AssertionError("a trajectory was read back")

    monkeypatch.setattr(Model, "restore", refuse)
    read_study(written(tmp_path, ACCURATE), MPI.COMM_SELF).run(tmp_path / "out")
