"""Newton's method arrives: flow over a backward-facing step from zero, pseudo-time, starts
from other meshes, SNES options.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx import mesh
from engine_support import values_at
from mpi4py import MPI

import cffem as cf
from cffem import x, y
from cffem.engine.mesh.meshes import MeshData
from cffem.engine.solve.solve_record import SolveRecord
from cffem.engine.steady.arriving import homotopy, pseudo_time
from cffem.engine.steady.steady_solve import started

COMM = MPI.COMM_SELF
u, v, p = cf.ScalarField("u"), cf.VectorField("v", dim=2), cf.ScalarField("p")
FLOW = cf.Library(terms={"viscosity": cf.lap(v), "convection": -cf.dot(cf.grad(v), v)}, unknown=v)


def channel(comm, length, along, across, fine=None):
    """A channel of height one; with `fine`, two thirds of the cells lie before that place."""
    domain = mesh.create_rectangle(
        comm, [(0, -0.5), (length, 0.5)], [along, across], mesh.CellType.quadrilateral
    )
    sides = {"inlet": (0, 0.0), "outlet": (0, length), "bottom": (1, -0.5), "top": (1, 0.5)}
    indices, values = [], []
    for tag, (axis, place) in enumerate(sides.values(), 1):
        found = mesh.locate_entities_boundary(
            domain, 1, lambda q, a=axis, s=place: np.isclose(q[a], s)
        )
        indices.append(found)
        values.append(np.full(len(found), tag, dtype=np.int32))
    order = np.argsort(np.concatenate(indices))
    tags = mesh.meshtags(domain, 1, np.concatenate(indices)[order], np.concatenate(values)[order])
    if fine is not None:
        places = domain.geometry.x[:, 0]
        places[:] = np.interp(places, [0.0, 0.75 * length, length], [0.0, fine, length])
    return MeshData(domain, None, tags, {name: (1, tag) for tag, name in enumerate(sides, 1)})


def over_step(reynolds, domain, **more):
    """Flow into the upper half of a channel; the Reynolds number is that of the mean inflow
    and the channel's height.
    """
    experiment = cf.Experiment(
        mesh=domain,
        elements={v: ("Lagrange", 2)},
        boundary=[
            cf.Dirichlet(v, (sp.Max(0, 24 * y * (sp.Rational(1, 2) - y)), 0), on="inlet"),
            cf.Dirichlet(v, 0, on=("top", "bottom")),
            cf.Neumann(v, 0, on="outlet"),
        ],
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
        **more,
    )
    return cf.Model(FLOW, {"viscosity": 1 / reynolds, "convection": 1.0}, experiment)


def shear_changes(flow, height, places):
    """Where the velocity along a wall changes its sign, next to it."""
    along = values_at(flow, np.column_stack([places, np.full_like(places, height)]))[:, 0]
    at = np.flatnonzero(along[:-1] * along[1:] < 0)
    return places[at] - along[at] * (places[at + 1] - places[at]) / (along[at + 1] - along[at])


def test_flow_over_a_step_arrives_from_zero():
    """Newton's method alone stays at 0.8 of the first residual at this Reynolds number."""
    with over_step(500, channel(COMM, 10.0, 20, 6)) as model:
        found = model.factual
        told = found.record.notices[0]
        assert "homotopy in the coefficients of convection" in told
        state = model.equation.new_vector()
        state.array[:] = found.states[0]
        stage = model.prepared(cf.Intervention(), found.record)
        assert stage.residual(state, None, None, None, 0.0) < 1e-11
        lower = shear_changes(found.function(), -0.499, np.linspace(0.5, 9.5, 181))
    assert len(lower) == 1


def test_pseudo_time_leads_where_there_is_no_linear_problem_to_begin_with():
    """(|u'|² u')' + 1 = 0: the first step of Newton's method from a small start is too long
    by a factor of a million.
    """
    library = cf.Library(
        terms={"flux": cf.div(cf.norm2(cf.grad(u)) * cf.grad(u)), "source": sp.Float(1)}, unknown=u
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(COMM, 0.01),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: 1e-3 * x * (1 - x)},
    )
    with cf.Model(library, {"flux": 1.0, "source": 1.0}, experiment) as model:
        found = model.factual
        assert "a march in pseudo-time" in found.record.notices[0]
        middle = values_at(found.function(), np.array([[0.5]]))[0]
    assert middle == pytest.approx(0.75 * 0.5 ** (4 / 3), rel=1e-3)


def test_both_ways_lead_to_one_flow():
    with over_step(200, channel(COMM, 10.0, 20, 6)) as model:
        record = SolveRecord()
        stage = model.prepared(cf.Intervention(), record)
        states = []
        for way in (homotopy, pseudo_time):
            state = started(model, cf.Intervention(), model.prepared(cf.Intervention(), record))
            way(model, cf.Intervention(), stage, state)
            states.append(state.array_r.copy())
        assert model.norm()(states[0] - states[1]) < 1e-10 * model.norm()(states[0])


def test_a_problem_without_a_solution_says_what_was_tried():
    library = cf.Library(terms={"lap": cf.lap(u), "heat": sp.exp(u)}, unknown=u)
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(COMM, 0.1),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
    )
    with (
        cf.Model(library, {"lap": 1.0, "heat": 4.0}, experiment) as model,
        pytest.raises(
            cf.SolveError, match=r"homotopy in the nonlinear terms.*fold.*pseudo-time"
        ) as caught,
    ):
        model.solve()
    assert caught.value.cause == "start"


@pytest.mark.parametrize("strength", [1e-6, 1.0, 1e12])
def test_an_equation_without_a_solution_is_not_hidden_by_a_larger_one(strength):
    """Without its diffusion the first equation is exp(u) = 0, which Newton's method takes for
    solved as soon as its residual is small beside the second one's terms.
    """
    w = cf.ScalarField("w")
    libraries = {
        u: cf.Library(terms={"lap": cf.lap(u), "exp": sp.exp(u)}, unknown=u),
        w: cf.Library(terms={"lap": cf.lap(w), "u": u}, unknown=w),
    }
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(COMM, 0.1),
        elements={u: ("Lagrange", 1), w: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0), cf.Dirichlet(w, 0)],
    )
    coefficients = {"u/lap": 1.0, "u/exp": 2.0, "w/lap": 1.0, "w/u": strength}
    with cf.Model(cf.System(libraries), coefficients, experiment) as model:
        with pytest.raises(cf.SolveError, match=r"did not converge|cannot be followed"):
            model.solve(cf.delete("u/lap"))
        # A field that vanishes is a solution, although nothing of its equation is left.
        states = model.solve(cf.delete("w/u")).states[0]
        first = model.factual.states[0]
        assert np.abs(states[model.spaces.dofs(w)]).max() < 1e-12 * strength
        here = model.spaces.dofs(u)
        assert states[here] == pytest.approx(first[here], rel=1e-10)


def test_options_of_snes_are_honoured_or_refused():
    library = cf.Library(terms={"lap": cf.lap(u), "heat": sp.exp(u)}, unknown=u)
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(COMM, 0.1),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
    )

    def solved(**options):
        with cf.Model(library, {"lap": 1.0, "heat": 3.0}, experiment, options) as model:
            return model.factual.record

    whole = solved()
    assert solved(snes_rtol=1e-2).newton_steps < whole.newton_steps
    assert solved(snes_linesearch_type="basic").newton_steps == whole.newton_steps
    assert whole.notices == []
    assert "did not arrive" in solved(snes_max_it=1).notices[0]
    with pytest.raises(cf.InputError, match="snes_max_it"):
        solved(snes_type="newtontr")


@pytest.mark.slow
def test_flow_over_a_step_at_reynolds_number_800_is_the_published_one():
    """Gartling (1990): the lower eddy ends at 6.10, the upper one lies between 4.85 and 10.48."""
    with over_step(800, channel(COMM, 30.0, 200, 20, fine=15.0)) as model:
        flow = model.factual.function()
        assert "homotopy" in model.factual.record.notices[0]
    places = np.linspace(0.5, 14.0, 541)
    (lower,), (begin, end) = (shear_changes(flow, height, places) for height in (-0.4995, 0.4995))
    print(
        f"reattachment {lower:.3f}, upper eddy from {begin:.3f} to {end:.3f}, {model.spaces.size} "
        "unknowns"
    )
    assert lower == pytest.approx(6.10, rel=0.01)
    assert begin == pytest.approx(4.85, rel=0.01)
    assert end == pytest.approx(10.48, rel=0.01)
