"""Null terms on real meshes: what vanishes on the class is found, what is merely small or unseen is not called null."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import constraint_models as models
import constraint_support as support
import sympy as sp
from constraint_models import E, v
from dolfinx.mesh import create_unit_cube, create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem import curl, div, dt, grad, x, y, z
from cffem.constraints import ConstraintAnalysis, effective_library
from cffem.constraints.effective import difference_on, equivalence_classes
from cffem.constraints.nulls import UP_TO_DISCRETISATION
from cffem.engine.mesh_shapes import channel

CAVITY = ("rotation", "graddiv", "damping", "hall")


def cavity_numbers(comm, degree="1", size="0.4", write=""):
    """Ratios and relative deletion scores of the cavity: grad div is null and its deletion does nothing, the others count."""
    model = models.cavity(support.box(comm, float(size)), int(degree), CAVITY)
    analysis = ConstraintAnalysis(model)
    (null,) = analysis.nulls
    assert (null.term, null.evidence) == ("graddiv", "symbolic and numeric")
    assert null.ratio <= 1e-12
    assert null.trajectory <= 1e-12
    assert analysis.trajectory_distance <= 1e-12
    ratios = {name: found.ratio for name, found in analysis.terms.items()}
    assert min(ratios[name] for name in CAVITY if name != "graddiv") >= 0.1
    sweep, norm = model.deletions(CAVITY), model.factual.norm("L2")
    scores = [sweep[name].score / norm for name in CAVITY]
    assert scores[1] <= 1e-12
    assert min(scores[0], scores[2], scores[3]) >= 0.01
    if write and comm.rank == 0:
        print("numbers", *(f"{score:.15e}" for score in scores))
        print("ratios", ratios)
    return scores


@pytest.mark.parametrize("degree", [1, 2])
def test_maxwell_cavity(degree):
    cavity_numbers(MPI.COMM_SELF, str(degree))


@pytest.mark.mpi
@pytest.mark.parametrize("degree", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_maxwell_cavity_on_two_ranks(on_ranks, degree):
    alone = cavity_numbers(MPI.COMM_SELF, degree, "0.6")
    printed = on_ranks(2, cavity_numbers, degree, "0.6", "write")
    together = [float(word) for word in printed.split("numbers")[1].split()[:4]]
    for a, b in zip(alone, together, strict=True):
        assert abs(a - b) <= 1e-10 * a + 1e-12


def test_a_field_with_divergence_shows_the_same_term():
    """Without the constraint and with a field that is not divergence-free, deleting grad div is visible."""
    lump = (sp.sin(sp.pi * x) * sp.sin(sp.pi * y) * sp.sin(sp.pi * z), 0, 0)
    model = models.cavity(support.box(), 1, ("rotation", "graddiv"), initial=lump, constraint=False)
    assert model.deletions(["graddiv"])["graddiv"].score > 0.1 * model.factual.norm("L2")


def test_small_is_not_null_and_null_is_not_small():
    """A null term plus a millionth of another, and a null term times a million."""
    library = cf.Library(
        anchor=dt(E),
        terms={"almost": grad(div(E)) + sp.Float(1e-6) * E, "large": 10**6 * grad(div(E)), "small": sp.Float(1e-6) * E},
    )
    experiment = cf.Experiment(
        mesh=create_unit_cube(MPI.COMM_SELF, 3, 3, 3),
        elements={E: ("N1curl", 1)},
        boundary=[cf.Tangential(E, 0)],
        initial={E: models.MODE},
        time=cf.Window(0, 0.1, steps=1),
        constraint=cf.DivergenceFree(E),
    )
    found = ConstraintAnalysis(cf.Model(library, {"small": 1.0}, experiment), trajectory=False).terms
    assert {name: evidence.status for name, evidence in found.items()} == {
        "almost": "active",
        "large": "constraint_null",
        "small": "active",
    }
    assert found["almost"].ratio < 1e-5
    assert found["large"].ratio <= 1e-12


def test_weighted_class_has_the_weighted_null():
    """With ε jumping between cells grad div(ε E) is null, grad div E is not."""
    permittivity = sp.Piecewise((4, x < sp.Rational(1, 2)), (1, True))
    library = cf.Library(
        anchor=dt(E), terms={"rotation": -curl(curl(E)), "plain": grad(div(E)), "weighted": grad(div(permittivity * E))}
    )
    experiment = cf.Experiment(
        mesh=create_unit_cube(MPI.COMM_SELF, 4, 3, 3),
        elements={E: ("N1curl", 1)},
        boundary=[cf.Tangential(E, 0)],
        initial={E: models.MODE},
        time=cf.Window(0, 0.1, steps=1),
        constraint=cf.DivergenceFree(E, weight=permittivity),
    )
    nulls = ConstraintAnalysis(cf.Model(library, {"rotation": 1.0}, experiment), trajectory=False).terms
    assert nulls["weighted"].evidence == "symbolic and numeric"
    assert nulls["plain"].status == nulls["rotation"].status == "active"
    assert nulls["plain"].ratio > 0.01


def test_what_vanishes_on_the_trajectory_only_is_aliased_not_null():
    """A uniform static field obeys Maxwell's equations: damping and rotation vanish on it to round-off, but not on the class."""
    model = models.cavity(support.box(), 1, ("rotation", "graddiv", "damping", "mass"), (1, 0, 0), boundary=(1, 0, 0))
    found = ConstraintAnalysis(model).terms
    assert found["rotation"].status == found["damping"].status == "vanishes_on_trajectory"
    assert found["graddiv"].status == "constraint_null"
    assert found["mass"].status == "active"


def maxwell_verdicts(seed):
    analysis = ConstraintAnalysis(models.cavity(support.box(seed=seed)), trajectory=False)
    groups = {frozenset(group.terms): group.label for group in equivalence_classes(analysis)}
    return {null.term for null in analysis.nulls}, groups, {null.label for null in analysis.nulls}


def flow_verdicts(seed):
    analysis = ConstraintAnalysis(models.flow(support.square(size=0.3, seed=seed)), trajectory=False)
    groups = {frozenset(group.terms): group.label for group in equivalence_classes(analysis)}
    return {null.term for null in analysis.nulls}, groups, {null.label for null in analysis.nulls}


FEW = [1, 2]
TWENTY = [*FEW, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 21))]


@pytest.mark.parametrize("seed", TWENTY)
def test_truth_table_of_twelve_maxwell_terms(seed):
    assert maxwell_verdicts(seed) == (models.MAXWELL_NULLS, dict.fromkeys(models.MAXWELL_CLASSES, "exact"), {"exact"})


@pytest.mark.parametrize("seed", TWENTY)
def test_truth_table_of_twelve_flow_terms(seed):
    """Pointwise divergence-free fields: every null and both classes are exact."""
    assert flow_verdicts(seed) == (models.FLOW_NULLS, dict.fromkeys(models.FLOW_CLASSES, "exact"), {"exact"})


TABLE = ("viscosity", "rotrot", "convection", "lamb", "kinetic", "pressure")


def test_taylor_hood_says_what_holds_only_in_the_limit():
    analysis = ConstraintAnalysis(models.flow(support.square(size=0.3), "Taylor–Hood", TABLE), trajectory=False)
    labels = {null.term: null.label for null in analysis.nulls}
    assert labels == {"pressure": "exact", "kinetic": UP_TO_DISCRETISATION}
    groups = {frozenset(group.terms): group.label for group in equivalence_classes(analysis)}
    assert groups == dict.fromkeys(models.FLOW_CLASSES, UP_TO_DISCRETISATION)


def smooth_member(analysis):
    """A smooth solenoidal field with no-slip, brought onto the discrete class: where discretisation is all that is left."""
    stream = x**2 * (1 - x) ** 2 * y**2 * (1 - y) ** 2 * sp.cos(x - 2 * y) * 100
    values = sp.lambdify((x, y), (stream.diff(y), -stream.diff(x)), "numpy")
    function = analysis.projection.function()
    function.interpolate(lambda points: np.stack(values(points[0], points[1])))
    member = analysis.projection.project(analysis.projection.state_of(function))
    return member, member, member


def leray_row(pair, cells):
    """Shares of the gradients and differences of the equivalences on a smooth member."""
    analysis = ConstraintAnalysis(models.flow(create_unit_square(MPI.COMM_SELF, cells, cells), pair, TABLE), trajectory=False)
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


@pytest.mark.parametrize("pair", ["BDM", pytest.param("RT", marks=pytest.mark.slow)])
def test_leray_table_is_exact_for_pointwise_solenoidal_fields(pair):
    row = leray_row(pair, 8)
    assert row[[0, 1, 2, 5]].max() <= 1e-12
    assert row[[3, 4]].min() >= 0.1


def test_leray_table_decays_on_taylor_hood():
    """∇(|v|²/2) and both equivalences fall with the mesh size, at least linearly; the pressure's gradient is exact."""
    rows = np.array([leray_row("Taylor–Hood", cells) for cells in (8, 16, 32)])
    orders = np.log2(rows[:-1, :3] / rows[1:, :3])
    print(rows, orders)
    assert orders[-1].min() >= 1.0
    assert rows[:, 5].max() <= 1e-12
    assert rows[:, [3, 4]].min() >= 0.1


def test_open_boundaries_make_gradients_visible():
    """With an outflow ∇φ is null only if φ vanishes there: nothing is proved, and nothing is measured to be null."""
    sides = [cf.Dirichlet(v, (y * (1 - y), 0), on="left"), cf.Dirichlet(v, 0, on=("bottom", "top")), cf.Neumann(v, 0, on="right")]
    mesh = support.with_sides(create_unit_square(MPI.COMM_SELF, 6, 6))
    model = models.flow(mesh, "Taylor–Hood", ("viscosity", "kinetic", "pressure"), sides)
    analysis = ConstraintAnalysis(model, trajectory=False)
    assert not analysis.closed
    assert analysis.nulls == []
    assert analysis.terms["kinetic"].ratio > 0.1


def test_flow_past_a_cylinder():
    """Inflow, outflow and an obstacle, pointwise solenoidal: what vanishes is exact, gradients and the physics stay visible."""
    names = ("viscosity", "convection", "bulk", "dilatation", "kinetic")
    walls = [cf.Dirichlet(v, (y * (1 - y), 0), on="inlet"), cf.Dirichlet(v, 0, on=("walls", "cylinder"))]
    model = models.flow(channel(MPI.COMM_SELF, 0.3), "BDM", names, walls)
    found = ConstraintAnalysis(model, trajectory=False)
    assert not found.closed
    assert {null.term for null in found.nulls} == {"bulk", "dilatation"}
    assert max(null.ratio for null in found.nulls) <= 1e-12
    assert min(found.terms[name].ratio for name in ("viscosity", "convection", "kinetic")) >= 0.1


def test_effective_library_says_what_went_and_why():
    model = models.flow(support.square(size=0.3), "BDM", ("viscosity", "rotrot", "kinetic", "drag", "bulk"))
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
    """In a closed plane flow the Coriolis force is a gradient: without it the velocity is the same to round-off."""
    names = ("viscosity", "coriolis", "swirl", "drag")
    model = models.flow(support.square(size=0.3), "BDM", names, coefficients={"viscosity": 0.1, "coriolis": 3.0, "swirl": 1.0})
    sweep, size = model.deletions(["viscosity", "coriolis", "swirl"]), model.factual.norm("L2")
    assert sweep["coriolis"].score <= 1e-12 * size
    assert min(sweep["viscosity"].score, sweep["swirl"].score) >= 1e-3 * size
    null = {found.term: found for found in model.constraint_nulls()}["coriolis"]
    assert (null.kind, null.evidence, null.label) == ("gradient", "symbolic and numeric", "exact")
    assert null.trajectory <= 1e-12
    without = model.solve(cf.delete("coriolis"))
    change = np.abs(model.factual.multiplier(-1).x.array - without.multiplier(-1).x.array).max()
    assert change > 1e-3


def test_deleting_the_constraint_shows_what_it_does():
    """A force that is a gradient does nothing under the constraint and drives the field off the class without it."""
    library = cf.Library(anchor=dt(E), terms={"rotation": -curl(curl(E)), "graddiv": grad(div(E))})
    experiment = cf.Experiment(
        mesh=create_unit_cube(MPI.COMM_SELF, 3, 3, 3),
        elements={E: ("N1curl", 1)},
        boundary=[cf.Tangential(E, 0)],
        initial={E: models.MODE},
        time=cf.Window(0, 0.2, steps=2),
        constraint=cf.DivergenceFree(E),
        forcing={E: (x, y, z)},
    )
    model = cf.Model(library, {"rotation": 1.0}, experiment)
    analysis = ConstraintAnalysis(model)
    assert analysis.trajectory_distance <= 1e-12
    assert analysis.projection.distance(model.solve(cf.release()).states[-1]) > 0.01


def test_magnetic_field_keeps_its_divergence():
    """E in Nédélec, B in Raviart–Thomas: dB/dt = −curl E lies in the range of the curl, so div B stays at round-off."""
    B = cf.VectorField("B", dim=3)
    system = cf.System(
        {
            "E": cf.Library(anchor=dt(E), terms={"curlB": curl(B)}, unknown=E),
            "B": cf.Library(anchor=dt(B), terms={"curlE": curl(E), "graddivB": grad(div(B))}, unknown=B),
        }
    )
    experiment = cf.Experiment(
        mesh=create_unit_cube(MPI.COMM_SELF, 3, 3, 3),
        elements={E: ("N1curl", 1), B: ("RT", 1)},
        boundary=[cf.Tangential(E, 0), cf.Neumann(B, 0)],
        initial={E: models.MODE, B: (0, 0, 0)},
        time=cf.Window(0, 1.0, steps=5),
        constraint=cf.DivergenceFree(B),
    )
    model = cf.Model(system, {"E/curlB": 1.0, "B/curlE": -1.0, "B/graddivB": 0.5}, experiment)
    nulls = model.constraint_nulls()
    assert [null.term for null in nulls] == ["B/graddivB"]
    assert nulls[0].ratio <= 1e-12
    analysis = ConstraintAnalysis(model, names=["B/curlE"])
    last = model.factual.states[-1]
    assert analysis.projection.norm(last) > 0.1
    assert max(analysis.projection.distance(state) for state in model.factual.states) <= 1e-12
    assert model.deletions(["B/graddivB"])["B/graddivB"].score <= 1e-12 * model.factual.norm("L2")
