# SPDX-License-Identifier: MIT
"""Linear dependence of terms on the class, measured: which term is a combination of the others on
random members.

With a_j the stack of T_j[P w] over random members w (projected where the equation is tested against
the class only), the terms are orthogonalised in the order of the library. A term whose remainder is
at round-off depends on those before it, and the triangular system gives the combination. Stacks
have many times more entries than a library has terms, so that dependence by chance is out of the
question; a relation must then hold on every member by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp

from cffem.constraints.nulls import ConstraintAnalysis

Relations = dict[str, dict[str, sp.Expr]]


@dataclass(frozen=True)
class FractionSettings:
    """Which fraction a coefficient stands for.

    Args:
        near: how near a fraction must be; coefficients are known to about the threshold.
        denominator: largest denominator of a fraction that may have been meant.
    """

    near: float = 1e-9
    denominator: int = 1000


FRACTIONS = FractionSettings()


class Images:
    """The terms on the random members of an analysis, each computed once.

    Args:
        analysis: whose samples, Riesz representatives and projection are used.
    """

    def __init__(self, analysis: ConstraintAnalysis):
        self.analysis = analysis
        self._found: dict[str, list[np.ndarray]] = {}

    def __getitem__(self, name: str) -> list[np.ndarray]:
        if name not in self._found:
            self._found[name] = [
                image(self.analysis, name, members) for _, members in self.analysis.samples
            ]
        return self._found[name]

    def inner(self, a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> float:
        """The L2 inner product of two stacks."""
        mass, comm = self.analysis.model.norm("L2").matrix, self.analysis.model.comm
        left, right = mass.createVecs()
        total = 0.0
        for one, other in zip(a, b, strict=True):
            right.array[:] = other
            mass.mult(right, left)
            total += float(one @ left.array_r)
        left.destroy()
        right.destroy()
        return comm.allreduce(total)

    def difference(self, name: str, combination: Mapping[str, sp.Expr]) -> float:
        """The largest ‖T_j − Σ R_bj T_b‖ / ‖T_j‖ over the members."""
        factors = numbers(self.analysis, combination)
        largest = 0.0
        for k, whole in enumerate(self[name]):
            rest = whole - sum(factor * self[b][k] for b, factor in factors.items())
            size = self.analysis.evaluation.norm(whole)
            largest = max(largest, self.analysis.evaluation.norm(rest) / size if size else 0.0)
        return largest


def image(analysis: ConstraintAnalysis, name: str, members: tuple[np.ndarray, ...]) -> np.ndarray:
    """The Riesz representative of T_j[w], seen by the test functions that count."""
    found = analysis.evaluation.representative(analysis.evaluation.functional(name, members))
    return analysis.projection.project(found) if analysis.tested_here(name) else found


def numbers(analysis: ConstraintAnalysis, combination: Mapping[str, sp.Expr]) -> dict[str, float]:
    """The factors of a combination with the values of the library's parameters."""
    values = {str(p): v for p, v in analysis.model.library.parameters.items() if v is not None}
    return {
        b: float(factor.subs({s: values[str(s)] for s in factor.free_symbols}))
        for b, factor in combination.items()
    }


def measured_relations(images: Images, names: Sequence[str]) -> Relations:
    """Terms that are combinations of earlier ones on every random member, to round-off.

    Args:
        images: the terms on the members.
        names: terms of one equation that are not null.
    """
    threshold = images.analysis.threshold
    scales = [
        sum(images.analysis.evaluation.norm(images[name][k]) for name in names) or 1.0
        for k in range(len(images[names[0]]))
    ]
    basis: list[list[np.ndarray]] = []
    pivots: list[str] = []
    triangle: list[np.ndarray] = []
    relations: Relations = {}
    for name in names:
        rest = [part / scale for part, scale in zip(images[name], scales, strict=True)]
        size = np.sqrt(max(images.inner(rest, rest), 0.0))
        along = np.zeros(len(basis))
        for _ in range(2):  # once more, for the round-off of the first pass
            for k, q in enumerate(basis):
                step = images.inner(rest, q)
                along[k] += step
                rest = [r - step * part for r, part in zip(rest, q, strict=True)]
        left = np.sqrt(max(images.inner(rest, rest), 0.0))
        if left <= threshold * size:
            relation = combination_of(along, triangle, pivots)
            if images.difference(name, relation) <= threshold:
                relations[name] = relation
            continue
        basis.append([r / left for r in rest])
        pivots.append(name)
        triangle.append(np.append(along, left))
    return relations


def combination_of(
    along: np.ndarray, triangle: Sequence[np.ndarray], pivots: Sequence[str]
) -> dict[str, sp.Expr]:
    """Components along the orthonormal basis as a combination of the terms that the basis was made
    from.

    Example:
        >>> import numpy as np
        >>> combination_of(
        ...     np.array([1.0, 2.0]), [np.array([2.0]), np.array([1.0, 1.0])], ["a", "b"]
        ... )
        {'a': -1/2, 'b': 2}
    """
    count = len(triangle)
    matrix = np.zeros((count, count))
    for j, column in enumerate(triangle):
        matrix[: len(column), j] = column
    factors = np.linalg.solve(matrix, along) if count else np.zeros(0)
    largest = np.abs(factors).max(initial=0.0)
    return {
        name: as_fraction(f)
        for name, f in zip(pivots, factors, strict=True)
        if abs(f) > FRACTIONS.near * largest
    }


def as_fraction(value: float) -> sp.Expr:
    """A small fraction where the number is one to within what was measured, else the number."""
    fraction = sp.Rational(value).limit_denominator(FRACTIONS.denominator)
    return (
        fraction if abs(float(fraction) - value) <= FRACTIONS.near * abs(value) else sp.Float(value)
    )
