# SPDX-License-Identifier: MIT
"""Files that somebody else may have made: looked at before a library opens them, and files of ours,
written whole or not at all.

HDF5, and so netCDF and XDMF, follows links into other files, takes numbers out of any file by
external storage, gathers them from others by virtual datasets, and loads libraries for filters it
does not know. A few kilobytes can unpack to gigabytes. Here such files are refused by what their
headers say, before a number is read.
"""

from __future__ import annotations

import math
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from types import ModuleType


MOST_BYTES = 2**31  # of numbers that are read from a file of measurements
MOST_OBJECTS = 10_000  # links in an HDF5 file, entries in an archive
# Deflate shrinks nothing by more than 1,032; what is larger than that was never written, and is
# made of fill values.
MOST_SHRUNK, SMALL = 1032, 2**26
# deflate, shuffle, fletcher32, szip, nbit, scale-offset: HDF5's own filters.
OWN_FILTERS = range(1, 7)
HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def require_file(path: Path) -> os.stat_result:
    """Refuse what is no ordinary file: a pipe or a device would be waited for."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        raise InputError(f"there is no file {path.name}") from None
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path.name} is not an ordinary file")
    return status


def check_amount(path: Path, amount: int) -> None:
    """Refuse numbers that are more than a study reads, or more than the file can hold."""
    if amount > MOST_BYTES:
        raise InputError(
            f"{path.name} holds {amount} bytes of numbers; at most {MOST_BYTES} are read"
        )
    if amount > SMALL and amount > MOST_SHRUNK * path.stat().st_size:
        raise InputError(
            f"{path.name} announces {amount} bytes of numbers, which a file of "
            f"{path.stat().st_size} bytes cannot hold"
        )


# HDF5
# --------------------------------------------------------------------------------------------------


def check_hdf5(path: Path) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shape and type of each dataset of an HDF5 file that keeps to itself.

    Raises:
        InputError: it is damaged, or has links, external storage, virtual datasets, foreign
            filters, or too many objects.
    """
    try:
        import h5py
    except ImportError:
        raise InputError(
            f"{path.name} is an HDF5 file, and looking into it needs h5py: pip install "
            "'cffem[data]'"
        ) from None
    require_file(path)
    try:
        with h5py.File(path, "r", locking=False) as file:
            names = _hard_links(h5py, file, path)
            return {
                name: found
                for name in names
                if (found := _dataset(h5py, file, name, path)) is not None
            }
    except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path.name} is damaged: {' '.join(str(error).split())[:200]}") from None


def _hard_links(h5py: ModuleType, file: Any, path: Path) -> list[str]:
    names: list[str] = []

    def look(name: bytes, info: Any) -> bytes | None:
        names.append(name.decode("utf-8", "replace"))
        return name if info.type != h5py.h5l.TYPE_HARD or len(names) > MOST_OBJECTS else None

    refused = file.id.links.visit(look, info=True)
    if refused is not None and len(names) > MOST_OBJECTS:
        raise InputError(f"{path.name} has more than {MOST_OBJECTS} objects")
    if refused is not None:
        raise InputError(
            f"{path.name} has a link to another place, {names[-1][:80]!r}; store the data "
            "themselves there"
        )
    return names


def _dataset(
    h5py: ModuleType, file: Any, name: str, path: Path
) -> tuple[tuple[int, ...], np.dtype] | None:
    """Shape and type of a dataset, None for a group; how it is stored is looked at before
    anything else is asked.
    """
    found = h5py.h5o.open(file.id, name.encode())
    if not isinstance(found, h5py.h5d.DatasetID):
        return None
    how = found.get_create_plist()
    if how.get_layout() == h5py.h5d.VIRTUAL:
        raise InputError(
            f"{path.name} has a virtual dataset, {name[:80]!r}, whose numbers are in other files"
        )
    if how.get_external_count() > 0:
        raise InputError(f"{path.name} keeps the numbers of {name[:80]!r} in another file")
    if any(how.get_filter(k)[0] not in OWN_FILTERS for k in range(how.get_nfilters())):
        raise InputError(
            f"{path.name} has a filter that is not HDF5's own in {name[:80]!r}; store it with "
            "deflate (gzip)"
        )
    return tuple(found.shape), found.dtype


# Archives
# --------------------------------------------------------------------------------------------------


def check_archive(path: Path) -> None:
    """Refuse an archive with too many entries before its list is read, or with more in it than a
    study reads.

    Raises:
        InputError, zipfile.BadZipFile
    """
    size = require_file(path).st_size
    with open(path, "rb") as handle:
        handle.seek(max(0, size - 65_557))
        tail = handle.read()
    place = tail.rfind(b"PK\x05\x06")
    if place < 0 or len(tail) < place + 22:
        raise InputError(f"{path.name} is not an .npz archive")
    entries, listed = struct.unpack("<HI", tail[place + 10 : place + 16])
    if entries > MOST_OBJECTS or listed > 500 * MOST_OBJECTS:
        raise InputError(f"{path.name} has more than {MOST_OBJECTS} entries")
    with zipfile.ZipFile(path) as archive:
        check_amount(path, sum(entry.file_size for entry in archive.infolist()))


def read_arrays(
    path: Path, names: Iterable[str] | None = None, kinds: str = "biufc"
) -> dict[str, np.ndarray]:
    """The named arrays of an `.npz` archive, or all of them, of NumPy's kinds of types; nothing in
    it is executed.

    Raises:
        InputError: it is no archive, it is damaged, or its arrays are not numbers or larger than
            they can be.
    """
    try:
        check_archive(path)
        with zipfile.ZipFile(path) as archive:
            present = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
            wanted = list(present) if names is None else list(names)
            missing = [name for name in wanted if name not in present]
            if missing:
                raise InputError(
                    f"{path.name} has no array {missing[0]!r}; it has "
                    f"{', '.join(list(present)[:20])}"
                )
            return {name: _array(archive, present[name], path, kinds) for name in wanted}
    except (
        zipfile.BadZipFile,
        OSError,
        KeyError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        MemoryError,
    ) as error:
        raise InputError(
            f"{path.name} is not an .npz archive, or it is damaged ({error})"
        ) from None


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path, kinds: str) -> np.ndarray:
    try:
        with archive.open(entry) as handle:
            version = np.lib.format.read_magic(handle)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, _, kind = read(handle)
            if kind.hasobject or kind.kind not in kinds:
                raise ValueError(f"its type is {kind}, not numbers")
            if math.prod(shape) * kind.itemsize > entry.file_size:
                raise ValueError(f"it announces {shape} numbers, which it does not hold")
        with archive.open(entry) as handle:
            return np.lib.format.read_array(handle, allow_pickle=False)
    except (
        ValueError,
        EOFError,
        SyntaxError,
        TypeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        said = " ".join(str(error).split())[:200]
        raise InputError(
            f"{path.name}: the array {entry.filename[:80]!r} cannot be read: {said}"
        ) from None


# Our own files
# --------------------------------------------------------------------------------------------------


def write_whole(path: Path, text: str, durably: bool = False) -> Path:
    """Write a file that is there with all its content or not at all, whenever the program ends.

    Args:
        path: the file; a link of that name is replaced, not followed.
        text: its content.
        durably: whether it is on the disk when this returns.
    """
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    # A new file, so that a link that somebody left here leads nowhere.
    with open(
        os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w", encoding="utf-8"
    ) as handle:
        handle.write(text)
        if durably:
            handle.flush()
            os.fsync(handle.fileno())
    part.replace(path)
    return path


def find_link(folder: Path) -> str | None:
    """What in a folder is neither a file nor a folder, at any depth, nothing being followed;
    None where all is well.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        return str(folder)
    for here, folders, files in os.walk(folder):
        for name in (*folders, *files):
            mode = os.lstat(os.path.join(here, name)).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                return os.path.join(here, name)
    return None
