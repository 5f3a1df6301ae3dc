# SPDX-License-Identifier: MIT
"""Finding and running the shipped demos, and users' own studies, as programs or as TOML.

A script runs as `__main__` in this process, so `mpirun -n 4 cffem run study.py` runs it on four
ranks under the command line's collective error handling. The folder for its results is in the
environment variable `CFFEM_OUT`. A script need not run its study: one that it leaves under the name
`study` is run when the script has ended.
"""

from __future__ import annotations

import difflib
import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cffem
from cffem._resources import shared_folder
from cffem.symbols.errors import InputError


def demos() -> dict[str, str]:
    """Names of the shipped demos with their titles, the first heading of each script."""
    found = {}
    for path in sorted(shared_folder("demos").glob("demo_*.py")):
        title = next(
            (
                line[3:].strip(" #\n")
                for line in path.read_text().splitlines()
                if line.startswith("# #")
            ),
            path.stem,
        )
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


def run_script(path: str | Path, out: str | Path) -> dict[str, Any]:
    """Run a script as the main program, with `CFFEM_OUT` set to the folder for its results;
    what it defined is returned.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    os.environ["CFFEM_OUT"] = str(Path(out).absolute())
    saved = sys.argv, sys.path[:]
    sys.argv = [str(path)]
    sys.path.insert(0, str(path.parent))
    try:
        return runpy.run_path(str(path), run_name="__main__")
    except SystemExit as leaving:
        if leaving.code not in (None, 0):
            raise
        return {}
    except (AttributeError, NameError, SyntaxError, TypeError) as error:
        line = line_at_fault(error, path)
        if line is None:
            raise
        said = "".join(traceback.format_exception_only(error)).splitlines()[-1]
        raise ScriptError(f"{path}, line {line}: {said}") from error
    finally:
        sys.argv, sys.path[:] = saved


class ScriptError(InputError):
    """A line of a user's script that Python refuses: a misspelt name, or an option that there
    is not.
    """


def line_at_fault(error: Exception, path: Path) -> int | None:
    """The line of a script where an error arose, None where it arose in what the script called."""
    if isinstance(error, SyntaxError):
        return error.lineno if error.filename == str(path) else None
    # A name that cffem does not have is missed by cffem itself, on behalf of the line that asked
    # for it.
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != cffem.__file__]
    return frames[-1].lineno if frames[-1].filename == str(path) else None


def run_study_script(path: str | Path, out: str | Path) -> Any:
    """Run a script, and the study that it defines but does not run; its report, or None where
    the script did everything itself.
    """
    study = run_script(path, out).get("study")
    kind = getattr(sys.modules.get("cffem.study.study"), "Study", None)
    return (
        study.run(out)
        if kind is not None and isinstance(study, kind) and not study.started
        else None
    )


def run_study_file(
    path: str | Path, out: str | Path, overrides: Sequence[str], anywhere: bool
) -> Any:
    """Run a study written as TOML; its report."""
    getattr(cffem, "Study")  # noqa: B009  where DOLFINx is missing this says how to get it
    from mpi4py import MPI

    from cffem.study.toml.study_file import read_study

    return read_study(path, MPI.COMM_WORLD, overrides, anywhere).run(out)
