"""Flow past a cylinder and in a driven cavity: what the pressure takes up exactly, what in
the limit, and what it does not.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from mpi4py import MPI

from cffem.constraints.effective import equivalence_classes
from cffem.constraints.nulls import UP_TO_DISCRETISATION, ConstraintAnalysis
from cffem.engine.mesh import mesh_shapes
from cffem.validation.leray import ACTIVE, FADING, TERMS, flow_model, leray_column

EQUIVALENCES = ("lap v ≡ −curl curl v", "(v·∇)v ≡ (∇×v)×v")
FADED = "∇½(L−x)|v|²"
# Null in the limit on Taylor–Hood, to round-off on pointwise divergence-free fields; the cylinder
# has an outlet.
LIMIT = {"cavity": ("∇½|v|²", "(div v) v", *EQUIVALENCES), "cylinder": (FADED, "(div v) v")}


@pytest.mark.parametrize("pair", ["RT", "BDM"])
@pytest.mark.parametrize("case", ["cavity", "cylinder"])
def test_pointwise_solenoidal_flow_has_exact_entries(case, pair):
    column = leray_column(case, pair, 0.3, MPI.COMM_SELF)
    exact = {*LIMIT[case], *EQUIVALENCES, *(["∇p"] if case == "cavity" else [])}
    assert max(column[name] for name in exact) <= 1e-12
    assert min(column[name] for name in ACTIVE) >= 0.1
    if case == "cylinder":  # φ ≠ 0 at the outlet
        assert min(column["∇p"], column["∇½|v|²"]) >= 0.05


SIZES = [0.1, 0.05, pytest.param(0.025, marks=pytest.mark.slow)]


@pytest.mark.parametrize("finest", SIZES[1:])
@pytest.mark.parametrize("case", ["cavity", "cylinder"])
def test_taylor_hood_entries_decay(case, finest):
    """(∇φ, w) = −(φ − q, div w) ≤ C h² · C/h ‖w‖: first order; on coarse meshes the boundary
    layer of the lid is not resolved.
    """
    coarse, fine = (
        leray_column(case, "Taylor–Hood", h, MPI.COMM_SELF) for h in (2 * finest, finest)
    )
    names = [name for name in LIMIT[case] if finest < 0.05 or name != EQUIVALENCES[1]]
    orders = [np.log2(coarse[name] / fine[name]) for name in names]
    assert min(orders) >= 1.0
    assert max(fine[name] for name in names) > 1e-6  # in the limit only
    assert min(fine[name] for name in ACTIVE) >= 0.1
    if case == "cavity":
        assert fine["∇p"] <= 1e-12
    else:  # φ ≠ 0 at the outlet: visible however fine the mesh is
        assert fine["∇p"] >= 0.1
        assert fine[EQUIVALENCES[0]] >= 0.1  # ∂v/∂n = 0 is not curl v = 0 there


def verdicts(case, pair):
    shape = {"cavity": mesh_shapes.square, "cylinder": mesh_shapes.channel}[case]
    analysis = ConstraintAnalysis(
        flow_model(case, pair, shape(MPI.COMM_SELF, 0.3), {**TERMS, **FADING}), trajectory=False
    )
    nulls = {null.term: null.label for null in analysis.nulls}
    classes = {
        frozenset(group.terms): (group.label, group.evidence)
        for group in equivalence_classes(analysis)
    }
    return nulls, classes, analysis


def test_in_a_closed_flow_gradients_are_null_exactly_or_in_the_limit():
    nulls, classes, _ = verdicts("cavity", "Taylor–Hood")
    assert nulls == {
        "∇p": "exact",
        **dict.fromkeys(["∇½|v|²", FADED, "(div v) v"], UP_TO_DISCRETISATION),
    }
    pairs = (frozenset({"viscosity", "rotation"}), frozenset({"convection", "lamb"}))
    assert classes == dict.fromkeys(pairs, (UP_TO_DISCRETISATION, "symbolic"))


def test_in_an_open_flow_a_gradient_is_null_only_if_its_potential_vanishes_at_the_outlet():
    """∇φ is null only if φ vanishes at the outlet, and natural conditions tell lap v from
    −curl curl v there.
    """
    together = frozenset({"convection", "lamb", "∇½|v|²"})
    nulls, classes, analysis = verdicts("cylinder", "Taylor–Hood")
    assert analysis.open_parts == ("outlet",)
    assert nulls == dict.fromkeys([FADED, "(div v) v"], UP_TO_DISCRETISATION)
    assert classes == {together: ("exact", "symbolic and numeric")}
    nulls, classes, _ = verdicts("cylinder", "BDM")
    assert nulls == dict.fromkeys([FADED, "(div v) v"], "exact")
    both = ("exact", "symbolic and numeric")
    assert classes == {together: both, frozenset({"viscosity", "rotation"}): both}


def test_relations_are_found_by_measuring_alone():
    """A combination with a millionth of something else is no combination."""
    from cffem.constraints.dependence import Images, measured_relations
    from cffem.symbols.operators import dot, lap

    v = next(iter(TERMS["viscosity"].atoms(type(TERMS["viscosity"].args[0]))))
    terms = {
        "viscosity": lap(v),
        "drag": v,
        "mix": 3 * lap(v) - v / 2,
        "almost": lap(v) + v + sp.Float(1e-6) * dot(v, v) * v,
    }
    analysis = ConstraintAnalysis(
        flow_model("cavity", "BDM", mesh_shapes.square(MPI.COMM_SELF, 0.4), terms), trajectory=False
    )
    found = measured_relations(Images(analysis), tuple(terms))
    assert found == {"mix": {"viscosity": sp.Integer(3), "drag": -sp.Rational(1, 2)}}


def test_norm_bound_finds_a_needle():
    """A map that is zero on all but one basis function has norm one; smooth samples hardly
    see it, the bound does.
    """
    from cffem.constraints.norm_bound import NormBound

    model = flow_model("cavity", "Taylor–Hood", mesh_shapes.square(MPI.COMM_SELF, 0.2), TERMS)
    evaluation = ConstraintAnalysis(model, trajectory=False).evaluation
    bound = NormBound(evaluation)
    free = np.flatnonzero(evaluation.free)
    for place in free[:: len(free) // 5]:
        needle = np.zeros(len(evaluation.free))
        needle[place] = 1.0
        needle /= evaluation.norm(needle)
        right, left = evaluation.mass.createVecs()
        right.array[:] = needle
        evaluation.mass.mult(right, left)
        row = left.array_r.copy()
        assert 1.0 <= bound(lambda state, n=needle, r=row: n * float(r @ state)) <= 200.0
    forward, _ = evaluation.operator("viscosity", 0)
    assert bound(forward) >= evaluation.largest_singular_value(*evaluation.operator("viscosity", 0))


def test_a_moving_lid_is_in_the_weak_curl_of_solenoidal_fields():
    """The share of viscosity in the flow tends to that of Taylor–Hood, 0.68; without the
    lid's motion it tends to one.
    """
    shares = [leray_column("cavity", "RT", h, MPI.COMM_SELF)["viscosity"] for h in (0.2, 0.1)]
    assert 0.68 < shares[1] < shares[0] < 0.75
