"""Observables of solutions that are known exactly: u = x + t and its like, which every
element and scheme here reproduces.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx import mesh
from engine_support import unit
from mpi4py import MPI

import cffem as cf
from cffem import t, x, y
from cffem.engine.mesh.meshes import MeshData

u = cf.ScalarField("u")


def halves(n=4):
    """The unit square with named sides and its left half as a subdomain."""
    domain = unit("triangle", n)
    cells = mesh.locate_entities(domain.mesh, 2, lambda points: points[0] <= 0.5 + 1e-12)
    tags = mesh.meshtags(domain.mesh, 2, cells, np.full(len(cells), 7, dtype=np.int32))
    return MeshData(domain.mesh, tags, domain.facet_tags, {**domain.names, "west": (2, 7)})


@pytest.fixture(scope="module")
def model():
    """∂_t u = 1 from u = x: u = x + t."""
    experiment = cf.Experiment(
        mesh=halves(), elements={u: ("Lagrange", 1)}, initial={u: x}, time=cf.Window(0, 1, steps=5)
    )
    return cf.Model(
        cf.Library(anchor=cf.dt(u), terms={"one": sp.Integer(1)}), {"one": 1.0}, experiment
    )


@pytest.mark.parametrize(
    ("observable", "expected"),
    [
        (cf.Integral(u), 1.5),
        (cf.Integral(u, at=0.3), 0.8),
        (cf.Integral(u, at=1), 1.5),
        (cf.Integral(u, at="window"), 1.0),
        (cf.Integral(u * t, at="window"), 7 / 12),
        (cf.Energy(u, at="window"), 7 / 12),
        (cf.Energy(cf.grad(u)), 0.5),
        (cf.Integral(u, on="west"), 0.625),
        (cf.Average(u, on="west"), 1.25),
        (cf.Average(u, on="right"), 2.0),
        (cf.Average(u, at="window"), 1.0),
        (cf.Integral(u * y, on="top"), 1.5),
        (cf.Flux(cf.grad(u), on="right"), 1.0),
        (cf.Flux(u * cf.grad(u)), 1.0),
        (cf.PointAverage(u - x, point=(0.4, 0.6), radius=0.3), 1.0),
    ],
)
def test_observables_have_their_exact_values(model, observable, expected):
    assert model.measurement(observable).value(model.factual) == pytest.approx(expected, rel=1e-12)


def test_a_point_average_is_near_the_value_at_the_point(model):
    near = cf.PointAverage(u, point=(0.5, 0.5), radius=0.4, at=0.5)
    assert model.measurement(near).value(model.factual) == pytest.approx(1.0, abs=5e-3)


def test_a_front_is_found_with_its_speed():
    experiment = cf.Experiment(
        mesh=unit("interval", 200),
        elements={u: ("Lagrange", 1)},
        initial={u: 0.7 - x},
        time=cf.Window(0, 0.5, steps=5),
    )
    model = cf.Model(
        cf.Library(anchor=cf.dt(u), terms={"one": sp.Integer(1)}), {"one": 1.0}, experiment
    )
    place, speed = (
        cf.Front(u, level=0.5, width=0.02),
        cf.Front(u, level=0.5, width=0.02, speed=True),
    )
    assert model.measurement(place).value(model.factual) == pytest.approx(0.7, abs=1e-4)
    assert model.measurement(speed).value(model.factual) == pytest.approx(1.0, abs=1e-4)
    # The front moves with the term: deleting it stops the front, and the adjoint says so to first
    # order.
    scores = model.observable_scores(speed)
    assert scores["one"] == pytest.approx(1.0, abs=1e-3)
    assert model.observable_deletions(speed)["one"].value == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("observable", "message"),
    [
        (cf.Integral(u, on="nowhere"), "is on 'nowhere', which is no part of this mesh"),
        (cf.Integral(u, at=2), "is at time 2, outside the window from 0 to 1"),
        (cf.Integral(cf.ScalarField("q")), "is of q, but the model has u"),
        (cf.Integral(cf.dt(u)), "needs a rate of u that is no part of the state"),
        (cf.Integral(cf.lap(u) ** 2), "takes derivatives of order 2 of u.* take degree 2"),
        (cf.Flux(cf.grad(u.diff(x))), "takes derivatives of order 2 of u"),
        (cf.PointAverage(u, point=(5, 5), radius=0.1), "its weight vanishes on the whole mesh"),
    ],
)
def test_observables_that_cannot_be_measured_are_refused(model, observable, message):
    with pytest.raises(cf.InputError, match=message):
        model.measurement(observable)


def test_a_steady_problem_has_no_times():
    experiment = cf.Experiment(
        mesh=mesh.create_unit_interval(MPI.COMM_SELF, 4),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
    )
    model = cf.Model(cf.Library(terms={"lap": cf.lap(u)}, unknown=u), {"lap": 1.0}, experiment)
    with pytest.raises(cf.InputError, match="the problem is steady"):
        model.measurement(cf.Integral(u, at="window"))
