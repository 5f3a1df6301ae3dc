"""Weights that jump, are narrow or live on a part of the domain: what quadrature makes of an
observable is in its margin.
"""

import math

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, x, y
from cffem.bounds.certificate import NotCovered
from cffem.bounds.enclosed.weights import Enclosed, LinearObservable, density
from cffem.engine.mesh.meshes import MeshData

u = cf.ScalarField("u")
MODE, EIGENVALUE = sp.sin(sp.pi * x) * sp.sin(sp.pi * y), 2 * math.pi**2
A, R = 0.05, -0.3


def heat(cells=8, degree=2, steps=20, domain=None):
    library = cf.Library(anchor=dt(u), terms={"u": u, "lap": lap(u)})
    experiment = cf.Experiment(
        mesh=domain or mesh.create_unit_square(MPI.COMM_SELF, cells, cells),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: MODE},
        time=cf.Window(0, 1, steps=steps),
    )
    return cf.Model(library, {"u": R, "lap": A}, experiment)


def effect(at):
    """What deleting R u does to the amplitude of the mode, over the window or at the end."""
    rates = np.array([A * EIGENVALUE, A * EIGENVALUE - R])
    ends = np.exp(-rates) if at == "end" else (1 - np.exp(-rates)) / rates
    return ends[0] - ends[1]


def half(edge):
    return cf.Integral(u * sp.Heaviside(edge - x), at="window"), (
        1 - math.cos(math.pi * edge)
    ) / math.pi * 2 / math.pi


@pytest.mark.parametrize("edge", [0.53, 0.3, 0.5 + 0.3 / 8])
def test_a_part_of_the_domain_that_cells_do_not_follow(edge):
    observable, value = half(edge)
    found = cf.certify_observable(heat(degree=3), observable, ["u"])["u"]
    exact = effect("window") * value
    assert found.certificate.kind == "guaranteed"
    assert abs(found.score - exact) <= found.margin <= 0.2 * exact
    # The engine cuts cells along the edge, so that both know the integral itself.
    assert abs(found.corrected - exact) < 1e-3 * exact
    assert abs(found.score - exact) < 1e-3 * exact


@pytest.mark.parametrize("width", [0.1, 0.03, 0.002])
def test_narrow_probes_end_in_numbers_that_cover(width):
    weight = sp.exp(-((x - 0.56) ** 2 + (y - 0.53) ** 2) / width**2) / (math.pi * width**2)
    found = cf.certify_observable(heat(steps=10), cf.Integral(u * weight, at="window"), ["u"])["u"]
    assert found.certificate.constants["‖ψ‖"] == pytest.approx(
        math.sqrt(1 / (2 * math.pi)) / width, rel=1e-3
    )
    smooth = math.exp(-((math.pi * width) ** 2) / 2)
    exact = effect("window") * smooth * math.sin(0.56 * math.pi) * math.sin(0.53 * math.pi)
    assert abs(found.score - exact) <= found.margin
    assert found.corrected == pytest.approx(exact, rel=0.05)


def test_a_strip_that_no_rule_sees_has_an_honest_margin():
    # All quadrature points of all levels miss the strip: the engine says zero.
    strip = sp.Piecewise((1, sp.And(x > 0.6138, x < 0.6184)), (0, True))
    exact = (
        effect("end")
        * (math.cos(0.6138 * math.pi) - math.cos(0.6184 * math.pi))
        / math.pi
        * 2
        / math.pi
    )
    found = cf.certify_observable(heat(4, 1, 4), cf.Integral(u * strip, at="end"), ["u"])["u"]
    assert abs(found.score - exact) <= found.margin


@pytest.mark.parametrize("at", ["end", 0.5, 0.53])
def test_there_are_margins_at_one_time(at):
    model = heat(16, 2, 64)
    found = cf.certify_observable(model, cf.Integral(u, at=at), ["u"], budget=1)["u"]
    time = 1.0 if at == "end" else at
    rates = np.array([A * EIGENVALUE, A * EIGENVALUE - R])
    exact = abs(np.diff(np.exp(-rates * time))[0]) * 4 / math.pi**2
    assert found.certificate.kind == "guaranteed"
    assert abs(found.score - exact) <= found.margin <= exact
    assert "one time" in found.certificate.method


def test_named_cells_are_a_part_of_the_domain():
    domain = mesh.create_unit_square(MPI.COMM_SELF, 8, 8)
    cells = np.arange(domain.topology.index_map(2).size_local, dtype=np.int32)
    middle = mesh.compute_midpoints(domain, 2, cells)[:, 0] < 0.5
    tags = mesh.meshtags(domain, 2, cells, np.where(middle, 1, 2).astype(np.int32))
    named = MeshData(domain, tags, None, {"left": (2, 1), "right": (2, 2)})
    found = cf.certify_observable(
        heat(domain=named), cf.Integral(u, on="left", at="window"), ["u"]
    )["u"]
    exact = effect("window") * 2 / math.pi**2
    assert found.certificate.kind == "guaranteed"
    assert abs(found.score - exact) <= found.margin <= 0.2 * exact


def test_averages_are_divided_by_the_true_integral_of_their_weight():
    model = heat(5, 2, 8)
    observable = cf.PointAverage(u, (0.41, 0.37), 0.11, at="window")
    linear = LinearObservable(model, observable, model.measurement(observable).nodes)
    assert linear.scale.value == pytest.approx(3 / (math.pi * 0.11**2), rel=1e-4)
    assert abs(linear.scale.value - 3 / (math.pi * 0.11**2)) <= linear.scale.radius


def test_what_is_no_weighted_integral_is_told():
    for observable in (
        cf.Integral(u**2),
        cf.Integral(u.diff(x)),
        cf.Integral(1 + u),
        cf.Integral(u * cf.t),
    ):
        with pytest.raises(NotCovered, match="weight"):
            density(observable, u)
    with pytest.raises(NotCovered, match="zero"):
        Enclosed(1.0, 0.0).over(Enclosed(0.1, 0.2))


def test_steady_margins_know_jumps_of_the_weight_and_of_the_forcing():
    # Both are enclosed: the adjoint is solved for a weight that jumps inside of cells.
    library = cf.Library(terms={"lap": lap(u), "u": u}, unknown=u)
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, 4, 4),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: MODE},
    )
    model = cf.Model(library, {"lap": 1.0, "u": -5.0}, experiment)
    observable, value = half(0.53)
    found = cf.certify_observable(model, cf.Integral(observable.expr), ["u"])["u"]
    exact = (1 / EIGENVALUE - 1 / (EIGENVALUE + 5)) * value
    assert found.certificate.kind == "guaranteed"
    assert abs(found.score - exact) <= found.margin
    assert abs(found.corrected - exact) <= found.certificate.constants["dual-weighted bound"]
