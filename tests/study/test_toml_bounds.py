"""Bounds of coefficients in a study file."""

import pytest

from cffem.screening import Screening
from cffem.study.toml.study_file import StudyReader
from cffem.study.toml.study_keys import Table


def screen_of(content):
    return StudyReader._screening(
        object.__new__(StudyReader), Table(content, "study.toml", "screening"), 3
    )


def test_known_coefficients_and_bounds_reach_the_screen():
    screen = screen_of({"largest": 4, "bounds": {"drift": -1.0, "lap": {"low": 0.0}}})
    assert isinstance(screen, Screening)
    assert (screen.largest, screen.random_state) == (4, 3)
    assert screen.bounds == {"drift": -1.0, "lap": (0.0, None)}


def test_a_bound_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="finite number"):
        screen_of({"bounds": {"drift": "fast"}})
