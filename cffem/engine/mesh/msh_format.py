# SPDX-License-Identifier: MIT
"""Reading gmsh's MSH files (4.1 and 2.2, text and binary) as the data they are.

Gmsh's own reader is not used for files that somebody gives us: it runs a file without the
`$MeshFormat` header as a script, runs a script `NAME.msh.opt` that lies beside the mesh, and aborts
the process on some damaged binary files. Here every count is checked against the length of the file
before anything is allocated, and whatever is wrong is a `MeshError`.
"""

from __future__ import annotations

import contextlib
import re
import struct
import warnings
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from cffem.symbols.errors import InputError

MAX_CELLS = 20_000_000
MAX_NAMES = 10_000
MAX_RUNS = 5_000  # runs of elements that are written alike in MSH 2; gmsh writes kind by kind
MAX_BLOCKS = 50_000  # geometric parts; each is read by itself, 20 µs for an empty one

# Gmsh's number of an element type: cell, degree, nodes.
ELEMENT_TYPES = {
    15: ("point", 1, 1),
    1: ("interval", 1, 2),
    8: ("interval", 2, 3),
    26: ("interval", 3, 4),
    2: ("triangle", 1, 3),
    9: ("triangle", 2, 6),
    21: ("triangle", 3, 10),
    3: ("quadrilateral", 1, 4),
    10: ("quadrilateral", 2, 9),
    36: ("quadrilateral", 3, 16),
    4: ("tetrahedron", 1, 4),
    11: ("tetrahedron", 2, 10),
    29: ("tetrahedron", 3, 20),
    5: ("hexahedron", 1, 8),
    12: ("hexahedron", 2, 27),
}
DIMENSIONS = {
    "point": 0,
    "interval": 1,
    "triangle": 2,
    "quadrilateral": 2,
    "tetrahedron": 3,
    "hexahedron": 3,
}


class MeshError(InputError):
    """A mesh that cannot be used: not a mesh file, damaged, or geometrically impossible."""


@dataclass(frozen=True)
class Elements:
    """Elements of one type: rows of node tags, each with the number of its physical group (0:
    none).
    """

    type: int
    nodes: np.ndarray
    groups: np.ndarray


@dataclass(frozen=True)
class MshFile:
    """The contents of a file: node tags and points, elements of each type, names of physical
    groups (dimension, number), and, where the file says so, the tags of nodes within curves.
    """

    tags: np.ndarray
    points: np.ndarray
    elements: list[Elements]
    names: dict[tuple[int, int], str]
    within_curves: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))


class Numbers:
    """A stream of numbers in the bytes of a file, text or binary."""

    def __init__(self, data: bytes, position: int, section: str, binary: bool):
        self.data, self.position, self.section, self.binary = data, position, section, binary
        self.text: np.ndarray | None = None
        if not binary:
            end = data.find(f"$End{section}".encode(), position)
            self.text = parse_text(data[position:end] if end >= 0 else b"", section)
            self.position, self.cursor = end, 0

    def take(self, count: int, dtype: str) -> np.ndarray:
        """The next numbers; `dtype` is how a binary file stores them."""
        if count < 0:
            raise MeshError(f"the mesh file has a negative count in ${self.section}; it is damaged")
        if self.text is not None:
            values = self.text[self.cursor : self.cursor + count]
            self.cursor += count
            if len(values) < count:
                raise MeshError(
                    f"the mesh file ends within ${self.section}; it is truncated or damaged"
                )
            return values if dtype == "<f8" else to_integers(values, self.section)
        size = count * np.dtype(dtype).itemsize
        if self.position + size > len(self.data):
            raise MeshError(
                f"the mesh file ends within ${self.section}; it is truncated or damaged"
            )
        values = np.frombuffer(self.data, dtype, count, self.position)
        self.position += size
        return values if dtype == "<f8" else values.astype(np.int64)

    def peek(self, count: int) -> np.ndarray:
        """The next whole numbers of a text, which stay there."""
        values = self.integers(count)
        self.cursor -= count
        return values

    def rows_ahead(self, width: int, most: int) -> np.ndarray:
        """Complete rows of a text that follow, at most so many, not yet taken."""
        assert self.text is not None
        count = min(most, (len(self.text) - self.cursor) // width)
        return self.text[self.cursor : self.cursor + count * width].reshape(count, width)

    def integers(self, count: int) -> np.ndarray:
        return self.take(count, "<i4")

    def sizes(self, count: int) -> np.ndarray:
        return self.take(count, "<u8")

    def floats(self, count: int) -> np.ndarray:
        return self.take(count, "<f8")

    def finish(self) -> int:
        """Position after the end of the section."""
        if self.text is not None and self.cursor != len(self.text):
            raise MeshError(
                f"the mesh file has more numbers in ${self.section} than it announces; it is "
                "damaged"
            )
        return end_of_section(self.data, self.position, self.section, exactly=True)


def parse_text(text: bytes, section: str) -> np.ndarray:
    """All numbers of a section written as text."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            words = text.decode("ascii")
            if section == "Elements":  # whole numbers throughout, which are read in half the time
                with contextlib.suppress(DeprecationWarning):
                    return np.fromstring(words, dtype=np.int64, sep=" ")
            return np.fromstring(words, dtype=np.float64, sep=" ")
        except (ValueError, DeprecationWarning):
            raise MeshError(
                f"the mesh file has something other than numbers in ${section}"
            ) from None


def to_integers(values: np.ndarray, section: str) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # what does not fit is found below
        whole = values if values.dtype == np.int64 else values.astype(np.int64)
    inside = len(values) == 0 or (
        values.min() > -(2**53) and values.max() < 2**53
    )  # also without NaN
    if not inside or (whole is not values and not np.array_equal(whole, values)):
        raise MeshError(f"the mesh file has a number in ${section} where a whole number belongs")
    return whole


def end_of_section(data: bytes, position: int, section: str, exactly: bool = False) -> int:
    """Position after `$EndSection`, which must come next where `exactly` is asked for."""
    marker = f"$End{section}".encode()
    found = data.find(marker, position)
    if found < 0 or (exactly and data[position:found].strip()):
        raise MeshError(
            f"the mesh file has no {marker.decode()} where it belongs; it is truncated or damaged"
        )
    return found + len(marker)


def read_msh(data: bytes) -> MshFile:
    """Read the bytes of an MSH file.

    Example:
        >>> read_msh(b"Merge 'x';")
        Traceback (most recent call last):
        ...
        cffem.engine.mesh.msh_format.MeshError: not a gmsh mesh: it does not begin with $MeshFormat
    """
    header = re.match(rb"\$MeshFormat\r?\n(\d)\.(\d+) ([01]) 8 *\r?\n", data[:64])
    if not data.startswith(b"$MeshFormat"):
        raise MeshError("not a gmsh mesh: it does not begin with $MeshFormat")
    if header is None or header.groups()[:2] not in (
        (b"4", b"1"),
        (b"2", b"2"),
        (b"2", b"1"),
        (b"2", b"0"),
        (b"2", b"3"),
    ):
        raise MeshError(
            "the mesh file is of a version that is not read; save it as MSH 4.1 (gmsh -save "
            "-format msh41)"
        )
    major, binary, position = int(header[1]), header[3] == b"1", header.end()
    if binary:
        if data[position : position + 4] != struct.pack("<i", 1):
            raise MeshError(
                "the mesh file was written on a machine with another byte order; save it again as "
                "text"
            )
        position += 4
    position = end_of_section(data, position, "MeshFormat", exactly=True)
    reader = (MshReader4 if major == 4 else MshReader2)(data, binary)
    while position < len(data):
        match = re.compile(rb"\s*(?:\$([A-Z][A-Za-z]{0,40})[ \r]*\n|\Z)").match(data, position)
        if match is None:
            raise MeshError(
                "the mesh file has something between its sections; it is damaged or not a mesh"
            )
        if match[1] is None:
            break
        section = match[1].decode()
        read = getattr(reader, f"read_{section}", None)
        position = read(match.end()) if read else end_of_section(data, match.end(), section)
    return reader.result()


class MshReader2:
    """MSH 2: nodes with tags, elements with their physical group."""

    def __init__(self, data: bytes, binary: bool):
        self.data, self.binary = data, binary
        self.names: dict[tuple[int, int], str] = {}
        self.tags = np.empty(0, dtype=np.int64)
        self.points = np.empty((0, 3))
        self.within_curves = np.empty(0, dtype=np.int64)
        self.rows: dict[int, list[np.ndarray]] = defaultdict(list)
        self.groups: dict[int, list[np.ndarray]] = defaultdict(list)

    def result(self) -> MshFile:
        elements = [
            Elements(t, np.vstack(self.rows[t]), np.concatenate(self.groups[t])) for t in self.rows
        ]
        return MshFile(self.tags, self.points, elements, self.names, self.within_curves)

    def numbers(self, position: int, section: str) -> Numbers:
        return Numbers(self.data, position, section, self.binary)

    def read_PhysicalNames(self, position: int) -> int:
        end = end_of_section(self.data, position, "PhysicalNames")
        lines = self.data[position:end].splitlines()[1:-1]
        if len(lines) > MAX_NAMES:
            raise MeshError(f"the mesh file has more than {MAX_NAMES} physical names")
        for line in lines:
            match = re.fullmatch(rb'\s*([0-3])\s+(-?\d{1,9})\s+"([^"]{1,127})"\s*', line)
            if match is None:
                raise MeshError("the mesh file has a physical name that cannot be read")
            self.names[int(match[1]), abs(int(match[2]))] = match[3].decode(
                "utf-8", errors="replace"
            )
        return end

    def read_Nodes(self, position: int) -> int:
        count, position = self.text_count(position, "Nodes")
        if self.binary:
            size = count * 28
            if position + size > len(self.data):
                raise MeshError("the mesh file ends within $Nodes; it is truncated or damaged")
            table = np.frombuffer(
                self.data, np.dtype([("tag", "<i4"), ("point", "<f8", 3)]), count, position
            )
            self.tags, self.points = table["tag"].astype(np.int64), table["point"].copy()
            return end_of_section(self.data, position + size, "Nodes", exactly=True)
        numbers = self.numbers(position, "Nodes")
        rows = numbers.floats(4 * count).reshape(count, 4)
        self.tags, self.points = to_integers(rows[:, 0], "Nodes"), rows[:, 1:].copy()
        return numbers.finish()

    def text_count(self, position: int, section: str) -> tuple[int, int]:
        """The number of entries, which MSH 2 writes as text even in binary files."""
        match = re.compile(rb"\s*(\d{1,12})[ \r]*\n").match(self.data, position)
        if match is None:
            raise MeshError(f"the mesh file has no count at the beginning of ${section}")
        return int(match[1]), match.end()

    def read_Elements(self, position: int) -> int:
        count, position = self.text_count(position, "Elements")
        check_count(count)
        numbers = self.numbers(position, "Elements")
        done = runs = 0
        while done < count:
            if self.binary:
                kind, many, labels = numbers.integers(3).tolist()
                width = labels + 1 + nodes_of(kind)
                if labels < 0 or not 0 < many <= count - done:
                    raise MeshError(
                        "the mesh file has a count in $Elements that cannot be right; it is damaged"
                    )
                rows = numbers.integers(many * width).reshape(many, width)
            else:
                kind, labels, rows = self.text_rows(numbers, count - done)
            self.rows[kind].append(rows[:, 1 + labels :])
            self.groups[kind].append(
                np.abs(rows[:, 1]) if labels > 0 else np.zeros(len(rows), dtype=np.int64)
            )
            runs += 1
            check_blocks(runs, MAX_RUNS)
            done += len(rows)
        return numbers.finish()

    def text_rows(self, numbers: Numbers, most: int) -> tuple[int, int, np.ndarray]:
        """The next elements that are written alike: type, number of labels, and rows of number,
        labels and nodes.

        A row is as long as its type and its number of labels say, so rows with the same two follow
        each other at equal distance.
        """
        _, kind, labels = numbers.peek(3).tolist()
        if labels < 0:
            raise MeshError(
                "the mesh file has a count in $Elements that cannot be right; it is damaged"
            )
        width = 3 + labels + nodes_of(kind)
        alike, tried = 1, 64
        while True:
            ahead = numbers.rows_ahead(width, min(tried, most))
            other = (ahead[:, 1] != kind) | (ahead[:, 2] != labels)
            alike = int(np.argmax(other)) if other.any() else len(ahead)
            if alike < len(ahead) or len(ahead) < tried:
                break
            tried *= 8
        rows = numbers.integers(width * max(alike, 1)).reshape(-1, width)
        return kind, labels, np.delete(rows, (1, 2), axis=1)


class MshReader4(MshReader2):
    """MSH 4.1: nodes and elements in blocks, one for each geometric entity, which knows its
    physical groups.
    """

    def __init__(self, data: bytes, binary: bool):
        super().__init__(data, binary)
        self.groups_of: dict[tuple[int, int], list[int]] = {}

    def numbers(self, position: int, section: str) -> Numbers:
        """The numbers of a section; too many parts are refused before a text is read as a whole."""
        count = re.compile(rb"\s*(\d{1,18})\s").match(self.data, position)
        if not self.binary and count is not None:
            check_blocks(int(count[1]))
        return super().numbers(position, section)

    def read_PartitionedEntities(self, position: int) -> int:
        raise MeshError("the mesh file is partitioned; save it in one piece, DOLFINx partitions it")

    def read_Entities(self, position: int) -> int:
        numbers = self.numbers(position, "Entities")
        counts = numbers.sizes(4).tolist()
        check_blocks(sum(counts))
        for dimension, count in enumerate(counts):
            for _ in range(count):
                tag = int(numbers.integers(1)[0])
                numbers.floats(3 if dimension == 0 else 6)
                groups = numbers.integers(int(numbers.sizes(1)[0]))
                self.groups_of[dimension, tag] = np.abs(groups).tolist()
                if dimension > 0:
                    numbers.integers(int(numbers.sizes(1)[0]))
        return numbers.finish()

    def read_Nodes(self, position: int) -> int:
        numbers = self.numbers(position, "Nodes")
        blocks, *_ = numbers.sizes(4).tolist()
        check_blocks(blocks)
        tags, points, within = [self.tags], [self.points], [self.within_curves]
        for _ in range(blocks):
            dimension, _, parametric = numbers.integers(3).tolist()
            count = int(numbers.sizes(1)[0])
            width = 3 + (dimension if parametric else 0)
            tags.append(numbers.sizes(count))
            if dimension == 1:
                within.append(tags[-1])
            points.append(numbers.floats(width * count).reshape(count, width)[:, :3])
        self.tags, self.points = np.concatenate(tags), np.vstack(points)
        self.within_curves = np.concatenate(within)
        return numbers.finish()

    def read_Elements(self, position: int) -> int:
        numbers = self.numbers(position, "Elements")
        blocks, count, *_ = numbers.sizes(4).tolist()
        check_count(count)
        check_blocks(blocks)
        for _ in range(blocks):
            dimension, entity, kind = numbers.integers(3).tolist()
            many = int(numbers.sizes(1)[0])
            width = 1 + nodes_of(kind)
            rows = numbers.sizes(many * width).reshape(many, width)
            groups = self.groups_of.get((dimension, entity), [])
            if len(groups) > 1:
                names = " and ".join(
                    repr(self.names.get((dimension, group), str(group))) for group in groups[:2]
                )
                raise MeshError(
                    f"a part of the mesh belongs to the physical groups {names}; give every part "
                    "to one group only"
                )
            self.rows[kind].append(rows[:, 1:])
            self.groups[kind].append(np.full(many, groups[0] if groups else 0, dtype=np.int64))
        return numbers.finish()


def check_count(count: int) -> None:
    if not 0 <= count <= MAX_CELLS:
        raise MeshError(f"the mesh file announces {count} elements; at most {MAX_CELLS} are read")


def check_blocks(count: int, most: int = MAX_BLOCKS) -> None:
    if not 0 <= count <= most:
        raise MeshError(f"the mesh file has {count} blocks or parts; at most {most} are read")


def nodes_of(kind: int) -> int:
    """Number of nodes of one of gmsh's element types."""
    if kind not in ELEMENT_TYPES:
        raise MeshError(
            f"the mesh has elements of gmsh's type {kind}; only simplices, quadrilaterals and "
            "hexahedra are read"
        )
    return ELEMENT_TYPES[kind][2]
