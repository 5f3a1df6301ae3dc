# SPDX-License-Identifier: MIT
"""The page of `cffem bench sensors`, from what was measured and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.sensors.sensor_families import FAMILIES

PICTURE = "bench_sensors.png"
CHOICES = (
    "What was chosen after looks at other seeds: noise, sensors or true coefficients of Darcy, "
    "Gray–Scott, the cylinder and Boussinesq; one gate of the selection, loosened after "
    "abstentions; the rank tolerance of the alias group of one mode; the unit of time, factors "
    "included and set-up left out; that profile intervals are the ones that count, after those of "
    "first order had held 89 % of the truths of the cylinder in twelve seeds and profiles all; "
    "that a fit which ends backward in time is begun again with the other sign (one of sixty fits "
    "of Burgers' equation), and one whose steps are used up goes on (one of twelve of Gray–Scott); "
    "that steps are measured in shares of the coefficients (Gray–Scott and seeds 1 and 2 of all "
    "families); that a term costs no less than 6.63 in the criterion, after log 24 had let terms "
    "through in two of ten fits of elasticity. The seeds of this page were not looked at before.",
    "",
    "Families may be run in several commands with `--add`, the last of which writes the page; the "
    "unit of time of each is measured beside it.",
    "",
    "Ten seeds of four coefficients that depend on each other scatter: a share of 0.85 in one "
    "family is no surprise where 0.95 is true. Over more seeds first-order intervals held 97 % of "
    "240 (heat with reaction, 60 seeds, 98 % exact sets), 95 % of 240 (Burgers) and 93.5 % of 200 "
    "(thermometers, 40 seeds).",
)


def write_page(record: Mapping[str, Any], folder: Path) -> Path:
    """Write the page and its picture."""
    runs = record["runs"]
    names = list(dict.fromkeys(r["family"] for r in runs))
    draw(runs, names, folder / PICTURE)
    lines = [
        "# Few sensors",
        "",
        "`cffem bench sensors`. For every family and seed sensors are "
        "placed at random, read with noise, and the coefficients of all candidate terms are "
        "calibrated by solving the model again. *Exact*: the selected terms are those that are "
        "there. *Believed*: the selection passes its own gates; one that is not says why. "
        "*Confidently wrong*: believed and not exact. Solves count those of the fit with all "
        "deletions fitted again, which ends where it is clear that Δχ² is above 100; time is in "
        "units of one factual solve and holds tangent sweeps, bootstrap aside. *Profile*: "
        "intervals that follow Δχ² with the others fitted again, as a study reports them; *first "
        "order*: from the derivative at the fit alone, which is too narrow where the model is "
        "strongly nonlinear.",
        "",
        *CHOICES,
        "",
        f"![Coverage and exact sets by family]({PICTURE})",
        "",
        "| family | profile intervals that hold the truth | first order | exact | believed | "
        "confidently wrong | solves (median) | time (median) | χ² per degree (median) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in names:
        mine = [r for r in runs if r["family"] == name]
        held, known = sum(r["profiled"] for r in mine), sum(r["intervals"] for r in mine)
        first = sum(r["covered"] for r in mine)
        wrong = sum(r["believed"] and not r["exact"] for r in mine)
        cost = np.median([r["seconds"] / max(r["unit"], 1e-9) for r in mine])
        lines.append(
            f"| {name} | {held} of {known} | {first} | "
            f"{sum(r['exact'] for r in mine)} of {len(mine)} | "
            f"{sum(r['believed'] for r in mine)} | {wrong} | "
            f"{np.median([r['solves'] for r in mine]):.0f} | {cost:.0f} | "
            f"{np.median([r['chi2'] for r in mine]):.2f} |"
        )
    missing = [f.name for f in FAMILIES if f.name not in names]
    if missing:
        lines += ["", f"Not measured here: {'; '.join(missing)}."]
    lines += ["", "## Goals", "", "| figure | value | wanted | |", "|---|---|---|---|"]
    for name, figure in record["figures"].items():
        mark = "" if figure["passed"] else "**missed**"
        lines.append(f"| {name} | {figure['value']:.4g} | {figure['wanted']} | {mark} |")
    lines += ["", "## Alias groups by construction", "", "| case | found | |", "|---|---|---|"]
    for one in record["aliases"]:
        found = "; ".join(one["found"])
        lines.append(f"| {one['case']} | {found} | {'' if one['right'] else '**wrong**'} |")
    lines += peers_lines(record["peers"])
    lines += doubts(runs)
    machine = ", ".join(f"{key} {value}" for key, value in record["machine"].items())
    lines += ["", f"Measured in {record['minutes']:.0f} minutes ({machine}).", ""]
    path = folder / "bench_sensors.md"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def peers_lines(peers: Any) -> list[str]:
    """What regression makes of the same sensors."""
    lines = [
        "",
        "## Regression on the same sensors",
        "",
        "Weak regression sees scattered points; PySINDy sees what thin-plate splines make of them "
        "on a grid, and the best of 25 thresholds counts, which no user can know.",
        "",
        "| family | who | result |",
        "|---|---|---|",
    ]
    from benchmarks.sensors.sensor_peers import said

    return lines + [f"| {p['family']} | {p['who']} | {said(p)} |" for p in peers]


def doubts(runs: Any) -> list[str]:
    """Why selections were not believed, by how often."""
    counts: dict[str, int] = {}
    for run in runs:
        for reason in run["reasons"]:
            kind = (
                "a term is selected in too few bootstrap replicates"
                if "selected in only" in reason
                else "a term that was left out would move others"
                if "could be as large" in reason
                else "a term that was left out is in many bootstrap replicates"
                if "is not selected, but" in reason
                else "the residuals are not what noise leaves"
                if "residuals" in reason
                else "only combinations are identified"
                if "identifiable" in reason
                else reason
            )
            counts[kind] = counts.get(kind, 0) + 1
    lines = ["", "## Why selections were not believed", "", "| reason | times |", "|---|---|"]
    return lines + [f"| {kind} | {n} |" for kind, n in sorted(counts.items(), key=lambda p: -p[1])]


def draw(runs: Any, names: list[str], path: Path) -> None:
    """Coverage and exact sets by family."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 0.42 * len(names) + 1.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    rows = np.arange(len(names))[::-1]
    for row, name in zip(rows, names, strict=True):
        mine = [r for r in runs if r["family"] == name]
        share = sum(r["profiled"] for r in mine) / max(sum(r["intervals"] for r in mine), 1)
        left.plot(share, row, "o", color="#00598c")
        believed = sum(r["exact"] and r["believed"] for r in mine)
        exact = sum(r["exact"] for r in mine)
        right.barh(row, exact, color="#9cc3dd")
        right.barh(row, believed, color="#00598c")
    left.axvspan(0.90, 0.99, color="#e6e6e6", zorder=0)
    left.set_xlim(0.6, 1.02)
    left.set_yticks(rows, names)
    left.set_xlabel("share of 95 % profile intervals that hold the truth")
    right.set_xlabel("exact sets; dark: also believed")
    figure.savefig(path, dpi=110)
