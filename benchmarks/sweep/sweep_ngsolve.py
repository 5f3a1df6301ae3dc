# SPDX-License-Identifier: MIT
"""One factual solve of the problems of `cffem bench sweep` by NGSolve, beside the same solve in
DOLFINx and in cffem.

The mesh is the same cell by cell, the elements span the same space and the time steps are the same,
so that what differs is the assembly and the linear solver. NGSolve's wheel comes with UMFPACK and a
sparse Cholesky factorisation of its own, and with Jacobi and Gauss–Seidel smoothers for GMRES; it
has neither MUMPS nor an incomplete factorisation. The fastest of what it has is taken. Errors are
against one reference on a mesh and with time steps half as large, at points that are no nodes of
any of the meshes. Everything runs in one thread.
"""

from __future__ import annotations

import importlib.util
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from time import process_time
from typing import Any

import numpy as np

from benchmarks.sweep.sweep_problems import PROBLEMS, Problem

MISSING = "NGSolve is not installed here: pip install ngsolve (containers/run pip install ngsolve)"
# Relative residual of the iterative solver, as for GMRES with ILU by hand, and of Newton's method.
TOLERANCE, NEWTON = 1e-8, 1e-9
GMRES = "GMRES+Gauss–Seidel"
MOST_LU = 40_000
POINTS = 400
# One problem of each class; the other transient one in the plane costs the same.
CLASSES = ("transient", "transient-3d", "maxwell", "nonlinear", "steady")
# Cells per side and time steps that only show that everything runs.
TINY = {
    "transient": (8, 6),
    "constant": (8, 6),
    "transient-3d": (4, 4),
    "maxwell": (4, 6),
    "nonlinear": (8, 4),
    "steady": (8, 0),
}


def installed() -> bool:
    """Whether NGSolve can be imported."""
    return importlib.util.find_spec("ngsolve") is not None


def terms_of(ng: Any) -> dict[str, Callable[[Any, Any, Any, Any], Any]]:
    """The terms of all problems in NGSolve's language, as functions of (u, its derivative, v,
    the derivative of v).
    """
    x, y, z = ng.x, ng.y, ng.z
    return {
        "u": lambda u, du, v, dv: u * v,
        "u_x": lambda u, du, v, dv: du[0] * v,
        "u_y": lambda u, du, v, dv: du[1] * v,
        "u_z": lambda u, du, v, dv: du[2] * v,
        "lap": lambda u, du, v, dv: -du * dv,
        "xu": lambda u, du, v, dv: x * u * v,
        "yu_x": lambda u, du, v, dv: y * du[0] * v,
        "xu_y": lambda u, du, v, dv: x * du[1] * v,
        "turn": lambda u, du, v, dv: (y * du[0] - x * du[1]) * v,
        "lap+u": lambda u, du, v, dv: u * v - du * dv,
        "graded": lambda u, du, v, dv: -(1 + x) * du * dv,
        "yyu": lambda u, du, v, dv: y**2 * u * v,
        "cubic": lambda u, du, v, dv: u**3 * v,
        "square": lambda u, du, v, dv: u**2 * v,
        "burgers": lambda u, du, v, dv: u * du[0] * v,
        "curlcurl": lambda u, du, v, dv: du * dv,
        "E": lambda u, du, v, dv: u * v,
        "xE": lambda u, du, v, dv: x * u * v,
        "yE": lambda u, du, v, dv: y * u * v,
        "zE": lambda u, du, v, dv: z * u * v,
        "zzE": lambda u, du, v, dv: z**2 * u * v,
        "xyE": lambda u, du, v, dv: x * y * u * v,
        "yyE": lambda u, du, v, dv: y**2 * u * v,
    }


def start_of(problem: Problem, ng: Any) -> Any:
    """The initial value, or the forcing of a steady problem."""
    import sympy as sp

    from cffem.symbols.coordinates import SPACE

    given = sp.lambdify(SPACE, problem.start_symbols, [{"sin": ng.sin, "pi": math.pi}])(
        ng.x, ng.y, ng.z
    )
    return ng.CF(tuple(given)) if isinstance(given, tuple) else given


def mesh_of(problem: Problem, n: int, comm: Any) -> Any:
    """The mesh of a problem for NGSolve: the points and cells of DOLFINx."""
    import ngsolve as ng
    from dolfinx.mesh import entities_to_geometry, exterior_facet_indices
    from netgen.meshing import FaceDescriptor, Mesh

    domain, dimension = problem.mesh(n, comm), problem.dimension
    points, cells = domain.geometry.x, np.asarray(domain.geometry.dofmap, dtype=np.int32).copy()
    edges = (points[cells[:, 1:]] - points[cells[:, :1]])[:, :, :dimension]
    mirrored = np.linalg.det(edges) < 0
    cells[mirrored, :2] = cells[mirrored, 1::-1]
    domain.topology.create_connectivity(dimension - 1, dimension)
    facets = entities_to_geometry(domain, dimension - 1, exterior_facet_indices(domain.topology))
    mesh = Mesh(dim=dimension)
    mesh.AddPoints(np.ascontiguousarray(points))
    mesh.Add(FaceDescriptor(surfnr=1, domin=1, bc=1))
    mesh.AddElements(dim=dimension, index=1, data=np.ascontiguousarray(cells), base=0)
    mesh.AddElements(
        dim=dimension - 1, index=1, data=np.ascontiguousarray(facets, dtype=np.int32), base=0
    )
    return ng.Mesh(mesh)


class Solve:
    """The factual problem in NGSolve.

    Args:
        problem: the problem.
        n: cells per side.
        steps: time steps.
        comm: the communicator of the mesh, of one process.

    Attributes:
        seconds: processor time of the last solve, by part.
        state: the solution at the end.
    """

    def __init__(self, problem: Problem, n: int, steps: int, comm: Any):
        import ngsolve as ng

        self.ng, self.problem, self.steps = ng, problem, steps
        self.mesh = mesh_of(problem, n, comm)
        # NGSolve's Nédélec elements of the lowest order are those that DOLFINx calls first.
        edge = problem.element[0] == "N1curl"
        self.space = (
            ng.HCurl(self.mesh, order=0, dirichlet=".*")
            if edge
            else ng.H1(self.mesh, order=2, dirichlet=".*")
        )
        self.u, self.v = self.space.TnT()
        self.derivative = ng.curl if edge else ng.grad
        self.state = ng.GridFunction(self.space)
        self.seconds: dict[str, float] = {}
        self.iterations = 0
        # The order of the forms alone decides symmetry: reactions and curl–curl have it, advection
        # has not.
        self.symmetric = edge

    def operator(self, u: Any) -> Any:
        """Σ α_j T_j[u] tested with v, under the integral."""
        terms = terms_of(self.ng)
        du, dv = self.derivative(u), self.derivative(self.v)
        return sum(
            value * terms[name](u, du, self.v, dv)
            for name, value in self.problem.coefficients.items()
        )

    def solvers(self) -> list[str]:
        """What the wheel offers for this problem; factors of many unknowns in space take too
        much memory.
        """
        direct = "sparsecholesky" if self.symmetric else "umfpack"
        return (
            [GMRES]
            if self.problem.dimension == 3 and self.space.ndof > MOST_LU
            else [direct, GMRES]
        )

    def run(self, solver: str) -> None:
        """Assemble, factorise and march."""
        ng, start = self.ng, process_time()
        self.iterations = 0
        self.state.vec[:] = 0.0
        if self.problem.order:
            self.state.Set(start_of(self.problem, ng), dual=True)
        if self.problem.nonlinear:
            self.seconds = self._newton(solver)
            return
        gamma = self.problem.end / self.steps / 2 if self.steps else 1.0
        factor = gamma**-self.problem.order if self.steps else 0.0
        matrix = ng.BilinearForm(self.space, symmetric=self.symmetric)
        matrix += (factor * self.u * self.v - self.operator(self.u)).Compile() * ng.dx
        matrix.Assemble()
        mass = ng.BilinearForm(self.u * self.v * ng.dx, symmetric=self.symmetric)
        if self.problem.order:
            mass.Assemble()
        assembled = process_time()
        inverse = self._inverse(matrix.mat, solver)
        factorised = process_time()
        if self.problem.order:
            self._march(inverse, mass.mat, gamma)
        else:
            right = ng.LinearForm(start_of(self.problem, ng) * self.v * ng.dx).Assemble()
            self.state.vec.data = inverse(right.vec)
        end = process_time()
        self.seconds = {
            "assembly": assembled - start,
            "factorisation": factorised - assembled,
            "march": end - factorised,
        }

    def _inverse(self, matrix: Any, solver: str) -> Callable[[Any], Any]:
        """x ↦ A⁻¹x on the free unknowns, zero on the others."""
        free = self.space.FreeDofs()
        if solver == GMRES:
            smoother, krylov = matrix.CreateSmoother(free, GS=True), self.ng.la.GMRESSolver
            inner = krylov(mat=matrix, pre=smoother, printrates=False, tol=TOLERANCE, maxiter=500)

            def iterate(right: Any) -> Any:
                result = inner * right
                self.iterations += inner.GetSteps()
                return result

            return iterate
        factors = matrix.Inverse(free, inverse=solver)
        return lambda right: factors * right

    def _march(self, inverse: Callable[[Any], Any], mass: Any, gamma: float) -> None:
        """Crank–Nicolson, or Newmark's average acceleration: a solve for the middle of each
        step.
        """
        state = self.state.vec
        work, right, middle, speed = (state.CreateVector() for _ in range(4))
        speed[:] = 0.0
        for _ in range(self.steps):
            work.data = (1.0 / gamma) * state
            if self.problem.order == 2:
                work.data += speed
                work.data *= 1.0 / gamma
            right.data = mass * work
            middle.data = inverse(right)
            if self.problem.order == 2:
                speed.data *= -1.0
                speed.data += (2.0 / gamma) * middle
                speed.data -= (2.0 / gamma) * state
            state.data *= -1.0
            state.data += 2.0 * middle

    def _newton(self, solver: str) -> dict[str, float]:
        """The midpoint rule with Newton's method in every step; the seconds of assembly,
        factorisations and the rest.
        """
        ng, dt, start = self.ng, self.problem.end / self.steps, process_time()
        assembly = factorisation = 0.0
        old = ng.GridFunction(self.space)
        middle = 0.5 * (self.u + old)
        du, dv, terms = 0.5 * (ng.grad(self.u) + ng.grad(old)), ng.grad(self.v), terms_of(ng)
        right = sum(
            value * terms[name](middle, du, self.v, dv)
            for name, value in self.problem.coefficients.items()
        )
        residual = ng.BilinearForm(self.space)
        residual += ((self.u - old) * self.v - dt * right).Compile() * ng.dx
        defect, free = self.state.vec.CreateVector(), self.space.FreeDofs()
        projector = ng.Projector(free, True)
        for _ in range(self.steps):
            old.vec.data, first = self.state.vec, 0.0
            for _ in range(12):
                begin = process_time()
                residual.Apply(self.state.vec, defect)
                projector.Project(defect)
                size = ng.Norm(defect)
                first = first or size
                if size <= NEWTON * first or size < 1e-14:
                    break
                residual.AssembleLinearization(self.state.vec)
                assembled = process_time()
                inverse = self._inverse(residual.mat, solver)
                factorised = process_time()
                self.state.vec.data -= inverse(defect)
                assembly, factorisation = (
                    assembly + assembled - begin,
                    factorisation + factorised - assembled,
                )
        march = process_time() - start - assembly - factorisation
        return {"assembly": assembly, "factorisation": factorisation, "march": march}

    def sampled(self, points: np.ndarray) -> np.ndarray:
        """The solution at the end at some points."""
        return np.asarray(self.state(self.mesh(*points.T[: self.problem.dimension]))).reshape(
            len(points), -1
        )


def sample_points(dimension: int) -> np.ndarray:
    """Points without structure in the box, the same for everybody."""
    points = np.zeros((POINTS, 3))
    points[:, :dimension] = np.random.default_rng(1).uniform(0.02, 0.98, (POINTS, dimension))
    return points


def sampled(function: Any, points: np.ndarray) -> np.ndarray:
    """A function of DOLFINx at some points."""
    from dolfinx import geometry

    mesh = function.function_space.mesh
    tree = geometry.bb_tree(mesh, mesh.topology.dim)
    found = geometry.compute_colliding_cells(
        mesh, geometry.compute_collisions_points(tree, points), points
    )
    cells = np.array([found.links(k)[0] for k in range(len(points))], dtype=np.int32)
    return function.eval(points, cells).reshape(len(points), -1)


def by_cffem(
    problem: Problem, n: int, steps: int, comm: Any, points: np.ndarray, options: Mapping[str, Any]
) -> dict[str, Any]:
    """cffem's factual solve: seconds from the mesh to the solution, and its values."""
    start = process_time()
    with problem.model(n, steps, comm, petsc_options=dict(options)) as model:
        factual = model.factual
        seconds = process_time() - start
        return {
            "seconds": seconds,
            "unknowns": model.spaces.size,
            "values": sampled(factual.function(), points),
        }


def by_hand(problem: Problem, n: int, steps: int, comm: Any) -> tuple[str, float]:
    """The solver and the seconds of the faster factual solve in DOLFINx, after its set-up:
    the unit of the benchmark.
    """
    from benchmarks.sweep.sweep_by_hand import SOLVERS, Study

    study, found = Study(problem, n, steps, comm), {}
    for name in [
        name
        for name in SOLVERS
        if name != "LU" or problem.dimension == 2 or study.unknowns <= MOST_LU
    ]:
        start = process_time()
        study.solve(name)
        found[name] = process_time() - start
    return min(found.items(), key=lambda pair: pair[1])


def measure(
    name: str, n: int, steps: int, comm: Any, repeats: int = 2, reference: bool = True
) -> dict[str, Any]:
    """One problem of one size: NGSolve, the solve by hand and cffem, each with its seconds.

    Args:
        name: one of `PROBLEMS`.
        n: cells per side.
        steps: time steps.
        comm: the communicator, of one process.
        repeats: how often each is measured; the least counts.
        reference: whether errors are measured, against a solution with half the mesh size and time
            step.
    """
    import ngsolve as ng

    ng.SetNumThreads(1)
    problem = PROBLEMS[name]()
    points = sample_points(problem.dimension)
    hand, unit = min(
        (by_hand(problem, n, steps, comm) for _ in range(repeats)), key=lambda pair: pair[1]
    )
    options = {} if hand == "LU" or problem.nonlinear else {"preset": "ilu", "ksp_rtol": TOLERANCE}
    ours = by_cffem(problem, n, steps, comm, points, options)
    finer = (
        by_cffem(problem, 2 * n, 2 * steps, comm, points, options)["values"] if reference else None
    )
    theirs: dict[str, Any] = {}
    solve = Solve(problem, n, steps, comm)
    for solver in solve.solvers():
        runs = []
        for _ in range(repeats):
            solve.run(solver)
            runs.append({**solve.seconds, "seconds": sum(solve.seconds.values())})
        found = solve.sampled(points)
        far = {"difference": relative(found, ours["values"]), "error": relative(found, finer)}
        theirs[solver] = {
            **min(runs, key=lambda run: run["seconds"]),
            "iterations": solve.iterations,
            **far,
        }
    best = min(theirs, key=lambda solver: theirs[solver]["seconds"])
    return {
        "problem": name,
        "title": problem.title,
        "unknowns": ours["unknowns"],
        "steps": steps,
        "NGSolve": theirs,
        "fastest": best,
        "by hand": {"solver": hand, "seconds": unit},
        "cffem": {"seconds": ours["seconds"], "error": relative(ours["values"], finer)},
        "ratio": theirs[best]["seconds"] / unit,
    }


def relative(values: np.ndarray, reference: np.ndarray | None) -> float | None:
    """How far values are from others, relative to those; None without any."""
    return (
        None
        if reference is None
        else float(np.linalg.norm(values - reference) / np.linalg.norm(reference))
    )


def run(
    comm: Any, tiny: bool = False, problems: Sequence[str] = CLASSES, large: bool = False
) -> dict[str, Any]:
    """All problems, or why there are none.

    Args:
        comm: the communicator, of one process.
        tiny: sizes that only show that everything runs.
        problems: which of them.
        large: the larger sizes too, without a reference, which would not be cheap.
    """
    if not installed():
        return {"skipped": MISSING}
    import ngsolve

    rows = [
        measure(name, *(TINY[name] if tiny else PROBLEMS[name]().sizes[0]), comm)
        for name in problems
    ]
    if large and not tiny:
        rows += [measure(name, *PROBLEMS[name]().sizes[1], comm, 1, False) for name in problems]
    return {"version": ngsolve.__version__, "rows": rows}


INTRODUCTION = """NGSolve {version} from PyPI on the same mesh, with the same elements and time
steps, in one thread, processor seconds; beside it the unit of this page, the factual solve by
hand in DOLFINx, and cffem's own from mesh to solution. *Difference*: from cffem's solution at
the end, relative, at points. *Errors*: from a solution with half the mesh size and time step,
likewise. The wheel has UMFPACK (or for symmetric matrices a sparse Cholesky factorisation) and
Gauss–Seidel smoothers, but neither MUMPS nor ILU."""
HEAD = (
    "problem",
    "unknowns × steps",
    "NGSolve",
    "assembly",
    "factorisation",
    "march",
    "by hand",
    "NGSolve / by hand",
    "cffem",
    "difference",
    "error, NGSolve",
    "error, cffem",
)
PARTS = ("assembly", "factorisation", "march")


def section(result: Mapping[str, Any]) -> str:
    """The result as a section of the page."""
    lines = ["## NGSolve, one factual solve", ""]
    if "skipped" in result:
        return "\n".join([*lines, result["skipped"] + ".", ""])
    lines += [*textwrap.wrap(INTRODUCTION.format(version=result["version"]), 120), ""]
    lines += ["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
    for row in result["rows"]:
        unit, ours = row["by hand"], row["cffem"]
        for solver, one in row["NGSolve"].items():
            cells = [
                row["title"],
                f"{row['unknowns']} × {row['steps'] or 1}",
                f"{one['seconds']:.2f} s, {solver}",
            ]
            cells += [f"{one[part]:.2f}" for part in PARTS]
            cells += [
                f"{unit['seconds']:.2f} s, {unit['solver']}",
                f"{one['seconds'] / unit['seconds']:.2f}",
            ]
            cells += [f"{ours['seconds']:.2f} s", f"{one['difference']:.1e}"]
            cells += [
                "" if error is None else f"{error:.1e}" for error in (one["error"], ours["error"])
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *(_cost(row) for row in result["rows"]), ""])


def _cost(row: Mapping[str, Any]) -> str:
    """What costs the difference, as a sentence, from the numbers."""
    best = row["NGSolve"][row["fastest"]]
    part = max(PARTS, key=lambda each: best[each])
    who, factor = (
        ("NGSolve", 1 / row["ratio"]) if row["ratio"] < 1 else ("DOLFINx by hand", row["ratio"])
    )
    share = f"{best[part] / best['seconds']:.0%} of NGSolve's time is its {part} ({row['fastest']})"
    return (
        f"- {row['title']}, {row['unknowns']} unknowns: {who} is faster by {factor:.1f}×; {share}."
    )
