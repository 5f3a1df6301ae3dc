# SPDX-License-Identifier: MIT
"""Divergence-free Raviart–Thomas and BDM fields of the plane as curls of a stream function: a
Poisson problem for each projection.

In the plane the complex Lagrange → H(div) → discontinuous is exact, so that a field without
divergence is curl ψ = (∂ψ/∂y, −∂ψ/∂x) with ψ in the paired Lagrange space, as long as nothing flows
out through one boundary curve and in through another. Its flux through an arc of the boundary is
the difference of ψ at the ends; where the normal component is zero, ψ is one constant on each
connected arc, and the constants of separate arcs (walls of a channel, obstacles) are unknowns. With
the matrix G of the curl,

    P w = G ψ,   (G ψ, G χ) = (w, G χ)  for all χ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import ufl
from dolfinx import fem
from petsc4py import PETSc
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cffem import _compat
from cffem.constraints.projections.projection_solver import ROUND_OFF, Solver, without_zeros
from cffem.engine.assembly.dirichlet import EssentialConditions, local_dofs
from cffem.engine.assembly.discretisation import Discretisation
from cffem.engine.assembly.traces import essential as all_given
from cffem.engine.solve.scope import Scope
from cffem.forms.elements import HDIV, L2, before, carrier
from cffem.symbols.problem.constraint_classes import DivergenceFree

if TYPE_CHECKING:
    from cffem.engine.solve.stage_types import PetscOptions
    from cffem.symbols.fields import Field


def has_stream_function(discretisation: Discretisation, essential: EssentialConditions) -> bool:
    """Whether all members of the class that vanish where they are held are curls; collective."""
    constraint = discretisation.experiment.constraint
    if (
        not isinstance(constraint, DivergenceFree)
        or constraint.weight != 1
        or discretisation.multiplier is None
    ):
        return False
    element, multiplier = (
        discretisation.spaces.elements[constraint.field],
        discretisation.multiplier[1],
    )
    degree = element.embedded_superdegree - 1
    paired = (
        carrier(multiplier).space == L2
        and multiplier.embedded_subdegree == multiplier.embedded_superdegree == degree
    )
    if (
        carrier(element).space != HDIV
        or element.cell_type.name != "triangle"
        or not paired
        or essential.periodicity is not None
    ):
        return False
    curves = Curves(discretisation, constraint.field)
    own, _ = discretisation.spaces.own(constraint.field)
    held = np.isin(discretisation.spaces.dofs(constraint.field), essential.owned)
    mine = held[: own.dofmap.index_map.size_local]
    given = np.zeros_like(mine)
    where = local_dofs(own, discretisation.boundary, curves.closed_parts)
    given[where[where < len(mine)]] = True
    as_expected = discretisation.mesh.comm.allreduce(int((mine != given).sum())) == 0
    return as_expected and curves.open_curves <= 1


class Curves:
    """The boundary of a plane mesh as curves, and the arcs of it on which the normal component of a
    field is given.

    Args:
        discretisation: the state space.
        field: a field with normal components.

    Attributes:
        closed_parts: the names of the parts where the field is given.
        closed: the facets of these parts that this rank owns.
        arcs: for each of them the number of its connected arc, the same on all ranks.
        open_curves: how many curves have a part on which the field is free.
    """

    def __init__(self, discretisation: Discretisation, field: Field):
        boundary, mesh = discretisation.boundary, discretisation.mesh
        self.closed_parts = tuple(
            part for part, given in boundary.conditions.items() if all_given(given, field, HDIV)
        )
        exterior = np.asarray(boundary.exterior)
        closed = np.isin(exterior, boundary.facets_of(self.closed_parts))
        mesh.topology.create_connectivity(1, 0)
        ends = mesh.topology.connectivity(1, 0).array.reshape(-1, 2)[exterior]
        vertices = (
            mesh.topology.index_map(0).local_to_global(ends.ravel().astype(np.int32)).reshape(-1, 2)
        )
        every, every_closed = (
            np.concatenate(mesh.comm.allgather(part)) for part in (vertices, closed)
        )
        curves = connected(every)
        self.open_curves = len(np.unique(curves[~every_closed]))
        arcs = np.full(len(every), -1)
        arcs[every_closed] = connected(every[every_closed])
        first = sum(mesh.comm.allgather(len(exterior))[: mesh.comm.rank])
        self.closed = exterior[closed]
        self.arcs = arcs[first : first + len(exterior)][closed]


def connected(edges: np.ndarray) -> np.ndarray:
    """For each edge the number of the connected piece to which it belongs.

    Example:
        >>> connected(np.array([[0, 1], [7, 8], [1, 2], [8, 9]])).tolist()
        [0, 1, 0, 1]
    """
    names, flat = np.unique(edges, return_inverse=True)
    ends = flat.reshape(-1, 2)
    graph = coo_array(
        (np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(len(names), len(names))
    )
    return (
        connected_components(graph, directed=False)[1][ends[:, 0]]
        if len(ends)
        else np.empty(0, dtype=np.int64)
    )


class StreamFunctions(Scope):
    """The orthogonal projection onto curls of stream functions.

    Args:
        discretisation: a state space with a stream function.
        options: PETSc options of the Poisson solver.
    """

    def __init__(self, discretisation: Discretisation, options: PetscOptions):
        field = discretisation.experiment.constraint.field
        self.vectors, _ = discretisation.spaces.own(field)
        self.scalars = fem.functionspace(
            discretisation.mesh, before(discretisation.spaces.elements[field])
        )
        ties = self._ties(Curves(discretisation, field))
        curl = curl_matrix(self.scalars, self.vectors)
        self.curl = self.own(curl.matMult(ties))
        u, v = ufl.TrialFunction(self.vectors), ufl.TestFunction(self.vectors)
        form = _compat.form(ufl.inner(u, v) * ufl.dx, discretisation.mesh.comm)
        self.mass = self.own(_compat.assemble_matrix(form))
        stiffness = self.mass.PtAP(self.curl)
        for thing in (ties, curl):
            thing.destroy()
        self.solver = self.own(Solver(stiffness, options))
        self._field, self._image = self.own_all(self.mass.createVecs())
        self._stream, self._source = self.own_all(stiffness.createVecs())

    @property
    def iterations(self) -> int:
        """Of all solves so far."""
        return self.solver.iterations

    @iterations.setter
    def iterations(self, value: int) -> None:
        self.solver.iterations = value

    def _ties(self, curves: Curves) -> PETSc.Mat:
        """Z with ψ = Z ψ̂; ψ̂ has one value for each arc but the first, where ψ is zero."""
        comm, imap = self.scalars.mesh.comm, self.scalars.dofmap.index_map
        here = closure_dofs(self.scalars, curves.closed)
        numbers = imap.local_to_global(here.ravel().astype(np.int32))
        pairs = np.stack([np.repeat(curves.arcs, here.shape[1]), numbers], axis=1)
        pairs = np.unique(np.concatenate(comm.allgather(pairs)), axis=0)
        arcs, firsts, which = np.unique(pairs[:, 0], return_index=True, return_inverse=True)
        tied, masters = pairs[:, 1], pairs[firsts, 1][which.ravel()]
        # The curl does not see a constant: one arc, or one unknown where there is none, is held at
        # zero.
        grounded = tied[pairs[:, 0] == arcs[0]] if len(arcs) else np.zeros(1, dtype=np.int64)
        low, high = imap.local_range
        master = np.arange(low, high)
        mine = (tied >= low) & (tied < high)
        master[tied[mine] - low] = masters[mine]
        kept = ~np.isin(master, grounded)
        own = kept & (master == np.arange(low, high))
        offset = sum(comm.allgather(int(own.sum()))[: comm.rank])
        reduced = np.full(high - low, -1)
        reduced[own] = offset + np.arange(own.sum())
        # An arc may belong to several ranks: all of them are told the new numbers of its
        # representative.
        leaders = np.unique(masters[(masters >= low) & (masters < high)])
        told = dict(
            pair
            for part in comm.allgather([(int(m), int(reduced[m - low])) for m in leaders])
            for pair in part
        )
        others = np.flatnonzero(kept & ~own)
        reduced[others] = [told[int(m)] for m in master[others]]
        starts = np.concatenate([[0], np.cumsum(kept)]).astype(PETSc.IntType)
        size = (high - low, imap.size_global), (int(own.sum()), PETSc.DETERMINE)
        ties = PETSc.Mat().createAIJ(
            size, csr=(starts, reduced[kept].astype(PETSc.IntType), np.ones(kept.sum())), comm=comm
        )
        ties.assemble()
        return ties

    def nearest(self, values: np.ndarray) -> np.ndarray:
        """The curl that is nearest to a field, both as owned values of the field."""
        result = np.zeros_like(values)
        for loosely in (False, True):
            self._field.array[:] = values - result
            self.mass.mult(self._field, self._image)
            self.curl.multTranspose(self._image, self._source)
            self.solver.solve(self._source, self._stream, "the stream function", loosely)
            self.curl.mult(self._stream, self._field)
            result += self._field.array_r
        return result


def closure_dofs(space: fem.FunctionSpace, facets: np.ndarray) -> np.ndarray:
    """Local dofs of a plane space on some facets, their ends included; a row for each facet."""
    topology = space.mesh.topology
    topology.create_connectivity(2, 1)
    to_cell, to_facet = topology.connectivity(1, 2), topology.connectivity(2, 1)
    cells = np.array([to_cell.links(facet)[0] for facet in facets], dtype=np.int64)
    local = np.array(
        [np.flatnonzero(to_facet.links(c) == f)[0] for c, f in zip(cells, facets, strict=True)],
        dtype=np.int64,
    )
    sides = np.array(space.element.basix_element.entity_closure_dofs[1])
    return np.take_along_axis(space.dofmap.list[cells].astype(np.int64), sides[local], axis=1)


def curl_matrix(scalars: fem.FunctionSpace, vectors: fem.FunctionSpace) -> PETSc.Mat:
    """The matrix of ψ → (∂ψ/∂y, −∂ψ/∂x) from a Lagrange space of the plane to the H(div) space that
    follows it.

    The contravariant map carries the curl on the reference cell to that on a cell, so one small
    matrix serves all cells with the same orientation of their edges. Each row is taken from one
    cell; the others would give the same.
    """
    source, target = scalars.element.basix_element, vectors.element
    slopes = source.tabulate(1, target.basix_element.points)[1:, :, :, 0]
    # Basix orders the values that it interpolates by component first and point second.
    local = target.basix_element.interpolation_matrix @ np.concatenate([slopes[1], -slopes[0]])
    mesh, imap = scalars.mesh, vectors.dofmap.index_map
    mesh.topology.create_entity_permutations()
    turns, which = np.unique(mesh.topology.get_cell_permutation_info(), return_inverse=True)
    turned = np.empty((len(turns), *local.shape))
    for k, turn in enumerate(turns):
        flat = local.flatten()
        target.Tt_inv_apply(flat, np.array([turn], dtype=np.uint32), local.shape[1])
        turned[k] = flat.reshape(local.shape)
    rows, first = np.unique(vectors.dofmap.list.ravel(), return_index=True)
    first = first[rows < imap.size_local]
    cells, places = np.divmod(first, local.shape[0])
    values = turned[which.ravel()[cells], places]
    numbers = scalars.dofmap.list[cells]
    columns = scalars.dofmap.index_map.local_to_global(numbers.ravel().astype(np.int32)).reshape(
        numbers.shape
    )
    order = np.argsort(columns, axis=1)
    columns, values = (np.take_along_axis(part, order, axis=1) for part in (columns, values))
    starts = np.arange(0, values.size + 1, local.shape[1])
    size = (
        (imap.size_local, imap.size_global),
        (scalars.dofmap.index_map.size_local, scalars.dofmap.index_map.size_global),
    )
    csr = starts.astype(PETSc.IntType), columns.ravel().astype(PETSc.IntType), values.ravel()
    matrix = PETSc.Mat().createAIJ(size, csr=csr, comm=mesh.comm)
    matrix.assemble()
    return without_zeros(matrix, ROUND_OFF)
