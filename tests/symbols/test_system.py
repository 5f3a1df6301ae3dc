"""Coupled libraries answer as one."""

import pickle

import pytest

import cffem.symbols as cf
from cffem.symbols import div, dot, dt, grad, lap, x

u, v, p = cf.ScalarField("u"), cf.ScalarField("v"), cf.ScalarField("p")
w = cf.VectorField("w", dim=2)
k = cf.Parameter("k")


def reaction() -> cf.System:
    return cf.System(
        {
            "u": cf.Library(dt(u), {"lap": lap(u), "uv2": u * v**2, "one": 1}),
            "v": cf.Library(dt(v), {"lap": lap(v), "v": k * v}),
        }
    )


def test_a_system_knows_its_terms_by_field_and_name():
    system = reaction()
    assert system.names == ("u/lap", "u/uv2", "u/one", "v/lap", "v/v")
    assert system["v/v"] == k * v
    assert list(system) == list(system.names)
    assert len(system) == 5
    assert "u/v" not in system
    assert system.terms["u/one"] == 1
    assert system.unknowns == (u, v)
    assert system.equations[u].names == ("lap", "uv2", "one")
    assert system.anchors == {u: dt(u), v: dt(v)}
    assert system.locate("u/uv2") == (u, "uv2")
    assert system.parameters == {k: None}
    assert system.time_order == 1
    assert system.dependence("u/uv2") == "nonlinear"
    assert system.dependence("u/uv2", [u]) == "linear"
    assert system.order("v/lap") == 2
    with pytest.raises(KeyError, match="did you mean 'u/lap'"):
        system["u/la"]


def test_systems_are_restricted_and_extended_by_full_names():
    system = reaction()
    assert system.without("u/lap", "v/v").names == ("u/uv2", "u/one", "v/lap")
    assert system.restrict(["v/v", "u/lap"]).names == ("u/lap", "v/v")
    assert system.restrict(["u/lap"]).unknowns == (u, v)
    assert system.with_terms({"v/u": u}).names[-1] == "v/u"
    for change in (system.without, lambda name: system.restrict([name])):
        with pytest.raises(cf.LibraryError, match="did you mean 'u/lap'"):
            change("u/laap")
    with pytest.raises(cf.LibraryError, match="names no field"):
        system.with_terms({"q/u": u})
    with pytest.raises(cf.LibraryError, match="'same' is 2 times term 'lap'"):
        system.with_terms({"u/same": 2 * lap(u)})
    assert system == reaction()


def test_immutable_hashable_and_picklable():
    system = reaction()
    assert pickle.loads(pickle.dumps(system)) == system
    assert hash(system) == hash(reaction())
    assert system != system.without("v/v")
    with pytest.raises(AttributeError, match="never changes"):
        system._libraries = {}
    with pytest.raises(TypeError):
        system.libraries["u"] = None


@pytest.mark.parametrize(
    ("libraries", "message"),
    [
        ({}, "at least one"),
        ({"v": cf.Library(dt(u), {"lap": lap(u)})}, "called 'v' is for the field u"),
        ({"u": {"lap": lap(u)}}, "not a Library"),
        (
            {"u": cf.Library(dt(u), {"lap": lap(u)}), "w": cf.Library(dt(u), {"u": u})},
            "'u' and 'w' are both for u",
        ),
        (
            {
                "u": cf.Library(dt(u), {"a": u}),
                "v": cf.Library(dt(v), {"a": cf.ScalarField("u", dim=2)}),
            },
            "same name",
        ),
        (
            {
                "u": cf.Library(dt(u), {"a": cf.VectorField("b", dim=3)[0]}),
                "v": cf.Library(dt(v), {"a": cf.VectorField("c", dim=2)[0]}),
            },
            "library 'v' lives in 2D but library 'u' in 3D",
        ),
        (
            {
                "u": cf.Library(dt(u), {"a": k * u}, parameters={k: 1}),
                "v": cf.Library(dt(v), {"a": k * v}, parameters={k: 2}),
            },
            "the parameter k has the value",
        ),
    ],
)
def test_malformed_systems_are_named(libraries, message):
    with pytest.raises(cf.LibraryError, match=message):
        cf.System(libraries)


def test_a_vector_equation_with_its_pressure():
    momentum = cf.Library(dt(w), {"conv": dot(grad(w), w), "lap": lap(w), "p": grad(p)})
    continuity = cf.Library(None, {"div": div(w)}, unknown=p)
    system = cf.System({w: momentum, "p": continuity})
    assert system.fields == (w, p)
    assert system.dim == 2
    assert system.names == ("w/conv", "w/lap", "w/p", "p/div")
    system.check(2)
    with pytest.raises(cf.LibraryError, match="written for 2D"):
        system.check(3)


def test_prints_every_equation():
    text = str(reaction())
    assert "Derivative(u, t) = sum of" in text
    assert "v/lap" in text
    assert repr(reaction()).startswith("System(")
    assert "u/uv2" in reaction()._repr_html_()
    assert r"v/lap" in reaction()._repr_latex_()


def test_a_term_of_another_field_is_constant_in_the_unknown():
    library = cf.Library(dt(u), {"v": v, "x": x})
    assert library.dependence("v") == "linear"
    assert library.dependence("v", [u]) == "constant"
