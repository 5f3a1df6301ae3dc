# SPDX-License-Identifier: MIT
"""What a design is made of, and when its columns count as dependent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy as sp

from cffem.data.rows.row_blocks import RowBlock
from cffem.symbols.problem.library import CandidateTerms


@dataclass(frozen=True)
class DesignSettings:
    """When columns count as dependent.

    Args:
        matrix_blocks: blocks into which the rows of a matrix are divided.
        exact_leakage: entry of a null vector below which its term is not part of the alias.
        noisy_leakage: the same with noise, which turns null vectors by about this much.
        independent: share of a probe column outside the span of the others that makes it a
            column of its own.
    """

    matrix_blocks: int = 12
    exact_leakage: float = 1e-3
    noisy_leakage: float = 0.1
    independent: float = 1e-9


DESIGN = DesignSettings()


# Aliases of fields are exact only up to quadrature and interpolation; a source with larger errors
# says so in notes["tolerance"].
FIELD_TOLERANCE = {"weak": 1e-7, "strong": 1e-10}


@dataclass(frozen=True)
class Addition:
    """What a candidate experiment would bring.

    Args:
        name: of the candidate.
        minimum_eigenvalue: λ_min of the normalised Gram of the stacked design.
        rank: of the stacked design.
        separated: alias groups of the present design that the stacked design tells apart.
    """

    name: str
    minimum_eigenvalue: float
    rank: int
    separated: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Origin:
    """What a design was made of: library, solutions or datasets, the kind of its rows, and the
    coefficients that are known.
    """

    library: CandidateTerms
    sources: tuple[Any, ...]
    kind: str
    known: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ProbedTerms:
    """A library with common terms that it lacks, evaluated along with it."""

    anchor: sp.Expr | None
    terms: Mapping[str, sp.Expr]


def relabelled(block: RowBlock, source: int) -> RowBlock:
    """The same rows under a label that also names their source."""
    return RowBlock(
        block.A,
        block.y,
        block.weights,
        (source, block.block),
        getattr(block, "denoised", None),
        getattr(block, "noise", None),
        getattr(block, "effective", None),
    )
