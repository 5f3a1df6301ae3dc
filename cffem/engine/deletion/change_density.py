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

    # A factor, the differences at both ends of a step, and the forms of one end and of the step.
    Parts = tuple[float, fem.Function, fem.Function, fem.Form, fem.Form]

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
            a, b = fem.Function(own), fem.Function(own)
            ends = ufl.inner(a, a) * self._test * ufl.dx
            whole = (ufl.inner(a, a) + ufl.inner(a, b) + ufl.inner(b, b)) * self._test * ufl.dx
            size = model.factual.norm(f"L2[{field}]") if len(self.fields) > 1 else 1.0
            forms = [_compat.form(form, model.comm) for form in (ends, whole)]
            self._factors[field] = (1.0 / size**2 if size > 0 else 1.0, a, b, *forms)

    def _assembled(self, form: fem.Form) -> np.ndarray:
        return fem.assemble_vector(form).array[self._place]

    def _put(self, function: fem.Function, field: Field, difference: np.ndarray) -> None:
        spaces = self.model.spaces
        function.x.array[:] = spaces.with_ghosts(difference)[spaces.dofs(field)]

    def of(self, changed: Solution) -> ChangeDensity:
        """The density of one changed solution; collective."""
        factual, times = self.model.factual, np.asarray(changed.times, dtype=float)
        count = len(times) - 1
        parts = min(FRAMES, count) or 1
        frames = np.zeros((parts, self.cells))
        growth, steps = np.zeros(len(times)), np.zeros(max(count, 1))
        before: np.ndarray | None = None
        for k in range(len(times)):
            difference = factual.states[k] - changed.states[k]
            for field, (factor, a, b, ends, whole) in self._factors.items():
                self._put(b, field, difference)
                self._put(a, field, difference)
                at_end = factor * self._assembled(ends)
                growth[k] += at_end.sum()
                if count == 0:
                    frames[0] += at_end
                    steps[0] += at_end.sum()
                elif before is not None:
                    self._put(a, field, before)
                    step = times[k] - times[k - 1]
                    energy = factor * step / 3 * self._assembled(whole)
                    frames[(k - 1) * parts // count] += energy
                    steps[k - 1] += energy.sum()
            before = difference
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
        return self._assembled(one)


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
