"""The report is complete, survives JSON and later versions, obeys its schema, and shows what
users named as they named it.
"""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_samples import HOSTILE, area, hostile, known, line, screened

import cffem.study.report.report
from cffem.study.report.drawn_fields import Fields
from cffem.study.report.report import SECTIONS, Report, TermReport, render
from cffem.study.report.summary import sentences
from cffem.symbols.errors import InputError

SKIPPED = {name: {"skipped": "not part of this test"} for name in SECTIONS}
SAMPLES = [known, screened, hostile]
SCHEMA = json.loads(
    Path(cffem.study.report.report.__file__).with_name("report.schema.json").read_text()
)


def sample() -> Report:
    scope = {"sentence": "Each verdict holds for nothing in particular."}
    terms = [
        TermReport("lap", r"\Delta u", 1e-3, deletion=0.25, margin=0.01, decision="relevant"),
        TermReport(
            "[red]u[/red]",
            "u",
            0.6,
            deletion=float("nan"),
            decision="unsolvable",
            reason="singular",
        ),
    ]
    return Report({term.name: term for term in terms}, {**SKIPPED, "scope": scope})


# JSON and its schema
# --------------------------------------------------------------------------------------------------


def test_a_report_without_a_section_is_refused():
    with pytest.raises(ValueError, match="design"):
        Report({}, {name: {} for name in SECTIONS if name != "design"})


def test_json_round_trip_keeps_everything_and_has_no_nan():
    text = sample().to_json()
    content = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert content["schema"] == "cffem-report/2"
    assert {*SECTIONS, "terms", "schema"} == set(content)
    again = Report.from_json(text)
    assert again.terms["lap"] == sample().terms["lap"]
    assert again.terms["[red]u[/red]"].deletion is None
    assert again.to_json() == text


@pytest.mark.parametrize(
    "text",
    ['{"schema": "something/2"}', "[]", "null", "{", '{"schema": "cffem-report/2"}', '"terms"'],
)
def test_another_file_is_no_report(text):
    with pytest.raises(InputError, match="cffem-report/2"):
        Report.from_json(text)


def test_a_newer_schema_says_so():
    with pytest.raises(InputError, match="cffem-report/3; use a newer cffem"):
        Report.from_json('{"schema": "cffem-report/3", "terms": []}')


def test_a_report_of_another_version_with_more_and_fewer_keys_is_read():
    content = json.loads(known().to_json())
    content["terms"][0]["invented_later"] = 1
    del content["terms"][0]["proof"]
    content["section_of_tomorrow"] = {"a": 1}
    del content["observables"]
    again = Report.from_json(json.dumps(content))
    assert again.terms["curl curl"].deletion == known().terms["curl curl"].deletion
    assert "without this section" in again.sections["observables"]["skipped"]
    assert "curl curl" in str(again)


@pytest.mark.parametrize("make", SAMPLES)
def test_reports_obey_the_schema(make):
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(json.loads(make().to_json()), SCHEMA)


# One entry for each item of the paper's reporting table: library, experiment class, design
# diagnostics, screening rule, counterfactual rule, uncertainty, output.
PROMISED = [
    "scope/library",
    "scope/experiment/initial",
    "scope/experiment/boundary",
    "scope/experiment/forcing",
    "scope/experiment/window",
    "design/coherence",
    "design/restricted_eigenvalue",
    "design/selected/condition",
    "design/alias_groups",
    "design/rows",
    "screening/anchor",
    "screening/normalisation",
    "screening/lambda",
    "screening/tau",
    "screening/debiasing",
    "screening/contract",
    "scope/intervention",
    "scope/refit",
    "scope/norm",
    "scope/epsilon",
    "scope/observation",
    "terms/0/margin",
    "terms/0/certificate",
    "screening/intervals",
    "screening/frequencies",
    "sets/fit",
    "sets/relevant",
    "sets/unresolved",
    "sets/irrelevant",
    "sets/aliased",
    "sets/constraint_null",
    "terms/0/deletion",
    "terms/0/residual_contribution",
    "terms/0/linearised",
    "cost/peak_memory",
    "environment/seeds",
]


@pytest.mark.parametrize("path", PROMISED)
def test_the_schema_requires_each_item_of_the_reporting_contract(path):
    jsonschema = pytest.importorskip("jsonschema")
    content = json.loads(screened().to_json())
    *above, last = path.split("/")
    part = content
    for key in above:
        part = part[int(key) if key.isdigit() else key]
    del part[last]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, SCHEMA)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"margin": None}, "None is not of type"),
        ({"decision": "probably"}, "probably"),
        ({"certificate": None}, "None is not of type"),
    ],
)
def test_the_schema_refuses_a_decision_without_error_bar(change, message):
    jsonschema = pytest.importorskip("jsonschema")
    content = json.loads(known().to_json())
    content["terms"][0].update(change)
    with pytest.raises(jsonschema.ValidationError, match=message):
        jsonschema.validate(content, SCHEMA)


# Text, CSV, LaTeX
# --------------------------------------------------------------------------------------------------


def test_the_printed_table_shows_names_verdicts_and_scope_literally():
    text = str(sample())
    assert "[red]u[/red]" in text
    assert "relevant" in text
    assert "unsolvable: singular" in text
    assert "holds for nothing in particular" in text


def test_names_cannot_write_to_the_terminal():
    assert "\x1b" not in str(hostile())


def test_csv_has_one_row_for_each_term():
    rows = list(csv.DictReader(io.StringIO(known().to_csv())))
    assert [row["name"] for row in rows] == list(known().terms)
    assert rows[0]["decision"] == "relevant"
    assert float(rows[0]["margin"]) == 0.007
    assert rows[4]["deletion"] == ""


REASONS = {
    "grad div": "constraint class",
    "Hall": "reaches ε",
    "lap": "was not solved: singular",
    "drag": "nonlinear",
}


def test_the_three_sentences_say_what_was_decided_what_not_and_what_next():
    decided, undecided, after = sentences(known())
    assert "curl curl is relevant" in decided
    assert "damping is irrelevant" in decided
    assert "ε = 0.01" in decided
    for name, reason in (
        ("grad div", "constraint class"),
        ("Hall", "reaches ε"),
        ("lap", "was not solved: singular"),
        ("drag", "nonlinear"),
    ):
        assert re.search(rf"{name} \([^)]*{reason}", undecided)
    assert "must fall below |δ − ε| = 0.0025" in after
    assert "find an error bar for drag" in after
    assert "mode 1×2" in sentences(screened())[2]
    assert "refine" not in sentences(screened())[2], "aliased terms are not decided by a finer mesh"


def test_where_no_convergence_is_seen_a_finer_start_is_the_next_step():
    report = known()
    drag = replace(report.terms["drag"], code="levels-not-saturated")
    after = sentences(replace(report, terms={**report.terms, "drag": drag}))[2]
    assert "start from a finer mesh and smaller time steps for drag" in after
    assert "find an error bar" not in after


def test_latex_tables_are_whole_and_escaped():
    for make in SAMPLES:
        text = make().to_latex()
        assert text.count(r"\begin{") == text.count(r"\end{")
        assert text.count(r"\toprule") == text.count(r"\bottomrule") >= 2
        for row in re.findall(r"^    (.*) \\\\$", text, flags=re.M):
            assert row.count("{") - row.count(r"\{") == row.count("}") - row.count(r"\}")
    assert r"\input{" not in hostile().to_latex(), "a formula with unknown commands is plain text"
    assert r"\$\textbackslash{}frac\$ \& \% \_\#\{\}" in hostile().to_latex()
    assert r"$- \nabla \times \left(\nabla \times \mathbf{E}\right)$" in known().to_latex()
    assert r"$3.1\times10^{-15}$" in known().to_latex()


# Files
# --------------------------------------------------------------------------------------------------


def test_a_folder_is_rendered_again_from_its_data_alone(tmp_path):
    line(["lap"]).write(tmp_path)
    sample().write(tmp_path)
    page = (tmp_path / "report.html").read_text()
    (tmp_path / "report.html").unlink()
    (tmp_path / "terms.csv").unlink()
    assert render(tmp_path) == tmp_path / "report.html"
    assert (tmp_path / "report.html").read_text() == page
    assert (tmp_path / "terms.csv").is_file()
    assert not list(tmp_path.glob(".*.part"))


def test_a_folder_without_a_report_says_so(tmp_path):
    with pytest.raises(InputError, match=r"no report\.json"):
        render(tmp_path)


@pytest.mark.parametrize("drawing", [area(), line(), area(components=1)])
def test_drawings_survive_their_file(drawing, tmp_path):
    drawing.write(tmp_path)
    again = Fields.read(tmp_path)
    assert again is not None
    assert (again.axes, again.where, again.time) == (drawing.axes, drawing.where, drawing.time)
    for term, values in drawing.deleted.items():
        for name in values:
            assert np.allclose(
                again.difference(term, name), drawing.difference(term, name), rtol=1e-6, atol=0
            )


def test_small_differences_survive_single_precision(tmp_path):
    drawing = line()
    tiny = {"u": drawing.factual["u"] + 1e-12}
    Fields(drawing.points, drawing.cells, drawing.axes, drawing.factual, {"lap": tiny}).write(
        tmp_path
    )
    again = Fields.read(tmp_path)
    assert again is not None
    assert np.abs(again.difference("lap", "u")).max() == pytest.approx(1e-12, rel=1e-3)


def test_a_drawing_that_is_none_is_refused(tmp_path):
    (tmp_path / "fields.npz").write_bytes(b"not a zip file")
    with pytest.raises(InputError, match="cannot be read"):
        Fields.read(tmp_path)
    np.savez(tmp_path / "fields.npz", about=np.array({"code": 1}, dtype=object))
    with pytest.raises(InputError, match="cannot be read"):
        Fields.read(tmp_path)


def test_hostile_names_survive_json():
    assert Report.from_json(hostile().to_json()).terms[HOSTILE].name == HOSTILE
