# SPDX-License-Identifier: MIT
"""The solution of one factual or intervened problem: its states at all time levels, and how
it was obtained.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.engine.norms import TrajectoryNorm
from cffem.engine.solve.solve_record import SolveRecord
from cffem.engine.store.storage import read_header, read_states, write_states
from cffem.engine.time.trajectories import Levels, Stages
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field
from cffem.symbols.problem.interventions import Intervention

if TYPE_CHECKING:
    from collections.abc import Callable

    from dolfinx import fem
    from mpi4py import MPI

    from cffem.engine.model import Model
    from cffem.engine.solve.stage_types import StageVectors
    from cffem.symbols.problem.library import CandidateTerms


@dataclass(frozen=True)
class StoredAs:
    """What a stored solution says of itself.

    Attributes:
        coefficients: of the model that stored it.
        intervention: that was its own there.
    """

    coefficients: Mapping[str, float]
    intervention: Intervention


class Solution:
    """States of a solve, one for each time level (a steady problem has one).

    Attributes:
        model: the model it belongs to.
        intervention: what was changed about the factual problem.
        times: the time levels; `[0.0]` for a steady problem.
        states: owned values of the whole state at each level.
        velocities: owned values of the rates at each level, for second-order anchors.
        record: solver statistics and the worst true residual.
    """

    def __init__(
        self, model: Model, intervention: Intervention, times: np.ndarray, record: SolveRecord
    ):
        self.model = model
        self.intervention = intervention
        self.times = times
        self.states: Levels = model.new_levels(len(times))
        self.velocities: Levels | None = None
        self.record = record
        self.stages: Stages | None = None

    def keep(self, level: int, state: np.ndarray, velocity: np.ndarray | None) -> None:
        """Take the next level."""
        self.states.append(state)
        if velocity is not None:
            if self.velocities is None:
                self.velocities = self.model.new_levels(len(self.times))
            self.velocities.append(velocity)

    def start_stages(self) -> Callable[[int, int, StageVectors, float], None]:
        """Keep the implicit stages from now on; the result is what a march calls."""
        stages = self.stages = self.model.new_stages()

        def keep_stage(step: int, index: int, states: StageVectors, time: float) -> None:
            kept = tuple(None if vector is None else vector.array_r.copy() for vector in states)
            stages.append((step, index, kept, time))

        return keep_stage

    @property
    def steady(self) -> bool:
        """Whether there is no time."""
        return len(self.times) == 1

    def function(self, field: Field | None = None, k: int = -1) -> fem.Function:
        """The field at level k as a DOLFINx function of its own space.

        Args:
            field: which one; not needed where there is one only.
            k: the time level.
        """
        return self.model.spaces.function(self._field(field), self.states[k])

    def velocity(self, field: Field | None = None, k: int = -1) -> fem.Function:
        """The rate of a field with a second-order anchor at level k."""
        if self.velocities is None:
            raise InputError("only equations of second order in time have a velocity")
        return self.model.spaces.function(self._field(field), self.velocities[k])

    def multiplier(self, k: int = -1) -> fem.Function:
        """The multiplier of the constraint at level k: of `DivergenceFree` the pressure p,
        whose force in the equation is −∇p.
        """
        if self.model.discretisation.multiplier is None:
            raise InputError("this experiment has no constraint, so there is no multiplier")
        return self.model.spaces.function(self.model.discretisation.multiplier[0], self.states[k])

    def _field(self, field: Field | None) -> Field:
        unknowns = self.model.discretisation.unknowns
        if field is None:
            if len(unknowns) > 1:
                raise InputError(f"say which field: {', '.join(map(str, unknowns))}")
            return unknowns[0]
        if field not in self.model.spaces.fields:
            raise InputError(
                f"{field} is not a field of this model; it has {', '.join(map(str, unknowns))}"
            )
        return field

    def norm(self, kind: str = "L2") -> float:
        """The norm in space, or in space and time for a transient solution."""
        return self.model.trajectory_norm(self.states, self.times, kind)

    def distance(self, other: Solution, kind: str = "L2") -> float:
        """The norm of the difference of two solutions of one model."""
        if other.model is not self.model or len(other.states) != len(self.states):
            raise InputError(
                "only two solutions of one model on the same time levels can be compared"
            )
        norm = TrajectoryNorm(self.model.norm(kind))
        if self.steady:
            return norm.norm(self.states[0] - other.states[0])
        for k, (a, b) in enumerate(zip(self.states, other.states, strict=True)):
            norm.add(a - b, self.times[k] - self.times[k - 1] if k else 0.0)
        return norm.value

    # Rows of a regression
    # ----------------------------------------------------------------------------------------------

    @property
    def comm(self) -> MPI.Comm:
        """The communicator over whose ranks the rows are spread."""
        return self.model.comm

    def rows(self, library: CandidateTerms, kind: str = "strong") -> Iterator[Any]:
        """Blocks of rows of the anchored regression, for a `Design`; each rank yields those of its
        own cells.

        Args:
            library: the terms and the anchor.
            kind: "strong", the terms at quadrature points in the middle of each time step, or
                "weak", the terms tested with smooth functions of compact support, derivatives that
                the elements lack being moved to these.
        """
        from cffem.engine.rows.strong_rows import StrongRows
        from cffem.engine.rows.weak_rows import WeakRows

        if kind not in ("strong", "weak"):
            raise InputError(f"rows are 'strong' or 'weak', not {kind!r}")
        return iter((StrongRows if kind == "strong" else WeakRows)(self, library))

    # Files
    # ----------------------------------------------------------------------------------------------

    def write(self, path: str | os.PathLike, field: Field | None = None) -> list[Path]:
        """Write all time levels for ParaView; collective.

        Args:
            path: the file, `u.bp` (VTX, by ADIOS2) or `u.pvd` (VTK, which needs nothing else);
                with several fields and none chosen, one file for each, named `u_FIELD.bp`.
            field: only this one.

        Returns:
            The files that were written.
        """
        from cffem.engine.store.views import write_views

        return write_views(self, Path(path), None if field is None else self._field(field))

    def store(self, path: str | os.PathLike) -> None:
        """Store all levels, velocities and stages exactly; `model.restore` gives them back on
        any number of ranks; collective.
        """
        about = {
            "times": [float(time) for time in self.times],
            "coefficients": {name: float(value) for name, value in self.model.coefficients.items()},
            "intervention": str(self.intervention),
            "record": asdict(self.record),
            "stages": None
            if self.stages is None
            else [[step, index, time] for step, index, _, time in self.stages],
        }
        write_states(path, self.model.spaces, self._stored(), about)

    def _stored(self) -> Iterator[tuple[str, np.ndarray]]:
        for k, state in enumerate(self.states):
            yield f"state/{k}", state
        for k, velocity in enumerate(() if self.velocities is None else self.velocities):
            yield f"velocity/{k}", velocity
        for k, (_, _, values, _) in enumerate(() if self.stages is None else self.stages):
            for order, value in enumerate(values):
                if value is not None:
                    yield f"stage{order}/{k}", value

    @classmethod
    def restored(
        cls,
        model: Model,
        path: str | os.PathLike,
        intervention: Intervention,
        stored_as: StoredAs | None = None,
    ) -> Solution:
        """A stored solution of this model, or of another one that poses the same problem as what
        `stored_as` says; collective.

        Raises:
            InputError: the file is damaged or belongs to another mesh, other elements,
                coefficients, times or interventions.
        """
        header = read_header(path, model.comm)
        about = header["about"] or {}
        # Terms with coefficient zero are not there.
        expected = stored_as or StoredAs(model.coefficients, intervention)
        active = {name: float(value) for name, value in expected.coefficients.items() if value}
        stored = about.get("coefficients")
        if isinstance(stored, dict):
            about = {**about, "coefficients": {name: v for name, v in stored.items() if v}}
        for what, here in (
            ("times", [float(time) for time in model.times]),
            ("coefficients", active),
            ("intervention", str(expected.intervention)),
        ):
            if about.get(what) != here:
                raise InputError(
                    f"{path} is a solution with other {what}: {about.get(what)}, not {here}"
                )
        solution = cls(model, intervention, model.times, SolveRecord(**about["record"]))
        kinds: dict[str, dict[int, np.ndarray]] = {}
        for name, values in read_states(path, model.spaces, header):
            kind, number = name.split("/")
            kinds.setdefault(kind, {})[int(number)] = values
        solution.states = [kinds["state"][k] for k in range(len(model.times))]
        if "velocity" in kinds:
            solution.velocities = [kinds["velocity"][k] for k in range(len(model.times))]
        if about["stages"] is not None:
            orders = [kinds.get(f"stage{order}", {}) for order in range(3)]
            solution.stages = model.new_stages()
            for k, (step, index, time) in enumerate(about["stages"]):
                solution.stages.append(
                    (step, index, tuple(values.get(k) for values in orders), time)
                )
        return solution

    def __repr__(self) -> str:
        what = "steady" if self.steady else f"{len(self.times)} time levels"
        return f"Solution({self.intervention}, {what}, {self.model.spaces.size} unknowns)"
