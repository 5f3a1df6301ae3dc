"""A state on all ranks and on a group of them is the same function, whatever its element."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from derivative_problems import PROBLEMS
from dolfinx.mesh import CellType, create_unit_cube, create_unit_square

import cffem as cf
from cffem import x, y, z
from cffem.engine.deletion.rank_groups import Group, forget, group_of

u, E = cf.ScalarField("u"), cf.VectorField("E", dim=3)


def poisson(comm, degree, cell):
    experiment = cf.Experiment(
        mesh=create_unit_square(comm, 4, 3, cell),
        elements={u: ("Lagrange", degree)},
        forcing={u: sp.sin(3 * x) + y},
        boundary=[cf.Dirichlet(u, x * y)],
    )
    return cf.Model(
        cf.Library(terms={"lap": cf.lap(u), "u_x": u.diff(x)}, unknown=u),
        {"lap": 1.0, "u_x": 0.5},
        experiment,
    )


def curls(comm, degree):
    experiment = cf.Experiment(
        mesh=create_unit_cube(comm, 2, 2, 2),
        elements={E: ("N1curl", degree)},
        forcing={E: (y, z * x, x)},
        boundary=[cf.Tangential(E, 0)],
    )
    library = cf.Library(terms={"curlcurl": cf.curl(cf.curl(E)), "E": E}, unknown=E)
    return cf.Model(library, {"curlcurl": -1.0, "E": -1.0}, experiment)


# The models, and whether their states are only reordered: two unknowns on the face of a tetrahedron
# are mixed by its turns.
MODELS = {
    "P2": (lambda comm: poisson(comm, 2, CellType.triangle), True),
    "P3 on quadrilaterals": (lambda comm: poisson(comm, 3, CellType.quadrilateral), True),
    "first Nédélec": (lambda comm: curls(comm, 1), True),
    "second Nédélec": (lambda comm: curls(comm, 2), False),
    "Taylor–Hood, in time": (lambda comm: PROBLEMS["navier_stokes"](comm)[0], True),
    "Maxwell, in time": (lambda comm: PROBLEMS["maxwell"](comm)[0], True),
}


def body_of_elements(comm, folder):
    for name, (make, plain) in MODELS.items():
        with make(comm) as model:
            model.factual.store(f"{folder}/factual.npz")
            group = Group(model, 2)
            assert group._move.invertible == (comm.size == 2 and plain)
            group.take_over(model.factual)
            assert {rank * 2 // comm.size for rank in range(comm.size)} == set(
                comm.allgather(group.number)
            )
            stored, moved = group.model.restore(f"{folder}/factual.npz"), group.model.factual
            assert len(moved.states) == len(stored.states) == len(model.factual.states)
            assert (moved.velocities is None) == (stored.velocities is None)
            size = max(np.abs(state).max(initial=0.0) for state in stored.states)
            for one, other in zip([*moved._stored()], [*stored._stored()], strict=True):
                assert one[0] == other[0]
                np.testing.assert_allclose(
                    one[1],
                    other[1],
                    atol=1e-13 * (1 + size),
                    rtol=1e-13,
                    err_msg=f"{name}: {one[0]}",
                )
            if group._move.invertible:
                for one, other in zip(
                    group._move.back(moved.states), model.factual.states, strict=True
                ):
                    np.testing.assert_array_equal(one, other)
            assert group.plain == plain, name
            group.destroy()


@pytest.mark.mpi
def test_states_are_the_same_functions_on_a_group_of_ranks(on_ranks, tmp_path):
    on_ranks(3, body_of_elements, str(tmp_path))


@pytest.mark.mpi
def test_states_of_single_ranks_come_back_as_they_went(on_ranks, tmp_path):
    on_ranks(2, body_of_elements, str(tmp_path))


def body_of_keeping(comm):
    with poisson(comm, 2, CellType.triangle) as model:
        first = group_of(model, 2)
        scores = [{n: d.score for n, d in model.deletions(groups=2).items()} for _ in range(2)]
        assert scores[0] == pytest.approx(scores[1], rel=1e-12, nan_ok=True)
        assert group_of(model, 2) is first
        forget(model)
        assert model._group is None
        assert group_of(model, 2) is not first


@pytest.mark.mpi
def test_groups_are_kept_for_the_next_sweep(on_ranks):
    on_ranks(2, body_of_keeping)
