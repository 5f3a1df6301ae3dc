# SPDX-License-Identifier: MIT
"""Where and when an intervention changes the solution: the density of |u − u_j|² in space and time.

For every cell K and step (t_k, t_{k+1}) the piecewise linear interpolant is integrated exactly,

    E_{K,k} = ∫_{t_k}^{t_{k+1}} ∫_K |u − u_j|² = Δt/3 ∫_K (|a|² + a·b + |b|²),

with the differences a, b at both ends, so that Σ E_{K,k} = δ². Where there are several fields each
is divided by its own norm first, which makes the sum independent of units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import basix
import numpy as np
import ufl
from dolfinx import fem

from cffem import _compat
from cffem.engine.collective import summed
from cffem.engine.norms import counted

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution
    from cffem.symbols.fields import Field

    # A factor, and what integrates products of two differences over cells.
    Parts = tuple[float, "CellForms | CellMasses"]

FRAMES = 8  # parts of the window for which densities in space are kept


@dataclass(frozen=True)
class ChangeDensity:
    """E_{K,k} of one change, on the cells that this rank owns.

    Attributes:
        frames: E summed over the steps of each part of the window, parts × cells.
        ends: the times at which the parts end; [0] for a steady problem.
        times, growth: at each time level the integral of |u − u_j|² over the domain; it is over the
            whole domain on every rank.
        steps: Σ_K E_{K,k} by step, on every rank.
    """

    frames: np.ndarray
    ends: np.ndarray
    times: np.ndarray
    growth: np.ndarray
    steps: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """E summed over the whole window, by cell."""
        return self.frames.sum(axis=0)


class ChangeDensities:
    """Makes densities of changes of one model; the forms are compiled once.

    Args:
        model: the model, with its factual solution.
    """

    def __init__(self, model: Model):
        self.model, mesh = model, model.discretisation.mesh
        self.cells = mesh.topology.index_map(mesh.topology.dim).size_local
        constant = fem.functionspace(mesh, ("DG", 0))
        self._test = ufl.TestFunction(constant)
        self._place = constant.dofmap.list[: self.cells, 0]
        self._factors: dict[Field, Parts] = {}
        self.fields = counted(model.discretisation)
        for field in self.fields:
            own = model.spaces.own(field)[0]
            size = model.factual.norm(f"L2[{field}]") if len(self.fields) > 1 else 1.0
            products = (
                CellMasses(own, self.cells)
                if CellMasses.serves(own)
                else CellForms(own, self._test, self._place)
            )
            self._factors[field] = (1.0 / size**2 if size > 0 else 1.0, products)

    def of(self, changed: Solution) -> ChangeDensity:
        """The density of one changed solution; collective."""
        factual, times = self.model.factual, np.asarray(changed.times, dtype=float)
        count = len(times) - 1
        parts = min(FRAMES, count) or 1
        frames = np.zeros((parts, self.cells))
        growth, steps = np.zeros(len(times)), np.zeros(max(count, 1))
        spaces = self.model.spaces
        for field, (factor, products) in self._factors.items():
            products.begin()
            before: np.ndarray | None = None
            for k in range(len(times)):
                difference = spaces.with_ghosts(factual.states[k] - changed.states[k])
                now, cross = products.with_last(difference[spaces.dofs(field)])
                at_end = factor * now
                growth[k] += at_end.sum()
                if count == 0:
                    frames[0] += at_end
                    steps[0] += at_end.sum()
                elif before is not None:
                    step = times[k] - times[k - 1]
                    energy = step / 3 * (before + factor * cross + at_end)
                    frames[(k - 1) * parts // count] += energy
                    steps[k - 1] += energy.sum()
                before = at_end
        last = (
            [
                max(k for k in range(1, count + 1) if (k - 1) * parts // count == part)
                for part in range(parts)
            ]
            if count
            else [0]
        )
        return ChangeDensity(
            np.maximum(frames, 0.0),
            times[last],
            times,
            summed(self.model.comm, growth),
            np.maximum(summed(self.model.comm, steps), 0.0),
        )

    def volumes(self) -> np.ndarray:
        """The volumes of the owned cells."""
        one = _compat.form(self._test * ufl.dx, self.model.comm)
        return fem.assemble_vector(one).array[self._place]


class CellForms:
    """∫_K a·a and ∫_K a·b on all cells, of any elements.

    Args:
        space: of a and b.
        test: constants of cells.
        place: where the constants of the owned cells are.
    """

    def __init__(self, space: fem.FunctionSpace, test: ufl.Argument, place: np.ndarray):
        self._a, self._b, self._place = fem.Function(space), fem.Function(space), place
        self._forms = [
            _compat.form(ufl.inner(self._a, other) * test * ufl.dx, space.mesh.comm)
            for other in (self._a, self._b)
        ]

    def begin(self) -> None:
        """Another series begins."""
        self._a.x.array[:] = 0.0

    def with_last(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """∫_K a·a of these values, and ∫_K a·b with those before."""
        self._b.x.array[:] = self._a.x.array
        self._a.x.array[:] = values
        now, cross = (fem.assemble_vector(form).array[self._place] for form in self._forms)
        return now, cross


class CellMasses:
    """The same for Lagrange elements on straight simplices, by one small matrix for all cells,
    which takes a fourth of the time.

    Args:
        space: of a and b.
        cells: how many cells this rank owns.
    """

    def __init__(self, space: fem.FunctionSpace, cells: int):
        self._nodes, self._block = space.dofmap.list[:cells], int(space.dofmap.bs)
        element, mesh = space.element.basix_element, space.mesh
        points, weights = basix.make_quadrature(element.cell_type, 2 * element.degree)
        values = element.tabulate(0, points)[0, :, :, 0]
        self._matrix = (values * weights[:, None]).T @ values
        corners = mesh.geometry.x[_compat.cell_geometry(mesh)[0][:cells]]
        sides = corners[:, 1:] - corners[:, :1]
        gram = sides @ sides.transpose(0, 2, 1)
        self._size = np.sqrt(np.abs(np.linalg.det(gram)))
        self._last: np.ndarray | None = None

    @staticmethod
    def serves(space: fem.FunctionSpace) -> bool:
        """Whether a space is of this kind."""
        if not _compat.straight_simplices(space.mesh):
            return False
        try:
            element = space.element.basix_element
        except RuntimeError:  # which a mixed one is
            return False
        return element.family == basix.ElementFamily.P and not element.value_shape

    def begin(self) -> None:
        """Another series begins."""
        self._last = None

    def with_last(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """∫_K a·a of these values, and ∫_K a·b with those before."""
        local = values.reshape(-1, self._block).T[:, self._nodes]
        image = local @ self._matrix
        now = np.einsum("bci,bci->c", local, image) * self._size
        cross = now if self._last is None else np.einsum("bci,bci->c", self._last, image)
        if self._last is not None:
            cross = cross * self._size
        self._last = local
        return now, cross


def smallest_share(
    energies: np.ndarray, sizes: np.ndarray, part: float = 0.9
) -> tuple[float, np.ndarray]:
    """The share of the whole that a part of the energy lies in at least, and where that is.

    Args:
        energies: of the pieces.
        sizes: volumes or lengths of the pieces.
        part: of the energy.

    Example:
        >>> share, where = smallest_share(np.array([0.1, 8.0, 0.9, 1.0]), np.ones(4))
        >>> share, where.tolist()
        (0.5, [False, True, False, True])
    """
    where = np.zeros(len(energies), dtype=bool)
    total = float(energies.sum())
    if not total > 0 or not math.isfinite(total):
        return 1.0, ~where
    order = np.argsort(-energies / sizes, kind="stable")
    reached = np.cumsum(energies[order])
    last = int(np.searchsorted(reached, part * total * (1 - 1e-12)))
    where[order[: last + 1]] = True
    return float(sizes[where].sum() / sizes.sum()), where


def named_regions(model: Model) -> Mapping[str, np.ndarray]:
    """For each subdomain of a model's mesh whether an owned cell belongs to it."""
    domain, mesh = model.discretisation.domain, model.discretisation.mesh
    count = mesh.topology.index_map(mesh.topology.dim).size_local
    found = {}
    for name, (dimension, tag) in domain.names.items():
        if dimension == mesh.topology.dim and domain.cell_tags is not None:
            inside = np.zeros(count, dtype=bool)
            cells = domain.cell_tags.find(tag)
            inside[cells[cells < count]] = True
            found[name] = inside
    return found
