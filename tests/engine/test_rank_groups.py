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
from cffem.engine.deletion import rank_groups

u = cf.ScalarField("u")


def heat(comm):
    """A problem with different conditions on named parts, which a copy of the mesh must keep."""
    experiment = cf.Experiment(
        mesh=unit("triangle", 5, comm),
        elements={u: ("Lagrange", 2)},
        initial={u: sp.cos(sp.pi * x) + y},
        boundary=[
            cf.Dirichlet(u, y, on="left"),
            cf.Neumann(u, x, on=("top", "bottom")),
            cf.Robin(u, 1, on="right", coefficient=2),
        ],
        time=cf.Window(0, 0.3, steps=3),
    )
    library = cf.Library(anchor=cf.dt(u), terms={"u": u, "u_x": u.diff(x), "lap": cf.lap(u)})
    return cf.Model(library, {"u": 0.6, "u_x": 0.3, "lap": 0.2}, experiment)


def body_of_groups(comm):
    for make in (heat, lambda comm: PROBLEMS["curl_curl"](comm)[0]):
        with make(comm) as model:
            together, size, seen = model.deletions(groups=1), model.factual.norm(), []
            split = model.deletions(
                groups=2, finished=lambda deletion, seen=seen: seen.append(deletion.term)
            )
            assert seen == list(split) == list(together)
            for name, deletion in split.items():
                assert deletion.status == together[name].status
                if deletion.status == "solved":
                    assert (
                        abs(deletion.score - together[name].score)
                        <= 1e-10 * together[name].score + 1e-12 * size
                    )


def body_of_choice(comm):
    with heat(comm) as model:
        assert (
            rank_groups.number_of_groups(model, 3, None, keep=False) == 1
        )  # too small to be worth it
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
            with pytest.raises(cf.InputError, match="groups"):
                model.deletions(**wrong)


def body_of_each_for_itself(comm):
    for make in (
        heat,
        lambda comm: PROBLEMS["maxwell"](comm)[0],
        lambda comm: PROBLEMS["reaction_diffusion"](comm)[0],
    ):
        rank_groups.SMALLEST = 10**9
        with make(comm) as model:
            together, expected = (
                model.factual,
                {name: found.score for name, found in model.deletions(groups=1).items()},
            )
            assert model._group is None
            size, last = together.norm(), together.states[-1].copy()
            stages = [
                tuple(None if v is None else v.copy() for v in values)
                for _, _, values, _ in together.stages
            ]
        rank_groups.SMALLEST = 10
        with make(comm) as model:
            factual = model.factual
            assert model._group is not None
            assert model._group.model.comm.size == 1
            assert abs(factual.norm() - size) <= 1e-10 * size
            scale = comm.allreduce(abs(last).max(), op=MPI.MAX)
            assert abs(factual.states[-1] - last).max() <= 1e-9 * scale
            assert [values[0] is None for _, _, values, _ in factual.stages] == [
                values[0] is None for values in stages
            ]
            for (_, _, here, _), there in zip(factual.stages, stages, strict=True):
                for mine, other in zip(here, there, strict=True):
                    assert (mine is None) == (other is None)
                    assert mine is None or abs(mine - other).max() <= 1e-7 * max(
                        1.0, comm.allreduce(abs(other).max(), op=MPI.MAX)
                    )
            made = model._group
            made.take_over = None  # the copies have their solution, so nothing is sent
            for name, found in model.deletions(groups=2).items():
                assert abs(found.score - expected[name]) <= 1e-9 * expected[name] + 1e-11 * size
            assert model._group is made
            # The solution on all ranks serves what all of them do together, too.
            for name, found in model.deletions(groups=1).items():
                assert abs(found.score - expected[name]) <= 1e-9 * expected[name] + 1e-11 * size


def body_of_failure(comm):
    rank_groups.SMALLEST = 2
    library = cf.Library(anchor=cf.dt(u), terms={"square": u**2, "lap": cf.lap(u)})
    experiment = cf.Experiment(
        mesh=unit("triangle", 4, comm),
        elements={u: ("Lagrange", 1)},
        initial={u: 30},
        boundary=[cf.Neumann(u, 0)],
        time=cf.Window(0, 1, steps=4),
    )
    with (
        cf.Model(library, {"square": 1.0, "lap": 0.1}, experiment) as model,
        pytest.raises(cf.SolveError),
    ):
        _ = model.factual


def body_of_shares(comm):
    with heat(comm) as model:
        group = rank_groups.group_of(model, 2)
        for efforts in ({"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 1.0, "b": 9.0, "c": 3.0, "d": 4.0}):
            shares = comm.allgather(group.share(efforts))
            assert sorted(name for share in shares for name in share) == sorted(efforts)
            loads = [sum(efforts[name] for name in share) for share in shares]
            assert max(loads) <= 2.0 * min(loads)
        changes = {name: cf.delete(name) for name in model.active}
        assert set(rank_groups.expected_efforts(group.model, changes, None).values()) == {1.0}
        early = rank_groups.expected_efforts(group.model, changes, 1e-6)
        late = rank_groups.expected_efforts(group.model, changes, 1e6)
        assert all(early[name] < late[name] for name in changes)
        assert len(set(late.values())) == 1


@pytest.mark.mpi
def test_each_rank_solves_the_factual_problem_for_itself_with_the_same_result(on_ranks):
    on_ranks(2, body_of_each_for_itself)


@pytest.mark.mpi
def test_a_factual_problem_that_cannot_be_solved_is_an_error_on_every_rank(on_ranks):
    on_ranks(2, body_of_failure)


@pytest.mark.mpi
def test_deletions_are_shared_by_what_they_cost(on_ranks):
    on_ranks(2, body_of_shares)


@pytest.mark.mpi
def test_groups_of_ranks_give_the_scores_of_all_ranks_together(on_ranks):
    on_ranks(3, body_of_groups)


@pytest.mark.mpi
def test_groups_are_chosen_and_refused(on_ranks):
    on_ranks(2, body_of_choice)


def test_one_rank_is_never_split():
    with heat(MPI.COMM_SELF) as model:
        assert rank_groups.number_of_groups(model, 3, None, keep=False) == 1
