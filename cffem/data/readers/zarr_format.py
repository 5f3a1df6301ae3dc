# SPDX-License-Identifier: MIT
"""Zarr 3 groups, opened by xarray with the package `zarr`.

What a store asks of the machine is checked before it is opened: a folder from a stranger may name
any codec that happens to be installed, or chunks that do not fit into memory. Groups of plain
numbers through the codecs of the standard are read, everything else is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    import xarray

LARGEST_CHUNK = 2**31  # bytes of one chunk when unpacked
WIDTHS = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (32, 64)}
NUMBERS = {f"{kind}{bits}" for kind, widths in WIDTHS.items() for bits in widths}
CODECS = {"bytes", "zstd", "gzip", "blosc", "crc32c", "transpose"}


def open_zarr(path: str | Path, names: Sequence[str] | None = None) -> xarray.Dataset:
    """A Zarr 3 group as an xarray dataset; arrays named like one of their dimensions are
    coordinates.

    Args:
        path: the folder of the group.
        names: the arrays to read, their coordinates come along (default: all).
    """
    folder = Path(path)
    if _metadata(folder).get("node_type") != "group":
        raise InputError(f"{folder} is no Zarr 3 group")
    present = sorted(p.parent.name for p in folder.glob("*/zarr.json"))
    missing = [name for name in names or () if name not in present]
    if missing:
        raise InputError(f"{folder} has no array {missing[0]!r}; it has {', '.join(present)}")
    described = {name: _metadata(folder / name) for name in present}
    wanted = [
        name
        for name, array in described.items()
        if names is None or name in names or array.get("dimension_names") == [name]
    ]
    for name in wanted:
        _check(folder / name, described[name])
    try:
        import xarray
        import zarr  # noqa: F401  xarray reads such stores through it
    except ImportError:
        raise InputError("Zarr stores need xarray and zarr: pip install 'cffem[data]'") from None
    try:
        return xarray.open_zarr(
            folder,
            zarr_format=3,
            consolidated=False,
            chunks=None,
            decode_cf=False,
            drop_variables=sorted(set(present) - set(wanted)),
        ).load()
    except (OSError, ValueError, RuntimeError, TypeError) as error:
        raise InputError(f"{folder} cannot be read as Zarr: {str(error).splitlines()[0]}") from None


def _metadata(folder: Path) -> Mapping[str, object]:
    try:
        meta = json.loads((folder / "zarr.json").read_text())
    except (OSError, ValueError):
        raise InputError(f"{folder} is no Zarr 3 store: it has no readable zarr.json") from None
    if not isinstance(meta, dict) or meta.get("zarr_format") != 3:
        raise InputError(f"{folder} is no store of Zarr format 3")
    return meta


def _check(folder: Path, meta: Mapping[str, object]) -> None:
    """Refuse what is not plain numbers through the codecs of the standard."""
    try:
        dtype, codecs = str(meta["data_type"]), [str(codec["name"]) for codec in meta["codecs"]]  # type: ignore[attr-defined]
        chunk = [int(n) for n in meta["chunk_grid"]["configuration"]["chunk_shape"]]  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{folder} is no Zarr 3 array: its zarr.json is incomplete") from None
    if dtype not in NUMBERS or set(codecs) - CODECS:
        raise InputError(
            f"{folder} is stored as {dtype} through {', '.join(codecs)}; read here are numbers "
            f"through {', '.join(sorted(CODECS))}"
        )
    size = math.prod(chunk) * np.dtype(dtype).itemsize
    if size > LARGEST_CHUNK:
        raise InputError(f"{folder} has chunks of {size} bytes; store it in smaller ones")
