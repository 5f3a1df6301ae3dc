# SPDX-License-Identifier: MIT
"""Equivalence classes of terms modulo the constraint, and the effective library that is left for
identification.

Restricted to the class, the terms of an equation span a space; where they are linearly dependent
only combinations of their coefficients can be identified. With the terms as columns, written in the
jets that are independent on the class, the reduced row echelon form gives both: its pivots are
representatives T_b, every other term is T_j = Σ_b R_bj T_b, and what is identified is α_b + Σ_j
R_bj α_j. In an equation tested against the class only, terms are compared modulo gradients. The
same relations are looked for on random members (`dependence`), without any symbols: what is found
both ways is exact on the discrete class too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sympy as sp

from cffem.constraints.dependence import Images, Relations, image, measured_relations, numbers
from cffem.constraints.modulo import coordinates_of
from cffem.constraints.natural import traces_agree
from cffem.constraints.nulls import UP_TO_DISCRETISATION, ConstraintAnalysis, TermEvidence
from cffem.symbols.errors import InputError, nearest

if TYPE_CHECKING:
    import numpy as np

    from cffem.engine.model import Model
    from cffem.symbols.fields import Field
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System


@dataclass(frozen=True)
class EquivalenceClass:
    """Terms that the class ties together.

    Attributes:
        terms: their names.
        representatives: terms that stand for the others; one for each identified combination.
        identified: the combinations of coefficients that can be identified, by representative, in
            symbols named after the terms.
        relations: for each term that is not a representative, the combination of representatives
            that it equals on the class.
        ratio: the largest ‖T_j − Σ R_bj T_b‖ / ‖T_j‖ over random members of the discrete class.
        label: "exact" or "null up to discretisation", for the differences.
        evidence: "symbolic" (proved by rewriting), "numeric" (measured to round-off on random
            members), or both; "symbolic or numeric" where some relations of the class are proved
            and others measured.
    """

    terms: tuple[str, ...]
    representatives: tuple[str, ...]
    identified: Mapping[str, sp.Expr]
    relations: Mapping[str, Mapping[str, sp.Expr]]
    ratio: float
    label: str
    evidence: str

    def __str__(self) -> str:
        listed = " and ".join(filter(None, [", ".join(self.terms[:-1]), self.terms[-1]]))
        combinations = ", ".join(str(expr) for expr in self.identified.values())
        only = "only the combination" if len(self.identified) == 1 else "only the combinations"
        return f"{only} {combinations} of the coefficients of {listed} can be identified"


@dataclass(frozen=True)
class EffectiveLibrary:
    """What is left of a library on its constraint class.

    Attributes:
        library: the terms that can be identified, one representative for each class.
        removed: the null terms that were taken out, with their evidence.
        classes: the terms that were grouped.
        forced: null terms that were kept because the user asked; their verdict is
            `constraint_null`.
        evidence: what is known about every term.
    """

    library: Library | System
    removed: tuple[TermEvidence, ...]
    classes: tuple[EquivalenceClass, ...]
    forced: tuple[TermEvidence, ...]
    evidence: Mapping[str, TermEvidence]

    def verdict(self, name: str) -> str | None:
        """ "constraint_null" for a null term, forced or not; "grouped" for one that another
        stands for; None for the others.
        """
        if self.evidence[name].status == "constraint_null":
            return "constraint_null"
        grouped = any(
            name in group.terms and name not in group.representatives for group in self.classes
        )
        return "grouped" if grouped else None

    def __str__(self) -> str:
        lines = [
            f"removed {null.term}: {null.reason} ({null.evidence}, ratio {null.ratio:.1e}, "
            f"{null.label})"
            for null in self.removed
        ]
        lines += [
            f"kept {null.term} as asked, verdict constraint_null: {null.reason}"
            for null in self.forced
        ]
        lines += [
            f"grouped: {group} ({group.evidence}, {group.label}, ratio {group.ratio:.1e})"
            for group in self.classes
        ]
        return "\n".join(lines) or "nothing was removed or grouped"


def effective_library(
    model: Model, force: Collection[str] = (), tested: bool | None = None, trajectory: bool = False
) -> EffectiveLibrary:
    """Remove null terms and group equivalent ones.

    Args:
        model: a model whose experiment declares a constraint.
        force: null terms to keep all the same.
        tested: whether the equation is tested against the class only; default: where the constraint
            names its multiplier.
        trajectory: whether terms are also measured on the factual solution.

    Raises:
        InputError: a forced term does not exist.
    """
    for name in force:
        if name not in model.library.names:
            raise InputError(
                f"there is no term {name!r} to keep; {nearest(name, model.library.names)}"
            )
    analysis = ConstraintAnalysis(model, tested, trajectory)
    evidence = analysis.terms
    classes = equivalence_classes(analysis)
    nulls = {null.term: null for null in analysis.nulls}
    grouped = {
        name for group in classes for name in group.terms if name not in group.representatives
    }
    gone = [
        name
        for name in model.library.names
        if (name in nulls and name not in force) or name in grouped
    ]
    kept = model.library.without(*gone) if gone else model.library
    removed = tuple(null for name, null in nulls.items() if name not in force)
    forced = tuple(null for name, null in nulls.items() if name in force)
    analysis.destroy()
    return EffectiveLibrary(kept, removed, classes, forced, evidence)


def equivalence_classes(analysis: ConstraintAnalysis) -> tuple[EquivalenceClass, ...]:
    """The classes of all equations of a model, null terms left out."""
    model, found = analysis.model, []
    equations: dict[Field, list[str]] = {}
    for name in analysis.names:
        if analysis.terms[name].status != "constraint_null":
            equations.setdefault(model.library.locate(name)[0], []).append(name)
    images = Images(analysis)
    for names in equations.values():
        found += _classes_of(analysis, images, names)
    return tuple(found)


def _classes_of(
    analysis: ConstraintAnalysis, images: Images, names: Sequence[str]
) -> list[EquivalenceClass]:
    """Classes from relations that are proved, measured or both; a proof comes first, because
    its coefficients are exact.
    """
    proved = proved_relations(analysis, names)
    measured = measured_relations(images, names)
    relations = {
        **{name: found for name, found in measured.items() if name not in proved},
        **proved,
    }
    # A term cannot stand for others if it is itself a combination; proofs are reduced already.
    usable = {
        name: found
        for name, found in relations.items()
        if name in proved or not set(found) & set(relations)
    }
    return [
        _class(analysis, images, group, usable, proved, measured) for group in _connected(usable)
    ]


def proved_relations(analysis: ConstraintAnalysis, names: Sequence[str]) -> Relations:
    """T_j = Σ R_bj T_b on the class by rewriting, in weak form too: natural traces must agree
    where the boundary has them.
    """
    tested = analysis.closed and all(analysis.tested_here(name) for name in names)
    modulo, library = analysis.modulo, analysis.model.library
    entries = {
        name: modulo.tested_against_class(library[name])
        if tested
        else modulo.normal_form(library[name])
        for name in names
    }
    rows = {name: coordinates_of(entry) for name, entry in entries.items()}
    keys = sorted({key for row in rows.values() for key in row}, key=str)
    matrix = sp.Matrix(
        len(keys), len(names), lambda i, j: sp.nsimplify(rows[names[j]].get(keys[i], 0))
    )
    reduced, pivots = matrix.rref()
    found = {
        name: {names[b]: reduced[row, j] for row, b in enumerate(pivots) if reduced[row, j] != 0}
        for j, name in enumerate(names)
        if j not in pivots
    }
    discretisation = analysis.model.discretisation
    return {
        name: combination
        for name, combination in found.items()
        if traces_agree(
            discretisation,
            modulo,
            {name: sp.S.One, **{b: -factor for b, factor in combination.items()}},
        )
    }


def _connected(relations: Mapping[str, Mapping[str, sp.Expr]]) -> list[set[str]]:
    """Terms that share a representative belong together."""
    groups: list[set[str]] = []
    for name, combination in relations.items():
        together = {name, *combination}
        touching = [group for group in groups if group & together]
        groups = [group for group in groups if not group & together] + [together.union(*touching)]
    return groups


def _class(
    analysis: ConstraintAnalysis,
    images: Images,
    group: set[str],
    relations: Relations,
    proved: Relations,
    measured: Relations,
) -> EquivalenceClass:
    names = tuple(name for name in analysis.names if name in group)
    inside = {name: relations[name] for name in names if name in relations}
    representatives = tuple(name for name in names if name not in inside)
    symbols = {name: sp.Symbol(name) for name in names}
    identified = {
        b: symbols[b]
        + sp.Add(
            *(
                combination[b] * symbols[name]
                for name, combination in inside.items()
                if b in combination
            )
        )
        for b in representatives
    }
    ratio = max(images.difference(name, combination) for name, combination in inside.items())
    label = "exact" if ratio <= analysis.threshold else UP_TO_DISCRETISATION
    sources = {
        "symbolic": all(name in proved for name in inside),
        "numeric": all(name in measured for name in inside),
    }
    evidence = (
        " and ".join(word for word, there in sources.items() if there) or "symbolic or numeric"
    )
    return EquivalenceClass(names, representatives, identified, inside, ratio, label, evidence)


def difference_on(
    analysis: ConstraintAnalysis,
    name: str,
    combination: Mapping[str, sp.Expr],
    members: tuple[np.ndarray, ...],
) -> float:
    """‖T_j − Σ R_bj T_b‖ / ‖T_j‖ on one member of the class with its rate and acceleration."""
    whole = image(analysis, name, members)
    rest = whole - sum(
        f * image(analysis, b, members) for b, f in numbers(analysis, combination).items()
    )
    size = analysis.evaluation.norm(whole)
    return analysis.evaluation.norm(rest) / size if size else 0.0
