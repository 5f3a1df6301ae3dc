# SPDX-License-Identifier: MIT
"""Station: what to measure next where the experiments cannot tell terms apart.

Candidates are the experiments that the user lists, or else starts from single modes of the bounding
box of the first experiment; each is solved with the present coefficients, and `Design.additions`
says what its rows would bring.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from cffem.engine.model import Model
from cffem.engine.solve.linear import SolveError
from cffem.study.run.identified_facts import AliasFact, CandidateFact, DesignFacts, ProposalFact
from cffem.study.run.running import Run
from cffem.study.run.stations.identifying import Identification
from cffem.symbols.coordinates import SPACE
from cffem.symbols.errors import InputError
from cffem.symbols.problem.conditions import Dirichlet, Periodic, Tangential
from cffem.symbols.problem.experiment import Experiment

if TYPE_CHECKING:
    from cffem.design.design import Design
    from cffem.design.design_parts import Addition


MODES = 4


def proposal(run: Run, identification: Identification, design: DesignFacts) -> ProposalFact | None:
    """The best further experiment; None where every coefficient is identified, or no model
    can be solved to look for one.
    """
    groups = design.alias_groups
    if not groups or not run.models:
        return None
    run.progress.begin("next experiment")
    return run.fact(
        ProposalFact, "next/all", lambda: proposed(run, identification, groups), "candidates"
    )


def proposed(run: Run, identification: Identification, groups: list[AliasFact]) -> ProposalFact:
    """Solve all candidates and compare what they bring, for the equations with aliases."""
    first = next(iter(run.experiments.values()))
    generated = not run.study.candidates
    candidates = modes(run, first) if generated else dict(run.study.candidates)
    found: dict[str, dict[str, Design]] = {}
    failed: dict[str, str] = {}
    for name, experiment in candidates.items():
        try:
            found[name] = designs_of(run, identification, experiment)
        except (SolveError, InputError, ValueError) as error:
            if not generated and isinstance(error, InputError):
                raise
            failed[name] = str(error)
    aliased = {term for group in groups for term in group.terms}
    offers = []
    for label, base in identification.designs.items():
        if aliased & set(base.names) and found:
            offers += [
                (label, addition)
                for addition in base.additions(
                    {name: designs[label] for name, designs in found.items()}
                )
            ]
    return ProposalFact(
        generated,
        failed,
        tuple(
            CandidateFact(
                label,
                addition.name,
                str({str(k): str(v) for k, v in candidates[addition.name].initial.items()}),
                addition.rank,
                addition.minimum_eigenvalue,
                tuple(tuple(group) for group in addition.separated),
            )
            for label, addition in offers
        ),
        best(offers),
        sentence(offers, groups),
    )


def designs_of(
    run: Run, identification: Identification, experiment: Experiment
) -> dict[str, Design]:
    """The designs of one candidate experiment, solved with the present coefficients."""
    coefficients = next(iter(run.models.values())).coefficients
    with Model(run.study.library, coefficients, experiment, run.study.petsc_options) as model:
        return identification.designs_of([model.factual])


def best(offers: list[tuple[str, Addition]]) -> str | None:
    """The name of the candidate that tells most groups apart, then with the largest eigenvalue."""
    useful = [addition for _, addition in offers if addition.separated]
    return (
        max(useful, key=lambda a: (len(a.separated), a.rank, a.minimum_eigenvalue)).name
        if useful
        else None
    )


def sentence(offers: list[tuple[str, Addition]], groups: list[AliasFact]) -> str:
    """What to do next, in words."""
    terms = "; ".join(", ".join(group.terms) for group in groups)
    name = best(offers)
    if name is None:
        return f"None of the experiments that were tried tells these terms apart: {terms}."
    apart = next(a for _, a in offers if a.name == name).separated
    told = "; ".join(", ".join(group) for group in apart)
    return f"Add the experiment “{name}”: it tells apart {told}."


# Modes
# --------------------------------------------------------------------------------------------------


def modes(run: Run, experiment: Experiment) -> dict[str, Experiment]:
    """Experiments like this one that start from (or, if steady, are driven by) one mode of
    the bounding box each.
    """
    mesh = experiment.mesh.mesh
    points = mesh.geometry.x
    both = mesh.comm.allgather(
        (points.min(axis=0), points.max(axis=0))
        if len(points)
        else (np.full(3, np.inf), np.full(3, -np.inf))
    )
    low, high = np.min([b[0] for b in both], axis=0), np.max([b[1] for b in both], axis=0)
    dimension = mesh.geometry.dim
    found = {}
    for numbers in itertools.islice(wave_numbers(dimension), MODES):
        shape = mode(experiment, numbers, low, high)
        name = f"mode {'×'.join(map(str, numbers))}"
        found[name] = started(run, experiment, shape, dimension)
    return found


def wave_numbers(dimension: int) -> Any:
    """Pairwise different numbers of half waves along each axis, the slowest first: the mode
    1×1×1 is what people try first.
    """
    everything = itertools.product(range(1, 5), repeat=dimension)
    return iter(sorted(everything, key=lambda k: (sum(n * n for n in k), k))[1:])


def mode(
    experiment: Experiment, numbers: tuple[int, ...], low: np.ndarray, high: np.ndarray
) -> sp.Expr:
    """A product of sines that vanish at the sides, of cosines where no value is given there,
    or of whole periodic waves.
    """
    conditions = experiment.boundary
    periodic = any(isinstance(c, Periodic) for c in conditions)
    given = any(isinstance(c, Dirichlet | Tangential) for c in conditions)
    shape = sp.S.One
    for coordinate, number, start, end in zip(SPACE, numbers, low, high, strict=False):
        # Six digits of the length, whatever its unit, read better than sixteen.
        digits = 5 - math.floor(math.log10(end - start))
        first, length = (
            sp.nsimplify(round(float(value), digits)) for value in (start, end - start)
        )
        phase = number * sp.pi * (coordinate - first) / length
        shape *= sp.sin(2 * phase) if periodic else sp.sin(phase) if given else sp.cos(phase)
    return shape


def started(run: Run, experiment: Experiment, shape: sp.Expr, dimension: int) -> Experiment:
    """The experiment with a mode as initial value of every field with a rate, or as forcing
    of a steady problem.
    """
    values: Mapping[sp.Expr, object] = {
        unknown: shape
        if not unknown.shape
        else tuple(shape * sp.Rational(1, i + 1) for i in range(dimension))
        for unknown in run.study.library.unknowns
    }
    if experiment.time is None:
        return replace(experiment, forcing={**experiment.forcing, **values})
    dynamic = {u: v for u, v in values.items() if run.study.library.equations[u].time_order}
    return replace(experiment, initial={**experiment.initial, **dynamic})
