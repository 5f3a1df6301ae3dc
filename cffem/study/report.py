"""The report of a study (schema `cffem-report/1`): every section is always there, a skipped one says why.

A report is data: it is made once, written as JSON, and shown as a table; nothing in it needs the solver again.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

SCHEMA = "cffem-report/1"
SECTIONS = ("scope", "constraint", "design", "screening", "observables", "sets", "cost", "environment")


@dataclass(frozen=True)
class TermReport:
    """What is known about one term; None where it was not computed."""

    name: str
    latex: str
    coefficient: float
    selected: bool | None = None
    residual_contribution: float | None = None
    rci: float | None = None
    one_step: float | None = None
    linearised: float | None = None
    deletion: float | None = None
    eta_factual: float | None = None
    eta_counterfactual: float | None = None
    margin: float | None = None
    certificate: str | None = None
    method: str | None = None
    decision: str = "unresolved"
    reason: str = ""


@dataclass(frozen=True)
class Report:
    """The result of a study.

    Attributes:
        terms: one entry for each term of the library, by name.
        sections: the other sections of the schema.
    """

    terms: Mapping[str, TermReport]
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        missing = [name for name in SECTIONS if name not in self.sections]
        if missing:
            raise ValueError(
                f"a report needs all sections; {', '.join(missing)} missing (a skipped one holds {{'skipped': reason}})"
            )

    def to_json(self) -> str:
        """The report as JSON text; numbers that are not finite become null."""
        content = {"schema": SCHEMA, **self.sections, "terms": [asdict(term) for term in self.terms.values()]}
        return json.dumps(_plain(content), indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Read a report back."""
        content = json.loads(text)
        if content.pop("schema", None) != SCHEMA:
            raise ValueError(f"this is not a report of schema {SCHEMA}")
        terms = {entry["name"]: TermReport(**entry) for entry in content.pop("terms")}
        return cls(terms, content)

    def to_csv(self) -> str:
        """The table of terms as CSV."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        names = [f.name for f in fields(TermReport)]
        writer.writerow(names)
        for term in self.terms.values():
            writer.writerow(["" if (value := getattr(term, name)) is None else value for name in names])
        return out.getvalue()

    def write(self, folder: str | Path) -> None:
        """Write `report.json` and `terms.csv`, each whole or not at all."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("report.json", self.to_json()), ("terms.csv", self.to_csv())):
            part = folder / f".{name}.part"
            part.write_text(text)
            part.replace(folder / name)

    def __str__(self) -> str:
        from cffem.study.table import as_text

        return as_text(self)


def _plain(value: Any) -> Any:
    """JSON's own types only."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, bool | str | int) or value is None:
        return value
    number = float(value)
    return number if math.isfinite(number) else None
