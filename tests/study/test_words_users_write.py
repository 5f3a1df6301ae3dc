"""The words of the language, one by one, as a user would write them: each call with these names and
keywords is a promise to scripts.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

import ufl
from dolfinx.mesh import create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem import div, dot, dt, grad, lap, x, y

u, T, v = cf.ScalarField("u"), cf.ScalarField("T"), cf.VectorField("v", dim=2)
k, w, K = cf.Known("k"), cf.Known("w", dim=2), cf.Known("K", dim=(2, 2))
rho, beta = cf.Known("rho"), cf.Known("beta")
JUDGED = cf.Certification(epsilon=0.01)
WINDOW = cf.Window(0, 1, steps=4)
DECISIONS = {"relevant", "irrelevant", "unresolved"}
LINES = {u: ("Lagrange", 1), T: ("Lagrange", 1), v: ("Lagrange", 1)}


def room(n=6):
    return cf.mesh.named(
        create_unit_square(MPI.COMM_SELF, n, n),
        cells={"glass": lambda p: p[0] < 0.5 + 1e-9, "air": lambda p: p[0] > 0.5 - 1e-9},
        facets={
            "wall": lambda p: p[1] < 1e-9,
            "coast": lambda p: p[1] > 1 - 1e-9,
            "inlet": lambda p: p[0] < 1e-9,
            "outlet": lambda p: p[0] > 1 - 1e-9,
        },
    )


def measured_wind():
    """(1 + t, x) on points of a grid."""
    axis, times = np.linspace(0, 1, 5), np.linspace(0, 1, 3)
    across, _, when = np.meshgrid(axis, axis, times, indexing="ij")
    return cf.Dataset.from_arrays(
        {"x": axis, "y": axis, "t": times}, {w: np.array([1 + when, across])}
    )


def run(library, experiment, coefficients, **more):
    return cf.Study(
        library, experiment, coefficients=coefficients, **{"certification": JUDGED, **more}
    ).run(quiet=True)


def test_known_fields_weights_parts_and_sensors():
    library = cf.Library(
        anchor=rho * dt(u),
        terms={
            "diffusion": div(k * grad(u)),
            "drift": -dot(w, grad(u)),
            "slip": cf.on("wall", -beta * u),
            "coastal drag": cf.on("coast", -u),
            "fibres": div(dot(K, grad(u))),
        },
    )
    coefficients = dict.fromkeys(library.terms, 0.1)
    sensors = cf.Sensors([(0.3, 0.4), (0.7, 0.6)], fields=[u], times=None, noise=0.02)
    experiment = cf.Experiment(
        mesh=room(),
        elements={u: LINES[u]},
        time=WINDOW,
        initial={u: 1},
        boundary=[
            cf.Dirichlet(u, 1, on="inlet"),
            cf.Natural(u, 0.1, on="outlet"),
            cf.Natural(u, 0, on=["wall", "coast"]),
        ],
        known={
            k: {"glass": 2.25, "air": 1.0},
            w: measured_wind(),
            K: sp.Matrix([[2, 1], [1, 2]]),
            rho: 1 + x,
            beta: 0.3,
        },
        observation=sensors,
    )
    design = cf.Model(library, coefficients, experiment).sensitivities(sensors)
    assert isinstance(design, cf.Design)
    assert 1 <= design.rank() <= 5
    assert design.alias_groups() is not None
    assert callable(design.best_addition)
    report = run(library, experiment, coefficients)
    assert {*report.terms} == {*library.terms}
    assert {term.decision for term in report.terms.values()} <= DECISIONS
    assert report.maps["coastal drag"].times[-1] == 1.0
    assert "2 points" in report.sections["scope"]["observation"]


def test_vector_terms_in_parts_and_deletions_in_parts():
    library = cf.Library(
        anchor=rho * dt(v),
        terms={
            "viscosity": div(k * cf.sym(grad(v))),
            "slip": cf.on("wall", -beta * v),
            "coastal drag": cf.on("coast", -v),
            "drag": -v,
        },
    )
    experiment = cf.Experiment(
        mesh=room(),
        elements={v: LINES[v]},
        time=WINDOW,
        initial={v: (1, 0)},
        boundary=[
            cf.Dirichlet(v, (1, 0), on="inlet"),
            cf.Natural(v, (0, 0), on=["outlet", "wall", "coast"]),
        ],
        known={k: {"glass": 2.25, "air": 1.0}, rho: {"glass": 1.0, "air": 2.0}, beta: 0.3},
    )
    changes = {
        "in glass": cf.delete("drag", on="glass", during=(0, 1)),
        "late": cf.delete("drag", during=(0.5, 1)),
        "all": cf.delete("drag"),
    }
    report = run(library, experiment, dict.fromkeys(library.terms, 0.1), interventions=changes)
    found = {name: change.deletion for name, change in report.interventions.items()}
    assert 0 < found["in glass"] < found["all"]
    assert 0 < found["late"] < found["all"]
    assert found["all"] == pytest.approx(report.terms["drag"].deletion, rel=1e-9)
    assert report.maps["drag"].volumes.sum() == pytest.approx(1)


LAWS = {
    "zero": 0,
    "number": 0.3,
    "place": x,
    "cooling": -u,
    "radiation": -(u**4),
    "exchange": T - u,
    "inertia": -2 * dt(u) + T,
}


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_natural_laws_named_interventions_and_weighted_norms(law):
    system = cf.System(
        {
            u: cf.Library(anchor=dt(u), terms={"lap": lap(u), "thermal": T}),
            T: cf.Library(anchor=dt(T), terms={"lap": lap(T), "heat": u - T}),
        }
    )
    experiment = cf.Experiment(
        mesh=room(4),
        elements={u: LINES[u], T: LINES[T]},
        time=WINDOW,
        initial={u: 1, T: 0},
        boundary=[
            cf.Natural(u, LAWS[law], on="outlet"),
            cf.Natural(u, 0, on=["wall", "coast", "inlet"]),
            cf.Dirichlet(T, 0),
        ],
    )
    report = run(
        system,
        experiment,
        {"u/lap": 1, "u/thermal": 1, "T/lap": 1, "T/heat": 1},
        certification=cf.Certification(epsilon=0.01, norm=cf.Norm({u: 1.0, T: 1e-2}, kind="L2")),
        interventions={
            "no heat exchange": cf.delete("u/thermal", "T/heat"),
            "half": cf.scale("u/lap", 0.5),
            "still air": cf.boundary(cf.Natural(u, 0, on="outlet")),
        },
        pairs=False,
    )
    still = report.interventions["still air"]
    assert (still.deletion < 1e-12) == (law == "zero")
    assert report.interventions["no heat exchange"].deletion > 0
    assert {*report.interventions} == {"no heat exchange", "half", "still air"}


def test_forms_are_terms():
    form = cf.Form(lambda u, v, dx: -ufl.inner(ufl.grad(u), ufl.grad(v)) * dx, linear=True)
    experiment = cf.Experiment(
        mesh=room(), elements={u: LINES[u]}, boundary=[cf.Dirichlet(u, x**2 + y)]
    )
    scores = [
        cf.Model(cf.Library(terms={"d": d, "u": -u}, unknown=u), {"d": 1.0, "u": 1.0}, experiment)
        .deletions(["u"])["u"]
        .score
        for d in (form, lap(u))
    ]
    assert scores[0] == pytest.approx(scores[1], rel=1e-12)


def test_generated_libraries():
    library = cf.Library.from_terms("1, u, u^2, grad(u), lap(u)", products=2)
    assert {"1", "u", "u^2", "u^3", "lap(u)", "u lap(u)", "|grad(u)|^2"} <= {*library.terms}
    assert library.terms["|grad(u)|^2"] == dot(grad(u), grad(u))


def test_anchors_with_numbers_and_auxiliary_equations():
    q = cf.ScalarField("q")
    start = sp.sin(sp.pi * x) * sp.sin(sp.pi * y)
    common = {"mesh": room(), "time": cf.Window(0, 0.1, steps=2), "initial": {u: start}}
    system = cf.System(
        {
            u: cf.Library(anchor=2 * dt(u), terms={"lap": q}),
            q: cf.Library(anchor=q - lap(u), terms={}),
        }
    )
    flat = [cf.Dirichlet(u, 0)]
    split = cf.Experiment(
        elements={u: LINES[u], q: LINES[u]}, boundary=[*flat, cf.Dirichlet(q, 0)], **common
    )
    plain = cf.Experiment(elements={u: LINES[u]}, boundary=flat, **common)
    library = cf.Library(anchor=2 * dt(u), terms={"lap": lap(u)})
    decayed = cf.Model(library, {"lap": 1.0}, plain).factual.function().x.array.max()
    found = cf.Model(system, {"u/lap": 1.0}, split).factual.function(u).x.array.max()
    assert found == pytest.approx(decayed, rel=2e-2)  # another discretisation of one problem


def test_profiles_and_kept_conditions():
    library = cf.Library(terms={"lap": lap(u), "drift": -u.diff(x), "loss": -u}, unknown=u)
    experiment = cf.Experiment(mesh=room(), elements={u: LINES[u]}, boundary=[cf.Dirichlet(u, x)])
    model = cf.Model(library, {"lap": 0.1, "drift": 1, "loss": 1}, experiment)
    profile = model.profile("loss")
    scores = model.interventions(
        {
            "carried": cf.delete("lap", conditions="carried"),
            "kept": cf.delete("lap", conditions="kept"),
            "loss": cf.delete("loss"),
        }
    )
    assert profile.scores[-1] == pytest.approx(scores["loss"].score, rel=1e-9)
    assert model.deletions(["lap"])["lap"].score == scores["carried"].score
    assert scores["kept"].score != scores["carried"].score


def heated(observation=None):
    library = cf.Library(anchor=dt(u), terms={"lap": lap(u), "drift": -u.diff(x), "loss": -u})
    experiment = cf.Experiment(
        mesh=room(),
        elements={u: LINES[u]},
        time=cf.Window(0, 1, steps=8),
        initial={u: 4 * sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 2 + x},
        observation=observation,
    )
    return library, experiment


TRUTH = {"lap": 0.1, "drift": 0.5, "loss": 0.2}
POINTS = [(a, b) for a in (0.25, 0.5, 0.75) for b in (0.3, 0.6)]


def rows_of_readings():
    sensors = cf.Sensors(POINTS, fields=[u], times=[0.25, 0.5, 1.0], noise=0.002)
    model = cf.Model(*heated()[:1], TRUTH, heated()[1])
    read = model.observation(sensors)
    noise = 0.002 * np.random.default_rng(7).standard_normal(len(read))
    values = read.values(model.factual) + noise
    places = read.places()
    return [
        {"x": p[0], "y": p[1], "t": s, "field": "u", "value": value, "noise": 0.002}
        for p, s, value in zip(places["points"], places["times"], values.tolist(), strict=True)
    ]


def test_calibration_from_tables_of_any_kind(tmp_path):
    pandas = pytest.importorskip("pandas")
    library, experiment = heated()
    rows = rows_of_readings()
    pandas.DataFrame(rows).to_csv(tmp_path / "readings.csv", index=False)
    readings = cf.Dataset.from_readings(rows)
    fit = cf.calibrate(library, experiment, readings, start=None)
    for name, value in TRUTH.items():
        low, high = fit.intervals[name]
        assert low < value < high, name
        assert low < fit.coefficients[name] < high
    assert 2 < fit.chi2 < 40  # 18 readings, 3 coefficients
    assert {*fit.identified} == {*TRUTH}
    assert fit.design.rank() == 3
    assert fit.model.coefficients == pytest.approx(fit.coefficients)
    assert fit.profile("lap").delta_chi2
    without = fit.without("lap")
    assert {*without.coefficients} == {"drift", "loss"}
    assert without.delta_chi2 > 100
    assert without.p_value < 1e-6
    for table in (str(tmp_path / "readings.csv"), pandas.DataFrame(rows)):
        again = cf.calibrate(library, experiment, cf.Dataset.from_readings(table))
        assert again.coefficients == pytest.approx(fit.coefficients, rel=1e-9)
    choice = cf.best_sensors(
        fit.model, candidates=cf.Sensors(POINTS, fields=[u], noise=0.01), count=2
    )
    assert len(choice.names) == 2


@pytest.mark.slow
def test_studies_of_readings():
    report = cf.Study(
        *heated(),
        data=cf.Dataset.from_readings(rows_of_readings()),
        fit="auto",
        certification=JUDGED,
    ).run(quiet=True)
    for name, value in TRUTH.items():
        assert report.terms[name].coefficient == pytest.approx(value, rel=0.1, abs=0.05)
    assert report.sections["calibration"]["chi2"] < 40


OBSERVATIONS = {
    "vectors": cf.Sensors([(0.3, 0.3)], fields=[v], times=None, noise=0.02),
    "components": cf.Sensors([(0.3, 0.3)], fields=[v[0]]),
    "part": cf.Part("glass"),
    "trace": cf.Trace("wall"),
    "series": cf.Series([cf.Integral(v[0], on="outlet")]),
}


@pytest.mark.parametrize("kind", OBSERVATIONS)
def test_observations(kind):
    library = cf.Library(anchor=dt(v), terms={"viscosity": lap(v), "drag": -v})
    experiment = cf.Experiment(
        mesh=room(4),
        elements={v: LINES[v]},
        time=WINDOW,
        initial={v: (1, 0)},
        boundary=[
            cf.Dirichlet(v, (1, 0), on="inlet"),
            cf.Natural(v, (0, 0), on=["outlet", "wall", "coast"]),
        ],
        observation=OBSERVATIONS[kind],
    )
    report = run(library, experiment, {"viscosity": 0.1, "drag": 0.3})
    assert report.sections["scope"]["observation"]
    assert report.terms["drag"].decision in DECISIONS
