# SPDX-License-Identifier: MIT
"""docs/identification.md from the records of `cffem bench screening`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.screening.further_bench import is_right
from benchmarks.screening.identification_bench import Record
from benchmarks.screening.identification_data import families

INTRODUCTION = """# What the screen identifies

All data are made in the project: spectral or exact solutions of each family, with white noise of
the given share of the root mean square of every field. Every run is one equation, screened by
`cf.Screening()` with no option set. It is *exact* when the returned support is the true one and
*believed* when `reliable_` says so.

What `reliable_` says: the terms of the support are needed and no other support of this library does
as well, their coefficients lie in `intervals_`, and every other term has a coefficient within its
`limits_`. It does not say that nothing else is there; `hidden_share_` and `summary()` tell how much
of the anchor a term that was not found could carry. So a believed run is *confidently wrong* when
something it says of terms is wrong: a returned term is false, or a true term that was not found
lies outside its limits. A believed run that is right in all it says, but lacks a true term that
hides within its limits, is *incomplete*. The strict count, in which `reliable_` would have to mean
that the support is the whole truth, is the sum of both and has goals of its own. *Coverage* counts
the 95 % intervals that hold the true coefficient, over exact runs and over believed ones whose
every term is true; *limits* counts the intervals in `limits_` of believed runs that hold the true
coefficient, zero for terms that are not there. Seconds are processor time of design and screen,
median. Noise-free data are the same for every seed and run once. The gates were developed on seeds
100 to 132, and two of them after a look at seeds 0 to 4; the seeds shown here are 40 to 44. What an
added term may improve by chance, and the weights of few readings, were settled on the runs in few
frames. The gate for a left-out term that would improve the fit by more than chance was settled
on seeds 300 to 339 and tried on seeds 500 to 539 of Allen–Cahn, where none of 120 runs was believed
without being exact (8 of 80 before on seeds 300 to 339).
"""
THIN = """
## Below the detection limit

A true term that is far smaller than the noise cannot be found. Fronts of Allen–Cahn with diffusion
1e-4 are so thin that noise hides it: in the rows it carries 0.3 % of the anchor. At 10 % noise test
functions a quarter as wide in space show it by more than 3.4 standard errors in seven of ten draws;
narrower ones hold more noise than signal. At 50 % and more no width that was tried does (from 3 to
24 points in space, 16 to 30 in time), and neither do instruments from the denoised field: their
estimate of 1e-4 is 0 ± 0.7e-4. `limits_` of u_xx holds the true coefficient.

Such supports are not believed. Without a second derivative in an equation fronts steepen until such
a term stops them, however small its coefficient; rows average over the width of their test
functions and hardly see it. What shows it is that the second derivative grows beside the anchor
when test functions become half as wide: by up to 1.2 where the data are resolved, by 1.6 to 2.0
here. The gate was settled on seeds 600 to 602 and first tried on seeds 610 to 613. Its price: at
10 % noise and more equations that are pointwise or first order in truth are not believed either
where fronts form (u_t = 5u − 5u³ alone: none of 12) or steep profiles move, if the library offers a
second derivative.

A matrix without fields has no such sign: a true column below the noise is left out, the screen is
believed, and `limits_`, `hidden_share_` and `summary()` say up to which size it may be there.
"""
PEER = """
## PySINDy beside it

The weak form of PySINDy 2.1 on the same noisy data, with 300 test functions and, where products are
not needed, a library without them. Its threshold is chosen from forty by the truth: a run is exact
if one of them gives the true support. No user can choose so well, and it has no verdict of its own.
It cannot express waves of second order in time, equations in conservation form beyond its library,
or flows without their pressure (–).
"""


Figures = Mapping[str, Mapping[str, Any]]


def page(records: Sequence[Record], figures: Figures, commands: Sequence[tuple[str, str]]) -> str:
    """The whole page.

    Args:
        records: of all runs.
        figures: every goal by name with its value and whether it was met.
        commands: how the records were made, and on which state of the code.
    """
    hidden = {name for name, family in families().items() if family.limit_of_detection}
    main = [r for r in records if r.section == "families" and r.case not in hidden]
    thin = [r for r in records if r.section == "families" and r.case in hidden]
    parts = [INTRODUCTION, made_by(commands), goals(figures), family_tables(main)]
    parts += [summary([*main, *thin])]
    parts += [THIN, noise_table(thin)] if thin else []
    peer = [r for r in records if r.section == "peer"]
    parts += [PEER, peer_table(main, peer)] if peer else []
    parts += other_sections(records)
    parts += [f"\n## {title}\n\n{text}\n{made(part)}" for section, title, text, made in FURTHER
              if (part := [r for r in records if r.section == section])]  # fmt: skip
    return "\n".join(parts).rstrip() + "\n"


def made_by(commands: Sequence[tuple[str, str]]) -> str:
    """How the page was made."""
    lines = [f"- `{command}` ({state})" for command, state in commands]
    return "Made by:\n\n" + "\n".join(lines) + "\n"


def goals(figures: Figures) -> str:
    """Which goals were missed, by name, and how many were met."""
    missed = {name: figure for name, figure in figures.items() if not figure["passed"]}
    text = f"{len(figures) - len(missed)} of {len(figures)} goals met. "
    if not missed:
        return "\n## Goals\n\n" + text + "None missed.\n"
    rows = ([name, f"{f['value']:.4g}", f["wanted"]] for name, f in missed.items())
    return "\n## Goals\n\n" + text + "Missed:\n\n" + table(["goal", "measured", "wanted"], rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def in_order(values: Iterable[str]) -> list[str]:
    """Distinct values in the order in which they come."""
    return list(dict.fromkeys(values))


def ratio(part: int, whole: int) -> str:
    """part/whole, or a dash of nothing."""
    return f"{part / whole:.0%}" if whole else "–"


def counted(runs: Sequence[Record]) -> list[str]:
    """The cells that every table of runs has."""
    return [
        f"{sum(r.exact for r in runs)}/{len(runs)}",
        str(sum(r.believed for r in runs)),
        str(sum(r.wrong for r in runs)),
        str(sum(r.incomplete for r in runs)),
        ratio(sum(r.covered for r in runs), sum(r.intervals for r in runs)),
        ratio(sum(r.within for r in runs), sum(r.limits for r in runs)),
        f"{np.median([r.seconds for r in runs]):.2f}",
    ]


HEAD = [
    "exact",
    "believed",
    "confidently wrong",
    "incomplete",
    "coverage",
    "limits",
    "seconds",
]


def family_tables(runs: Sequence[Record]) -> str:
    """One row per family and noise level."""
    rows = []
    for case in in_order(r.case for r in runs):
        for noise in sorted({r.noise for r in runs if r.case == case}):
            part = [r for r in runs if r.case == case and r.noise == noise]
            rows.append([case, f"{noise:.0%}", *counted(part)])
    return "\n## Families\n\n" + table(["family", "noise", *HEAD], rows)


def summary(runs: Sequence[Record]) -> str:
    """All families together, and the worst of them."""
    if not runs:
        return ""
    cases = in_order(r.case for r in runs)
    strict = [r for r in runs if r.believed and not r.exact]
    shares = {case: [r in strict for r in runs if r.case == case] for case in cases}
    worst = max(cases, key=lambda case: float(np.mean(shares[case])))
    covered, intervals = sum(r.covered for r in runs), sum(r.intervals for r in runs)
    rows = [
        ["runs", str(len(runs)), ""],
        [
            "exact",
            f"{sum(r.exact for r in runs)} ({ratio(sum(r.exact for r in runs), len(runs))})",
            "",
        ],
        ["believed", str(sum(r.believed for r in runs)), ""],
        [
            "confidently wrong",
            f"{sum(r.wrong for r in runs)} ({np.mean([r.wrong for r in runs]):.1%})",
            "≤ 1 %",
        ],
        [
            "believed without being exact (strict)",
            f"{len(strict)} ({len(strict) / len(runs):.1%})",
            "≤ 1 %",
        ],
        [f"worst family ({worst}, strict)", f"{np.mean(shares[worst]):.1%}", "≤ 5 %"],
        ["coverage of intervals", f"{covered / max(intervals, 1):.1%} of {intervals}", "≥ 93 %"],
    ]
    title = "\n## All families\n\nThin fronts, of which the next section tells, are among them.\n\n"
    return title + table(["", "measured", "goal"], rows)


def noise_table(runs: Sequence[Record]) -> str:
    """One row per noise level."""
    noises = sorted({r.noise for r in runs})
    return "\n" + table(
        ["noise", *HEAD],
        ([f"{n:.0%}", *counted([r for r in runs if r.noise == n])] for n in noises),
    )


def peer_table(ours: Sequence[Record], peer: Sequence[Record]) -> str:
    """Exact supports of both tools, by family and noise."""
    noises = sorted({r.noise for r in peer})

    def cell(runs: Sequence[Record], case: str, noise: float) -> str:
        part = [r for r in runs if r.case == case and r.noise == noise]
        return f"{sum(r.exact for r in part)}/{len(part)}" if part else "–"

    def both(case: str, noise: float) -> str:
        return f"{cell(ours, case, noise)} · {cell(peer, case, noise)}"

    cases = in_order(r.case for r in ours)
    rows = [
        [case, *(both(case, n) for n in noises), *seconds_of(ours, peer, case)] for case in cases
    ]
    return "\n" + table(["exact: cffem · PySINDy", *(f"{n:.0%}" for n in noises), "seconds"], rows)


def seconds_of(ours: Sequence[Record], peer: Sequence[Record], case: str) -> list[str]:
    """Median processor times of both tools."""
    times = [[r.seconds for r in runs if r.case == case] for runs in (ours, peer)]
    return [" · ".join(f"{np.median(t):.2f}" if t else "–" for t in times)]


def other_sections(records: Sequence[Record]) -> list[str]:
    """Missing terms, random fields and flows."""
    found: list[str] = []
    lacking = [r for r in records if r.section == "lacking"]
    if lacking:
        believed = sum(r.believed for r in lacking)
        found.append(
            "\n## A true term is missing from the library\n\nEach of the first three true terms "
            "of every equation left out, "
            f"at 10 % and 50 % noise: {believed} of {len(lacking)} runs believed (goal: 0).\n"
        )
    sections: list[tuple[str, str, Callable[[Record], bool], str]] = [
        (
            "null",
            "Random fields that follow no equation",
            lambda r: r.believed,
            "believed (goal: at most 1 of 20)",
        ),
        (
            "flow",
            "Incompressible flow from its velocity alone, 20 % noise",
            lambda r: r.exact,
            "exact (goal: all)",
        ),
    ]
    for section, title, flag, label in sections:
        runs = [r for r in records if r.section == section]
        if runs:
            rows = []
            for case in in_order(r.case for r in runs):
                part = [r for r in runs if r.case == case]
                errors = [r.error for r in part if r.error is not None]
                largest = f"{max(errors):.3f}" if errors else "–"
                rows.append(
                    [
                        case,
                        f"{sum(map(flag, part))} of {len(part)}",
                        largest,
                        f"{np.median([r.seconds for r in part]):.2f}",
                    ]
                )
            found.append(
                f"\n## {title}\n\n"
                + table(["", label, "largest error of a coefficient", "seconds"], rows)
            )
    return found


def frame_table(runs: Sequence[Record]) -> str:
    """One row per equation and kind of times."""
    rows = []
    for case in in_order(r.case for r in runs):
        part = [r for r in runs if r.case == case]
        errors = [r.error for r in part if r.error is not None]
        rows.append(
            [
                case,
                f"{sum(map(is_right, part))}/{len(part)}",
                str(sum(r.believed for r in part)),
                str(sum(r.wrong for r in part)),
                ratio(sum(r.covered for r in part), sum(r.intervals for r in part)),
                f"{max(errors):.1e}" if errors else "–",
            ]
        )
    head = ["", "right", "believed", "confidently wrong", "coverage", "largest error"]
    return "\n" + table(head, rows)


def stranger_table(runs: Sequence[Record]) -> str:
    """One row per family and noise level."""
    return family_tables(runs).removeprefix("\n## Families\n")


FURTHER: list[tuple[str, str, str, Callable[[Sequence[Record]], str]]] = [
    (
        "frames",
        "Noise-free data in few frames",
        "5, 6, 7, 8, 10 and 12 frames at equal, growing and (four draws) random times. *Right* is "
        "exact, believed, every coefficient within 0.5 % and in its interval (goal: all).",
        frame_table,
    ),
    (
        "drawn",
        "Few frames of other equations",
        "The same with equations on which no rule was made; coefficients, data and times are drawn "
        "anew for every run, with a seed that was not looked at before (goal: all right). A "
        "velocity of 9.4e-4 was drawn among them, 0.15 % of the anchor; it is left out, within "
        "its limits.",
        frame_table,
    ),
    (
        "strangers",
        "Families on which no gate was developed",
        "Looked at once before, on noise of seed 100, to see that the data are sound.",
        stranger_table,
    ),
]
