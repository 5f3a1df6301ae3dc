"""Enclosures contain every value, and a spike that lies between all quadrature points is in the bound with its size."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from bounds_support import DIFFUSIVE, model, perturbed
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from cffem.bounds import certify_solution
from cffem.bounds.geometry import Domain, volumes
from cffem.bounds.sources import BLIND, Sources, encloses
from cffem.bounds.wave_columns import Broken
from cffem.engine.enclosure import NotEnclosed, divided, enclosed
from cffem.symbols import t, x, y

EXPRESSIONS = [
    sp.sin(3 * x) * y**2 - x * y,
    sp.exp(-50 * ((x - 0.3) ** 2 + (y - 0.4) ** 2)),
    sp.cos(7 * x * y) + sp.sqrt(x**2 + 1) / (2 + y),
    sp.Abs(x - y) ** 3 + (x * y) ** 3,
    sp.tanh(5 * x) * sp.log(2 + x**2) + sp.atan(y) - sp.sinh(x),
    sp.Max(x, y) - sp.Min(x, y**2),
    sp.Piecewise((x, x > 0), (y**2, True)) + sp.Heaviside(x - 0.1),
    sp.expand((1 - 16 * ((x - 0.3) ** 2 + (y + 0.1) ** 2)) ** 2 + x * y),
    (x + 2) ** -2 + (y**2 + 1) ** sp.Rational(-1, 2),
    1 / (x - 0.1),
]


@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_enclosures_contain_all_values_and_shrink(expr):
    random, value = np.random.default_rng(5), sp.lambdify((x, y), expr, "numpy")
    low = random.uniform(-1, 1, (400, 2))
    widths = []
    for width in (1.0, 0.01):
        high = low + width * random.uniform(0, 1, (400, 2))
        below, above = enclosed(expr, {x: (low[:, 0], high[:, 0]), y: (low[:, 1], high[:, 1])})
        for share in random.uniform(0, 1, (50, 400, 2)):
            found = value(*(low + share * (high - low)).T)
            assert (found >= below - 1e-12 * np.abs(below)).all()
            assert (found <= above + 1e-12 * np.abs(above)).all()
        widths.append(np.median(above - below))
    # A jump stays a jump.
    assert widths[1] < 0.05 * widths[0] or expr.has(sp.Piecewise)


@pytest.mark.parametrize("dim", [2, 3])
def test_parts_of_a_cell_fill_it(dim):
    cells = np.random.default_rng(dim).standard_normal((4, dim + 1, dim))
    parts = divided(cells)
    np.testing.assert_allclose(volumes(parts), np.repeat(volumes(cells), 2**dim) / 2**dim)
    # Points of the parts have barycentric coordinates in the cell that are not negative.
    whole = np.repeat(cells, 2**dim, axis=0)
    local = np.linalg.solve(np.moveaxis(whole[:, 1:] - whole[:, :1], 1, 2), np.moveaxis(parts - whole[:, :1], 1, 2))
    assert local.min() > -1e-10
    assert local.sum(axis=1).max() < 1 + 1e-10


def sources(n, dim=2, degree=1):
    domain = Domain(perturbed(dim, n, 0.2, 1.0))
    return Sources(MPI.COMM_SELF, domain.corners, degree)


@pytest.mark.parametrize("width", [3e-3, 1e-3])
@pytest.mark.parametrize("smooth", [0, sp.sin(3 * x)])
def test_a_spike_between_the_points_is_in_the_bound(width, smooth):
    found, true = sources(5), width * math.sqrt(math.pi / 2)
    plain = found.at(sp.sympify(smooth)).moments if smooth else 0.0
    missed = 0
    for place in np.random.default_rng(2).uniform(0.1, 0.9, (12, 2)):
        sampled = found.at(smooth + sp.exp(-((x - place[0]) ** 2 + (y - place[1]) ** 2) / width**2))
        seen = math.sqrt(float(((sampled.moments - plain) ** 2).sum(axis=0) @ found.volume))
        if seen < 0.01 * true:
            missed += 1
            assert 0.7 * true < sampled.unseen < 6 * true
    assert missed >= 6


def test_what_is_smooth_hides_nothing():
    for source in (sp.sin(3 * x) * sp.exp(y), x * (1 - x) * y * (1 - y) * (1 + 8 * sp.sin(3 * y)), x**2 * y - 3, 1 / (2 + x * y)):
        for n in (3, 8):
            found = sources(n).at(source)
            assert found.unseen <= 0.02 * math.sqrt(float((found.oscillation**2).sum())) + 1e-12


def test_pieces_count_where_they_hold():
    square = (x**2 + y**2) / 0.3**2
    bell, bump = (sp.Piecewise((value, square < 1), (0, True)) for value in ((1 - square) ** 2, sp.exp(-1 / (1 - square))))
    for form in (bell, sp.expand(bell)):
        assert sources(6).at(form).unseen < 0.01
    # Its first piece has no bound where it ends, so that it is sampled at more points.
    assert not math.isfinite(sources(6).hidden(bump, 0.0, np.zeros((2, 72))))
    assert sources(6).at(bump).unseen < 0.01
    low, high = enclosed(
        sp.Piecewise((1, (x > 2) | (x < -2)), (x, True)), {x: (np.array([-1.0, 3.0, 1.5]), np.array([1.0, 4.0, 3.0]))}
    )
    assert low.tolist() == [-1.0, 1.0, 1.0]
    assert high.tolist() == [1.0, 1.0, 3.0]


def test_moving_spikes_and_those_in_space_are_found_too():
    spike = sp.exp(-((x - 0.31) ** 2 + (y - 0.47) ** 2) / 1e-5)
    for source in (sp.cos(t) * spike, sp.exp(-((x - 0.2 - t / 2) ** 2 + (y - 0.47) ** 2) / 1e-5)):
        assert sources(4).at(source, 0.22).unseen > 0.5 * math.sqrt(math.pi * 1e-5 / 2)
    data = Broken(Domain(perturbed(2, 4, 0.2, 1.0)), 1, 2).data((sp.S.One, spike), 0.0)[1]
    assert data > 0.5 * math.sqrt(math.pi * 1e-5 / 2)
    solid = sp.exp(-((x - 0.31) ** 2 + (y - 0.47) ** 2 + (cf.z - 0.4) ** 2) / 1e-4)
    assert sources(2, dim=3).at(solid).unseen > 0.5 * (math.pi * 1e-4 / 2) ** 0.75


def test_functions_without_a_rule_are_sampled_at_more_points(monkeypatch):
    with pytest.raises(NotEnclosed):
        enclosed(sp.tan(x), {x: (np.zeros(1), np.ones(1))})
    assert not encloses(sp.tan(x))
    found, degrees = sources(3), []
    original = Sources._evaluated
    monkeypatch.setattr(
        Sources, "_evaluated", lambda self, s, rule, *rest: degrees.append(rule.degree) or original(self, s, rule, *rest)
    )
    found.at(sp.tan(x))
    assert {2 + more for more in BLIND} <= set(degrees)


def test_the_error_of_a_problem_with_a_spike_is_covered():
    """The discrete solution does not know of the spike; the bound does."""
    place, width = (0.4137, 0.5291), 2e-3
    spike = 1e4 * sp.exp(-((x - place[0]) ** 2 + (y - place[1]) ** 2) / width**2)
    problem = model(mesh.create_unit_square(MPI.COMM_SELF, 5, 5), DIFFUSIVE, {"lap": 1.0, "mixing": 0.0, "u": 0.0}, 1, spike)
    certificate = certify_solution(problem)
    # Far from it, the solution is that of a point source with this mass: by the modes of the square.
    mass, index = 1e4 * math.pi * width**2, np.arange(1, 60)
    i, j = index[:, None], index[None, :]
    modes = 4 * mass * np.sin(i * np.pi * place[0]) * np.sin(j * np.pi * place[1]) / (np.pi**2 * (i**2 + j**2))
    true = math.sqrt(float((modes**2).sum()) / 4)
    computed = problem.factual.norm()
    assert computed < 0.5 * true
    assert certificate.value > true - computed
