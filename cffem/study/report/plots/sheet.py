# SPDX-License-Identifier: MIT
"""A sheet of SVG with panels: lines, marks, pictures and axes with their numbers.

Matplotlib takes a fifth of a second for a picture and knows the width of every letter. A page has
some twenty pictures, which took longer than all solves of a small study; here widths of letters are
estimated, and a picture takes milliseconds. Names are the users': they are text, never markup.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from unicodedata import east_asian_width

import numpy as np

PIXELS = 96  # of an inch
TEXT, SMALL = 13.0, 11.0  # height of letters in pixels
GREY, INK = "#dddddd", "#222222"
DIGITS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Widths of letters, in heights of a line, of wide fonts without serifs.
NARROW, WIDE = frozenset("iljtfrI.,:;|!'()[] "), frozenset("mwMW@%—±−…")


def width_of(text: str, size: float = TEXT) -> float:
    """About how wide a text is, in pixels, rather too wide than too narrow.

    Example:
        >>> width_of("ill", 10) < width_of("www", 10)
        True
    """
    return size * sum(
        0.41
        if c in NARROW
        else 1.0
        if c in WIDE or east_asian_width(c) in "WF"
        else 0.74
        if c.isupper()
        else 0.64
        for c in text
    )


def round_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two ends, at most so many.

    Example:
        >>> round_ticks(0.0, 1.0, 6)
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low]
    rough = (high - low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def log_ticks(low: float, high: float, most: int = 9) -> list[tuple[float, str]]:
    """Numbers of a logarithmic axis with how they are written: as 10⁻³, or as 0.2 on a short one.

    Example:
        >>> log_ticks(0.002, 3.0)
        [(0.01, '10⁻²'), (0.1, '10⁻¹'), (1.0, '10⁰')]
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    if high < 100 * low:
        numbers = [m * 10.0**k for k in range(first, last + 1) for m in (1, 2, 5)]
        return [(n, f"{n:.4g}") for n in numbers if low <= n <= high]
    every = max(1, math.ceil((last - first + 1) / most))
    powers = [k for k in range(first, last + 1) if k % every == 0 and low <= 10.0**k <= high]
    return [(10.0**k, f"10{str(k).translate(DIGITS)}") for k in powers]


@dataclass
class Sheet:
    """A white sheet.

    Args:
        width, height: in pixels.

    Example:
        >>> sheet = Sheet(40, 20)
        >>> sheet.text(5, 15, "u < 1")
        >>> "u &lt; 1" in sheet.svg()
        True
    """

    width: float
    height: float
    parts: list[str] = field(default_factory=list)

    def add(self, tag: str, **attributes: object) -> None:
        """An element without content; `_` in names stands for `-`."""
        listed = " ".join(
            f'{key.replace("_", "-")}="{_attribute(value)}"' for key, value in attributes.items()
        )
        self.parts.append(f"<{tag} {listed}/>")

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        anchor: str = "start",
        size: float = TEXT,
        colour: str = INK,
        turn: float = 0.0,
        bold: bool = False,
    ) -> None:
        """Words with the line below their letters at y, turned about their anchor in degrees."""
        turned = f' transform="rotate({turn:g} {x:.1f} {y:.1f})"' if turn else ""
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size:g}" '
            f'fill="{colour}"{turned}{weight}>{html.escape(words)}</text>'
        )

    def bar(self, x: float, y: float, width: float, height: float, scale: str) -> None:
        """The colours of a scale as a bar, along its longer side."""
        from cffem.study.report.plots.raster import COLOURS, png

        numbers = np.arange(COLOURS, dtype=np.uint8)
        shaped = numbers[None] if width >= height else numbers[::-1, None]
        self.image(x, y, width, height, png(shaped, scale))
        self.add("rect", x=x, y=y, width=width, height=height, fill="none", stroke="#555555",
                 stroke_width=0.6)  # fmt: skip

    def image(self, x: float, y: float, width: float, height: float, address: str) -> None:
        """A picture, stretched to a rectangle."""
        self.add("image", x=x, y=y, width=width, height=height, preserveAspectRatio="none",
                 href=address)  # fmt: skip

    def svg(self) -> str:
        """The sheet as a file."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:g}" '
            f'height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}" '
            'font-family="DejaVu Sans, Arial, sans-serif">'
            f'<rect width="100%" height="100%" fill="#fff"/>{"".join(self.parts)}</svg>'
        )


def _attribute(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else html.escape(str(value), quote=True)


@dataclass(frozen=True)
class Panel:
    """A rectangle of a sheet with coordinates of its own.

    Args:
        sheet: where it is drawn.
        left, top, width, height: the rectangle, in pixels.
        x, y: the coordinates at its ends.
        logs: which of both are logarithmic.
    """

    sheet: Sheet
    left: float
    top: float
    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]
    logs: tuple[bool, bool] = (False, False)

    @property
    def bottom(self) -> float:
        """Where the panel ends."""
        return self.top + self.height

    @property
    def right(self) -> float:
        """Where the panel ends."""
        return self.left + self.width

    def across(self, value: float) -> float:
        """Pixels of a coordinate from the left of the sheet."""
        return self.left + self.width * _share(value, self.x, self.logs[0])

    def up(self, value: float) -> float:
        """Pixels of a coordinate from the top of the sheet."""
        return self.bottom - self.height * _share(value, self.y, self.logs[1])

    def line(
        self,
        xs: Sequence[float] | np.ndarray,
        ys: Sequence[float] | np.ndarray,
        colour: str,
        *,
        width: float = 1.6,
        dash: str = "",
        fill: bool = False,
    ) -> None:
        """A line through points, with the area down to the axis where asked; broken where a
        value is not finite.
        """
        across = self.left + self.width * _shares(xs, self.x, self.logs[0])
        up = self.bottom - self.height * _shares(ys, self.y, self.logs[1])
        words, pen = [], False
        for h, v in zip(across.tolist(), up.tolist(), strict=True):
            if math.isfinite(h) and math.isfinite(v):
                words.append(f"{'L' if pen else 'M'}{h:.1f} {v:.1f}")
                pen = True
            else:
                pen = False
        if not words:
            return
        path = "".join(words)
        if fill:
            base = self.up(min(max(0.0, self.y[0]), self.y[1]))
            ends = f"L{across[-1]:.1f} {base:.1f}L{across[0]:.1f} {base:.1f}Z"
            self.sheet.add("path", d=path + ends, fill=colour, fill_opacity="0.2")
        look = {"stroke_dasharray": dash} if dash else {}
        self.sheet.add("path", d=path, fill="none", stroke=colour, stroke_width=width, **look)

    def marker(
        self, x: float, y: float, shape: str, colour: str, *, size: float = 5.0, face: str = ""
    ) -> None:
        """A mark at a point: "o", "s", "D", "v", "X" or "<"."""
        h, v, r = self.across(x), self.up(y), size
        look = {"fill": face or colour, "stroke": colour, "stroke_width": 1.3}
        corners = {
            "s": ((-r, -r), (r, -r), (r, r), (-r, r)),
            "D": ((0.0, -1.3 * r), (1.3 * r, 0.0), (0.0, 1.3 * r), (-1.3 * r, 0.0)),
            "v": ((-r, -0.8 * r), (r, -0.8 * r), (0.0, r)),
            "<": ((r, -r), (r, r), (-r, 0.0)),
        }
        if shape in corners:
            points = " ".join(f"{h + a:.1f},{v + b:.1f}" for a, b in corners[shape])
            self.sheet.add("polygon", points=points, **look)
        elif shape == "X":
            cross = f"M{h - r:.1f} {v - r:.1f}l{2 * r:.1f} {2 * r:.1f}m0 {-2 * r:.1f}l{-2 * r:.1f} "
            self.sheet.add("path", d=f"{cross}{2 * r:.1f}", stroke=colour, stroke_width=3.2)
        else:
            self.sheet.add("circle", cx=h, cy=v, r=r, **look)

    def ticks_across(
        self,
        ticks: Sequence[tuple[float, str]] | None = None,
        *,
        grid: bool = False,
        words: str = "",
        turned: bool = False,
    ) -> None:
        """Numbers and words below the panel; turned ones begin at their tick."""
        chosen = self._ticks(0, max(2, int(self.width / 65))) if ticks is None else ticks
        for value, written in chosen:
            h = self.across(value)
            self._rule(h, self.top if grid else self.bottom, h, self.bottom, grid)
            self._rule(h, self.bottom, h, self.bottom + 4, False)
            if turned:
                self.sheet.text(h + 4, self.bottom + 14, written, anchor="end", turn=-45)
            else:
                self.sheet.text(h, self.bottom + 16, written, anchor="middle", size=SMALL)
        if words:
            self.sheet.text(self.left + self.width / 2, self.bottom + 33, words, anchor="middle")

    def ticks_up(
        self,
        ticks: Sequence[tuple[float, str]] | None = None,
        *,
        grid: bool = False,
        words: str = "",
        size: float = SMALL,
    ) -> None:
        """Numbers and words left of the panel."""
        chosen = self._ticks(1, max(2, int(self.height / 40))) if ticks is None else ticks
        widest = max((width_of(written, size) for _, written in chosen), default=0.0)
        for value, written in chosen:
            v = self.up(value)
            self._rule(self.left, v, self.right if grid else self.left, v, grid)
            self._rule(self.left - 4, v, self.left, v, False)
            self.sheet.text(self.left - 7, v + 0.36 * size, written, anchor="end", size=size)
        if words:
            place = self.left - widest - 14
            middle = self.top + self.height / 2
            self.sheet.text(place, middle, words, anchor="middle", turn=-90)

    def _ticks(self, axis: int, most: int) -> list[tuple[float, str]]:
        low, high = sorted((self.x, self.y)[axis])
        if self.logs[axis]:
            return log_ticks(low, high, most)
        return [(tick, f"{tick:.6g}") for tick in round_ticks(low, high, most)]

    def _rule(self, x1: float, y1: float, x2: float, y2: float, grid: bool) -> None:
        if (x1, y1) != (x2, y2):
            colour = GREY if grid else INK
            self.sheet.add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=colour, stroke_width=0.8)

    def frame(self, sides: str = "lb") -> None:
        """Lines along the sides: l, r, t, b."""
        for side, ends in (
            ("l", (self.left, self.top, self.left, self.bottom)),
            ("r", (self.right, self.top, self.right, self.bottom)),
            ("t", (self.left, self.top, self.right, self.top)),
            ("b", (self.left, self.bottom, self.right, self.bottom)),
        ):
            if side in sides:
                self._rule(*ends, False)

    def title(self, words: str) -> None:
        """Words above the panel."""
        middle = self.left + self.width / 2
        self.sheet.text(middle, self.top - 8, words, anchor="middle")


def _share(value: float, ends: tuple[float, float], log: bool) -> float:
    return float(_shares([value], ends, log)[0])


def _shares(
    values: Sequence[float] | np.ndarray, ends: tuple[float, float], log: bool
) -> np.ndarray:
    """Where values lie between the ends of an axis, 0 to 1."""
    low, high = (math.log(end) if log else end for end in ends)
    taken = np.asarray(values, dtype=float)
    if log:
        with np.errstate(divide="ignore", invalid="ignore"):
            taken = np.log(taken)
    return np.asarray((taken - low) / ((high - low) or 1e-300))


def padded(values: np.ndarray, floor: float | None = None) -> tuple[float, float]:
    """Ends of an axis a little beyond finite values; from `floor` where it is given.

    Example:
        >>> padded(np.array([0.0, 1.0]))
        (-0.05, 1.05)
    """
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    low = low if floor is None else floor
    if high <= low:
        spread = abs(high) or 1.0
        return (low - (0.05 * spread if floor is None else 0.0), low + 0.05 * spread)
    return (low - 0.05 * (high - low) if floor is None else low), high + 0.05 * (high - low)
