# SPDX-License-Identifier: MIT
"""The entrance: certificates of a model's solutions and deletions, or the reason why there is
none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cffem.bounds.certificate import Certificate, DeletionBound, NoCertificate, NotCovered
from cffem.bounds.certifiers import CERTIFIERS, Certifier
from cffem.bounds.changed import ChangedProblem
from cffem.bounds.curves import solution_with_curve, with_curve
from cffem.bounds.later_bars import LaterBars
from cffem.bounds.levels.beside import AWAY
from cffem.bounds.levels.estimates import EFFORT, SMALL, WAYS, Estimates, Tried
from cffem.bounds.levels.ladders import DEGREE, Ladder
from cffem.bounds.parabolic.enriched import FINER
from cffem.bounds.refits import Change, RefittedDeletion, deleted_term, recognised
from cffem.bounds.scalar_problem import only_unknown
from cffem.bounds.waves.wave_enriched import FINER as FINER_WAVES
from cffem.engine.solve.linear import SolveError
from cffem.symbols.problem.interventions import Intervention, delete

if TYPE_CHECKING:
    from cffem.bounds.certifiers import Asked
    from cffem.engine.deletion.sweep import Deletion
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution


NORMS = ("L2", "H1", "energy")
# Enrichment makes margins smaller by factors up to about this one.
WORTH = 10.0


def certifier(model: Model, enriched: bool = False) -> Certifier | NoCertificate:
    """The certifier of a model, made once, or the reason why there is none; collective."""
    return model.once(("certifier", enriched), lambda: certifier_for(model, enriched))


def certifier_for(model: Any, enriched: bool = False) -> Certifier | NoCertificate:
    """A new certifier of a model, or the reason why there is none; collective.

    The kinds of `CERTIFIERS` are asked whether they cover the model, the last added first.
    """
    if model.experiment.stabilisation:
        return NoCertificate("the equation is stabilised by SUPG")
    try:
        for kind in CERTIFIERS.latest_first():
            if kind.enriched == enriched and kind.covers(model):
                return kind.make(model)
        only_unknown(model.library)
    except NotCovered as reason:
        return NoCertificate(str(reason))
    return NoCertificate("no certifier covers this problem")


def certify_deletion(
    model: Model,
    name: str,
    norm: str = "L2",
    deleted: Solution | None = None,
    enriched: bool = False,
) -> DeletionBound | NoCertificate:
    """How far the computed score of a deletion can be from the true one; collective.

    Args:
        model: the model.
        name: the term.
        norm: the norm of the score.
        deleted: the solution of the deleted problem, where it is known already.
        enriched: whether the problem is also solved with one degree more, which costs more and
            bounds more sharply.

    Returns:
        A `DeletionBound`, or a `NoCertificate` (false, infinite margin) with the reason.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_square
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_square(MPI.COMM_SELF, 4, 4),
        ...     elements={u: ("Lagrange", 1)},
        ...     boundary=[cf.Dirichlet(u, 0)],
        ...     forcing={u: 1},
        ... )
        >>> bound = certify_deletion(cf.Model(library, {"lap": 1.0, "u": -5.0}, experiment), "u")
        >>> 0 < bound.margin < bound.eta_factual + bound.eta_counterfactual
        True
    """
    if norm not in NORMS:
        return NoCertificate(f"there is no certificate in the norm {norm}")
    asked = delete(name).apply(model.coefficients)
    change = delete(name) if deleted is None else deleted.intervention
    if not change.only_coefficients or change.apply(model.coefficients) != asked:
        return NoCertificate(f"without {name}: the given solution is that of {change}")
    found = certifier(model, enriched)
    if isinstance(found, NoCertificate):
        return found
    try:
        return with_curve(model, found.deletion(name, norm, deleted), change, deleted, norm)
    except (NotCovered, SolveError) as reason:
        return NoCertificate(f"without {name}: {reason}")


def certify_solution(
    model: Model,
    intervention: Intervention | None = None,
    norm: str = "L2",
    enriched: bool = False,
    solution: Solution | None = None,
) -> Certificate | NoCertificate:
    """The error bound of the factual solution, or of that of an intervention; collective.

    Args:
        model: the model.
        intervention: what is changed about the problem: coefficients, forcing, initial or boundary
            values.
        norm: the norm of the bound.
        enriched: whether the problem is also solved with one degree more, which costs more and
            bounds more sharply.
        solution: the solution, where it is known already; its own intervention counts then.

    Returns:
        A `Certificate` of the problem that was solved, or a `NoCertificate` with the reason.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_square
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_square(MPI.COMM_SELF, 4, 4),
        ...     elements={u: ("Lagrange", 1)},
        ...     boundary=[cf.Dirichlet(u, 0)],
        ...     forcing={u: 1},
        ... )
        >>> model = cf.Model(library, {"lap": 1.0, "u": -5.0}, experiment)
        >>> twice = certify_solution(model, cf.force({u: 2}))
        >>> round(twice.value / certify_solution(model).value, 6)
        2.0
    """
    if norm not in NORMS:
        return NoCertificate(f"there is no certificate in the norm {norm}")
    try:
        solution = solution or (
            model.factual if intervention is None else model.solve(intervention)
        )
        if not solution.intervention.only_coefficients:
            return solution_with_curve(
                model, _certify_changed(model, solution, norm, enriched), solution, norm
            )
        found = certifier(model, enriched)
        if isinstance(found, NoCertificate):
            return found
        return solution_with_curve(model, found.solution(solution, norm), solution, norm)
    except (NotCovered, SolveError) as reason:
        return NoCertificate(str(reason))


def _certify_changed(
    model: Model, solution: Solution, norm: str, enriched: bool
) -> Certificate | NoCertificate:
    """The error bound of a solution whose intervention changes data, by a certifier of the
    changed problem.
    """
    changed = ChangedProblem(model, solution)
    found = certifier_for(changed, enriched)
    if isinstance(found, NoCertificate):
        return found
    try:
        return found.solution(changed.factual, norm)
    finally:
        found.destroy()


def certify_sweep(
    model: Model, sweep: Mapping[str, Deletion], certification: Asked
) -> dict[str, DeletionBound | NoCertificate]:
    """The best certificate that applies to each deletion of a sweep, or the reason why there is
    none; collective.

    Args:
        model: the model.
        sweep: its deletions, as `model.deletions(keep=True)` gives them; kept solutions are not
            computed again.
        certification: norm and means of the certificates.

    Returns:
        By term; a deletion that was not solved is a `NoCertificate`.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_square
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_square(MPI.COMM_SELF, 4, 4),
        ...     elements={u: ("Lagrange", 1)},
        ...     boundary=[cf.Dirichlet(u, 0)],
        ...     forcing={u: 1},
        ... )
        >>> model = cf.Model(library, {"lap": 1.0, "u": -5.0}, experiment)
        >>> bounds = certify_sweep(model, model.deletions(), cf.Certification())
        >>> bounds["u"].certificate.kind, bounds["lap"].certificate.kind
        ('guaranteed', 'estimated')
    """
    solved = {name: deletion for name, deletion in sweep.items() if deletion.status == "solved"}
    changes = {name: deletion.intervention for name, deletion in solved.items()}
    deleted = {name: deletion.solution for name, deletion in solved.items()}
    found = best_certificates(model, list(solved), certification, changes, deleted)
    return {
        name: found[name]
        if name in found
        else NoCertificate(f"without {name} {_not_solved(deletion)}")
        for name, deletion in sweep.items()
    }


def _not_solved(deletion: Deletion) -> str:
    if deletion.status == "decided":
        return "the score is a lower bound, which was not followed to the end of the window"
    return f"the problem is unsolvable: {deletion.reason}"


def best_certificates(
    model: Model,
    names: Sequence[str],
    certification: Asked,
    changes: Mapping[str, Change | None] | None = None,
    deleted: Mapping[str, Solution | None] | None = None,
) -> dict[str, DeletionBound | NoCertificate]:
    """The best certificates of some deletions; collective.

    A guaranteed certificate if there is one and it decides: the plain one, or an enriched one where
        that is asked for, or where the
    plain one does not decide and the enriched problem is within the budget. Else an estimated one
    that decides; else the sharpest guaranteed one, if there is one.

    Args:
        model: the model.
        names: the terms.
        certification: tolerance, norm and means.
        changes: the deletions, where they set other coefficients as well.
        deleted: their solutions, where they are known already.
    """
    asked = {name: (changes or {}).get(name) for name in names}
    found = certify_deletions(model, asked, {"": certification}, deleted or {})
    return {name: found[name][""] for name in names}


def certify_deletions(
    model: Model,
    changes: Mapping[str, Change | None],
    asked: Mapping[str, Any],
    solutions: Mapping[str, Solution | None],
    finished: Callable[[str, Mapping[str, DeletionBound | NoCertificate]], object] | None = None,
) -> dict[str, dict[str, DeletionBound | NoCertificate]]:
    """The best certificates of some deletions in one or several norms, within the budget;
    collective.

    Problems that no guaranteed certificate decides are solved on other levels together, once for
    all norms.

    Args:
        model: the model.
        changes: the deletions by term, None for the plain one.
        asked: tolerance, norm and means; several certifications by a name of one's own, which
            differ in their norm only.
        solutions: deleted solutions by term, as far as they are known; each is taken from there
            when it is needed.
        finished: called with each term and its bounds as soon as they are there.

    Returns:
        By term and by the names of what was asked.
    """
    wanted = {name: recognised(model, name, change) for name, change in changes.items()}
    targets = {key: Target(each, model.factual.norm(each.norm)) for key, each in asked.items()}
    found: dict[str, dict[str, DeletionBound | NoCertificate]] = {}
    rest: dict[str, Change] = {}

    def done(name: str) -> None:
        found[name] = {key: targets[key].sized(bound) for key, bound in found[name].items()}
        if finished is not None:
            finished(name, found[name])

    means = next(iter(asked.values()))
    later = LaterBars(model, means)
    for name, change in wanted.items():
        solution = None if later.postponed else solutions.get(name)
        found[name] = {
            key: later.too_dear()
            if later.postponed
            else _best_guaranteed(model, name, change, solution, target)
            for key, target in targets.items()
        }
        if all(target.decided(found[name][key]) for key, target in targets.items()):
            done(name)
        elif _on_one_mesh(change):
            functions = NoCertificate(
                "data of the intervention are functions on the mesh, which say nothing about others"
            )
            found[name] = {
                key: _better(bound, functions, targets[key]) for key, bound in found[name].items()
            }
            done(name)
        else:
            rest[name] = change
    if not rest:
        return found
    estimates = estimates_of(model, means.budget, means.effort)
    firm = not means.refine
    tried = {
        name: {
            key: Tried(
                name,
                target.certification.norm,
                change,
                firm,
                target.decided,
                target.exceeded,
                # What is asked for by a budget is tried in any case.
                target.lacks if means.budget is None else lambda _: 1.0,
            )
            for key, target in targets.items()
            if not target.decided(found[name][key])
        }
        for name, change in rest.items()
    }

    def estimated(name: str, key: str, bound: DeletionBound | NoCertificate) -> None:
        """What an estimate says, beside the guaranteed bound if there is one."""
        target, solution = targets[key], solutions.get(name)
        bound = with_curve(model, bound, rest[name], solution, target.certification.norm)
        if later.postponed and not target.decided(bound):
            found[name][key] = _later(model, name, rest[name], solution, target, later)
        found[name][key] = _better(found[name][key], bound, target)

    # Terms that one way leaves open are solved for together by the next.
    for way in range(WAYS):
        # There may be no room for all: first those that lack least.
        lacking = {
            name: min(each.lacking for each in left.values()) for name, left in tried.items()
        }
        order = sorted(tried, key=lambda name: (lacking[name], name))
        together = {
            name: rest[name]
            for name in order
            if not _in_part(rest[name])
            and not all(each.left_out(way) for each in tried[name].values())
        }
        if len(together) > 1:
            estimates.prepare(together, firm, way)
        for name in order:
            left = tried[name]
            for key, each in list(left.items()):
                bound = estimates.attempt(way, each, solutions.get(name))
                if bound is not None:
                    estimated(name, key, bound)
                    del left[key]
            if not left:
                done(name)
                del tried[name]
    for name, left in tried.items():
        for key, each in left.items():
            estimated(name, key, estimates.sharpest(each))
        done(name)
    return found


def _later(
    model: Model,
    name: str,
    change: Change,
    deleted: Solution | None,
    target: Target,
    later: LaterBars,
) -> DeletionBound | NoCertificate:
    """The guaranteed bound of a term that estimates leave open, or why there is none."""
    if isinstance(certifier(model), NoCertificate) or later.affordable():
        return _best_guaranteed(model, name, change, deleted, target)
    return later.too_dear()


def _on_one_mesh(change: Change) -> bool:
    """Whether a change has data that are given as functions on a mesh."""
    return isinstance(change, Intervention) and any(
        hasattr(value, "function_space") for value in change.data
    )


def _in_part(change: Change) -> bool:
    """Whether a change is one in a part of the domain or the window, which other levels may not
    have.
    """
    return isinstance(change, Intervention) and bool(change.places or change.spells)


def _better(
    guaranteed: DeletionBound | NoCertificate,
    estimated: DeletionBound | NoCertificate,
    target: Target,
) -> DeletionBound | NoCertificate:
    """Of a guaranteed bound that does not decide, if there is one, and an estimated one."""
    if isinstance(guaranteed, NoCertificate) and isinstance(estimated, NoCertificate):
        return NoCertificate.joined((guaranteed, estimated))
    if isinstance(guaranteed, NoCertificate) or target.decided(estimated):
        return estimated
    return guaranteed


@dataclass(frozen=True)
class Target:
    """What a bound has to be clear of.

    Attributes:
        certification: tolerance, norm and means.
        size: the norm of the factual solution.
    """

    certification: Asked
    size: float

    @property
    def threshold(self) -> float:
        """The absolute tolerance, as far as it is known."""
        return self.certification.threshold(self.size)

    def sized(self, bound: DeletionBound | NoCertificate) -> DeletionBound | NoCertificate:
        """A bound that knows the norm that a relative tolerance is relative to."""
        return replace(bound, size=self.size) if isinstance(bound, DeletionBound) else bound

    def exceeded(self, value: float, error: float) -> bool:
        """Whether a lower bound of a score is above the tolerance, whose factual solution has this
        error.
        """
        return value > self.threshold + self.certification.uncertainty(error)

    def lacks(self, bound: DeletionBound) -> float:
        """By what factor the margin of a bound is too large for a verdict; infinite where the score
        itself is off by more than its distance to the tolerance.
        """
        needed = abs(bound.score - self.threshold)
        away = bound.certificate.constants.get(AWAY, 0.0)
        if not needed or 2 * away - bound.margin > needed:
            return math.inf
        return (bound.margin + self.certification.uncertainty(bound.size_error)) / needed

    def decided(self, bound: DeletionBound | NoCertificate) -> bool:
        """Whether a bound decides, the error of the norm that a relative tolerance is
        relative to included.
        """
        if not isinstance(bound, DeletionBound):
            return False
        return abs(bound.score - self.threshold) > bound.margin + self.certification.uncertainty(
            bound.size_error
        )


def _best_guaranteed(
    model: Model, name: str, change: Change, deleted: Solution | None, target: Target
) -> DeletionBound | NoCertificate:
    """The first guaranteed bound that decides, else the sharpest, else why there is none."""
    certification = target.certification
    if isinstance(change, RefittedDeletion):
        return NoCertificate(
            "the other coefficients are refitted on the computed solution, and no theorem bounds "
            "their errors"
        )
    if change.places or change.spells:
        return NoCertificate(
            "no theorem here speaks of terms that are deleted in a part of the domain or the window"
        )
    reason, best = "", None
    for enriched in (True, False) if certification.enriched else (False, True):
        if enriched and not certification.enriched and not _enriched_next(model, best, target):
            continue
        found = _guaranteed(model, name, change, certification.norm, deleted, enriched)
        if isinstance(found, NoCertificate):
            reason = reason or found.reason
            continue
        if target.decided(found):
            return found
        best = found if best is None else min(best, found, key=lambda bound: bound.margin)
        if certification.enriched:
            break
    return best or NoCertificate(reason)


def _guaranteed(
    model: Model,
    name: str,
    change: Intervention,
    norm: str,
    deleted: Solution | None,
    enriched: bool,
) -> DeletionBound | NoCertificate:
    term = deleted_term(change)
    if deleted is None and (term is None or change != delete(term)):
        try:
            deleted = model.solve(change)
        except SolveError as reason:
            return NoCertificate(f"{name}: {reason}")
    if term is None:
        assert deleted is not None
        return _certify_change(model, name, norm, deleted, enriched)
    found = certify_deletion(model, term, norm, deleted, enriched)
    return found if isinstance(found, NoCertificate) else replace(found, term=name)


def enriched_size(model: Model) -> float:
    """Unknowns times time steps of the enriched problem, infinite where there is none;
    collective.
    """
    try:
        size = Ladder(model, DEGREE).size(1)
    except NotCovered:
        return math.inf
    if model.experiment.time is None:
        return size
    second = {equation.time_order for equation in model.library.equations.values()} == {2}
    return size * (FINER_WAVES if second else FINER)


def _enriched_next(model: Model, plain: DeletionBound | None, target: Target) -> bool:
    affordable = plain is not None and worth_enriching(plain, target.threshold)
    return affordable and enriched_size(model) <= target.certification.largest


def worth_enriching(bound: DeletionBound, threshold: float) -> bool:
    """Whether a bound that does not decide is near enough to doing so for a solve of one
    degree more.
    """
    return bound.margin < WORTH * abs(bound.score - threshold)


def estimates_of(
    model: Model, budget: float | None = None, effort: float = EFFORT, small: float = SMALL
) -> Estimates:
    """The three-level estimates of a model, whose factual levels are solved once.

    Args:
        model, budget, effort, small: see `Estimates`; what is small is what it was when they were
            asked for first.
    """
    key = ("estimates", budget, effort)
    return model.once(key, lambda: Estimates(model, budget, effort, small))


def _certify_change(
    model: Model, name: str, norm: str, deleted: Solution, enriched: bool
) -> DeletionBound | NoCertificate:
    """The sum of both error bounds, for deletions that set other coefficients as well."""
    factual = certify_solution(model, None, norm, enriched)
    other = certify_solution(model, None, norm, enriched, deleted)
    if not isinstance(factual, Certificate) or not isinstance(other, Certificate):
        return next(bound for bound in (factual, other) if isinstance(bound, NoCertificate))
    score, margin = model.factual.distance(deleted, norm), factual.value + other.value
    certificate = replace(
        other,
        value=margin,
        inequality=f"|‖u − u_j‖ − {score:.4g}| ≤ η_factual + η_counterfactual = {margin:.4g}",
        formula=(
            rf"\bigl|\,\|u-u_j\| - \|u_h-u_{{jh}}\|\,\bigr| \leq \eta_{{\mathrm f}}+"
            rf"\eta_{{\mathrm{{cf}}}} = {margin:.4g}"
        ),
    )
    return DeletionBound(name, score, factual.value, other.value, math.inf, margin, certificate)
