"""A run that ends anywhere goes on there: the resumed study has the same report, and repeats
only what was unfinished.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI
from study_support import command, result, written

import cffem as cf
from cffem.engine.model import Model
from cffem.study.run.checkpoint import Checkpoint, OutputError
from cffem.study.toml.study_file import read_study


@pytest.fixture(scope="module", autouse=True)
def without_pages():
    """Pages are drawn in other tests; here they would be most of the work."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "cffem.study.report.page.as_page", lambda report, drawing=None: "<!doctype html>"
        )
        yield


@pytest.fixture(scope="module")
def finished(without_pages, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    study_in(folder).run(folder / "out")
    return folder


@pytest.fixture(scope="module")
def undisturbed(finished):
    return result(finished / "out")


def study_in(folder, *overrides):
    return read_study(written(folder), MPI.COMM_SELF, overrides)


class Crash(BaseException):
    """Stands for the end of the process: nothing of cffem may catch it."""


def test_a_run_that_ends_after_any_piece_of_work_is_resumed_to_the_same_report(
    tmp_path, monkeypatch
):
    study, out = study_in(tmp_path, "certification.budget=1000"), tmp_path / "out"
    study.run(tmp_path / "undisturbed")
    store = Checkpoint.store

    def crash_once(self, key, fact):
        # The next piece of work is done, but the process ends before or after it is stored, in
        # turn.
        if len(self.facts) % 2:
            raise Crash(key)
        store(self, key, fact)
        raise Crash(key)

    moments = 0
    while not (out / "report.json").exists():
        before = len(list(out.glob("checkpoint/facts/*.json")))
        monkeypatch.setattr(
            Checkpoint, "store", crash_once if moments % 2 == 0 else store_one_then(store)
        )
        try:
            study.run(out, resume=moments > 0)
        except Crash:
            moments += 1
            assert len(list(out.glob("checkpoint/facts/*.json"))) >= before
    assert moments >= 8
    assert result(out) == result(tmp_path / "undisturbed")
    kinds = [term["certificate"] for term in result(out)["terms"]]
    assert kinds.count("guaranteed") + kinds.count("estimated") == 3


def store_one_then(store):
    """Let one piece of work be stored, then end at the next."""
    done = []

    def crash_at_second(self, key, fact):
        if done:
            raise Crash(key)
        done.append(key)
        return store(self, key, fact)

    return crash_at_second


def test_resuming_repeats_no_finished_solve(tmp_path, undisturbed, monkeypatch):
    study, out = study_in(tmp_path), tmp_path / "out"
    store, solved = Checkpoint.store, []
    monkeypatch.setattr(
        Checkpoint,
        "store",
        lambda self, key, fact: end_at(self, key, fact, store, "deletion/experiment 1/lap"),
    )
    with pytest.raises(Crash):
        study.run(out)
    monkeypatch.setattr(Checkpoint, "store", store)
    march = Model.run
    monkeypatch.setattr(
        Model,
        "run",
        lambda self, change, *rest: (solved.append(str(change)), march(self, change, *rest))[1],
    )
    study.run(out, resume=True)
    assert solved == ["delete('lap')"]
    assert result(out) == undisturbed


def end_at(checkpoint, key, fact, store, last):
    if key == last:
        raise Crash(key)
    return store(checkpoint, key, fact)


def killed_at_random_moments(folder, kills, seed):
    """Start and SIGKILL a study again and again, then let it finish; the report and how often
    it was killed while it worked.
    """
    path, out, moments = written(folder), folder / "out", random.Random(seed)
    struck = 0
    for _ in range(kills):
        process = subprocess.Popen(
            command("run", path, "--out", out, "--resume"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        process.stderr.readline()  # the first line of progress: from here on it works
        time.sleep(moments.uniform(0.0, 0.8))
        process.send_signal(signal.SIGKILL)
        struck += process.wait() == -signal.SIGKILL and not (out / "report.json").exists()
        process.stderr.close()
        if (out / "report.json").exists():
            json.loads((out / "report.json").read_text())
    read_study(path, MPI.COMM_SELF).run(out, resume=True)
    return result(out), struck


def test_killing_at_random_moments_changes_nothing(tmp_path, undisturbed):
    found, struck = killed_at_random_moments(tmp_path, kills=4, seed=1)
    assert struck
    assert found == undisturbed


@pytest.mark.slow
def test_killing_at_forty_random_moments_changes_nothing(tmp_path, undisturbed):
    for seed in range(8):
        folder = tmp_path / str(seed)
        folder.mkdir()
        found, struck = killed_at_random_moments(folder, kills=5, seed=seed)
        assert struck
        assert found == undisturbed


# Folders
# --------------------------------------------------------------------------------------------------


def test_a_changed_study_is_refused_with_the_difference(finished, tmp_path):
    out = finished / "out"
    before = (out / "report.json").read_bytes()
    changed = study_in(tmp_path, "coefficients.lap=0.06", "experiments.1.time.steps=9")
    with pytest.raises(
        OutputError, match=r"coefficients\.lap was 0\.05 and is 0\.06.*steps was 8 and is 9"
    ):
        changed.run(out, resume=True)
    assert (out / "report.json").read_bytes() == before


def test_a_folder_with_results_of_others_is_refused_and_left_alone(tmp_path):
    (tmp_path / "report.json").write_text("somebody else's")
    with pytest.raises(OutputError, match="another study"):
        study_in(tmp_path).run(tmp_path)
    assert (tmp_path / "report.json").read_text() == "somebody else's"


def test_an_unfinished_run_is_not_thrown_away_by_accident(tmp_path, monkeypatch):
    study, out, store = study_in(tmp_path), tmp_path / "out", Checkpoint.store
    monkeypatch.setattr(
        Checkpoint, "store", lambda self, key, fact: end_at(self, key, fact, store, "design/all")
    )
    with pytest.raises(Crash):
        study.run(out)
    monkeypatch.setattr(Checkpoint, "store", store)
    with pytest.raises(OutputError, match="unfinished run of this study; resume it"):
        study.run(out)


def test_a_finished_study_can_be_run_again(finished, undisturbed):
    study_in(finished).run(finished / "out")
    assert result(finished / "out") == undisturbed


def test_two_runs_in_one_folder_are_refused(tmp_path):
    first = Checkpoint(MPI.COMM_SELF, tmp_path, {"a": 1})
    with pytest.raises(OutputError, match="another run is writing"):
        Checkpoint(MPI.COMM_SELF, tmp_path, {"a": 1}, resume=True)
    first.close(finished=False)
    Checkpoint(MPI.COMM_SELF, tmp_path, {"a": 1}, resume=True).close(finished=False)


def test_a_full_disk_is_one_sentence_and_what_is_finished_stays(tmp_path, undisturbed, monkeypatch):
    study, out, fsync, calls = study_in(tmp_path), tmp_path / "out", os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > 6:
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left on device; make room and resume"):
        study.run(out)
    monkeypatch.setattr(os, "fsync", fsync)
    assert list(out.glob("checkpoint/facts/*.json"))
    study.run(out, resume=True)
    assert result(out) == undisturbed


def test_checkpoints_hold_no_pickles(tmp_path, undisturbed, monkeypatch):
    study, out, store = study_in(tmp_path), tmp_path / "out", Checkpoint.store
    monkeypatch.setattr(
        Checkpoint,
        "store",
        lambda self, key, fact: end_at(self, key, fact, store, "residuals/experiment 1"),
    )
    with pytest.raises(Crash):
        study.run(out)
    kinds = {path.suffix for path in (out / "checkpoint").rglob("*") if path.is_file()}
    assert kinds == {".json", ".npz"}


def two_studies_side_by_side(comm, folder):
    """Ranks 0 and 1 run one study, rank 2 another, as parts of somebody else's program."""
    from pathlib import Path

    import cffem.study.report.page

    cffem.study.report.page.as_page = lambda report, drawing=None: "<!doctype html>"
    group = comm.Split(comm.rank // 2)
    out = Path(folder) / f"group {comm.rank // 2}"
    study = read_study(
        Path(folder) / "study.toml", group, () if comm.rank < 2 else ("coefficients.lap=0.5",)
    )
    report = study.run(out)
    assert report.sections["cost"]["ranks"] == group.size


@pytest.mark.mpi
def test_studies_run_side_by_side_on_their_own_communicators_with_the_same_verdicts(
    tmp_path, undisturbed, on_ranks
):
    written(tmp_path)
    printed = on_ranks(3, two_studies_side_by_side, str(tmp_path), timeout=300)
    assert not printed.strip()
    check_same(result(tmp_path / "group 0"), undisturbed)
    assert result(tmp_path / "group 1")["terms"] != undisturbed["terms"]


@pytest.mark.mpi
def test_three_ranks_finish_what_one_has_begun(tmp_path, undisturbed, mpirun):
    path, out, store = written(tmp_path), tmp_path / "out", Checkpoint.store
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Checkpoint,
            "store",
            lambda self, key, fact: end_at(self, key, fact, store, "deletion/experiment 1/lap"),
        )
        with pytest.raises(Crash):
            study_in(tmp_path).run(out)
    done = mpirun(3, *command("run", path, "--out", out, "--resume", "--quiet"), timeout=300)
    assert done.returncode == 0, done.stdout[-3000:]
    check_same(result(out), undisturbed)


def check_same(found, expected):
    """Same decisions, and the same numbers up to the order of sums."""
    for here, there in zip(found["terms"], expected["terms"], strict=True):
        assert here["decision"] == there["decision"]
        assert here["deletion"] == pytest.approx(there["deletion"], rel=1e-10)
        assert here["margin"] == pytest.approx(there["margin"], rel=1e-6)
    assert {k: v for k, v in found["sets"].items() if k != "verdicts"} == {
        k: v for k, v in expected["sets"].items() if k != "verdicts"
    }


KILLED = """
import os, signal, sys, threading
from cffem.cli import main
import cffem.study.toml.study_file
threading.Timer(float(sys.argv[1]), lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
code = main(sys.argv[2:])
os._exit(code)
"""


@pytest.mark.mpi
@pytest.mark.slow
def test_killing_all_ranks_at_random_moments_changes_nothing(tmp_path, undisturbed, mpirun):
    moments = random.Random(3)
    for number in range(8):
        folder = tmp_path / str(number)
        folder.mkdir()
        path, out = written(folder), folder / "out"
        arguments = ("run", path, "--out", out, "--resume", "--quiet")
        for _ in range(5):
            mpirun(2, sys.executable, "-c", KILLED, moments.uniform(0.2, 4.0), *arguments)
        done = mpirun(2, *command(*arguments))
        assert done.returncode == 0, done.stdout[-3000:]
        check_same(result(out), undisturbed)


def test_a_study_runs_on_the_communicator_of_its_mesh_and_prints_nothing(tmp_path, capfd):
    u = cf.ScalarField("u")
    comm = MPI.COMM_SELF.Dup()
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(comm, 0.25),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1},
    )
    library = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)
    report = cf.Study(library, experiment, coefficients={"lap": 1.0, "u": -1.0}).run(
        tmp_path / "out"
    )
    assert report.sections["cost"]["ranks"] == 1
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_results_survive_being_sent_to_another_process(tmp_path):
    import pickle

    report = study_in(tmp_path).run()
    again = pickle.loads(pickle.dumps(report))
    assert again.to_json() == report.to_json()
