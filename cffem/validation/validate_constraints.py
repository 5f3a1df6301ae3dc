# SPDX-License-Identifier: MIT
"""Constraint-null checks: ∇(∇·E) on a Maxwell cavity of unstructured tetrahedra, and gradients
under the Leray projection.

A term that vanishes on the constraint class has no coefficient that data could tell: its deletion
moves the field by round-off, any coefficient gives the same trajectory, and the term is reported as
null instead of with a number.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from cffem.symbols.coordinates import x, y, z
from cffem.symbols.fields import ScalarField, VectorField
from cffem.symbols.operators import curl, div, dot, dt, grad, lap
from cffem.symbols.problem.library import Library
from cffem.validation.validate_board import Board, CaseSettings, TermRow

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh

    from cffem.engine.model import Model


PAPER_DELETION, PAPER_RCI = 3.012e-15, 1.329e-13
ROUND_OFF = 1e-12

E = VectorField("E", dim=3)
MAXWELL = Library(
    anchor=dt(dt(E)), terms={"curl curl": -curl(curl(E)), "damping": -dt(E), "∇(∇·E)": grad(div(E))}
)
MAXWELL_TRUTH = {"curl curl": 1.0, "damping": 0.05, "∇(∇·E)": 1.0}
v, p = VectorField("v", dim=2), ScalarField("p")


@lru_cache(maxsize=2)
def unit_cube(h: float) -> Mesh:
    """An unstructured mesh of the unit cube, made once."""
    from mpi4py import MPI

    import cffem as cf

    return cf.mesh.box(MPI.COMM_SELF, h)


def cavity(seed: int, quick: bool, coefficients: dict[str, float] | None = None) -> Model:
    """A cavity with perfectly conducting walls, three modes of random amplitude, at rest."""
    import cffem as cf

    a, b, c = (sp.Float(value, 15) for value in np.random.default_rng(seed).uniform(0.3, 1.0, 3))
    modes = (
        a * sp.sin(sp.pi * y) * sp.sin(sp.pi * z),
        b * sp.sin(sp.pi * x) * sp.sin(sp.pi * z),
        c * sp.sin(sp.pi * x) * sp.sin(2 * sp.pi * y),
    )
    experiment = cf.Experiment(
        mesh=unit_cube(0.35 if quick else 0.25),
        elements={E: ("N1curl", 1)},
        initial={E: modes, dt(E): (0, 0, 0)},
        boundary=[cf.Tangential(E, 0)],
        time=cf.Window(0, 1, steps=10 if quick else 20),
        constraint=cf.DivergenceFree(E),
    )
    return cf.Model(MAXWELL, coefficients or MAXWELL_TRUTH, experiment)


def maxwell(settings: CaseSettings) -> Board:
    """The constraint-null experiment on tetrahedra."""
    import cffem as cf

    board = Board("maxwell", "Constraint-null Maxwell")
    board.settings += [
        "E_tt = −curl curl E − 0.05 E_t + ∇(∇·E) in a unit cube with perfectly conducting walls, "
        "∇·E = 0, Nédélec elements of "
        f"degree 1 on unstructured tetrahedra, h = {0.35 if settings.quick else 0.25}, T = 1 (the "
        "paper: 40³ samples of a grid)",
        "three cavity modes with random amplitudes in (0.3, 1), one draw per seed",
    ]
    found: dict[str, list[float]] = {
        key: []
        for key in (
            "deletion",
            "rci",
            "divergence",
            "any",
            "real",
            "linearised",
            "contribution",
            "one_step",
        )
    }
    nulls = 0
    for seed in settings.seeds:
        model = cavity(seed, settings.quick)
        size = model.factual.norm()
        sweep, residual = (
            model.deletions(["∇(∇·E)", "curl curl"]),
            model.residual_scores()["∇(∇·E)"],
        )
        found["deletion"].append(sweep["∇(∇·E)"].score / size)
        found["real"].append(sweep["curl curl"].score / size)
        found["rci"].append(residual.rci)
        found["contribution"].append(residual.contribution)
        found["one_step"].append(residual.one_step)
        found["linearised"].append(float(model.linearised("∇(∇·E)")))
        state = model.factual.states[-1]
        norm = model.norm()
        found["divergence"].append(norm(model.projected(state) - state) / norm(state))
        other = model.solve(cf.set("∇(∇·E)", 1000.0))
        found["any"].append(other.distance(model.factual) / size)
        nulls += [n.term for n in model.constraint_nulls(trajectory=False)] == ["∇(∇·E)"]
        model.destroy()
    worst = {key: max(values) for key, values in found.items()}
    board.check(
        "relative deletion score of ∇(∇·E), worst seed",
        worst["deletion"],
        worst["deletion"] <= ROUND_OFF,
        "≤ 1e-12",
        PAPER_DELETION,
    )
    board.check(
        "its residual contribution index", worst["rci"], worst["rci"] <= 1e-9, "≤ 1e-9", PAPER_RCI
    )
    board.check(
        "constraint residual ‖E − PE‖/‖E‖",
        worst["divergence"],
        worst["divergence"] <= ROUND_OFF,
        "≤ 1e-12",
    )
    board.check(
        "relative change of the trajectory for coefficient 1 → 1000",
        worst["any"],
        worst["any"] <= ROUND_OFF,
        "≤ 1e-12",
    )
    board.figure(
        "how far the coefficient may move before the residual doubles",
        1 / max(worst["rci"], 1e-300),
    )
    board.everywhere(
        "seeds that report ∇(∇·E), and it alone, as constraint-null",
        nulls,
        len(settings.seeds),
        "coefficient 1.0",
    )
    board.check(
        "relative deletion score of curl curl",
        min(found["real"]),
        min(found["real"]) > 0.1,
        "> 0.1",
    )
    mean = {key: float(np.mean(values)) for key, values in found.items()}
    board.terms.append(
        TermRow(
            "maxwell",
            "∇(∇·E)",
            1.0,
            0.0,
            None,
            1.0,
            None,
            PAPER_RCI,
            mean["rci"],
            mean["contribution"],
            PAPER_DELETION,
            mean["one_step"],
            mean["deletion"],
            mean["linearised"],
            "constraint-null",
        )
    )
    return board


def leray(settings: CaseSettings) -> Board:
    """P∇p = 0: divergence-free test functions do not see gradients, and deleting one moves
    the velocity by round-off.
    """
    from mpi4py import MPI

    from cffem.validation.leray import leray_column

    board = Board("leray", "Leray-projected flow")
    h = 0.2 if settings.quick else 0.1
    board.settings += [
        f"steady driven cavity at Reynolds number 100, unstructured triangles, h = {h}; "
        "Taylor–Hood and BDM₁/DG₀ pairs",
        "decaying flow in a closed box, Taylor–Hood, for the coefficients of the projected "
        "equation",
    ]
    for pair in ("Taylor–Hood", "BDM"):
        share = leray_column("cavity", pair, h, MPI.COMM_SELF)["∇p"]
        board.check(
            f"share of ∇p that the projected equation sees, {pair}",
            share,
            share <= 1e-11,
            "≤ 1e-11",
        )
    moved, felt = gradient_force(settings.quick)
    board.check("relative deletion score of ∇½|v|² (BDM)", moved, moved <= 1e-10, "≤ 1e-10")
    board.check("relative deletion score of the viscosity", felt, felt > 1e-2, "> 0.01")
    found, pressure = projected_rows(settings.quick)
    board.check(
        "column of ∇p in the projected weak design, relative", pressure, pressure <= 1e-3, "≤ 1e-3"
    )
    board.near_value("coefficient of (v·∇)v found without the pressure", found[0], -1.0, 0.02)
    board.near_value("coefficient of Δv found without the pressure", found[1], 0.02, 0.05)
    return board


def gradient_force(quick: bool) -> tuple[float, float]:
    """What the deletion of a gradient does to the velocity, and what that of the viscosity does."""
    from mpi4py import MPI

    import cffem as cf

    library = Library(anchor=dt(v), terms={"viscosity": lap(v), "∇½|v|²": grad(dot(v, v) / 2)})
    swirl = sp.sin(sp.pi * x) ** 2 * sp.sin(sp.pi * y) ** 2
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.25 if quick else 0.15),
        elements={v: ("BDM", 1)},
        initial={v: (swirl.diff(y), -swirl.diff(x))},
        boundary=[cf.Dirichlet(v, 0), cf.Tangential(v, 0)],
        time=cf.Window(0, 0.1, steps=5),
        constraint=cf.DivergenceFree(v, multiplier={p: ("DG", 0)}),
    )
    model = cf.Model(library, {"viscosity": 0.1, "∇½|v|²": 0.7}, experiment)
    sweep, size = model.deletions(), model.factual.norm()
    result = sweep["∇½|v|²"].score / size, sweep["viscosity"].score / size
    model.destroy()
    return result


def projected_rows(quick: bool) -> tuple[np.ndarray, float]:
    """Coefficients of the velocity equation from rows tested with divergence-free functions,
    and the column of the pressure.
    """
    from mpi4py import MPI

    import cffem as cf
    from cffem.design import Design

    terms = {"advection": dot(grad(v), v), "viscosity": lap(v)}
    library = Library(anchor=dt(v), terms=terms)
    stream = (x * (1 - x) * y * (1 - y)) ** 2 * (60 + 200 * sp.sin(3 * x + 1) * sp.cos(5 * y))
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.09 if quick else 0.06),
        elements={v: ("Lagrange", 2)},
        initial={v: (stream.diff(y), -stream.diff(x))},
        boundary=[cf.Dirichlet(v, 0)],
        time=cf.Window(0, 0.4, steps=10 if quick else 20),
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    model = cf.Model(library, {"advection": -1.0, "viscosity": 0.02}, experiment)
    rows = Library(anchor=library.anchor, terms={**terms, "pressure": grad(p)})
    total = Design.from_fields(rows, model.factual, kind="weak").grams.total()
    model.destroy()
    return np.linalg.solve(total[1:3, 1:3], total[1:3, 0]), float(
        np.sqrt(total[3, 3] / total[0, 0])
    )
