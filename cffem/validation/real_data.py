# SPDX-License-Identifier: MIT
"""Real fields: what a window of measured temperature lets one say about candidate terms, and what
it does not.

The paper's library u, u², u_x, u_y, Δu, |∇u|², 1, with wind advection where there is wind, is
screened on the weak design of the data. What is reported is an operator surrogate of one window at
one resolution: skill against the mean predictor on rows that were left out, design diagnostics,
stability under resampling, and the terms that stay unresolved. No law is claimed, whatever the
numbers are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from cffem.data.dataset import Dataset
from cffem.data.readers.plane import Plane
from cffem.data.readers.registry_data import DataUnavailable, registry_data
from cffem.design.design import Design
from cffem.screening.screening import Screening
from cffem.screening.skill import Skill, constant_column, held_out_skill
from cffem.symbols.coordinates import t
from cffem.symbols.operators import dt
from cffem.symbols.problem.library import Library

if TYPE_CHECKING:
    from mpi4py import MPI

    from cffem.symbols.fields import Field


# A term counts as selected if most resampled designs keep it and the model predicts most of the
# tendency. Both limits were chosen after a first look at the sea-surface temperatures of the demo,
# so what that demo shows does not test them.
LEAST_FREQUENCY = 0.5
LARGEST_ERROR = 0.5
CLAIM = (
    "These numbers describe an operator surrogate of one window of data at one resolution, within "
    "the library above. They are no "
    "evidence for a physical law, and a term that is unresolved here is neither needed nor "
    "unneeded in nature."
)


def temperature_library(T: Field, plane: Plane, wind: Field | None = None) -> Library:
    """The paper's candidates for ∂T/∂t on a part of the sphere, in metres and seconds.

    Args:
        T: the temperature field.
        plane: the map of the data.
        wind: a velocity field of the data, for v·∇T.

    Example:
        >>> import cffem as cf
        >>> temperature_library(cf.ScalarField("T"), Plane(55.0, 0.0)).names
        ('u', 'u^2', 'u_x', 'u_y', 'lap u', '|grad u|^2', '1')
    """
    terms = {
        "u": T,
        "u^2": T**2,
        "u_x": plane.east(T),
        "u_y": plane.north(T),
        "lap u": plane.lap(T),
        "|grad u|^2": plane.slope(T),
        "1": sp.S.One,
    }
    if wind is not None:
        terms["wind"] = plane.along(wind, T)
    return Library(anchor=dt(T), terms=terms)


@dataclass(frozen=True)
class TermFinding:
    """What is known about one term.

    Attributes:
        coefficient: the refitted coefficient, zero if the term is not selected.
        interval: its 95 % interval over resampled blocks.
        frequency: how often the Lasso keeps it when blocks are resampled.
        one_step: Δt · rms(α T[u]), the paper's one-step deletion score.
        status: "selected" or "unresolved".
        reason: why it is unresolved.
    """

    coefficient: float
    interval: tuple[float, float]
    frequency: float
    one_step: float
    status: str
    reason: str


@dataclass(frozen=True)
class RealDataFindings:
    """The report on a window of real data.

    Attributes:
        terms: by name.
        skill: on held-out rows.
        design: rows, effective rows, coherence, rank, alias groups and the condition of the
            selected columns.
        reliable: whether the selection passes all checks of the screen.
        reasons: why it does not.
        data: size, step, spacing, missing share and noise of the data.
    """

    terms: Mapping[str, TermFinding]
    skill: Skill
    design: Mapping[str, Any]
    reliable: bool
    reasons: tuple[str, ...]
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def selected(self) -> dict[str, float]:
        """Coefficients of the terms that the screen keeps."""
        return {name: found.coefficient for name, found in self.terms.items() if found.coefficient}

    @property
    def unresolved(self) -> tuple[str, ...]:
        """Terms about which nothing is said."""
        return tuple(name for name, found in self.terms.items() if found.status == "unresolved")

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words, for JSON."""
        return {
            "claim": CLAIM,
            "data": dict(self.data),
            "design": dict(self.design),
            "skill": {
                "rmse": self.skill.rmse,
                "baseline": self.skill.baseline,
                "skill": self.skill.value,
            },
            "stability": {"reliable": self.reliable, "reasons": list(self.reasons)},
            "terms": {name: vars(found) for name, found in self.terms.items()},
            "unresolved": list(self.unresolved),
        }

    def __str__(self) -> str:
        design = self.design
        lines = [
            "data: " + ", ".join(f"{key} {value}" for key, value in self.data.items()),
            f"design: {design['rows']} rows worth {design['effective_rows']:.0f} independent "
            "ones, coherence "
            f"{design['coherence']:.3f}, rank {design['rank']} of {len(self.terms)}",
            *(f"  {group}" for group in design["alias_groups"]),
            f"skill against the mean predictor, on left-out rows: {self.skill.value:.3f} "
            f"(relative error {self.skill.rmse:.3f} against {self.skill.baseline:.3f})",
            "stability: "
            + ("the selection passes every check" if self.reliable else "; ".join(self.reasons)),
            f"{'term':<12}{'coefficient':>14}{'95 % interval':>27}"
            f"{'frequency':>11}{'one step':>11}  status",
        ]
        for name, found in self.terms.items():
            interval = (
                f"[{found.interval[0]:.3e}, {found.interval[1]:.3e}]" if found.coefficient else ""
            )
            lines.append(
                f"{name:<12}{found.coefficient:>14.3e}{interval:>27}"
                f"{found.frequency:>11.2f}{found.one_step:>11.2e}  "
                f"{found.status}{': ' + found.reason if found.reason else ''}"
            )
        return "\n".join([*lines, CLAIM])


def examine(
    data: Dataset, library: Library, screening: Screening | None = None, source: Any = None
) -> RealDataFindings:
    """Screen a library on real data.

    Args:
        data: the data.
        library: candidate terms, with a constant among them.
        screening: how to screen (default: the Lasso with a recall-oriented penalty).
        source: what the rows come from if not the data themselves, such as the data as
            finite-element fields.
    """
    design = Design.from_fields(library, data if source is None else source, kind="weak")
    screen = (screening or Screening()).fit(design)
    support = [name for name, kept in zip(design.names, screen.support_, strict=True) if kept]
    skill = held_out_skill(design, support)
    reasons = tuple(screen.reasons_)
    steps = one_step_scores(design, screen.coef_, float(np.diff(data.coordinates[t]).mean()))
    terms = {}
    for k, name in enumerate(design.names):
        reason = unresolved_because(screen, k, skill)
        low, high = (float(v) for v in screen.intervals_[k])
        frequency, status = float(screen.frequencies_[k]), "unresolved" if reason else "selected"
        terms[name] = TermFinding(
            float(screen.coef_[k]), (low, high), frequency, steps[k], status, reason
        )
    found = {
        "rows": design.rows,
        "effective_rows": design.effective_rows,
        "coherence": design.coherence(),
        "rank": design.rank(),
        "alias_groups": [str(group) for group in design.alias_groups()],
        "selected_condition": float(design.selected_gram(support).condition) if support else None,
    }
    return RealDataFindings(terms, skill, found, bool(screen.reliable_), reasons, described(data))


def unavailable(comm: MPI.Comm, *names: str) -> str:
    """Why measured data of the registry cannot be had, the same words on all ranks; empty where
    they can; collective.

    Args:
        comm: the communicator; its first rank downloads what is not in the cache yet.
        names: of the data, see `cffem.data.readers.registry_data`.
    """
    problem = ""
    if comm.rank == 0:
        try:
            for name in names:
                registry_data(name)
        except DataUnavailable as error:
            problem = str(error)
    return comm.bcast(problem)


def unresolved_because(screen: Screening, index: int, skill: Skill) -> str:
    """Why nothing is said about a term; empty if something is."""
    low, high = screen.intervals_[index]
    frequency = float(screen.frequencies_[index])
    if not screen.support_[index]:
        return "the screen does not need it here"
    if not screen.reliable_:
        return screen.reasons_[0] if screen.reasons_ else "the selection is not reliable"
    if low <= 0.0 <= high:
        return "its interval contains zero"
    if frequency < LEAST_FREQUENCY:
        return f"it is kept in {frequency:.0%} of the resampled designs only"
    if skill.rmse > LARGEST_ERROR:
        return f"the selected terms miss {skill.rmse:.0%} of the tendency on left-out rows"
    return "" if skill.value > 0 else "the selected terms predict no better than the mean"


def one_step_scores(design: Design, coefficients: np.ndarray, step: float) -> list[float]:
    """Δt · rms(α_j T_j[u]), averages over test functions standing for values at points.

    A row divided by ∫φ, the row of the constant term, is an average; the test functions of a grid
    are all alike.
    """
    constant = constant_column(design)
    diagonal = np.diag(design.grams.total())[1:]
    scale = diagonal[constant] if constant is not None else math.nan
    return [
        float(step * abs(c) * math.sqrt(d / scale)) if c else 0.0
        for c, d in zip(coefficients, diagonal, strict=True)
    ]


def described(data: Dataset) -> dict[str, Any]:
    """Size, steps and gaps of the data in words."""
    steps = [float(np.diff(values).mean()) for values in data.coordinates.values()]
    missing = 0.0 if data.mask is None else float(data.mask.mean())
    found = data.notes.get("noise_sd")
    sizes = found if isinstance(found, Mapping) else {}
    noise = {name: float(f"{value:.2g}") for name, value in sizes.items()}
    return {
        "size": " × ".join(map(str, data.shape)),
        "spacing": " × ".join(f"{step / 1e3:.1f} km" for step in steps[:-1]),
        "time step": f"{steps[-1]:.0f} s",
        "missing": f"{missing:.0%}",
        "noise": noise,
    }
