# SPDX-License-Identifier: MIT
"""Pictures of fields: factual, without a term, and their difference, from the small drawing
of a study (`Fields`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cffem.study.report.canvas import label, sheet_picture
from cffem.study.report.plots.sheet import SMALL, Panel, Sheet, padded
from cffem.study.report.summary import plain

if TYPE_CHECKING:
    from cffem.study.report.drawn_fields import Fields

MOST = 8  # pictures on a page
ARROWS = 14  # along the longer side
STACKED = 0.45  # height over width below which the panels stand above each other
TALLEST = 520.0  # pixels of an area
LINES = (922.0, 290.0)  # pixels of a picture of lines


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
    values = (factual, deleted, difference)
    if len(drawing.axes) == 1:
        return sheet_picture(lambda s: _draw_lines(s, drawing, values, name, term), alt, LINES)
    places = AreaPlaces.of(drawing.points)
    return sheet_picture(
        lambda s: _draw_areas(s, drawing, places, values, name, term), alt, places.size
    )


def _largest(values: np.ndarray) -> float:
    size = np.sqrt((values**2).sum(axis=1))
    return float(np.nanmax(size)) if np.isfinite(size).any() else 0.0


@dataclass(frozen=True)
class AreaPlaces:
    """Where three areas stand: beside each other, or above each other where they are much wider
    than high.

    Attributes:
        size: of the sheet, in pixels.
        corners: left and top of each area.
        width, height: of an area.
        stacked: whether they stand above each other.
    """

    size: tuple[float, float]
    corners: tuple[tuple[float, float], ...]
    width: float
    height: float
    stacked: bool

    @classmethod
    def of(cls, points: np.ndarray) -> AreaPlaces:
        """Places for areas of the shape of some points."""
        extent = np.ptp(points, axis=0)
        slender = float(extent[1] / max(extent[0], 1e-300))
        if slender < STACKED:
            width = 680.0
            height = max(width * slender, 12.0)
            step = height + 44
            corners = tuple((66.0, 26 + k * step) for k in range(3))
            return cls((830.0, 26 + 3 * step + 12), corners, width, height, True)
        room = 268.0
        height = min(room * slender, TALLEST)
        width = max(height / slender, 12.0)
        left = 62 + (room - width) / 2
        corners = tuple((left + k * (room + 18), 28.0) for k in range(3))
        return cls((922.0, height + 112), corners, width, height, False)


def _draw_lines(
    sheet: Sheet, drawing: Fields, values: Sequence[np.ndarray], name: str, term: str
) -> None:
    order = np.argsort(drawing.points[:, 0], kind="stable")
    x = drawing.points[order, 0]
    ends = (float(x.min()), float(x.max()))
    width, height = 360.0, LINES[1] - 88
    both = Panel(sheet, 72, 30, width, height, ends, padded(np.concatenate(values[:2])))
    change = Panel(sheet, 540, 30, width, height, ends, padded(values[2]))
    for panel in (both, change):
        panel.ticks_across(grid=True, words=drawing.axes[0])
        panel.ticks_up(grid=True)
        panel.frame()
    for component in range(values[0].shape[1]):
        both.line(x, values[0][order, component], "#00598c")
        both.line(x, values[1][order, component], "#b34700", dash="7 4")
        change.line(x, values[2][order, component], "black")
    both.title(f"{label(name)}, and without {label(term)}")
    change.title("difference")
    foot = LINES[1] - 6
    for left, words, colour, dash in (
        (72.0, "factual", "#00598c", ""),
        (152.0, "deleted", "#b34700", "7 4"),
    ):
        look = {"stroke_dasharray": dash} if dash else {}
        sheet.add("line", x1=left, y1=foot - 4, x2=left + 24, y2=foot - 4, stroke=colour,
                  stroke_width=1.6, **look)  # fmt: skip
        sheet.text(left + 28, foot, words, size=SMALL)


def _draw_areas(
    sheet: Sheet,
    drawing: Fields,
    places: AreaPlaces,
    values: Sequence[np.ndarray],
    name: str,
    term: str,
) -> None:
    vector = values[0].shape[1] > 1
    shown = [np.sqrt((v**2).sum(axis=1)) if vector else v[:, 0] for v in values]
    ends = colour_ends(np.concatenate(shown[:2]), vector)
    symbol = f"|{label(name)}|" if vector else label(name)
    titles = (
        f"factual {symbol}",
        f"without {label(term)}",
        "|difference|" if vector else "difference",
    )
    for number, (content, title) in enumerate(zip(shown, titles, strict=True)):
        low, high = ends if number < 2 else colour_ends(content, vector, signed=True)
        scale = "viridis" if low >= 0 else "RdBu_r"
        panel = area_panel(sheet, drawing, *places.corners[number], places.width, places.height)
        address = drawing.raster.picture(np.nan_to_num(content), low, high, scale)
        sheet.image(panel.left, panel.top, panel.width, panel.height, address)
        panel.title(title)
        if places.stacked:
            panel.ticks_up(words=drawing.axes[1])
            panel.ticks_across(words=drawing.axes[0] if number == 2 else "")
        else:
            panel.ticks_across(words=drawing.axes[0])
            panel.ticks_up(None if number == 0 else (), words=drawing.axes[1] * (number == 0))
        panel.frame()
        ticks = [(share, f"{low + share * (high - low):.2g}") for share in (0.0, 0.5, 1.0)]
        if places.stacked:
            scale_beside(sheet, panel, scale, ticks)
        else:
            scale_below(sheet, panel, scale, ticks)
        if vector and values[number].shape[1] >= 2:
            _arrows(panel, drawing, values[number], 2 * ARROWS if places.stacked else ARROWS)


def area_panel(
    sheet: Sheet, drawing: Fields, left: float, top: float, width: float, height: float
) -> Panel:
    """A panel with the coordinates of a drawing."""
    low, high = drawing.points.min(axis=0), drawing.points.max(axis=0)
    x, y = ((float(a), float(b)) for a, b in zip(low, high, strict=True))
    return Panel(sheet, left, top, width, height, x, y)


def scale_below(sheet: Sheet, panel: Panel, scale: str, ticks: Sequence[tuple[float, str]]) -> None:
    """The colours of a panel below it, with some of their values."""
    width = max(panel.width, 120.0)
    left, top = panel.left + (panel.width - width) / 2, panel.bottom + 44
    sheet.bar(left, top, width, 10.0, scale)
    for share, written in ticks:
        anchor = "start" if share == 0 else "end" if share == 1 else "middle"
        sheet.text(left + share * width, top + 24, written, anchor=anchor, size=SMALL)


def scale_beside(
    sheet: Sheet, panel: Panel, scale: str, ticks: Sequence[tuple[float, str]]
) -> None:
    """The colours of a panel right of it, with some of their values."""
    left = panel.right + 12
    sheet.bar(left, panel.top, 10.0, panel.height, scale)
    apart = panel.height >= 36
    for share, written in ticks if apart else (ticks[0], ticks[-1]):
        place = panel.bottom - share * panel.height + 4
        sheet.text(left + 15, place, written, size=SMALL)


def colour_ends(values: np.ndarray, vector: bool, signed: bool = False) -> tuple[float, float]:
    """Limits of the colours: from zero for sizes and values of one sign, symmetric about zero
    otherwise.
    """
    known = values[np.isfinite(values)]
    largest = float(np.abs(known).max()) if known.size else 0.0
    largest = largest or 1e-300
    one_sign = vector or (not signed and (not known.size or known.min() >= -1e-9 * largest))
    return (0.0, largest) if one_sign else (-largest, largest)


def _arrows(panel: Panel, drawing: Fields, values: np.ndarray, count: int) -> None:
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
    longest = 1.25 * max(panel.width, panel.height) / count
    steps = plane[good] / size.max() * longest * [1, -1]
    words = []
    for (x, y), step in zip(drawing.points[first][good], steps, strict=True):
        if (length := float(np.hypot(*step))) < 0.5:
            continue
        middle = np.array([panel.across(x), panel.up(y)])
        along, head = step / length, min(0.4 * length, 4.5)
        beside = np.array([-along[1], along[0]])
        tail, tip = middle - step / 2, middle + step / 2
        wings = [tip - head * along + sign * 0.6 * head * beside for sign in (1, -1)]
        start, end, one, two = (f"{p[0]:.1f} {p[1]:.1f}" for p in (tail, tip, *wings))
        words.append(f"M{start}L{end}M{one}L{end}L{two}")
    path = "".join(words)
    for colour, width in (("black", 2.2), ("white", 1.3)):
        panel.sheet.add("path", d=path, fill="none", stroke=colour, stroke_width=width)
