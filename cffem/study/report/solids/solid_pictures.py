# SPDX-License-Identifier: MIT
"""Pictures of volumes: the body with and without a term, and their difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cffem.study.report.canvas import label, sheet_picture
from cffem.study.report.field_pictures import AreaPlaces, colour_ends, scale_below, scale_beside
from cffem.study.report.plots.sheet import SMALL, Panel, Sheet
from cffem.study.report.solids.solid import Solid, viewer
from cffem.study.report.summary import plain

if TYPE_CHECKING:
    from cffem.study.report.drawn_fields import Fields

MOST = 4  # pictures on a page, which are larger than others
ARROW = 26.0  # pixels of an axis in the corner of a picture


def solid_pictures(drawing: Fields, terms: Sequence[str]) -> list[tuple[str, str]]:
    """A caption and a picture for each field and term, in the order of the terms, at most `MOST`;
    none where nothing but a plane or a line is drawn.
    """
    if drawing.solid is None:
        return []
    pairs = [
        (term, name) for term in terms if term in drawing.solid.deleted for name in drawing.factual
    ]
    return [
        (caption(drawing, name, term), solid_picture(drawing.solid, name, term))
        for term, name in pairs[:MOST]
    ]


def caption(drawing: Fields, name: str, term: str) -> str:
    """What a picture shows."""
    when = "steady" if drawing.time is None else f"at t = {drawing.time:.4g}"
    return (
        f"{plain(name)} with and without {plain(term)}, {when}, on the surface of the body and on "
        "the planes that cut away its corner next to the viewer"
    )


def solid_picture(solid: Solid, name: str, term: str) -> str:
    """Factual, deleted and difference side by side."""
    values = (solid.factual[name], solid.deleted[term][name], solid.difference(term, name))
    vector = values[0].shape[1] > 1
    shown = [np.sqrt((v**2).sum(axis=1)) if vector else v[:, 0] for v in values]
    sizes = [float(np.nanmax(np.abs(v))) if np.isfinite(v).any() else 0.0 for v in shown]
    alt = (
        f"The body with and without {plain(term)}: largest {plain(name)} {sizes[0]:.3g}, largest "
        f"difference {sizes[2]:.3g}."
    )
    places = AreaPlaces.of(solid.points @ viewer()[:2].T)
    return sheet_picture(
        lambda sheet: _draw(sheet, solid, places, shown, vector, (name, term)), alt, places.size
    )


def _draw(
    sheet: Sheet,
    solid: Solid,
    places: AreaPlaces,
    shown: Sequence[np.ndarray],
    vector: bool,
    names: tuple[str, str],
) -> None:
    symbol = f"|{label(names[0])}|" if vector else label(names[0])
    titles = (f"factual {symbol}", f"without {label(names[1])}", "|difference|")
    ends = colour_ends(np.concatenate(shown[:2]), vector)
    for number, (content, title) in enumerate(zip(shown, titles, strict=True)):
        low, high = ends if number < 2 else colour_ends(content, vector, signed=True)
        scale = "viridis" if low >= 0 else "RdBu_r"
        left, top = places.corners[number]
        panel = Panel(sheet, left, top, places.width, places.height, (0.0, 1.0), (0.0, 1.0))
        address = solid.raster.picture(content, low, high, scale)
        sheet.image(panel.left, panel.top, panel.width, panel.height, address)
        panel.title(title if vector or number < 2 else "difference")
        ticks = [(share, f"{low + share * (high - low):.2g}") for share in (0.0, 0.5, 1.0)]
        (scale_beside if places.stacked else scale_below)(sheet, panel, scale, ticks)
    _axes(sheet, places)


def _axes(sheet: Sheet, places: AreaPlaces) -> None:
    """The three axes as the viewer sees them, below on the left."""
    right, up, _ = viewer()
    h, v = 16.0, places.corners[0][1] + places.height - 6
    for axis, name in enumerate("xyz"):
        dx, dy = ARROW * float(right[axis]), -ARROW * float(up[axis])
        sheet.add("line", x1=h, y1=v, x2=h + dx, y2=v + dy, stroke="black", stroke_width=1.2)
        sheet.text(h + 1.35 * dx, v + 1.35 * dy + 4, name, anchor="middle", size=SMALL)
