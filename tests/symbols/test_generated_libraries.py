# SPDX-License-Identifier: MIT
"""Generated libraries, and names of terms with a slash."""

import pytest

import cffem as cf
from cffem import dot, dt, grad, lap, x

u, w = cf.ScalarField("u"), cf.ScalarField("w")
v = cf.VectorField("v", dim=2)


def test_products_of_a_text_are_all_there_once():
    library = cf.Library.from_terms("1, u, u^2, grad(u), lap(u)", products=2)
    assert library.anchor == dt(u)
    assert dict(library.terms) == {
        "1": 1,
        "u": u,
        "u^2": u**2,
        "lap(u)": lap(u),
        "u^3": u**3,
        "u lap(u)": u * lap(u),
        "u^4": u**4,
        "u^2 lap(u)": u**2 * lap(u),
        "|grad(u)|^2": dot(grad(u), grad(u)),
        "lap(u)^2": lap(u) ** 2,
    }


def test_vector_equations_get_vector_products():
    library = cf.Library.from_terms(
        "v, grad(v), lap(v), dot(v, v)", fields=[v], products=2, order=2
    )
    assert library.unknown == v
    assert set(library.terms.values()) == {
        v,
        lap(v),
        dot(grad(v), v),
        dot(v, v) * v,
        dot(v, v) * lap(v),
    }


def test_the_order_of_derivatives_is_limited():
    library = cf.Library.from_terms([u, u.diff(x), u.diff(x, 2)], products=2, order=2)
    assert library.names == ("u", "u_x", "u_xx", "u^2", "u u_x", "u u_xx", "u_x^2")


def test_two_fields_and_an_anchor():
    library = cf.Library.from_terms("u, w", products=3, anchor=dt(w))
    assert library.unknown == w
    assert library.names == ("u", "w", "u^2", "u w", "w^2", "u^3", "u^2 w", "u w^2", "w^3")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cf.Library.from_terms("u,, lap(u)"), "an empty one"),
        (lambda: cf.Library.from_terms("u", products=0), "1 or more"),
        (lambda: cf.Library.from_terms("1"), "name no field"),
        (lambda: cf.Library.from_terms([grad(u)], unknown=u), "has the shape of u"),
        (lambda: cf.Library.from_terms("u, w, a, b, c, d", products=6), "more than 500 terms"),
    ],
)
def test_terms_that_make_no_library_are_told(make, message):
    with pytest.raises(cf.InputError, match=message):
        make()


def test_names_may_contain_a_slash():
    first = cf.Library(anchor=dt(u), terms={"du/dx": u.diff(x), "u": u})
    assert first.without("u").names == ("du/dx",)
    system = cf.System({u: first, w: cf.Library(anchor=dt(w), terms={"a/b": u})})
    assert system.names == ("u/du/dx", "u/u", "w/a/b")
    assert system.locate("u/du/dx") == (u, "du/dx")
    assert system.without("w/a/b", "u/u").names == ("u/du/dx",)
    assert system.with_terms({"w/c/d": w}).names[-1] == "w/c/d"


def test_invariant_libraries_hold_all_contractions_once():
    library = cf.Library.from_terms("v, grad(v)", fields=[v], products=3, invariant=True)
    transposed = cf.transpose(grad(v))
    expected = [
        v,
        dot(grad(v), v),
        dot(transposed, v),
        dot(v, v) * v,
        cf.inner(grad(v), grad(v)) * v,
        cf.inner(grad(v), transposed) * v,
        dot(grad(v), dot(grad(v), v)),
        dot(transposed, dot(transposed, v)),
        dot(grad(v), dot(transposed, v)),
        dot(transposed, dot(grad(v), v)),
    ]
    assert set(library.terms.values()) == set(expected)
    with pytest.raises(cf.LibraryError, match="changes when space is turned"):
        cf.Library.from_terms([v, v.diff(x)], unknown=v, invariant=True)


def test_multiples_that_look_different_are_there_once():
    library = cf.Library.from_terms([u, u.diff(x) ** 2, (u.diff(x) * 2) ** 2], unknown=u)
    assert len(library) == 2


def test_known_fields_are_factors():
    k = cf.Known("k")
    library = cf.Library.from_terms([u, k], products=2, unknown=u)
    assert set(library.terms.values()) == {u, k, u**2, k * u, k**2}
