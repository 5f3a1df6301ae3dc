"""Deletion sweeps: the numbers of separate solves, nothing compiled, and unsolvable deletions
are results.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx import mesh
from mpi4py import MPI
from solver_problems import curl_curl, poisson, stokes

import cffem as cf
from cffem import _compat, x, y

COMM = MPI.COMM_SELF
u = cf.ScalarField("u")


def reaction(anchor, terms, coefficients, steps=4):
    library = cf.Library(anchor=anchor, terms=terms)
    initial = {u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)}
    initial |= {cf.dt(u): 0} if anchor == cf.dt(cf.dt(u)) else {}
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(COMM, 6, 6),
        elements={u: ("Lagrange", 2)},
        initial=initial,
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.2, steps=steps),
    )
    return cf.Model(library, coefficients, experiment)


CLASSES = {
    "steady": lambda: poisson(COMM, 6, drift=2.0),
    "curl-curl": lambda: curl_curl(COMM, 5, dim=2),
    "stokes": lambda: stokes(COMM, 5, window=cf.Window(0, 0.1, steps=2)),
    "heat": lambda: reaction(cf.dt(u), {"u": u, "lap": cf.lap(u)}, {"u": 0.6, "lap": 0.1}),
    "nonlinear": lambda: reaction(
        cf.dt(u), {"u": u, "lap": cf.lap(u), "cubic": u**3}, {"u": 0.6, "lap": 0.1, "cubic": -1.0}
    ),
    "wave": lambda: reaction(cf.dt(cf.dt(u)), {"u": u, "lap": cf.lap(u)}, {"u": -0.6, "lap": 1.0}),
}


@pytest.mark.parametrize("name", CLASSES)
def test_a_sweep_gives_the_numbers_of_separate_solves(name):
    with CLASSES[name]() as model, CLASSES[name]() as fresh:
        sweep = model.deletions()
        assert list(sweep) == list(model.active)
        # In another order, twice, and each after a different predecessor: nothing of one deletion
        # reaches the next.
        again = model.deletions(reversed(model.active))
        for term in sweep:
            if sweep[term].status == "unsolvable":
                with pytest.raises(cf.SolveError):
                    fresh.solve(cf.delete(term))
                continue
            score = fresh.solve().distance(fresh.solve(cf.delete(term)))
            assert sweep[term].score == pytest.approx(
                score, rel=1e-10, abs=1e-12 * fresh.factual.norm()
            )
            assert again[term].score == pytest.approx(
                score, rel=1e-10, abs=1e-12 * fresh.factual.norm()
            )
            assert sweep[term].record.worst_residual <= 1e-9


@pytest.mark.parametrize("name", ["steady", "heat", "wave"])
def test_a_sweep_keeps_the_deleted_solutions_where_one_asks(name):
    with CLASSES[name]() as model:
        seen = []
        sweep = model.deletions(keep=True, finished=lambda deletion: seen.append(deletion.term))
        assert seen == list(sweep)
        assert all(deletion.solution is None for deletion in model.deletions().values())
        for term, deletion in sweep.items():
            if deletion.status == "unsolvable":
                assert deletion.solution is None
                continue
            alone = model.solve(cf.delete(term))
            assert str(deletion.solution.intervention) == f"delete({term!r})"
            for kept, solved in zip(deletion.solution.states, alone.states, strict=True):
                np.testing.assert_allclose(kept, solved, atol=1e-12)
            assert (deletion.solution.velocities is None) == (alone.velocities is None)
            assert model.factual.distance(deletion.solution) == pytest.approx(
                deletion.score, rel=1e-13
            )


def test_deletions_compile_nothing_and_assemble_no_linear_term_again(monkeypatch):
    with CLASSES["heat"]() as model:
        model.deletions()
        counts = {"form": 0, "assemble_matrix": 0}

        def counting(name, original):
            def wrapped(*args, **kwargs):
                counts[name] += 1
                return original(*args, **kwargs)

            return wrapped

        for name in counts:
            monkeypatch.setattr(_compat, name, counting(name, getattr(_compat, name)))
        model.deletions()
        assert counts == {"form": 0, "assemble_matrix": 0}


def test_one_term_may_be_given_by_its_name():
    with CLASSES["heat"]() as model:
        assert list(model.deletions("lap")) == ["lap"]


def test_unsolvable_deletions_are_results_and_the_sweep_goes_on():
    """Without the cubic sink u' = 8 u² blows up; Newton's failure is reported with its history."""
    terms = {"grow": u**2, "sink": u**3, "lap": cf.lap(u)}
    with reaction(cf.dt(u), terms, {"grow": 400.0, "sink": -900.0, "lap": 0.1}, steps=3) as model:
        sweep = model.deletions(["sink", "lap"], conditions="kept")
        assert sweep["sink"].status == "unsolvable"
        assert "Newton" in sweep["sink"].reason
        assert len(sweep["sink"].history) > 1
        assert np.isnan(sweep["sink"].score)
        assert sweep["lap"].status == "solved"


def test_unknown_terms_and_norms_are_refused_before_anything_is_solved():
    with CLASSES["heat"]() as model:
        with pytest.raises(cf.InputError, match="lapp"):
            model.deletions(["u", "lapp"])
        with pytest.raises(cf.InputError, match="unknown norm 'L3'"):
            model.deletions(["u"], norm="L3")
        assert model._factual is None


def test_the_energy_norm_needs_a_positive_operator_at_any_scale():
    with reaction(cf.dt(u), {"u": u, "lap": cf.lap(u)}, {"u": 100.0, "lap": 1.0}) as model:
        state = model.factual.states[0]
        for factor in (1.0, 1e-9):
            with pytest.raises(cf.InputError, match="not positive"):
                model.norm("energy")(factor * state)
    # Of lap u + 30 u on the square the first mode has energy 2π² − 30 < 0, that of others is
    # positive: no norm, also where the state at hand would have given a number.
    some = reaction(cf.dt(u), {"u": u, "lap": cf.lap(u)}, {"u": 30.0, "lap": 1.0})
    with some as model, pytest.raises(cf.InputError, match="1 of its eigenvalues are negative"):
        model.norm("energy")
    with CLASSES["heat"]() as model:
        state = model.factual.states[0]
        # ∫ 0.1 |∇u|² − 0.6 u² of the first mode, 2π²/4 and 1/4 for unit amplitude.
        assert model.norm("energy")(state) ** 2 == pytest.approx(
            0.1 * np.pi**2 / 2 - 0.6 / 4, rel=1e-2
        )
