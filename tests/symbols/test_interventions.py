"""Interventions, constraints and observables: declarations that check themselves."""

import pickle

import numpy as np
import pytest
import sympy as sp

import cffem.symbols as cf
from cffem.symbols import curl, div, dot, dt, grad, lap, t, x, y
from cffem.symbols.problem.conditions import Dirichlet, Neumann, Periodic

u, p = cf.ScalarField("u"), cf.ScalarField("p")
E, v = cf.VectorField("E", dim=3), cf.VectorField("v", dim=2)
COEFFICIENTS = {"u": 0.6, "u_x": 1.0, "lap": 1e-3}


def test_deletion_scaling_and_setting():
    assert cf.delete("lap").apply(COEFFICIENTS) == {"u": 0.6, "u_x": 1.0, "lap": 0.0}
    assert cf.delete("u", "lap").apply(COEFFICIENTS) == {"u": 0.0, "u_x": 1.0, "lap": 0.0}
    assert cf.scale("u_x", 0.25).apply(COEFFICIENTS)["u_x"] == 0.25
    assert cf.set("u", 7).apply(COEFFICIENTS)["u"] == 7.0
    assert cf.scale("u", 0) == cf.delete("u", conditions="kept")
    assert list(cf.delete("u").apply(COEFFICIENTS)) == list(COEFFICIENTS)
    assert COEFFICIENTS["u"] == 0.6


def test_a_partial_deletion_runs_from_factual_to_deleted():
    assert cf.scale("lap", 1).apply(COEFFICIENTS) == COEFFICIENTS
    assert cf.scale("lap", 1 - 1).apply(COEFFICIENTS) == cf.delete("lap").apply(COEFFICIENTS)


def test_joint_interventions_apply_all_their_changes():
    both = cf.delete("u") & cf.scale("lap", 0.5) & cf.force({u: x * t})
    assert both.apply(COEFFICIENTS) == {"u": 0.0, "u_x": 1.0, "lap": 5e-4}
    assert both.names == ("u", "lap")
    assert both.deleted == ("u",)
    assert dict(both.forcing) == {u: x * t}
    assert cf.joint((cf.delete("u"), cf.delete("lap"))) == cf.delete("u", "lap")
    assert cf.joint(cf.delete("u")) == cf.delete("u")
    assert cf.joint([]).apply(COEFFICIENTS) == COEFFICIENTS


def test_a_released_constraint_leaves_coefficients_alone():
    assert (cf.delete("u") & cf.release()).released
    assert not cf.delete("u").released
    assert cf.release().apply(COEFFICIENTS) == COEFFICIENTS


def test_changes_of_data_are_kept_as_they_are():
    start = cf.start({E: (0, 0, x), dt(E): (0, 0, 0)})
    assert dict(start.initial) == {E: cf.vector(0, 0, x), dt(E): 0}
    wall = Dirichlet(u, 0, on="wall")
    assert cf.boundary(wall).conditions == (wall,)
    function = object()
    assert dict(cf.force({u: function}).forcing) == {u: function}


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda: cf.delete("lapp").apply(COEFFICIENTS), "did you mean 'lap'"),
        (lambda: cf.delete("u") & cf.scale("u", 2), "coefficient of u twice"),
        (lambda: cf.delete("u", "u"), "coefficient of u twice"),
        (lambda: cf.force({u: 1}) & cf.force({u: 2}), "forcing of u twice"),
        (lambda: cf.delete(), "at least one term"),
        (lambda: cf.delete(3), "by a string"),
        (lambda: cf.scale("u", float("nan")), "finite real"),
        (
            lambda: cf.scale("u", "half"),
            "the factor of 'u' must be a finite real number, not 'half'",
        ),
        (lambda: cf.set("u", 1j), "finite real"),
        (lambda: cf.set("u", True), "finite real"),
        (lambda: cf.force({u: u}), "cannot contain the field u"),
        (lambda: cf.force({u: (1, 2)}), "is a vector, but the field u is a scalar"),
        (lambda: cf.force({"u": 1}), "given for a field"),
        (lambda: cf.force({dt(u): 1}), "given for a field"),
        (lambda: cf.force({u: sp.Symbol("q")}), "undeclared symbol q"),
        (lambda: cf.start({lap(u): 1}), r"dt\(field\)"),
        (lambda: cf.start({}), "field: expression"),
        (lambda: cf.boundary(), "at least one boundary condition"),
        (lambda: cf.joint(["u"]), "is not an intervention"),
    ],
)
def test_interventions_are_checked(write, message):
    with pytest.raises(cf.LibraryError, match=message):
        write()


def test_interventions_print_as_they_are_written():
    both = cf.delete("u") & cf.scale("l_p", 0.5) & cf.force({u: x})
    assert str(both) == "delete('u') & scale('l_p', 0.5) & force({u: x})"
    latex = both._repr_latex_()
    assert latex.startswith(r"$\operatorname{do}\left(\alpha_{\text{u}} := 0, ")
    assert (
        r"\alpha_{\text{l\_p}} := \frac{1}{2}\, \alpha_{\text{l\_p}}, f_{u} := x\right)$" in latex
    )
    assert str(cf.Intervention()) == "nothing changed"


def test_constraints_know_their_expression_fields_and_multiplier():
    free = cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)})
    assert free.expr == div(v)
    assert free.multiplier == (p, ("Lagrange", 1))
    assert free.fields == (v,)
    assert free.homogeneous
    weighted = cf.DivergenceFree(E, weight=1 + x**2)
    assert weighted.expr.doit() == sp.expand(div((1 + x**2) * E))
    assert cf.CurlFree(v).shape == ()
    assert cf.CurlFree(E).shape == (3,)
    assert not cf.ZeroMean(u).pointwise
    assert not cf.Constraint(div(E) - x).homogeneous
    assert cf.Constraint(dot(E, (1, 0, 0))).homogeneous


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda: cf.Constraint(u**2), "is not linear"),
        (lambda: cf.Constraint(cf.norm2(E) - 1), "is not linear"),
        (lambda: cf.Constraint(x), "contains no field"),
        (lambda: cf.Constraint(sp.Symbol("q") * u), "undeclared symbol q"),
        (lambda: cf.DivergenceFree(u), "only a VectorField"),
        (lambda: cf.CurlFree(u), "only a VectorField"),
        (lambda: cf.ZeroMean(x), "asked of a field"),
        (lambda: cf.DivergenceFree(E, weight=u), "function of the coordinates"),
        (lambda: cf.DivergenceFree(E, multiplier=p), "one field with its element"),
        (lambda: cf.DivergenceFree(E, multiplier={p: 1}), "a name and a degree"),
        (lambda: cf.DivergenceFree(E, multiplier={E: ("Lagrange", 1)}), "a field of its own"),
        (
            lambda: cf.DivergenceFree(v, multiplier={cf.VectorField("q", dim=2): ("Lagrange", 1)}),
            "multiplier q is a vector",
        ),
    ],
)
def test_constraints_are_checked(write, message):
    with pytest.raises(cf.LibraryError, match=message):
        write()


def test_observables_know_their_integrand():
    assert cf.Integral(u**2).integrand == u**2
    assert cf.Integral(u, on="inner", at=0.5).at == 0.5
    assert cf.Average(u).normalised
    assert cf.Flux(grad(u), on="outlet").integrand == dot(cf.n, grad(u))
    assert cf.Energy(curl(E)).integrand == cf.norm2(curl(E)) / 2
    assert cf.Energy(u).integrand == u**2 / 2
    assert cf.Integral(dot(cf.n, grad(u)), on="wall").fields == (u,)
    spot = cf.PointAverage(u, (0, 1), radius=0.5)
    assert float(spot.weight.subs({x: 0, y: 1})) == 1
    assert spot.weight.subs({x: 0.5, y: 1}) == 0
    assert float(spot.weight.subs({x: 0.25, y: 1})) == pytest.approx(0.75**2)


def test_front_position_of_a_steep_profile():
    """For a front at s the smooth measure is s, up to terms that are exponentially small."""
    s, level, width = sp.Rational(2, 5), sp.Rational(1, 2), 0.02
    front = cf.Front(u, level=level, width=width)
    (integrand,) = cf.evaluate_on(front.integrand, {u: 1 / (1 + sp.exp(40 * (x - s)))}, 1)
    points = (np.arange(20_000) + 0.5) / 20_000
    assert np.mean(sp.lambdify(x, integrand)(points)) == pytest.approx(float(s), abs=1e-6)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda: cf.Integral(E), "takes a scalar, but E is a vector"),
        (lambda: cf.Integral(dot(cf.n, grad(u))), "normal n"),
        (lambda: cf.Integral(sp.Symbol("q")), "undeclared symbol q"),
        (lambda: cf.Integral(u, at="start"), "'start'"),
        (lambda: cf.Integral(u, at=float("inf")), "finite number"),
        (lambda: cf.Integral(u, on=3), "by its name"),
        (lambda: cf.Flux(u), "takes a vector, but u is a scalar"),
        (lambda: cf.Flux(grad(u), on="domain"), "through a boundary"),
        (lambda: cf.PointAverage(u, (0, 0), radius=0), "positive radius"),
        (lambda: cf.PointAverage(u, (0, 0, 0, 0), radius=1), "1, 2 or 3 coordinates"),
        (lambda: cf.Front(u, along=t), "along x, y or z"),
        (lambda: cf.Front(u, width=0), "width of a front"),
    ],
)
def test_observables_are_checked(write, message):
    with pytest.raises(cf.LibraryError, match=message):
        write()


@pytest.mark.parametrize(
    "thing",
    [
        cf.delete("a") & cf.start({dt(u): x}),
        cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
        cf.CurlFree(E),
        cf.ZeroMean(u),
        cf.Constraint(div(E) - x),
        cf.Integral(u, at="window"),
        cf.PointAverage(u, (0.5,), radius=0.1),
        cf.Front(u, along=y, speed=True),
        cf.Flux(-lap(u) * grad(u)),
    ],
)
def test_declarations_are_values(thing):
    copy = pickle.loads(pickle.dumps(thing))
    assert copy == thing
    assert hash(copy) == hash(thing)
    assert thing._repr_latex_().startswith("$")
    with pytest.raises(AttributeError):
        thing.extra = 1


def test_conditions_come_one_by_one_or_in_a_list():
    given = Dirichlet(u, 0, on="left"), Neumann(u, 1, on="right")
    assert cf.boundary(*given) == cf.boundary([*given]) == cf.boundary(given)
    for wrong in ("left", [given[0], 3], Periodic(on="left", to="right")):
        with pytest.raises(cf.LibraryError, match="takes Dirichlet, Tangential, Natural"):
            cf.boundary(wrong)
    with pytest.raises(cf.LibraryError, match="at least one"):
        cf.boundary([])
