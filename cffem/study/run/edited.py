# SPDX-License-Identifier: MIT
"""What of an earlier run still holds after a study was edited.

Facts and fields are kept by what they depend on. A solution depends on the equation, its
coefficients and its experiment; a score on the norm as well; an error bar on both, and it holds for
every tolerance, but a tolerance that it does not decide asks for a sharper one. So another
tolerance, norm, observable, intervention or profile, or one more candidate term with coefficient
zero, leaves the solutions. One more term with a coefficient makes another equation, which the
earlier factual solution solves where that term is deleted. Anything else is another study.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cffem.study.run.description import differences

# The parts of a description that may change.
EDITABLE = ("library", "certification", "observables", "interventions", "pairs", "profiles")
# What error bars depend on besides the norm; those that decide are kept.
MEANS = ("epsilon", "relative", "effort", "budget", "refine", "enriched")
# Stations whose facts do not depend on certification and observables.
STEADFAST = ("design", "screening", "sensitivities", "calibration")
# Keys of deletions, see `cffem.study.run.stations.deleting` and `intervening`.
DELETIONS = ("deletion", "deletion with refit", "intervention", "pair of deletions")
NAMED = "intervention"


@dataclass(frozen=True)
class Edit:
    """How a study differs from that of an earlier run.

    Attributes:
        words: what has changed, a few places.
        library: whether there are more candidate terms.
        norm: whether scores are measured in another norm.
        means: whether error bars may be asked for more or less than before.
        conditions: whether deleted equations keep other conditions.
        observables: names of those that are new, gone or different.
        interventions: the same of named interventions.
        added: a term that has a coefficient now and was not there before.
    """

    words: tuple[str, ...]
    library: bool = False
    norm: bool = False
    means: bool = False
    conditions: bool = False
    observables: frozenset[str] = frozenset()
    interventions: frozenset[str] = frozenset()
    added: str = ""

    def keeps(self, key: str) -> bool:
        """Whether a fact still holds as it is.

        Example:
            >>> finer = Edit(("certification.epsilon was 0.1 and is 0.01",), means=True)
            >>> finer.keeps("deletion/all/lap"), finer.keeps("refinement/deletion/all/lap")
            (True, False)
        """
        if self.added:
            return False
        station, *rest = key.split("/")
        certified = self.norm or self.means or self.conditions
        if station in STEADFAST:
            return not (self.library and station == "design")
        if station in ("constraint", "residuals"):
            return not (self.library or self.norm)
        if station in ("factual", "linearised"):
            return not self.norm
        if station in DELETIONS:
            return not (self.norm or self.conditions or self.observables) and not (
                station == NAMED and rest[-1] in self.interventions
            )
        if station == "certificates":
            renamed = rest[0] == NAMED and rest[-1] in self.interventions
            return not (self.norm or self.conditions or renamed)
        if station == "adjoint":
            return rest[-1] not in self.observables
        if station in ("profiles", "profiled", "observables"):
            return not certified and not self.observables and not self.interventions
        return not certified and station == "refinement" and not self.interventions

    def lets_stand(self, key: str) -> bool:
        """Whether the solution that belongs to a fact still solves what it did."""
        station, *rest = key.split("/")
        if station == "factual":
            return True
        if self.added:
            return False
        renamed = station == NAMED and rest[-1] in self.interventions
        return station in DELETIONS and not self.conditions and not renamed


def edit_of(old: Mapping[str, Any], new: Mapping[str, Any]) -> Edit | None:
    """How one description differs from another; None where it is another study.

    Example:
        >>> study = {"certification": {"epsilon": 0.1, "norm": "L2"}, "seed": 0}
        >>> edited = {**study, "certification": {"epsilon": 0.2, "norm": "L2"}}
        >>> edit_of(study, edited).means, edit_of(study, {**study, "seed": 1})
        (True, None)
    """
    keys = {*old, *new}
    changed = {key for key in keys if old.get(key) != new.get(key)}
    words = tuple(differences(dict(old), dict(new)))
    added = one_more_term(old, new) if "coefficients" in changed else ""
    if not words or not changed <= {*EDITABLE, *(("coefficients",) if added else ())}:
        return None
    if "library" in changed and not more_candidates(old, new, added):
        return None
    if "certification" in changed and any(map(chooses_steps, new.get("experiments", {}).values())):
        return None  # steps are chosen by a share of the tolerance
    ways = [old.get("certification") or {}, new.get("certification") or {}]
    other = {key for key in {*ways[0], *ways[1]} if ways[0].get(key) != ways[1].get(key)}
    return Edit(
        words,
        "library" in changed,
        bool(other - {*MEANS, "conditions", "scores"}),
        bool(other & {*MEANS}),
        "conditions" in other,
        different(old.get("observables"), new.get("observables")),
        different(old.get("interventions"), new.get("interventions")),
        added,
    )


def chooses_steps(experiment: Mapping[str, Any]) -> bool:
    """Whether the time steps of an experiment are chosen by its solution.

    Example:
        >>> chooses_steps({"time": {"Window": {"tolerance": "auto"}}})
        True
    """
    window = (experiment.get("time") or {}).get("Window", {})
    return window.get("tolerance") is not None


def different(old: Mapping[str, object] | None, new: Mapping[str, object] | None) -> frozenset[str]:
    """Names of entries that are new, gone or different."""
    before, after = old or {}, new or {}
    return frozenset(
        name for name in {*before, *after} if before.get(name, ...) != after.get(name, ...)
    )


def one_more_term(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The term that has a coefficient now and had none, where that is all that coefficients differ
    by and time steps are given; empty otherwise.

    Example:
        >>> one_more_term({"coefficients": {"u": 1.0}}, {"coefficients": {"u": 1.0, "lap": 2.0}})
        'lap'
    """
    before, after = (
        {name: value for name, value in (each.get("coefficients") or {}).items() if value}
        for each in (old, new)
    )
    added = [name for name in after if name not in before]
    same = all(after.get(name) == value for name, value in before.items())
    chosen = any(map(chooses_steps, new.get("experiments", {}).values()))
    return added[0] if before and same and len(added) == 1 and not chosen else ""


def more_candidates(old: Mapping[str, Any], new: Mapping[str, Any], added: str = "") -> bool:
    """Whether a library only has more terms than before, all with coefficient zero but for one that
    is known to be new, so that nothing that was solved changes.
    """
    active = {name for name, value in (new.get("coefficients") or {}).items() if value} - {added}
    if not active or set(old["library"]) != set(new["library"]):
        return False
    for unknown, before in old["library"].items():
        after = new["library"][unknown]
        terms = after["terms"]
        more = {name for name in terms if name not in before["terms"]}
        if before["anchor"] != after["anchor"] or more & active:
            return False
        if any(terms.get(name) != text for name, text in before["terms"].items()):
            return False
    return True
