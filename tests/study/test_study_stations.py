"""The stations of a study: data, aliases, several experiments, refit, refinement and
observables, where the answers are known.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

from mpi4py import MPI
from study_support import written

import cffem as cf
from cffem import dt, lap, x
from cffem.study.toml.study_file import read_study

u = cf.ScalarField("u")
D, END = 0.05, 1.0
LIBRARY = cf.Library(anchor=dt(u), terms={"u": u, "u_x": u.diff(x), "lap": lap(u)})


def heat_data(modes, extra=0.0):
    """Exact solutions of u_t = D u_xx with zero boundary values, and a growth that the
    library may lack.
    """
    grid, times = np.linspace(0, 1, 65), np.linspace(0, END, 81)
    decay = [
        a * np.sin(k * np.pi * grid)[:, None] * np.exp(-D * (k * np.pi) ** 2 * times)
        for k, a in modes
    ]
    return cf.Dataset.from_arrays({x: grid, cf.t: times}, {u: sum(decay) * np.exp(extra * times)})


def experiment(initial=None, steps=20, h=0.1):
    given = {} if initial is None else {u: initial}
    return cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, h),
        elements={u: ("Lagrange", 2)},
        initial=given,
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, END, steps=steps),
    )


@pytest.fixture(scope="module")
def identified():
    data = heat_data([(1, 1.0), (2, 0.5)])
    certification = cf.Certification(epsilon=1e-2)
    return cf.Study(
        LIBRARY,
        experiment(),
        data=data,
        certification=certification,
        observables={"mass": (cf.Integral(u), 1e-3)},
    ).run()


def test_coefficients_are_identified_from_data_and_their_intervals_are_in_the_margin(identified):
    term = identified.terms["lap"]
    assert term.coefficient == pytest.approx(D, rel=1e-3)
    assert term.selected
    assert term.decision == "relevant"
    assert term.certificate == "estimated"
    low, high = identified.sections["screening"]["intervals"]["lap"]
    assert low <= D <= high
    (single,) = [v for v in identified.sections["sets"]["verdicts"] if v["term"] == "lap"]
    # The exact score changes by this much when the coefficient moves within its interval.
    moved = max(abs(score(rate) - score(D)) for rate in (low, high))
    assert single["spread"] >= 0.9 * moved
    assert single["margin"] > single["spread"]
    assert abs(term.deletion - score(D)) <= term.margin


def score(rate):
    """‖u − u_without‖ for u_t = rate·u_xx against u_t = 0."""
    total = 0.0
    times = np.linspace(0, END, 2001)
    for k, a in ((1, 1.0), (2, 0.5)):
        change = (a * (1 - np.exp(-rate * (k * np.pi) ** 2 * times))) ** 2
        total += float(np.sum((change[1:] + change[:-1]) / 2) * (times[1] - times[0])) / 2
    return math.sqrt(total)


def test_the_fitted_model_meets_the_data(identified):
    (misfit,) = identified.sections["screening"]["misfit"].values()
    assert misfit["misfit"] < 1e-3
    assert not misfit["missing_terms"]


def test_observables_are_decided_with_their_own_tolerance(identified):
    found = identified.sections["observables"]["mass"]["terms"]["lap"]
    exact = 2 / np.pi * (1 - math.exp(-D * np.pi**2 * END))
    assert found["deletion"] == pytest.approx(exact, rel=2e-2)
    assert abs(found["deletion"] - exact) <= found["margin"]
    assert found["decision"] == "relevant"
    assert found["certificate"] == "estimated"


def test_a_missing_term_shows_in_the_misfit():
    data = heat_data([(1, 1.0), (2, 0.5)], extra=0.4)
    poor = cf.Library(anchor=dt(u), terms={"u_x": u.diff(x), "lap": lap(u)})
    certification = cf.Certification(epsilon=1e-2, budget=1)
    report = cf.Study(poor, experiment(), data=data, certification=certification).run()
    (misfit,) = report.sections["screening"]["misfit"].values()
    assert misfit["missing_terms"]
    assert "terms may be missing" in misfit["sentence"]


def test_aliased_terms_name_the_combination_and_what_to_measure_next():
    certification = cf.Certification(epsilon=1e-2)
    report = cf.Study(
        LIBRARY, experiment(), data=heat_data([(1, 1.0)]), certification=certification
    ).run()
    assert report.sections["sets"]["aliased"] == ["lap", "u"]
    for name in ("u", "lap"):
        assert report.terms[name].decision == "unresolved"
        assert re.search(
            r"only α\(u\) − 9\.8[67]\d* α\(lap\) is identifiable", report.terms[name].reason
        )
    (carrier,) = report.sections["sets"]["fit"]
    assert report.terms[carrier].reason.endswith("deleting that combination is relevant")
    proposal = report.sections["design"]["next"]
    assert proposal["generated"]
    assert any(group == ["lap", "u"] for c in proposal["candidates"] for group in c["separated"])
    assert proposal["best"] in proposal["sentence"]


def test_listed_candidates_are_compared_instead_of_modes():
    first, second = experiment(sp.sin(sp.pi * x), h=0.05), experiment(sp.sin(2 * sp.pi * x), h=0.05)
    certification = cf.Certification(epsilon=1e-2, budget=1)
    report = cf.Study(
        LIBRARY,
        first,
        coefficients={"u": 0.1, "lap": D},
        certification=certification,
        candidates={"the same": first, "another mode": second},
    ).run()
    assert report.sections["design"]["next"]["best"] == "another mode"
    # Known coefficients: the deletion is decided, and the verdict says what this experiment could
    # identify.
    assert "identifiable" in report.terms["lap"].reason


def test_relevant_in_one_experiment_irrelevant_only_in_all():
    calm, steep = experiment(sp.sin(sp.pi * x) / 1000), experiment(sp.sin(sp.pi * x))
    known = {"u": 1e-5, "lap": 0.5}
    report = cf.Study(
        LIBRARY,
        {"calm": calm, "steep": steep},
        coefficients=known,
        certification=cf.Certification(epsilon=1e-2),
    ).run()
    single = {
        (v["term"], v["experiment"]): v["decision"] for v in report.sections["sets"]["verdicts"]
    }
    assert (single["lap", "calm"], single["lap", "steep"]) == ("irrelevant", "relevant")
    assert report.terms["lap"].decision == "relevant"
    assert report.terms["lap"].experiment == "steep"
    assert report.terms["u"].decision == "irrelevant"
    assert "irrelevant only if irrelevant in all" in report.sections["scope"]["sentence"]
    assert report.sections["design"]["rows"] == 2 * len(rows_of(calm))


def rows_of(one):
    model = cf.Model(LIBRARY, {"lap": 0.5}, one)
    blocks = [len(block.y) for block in model.factual.rows(LIBRARY, "weak")]
    return range(sum(blocks))


def test_both_intervention_classes_are_listed_with_refit():
    # On one mode u_xx = −π² u, so what deletion of lap takes away refit gives back through u.
    certification = cf.Certification(epsilon=1e-2)
    one = experiment(sp.sin(sp.pi * x), steps=10)
    known = {"u": 0.1, "lap": D}
    report = cf.Study(
        LIBRARY, one, coefficients=known, refit="remaining", certification=certification
    ).run()
    single = {(v["intervention"], v["term"]): v for v in report.sections["sets"]["verdicts"]}
    assert single["deletion", "lap"]["decision"] == "relevant"
    assert single["deletion with refit", "lap"]["score"] < 1e-2 * single["deletion", "lap"]["score"]
    assert report.terms["lap"].deletion == single["deletion with refit", "lap"]["score"]
    assert "refitted" in report.sections["scope"]["sentence"]


# ‖u − u_j‖ for −u″ + 5u = 1 and −u″ = 1 on the unit interval, u = (1 − cosh(√5(x −
# ½))/cosh(√5/2))/5 and u_j = x(1 − x)/2.
SCORE_OF_REACTION = 0.0306742


def test_refinement_decides_what_the_first_mesh_leaves_open():
    coarse = cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, 0.5),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1},
    )
    # With a nonlinear term there is no guaranteed bar, and levels are asked.
    library = cf.Library(terms={"lap": lap(u), "u": u, "cube": u**3}, unknown=u)
    known = {"lap": 1.0, "u": -5.0, "cube": -1e-6}

    def studied(**options):
        return cf.Study(
            library, coarse, coefficients=known, certification=cf.Certification(**options)
        ).run()

    once = studied(epsilon=2.9e-2, budget=1)
    assert once.terms["u"].decision == "unresolved"
    assert once.sections["cost"]["refinement"] == []
    # The levels of the certificate itself say more together than about the first mesh, which is
    # enough for a small ε.
    together, refined = (
        studied(epsilon=epsilon, refine=True, budget=2000) for epsilon in (2e-2, 2.9e-2)
    )
    for report, method in (
        (together, "for the combination of all levels"),
        (refined, "refined 1 times"),
    ):
        assert report.terms["u"].decision == "relevant"
        assert method in report.terms["u"].method
        levels = [level for level in report.sections["cost"]["refinement"] if level["term"] == "u"]
        margins = [level["margin"] for level in levels]
        assert margins == sorted(margins, reverse=True)
        assert levels[-1]["score"] == report.terms["u"].deletion
        assert abs(report.terms["u"].deletion - SCORE_OF_REACTION) <= margins[-1]
    assert len(margins) == 2


def test_the_example_of_the_documentation_is_a_study(tmp_path):
    text = (Path(__file__).parents[2] / "docs" / "study_toml.md").read_text()
    (block,) = re.findall(r"```toml\n(.*?)```", text, flags=re.S)
    study = read_study(written(tmp_path, block), MPI.COMM_SELF)
    assert study.library.names == ("u", "u_x", "lap")


def test_a_study_without_coefficients_and_data_is_refused():
    with pytest.raises(cf.InputError, match="known coefficients, or data"):
        cf.Study(LIBRARY, experiment(0))
    with pytest.raises(cf.InputError, match="no term 'lapp'"):
        cf.Study(LIBRARY, experiment(0), coefficients={"lapp": 1.0})
    with pytest.raises(cf.InputError, match="refit is"):
        cf.Study(LIBRARY, experiment(0), coefficients={"lap": 1.0}, refit="all")
    with pytest.raises(cf.InputError, match="positive number"):
        cf.Study(
            LIBRARY,
            experiment(0),
            coefficients={"lap": 1.0},
            observables={"mass": (cf.Integral(u), 0)},
        )
