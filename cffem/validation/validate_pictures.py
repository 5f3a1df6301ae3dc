# SPDX-License-Identifier: MIT
"""Pictures of `cffem validate`: the paper's synthetic panels with our figures beside them,
the gap, reversal and error bars.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cffem.validation.validate_board import Board

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


PAPER, OURS, FINITE = "#9aa5b1", "#1f5fa8", "#d1622b"
DPI = 90


def draw_pictures(boards: Sequence[Board], folder: Path) -> dict[str, str]:
    """Draw what these cases have data for.

    Returns:
        Captions by file name.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    data = {board.case: board for board in boards}
    scalar = [board for board in boards if "design" in board.pictures]
    captions = {}

    def save(figure: Figure, name: str, caption: str) -> None:
        figure.savefig(folder / name, dpi=DPI)
        plt.close(figure)
        captions[name] = caption

    if scalar:
        save(
            design_panel(plt, scalar),
            "design.png",
            "Synthetic design diagnostics: the paper's figures and ours.",
        )
        caption = (
            "Synthetic operator relevance: the paper's one-step deletion scores, ours, and the "
            "finite deletion scores."
        )
        save(relevance_panel(plt, scalar), "relevance.png", caption)
    if "gap" in data or "reversal" in data:
        save(
            gap_panel(plt, data),
            "gap.png",
            "Left: the deletion branch of the gap case within the theorem's band. Right: rank "
            "reversal.",
        )
    if "pruning" in data:
        save(
            pruning_panel(plt, data["pruning"].pictures["pruning"]),
            "pruning.png",
            "Computed scores with error bars against true scores.",
        )
    return captions


def design_panel(plt: ModuleType, boards: Sequence[Board]) -> Figure:
    """Coherence, λ_min and condition number per case."""
    figure, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
    titles = {
        "coherence": r"coherence $\mu(A)$",
        "smallest": r"median $\lambda_{\min}$",
        "condition": "median condition number",
    }
    place = np.arange(len(boards))
    for axis, (key, title) in zip(axes, titles.items(), strict=True):
        values = np.array([board.pictures["design"][key] for board in boards])
        axis.bar(place - 0.2, values[:, 0], 0.4, color=PAPER, label="paper")
        axis.bar(place + 0.2, values[:, 1], 0.4, color=OURS, label="cffem")
        axis.set_xticks(place, [board.case for board in boards], rotation=20, fontsize=8)
        axis.set_title(title, fontsize=10)
    _legend_above(figure, axes[0])
    return figure


def _legend_above(figure: Figure, axis: Axes) -> None:
    """One legend for all panels, where it covers nothing."""
    figure.legend(
        *axis.get_legend_handles_labels(),
        loc="outside upper center",
        ncols=3,
        fontsize=8,
        frameon=False,
    )


def _three_bars(
    axis: Axes, scores: Mapping[str, Sequence[float]], colors: Mapping[str, str]
) -> None:
    """Three scores of each term side by side, on a logarithmic scale."""
    place, values = np.arange(len(scores)), np.array(list(scores.values()))
    for column, (label, color) in enumerate(colors.items()):
        axis.bar(place + 0.27 * (column - 1), values[:, column], 0.27, color=color, label=label)
    axis.set_yscale("log")
    # Indices as indices: u_x is a derivative.
    axis.set_xticks(
        place,
        [re.sub(r"(\w)_(\w)", r"$\\mathregular{\1_\2}$", name) for name in scores],
        fontsize=8,
    )


def relevance_panel(plt: ModuleType, boards: Sequence[Board]) -> Figure:
    """Scores of all terms per case on a logarithmic scale."""
    figure, axes = plt.subplots(
        1,
        len(boards),
        figsize=(3 * len(boards), 3.4),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for axis, board in zip(axes[0], boards, strict=True):
        scores: Mapping[str, tuple[float, float, float]] = board.pictures["relevance"]
        _three_bars(
            axis,
            scores,
            {
                "one step, paper": PAPER,
                "one step, cffem": OURS,
                r"finite deletion $\delta_j$": FINITE,
            },
        )
        axis.set_ylim(1e-5, 1)
        axis.tick_params("x", rotation=45)
        axis.set_title(board.title, fontsize=9)
    axes[0][0].set_ylabel("score (no bar: zero)")
    _legend_above(figure, axes[0][0])
    return figure


def gap_panel(plt: ModuleType, data: Mapping[str, Board]) -> Figure:
    """The branch with its band, and the three scores of the reversal."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    if "gap" in data:
        gap = data["gap"].pictures["gap"]
        rho, bounds = np.r_[0.0, gap["rho"]], np.r_[0.0, gap["bounds"]]
        linear = rho * gap["linear"]
        left.fill_between(
            rho, linear - bounds, linear + bounds, color=PAPER, alpha=0.5, label="ρ‖L⁻¹g‖ ± ρ²M/2"
        )
        left.plot(rho, linear, "--", color=OURS, label="ρ‖L⁻¹g‖")
        left.plot(rho, np.r_[0.0, gap["distance"]], "o-", color=FINITE, ms=3, label="‖u(ρ) − u‖")
        left.set_xlabel("ρ, share of the term that is deleted")
        left.set_ylabel("distance from the factual solution")
        left.legend(fontsize=8)
    if "reversal" in data:
        colors = {
            r"residual contribution $C_j$": PAPER,
            r"deletion score $\delta_j$": FINITE,
            "linearised score": OURS,
        }
        _three_bars(right, data["reversal"].pictures["reversal"], colors)
        right.set_ylabel("score")
        right.legend(fontsize=8)
    return figure


def pruning_panel(plt: ModuleType, bars: Sequence[tuple[float, float, float]]) -> Figure:
    """(δ̂ − δ)/δ with its error bar, sorted by δ."""
    figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
    values = np.array(sorted(bars))
    place = np.arange(1, len(values) + 1)
    relative = values[:, 1] / values[:, 0] - 1
    axis.errorbar(
        place,
        relative,
        values[:, 2] / values[:, 0],
        fmt="o",
        ms=3,
        color=OURS,
        ecolor=PAPER,
        capsize=2,
    )
    axis.axhline(0, color=FINITE, lw=1)
    axis.set_xlabel("deletions, from the smallest true score to the largest")
    axis.set_ylabel("(computed − true)/true\nwith the error bar")
    axis.xaxis.set_major_locator(plt.MaxNLocator(integer=True))
    return figure
