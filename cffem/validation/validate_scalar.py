# SPDX-License-Identifier: MIT
"""The scalar experiments of the paper on finite elements: gap, single-mode aliasing, several
trajectories, advection–diffusion.

The paper samples 44×44×78 = 151,008 points. A grid of 48×48 points of the unit square and 80 times
of [0, 1], cut by two points on every side and one time at either end, has as many, and with the
initial values below it gives the paper's figures: its deletion score of the single mode, 5.634e-3,
is Δt·rms(0.6 u) there. A trajectory is solved with finite elements, read off on that grid,
disturbed with noise, screened with the weak design, and the fitted model is solved again with and
without each of its terms.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from cffem.symbols.coordinates import t, x, y
from cffem.validation.scalar_cases import LIBRARY, TERMS, PaperTerm, Scalar, u
from cffem.validation.validate_board import Board, CaseSettings, TermRow

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh

    from cffem.data.dataset import Dataset
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution


NOISE = 0.01  # standard deviation of the noise, relative to the rms of the data
RELEVANT = 1e-3  # ε of the verdicts, relative to the norm of the factual solution
GRID, TIMES = np.linspace(0, 1, 48), np.linspace(0, 1, 80)
SAMPLES = (slice(2, -2), slice(2, -2), slice(1, -1))


# ---------------------------------------------------------------------------------- finite elements


@lru_cache(maxsize=4)
def unit_square(h: float) -> Mesh:
    """An unstructured mesh of the unit square, made once."""
    from mpi4py import MPI

    import cffem as cf

    return cf.mesh.square(MPI.COMM_SELF, h)


def make_model(
    case: Scalar,
    coefficients: Mapping[str, float],
    initial: sp.Expr,
    quick: bool,
    steps: int = len(TIMES) - 1,
    coarser: int = 1,
) -> Model:
    """The finite-element model of one trajectory: degree 2 on unstructured triangles, 79
    steps of the midpoint rule.
    """
    import cffem as cf

    walls = (
        [cf.Periodic("left", "right"), cf.Periodic("bottom", "top")]
        if case.periodic
        else [cf.Dirichlet(u, 0)]
    )
    experiment = cf.Experiment(
        mesh=unit_square(coarser / (16 if quick else 24)),
        elements={u: ("Lagrange", 2)},
        initial={u: initial},
        boundary=walls,
        time=cf.Window(0, 1, steps=steps),
    )
    return cf.Model(LIBRARY, dict(coefficients), experiment)


def on_grid(solution: Solution) -> np.ndarray:
    """A solution at the points of the grid and all time levels."""
    from dolfinx import geometry

    mesh = solution.model.discretisation.mesh
    points = np.zeros((len(GRID) ** 2, 3))
    points[:, :2] = np.stack(np.meshgrid(GRID, GRID, indexing="ij"), axis=-1).reshape(-1, 2)
    tree = geometry.bb_tree(mesh, mesh.topology.dim)
    found = geometry.compute_colliding_cells(
        mesh, geometry.compute_collisions_points(tree, points), points
    )
    cells = found.array[found.offsets[:-1]].astype(np.int32)
    frames = [solution.function(k=k).eval(points, cells)[:, 0] for k in range(len(TIMES))]
    return np.stack(frames, axis=-1).reshape(len(GRID), len(GRID), len(TIMES))


def dataset(values: np.ndarray) -> Dataset:
    """Values on the grid as data."""
    from cffem.data import Dataset

    return Dataset.from_arrays({x: GRID, y: GRID, t: TIMES}, {u: values})


def samples(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The paper's 151,008 rows: terms in the columns, and u_t, by central differences,
    applied twice for second derivatives.
    """

    def along(array: np.ndarray, axis: int) -> np.ndarray:
        return np.gradient(array, TIMES if axis == 2 else GRID, axis=axis)

    east, north = along(values, 0), along(values, 1)
    columns = {
        "u": values,
        "u²": values**2,
        "u_x": east,
        "u_y": north,
        "Δu": along(east, 0) + along(north, 1),
        "|∇u|²": east**2 + north**2,
        "1": np.ones_like(values),
    }
    return np.column_stack([columns[name][SAMPLES].ravel() for name in TERMS]), along(values, 2)[
        SAMPLES
    ].ravel()


def noisy(values: Sequence[np.ndarray], seed: int) -> list[Dataset]:
    """The trajectories with noise."""
    random = np.random.default_rng(seed)
    return [
        dataset(v + NOISE * np.sqrt((v**2).mean()) * random.standard_normal(v.shape))
        for v in values
    ]


# ----------------------------------------------------------------------------------------- one case


@dataclass
class Fits:
    """The screens of one case over the seeds, and the fitted models solved again."""

    values: list[np.ndarray]
    designs: list[Any] = field(default_factory=list)
    screens: list[Any] = field(default_factory=list)
    rows: list[dict[str, dict[str, float]]] = field(default_factory=list)

    def mean(self, term: str, key: str) -> float:
        """Mean over the seeds; a term that was not fitted counts zero."""
        return float(np.mean([row.get(term, {}).get(key, 0.0) for row in self.rows]))

    def rate(self, term: str) -> float:
        """How often a term is selected."""
        return float(np.mean([term in s.names_ for s in self.screens]))


def screened(case: Scalar, settings: CaseSettings) -> Fits:
    """Solve the trajectories, then for each seed disturb, screen and solve the fitted model
    with and without its terms.
    """
    from cffem.design import Design
    from cffem.screening import Screening

    values = []
    for initial in case.initial:
        model = make_model(case, case.truth, initial, settings.quick)
        values.append(on_grid(model.factual))
        model.destroy()
    fits = Fits(values)
    A, _ = samples(values[-1])
    norms = dict(zip(TERMS, np.sqrt((A**2).mean(axis=0)), strict=True))
    for seed in settings.seeds:
        design = Design.from_fields(LIBRARY, noisy(values, seed))
        screen = Screening(method="subset").fit(design)
        fits.designs.append(design)
        fits.screens.append(screen)
        coefficients = {
            n: float(c) for n, c in zip(TERMS, screen.coef_, strict=True) if n in screen.names_
        }
        fits.rows.append(fitted_rows(case, coefficients, norms, A, settings.quick))
    return fits


def fitted_rows(
    case: Scalar,
    coefficients: Mapping[str, float],
    norms: Mapping[str, float],
    A: np.ndarray,
    quick: bool,
) -> dict[str, dict[str, float]]:
    """Scores of the fitted terms: one step on the paper's samples, C_j, RCI, δ_j and the
    linearised score by finite elements.
    """
    model = make_model(case, coefficients, case.initial[-1], quick)
    residual, sweep, linear = model.residual_scores(), model.deletions(), model.linearised()
    total = float(np.sqrt(((A @ np.array([coefficients.get(n, 0.0) for n in TERMS])) ** 2).mean()))
    step = float(TIMES[1] - TIMES[0])
    rows = {}
    for name, value in coefficients.items():
        rows[name] = {
            "coefficient": value,
            "one_step": step * abs(value) * norms[name],
            "rci": abs(value) * norms[name] / total,
            "contribution": residual[name].contribution,
            "deletion": sweep[name].score,
            "linearised": float(linear[name]),
        }
    model.destroy()
    return rows


def verdicts(case: Scalar, quick: bool) -> dict[str, tuple[str, str]]:
    """Decision and kind of certificate of every true term at ε = RELEVANT·‖u‖, on the last
    trajectory.
    """
    import cffem as cf

    # Error bars by comparison are computed on finer levels, so this starts from a coarser one.
    model = make_model(
        case, case.truth, case.initial[-1], quick, steps=20 if quick else 40, coarser=2
    )
    sweep = model.deletions(keep=True)
    bounds = cf.certify_sweep(
        model, sweep, cf.Certification(epsilon=RELEVANT, relative=True, budget=2e6)
    )
    size = model.factual.norm()
    found = {}
    for name, bound in bounds.items():
        decision = (
            cf.decide(sweep[name].score, RELEVANT * size, margin=bound.margin)
            if bound
            else "unresolved"
        )
        found[name] = (decision, bound.certificate.kind if bound else "none")
    model.destroy()
    return found


def run_scalar(case: Scalar, settings: CaseSettings) -> tuple[Board, Fits]:
    """Everything the four cases have in common."""
    board = Board(case.name, case.title)
    fits = screened(case, settings)
    count = len(settings.seeds)
    board.settings += [
        f"library {', '.join(TERMS)}; true coefficients "
        + ", ".join(f"{n} {c:g}" for n, c in case.truth.items()),
        f"white noise of {NOISE:.0%} of the rms, {count} seeds; weak design, best subset; "
        f"verdicts at ε = {RELEVANT:g} ‖u‖",
        "elements of degree 2 on unstructured triangles, h = "
        f"{'1/16' if settings.quick else '1/24'}, midpoint rule, 79 steps",
        *case.chosen,
    ]
    decided = verdicts(case, settings.quick)
    for name in TERMS:
        board.terms.append(term_row(case, fits, name, decided.get(name, ("", ""))))
    design_figures(board, case, fits)
    for name in case.truth:
        paper = case.paper[name]
        if case.recovered or paper.selected:
            board.near(
                f"one-step score of {name}",
                fits.mean(name, "one_step"),
                paper.one_step,
                0.02 if case.recovered else 0.05,
            )
        else:
            board.figure(f"one-step score of {name}", fits.mean(name, "one_step"), paper.one_step)
    wanted = set(case.truth)
    exact = sum(set(s.names_) == wanted for s in fits.screens)
    board.everywhere("seeds with the exact support", exact, count, paper_support(case))
    if exact:
        errors = [
            abs(r[n]["coefficient"] / c - 1)
            for r in fits.rows
            if set(r) == wanted
            for n, c in case.truth.items()
        ]
        board.figure("largest relative error of a coefficient", max(errors))
    relevant = [n for n in case.truth if decided.get(n, ("",))[0] == "relevant"]
    board.everywhere(
        "true terms whose deletion is relevant, with an error bar", len(relevant), len(case.truth)
    )
    board.pictures["relevance"] = {
        n: (
            case.paper[n].one_step if n in case.paper else 0.0,
            fits.mean(n, "one_step"),
            fits.mean(n, "deletion"),
        )
        for n in TERMS
    }
    return board, fits


def paper_support(case: Scalar) -> str:
    """What the paper's screen selects in all seeds."""
    chosen = [n for n, p in case.paper.items() if p.selected >= 1]
    same = set(chosen) == set(case.truth)
    return "all" if same else f"none: selects {', '.join(chosen)}"


def term_row(case: Scalar, fits: Fits, name: str, decided: tuple[str, str]) -> TermRow:
    """The row of one term."""
    paper = case.paper.get(name, PaperTerm(0.0, 0.0, 0.0, 0.0))
    ours = {
        key: fits.mean(name, key)
        for key in ("coefficient", "rci", "contribution", "one_step", "deletion", "linearised")
    }
    verdict = (
        f"{decided[0]} ({decided[1]})"
        if decided[0]
        else "not selected"
        if not fits.rate(name)
        else ""
    )
    return TermRow(
        case.name,
        name,
        case.truth.get(name, 0.0),
        paper.selected,
        fits.rate(name),
        paper.coefficient,
        ours["coefficient"],
        paper.rci,
        ours["rci"],
        ours["contribution"],
        paper.one_step,
        ours["one_step"],
        ours["deletion"],
        ours["linearised"],
        verdict,
    )


def design_figures(board: Board, case: Scalar, fits: Fits) -> None:
    """Coherence on the paper's samples, and λ_min and condition number of the Gram of the
    selected terms.
    """
    from cffem.design import Design

    A, rate = samples(fits.values[-1])
    design = Design.from_matrix(A, rate, list(TERMS))
    board.check("samples", design.rows, design.rows == 151_008, "151008", 151_008)
    if case.recovered:
        board.near("coherence μ(A) on the samples", design.coherence(), case.coherence, 5e-4)
    else:
        board.figure("coherence μ(A) on the samples", design.coherence(), case.coherence)
    true = design.selected_gram(list(case.truth))
    board.figure("λ_min of the normalised Gram of the true terms", true.minimum, case.smallest)
    board.figure("its condition number", true.condition, case.condition)
    grams = [
        design.selected_gram(names) for names in itertools.combinations(TERMS, len(case.truth))
    ]
    median = tuple(
        float(m) for m in np.median([(gram.minimum, gram.condition) for gram in grams], axis=0)
    )
    board.figure("median λ_min over all supports of that size", median[0], case.smallest)
    board.figure("median condition number over them", median[1], case.condition)
    board.pictures["design"] = {
        "coherence": (case.coherence, design.coherence()),
        "smallest": (case.smallest, median[0]),
        "condition": (case.condition, median[1]),
    }
