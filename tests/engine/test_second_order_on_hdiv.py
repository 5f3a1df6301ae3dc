"""curl curl, lap and grad div on RT and BDM elements: free slip and no slip at the order of
the element, or a question.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import basix.ufl
import sympy as sp
import ufl
from dolfinx import fem
from dolfinx.mesh import exterior_facet_indices
from engine_support import assert_order, error, forcing, unit
from plain_dolfinx import solved_by_dolfinx

import cffem as cf
from cffem import curl, div, dt, grad, lap, sym, t, x, y, z

B2, B3 = cf.VectorField("B", dim=2), cf.VectorField("B", dim=3)
PI = sp.pi
# B·n = 0 and n × curl B = 0 on the sides of the unit square and cube.
SLIPPING = {
    2: (sp.sin(PI * x) * sp.cos(2 * PI * y), sp.cos(PI * x) * sp.sin(PI * y)),
    3: (
        sp.sin(PI * x) * sp.cos(PI * y) * sp.cos(PI * z),
        sp.cos(PI * x) * sp.sin(PI * y) * sp.cos(PI * z) * 2,
        sp.cos(PI * x) * sp.cos(PI * y) * sp.sin(PI * z),
    ),
}
MOVING = {
    2: (sp.exp(x) * sp.sin(2 * y) + x * y, sp.cos(2 * x + y) + y**2),
    3: (sp.exp(x) * sp.sin(y + z), sp.cos(x + y) * z, x * y + sp.sin(z)),
}
JUMP = sp.Piecewise((1, x < sp.Rational(1, 2)), (3, True))
PLANE = [(family, degree) for family in ("RT", "BDM") for degree in (1, 2, 3)]


def dimension_of(cell):
    return 2 if cell in ("triangle", "quadrilateral") else 3


def steady_error(cell, element, n, slip, term=lap):
    """The L2 error of T[B] − B + f = 0, with free slip or with all of B given on the boundary."""
    dimension = dimension_of(cell)
    field, exact = (B2, B3)[dimension - 2], (SLIPPING if slip else MOVING)[dimension]
    walls = (
        [cf.Dirichlet(field, 0), cf.Neumann(field, 0)]
        if slip
        else [cf.Dirichlet(field, exact), cf.Tangential(field, exact)]
    )
    library = cf.Library(terms={"T": term(field), "B": -field}, unknown=field)
    coefficients = {"T": 1.0, "B": 1.0}
    experiment = cf.Experiment(
        mesh=unit(cell, n, skew=0.05 if dimension == 2 else 0.0),
        elements={field: element},
        boundary=walls,
        forcing=forcing(library, coefficients, {field: exact}, dimension),
    )
    return error(cf.Model(library, coefficients, experiment).solve().function(), exact)


@pytest.mark.parametrize("slip", [True, False], ids=["free slip", "no slip"])
@pytest.mark.parametrize("element", PLANE, ids=str)
def test_the_laplacian_converges_with_the_order_of_the_element(element, slip):
    order = element[1] + (element[0] == "BDM")
    assert_order([steady_error("triangle", element, n, slip) for n in (8, 16)], order)


@pytest.mark.parametrize(
    ("cell", "element", "sizes"),
    [
        ("quadrilateral", ("RT", 2), (8, 16)),
        ("quadrilateral", ("BDM", 2), (8, 16)),
        ("tetrahedron", ("RT", 1), (4, 8)),
        pytest.param("quadrilateral", ("RT", 1), (8, 16), marks=pytest.mark.slow),
        pytest.param("quadrilateral", ("BDM", 1), (8, 16), marks=pytest.mark.slow),
        pytest.param("tetrahedron", ("RT", 2), (3, 6), marks=pytest.mark.slow),
        pytest.param("tetrahedron", ("BDM", 1), (4, 8), marks=pytest.mark.slow),
        pytest.param("hexahedron", ("RT", 1), (4, 8), marks=pytest.mark.slow),
        pytest.param("hexahedron", ("BDM", 1), (5, 10), marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("slip", [True, False], ids=["free slip", "no slip"])
def test_other_cells_and_space_converge_as_well(cell, element, sizes, slip):
    order = element[1] + (element[0] == "BDM")
    assert_order([steady_error(cell, element, n, slip) for n in sizes], order)


@pytest.mark.parametrize(
    "term",
    [
        lambda B: -curl(curl(B)),
        lambda B: grad(div(B)) - 2 * curl((1 + x * y) * curl(B)),
        lambda B: div(sym(grad(B))),
        lambda B: div((1 + x) * grad(B)),
    ],
    ids=["curl curl", "varying", "strain", "varying lap"],
)
def test_other_second_order_terms_converge(term):
    assert_order([steady_error("triangle", ("RT", 2), n, False, term) for n in (8, 16)], 2)


def test_a_slip_law_converges():
    """n × curl B + c B_t = g, in the plane (ω n_y, −ω n_x) + c B_t, on the right side."""
    exact, rotation = MOVING[2], sp.diff(MOVING[2][1], x) - sp.diff(MOVING[2][0], y)
    library = cf.Library(terms={"lap": lap(B2), "B": -B2}, unknown=B2)
    rest = ("left", "top", "bottom")
    law = cf.Robin(B2, (0, -rotation - 2 * exact[1]), on="right", coefficient=-2)

    def at(n):
        experiment = cf.Experiment(
            mesh=unit("triangle", n),
            elements={B2: ("RT", 2)},
            boundary=[cf.Dirichlet(B2, exact), cf.Tangential(B2, exact, on=rest), law],
            forcing=forcing(library, {"lap": 1.0, "B": 1.0}, {B2: exact}, 2),
        )
        return error(
            cf.Model(library, {"lap": 1.0, "B": 1.0}, experiment).solve().function(), exact
        )

    assert_order([at(n) for n in (4, 8)], 2)


OUTWARD = {
    "left": (-1, 0, 0),
    "right": (1, 0, 0),
    "bottom": (0, -1, 0),
    "top": (0, 1, 0),
    "back": (0, 0, -1),
    "front": (0, 0, 1),
}


def stress(exact, part):
    """n × curl B on a side of the unit square or cube, in the plane curl B (n_y, −n_x)."""
    n, place = OUTWARD[part], (x, y, z)
    if len(exact) == 2:
        rotation = sp.diff(exact[1], x) - sp.diff(exact[0], y)
        return rotation * n[1], -rotation * n[0]
    pairs = [((i + 1) % 3, (i + 2) % 3) for i in range(3)]
    rotation = [sp.diff(exact[k], place[j]) - sp.diff(exact[j], place[k]) for j, k in pairs]
    return tuple(n[j] * rotation[k] - n[k] * rotation[j] for j, k in pairs)


@pytest.mark.parametrize(
    ("cell", "element", "sizes"),
    [
        ("triangle", ("RT", 2), (4, 8)),
        ("quadrilateral", ("BDM", 1), (8, 16)),
        ("tetrahedron", ("RT", 1), (3, 6)),
        pytest.param("tetrahedron", ("RT", 2), (2, 4), marks=pytest.mark.slow),
    ],
)
def test_a_given_stress_converges(cell, element, sizes):
    """n × curl B is given on all sides but one, where the tangential part is."""
    dimension = dimension_of(cell)
    field, exact = (B2, B3)[dimension - 2], MOVING[dimension]
    *stressed, last = list(OUTWARD)[: 2 * dimension]
    library = cf.Library(terms={"lap": lap(field), "B": -field}, unknown=field)

    def at(n):
        walls = [cf.Neumann(field, stress(exact, part), on=part) for part in stressed]
        experiment = cf.Experiment(
            mesh=unit(cell, n),
            elements={field: element},
            boundary=[cf.Dirichlet(field, exact), *walls, cf.Tangential(field, exact, on=last)],
            forcing=forcing(library, {"lap": 1.0, "B": 1.0}, {field: exact}, dimension),
        )
        return error(
            cf.Model(library, {"lap": 1.0, "B": 1.0}, experiment).solve().function(), exact
        )

    assert_order([at(n) for n in sizes], element[1] + (element[0] == "BDM"))


def test_a_stress_that_changes_in_time_converges():
    exact = tuple(sp.exp(-t) * part for part in MOVING[2])
    library = cf.Library(anchor=dt(B2), terms={"lap": lap(B2)})

    def at(n):
        experiment = cf.Experiment(
            mesh=unit("triangle", n),
            elements={B2: ("RT", 2)},
            initial={B2: MOVING[2]},
            boundary=[
                cf.Dirichlet(B2, exact),
                *(cf.Neumann(B2, stress(exact, part), on=part) for part in list(OUTWARD)[:4]),
            ],
            forcing=forcing(library, {"lap": 1.0}, {B2: exact}, 2),
            time=cf.Window(0, 0.5, steps=n),
        )
        return error(cf.Model(library, {"lap": 1.0}, experiment).solve().function(), exact, 0.5)

    assert_order([at(n) for n in (4, 8)], 2)


def test_derivatives_along_deletions_are_right_with_moving_walls():
    experiment = cf.Experiment(
        mesh=unit("triangle", 3),
        elements={B2: ("RT", 2)},
        initial={B2: WHIRL},
        boundary=[cf.Dirichlet(B2, 0), cf.Tangential(B2, (y * t, 0))],
        time=cf.Window(0, 0.2, steps=4),
        constraint=cf.DivergenceFree(B2),
    )
    library = cf.Library(anchor=dt(B2), terms={"visc": lap(B2), "drag": -cf.norm2(B2) * B2})
    model = cf.Model(library, {"visc": 0.1, "drag": 0.3}, experiment)
    assert cf.taylor_linearised(model, "visc").passed()
    assert cf.taylor_observable(model, cf.Energy(B2), "visc").passed()


@pytest.mark.parametrize("slip", [True, False], ids=["free slip", "no slip"])
def test_the_solution_is_that_of_the_mixed_form_in_plain_dolfinx(slip):
    library = cf.Library(terms={"lap": lap(B2), "B": -B2}, unknown=B2)
    tangential = cf.Neumann(B2, 0) if slip else cf.Tangential(B2, (y, x**2))
    mesh = unit("triangle", 5, skew=0.03)
    experiment = cf.Experiment(
        mesh=mesh,
        elements={B2: ("RT", 2)},
        boundary=[cf.Dirichlet(B2, 0), tangential],
        forcing={B2: (sp.exp(y), x * y)},
    )
    found = cf.Model(library, {"lap": 0.7, "B": 1.3}, experiment).solve().function()

    domain = mesh.mesh
    pair = [basix.ufl.element("RT", "triangle", 2), basix.ufl.element("Lagrange", "triangle", 2)]
    space = fem.functionspace(domain, basix.ufl.mixed_element(pair))
    (b, w), (c, q) = ufl.TrialFunctions(space), ufl.TestFunctions(space)
    place, normal = ufl.SpatialCoordinate(domain), ufl.FacetNormal(domain)

    def rot(f):
        return ufl.as_vector((f.dx(1), -f.dx(0)))

    a = 0.7 * (ufl.div(b) * ufl.div(c) + ufl.dot(rot(w), c)) * ufl.dx + 1.3 * ufl.dot(b, c) * ufl.dx
    a += w * q * ufl.dx - ufl.dot(b, rot(q)) * ufl.dx
    right = ufl.dot(ufl.as_vector((ufl.exp(place[1]), place[0] * place[1])), c) * ufl.dx
    if not slip:
        right += (normal[0] * place[0] ** 2 - normal[1] * place[1]) * q * ufl.ds
    domain.topology.create_connectivity(1, 2)
    held, zero = [], fem.Function(space)
    for part in range(1 + slip):
        dofs = fem.locate_dofs_topological(
            space.sub(part), 1, exterior_facet_indices(domain.topology)
        )
        held.append(fem.dirichletbc(zero, dofs))
    plain = solved_by_dolfinx(a, right, held).sub(0).collapse()
    assert np.abs(found.x.array - plain.x.array).max() < 1e-10 * np.abs(plain.x.array).max()


# Decay
# --------------------------------------------------------------------------------------------------

ETA, END, STEPS = 0.1, 0.2, 16
MODE = (sp.sin(PI * x) * sp.cos(PI * y), -sp.cos(PI * x) * sp.sin(PI * y))


def energy_ratio(model, field):
    start, end = (
        model.measurement(cf.Energy(field, at=at)).value(model.factual) for at in (0.0, "end")
    )
    return end / start


def slipping_decay(element, n, term, constrained, boundary):
    """By how much the decay is missed: exp(−4π²ηt) = 0.4540, in time the midpoint rule's ((1
    − z)/(1 + z))^2n of z = π²η Δt.
    """
    step = np.pi**2 * ETA * END / STEPS
    exact = ((1 - step) / (1 + step)) ** (2 * STEPS)
    assert abs(exact - 0.4540) < 1e-4
    experiment = cf.Experiment(
        mesh=unit("triangle", n),
        elements={B2: element},
        initial={B2: MODE},
        boundary=boundary,
        time=cf.Window(0, END, steps=STEPS),
        constraint=cf.DivergenceFree(B2) if constrained else None,
    )
    model = cf.Model(cf.Library(anchor=dt(B2), terms={"r": term}), {"r": ETA}, experiment)
    return abs(energy_ratio(model, B2) - exact)


@pytest.mark.parametrize("constrained", [False, True], ids=["free", "div-free"])
@pytest.mark.parametrize(
    ("element", "order"), [(("RT", 1), 2), (("RT", 2), 4), (("BDM", 1), 4)], ids=str
)
@pytest.mark.parametrize("term", [-curl(curl(B2)), lap(B2)], ids=str)
def test_the_decay_between_slipping_walls_is_met(term, element, order, constrained):
    walls = [cf.Dirichlet(B2, 0), cf.Neumann(B2, 0)]
    assert_order([slipping_decay(element, n, term, constrained, walls) for n in (4, 8)], order)


WHIRL = (sp.sin(PI * x) ** 2 * sp.sin(2 * PI * y), -sp.sin(2 * PI * x) * sp.sin(PI * y) ** 2)


def whirl_energy(element, n):
    """What is left at the end of a flow that comes to rest between walls without slip."""
    walls = [cf.Dirichlet(B2, 0)] + ([] if element[0] == "Lagrange" else [cf.Tangential(B2, 0)])
    experiment = cf.Experiment(
        mesh=unit("triangle", n),
        elements={B2: element},
        initial={B2: WHIRL},
        boundary=walls,
        time=cf.Window(0, END, steps=STEPS, scheme="backward-euler"),
        constraint=cf.DivergenceFree(B2),
    )
    return energy_ratio(
        cf.Model(cf.Library(anchor=dt(B2), terms={"r": lap(B2)}), {"r": ETA}, experiment), B2
    )


@cache
def taylor_hood():
    return whirl_energy(("Lagrange", 3), 12)


@pytest.mark.parametrize(
    ("element", "order", "share"),
    [(("RT", 1), 1, 0.2), (("RT", 2), 2, 0.02), (("BDM", 1), 2, 0.02)],
    ids=str,
)
def test_the_decay_without_slip_is_that_of_taylor_hood(element, order, share):
    missed = [abs(whirl_energy(element, n) - taylor_hood()) for n in (4, 8)]
    assert_order(missed, order)
    assert missed[-1] < share * taylor_hood()


@pytest.mark.parametrize("element", [("RT", 2), ("BDM", 1)], ids=str)
def test_the_deletion_of_resistance_has_its_exact_score(element):
    """δ² = ½ ∫ (1 − e^{−2π²ηt})² dt = 0.06249²."""
    experiment = cf.Experiment(
        mesh=unit("triangle", 8),
        elements={B2: element},
        initial={B2: MODE},
        boundary=[cf.Dirichlet(B2, 0), cf.Neumann(B2, 0)],
        time=cf.Window(0, END, steps=STEPS),
        constraint=cf.DivergenceFree(B2),
    )
    model = cf.Model(
        cf.Library(anchor=dt(B2), terms={"r": -curl(curl(B2))}), {"r": ETA}, experiment
    )
    assert model.deletions()["r"].score == pytest.approx(0.06248673, rel=2e-3)


# Questions and refusals
# --------------------------------------------------------------------------------------------------


def steady(term, *walls, element=("RT", 1)):
    experiment = cf.Experiment(
        mesh=unit("triangle", 2), elements={B2: element}, boundary=walls, forcing={B2: (1, y)}
    )
    return cf.Model(
        cf.Library(terms={"T": term, "B": -B2}, unknown=B2), {"T": 1.0, "B": 1.0}, experiment
    )


@pytest.mark.parametrize("constraint", [None, cf.DivergenceFree(B2)], ids=["free", "div-free"])
def test_the_tangential_condition_is_asked_for(constraint):
    experiment = cf.Experiment(
        mesh=unit("triangle", 2),
        elements={B2: ("BDM", 1)},
        initial={B2: MODE},
        boundary=[cf.Dirichlet(B2, 0)],
        time=cf.Window(0, 1, steps=2),
        constraint=constraint,
    )
    with pytest.raises(
        cf.InputError,
        match=r"tangential part of B .* Tangential\(B, 0\) for no slip, or Neumann\(B, 0\)",
    ):
        cf.Model(cf.Library(anchor=dt(B2), terms={"r": -curl(curl(B2))}), {"r": 1.0}, experiment)


def test_conditions_that_would_not_do_what_they_say_are_refused():
    all_round = [cf.Dirichlet(B2, 0), cf.Tangential(B2, 0)]
    with pytest.raises(cf.InputError, match="no term takes second derivatives of B"):
        steady(cf.vector(B2[0], 0), *all_round)
    with pytest.raises(cf.InputError, match="need a Nédélec, RT or BDM element"):
        steady(lap(B2), *all_round, element=("Lagrange", 1))
    with pytest.raises(cf.InputError, match="whose traces are not the traction"):
        steady(div(sym(grad(B2))), cf.Dirichlet(B2, 0), cf.Neumann(B2, 0))
    with pytest.raises(cf.InputError, match="which a condition on B itself does not give"):
        steady(-curl(curl(JUMP * B2)), cf.Dirichlet(B2, 0), cf.Neumann(B2, 0))
    with pytest.raises(cf.InputError, match="two conditions for the tangential part"):
        steady(lap(B2), *all_round, cf.Robin(B2, 0, coefficient=-1))
    assert steady(div(sym(grad(B2))), *all_round).solve().norm() > 0


def test_a_change_of_slip_is_an_intervention():
    """cf.boundary replaces all conditions on the field; the result is that of a model with
    the new ones.
    """
    no_slip = [cf.Dirichlet(B2, 0), cf.Tangential(B2, 0)]
    free = [cf.Dirichlet(B2, 0), cf.Neumann(B2, 0)]
    changed = steady(lap(B2), *free).solve(cf.boundary(*no_slip)).function().x.array
    assert np.allclose(
        changed, steady(lap(B2), *no_slip).solve().function().x.array, rtol=0, atol=1e-12
    )
    assert not np.allclose(
        changed, steady(lap(B2), *free).solve().function().x.array, rtol=0, atol=1e-3
    )


@pytest.mark.parametrize("term", [-curl(curl(B2)), lap(B2)], ids=str)
def test_a_nedelec_field_with_natural_boundary_may_be_divergence_free(term):
    """Its multiplier is determined up to a constant."""
    missed = [slipping_decay(("N1curl", 1), n, term, True, [cf.Neumann(B2, 0)]) for n in (8, 16)]
    assert_order(missed, 2)
