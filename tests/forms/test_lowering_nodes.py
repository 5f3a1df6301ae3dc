"""Single nodes, and what is refused: unsupported parts, wrong dimensions, derivatives that
elements cannot represent.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import basix.ufl
import sympy as sp
import ufl
from dolfinx import fem
from forms_support import parallelepiped
from random_terms import value_of

import cffem as cf
from cffem import curl, div, dot, dt, grad, lap, t, x, y, z
from cffem._compat import expression
from cffem.forms.functions import FUNCTIONS
from cffem.forms.lowering import Context, Lowering, lower
from cffem.forms.strong import check_representable, strong_form
from cffem.forms.translation_errors import DimensionError, NotRepresentable, UnsupportedTerm
from cffem.forms.weak import weak_form

pytestmark = pytest.mark.fem
u, w, nu = cf.ScalarField("u"), cf.ScalarField("w"), cf.Parameter("nu")
E, v = cf.VectorField("E", dim=3), cf.VectorField("v", dim=2)


def element(family: str = "Lagrange", cell: str = "triangle", degree: int = 2, **kwargs):
    return basix.ufl.element(family, cell, degree, **kwargs)


def context(dim: int = 2, **values) -> Context:
    cell = {1: "interval", 2: "triangle", 3: "tetrahedron"}[dim]
    domain = ufl.Mesh(basix.ufl.element("Lagrange", cell, 1, shape=(dim,)))
    return Context(
        domain,
        {u: ufl.Coefficient(ufl.FunctionSpace(domain, element("Lagrange", cell, 2))), **values},
    )


# What is evaluated
# --------------------------------------------------------------------------------------------------


def test_every_function_in_the_table_is_the_one_it_is_named_after():
    """All elementary functions at several points, each inside its domain of definition."""
    domain = parallelepiped("interval", 3, shear=0.0)
    inside = {
        sp.acosh: 1 + x,
        sp.asin: x / 2,
        sp.acos: x / 2,
        sp.atanh: x / 2,
        sp.Heaviside: x - sp.Rational(1, 3),
    }
    terms = []
    for function in FUNCTIONS:
        arguments = (
            inside.get(function, x - 2 if function in (sp.Abs, sp.sign) else x + sp.Rational(1, 5)),
        )
        terms.append(function(x - 1, x) if function is sp.atan2 else function(*arguments))
    terms += [
        sp.asinh(-40 * x),
        sp.Max(x, 1 - x, sp.Rational(3, 5)),
        sp.Min(x, 1 - x),
        (1 + x) ** nu,
        (x - 2) ** 3,
        (x - 2) ** -2,
    ]
    terms += [
        (1 + x) ** sp.Rational(-5, 3),
        sp.root(x, 3),
        sp.pi * x,
        sp.E**x,
        1 / sp.sqrt(x),
        sp.exp(-t) * x,
        sp.Rational(1, 3) / x,
    ]
    terms += [
        sp.Piecewise((1, sp.Not(x < sp.Rational(1, 2))), (x, sp.Ne(x, 2)), (5, True)),
        sp.Integer(7),
        x**2 / (1 + x) / nu,
    ]
    terms += [
        sp.Piecewise(
            (x, sp.Not(sp.And(x > sp.Rational(1, 5), x < sp.Rational(4, 5)))), (2 - x, True)
        )
    ]
    rates = {nu: fem.Constant(domain, 1.7), t: fem.Constant(domain, 0.3)}
    low = Lowering(Context(domain.ufl_domain(), rates))
    points, cells = np.array([[0.15], [0.63], [0.9]]), np.arange(3, dtype=np.int32)
    flat = [ufl.SpatialCoordinate(domain)[0], *map(low, terms)]
    computed = (
        expression(ufl.as_vector(flat), points, domain.comm)
        .eval(domain, cells)
        .reshape(-1, len(flat))
        .T
    )
    for term, values in zip(terms, computed[1:]):
        expected = value_of(term.subs({nu: 1.7, t: 0.3}), {x: computed[0]})
        np.testing.assert_allclose(values, expected, rtol=1e-13, err_msg=str(term))


def test_operators_on_vectors_with_constant_components():
    """UFL's own curl cannot be expanded there."""
    held = [
        cf.curl(cf.vector(1, u, z), evaluate=False),
        cf.div(cf.vector(1, u, 2), evaluate=False),
        cf.lap(cf.vector(1, u, 2)),
    ]
    for term in (*held, cf.grad(cf.vector(1, u, 2), evaluate=False)):
        ufl.algorithms.expand_derivatives(lower(term, context(3)))


def test_parts_are_translated_once():
    calls = []

    class Counting(Lowering):
        def gradient(self, f):
            calls.append(f)
            return super().gradient(f)

    low = Counting(context())
    low(dot(grad(u), grad(u)) + u * dot(grad(u), grad(u)))
    assert len(calls) == 1


def test_time_derivatives_are_looked_up():
    rate = ufl.Coefficient(context().values[u].ufl_function_space())
    values = context().extended({dt(u): rate})
    assert lower(dt(u), values) is rate
    assert lower(dt(lap(u)), values) == ufl.div(ufl.grad(rate))
    assert lower(dt(u).diff(x), values) == rate.dx(0)
    with pytest.raises(UnsupportedTerm, match="time derivative has no value"):
        lower(u + dt(dt(u)), values)


def test_components_of_a_rate_of_a_vector():
    domain = context().domain
    rate = ufl.Coefficient(ufl.FunctionSpace(domain, element(shape=(2,))))
    assert lower(dt(v[1]), Context(domain, {dt(v): rate})) == rate[1]


def test_the_same_term_gives_the_same_form_whatever_its_parameters_are_called():
    here = context()
    one, two = (ufl.Constant(here.domain) for _ in range(2))
    forms = [
        lower(p * lap(u) + u * p, here.extended({p: c})) * ufl.dx
        for p, c in ((nu, one), (cf.Parameter("kappa"), two))
    ]
    assert forms[0].signature() == forms[1].signature()


# What is refused
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (
            u * sp.gamma(u),
            r"gamma\(u\) \(gamma\) in u\*gamma\(u\): this function has no UFL counterpart",
        ),
        (
            u + sp.Symbol("k"),
            r"k \(Symbol\) in u \+ k: the symbol has no value; declare it as a Parameter",
        ),
        (w * u, r"w \(ScalarField\) in u\*w: the field has no function"),
        (u * sp.I, r"I \(ImaginaryUnit\)"),
        (u + sp.oo * nu, "finite real numbers"),
        (sp.Piecewise((u, x > 0)), "end it with"),
        (sp.Function("f")(x) * u, "unspecified function"),
        (sp.floor(u), r"floor\(u\) \(floor\)"),
        (sp.Integral(u, x), r"Integral"),
        (nu * u, r"nu \(Parameter\)"),
    ],
)
def test_unsupported_nodes_are_named(term, message):
    with pytest.raises(UnsupportedTerm, match=message):
        lower(term, context())


@pytest.mark.parametrize(
    ("dim", "term"),
    [(2, u.diff(z)), (2, z * u), (1, u.diff(y)), (2, cf.vector(u, 2, 3)), (1, curl(u))],
)
def test_dimensions_are_checked(dim, term):
    with pytest.raises(DimensionError):
        lower(term, context(dim))


def test_a_field_of_the_wrong_dimension_is_refused():
    domain = context().domain
    with pytest.raises(
        DimensionError, match="the field has dimension 3, but the mesh has dimension 2"
    ):
        Context(domain, {E: ufl.Coefficient(ufl.FunctionSpace(domain, element(shape=(2,))))})
    with pytest.raises(
        DimensionError, match=r"the field has shape \(2,\), but its function has shape \(\)"
    ):
        Context(domain, {v: ufl.Coefficient(ufl.FunctionSpace(domain, element()))})
    with pytest.raises(DimensionError, match="no coordinate z"):
        weak_form(lap(u) + z, u, {u: element()})
    with pytest.raises(DimensionError, match="dimension 3"):
        weak_form(div(E), u, {u: element(), E: element(shape=(2,))})


N1, RT1 = element("N1curl", "tetrahedron", 1), element("RT", "tetrahedron", 1)
REPRESENTABLE = [
    (u * u.diff(x), {u: element(degree=1)}),
    (lap(u), {u: element(degree=2)}),
    (u.diff(x, 3), {u: element(degree=3)}),
    (curl(E), {E: N1}),
    (curl((1 + x) * E, evaluate=False), {E: N1}),
    (div(E) * E, {E: RT1}),
    (cf.cross(curl(dt(E)), E), {E: N1}),
    (u**2, {u: element("DG", degree=0)}),
    (lap(u), {}),
]
NOT_REPRESENTABLE = [
    (lap(u), {u: element(degree=1)}, "degree 2 or higher"),
    (u.diff(x, 3), {u: element(degree=2)}, "degree 3 or higher"),
    (curl(curl(E)), {E: N1}, "second derivatives across cells; use the weak form"),
    (curl(curl(E)), {E: element("N1curl", "tetrahedron", 2)}, "use the weak form"),
    (div(E), {E: N1}, "cannot represent its div across cells"),
    (dot(grad(E), E), {E: N1}, "cannot represent its grad"),
    (E[0].diff(x), {E: N1}, "cannot represent its grad"),
    (
        curl(u * cf.cross(E, E[0] * E + cf.vector(1, 0, 0)), evaluate=False),
        {E: N1, u: element(cell="tetrahedron")},
        "its grad",
    ),
    (curl(E), {E: RT1}, "cannot represent its curl"),
    (grad(div(E)), {E: RT1}, "second derivatives"),
    (u.diff(x), {u: element("DG", degree=0)}, "across cells"),
    (u.diff(x), {u: element("DG", degree=2)}, "broken=True"),
]


@pytest.mark.parametrize(("term", "elements"), REPRESENTABLE)
def test_derivatives_that_elements_represent(term, elements):
    check_representable(term, elements)


@pytest.mark.parametrize(("term", "elements", "message"), NOT_REPRESENTABLE)
def test_derivatives_that_elements_cannot_represent(term, elements, message):
    with pytest.raises(NotRepresentable, match=message):
        check_representable(term, elements)


def test_broken_derivatives_are_given_when_asked_for():
    here = context()
    with pytest.raises(UnsupportedTerm, match="boundary only"):
        strong_form(dot(cf.n, grad(u)), here, {u: element()})
    with pytest.raises(NotRepresentable):
        strong_form(lap(u), here, {u: element(degree=1)})
    assert strong_form(lap(u), here, {u: element(degree=1)}, broken=True) == ufl.div(
        ufl.grad(here.values[u])
    )


@pytest.mark.parametrize(
    ("term", "equation", "elements", "message"),
    [
        (
            lap(lap(u)),
            u,
            {u: element("DG", degree=1)},
            "third and higher order need a Lagrange element",
        ),
        (curl(curl(curl(curl(E)))), E, {E: N1}, "order 4"),
        (u.diff(x, 3, cf.t), u, {u: element(degree=3)}, "order 3 have no weak form"),
        (lap(u) ** 2, u, {u: element("DG", degree=1)}, "nonlinear function"),
        (sp.sin(lap(u)), u, {u: element("DG", degree=1)}, "nonlinear function"),
        (
            lap(u) * lap(w),
            u,
            {u: element(), w: element("DG", degree=1)},
            "several derivatives of second order",
        ),
        (u.diff(x) * lap(u), u, {u: element()}, r"leaves the derivatives of order 2 of u"),
        (
            sp.Piecewise((1, x < 0), (2, True)) * lap(u),
            u,
            {u: element()},
            r"jumps multiplies a derivative; write it inside",
        ),
        (
            lap(u),
            u,
            {u: element("DG", degree=0)},
            "is constant on cells and has no gradient there",
        ),
        (lap(u), u, {}, "the field has no element"),
        (dot(cf.n, grad(u)), u, {u: element()}, "the normal exists on the boundary only"),
        (lap(u), v, {u: element(), v: element(shape=(2,))}, "does not have the shape of v"),
        (cf.norm2(grad(u)), u, {u: element("DG", degree=1)}, "several derivatives"),
    ],
)
def test_terms_without_weak_form_are_named(term, equation, elements, message):
    with pytest.raises(UnsupportedTerm, match=message):
        weak_form(term, equation, elements)
