# SPDX-License-Identifier: MIT
"""Names for the cells and facets of a DOLFINx mesh that a user brings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from dolfinx import mesh as dolfinx_mesh
from dolfinx.mesh import Mesh, MeshTags

from cffem.engine.mesh.meshes import MeshData, check_distributed
from cffem.engine.mesh.msh_format import MeshError

if TYPE_CHECKING:
    from mpi4py import MPI


Where = Callable[[np.ndarray], np.ndarray] | int


def named(
    mesh: Mesh,
    *,
    cells: Mapping[str, Where] | None = None,
    facets: Mapping[str, Where] | None = None,
    cell_tags: MeshTags | None = None,
    facet_tags: MeshTags | None = None,
) -> MeshData:
    """A DOLFINx mesh with names for its subdomains, its boundary parts and surfaces in it;
    collective.

    Args:
        mesh: the mesh.
        cells: for each subdomain a function of the points, as `dolfinx.mesh.locate_entities` takes
            it (a cell belongs to the subdomain if all of its vertices do), or the number that its
            cells have in `cell_tags`.
        facets: the same for facets, inside the mesh or on its boundary, and `facet_tags`.
        cell_tags, facet_tags: DOLFINx tags.

    Raises:
        MeshError: two names overlap, or a name has no cells or facets.

    Example:
        >>> import cffem as cf
        >>> from dolfinx.mesh import create_unit_square
        >>> from mpi4py import MPI
        >>> domain = cf.mesh.named(
        ...     create_unit_square(MPI.COMM_SELF, 4, 4),
        ...     cells={"glass": lambda x: x[0] < 0.5 + 1e-9, "air": lambda x: x[0] > 0.5 - 1e-9},
        ...     facets={"wall": lambda x: x[1] < 1e-12},
        ... )
        >>> sorted(domain.names)
        ['air', 'glass', 'wall']
    """
    check_distributed(mesh)
    dim = mesh.topology.dim
    own_cells, cell_names = _tagged(mesh, dim, cells or {}, cell_tags)
    own_facets, facet_names = _tagged(mesh, dim - 1, facets or {}, facet_tags)
    for name in {*cell_names} & {*facet_names}:
        raise MeshError(f"a subdomain and a set of facets are both called {name!r}; rename one")
    return MeshData(mesh, own_cells, own_facets, {**cell_names, **facet_names})


def _tagged(
    mesh: Mesh, dim: int, places: Mapping[str, Where], tags: MeshTags | None
) -> tuple[MeshTags | None, dict[str, tuple[int, int]]]:
    """Tags of one dimension and the names of their numbers."""
    kind = "cells" if dim == mesh.topology.dim else "facets"
    if tags is not None and tags.dim != dim:
        raise MeshError(f"the tags for {kind} have dimension {tags.dim}, not {dim}")
    mesh.topology.create_entities(dim)
    mesh.topology.create_connectivity(dim, mesh.topology.dim)
    index_map = mesh.topology.index_map(dim)
    values = np.zeros(index_map.size_local + index_map.num_ghosts, dtype=np.int32)
    if tags is not None:
        values[tags.indices] = tags.values
    numbers = [w for w in places.values() if isinstance(w, int)]
    largest = mesh.comm.allreduce(int(values.max(initial=0)), op=_maximum())
    names: dict[str, tuple[int, int]] = {}
    for name, where in places.items():
        if isinstance(where, int):
            number = where
        else:
            largest += 1
            number = largest
            found = dolfinx_mesh.locate_entities(mesh, dim, where)
            # What has a number already keeps it where nobody named that number.
            taken = np.isin(values[found], [*numbers, *(n for _, n in names.values())])
            if mesh.comm.allreduce(int(taken.any())):
                raise MeshError(f"{name!r} shares {kind} with another name; names must not overlap")
            values[found] = number
        if not mesh.comm.allreduce(int((values == number).any())):
            raise MeshError(f"no {kind} belong to {name!r}")
        names[name] = (dim, number)
    if tags is None and not places:
        return None, {}
    marked = np.flatnonzero(values).astype(np.int32)
    return dolfinx_mesh.meshtags(mesh, dim, marked, values[marked]), names


def _maximum() -> MPI.Op:
    from mpi4py import MPI

    return MPI.MAX
