"""Unknowns that a periodic condition identifies, found without cffem: by the points of nodal
elements, and for edge and face elements by asking where the traces of both sides are equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from dolfinx import fem, geometry, mesh
from net_meshes import SIDES

POINTS = 8  # on each facet, more than a trace of degree two has unknowns there
AXIS, RIGHT = SIDES["right"]


def identified(space: Any, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """The matrix that makes all unknowns of those that stay, and which ones stay: all but those of
    the right side, which are what the left ones make them.

    Args:
        space: the space, on a mesh whose left and right sides match.
        kind: "curl" or "div" for spaces with tangential or normal traces, else one with nodes.
    """
    return _by_traces(space, kind) if kind in ("curl", "div") else _by_points(space)


def _by_points(space: Any) -> tuple[np.ndarray, np.ndarray]:
    size = space.dofmap.index_map_bs
    points = space.tabulate_dof_coordinates()
    columns = np.arange(len(points) * size)
    for k in np.flatnonzero(np.isclose(points[:, AXIS], RIGHT)):
        partner = points[k].copy()
        partner[AXIS] = 0.0
        (found,) = np.flatnonzero(np.isclose(points, partner).all(axis=1))
        columns[k * size : (k + 1) * size] = found * size + np.arange(size)
    kept = np.unique(columns)
    return (columns[:, None] == kept[None, :]).astype(float), kept


def _by_traces(space: Any, kind: str) -> tuple[np.ndarray, np.ndarray]:
    domain = space.mesh
    dim = domain.topology.dim
    facets = {
        value: mesh.locate_entities_boundary(
            domain, dim - 1, lambda p, value=value: np.isclose(p[AXIS], value)
        )
        for value in (0.0, RIGHT)
    }
    points = _drawn_points(domain, facets[RIGHT])
    others = points.copy()
    others[:, AXIS] = 0.0
    slaves, masters = (
        fem.locate_dofs_topological(space, dim - 1, facets[value]) for value in (RIGHT, 0.0)
    )
    ours = _traces(space, kind, slaves, points)
    theirs = _traces(space, kind, masters, others)
    weights = np.linalg.lstsq(ours, theirs, rcond=None)[0]
    assert np.abs(ours @ weights - theirs).max() < 1e-9 * np.abs(theirs).max()
    weights[np.abs(weights) < 1e-9] = 0.0
    size = space.dofmap.index_map.size_local
    whole = np.eye(size)
    whole[slaves] = 0.0
    whole[np.ix_(slaves, masters)] = weights
    kept = np.setdiff1d(np.arange(size), slaves)
    return whole[:, kept], kept


def _drawn_points(domain: Any, facets: np.ndarray) -> np.ndarray:
    """Random points inside of facets; their corners span them as a simplex or a rectangle."""
    domain.topology.create_connectivity(domain.topology.dim - 1, domain.topology.dim)
    corners = domain.geometry.x[mesh.entities_to_geometry(domain, domain.topology.dim - 1, facets)]
    weights = np.random.default_rng(0).dirichlet(np.ones(corners.shape[1]), (len(facets), POINTS))
    return np.einsum("fpc,fcd->fpd", weights, corners).reshape(-1, 3)


def _traces(space: Any, kind: str, unknowns: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The traces at points, one column for each unknown: tangential or normal components."""
    tree = geometry.bb_tree(space.mesh, space.mesh.topology.dim, padding=1e-10)
    near = geometry.compute_collisions_points(tree, points)
    there = geometry.compute_colliding_cells(space.mesh, near, points)
    cells = np.array([there.links(i)[0] for i in range(len(points))], dtype=np.int32)
    function, columns = fem.Function(space), []
    chosen = slice(1, space.mesh.geometry.dim) if kind == "curl" else slice(0, 1)
    for unknown in unknowns:
        function.x.array[:] = 0.0
        function.x.array[unknown] = 1.0
        columns.append(function.eval(points, cells).reshape(len(points), -1)[:, chosen].ravel())
    return np.array(columns).T
