"""The page on the architecture names files and tests that exist, and every theorem has both."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs" / "architecture.md").read_text()
FOLDERS = [
    path.name
    for path in (TOP / "cffem").iterdir()
    if path.is_dir() and (path / "__init__.py").is_file()
]


def test_named_files_exist():
    named = re.findall(
        rf"\b((?:cffem/|tests/|docs/)?(?:{'|'.join(FOLDERS)}|house)/[\w/]+\.py)", PAGE
    )
    assert len(named) > 40
    missing = {
        name
        for name in named
        if not any((TOP / start / name).is_file() for start in ("", "cffem", "tests"))
    }
    assert not missing


@pytest.mark.parametrize(
    "row", [line for line in PAGE.splitlines() if re.match(r"\| .*`cffem/", line)]
)
def test_every_row_names_a_test(row):
    assert re.search(r"`tests/\w+/test_\w+\.py`", row)
