"""`cffem bench certify --adversary`: its references are exact, and what does not hold is
noticed.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("dolfinx")

from benchmarks.certify import adversary_data, adversary_domains
from benchmarks.certify.adversary_modes import decay, fine_times, oscillation, sine_coefficients
from benchmarks.certify.certify_adversary import (
    END,
    SAMPLE,
    START,
    Finding,
    adversary_section,
    attacked,
    attacks,
    judged,
    page_section,
    write_section,
)
from benchmarks.certify.certify_bench import quick_collection
from benchmarks.measuring import Board
from cffem.bounds.certificate import NoCertificate
from cffem.symbols import x


def bound(score, margin, kind="guaranteed"):
    return SimpleNamespace(score=score, margin=margin, certificate=SimpleNamespace(kind=kind))


def test_amplitudes_are_those_of_their_equations():
    times = fine_times(2.0, [0.7], 0.1)
    forced = decay(3.0, 0.5, np.sin(2 * times), times)
    exact = (3 * np.sin(2 * times) - 2 * np.cos(2 * times)) / 13 + (0.5 + 2 / 13) * np.exp(
        -3 * times
    )
    assert forced == pytest.approx(exact, abs=1e-9)
    # y = cos t solves y'' + s y' + k y with this source, and starts at rest.
    found = oscillation(20.0, 0.6, 1.0, 19 * np.cos(times) - 0.6 * np.sin(times), times)
    assert found == pytest.approx(np.cos(times), abs=1e-8)


def test_sine_series_and_layers_are_exact():
    numbers = sine_coefficients(lambda s: s * (1 - s), 5)
    k = np.arange(1, 6)
    assert numbers == pytest.approx(4 * (1 - (-1.0) ** k) / (math.pi * k) ** 3, abs=1e-12)
    # The layer against a series of sines for −a X″ + c X = 1, and against its own limit of small
    # reaction.
    a, c = 0.3, 2.0
    k = np.arange(1, 20001, 2)
    series = float((8 / (math.pi * k) ** 2 / (a * (math.pi * k) ** 2 + c)).sum())
    assert adversary_data._layer(a, 1e-9, c, 0.0) == pytest.approx(series, rel=1e-7)
    assert adversary_data._layer(0.05, 1.0, 1e-6, 0.4) == pytest.approx(
        adversary_data._layer(0.05, 1.0, 0.0, 0.4), rel=1e-5
    )


def test_weights_of_observables_are_integrated():
    assert adversary_domains._mean(0.4, 1e-3) == pytest.approx(
        math.sin(0.4 * math.pi) * math.exp(-((math.pi * 1e-3) ** 2) / 4)
    )
    disc = adversary_domains._over_disc(0.5, 0.4, 1e-3, lambda r: 1.0)
    assert disc == pytest.approx(math.pi * 1e-6 * math.sin(0.4 * math.pi), rel=1e-5)
    assert adversary_domains._average(0.5, 0.5, 1e-3) == pytest.approx(1.0, rel=1e-5)


def test_narrow_functions_have_height_one_and_are_narrow():
    for seed in range(40):
        shape = adversary_data.sampled(
            adversary_data.narrow(np.random.default_rng(seed), x, 0.5, 1e-3), x
        )
        values = shape(np.array([0.2, 0.5, 0.9]))
        assert values[1] == pytest.approx(1.0, abs=0.2)
        assert values[[0, 2]] == pytest.approx(0, abs=1e-9)


def test_violations_and_wrong_verdicts_are_counted():
    assert judged("", "", bound(1.0, 0.1), 1.05).covered
    missed = judged("", "", bound(1.0, 0.01), 1.05)
    assert not missed.covered
    assert missed.wrong > 0
    nothing = judged("", "", NoCertificate("no theorem"), 1.0)
    assert nothing.covered
    assert nothing.unresolved == nothing.asked
    assert not Finding("", "", "raised", math.nan, math.nan, math.nan).covered


def test_every_attack_has_a_name_of_its_own_and_is_repeated_by_its_seed():
    assert len(attacks()) >= 20
    name = "sizes and slender cells"
    first, again = (attacked(2, 5, [name], tell=lambda line: None) for _ in range(2))
    assert [f.attack for f in first] == [name, name]
    assert [(f.case, f.margin) for f in first] == [(f.case, f.margin) for f in again]


def test_an_exception_is_a_finding(monkeypatch):
    def fails(random):
        raise ValueError("nan")

    monkeypatch.setattr("benchmarks.certify.certify_adversary.attacks", lambda: {"one": fails})
    lines = []
    assert [f.kind for f in attacked(2, 0, tell=lines.append)] == ["raised", "raised"]
    assert "ValueError: nan" in lines[0]


def test_the_table_of_a_page_is_replaced(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\nText.\n")
    findings = [
        judged("pulses", "", bound(1.0, 0.1), 1.05),
        judged("pulses", "", bound(1.0, 0.2, "estimated"), 1.05),
    ]
    for command in ("first", "second"):
        write_section(page, page_section(findings, command, "cffem"))
    text = page.read_text()
    assert text.startswith("# Title\n\nText.\n")
    assert text.count(START) == text.count(END) == 1
    assert "`second`" in text
    assert "first" not in text
    assert "| pulses | 2 | 1 | 1 | 0 | 0 | 0 |" in text


def test_sixty_attacks_break_no_error_bar():
    board = Board()
    with quick_collection():
        found = adversary_section(board, SAMPLE, seed=2)
    assert len(found) == SAMPLE
    assert {f.attack for f in found} == {*attacks()}
    assert board.missed == []
