"""Tables of readings become gridded or scattered data, whatever the order of their rows; what
is neither is refused.
"""

import itertools

import numpy as np
import pytest

import cffem as cf
from cffem import t, x
from cffem.data import Dataset

u, v = cf.ScalarField("u"), cf.VectorField("v", dim=2)
X, Y, T = np.linspace(0, 1, 4), np.linspace(0, 2, 3), np.linspace(0, 5, 6)


def table(path, header, rows, delimiter=","):
    lines = [delimiter.join(header), *(delimiter.join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def readings(rng):
    rows = [(a, s, a + 10 * s) for a, s in itertools.product(X, T)]
    return [rows[k] for k in rng.permutation(len(rows))]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_rows_in_any_order_fill_a_grid(tmp_path, delimiter):
    path = table(tmp_path / "a.csv", ["x", "t", "T"], readings(np.random.default_rng(1)), delimiter)
    data = Dataset.from_csv(path, {u: "T"})
    np.testing.assert_array_equal(data.values[u], X[:, None] + 10 * T)
    np.testing.assert_array_equal(data.coordinates[x], X)
    assert data.mask is None


def test_missing_rows_and_empty_cells_are_missing_values(tmp_path):
    rows = readings(np.random.default_rng(2))
    gone, empty = rows[0], rows[1]
    path = table(tmp_path / "a.csv", ["x", "t", "T"], [(*empty[:2], ""), *rows[2:]])
    data = Dataset.from_csv(path, {u: "T"})
    places = {(int(np.argmin(abs(X - a))), int(np.argmin(abs(T - s)))) for a, s, _ in (gone, empty)}
    assert {tuple(map(int, place)) for place in np.argwhere(data.mask)} == places


def test_columns_of_other_names_and_vectors(tmp_path):
    rows = [(b, s, a, a * b, s) for a, b, s in itertools.product(X, Y, T)]
    path = table(tmp_path / "a.csv", ["north", "day", "east", "p", "q"], rows)
    data = Dataset.from_csv(path, {v: ["p", "q"]}, {"x": "east", "y": "north", t: "day"})
    np.testing.assert_array_equal(data.values[v[0]][:, :, 0], np.outer(X, Y))
    np.testing.assert_array_equal(data.values[v[1]][1, 2], T)


def test_sensors_that_are_no_grid_are_scattered(tmp_path):
    places = np.random.default_rng(3).uniform(size=(20, 2))
    rows = [(a, b, s, a * b + s) for s in T for a, b in places]
    data = Dataset.from_csv(table(tmp_path / "a.csv", ["x", "y", "t", "u"], rows), {u: "u"})
    assert data.points.shape == (20, 2)
    np.testing.assert_allclose(data.values[u], data.points.prod(axis=1)[:, None] + T)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,t,u\n0,0,1\n0,1,2\n1,0,3\n1,1,4\n", "no column 'w'; the known names are x, t, u"),
        ("x,u\n0,1\n1,2\n", "need columns t and x"),
        ("x,t,w\n0,0,1\n0,1,two\n", "'two' in the column w is no number"),
        ("x,t,w\n0,0,1\n0,1\n", "row 3 has 2 entries, but there are 3 columns"),
        ("x,x,w\n0,0,1\n", "each differently"),
        ("", "must name the columns"),
        ("x,t,w\n0,0,1\n0,0,2\n1,0,1\n1,1,2\n", "two rows for the same place and time"),
        ("x,y,t,w\n0,1,0,1\n2,3,1,1\n4,5,2,1\n6,7,0,1\n", "neither a grid nor sensors"),
        ("x,t,w\n,0,1\n0,1,2\n", "a coordinate of the data is missing"),
    ],
)
def test_what_is_no_table_of_readings_is_refused(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(cf.InputError, match=message):
        Dataset.from_csv(tmp_path / "a.csv", {u: "w"})


def test_what_is_no_text_is_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"x,t\xff\xfe\n")
    with pytest.raises(cf.InputError, match="not a table of text"):
        Dataset.from_csv(tmp_path / "a.csv", {u: "u"})


def test_a_misspelt_variable_is_named():
    xarray = pytest.importorskip("xarray")
    stored = xarray.Dataset(
        {"temperature": (("x", "t"), np.zeros((3, 3)))}, {"x": np.arange(3.0), "t": np.arange(3.0)}
    )
    with pytest.raises(cf.InputError, match="no variable 'temp'; did you mean 'temperature'"):
        Dataset.from_xarray(stored, {u: "temp"})
