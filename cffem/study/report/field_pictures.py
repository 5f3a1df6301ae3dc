# SPDX-License-Identifier: MIT
"""Pictures of fields: factual, without a term, and their difference, from the small drawing
of a study (`Fields`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.study.report.canvas import label, picture
from cffem.study.report.summary import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cffem.study.report.drawn_fields import Fields

MOST = 8  # pictures on a page
ARROWS = 14  # along the longer side
STACKED = 0.45  # height over width below which the panels stand above each other


def field_pictures(drawing: Fields, terms: Sequence[str]) -> list[tuple[str, str]]:
    """A caption and a picture for each field and term that the drawing holds, in the order of
    the terms, at most `MOST`.
    """
    found: list[tuple[str, str]] = []
    for term in terms:
        for name in drawing.factual if term in drawing.deleted else ():
            if len(found) < MOST:
                found.append((caption(drawing, name, term), field_picture(drawing, name, term)))
    return found


def left_out(drawing: Fields, terms: Sequence[str]) -> int:
    """How many pictures a page has no room for."""
    return max(0, len(drawing.factual) * sum(term in drawing.deleted for term in terms) - MOST)


def caption(drawing: Fields, name: str, term: str) -> str:
    """What a picture shows."""
    when = "steady" if drawing.time is None else f"at t = {drawing.time:.4g}"
    where = f", {drawing.where}" if drawing.where else ""
    vector = drawing.factual[name].shape[1] > 1
    more = "; arrows show the direction in this plane" if vector and len(drawing.axes) == 2 else ""
    sign = "" if vector else "; the difference is the first minus the second"
    return f"{plain(name)} with and without {plain(term)}, {when}{where}{more}{sign}"


def field_picture(drawing: Fields, name: str, term: str) -> str:
    """Factual, deleted and difference side by side."""
    factual, deleted = drawing.factual[name], drawing.deleted[term][name]
    difference = drawing.difference(term, name)
    scale, change = _largest(factual), _largest(difference)
    alt = (
        f"{caption(drawing, name, term)}: largest value {scale:.3g}, largest difference "
        f"{change:.3g}."
    )
    line = len(drawing.axes) == 1
    size = (9.6, 2.9) if line else _size(drawing.points)
    draw = _draw_lines if line else _draw_areas
    return picture(
        lambda f: draw(f, drawing, (factual, deleted, difference), name, term),
        alt,
        size,
        "svg" if line else "png",
    )


def _largest(values: np.ndarray) -> float:
    size = np.sqrt((values**2).sum(axis=1))
    return float(np.nanmax(size)) if np.isfinite(size).any() else 0.0


def _slenderness(points: np.ndarray) -> float:
    """Height over width of a drawing."""
    extent = np.ptp(points, axis=0)
    return float(extent[1] / max(extent[0], 1e-300))


def _size(points: np.ndarray) -> tuple[float, float]:
    """Inches of a picture: three panels beside each other, or above each other where they are
    much wider than high.
    """
    slender = _slenderness(points)
    if slender < STACKED:
        return 8.6, 3 * (7.0 * slender + 0.42) + 0.35
    return 9.6, min(2.75 * slender, 6.0) + 1.35


def _draw_lines(
    figure: Any, drawing: Fields, values: Sequence[np.ndarray], name: str, term: str
) -> None:
    both, change = figure.subplots(1, 2)
    order = np.argsort(drawing.points[:, 0], kind="stable")
    x = drawing.points[order, 0]
    for component in range(values[0].shape[1]):
        both.plot(
            x,
            values[0][order, component],
            color="#00598c",
            label="factual" if component == 0 else None,
        )
        both.plot(
            x,
            values[1][order, component],
            color="#b34700",
            linestyle="--",
            label="deleted" if component == 0 else None,
        )
        change.plot(x, values[2][order, component], color="black")
    both.set_title(f"{label(name)}, and without {label(term)}", fontsize=10)
    change.set_title("difference", fontsize=10)
    both.legend(frameon=False)
    for axes in (both, change):
        axes.set_xlabel(drawing.axes[0])
        axes.grid(color="#dddddd", linewidth=0.6)


def _draw_areas(
    figure: Any, drawing: Fields, values: Sequence[np.ndarray], name: str, term: str
) -> None:
    from matplotlib.tri import Triangulation

    mesh = Triangulation(drawing.points[:, 0], drawing.points[:, 1], drawing.cells)
    stacked = _slenderness(drawing.points) < STACKED
    panels = figure.subplots(3, 1, sharex=True) if stacked else figure.subplots(1, 3, sharey=True)
    vector = values[0].shape[1] > 1
    shown = [np.sqrt((v**2).sum(axis=1)) if vector else v[:, 0] for v in values]
    ends = _ends(np.concatenate(shown[:2]), vector)
    symbol = f"|{label(name)}|" if vector else label(name)
    titles = (
        f"factual {symbol}",
        f"without {label(term)}",
        "|difference|" if vector else "difference",
    )
    for number, (axes, content, title) in enumerate(zip(panels, shown, titles, strict=True)):
        low, high = ends if number < 2 else _ends(content, vector, signed=True)
        sequential = low >= 0
        image = axes.tripcolor(
            mesh,
            np.nan_to_num(content),
            shading="gouraud",
            vmin=low,
            vmax=high,
            cmap="viridis" if sequential else "RdBu_r",
        )
        axes.set_aspect("equal")
        axes.set_title(title, fontsize=10)
        place = (
            {"location": "right", "pad": 0.02}
            if stacked
            else {"location": "bottom", "shrink": 0.9, "pad": 0.03}
        )
        colours = figure.colorbar(image, ax=axes, **place)
        # Matplotlib would write a factor such as 1e−15 beside the bar and push the titles out of
        # the picture.
        ticks = (low, (low + high) / 2, high)
        colours.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks], fontsize=8)
        colours.minorticks_off()
        if vector and values[number].shape[1] >= 2:
            _arrows(axes, drawing, values[number], 2 * ARROWS if stacked else ARROWS)
    for axes in panels[-1:] if stacked else panels:
        axes.set_xlabel(drawing.axes[0])
    for axes in panels if stacked else panels[:1]:
        axes.set_ylabel(drawing.axes[1])


def _ends(values: np.ndarray, vector: bool, signed: bool = False) -> tuple[float, float]:
    """Limits of the colours: from zero for sizes and values of one sign, symmetric about zero
    otherwise.
    """
    known = values[np.isfinite(values)]
    largest = float(np.abs(known).max()) if known.size else 0.0
    largest = largest or 1e-300
    one_sign = vector or (not signed and (not known.size or known.min() >= -1e-9 * largest))
    return (0.0, largest) if one_sign else (-largest, largest)


def _arrows(axes: Axes, drawing: Fields, values: np.ndarray, count: int) -> None:
    """The part of a vector field in the plane of the drawing, on about `count` points along
    the longer side.
    """
    inside = ["xyz".index(axis) for axis in drawing.axes]
    if max(inside) >= values.shape[1]:
        return
    low, extent = drawing.points.min(axis=0), np.ptp(drawing.points, axis=0)
    scaled = (drawing.points - low) / max(extent.max(), 1e-300) * count
    bins = np.floor(scaled).astype(int)
    # Of each square the point nearest to its centre, so that the arrows stand in rows.
    nearest = np.argsort(((scaled - bins - 0.5) ** 2).sum(axis=1), kind="stable")
    first = nearest[np.unique(bins[nearest], axis=0, return_index=True)[1]]
    plane = values[first][:, inside]
    good = np.isfinite(plane).all(axis=1)
    size = np.sqrt((plane[good] ** 2).sum(axis=1))
    if not size.size or size.max() <= 1e-3 * _largest(values):
        return
    axes.quiver(
        *drawing.points[first][good].T,
        *plane[good].T,
        color="white",
        edgecolor="black",
        linewidth=0.3,
        pivot="mid",
        width=0.084 / count,
        scale=float(size.max()) * count * 0.8,
    )
