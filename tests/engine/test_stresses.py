"""Stresses and tensors, written as people write them, agree with plain DOLFINx."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

import ufl
from dolfinx import fem
from engine_support import SIDES, error, unit
from plain_newton import distance, plain, tag

import cffem as cf
from cffem import det, div, dot, dt, grad, identity, inv, lap, n, sym, trace, transpose, x, y

MU, LAMBDA = 0.8, 1.7
PULL = (0.2, -0.1, 0.05)


def strain(w):
    return sym(grad(w))


def hooke(w, dim):
    return 2 * MU * strain(w) + LAMBDA * trace(strain(w)) * identity(dim)


def saint_venant(w, dim):
    F = identity(dim) + grad(w)
    E = (dot(transpose(F), F) - identity(dim)) / 2
    return dot(F, LAMBDA * trace(E) * identity(dim) + 2 * MU * E)


def neo_hooke(w, dim):
    F = identity(dim) + grad(w)
    back = transpose(inv(F))
    return MU * (F - back) + LAMBDA * sp.log(det(F)) * back


def plain_hooke(g, dim):
    return 2 * MU * ufl.sym(g) + LAMBDA * ufl.tr(g) * ufl.Identity(dim)


def plain_saint_venant(g, dim):
    F = ufl.Identity(dim) + g
    E = (F.T * F - ufl.Identity(dim)) / 2
    return F * (LAMBDA * ufl.tr(E) * ufl.Identity(dim) + 2 * MU * E)


def plain_neo_hooke(g, dim):
    F = ufl.Identity(dim) + g
    return MU * (F - ufl.inv(F).T) + LAMBDA * ufl.ln(ufl.det(F)) * ufl.inv(F).T


STRESSES = {
    "Hooke": (hooke, plain_hooke),
    "Saint Venant-Kirchhoff": (saint_venant, plain_saint_venant),
    "neo-Hooke": (neo_hooke, plain_neo_hooke),
}


def pulled(domain, stress, **more):
    """A body held on the left and pulled on the right."""
    dim = domain.mesh.geometry.dim
    w = cf.VectorField("w", dim=dim)
    rest = tuple(s for s in list(SIDES)[: 2 * dim] if s not in ("left", "right"))
    experiment = cf.Experiment(
        mesh=domain,
        elements={w: ("Lagrange", 2 if dim == 2 else 1)},
        boundary=[
            cf.Dirichlet(w, 0, on="left"),
            cf.Natural(w, PULL[:dim], on="right"),
            cf.Natural(w, 0, on=rest),
        ],
        **more,
    )
    library = cf.Library(terms={"stress": div(stress(w, dim)), "support": w}, unknown=w)
    return cf.Model(library, {"stress": 1.0, "support": -0.3}, experiment)


@pytest.mark.parametrize("cell", ["triangle", "tetrahedron"])
@pytest.mark.parametrize("kind", STRESSES)
def test_a_stress_agrees_with_plain_dolfinx(kind, cell):
    stress, by_hand = STRESSES[kind]
    domain = unit(cell, 3 if cell == "triangle" else 2)
    dim = domain.mesh.geometry.dim
    model = pulled(domain, stress)

    def residual(w, test, place, ds, support=-0.3):
        inside = support * ufl.dot(w, test) - ufl.inner(by_hand(ufl.grad(w), dim), ufl.grad(test))
        given = ufl.as_vector(PULL[:dim])
        return inside * ufl.dx + ufl.dot(given, test) * ds(tag(domain, "right"))

    element = ("Lagrange", 2 if dim == 2 else 1, (dim,))
    by = plain(domain, element, residual, ["left"])
    assert distance(model.factual.function(), by) < 1e-10
    without = plain(domain, element, lambda *a: residual(*a, support=0.0), ["left"])
    score = np.sqrt(fem.assemble_scalar(fem.form(ufl.inner(by - without, by - without) * ufl.dx)))
    assert model.deletions(["support"])["support"].score == pytest.approx(score, rel=1e-5)


@pytest.mark.parametrize("kind", ["Saint Venant-Kirchhoff", "neo-Hooke"])
def test_hyperelastic_terms_are_differentiated(kind):
    model = pulled(unit("triangle", 2), STRESSES[kind][0])
    (w,) = model.library.unknowns
    for name in ("stress", "support"):
        assert cf.taylor_linearised(model, name).passed()
        assert cf.taylor_observable(model, cf.Integral(w[1] ** 2), name).passed()


def test_the_traction_of_a_mixed_stress_contains_the_pressure():
    """Nearly incompressible: σ = 2 μ ε(w) − p I, div w + p/λ = 0 with λ = 1e6; σ·n is given."""
    w, p = cf.VectorField("w", dim=2), cf.ScalarField("p")
    domain, stiff = unit("triangle", 4), 1e6
    system = cf.System(
        {
            w: cf.Library(terms={"stress": div(2 * MU * strain(w) - p * identity(2))}, unknown=w),
            p: cf.Library(terms={"volume": -div(w), "bulk": -p}, unknown=p),
        }
    )
    experiment = cf.Experiment(
        mesh=domain,
        elements={w: ("Lagrange", 2), p: ("Lagrange", 1)},
        boundary=[
            cf.Dirichlet(w, 0, on="left"),
            cf.Natural(w, PULL[:2], on="right"),
            cf.Natural(w, 0, on=("top", "bottom")),
        ],
    )
    coefficients = {"w/stress": 1.0, "p/volume": 1.0, "p/bulk": 1 / stiff}
    model = cf.Model(system, coefficients, experiment)

    def residual(both, tests, place, ds):
        (a, q), (b, r) = ufl.split(both), ufl.split(tests)
        stress = 2 * MU * ufl.sym(ufl.grad(a)) - q * ufl.Identity(2)
        inside = -ufl.inner(stress, ufl.grad(b)) - (ufl.div(a) + q / stiff) * r
        return inside * ufl.dx + ufl.dot(ufl.as_vector(PULL[:2]), b) * ds(tag(domain, "right"))

    import basix.ufl

    taylor_hood = basix.ufl.mixed_element(
        [
            basix.ufl.element("Lagrange", "triangle", 2, shape=(2,)),
            basix.ufl.element("Lagrange", "triangle", 1),
        ]
    )
    by = plain(domain, taylor_hood, residual, ["left"], within=0)
    assert distance(model.factual.function(w), by.sub(0)) < 1e-10
    # plain displacements lock: they are far too stiff on this mesh
    locked = cf.Model(
        cf.Library(terms={"stress": div(2 * MU * strain(w) + stiff * div(w) * identity(2))}),
        {"stress": 1.0},
        cf.Experiment(mesh=domain, elements={w: ("Lagrange", 1)}, boundary=experiment.boundary),
    )
    sizes = [m.norm("L2")(m.factual.states[0]) for m in (locked, model)]
    assert sizes[0] < 0.5 * sizes[1]


@pytest.mark.parametrize("rest", [0, sp.Rational(1, 4)])
def test_heat_pushes_a_free_body(rest):
    """σ = C ε(w) − 3 (T − T₀) I with free sides: w = 3 (T − T₀) x/(2 (μ + λ)), without stress."""
    w, T = cf.VectorField("w", dim=2), cf.ScalarField("T")
    system = cf.System(
        {
            w: cf.Library(
                terms={"stress": div(hooke(w, 2)), "thermal": -div((T - rest) * identity(2))},
                unknown=w,
            ),
            T: cf.Library(terms={"lap": lap(T)}, unknown=T),
        }
    )
    experiment = cf.Experiment(
        mesh=unit("triangle", 2),
        elements={w: ("Lagrange", 1), T: ("Lagrange", 1)},
        boundary=[
            cf.Dirichlet(w[0], 0, on="left"),
            cf.Dirichlet(w[1], 0, on="bottom"),
            *(cf.Natural(w, 0, on=side) for side in SIDES if SIDES[side][0] < 2),
            cf.Dirichlet(T, 1),
        ],
    )
    model = cf.Model(system, {"w/stress": 1.0, "w/thermal": 3.0, "T/lap": 1.0}, experiment)
    factor = 3 * (1 - rest) / (2 * (MU + LAMBDA))
    assert error(model.factual.function(w), (factor * x, factor * y)) < 1e-12
    cold = model.solve(cf.delete("w/thermal"))
    assert np.abs(cold.function(w).x.array).max() < 1e-12


def test_anisotropic_diffusion_has_the_conormal_flux():
    """K ∇u·n is given, and a sum of second derivatives would have another trace."""
    u, K = cf.ScalarField("u"), sp.Matrix([[2, 1], [1, 3]])
    exact = x**2 - x * y + 2 * y**2
    flux = K * sp.Matrix([exact.diff(x), exact.diff(y)])
    library = cf.Library(terms={"diffusion": div(dot(K, grad(u)))}, unknown=u)
    experiment = cf.Experiment(
        mesh=unit("triangle", 3),
        elements={u: ("Lagrange", 2)},
        boundary=[
            cf.Dirichlet(u, exact, on="left"),
            *(cf.Natural(u, dot(tuple(flux), n), on=side) for side in ("right", "top", "bottom")),
        ],
        forcing={u: -sum(f.diff(s) for f, s in zip(flux, (x, y), strict=True))},
    )
    model = cf.Model(library, {"diffusion": 1.0}, experiment)
    assert error(model.factual.function(), exact) < 1e-11


def test_kelvin_voigt_decays_as_its_modes_do():
    """w_tt = μ Δw + η Δw_t as div of 2 ε: one shear mode, w = e^{−at} (cos bt + a/b sin bt)."""
    w = cf.VectorField("w", dim=2)
    mu, eta, k = 1.0, 0.05, sp.pi
    a = eta * k**2 / 2
    b = sp.sqrt(mu * k**2 - a**2)
    shape = (0, sp.sin(k * x))
    library = cf.Library(
        anchor=dt(dt(w)),
        terms={"stress": div(2 * strain(w)), "viscous": div(2 * strain(dt(w)))},
    )

    def gap(steps):
        experiment = cf.Experiment(
            mesh=unit("triangle", 8),
            elements={w: ("Lagrange", 3)},
            boundary=[
                cf.Dirichlet(w, 0, on=("left", "right")),
                cf.Dirichlet(w[0], 0, on=("top", "bottom")),
                cf.Natural(w[1], 0, on=("top", "bottom")),
            ],
            initial={w: shape, dt(w): (0, 0)},
            time=cf.Window(0, 1, steps=steps),
        )
        model = cf.Model(library, {"stress": mu, "viscous": eta}, experiment)
        factor = (sp.exp(-a) * (sp.cos(b) + a / b * sp.sin(b))).evalf()
        return error(model.solve().function(k=-1), (0, factor * sp.sin(k * x)))

    errors = [gap(steps) for steps in (10, 20, 40)]
    assert errors[-1] < 2e-3
    assert np.log2(errors[-2] / errors[-1]) > 1.8


def test_tensor_calculus_is_that_of_its_components():
    from cffem.symbols.algebra.components import evaluate_on, to_components
    from cffem.symbols.algebra.variation import variation

    w, h = cf.VectorField("w", dim=2), cf.VectorField("h", dim=2)
    values = {w: (x * y + y**2, x - y**3), h: (y, x * y)}
    step = sp.Symbol("step")
    moved = {w: tuple(a + step * b for a, b in zip(values[w], values[h], strict=True))}
    for expr in (det(identity(2) + grad(w)), inv(identity(2) + grad(w)), div(neo_hooke(w, 2))):
        along = evaluate_on(variation(expr, w, h), values, 2)
        by_step = [e.diff(step).subs(step, 0) for e in evaluate_on(expr, moved, 2)]
        place = {x: sp.Rational(1, 3), y: sp.Rational(1, 5)}
        for one, other in zip(along, by_step, strict=True):
            assert abs(sp.N((one - other).subs(place))) < 1e-12
        slope = (
            evaluate_on(expr.diff(x), values, 2) if not expr.has(cf.symbols.operators.Div) else []
        )
        for one, other in zip(slope, evaluate_on(expr, values, 2), strict=False):
            assert abs(sp.N((one - other.diff(x)).subs(place))) < 1e-12
    assert det(sp.Matrix([[2, x], [1, 3]])) == 6 - x
    assert inv(inv(grad(w))) == grad(w)
    assert to_components(dot(inv(cf.tensor((2, 1), (1, 3))), cf.tensor((2, 1), (1, 3))), 2) == (
        1,
        0,
        0,
        1,
    )
    assert trace(cf.tensor((x, 1), (2, y))) == x + y


BAD = {
    "rows": (lambda: cf.tensor((1, 2), (3,)), "as many rows as columns"),
    "a matrix that is not square": (lambda: dot(sp.ones(2, 3), grad(cf.ScalarField("u"))), "rows"),
    "no inverse": (lambda: inv(cf.tensor((1, 1), (1, 1))), "determinant is zero"),
    "dimension": (lambda: identity(4), "dimension 1, 2 or 3"),
    "det of a vector": (lambda: det(cf.VectorField("w", 2)), "takes a tensor"),
    "a tensor as a source": (
        lambda: cf.Library(terms={"a": cf.tensor((1, 2), (3, 4)), "w": cf.VectorField("w", 2)}),
        "",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_tensors_are_one_sentence(kind):
    make, words = BAD[kind]
    with pytest.raises(cf.InputError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)
