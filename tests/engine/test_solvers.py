"""Linear solvers: singular matrices are found, presets agree with the direct solve, and their
iteration counts stay flat.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI
from petsc4py import PETSc
from solver_problems import curl_curl, poisson, stokes, u

import cffem as cf
from cffem.engine.assembly.ingredients import add
from cffem.engine.solve import presets
from cffem.engine.solve.linear import LinearSolver
from cffem.symbols.problem.interventions import Intervention

COMM = MPI.COMM_SELF
CLASSES = [
    (poisson, {"dim": 2, "degree": 2}, "amg"),
    (poisson, {"dim": 2, "drift": 20.0}, "amg"),
    (poisson, {"dim": 2, "drift": 20.0}, "ilu"),
    (curl_curl, {"dim": 2, "degree": 1}, "ams"),
    (curl_curl, {"dim": 2, "degree": 2}, "ams"),
    (stokes, {"viscosity": 0.01}, "stokes"),
]


def neumann(n, degree, reaction):
    """−Δu + reaction · u = cos(πx)-like data with natural conditions: singular without
    reaction, its data compatible.
    """
    from dolfinx import mesh

    library = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(COMM, n, n),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Neumann(u, 0)],
        forcing={u: cf.x - 0.5},
    )
    return cf.Model(library, {"lap": 1.0, "u": -reaction}, experiment)


# Singular matrices
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "degree"), [(8, 1), (8, 3), (64, 2)]
)  # the largest has no vanishing pivot, only a condition
def test_a_singular_deletion_is_unsolvable_although_its_data_are_compatible(n, degree):
    with neumann(n, degree, reaction=1.0) as model:
        sweep = model.deletions(["u", "lap"])
        assert sweep["u"].status == "unsolvable"
        assert "singular" in sweep["u"].reason
        assert sweep["lap"].status == "solved"
        # The failed deletion leaves nothing behind: the factual problem is solved as before.
        assert model.solve().distance(model.factual) <= 1e-12 * model.factual.norm()


@pytest.mark.parametrize("degree", [1, 2])
def test_a_nearly_singular_matrix_is_not_refused(degree):
    """With reaction ε the solution is that of the singular problem with mean zero, up to O(ε)."""
    with neumann(16, degree, reaction=1e-7) as model, neumann(16, degree, reaction=1e-5) as other:
        assert model.solve().norm() == pytest.approx(other.solve().norm(), rel=1e-4)


def test_curl_curl_without_mass_is_singular_for_the_direct_solve_and_solvable_by_ams():
    with (
        curl_curl(COMM, 4, beta=0.0) as model,
        pytest.raises(cf.SolveError, match=r"singular \(27 of 604 pivots vanish\)"),
    ):
        model.solve()
    with curl_curl(COMM, 4, {"preset": "ams"}, beta=0.0) as model:
        assert model.solve().record.worst_residual <= 1e-9


def diagonal(entries):
    matrix = PETSc.Mat().createAIJ(len(entries), nnz=1, comm=PETSc.COMM_SELF)
    for i, entry in enumerate(entries):
        matrix.setValue(i, i, entry)
    matrix.assemble()
    return matrix


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([1.0, 0.0], "singular"),
        ([0.0, 0.0], "singular"),
        ([1.0, np.nan], "not finite"),
        ([np.inf, 1.0], "not finite"),
    ],
)
def test_bad_matrices_end_in_a_solve_error(entries, message):
    solver = LinearSolver(diagonal(entries))
    right, solution = solver.matrix.createVecLeft(), solver.matrix.createVecRight()
    right.set(1.0)
    with pytest.raises(cf.SolveError, match=message):
        solver.solve(right, solution)
    solver.destroy()


def test_scaling_of_rows_is_not_mistaken_for_singularity():
    solver = LinearSolver(diagonal(np.logspace(-12, 12, 40)))
    right, solution = solver.matrix.createVecLeft(), solver.matrix.createVecRight()
    right.set(1.0)
    assert solver.solve(right, solution) <= 1e-13
    right.array[3] = np.nan
    with pytest.raises(cf.SolveError, match="right-hand side that is not finite"):
        solver.solve(right, solution)
    solver.destroy()


def test_saddle_points_with_small_viscosity_are_not_called_singular():
    """MUMPS delays pivots there and runs out of the memory it had planned, which is no
    property of the matrix.
    """
    with stokes(COMM, 16, viscosity=1e-6) as model:
        assert model.solve().record.worst_residual <= 1e-9


# Presets
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "arguments", "preset"), CLASSES)
def test_presets_give_the_deletion_scores_of_the_direct_solve(make, arguments, preset):
    with (
        make(COMM, 10, **arguments) as direct,
        make(COMM, 10, {"preset": preset}, **arguments) as iterative,
    ):
        names = [name for name in direct.active if name not in ("lap", "mass")]
        exact, found = direct.deletions(names), iterative.deletions(names)
        assert iterative.factual.record.solver == preset
        assert direct.factual.record.solver == "direct"
        for name in names:
            assert found[name].score == pytest.approx(exact[name].score, rel=1e-6)


def test_floating_pressure_is_the_same_with_pinned_row_and_with_null_space():
    for window in (None, cf.Window(0, 0.1, steps=2)):
        with (
            stokes(COMM, 8, window=window) as direct,
            stokes(COMM, 8, {"preset": "stokes"}, window=window) as iterative,
        ):
            ours, theirs = direct.solve(), iterative.solve()
            scale = np.abs(ours.states[-1]).max()
            assert np.abs(ours.states[-1] - theirs.states[-1]).max() <= 1e-7 * scale


def test_users_options_are_merged_over_the_preset():
    with poisson(COMM, 8, {"preset": "amg", "ksp_rtol": 1e-6}) as model:
        record = model.solve().record
        assert 1e-12 < record.worst_residual <= 1e-5
    with poisson(COMM, 8, {"ksp_type": "bcgs", "pc_type": "jacobi"}) as model:
        assert model.solve().record.solver == "own"
    assert not [key for key in PETSc.Options().getAll() if key.startswith("cffem")]


def test_presets_that_do_not_exist_or_do_not_fit_are_refused():
    with pytest.raises(cf.InputError, match="there is no solver preset 'amgg'"):
        poisson(COMM, 4, {"preset": "amgg"}).solve()
    with pytest.raises(cf.InputError, match="'ams' is for one field on Nédélec elements"):
        poisson(COMM, 4, {"preset": "ams"}).solve()


def test_a_named_solver_that_fails_is_an_error_and_an_automatic_one_gives_way(monkeypatch):
    """Δu + 200 u is indefinite: not for CG."""
    with (
        poisson(COMM, 12, {"preset": "amg", "ksp_type": "cg", "ksp_max_it": 5}, u=200.0) as named,
        pytest.raises(cf.SolveError, match="could not be solved by cg"),
    ):
        named.solve()
    with poisson(COMM, 12, u=200.0) as direct:
        expected = direct.solve().norm()
    monkeypatch.setattr(presets, "DIRECT_LIMIT", dict.fromkeys((1, 2, 3), 0))
    with poisson(COMM, 12, {"ksp_max_it": 3}, u=200.0) as model:
        solution = model.solve()
        assert "gave way" in solution.record.reasons[0]
        assert solution.norm() == pytest.approx(expected, rel=1e-9)
    with poisson(COMM, 12) as model:
        assert model.solve().record.solver == "amg"
    with curl_curl(COMM, 4, beta=0.0) as model, pytest.raises(cf.SolveError, match="singular"):
        model.solve()


def solve_on_ranks(comm):
    """Every preset and the direct solve on these ranks against the direct solve on one;
    singular matrices are found too.
    """
    for make, arguments, preset in CLASSES:
        with make(MPI.COMM_SELF, 6, **arguments) as alone:
            names = [name for name in alone.active if name not in ("lap", "mass")]
            expected, size = alone.deletions(names), alone.factual.norm()
        for options, tolerance in (({}, 1e-10), ({"preset": preset}, 1e-6)):
            with make(comm, 6, options, **arguments) as model:
                sweep = model.deletions(names)
                for name in names:
                    error = abs(sweep[name].score - expected[name].score)
                    assert error <= tolerance * expected[name].score + 1e-12 * size, (
                        make,
                        options,
                        name,
                        error,
                    )
    with curl_curl(comm, 2, beta=0.0) as model, pytest.raises(cf.SolveError, match="singular"):
        model.solve()


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_presets_and_direct_solves_agree_on_several_ranks(on_ranks, ranks):
    on_ranks(ranks, solve_on_ranks, timeout=240)


def more_ranks_than_cells(comm, folder):
    """Two cells on eight ranks: solve, store, restore and make rows."""
    from dolfinx import mesh

    library = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(comm, 1, 1),
        elements={u: ("Lagrange", 3)},
        boundary=[cf.Neumann(u, 0)],
        forcing={u: cf.x},
    )
    with cf.Model(library, {"lap": 1.0, "u": -1.0}, experiment) as model:
        assert comm.allreduce(int(model.spaces.owned == 0)) > 0
        sweep = model.deletions(["u", "lap"])
        assert sweep["u"].status == "unsolvable"
        assert abs(model.deletions(["lap"])["lap"].score - sweep["lap"].score) <= 1e-14
        model.factual.store(f"{folder}/u.npz")
        back = model.restore(f"{folder}/u.npz")
        assert back.distance(model.factual) <= 1e-14
        total = comm.allreduce(
            sum(float(block.weights.sum()) for block in back.rows(library, "strong"))
        )
        assert abs(total - 1.0) <= 1e-13


@pytest.mark.mpi
def test_ranks_without_cells_take_part(on_ranks, tmp_path):
    on_ranks(8, more_ranks_than_cells, str(tmp_path), timeout=240)


def iterations(make, n, preset, **arguments):
    with make(COMM, n, {"preset": preset, "ksp_rtol": 1e-8}, **arguments) as model:
        return model.spaces.size, model.solve().record.iterations


@pytest.mark.parametrize(
    ("make", "preset", "arguments", "sizes"),
    [
        (poisson, "amg", {"dim": 3}, (11, 26)),
        (curl_curl, "ams", {"dim": 3}, (6, 14)),
        (stokes, "stokes", {"dim": 2}, (14, 46)),
    ],
)
def test_iteration_counts_stay_flat(make, preset, arguments, sizes):
    (small, before), (large, after) = (iterations(make, n, preset, **arguments) for n in sizes)
    assert small <= 2100
    assert large >= 17_000
    assert after < 1.6 * before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "preset", "arguments", "sizes"),
    [
        (poisson, "amg", {"dim": 3}, (16, 53)),
        (poisson, "amg", {"dim": 2, "degree": 2}, (35, 194)),
        (curl_curl, "ams", {"dim": 3}, (8, 28)),
        (curl_curl, "ams", {"dim": 3, "degree": 2}, (5, 15)),
        (stokes, "stokes", {"dim": 2}, (23, 130)),
        (stokes, "stokes", {"dim": 3}, (5, 18)),
    ],
)
def test_iteration_counts_stay_flat_up_to_150000_unknowns(make, preset, arguments, sizes):
    (small, before), (large, after) = (iterations(make, n, preset, **arguments) for n in sizes)
    print(
        f"{make.__name__} {arguments}: {small} unknowns {before} iterations, {large} unknowns "
        f"{after}"
    )
    assert small <= 6500
    assert large >= 148_000 or (arguments == {"dim": 3, "degree": 2} and large >= 100_000)
    assert after < 1.6 * before


# Reuse
# --------------------------------------------------------------------------------------------------


def test_deletions_refactorise_in_place_with_one_symbolic_analysis():
    PETSc.Log.begin()
    symbolic, numeric = PETSc.Log.Event("MatLUFactorSym"), PETSc.Log.Event("MatLUFactorNum")
    before = [event.getPerfInfo()["count"] for event in (symbolic, numeric)]
    with poisson(COMM, 8, drift=1.0) as model:
        model.deletions(conditions="kept")
        model.deletions(conditions="kept")
    after = [event.getPerfInfo()["count"] for event in (symbolic, numeric)]
    assert after[0] - before[0] == 1
    assert after[1] - before[1] >= 7


def test_transposed_solves_of_every_kind_have_true_residuals():
    rng = np.random.default_rng(3)
    for options in ({}, {"preset": "amg"}, {"preset": "ilu"}):
        with poisson(COMM, 8, options, drift=15.0) as model:
            model.solve()
            solver = model.prepared(Intervention(), model.record).solver
            right, solution = solver.matrix.createVecLeft(), solver.matrix.createVecRight()
            right.array[:] = rng.standard_normal(right.getLocalSize())
            assert solver.solve_transpose(right, solution) <= 1e-9
            image = solver.matrix.createVecRight()
            solver.matrix.multTranspose(solution, image)
            image.axpy(-1.0, right)
            assert image.norm() <= 1e-9 * right.norm()


def test_options_that_no_solver_reads_are_told(caplog):
    u = cf.ScalarField("u")
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, 0.5),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1},
    )
    library = cf.Library(terms={"lap": cf.lap(u)}, unknown=u)
    for options in (
        {"ksp_type": "cg", "pc_type": "jacobi", "ksp_rtol": 1e-12},
        {"ksp_type": "cg", "ksp_rrtol": 1e-12},
    ):
        cf.Model(library, {"lap": 1.0}, experiment, options).solve()
    assert [record.getMessage().split()[3] for record in caplog.records] == ["ksp_rrtol"]


def test_an_option_that_petsc_does_not_know_is_told_in_its_words():
    u = cf.ScalarField("u")
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, 0.5),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1},
    )
    model = cf.Model(
        cf.Library(terms={"lap": cf.lap(u)}, unknown=u),
        {"lap": 1.0},
        experiment,
        {"ksp_type": "nonsense"},
    )
    with pytest.raises(
        cf.SolveError,
        match=r"by the solver of the given options \(PETSc error 86: .*KSP type nonsense\)",
    ):
        model.solve()


def test_the_preset_for_time_steps_gives_way_where_incomplete_factors_fail():
    library = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u), "u": u})
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.2),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: cf.x * (1 - cf.x) * cf.y * (1 - cf.y)},
        time=cf.Window(0, 0.1, steps=3),
    )
    exact = cf.Model(library, {"lap": 1.0, "u": 0.5}, experiment)
    for options, way in (({}, "ilu"), ({"ksp_max_it": 1}, "direct")):
        model = cf.Model(
            library,
            {"lap": 1.0, "u": 0.5},
            experiment,
            petsc_options={"preset": "marching", **options},
        )
        assert model.factual.norm() == pytest.approx(exact.factual.norm(), rel=1e-8)
        assert model.factual.record.solver == way


def check_sum_of_patterns(comm):
    """The identity plus twice a shift has as many entries as either, in other places."""
    shifted = []
    for shift in (0, 3):
        matrix = PETSc.Mat().createAIJ((8, 8), nnz=2, comm=comm)
        for row in range(*matrix.getOwnershipRange()):
            matrix.setValue(row, (row + shift) % 8, 1.0)
        matrix.assemble()
        shifted.append(matrix)
    add(shifted[0], 2.0, shifted[1])
    values, image = shifted[0].createVecs()
    rows = np.arange(*values.getOwnershipRange())
    values.setArray(rows.astype(float))
    shifted[0].mult(values, image)
    assert image.array_r == pytest.approx(rows + 2 * ((rows + 3) % 8))


def test_matrices_with_as_many_entries_in_other_places_are_added():
    check_sum_of_patterns(MPI.COMM_SELF)


@pytest.mark.mpi
def test_matrices_with_as_many_entries_in_other_places_are_added_on_two_ranks(on_ranks):
    on_ranks(2, check_sum_of_patterns)
