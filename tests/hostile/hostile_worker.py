"""Gives studies to the command line one after another in one process, and tells what each did:
code, seconds, memory, words, files.

Started by the tests with a folder; every folder in it holds `study.toml`. A line of JSON is printed
for each. What Python opens for writing outside, and every process that is started, is watched by an
audit hook; what C libraries open is watched by pipes, which nobody may open without waiting for
ever.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import signal
import sys
import time
from pathlib import Path

STARTING = {"os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn"}
ALLOWED = ("/tmp/ompi", "/dev/", "/proc/")
LIBC = ctypes.CDLL(None)
seen: list[str] = []
allowed: list[str] = []


def watch(event: str, arguments: tuple) -> None:
    if event in STARTING:
        seen.append(f"{event} {str(arguments)[:200]}")
    if (
        event == "open"
        and isinstance(arguments[0], str)
        and isinstance(arguments[1], str)
        and set(arguments[1]) & set("wax+")
    ):
        path = os.path.abspath(arguments[0])
        if not path.startswith((*ALLOWED, *allowed)):
            seen.append(f"write {path}")


def megabytes(what: str) -> int:
    """VmRSS or VmHWM, its largest value so far."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{what}:")[1].split()[0]) // 1024


def one(case: Path, main, start: int) -> dict:
    """One study; `start` is the memory of a process that has only loaded its libraries, to
    which its growth is added.
    """
    os.chdir(case)
    LIBC.malloc_trim(0)
    del seen[:]
    Path("/proc/self/clear_refs").write_text("5")
    resident = megabytes("VmRSS")
    out, err = io.StringIO(), io.StringIO()
    before = time.perf_counter()
    signal.alarm(60)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(["run", "study.toml", "--out", "result", "--quiet"])
        except SystemExit as leaving:
            code = leaving.code
    signal.alarm(0)
    return {
        "case": case.name,
        "code": code,
        "seconds": time.perf_counter() - before,
        "megabytes": start + megabytes("VmHWM") - resident,
        "words": err.getvalue(),
        "seen": list(seen),
        "printed": out.getvalue(),
    }


def main() -> None:
    folder = Path(sys.argv[1])
    import tempfile

    allowed.append(tempfile.gettempdir() + "/tmp")  # gmsh's meshes on the way
    import gmsh  # noqa: F401  libraries are loaded before anything is measured
    import h5py  # noqa: F401
    import netCDF4  # noqa: F401
    import xarray  # noqa: F401

    import cffem.cli
    import cffem.study.toml.study_file
    from cffem._compat import cache_folder

    allowed.append(str(cache_folder()))
    sys.addaudithook(watch)
    os.chdir(folder)
    start = megabytes("VmRSS")
    for case in sorted(path for path in folder.iterdir() if path.name != "outside"):
        print(json.dumps({"begins": case.name}), file=sys.__stdout__, flush=True)
        print(json.dumps(one(case, cffem.cli.main, start)), file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    main()
