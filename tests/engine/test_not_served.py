"""Problems that are not served are refused in one sentence that names the nearest way, before
anything is compiled.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import basix.ufl
import dolfinx.jit
import sympy as sp
from dolfinx import fem
from dolfinx.mesh import create_mesh, create_unit_square
from engine_support import unit
from mpi4py import MPI

import cffem as cf
from cffem import div, dt, grad, lap, x

u, w, k = cf.ScalarField("u"), cf.ScalarField("w"), cf.Known("k")
HEAT = cf.Library(dt(u), {"u": u, "lap": lap(u)})
MATERIAL = cf.Library(dt(u), {"lap": div(k * grad(u))})
SPREAD = sp.Symbol("X")


def build(library=HEAT, coefficients=None, **changes):
    """A small model, with some entries of its experiment replaced."""
    given = {
        "mesh": unit("triangle", 2),
        "elements": {u: ("Lagrange", 1)},
        "initial": {u: 0},
        "boundary": [cf.Dirichlet(u, 0)],
        "time": cf.Window(0, 1, steps=2),
    }
    model = cf.Model(library, coefficients or {"lap": 1.0}, cf.Experiment(**{**given, **changes}))
    return model.solve()


def term(expr):
    """A model with one more term."""
    return build(cf.Library(dt(u), {"lap": lap(u), "a": expr}))


def function(kind):
    mesh = unit("triangle", 2)
    return mesh, fem.Function(fem.functionspace(mesh.mesh, ("Lagrange", 1)), dtype=kind)


def single():
    mesh = create_unit_square(MPI.COMM_SELF, 2, 2, dtype=np.float32)
    return fem.Function(fem.functionspace(mesh, ("Lagrange", 1)), dtype=np.float32)


def complex_function():
    mesh, values = function(complex)
    return lambda **where: build(mesh=mesh, **{name: of(values) for name, of in where.items()})


def surface(corners, cell):
    """A mesh of one cell, bent into a space of one more dimension."""
    points = np.array(corners, dtype=float)
    element = basix.ufl.element("Lagrange", cell, 1, shape=(points.shape[1],))
    return create_mesh(MPI.COMM_SELF, cells=np.arange(len(points))[None], x=points, e=element)


def vectors(dim):
    """A vector equation for so many components, on a mesh of the plane."""
    v = cf.VectorField("v", dim=dim)
    zeros = (0,) * dim
    return build(
        cf.Library(dt(v), {"lap": lap(v)}),
        elements={v: ("Lagrange", 1)},
        initial={v: zeros},
        boundary=[cf.Dirichlet(v, zeros)],
    )


COMPLEX = {
    "term": lambda: term(sp.I * u),
    "number of Python in a term": lambda: term(1j * u),
    "root": lambda: term(sp.sqrt(-2) * u),
    "anchor": lambda: cf.Library(sp.I * dt(u), {"lap": lap(u)}),
    "coefficient": lambda: build(coefficients={"lap": 1 + 1j}),
    "coefficient of NumPy": lambda: build(coefficients={"lap": np.complex128(1 + 1j)}),
    "coefficient of SymPy": lambda: build(coefficients={"lap": 1 + sp.I}),
    "initial value": lambda: build(initial={u: sp.I * x}),
    "initial function": lambda: build(initial={u: lambda p: 1j + p[0]}),
    "boundary value": lambda: build(boundary=[cf.Dirichlet(u, 1j)]),
    "boundary function": lambda: build(boundary=[cf.Dirichlet(u, lambda p: 1j + p[0])]),
    "law": lambda: build(boundary=[cf.Natural(u, 1j * u)]),
    "forcing": lambda: build(forcing={u: 1j}),
    "known": lambda: build(MATERIAL, known={k: 1 + 1j}),
    "known in a part": lambda: build(MATERIAL, known={k: {"domain": 1j}}),
    "known function": lambda: build(MATERIAL, known={k: lambda p: 1 + 1j * p[0]}),
    "function as initial value": lambda: complex_function()(initial=lambda f: {u: f}),
    "function as forcing": lambda: complex_function()(forcing=lambda f: {u: f}),
    "function on the boundary": lambda: complex_function()(boundary=lambda f: [cf.Dirichlet(u, f)]),
    "function as known": lambda: build(MATERIAL, known={k: function(complex)[1]}),
    "function of another mesh": lambda: build(
        MATERIAL, known={k: cf.Interpolated(function(complex)[1])}
    ),
    "observable": lambda: cf.Integral(sp.I * u),
}
OTHERS = {
    "surface": ("flat mesh", lambda: build(
        mesh=surface([[0, 0, 0], [1, 0, 0], [0, 1, 1]], "triangle"))),
    "curve": ("flat mesh", lambda: build(mesh=surface([[0, 0], [1, 1]], "interval"))),
    "four components": ("scalar fields of a System", lambda: cf.VectorField("q", dim=4)),
    "three in the plane": ("scalar fields of a System", lambda: vectors(3)),
    "inequality as a term": ("drives the field back", lambda: term(u >= 0)),
    "inequality as a value": (
        "drives the field back", lambda: build(boundary=[cf.Dirichlet(u, u >= 0)])),
    "inequality as a law": (
        "drives the field back", lambda: build(boundary=[cf.Natural(u, u >= 0)])),
    "inequality as a constraint": ("drives the field back", lambda: cf.Constraint(u >= 0)),
    "inequality in its place": ("drives the field back", lambda: build(constraint=u >= 0)),
    "expression as a constraint": (r"cf\.Constraint\(expr\)", lambda: build(constraint=u)),
    "mean": ("a field w of its own", lambda: term(sp.Integral(u, (x, 0, 1)))),
    "kernel": (
        "a field w of its own",
        lambda: term(sp.Integral(sp.exp(-((x - SPREAD) ** 2)), (SPREAD, 0, 1)) * u)),
    "observable in a term": ("a field w of its own", lambda: term(cf.Integral(u))),
    "law with a mean": (
        "a field w of its own",
        lambda: build(boundary=[cf.Natural(u, sp.Integral(u, (x, 0, 1)))])),
    "delay": ("a field w of its own", lambda: u.subs(cf.t, cf.t - 1)),
    "rate with a delay": ("a field w of its own", lambda: term(dt(u).subs(cf.t, cf.t - 1))),
    "fractional order": ("fractional order", lambda: term(-sp.sqrt(-lap(u)))),
    "undeclared kernel": ("undeclared function K", lambda: term(sp.Function("K")(u))),
    "single precision": ("float64", lambda: build(initial={u: cf.Interpolated(single())})),
}  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch):
    def compiled(*args, **kwargs):
        raise AssertionError("something was compiled before the refusal")

    monkeypatch.setattr(dolfinx.jit, "ffcx_jit", compiled)


def refused(message, make):
    with pytest.raises(cf.InputError, match=message) as caught:
        make()
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 300


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_values_are_two_real_fields(name):
    refused("two real ones", COMPLEX[name])


@pytest.mark.parametrize("name", OTHERS)
def test_the_nearest_way_is_named(name):
    refused(*OTHERS[name])


def test_values_without_imaginary_part_are_real():
    experiment = cf.Experiment(
        mesh=unit("triangle", 2),
        elements={u: ("Lagrange", 1)},
        initial={u: lambda p: (1 + 0j) * p[0]},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 1, steps=2),
    )
    assert cf.Model(HEAT, {"lap": np.complex128(2 + 0j)}, experiment).coefficients["lap"] == 2
