# SPDX-License-Identifier: MIT
"""`cffem bench projection`: what one projection onto a constraint class costs, in units of one
scalar Poisson solve.

The projection is built once; what is measured is one projection of a field after that (processor
time, one process, the least of several), and beside it the set-up. The unit is the scalar Poisson
problem on the same mesh with Lagrange elements of the degree of the field, zero on the boundary,
with a smooth source, to a relative residual of 1e-13: by conjugate gradients with BoomerAMG and,
for comparison, by Cholesky factors that are kept. Every projection is checked: P² = P, P w ⊥ (I −
P) w, and the constraint itself.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import bench_parser, machine, timed
from cffem.symbols.fields import VectorField

TOLERANCE = 1e-13
IDENTITIES = 1e-12
MOST_POISSON, MOST_GROWTH, FLAT = 3.0, 2.4, 1.3
REPEATS = 5
CHOLESKY = {"ksp_type": "preonly", "pc_type": "cholesky", "pc_factor_mat_solver_type": "mumps"}


@dataclass(frozen=True)
class ProjectionCase:
    """A space, and cells per side for about 20 000, 100 000 and 300 000 unknowns.

    Attributes:
        degree: of the field, and of the Poisson problem that is the unit.
        paired: of the Lagrange space in the same discrete complex, for Taylor–Hood fields that of
            the pressure.
    """

    title: str
    dimension: int
    element: tuple[str, int]
    degree: int
    paired: int
    sizes: tuple[int, int, int]

    @property
    def field(self) -> VectorField:
        """The field that is projected."""
        return VectorField("w", dim=self.dimension)

    def mesh(self, n: int, comm: Any) -> Any:
        """The unit square or cube with n cells per side, cut into simplices."""
        from dolfinx.mesh import create_unit_cube, create_unit_square

        return (
            create_unit_square(comm, n, n)
            if self.dimension == 2
            else create_unit_cube(comm, n, n, n)
        )

    def projection(self, mesh: Any, options: Any) -> Any:
        """Onto divergence-free fields, with the natural essential condition of the space on
        the whole boundary.
        """
        from cffem.constraints.projections.choose import projection
        from cffem.symbols.problem.conditions import Dirichlet, Tangential
        from cffem.symbols.problem.constraint_classes import DivergenceFree

        condition = Tangential if self.element[0].endswith("curl") else Dirichlet
        return projection(
            DivergenceFree(self.field),
            mesh,
            {self.field: self.element},
            [condition(self.field, 0)],
            options,
        )


CASES = {
    "nedelec1": ProjectionCase("N1curl 1, space", 3, ("N1curl", 1), 1, 1, (14, 24, 34)),
    "nedelec2": ProjectionCase("N1curl 2, space", 3, ("N1curl", 2), 2, 2, (8, 14, 20)),
    "taylor_hood": ProjectionCase("Taylor–Hood 2, plane", 2, ("Lagrange", 2), 2, 1, (50, 111, 193)),
    "rt": ProjectionCase("RT 1, plane", 2, ("RT", 1), 1, 1, (82, 182, 316)),
    "bdm": ProjectionCase("BDM 1, plane", 2, ("BDM", 1), 1, 2, (58, 129, 223)),
    "taylor_hood_space": ProjectionCase(
        "Taylor–Hood 2, space", 3, ("Lagrange", 2), 2, 1, (9, 16, 23)
    ),
    "rt_space": ProjectionCase("RT 1, space", 3, ("RT", 1), 1, 1, (12, 20, 29)),
    "bdm_space": ProjectionCase("BDM 1, space", 3, ("BDM", 1), 1, 2, (8, 14, 20)),
}


def least(work: Callable[[], Any], repeats: int) -> float:
    """The least processor seconds of some work."""
    return min(timed(work)[1] for _ in range(repeats))


def poisson(mesh: Any, degree: int, repeats: int) -> dict[str, Any]:
    """Seconds of one scalar Poisson problem by both usual solvers, set-up (assembly and
    hierarchy or factors) apart.
    """
    import ufl
    from dolfinx import fem
    from dolfinx.mesh import exterior_facet_indices
    from petsc4py import PETSc

    from cffem import _compat
    from cffem.constraints.projections.projection_solver import Solver, multigrid

    dimension = mesh.topology.dim
    space = fem.functionspace(mesh, ("Lagrange", degree))
    mesh.topology.create_connectivity(dimension - 1, dimension)
    fixed = fem.locate_dofs_topological(space, dimension - 1, exterior_facet_indices(mesh.topology))
    u, q, x = ufl.TrialFunction(space), ufl.TestFunction(space), ufl.SpatialCoordinate(mesh)
    stiffness = _compat.form(ufl.inner(ufl.grad(u), ufl.grad(q)) * ufl.dx, mesh.comm)
    source = _compat.form(ufl.sin(3 * x[0] + 1) * ufl.cos(2 * x[1]) * q * ufl.dx, mesh.comm)
    right = PETSc.Vec().createWithArray(
        fem.assemble_vector(source).array[: space.dofmap.index_map.size_local].copy()
    )
    right.array[fixed] = 0.0
    solution = right.duplicate()
    found: dict[str, Any] = {"degree": degree, "unknowns": space.dofmap.index_map.size_global}
    for name, options in (
        ("AMG", {**multigrid(dimension), "ksp_rtol": TOLERANCE}),
        ("Cholesky", CHOLESKY),
    ):

        def build(options: Mapping[str, Any] = options) -> Any:
            matrix = _compat.assemble_matrix(stiffness, bcs=[fem.dirichletbc(0.0, fixed, space)])
            matrix.setOption(PETSc.Mat.Option.SPD, True)
            return Solver(matrix, options)

        solver, setup = timed(build)
        seconds = least(lambda s=solver: s.solve(right, solution, "Poisson"), repeats)
        found[name] = {
            "set-up": setup,
            "solve": seconds,
            "iterations": solver.iterations // repeats,
        }
        solver.destroy()
    return found


def method(projection: Any) -> str:
    """In words, how a projection is computed."""
    from cffem.constraints.projections.helmholtz import HelmholtzProjection
    from cffem.constraints.projections.kernel import KernelCorrections
    from cffem.constraints.projections.stream import StreamFunctions

    solver = projection.solver
    if isinstance(solver, KernelCorrections):
        return "CG on the class"
    inner = solver.solver if isinstance(solver, StreamFunctions) else solver
    how = {"preonly": "factors", "cg": "CG + AMG"}.get(
        str(inner.options["ksp_type"]), "FGMRES by blocks"
    )
    if isinstance(solver, StreamFunctions):
        return f"stream function, {how}"
    return (
        f"potential, {how}"
        if isinstance(projection, HelmholtzProjection)
        else f"saddle point, {how}"
    )


def wave(x: np.ndarray) -> np.ndarray:
    """A field without any symmetry and far from every class."""
    return np.stack(
        [
            np.sin(3 * x[0]) + x[1],
            np.cos(2 * x[1]) * x[0] + x[2],
            x[0] * x[2] ** 2 + np.sin(5 * x[1]),
        ]
    )


def project(
    case: ProjectionCase, mesh: Any, options: Any, repeats: int, known: Sequence[str]
) -> dict[str, Any] | None:
    """Cost and identities of one projection; None if it is computed in a way that is known
    already.
    """
    projection, setup = timed(lambda: case.projection(mesh, options))
    way = method(projection)
    if way in known:
        projection.destroy()
        return None
    function = projection.function()
    function.interpolate(lambda x: wave(x)[: case.dimension])
    w = projection.state_of(function)
    w[projection.essential.owned] = 0.0
    inside = projection.project(w)
    again = projection.project(inside)
    projection.solver.iterations = 0
    seconds = least(lambda: projection.project(w), repeats)
    size = projection.norm(w)
    row = {
        "method": way,
        "set-up": setup,
        "seconds": seconds,
        "iterations": projection.solver.iterations // repeats if "factors" not in way else None,
        "P² − P": projection.norm(again - inside) / size,
        "orthogonality": abs(projection.inner(inside, w - inside)) / size**2,
        "constraint": projection.residual(inside) / projection.residual(w),
        "unknowns": len(function.x.array),
    }
    projection.destroy()
    return row


def measure(name: str, n: int, comm: Any, repeats: int = REPEATS) -> dict[str, Any]:
    """One space on one mesh: both ways of projecting, and the Poisson problems.

    Example:
        >>> from mpi4py import MPI
        >>> row = measure("rt", 4, MPI.COMM_SELF, repeats=1)
        >>> row["ways"][0]["method"], row["ways"][0]["P² − P"] < 1e-12
        ('stream function, factors', True)
    """
    from cffem.constraints.projections.saddle import KRYLOV_SADDLE

    case = CASES[name]
    mesh = case.mesh(n, comm)
    choices = [None] if case.element[0].endswith("curl") else [None, KRYLOV_SADDLE]
    ways: list[dict[str, Any]] = []
    for options in choices:
        row = project(case, mesh, options, repeats, [way["method"] for way in ways])
        ways += [] if row is None else [row]
    references = {
        degree: poisson(mesh, degree, repeats) for degree in sorted({1, case.degree, case.paired})
    }
    unit, lowest, paired = references[case.degree], references[1], references[case.paired]
    for way in ways:
        way["ratios"] = {
            "same degree": way["seconds"] / unit["AMG"]["solve"],
            "paired degree": way["seconds"] / paired["AMG"]["solve"],
            "degree 1": way["seconds"] / lowest["AMG"]["solve"],
            "same degree, kept factors": way["seconds"] / unit["Cholesky"]["solve"],
            "same degree, with set-up": (way["set-up"] + way["seconds"])
            / (unit["AMG"]["set-up"] + unit["AMG"]["solve"]),
        }
    return {
        "case": name,
        "title": case.title,
        "cells per side": n,
        "unknowns": ways[0]["unknowns"],
        "ways": ways,
        "poisson": list(references.values()),
    }


def growth(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """For each way, and for the Poisson problems, times over the sizes and their growth for
    each doubling of the unknowns.
    """
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        for way in row["ways"]:
            entry = found.setdefault(
                way["method"], {"unknowns": [], "seconds": [], "iterations": []}
            )
            entry["unknowns"].append(row["unknowns"])
            entry["seconds"].append(way["seconds"])
            entry["iterations"].append(way["iterations"])
        for unit in row["poisson"]:
            entry = found.setdefault(
                f"(Poisson, degree {unit['degree']})",
                {"unknowns": [], "seconds": [], "iterations": []},
            )
            entry["unknowns"].append(unit["unknowns"])
            entry["seconds"].append(unit["AMG"]["solve"])
            entry["iterations"].append(unit["AMG"]["iterations"])
    for entry in found.values():
        sizes, seconds = entry["unknowns"], entry["seconds"]
        if len(sizes) > 1:
            entry["factor"] = (seconds[-1] / seconds[0]) ** (1 / math.log2(sizes[-1] / sizes[0]))
    return found


def missed(rows: Sequence[Mapping[str, Any]], whole: bool) -> list[str]:
    """What was asked for and not reached: identities everywhere; cost at the middle size,
    growth and iterations in a whole run.
    """
    words = []
    for row in rows:
        for way in row["ways"]:
            level = max(way["P² − P"], way["orthogonality"], way["constraint"])
            if level > IDENTITIES:
                words.append(
                    f"{row['title']}, {row['unknowns']} unknowns, {way['method']}: identities to "
                    f"{level:.0e} only"
                )
    for name in dict.fromkeys(row["case"] for row in rows) if whole else ():
        mine = [row for row in rows if row["case"] == name]
        best = min(mine[1]["ways"], key=lambda way: way["seconds"])
        ratio = best["ratios"]["same degree"]
        if ratio > MOST_POISSON:
            words.append(
                f"{mine[1]['title']}, {mine[1]['unknowns']} unknowns: {ratio:.1f} Poisson solves "
                f"({best['method']})"
            )
        for way, entry in growth(mine).items():
            counts = entry["iterations"]
            if way.startswith("("):
                continue
            if entry.get("factor", 0.0) > MOST_GROWTH:
                words.append(
                    f"{mine[0]['title']}, {way}: time × {entry['factor']:.2f} for each doubling"
                )
            if None not in counts and max(counts) > FLAT * min(counts):
                words.append(f"{mine[0]['title']}, {way}: iterations {', '.join(map(str, counts))}")
    return words


INTRODUCTION = f"""Written by `cffem bench projection`: processor time of one projection of a
field onto the divergence-free class of its space, after a set-up that is made once, against one
scalar Poisson solve on the same mesh, both in one process and one run, the least of {REPEATS}
repetitions. Poisson problem: Lagrange elements, zero on the boundary, smooth source, relative
residual {TOLERANCE:g}, conjugate gradients with BoomerAMG (in space with HMIS coarsening, which
is faster there); *same degree* takes elements of the degree of the field, *paired degree* of the
degree of the Lagrange space in the same discrete complex (for Taylor–Hood fields that of the
pressure), *degree 1* linear elements; *kept factors* compares with a Cholesky factorisation that
is kept, *with set-up* counts assembly and set-up of both sides. First way: the default; second:
iterations instead of large factors, where that is something else. The last three columns are
‖P²w − Pw‖/‖w‖, |(Pw, w − Pw)|/‖w‖² and the constraint residual relative to that of w. Asked for:
at most {MOST_POISSON:g} Poisson solves at about 100 000 unknowns, identities to {IDENTITIES:g},
at most a factor of {MOST_GROWTH:g} in time for each doubling of the unknowns, iterations within
a factor of {FLAT:g}."""


def page(result: Mapping[str, Any]) -> str:
    """The result as a page of text."""
    lines = [
        "# What a projection costs",
        "",
        *textwrap.wrap(INTRODUCTION, 120, break_on_hyphens=False),
        "",
    ]
    heads = (
        "same degree",
        "paired degree",
        "degree 1",
        "same degree, kept factors",
        "same degree, with set-up",
    )
    lines.append(
        "| field | unknowns | way | set-up | projection | iterations | "
        + " | ".join(heads)
        + " | P² = P | ⊥ | class |"
    )
    lines.append("|---" * (len(heads) + 9) + "|")
    for row in result["rows"]:
        for way in row["ways"]:
            cells = [
                row["title"],
                str(row["unknowns"]),
                way["method"],
                f"{way['set-up']:.2f} s",
                f"{way['seconds']:.4f} s",
            ]
            cells += ["" if way["iterations"] is None else str(way["iterations"])]
            cells += [f"{way['ratios'][head]:.2f}" for head in heads]
            cells += [f"{way[key]:.0e}" for key in ("P² − P", "orthogonality", "constraint")]
            lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "Growth:",
        "",
        "| field | way | unknowns | seconds | iterations | time for each doubling |",
        "|---" * 6 + "|",
    ]
    for name in dict.fromkeys(row["case"] for row in result["rows"]):
        for way, entry in growth([row for row in result["rows"] if row["case"] == name]).items():
            counts = [] if None in entry["iterations"] else entry["iterations"]
            cells = [CASES[name].title, way, ", ".join(map(str, entry["unknowns"]))]
            cells += [", ".join(f"{s:.4f}" for s in entry["seconds"]), ", ".join(map(str, counts))]
            lines.append(
                "| "
                + " | ".join([*cells, f"{entry['factor']:.2f}" if "factor" in entry else ""])
                + " |"
            )
    lines += ["", "The Poisson problems:", ""]
    lines += [
        "| mesh of | cells per side | degree | unknowns | AMG: set-up, solve, iterations | "
        "Cholesky: set-up, solve |",
        "|---" * 6 + "|",
    ]
    for row in result["rows"]:
        for unit in row["poisson"]:
            amg, factors = unit["AMG"], unit["Cholesky"]
            times = f"{amg['set-up']:.3f} s, {amg['solve']:.4f} s, {amg['iterations']}"
            kept = f"{factors['set-up']:.3f} s, {factors['solve']:.4f} s"
            cells = [
                row["title"],
                row["cells per side"],
                unit["degree"],
                unit["unknowns"],
                times,
                kept,
            ]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += [
        "",
        "Missed:" if result["missed"] else "Nothing was missed.",
        "",
        *(f"- {words}" for words in result["missed"]),
        "",
    ]
    lines += [
        "Measured on: "
        + ", ".join(f"{key} {value}" for key, value in result["machine"].items())
        + ".",
        "",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and write `projection.json` and `projection.md`."""
    parser = bench_parser("projection", __doc__, "case", CASES)
    parser.add_argument(
        "--middle", action="store_true", help="about 100 000 unknowns only, without growth"
    )
    options = parser.parse_args(arguments)
    from mpi4py import MPI

    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"machine": machine(), "rows": [], "missed": []}
    for name in options.cases:
        # Compiles, or loads, every form that will be needed.
        measure(name, 2, MPI.COMM_SELF, repeats=1)
        sizes = CASES[name].sizes
        for n in (4,) if options.tiny else sizes[1:2] if options.middle else sizes:
            row = measure(name, n, MPI.COMM_SELF)
            result["rows"].append(row)
            for way in row["ways"]:
                ratios = ", ".join(f"{head} {ratio:.2f}" for head, ratio in way["ratios"].items())
                print(
                    f"{row['title']}, {row['unknowns']}, {way['method']}: {way['seconds']:.4f} s; "
                    f"{ratios}",
                    flush=True,
                )
            (out / "projection.json").write_text(json.dumps(result, indent=1))
    result["missed"] = missed(result["rows"], whole=not (options.tiny or options.middle))
    (out / "projection.json").write_text(json.dumps(result, indent=1))
    (out / "projection.md").write_text(page(result))
    print("\n".join(f"missed: {words}" for words in result["missed"]) or "nothing was missed")
    return 1 if result["missed"] else 0
