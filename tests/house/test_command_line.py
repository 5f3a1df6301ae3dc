"""The command line in this process: what it lists, what it refuses, and that a reader may
leave early.
"""

from __future__ import annotations

import shutil
import subprocess

import pytest

pytest.importorskip("dolfinx")

from cffem import cli
from cffem._resources import shared_folder
from cffem.cli import main


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run", "study.txt"], "study.txt is not a study: give STUDY.toml or STUDY.py"),
        (["run", "study.py", "--set", "a=1"], "--set changes a TOML study"),
        (["run", "nowhere.toml"], "there is no file nowhere.toml"),
        (["run", "nowhere.py"], "there is no file nowhere.py"),
        (["bench", "swep"], "there is no benchmark called 'swep'; there are: screening"),
        (["demo", "maxwel"], "did you mean maxwell?"),
        (["demo", "zzz"], "there are: aliasing"),
        (["report", "nowhere"], "there is no report.json in nowhere"),
        (["report", __file__], "this is another folder"),
        (["fetch", "nothing"], "there is nothing called 'nothing' to fetch"),
        (["fetch", "oisst", "--years", "2020-2010"], "names no year"),
    ],
)
def test_what_is_not_there_is_one_sentence(arguments, text, capsys):
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert text in message
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["run", "study.toml", "--outt", "here"],
            "cffem run: error: unknown: --outt here; did you mean --out?",
        ),
        (["demo", "--lst"], "cffem demo: error: unknown: --lst; did you mean --list?"),
        (
            ["doctor", "--cure"],
            "cffem doctor: error: unknown: --cure; cffem doctor --help tells what there is",
        ),
    ],
)
def test_an_unknown_option_is_answered_with_the_nearest_one(arguments, text, capsys):
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert text in capsys.readouterr().err


def test_demos_and_benchmarks_are_listed(capsys):
    assert main(["demo", "--list"]) == main(["bench"]) == 0
    shown = capsys.readouterr().out
    assert all(
        name in shown for name in ("maxwell", "template", "certify", "sweep", "leray", "screening")
    )


def test_a_benchmark_gets_its_own_options(monkeypatch):
    given = []
    monkeypatch.setitem(
        __import__("benchmarks.bench_registry", fromlist=["BENCHES"]).BENCHES,
        "sweep",
        lambda a: given.append(a) or 7,
    )
    assert main(["bench", "sweep", "--size", "2"]) == 7
    assert given == [["--size", "2"]]


def test_an_interrupted_command_has_the_code_of_an_interrupt(monkeypatch):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "run_bench", interrupted)
    assert main(["bench"]) == 130


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_reader_that_leaves_early_is_no_error():
    command = "python -m cffem demo --list | true; exit ${PIPESTATUS[0]}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_incomplete_installation_is_told():
    with pytest.raises(FileNotFoundError, match="reinstall it from a complete checkout"):
        shared_folder("nothing")


def test_a_full_disk_is_told_with_the_file_that_does_not_fit(monkeypatch, capsys):
    def full(options):
        raise OSError(28, "No space left on device", "u.bp")

    monkeypatch.setattr(cli, "run_bench", full)
    assert main(["bench"]) == 2
    assert (
        capsys.readouterr().err
        == "cffem: u.bp cannot be written: No space left on device; make room, or write to "
        "another disk\n"
    )
