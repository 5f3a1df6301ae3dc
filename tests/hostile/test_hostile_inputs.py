"""Studies from strangers are refused in one sentence: nothing runs, nothing outside is read
or written, in little time and memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("dolfinx")
pytest.importorskip("h5py")
pytest.importorskip("netCDF4")

from hostile_collection import CASES, outside

SECONDS, MEGABYTES = 2.0, 500


def listing(folder: Path) -> dict[str, bytes | str]:
    """All files below a folder with what is in them."""
    return {
        str(path.relative_to(folder)): "folder"
        if path.is_dir()
        else path.read_bytes()
        if path.is_file()
        else "special"
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What every study of the collection led to, and the folder that they are in."""
    base = tmp_path_factory.mktemp("hostile")
    outside(base / "outside")
    for name, fill in CASES.items():
        (base / name).mkdir()
        fill(base / name)
    before = listing(base / "outside")
    worker = [sys.executable, str(Path(__file__).with_name("hostile_worker.py")), str(base)]
    done = subprocess.run(worker, capture_output=True, text=True, timeout=500)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    begun = [line["begins"] for line in lines if "begins" in line]
    assert done.returncode == 0, (
        f"ended with {done.returncode} in {begun[-1:]}:\n{done.stderr[-3000:]}"
    )
    assert listing(base / "outside") == before, "something outside was changed"
    assert not list(base.rglob("*executed*")), "something was run"
    return {line["case"]: line for line in lines if "case" in line}


def those(answers, wrong) -> str:
    """The cases that something is wrong with, for a message."""
    return "\n".join(
        f"{name}: {json.dumps(found)[:400]}" for name, found in answers.items() if wrong(found)
    )


def test_the_collection_is_large(answers):
    assert len(CASES) >= 150
    assert set(answers) == set(CASES)


def test_every_hostile_study_is_refused_in_one_sentence(answers):
    def wrong(found):
        words = found["words"]
        sentence = (
            words.startswith("cffem: ")
            and words.count("\n") == 1
            and words.rstrip("\n").isprintable()
            and len(words) < 2100
        )
        return found["code"] != 2 or not sentence or found["printed"]

    assert not those(answers, wrong)


def test_refusals_run_nothing_and_write_nothing(answers):
    assert not those(answers, lambda found: found["seen"])


def test_refusals_are_quick_and_small(answers):
    assert not those(
        answers, lambda found: found["seconds"] > SECONDS or found["megabytes"] > MEGABYTES
    )
