"""The table of what works for which problems: its cells are tried, and the page says what they
say.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("dolfinx")

from benchmarks.capabilities.capability_table import COLUMNS, WORKS, page, tried, written
from benchmarks.capabilities.problem_classes import CLASSES

PAGE = Path(__file__).parents[2] / "docs" / "capabilities.md"


def shown() -> dict[str, dict[str, str]]:
    """The cells of the page by class and column."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if "|" in line]
    return {row[0]: dict(zip(COLUMNS, row[1:], strict=True)) for row in rows[2:]}


def test_every_class_is_on_the_page():
    assert list(shown()) == list(CLASSES)


def test_a_refusal_is_shown_with_its_words(monkeypatch):
    name = "diffusion, DG of degree 0"
    monkeypatch.setitem(CLASSES, name, CLASSES["diffusion, DG"].replace('"DG", 1', '"DG", 0'))
    cells = tried(name, ranks=False)
    assert "constant on cells" in cells["solve"]
    text = page({name: cells})
    assert f"| {name} | [1] | – |" in text
    assert "constant on cells" in text.split("| diffusion")[1]


def test_rows_that_are_not_tried_again_stay_as_they_are():
    text = PAGE.read_text()
    assert page(written(text)) == text


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_the_page_says_what_works(name):
    cells = tried(name)
    for column, cell in shown()[name].items():
        assert (cells[column] == WORKS) == (cell == WORKS), (column, cells[column])
