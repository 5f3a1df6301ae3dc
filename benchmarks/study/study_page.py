# SPDX-License-Identifier: MIT
"""The page and the picture of `cffem bench study`."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.study.study_problems import PROBLEMS

INTRODUCTION = (
    "Written by `cffem bench study`. Each study is a file in TOML (`benchmarks/study/"
    "study_problems.py`) with all options at their defaults. *By hand*: the factual problem and "
    "every deleted one, solved one after the other with matrices that are assembled once, and no "
    "error bars. *Study*: everything a user gets, from set-up to the page of the report. Seconds "
    "are of the processor, in one process each, with forms that are compiled before. *Decided*: "
    "of the verdicts (by field, where each is judged by itself) whose score on a finer "
    "discretisation is at least 5 % away from ε, and of deletions without a solution. *Wrong*: "
    "against that finer score. *Bars missed*: error bars that do not reach it. *Named*: the "
    "seconds that the study said it would take, before its first solve where that has time steps."
)


def page(result: Mapping[str, Any]) -> str:
    """The result as a page of text."""
    columns = (
        "study", "unknowns × steps", "terms", "decided", "wrong", "bars missed",
        "by hand", "study", "ratio", "named", "memory",
    )  # fmt: skip
    lines = ["# What a certified study costs", "", *textwrap.wrap(INTRODUCTION, 120), ""]
    if result["tiny"]:
        lines += ["These are tiny sizes, which only show that everything runs.", ""]
    if result.get("note"):
        lines += [*textwrap.wrap(result["note"], 120), ""]
    lines += ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for row in result["rows"]:
        if "failed" in row:
            lines.append(f"| {row['title']} | {row['failed']} did not end |" + " |" * 9)
            continue
        judged = "decidable" in row
        cells = [
            row["title"] + (", guaranteed" if row["guaranteed"] else ""),
            f"{row['unknowns']} × {row['steps'] or 1}",
            str(row["terms"]),
            f"{row['decided']}/{row['decidable']}" if judged else "–",
            str(len(row["wrong"])) if judged else "–",
            str(len(row["missed bars"])) if judged else "–",
            f"{row['hand']:.2f} s",
            f"{row['study']:.2f} s",
            f"{row['ratio']:.2f}",
            f"{row['price']:.2f} s" if row.get("price") else "–",
            f"{row['memory']:.2f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    measured = {row["name"] for row in result["rows"]}
    left = [problem.title for name, problem in PROBLEMS.items() if name not in measured]
    if left:
        lines += ["", *textwrap.wrap(f"Not measured in this run: {'; '.join(left)}.", 120)]
    lines += ["", "![Seconds of the studies beside those by hand](bench_study.png)", ""]
    lines += ["## Goals", "", "| goal | measured | wanted | |", "|---|---|---|---|"]
    lines += [
        f"| {goal['goal']} | {goal['value']:.3g} | {goal['wanted']} | "
        f"{'met' if goal['passed'] else '**missed**'} |"
        for goal in result["goals"]
    ]
    lines += ["", "## What is open", ""]
    notes = []
    for row in result["rows"]:
        for key, words in (
            ("far and open", "not decided"),
            ("wrong", "wrong"),
            ("missed bars", "beyond its bar"),
        ):
            if row.get(key):
                notes.append(f"- {row['title']}: {words}: {', '.join(row[key])}")
    notes += [
        f"- {row['title']}: its reference did not end, so its verdicts are compared with nothing"
        for row in result["rows"]
        if "failed" not in row and "decidable" not in row
    ]
    lines += notes or ["Nothing."]
    lines += ["", "## Where the time goes", "", "Seconds of each station by the clock.", ""]
    for row in result["rows"]:
        if "stations" in row:
            parts = sorted(row["stations"].items(), key=lambda pair: -pair[1])
            spent = ", ".join(f"{name} {value:.2f}" for name, value in parts if value >= 0.005)
            lines.append(f"- {row['title']}: {spent}")
    lines += ["", "## Machine", ""]
    lines += [f"- {key}: {value}" for key, value in result["machine"].items()]
    return "\n".join(lines) + "\n"


def picture(result: Mapping[str, Any], path: Path) -> None:
    """Bars of both sides, one pair for each study."""
    from matplotlib.figure import Figure

    rows = [row for row in result["rows"] if "failed" not in row]
    figure = Figure(figsize=(8, 0.8 + 0.4 * len(rows)), layout="constrained")
    axes = figure.subplots()
    places = range(len(rows))
    axes.barh([p - 0.2 for p in places], [r["hand"] for r in rows], 0.38, label="loop by hand")
    axes.barh([p + 0.2 for p in places], [r["study"] for r in rows], 0.38, label="study")
    for place, row in enumerate(rows):
        axes.text(row["study"] * 1.05, place + 0.2, f"{row['ratio']:.1f}×", va="center", size=8)
    axes.set_yticks(list(places), [row["name"] for row in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("processor seconds")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
