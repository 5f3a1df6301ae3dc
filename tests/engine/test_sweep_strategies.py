"""Cheap sweeps: every strategy gives the scores of separate solves to the accuracy asked for,
and the same verdicts.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from derivative_problems import PROBLEMS
from dolfinx.mesh import create_unit_square
from engine_support import unit
from mpi4py import MPI

import cffem as cf
from cffem import t, x, y

u = cf.ScalarField("u")
BUMP = sp.sin(sp.pi * x) * sp.sin(2 * sp.pi * y)


def transport(scheme=None, comm=MPI.COMM_SELF, n=10, steps=12):
    """A linear transient problem with moving boundary values and a forcing that changes in time."""
    terms = {
        "u": u,
        "u_x": u.diff(x),
        "lap": cf.lap(u),
        "xu": x * u,
        "shear": y * u.diff(x),
        "one": sp.Integer(1),
    }
    experiment = cf.Experiment(
        mesh=create_unit_square(comm, n, n),
        elements={u: ("Lagrange", 2)},
        initial={u: BUMP},
        boundary=[cf.Dirichlet(u, t * x)],
        forcing={u: sp.sin(3 * t) * x},
        time=cf.Window(0, 0.5, steps=steps, scheme=scheme),
    )
    coefficients = {"u": 0.6, "u_x": 0.4, "lap": 0.02, "xu": -0.5, "shear": 0.3, "one": 0.1}
    return cf.Model(cf.Library(anchor=cf.dt(u), terms=terms), coefficients, experiment)


LINEAR = {
    "midpoint": transport,
    "sdirk2": lambda: transport("sdirk2"),
    "backward Euler": lambda: transport("backward-euler"),
    "Maxwell": lambda: PROBLEMS["maxwell"]()[0],
    "Robin": lambda: PROBLEMS["heat"]()[0],
}


def around(comm=MPI.COMM_SELF):
    """A wave going around in a box that is periodic in one direction."""
    experiment = cf.Experiment(
        mesh=unit("triangle", 6, comm),
        elements={u: ("Lagrange", 2)},
        initial={u: 1 + sp.sin(2 * sp.pi * x) * sp.cos(sp.pi * y)},
        boundary=[cf.Periodic(on="right", to="left"), cf.Neumann(u, 0, on=("top", "bottom"))],
        time=cf.Window(0, 0.4, steps=8),
    )
    library = cf.Library(anchor=cf.dt(u), terms={"u_x": u.diff(x), "lap": cf.lap(u), "u": u})
    return cf.Model(library, {"u_x": -1.0, "lap": 0.05, "u": -0.3}, experiment)


LINEAR["periodic"] = around


def resting(comm=MPI.COMM_SELF, n=8, boundary=None, coefficients=None):
    """A linear steady problem with boundary values and a source."""
    terms = {
        "lap": cf.lap(u),
        "graded": cf.div((1 + x) * cf.grad(u)),
        "u_x": u.diff(x),
        "xu": x * u,
        "one": sp.Integer(1),
    }
    experiment = cf.Experiment(
        mesh=unit("triangle", n, comm),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, x * y)] if boundary is None else boundary,
        forcing={u: sp.sin(3 * x) + y},
    )
    given = {"lap": 1.0, "graded": 0.5, "u_x": -2.0, "xu": -3.0, "one": 0.4}
    return cf.Model(cf.Library(terms=terms, unknown=u), coefficients or given, experiment)


def swirling():
    """A curl–curl problem on edge elements in space."""
    field = cf.VectorField("E", dim=3)
    experiment = cf.Experiment(
        mesh=unit("tetrahedron", 3),
        elements={field: ("N1curl", 1)},
        boundary=[cf.Tangential(field, 0)],
        forcing={field: (y, sp.sin(x), x * y)},
    )
    library = cf.Library(
        terms={"curlcurl": cf.curl(cf.curl(field)), "E": field, "xE": x * field}, unknown=field
    )
    return cf.Model(library, {"curlcurl": -1.0, "E": -1.0, "xE": -0.5}, experiment)


STEADY = {
    "Dirichlet": resting,
    "Neumann and Robin": lambda: resting(
        boundary=[
            cf.Neumann(u, x, on=("top", "bottom", "left")),
            cf.Robin(u, 1, on="right", coefficient=2),
        ]
    ),
    "periodic": lambda: resting(
        boundary=[cf.Periodic(on="right", to="left"), cf.Dirichlet(u, y, on=("top", "bottom"))]
    ),
    "curl-curl": lambda: swirling(),
}


@pytest.mark.parametrize("name", STEADY)
def test_factual_factors_give_the_scores_of_steady_problems_to_the_accuracy_asked_for(name):
    with STEADY[name]() as model:
        exact = model.deletions(keep=True, conditions="kept")
        for accuracy in (1e-2, 1e-4, 1e-7):
            cheap = model.deletions(accuracy=accuracy, keep=True, conditions="kept")
            assert "difference" in {deletion.strategy for deletion in cheap.values()}
            for term, deletion in cheap.items():
                assert deletion.status == exact[term].status
                if deletion.status == "solved":
                    assert deletion.score == pytest.approx(exact[term].score, rel=accuracy)
                    assert (
                        deletion.solution.distance(exact[term].solution)
                        <= deletion.error + 1e-9 * exact[term].score
                    )


def test_steady_deletions_factorise_nothing_where_the_factual_factors_serve():
    with resting() as model:
        exact = model.deletions(conditions="kept")
        made = []
        original = model.equation.jacobian
        model.equation.jacobian = lambda *arguments: made.append(1) or original(*arguments)
        sweep = model.deletions(accuracy=1e-4, conditions="kept")
        assert {deletion.strategy for deletion in sweep.values()} == {"difference"}
        assert len(made) == 1  # the factual one again, since the last deletion has taken its place
        epsilon = float(
            np.sqrt(min(d.score for d in exact.values()) * max(d.score for d in exact.values()))
        )
        for term, deletion in model.deletions(
            scores="decide", epsilon=epsilon, conditions="kept"
        ).items():
            assert (deletion.score > epsilon) == (exact[term].score > epsilon)
        assert len(made) == 1
        # What a caller solves in between takes the factors away, and they are made again.
        sweep = model.deletions(
            accuracy=1e-6,
            finished=lambda deletion: model.solve(cf.delete(deletion.term, conditions="kept")),
            conditions="kept",
        )
        for term, deletion in sweep.items():
            assert deletion.score == pytest.approx(exact[term].score, rel=1e-6)


def test_a_null_vector_that_no_right_hand_side_meets_is_found():
    """Without the reaction constants are free; the source has mean zero, so the equation of
    the difference has a solution.
    """
    library = cf.Library(terms={"lap": cf.lap(u), "u": u, "xu": (x - 0.5) * u}, unknown=u)
    given = cf.Experiment(
        mesh=unit("triangle", 24),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Neumann(u, 0)],
        forcing={u: sp.cos(sp.pi * x) * sp.cos(2 * sp.pi * y)},
    )
    with cf.Model(library, {"lap": 1.0, "u": -1.0}, given) as model:
        for demand in ({"accuracy": 1e-3}, {"scores": "decide", "epsilon": 1e-3}):
            sweep = model.deletions(**demand, conditions="kept")
            assert sweep["u"].status == "unsolvable"
            assert "singular" in sweep["u"].reason
            assert sweep["lap"].status == "solved"


def sine_gordon():
    """A nonlinear wave, of second order in time."""
    experiment = cf.Experiment(
        mesh=create_unit_square(MPI.COMM_SELF, 5, 5),
        elements={u: ("Lagrange", 2)},
        initial={u: 2 * BUMP, cf.dt(u): 0},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.5, steps=8),
    )
    library = cf.Library(
        anchor=cf.dt(cf.dt(u)), terms={"lap": cf.lap(u), "sin": sp.sin(u), "u_x": u.diff(x)}
    )
    return cf.Model(library, {"lap": 0.5, "sin": -1.0, "u_x": 0.3}, experiment)


NONLINEAR = {
    "reaction": lambda: PROBLEMS["reaction_diffusion"]()[0],
    "coefficients that change in time, sdirk2": lambda: PROBLEMS["advection_diffusion"]()[0],
    "periodic": lambda: PROBLEMS["periodic"]()[0],
    "sine-Gordon": sine_gordon,
}


@pytest.mark.parametrize("name", NONLINEAR)
def test_lock_step_gives_the_scores_of_separate_solves_to_the_accuracy_asked_for(name):
    with NONLINEAR[name]() as model:
        exact = model.deletions(keep=True, conditions="kept")
        for accuracy in (1e-2, 1e-4, 1e-6):
            cheap = model.deletions(accuracy=accuracy, keep=True, conditions="kept")
            assert "lock-step" in {deletion.strategy for deletion in cheap.values()}
            assert list(cheap) == list(exact)
            for term, deletion in cheap.items():
                assert deletion.strategy in ("lock-step", "own solve")
                assert deletion.score == pytest.approx(exact[term].score, rel=accuracy)
                assert deletion.solution.distance(exact[term].solution) <= deletion.error + 1e-9


def test_lock_step_linearises_less_often_than_separate_solves_do():
    with NONLINEAR["reaction"]() as model:
        model.deletions(["u", "sin"], conditions="kept")
        made = []
        original = model.equation.jacobian
        model.equation.jacobian = lambda *arguments: made.append(1) or original(*arguments)
        model.deletions(["u", "sin"], conditions="kept")
        separately, made[:] = len(made), []
        sweep = model.deletions(["u", "sin"], accuracy=1e-4, conditions="kept")
        assert {d.strategy for d in sweep.values()} == {"lock-step"}
        assert len(made) <= 5 < separately  # at most once per step, for both deletions together


@pytest.mark.parametrize("name", LINEAR)
def test_differences_give_the_scores_of_separate_solves_to_the_accuracy_asked_for(name):
    with LINEAR[name]() as model:
        exact = model.deletions(keep=True, conditions="kept")
        for accuracy in (1e-2, 1e-4, 1e-7):
            cheap = model.deletions(accuracy=accuracy, keep=True, conditions="kept")
            for term, deletion in cheap.items():
                assert deletion.strategy == "difference", term
                assert deletion.score == pytest.approx(exact[term].score, rel=accuracy)
                assert abs(deletion.score - exact[term].score) <= deletion.error + 1e-12
                away = deletion.solution.distance(exact[term].solution)
                assert away <= deletion.error + 1e-12
                if exact[term].solution.velocities is not None:
                    # The score does not contain them, and residuals move them more than the states.
                    own, true, factual = (
                        s.velocities[-1]
                        for s in (deletion.solution, exact[term].solution, model.factual)
                    )
                    norm = model.norm("L2")
                    assert norm(own - true) <= 30 * accuracy * norm(factual - true)


def test_the_true_residual_is_recorded_and_fewer_digits_cost_fewer_steps():
    with transport() as model:
        rough, fine = (model.deletions(accuracy=a, conditions="kept") for a in (1e-3, 1e-7))
        for term in rough:
            assert fine[term].record.worst_residual < rough[term].record.worst_residual < 1.0
            assert rough[term].record.iterations < fine[term].record.iterations
            assert fine[term].error < 1e-2 * rough[term].error


def test_factors_of_its_own_are_for_a_deletion_that_the_factual_ones_do_not_suit():
    """Long steps make all systems slow, but only the one without the Laplacian is another
    kind of system.
    """
    library = cf.Library(anchor=cf.dt(u), terms={"u": u, "u_x": u.diff(x), "lap": cf.lap(u)})
    experiment = cf.Experiment(
        mesh=create_unit_square(MPI.COMM_SELF, 32, 32),
        elements={u: ("Lagrange", 2)},
        initial={u: BUMP},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.5, steps=8),
    )
    with cf.Model(library, {"u": 0.6, "u_x": 0.4, "lap": 1.0}, experiment) as model:
        exact, sweep = (
            model.deletions(conditions="kept"),
            model.deletions(accuracy=1e-4, conditions="kept"),
        )
        assert sweep["u_x"].record.iterations > 4 * (sweep["u_x"].record.solves + 2)
        assert {name: found.record.factorisations for name, found in sweep.items()} == {
            "u": 0,
            "u_x": 0,
            "lap": 1,
        }
        assert sweep["lap"].record.iterations < 200  # with the factual ones nearly 600
        for name, found in sweep.items():
            assert found.score == pytest.approx(exact[name].score, rel=1e-4)


def test_refitted_deletions_go_the_same_way():
    with transport() as model:
        exact, cheap = (
            model.deletions(["u", "shear"], refit="remaining", accuracy=a, conditions="kept")
            for a in (0.0, 1e-5)
        )
        for term in exact:
            assert cheap[term].strategy == "difference"
            assert cheap[term].score == pytest.approx(exact[term].score, rel=1e-5)


def test_early_exit_follows_no_score_further_than_its_verdict():
    with transport(steps=24) as model:
        scores = {
            name: deletion.score for name, deletion in model.deletions(conditions="kept").items()
        }
        epsilon = float(np.sqrt(min(scores.values()) * max(scores.values())))
        decided = model.deletions(scores="decide", epsilon=epsilon, conditions="kept")
        for term, deletion in decided.items():
            assert (deletion.score > epsilon) == (scores[term] > epsilon)
            assert deletion.score <= scores[term] * (1 + 1e-2)
            if deletion.status == "solved":
                assert deletion.score == pytest.approx(scores[term], rel=1e-2)
        assert {d.status for d in decided.values()} == {"solved", "decided"}
        most = max(scores, key=scores.get)
        assert decided[most].record.solves <= 16


@pytest.mark.parametrize("problem", ["reaction_diffusion", "navier_stokes", "coupled"])
def test_other_classes_solve_each_deleted_problem_and_exit_early_as_well(problem):
    with PROBLEMS[problem]()[0] as model:
        exact = model.deletions(conditions="kept")
        epsilon = 0.05 * max(d.score for d in exact.values() if d.status == "solved")
        for term, deletion in model.deletions(
            scores="decide", epsilon=epsilon, conditions="kept"
        ).items():
            if exact[term].status == "solved":
                assert (deletion.score > epsilon) == (exact[term].score > epsilon)
                assert deletion.score <= exact[term].score * (1 + 1e-6)


def test_a_difference_that_cannot_be_solved_gives_way_to_the_problem_itself():
    """Without the Laplacian the other diffusion is negative: its stage systems are indefinite
    and the solution blows up.
    """
    library = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u), "u_xx": u.diff(x, 2)})
    experiment = cf.Experiment(
        mesh=create_unit_square(MPI.COMM_SELF, 12, 12),
        elements={u: ("Lagrange", 2)},
        initial={u: BUMP},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.5, steps=20),
    )
    with cf.Model(library, {"lap": 0.5, "u_xx": -0.4}, experiment) as model:
        exact, cheap = (
            model.deletions(conditions="kept"),
            model.deletions(accuracy=1e-4, conditions="kept"),
        )
        assert exact["lap"].status == cheap["lap"].status
        assert cheap["u_xx"].score == pytest.approx(exact["u_xx"].score, rel=1e-4)
        # A deletion that fails leaves nothing behind in what the next one shares.
        assert model.deletions(["lap", "u_xx"], accuracy=1e-4, conditions="kept")[
            "u_xx"
        ].score == pytest.approx(cheap["u_xx"].score, rel=1e-12)


def test_what_is_asked_is_checked():
    with transport() as model:
        for wrong, message in (
            ({"scores": "decide"}, "together with a tolerance epsilon"),
            ({"epsilon": 0.1}, "together with a tolerance epsilon"),
            ({"scores": "some"}, "'full', or 'decide'"),
            ({"accuracy": 2.0}, "accuracy"),
            ({"accuracy": -1e-4}, "accuracy"),
            ({"scores": "decide", "epsilon": -1.0}, "a positive tolerance epsilon"),
            ({"scores": "decide", "epsilon": 0.1, "keep": True}, "keep"),
        ):
            with pytest.raises(cf.InputError, match=message):
                model.deletions(**wrong, conditions="kept")
        assert model._factual is None


def body_of_ranks(comm):
    with resting(comm) as together, resting() as alone:
        exact = alone.deletions(conditions="kept")
        for name, deletion in together.deletions(
            accuracy=1e-5, groups=1, conditions="kept"
        ).items():
            assert deletion.strategy == "difference"
            assert abs(deletion.score - exact[name].score) < 1e-5 * deletion.score
    with transport(comm=comm, n=6, steps=4) as together, transport(n=6, steps=4) as alone:
        exact = alone.deletions(["u", "lap"], conditions="kept")
        for name, deletion in together.deletions(
            ["u", "lap"], accuracy=1e-5, conditions="kept"
        ).items():
            assert deletion.strategy == "difference"
            assert abs(deletion.score - exact[name].score) < 1e-5 * deletion.score


@pytest.mark.mpi
def test_differences_on_several_ranks(on_ranks):
    on_ranks(2, body_of_ranks)
