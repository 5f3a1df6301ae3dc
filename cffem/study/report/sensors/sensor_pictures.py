# SPDX-License-Identifier: MIT
"""Pictures of a calibration: sensors on the domain, residuals, and profiles of coefficients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.study.report.canvas import label, picture
from cffem.study.report.summary import plain

if TYPE_CHECKING:
    from cffem.study.report.drawn_fields import Fields

Section = Mapping[str, Any]
QUANTILE = 3.841  # of χ² with one degree of freedom, 95 %
NOISE = 1.96
MOST_PROFILES = 12
NOTHING = '<p class="skipped">No picture: the readings have no places.</p>'


def _first(part: Section) -> tuple[str, Section]:
    found = part.get("residuals") or {}
    return next(iter(found.items()), ("", {}))


def places(found: Section) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The place of each sensor, the root mean square of its residuals, and its label."""
    points = found.get("points") or []
    rest = found.get("residuals") or []
    names = [str(text).split(" at t = ")[0] for text in found.get("labels") or []]
    kept: dict[Any, list[tuple[float, str]]] = {}
    for point, residual, name in zip(points, rest, names, strict=False):
        if point is not None and residual is not None:
            kept.setdefault(tuple(point), []).append((float(residual), name))
    where = np.array(list(kept), dtype=float)
    sizes = [float(np.sqrt(np.mean([r * r for r, _ in each]))) for each in kept.values()]
    return where, np.array(sizes), [each[0][1] for each in kept.values()]


def sensor_map(part: Section, drawing: Fields | None) -> str:
    """Sensors on the domain, coloured by their residuals."""
    experiment, found = _first(part)
    where, sizes, _ = places(found)
    if not len(where):
        return NOTHING
    alt = (
        f"{len(where)} sensors in {plain(experiment)}; the root mean square of the residuals of a "
        f"sensor is between {sizes.min():.2g} and {sizes.max():.2g} standard deviations."
    )
    flat = drawing is not None and len(drawing.axes) == 2 and where.shape[1] == 2
    slender = 1.0
    if where.shape[1] > 1:
        points = drawing.points if flat and drawing is not None else where
        extent = np.ptp(points[:, :2], axis=0)
        slender = float(np.clip(extent[1] / max(extent[0], 1e-300), 0.2, 1.4))
    size = (7.0, 2.2) if where.shape[1] == 1 else (6.4, 5.0 * slender + 0.9)
    point = (part.get("next") or {}).get("point")
    return picture(
        lambda figure: _draw_map(figure, where, sizes, drawing if flat else None, point), alt, size
    )


def _draw_map(
    figure: Any, where: np.ndarray, sizes: np.ndarray, drawing: Fields | None, point: Any
) -> None:
    axes = figure.add_subplot()
    style = {"cmap": "viridis", "vmin": 0.0, "vmax": max(2.0, float(sizes.max()))}
    if where.shape[1] == 1:
        shown = axes.scatter(where[:, 0], sizes, c=sizes, edgecolors="black", s=50, **style)
        axes.axhline(1.0, color="#888", linewidth=0.8)
        axes.set_xlabel("x")
        axes.set_ylabel("residual")
        if point:
            axes.axvline(point[0], color="#b34700", linestyle="--", label="next sensor")
            axes.legend(frameon=False)
    else:
        if drawing is not None:
            axes.triplot(
                drawing.points[:, 0],
                drawing.points[:, 1],
                drawing.cells,
                color="#d5d5d5",
                linewidth=0.4,
                zorder=0,
            )
        shown = axes.scatter(
            where[:, 0], where[:, 1], c=sizes, edgecolors="black", s=70, zorder=2, **style
        )
        if point and len(point) == where.shape[1]:
            axes.scatter(
                point[0],
                point[1],
                marker="+",
                s=130,
                color="#b34700",
                linewidths=2.4,
                zorder=3,
                label="the next sensor",
            )
            axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 1.12))
        axes.set_aspect("equal")
        axes.set_xlabel("x")
        axes.set_ylabel("y")
    figure.colorbar(shown, ax=axes, shrink=0.85, label="residual / noise")


def residuals(part: Section) -> str:
    """Residuals against time, or reading by reading."""
    experiment, found = _first(part)
    values = [v for v in found.get("residuals") or [] if v is not None]
    if not values:
        return NOTHING
    rest = np.array(values, dtype=float)
    times = found.get("times") or []
    timed = len(times) == len(rest) and all(time is not None for time in times)
    axis = np.array(times, dtype=float) if timed else np.arange(1, len(rest) + 1, dtype=float)
    share = float(np.mean(np.abs(rest) <= NOISE))
    alt = (
        f"{len(rest)} residuals of {plain(experiment)}; {share:.0%} of them are within "
        f"{NOISE} standard deviations."
    )
    return picture(lambda f: _draw_residuals(f, axis, rest, timed), alt, (8.6, 2.8))


def _draw_residuals(figure: Any, axis: np.ndarray, rest: np.ndarray, timed: bool) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(3, 1))
    left.axhspan(-NOISE, NOISE, color="#e6e6e6", zorder=0)
    left.plot(axis, rest, ".", color="#00598c", markersize=4)
    left.set_xlabel("t" if timed else "reading")
    left.set_ylabel("residual / noise")
    right.hist(
        rest,
        bins=int(np.clip(2 * np.sqrt(len(rest)), 6, 24)),
        density=True,
        color="#00598c",
        alpha=0.75,
    )
    grid = np.linspace(-4, 4, 81)
    right.plot(grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), color="black", linewidth=1)
    right.set_xlabel("residual / noise")
    right.set_yticks([])


def profiles(part: Section) -> str:
    """Δχ² against each coefficient."""
    found = [
        (name, profile)
        for name, profile in (part.get("profiles") or {}).items()
        if len(profile.get("values", ())) > 1
    ][:MOST_PROFILES]
    if not found:
        return '<p class="skipped">No picture: no coefficient has a profile.</p>'
    alt = "Profiles of " + ", ".join(plain(name) for name, _ in found) + "."
    rows = -(-len(found) // 3)
    return picture(lambda f: _draw_profiles(f, found, rows), alt, (8.6, 2.3 * rows))


def _draw_profiles(figure: Any, found: list[tuple[str, Section]], rows: int) -> None:
    for number, (name, profile) in enumerate(found, 1):
        axes = figure.add_subplot(rows, 3, number)
        values, deltas = (np.array(profile[key], dtype=float) for key in ("values", "delta_chi2"))
        axes.plot(values, deltas, "o-", color="#00598c", markersize=3, linewidth=1)
        axes.axhline(QUANTILE, color="#b34700", linestyle="--", linewidth=1)
        for end in profile.get("interval", ()):
            if end is not None and np.isfinite(end):
                axes.axvline(end, color="#888", linewidth=0.7)
        axes.set_title(label(name), fontsize=10)
        axes.set_ylim(0, max(2 * QUANTILE, float(deltas.max()) * 1.05))
        if (number - 1) % 3 == 0:
            axes.set_ylabel("Δχ²")
