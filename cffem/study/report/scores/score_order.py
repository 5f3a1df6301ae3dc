# SPDX-License-Identifier: MIT
"""Which terms can be ordered by their scores, given their error bars, and where the ranking by
residuals disagrees with that beyond the bars.

Scores are compared relative to the tolerances of their verdicts, δ/ε ± η/ε, so that fields of other
units can stand in one ranking. a is above b where δ_a − η_a > δ_b + η_b; a score without an error
bar is not ordered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cffem.study.report.report import TermReport

# Two residual contributions within this factor are not told apart by rank.
RANKS_DIFFER = 1.05


def interval(term: TermReport) -> tuple[float, float] | None:
    """The interval of δ/ε of a term; None without a score, an error bar or a tolerance."""
    if term.deletion is None or term.margin is None or not term.epsilon:
        return None
    if term.decision == "constraint_null":
        return None
    return (term.deletion - term.margin) / term.epsilon, (
        term.deletion + term.margin
    ) / term.epsilon


def ranking(terms: Mapping[str, TermReport]) -> dict[str, Any]:
    """The order of terms that their error bars allow.

    Returns:
        `groups`: names from the largest to the smallest; every term of a group is above every term
        of the next, and within a group some pairs cannot be ordered. `unordered`: these pairs.
        `unranked`: terms without score or error bar. `disagreements`: pairs of which the first
        contributes more to the residual but changes the solution less, beyond the bars. `sentence`:
        the same in words.

    Example:
        >>> from cffem.study.report.report import TermReport
        >>> def term(name, score, margin):
        ...     return TermReport(name, "", 1.0, deletion=score, margin=margin, epsilon=1.0)
        >>> found = ranking({n: term(n, *v) for n, v in
        ...     {"a": (5.0, 0.1), "b": (2.0, 0.5), "c": (1.8, 0.5), "d": (0.1, 0.1)}.items()})
        >>> found["groups"], found["unordered"]
        ([['a'], ['b', 'c'], ['d']], [['b', 'c']])
        >>> found["sentence"]
        'a > (b, c) > d; b and c cannot be ordered within their error bars'
    """
    known = {name: found for name, term in terms.items() if (found := interval(term)) is not None}
    order = sorted(known, key=lambda name: -sum(known[name]))
    groups: list[list[str]] = []
    for place, name in enumerate(order):
        lowest = min((known[other][0] for other in order[:place]), default=float("inf"))
        highest = max(known[other][1] for other in order[place:])
        if not groups or lowest > highest:
            groups.append([])
        groups[-1].append(name)
    unordered = [
        [a, b]
        for group in groups
        for a, b in combinations(group, 2)
        if not above(known[a], known[b]) and not above(known[b], known[a])
    ]
    wrong = [[a.name, b.name] for a, b in beyond_bars(list(terms.values()))]
    return {
        "groups": groups,
        "unordered": unordered,
        "unranked": [name for name in terms if name not in known],
        "disagreements": wrong,
        "sentence": sentence(groups, unordered),
    }


def above(first: tuple[float, float], second: tuple[float, float]) -> bool:
    """Whether one interval lies above another."""
    return first[0] > second[1]


def sentence(groups: Sequence[Sequence[str]], unordered: Sequence[Sequence[str]]) -> str:
    """An order in words; empty for fewer than two terms."""
    if sum(map(len, groups)) < 2:
        return ""
    chain = " > ".join(g[0] if len(g) == 1 else f"({', '.join(g)})" for g in groups)
    if not unordered:
        return chain
    pairs = ", ".join(f"{a} and {b}" for a, b in unordered[:3])
    more = f" and {len(unordered) - 3} more pairs" if len(unordered) > 3 else ""
    return f"{chain}; {pairs}{more} cannot be ordered within their error bars"


def beyond_bars(terms: Sequence[TermReport]) -> list[tuple[TermReport, TermReport]]:
    """Pairs (a, b) of one equation where a contributes more to the residual than b but changes the
    solution less, with both error bars clear of each other.
    """
    found = []
    known = {t.name: each for t in terms if (each := interval(t)) is not None}
    both = [t for t in terms if t.name in known and (t.residual_contribution or 0.0) > 0]
    for pair in combinations(both, 2):
        if equation_of(pair[0]) != equation_of(pair[1]):
            continue
        b, a = sorted(pair, key=lambda term: term.residual_contribution or 0.0)
        more = (a.residual_contribution or 0.0) > RANKS_DIFFER * (b.residual_contribution or 0.0)
        if more and above(known[b.name], known[a.name]):
            found.append((a, b))
    return found


def equation_of(term: TermReport) -> str:
    """The field whose equation a term of a system is in; nothing for a single equation."""
    return term.name.partition("/")[0] if "/" in term.name else ""
