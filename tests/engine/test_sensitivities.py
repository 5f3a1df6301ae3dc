"""Sensitivity designs: columns against finite differences, what sensors cannot tell apart, null
columns and named invariances, the same design on several ranks.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from derivative_problems import BUMP, PROBLEMS, problem, u, v
from dolfinx.mesh import create_unit_cube, create_unit_interval, create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem import x, y
from cffem.engine.response.sensitivities import sensitivity_matrix


def six(model, noise=0.01):
    """Six sensors of the first field."""
    dimension = model.discretisation.mesh.geometry.dim
    points = np.random.default_rng(0).random((6, dimension))
    return cf.Sensors(points, [model.discretisation.unknowns[0]], noise=noise)


@pytest.mark.parametrize("name", PROBLEMS)
def test_columns_equal_finite_differences(name):
    model, _ = problem(name)
    operator = model.observation(six(model))
    names = model.library.names
    matrix = sensitivity_matrix(model.factual, operator, names)
    for term, column in zip(names, matrix.T, strict=True):
        value = model.coefficients[term]
        step = 1e-4 * max(abs(value), 0.1)
        ends = [
            operator.noise.whitened(operator.values(model.solve(cf.set(term, value + k * step))))
            for k in (-2, -1, 1, 2)
        ]
        difference = (8 * (ends[2] - ends[1]) - (ends[3] - ends[0])) / (12 * step)
        assert np.linalg.norm(difference - column) <= 1e-6 * np.linalg.norm(column), term


def decaying_mode(points, mode=1):
    library = cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u), "square": u**2})
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 24),
        elements={u: ("Lagrange", 2)},
        initial={u: sp.sin(mode * sp.pi * x)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.2, steps=8),
    )
    model = cf.Model(library, {"u": 0.5, "lap": 0.3}, experiment)
    return model, cf.Sensors(points, [u], noise=0.01)


def test_one_mode_identifies_one_combination_and_another_separates_it():
    """u and Δu are proportional on one mode: only κ − λD is seen, here with the discrete λ."""
    first, sensors = decaying_mode([0.3, 0.62])
    design = first.sensitivities(sensors, ["u", "lap"])
    assert design.rank(1e-9) == 1
    (group,) = design.alias_groups(tolerance=1e-9)
    assert set(group.terms) == {"u", "lap"}
    ratio = group.identified.coeff(sp.Symbol("alpha_lap"))
    assert float(ratio) == pytest.approx(-(np.pi**2), rel=1e-4)
    second, _ = decaying_mode([0.3, 0.62], mode=2)
    added = {"again": design, "second mode": second.sensitivities(sensors, ["u", "lap"])}
    assert design.best_addition(added).name == "second mode"
    assert (design + added["second mode"]).rank(1e-9) == 2


def test_deviations_are_what_the_noise_allows():
    model, sensors = decaying_mode([0.3, 0.62])
    design = model.sensitivities(sensors, ["u", "square"])
    matrix = sensitivity_matrix(model.factual, model.observation(sensors), ["u", "square"])
    expected = np.sqrt(np.diag(np.linalg.inv(matrix.T @ matrix)))
    assert list(design.deviations().values()) == pytest.approx(expected)
    finer = cf.Sensors([0.3, 0.62], [u], noise=0.001)
    ten = model.sensitivities(finer, ["u", "square"]).deviations()
    assert ten["u"] == pytest.approx(design.deviations()["u"] / 10)


def test_a_term_that_the_solution_does_not_excite_is_a_null_column():
    library = cf.Library(
        anchor=cf.dt(u), terms={"u": u, "u_y": u.diff(y), "cross": u.diff(x) * u.diff(y)}
    )
    experiment = cf.Experiment(
        mesh=create_unit_square(MPI.COMM_SELF, 4, 4),
        elements={u: ("Lagrange", 2)},
        initial={u: 1 + x**2},
        boundary=[cf.Neumann(u, 0)],
        time=cf.Window(0, 1, steps=3),
    )
    model = cf.Model(library, {"u": 0.4}, experiment)
    design = model.sensitivities(cf.Sensors([[0.2, 0.4], [0.8, 0.3]], [u], noise=0.1))
    assert design.rank() == 1
    assert set(design.notes["null"]) == {"u_y", "cross"}
    assert design.deviations()["u_y"] == np.inf
    assert {g.terms for g in design.alias_groups()} == {("u_y",), ("cross",)}


def driven_flow(comm=MPI.COMM_SELF):
    """Steady Navier–Stokes flow that only its lid drives, with a plane Coriolis term."""
    library = cf.Library(
        terms={
            "viscosity": cf.lap(v),
            "convection": -cf.dot(cf.grad(v), v),
            "friction": -v,
            "coriolis": cf.vector(v[1], -v[0]),
        },
        unknown=v,
    )
    p = cf.ScalarField("p")
    lid = sp.Piecewise((16 * x**2 * (1 - x) ** 2, y > 0.999), (0, True))
    experiment = cf.Experiment(
        mesh=create_unit_square(comm, 6, 6),
        elements={v: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(v, (lid, 0))],
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    truth = {"viscosity": 0.05, "convection": 1.0, "friction": 0.2}
    return cf.Model(library, truth, experiment)


POINTS = np.array([[0.2, 0.3], [0.5, 0.7], [0.8, 0.6], [0.4, 0.85], [0.7, 0.2]])


def test_a_steady_flow_fixes_ratios_and_the_pressure_hides_coriolis():
    model = driven_flow()
    design = model.sensitivities(cf.Sensors(POINTS, [v], noise=0.01))
    assert design.notes["null"] == {"coriolis": "vanishes on the constraint class"}
    assert design.rank() == 2
    groups = {group.terms: group for group in design.alias_groups()}
    scale = groups[("viscosity", "convection", "friction")]
    assert scale.name == "scale"
    assert "(scale)" in str(scale)
    alpha = np.array([0.05, 1.0, 0.2])
    assert abs(scale.null[:, 0] @ alpha) == pytest.approx(
        np.linalg.norm(scale.null) * np.linalg.norm(alpha), rel=1e-6
    )
    assert groups[("coriolis",)].name == ""
    assert groups[("coriolis",)].identified == 0
    assert all(np.isinf(value) for value in design.deviations().values())


def test_a_forcing_fixes_the_scale():
    model, _ = problem("stokes")
    design = model.sensitivities(six(model))
    assert design.rank() == 3
    assert not design.alias_groups()
    assert not design.notes["invariances"]


def test_an_equation_without_anchor_in_a_system_has_its_own_scale():
    model, _ = problem("coupled")
    design = model.sensitivities(six(model))
    assert set(design.notes["invariances"]) == {"scale of w"}
    assert design.alias_groups()[0].name == "scale of w"


def test_grad_div_is_not_seen_in_a_cavity():
    E = cf.VectorField("E", dim=3)
    p = cf.ScalarField("p")
    library = cf.Library(
        anchor=cf.dt(cf.dt(E)),
        terms={"curlcurl": -cf.curl(cf.curl(E)), "graddiv": cf.grad(cf.div(E)), "E": -E},
    )
    z = cf.z
    experiment = cf.Experiment(
        mesh=create_unit_cube(MPI.COMM_SELF, 2, 2, 2),
        elements={E: ("N1curl", 1)},
        initial={E: (sp.sin(sp.pi * y) * sp.sin(sp.pi * z), 0, 0), cf.dt(E): (0, 0, 0)},
        boundary=[cf.Tangential(E, (0, 0, 0))],
        time=cf.Window(0, 0.5, steps=4),
        constraint=cf.DivergenceFree(E, multiplier={p: ("Lagrange", 1)}),
    )
    model = cf.Model(library, {"curlcurl": 1.0, "E": 0.3}, experiment)
    probes = cf.Sensors([[0.3, 0.4, 0.6], [0.5, 0.5, 0.2], [0.7, 0.3, 0.5]], [E], noise=0.01)
    design = model.sensitivities(probes)
    assert "graddiv" in design.notes["null"]
    assert ("graddiv",) in {group.terms for group in design.alias_groups()}
    assert np.isinf(design.deviations()["graddiv"])


def gram_on(comm):
    flow = driven_flow(comm).sensitivities(cf.Sensors(POINTS, [v], noise=0.01))
    heat = cf.Model(
        cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u), "cubic": u**3}),
        {"u": 0.5, "lap": 0.1, "cubic": -0.4},
        cf.Experiment(
            mesh=create_unit_square(comm, 6, 6),
            elements={u: ("Lagrange", 2)},
            initial={u: 1 + BUMP},
            boundary=[cf.Neumann(u, 0)],
            time=cf.Window(0, 0.4, steps=4),
        ),
    ).sensitivities(cf.Sensors(POINTS, [u], noise=0.01) + cf.Part("domain", noise=0.1))
    return [design.grams.total()[1:, 1:].tolist() for design in (flow, heat)]


def body(comm, path):
    found = gram_on(comm)
    if comm.rank == 0:
        with open(path, "w") as file:
            json.dump(found, file)


def test_two_and_three_ranks_have_the_design_of_one(on_ranks, tmp_path):
    alone = [np.array(gram) for gram in gram_on(MPI.COMM_SELF)]
    for ranks in (2, 3):
        path = tmp_path / f"{ranks}.json"
        on_ranks(ranks, body, str(path))
        for gram, other in zip(alone, json.loads(path.read_text()), strict=True):
            assert np.array(other) == pytest.approx(gram, rel=1e-8, abs=1e-8 * gram.max())
