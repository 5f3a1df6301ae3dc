# SPDX-License-Identifier: MIT
"""Constraint-null terms: those that vanish on the class M, with what proves it and what was
measured.

A term is constraint-null if T_j[u] = 0 for every u in M. In an equation that is tested against M
only (the multiplier takes up the rest, as a pressure does), it is enough that T_j[u] is orthogonal
to M, as gradients are. Symbolic evidence is a proof by rewriting modulo the constraint; numeric
evidence is the ratio ‖T_j[P w]‖ / ‖T_j[w]‖ over random fields from smooth to rough and, for linear
terms, of operator norms, bounded from above (`norm_bound`), at the level of round-off. What is
proved but not at round-off is null up to discretisation. A term that vanishes on the trajectory
only is no null term: this experiment cannot see it, another one could.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
import ufl

from cffem.constraints.evaluation import Evaluation, projected
from cffem.constraints.modulo import Modulo
from cffem.constraints.natural import potential, traces_agree, vanishes_on
from cffem.constraints.norm_bound import NormBound
from cffem.constraints.projections.base import integral
from cffem.constraints.projections.choose import projection_of
from cffem.constraints.random_fields import scales
from cffem.engine.assembly.traces import essential as all_given
from cffem.engine.response.samples import level_states
from cffem.forms.elements import HCURL, carrier
from cffem.symbols.problem.constraint_classes import DivergenceFree

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution


@dataclass(frozen=True)
class NullSettings:
    """When a term counts as null.

    Args:
        round_off: times the tolerance of the projection: what two passes of it, an auxiliary
            solve and the assembly leave of a term that is null.
        doubt: ratio above which samples leave no doubt that a term is not null; below it linear
            terms are judged by their operator norms.
        seeds: random fields of the class on which terms are sampled.
        levels: time levels of the trajectory on which terms are sampled.
    """

    round_off: float = 1e3
    doubt: float = 1e-5
    seeds: int = 2
    levels: int = 4


NULLS = NullSettings()


UP_TO_DISCRETISATION = "null up to discretisation"


@dataclass(frozen=True)
class TermEvidence:
    """What is known about one term on the constraint class.

    Attributes:
        term: the term's name.
        status: "constraint_null", "vanishes_on_trajectory" or "active".
        kind: "vanishes" (T_j[u] = 0 on the class), "gradient" (orthogonal to the class, where the
            equation is tested against it only) or "".
        evidence: "symbolic", "numeric", "symbolic and numeric" or "".
        ratio: the largest ratio of the term on the class to the term on all fields (for gradients:
            of the part that the class sees to the whole).
        trajectory: ‖T_j[u]‖ / (σ_max(T_j) ‖u‖) on the solution, nan where it was not asked for.
        distance: how far the solution is from the class, relative to its norm; nan likewise.
        label: "exact", "null up to discretisation" or "".
        reason: a sentence for the report.
        bound: for linear terms that are null, what the ratio of operator norms exceeds with a
            probability of 1e-6 at most, whatever the samples were; nan for the others.
    """

    term: str
    status: str
    kind: str
    evidence: str
    ratio: float
    trajectory: float
    distance: float
    label: str
    reason: str
    bound: float = float("nan")


class ConstraintAnalysis:
    """Everything about a model's terms on the constraint class that its experiment declares.

    Args:
        model: a model with a constraint.
        tested: whether the equation is tested against the class only; default: where the constraint
            names its multiplier, as the pressure of a flow.
        trajectory: whether the factual solution is looked at as well (it is solved if need be), or
            another solution of the model.
        names: the terms to look at (default: all).
    """

    def __init__(
        self,
        model: Model,
        tested: bool | None = None,
        trajectory: bool | Solution = True,
        names: Sequence[str] | None = None,
    ):
        self.model = model
        self.constraint = model.experiment.constraint
        self.projection = projection_of(model)
        self.evaluation = Evaluation(model)
        self.modulo = Modulo(self.constraint, model.discretisation.mesh.geometry.dim)
        self.tested = self.constraint.multiplier is not None if tested is None else tested
        self.names = tuple(model.library.names if names is None else names)
        self.threshold = NULLS.round_off * self.projection.tolerance
        self.with_trajectory = trajectory is not False
        self._solution = None if isinstance(trajectory, bool) else trajectory

    # Samples
    # ----------------------------------------------------------------------------------------------

    @cached_property
    def samples(self) -> list[tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]]:
        """Pairs (w, P w) of state, rate and acceleration, from smooth to rough."""
        found = []
        for scale, wavenumber in enumerate(scales(self.model.discretisation.mesh)):
            for seed in range(NULLS.seeds):
                fields = tuple(
                    self.evaluation.random_state(wavenumber, 10 * seed + 100 * scale + k)
                    for k in range(3)
                )
                found.append((fields, tuple(self.projection.project(w) for w in fields)))
        return found

    @cached_property
    def open_parts(self) -> tuple[str, ...] | None:
        """Boundary parts with a flux of members of the class; None where a gradient would not
        be orthogonal to it anyway.
        """
        d = self.model.discretisation
        field = getattr(self.constraint, "field", None)
        if not isinstance(self.constraint, DivergenceFree) or field is None:
            return None
        conditions = d.boundary.conditions
        if carrier(self.model.spaces.elements[field]).space == HCURL:
            return (
                None if any(all_given(given, field, HCURL) for given in conditions.values()) else ()
            )
        normal, measure = ufl.FacetNormal(d.mesh.ufl_domain()), d.boundary.measure
        member = self.samples[0][1][0]
        function = self.model.spaces.function(field, member)
        level = 1e-20 * self.evaluation.norm(member) ** 2
        through = {
            part: ufl.dot(function, normal) ** 2 * measure(d.boundary.tags[part])
            for part in conditions
        }
        return tuple(part for part, flux in through.items() if integral(flux, d.mesh) > level)

    @property
    def closed(self) -> bool:
        """Whether no member of the class has a flux through the boundary, so that all
        gradients are orthogonal to it.
        """
        return self.open_parts == ()

    def tested_here(self, name: str) -> bool:
        """Whether a term stands in the equation that is tested against the class only."""
        return self.tested and self.model.library.locate(name)[0] in self.constraint.fields

    # Evidence
    # ----------------------------------------------------------------------------------------------

    def proof(self, name: str) -> str:
        """What is proved symbolically: "vanishes", "gradient" or nothing."""
        term, d = self.model.library[name], self.model.discretisation
        if not traces_agree(d, self.modulo, {name: sp.S.One}):
            return ""
        if self.modulo.vanishes(term):
            return "vanishes"
        if (
            not self.tested_here(name)
            or self.open_parts is None
            or not self.modulo.is_gradient(term)
        ):
            return ""
        if self.open_parts:
            found = potential(term, self.modulo)
            if found is None or not vanishes_on(
                self.open_parts, found, d, [members[0] for _, members in self.samples]
            ):
                return ""
        return "gradient"

    def class_ratio(self, name: str) -> float:
        """The largest ‖T_j[P w]‖ / ‖T_j[w]‖, by samples and, in doubt, by operator norms."""
        evaluation, largest = self.evaluation, 0.0
        for fields, members in self.samples:
            whole = evaluation.dual_norm(evaluation.functional(name, fields))
            inside = evaluation.dual_norm(evaluation.functional(name, members))
            largest = max(largest, inside / whole if whole else 0.0)
        return max(largest, self.operator_ratio(name)) if self.in_doubt(name, largest) else largest

    def tested_ratio(self, name: str) -> float:
        """The largest share of T_j[P w] that test functions of the class see, by samples and
        operator norms.
        """
        largest = max(self.share(name, members) for _, members in self.samples)
        return (
            max(largest, self.operator_ratio(name, True))
            if self.in_doubt(name, largest)
            else largest
        )

    def in_doubt(self, name: str, ratio: float) -> bool:
        """Whether samples leave open that a linear term is null; a larger ratio is itself a
        member on which it is not.
        """
        return ratio <= NULLS.doubt and self.evaluation.linear(name)

    def operator_ratio(self, name: str, tested: bool = False) -> float:
        """The largest ratio of operator norms of a linear term on the class and on all
        fields, as SLEPc finds them.
        """
        largest = 0.0
        for order in self.evaluation.orders(name):
            whole = self.singular_value(name, order)
            maps = projected(*self.evaluation.operator(name, order), self.projection, tested)
            inside = self.evaluation.largest_singular_value(*maps, scale=whole)
            largest = max(largest, inside / whole if whole else 0.0)
        return largest

    def operator_bound(self, name: str, tested: bool = False) -> float:
        """What that ratio exceeds with a probability of a millionth at most.

        The norm on all fields is taken from below and the norm on the class from above, so that the
        ratio is bounded from above.
        """
        largest = 0.0
        for order in self.evaluation.orders(name):
            whole = self.singular_value(name, order)
            inside, _ = projected(*self.evaluation.operator(name, order), self.projection, tested)
            largest = max(largest, self.norm_bound(inside) / whole if whole else 0.0)
        return largest

    @cached_property
    def norm_bound(self) -> NormBound:
        """Bounds of operator norms."""
        return NormBound(self.evaluation)

    @property
    def bound_threshold(self) -> float:
        """Round-off in a bound: it is added up over all unknowns, which counts from ten
        thousand of them.
        """
        return self.threshold * max(1.0, math.sqrt(self.model.spaces.size) / 100)

    def share(self, name: str, members: tuple[np.ndarray, ...]) -> float:
        """The share of T_j[w] that test functions of the class see, for one member w with its
        rate and acceleration.
        """
        image = self.evaluation.representative(self.evaluation.functional(name, members))
        size = self.evaluation.norm(image)
        return self.evaluation.norm(self.projection.project(image)) / size if size else 0.0

    def singular_value(self, name: str, order: int) -> float:
        """σ_max of a linear term on all fields, found once."""
        key = name, order
        if key not in self._singular:
            self._singular[key] = self.evaluation.largest_singular_value(
                *self.evaluation.operator(name, order)
            )
        return self._singular[key]

    @cached_property
    def _singular(self) -> dict[tuple[str, int], float]:
        return {}

    @cached_property
    def levels(self) -> list[tuple[np.ndarray, ...]]:
        """State, rate and acceleration of the solution at a few times."""
        solution = self.model.factual if self._solution is None else self._solution
        last = len(solution.states) - 1
        chosen = sorted({round(k) for k in np.linspace(min(1, last), last, NULLS.levels)})
        return [level_states(solution, k) for k in chosen]

    def trajectory_ratio(self, name: str) -> float:
        """The largest ‖T_j[u]‖ / (σ_max(T_j) ‖u‖) on the factual solution; of nonlinear terms
        against random w of equal norm.
        """
        evaluation, largest = self.evaluation, 0.0
        for states in self.levels:
            image = evaluation.representative(evaluation.functional(name, states))
            if self.tested_here(name):
                image = self.projection.project(image)
            sizes = self._sizes(states)
            if evaluation.linear(name):
                scale = sum(
                    self.singular_value(name, order) * sizes[order]
                    for order in evaluation.orders(name)
                )
            else:
                scale = self._random_size(name, states, sizes)
            largest = max(largest, evaluation.norm(image) / scale if scale else 0.0)
        return largest

    def _sizes(self, states: tuple[np.ndarray, ...]) -> tuple[float, ...]:
        """Norms of state, rate and acceleration; those of a field at rest are not taken below
        its size over the time window.
        """
        window = self.model.experiment.time
        span = window.end - window.start if window is not None else 1.0
        first = self.evaluation.input_norm(states[0])
        return tuple(
            max(0.0 if u is None else self.evaluation.input_norm(u), first / span**k)
            for k, u in enumerate(states)
        )

    def _random_size(
        self, name: str, states: tuple[np.ndarray, ...], sizes: tuple[float, ...]
    ) -> float:
        """The largest ‖T_j[w]‖ over random fields with the norms of these states."""
        evaluation, largest = self.evaluation, 0.0
        for fields, _ in self.samples:
            scaled = []
            for state, size, field in zip(states, sizes, fields, strict=True):
                norm = evaluation.norm(field)
                scaled.append(None if state is None else field * (size / norm if norm else 0.0))
            largest = max(largest, evaluation.dual_norm(evaluation.functional(name, tuple(scaled))))
        return largest

    @cached_property
    def trajectory_distance(self) -> float:
        """How far the factual solution is from the class, relative to its norm."""
        return max(self.projection.distance(states[0]) for states in self.levels)

    # Verdicts
    # ----------------------------------------------------------------------------------------------

    def evidence(self, name: str) -> TermEvidence:
        """Everything about one term."""
        proof, ratio, kind = self.proof(name), self.class_ratio(name), "vanishes"
        if ratio > self.threshold and proof != "vanishes" and self.tested_here(name):
            ratio, kind = self.tested_ratio(name), "gradient"
        numeric, bound = ratio <= self.threshold, float("nan")
        if numeric and self.evaluation.linear(name):
            bound = self.operator_bound(name, kind == "gradient")
            numeric = bound <= self.bound_threshold
        trajectory, distance = float("nan"), float("nan")
        if self.with_trajectory:
            trajectory, distance = self.trajectory_ratio(name), self.trajectory_distance
        found, label, status = "", "", "active"
        if numeric or proof:
            found = " and ".join(
                word for word, there in (("symbolic", bool(proof)), ("numeric", numeric)) if there
            )
            label, status = "exact" if numeric else UP_TO_DISCRETISATION, "constraint_null"
        elif trajectory <= self.threshold:
            status = "vanishes_on_trajectory"
        kind = (proof or kind) if label else ""
        reason = self._reason(status, kind, label)
        return TermEvidence(
            name, status, kind, found, ratio, trajectory, distance, label, reason, bound
        )

    def _reason(self, status: str, kind: str, label: str) -> str:
        if status == "active":
            return "it does not vanish on the class"
        if status == "vanishes_on_trajectory":
            return (
                "it vanishes on this trajectory but not on the class: aliased in this experiment, "
                "another one can identify it"
            )
        what = "it is zero for every field that obeys the constraint"
        if kind == "gradient":
            what = (
                "it is orthogonal to every field that obeys the constraint, so the multiplier "
                "takes it up"
            )
        if label != "exact":
            what += ", in the limit of fine meshes"
        if self.with_trajectory and self.trajectory_distance > self.threshold:
            distance = f"{self.trajectory_distance:.1e}"
            what += (
                f"; the solution itself is at a relative distance of {distance} from the class, "
                "so project it first"
            )
        return what

    @cached_property
    def terms(self) -> dict[str, TermEvidence]:
        """The evidence for every term."""
        return {name: self.evidence(name) for name in self.names}

    @property
    def nulls(self) -> list[TermEvidence]:
        """The constraint-null terms."""
        return [found for found in self.terms.values() if found.status == "constraint_null"]

    def destroy(self) -> None:
        """Free PETSc objects; collective."""
        self.evaluation.destroy()
        self.projection.destroy()


def constraint_nulls(
    model: Model, tested: bool | None = None, trajectory: bool | Solution = True
) -> list[TermEvidence]:
    """The terms of a model that vanish on its constraint class; see `ConstraintAnalysis` for the
    arguments.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_cube
        >>> E = cf.VectorField("E", dim=3)
        >>> library = cf.Library(
        ...     anchor=cf.dt(E),
        ...     terms={"rotation": -cf.curl(cf.curl(E)), "graddiv": cf.grad(cf.div(E))},
        ... )
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_cube(MPI.COMM_SELF, 2, 2, 2),
        ...     elements={E: ("N1curl", 1)},
        ...     boundary=[cf.Tangential(E, 0)],
        ...     initial={E: (cf.y, cf.z, cf.x)},
        ...     time=cf.Window(0, 0.1, steps=2),
        ...     constraint=cf.DivergenceFree(E),
        ... )
        >>> model = cf.Model(library, {"rotation": 1.0, "graddiv": 1.0}, experiment)
        >>> [(null.term, null.evidence) for null in model.constraint_nulls()]
        [('graddiv', 'symbolic and numeric')]
    """
    analysis = ConstraintAnalysis(model, tested, trajectory)
    found = analysis.nulls
    analysis.destroy()
    return found
