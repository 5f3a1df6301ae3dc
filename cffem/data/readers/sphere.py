# SPDX-License-Identifier: MIT
"""Fields on the sphere as data: NetCDF or xarray grids of longitude, latitude and time, and
scattered stations, in metres.

A region of a file becomes a `Dataset` on a map (`plane`), with time in seconds, values in SI units,
longitudes in order across the date line or Greenwich, and land or missing values masked. Terms are
then written with the operators of the map, so that ∂u/∂x, ∂u/∂y and Δu are those of the sphere, and
derivatives go to test functions: no difference of noisy values is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cffem.data.dataset import Dataset
from cffem.data.readers.anomalies import ANOMALIES, DataError, without_mean
from cffem.data.readers.plane import Plane
from cffem.data.readers.units import to_si
from cffem.symbols.fields import Field

if TYPE_CHECKING:
    import xarray
    import xarray as xr
    from numpy.typing import ArrayLike


NAMES = {
    "longitude": ("longitude", "lon", "lons", "x", "nav_lon"),
    "latitude": ("latitude", "lat", "lats", "y", "nav_lat"),
    "time": ("time", "time_index", "t", "date", "valid_time"),
}
# A grid that is fine enough for one test function along each axis.
FEWEST = {"longitude": 4, "latitude": 4, "time": 3}


@dataclass(frozen=True)
class Region:
    """A part of the sphere and of time.

    Args:
        west, east, south, north: in degrees; west may exceed east across the date line or
            Greenwich.
        start, end: first and last time, as NumPy dates or strings such as "2010-01-01"; None for
            all.

    Example:
        >>> Region(350, 10, -5, 5).width
        20.0
    """

    west: float
    east: float
    south: float
    north: float
    start: str | np.datetime64 | None = None
    end: str | np.datetime64 | None = None

    @property
    def width(self) -> float:
        """Degrees of longitude; a region of equal ends goes all the way round."""
        return float((self.east - self.west) % 360.0 or 360.0)

    def plane(self) -> Plane:
        """The map with its origin in the middle of the region."""
        return Plane((self.west + self.width / 2) % 360.0, (self.south + self.north) / 2)


def sphere_dataset(
    source: str | Path | xarray.Dataset,
    variables: Mapping[Field, str | Sequence[str]],
    region: Region | None = None,
    *,
    quantities: Mapping[str, str] | str = "temperature",
    anomaly: str = "none",
    units: Mapping[str, str] | None = None,
    plane: Plane | None = None,
    projected: bool = False,
) -> tuple[Dataset, Plane]:
    """A region of gridded fields as data on a map in metres and seconds.

    Args:
        source: an xarray dataset, or the path of a NetCDF file or Zarr 3 store.
        variables: the variable of each scalar field, the pair of variables (east, north) of each
            velocity.
        region: the part of the sphere and of time; None for all of the file. The file must reach
            its edges to within a grid step.
        quantities: what each variable measures ("temperature", "velocity", …); one word for all of
            them.
        anomaly: "none", "mean" (less the mean over the region's time at each place) or "month"
            (less the mean of each calendar month at each place, or a smooth curve through these
            means where there are several readings a month); velocities are left as they are.
        units: units by variable where the file does not say, or says it wrong.
        plane: the map (default: that of the region).
        projected: see `Dataset.from_arrays`.

    Returns:
        The data and the map.

    Raises:
        DataError: the file has no such variable, axis, region or times, or its values cannot be
            used.
    """
    if anomaly not in ANOMALIES:
        raise DataError(f"an anomaly is {', '.join(ANOMALIES)}, not {anomaly!r}")
    if not variables:
        raise DataError("say which variable belongs to which field, as in {T: 'sst'}")
    names = [
        name
        for given in variables.values()
        for name in ([given] if isinstance(given, str) else given)
    ]
    region = region or whole_region(source, names[0])
    plane = plane or region.plane()
    arrays: dict[str, np.ndarray] = {}
    grid: SphereGrid | None = None
    for name, array, found in selected(source, names, region):
        if grid is not None and not grid.equals(found):
            raise DataError(
                f"{name!r} is on another grid or at other times than {names[0]!r}; interpolate it "
                "first"
            )
        grid = found
        quantity = (
            quantities if isinstance(quantities, str) else quantities.get(name, "temperature")
        )
        values = to_si(array, (units or {}).get(name, found.unit), quantity, name)
        check_values(values, name, found)
        arrays[name] = (
            values if quantity == "velocity" else without_mean(values, found.times, anomaly)
        )
    assert grid is not None
    east, north = (
        plane.place(grid.longitude, plane.latitude)[0],
        plane.place(plane.longitude, grid.latitude)[1],
    )
    values = {
        f: arrays[g] if isinstance(g, str) else np.array([arrays[n] for n in g])
        for f, g in variables.items()
    }
    data = Dataset.from_arrays(
        {"x": east, "y": north, "t": grid.seconds}, values, projected=projected
    )
    edges = [float(edge) for axis in (grid.longitude, grid.latitude) for edge in axis[[0, -1]]]
    data.notes.update(region=edges, first=str(grid.times[0]), anomaly=anomaly)
    return data, plane


def sphere_points(
    longitude: ArrayLike,
    latitude: ArrayLike,
    times: ArrayLike,
    values: Mapping[Field, ArrayLike],
    plane: Plane | None = None,
) -> tuple[Dataset, Plane]:
    """Stations or floats at fixed places, all read at the same times, as scattered data on a map.

    Args:
        longitude, latitude: in degrees, one of each for every station.
        times: dates, or seconds.
        values: stations × times for each scalar field, 2 × stations × times (east, north) for each
            velocity, in SI units.
        plane: the map (default: one with its origin in the middle of the stations).
    """
    lon, lat = np.asarray(longitude, dtype=float), np.asarray(latitude, dtype=float)
    if (
        lon.ndim != 1
        or lon.shape != lat.shape
        or not (np.isfinite(lon).all() and (np.abs(lat) <= 90).all())
    ):
        raise DataError(
            "stations need one finite longitude and one latitude between −90° and 90° each"
        )
    if plane is None:
        middle = np.degrees(np.angle(np.exp(1j * np.radians(lon)).mean()))
        plane = Plane(float(middle), float((lat.min() + lat.max()) / 2))
    places = np.column_stack(plane.place(lon, lat))
    return Dataset.from_points(places, seconds_of(np.asarray(times), "the stations"), values), plane


# Grids
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SphereGrid:
    """The axes of a region, longitudes and latitudes increasing, and the unit of the file."""

    longitude: np.ndarray
    latitude: np.ndarray
    times: np.ndarray
    unit: str | None

    @property
    def seconds(self) -> np.ndarray:
        """Seconds since the first time."""
        return seconds_of(self.times, "the data")

    def equals(self, other: SphereGrid) -> bool:
        """Whether two variables are at the same places and times."""
        axes = [
            (self.longitude, other.longitude),
            (self.latitude, other.latitude),
            (self.times, other.times),
        ]
        return all(len(a) == len(b) and bool((a == b).all()) for a, b in axes)


def selected(
    source: str | Path | xarray.Dataset, names: Sequence[str], region: Region
) -> Iterator[tuple[str, np.ndarray, SphereGrid]]:
    """Each variable in the region as an array of longitude, latitude and time, with its grid."""
    ds = opened(source, names)
    try:
        for name in names:
            if name not in ds.variables:
                there = ", ".join(map(str, ds.data_vars))
                raise DataError(f"there is no variable {name!r}; there are {there}")
            array = ds[name]
            dims = {kind: axis_of(array, kind, name) for kind in NAMES}
            others = [d for d in array.dims if d not in dims.values()]
            long = [d for d in others if array.sizes[d] > 1]
            if long:
                raise DataError(
                    f"{name!r} has {array.sizes[long[0]]} values along {long[0]!r}; choose one of "
                    "them first"
                )
            array = array.isel(dict.fromkeys(others, 0)).transpose(*(dims[kind] for kind in NAMES))
            longitude, columns = longitudes(array[dims["longitude"]].values, region, name)
            latitude, rows = latitudes(array[dims["latitude"]].values, region, name)
            reaches(longitude, region.west, region.west + region.width, "longitude", name)
            reaches(latitude, region.south, region.north, "latitude", name)
            times, steps = moments(ds, array[dims["time"]], region, name)
            long_enough(name, {"longitude": longitude, "latitude": latitude, "time": times})
            values = np.asarray(array.isel({dims["time"]: steps}).values, dtype=float)[
                np.ix_(columns, rows)
            ]
            yield name, values, SphereGrid(longitude, latitude, times, array.attrs.get("units"))
    finally:
        if ds is not source:
            ds.close()


def whole_region(source: str | Path | xarray.Dataset, name: str) -> Region:
    """The region that a variable of a file covers."""
    ds = opened(source, [name])
    try:
        if name not in ds.variables:
            raise DataError(
                f"there is no variable {name!r}; there are {', '.join(map(str, ds.data_vars))}"
            )
        array = ds[name]
        around, up = (
            array[axis_of(array, kind, name)].values.astype(float)
            for kind in ("longitude", "latitude")
        )
    finally:
        if ds is not source:
            ds.close()
    ends = np.sort(np.unwrap(around, period=360.0)[[0, -1]])
    return Region(float(ends[0]), float(ends[1]), float(up.min()), float(up.max()))


def reaches(found: np.ndarray, west: float, east: float, kind: str, name: str) -> None:
    """Refuse a region that goes beyond the file, whose study would be about another region
    than the one that was named.
    """
    if len(found) < 2:
        return
    step = float(np.diff(found).max())
    if found[0] - west > 1.001 * step or east - found[-1] > 1.001 * step:
        raise DataError(
            f"the region goes from {west:g}° to {east:g}° of {kind}, but {name!r} from "
            f"{found[0]:g}° to {found[-1]:g}° only; "
            "name a region inside the file, or none for all of it"
        )


def opened(source: str | Path | xarray.Dataset, names: Sequence[str]) -> xarray.Dataset:
    """An xarray dataset, from a file if need be."""
    if hasattr(source, "data_vars"):
        return source
    path = Path(source)
    if not path.exists():
        raise DataError(f"there is no file {path}")
    if (path / "zarr.json").is_file():
        from cffem.data.readers.zarr_format import open_zarr

        return open_zarr(path, names)
    try:
        import netCDF4  # noqa: F401  xarray reads such files through it
        import xarray
    except ImportError:
        raise DataError("NetCDF files need xarray and netCDF4: pip install 'cffem[data]'") from None
    try:
        return xarray.open_dataset(path, decode_timedelta=False)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as NetCDF: {str(error).splitlines()[0]}") from None


def axis_of(array: xr.DataArray, kind: str, name: str) -> str:
    """Which dimension of a variable is longitude, latitude or time, by name or attributes."""
    axis, unit = {
        "longitude": ("X", "degrees_east"),
        "latitude": ("Y", "degrees_north"),
        "time": ("T", ""),
    }[kind]
    for dim in array.dims:
        attributes = array[dim].attrs if dim in array.coords else {}
        if (
            attributes.get("standard_name") == kind
            or attributes.get("axis") == axis
            or (unit and attributes.get("units") == unit)
        ):
            return dim
    for dim in array.dims:
        if str(dim).lower() in NAMES[kind]:
            if dim not in array.coords:
                raise DataError(f"{name!r} has no values for its {kind} axis {dim!r}")
            return dim
    raise DataError(
        f"{name!r} has no {kind} axis; its axes are {', '.join(map(str, array.dims)) or 'none'}"
    )


def monotone(values: np.ndarray, kind: str, name: str) -> None:
    """Refuse an axis that is not finite or goes back and forth."""
    steps = np.diff(values)
    if not np.isfinite(values).all() or not (np.all(steps > 0) or np.all(steps < 0)):
        raise DataError(
            f"the {kind}s of {name!r} neither increase nor decrease throughout; sort the data and "
            "drop repeated values"
        )


def longitudes(values: np.ndarray, region: Region, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Longitudes in the region in order from west to east, as degrees from its western end
    on, and where they are.
    """
    monotone(np.unwrap(values.astype(float), period=360.0), "longitude", name)
    turned = (values.astype(float) - region.west) % 360.0
    turned = np.where(turned > 360.0 - 1e-9, 0.0, turned)
    inside = np.flatnonzero(turned <= region.width + 1e-9)
    order = inside[np.argsort(turned[inside])]
    degrees = region.west + turned[order]
    if len(order) > 1 and np.diff(degrees).min() <= 0:
        raise DataError(f"{name!r} has the same longitude twice in the region; drop one of them")
    return degrees, order


def latitudes(values: np.ndarray, region: Region, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Latitudes in the region from south to north, and where they are."""
    monotone(values, "latitude", name)
    if np.abs(values).max() > 90.0:
        raise DataError(f"the latitudes of {name!r} go beyond ±90°; they must be in degrees")
    inside = np.flatnonzero((values >= region.south - 1e-9) & (values <= region.north + 1e-9))
    order = inside[np.argsort(values[inside])]
    return values[order].astype(float), order


def moments(
    ds: xarray.Dataset, axis: xr.DataArray, region: Region, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Times in the region, and where they are; a store may say of what its numbers are counts."""
    values = axis.values
    text = axis.attrs.get("units") or ds.attrs.get("time_units")
    if text is not None and np.issubdtype(values.dtype, np.number):
        from xarray.coding.times import decode_cf_datetime

        values = np.asarray(decode_cf_datetime(values, text.split(" (")[0]))
    if not np.issubdtype(values.dtype, np.datetime64) and values.dtype == object:
        raise DataError(
            f"the times of {name!r} are in a calendar without NumPy dates; convert them to the "
            "standard calendar first"
        )
    seconds_of(values, name)
    inside = np.ones(len(values), dtype=bool)
    for limit, compare in ((region.start, np.greater_equal), (region.end, np.less_equal)):
        if limit is not None:
            try:
                inside &= compare(values, np.asarray(limit, dtype=values.dtype))
            except (TypeError, ValueError):
                kind = "dates" if np.issubdtype(values.dtype, np.datetime64) else "numbers"
                raise DataError(
                    f"the times of {name!r} are {kind}, with which the limit {limit!r} cannot be "
                    "compared"
                ) from None
    return values[inside], np.flatnonzero(inside)


def seconds_of(times: np.ndarray, name: str) -> np.ndarray:
    """Seconds since the first of some dates; numbers are seconds already."""
    if np.issubdtype(times.dtype, np.datetime64):
        numbers = (times - times[0]) / np.timedelta64(1, "s") if len(times) else np.empty(0)
    else:
        numbers = times.astype(float)
    if len(numbers) and (not np.isfinite(numbers).all() or not (np.diff(numbers) > 0).all()):
        raise DataError(
            f"the times of {name!r} do not increase throughout; sort the data and drop repeated "
            "times"
        )
    return numbers


def long_enough(name: str, axes: Mapping[str, np.ndarray]) -> None:
    """Refuse a region without room for derivatives."""
    for kind, values in axes.items():
        if not len(values):
            raise DataError(f"{name!r} has no {kind} in the region")
        if len(values) < FEWEST[kind]:
            shape = " × ".join(str(len(v)) for v in axes.values())
            raise DataError(
                f"{name!r} has {shape} values in the region, but derivatives need at least "
                f"{FEWEST[kind]} along {kind}"
            )


def check_values(values: np.ndarray, name: str, grid: SphereGrid) -> None:
    """Refuse times without any value, and values that are not finite and not marked as missing."""
    if np.isinf(values).any():
        raise DataError(f"{name!r} contains infinite values")
    empty = np.flatnonzero(np.isnan(values).all(axis=(0, 1)))
    if len(empty):
        more = f" and {len(empty) - 1} more times" if len(empty) > 1 else ""
        raise DataError(
            f"{name!r} has no values at all at {grid.times[empty[0]]}{more}; leave these times out"
        )
