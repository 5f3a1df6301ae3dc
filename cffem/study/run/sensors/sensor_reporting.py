# SPDX-License-Identifier: MIT
"""What a report says about sensors: the calibration, what sensors identify, and for each term
whether it is needed by the data, visible but not needed, or not visible.

A deletion is visible where δ^𝒪 with its error bar and with what the uncertainty of the coefficients
leaves open lies above a few standard deviations of what is measured. A term is needed where the
readings cannot be explained without it, however the others are fitted again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cffem.engine.calibration.term_selection import SETTINGS
from cffem.engine.response.sensitivities import SCALE
from cffem.study.run.identified_facts import AliasFact
from cffem.study.run.sensors.covariance_spread import ALL
from cffem.study.run.sensors.fit_choice import CALIBRATION
from cffem.symbols.problem.observations import Observation, Observations, PlacedReadings
from cffem.verdicts.decisions import IRRELEVANT, RELEVANT, decide

if TYPE_CHECKING:
    from cffem.study.run.running import Run
    from cffem.study.run.sections.findings import Findings

Facts = dict[str, Any]
NEEDED, SPARE, HIDDEN, OPEN = "needed", "visible but not needed", "not visible", "unresolved"
VISIBLE = "visible"
VISIBILITY = {RELEVANT: VISIBLE, IRRELEVANT: HIDDEN}
LEVEL = 0.05  # p-values below it speak for a term


@dataclass(frozen=True)
class SensorVerdict:
    """What sensors say of one term.

    Attributes:
        score: δ^𝒪 in standard deviations; None where it was not computed.
        margin: its error bar, the spread of the coefficients included.
        kind, method: of the error bar.
        largest, reading: the largest change of one reading, and which.
        visibility: "visible", "not visible" or "unresolved"; None without sensors.
        need: "needed", "visible but not needed", "not visible" or "unresolved"; None without
            readings.
        why: what stands behind both.
        delta_chi2, p_value: of the refit without the term.
        interval: of its coefficient.
    """

    score: float | None = None
    margin: float | None = None
    kind: str | None = None
    method: str = ""
    largest: float | None = None
    reading: str = ""
    visibility: str | None = None
    need: str | None = None
    why: str = ""
    delta_chi2: float | None = None
    p_value: float | None = None
    interval: tuple[float | None, float | None] | None = None

    def to_plain(self) -> Facts:
        """As JSON's own types."""
        return {**vars(self), "interval": None if self.interval is None else [*self.interval]}


class SensorReporting:
    """The parts of a report that are about sensors.

    Args:
        run: the run.
        found: what its stations found.
    """

    def __init__(self, run: Run, found: Findings):
        self.run, self.study, self.found = run, run.study, found
        self.fit = found.calibration
        self.designs = {n: d for n, d in found.sensitivities.items() if "skipped" not in d}
        if self.fit is not None:
            self.designs = {CALIBRATION: self.fit["sensitivity"]}

    @property
    def present(self) -> bool:
        """Whether the study has sensors."""
        return any(o is not None for o in self.study.observations.values())

    # Terms
    # ----------------------------------------------------------------------------------------------

    def groups(self) -> list[AliasFact]:
        """The alias groups of a calibration that leave verdicts open. Deletions do not depend on
        the scale of an equation, so that one that fixes ratios only has its verdicts.
        """
        if self.fit is None:
            return []
        groups: list[Facts] = self.fit["sensitivity"]["alias_groups"]
        return [
            AliasFact(
                tuple(group["terms"]),
                tuple(group["identified"]),
                tuple(group["latex"]),
                tuple(group["estimates"]),
                group["sentence"],
            )
            for group in groups
            if not str(group["name"]).startswith(SCALE)
        ]

    def term(self, name: str, kind: str) -> SensorVerdict:
        """What sensors say of one term."""
        if not self.present:
            return SensorVerdict()
        found = self._seen(name, kind)
        if self.fit is None:
            return found
        deletion = self.fit["deletions"].get(name, {})
        need, why = self._need(name, found.visibility)
        pair = self.fit["intervals"].get(name) or self.fit["all_candidates"]["intervals"].get(name)
        ends = None if pair is None else (finite(pair[0]), finite(pair[1]))
        return SensorVerdict(
            **{
                **vars(found),
                "need": need,
                "why": "; ".join(filter(None, [found.why, why])),
                "delta_chi2": deletion.get("delta_chi2"),
                "p_value": deletion.get("p_value"),
                "interval": ends,
            }
        )

    def _seen(self, name: str, kind: str) -> SensorVerdict:
        """δ^𝒪 with its error bar in the experiment where it is largest."""
        null = [d["null"][name] for d in self.designs.values() if name in d["null"]]
        if null and len(null) == len(self.designs):
            return SensorVerdict(visibility=HIDDEN, why=f"{null[0]}, so that no sensor feels it")
        each = [self._seen_in(experiment, name, kind) for experiment in self.run.models]
        known = [one for one in each if one.visibility is not None]
        if not known:
            return self._to_first_order(name)
        for wanted in (VISIBLE, OPEN, HIDDEN):
            mine = [one for one in known if one.visibility == wanted]
            if mine:
                return max(mine, key=lambda one: one.score or 0.0)
        return known[0]

    def _seen_in(self, experiment: str, name: str, kind: str) -> SensorVerdict:
        deletion = self.found.deletions[kind].get(experiment, {}).get(name)
        if deletion is None:
            return SensorVerdict()
        fact = deletion.fact
        if fact.readings is None:
            if not fact.solved and self.study.observations.get(experiment) is not None:
                return SensorVerdict(
                    visibility=OPEN, why=f"the problem without it has no solution: {fact.reason}"
                )
            return SensorVerdict()
        bar = self.found.reading_bars.get(experiment, {}).get(name, {"reason": "none was computed"})
        within = self.found.spreads.get(experiment, {}).get(ALL)
        spreads = {} if within is None else within.readings
        score, margin, spread = fact.readings["score"], bar.get("margin"), spreads.get(name, 0.0)
        threshold = self.study.calibration.visible
        whole = None if margin is None else margin + spread
        decision = decide(score, threshold, margin=whole) if whole is not None else None
        visibility = OPEN if decision is None else VISIBILITY.get(decision, OPEN)
        why = ""
        if margin is None:
            why = f"no error bar of what is measured: {bar['reason']}"
        elif visibility == OPEN:
            part = "the intervals of the coefficients" if spread > margin else "the discretisation"
            why = f"the error bar, most of it from {part}, reaches {threshold:g} deviations"
        return SensorVerdict(
            score,
            whole if whole is None or math.isfinite(whole) else None,
            bar.get("kind"),
            bar.get("method", ""),
            fact.readings["largest"],
            fact.readings["reading"],
            visibility,
            why=why,
        )

    def _to_first_order(self, name: str) -> SensorVerdict:
        """A term that is not in the selected model: what its coefficient in the fit of all
        candidates would change.
        """
        if self.fit is None or name not in self.fit["columns"]:
            return SensorVerdict()
        score = abs(self.fit["all_candidates"]["coefficients"][name]) * self.fit["columns"][name]
        seen = score > self.study.calibration.visible
        return SensorVerdict(
            score,
            kind="linearised",
            method="at its coefficient in the fit of all candidates, to first order",
            visibility=VISIBLE if seen else HIDDEN,
        )

    def _need(self, name: str, visibility: str | None) -> tuple[str, str]:
        """Whether the data need a term, and what stands behind it."""
        assert self.fit is not None
        deletion = self.fit["deletions"].get(name)
        if visibility == HIDDEN and self._is_null(name):
            return HIDDEN, ""
        if deletion is None:
            return OPEN, "its coefficient is given, not fitted"
        group = next((g for g in self.groups() if name in g.terms), None)
        if group is not None:
            return OPEN, group.sentence
        if deletion["failure"]:
            return OPEN, f"not fitted without it: {deletion['failure']}"
        selection = self.fit["selection"]
        if selection is None:
            needed = deletion["p_value"] < LEVEL
        else:
            needed, share = name in selection["support"], selection["frequencies"][name]
            doubtful = share < SETTINGS.kept if needed else share > SETTINGS.left_out
            if doubtful:
                return OPEN, f"selected in {share:.0%} of the bootstrap replicates"
        if self.fit["tests"]["misfit"]:
            return OPEN, self.fit["tests"]["misfit"]
        if needed:
            return NEEDED, ""
        return (HIDDEN if visibility == HIDDEN else SPARE), ""

    def _is_null(self, name: str) -> bool:
        return any(name in design["null"] for design in self.designs.values())

    def selected_words(self, name: str) -> str:
        """Why a term has no coefficient in a calibrated model."""
        selection = (self.fit or {}).get("selection")
        if selection is None or name not in selection["frequencies"]:
            return "not fitted"
        return (
            "not needed by the readings (selected in "
            f"{selection['frequencies'][name]:.0%} of the bootstrap replicates)"
        )

    # Sections
    # ----------------------------------------------------------------------------------------------

    def calibration(self, verdicts: Mapping[str, SensorVerdict]) -> Facts:
        """The section on the fit."""
        if self.fit is None:
            return {"skipped": self.study.fit_choice.why, "fit": self.study.fit_choice.kind}
        hidden = ("sensitivity", "columns")
        return {
            "fit": self.study.fit_choice.kind,
            "why": self.study.fit_choice.why,
            **{key: value for key, value in self.fit.items() if key not in hidden},
            "next": self.found.next_sensor,
        }

    def identifiability(self, regression: Mapping[str, Any]) -> Facts:
        """The section on what can be told: by rows of fields, and by sensors."""
        if not self.designs and "skipped" in regression:
            return {"skipped": str(regression["skipped"])}
        kept = ("rank", "columns", "names", "coherence", "alias_groups", "rows")
        rows = (
            dict(regression)
            if "skipped" in regression
            else {key: regression[key] for key in kept if key in regression}
        )
        if not self.designs:
            return {"regression": rows, "sensitivity": {"skipped": "the study has no sensors"}}
        first = next(iter(self.designs.values()))
        more = {"experiments": self.designs} if len(self.designs) > 1 else {}
        return {
            "regression": rows,
            "sensitivity": {**first, **more},
            "next": self.found.next_sensor,
        }

    def columns(self, verdicts: Mapping[str, SensorVerdict]) -> Facts:
        """The terms by what sensors say of them."""
        if not self.present:
            return {}
        return {
            "needed": [n for n, v in verdicts.items() if v.need == NEEDED],
            "visible_not_needed": [n for n, v in verdicts.items() if v.need == SPARE],
            "not_visible": [n for n, v in verdicts.items() if (v.need or v.visibility) == HIDDEN],
        }

    def observation_text(self) -> str | None:
        """What is observed, for the scope; None without sensors."""
        if not self.present:
            return None
        said = {
            name: spoken(observation) if observation is not None else "the whole field"
            for name, observation in self.study.observations.items()
        }
        if len(said) == 1 or len(set(said.values())) == 1:
            return next(iter(said.values()))
        return "; ".join(f"{words} in {name}" for name, words in said.items())


def spoken(observation: Observation) -> str:
    """An observation in words.

    Example:
        >>> import cffem as cf
        >>> spoken(cf.Sensors([0.2, 0.4], [cf.ScalarField("u")], noise=0.1))
        'Sensors(2 points, u, all times, noise 0.1)'
    """
    if isinstance(observation, Observations):
        return " and ".join(spoken(part) for part in observation.parts)
    if not isinstance(observation, PlacedReadings):
        return (
            repr(observation)
            if "object at" not in repr(observation)
            else type(observation).__name__
        )
    placed = observation.placed
    what = ", ".join(dict.fromkeys(map(str, placed.channels)))
    count = len(set(placed.sensors))
    return f"{len(placed)} readings of {what} by {count} sensor{'s' * (count > 1)}"


def finite(value: float | None) -> float | None:
    """A number, None where it is infinite."""
    return None if value is None or not math.isfinite(value) else float(value)


def lists(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """All terms of some groups."""
    return sorted({term for group in groups for term in group["terms"]})
