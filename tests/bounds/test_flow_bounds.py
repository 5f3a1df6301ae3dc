"""Guaranteed bounds of steady flows: the inequality of the divergence, the approximation constants
of a mesh, and error bounds against exact solutions.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import scipy.linalg
import sympy as sp
import ufl
from bounds_support import l_shape, perturbed
from dolfinx import fem, mesh
from dolfinx.fem.petsc import LinearProblem
from mpi4py import MPI

import cffem as cf
from benchmarks.certify.certify_flow import (
    DOMAINS,
    flow_distances,
    flow_outcome,
    flow_problem,
    p,
    v,
)
from cffem._compat import assemble_matrix, form
from cffem.bounds import certify_deletion, certify_solution
from cffem.bounds.certificate import NotCovered
from cffem.bounds.entrance import certifier
from cffem.bounds.flow import stokes_approximation as hypercircle
from cffem.bounds.flow.divergence_constant import divergence_constant
from cffem.bounds.flow.stokes_equation import stokes_term
from cffem.bounds.geometry.lowest_order import gathered
from cffem.bounds.geometry.mesh_constants import Domain, exterior_corners
from cffem.symbols import x, y

ONE = MPI.COMM_SELF
# (∂ψ/∂y, −∂ψ/∂x) with ψ = x² (1 − x)² y² (1 − y)² + y³/3, on the sides (y², 0).
STREAM = x**2 * (1 - x) ** 2 * y**2 * (1 - y) ** 2 * 20
EXACT = (sp.diff(STREAM, y) + y**2, -sp.diff(STREAM, x))
PRESSURE = x * y - x**2
TERMS = {
    "viscosity": cf.div(2 * cf.sym(cf.grad(v))),
    "drag": -v,
    "wind": -cf.dot(cf.grad(v), cf.vector(1 - y, x)),
    "turning": cf.vector(v[1], -v[0]),
}
COEFFICIENTS = {"viscosity": 0.5, "drag": 2.0, "wind": 1.0, "turning": 3.0}


def forced(coefficients=COEFFICIENTS):
    """The forcing of the exact flow."""
    from cffem.symbols.algebra.components import to_components

    values = {v[0]: EXACT[0], v[1]: EXACT[1]}
    total = [PRESSURE.diff(s) for s in (x, y)]
    for name, alpha in coefficients.items():
        entries = to_components(TERMS[name], 2)
        total = [
            a - sp.nsimplify(alpha) * entry.subs(values).doit()
            for a, entry in zip(total, entries, strict=True)
        ]
    return tuple(sp.expand(entry) for entry in total)


def flow(domain, degree=2, coefficients=COEFFICIENTS, terms=TERMS, **changed):
    data = {
        "mesh": domain,
        "elements": {v: ("Lagrange", degree)},
        "boundary": [cf.Dirichlet(v, (y**2, 0))],
        "forcing": {v: forced()},
        "constraint": cf.DivergenceFree(v, multiplier={p: ("Lagrange", degree - 1)}),
    }
    library = cf.Library(terms={name: terms[name] for name in coefficients}, unknown=v)
    return cf.Model(library, coefficients, cf.Experiment(**{**data, **changed}))


def polygon(*corners):
    corners = np.array(corners, dtype=float)
    return np.stack([corners, np.roll(corners, -1, axis=0)], axis=1)


# The inequality of the divergence


def test_known_constants_of_the_divergence():
    square = divergence_constant(polygon((0, 0), (1, 0), (1, 1), (0, 1)))
    assert square.value == pytest.approx(math.sin(math.pi / 8), rel=1e-8)
    turn = 2 * np.pi * np.arange(400) / 400
    disk = divergence_constant(polygon(*np.column_stack([3 + np.cos(turn), np.sin(turn)])))
    # That of a disk is 1/√2; the formula sees the corners.
    assert 0.66 < disk.value < 1 / math.sqrt(2)
    for ratio in (2, 5):
        # ρ/(√2 R) (1 + (1 − ρ²/R²)^{1/2})^{−1/2} of Costabel and Dauge.
        share = 1 / math.hypot(1, ratio)
        known = share / math.sqrt(2) / math.sqrt(1 + math.sqrt(1 - share**2))
        found = divergence_constant(polygon((0, 0), (ratio, 0), (ratio, 1), (0, 1)))
        assert found.value == pytest.approx(known, rel=1e-6)
        assert found.centre == pytest.approx((ratio / 2, 0.5), abs=1e-4)


def test_scale_place_and_order_of_the_sides_do_not_matter():
    sides = polygon((0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2))
    found = divergence_constant(sides).value
    assert 0.15 < found < 0.2
    moved = 1e-3 * sides[::-1, ::-1] + np.array([5.0, -7.0])
    assert divergence_constant(moved).value == pytest.approx(found, rel=1e-5)


@pytest.mark.parametrize(
    "sides",
    [
        polygon((0, 0), (3, 0), (3, 2), (2, 2), (2, 1), (1, 1), (1, 2), (0, 2)),
        np.concatenate(
            [
                polygon((-2, -2), (2, -2), (2, 2), (-2, 2)),
                polygon((-1, -1), (1, -1), (1, 1), (-1, 1)),
            ]
        ),
    ],
    ids=["U", "hole"],
)
def test_domains_that_are_no_stars_are_refused(sides):
    with pytest.raises(NotCovered, match="star-shaped"):
        divergence_constant(sides)


def dense(bilinear):
    matrix = assemble_matrix(bilinear)
    matrix.assemble()
    return matrix.convert("dense").getDenseArray().copy()


def test_the_constant_is_below_that_of_discrete_fields_on_a_square_and_an_l_shape():
    """The smallest quotient over Taylor–Hood pairs is at least β up to what the spaces miss."""
    for domain in (mesh.create_unit_square(MPI.COMM_SELF, 6, 6), l_shape()):
        velocity = fem.functionspace(domain, ("Lagrange", 3, (2,)))
        pressure = fem.functionspace(domain, ("Lagrange", 1))
        w, q = ufl.TestFunction(velocity), ufl.TestFunction(pressure)
        a = form(ufl.inner(ufl.grad(ufl.TrialFunction(velocity)), ufl.grad(w)) * ufl.dx, ONE)
        b = form(ufl.div(ufl.TrialFunction(velocity)) * q * ufl.dx, ONE)
        m = form(ufl.TrialFunction(pressure) * q * ufl.dx, ONE)
        stiff, mixed, mass = (dense(each) for each in (a, b, m))
        outer = mesh.locate_entities_boundary(domain, 1, lambda s: np.full(s.shape[1], True))
        nodes = fem.locate_dofs_topological(velocity, 1, outer)
        held = (2 * nodes[:, None] + np.arange(2)).ravel()
        free = np.setdiff1d(np.arange(len(stiff)), held)
        schur = mixed[:, free] @ np.linalg.solve(stiff[np.ix_(free, free)], mixed[:, free].T)
        squares = scipy.linalg.eigh(schur, mass)[0]
        # Constants have the quotient zero. A discrete sup is smaller, an inf larger than the true.
        found = divergence_constant(exterior_corners(domain)).value
        assert found < math.sqrt(squares[1])


# The approximation constants


def test_the_constant_of_a_mesh_is_the_largest_quotient():
    domain = perturbed(2, 3, 0.1, 1.0)
    form_of = hypercircle.StokesHypercircle(gathered(domain), 0.38)
    size, count = form_of.form.shape[0], len(form_of.volume)
    saddle = np.zeros((size + count, size + count))
    saddle[:size, :size] = form_of.form.toarray()
    saddle[size:, :size] = form_of.balance.toarray()
    saddle[:size, size:] = saddle[size:, :size].T
    root = np.sqrt(form_of.volume)
    right = np.vstack([np.zeros((size, count)), -np.diag(root)])
    image = root[:, None] * np.linalg.solve(saddle, right)[size:]
    exact = np.linalg.eigvalsh((image + image.T) / 2)[-1]
    assert form_of._proved(1.001 * exact)
    assert not form_of._proved(0.999 * exact)
    assert exact <= form_of.largest() < 1.15 * exact


@pytest.mark.parametrize("waves", [1, 3])
def test_stokes_solutions_are_approximated_as_the_constant_says(waves):
    domain = perturbed(2, 4, 0.15, 2.0)
    longest = float(Domain(domain).diameters.max())
    beta = divergence_constant(exterior_corners(domain)).value
    constants = hypercircle.stokes_approximation(domain, longest, beta)
    where = ufl.SpatialCoordinate(domain)
    turn = waves * ufl.pi
    stream = ufl.sin(turn * where[0]) ** 2 * ufl.sin(turn * where[1]) ** 2
    z = ufl.as_vector((stream.dx(1), -stream.dx(0)))
    pressure = ufl.cos(turn * where[0]) * ufl.cos(turn * where[1]) * 8
    g = -ufl.div(ufl.grad(z)) + ufl.grad(pressure)
    dx = ufl.dx(metadata={"quadrature_degree": 12})

    def best(element, inner, target, held):
        space = fem.functionspace(domain, element)
        u, w = ufl.TrialFunction(space), ufl.TestFunction(space)
        domain.topology.create_connectivity(1, 2)
        outer = mesh.exterior_facet_indices(domain.topology)
        dofs = fem.locate_dofs_topological(space, 1, outer)
        zero = fem.Function(space)
        problem = LinearProblem(
            inner(u, w) * dx,
            inner(target, w) * dx,
            bcs=[fem.dirichletbc(zero, dofs)] if held else [],
            petsc_options={"ksp_type": "preonly", "pc_type": "lu"},
        )
        return problem.solve()

    near = best(("Lagrange", 2, (2,)), lambda a, b: ufl.inner(ufl.grad(a), ufl.grad(b)), z, True)
    level = best(("Lagrange", 1), ufl.inner, pressure, False)

    def size(density):
        return math.sqrt(fem.assemble_scalar(form(ufl.inner(density, density) * dx, ONE)))

    found = size(ufl.grad(z - near)), size(ufl.div(near)), beta * size(pressure - level)
    for weights in ((1, 0, 0), (0, 0, 1), (1, 1, 1)):
        # E with D only: with E or G alone other v or q would be chosen.
        total = weights[0] * found[0] + weights[1] * found[1] + weights[2] * found[2]
        assert total <= constants.bound(*weights) * size(g)


# Bounds


def test_terms_are_read():
    found = stokes_term(TERMS["viscosity"] - 3 * v + TERMS["wind"] + TERMS["turning"], v, 2)
    assert (found.viscosity, found.bulk) == (-1.0, -1.0)
    assert found.matrix.tolist() == [[-3, 1], [-1, -3]]
    assert found.shift.tolist() == [-1, 0]
    assert found.slope.tolist() == [[0, 1], [-1, 0]]
    curls = stokes_term(-cf.curl(cf.curl(v)), v, 2)
    assert (curls.viscosity, curls.bulk, curls.drag) == (-1.0, 1.0, 0.0)
    for term, words in (
        ((1 + x) * cf.lap(v), "not constant"),
        (cf.vector(v[0].diff(x, 2), v[1].diff(y, 2)), "viscous term"),
        (cf.vector(v[1].diff(x), v[0].diff(y)), "first order"),
        (cf.dot(cf.grad(v), v), "nonlinear"),
    ):
        with pytest.raises(NotCovered, match=words):
            stokes_term(term, v, 2)


def errors(model):
    return flow_distances(model, [(1, model.factual)], EXACT)


def test_bounds_cover_and_fall_with_the_powers_of_h():
    found = []
    for n in (4, 8):
        model = flow(perturbed(2, n, 0.1, 1.0))
        bounds = [certify_solution(model, norm=norm) for norm in ("L2", "H1")]
        assert all(bound.kind == "guaranteed" for bound in bounds), bounds
        true = errors(model)
        assert true[0] < bounds[0].value
        assert true[1] < bounds[1].value
        found.append([bound.value for bound in bounds])
    orders = [math.log2(a / b) for a, b in zip(*found, strict=True)]
    assert orders[0] > 2.6
    assert orders[1] > 1.7
    assert found[1][1] < 4 * true[1]


def test_whatever_state_is_there_is_covered():
    """Nothing is asked of the state but its boundary values: a flow of a loose solver, another
    pressure, a velocity that is not even nearly free of divergence."""
    model = flow(perturbed(2, 4, 0.1, 1.0))
    judge, state = certifier(model), model.factual.states[0]
    random = np.random.default_rng(3)
    inner = np.setdiff1d(np.arange(len(state)), model.essential.owned)
    velocity, pressure = model.spaces.dofs(v), model.spaces.dofs(p)
    for where in (velocity, pressure, np.arange(len(state))):
        for size in (1e-6, 1e-2):
            other = state.copy()
            chosen = np.intersect1d(inner, where)
            other[chosen] += size * random.standard_normal(len(chosen))
            bound = judge.state(model.coefficients, other)
            solution = model.solve()
            solution.states[0][:] = other
            true = flow_distances(model, [(1, solution)], EXACT)
            assert true[0] <= bound.norm("L2")
            assert true[1] <= bound.norm("H1")


def test_deletions_decide_and_agree_with_a_finer_solution():
    coefficients = {"viscosity": 0.5, "drag": 4.0, "turning": 3.0}
    data = {"forcing": {v: forced(coefficients)}}
    model = flow(perturbed(2, 8, 0.1, 1.0), 2, coefficients, **data)
    finer = flow(perturbed(2, 8, 0.1, 1.0), 4, coefficients, **data)
    for name in ("drag", "turning"):
        bound = certify_deletion(model, name)
        assert bound.certificate.kind == "guaranteed"
        exact = finer.deletions([name])[name].score
        assert abs(bound.score - exact) <= bound.margin
        assert bound.margin <= bound.eta_factual + bound.eta_counterfactual + 1e-12
    # The turning of a plane flow is a gradient: nothing changes, but for what the mesh misses.
    assert certify_deletion(model, "turning").margin < 1e-2
    assert not certify_deletion(model, "viscosity")


def test_a_study_decides_with_a_guarantee():
    coefficients = {"viscosity": 0.5, "drag": 4.0}
    data = {"forcing": {v: forced(coefficients)}}
    model = flow(perturbed(2, 8, 0.1, 1.0), 2, coefficients, **data)
    score = model.deletions(["drag"])["drag"].score
    report = cf.Study(
        model.library,
        model.experiment,
        coefficients=coefficients,
        certification=cf.Certification(epsilon=score / 4),
    ).run()
    term = report.terms["drag"]
    assert (term.decision, term.certificate) == ("relevant", "guaranteed")


OUTLET = [cf.Dirichlet(v, (y**2, 0), on=("left", "bottom", "top")), cf.Neumann(v, 0, on="right")]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"boundary": [cf.Dirichlet(v, (sp.sin(y), 0))]}, "polynomials"),
        ({"boundary": [cf.Dirichlet(v, (y**3, 0))]}, "higher degree"),
        ({"coefficients": {**COEFFICIENTS, "drag": -30.0}}, "coercivity"),
        ({"coefficients": {"drag": 1.0, "turning": 1.0}}, "viscosity"),
        (
            {
                "elements": {v: ("Lagrange", 2)},
                "boundary": [cf.Dirichlet(v[0], 0), cf.Neumann(v, 0)],
            },
            "",
        ),
        ({"constraint": cf.DivergenceFree(v, multiplier={p: ("DG", 0)})}, "Lagrange"),
    ],
)
def test_hypotheses_that_fail_are_refused(changed, words):
    model = flow(mesh.create_unit_square(MPI.COMM_SELF, 3, 3), **changed)
    found = certifier(model)
    assert not found
    assert words in found.reason


def test_cavities_that_are_no_stars_and_space_are_refused():
    square = mesh.create_unit_square(MPI.COMM_SELF, 6, 6)
    kept = mesh.locate_entities(
        square, 2, lambda q: (np.abs(q[0] - 0.5) > 1 / 6 - 1e-9) | (q[1] < 1 / 3 + 1e-9)
    )
    model = flow(mesh.create_submesh(square, 2, kept)[0])
    assert "star-shaped" in certifier(model).reason


@pytest.mark.slow
@pytest.mark.parametrize("kind", DOMAINS)
def test_random_cases_are_covered(kind):
    random = np.random.default_rng([9, *kind.encode()])
    for _ in range(2):
        problem = flow_problem(random, kind)
        for _ in range(3):
            outcome = flow_outcome(f"Stokes, {kind}", problem, random)
            assert outcome.kind == "guaranteed"
            assert outcome.covered, outcome
            assert not any(wrong for wrong, _, _ in outcome.decisions())


def print_bars(comm):
    bound = certify_deletion(flow(mesh.create_unit_square(comm, 6, 6)), "drag")
    if comm.rank == 0:
        found = [bound.margin, bound.eta_factual, bound.eta_counterfactual]
        print("bars " + json.dumps(found))


@pytest.mark.mpi
def test_bounds_are_the_same_on_two_ranks(on_ranks, capsys):
    output = on_ranks(2, print_bars)
    print_bars(MPI.COMM_SELF)
    several, one = (
        json.loads(text.split("bars ")[1].splitlines()[0])
        for text in (output, capsys.readouterr().out)
    )
    assert several == pytest.approx(one, rel=1e-8)
