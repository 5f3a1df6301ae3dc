# SPDX-License-Identifier: MIT
"""Velocity fields measured in a plane: files of TSI Insight (`.vec`), as particle image velocimetry
leaves them.

A file has one line of description with the grid's size and the unit of length, then a line for each
vector: position, velocity and a choice code, positive where the correlation succeeded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cffem.data.readers.anomalies import DataError
from cffem.data.readers.units import QUANTITIES


@dataclass(frozen=True)
class PlaneFlow:
    """Velocities on a grid, in metres and metres per second; nan where they are missing.

    Attributes:
        x, y: coordinates, increasing.
        velocity: 2 × len(x) × len(y).
    """

    x: np.ndarray
    y: np.ndarray
    velocity: np.ndarray


def read_vec(path: str | Path) -> PlaneFlow:
    """Read one frame.

    Raises:
        DataError: the file is not of this kind, or damaged.
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            header = file.readline()
            size = re.search(r"ZONE\s+I=(\d+),\s*J=(\d+)", header)
            length, speed = (
                re.search(r'VARIABLES="X ([^"]*)"', header),
                re.search(r'"U ([^"]*)"', header),
            )
            if not (size and length and speed):
                raise DataError(
                    f"{path} is no Insight file: its first line names no grid and units"
                )
            table = np.genfromtxt(file, delimiter=",")
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
    columns, rows = int(size[1]), int(size[2])
    metres = {
        "mm": 1e-3,
        **{name: factor for name, (factor, _) in QUANTITIES["length"].items()},
    }.get(length[1])
    if (
        table.shape != (rows * columns, 5)
        or metres is None
        or speed[1] not in QUANTITIES["velocity"]
    ):
        raise DataError(
            f"{path} should hold {rows} × {columns} lines of five numbers in mm, cm or m and m/s"
        )
    grid = table.reshape(rows, columns, 5)
    valid = grid[..., 4] > 0
    factor = QUANTITIES["velocity"][speed[1]][0]
    velocity = np.where(valid, np.moveaxis(grid[..., 2:4], -1, 0), np.nan) * factor
    x, y = grid[0, :, 0] * metres, grid[:, 0, 1] * metres
    order = np.argsort(y)
    return PlaneFlow(x, y[order], np.transpose(velocity[:, order], (0, 2, 1)))
