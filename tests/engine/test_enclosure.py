"""Interval arithmetic contains every value of every function of the language, and every
distance to a polynomial.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from cffem.engine.inputs.enclosure import RULES, NotEnclosed, distances, enclosed
from cffem.engine.inputs.numeric import numeric
from cffem.forms.functions import FUNCTIONS as LOWERED
from cffem.symbols import x, y
from cffem.symbols.parser.words import FUNCTIONS as WORDS
from cffem.symbols.parser.words import SPECIAL

# Words that stand for other expressions, for tensors, or for parts of a Piecewise.
NOT_FUNCTIONS = {
    *("norm2", "vector", "component", "diff", "Derivative", "Eq", "Ne"),
    *("identity", "tensor"),
}
PIECES = [
    sp.Piecewise((x, x > y), (y**2, (x < -0.5) | (y > 0.3)), (1, True)),
    sp.Piecewise((sp.exp(-1 / (1 - x**2 - y**2)), x**2 + y**2 < 1), (0, True)),
    sp.Piecewise((2, sp.Ne(x, y) & ~(x < 0.1)), (x, True)),
    sp.Max(x, y, 0.2) - sp.Min(x * y, 0.1),
    sp.Abs(x - y) ** 1.5 + sp.Abs(x) * sp.sign(y),
    2**x + (x**2 + 0.1) ** y + sp.sqrt(x**2 + y**2),
    (x + 2) ** sp.Rational(-7, 3) - (x - y) ** 3 + (x * y) ** 4,
    sp.atan2(y, x) + sp.atan2(x + 2, y),
    sp.expand((1 - 16 * ((x - 0.3) ** 2 + (y + 0.1) ** 2)) ** 2 + x * y),
    1 / (x - 0.1) + sp.floor(3 * y) - sp.ceiling(2 * x),
    sp.exp(-(sp.cosh(3 * x) ** 2)) / sp.cosh(50 * (x - y)) ** 2,
]
NAMES = sorted(set(WORDS) - {"Heaviside", "abs"})


def language():
    """The kinds of nodes that terms and data may contain."""
    words = {kind for kind, _ in WORDS.values() if isinstance(kind, type)}
    special = {getattr(sp, name) for name in set(SPECIAL) - NOT_FUNCTIONS}
    return words | special | set(LOWERED) | {sp.Add, sp.Mul, sp.Pow, sp.Min, sp.Max}


def test_every_function_of_the_language_has_a_rule():
    assert language() <= set(RULES)


def check(expr, low, high, degree=3, seed=0):
    """Values lie in the enclosure; no sample is farther from the best polynomial than is stated."""
    random, value = np.random.default_rng(seed), numeric(expr, (x, y))
    boxes = {x: (low[:, 0], high[:, 0]), y: (low[:, 1], high[:, 1])}
    below, above = enclosed(expr, boxes)
    share = random.uniform(0, 1, (40, len(low), 2))
    share[:4] = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])[:, None]
    places = low + share * (high - low)
    with np.errstate(all="ignore"):
        found = np.broadcast_to(value(places[..., 0], places[..., 1]), places.shape[:2])
    known = np.isfinite(found).all(axis=0)
    slack = 1e-12 * (1 + np.maximum(np.abs(below), np.abs(above)))
    slack = np.where(np.isfinite(slack), slack, 0.0)
    assert (found[:, known] >= (below - slack)[known]).all()
    assert (found[:, known] <= (above + slack)[known]).all()
    middle = (low + high) / 2
    bound = distances(expr, boxes, {x: middle[:, 0], y: middle[:, 1]}, degree)
    half = np.maximum((high - low) / 2, 1e-300)
    for cell in np.flatnonzero(known):
        u, v = ((places[:, cell] - middle[cell]) / half[cell]).T
        powers = [u**i * v**j for i in range(degree + 1) for j in range(degree + 1 - i)]
        basis = np.stack(powers, axis=1)
        rest = found[:, cell] - basis @ np.linalg.lstsq(basis, found[:, cell], rcond=None)[0]
        # Least squares are nearer in the mean than any other polynomial of this degree.
        assert np.sqrt(np.mean(rest**2)) <= bound[cell] + 1e-10 * (1 + np.abs(found[:, cell]).max())
    return below, above, bound


def boxes_of(seed, width, count=30):
    random = np.random.default_rng(seed)
    low = random.uniform(-1.2, 1.2, (count, 2))
    return low, low + width * random.uniform(0, 1, (count, 2))


@pytest.mark.parametrize("width", [1.0, 0.02])
@pytest.mark.parametrize("name", [*NAMES, "Heaviside"])
def test_a_function_is_enclosed(name, width):
    function = WORDS[name][0]
    for inner in (x - y / 2, 3 * x * y + 0.2, 1.4 + x / 4):
        check(function(inner), *boxes_of(3, width))


@pytest.mark.parametrize("width", [1.0, 0.02])
@pytest.mark.parametrize("expr", PIECES)
def test_what_is_made_of_pieces_and_powers_is_enclosed(expr, width):
    check(expr, *boxes_of(4, width))


def test_distances_fall_with_a_power_of_the_size_and_vanish_for_polynomials():
    expr = sp.exp(-3 * x) * sp.sin(2 * y + x) / (2 + sp.tanh(x * y)) + sp.erf(x) + sp.atan(y)
    bounds = []
    for width in (0.2, 0.1, 0.05):
        low = np.tile([[0.3, 0.4]], (1, 1))
        bounds.append(check(expr, low, low + width, degree=4)[2][0])
    assert bounds[1] < bounds[0] / 20
    assert bounds[2] < bounds[1] / 20
    low, high = boxes_of(1, 1.0)
    polynomial = (x**2 - 3 * y) * (x * y + 1) + 1e8
    boxes = {x: (low[:, 0], high[:, 0]), y: (low[:, 1], high[:, 1])}
    centre = {x: low[:, 0], y: low[:, 1]}
    assert not distances(polynomial, boxes, centre, 4).any()
    assert distances(polynomial, boxes, centre, 3).all()


def comparable(pair):
    """Whether SymPy can take the larger of two expressions: neither is infinite or complex."""
    return not any(
        part.has(sp.zoo, sp.nan, sp.oo, sp.I) or part.is_extended_real is False for part in pair
    )


def expressions():
    numbers = st.floats(-2, 2).map(lambda a: sp.Float(round(a, 3)))
    leaves = st.one_of(st.sampled_from([x, y]), numbers)

    def grown(inner):
        unary = st.sampled_from(
            [WORDS[name][0] for name in NAMES] + [sp.Heaviside, sp.sech, sp.csch]
        )
        return st.one_of(
            st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
            st.tuples(inner, inner).map(lambda p: p[0] * p[1]),
            st.tuples(inner, st.sampled_from([-2, -1, 2, 3, sp.Rational(1, 2)])).map(
                lambda p: p[0] ** p[1]
            ),
            st.tuples(unary, inner).map(lambda p: p[0](p[1])),
            st.tuples(inner, inner).filter(comparable).map(lambda p: sp.Max(*p)),
            st.tuples(inner, inner).map(lambda p: sp.Piecewise((p[0], x < y), (p[1], True))),
        )

    return st.recursive(leaves, grown, max_leaves=4)


@settings(max_examples=60, deadline=None)
@given(expressions(), st.integers(0, 10**6), st.sampled_from([1.0, 0.1, 1e-3]))
def test_random_expressions_are_enclosed(expr, seed, width):
    if expr.has(sp.zoo, sp.nan, sp.oo, -sp.oo, sp.I) or expr.is_number:
        return
    check(expr, *boxes_of(seed, width, count=6), seed=seed)


def test_a_function_without_a_rule_is_no_zero():
    box = {x: (np.zeros(1), np.ones(1))}
    for expr in (sp.gamma(x + 1), sp.I * x, sp.Symbol("q") * x):
        with pytest.raises(NotEnclosed):
            enclosed(expr, box)
        with pytest.raises(NotEnclosed):
            distances(expr, box, {x: np.ones(1) / 2}, 2)
