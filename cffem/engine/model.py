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
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from cffem.engine.assembly.carried import Release
from cffem.engine.assembly.dirichlet import EssentialConditions
from cffem.engine.assembly.discretisation import Discretisation
from cffem.engine.assembly.equation import Equation
from cffem.engine.assembly.experiment_checks import (
    check_open_parts,
    check_time,
    check_weights,
    checked_coefficients,
)
from cffem.engine.assembly.natural_conditions import check_carried
from cffem.engine.assembly.net_flux import FluxCorrection
from cffem.engine.assembly.transport import check_transport
from cffem.engine.deletion.outcomes import Deletion, Demand, Sweep
from cffem.engine.deletion.rank_groups import forget, solved_by_each
from cffem.engine.deletion.refit import Refit, deleting, refitted
from cffem.engine.deletion.sweep import run_sweep
from cffem.engine.norms import StateNorm, TrajectoryNorm, parsed
from cffem.engine.notes import notes_of
from cffem.engine.observer import Observer
from cffem.engine.solution import Solution
from cffem.engine.solve.solve_record import SolveRecord, collect_garbage
from cffem.engine.steady.steady_solve import solve_steady
from cffem.engine.time.in_parts import admit, march_by_spells, spell_ends
from cffem.engine.time.march import Marching, Stage, march
from cffem.engine.time.projection import project_onto_constraint
from cffem.engine.time.start import initial_state, marching_of, starts_as_factual
from cffem.engine.time.trajectories import DiskLevels, Levels, Stages, checked_place, on_disk
from cffem.engine.time.variants import Variants
from cffem.symbols.errors import InputError
from cffem.symbols.problem.experiment import Experiment
from cffem.symbols.problem.interventions import CARRIED, Intervention, joint
from cffem.symbols.problem.known_values import with_known

if TYPE_CHECKING:
    from cffem import Design
    from cffem.engine.deletion.profile import Profile
    from cffem.engine.deletion.rank_groups import Group
    from cffem.engine.response.adjoint import ObservableScores
    from cffem.engine.response.gap import GapCheck, ObservableBound, ObservableDeletion
    from cffem.engine.response.observable_values import Measurement
    from cffem.engine.response.observation_operator import ObservationOperator
    from cffem.engine.response.observation_scores import ObservationDeletion
    from cffem.engine.response.residual_scores import RankingConstants, ResidualScore
    from cffem.engine.response.tangent import Response, Responses
    from cffem.engine.solve.stage_types import PetscOptions
    from cffem.symbols.problem.experiment import Window
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.observables import Observable
    from cffem.symbols.problem.observations import Observation
    from cffem.symbols.problem.system import System

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
        self.library = library
        self.observer = observer or Observer()
        self.trajectories = checked_place(trajectories)
        self.coefficients = checked_coefficients(library, coefficients)
        self.experiment = experiment
        self.petsc_options = dict(petsc_options or {})
        check_time(library, experiment)
        from cffem.engine.mesh.meshes import read_mesh

        signs = {name: -1 for name, value in self.coefficients.items() if value < 0}
        self.discretisation = Discretisation(
            library, experiment, read_mesh(experiment.mesh, experiment.comm), signs
        )
        check_open_parts(self.discretisation)
        check_transport(self.discretisation, self.coefficients)
        check_carried(self.discretisation, self.coefficients)
        self.spaces = self.discretisation.spaces
        self.comm = self.discretisation.mesh.comm
        self.equation = Equation(self.discretisation)
        self.essential = EssentialConditions(self.discretisation)
        self.record = SolveRecord()
        self._norms: dict[str, StateNorm] = {}
        self._owns_norms = True
        self._variants = Variants(self.equation, self.essential, self.petsc_options)
        self._begin()
        check_weights(self.equation, self._marching.scheme, float(self.times[0]))

    def _begin(self, lent: bool = False) -> None:
        """Nothing solved yet; who lends spaces and matrices also frees them."""
        self._lent = lent
        self._factual: Solution | None = None
        self._factual_source: Callable[[], Solution] | None = None
        self._start: tuple[np.ndarray, np.ndarray | None] | None = None
        # Where Newton's method starts for a steady problem, where a coarser level knows its branch;
        # owned values.
        self.start_at: Callable[[], np.ndarray] | None = None
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
        result.record = SolveRecord()
        result._owns_norms = False
        result._variants = Variants(self.equation, self.essential, self.petsc_options)
        result._begin(lent=True)
        return result

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
        change = joint(intervention)
        admit(self, change)
        record = SolveRecord()
        solution = Solution(self, change, self.times, record)
        keep_stage = solution.start_stages() if stages else None
        self.observer.solve(change.names, len(self.times) - 1)
        self.run(change, record, solution.keep, keep_stage)
        return solution

    def restore(
        self, path: str | os.PathLike, intervention: Intervention | Sequence[Intervention] = ()
    ) -> Solution:
        """A solution that was stored with `Solution.store`, on any number of ranks; collective.

        Args:
            path: the file.
            intervention: the intervention whose solution it is.
        """
        return Solution.restored(self, path, joint(intervention))

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
        stage.begin(record)
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
        disk = on_disk(self.trajectories, count, self.spaces.owned, self.comm.size)
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
            self._norms[kind] = StateNorm(self.equation, kind)
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

    def _chosen(self, names: str | Iterable[str] | None) -> tuple[str, ...]:
        """One term, several, or all with a nonzero coefficient."""
        return (
            self.active if names is None else (names,) if isinstance(names, str) else tuple(names)
        )

    @overload
    def linearised(self, names: str, norm: str = "L2") -> Response: ...  # type: ignore[overload-overlap]

    @overload
    def linearised(self, names: Iterable[str] | None = None, norm: str = "L2") -> Responses: ...

    def linearised(
        self, names: str | Iterable[str] | None = None, norm: str = "L2"
    ) -> Response | Responses:
        """‖L_u⁻¹ α_j T_j[u]‖ of one term as a number that knows its trajectory, or of several
        (default: all) by name.
        """
        from cffem.engine.response.tangent import linearised

        wanted = self._chosen(names)
        responses = linearised(self.factual, wanted, norm)
        self.counts["linearised"] += len(wanted)
        return responses[names] if isinstance(names, str) else responses

    def measurement(self, observable: Observable) -> Measurement:
        """An observable on this model, compiled once: its `value`, `gradient` and
        `derivative` along a solution.
        """
        from cffem.engine.response.observable_values import Measurement

        if observable not in self._measurements:
            self._measurements[observable] = Measurement(self, observable)
        return self._measurements[observable]

    def observation(self, observation: Observation) -> ObservationOperator:
        """An observation on this model, made once: its `values` on a solution, `derivatives`
        along others, and adjoint.
        """
        from cffem.engine.response.observation_operator import ObservationOperator

        return self.once(
            ("observation", observation), lambda: ObservationOperator(self, observation)
        )

    def sensitivities(self, observation: Observation, names: Iterable[str] | None = None) -> Design:
        """𝒪 ∂u/∂α_j in units of the noise, as a `Design`: what these sensors can tell of the
        coefficients, before any reading exists.

        Args:
            observation: the sensors.
            names: the terms; default: all of the library, those with coefficient zero included.
        """
        from cffem.engine.response.sensitivities import sensitivities

        return sensitivities(self, observation, names)

    def observation_deletions(
        self, observation: Observation, names: str | Iterable[str] | None = None, norm: str = "L2"
    ) -> dict[str, ObservationDeletion]:
        """δ_j^𝒪: how many standard deviations of what is measured each deletion changes (default:
        of all terms with a nonzero coefficient), by solving every deleted problem.

        Args:
            observation: the sensors, with known noise.
            names: the terms.
            norm: of the score of the whole field that stands beside it.
        """
        from cffem.engine.response.observation_scores import observation_deletions

        return observation_deletions(self, observation, self._chosen(names), norm)

    def observable_scores(
        self, observable: Observable, names: str | Iterable[str] | None = None
    ) -> ObservableScores:
        """I_j = |⟨φ, α_j T_j[u]⟩| of all terms, and the signed sensitivities ∂O/∂α_j, from
        one backward solve.
        """
        from cffem.engine.response.adjoint import observable_scores

        wanted = self.library.names if names is None else self._chosen(names)
        scores = observable_scores(self.factual, self.measurement(observable), wanted)
        self.counts["adjoint"] += scores.backward_solves
        return scores

    def observable_deletions(
        self, observable: Observable, names: str | Iterable[str] | None = None
    ) -> dict[str, ObservableDeletion]:
        """Δ_j = |O(u) − O(u_j)| by solving every deleted problem (default: of all terms with
        a nonzero coefficient).
        """
        from cffem.engine.response.gap import observable_deletions

        return observable_deletions(self, observable, self._chosen(names))

    def observable_bound(
        self, observable: Observable, name: str, norm: str = "L2", points: int = 8
    ) -> ObservableBound:
        """The remainder bound of the adjoint approximation of one deletion, with estimated
        constants.
        """
        from cffem.engine.response.gap import observable_bound

        return observable_bound(self, observable, name, norm, points)

    def residual_scores(self) -> dict[str, ResidualScore]:
        """C_j, RCI_j and the one-step score of all terms on the factual solution."""
        from cffem.engine.response.residual_scores import residual_scores

        return residual_scores(self)

    def ranking_constants(self, norm: str = "L2") -> RankingConstants:
        """c₋ and c₊ on span{α_j T_j[u]}: whether residual ranking is valid here."""
        from cffem.engine.response.residual_scores import ranking_constants

        return ranking_constants(self, norm)

    def gap_check(self, name: str, norm: str = "L2", points: int = 8) -> GapCheck:
        """The residual–counterfactual gap of one term along ρ, with M_j estimated."""
        from cffem.engine.response.gap import gap_check

        return gap_check(self, name, norm, points)

    def profile(
        self,
        name: str,
        norm: str = "L2",
        epsilon: float | None = None,
        observable: Observable | None = None,
        points: int = 8,
        resolution: float = 1e-2,
        conditions: str = "carried",
    ) -> Profile:
        """ρ ↦ δ(ρ) of one term, whose coefficient becomes (1 − ρ) α_j, up to the largest ρ that has
        a solution.

        Args:
            name: the term.
            norm: the norm of the scores.
            epsilon: the tolerance; the ρ from which δ exceeds it is looked for.
            observable: an observable whose change takes the place of δ.
            points: in how many parts [0, 1] is divided at least.
            resolution: how closely in ρ the end of solutions and the place where δ exceeds ε are
                found.
            conditions: what becomes of essential conditions that the deleted equation, at ρ = 1,
                cannot carry, as in `delete`.
        """
        from cffem.engine.deletion.profile import ProfileSettings, profile

        return profile(
            self, name, norm, epsilon, observable, ProfileSettings(points, resolution), conditions
        )

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

    def deletions(
        self,
        names: str | Iterable[str] | None = None,
        norm: str = "L2",
        keep: bool | str = False,
        finished: Callable[[Deletion], object] | None = None,
        refit: Refit = "none",
        scores: str = "full",
        epsilon: float | None = None,
        accuracy: float = 0.0,
        groups: int | None = None,
        conditions: str = CARRIED,
    ) -> Sweep:
        """Delete each of these terms (default: all with a nonzero coefficient) and compare with the
        factual solution.

        Args:
            names: the terms, or one term.
            norm: the norm of the scores.
            keep: whether each deletion keeps its `solution`; otherwise no trajectory is stored.
                "handed": `finished` gets it with the deletion, and then it is forgotten.
            finished: called with each `Deletion` when it is done, on all ranks.
            refit: "none": the other coefficients stay; "remaining": they are refitted on the
                factual solution without the deleted term; or for each deleted term the coefficients
                of others, from a regression of one's own.
            scores: "full", or "decide": followed only until the verdict against `epsilon` is clear.
            epsilon: the tolerance ε, absolute, for scores="decide".
            accuracy: the relative accuracy of full scores, 1e-4 say, where one does not need
                working precision (zero, or less than 1e-7): much cheaper for transient problems
                without algebraic unknowns.
            groups: how many groups of ranks share the deletions, each working on its own ones;
                None: as many as suit.
            conditions: "carried": a deleted equation keeps the essential conditions that it can
                carry, as `cffem.delete` says; "kept": all.
        """
        if scores not in ("full", "decide") or (scores == "decide") != (epsilon is not None):
            raise InputError("scores are 'full', or 'decide' together with a tolerance epsilon")
        demand = Demand(norm, keep, accuracy, epsilon)
        parsed(norm, self.discretisation)  # an unknown one is an error before anything is solved
        changes = deleting(self, self._chosen(names), refit, conditions)
        return run_sweep(self, changes, demand, finished, groups)

    def interventions(
        self,
        changes: Mapping[str, Intervention],
        norm: str = "L2",
        keep: bool | str = False,
        finished: Callable[[Deletion], object] | None = None,
        accuracy: float = 0.0,
        groups: int | None = None,
    ) -> Sweep:
        """Solve the problem that each of some named interventions makes and compare it with the
        factual solution, as `deletions` does: a group of terms costs what one term does.

        Args:
            changes: interventions by names of one's own.
            norm, keep, finished, accuracy, groups: as of `deletions`.

        Example:
            >>> import cffem as cf
            >>> from mpi4py import MPI
            >>> u = cf.ScalarField("u")
            >>> library = cf.Library(terms={"lap": cf.lap(u), "a": u, "b": u**3})
            >>> experiment = cf.Experiment(
            ...     mesh=cf.mesh.interval(MPI.COMM_SELF, 0.1), elements={u: ("Lagrange", 2)},
            ...     boundary=[cf.Dirichlet(u, 0)], forcing={u: 1})
            >>> model = cf.Model(library, {"lap": 1.0, "a": -3.0, "b": -3.0}, experiment)
            >>> found = model.interventions({"half": cf.scale("a", 0.5), "no": cf.delete("a", "b")})
            >>> found["no"].score > 2 * found["half"].score > 0
            True
        """
        parsed(norm, self.discretisation)
        made = {name: joint(change) for name, change in changes.items()}
        for change in made.values():
            admit(self, change)
            change.apply(self.coefficients)
        return run_sweep(self, made, Demand(norm, keep, accuracy), finished, groups)

    def settled(self) -> Solution:
        """The steady solution that a march in time from the factual one leads to; itself
        where no perturbation of it grows.
        """
        from cffem.engine.steady.steady_stability import settled

        return settled(self)

    def refitted(self, name: str) -> dict[str, float]:
        """The coefficients of a deletion with `refit="remaining"`: the others, refitted on
        the factual solution.
        """
        return refitted(self, (name,))[name]

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
