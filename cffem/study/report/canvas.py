# SPDX-License-Identifier: MIT
"""Drawing without a screen: sheets of SVG and, for rarer pictures, Matplotlib figures as `<img>`
with the picture inside, and the marks that stand for verdicts.

Every verdict has a colour (from the palette of Okabe and Ito, which colour-blind people tell
apart), a shape and a word. Names are the users': they are drawn as they are, never read as
mathematics. A picture that cannot be drawn is a sentence that says why.
"""

from __future__ import annotations

import base64
import html
import io
import math
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cffem.study.report.plots.sheet import Sheet
from cffem.study.report.summary import plain

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


LABEL = 26  # characters of a name in a picture


@dataclass(frozen=True)
class Mark:
    """How a verdict looks."""

    word: str
    glyph: str
    colour: str
    marker: str


MARKS = {
    "relevant": Mark("relevant", "●", "#b34700", "o"),
    "irrelevant": Mark("irrelevant", "■", "#00598c", "s"),
    "unresolved": Mark("unresolved", "◇", "#5a5a5a", "D"),
    "constraint_null": Mark("constraint null", "▼", "#00664b", "v"),
    "unsolvable": Mark("unsolvable", "✕", "#8a2a6b", "X"),
}
STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "cffem",
    "axes.unicode_minus": True,
    "text.parse_math": False,
}


def mark(decision: str) -> Mark:
    """The mark of a verdict; of an unknown one that of `unresolved` with its own word."""
    return MARKS.get(decision) or Mark(plain(decision), "◇", "#5a5a5a", "D")


def label(name: str) -> str:
    """A name as it is written in a picture."""
    return plain(name, LABEL)


def decades(axis: Axis) -> None:
    """Write the ticks of a logarithmic axis, whose limits are set, without mathematics: as
    10⁻³, or as 0.2 on a short axis.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    digits = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    low, high = sorted(axis.get_view_interval())
    short = high < 100 * low
    axis.set_major_locator(LogLocator(10, subs=(1, 2, 5) if short else (1,), numticks=9))
    power = FuncFormatter(lambda value, _: f"10{str(round(math.log10(value))).translate(digits)}")
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}") if short else power)
    axis.set_minor_formatter(NullFormatter())


def picture(draw: Callable[[Figure], None], alt: str, size: tuple[float, float]) -> str:
    """Draw a figure and return it as an image element with its text alternative.

    Args:
        draw: draws into a Matplotlib figure.
        alt: what the picture shows, for people who do not see it.
        size: width and height in inches.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        return (
            '<p class="skipped">No picture: Matplotlib is not installed here (<code>pip install '
            "cffem[viz]</code>).</p>"
        )
    out = io.BytesIO()
    try:
        with matplotlib.rc_context(STYLE), warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # glyphs that the font lacks, axes that cannot be tightened
            figure = Figure(figsize=size, layout="constrained")
            draw(figure)
            figure.savefig(out, format="svg", metadata={"Date": None})
    except Exception as error:  # a picture is never worth the report
        return undrawn(error)
    return image(out.getvalue(), "image/svg+xml", alt, 96 * size[0])


def sheet_picture(draw: Callable[[Sheet], None], alt: str, size: tuple[float, float]) -> str:
    """Draw on a sheet and return it as an image element with its text alternative.

    Args:
        draw: draws on the sheet.
        alt: what the picture shows, for people who do not see it.
        size: width and height in pixels.
    """
    sheet = Sheet(round(size[0]), round(size[1]))
    try:
        draw(sheet)
        drawn = sheet.svg().encode()
    except Exception as error:  # a picture is never worth the report
        return undrawn(error)
    return image(drawn, "image/svg+xml", alt, sheet.width)


def undrawn(error: Exception) -> str:
    """A sentence for a picture that cannot be drawn."""
    said = html.escape(f"{type(error).__name__}: {error}")
    return f'<p class="skipped">This picture could not be drawn: {said}</p>'


def image(drawn: bytes, mime: str, alt: str, width: float) -> str:
    """An image element with the picture inside."""
    data = base64.b64encode(drawn).decode()
    return (
        f'<img class="picture" width="{width:.0f}" src="data:{mime};base64,{data}" '
        f'alt="{html.escape(alt, quote=True)}">'
    )


def formula(latex: str, text: str) -> str:
    """A formula as a small picture; its plain text where it cannot be drawn.

    Args:
        latex: the formula, without dollars.
        text: the same as plain text, which is also its text alternative.
    """
    fallback = f"<code>{html.escape(plain(text))}</code>"
    try:
        import matplotlib
        from matplotlib import mathtext
        from matplotlib.figure import Figure
        from matplotlib.font_manager import FontProperties
    except ImportError:
        return fallback
    if not latex.strip() or "$" in latex or len(latex) > 400:
        return fallback
    out = io.BytesIO()
    try:
        with (
            matplotlib.rc_context({"svg.hashsalt": "cffem", "mathtext.fontset": "cm"}),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            font = FontProperties(size=12)
            width, height, depth, _, _ = mathtext.MathTextParser("path").parse(
                f"${simple(latex)}$", dpi=72, prop=font
            )
            figure = Figure(figsize=(width / 72, height / 72))
            figure.text(0, depth / height, f"${simple(latex)}$", fontproperties=font)
            figure.savefig(out, format="svg", metadata={"Date": None}, transparent=True)
    except (ValueError, RuntimeError):
        return fallback
    data = base64.b64encode(out.getvalue()).decode()
    return (
        f'<img class="formula" src="data:image/svg+xml;base64,{data}" '
        f'alt="{html.escape(plain(text), quote=True)}">'
    )


def simple(latex: str) -> str:
    """LaTeX in the words that Matplotlib knows, and numbers with at most five digits.

    Example:
        >>> simple(r"\\left(1.56961230576048 x\\right)")
        '(1.5696 x)'
    """
    latex = re.sub(r"\d+\.\d{4,}", lambda number: f"{float(number[0]):.5g}", latex)
    for command, known in (
        (r"\left(", "("),
        (r"\right)", ")"),
        (r"\left|", "|"),
        (r"\right|", "|"),
        (r"\operatorname", r"\mathrm"),
    ):
        latex = latex.replace(command, known)
    return latex
