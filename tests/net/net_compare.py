"""cffem against the reference: residuals, operators, solutions and scores, or a refusal in
words.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from net_coupled import CoupledReference
from net_coupled_problems import coupled
from net_materials import MaterialFamily, MaterialProblem, MaterialReference, drawn_material
from net_problems import Problem, declared, drawn
from net_reference import Reference

import cffem as cf
from cffem.engine.solve.solve_record import SolveRecord
from cffem.symbols.problem.interventions import Intervention

TOLERANCE = 1e-9
# Digits that a solve of a badly conditioned problem may lose.
ROUNDING = 1e-14
SINGULAR = 1e12


@dataclass
class Findings:
    """What became of some problems.

    Attributes:
        agreed: how many agree with the reference.
        refused: how many cffem refused, by reason.
        wrong: what differs, in words.
    """

    agreed: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def reason_of(error: Exception) -> str:
    """A refusal without what is particular to one problem."""
    text, before = str(error), ""
    while text != before:
        text, before = re.sub(r"\([^()]*\)|\[[^\[\]]*\]|'[^']*'", "", text), text
    text = re.sub(r"-?\d[\d.e+-]*", "…", text)
    return f"{type(error).__name__}: {' '.join(text.split()[:12])}"


def compare(problem: Problem, findings: Findings) -> None:
    """Solve a problem both ways and note what is found."""
    domain = problem.mesh()
    kind = MaterialReference if isinstance(problem, MaterialProblem) else Reference
    reference = kind(problem, domain)
    try:
        model = declared(problem, domain, reference.force, reference.hand.flux, reference.hand)
        solution = model.solve()
        deleted = model.deletions([problem.deleted]) if problem.deleted else None
    except (cf.InputError, cf.SolveError) as error:
        findings.refused[reason_of(error)] += 1
        return
    except Exception as error:
        findings.wrong.append(f"{problem}: {type(error).__name__}: {error}")
        return
    try:
        with np.errstate(all="ignore"):
            wrong = differences(problem, reference, model, solution, deleted)
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        wrong = [f"solved by cffem, but by hand: {error}"]
    finally:
        model.destroy()
    if wrong:
        findings.wrong.append(f"{problem}: {'; '.join(wrong)}")
    else:
        findings.agreed += 1


def compare_coupled(kind: str, seed: int, findings: Findings) -> None:
    """Solve a problem with several unknowns both ways and note what is found."""
    problem, domain = coupled(kind, seed)
    reference = CoupledReference(problem, domain)
    try:
        model = problem.model(domain)
        solution = model.solve()
    except (cf.InputError, cf.SolveError) as error:
        findings.refused[reason_of(error)] += 1
        return
    except Exception as error:
        findings.wrong.append(f"{problem}: {type(error).__name__}: {error}")
        return
    order = np.zeros(reference.size, dtype=int)
    for unknown in reference.fields:
        # Multipliers and auxiliary fields are cffem's own; they are known by their names.
        (named,) = (f for f in model.spaces.fields if f.name == unknown.name)
        order[reference.where[unknown]] = same_unknowns(reference.own[unknown], model, named)
    wrong = forms_differ(reference, model, order)
    states, _ = reference.solve()
    # What multipliers and auxiliary fields are at the start is nobody's business.
    asked = np.concatenate([reference.where[f] for f in problem.anchors])
    wrong += states_differ(
        "state", solution.states[:1], states[:1], order, reference.condition, asked
    )
    # The midpoint rule has its multiplier in the middle of the step.
    later = asked if problem.scheme == "midpoint" else slice(None)
    wrong += states_differ(
        "state", solution.states[1:], states[1:], order, reference.condition, later
    )
    model.destroy()
    if wrong:
        findings.wrong.append(f"{problem}: {'; '.join(wrong)}")
    else:
        findings.agreed += 1


def states_differ(
    name: str, ours: Any, theirs: Any, order: np.ndarray, condition: float, asked: Any = slice(None)
) -> list[str]:
    """The first level at which two trajectories differ."""
    loss, size = max(TOLERANCE, ROUNDING * condition), max(np.abs(theirs).max(initial=0.0), 1e-12)
    for level, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        gap = np.abs(a[order] - b)[asked].max() / size
        if not gap <= loss:
            return [f"{name} at level {level} of {len(theirs)} differs by {gap:.1e}"]
    return []


def differences(
    problem: Problem, reference: Reference, model: Any, solution: Any, deleted: Any
) -> list[str]:
    """What differs by more than the tolerance, in words."""
    order = same_unknowns(reference.space, model, model.discretisation.unknowns[0])
    wrong = forms_differ(reference, model, order)
    states, speeds = reference.solve()
    wrong += states_differ("state", solution.states, states, order, reference.condition)
    wrong += states_differ(
        "velocity", solution.velocities or [], speeds, order, reference.condition
    )
    if problem.deleted and not wrong:
        wrong += score_differs(problem, reference, states, deleted[problem.deleted])
    return wrong


def score_differs(problem: Problem, reference: Reference, states: Any, found: Any) -> list[str]:
    """Whether the score of a deletion is another one by hand, or missing where the deleted
    problem is well posed.
    """
    try:
        others, _ = reference.solve(without=problem.deleted)
    except (ArithmeticError, np.linalg.LinAlgError):
        # Newton's method by hand starts from zero and has no line search; where it fails it says
        # nothing.
        helpless = any(term.nonlinear for term, _ in problem.terms)
        return (
            []
            if helpless or found.status == "unsolvable"
            else [f"without {problem.deleted} solved, but not by hand"]
        )
    # By hand any solution counts, also one that the branch of the factual solution does not reach.
    if found.cause == "fold" or (found.status == "unsolvable" and reference.condition > SINGULAR):
        return []
    expected, size = (
        reference.score(states, others),
        reference.score(states, [0 * s for s in states]),
    )
    loss = max(TOLERANCE, ROUNDING * reference.condition)
    if abs(found.score - expected) <= loss * max(size, expected, 1e-12):
        return []
    return [f"score of {problem.deleted}: {found.score} ({found.status}), by hand {expected}"]


def same_unknowns(space: Any, model: Any, unknown: Any) -> np.ndarray:
    """For each unknown of a space of ours its place in cffem's state, found cell by cell."""
    own, _ = model.spaces.own(unknown)
    places, block = model.spaces.dofs(unknown), space.dofmap.index_map_bs
    order = np.zeros(space.dofmap.index_map.size_local * block, dtype=int)
    for mine, theirs in zip(space.dofmap.list, own.dofmap.list, strict=True):
        for k in range(block):
            order[mine * block + k] = places[theirs * block + k]
    return order


def forms_differ(reference: Any, model: Any, order: np.ndarray) -> list[str]:
    """Compare residual and operators at a random place, for all that the conditions admit."""
    rng = np.random.default_rng(reference.problem.seed + 1)
    count = reference.problem.order + 1
    fold, admitted = reference.folding, reference.admitted
    drawn = [admitted @ rng.normal(size=admitted.shape[1]) if k < count else None for k in range(3)]
    time = float(rng.uniform()) if count > 1 else 0.0
    equation = model.prepared(Intervention(), SolveRecord()).equation
    vectors = []
    for values in drawn:
        vector = equation.new_vector() if values is not None else None
        if vector is not None:
            vector.array[order] = values
        vectors.append(vector)
    out = equation.new_vector()
    equation.residual(tuple(vectors), time, out)
    expected = reference.residual(tuple(drawn), time)
    wrong = []
    if not close(fold.T @ out.array_r[order], fold.T @ expected):
        wrong.append("the residual differs")
    for k in range(count):
        weights = tuple(float(k == i) for i in range(3))
        ours = equation.jacobian(weights, tuple(vectors), time).convert("dense").getDenseArray()
        theirs = reference.jacobian(weights, tuple(drawn), time)
        if not close(fold.T @ ours[np.ix_(order, order)] @ admitted, fold.T @ theirs @ admitted):
            wrong.append(f"the operator on the {('state', 'rate', 'acceleration')[k]} differs")
    return wrong


def close(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether two arrays agree relative to their largest entry."""
    return bool(
        np.abs(ours - theirs).max(initial=0.0)
        <= TOLERANCE * max(np.abs(theirs).max(initial=0.0), 1e-12)
    )


def check_seeds(family: Any, seeds: Any, record_property: Any) -> None:
    """All problems of some seeds: none is wrong, and most are solved."""
    findings = Findings()
    for seed in seeds:
        if isinstance(family, str):
            compare_coupled(family, seed, findings)
        else:
            make = drawn_material if isinstance(family, MaterialFamily) else drawn
            compare(make(family, seed), findings)
    record_property("agreed", findings.agreed)
    record_property("refused", sorted(findings.refused.items()))
    assert not findings.wrong, "\n".join(findings.wrong)
    assert findings.agreed >= len(seeds) / 3, findings.refused
