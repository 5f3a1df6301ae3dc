"""A study with known coefficients: heat with a reaction, where every number is known in
closed form.
"""

from __future__ import annotations

import math

import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, x, y

KAPPA, D, END = 0.6, 0.05, 0.5


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    u = cf.ScalarField("u")
    library = cf.Library(anchor=dt(u), terms={"u": u, "lap": lap(u), "u_x": u.diff(x)})
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.2),
        elements={u: ("Lagrange", 2)},
        initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, END, steps=20),
    )
    certification = cf.Certification(epsilon=1e-3)
    study = cf.Study(
        library, [experiment], coefficients={"u": KAPPA, "lap": D}, certification=certification
    )
    return study.run(tmp_path_factory.mktemp("out"))


def distance(a: float, b: float) -> float:
    """‖(e^{at} − e^{bt}) sin πx sin πy‖ in L2((0,1)² × (0,END))."""

    def integral(rate: float) -> float:
        return math.expm1(rate * END) / rate

    return math.sqrt((integral(2 * a) - 2 * integral(a + b) + integral(2 * b)) / 4)


def test_deletion_scores_are_those_of_the_exact_solutions(report):
    rate = KAPPA - 2 * math.pi**2 * D
    assert report.terms["u"].deletion == pytest.approx(distance(rate, rate - KAPPA), rel=1e-3)
    assert report.terms["lap"].deletion == pytest.approx(distance(rate, KAPPA), rel=1e-3)


def test_a_verdict_carries_a_guaranteed_margin_that_holds(report):
    rate = KAPPA - 2 * math.pi**2 * D
    term = report.terms["u"]
    assert term.certificate == "guaranteed"
    assert abs(term.deletion - distance(rate, rate - KAPPA)) <= term.margin
    assert term.decision == "relevant"


def test_deleting_the_only_diffusion_has_an_estimated_margin_that_holds(report):
    rate = KAPPA - 2 * math.pi**2 * D
    term = report.terms["lap"]
    assert term.certificate == "estimated"
    assert abs(term.deletion - distance(rate, KAPPA)) <= term.margin
    assert term.decision == "relevant"


def test_a_term_with_coefficient_zero_is_not_decided(report):
    assert report.terms["u_x"].deletion is None
    assert report.terms["u_x"].decision == "unresolved"
    assert "coefficient is zero" in report.terms["u_x"].reason


def test_without_a_certificate_nothing_is_decided():
    u = cf.ScalarField("u")
    library = cf.Library(anchor=dt(u), terms={"lap": lap(u), "cubic": u**3})
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.5),
        elements={u: ("Lagrange", 1)},
        initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.1, steps=2),
    )
    known = {"lap": 1.0, "cubic": -1.0}
    nothing = cf.Certification(epsilon=1e-9, budget=1)
    found = cf.Study(library, experiment, coefficients=known, certification=nothing).run()
    assert {term.decision for term in found.terms.values()} == {"unresolved"}
    assert all("no error bar" in term.reason for term in found.terms.values())


def test_the_scope_names_library_window_norm_and_tolerance(report):
    sentence = report.sections["scope"]["sentence"]
    for word in ("{u, lap, u_x}", "(0, 0.5)", "L2", "0.001", "without refitting", "meshed polygon"):
        assert word in sentence


def test_a_tolerance_of_zero_is_refused():
    with pytest.raises(ValueError, match="positive"):
        cf.Certification(epsilon=0)
