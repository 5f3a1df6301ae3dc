# SPDX-License-Identifier: MIT
"""Generated libraries, and names of terms with a slash."""

import numpy as np
import pytest

import cffem as cf
from cffem import div, dot, dt, grad, lap, x, y, z
from cffem.symbols.algebra.analysis import canonical, ratio

u, w = cf.ScalarField("u"), cf.ScalarField("w")
v, v3 = cf.VectorField("v", dim=2), cf.VectorField("v", dim=3)


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
        div(v) * v,
        div(v) ** 2 * v,
        div(v) * dot(grad(v), v),
        div(v) * dot(transposed, v),
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


def test_traces_are_contractions():
    """div v from ∇v and lap u from ∇∇u, by these names."""
    library = cf.Library.from_terms([v, grad(v)], unknown=v, products=2, invariant=True)
    assert library.names == ("v", "v div(v)", "dot(grad(v), v)", "dot(transpose(grad(v)), v)")
    library = cf.Library.from_terms([u, grad(grad(u))], unknown=u, products=2, invariant=True)
    assert library.names == ("u", "lap(u)", "u^2", "u lap(u)", "lap(u)^2", "|grad(grad(u))|^2")


def test_three_tensors_have_traces_of_their_products():
    library = cf.Library.from_terms([u, grad(v3)], unknown=u, products=3, invariant=True)
    A, T = grad(v3), cf.transpose(grad(v3))
    cubes = [cf.inner(cf.dot(A, A), T), cf.inner(cf.dot(A, A), A)]
    for cube in cubes:
        assert any(ratio(cube, term, 3) is not None for term in library.terms.values())


def test_what_is_invariant_has_the_same_value_in_turned_axes():
    """At random values of v and ∇v, turned by a random rotation, vectors turn with them."""
    library = cf.Library.from_terms([v3, grad(v3)], unknown=v3, products=3, invariant=True)
    rng = np.random.default_rng(3)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    values, slopes = rng.normal(size=3), rng.normal(size=(3, 3))

    def evaluated(term, field, slope):
        numbers = {v3[i]: field[i] for i in range(3)}
        numbers |= {v3[i].diff(s): slope[i, j] for i in range(3) for j, s in enumerate((x, y, z))}
        return np.array([float(part.xreplace(numbers)) for part in canonical(term, 3)])

    for name, term in library.terms.items():
        here = evaluated(term, values, slopes)
        there = evaluated(term, turn @ values, turn @ slopes @ turn.T)
        assert np.allclose(turn @ here, there), name


def test_scalar_equations_take_vectors():
    library = cf.Library.from_terms([u, v, grad(u)], unknown=u, products=2)
    assert library.names == ("u", "u^2", "|v|^2", "dot(v, grad(u))", "|grad(u)|^2")
    assert cf.Library.from_terms([u, grad(u)], unknown=u, products=4, invariant=True).names[-1] == (
        "|grad(u)|^4"
    )


def test_the_equation_is_for_the_first_field_of_a_list_too():
    assert cf.Library.from_terms([w, u]).unknown == cf.Library.from_terms("w, u").unknown == w
    assert cf.Library.from_terms(["u", "lap(u)"]).names == ("u", "lap(u)")


def test_names_that_meet_are_refused_instead_of_dropping_a_term():
    with pytest.raises(cf.LibraryError, match="both written as u_x"):
        cf.Library.from_terms([cf.ScalarField("u_x"), u.diff(x)], unknown=u)
    with pytest.raises(cf.LibraryError, match="changes when space is turned"):
        cf.Library.from_terms([u, cf.Known("k", dim=2)[0]], unknown=u, invariant=True)
