"""The report is complete, survives JSON, and shows what users named as they named it."""

from __future__ import annotations

import csv
import io
import json

import pytest

from cffem.study.report import SECTIONS, Report, TermReport

SKIPPED = {name: {"skipped": "not part of this test"} for name in SECTIONS}


def sample() -> Report:
    scope = {"sentence": "Each verdict holds for nothing in particular."}
    terms = [
        TermReport("lap", r"\Delta u", 1e-3, deletion=0.25, margin=0.01, decision="relevant"),
        TermReport("[red]u[/red]", "u", 0.6, deletion=float("nan"), decision="unsolvable", reason="singular"),
    ]
    return Report({term.name: term for term in terms}, {**SKIPPED, "scope": scope})


def test_a_report_without_a_section_is_refused():
    with pytest.raises(ValueError, match="design"):
        Report({}, {name: {} for name in SECTIONS if name != "design"})


def test_json_round_trip_keeps_everything_and_has_no_nan():
    text = sample().to_json()
    content = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert content["schema"] == "cffem-report/1"
    assert {*SECTIONS, "terms", "schema"} == set(content)
    again = Report.from_json(text)
    assert again.terms["lap"] == sample().terms["lap"]
    assert again.terms["[red]u[/red]"].deletion is None
    assert again.to_json() == text


def test_another_file_is_no_report():
    with pytest.raises(ValueError, match="cffem-report/1"):
        Report.from_json('{"schema": "something/2"}')


def test_the_printed_table_shows_names_verdicts_and_scope_literally():
    text = str(sample())
    assert "[red]u[/red]" in text
    assert "relevant" in text
    assert "unsolvable: singular" in text
    assert "holds for nothing in particular" in text


def test_csv_has_one_row_for_each_term():
    rows = list(csv.DictReader(io.StringIO(sample().to_csv())))
    assert [row["name"] for row in rows] == ["lap", "[red]u[/red]"]
    assert float(rows[0]["deletion"]) == 0.25


def test_writing_replaces_files_whole(tmp_path):
    (tmp_path / "report.json").write_text("older")
    sample().write(tmp_path)
    assert Report.from_json((tmp_path / "report.json").read_text()).terms.keys() == sample().terms.keys()
    assert not list(tmp_path.glob(".*.part"))
