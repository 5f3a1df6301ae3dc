# SPDX-License-Identifier: MIT
"""Tables of terms for people: plain text, LaTeX and HTML, in which every name is escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import NamedTuple

import sympy as sp

from cffem.symbols.latex_text import escape_latex

HEADER = ("name", "term", "dependence", "order")


class Row(NamedTuple):
    """One term of a table."""

    name: str
    term: sp.Expr
    dependence: str
    order: int


def as_text(anchor: sp.Expr | None, rows: Sequence[Row]) -> str:
    """The equation as aligned columns."""
    table = [HEADER, *((row.name, str(row.term), row.dependence, str(row.order)) for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEADER))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    ]
    return "\n".join(
        [f"{0 if anchor is None else anchor} = sum of", *(f"  {line}" for line in lines)]
    )


def as_latex(equations: Sequence[tuple[sp.Expr | None, Sequence[Row]]]) -> str:
    """The equations as one array, a coefficient before each term."""
    lines = []
    for anchor, rows in equations:
        lines.append(rf"{sp.latex(0 if anchor is None else anchor)} = \sum_j \alpha_j T_j &  & \\")
        for row in rows:
            lines.append(
                rf"\quad \text{{{escape_latex(row.name)}}} & {sp.latex(row.term)} & "
                rf"\text{{{row.dependence}}} \\"
            )
    return "$\\displaystyle \\begin{array}{lll}\n" + "\n".join(lines) + "\n\\end{array}$"


def as_html(equations: Sequence[tuple[sp.Expr | None, Sequence[Row]]]) -> str:
    """The equations as one table whose formulas MathJax sets."""
    lines = ["<table>", "<tr>" + "".join(f"<th>{title}</th>" for title in HEADER) + "</tr>"]
    for anchor, rows in equations:
        left = html.escape(sp.latex(0 if anchor is None else anchor))
        lines.append(f'<tr><td colspan="{len(HEADER)}">${left} = \\sum_j \\alpha_j T_j$</td></tr>')
        for row in rows:
            cells = (
                html.escape(row.name),
                f"${html.escape(sp.latex(row.term))}$",
                row.dependence,
                str(row.order),
            )
            lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return "\n".join([*lines, "</table>"])
