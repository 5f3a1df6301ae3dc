# SPDX-License-Identifier: MIT
"""The sections cost and environment: what was solved, and with what."""

from __future__ import annotations

import platform
import resource
from collections import Counter
from collections.abc import Sequence
from importlib import metadata
from typing import TYPE_CHECKING

import cffem
from cffem.study.run.facts import WHOLE
from cffem.study.run.sections.findings import Facts
from cffem.study.run.sections.judgements import Judgements
from cffem.study.run.stations.intervening import NAMED

if TYPE_CHECKING:
    pass


class CostSection:
    """What a run cost, and what it ran on.

    Args:
        judged: the verdicts.
    """

    def __init__(self, judged: Judgements):
        self.judged, self.run, self.study = judged, judged.run, judged.study
        self.found, self.names = judged.found, judged.names

    def section(self) -> Facts:
        """What the section on costs holds."""
        found, comm = self.found, self.run.comm
        everything = [
            each.fact
            for kinds in found.deletions.values()
            for terms in kinds.values()
            for each in terms.values()
        ]
        solves = [fact.record for fact in found.factual.values()]
        records = [
            record
            for record in (*solves, *(fact.record for fact in everything))
            if record is not None
        ]
        memory = comm.allgather(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return {
            "factual": len(found.factual),
            "deleted": len(everything),
            "strategies": dict(Counter(fact.strategy for fact in everything)),
            "linearised": sum(len(each.scores) for each in found.linearised.values()),
            "adjoint": sum(len(each) for each in found.adjoints.values()),
            "linear_solves": sum(record.solves for record in records),
            "iterations": sum(record.iterations for record in records),
            "factorisations": sum(record.factorisations for record in records),
            "newton_steps": sum(record.newton_steps for record in records),
            "worst_residual": max((record.worst_residual for record in records), default=None),
            "seconds": self.run.seconds(),
            **({} if self.run.price is None else {"price": round(self.run.price, 3)}),
            "ranks": comm.size,
            "peak_memory": round(sum(memory), 1),
            "notices": self._notices(),
            "refinement": [
                {"term": term, "experiment": name, "intervention": kind, **level.to_plain()}
                for kind, names in found.deletions.items()
                for name, terms in names.items()
                for term, each in terms.items()
                if WHOLE in each.judged
                for level in each.judged[WHOLE].tried
            ],
            **({"reused": self.run.reused()} if self.run.checkpoint.edit is not None else {}),
        }

    def _notices(self) -> list[str]:
        """What one must know about factual and deleted solutions: that they are unstable, or
        not the only ones.
        """
        found = [("", fact.record) for fact in self.found.factual.values()]
        for kind, kinds in self.found.deletions.items():
            word = "under" if kind == NAMED else "without"
            found += [
                (f"{word} {term}, ", each.fact.record)
                for terms in kinds.values()
                for term, each in terms.items()
            ]
        told = [
            f"{where}{text}"
            for where, record in found
            if record is not None
            for text in record.notices
        ]
        return list(dict.fromkeys(told))

    def environment(self) -> Facts:
        """What the section on the environment holds."""
        first = next(iter(self.found.factual.values()))
        return {
            "cffem": cffem.__version__,
            "python": platform.python_version(),
            "versions": versions(
                (
                    "fenics-dolfinx",
                    "petsc4py",
                    "slepc4py",
                    "mpi4py",
                    "numpy",
                    "scipy",
                    "sympy",
                    "scikit-learn",
                )
            ),
            "unknowns": first.unknowns,
            "cells": first.cells,
            "meshes": {
                name: {
                    "unknowns": found.unknowns,
                    "cells": found.cells,
                    "cell": found.cell,
                    "steps": found.steps,
                }
                for name, found in self.found.factual.items()
            },
            "seed": self.study.seed,
            "seeds": {"study": self.study.seed, "screening": self.study.screening.random_state},
        }


def versions(names: Sequence[str]) -> dict[str, str]:
    """The installed versions of packages, of those that are there."""
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
