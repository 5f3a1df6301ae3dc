# SPDX-License-Identifier: MIT
"""The paper's four scalar cases: their library, coefficients, starts and published figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import sympy as sp

from cffem.symbols.coordinates import x, y
from cffem.symbols.fields import ScalarField
from cffem.symbols.operators import dot, dt, grad, lap
from cffem.symbols.problem.library import Library

if TYPE_CHECKING:
    pass


u = ScalarField("u")


TERMS: dict[str, sp.Expr] = {
    "u": u,
    "u²": u**2,
    "u_x": u.diff(x),
    "u_y": u.diff(y),
    "Δu": lap(u),
    "|∇u|²": dot(grad(u), grad(u)),
    "1": sp.Integer(1),
}


LIBRARY = Library(anchor=dt(u), terms=TERMS)


def mode(m: int, n: int) -> sp.Expr:
    """An eigenfunction of the Laplacian on the unit square, with eigenvalue −(m² + n²)π²."""
    return sp.sin(m * sp.pi * x) * sp.sin(n * sp.pi * y)


@dataclass(frozen=True)
class PaperTerm:
    """The paper's figures of one term: selection rate, mean coefficient, mean RCI and mean
    deletion score.
    """

    selected: float
    coefficient: float
    rci: float
    one_step: float


@dataclass(frozen=True)
class Scalar:
    """One scalar experiment.

    Args:
        name, title: for people.
        truth: the true coefficients.
        initial: the initial value of each trajectory.
        periodic: periodic boundary conditions, else u = 0.
        paper: the paper's figures by term.
        coherence, smallest, condition: the paper's coherence, λ_min and condition number of the
            selected Gram.
        recovered: whether the initial values are the paper's, so that its figures must come out.
        chosen: the settings that the paper does not say.
    """

    name: str
    title: str
    truth: Mapping[str, float]
    initial: tuple[sp.Expr, ...]
    paper: Mapping[str, PaperTerm]
    coherence: float
    smallest: float
    condition: float
    periodic: bool = False
    recovered: bool = True
    chosen: tuple[str, ...] = field(default=())


GAP = Scalar(
    "gap",
    "Residual–counterfactual gap",
    {"u": 0.6},
    (mode(1, 1) + mode(2, 2) / 2,),
    {
        "u": PaperTerm(1.0, 0.601152, 1.002, 6.310e-3),
        "Δu": PaperTerm(0.0, 3.762e-5, 4.764e-3, 3.000e-5),
    },
    0.9555,
    1.0,
    1.0,
    chosen=(
        "initial value sin πx sin πy + ½ sin 2πx sin 2πy: it gives the paper's coherence 0.9555 "
        "and deletion score",
    ),
)


ALIASING = Scalar(
    "aliasing",
    "Single-mode aliasing",
    {"u": 0.6},
    (mode(1, 1),),
    {"u": PaperTerm(1.0, 0.600006, 1.0, 5.634e-3), "Δu": PaperTerm(0.0, 0.0, 0.0, 0.0)},
    1.0,
    1.0,
    1.0,
    chosen=("initial value sin πx sin πy: it gives the paper's deletion score 5.634e-3",),
)


TRAJECTORIES = Scalar(
    "trajectories",
    "Multi-trajectory separability",
    {"u": 0.5, "Δu": 1e-3},
    (mode(1, 1), mode(1, 1) + mode(2, 2) / 2 + sp.Rational(35, 100) * mode(1, 3)),
    {
        "u": PaperTerm(1.0, 0.489170, 0.9554, 5.075e-3),
        "u²": PaperTerm(1.0, 2.424e-2, 5.796e-2, 3.079e-4),
        "u_x": PaperTerm(0.0, -3.817e-3, 2.692e-2, 1.430e-4),
        "Δu": PaperTerm(0.0, 8.816e-4, 8.144e-2, 4.326e-4),
        "|∇u|²": PaperTerm(0.0, -2.284e-4, 1.252e-2, 6.653e-5),
        "1": PaperTerm(1.0, 2.302e-2, 5.486e-2, 2.914e-4),
    },
    0.9579,
    0.7569,
    1.6682,
    recovered=False,
    chosen=(
        "κ = 0.5 and D = 1e-3 (the paper's fit has 0.489 and 8.8e-4)",
        "two trajectories: sin πx sin πy alone, and sin πx sin πy + 0.5 sin 2πx sin 2πy + 0.35 "
        "sin πx sin 3πy; the amplitudes are "
        "chosen so that the second has the paper's one-step scores",
        "one-step scores and RCI are those of the second trajectory",
    ),
)


WAVE = 2 * sp.pi


ADVECTION = Scalar(
    "advection",
    "Advection–diffusion",
    {"u_x": -0.16, "u_y": 0.08, "Δu": 3e-4},
    (
        sp.Rational(37, 100)
        + sp.cos(WAVE * x) / 4
        + sp.Rational(12, 100) * sp.sin(WAVE * y)
        + sp.Rational(28, 100) * (sp.sin(WAVE * (x + y)) + sp.sin(WAVE * (x - y))),
    ),
    {
        "u": PaperTerm(1.0, -1.503e-1, 2.047e-1, 9.239e-4),
        "u²": PaperTerm(1.0, -2.222e-2, 3.410e-2, 1.539e-4),
        "u_x": PaperTerm(1.0, -0.158608, 0.8948, 4.038e-3),
        "u_y": PaperTerm(1.0, 0.080316, 0.4242, 1.914e-3),
        "Δu": PaperTerm(0.0, 2.943e-4, 2.122e-2, 9.574e-5),
        "|∇u|²": PaperTerm(0.0, 6.416e-4, 2.295e-2, 1.036e-4),
        "1": PaperTerm(1.0, 4.326e-2, 9.707e-2, 4.380e-4),
    },
    0.9489,
    0.3546,
    4.6491,
    periodic=True,
    recovered=False,
    chosen=(
        "D = 3e-4 (the paper's fit has 2.9e-4), periodic boundary conditions",
        "initial value 0.37 + 0.25 cos 2πx + 0.12 sin 2πy + 0.28 (sin 2π(x + y) + sin 2π(x − y)): "
        "amplitudes chosen so that u, u_x "
        "and u_y have the paper's rms",
    ),
)
