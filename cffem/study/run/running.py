# SPDX-License-Identifier: MIT
"""What the stations of one run share: the study, its meshes and models, the checkpoint and the
progress display.

`Run.once` is the only way a station does work: a piece that an earlier run finished is taken from
the checkpoint, any other is done and stored before the next begins.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from mpi4py import MPI

from cffem.engine.mesh.meshes import read_mesh
from cffem.engine.model import Model
from cffem.engine.observer import Observer
from cffem.engine.solution import Solution
from cffem.engine.solve.linear import SolveError
from cffem.engine.solve.solve_record import SolveRecord
from cffem.forms.elements import H1, L2, carrier
from cffem.study.report.drawn_fields import FILE
from cffem.study.run.checkpoint import Checkpoint
from cffem.study.run.description import described
from cffem.study.run.edited import DELETIONS
from cffem.study.run.measured_fields import largest, measures
from cffem.study.run.progress import Progress
from cffem.study.run.signals import keep_watching, stop_if_asked
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field
from cffem.symbols.problem.interventions import Intervention
from cffem.symbols.problem.window import Window
from cffem.symbols.reasons import Code

if TYPE_CHECKING:
    from cffem.engine.calibration.calibration import Calibration
    from cffem.study.run.plain_facts import StoredFact
    from cffem.study.study import Study

Fact = TypeVar("Fact", bound="StoredFact")
# Larger trajectories are solved again on a resume rather than written out.
LARGEST_FIELD = 2**30
# Of what is written out so much stays in memory as well, until its error bar is known: reading
# eight trajectories of 12,000 unknowns twice took as long as solving for them.
LARGEST_HELD = 2**27
# A fitted model whose solution exceeds the data by this factor does not describe them; marching on
# has no meaning.
LARGEST_GROWTH = 100.0


class ModelGrows(SolveError):
    """The solution of a fitted model leaves the range of its data."""

    code = Code.MODEL_GROWS


class Watch(Observer):
    """Shows where the models of a run are, and stops them where somebody asks for that.

    Args:
        progress: the display.

    Attributes:
        label: how the display calls the deletion of some terms, while a sweep is under way; None
            where what is being done has a name already.
    """

    def __init__(self, progress: Progress):
        self.progress = progress
        self.label: Callable[[Sequence[str]], str] | None = None
        self.silent = False

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Show nothing of what is solved meanwhile."""
        self.silent = True
        try:
            yield
        finally:
            self.silent = False

    def solve(self, names: Sequence[str], levels: int) -> None:
        if self.silent:
            return
        if self.label is not None and names:
            self.progress.work(self.label(names), levels)
        else:
            self.progress.solve(levels)

    def level(self, level: int, record: SolveRecord) -> None:
        if self.silent:
            return
        self.progress.step(level, record.iterations + record.newton_steps)

    def stop(self, comm: MPI.Comm) -> None:
        stop_if_asked(comm)


class Run:
    """One run of a study.

    Args:
        study: the study.
        folder: the folder for the results, or None.
        resume: whether to go on where an earlier run ended.
        progress: what shows where the run is.

    Attributes:
        experiments: the experiments by name, with their meshes read.
        comm: the communicator of the meshes.
        models: the models by experiment, once their coefficients are known.
    """

    def __init__(self, study: Study, folder: str | Path | None, resume: bool, progress: Progress):
        keep_watching(speaks=MPI.COMM_WORLD.rank == 0)
        self.study, self.progress = study, progress
        meshes = {
            name: read_mesh(experiment.mesh, experiment.comm)
            for name, experiment in study.experiments.items()
        }
        self.experiments = {
            name: replace(e, mesh=meshes[name]) for name, e in study.experiments.items()
        }
        first = next(iter(meshes.values())).mesh.comm
        if any(mesh.mesh.comm.size != first.size for mesh in meshes.values()):
            raise InputError("the experiments of a study need meshes on one communicator")
        self.comm = first
        self.description = described(study, meshes)
        self.checkpoint = Checkpoint(first, folder, self.description, resume)
        self.watch = Watch(progress)
        self._since = time.perf_counter()
        self.models: dict[str, Model] = {}
        self._restored: set[str] = set()
        # Seconds that the study was said to take, once that is known.
        self.price: float | None = None
        # Of a calibration: the fit while this process lasts, and σ where it was estimated.
        self.fit: Calibration | None = None
        self.noise_level: float | None = None

    # Work
    # ----------------------------------------------------------------------------------------------

    def model(self, name: str, coefficients: Mapping[str, float]) -> Model:
        """A model of an experiment that is watched, and whose factual solution is kept."""
        case = None
        if self.fit is not None:
            case = self.fit.cases[list(self.experiments).index(name)]
        # Estimated amplitudes are in the data of the experiment by now, not in those of the fit.
        if case is not None and not case.amplitudes:
            model = case.model.with_coefficients(coefficients)
            self._keep_levels(name, model, 0.0)
        else:
            model = self._stepped(name, coefficients)
        model.take_factual_from(lambda: self.factual(name, model))
        return model

    def _stepped(self, name: str, coefficients: Mapping[str, float]) -> Model:
        """A model whose time steps are given, known from an earlier run, or chosen now and
        stored.
        """
        experiment, key = self.experiments[name], f"factual/levels/{name}"
        window = experiment.time

        def made(time: Window | None) -> Model:
            study = self.study
            changed = replace(experiment, time=time)
            return Model(
                study.library, coefficients, changed, study.petsc_options, observer=self.watch
            )

        if window is None or not window.adaptive:
            return made(window)
        plain = replace(window, tolerance=None)
        if not any(coefficients.values()):  # before anything is fitted there is nothing to march
            return made(plain)
        since = time.perf_counter()
        if key in self.checkpoint:
            known = self.checkpoint[key]["value"]
            model = made(Window.through(known["levels"], window.scheme))
            model.levels_note = known["note"]
        else:
            try:
                model = made(window)
            except SolveError as error:
                model = made(plain)
                why = f"time steps could not be chosen ({error}): those of the window are taken"
                model.levels_note = "; ".join(filter(None, (model.levels_note, why)))
            self._keep_levels(name, model, time.perf_counter() - since)
        self.experiments[name] = replace(experiment, time=model.experiment.time)
        return model

    def _keep_levels(self, name: str, model: Model, seconds: float) -> None:
        """Store the time steps that were chosen, so that a resumed run has the same."""
        experiment, key = self.experiments[name], f"factual/levels/{name}"
        if experiment.time is None or not experiment.time.adaptive or key in self.checkpoint:
            return
        levels = [float(level) for level in model.times]
        value = {"levels": levels, "note": model.levels_note}
        self.checkpoint.store(key, {"value": value, "seconds": round(seconds, 3)})
        self.experiments[name] = replace(experiment, time=model.experiment.time)

    def factual(self, name: str, model: Model) -> Solution:
        """The factual solution of an experiment, from the checkpoint or solved now and stored."""
        key = f"factual/{name}"
        found = self.checkpoint.restore_field(key, model, Intervention())
        self._restored |= {key} if found is not None else set()
        if found is None:
            limits = growth_limits(self.study, name, model)
            found = solved_within(model, limits) if limits else model.solve_factual()
            if self.checkpoint.folder is not None and size_of(found) <= LARGEST_FIELD:
                self.checkpoint.store_field(key, found)
        return found

    def once(
        self, key: str, compute: Callable[[], object], label: str = "", levels: int = 0
    ) -> Any:
        """The result of a piece of work: stored by an earlier run, or done now and stored;
        collective.

        Args:
            key: its name in the checkpoint, "station/…".
            compute: does the work and returns plain data.
            label: what the progress display calls it.
            levels: how many time levels it goes through, where that is known.
        """
        if key in self.checkpoint:
            self.progress.skip(label)
            return self.checkpoint[key]["value"]
        self.begin(label, levels)
        return self.store(key, compute(), label)

    def fact(self, kind: type[Fact], key: str, compute: Callable[[], Fact], label: str) -> Fact:
        """The same for a fact of this kind, which `compute` returns; collective."""
        return kind.from_plain(self.once(key, lambda: compute().to_plain(), label))

    def begin(self, label: str, levels: int = 0) -> None:
        """A piece of work, or several that come together, begin; collective."""
        stop_if_asked(self.comm)
        self.progress.work(label, levels)
        self._since = time.perf_counter()

    def store(self, key: str, value: object, label: str) -> Any:
        """Keep a piece of work, for which all the time went that passed since the one before it;
        collective.
        """
        seconds = round(time.perf_counter() - self._since, 3)
        self.checkpoint.store(key, {"value": value, "seconds": seconds})
        self._since = time.perf_counter()
        self.progress.finish_piece(label)
        return self.checkpoint[key]["value"]

    def solved(self, key: str, model: Model, change: Intervention) -> Solution:
        """A deleted solution from the checkpoint, or solved now and stored."""
        found = self.checkpoint.restore_field(key, model, change)
        if found is None:
            found = model.solve(change)
            self.keep_field(key, found)
        return found

    def keep_field(self, key: str, solution: Solution) -> None:
        """Store a solution; one that is too large for the checkpoint is kept for this run only."""
        size = size_of(solution)
        if self.checkpoint.folder is None or size > LARGEST_FIELD:
            self.checkpoint.hold_field(key, solution)
            return
        self.checkpoint.store_field(key, solution)
        if size + sum(map(size_of, self.checkpoint.held)) <= LARGEST_HELD:
            self.checkpoint.hold_field(key, solution)

    def wants_pictures(self) -> bool:
        """Whether the pictures' data are still to be written: there is a folder, and no
        earlier run of this study left them.
        """
        folder = self.checkpoint.folder
        return folder is not None and not self.comm.bcast(
            (folder / FILE).exists() if self.comm.rank == 0 else None
        )

    def seconds(self) -> dict[str, float]:
        """Seconds of each station, over all runs."""
        total: Counter[str] = Counter()
        for key, fact in self.checkpoint.facts.items():
            total[key.split("/")[0]] += fact["seconds"]
        return {station: round(value, 3) for station, value in total.items()}

    def reused(self) -> str:
        """What of an earlier run the study uses since it was edited, in one sentence."""
        edit, here = self.checkpoint.edit, self.checkpoint
        assert edit is not None
        counts = Counter(
            "error bars" if key.startswith("certificates/") else "solutions"
            for key in here.reused | self._restored
            if key.split("/")[0] in ("factual", "certificates", *DELETIONS)
        )
        words = [
            f"{counts[what]} {what.removesuffix('s') if counts[what] == 1 else what}"
            for what in ("solutions", "error bars")
            if counts[what]
        ]
        return (
            f"the study was edited ({'; '.join(edit.words)}); of the earlier run in this folder "
            f"it uses {' and '.join(words) or 'nothing'}"
        )

    def destroy(self) -> None:
        """Free PETSc objects; collective."""
        for model in self.models.values():
            model.destroy()
        self.models.clear()
        if self.fit is not None:
            self.fit.destroy()
            self.fit = None


def size_of(solution: Solution) -> int:
    """Bytes of a solution on all ranks."""
    copies = len(solution.states) + len(solution.velocities or ()) + 3 * len(solution.stages or ())
    return 8 * copies * solution.model.spaces.size


def growth_limits(study: Study, name: str, model: Model) -> dict[Field, float]:
    """For each measured field whose unknowns are its values, the size beyond which a fitted model
    has run away; none for known coefficients.
    """
    if not study.regressed or name not in study.data:
        return {}
    data = study.data[name]
    nodal = [
        u
        for u in model.discretisation.unknowns
        if carrier(model.spaces.elements[u]).space in (H1, L2)
    ]
    return {u: LARGEST_GROWTH * largest(data, u) for u in nodal if measures(data, u)}


def solved_within(model: Model, limits: Mapping[Field, float]) -> Solution:
    """The factual solution of a model.

    Raises:
        ModelGrows: a field leaves its limits.
    """
    if model.steps_chosen:
        chosen = model.solve_factual()
        for level, state in enumerate(chosen.states):
            check_growth(model, level, state, limits)
        return chosen
    record = SolveRecord()
    solution = Solution(model, Intervention(), model.times, record)

    def keep(level: int, state: np.ndarray, velocity: np.ndarray | None) -> None:
        check_growth(model, level, state, limits)
        solution.keep(level, state, velocity)

    model.observer.solve((), len(model.times) - 1)
    model.run(Intervention(), record, keep, solution.start_stages())
    return solution


def check_growth(
    model: Model, level: int, state: np.ndarray, limits: Mapping[Field, float]
) -> None:
    """Whether every field is within its limits at a level; collective."""
    for unknown, limit in limits.items():
        values = model.spaces.with_ghosts(state)[model.spaces.dofs(unknown)]
        size = model.comm.allreduce(float(np.abs(values).max(initial=0.0)), MPI.MAX)
        if size > limit:
            raise ModelGrows(
                f"{unknown} grows to {size:.2g} by level {level} of the time steps, beyond "
                f"{LARGEST_GROWTH:g} times the "
                "largest value in the data"
            )
