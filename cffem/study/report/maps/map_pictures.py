# SPDX-License-Identifier: MIT
"""Pictures of maps: the density of |u − u_j|² in space, and its growth in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cffem.study.report.canvas import label, sheet_picture
from cffem.study.report.field_pictures import TALLEST, area_panel, scale_beside
from cffem.study.report.markup import figure, number, paragraph, skipped, table
from cffem.study.report.plots.sheet import Panel, Sheet, padded
from cffem.study.report.summary import plain

if TYPE_CHECKING:
    from cffem.study.report.drawn_fields import Fields
    from cffem.study.report.maps.effect_map import EffectMap
    from cffem.study.report.report import Report

MOST = 8  # pictures on a page
DECADES = 6  # of the density that are shown
SCALE = "magma"


def page_maps(report: Report, drawing: Fields | None) -> str:
    """Sentences, a table of shares, and a picture of each map, largest change first."""
    if (empty := skipped(report.sections["maps"])) is not None:
        return empty
    maps = report.maps
    named = report.interventions
    scores = {name: term.deletion or 0.0 for name, term in report.terms.items()}
    scores |= {name: each.score or 0.0 for name, each in named.items()}
    order = sorted(maps, key=lambda name: -scores.get(name, 0.0))
    told = [
        paragraph(f"{plain(name)}: {maps[name].sentence}") for name in order if maps[name].sentence
    ]
    rows = [
        (
            name,
            _percent(maps[name].domain_share),
            "; ".join(f"{number(a)} to {number(b)}" for a, b in maps[name].box),
            maps[name].subdomain or "–",
            _percent(maps[name].window_share),
            _when(maps[name]),
        )
        for name in order
    ]
    head = (
        "change",
        "share of the domain",
        "within",
        "subdomain",
        "share of the window",
        "between",
    )
    # A steady problem has no window, and few meshes have subdomains.
    kept = [k for k in range(len(head)) if not rows or any(row[k] != "–" for row in rows)]
    shown_rows = [tuple(row[k] for k in kept) for row in rows]
    parts = [
        *told,
        table("Where 90 % of each change lies", tuple(head[k] for k in kept), shown_rows),
    ]
    shown = [name for name in order if drawing is not None and name in drawing.maps]
    for name in shown[:MOST]:
        assert drawing is not None
        parts.append(figure(map_picture(drawing, name, maps[name]), _caption(name, maps[name])))
    note = (
        "The density is that of the squared difference, integrated over the window; of several "
        "fields each is divided by its norm. maps/maps.pvd opens in ParaView."
    )
    return "".join([*parts, paragraph(note, "small")])


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.3g} %"


def _when(each: EffectMap) -> str:
    return "–" if each.interval is None else " and ".join(map(number, each.interval))


def _caption(name: str, each: EffectMap) -> str:
    growth = "" if len(each.times) == 1 else "; right, its integral over the domain in time"
    return f"Where {plain(name)} changes the solution: density of |u − u_j|²{growth}."


def map_picture(drawing: Fields, name: str, each: EffectMap) -> str:
    """The density in space, and its growth in time beside it."""
    alt = (
        f"{_caption(name, each)} 90 % of it lies in {_percent(each.domain_share)} of the domain"
        + ("." if each.window_share is None else f" and {_percent(each.window_share)} of the time.")
    )
    line = len(drawing.axes) == 1
    extent = np.ptp(drawing.points, axis=0)
    room = 430.0 if len(each.times) > 1 else 700.0
    tall = 200.0 if line else min(room * float(extent[-1] / max(extent[0], 1e-300)), TALLEST)
    wide = room if line else min(room, tall * float(extent[0] / max(extent[-1], 1e-300)))
    size = (922.0, tall + 86)
    return sheet_picture(lambda s: _draw(s, drawing, name, each, (wide, tall)), alt, size)


def _draw(
    sheet: Sheet, drawing: Fields, name: str, each: EffectMap, size: tuple[float, float]
) -> None:
    values = drawing.maps[name]
    if len(drawing.axes) == 1:
        order = np.argsort(drawing.points[:, 0], kind="stable")
        x = drawing.points[order, 0]
        ends = (float(x.min()), float(x.max()))
        panel = Panel(sheet, 78, 30, *size, ends, padded(values, 0.0))
        panel.ticks_across(words=drawing.axes[0])
        panel.ticks_up()
        panel.line(x, values[order], "#00598c", fill=True)
    else:
        panel = area_panel(sheet, drawing, 66, 30, *size)
        _draw_area(sheet, panel, drawing, values)
        panel.ticks_across(words=drawing.axes[0])
        panel.ticks_up(words=drawing.axes[1])
    panel.frame()
    panel.title(f"change by {label(name)}")
    if len(each.times) < 2:
        return
    times, growth = np.asarray(each.times), np.asarray(each.growth)
    ends = (float(times.min()), float(times.max()))
    left, tall = 650.0, max(min(size[1], 260.0), 120.0)
    curve = Panel(sheet, left, 30, 905 - left, min(tall, size[1]), ends, padded(growth, 0.0))
    if each.interval is not None and (each.window_share or 1.0) < 0.5:
        first, last = map(curve.across, each.interval)
        sheet.add("rect", x=first, y=curve.top, width=last - first, height=curve.height,
                  fill="#dddddd")  # fmt: skip
    curve.ticks_across(grid=True, words="t")
    curve.ticks_up(grid=True)
    curve.frame()
    curve.line(times, growth, "#b34700", fill=True)
    curve.title("∫ |u − u_j|² over the domain")


def _draw_area(sheet: Sheet, panel: Panel, drawing: Fields, values: np.ndarray) -> None:
    largest = float(np.nanmax(values)) if np.isfinite(values).any() else 0.0
    largest = largest if largest > 0 else 1e-300
    positive = values[np.isfinite(values) & (values > 0)]
    low = max(float(positive.min(initial=largest)), largest * 10.0**-DECADES)
    logs = np.log(np.clip(np.nan_to_num(values), low, largest))
    address = drawing.raster.picture(
        logs, float(np.log(low * 0.999)), float(np.log(largest)), SCALE
    )
    sheet.image(panel.left, panel.top, panel.width, panel.height, address)
    middle = float(np.sqrt(low * largest))
    ticks = [(0.0, f"{low:.1e}"), (0.5, f"{middle:.1e}"), (1.0, f"{largest:.1e}")]
    scale_beside(sheet, panel, SCALE, ticks)
