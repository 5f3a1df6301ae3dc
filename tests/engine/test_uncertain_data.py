"""Initial and boundary values that are known up to amplitudes: derivatives against differences,
fits that find them, designs from which they are projected out, refusals in words.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import dt, grad, lap, t, x, y
from cffem.engine.response.data_responses import amplitude_responses
from cffem.engine.time.amplitudes import modes_of
from cffem.symbols.problem.interventions import Intervention

u = cf.ScalarField("u")
v = cf.VectorField("v", dim=2)
POINTS = [(0.2, 0.3), (0.7, 0.6), (0.45, 0.8)]
BUBBLE = x * (1 - x) * y * (1 - y)


def scalar(comm=MPI.COMM_SELF):
    library = cf.Library(anchor=dt(u), terms={"lap": lap(u), "u": u, "cubic": u**3})
    experiment = cf.Experiment(
        mesh=cf.mesh.square(comm, 0.3),
        elements={u: ("Lagrange", 2)},
        initial={u: x * y},
        boundary=[
            cf.Dirichlet(u, 0, on="left"),
            cf.Dirichlet(u, x * y + t, on=("right", "top")),
            cf.Neumann(u, 0, on="bottom"),
        ],
        time=cf.Window(0, 0.5, steps=5),
        uncertain=[
            cf.Uncertain(u, [sp.sin(2 * x), y]),
            cf.Uncertain(u, {"constant": sp.Integer(1), "swing": y * sp.sin(3 * t)}, on="right"),
        ],
    )
    return library, {"lap": 0.1, "u": 0.5, "cubic": -1.0}, experiment, [u]


def wave(comm=MPI.COMM_SELF):
    library = cf.Library(anchor=dt(dt(u)), terms={"lap": lap(u), "cubic": -(u**3)})
    experiment = cf.Experiment(
        mesh=cf.mesh.square(comm, 0.3),
        elements={u: ("Lagrange", 2)},
        initial={u: x * y, dt(u): 0},
        boundary=[cf.Dirichlet(u, x * y + t * t)],
        time=cf.Window(0, 0.8, steps=5),
        uncertain=[
            cf.Uncertain(dt(u), [BUBBLE]),
            cf.Uncertain(u, [t * x, t**2 * y], on="all"),
        ],
    )
    return library, {"lap": 1.0, "cubic": 1.0}, experiment, [u]


def steady(comm=MPI.COMM_SELF):
    terms = {"lap": lap(u), "cubic": -(u**3), "one": sp.Integer(1)}
    experiment = cf.Experiment(
        mesh=cf.mesh.square(comm, 0.3),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, x * y)],
        uncertain=cf.Uncertain(u, [x, y], on="all"),
    )
    library = cf.Library(terms=terms, unknown=u)
    return library, {"lap": 1.0, "cubic": 1.0, "one": 1.0}, experiment, [u]


def flow(comm=MPI.COMM_SELF):
    p = cf.ScalarField("p")
    library = cf.Library(
        anchor=dt(v), terms={"viscosity": lap(v), "convection": -cf.dot(v, grad(v))}, unknown=v
    )
    swirl = (sp.sin(sp.pi * x) ** 2 * y * (1 - y), BUBBLE)
    experiment = cf.Experiment(
        mesh=cf.mesh.square(comm, 0.35),
        elements={v: ("Lagrange", 2), p: ("Lagrange", 1)},
        initial={v: (0, 0)},
        boundary=[
            cf.Dirichlet(v, (0, 0), on=("left", "right", "bottom")),
            cf.Dirichlet(v, (x * (1 - x), 0), on="top"),
        ],
        time=cf.Window(0, 1, steps=3),
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
        uncertain=[cf.Uncertain(v, [swirl]), cf.Uncertain(v, [(t * x * (1 - x), 0)], on="top")],
    )
    return library, {"viscosity": 0.05, "convection": 1.0}, experiment, [v]


PROBLEMS = {f.__name__: f for f in (scalar, wave, steady, flow)}


@pytest.mark.parametrize("name", PROBLEMS)
def test_derivatives_by_amplitudes_agree_with_differences(name):
    library, coefficients, experiment, fields = PROBLEMS[name]()
    model = cf.Model(library, coefficients, experiment)
    operator, count = model.observation(cf.Sensors(POINTS, fields)), len(modes_of(model))
    place = 0.1 * np.cos(np.arange(count) + 1.0)

    def seen(amplitudes):
        return operator.values(model.solve(Intervention(amplitudes=tuple(amplitudes))))

    about = model.solve(Intervention(amplitudes=tuple(place)), stages=True)
    slopes = operator.derivatives(about, amplitude_responses(about))
    for k, step in enumerate(1e-4 * np.eye(count)):
        difference = (seen(place + step) - seen(place - step)) / 2e-4
        assert slopes[:, k] == pytest.approx(difference, rel=1e-6, abs=1e-7 * abs(difference).max())


def diffusion(deviation=None, basis=2, comm=MPI.COMM_SELF):
    """Decay from a start that is known up to modes."""
    library = cf.Library(anchor=dt(u), terms={"lap": lap(u), "u_x": u.diff(x)})
    return library, cf.Experiment(
        mesh=cf.mesh.square(comm, 0.2),
        elements={u: ("Lagrange", 2)},
        initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.5, steps=8),
        uncertain=cf.Uncertain(u, basis, deviation=deviation),
    )


FUNCTIONS = [
    sp.sin(sp.pi * x) * sp.sin(sp.pi * y),
    sp.sin(2 * sp.pi * x) * sp.sin(sp.pi * y),
]
PLACES = [(0.3, 0.4), (0.6, 0.3), (0.8, 0.7), (0.25, 0.75), (0.5, 0.55)]


def fitted(deviation=None, noise=0.01, basis=FUNCTIONS, comm=MPI.COMM_SELF):
    library, experiment = diffusion(deviation, basis, comm)
    world = cf.Model(library, {"lap": 0.1, "u_x": 0.4}, experiment)
    sensors = cf.Sensors(PLACES, [u], noise=0.01)
    start = world.solve(Intervention(amplitudes=(0.3, -0.2)))
    data = world.observation(sensors).values(start)
    data = data + 0.01 * np.random.default_rng(5).normal(size=len(data))
    return cf.calibrate(library, experiment, (cf.Sensors(PLACES, [u], noise=noise), data))


@pytest.mark.parametrize("basis", [FUNCTIONS, 2])
def test_a_start_that_is_known_up_to_amplitudes_is_estimated(basis):
    fit = fitted(basis=basis)
    assert fit.names == ("lap", "u_x")
    found = {name.split()[-1]: value for name, value in fit.amplitudes.items()}
    first, second = fit.amplitude_deviations.values()
    assert found["1"] == pytest.approx(0.3, abs=4 * first)
    assert found["2"] == pytest.approx(-0.2, abs=4 * second)
    assert all(
        low <= {"lap": 0.1, "u_x": 0.4}[n] <= high for n, (low, high) in fit.intervals.items()
    )
    assert fit.design.notes["projected out"] == tuple(fit.amplitudes)
    assert any("2 amplitudes of uncertain data" in note for note in fit.notes)
    # The model with the estimates is the one at the end of the fit.
    seen = fit.model.observation(cf.Sensors(PLACES, [u], noise=0.01)).values(fit.model.factual)
    assert (seen - fit.cases[0].data) / 0.01 == pytest.approx(fit.residuals, abs=1e-6)
    # Data that do not know the amplitudes are a misfit, and the fit of them is another one.
    library, experiment = diffusion(basis=basis)
    sure = cf.Experiment(**{**vars(experiment), "uncertain": ()})
    wrong = cf.calibrate(library, sure, (cf.Sensors(PLACES, [u], noise=0.01), fit.cases[0].data))
    assert wrong.tests.misfit


def test_deviations_are_those_of_the_whole_least_squares():
    fit = fitted(deviation=0.5)
    whole = fit._problem.matrix(fit.best)
    covariance = np.linalg.inv(whole.T @ whole)
    expected = np.sqrt(np.diag(covariance))
    found = [*fit.deviations.values(), *fit.amplitude_deviations.values()]
    assert found == pytest.approx(expected, rel=1e-8)
    sure = fitted(deviation=1e-6)
    assert abs(next(iter(sure.amplitudes.values()))) < 1e-5  # the prior holds them at zero
    assert fit.without("u_x").needed


def test_priors_weigh_in_units_of_a_noise_level_that_is_estimated():
    unknown = fitted(deviation=0.1, noise=None)
    assert unknown.noise_level == pytest.approx(0.01, rel=0.4)
    # The same fit where the level that was found is given.
    level = fitted(deviation=0.1, noise=unknown.noise_level)
    assert unknown.coefficients == pytest.approx(level.coefficients, rel=1e-3)
    assert list(unknown.deviations.values()) == pytest.approx(
        list(level.deviations.values()), rel=1e-2
    )
    assert list(unknown.amplitudes.values()) != pytest.approx([*fitted().amplitudes.values()], 1e-3)


def test_a_coefficient_that_uncertain_data_explain_is_not_identified():
    """One mode that decays, with an unknown amplitude and one reading time."""
    library = cf.Library(anchor=dt(u), terms={"lap": lap(u)})
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, 1 / 16),
        elements={u: ("Lagrange", 2)},
        initial={u: sp.sin(sp.pi * x)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.5, steps=8),
        uncertain=cf.Uncertain(u, 1),
    )
    model = cf.Model(library, {"lap": 0.1}, experiment)
    once = cf.Sensors([0.3, 0.6], [u], times=[0.5], noise=0.01)
    assert model.sensitivities(once).deviations()["lap"] > 1e3
    assert model.sensitivities(cf.Sensors([0.3], [u], noise=0.01)).deviations()["lap"] < 1


REFUSED = {
    "a field u": lambda: cf.Uncertain(x, [x]),
    "not 'modes'": lambda: cf.Uncertain(u, "modes"),
    "give 1 to 60": lambda: cf.Uncertain(u, []),
    "without t": lambda: cf.Uncertain(u, [t * x]),
    "positive number": lambda: cf.Uncertain(u, [x], deviation=-1),
    "or 1 of them": lambda: cf.Uncertain(u, [x], deviation=[1, 2]),
    "for initial values; give functions": lambda: cf.Uncertain(u, 3, on="left"),
    "has no element": lambda: cf.Uncertain(cf.ScalarField("w"), [x]),
    "twice": lambda: [cf.Uncertain(u, [x]), cf.Uncertain(u, [y])],
    "takes cf.Uncertain": lambda: [u],
    "no value of u is prescribed there": lambda: cf.Uncertain(u, [x], on="bottom"),
    "has no boundary part 'lid'": lambda: cf.Uncertain(u, [x], on="lid"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_bad_uncertain_data_are_refused_in_one_sentence(words):
    library, coefficients, experiment, _ = scalar()

    def solve():
        changed = cf.Experiment(**{**vars(experiment), "uncertain": REFUSED[words]()})
        return cf.Model(library, coefficients, changed).factual

    with pytest.raises(cf.InputError, match=words) as caught:
        solve()
    assert "\n" not in str(caught.value)


def on(comm, path):
    fit = fitted(deviation=0.5, basis=2, comm=comm)
    if comm.rank == 0:
        with open(path, "w") as file:
            json.dump([fit.coefficients, fit.amplitudes, fit.deviations, fit.chi2], file)


@pytest.mark.slow
def test_two_and_three_ranks_estimate_what_one_estimates(on_ranks, tmp_path):
    on(MPI.COMM_SELF, tmp_path / "1.json")
    alone = json.loads((tmp_path / "1.json").read_text())
    for ranks in (2, 3):
        on_ranks(ranks, on, str(tmp_path / f"{ranks}.json"))
        other = json.loads((tmp_path / f"{ranks}.json").read_text())
        for mine, theirs in zip(alone[:3], other[:3], strict=True):
            assert theirs == pytest.approx(mine, rel=1e-5)
        assert other[3] == pytest.approx(alone[3], rel=1e-8)
