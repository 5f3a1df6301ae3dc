"""Which boundary facets keep their essential values once the leading term is deleted: Fichera's
rule by hand.

What is left is ∂_t u = Σ c_j T_j[u] with T_j = D:∇∇u + d·∇u + …; a value is kept on a facet with
n·D n > 0, and where that vanishes at inflow, d·n > 0. The tables below are written by hand for the
terms of `net_terms`. What a rule for single facets cannot judge keeps all of its values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from dolfinx import mesh as dolfinx_mesh
from net_dense import numeric

# Products of derivatives, derivatives in time, and components that are coupled by their
# derivatives.
UNJUDGED = {"slope", "viscous", "momentum", "grad div", "curl curl"}
# How often transport that changes in time is looked at; boundary values of random problems do not
# turn faster.
TIMES = 5


def drift(points: np.ndarray, dimension: int) -> np.ndarray:
    """The velocity of the terms "drift" and "conserved" at points."""
    a, b, _ = points
    rows = [1 + a] if dimension == 1 else [1 + b, a - 2, 1 - b]
    return np.array(rows[:dimension])


def velocity(
    name: str, points: np.ndarray, dimension: int, time: float, value: np.ndarray
) -> np.ndarray:
    """d of a term at points, where the field has this value; zero for terms without first
    derivatives.
    """
    along = np.zeros((dimension, points.shape[1]))
    along[0] = 1.0
    table = {
        "u_x": lambda: along,
        "swinging": lambda: np.cos(time) * along,
        "drift": lambda: drift(points, dimension),
        "conserved": lambda: points[0] * drift(points, dimension),
        "burgers": lambda: value * along,
        "convection": lambda: -value,
    }
    return table[name]() if name in table else 0 * along


def kept_facets(problem: Any, domain: Any, without: str, condition: Any) -> np.ndarray:
    """The facets of an essential condition on which it is kept when a term is deleted."""
    every = np.concatenate(
        [domain.facet_tags.find(domain.names[name][1]) for name in condition.sides]
    ).astype(np.int32)
    left = {term.name: c for term, c in problem.terms if term.name != without and c}
    leading = {term.name for term, _ in problem.terms if term.leading}
    # The value of a Python function is not known in words, so that what it transports is not
    # judged.
    unknown = condition.called and condition.value != 0 and {"burgers", "convection"} & {*left}
    if without not in leading or leading & {*left} or UNJUDGED & {*left} or unknown:
        return every
    dimension = problem.family.dimension
    normals, middles = outer_normals(domain.mesh, every)
    kept = left.get("u_xx", 0.0) * normals[0] ** 2 > 1e-12
    evaluate = numeric(condition.value, dimension if problem.family.kind == "vector" else 0)
    for time in np.linspace(0.0, problem.end if problem.order else 0.0, TIMES):
        value = evaluate(middles, time)
        flow = sum(c * velocity(name, middles, dimension, time, value) for name, c in left.items())
        kept |= np.sum(flow * normals, axis=0) > 1e-9
    return every[kept]


def outer_normals(mesh: Any, facets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Outer unit normals and middles of plane facets, as columns."""
    dim, cell_dim = mesh.geometry.dim, mesh.topology.dim
    mesh.topology.create_connectivity(cell_dim - 1, cell_dim)
    owners = [
        mesh.topology.connectivity(cell_dim - 1, cell_dim).links(facet)[0] for facet in facets
    ]
    corners = mesh.geometry.x[dolfinx_mesh.entities_to_geometry(mesh, cell_dim - 1, facets)]
    middles = corners.mean(axis=1)
    centres = np.array(
        [mesh.geometry.x[mesh.geometry.dofmap[cell]].mean(axis=0) for cell in owners]
    ).reshape(-1, 3)
    if dim == 1:
        normals = middles - centres
    elif dim == 2:
        edges = corners[:, 1] - corners[:, 0]
        normals = np.stack([edges[:, 1], -edges[:, 0], 0 * edges[:, 0]], axis=1)
    else:
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals *= np.sign(np.sum(normals * (middles - centres), axis=1))[:, None]
    return (normals / np.linalg.norm(normals, axis=1)[:, None])[:, :dim].T, middles.T
