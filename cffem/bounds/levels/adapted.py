# SPDX-License-Identifier: MIT
"""Levels on which only those cells are divided where the difference of two solutions asks for it.

A verdict depends on w = u − u_j, not on u: what both solutions have in common needs no small cells.
So the indicator of a cell K is the gap of w between two levels,

    η_K² = ∫ ‖∇(w_h − w_2h)‖²_K dt,

and h_K² η_K², its size in values of w: both relative to their sums, and summed over the undecided
deletions. What a cell changes in a score is between the two, as the dual problem of the score is
rough in the same places or smooth. A gap in the gradient is large where w is rough, while one in
values is large wherever a rough place changes them, which may be far away (pollution). Cells are
divided that make up the share θ of the sum (Dörfler); time steps are halved from level to level as
where all cells are divided.

Gaps between such levels bound no error: what lies in cells that are never divided is never seen. So
an adapted mesh knows how to be made with larger cells *everywhere*: a coarser mesh of the domain is
divided until each of its cells contains as many adapted ones as it should. Its error bars are then
those of `cffem.bounds.levels.around`: three levels of one grading, with all cells twice and four
times as large.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import ufl
from dolfinx import fem
from dolfinx.fem.petsc import assemble_vector
from mpi4py import MPI

from cffem.bounds.certificate import NotCovered
from cffem.bounds.levels.around import BELOW, LevelsAround
from cffem.bounds.levels.coarser import cells_of, check_coarser, coarser_model, interpolated
from cffem.bounds.levels.compared import compared_fields, raised_states
from cffem.bounds.levels.interpolation import located
from cffem.bounds.levels.ladders import finer_window, refined_domain, refined_known
from cffem.bounds.levels.prolongation import affine, prolongation
from cffem.bounds.refits import Change, change_on
from cffem.engine.mesh.msh_format import MeshError
from cffem.engine.model import Model
from cffem.engine.norms import parsed
from cffem.engine.solve.linear import SolveError
from cffem.symbols.problem.conditions import Periodic

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh

    from cffem.engine.mesh.meshes import MeshData
    from cffem.engine.solution import Solution
    from cffem.symbols.fields import Field


@dataclass(frozen=True)
class Marking:
    """Which cells are divided.

    Attributes:
        share: θ, of the sum of all indicators that the divided cells make up.
        most: where more than this share of the cells would be divided, all are.
        snapshots: time levels at which the gap is looked at, at most.
        rounds: how often cells of a coarser mesh are divided, at most.
    """

    share: float = 0.6
    most: float = 0.5
    snapshots: int = 12
    rounds: int = 40


MARKING = Marking()


class AdaptedLevels:
    """Models of one problem on meshes that are adapted to undecided deletions, each level made from
    the solutions of the one below.

    Args:
        model: the model on the lowest level.
        changes: the undecided deletions, by term.
        norm: the norm of their scores.
        around: gives the levels below a model's own, if they have been solved on already.

    Raises:
        NotCovered: there are no such levels; the message says why.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)
        >>> experiment = cf.Experiment(
        ...     mesh=cf.mesh.l_shape(MPI.COMM_SELF, 0.2), elements={u: ("Lagrange", 2)},
        ...     boundary=[cf.Dirichlet(u, 0)], forcing={u: 1})
        >>> with cf.Model(library, {"lap": 1.0, "u": -1.0}, experiment) as model:
        ...     levels = AdaptedLevels(model, {"u": cf.delete("u")}, "L2")
        ...     few = levels.size(1) < 2 * levels.size(0)
        ...     levels.destroy()
        >>> few
        True
    """

    def __init__(
        self,
        model: Model,
        changes: Mapping[str, Change],
        norm: str,
        around: Callable[[Model], Any] | None = None,
    ):
        check_coarser(model)
        if any(isinstance(condition, Periodic) for condition in model.experiment.boundary):
            raise NotCovered("cells at periodic sides are divided together or not at all")
        self.changes, self.norm, self.around = dict(changes), norm, around
        self.models: list[Model] = [model]
        self._domains: list[tuple[MeshData, np.ndarray]] = []
        # The share of cells that was divided for each level.
        self.shares: list[float] = []

    def size(self, level: int) -> float:
        """Unknowns times time steps of a level, for which its mesh is made; collective."""
        start = self.models[0]
        steps = 1 if start.experiment.time is None else start.experiment.time.steps * 2**level
        if level < len(self.models):
            return float(self.models[level].spaces.size * steps)
        below = self.models[level - 1]
        mesh = self._domain(level)[0].mesh
        ratio = mesh.topology.index_map(mesh.topology.dim).size_global / cells_of(below)
        return float(below.spaces.size * ratio * steps)

    def model(self, level: int) -> Model:
        """The model on a level; collective."""
        while len(self.models) <= level:
            self.models.append(self._next())
        return self.models[level]

    def _domain(self, level: int) -> tuple[MeshData, np.ndarray]:
        """The mesh of a level, and the parents of its cells on the level below; collective."""
        while len(self._domains) < level:
            below = self.models[len(self._domains)]
            domain = below.discretisation.domain
            try:
                marked = self._marked(below)
                count = below.discretisation.mesh.comm.allreduce(len(marked))
                share = count / cells_of(below)
            except (NotCovered, SolveError):
                share = 1.0  # there is nothing coarser that tells where
            self.shares.append(share if share <= MARKING.most else 1.0)
            if share > MARKING.most:
                self._domains.append(refined_domain(domain))
                continue
            finer, parents = refined_domain(domain, marked)
            self._domains.append((remaking(self.models[0].discretisation.domain, finer), parents))
        return self._domains[level - 1]

    def _next(self) -> Model:
        below, level = self.models[-1], len(self.models)
        domain, parents = self._domain(level)
        start = self.models[0].experiment
        changes: dict[str, Any] = {
            "mesh": domain,
            "known": refined_known(below, domain, parents),
            "time": start.time and finer_window(start.time, 2**level),
        }
        finer = dataclasses.replace(start, **changes)
        found = Model(
            below.library, below.coefficients, finer, below.petsc_options, observer=below.observer
        )
        if start.time is None:
            found.start_at = partial(self._raised, below, found, parents)
        return found

    def _raised(self, below: Model, above: Model, parents: np.ndarray) -> np.ndarray:
        """The factual solution of a level on the next, where Newton's method starts."""
        maps = {
            field: prolongation(below.spaces.own(field)[0], above.spaces.own(field)[0], parents)
            for field in compared_fields(below)
        }
        return raised_states(below.factual.states, below.spaces, above.spaces, maps)[0]

    # Indicators
    # ----------------------------------------------------------------------------------------------

    def _marked(self, model: Model) -> np.ndarray:
        """This rank's cells that are to be divided; collective."""
        found = self.indicators(model)
        comm = model.discretisation.mesh.comm
        if not comm.allreduce(float(found.sum())) > 0:
            raise NotCovered("the levels of the undecided deletions do not differ anywhere")
        return np.flatnonzero(found >= threshold(found, MARKING.share, comm)).astype(np.int32)

    def indicators(self, model: Model) -> np.ndarray:
        """η_K² of this rank's cells for all undecided deletions together; collective.

        Raises:
            NotCovered: none of them has a coarser level.
        """
        fields = [
            field
            for field in compared_fields(model)
            if any(field in weights for _, weights in parsed(self.norm, model.discretisation))
        ]
        measures = {field: GradientOfGap(model, field) for field in fields}
        total = np.zeros(model.discretisation.mesh.topology.index_map(_dim(model)).size_local)
        mesh, comm = model.discretisation.mesh, model.discretisation.mesh.comm
        sizes = mesh.h(_dim(model), np.arange(len(total), dtype=np.int32))
        for gap in self._gaps(model):
            for measure in measures.values():
                found = sum(weight * measure(state) for weight, state in gap)
                for local in (found, found * sizes**2):
                    whole = comm.allreduce(float(np.sum(local)))
                    total += local / whole if whole > 0 else 0.0
        return total

    def _gaps(self, model: Model) -> Iterator[list[tuple[float, np.ndarray]]]:
        """For each undecided deletion w_h − w_2h at some times, with their weights; collective."""
        around = None if self.around is None else self.around(model)
        if isinstance(around, LevelsAround) and around.given == BELOW:
            for name, change in self.changes.items():
                try:
                    low, high = around.last_levels(name, change)
                except (NotCovered, SolveError):
                    continue
                yield self._at_times(low, high, around.models[1].times, model.times)
            return
        coarse = coarser_model(model, 2)
        maps = interpolated(coarse, model)
        try:
            factual = self._raised_from(coarse, model, coarse.factual, maps)
            for change in self.changes.values():
                try:
                    above = model.solve(change_on(change, model))
                    below = coarse.solve(change_on(change, coarse))
                except SolveError:
                    continue
                raised = self._raised_from(coarse, model, below, maps)
                low = [a - b for a, b in zip(factual, raised, strict=True)]
                pairs = zip(model.factual.states, above.states, strict=True)
                yield self._at_times(low, [a - b for a, b in pairs], coarse.times, model.times)
        finally:
            coarse.destroy()

    @staticmethod
    def _raised_from(
        coarse: Model, model: Model, solution: Solution, maps: Mapping[Field, Any]
    ) -> list[np.ndarray]:
        return raised_states(solution.states, coarse.spaces, model.spaces, maps)

    @staticmethod
    def _at_times(
        low: Sequence[np.ndarray],
        high: Sequence[np.ndarray],
        coarse: Sequence[float],
        fine: Sequence[float],
    ) -> list[tuple[float, np.ndarray]]:
        """The gap of two trajectories at times of the coarser one, each with its share of the
        window.
        """
        chosen = np.unique(np.linspace(0, len(low) - 1, MARKING.snapshots).astype(int))
        places = [int(np.argmin(np.abs(np.asarray(fine) - coarse[k]))) for k in chosen]
        pairs = zip(chosen, places, strict=True)
        return [(1.0 / len(chosen), high[place] - low[k]) for k, place in pairs]

    def destroy(self) -> None:
        """Free all models but the lowest; collective."""
        for model in self.models[1:]:
            model.destroy()


class GradientOfGap:
    """‖∇g‖²_K of one field of a state, by cell.

    Args:
        model: the model whose states are looked at.
        field: the field.
    """

    def __init__(self, model: Model, field: Field):
        self.spaces, self.field = model.spaces, field
        mesh = model.discretisation.mesh
        self.function = fem.Function(model.spaces.own(field)[0])
        test = ufl.TestFunction(fem.functionspace(mesh, ("DG", 0)))
        gradient = ufl.grad(self.function)
        self.form = fem.form(ufl.inner(gradient, gradient) * test * ufl.dx)
        self.count = mesh.topology.index_map(mesh.topology.dim).size_local

    def __call__(self, state: np.ndarray) -> np.ndarray:
        """The values of this rank's cells; collective."""
        local = self.spaces.with_ghosts(state)
        self.function.x.array[:] = local[self.spaces.dofs(self.field)]
        vector = assemble_vector(self.form)
        found = np.array(vector.array_r[: self.count])
        vector.destroy()
        return np.maximum(found, 0.0)


def threshold(values: np.ndarray, share: float, comm: MPI.Comm) -> float:
    """The largest number such that the values that reach it make up a share of the sum of all;
    collective.

    Example:
        >>> round(threshold(np.array([1.0, 2.0, 3.0, 4.0]), 0.6, MPI.COMM_SELF), 9)
        3.0
    """
    wanted = share * comm.allreduce(float(values.sum()))
    low, high = 0.0, comm.allreduce(float(values.max(initial=0.0)), op=MPI.MAX)
    for _ in range(60):
        middle = (low + high) / 2
        if comm.allreduce(float(values[values >= middle].sum())) >= wanted:
            low = middle
        else:
            high = middle
    return low


def _dim(model: Model) -> int:
    return int(model.discretisation.mesh.topology.dim)


# Coarser meshes of the same grading
# --------------------------------------------------------------------------------------------------


def remaking(base: MeshData, adapted: MeshData) -> MeshData:
    """An adapted mesh that knows how to be made with cells that are larger by a factor everywhere.

    Args:
        base: the mesh it was adapted from, which knows how to be made anew.
        adapted: the mesh.
    """

    def remade(factor: float, comm: MPI.Comm) -> MeshData:
        return graded(base, middles(adapted.mesh), factor, comm)

    return dataclasses.replace(adapted, remade=remade)


def graded(base: MeshData, points: np.ndarray, factor: float, comm: MPI.Comm) -> MeshData:
    """A mesh whose cells contain about factor^d points each, but at least one.

    Args:
        base: makes the cells that are divided; collective over its communicator.
        points: the middles of the cells of an adapted mesh.
        factor: by how much larger cells shall be.
        comm: of this process alone.
    """
    if comm.size != 1:
        raise MeshError("coarser adapted meshes are made on one rank each")
    assert base.remade is not None
    found = base.remade(factor, comm)
    dimension = found.mesh.topology.dim
    # Each of the 2^d parts of a cell would still contain as many as it should.
    most = (2 * factor) ** dimension
    for _ in range(MARKING.rounds):
        cells, _ = located(found.mesh, points)
        count = np.bincount(cells, minlength=found.mesh.topology.index_map(dimension).size_local)
        many = np.flatnonzero(count > most).astype(np.int32)
        if not len(many):
            break
        found, _ = refined_domain(found, many)
    return dataclasses.replace(
        found, remade=lambda times, on: graded(base, points, times * factor, on)
    )


def middles(mesh: Mesh) -> np.ndarray:
    """The middles of all cells of a mesh, on every rank; collective."""
    count = mesh.topology.index_map(mesh.topology.dim).size_local
    origin, jacobian = affine(mesh, np.arange(count))
    own = origin + jacobian.sum(axis=2) / (mesh.topology.dim + 1)
    return np.concatenate(mesh.comm.allgather(own))
