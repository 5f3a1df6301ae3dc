"""Fluxes around vertices by stream functions are those by multipliers, and small residuals
need no mass system.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from bounds_support import perturbed
from dolfinx import fem
from mpi4py import MPI

import cffem as cf
from cffem.bounds.certificate import NotCovered
from cffem.bounds.flux.equilibrated import LAPLACE, FluxEquilibration
from cffem.bounds.flux.patches import Multipliers
from cffem.bounds.geometry.mesh_constants import Domain
from cffem.symbols import x, y

SOURCE = sp.exp(x) * y


def equilibration_of(mesh, degree=1):
    return FluxEquilibration(fem.functionspace(mesh, ("Lagrange", degree)), Domain(mesh))


def noise(equilibration, seed=1):
    """A state that is no solution, zero on the boundary."""
    state = np.random.default_rng(seed).standard_normal(equilibration.owned)
    state[equilibration.held] = 0.0
    return state


def meshes():
    """Triangles of a square that were moved, and irregular ones around a hole."""
    return {"square": perturbed(2, 6, 0.2, 1.0), "ring": cf.mesh.annulus(MPI.COMM_SELF, 0.25).mesh}


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("name", ["square", "ring"])
def test_stream_functions_find_the_smallest_flux(name, degree):
    equilibration = equilibration_of(meshes()[name], degree)
    found = equilibration.flux(LAPLACE[2], noise(equilibration), SOURCE)
    equilibration._problems = Multipliers(
        equilibration.comm, equilibration.cells, equilibration.blocks, equilibration._stack
    )
    wanted = equilibration.flux(LAPLACE[2], noise(equilibration), SOURCE)
    np.testing.assert_allclose(
        found.misfit, wanted.misfit, rtol=0, atol=1e-11 * np.abs(wanted.misfit).max()
    )


def test_data_that_no_flux_can_balance_are_refused():
    """Without r the divergence around an inner vertex does not add up to zero."""
    equilibration = equilibration_of(perturbed(2, 6, 0.2, 1.0))
    with pytest.raises(NotCovered, match="not equilibrated"):
        equilibration.flux(
            LAPLACE[2], noise(equilibration), SOURCE, represented=np.zeros(equilibration.owned)
        )


@pytest.mark.parametrize("degree", [1, 2])
def test_small_residuals_are_represented_without_a_mass_system(degree, monkeypatch):
    """The bound of their norm is not below that of the function in V_h that represents them,
    and not far above it.
    """
    u = cf.ScalarField("u")
    experiment = cf.Experiment(
        mesh=perturbed(2, 6, 0.2, 1.0),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: x + y},
    )
    model = cf.Model(cf.Library(terms={"lap": cf.lap(u)}, unknown=u), {"lap": 1.0}, experiment)
    equilibration = FluxEquilibration(model.spaces.space, Domain(model.discretisation.mesh))
    state = model.factual.states[0] + 1e-13 * noise(equilibration)
    quick = equilibration.flux(LAPLACE[2], state, x + y)
    assert "_mass" not in equilibration.__dict__
    monkeypatch.setattr("cffem.bounds.flux.equilibrated.LUMPED", 0.0)
    smallest = equilibration.flux(LAPLACE[2], state, x + y)
    sizes = [equilibration.residual(flux).algebraic for flux in (quick, smallest)]
    assert 0 < sizes[1] <= sizes[0] <= 8 * sizes[1]
    np.testing.assert_allclose(
        quick.misfit, smallest.misfit, rtol=0, atol=1e-9 * np.abs(smallest.misfit).max()
    )
    # Residuals of a difference add up, however each was represented.
    both = equilibration.residual(quick - smallest).algebraic
    assert both == pytest.approx(sizes[0] + sizes[1])


def test_large_residuals_are_represented_by_the_smallest_function():
    equilibration = equilibration_of(perturbed(2, 6, 0.2, 1.0))
    found = equilibration.flux(LAPLACE[2], noise(equilibration), SOURCE)
    assert found.functional.any()
    assert not found.lumped.any()
