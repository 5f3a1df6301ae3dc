"""Studies in which a deleted problem cannot be solved or a term vanishes on the constraint
class: results, each with its reason.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import curl, div, dt, grad, lap, x, y
from cffem.study.report.summary import sentences
from cffem.study.run.stations.deciding import observable_verdict


@pytest.fixture(scope="module")
def insulated(tmp_path_factory):
    """−lap u + u = x in an insulated box: without the reaction u is determined up to a
    constant only.
    """
    u = cf.ScalarField("u")
    library = cf.Library(terms={"lap": lap(u), "u": u}, unknown=u)
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.4),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Neumann(u, 0)],
        forcing={u: x},
    )
    study = cf.Study(
        library,
        experiment,
        coefficients={"lap": 1.0, "u": -1.0},
        certification=cf.Certification(epsilon=1e-2),
        observables={"mass": (cf.Integral(u), 1e-3)},
    )
    folder = tmp_path_factory.mktemp("insulated")
    return study.run(folder), folder


def test_a_deletion_that_cannot_be_solved_is_a_result_with_its_reason(insulated):
    report, _ = insulated
    term = report.terms["u"]
    # The whole deletion is singular; what a part of it does is known, with an error bar.
    assert (term.decision, term.share) == ("relevant", 0.25)
    assert (
        term.reason == "already without 25 % of its coefficient; beyond 95 % no solution was found"
    )
    assert (term.profile["reach"], term.profile["beyond"]) == (0.95, 1.0)
    assert "singular" in term.profile["reason"]
    assert report.terms["lap"].deletion > 0
    found = report.sections["observables"]["mass"]["terms"]["u"]
    assert (found["decision"], found["reason"]) == ("unsolvable", term.profile["reason"])


def test_what_cannot_be_solved_is_told_in_words_and_on_the_page(insulated):
    report, folder = insulated
    assert "u is relevant (already without 25 % of its coefficient" in sentences(report)[0]
    page = (folder / "report.html").read_text()
    assert "unsolvable" in page
    assert "without lap" in page, "the other deletion is drawn"


def test_an_observable_is_not_irrelevant_where_one_experiment_cannot_be_solved():
    below, above, none = (1e-4, 1e-5), (1.0, 1e-5), (None, None)
    assert observable_verdict([below, below], 1e-3) == "irrelevant"
    assert observable_verdict([below, none], 1e-3, unsolvable=True) == "unsolvable"
    assert observable_verdict([above, none], 1e-3, unsolvable=True) == "relevant"


@pytest.fixture(scope="module")
def cavity():
    """A plane cavity with div E = 0, on which grad div vanishes whatever its coefficient is."""
    E = cf.VectorField("E", dim=2)
    terms = {"curl curl": -curl(curl(E)), "grad div": grad(div(E)), "damping": -dt(E)}
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.35),
        elements={E: ("N1curl", 1)},
        initial={E: (sp.sin(sp.pi * y), sp.sin(sp.pi * x)), dt(E): (0, 0)},
        boundary=[cf.Tangential(E, 0)],
        time=cf.Window(0, 0.5, steps=4),
        constraint=cf.DivergenceFree(E),
    )
    return cf.Study(
        cf.Library(anchor=dt(dt(E)), terms=terms),
        experiment,
        coefficients={"curl curl": 1.0, "grad div": 5.0, "damping": 1e-4},
        certification=cf.Certification(epsilon=1e-2, relative=True, budget=1),
        observables={"energy": (cf.Energy(E), 1e-2)},
    ).run()


def test_a_term_that_vanishes_on_the_class_is_null_whatever_its_coefficient(cavity):
    term = cavity.terms["grad div"]
    assert term.decision == "constraint_null"
    assert term.deletion <= 1e-12
    assert term.certificate is None
    assert "vanishes on the constraint class" in term.reason
    assert cavity.sections["sets"]["constraint_null"] == ["grad div"]
    assert (
        cavity.sections["observables"]["energy"]["terms"]["grad div"]["reason"]
        == "vanishes on the constraint class"
    )


def test_the_constraint_section_holds_evidence_and_what_is_left(cavity):
    found = cavity.sections["constraint"]
    (null,) = found["null_terms"]
    assert (null["term"], null["evidence"], null["label"]) == (
        "grad div",
        "symbolic and numeric",
        "exact",
    )
    assert null["ratio"] <= 1e-12
    assert found["effective_library"] == ["curl curl", "damping"]
    assert cavity.terms["damping"].decision == "irrelevant"


def test_symmetric_parts_traces_and_transposes_go_through_all_stations(tmp_path):
    """Terms of tensors in a solve, its deletions, error bars, observables, the report and a
    design of strong and weak rows.
    """
    v, T = cf.VectorField("v", dim=2), cf.ScalarField("T")
    strain = cf.sym(grad(v))
    heat = {
        "dissipation": cf.inner(strain, strain),
        "expansion": cf.trace(grad(v) + cf.transpose(grad(v))),
        "turned": cf.inner(cf.transpose(grad(v)), grad(v)),
    }
    force = {"shear": 2 * div(strain), "bulk": grad(cf.trace(strain))}
    system = cf.System(
        {v: cf.Library(terms=force, unknown=v), T: cf.Library(anchor=T, terms=heat, unknown=T)}
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.4),
        elements={v: ("Lagrange", 2), T: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(v, 0)],
        forcing={v: (1, x)},
    )
    study = cf.Study(
        system,
        experiment,
        coefficients={"v/shear": 1.0, "v/bulk": 1.0, "T/dissipation": 1.0, "T/expansion": 1.0},
        certification=cf.Certification(epsilon=1e-2, relative=True),
        observables={"heat": (cf.Integral(cf.inner(strain, cf.transpose(grad(v)))), 1e-6)},
    )
    report = study.run(tmp_path)
    assert report.terms["T/dissipation"].deletion > 0
    assert report.terms["v/bulk"].deletion > 0
    assert "sym" in (tmp_path / "report.html").read_text()
    assert "heat" in report.sections["observables"]
    factual = cf.Model(system, study.coefficients, experiment).factual
    for kind in ("weak", "strong"):
        assert cf.Design.from_fields(system.equations[T], factual, kind=kind).rank() == 3
