# SPDX-License-Identifier: MIT
"""What the stations of one run share: the study, its meshes and models, the checkpoint and the
progress display.

`Run.once` is the only way a station does work: a piece that an earlier run finished is taken from
the checkpoint, any other is done and stored before the next begins.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI

from cffem.engine.mesh.meshes import read_mesh
from cffem.engine.model import Model
from cffem.engine.solution import Solution
from cffem.engine.solve.linear import SolveError
from cffem.forms.elements import H1, L2, carrier
from cffem.study.report.drawn_fields import FILE
from cffem.study.run.checkpoint import Checkpoint
from cffem.study.run.description import described
from cffem.study.run.measured_fields import largest, measures
from cffem.study.run.progress import Progress
from cffem.study.run.signals import keep_watching, stop_if_asked
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field
from cffem.symbols.problem.interventions import Intervention
from cffem.symbols.reasons import Code

if TYPE_CHECKING:
    from cffem.engine.solve.linear import SolveRecord
    from cffem.study.study import Study

# Larger trajectories are solved again on a resume rather than written out.
LARGEST_FIELD = 2**30
# A fitted model whose solution exceeds the data by this factor does not describe them; marching on
# has no meaning.
LARGEST_GROWTH = 100.0


class ModelGrows(SolveError):
    """The solution of a fitted model leaves the range of its data."""

    code = Code.MODEL_GROWS


class WatchedModel(Model):
    """A model that tells where it is after each time level, stops there when asked, and keeps its
    factual solution on disk.

    Args:
        run: the run it belongs to.
        name: of its experiment.
        coefficients: α_j by term name.
    """

    def __init__(self, run: Run, name: str, coefficients: Mapping[str, float]):
        super().__init__(
            run.study.library, coefficients, run.experiments[name], run.study.petsc_options
        )
        self.of_run, self.name = run, name

    def run(
        self, change: Intervention, record: SolveRecord, keep: Any, keep_stage: Any = None
    ) -> None:
        """Solve and hand every level to `keep`."""

        limits = self._limits() if change == Intervention() else {}

        def watched(level: int, state: Any, velocity: Any) -> Any:
            self._check_growth(level, state, limits)
            enough = keep(level, state, velocity)
            self.of_run.progress.step(level, record.iterations + record.newton_steps)
            stop_if_asked(self.comm)
            return enough

        super().run(change, record, watched, keep_stage)

    def _limits(self) -> dict[Field, float]:
        """For each measured field whose unknowns are its values, the size beyond which a
        fitted model has run away.
        """
        study = self.of_run.study
        if study.coefficients is not None or self.name not in study.data:
            return {}
        data = study.data[self.name]
        nodal = [
            u
            for u in self.discretisation.unknowns
            if carrier(self.spaces.elements[u]).space in (H1, L2)
        ]
        return {u: LARGEST_GROWTH * largest(data, u) for u in nodal if measures(data, u)}

    def _check_growth(self, level: int, state: Any, limits: Mapping[Field, float]) -> None:
        for unknown, limit in limits.items():
            here = np.abs(self.spaces.with_ghosts(state)[self.spaces.dofs(unknown)]).max(
                initial=0.0
            )
            largest = self.comm.allreduce(float(here), MPI.MAX)
            if largest > limit:
                raise ModelGrows(
                    f"{unknown} grows to {largest:.2g} by level {level} of the time steps, beyond "
                    f"{LARGEST_GROWTH:g} times the "
                    "largest value in the data"
                )

    @property
    def factual(self) -> Solution:
        """The factual solution: in memory, from the checkpoint, or solved now."""
        if self._factual is None:
            self._factual = self.of_run.solved(
                f"factual/{self.name}", self, Intervention(), stages=True
            )
        return self._factual


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
        keep_watching()
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
        self.description = described(study, {name: mesh.mesh for name, mesh in meshes.items()})
        self.checkpoint = Checkpoint(first, folder, self.description, resume)
        self.models: dict[str, WatchedModel] = {}

    # Work
    # ----------------------------------------------------------------------------------------------

    def once(self, key: str, compute: Callable[[], Any], label: str = "", levels: int = 0) -> Any:
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
        stop_if_asked(self.comm)
        self.progress.work(label, levels)
        start = time.perf_counter()
        value = compute()
        self.checkpoint.store(
            key, {"value": value, "seconds": round(time.perf_counter() - start, 3)}
        )
        self.progress.finish()
        return self.checkpoint[key]["value"]

    def solved(
        self, key: str, model: Model, change: Intervention, stages: bool = False
    ) -> Solution:
        """A solution from the checkpoint, or solved now and stored."""
        found = self.checkpoint.restore_field(key, model, change)
        if found is None:
            found = model.solve(change, stages=stages)
            self.keep_field(key, found)
        return found

    def keep_field(self, key: str, solution: Solution) -> None:
        """Store a solution unless it is too large for that, or would fill the memory for
        nothing.
        """
        if self.checkpoint.folder is None and not self.study.observables:
            return
        copies = (
            len(solution.states) + len(solution.velocities or ()) + 3 * len(solution.stages or ())
        )
        if 8 * copies * solution.model.spaces.size <= LARGEST_FIELD:
            self.checkpoint.store_field(key, solution)

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

    def destroy(self) -> None:
        """Free PETSc objects; collective."""
        for model in self.models.values():
            model.destroy()
        self.models.clear()
