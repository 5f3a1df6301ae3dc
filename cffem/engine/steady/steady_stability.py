# SPDX-License-Identifier: MIT
"""Whether a march in time would stay at a steady solution, and where it would go if not.

A steady problem 0 = Σ_j α_j T_j[u] + f is the rest of dt(u) = Σ_j α_j T_j[u] + f. With J the
Jacobian of its residual at u and M the mass matrix, small perturbations grow where J e = λ M e has
an eigenvalue with a negative real part, and so has J⁻¹ M: its leftmost one is found by a few steps
of a Krylov method with the factors at hand. Newton's method from zero can land on such a solution.
The sign of an equation, which does not change its steady solutions, is taken from how its roughest
fields act.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from petsc4py import PETSc

from cffem.engine.assembly.ingredients import add
from cffem.engine.collective import summed
from cffem.engine.solution import Solution
from cffem.engine.solve.linear import LinearSolver
from cffem.engine.solve.petsc_options import log
from cffem.engine.solve.presets import factorised
from cffem.engine.solve.scope import Scope
from cffem.engine.solve.solve_record import SolveRecord
from cffem.engine.solve_errors import SolveError, as_raised, petsc_words
from cffem.symbols.errors import InputError
from cffem.symbols.problem.interventions import Intervention

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.time.march import Stage


@dataclass(frozen=True)
class StabilitySettings:
    """How stability is looked for, and how a march to a stable solution goes.

    Attributes:
        most: unknowns up to which it is looked for without being asked.
        vectors: of the Krylov space.
        restarts: of the Krylov method.
        accuracy: relative, of the eigenvalue.
        vanishing: relative to the largest eigenvalue of J⁻¹ M, one that counts as zero: what grows
            so fast has no meaning.
        push: the perturbation along the growing mode, relative to the solution.
        growing: the factor between two time steps of the march.
        steps: the largest number of them.
        near: the change in one step relative to the solution from which Newton's method takes over.
    """

    most: int = 100_000
    vectors: int = 30
    restarts: int = 4
    accuracy: float = 1e-2
    vanishing: float = 1e-3
    push: float = 1e-2
    growing: float = 1.3
    steps: int = 100
    near: float = 1e-4


SETTINGS = StabilitySettings()
FACTUAL = Intervention()


@dataclass(frozen=True)
class SteadyStability:
    """What was found about the stability of a steady solution.

    Attributes:
        rate: the growth rate of a perturbation that grows; zero where none was found.
        mode: the perturbation (owned values), nothing where none grows.
    """

    rate: float
    mode: np.ndarray | None

    @property
    def stable(self) -> bool:
        """Whether no growing perturbation was found."""
        return self.mode is None

    def __str__(self) -> str:
        if self.stable:
            return "no perturbation of the steady solution grows"
        return (
            "the factual solution is unstable: a perturbation of it grows at a rate of "
            f"{self.rate:.3g}, and Newton's method found "
            "it because of where it started; model.settled() marches on to a stable one, and "
            "Experiment(initial={…}) with that "
            "makes it the factual one"
        )


class Linearised(Scope):
    """The Jacobian at a steady solution with its factors, and the mass of the equations in time.

    Args:
        model: a steady model.
        state: owned values of a solution.
        change: the intervention that it is a solution of.
        signs: those of the equations in time, where they are known.
    """

    def __init__(
        self,
        model: Model,
        state: np.ndarray,
        change: Intervention = FACTUAL,
        signs: np.ndarray | None = None,
    ):
        self.model = model
        self.mass = model.norm("L2").matrix
        self.stage = model.prepared(change, SolveRecord())
        self.vectors = [self.own(model.equation.new_vector()) for _ in range(3)]
        self.vectors[0].array[:] = state
        self.matrix = self.stage.matrix((self.vectors[0], None, None), None, 0.0)
        self.quickest = np.inf  # the time in which the roughest fields change
        self.signs = self._signs() if signs is None else signs

    def _signs(self) -> np.ndarray:
        """For each unknown the sign that its equation has as one in time; zero where it is
        algebraic.
        """
        model, (_, rough, image) = self.model, self.vectors
        result = np.zeros(model.spaces.owned)
        first = self.matrix.getOwnershipRange()[0]
        for unknown in model.discretisation.unknowns:
            mask = model.spaces.mask([unknown])
            mask[self.stage.essential.owned] = 0.0
            rough.array[:] = mask * np.cos(1.7 * np.arange(first, first + len(mask)) ** 1.5)
            self.matrix.mult(rough, image)
            along, size = (
                rough.array_r @ image.array_r,
                np.abs(rough.array_r) @ np.abs(image.array_r),
            )
            self.mass.mult(rough, image)
            along, size, mass = summed(
                model.comm, np.array([along, size, rough.array_r @ image.array_r])
            )
            if abs(along) > 1e-3 * size:
                result += mask * np.sign(along)
                self.quickest = min(self.quickest, mass / abs(along))
        return result

    def weighted(self, values: np.ndarray, out: PETSc.Vec) -> None:
        """out = ± M values, on the rows that have a rate."""
        self.vectors[1].array[:] = values * (self.signs != 0)
        self.mass.mult(self.vectors[1], out)
        out.array[:] *= self.signs

    def mult(self, _matrix: PETSc.Mat, vector: PETSc.Vec, out: PETSc.Vec) -> None:
        """out = C⁻¹ J⁻¹ M C vector, as PETSc calls it; C are the units of the fields."""
        assert self.stage.solver is not None
        self.weighted(self.units * vector.array_r, self.vectors[2])
        # Multipliers have no rate. Left in, they make a nilpotent part whose zero eigenvalues
        # rounding moves to either side.
        found = self.stage.solver.apply(self.vectors[2].array_r[:, None])[:, 0]
        out.array[:] = found / self.units * (self.signs != 0)

    @property
    def units(self) -> np.ndarray | float:
        """The scale of each unknown in which the solver compares several fields."""
        scaling = None if self.stage.solver is None else self.stage.solver.scaling
        return 1.0 if scaling is None else scaling.columns

    def largest(self, start: PETSc.Vec, steps: int) -> float:
        """About the largest eigenvalue of J⁻¹ M, by a few steps of the power method; collective."""
        with Scope() as scope:
            size, vector, image = 0.0, scope.own(start.copy()), scope.own(start.duplicate())
            for _ in range(steps):
                size = vector.norm()
                if size == 0.0:
                    break
                vector.scale(1.0 / size)
                self.mult(None, vector, image)
                image.copy(vector)
                size = image.norm()
            return size


@dataclass(frozen=True)
class MultipliedBy:
    """A matrix as PETSc calls it.

    Attributes:
        mult: called with PETSc's matrix, x and y, which it fills.
    """

    mult: Callable[[PETSc.Mat, PETSc.Vec, PETSc.Vec], None]


def stability(
    model: Model, state: np.ndarray, settings: StabilitySettings = SETTINGS
) -> SteadyStability:
    """Look for a growing perturbation of a steady solution; collective.

    Args:
        model: the model, steady and solved by factors.
        state: owned values of its solution.
        settings: how hard to look.
    """
    from slepc4py import SLEPc

    scope = Scope()
    about = scope.own(Linearised(model, state))
    about.stage.solver_of(about.matrix).refresh()
    context = MultipliedBy(about.mult)
    shell = scope.own(PETSc.Mat().createPython(about.matrix.sizes, context, comm=model.comm))
    shell.setUp()
    solver = scope.own(SLEPc.EPS().create(model.comm))
    solver.setOperators(shell)
    solver.setProblemType(SLEPc.EPS.ProblemType.NHEP)
    solver.setWhichEigenpairs(SLEPc.EPS.Which.SMALLEST_REAL)
    solver.setDimensions(1, min(settings.vectors, about.matrix.size[0]))
    solver.setTolerances(settings.accuracy, settings.restarts)
    start = scope.own(shell.createVecRight())
    start.array[:] = np.cos(1.7 * np.arange(*start.getOwnershipRange()) ** 1.5) * (about.signs != 0)
    largest = about.largest(start, settings.vectors // 4)
    solver.setInitialSpace([start])
    found, converged = SteadyStability(0.0, None), 0
    try:
        with as_raised():
            solver.solve()
        converged = solver.getConverged()
    except PETSc.Error as error:  # of LAPACK, where rates are 1e20 and more apart
        log.info("the stability was not found: %s", petsc_words(error))
    if converged:
        value = solver.getEigenpair(0, start).real
        if value < -settings.vanishing * largest:
            found = SteadyStability(-1.0 / value, about.units * start.array_r)
    scope.destroy()
    model.equation.holds = None
    return found


def is_looked_for(model: Model, stage: Stage, settings: StabilitySettings = SETTINGS) -> bool:
    """Whether the stability of a steady solution is looked for without being asked:
    nonlinear, factorised, of moderate size.
    """
    solver = stage.solver
    nonlinear = model.experiment.time is None and not stage.equation.affine
    return nonlinear and solver is not None and solver.direct and model.spaces.size <= settings.most


def settled(model: Model, settings: StabilitySettings = SETTINGS) -> Solution:
    """The steady solution that a march in time from the factual one leads to, which is that itself
    where it is stable; collective.

    Args:
        model: a steady model.
        settings: how the march goes.

    Raises:
        InputError: the model is not steady.
        SolveError: the march comes to no rest.
    """
    if model.experiment.time is not None:
        raise InputError("only a steady model settles; this one has a time window")
    state = model.factual.states[0]
    found = stability(model, state, settings)
    record = SolveRecord()
    if found.mode is not None:
        state = _marched(model, state, found, record, settings)
    solution = Solution(model, Intervention(), model.times, record)
    solution.keep(0, state, None)
    return solution


def _marched(
    model: Model,
    state: np.ndarray,
    found: SteadyStability,
    record: SolveRecord,
    settings: StabilitySettings,
) -> np.ndarray:
    """Backward Euler with growing steps, one step of Newton's method each, and Newton's
    method at its end.
    """
    norm, mode = model.norm("L2"), found.mode
    assert mode is not None, "a march starts along a growing mode"
    place = model.equation.new_vector()
    # Of both directions the one that makes the solution larger.
    mode = mode * (np.sign(norm.inner(mode, state)) or 1.0) / norm(mode)
    place.array[:] = state + settings.push * (norm(state) or 1.0) * mode
    step = 1.0 / found.rate
    try:
        for _ in range(settings.steps):
            move = towards_rest(model, place, record, step).move
            place.array[:] += move
            if norm(move) <= settings.near * norm(place.array_r):
                stage = model.prepared(Intervention(), record)
                stage.solve(place, None, None, None, 0.0, "the settled problem")
                return place.array_r.copy()
            step *= settings.growing
    finally:
        place.destroy()
    raise SolveError(
        f"a march in time from the factual solution came to no rest in {settings.steps} steps",
        cause="start",
    )


@dataclass(frozen=True)
class TowardsSteadyStep:
    """One step of a march towards rest.

    Attributes:
        move: the move (owned values).
        speed: the norm of the move divided by the step. (A residual would contain what a multiplier
            does to a start off the constraint, which grows as steps become shorter.)
        step: the step in time.
        signs: of the equations in time, see `Linearised`.
    """

    move: np.ndarray
    speed: float
    step: float
    signs: np.ndarray


def towards_rest(
    model: Model,
    place: PETSc.Vec,
    record: SolveRecord,
    step: float | None = None,
    change: Intervention = FACTUAL,
    signs: np.ndarray | None = None,
    first: float = 1.0,
) -> TowardsSteadyStep:
    """One step of backward Euler, linearised where it starts; collective.

    Args:
        model: a steady model.
        place: the state where it starts.
        record: takes the statistics of the solve.
        step: the step in time; None for `first` times the time in which the roughest fields change.
        change: the intervention.
        signs: of the equations in time; None to look at them here.
        first: see `step`.
    """
    scope = Scope()
    about = scope.own(Linearised(model, place.array_r, change, signs))
    step = first * about.quickest if step is None else step
    stage, equation = about.stage, about.stage.equation
    stage.residual(place, None, None, None, 0.0)
    if not np.isfinite(stage.right.norm()):
        scope.destroy()
        raise SolveError("the residual of a march towards rest is not finite", cause="not finite")
    mass, weights = scope.own(about.mass.copy()), scope.own(equation.new_vector())
    weights.array[:] = about.signs
    mass.diagonalScale(weights)
    weights.array[:] = about.signs != 0
    mass.diagonalScale(None, weights)
    matrix = mass
    if equation.discretisation.periodicity:
        matrix = scope.own(equation.eliminated(mass, np.empty(0, dtype=PETSc.IntType)))
    system = scope.own(about.matrix.copy())
    add(system, 1.0 / step, matrix)
    solver = scope.own(LinearSolver(system, factorised(equation, stage.plan.held), record))
    solver.solve(stage.right, stage.increment, "a step towards rest")
    stage.essential.complete(stage.increment.array)
    result = stage.increment.array_r.copy()
    scope.destroy()
    equation.holds = None
    return TowardsSteadyStep(
        result, model.norm("L2")(result * (about.signs != 0)) / step, step, about.signs
    )
