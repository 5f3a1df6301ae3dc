"""Identities that hold exactly in the discrete spaces: grad div is null on divergence-free Nédélec
fields, central fluxes are distributional derivatives, and the convective term splits on
Raviart–Thomas fields as it does for smooth ones."""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import basix.ufl
import sympy as sp
import ufl
from dolfinx import fem
from forms_support import (
    constrained_solve,
    matrix,
    parallelepiped,
    random_function,
    scalar,
    smooth_context,
    vector,
)
from random_terms import polynomial
from scipy.sparse.linalg import spsolve

import cffem as cf
from cffem import curl, div, dot, grad, lap, norm2, x, y
from cffem._compat import interpolation_points
from cffem.forms.lowering import Context
from cffem.forms.weak import weak_form

pytestmark = pytest.mark.fem


def weak_gradient_of_divergence(term: sp.Expr, E: cf.VectorField, space: fem.FunctionSpace):
    """The dense map from coefficients of E to the vector ⟨T[E], v⟩, made of the three forms
    that an auxiliary field describes.
    """
    element = space.ufl_element()
    weak = weak_form(term, E, {E: element})
    (auxiliary,) = weak.auxiliaries
    paired = fem.functionspace(space.mesh, auxiliary.element)
    s, q = ufl.TrialFunction(paired), ufl.TestFunction(paired)
    definition = auxiliary.definition.forms(
        Context(space.mesh.ufl_domain(), {E: ufl.TrialFunction(space), auxiliary.test: q})
    )
    gradient = weak.forms(
        Context(space.mesh.ufl_domain(), {auxiliary.field: s, weak.test: ufl.TestFunction(space)})
    )
    M, B, C = matrix(auxiliary.mass(s, q)), matrix(definition.volume), matrix(gradient.volume)
    return paired, lambda values: C @ spsolve(M.tocsc(), B @ values)


@pytest.mark.parametrize(
    ("cell", "degree"),
    [("triangle", 1), ("quadrilateral", 2), ("tetrahedron", 1), ("tetrahedron", 2)],
)
def test_grad_div_vanishes_on_discretely_divergence_free_nedelec_fields(cell, degree):
    counts = (3, 3) if cell in ("triangle", "quadrilateral") else (2, 2, 2)
    domain = parallelepiped(cell, *counts)
    space = fem.functionspace(domain, basix.ufl.element("N1curl", cell, degree))
    E = cf.VectorField("E", dim=len(counts))
    paired, apply = weak_gradient_of_divergence(grad(div(E)), E, space)
    rough = random_function(domain, space.ufl_element(), seed=1)
    s, q = ufl.TrialFunction(paired), ufl.TestFunction(paired)
    K = matrix(ufl.inner(ufl.grad(s), ufl.grad(q)) * ufl.dx)
    potential = fem.Function(paired)
    load = vector(ufl.inner(rough, ufl.grad(q)) * ufl.dx)
    potential.x.array[:] = constrained_solve(K, load, np.array([0]), np.zeros(1))
    gradient = fem.Function(space)
    gradient.interpolate(fem.Expression(ufl.grad(potential), interpolation_points(space)))
    projected = rough.x.array - gradient.x.array
    assert np.linalg.norm(projected) > 0.1 * np.linalg.norm(rough.x.array)
    assert np.linalg.norm(apply(projected)) <= 1e-12 * np.linalg.norm(apply(rough.x.array))


def test_weighted_divergence_is_null_on_its_own_class_only():
    """div(εE) = 0 with a jumping ε: grad(div(εE)) is null there and grad(div E) is not."""
    domain = parallelepiped("tetrahedron", 2, 2, 2, shear=0.0)
    space = fem.functionspace(domain, basix.ufl.element("N1curl", "tetrahedron", 1))
    E = cf.VectorField("E", dim=3)
    epsilon = sp.Piecewise((1, x < sp.Rational(1, 2)), (4, True))
    paired, weighted = weak_gradient_of_divergence(grad(div(epsilon * E)), E, space)
    _, plain = weak_gradient_of_divergence(grad(div(E)), E, space)
    rough = random_function(domain, space.ufl_element(), seed=1)
    weight = ufl.conditional(ufl.lt(ufl.SpatialCoordinate(domain)[0], 0.5), 1.0, 4.0)
    s, q = ufl.TrialFunction(paired), ufl.TestFunction(paired)
    potential, gradient = fem.Function(paired), fem.Function(space)
    load = vector(weight * ufl.inner(rough, ufl.grad(q)) * ufl.dx)
    K = matrix(weight * ufl.inner(ufl.grad(s), ufl.grad(q)) * ufl.dx)
    potential.x.array[:] = constrained_solve(K, load, np.array([0]), np.zeros(1))
    gradient.interpolate(fem.Expression(ufl.grad(potential), interpolation_points(space)))
    member, rough = rough.x.array - gradient.x.array, rough.x.array
    assert np.linalg.norm(weighted(member)) <= 1e-12 * np.linalg.norm(weighted(rough))
    assert np.linalg.norm(plain(member)) >= 1e-2 * np.linalg.norm(plain(rough))


@pytest.mark.parametrize(
    ("family", "cell"),
    [("DG", "interval"), ("DG", "triangle"), ("N1curl", "triangle"), ("RT", "tetrahedron")],
)
def test_central_flux_is_the_distributional_derivative(family, cell):
    """Against a smooth weight the derivative of a rough discrete field may go over whole,
    boundary terms included.
    """
    dim = {"interval": 1, "triangle": 2}.get(cell, 3)
    domain, element = (
        parallelepiped(cell, *([5] if dim == 1 else [2] * dim)),
        basix.ufl.element(family, cell, 1),
    )
    kind, rng = cf.ScalarField if family == "DG" else cf.VectorField, random.Random(5)
    u, smooth = kind("u", dim=dim), kind("smooth", dim=dim)
    b = cf.vector(*(polynomial(dim, 1, rng) for _ in range(dim)))
    term = {
        "DG": lambda: dot(b, grad(u)),
        "N1curl": lambda: dot(grad(u), b),
        "RT": lambda: cf.cross(b, curl(u)),
    }[family]()
    weight = (
        polynomial(dim, 2, rng)
        if family == "DG"
        else cf.vector(*(polynomial(dim, 2, rng) for _ in range(dim)))
    )
    weak = weak_form(term, u, {u: element})
    shape = None if family == "DG" else (dim,)
    moved = weak_form(
        term, smooth, {u: element, smooth: basix.ufl.element("Lagrange", cell, 2, shape=shape)}
    )
    assert weak.jumps
    assert moved.traces
    assert not moved.jumps
    context = smooth_context(domain, {weak.test: weight, moved.test: weight}).extended(
        {u: random_function(domain, element)}
    )
    left, right = weak.forms(context), moved.forms(context)
    charged = abs(scalar(left.interior))
    assert charged >= 1e-3
    assert abs(scalar(left.total - right.total)) <= 1e-12 * charged


@pytest.mark.parametrize(
    ("cell", "family"), [("triangle", "RT"), ("tetrahedron", "RT"), ("triangle", "BDM")]
)
def test_convection_splits_exactly_on_raviart_thomas_fields(cell, family):
    """(v·∇)v = ∇(|v|²/2) + (∇×v)×v holds for the discrete forms, facet terms included."""
    dim = 2 if cell == "triangle" else 3
    domain = parallelepiped(cell, *[2] * dim)
    element = basix.ufl.element(family, cell, 1)
    v = cf.VectorField("v", dim=dim)
    lamb = cf.cross(curl(v), v) if dim == 3 else curl(v) * cf.vector(-v[1], v[0])
    function = random_function(domain, element)
    parts = []
    for term in (dot(grad(v), v), grad(norm2(v) / 2), lamb):
        weak = weak_form(term, v, {v: element})
        values = {v: function, weak.test: ufl.TestFunction(function.function_space)}
        parts.append(vector(weak.forms(Context(domain.ufl_domain(), values)).total))
    convection, gradient, rotation = parts
    assert np.linalg.norm(convection - gradient - rotation) <= 1e-12 * np.linalg.norm(convection)
    assert np.linalg.norm(rotation) >= 0.1 * np.linalg.norm(convection)


@pytest.mark.parametrize("cell", ["interval", "triangle"])
def test_jumping_coefficient_stays_inside_the_divergence(cell):
    """If the flux is continuous, the weak form of div(a ∇u) is a lap(u) on each side and sees
    nothing of the jump of a.
    """
    dim = 1 if cell == "interval" else 2
    domain = parallelepiped(cell, *[4] * dim, shear=0.0)
    u, half = cf.ScalarField("u"), sp.Rational(1, 2)
    a = sp.Piecewise((1, x < half), (5, True))
    value = (x - half) ** 2 * (1 + x) * (1 + y if dim == 2 else 1)
    element = basix.ufl.element("Lagrange", cell, 2)
    weak = weak_form(div(a * grad(u)), u, {u: element})
    context = smooth_context(
        domain, {u: value, a * lap(u): a * sum(value.diff(s, 2) for s in (x, y)[:dim])}
    )
    test = random_function(domain, element)
    left = scalar(weak.forms(context.extended({weak.test: test})).total)
    right = scalar(context.values[a * lap(u)] * test * ufl.dx)
    assert abs(left - right) <= 1e-12 * abs(right)


def test_boundary_condition_replaces_the_trace():
    """A Neumann condition is a substitution in the natural boundary term."""
    domain = parallelepiped("triangle", 2, 2)
    u, g = cf.ScalarField("u"), cf.Parameter("g")
    element = basix.ufl.element("Lagrange", "triangle", 1)
    weak = weak_form((1 + x) * lap(u) + u**2, u, {u: element}).imposing({dot(cf.n, grad(u)): g})
    test = random_function(domain, element)
    context = Context(
        domain.ufl_domain(),
        {u: random_function(domain, element, 1), g: fem.Constant(domain, 2.0), weak.test: test},
    )
    expected = scalar(2.0 * (1 + ufl.SpatialCoordinate(domain)[0]) * test * ufl.ds)
    assert scalar(weak.forms(context).boundary) == pytest.approx(expected, rel=1e-13)
    assert weak.imposing({g: sp.S.Zero}).boundary == 0


def test_gradient_of_a_multiplier_is_the_transpose_of_the_divergence():
    """Taylor–Hood as one mixed function: (grad p, v) is minus the transpose of (div v, q), up
    to the natural boundary term.
    """
    domain = parallelepiped("triangle", 2, 2)
    velocity, pressure = (
        basix.ufl.element("Lagrange", "triangle", 2, shape=(2,)),
        basix.ufl.element("Lagrange", "triangle", 1),
    )
    space = fem.functionspace(domain, basix.ufl.mixed_element([velocity, pressure]))
    v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")
    elements = {v: velocity, p: pressure}
    gradient, divergence = (
        weak_form(grad(p), v, elements, multipliers=[p]),
        weak_form(div(v), p, elements, multipliers=[p]),
    )
    assert gradient.boundary == p * dot(cf.n, gradient.test)
    trial, test = ufl.TrialFunctions(space), ufl.TestFunctions(space)
    context = Context(
        domain.ufl_domain(),
        {v: trial[0], p: trial[1], gradient.test: test[0], divergence.test: test[1]},
    )
    difference = matrix(gradient.forms(context).volume) + matrix(divergence.forms(context).volume).T
    assert abs(difference).max() <= 1e-15
    whole = matrix(gradient.forms(context).total) - matrix(
        weak_form(grad(p), v, elements).forms(context).total
    )
    assert abs(whole).max() <= 1e-15


def test_auxiliary_fields_are_told_apart_by_what_they_stand_for():
    E, element = cf.VectorField("E", dim=3), basix.ufl.element("N1curl", "tetrahedron", 1)
    epsilon = sp.Piecewise((1, x < 0), (4, True))
    first, again, other = (
        weak_form(term, E, {E: element}).auxiliaries[0]
        for term in (grad(div(E)), lap(E), grad(div(epsilon * E)))
    )
    assert first == again
    assert other.field != first.field
    named = cf.VectorField("E_test", dim=3)
    assert weak_form(cf.cross(E, named), E, {E: element, named: element}).test.name == "E_test_"
