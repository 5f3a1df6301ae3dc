"""A newcomer finds a thing by its name: one module and one class of each name, small folders."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
MOST_MODULES = 16


def modules(package: str) -> list[Path]:
    return sorted((TOP / package).rglob("*.py"))


def repeated(found: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: places for name, places in found.items() if len(places) > 1}


@pytest.mark.parametrize("package", ["cffem", "benchmarks"])
def test_no_two_modules_share_a_name(package):
    found = defaultdict(list)
    for path in modules(package):
        if path.stem != "__init__":
            found[path.stem].append(str(path.relative_to(TOP)))
    assert found
    assert not repeated(found)


@pytest.mark.parametrize("package", ["cffem", "benchmarks"])
def test_no_two_classes_share_a_name(package):
    found = defaultdict(list)
    for path in modules(package):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path.relative_to(TOP)))
    assert found
    assert not repeated(found)


@pytest.mark.parametrize("package", ["cffem", "benchmarks"])
def test_no_folder_holds_more_than_one_can_take_in(package):
    found = defaultdict(int)
    for path in modules(package):
        found[path.parent] += path.stem != "__init__"
    full = {str(folder.relative_to(TOP)): n for folder, n in found.items() if n > MOST_MODULES}
    assert not full
