# SPDX-License-Identifier: MIT
"""Plain text for LaTeX: what would be read as a command is escaped, and signs of mathematics become
their commands.

Names come from users, and studies from strangers, so that everything that is printed as text goes
through here.
"""

from __future__ import annotations

SPECIAL = {
    "\\": r"\textbackslash{}",
    **{character: "\\" + character for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
SIGNS = {
    "α": r"\alpha",
    "β": r"\beta",
    "γ": r"\gamma",
    "δ": r"\delta",
    "ε": r"\varepsilon",
    "ζ": r"\zeta",
    "η": r"\eta",
    "θ": r"\theta",
    "κ": r"\kappa",
    "λ": r"\lambda",
    "μ": r"\mu",
    "ν": r"\nu",
    "ξ": r"\xi",
    "π": r"\pi",
    "ρ": r"\rho",
    "ϱ": r"\varrho",
    "σ": r"\sigma",
    "τ": r"\tau",
    "φ": r"\varphi",
    "χ": r"\chi",
    "ψ": r"\psi",
    "ω": r"\omega",
    "Γ": r"\Gamma",
    "Δ": r"\Delta",
    "Λ": r"\Lambda",
    "Π": r"\Pi",
    "Σ": r"\Sigma",
    "Φ": r"\Phi",
    "Ω": r"\Omega",
    "∇": r"\nabla",
    "∂": r"\partial",
    "∫": r"\int",
    "≤": r"\leq",
    "≥": r"\geq",
    "≲": r"\lesssim",
    "≠": r"\neq",
    "≈": r"\approx",
    "‖": r"\|",
    "·": r"\cdot",
    "×": r"\times",
    "∈": r"\in",
    "→": r"\to",
    "↦": r"\mapsto",
    "√": r"\surd",
    "∞": r"\infty",
    "±": r"\pm",
    "⟨": r"\langle",
    "⟩": r"\rangle",
    "−": "-",
    "′": "'",
    "¹": "^1",
    "²": "^2",
    "³": "^3",
    "⁻": "^{-}",
    "₀": "_0",
    "₁": "_1",
    "₂": "_2",
    "₃": "_3",
    "ₕ": "_h",
    "ⱼ": "_j",
}
DOCUMENT = {
    **SPECIAL,
    **{
        character: f"{{{character}}}" for character in "[]*"
    },  # after a line break in a table they would belong to it
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "–": "--",
    "…": r"\ldots{}",
    "“": "``",
    "”": "''",
    "\u0302": "",  # the hat over the letter before
    **{sign: rf"\ensuremath{{{command}}}" for sign, command in SIGNS.items()},
}
LATIN = "\u0180"  # letters beyond need a font of their own


def escape_latex(text: str) -> str:
    """Text that LaTeX, and MathJax in a notebook, prints as it is.

    Example:
        >>> print(escape_latex("u_x & $"))
        u\\_x \\& \\$
    """
    return "".join(SPECIAL.get(character, character) for character in text)


def document_text(text: str) -> str:
    """Text for a LaTeX document (packages amsmath and amssymb); letters that its usual fonts do not
    have become question marks.

    Example:
        >>> print(document_text("50 % of u_x & λ"))
        50 \\% of u\\_x \\& \\ensuremath{\\lambda}
    """
    shown = "".join(DOCUMENT.get(character, character) for character in text)
    return "".join(character if character < LATIN else "?" for character in shown)
