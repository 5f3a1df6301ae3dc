"""Finding and running the shipped demos, and users' own study scripts.

A script runs as `__main__` in this process, so `mpirun -n 4 cffem run study.py` runs it on four ranks under the command line's
collective error handling. The folder for its results is in the environment variable `CFFEM_OUT`.
"""

from __future__ import annotations

import difflib
import os
import runpy
import sys
from pathlib import Path

from cffem._resources import shared_folder
from cffem.symbols.errors import InputError


def demos() -> dict[str, str]:
    """Names of the shipped demos with their titles, the first heading of each script."""
    found = {}
    for path in sorted(shared_folder("demos").glob("demo_*.py")):
        title = next((line[3:].strip(" #\n") for line in path.read_text().splitlines() if line.startswith("# #")), path.stem)
        found[path.stem.removeprefix("demo_")] = title
    return found


def demo_path(name: str) -> Path:
    """The script of a demo; an unknown name is an error that names the nearest one."""
    names = list(demos())
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"
        raise InputError(f"there is no demo called {name!r}; {hint}")
    return shared_folder("demos") / f"demo_{name}.py"


def run_script(path: str | Path, out: str | Path) -> None:
    """Run a script as the main program, with `CFFEM_OUT` set to the folder for its results."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    os.environ["CFFEM_OUT"] = str(Path(out).absolute())
    saved = sys.argv, sys.path[:]
    sys.argv = [str(path)]
    sys.path.insert(0, str(path.parent))
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as leaving:
        if leaving.code not in (None, 0):
            raise
    finally:
        sys.argv, sys.path[:] = saved
