# SPDX-License-Identifier: MIT
"""Facts about designs, screens, constraints and observables: what these stations hand on.

The report takes designs, screens and constraints as they are, so their names are those of its
schema; a test compares both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from cffem.study.run.plain_facts import PlainFact


@dataclass(frozen=True)
class AliasFact(PlainFact):
    """Terms whose coefficients the rows cannot tell apart.

    Attributes:
        terms: the terms.
        identified, latex: the combinations that are identified.
        estimates: their values.
        sentence: all that in words.
    """

    terms: tuple[str, ...]
    identified: tuple[str, ...]
    latex: tuple[str, ...]
    estimates: tuple[float, ...]
    sentence: str


@dataclass(frozen=True)
class EigenvalueFact(PlainFact):
    """Between which numbers the restricted eigenvalue for supports of `s` terms lies."""

    s: int
    lower: float
    upper: float


@dataclass(frozen=True)
class SelectedFact(PlainFact):
    """The Gram matrix of the normalised columns of a support."""

    terms: tuple[str, ...]
    minimum_eigenvalue: float
    condition: float


@dataclass(frozen=True)
class DesignFact(PlainFact):
    """What the paper asks of the design of one equation.

    Attributes:
        kind: weak or strong rows.
        rows, effective_rows: how many, and how many of them count as independent.
        columns, names: the terms.
        coherence: the largest cosine between two columns.
        gram: the Gram matrix of normalised columns.
        rank: how many combinations of coefficients the rows determine.
        alias_groups: the terms that they do not tell apart.
        restricted_eigenvalue: of supports as large as that of the study.
        selected: of the terms with a coefficient; None where coefficients are not known yet.
        sources: notes about what the rows come from.
    """

    kind: str
    rows: int
    effective_rows: float
    columns: int
    names: tuple[str, ...]
    coherence: float
    gram: tuple[tuple[float, ...], ...]
    rank: int
    alias_groups: tuple[AliasFact, ...]
    restricted_eigenvalue: EigenvalueFact
    selected: SelectedFact | None
    sources: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class DesignFacts:
    """The designs of all equations, or why there is none.

    Attributes:
        equations: by the field whose equation it is.
        skipped: why there is none.
    """

    equations: Mapping[str, DesignFact] = field(default_factory=dict)
    skipped: str = ""

    @property
    def alias_groups(self) -> list[AliasFact]:
        """All alias groups of all equations."""
        return [group for found in self.equations.values() for group in found.alias_groups]

    def to_plain(self) -> dict[str, object]:
        """As JSON's own types."""
        if self.skipped:
            return {"skipped": self.skipped}
        return {label: found.to_plain() for label, found in self.equations.items()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """The facts that `to_plain` wrote."""
        if isinstance(plain.get("skipped"), str):
            return cls(skipped=plain["skipped"])
        return cls({label: DesignFact.from_plain(found) for label, found in plain.items()})


@dataclass(frozen=True)
class SkillFact(PlainFact):
    """How much better the selected terms predict rows that were left out than the mean does."""

    skill: float | None
    rmse: float | None
    mean_predictor: float | None
    blocks: int


@dataclass(frozen=True)
class PathFact(PlainFact):
    """The path of a screen: coefficients by term over the penalty λ."""

    PLAIN_NAMES: ClassVar[Mapping[str, str]] = {"penalties": "lambda"}

    penalties: tuple[float, ...]
    coefficients: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class ScreeningFact(PlainFact):
    """The screen of one equation.

    Attributes:
        anchor, normalisation, method, debiasing: how it was done, in words.
        penalty, threshold: λ and τ; None where the method has none.
        noise_level: of the rows.
        support: the selected terms.
        coefficients, intervals: of all terms; zero where a term is not selected.
        limits: between which numbers the coefficient of each term can be; None is unbounded.
        frequencies: how often each term is selected in bootstrap replicates.
        bound, optimistic_bound, irrepresentability, contract, no_false_positive, sign_recovery,
            contract_estimated: of the recall contract.
        reliable, reasons: whether the screen stands by its result, and why not.
        win_rate: how often the support wins against others.
        path: the path of coefficients.
        selected: of the design's selected columns.
        skill: on rows that were left out.
        seed: of the random numbers.
        hidden_share: of the anchor, that a term outside the support could carry.
        doubts: the kind of each reason.
    """

    PLAIN_NAMES: ClassVar[Mapping[str, str]] = {"penalty": "lambda", "threshold": "tau"}

    anchor: str
    normalisation: str
    method: str
    debiasing: str
    penalty: float | None
    threshold: float | None
    noise_level: float = 0.0
    support: tuple[str, ...] = ()
    coefficients: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    limits: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    frequencies: Mapping[str, float] = field(default_factory=dict)
    bound: float | None = None
    optimistic_bound: float | None = None
    irrepresentability: float = 0.0
    contract: str = ""
    no_false_positive: str = ""
    sign_recovery: str = ""
    contract_estimated: bool = False
    reliable: bool = False
    reasons: tuple[str, ...] = ()
    win_rate: float = 0.0
    path: PathFact = field(default_factory=lambda: PathFact(()))
    selected: SelectedFact | None = None
    skill: SkillFact | None = None
    seed: int | None = None
    hidden_share: float = 0.0
    doubts: tuple[str, ...] = ()


ScreeningFacts = Mapping[str, ScreeningFact]


@dataclass(frozen=True)
class LimitFact(PlainFact):
    """What an unselected term could do at most.

    Attributes:
        limit: the largest coefficient that it could have.
        effects: how far the solution moves with it, for each field that is judged by itself; None
            where that problem was not solved.
    """

    limit: float
    effects: Mapping[str, float] | None


@dataclass(frozen=True)
class LinearisedFact(PlainFact):
    """‖L_u⁻¹ α_j T_j[u]‖ by term, or why the linearised problem was not solved."""

    scores: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class ResidualFact(PlainFact):
    """C_j, RCI_j and the one-step score of a term."""

    contribution: float
    rci: float
    one_step: float


@dataclass(frozen=True)
class AdjointFact(PlainFact):
    """O[u] and I_j by term, or why the adjoint problem was not solved."""

    value: float
    scores: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class ObservableBoundFact(PlainFact):
    """The error bar of what a deletion does to an observable, or why there is none."""

    margin: float | None = None
    kind: str | None = None
    method: str | None = None
    reason: str = ""


@dataclass(frozen=True)
class SpreadFact(PlainFact):
    """How much things change within the interval of one coefficient.

    Attributes:
        scores: of each deletion.
        observables: of each deletion, for each observable.
        solution: the solution itself.
        readings: what sensors see of each deletion, in standard deviations.
    """

    scores: Mapping[str, float]
    observables: Mapping[str, Mapping[str, float]]
    solution: float
    readings: Mapping[str, float] = field(default_factory=dict)


# By experiment, and by term or observable within it.
SpreadFacts = Mapping[str, Mapping[str, SpreadFact]]
AdjointFacts = Mapping[str, Mapping[str, AdjointFact]]


@dataclass(frozen=True)
class NullFact(PlainFact):
    """A term that vanishes on the constraint class, with the evidence."""

    term: str
    evidence: str
    ratio: float
    bound: float | None
    trajectory: float
    label: str
    reason: str


@dataclass(frozen=True)
class ClassFact(PlainFact):
    """Terms that are equivalent on the constraint class."""

    terms: tuple[str, ...]
    representatives: tuple[str, ...]
    identified: tuple[str, ...]
    evidence: str
    ratio: float
    label: str


@dataclass(frozen=True)
class ConstraintFact(PlainFact):
    """What the constraint of an experiment hides.

    Attributes:
        constraint: the constraint as an equation.
        null_terms, equivalence_classes: what cannot be seen on its class.
        effective_library: the terms that are left.
    """

    PLAIN_NAMES: ClassVar[Mapping[str, str]] = {"constraint": "class"}

    constraint: str
    null_terms: tuple[NullFact, ...] = ()
    equivalence_classes: tuple[ClassFact, ...] = ()
    effective_library: tuple[str, ...] = ()


ConstraintFacts = Mapping[str, ConstraintFact]


@dataclass(frozen=True)
class MisfitFact(PlainFact):
    """How far the solution of the fitted model is from the data of one experiment.

    Attributes:
        misfit: relative to the data.
        noise: of the data, relative to them.
        discretisation: relative error of the solution; None where it is not known.
        explained: what noise, intervals and discretisation explain.
        coefficients: share of the solution that the intervals of the coefficients leave open.
        samples: how many values were compared.
        missing_terms: whether terms are missing; None where nobody can tell.
        skill_mean, skill_persistence: against the mean of the data and their first reading.
        sentence: all this in words.
        skipped: why there is none.
    """

    misfit: float | None = None
    noise: float | None = None
    discretisation: float | None = None
    explained: float | None = None
    coefficients: float | None = None
    samples: int = 0
    missing_terms: bool | None = False
    skill_mean: float | None = None
    skill_persistence: float | None = None
    sentence: str = ""
    skipped: str | None = None

    def to_plain(self) -> dict[str, object]:
        """As JSON's own types: the reason alone where there is none."""
        if self.skipped is not None:
            return {"skipped": self.skipped}
        return {name: value for name, value in super().to_plain().items() if name != "skipped"}


MisfitFacts = Mapping[str, MisfitFact]


@dataclass(frozen=True)
class CandidateFact(PlainFact):
    """What the rows of one further experiment would bring to one equation.

    Attributes:
        equation: its label.
        name, experiment: of the candidate, and its initial values in words.
        rank, minimum_eigenvalue: of the design with its rows.
        separated: groups of terms that it tells apart.
    """

    equation: str
    name: str
    experiment: str
    rank: int
    minimum_eigenvalue: float
    separated: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class ProposalFact(PlainFact):
    """The best further experiment.

    Attributes:
        generated: whether the candidates are modes of the domain, not the user's.
        failed: why some could not be solved, by name.
        candidates: what each brings.
        best: the name of the best one; None where none helps.
        sentence: what to do next, in words.
    """

    generated: bool
    failed: Mapping[str, str] = field(default_factory=dict)
    candidates: tuple[CandidateFact, ...] = ()
    best: str | None = None
    sentence: str = ""
