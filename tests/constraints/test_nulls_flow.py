"""Null terms and equivalence classes of plane flows: exact on pointwise solenoidal fields, in
the limit on Taylor–Hood pairs.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import constraint_models as models
import constraint_support as support
import sympy as sp
from dolfinx.mesh import create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem import x, y
from cffem.constraints.effective import difference_on, effective_library, equivalence_classes
from cffem.constraints.nulls import UP_TO_DISCRETISATION, ConstraintAnalysis

FEW = [1, 2]
TWENTY = [*FEW, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 21))]


def flow_verdicts(seed):
    analysis = ConstraintAnalysis(
        models.flow(support.square(size=0.3, seed=seed)), trajectory=False
    )
    groups = {
        frozenset(group.terms): (group.label, group.evidence)
        for group in equivalence_classes(analysis)
    }
    return {null.term for null in analysis.nulls}, groups, {null.label for null in analysis.nulls}


@pytest.mark.parametrize("seed", TWENTY)
def test_truth_table_of_twelve_flow_terms(seed):
    """Pointwise divergence-free fields: every null and both classes are exact, found by
    rewriting and by measuring.
    """
    classes = dict.fromkeys(models.FLOW_CLASSES, ("exact", "symbolic and numeric"))
    assert flow_verdicts(seed) == (models.FLOW_NULLS, classes, {"exact"})


TABLE = ("viscosity", "rotrot", "convection", "lamb", "kinetic", "pressure")


def test_taylor_hood_says_what_holds_only_in_the_limit():
    analysis = ConstraintAnalysis(
        models.flow(support.square(size=0.3), "Taylor–Hood", TABLE), trajectory=False
    )
    labels = {null.term: null.label for null in analysis.nulls}
    assert labels == {"pressure": "exact", "kinetic": UP_TO_DISCRETISATION}
    groups = {
        frozenset(group.terms): (group.label, group.evidence)
        for group in equivalence_classes(analysis)
    }
    assert groups == dict.fromkeys(models.FLOW_CLASSES, (UP_TO_DISCRETISATION, "symbolic"))


def smooth_member(analysis):
    """A smooth solenoidal field with no-slip, brought onto the discrete class: where
    discretisation is all that is left.
    """
    stream = x**2 * (1 - x) ** 2 * y**2 * (1 - y) ** 2 * sp.cos(x - 2 * y) * 100
    values = sp.lambdify((x, y), (stream.diff(y), -stream.diff(x)), "numpy")
    function = analysis.projection.function()
    function.interpolate(lambda points: np.stack(values(points[0], points[1])))
    member = analysis.projection.project(analysis.projection.state_of(function))
    return member, member, member


def leray_row(pair, cells):
    """Shares of the gradients and differences of the equivalences on a smooth member."""
    analysis = ConstraintAnalysis(
        models.flow(create_unit_square(MPI.COMM_SELF, cells, cells), pair, TABLE), trajectory=False
    )
    member = smooth_member(analysis)
    return np.array(
        [
            analysis.share("kinetic", member),
            difference_on(analysis, "rotrot", {"viscosity": sp.Integer(-1)}, member),
            difference_on(analysis, "lamb", {"convection": sp.Integer(1)}, member),
            analysis.share("viscosity", member),
            analysis.share("convection", member),
            analysis.tested_ratio("pressure"),
        ]
    )


def test_leray_table_decays_on_taylor_hood():
    """∇(|v|²/2) and both equivalences fall with the mesh size, at least linearly; the
    pressure's gradient is exact.
    """
    rows = np.array([leray_row("Taylor–Hood", cells) for cells in (8, 16, 32)])
    orders = np.log2(rows[:-1, :3] / rows[1:, :3])
    assert orders[-1].min() >= 1.0
    assert rows[:, 5].max() <= 1e-12
    assert rows[:, [3, 4]].min() >= 0.1


def test_effective_library_says_what_went_and_why():
    model = models.flow(
        support.square(size=0.3), "BDM", ("viscosity", "rotrot", "kinetic", "drag", "bulk")
    )
    effective = effective_library(model)
    assert effective.library.names == ("viscosity", "drag")
    assert {null.term for null in effective.removed} == {"kinetic", "bulk"}
    (group,) = effective.classes
    assert group.identified == {"viscosity": sp.Symbol("viscosity") - sp.Symbol("rotrot")}
    assert "only the combination -rotrot + viscosity" in str(effective)
    forced = effective_library(model, force=["bulk"])
    assert forced.library.names == ("viscosity", "drag", "bulk")
    assert forced.verdict("bulk") == "constraint_null"
    assert forced.verdict("rotrot") == "grouped"
    assert forced.verdict("drag") is None
    with pytest.raises(cf.InputError, match="bulkk"):
        effective_library(model, force=["bulkk"])


def test_deleting_a_gradient_moves_the_pressure_only():
    """In a closed plane flow the Coriolis force is a gradient: without it the velocity is the
    same to round-off.
    """
    names = ("viscosity", "coriolis", "swirl", "drag")
    model = models.flow(
        support.square(size=0.3),
        "BDM",
        names,
        coefficients={"viscosity": 0.1, "coriolis": 3.0, "swirl": 1.0},
    )
    sweep, size = model.deletions(["viscosity", "coriolis", "swirl"]), model.factual.norm("L2")
    assert sweep["coriolis"].score <= 1e-12 * size
    assert min(sweep["viscosity"].score, sweep["swirl"].score) >= 1e-3 * size
    null = {found.term: found for found in model.constraint_nulls()}["coriolis"]
    assert (null.kind, null.evidence, null.label) == ("gradient", "symbolic and numeric", "exact")
    assert null.trajectory <= 1e-12
    without = model.solve(cf.delete("coriolis"))
    change = np.abs(model.factual.multiplier(-1).x.array - without.multiplier(-1).x.array).max()
    assert change > 1e-3
