# SPDX-License-Identifier: MIT
"""Making maps: densities of changes gathered from all ranks, the shares of domain and window that
hold most of them, and files for ParaView.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from dolfinx import fem

from cffem._compat import cell_geometry
from cffem.engine.deletion.change_density import (
    ChangeDensities,
    ChangeDensity,
    named_regions,
    smallest_share,
)
from cffem.study.report.maps.effect_map import (
    FOLDER,
    MOST_OF_IT,
    SMALL_SHARE,
    EffectMap,
)

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution

AXES = "xyz"


class Mapper:
    """Makes the maps of one experiment.

    Args:
        model: the model, with its factual solution.
        experiment: its name.
    """

    def __init__(self, model: Model, experiment: str):
        self.model, self.experiment = model, experiment
        self.densities = ChangeDensities(model)
        mesh = model.discretisation.mesh
        count, dim = self.densities.cells, mesh.geometry.dim
        corners = mesh.geometry.x[cell_geometry(mesh)[0][:count]][:, :, :dim]
        self.local_volumes = self.densities.volumes()
        regions = named_regions(model)
        self._low, self._high, self.volumes, self.midpoints = (
            self._joined(part)
            for part in (
                corners.min(axis=1),
                corners.max(axis=1),
                self.local_volumes,
                corners.mean(axis=1),
            )
        )
        # The order of cells does not depend on how many ranks there are.
        rounded = np.round(self.midpoints / np.abs(self.midpoints).max(initial=1e-300), 9)
        self._order = order = np.lexsort(rounded.T)
        self._low, self._high = self._low[order], self._high[order]
        self.volumes, self.midpoints = self.volumes[order], self.midpoints[order]
        self._regions = {name: self._joined(inside)[order] for name, inside in regions.items()}

    def _joined(self, local: np.ndarray) -> np.ndarray:
        return np.concatenate(self.model.comm.allgather(local))

    def of(self, changed: Solution) -> tuple[EffectMap, ChangeDensity]:
        """The map of a changed solution, on all ranks, and what it was made of; collective."""
        found = self.densities.of(changed)
        frames = self._joined(found.frames.T).T[:, self._order]
        energies = frames.sum(axis=0)
        share, where = smallest_share(energies, self.volumes, MOST_OF_IT)
        low, high = self._low[where].min(axis=0), self._high[where].max(axis=0)
        window, interval = self._in_time(found)
        made = EffectMap(
            self.experiment,
            tuple(map(float, found.times)),
            tuple(map(float, found.growth)),
            window,
            interval,
            share,
            tuple((float(a), float(b)) for a, b in zip(low, high, strict=True)),
            self._subdomain(energies),
            midpoints=self.midpoints,
            volumes=self.volumes,
            frames=frames / self.volumes,
            ends=tuple(map(float, found.ends)),
        )
        return made, found

    def _in_time(self, found: ChangeDensity) -> tuple[float | None, tuple[float, float] | None]:
        if len(found.times) == 1:
            return None, None
        share, where = smallest_share(found.steps, np.diff(found.times), MOST_OF_IT)
        steps = np.flatnonzero(where)
        return share, (float(found.times[steps[0]]), float(found.times[steps[-1] + 1]))

    def _subdomain(self, energies: np.ndarray) -> str:
        """The smallest named subdomain, at most half of the domain, with most of the change."""
        total = energies.sum()
        sizes = {
            name: self.volumes[inside].sum()
            for name, inside in self._regions.items()
            if total > 0 and energies[inside].sum() >= MOST_OF_IT * total
        }
        whole = self.volumes.sum()
        small = {name: size for name, size in sizes.items() if size <= 0.5 * (1 + 1e-9) * whole}
        return min(small, key=lambda name: small[name]) if small else ""

    def sentence(self, made: EffectMap, decision: str) -> str:
        """ "It matters only here", where most of the change lies in a small share."""
        parts = []
        if made.domain_share <= SMALL_SHARE:
            where = f"the subdomain {made.subdomain}" if made.subdomain else self._box(made)
            inside = f", in {where}" if where else ""
            parts.append(f"{100 * made.domain_share:.2g} % of the domain{inside}")
        if made.window_share is not None and made.window_share <= SMALL_SHARE:
            first, last = made.interval or (0.0, 0.0)
            parts.append(
                f"{100 * made.window_share:.2g} % of the window, between t = {first:.4g} and "
                f"{last:.4g}"
            )
        if not parts or not any(value > 0 for value in made.growth):
            return ""
        begin = "It matters only here" if decision == "relevant" else "What it does is here"
        return f"{begin}: {100 * MOST_OF_IT:.0f} % of the change lies in {' and in '.join(parts)}."

    def _box(self, made: EffectMap) -> str:
        low, high = self._low.min(axis=0), self._high.max(axis=0)
        parts = []
        for axis, (a, b) in enumerate(made.box):
            if b - a < 0.9 * (high[axis] - low[axis]):
                parts.append(f"{a:.4g} ≤ {AXES[axis]} ≤ {b:.4g}")
        return ", ".join(parts)

    def function(self, name: str, values: np.ndarray) -> fem.Function:
        """A DOLFINx function that is constant on every cell, from values on the owned ones."""
        space = fem.functionspace(self.model.discretisation.mesh, ("DG", 0))
        result = fem.Function(space, name=name)
        result.x.array[space.dofmap.list[: len(values), 0]] = values
        result.x.scatter_forward()
        return result

    def write(self, folder: Path, found: dict[str, ChangeDensity]) -> None:
        """Write all densities for ParaView, by parts of the window; collective.

        Raises:
            OSError: the folder cannot be written.
        """
        from dolfinx.io import VTKFile

        if not found:
            return
        comm, place = self.model.comm, folder / FOLDER
        if comm.rank == 0:
            if place.is_symlink() or place.is_file():
                raise OSError(f"{place} is in the way")
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
        comm.barrier()
        first = next(iter(found.values()))
        with VTKFile(comm, str(place / "maps.pvd"), "w") as file:
            for k, end in enumerate(first.ends):
                shown = [
                    self.function(name.replace("/", ": "), each.frames[k] / self.local_volumes)
                    for name, each in found.items()
                ]
                file.write_function(shown, float(end))
