# SPDX-License-Identifier: MIT
"""Station: the operator-evaluation design of the effective library, its diagnostics, and the screen
for terms.

Rows come from measured data, or from the factual solutions where the coefficients are known;
several experiments are stacked. A system of equations has one design for each of them. Screening
and refit are done for unknown coefficients only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from sklearn.base import clone

from cffem.design.aliasing import AliasGroup
from cffem.design.design import Design
from cffem.screening.screening import Screening
from cffem.screening.skill import held_out_skill
from cffem.study.run.auxiliary_fields import definitions
from cffem.study.run.identified_facts import (
    AliasFact,
    DesignFact,
    DesignFacts,
    EigenvalueFact,
    PathFact,
    ScreeningFact,
    ScreeningFacts,
    SelectedFact,
    SkillFact,
)
from cffem.study.run.running import Run
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field
from cffem.symbols.form_terms import forms_among

if TYPE_CHECKING:
    from cffem.data.dataset import Dataset
    from cffem.engine.solution import Solution
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System


Facts = dict[str, Any]
KIND = "weak"
# Terms of a support whose restricted eigenvalue is bracketed at most.
LARGEST_SUPPORT = 8
KNOTS = 200


@dataclass(frozen=True)
class EffectiveEquation:
    """One equation with the terms that can be identified, under the names that the study uses."""

    anchor: sp.Expr | None
    terms: Mapping[str, sp.Expr]
    unknown: Field


class Identification:
    """The designs of a run, one for each equation, made when they are needed.

    Args:
        run: the run.
        names: the terms that can be identified at all.
    """

    def __init__(self, run: Run, names: Iterable[str]):
        self.run = run
        self.names = tuple(names)

    @cached_property
    def equations(self) -> dict[str, EffectiveEquation]:
        """The effective library of each equation."""
        library, found = self.run.study.library, {}
        # Solutions have their auxiliary fields; data have what defines them.
        defined = definitions(library) if self.run.study.regressed else {}
        for unknown, equation in library.equations.items():
            mine = {
                name: library[name].xreplace(defined).doit()
                for name in self.names
                if library.locate(name)[0] == unknown
            }
            if mine:
                found[str(unknown)] = EffectiveEquation(equation.anchor, mine, unknown)
        return found

    def sources(self) -> list[Dataset | Solution]:
        """What the rows come from: measured data, else the factual solutions."""
        study = self.run.study
        return (
            list(study.data.values())
            if study.regressed
            else [m.factual for m in self.run.models.values()]
        )

    @cached_property
    def designs(self) -> dict[str, Design]:
        """The design of each equation."""
        return self.designs_of(self.sources())

    def designs_of(self, sources: list[Dataset | Solution]) -> dict[str, Design]:
        """The designs of these equations on other solutions or data."""
        return {
            label: Design.from_fields(lib, sources, KIND, comm=None)
            for label, lib in self.equations.items()
        }


def design(run: Run, identification: Identification) -> DesignFacts:
    """Diagnostics of the design of each equation, or why there is none."""
    run.progress.begin("design")
    return run.fact(DesignFacts, "design/all", lambda: diagnosed(identification), "diagnostics")


def diagnosed(identification: Identification) -> DesignFacts:
    """What the paper asks of a design, for each equation."""
    forms = forms_among(identification.run.study.library.items())
    if forms:
        return DesignFacts(
            skipped=f"{', '.join(forms)}: given as UFL forms, which have no regression rows"
        )
    try:
        designs = identification.designs
    except (InputError, ValueError) as error:
        if identification.run.study.regressed:
            raise
        return DesignFacts(skipped=f"these fields give no design: {error}")
    coefficients = known_coefficients(identification.run)
    return DesignFacts({label: diagnostics(made, coefficients) for label, made in designs.items()})


def known_coefficients(run: Run) -> Mapping[str, float] | None:
    """The coefficients of the models, given or calibrated; None before a regression."""
    if run.study.regressed:
        return None
    return next((m.coefficients for m in run.models.values()), run.study.coefficients or {})


def diagnostics(made: Design, coefficients: Mapping[str, float] | None) -> DesignFact:
    """Size, coherence, rank, alias groups and restricted eigenvalue of one design."""
    active = [name for name in made.names if coefficients is None or coefficients.get(name)]
    size = max(1, min(len(active), LARGEST_SUPPORT, len(made.names)))
    bracket = made.restricted_eigenvalue(size)
    return DesignFact(
        kind=KIND,
        rows=made.rows,
        effective_rows=made.effective_rows,
        columns=len(made.names),
        names=tuple(made.names),
        coherence=made.coherence(),
        gram=tuple(map(tuple, made.normalised_gram().tolist())),
        rank=made.rank(),
        alias_groups=tuple(map(alias_fact, made.alias_groups())),
        restricted_eigenvalue=EigenvalueFact(size, bracket.lower, bracket.upper),
        selected=None if coefficients is None else selected_gram(made, active),
        sources=tuple(plain_note(note) for note in made.sources),
    )


def alias_fact(group: AliasGroup) -> AliasFact:
    """What is kept of a group of aliases."""
    identified = combinations(group.identified)
    return AliasFact(
        terms=tuple(group.terms),
        identified=tuple(map(str, identified)),
        latex=tuple(map(sp.latex, identified)),
        estimates=tuple(group.estimates),
        sentence=str(group),
    )


def combinations(identified: sp.Basic) -> list[sp.Basic]:
    """The identified combinations of a group; none where nothing is identified."""
    return (
        []
        if identified == 0
        else list(identified)
        if isinstance(identified, sp.Tuple)
        else [identified]
    )


def selected_gram(made: Design, support: list[str]) -> SelectedFact | None:
    """λ_min and condition of the Gram of the normalised columns of a support."""
    if not support:
        return None
    found = made.selected_gram(support)
    return SelectedFact(tuple(support), float(found.minimum), float(found.condition))


def plain_note(note: Mapping[str, object]) -> Facts:
    """Notes of a source that are numbers or words."""
    kept: Facts = {}
    for key, value in note.items():
        if isinstance(value, Mapping):
            kept[str(key)] = plain_note(value)
        elif isinstance(value, bool | int | float | str | np.generic):
            kept[str(key)] = value.item() if isinstance(value, np.generic) else value
        elif isinstance(value, tuple | list) and all(isinstance(v, int | float) for v in value):
            kept[str(key)] = [float(v) for v in value]
    return kept


# Screening
# --------------------------------------------------------------------------------------------------


def screening(run: Run, identification: Identification) -> ScreeningFacts:
    """The screen of each equation, with coefficients and intervals by term; empty where the
    coefficients are known.
    """
    if not run.study.regressed:
        return {}
    run.progress.begin("screening", len(identification.equations))
    return {
        label: run.fact(
            ScreeningFact,
            f"screening/{label}",
            lambda label=label: screened(run, identification, label),
            label,
        )
        for label in identification.equations
    }


def screened(run: Run, identification: Identification, label: str) -> ScreeningFact:
    """Lasso path, support, refit and the recall contract of one equation."""
    made = identification.designs[label]
    screen = with_own_bounds(clone(run.study.screening), run.study.library, made.names).fit(made)
    contract = screen.contract_
    support = [name for name, kept in zip(made.names, screen.support_, strict=True) if kept]
    path = screen.path_
    stride = max(1, len(path.alphas) // KNOTS)
    path_fact = PathFact(
        tuple(float(v) for v in path.alphas[::stride]),
        {
            name: tuple(row[::stride].tolist())
            for name, row in zip(made.names, path.coefficients, strict=True)
        },
    )
    return ScreeningFact(
        anchor=str(identification.equations[label].anchor),
        normalisation="columns scaled to ‖A_j‖²/n = 1",
        method=screen.method,
        debiasing="noise-corrected least squares on the selected columns, a ridge of 1e-6 "
        "where they are nearly dependent",
        penalty=finite(screen.alpha_),
        threshold=finite(screen.threshold_),
        noise_level=float(screen.noise_level_),
        support=tuple(support),
        coefficients=named(made, screen.coef_),
        intervals={
            name: tuple(float(v) for v in pair)
            for name, pair in zip(made.names, screen.intervals_, strict=True)
        },
        limits={
            name: tuple(finite(v) for v in pair)
            for name, pair in zip(made.names, screen.limits_, strict=True)
        },
        hidden_share=float(screen.hidden_share_),
        frequencies=named(made, screen.frequencies_),
        bound=finite(contract.bound),
        optimistic_bound=finite(contract.optimistic_bound),
        irrepresentability=float(contract.irrepresentability),
        contract=contract.recall,
        no_false_positive=contract.no_false_positive,
        sign_recovery=contract.sign_recovery,
        contract_estimated=bool(contract.estimated),
        reliable=bool(screen.reliable_),
        reasons=tuple(screen.reasons_),
        doubts=tuple(doubt.kind for doubt in screen.reliability_.reasons),
        win_rate=float(screen.selection_.win_rate),
        path=path_fact,
        selected=selected_gram(made, support),
        skill=skill_of(made, support),
        seed=screen.random_state,
    )


def with_own_bounds(
    screen: Screening, library: Library | System, names: Iterable[str]
) -> Screening:
    """A screen with the bounds of the terms of one equation."""
    bounds = dict(screen.bounds or {})
    for name in bounds:
        library.locate(name)  # an error that names the terms, where there is no such term
    return screen.set_params(
        bounds={name: bounds[name] for name in names if name in bounds} or None
    )


def skill_of(made: Design, support: list[str]) -> SkillFact:
    """How much better the selected terms predict rows that were left out than the mean does."""
    found = held_out_skill(made, support)
    return SkillFact(found.value, found.rmse, found.baseline, found.blocks)


def named(made: Design, values: np.ndarray) -> dict[str, float]:
    """One number for each term."""
    return {name: float(value) for name, value in zip(made.names, values, strict=True)}


def finite(value: float) -> float | None:
    """A number, None where it is infinite."""
    return float(value) if math.isfinite(value) else None


def estimated(
    screens: ScreeningFacts,
) -> tuple[dict[str, float], dict[str, tuple[float, ...]]]:
    """Coefficients of the selected terms and their intervals, of all equations."""
    coefficients, intervals = {}, {}
    for screen in screens.values():
        for name in screen.support:
            coefficients[name] = screen.coefficients[name]
            intervals[name] = screen.intervals[name]
    return coefficients, intervals


def refitted_without(
    identification: Identification, screens: ScreeningFacts, term: str
) -> dict[str, float]:
    """The coefficients of the other selected terms, refitted on the data without one."""
    from cffem.screening.selection import refit

    result: dict[str, float] = {}
    for label, screen in screens.items():
        if term in screen.support:
            made = identification.designs[label]
            rest = [made.names.index(name) for name in screen.support if name != term]
            fitted = refit(made, rest)
            result = {
                made.names[j]: float(value)
                for j, value in zip(fitted.support, fitted.coefficients, strict=True)
            }
    return result
