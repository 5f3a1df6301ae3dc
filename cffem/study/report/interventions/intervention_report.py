# SPDX-License-Identifier: MIT
"""What a report says about an intervention that is not the deletion of one term: a named one, or a
pair of terms.
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cffem.study.report.summary import as_cell

REDUNDANT, SYNERGY, COMPENSATION = "redundant", "synergy", "compensation"


@dataclass(frozen=True)
class InterventionReport:
    """What is known about one intervention; None where it was not computed.

    Attributes:
        name: what it is called.
        intervention, latex: what it does, in words and as a formula.
        terms: the terms whose coefficients it changes.
        pair: whether it is one of all pairs of terms, which nobody named.
        score, margin, epsilon, certificate, method, decision, reason, code, proof: as of a term;
            the score is the distance of the changed solution from the factual one.
        eta_factual, eta_counterfactual: error bounds of both solutions.
        experiment, field, fields, conditions, misfit: as of a term.
        relations: of a pair, what the terms are to each other: "redundant" (neither alone matters,
            both do), "synergy" (both together do more than the sum of what each does),
            "compensation" (both together do less than one of them alone).
        interaction, interaction_margin: δ_ab − δ_a − δ_b of a pair with its error bar.
        sentence: the relations in words.
    """

    name: str
    intervention: str
    latex: str = ""
    terms: tuple[str, ...] = ()
    pair: bool = False
    score: float | None = None
    eta_factual: float | None = None
    eta_counterfactual: float | None = None
    margin: float | None = None
    epsilon: float | None = None
    experiment: str | None = None
    certificate: str | None = None
    method: str | None = None
    decision: str = "unresolved"
    reason: str = ""
    code: str = ""
    conditions: str = ""
    misfit: float | None = None
    field: str = ""
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
    relations: tuple[str, ...] = ()
    interaction: float | None = None
    interaction_margin: float | None = None
    sentence: str = ""
    proof: Mapping[str, Any] | None = None

    @property
    def deletion(self) -> float | None:
        """The score, by the name that it has for terms."""
        return self.score

    def to_plain(self) -> dict[str, object]:
        """As JSON's own types."""
        plain = asdict(self)
        return {**plain, "terms": list(self.terms), "relations": list(self.relations)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> InterventionReport:
        """What `to_plain` wrote; keys that are not known are left out.

        Raises:
            TypeError: names are not text, or lists are none.
        """
        known = {f.name for f in dataclasses.fields(cls)}
        given = {key: value for key, value in plain.items() if key in known}
        for key in ("terms", "relations"):
            if not isinstance(given.get(key, []), list):
                raise TypeError(f"{key} of an intervention is {type(given[key]).__name__}")
            given[key] = tuple(map(str, given.get(key, ())))
        if not isinstance(given.get("name"), str):
            raise TypeError("an intervention has no name")
        return cls(**given)


COLUMNS = tuple(
    f.name for f in dataclasses.fields(InterventionReport) if f.name not in ("proof", "fields")
)


def interventions_csv(found: Mapping[str, InterventionReport]) -> str:
    """Interventions and pairs as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for each in found.values():
        values = (getattr(each, name) for name in COLUMNS)
        writer.writerow(
            [as_cell("; ".join(value) if isinstance(value, tuple) else value) for value in values]
        )
    return out.getvalue()
