# SPDX-License-Identifier: MIT
"""Values on triangles as small pictures: which triangle covers each pixel is found once for all
fields of a drawing, and a picture is a palette and one number for each pixel (PNG, colour type 3).
"""

from __future__ import annotations

import base64
import struct
import zlib
from functools import lru_cache

import numpy as np

# Seventeen colours of each scale of Matplotlib, the others between them; none is off by more than
# 3 % of its range.
SCALES = {
    "viridis": "440154 48186a 472d7b 424086 3b528b 33638d 2c728e 26828e 21918c 1fa088 28ae80 3fbc73"
    " 5ec962 84d44b addc30 d8e219 fde725",
    "magma": "000004 0a0822 1d1147 36106b 51127c 6a1c81 832681 9c2e7f b73779 d0416f e75263 f56b5c"
    " fc8961 fea772 fec488 fde2a3 fcfdbf",
    "RdBu_r": "053061 175290 2a71b2 3f8ec0 6bacd1 9bc9e0 c2ddec e0ecf3 f7f6f6 fbe5d8 fbccb4 f5aa89"
    " e48066 d05548 ba2832 930e26 67001f",
    "Blues": "f7fbff eaf3fb deebf7 d2e3f3 c6dbef b2d2e8 9dcae1 84bcdb 6aaed6 56a0ce 4191c6 3181bd"
    " 2070b4 1460a8 08509b 084082 08306b",
}
# Numbers of a palette that are colours; the last of the 256 is nothing, outside of the domain.
COLOURS = 255
SIDE = 420  # pixels along the longer side of a drawing
# Pairs of a triangle and a pixel that are looked at together, which bounds the memory.
AT_ONCE = 2_000_000


@lru_cache
def palette(scale: str) -> np.ndarray:
    """The colours of a scale, 255 × 3 bytes.

    Example:
        >>> palette("viridis")[0].tolist(), palette("viridis").shape
        ([68, 1, 84], (255, 3))
    """
    known = np.array([list(bytes.fromhex(colour)) for colour in SCALES[scale].split()], dtype=float)
    at, places = np.linspace(0, 1, COLOURS), np.linspace(0, 1, len(known))
    mixed = np.stack([np.interp(at, places, known[:, part]) for part in range(3)], axis=1)
    return np.round(mixed).astype(np.uint8)


def colour_of(share: float, scale: str) -> str:
    """The colour of a value at a share of its scale.

    Example:
        >>> colour_of(0.0, "Blues")
        '#f7fbff'
    """
    place = round(min(max(share, 0.0), 1.0) * (COLOURS - 1))
    return "#" + palette(scale)[place].tobytes().hex()


def png(numbers: np.ndarray, scale: str) -> str:
    """A picture as the address of an image: rows of numbers of colours, 255 where there is nothing.

    Example:
        >>> png(np.array([[0, 255]], dtype=np.uint8), "magma")[:26]
        'data:image/png;base64,iVBO'
    """
    height, width = numbers.shape
    rows = np.zeros((height, width + 1), dtype=np.uint8)  # each row begins with its filter, none
    rows[:, 1:] = numbers
    return _address(
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", palette(scale).tobytes() + b"\xff\xff\xff"),
        (b"tRNS", b"\xff" * COLOURS + b"\x00"),
        (b"IDAT", zlib.compress(rows.tobytes(), 6)),
    )


def png_of_colours(colours: np.ndarray) -> str:
    """A picture as the address of an image: height × width × 4 bytes, red, green, blue and how
    much of what is behind is hidden.

    Example:
        >>> png_of_colours(np.zeros((1, 2, 4), dtype=np.uint8))[:26]
        'data:image/png;base64,iVBO'
    """
    height, width = colours.shape[:2]
    rows = np.zeros((height, 4 * width + 1), dtype=np.uint8)
    # Each row begins with its filter, the difference from the pixel before, which packs well.
    rows[:, 0] = 1
    flat = colours.reshape(height, 4 * width)
    rows[:, 1:] = flat
    rows[:, 5:] -= flat[:, :-4]
    return _address(
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows.tobytes(), 6)),
    )


def _address(*parts: tuple[bytes, bytes]) -> str:
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in (*parts, (b"IEND", b""))
    )
    data = b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
    return "data:image/png;base64," + base64.b64encode(data).decode()


class Raster:
    """The pixels of a drawing: for each the corners of the triangle that covers it, with weights.

    Args:
        points: n × 2 coordinates.
        cells: m × 3 triangles of the points.
        side: pixels along the longer side.

    Example:
        >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        >>> raster = Raster(square, np.array([[0, 1, 2], [1, 3, 2]]), 4)
        >>> raster.values(square[:, 0])[0].round(3).tolist()
        [0.125, 0.375, 0.625, 0.875]
    """

    def __init__(self, points: np.ndarray, cells: np.ndarray, side: int = SIDE):
        low, extent = points.min(axis=0), np.ptp(points, axis=0)
        step = max(float(extent.max()), 1e-300) / side
        self.width, self.height = (max(1, round(float(length) / step)) for length in extent)
        size = np.array([self.width, self.height])
        # In pixels, whose centres are whole numbers, the first row below.
        scaled = (points - low) / np.maximum(extent, 1e-300) * size - 0.5
        self._cover = np.full(self.width * self.height, -1, dtype=np.int64)
        self._weights = np.zeros((self.width * self.height, 3), dtype=np.float32)
        corners = scaled[cells]
        first = np.clip(np.ceil(corners.min(axis=1) - 1e-6), 0, size - 1).astype(np.int64)
        last = np.clip(np.floor(corners.max(axis=1) + 1e-6), 0, size - 1).astype(np.int64)
        spans = np.maximum(last - first + 1, 0)
        ends = np.cumsum(spans.prod(axis=1))
        start = 0
        while start < len(cells):
            before = ends[start - 1] if start else 0
            stop = max(int(np.searchsorted(ends, before + AT_ONCE)), start + 1)
            self._fill(start, stop, corners, first, spans)
            start = stop
        self._seen = np.flatnonzero(self._cover >= 0)
        self._corners = cells[self._cover[self._seen]]
        self._weights = self._weights[self._seen]

    def _fill(
        self, start: int, stop: int, corners: np.ndarray, first: np.ndarray, spans: np.ndarray
    ) -> None:
        """Give the pixels within some triangles to them."""
        counts = spans[start:stop].prod(axis=1)
        which = np.repeat(np.arange(start, stop), counts)
        inside = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        wide = np.maximum(spans[which, 0], 1)
        x, y = first[which, 0] + inside % wide, first[which, 1] + inside // wide
        a, b, c = (corners[which, k] for k in range(3))
        area = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (c[:, 0] - a[:, 0]) * (b[:, 1] - a[:, 1])
        with np.errstate(divide="ignore", invalid="ignore"):
            second = (
                (x - a[:, 0]) * (c[:, 1] - a[:, 1]) - (c[:, 0] - a[:, 0]) * (y - a[:, 1])
            ) / area
            third = (
                (b[:, 0] - a[:, 0]) * (y - a[:, 1]) - (x - a[:, 0]) * (b[:, 1] - a[:, 1])
            ) / area
            weights = np.stack([1 - second - third, second, third], axis=1)
            good = np.isfinite(weights).all(axis=1) & (weights >= -1e-6).all(axis=1)
        self._settle((y * self.width + x)[good], which[good], weights[good])

    def _settle(self, pixels: np.ndarray, which: np.ndarray, weights: np.ndarray) -> None:
        """Give pixels to triangles that cover them."""
        self._cover[pixels], self._weights[pixels] = which, weights

    def values(self, values: np.ndarray) -> np.ndarray:
        """Values at the points as rows of pixels from above, nan where nothing is."""
        found = np.full(self.width * self.height, np.nan)
        found[self._seen] = np.einsum("pk,pk->p", values[self._corners], self._weights)
        return found.reshape(self.height, self.width)[::-1]

    def picture(self, values: np.ndarray, low: float, high: float, scale: str) -> str:
        """Values at the points as the address of an image in the colours of a scale."""
        shares = (self.values(values) - low) / max(high - low, 1e-300)
        numbers = np.clip(np.round(shares * (COLOURS - 1)), 0, COLOURS - 1)
        return png(np.where(np.isfinite(numbers), numbers, COLOURS).astype(np.uint8), scale)
