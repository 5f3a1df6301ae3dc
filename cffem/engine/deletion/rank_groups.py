# SPDX-License-Identifier: MIT
"""Deletions split over groups of ranks: where one deleted problem fits into a group, groups work on
different deletions.

A deleted problem on half of the ranks takes less than twice as long as on all of them, because it
communicates less, so that two groups with half of the deletions each are done earlier than all
ranks together with every one. Each group has a copy of the model on its own communicator; the
factual solution is taken over through `cffem.engine.deletion.transfer`, the same numbers on any
number of ranks.

Two ranks together solve a factual problem of such a size no sooner than one of them alone. So where
both will have a copy of the model anyway, each solves the factual problem with it for itself, and
the solution on both together is made of what each has: then the copies cost nothing but the mesh,
and nothing is sent.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

import basix.ufl
import numpy as np
import ufl
from dolfinx import default_real_type
from dolfinx.mesh import GhostMode, create_mesh, entities_to_geometry

from cffem._compat import cell_geometry, cell_partitioner
from cffem.engine.collective import portable
from cffem.engine.deletion.transfer import Transfer
from cffem.engine.mesh.meshes import MeshData, mark
from cffem.engine.observer import GroupObserver
from cffem.engine.solution import Solution
from cffem.symbols.errors import InputError
from cffem.symbols.problem.interventions import Intervention
from cffem.symbols.problem.known_values import on_one_mesh

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh, MeshTags
    from mpi4py import MPI

    from cffem.engine.deletion.outcomes import Deletion
    from cffem.engine.model import Model

Result = TypeVar("Result")

# Unknowns from which a split pays for the copies of the model, and beyond which a problem does not
# fit into one group.
SMALLEST, LARGEST = 5_000, 400_000
# What it takes to begin a deletion, in time levels of it: its matrix, and first levels that no
# earlier ones help with.
STARTING = 10.0
# Ranks and unknowns up to which each rank solves the factual problem for itself. Measured with
# 6,600 to 148,000 unknowns on two ranks: together they are at best as fast as each alone, and where
# other work delays them they take several times as long.
FEW, MODERATE = 2, 150_000


def number_of_groups(
    model: Model,
    deletions: int,
    wanted: int | None,
    keep: bool | str,
    data: Sequence[object] = (),
) -> int:
    """How many groups a sweep is split into; one means no split.

    Args:
        model: the model.
        deletions: how many deletions there are.
        wanted: as the user says, or None for what suits.
        keep: whether the deletions keep their solutions, or hand them on (any other true value),
            which live on all ranks.
        data: what the deletions put in the place of forcing, initial and boundary values.

    Raises:
        InputError: the wish cannot be granted.
    """
    ranks = model.comm.size
    obstacle = _obstacle(model, keep is True, data)
    if wanted is not None:
        if not isinstance(wanted, int) or not 1 <= wanted <= ranks:
            raise InputError(
                f"a sweep on {ranks} ranks is split into 1 to {ranks} groups of ranks, not "
                f"{wanted!r}"
            )
        if wanted > 1 and obstacle:
            raise InputError(f"this sweep cannot be split over groups of ranks: {obstacle}")
        return wanted
    fits = SMALLEST <= model.spaces.size <= LARGEST
    count = min(ranks, deletions) if fits and not obstacle else 1
    # Solutions are handed back from groups of one rank only.
    return count if not keep or count == ranks else 1


def _obstacle(model: Model, keep: bool, data: Sequence[object]) -> str:
    """Why the deletions of a model cannot be split, or nothing."""
    experiment, mesh = model.experiment, model.discretisation.mesh
    values = [
        *experiment.initial.values(),
        *experiment.forcing.values(),
        *(getattr(c, "value", 0) for c in experiment.boundary),
        *data,
    ]
    if model.discretisation.captured:
        return "a form contains functions or constants of the mesh"
    if any(map(on_one_mesh, [*values, *experiment.known.values()])):
        return "data are given as functions on the mesh"
    if cell_geometry(mesh)[1] != 1:
        return "the cells are curved"
    return "its solutions are kept, which live on all ranks" if keep else ""


def group_of(model: Model, groups: int) -> Group:
    """The groups of a model's ranks, made once and kept with the model for its next sweep;
    collective.

    Args:
        model: the model on all ranks.
        groups: how many groups there are.
    """
    there = model.factual  # before the groups, which it may make
    if model._group is not None and model._group.groups != groups:
        forget(model)
    if model._group is None:
        model._group = Group(model, groups)
    if model._group.model._factual is None:
        model._group.take_over(there)
    return model._group


def solved_by_each(model: Model) -> Solution | None:
    """The factual solution of a model, where each of its ranks shall solve the problem for
    itself, otherwise None; collective.
    """
    ranks = model.comm.size
    if model._lent or not 1 < ranks <= FEW or model.spaces.size > MODERATE:
        return None
    if number_of_groups(model, len(model.active), None, keep=False) < ranks:
        return None
    if model._group is None:
        model._group = Group(model, ranks)
    return model._group.solved(model)


def forget(model: Model) -> None:
    """Free the groups of a model, if it has any; collective."""
    if model._group is not None:
        model._group.destroy()
        model._group = None


class Group:
    """The group of ranks that this rank is in, with its copy of a model.

    Args:
        model: the model on all ranks.
        groups: how many groups there are.

    Attributes:
        number: which of the groups this one is.
        comm: its communicator.
        model: its copy of the model, in the end with the factual solution.
        plain: whether the factual solution was only reordered, see
            `cffem.engine.deletion.transfer`.
    """

    def __init__(self, model: Model, groups: int):
        world = model.comm
        self.world, self.groups = world, groups
        self._last: Solution | None = None
        self.number = world.rank * groups // world.size
        self.comm = world.Split(self.number, world.rank)
        domain = copied(model.discretisation.given, self.comm)
        experiment = dataclasses.replace(model.experiment, mesh=domain, comm=self.comm)
        self.model = model.in_experiment(
            experiment, GroupObserver(model.observer), model.trajectories
        )
        self._move = Transfer(model.spaces, self.model.spaces)
        self.plain = self._move.plain

    def take_over(self, there: Solution) -> None:
        """Give the copy the factual solution of all ranks; collective over all."""
        self.model._factual = _moved(there, self.model, self._move)

    def solved(self, model: Model) -> Solution | None:
        """The factual solution on all ranks from what each has solved for itself; None where
        it cannot be put together.
        """
        if not self._move.invertible:
            return None
        factual = self._attempted(lambda: self.model.factual)
        return _moved(factual, model, self._move.back)

    def share(self, efforts: Mapping[str, float]) -> tuple[str, ...]:
        """The deletions of this group; collective over all ranks.

        Args:
            efforts: about what each deletion costs, the longest of which are given away first, each
                to the group with the least.
        """
        # Rounding may differ between the copies, but there must be one opinion of who does what.
        efforts = self.world.bcast(efforts)
        loads, mine = [0.0] * self.groups, set()
        for name in sorted(efforts, key=lambda name: -efforts[name]):
            least = loads.index(min(loads))
            loads[least] += efforts[name]
            if least == self.number:
                mine.add(name)
        return tuple(name for name in efforts if name in mine)

    @property
    def returns(self) -> bool:
        """Whether solutions can be handed back to all ranks."""
        return self._move.invertible

    def next(self, mine: Iterator[Deletion]) -> list[tuple[int, Deletion]]:
        """The next deletion of each group that has one, without its solution, with the rank that
        found it; collective over all ranks.
        """
        found = self._attempted(lambda: next(mine, None))
        self._last = None if found is None else found.solution
        sent = None if found is None else _sendable(found)
        return [
            (owner, deletion)
            for owner, deletion in enumerate(self.world.allgather(sent))
            if deletion is not None
        ]

    def all(self, mine: Iterator[Deletion]) -> list[Deletion]:
        """The deletions of all groups, without solutions; collective over all ranks."""
        found = self._attempted(lambda: list(mine))
        return [
            deletion
            for part in self.world.allgather(
                [_sendable(deletion) for deletion in found] if self.comm.rank == 0 else []
            )
            for deletion in part
        ]

    def returned(self, model: Model, owner: int, change: Intervention) -> Solution | None:
        """The solution of the last deletion that a rank found, on all ranks, None where there is
        none; collective over all ranks.

        Args:
            model: the model on all ranks.
            owner: the rank, a group of its own.
            change: the deletion.
        """
        last = self._last if self.world.rank == owner else None
        about = None if last is None else (last.record, last.velocities is not None)
        known = self.world.bcast(about, root=owner)
        if known is None:
            return None
        here = Solution(model, change, model.times, known[0])
        levels = range(len(model.times))
        for k in levels:
            here.states.append(self._move.from_one(owner, None if last is None else last.states[k]))
        if known[1]:
            here.velocities = model.new_levels(len(levels))
            for k in levels:
                rate = None if last is None or last.velocities is None else last.velocities[k]
                here.velocities.append(self._move.from_one(owner, rate))
        return here

    def _attempted(self, work: Callable[[], Result]) -> Result:
        """Work of each group for itself; what one of them raises is raised on all ranks."""
        result: Any = None
        problem: BaseException | None = None
        try:
            result = work()
        except BaseException as error:  # whatever it is, the other groups must not wait for this
            problem = portable(error)
        for found in self.world.allgather(problem):
            if found is not None:
                raise found
        return result

    def destroy(self) -> None:
        """Free the copy of the model and the communicator; collective."""
        self.model.destroy()
        self.comm.Free()


def _sendable(deletion: Deletion) -> Deletion:
    """A deletion without its solution and its intervention, which every rank knows."""
    return dataclasses.replace(deletion, solution=None, intervention=Intervention())


def _moved(
    there: Solution, model: Model, move: Callable[[Iterable[np.ndarray]], Iterator[np.ndarray]]
) -> Solution:
    """A solution with its levels and stages on another copy of its model."""
    here = Solution(model, there.intervention, there.times, copy(there.record))
    for state in move(there.states):
        here.states.append(state)
    if there.velocities is not None:
        here.velocities = model.new_levels(len(there.times))
        for rate in move(there.velocities):
            here.velocities.append(rate)
    if there.stages is not None:
        here.stages = model.new_stages()
        moved = iter(
            move(value for _, _, values, _ in there.stages for value in values if value is not None)
        )
        for step, index, values, time in there.stages:
            here.stages.append(
                (
                    step,
                    index,
                    tuple(None if value is None else next(moved) for value in values),
                    time,
                )
            )
    return here


def expected_efforts(
    model: Model, changes: Mapping[str, Intervention], epsilon: float | None
) -> dict[str, float]:
    """About what each deletion costs, in time levels; collective.

    One that only has to be decided ends where its score exceeds the threshold. A difference that
    grows as it starts, d = t^q v / q! with q the order in time, has by then the score ‖v‖ t^(q +
    1/2) / (q! √(2q + 1)), and ‖v‖ is about the norm of the source in D⁻¹ with the diagonal D of the
    mass matrix.

    Args:
        model: a model with its factual solution.
        changes: the deletions.
        epsilon: the threshold, None where whole scores are asked for.
    """
    stages, terms = model.factual.stages, model.equation.terms
    plain = all(
        terms[name].ingredient.by_matrix for change in changes.values() for name in change.names
    )
    levels, length = len(model.times) - 1, float(model.times[-1] - model.times[0])
    if epsilon is None or not levels or stages is None or not plain:
        return dict.fromkeys(changes, 1.0)
    order = 1 if model.marching.second_order is None else 2
    image = model.equation.new_vector()
    _, _, values, time = next(iter(stages))
    places = tuple(None if value is None else model.equation.new_vector() for value in values)
    for vector, value in zip(places, values, strict=True):
        if vector is not None:
            vector.array[:] = value
    result = {}
    for name, change in changes.items():
        source = np.zeros(model.spaces.owned)
        for term, amount in change.taken(model.coefficients).items():
            model.equation.term_vector(term, (places[0], places[1], places[2]), time, image)
            source += amount * image.array_r
        size = model.norm("L2").dual(source)
        reached = math.factorial(order) * math.sqrt(2 * order + 1) * epsilon
        end = min(length, (reached / size) ** (1 / (order + 0.5))) if size > 0 else length
        result[name] = STARTING + levels * end / length
    for vector in (image, *places):
        if vector is not None:
            vector.destroy()
    return result


def copied(domain: MeshData, comm: MPI.Comm) -> MeshData:
    """A mesh with its named parts on another communicator, within the one it is on;
    collective over both.
    """
    mesh = domain.mesh
    dimension, gdim, nodes = mesh.topology.dim, mesh.geometry.dim, mesh.geometry.index_map()
    owned = mesh.topology.index_map(dimension).size_local
    local = cell_geometry(mesh)[0][:owned]
    cells = nodes.local_to_global(local.ravel()).reshape(local.shape)
    points = mesh.geometry.x[: nodes.size_local, :gdim]
    all_cells, all_points = (
        np.concatenate(mesh.comm.allgather(array)) for array in (cells, points)
    )
    first = comm.rank == 0
    element = basix.ufl.element(
        "Lagrange",
        mesh.topology.cell_name(),
        1,
        basix.LagrangeVariant.equispaced,
        shape=(gdim,),
        dtype=default_real_type,
    )
    result = create_mesh(
        comm,
        cells=all_cells if first else all_cells[:0],
        x=all_points if first else all_points[:0],
        e=ufl.Mesh(element),
        partitioner=cell_partitioner(GhostMode.shared_facet),
    )
    tags = [
        _copied_tags(mesh, each, result, first) for each in (domain.cell_tags, domain.facet_tags)
    ]
    return MeshData(result, tags[0], tags[1], domain.names)


def _copied_tags(mesh: Mesh, tags: MeshTags, result: MeshTags, first: bool) -> MeshTags:
    """Tags of the entities of one mesh on its copy."""
    if tags is None:
        return None
    mesh.topology.create_connectivity(tags.dim, mesh.topology.dim)
    mesh.topology.create_connectivity(mesh.topology.dim, tags.dim)
    mine = tags.indices < mesh.topology.index_map(tags.dim).size_local
    local = entities_to_geometry(mesh, tags.dim, tags.indices[mine].astype(np.int32))
    numbers = (
        mesh.geometry.index_map()
        .local_to_global(np.asarray(local, dtype=np.int32).ravel())
        .reshape(local.shape)
    )
    nodes, values = (
        np.concatenate(mesh.comm.allgather(array)) for array in (numbers, tags.values[mine])
    )
    return mark(result, tags.dim, nodes if first else nodes[:0], values if first else values[:0])
