"""Known fields, weights and terms in parts in what is built on solutions: sensitivities,
calibration, constraint classes, nulls, and data from other meshes.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

import ufl
from dolfinx import fem
from dolfinx import mesh as dolfinx_mesh
from mpi4py import MPI

import cffem as cf
from cffem import curl, div, dt, grad, on, x, y

u, E, k, rho = cf.ScalarField("u"), cf.VectorField("E", dim=2), cf.Known("k"), cf.Known("rho")


def halves(n=4):
    return cf.mesh.named(
        dolfinx_mesh.create_unit_square(MPI.COMM_SELF, n, n),
        cells={"glass": lambda p: p[0] < 0.5 + 1e-9, "air": lambda p: p[0] > 0.5 - 1e-9},
        facets={"right": lambda p: p[0] > 1 - 1e-9},
    )


TERMS = {"diffusion": div(k * grad(u)), "cooling": on("glass", -u), "loss": on("right", -u)}
TRUTH = {"diffusion": 0.1, "cooling": 1.0, "loss": 0.5}
LIBRARY = cf.Library(rho * dt(u), TERMS)


def experiment(**more):
    given = {
        "mesh": halves(),
        "elements": {u: ("Lagrange", 1)},
        "initial": {u: 1 + sp.cos(sp.pi * x) * y},
        "boundary": [cf.Neumann(u, 0)],
        "time": cf.Window(0, 0.5, steps=4),
        "known": {k: {"glass": 2.25, "air": 1.0}, rho: 1 + x},
    }
    return cf.Experiment(**{**given, **more})


POINTS = [(0.2, 0.3), (0.8, 0.6), (0.4, 0.8), (0.9, 0.2)]


def test_sensitivities_are_differences_of_solves():
    model = cf.Model(LIBRARY, TRUTH, experiment())
    sensors = cf.Sensors(POINTS, [u], noise=0.01)
    design = model.sensitivities(sensors)
    assert design.rank() == 3
    values = model.observation(sensors).values(model.factual)
    slopes = []
    for name, value in TRUTH.items():
        other = model.with_coefficients({**TRUTH, name: value * (1 + 1e-5)})
        moved = other.observation(sensors).values(other.factual)
        slopes.append((moved - values) / (1e-5 * value) / 0.01)
    gram = np.array(slopes) @ np.array(slopes).T
    expected = gram / np.sqrt(np.outer(np.diag(gram), np.diag(gram)))
    assert np.abs(design.normalised_gram() - expected).max() < 1e-4


def test_readings_give_back_the_coefficients_of_terms_in_parts():
    sensors = cf.Sensors(POINTS, [u], times=[0.25, 0.5], noise=0.01)
    model = cf.Model(LIBRARY, TRUTH, experiment())
    exact = model.observation(sensors).values(model.factual)
    start = {"diffusion": 0.2, "cooling": 0.5, "loss": 0.3}
    fit = cf.calibrate(LIBRARY, experiment(), (sensors, exact), start)
    assert fit.coefficients == pytest.approx(TRUTH, rel=1e-5)
    assert set(fit.identified) == {*TRUTH}


def test_a_weighted_divergence_and_its_null_terms():
    eps = cf.Known("eps")
    library = cf.Library(
        eps * dt(dt(E)), {"curl curl": -curl(curl(E)), "gauss": grad(div(eps * E)), "loss": -dt(E)}
    )
    given = cf.Experiment(
        mesh=halves(),
        elements={E: ("N1curl", 1)},
        initial={E: (sp.sin(sp.pi * y), 0), dt(E): (0, 0)},
        boundary=[cf.Tangential(E, 0)],
        time=cf.Window(0, 0.2, steps=2),
        constraint=cf.DivergenceFree(E, weight=eps),
        known={eps: {"glass": 2.25, "air": 1.0}},
    )
    model = cf.Model(library, {"curl curl": 1.0, "gauss": 1.0, "loss": 0.1}, given)
    assert [found.term for found in cf.constraint_nulls(model)] == ["gauss"]
    # (ε E, ∇q) = 0 for every potential: the constraint holds with its weight.
    solution = model.solve()
    field = solution.function(E)
    potentials = fem.functionspace(field.function_space.mesh, ("Lagrange", 1))
    q = ufl.TestFunction(potentials)
    material = model.discretisation.known.values[eps]
    tested = fem.assemble_vector(fem.form(material * ufl.inner(field, ufl.grad(q)) * ufl.dx)).array
    mesh = potentials.mesh
    mesh.topology.create_connectivity(1, 2)
    edge = fem.locate_dofs_topological(
        potentials, 1, dolfinx_mesh.exterior_facet_indices(mesh.topology)
    )
    assert np.abs(np.delete(tested, edge)).max() < 1e-12


def test_a_solution_on_another_mesh_is_where_a_march_starts():
    coarse = cf.Model(LIBRARY, TRUTH, experiment()).solve()
    start = cf.Interpolated(coarse.function(u, 0))
    fine = experiment(mesh=halves(8), initial={u: start})
    state = cf.Model(LIBRARY, TRUTH, fine).solve().function(u, 0)
    # The coarse mesh is contained in the fine one, so that nothing is lost.
    assert np.isclose(_integral(state), _integral(coarse.function(u, 0)), rtol=1e-12)
    with pytest.raises(cf.InputError, match=r"give cf.Interpolated"):
        cf.Model(LIBRARY, TRUTH, experiment(initial={u: coarse.function(u)})).solve()
    with pytest.raises(cf.InputError, match="give it as a known field"):
        cf.Model(LIBRARY, TRUTH, experiment(forcing={u: start}))


def _integral(function):
    return fem.assemble_scalar(fem.form(function**2 * ufl.dx))


def test_what_dolfinx_reads_from_gmsh_is_a_mesh_with_names():
    domain = halves()
    read = SimpleNamespace(
        mesh=domain.mesh,
        cell_tags=domain.cell_tags,
        facet_tags=domain.facet_tags,
        physical_groups=dict(domain.names),
    )
    expected = cf.Model(LIBRARY, TRUTH, experiment()).deletions()
    found = cf.Model(LIBRARY, TRUTH, experiment(mesh=read)).deletions()
    for name in TRUTH:
        assert found[name].score == pytest.approx(expected[name].score, rel=1e-12)


def test_units_of_weights_and_materials_do_not_matter():
    plain = cf.Model(LIBRARY, TRUTH, experiment()).deletions()
    scaled = experiment(known={k: {"glass": 2250, "air": 1000}, rho: 1000 * (1 + x)})
    coefficients = {**TRUTH, "cooling": 1000.0, "loss": 500.0}
    other = cf.Model(LIBRARY, coefficients, scaled).deletions()
    for name in TRUTH:
        assert other[name].score == pytest.approx(plain[name].score, rel=1e-8)


def test_the_order_of_terms_does_not_matter():
    backwards = cf.Library(rho * dt(u), dict(reversed(TERMS.items())))
    plain = cf.Model(LIBRARY, TRUTH, experiment()).deletions()
    other = cf.Model(backwards, TRUTH, experiment()).deletions()
    for name in TRUTH:
        assert other[name].score == pytest.approx(plain[name].score, rel=1e-10)
