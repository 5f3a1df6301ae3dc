"""Profiles ρ ↦ δ(ρ) against exact ones: folds, resonances, blow-up in time, linear terms,
observables; on any number of ranks.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import x
from cffem.engine.deletion.profile import Profile

COMM = MPI.COMM_SELF
u = cf.ScalarField("u")
FOLD = 3.513830719125162  # u'' + λ eᵘ = 0 on (0, 1) has solutions up to this λ
NORM = math.sqrt(0.5)  # of sin πx in L2(0, 1)


def bratu(comm=COMM):
    library = cf.Library(terms={"lap": cf.lap(u), "heat": sp.exp(u)}, unknown=u)
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(comm, 0.05),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
    )
    return cf.Model(library, {"lap": 1.0, "heat": 2.0}, experiment)


def oscillator(coefficients, comm=COMM):
    """a u'' + b u + sin πx = 0 is solved by sin πx/(aπ² − b)."""
    library = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(comm, 0.05),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: sp.sin(sp.pi * x)},
    )
    return cf.Model(library, coefficients, experiment)


def logistic(comm=COMM, steps=100, end=2.0):
    """u' = u² − b u from 1 blows up at −log(1 − b)/b where b < 1."""
    library = cf.Library(anchor=cf.dt(u), terms={"square": u**2, "decay": -u})
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(comm, 0.25),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Neumann(u, 0)],
        initial={u: 1},
        time=cf.Window(0, end, steps=steps),
    )
    return cf.Model(library, {"square": 1.0, "decay": 2.0}, experiment)


def test_a_profile_ends_at_the_fold():
    with bratu() as model:
        profile = model.profile("lap", resolution=1e-3)
        assert model.deletions(["lap"])["lap"].status == "unsolvable"
    assert profile.reach < 1 - 2 / FOLD < profile.beyond <= profile.reach + 1e-3
    assert (profile.cause, profile.complete) == ("fold", False)
    assert "fold" in profile.reason
    assert np.all(np.diff(profile.rho) > 0)
    assert np.all(np.diff(profile.scores) > 0)


def test_a_profile_of_a_nonlinear_term_is_that_of_single_solves():
    with bratu() as model:
        profile = model.profile("lap")
        for rho, score in zip(profile.rho[:3], profile.scores, strict=False):
            solution = model.solve(cf.scale("lap", 1 - rho))
            assert score == pytest.approx(solution.distance(model.factual), rel=1e-9)
        assert profile.slope == pytest.approx(float(model.linearised("lap")), rel=1e-12)
    gaps = np.abs(np.array(profile.scores) - np.array(profile.rho) * profile.slope)
    assert len(profile.bounds) == len(profile.rho)
    assert np.all(gaps <= np.array(profile.bounds))


@pytest.mark.parametrize("name", ["u", "lap"])
def test_a_linear_profile_is_exact(name):
    """b = −5: no resonance, and both terms can be deleted."""
    before = {"lap": 1.0, "u": -5.0}
    with oscillator(before) as model:
        profile = model.profile(name)
    assert profile.complete
    assert (profile.beyond, profile.reason, profile.rho[-1]) == (None, "", 1.0)

    def amplitude(rho):
        after = {**before, name: (1 - rho) * before[name]}
        return 1 / (after["lap"] * math.pi**2 - after["u"])

    exact = [NORM * abs(amplitude(rho) - amplitude(0)) for rho in profile.rho]
    np.testing.assert_allclose(profile.scores, exact, rtol=2e-4)
    rate = (amplitude(1e-6) - amplitude(-1e-6)) / 2e-6
    assert profile.slope == pytest.approx(NORM * abs(rate), rel=1e-4)


def test_a_profile_ends_at_a_resonance_and_says_so():
    with oscillator({"lap": 1.0, "u": 5.0}) as model:
        profile = model.profile("lap")
    assert profile.reach < 1 - 5 / math.pi**2 < profile.beyond
    assert profile.cause == "blow-up"
    assert "resonance" in profile.reason


def test_a_profile_goes_on_to_a_deletion_that_is_singular():
    """Of u'' alone nothing is left: δ(ρ) = ‖u‖ ρ/(1 − ρ) up to the last ρ."""
    with oscillator({"lap": 1.0}) as model:
        profile = model.profile("lap")
        norm = model.factual.norm()
    rho = np.array(profile.rho)
    np.testing.assert_allclose(profile.scores, norm * rho / (1 - rho), rtol=1e-9)
    assert (profile.reach, profile.beyond, profile.cause) == (0.99, 1.0, "singular")


def test_a_profile_in_time_ends_where_solutions_blow_up():
    with logistic() as model:
        profile = model.profile("decay")
    last = 1 - 0.79681213 / 2  # −log(1 − b)/b = 2
    assert profile.reach - 0.01 < last < profile.beyond + 0.01
    assert profile.beyond - profile.reach <= 0.01
    assert not profile.complete
    assert np.all(np.diff(profile.scores) > 0)


def test_a_profile_in_time_is_exact():
    """u' = −b u: the scores are those of exponentials."""
    library = cf.Library(anchor=cf.dt(u), terms={"decay": -u})
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(COMM, 0.5),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Neumann(u, 0)],
        initial={u: 1},
        time=cf.Window(0, 1, steps=50),
    )
    with cf.Model(library, {"decay": 1.0}, experiment) as model:
        profile = model.profile("decay", points=4)
    times = np.linspace(0, 1, 2001)
    exact = [
        math.sqrt(np.trapezoid((np.exp(-(1 - rho) * times) - np.exp(-times)) ** 2, times))
        for rho in profile.rho
    ]
    np.testing.assert_allclose(profile.scores, exact, rtol=2e-4)
    assert profile.complete
    assert profile.rho == (0.25, 0.5, 0.75, 0.99, 1.0)


def test_where_a_term_becomes_relevant_is_found():
    """‖u(ρ) − u‖ = ‖u‖ ρ/(1 − ρ) is ‖u‖/4 at ρ = 1/5."""
    with oscillator({"lap": 1.0}) as model:
        epsilon = model.factual.norm() / 4
        profile = model.profile("lap", epsilon=epsilon, resolution=2e-3)
    found = profile.relevant_from(epsilon)
    assert 0.2 < found <= 0.2 + 2e-3
    assert profile.relevant_from(epsilon, margins=epsilon) > 1 / 3
    assert profile.relevant_from(1e9) is None


def test_a_profile_of_an_observable():
    with oscillator({"lap": 1.0}) as model:
        observable = cf.Integral(u)
        profile = model.profile("lap", observable=observable)
        value = model.measurement(observable).value(model.factual)
        slope = model.observable_scores(observable, ["lap"])["lap"]
    rho = np.array(profile.rho)
    np.testing.assert_allclose(profile.scores, abs(value) * rho / (1 - rho), rtol=1e-9)
    assert profile.slope == pytest.approx(abs(value), rel=1e-9) == pytest.approx(slope)


def test_a_branch_that_cannot_be_left_is_said():
    """At the fold itself no ρ > 0 has a solution."""
    library = cf.Library(anchor=cf.dt(u), terms={"square": u**2, "decay": -u})
    with logistic(end=30.0, steps=60) as model:
        start = cf.Experiment(**{**vars(model.experiment), "initial": {u: 2}})
    with cf.Model(library, {"square": 1.0, "decay": 2.0}, start) as model:
        profile = model.profile("decay", points=2)
    assert profile.reach < 1e-2


def test_a_profile_can_be_written_down():
    with bratu() as model:
        profile = model.profile("lap", points=2, resolution=0.1)
    assert Profile.from_plain(json.loads(json.dumps(profile.to_plain()))) == profile
    assert len(repr(profile)) < 120


def test_what_has_no_profile_is_refused():
    with oscillator({"lap": 1.0}) as model:
        with pytest.raises(cf.InputError, match="coefficient of 'u' is zero"):
            model.profile("u")
        with pytest.raises(cf.LibraryError, match="'lap'"):
            model.profile("lab")
        with pytest.raises(cf.InputError, match="positive number of points"):
            model.profile("lap", points=0)
        with pytest.raises(cf.InputError, match="epsilon"):
            model.profile("lap", epsilon=-1.0)


def profiles(comm):
    """A steady and a transient one, as plain data."""
    found = []
    for model, name in ((bratu(comm), "lap"), (logistic(comm, steps=8), "decay")):
        with model:
            found.append(model.profile(name, points=2, resolution=0.1).to_plain())
    return found


def body_of_ranks(comm, expected):
    for found, alone in zip(profiles(comm), json.loads(expected), strict=True):
        for key in ("rho", "reach", "beyond", "cause"):
            assert found[key] == alone[key]
        np.testing.assert_allclose(found["scores"], alone["scores"], rtol=1e-9)
        np.testing.assert_allclose(found["slope"], alone["slope"], rtol=1e-9)


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_profile_is_the_same_on_any_number_of_ranks(on_ranks, ranks):
    on_ranks(ranks, body_of_ranks, json.dumps(profiles(COMM)))
