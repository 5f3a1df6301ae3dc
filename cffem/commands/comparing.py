# SPDX-License-Identifier: MIT
"""`cffem compare A B`: two reports side by side, what changed first."""

from __future__ import annotations

from dataclasses import dataclass

from cffem.study.report.report import Report, TermReport

# Scores that agree to this share count as equal: reports of two runs differ by rounding.
SAME = 1e-8
LONGEST = 60  # characters of one side of a difference
SCOPE = {
    "epsilon": "ε",
    "relative": "ε relative to the solution",
    "norm": "norm",
    "observation": "observation",
    "intervention": "intervention",
    "refit": "refit",
    "coefficients": "coefficients",
    "factual_norm": "norm of the factual solution",
}


@dataclass(frozen=True)
class Pair:
    """One term in two reports; None where a report does not have it."""

    name: str
    before: TermReport | None
    after: TermReport | None

    @property
    def verdict_changed(self) -> bool:
        """Whether the two verdicts differ, or one report lacks the term."""
        if self.before is None or self.after is None:
            return True
        return self.before.decision != self.after.decision

    @property
    def number_changed(self) -> bool:
        """Whether score or error bar differ by more than rounding."""
        if self.before is None or self.after is None:
            return True
        return not all(
            equal(getattr(self.before, name), getattr(self.after, name))
            for name in ("deletion", "margin", "coefficient")
        )


def equal(a: float | None, b: float | None) -> bool:
    """Whether two numbers agree up to rounding.

    Example:
        >>> equal(1.0, 1.0 + 1e-12), equal(None, 1.0), equal(None, None)
        (True, False, True)
    """
    if a is None or b is None:
        return a is b
    return abs(a - b) <= SAME * max(abs(a), abs(b)) or a == b


def pairs(before: Report, after: Report) -> list[Pair]:
    """The terms of both reports: those with another verdict first, then other numbers."""
    names = dict.fromkeys([*before.terms, *after.terms])
    found = [Pair(name, before.terms.get(name), after.terms.get(name)) for name in names]
    return sorted(found, key=lambda pair: (not pair.verdict_changed, not pair.number_changed))


def said(term: TermReport | None) -> str:
    """A term's verdict, score and error bar in a few words."""
    if term is None:
        return "not in this report"
    score = "–" if term.deletion is None else f"{term.deletion:.4g}"
    margin = "" if term.margin is None else f" ± {term.margin:.2g}"
    bar = f" {term.certificate}" if term.certificate not in (None, "", "none") else ""
    return f"{term.decision}: {score}{margin}{bar}"


def compare(first: str, second: str) -> str:
    """The comparison of two folders of results as text.

    Args:
        first, second: folders with a report.json.
    """
    before, after = Report.read(first), Report.read(second)
    found = pairs(before, after)
    changed = [pair for pair in found if pair.verdict_changed]
    moved = [pair for pair in found if pair.number_changed and not pair.verdict_changed]
    lines = [
        f"{len(found)} terms: {len(changed)} with another verdict, {len(moved)} with the same "
        f"verdict and other numbers, {len(found) - len(changed) - len(moved)} unchanged."
    ]
    width = max((len(pair.name) for pair in found), default=0)
    left = max((len(said(pair.before)) for pair in found), default=0)
    left = max(left, len(first))
    lines.append(f"  {'':<{width}}  {first:<{left}}  {second}")
    for pair in found:
        mark = "!" if pair.verdict_changed else "~" if pair.number_changed else " "
        lines.append(
            f"{mark} {pair.name:<{width}}  {said(pair.before):<{left}}  {said(pair.after)}"
        )
    lines += differences(before, after)
    return "\n".join(line.rstrip() for line in lines)


def differences(before: Report, after: Report) -> list[str]:
    """What else differs: the scope of the verdicts, and verdicts on observables."""
    one, two = before.sections["scope"], after.sections["scope"]
    found = [
        (words, _short(one.get(key)), _short(two.get(key)))
        for key, words in SCOPE.items()
        if not _alike(one.get(key), two.get(key))
    ]
    first, second = (_observed(report) for report in (before, after))
    found += [
        (name, first.get(name, "–"), second.get(name, "–"))
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name)
    ]
    lines = [f"  {words}: {left} → {right}" for words, left, right in found]
    if not set(before.terms) & set(after.terms):
        lines.append("  No term is in both reports: these are two different studies.")
    return ["", "Else:", *lines] if lines else []


def _alike(a: object, b: object) -> bool:
    numbers = [value for value in (a, b) if isinstance(value, float | int)]
    return equal(*map(float, numbers)) if len(numbers) == 2 else a == b


def _short(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else "–" if value is None else str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _observed(report: Report) -> dict[str, str]:
    """The verdict of each term on each observable."""
    part = report.sections["observables"]
    return {
        f"{name}, {term}": str(each.get("decision"))
        for name, found in part.items()
        if name != "skipped"
        for term, each in found.get("terms", {}).items()
    }
