"""containers/run: choosing an engine, and handing on arguments, exit codes, signals, pipes
and the current folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / "containers" / "run"
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def launch(
    *arguments: str, cwd: Path | None = None, stdin: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run(
        [str(RUN), *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        input=stdin,
        env=env,
        timeout=120,
    )


@pytest.fixture
def fake_tool(tmp_path):
    """A folder with a stand-in for a container engine that prints its arguments, to be put
    first on PATH.
    """

    def make(name: str, script: str = 'printf "%s\\n" "$@"') -> str:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        tool = folder / name
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
        return f"{folder}:{os.environ['PATH']}"

    return make


def test_without_a_command_it_explains_itself():
    done = launch()
    assert done.returncode == 64
    assert "containers/run [--suite" in done.stderr
    assert launch("--help").returncode == 0


def test_wrong_words_are_one_sentence():
    for arguments, environment, text in [
        (["--suite", "potato", "true"], {}, "unknown suite 'potato'"),
        (["--frobnicate"], {}, "unknown option --frobnicate"),
        (["true"], {"CFFEM_ENGINE": "teleport"}, "unknown CFFEM_ENGINE 'teleport'"),
    ]:
        done = launch(*arguments, **environment)
        assert done.returncode in (64, 69)
        assert text in done.stderr


def test_docker_gets_the_folders_the_user_and_the_command(fake_tool, tmp_path):
    path = fake_tool(
        "docker", 'case $1 in info) ;; image) exit 0 ;; *) printf "%s\\n" "$@" ;; esac'
    )
    done = launch(
        "cffem",
        "demo",
        "--out",
        "a b",
        cwd=tmp_path,
        PATH=path,
        CFFEM_ENGINE="docker",
        CFFEM_CACHE=str(tmp_path / "cache"),
    )
    words = done.stdout.splitlines()
    assert words[0] == "run"
    assert f"{tmp_path}:{tmp_path}" in words
    assert f"{os.getuid()}:{os.getgid()}" in words
    assert words[words.index("-w") + 1] == str(tmp_path)
    assert words[-4:] == ["cffem", "demo", "--out", "a b"]


def test_an_image_that_is_missing_is_built_from_the_dockerfile(fake_tool, tmp_path):
    path = fake_tool(
        "podman", 'case $1 in info) ;; image) exit 1 ;; *) printf "%s\\n" "$@" ;; esac'
    )
    done = launch(
        "--suite",
        "sid",
        "true",
        cwd=tmp_path,
        PATH=path,
        CFFEM_ENGINE="podman",
        CFFEM_CACHE=str(tmp_path / "cache"),
    )
    assert "SUITE=sid" in done.stderr
    assert "containers/Dockerfile" in done.stderr
    assert ("--userns=keep-id" in done.stdout) == (os.getuid() != 0)


def test_apptainer_builds_once_and_then_only_runs(fake_tool, tmp_path):
    build = 'for f; do case $f in *.building) touch "$f" ;; esac; done; echo built >&2'
    script = f'if [ "$1" = build ]; then {build}; else printf "%s\\n" "$@"; fi'
    path = fake_tool("apptainer", script)
    settings = {"PATH": path, "CFFEM_ENGINE": "apptainer", "CFFEM_CACHE": str(tmp_path / "cache")}
    first, second = (launch("cffem", "doctor", cwd=tmp_path, **settings) for _ in range(2))
    assert "built" in first.stderr
    assert "built" not in second.stderr
    assert second.stdout.splitlines()[-2:] == ["cffem", "doctor"]


def test_a_build_that_fails_leaves_nothing_behind(fake_tool, tmp_path):
    cache = tmp_path / "cache"
    path = fake_tool("micromamba", 'echo "no such channel" >&2; mkdir -p "$4"; exit 1')
    done = launch("true", PATH=path, CFFEM_ENGINE="conda", CFFEM_CACHE=str(cache))
    assert done.returncode == 69
    assert "no such channel" in done.stderr
    assert not [entry for entry in cache.iterdir() if entry.is_dir()]


def test_the_root_file_system_is_renamed_into_place_only_when_complete(fake_tool, tmp_path):
    """A build that is killed leaves a folder that the next one removes; two at once build one
    after the other.
    """
    cache = tmp_path / "cache"
    fake_tool("bwrap", "exit 0")
    slow = (
        'for a; do case $a in */root-*.building) mkdir -p "$a/etc" "$a/usr"; touch "$a/half"; '
        "sleep 30 ;; esac; done"
    )
    path = fake_tool("mmdebstrap", slow)
    settings = {**os.environ, "PATH": path, "CFFEM_ENGINE": "root", "CFFEM_CACHE": str(cache)}
    if os.geteuid() != 0:
        pytest.skip("the stand-in makes a folder, as mmdebstrap does for root")
    victim = subprocess.Popen(
        [str(RUN), "true"], env=settings, start_new_session=True, stderr=subprocess.DEVNULL
    )
    wait_for(lambda: list(cache.glob("root-*.building/half")))
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait()
    assert not [
        entry
        for entry in cache.glob("root-*")
        if entry.is_dir() and not entry.name.endswith(".building")
    ]
    fake_tool("mmdebstrap", slow.replace("sleep 30", 'sleep 1; rm -f "$a/half"; touch "$a/whole"'))
    both = [
        subprocess.Popen([str(RUN), "true"], env=settings, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = "".join(process.communicate(timeout=60)[1] for process in both)
    assert said.count("building the trixie environment") == 1
    roots = [entry for entry in cache.glob("root-*") if entry.is_dir()]
    assert len(roots) == 1
    assert (roots[0] / "whole").exists()
    assert not (roots[0] / "half").exists()


def wait_for(condition, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """The launcher on top of this very Python, with the user's own cache: the venv is there
    already in most cases.
    """
    pytest.importorskip("dolfinx")

    def run(*arguments: str, **kwargs) -> subprocess.CompletedProcess[str]:
        done = launch(*arguments, CFFEM_ENGINE="host", CFFEM_PYTHON="/usr/bin/python3", **kwargs)
        return done

    if "does not have all of" in run("true").stderr:
        pytest.skip("the system's Python has no DOLFINx")
    return run


def test_exit_code_pipes_and_folder_are_those_of_the_command(host, tmp_path):
    assert host("sh", "-c", "exit 37").returncode == 37
    assert host("cat", stdin="through the pipe").stdout == "through the pipe"
    assert host("pwd", cwd=tmp_path).stdout.strip() == str(tmp_path)


def test_cffem_comes_from_this_checkout_and_where_says_so(host):
    where = host("python", "-c", "import cffem; print(cffem.__file__)").stdout.strip()
    assert Path(where) == RUN.parents[1] / "cffem" / "__init__.py"
    engine, folder = host("--where").stdout.split()
    assert engine == "host"
    assert Path(folder, "complete").exists()


def test_a_signal_reaches_the_command(host):
    env = {**os.environ, "CFFEM_ENGINE": "host", "CFFEM_PYTHON": "/usr/bin/python3"}
    process = subprocess.Popen(
        [str(RUN), "sh", "-c", "trap 'exit 41' TERM; echo up; while :; do sleep 0.1; done"],
        stdout=subprocess.PIPE,
        text=True,
        env=env,
    )
    assert process.stdout.readline() == "up\n"
    process.terminate()
    assert process.wait(timeout=20) == 41
