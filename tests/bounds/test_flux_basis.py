"""Fluxes of a trajectory from a few directions say what the fluxes of all its levels say, and
noise gets as many as it needs.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from bounds_support import perturbed
from dolfinx import fem

from cffem.bounds.flux.equilibrated import FluxEquilibration
from cffem.bounds.flux.flux_basis import Columns, FluxBasis
from cffem.bounds.flux.patches import LARGE, symmetric_inverses, symmetric_products
from cffem.bounds.geometry.mesh_constants import Domain
from cffem.symbols import x, y

STEP, COUNT = 0.05, 17


@pytest.fixture(scope="module", params=[1, 2])
def equilibration(request):
    mesh = perturbed(2, 6, 0.2, 1.0)
    return FluxEquilibration(fem.functionspace(mesh, ("Lagrange", request.param)), Domain(mesh))


def columns_of(equilibration, weights, sources=()):
    """Galerkin solutions with given values of their densities: combinations of bumps, and of
    sources as data.
    """
    places = equilibration.space.tabulate_dof_coordinates()[: equilibration.owned]
    shapes = [
        np.sin((k + 1) * np.pi * places[:, 0]) * np.sin((k % 3 + 1) * np.pi * places[:, 1])
        for k in range(len(weights))
    ]
    states = np.stack(shapes, axis=1) @ weights
    states[equilibration.held] = 0.0
    moments = [equilibration.sources.at(source).moments for source in sources]
    data = np.stack(moments, axis=2) @ weights[: len(sources)] if sources else None
    densities = np.zeros_like(states)
    for n in range(states.shape[1]):
        part = None if data is None else np.ascontiguousarray(data[..., n])
        densities[:, n] = equilibration.galerkin(states[:, n], densities[:, n], part)[1]
    return Columns(states, densities, data)


def directly(equilibration, columns):
    """The same numbers from a flux for every level, and for every difference of levels."""
    weights, found = equilibration.domain.interpolation**2, []
    for many in (
        columns,
        Columns(*(None if a is None else np.diff(a) / STEP for a in vars(columns).values())),
    ):
        sizes = []
        for n in range(many.states.shape[1]):
            data = None if many.data is None else np.ascontiguousarray(many.data[..., n])
            misfit = equilibration.galerkin(many.states[:, n], many.densities[:, n], data)[0]
            sizes.append(np.sqrt(equilibration.products(misfit, [misfit], weights)[0]))
        found.append(np.array(sizes))
    return found


@pytest.mark.parametrize("sources", [(), (sp.exp(x) * y, sp.sin(3 * x + y))])
def test_a_smooth_trajectory_needs_few_directions(equilibration, sources):
    times = STEP * np.arange(COUNT)
    columns = columns_of(
        equilibration,
        np.stack([np.cos((1 + 0.7 * k) * times) / (k + 1) for k in range(10)]),
        sources,
    )
    basis = FluxBasis(equilibration)
    found, wanted = basis.measured(columns, STEP), directly(equilibration, columns)
    assert basis.size <= 8 < COUNT
    for bound, true in zip(found, wanted, strict=True):
        assert (bound >= 0.995 * true).all()
        assert np.linalg.norm(bound) <= 1.03 * np.linalg.norm(true)
    before = basis.size
    again = basis.measured(columns, STEP)
    assert basis.size == before
    np.testing.assert_allclose(again[1], found[1], rtol=1e-9)


def test_noise_gets_as_many_directions_as_it_needs(equilibration):
    columns = columns_of(equilibration, np.random.default_rng(3).standard_normal((10, COUNT)))
    basis = FluxBasis(equilibration)
    found, wanted = basis.measured(columns, STEP), directly(equilibration, columns)
    assert 8 <= basis.size <= 10
    for bound, true in zip(found, wanted, strict=True):
        np.testing.assert_allclose(bound, true, rtol=0.03)


def test_a_small_difference_is_measured_relative_to_itself(equilibration):
    """Directions that were enough for two trajectories are not taken to be enough for their
    difference.
    """
    times = STEP * np.arange(COUNT)
    large = columns_of(equilibration, np.stack([np.cos(times)]))
    small = columns_of(
        equilibration, 1e-4 * np.stack([0 * times, np.sin(times), np.sin(2 * times)])
    )
    basis = FluxBasis(equilibration)
    basis.measured(large, STEP)
    found, wanted = basis.measured(small, STEP), directly(equilibration, small)
    for bound, true in zip(found, wanted, strict=True):
        np.testing.assert_allclose(bound, true, rtol=0.03, atol=1e-9)


@pytest.mark.parametrize("size", [1, 5, LARGE + 1])
def test_triangles_of_matrices_are_inverted_and_multiplied(size):
    random = np.random.default_rng(size)
    whole = random.standard_normal((7, size, size))
    whole = whole @ whole.transpose(0, 2, 1) + np.eye(size)
    vectors = random.standard_normal((size, 7))
    row, column = np.tril_indices(size)
    inverses = symmetric_inverses(np.ascontiguousarray(whole[:, row, column].T), size)
    wanted = np.linalg.solve(whole, vectors.T[:, :, None])[..., 0].T
    np.testing.assert_allclose(symmetric_products(inverses, vectors), wanted, rtol=1e-9, atol=1e-9)
