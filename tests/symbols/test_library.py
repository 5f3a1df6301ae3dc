"""Libraries check themselves, name the culprit, and never change."""

import pickle
import time

import pytest
import sympy as sp

import cffem.symbols as cf
from cffem.symbols import curl, div, dot, dt, grad, lap, x, y, z

u, v, p = cf.ScalarField("u"), cf.ScalarField("v"), cf.ScalarField("p")
E, B = cf.VectorField("E", dim=3), cf.VectorField("B", dim=3)
w = cf.VectorField("w", dim=2)
nu = cf.Parameter("nu")


def heat() -> cf.Library:
    return cf.Library(anchor=dt(u), terms={"u": u, "u_x": u.diff(x), "lap": lap(u), "one": 1})


@pytest.mark.parametrize(
    ("terms", "error", "words"),
    [
        ({"a": u, "b": 2 * u}, cf.LibraryError, ["'b'", "2 times", "'a'"]),
        ({"a": lap(u), "b": div(nu * grad(u))}, cf.LibraryError, ["'b'", "nu times", "'a'"]),
        (
            {"a": u * lap(u) + cf.norm2(grad(u)), "b": div(u * grad(u), evaluate=False)},
            cf.LibraryError,
            ["'b'", "equals", "'a'"],
        ),
        (
            {"a": sp.sin(2 * u), "b": sp.sin(u) * sp.cos(u)},
            cf.LibraryError,
            ["'b'", "1/2 times", "'a'"],
        ),
        ({"zero": u - u}, cf.LibraryError, ["'zero'", "identically zero"]),
        (
            {"zero": sp.cos(u) ** 2 + sp.sin(u) ** 2 - 1},
            cf.LibraryError,
            ["'zero'", "identically zero"],
        ),
        ({"same": dt(u)}, cf.LibraryError, ["'same'", "the anchor"]),
        (
            {"a": sp.Symbol("nuu") * u, "b": nu * lap(u)},
            cf.LibraryError,
            ["'a'", "nuu", "did you mean 'nu'"],
        ),
        ({"a": sp.Symbol("x") * u}, cf.LibraryError, ["'a'", "from cffem import x"]),
        ({"a": sp.Function("f")(x) * u}, cf.LibraryError, ["'a'", "f(x)"]),
        ({"a": dot(cf.n, grad(u))}, cf.LibraryError, ["'a'", "normal"]),
        ({"a": sp.I * u}, cf.LibraryError, ["'a'", "real and finite"]),
        ({"a": sp.oo * u}, cf.LibraryError, ["'a'", "oo"]),
        ({"a": "lap(u)"}, cf.LibraryError, ["'a'", "cffem.parse"]),
        ({"a": grad(u)}, cf.TermShapeError, ["'a'", "vector", "scalar"]),
        ({"a": sp.Mul(2 * E, 3 * B)}, cf.TermShapeError, ["'a'", "write dot"]),
        ({"a": sp.sin(E)}, cf.TermShapeError, ["'a'", "sin takes scalars"]),
        ({"a": E[0] + w[0]}, cf.TermShapeError, ["'a'", "2D", "3D"]),
        ({"a": E[0], "b": cf.curl(w)}, cf.TermShapeError, ["'a'", "'b'"]),
        ({"a": cf.ScalarField("u", dim=2)}, cf.LibraryError, ["'a'", "same name"]),
        ({"a": cf.Parameter("u") * u}, cf.LibraryError, ["'a'", "same name"]),
        ({"": u}, cf.LibraryError, ["''"]),
        ({" a": u}, cf.LibraryError, ["' a'"]),
        ({"a\n": u}, cf.LibraryError, ["not a name"]),
        ({7: u}, cf.LibraryError, ["7", "string"]),
        ([("a", u), ("a", u**2)], cf.LibraryError, ["'a'", "two terms"]),
        ([("a", u, 1)], cf.LibraryError, ["pairs"]),
        ([lap(u)], cf.LibraryError, ["pairs", "{'u': u}", "lap(u)"]),
        (lap(u), cf.LibraryError, ["{'u': u}", "lap(u)"]),
    ],
)
def test_malformed_terms_are_named(terms, error, words):
    with pytest.raises(error) as caught:
        cf.Library(anchor=dt(u), terms=terms)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_vector_terms_have_the_shape_of_their_anchor_and_differ():
    with pytest.raises(cf.TermShapeError, match="'one' is a scalar, but the anchor is a vector"):
        cf.Library(dt(E), {"one": 1})
    with pytest.raises(cf.LibraryError, match="'cc' is -1 times term 'hodge' in 3D"):
        cf.Library(dt(E), {"hodge": lap(E) - grad(div(E)), "cc": curl(curl(E))})
    library = cf.Library(
        dt(dt(E)),
        {"cc": -curl(curl(E)), "gd": grad(div(E)), "J": (0, 0, sp.sin(x)), "damping": dt(E)},
    )
    assert library.time_order == 2
    assert library.dim == 3
    assert library.shape == (3,)
    assert library.order("cc") == 2
    assert library.dependence("J") == "constant"


@pytest.mark.parametrize(
    ("anchor", "terms", "message"),
    [
        (u * dt(u), {"a": u}, "must be dt"),
        (dt(u) + u, {"a": u}, "must be dt"),
        (dt(lap(u)), {"a": u}, "must be dt"),
        (u.diff(cf.t, 3), {"a": u}, "must be dt"),
        (x + y, {"a": u}, "contains no field"),
        (None, {"a": u, "b": v}, "u, v"),
        ((dt(u), dt(v)), {"a": u}, "one Library for each and couple them in a System"),
        (None, {"a": x}, "no field"),
    ],
)
def test_anchors_of_another_kind_are_refused(anchor, terms, message):
    with pytest.raises(cf.LibraryError, match=message):
        cf.Library(anchor, terms)


def test_the_unknown_is_told_by_anchor_terms_or_name():
    assert heat().unknown == u
    steady = cf.Library(None, {"conv": dot(grad(w), w), "lap": lap(w), "p": grad(p)})
    assert steady.unknown == w
    assert steady.fields == (w, p)
    assert steady.time_order == 0
    assert cf.Library(None, {"a": u, "b": v}, unknown=v).unknown == v
    assert cf.Library(-lap(u), {"a": u * v}).unknown == u
    with pytest.raises(cf.LibraryError, match="does not occur in the anchor"):
        cf.Library(dt(u), {"a": v}, unknown=v)
    with pytest.raises(cf.LibraryError, match="must be a ScalarField or VectorField"):
        cf.Library(None, {"a": u}, unknown="u")


def test_a_library_tells_linear_from_nonlinear_terms_and_their_order():
    library = cf.Library(
        dt(u),
        {
            "x": x,
            "lin": x * u.diff(x),
            "aff": u - x,
            "non": u**2,
            "uv": u * v,
            "bi": lap(lap(u)),
            "sq": cf.norm2(grad(u)),
        },
    )
    assert [library.dependence(n) for n in ("x", "lin", "aff", "non", "uv")] == [
        "constant",
        "linear",
        "affine",
        "nonlinear",
        "nonlinear",
    ]
    assert library.dependence("uv", [u]) == "linear"
    assert [library.order(n) for n in library] == [0, 1, 0, 0, 0, 4, 1]


def test_a_library_behaves_as_a_mapping():
    library = heat()
    assert len(library) == 4
    assert list(library) == ["u", "u_x", "lap", "one"] == list(library.names)
    assert "lap" in library
    assert "lapp" not in library
    assert library["one"] == 1
    assert dict(library.items()) == dict(library.terms)
    with pytest.raises(KeyError, match="did you mean 'lap'"):
        library["lapp"]
    with pytest.raises(TypeError):
        library.terms["lap"] = u


def test_libraries_never_change():
    library = heat()
    with pytest.raises(AttributeError, match="never changes"):
        library.anchor = u
    with pytest.raises(AttributeError, match="never changes"):
        library._terms = {}
    with pytest.raises(AttributeError, match="never changes"):
        del library._terms
    assert library.without("u", "one").names == ("u_x", "lap")
    assert library.restrict(["lap", "u"]).names == ("u", "lap")
    assert library.with_terms({"cubic": u**3}).names[-1] == "cubic"
    assert library.names == ("u", "u_x", "lap", "one")


def test_changes_are_checked():
    library = heat()
    for change in (library.without, lambda name: library.restrict([name])):
        with pytest.raises(cf.LibraryError, match="did you mean 'lap'"):
            change("lapl")
    with pytest.raises(cf.LibraryError, match="already has a term called 'u'"):
        library.with_terms({"u": u**2})
    with pytest.raises(cf.LibraryError, match="3 times term 'u'"):
        library.with_terms({"more": 3 * u})
    assert len(library.without(*library.names)) == 0


def test_equality_hash_and_pickling():
    library = cf.Library(
        dt(u), {"a": nu * lap(u), "held": div(u * grad(u), evaluate=False)}, parameters={nu: 0.5}
    )
    copy = pickle.loads(pickle.dumps(library))
    assert copy == library
    assert hash(copy) == hash(library)
    assert copy.terms["held"].held
    assert copy.parameters == {nu: 0.5}
    assert library != library.without("a")
    assert heat() == heat()
    assert heat() != "heat"
    assert len({heat(), heat(), library}) == 2


def test_parameters_are_found_and_get_their_values():
    assert cf.Library(dt(u), {"a": nu * lap(u)}).parameters == {nu: None}
    assert cf.Library(dt(u), {"a": nu * lap(u)}, parameters={"nu": 2}).parameters == {nu: 2.0}
    with pytest.raises(cf.LibraryError, match="did you mean 'nu'"):
        cf.Library(dt(u), {"a": nu * lap(u)}, parameters={"mu": 2})
    with pytest.raises(cf.LibraryError, match="finite real"):
        cf.Library(dt(u), {"a": nu * lap(u)}, parameters={nu: float("nan")})
    assert (
        cf.Library(dt(u), {"a": nu * lap(u), "b": u}, parameters={nu: 2}).without("a").parameters
        == {}
    )


def test_a_library_is_checked_again_when_the_dimension_is_known():
    library = cf.Library(dt(u), {"lap": lap(u), "u_xx": u.diff(x, 2)})
    library.check(2)
    with pytest.raises(cf.LibraryError, match="'u_xx' equals term 'lap' in 1D"):
        library.check(1)
    with pytest.raises(cf.ShapeError, match="coordinate z"):
        cf.Library(dt(u), {"u_z": u.diff(z)}).check(2)
    with pytest.raises(cf.LibraryError, match="written for 3D"):
        cf.Library(dt(E), {"cc": curl(curl(E))}).check(2)


def test_a_library_prints_as_a_table():
    text = str(heat())
    assert text.splitlines()[0] == "Derivative(u, t) = sum of"
    assert [line.split()[0] for line in text.splitlines()[2:]] == ["u", "u_x", "lap", "one"]
    assert "linear" in text
    assert repr(heat()).startswith("Library(anchor=Derivative(u, t)")
    assert str(cf.Library(None, {"lap": lap(u)})).startswith("0 = sum of")


def test_notebook_output_is_escaped():
    hostile = "<script>alert(1)</script>".replace("/", "|")
    library = cf.Library(dt(u), {hostile: sp.Piecewise((u, x < 0), (0, True)), "u_x&$": u.diff(x)})
    page = library._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert r"x &lt; 0" in page
    latex = library._repr_latex_()
    assert r"u\_x\&\$" in latex
    assert latex.startswith("$")
    assert latex.endswith("$")
    assert latex.count(r"\\") >= 3


def test_a_large_library_is_checked_quickly():
    monomials = {f"u{i}{j}": u**i * u.diff(x, j) for i in range(1, 6) for j in range(1, 9)}
    start = time.perf_counter()
    library = cf.Library(dt(u), monomials)
    assert len(library) == 40
    assert time.perf_counter() - start < 10


def test_an_equation_that_defines_a_field_is_for_the_field_that_it_defines():
    a, b = cf.VectorField("a", dim=2), cf.VectorField("b", dim=2)
    for anchor, unknown in (
        (v - lap(u), v),
        (lap(u) - 2 * v, v),
        (b - grad(u), b),
        (u - div(a), u),
    ):
        assert cf.Library(anchor=anchor, terms={}).unknown == unknown
    for anchor in (u - v, u * v - lap(u)):
        with pytest.raises(cf.LibraryError, match="which field the equation is for is not clear"):
            cf.Library(anchor=anchor, terms={})
