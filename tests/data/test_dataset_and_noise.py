"""Datasets, noise estimates, test functions."""

import numpy as np
import pytest

import cffem as cf
from cffem import t, x
from cffem.data import Dataset
from cffem.data.noise.grid_noise import measure_noise, noise_sd
from cffem.data.noise.reconstruction import Spline
from cffem.data.rows.bumps import bump_derivatives
from cffem.data.rows.integrands import hermite
from cffem.data.rows.point_mesh import PointMesh, conical_rule
from cffem.data.rows.row_blocks import RowBlock
from cffem.data.testfunctions import Axis, half_width, spectral_corner

u = cf.ScalarField("u")
v = cf.VectorField("v", dim=2)


def waves(shape=(200, 120)):
    X, T = np.meshgrid(np.linspace(0, 6, shape[0]), np.linspace(0, 3, shape[1]), indexing="ij")
    return np.sin(2 * X - T) + 0.5 * np.cos(X + 2 * T)


def test_axes_are_put_in_order_whatever_the_input():
    values = np.arange(12.0).reshape(4, 3)
    a = Dataset.from_arrays({t: np.arange(4.0), x: np.arange(3.0)}, {u: values})
    b = Dataset.from_arrays([np.arange(3.0), np.arange(4.0)], {u: values.T})
    np.testing.assert_array_equal(a.values[u], b.values[u])
    assert a.shape == (3, 4)
    assert a.dim == 1


def test_xarray_dates_and_vectors():
    xarray = pytest.importorskip("xarray")
    times = np.array(["2020-01-01", "2020-01-02", "2020-01-04"], dtype="datetime64[D]")
    ds = xarray.Dataset(
        {
            "a": (("time", "lat", "lon"), np.zeros((3, 4, 5))),
            "b": (("time", "lat", "lon"), np.ones((3, 4, 5))),
        },
        {"time": times, "lat": np.arange(4.0), "lon": np.arange(5.0)},
    )
    with pytest.raises(
        cf.InputError, match=r"'lat' is in degrees, which are no lengths; cf\.sphere_dataset"
    ):
        Dataset.from_xarray(ds, {v: ["a", "b"]})
    ds = ds.rename({"lat": "y", "lon": "x"})
    with pytest.raises(cf.InputError, match="'x' is in degrees"):
        Dataset.from_xarray(
            ds.assign_coords(x=("x", np.arange(5.0), {"units": "degrees_east"})), {v: ["a", "b"]}
        )
    data = Dataset.from_xarray(ds, {v: ["a", "b"]})
    np.testing.assert_allclose(data.coordinates[t], [0, 1, 3])
    assert data.values[v[1]].shape == (5, 4, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Dataset.from_arrays(
                {x: np.arange(3.0), t: np.arange(2.0)}, {u: np.zeros((2, 3))}
            ),
            r"u needs an array of shape \(3, 2\), not \(2, 3\)",
        ),
        (
            lambda: Dataset.from_arrays(
                {x: np.array([0.0, 2.0, 1.0]), t: np.arange(2.0)}, {u: np.zeros((3, 2))}
            ),
            r"x must be strictly increasing, but 2 is followed by 1; sort the data",
        ),
        (
            lambda: Dataset.from_arrays(
                {x: np.array([0.0, np.nan, 1.0]), t: np.arange(2.0)}, {u: np.zeros((3, 2))}
            ),
            r"x must be finite, but its value number 2 is not",
        ),
        (
            lambda: Dataset.from_arrays(
                {x: np.arange(3.0), t: np.array([1.0])}, {u: np.zeros((3, 1))}
            ),
            r"t must be a one-dimensional array of two values or more",
        ),
        (
            lambda: Dataset.from_arrays(
                {"space": np.arange(3.0), t: np.arange(2.0)}, {u: np.zeros((3, 2))}
            ),
            r"coordinates are called x, y, z and t, not space",
        ),
        (
            lambda: Dataset.from_arrays(
                {x: np.arange(3.0), t: np.arange(2.0)}, {u: np.full((3, 2), np.nan)}
            ),
            r"all values of the dataset are missing",
        ),
        (
            lambda: Dataset.from_arrays(
                {x: np.arange(3.0), t: np.arange(2.0)}, {v: np.zeros((3, 2))}
            ),
            r"v needs an array of shape \(2, 3, 2\)",
        ),
        (
            lambda: Dataset.from_points(np.zeros((4, 5)), np.arange(3.0), {u: np.zeros((4, 3))}),
            r"with dim 1, 2 or 3",
        ),
        (
            lambda: Dataset.from_arrays({x: np.arange(3.0), t: np.arange(2.0)}, {}),
            r"at least one field",
        ),
        (
            lambda: Dataset.from_arrays([np.arange(2.0)] * 5, {u: np.zeros((2,) * 5)}),
            r"between one and four coordinate arrays",
        ),
        (
            lambda: Dataset.from_arrays(
                {x: np.arange(3.0), t: np.arange(2.0)}, {"u": np.zeros((3, 2))}
            ),
            r"given for fields, not for 'u'",
        ),
        (
            lambda: Dataset.from_arrays(
                {x: np.arange(3.0), t: np.arange(2.0)},
                {u: np.zeros((3, 2))},
                mask=np.zeros(3, dtype=bool),
            ),
            r"the mask needs shape \(3, 2\)",
        ),
        (
            lambda: Dataset.from_points(np.eye(4, 2), np.arange(2.0), {u: np.full((4, 2), np.nan)}),
            r"all values of the dataset are missing",
        ),
        (
            lambda: Dataset.from_points(
                np.eye(4, 2), np.arange(2.0), {u: np.array([[np.nan, 1.0], *[[1.0, 1.0]] * 3])}
            ),
            r"sensor 1 has less than 4 readings; leave out the 4 sensors with so few",
        ),
    ],
)
def test_misuse_is_named(make, message):
    with pytest.raises(cf.InputError, match=message):
        make()


def test_sensors_on_a_line_are_a_grid_whatever_their_order():
    values = np.arange(8.0).reshape(4, 2)
    data = Dataset.from_points(np.array([[3.0], [1.0], [2.0], [0.0]]), np.arange(2.0), {u: values})
    np.testing.assert_array_equal(data.values[u], values[[3, 1, 2, 0]])
    assert data.points is None


def test_dimensions_of_other_names_are_told():
    xarray = pytest.importorskip("xarray")
    stored = xarray.Dataset(
        {"u": (("row", "t"), np.zeros((3, 3)))}, {"row": np.arange(3.0), "t": np.arange(3.0)}
    )
    with pytest.raises(cf.InputError, match="rename the dimensions"):
        Dataset.from_xarray(stored, {u: "u"})


@pytest.mark.parametrize(
    ("library", "data", "kind", "message"),
    [
        (cf.Library(terms={"u": u}, unknown=u), {}, "weak", "a design needs an anchor"),
        (cf.Library(terms={"u": u}, unknown=u), {}, "strong", "a design needs an anchor"),
        (
            cf.Library(anchor=cf.dt(u), terms={"u": u}),
            {"projected": True},
            "weak",
            "exactly one vector field",
        ),
        (
            cf.Library(anchor=cf.dt(u), terms={"u": cf.lap(u)}),
            {},
            "strong",
            "the grid is too small",
        ),
    ],
)
def test_data_that_give_no_design_are_told(library, data, kind, message):
    small = Dataset.from_arrays({x: np.arange(4.0), t: np.arange(4.0)}, {u: np.eye(4)}, **data)
    with pytest.raises(cf.InputError, match=message):
        cf.Design.from_fields(library, [small], kind=kind)


@pytest.mark.parametrize(
    "wrong",
    [
        {"A": np.zeros((2, 2))},
        {"weights": np.ones(2)},
        {"denoised": np.zeros((3, 2))},
        {"noise": np.zeros((5, 3, 2))},
    ],
)
def test_rows_that_do_not_fit_together_are_refused(wrong):
    given = {"A": np.zeros((3, 2)), "y": np.zeros(3), "weights": None, "block": 0}
    RowBlock(**given)
    with pytest.raises(ValueError, match="shape"):
        RowBlock(**{**given, **wrong})


def test_a_spectrum_that_ends_in_zeros_has_a_corner():
    samples = np.cos(2 * np.pi * np.arange(32) / 32)[:, None] * np.ones(4)
    samples = np.fft.irfft(
        np.where(np.abs(np.fft.rfft(samples, axis=0)) > 1, np.fft.rfft(samples, axis=0), 0), axis=0
    )
    assert 1 <= spectral_corner(samples, 0) <= 8


@pytest.mark.parametrize("ratio", [0.05, 0.5])
def test_white_noise_is_measured_and_white(ratio):
    noisy = waves() + ratio * np.random.default_rng(0).standard_normal((200, 120))
    noise = measure_noise(noisy)
    assert noise.white
    assert noise.sd == pytest.approx(ratio, rel=0.05)


def test_clean_data_have_no_noise():
    noise = measure_noise(waves())
    assert noise.white
    assert noise.sd < 1e-3


@pytest.mark.parametrize("seed", [12, 36, 200, 206, 281])
def test_clean_fronts_are_not_taken_for_correlated_noise(seed):
    """Shocks of Burgers' equation that merge, by the formula of Cole and Hopf."""
    random = np.random.default_rng(seed)
    xs, ts = np.linspace(0, 1, 160)[:, None], np.linspace(0, 1, 121)[None]
    viscosity = random.uniform(0.03, 0.12) / 4
    speeds, places = np.sort(random.uniform(-1, 1, 3)), random.uniform(-0.3, 0.3, 3)
    exponents = -np.array(
        [
            (c * xs - c**2 * ts / 2 + d) / (2 * viscosity)
            for c, d in zip(speeds, places, strict=True)
        ]
    )
    weights = np.exp(exponents - exponents.max(axis=0))
    clean = (speeds[:, None, None] * weights).sum(axis=0) / weights.sum(axis=0)
    noise = measure_noise(clean)
    assert noise.white
    assert noise.sd < 1e-3 * clean.std()


@pytest.mark.parametrize("length", [1.0, 2.0])
def test_correlated_noise_is_recognised_and_can_be_drawn_again(length):
    from benchmarks.screening.screening_data import with_noise

    clean = waves()
    noise = measure_noise(with_noise(clean, 0.5, 1, length))
    assert not noise.white
    assert noise.correlation_lengths == pytest.approx((length, length), rel=0.15)
    assert noise.sd == pytest.approx(0.5 * np.sqrt((clean**2).mean()), rel=0.15)
    again = noise.draw(np.random.default_rng(2), (200, 120))
    neighbours = (again[1:] * again[:-1]).mean() / again.var()
    assert neighbours == pytest.approx(np.exp(-1 / (4 * length**2)), abs=0.05)


@pytest.fixture(scope="module")
def sensors():
    from benchmarks.screening.screening_data import jittered_points, moving_gaussians

    points, times = jittered_points(40, 2), np.linspace(0, 3, 61)
    return points, moving_gaussians(points, times, (0.13, 0.09), 1e-3, (0.1, 0.16), count=3)


@pytest.mark.parametrize(
    ("along", "time"), [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.5, 0.5)]
)
def test_correlated_noise_of_sensors_is_recognised_and_can_be_drawn_again(sensors, along, time):
    from benchmarks.screening.screening_data import with_point_noise
    from cffem.data.noise.point_noise import measure_point_noise

    points, clean = sensors
    mesh = PointMesh.cached(points)
    data = with_point_noise(points, clean, 0.3, 1, along, time)
    noise = measure_point_noise(data, mesh.smoothing)
    rms = np.sqrt((clean**2).mean())
    assert noise.sd == pytest.approx(0.3 * rms, rel=0.1)
    assert noise.white == (along == time == 0)
    if not noise.white:
        assert [length > 0 for length in noise.correlation_lengths] == [along > 0, time > 0]
    for found, length in zip(noise.correlation_lengths, (along, time), strict=False):
        if length == 1:
            assert found == pytest.approx(1.0, rel=0.1)
    again, true = noise.draw(np.random.default_rng(2), data.shape), data - clean
    assert again.std() == pytest.approx(noise.sd, rel=0.05)
    pairs = mesh.simplices[:, :2]
    for shifted in (
        lambda v: (v[:, 1:] * v[:, :-1]).mean() / v.var(),
        lambda v: (v[pairs[:, 0]] * v[pairs[:, 1]]).mean() / v.var(),
    ):
        assert shifted(again) == pytest.approx(shifted(true), abs=0.06)
    assert np.linalg.norm(noise.remove(data) - clean) < 0.7 * np.linalg.norm(data - clean)


def test_clean_signals_of_sensors_are_not_taken_for_correlated_noise(sensors):
    from cffem.data.noise.point_noise import measure_point_noise

    points, clean = sensors
    noise = measure_point_noise(clean, PointMesh.cached(points).smoothing)
    assert noise.white
    assert noise.sd < 1e-4 * np.sqrt((clean**2).mean())


def test_missing_values_do_not_enter_the_noise():
    noisy = waves() + 0.1 * np.random.default_rng(0).standard_normal((200, 120))
    missing = np.zeros(noisy.shape, dtype=bool)
    missing[50:60, 20:40] = True
    assert noise_sd(np.where(missing, 1e6, noisy), missing) == pytest.approx(0.1, rel=0.05)


def test_denoising_brings_data_closer_to_the_truth():
    clean = waves()
    noisy = clean + 0.5 * np.random.default_rng(0).standard_normal(clean.shape)
    denoised = measure_noise(noisy).remove(noisy)
    assert np.linalg.norm(denoised - clean) < 0.2 * np.linalg.norm(noisy - clean)


def test_hermite_powers_are_unbiased():
    from cffem.data.rows.integrands import compiled

    noise = 0.7 * np.random.default_rng(0).standard_normal(400_000)
    for power in (2, 3, 4):
        function, names = compiled(hermite(u**power))
        inputs = [0.49 if "variance" in str(n) else 1.3 + noise for n in names]
        assert function(*inputs).mean() == pytest.approx(1.3**power, rel=0.02)


def test_bump_derivatives_match_differences():
    s = np.linspace(-1, 1, 20_001)
    rows = bump_derivatives(s, 7, 3)
    for d in range(3):
        np.testing.assert_allclose(
            np.gradient(rows[d], s)[5:-5], rows[d + 1][5:-5], atol=2e-5 * np.abs(rows[d + 1]).max()
        )
    with pytest.raises(ValueError, match="continuous derivatives"):
        bump_derivatives(s, 3, 3)


def test_axis_integrates_by_parts():
    points = np.linspace(0, 2, 401)
    axis = Axis(points, 60, 8, 15, 2)
    values = np.exp(points)
    np.testing.assert_allclose(-axis.matrices[1] @ values, axis.matrices[0] @ values, rtol=1e-6)
    np.testing.assert_allclose(axis.matrices[2] @ values, axis.matrices[0] @ values, rtol=1e-5)


def test_noisier_data_ask_for_wider_test_functions():
    clean = waves()
    widths = [
        half_width(
            200,
            spectral_corner(clean + s * np.random.default_rng(0).standard_normal(clean.shape), 0),
        )
        for s in (0.01, 1.0)
    ]
    assert widths[0] < widths[1]


@pytest.mark.parametrize("dim", [2, 3])
def test_quadrature_on_scattered_points_is_exact_for_linear_data(dim):
    points = np.random.default_rng(0).random((200, dim))
    points = np.concatenate(
        [points, np.stack(np.meshgrid(*[[0.0, 1.0]] * dim), axis=-1).reshape(-1, dim)]
    )
    mesh = PointMesh(points)
    _, weights = mesh.quadrature
    assert weights @ (mesh.interpolation(Spline()) @ (1 + 2 * points[:, 0])) == pytest.approx(
        mesh.volumes.sum() + 2 * (mesh.volumes @ points[mesh.simplices].mean(axis=1)[:, 0])
    )
    assert conical_rule(dim)[1].sum() == pytest.approx(1)


def test_local_fits_differentiate_quadratics_exactly():
    points = np.random.default_rng(1).random((300, 2))
    derivative = PointMesh(points).first_derivatives
    values = points[:, 0] ** 2 + 3 * points[:, 0] * points[:, 1]
    np.testing.assert_allclose(
        derivative[0] @ values, 2 * points[:, 0] + 3 * points[:, 1], atol=1e-8
    )
    np.testing.assert_allclose(derivative[1] @ values, 3 * points[:, 0], atol=1e-8)


def test_coordinates_of_pandas_are_days_or_refused():
    pandas = pytest.importorskip("pandas")
    dates = pandas.date_range("2024-03-30", periods=3)
    values = np.arange(6.0).reshape(3, 2)
    for times in (dates, dates.tz_localize("UTC"), dates.to_pydatetime(), dates - dates[0]):
        data = Dataset.from_arrays({t: times, x: [0.0, 1.0]}, {u: values})
        np.testing.assert_allclose(data.coordinates[t], [0, 1, 2])
    with pytest.raises(cf.InputError, match="numbers or dates, but 'soon' is neither"):
        Dataset.from_arrays({t: ["soon", "later", "last"], x: [0, 1]}, {u: values})


def test_missing_cells_of_pandas_are_masked():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[1.0, pandas.NA], [2.0, 3.0]], dtype="Float64")
    data = Dataset.from_arrays({t: [0, 1], x: [0, 1]}, {u: frame})
    assert data.mask.T.tolist() == [[False, True], [False, False]]


def test_known_fields_name_what_is_given_for_them():
    k, w = cf.Known("k"), cf.Known("w", dim=2)
    values = np.arange(8.0).reshape(2, 2, 2)
    given = {k: values[0], w: values}
    data = Dataset.from_arrays({t: [0, 1], x: [0, 1]}, given)
    same = {cf.ScalarField("k"): values[0], cf.VectorField("w", dim=2): values}
    assert list(data.values) == list(Dataset.from_arrays({t: [0, 1], x: [0, 1]}, same).values)
    with pytest.raises(cf.InputError, match="for fields, not for K"):
        Dataset.from_arrays({t: [0, 1], x: [0, 1]}, {cf.Known("K", dim=(2, 2)): values})
