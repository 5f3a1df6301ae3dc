"""Bars hold on skewed boxes that are not convex, far from the origin, and for strong Hall terms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import basix.ufl
import sympy as sp
import ufl
from bounds_support import u
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from cffem import curl, dt, lap, x, y, z


def boxes(corners, cells, sizes, jitter, seed):
    """Tetrahedra in unit cubes at the given corners, inner nodes moved, stretched by the sizes."""
    inside = {
        tuple(corner[axis] * cells + shift[axis] for axis in range(3))
        for corner in corners
        for shift in itertools.product(range(cells), repeat=3)
    }
    names: dict[tuple[int, ...], int] = {}
    found = []
    for cell in sorted(inside):
        for order in itertools.permutations(range(3)):
            place, path = list(cell), [names.setdefault(cell, len(names))]
            for axis in order:
                place[axis] += 1
                path.append(names.setdefault(tuple(place), len(names)))
            found.append(path)
    points, random = np.array([*names], dtype=float), np.random.default_rng(seed)
    for number, node in enumerate(names):
        around = (tuple(np.subtract(node, shift)) for shift in itertools.product((0, 1), repeat=3))
        if all(cell in inside for cell in around):
            points[number] += jitter * random.uniform(-0.5, 0.5, 3)
    element = basix.ufl.element("Lagrange", "tetrahedron", 1, shape=(3,))
    return mesh.create_mesh(
        MPI.COMM_SELF,
        np.array(found, dtype=np.int64),
        x=points / cells * np.array(sizes),
        e=ufl.Mesh(element),
    )


@pytest.mark.parametrize("corners", [[(0, 0, 0)], [(0, 0, 0), (1, 0, 0), (0, 1, 0)]])
@pytest.mark.parametrize("sizes", [(1.0, 1.0, 1.0), (0.3, 3.0, 1.0)])
def test_skewed_boxes_in_space_are_covered(corners, sizes):
    mode = sp.prod([sp.sin(sp.pi * s / size) for s, size in zip((x, y, z), sizes, strict=True)])
    eigenvalue = math.pi**2 * sum(1 / size**2 for size in sizes)
    square, a = len(corners) * math.prod(sizes) / 8, 0.02
    c = -3 * a * eigenvalue
    experiment = cf.Experiment(
        mesh=boxes(corners, 2, sizes, 0.25, 4),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: a * eigenvalue * mode},
    )
    model = cf.Model(
        cf.Library(terms={"lap": lap(u), "r": u}, unknown=u), {"lap": a, "r": c}, experiment
    )
    change = a * eigenvalue * abs(1 / (a * eigenvalue - c) - 1 / (a * eigenvalue))
    for norm, factor in (("L2", 1.0), ("H1", math.sqrt(1 + eigenvalue))):
        bound = cf.certify_deletion(model, "r", norm=norm)
        assert bound.certificate.kind == "guaranteed"
        assert abs(bound.score - math.sqrt(square) * factor * change) <= bound.margin


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
def test_bars_do_not_depend_on_where_the_origin_is(offset):
    domain = mesh.create_rectangle(
        MPI.COMM_SELF, [(offset, -offset), (offset + 1, 1 - offset)], [8, 8]
    )
    mode = sp.sin(sp.pi * (x - offset)) * sp.sin(sp.pi * (y + offset))
    experiment = cf.Experiment(
        mesh=domain,
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: mode},
    )
    library = cf.Library(terms={"lap": lap(u), "r": u}, unknown=u)
    bound = cf.certify_deletion(cf.Model(library, {"lap": 1.0, "r": -5.0}, experiment), "r")
    eigenvalue = 2 * math.pi**2
    assert bound.certificate.kind == "guaranteed"
    assert abs(bound.score - 0.5 * (1 / eigenvalue - 1 / (eigenvalue + 5))) <= bound.margin
    assert bound.margin < 1e-4


# By the trapezoidal rule with 400 steps and edge elements of degree three on 10 cells a side,
# which differ from those with 200 steps by 8e-7, 1.1e-5 and 7.3e-4.
@pytest.mark.parametrize(("strength", "score"), [(0.5, 0.023478), (5.0, 0.24503), (30.0, 3.1929)])
def test_strong_hall_terms_are_covered(strength, score):
    field = cf.VectorField("E", dim=2)
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, 4, 4),
        elements={field: ("N1curl", 1)},
        boundary=[cf.Tangential(field, 0)],
        initial={field: (sp.sin(sp.pi * y), 0), dt(field): (0, 0)},
        time=cf.Window(0, 1, steps=10),
    )
    terms = {"curl": -curl(curl(field)), "hall": cf.vector(-field[1], field[0])}
    library = cf.Library(anchor=dt(dt(field)), terms=terms)
    bound = cf.certify_deletion(
        cf.Model(library, {"curl": 1.0, "hall": strength}, experiment), "hall"
    )
    assert bound.certificate.kind == "guaranteed"
    assert bound.margin >= abs(bound.score - score)
