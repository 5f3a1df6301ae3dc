# SPDX-License-Identifier: MIT
"""A body as a drawing: triangles of its surface and of three planes in it, with values at their
corners, and its pixels as one sees it from a place in front, right and above.

No library of graphics and no screen is needed: which triangle is the nearest at each pixel is found
once for all fields, and a picture is an array of colours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from cffem.study.report.plots.raster import COLOURS, Raster, palette, png_of_colours

AZIMUTH, ELEVATION = math.radians(-56.0), math.radians(27.0)  # of the viewer
SIDE = 330  # pixels along the longer side
DARKEST = 0.72  # how much of its colour a surface keeps that the light only grazes
LINE = 0.35  # and the pixels of an edge
# A step in depth, as a share of the body, and a turn of the normal that are seen as an edge.
STEP, TURN = 0.03, math.cos(math.radians(35.0))


def viewer() -> np.ndarray:
    """Three orthogonal directions as rows: to the right, up, and towards the viewer."""
    towards = np.array(
        [
            math.cos(ELEVATION) * math.cos(AZIMUTH),
            math.cos(ELEVATION) * math.sin(AZIMUTH),
            math.sin(ELEVATION),
        ]
    )
    right = np.array([-math.sin(AZIMUTH), math.cos(AZIMUTH), 0.0])
    return np.array([right, np.cross(towards, right), towards])


@dataclass(frozen=True)
class Solid:
    """Values of solutions on the surface of a body and on the planes that cut its corner away.

    Args:
        points: n × 3 coordinates.
        cells: m × 3 triangles of the points.
        corner: the point from which everything towards the viewer, along all three axes, is cut
            away.
        factual: by field, n × components; nan outside the body.
        deleted: by term, then by field, the same for the problem without that term.
    """

    points: np.ndarray
    cells: np.ndarray
    corner: np.ndarray
    factual: Mapping[str, np.ndarray]
    deleted: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.points)
        if self.points.shape[1:] != (3,) or self.cells.shape[1:] != (3,):
            raise ValueError("a body has points in space, and triangles")
        if self.cells.size and not 0 <= self.cells.min() <= self.cells.max() < count:
            raise ValueError("a triangle of the body names a point that is not there")
        for values in (self.factual, *self.deleted.values()):
            if any(len(array) != count for array in values.values()):
                raise ValueError("each field needs values at each point of the body")

    @cached_property
    def raster(self) -> SolidRaster:
        """The pixels, which all pictures share."""
        return SolidRaster(self)

    def difference(self, term: str, name: str) -> np.ndarray:
        """Factual minus deleted."""
        return self.factual[name] - self.deleted[term][name]

    def with_deleted(self, term: str, values: Mapping[str, np.ndarray]) -> Solid:
        """The same body with one more deleted problem."""
        return replace(self, deleted={**self.deleted, term: values})


class SolidRaster(Raster):
    """The pixels of a body: for each the nearest triangle to the viewer that is not cut away.

    Args:
        solid: the body.
    """

    def __init__(self, solid: Solid, side: int = SIDE):
        self._space, self._corner = solid.points, solid.corner
        extent = float(np.ptp(solid.points, axis=0).max()) or 1.0
        self._near = 1e-9 * extent
        directions = viewer()
        self._depth = solid.points @ directions[2] / extent
        self._nearest: np.ndarray | None = None
        self._triangles = solid.cells
        super().__init__(solid.points @ directions[:2].T, solid.cells, side)
        self._light = self._shades(directions)

    def _settle(self, pixels: np.ndarray, which: np.ndarray, weights: np.ndarray) -> None:
        if self._nearest is None:
            self._nearest = np.full(self.width * self.height, -np.inf)
        corners = self._triangles[which]
        place = np.einsum("pk,pkd->pd", weights, self._space[corners])
        sides = np.sign(viewer()[2])
        cut = (sides * (place - self._corner) > self._near).all(axis=1)
        depth = np.einsum("pk,pk->p", weights, self._depth[corners])
        seen = np.flatnonzero(~cut & (depth > self._nearest[pixels]))
        seen = seen[np.argsort(depth[seen], kind="stable")]  # the nearest comes last and stays
        super()._settle(pixels[seen], which[seen], weights[seen])
        self._nearest[pixels[seen]] = depth[seen]

    def _shades(self, directions: np.ndarray) -> np.ndarray:
        """How bright each pixel is, by the slope of its triangle; edges are dark."""
        a, b, c = (self._space[self._triangles[:, k]] for k in range(3))
        normal = np.cross(b - a, c - a)
        normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
        lamp = directions[2] + 0.7 * directions[1] - 0.4 * directions[0]
        slope = np.abs(normal @ (lamp / np.linalg.norm(lamp)))
        shape = (self.height, self.width)
        bright, depth = np.zeros(shape).ravel(), np.full(shape, -np.inf).ravel()
        turned = np.zeros((depth.size, 3))
        taken = self._cover[self._seen]
        bright[self._seen] = DARKEST + (1 - DARKEST) * slope[taken]
        if self._nearest is not None:
            depth[self._seen] = self._nearest[self._seen]
        facing = normal[taken] * np.sign(normal[taken] @ directions[2])[:, None]
        turned[self._seen] = facing
        bright, depth, turned = (
            bright.reshape(shape),
            depth.reshape(shape),
            turned.reshape(*shape, 3),
        )
        edge = np.zeros(shape, dtype=bool)
        for axis in (0, 1):
            one = tuple(slice(None, -1) if k == axis else slice(None) for k in range(2))
            two = tuple(slice(1, None) if k == axis else slice(None) for k in range(2))
            with np.errstate(invalid="ignore"):
                apart = ~(np.abs(depth[one] - depth[two]) < STEP)
            apart &= np.isfinite(depth[one]) | np.isfinite(depth[two])
            bent = (turned[one] * turned[two]).sum(axis=-1) < TURN
            found = apart | (bent & np.isfinite(depth[one]) & np.isfinite(depth[two]))
            edge[one] |= found & np.isfinite(depth[one])
            edge[two] |= found & np.isfinite(depth[two]) & ~np.isfinite(depth[one])
        return np.asarray(np.where(edge, LINE * bright, bright)[::-1])

    def picture(self, values: np.ndarray, low: float, high: float, scale: str) -> str:
        """Values at the points as the address of an image, shaded as light falls on the body."""
        shares = (self.values(values) - low) / max(high - low, 1e-300)
        known = np.isfinite(shares)
        numbers = np.clip(np.round(np.where(known, shares, 0.0) * (COLOURS - 1)), 0, COLOURS - 1)
        colours = np.zeros((self.height, self.width, 4), dtype=np.uint8)
        lit = palette(scale)[numbers.astype(int)] * self._light[..., None]
        colours[..., :3] = np.round(lit)
        colours[..., 3] = np.where(known, 255, 0)
        return png_of_colours(colours)
