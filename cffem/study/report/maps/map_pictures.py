# SPDX-License-Identifier: MIT
"""Pictures of maps: the density of |u − u_j|² in space, and its growth in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cffem.study.report.canvas import label, picture
from cffem.study.report.markup import figure, number, paragraph, skipped, table
from cffem.study.report.summary import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from cffem.study.report.drawn_fields import Fields
    from cffem.study.report.maps.effect_map import EffectMap
    from cffem.study.report.report import Report

MOST = 8  # pictures on a page
DECADES = 6  # of the density that are shown


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
    parts = [*told, table("Where 90 % of each change lies", head, rows)]
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
    extent = np.ptp(drawing.points, axis=0)
    tall = 2.9 if len(drawing.axes) == 1 else 1.4 + 4.6 * min(extent[1] / max(extent[0], 1e-300), 1)
    return picture(lambda f: _draw(f, drawing, name, each), alt, (9.6, tall), "png")


def _draw(fig: Figure, drawing: Fields, name: str, each: EffectMap) -> None:
    transient = len(each.times) > 1
    panels = fig.subplots(1, 2, width_ratios=(3, 2)) if transient else [fig.subplots(1, 1)]
    values = drawing.maps[name]
    if len(drawing.axes) == 1:
        order = np.argsort(drawing.points[:, 0], kind="stable")
        panels[0].plot(drawing.points[order, 0], values[order], color="#00598c")
        panels[0].fill_between(drawing.points[order, 0], values[order], color="#00598c", alpha=0.2)
        panels[0].set_ylim(bottom=0)
    else:
        _draw_area(fig, panels[0], drawing, values)
    panels[0].set_title(f"change by {label(name)}", fontsize=10)
    panels[0].set_xlabel(drawing.axes[0])
    if len(drawing.axes) > 1:
        panels[0].set_ylabel(drawing.axes[1])
    if not transient:
        return
    growth = panels[1]
    growth.plot(each.times, each.growth, color="#b34700")
    growth.fill_between(each.times, each.growth, color="#b34700", alpha=0.2)
    if each.interval is not None and (each.window_share or 1.0) < 0.5:
        growth.axvspan(*each.interval, color="#dddddd", zorder=0)
    growth.set_ylim(bottom=0)
    growth.set_title("∫ |u − u_j|² over the domain", fontsize=10)
    growth.set_xlabel("t")
    growth.grid(color="#dddddd", linewidth=0.6)


def _draw_area(fig: Figure, axes: Axes, drawing: Fields, values: np.ndarray) -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.tri import Triangulation

    mesh = Triangulation(drawing.points[:, 0], drawing.points[:, 1], drawing.cells)
    largest = float(np.nanmax(values)) if np.isfinite(values).any() else 0.0
    largest = largest if largest > 0 else 1e-300
    positive = values[np.isfinite(values) & (values > 0)]
    low = max(float(positive.min(initial=largest)), largest * 10.0**-DECADES)
    image = axes.tripcolor(
        mesh,
        np.clip(np.nan_to_num(values), low, largest),
        shading="gouraud",
        cmap="magma",
        norm=LogNorm(low * 0.999, largest),
    )
    axes.set_aspect("equal")
    colours = fig.colorbar(image, ax=axes, location="right", pad=0.02, shrink=0.9)
    ticks = (low, float(np.sqrt(low * largest)), largest)
    colours.set_ticks(ticks, labels=[f"{tick:.1e}" for tick in ticks], fontsize=8)
    colours.minorticks_off()
