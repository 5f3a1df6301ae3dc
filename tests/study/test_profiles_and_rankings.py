"""Profiles that a study is asked for, with error bars and for observables, and rankings that know
their uncertainty.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import sympy as sp

pytest.importorskip("dolfinx")

from mpi4py import MPI
from study_support import TOML, written

import cffem as cf
from cffem import lap, x, y
from cffem.study.report.report import TermReport
from cffem.study.report.scores.score_order import ranking
from cffem.study.toml.study_file import read_study

u = cf.ScalarField("u")
FORCE = 2 * sp.pi**2 * sp.sin(sp.pi * x) * sp.sin(sp.pi * y)


def poisson():
    """−Δu + c u = f with u = c₀ sin πx sin πy: δ(ρ) is known."""
    library = cf.Library(terms={"lap": lap(u), "sink": -u}, unknown=u)
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.125),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: FORCE},
    )
    return library, experiment, {"lap": 1.0, "sink": 10.0}


def test_a_profile_with_bars_slope_and_bound(tmp_path):
    """δ(ρ) = |k/(k + c) − k/(k + (1 − ρ) c)|/2 with k = 2π², c = 10; the bars contain it."""
    library, experiment, coefficients = poisson()
    report = cf.Study(
        library,
        experiment,
        coefficients=coefficients,
        profiles=["sink"],
        observables={"mass": (cf.Integral(u), 0.02)},
        certification=cf.Certification(epsilon=0.05),
    ).run(out=tmp_path / "out")
    field, mass = report.profiles["sink"]
    k, c = 2 * math.pi**2, 10.0

    def change(rho):
        return abs(k / (k + c) - k / (k + (1 - rho) * c))

    for each, factor in ((field, 0.5), (mass, (2 / math.pi) ** 2)):
        assert each.rho[-1] == 1.0
        for rho, score, margin in zip(each.rho, each.scores, each.margins, strict=True):
            assert abs(score - factor * change(rho)) <= margin
        exact = factor * k * c / (k + c) ** 2
        assert each.slope == pytest.approx(exact, rel=1e-3)
        # The smallest relevant part, to the resolution of the profile.
        true = next(r / 1e4 for r in range(10001) if factor * change(r / 1e4) > each.epsilon)
        assert true <= each.relevant_from <= true + 0.05
        for rho, score, bound in zip(each.rho, each.scores, each.bounds, strict=False):
            assert abs(score - rho * each.slope) <= 1.05 * bound + 1e-12
    # Where a guaranteed bar reaches ε an estimated one that does not is taken.
    assert "guaranteed" in field.certificates
    assert "sink matters from ρ" in field.sentence
    page = (tmp_path / "out" / "report.html").read_text()
    assert "sink matters to the mass from ρ" in page
    assert cf.Report.read(tmp_path / "out").profiles == report.profiles
    schema = json.loads((Path(cf.__file__).parent / "study/report/report.schema.json").read_text())
    pytest.importorskip("jsonschema").validate(
        json.loads((tmp_path / "out" / "report.json").read_text()), schema
    )


def test_profiles_in_toml_and_of_unknown_terms(tmp_path):
    study = read_study(written(tmp_path, f'profiles = ["lap"]\n{TOML}'), MPI.COMM_SELF)
    assert study.profiles == ("lap",)
    library, experiment, coefficients = poisson()
    with pytest.raises(cf.InputError, match="did you mean 'sink'"):
        cf.Study(library, experiment, coefficients=coefficients, profiles=["sonk"])
    with pytest.raises(cf.InputError, match="list of names"):
        read_study(written(tmp_path, f'profiles = "lap"\n{TOML}'), MPI.COMM_SELF)


def term(name, score, margin, residual=None, epsilon=1.0):
    return TermReport(
        name,
        "",
        1.0,
        deletion=score,
        margin=margin,
        epsilon=epsilon,
        residual_contribution=residual,
    )


def test_only_what_bars_allow_is_ordered():
    found = ranking(
        {
            each.name: each
            for each in (
                term("a", 5.0, 1.0),
                term("b", 4.0, 1.5),
                term("c", 2.2, 0.1),
                term("d", 1.0, None),
                term("e", 1e-3, 1e-4),
            )
        }
    )
    assert found["groups"] == [["a", "b"], ["c"], ["e"]]
    assert found["unordered"] == [["a", "b"]]
    assert found["unranked"] == ["d"]


def test_orders_do_not_depend_on_units():
    """The tolerance of each field takes the unit away."""
    terms = {"u/a": term("u/a", 5e6, 1e5, epsilon=1e6), "T/b": term("T/b", 2.0, 0.1)}
    assert ranking(terms)["groups"] == [["u/a"], ["T/b"]]


def test_residuals_and_deletions_disagree_beyond_the_bars_only():
    clear = [term("a", 1.0, 0.1, 10.0), term("b", 2.0, 0.1, 1.0)]
    unclear = [term("a", 1.0, 0.6, 10.0), term("b", 2.0, 0.6, 1.0)]
    assert ranking({t.name: t for t in clear})["disagreements"] == [["a", "b"]]
    assert ranking({t.name: t for t in unclear})["disagreements"] == []
