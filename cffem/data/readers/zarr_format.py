# SPDX-License-Identifier: MIT
"""Reading Zarr 3 arrays with what is at hand: JSON, NumPy and a Zstandard library.

A Zarr array is a folder with `zarr.json` and one file for each chunk of a regular grid. Read here
are plain arrays whose chunks are little-endian numbers, compressed by Zstandard or gzip or not at
all, as most stores of gridded fields are; anything else is refused. With the package `zarr`
installed, xarray opens the same stores.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import gzip
import importlib
import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cffem.symbols.errors import InputError

LARGEST_CHUNK = 2**31
DTYPES = (
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
)


def open_zarr(path: str | Path, names: Sequence[str] | None = None) -> Any:
    """A Zarr 3 group as an xarray dataset; arrays named like one of their dimensions are
    coordinates.

    Args:
        path: the folder of the group.
        names: the arrays to read, their coordinates come along (default: all).
    """
    import xarray

    folder = Path(path)
    group = _metadata(folder)
    if group.get("node_type") != "group":
        raise InputError(f"{folder} is no Zarr 3 group")
    present = sorted(p.parent.name for p in folder.glob("*/zarr.json"))
    missing = [name for name in names or () if name not in present]
    if missing:
        raise InputError(f"{folder} has no array {missing[0]!r}; it has {', '.join(present)}")
    variables = {}
    for name in present:
        array, dimensions, attributes = None, *_described(folder / name)
        if names is None or name in names or dimensions == (name,):
            array = read_array(folder / name)
            variables[name] = (dimensions, array, attributes)
    return xarray.Dataset(variables, attrs=group.get("attributes", {})).set_coords(
        [n for n, v in variables.items() if v[0] == (n,)]
    )


def read_array(folder: Path) -> np.ndarray:
    """One array, all chunks of it."""
    meta = _metadata(folder)
    shape, chunk = tuple(meta["shape"]), tuple(meta["chunk_grid"]["configuration"]["chunk_shape"])
    dtype = meta["data_type"]
    codecs = [codec["name"] for codec in meta["codecs"]]
    if (
        dtype not in DTYPES
        or codecs[0] != "bytes"
        or set(codecs[1:]) - {"zstd", "gzip"}
        or meta["chunk_grid"]["name"] != "regular"
    ):
        raise InputError(
            f"{folder} is stored as {dtype} through {', '.join(codecs)}; install zarr and open it "
            "with xarray instead"
        )
    order = (
        "<"
        if meta["codecs"][0].get("configuration", {}).get("endian", "little") == "little"
        else ">"
    )
    separator = meta["chunk_key_encoding"].get("configuration", {}).get("separator", "/")
    size = math.prod(chunk) * np.dtype(dtype).itemsize
    if size > LARGEST_CHUNK:
        raise InputError(
            f"{folder} has chunks of {size} bytes; install zarr and open it with xarray instead"
        )
    result = np.full(shape, np.asarray(meta["fill_value"], dtype=dtype))
    for index in itertools.product(*(range(-(-n // c)) for n, c in zip(shape, chunk, strict=True))):
        file = folder / separator.join(["c", *map(str, index)])
        if file.is_file():
            data = file.read_bytes()
            for codec in reversed(codecs[1:]):
                data = gzip.decompress(data) if codec == "gzip" else zstandard(data, size)
            block = np.frombuffer(data, dtype=np.dtype(dtype).newbyteorder(order)).reshape(chunk)
            place = tuple(
                slice(i * c, min((i + 1) * c, n))
                for i, c, n in zip(index, chunk, shape, strict=True)
            )
            result[place] = block[tuple(slice(p.stop - p.start) for p in place)]
    return result


def _metadata(folder: Path) -> dict[str, Any]:
    try:
        meta = json.loads((folder / "zarr.json").read_text())
    except (OSError, ValueError):
        raise InputError(f"{folder} is no Zarr 3 store: it has no readable zarr.json") from None
    if meta.get("zarr_format") != 3:
        raise InputError(f"{folder} is of Zarr format {meta.get('zarr_format')}, not 3")
    return meta


def _described(folder: Path) -> tuple[tuple[str, ...], dict[str, Any]]:
    meta = _metadata(folder)
    dimensions = meta.get("dimension_names") or [
        f"{folder.name}_{k}" for k in range(len(meta["shape"]))
    ]
    return tuple(map(str, dimensions)), meta.get("attributes", {})


def zstandard(data: bytes, size: int) -> bytes:
    """Decompress one Zstandard frame of a known size, with Python's own module, the package, or the
    system's library.

    Example:
        >>> zstandard(bytes.fromhex("28b52ffd0400210000616263641a8c1c4f"), 4)  # doctest: +SKIP
        b'abcd'
    """
    for name in ("compression.zstd", "zstandard"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        return (
            module.decompress(data)
            if name == "compression.zstd"
            else module.ZstdDecompressor().decompress(data, size)
        )
    library = ctypes.util.find_library("zstd")
    if library is None:
        raise InputError(
            "reading Zstandard chunks needs the package zstandard: pip install zstandard"
        )
    codec = ctypes.CDLL(library)
    codec.ZSTD_decompress.restype = codec.ZSTD_isError.restype = ctypes.c_size_t
    codec.ZSTD_decompress.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_char_p,
        ctypes.c_size_t,
    ]
    codec.ZSTD_isError.argtypes = [ctypes.c_size_t]
    out = ctypes.create_string_buffer(size)
    length = codec.ZSTD_decompress(out, size, data, len(data))
    if codec.ZSTD_isError(length):
        raise InputError("a chunk of the Zarr store is damaged")
    return out.raw[:length]
