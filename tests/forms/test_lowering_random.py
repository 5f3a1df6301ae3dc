"""Random terms: UFL evaluated by DOLFINx agrees with SymPy's own evaluation on fields that
the element holds exactly.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import basix.ufl
import sympy as sp
import ufl
from dolfinx import fem, mesh
from mpi4py import MPI
from random_terms import TermGenerator, majorant, polynomial, value_of

from cffem._compat import expression
from cffem.forms.lowering import Context, Lowering
from cffem.forms.orders import order_of
from cffem.symbols.algebra.components import evaluate_on
from cffem.symbols.coordinates import SPACE

pytestmark = pytest.mark.fem
DEGREE = 3
NU = 0.7


def domain_of(dim: int) -> mesh.Mesh:
    """A few cells of a deformed unit cube: affine cells, no two alike."""
    make = {1: mesh.create_unit_interval, 2: mesh.create_unit_square, 3: mesh.create_unit_cube}[dim]
    domain = make(MPI.COMM_SELF, *([2] * dim if dim < 3 else [1] * dim))
    shear = np.eye(3) + 0.2 * np.tri(3, k=-1)
    domain.geometry.x[:, :dim] = domain.geometry.x[:, :dim] @ shear[:dim, :dim]
    return domain


def exact_function(domain: mesh.Mesh, value: sp.Expr | tuple[sp.Expr, ...]) -> fem.Function:
    """A function that equals given polynomials of degree at most DEGREE."""
    dim = domain.geometry.dim
    shape = (len(value),) if isinstance(value, tuple) else None
    function = fem.Function(
        fem.functionspace(
            domain, basix.ufl.element("Lagrange", domain.basix_cell(), DEGREE, shape=shape)
        )
    )
    parts = value if isinstance(value, tuple) else (value,)

    def values(x: np.ndarray) -> np.ndarray:
        points = dict(zip(SPACE[:dim], x))
        found = np.stack([value_of(part, points) for part in parts])
        return found if shape else found[0]

    function.interpolate(values)
    return function


def check_terms(dim: int, seed: int, count: int) -> None:
    """Compile `count` random terms in one module and compare each component with SymPy at
    random points of every cell.
    """
    domain, generator = domain_of(dim), TermGenerator(dim, seed)
    rng = random.Random(seed + 1)
    fields = {
        generator.u: polynomial(dim, DEGREE, rng),
        generator.w: polynomial(dim, DEGREE, rng),
        generator.E: tuple(polynomial(dim, DEGREE, rng) for _ in range(dim)),
    }
    values = {f: exact_function(domain, v) for f, v in fields.items()}
    values[generator.nu] = fem.Constant(domain, NU)
    exact = {**fields, generator.nu: sp.Float(NU)}
    terms: dict[sp.Expr, tuple[sp.Expr, ...]] = {}
    while len(terms) < count:
        term = generator.term()
        entries = evaluate_on(term, exact, dim)
        # A held div(curl(E)) is zero and has no scale.
        if any(entries):
            terms[term] = entries
    low = Lowering(Context(domain.ufl_domain(), values))
    lowered = [low(term) for term in terms]
    flat = [
        *ufl.SpatialCoordinate(domain),
        *(f[i] if f.ufl_shape else f for f in lowered for i in range(max(sum(f.ufl_shape), 1))),
    ]
    reference = np.random.default_rng(seed).dirichlet(np.ones(dim + 1), 2)[:, 1:]
    cells = np.arange(domain.topology.index_map(domain.topology.dim).size_local, dtype=np.int32)
    computed = (
        expression(ufl.as_vector(flat), reference, domain.comm)
        .eval(domain, cells)
        .reshape(-1, len(flat))
        .T
    )
    points = dict(zip(SPACE[:dim], computed[:dim]))
    column = dim
    for term, entries in terms.items():
        error = np.abs(
            computed[column : column + len(entries)]
            - [value_of(entry, points, digits=30) for entry in entries]
        )
        scale = sum(majorant(entry, points) for entry in entries)
        assert np.all(error <= (1e-11 if order_of(term) <= 2 else 1e-8) * scale), (
            f"{term}: {(error / scale).max():.1e}"
        )
        column += len(entries)
    assert column == len(flat)


@pytest.mark.parametrize(
    ("dim", "seed", "count"),
    [(1, 11, 40), (1, 12, 30), (2, 21, 35), (2, 22, 35), (3, 31, 30), (3, 32, 30)],
)
def test_random_terms_have_the_values_of_sympy(dim, seed, count):
    check_terms(dim, seed, count)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_two_thousand_random_terms(dim, seed):
    check_terms(dim, 1000 * dim + seed, 34)
