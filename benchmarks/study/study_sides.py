# SPDX-License-Identifier: MIT
"""One side of one study of `cffem bench study`, measured in a process of its own: the loop by hand,
the study, or the reference on a finer discretisation.

The loop by hand solves the factual problem and every deleted one, one after the other, and takes
the norms of the differences. It makes one model, so that no term is assembled twice, as somebody
who knows DOLFINx writes it. Times are of the processor; what is compiled once for all is compiled
before, on the small size.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
from pathlib import Path
from time import process_time
from typing import Any

from mpi4py import MPI

from benchmarks.study.study_problems import PROBLEMS, Size, StudyProblem

HAND, STUDY, REFERENCE = "hand", "study", "reference"
# What is asked of the scores of a reference, relative to them.
REFERENCE_ACCURACY = 1e-6
UNSOLVABLE = "unsolvable"


def read(problem: StudyProblem, folder: Path, size: Size) -> Any:
    """The study of a size, from its file."""
    from cffem.study.toml.study_file import read_study

    return read_study(problem.write(folder, size), MPI.COMM_WORLD)


def norms(study: Any) -> dict[str, str]:
    """The norms of the scores, by field where each is judged by itself."""
    from cffem.symbols.problem.norm_names import of_field

    norm = study.certification.norm
    return {field: of_field(norm, field) for field in study.fields} or {"": norm}


def by_hand(study: Any) -> dict[str, Any]:
    """Factual and deleted solutions one after the other; scores by term and field."""
    import cffem as cf

    (experiment,) = study.experiments.values()
    with cf.Model(study.library, study.coefficients, experiment) as model:
        factual, scores = model.factual, {}
        for term in model.active:
            try:
                without = model.solve(cf.delete(term))
            except cf.SolveError:
                scores[term] = dict.fromkeys(norms(study), UNSOLVABLE)
                continue
            scores[term] = {f: factual.distance(without, n) for f, n in norms(study).items()}
        sizes = {field: factual.norm(norm) for field, norm in norms(study).items()}
        return {"scores": scores, "norms": sizes, "unknowns": model.spaces.size}


def by_reference(study: Any) -> dict[str, Any]:
    """Scores by term and field on a finer discretisation, in one sweep."""
    import cffem as cf

    (experiment,) = study.experiments.values()
    scores: dict[str, dict[str, Any]] = {}
    with cf.Model(study.library, study.coefficients, experiment) as model:
        kinds = norms(study)

        def take(deletion: Any) -> None:
            scores[deletion.term] = {
                field: UNSOLVABLE
                if deletion.solution is None
                else deletion.solution.distance(model.factual, norm)
                for field, norm in kinds.items()
            }

        from cffem.engine.deletion.outcomes import HANDED

        model.deletions(
            norm=study.certification.norm, keep=HANDED, finished=take, accuracy=REFERENCE_ACCURACY
        )
        sizes = {field: model.factual.norm(norm) for field, norm in kinds.items()}
        return {"scores": scores, "norms": sizes, "unknowns": model.spaces.size}


def by_study(study: Any, out: Path) -> dict[str, Any]:
    """The study as a user runs it, with its folder of results."""
    report = study.run(out, quiet=True)
    verdicts = [
        {key: entry[key] for key in ("term", "field", "decision", "score", "margin", "epsilon")}
        | {"code": entry["code"], "kind": entry["kind"], "method": entry["method"]}
        for entry in report.sections["sets"]["verdicts"]
    ]
    return {"verdicts": verdicts, "stations": report.sections["cost"]}


def measured(problem: StudyProblem, side: str, size: Size, warm: bool = True) -> dict[str, Any]:
    """The processor seconds, the peak memory and the findings of one side, whose forms are compiled
    on the small size first.
    """
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)

        def go(name: str, at: Size) -> tuple[dict[str, Any], float]:
            study = read(problem, work / name, at)
            start = process_time()
            if side == STUDY:
                found = by_study(study, work / name / "out")
            else:
                found = (by_hand if side == HAND else by_reference)(study)
            return found, process_time() - start

        if warm and side != REFERENCE:
            go("small", problem.small)
        found, seconds = go("measured", size)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**found, "seconds": seconds, "memory in MB": memory}


def main(arguments: list[str] | None = None) -> int:
    """Measure one side and write what was found."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("problem", choices=list(PROBLEMS))
    parser.add_argument("side", choices=[HAND, STUDY, REFERENCE])
    parser.add_argument("out", type=Path)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args(arguments)
    problem = PROBLEMS[options.problem]
    size = problem.reference if options.side == REFERENCE else problem.size
    found = measured(problem, options.side, problem.small if options.tiny else size)
    if MPI.COMM_WORLD.rank == 0:
        options.out.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
