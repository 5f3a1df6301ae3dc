# SPDX-License-Identifier: MIT
"""Residual scores of the terms, and the constants that tell when ranking by them is valid.

    C_j = |α_j| ‖T_j[u]‖,   RCI_j = C_j / ‖Σ_k α_k T_k[u]‖,   one-step score = Δt · rms(α_j T_j[u]),

in L2(Ω×(0,T)), with the sum over the terms of the same equation. The root mean square is taken over
space and time with the volume as weight, as a uniform grid of samples would, so the one-step score
is Δt C_j / √(|Ω| T): C_j in other units, which is why it can mislead. What a deletion does is L_u⁻¹
g_j with g_j = α_j T_j[u]; residual ranking is right where L_u⁻¹ stretches all of span{g_j} alike.
With c₋ ‖g‖ ≤ ‖L_u⁻¹ g‖ ≤ c₊ ‖g‖ there, the squares of the sharpest constants are the extreme
eigenvalues of the Gram matrix of the L_u⁻¹ g_j against that of the g_j.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.response.samples import TermSamples

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution

# Directions g whose share of the span is below this, relative to the largest, are combinations of
# others up to round-off.
DEPENDENT = 1e-12


@dataclass(frozen=True)
class ResidualScore:
    """The residual scores of one term.

    Attributes:
        contribution: C_j = |α_j| ‖T_j[u]‖ in L2(Ω×(0,T)), or in L2(Ω) for a steady problem.
        rci: C_j / ‖Σ_k α_k T_k[u]‖ over the terms of its equation; inf where that sum vanishes.
        one_step: Δt · rms(α_j T_j[u]); nan for a steady problem, which has no step.
        representation: "strong", or "weak" for the Riesz representative of the weak form.
    """

    contribution: float
    rci: float
    one_step: float
    representation: str


def residual_scores(model: Model) -> dict[str, ResidualScore]:
    """The residual scores of all terms on the factual solution; terms with coefficient zero score
    zero.

    Example:
        >>> import cffem as cf, sympy as sp
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_interval
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u), "u": u})
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_interval(MPI.COMM_SELF, 16), elements={u: ("Lagrange", 2)},
        ...     boundary=[cf.Dirichlet(u, 0)], forcing={u: 1})
        >>> scores = cf.Model(library, {"lap": 1.0, "u": -1e-8}, experiment).residual_scores()
        >>> round(scores["lap"].rci, 4)
        1.0
    """
    samples, gram = factual_gram(model)
    weights = np.array([model.coefficients[name] for name in samples.names])
    sizes = np.sqrt(np.diag(gram)) * np.abs(weights)
    scores = {name: ResidualScore(0.0, 0.0, 0.0, "strong") for name in model.library.names}
    for i, name in enumerate(samples.names):
        mine = [
            k
            for k, other in enumerate(samples.names)
            if samples.fields[other] == samples.fields[name]
        ]
        total = math.sqrt(max(float(weights[mine] @ gram[np.ix_(mine, mine)] @ weights[mine]), 0.0))
        vanishes = total <= 1e-12 * float(sizes[mine].max())
        rci = math.inf if vanishes else float(sizes[i]) / total
        scores[name] = ResidualScore(
            float(sizes[i]),
            rci,
            one_step(model, float(sizes[i]), samples.volume),
            _representation(samples, name),
        )
    return scores


def _representation(samples: TermSamples, name: str) -> str:
    return "strong" if samples.strong[name] else "weak"


def one_step(model: Model, contribution: float, volume: float) -> float:
    """Δt · rms(α_j T_j[u]) from C_j."""
    window = model.experiment.time
    if window is None:
        return math.nan
    return window.step * contribution / math.sqrt(volume * (window.end - window.start))


def factual_gram(
    model: Model, names: Sequence[str] | None = None
) -> tuple[TermSamples, np.ndarray]:
    """(T_j[u], T_k[u]) of the terms (default: those with a nonzero coefficient) on the
    factual solution.
    """
    samples = TermSamples(model, model.active if names is None else tuple(names))
    gram = samples.gram(model.factual)
    samples.destroy()
    return samples, gram


@dataclass(frozen=True)
class RankingConstants:
    """c₋ ‖g‖ ≤ ‖L_u⁻¹ g‖ ≤ c₊ ‖g‖ on span{α_j T_j[u]}.

    Attributes:
        lower, upper: c₋ and c₊, sharp on the span.
        rank: the dimension of the span; less than the number of terms where they are dependent on
            this solution.
        contributions: C_j of each term.
        norm: the norm of the response.
    """

    lower: float
    upper: float
    rank: int
    contributions: Mapping[str, float]
    norm: str

    @property
    def ratio(self) -> float:
        """c₊/c₋: contributions that differ by more than this factor are ranked as the
        linearised responses are.
        """
        return self.upper / self.lower if self.lower > 0 else math.inf

    def decides(self, larger: str, smaller: str) -> bool:
        """Whether C_larger is so much larger than C_smaller that its linearised response must
        be larger as well.
        """
        return self.lower * self.contributions[larger] > self.upper * self.contributions[smaller]


def ranking_constants(model: Model, norm: str = "L2") -> RankingConstants:
    """The constants of the corollary "when residual ranking is valid", from one linearised
    response per term.
    """
    responses = model.linearised(norm=norm)
    samples, gram = factual_gram(model)
    weights = np.array([model.coefficients[name] for name in samples.names])
    sources = gram * np.outer(weights, weights)
    sizes = np.sqrt(np.diag(sources))
    names = [name for name, size in zip(samples.names, sizes, strict=True) if size > 0]
    keep = np.flatnonzero(sizes > 0)
    scale = np.outer(sizes[keep], sizes[keep])
    images = response_gram(model, [responses[name].trajectory for name in names], norm) / scale
    values, vectors = np.linalg.eigh(sources[np.ix_(keep, keep)] / scale)
    independent = values > DEPENDENT * values[-1]
    basis = vectors[:, independent] / np.sqrt(values[independent])
    squared = np.linalg.eigvalsh(basis.T @ images @ basis)
    lower, upper = (math.sqrt(max(float(value), 0.0)) for value in (squared[0], squared[-1]))
    contributions = {name: float(sizes[i]) for i, name in enumerate(samples.names)}
    return RankingConstants(lower, upper, int(np.sum(independent)), contributions, norm)


def response_gram(model: Model, trajectories: Sequence[Solution], kind: str) -> np.ndarray:
    """Inner products of trajectories in a norm, space–time for transient ones."""
    matrix = model.norm(kind).matrix
    vector, image = model.equation.new_vector(), model.equation.new_vector()

    def multiplied(level: int) -> tuple[np.ndarray, np.ndarray]:
        states, images = np.array([t.states[level] for t in trajectories]), []
        for state in states:
            vector.array[:] = state
            matrix.mult(vector, image)
            images.append(image.array_r.copy())
        return states, np.array(images)

    before, before_image = multiplied(0)
    total = before @ before_image.T
    steps = np.diff(model.times)
    if len(steps):
        total = np.zeros_like(total)
    for level, step in enumerate(steps, start=1):
        now, now_image = multiplied(level)
        cross = before @ now_image.T
        total += step / 3 * (before @ before_image.T + (cross + cross.T) / 2 + now @ now_image.T)
        before, before_image = now, now_image
    vector.destroy()
    image.destroy()
    return np.asarray(model.comm.allreduce(total))
