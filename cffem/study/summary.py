# SPDX-License-Identifier: MIT
"""A report in three plain sentences: what was decided, what could not be decided and why, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cffem.study.report import Report, TermReport

LONGEST = 60  # characters of a name that are shown
LONGEST_REASON = 160  # and of a reason; the table has it in full


def up_to_one(value: float, shown: str) -> str:
    """A number between 0 and 1 as it is shown, but not as 1 where it is only near to it.

    Example:
        >>> up_to_one(0.98765, "0.99"), up_to_one(1 - 1.7e-7, "1.00"), up_to_one(1.0, "1.00")
        ('0.99', '1 − 1.7e-07', '1.00')
    """
    rest = 1.0 - value
    # What differs by rounding errors only is 1.
    return f"1 − {rest:.1e}" if float(shown) == 1.0 and rest > 1e-14 else shown


def sentences(report: Report) -> tuple[str, str, str]:
    """What was decided, what could not be, and what to do next.

    Example:
        >>> from cffem.study.report import SECTIONS, Report, TermReport
        >>> lap = TermReport("lap", "", 1.0, deletion=0.3, margin=0.01, epsilon=0.1, certificate="guaranteed", decision="relevant")
        >>> print(sentences(Report({"lap": lap}, {name: {"skipped": "an example"} for name in SECTIONS}))[0])
        Decided: lap is relevant (deleting it changes the solution by more than ε = 0.1), with a guaranteed error bar.
    """
    return decided(report), undecided(report), next_step(report)


def decided(report: Report) -> str:
    """The terms with a verdict and what it says."""
    found = [term for term in report.terms.values() if term.decision in ("relevant", "irrelevant")]
    if not found:
        return "Decided: nothing; no term has an error bar that keeps clear of ε."
    parts = []
    for decision, change in (("relevant", "more"), ("irrelevant", "less")):
        mine = [term for term in found if term.decision == decision]
        if mine:
            which = "it" if len(mine) == 1 else "any of them alone"
            effect = f"deleting {which} changes the solution by {change} than {tolerance(report, mine)}"
            parts.append(f"{joined(t.name for t in mine)} {'is' if len(mine) == 1 else 'are'} {decision} ({effect})")
    kinds = sorted({str(term.certificate) for term in found})
    bars = f"a {kinds[0]} error bar".replace("a e", "an e") if len(found) == 1 else f"{' or '.join(reversed(kinds))} error bars"
    return f"Decided: {'; '.join(parts)}, with {bars}."


def tolerance(report: Report, terms: Sequence[TermReport]) -> str:
    """ε of some terms, as a number where it is one."""
    values = {term_epsilon(report, term) for term in terms}
    (value,) = values if len(values) == 1 else (None,)
    return "its ε" if value is None else f"ε = {value:.3g}"


def term_epsilon(report: Report, term: TermReport) -> float | None:
    """The tolerance of a term's verdict."""
    return term.epsilon if term.epsilon is not None else report.sections["scope"].get("epsilon")


def undecided(report: Report) -> str:
    """The terms without a verdict, grouped by reason."""
    reasons: dict[str, list[str]] = {}
    for term in report.terms.values():
        if term.decision not in ("relevant", "irrelevant"):
            reasons.setdefault(why(term), []).append(term.name)
    if not reasons:
        return "Not decided: nothing; every term of the library has its verdict."
    return f"Not decided: {'; '.join(f'{joined(names)} ({reason})' for reason, names in reasons.items())}."


def why(term: TermReport) -> str:
    """Why a term has no verdict, without a full stop."""
    if term.decision == "constraint_null":
        return "vanishes on the constraint class, so that no data of this class tell its coefficient"
    if term.decision == "unsolvable":
        return f"the problem without it was not solved: {plain(term.reason, LONGEST_REASON)}"
    return plain(term.reason, LONGEST_REASON).rstrip(".") or "no reason is stated"


def next_step(report: Report) -> str:
    """What would decide more; the experiment that the design asks for comes first."""
    steps = []
    proposal = report.sections["design"].get("next")
    if isinstance(proposal, Mapping) and proposal.get("sentence"):
        sentence = plain(str(proposal["sentence"])).rstrip(".")
        steps.append(sentence[:1].lower() + sentence[1:])
    wide = [term for term in report.terms.values() if term.decision == "unresolved" and too_wide(report, term)]
    if wide:
        hardest = min(wide, key=lambda term: closeness(report, term) or 0.0)
        gap = closeness(report, hardest)
        steps.append(
            f"refine mesh and time steps for {joined(t.name for t in wide)}: the margin of {plain(hardest.name)} is "
            f"{hardest.margin:.2g} and must fall below |δ − ε| = {gap:.2g}"
        )
    bare = [t for t in report.terms.values() if t.decision == "unresolved" and t.deletion is not None and t.margin is None]
    # Levels whose gaps do not shrink yet say so by their saturation σ, which a finer start may cure.
    coarse = [t for t in bare if "σ is" in t.reason]
    if coarse:
        names = joined(t.name for t in coarse)
        steps.append(f"start from a finer mesh and smaller time steps for {names}, for which these give no error bar")
    if len(coarse) < len(bare):
        others = joined(t.name for t in bare if t not in coarse)
        steps.append(f"find an error bar for {others}: what is missing is said above")
    misfit = missing_terms(report.sections["screening"])
    if misfit:
        steps.append(misfit)
    if not steps:
        return "Next: nothing is needed for these verdicts; they hold for the scope below and say nothing beyond it."
    return f"Next: {'; '.join(steps)}."


def closeness(report: Report, term: TermReport) -> float | None:
    """|δ − ε| of a term that has a margin."""
    epsilon = term_epsilon(report, term)
    return None if None in (term.deletion, term.margin, epsilon) else abs(term.deletion - epsilon)  # type: ignore[operator]


def too_wide(report: Report, term: TermReport) -> bool:
    """Whether it is the error bar that keeps a term from a verdict."""
    gap = closeness(report, term)
    return gap is not None and term.margin is not None and gap <= term.margin


def missing_terms(screening: Mapping[str, Any]) -> str:
    """A hint where the fitted model does not reproduce the data."""
    found = screening.get("misfit")
    wrong = (
        [name for name, fact in found.items() if isinstance(fact, Mapping) and fact.get("missing_terms")]
        if isinstance(found, Mapping)
        else []
    )
    return f"add terms to the library: the fitted model does not reproduce the data of {joined(wrong)}" if wrong else ""


def joined(names: Iterable[str]) -> str:
    """Names as a list in a sentence."""
    shown = [plain(name, LONGEST) for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def plain(text: str, longest: int | None = None) -> str:
    """Text on one line without control characters, shortened if a length is given.

    Example:
        >>> plain("a" + chr(27) + "[31m" + chr(10) + "b", 6)
        'a�[31…'
    """
    shown = "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in str(text))
    return shown if longest is None or len(shown) <= longest else shown[: longest - 1] + "…"
