"""Null terms of Maxwell's equations: what vanishes on the class is found, what is merely
small or unseen is not called null.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

import constraint_models as models
import constraint_support as support
import sympy as sp
from constraint_models import E
from dolfinx.mesh import create_unit_cube
from mpi4py import MPI

import cffem as cf
from cffem import curl, div, dt, grad, x, y, z
from cffem.constraints.effective import equivalence_classes
from cffem.constraints.nulls import ConstraintAnalysis

CAVITY = ("rotation", "graddiv", "damping", "hall")


def cavity_numbers(comm, degree="1", size="0.4", write=""):
    """Ratios and relative deletion scores of the cavity: grad div is null and its deletion
    does nothing, the others count.
    """
    model = models.cavity(support.box(comm, float(size)), int(degree), CAVITY)
    analysis = ConstraintAnalysis(model)
    (null,) = analysis.nulls
    assert (null.term, null.evidence) == ("graddiv", "symbolic and numeric")
    assert null.ratio <= 1e-12
    assert null.bound <= 1e-12
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
def test_grad_div_is_null_in_a_cavity_and_deleting_it_changes_nothing(degree):
    cavity_numbers(MPI.COMM_SELF, str(degree))


@pytest.mark.mpi
@pytest.mark.parametrize("degree", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_scores_of_a_cavity_are_the_same_on_two_ranks(on_ranks, degree):
    alone = cavity_numbers(MPI.COMM_SELF, degree, "0.6")
    printed = on_ranks(2, cavity_numbers, degree, "0.6", "write", timeout=400)
    together = [float(word) for word in printed.split("numbers")[1].split()[:4]]
    for a, b in zip(alone, together, strict=True):
        assert abs(a - b) <= 1e-10 * a + 1e-12


def test_a_field_with_divergence_shows_the_same_term():
    """Without the constraint and with a field that is not divergence-free, deleting grad div
    is visible.
    """
    lump = (sp.sin(sp.pi * x) * sp.sin(sp.pi * y) * sp.sin(sp.pi * z), 0, 0)
    model = models.cavity(support.box(), 1, ("rotation", "graddiv"), initial=lump, constraint=False)
    assert model.deletions(["graddiv"])["graddiv"].score > 0.1 * model.factual.norm("L2")


def test_small_is_not_null_and_null_is_not_small():
    """A null term plus a millionth of another, and a null term times a million."""
    library = cf.Library(
        anchor=dt(E),
        terms={
            "almost": grad(div(E)) + sp.Float(1e-6) * E,
            "large": 10**6 * grad(div(E)),
            "small": sp.Float(1e-6) * E,
        },
    )
    experiment = cf.Experiment(
        mesh=create_unit_cube(MPI.COMM_SELF, 3, 3, 3),
        elements={E: ("N1curl", 1)},
        boundary=[cf.Tangential(E, 0)],
        initial={E: models.MODE},
        time=cf.Window(0, 0.1, steps=1),
        constraint=cf.DivergenceFree(E),
    )
    found = ConstraintAnalysis(
        cf.Model(library, {"small": 1.0}, experiment), trajectory=False
    ).terms
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
        anchor=dt(E),
        terms={
            "rotation": -curl(curl(E)),
            "plain": grad(div(E)),
            "weighted": grad(div(permittivity * E)),
        },
    )
    experiment = cf.Experiment(
        mesh=create_unit_cube(MPI.COMM_SELF, 4, 3, 3),
        elements={E: ("N1curl", 1)},
        boundary=[cf.Tangential(E, 0)],
        initial={E: models.MODE},
        time=cf.Window(0, 0.1, steps=1),
        constraint=cf.DivergenceFree(E, weight=permittivity),
    )
    nulls = ConstraintAnalysis(
        cf.Model(library, {"rotation": 1.0}, experiment), trajectory=False
    ).terms
    assert nulls["weighted"].evidence == "symbolic and numeric"
    assert nulls["plain"].status == nulls["rotation"].status == "active"
    assert nulls["plain"].ratio > 0.01


def test_what_vanishes_on_the_trajectory_only_is_aliased_not_null():
    """A uniform static field obeys Maxwell's equations: damping and rotation vanish on it to
    round-off, but not on the class.
    """
    model = models.cavity(
        support.box(), 1, ("rotation", "graddiv", "damping", "mass"), (1, 0, 0), boundary=(1, 0, 0)
    )
    found = ConstraintAnalysis(model).terms
    assert found["rotation"].status == found["damping"].status == "vanishes_on_trajectory"
    assert found["graddiv"].status == "constraint_null"
    assert found["mass"].status == "active"


def maxwell_verdicts(seed):
    analysis = ConstraintAnalysis(models.cavity(support.box(seed=seed)), trajectory=False)
    groups = {
        frozenset(group.terms): (group.label, group.evidence)
        for group in equivalence_classes(analysis)
    }
    return {null.term for null in analysis.nulls}, groups, {null.label for null in analysis.nulls}


FEW = [1, 2]
TWENTY = [*FEW, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 21))]


@pytest.mark.parametrize("seed", TWENTY)
def test_truth_table_of_twelve_maxwell_terms(seed):
    classes = dict.fromkeys(models.MAXWELL_CLASSES, ("exact", "symbolic and numeric"))
    assert maxwell_verdicts(seed) == (models.MAXWELL_NULLS, classes, {"exact"})


def test_deleting_the_constraint_shows_what_it_does():
    """A force that is a gradient does nothing under the constraint and drives the field off
    the class without it.
    """
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
    constrained = ConstraintAnalysis(model).terms["graddiv"]
    assert constrained.distance <= 1e-12
    assert constrained.trajectory <= 1e-12
    released = ConstraintAnalysis(model, trajectory=model.solve(cf.release())).terms["graddiv"]
    assert released.status == "constraint_null"
    assert released.distance > 0.01
    assert released.trajectory > 1e-6
    assert "so project it first" in released.reason
    assert "project it first" not in constrained.reason


def test_magnetic_field_keeps_its_divergence():
    """E in Nédélec, B in Raviart–Thomas: dB/dt = −curl E lies in the range of the curl, so
    div B stays at round-off.
    """
    B = cf.VectorField("B", dim=3)
    system = cf.System(
        {
            "E": cf.Library(anchor=dt(E), terms={"curlB": curl(B)}, unknown=E),
            "B": cf.Library(
                anchor=dt(B), terms={"curlE": curl(E), "graddivB": grad(div(B))}, unknown=B
            ),
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
