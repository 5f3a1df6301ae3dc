"""Gridded fields and stations on the sphere: exact metric terms, known truth recovered, wrong
data refused in one sentence.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("xarray")

import xarray

import cffem as cf
from cffem import x, y
from cffem.data.readers.anomalies import DataError, without_mean
from cffem.data.readers.plane import Plane
from cffem.data.readers.registry_data import DataUnavailable, registry_data
from cffem.data.readers.sphere import Region, sphere_dataset, sphere_points
from cffem.data.readers.units import to_si

T, v = cf.ScalarField("T"), cf.VectorField("v", dim=2)
EUROPE = Region(350, 30, 35, 65)
DAY = 86400.0


def real(name):
    try:
        return registry_data(name)
    except DataUnavailable as error:
        pytest.skip(str(error))


# The map
# --------------------------------------------------------------------------------------------------


def on_map(plane, place, expression):
    """A function of longitude and latitude, both in radians, as one of x and y, and a map
    position of a place in degrees.
    """
    longitude, latitude = sp.symbols("longitude latitude")
    here = {
        longitude: sp.rad(plane.longitude) + x / plane.scale,
        latitude: sp.rad(plane.latitude) + y / plane.radius,
    }
    at = dict(zip((x, y), map(float, plane.place(*place)), strict=True))
    return expression(longitude, latitude).subs(here), at


@pytest.mark.parametrize("place", [(3.0, 38.0), (20.0, 61.0)])
def test_operators_of_the_map_are_those_of_the_sphere(place):
    """Δ of spherical harmonics is −l(l+1)/R²; ∂/∂φ and ∂/∂λ are per metre."""
    plane, R = EUROPE.plane(), EUROPE.plane().radius
    lam, phi = map(np.radians, place)
    harmonics = {
        1: (lambda a, b: sp.sin(b), np.sin(phi)),
        2: (
            lambda a, b: sp.cos(a) * sp.sin(b) * sp.cos(b),
            np.cos(lam) * np.sin(phi) * np.cos(phi),
        ),
        3: (lambda a, b: sp.cos(3 * a) * sp.cos(b) ** 3, np.cos(3 * lam) * np.cos(phi) ** 3),
    }
    for degree, (expression, value) in harmonics.items():
        u, at = on_map(plane, place, expression)
        assert float(u.subs(at)) == pytest.approx(value, rel=1e-12)
        assert float(plane.lap(u).subs(at)) == pytest.approx(
            -degree * (degree + 1) / R**2 * value, rel=1e-9
        )
    u, at = on_map(plane, place, lambda a, b: sp.sin(b) + sp.sin(a))
    assert float(plane.north(u).subs(at)) == pytest.approx(np.cos(phi) / R, rel=1e-12)
    assert float(plane.east(u).subs(at)) == pytest.approx(
        np.cos(lam) / (R * np.cos(phi)), rel=1e-12
    )
    np.testing.assert_allclose(plane.location(*plane.place(*place)), place, rtol=1e-12)


def test_a_turning_sphere_has_no_divergence():
    """About any axis: with s the third coordinate along the axis, the velocity is the rotated
    gradient of s.
    """
    plane = EUROPE.plane()
    place = 12.0, 44.0
    s, at = on_map(plane, place, lambda a, b: sp.sin(b) + 0.5 * sp.cos(a) * sp.cos(b))
    turning = sp.Tuple(-plane.north(s), plane.east(s))
    divergence = plane.stretch * turning[0].diff(x) + turning[1].diff(y) - plane.bend * turning[1]
    assert plane.div(v) == plane.stretch * v[0].diff(x) + v[1].diff(y) - plane.bend * v[1]
    assert abs(float(divergence.subs(at))) < 1e-12 * abs(float(plane.lap(s).subs(at)))
    with pytest.raises(cf.InputError, match="between"):
        Plane(0.0, 89.0)


# Known truth
# --------------------------------------------------------------------------------------------------

DIFFUSIVITY, DRIFT = 1.5e5, 4.0  # m²/s and m/s, at 35° to 65° north where the metric matters


def diffusing(noise=0.0):
    """u_t = D Δu on the sphere, exactly: each spherical harmonic decays with l(l+1) D/R²."""
    longitude, latitude = np.arange(-20.0, 41.0, 1.0) % 360.0, np.arange(70.0, 29.0, -0.5)
    times = np.datetime64("2001-01-01") + np.arange(0, 60) * np.timedelta64(12, "h")
    lam, phi = np.meshgrid(np.radians(longitude), np.radians(latitude), indexing="xy")
    seconds = np.arange(60) * DAY / 2
    total = np.zeros((60, len(latitude), len(longitude)))
    for m, phase in (
        (6, 0.3),
        (9, 1.0),
        (14, 2.0),
    ):  # Y_ll = cos^l φ cos(lλ), and Y_{l+1,l} = sin φ cos^l φ cos(lλ)
        for degree, shape in ((m, np.cos(phi) ** m), (m + 1, np.sin(phi) * np.cos(phi) ** m)):
            field = 2.0 ** (m / 2) * shape * np.cos(m * lam + phase * degree)
            total += (
                np.exp(-DIFFUSIVITY * degree * (degree + 1) / 6.371e6**2 * seconds)[:, None, None]
                * field
            )
    total += noise * total.std() * np.random.default_rng(1).standard_normal(total.shape)
    array = (("time", "lat", "lon"), total + 15.0, {"units": "degC"})
    return xarray.Dataset({"sst": array}, {"lon": longitude, "lat": latitude, "time": times})


def library(plane):
    terms = {
        "u": T,
        "u^2": T**2,
        "u_x": plane.east(T),
        "u_y": plane.north(T),
        "lap": plane.lap(T),
        "slope": plane.slope(T),
        "one": sp.Integer(1),
    }
    return cf.Library(anchor=cf.dt(T), terms=terms)


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_diffusion_on_the_sphere_is_recovered_in_metres(noise):
    """The paper's library on exact solutions of u_t = D Δu: the support is Δu alone, D right
    to 1e-4 and to 1 % with noise.
    """
    data, plane = sphere_dataset(
        diffusing(noise), {T: "sst"}, Region(340, 40, 32, 68), anomaly="none"
    )
    data.values[T] -= 288.15
    design = cf.Design.from_fields(library(plane), data, kind="weak")
    screen = cf.Screening().fit(design)
    found = {name: value for name, value in zip(design.names, screen.coef_, strict=True) if value}
    assert set(found) == {"lap"}
    assert found["lap"] == pytest.approx(DIFFUSIVITY, rel=0.01 if noise else 1e-4)


def test_without_the_metric_factor_the_answer_is_wrong():
    data, plane = sphere_dataset(diffusing(), {T: "sst"}, Region(340, 40, 32, 68))
    design = cf.Design.from_fields(
        cf.Library(anchor=cf.dt(T), terms={"lap": cf.lap(T)}), data, kind="weak"
    )
    wrong = float(np.linalg.solve(design.grams.total()[1:, 1:], design.grams.total()[1:, 0])[0])
    right = cf.Design.from_fields(
        cf.Library(anchor=cf.dt(T), terms={"lap": plane.lap(T)}), data, kind="weak"
    )
    good = float(np.linalg.solve(right.grams.total()[1:, 1:], right.grams.total()[1:, 0])[0])
    assert good == pytest.approx(DIFFUSIVITY, rel=1e-4)
    assert abs(wrong / DIFFUSIVITY - 1) > 0.2


def test_windows_across_greenwich_and_grids_from_north_to_south():
    ds = diffusing()
    data, plane = sphere_dataset(ds, {T: "sst"}, EUROPE)
    assert data.shape == (41, 61, 60)
    assert plane == Plane(10.0, 50.0)
    east, north = data.coordinates[x], data.coordinates[y]
    assert east[0] == pytest.approx(-east[-1])
    place = 7, 11
    lon, lat = plane.location(east[place[0]], north[place[1]])
    columns, rows = np.isclose(ds["lon"], lon % 360), np.isclose(ds["lat"], lat)
    there = float(ds["sst"].values[5][np.ix_(rows, columns)].item())
    assert data.values[T][(*place, 5)] == pytest.approx(there + 273.15)
    assert data.coordinates[cf.t][1] == DAY / 2


# Wrong data
# --------------------------------------------------------------------------------------------------


def empty_slice(ds):
    ds["sst"][7] = np.nan
    return ds


def shuffled(ds):
    latitude = ds["lat"].values.copy()
    latitude[[3, 4]] = latitude[[4, 3]]
    return ds.assign_coords(lat=latitude)


def repeated_time(ds):
    times = ds["time"].values.copy()
    times[4] = times[3]
    return ds.assign_coords(time=times)


def infinite(ds):
    ds["sst"][3, 40, 20] = np.inf
    return ds


def twice(ds):
    """All the way round, with both ends."""
    around = np.linspace(0.0, 360.0, 25)
    return ds.isel(lon=np.arange(25)).assign_coords(lon=around)


WRONG = {
    "a time without values": (
        empty_slice,
        "'sst' has no values at all at 2001-01-04T12.*leave these times out",
    ),
    "latitudes back and forth": (
        shuffled,
        "latitudes of 'sst' neither increase nor decrease throughout",
    ),
    "times twice": (repeated_time, "times of 'sst' do not increase throughout"),
    "no time axis": (lambda ds: ds.isel(time=0), "'sst' has no time axis; its axes are lat, lon"),
    "a pressure": (
        lambda ds: ds.assign(sst=ds["sst"].assign_attrs(units="Pa")),
        "'Pa', which is a pressure, but a temperature",
    ),
    "an unknown unit": (
        lambda ds: ds.assign(sst=ds["sst"].assign_attrs(units="furlong")),
        "no unit known here",
    ),
    "no unit": (
        lambda ds: ds.assign(sst=ds["sst"].drop_attrs()),
        "sst has no units; say which with units=",
    ),
    "one row": (
        lambda ds: ds.isel(lat=[30]),
        "'sst' has 41 × 1 × 60 values in the region, but derivatives need at least 4",
    ),
    "no such place": (lambda ds: ds.sel(lat=slice(34, 30)), "'sst' has no latitude in the region"),
    "no such variable": (lambda ds: ds.rename(sst="temp"), "no variable 'sst'; there are temp"),
    "infinite values": (infinite, "'sst' contains infinite values"),
    "latitudes in minutes": (
        lambda ds: ds.assign_coords(lat=ds["lat"] * 60),
        "go beyond ±90°; they must be in degrees",
    ),
    "a latitude axis without values": (
        lambda ds: ds.drop_vars("lat"),
        "no values for its latitude axis 'lat'",
    ),
    "Greenwich twice": (twice, "the same longitude twice in the region; drop one of them"),
    "a depth": (lambda ds: ds.expand_dims(depth=[0.0, 5.0]), "2 values along 'depth'; choose one"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_data_are_refused_in_one_sentence(case):
    spoil, message = WRONG[case]
    with pytest.raises(cf.InputError, match=message) as error:
        sphere_dataset(spoil(diffusing()), {T: "sst"}, EUROPE)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("variables", "options", "message"),
    [
        ({T: "sst"}, {"anomaly": "week"}, "an anomaly is none, mean, month, not 'week'"),
        ({}, {}, "say which variable"),
        (
            {T: "sst"},
            {"region": Region(350, 30, 35, 65, start="yesterday")},
            "are dates, with which the limit 'yesterday'",
        ),
    ],
)
def test_questions_that_make_no_sense_are_refused(variables, options, message):
    with pytest.raises(DataError, match=message):
        sphere_dataset(diffusing(), variables, **{"region": EUROPE, **options})


def test_without_a_region_the_study_is_about_all_of_the_file():
    data, plane = sphere_dataset(diffusing(), {T: "sst"})
    assert data.shape == (61, 82, 60)
    assert data.notes["region"] == [-20.0, 40.0, 29.5, 70.0] or data.notes["region"] == [
        340.0,
        400.0,
        29.5,
        70.0,
    ]
    assert plane.longitude == pytest.approx(10.0)


@pytest.mark.parametrize(
    "edges", [(300, 30, 35, 65), (350, 50, 35, 65), (350, 30, 20, 65), (350, 30, 35, 80)]
)
def test_a_region_beyond_the_file_is_not_silently_another_one(edges):
    with pytest.raises(cf.InputError, match="name a region inside the file, or none for all of it"):
        sphere_dataset(diffusing(), {T: "sst"}, Region(*edges))


def test_a_region_may_be_limited_in_time():
    data, _ = sphere_dataset(
        diffusing(), {T: "sst"}, Region(350, 30, 35, 65, start="2001-01-03", end="2001-01-10")
    )
    assert data.shape == (41, 61, 15)
    np.testing.assert_allclose(data.coordinates[cf.t], np.arange(15) * DAY / 2)


def test_velocities_must_be_on_the_grid_of_what_they_carry():
    ds = diffusing()
    wind = (("time", "lat2", "lon"), np.zeros((60, 10, 61)), {"units": "m s**-1"})
    ds = ds.assign(u=wind, v=wind).assign_coords(
        lat2=("lat2", np.linspace(35.0, 65.0, 10), {"units": "degrees_north"})
    )
    quantities = {"sst": "temperature", "u": "velocity", "v": "velocity"}
    with pytest.raises(
        DataError, match="'u' is on another grid or at other times than 'sst'; interpolate it first"
    ):
        sphere_dataset(ds, {T: "sst", v: ("u", "v")}, EUROPE, quantities=quantities)


def test_files_that_are_no_netcdf_are_refused(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        sphere_dataset(tmp_path / "nothing.nc", {T: "sst"}, EUROPE)
    pytest.importorskip("netCDF4")
    (tmp_path / "text.nc").write_text("hello")
    with pytest.raises(DataError, match="cannot be read as NetCDF"):
        sphere_dataset(tmp_path / "text.nc", {T: "sst"}, EUROPE)


def test_land_is_masked_and_rows_avoid_it():
    ds = diffusing()
    ds["sst"][:, 10:30, 20:35] = np.nan
    data, plane = sphere_dataset(ds, {T: "sst"}, Region(340, 40, 32, 68))
    assert data.mask is not None
    data.values[T] -= 288.15
    design = cf.Design.from_fields(
        cf.Library(anchor=cf.dt(T), terms={"lap": plane.lap(T)}), data, kind="weak"
    )
    whole = cf.Design.from_fields(
        design.library, sphere_dataset(diffusing(), {T: "sst"}, Region(340, 40, 32, 68))[0]
    )
    assert 0 < design.rows < whole.rows
    found = float(np.linalg.solve(design.grams.total()[1:, 1:], design.grams.total()[1:, 0])[0])
    assert found == pytest.approx(DIFFUSIVITY, rel=0.01)


def test_anomalies_take_away_the_mean_of_each_month_or_of_all():
    times = np.arange("2001-01", "2003-01", dtype="datetime64[M]").astype("datetime64[D]")
    yearly = np.sin(2 * np.pi * np.arange(24) / 12)[None, None, :] * np.ones((2, 3, 1))
    trend = np.repeat([0.0, 1.0], 12)
    np.testing.assert_allclose(
        without_mean(yearly + trend, times, "month"),
        np.broadcast_to(trend - 0.5, (2, 3, 24)),
        atol=1e-12,
    )
    np.testing.assert_allclose(without_mean(yearly + 3.0, times, "mean"), yearly, atol=1e-12)
    with pytest.raises(DataError, match="monthly anomalies need dates"):
        without_mean(yearly, np.arange(24.0), "month")
    holes = np.where(np.arange(24) == 5, np.nan, 1.0) * np.ones((2, 3, 1))
    assert np.nanmax(np.abs(without_mean(holes, times, "month"))) == 0.0


@pytest.mark.parametrize(
    ("first", "last"), [("2001-01-01", "2004-01-01"), ("2001-11-01", "2002-04-01")]
)
def test_daily_anomalies_have_no_jumps_at_the_ends_of_months(first, last):
    times = np.arange(first, last, dtype="datetime64[D]")
    phase = 2 * np.pi * (times - times[0]).astype(float) / 365.25
    season = 10.0 * np.sin(phase) + 2.0 * np.cos(2 * phase)
    weather = 0.1 * np.sin(40 * phase)
    left = without_mean((season + weather)[None, None], times, "month")[0, 0]
    assert (
        np.abs(np.diff(left - weather)).max() < 0.15
    )  # a step between means of months is up to five
    assert np.abs(np.mean(left)) < 0.05
    if len(times) > 400:
        assert np.std(left - weather) < 0.1


def test_units_become_those_of_the_si():
    assert to_si(np.array([32.0]), "degF", "temperature", "t")[0] == pytest.approx(273.15)
    assert to_si(np.array([10.0]), "m s**-1", "velocity", "u10")[0] == 10.0
    assert to_si(np.array([100.0]), "cm s-1", "velocity", "u")[0] == 1.0
    with pytest.raises(cf.InputError, match="no quantity"):
        to_si(np.zeros(1), "K", "colour", "t")


def test_stations_are_scattered_data_on_the_map():
    """A field that is linear on the map is seen as linear: u_t = −c u_x with c in metres per
    second.
    """
    random = np.random.default_rng(3)
    lon, lat = random.uniform(356, 364, 600) % 360, random.uniform(44, 52, 600)
    _, plane = sphere_points(lon, lat, np.arange(3.0), {T: np.zeros((600, 3))})
    assert plane.longitude == pytest.approx(0.0, abs=1.0)
    east, north = plane.place(lon, lat)
    times = np.arange(40) * 600.0
    phase = (east[:, None] - DRIFT * times) / 1e5
    data, plane = sphere_points(
        lon,
        lat,
        times,
        {T: np.sin(phase) + 0.5 * np.cos(2 * phase + (north / 1e5)[:, None])},
        plane,
    )
    assert data.points is not None
    design = cf.Design.from_fields(
        cf.Library(anchor=cf.dt(T), terms={"u_x": T.diff(x), "u_y": T.diff(y)}), data
    )
    found = np.linalg.solve(design.grams.total()[1:, 1:], design.grams.total()[1:, 0])
    assert found[0] == pytest.approx(-DRIFT, rel=0.05)
    assert abs(found[1]) < 0.05 * DRIFT
    with pytest.raises(DataError, match="stations need"):
        sphere_points([0.0], [95.0], np.arange(3.0), {T: np.zeros((1, 3))})


# Real data
# --------------------------------------------------------------------------------------------------


def test_sea_surface_temperature_of_the_western_indian_ocean():
    """Africa is masked, the anomaly has no yearly cycle, and time is in seconds."""
    pytest.importorskip("netCDF4")
    data, _ = sphere_dataset(
        real("ostia"), {T: "surface_temperature"}, Region(40, 75, -5, 5), anomaly="month"
    )
    values = np.where(data.mask, np.nan, data.values[T])
    assert data.shape == (43, 18, 54)
    assert data.mask[:3].any()
    assert not data.mask[20:].any()
    assert 0.1 < np.nanstd(values) < 1.0
    assert data.coordinates[cf.t][1] == 30.5 * DAY
    assert np.diff(data.coordinates[x]).mean() == pytest.approx(92.7e3, rel=1e-2)


def test_air_temperature_and_wind_over_east_africa():
    quantities = {"t2m": "temperature", "u10": "velocity", "v10": "velocity"}
    data, _ = sphere_dataset(
        real("era5"), {T: "t2m", v: ("u10", "v10")}, Region(26, 42, -8, 8), quantities=quantities
    )
    assert data.shape == (17, 17, 24)
    assert 285 < data.values[T].mean() < 305
    assert 0.5 < np.abs(data.values[v[0]]).mean() < 5
    assert data.coordinates[cf.t][1] == 7 * 3600
