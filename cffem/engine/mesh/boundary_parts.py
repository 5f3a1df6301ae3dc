# SPDX-License-Identifier: MIT
"""The named parts of a mesh's boundary: their facets, the conditions declared on each, and a
measure that tells them apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import ufl
from dolfinx import fem, la
from dolfinx import mesh as dolfinx_mesh

from cffem._compat import exterior_facets
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field, ScalarField, VectorField
from cffem.symbols.problem.conditions import BoundaryCondition, Natural, Periodic

if TYPE_CHECKING:
    from cffem.engine.mesh.meshes import MeshData


UNTAGGED = "untagged"


class Boundary:
    """The named parts of the boundary and what is declared on each.

    Args:
        domain: the mesh with its names.
        declared: the boundary conditions of the experiment.

    Attributes:
        conditions: for each part that exists on this mesh the conditions on it.
        tags: integer tags of the parts, for the measure.
        surfaces: integer tags of named surfaces inside the mesh, for the same measure, which
            meets them from both sides.
    """

    def __init__(self, domain: MeshData, declared: Sequence[BoundaryCondition | Periodic]):
        self.mesh = domain.mesh
        self.declared = [c for c in declared if isinstance(c, BoundaryCondition)]
        self.periodic = [c for c in declared if isinstance(c, Periodic)]
        self.facet_dimension = self.mesh.topology.dim - 1
        self.exterior = exterior_facets(self.mesh)
        self.tags, self.facets = self._parts(domain)
        self.surfaces, self._sides = self._inside(domain)
        self.check_names([*self.declared, *self.periodic])
        skip = {name for p in self.periodic for name in (p.on, p.to)}
        self.conditions = {
            part: [c for c in self.declared if part in c.on or "all" in c.on]
            for part in self.tags
            if part not in skip
        }
        self.data_symbols = self._data_symbols()

    def _parts(self, domain: MeshData) -> tuple[dict[str, int], dict[str, np.ndarray]]:
        """Tags and facets of every named part and of what has no name."""
        tags: dict[str, int] = {}
        facets: dict[str, np.ndarray] = {}
        rest = self.exterior
        if domain.facet_tags is not None:
            for name, (dimension, tag) in sorted(domain.names.items()):
                if dimension == self.facet_dimension:
                    tags[name] = tag
                    facets[name] = np.intersect1d(domain.facet_tags.find(tag), self.exterior)
                    rest = np.setdiff1d(rest, facets[name])
        if self.mesh.comm.allreduce(len(rest)) > 0:
            tags[UNTAGGED] = max(tags.values(), default=0) + 1
            facets[UNTAGGED] = rest
        # A name of interior facets only (a slit that was not cut) is no part of the boundary.
        tags = {
            name: tag
            for name, tag in tags.items()
            if self.mesh.comm.allreduce(len(facets[name])) > 0
        }
        return tags, facets

    def _inside(self, domain: MeshData) -> tuple[dict[str, int], dict[str, np.ndarray]]:
        """Tags of named facets between cells, and for each the pairs of a cell of this rank and
        the number of the facet in it.
        """
        if domain.facet_tags is None:
            return {}, {}
        tags: dict[str, int] = {}
        sides: dict[str, np.ndarray] = {}
        index_map = self.mesh.topology.index_map(self.facet_dimension)
        for name, (dimension, tag) in sorted(domain.names.items()):
            if dimension != self.facet_dimension:
                continue
            marked = la.vector(index_map, 1)
            marked.array[np.setdiff1d(domain.facet_tags.find(tag), self.exterior)] = 1.0
            # Who owns a facet may not own both of its cells.
            marked.scatter_reverse(la.InsertMode.add)
            marked.scatter_forward()
            found = np.flatnonzero(marked.array).astype(np.int32)
            pairs = self._pairs(np.setdiff1d(found, self.exterior))
            if self.mesh.comm.allreduce(len(pairs)):
                tags[name] = max([*self.tags.values(), *tags.values()], default=0) + 1
                sides[name] = pairs
        return tags, sides

    def _pairs(self, facets: np.ndarray) -> np.ndarray:
        """The cells of this rank at some facets, each followed by the number of the facet in it."""
        topology, dim = self.mesh.topology, self.mesh.topology.dim
        topology.create_connectivity(dim - 1, dim)
        topology.create_connectivity(dim, dim - 1)
        to_cells, to_facets = (
            topology.connectivity(dim - 1, dim),
            topology.connectivity(dim, dim - 1),
        )
        owned = topology.index_map(dim).size_local
        pairs = [
            (cell, int(np.flatnonzero(to_facets.links(cell) == facet)[0]))
            for facet in facets
            for cell in to_cells.links(facet)
            if cell < owned
        ]
        return np.array(sorted(pairs), dtype=np.int32).ravel()

    def check_names(self, conditions: Sequence[BoundaryCondition | Periodic]) -> None:
        """Refuse conditions on boundary parts that the mesh does not have."""
        known = [name for name in self.tags if name != UNTAGGED]
        for condition in conditions:
            for name in (
                (condition.on, condition.to) if isinstance(condition, Periodic) else condition.on
            ):
                if name not in self.tags and name != "all":
                    there = (
                        f"its boundary parts are: {', '.join(known)}"
                        if known
                        else "it has no named boundary parts, use on='all'"
                    )
                    raise InputError(
                        f"{condition}: the mesh has no boundary part {name!r}; {there}"
                    )

    def _data_symbols(self) -> dict[Any, Field]:
        """Symbols for natural data that are DOLFINx functions."""
        symbols: dict[Any, Field] = {}
        for index, condition in zip(itertools.count(), self.declared, strict=False):
            whole = isinstance(condition, Natural) or isinstance(condition.field, Field)
            if isinstance(condition.value, fem.Function) and whole:
                kind = VectorField if condition.field.shape else ScalarField
                symbols[condition] = kind(f"boundary_data_{index}", dim=condition.unknown.dim)
        return symbols

    @cached_property
    def measure(self) -> ufl.Measure:
        """The boundary measure with one tag for each part."""
        names = list(self.tags)
        if self.surfaces:
            parts = [(self.tags[name], self._pairs(self.facets[name])) for name in names]
            parts += [(tag, self._sides[name]) for name, tag in self.surfaces.items()]
            # DOLFINx looks tags up by bisection.
            parts.sort(key=lambda part: part[0])
            return ufl.Measure("ds", domain=self.mesh.ufl_domain(), subdomain_data=parts)
        indices = (
            np.concatenate([self.facets[name] for name in names])
            if names
            else np.empty(0, dtype=np.int32)
        )
        values = (
            np.concatenate([np.full(len(self.facets[name]), self.tags[name]) for name in names])
            if names
            else indices
        )
        order = np.argsort(indices)
        marked = dolfinx_mesh.meshtags(
            self.mesh,
            self.facet_dimension,
            indices[order].astype(np.int32),
            values[order].astype(np.int32),
        )
        return ufl.Measure("ds", domain=self.mesh.ufl_domain(), subdomain_data=marked)

    @cached_property
    def whole(self) -> ufl.Measure:
        """The measure of the whole boundary.

        The measure ds without tags takes DOLFINx's word for what the boundary of an interval is.
        """
        ones = np.ones(len(self.exterior), dtype=np.int32)
        marked = dolfinx_mesh.meshtags(self.mesh, self.facet_dimension, self.exterior, ones)
        return ufl.Measure("ds", domain=self.mesh.ufl_domain(), subdomain_data=marked)(1)

    def facets_of(self, names: tuple[str, ...]) -> np.ndarray:
        """Exterior facets of some parts."""
        if "all" in names:
            skip = [self.facets[name] for p in self.periodic for name in (p.on, p.to)]
            return np.setdiff1d(self.exterior, np.concatenate(skip)) if skip else self.exterior
        return (
            np.unique(np.concatenate([self.facets[name] for name in names]))
            if names
            else np.empty(0, dtype=np.int32)
        )
