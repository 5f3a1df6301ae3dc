"""Deleted problems without a solution are results: unsolvable with a reason, and the sweep
goes on.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from engine_support import unit

import cffem as cf
from cffem import x, y
from cffem.bounds import certify_sweep
from cffem.engine.time.boundary_rates import why_wall_grows
from cffem.engine.time.wellposed import backward_model

u = cf.ScalarField("u")
v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")
DIRICHLET = [cf.Dirichlet(u, 0)]


def steady(terms, coefficients, boundary=DIRICHLET, **given):
    """A steady scalar model on the unit square."""
    library = cf.Library(terms=terms, unknown=u)
    options = {
        "mesh": unit("triangle", 5),
        "elements": {u: ("Lagrange", 1)},
        "boundary": boundary,
        "forcing": {u: 1},
    }
    return cf.Model(library, coefficients, cf.Experiment(**{**options, **given}))


def assert_sweep(model, unsolvable, solved):
    """Which deletions have a solution, that each failure has its reason, and that the order
    of the sweep does not matter.
    """
    for names in ([*unsolvable, *solved], [*solved, *unsolvable]):
        sweep = model.deletions(names, conditions="kept")
        for name in unsolvable:
            assert sweep[name].status == "unsolvable", name
            assert np.isnan(sweep[name].score)
            assert sweep[name].reason
        for name in solved:
            assert sweep[name].status == "solved", sweep[name].reason
            alone = cf.Model(
                model.library, {**model.coefficients, name: 0.0}, model.experiment
            ).solve()
            assert sweep[name].score == pytest.approx(
                model.norm()(model.factual.states[-1] - alone.states[-1]), rel=1e-9
            )
        # Cheaper ways to a score find no solution where there is none, either.
        for name, found in model.deletions(names, accuracy=1e-4, conditions="kept").items():
            assert found.status == sweep[name].status, name
            assert found.reason == sweep[name].reason
            assert found.score == pytest.approx(sweep[name].score, rel=1e-4, nan_ok=True)
    return sweep


def test_without_any_term_in_the_unknown_the_matrix_is_zero():
    model = steady({"lap": cf.lap(u), "source": sp.Integer(1)}, {"lap": 1.0, "source": 0.5})
    sweep = assert_sweep(model, ["lap"], ["source"])
    assert "singular" in sweep["lap"].reason


def test_without_the_laplacian_a_transport_operator_is_singular():
    """u_x with zero values at both ends has constants along no line, but for an even number
    of cells a checkerboard mode.
    """
    library = cf.Library(
        terms={"lap": cf.lap(u), "u_x": u.diff(x), "one": sp.Integer(1)}, unknown=u
    )
    given = cf.Experiment(
        mesh=unit("interval", 16), elements={u: ("Lagrange", 1)}, boundary=[cf.Dirichlet(u, 0)]
    )
    model = cf.Model(library, {"lap": 1.0, "u_x": -1.0, "one": 1.0}, given)
    assert_sweep(model, ["lap"], ["u_x", "one"])


def test_pure_neumann_problem_is_singular_whether_its_data_are_compatible_or_not():
    """Without the reaction the solution is free by a constant: no number may come out of it."""
    for force in (1, sp.cos(sp.pi * x)):
        model = steady(
            {"lap": cf.lap(u), "u": u},
            {"lap": 1.0, "u": -1.0},
            boundary=[cf.Neumann(u, 0)],
            forcing={u: force},
        )
        sweep = assert_sweep(model, ["u"], ["lap"])
        assert "singular" in sweep["u"].reason


def test_an_eigenvalue_of_the_discrete_operator_is_met():
    """−lap u = λ u with λ a discrete eigenvalue: deleting the term that moves it away leaves
    a singular matrix.
    """
    library = cf.Library(terms={"lap": cf.lap(u), "u": u, "xu": x * u}, unknown=u)
    n = 8
    given = cf.Experiment(
        mesh=unit("interval", n),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1},
    )
    c = np.cos(np.pi / n)
    eigenvalue = 6 * n**2 * (1 - c) / (2 + c)
    model = cf.Model(library, {"lap": 1.0, "u": eigenvalue, "xu": 1.0}, given)
    sweep = assert_sweep(model, ["xu"], ["lap", "u"])
    assert "singular" in sweep["xu"].reason


def test_a_deletion_that_blows_up_in_finite_time_is_unsolvable():
    """u' = u² from 2 explodes at t = 1/2; only diffusion holds it back."""
    library = cf.Library(anchor=cf.dt(u), terms={"square": u**2, "lap": cf.lap(u), "u": u})
    given = cf.Experiment(
        mesh=unit("interval", 8),
        elements={u: ("Lagrange", 1)},
        initial={u: 8 * sp.sin(sp.pi * x)},
        boundary=DIRICHLET,
        time=cf.Window(0, 1, steps=50),
    )
    model = cf.Model(library, {"square": 1.0, "lap": 1.0, "u": -0.1}, given)
    sweep = model.deletions(conditions="kept")
    assert sweep["lap"].status == "unsolvable"
    assert "Newton" in sweep["lap"].reason or "finite" in sweep["lap"].reason
    assert len(sweep["lap"].history) > 0
    assert sweep["u"].status == "solved"
    assert sweep["square"].status == "solved"


def test_a_deletion_that_grows_beyond_all_numbers_is_unsolvable():
    """Each step is solvable and triples the solution: it is no number any more long before
    the 800 steps are over.
    """
    library = cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u)})
    given = cf.Experiment(
        mesh=unit("interval", 8),
        elements={u: ("Lagrange", 1)},
        initial={u: sp.sin(sp.pi * x)},
        boundary=DIRICHLET,
        time=cf.Window(0, 40, steps=800),
    )
    model = cf.Model(library, {"u": 20.0, "lap": 5.0}, given)
    sweep = model.deletions(["lap", "u"], conditions="kept")
    assert sweep["lap"].status == "unsolvable"
    assert sweep["lap"].cause == "blow-up"
    assert "the solution blows up: after step" in sweep["lap"].reason
    assert sweep["u"].status == "solved"


def pulsed(initial=0, forcing=0, boundary=0, **coefficients):
    library = cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u)})
    given = cf.Experiment(
        mesh=unit("interval", 8),
        elements={u: ("Lagrange", 1)},
        initial={u: initial},
        forcing={u: forcing} if forcing != 0 else {},
        boundary=[cf.Dirichlet(u, boundary)],
        time=cf.Window(0, 1, steps=60),
    )
    return cf.Model(library, {"u": 1.0, "lap": 0.1} | coefficients, given)


def test_a_march_that_blows_up_is_an_error_in_every_strategy():
    grown = pulsed(initial=x * (1 - x), u=60.0, lap=1.0)
    with pytest.raises(cf.SolveError, match="blows up") as caught:
        grown.solve()
    assert caught.value.cause == "blow-up"
    held = pulsed(initial=x * (1 - x), u=60.0, lap=10.0)
    for asked in ({}, {"accuracy": 1e-4}):
        assert held.deletions(["lap"], **asked)["lap"].cause == "blow-up"


@pytest.mark.parametrize(
    "data",
    [
        {"forcing": sp.exp(-(((cf.t - 0.8) / 0.05) ** 2)) * x},
        {"forcing": cf.t**12, "initial": 1e-40 * x * (1 - x)},
        {"boundary": sp.exp(-(((cf.t - 0.9) / 0.05) ** 2))},
    ],
)
def test_what_data_bring_late_is_no_blow_up(data):
    """From nothing, or next to nothing, a solution grows without bound relative to its start."""
    model = pulsed(**data)
    assert model.solve().norm() > 1e-4
    assert {d.status for d in model.deletions().values()} == {"solved"}


def test_where_there_is_no_solution_the_branch_turns_back_and_newton_fails():
    """−lap u = 8 e^u on the unit square has no solution (the limit is near 6.8); with a sink
    it has one.
    """
    model = steady(
        {"lap": cf.lap(u), "exp": sp.exp(u), "sink": u},
        {"lap": 1.0, "exp": 8.0, "sink": -10.0},
        forcing={},
    )
    sweep = assert_sweep(model, ["sink"], ["exp"])
    assert sweep["sink"].cause == "fold"
    assert "turns back there (a fold)" in sweep["sink"].reason
    assert len(sweep["sink"].history) > 1
    without = steady({"lap": cf.lap(u), "exp": sp.exp(u)}, {"lap": 1.0, "exp": 8.0}, forcing={})
    with pytest.raises(
        cf.SolveError, match=r"Newton's method did not converge .*initial="
    ) as caught:
        without.solve()
    assert caught.value.cause == "start"
    assert len(caught.value.history) > 1


def test_a_saddle_point_without_its_viscosity_is_unsolvable():
    """Nothing but the pressure is left of Stokes' equation: fields without divergence are no
    longer controlled.
    """
    library = cf.Library(terms={"lap": cf.lap(v), "drag": v}, unknown=v)
    given = cf.Experiment(
        mesh=unit("triangle", 4),
        elements={v: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(v, 0)],
        forcing={v: (y, -x)},
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    model = cf.Model(library, {"lap": 1.0}, given)
    sweep = model.deletions(["lap", "drag"], conditions="kept")
    assert sweep["lap"].status == "unsolvable"
    assert "singular" in sweep["lap"].reason
    assert sweep["drag"].score < 1e-13


def test_an_unstable_pair_has_no_unique_pressure():
    """P1 velocity and discontinuous constant pressure: more conditions than velocities,
    spurious pressures.
    """
    library = cf.Library(terms={"lap": cf.lap(v)}, unknown=v)
    given = cf.Experiment(
        mesh=unit("triangle", 4),
        elements={v: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(v, 0)],
        forcing={v: (y, -x)},
        constraint=cf.DivergenceFree(v, multiplier={p: ("DG", 0)}),
    )
    with pytest.raises(cf.SolveError, match="singular"):
        cf.Model(library, {"lap": 1.0}, given).solve()


def test_a_multiplier_that_does_not_suit_is_named():
    """Potentials of degree 3 ask for more than edge elements of degree 1 can give."""
    E, q = cf.VectorField("E", dim=2), cf.ScalarField("q")
    given = cf.Experiment(
        mesh=unit("triangle", 4),
        elements={E: ("N1curl", 1)},
        boundary=[cf.Tangential(E, 0)],
        initial={E: (y, 0)},
        time=cf.Window(0, 1, steps=2),
        constraint=cf.DivergenceFree(E, multiplier={q: ("Lagrange", 3)}),
    )
    library = cf.Library(anchor=cf.dt(E), terms={"curl": -cf.curl(cf.curl(E))})
    with pytest.raises(cf.SolveError, match="the element of the multiplier q may not suit"):
        cf.Model(library, {"curl": 1.0}, given).solve()


def test_a_deletion_that_leaves_an_equation_running_backward_is_not_marched():
    """Ripples grow without bound, but on a coarse mesh and within a short window they leave a
    finite number.
    """
    library = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u), "steep": -u.diff(x, 2), "u": u})
    experiment = cf.Experiment(
        mesh=unit("triangle", 4),
        elements={u: ("Lagrange", 1)},
        boundary=DIRICHLET,
        initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
        time=cf.Window(0, 0.1, steps=4),
    )
    model = cf.Model(library, {"lap": 1.0, "steep": 0.1, "u": 1.0}, experiment)
    for accuracy in (0.0, 1e-4):
        sweep = model.deletions(accuracy=accuracy)
        assert {name: found.status for name, found in sweep.items()} == {
            "lap": "unsolvable",
            "steep": "solved",
            "u": "solved",
        }
        assert sweep["lap"].cause == "backward"
        assert "(0.1 steep): such an equation runs backward in time" in sweep["lap"].reason
    backward = cf.Model(library, {"steep": 1e-3, "u": 1.0}, experiment)
    assert backward.deletions(["u"])["u"].status == "solved", (
        "a factual problem of that kind is the user's own choice"
    )


def test_refitted_coefficients_may_not_turn_diffusion_round():
    """Without the drift, the fit on u takes diffusion with the wrong sign for it."""
    library = cf.Library(anchor=cf.dt(u), terms={"u": u, "drift": u.diff(x), "lap": cf.lap(u)})
    experiment = cf.Experiment(
        mesh=unit("interval", 16),
        elements={u: ("Lagrange", 1)},
        boundary=DIRICHLET,
        initial={u: sp.sin(sp.pi * x) ** 2},
        time=cf.Window(0, 0.5, steps=16),
    )
    model = cf.Model(library, {"u": 0.3, "drift": -0.5, "lap": 0.02}, experiment)
    assert model.refitted("drift")["lap"] < 0
    found = model.deletions(["drift"], refit="remaining")["drift"]
    assert (found.status, found.cause) == ("unsolvable", "backward")


def test_a_verdict_that_is_reached_before_a_blow_up_holds():
    """Without the sink u_t = 6 u² leaves every bound at t = 1/6; long before, it is farther
    from the factual solution than ε.
    """
    library = cf.Library(anchor=cf.dt(u), terms={"square": u**2, "sink": -(u**3)})
    experiment = cf.Experiment(
        mesh=unit("interval", 4),
        elements={u: ("Lagrange", 1)},
        initial={u: 1},
        time=cf.Window(0, 0.4, steps=40),
    )
    model, epsilon = cf.Model(library, {"square": 6.0, "sink": 6.0}, experiment), 1e-2
    full, early = (
        model.deletions(["sink"])["sink"],
        model.deletions(["sink"], scores="decide", epsilon=epsilon)["sink"],
    )
    assert full.status == "unsolvable"
    assert early.status == "decided"
    shorter = model.at(cf.Window(0, 0.15, steps=15)).deletions(["sink"])["sink"]
    assert shorter.status == "solved"
    assert epsilon < early.score <= shorter.score
    said = certify_sweep(model, {"sink": early}, cf.Certification(epsilon=epsilon))["sink"]
    assert "lower bound" in said.reason
    assert "unsolvable" not in said.reason


SOLVERS = {
    "direct": None,
    "amg": {"preset": "amg"},
    "gmres": {"ksp_type": "gmres", "pc_type": "ilu"},
    "cg": {"ksp_type": "cg", "pc_type": "jacobi"},
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    "terms",
    [
        {"lap": cf.lap(u), "pull": 1 - u},
        {"lap": cf.lap(u), "pull": 1 - u**3},
        {"lap": cf.div((1 + u**2) * cf.grad(u)), "pull": 1 - u},
    ],
    ids=["linear", "cubic", "nonlinear left"],
)
def test_a_start_without_a_residual_does_not_hide_that_there_are_other_solutions(terms, solver):
    """u = 1 solves the factual problem and each of its terms alone; without `pull` every constant
    does.
    """
    library = cf.Library(terms=terms, unknown=u)
    experiment = cf.Experiment(
        mesh=unit("triangle", 5),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Neumann(u, 0)],
        initial={u: 0.5},
    )
    with cf.Model(library, dict.fromkeys(terms, 1.0), experiment, SOLVERS[solver]) as model:
        found = model.deletions()
    assert found["pull"].status == "unsolvable"
    # A Krylov solver may see before that nothing fits the rounding of a residual.
    assert found["pull"].cause in ("singular", *(() if solver == "direct" else ("tolerance",)))
    assert found["lap"].status == "solved"
    assert found["lap"].score < 1e-9


def test_a_field_that_nothing_determines_any_more_is_no_zero_score():
    """Nothing moves, so Newton's method has nothing to do at any step, and w is free without its
    own term.
    """
    w = cf.ScalarField("w")
    system = cf.System(
        {
            "u": cf.Library(cf.dt(u), {"lap": cf.lap(u), "cubic": w - u**3}),
            "w": cf.Library(terms={"own": 1 - w, "lap": 0.5 * cf.lap(w)}, unknown=w),
        }
    )
    experiment = cf.Experiment(
        mesh=unit("triangle", 4),
        elements={u: ("Lagrange", 1), w: ("Lagrange", 1)},
        boundary=[cf.Neumann(u, 0), cf.Neumann(w, 0)],
        initial={u: 1},
        time=cf.Window(0, 0.1, steps=2),
    )
    with cf.Model(system, dict.fromkeys(system.names, 1.0), experiment) as model:
        found = model.deletions(["w/own", "w/lap"])
    assert found["w/own"].cause == "singular"
    assert found["w/lap"].score < 1e-12


def test_a_large_problem_that_is_solved_iteratively_is_found_to_be_singular():
    library = cf.Library(terms={"lap": cf.lap(u), "pull": 1 - u}, unknown=u)
    experiment = cf.Experiment(
        mesh=unit("triangle", 60), elements={u: ("Lagrange", 1)}, boundary=[cf.Neumann(u, 0)]
    )
    with cf.Model(library, {"lap": 1.0, "pull": 1.0}, experiment, {"preset": "amg"}) as model:
        found = model.deletions()
    assert found["pull"].cause in ("singular", "tolerance")
    assert found["lap"].score < 1e-9


@pytest.mark.parametrize(
    ("tangential", "alpha", "grows"),
    # What holds the normal is not judged.
    [(False, 1.0, False), (False, -1.0, True), (True, 1.0, False)],
)
def test_rates_on_a_wall_are_judged_for_vectors_of_the_plane(tangential, alpha, grows):
    field = cf.VectorField("E", dim=2)
    rate = cf.dt(field)
    across = cf.dot(rate, cf.n) * cf.n if tangential else 0
    library = cf.Library(
        anchor=cf.dt(cf.dt(field)),
        terms={
            "curl curl": -cf.curl(cf.curl(field)),
            "wall": cf.on("wall", across - rate),
        },
    )
    mesh = cf.mesh.named(unit("triangle", 2).mesh, facets={"wall": lambda p: p[0] < 1e-9})
    experiment = cf.Experiment(
        mesh=mesh,
        elements={field: ("N1curl", 1)},
        initial={field: (0, 0), rate: (0, 0)},
        boundary=[cf.Neumann(field, 0, on="wall"), cf.Tangential(field, 0, on="untagged")],
        time=cf.Window(0, 1, steps=2),
    )
    coefficients = {"curl curl": 1.0, "wall": alpha}
    found = why_wall_grows(cf.Model(library, coefficients, experiment), coefficients)
    assert bool(found) == grows
    assert not grows or "on 'wall' is positive" in found


@pytest.mark.parametrize(
    ("first", "second", "backward"),
    [
        (1 + x, x * y, False),
        (x - 0.5, x * y, True),
        # Least at another place than where the other is: the ends say no more than "perhaps".
        (x - 0.4, 1 - x, False),
        (sp.exp(-x), -0.3 * x, False),
        (sp.exp(-x), -0.5 * x, True),
    ],
)
def test_what_the_ends_of_coefficients_tell_is_what_all_places_tell(first, second, backward):
    terms = {"one": cf.div(first * cf.grad(u)), "two": cf.div(second * cf.grad(u))}
    model = cf.Model(
        cf.Library(anchor=cf.dt(u), terms=terms),
        dict.fromkeys(terms, 0.0),
        cf.Experiment(
            mesh=unit("triangle", 4),
            elements={u: ("Lagrange", 1)},
            boundary=DIRICHLET,
            initial={u: 1},
            time=cf.Window(0, 1, steps=2),
        ),
    )
    found = [backward_model(model, dict.fromkeys(terms, 1.0))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cffem.engine.time.wellposed._positive_at_ends", lambda *_: False)
        model.once("backward in time", dict).clear()
        found.append(backward_model(model, dict.fromkeys(terms, 1.0)))
    assert found[0] == found[1]
    assert bool(found[0]) == backward
