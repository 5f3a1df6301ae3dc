# SPDX-License-Identifier: MIT
"""Forcings that are finer than the cells of all levels: sin 16πx sin 16πy is integrated well on
meshes whose nodes lie where it vanishes, and every space is orthogonal to it.

Hat functions φ_v add up to one, so that Σ_v |(f, φ_v)| is the integral of |f| as long as f has one
sign around each vertex, however narrow it is, and is small where f oscillates within cells. There
Poincaré's inequality twice gives

    (f − Π f, z) ≤ (h/π)² ‖f − Π f‖ |z|_{H²}

with the projection Π onto polynomials on cells of diameter h, so that the solution may lack that
much over the diffusion coefficient; f itself stands for f − Π f where the space has nothing of it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import basix
import numpy as np
import sympy as sp
from dolfinx import la

from cffem.bounds.enclosed.pieces import CELLS
from cffem.bounds.enclosed.sources import Sources, taken_apart
from cffem.bounds.geometry.mesh_constants import edge_lengths, volumes
from cffem.bounds.levels.data_parts import LOOKING, simplices
from cffem.engine.inputs.enclosure import divided
from cffem.engine.inputs.numeric import numeric
from cffem.symbols.coordinates import SPACE, t

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.symbols.fields import Field


class Fineness:
    """How much of a forcing of a scalar equation cancels on the cells of a level.

    Args:
        model: that of the level.
        unknown: the field whose equation is forced.
    """

    def __init__(self, model: Model, unknown: Field):
        self.comm, self.mesh = model.comm, model.discretisation.mesh
        self.cells = simplices(self.mesh)
        degree = model.spaces.own(unknown)[0].element.basix_element.embedded_superdegree
        self.sources = Sources(self.comm, self.cells.corners, degree)

    def effect(self, entry: sp.Expr, moments: np.ndarray) -> float:
        """What the solution may lack, times the diffusion coefficient, as a root mean square over
        some moments; nothing where little cancels; collective.
        """
        apart = taken_apart(entry) if entry.has(t) else {entry: sp.S.One}
        if apart is None:
            found = [self._lacking(entry, float(when)) for when in moments]
            return math.sqrt(float(np.mean(np.square(found))))
        total = 0.0
        for shape, factor in apart.items():
            function = numeric(factor, (t,))
            factors = np.array([float(function(float(when))) for when in moments])
            total += self._lacking(shape, 0.0) * math.sqrt(float(np.mean(factors**2)))
        return total

    def _lacking(self, shape: sp.Expr, when: float) -> float:
        left, whole = self._around_vertices(shape, when)
        if left >= (1 - LOOKING.cancelling) * whole:
            return 0.0
        found = self.sources.at(shape, when)
        weights = (edge_lengths(self.cells.corners).max(axis=1, initial=0.0) / math.pi) ** 4
        squares = (found.moments**2).sum(axis=0) * self.sources.volume + found.oscillation**2
        return math.sqrt(self.comm.allreduce(float(weights @ squares)))

    def _around_vertices(self, shape: sp.Expr, when: float) -> tuple[float, float]:
        """Σ_v |(f, φ_v)| and the integral of |f|, on cells divided twice; collective."""
        dim, topology = self.cells.dim, self.mesh.topology
        parts = divided(divided(np.eye(dim + 1)[None]))
        points, weights = basix.make_quadrature(CELLS[dim], 4)
        inner = np.column_stack([1 - points.sum(axis=1), points])
        barycentric = np.einsum("qv,pvb->pqb", inner, parts).reshape(-1, dim + 1)
        shares = np.tile(weights / weights.sum() / len(parts), len(parts))
        places = [self.cells.corners[:, :, axis] @ barycentric.T for axis in range(dim)]
        with np.errstate(all="ignore"):
            raw = numeric(shape, (*SPACE[:dim], t))(*places, when)
        values = np.nan_to_num(np.broadcast_to(np.asarray(raw, dtype=float), places[0].shape))
        area = volumes(self.cells.corners)[:, None]
        local = area * ((values * shares) @ barycentric)
        index = topology.index_map(0)
        vertices = topology.connectivity(dim, 0).array.reshape(-1, dim + 1)[: len(local)]
        vector = la.vector(index, 1)
        vector.array[:] = np.bincount(
            vertices.ravel(), local.ravel(), minlength=index.size_local + index.num_ghosts
        )
        vector.scatter_reverse(la.InsertMode.add)
        sums = [
            np.abs(vector.array[: index.size_local]).sum(),
            (area * np.abs(values)).sum(axis=0) @ shares,
        ]
        left, whole = self.comm.allreduce(np.array(sums))
        return float(left), float(whole)
