"""Random systems of fields and equations of any size keep their solutions, and their failures.

A chain of two or three fields is drawn, each of which acts on the next ones only. Written in other
units of every field and every equation, by factors from 1e-12 to 1e12, it has the same solutions in
these units, field by field, and the same deletions fail. And the first field, which does not know
of the others, has the solutions and the failures that it has alone.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from mpi4py import MPI

import cffem as cf

FIELDS = tuple(cf.ScalarField(name, dim=1) for name in ("u", "w", "s"))
# What a field does with itself beside diffusion; exp(u) = 0 alone has no solution.
OWN = (
    lambda f: sp.exp(f),
    lambda f: -(f**3) - f + 1,
    lambda f: -f / (1 + f**2) + sp.Rational(2, 5),
    lambda _: sp.Integer(1),
)


def drawn(seed, count, scales):
    """A chain of fields and its coefficients, in the units that `scales` holds by field: of the
    field and of its equation.
    """
    rng = np.random.default_rng(seed)
    fields = FIELDS[: rng.integers(2, 4)]
    kinds = [seed % 3, *rng.integers(len(OWN), size=2)]
    numbers = rng.uniform(0.5, 1.5, size=(3, 3)).round(3)
    libraries, coefficients = {}, {}
    for i, field in enumerate(fields[:count]):
        unit, row = scales[i]
        terms = {"lap": cf.lap(field), "own": OWN[kinds[i]](field / sp.Float(unit))}
        values = {"lap": row / unit, "own": row * numbers[i, 0]}
        for j in range(i):
            other = scales[j][0]
            bent = bool(rng.uniform() < 0.5)
            terms[f"from {fields[j]}"] = fields[j] * field if bent else fields[j]
            values[f"from {fields[j]}"] = (
                row * numbers[i, j + 1] * 0.3 / (other * (unit if bent else 1.0))
            )
        libraries[field] = cf.Library(terms=terms, unknown=field)
        coefficients |= {f"{field}/{name}": float(value) for name, value in values.items()}
    return libraries, coefficients


def outcomes(seed, scales, count=3):
    """By deletion the largest values of all fields in their units, or None where it fails."""
    libraries, coefficients = drawn(seed, count, scales)
    alone = len(libraries) == 1
    if alone:
        coefficients = {name.split("/")[1]: value for name, value in coefficients.items()}
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, 0.2),
        elements=dict.fromkeys(libraries, ("Lagrange", 1)),
        boundary=[cf.Dirichlet(field, 0) for field in libraries],
    )
    system = next(iter(libraries.values())) if alone else cf.System(libraries)
    found = {}
    with cf.Model(system, coefficients, experiment) as model:
        for name in ("", *coefficients):
            try:
                state = (model.solve(cf.delete(name)) if name else model.factual).states[0]
                sizes = [
                    np.linalg.norm(state[model.spaces.dofs(field)]) / scales[i][0]
                    for i, field in enumerate(libraries)
                ]
            except cf.SolveError:
                sizes = None
            found[f"u/{name}" if alone and name else name] = sizes
    return found


def units(seed):
    rng = np.random.default_rng(seed + 5000)
    return [tuple(10.0 ** rng.integers(-12, 13, size=2)) for _ in range(3)]


def check(seed):
    plain, other = (outcomes(seed, scales) for scales in ([(1.0, 1.0)] * 3, units(seed)))
    assert plain[""] is not None
    for name, sizes in plain.items():
        if sizes is None or other[name] is None:
            assert other[name] == sizes, f"{name} of seed {seed}"
        else:
            assert other[name] == pytest.approx(sizes, rel=1e-9, abs=1e-9), f"{name} of seed {seed}"
    for name, sizes in outcomes(seed, [(1.0, 1.0)] * 3, count=1).items():
        if sizes is None or plain[name] is None:
            assert plain[name] is None, f"{name} of seed {seed}"
            assert sizes is None, f"{name} of seed {seed} is solved by the first field alone only"
        else:
            assert plain[name][0] == pytest.approx(sizes[0], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", [0, 1, 3, 6, 9])
def test_systems_keep_their_solutions_and_failures_in_all_units(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 240))
def test_many_systems_keep_their_solutions_and_failures_in_all_units(seed):
    check(seed)
