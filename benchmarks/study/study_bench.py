# SPDX-License-Identifier: MIT
"""`cffem bench study`: what a certified study costs beside the loop by hand, and whether its
verdicts are right.

Every study is a file in TOML with all options at their defaults (`study_problems`). Beside it, in
the same run, stands the loop by hand: factual and deleted solves, no error bars (`study_sides`).
Each side has a process of its own, times are of the processor. Verdicts are compared with scores on
a finer discretisation; those of an earlier run in the same folder are used again.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measuring import bench_parser, machine
from benchmarks.study.study_page import page, picture
from benchmarks.study.study_pairs import pair_goals
from benchmarks.study.study_problems import PROBLEMS
from benchmarks.study.study_sides import HAND, REFERENCE, STUDY, UNSOLVABLE

# A score that is at least so far from ε counts as decidable, relative to ε.
AWAY = 0.05
SHARE, MEDIAN_RATIO, LARGEST_RATIO, GUARANTEED_RATIO, MEMORY_RATIO = 0.95, 1.5, 3.0, 4.0, 2.0
# How well the price that a study names first is kept, and in how many studies.
PRICE, KEPT = 2.0, 0.8
DECIDED = ("relevant", "irrelevant")


def measure(name: str, side: str, path: Path, tiny: bool, limit: float) -> dict[str, Any]:
    """What one side found, in a process of its own; an empty mapping where it did not end."""
    command = [sys.executable, "-m", "benchmarks.study.study_sides", name, side, str(path)]
    root = Path(__file__).resolve().parents[2]
    try:
        subprocess.run(
            [*command, *(["--tiny"] if tiny else [])], check=True, cwd=root, timeout=limit
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"  {name}, {side}: {error}", flush=True)
        return {}
    return dict(json.loads(path.read_text()))


def compared(verdicts: Sequence[Mapping[str, Any]], reference: Mapping[str, Any]) -> dict[str, Any]:
    """How many verdicts there are, how many could have been decided, and which are wrong.

    A deletion without a solution on the reference mesh is compared with nothing.

    Example:
        >>> verdict = {"term": "u", "field": "", "epsilon": 1.0, "score": 3.0, "margin": 0.2}
        >>> found = compared(
        ...     [{**verdict, "decision": "relevant"}], {"scores": {"u": {"": 2.9}}}
        ... )
        >>> found["decidable"], found["decided"], found["wrong"], found["missed bars"]
        (1, 1, [], [])
    """
    decidable = decided = 0
    far, wrong, missed = [], [], []
    for verdict in verdicts:
        label = verdict["term"] + (f" for {verdict['field']}" if verdict["field"] else "")
        done = verdict["decision"] in DECIDED
        true = reference["scores"][verdict["term"]][verdict["field"]]
        if true == UNSOLVABLE or verdict.get("share") is not None:
            decidable += 1
            decided += done
            continue
        epsilon = verdict["epsilon"]
        if abs(true / epsilon - 1) > AWAY:
            decidable += 1
            decided += done
            if not done:
                far.append(label)
        if done and (true > epsilon) != (verdict["decision"] == "relevant"):
            wrong.append(label)
        if verdict["margin"] is not None and abs(true - verdict["score"]) > verdict["margin"]:
            missed.append(f"{label}: {abs(true - verdict['score']):.2g} > {verdict['margin']:.2g}")
    return {
        "verdicts": len(verdicts),
        "decidable": decidable,
        "decided": decided,
        "far and open": far,
        "wrong": wrong,
        "missed bars": missed,
    }


def reference_of(name: str, out: Path, tiny: bool, limit: float) -> dict[str, Any]:
    """The reference of a study; an earlier one of the same text and size serves again, also that of
    the same study on another mesh.
    """
    problem = PROBLEMS[name]
    mark = repr((problem.text, problem.bump, problem.small if tiny else problem.reference))
    kept = out / f"reference-{hashlib.sha256(mark.encode()).hexdigest()[:12]}.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    if "scores" not in known:
        known = measure(name, REFERENCE, kept, tiny, limit)
    return dict(known)


def row(name: str, out: Path, tiny: bool, limit: float) -> dict[str, Any]:
    """One study, its loop by hand, and its reference."""
    problem = PROBLEMS[name]
    reference = reference_of(name, out, tiny, limit)
    hand = measure(name, HAND, out / f"{name}-hand.json", tiny, limit)
    study = measure(name, STUDY, out / f"{name}-study.json", tiny, limit)
    found: dict[str, Any] = {"name": name, "title": problem.title}
    if not hand or not study:
        return {**found, "failed": "the study" if hand else "the loop by hand"}
    found |= {
        "unknowns": hand["unknowns"],
        "steps": (problem.small if tiny else problem.size).steps,
        "terms": len(hand["scores"]),
        "hand": hand["seconds"],
        "study": study["seconds"],
        "ratio": study["seconds"] / hand["seconds"],
        "memory": study["memory in MB"] / hand["memory in MB"],
        "memory in MB": study["memory in MB"],
        "stations": study["stations"]["seconds"],
        "price": study["stations"].get("price"),
        "guaranteed": any(v["kind"] == "guaranteed" for v in study["verdicts"]),
        "verdicts of terms": study["verdicts"],
    }
    if "scores" in reference:
        found |= {"reference": reference["scores"], **compared(study["verdicts"], reference)}
    return found


def goals(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What is asked of all studies together, with what was measured."""
    done = [row for row in rows if "failed" not in row]
    judged = [row for row in done if "decidable" in row]
    decidable = sum(row["decidable"] for row in judged)
    share = sum(row["decided"] for row in judged) / max(decidable, 1)
    wrong = sum(len(row["wrong"]) for row in judged)
    ratios = [row["ratio"] for row in done]
    plain = [row["ratio"] for row in done if not row["guaranteed"]]
    proven = [row["ratio"] for row in done if row["guaranteed"]]
    table = [
        ("decided of those 5 % and more away from ε", share, f"≥ {SHARE:.0%}", share >= SHARE),
        ("wrong verdicts", wrong, "0", wrong == 0),
        ("studies that did not end", len(rows) - len(done), "0", len(rows) == len(done)),
        (
            "seconds beside the loop by hand, median",
            median(ratios) if ratios else float("nan"),
            f"≤ {MEDIAN_RATIO}",
            bool(ratios) and median(ratios) <= MEDIAN_RATIO,
        ),
        (
            "the same, at most",
            max(plain, default=0.0),
            f"≤ {LARGEST_RATIO:g}",
            max(plain, default=0.0) <= LARGEST_RATIO,
        ),
        (
            "peak memory beside the loop by hand, at most",
            max((row["memory"] for row in done), default=0.0),
            f"≤ {MEMORY_RATIO:g}",
            all(row["memory"] <= MEMORY_RATIO for row in done),
        ),
    ]
    named = [row["price"] / row["study"] for row in done if row.get("price")]
    if named:
        kept = sum(1 / PRICE <= ratio <= PRICE for ratio in named) / len(named)
        words = f"prices within a factor of {PRICE:g} of what they were"
        table.append((words, kept, f"≥ {KEPT:.0%}", kept >= KEPT))
    if proven:
        most, wanted = max(proven), f"≤ {GUARANTEED_RATIO:g}"
        goal = "the same with guaranteed bars, at most"
        table.append((goal, most, wanted, most <= GUARANTEED_RATIO))
    return [
        {"goal": goal, "value": float(value), "wanted": wanted, "passed": bool(passed)}
        for goal, value, wanted, passed in table
    ]


def line(row: Mapping[str, Any]) -> str:
    """One study in one line."""
    if "failed" in row:
        return f"{row['name']:<14} did not end: {row['failed']}"
    judged = f"{row['decided']}/{row['decidable']} decided" if "decided" in row else "no reference"
    wrong = f", WRONG: {', '.join(row['wrong'])}" if row.get("wrong") else ""
    return (
        f"{row['name']:<14} {row['unknowns']:>7} unknowns  {judged}{wrong}  by hand "
        f"{row['hand']:.2f} s  study {row['study']:.2f} s  ratio {row['ratio']:.2f}  memory "
        f"{row['memory']:.2f}"
    )


def write(found: Mapping[str, Any], out: Path) -> None:
    """Numbers, page and picture of the studies that have been measured so far."""
    (out / "bench_study.json").write_text(json.dumps(found, indent=1) + "\n")
    (out / "bench_study.md").write_text(page(found))
    picture(found, out / "bench_study.png")


def earlier_run(out: Path, tiny: bool) -> dict[str, Any]:
    """What an earlier run of the same sizes found in this folder."""
    kept = out / "bench_study.json"
    found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    return found if found.get("tiny") == tiny else {}


def main(arguments: Sequence[str] = ()) -> int:
    """Run the benchmark; 0 if every goal is met and 3 if not."""
    parser = bench_parser("study", __doc__, "case", PROBLEMS)
    parser.add_argument(
        "--limit", type=float, default=3600.0, help="seconds that one side may take (default: 3600)"
    )
    parser.add_argument("--note", default="", help="a sentence about this run for its page")
    parser.add_argument(
        "--join",
        action="store_true",
        help="keep what an earlier run in the same folder found of other studies and of pairs",
    )
    options = parser.parse_args(list(arguments))
    options.out.mkdir(parents=True, exist_ok=True)
    earlier = earlier_run(options.out, options.tiny) if options.join else {}
    rows = {row["name"]: row for row in earlier.get("rows", [])}
    pairs: list[dict[str, Any]] = earlier.get("pairs", [])
    note = options.note or earlier.get("note", "")

    def together() -> dict[str, Any]:
        ordered = [rows[name] for name in PROBLEMS if name in rows]
        found = {"machine": machine(), "tiny": options.tiny, "rows": ordered, "note": note}
        return {**found, "pairs": pairs, "goals": [*goals(ordered), *pairs]}

    for name in options.cases:
        rows[name] = row(name, options.out.resolve(), options.tiny, options.limit)
        print(line(rows[name]), flush=True)
        write(together(), options.out)
    if not options.join:
        pairs = pair_goals(options.tiny)
    found = together()
    write(found, options.out)
    for goal in found["goals"]:
        word = "ok  " if goal["passed"] else "MISS"
        print(f"  {word} {goal['goal']}: {goal['value']:.3g} (wanted {goal['wanted']})")
    return 0 if options.tiny or all(goal["passed"] for goal in found["goals"]) else 3
