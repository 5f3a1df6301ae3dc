"""Studies whose deletions are solved only as far as verdicts need: the same verdicts, error
bars that contain what was saved.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, x, y
from cffem.verdicts.certification import LARGE

u = cf.ScalarField("u")


def study(scores, nonlinear=False, observables=None):
    terms = {"u": u, "u_x": u.diff(x), "lap": lap(u), **({"cube": -(u**3)} if nonlinear else {})}
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.25),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
        time=cf.Window(0, 0.2, steps=6),
    )
    coefficients = {"u": 0.6, "u_x": 0.3, "lap": 0.1, **({"cube": 0.5} if nonlinear else {})}
    certification = cf.Certification(epsilon=5e-3, scores=scores)
    return cf.Study(
        cf.Library(anchor=dt(u), terms=terms),
        experiment,
        coefficients=coefficients,
        certification=certification,
        observables=observables,
    )


@pytest.mark.parametrize("nonlinear", [False, True])
def test_scores_as_far_as_needed_give_the_verdicts_of_full_ones(nonlinear):
    full, needed = (study(scores, nonlinear).run() for scores in ("full", "decide"))
    assert set(full.sections["cost"]["strategies"]) == {"own solve"}
    assert ("lock-step" if nonlinear else "difference") in needed.sections["cost"]["strategies"]
    for name, term in needed.terms.items():
        assert term.decision == full.terms[name].decision, name
        assert term.certificate == full.terms[name].certificate
        if term.deletion is not None:
            assert term.deletion == pytest.approx(full.terms[name].deletion, rel=1e-4)


def test_an_estimated_error_bar_contains_the_residuals_and_says_so():
    report = study("decide", nonlinear=True).run()
    told = [
        h
        for term in report.terms.values()
        for h in (term.proof or {}).get("hypotheses", ())
        if "residuals" in h[0]
    ]
    assert told
    assert all("added to the margin" in how for _, how in told)


def test_observables_need_all_digits():
    report = study("decide", observables={"mass": (cf.Integral(u, at="end"), 1e-3)}).run()
    assert set(report.sections["cost"]["strategies"]) == {"own solve"}


def test_large_studies_ask_for_less_by_themselves_and_nothing_else_is_known():
    asked = cf.Certification(epsilon=1e-3)
    assert asked.accuracy(LARGE / 2) == 0.0
    assert asked.accuracy(2 * LARGE) > 0.0
    assert cf.Certification(scores="full").accuracy(2 * LARGE) == 0.0
    with pytest.raises(cf.InputError, match="'auto', 'full', 'decide'"):
        cf.Certification(scores="most")
