# SPDX-License-Identifier: MIT
"""The callback that refinement until decided drives: certificates of a model's deletions on ever
finer discretisations.

Level 0 is the user's own mesh and time step, the coarsest of all. Each level divides the cells in
which undecided differences u − u_j are rough (`cffem.bounds.levels.adapted`), or every cell where
that is not possible, and halves the time step. Elements of first order gain little by smaller
cells, so that their degree is raised instead. A level whose solutions, or the finer ones that its
certificates need, are beyond the budget is not entered.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cffem.bounds.certificate import DeletionBound, NotCovered
from cffem.bounds.curves import with_curve
from cffem.bounds.entrance import best_certificates, estimates_of
from cffem.bounds.levels.adapted import AdaptedLevels
from cffem.bounds.levels.around import BELOW
from cffem.bounds.levels.ladders import BOTH, RAISED, Ladder, first_order
from cffem.bounds.refits import recognised
from cffem.symbols.problem.interventions import delete

if TYPE_CHECKING:
    from cffem.bounds.certificate import NoCertificate
    from cffem.bounds.certifiers import Asked
    from cffem.bounds.levels.estimates import Estimates
    from cffem.engine.model import Model
    from cffem.symbols.problem.interventions import Intervention


# What the estimates of one adapted level may cost, in units of a sweep there: levels below it and
# elements of the next degree on larger cells. Where these do not decide, the next adapted level is
# cheaper than levels above this one.
ADAPTED_EFFORT = 1.5


class Refinement:
    """Certificates of deletions by level.

    Args:
        model: the model.
        certification: norm, budget and means.
        first: bounds that are known already on level 0, by term.
        changes: for each term the deletion, where it sets other coefficients as well.
        adapt: whether cells are divided where the differences of these deletions need it, as far
            as that is possible, instead of everywhere.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_square
        >>> from cffem.verdicts.until_decided import decide_by_refinement
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_square(MPI.COMM_SELF, 2, 2),
        ...     elements={u: ("Lagrange", 1)},
        ...     boundary=[cf.Dirichlet(u, 0)],
        ...     forcing={u: 1},
        ... )
        >>> model = cf.Model(library, {"lap": 1.0, "u": -5.0}, experiment)
        >>> verdict = decide_by_refinement(
        ...     ["u"], 5e-3, Refinement(model, cf.Certification(budget=1e4))
        ... )["u"]
        >>> verdict.decision, verdict.level > 0
        ('relevant', True)
    """

    def __init__(
        self,
        model: Model,
        certification: Asked,
        first: Mapping[str, Any] | None = None,
        changes: Mapping[str, Intervention] | None = None,
        adapt: bool = True,
    ):
        self.given, self.certification = model, certification
        self.first = dict(first or {})
        self.changes = {
            name: recognised(model, name, change) for name, change in (changes or {}).items()
        }
        self._adapt = adapt
        self._ladder: Ladder | AdaptedLevels | None = None
        self._way = RAISED if first_order(model) else BOTH

    def __call__(self, names: tuple[str, ...], level: int) -> dict[str, Any] | None:
        """The bounds of some terms on a level, or None where it is beyond the budget or
        cannot be reached; collective.
        """
        model = self._model(names, level)
        if model is None:
            return None
        known = self.first if level == 0 else {}
        asked = [name for name in names if name not in known]
        if level and isinstance(self._ladder, AdaptedLevels):
            self._frugal(model)
        found = best_certificates(model, asked, self._means(level), self.changes)
        if level:
            # Cells are divided, but the curve that they stand for is as far away as before.
            found = {name: self._with_curve(name, bound) for name, bound in found.items()}
        return {
            name: known[name] if name in known else _about_the_best(found[name]) for name in names
        }

    def _with_curve(
        self, name: str, bound: DeletionBound | NoCertificate
    ) -> DeletionBound | NoCertificate:
        return with_curve(
            self.given, bound, self.changes.get(name) or delete(name), None, self.certification.norm
        )

    @property
    def words(self) -> str:
        """What is done to the discretisation from level to level."""
        if isinstance(self._ladder, AdaptedLevels) and min(self._ladder.shares, default=1) < 1:
            shares = ", ".join(f"{share:.0%}" for share in self._ladder.shares)
            return f"with cells divided where u − u_j is rough ({shares} of them), steps halved,"
        return (
            "with the degree raised and the time step halved"
            if self._way == RAISED
            else "on the mesh and time step refined"
        )

    def _means(self, level: int) -> Asked:
        """What is asked of certificates on a level."""
        if level == 0 or not isinstance(self._ladder, AdaptedLevels):
            return self.certification
        effort = min(self.certification.effort, ADAPTED_EFFORT)
        return replace(self.certification, effort=effort)  # type: ignore[type-var]

    def _frugal(self, model: Model) -> Estimates:
        """The estimates on an adapted level, for which nothing is too small to count."""
        means = self._means(1)
        return estimates_of(model, means.budget, means.effort, small=0.0)

    def model(self, level: int) -> Model | None:
        """The model on a level, None where it is beyond the budget or cannot be reached;
        collective.
        """
        return self._model((), level)

    def _model(self, names: tuple[str, ...], level: int) -> Model | None:
        if level == 0:
            return self.given
        try:
            self._ladder = self._ladder or self._new_ladder(names)
            return self._ladder.model(level) if self._affordable(level) else None
        except NotCovered:
            return None

    def _new_ladder(self, names: tuple[str, ...]) -> Ladder | AdaptedLevels:
        """Adapted levels where there are any; all open terms count there, whichever comes first."""
        everything = dict.fromkeys([*self.first, *self.changes, *names])
        changes = {name: self.changes.get(name) or delete(name) for name in everything}
        if self._adapt and self._way == BOTH and changes:
            asked = self.certification

            def around(model: Model) -> Any:
                if model is not self.given:
                    return self._frugal(model).around(BELOW)
                return estimates_of(model, asked.budget, asked.effort).around(BELOW)

            with contextlib.suppress(NotCovered):
                return AdaptedLevels(self.given, changes, asked.norm, around)
        return Ladder(self.given, self._way)

    def _affordable(self, level: int) -> bool:
        """Whether a level is small, or the factual solve and one deletion there are within the
        effort, in units of the study.
        """
        assert self._ladder is not None
        asked, size = self.certification, self._ladder.size(level)
        if size <= asked.largest or asked.budget is not None:
            return bool(size <= asked.largest)
        price = size / self._ladder.size(0) * 2 / (1 + len(self.given.active))
        return bool(price <= asked.effort)

    def destroy(self) -> None:
        """Free the finer models; collective."""
        if self._ladder is not None:
            self._ladder.destroy()


def _about_the_best(bound: DeletionBound | NoCertificate) -> DeletionBound | NoCertificate:
    """The same bound about the best value of the score that its levels give."""
    if not isinstance(bound, DeletionBound) or bound.best is None:
        return bound
    score, margin = bound.best
    inequality, formula = statements(score, margin)
    certificate = replace(bound.certificate, value=margin, inequality=inequality, formula=formula)
    return replace(bound, score=score, margin=margin, certificate=certificate)


def statements(score: float, margin: float) -> tuple[str, str]:
    """What an estimate claims about the combination of all its levels, in words and as a
    formula.
    """
    inequality = (
        f"|‖u − u_j‖ − {score:.4g}| ≲ ρ_δ(u − u_j) = {margin:.4g}, for the combination of all "
        "levels"
    )
    return (
        inequality,
        rf"\bigl|\,\|u-u_j\| - \delta^*\,\bigr| \lesssim \rho_\delta(u-u_j) = {margin:.4g}",
    )
