# SPDX-License-Identifier: MIT
"""`.npz` archives that all ranks write and read together, each its own part of every array.

The arrays are stored as they are, so the place of every row in the file is known before anything is
written. The checksum that a ZIP archive has of each member, CRC-32, can be put together from those
of its parts, so it is that of the whole on any number of ranks. Every rank must see the file: the
folder is one that all machines share.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mpi4py import MPI

from cffem.engine.collective import collectively, everywhere

DATE = (1980, 1, 1, 0, 0, 0)
_POLYNOMIAL = 0xEDB88320


def _product(a: int, b: int) -> int:
    """a · b as polynomials modulo that of CRC-32, bits reflected."""
    result, bit = 0, 1 << 31
    while bit:
        if a & bit:
            result ^= b
        b = (b >> 1) ^ (_POLYNOMIAL if b & 1 else 0)
        bit >>= 1
    return result


def combined(first: int, second: int, length: int) -> int:
    """The CRC-32 of two strings one after the other.

    Args:
        first, second: theirs.
        length: bytes of the second one.

    Example:
        >>> combined(zlib.crc32(b"one"), zlib.crc32(b"two!"), 4) == zlib.crc32(b"onetwo!")
        True
    """
    shift, power = 1 << 31, 1 << 23  # the polynomials 1 and x⁸
    while length:
        if length & 1:
            shift = _product(power, shift)
        power = _product(power, power)
        length >>= 1
    return _product(shift, first) ^ second


def whole_checksum(comm: MPI.Comm, head: bytes, part: np.ndarray) -> int:
    """The CRC-32 of some bytes and then the parts of all ranks; collective."""
    total = zlib.crc32(head)
    for crc, length in comm.allgather((zlib.crc32(part), part.nbytes)):
        total = combined(total, crc, length)
    return total


@dataclass(frozen=True)
class Member:
    """An array of an archive.

    Attributes:
        start: where its values begin in the file.
        head: the bytes of its header.
        shape: its shape.
        kind: the type of its values.
        crc: the checksum of header and values.
    """

    start: int
    head: bytes
    shape: tuple[int, ...]
    kind: str
    crc: int


class SharedArchive:
    """An archive under way; all calls are collective.

    Args:
        comm: the communicator.
        target: the file, replaced when the new one is complete.
    """

    def __init__(self, comm: MPI.Comm, target: Path):
        self.comm, self.target = comm, target
        self._path = target.with_name(f".{target.name}.{comm.bcast(os.getpid())}.part")
        self._file = -1
        self._end = 0
        self._entries: list[tuple[zipfile.ZipInfo, int]] = []
        collectively(comm, self._create)
        everywhere(comm, self._open)

    def _create(self) -> None:
        self._path.unlink(missing_ok=True)  # a link that somebody left there would be followed
        os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_RDWR | os.O_NOFOLLOW)

    def put(self, name: str, part: np.ndarray, start: int, count: int) -> None:
        """Add an array.

        Args:
            name: its name.
            part: this rank's rows.
            start: the number of the first of them.
            count: the number of rows on all ranks.
        """
        part = np.ascontiguousarray(part)
        content = part.reshape(-1).view(np.uint8)
        head = npy_header(part.dtype, (count, *part.shape[1:]))
        width = part.dtype.itemsize * int(np.prod(part.shape[1:], dtype=np.int64))
        info = zipfile.ZipInfo(f"{name}.npy", DATE)
        info.external_attr = 0o600 << 16
        info.file_size = info.compress_size = len(head) + count * width
        info.CRC = whole_checksum(self.comm, head, content)
        local = info.FileHeader(zip64=True)
        begin = self._end + len(local) + len(head)

        def write() -> None:
            if self.comm.rank == 0:
                written(self._file, local + head, self._end)
            written(self._file, content.data, begin + start * width)

        everywhere(self.comm, write)
        self._entries.append((info, self._end))
        self._end = begin + count * width

    def close(self) -> None:
        """Complete the file and give it its name."""
        end = directory(self._entries, self._end)

        def finish() -> None:
            if self.comm.rank == 0:
                written(self._file, end, self._end)
            os.fsync(self._file)

        everywhere(self.comm, finish)
        self._close_file()
        collectively(self.comm, lambda: os.replace(self._path, self.target))

    def abandon(self) -> None:
        """Leave nothing behind; not collective."""
        self._close_file()
        if self.comm.rank == 0:
            self._path.unlink(missing_ok=True)

    def _close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def npy_header(kind: np.dtype, shape: tuple[int, ...]) -> bytes:
    """What stands before the values of an array in NumPy's format."""
    buffer = io.BytesIO()
    description = np.lib.format.dtype_to_descr(kind)
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": description, "fortran_order": False, "shape": shape}
    )
    return buffer.getvalue()


def written(file: int, content: bytes | memoryview, place: int) -> None:
    """Write all of it; the system takes 2 GB at a time at most."""
    view = memoryview(content)
    while len(view):
        done = os.pwrite(file, view[: 1 << 30], place)
        view, place = view[done:], place + done


def directory(entries: list[tuple[zipfile.ZipInfo, int]], start: int) -> bytes:
    """The table of contents that ends a ZIP archive, for files of any size."""
    parts = []
    for info, place in entries:
        name = info.filename.encode()
        extra = struct.pack("<HHQQQ", 1, 24, info.file_size, info.compress_size, place)
        parts.append(
            struct.pack(
                "<4sBBBBHHHHLLLHHHHHLL", b"PK\x01\x02", 45, 3, 45, 0, 0x800, 0,
                0, 0x21, info.CRC, 0xFFFFFFFF, 0xFFFFFFFF, len(name), len(extra), 0, 0, 0,
                info.external_attr, 0xFFFFFFFF,
            )
        )  # fmt: skip
        parts += [name, extra]
    table = b"".join(parts)
    count, end = len(entries), start + len(table)
    return (
        table
        + struct.pack("<4sQHHLLQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count,
                      len(table), start)
        + struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
        + struct.pack("<4sHHHHLLH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    )  # fmt: skip


def member(path: Path, name: str) -> Member:
    """Where an array of an archive is.

    Raises:
        ValueError, KeyError, zipfile.BadZipFile: it is not there, or not plain values.
    """
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"{name}.npy")
        if info.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{name} is compressed")
        with archive.open(info) as handle:
            if np.lib.format.read_magic(handle) != (1, 0):
                raise ValueError(f"{name} is of another version")
            shape, fortran, kind = np.lib.format.read_array_header_1_0(handle)
            length = handle.tell()
            handle.seek(0)
            head = handle.read(length)
    if fortran or kind.hasobject or length + kind.itemsize * int(np.prod(shape)) != info.file_size:
        raise ValueError(f"{name} is not an array of plain values")
    with open(path, "rb") as file:
        file.seek(info.header_offset)
        local = file.read(30)
    if len(local) < 30 or local[:4] != b"PK\x03\x04":
        raise ValueError(f"{name} is not where it should be")
    inside = info.header_offset + 30 + sum(struct.unpack("<HH", local[26:30]))
    return Member(inside + length, head, shape, kind.str, info.CRC)


def read_part(comm: MPI.Comm, path: Path, found: Member, start: int, count: int) -> np.ndarray:
    """This rank's rows of an array, checked together; collective.

    Raises:
        ValueError: the checksum is that of other values.
        OSError: the file cannot be read.
    """
    kind = np.dtype(found.kind)
    width = kind.itemsize * int(np.prod(found.shape[1:], dtype=np.int64))
    part = everywhere(comm, lambda: _read(path, found.start + start * width, count * width))
    if whole_checksum(comm, found.head, part) != found.crc:
        raise ValueError("its checksum is that of other values")
    return part.view(kind).reshape(count, *found.shape[1:])


def _read(path: Path, place: int, length: int) -> np.ndarray:
    result = np.empty(length, dtype=np.uint8)
    with open(path, "rb") as file:
        file.seek(place)
        view = memoryview(result)
        done = 0
        while done < length:
            got = file.readinto(view[done : done + (1 << 30)])
            if not got:
                raise ValueError("it ends too early")
            done += got
    return result
