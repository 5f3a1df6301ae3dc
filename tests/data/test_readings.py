"""Tables of readings: files, frames and lists become readings with their places, or are refused in
one sentence.
"""

from __future__ import annotations

import numpy as np
import pytest

import cffem as cf

ROWS = [
    {"x": 0.1, "y": 0.2, "t": 0.0, "field": "u", "value": 1.0, "sensor": "A"},
    {"x": 0.1, "y": 0.2, "t": 0.5, "field": "u", "value": None, "sensor": "A"},
    {"x": 0.3, "y": 0.2, "t": 0.7, "field": "v", "component": "y", "value": 2.5, "sensor": "B"},
    {"x": 0.4, "y": 0.2, "t": 0.9, "field": "v[0]", "value": 3.5, "sensor": "B"},
]
TEXT = (
    "x;y;t;field;component;value;sensor\n0.1;0.2;0;u;;1;A\n0.1;0.2;0.5;u;;;A\n"
    "0.3;0.2;0.7;v;y;2.5;B\n0.4;0.2;0.9;v[0];;3.5;B\n"
)


def columns(rows):
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


@pytest.mark.parametrize("kind", ["rows", "columns", "file", "frame"])
def test_all_kinds_of_tables_hold_the_same_readings(kind, tmp_path):
    table = {"rows": ROWS, "columns": columns(ROWS)}.get(kind)
    if kind == "file":
        table = tmp_path / "readings.csv"
        table.write_text(TEXT)
    if kind == "frame":
        table = pytest.importorskip("pandas").DataFrame(ROWS)
    data = cf.Dataset.from_readings(table, noise=0.1)
    assert isinstance(data, cf.Dataset)
    assert data.readings.tolist() == [1.0, 2.5, 3.5]  # the gap is left out
    assert data.placement.points.tolist() == [[0.1, 0.2], [0.3, 0.2], [0.4, 0.2]]
    assert data.placement.times.tolist() == [0.0, 0.7, 0.9]
    assert [str(c) for c in data.placement.channels] == ["u", "v[1]", "v[0]"]
    assert data.sensors == ("A", "B")  # which moves
    assert data.observation.noise == 0.1
    assert repr(data) == "Readings(u, v[1], v[0]: 3 of 2 sensors)"


def test_sensors_without_names_are_their_places():
    rows = [{"x": p, "field": "u", "value": 1.0, "noise": 0.1 + p} for p in (0.1, 0.4)]
    data = cf.Dataset.from_readings(rows)
    assert data.sensors == ("sensor 1", "sensor 2")
    assert np.isnan(data.placement.times).all()
    assert data.observation.noise_of(2).deviation == pytest.approx([0.2, 0.5])


def test_a_regression_on_readings_is_refused():
    u = cf.ScalarField("u")
    data = cf.Dataset.from_readings([{"x": 0.1, "t": 0.0, "field": "u", "value": 1.0}])
    with pytest.raises(cf.InputError, match=r"needs fields.*cf\.calibrate"):
        cf.Design.from_fields(cf.Library(anchor=cf.dt(u), terms={"u": u}), data)


GOOD = {"x": 0.1, "t": 0.0, "field": "u", "value": 1.0}
REFUSED = {
    "no readings": [],
    "need a column 'x'": [{"t": 0, "field": "u", "value": 1}],
    "need a column 'field'": [{"x": 0, "value": 1}],
    "no column 'valeu'; did you mean 'value'": [GOOD | {"valeu": 1}],
    "is no number": [GOOD | {"value": "warm"}],
    "row 2 has no x": [GOOD, GOOD | {"x": None, "t": 1}],
    "is infinite": [GOOD | {"value": np.inf}],
    "some readings have a time": [GOOD, GOOD | {"t": None}],
    "was read twice": [GOOD, GOOD],
    "noise must be positive": [GOOD | {"noise": 0.0}],
    "row 2 has no noise": [GOOD | {"noise": 1}, GOOD | {"t": 1, "noise": None}],
    "is no field": [GOOD | {"field": "3 + 4"}],
    "components are 0, 1, 2": [GOOD | {"component": 7}],
    "all readings of the table are missing": [GOOD | {"value": None}],
    "in degrees": [GOOD | {"lon": 3.0}],
    "readings are a CSV file": 3,
    "of one length": {"x": [1, 2], "value": [1]},
}


@pytest.mark.parametrize("words", REFUSED)
def test_bad_tables_are_refused_in_one_sentence(words):
    with pytest.raises(cf.InputError, match=words) as caught:
        cf.Dataset.from_readings(REFUSED[words])
    assert "\n" not in str(caught.value)


def test_rows_of_a_file_that_do_not_fit_are_refused(tmp_path):
    table = tmp_path / "readings.csv"
    table.write_text("x,field,value\n0.1,u\n")
    with pytest.raises(cf.InputError, match="row 1 does not fit its columns"):
        cf.Dataset.from_readings(table)


def frame(**changes):
    """Two sensors at two times, with some columns replaced."""
    pandas = pytest.importorskip("pandas")
    given = {
        "x": [0.1, 0.2, 0.1, 0.2],
        "t": [0.0, 0.0, 1.0, 1.0],
        "field": ["u"] * 4,
        "value": [1.0, 2.0, 3.0, 4.0],
    }
    return pandas.DataFrame({**given, **changes})


def test_levels_of_an_index_that_have_names_are_columns():
    plain = cf.Dataset.from_readings(frame())
    for names in ("t", ["t", "x"], ["field", "t"]):
        moved = cf.Dataset.from_readings(frame().set_index(names))
        assert moved.placement.times.tolist() == [0.0, 0.0, 1.0, 1.0]
        assert moved.placement.points.tolist() == plain.placement.points.tolist()
        assert moved.readings.tolist() == plain.readings.tolist()


def test_missing_cells_of_pandas_are_gaps():
    pandas = pytest.importorskip("pandas")
    for gap in (
        pandas.array([1, None, 3, 4], dtype="Int64"),
        pandas.Series([1.0, pandas.NA, 3.0, 4.0], dtype=object),
        [1.0, float("nan"), 3.0, 4.0],
    ):
        assert cf.Dataset.from_readings(frame(value=gap)).readings.tolist() == [1.0, 3.0, 4.0]
    kinds = frame(field=pandas.Categorical(["v"] * 4), component=pandas.array([0, 1, 0, 1]))
    assert len({*cf.Dataset.from_readings(kinds).placement.channels}) == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"t": np.array(["2024-01-01"] * 4, "M8[ns]")}, "time since the start of the window"),
        ({"t": np.array([0, 0, 1, 1], "m8[h]")}, "time since the start of the window"),
        ({"sensor": ["A", None, "A", "B"]}, "row 2 names no sensor"),
        ({"value": [1.0, 2.0, "hot", 4.0]}, "'hot' in row 3, column value, is no number"),
    ],
)
def test_frames_that_cannot_be_read_are_refused(changes, words):
    with pytest.raises(cf.InputError, match=words):
        cf.Dataset.from_readings(frame(**changes))


def test_two_columns_of_one_name_are_refused():
    pandas = pytest.importorskip("pandas")
    twice = pandas.concat([frame(), frame()[["value"]]], axis=1)
    with pytest.raises(cf.InputError, match="two columns 'value'"):
        cf.Dataset.from_readings(twice)
