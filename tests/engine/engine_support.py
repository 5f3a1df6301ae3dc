"""Meshes with named boundary parts, manufactured solutions, errors and observed orders for
the tests of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
import ufl
from dolfinx import fem, geometry, mesh
from mpi4py import MPI

import cffem as cf
from cffem._compat import form
from cffem.engine.inputs.field_data import evaluator
from cffem.engine.mesh.meshes import MeshData
from cffem.symbols.algebra.components import evaluate_on

SIDES = {
    "left": (0, 0.0),
    "right": (0, 1.0),
    "bottom": (1, 0.0),
    "top": (1, 1.0),
    "back": (2, 0.0),
    "front": (2, 1.0),
}


def unit(cell: str, n: int, comm: Any = MPI.COMM_SELF, skew: float = 0.0) -> Any:
    """The unit interval, square or cube with n cells along each axis and its sides named;
    skew moves the inner nodes.
    """
    kind = getattr(mesh.CellType, cell)
    if cell == "interval":
        domain = mesh.create_unit_interval(comm, n)
    elif cell in ("triangle", "quadrilateral"):
        domain = mesh.create_unit_square(comm, n, n, kind)
    else:
        domain = mesh.create_unit_cube(comm, n, n, n, kind)
    tagged = named(domain)
    points = domain.geometry.x
    bump = skew * np.prod(np.sin(np.pi * points[:, : domain.geometry.dim]), axis=1)
    points[:, : domain.geometry.dim] += bump[:, None]
    return tagged


def named(domain: Any) -> Any:
    """A mesh of the unit interval, square or cube with names for its sides."""
    facet = domain.topology.dim - 1
    names = {
        name: (facet, tag)
        for tag, name in enumerate(SIDES, 1)
        if SIDES[name][0] < domain.topology.dim
    }
    indices, values = [], []
    for name, (_, tag) in names.items():
        axis, place = SIDES[name]
        found = mesh.locate_entities_boundary(
            domain, facet, lambda x, a=axis, p=place: np.isclose(x[a], p)
        )
        indices.append(found)
        values.append(np.full(len(found), tag, dtype=np.int32))
    index, value = np.concatenate(indices), np.concatenate(values)
    order = np.argsort(index)
    tags = mesh.meshtags(domain, facet, index[order].astype(np.int32), value[order])
    return MeshData(domain, None, tags, names)


def forcing(
    library: Any,
    coefficients: Mapping[str, float],
    exact: Mapping[Any, Any],
    dim: int,
    pressure: Any = None,
) -> dict:
    """f = anchor[u] − Σ α_j T_j[u] (+ ∇p) for an exact solution, for every equation."""
    found = {}
    for unknown, equation in library.equations.items():
        names = [n for n in library.names if library.locate(n)[0] == unknown]
        size = dim if unknown.shape else 1
        parts = (
            evaluate_on(equation.anchor, exact, dim)
            if equation.anchor is not None
            else (sp.S.Zero,) * size
        )
        for name in names:
            if coefficients.get(name, 0):
                values = evaluate_on(library[name], exact, dim)
                parts = [
                    a - sp.nsimplify(coefficients[name]) * b
                    for a, b in zip(parts, values, strict=True)
                ]
        if pressure is not None and unknown.shape:
            parts = [
                a + sp.diff(pressure, s) for a, s in zip(parts, (cf.x, cf.y, cf.z), strict=False)
            ]
        parts = tuple(sp.sympify(p).doit() for p in parts)
        found[unknown] = parts if unknown.shape else parts[0]
    return found


def error(
    function: Any, exact: Any, time: float = 0.0, kind: str = "L2", mean_free: bool = False
) -> float:
    """The distance of a function from an exact solution in L2, or of its gradient, curl or
    divergence.

    The exact value is interpolated into a space two degrees richer, so that the test compiles few
    forms.
    """
    space = function.function_space
    domain, shape = space.mesh, tuple(function.ufl_shape)
    dim = domain.geometry.dim
    degree = min(max(space.element.basix_element.embedded_superdegree, 1) + 2, 4)
    rich = fem.functionspace(domain, ("DG", degree, shape) if shape else ("DG", degree))
    target = fem.Function(rich)
    evaluate = evaluator(exact, shape, dim, "the exact solution")
    target.interpolate(lambda points: evaluate(points, time))
    operator = {"L2": lambda f: f, "H1": ufl.grad, "curl": ufl.curl, "div": ufl.div}[kind]
    comm = domain.comm
    if mean_free:
        gap = comm.allreduce(fem.assemble_scalar(form((target - function) * ufl.dx, comm)))
        volume = comm.allreduce(fem.assemble_scalar(form(fem.Constant(domain, 1.0) * ufl.dx, comm)))
        target.x.array[:] -= gap / volume
    difference = operator(target) - operator(function)
    squared = form(ufl.inner(difference, difference) * ufl.dx, comm)
    return float(np.sqrt(comm.allreduce(fem.assemble_scalar(squared))))


def orders(errors: Iterable[float], ratio: float = 2.0) -> list[float]:
    """Observed orders from errors on successively refined levels."""
    return [float(np.log(a / b) / np.log(ratio)) for a, b in pairwise(errors)]


def assert_order(errors: Iterable[float], theory: float, ratio: float = 2.0) -> None:
    """The last observed order is not below theory − 0.1."""
    errors = list(errors)
    observed = orders(errors, ratio)
    assert observed[-1] >= theory - 0.1, f"order {observed} instead of {theory}; errors {errors}"


def solved(make: Callable[[Any], cf.Model], level: Any) -> cf.Solution:
    """Solve the model of a level."""
    return make(level).solve()


def values_at(function: Any, points: Any) -> np.ndarray:
    """The values of a function on one rank at points, given as rows of two or three coordinates."""
    places = np.zeros((len(points), 3))
    places[:, : np.shape(points)[1]] = points
    domain = function.function_space.mesh
    tree = geometry.bb_tree(domain, domain.topology.dim)
    cells = geometry.compute_colliding_cells(
        domain, geometry.compute_collisions_points(tree, places), places
    )
    return function.eval(
        places, np.array([cells.links(i)[0] for i in range(len(places))], dtype=np.int32)
    )
