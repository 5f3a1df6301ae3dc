"""Observed orders of convergence: L2 projections of strong terms and manufactured solves with weak
terms reach theory.

The terms of one space are compiled together, each behind a constant that switches it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import basix.ufl
import scipy.sparse as sparse
import sympy as sp
import ufl
from dolfinx import fem
from forms_support import (
    boundary_dofs,
    constrained_solve,
    matrix,
    observed_orders,
    parallelepiped,
    scalar,
    smooth_context,
    vector,
)
from scipy.sparse.linalg import spsolve
from ufl.constantvalue import Zero

import cffem as cf
from cffem import curl, div, dot, grad, lap, norm2, x, y, z
from cffem._compat import form, interpolation_points
from cffem.forms.derivative import gateaux
from cffem.forms.elements import before
from cffem.forms.lowering import lower
from cffem.forms.strong import strong_form
from cffem.forms.weak import weak_form

pytestmark = pytest.mark.fem
HALF = sp.Rational(1, 2)
SMOOTH_SCALAR = {
    1: sp.cos(2 * sp.pi * x) + x * (x - 1),
    2: sp.cos(2 * sp.pi * x) * (1 + y**2) / 2,
    3: sp.cos(2 * sp.pi * x) * (1 + y * z) / 2,
}
SMOOTH_VECTOR = {
    2: cf.vector(sp.sin(x + 2 * y) * y, sp.cos(3 * x) * (1 + y)),
    3: cf.vector(sp.sin(2 * y + x) * z, sp.cos(2 * x + z), x * sp.exp(y * z)),
}
COUNTS = {
    "interval": (8, 16, 32),
    "triangle": (4, 8, 16),
    "quadrilateral": (4, 8, 16),
    "tetrahedron": (4, 8),
    "hexahedron": (6, 12),
}


def unit_domain(cell: str, n: int):
    return parallelepiped(
        cell, *[n] * {"interval": 1, "triangle": 2, "quadrilateral": 2}.get(cell, 3), shear=0.0
    )


def measures(degree: int) -> list:
    return [measure(metadata={"quadrature_degree": degree}) for measure in (ufl.dx, ufl.ds, ufl.dS)]


def interpolated(value, space: fem.FunctionSpace) -> fem.Function:
    function = fem.Function(space)
    function.interpolate(fem.Expression(value, interpolation_points(space)))
    return function


def check_orders(
    errors: Callable[[int], dict[str, float]], counts: tuple[int, ...], theory: dict[str, float]
) -> None:
    found = {n: errors(n) for n in counts}
    assert found[counts[0]].keys() == theory.keys()
    for name, order in theory.items():
        observed = observed_orders(lambda n, name=name: found[n][name], counts)
        assert observed[-1] >= order - 0.1, (
            f"{name}: {observed} with errors {[found[n][name] for n in counts]}, theory {order}"
        )


# Strong terms
# --------------------------------------------------------------------------------------------------


def projection_errors(
    n: int, cell: str, field, element, terms: dict[str, sp.Expr], target
) -> dict[str, float]:
    """L2 errors of the projection of each strong term on the interpolant of a smooth field."""
    domain = unit_domain(cell, n)
    dim, (dx, *_) = domain.geometry.dim, measures(8)
    exact = smooth_context(domain, {field: (SMOOTH_VECTOR if field.shape else SMOOTH_SCALAR)[dim]})
    discrete = exact.extended(
        {field: interpolated(exact.values[field], fem.functionspace(domain, element))}
    )
    space = fem.functionspace(domain, target)
    v, projection = ufl.TestFunction(space), fem.Function(space)
    switches = [fem.Constant(domain, 0.0) for _ in terms]
    mass = matrix(ufl.inner(ufl.TrialFunction(space), v) * dx).tocsc()
    strong = [strong_form(term, discrete, {field: element}) for term in terms.values()]
    load = form(sum(c * ufl.inner(f, v) * dx for c, f in zip(switches, strong)), domain.comm)
    square = sum(
        c * ufl.inner(lower(t, exact) - projection, lower(t, exact) - projection) * dx
        for c, t in zip(switches, terms.values())
    )
    error, found = form(square, domain.comm), {}
    for name, switch in zip(terms, switches):
        switch.value = 1.0
        projection.x.array[:] = spsolve(mass, fem.assemble_vector(load).array)
        found[name] = np.sqrt(fem.assemble_scalar(error))
        switch.value = 0.0
    return found


def test_projected_scalar_terms_lose_one_order_for_each_derivative():
    u = cf.ScalarField("u", dim=2)
    terms = {
        "u": (u, 4),
        "u^2": (u**2, 4),
        "u_x": (u.diff(x), 3),
        "sin(u) u_y": (sp.sin(u) * u.diff(y), 3),
        "|grad u|^2": (norm2(grad(u)), 3),
        "lap": (lap(u), 2),
        "u_xy": (u.diff(x, y), 2),
        "div(1+u^2)grad": (div((1 + u**2) * grad(u)), 2),
        "u_xxx": (u.diff(x, 3), 1),
    }
    element, target = (
        basix.ufl.element("Lagrange", "triangle", 3),
        basix.ufl.element("Lagrange", "triangle", 3),
    )
    plain, theory = {k: t for k, (t, _) in terms.items()}, {k: o for k, (_, o) in terms.items()}
    check_orders(
        lambda n: projection_errors(n, "triangle", u, element, plain, target), (4, 8, 16), theory
    )


def test_projected_vector_terms_lose_one_order_for_each_derivative():
    E = cf.VectorField("E", dim=2)
    terms = {
        "(E.grad)E": (dot(grad(E), E), 2),
        "lap": (lap(E), 1),
        "grad div": (grad(div(E)), 1),
        "curl curl": (curl(curl(E)), 1),
        "div sym grad": (div(cf.sym(grad(E))), 1),
    }
    element = target = basix.ufl.element("Lagrange", "triangle", 2, shape=(2,))
    plain, theory = {k: t for k, (t, _) in terms.items()}, {k: o for k, (_, o) in terms.items()}
    check_orders(
        lambda n: projection_errors(n, "triangle", E, element, plain, target), (4, 8, 16), theory
    )


@pytest.mark.parametrize(
    ("family", "cell", "degree"),
    [
        ("N1curl", "triangle", 2),
        ("RT", "triangle", 2),
        ("N1curl", "tetrahedron", 1),
        ("RT", "tetrahedron", 1),
    ],
)
def test_projection_of_the_natural_derivative(family, cell, degree):
    E = cf.VectorField("E", dim=2 if cell == "triangle" else 3)
    derivative = curl(E) if family == "N1curl" else div(E)
    target = basix.ufl.element("Lagrange", cell, degree, shape=derivative.shape or None)
    element = basix.ufl.element(family, cell, degree)

    def errors(n):
        return projection_errors(n, cell, E, element, {"d": derivative}, target)

    check_orders(errors, (4, 8, 16) if cell == "triangle" else (4, 8), {"d": degree})


# Weak terms: u − lap(u) − T[u] = f
# --------------------------------------------------------------------------------------------


def newton(residual, jacobian, function: fem.Function, fixed: np.ndarray) -> None:
    """Solve from the given start; entries `fixed` stay."""
    for _ in range(12):
        assembled = fem.assemble_matrix(jacobian)
        step = constrained_solve(
            sparse.csr_matrix(assembled.to_scipy()),
            fem.assemble_vector(residual).array,
            fixed,
            np.zeros(len(fixed)),
        )
        function.x.array[:] -= step
        if np.linalg.norm(step) <= 1e-11 * np.linalg.norm(function.x.array):
            return
    raise AssertionError("Newton did not converge")


def solve_errors(
    n: int, cell: str, field, element, terms: dict[str, sp.Expr], base: sp.Expr, natural: bool
) -> dict[str, float]:
    """L2 errors of u − base[u] − T[u] = f with Dirichlet data, or with the natural boundary
    terms of all traces given.
    """
    domain = unit_domain(cell, n)
    dim, (dx, ds, dS) = domain.geometry.dim, measures(8)
    value = (SMOOTH_VECTOR if field.shape else SMOOTH_SCALAR)[dim]
    space = fem.functionspace(domain, element)
    weak = [weak_form(term, field, {field: element}) for term in (base, *terms.values())]
    exact = smooth_context(domain, {field: value}).extended({weak[0].test: ufl.TestFunction(space)})
    function = fem.Function(space)
    discrete = exact.extended({field: function})
    switches = [1.0, *(fem.Constant(domain, 0.0) for _ in terms)]
    residual = ufl.inner(function - exact.values[field], exact.values[weak[0].test]) * dx
    for switch, term in zip(switches, weak):
        inside, outside = term.forms(discrete, dx, ds, dS), term.forms(exact, dx, ds, dS)
        strong = ufl.inner(lower(term.term, exact), exact.values[term.test]) * dx
        residual -= switch * (inside.volume + inside.interior + outside.boundary - strong)
    compiled, jacobian = form(residual, domain.comm), form(gateaux(residual, function), domain.comm)
    difference = form(
        ufl.inner(function - exact.values[field], function - exact.values[field]) * dx, domain.comm
    )
    start = interpolated(exact.values[field], space).x.array.copy()
    fixed, found = np.array([], dtype=int) if natural else boundary_dofs(space), {}
    for name, switch in zip(terms, switches[1:]):
        switch.value = 1.0
        function.x.array[:] = start
        newton(compiled, jacobian, function, fixed)
        found[name] = np.sqrt(fem.assemble_scalar(difference))
        switch.value = 0.0
    return found


def scalar_candidates(u, dim: int) -> dict[str, sp.Expr]:
    jumping = sp.Piecewise((1, x < HALF), (3, True))
    b = cf.vector(*(1 + x, 2 - x, x)[:dim])
    terms = {
        "lap": lap(u),
        "(1+x^2) lap": (1 + x**2) * lap(u),
        "div(a grad) with jump": div(jumping * grad(u)),
        "u_xx": u.diff(x, 2),
        "advection": dot(b, grad(u)),
        "divergence-form advection": div(u * b, evaluate=False),
        "reaction": -(u**3),
        "Burgers": u * u.diff(x),
        "div((1+u^2) grad)": div((1 + u**2) * grad(u)),
        "div(|grad u|^2 grad)": div(norm2(grad(u)) * grad(u)) / 10,
    }
    return terms if dim == 1 else {**terms, "u_xy": u.diff(x, y)}


@pytest.mark.parametrize(
    ("cell", "degree", "natural"),
    [
        *(
            (cell, degree, natural)
            for cell, degree in (("interval", 2), ("triangle", 2), ("quadrilateral", 1))
            for natural in (False, True)
        ),
        ("tetrahedron", 1, False),
        pytest.param("hexahedron", 1, False, marks=pytest.mark.slow),
    ],
)
def test_solutions_with_scalar_terms_converge_with_the_full_order(cell, degree, natural):
    dim = {"interval": 1, "triangle": 2, "quadrilateral": 2}.get(cell, 3)
    u = cf.ScalarField("u", dim=dim)
    terms = scalar_candidates(u, dim)
    counts = COUNTS[cell]
    element = basix.ufl.element("Lagrange", cell, degree)
    errors = lambda n: solve_errors(n, cell, u, element, terms, lap(u), natural)  # noqa: E731
    check_orders(errors, counts, dict.fromkeys(terms, degree + 1))


@pytest.mark.parametrize("natural", [False, True])
def test_solutions_with_vector_terms_converge_with_the_full_order(natural):
    E = cf.VectorField("E", dim=2)
    terms = {
        "lap": lap(E),
        "grad div": grad(div(E)),
        "- curl curl": -curl(curl(E)),
        "div sym grad": div(cf.sym(grad(E))),
        "(E.grad)E": dot(grad(E), E),
        "div(E E)": div(cf.outer(E, E), evaluate=False),
        "reaction": -E * norm2(E),
    }
    element = basix.ufl.element("Lagrange", "triangle", 2, shape=(2,))
    errors = lambda n: solve_errors(n, "triangle", E, element, terms, lap(E), natural)  # noqa: E731
    check_orders(errors, (4, 8, 16), dict.fromkeys(terms, 3))


@pytest.mark.parametrize(
    ("family", "cell", "degree"),
    [
        ("N1curl", "triangle", 2),
        ("N1curl", "tetrahedron", 1),
        ("RT", "triangle", 2),
        ("RT", "tetrahedron", 1),
    ],
)
def test_solutions_on_edge_and_face_elements_converge_with_the_full_order(family, cell, degree):
    """E + curl curl E = f on Nédélec and E − grad div E = f on Raviart–Thomas elements, with
    a further term.
    """
    E = cf.VectorField("E", dim=2 if cell == "triangle" else 3)
    base = -curl(curl(E)) if family == "N1curl" else grad(div(E))
    terms = {"base": base, "E |E|^2": -E * norm2(E)}
    if family == "N1curl":
        terms["curl((1+x) curl)"] = -curl((1 + x) * curl(E), evaluate=False)
    element = basix.ufl.element(family, cell, degree)
    errors = lambda n: solve_errors(n, cell, E, element, terms, base, natural=False)  # noqa: E731
    check_orders(errors, (4, 8, 16) if cell == "triangle" else (4, 8), dict.fromkeys(terms, degree))


# Weak terms with an auxiliary field
# --------------------------------------------------------------------------------------------


def laplacian_errors(n: int, family: str, cell: str, degree: int) -> dict[str, float]:
    """E − lap(E) = f on Nédélec or Raviart–Thomas elements, the field and its auxiliary
    solved together, natural conditions.
    """
    domain, element = unit_domain(cell, n), basix.ufl.element(family, cell, degree)
    dim, (dx, ds, _) = domain.geometry.dim, measures(2 * degree + 4)
    E = cf.VectorField("E", dim=dim)
    weak = weak_form(lap(E), E, {E: element})
    (auxiliary,) = weak.auxiliaries
    V, Q = fem.functionspace(domain, element), fem.functionspace(domain, auxiliary.element)
    (e, v), (s, q) = (
        (ufl.TrialFunction(V), ufl.TestFunction(V)),
        (ufl.TrialFunction(Q), ufl.TestFunction(Q)),
    )
    exact = smooth_context(domain, {E: SMOOTH_VECTOR[dim]}).extended(
        {weak.test: v, auxiliary.test: q}
    )
    operator = lower(auxiliary.definition.term, exact)
    only_e = exact.extended({E: e, auxiliary.field: Zero(auxiliary.field.shape)})
    only_s = exact.extended({E: Zero((dim,)), auxiliary.field: s})
    A = matrix(ufl.inner(e, v) * dx - weak.forms(only_e, dx, ds).volume)
    C, M = matrix(weak.forms(only_s, dx, ds).volume), matrix(auxiliary.mass(s, q, dx))
    B = matrix(auxiliary.definition.forms(only_e, dx, ds).volume)
    boundary = weak.forms(exact.extended({auxiliary.field: operator}), dx, ds).boundary
    f = vector(ufl.inner(exact.values[E] - lower(lap(E), exact), v) * dx + boundary)
    g = vector(auxiliary.definition.forms(exact, dx, ds).boundary)
    solution = spsolve(sparse.bmat([[A, -C], [-B, M]]).tocsc(), np.concatenate([f, g]))
    field, partner = fem.Function(V), fem.Function(Q)
    field.x.array[:], partner.x.array[:] = np.split(solution, [len(f)])
    pairs = {"field": field - exact.values[E], "auxiliary": partner - operator}
    return {name: np.sqrt(scalar(ufl.inner(error, error) * dx)) for name, error in pairs.items()}


@pytest.mark.parametrize(
    ("family", "cell", "degree"),
    [
        ("N1curl", "triangle", 1),
        ("N1curl", "triangle", 2),
        ("RT", "triangle", 1),
        ("RT", "triangle", 2),
        ("N1curl", "tetrahedron", 1),
        pytest.param("RT", "tetrahedron", 1, marks=pytest.mark.slow),
        pytest.param("BDM", "triangle", 1, marks=pytest.mark.slow),
    ],
)
def test_solving_the_laplacian_through_an_auxiliary_field(family, cell, degree):
    """Both fields reach the order of their polynomials; for Lagrange on these coarse
    tetrahedra the order of the a-priori bound.
    """
    element = basix.ufl.element(family, cell, degree)
    theory = {
        "field": element.embedded_subdegree + 1,
        "auxiliary": before(element).embedded_subdegree + 1,
    }
    if (family, cell) == ("N1curl", "tetrahedron"):
        theory["auxiliary"] = degree
    counts = (8, 16, 32) if cell == "triangle" else (4, 8)
    check_orders(lambda n: laplacian_errors(n, family, cell, degree), counts, theory)
