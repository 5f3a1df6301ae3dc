# SPDX-License-Identifier: MIT
"""Checkpoints: what a run has finished, stored at once and whole, so that a run that was killed
goes on where it was.

A piece of finished work is a *fact*, plain data under a key, one JSON file each; fields lie beside
them as `.npz` archives of `cffem.engine.store.storage`. A report is made of facts alone, hence a
run that was resumed ends in the same report as one that was not. Files appear under their names
when they are complete and on the disk, nothing is ever unpickled, and a lock that dies with its
process keeps two runs from sharing a folder. Every fact carries a checksum, so that an edited or
damaged one is found, and a checkpoint holds files and folders only: with links in it, a resumed run
could be led to files elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cffem._files import find_link, require_file, write_whole
from cffem.engine.collective import collectively
from cffem.study.run.description import differences
from cffem.study.run.edited import Edit, edit_of
from cffem.study.toml.study_keys import shown
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from mpi4py import MPI

    from cffem.engine.model import Model
    from cffem.engine.solution import Solution, StoredAs
    from cffem.symbols.problem.interventions import Intervention


FORMAT = "cffem-checkpoint/2"
FOLDER = "checkpoint"
# What a study leaves in its folder; any of it without a checkpoint belongs to somebody else.
RESULTS = (
    "report.json",
    "report.html",
    "terms.csv",
    "interventions.csv",
    "maps.npz",
    "fields.npz",
    FOLDER,
)
# Where the report of a study goes that was edited since.
FORMER = "former"
MOVED = ("report.json", "report.html", "terms.csv", "interventions.csv")
# Solutions of a finished study stay for later edits if they take no more bytes than this.
MOST_KEPT = 2**28
MOST_FACT = 2**28  # bytes
log = logging.getLogger("cffem.study")


class OutputError(InputError):
    """The folder for the results cannot be used: another study's, in use, or not writable."""


class Checkpoint:
    """The facts of one run, in memory and, given a folder, on disk; all calls are collective.

    Args:
        comm: the communicator of the run; rank 0 reads and writes.
        folder: the folder for the results, or None to keep nothing.
        description: what the study is; a checkpoint of another one is refused.
        resume: whether to go on where an earlier run ended.

    Attributes:
        restored: whether an earlier run had left facts.
        edit: how the study was edited since an earlier run, or None.
        former: facts of that run that do not hold any more as they are, whose solutions do.
        reused: keys of that run whose facts or solutions are used.
        doubtful: keys of error bars that hold, but may not decide any more.

    Raises:
        OutputError: on all ranks, where the folder cannot be used.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        folder: str | Path | None,
        description: Mapping[str, object],
        resume: bool = False,
    ):
        self.comm = comm
        self.folder = None if folder is None else Path(folder)
        self._lock: int | None = None
        self._facts: dict[str, Any] = {}
        self._fields: dict[str, Any] = {}
        self.edit: Edit | None = None
        self.former: dict[str, Any] = {}
        if self.folder is not None:
            found = collectively(
                comm, lambda: self._open(json.loads(json.dumps(description)), resume)
            )
            self._facts, self.edit, self.former = comm.bcast((found, self.edit, self.former))
        edited = self.edit is not None and self.edit.means
        self.reused = set(self._facts) if self.edit is not None else set()
        self.doubtful = {key for key in self._facts if edited and key.startswith("certificates/")}
        self.restored = bool(self._facts)

    # Opening, on rank 0
    # ----------------------------------------------------------------------------------------------

    def _open(self, description: dict[str, object], resume: bool) -> dict[str, Any]:
        assert self.folder is not None
        self._refuse_links()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._acquire()
            return self._enter(description, resume)
        except OSError as error:
            self.release()
            why = (
                "it is no folder"
                if error.errno in (errno.EEXIST, errno.ENOTDIR)
                else error.strerror or error
            )
            raise OutputError(
                f"the folder {self.folder} cannot be written: {why}; choose another one"
            ) from None
        except InputError:
            self.release()
            raise

    def _refuse_links(self) -> None:
        """A folder that came with a study may lead elsewhere, and so may what is in it."""
        assert self.folder is not None
        try:
            real = self.folder.resolve()
            if not self.folder.is_absolute() and real != Path.cwd() / os.path.normpath(self.folder):
                raise OutputError(
                    f"{self.folder} leads to {real} by a link; give that folder itself if it is "
                    "meant"
                )
            own = [self.folder / name for name in (".lock", *RESULTS, FORMER)]
            own += [self.folder / FORMER / name for name in MOVED]
            link = next((str(path) for path in own if path.is_symlink()), None) or find_link(
                self.base
            )
        except OutputError:
            raise
        except (OSError, ValueError, RuntimeError) as error:
            raise OutputError(
                f"the folder {shown(str(self.folder))} cannot be used: "
                f"{getattr(error, 'strerror', error)}; choose another one"
            ) from None
        if link is not None:
            raise OutputError(
                f"{link} is a link or no ordinary file, which no checkpoint holds; choose another "
                "folder"
            )

    def _acquire(self) -> None:
        """Lock the folder; the lock goes with the process that holds it, however that ends."""
        assert self.folder is not None
        self._lock = os.open(
            self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644
        )
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise OutputError(
                    f"another run is writing to {self.folder}; wait for it or choose another folder"
                ) from None
            log.warning(
                "%s is on a file system without locks; take care not to run twice there",
                self.folder,
            )

    def _enter(self, description: dict[str, object], resume: bool) -> dict[str, Any]:
        base = self.base
        stored = self._stored_description()
        if stored is None:
            strange = [name for name in RESULTS if (base.parent / name).exists()]
            if strange:
                raise OutputError(
                    f"{base.parent} holds {strange[0]} of another study; choose another folder"
                )
        else:
            changed = differences(stored, description)
            if changed:
                self.edit = edit_of(stored, description)
                if self.edit is None:
                    raise OutputError(
                        f"{base.parent} holds another study ({'; '.join(changed)}); choose another "
                        "folder"
                    )
                self._sort_out(self.edit)
                resume = True
            unfinished = not (base.parent / "report.json").exists() and any(
                (base / "facts").glob("*.json")
            )
            if unfinished and not resume:
                raise OutputError(
                    f"{base.parent} holds an unfinished run of this study; resume it (--resume, "
                    "or resume=True), or choose another "
                    "folder"
                )
            if not resume:
                shutil.rmtree(base)
        for part in ("facts", "fields"):
            (base / part).mkdir(parents=True, exist_ok=True)
        write_whole(
            base / "study.json",
            json.dumps({"format": FORMAT, "study": description}, indent=1),
            durably=True,
        )
        for leftover in (*base.rglob("*.part"), *base.parent.glob(".*.part")):
            leftover.unlink(missing_ok=True)
        return dict(self._read(path) for path in sorted((base / "facts").glob("*.json")))

    def _sort_out(self, edit: Edit) -> None:
        """Leave of an earlier run what still holds; its report moves away."""
        base = self.base
        for path in sorted((base / "facts").glob("*.json")):
            key, fact = self._read(path)
            if edit.keeps(key):
                continue
            if edit.lets_stand(key):
                self.former[key] = fact
                if edit.added:  # it solves another problem of the study as it is now
                    field = base / "fields" / f"{slug(key)}.npz"
                    if field.is_file():
                        field.replace(base / "fields" / f"{slug(f'{FORMER}/{key}')}.npz")
            else:
                (base / "fields" / f"{slug(key)}.npz").unlink(missing_ok=True)
            path.unlink()
        there = [name for name in MOVED if (base.parent / name).is_file()]
        for name in there:
            (base.parent / FORMER).mkdir(exist_ok=True)
            (base.parent / name).replace(base.parent / FORMER / name)
        for name in ("fields.npz", "maps.npz"):
            (base.parent / name).unlink(missing_ok=True)

    def _stored_description(self) -> dict[str, Any] | None:
        path = self.base / "study.json"
        if not path.is_file():
            return None
        try:
            stored = json.loads(read_text(path))
            if stored["format"] != FORMAT:
                raise ValueError(
                    f"its format is {shown(stored['format'])}, that of this version {FORMAT!r}"
                )
            if not isinstance(stored["study"], dict):
                raise ValueError("it describes no study")
            return stored["study"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise OutputError(
                f"the checkpoint {path} cannot be read ({error}); choose another folder"
            ) from None

    def _read(self, path: Path) -> tuple[str, Any]:
        try:
            entry = json.loads(read_text(path))
            key, fact = entry["key"], entry["fact"]
            if entry["sha256"] != checksum(key, fact):
                raise ValueError("its checksum is not that of its content")
            if (
                path.name != f"{slug(key)}.json"
                or not isinstance(fact, dict)
                or set(fact) != {"value", "seconds"}
            ):
                raise ValueError("it is no fact")
            float(fact["seconds"])
            return key, fact
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise OutputError(
                f"the checkpoint {path} is damaged ({error}); delete it and resume"
            ) from None

    # Facts
    # ----------------------------------------------------------------------------------------------

    def __contains__(self, key: str) -> bool:
        return key in self._facts

    def __getitem__(self, key: str) -> Any:
        return self._facts[key]

    @property
    def facts(self) -> Mapping[str, Any]:
        """All facts so far."""
        return self._facts

    def store(self, key: str, fact: object) -> Any:
        """Keep a fact, on disk before this returns; given back as it would be read again.

        Raises:
            OutputError: the disk is full or not writable.
        """
        self.reused.discard(key)
        # Rank 0's numbers count: they may differ between ranks by what a clock says.
        entry = {"key": key, "fact": fact, "sha256": checksum(key, fact)}
        text = self.comm.bcast(json.dumps(entry) if self.comm.rank == 0 else None)
        if self.folder is not None:
            collectively(
                self.comm, lambda: self._write(self.base / "facts" / f"{slug(key)}.json", text)
            )
        self._facts[key] = json.loads(text)["fact"]
        return self._facts[key]

    def _write(self, path: Path, text: str) -> None:
        try:
            write_whole(path, text, durably=True)
        except OSError as error:
            raise OutputError(
                f"{path} cannot be written: {error.strerror or error}; make room and resume"
            ) from None

    # Fields
    # ----------------------------------------------------------------------------------------------

    @property
    def base(self) -> Path:
        """Where facts and fields are."""
        assert self.folder is not None
        return self.folder / FOLDER

    def hold_field(self, key: str, solution: Solution) -> None:
        """Keep a solution while this process lasts."""
        self._fields[key] = solution

    @property
    def held(self) -> list[Solution]:
        """The solutions that are kept in this process."""
        return list(self._fields.values())

    def release_field(self, key: str) -> None:
        """Forget a solution that is kept in this process."""
        self._fields.pop(key, None)

    def store_field(self, key: str, solution: Solution) -> None:
        """Keep a solution on disk."""
        try:
            solution.store(self.base / "fields" / f"{slug(key)}.npz")
        except OSError as error:
            raise OutputError(
                f"the field {key} cannot be written: {error.strerror or error}; make room and "
                "resume"
            ) from None

    def restore_field(self, key: str, model: Model, intervention: Intervention) -> Any:
        """A stored solution, or None where there is none."""
        if self.folder is None or key in self._fields:
            return self._fields.get(key)
        path = self.base / "fields" / f"{slug(key)}.npz"
        there = self.comm.bcast(path.is_file() if self.comm.rank == 0 else None)
        return model.restore(path, intervention) if there else None

    def restore_former(
        self, key: str, model: Model, intervention: Intervention, stored: StoredAs
    ) -> Solution | None:
        """The solution of an earlier run that solves another problem of the study as it was edited
        since; None where there is none, or its unknowns are others.
        """
        if self.folder is None:
            return None
        path = self.base / "fields" / f"{slug(f'{FORMER}/{key}')}.npz"
        if not self.comm.bcast(path.is_file() if self.comm.rank == 0 else None):
            return None
        try:
            return model.restore(path, intervention, stored)
        except InputError:
            return None

    def close(self, finished: bool) -> None:
        """Release the folder; of a finished study the facts stay, and solutions that are small."""
        self._fields.clear()
        if self.folder is not None and self.comm.rank == 0:
            fields = self.base / "fields"
            if finished and sum(p.stat().st_size for p in fields.glob("*.npz")) > MOST_KEPT:
                shutil.rmtree(fields, ignore_errors=True)
            self.release()

    def release(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                os.close(self._lock)
            self._lock = None


def checksum(key: str, fact: object) -> str:
    """The checksum of a fact, which does not depend on how JSON lays it out.

    Example:
        >>> checksum("deletion/lap", {"value": 1.0, "seconds": 0})[:12]
        '87b8759b4932'
    """
    return hashlib.sha256(json.dumps([key, fact], sort_keys=True).encode()).hexdigest()


def read_text(path: Path) -> str:
    """The text of a file of a checkpoint, refused where it is larger than any real one."""
    if require_file(path).st_size > MOST_FACT:
        raise ValueError(f"it is larger than {MOST_FACT} bytes")
    return path.read_text(encoding="utf-8")


def slug(key: str) -> str:
    """A file name for a key: readable, and different for different keys.

    Example:
        >>> slug("deletion/curl curl")
        'deletion-curl-curl-732544b3'
    """
    words = re.sub(r"[^A-Za-z0-9]+", "-", key).strip("-")[:60]
    return f"{words}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
