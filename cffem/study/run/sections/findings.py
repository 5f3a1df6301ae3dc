# SPDX-License-Identifier: MIT
"""What all stations of a run have found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cffem.study.report.scores.profile_report import ProfileReport
from cffem.study.run.facts import DeletionFacts, FactualFact
from cffem.study.run.identified_facts import (
    AdjointFacts,
    ConstraintFacts,
    DesignFacts,
    LimitFact,
    LinearisedFact,
    MisfitFacts,
    ObservableBoundFact,
    ProposalFact,
    ResidualFact,
    ScreeningFacts,
    SpreadFacts,
)

if TYPE_CHECKING:
    pass


Facts = dict[str, Any]


@dataclass
class Findings:
    """The facts of all stations."""

    coefficients: Mapping[str, float]
    constraint: ConstraintFacts = field(default_factory=dict)
    design: DesignFacts = field(default_factory=DesignFacts)
    screening: ScreeningFacts = field(default_factory=dict)
    factual: Mapping[str, FactualFact] = field(default_factory=dict)
    deletions: DeletionFacts = field(default_factory=dict)
    linearised: Mapping[str, LinearisedFact] = field(default_factory=dict)
    residuals: Mapping[str, Mapping[str, ResidualFact]] = field(default_factory=dict)
    profiles: Mapping[str, list[ProfileReport]] = field(default_factory=dict)
    adjoints: AdjointFacts = field(default_factory=dict)
    observable_bounds: Mapping[str, Mapping[str, Mapping[str, ObservableBoundFact]]] = field(
        default_factory=dict
    )
    spreads: SpreadFacts = field(default_factory=dict)
    misfits: MisfitFacts = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, LimitFact]] = field(default_factory=dict)
    proposal: ProposalFact | None = None
    calibration: Facts | None = None
    sensitivities: Facts = field(default_factory=dict)
    reading_bars: Facts = field(default_factory=dict)
    next_sensor: Facts | None = None
