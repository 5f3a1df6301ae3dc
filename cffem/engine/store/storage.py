# SPDX-License-Identifier: MIT
"""Storing fields and restoring them exactly, on any number of ranks: the only storage of fields
there is.

A file is a `.npz` archive: a header in JSON (`header.npy`, its bytes) and, for each state and each
field, the values in the geometric numbering of `numbering`. A fingerprint of the mesh and a
description of each element are checked before anything is read, files appear under their name only
when they are complete, and nothing in them is ever executed.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.engine.collective import collectively
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from basix.ufl import _ElementBase
    from mpi4py import MPI

    from cffem.engine.assembly.spaces import Spaces


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
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    archive = collectively(spaces.comm, lambda: _begin(temporary))
    try:
        names = []
        for name, state in states:
            names.append(name)
            for unknown, values in gathered(spaces, state):
                collectively(
                    spaces.comm,
                    lambda n=name, u=unknown, v=values: _put(archive, f"{n}/{u.name}", v),
                )
        header = json.dumps(
            {"format": FORMAT, **description, "states": names, "about": about}, sort_keys=True
        )
        collectively(spaces.comm, lambda: _finish(archive, header, temporary, target))
    except BaseException:
        if archive is not None:
            archive.close()
            temporary.unlink(missing_ok=True)
        raise


def _begin(temporary: Path) -> zipfile.ZipFile:
    temporary.unlink(missing_ok=True)  # a link that somebody left there would be followed
    return zipfile.ZipFile(temporary, "x", allowZip64=True)


def _put(archive: Any, name: str, values: np.ndarray) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as handle:
        np.lib.format.write_array(handle, np.ascontiguousarray(values), allow_pickle=False)


def _finish(archive: Any, header: str, temporary: Path, target: Path) -> None:
    _put(archive, "header", np.frombuffer(header.encode(), dtype=np.uint8))
    archive.close()
    with open(temporary, "rb") as handle:
        os.fsync(handle.fileno())
    os.replace(temporary, target)


def gathered(spaces: Spaces, state: np.ndarray) -> Iterator[tuple[Any, np.ndarray | None]]:
    """The values of each field of a state on rank 0; collective."""
    whole = spaces.with_ghosts(state)
    for unknown in spaces.fields:
        yield unknown, spaces.numbering(unknown).gather(whole[spaces.dofs(unknown)])


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
            stored = collectively(
                spaces.comm, lambda e=entry, n=numbers: _values(Path(path), e, (n.count, n.block))
            )
            whole[spaces.dofs(unknown)] = numbers.scatter(stored)
        yield name, whole[: spaces.owned].copy()


def _values(path: Path, entry: str, shape: tuple[int, int]) -> np.ndarray:
    try:
        with zipfile.ZipFile(path) as archive:
            array = _get(archive, entry, np.float64, 8 * shape[0] * shape[1])
        if array.shape != shape:
            raise ValueError(f"{entry} has shape {array.shape}, not {shape}")
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError) as error:
        raise InputError(f"{path} is damaged ({type(error).__name__}: {error})") from None
    return array


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
    mesh = (
        None
        if cells is None
        else [len(cells), hashlib.sha256(cells.astype("<u8").tobytes()).hexdigest()]
    )
    count, fingerprint = spaces.comm.bcast(mesh)
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
