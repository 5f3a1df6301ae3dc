"""On a system every field is judged against its own norm, so that a large field does not hide
a small one.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

from mpi4py import MPI

import cffem as cf
from cffem import div, dt, grad, lap, x

u, T = cf.VectorField("u", dim=2), cf.ScalarField("T")
COEFFICIENTS = {"u/mu": 1.0, "u/lam": 1.5, "u/thermal": 1.0, "T/lap": 1.0, "T/sink": 1.0}


def thermoelastic(scale=1.0):
    """A displacement that a temperature drives; `scale` is the unit of temperature."""
    library = cf.System(
        {
            u: cf.Library(
                terms={"mu": lap(u), "lam": grad(div(u)), "thermal": -grad(T)}, unknown=u
            ),
            T: cf.Library(terms={"lap": lap(T), "sink": -T}, unknown=T),
        }
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.25),
        elements={u: ("Lagrange", 2), T: ("Lagrange", 1)},
        boundary=[
            cf.Dirichlet(u, 0),
            cf.Dirichlet(T, scale, on="left"),
            cf.Neumann(T, 0, on=("top", "bottom", "right")),
        ],
    )
    return library, experiment, {**COEFFICIENTS, "u/thermal": 1.0 / scale}


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_a_field_that_vanishes_without_a_term_makes_it_relevant(scale):
    """Whatever the units of the temperature, the displacement vanishes without its thermal
    load, and the temperature stays.
    """
    library, experiment, coefficients = thermoelastic(scale)
    report = cf.Study(
        library, experiment, coefficients=coefficients, certification=cf.Certification(epsilon=0.1)
    ).run()
    thermal = report.terms["u/thermal"]
    assert thermal.decision == "relevant"
    assert dict(thermal.fields) == {"u": "relevant", "T": "irrelevant"}
    assert thermal.field == "u"
    (single,) = [
        v
        for v in report.sections["sets"]["verdicts"]
        if v["term"] == "u/thermal" and v["field"] == "u"
    ]
    # The displacement without its load is zero, so the score is its norm.
    model = cf.Model(library, coefficients, experiment)
    assert single["score"] == pytest.approx(model.factual.norm("L2[u]"), rel=1e-9)
    assert single["epsilon"] == pytest.approx(0.1 * single["score"], rel=1e-9)
    assert "(u: relevant, T: irrelevant)" in str(report)
    assert "each field's own norm" in report.sections["scope"]["sentence"]


def test_norms_of_single_fields_add_up():
    library, experiment, coefficients = thermoelastic()
    with cf.Model(library, coefficients, experiment) as model:
        parts = [model.factual.norm(f"H1[{name}]") for name in ("u", "T")]
        assert np.hypot(*parts) == pytest.approx(model.factual.norm("H1"), rel=1e-12)
        with pytest.raises(cf.InputError, match=r"L2\[u\]"):
            model.factual.norm("L2[p]")


def test_a_field_that_is_zero_in_the_factual_solution_needs_an_absolute_tolerance():
    a, b = cf.ScalarField("a"), cf.ScalarField("b")
    library = cf.System(
        {
            a: cf.Library(anchor=dt(a), terms={"lap": lap(a), "a": a}),
            b: cf.Library(anchor=dt(b), terms={"lap": lap(b)}),
        }
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, 0.2),
        elements={a: ("Lagrange", 2), b: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(a, 0), cf.Dirichlet(b, 0)],
        initial={a: sp.sin(sp.pi * x), b: 0},
        time=cf.Window(0, 0.1, steps=4),
    )
    report = cf.Study(
        library,
        experiment,
        coefficients={"a/lap": 0.1, "a/a": 1.0, "b/lap": 0.1},
        certification=cf.Certification(epsilon=0.01),
    ).run()
    assert report.terms["a/a"].decision == "relevant"
    assert report.terms["b/lap"].decision == "unresolved"
    assert report.terms["b/lap"].fields["b"] == "unresolved"


def test_auxiliary_fields_are_not_judged():
    w = cf.ScalarField("w")
    v = cf.ScalarField("v")
    library = cf.System(
        {v: cf.Library(dt(v), {"fourth": lap(w), "v": v}), w: cf.Library(w - lap(v), {}, unknown=w)}
    )
    from cffem.study.run.counted import counted_fields

    assert counted_fields(library, "L2") == ()
