# SPDX-License-Identifier: MIT
"""Measured data that a study file names: arrays in `.npz`, variables of a netCDF file or columns of
a table, read as data and nothing else."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cffem.data.dataset import Dataset, refuse_degrees
from cffem.data.readers.csv_format import from_columns, read_columns
from cffem.engine.collective import collectively
from cffem.study.toml.allowed import inside
from cffem.study.toml.study_keys import StudyFileError, Table
from cffem.symbols.fields import Field, ScalarField

MOST_BYTES = 2**31


def read_dataset(
    table: Table, fields: Mapping[str, Field], folder: Path, anywhere: bool, comm: Any
) -> Dataset:
    """The dataset that a table describes; collective.

    Args:
        table: `file`, `fields` (the array, variable or column of each field, a list for vectors),
            for `.npz` either `coordinates` (the array of each of x, y, z, t, in the order of the
            axes) or `points` and `times`, for `.csv` `coordinates` where the columns have other
            names; `projected` and `period` as in `Dataset`. Complex arrays of psi are for the
            fields psi_re and psi_im.
        fields: the declared fields.
        folder: the folder of the study file.
        anywhere: whether the file may lie elsewhere.
        comm: the communicator; rank 0 reads.
    """
    with table.naming("file"):
        path = inside(folder, table.text("file"), anywhere)
    wanted = table.table("fields")
    names: dict[Field, Any] = {}
    for name in wanted.entries(most=20):
        if name not in fields and {f"{name}_re", f"{name}_im"} <= {*fields}:
            names[ScalarField(name)] = wanted.get(name)
            continue
        if name not in fields:
            raise StudyFileError(
                f"{table.file}: {wanted.key(name)}: there is no field {name!r}; there are "
                f"{', '.join(fields)}"
            )
        names[fields[name]] = wanted.get(name)
    options = {key: table.get(key) for key in ("coordinates", "points", "times") if key in table}
    repeated = table.table("period", {})
    period = {name: float(repeated.number(name)) for name in repeated.entries(most=3)}
    projected = table.flag("projected", False)
    table.done()
    with table.naming():
        made = collectively(comm, lambda: _read(path, names, options, projected).repeating(period))
    return comm.bcast(made)


def _read(
    path: Path, names: Mapping[Field, Any], options: Mapping[str, Any], projected: bool
) -> Dataset:
    if not path.is_file():
        raise ValueError(f"there is no file {path.name}")
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path.name} is larger than {MOST_BYTES} bytes")
    if path.suffix in (".nc", ".nc4"):
        return _netcdf(path, names, projected)
    if path.suffix == ".csv":
        return from_columns(read_columns(path), names, options.get("coordinates"), projected)
    if path.suffix != ".npz":
        raise ValueError(f"data are .npz, .nc or .csv files, not {path.name}")
    arrays = _arrays(path)

    def array(name: Any) -> np.ndarray:
        if not isinstance(name, str) or name not in arrays:
            raise ValueError(f"{path.name} has no array {name!r}; it has {', '.join(arrays)}")
        return arrays[name]

    values = {
        field: array(name) if isinstance(name, str) else np.array([array(n) for n in name])
        for field, name in names.items()
    }
    if "points" in options:
        return Dataset.from_points(
            array(options["points"]), array(options.get("times")), values, projected=projected
        )
    if not isinstance(options.get("coordinates"), dict):
        raise ValueError(
            'coordinates are needed: { x = "x", t = "t" }, the name of the array of each axis, in '
            "the order of the axes"
        )
    for name in options["coordinates"].values():
        refuse_degrees(str(name))
    return Dataset.from_arrays(
        {key: array(name) for key, name in options["coordinates"].items()},
        values,
        projected=projected,
    )


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an archive; nothing in it is executed, and nothing larger than the limit
    is unpacked.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MOST_BYTES:
                raise ValueError(f"{path.name} unpacks to more than {MOST_BYTES} bytes")
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (zipfile.BadZipFile, OSError, KeyError, EOFError) as error:
        raise ValueError(f"{path.name} is not an .npz archive ({error})") from None


def _netcdf(path: Path, names: Mapping[Field, Any], projected: bool) -> Dataset:
    try:
        import xarray
    except ImportError:
        raise ValueError(
            "netCDF files need xarray and netCDF4: pip install 'cffem[data]'"
        ) from None
    try:
        with xarray.open_dataset(path, engine="netcdf4") as stored:
            return Dataset.from_xarray(stored.load(), names, projected=projected)
    except (OSError, KeyError) as error:
        raise ValueError(f"{path.name} cannot be read as netCDF: {error}") from None
