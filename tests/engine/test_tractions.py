"""A stress written with transposes has the traction of that stress, as in plain DOLFINx."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import ufl
from dolfinx import fem, mesh
from engine_support import unit
from plain_dolfinx import solved_by_dolfinx

import cffem as cf
from cffem import div, grad, transpose, x

u = cf.VectorField("u", dim=2)
IDENTITY = grad(cf.vector(x, cf.y))
STRESSES = {
    "Hooke": (
        grad(u) + transpose(grad(u)) + 1.5 * div(u) * IDENTITY,
        lambda g, place: g + g.T + 1.5 * ufl.tr(g) * ufl.Identity(2),
    ),
    "varying": (
        (1 + x) * (grad(u) + transpose(grad(u))),
        lambda g, place: (1 + place[0]) * (g + g.T),
    ),
    "lopsided": (2 * grad(u) + transpose(grad(u)), lambda g, place: 2 * g + g.T),
}


def by_hand(domain, stress):
    """The mean of u_y on the right side, which is pulled down; the left side is held."""
    space = fem.functionspace(domain, ("Lagrange", 2, (2,)))
    a, b, place = ufl.TrialFunction(space), ufl.TestFunction(space), ufl.SpatialCoordinate(domain)
    left, right = (
        mesh.locate_entities_boundary(domain, 1, lambda X, at=at: np.isclose(X[0], at))
        for at in (0.0, 1.0)
    )
    tags = mesh.meshtags(domain, 1, np.sort(right), np.ones(len(right), dtype=np.int32))
    ds = ufl.Measure("ds", domain=domain, subdomain_data=tags)
    held = fem.dirichletbc(fem.Function(space), fem.locate_dofs_topological(space, 1, left))
    found = solved_by_dolfinx(
        ufl.inner(stress(ufl.grad(a), place), ufl.grad(b)) * ufl.dx, -b[1] * ds(1), [held]
    )
    return fem.assemble_scalar(fem.form(found[1] * ds(1)))


@pytest.mark.parametrize("kind", STRESSES)
def test_a_transposed_gradient_keeps_its_traction(kind):
    """div(∇uᵀ) = grad(div u), but the tractions ∇uᵀ n and (div u) n differ."""
    stress, plain = STRESSES[kind]
    square = unit("triangle", 4)
    experiment = cf.Experiment(
        mesh=square,
        elements={u: ("Lagrange", 2)},
        boundary=[
            cf.Dirichlet(u, 0, on="left"),
            cf.Neumann(u, (0, -1), on="right"),
            cf.Neumann(u, 0, on=("top", "bottom")),
        ],
    )
    library = cf.Library(terms={"stress": div(stress)}, unknown=u)
    model = cf.Model(library, {"stress": 1.0}, experiment)
    found = model.measurement(cf.Average(u[1], on="right")).value(model.factual)
    assert found == pytest.approx(by_hand(square.mesh, plain), rel=1e-10)
