# SPDX-License-Identifier: MIT
"""The report of a study (schema `cffem-report/2`): every section is always there, a skipped one
says why.

A report is data: it is made once, written as JSON, and shown as a table, as a page or in LaTeX;
nothing in it needs the solver again. `report.schema.json` beside this file states what the JSON
holds; the keys of the paper's reporting contract are required.
"""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from cffem._files import require_file, write_whole
from cffem.study.report.interventions.intervention_report import (
    InterventionReport,
    interventions_csv,
)
from cffem.study.report.maps.effect_map import EffectMap, with_arrays, write_maps
from cffem.study.report.scores.profile_report import ProfileReport
from cffem.study.report.summary import as_cell
from cffem.symbols.errors import InputError

FAMILY, VERSION = "cffem-report", 2
SCHEMA = f"{FAMILY}/{VERSION}"
READABLE = (f"{FAMILY}/1", SCHEMA)  # the first has fewer sections
SECTIONS = (
    "scope",
    "constraint",
    "design",
    "identifiability",
    "calibration",
    "screening",
    "interventions",
    "maps",
    "profiles",
    "observables",
    "sets",
    "cost",
    "environment",
)
MOST_BYTES = 2**28  # of a report; the largest real ones have a few million
JSON_FILE, CSV_FILE, PAGE_FILE = "report.json", "terms.csv", "report.html"
INTERVENTIONS_FILE = "interventions.csv"


@dataclass(frozen=True)
class TermReport:
    """What is known about one term; None where it was not computed.

    Attributes:
        epsilon: the tolerance of the verdict; None where it is the scope's.
        experiment: the experiment that the numbers are from, where there are several.
        conditions: which essential conditions the deleted equation cannot carry and were released.
        misfit: how far the deleted solution is from the data, relative to them, where there are
            data.
        code: what `reason` is about, as a `Code`, for programs.
        field, fields: the field that the numbers are about, and the decision for each field, where
            each is judged by itself.
        share: the part of the coefficient whose removal the numbers are about, where the whole
            deletion has no solution.
        profile: δ(ρ) of such a term up to the largest ρ that has a solution, as `Profile.to_plain`.
        proof: how the error bar was obtained (inequality, formula, hypotheses, constants, cost).
        sensors: what sensors say of the term, where there are any: δ^𝒪 in standard deviations with
            its margin, whether it is visible and needed, Δχ², p-value and interval.
    """

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
    epsilon: float | None = None
    experiment: str | None = None
    certificate: str | None = None
    method: str | None = None
    decision: str = "unresolved"
    reason: str = ""
    proof: Mapping[str, Any] | None = None
    code: str = ""
    misfit: float | None = None
    conditions: str = ""
    field: str = ""
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
    share: float | None = None
    profile: Mapping[str, Any] | None = None
    sensors: Mapping[str, Any] | None = None


KINDS = {
    "str": str,
    "float": (int, float),
    "bool": bool,
    "Mapping[str, Any]": dict,
    "Mapping[str, str]": dict,
}


def as_term(entry: Mapping[str, Any]) -> TermReport:
    """A term as JSON holds it; keys that are not known are left out.

    Raises:
        TypeError: a key is of another type than it should be.
    """
    known = {f.name: str(f.type) for f in fields(TermReport)}
    for key, value in entry.items():
        kinds = known.get(key, "Any").split(" | ")
        # A coefficient that is not finite is null in JSON.
        if (
            "Any" not in kinds
            and value is not None
            and not isinstance(value, tuple(KINDS[k] for k in kinds if k != "None"))
        ):
            raise TypeError(f"{key} of a term is {type(value).__name__}")
    return TermReport(**{key: value for key, value in entry.items() if key in known})


COLUMNS = tuple(
    f.name for f in fields(TermReport) if f.name not in ("proof", "fields", "profile", "sensors")
)
# Columns about sensors, where there are any, and their keys.
SENSOR_COLUMNS = {
    "sensor_score": "score",
    "sensor_margin": "margin",
    "visibility": "visibility",
    "need": "need",
    "delta_chi2": "delta_chi2",
    "p_value": "p_value",
}


@dataclass(frozen=True)
class Report:
    """The result of a study.

    Attributes:
        terms: one entry for each term of the library, by name.
        sections: the other sections of the schema.
        effects: the maps with their densities, where these are at hand.
    """

    terms: Mapping[str, TermReport]
    sections: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    effects: Mapping[str, EffectMap] = dataclasses.field(
        default_factory=dict, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        missing = [name for name in SECTIONS if name not in self.sections]
        if missing:
            raise ValueError(
                f"a report needs all sections; {', '.join(missing)} missing (a skipped one holds "
                f"{{'skipped': reason}})"
            )

    @property
    def interventions(self) -> dict[str, InterventionReport]:
        """Named interventions and pairs of terms, by name."""
        section = self.sections["interventions"]
        return {
            name: InterventionReport.from_plain(found)
            for name, found in section.items()
            if name != "skipped"
        }

    @property
    def profiles(self) -> dict[str, tuple[ProfileReport, ...]]:
        """The profiles that were asked for, by term: for each experiment, field and observable."""
        return {
            term: tuple(map(ProfileReport.from_plain, found))
            for term, found in self.sections["profiles"].items()
            if term != "skipped"
        }

    @property
    def maps(self) -> dict[str, EffectMap]:
        """Where and when deletions and named interventions change the solution, by name."""
        if self.effects:
            return dict(self.effects)
        section = self.sections["maps"]
        return {
            name: EffectMap.from_plain(found)
            for name, found in section.items()
            if name != "skipped"
        }

    # Files
    # ----------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The report as JSON text; numbers that are not finite become null."""
        content = {
            "schema": SCHEMA,
            **self.sections,
            "terms": [asdict(term) for term in self.terms.values()],
        }
        return json.dumps(_plain(content), indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Read a report back, also one that another version of this schema's family wrote with more
        or fewer keys.

        Raises:
            InputError: the text is not a report, or one of a newer schema.
        """
        try:
            content = json.loads(text)
            schema = content.pop("schema", None)
            entries = content.pop("terms") if schema in READABLE else []
            terms = {entry["name"]: as_term(entry) for entry in entries}
            sections = {
                str(name): dict(section) for name, section in content.items() if schema in READABLE
            }
        except (ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
            raise InputError(
                f"this is not a report of schema {SCHEMA} ({type(error).__name__}: {error})"
            ) from None
        if schema not in READABLE:
            newer = isinstance(schema, str) and schema.startswith(f"{FAMILY}/")
            raise InputError(
                f"this is not a report of schema {SCHEMA}"
                + (f" but of {schema}; use a newer cffem" if newer else "")
            )
        absent = {"skipped": "the report was written without this section"}
        report = cls(terms, {**dict.fromkeys(SECTIONS, absent), **sections})
        try:
            report.interventions, report.maps, report.profiles  # noqa: B018
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            raise InputError(f"this is not a report of schema {SCHEMA} ({error})") from None
        return report

    @classmethod
    def read(cls, folder: str | Path) -> Report:
        """The report in a folder that a study has written."""
        path = Path(folder) / JSON_FILE
        try:
            if path.exists() and require_file(path).st_size > MOST_BYTES:
                raise InputError(f"{path} is larger than {MOST_BYTES} bytes; it is no report")
            text = path.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(
                f"there is no {JSON_FILE} in {folder}; the study is not finished, or this is "
                "another folder"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read: {error}") from None
        report = cls.from_json(text)
        return dataclasses.replace(report, effects=with_arrays(Path(folder), report.maps))

    def to_csv(self) -> str:
        """The table of terms as CSV."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        sensed = any(term.sensors for term in self.terms.values())
        more = SENSOR_COLUMNS if sensed else {}
        writer.writerow([*COLUMNS, *more])
        for term in self.terms.values():
            seen = [(term.sensors or {}).get(key) for key in more.values()]
            own = [getattr(term, name) for name in COLUMNS]
            writer.writerow([as_cell(value) for value in (*own, *seen)])
        return out.getvalue()

    def write(self, folder: str | Path) -> None:
        """Write `terms.csv`, `interventions.csv` and `maps.npz` where there are any, `report.html`
        and, last, `report.json`, each whole or not at all.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        text = self.to_json()
        # What is shown is what is stored, so that rendering again gives the same page.
        Report.from_json(text)._write_views(folder)
        write_maps(folder, self.maps)
        write_whole(folder / JSON_FILE, text)

    def _write_views(self, folder: Path) -> Path:
        from cffem.study.report.drawn_fields import Fields

        write_whole(folder / CSV_FILE, self.to_csv())
        if self.interventions:
            write_whole(folder / INTERVENTIONS_FILE, interventions_csv(self.interventions))
        return write_whole(folder / PAGE_FILE, self.to_html(Fields.read(folder)))

    # Views
    # ----------------------------------------------------------------------------------------------

    def to_html(self, drawing: Any = None) -> str:
        """The report as one self-contained page that opens offline.

        Args:
            drawing: the `Fields` of the study, for pictures of factual and deleted solutions.
        """
        from cffem.study.report.page import as_page

        return as_page(self, drawing)

    def to_latex(self) -> str:
        """Tables for a paper (booktabs): verdicts, scope and design."""
        from cffem.study.report.latex import as_latex

        return as_latex(self)

    def show(self, folder: str | Path | None = None, height: int = 800) -> None:
        """Show the whole page in a notebook, apart from the notebook's own styles and scripts.

        Args:
            folder: the folder of results, whose page has the pictures of the fields, too.
            height: of the frame, in pixels.

        Raises:
            InputError: this is no notebook.
        """
        try:
            from IPython.display import HTML, display
        except ModuleNotFoundError as error:
            raise InputError(
                f"show needs a notebook; open {PAGE_FILE} of the folder of results in a browser"
            ) from error
        page = self.to_html() if folder is None else (Path(folder) / PAGE_FILE).read_text()
        display(
            HTML(
                f'<iframe srcdoc="{html.escape(page, quote=True)}" sandbox="allow-scripts" '
                f'style="width:100%;height:{int(height)}px;border:1px solid #ccc"></iframe>'
            )
        )

    def _repr_html_(self) -> str:
        from cffem.study.report.page import as_snippet

        return as_snippet(self)

    def __str__(self) -> str:
        from cffem.study.report.terminal_table import as_text

        return as_text(self)


def render(folder: str | Path) -> Path:
    """Write `report.html` and `terms.csv` of a folder again from its `report.json` and
    `fields.npz`; nothing is computed.

    Returns:
        The page.
    """
    return Report.read(folder)._write_views(Path(folder))


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
