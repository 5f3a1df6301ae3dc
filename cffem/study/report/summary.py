# SPDX-License-Identifier: MIT
"""A report in three plain sentences: what was decided, what could not be decided and why, and
what to do next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cffem.symbols.reasons import Code

if TYPE_CHECKING:
    from cffem.study.report.interventions.intervention_report import InterventionReport
    from cffem.study.report.report import Report, TermReport

LONGEST = 60  # characters of a name that are shown
MOST_PAIRS = 6  # of which a summary tells
LONGEST_REASON = 160  # and of a reason; the table has it in full
FIRST_REASONS = 2  # of a fit that is not trusted, so that verdicts stay on the first screen


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
        >>> from cffem.study.report.report import SECTIONS, Report, TermReport
        >>> lap = TermReport(
        ...     "lap",
        ...     "",
        ...     1.0,
        ...     deletion=0.3,
        ...     margin=0.01,
        ...     epsilon=0.1,
        ...     certificate="guaranteed",
        ...     decision="relevant",
        ... )
        >>> print(
        ...     sentences(
        ...         Report({"lap": lap}, {name: {"skipped": "an example"} for name in SECTIONS})
        ...     )[0]
        ... )
        Decided: lap is relevant (deleting it changes the solution by more than ε = 0.1), with a
            guaranteed error bar.
    """
    return decided(report), undecided(report), next_step(report)


def screen_sentence(report: Report) -> str:
    """Whether the fitted coefficients can be believed; empty where they were given.

    Example:
        >>> from cffem.study.report.report import SECTIONS, Report
        >>> sections = {name: {"skipped": "an example"} for name in SECTIONS}
        >>> screened = {"reliable": False, "reasons": ["unstable"], "skill": {"skill": 0.2}}
        >>> print(screen_sentence(Report({}, {**sections, "screening": screened})))
        NOT RELIABLE: the screen does not trust its own fit (unstable); skill on left-out rows 0.20;
            the verdicts are about the ...
    """
    section = report.sections["screening"]
    if "reliable" in report.sections["calibration"]:
        return fit_sentence(report.sections["calibration"])
    if "reliable" not in section:
        return ""
    screens = (section.get("equations") or {"": section}).items()
    doubtful = [(label, found) for label, found in screens if not found.get("reliable")]
    skills = [(found.get("skill") or {}).get("skill") for _, found in screens]
    told = ", ".join(f"{value:.2f}" for value in skills if value is not None)
    skill = f"skill on left-out rows {told}" if told else "no skill was measured"
    if not doubtful:
        return f"Screen: reliable; {hidden_terms([f for _, f in screens])}{skill}."
    many = len(screens) > 1
    reasons = dict.fromkeys(
        f"{label + ': ' if many else ''}{plain(str(reason), LONGEST_REASON)}"
        for label, found in doubtful
        for reason in found.get("reasons", ())
    )
    why = "; ".join(first_ones(list(reasons))) or "no reason is stated"
    return (
        f"NOT RELIABLE: the screen does not trust its own fit ({why}); {skill}; the verdicts are "
        "about the fitted model and say "
        "nothing about the law behind the data."
    )


def first_ones(reasons: Sequence[str]) -> list[str]:
    """The first reasons, and how many more there are: the part on the fit has them all.

    Example:
        >>> first_ones(["unstable", "misfit", "undetected"])
        ['unstable', 'misfit', '1 more']
    """
    more = len(reasons) - FIRST_REASONS
    return [*reasons[:FIRST_REASONS], *([f"{more} more"] if more > 0 else [])]


def hidden_terms(screens: Sequence[Mapping[str, Any]]) -> str:
    """How much of the anchor a term that was not found could carry; empty where nothing was left
    out.
    """
    shares = [
        found["hidden_share"]
        for found in screens
        if found.get("hidden_share") and set(found.get("limits") or ()) - set(found["support"])
    ]
    if not shares:
        return ""
    return (
        f"its support may lack terms that carry up to {100 * max(shares):.2g} % of the anchor, "
        "within their limits; "
    )


def fit_sentence(fit: Mapping[str, Any]) -> str:
    """Whether coefficients that were calibrated on readings can be believed.

    Example:
        >>> fit_sentence({"reliable": True, "chi2": 98.2, "readings": 100, "reasons": []})
        'Fit: calibrated on 100 readings, χ² = 98.2; reliable.'
    """
    known = f"calibrated on {fit.get('readings')} readings, χ² = {fit.get('chi2') or 0.0:.4g}"
    if fit.get("reliable"):
        return f"Fit: {known}; reliable."
    reasons = [plain(str(reason), LONGEST_REASON) for reason in fit.get("reasons") or ()]
    why = "; ".join(first_ones(reasons)) or "no reason"
    return (
        f"NOT RELIABLE: the fit, {known}, is not trusted ({why}); "
        "the verdicts are about the fitted model."
    )


def sensor_sentence(report: Report) -> str:
    """What sensors say of the terms; empty where there are none.

    Example:
        >>> from cffem.study.report.report import SECTIONS, Report
        >>> sections = {name: {"skipped": "an example"} for name in SECTIONS}
        >>> print(sensor_sentence(Report({}, {**sections, "sets": {
        ...     "needed": ["lap"], "visible_not_needed": [], "not_visible": ["u_x"]}})))
        Sensors: lap is needed by the data; u_x is not visible.
    """
    sets, parts = report.sections["sets"], []
    for key, words in (
        ("needed", "needed by the data"),
        ("visible_not_needed", "visible but not needed"),
        ("not_visible", "not visible"),
    ):
        names = sets.get(key) or []
        if names:
            parts.append(f"{joined(names)} {'is' if len(names) == 1 else 'are'} {words}")
    return f"Sensors: {'; '.join(parts)}." if parts else ""


def notice(report: Report) -> str:
    """What one must know about the solutions behind the verdicts; empty where there is nothing.

    Example:
        >>> from cffem.study.report.report import SECTIONS, Report
        >>> sections = {name: {"skipped": "an example"} for name in SECTIONS}
        >>> print(
        ...     notice(
        ...         Report(
        ...             {}, {**sections, "cost": {"notices": ["the factual solution is unstable"]}}
        ...         )
        ...     )
        ... )
        Note: the factual solution is unstable.
    """
    told = report.sections["cost"].get("notices") or ()
    return f"Note: {'; '.join(plain(str(text)) for text in told)}." if told else ""


def interventions_sentence(report: Report) -> str:
    """Which named interventions matter, and how the terms of pairs act together; empty without any.

    Example:
        >>> from cffem.study.report.report import SECTIONS, Report
        >>> sections = {name: {"skipped": "an example"} for name in SECTIONS}
        >>> half = {"name": "half", "intervention": "", "decision": "relevant"}
        >>> print(interventions_sentence(Report({}, {**sections, "interventions": {"half": half}})))
        Interventions: half is relevant.
    """
    found = report.interventions.values()
    named = [each for each in found if not each.pair]
    parts = []
    for decision in ("relevant", "irrelevant", "unresolved", "unsolvable"):
        mine = [each.name for each in named if each.decision == decision]
        if mine:
            parts.append(f"{joined(mine)} {'is' if len(mine) == 1 else 'are'} {decision}")
    pairs = [each for each in found if each.pair]
    acting = [f"{plain(each.name)}: {plain(each.sentence)}" for each in pairs if each.sentence]
    if pairs and not acting:
        parts.append(f"of {len(pairs)} pairs of terms none is redundant, cancels or acts together")
    parts += acting[:MOST_PAIRS]
    if len(acting) > MOST_PAIRS:
        parts.append(f"and {len(acting) - MOST_PAIRS} more pairs")
    return f"Interventions: {'; '.join(parts)}." if parts else ""


def places_sentence(report: Report) -> str:
    """Which changes matter only in a small part of the domain or the window; empty without any.

    Example:
        >>> from cffem.study.report.report import SECTIONS, Report
        >>> sections = {name: {"skipped": "an example"} for name in SECTIONS}
        >>> places_sentence(Report({}, sections))
        ''
    """
    told = [
        f"{plain(name)}: {plain(found.sentence)[:1].lower()}{plain(found.sentence)[1:].rstrip('.')}"
        for name, found in report.maps.items()
        if found.sentence.startswith("It matters")
    ]
    more = f"; and {len(told) - MOST_PAIRS} more" if len(told) > MOST_PAIRS else ""
    return f"Where: {'; '.join(told[:MOST_PAIRS])}{more}." if told else ""


def by_field(term: TermReport | InterventionReport) -> str:
    """For which fields a term matters, in brackets; nothing where there is one field.

    Example:
        >>> from cffem.study.report.report import TermReport
        >>> by_field(
        ...     TermReport(
        ...         "thermal",
        ...         "",
        ...         1.0,
        ...         decision="relevant",
        ...         fields={"u": "relevant", "T": "irrelevant"},
        ...     )
        ... )
        ' (u: relevant, T: irrelevant)'
    """
    return (
        f" ({', '.join(f'{plain(name)}: {decision}' for name, decision in term.fields.items())})"
        if term.fields
        else ""
    )


def decided(report: Report) -> str:
    """The terms with a verdict and what it says."""
    found = [term for term in report.terms.values() if term.decision in ("relevant", "irrelevant")]
    if not found:
        return "Decided: nothing; no term has an error bar that keeps clear of ε."
    parts = []
    for decision, change in (("relevant", "more"), ("irrelevant", "less")):
        mine = [term for term in found if term.decision == decision and term.share is None]
        if mine:
            which = "it" if len(mine) == 1 else "any of them alone"
            effect = (
                f"deleting {which} changes the solution by {change} than {tolerance(report, mine)}"
            )
            parts.append(
                f"{joined(t.name for t in mine)} {'is' if len(mine) == 1 else 'are'} {decision} "
                f"({effect})"
            )
    for term in (term for term in found if term.share is not None):
        parts.append(f"{joined([term.name])} is {term.decision} ({plain(term.reason)})")
    kinds = sorted({str(term.certificate) for term in found})
    bars = (
        f"a {kinds[0]} error bar".replace("a e", "an e")
        if len(found) == 1
        else f"{' or '.join(reversed(kinds))} error bars"
    )
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
    return (
        "Not decided: "
        f"{'; '.join(f'{joined(names)} ({reason})' for reason, names in reasons.items())}."
    )


def why(term: TermReport) -> str:
    """Why a term has no verdict, without a full stop."""
    if term.decision == "constraint_null":
        return (
            "vanishes on the constraint class, so that no data of this class tell its coefficient"
        )
    if term.decision == "unsolvable":
        return f"the problem without it was not solved: {plain(term.reason, LONGEST_REASON)}"
    return plain(term.reason, LONGEST_REASON).rstrip(".") or "no reason is stated"


def next_step(report: Report) -> str:
    """What would decide more; the experiment that the design asks for comes first."""
    steps = []
    proposal = report.sections["design"].get("next")
    sensor = report.sections["identifiability"].get("next")
    for found in (sensor, proposal):
        if isinstance(found, Mapping) and found.get("sentence"):
            sentence = plain(str(found["sentence"])).rstrip(".")
            steps.append(sentence[:1].lower() + sentence[1:])
    open_terms: dict[str, list[TermReport]] = {}
    for term in report.terms.values():
        if term.decision in ("unresolved", "unsolvable"):
            open_terms.setdefault(code_of(report, term), []).append(term)
    for code, advice in ADVICE.items():
        if code in open_terms and not (code == Code.ALIASED and steps):
            steps.append(advice(report, open_terms[code]))
    misfit = missing_terms(report.sections["screening"])
    if misfit:
        steps.append(misfit)
    if steps:
        return f"Next: {'; '.join(steps)}."
    if open_terms:
        return "Next: what is missing for the other terms is said above."
    return (
        "Next: nothing is needed for these verdicts; they hold for the scope below and say "
        "nothing beyond it."
    )


def code_of(report: Report, term: TermReport) -> str:
    """What keeps a term from its verdict; reports of earlier versions say it by their numbers
    only.
    """
    if term.code:
        return term.code
    if term.decision == "unsolvable":
        return Code.UNSOLVABLE
    if term.deletion is None:
        return Code.UNSELECTED if term.selected is not None else Code.ZERO_COEFFICIENT
    gap = closeness(report, term)
    if gap is None or term.margin is None:
        return Code.NO_THEOREM
    return Code.MARGIN_DISCRETISATION if gap <= term.margin else Code.ALIASED


# Advice
# --------------------------------------------------------------------------------------------------


def refine(report: Report, terms: Sequence[TermReport]) -> str:
    """The discretisation makes the error bar."""
    hardest = min(terms, key=lambda term: closeness(report, term) or 0.0)
    gap = closeness(report, hardest) or 0.0
    return (
        f"refine {discretisation(report)} for {joined(t.name for t in terms)}: the margin of "
        f"{plain(hardest.name)} is "
        f"{hardest.margin:.2g} and must fall below |δ − ε| = {gap:.2g}"
    )


def narrow(report: Report, terms: Sequence[TermReport]) -> str:
    """The intervals of the coefficients make the error bar."""
    return (
        f"take more data, or data with less noise, for {joined(t.name for t in terms)}: the "
        "intervals of the coefficients make "
        "the error bar, and a finer mesh would not change that"
    )


def start_finer(report: Report, terms: Sequence[TermReport]) -> str:
    """The levels of an estimate do not saturate."""
    finer = (
        discretisation(report)
        .replace("mesh", "a finer mesh")
        .replace("time steps", "smaller time steps")
    )
    return (
        f"start from {finer} for {joined(t.name for t in terms)}, for which these give no error bar"
    )


def spend(report: Report, terms: Sequence[TermReport]) -> str:
    """The levels of an estimate are too large."""
    return (
        f"give certification more effort or a larger budget for {joined(t.name for t in terms)}: "
        "what is needed is said above"
    )


def find_bar(report: Report, terms: Sequence[TermReport]) -> str:
    """No theorem applies."""
    return f"find an error bar for {joined(t.name for t in terms)}: what is missing is said above"


def look_closer(report: Report, terms: Sequence[TermReport]) -> str:
    """The data do not show whether the terms are there."""
    names = joined(t.name for t in terms)
    return f"take more data, data with less noise, or rougher fields, to learn about {names}"


def separate(report: Report, terms: Sequence[TermReport]) -> str:
    """The data identify combinations only."""
    return f"add an experiment with other fields, which tells {joined(t.name for t in terms)} apart"


def give_coefficient(report: Report, terms: Sequence[TermReport]) -> str:
    """Terms with coefficient zero."""
    return f"give {joined(t.name for t in terms)} a coefficient to have it deleted"


def mend_model(report: Report, terms: Sequence[TermReport]) -> str:
    """The fitted model has no solution to delete from."""
    return (
        "mend the fitted model, which was not solved: look at the signs of its coefficients, at "
        "what the screen says against it, "
        "and at the terms that the library lacks"
    )


def mend_deletion(report: Report, terms: Sequence[TermReport]) -> str:
    """Deleted problems without a solution."""
    return (
        f"delete a part of {joined(t.name for t in terms)} only (cf.scale): without the whole of "
        "it the problem was not solved"
    )


def look_at_profile(report: Report, terms: Sequence[TermReport]) -> str:
    """Deletions of which only a part has a solution."""
    names, finer = joined(t.name for t in terms), discretisation(report)
    return f"look at the profile of {names}; a finer {finer} or a smaller ε may decide it in part"


def give_tolerance(report: Report, terms: Sequence[TermReport]) -> str:
    """A field that vanishes has no relative tolerance."""
    return (
        f"give an absolute ε (relative=False) for {joined(t.name for t in terms)}: a field "
        "vanishes in the factual solution"
    )


ADVICE: dict[str, Callable[[Report, Sequence[TermReport]], str]] = {
    Code.MODEL_BACKWARD: mend_model,
    Code.MODEL_UNSOLVED: mend_model,
    Code.MODEL_GROWS: mend_model,
    Code.ALIASED: separate,
    Code.MARGIN_DISCRETISATION: refine,
    Code.MARGIN_COEFFICIENTS: narrow,
    Code.NOT_SATURATED: start_finer,
    Code.OVER_BUDGET: spend,
    Code.NO_THEOREM: find_bar,
    Code.DETECTION_LIMIT: look_closer,
    Code.UNSELECTED: look_closer,
    Code.ZERO_COEFFICIENT: give_coefficient,
    Code.UNSOLVABLE: mend_deletion,
    Code.PARTIAL: look_at_profile,
    Code.FIELD_VANISHES: give_tolerance,
}


def discretisation(report: Report) -> str:
    """What there is to refine: a steady problem has no time steps."""
    scope = report.sections["scope"]
    experiments = (scope.get("experiments") or {"": scope.get("experiment") or {}}).values()
    steady = bool(experiments) and all(e.get("window", ()) is None for e in experiments)
    return "mesh" if steady else "mesh and time steps"


def closeness(report: Report, term: TermReport) -> float | None:
    """|δ − ε| of a term that has a margin."""
    epsilon = term_epsilon(report, term)
    return None if None in (term.deletion, term.margin, epsilon) else abs(term.deletion - epsilon)  # type: ignore[operator]


def missing_terms(screening: Mapping[str, Any]) -> str:
    """A hint where the fitted model does not reproduce the data."""
    found = screening.get("misfit")
    wrong = (
        [
            name
            for name, fact in found.items()
            if isinstance(fact, Mapping) and fact.get("missing_terms")
        ]
        if isinstance(found, Mapping)
        else []
    )
    return (
        f"add terms to the library: the fitted model does not reproduce the data of {joined(wrong)}"
        if wrong
        else ""
    )


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


def as_cell(value: Any) -> Any:
    """A value in a table: text that a spreadsheet would run as a formula gets an apostrophe in
    front.

    Example:
        >>> as_cell("=HYPERLINK(1)"), as_cell("u_x"), as_cell(-1.5), as_cell(None)
        ("'=HYPERLINK(1)", 'u_x', -1.5, '')
    """
    if not isinstance(value, str):
        return "" if value is None else value
    clean = plain(value)
    return f"'{clean}" if clean.lstrip()[:1] in tuple("=+-−@") else clean
