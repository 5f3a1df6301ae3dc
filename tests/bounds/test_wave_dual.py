"""The auxiliary field of the majorant in space: a gauge and a few steps for the rest are
nearly as good as least squares.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

from bounds_support import perturbed
from dolfinx import fem

from cffem.bounds.enclosed.trajectory_columns import Broken, Factor, product
from cffem.bounds.geometry.mesh_constants import Domain
from cffem.bounds.waves.wave_dual import Dual


@pytest.fixture(scope="module", params=[2, 3])
def dual(request):
    """The dual fields of Nédélec fields on a cube whose inner nodes were moved."""
    mesh = perturbed(3, 3, 0.2, 1.0)
    space = fem.functionspace(mesh, ("N1curl", request.param - 1))
    return Dual(Broken(Domain(mesh), request.param - 1, 3), space, 3, request.param)


def asked(dual, count=3, seed=1):
    """Targets G and derivatives D u of random fields that are not curls, and the right-hand
    sides they give.
    """
    random = np.random.default_rng(seed)
    target = random.standard_normal((dual.adjoint.getLocalSize()[0], count))
    states = random.standard_normal((dual.derivative.getLocalSize()[1], count))
    return target, states, product(dual.backward, target) + dual.weight * dual.coupled(states)


def misfit(dual, target, states, fields):
    """‖G − D*H‖² + ω ‖H − D u‖², which least squares make as small as possible."""
    gap = product(dual.identity, fields)
    gap[dual.derivatives] -= product(dual.derivative, states)
    return ((target - product(dual.adjoint, fields)) ** 2).sum(axis=0) + dual.weight * (gap**2).sum(
        axis=0
    )


def test_the_field_is_nearly_the_one_of_least_squares(dual):
    target, states, right = asked(dual)
    whole = Factor(dual._normal.copy(), 3)
    best, found, gauged = (
        misfit(dual, target, states, f)
        for f in (whole.solve(right), dual.solve(right), dual.gauged(right))
    )
    whole.destroy()
    assert (found <= 1.01 * best).all()
    assert (found < gauged).all()


def test_gradients_of_edge_bubbles_have_no_curl_and_are_what_the_gauge_lacks(dual):
    _, _, right = asked(dual)
    added = dual.solve(right) - dual.gauged(right)
    assert np.abs(added).max() > 0
    assert np.abs(product(dual.adjoint, added)).max() <= 1e-10 * np.abs(added).max()
    assert not dual.gauged(right)[np.setdiff1d(np.arange(dual.owned), dual._lifts.kept)].any()


def test_the_field_is_linear_in_the_data(dual):
    """So the field of a difference, however small, is as good as those of its parts."""
    _, _, right = asked(dual)
    small = 1e-3 * asked(dual, seed=2)[2]
    change = dual.solve(right + small) - dual.solve(right)
    np.testing.assert_allclose(
        change, dual.solve(small), rtol=0, atol=1e-6 * np.abs(dual.solve(small)).max()
    )


def test_coefficients_of_a_lower_degree_come_first():
    mesh = perturbed(3, 2, 0.2, 1.0)
    domain = Domain(mesh)
    fine, coarse = Broken(domain, 2, 3), Broken(domain, 1, 3)
    space = fem.functionspace(mesh, ("N1curl", 1))
    state = np.random.default_rng(0).standard_normal((space.dofmap.index_map.size_local, 1))
    (one, other) = (product(broken.moments(space, lambda w: w), state) for broken in (fine, coarse))
    expected = np.zeros_like(one)
    expected[fine.places(coarse)] = other
    np.testing.assert_allclose(one, expected, atol=1e-12)
