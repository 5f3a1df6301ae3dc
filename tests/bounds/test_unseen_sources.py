"""A spike, a strip or a jump that lies between all quadrature points is in the bound with its
size, however low it is.
"""

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
from cffem.bounds.elliptic.steady_bounds import SteadyCertifier
from cffem.bounds.enclosed.sources import Sources
from cffem.bounds.enclosed.trajectory_columns import Broken
from cffem.bounds.geometry.mesh_constants import Domain, volumes
from cffem.bounds.waves.wave_data import projected
from cffem.engine.inputs.enclosure import divided, enclosed
from cffem.engine.inputs.numeric import numeric
from cffem.symbols import t, x, y


@pytest.mark.parametrize("dim", [2, 3])
def test_parts_of_a_cell_fill_it(dim):
    cells = np.random.default_rng(dim).standard_normal((4, dim + 1, dim))
    parts = divided(cells)
    np.testing.assert_allclose(volumes(parts), np.repeat(volumes(cells), 2**dim) / 2**dim)
    # Points of the parts have barycentric coordinates in the cell that are not negative.
    whole = np.repeat(cells, 2**dim, axis=0)
    local = np.linalg.solve(
        np.moveaxis(whole[:, 1:] - whole[:, :1], 1, 2), np.moveaxis(parts - whole[:, :1], 1, 2)
    )
    assert local.min() > -1e-10
    assert local.sum(axis=1).max() < 1 + 1e-10


def sources(n, dim=2, degree=1):
    domain = Domain(perturbed(dim, n, 0.2, 1.0))
    return Sources(MPI.COMM_SELF, domain.corners, degree)


def sizes(found, sampled, plain=0.0):
    """What is seen of a source beyond another one, and all that is left."""
    seen = float(((sampled.moments - plain) ** 2).sum(axis=0) @ found.volume)
    return math.sqrt(seen), math.sqrt(float((sampled.oscillation**2).sum()))


@pytest.mark.parametrize("width", [3e-3, 1e-3, 1e-5])
@pytest.mark.parametrize("smooth", [0, sp.sin(3 * x)])
def test_a_spike_between_the_points_is_in_the_bound_with_its_size(width, smooth):
    found, true = sources(5), width * math.sqrt(math.pi / 2)
    plain = found.at(sp.sympify(smooth)) if smooth else None
    for place in np.random.default_rng(2).uniform(0.1, 0.9, (6, 2)):
        spike = sp.exp(-((x - place[0]) ** 2 + (y - place[1]) ** 2) / width**2)
        sampled = found.at(smooth + 100 * spike)
        seen, rest = sizes(found, sampled, 0.0 if plain is None else plain.moments)
        before = 0.0 if plain is None else sizes(found, plain)[1]
        whole = math.hypot(seen, math.sqrt(max(rest**2 - before**2, 0.0)))
        assert 100 * true * (1 - 1e-6) <= whole
        assert rest <= 130 * true + 1.11 * before
    assert not found.blind


@pytest.mark.parametrize("height", [9.0, 0.1, 1e-4])
def test_no_data_are_too_low_to_count(height):
    """A strip on top of much larger data, between the points of every rule of its cells."""
    found, strip = sources(4), sp.Heaviside(x - 0.501) * sp.Heaviside(0.503 - x)
    _, rest = sizes(found, found.at(100 + height * strip))
    assert rest >= 0.95 * height * math.sqrt(0.002)


def test_what_is_smooth_hides_nothing():
    bell = x * (1 - x) * y * (1 - y) * (1 + 8 * sp.sin(3 * y))
    for source in (sp.sin(3 * x) * sp.exp(y), bell, x**2 * y - 3, 1 / (2 + x * y)):
        for n in (3, 8):
            found = sources(n).at(source)
            assert found.unseen <= 0.02 * math.sqrt(float((found.oscillation**2).sum())) + 1e-12


def test_projections_and_rests_are_those_of_a_fine_quadrature():
    """Jumps, kinks and poles of derivatives: the bound holds, and is hardly larger than it
    must be.
    """
    found = sources(3)
    corners, fine = np.broadcast_to(np.eye(3), (1, 3, 3)), found.corners
    for _ in range(6):
        fine, corners = divided(fine), divided(corners)
    middle, inside = fine.mean(axis=1).reshape(len(found.corners), -1, 2), corners.mean(axis=1)
    for source in (
        sp.Heaviside(x + y - 0.83),
        sp.Abs(x - 0.37) * y,
        sp.sqrt(x) + sp.Max(y, 0.3),
        sp.floor(3 * x),
    ):
        sampled = found.at(source)
        values = np.broadcast_to(
            numeric(source, (x, y))(middle[..., 0], middle[..., 1]), middle.shape[:2]
        )
        assert np.abs(sampled.moments[0] * math.sqrt(2) - values.mean(axis=1)).max() < 1e-2
        rests = values - values @ np.linalg.pinv(inside).T @ inside.T
        true = np.sqrt(found.area * (rests**2).mean(axis=1))
        assert (sampled.oscillation >= 0.97 * true - 1e-4).all()
        assert np.linalg.norm(sampled.oscillation) < 1.3 * np.linalg.norm(true)
        assert sampled.unseen < 0.01


def test_pieces_count_where_they_hold():
    square = (x**2 + y**2) / 0.3**2
    bell, bump = (
        sp.Piecewise((value, square < 1), (0, True))
        for value in ((1 - square) ** 2, sp.exp(-1 / (1 - square)))
    )
    for form in (bell, sp.expand(bell), bump):
        found = sources(6)
        assert found.at(form).unseen < 0.01
        # The first piece of the bump has a pole where it ends, but not where it holds.
        assert not found.blind
    low, high = enclosed(
        sp.Piecewise((1, (x > 2) | (x < -2)), (x, True)),
        {x: (np.array([-1.0, 3.0, 1.5]), np.array([1.0, 4.0, 3.0]))},
    )
    assert low.tolist() == [-1.0, 1.0, 1.0]
    assert high.tolist() == [1.0, 1.0, 3.0]


def test_moving_spikes_and_those_in_space_are_found_too():
    spike = sp.exp(-((x - 0.31) ** 2 + (y - 0.47) ** 2) / 1e-5)
    for source in (sp.cos(t) * spike, sp.exp(-((x - 0.2 - t / 2) ** 2 + (y - 0.47) ** 2) / 1e-5)):
        found = sources(4)
        assert math.hypot(*sizes(found, found.at(source, 0.22))) > 0.9 * math.sqrt(
            math.pi * 1e-5 / 2
        )
    data = projected(Broken(Domain(perturbed(2, 4, 0.2, 1.0)), 1, 2), (sp.S.One, spike), 0.0)
    assert data.rest > 0.9 * math.sqrt(math.pi * 1e-5 / 2)
    solid, found = (
        sp.exp(-((x - 0.31) ** 2 + (y - 0.47) ** 2 + (cf.z - 0.4) ** 2) / 1e-4),
        sources(2, dim=3),
    )
    assert math.hypot(*sizes(found, found.at(solid))) > 0.9 * (math.pi * 1e-4 / 2) ** 0.75


def test_functions_without_a_rule_make_the_bound_an_estimate():
    assert not sources(3).blind
    found = sources(3)
    plain, guessed = (
        found.at(sp.sin(x)),
        found.at(sp.sin(x) + 0 * y + sp.gamma(x + 2) - sp.gamma(x + 2 + 1e-9 * y)),
    )
    assert found.kind == "estimated"
    assert "gamma has no rule" in found.evidence[1]
    np.testing.assert_allclose(guessed.moments, plain.moments, atol=1e-6)
    problem = model(
        mesh.create_unit_square(MPI.COMM_SELF, 4, 4),
        DIFFUSIVE,
        {"lap": 1.0, "mixing": 0.0, "u": 0.0},
        1,
        x,
    )
    assert certify_solution(problem).kind == "guaranteed"
    certifier = SteadyCertifier(problem)
    certifier.forcing = sp.gamma(x + 2)
    found = certifier.solution(problem.factual)
    assert found.kind == "estimated"
    assert any("narrower than the points" in statement for statement, _ in found.hypotheses)


def test_the_error_of_a_problem_with_a_spike_is_covered():
    """A spike that is far narrower than a cell: the load has its mass, and the bound knows
    how wrong the solution still is.
    """
    place, width = (0.4137, 0.5291), 2e-3
    spike = 1e4 * sp.exp(-((x - place[0]) ** 2 + (y - place[1]) ** 2) / width**2)
    problem = model(
        mesh.create_unit_square(MPI.COMM_SELF, 5, 5),
        DIFFUSIVE,
        {"lap": 1.0, "mixing": 0.0, "u": 0.0},
        1,
        spike,
    )
    certificate = certify_solution(problem)
    # Far from it, the solution is that of a point source with this mass: by the modes of the
    # square.
    mass, index = 1e4 * math.pi * width**2, np.arange(1, 60)
    i, j = index[:, None], index[None, :]
    modes = (
        4
        * mass
        * np.sin(i * np.pi * place[0])
        * np.sin(j * np.pi * place[1])
        / (np.pi**2 * (i**2 + j**2))
    )
    true = math.sqrt(float((modes**2).sum()) / 4)
    computed = problem.factual.norm()
    assert abs(computed - true) < 0.2 * true
    assert certificate.value > abs(true - computed)
