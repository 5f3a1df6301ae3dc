# SPDX-License-Identifier: MIT
"""Pictures of what the data can tell: coherence of the columns, the regularisation path and
how often terms are selected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.study.report.canvas import decades, label, picture, sheet_picture
from cffem.study.report.plots.raster import colour_of
from cffem.study.report.plots.sheet import SMALL, TEXT, Panel, Sheet, width_of
from cffem.study.report.summary import plain, up_to_one

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NUMBERS_UP_TO = 14  # columns
CELL, LARGEST_MAP = 52.0, 780.0  # pixels of an entry, and of all entries
WIDEST = 1e-5  # smallest penalty that is drawn, of the largest
LINES = ("-", "--", "-.", ":")
COLOURS = ("#00598c", "#b34700", "#00664b", "#8a2a6b", "#7a5c00", "#3b3b9e", "#5a5a5a", "#0089a8")


def coherence_map(design: Mapping[str, Any]) -> str:
    """|⟨A_j, A_k⟩| of the normalised columns as a heat map with its numbers, alias groups
    framed.
    """
    names, gram = design.get("names"), design.get("gram")
    if not names or not gram or len(gram) != len(names):
        return '<p class="skipped">No picture: the report holds no Gram matrix.</p>'
    values = np.abs(np.array(gram, dtype=float))
    off = values - np.diag(np.diag(values))
    j, k = np.unravel_index(int(np.nanargmax(off)), off.shape)
    alt = f"Coherence of the {len(names)} normalised columns. " + (
        f"The largest, {up_to_one(off[j, k], f'{off[j, k]:.3f}')}, is between {plain(names[j])} "
        f"and {plain(names[k])}."
        if len(names) > 1
        else ""
    )
    groups = [group["terms"] for group in design.get("alias_groups", ())]
    cell = min(CELL, LARGEST_MAP / len(names))
    room = 18 + max(width_of(label(name)) for name in names)
    side = cell * len(names)
    size = (room + side + 110, side + 24 + 0.75 * room)
    return sheet_picture(lambda s: _draw_map(s, names, values, groups, room, cell), alt, size)


def _draw_map(
    sheet: Sheet,
    names: Sequence[str],
    values: np.ndarray,
    groups: Sequence[Sequence[str]],
    room: float,
    cell: float,
) -> None:
    count = len(names)
    ends = (-0.5, count - 0.5)
    panel = Panel(sheet, room, 10, cell * count, cell * count, ends, ends[::-1])
    for (j, k), value in np.ndenumerate(values):
        colour = colour_of(float(value) if np.isfinite(value) else 0.0, "Blues")
        h, v = panel.left + k * cell, panel.top + j * cell
        sheet.add("rect", x=h, y=v, width=cell + 0.3, height=cell + 0.3, fill=colour)
        if count <= NUMBERS_UP_TO:
            written = up_to_one(value, f"{value:.2f}").split(" − ") if j != k else ["1"]
            for line, part in enumerate(written):
                words = part + ("−" if line < len(written) - 1 else "")
                place = v + cell / 2 + 4 + 12 * (line - (len(written) - 1) / 2)
                sheet.text(h + cell / 2, place, words, anchor="middle", size=SMALL,
                           colour="white" if value > 0.6 else "black")  # fmt: skip
    labels = [(float(k), label(name)) for k, name in enumerate(names)]
    panel.ticks_across(labels, turned=True)
    panel.ticks_up(labels, size=TEXT)
    for number, group in enumerate(groups):
        where = [names.index(term) for term in group if term in names]
        colour = COLOURS[(number + 1) % len(COLOURS)]
        for j in where:
            for k in where:
                h, v = panel.left + (k + 0.04) * cell, panel.top + (j + 0.04) * cell
                sheet.add("rect", x=h, y=v, width=0.92 * cell, height=0.92 * cell, fill="none",
                          stroke=colour, stroke_width=2.6)  # fmt: skip
    left, tall = panel.right + 18, panel.height
    sheet.bar(left, panel.top, 14.0, tall, "Blues")
    for share in (0.0, 0.5, 1.0):
        sheet.text(left + 19, panel.bottom - share * tall + 4, f"{share:g}", size=SMALL)
    middle = panel.top + tall / 2
    sheet.text(left + 62, middle, "|⟨Aⱼ, Aₖ⟩|", anchor="middle", turn=-90)


def regularisation_path(screening: Mapping[str, Any]) -> str:
    """Coefficients of the normalised columns along the penalty λ."""
    path = screening.get("path") or {}
    alphas = np.array(path.get("lambda", ()), dtype=float)
    curves = {str(n): np.array(c, dtype=float) for n, c in (path.get("coefficients") or {}).items()}
    keep = alphas > 0
    if keep.sum() < 2 or not curves:
        return '<p class="skipped">No picture: the report holds no regularisation path.</p>'
    chosen = screening.get("lambda")
    entered = [name for name, values in curves.items() if np.any(values != 0)]
    alt = (
        "Regularisation path: coefficients against the penalty. Terms that enter: "
        f"{', '.join(map(plain, entered)) or 'none'}."
    )
    if _number(chosen):
        alt += f" The penalty used is {chosen:.2g}."
    return picture(lambda figure: _draw_path(figure, alphas, curves, keep, chosen), alt, (7.6, 4.2))


def _draw_path(
    figure: Figure,
    alphas: np.ndarray,
    curves: Mapping[str, np.ndarray],
    keep: np.ndarray,
    chosen: Any,
) -> None:
    axes = figure.add_subplot()
    # Paths are linear in λ between their knots, hence curved on this axis.
    dense = np.geomspace(alphas[keep].min(), alphas[keep].max(), 400)
    order = np.argsort(alphas)
    for number, (name, values) in enumerate(curves.items()):
        style = (
            LINES[(number // len(COLOURS)) % len(LINES)]
            if len(curves) > len(COLOURS)
            else LINES[number % len(LINES)]
        )
        axes.plot(
            dense,
            np.interp(dense, alphas[order], values[order]),
            linestyle=style,
            color=COLOURS[number % len(COLOURS)],
            label=label(name),
        )
    axes.axhline(0, color="#999999", linewidth=0.7)
    axes.set_xscale("log")
    high = alphas[keep].max()
    low = max(alphas[keep].min(), high * WIDEST)
    if _number(chosen) and chosen > 0:
        axes.axvline(chosen, color="black", linestyle="--", linewidth=1.2)
        axes.annotate(
            f"λ = {chosen:.2g}",
            (chosen, 1.0),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="bottom",
        )
        low, high = min(low, chosen / 3), max(high, chosen)
    axes.set_xlim(high * 1.3, low / 1.3)
    decades(axes.xaxis)
    axes.set_xlabel("penalty λ (weaker to the right)")
    axes.set_ylabel("coefficient of the normalised column")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


def frequencies(screening: Mapping[str, Any]) -> str:
    """How often each term is selected over the bootstrap replicates."""
    found = {str(n): v for n, v in (screening.get("frequencies") or {}).items() if _number(v)}
    if not found:
        return '<p class="skipped">No picture: the report holds no bootstrap frequencies.</p>'
    chosen = set(screening.get("support") or ())
    alt = "Share of bootstrap replicates that select each term. " + " ".join(
        f"{plain(n)}: {v:.0%}." for n, v in found.items()
    )
    return picture(
        lambda figure: _draw_frequencies(figure, found, chosen),
        alt,
        (7.0, 0.95 + 0.36 * len(found)),
    )


def _draw_frequencies(figure: Figure, found: Mapping[str, float], chosen: set[str]) -> None:
    axes = figure.add_subplot()
    for row, (name, share) in enumerate(found.items()):
        kept = name in chosen
        axes.barh(
            row,
            share,
            height=0.62,
            color="#00598c" if kept else "white",
            edgecolor="#00598c",
            hatch=None if kept else "////",
        )
        axes.text(
            share + 0.015,
            row,
            f"{share:.0%}" + (", selected" if kept else ""),
            va="center",
            fontsize=9,
        )
    axes.set_yticks(range(len(found)), [label(name) for name in found])
    axes.set_ylim(len(found) - 0.45, -0.55)
    axes.set_xlim(0, 1.25)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.set_xlabel("selected in this share of the bootstrap replicates")


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
