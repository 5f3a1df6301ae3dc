# SPDX-License-Identifier: MIT
"""Profiles in reports: δ(ρ) of a term with error bars, its linearised slope and the gap theorem's
bound, in one picture.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.study.report.canvas import label, picture
from cffem.study.report.markup import details, figure, number, paragraph, skipped, table
from cffem.study.report.summary import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cffem.study.report.report import Report


@dataclass(frozen=True)
class ProfileReport:
    """ρ ↦ δ(ρ) of one term, whose coefficient becomes (1 − ρ) α, in one experiment.

    Attributes:
        term, experiment, field: what it is about; the field where each is judged by itself.
        observable: the observable whose change takes the place of δ; empty for the solution.
        rho, scores: the samples.
        margins: their error bars, None where there is none.
        certificates: of what kind these are.
        slope: dδ/dρ at ρ = 0.
        bounds: how far δ(ρ) is from ρ·slope at most, by the gap theorem with estimated constants,
            for the first samples.
        epsilon: the tolerance.
        relevant_from: the smallest sampled ρ whose score is above ε by more than its error bar.
        reach, beyond, reason: up to where there are solutions, before where they end, and why.
    """

    term: str
    experiment: str
    rho: tuple[float, ...]
    scores: tuple[float, ...]
    margins: tuple[float | None, ...]
    certificates: tuple[str | None, ...]
    slope: float | None
    bounds: tuple[float, ...]
    epsilon: float
    relevant_from: float | None
    reach: float
    beyond: float | None = None
    reason: str = ""
    field: str = ""
    observable: str = ""

    def to_plain(self) -> dict[str, object]:
        """As JSON's own types."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> ProfileReport:
        """What `to_plain` wrote."""
        known = {f.name for f in fields(cls)}
        given: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in plain.items() if k in known
        }
        return cls(**given)

    @property
    def sentence(self) -> str:
        """From which part on the term matters.

        Example:
            >>> ProfileReport(
            ...     "lap", "e", (0.5, 1.0), (0.1, 0.3), (0.01, 0.01), ("guaranteed",) * 2, 0.2, (),
            ...     0.2, 1.0, 1.0).sentence
            'lap matters from ρ = 1 on (a part of 100 % of its coefficient)'
        """
        what = f"the {self.observable} " if self.observable else ""
        field = f" for {self.field}" if self.field else ""
        if self.relevant_from is None:
            far = "" if self.beyond is None else f" up to ρ = {self.reach:.3g}, where solutions end"
            return f"no part of {self.term} is seen to matter{field}{far}" + (
                f" to the {self.observable}" if what else ""
            )
        share = f"a part of {100 * self.relevant_from:.3g} % of its coefficient"
        to = f" to the {self.observable}" if what else ""
        return f"{self.term} matters{to}{field} from ρ = {self.relevant_from:.3g} on ({share})"


def page_profiles(report: Report) -> str:
    """All profiles that were asked for, each with its picture and numbers."""
    section = report.sections["profiles"]
    if (empty := skipped(section)) is not None:
        return empty
    parts = []
    for each in (each for found in report.profiles.values() for each in found):
        caption = f"{plain(each.sentence)}. {LEGEND}"
        rows = [
            (f"{rho:.4g}", score, margin, kind or "none", _line(each, rho), bound)
            for rho, score, margin, kind, bound in zip(
                each.rho, each.scores, each.margins, each.certificates, _padded(each), strict=True
            )
        ]
        head = ("ρ", "δ(ρ)", "margin ±", "error bar", "ρ·slope", "gap theorem: ±")
        parts.append(figure(profile_picture(each), caption))
        end = (
            []
            if each.beyond is None
            else [
                paragraph(f"Solutions end before ρ = {number(each.beyond)}: {plain(each.reason)}")
            ]
        )
        title = f"Numbers of the profile of {plain(each.term)}"
        parts.append(details(title, *end, table("Profile", head, rows)))
    return "".join(parts)


LEGEND = (
    "Points: scores with error bars; line: the linearised slope; grey: the gap theorem's bound "
    "about it, with estimated constants; dashed: ε."
)


def _line(each: ProfileReport, rho: float) -> float | None:
    return None if each.slope is None else rho * each.slope


def _padded(each: ProfileReport) -> list[float | None]:
    return [*each.bounds, *[None] * (len(each.rho) - len(each.bounds))]


def profile_picture(each: ProfileReport) -> str:
    """δ(ρ) with bars, slope and bound."""
    alt = (
        f"Profile of {plain(each.term)}: "
        + " ".join(
            f"{score:.3g} at ρ = {rho:.3g}."
            for rho, score in zip(each.rho, each.scores, strict=True)
        )
        + f" ε = {each.epsilon:.3g}. {plain(each.sentence)}."
    )
    return picture(lambda fig: _draw(fig, each), alt, (7.6, 3.6))


def _draw(fig: Figure, each: ProfileReport) -> None:
    axes = fig.add_subplot()
    rho, scores = np.array([0.0, *each.rho]), np.array([0.0, *each.scores])
    bars = np.array([0.0, *(0.0 if m is None or not math.isfinite(m) else m for m in each.margins)])
    if each.slope is not None:
        axes.plot(rho, rho * each.slope, color="#00598c", linewidth=1.2, label="linearised")
        if each.bounds:
            count = len(each.bounds) + 1
            around = np.array([0.0, *each.bounds])
            middle = rho[:count] * each.slope
            axes.fill_between(
                rho[:count],
                np.maximum(middle - around, 0.0),
                middle + around,
                color="#bbbbbb",
                alpha=0.5,
                linewidth=0,
                label="gap theorem",
            )
    axes.errorbar(
        rho,
        scores,
        yerr=np.array([np.minimum(bars, scores), bars]),
        fmt="o-",
        color="#b34700",
        markersize=4,
        capsize=3,
        linewidth=1,
        label="δ(ρ)",
    )
    axes.axhline(each.epsilon, color="black", linestyle="--", linewidth=1)
    axes.annotate(f"ε = {each.epsilon:.3g}", (0.01, each.epsilon), va="bottom", fontsize=9)
    if each.relevant_from is not None:
        axes.axvline(each.relevant_from, color="#5a5a5a", linestyle=":", linewidth=1)
    top = float(max((scores + bars).max(), each.epsilon)) * 1.15
    axes.set_ylim(0, top)
    axes.set_xlim(0, 1.02)
    what = label(each.observable) if each.observable else "score δ"
    axes.set_ylabel(f"{what}(ρ)" + (f", {label(each.field)}" if each.field else ""))
    axes.set_xlabel(f"ρ, the part of {label(each.term)} that is taken away")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.legend(frameon=False, loc="upper left")
