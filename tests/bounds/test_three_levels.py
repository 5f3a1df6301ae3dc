"""Three-level estimates: exact embeddings, saturation, and estimates that cover much finer
solutions of nonlinear problems.
"""

import unicodedata

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

import ufl
from bounds_support import check_on_two_ranks
from dolfinx import fem, mesh
from mpi4py import MPI

import cffem as cf
from cffem import _compat, dt, grad, lap, x, y
from cffem.bounds.levels.compared import gram_matrix
from cffem.bounds.levels.estimates import Estimates
from cffem.bounds.levels.ladders import Ladder, refined_domain
from cffem.bounds.levels.prolongation import prolongation
from cffem.bounds.levels.three_levels import LevelCertifier
from cffem.bounds.refining import Refinement
from cffem.engine.mesh.meshes import mesh_path, read_mesh
from cffem.verdicts import decide_by_refinement

u = cf.ScalarField("u")


@pytest.mark.parametrize(
    ("dimension", "family"),
    [
        (1, ("Lagrange", 2)),
        (2, ("Lagrange", 3)),
        (2, ("N1curl", 2)),
        (2, ("DG", 1)),
        (3, ("N1curl", 2)),
        (3, ("RT", 1)),
    ],
)
def test_embeddings_are_exact(dimension, family):
    domain = (
        mesh.create_unit_interval(MPI.COMM_SELF, 3)
        if dimension == 1
        else mesh.create_unit_square(MPI.COMM_SELF, 2, 3)
        if dimension == 2
        else mesh.create_unit_cube(MPI.COMM_SELF, 1, 2, 1)
    )
    finer, parents = _compat.refined(domain)
    coarse = fem.Function(fem.functionspace(domain, family))
    coarse.x.array[:] = np.cos(1.7 * np.arange(len(coarse.x.array)) ** 1.5)
    for space, above in (
        (fem.functionspace(finer, family), parents),
        (fem.functionspace(domain, (family[0], family[1] + 1)), None),
    ):
        raised = fem.Function(space)
        raised.x.array[:] = prolongation(coarse.function_space, space, above) @ coarse.x.array
        # Weighted moments of both agree only if they are the same function.
        for weight in (lambda p: 1 + p[0], lambda p: p[0] ** 3 * (1 + p[dimension - 1])):
            sizes = [
                fem.assemble_scalar(
                    fem.form(
                        ufl.inner(f, f)
                        * weight(ufl.SpatialCoordinate(f.function_space.mesh))
                        * ufl.dx
                    )
                )
                for f in (coarse, raised)
            ]
            assert sizes[0] == pytest.approx(sizes[1], rel=1e-12)


def test_names_of_the_boundary_survive_refinement():
    domain = read_mesh(mesh_path("annulus"), MPI.COMM_SELF)
    finer, _ = refined_domain(domain)
    for name in ("inner", "outer"):
        lengths = []
        for data in (domain, finer):
            ds = ufl.Measure("ds", domain=data.mesh, subdomain_data=data.facet_tags)
            lengths.append(
                fem.assemble_scalar(fem.form(fem.Constant(data.mesh, 1.0) * ds(data.tag(name, 1))))
            )
        assert lengths[0] > 1
        assert lengths[0] == pytest.approx(lengths[1], rel=1e-12)


def burgers(cells, steps, degree=1, scheme=None):
    library = cf.Library(
        anchor=dt(u),
        terms={"lap": lap(u), "steepening": -u * u.diff(x), "cube": -(u**3)},
    )
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, cells, cells),
        elements={u: ("Lagrange", degree)},
        initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.4, steps=steps, scheme=scheme),
    )
    return cf.Model(library, {"lap": 0.1, "steepening": 1.0, "cube": 0.5}, experiment)


@pytest.mark.parametrize(("way", "scheme"), [("mesh", None), ("degree", "backward-euler")])
def test_a_nonlinear_march_is_covered(way, scheme):
    model, finer = burgers(4, 4, scheme=scheme), burgers(12, 24, degree=2)
    certifier = LevelCertifier(model, way)
    for name in ("steepening", "cube"):
        bound = certifier.deletion(name)
        true = finer.deletions([name])[name].score
        assert bound.certificate.kind == "estimated"
        assert "guaranteed" not in f"{bound.certificate} {bound.certificate.latex()}"
        assert bound.score == pytest.approx(model.deletions([name])[name].score, rel=1e-10)
        assert abs(true - bound.score) <= bound.margin <= 6 * abs(true - bound.score)
        assert bound.margin < bound.eta_factual + bound.eta_counterfactual
        assert "np." not in repr(bound)


def test_what_does_not_saturate_has_no_estimate():
    # Without diffusion nothing smooths the jump at the boundary: no gap shrinks.
    library = cf.Library(terms={"lap": lap(u), "u": -u, "cube": -(u**3)}, unknown=u)
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, 4, 4),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1},
    )
    model = cf.Model(library, {"lap": 1e-6, "u": 1.0, "cube": 1.0}, experiment)
    found = Estimates(model, 1e5).deletion("lap")
    assert found.margin > 2 * found.score  # which says nothing
    assert "budget" in Estimates(model, 10).deletion("lap").reason


def test_systems_and_flows_have_estimates():
    v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")
    library = cf.Library(
        anchor=dt(v),
        terms={"lap": lap(v), "inertia": -cf.dot(v, grad(v)), "drag": -v},
        parameters={},
    )
    stream = sp.sin(sp.pi * x) ** 2 * sp.sin(sp.pi * y) ** 2
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, 4, 4),
        elements={v: ("Lagrange", 2)},
        initial={v: (stream.diff(y), -stream.diff(x))},
        boundary=[cf.Dirichlet(v, (0, 0))],
        time=cf.Window(0, 0.1, steps=4),
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    model = cf.Model(library, {"lap": 0.1, "inertia": 1.0, "drag": 1.0}, experiment)
    bounds = cf.certify_sweep(model, model.deletions(["drag"], keep=True), cf.Certification())
    assert bounds["drag"].certificate.kind == "estimated"
    assert 0 < bounds["drag"].margin < 0.1 * bounds["drag"].score


def test_inner_products_of_trajectories_are_exact():
    model = burgers(3, 2)
    one = model.factual.states
    fine = [one[0], (one[0] + one[1]) / 2, one[1], (one[1] + one[2]) / 2, one[2]]
    levels = {3: model.times, 5: np.linspace(0, 0.4, 5)}
    found = gram_matrix(
        model.norm("L2"), [[(one, 1.0)], [(fine, 1.0)], [(fine, 2.0), (one, -1.0)]], levels
    )
    assert found == pytest.approx(np.full((3, 3), model.factual.norm("L2") ** 2), rel=1e-12)


def print_margins(comm):
    library = cf.Library(terms={"lap": lap(u), "cube": -(u**3)}, unknown=u)
    experiment = cf.Experiment(
        mesh=cf.mesh.square(comm, 0.3),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 50 * sp.sin(3 * x + y)},
    )
    model = cf.Model(library, {"lap": 1.0, "cube": 1.0}, experiment)
    margins = [LevelCertifier(model, way).deletion("cube").margin for way in ("mesh", "degree")]
    if comm.rank == 0:
        print("margins", *(f"{margin:.16e}" for margin in margins))


@pytest.mark.slow
@pytest.mark.mpi
def test_margins_are_the_same_on_two_ranks(on_ranks, capsys):
    check_on_two_ranks(print_margins, on_ranks, capsys)


def test_a_ladder_says_why_it_cannot_go_up():
    domain = mesh.create_unit_square(MPI.COMM_SELF, 2, 2, mesh.CellType.quadrilateral)
    library = cf.Library(terms={"lap": lap(u)}, unknown=u)
    experiment = cf.Experiment(
        mesh=domain, elements={u: ("Lagrange", 1)}, boundary=[cf.Dirichlet(u, 0)], forcing={u: 1}
    )
    model = cf.Model(library, {"lap": 1.0}, experiment)
    with pytest.raises(ValueError, match="triangles"):
        Ladder(model, "mesh")
    assert Ladder(model, "degree").model(1).spaces.size == 25


def test_certificates_print_as_latex():
    bound = LevelCertifier(burgers(3, 3), "degree").deletion("cube")
    text = bound.certificate.latex()
    # Names with accents are text; every symbol of mathematics is a command.
    assert not [c for c in text if ord(c) > 127 and not c.isalpha() and c not in "–’"]
    assert not [c for c in text if "GREEK" in unicodedata.name(c, "")]
    assert r"\lesssim" in text
    assert "sigma" in text
    assert {"unknowns of the finest space", "seconds", "solutions"} <= set(bound.certificate.cost)


def cubic(cells, degree=1):
    library = cf.Library(terms={"lap": lap(u), "cube": -(u**3)}, unknown=u)
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, cells, cells),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 30 * sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
    )
    return cf.Model(library, {"lap": 1.0, "cube": 1.0}, experiment)


def test_refinement_decides_what_the_given_mesh_does_not():
    true = cubic(8, 3).deletions(["cube"])["cube"].score
    for share, budget, decision in (
        (0.97, 5e3, "relevant"),
        (1.15, 5e3, "irrelevant"),
        (1.0, 3e2, "unresolved"),
    ):
        verdict = decide_by_refinement(
            ["cube"], share * true, Refinement(cubic(4), cf.Certification(budget=budget))
        )["cube"]
        assert verdict.decision == decision
        assert abs(verdict.score - true) <= verdict.margin
        assert verdict.bound.certificate.kind == "estimated"
        assert (verdict.level > 0) == (decision == "relevant")
    assert "budget" in verdict.reason


def test_finer_levels_of_a_steady_problem_stay_on_the_branch_of_the_given_one():
    """Bistable, from a start between two branches: on this mesh Newton's method finds one of
    them, on finer meshes the other.
    """
    library = cf.Library(
        terms={"lap": lap(u), "bistable": u - u**3, "tilt": sp.Integer(1)}, unknown=u
    )
    coefficients = {"lap": 0.01, "bistable": 1.0, "tilt": 0.02}

    def model(cells):
        experiment = cf.Experiment(
            mesh=mesh.create_unit_interval(MPI.COMM_SELF, cells),
            elements={u: ("Lagrange", 1)},
            boundary=[cf.Dirichlet(u, 0)],
            initial={u: sp.sin(3 * sp.pi * x) / 10},
        )
        return cf.Model(library, coefficients, experiment)

    def total(one):
        return one.measurement(cf.Integral(u)).value(one.factual)

    given = model(8)
    assert total(given) > 0 > total(model(16)), "the start no longer shows that levels can part"
    for way in ("mesh", "degree"):
        totals = [total(Ladder(given, way).model(level)) for level in range(3)]
        assert min(totals) > 0
        assert abs(totals[2] - totals[1]) < abs(totals[1] - totals[0])
