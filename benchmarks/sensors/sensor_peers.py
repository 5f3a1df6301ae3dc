# SPDX-License-Identifier: MIT
"""Weak regression and PySINDy on the same sparse sensors.

Both need fields. Weak regression gets the sensors as scattered points; PySINDy, which needs a grid,
gets what SciPy interpolates between them, and every one of many thresholds, of which the best
counts.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import cffem as cf
from benchmarks.sensors.sensor_bench import SEED, readings
from benchmarks.sensors.sensor_families import FAMILIES, SensorFamily

GRID = 24
PEER = "PySINDy"
THRESHOLDS = np.geomspace(1e-3, 2.0, 25)
# How PySINDy calls the terms.
FEATURES = {
    "lap": ("x0_11", "x0_22"),
    "u_xx": ("x0_11",),
    "u": ("x0",),
    "u^2": ("x0x0",),
    "u^3": ("x0x0x0",),
    "u_x": ("x0_1",),
    "u_y": ("x0_2",),
    "u u_x": ("x0x0_1",),
}


def peers(board: Any, seeds: int) -> None:
    """Both on every family that they could try."""
    for family in FAMILIES:
        if not family.peer:
            why = "several fields, a steady problem or pressure: there are no rows to regress"
            board.peers.append({"family": family.name, "who": "both", "cannot": why})
            continue
        library, experiment = family.make()
        world = cf.Model(library, family.truth, experiment)
        for number in range(seeds):
            sensors, values = readings(family, world, library, SEED + number)
            table = values.reshape(len(sensors.points), -1)
            board.peers.append(regression(family, library, sensors.points, world.times, table))
            board.peers.append(pysindy_fit(family, sensors.points, world.times, table))
            for found in board.peers[-2:]:
                board.line(f"{found['who']}, {family.name}: {said(found)}")
        world.destroy()


def said(found: dict[str, Any]) -> str:
    """A result in words."""
    if found.get("cannot"):
        return f"cannot: {found['cannot']}"
    trust = "believed" if found["believed"] else "not believed by itself"
    return (
        f"{'exact' if found['exact'] else 'wrong'} terms, largest relative error of a coefficient "
        f"{found['error']:.2g}, {'says nothing about itself' if found['who'] == PEER else trust}"
    )


def largest_error(truth: Any, found: dict[str, float]) -> float:
    """Of the coefficients that are there."""
    return max(abs(found.get(n, 0.0) - value) / abs(value) for n, value in truth.items())


def regression(
    family: SensorFamily, library: Any, points: Any, times: Any, table: np.ndarray
) -> dict[str, Any]:
    """Our own weak regression."""
    about = {"family": family.name, "who": "weak regression"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (unknown,) = library.unknowns
            data = cf.Dataset.from_points(points, times, {unknown: table})
            design = cf.Design.from_fields(library, [data], kind="weak")
            screen = cf.Screening().fit(design)
    except (ValueError, IndexError, ArithmeticError) as error:
        return {**about, "cannot": str(error)[:160]}
    found = dict(zip(design.names, map(float, screen.coef_), strict=True))
    support = {n for n, v in found.items() if v}
    return {
        **about,
        "exact": support == set(family.truth),
        "error": largest_error(family.truth, found),
        "believed": bool(screen.reliable_),
    }


def pysindy_fit(family: SensorFamily, points: Any, times: Any, table: np.ndarray) -> dict[str, Any]:
    """PySINDy's PDE library on an interpolated grid, the best of many thresholds."""
    about = {"family": family.name, "who": PEER}
    try:
        import pysindy
    except ImportError:
        return {**about, "cannot": "PySINDy is not installed (pip install 'cffem[bench]')"}
    if not set(family.truth) <= set(FEATURES):
        return {**about, "cannot": "second derivatives in time are not in its PDE library"}
    best: dict[str, Any] | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grid, field = interpolated(points, table)
        shape = pysindy.PDELibrary(
            function_library=pysindy.PolynomialLibrary(degree=3, include_bias=False),
            derivative_order=2,
            spatial_grid=grid,
            include_interaction=grid.ndim == 1,
        )
        for threshold in THRESHOLDS:
            model = pysindy.SINDy(
                optimizer=pysindy.STLSQ(threshold=threshold, alpha=1e-8, normalize_columns=True),
                feature_library=shape,
            )
            try:
                model.fit(field[..., None], t=times)
            except (ValueError, np.linalg.LinAlgError):
                continue
            values = dict(zip(model.get_feature_names(), model.coefficients()[0], strict=True))
            wanted = {f for n in family.truth for f in FEATURES[n]}
            support = {n for n, v in values.items() if v}
            found = {
                n: float(np.mean([values.get(f, 0.0) for f in FEATURES[n]])) for n in family.truth
            }
            exact, error = support == wanted, largest_error(family.truth, found)
            if best is None or (exact, -error) > (best["exact"], -best["error"]):
                best = {**about, "exact": exact, "believed": True, "error": error}
    return best or {**about, "cannot": "no threshold gave a model"}


def interpolated(points: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Readings on a grid between the sensors."""
    from scipy.interpolate import RBFInterpolator

    low, high = points.min(axis=0), points.max(axis=0)
    axes = [np.linspace(a, b, GRID) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1)
    values = RBFInterpolator(points, table, kernel="thin_plate_spline")(
        grid.reshape(-1, points.shape[1])
    )
    field = values.reshape(*grid.shape[:-1], table.shape[1])
    return (axes[0] if points.shape[1] == 1 else grid), field
