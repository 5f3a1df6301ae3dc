# SPDX-License-Identifier: MIT
"""Estimated error bounds by levels beside the user's: elements of the next degree on larger cells.

Cells and elements of first order may be so coarse that still larger ones say nothing (Maxwell's
equations on a few thousand edges). Elements of the next degree on cells that are larger by a factor
cost no more and are more accurate where solutions are smooth, and the levels below them
(`LevelsAround`) tell whether they are. With the score δ_p there and its own margin ρ_p,

    |δ − δ_h| ≤ |δ_p − δ_h| + |δ − δ_p| ≲ |δ_p − δ_h| + ρ_p,

for which both scores are measured in their own spaces. The errors of the fields themselves are
estimated after interpolation onto the user's cells, with a safety factor of two for what that
hides, and are no smaller than norms differ.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mpi4py import MPI

from cffem.bounds.certificate import Certificate, DeletionBound, NotCovered
from cffem.bounds.levels.around import BELOW, LevelsAround
from cffem.bounds.levels.coarser import check_coarser, interpolated
from cffem.bounds.levels.compared import Part, gram_matrix, grids, raised_states
from cffem.bounds.levels.ladders import DEGREE, Ladder, raised_constraint, raised_elements
from cffem.bounds.levels.three_levels import ACCURACY
from cffem.bounds.refits import Change, change_on
from cffem.engine.deletion.sweep import Deletion, Demand, run_changes
from cffem.engine.mesh.msh_format import MeshError
from cffem.engine.solve.linear import SolveError
from cffem.symbols.errors import InputError
from cffem.symbols.problem.interventions import delete
from cffem.symbols.reasons import SIZE_ERROR

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution


# By how much cells are larger: first so much that the next degree has about as many unknowns, then
# not at all.
LARGER, SAME = 1.8, 1.0
# In space factors of a matrix grow with this power of its size at least.
FILL = 4 / 3
# The name of how far the score is from that of the next degree, among the constants.
AWAY = "|δ_p − δ_h|"
# What interpolation onto the user's cells hides of an error is no more than what it shows.
HIDDEN = 2.0


def beside_size(model: Model, factor: float) -> float:
    """What a solution takes on these levels together, relative to the user's: unknowns times time
    steps, with what factors fill in where there are three dimensions.

    Raises:
        NotCovered: there is no next degree.
    """
    ladder = Ladder(model, DEGREE)
    dimension = model.discretisation.mesh.topology.dim
    power = dimension if model.experiment.time is None else dimension + 1
    below = sum(2.0 ** (-power * level) for level in (0, 1, 2))
    ratio = ladder.size(1) / ladder.size(0) / factor**dimension
    return ratio ** (FILL if dimension == 3 else 1.0) * below


class LevelsBeside:
    """Estimates for the deletions of one model from elements of the next degree.

    Args:
        model: the model.
        factor: by how much cells are larger, `LARGER` or `SAME`.

    Raises:
        NotCovered: there are no such levels, or they say nothing about the factual solution.
    """

    def __init__(self, model: Model, factor: float):
        check_coarser(model)
        self.model, self.factor = model, factor
        experiment, domain = model.experiment, model.discretisation.given
        try:
            if factor != SAME:
                domain = domain.remade(factor, MPI.COMM_SELF)
                experiment = dataclasses.replace(experiment, comm=MPI.COMM_SELF)
            changed = dataclasses.replace(
                experiment,
                mesh=domain,
                elements=raised_elements(experiment, 1),
                constraint=raised_constraint(experiment.constraint, 1),
            )
            self.raised = model.in_experiment(changed)
        except (MeshError, InputError) as error:
            raise NotCovered(f"there are no elements of the next degree: {error}") from None
        try:
            self.levels = LevelsAround(self.raised, BELOW)
        except (NotCovered, SolveError):
            self.raised.destroy()
            raise
        self._up = interpolated(self.raised, model) if factor != SAME else None
        self._found: dict[str, tuple[Change, Deletion]] = {}
        self._ladder: Ladder | None = None

    def prepare(self, changes: Mapping[str, Change]) -> None:
        """Solve deleted problems on all levels; collective."""
        here = {name: change_on(change, self.raised) for name, change in changes.items()}
        sweep = run_changes(self.raised, here, Demand(keep=True, accuracy=ACCURACY))
        self._found |= {name: (change, sweep[name]) for name, change in changes.items()}
        self.levels.prepare(changes)

    def ready(self, name: str, change: Change | None) -> bool:
        """Whether a deletion has been solved on these levels."""
        return name in self._found and self._found[name][0] == (change or delete(name))

    def deletion(
        self,
        name: str,
        norm: str = "L2",
        deleted: Solution | None = None,
        change: Change | None = None,
    ) -> DeletionBound:
        """The estimated bound for the score of one deletion; collective.

        Args:
            name: the term.
            norm: the norm of the score.
            deleted: the solution of the deleted problem, where it is known already.
            change: the deletion, where it sets other coefficients as well.

        Raises:
            NotCovered: the levels say nothing about it.
            SolveError: it could not be solved on a level.
        """
        change = change or delete(name)
        if not self.ready(name, change):
            self.prepare({name: change})
        found = self._found[name][1]
        if found.solution is None:
            raise SolveError(found.reason, found.history, found.cause)
        better = self.levels.deletion(name, norm, found.solution, change)
        given = deleted or self.model.solve(change_on(change, self.model))
        score = given.distance(self.model.factual, norm)
        sizes = [solution.factual.norm(norm) for solution in (self.model, self.raised)]
        factual = self._apart(norm, [(self.model.factual, 1.0)], [(self.raised.factual, 1.0)])
        change_apart = self._apart(
            norm,
            [(self.model.factual, 1.0), (given, -1.0)],
            [(self.raised.factual, 1.0), (found.solution, -1.0)],
        )
        away = abs(score - better.score) + found.error
        margin = away + better.margin
        eta = max(HIDDEN * factual, abs(sizes[0] - sizes[1])) + better.eta_factual
        difference = max(HIDDEN * change_apart + better.difference, margin)
        return DeletionBound(
            name,
            score,
            eta,
            eta + difference,
            difference,
            margin,
            self._certificate(
                better, score, away, margin, abs(sizes[0] - sizes[1]) + better.size_error
            ),
            (better.score, better.margin),
        )

    def _certificate(
        self, better: DeletionBound, score: float, away: float, margin: float, size: float
    ) -> Certificate:
        cells = "the same cells" if self.factor == SAME else f"cells {self.factor:g} times as large"
        return dataclasses.replace(
            better.certificate,
            value=margin,
            inequality=(
                f"|‖u − u_j‖ − {score:.4g}| ≲ |δ_p − δ_h| + ρ_p = {away:.4g} + "
                f"{better.margin:.4g} = {margin:.4g}"
            ),
            formula=(
                r"\bigl|\,\|u-u_j\| - \|u_h-u_{jh}\|\,\bigr| \lesssim "
                rf"|\delta_p-\delta_h| + \rho_p = {margin:.4g}"
            ),
            hypotheses=(
                (
                    "the score of elements of the next degree is known by its own levels",
                    f"on {cells}, with the statements below about them",
                ),
                *better.certificate.hypotheses,
            ),
            constants={**better.certificate.constants, AWAY: away, SIZE_ERROR: size},
            method=(
                f"elements of the next degree on {cells}, with two coarser levels of them, "
                "saturation seen"
            ),
        )

    def _apart(
        self,
        norm: str,
        own: list[tuple[Solution, float]],
        raised: list[tuple[Solution, float]],
    ) -> float:
        """How far a field is from that of the next degree, on the user's cells."""
        if self.factor == SAME:
            return self._apart_above(norm, own, raised)
        assert self._up is not None
        spaces = self.raised.spaces, self.model.spaces
        parts: list[Part] = [(list(solution.states), weight) for solution, weight in own]
        parts += [
            (raised_states(solution.states, *spaces, self._up), -weight)
            for solution, weight in raised
        ]
        return self._size(self.model, norm, parts)

    def _apart_above(
        self,
        norm: str,
        own: list[tuple[Solution, float]],
        raised: list[tuple[Solution, float]],
    ) -> float:
        """The same on the same cells, in the space of the next degree, which contains them."""
        if self._ladder is None:
            self._ladder = Ladder(self.model, DEGREE)
            self._ladder.models.append(self.raised)
            self._up = self._ladder.embeddings(0, 1)
        assert self._up is not None
        spaces = self.model.spaces, self.raised.spaces
        parts: list[Part] = [
            (raised_states(solution.states, *spaces, self._up), weight) for solution, weight in own
        ]
        parts += [(list(solution.states), -weight) for solution, weight in raised]
        return self._size(self.raised, norm, parts)

    @staticmethod
    def _size(model: Model, norm: str, parts: list[Part]) -> float:
        gram = gram_matrix(model.norm(norm), [parts], grids([model]))
        return math.sqrt(max(float(gram[0, 0]), 0.0))

    def destroy(self) -> None:
        """Free all levels; collective."""
        self.levels.destroy()
        self.raised.destroy()
