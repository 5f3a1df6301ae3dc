"""Every block of docs/extending.md adds something from outside and uses it; and what is wrong with
an addition is told in words.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cffem import extend
from cffem.symbols.errors import InputError
from cffem.symbols.problem.schemes import SCHEMES, Scheme
from cffem.symbols.registry import Registry

TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs" / "extending.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
# What each block prints.
PRINTED = [
    r"^0\.\d+\n\d+ steps, order of the tangent [12]\.\d+\n0\.\d+\n$",
    r"^\S+ \S+\n$",
    r"^lap own solve\nu first order\n$",
    r"^guaranteed: ‖u − u_h‖ = ‖f − c u_h‖/c = 0\.00\d+",
    r"^projecting\nTrue\n$",
    r"^\[False  True False  True False\]\n$",
    r"^Dataset",
]


@pytest.fixture
def registries_as_before(monkeypatch):
    """Take out again what a block adds, once every room has filled its own."""
    for name in extend.__all__:
        getattr(extend, name)
    kept = []
    original = Registry.add

    def add(self, name, item):
        kept.append((self, name))
        return original(self, name, item)

    monkeypatch.setattr(Registry, "add", add)
    yield
    for registry, name in kept:
        if name in registry:
            registry.remove(name)


def test_every_registry_has_its_block():
    added = {name for name in extend.__all__ if name.startswith("add_")}
    assert added == set(re.findall(r"extend\.(add_\w+)\(", PAGE))
    assert len(BLOCKS) == len(PRINTED) == len(added)


@pytest.mark.parametrize(
    ("block", "printed"),
    zip(BLOCKS, PRINTED, strict=True),
    ids=dict.fromkeys(re.findall(r"extend\.(add_\w+)\(", PAGE)),
)
def test_every_block_runs(block, printed, capsys, tmp_path, monkeypatch, registries_as_before):
    pytest.importorskip("dolfinx")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "docs/extending.md", "exec"), {})
    assert re.search(printed, capsys.readouterr().out)


@pytest.mark.parametrize(
    ("a", "b", "order", "words"),
    [
        (((0.5,), (0.5, 0.4)), (0.5, 0.5), 2, "equal and positive"),
        (((0.5,), (0.5, 0.5)), (0.4, 0.6), 1, "stiffly accurate"),
        (((0.5,), (0.5,)), (0.5, 0.5), 2, "rows of 1, 2"),
        (((1.0,),), (1.0,), 2, "Σ b c is 1, not 1/2"),
        (((0.5,),), (1.0,), 3, "Σ b c² is 0.25, not 1/3"),
        (((float("nan"),),), (1.0,), 1, "not finite"),
        (((0.5,),), (1.0,), 5, "1, 2, 3 or 4"),
    ],
)
def test_a_wrong_tableau_is_refused_in_words(a, b, order, words):
    with pytest.raises(InputError, match=re.escape(words)):
        Scheme("mine", a, b, order)


def test_a_name_is_given_once():
    with pytest.raises(InputError, match="there is a scheme 'midpoint' already"):
        SCHEMES.add("midpoint", SCHEMES["midpoint"])


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(InputError, match="did you mean sdirk"):
        SCHEMES["sdirk"]
