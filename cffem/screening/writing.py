# SPDX-License-Identifier: MIT
"""A fitted equation in plain text and in LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sympy as sp

from cffem.design.design import Design
from cffem.symbols.latex_text import escape_latex


def equation_text(design: Design, coefficients: np.ndarray, digits: int = 4) -> str:
    """anchor = Σ coefficient · term, with the names of the terms.

    Example:
        >>> design = Design.from_matrix(np.eye(2), np.ones(2), ["u_xx", "u"])
        >>> equation_text(design, np.array([0.5, -2.0]))
        'y = 0.5 u_xx − 2 u'
    """
    anchor = None if design.library is None else design.library.anchor
    return (
        f"{'y' if anchor is None else in_plain_text(anchor)} = "
        f"{combined(design, coefficients, digits, list(design.names), '−')}"
    )


def in_plain_text(anchor: Any) -> str:
    """An anchor in plain text; a derivative of a field with its coordinates as an index.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> in_plain_text(cf.dt(cf.dt(u))), in_plain_text(u.diff(cf.x)), in_plain_text(cf.lap(u))
        ('u_tt', 'u_x', 'lap(u)')
    """
    if not isinstance(anchor, sp.Derivative) or not anchor.expr.is_Atom:
        return str(anchor)
    return f"{anchor.expr}_{''.join(str(c) * int(n) for c, n in anchor.variable_count)}"


def equation_latex(design: Design, coefficients: np.ndarray, digits: int = 4) -> str:
    r"""The same as the body of a LaTeX formula.

    Example:
        >>> design = Design.from_matrix(np.eye(1), np.ones(1), ["u_xx"])
        >>> print(equation_latex(design, np.array([0.5])))
        y = 0.5\,\text{u\_xx}
    """
    anchor = None if design.library is None else design.library.anchor
    terms = {} if design.library is None else design.library.terms
    shown = [in_latex(terms.get(name), name) for name in design.names]
    left = "y" if anchor is None else sp.latex(anchor)
    return f"{left} = {combined(design, coefficients, digits, shown, '-', join=chr(92) + ',')}"


def summary_text(
    equation: str,
    reasons: Sequence[str],
    terms: Mapping[str, tuple[bool, tuple[float, float]]],
    hidden: float,
    digits: int,
) -> str:
    """All that a screen says, in words.

    Args:
        equation: the fitted equation.
        reasons: what speaks against it.
        terms: by name whether a term was selected, and the interval of its coefficient.
        hidden: share of the anchor that one term outside the support could carry.
        digits: of the intervals.

    Example:
        >>> terms = {"u": (True, (0.9, 1.1)), "u_xx": (False, (-1e-3, 2e-3))}
        >>> print(summary_text("u_t = 1 u", [], terms, 0.02, 2))
        u_t = 1 u
        reliable: these terms are needed and no other support of the library does as well
            u in [0.9, 1.1]
        not found, but not excluded below 2 % of the anchor:
            u_xx in [-0.001, 0.002]
    """
    verdict = (
        "not reliable: " + "; ".join(reasons)
        if reasons
        else "reliable: these terms are needed and no other support of the library does as well"
    )
    lines = [equation, verdict]
    for wanted in (True, False):
        if not wanted and not all(kept for kept, _ in terms.values()):
            lines.append(f"not found, but not excluded below {100 * hidden:.2g} % of the anchor:")
        lines += [
            f"    {name} in [{low:.{digits}g}, {high:.{digits}g}]"
            for name, (kept, (low, high)) in terms.items()
            if kept is wanted
        ]
    return "\n".join(lines)


def in_latex(term: Any, name: str) -> str:
    """A term as its formula where it is known, else its name."""
    if term is None:
        return rf"\text{{{escape_latex(name)}}}"
    shown = sp.latex(term)
    return rf"\left({shown}\right)" if isinstance(term, sp.Add) else shown


def combined(
    design: Design,
    coefficients: np.ndarray,
    digits: int,
    shown: list[str],
    minus: str,
    join: str = " ",
) -> str:
    """Σ coefficient · term; zero where no term is there."""
    text = ""
    for name, value in zip(shown, coefficients, strict=True):
        if value:
            sign = f" {minus} " if value < 0 else " + "
            sign = sign if text else (minus if value < 0 else "")
            text += f"{sign}{abs(value):.{digits}g}{join}{name}"
    return text or "0"
