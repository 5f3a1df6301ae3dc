"""Every Python block of the README runs as it stands, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cffem

TOP = Path(__file__).parents[2]
README = (TOP / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.S)


def test_the_readme_has_examples():
    assert BLOCKS


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0][:40])
def test_every_example_of_the_readme_runs(block, capsys, tmp_path, monkeypatch):
    pytest.importorskip("dolfinx")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert printed
    assert "cf.Study" not in block or "Each verdict holds for the library" in printed


def test_files_that_the_readme_names_exist():
    for name in re.findall(r"\b(?:containers|demos|docs|cffem)/[\w./-]*", README):
        assert (TOP / name.rstrip("./")).exists() or name.rstrip(".") == "cffem/", name


def test_the_page_of_names_lists_the_public_names_and_no_others():
    listed = re.findall(r"`cf\.(\w+)`", (TOP / "docs" / "names.md").read_text())
    assert sorted(listed) == sorted(cffem.__all__)
    assert set(re.findall(r"\bcf\.(\w+)", README)) <= set(cffem.__all__)


def test_every_public_name_can_be_had():
    pytest.importorskip("dolfinx")
    for name in cffem.__all__:
        assert getattr(cffem, name) is not None
