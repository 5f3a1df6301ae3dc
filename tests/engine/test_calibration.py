"""Calibration from few sensors: exact recovery, intervals, deletions, profiles, what is not
identified, unknown noise, outliers, bounds, several experiments, failed solves, refusals.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx.mesh import create_unit_interval, create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem import x, y

u = cf.ScalarField("u")
v = cf.VectorField("v", dim=2)
TRUTH = {"u": 0.6, "lap": 0.05, "cubic": -0.8}
POINTS = [0.17, 0.33, 0.58, 0.81]


def reaction(comm=MPI.COMM_SELF, spurious=False, mode=2, steps=10):
    """u_t = 0.6 u + 0.05 u_xx − 0.8 u³ on an interval, perhaps with a candidate that is not
    there.
    """
    terms = {"u": u, "lap": cf.lap(u), "cubic": u**3}
    library = cf.Library(anchor=cf.dt(u), terms=terms | ({"u_x": u.diff(x)} if spurious else {}))
    experiment = cf.Experiment(
        mesh=create_unit_interval(comm, 16),
        elements={u: ("Lagrange", 2)},
        initial={u: 1.5 * sp.sin(sp.pi * x) + sp.sin(mode * sp.pi * x)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 1, steps=steps),
    )
    return library, experiment


def readings(library, experiment, sensors, seed=0, truth=TRUTH):
    model = cf.Model(library, truth, experiment)
    values = model.observation(sensors).values(model.factual)
    noise = np.random.default_rng(seed).normal(size=len(values))
    return values + (sensors.noise if np.isscalar(sensors.noise) else 0.0) * noise


def exact(library, experiment, sensors, truth=TRUTH):
    model = cf.Model(library, truth, experiment)
    return model.observation(sensors).values(model.factual)


@pytest.mark.parametrize("start", [None, {"u": 0.1, "lap": 0.1, "cubic": -0.1}])
def test_exact_readings_give_back_the_coefficients(start):
    library, experiment = reaction()
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    fit = cf.calibrate(library, experiment, (sensors, exact(library, experiment, sensors)), start)
    assert fit.coefficients == pytest.approx(TRUTH, rel=1e-6)
    assert fit.chi2 < 1e-8
    assert fit.identified == ("u", "lap", "cubic")
    assert fit.design.rank() == 3
    assert fit.model.coefficients == fit.coefficients
    assert fit.model.factual.norm() == pytest.approx(
        cf.Model(library, TRUTH, experiment).factual.norm(), rel=1e-6
    )


def test_intervals_are_those_of_a_least_squares_by_scipy_with_finite_differences():
    from scipy.optimize import least_squares

    library, experiment = reaction()
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    data = readings(library, experiment, sensors)
    fit = cf.calibrate(library, experiment, (sensors, data))
    model = cf.Model(library, TRUTH, experiment)
    operator = model.observation(sensors)

    def residual(alpha):
        change = [cf.set(name, value) for name, value in zip(TRUTH, alpha, strict=True)]
        return (operator.values(model.solve(change)) - data) / 0.02

    other = least_squares(residual, list(TRUTH.values()), jac="3-point", xtol=1e-12, ftol=1e-12)
    assert list(fit.coefficients.values()) == pytest.approx(other.x, rel=1e-5)
    assert fit.chi2 == pytest.approx(2 * other.cost, rel=1e-9)
    spread = 1.959964 * np.sqrt(np.diag(np.linalg.inv(other.jac.T @ other.jac)))
    for (low, high), value, half in zip(fit.intervals.values(), other.x, spread, strict=True):
        assert (low, high) == pytest.approx((value - half, value + half), rel=1e-4)


def test_the_data_decide_which_terms_are_needed():
    library, experiment = reaction(spurious=True)
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    fit = cf.calibrate(
        library, experiment, (sensors, readings(library, experiment, sensors, seed=4))
    )
    assert all(low <= TRUTH.get(n, 0) <= high for n, (low, high) in fit.intervals.items())
    assert not fit.tests.misfit
    for name in TRUTH:
        assert fit.without(name).needed, name
    rest = fit.without("u_x")
    assert not rest.needed
    assert "u_x" not in rest.coefficients
    # The fit of the smaller library is the same one.
    small, _ = reaction()
    again = cf.calibrate(
        small, experiment, (sensors, readings(library, experiment, sensors, seed=4))
    )
    assert rest.delta_chi2 == pytest.approx(again.chi2 - fit.chi2, abs=1e-3)
    assert rest.coefficients == pytest.approx(again.coefficients, rel=1e-2)


def test_a_profile_ends_where_the_refitted_chi2_has_grown_by_its_quantile():
    library, experiment = reaction()
    sensors = cf.Sensors(POINTS[:2], [u], times=[0.3, 0.6, 1.0], noise=0.05)
    data = readings(library, experiment, sensors, seed=1)
    fit = cf.calibrate(library, experiment, (sensors, data))
    profile = fit.profile("lap")
    assert profile.bounded
    low, high = profile.interval
    assert low < fit.coefficients["lap"] < high
    for end in profile.interval:
        held = cf.calibrate(
            library, experiment, (sensors, data), start=fit.coefficients, fixed={"lap": end}
        )
        assert held.chi2 - fit.chi2 == pytest.approx(3.84, abs=0.15)


def test_a_misfit_is_said():
    library, experiment = reaction()
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    data = readings(library, experiment, sensors)
    small = cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u)})
    fit = cf.calibrate(small, experiment, (sensors, data))
    assert fit.tests.chi2 < 1e-6
    assert fit.tests.white < 1e-3
    assert "go together" in fit.tests.misfit
    assert fit.tests.misfit in fit.notes


def test_a_fit_that_runs_backward_in_time_says_so_and_bounds_keep_it_from_that():
    """Readings that grow where they are large are explained best by negative diffusion."""
    library = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u)})
    _, experiment = reaction(steps=4)
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    growing = exact(library, experiment, sensors, {"lap": -1e-3})
    fit = cf.calibrate(library, experiment, (sensors, growing))
    assert fit.coefficients["lap"] == pytest.approx(-1e-3, rel=1e-4)
    assert any("give the fit bounds" in note for note in fit.notes)
    kept = cf.calibrate(library, experiment, (sensors, growing), bounds={"lap": (0, 1)})
    assert kept.coefficients["lap"] >= 0
    assert not any("give the fit bounds" in note for note in kept.notes)


def test_an_unknown_noise_level_is_estimated():
    library, experiment = reaction()
    known = cf.Sensors(POINTS, [u], noise=0.03)
    data = readings(library, experiment, known)
    unknown = cf.Sensors(POINTS, [u])
    fit = cf.calibrate(library, experiment, (unknown, data))
    assert fit.noise_level == pytest.approx(0.03, rel=0.3)
    assert not fit.noise_known
    assert fit.tests.chi2 is None
    expected = cf.calibrate(library, experiment, (known, data))
    assert fit.coefficients == pytest.approx(expected.coefficients, rel=1e-5)
    for name, spread in fit.deviations.items():
        assert spread / expected.deviations[name] == pytest.approx(fit.noise_level / 0.03)
    assert fit.without("cubic").p_value < 1e-3


def test_outliers_count_less_with_a_robust_loss():
    library, experiment = reaction()
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    data = readings(library, experiment, sensors)
    clean = cf.calibrate(library, experiment, (sensors, data))
    data[[7, 20, 31]] += 1.0
    plain = cf.calibrate(library, experiment, (sensors, data))
    robust = cf.calibrate(library, experiment, (sensors, data), loss="cauchy")
    for name, spread in robust.deviations.items():
        assert abs(robust.coefficients[name] - clean.coefficients[name]) < spread
        assert spread < 1.6 * clean.deviations[name]
    assert "noise" in plain.tests.misfit
    assert abs(robust.coefficients["u"] - 0.6) < 0.3 * abs(plain.coefficients["u"] - 0.6)


def test_bounds_priors_and_known_coefficients_are_kept():
    library, experiment = reaction()
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    data = exact(library, experiment, sensors)
    fit = cf.calibrate(library, experiment, (sensors, data), bounds={"u": (0.0, 0.5)})
    assert fit.coefficients["u"] == pytest.approx(0.5, abs=1e-6)
    assert any("u is at its bound" in note for note in fit.notes)
    fit = cf.calibrate(library, experiment, (sensors, data), fixed={"u": 0.6})
    assert fit.names == ("lap", "cubic")
    assert fit.coefficients["u"] == 0.6
    fit = cf.calibrate(library, experiment, (sensors, data), prior={"u": (0.0, 1e-6)})
    assert abs(fit.coefficients["u"]) < 1e-4


def test_several_experiments_tell_what_one_cannot():
    """One mode sees κ − λD only; two modes see both."""
    terms = {"u": u, "lap": cf.lap(u)}
    library = cf.Library(anchor=cf.dt(u), terms=terms)
    truth = {"u": 0.5, "lap": 0.04}

    def one(mode):
        return cf.Experiment(
            mesh=create_unit_interval(MPI.COMM_SELF, 64),
            elements={u: ("Lagrange", 3)},
            initial={u: sp.sin(mode * sp.pi * x)},
            boundary=[cf.Dirichlet(u, 0)],
            time=cf.Window(0, 1, steps=5),
        )

    sensors = cf.Sensors([0.3, 0.6], [u], noise=0.01)
    first, second = one(1), one(2)
    data = [exact(library, e, sensors, truth) for e in (first, second)]
    alone = cf.calibrate(library, first, (sensors, data[0]))
    assert alone.identified == ()
    assert alone.design.rank() == 1
    assert alone.intervals["u"] == (-np.inf, np.inf)
    profile = alone.profile("u")
    assert not profile.bounded
    assert "identifiable of {u, lap}" in profile.reason
    both = cf.calibrate(library, [first, second], [(sensors, d) for d in data])
    assert both.coefficients == pytest.approx(truth, rel=1e-5)
    assert both.identified == ("u", "lap")


def test_a_step_whose_solve_fails_is_shortened():
    """u_t = a u² blows up in finite time; the first step from zero goes far beyond that."""
    library = cf.Library(anchor=cf.dt(u), terms={"square": u**2, "lap": cf.lap(u)})
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 8),
        elements={u: ("Lagrange", 1)},
        initial={u: 1 + sp.cos(sp.pi * x) / 4},
        boundary=[cf.Neumann(u, 0)],
        time=cf.Window(0, 1, steps=40),
    )
    truth = {"square": 0.75, "lap": 0.02}
    sensors = cf.Sensors([0.1, 0.7], [u], noise=0.01)
    data = exact(library, experiment, sensors, truth)
    fit = cf.calibrate(library, experiment, (sensors, data))
    assert fit.coefficients == pytest.approx(truth, rel=1e-5)
    assert fit.solves > fit.iterations


def test_fewer_readings_than_coefficients_say_what_is_identifiable():
    library, experiment = reaction()
    sensors = cf.Sensors([0.3], [u], times=[0.5, 1.0], noise=0.02)
    data = exact(library, experiment, sensors)
    fit = cf.calibrate(library, experiment, (sensors, data), start=TRUTH)
    assert fit.design.rank() == 2
    assert fit.identified == ()
    assert any("2 readings cannot determine 3 coefficients" in note for note in fit.notes)
    assert any("is identifiable of" in note for note in fit.notes)


def test_a_sensor_that_reads_prescribed_values_is_named():
    library, experiment = reaction()
    sensors = cf.Sensors([0.0, *POINTS], [u], noise=0.02)
    fit = cf.calibrate(library, experiment, (sensors, exact(library, experiment, sensors)))
    assert "u of sensor 1 feels no coefficient" in fit.notes


def test_a_table_of_readings_is_fitted():
    library, experiment = reaction()
    sensors = cf.Sensors(POINTS, [u], times=[0.25, 0.55, 1.0], noise=0.02)
    values = exact(library, experiment, sensors).reshape(4, 3)
    rows = [
        {"x": point, "t": time, "field": "u", "value": values[i, k], "noise": 0.02}
        for i, point in enumerate(POINTS)
        for k, time in enumerate((0.25, 0.55, 1.0))
        if (i, k) != (2, 1)
    ]
    fit = cf.calibrate(library, experiment, cf.Dataset.from_readings(rows))
    assert fit.readings == 11
    assert fit.coefficients == pytest.approx(TRUTH, rel=1e-5)


def test_velocities_alone_fix_ratios_of_a_steady_flow():
    library = cf.Library(
        terms={
            "viscosity": cf.lap(v),
            "convection": -cf.dot(cf.grad(v), v),
            "friction": -v,
            "coriolis": cf.vector(v[1], -v[0]),
        },
        unknown=v,
    )
    p = cf.ScalarField("p")
    lid = sp.Piecewise((16 * x**2 * (1 - x) ** 2, y > 0.999), (0, True))
    experiment = cf.Experiment(
        mesh=create_unit_square(MPI.COMM_SELF, 6, 6),
        elements={v: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(v, (lid, 0))],
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    truth = {"viscosity": 0.05, "convection": 1.0, "friction": 0.5}
    points = np.random.default_rng(2).uniform(0.1, 0.95, (10, 2))
    sensors = cf.Sensors(points, [v], noise=0.002)
    data = exact(library, experiment, sensors, truth)
    start = {"viscosity": 0.08, "convection": 0.8, "friction": 0.2}
    fit = cf.calibrate(library, experiment, (sensors, data), start)
    found = fit.coefficients
    assert found["friction"] / found["convection"] == pytest.approx(0.5, rel=1e-4)
    assert found["viscosity"] / found["convection"] == pytest.approx(0.05, rel=1e-4)
    assert found["coriolis"] == 0.0
    # The scale, which nothing fixes, is that of the start.
    assert 0.5 < found["convection"] < 1.2
    assert fit.identified == ()
    names = {group.terms: group.name for group in fit.design.alias_groups()}
    assert names == {("viscosity", "convection", "friction"): "scale", ("coriolis",): ""}
    held = cf.calibrate(library, experiment, (sensors, data), start, fixed={"convection": 1.0})
    assert held.identified == ("viscosity", "friction")
    assert held.coefficients["friction"] == pytest.approx(0.5, rel=1e-4)


def test_discontinuous_transport_follows_the_sign_of_its_speed():
    library = cf.Library(anchor=cf.dt(u), terms={"u_x": -u.diff(x), "u": u})
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 20),
        elements={u: ("DG", 1)},
        initial={u: sp.exp(-40 * (x - 0.5) ** 2)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.2, steps=10),
    )
    truth = {"u_x": -1.0, "u": 0.3}
    sensors = cf.Sensors([0.31, 0.52], [u], noise=0.01)
    data = exact(library, experiment, sensors, truth)
    fit = cf.calibrate(library, experiment, (sensors, data), {"u_x": 0.2, "u": 0.0})
    assert fit.coefficients == pytest.approx(truth, rel=1e-5)


def test_transport_whose_inflow_nobody_gives_is_refused_on_the_way():
    library = cf.Library(anchor=cf.dt(u), terms={"u_x": -u.diff(x), "u": u})
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 10),
        elements={u: ("DG", 1)},
        initial={u: sp.exp(-40 * (x - 0.5) ** 2)},
        time=cf.Window(0, 0.2, steps=5),
    )
    sensors = cf.Sensors([0.31, 0.52], [u], noise=0.01)
    with pytest.raises(cf.InputError, match="u_x"):
        cf.calibrate(library, experiment, (sensors, np.linspace(0, 1, 12)))


def body(comm, path):
    library, experiment = reaction(comm)
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    alone = reaction(MPI.COMM_SELF)
    fit = cf.calibrate(library, experiment, (sensors, readings(*alone, sensors)))
    gone = fit.without("lap")
    if comm.rank == 0:
        with open(path, "w") as file:
            json.dump([fit.coefficients, fit.intervals, fit.chi2, gone.delta_chi2], file)


def test_two_and_three_ranks_fit_what_one_fits(on_ranks, tmp_path):
    path = tmp_path / "1.json"
    body(MPI.COMM_SELF, path)
    coefficients, intervals, chi2, delta = json.loads(path.read_text())
    for ranks in (2, 3):
        on_ranks(ranks, body, str(path))
        other = json.loads(path.read_text())
        assert other[0] == pytest.approx(coefficients, rel=1e-7)
        for name, ends in intervals.items():
            assert other[1][name] == pytest.approx(ends, rel=1e-6)
        assert other[2:] == pytest.approx([chi2, delta], rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"start": {"lapp": 1}}, "no term 'lapp'"),
        ({"fixed": TRUTH}, "nothing is left to fit"),
        ({"loss": "square"}, "the loss is one of"),
        ({"bounds": {"u": (1, 0)}}, "need low < high"),
        ({"prior": {"u": (1, 0)}}, "positive deviation"),
        ({"readings": [1, 2, 3]}, "pair of an observation"),
        ({"readings": "short"}, "has 44 readings, but 3 values"),
        ({"readings": "gaps"}, "leave out gaps"),
    ],
)
def test_bad_fits_are_refused_in_one_sentence(changes, words):
    library, experiment = reaction()
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    given = {
        "short": (sensors, [1, 2, 3]),
        "gaps": (sensors, [np.nan] * 44),
    }.get(str(changes.get("readings")), changes.pop("readings", (sensors, np.zeros(44))))
    changes.pop("readings", None)
    with pytest.raises(cf.InputError, match=words) as caught:
        cf.calibrate(library, experiment, given, **changes)
    assert "\n" not in str(caught.value)


def coverage(seeds):
    """How often 95 % intervals hold the truth, how often each term is needed, and a list of
    misfits.
    """
    library, experiment = reaction(spurious=True, steps=6)
    sensors = cf.Sensors(POINTS, [u], noise=0.05)
    hits = dict.fromkeys(library.names, 0)
    needed = dict.fromkeys(library.names, 0)
    misfits = []
    data = exact(library, experiment, sensors)
    for seed in range(seeds):
        noise = np.random.default_rng(seed).normal(size=len(data))
        fit = cf.calibrate(library, experiment, (sensors, data + 0.05 * noise), start=TRUTH)
        for name, (low, high) in fit.intervals.items():
            hits[name] += low <= TRUTH.get(name, 0.0) <= high
            needed[name] += fit.without(name).needed
        misfits += [seed] if fit.tests.misfit else []
    return hits, needed, misfits


@pytest.mark.slow
def test_intervals_cover_the_truth_as_often_as_they_say():
    seeds = 200
    hits, needed, misfits = coverage(seeds)
    for name, count in hits.items():
        # Three standard deviations of a count of 95 %.
        assert abs(count / seeds - 0.95) <= 3 * np.sqrt(0.95 * 0.05 / seeds), (name, hits)
    assert needed["u_x"] / seeds <= 0.05 + 3 * np.sqrt(0.95 * 0.05 / seeds)
    assert len(misfits) <= 3


def channel_flow(comm):
    """Steady flow past a cylinder with candidates that velocities tell apart poorly."""
    library = cf.Library(
        terms={
            "viscosity": cf.lap(v),
            "convection": -cf.dot(cf.grad(v), v),
            "friction": -v,
            "coriolis": cf.vector(v[1], -v[0]),
        },
        unknown=v,
    )
    p, height = cf.ScalarField("p"), sp.Rational(41, 100)
    inflow = (sp.Rational(6, 5) * y * (height - y) / height**2, 0)
    experiment = cf.Experiment(
        mesh=cf.mesh.channel(comm, h=0.1),
        elements={v: ("Lagrange", 2)},
        boundary=[
            cf.Dirichlet(v, inflow, on="inlet"),
            cf.Dirichlet(v, 0, on=("walls", "cylinder")),
            cf.Neumann(v, 0, on="outlet"),
        ],
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    return library, experiment


@pytest.mark.slow
def test_ten_velocities_behind_a_cylinder_without_pressure():
    library, experiment = channel_flow(MPI.COMM_SELF)
    truth = {"viscosity": 1e-3, "convection": 1.0, "friction": 5e-3}
    generator = np.random.default_rng(5)
    points = np.column_stack([generator.uniform(0.3, 1.8, 10), generator.uniform(0.05, 0.36, 10)])
    plain = cf.Sensors(points, [v])
    clean = exact(library, experiment, plain, truth)
    noise = 0.03 * np.sqrt(np.mean(clean**2))
    sensors = cf.Sensors(points, [v], noise=noise)
    data = clean + noise * generator.normal(size=len(clean))
    start = {"viscosity": 1.5e-3, "convection": 0.8, "friction": 1e-2}
    fit = cf.calibrate(library, experiment, (sensors, data), start)
    values, vectors = np.linalg.eigh(fit.design.normalised_gram())
    assert abs(values[0]) < 1e-13 < values[1]
    assert np.abs(vectors[:2, 0]) == pytest.approx([0.71, 0.70], abs=0.02)
    assert fit.design.alias_groups()[0].name == "scale"
    assert 0.4 < fit.chi2 / fit.readings < 1.8
    held = cf.calibrate(library, experiment, (sensors, data), start, fixed={"convection": 1.0})
    assert held.identified == ("viscosity", "friction", "coriolis")
    assert held.chi2 == pytest.approx(fit.chi2, rel=1e-3)
    for name, (low, high) in held.intervals.items():
        assert low <= truth.get(name, 0.0) <= high
    assert not held.without("coriolis").needed


@pytest.mark.parametrize("seed", [0, 3])
def test_five_terms_with_all_deletions_fitted_again_take_no_more_than_25_solves(seed):
    terms = {"u": u, "u_x": u.diff(x), "u_y": u.diff(y), "lap": cf.lap(u), "u^3": u**3}
    library = cf.Library(anchor=cf.dt(u), terms=terms)
    experiment = cf.Experiment(
        mesh=create_unit_square(MPI.COMM_SELF, 6, 6),
        elements={u: ("Lagrange", 2)},
        initial={u: (2 * sp.sin(sp.pi * x) + sp.sin(2 * sp.pi * x)) * sp.sin(sp.pi * y)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 1, steps=12),
    )
    truth = {"u": 0.6, "u_x": 0.5, "lap": 0.02, "u^3": -0.8}
    sensors = cf.Sensors(np.random.default_rng(seed).uniform(0.1, 0.9, (12, 2)), [u], noise=0.03)
    data = readings(library, experiment, sensors, seed, truth)
    fit = cf.calibrate(library, experiment, (sensors, data))
    needed = {name for name in terms if fit.without(name).needed}
    assert needed == set(truth)
    assert fit.solves <= 25
    # Δχ² of a deletion agrees with a fit of its own, and one that is cut short is near it.
    rest = fit.without("lap", closely=True)
    small = cf.Library(anchor=cf.dt(u), terms={n: e for n, e in terms.items() if n != "lap"})
    again = cf.calibrate(small, experiment, (sensors, data), start=rest.coefficients)
    assert rest.delta_chi2 == pytest.approx(again.chi2 - fit.chi2, rel=0.03)
    short = fit.without("lap")
    assert 100 < short.delta_chi2 <= short.at_most
    assert 0.5 < short.delta_chi2 / rest.delta_chi2 < 2
    assert rest.delta_chi2 <= 1.001 * short.at_most
