"""Natural conditions give the trace of a whole equation, as in plain DOLFINx, and deletions leave
them alone.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

import ufl
from dolfinx import fem
from engine_support import SIDES, assert_order, error, unit
from plain_newton import distance, plain, tag

import cffem as cf
from cffem import curl, div, dt, grad, lap, n, sym, t, x, y

u, T, p = cf.ScalarField("u"), cf.ScalarField("T"), cf.ScalarField("p")
v, s = cf.VectorField("v", dim=2), cf.VectorField("s", dim=2)
E = cf.VectorField("E", dim=3)
TRANSPORT = {"diffusion": div((1 + x) * grad(u)), "anisotropic": u.diff(y, 2), "u": u}
COEFFICIENTS = {"diffusion": 2.0, "anisotropic": 0.7, "u": -0.5}
REST = ("top", "bottom")


def experiment(domain, boundary, element=("Lagrange", 2), field=u, **more):
    return cf.Experiment(mesh=domain, elements={field: element}, boundary=boundary, **more)


LAWS = {
    "a flux": (3 * y, lambda w, place: 3 * place[1]),
    "Robin": (1 - 2 * (1 + y) * u, lambda w, place: 1 - 2 * (1 + place[1]) * w),
    "radiation": (1 - u**4, lambda w, place: 1 - w**4),
    "with the normal": (n[0] * sp.exp(-u), lambda w, place: ufl.exp(-w)),
}


def by_hand(domain, law, coefficients):
    a, b, c = (coefficients[name] for name in TRANSPORT)

    def residual(w, test, place, ds):
        inside = -a * (1 + place[0]) * ufl.dot(ufl.grad(w), ufl.grad(test))
        inside += -b * w.dx(1) * test.dx(1) + c * w * test + test
        return inside * ufl.dx + law(w, place) * test * ds(tag(domain, "right"))

    return plain(domain, ("Lagrange", 2), residual, ["left"])


def transport(domain, law, coefficients=COEFFICIENTS):
    conditions = [
        cf.Dirichlet(u, 0, on="left"),
        cf.Natural(u, law, on="right"),
        cf.Natural(u, 0, on=REST),
    ]
    library = cf.Library(terms=TRANSPORT, unknown=u)
    return cf.Model(library, coefficients, experiment(domain, conditions, forcing={u: 1}))


@pytest.mark.parametrize("kind", LAWS)
def test_the_trace_of_all_terms_together_is_given(kind):
    law, plain_law = LAWS[kind]
    domain = unit("triangle", 4)
    found = transport(domain, law).factual.function()
    assert distance(found, by_hand(domain, plain_law, COEFFICIENTS)) < 1e-10


@pytest.mark.parametrize("kind", LAWS)
def test_deleting_and_scaling_leave_the_data_alone(kind):
    law, plain_law = LAWS[kind]
    domain = unit("triangle", 4)
    model = transport(domain, law)
    for change in (cf.delete("anisotropic"), cf.scale("diffusion", 0.3), cf.delete("u")):
        found = model.solve(change).function()
        by = by_hand(domain, plain_law, change.apply(COEFFICIENTS))
        assert distance(found, by) < 1e-10, str(change)
    full = model.factual.function()
    for name, deletion in model.deletions(["anisotropic", "u"]).items():
        by = by_hand(domain, plain_law, cf.delete(name).apply(COEFFICIENTS))
        gap = fem.assemble_scalar(fem.form((full - by) ** 2 * ufl.dx))
        assert deletion.score == pytest.approx(np.sqrt(gap), rel=1e-5)


def test_natural_and_neumann_agree_where_there_is_one_trace():
    domain, library = unit("triangle", 4), cf.Library(terms={"lap": lap(u), "u": u}, unknown=u)
    norms = []
    for condition in (cf.Neumann(u, 2 * y, on="right"), cf.Natural(u, 0.7 * 2 * y, on="right")):
        boundary = [cf.Dirichlet(u, x, on="left"), condition, cf.Natural(u, 0, on=REST)]
        model = cf.Model(library, {"lap": 0.7, "u": -1.0}, experiment(domain, boundary))
        norms.append(model.factual.states[0].copy())
    assert np.allclose(*norms, rtol=0, atol=1e-13)


def test_natural_and_neumann_differ_once_a_coefficient_changes():
    """∂u/∂n = g stays g; k ∂u/∂n = g makes u steeper where k is smaller."""
    domain, library = unit("interval", 4), cf.Library(terms={"lap": lap(u)}, unknown=u)
    ends = {}
    for kind in (cf.Neumann, cf.Natural):
        boundary = [cf.Dirichlet(u, 0, on="left"), kind(u, 1, on="right")]
        model = cf.Model(library, {"lap": 1.0}, experiment(domain, boundary))
        half = model.solve(cf.scale("lap", 0.5)).function()
        ends[kind.__name__] = float(np.max(half.x.array))
    assert ends == pytest.approx({"Neumann": 1.0, "Natural": 2.0})


def test_the_traction_of_terms_that_stand_apart():
    """2 μ div(sym grad v) and λ grad(div v) are two terms with one traction."""
    terms = {"shear": div(2 * sym(grad(v))), "volume": grad(div(v))}
    domain, traction = unit("triangle", 4), (0.3 * y, -1)
    conditions = [
        cf.Dirichlet(v, 0, on="left"),
        cf.Natural(v, traction, on="right"),
        cf.Natural(v, 0, on=REST),
    ]
    model = cf.Model(
        cf.Library(terms=terms, unknown=v),
        {"shear": 0.8, "volume": 1.7},
        experiment(domain, conditions, field=v),
    )

    def residual(w, test, place, ds):
        stress = 0.8 * 2 * ufl.sym(ufl.grad(w)) + 1.7 * ufl.div(w) * ufl.Identity(2)
        given = ufl.as_vector((0.3 * place[1], -1.0))
        return -ufl.inner(stress, ufl.grad(test)) * ufl.dx + ufl.dot(given, test) * ds(
            tag(domain, "right")
        )

    by = plain(domain, ("Lagrange", 2, (2,)), residual, ["left"])
    assert distance(model.factual.function(), by) < 1e-10


def test_friction_on_one_component_with_the_other_given():
    """v·n = 0 and a tangential traction −β v_t, in both ways of writing it."""
    domain, library = unit("triangle", 4), cf.Library(terms={"visc": lap(v)}, unknown=v)
    found = []
    for law in (cf.Natural(v[0], -3 * v[0], on="bottom"), cf.Natural(v, -3 * v, on="bottom")):
        conditions = [cf.Dirichlet(v[1], 0, on="bottom"), law]
        conditions += [cf.Dirichlet(v, 0, on="left"), cf.Natural(v, 0, on=("right", "top"))]
        model = cf.Model(
            library, {"visc": 0.5}, experiment(domain, conditions, field=v, forcing={v: (1, y)})
        )
        found.append(model.factual.function())
    assert distance(*found) < 1e-12

    def residual(w, test, place, ds):
        inside = -0.5 * ufl.inner(ufl.grad(w), ufl.grad(test)) + test[0] + place[1] * test[1]
        # the penalty holds the normal component
        return inside * ufl.dx - (3 * w[0] * test[0] + 1e12 * w[1] * test[1]) * ds(
            tag(domain, "bottom")
        )

    assert distance(found[0], plain(domain, ("Lagrange", 2, (2,)), residual, ["left"])) < 1e-9


def test_pressures_drive_a_channel():
    """ν ∂v/∂n − p n is given at both ends: Poiseuille's profile, exactly."""
    nu, drop = 0.3, 2.0
    library = cf.Library(terms={"viscosity": lap(v)}, unknown=v)
    conditions = [
        cf.Dirichlet(v, 0, on=REST),
        cf.Dirichlet(v[1], 0, on=("left", "right")),
        cf.Natural(v[0], -drop * n[0], on="left"),
        cf.Natural(v[0], 0, on="right"),
    ]
    model = cf.Model(
        library,
        {"viscosity": nu},
        experiment(
            unit("triangle", 3),
            conditions,
            field=v,
            constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
        ),
    )
    exact = (drop / (2 * nu) * y * (1 - y), 0)
    assert error(model.factual.function(v), exact) < 1e-11
    assert error(model.factual.function(p), drop * (1 - x)) < 1e-11


@pytest.mark.parametrize("cell", ["triangle", "tetrahedron"])
def test_an_impedance_on_edge_elements(cell):
    """−n × ((1 + x) curl E) = g − 2 E_t, in the plane and in space."""
    domain = unit(cell, 2)
    dim = domain.mesh.geometry.dim
    field = cf.VectorField("E", dim=dim)
    given = (y, 1, x)[:dim]
    library = cf.Library(terms={"curl": -curl((1 + x) * curl(field)), "E": -field}, unknown=field)
    law = cf.vector(*given) - 2 * field
    rest = tuple(side for side in list(SIDES)[: 2 * dim] if side not in ("right", "left"))
    conditions = [
        cf.Tangential(field, 0, on="left"),
        cf.Natural(field, law, on="right"),
        cf.Natural(field, 0, on=rest),
    ]
    found = cf.Model(
        library,
        {"curl": 1.0, "E": 0.5},
        experiment(domain, conditions, ("N1curl", 2), field, forcing={field: given}),
    ).factual.function()

    def residual(w, test, place, ds):
        source = ufl.as_vector((place[1], 1.0, place[0])[:dim])
        inside = -(1 + place[0]) * ufl.inner(ufl.curl(w), ufl.curl(test))
        inside += ufl.inner(source - 0.5 * w, test)
        normal = ufl.FacetNormal(domain.mesh)
        trace = source - 2 * w
        tangential = trace - ufl.dot(trace, normal) * normal
        return inside * ufl.dx + ufl.inner(tangential, test) * ds(tag(domain, "right"))

    assert distance(found, plain(domain, ("N1curl", 2), residual, ["left"])) < 1e-10


def test_a_pressure_at_the_end_of_a_mixed_form():
    """s = −grad p on RT, div s = 0: the trace −p n of the first equation is given."""
    library = cf.System(
        {
            s: cf.Library(anchor=s, terms={"grad": -grad(p)}, unknown=s),
            p: cf.Library(terms={"div": -div(s)}, unknown=p),
        }
    )
    conditions = [
        cf.Natural(s, -2 * n, on="left"),
        cf.Natural(s, 0, on="right"),
        cf.Dirichlet(s, 0, on=REST),
    ]
    model = cf.Model(
        library,
        {"s/grad": 1.0, "p/div": 1.0},
        cf.Experiment(
            mesh=unit("triangle", 4), elements={s: ("RT", 1), p: ("DG", 0)}, boundary=conditions
        ),
    )
    assert error(model.factual.function(s), (2, 0)) < 1e-11


def test_an_absorbing_end_lets_a_wave_out():
    """u = f(x − t) obeys c² ∂u/∂n = −c ∂u/∂t on the right."""
    speed, pulse = 2.0, lambda a: sp.exp(-20 * (a - sp.Rational(3, 10)) ** 2)
    exact = pulse(x - speed * t)
    library = cf.Library(anchor=dt(dt(u)), terms={"lap": lap(u)})

    def gap(steps):
        model = cf.Model(
            library,
            {"lap": speed**2},
            experiment(
                unit("interval", steps),
                [cf.Dirichlet(u, exact, on="left"), cf.Natural(u, -speed * dt(u), on="right")],
                initial={u: exact.subs(t, 0), dt(u): exact.diff(t).subs(t, 0)},
                time=cf.Window(0, 0.4, steps=steps),
            ),
        )
        return error(model.solve().function(k=-1), exact.subs(t, sp.Rational(2, 5)))

    assert_order([gap(steps) for steps in (32, 64, 128)], 2)


def test_a_law_in_another_field():
    """Heat that leaves u enters T: k ∂u/∂n = T − u, ∂T/∂n = u − T on the same side."""
    library = cf.System(
        {
            u: cf.Library(terms={"lap": lap(u), "u": u}, unknown=u),
            T: cf.Library(terms={"lap": lap(T), "T": T}, unknown=T),
        }
    )
    conditions = [
        cf.Natural(u, T - u, on="right"),
        cf.Natural(T, u - T, on="right"),
        cf.Natural(u, 0, on=(*REST, "left")),
        cf.Natural(T, 0, on=(*REST, "left")),
    ]
    domain = unit("triangle", 3)
    model = cf.Model(
        library,
        {"u/lap": 0.5, "u/u": -1.0, "T/lap": 1.0, "T/T": -2.0},
        cf.Experiment(
            mesh=domain,
            elements={u: ("Lagrange", 2), T: ("Lagrange", 2)},
            boundary=conditions,
            forcing={u: 1},
        ),
    )
    total = model.measurement(cf.Integral(u)).value(model.factual)
    other = model.measurement(cf.Integral(T)).value(model.factual)
    assert total + 2 * other == pytest.approx(1.0, rel=1e-12)  # nothing is lost on the way
    assert other > 0.1


def test_a_plate_takes_a_shear_force():
    """−u'''' + 24 = 0 with u'' given on the right and −u''' there: u = x⁴ on the line."""
    library = cf.Library(terms={"plate": -lap(lap(u))}, unknown=u)
    conditions = [
        cf.Dirichlet(u, 0, on="left"),
        cf.Neumann(u, 0, on="left"),
        cf.Natural(u, -24, on="right"),
        cf.Dirichlet(lap(u), 12, on="right"),
    ]
    model = cf.Model(
        library,
        {"plate": 1.0},
        experiment(unit("interval", 4), conditions, ("Lagrange", 4), forcing={u: 24}),
    )
    assert error(model.factual.function(u), x**4) < 1e-8


# Deletions, derivatives, interventions
# --------------------------------------------------------------------------------------------------


def heated(law, **more):
    """u_t = κ Δu − u, heat through the right side."""
    conditions = [cf.Natural(u, law, on="right"), cf.Natural(u, 0, on=("left", *REST))]
    return cf.Model(
        cf.Library(anchor=dt(u), terms={"lap": lap(u), "u": u}),
        {"lap": 0.2, "u": -1.0},
        experiment(
            unit("triangle", 3),
            conditions,
            ("Lagrange", 1),
            initial={u: 1 + x},
            time=cf.Window(0, 0.4, steps=4),
            **more,
        ),
    )


def test_nothing_carries_a_flux_once_diffusion_is_deleted():
    """u_t = −u keeps u = (1 + x) exp(−t), and the report says why."""
    model = heated(1 - u)
    deletion = model.deletions(["lap"])["lap"]
    assert "the natural trace of u on right is released" in deletion.conditions
    alone = model.solve(cf.delete("lap"))
    factor = ((1 - 0.05) / (1 + 0.05)) ** 4  # of the midpoint rule
    assert np.allclose(alone.states[-1], factor * alone.states[0], rtol=1e-12)
    kept = model.deletions(["lap"], conditions="kept")["lap"]
    assert kept.score != pytest.approx(deletion.score, rel=1e-2)
    assert not kept.conditions


@pytest.mark.parametrize("law", [1 - u**4, y - 2 * u, y], ids=str)
def test_all_strategies_give_one_score(law):
    model = heated(law)
    cheap = model.deletions(["u"])["u"]
    full = model.trajectory_norm(
        [
            a - b
            for a, b in zip(model.factual.states, model.solve(cf.delete("u")).states, strict=True)
        ],
        model.times,
    )
    assert cheap.score == pytest.approx(full, rel=1e-5)


@pytest.mark.parametrize("law", [1 - u**4, y - dt(u)], ids=str)
def test_laws_are_differentiated(law):
    model = heated(law)
    observable = cf.Integral(u**2, at="end")
    for name in ("lap", "u"):
        assert cf.taylor_linearised(model, name).passed()
        assert cf.taylor_observable(model, observable, name).passed()


def test_an_intervention_on_a_law():
    model = heated(1 - u)
    insulated = model.solve(cf.boundary(cf.Natural(u, 0, on="right")))
    assert np.allclose(insulated.states[-1], heated(0).factual.states[-1], rtol=0, atol=1e-12)


# Bad input
# --------------------------------------------------------------------------------------------------

BAD = {
    "no such field": (cf.Natural(u, T, on="right"), "contains T, which is no field"),
    "undeclared symbol": (cf.Natural(u, u * sp.Symbol("h"), on="right"), "undeclared symbol h"),
    "shape": (cf.Natural(u, u * n, on="right"), "combines"),
    "a rate": (cf.Natural(u, -dt(dt(u)), on="right"), "is of order 1 in time"),
    "second derivatives": (cf.Natural(u, u.diff(y, 2), on="right"), "first derivatives only"),
    "two": (cf.Natural(u, 1, on=("right", "top")), "two natural conditions for u"),
    "value as well": (cf.Dirichlet(u, 1, on="right"), "given on 'right' as well"),
    "Neumann as well": (cf.Neumann(u, 1, on="right"), "two natural conditions for u"),
    "no such part": (cf.Natural(u, 0, on="window"), "no boundary part 'window'"),
    "measured": (cf.Natural(u, lambda points: points[0], on="left"), "not a Python function"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_is_one_sentence(kind):
    wrong, words = BAD[kind]
    conditions = [cf.Natural(u, 1 - u, on="right"), cf.Natural(u, 0, on=("left", *REST))]
    if kind not in ("two", "value as well", "Neumann as well", "no such part"):
        conditions = [c for c in conditions if not {*c.on} & {*wrong.on}]
    with pytest.raises(cf.InputError, match=words) as caught:
        cf.Model(
            cf.Library(anchor=dt(u), terms={"lap": lap(u)}),
            {"lap": 1.0},
            experiment(
                unit("triangle", 2),
                [*conditions, wrong],
                initial={u: 0},
                time=cf.Window(0, 1, steps=1),
            ),
        )
    assert "\n" not in str(caught.value)


def test_a_trace_that_no_term_leaves_is_refused():
    with pytest.raises(cf.InputError, match="no term in the equation of u is integrated by parts"):
        cf.Model(
            cf.Library(terms={"u": u, "ux": u.diff(x)}, unknown=u),
            {"u": 1.0},
            experiment(unit("triangle", 2), [cf.Natural(u, 1)]),
        )
    with pytest.raises(cf.InputError, match="the coefficients of all of them are zero"):
        cf.Model(
            cf.Library(terms={"u": u, "lap": lap(u)}, unknown=u),
            {"u": 1.0},
            experiment(unit("triangle", 2), [cf.Natural(u, 1)]),
        )


def test_second_derivatives_on_face_elements_take_zero_only():
    library = cf.Library(terms={"lap": lap(s), "s": s}, unknown=s)
    with pytest.raises(cf.InputError, match="Natural can be zero only"):
        cf.Model(
            library,
            {"lap": 1.0},
            experiment(unit("triangle", 2), [cf.Natural(s, (1, 0))], ("RT", 1), s),
        )
    norms = [
        cf.Model(
            library,
            {"lap": 1.0, "s": -1.0},
            experiment(unit("triangle", 2), [kind(s, 0)], ("RT", 1), s, forcing={s: (x, y)}),
        )
        .factual.states[0]
        .copy()
        for kind in (cf.Natural, cf.Neumann)
    ]
    assert np.allclose(*norms)
