# SPDX-License-Identifier: MIT
"""Libraries start without the files of the folder that a program happens to run in.

PETSc runs native code that a `.petscrc` of the current folder names, petsc4py loads the library
that a `petsc.cfg` there names, UCX below Open MPI reads `ucx.conf`, and FFCx and DOLFINx take
options from JSON files that change results. A study may come from a stranger, so `install`, called
when cffem is imported, sees to it that these modules are loaded while the current folder is the
root folder, that PETSc reads neither files nor `PETSC_OPTIONS`, and that FFCx and DOLFINx have no
option files. A program that calls `petsc4py.init` itself, before it uses cffem's engine, gets what
it asks for. `distrust` goes further, for studies that are data. docs/security.md lists what every
library reads.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

# Environment variables that hold PETSc options, among them names of libraries to load.
PETSC_VARIABLES = ("PETSC_OPTIONS", "PETSC_OPTIONS_YAML")


@contextlib.contextmanager
def elsewhere() -> Iterator[None]:
    """Be in the root folder for a while; nobody but the owner of the machine can have put
    anything there.
    """
    try:
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # a folder that was deleted holds no files
        yield
        return
    try:
        os.chdir("/")
        yield
    finally:
        os.fchdir(here)
        os.close(here)


@contextlib.contextmanager
def without(*variables: str) -> Iterator[None]:
    """Take variables out of the environment for a while."""
    taken = {name: os.environ.pop(name) for name in variables if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(taken)


def start_petsc(module: ModuleType) -> None:
    """Start PETSc without any file; stands for the two lines of `petsc4py/PETSc.py`."""
    import petsc4py

    with without(*PETSC_VARIABLES):
        petsc4py.init(["cffem", "-skip_petscrc"])


def ignore_option_files(module: ModuleType) -> None:
    """FFCx and DOLFINx: options are those that are given, whatever files lie in the current
    folder or in ~/.config.
    """
    setattr(module, "_load_options", lambda: ({}, {}))  # noqa: B010  both modules look it up at every call


def own_configuration(module: ModuleType) -> None:
    """petsc4py and slepc4py: `petsc.cfg` and `slepc.cfg` are those of the package."""
    found = module.getPathArch

    def get_path_arch(
        path: str, arch: str | None, rcvar: str = "PETSC_ARCH", rcfile: str = "petsc.cfg"
    ) -> tuple[str, str]:
        inside: tuple[str, str] = found(path, arch, rcvar, os.path.join(path, rcfile))
        return inside

    setattr(module, "getPathArch", get_path_arch)  # noqa: B010


# What is done to a module: instead of running it, or after it was run.
INSTEAD: dict[str, Callable[[ModuleType], None]] = {"petsc4py.PETSc": start_petsc}
AFTER: dict[str, Callable[[ModuleType], None]] = {
    "ffcx.options": ignore_option_files,
    "dolfinx.jit": ignore_option_files,
    "petsc4py.lib": own_configuration,
}


class Guard(importlib.abc.MetaPathFinder):
    """Finds guarded modules where others find them, and lets them be loaded in the root folder.

    Attributes:
        names: the guarded modules.
    """

    def __init__(self) -> None:
        self.names = {"mpi4py.MPI", *INSTEAD, *AFTER}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module as the other finders see it, with a loader that takes care."""
        if name not in self.names:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = Careful(spec.loader)
                return spec
        return None


class Careful(importlib.abc.Loader):
    """A loader that loads a module while the current folder is the root folder."""

    def __init__(self, inner: importlib.abc.Loader):
        self.inner = inner

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Extension modules are loaded here."""
        with elsewhere():
            return self.inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, or what stands for it."""
        assert module.__spec__ is not None
        name = module.__spec__.name
        module.__spec__.loader = module.__loader__ = self.inner  # nobody else shall notice
        with elsewhere():
            INSTEAD.get(name, self.inner.exec_module)(module)
        AFTER.get(name, lambda module: None)(module)


GUARD = Guard()


def install() -> None:
    """Guard the modules that are not loaded yet; those that are get what can still be done."""
    if GUARD not in sys.meta_path:
        sys.meta_path.insert(0, GUARD)
    if not os.path.isabs(os.environ.get("HOME", "")):
        os.environ["HOME"] = home()
    for name in ("ffcx.options", "dolfinx.jit"):
        if name in sys.modules:
            ignore_option_files(sys.modules[name])


def home() -> str:
    """A home for libraries where the environment names none: Open MPI does not start without,
    others would use the current folder.
    """
    import pwd

    try:
        folder = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # a number without a name, as in containers
        folder = ""
    return folder if os.path.isabs(folder) and os.path.isdir(folder) else tempfile.gettempdir()


def private_folder() -> Path:
    """A folder for temporary files that stays, and that nobody else can write to."""
    folder = Path(tempfile.gettempdir()) / f"cffem-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise PermissionError(
            f"{folder} belongs to somebody else; set CFFEM_CACHE to a folder for compiled forms"
        )
    return folder


def distrust() -> None:
    """Load nothing from the current folder any more: for commands whose input is data, never for
    programs of the user's own.

    Python looks for modules and for plug-ins (xarray's, say) in every folder of `sys.path`. The
    current folder is one of them where `PYTHONPATH` has an empty entry, and names that are no
    absolute paths, which editable installations leave there, are folders below it. Matplotlib reads
    `matplotlibrc` of the current folder, netCDF `.ncrc`, and HDF5 loads plug-ins for unknown
    filters.
    """
    here = os.path.realpath(os.curdir)
    sys.path[:] = [
        entry for entry in sys.path if os.path.isabs(entry) and os.path.realpath(entry) != here
    ]
    GUARD.names.add("matplotlib")
    if not os.access(os.environ["HOME"], os.W_OK) and "MPLCONFIGDIR" not in os.environ:
        os.environ["MPLCONFIGDIR"] = str(private_folder())
    os.environ["NCRCENV_IGNORE"] = "1"
    os.environ["HDF5_PLUGIN_PRELOAD"] = "::"
