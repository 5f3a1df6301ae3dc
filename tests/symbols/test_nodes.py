"""Nodes as SymPy objects: shapes, refusals, substitution, pickling, printing."""

import pickle

import pytest
import sympy as sp

import cffem.symbols as cf
from cffem.symbols import x, y, z
from cffem.symbols.algebra.shapes import shape_of
from cffem.symbols.errors import AmbiguousShape

u, v = cf.ScalarField("u"), cf.ScalarField("v")
E, B = cf.VectorField("E", dim=3), cf.VectorField("B", dim=3)
w = cf.VectorField("w", dim=2)
one = cf.VectorField("a", dim=1)
nu = cf.Parameter("nu")


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda: E * B, "write dot, inner, cross or outer"),
        (lambda: 2 * E * B, "write dot, inner, cross or outer"),
        (lambda: E**2, "write norm2"),
        (lambda: 1 / E, "power of a vector"),
        (lambda: u / E, "power of a vector"),
        (lambda: E + 1, "combines a"),
        (lambda: 1 - E, "combines a"),
        (lambda: u + E, "combines a"),
        (lambda: cf.grad(u) + u, "combines a"),
        (lambda: cf.curl(E) * E, "write dot"),
        (lambda: E + w, "combines dimensions"),
        (lambda: cf.div(u), "u is a scalar"),
        (lambda: cf.div(sp.sin(E)), "sin takes scalars"),
        (lambda: cf.lap(sp.Mul(E, B)), "write dot"),
        (lambda: cf.grad(cf.grad(E)), "grad of a tensor"),
        (lambda: cf.lap(cf.grad(E)), "lap of a tensor"),
        (lambda: cf.curl(cf.grad(E)), "curl of a tensor"),
        (lambda: cf.curl(one), "curl takes"),
        (lambda: cf.curl(cf.ScalarField("s", dim=3)), "curl takes"),
        (lambda: cf.dot(u, E), "the scalar u"),
        (lambda: cf.dot(E, w), "combines dimensions"),
        (lambda: cf.cross(one, one), "2 or 3 components"),
        (lambda: cf.outer(u, E), "outer takes two vectors"),
        (lambda: cf.inner(E, u), "combines a"),
        (lambda: cf.trace(E), "trace takes a tensor"),
        (lambda: cf.sym(u), "sym takes a tensor"),
        (lambda: cf.vector(E, 0, 0), "components of a vector are scalars"),
        (lambda: cf.vector(1, 2, 3, 4), "1, 2 or 3 components"),
        (lambda: cf.component(u, 0), "has no component 0"),
        (lambda: cf.grad(sp.Matrix([[1, 2], [3, 4]])), "grad of a tensor"),
        (lambda: shape_of(sp.Piecewise((E, x > 0), (u, True))), "combines a"),
        (lambda: shape_of(sp.Piecewise((u, sp.Integer(0) < E), (v, True))), "compares a vector"),
    ],
)
def test_combinations_without_meaning_are_refused(write, message):
    with pytest.raises(cf.ShapeError, match=message):
        write()


def test_errors_are_value_errors():
    assert issubclass(cf.ShapeError, ValueError)
    assert issubclass(cf.TermShapeError, cf.ShapeError)
    assert issubclass(cf.TermShapeError, cf.LibraryError)


def test_strings_and_truth_values_are_not_terms():
    with pytest.raises(TypeError, match=r"cffem\.parse"):
        cf.grad("u")
    with pytest.raises(cf.SymbolError, match="not an expression"):
        cf.grad(True)


def test_components_are_taken_by_valid_indices_only():
    assert E[2] == cf.component(E, 2)
    with pytest.raises(IndexError, match="components 0 to 2"):
        E[3]
    with pytest.raises(IndexError, match="components 0 to 1"):
        cf.curl(cf.ScalarField("s", dim=2))[2]
    with pytest.raises(TypeError):
        list(E)
    assert cf.grad(u)[1] == u.diff(y)
    assert cf.curl(E)[2] == E[1].diff(x) - E[0].diff(y)
    assert cf.dot(cf.grad(w), w)[0] == w[0] * w[0].diff(x) + w[1] * w[0].diff(y)


@pytest.mark.parametrize(
    ("expr", "shape"),
    [
        (cf.grad(u), (None,)),
        (cf.grad(cf.ScalarField("s", dim=1)), (1,)),
        (cf.grad(E), (3, 3)),
        (cf.div(E), ()),
        (cf.div(cf.grad(u) * u), ()),
        (cf.curl(w), ()),
        (cf.curl(cf.ScalarField("s", dim=2)), (2,)),
        (cf.cross(w, cf.vector(x, y)), ()),
        (cf.cross(E, B), (3,)),
        (cf.dot(cf.grad(E), B), (3,)),
        (cf.outer(E, B), (3, 3)),
        (cf.inner(cf.grad(E), cf.grad(B)), ()),
        (cf.n, (None,)),
        (cf.dt(E), (3,)),
        (sp.Piecewise((E, x > 0), (0, True)), (3,)),
    ],
)
def test_expressions_know_their_shape(expr, shape):
    assert shape_of(expr) == shape


def test_ambiguous_curl_says_so():
    with pytest.raises(AmbiguousShape, match="give a field its dim"):
        shape_of(cf.curl(u * cf.grad(v)))


def test_operators_in_one_dimension_are_derivatives():
    s = cf.ScalarField("s", dim=1)
    assert cf.to_components(cf.lap(s), 1) == (s.diff(x, 2),)
    assert cf.to_components(cf.grad(s), 1) == (s.diff(x),)
    assert cf.to_components(cf.div(one), 1) == (one[0].diff(x),)
    assert cf.div(cf.vector(s)) == s.diff(x)
    assert cf.dot(cf.vector(2), cf.grad(s)) == 2 * s.diff(x)


def test_vectors_are_substituted_everywhere():
    assert (2 * E).subs(E, (x, y, z)) == 2 * cf.vector(x, y, z)
    assert (2 * E).xreplace({E: (x, y, z)}) == 2 * cf.vector(x, y, z)
    assert cf.div(E).subs({E: (x, y, z)}) == 3
    assert E[1].subs(E, (x, y, z)) == y
    assert E.subs(E, sp.Matrix([x, y, z])) == cf.vector(x, y, z)
    assert cf.dt(E).subs(E, (x * cf.t, y, z)).doit() == cf.vector(x, 0, 0)
    assert cf.lap(u).subs(u, v**2) == cf.lap(v**2)
    assert cf.curl(E).subs(E, cf.grad(u)) == 0
    assert (nu * cf.lap(u)).subs(nu, 3) == 3 * cf.lap(u)


def test_free_symbols_and_equality():
    assert {u, nu} <= (nu * cf.lap(u)).free_symbols
    assert cf.lap(u) == cf.lap(cf.ScalarField("u"))
    assert cf.lap(u) != cf.lap(v)
    assert cf.ScalarField("u", dim=2) != u
    assert hash(cf.grad(u)) == hash(cf.grad(cf.ScalarField("u")))


def test_held_operators_stay_as_written():
    held = cf.div(u * E, evaluate=False)
    assert held.held
    assert held != cf.div(u * E)
    for copy in (
        held.subs(u, v),
        held.xreplace({u: v}),
        held.replace(u, v),
        (2 * held + 1).subs(u, v).atoms(type(held)).pop(),
    ):
        assert copy == cf.div(v * E, evaluate=False)
        assert copy.held
    assert pickle.loads(pickle.dumps(held)) == held
    assert pickle.loads(pickle.dumps(held)).held
    assert held.doit() == u * cf.div(E) + cf.dot(E, cf.grad(u))
    assert cf.grad(held).args[0].held
    assert cf.dt(held) == cf.div(u.diff(cf.t) * E + u * E.diff(cf.t), evaluate=False)


def test_an_operator_with_nothing_to_do_is_not_held():
    assert not cf.div(E, evaluate=False).held
    assert cf.div(E, evaluate=False) == cf.div(E)
    assert cf.div(u * E, evaluate=False).subs(u, 1) == cf.div(E)
    assert cf.grad(sp.Integer(0), evaluate=False) == 0


def test_derivatives_with_respect_to_parameters():
    assert cf.lap(nu * u).diff(nu) == cf.lap(u)
    jump = sp.Piecewise((nu, x < 0), (1, True))
    assert cf.div(jump * cf.grad(u)).diff(nu) == cf.div(
        sp.Piecewise((1, x < 0), (0, True)) * cf.grad(u)
    )
    assert cf.dot(E, B).diff(x) == cf.dot(E.diff(x), B) + cf.dot(E, B.diff(x))
    assert cf.norm2(E).diff(cf.t) == 2 * cf.dot(E, cf.dt(E))


@pytest.mark.parametrize(
    ("expr", "text", "latex"),
    [
        (cf.grad(cf.div(E)), "grad(div(E))", r"\nabla \left(\nabla \cdot \mathbf{E}\right)"),
        (cf.div(w) ** 2, "div(w)**2", r"\left(\nabla \cdot \mathbf{w}\right)^{2}"),
        (-cf.lap(u), "-lap(u)", r"- \Delta u"),
        (cf.lap(u) * cf.lap(v), "lap(u)*lap(v)", r"\left(\Delta u\right) \left(\Delta v\right)"),
        (
            cf.curl(cf.curl(E)),
            "curl(curl(E))",
            r"\nabla \times \left(\nabla \times \mathbf{E}\right)",
        ),
        (cf.curl(cf.ScalarField("s", dim=2)), "curl(s)", r"\nabla^{\perp} s"),
        (cf.curl(w), "curl(w)", r"\nabla \times \mathbf{w}"),
        (
            cf.dot(cf.grad(w), w),
            "dot(grad(w), w)",
            r"\left(\mathbf{w} \cdot \nabla\right) \mathbf{w}",
        ),
        (cf.dot(E, cf.grad(u)), "dot(E, grad(u))", r"\mathbf{E} \cdot \nabla u"),
        (cf.norm2(cf.grad(u)), "dot(grad(u), grad(u))", r"\left|\nabla u\right|^{2}"),
        (cf.sym(cf.grad(E)), "sym(grad(E))", r"\operatorname{sym}\left(\nabla \mathbf{E}\right)"),
        (
            cf.transpose(cf.grad(E)),
            "transpose(grad(E))",
            r"\left(\nabla \mathbf{E}\right)^{\mathsf T}",
        ),
        (
            cf.grad(u.diff(x)),
            "grad(Derivative(u, x))",
            r"\nabla \left(\frac{\partial}{\partial x} u\right)",
        ),
        (E[1], "E[1]", "E_{y}"),
        (cf.n, "n", r"\mathbf{n}"),
        (cf.vector(x, -y), "vector(x, -y)", r"\left(x, - y\right)"),
        (cf.div(u * E, evaluate=False), "div(u*E)", r"\nabla \cdot \left(u \mathbf{E}\right)"),
    ],
)
def test_expressions_print_as_text_and_latex(expr, text, latex):
    assert str(expr) == text
    assert sp.latex(expr) == latex


def test_symbols_are_refused_by_name():
    with pytest.raises(cf.SymbolError, match="coordinate"):
        cf.Parameter("x")
    with pytest.raises(cf.SymbolError, match="identifier"):
        cf.Parameter("a b")
    with pytest.raises(cf.SymbolError, match="coordinate or the normal"):
        cf.ScalarField("n")
    with pytest.raises(cf.SymbolError, match="must be 1, 2 or 3"):
        cf.ScalarField("u", dim=4)
    with pytest.raises(cf.SymbolError, match="number of components"):
        cf.VectorField("E")


@pytest.mark.parametrize(
    "thing",
    [u, E, nu, cf.n, E[0], cf.n[1], cf.vector(x, 1), cf.dt(cf.curl(E)), cf.cross(cf.curl(E), E)],
)
def test_every_symbolic_object_survives_pickling(thing):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        copy = pickle.loads(pickle.dumps(thing, protocol))
        assert copy == thing
        assert hash(copy) == hash(thing)
