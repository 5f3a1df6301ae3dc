# SPDX-License-Identifier: MIT
"""Deletions split over groups of ranks: where one deleted problem fits into a group, groups work on different deletions.

A deleted problem on half of the ranks takes less than twice as long as on all of them, because it communicates less, so that two
groups with half of the deletions each are done earlier than all ranks together with every one. Each group has a copy of the model
on its own communicator; the factual solution is taken over through `cffem.engine.transfer`, the same numbers on any number of
ranks.
"""

from __future__ import annotations

import dataclasses
from copy import copy
from typing import TYPE_CHECKING, Any

import basix.ufl
import numpy as np
import ufl
from dolfinx import default_real_type
from dolfinx.mesh import GhostMode, create_mesh, entities_to_geometry

from cffem._compat import cell_geometry, cell_partitioner
from cffem.engine.meshes import MeshData, mark
from cffem.engine.solution import Solution
from cffem.engine.transfer import Transfer
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from cffem.engine.model import Model

# Unknowns from which a split pays for the copies of the model, and beyond which a problem does not fit into one group.
SMALLEST, LARGEST = 5_000, 400_000


def number_of_groups(model: Model, deletions: int, wanted: int | None, keep: bool) -> int:
    """How many groups a sweep is split into; one means no split.

    Args:
        model: the model.
        deletions: how many deletions there are.
        wanted: as the user says, or None for what suits.
        keep: whether the deletions keep their solutions, which live on all ranks.

    Raises:
        InputError: the wish cannot be granted.
    """
    ranks = model.comm.size
    obstacle = _obstacle(model, keep)
    if wanted is not None:
        if not isinstance(wanted, int) or not 1 <= wanted <= ranks:
            raise InputError(f"a sweep on {ranks} ranks is split into 1 to {ranks} groups of ranks, not {wanted!r}")
        if wanted > 1 and obstacle:
            raise InputError(f"this sweep cannot be split over groups of ranks: {obstacle}")
        return wanted
    fits = SMALLEST <= model.spaces.size <= LARGEST
    return min(ranks, deletions) if fits and not obstacle else 1


def _obstacle(model: Model, keep: bool) -> str:
    """Why the deletions of a model cannot be split, or nothing."""
    experiment, mesh = model.experiment, model.discretisation.mesh
    values = [*experiment.initial.values(), *experiment.forcing.values(), *(getattr(c, "value", 0) for c in experiment.boundary)]
    if any(hasattr(value, "function_space") for value in values):
        return "data are given as functions on the mesh"
    if cell_geometry(mesh)[1] != 1:
        return "the cells are curved"
    return "its solutions are kept, which live on all ranks" if keep else ""


def group_of(model: Model, groups: int) -> Group:
    """The groups of a model's ranks, made once and kept with the model for its next sweep; collective.

    Args:
        model: the model on all ranks.
        groups: how many groups there are.
    """
    if model._group is not None and model._group.groups != groups:
        forget(model)
    if model._group is None:
        model._group = Group(model, groups)
    return model._group


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
        model: its copy of the model, with the factual solution.
        plain: whether the factual solution was only reordered, see `cffem.engine.transfer`.
    """

    def __init__(self, model: Model, groups: int):
        from cffem.engine.model import Model

        world = model.comm
        self.world, self.groups = world, groups
        self.number = world.rank * groups // world.size
        self.comm = world.Split(self.number, world.rank)
        domain = copied(model.discretisation.domain, self.comm)
        experiment = dataclasses.replace(model.experiment, mesh=domain, comm=self.comm)
        self.model = Model(model.library, model.coefficients, experiment, model.petsc_options, model.trajectories)
        self.model._factual = self._taken_over(model)

    def _taken_over(self, model: Model) -> Solution:
        """The factual solution of all ranks on those of the group; collective over all."""
        there, move = model.factual, Transfer(model.spaces, self.model.spaces)
        self.plain = move.plain
        here = Solution(self.model, there.intervention, there.times, copy(there.record))
        for state in move(there.states):
            here.states.append(state)
        if there.velocities is not None:
            here.velocities = self.model.new_levels(len(there.times))
            for rate in move(there.velocities):
                here.velocities.append(rate)
        if there.stages is not None:
            here.stages = self.model.new_stages()
            moved = move(value for _, _, values, _ in there.stages for value in values if value is not None)
            for step, index, values, time in there.stages:
                here.stages.append((step, index, tuple(None if value is None else next(moved) for value in values), time))
        return here

    def share(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The deletions of this group."""
        return names[self.number :: self.groups]

    def collected(self, mine: Any, error: Exception | None) -> list[Any]:
        """What all groups found, on every rank; an error of one group is raised on all ranks."""
        found = self.world.allgather((mine if self.comm.rank == 0 else None, error))
        for _, problem in found:
            if problem is not None:
                raise problem
        return [part for part, _ in found if part is not None]

    def destroy(self) -> None:
        """Free the copy of the model and the communicator; collective."""
        self.model.destroy()
        self.comm.Free()


def copied(domain: MeshData, comm: Any) -> MeshData:
    """A mesh with its named parts on another communicator, within the one it is on; collective over both."""
    mesh = domain.mesh
    dimension, gdim, nodes = mesh.topology.dim, mesh.geometry.dim, mesh.geometry.index_map()
    owned = mesh.topology.index_map(dimension).size_local
    cells = nodes.local_to_global(mesh.geometry.dofmap[:owned].ravel()).reshape(owned, -1)
    points = mesh.geometry.x[: nodes.size_local, :gdim]
    all_cells, all_points = (np.concatenate(mesh.comm.allgather(array)) for array in (cells, points))
    first = comm.rank == 0
    element = basix.ufl.element(
        "Lagrange", mesh.topology.cell_name(), 1, basix.LagrangeVariant.equispaced, shape=(gdim,), dtype=default_real_type
    )
    result = create_mesh(
        comm,
        cells=all_cells if first else all_cells[:0],
        x=all_points if first else all_points[:0],
        e=ufl.Mesh(element),
        partitioner=cell_partitioner(GhostMode.shared_facet),
    )
    tags = [_copied_tags(mesh, each, result, first) for each in (domain.cell_tags, domain.facet_tags)]
    return MeshData(result, tags[0], tags[1], domain.names)


def _copied_tags(mesh: Any, tags: Any, result: Any, first: bool) -> Any:
    """Tags of the entities of one mesh on its copy."""
    if tags is None:
        return None
    mesh.topology.create_connectivity(tags.dim, mesh.topology.dim)
    mesh.topology.create_connectivity(mesh.topology.dim, tags.dim)
    mine = tags.indices < mesh.topology.index_map(tags.dim).size_local
    local = entities_to_geometry(mesh, tags.dim, tags.indices[mine].astype(np.int32))
    numbers = mesh.geometry.index_map().local_to_global(np.asarray(local, dtype=np.int32).ravel()).reshape(local.shape)
    nodes, values = (np.concatenate(mesh.comm.allgather(array)) for array in (numbers, tags.values[mine]))
    return mark(result, tags.dim, nodes if first else nodes[:0], values if first else values[:0])
