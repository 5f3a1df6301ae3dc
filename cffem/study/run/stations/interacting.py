# SPDX-License-Identifier: MIT
"""Station: what two terms are to each other, from their single deletions and their joint one.

With scores δ_a, δ_b, δ_ab and error bars η in one norm and experiment:

    redundant      a and b are irrelevant, both together are relevant
    synergy        δ_ab − δ_a − δ_b > η_ab + η_a + η_b, and both together are relevant
    compensation   δ_ab + η_ab < max(δ_a − η_a, δ_b − η_b), and a or b is relevant

The first is about verdicts, and holds for a study if its verdicts are such; the others hold if they
do for one field in one experiment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cffem.study.report.interventions.intervention_report import COMPENSATION, REDUNDANT, SYNERGY
from cffem.study.run.stations.deciding import Verdict
from cffem.verdicts.decisions import IRRELEVANT, RELEVANT


@dataclass(frozen=True)
class Interaction:
    """How two terms act together.

    Attributes:
        relations: what holds of the above.
        value, margin: δ_ab − δ_a − δ_b with its error bar, where it is clearest; None without
            error bars.
        sentence: the relations in words.
    """

    relations: tuple[str, ...] = ()
    value: float | None = None
    margin: float | None = None
    sentence: str = ""


def interaction(
    names: tuple[str, str],
    decisions: tuple[str, str, str],
    singles: Sequence[tuple[Verdict, Verdict, Verdict]],
) -> Interaction:
    """What two terms are to each other.

    Args:
        names: the terms.
        decisions: the study's verdicts on one, the other, and both.
        singles: the same in each experiment and field.

    Example:
        >>> from cffem.study.run.stations.deciding import Verdict
        >>> decided = ("irrelevant", "irrelevant", "relevant")
        >>> def known(score, decision):
        ...     more = (None, 0.01, 0.01, "estimated", "", decision, "")
        ...     return Verdict("", "e", "deletion", 0.1, score, 0.01, *more)
        >>> found = [tuple(map(known, (0.05, 0.06, 0.5), decided))]
        >>> print(interaction(("a", "b"), decided, found).sentence)
        neither a nor b matters alone, but both together do; both together do more than the sum of
            what each does alone
    """
    relations: list[str] = []
    if decisions[0] == decisions[1] == IRRELEVANT and decisions[2] == RELEVANT:
        relations.append(REDUNDANT)
    best: tuple[float, float, float] | None = None
    for verdicts in singles:
        numbers = [(v.score, v.margin) for v in verdicts]
        known = [(s, m) for s, m in numbers if s is not None and m is not None]
        if len(known) < 3:
            continue
        (a, eta_a), (b, eta_b), (both, eta) = known
        value, margin = both - a - b, eta + eta_a + eta_b
        size = verdicts[0].epsilon or 1.0
        clear = (abs(value) - margin) / size
        if best is None or clear > best[0]:
            best = (clear, value, margin)
        first_or_second = RELEVANT in (verdicts[0].decision, verdicts[1].decision)
        holds = {
            SYNERGY: value > margin and verdicts[2].decision == RELEVANT,
            COMPENSATION: both + eta < max(a - eta_a, b - eta_b) and first_or_second,
        }
        relations += [each for each, so in holds.items() if so and each not in relations]
    first, second = names
    words = {
        REDUNDANT: f"neither {first} nor {second} matters alone, but both together do",
        SYNERGY: "both together do more than the sum of what each does alone",
        COMPENSATION: "both together do less than one of them alone, so they cancel in part",
    }
    if COMPENSATION in relations and decisions[2] == IRRELEVANT:
        words[COMPENSATION] = (
            f"{first} and {second} cancel: one of them alone matters more than both together, "
            "which do not matter"
        )
    told = "; ".join(words[relation] for relation in relations)
    if best is None:
        return Interaction(tuple(relations), sentence=told)
    return Interaction(tuple(relations), best[1], best[2], told)
