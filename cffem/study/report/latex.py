# SPDX-License-Identifier: MIT
"""Tables for a paper (amsmath, amssymb, booktabs, graphicx): verdicts, the reporting contract
of the scope, design diagnostics.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cffem.study.report.canvas import mark
from cffem.study.report.summary import plain, term_epsilon
from cffem.symbols.latex_text import document_text

if TYPE_CHECKING:
    from cffem.study.report.report import Report

# Commands that a formula of a term may use; anything else (\input, \write18, …) makes it plain
# text.
FORMULA = re.compile(
    r"\\(?:nabla|times|cdot|left|right|mathbf|mathrm|frac|partial|Delta|operatorname|sin|cos|tan|exp|log|sqrt|sinh|cosh|tanh|alpha|beta"
    r"|gamma|delta|epsilon|varepsilon|kappa|lambda|mu|nu|pi|rho|sigma|tau|varphi|omega|theta|quad|otimes|text|langle"
    r"|rangle|[|{},;! ])"
)


def escaped(text: object) -> str:
    """Anything from a report as text for LaTeX.

    Example:
        >>> print(escaped("50 % of u_x & λ"))
        50 \\% of u\\_x \\& \\ensuremath{\\lambda}
    """
    return document_text(plain(str(text)))


def coherence(value: float | None) -> str:
    """A coherence, of which it is told how near to 1 it is.

    Example:
        >>> print(coherence(1 - 1.72e-7), coherence(0.25))
        $1-1.72\\times10^{-7}$ $0.25$
    """
    if isinstance(value, float) and 1e-14 < 1.0 - value < 5e-4:
        return number(1.0 - value).replace("$", "$1-", 1)
    return number(value)


def number(value: Any) -> str:
    """A number in mathematics, a dash where there is none.

    Example:
        >>> print(number(1.234e-7), number(0.25), number(None))
        $1.23\\times10^{-7}$ $0.25$ --
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return "--"
    digits = f"{value:.3g}"
    if "e" not in digits:
        return f"${digits}$"
    mantissa, exponent = digits.split("e")
    return rf"${mantissa}\times10^{{{int(exponent)}}}$"


def formula(latex: str, text: str) -> str:
    """A term's formula where it only uses known commands, its escaped text otherwise."""
    rest = FORMULA.sub("", latex)
    balanced = latex.count("{") == latex.count("}") and latex.count(r"\left") == latex.count(
        r"\right"
    )
    harmless = not set(rest) & set("\\$%#&~") and "^^" not in rest and rest.isascii()
    return (
        f"${latex}$" if latex.strip() and harmless and balanced else rf"\texttt{{{escaped(text)}}}"
    )


def as_latex(report: Report) -> str:
    """All tables, one after the other."""
    return "\n".join(
        [
            "% needs \\usepackage{amsmath,amssymb,booktabs,graphicx}",
            verdicts(report),
            calibration(report),
            interventions(report),
            scope(report),
            design(report),
        ]
    )


def table(
    caption: str,
    label: str,
    columns: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    wide: bool = True,
) -> str:
    """A floating table whose cells are LaTeX already; a wide one is scaled to the width of
    the text.
    """
    lines = [
        r"\begin{table}[!ht]",
        r"  \centering",
        rf"  \caption{{{caption}}}",
        rf"  \label{{tab:{label}}}",
        (r"  \resizebox{\textwidth}{!}{%" + "\n" if wide else "")
        + rf"  \begin{{tabular}}{{{columns}}}",
    ]
    lines += [r"    \toprule", f"    {' & '.join(head)} \\\\", r"    \midrule"]
    lines += [f"    {' & '.join(row)} \\\\" for row in rows]
    return "\n".join(
        [*lines, r"    \bottomrule", r"  \end{tabular}" + "}" * wide, r"\end{table}", ""]
    )


def verdicts(report: Report) -> str:
    """Scores with error bars and what was decided."""
    library = report.sections["scope"].get("library", {})
    epsilons = {term_epsilon(report, term) for term in report.terms.values()}
    shared = len(epsilons) == 1
    rows = [
        [
            escaped(term.name),
            formula(term.latex, str(library.get(term.name, term.latex))),
            *map(
                number,
                (
                    term.coefficient,
                    term.residual_contribution,
                    term.linearised,
                    term.deletion,
                    term.margin,
                ),
            ),
            *([] if shared else [number(term_epsilon(report, term))]),
            escaped(
                mark(term.decision).word
                + ("" if term.certificate is None else f" ({term.certificate})")
            ),
        ]
        for term in report.terms.values()
    ]
    tolerance = rf" at $\varepsilon=$ {number(epsilons.pop())}" if shared else ""
    norm = escaped(report.sections["scope"].get("norm", "not stated"))
    caption = f"Deletion scores with error bars and verdicts{tolerance}, norm {norm}."
    head = [
        "Term",
        r"$\mathcal{T}_j[u]$",
        r"$\alpha_j$",
        "$C_j$",
        "linearised",
        r"$\widehat\delta_j$",
        r"$\pm$",
    ]
    head += ([] if shared else [r"$\varepsilon$"]) + ["verdict"]
    return table(caption, "verdicts", "ll" + "r" * (len(head) - 3) + "l", head, rows)


def calibration(report: Report) -> str:
    """Coefficients that were fitted to readings, and what sensors say of each term."""
    part = report.sections.get("calibration") or {"skipped": "no readings"}
    if "skipped" in part:
        return f"% no calibration: {escaped(part['skipped'])}\n"
    fitted, intervals = part.get("coefficients") or {}, part.get("intervals") or {}
    every = (part.get("all_candidates") or {}).get("intervals") or {}
    rows = []
    for name, deletion in (part.get("deletions") or {}).items():
        term = report.terms.get(name)
        low, high = intervals.get(name) or every.get(name) or (None, None)
        seen = (None if term is None else term.sensors) or {}
        rows.append(
            [
                escaped(name),
                number(fitted.get(name)) if name in fitted else "--",
                f"[{_end(low, '-')}, {_end(high, '')}]",
                number(seen.get("score")),
                *map(number, (deletion.get("delta_chi2"), deletion.get("p_value"))),
                escaped(seen.get("need") or "--"),
            ]
        )
    for name, each in (part.get("amplitudes") or {}).items():
        spread = each.get("deviation")
        bar = "" if spread is None else rf" $\pm$ {number(spread)}"
        rows.append([escaped(name), number(each.get("value")) + bar, *["--"] * 5])
    level = f", noise level estimated {number(part.get('noise_level'))}"
    noise = "" if part.get("noise_known") else level
    caption = (
        f"Calibration on {part.get('readings')} readings: $\\chi^2 = $ {number(part.get('chi2'))} "
        f"with {part.get('degrees')} degrees of freedom{noise}; 95\\,\\% intervals."
    )
    head = [
        "Term",
        r"$\alpha_j$",
        "interval",
        r"$\delta_j^{\mathcal{O}}$",
        r"$\Delta\chi^2$",
        "$p$",
        "for the sensors",
    ]
    return table(caption, "calibration", "lrcrrrl", head, rows)


def _end(value: float | None, sign: str) -> str:
    """An end of an interval, infinite where the readings do not bound it."""
    known = value is not None and math.isfinite(value)
    return number(value) if known else rf"${sign}\infty$"


def interventions(report: Report) -> str:
    """Named interventions, and pairs of terms that act together."""
    found = [e for e in report.interventions.values() if not e.pair or e.relations]
    if not found:
        return "% no interventions\n"
    rows = [
        [
            escaped(each.name),
            formula(each.latex, each.intervention),
            *map(number, (each.score, each.margin, each.epsilon)),
            escaped(
                mark(each.decision).word
                + ("" if each.certificate is None else f" ({each.certificate})")
            ),
            escaped(", ".join(each.relations) or "–"),
        ]
        for each in found
    ]
    head = [
        "Intervention",
        "what it does",
        r"$\widehat\delta$",
        r"$\pm$",
        r"$\varepsilon$",
        "verdict",
        "relation",
    ]
    return table("Named interventions and pairs of terms.", "interventions", "llrrrll", head, rows)


def scope(report: Report) -> str:
    """The items of the reporting contract."""
    part = report.sections["scope"]
    if "skipped" in part:
        return f"% no scope: {escaped(part['skipped'])}\n"
    experiments = part.get("experiments") or {"": part.get("experiment") or {}}
    rows = [["Library", escaped(", ".join(part.get("library", {})))]]
    rows += [
        [
            "Experiment" + (f" {escaped(name)}" if len(experiments) > 1 else ""),
            escaped(_experiment(e)),
        ]
        for name, e in experiments.items()
    ]
    rows += [
        ["Observation", escaped(part.get("observation", "--"))],
        ["Norm", escaped(part.get("norm", "--"))],
        [r"Tolerance $\varepsilon$", number(part.get("epsilon"))],
        [
            "Intervention",
            escaped(f"{part.get('intervention', '--')}, refit {part.get('refit', '--')}"),
        ],
        ["Screening", escaped(_screening(report.sections["screening"]))],
        *[
            [name, escaped(", ".join(report.sections["sets"].get(key, ())) or "none")]
            for name, key in SETS
        ],
    ]
    return table(
        escaped(part.get("sentence", "Scope.")),
        "scope",
        "lp{0.7\\textwidth}",
        ["Item", "Report"],
        rows,
        wide=False,
    )


SETS = (
    (r"$S_{\mathrm{fit}}$", "fit"),
    (r"$S_{\mathrm{cf}}$ (relevant)", "relevant"),
    ("Irrelevant", "irrelevant"),
    ("Unresolved", "unresolved"),
    ("Constraint null", "constraint_null"),
    ("Aliased", "aliased"),
    ("Unsolvable", "unsolvable"),
)


def _experiment(given: Mapping[str, Any]) -> str:
    window = given.get("window")
    when = "steady" if not window else f"window ({window[0]:g}, {window[1]:g}), {window[2]:g} steps"
    parts = [when, f"boundary: {'; '.join(map(str, given.get('boundary', ()))) or 'none'}"]
    for key in ("initial", "forcing", "known"):
        values = given.get(key) or {}
        if key == "known" and not values:
            continue
        parts.append(
            f"{key}: {'; '.join(f'{name} = {value}' for name, value in values.items()) or 'none'}"
        )
    return "; ".join(parts)


def _screening(part: Mapping[str, Any]) -> str:
    if "skipped" in part:
        return str(part["skipped"])
    keys = ("anchor", "normalisation", "debiasing", "contract")
    numbers = f"λ = {_short(part.get('lambda'))}, τ = {_short(part.get('tau'))}"
    return "; ".join([*(f"{key}: {part.get(key, '–')}" for key in keys), numbers])


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, int | float) else "–"


def design(report: Report) -> str:
    """Diagnostics of the design of each equation."""
    part = report.sections["design"]
    if "skipped" in part:
        return f"% no design: {escaped(part['skipped'])}\n"
    rows = []
    for label, found in (part.get("equations") or {"": part}).items():
        bracket, selected = found.get("restricted_eigenvalue") or {}, found.get("selected") or {}
        aliases = (
            "; ".join(", ".join(group.get("terms", ())) for group in found.get("alias_groups", ()))
            or "none"
        )
        rows.append(
            [
                escaped(label) or "--",
                *map(number, (found.get("rows"), found.get("columns"), found.get("rank"))),
                coherence(found.get("coherence")),
                f"[{number(bracket.get('lower'))}, {number(bracket.get('upper'))}]",
                *map(number, (selected.get("minimum_eigenvalue"), selected.get("condition"))),
                escaped(aliases),
            ]
        )
    head = [
        "Equation",
        "rows",
        "columns",
        "rank",
        r"$\mu(A)$",
        r"$\widehat\kappa(A;s)$",
        r"$\lambda_{\min}$",
        "condition",
        "aliased",
    ]
    return table("Design diagnostics.", "design", "lrrrrcrrl", head, rows)
