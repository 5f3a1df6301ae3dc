"""Groups of terms and scalings of random problems: scores agree with plain separate solves by hand
to 1e-9, in any strategy that is asked for all digits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("dolfinx")

from net_compare import ROUNDING, SINGULAR, TOLERANCE
from net_problems import Family, declared, drawn
from net_reference import Reference

import cffem as cf

FAMILIES = {
    Family("interval", ("Lagrange", 2), "scalar", 3): 10,
    Family("triangle", ("Lagrange", 1), "scalar"): 10,
    Family("quadrilateral", ("Lagrange", 2), "scalar"): 6,
    Family("triangle", ("Lagrange", 2), "vector"): 6,
}


def changed(problem, factors):
    """The same problem with some coefficients multiplied."""
    terms = tuple((term, c * factors.get(term.name, 1.0)) for term, c in problem.terms)
    return replace(problem, terms=terms, deleted=None)


def asked_of(problem):
    """A scaling, a negligible one, and the joint deletion of two terms that do not lead."""
    names = [term.name for term, _ in problem.terms]
    found = {"scaled": {names[-1]: 0.5}, "both scaled": dict.fromkeys(names, 1.25)}
    others = [term.name for term, _ in problem.terms if not term.leading]
    if len(others) >= 2:
        found["group"] = dict.fromkeys(others[:2], 0.0)
    return found


def intervention(factors):
    gone = [name for name, factor in factors.items() if factor == 0]
    change = cf.delete(*gone, conditions="kept") if gone else cf.Intervention()
    for name, factor in factors.items():
        change = change & cf.scale(name, factor) if factor else change
    return change


def compared(problem):
    """Each intervention of one problem: what differs, or None where cffem refuses."""
    domain = problem.mesh()
    reference = Reference(problem, domain)
    asked = asked_of(problem)
    changes = {name: intervention(factors) for name, factors in asked.items()}
    try:
        model = declared(problem, domain, reference.force, reference.hand.flux, reference.hand)
        found = model.interventions(changes)
    except (cf.InputError, cf.SolveError):
        return None
    wrong, agreed = [], 0
    with np.errstate(all="ignore"):
        states, _ = reference.solve()
        size = reference.score(states, [0 * s for s in states])
        for name, factors in asked.items():
            other = Reference(changed(problem, factors), domain)
            try:
                others, _ = other.solve()
            except (ArithmeticError, np.linalg.LinAlgError):
                continue
            score, condition = found[name].score, max(reference.condition, other.condition)
            if found[name].status == "unsolvable":
                if condition < SINGULAR and found[name].cause not in ("fold", "backward"):
                    wrong.append(f"{problem}, {name}: {found[name].reason}")
                continue
            expected = reference.score(states, others)
            loss = max(TOLERANCE, ROUNDING * condition)
            if abs(score - expected) > loss * max(size, expected, 1e-12):
                wrong.append(f"{problem}, {name}: {score}, by hand {expected}")
            agreed += 1
    model.destroy()
    return wrong, agreed


def check(family, seeds):
    wrong, agreed = [], 0
    for seed in seeds:
        result = compared(drawn(family, seed))
        if result is not None:
            wrong += result[0]
            agreed += result[1]
    assert not wrong, "\n".join(wrong)
    assert agreed >= len(seeds) / 2


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_groups_and_scalings_agree_with_separate_solves_by_hand(family):
    check(family, range(FAMILIES[family]))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_many_groups_and_scalings_agree_with_separate_solves_by_hand(family):
    check(family, range(1000, 1040))
