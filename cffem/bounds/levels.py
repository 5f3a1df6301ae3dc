# SPDX-License-Identifier: MIT
"""Estimated error bounds by three levels, for every problem that can be solved: nonlinear, variable coefficients, systems, flows.

A field w is computed on three levels in space, at the given time step, and on three time steps, in the given space. With the
gaps E_01 = ‖w_0 − w_1‖, E_12 = ‖w_1 − w_2‖ of such a triple and the measured saturation σ = E_12/E_01, the gaps of further levels
are taken to shrink by s = max(σ, 1/4) at least, so that what is left beyond the third level is at most

    ρ = κ E_12 s/(1 − s)

with a safety factor κ. It is accepted where σ < 1/2. The finest levels in space and in time are combined,
w* = w_{2,0} + w_{0,2} − w_0, and ‖w − w*‖ ≲ ρ = ρ_space + ρ_time + 2 E_space E_time/‖w*‖, the product for what each changes in the
other. For a score this is applied to the difference w = u − u_j itself, whose saturation is not that of u:
|δ − δ_0| ≲ |δ* − δ_0| + ρ. The gap between two levels alone is no bound, and σ is evidence, not proof: these certificates are
`estimated`.

Raising the degree converges algebraically where the solution is rough, with a σ that grows from level to level. There less is
accepted (σ < 0.15) and the safety factor is larger.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cffem.bounds.certificate import ESTIMATED, Certificate, NoCertificate, NotCovered
from cffem.bounds.compared import gram_matrix, raised_states
from cffem.bounds.refined import DEGREE, MESH, TIME, Ladder
from cffem.bounds.steady import DeletionBound
from cffem.engine.linear import SolveError
from cffem.engine.sweep import Demand, run_change
from cffem.symbols.interventions import delete

ACCEPTED = {MESH: 0.5, DEGREE: 0.15, TIME: 0.5}
SAFETY = {MESH: 1.5, DEGREE: 2.0, TIME: 1.5}
MIXED = 2.0
# The saturation of schemes of second order; a smaller measured one is not relied on.
SMALLEST = 0.25
# The accuracy that is asked of scores on levels, beyond which residuals do not matter beside the gaps.
ACCURACY = 1e-5
# Gaps below this share of the solution's norm are rounding errors, which do not shrink.
ROUNDING = 1e-10


@dataclass(frozen=True)
class Gaps:
    """The gaps between three levels of one field.

    Attributes:
        way: by what the levels go up.
        first, second, both: ‖w_0 − w_1‖, ‖w_1 − w_2‖ and ‖w_0 − w_2‖.
        floor: gaps up to here are rounding errors.

    Example:
        >>> gaps = Gaps("mesh", first=0.4, second=0.1, both=0.5)
        >>> gaps.saturation, round(gaps.rest, 3), gaps.accepted
        (0.25, 0.05, True)
    """

    way: str
    first: float
    second: float
    both: float
    floor: float = 0.0

    @property
    def saturation(self) -> float:
        """σ."""
        return self.second / self.first if self.first > 0 else math.inf

    @property
    def rounded(self) -> bool:
        """Whether there is nothing but rounding."""
        return max(self.first, self.second) <= self.floor

    @property
    def accepted(self) -> bool:
        """Whether saturation was observed."""
        return self.rounded or self.saturation < ACCEPTED[self.way]

    @property
    def rest(self) -> float:
        """ρ, what is left beyond the third level."""
        if self.rounded:
            return self.first + self.second
        s = max(self.saturation, SMALLEST)
        return SAFETY[self.way] * self.second * s / (1 - s)

    def __str__(self) -> str:
        return f"rounding only ({self.way})" if self.rounded else f"{self.saturation:.3g} ({self.way})"


@dataclass(frozen=True)
class Levels:
    """What all levels of one field say.

    Attributes:
        gaps: those in space and, for transient problems, those in time.
        reported: ‖w_0‖.
        combined: ‖w*‖.
        residuals: about how far the residuals of the solves can have moved w.
    """

    gaps: tuple[Gaps, ...]
    reported: float
    combined: float
    residuals: float = 0.0

    @property
    def rest(self) -> float:
        """ρ, infinite where saturation was not observed."""
        if not all(gaps.accepted for gaps in self.gaps):
            return math.inf
        size = max(self.reported, self.combined)
        mixed = MIXED * math.prod(gaps.both for gaps in self.gaps) / size if len(self.gaps) > 1 and size > 0 else 0.0
        return sum(gaps.rest for gaps in self.gaps) + mixed + self.residuals

    @property
    def error(self) -> float:
        """The estimate of ‖w − w_0‖."""
        return sum(gaps.both for gaps in self.gaps) + self.rest

    @property
    def shift(self) -> float:
        """The estimate of |‖w‖ − ‖w_0‖|."""
        return abs(self.combined - self.reported) + self.rest


@dataclass(frozen=True)
class Trajectories:
    """The states of one field on all levels.

    Attributes:
        space: on three levels in space, as states of the finest space.
        time: at the given and at two smaller time steps, as states of the given space; of a steady problem the first only.
    """

    space: tuple[Sequence[np.ndarray], ...]
    time: tuple[Sequence[np.ndarray], ...]

    def minus(self, other: Trajectories) -> Trajectories:
        """The difference of two fields, level by level."""

        def gap(one: Sequence[np.ndarray], two: Sequence[np.ndarray]) -> list[np.ndarray]:
            return [a - b for a, b in zip(one, two, strict=True)]

        return Trajectories(
            tuple(gap(a, b) for a, b in zip(self.space, other.space, strict=True)),
            tuple(gap(a, b) for a, b in zip(self.time, other.time, strict=True)),
        )


class LevelCertifier:
    """Three-level estimates for the deletions of one model.

    Args:
        model: the model.
        way: "mesh" or "degree", by which the levels in space go up.
    """

    def __init__(self, model: Any, way: str):
        start = time.perf_counter()
        self.model, self.way = model, way
        space = Ladder(model, way)
        self.ladders = [space] + ([] if model.experiment.time is None else [Ladder(model, TIME)])
        self.models = [ladder.model(k) for ladder in self.ladders for k in (1, 2)]
        self.finest = self.models[1]
        # Each gap in space is measured in the finest space, each gap in time in the given one.
        self._up = {k: space.embeddings(k, 2) for k in (0, 1)}
        self.solutions = 0
        self.factual = self._trajectories([model.factual, *(finer.factual for finer in self.models)])
        self._known: dict[str, Levels] = {"L2": self._levels("L2", self.factual)}
        if way == DEGREE and not all(gaps.accepted for gaps in self._known["L2"].gaps):
            # Rough differences of a rough solution would only be found out one by one.
            shown = ", ".join(map(str, self._known["L2"].gaps))
            self.destroy()
            raise NotCovered(f"degrees do not resolve the solution itself: σ is {shown}")
        self._last: tuple[Any, list[Any], float] | None = None
        self.seconds = time.perf_counter() - start

    # Comparing --------------------------------------------------------------------------------------------------------------

    def _trajectories(self, solutions: Sequence[Any]) -> Trajectories:
        """Take the states of the solutions of all models, the user's first."""
        self.solutions += len(solutions)
        states = [solution.states for solution in solutions]
        raised = [raised_states(states[k], solutions[k].model.spaces, self.finest.spaces, self._up[k]) for k in (0, 1)]
        return Trajectories((raised[0], raised[1], states[2]), (states[0], *states[3:]))

    def _levels(self, kind: str, field: Trajectories, scale: float = 0.0, residuals: float = 0.0, combined: bool = False) -> Levels:
        """The gaps of one field on all levels.

        Args:
            kind: the norm.
            field: the field.
            scale: what rounding errors are relative to; zero for the field itself.
            residuals: about how far residuals can have moved the field, in L2.
            combined: whether ‖w*‖ is wanted.
        """
        length = float(self.model.times[-1] - self.model.times[0])
        ways = [(self.way, self.finest.norm(kind), field.space)]
        ways += [(TIME, self.model.norm(kind), field.time)] if len(field.time) > 1 else []
        gaps = []
        for way, norm, (low, middle, high) in ways:
            gram = gram_matrix(norm, [[(low, 1.0), (middle, -1.0)], [(middle, 1.0), (high, -1.0)]], length)
            sizes = [math.sqrt(max(value, 0.0)) for value in (gram[0, 0], gram[1, 1], gram.sum())]
            gaps.append(Gaps(way, *sizes))
        reported = math.sqrt(max(gram_matrix(self.model.norm(kind), [[(field.time[0], 1.0)]], length)[0, 0], 0.0))
        gaps = [replace(each, floor=max(ROUNDING * (scale or reported), residuals)) for each in gaps]
        return Levels(tuple(gaps), reported, self._combined(kind, field, length) if combined else reported, residuals)

    def _combined(self, kind: str, field: Trajectories, length: float) -> float:
        """‖w*‖ in the finest space and on the finest time levels."""
        parts = [(field.space[2], 1.0)]
        if len(field.time) > 1:
            raised = raised_states(field.time[2], self.model.spaces, self.finest.spaces, self._up[0])
            parts += [(raised, 1.0), (field.space[0], -1.0)]
        return math.sqrt(max(gram_matrix(self.finest.norm(kind), [parts], length)[0, 0], 0.0))

    @property
    def transient(self) -> bool:
        """Whether there are levels in time."""
        return len(self.ladders) > 1

    def deleted_solutions(self, change: Any, deleted: Any = None, accuracy: float = ACCURACY) -> tuple[list[Any], float]:
        """The solutions of a deleted problem on all levels, the user's first, and about how far residuals can have moved them.

        Args:
            change: the deletion; the solutions of the last one are remembered.
            deleted: its solution on the user's level, where it is known already.
            accuracy: what is asked of the score on the other levels, zero for working precision.

        Raises:
            SolveError: the deleted problem could not be solved on a level.
        """
        key = (change, accuracy)
        if self._last is None or self._last[0] != key:
            found = [run_change(model, change, "", Demand(keep=True, accuracy=accuracy)) for model in self.models]
            for deletion in found:
                if deletion.solution is None:
                    raise SolveError(deletion.reason, deletion.history)
            solutions = [deleted or self.model.solve(change), *(deletion.solution for deletion in found)]
            self._last = (key, solutions, sum(deletion.error for deletion in found))
        return self._last[1:]

    # Certificates -----------------------------------------------------------------------------------------------------------

    def deletion(self, name: str, norm: str = "L2", deleted: Any = None, change: Any = None) -> DeletionBound:
        """The estimated bound for the score of one deletion; collective.

        Args:
            name: the term.
            norm: the norm of the score.
            deleted: the solution of the deleted problem, where it is known already.
            change: the deletion, where it sets other coefficients as well.

        Raises:
            NotCovered: saturation was not observed.
            SolveError: a finer problem could not be solved.
        """
        start = time.perf_counter()
        solutions, residuals = self.deleted_solutions(change or delete(name), deleted)
        others = self._trajectories(solutions)
        if norm not in self._known:
            self._known[norm] = self._levels(norm, self.factual)
        factual = self._known[norm]
        found = {
            "u": factual,
            "u_j": self._levels(norm, others, factual.reported, residuals),
            "u − u_j": self._levels(norm, self.factual.minus(others), factual.reported, residuals, combined=True),
        }
        self.seconds += time.perf_counter() - start
        difference = found["u − u_j"]
        margin = min(difference.shift, found["u"].error + found["u_j"].error)
        if not math.isfinite(margin):
            shown = ", ".join(map(str, difference.gaps))
            limits = ", ".join(f"{ACCEPTED[gaps.way]:g} ({gaps.way})" for gaps in difference.gaps)
            raise NotCovered(f"saturation was not observed on three levels: σ is {shown}, and less than {limits} is needed")
        certificate = self._certificate(margin, norm, found)
        first, second, third = (levels.error for levels in found.values())
        best = (difference.combined, difference.rest) if difference.rest < margin else None
        return DeletionBound(name, difference.reported, first, second, third, margin, certificate, best)

    def _certificate(self, margin: float, norm: str, found: dict[str, Levels]) -> Certificate:
        score, ladder = found["u − u_j"].reported, self.finest.discretisation.mesh.topology
        measured = "; ".join(f"{key}: {', '.join(map(str, levels.gaps))}" for key, levels in found.items())
        limits = ", ".join(f"{ACCEPTED[gaps.way]:g} ({gaps.way})" for gaps in found["u"].gaps)
        right = "min(|δ* − δ_h| + ρ(u − u_j), η_factual + η_counterfactual)"
        formula = r"\min\{|\delta^*-\delta_h| + \rho(u-u_j),\; \eta_{\mathrm f}+\eta_{\mathrm{cf}}\}"
        return Certificate(
            value=margin,
            kind=ESTIMATED,
            norm=norm,
            inequality=f"|‖u − u_j‖ − {score:.4g}| ≲ {right} = {margin:.4g}",
            formula=rf"\bigl|\,\|u-u_j\| - \|u_h-u_{{jh}}\|\,\bigr| \lesssim {formula} = {margin:.4g}",
            hypotheses=(
                ("the gaps between further levels shrink at least as fast as those measured", "three levels: evidence, no proof"),
                (f"saturation σ < {limits}", f"measured, {measured}"),
                ("Ω is the meshed domain", _ways(self.way, self.transient)),
                ("the assembled forms are those of the equation", "not examined by this certificate"),
            ),
            constants={
                **{f"κ ({gaps.way})": SAFETY[gaps.way] for gaps in found["u"].gaps},
                **{f"ρ of {key}": levels.rest for key, levels in found.items() if math.isfinite(levels.rest)},
                "combined score δ*": found["u − u_j"].combined,
            },
            cost={
                "unknowns of the finest space": float(self.finest.spaces.size),
                "cells of the finest mesh": float(ladder.index_map(ladder.dim).size_global),
                "finest number of time steps": float(len(self.models[-1].times) - 1),
                "solutions": float(self.solutions),
                "seconds": self.seconds,
            },
            method=f"three levels by the {self.way}{', three by the time step' if self.transient else ''}, saturation seen",
        )

    def destroy(self) -> None:
        """Free the finer models; collective."""
        for ladder in self.ladders:
            ladder.destroy()


def _ways(way: str, transient: bool) -> str:
    space = "the given mesh is the coarsest, its cells are divided twice" if way == MESH else "the given mesh, degrees raised twice"
    return space + (", the time step is divided by 2 and 4" if transient else "")


class Estimates:
    """Three-level estimates of a model by the first way up that exists, fits the budget and shows saturation.

    Args:
        model: the model.
        budget: the largest allowed number of unknowns times time steps of one solution.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_square
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u), "cube": -u**3}, unknown=u)
        >>> experiment = cf.Experiment(mesh=create_unit_square(MPI.COMM_SELF, 4, 4), elements={u: ("Lagrange", 1)},
        ...     boundary=[cf.Dirichlet(u, 0)], forcing={u: 10})
        >>> bound = Estimates(cf.Model(library, {"lap": 1.0, "cube": 1.0}, experiment), 1e4).deletion("cube")
        >>> bound.certificate.kind, 0 < bound.margin < bound.score
        ('estimated', True)
    """

    def __init__(self, model: Any, budget: float):
        self.model, self.budget = model, budget
        self._certifiers: dict[str, LevelCertifier | NoCertificate] = {}

    def _certifier(self, way: str) -> LevelCertifier | NoCertificate:
        if way not in self._certifiers:
            try:
                size = Ladder(self.model, way).size(2)
                if size > self.budget:
                    raise NotCovered(
                        f"three levels by the {way} have {size:.3g} unknowns times steps, more than the budget of {self.budget:.3g}"
                    )
                self._certifiers[way] = LevelCertifier(self.model, way)
            except (NotCovered, SolveError) as reason:
                self._certifiers[way] = NoCertificate(str(reason))
        return self._certifiers[way]

    def certifiers(self) -> Iterator[tuple[str, LevelCertifier | NoCertificate]]:
        """The ways up, each with its certifier or the reason why there is none, made when asked for; collective."""
        elements = [self.model.spaces.elements[f] for f in self.model.discretisation.unknowns]
        # Elements without all linear functions converge with order one, so that dividing cells halves the gaps at best; and a
        # tetrahedron becomes 64, in a way that depends on how cells are numbered.
        first_order = any(getattr(element, "embedded_subdegree", 1) < 1 for element in elements)
        solid = self.model.discretisation.mesh.topology.dim == 3
        for way in (DEGREE, MESH) if first_order or solid else (MESH, DEGREE):
            yield way, self._certifier(way)

    def deletion(self, name: str, norm: str = "L2", deleted: Any = None, change: Any = None) -> DeletionBound | NoCertificate:
        """The estimated bound of one deletion, or the reasons why there is none; see `LevelCertifier.deletion`; collective."""
        reasons = []
        for _, certifier in self.certifiers():
            if isinstance(certifier, NoCertificate):
                reasons.append(certifier.reason)
                continue
            try:
                return certifier.deletion(name, norm, deleted, change)
            except (NotCovered, SolveError) as reason:
                reasons.append(str(reason))
        return NoCertificate("; ".join(reasons))

    def destroy(self) -> None:
        """Free the finer models; collective."""
        for certifier in self._certifiers.values():
            if isinstance(certifier, LevelCertifier):
                certifier.destroy()
