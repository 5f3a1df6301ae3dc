# SPDX-License-Identifier: MIT
"""Measured data that a study file names: arrays in `.npz`, variables of a netCDF file or columns of
a table, read as data and nothing else."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem._files import (
    HDF5_SIGNATURE,
    MOST_BYTES,
    check_amount,
    check_hdf5,
    read_arrays,
    require_file,
)
from cffem.data.dataset import Dataset
from cffem.data.field_arrays import refuse_degrees
from cffem.data.readers.csv_format import from_columns, read_columns
from cffem.engine.collective import collectively
from cffem.study.toml.allowed import inside
from cffem.study.toml.study_keys import StudyFileError, Table
from cffem.symbols.fields import Field, ScalarField
from cffem.symbols.registry import Registry

# A file, the names of its arrays by field, the options of the table, and whether it is in metres.
Reader = Callable[[Path, Mapping[Field, Any], Mapping[str, Any], bool], Dataset]
READERS: Registry[Reader] = Registry("kind of data file")


def add_reader(suffix: str, reader: Reader) -> Reader:
    """Make files of another kind readable for studies, by the ending of their names.

    Args:
        suffix: the ending with its dot, such as ".dat".
        reader: makes a `Dataset` of a path, the names of the arrays by field, the options
            `coordinates`, `points` and `times` as far as they are given, and whether the data are
            in metres. It reads the file as data and runs nothing.
    """
    return READERS.add(suffix, reader)


if TYPE_CHECKING:
    from mpi4py import MPI


def read_dataset(
    table: Table, fields: Mapping[str, Field], folder: Path, anywhere: bool, comm: MPI.Comm
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
    if require_file(path).st_size > MOST_BYTES:
        raise ValueError(f"{path.name} is larger than {MOST_BYTES} bytes")
    if path.suffix not in READERS:
        raise ValueError(f"data are {', '.join(READERS)} files, not {path.name}")
    return READERS[path.suffix](path, names, options, projected)


def _csv(
    path: Path, names: Mapping[Field, Any], options: Mapping[str, Any], projected: bool
) -> Dataset:
    return from_columns(read_columns(path), names, options.get("coordinates"), projected)


def _npz(
    path: Path, names: Mapping[Field, Any], options: Mapping[str, Any], projected: bool
) -> Dataset:
    coordinates: Any = options.get("coordinates")
    if "points" not in options and not isinstance(coordinates, dict):
        raise ValueError(
            'coordinates are needed: { x = "x", t = "t" }, the name of the array of each axis, in '
            "the order of the axes"
        )
    for name in coordinates.values() if isinstance(coordinates, dict) else ():
        refuse_degrees(str(name))
    axes = (
        [options["points"], options.get("times")]
        if "points" in options
        else list(coordinates.values())
    )
    arrays = read_arrays(path, array_names([*axes, *names.values()], path))
    values = {
        f: arrays[given] if isinstance(given, str) else np.array([arrays[n] for n in given])
        for f, given in names.items()
    }
    if "points" in options:
        return Dataset.from_points(arrays[axes[0]], arrays[axes[1]], values, projected=projected)
    return Dataset.from_arrays(
        {key: arrays[name] for key, name in coordinates.items()}, values, projected=projected
    )


def array_names(given: Sequence[Any], path: Path) -> list[str]:
    """The names among names and lists of names, each once."""
    flat = [name for entry in given for name in (entry if isinstance(entry, list) else [entry])]
    for name in flat:
        if not isinstance(name, str):
            raise ValueError(f"an array of {path.name} is named by text, not by {name!r}")
    return list(dict.fromkeys(flat))


def _netcdf(
    path: Path, names: Mapping[Field, Any], options: Mapping[str, Any], projected: bool
) -> Dataset:
    try:
        import netCDF4
        import xarray
    except ImportError:
        raise ValueError(
            "netCDF files need xarray and netCDF4: pip install 'cffem[data]'"
        ) from None
    os.environ["NCRCENV_IGNORE"] = "1"  # netCDF would read .ncrc of the current folder
    wanted = array_names(list(names.values()), path)
    with open(path, "rb") as handle:
        start = handle.read(8)
    if start == HDF5_SIGNATURE:
        check_hdf5(path)
    elif start[:3] != b"CDF":
        raise ValueError(f"{path.name} is not a netCDF file")
    try:
        with netCDF4.Dataset(path) as file:
            others = _unwanted(file.variables, wanted, path)
        with xarray.open_dataset(path, engine="netcdf4", drop_variables=others) as stored:
            return Dataset.from_xarray(stored.load(), names, projected=projected)
    except (OSError, KeyError, RuntimeError, IndexError, AttributeError, MemoryError) as error:
        raise ValueError(f"{path.name} cannot be read as netCDF: {error}") from None


def _unwanted(variables: Mapping[str, Any], wanted: Sequence[str], path: Path) -> list[str]:
    """The variables that are not read; what is read must be numbers that fit, which their
    headers say.
    """
    axes = {d for name in wanted if name in variables for d in variables[name].dimensions}
    read = [name for name in variables if name in wanted or name in axes]
    for name in read:
        if getattr(variables[name].dtype, "kind", "O") not in "biuf":
            raise ValueError(f"the variable {name!r} of {path.name} does not hold numbers")
    check_amount(
        path,
        sum(math.prod(variables[name].shape) * variables[name].dtype.itemsize for name in read),
    )
    return [name for name in variables if name not in read]


add_reader(".npz", _npz)
add_reader(".nc", _netcdf)
add_reader(".nc4", _netcdf)
add_reader(".csv", _csv)
