"""Prescribed values with kinks between nodes: what the nodes miss is in estimated error bars."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from benchmarks.certify.adversary_rough import TERMS, wall_score
from cffem import lap, x, y, z
from cffem.bounds.levels.estimates import Estimates
from cffem.bounds.levels.kinked_walls import KinkedWalls

u, w = cf.ScalarField("u"), cf.ScalarField("w", dim=3)
LOW, HIGH, REACTION = 0.12, 0.5956, 19.87
HAT = sp.Max(0, 1 - sp.Abs(x - (LOW + HIGH) / 2) / ((HIGH - LOW) / 2))


def reaction(domain, value, degree=2, field=u):
    """−Δu + r u = 0 with values on one side and zero on the others."""
    library = cf.Library(terms={"lap": lap(field), "r": -field}, unknown=field)
    experiment = cf.Experiment(
        mesh=domain, elements={field: ("Lagrange", degree)}, boundary=[cf.Dirichlet(field, value)]
    )
    return cf.Model(library, {"lap": 1.0, "r": REACTION}, experiment)


def hat_model(comm):
    library = cf.Library(terms={"lap": lap(u), "r": -u}, unknown=u)
    experiment = cf.Experiment(
        mesh=cf.mesh.square(comm, 1 / 7),
        elements={u: ("Lagrange", 2)},
        boundary=[
            cf.Dirichlet(u, HAT, on="bottom"),
            cf.Dirichlet(u, 0, on=("left", "right", "top")),
        ],
    )
    return cf.Model(library, {"lap": 1.0, "r": REACTION}, experiment)


def test_kinks_that_cancel_on_coarser_levels_are_in_the_bar():
    """By gaps alone the bar was 6.1e-4, less than half of the error, 1.47e-3."""
    k = np.pi * np.arange(1, TERMS + 1)
    middle, half = (LOW + HIGH) / 2, (HIGH - LOW) / 2
    truth = wall_score(4 * np.sin(k * middle) * (1 - np.cos(k * half)) / (half * k**2), REACTION)
    with hat_model(MPI.COMM_SELF) as model:
        estimates = Estimates(model, 1e5)
        bound = estimates.deletion("r")
        estimates.destroy()
    error = abs(bound.score - truth)
    assert bound.certificate.kind == "estimated"
    assert error == pytest.approx(1.47e-3, rel=1e-2)
    assert error <= bound.margin < 2 * error


@pytest.mark.parametrize(
    ("domain", "value", "field"),
    [
        (mesh.create_unit_square(MPI.COMM_SELF, 3, 3), x**2 + x * y, u),
        (mesh.create_unit_cube(MPI.COMM_SELF, 2, 2, 2), x**2 + y * z, w),
    ],
    ids=["plane", "space"],
)
def test_polynomials_of_the_element_are_kept(domain, value, field):
    with reaction(domain, value, field=field) as model:
        walls = KinkedWalls(model, list(model.experiment.boundary))
        assert walls.moved(None) <= 1e-12 * model.factual.norm()
        assert walls.moved(cf.delete("r")) <= 1e-12 * model.factual.norm()


def test_kinks_at_nodes_move_nothing_and_moving_ones_are_refused():
    square = mesh.create_unit_square(MPI.COMM_SELF, 4, 4)
    with reaction(square, sp.Abs(x - sp.Rational(1, 2)), degree=1) as model:
        estimates = Estimates(model, 1e5)
        assert "kink" not in str(estimates.deletion("r").certificate)
        estimates.destroy()
    library = cf.Library(anchor=cf.dt(u), terms={"lap": lap(u), "r": -u})
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.25),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, cf.t * sp.Abs(x - sp.Rational(3, 10)))],
        initial={u: 0},
        time=cf.Window(0, 0.2, steps=4),
    )
    with cf.Model(library, {"lap": 1.0, "r": 1.0}, experiment) as model:
        estimates = Estimates(model, 1e5)
        bound = estimates.deletion("r")
        estimates.destroy()
    assert not bound
    assert "kinks between nodes" in bound.reason


def print_moved(comm):
    with hat_model(comm) as model:
        walls = KinkedWalls(model, [model.experiment.boundary[0]])
        found = [walls.moved(None), walls.moved(cf.delete("r"))]
    if comm.rank == 0:
        print("moved", *(f"{value:.15e}" for value in found), flush=True)


@pytest.mark.mpi
def test_what_nodes_miss_is_the_same_on_two_ranks(on_ranks, capsys):
    print_moved(MPI.COMM_SELF)
    one, two = capsys.readouterr().out, on_ranks(2, print_moved)
    numbers = [[float(n) for n in text.split("moved")[1].split()[:2]] for text in (one, two)]
    assert numbers[1] == pytest.approx(numbers[0], rel=1e-9)
