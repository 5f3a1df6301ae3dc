"""Deletions split over groups of ranks are those of all ranks together."""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from derivative_problems import PROBLEMS
from engine_support import unit
from mpi4py import MPI

import cffem as cf
from cffem import x, y
from cffem.engine import rank_groups

u = cf.ScalarField("u")


def heat(comm):
    """A problem with different conditions on named parts, which a copy of the mesh must keep."""
    experiment = cf.Experiment(
        mesh=unit("triangle", 5, comm),
        elements={u: ("Lagrange", 2)},
        initial={u: sp.cos(sp.pi * x) + y},
        boundary=[cf.Dirichlet(u, y, on="left"), cf.Neumann(u, x, on=("top", "bottom")), cf.Robin(u, 1, on="right", coefficient=2)],
        time=cf.Window(0, 0.3, steps=3),
    )
    library = cf.Library(anchor=cf.dt(u), terms={"u": u, "u_x": u.diff(x), "lap": cf.lap(u)})
    return cf.Model(library, {"u": 0.6, "u_x": 0.3, "lap": 0.2}, experiment)


def body_of_groups(comm):
    for make in (heat, lambda comm: PROBLEMS["curl_curl"](comm)[0]):
        with make(comm) as model:
            together, size, seen = model.deletions(groups=1), model.factual.norm(), []
            split = model.deletions(groups=2, finished=lambda deletion, seen=seen: seen.append(deletion.term))
            assert seen == list(split) == list(together)
            for name, deletion in split.items():
                assert deletion.status == together[name].status
                if deletion.status == "solved":
                    assert abs(deletion.score - together[name].score) <= 1e-10 * together[name].score + 1e-12 * size


def body_of_choice(comm):
    with heat(comm) as model:
        assert rank_groups.number_of_groups(model, 3, None, keep=False) == 1  # too small to be worth it
        rank_groups.SMALLEST = 10
        assert rank_groups.number_of_groups(model, 3, None, keep=False) == comm.size
        assert rank_groups.number_of_groups(model, 1, None, keep=False) == 1
        assert rank_groups.number_of_groups(model, 3, None, keep=True) == 1
        wanted = {"names": ["u", "u_x"], "refit": "remaining", "accuracy": 1e-6}
        split, alone = model.deletions(**wanted), model.deletions(**wanted, groups=1)
        for name in split:
            assert split[name].strategy == alone[name].strategy == "difference"
            assert abs(split[name].score - alone[name].score) < 1e-6 * alone[name].score
        for wrong in ({"groups": comm.size + 1}, {"groups": 0}, {"groups": 2, "keep": True}):
            with pytest.raises(cf.InputError):
                model.deletions(**wrong)


@pytest.mark.mpi
def test_groups_of_ranks_give_the_scores_of_all_ranks_together(on_ranks):
    on_ranks(3, body_of_groups)


@pytest.mark.mpi
def test_groups_are_chosen_and_refused(on_ranks):
    on_ranks(2, body_of_choice)


def test_one_rank_is_never_split():
    with heat(MPI.COMM_SELF) as model:
        assert rank_groups.number_of_groups(model, 3, None, keep=False) == 1
