"""Levels about the user's own: interpolation between meshes, estimates that cover much finer
solutions, and no estimate where coarser levels say nothing.
"""

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

from dolfinx import fem
from mpi4py import MPI
from random_levels import problem, reference, u

import cffem as cf
from cffem import dt, lap, x, y
from cffem.bounds.certificate import DeletionBound, NoCertificate, NotCovered, NotSaturated
from cffem.bounds.levels.around import ABOUT, BELOW, LevelsAround
from cffem.bounds.levels.beside import LARGER, SAME, LevelsBeside
from cffem.bounds.levels.compared import gram_matrix
from cffem.bounds.levels.estimates import Estimates, Tried
from cffem.bounds.levels.interpolation import interpolation
from cffem.bounds.refining import Refinement
from cffem.engine.solve.linear import SolveError


@pytest.mark.parametrize(
    ("shape", "family", "field"),
    [
        ("interval", ("Lagrange", 3), lambda p: p[0] ** 3 - p[0]),
        ("square", ("Lagrange", 2), lambda p: p[0] ** 2 - p[0] * p[1] + 1),
        ("square", ("DG", 1), lambda p: 1 + p[0] - p[1]),
        ("square", ("RT", 1), lambda p: (1 + 2 * p[0], 3 + 2 * p[1])),
        ("square", ("N1curl", 2), lambda p: (1 - 2 * p[1] + p[0], 3 + 2 * p[0])),
        ("box", ("N1curl", 1), lambda p: (1 - 2 * p[1] + p[2], 3 + 2 * p[0], -p[0])),
        ("box", ("Lagrange", 1, (3,)), lambda p: (1 - 2 * p[1], 3 + 2 * p[0], p[2])),
    ],
)
def test_functions_of_the_element_survive_interpolation(shape, family, field):
    sizes = (0.5, 0.35) if shape == "box" else (0.3, 0.1)
    low, high = (
        fem.functionspace(getattr(cf.mesh, shape)(MPI.COMM_SELF, h).mesh, family) for h in sizes
    )
    coarse, fine = fem.Function(low), fem.Function(high)
    coarse.interpolate(field)
    fine.interpolate(field)
    carried = interpolation(low, high) @ coarse.x.array
    assert np.abs(carried - fine.x.array).max() < 1e-12


def test_trajectories_on_any_levels_in_time_are_compared_exactly():
    library = cf.Library(anchor=dt(u), terms={"lap": lap(u)})
    model = cf.Model(
        library,
        {"lap": 1.0},
        cf.Experiment(
            mesh=cf.mesh.interval(MPI.COMM_SELF, 0.5),
            elements={u: ("Lagrange", 1)},
            boundary=[cf.Neumann(u, 0)],
            initial={u: 0},
            time=cf.Window(0, 2, steps=2),
        ),
    )
    ones = np.ones(model.spaces.owned)
    grids = {n: np.linspace(0, 2, n) for n in (3, 4)}
    # f = 3 t/2 on two steps and g = t/2 on three: ∫ (f − g)² over (0, 2) is 8/3.
    f, g = ([k / n * c * ones for k in range(n + 1)] for n, c in ((2, 3.0), (3, 1.0)))
    found = gram_matrix(model.norm("L2"), [[(f, 1.0), (g, -1.0)], [(f, 1.0)]], grids)
    assert found == pytest.approx(np.array([[8 / 3, 4.0], [4.0, 6.0]]))


# The ways to levels about and beside the user's.
WAYS = {
    "below": lambda model: LevelsAround(model, BELOW),
    "about": lambda model: LevelsAround(model, ABOUT),
    "beside, larger": lambda model: LevelsBeside(model, LARGER),
    "beside, same": lambda model: LevelsBeside(model, SAME),
}


def covered(seed, way):
    """Bounds of one random problem, how many there are and which missed the truth."""
    model, words = problem(seed)
    names = ["drift", "r", "lap"]
    sweep, truth = model.deletions(names, keep=True), reference(model).deletions(names)
    try:
        levels = WAYS[way](model)
    except (NotCovered, SolveError):
        return 0, []
    count, missed = 0, []
    for name in names:
        if sweep[name].status != "solved" or truth[name].status != "solved":
            continue
        try:
            bound = levels.deletion(name, "L2", sweep[name].solution, sweep[name].intervention)
        except (NotCovered, SolveError):
            continue
        count += 1
        error = abs(bound.score - truth[name].score)
        if error > bound.margin:
            missed.append(f"{name} of {words}: {error:.3g} > {bound.margin:.3g}")
    return count, missed


# On intervals, which cost least.
QUICK = (23, 30, 34, 48, 97)


@pytest.mark.parametrize("way", WAYS)
def test_estimates_cover_much_finer_solutions(way):
    counts, missed = zip(*(covered(seed, way) for seed in QUICK), strict=True)
    assert sum(counts) >= 6
    assert not [words for found in missed for words in found]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_estimates_cover_in_99_of_100_problems(way):
    counts, missed = zip(*(covered(seed, way) for seed in range(150)), strict=True)
    words = [one for found in missed for one in found]
    assert sum(counts) > 150
    assert len(words) <= 0.01 * sum(counts), words


def transient(h=0.1, modes=1, steps=16, a=0.05, certification=None):
    library = cf.Library(anchor=dt(u), terms={"lap": lap(u), "u_x": -u.diff(x), "xu": x * u})
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_WORLD, h),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: sp.sin(modes * sp.pi * x) * sp.sin(modes * sp.pi * y)},
        time=cf.Window(0, 0.5, steps=steps),
    )
    return library, {"lap": a, "u_x": 0.3, "xu": 0.01}, experiment


def test_the_given_level_is_the_finest_and_costs_no_more_than_itself():
    model = cf.Model(*transient())
    estimates = Estimates(model)
    estimates.prepare({name: cf.delete(name) for name in ("u_x", "xu")})
    bound = estimates.deletion("u_x")
    assert "the given one the finest" in bound.certificate.method
    assert bound.score == pytest.approx(model.deletions(["u_x"])["u_x"].score)
    assert 0 < bound.margin < 0.05 * bound.score
    assert estimates.spent < 0.2
    assert bound.certificate.cost["unknowns of the finest space"] == model.spaces.size


def test_levels_that_resolve_nothing_give_no_estimate():
    # Twelve half waves on twelve cells: the coarser levels see something else.
    model = cf.Model(*transient(modes=12))
    with pytest.raises(NotSaturated, match=r"does not resolve|do not shrink"):
        LevelsAround(model, BELOW)


def test_a_finer_level_is_asked_for_what_is_near_epsilon():
    model = cf.Model(*transient())
    below, about = (LevelsAround(model, given).deletion("u_x") for given in (BELOW, ABOUT))
    rest = about.best[1]
    assert rest < 0.5 * below.margin
    epsilon = below.score + 0.9 * below.margin
    found = Estimates(model, effort=10.0).deletion(
        "u_x", decides=lambda bound: abs(bound.score - epsilon) > bound.margin
    )
    # The next degree costs less than a finer mesh.
    assert "elements of the next degree on the same cells" in found.certificate.method
    assert abs(found.score - epsilon) > found.margin
    # What it leaves open the finer mesh is asked for.
    estimates = Estimates(model, effort=10.0)
    estimates._beside = dict.fromkeys((LARGER, SAME), NoCertificate("it is left out here"))
    found = estimates.deletion(
        "u_x", decides=lambda bound: abs(bound.score - epsilon) > bound.margin
    )
    assert "the given one the middle" in found.certificate.method
    assert abs(found.score - epsilon) > found.margin


def test_the_next_degree_decides_where_coarser_cells_resolve_nothing():
    # Edge elements of first order on a few cells: the coarser ones do not see the field.
    electric = cf.VectorField("E", dim=3)
    library = cf.Library(
        anchor=dt(dt(electric)), terms={"curls": -cf.curl(cf.curl(electric)), "mass": -electric}
    )
    start = sp.sin(sp.pi * y) * sp.sin(sp.pi * cf.z)
    experiment = cf.Experiment(
        mesh=cf.mesh.box(MPI.COMM_SELF, 0.14),
        elements={electric: ("N1curl", 1)},
        boundary=[cf.Tangential(electric, (0, 0, 0))],
        initial={electric: (start, 0, 0), dt(electric): (0, 0, 0)},
        time=cf.Window(0, 0.5, steps=8),
    )
    model = cf.Model(library, {"curls": 1.0, "mass": 0.5}, experiment)
    with pytest.raises(NotSaturated, match="does not resolve"):
        LevelsAround(model, BELOW)
    estimates = Estimates(model)
    # E = cos(ω t) start and ω² = 2π² + 0.5; without the term ω² = 2π².
    times = np.linspace(0, 0.5, 4001)
    apart = np.cos(np.sqrt(2 * np.pi**2 + 0.5) * times) - np.cos(np.sqrt(2 * np.pi**2) * times)
    true = 0.5 * np.sqrt(np.trapezoid(apart**2, times))
    found = estimates.deletion("mass", decides=lambda bound: bound.margin < 0.3 * bound.score)
    assert "elements of the next degree" in found.certificate.method
    assert abs(found.score - true) <= found.margin < 0.3 * found.score
    assert found.size_error < found.eta_factual


def test_what_the_effort_does_not_allow_says_what_it_would_cost():
    model = cf.Model(*transient(h=0.05, steps=40))
    found = Estimates(model, effort=1e-3)._by_levels(3, "u_x", "L2", None, None)
    assert isinstance(found, NoCertificate)
    assert "times the factual solve with its deletions for one term" in found.reason


def test_terms_that_are_solved_for_together_stay_within_the_effort():
    model = cf.Model(*transient(h=0.05, steps=40))
    names = list(model.active)
    assert len(names) > 1
    estimates = Estimates(model)
    # Room for the factual solution and for one deletion.
    estimates.effort = 2.5 * estimates._price(estimates._ratio(1), 1)
    estimates.prepare({name: cf.delete(name) for name in names}, way=1)
    levels = estimates.beside(LARGER)
    assert isinstance(levels, LevelsBeside)
    assert [name for name in names if levels.ready(name, None)] == names[:1]
    found = estimates._by_levels(1, names[1], "L2", None, None)
    assert isinstance(found, NoCertificate)
    assert "one more solution on finer levels" in found.reason
    assert estimates.spent <= estimates.effort


def test_what_finer_levels_are_not_expected_to_decide_is_left_out():
    tried = Tried("u", "L2", None, lacks=lambda bound: bound.margin)
    assert not tried.left_out(3)
    tried.bounds.append(DeletionBound("u", 1.0, 0.0, 0.0, 0.0, 200.0, None))
    assert tried.left_out(3)
    assert not tried.left_out(2)
    tried.bounds.append(DeletionBound("u", 1.0, 0.0, 0.0, 0.0, 5.0, None))
    assert not tried.left_out(3)


def test_refinement_goes_as_far_as_the_effort(monkeypatch):
    monkeypatch.setattr("cffem.verdicts.certification.BUDGET", 10.0)
    model = cf.Model(*transient(h=0.3, steps=4))
    # Eight times the unknowns and steps for two of four problems.
    for asked, there in (({}, True), ({"effort": 3.9}, False), ({"budget": 10.0}, False)):
        levels = Refinement(model, cf.Certification(refine=True, **asked))
        assert (levels.model(1) is not None) == there
        assert levels.model(2) is None


def test_a_mesh_that_nobody_can_make_again_has_no_coarser_levels():
    from dolfinx.mesh import create_unit_square

    library, coefficients, experiment = transient()
    plain = cf.Experiment(
        mesh=create_unit_square(MPI.COMM_WORLD, 4, 4),
        elements=experiment.elements,
        boundary=experiment.boundary,
        initial=experiment.initial,
        time=experiment.time,
    )
    with pytest.raises(NotCovered, match="how it was made"):
        LevelsAround(cf.Model(library, coefficients, plain), BELOW)


def margins(comm):
    model = cf.Model(*transient(h=0.15, steps=8))
    found = [LevelsAround(model, given).deletion("u_x").margin for given in (BELOW, ABOUT)]
    found.append(LevelsBeside(model, LARGER).deletion("u_x").margin)
    if comm.rank == 0:
        print("MARGINS", *map(repr, found))


def test_ranks_agree_on_the_estimates(on_ranks, capsys):
    margins(MPI.COMM_WORLD)
    said = [capsys.readouterr().out, on_ranks(2, margins)]
    lines = [next(row for row in text.splitlines() if "MARGINS" in row) for text in said]
    alone, together = ([float(word) for word in line.split()[1:]] for line in lines)
    assert together[0] == pytest.approx(alone[0], rel=1e-6)
    assert together[2] == pytest.approx(alone[2], rel=1e-6)
    # How triangles are divided depends on how they are numbered, and so does the finer level.
    assert together[1] == pytest.approx(alone[1], rel=0.05)


def test_a_term_that_is_relevant_on_a_part_of_the_window_is_relevant():
    model = cf.Model(*transient(steps=32))
    levels = LevelsAround(model, BELOW)
    whole = levels.deletion("u_x")
    part = levels.on_part("u_x", "L2", None, cf.delete("u_x"), lambda value, error: value > 1e-4)
    assert part.score == pytest.approx(whole.score)
    # The lower bound is that of half the window, well below the score and with a bar of its own.
    least = part.score - part.margin
    with cf.Model(*transient(h=0.05, steps=64)) as finer:
        without = finer.solve(cf.delete("u_x"))
        half = [a - b for a, b in zip(finer.factual.states, without.states, strict=True)][:33]
        difference = cf.Solution(finer, without.intervention, finer.times[:33], without.record)
        difference.states = half
        true = difference.norm("L2")
    assert 0.8 * true < least < true
    assert "the first 50% of the window" in part.certificate.method
    none = levels.on_part("u_x", "L2", None, cf.delete("u_x"), lambda value, error: value > 1.0)
    assert none is None
