# SPDX-License-Identifier: MIT
"""`cffem bench certify`: do the error bars hold, how sharp are they, and do they decide? Each
figure against its requirement.

Guaranteed bounds meet problems with exact solutions (`certify_modal`), estimated ones much finer
solutions (`certify_nonlinear`). Every case is decided at thirteen thresholds around its true score,
by the margin of the difference and by the sum of both errors. The exit code is one if a requirement
fails.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import dolfinx
import numpy as np

import cffem as cf
from benchmarks.certify.certify_adversary import (
    CASES,
    adversary_section,
    page_section,
    write_section,
)
from benchmarks.certify.certify_faults import faults
from benchmarks.certify.certify_modal import ModalFamily, Truth, families, perturbed
from benchmarks.certify.certify_nonlinear import COSTLY, KINDS, nonlinear_case, reference
from benchmarks.certify.certify_variable import distance, variable_case
from benchmarks.measuring import Board
from cffem.bounds.certificate import NoCertificate
from cffem.bounds.entrance import certify_deletion, certify_solution
from cffem.bounds.levels.estimates import Estimates
from cffem.engine.solve_errors import SolveError
from cffem.verdicts import decide

THRESHOLDS = 13
PROGRESS = 25
# Measurements of cost are repeated, because a machine that does other work as well makes single
# ones too long.
REPEATED = 5
# How many of a thousand cases each class gets, and how many of a sample of sixty.
SHARES = {
    "steady 2D": (300, 26),
    "steady 3D": (60, 2),
    "parabolic 2D backward-euler": (120, 4),
    "parabolic 2D midpoint": (120, 5),
    "parabolic 2D sdirk2": (120, 4),
    "parabolic 3D": (30, 2),
    "wave 2D": (140, 6),
    "wave 3D": (10, 0),
    "Maxwell 2D": (80, 4),
    "Maxwell 3D": (20, 1),
}
ENRICHED = {"steady": 2.0, "parabolic": 2.5, "wave P1": 2.5, "wave P2": 4.5, "Maxwell": 10.0}
UNRESOLVED = {"steady": 0.28, "parabolic": 0.68}


@dataclass(frozen=True)
class CertifyOutcome:
    """One deletion: pairs of a true error and its bound.

    Attributes:
        family, degree, term: what it was.
        factual, counterfactual, difference, score: the pairs.
        true_score, margin: the exact score, and the margin that decides.
        enriched: the pair of the factual solution by enrichment, where it was asked for.
        energy: the same in the energy norm.
        kind: of the certificate.
        seconds: the time of the certificate.
        combined: the pair of the combination of all levels, where an estimate has one.
    """

    family: str
    degree: int
    term: str
    factual: tuple[float, float]
    counterfactual: tuple[float, float]
    difference: tuple[float, float]
    score: tuple[float, float]
    true_score: float
    computed: float
    enriched: tuple[float, float] | None = None
    energy: tuple[float, float] | None = None
    kind: str = "guaranteed"
    seconds: float = 0.0
    combined: tuple[float, float] | None = None

    @property
    def covered(self) -> bool:
        """Whether every bound is at least its error; the slack is that of the reference values."""
        pairs = (
            self.factual,
            self.counterfactual,
            self.difference,
            self.score,
            self.enriched,
            self.energy,
        )
        return all(
            bound >= error * (1 - 1e-6) - 1e-8 * self.true_score
            for error, bound in filter(None, pairs)
        )

    def decisions(self) -> list[tuple[bool, bool, bool]]:
        """At each threshold: whether the decision is wrong, unresolved, and unresolved by the
        sum.
        """
        found = []
        for epsilon in self.true_score * np.logspace(-1.5, 1.5, THRESHOLDS):
            truth = "relevant" if self.true_score >= epsilon else "irrelevant"
            decision = decide(self.computed, epsilon, margin=self.score[1])
            both = decide(self.computed, epsilon, self.factual[1], self.counterfactual[1])
            wrong = decision not in ("unresolved", truth) or both not in ("unresolved", truth)
            found.append((wrong, decision == "unresolved", both == "unresolved"))
        return found


def modal_outcome(name: str, random: Any, enriched: bool = False) -> CertifyOutcome:
    """One random case of a family with exact solutions."""
    family, scheme = _family(name)
    coefficients, window = _chosen(family, scheme, random)
    degree = int(random.choice([1, 2])) if family.dim == 2 or family.kind == "steady" else 1
    cells = (
        int(random.integers(2, 4))
        if family.dim == 3
        else int(random.integers(*((4, 13) if family.kind == "steady" else (3, 7))))
    )
    domain = perturbed(
        family.dim, cells, float(random.uniform(0, 0.2)), float(random.uniform(0, 6))
    )
    with family.model(domain, coefficients, degree, window) as model:
        return measured(family, name, model, str(random.choice(family.deletable)), degree, enriched)


def measured(
    family: ModalFamily, name: str, model: Any, term: str, degree: int, enriched: bool = False
) -> CertifyOutcome:
    """The certificates of one deletion against the exact solutions."""
    factual, deleted = model.factual, model.solve(cf.delete(term))
    start = time.perf_counter()
    bound = certify_deletion(model, term, deleted=deleted)
    seconds = time.perf_counter() - start
    if isinstance(bound, NoCertificate):
        raise RuntimeError(f"{name}: {bound.reason}")
    truth, own, other = Truth(family, model), model.coefficients, {**model.coefficients, term: 0.0}
    gap = [a - b for a, b in zip(factual.states, deleted.states, strict=True)]
    exact, error = (
        truth.error(None, [(1.0, own), (-1.0, other)]),
        truth.error(factual.states, [(1.0, own)]),
    )
    richer = certify_solution(model, enriched=True) if enriched else NoCertificate("")
    energy = None
    if family.kind == "steady" and family.dim == 2 and family.numbers(own)[1] >= 0:
        bounded = certify_solution(model, norm="energy")
        energy = (
            truth.error(factual.states, [(1.0, own)], energy=True),
            float(getattr(bounded, "value", np.inf)),
        )
    return CertifyOutcome(
        name,
        degree,
        term,
        (error, float(bound.eta_factual)),
        (truth.error(deleted.states, [(1.0, other)]), float(bound.eta_counterfactual)),
        (truth.error(gap, [(1.0, own), (-1.0, other)]), float(bound.difference)),
        (abs(bound.score - exact), float(bound.margin)),
        exact,
        float(bound.score),
        None if isinstance(richer, NoCertificate) else (error, float(richer.value)),
        energy,
        bound.certificate.kind,
        seconds,
    )


def _family(name: str) -> tuple[ModalFamily, str | None]:
    *words, last = name.split()
    known = families()
    return (known[name], None) if name in known else (known[" ".join(words)], last)


def _chosen(family: ModalFamily, scheme: str | None, random: Any) -> tuple[dict[str, float], Any]:
    """Random coefficients, growth included, and a window of time."""
    lowest = min(m.eigenvalue for m in family.modes)
    if family.kind == "wave":
        stiffness = float(10 ** random.uniform(-0.5, 0.3))
        small = float(10 ** random.uniform(-2, 0))
        coefficients = {"stiffness": stiffness, "mass": small * 10, "damping": small}
        steps = int(random.integers(8, 17)) if family.dim == 2 else 6
        return coefficients, cf.Window(0, float(random.uniform(0.3, 1.0)), steps)
    diffusion = float(10 ** random.uniform(-1.2, 0.3))
    growing = 0.8 if family.kind == "steady" else 1.5
    coefficients = {
        "lap": diffusion,
        "mixing": float(10 ** random.uniform(-2, -0.3)) * diffusion,
        "u": float(random.uniform(-2.0, growing)) * diffusion * lowest,
    }
    if family.kind == "steady":
        return coefficients, None
    steps = int(random.integers(4, 13)) if family.dim == 2 else 4
    return coefficients, cf.Window(
        0, float(random.uniform(0.5, 3.0)) / (diffusion * lowest), steps, scheme
    )


def nonlinear_outcome(kind: str, random: Any) -> CertifyOutcome | None:
    """One random nonlinear case, or None where saturation was not accepted."""
    model, term = nonlinear_case(kind, random)
    with model:
        deleted = model.solve(cf.delete(term))
        start = time.perf_counter()
        estimates = Estimates(model, 1e5)
        bound = estimates.deletion(term, deleted=deleted)
        seconds = time.perf_counter() - start
        if isinstance(bound, NoCertificate):
            estimates.destroy()
            return None
        true = reference(model, term, deleted)
        estimates.destroy()
    score = (abs(bound.score - true.score), float(bound.margin))
    pairs = [
        (true.factual, bound.eta_factual),
        (true.counterfactual, bound.eta_counterfactual),
        (true.difference, bound.difference),
    ]
    first, second, third = ((error, float(value)) for error, value in pairs)
    degree = 2 if kind == "Navier–Stokes" else 1
    outcome = CertifyOutcome(
        kind,
        degree,
        term,
        first,
        second,
        third,
        score,
        true.score,
        bound.score,
        kind="estimated",
        seconds=seconds,
    )
    return (
        outcome
        if bound.best is None
        else replace(outcome, combined=(abs(bound.best[0] - true.score), float(bound.best[1])))
    )


def variable_outcome(random: Any, dim: int, uneven: bool = False) -> CertifyOutcome | None:
    """One random case with variable coefficients and natural boundaries, or None where coercivity
    is not proved; with `uneven` given values are no polynomials.
    """
    case = variable_case(random, dim, uneven=uneven)
    with case.model as model:
        try:
            factual, deleted = model.factual, model.solve(cf.delete("reaction"))
        except SolveError:
            # Neumann conditions alone, and no reaction.
            return None
        start = time.perf_counter()
        bound = certify_deletion(model, "reaction", deleted=deleted)
        seconds = time.perf_counter() - start
        if isinstance(bound, NoCertificate):
            return None
        gap = case.factual - case.deleted
        exact = distance(case, [], gap)
        steep = certify_solution(model, norm="H1")
        return CertifyOutcome(
            f"variable {dim}D",
            int(case.said[-1]),
            case.said,
            (distance(case, [(1, factual)], case.factual), float(bound.eta_factual)),
            (distance(case, [(1, deleted)], case.deleted), float(bound.eta_counterfactual)),
            (distance(case, [(1, factual), (-1, deleted)], gap), float(bound.difference)),
            (abs(bound.score - exact), float(bound.margin)),
            exact,
            float(bound.score),
            None,
            (
                distance(case, [(1, factual)], case.factual, "H1"),
                float(getattr(steep, "value", np.inf)),
            ),
            bound.certificate.kind,
            seconds,
        )


# Sections
# --------------------------------------------------------------------------------------------------


def guaranteed_section(
    board: Board, counts: dict[str, int], seed: int, enriched: int = 3
) -> list[CertifyOutcome]:
    """Coverage, decisions and sharpness of the guaranteed bounds, class by class."""
    outcomes: list[CertifyOutcome] = []
    board.line(
        f"{'class':<30}{'n':>5}{'covered':>9}{'wrong':>7}{'unresolved':>12}"
        f"{'by sum':>8}{'eff':>7}{'enriched':>10}{'energy':>8}"
    )
    for name, count in counts.items():
        random = np.random.default_rng([seed, *name.encode()])
        found = [modal_outcome(name, random, enriched=k % enriched == 0) for k in range(count)]
        outcomes += found
        if found:
            board.line(row_of(name, found))
    board.target(
        "guaranteed bounds that cover",
        share_of(o.covered for o in outcomes),
        all(o.covered for o in outcomes),
        "1",
    )
    wrong = sum(decision[0] for o in outcomes for decision in o.decisions())
    board.target("wrong decisions", wrong, wrong == 0, "0")
    for label, limit in UNRESOLVED.items():
        chosen = [d for o in outcomes if o.family.startswith(label) for d in o.decisions()]
        if chosen:
            board.line(f"  {label}: unresolved by the sum {share_of(d[2] for d in chosen):.3f}")
            board.target(
                f"unresolved, {label}",
                share_of(d[1] for d in chosen),
                share_of(d[1] for d in chosen) <= limit,
                f"<= {limit}",
            )
    sharpness(board, outcomes)
    return outcomes


def variable_section(board: Board, count: int, seed: int) -> list[CertifyOutcome]:
    """Coverage and decisions with variable coefficients and natural boundaries; the last column is
    the norm H1.
    """
    outcomes: list[CertifyOutcome] = []
    refused = 0
    for dim, share in ((2, 0.9), (3, 0.1)):
        random = np.random.default_rng([seed, 27, dim])
        found: list[CertifyOutcome] = []
        while len(found) < round(share * count):
            outcome = variable_outcome(random, dim)
            refused += outcome is None
            found += [] if outcome is None else [outcome]
        if found:
            board.line(row_of(f"variable {dim}D", found))
        for outcome in found:
            if not outcome.covered:
                board.line(f"  {outcome.term}: not covered")
        outcomes += found
    board.line(f"  without a proof of coercivity: {refused}")
    share_covered = share_of(o.covered for o in outcomes)
    board.target(
        "bounds with variable coefficients that cover", share_covered, share_covered == 1, "1"
    )
    wrong = sum(decision[0] for o in outcomes for decision in o.decisions())
    board.target("wrong decisions with variable coefficients", wrong, wrong == 0, "0")
    guaranteed = share_of(o.kind == "guaranteed" for o in outcomes)
    board.target("guaranteed among them", guaranteed, guaranteed == 1, "1")
    return outcomes


def sharpness(board: Board, outcomes: Sequence[CertifyOutcome]) -> None:
    """Median effectivities against their requirements."""
    energy = [o.energy for o in outcomes if o.energy]
    if energy:
        value = _median(energy)
        board.target("effectivity, energy norm", value, value <= 1.2, "<= 1.2")
    for label, limit in ENRICHED.items():
        family, _, degree = label.partition(" P")
        pairs = [
            o.enriched
            for o in outcomes
            if o.family.startswith(family) and o.enriched and degree in ("", str(o.degree))
        ]
        if pairs:
            board.target(
                f"effectivity, enriched, {label}",
                _median(pairs),
                _median(pairs) <= limit,
                f"<= {limit}",
            )


def estimated_section(
    board: Board, count: int, seed: int, kinds: Sequence[str] | None = None
) -> list[CertifyOutcome]:
    """Coverage of estimated bounds on nonlinear problems with accepted saturation."""
    outcomes: list[CertifyOutcome] = []
    refused = 0
    kinds = kinds or [kind for kind in KINDS for _ in range(1 if kind in COSTLY else 3)]
    random = np.random.default_rng([seed, 7])
    while len(outcomes) < count:
        found = nonlinear_outcome(kinds[(len(outcomes) + refused) % len(kinds)], random)
        if found is None:
            refused += 1
        else:
            outcomes.append(found)
            if len(outcomes) % PROGRESS == 0:
                missed = sum(o.score[0] > o.score[1] for o in outcomes)
                board.line(
                    f"  {len(outcomes)} of {count} estimated cases, {missed} margins too small, "
                    f"{refused} refused"
                )
    for kind in KINDS:
        chosen = [o for o in outcomes if o.family == kind]
        if chosen:
            board.line(row_of(f"{kind} (estimated)", chosen))
    pairs = [
        pair
        for o in outcomes
        for pair in (o.score, o.factual, o.counterfactual, o.difference)
        if np.isfinite(pair[1])
    ]
    covered = share_of(error <= bound for error, bound in pairs)
    margins = share_of(o.score[0] <= o.score[1] for o in outcomes)
    board.line(f"  saturation not observed, hence no estimate: {refused} of {refused + count}")
    board.target("estimated margins that cover", margins, margins >= 0.99, ">= 0.99")
    board.target(
        f"estimated bounds that cover, all {len(pairs)}", covered, covered >= 0.99, ">= 0.99"
    )
    about = [o.combined for o in outcomes if o.combined is not None]
    if about:
        share, most = (
            share_of(error <= bound for error, bound in about),
            max(error / bound for error, bound in about),
        )
        board.line(
            f"  {len(about)} combinations of all levels; the one that comes nearest to its margin "
            f"uses {most:.2f} of it"
        )
        board.target("margins about combinations that cover", share, share >= 0.99, ">= 0.99")
    wrong = sum(decision[0] for o in outcomes for decision in o.decisions())
    board.line(f"  decisions by estimated margins: {wrong} wrong of {THRESHOLDS * len(outcomes)}")
    return outcomes


def faults_section(board: Board, count: int, seed: int) -> None:
    """Injected faults must widen the bound or end unresolved, never give a wrong verdict."""
    for name, outcomes, widened in faults(count, seed):
        wrong = sum(decision[0] for o in outcomes for decision in o.decisions())
        covered = share_of(o.covered for o in outcomes)
        board.line(
            f"{name}: {len(outcomes)} cases, margins widened by a median factor of {widened:.3g}"
        )
        board.target(f"{name}: covered", covered, covered == 1, "1")
        board.target(f"{name}: wrong decisions", wrong, wrong == 0, "0")
        board.target(f"{name}: widened", widened, widened > 1, "> 1")


def cost_section(board: Board, cells: int) -> None:
    """The processor time of certifying a whole sweep against that of its solves, the least of
    some repetitions each.
    """
    unknowns = (cells + 1) ** 2
    # Edges of triangles and tetrahedra that are as many.
    plane, solid = round(math.sqrt(unknowns / 3)), round((unknowns / 7) ** (1 / 3))
    for name, sides, window, limit in (
        ("steady 2D", cells, None, 1.0),
        ("parabolic 2D", cells, cf.Window(0, 0.1, 20), 2.0),
        ("wave 2D", cells, cf.Window(0, 1, 20), 2.0),
        ("Maxwell 2D", plane, cf.Window(0, 1, 20), 2.0),
        ("Maxwell 3D", solid, cf.Window(0, 1, 8), 2.0),
        ("Maxwell 3D, div E = 0", solid, cf.Window(0, 1, 8), 2.0),
    ):
        kind, _, constraint = name.partition(",")
        family, times = families()[kind], []
        waves = family.kind not in ("steady", "parabolic")
        coefficients = (
            {"stiffness": 1.0, "mass": 2.0, "damping": 0.1}
            if waves
            else {"lap": 1.0, "mixing": 0.1, "u": 1.0}
        )
        for _ in range(REPEATED if family.dim == 2 else 3):
            domain = perturbed(family.dim, sides, 0.1, 1.0)
            with family.model(
                domain, coefficients, 1, window, constrained=bool(constraint)
            ) as model:
                start = time.process_time()
                model.factual.norm()
                sweep = model.deletions(family.deletable, keep=True)
                solved = time.process_time()
                for term in family.deletable:
                    certify_deletion(model, term, deleted=sweep[term].solution)
                times.append((solved - start, time.process_time() - solved))
                size = model.spaces.size
        solves, certificates = (min(column) for column in zip(*times, strict=True))
        single, ratio = sorted(second / first for first, second in times), certificates / solves
        board.line(
            f"  {name}: {solves:.2f} s for the solves, {certificates:.2f} s for the certificates; "
            f"single repetitions {single[0]:.2f} to {single[-1]:.2f}"
        )
        board.target(f"cost, {name}, {size} unknowns", ratio, ratio <= limit, f"<= {limit}")


def row_of(name: str, found: Sequence[CertifyOutcome]) -> str:
    decisions = [d for o in found for d in o.decisions()]
    enriched, energy = (
        [o.enriched for o in found if o.enriched],
        [o.energy for o in found if o.energy],
    )
    return (
        f"{name:<30}{len(found):>5}{share_of(o.covered for o in found):>9.3f}"
        f"{sum(d[0] for d in decisions):>7}"
        f"{share_of(d[1] for d in decisions):>12.3f}{share_of(d[2] for d in decisions):>8.3f}"
        f"{_median([o.factual for o in found]):>7.2f}{_median(enriched):>10.2f}"
        f"{_median(energy):>8.2f}"
    )


def share_of(values: Any) -> float:
    return float(np.mean(list(values))) if (values := list(values)) else float("nan")


def _median(pairs: Sequence[Any]) -> float:
    return (
        float(np.median([bound / max(error, 1e-300) for error, bound in pairs]))
        if pairs
        else float("nan")
    )


def sample(board: Board, seed: int = 1) -> list[CertifyOutcome]:
    """Sixty cases, the cheapest kinds more often: fifty-four guaranteed and six estimated."""
    with quick_collection():
        outcomes = guaranteed_section(
            board, {name: few for name, (_, few) in SHARES.items()}, seed, enriched=6
        )
        return outcomes + estimated_section(board, 6, seed, ["steady", "steady", "Burgers"])


@contextmanager
def quick_collection() -> Iterator[None]:
    """Spare the garbage collector, which runs whenever a model is freed, what was there before."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def adversary(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run the attacks, and put their table into a page where that is asked for."""
    board, start = Board(), time.perf_counter()
    with quick_collection():
        found = adversary_section(board, options.adversary, options.seed, options.attack)
    board.line(
        f"{len(found)} cases in {time.perf_counter() - start:.0f} s; missed: "
        f"{', '.join(board.missed) or 'nothing'}"
    )
    if options.page:
        kept = [
            word
            for word in arguments
            if word != str(options.page) and word not in ("--page", "--json", str(options.json))
        ]
        version = f"cffem {cf.__version__} and DOLFINx {dolfinx.__version__}"
        write_section(
            options.page, page_section(found, " ".join(["cffem bench certify", *kept]), version)
        )
    if options.json:
        content = {
            "figures": board.figures,
            "missed": board.missed,
            "cases": [asdict(f) for f in found],
        }
        options.json.write_text(json.dumps(content, indent=1))
    return 1 if board.missed else 0


def main(arguments: Sequence[str]) -> int:
    """Run the sections that are asked for."""
    parser = argparse.ArgumentParser(prog="cffem bench certify", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="guaranteed cases (default: 1000)")
    parser.add_argument("--estimated", type=int, default=200, help="estimated cases (default: 200)")
    parser.add_argument(
        "--variable",
        type=int,
        default=200,
        help="cases with variable coefficients and natural boundaries (default: 200)",
    )
    parser.add_argument(
        "--faults", type=int, default=20, help="cases of each injected fault (default: 20)"
    )
    parser.add_argument(
        "--cells",
        type=int,
        default=142,
        help="cells per side of the cost measurement (default: 142; 0: none)",
    )
    parser.add_argument(
        "--adversary",
        type=int,
        nargs="?",
        const=CASES,
        default=0,
        help=f"only attacks, so many of them (default: {CASES})",
    )
    parser.add_argument(
        "--attack", action="append", default=[], help="only this attack (may be repeated)"
    )
    parser.add_argument(
        "--wider",
        type=int,
        default=0,
        help="only the wider classes, so many cases: variable coefficients in time, intervals, "
        "any given values, flows",
    )
    parser.add_argument(
        "--class", dest="only", default="", help="of the wider classes those that begin so"
    )
    parser.add_argument("--page", type=Path, help="write the table of attacks into this page")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write all figures and cases there")
    options = parser.parse_args(arguments)
    if options.adversary:
        return adversary(options, arguments)
    board, start = Board(), time.perf_counter()
    if options.wider:
        # It needs what is defined here.
        from benchmarks.certify.certify_wider import wider_section

        with quick_collection():
            found = wider_section(board, options.wider, options.seed, options.only)
        return _finished(board, found, start, options.json)
    gc.freeze()
    counts = {name: round(many * options.cases / 1000) for name, (many, _) in SHARES.items()}
    outcomes = guaranteed_section(board, counts, options.seed) if options.cases else []
    sections: list[tuple[int, Callable[[], Any]]] = [
        (
            options.estimated,
            lambda: outcomes.extend(estimated_section(board, options.estimated, options.seed)),
        ),
        (
            options.variable,
            lambda: outcomes.extend(variable_section(board, options.variable, options.seed)),
        ),
        (options.faults, lambda: faults_section(board, options.faults, options.seed)),
        (options.cells, lambda: cost_section(board, options.cells)),
    ]
    for wanted, section in sections:
        if wanted:
            section()
    return _finished(board, outcomes, start, options.json)


def _finished(
    board: Board, outcomes: Sequence[CertifyOutcome], start: float, path: Path | None
) -> int:
    """Say and write what was found; the exit code."""
    board.line(
        f"{len(outcomes)} cases in {time.perf_counter() - start:.0f} s; missed: "
        f"{', '.join(board.missed) or 'nothing'}"
    )
    if path:
        content = {
            "figures": board.figures,
            "missed": board.missed,
            "cases": [asdict(o) for o in outcomes],
        }
        path.write_text(json.dumps(content, indent=1))
    return 1 if board.missed else 0
