# SPDX-License-Identifier: MIT
"""Aliasing: which terms an experiment cannot tell apart, and which combination of their
coefficients it does identify.

Coefficients α and α̃ are aliased when A(α − α̃) = 0 (the paper's aliasing obstruction). The null
space of the Gram therefore splits the terms into groups; within a group only the combinations
orthogonal to the null space are identified. For single-mode data u = a(t)φ_k with −Δφ_k = λ_k φ_k
the group is {u, Δu} and the identified combination κ − λ_k D.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import sympy as sp
from scipy.sparse.csgraph import connected_components

# A Gram forgets half of the digits: directions below this share of a column's energy are rounding
# and discretisation, not data.
ROUNDING = 1e-10
COEFFICIENT = "alpha_"  # begins the symbol of the coefficient of a term


@dataclass(frozen=True)
class AliasGroup:
    """Terms that the experiment cannot tell apart.

    Args:
        terms: names of the terms of the group.
        identified: the combination of coefficients that is identified; a `sympy.Tuple` if there are
            several, zero if there is none.
        estimates: least-squares values of the identified combinations, in the same order.
        null: basis of the directions of coefficient space (columns, original scale) along which
            nothing changes.
        name: of the invariance that ties them, where it is known.
    """

    terms: tuple[str, ...]
    identified: sp.Basic
    estimates: tuple[float, ...]
    null: np.ndarray
    name: str = ""

    def __str__(self) -> str:
        said = self._said()
        return f"{said} ({self.name})" if self.name else said

    def named(self, invariances: Mapping[str, Mapping[str, float]]) -> AliasGroup:
        """The group with the name of an invariance, a direction by term, whose part on these terms
        is one of its null directions.
        """
        for name, direction in invariances.items():
            along = np.array([direction.get(term, 0.0) for term in self.terms])
            part = np.linalg.lstsq(self.null, along, rcond=None)[0]
            outside = {term for term, value in direction.items() if value} - set(self.terms)
            close = np.linalg.norm(self.null @ part - along) <= 1e-3 * np.linalg.norm(along)
            if np.any(along) and close and not outside:
                return replace(self, name=name)
        return self

    def _said(self) -> str:
        if self.identified == 0:
            return f"{', '.join(self.terms)}: not excited by this experiment"
        combinations = (
            self.identified if isinstance(self.identified, sp.Tuple) else (self.identified,)
        )
        return (
            f"only {', '.join(map(self._spoken, combinations))} is identifiable of "
            f"{{{', '.join(self.terms)}}}"
        )

    def _spoken(self, combination: sp.Expr) -> str:
        """A combination of coefficients in words, in the order of the terms, with four digits."""
        own = {f"{COEFFICIENT}{name}": name for name in self.terms}
        parts = sorted(
            combination.as_coefficients_dict().items(),
            key=lambda part: [*own, str(part[0])].index(str(part[0])),
        )
        said = ""
        for symbol, factor in parts:
            number, shown = (
                float(factor),
                f"α({own[str(symbol)]})" if str(symbol) in own else str(symbol),
            )
            sign = (" − " if number < 0 else " + ") if said else ("−" if number < 0 else "")
            said += sign + (shown if abs(number) == 1 else f"{abs(number):.4g} {shown}")
        return said


@dataclass(frozen=True)
class NoiseLimits:
    """When a direction counts as null under noise.

    Attributes:
        clear: standard errors of the noise energy above which a direction is excited beyond doubt.
        hidden: standard errors below which noise hides a direction, however strong the noise is.
        negligible: energy per column below which a direction is null unless it is excited beyond
            doubt.
        rows: independent rows per term below which only relations of a few terms are told from
            chance.
        few: terms of such a relation at most.
        weight: least share that each of its terms has.
        relations: relations that are tried at most.
    """

    clear: float = 3.0
    hidden: float = 1.5
    negligible: float = 1e-3
    rows: float = 4.0
    few: int = 3
    weight: float = 0.1
    relations: int = 100_000


LIMITS = NoiseLimits()


def noise_tolerance(noise: np.ndarray, vectors: np.ndarray, rows: float) -> np.ndarray:
    """Energy that noise alone can leave in each direction of a noise-corrected Gram.

    The noise energy of a direction is estimated from `rows` independent rows, so it is known up to
    √(2/rows) of itself. Where three of these deviations are negligible they are the tolerance;
    where noise is stronger, so that a direction may well carry signal, only directions that noise
    hides count as null.

    Args:
        noise: expected noise energy in the normalised Gram.
        vectors: directions (columns).
        rows: number of independent rows.
    """
    deviation = np.sqrt(2 / max(rows, 1.0)) * np.einsum("ik,ij,jk->k", vectors, noise, vectors)
    size = (vectors**2).sum(axis=0)
    return np.maximum(
        np.minimum(LIMITS.clear * deviation, LIMITS.negligible * size), LIMITS.hidden * deviation
    )


Members = list[
    tuple[np.ndarray, int]
]  # the columns of each group and how many directions of it are null


def short_groups(sigma: np.ndarray, energy: Callable[[np.ndarray], np.ndarray]) -> Members:
    """Groups of terms that relations of two or three terms tie, in a normalised, noise-corrected
    Gram.

    With few independent rows per term some combination of many terms is always hidden by noise,
    which says nothing about any of them; that two or three terms are tied says something. A term
    that noise hides alone is a group by itself.

    Args:
        sigma: the Gram.
        energy: what noise can leave in directions (columns).
    """
    count = len(sigma)
    alone = np.diag(sigma) <= energy(np.eye(count))
    excited = np.flatnonzero(~alone)
    linked = np.zeros((count, count), dtype=bool)
    for size in range(2, LIMITS.few + 1):
        if math.comb(len(excited), size) > LIMITS.relations:
            break
        chosen = np.array(list(combinations(excited, size)), dtype=int).reshape(-1, size)
        tied_already = linked[chosen[:, :, None], chosen[:, None, :]].any(
            axis=(1, 2)
        )  # a shorter relation says it
        chosen = chosen[~tied_already]
        values, vectors = np.linalg.eigh(sigma[chosen[:, :, None], chosen[:, None, :]])
        directions = np.zeros((count, len(chosen)))
        directions[chosen.T, np.arange(len(chosen))] = vectors[:, :, 0].T
        balanced = np.abs(vectors[:, :, 0]).min(axis=1) > LIMITS.weight
        for related in chosen[balanced & (values[:, 0] <= energy(directions))]:
            linked[np.ix_(related, related)] = True
    groups: Members = [(np.array([j]), 1) for j in np.flatnonzero(alone)]
    tied = np.flatnonzero(linked.any(axis=1))
    _, labels = connected_components(linked[np.ix_(tied, tied)], directed=False)
    for group in (tied[labels == label] for label in np.unique(labels)):
        values, vectors = np.linalg.eigh(sigma[np.ix_(group, group)])
        directions = np.zeros((count, len(group)))
        directions[group] = vectors
        groups.append((group, max(1, int((values <= energy(directions)).sum()))))
    return groups


def null_groups(null: np.ndarray, leakage: float) -> Members:
    """Groups of terms that the null vectors of the whole Gram connect.

    Args:
        null: m × k orthonormal basis of the null space of the normalised Gram.
        leakage: share of a null vector that a term may hold by rounding or noise without belonging
            to the group.
    """
    projector = null @ null.T
    members = member_groups(null, leakage)
    return [(group, span(projector[np.ix_(group, group)]).shape[1]) for group in members]


def alias_groups(
    members: Members,
    sigma: np.ndarray,
    right: np.ndarray,
    scale: np.ndarray,
    names: Sequence[str],
    symbols: Mapping[str, sp.Symbol] | None = None,
) -> list[AliasGroup]:
    """What each group of terms identifies.

    Args:
        members: the groups.
        sigma: the normalised Gram. The null vectors of a group are computed from its own block,
            because noise turns the null vectors of the whole a little towards terms outside.
        right: Aᵀy/n with normalised columns.
        scale: column norms that turn normalised coefficients into original ones (β = β_normalised /
            scale).
        names: the terms.
        symbols: symbols of the coefficients; `alpha_NAME` for the rest.
    """
    bases = [np.linalg.eigh(sigma[np.ix_(group, group)])[1][:, :count] for group, count in members]
    columns = [group for group, _ in members]
    estimate = identified_estimate(sigma, right, columns, bases) / scale
    groups = []
    for group, basis in zip(columns, bases, strict=True):
        rows = reduced_rows(span(np.eye(len(group)) - basis @ basis.T).T * scale[group])
        coefficients = [
            (symbols or {}).get(names[j], sp.Symbol(f"{COEFFICIENT}{names[j]}")) for j in group
        ]
        combinations = [combination(row, coefficients) for row in rows]
        identified = (
            combinations[0]
            if len(combinations) == 1
            else sp.Tuple(*combinations)
            if combinations
            else sp.Integer(0)
        )
        values = tuple(float(row @ estimate[group]) for row in rows)
        groups.append(
            AliasGroup(
                tuple(names[j] for j in group), identified, values, basis / scale[group, None]
            )
        )
    return groups


def member_groups(null: np.ndarray, leakage: float) -> list[np.ndarray]:
    """The terms that null vectors connect."""
    projector = null @ null.T
    involved = np.flatnonzero(np.diag(projector) > leakage**2)
    linked = np.abs(projector[np.ix_(involved, involved)]) > leakage / 2
    _, labels = connected_components(linked, directed=False)
    return [involved[labels == label] for label in range(labels.max() + 1 if len(labels) else 0)]


def identified_estimate(
    sigma: np.ndarray, right: np.ndarray, members: list[np.ndarray], bases: list[np.ndarray]
) -> np.ndarray:
    """Least squares over coefficients without a part along the null vectors of the groups,
    which no data determine.
    """
    null = np.zeros((len(right), sum(basis.shape[1] for basis in bases)))
    used = 0
    for group, basis in zip(members, bases, strict=True):
        null[group, used : used + basis.shape[1]] = basis
        used += basis.shape[1]
    free = span(np.eye(len(right)) - null @ null.T)
    return free @ np.linalg.lstsq(free.T @ sigma @ free, free.T @ right, rcond=1e-9)[0]


def span(projector: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the range of a projector, up to the leakage between groups."""
    values, vectors = np.linalg.eigh((projector + projector.T) / 2)
    return vectors[:, values > 0.5]


def reduced_rows(rows: np.ndarray) -> np.ndarray:
    """Row echelon form with unit pivots: each combination starts with a plain coefficient."""
    rows = np.array(rows, dtype=float)
    used = 0
    for column in range(rows.shape[1] if rows.size else 0):
        if used == len(rows):
            break
        pivot = used + int(np.argmax(np.abs(rows[used:, column])))
        if abs(rows[pivot, column]) <= 1e-8 * np.abs(rows[pivot]).max():
            continue
        rows[[used, pivot]] = rows[[pivot, used]]
        rows[used] /= rows[used, column]
        others = [k for k in range(len(rows)) if k != used]
        rows[others] -= np.outer(rows[others, column], rows[used])
        used += 1
    return rows[:used]


def combination(row: np.ndarray, symbols: Sequence[sp.Symbol]) -> sp.Expr:
    """Σ row_j symbol_j with six significant digits, integers kept as integers."""
    terms = []
    for value, symbol in zip(row, symbols, strict=True):
        if abs(value) <= 1e-6 * np.abs(row).max():
            continue
        nearest = round(value)
        number = (
            sp.Integer(nearest)
            if abs(value - nearest) <= 1e-9 * abs(value)
            else sp.Float(float(f"{value:.6g}"), 6)
        )
        terms.append(number * symbol)
    return sp.Add(*terms)
