# SPDX-License-Identifier: MIT
"""Storing fields and restoring them exactly, on any number of ranks: the only storage of fields
there is.

A file is a `.npz` archive: a header in JSON (`header.npy`, its bytes) and, for each state and each
field, the values in the geometric numbering of `numbering`, of which each rank writes and reads its
own part. A fingerprint of the mesh and a
description of each element are checked before anything is read, files appear under their name only
when they are complete, and nothing in them is ever executed.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.engine.collective import collectively
from cffem.engine.store.exchange import digest
from cffem.engine.store.shared_archive import Member, SharedArchive, member, read_part
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from basix.ufl import _ElementBase
    from mpi4py import MPI

    from cffem.engine.assembly.spaces import Spaces
    from cffem.engine.store.numbering import Numbering


FORMAT = "cffem-fields/1"
# Larger headers are no headers; the largest real ones list the stages of a few thousand time steps.
MOST_HEADER = 64_000_000


def write_states(
    path: str | os.PathLike,
    spaces: Spaces,
    states: Iterable[tuple[str, np.ndarray]],
    about: Any = None,
) -> None:
    """Store states under names; collective.

    Args:
        path: the file, replaced only when the new one is complete.
        spaces: the spaces the states live in.
        states: pairs of a name and the owned values of a state; they may be made one after another.
        about: anything that JSON can hold, given back by `read_states`.

    Raises:
        OSError: the file cannot be written; on all ranks.
    """
    description = described(spaces)
    archive = SharedArchive(spaces.comm, Path(path))
    try:
        names = []
        for name, state in states:
            names.append(name)
            whole = spaces.with_ghosts(state)
            for unknown in spaces.fields:
                numbers = spaces.numbering(unknown)
                values = numbers.gather(whole[spaces.dofs(unknown)])
                archive.put(f"{name}/{unknown.name}", values, numbers.start, numbers.count)
        header = json.dumps(
            {"format": FORMAT, **description, "states": names, "about": about}, sort_keys=True
        )
        text = np.frombuffer(header.encode(), dtype=np.uint8)
        mine = text if spaces.comm.rank == 0 else text[:0]
        archive.put("header", mine, 0 if spaces.comm.rank == 0 else len(text), len(text))
        archive.close()
    except BaseException:
        archive.abandon()
        raise


def read_header(path: str | os.PathLike, comm: MPI.Comm) -> dict[str, Any]:
    """The header of a file of fields, on all ranks; collective.

    Raises:
        InputError: there is no such file, or it is not one of fields.
    """
    return comm.bcast(collectively(comm, lambda: _header(Path(path))))


def _header(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(bytes(_get(archive, "header", np.uint8, MOST_HEADER)))
        if header["format"] != FORMAT:
            raise ValueError(header["format"])
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, EOFError) as error:
        raise InputError(
            f"{path} is no file of fields, or it is damaged ({type(error).__name__}: {error})"
        ) from None
    return header


def _get(archive: zipfile.ZipFile, name: str, kind: Any, most: int) -> np.ndarray:
    """An array of an archive, refused before it is read if it is larger than it can be."""
    if archive.getinfo(f"{name}.npy").file_size > most + 4096:
        raise ValueError(f"{name} is too large")
    with archive.open(f"{name}.npy") as handle:
        array = np.lib.format.read_array(handle, allow_pickle=False)
    if array.dtype != kind:
        raise ValueError(f"{name} holds {array.dtype}")
    return array


def read_states(
    path: str | os.PathLike, spaces: Spaces, header: Mapping[str, Any]
) -> Iterator[tuple[str, np.ndarray]]:
    """The stored states one after another, as owned values on this partition; collective.

    Args:
        path: the file.
        spaces: the spaces to read into.
        header: what `read_header` gave.

    Raises:
        InputError: the file belongs to another mesh or other elements, or is damaged.
    """
    check_fit(path, spaces, header)
    for name in header["states"]:
        whole = spaces.with_ghosts(np.zeros(spaces.owned))
        for unknown in spaces.fields:
            numbers = spaces.numbering(unknown)
            entry = f"{name}/{unknown.name}"
            stored = _values(Path(path), entry, numbers)
            whole[spaces.dofs(unknown)] = numbers.scatter(stored)
        yield name, whole[: spaces.owned].copy()


def _values(path: Path, entry: str, numbers: Numbering) -> np.ndarray:
    """This rank's part of a stored field; collective."""
    shape = numbers.count, numbers.block
    try:
        found = numbers.comm.bcast(
            collectively(numbers.comm, lambda: _checked(member(path, entry), entry, shape))
        )
        return read_part(numbers.comm, path, found, numbers.start, numbers.size)
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError) as error:
        raise InputError(f"{path} is damaged ({type(error).__name__}: {error})") from None


def _checked(found: Member, entry: str, shape: tuple[int, int]) -> Member:
    if found.shape != shape or np.dtype(found.kind) != np.float64:
        raise ValueError(f"{entry} holds {found.kind} of shape {found.shape}, not {shape}")
    return found


def check_fit(path: str | os.PathLike, spaces: Spaces, header: Mapping[str, Any]) -> None:
    """Refuse a file of another mesh or other elements; collective."""
    here = described(spaces)
    if header["cells"] != here["cells"] or header["mesh"] != here["mesh"]:
        raise InputError(
            f"{path} was stored on another mesh: it has {header['cells']} cells, this one "
            f"{here['cells']}" + ("" if header["cells"] != here["cells"] else " at other places")
        )
    if header["fields"] != here["fields"]:
        names = sorted(set(header["fields"]) ^ set(here["fields"])) or [
            n for n in here["fields"] if header["fields"][n] != here["fields"][n]
        ]
        there = "; ".join(
            f"{name}: {header['fields'].get(name)} there, {here['fields'].get(name)} here"
            for name in names
        )
        raise InputError(f"{path} holds other fields or elements than this model ({there})")


def described(spaces: Spaces) -> dict[str, Any]:
    """Fingerprint of the mesh and description of the elements, the same on any number of
    ranks; collective.
    """
    cells = spaces.numbering(spaces.fields[0]).cells
    count = spaces.comm.allreduce(len(cells))
    fingerprint = digest(spaces.comm, cells.astype("<u8"))
    return {
        "cells": count,
        "mesh": fingerprint,
        "fields": {f.name: element_name(spaces.elements[f]) for f in spaces.fields},
    }


def element_name(element: _ElementBase) -> str:
    """What distinguishes one element from another, in words.

    Example:
        >>> import basix.ufl
        >>> element_name(basix.ufl.element("Lagrange", "triangle", 2, shape=(2,)))
        'P 2 on triangle, gll_warped, 2 components'
    """
    base = element.sub_elements[0] if element.block_size > 1 else element
    inner = base.basix_element
    words = [f"{inner.family.name} {inner.degree} on {inner.cell_type.name}"]
    words += [
        variant.name
        for variant in (inner.lagrange_variant, inner.dpc_variant)
        if variant.name != "unset"
    ]
    words += ["discontinuous"] if inner.discontinuous else []
    words += [f"{element.block_size} components"] if element.block_size > 1 else []
    return ", ".join(words)
