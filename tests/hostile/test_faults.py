"""Faults of the surroundings and changed checkpoints: a sentence each, or no harm at all."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("dolfinx")

import numpy as np
from hostile_collection import STUDY
from mpi4py import MPI
from processes import mpi_environment

import cffem.study.run.checkpoint as checkpoint
from cffem.engine.store.shared_archive import SharedArchive
from cffem.study.run.checkpoint import Checkpoint, OutputError

FACTS = {"deletion/lap": {"value": {"score": 0.125}, "seconds": 0.5}}


@pytest.fixture
def stored(tmp_path):
    """A checkpoint with one fact, and the file of that fact."""
    made = Checkpoint(MPI.COMM_SELF, tmp_path / "out", {"study": 1})
    for key, fact in FACTS.items():
        made.store(key, fact)
    made.release()
    (path,) = (tmp_path / "out" / "checkpoint" / "facts").glob("*.json")
    return tmp_path / "out", path


def again(folder: Path) -> Checkpoint:
    return Checkpoint(MPI.COMM_SELF, folder, {"study": 1}, resume=True)


def test_a_checkpoint_that_nobody_touched_is_read(stored):
    assert again(stored[0])["deletion/lap"] == FACTS["deletion/lap"]


def test_an_edited_score_is_found(stored):
    stored[1].write_text(stored[1].read_text().replace("0.125", "0.126"))
    with pytest.raises(OutputError, match="checksum"):
        again(stored[0])


def test_every_flipped_byte_is_found_or_changes_nothing(stored):
    folder, path = stored
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        # A blank that became another one is no damage; whatever else is read is refused.
        with contextlib.suppress(OutputError):
            found = again(folder)
            found.release()
            assert dict(found.facts) == FACTS


@pytest.mark.parametrize("fact", [3, [], "text", None, {"value": 1}, {"value": 1, "seconds": "x"}])
def test_facts_of_another_type_are_refused_also_with_a_right_checksum(stored, fact):
    key = "deletion/lap"
    entry = {"key": key, "fact": fact, "sha256": checkpoint.checksum(key, fact)}
    stored[1].write_text(json.dumps(entry))
    with pytest.raises(OutputError, match="damaged"):
        again(stored[0])


def test_a_link_in_a_checkpoint_is_refused_and_not_followed(stored, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("mine")
    (stored[0] / "checkpoint" / "fields" / "a.npz").symlink_to(secret)
    with pytest.raises(OutputError, match="link"):
        again(stored[0])
    assert secret.read_text() == "mine"


@contextlib.contextmanager
def at_most(size: int):
    """No file may become larger for a while, as under a quota."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_quota_is_one_sentence_and_what_was_stored_stays(stored):
    found = again(stored[0])
    with at_most(2000), pytest.raises(OutputError, match="too large; make room") as said:
        found.store("deletion/u", {"value": "x" * 5000, "seconds": 0.5})
    assert "\n" not in str(said.value)
    found.release()
    assert dict(again(stored[0]).facts) == FACTS


def test_fields_that_a_quota_refuses_leave_nothing(tmp_path):
    archive = SharedArchive(MPI.COMM_SELF, tmp_path / "u.npz")
    with at_most(2000), pytest.raises(OSError, match="too large"):
        archive.put("u", np.zeros(5000), 0, 5000)
    archive.abandon()
    assert not os.listdir(tmp_path)


def test_a_clock_that_went_backwards_changes_nothing(stored):
    for path in (stored[0], *stored[0].rglob("*")):
        os.utime(path, (4e9, 4e9))  # written in the year 2096
    found = again(stored[0])
    assert dict(found.facts) == FACTS
    found.store("deletion/u", FACTS["deletion/lap"])
    found.release()
    assert set(again(stored[0]).facts) == {"deletion/lap", "deletion/u"}


def test_a_checkpoint_of_another_version_is_one_sentence(stored):
    study = stored[0] / "checkpoint" / "study.json"
    content = study.read_text()
    assert checkpoint.FORMAT in content
    study.write_text(content.replace(checkpoint.FORMAT, "cffem-checkpoint/999"))
    with pytest.raises(OutputError) as said:
        again(stored[0])
    assert "\n" not in str(said.value)


def run(folder: Path, shell: str = "", **changes: str | None) -> subprocess.CompletedProcess[str]:
    """`cffem run --dry-run` with changed variables and, in a shell, changed streams."""
    (folder / "study.toml").write_text(STUDY)
    variables = {k: v for k, v in {**mpi_environment(), **changes}.items() if v is not None}
    words = f"exec {sys.executable} -m cffem run study.toml --dry-run {shell}"
    return subprocess.run(
        ["sh", "-c", words], cwd=folder, env=variables, capture_output=True, timeout=60
    )


@pytest.mark.parametrize("home", [None, "", "relative", "/proc", "/nonexistent"])
def test_a_home_that_is_missing_or_cannot_be_written_does_no_harm(tmp_path, home):
    done = run(tmp_path, HOME=home, CFFEM_CACHE=None, XDG_CACHE_HOME=None, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert b"library: lap" in done.stdout
    assert not (tmp_path / "relative").exists()


@pytest.mark.parametrize("streams", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_no_harm(tmp_path, streams):
    assert run(tmp_path, streams).returncode == 0


def test_a_terminal_of_ascii_gets_escapes(tmp_path):
    done = run(tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert rb"\u03b5" in done.stdout
    assert done.stdout.isascii()


def test_a_cache_below_the_current_folder_is_refused(tmp_path):
    script = "from cffem._compat import cache_folder; cache_folder()"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env={**os.environ, "CFFEM_CACHE": "cache"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "must be an absolute path" in done.stderr
