# SPDX-License-Identifier: MIT
"""Reading u_tt + σ u_t + α D*D u + m u + S(x) u = s off a symbolic equation of second order in
time.

D is the gradient (D*D = −Δ) for a scalar and the curl for a vector field; α, σ and m are constants,
S is a matrix that is affine in x, such as E ↦ B₀ × E. On divergence-free fields ∇ div vanishes, so
that it may occur with any coefficient there. The coefficients are derivatives of the components of
the SymPy terms with respect to the field and its partial derivatives; no assembled form is
involved, so that a certificate judges a solve by the equation that was written down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from cffem.bounds.certificate import NotCovered
from cffem.bounds.scalar_problem import Key, linear_parts, only_equation
from cffem.symbols.algebra.components import to_components
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.fields import Field, VectorField
from cffem.symbols.operators import Inverse, dt

if TYPE_CHECKING:
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System


@dataclass(frozen=True)
class WaveOperator:
    """u ↦ σ u_t + α D*D u + m u + S(x) u − s.

    Attributes:
        stiffness: α.
        damping: σ.
        mass: m, a third of the trace of the zeroth-order matrix in space, half of it in the plane.
        matrix, slope: S(x) = matrix + Σ_i slope[i] x_i, of trace zero where it is constant.
        source: the components of s.
    """

    stiffness: float
    damping: float
    mass: float
    matrix: np.ndarray
    slope: np.ndarray
    source: tuple[sp.Expr, ...]

    @property
    def skewed(self) -> bool:
        """Whether S is not zero."""
        return bool(self.matrix.any() or self.slope.any())

    def size(self, corners: np.ndarray) -> float:
        """The largest spectral norm of S over the convex hull of some points: it is convex,
        so it is attained at one of them.
        """
        matrices = self.matrix + np.einsum("ijk,pi->pjk", self.slope, corners)
        return float(np.linalg.norm(matrices, ord=2, axis=(1, 2)).max())

    def relative(self, base: WaveOperator) -> float:
        """The factor between this S and that of the same term with another coefficient."""
        ours, theirs = (np.concatenate([o.matrix.ravel(), o.slope.ravel()]) for o in (self, base))
        return float(ours @ theirs) / float(theirs @ theirs)

    def times(self, factor: float) -> WaveOperator:
        """The operator of a multiple."""
        return WaveOperator(
            factor * self.stiffness,
            factor * self.damping,
            factor * self.mass,
            factor * self.matrix,
            factor * self.slope,
            tuple(sp.Float(factor) * entry if entry != 0 else entry for entry in self.source),
        )

    def __add__(self, other: WaveOperator) -> WaveOperator:
        return WaveOperator(
            self.stiffness + other.stiffness,
            self.damping + other.damping,
            self.mass + other.mass,
            self.matrix + other.matrix,
            self.slope + other.slope,
            tuple(a + b for a, b in zip(self.source, other.source, strict=True)),
        )


def term_operators(
    library: Library | System, coefficients: Mapping[str, float], dim: int, constrained: bool
) -> dict[str, WaveOperator]:
    """−α_j T_j of every term with a nonzero coefficient, so that u_tt + Σ_j operator_j u = forcing.

    Args:
        library: a library with one unknown and the anchor dt(dt(u)).
        coefficients: α_j by name.
        dim: the dimension of space.
        constrained: whether the unknown is divergence-free.

    Raises:
        NotCovered: a term is of another kind; the message says why.

    Example:
        >>> import cffem as cf
        >>> E = cf.VectorField("E", dim=3)
        >>> terms = {"c": -cf.curl(cf.curl(E)), "d": -cf.dt(E), "h": cf.cross(E, (0, 0, 1))}
        >>> library = cf.Library(anchor=cf.dt(cf.dt(E)), terms=terms)
        >>> found = term_operators(library, {"c": 2.0, "d": 0.1, "h": 0.5}, 3, False)
        >>> found["c"].stiffness, found["d"].damping, (found["h"].matrix + 0.0).tolist()
        (2.0, 0.1, [[0.0, -0.5, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
    """
    library = only_equation(library)
    unknown = library.unknown
    if library.anchor != dt(dt(unknown)):
        raise NotCovered(
            "the equation is not one of second order in time with the anchor dt(dt(u))"
        )
    parameters = {
        p: sp.Float(value) for p, value in library.parameters.items() if value is not None
    }
    return {
        name: _read_once(library[name].xreplace(parameters), unknown, dim, constrained).times(
            -alpha
        )
        for name, alpha in coefficients.items()
        if alpha
    }


def wave_operator(expr: sp.Expr, unknown: Field, dim: int, constrained: bool) -> WaveOperator:
    """Read the coefficients off an expression.

    Raises:
        NotCovered: it is of another kind; the message says why.
    """
    parts = [unknown[i] for i in range(dim)] if isinstance(unknown, VectorField) else [unknown]
    if expr.has(Inverse):
        raise NotCovered("the stress of a finite deformation is not linear")
    rows = [linear_parts(sp.expand(entry), parts) for entry in to_components(expr, dim)]
    stiffness = (
        _vector_stiffness(rows, dim, constrained)
        if len(parts) > 1
        else _scalar_stiffness(rows[0][1], dim)
    )
    rates = np.array(
        [[_number(row.get((j, (t,)), sp.S.Zero)) for j in range(len(parts))] for _, row in rows]
    )
    if np.any(rates != rates[0, 0] * np.eye(len(parts))):
        raise NotCovered("the damping is not a constant multiple of the rate")
    matrix, slope = _matrix(
        [[row.get((j, ()), sp.S.Zero) for j in range(len(parts))] for _, row in rows], dim
    )
    known = {(), (t,)}
    for _, row in rows:
        for _, variables in row:
            if variables not in known and not (len(variables) == 2 and t not in variables):
                raise NotCovered(
                    "the equation has a derivative of another kind than a damped wave's"
                )
    mass = float(np.trace(matrix)) / len(parts)
    sources = tuple(-constant for constant, _ in rows)
    return WaveOperator(
        stiffness, float(rates[0, 0]), mass, matrix - mass * np.eye(len(parts)), slope, sources
    )


# Reading a term takes longer than a small solve, and sweeps read the same ones again and again.
_read_once = lru_cache(maxsize=256)(wave_operator)


def _scalar_stiffness(row: Mapping[Key, sp.Expr], dim: int) -> float:
    second = {key[1]: _number(value) for key, value in row.items() if len(key[1]) == 2}
    diagonal = [second.pop((s, s), 0.0) for s in SPACE[:dim]]
    if any(second.values()) or len({*diagonal}) > 1:
        raise NotCovered("the stiffness is not a constant multiple of the Laplacian")
    return 0.0 - diagonal[0]


def _vector_stiffness(rows: Any, dim: int, constrained: bool) -> float:
    """α of α curl curl + γ ∇ div, where γ counts only without the constraint."""
    first = rows[0][1]
    straight, own = (_number(first.get((0, (SPACE[i], SPACE[i])), sp.S.Zero)) for i in (1, 0))
    for i, (_, row) in enumerate(rows):
        second = {
            key: _number(value)
            for key, value in row.items()
            if len(key[1]) == 2 and t not in key[1]
        }
        for j in range(dim):
            pair = tuple(sorted((SPACE[i], SPACE[j]), key=str))
            wanted = (
                {(i, (SPACE[j], SPACE[j])): straight, (j, pair): own - straight}
                if i != j
                else {(i, pair): own}
            )
            for key, value in wanted.items():
                if abs(second.pop(key, 0.0) - value) > 1e-12 * (abs(straight) + abs(own)):
                    raise NotCovered(
                        "the stiffness is not a constant multiple of curl curl, up to grad div"
                    )
        if any(second.values()):
            raise NotCovered(
                "the stiffness is not a constant multiple of curl curl, up to grad div"
            )
    if own and not constrained:
        raise NotCovered("there is a term grad(div(E)) without the constraint div(E) = 0")
    return 0.0 - straight


def _matrix(entries: list[list[sp.Expr]], dim: int) -> tuple[np.ndarray, np.ndarray]:
    """The zeroth-order matrix at the origin and its slopes."""
    slope = np.array(
        [
            [[_number(sp.expand(e.diff(s)), "affine") for e in row] for row in entries]
            for s in SPACE[:dim]
        ]
    )
    matrix = np.array(
        [[_number(e.subs(dict.fromkeys(SPACE[:dim], 0))) for e in row] for row in entries]
    )
    return matrix, slope


def _number(value: sp.Expr, kind: str = "constant") -> float:
    value = sp.sympify(value)
    if value.free_symbols or not value.is_real:
        raise NotCovered(f"a coefficient is not {kind}: {value}")
    return float(value)
