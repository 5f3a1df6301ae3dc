# SPDX-License-Identifier: MIT
"""Downloads of the large public data sets that the paper studies: NOAA OISST sea-surface
temperature and NCEP reanalysis.

Files are fetched by pooch, one for each year and variable, from addresses that are pinned here. A
download that breaks off is tried again, and nothing is left of one that fails. The providers
publish no checksums and reprocess years now and then, so the SHA-256 of what came first is kept
beside a file, and a file that no longer agrees with it is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cffem.data.readers.registry_data import DataUnavailable, cache_folder
from cffem.symbols.errors import InputError

TIMEOUT = 60.0  # seconds without an answer
RETRIES = 1  # of a download that breaks off
MAGIC = (b"\x89HDF\r\n\x1a\n", b"CDF\x01", b"CDF\x02", b"CDF\x05")


@dataclass(frozen=True)
class Provider:
    """Where the files of a data set are.

    Attributes:
        address: template with `{variable}` and `{year}`.
        variables: the files of one year.
        years: first and last year on offer; None for no end.
        about: what the data are.
    """

    address: str
    variables: tuple[str, ...]
    years: tuple[int, int | None]
    about: str


PSL = "https://downloads.psl.noaa.gov/Datasets/"
PROVIDERS = {
    "oisst": Provider(
        PSL + "noaa.oisst.v2.highres/{variable}.{year}.nc",
        ("sst.day.mean",),
        (1981, None),
        "daily sea-surface temperature, 0.25°, about 500 MB a year (NOAA PSL)",
    ),
    "ncep": Provider(
        PSL + "ncep.reanalysis/Dailies/surface_gauss/{variable}.{year}.nc",
        ("air.2m.gauss", "uwnd.10m.gauss", "vwnd.10m.gauss"),
        (1948, None),
        "daily air temperature and wind near the ground, 1.9°, about 3 × 13 MB a year (NOAA PSL)",
    ),
}


def fetch(
    name: str, years: Sequence[int], folder: str | Path | None = None, progress: bool = False
) -> list[Path]:
    """Download the files of some years, those that are not there yet.

    Args:
        name: "oisst" or "ncep".
        years: the years.
        folder: where to put them (default: the cache folder of this user).
        progress: show a bar.

    Raises:
        DataUnavailable: there is no network, the server does not have the file, or it is not what
            it should be.
    """
    if name not in PROVIDERS:
        raise InputError(
            f"there is nothing called {name!r} to fetch; there are: {', '.join(PROVIDERS)}"
        )
    provider = PROVIDERS[name]
    first, last = provider.years
    for year in years:
        if year < first or (last is not None and year > last):
            raise InputError(
                f"{name} begins in {first}"
                + (f" and ends in {last}" if last else "")
                + f"; there is no year {year}"
            )
    target = Path(folder) if folder is not None else cache_folder() / name
    target.mkdir(parents=True, exist_ok=True)
    return [
        fetched(provider.address.format(variable=variable, year=year), target, progress)
        for year in years
        for variable in provider.variables
    ]


def fetched(url: str, folder: Path, progress: bool = False) -> Path:
    """One file, from the folder or from the network."""
    try:
        import pooch
        import requests
    except ImportError:
        raise DataUnavailable(
            "fetching data needs pooch and requests: pip install 'cffem[data]'"
        ) from None
    name = url.rsplit("/", 1)[1]
    note = folder / f"{name}.sha256"
    known = note.read_text().split()[0] if note.is_file() else None
    if known is not None and (folder / name).is_file() and digest(folder / name) != known:
        raise DataUnavailable(
            f"{folder / name} has changed since it was fetched; remove it and {note.name} to "
            "fetch it again"
        )
    try:
        store = pooch.create(
            folder, url.rpartition("/")[0] + "/", registry={name: known}, retry_if_failed=RETRIES
        )
        bar = Bar(name) if progress else False
        downloader = pooch.HTTPDownloader(progressbar=bar, timeout=TIMEOUT)
        path = Path(store.fetch(name, downloader=downloader))
    except requests.exceptions.HTTPError as error:
        answer = "nothing" if error.response is None else error.response.status_code
        raise DataUnavailable(f"{url} is not there: the server answered {answer}") from None
    except requests.exceptions.RequestException as error:
        reason = type(error).__name__
        raise DataUnavailable(
            f"{url} could not be downloaded ({reason}); without a network bring the file by other "
            f"means and put it into {folder}"
        ) from None
    except ValueError as error:
        raise DataUnavailable(f"{url}: {str(error).splitlines()[0]}") from None
    check_netcdf(path)
    note.write_text(f"{digest(path)}  {name}\n")
    return path


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_netcdf(path: Path) -> None:
    """Refuse, and remove, what is no NetCDF file: an error page, for instance."""
    with path.open("rb") as file:
        start = file.read(8)
    if not start.startswith(MAGIC):
        path.unlink()
        raise DataUnavailable(
            f"what was downloaded as {path.name} is no NetCDF file; try again later"
        )


class Bar:
    """A bar of rich, with the methods that pooch asks of one.

    Args:
        name: what is written beside it.
    """

    def __init__(self, name: str):
        from rich.progress import Progress

        self._shown = Progress(transient=True)
        self._task = self._shown.add_task(name, total=None)
        self._shown.start()

    @property
    def total(self) -> float | None:
        """How many bytes are expected; pooch sets it."""
        return self._shown.tasks[0].total

    @total.setter
    def total(self, size: int) -> None:
        self._shown.update(self._task, total=size or None)

    def update(self, size: int) -> None:
        """So many bytes more have come."""
        self._shown.advance(self._task, size)

    def reset(self) -> None:
        """Begin again at zero."""
        self._shown.reset(self._task)

    def close(self) -> None:
        """Take the bar away."""
        self._shown.stop()


def parsed_years(text: str) -> list[int]:
    """Years from "2010", "2010-2012" or "2010,2015".

    Example:
        >>> parsed_years("2010-2012,2015")
        [2010, 2011, 2012, 2015]
    """
    years: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        try:
            years += range(int(first), int(last or first) + 1)
        except ValueError:
            raise InputError(
                f"years are given as 2010, 2010-2012 or 2010,2015, not {text!r}"
            ) from None
    if not years:
        raise InputError(f"{text!r} names no year")
    return years
