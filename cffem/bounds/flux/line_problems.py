# SPDX-License-Identifier: MIT
"""Fluxes around the vertices of an interval: divergences leave no freedom.

Around a vertex the flux of a cell vanishes at its other end, so that ∫ of its divergence leaves
through the vertex. The fluxes of both cells meet where the sum over them vanishes, which is what
the residual of a Galerkin solution sees to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cffem._compat import exterior_facets
from cffem.bounds.flux.cells import FluxCells
from cffem.bounds.geometry.reference_cell import Stack

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh


class LineProblems:
    """The flux problems of all cells of an interval; offers what `Multipliers` does.

    Args:
        mesh: the interval.
        cells: this rank's cells.
        stack: their flux problems.
        fixed: whether it is given what flows through the facets opposite to the corners.
    """

    def __init__(self, mesh: Mesh, cells: FluxCells, stack: Stack, fixed: np.ndarray):
        self.comm, self.cells, self._stack = mesh.comm, cells, stack
        index = mesh.topology.index_map(0)
        self._size = index.size_global
        outer = index.local_to_global(exterior_facets(mesh).astype(np.int32))
        natural = cells.facets[fixed]
        held = np.concatenate(self.comm.allgather(np.setdiff1d(outer, natural)))
        self._free = np.ones(self._size, dtype=bool)
        self._free[held.astype(np.int64)] = False

    def solve(
        self, divergence: np.ndarray, force: np.ndarray, given_flow: np.ndarray
    ) -> tuple[np.ndarray, float, float]:
        """No free unknowns, and what does not meet; see `Multipliers.solve`; collective."""
        stack = self._stack
        flowing = np.stack([stack.particular[i] @ divergence[:, i] for i in range(2)], axis=1)
        short = (flowing - given_flow)[0].T
        sums = np.bincount(self.cells.vertices.ravel(), short.ravel(), minlength=self._size)
        sums = self.comm.allreduce(sums)
        jumps = float((sums[self._free] ** 2).sum()) / self.comm.size
        return np.empty_like(force), jumps, float(np.vdot(flowing, flowing))
