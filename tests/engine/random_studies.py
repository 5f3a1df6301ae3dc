"""Random studies on small meshes: in one or two dimensions, linear or not, steady, of first or of
second order in time.

Every number is random, but terms and elements are drawn from a small pool, so that all studies
together compile few forms.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from dolfinx.mesh import create_unit_interval, create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem import x, y

u = cf.ScalarField("u")
LINEAR = {"u": u, "u_x": u.diff(x), "xu": x * u, "xu_x": x * u.diff(x)}
NONLINEAR = {"cubic": u**3, "burgers": u * u.diff(x)}
# No score may be closer to the threshold than this.
CLEAR = 0.05


@dataclass(frozen=True)
class Random:
    """What a seed stands for.

    Attributes:
        dimension: of space.
        order: of the time derivative; zero is steady.
        nonlinear: whether a term is.
        coefficients: of the terms; the Laplacian's makes the problem well posed.
        cells: per side.
        steps: in time.
        end: of the time window.
        scheme: of the time steps.
        waves: amplitudes of the initial value, or of the boundary data of a steady problem.
        place: where among the scores the threshold is, from 0 to 1.
    """

    dimension: int
    order: int
    nonlinear: bool
    coefficients: dict[str, float]
    cells: int
    steps: int
    end: float
    scheme: str | None
    waves: tuple[float, ...]
    place: float

    @property
    def start(self) -> Any:
        """The initial value, zero on the boundary."""
        across = sp.sin(sp.pi * y) if self.dimension == 2 else 1
        return (
            sum(value * sp.sin((k + 1) * sp.pi * x) for k, value in enumerate(self.waves)) * across
        )

    def model(self, comm: Any = MPI.COMM_SELF, coarser: int = 1) -> Any:
        """The model, on a mesh and with time steps that may be coarser."""
        n, steps = max(2, self.cells // coarser), max(2, self.steps // coarser)
        mesh = (
            create_unit_interval(comm, n) if self.dimension == 1 else create_unit_square(comm, n, n)
        )
        terms = {
            name: {**LINEAR, **NONLINEAR, "lap": cf.lap(u)}[name] for name in self.coefficients
        }
        anchor = {0: None, 1: cf.dt(u), 2: cf.dt(cf.dt(u))}[self.order]
        initial = {u: self.start} if self.order else {}
        experiment = cf.Experiment(
            mesh=mesh,
            elements={u: ("Lagrange", 2)},
            initial=initial | ({cf.dt(u): 0} if self.order == 2 else {}),
            boundary=[cf.Dirichlet(u, 0 if self.order else self.waves[0] + self.waves[1] * x)],
            time=cf.Window(0, self.end, steps=steps, scheme=self.scheme) if self.order else None,
        )
        return cf.Model(
            cf.Library(anchor=anchor, terms=terms, unknown=u), self.coefficients, experiment
        )

    def threshold(self, scores: dict[str, float]) -> float:
        """A threshold among the scores, no closer to any of them than `CLEAR`; below all of
        them where there is no gap.
        """
        known = sorted(score for score in scores.values() if score > 0 and math.isfinite(score))
        ends = [known[0] / 4, *known, known[-1] * 4]
        gaps = [
            (low, high)
            for low, high in itertools.pairwise(ends)
            if high > (1 + 2 * CLEAR) ** 2 * low
        ]
        low, high = gaps[min(int(self.place * len(gaps)), len(gaps) - 1)]
        low, high = low * (1 + 2 * CLEAR), high / (1 + 2 * CLEAR)
        return low * (high / low) ** (self.place * len(gaps) % 1.0)


def random_study(seed: int) -> Random:
    """The study of a seed."""
    rng = np.random.default_rng(seed)
    order = int(rng.choice([0, 1, 1, 2]))
    nonlinear = bool(rng.uniform() < 0.4)
    chosen = [name for name in LINEAR if rng.uniform() < 0.8] or ["u"]
    coefficients = {name: float(rng.normal()) for name in chosen}
    if nonlinear:
        coefficients |= {"cubic": -float(rng.uniform(0.2, 1.5)), "burgers": float(rng.normal() / 2)}
    coefficients["lap"] = float(
        10 ** (rng.uniform(-0.3, 0.3) if order == 0 else rng.uniform(-1.7, -0.5))
    )
    return Random(
        dimension=int(rng.integers(1, 3)),
        order=order,
        nonlinear=nonlinear,
        coefficients=coefficients,
        cells=int(rng.integers(6, 12)),
        steps=int(rng.integers(5, 12)),
        end=float(rng.uniform(0.2, 0.8)),
        scheme=str(rng.choice(["midpoint", "sdirk2"])) if order == 1 else None,
        waves=tuple(float(value) for value in rng.normal(size=3)),
        place=float(rng.uniform()),
    )
