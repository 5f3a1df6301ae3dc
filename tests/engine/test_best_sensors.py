"""Which sensors to take, against all choices; and what deletions change of what is measured."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx.mesh import create_unit_interval
from mpi4py import MPI

import cffem as cf
from cffem import x
from cffem.engine.calibration.best_sensors import candidate_matrices

u = cf.ScalarField("u")


def drifting():
    library = cf.Library(
        anchor=cf.dt(u), terms={"u": u, "u_x": u.diff(x), "lap": cf.lap(u), "cubic": u**3}
    )
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 20),
        elements={u: ("Lagrange", 2)},
        initial={u: sp.sin(sp.pi * x) + sp.sin(3 * sp.pi * x) / 2},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.5, steps=5),
    )
    return cf.Model(library, {"u": 0.5, "u_x": 0.3, "lap": 0.02, "cubic": -1e-9}, experiment)


CANDIDATES = cf.Sensors(np.linspace(0.05, 0.95, 10), [u], times=[0.2, 0.5], noise=0.01)


@pytest.mark.parametrize("criterion", ["E", "D"])
def test_the_choice_is_nearly_the_best_of_all(criterion):
    model = drifting()
    choice = cf.best_sensors(model, CANDIDATES, 3, criterion=criterion)
    matrices = candidate_matrices(model, CANDIDATES, model.library.names)
    scale = np.linalg.norm(np.concatenate(list(matrices.values())), axis=0)

    def worth(index):
        rows = np.concatenate([matrices[i] for i in index]) / scale
        values = np.linalg.eigvalsh(rows.T @ rows)
        return values[0] if criterion == "E" else np.sum(np.log(values))

    every = sorted(worth(index) for index in itertools.combinations(range(10), 3))
    own = worth(choice.names)
    assert own >= every[-1] - 1e-9 * abs(every[-1]) or own >= every[int(0.95 * len(every))]
    if criterion == "E":
        assert choice.value >= 0.9 * every[-1]
    assert choice.design.rank() == 4
    assert len(choice.observation.points) == 3


def test_units_of_terms_do_not_change_the_choice():
    model = drifting()
    library = cf.Library(
        anchor=cf.dt(u),
        terms={"u": u, "u_x": 1e4 * u.diff(x), "lap": cf.lap(u) / 1e3, "cubic": u**3},
    )
    scaled = cf.Model(
        library, {"u": 0.5, "u_x": 0.3e-4, "lap": 20.0, "cubic": -1e-9}, model.experiment
    )
    first, second = (cf.best_sensors(m, CANDIDATES, 3) for m in (model, scaled))
    assert first.names == second.names
    assert first.value == pytest.approx(second.value, rel=1e-6)


def test_what_is_measured_already_counts_and_observations_have_names():
    model = drifting()
    present = cf.Sensors([0.3], [u], noise=1e-4)
    candidates = {
        "there again": cf.Sensors([0.301], [u], noise=0.01),
        "elsewhere": cf.Sensors([0.8], [u], noise=0.01),
        "mean": cf.Series([cf.Average(u)], noise=0.01),
    }
    choice = cf.best_sensors(model, candidates, 1, present=present, criterion="D")
    assert choice.names == ("elsewhere",)
    two = cf.best_sensors(model, candidates, 2, present=present)
    assert len(two.design.names) == 4
    assert two.design.rows == 6 + 7


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((CANDIDATES, 11), "of 10 candidates 11 cannot be chosen"),
        ((CANDIDATES, 0), "cannot be chosen"),
        (([], 1), "candidates are cf.Sensors"),
    ],
)
def test_bad_choices_are_refused(arguments, words):
    with pytest.raises(cf.InputError, match=words):
        cf.best_sensors(drifting(), *arguments)
    with pytest.raises(cf.InputError, match="the criterion is one of"):
        cf.best_sensors(drifting(), CANDIDATES, 2, criterion="A")


def test_deletions_are_measured_in_standard_deviations_of_the_readings():
    model = drifting()
    sensors = cf.Sensors([0.3, 0.7], [u], times=[0.25, 0.5], noise=[0.01, 0.02, 0.03, 0.04])
    found = model.observation_deletions(sensors)
    operator = model.observation(sensors)
    for name in model.active:
        other = operator.values(model.solve(cf.delete(name)))
        change = (other - operator.values(model.factual)) / np.array([0.01, 0.02, 0.03, 0.04])
        assert found[name].score == pytest.approx(np.linalg.norm(change), rel=1e-6, abs=1e-9)
        assert found[name].largest == pytest.approx(np.abs(change).max(), rel=1e-6, abs=1e-9)
        assert found[name].state_score == pytest.approx(model.deletions(name)[name].score, rel=1e-8)
    assert "standard deviations of what is measured" in str(found["u_x"])
    with pytest.raises(cf.InputError, match="give the sensors their noise"):
        model.observation_deletions(cf.Sensors([0.3], [u]))


def test_a_term_can_matter_and_not_be_seen():
    """Drift moves mass about, which the mean over a closed interval does not see."""
    library = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u), "u": u})
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 12),
        elements={u: ("Lagrange", 2)},
        initial={u: 1 + sp.cos(sp.pi * x)},
        boundary=[cf.Neumann(u, 0)],
        time=cf.Window(0, 0.5, steps=5),
    )
    model = cf.Model(library, {"lap": 0.2, "u": -0.5}, experiment)
    found = model.observation_deletions(cf.Series([cf.Average(u)], [0.2, 0.5], noise=0.01))
    assert found["lap"].state_score > 0.1
    assert found["lap"].score < 1e-8
    assert found["u"].score > 10
