# SPDX-License-Identifier: MIT
"""The linearised response of a solution to its terms: u_j'(0) = −L_u⁻¹[α_j T_j[u]], the
residual–counterfactual gap theorem.

The discrete scheme itself is differentiated, so that the response is the exact derivative of the
numbers that `Model.solve` computes. Stage i of a step (see `cffem.engine.time.march`) solves F(W,
(W−B)/γ, ((W−B)/γ−V)/γ) = 0 with B and V made of the level before and of earlier stages; a change
α_j → (1−ρ) α_j moves it by

    J W' = (F_ẇ/γ + F_ẅ/γ²) B' + (F_ẅ/γ) V' − α_j T_j,      J = F_w + F_ẇ/γ + F_ẅ/γ²,

with W' = 0 where the value is essential. All terms share J, one factorisation in all for a linear
equation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.solution import Solution
from cffem.engine.solve.scope import Scope
from cffem.engine.solve.solve_record import SolveRecord
from cffem.engine.time.march import Stage
from cffem.engine.time.start import held_at_start
from cffem.engine.time.stepping import Track
from cffem.engine.time.trajectories import Levels
from cffem.symbols.problem.interventions import delete

if TYPE_CHECKING:
    from petsc4py import PETSc

    from cffem.engine.model import Model
    from cffem.engine.solve.stage_types import StageValues, StageVectors


class Linearisation(Scope):
    """The discrete equation linearised about the stages of a solution, one stage at a time.

    Args:
        solution: a solution with its stages.
        record: takes the statistics of the solves.

    Attributes:
        coefficients: the coefficients α of the solution.
        gamma: γ = a_ii Δt of the stage, None for a steady problem.
    """

    def __init__(self, solution: Solution, record: SolveRecord):
        if solution.stages is None:
            raise ValueError("the solution was made without its stages; solve with stages=True")
        self.solution = solution
        self.stages = solution.stages
        self.model = solution.model
        self.coefficients = solution.intervention.apply(self.model.coefficients)
        self.stage = self.model.prepared(solution.intervention, record)
        self.equation = self.stage.equation
        marching = self.model.marching
        self.stepping = None if solution.steady else marching.stepping(solution.times)
        self.gamma: float | None = None
        vectors = [self.own(self.equation.new_vector()) for _ in range(5)]
        self._states, self._right, self._out = vectors[:3], vectors[3], vectors[4]
        self._place: StageVectors = (None, None, None)
        self._time = 0.0
        self._partials: dict[int, list[tuple[float, PETSc.Mat]]] = {}

    def gamma_of(self, step: int, index: int) -> float | None:
        """γ of a stage; None for a steady problem."""
        return None if self.stepping is None else self.stepping.gamma(step, index)

    def at(self, step: int, index: int, values: StageValues, time: float) -> None:
        """Linearise at a stage of a step, with the values (W, Ẇ, Ẅ)."""
        self.gamma = self.gamma_of(step, index)
        self._linearise(values, time)

    def _linearise(self, values: StageValues, time: float) -> None:
        for vector, value in zip(self._states, values, strict=True):
            if value is not None:
                vector.array[:] = value
        first, second, third = (
            v if value is not None else None for v, value in zip(self._states, values, strict=True)
        )
        self._place, self._time = (first, second, third), time
        self.stage.linearise(self._place, self.gamma, time)
        self._partials = {}

    @contextmanager
    def starting(self) -> Iterator[bool]:
        """Linearise the equation for the initial values of algebraic fields meanwhile; False
        where there is none.
        """
        if self.stepping is None or not starts_consistently(self.model):
            yield False
            return
        kept = self.stage, self.gamma
        essential = self.stage.essential.holding(held_at_start(self.model))
        self.stage, self.gamma = (
            Stage(self.equation, essential, self.model.petsc_options, self.stage.record),
            None,
        )
        self._linearise((self.solution.states[0], None, None), float(self.solution.times[0]))
        try:
            yield True
        finally:
            self.stage.destroy()
            self.stage, self.gamma = kept

    def term(self, name: str) -> np.ndarray:
        """The vector of ⟨T_j[u], v_i⟩ at this stage."""
        self.equation.term_vector(name, self._place, self._time, self._out)
        return self._out.array_r.copy()

    def solve(self, right: np.ndarray) -> np.ndarray:
        """The increment of a stage value that a right-hand side causes; zero where values are
        essential.
        """
        essential, solver = self.stage.essential, self.stage.solver
        assert solver is not None
        self._right.array[:] = right
        essential.restrict(self._right)
        solver.solve(self._right, self._out, "the linearised problem")
        values = self._out.array_r.copy()
        essential.complete(values)
        essential.centre(values)
        return values

    def solve_all(self, rights: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The same for several right-hand sides together."""
        essential, solver = self.stage.essential, self.stage.solver
        assert solver is not None
        columns = np.empty((len(self._right.array_r), len(rights)), order="F")
        for k, right in enumerate(rights):
            self._right.array[:] = right
            essential.restrict(self._right)
            columns[:, k] = self._right.array_r
        found = []
        for values in solver.solve_several(columns, "the linearised problem").T:
            whole = np.array(values)
            essential.complete(whole)
            essential.centre(whole)
            found.append(whole)
        return found

    def solve_transposed(self, right: np.ndarray) -> np.ndarray:
        """The transpose of `solve`: how much each row of the equation matters for a
        functional of the increment.
        """
        essential, solver = self.stage.essential, self.stage.solver
        assert solver is not None
        self._right.array[:] = right
        if essential.floating is not None:
            floating = essential.floating
            surplus = self.model.comm.allreduce(float(right[floating.positions].sum()))
            self._right.array[floating.positions] -= surplus / floating.volume * floating.weights
        if essential.periodicity is not None:
            essential.periodicity.gather(self._right)
        self._right.array[essential.owned] = 0.0
        solver.solve_transpose(self._right, self._out)
        values = self._out.array_r.copy()
        essential.complete(values)
        return values

    def partial(self, order: int, vector: np.ndarray, transposed: bool = False) -> np.ndarray:
        """∂F/∂w (order 0), ∂F/∂ẇ (1) or ∂F/∂ẅ (2), or its transpose, of a vector."""
        if order not in self._partials:
            self._partials[order] = self.equation.partial(order)
        self._right.array[:] = vector
        total = np.zeros(len(vector))
        for factor, matrix in self._partials[order]:
            (matrix.multTranspose if transposed else matrix.mult)(self._right, self._out)
            total += factor * self._out.array_r
        return total


def starts_consistently(model: Model) -> bool:
    """Whether a march begins by solving for fields without a rate."""
    return any(equation.time_order == 0 for equation in model.library.equations.values())


def unset_at_start(model: Model) -> np.ndarray:
    """Over owned unknowns, 1 for those without an initial value: multipliers, and auxiliary
    fields nothing is solved for.
    """
    algebraic = 1 - model.marching.dynamic
    return algebraic * held_at_start(model) if starts_consistently(model) else algebraic


class Response(float):
    """‖L_u⁻¹ α_j T_j[u]‖, a number that also knows the response it is the norm of.

    Attributes:
        term: the term j.
        kind: the norm that the number is taken in.
        trajectory: u_j'(0) = −L_u⁻¹[α_j T_j[u]], a derivative in the shape of a `Solution` with its
            `function`, `states` and `norm`.
    """

    term: str
    kind: str
    trajectory: Solution

    def __new__(cls, term: str, kind: str, trajectory: Solution) -> Response:
        self = super().__new__(cls, trajectory.norm(kind))
        self.term, self.kind, self.trajectory = term, kind, trajectory
        return self

    def norm(self, kind: str = "L2") -> float:
        """The response in another norm."""
        return self.trajectory.norm(kind)


class ResponsePath:
    """One response under way: the derivative of the level reached and of the stages of the current
    step.

    Args:
        about: the linearised equation.
        start: the derivative of the initial state, for a transient problem.
    """

    def __init__(self, about: Linearisation, start: np.ndarray):
        count = len(about.solution.times)
        self.states: Levels = about.model.new_levels(count)
        self.velocities: Levels | None = None
        self.track: Track | None = None
        if about.stepping is None:
            return
        self.states.append(start)
        if about.stepping.second_order is not None:
            self.velocities = about.model.new_levels(count)
            self.velocities.append(np.zeros(len(start)))
        self.track = Track(
            about.stepping, start, None if self.velocities is None else np.zeros(len(start))
        )

    def right(self, about: Linearisation, index: int, moved: np.ndarray) -> np.ndarray:
        """The right-hand side of stage `index`, whose equation is moved."""
        track, gamma = self.track, about.gamma
        if track is None or gamma is None:
            return moved
        base, velocity = track.bases(index)
        pull = about.partial(1, base / gamma)
        if velocity is not None:
            pull += about.partial(2, (base / gamma + velocity) / gamma)
        return pull + moved

    def take(self, index: int, value: np.ndarray) -> None:
        """Take stage `index`, whose value is solved for; the last stage ends the step."""
        track = self.track
        if track is None:
            self.states.append(value)
            return
        if track.take(index, value, *track.bases(index)):
            self.states.append(track.state)
            if self.velocities is not None and track.velocity is not None:
                self.velocities.append(track.velocity)


class Responses(Mapping[str, Response]):
    """The linearised responses to several terms, from one pass over the stages.

    Attributes:
        record: statistics of the solves, which share their factorisations.
    """

    def __init__(self, responses: Mapping[str, Response], record: SolveRecord):
        self._responses = dict(responses)
        self.record = record

    def __getitem__(self, name: str) -> Response:
        return self._responses[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._responses)

    def __len__(self) -> int:
        return len(self._responses)

    def __repr__(self) -> str:
        return f"Responses({ {name: float(value) for name, value in self.items()} })"


def linearised(solution: Solution, names: Iterable[str], norm: str = "L2") -> Responses:
    """The responses of a solution to the deletion of each of these terms, to first order.

    Args:
        solution: a solution with its stages; the derivative is taken there.
        names: the terms.
        norm: the norm of the result, one of `cffem.engine.norms.NORMS`.

    Example:
        >>> import cffem as cf, sympy as sp
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_interval
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u)})
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_interval(MPI.COMM_SELF, 16),
        ...     elements={u: ("Lagrange", 2)},
        ...     time=cf.Window(0, 0.1, steps=8),
        ...     initial={u: sp.sin(sp.pi * cf.x)},
        ...     boundary=[cf.Dirichlet(u, 0)],
        ... )
        >>> model = cf.Model(library, {"u": 0.5, "lap": 1.0}, experiment)
        >>> ratio = model.linearised("lap") / model.linearised(
        ...     "u"
        ... )  # u and lap(u) are proportional here
        >>> abs(ratio / (sp.pi**2 / 0.5) - 1) < 1e-4
        True
    """
    coefficients = solution.intervention.apply(solution.model.coefficients)
    names = tuple(names)
    for name in names:
        delete(name).apply(coefficients)  # an unknown name is an error before anything is solved
    trajectories, record = responses(solution, {name: -coefficients[name] for name in names})
    found = {name: Response(name, norm, path) for name, path in trajectories.items()}
    return Responses(found, record)


def responses(
    solution: Solution, factors: Mapping[str, float]
) -> tuple[dict[str, Solution], SolveRecord]:
    """L_u⁻¹[factor · T_j[u]] as trajectories: with the factor −α_j the response to a deletion, with
    1 the derivative ∂u/∂α_j, which terms with coefficient zero have, too.

    Args:
        solution: a solution with its stages; the derivative is taken there.
        factors: by term.
    """
    record = SolveRecord()
    about = Linearisation(solution, record)
    starts = {name: np.zeros(about.model.spaces.owned) for name in factors}
    with about.starting() as algebraic:
        if algebraic:
            starts = {name: about.solve(f * about.term(name)) for name, f in factors.items()}
    paths = {name: ResponsePath(about, start) for name, start in starts.items()}
    for step, index, values, time in about.stages:
        about.at(step, index, values, time)
        rights = [
            path.right(about, index, factors[name] * about.term(name))
            for name, path in paths.items()
        ]
        for path, value in zip(paths.values(), about.solve_all(rights), strict=True):
            path.take(index, value)
    about.destroy()
    trajectories = {}
    for name, path in paths.items():
        trajectory = Solution(solution.model, solution.intervention, solution.times, record)
        trajectory.states, trajectory.velocities = path.states, path.velocities
        trajectories[name] = trajectory
    return trajectories, record
