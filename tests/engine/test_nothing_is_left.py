"""A result depends on nothing but the problem: not on what failed before it, on the order of
terms, or on the number of ranks.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx.mesh import create_unit_square
from mpi4py import MPI
from petsc4py import PETSc
from scipy import sparse
from solver_problems import poisson, stokes

import cffem as cf
from cffem import x, y
from cffem.engine.solve import factorisation, presets
from cffem.engine.solve.factorisation import Factors, failure, sound

COMM = MPI.COMM_SELF
u, q, v, p = (
    cf.VectorField("u", dim=2),
    cf.ScalarField("q"),
    cf.VectorField("v", dim=2),
    cf.ScalarField("p"),
)


def porous(comm=COMM, size=0.2):
    """A channel with a porous lower half: plain Stokes without the drag, without viscosity
    nothing moves the upper half.
    """
    library = cf.Library(
        terms={"visc": cf.lap(v), "darcy": -sp.Piecewise((1, y < 0.5), (0, True)) * v}, unknown=v
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.square(comm, size),
        elements={v: ("Lagrange", 2)},
        boundary=[
            cf.Dirichlet(v, (y * (1 - y), 0), on="left"),
            cf.Dirichlet(v, 0, on=("top", "bottom")),
            cf.Neumann(v, 0, on="right"),
        ],
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    return cf.Model(library, {"visc": 1.0, "darcy": 1e3}, experiment)


def compressible(comm=COMM):
    """Two coupled equations, of whose four deletions two are singular: one by its structure,
    one by a constant pressure.
    """
    system = cf.System(
        {
            u: cf.Library(terms={"mu": cf.lap(u), "press": -cf.grad(q)}, unknown=u),
            q: cf.Library(terms={"div": -cf.div(u), "compress": -q}, unknown=q),
        }
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.square(comm, 0.25),
        elements={u: ("Lagrange", 2), q: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: (0, -x)},
    )
    return cf.Model(
        system, dict.fromkeys(("u/mu", "u/press", "q/div", "q/compress"), 1.0), experiment
    )


@pytest.mark.parametrize("make", [porous, compressible])
def test_scores_and_failures_are_the_same_in_every_order_of_terms(make):
    with make() as model:
        names = model.active
    expected = {}
    for name in names:
        with make() as model:
            expected[name] = model.deletions([name])[name]
    assert {d.status for d in expected.values()} == {"solved", "unsolvable"}
    for order in itertools.islice(
        itertools.permutations(names), 0, None, 5 if len(names) > 2 else 1
    ):
        with make() as model:
            sweep = model.deletions(order)
        for name in names:
            assert sweep[name].status == expected[name].status
            assert sweep[name].cause == expected[name].cause
            assert sweep[name].score == pytest.approx(expected[name].score, rel=1e-11, nan_ok=True)


def test_a_failed_solve_leaves_a_model_as_it_was():
    with compressible() as model:
        before = model.factual.norm()
        without = model.solve(cf.delete("q/div")).norm()
        for _ in range(2):
            with pytest.raises(cf.SolveError, match="no unique solution"):
                model.solve(cf.delete("u/mu"))
            assert model.solve(cf.delete("q/div")).norm() == pytest.approx(without, rel=1e-12)
            assert model.solve().norm() == pytest.approx(before, rel=1e-12)


def test_a_matrix_that_is_singular_is_called_so_and_why():
    """MUMPS asks for more and more workspace here, where pivot after pivot is put off."""
    with porous(size=0.12) as model:
        found = model.deletions(["visc"])["visc"]
    assert found.cause == "singular"
    assert "unknowns appear in no equation that could determine them" in found.reason


def test_a_study_says_the_same_as_its_model():
    with porous() as model:
        expected = model.deletions()
        certification = cf.Certification(epsilon=1e-2, relative=True)
        report = cf.Study(
            model.library,
            model.experiment,
            coefficients=model.coefficients,
            certification=certification,
        ).run()
    # Without all of its viscosity the flow has no solution, so a part is taken away.
    visc = report.terms["visc"]
    assert expected["visc"].status == "unsolvable"
    assert (visc.decision, visc.code) == ("relevant", "deletion-in-part")
    assert 0 < visc.share < 1
    assert expected["visc"].reason in visc.profile["reason"], visc
    assert report.terms["darcy"].decision == "relevant"
    assert report.terms["darcy"].deletion == pytest.approx(expected["darcy"].score, rel=1e-11)


def test_an_error_inside_newton_arrives_as_what_it_is():
    """The walls carry a net flux, which is found when the first residual of the nonlinear
    flow is made.
    """
    library = cf.Library(terms={"lap": cf.lap(v), "adv": -cf.dot(cf.grad(v), v)}, unknown=v)
    experiment = cf.Experiment(
        mesh=cf.mesh.square(COMM, 0.3),
        elements={v: ("Lagrange", 2)},
        boundary=[
            cf.Dirichlet(v, (y * (1 - y), 0), on="left"),
            cf.Dirichlet(v, 0, on=("top", "bottom", "right")),
        ],
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    with pytest.raises(cf.InputError, match="carry a net flux of"):
        cf.Model(library, {"lap": 1.0, "adv": 1.0}, experiment).solve()


def told(comm):
    """What becomes of the deletions of both problems."""
    found = {}
    for make in (porous, compressible):
        with make(comm) as model:
            found |= {name: (d.status, d.cause, d.score) for name, d in model.deletions().items()}
    return found


def compare_with_one_rank(comm):
    """Prints what these ranks find."""
    found = told(comm)
    if comm.rank == 0:
        print("FOUND", json.dumps(found))


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_the_same_deletions_are_unsolvable_on_several_ranks(on_ranks, ranks):
    expected = told(COMM)
    line = next(
        line for line in on_ranks(ranks, compare_with_one_rank).splitlines() if "FOUND" in line
    )
    found = json.loads(line.split("FOUND", 1)[1])
    for name, (status, cause, score) in expected.items():
        assert found[name][:2] == [status, cause]
        assert found[name][2] == pytest.approx(score, rel=1e-10, nan_ok=True)


# One helper for factors
# --------------------------------------------------------------------------------------------------


class FakeSolver:
    """A solver whose factorisation ends with a number of MUMPS."""

    def __init__(self, code):
        self.code, self.freed = code, False

    def getPC(self):
        factors = SimpleNamespace(getMumpsInfog=lambda _: self.code)
        return SimpleNamespace(
            getType=lambda: "lu",
            getFactorSolverType=lambda: "mumps",
            getFactorMatrix=lambda: factors,
        )

    def destroy(self):
        self.freed = True


def attempts(*codes):
    made, asked = [], []

    def create(percentage):
        asked.append(percentage)
        made.append(FakeSolver(codes[len(made)]))
        return made[-1]

    return create, made, asked


@pytest.fixture
def regular():
    with poisson(COMM, 4) as model:
        model.solve()
        yield model.equation.jacobian((1.0, 0.0, 0.0), (None, None, None), 0.0)


@pytest.mark.parametrize("code", [-9, -8, -17, -20])
def test_too_little_workspace_is_cured_by_more_on_a_solver_of_its_own(regular, code):
    create, made, asked = attempts(code, code, 0)
    assert sound(create, regular, "it") is made[2]
    assert asked == [60, 200, 1000]
    assert [solver.freed for solver in made] == [True, True, False]


def delaying(size=1000):
    """A saddle point whose pivots are put off again and again, so that factors outgrow what
    the analysis foresees.
    """
    upper = sparse.random(size, size, density=3 / size, random_state=2)
    lower = sparse.random(size // 3, size, density=4 / size, random_state=3)
    rows = sparse.bmat([[1e-6 * (upper + upper.T), lower.T], [lower, None]]) + 1e-14 * sparse.eye(
        size + size // 3
    )
    csr = sparse.csr_matrix(rows)
    csr.sort_indices()
    return PETSc.Mat().createAIJ(
        csr.shape,
        csr=(csr.indptr.astype("int32"), csr.indices.astype("int32"), csr.data),
        comm=COMM,
    )


def test_a_matrix_that_outgrows_its_workspace_is_factorised_with_more(monkeypatch):
    """MUMPS itself ends with -9 at first: without scaling and permutation, 60 % more than the
    analysis foresees is too little.
    """
    matrix, codes = delaying(), []
    monkeypatch.setattr(
        factorisation, "failure", lambda found: codes.append(failure(found)) or codes[-1]
    )
    factors = Factors(matrix, "cholesky", {"mat_mumps_icntl_6": 0, "mat_mumps_icntl_8": 0})
    assert codes == [-9, None]
    right, solution, image = (matrix.createVecLeft() for _ in range(3))
    right.set(1.0)
    factors.solve(right, solution)
    matrix.mult(solution, image)
    assert (image - right).norm() < 1e-6 * right.norm()
    factors.destroy()


def test_a_model_whose_workspace_is_too_small_gets_more_and_the_same_scores(monkeypatch):
    """A user's own ICNTL(14) of -50 % is a real -9 in every factorisation; without more to be
    had that is what is said.
    """

    def scores(options=None):
        with stokes(COMM, 6, options) as model:
            return {
                "factual": model.factual.norm(),
                "drag": model.deletions(["drag"])["drag"].score,
            }

    small, codes = {"mat_mumps_icntl_14": -50}, []
    expected = scores()
    monkeypatch.setattr(
        factorisation, "failure", lambda found: codes.append(failure(found)) or codes[-1]
    )
    assert scores(small) == pytest.approx(expected, rel=1e-10)
    assert -9 in codes
    monkeypatch.setattr(
        factorisation, "WORKSPACE", replace(factorisation.WORKSPACE, percentages=(60,))
    )
    with pytest.raises(cf.SolveError, match="MUMPS asks for more than 60 % of workspace") as caught:
        scores(small)
    assert caught.value.cause == "workspace"


@pytest.mark.parametrize(
    ("code", "count", "cause", "words"),
    [
        (-10, 1, "singular", "no unique solution"),
        (-13, 1, "memory", "need more memory than there is"),
        (-9, 3, "workspace", "asks for more than 1000 % of workspace"),
        (-3, 1, "singular", "broke down"),
    ],
)
def test_failures_of_a_factorisation_are_told_apart(regular, code, count, cause, words):
    create, made, _ = attempts(*[code] * 3)
    with pytest.raises(cf.SolveError, match=words) as caught:
        sound(create, regular, "it")
    assert caught.value.cause == cause
    assert len(made) == count
    assert all(solver.freed for solver in made)


def test_factors_that_fail_are_an_error_and_never_solve(regular):
    regular.zeroEntries()
    with pytest.raises(cf.SolveError, match="no unique solution"):
        Factors(regular, "cholesky")


# Presets
# --------------------------------------------------------------------------------------------------


def test_a_preset_that_gives_way_for_one_deletion_has_its_chance_in_the_next(monkeypatch):
    """Without the Laplacian the preset takes incomplete factors; the others keep multigrid."""
    with poisson(COMM, 12, drift=1.0) as direct:
        expected = {name: d.score for name, d in direct.deletions(["u", "drift", "lap"]).items()}
    monkeypatch.setattr(presets, "DIRECT_LIMIT", dict.fromkeys((1, 2, 3), 0))
    with poisson(COMM, 12, {"ksp_max_it": 14}, drift=1.0) as model:
        for order in (["lap", "u", "drift"], ["u", "drift", "lap"], ["drift", "lap", "u"]):
            sweep = model.deletions(order)
            for name, score in expected.items():
                assert sweep[name].score == pytest.approx(score, rel=1e-7)
                assert sweep[name].record.solver == "amg"
        assert model.solve().record.solver == "amg"


def test_a_saddle_point_whose_preset_gives_way_leaves_nothing_to_the_next(monkeypatch):
    with stokes(COMM, 8, window=cf.Window(0, 0.5, steps=2)) as direct:
        expected = {name: d.score for name, d in direct.deletions().items()}
    monkeypatch.setattr(presets, "DIRECT_LIMIT", dict.fromkeys((1, 2, 3), 0))
    for order in (["lap", "drag"], ["drag", "lap"]):
        with stokes(COMM, 8, {"ksp_max_it": 40}, window=cf.Window(0, 0.5, steps=2)) as model:
            sweep = model.deletions(order)
            for name, score in expected.items():
                assert sweep[name].score == pytest.approx(score, rel=1e-6)


def beside_an_error(comm):
    """Meshes, models and solutions that go because of an error in the argument beside them."""

    def refused(*_):
        raise cf.InputError("what is wrong")

    def domain():
        square = create_unit_square(comm, 3, 3)
        return cf.mesh.named(square, cells={"west": lambda p: p[0] < 0.5})

    def model():
        experiment = cf.Experiment(
            mesh=domain(), elements={q: ("Lagrange", 1)}, boundary=[cf.Dirichlet(q, x)]
        )
        return cf.Model(cf.Library(terms={"lap": cf.lap(q)}, unknown=q), {"lap": 1.0}, experiment)

    for beside in (domain, model, lambda: model().solve(), lambda: replace(domain())):
        with pytest.raises(cf.InputError, match="what is wrong"):
            print(beside(), refused())
    print("all errors arrived")


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [1, 2])
def test_an_error_beside_a_mesh_arrives_as_what_it_is(on_ranks, ranks):
    """mpi4py hangs or crashes where a communicator is freed while an error is on its way."""
    assert on_ranks(ranks, beside_an_error).count("all errors arrived") == ranks
