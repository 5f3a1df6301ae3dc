"""Random terms: what integration by parts leaves inside and puts on the boundary adds up to the
term, pointwise.

The boundary integrand is linear in the normal n, so it is F·n for a vector F, and T·v − volume =
div F at every point. Both sides are evaluated by SymPy on polynomials; no mesh is involved.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("basix")
pytest.importorskip("ufl")

import basix.ufl
import mpmath
import sympy as sp
from random_terms import TermGenerator, majorant, polynomial

import cffem as cf
from cffem.forms.orders import derivatives, order_of
from cffem.forms.translation_errors import UnsupportedTerm
from cffem.forms.weak import weak_form
from cffem.symbols.algebra.components import evaluate_on
from cffem.symbols.algebra.shapes import shape_of
from cffem.symbols.algebra.splitting import Recovered
from cffem.symbols.coordinates import SPACE

CELL = {1: "interval", 2: "triangle", 3: "tetrahedron"}


def check_identity(weak, exact: dict, dim: int, points: dict) -> None:
    """T·v = volume + Σ_i ∂_i boundary(n = e_i), the derivatives as difference quotients with
    sixty digits.
    """
    (strong,) = evaluate_on(cf.inner(weak.term, weak.test), exact, dim)
    (volume,) = evaluate_on(weak.volume, exact, dim)
    step = mpmath.mpf(10) ** -20
    with mpmath.workdps(60):
        residual = exactly(strong - volume, points)
        for i in range(dim):
            (flux,) = evaluate_on(
                weak.boundary, {**exact, **{cf.n[j]: sp.Integer(i == j) for j in range(dim)}}, dim
            )
            up, down = ({**points, SPACE[i]: points[SPACE[i]] + sign * step} for sign in (1, -1))
            residual -= (exactly(flux, up) - exactly(flux, down)) / (2 * step)
    error = np.abs(residual.astype(float))
    scale = majorant(strong, points) + majorant(volume, points)
    assert np.all(error <= 1e-12 * scale), f"{weak.term}: {error.max():.1e}"


def exactly(expr: sp.Expr, points: dict) -> np.ndarray:
    """Values in mpmath's working precision."""
    function = sp.lambdify(list(points), expr, modules="mpmath", cse=True)
    return np.array(
        [function(*(mpmath.mpf(x) for x in point)) for point in zip(*points.values())], dtype=object
    )


def check_random_terms(dim: int, seed: int, wanted: int) -> None:
    generator, rng = TermGenerator(dim, seed), random.Random(seed)
    scalar, vector = (
        basix.ufl.element("Lagrange", CELL[dim], 2, shape=shape) for shape in (None, (dim,))
    )
    u, w, E = generator.u, generator.w, generator.E
    points = {s: np.random.default_rng(seed + i).random(2) for i, s in enumerate(SPACE[:dim])}
    moved = 0
    while moved < wanted:
        term = generator.term(highest_order=2)
        equation = E if shape_of(term) else u
        try:
            weak = weak_form(term, equation, {u: scalar, w: scalar, E: vector})
        except UnsupportedTerm:
            continue
        if weak.auxiliaries:  # second derivatives inside a nonlinear function are recovered
            assert all(isinstance(a.field, Recovered) for a in weak.auxiliaries)
            continue
        assert order_of(weak.volume) <= 1
        assert not weak.jumps
        exact = {f: polynomial(dim, 2, rng) for f in (u, w)} | {
            E: tuple(polynomial(dim, 2, rng) for _ in range(dim))
        }
        exact[weak.test] = (
            tuple(polynomial(dim, 2, rng) for _ in range(dim))
            if shape_of(term)
            else polynomial(dim, 2, rng)
        )
        exact[generator.nu] = sp.Rational(7, 10)
        check_identity(weak, exact, dim, points)
        moved += bool(weak.traces)
        assert all(d.order <= 1 for d in derivatives(weak.boundary))


@pytest.mark.parametrize(("dim", "wanted"), [(1, 25), (2, 12), (3, 6)])
def test_random_terms_are_integrated_by_parts_correctly(dim, wanted):
    check_random_terms(dim, 500 + dim, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_many_random_terms_are_integrated_by_parts_correctly(dim, seed):
    check_random_terms(dim, 600 + 10 * dim + seed, 100)
