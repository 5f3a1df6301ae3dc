# SPDX-License-Identifier: MIT
"""Where and when an intervention changes the solution, as a report holds it.

Numbers and the sentence are part of `report.json`; the density by cell is in `maps.npz` beside it,
and for ParaView in `maps/maps.pvd`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from cffem._files import read_arrays
from cffem.symbols.errors import InputError

FORMAT = "cffem-maps/1"
FILE, FOLDER = "maps.npz", "maps"
# "It matters only here" is said where this part of the change lies in this share of the whole.
MOST_OF_IT, SMALL_SHARE = 0.9, 0.1


@dataclass(frozen=True)
class EffectMap:
    """The density of |u − u_j|² of one intervention; of several fields relative to their norms.

    Attributes:
        experiment: where.
        times, growth: the integral of |u − u_j|² over the domain at each time level.
        window_share: the smallest share of the window in which 90 % of the change lies.
        interval: the first and last time of that share.
        domain_share: the smallest share of the domain in which 90 % of the change lies.
        box: the smallest box around that share, lower and upper end by axis.
        subdomain: a named subdomain in which 90 % of the change lies, the smallest; or nothing.
        sentence: "it matters only here", where 90 % lie in a tenth of domain or window.
        midpoints, volumes: of all cells, ordered by their midpoints.
        density: ∫ |u − u_j|² dt by cell, divided by the volume; on a steady problem without ∫ dt.
        frames, ends: the same by parts of the window, and where these end.
    """

    experiment: str
    times: tuple[float, ...]
    growth: tuple[float, ...]
    window_share: float | None
    interval: tuple[float, float] | None
    domain_share: float
    box: tuple[tuple[float, float], ...]
    subdomain: str = ""
    sentence: str = ""
    midpoints: np.ndarray | None = None
    volumes: np.ndarray | None = None
    frames: np.ndarray | None = None
    ends: tuple[float, ...] = ()

    @property
    def density(self) -> np.ndarray | None:
        """By cell, over the whole window."""
        return None if self.frames is None else self.frames.sum(axis=0)

    def to_plain(self) -> dict[str, object]:
        """All but the arrays, as JSON's own types."""
        return {name: value for name, value in asdict(self.bare()).items() if name not in ARRAYS}

    def bare(self) -> EffectMap:
        """The same without arrays."""
        return replace(self, midpoints=None, volumes=None, frames=None)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> EffectMap:
        """What `to_plain` wrote."""
        known = {f.name for f in fields(cls)} - set(ARRAYS)
        given = {name: value for name, value in plain.items() if name in known}
        for name in ("times", "growth", "ends"):
            given[name] = tuple(map(float, given.get(name, ())))
        given["box"] = tuple((float(low), float(high)) for low, high in given["box"])
        interval = given.get("interval")
        given["interval"] = None if interval is None else (float(interval[0]), float(interval[1]))
        return cls(**given)


ARRAYS = ("midpoints", "volumes", "frames")


def write_maps(folder: Path, maps: Mapping[str, EffectMap]) -> None:
    """Write the densities of all maps into `maps.npz`, whole or not at all."""
    known = {name: each for name, each in maps.items() if each.frames is not None}
    if not known:
        return
    first = next(iter(known.values()))
    arrays: dict[str, Any] = {
        "about": np.array(json.dumps({"format": FORMAT, "names": list(known)})),
        "midpoints": first.midpoints,
        "volumes": first.volumes,
    }
    for k, each in enumerate(known.values()):
        arrays[f"frames_{k}"] = np.asarray(each.frames, dtype=np.float32)
    part = folder / f".{FILE}.part"
    part.unlink(missing_ok=True)
    with open(part, "xb") as file:
        np.savez_compressed(file, **arrays)
    part.replace(folder / FILE)


def with_arrays(folder: Path, maps: Mapping[str, EffectMap]) -> dict[str, EffectMap]:
    """Maps with the densities that `maps.npz` holds of them.

    Raises:
        InputError: the file is there but holds no maps.
    """
    path = folder / FILE
    if not path.is_file():
        return dict(maps)
    try:
        arrays = read_arrays(path, kinds="biufU")
        about = json.loads(str(arrays["about"]))
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']!r}, not {FORMAT!r}")
        places = {str(name): k for k, name in enumerate(about["names"])}
        return {
            name: replace(
                each,
                midpoints=arrays["midpoints"],
                volumes=arrays["volumes"],
                frames=arrays[f"frames_{places[name]}"].astype(float),
            )
            if name in places
            else each
            for name, each in maps.items()
        }
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise InputError(
            f"{path} cannot be read as maps ({error}); delete it and run the study again"
        ) from None
