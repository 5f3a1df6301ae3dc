"""Estimates by levels know of data that no level has seen: aliased starts, pulses between
levels, forcings between points.
"""

from __future__ import annotations

import math

import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from bounds_support import u
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from benchmarks.certify.adversary_data import _layer
from cffem import curl, dt, lap, t, x, y
from cffem.bounds.levels.estimates import Estimates
from cffem.bounds.levels.three_levels import LevelCertifier
from cffem.bounds.levels.unseen import Unseen
from cffem.symbols.errors import InputError

MODE = sp.sin(sp.pi * x) * sp.sin(sp.pi * y)
HIGH = sp.sin(16 * sp.pi * x) * sp.sin(16 * sp.pi * y)
REACTING = {"lap": lap(u), "cubic": -(u**3), "lin": u}


def reacting(initial, forcing=0, cells=4, degree=1, steps=4, diffusion=2e-4):
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, cells, cells),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: initial},
        forcing={u: forcing},
        time=cf.Window(0, 1, steps=steps),
    )
    coefficients = {"lap": diffusion, "cubic": 1.0, "lin": 0.5}
    return cf.Model(cf.Library(anchor=dt(u), terms=REACTING), coefficients, experiment)


def unseen(model, way="mesh"):
    found = LevelCertifier(model, way)
    result = found.data.unseen()
    found.destroy()
    return result


def test_initial_values_that_vanish_at_all_nodes_of_three_levels_are_in_the_estimate():
    model = reacting(HIGH)
    found = unseen(model)
    # ‖u₀‖ = 1/2 acts for a time of one.
    assert 0.5 <= found.effects["initial values"] <= 1.1
    bound = Estimates(model, 1e5).deletion("cubic")
    # By finite differences on one cell of the pattern: the score is 0.058.
    assert not bound or bound.margin >= 0.058 - bound.score
    both = Estimates(reacting(0.3 * MODE + HIGH), 1e5).deletion("cubic")
    assert not both or (
        both.margin > 0.5 and any("initial values" in how for _, how in both.certificate.hypotheses)
    )


def test_what_the_levels_resolve_or_see_is_not_counted_twice():
    jump = sp.Piecewise((1, x < 0.43), (0, True)) * sp.sin(sp.pi * y)
    for model in (
        reacting(MODE),
        reacting(MODE, sp.exp(-t) * MODE + t**2),
        reacting(jump),
        reacting(x * y, x - y, degree=2),
    ):
        found = unseen(model)
        assert found.total == 0
        assert not found.blind
    assert unseen(reacting(sp.exp(x) * MODE), "degree").total == 0


def test_a_forcing_that_vanishes_at_all_levels_in_time_is_in_the_estimate():
    forcing = 40 * sp.sin(16 * sp.pi * t) ** 2 * MODE
    found = unseen(reacting(sp.S.Zero, forcing))
    # ∫ ‖f‖ = 40 · 1/2 · 1/2.
    assert found.effects["forcing in time"] > 9
    bound = Estimates(reacting(MODE, forcing), 1e5).deletion("lin")
    assert not bound or bound.margin > 9


@pytest.mark.parametrize("width", [1e-2, 1e-3])
def test_a_spike_between_the_points_of_all_levels_is_in_the_estimate(width):
    spike = 1e4 * sp.exp(-((x - 0.4137) ** 2 + (y - 0.5291) ** 2) / width**2)
    found = unseen(reacting(MODE, spike))
    assert found.effects["forcing in space"] > 1e4 * math.pi * width**2


@pytest.mark.parametrize("cubic", [0.0, 1e-3])
def test_a_forcing_finer_than_the_cells_of_all_levels_is_in_the_estimate(cubic):
    """Every level integrates sin 16πx sin 16πy well, and is orthogonal to it."""
    model = cf.Model(
        cf.Library(terms={"lap": lap(u), "u": u, "cubic": -(u**3)}, unknown=u),
        {"lap": 1.0, "u": -27.0, "cubic": cubic},
        cf.Experiment(
            mesh=mesh.create_unit_square(MPI.COMM_SELF, 4, 4),
            elements={u: ("Lagrange", 1)},
            boundary=[cf.Dirichlet(u, 0)],
            forcing={u: MODE + 370 * HIGH},
        ),
    )
    found = unseen(model).effects["forcing finer than cells"]
    exact = 370 / (2 * (16 * math.pi) ** 2 + 27) / 2
    assert exact <= found <= 8 * exact
    smooth = model.solve(cf.force({u: MODE})).intervention
    levels = LevelCertifier(model, "mesh")
    assert levels.data.unseen(smooth).effects["forcing finer than cells"] == 0
    levels.destroy()


def test_a_steady_spike_narrower_than_a_cell_is_seen_by_the_levels():
    library = cf.Library(terms={"lap": lap(u), "cubic": -(u**3)}, unknown=u)
    width, place = 1e-3, (0.4137, 0.5291)
    spike = 1e5 * sp.exp(-((x - place[0]) ** 2 + (y - place[1]) ** 2) / width**2)
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, 4, 4),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1 + spike},
    )
    model = cf.Model(library, {"lap": 1.0, "cubic": 1.0}, experiment)
    # A point source of this mass moves the solution by about mass · 0.06 in L2: the load has it,
    # and nothing is left to add.
    mass = 1e5 * math.pi * width**2
    assert unseen(model).total < 1e-6 * mass
    plain = cf.Model(
        library,
        {"lap": 1.0, "cubic": 1.0},
        cf.Experiment(**{**vars(experiment), "forcing": {u: 1}}),
    )
    assert unseen(plain).total == 0
    moved = model.factual.function(u).x.array - plain.factual.function(u).x.array
    assert 0.04 * mass < math.sqrt(float(moved @ moved) / len(moved)) < 0.15 * mass


def test_vector_fields_are_looked_at_and_data_without_expressions_are_named():
    field = cf.VectorField("E", dim=2)
    library = cf.Library(
        anchor=dt(dt(field)),
        terms={"c": -curl(curl(field)), "cubic": -cf.dot(field, field) * field},
    )
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, 4, 4),
        elements={field: ("N1curl", 1)},
        boundary=[cf.Tangential(field, 0)],
        initial={field: (sp.sin(sp.pi * y), 0), dt(field): (0, 0)},
        forcing={field: (100 * sp.sin(32 * sp.pi * t) ** 2 * sp.sin(sp.pi * y), 0)},
        time=cf.Window(0, 0.5, steps=4),
    )
    found = unseen(cf.Model(library, {"c": 1.0, "cubic": 0.1}, experiment))
    assert found.effects["initial values"] == 0
    assert found.effects["forcing in time"] > 1
    started = reacting(lambda p: p[0])
    assert "the initial values of u (no expression)" in unseen(started).blind
    assert (
        Unseen({}, ("the forcing in time of u (why)",))
        .statement()[1]
        .endswith("not looked at: the forcing in time of u (why)")
    )


def test_there_is_no_estimate_in_other_norms_where_data_are_missed():
    missing = Estimates(reacting(0.3 * MODE + HIGH), 1e5).deletion("lin", "H1")
    assert not missing
    assert "no level sees all of the data" in missing.reason


@pytest.mark.parametrize(("diffusion", "resolved"), [(4.3e-4, False), (0.05, True)])
def test_observables_behind_layers_have_an_estimate_only_where_the_field_is_resolved(
    diffusion, resolved
):
    """Integrals of oscillating fields may agree on three levels by accident: 3.13 ± 2.63 for
    0.48.
    """
    terms = {"lap": lap(u), "drift": -u.diff(x), "r": -u}
    walls = [cf.Dirichlet(u, 0, on=("left", "right")), cf.Neumann(u, 0, on=("bottom", "top"))]
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 1 / 4),
        elements={u: ("Lagrange", 1)},
        boundary=walls,
        forcing={u: 1},
    )
    model = cf.Model(
        cf.Library(terms=terms, unknown=u),
        {"lap": diffusion, "drift": 0.672, "r": 2.95},
        experiment,
    )
    found = cf.certify_observable(model, cf.Integral(u), ["r"])["r"]
    true = abs(_layer(diffusion, 0.672, 2.95, 0.0) - _layer(diffusion, 0.672, 0.0, 0.0))
    assert abs(found.score - true) <= found.margin
    # There is a guaranteed bar, however wide; an estimate only where the field is resolved.
    assert resolved or found.certificate.kind == "guaranteed"


def diffusing(conductivity, wall=0, steps=3):
    """Diffusion with a given conductivity and given values on the wall, which no theorem here
    speaks of.
    """
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, 4, 4),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, wall)],
        initial={u: MODE},
        time=cf.Window(0, 1, steps=steps),
    )
    terms = {"flow": cf.div(conductivity * cf.grad(u)), "u": -u}
    return cf.Model(cf.Library(anchor=dt(u), terms=terms), {"flow": 0.1, "u": 0.5}, experiment)


NARROW = 1 + 1e3 / (1 + ((x - 0.4137) / 1e-3) ** 2) ** 3
PULSE = 1e3 / (1 + ((t - 0.4137) / 1e-3) ** 2) ** 3


@pytest.mark.parametrize(
    ("conductivity", "wall", "named"),
    [(NARROW, 0, "coefficient"), (1 + PULSE, 0, "coefficient"), (1, PULSE, "Dirichlet")],
)
def test_coefficients_and_boundary_values_that_no_level_sees_have_no_estimate(
    conductivity, wall, named
):
    missing = Estimates(diffusing(conductivity, wall), 1e5).deletion("u")
    assert not missing
    assert (
        "no level sees all of the " in missing.reason
        or "no level sees all of Dirichlet" in missing.reason
    )
    assert named in missing.reason


def test_values_between_the_nodes_of_the_wall_are_refused_by_the_model():
    with pytest.raises(InputError, match="lies between the nodes"):
        diffusing(1, NARROW - 1)


@pytest.mark.parametrize(
    ("conductivity", "wall"),
    [
        (1 + x * sp.sin(y), sp.exp(-t) * x),
        (sp.Piecewise((1, x < 0.43), (2, True)), 0),
        (sp.Piecewise((1, x < 0.5), (2, True)), y),
    ],
)
def test_coefficients_and_boundary_values_that_levels_see_are_not_refused(conductivity, wall):
    found = unseen(diffusing(conductivity, wall))
    assert not found.missed
    assert found.total == 0
