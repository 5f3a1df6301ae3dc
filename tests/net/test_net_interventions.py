"""Groups of terms and scalings of random problems: scores agree with plain separate solves by hand
to 1e-9, in any strategy that is asked for all digits.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import ufl
from net_compare import ROUNDING, SINGULAR, TOLERANCE
from net_materials import MaterialFamily, MaterialReference, drawn_material
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


# In a part
# --------------------------------------------------------------------------------------------------

PARTS = {MaterialFamily("interval", ("Lagrange", 2), "scalar", 3): 4}
MORE_PARTS = [
    MaterialFamily("triangle", ("Lagrange", 1), "scalar"),
    MaterialFamily("triangle", ("Lagrange", 1), "vector"),
    MaterialFamily("quadrilateral", ("Lagrange", 2), "scalar"),
    MaterialFamily("tetrahedron", ("N1curl", 1), "curl", 1),
]
# Terms without traces, which by hand are integrals over cells only.
WITHIN = (
    "k u",
    "k source",
    "drift",
    "entry",
    "growing",
    "k square",
    "damping",
    "reaction",
    "k v",
    "T v",
    "w",
    "friction",
    "carried",
)


def in_air(term):
    """The same term by hand, integrated over the air only."""

    def by_hand(h):
        part = copy.copy(h)
        part.dx = ufl.Measure("dx", domain=h.domain.mesh, subdomain_data=h.domain.cell_tags)(2)
        return term.by_hand(part)

    return replace(term, by_hand=by_hand)


def compared_in_a_part(problem):
    """A term that is deleted in the glass: what differs, and whether anything was compared."""
    inside = [term for term, _ in problem.terms if term.name in WITHIN]
    if not inside:
        return [], 0
    domain, chosen = problem.mesh(), inside[0]
    reference = MaterialReference(problem, domain)
    terms = tuple((in_air(term) if term is chosen else term, c) for term, c in problem.terms)
    other = MaterialReference(replace(problem, terms=terms, deleted=None), domain)
    try:
        model = declared(problem, domain, reference.force, reference.hand.flux, reference.hand)
        found = model.interventions({"part": cf.delete(chosen.name, on="glass")})["part"]
    except (cf.InputError, cf.SolveError):
        return [], 0
    with np.errstate(all="ignore"):
        try:
            (states, _), (others, _) = reference.solve(), other.solve()
        except (ArithmeticError, np.linalg.LinAlgError):
            return [], 0
    model.destroy()
    condition = max(reference.condition, other.condition)
    if found.status == "unsolvable":
        fails = condition < SINGULAR and found.cause not in ("fold", "backward")
        return [f"{problem}: {found.reason}"] if fails else [], 0
    size = reference.score(states, [0 * s for s in states])
    expected = reference.score(states, others)
    loss = max(TOLERANCE, ROUNDING * condition)
    if abs(found.score - expected) > loss * max(size, expected, 1e-12):
        return [f"{problem}, {chosen.name}: {found.score}, by hand {expected}"], 1
    return [], 1


def check_parts(family, seeds):
    found = [compared_in_a_part(drawn_material(family, seed)) for seed in seeds]
    wrong = [text for texts, _ in found for text in texts]
    assert not wrong, "\n".join(wrong)
    assert sum(count for _, count in found) >= len(seeds) / 3


@pytest.mark.parametrize("family", PARTS, ids=str)
def test_deletions_in_a_part_agree_with_integrals_over_the_rest_by_hand(family):
    check_parts(family, range(PARTS[family]))


@pytest.mark.slow
@pytest.mark.parametrize("family", [*PARTS, *MORE_PARTS], ids=str)
def test_many_deletions_in_a_part_agree_with_integrals_over_the_rest_by_hand(family):
    check_parts(family, range(1000, 1030))
