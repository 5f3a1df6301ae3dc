# SPDX-License-Identifier: MIT
"""The model: a library with coefficients in an experiment, solved factually and under
interventions.

anchor[u] = Σ_j α_j T_j[u] + forcing. Everything that interventions share, compiled forms, term
matrices, the symbolic factorisation, is made once and kept here.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from cffem.engine.assembly.carried import Release
from cffem.engine.assembly.dirichlet import EssentialConditions
from cffem.engine.assembly.discretisation import Discretisation
from cffem.engine.assembly.equation import Equation
from cffem.engine.assembly.experiment_checks import (
    check_open_parts,
    check_time,
    checked_coefficients,
)
from cffem.engine.assembly.fluxes.transport import check_transport
from cffem.engine.assembly.natural_conditions import check_carried
from cffem.engine.assembly.net_flux import FluxCorrection
from cffem.engine.deletion import asked
from cffem.engine.deletion.rank_groups import forget, solved_by_each
from cffem.engine.norms import StateNorm, TrajectoryNorm, check_positive
from cffem.engine.notes import notes_of
from cffem.engine.observer import Observer
from cffem.engine.response import questions
from cffem.engine.solution import Solution, StoredAs
from cffem.engine.solve.solve_record import SolveRecord, collect_garbage
from cffem.engine.steady.steady_solve import BranchStart, solve_steady
from cffem.engine.store.free_memory import ranks_on_node
from cffem.engine.time.adaptive import choose_levels
from cffem.engine.time.amplitudes import modes_of
from cffem.engine.time.anchor_weights import check_weights
from cffem.engine.time.in_parts import admit, march_by_spells, spell_ends
from cffem.engine.time.jumps import note_of_jumps, with_jumps
from cffem.engine.time.march import Marching, Stage, march
from cffem.engine.time.projection import project_onto_constraint
from cffem.engine.time.start import initial_state, marching_of, starts_as_factual
from cffem.engine.time.trajectories import DiskLevels, Levels, Stages, checked_place, on_disk
from cffem.engine.time.variants import Variants
from cffem.symbols.errors import InputError
from cffem.symbols.problem.experiment import Experiment
from cffem.symbols.problem.interventions import Intervention, joint
from cffem.symbols.problem.known_values import change_with_known, with_known
from cffem.symbols.problem.norm_names import ENERGY

if TYPE_CHECKING:
    from cffem.engine.deletion.rank_groups import Group
    from cffem.engine.response.observable_values import Measurement
    from cffem.engine.solve.stage_types import PetscOptions
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System
    from cffem.symbols.problem.window import Window

# Told every level (number, state, rate), and every implicit stage, of a march.
KeepLevel = Callable[[int, np.ndarray, np.ndarray | None], bool | None]
KeepStage = Callable[[int, int, tuple[Any, Any, Any], float], None]
Made = TypeVar("Made")


class Model:
    """A library with coefficients in an experiment.

    Args:
        library: a `Library` or `System`.
        coefficients: α_j by term name; terms that are not named have coefficient zero.
        experiment: the experiment.
        petsc_options: options for the linear solver, merged over the defaults (a direct solve by
            MUMPS), without prefix.
        trajectories: where the levels and stages of solutions are kept: "memory", "disk" (scratch
            files), or "auto": on disk where they would take more than a quarter of the free memory.
        observer: is told of every solve, time level and deletion, and asked whether to go on.

    Example:
        >>> import cffem as cf, sympy as sp
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_square
        >>> from cffem import x, y
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u)})
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_square(MPI.COMM_SELF, 8, 8), elements={u: ("Lagrange", 1)},
        ...     initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)}, boundary=[cf.Dirichlet(u, 0)],
        ...     time=cf.Window(0, 0.1, steps=4))
        >>> model = cf.Model(library, {"u": 0.6, "lap": 1.0}, experiment)
        >>> sweep = model.deletions(["u", "lap"])
        >>> sweep["lap"].score > sweep["u"].score
        True
    """

    def __init__(
        self,
        library: Library | System,
        coefficients: Mapping[str, float],
        experiment: Experiment,
        petsc_options: PetscOptions | None = None,
        trajectories: str = "auto",
        observer: Observer | None = None,
    ):
        library, experiment = with_known(library, experiment)
        asked = experiment.time
        experiment, self.jumps = with_jumps(library, experiment)
        self.levels_note = note_of_jumps(asked, experiment.time, self.jumps)
        self.library = library
        self.observer = observer or Observer()
        self.trajectories = checked_place(trajectories)
        self.coefficients = checked_coefficients(library, coefficients)
        self.experiment = experiment
        self.petsc_options = dict(petsc_options or {})
        check_time(library, experiment)
        from cffem.engine.mesh.meshes import read_mesh

        self.discretisation = Discretisation(
            library, experiment, read_mesh(experiment.mesh, experiment.comm), self.coefficients
        )
        check_open_parts(self.discretisation)
        check_transport(self.discretisation, self.coefficients)
        check_carried(self.discretisation, self.coefficients)
        self.spaces = self.discretisation.spaces
        self.comm = self.discretisation.mesh.comm
        self._neighbours = ranks_on_node(self.comm)
        self.equation = Equation(self.discretisation)
        self.essential = EssentialConditions(self.discretisation)
        self.record = SolveRecord()
        self._norms: dict[str, StateNorm] = {}
        self._owns_norms = True
        self._variants = Variants(self.equation, self.essential, self.petsc_options)
        self._begin()
        check_weights(self)
        self._choose_levels()

    def _begin(self, lent: bool = False) -> None:
        """Nothing solved yet; who lends spaces and matrices also frees them."""
        self._lent = lent
        self._factual: Solution | None = None
        self._chosen: Solution | None = None
        self._factual_source: Callable[[], Solution] | None = None
        self._start: tuple[np.ndarray, np.ndarray | None] | None = None
        # Where Newton's method starts for a steady problem, where a coarser level knows its branch;
        # owned values.
        self.start_at: Callable[[], np.ndarray] | None = None
        # Where changed steady solutions are followed from, in place of the factual one.
        self.follow_from: BranchStart | None = None
        self._group: Group | None = (
            None  # of ranks that share the deletions, see `cffem.engine.deletion.rank_groups`
        )
        self._marching = marching_of(self)
        self._measurements: dict[Hashable, Measurement] = {}
        self.counts: Counter[str] = Counter()
        self._made: dict[Hashable, Any] = {}

    def at(self, window: Window) -> Model:
        """The same model on other time levels; it shares spaces, forms and matrices with this one,
        which must outlive it.

        Args:
            window: the `Window`; its ends may differ, too.
        """
        result = Model.__new__(Model)
        result.__dict__.update(self.__dict__)
        result.experiment = dataclasses.replace(self.experiment, time=window)
        check_time(result.library, result.experiment)
        result.experiment, result.jumps = with_jumps(result.library, result.experiment)
        result.levels_note = note_of_jumps(window, result.experiment.time, result.jumps)
        result.record = SolveRecord()
        result._owns_norms = False
        result._variants = Variants(self.equation, self.essential, self.petsc_options)
        result._begin(lent=True)
        check_weights(result)
        result._choose_levels()
        return result

    def _choose_levels(self) -> None:
        """Let the factual solution choose the time steps, where the window leaves them to it."""
        if self.experiment.time is not None and self.experiment.time.adaptive:
            chosen = Solution(self, Intervention(), self.times, SolveRecord())
            choose_levels(self, chosen)
            self._chosen = chosen

    @property
    def steps_chosen(self) -> bool:
        """Whether the factual solution is there from the march that chose the time steps."""
        return self._chosen is not None

    def use_levels(self, window: Window, note: str) -> None:
        """Take the levels that were chosen, as a note says, from now on."""
        self.experiment = dataclasses.replace(self.experiment, time=window)
        self.levels_note = "; ".join(filter(None, (self.levels_note, note)))

    def with_coefficients(self, coefficients: Mapping[str, float]) -> Model:
        """The same model with other coefficients; it shares spaces, forms and matrices with this
        one, which must outlive it.

        Args:
            coefficients: α_j by term name; terms that are not named have coefficient zero.
        """
        new = checked_coefficients(self.library, coefficients)
        # Fluxes between cells depend on what is upstream, that is on signs.
        if self.discretisation.turned(new):
            return Model(self.library, new, self.experiment, self.petsc_options, self.trajectories)
        check_transport(self.discretisation, new)
        check_carried(self.discretisation, new)
        result = Model.__new__(Model)
        result.__dict__.update(self.__dict__)
        result.coefficients = new
        result.record = SolveRecord()
        result._norms, result._owns_norms = {}, True
        result._variants = Variants(self.equation, self.essential, self.petsc_options)
        result._begin(lent=True)
        return result

    def in_experiment(
        self,
        experiment: Experiment,
        observer: Observer | None = None,
        trajectories: str = "auto",
    ) -> Model:
        """A model of its own with the same library, coefficients and solver in another experiment.

        Args:
            experiment: the experiment: another mesh, elements, time levels or communicator.
            observer: the observer of the new model; one that does nothing unless given.
            trajectories: where the new model keeps its solutions, see `Model`.
        """
        return Model(
            self.library, self.coefficients, experiment, self.petsc_options, trajectories, observer
        )

    @property
    def flux_correction(self) -> FluxCorrection | None:
        """The largest change so far of measured boundary values that removed their net flux;
        None where there was none.
        """
        floating = self.essential.floating
        return None if floating is None or floating.measured is None else floating.measured.largest

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what was changed or chosen that nobody said; some are there after
        the first solve only.
        """
        return notes_of(self)

    # Solving
    # ----------------------------------------------------------------------------------------------

    def solve(
        self, intervention: Intervention | Sequence[Intervention] = (), stages: bool = False
    ) -> Solution:
        """Solve the factual problem, or the one that an intervention makes of it.

        Args:
            intervention: what is changed; several are applied together.
            stages: keep the values of the implicit stages as well, for tangent-linear and adjoint
                solves.

        Raises:
            SolveError: a solve missed its tolerance, Newton's method failed, or the solution is not
                finite.
        """
        change = change_with_known(joint(intervention), self.experiment)
        admit(self, change)
        record = SolveRecord()
        solution = Solution(self, change, self.times, record)
        keep_stage = solution.start_stages() if stages else None
        self.observer.solve(change.names, len(self.times) - 1)
        self.run(change, record, solution.keep, keep_stage)
        return solution

    def restore(
        self,
        path: str | os.PathLike,
        intervention: Intervention | Sequence[Intervention] = (),
        stored: StoredAs | None = None,
    ) -> Solution:
        """A solution that was stored with `Solution.store`, on any number of ranks; collective.

        Args:
            path: the file.
            intervention: the intervention whose solution it is.
            stored: as what another model stored it, where the problem is the same.
        """
        change = change_with_known(joint(intervention), self.experiment)
        return Solution.restored(self, path, change, stored)

    def run(
        self,
        change: Intervention,
        record: SolveRecord,
        keep: KeepLevel,
        keep_stage: KeepStage | None = None,
    ) -> None:
        """Solve and hand every level to `keep`; the way for callers that do not store the
        trajectory.
        """
        stage = self.prepared(change, record)

        def observed(level: int, state: np.ndarray, velocity: np.ndarray | None) -> bool | None:
            enough = keep(level, state, velocity)
            self.reached(level, record)
            return enough

        if self.experiment.time is None:
            state = solve_steady(self, change, stage)
            observed(0, state.array_r.copy(), None)
            if keep_stage is not None:
                keep_stage(0, 0, (state, None, None), 0.0)
            state.destroy()
            return
        start, velocity = self.initial(change, stage)
        if change.spells:
            march_by_spells(self, change, record, start, velocity, observed, keep_stage)
            return
        march(stage, self._marching, self.times, start, velocity, observed, keep_stage)

    def reached(self, level: int, record: SolveRecord) -> None:
        """Tell the observer that a time level is reached, and ask whether to go on; collective."""
        self.observer.level(level, record)
        self.observer.stop(self.comm)

    def prepared(self, change: Intervention, record: SolveRecord) -> Stage:
        """The stage solver with the coefficients, forcing and boundary data of an intervention; of
        one with spells what holds at the start.
        """
        admit(self, change)
        if change.spells:
            first = spell_ends(self, change)
            change = change.between(first[0], first[1])
        stage = self._variants.stage(change, self.release(change))
        forcing = {**dict(self.experiment.forcing), **dict(change.forcing)}
        stage.equation.use(
            change.apply(self.coefficients), forcing, constrained=not change.released
        )
        if self.experiment.uncertain:
            stage.essential.shifts = modes_of(self).shifts(change)
        elif change.amplitudes:
            raise InputError("the experiment declares nothing as uncertain")
        stage.begin(record, factual=change == Intervention())
        return stage

    def release(self, change: Intervention) -> Release | None:
        """The essential conditions that the deleted equation cannot carry, see
        `cffem.engine.assembly.carried`; None without any.
        """
        return self._variants.release(change, self.coefficients, self.times)

    def changes_coefficients_only(self, change: Intervention) -> bool:
        """Whether an intervention leaves data and boundary conditions alone."""
        release = self.release(change)
        return change.only_coefficients and (release is None or not release.changes)

    # Data
    # ----------------------------------------------------------------------------------------------

    @property
    def times(self) -> np.ndarray:
        """The time levels; `[0.0]` for a steady problem."""
        return np.zeros(1) if self.experiment.time is None else self.experiment.time.times

    def initial(
        self, change: Intervention, stage: Stage | None = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Initial state and velocity (owned values), on the constraint class where one is declared.

        Args:
            change: the intervention; a released constraint still holds for the initial data, which
                stay as they are.
            stage: the stage solver prepared for it.
        """
        if not starts_as_factual(self, change):
            return initial_state(self, change, stage)
        if self._start is None:
            self._start = initial_state(self, change, stage)
        state, velocity = self._start
        return state.copy(), None if velocity is None else velocity.copy()

    def projected(self, state: np.ndarray) -> np.ndarray:
        """The L2 projection of a state onto the declared constraint class, boundary values
        kept: one saddle-point solve.
        """
        return project_onto_constraint(
            self.prepared(Intervention(), self.record), state, float(self.times[0])
        )

    def new_levels(self, count: int) -> Levels:
        """An empty place for this many states, in memory or on disk."""
        disk = on_disk(self.trajectories, count, self.spaces.owned, self._neighbours)
        return DiskLevels(self.spaces.owned) if disk else []

    def new_stages(self) -> Stages:
        """An empty place for the stages of a solution."""
        count = 3 * (len(self.times) - 1) * len(self._marching.scheme.b) or 1
        return Stages([self.new_levels(count) for _ in range(3)])

    # Norms and scores
    # ----------------------------------------------------------------------------------------------

    def norm(self, kind: str = "L2") -> StateNorm:
        """A norm on states, made once."""
        if kind not in self._norms:
            self.equation.use(self.coefficients, self.experiment.forcing)
            made = StateNorm(self.equation, kind)
            if kind == ENERGY and self.experiment.constraint is None:
                check_positive(made.matrix, self.essential.rows)
            self._norms[kind] = made
        return self._norms[kind]

    def trajectory_norm(
        self, states: Sequence[np.ndarray], times: np.ndarray, kind: str = "L2"
    ) -> float:
        """The norm of a state, or the space–time norm of a trajectory."""
        norm = self.norm(kind)
        if len(states) == 1:
            return norm(states[0])
        total = TrajectoryNorm(norm)
        for k, state in enumerate(states):
            total.add(state, times[k] - times[k - 1] if k else 0.0)
        return total.value

    @property
    def factual(self) -> Solution:
        """The factual solution, solved once, with its stages; two ranks may each solve it for
        themselves, with the same result.
        """
        if self._factual is None:
            source = self._factual_source or self.solve_factual
            self._factual = source()
        return self._factual

    def solve_factual(self) -> Solution:
        """Solve the factual problem, whatever is known of its solution."""
        if self._chosen is not None:  # by the march that chose the time steps
            found, self._chosen = self._chosen, None
            return found
        return solved_by_each(self) or self.solve(stages=True)

    def take_factual_from(self, source: Callable[[], Solution]) -> None:
        """Let the factual solution come from elsewhere, a store say, when it is first asked for.

        Args:
            source: gives the solution, with its stages.
        """
        self._factual_source = source

    @property
    def active(self) -> tuple[str, ...]:
        """The terms whose coefficients are not zero."""
        return tuple(name for name, value in self.coefficients.items() if value)

    @property
    def marching(self) -> Marching:
        """Scheme and kinds of unknowns."""
        return self._marching

    # What rooms above ask: functions of theirs with the model as first argument.
    linearised = questions.linearised
    measurement = questions.measurement
    observation = questions.observation
    sensitivities = questions.sensitivities
    observation_deletions = questions.observation_deletions
    observable_scores = questions.observable_scores
    observable_deletions = questions.observable_deletions
    observable_bound = questions.observable_bound
    residual_scores = questions.residual_scores
    ranking_constants = questions.ranking_constants
    gap_check = questions.gap_check
    profile = asked.profile
    deletions = asked.deletions
    interventions = asked.interventions
    refitted = asked.refitted

    def constraint_nulls(self, tested: bool | None = None, trajectory: bool = True) -> list[Any]:
        """Terms that vanish on the declared constraint class, each with `.term`, `.evidence` and
        `.ratio`.

        Args:
            tested: whether the equation is tested against the class only; default: where the
                constraint names its multiplier.
            trajectory: whether the terms are also measured on the factual solution.
        """
        # By its public name, since the engine does not know the rooms that stand on it.
        import cffem

        return cffem.constraint_nulls(self, tested, trajectory)

    def settled(self) -> Solution:
        """The steady solution that a march in time from the factual one leads to; itself
        where no perturbation of it grows.
        """
        from cffem.engine.steady.steady_stability import settled

        return settled(self)

    def __repr__(self) -> str:
        terms = ", ".join(f"{value:.4g} {name}" for name, value in self.coefficients.items())
        when = "steady" if self.experiment.time is None else f"{len(self.times) - 1} time steps"
        return f"Model({terms}; {self.spaces.size} unknowns, {when})"

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What rooms above the engine make of a model, an error estimate say: made once and
        freed with the model; collective.
        """
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def destroy(self) -> None:
        """Free PETSc objects; collective. Solutions keep their values, but can no longer be
        measured.
        """
        for made in self._made.values():
            getattr(made, "destroy", lambda: None)()
        self._made.clear()
        forget(self)
        self._variants.destroy()
        if self._owns_norms:
            for norm in self._norms.values():
                norm.destroy()
            self._norms.clear()
        if self._lent:
            return
        self.equation.destroy()
        collect_garbage(self.comm)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()
