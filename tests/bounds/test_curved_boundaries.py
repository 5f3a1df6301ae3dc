"""Straight cells that stand for a disk: error bars cover the disk itself, and are estimated."""

import math

import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI
from scipy.integrate import quad
from scipy.special import iv

import cffem as cf
from cffem import dt, lap
from cffem.bounds.entrance import certify_deletion, certify_solution, certify_sweep
from cffem.bounds.refining import Refinement

u = cf.ScalarField("u")
REACTION = 5.0


def factual(r):
    """1 = −Δu + 5 u on the unit disk."""
    root = math.sqrt(REACTION)
    return (1 - iv(0, root * r) / iv(0, root)) / REACTION


def deleted(r):
    return (1 - r * r) / 4


def over_disk(function):
    return 2 * math.pi * quad(lambda r: function(r) * r, 0, 1)[0]


SCORE = math.sqrt(over_disk(lambda r: (factual(r) - deleted(r)) ** 2))
EFFECT = over_disk(lambda r: deleted(r) - factual(r))
NORM = math.sqrt(over_disk(lambda r: factual(r) ** 2))


def disk(h, degree, domain=None):
    library = cf.Library(terms={"lap": lap(u), "r": u}, unknown=u)
    experiment = cf.Experiment(
        mesh=domain or cf.mesh.disk(MPI.COMM_SELF, h),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1},
    )
    return cf.Model(library, {"lap": 1.0, "r": -REACTION}, experiment)


@pytest.mark.parametrize(("h", "degree"), [(0.5, 1), (0.5, 3), (0.3, 2)])
def test_error_bars_cover_the_disk_and_not_only_its_polygon(h, degree):
    model = disk(h, degree)
    bound = certify_deletion(model, "r")
    assert bound.certificate.kind == "estimated"
    assert abs(bound.score - SCORE) <= bound.margin <= SCORE / 2
    assert "curves" in str(bound.certificate)
    sweep = certify_sweep(
        model, model.deletions(["r"], keep=True), cf.Certification(epsilon=SCORE)
    )["r"]
    assert abs(sweep.score - SCORE) <= sweep.margin
    solution = certify_solution(model)
    assert solution.kind == "estimated"
    assert solution.value >= abs(model.factual.norm() - NORM)
    observed = cf.certify_observable(model, cf.Integral(u), ["r"])["r"]
    assert observed.certificate.kind == "estimated"
    assert abs(observed.score - EFFECT) <= observed.margin


def test_the_polygon_alone_would_not_cover():
    # A mesh that says nothing of a curve is the polygon: its bar is guaranteed, and smaller than
    # the gap.
    model = disk(0.5, 3, cf.mesh.disk(MPI.COMM_SELF, 0.5).mesh)
    bound = certify_deletion(model, "r")
    assert bound.certificate.kind == "guaranteed"
    assert bound.margin < abs(bound.score - SCORE)


def test_refined_cells_do_not_come_nearer_to_the_curve():
    found = Refinement(disk(0.5, 1), cf.Certification(epsilon=SCORE, budget=5e3))(("r",), 1)["r"]
    assert found.certificate.kind == "estimated"
    assert abs(found.score - SCORE) <= found.margin


def test_curves_count_in_time_as_well():
    def heat(degree, geometry, steps):
        library = cf.Library(anchor=dt(u), terms={"lap": lap(u), "r": u})
        experiment = cf.Experiment(
            mesh=cf.mesh.disk(MPI.COMM_SELF, 0.5, degree=geometry),
            elements={u: ("Lagrange", degree)},
            boundary=[cf.Dirichlet(u, 0)],
            initial={u: 0},
            forcing={u: 1},
            time=cf.Window(0, 0.5, steps=steps),
        )
        return cf.Model(library, {"lap": 1.0, "r": -REACTION}, experiment)

    fine = heat(4, 2, 40)
    score = fine.factual.distance(fine.solve(cf.delete("r")))
    bound = certify_deletion(heat(2, 1, 20), "r")
    assert bound.certificate.kind == "estimated"
    assert abs(bound.score - score) <= bound.margin


def test_shapes_with_straight_sides_have_no_curve():
    assert cf.mesh.square(MPI.COMM_SELF, 0.5).curved is None
    assert cf.mesh.disk(MPI.COMM_SELF, 0.5, degree=2).curved is None
    assert cf.mesh.annulus(MPI.COMM_SELF, 0.5).curved().mesh.geometry.cmap.degree == 2
