"""The studies of real data run on files as the providers write them, and report without
claiming.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("dolfinx")
pytest.importorskip("netCDF4")

import xarray
from mpi4py import MPI

import cffem as cf
from cffem._resources import shared_folder
from cffem.data.readers.registry_data import DataUnavailable
from cffem.screening.skill import Skill
from cffem.scripts import run_script
from cffem.validation import real_data
from cffem.validation.real_data import (
    CLAIM,
    examine,
    temperature_library,
    unavailable,
    unresolved_because,
)

T = cf.ScalarField("T")


def drifting(days, longitude, latitude, speed):
    """Patches of temperature that drift with the flow, and nothing else."""
    east = (
        np.radians(longitude)[None, None, :] * 6.371e6
        - 86400.0 * np.arange(days)[:, None, None] * speed
    )
    north = np.radians(latitude)[None, :, None] * 6.371e6
    scale = 2 * np.pi / 9e5
    return np.sin(scale * east + 1) * np.cos(scale * north) + 0.7 * np.sin(
        1.7 * scale * east - 0.8 * scale * north
    )


def written(path, name, unit, values, longitude, latitude):
    """A file with the axes, attributes and order of NOAA's."""
    times = np.datetime64("2019-01-01") + np.arange(len(values))
    array = (("time", "lat", "lon"), values.astype("float32"), {"units": unit})
    axes = {
        "lon": ("lon", longitude, {"units": "degrees_east", "axis": "X"}),
        "lat": ("lat", latitude, {"units": "degrees_north", "axis": "Y"}),
        "time": times,
    }
    xarray.Dataset({name: array}, axes).to_netcdf(path)


@pytest.mark.slow
def test_the_ocean_study_finds_and_deletes_a_known_drift(tmp_path, monkeypatch):
    """A sea east of a continent: the drift is found, on the sphere and up to what the anomaly
    adds, and deleted for real.
    """
    longitude, latitude = np.arange(40.125, 65, 0.5), np.arange(-14.875, 10, 0.5)
    values = 27 + drifting(24, longitude, latitude, 0.4)
    values[:, latitude[:, None] > 2 * (longitude[None, :] - 40)] = np.nan
    written(tmp_path / "sst.nc", "sst", "degC", values, longitude, latitude)
    monkeypatch.setenv("CFFEM_FILE", str(tmp_path / "sst.nc"))
    monkeypatch.setenv("CFFEM_OUT", str(tmp_path / "out"))
    run_script(shared_folder("demos") / "study_oisst.py", tmp_path / "out")
    found = json.loads((tmp_path / "out" / "findings.json").read_text())
    assert found["claim"] == CLAIM
    assert found["terms"]["u_x"]["coefficient"] == pytest.approx(-0.4, rel=0.15)
    assert found["skill"]["skill"] > 0.8
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert {term["name"]: term for term in report["terms"]}["u_x"]["deletion"] > 0
    assert report["screening"]["skill"]["skill"] == pytest.approx(found["skill"]["skill"], rel=1e-6)


def test_the_atmosphere_study_finds_the_wind_term_alone(tmp_path, monkeypatch, capsys):
    """Temperature carried by a wind that changes with latitude: the wind term alone, with
    coefficient −1.
    """
    longitude, latitude = np.arange(20, 50, 0.9375), np.linspace(14.3, -14.3, 31)
    shear = 0.4 + 0.3 * np.sin(np.radians(6 * latitude))[None, :, None]
    wind = np.broadcast_to(
        shear * np.cos(np.radians(latitude))[None, :, None], (60, 31, len(longitude))
    )
    for name, unit, values in (
        ("air", "degK", 295 + drifting(60, longitude, latitude, shear)),
        ("uwnd", "m/s", wind),
        ("vwnd", "m/s", np.zeros_like(wind)),
    ):
        file = {"air": "air.2m", "uwnd": "uwnd.10m", "vwnd": "vwnd.10m"}[name]
        written(tmp_path / f"{file}.gauss.2019.nc", name, unit, values, longitude, latitude)
    monkeypatch.setenv("CFFEM_FILE", str(tmp_path))
    monkeypatch.setenv("CFFEM_OUT", str(tmp_path / "out"))
    run_script(shared_folder("demos") / "study_ncep.py", tmp_path / "out")
    assert CLAIM in capsys.readouterr().out
    found = json.loads((tmp_path / "out" / "findings.json").read_text())
    assert found["terms"]["wind"]["coefficient"] == pytest.approx(-1.0, rel=0.1)
    assert found["skill"]["skill"] > 0.5
    monkeypatch.setenv("CFFEM_FILE", str(tmp_path / "nothing"))
    with pytest.raises(cf.InputError, match="cffem fetch ncep"):
        run_script(shared_folder("demos") / "study_ncep.py", tmp_path / "out")


def test_a_reliable_selection_is_called_selected_and_noise_is_not():
    """Known truth on the paper's library: drift is selected with its one-step score; pure
    noise leaves every term unresolved.
    """
    axes = {
        "x": np.linspace(-1e6, 1e6, 48),
        "y": np.linspace(-1e6, 1e6, 40),
        "t": np.arange(40) * 86400.0,
    }
    X, Y, S = np.meshgrid(*axes.values(), indexing="ij")
    phase = 2 * np.pi * (X - 0.5 * S) / 8e5
    values = np.sin(phase) * np.cos(Y / 2e5) + 0.6 * np.cos(1.7 * phase + Y / 3e5)
    plane = cf.Plane(0.0, 0.0, radius=1e12)  # flat
    found = examine(cf.Dataset.from_arrays(axes, {T: values}), temperature_library(T, plane))
    assert found.terms["u_x"].status == "selected"
    assert found.selected == {"u_x": pytest.approx(-0.5, rel=1e-3)}
    rms = np.sqrt(np.mean(np.gradient(values, axes["x"], axis=0) ** 2))
    assert found.terms["u_x"].one_step == pytest.approx(86400 * 0.5 * rms, rel=0.5)
    noise = np.random.default_rng(0).standard_normal(values.shape)
    nothing = examine(cf.Dataset.from_arrays(axes, {T: noise}), temperature_library(T, plane))
    assert set(nothing.unresolved) == set(nothing.terms)
    assert CLAIM in str(nothing)


@pytest.mark.parametrize(
    ("screen", "skill", "reason"),
    [
        ({"support_": [False]}, Skill(0.1, 1.0, 4), "does not need it"),
        (
            {"reliable_": False, "reasons_": ["the noise is correlated"]},
            Skill(0.1, 1.0, 4),
            "the noise is correlated",
        ),
        ({"reliable_": False}, Skill(0.1, 1.0, 4), "not reliable"),
        ({"intervals_": [(-0.1, 0.5)]}, Skill(0.1, 1.0, 4), "contains zero"),
        ({"frequencies_": [0.4]}, Skill(0.1, 1.0, 4), "in 40% of the resampled designs only"),
        ({}, Skill(0.6, 1.0, 4), "miss 60% of the tendency"),
        ({}, Skill(0.3, 0.3, 4), "no better than the mean"),
        ({}, Skill(0.1, 1.0, 4), ""),
    ],
)
def test_each_reason_to_say_nothing_has_its_words(screen, skill, reason):
    trusted = {
        "support_": [True],
        "reliable_": True,
        "reasons_": [],
        "intervals_": [(0.2, 0.5)],
        "frequencies_": [0.9],
    }
    said = unresolved_because(SimpleNamespace(**{**trusted, **screen}), 0, skill)
    assert reason in said
    assert bool(said) == bool(reason)


def test_data_that_cannot_be_had_are_told_to_all_ranks(monkeypatch):
    told = []

    class Comm:
        def __init__(self, rank):
            self.rank = rank

        def bcast(self, problem):
            told.append(problem)
            return told[0]

    def fetched(name):
        if name == "ostia":
            raise DataUnavailable("no network")

    monkeypatch.setattr(real_data, "registry_data", fetched)
    assert unavailable(MPI.COMM_SELF, "currents") == ""
    assert [unavailable(Comm(rank), "currents", "ostia") for rank in (0, 1)] == ["no network"] * 2
    assert told == ["no network", ""]  # only the first rank tried
