"""One observer is told of every solve, level and deletion, and can stop all of them, whichever way
a deletion is computed.
"""

from __future__ import annotations

import gc
import weakref

import pytest

pytest.importorskip("dolfinx")

import numpy as np
import sympy as sp
from dolfinx.mesh import create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem import x, y
from cffem.engine.deletion import rank_groups
from cffem.engine.observer import Observer

u = cf.ScalarField("u")
STEPS = 4


class Told(Observer):
    """Writes down what it is told, and stops where it shall."""

    def __init__(self, stop_after=None):
        self.solves, self.levels, self.deleted, self.asked = [], [], [], 0
        self.stop_after = stop_after

    def solve(self, names, levels):
        self.solves.append((tuple(names), levels))

    def level(self, level, record):
        self.levels.append(level)

    def deletion(self, deletion):
        self.deleted.append(deletion.term)

    def stop(self, comm):
        self.asked += 1
        if self.stop_after is not None and self.asked > self.stop_after:
            raise Stopped


class Stopped(BaseException):
    """The end of a run that somebody asked for."""


def problem(comm=MPI.COMM_SELF, observer=None, nonlinear=False, steady=False):
    terms = {
        "u": -u,
        "u_x": u.diff(x),
        "lap": cf.lap(u),
        **({"cube": -(u**3)} if nonlinear else {}),
    }
    anchor = {"unknown": u} if steady else {"anchor": cf.dt(u)}
    experiment = cf.Experiment(
        mesh=create_unit_square(comm, 6, 6),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        **(
            {"forcing": {u: 1 + x}}
            if steady
            else {
                "initial": {u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
                "time": cf.Window(0, 0.2, steps=STEPS),
            }
        ),
    )
    coefficients = {"u": 0.6, "u_x": 0.4, "lap": 0.2, "cube": 0.5}
    return cf.Model(
        cf.Library(terms=terms, **anchor),
        {name: coefficients[name] for name in terms},
        experiment,
        observer=observer,
    )


WAYS = {
    "own solve": ({}, {}),
    "difference": ({}, {"accuracy": 1e-4}),
    "lock-step": ({"nonlinear": True}, {"accuracy": 1e-4}),
    "steady": ({"steady": True}, {"accuracy": 1e-4}),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_strategy_tells_of_solves_levels_and_deletions(way):
    kind, demand = WAYS[way]
    told = Told()
    model = problem(observer=told, **kind)
    assert model.factual is not None
    steps = 0 if kind.get("steady") else STEPS
    assert told.solves == [((), steps)]
    assert told.levels == list(range(steps + 1))
    told.solves.clear(), told.levels.clear()
    names = ["u", "u_x"]
    sweep = model.deletions(names, **demand)
    expected = "difference" if way == "steady" else way
    assert {deletion.strategy for deletion in sweep.values()} == {expected}
    together = way in ("lock-step", "steady")
    assert told.solves == (
        [(("u", "u_x"), steps)] if together else [(("u",), steps), (("u_x",), steps)]
    )
    # What is marched together reaches its levels together; it starts from a difference of zero.
    assert told.levels == (
        list(range(1, steps + 1)) if way == "lock-step" else 2 * list(range(steps + 1))
    )
    assert told.deleted == names


@pytest.mark.parametrize("way", WAYS)
def test_every_strategy_can_be_stopped_in_the_middle_and_goes_on_afterwards(way):
    kind, demand = WAYS[way]
    told = Told()
    model = problem(observer=told, **kind)
    undisturbed = {name: d.score for name, d in model.deletions(["u", "u_x"], **demand).items()}
    told.deleted.clear()
    told.asked, told.stop_after = 0, 0 if way == "steady" else 2
    with pytest.raises(Stopped):
        model.deletions(["u", "u_x"], **demand)
    assert not told.deleted
    told.stop_after = None
    again = model.deletions(["u", "u_x"], **demand)
    assert {name: deletion.score for name, deletion in again.items()} == undisturbed


def test_models_on_other_levels_tell_the_same_observer():
    told = Told()
    model = problem(observer=told)
    finer = model.at(cf.Window(0, 0.2, steps=2 * STEPS))
    assert finer.factual is not None
    assert told.solves == [((), 2 * STEPS)]


def test_solutions_are_handed_on_one_after_another_and_forgotten():
    model, seen, alive = problem(), {}, []
    kept = model.deletions(["u", "u_x", "lap"], keep=True, accuracy=1e-6)

    def take(deletion):
        gc.collect()
        assert sum(reference() is not None for reference in alive) <= 1
        seen[deletion.term] = np.array(deletion.solution.states)
        alive.append(weakref.ref(deletion.solution))

    sweep = model.deletions(["u", "u_x", "lap"], keep="handed", finished=take, accuracy=1e-6)
    assert list(seen) == list(sweep)
    for name, deletion in sweep.items():
        assert deletion.solution is None
        assert deletion.score == kept[name].score
        np.testing.assert_array_equal(seen[name], np.array(kept[name].solution.states))
    with pytest.raises(cf.InputError, match="handed"):
        model.deletions(keep="sometimes")


def body_of_handing(comm):
    """Each rank deletes for itself, and every solution arrives on all of them."""
    rank_groups.SMALLEST = 10
    for nonlinear in (False, True):
        told = Told()
        with problem(comm, told, nonlinear) as model:
            names = list(model.active)
            whole = model.deletions(keep=True, groups=1)
            told.deleted.clear()
            distances = {}

            def take(deletion, whole=whole, distances=distances):
                same = whole[deletion.term].solution
                distances[deletion.term] = deletion.solution.distance(same)
                assert deletion.solution.model is same.model

            found = model.deletions(keep="handed", finished=take)
            assert model._group is not None  # otherwise nothing was shared out
            assert sorted(told.deleted) == sorted(distances) == sorted(names)
            for name in names:
                assert distances[name] <= 1e-9 * model.factual.norm()
                assert abs(found[name].score - whole[name].score) <= 1e-9 * whole[name].score


@pytest.mark.mpi
def test_groups_of_ranks_hand_their_solutions_to_all_ranks(on_ranks):
    on_ranks(2, body_of_handing)
    on_ranks(3, body_of_handing)


def body_of_stopping(comm):
    """One rank is asked to stop while all delete for themselves: all stop."""
    rank_groups.SMALLEST = 10
    told = Told()
    with problem(comm, told) as model:
        assert model.factual is not None
        told.asked, told.stop_after = 0, 2 if comm.rank == 1 else None
        with pytest.raises(Stopped):
            model.deletions(keep="handed", finished=lambda deletion: None)


@pytest.mark.mpi
def test_a_stop_that_reaches_one_group_stops_all(on_ranks):
    on_ranks(2, body_of_stopping)
