"""Projections are projections: idempotent, orthogonal, onto the class; harmonic fields stay;
the same on any number of ranks.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import constraint_support as support
import sympy as sp
from dolfinx.mesh import create_unit_cube, create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem.constraints.projections.choose import projection
from cffem.constraints.projections.harmonic import HarmonicFields
from cffem.constraints.projections.saddle import KRYLOV_SADDLE
from cffem.symbols.problem.constraint_classes import ZeroMean

E, E2, B = cf.VectorField("E", dim=3), cf.VectorField("E", dim=2), cf.VectorField("B", dim=3)
v, q = cf.VectorField("v", dim=2), cf.ScalarField("q")
CONDUCTOR, NO_SLIP = [cf.Tangential(E, 0)], [cf.Dirichlet(v, 0)]


def check(P, function, level=1e-12):
    """P² = P, P w ⊥ (I − P) w and c(P w) = 0 to round-off, on a field that is far from the
    class.
    """
    w = support.free_state(P, function)
    size, before = P.norm(w), P.residual(w)
    inside, outside = P.project(w), P.complement(w)
    assert before > 0.1
    assert P.norm(outside) > 0.01 * size
    assert P.norm(P.project(inside) - inside) <= 1e-12 * size
    assert abs(P.inner(inside, outside)) <= 1e-12 * size**2
    assert P.residual(inside) <= level * before
    assert np.abs(inside + outside - w).max(initial=0.0) <= 1e-14 * np.abs(w).max(initial=1.0)
    return w, inside


@pytest.mark.parametrize("options", [None, {}], ids=["multigrid", "direct"])
@pytest.mark.parametrize("conditions", [CONDUCTOR, []], ids=["conductor", "natural"])
@pytest.mark.parametrize("element", [("N1curl", 1), ("N1curl", 2)], ids=str)
def test_helmholtz_projections_are_idempotent_and_orthogonal_and_take_gradients_away(
    element, conditions, options
):
    P = projection(cf.DivergenceFree(E), support.box(), {E: element}, conditions, options)
    w, inside = check(P, support.waves)
    # A gradient of the paired space is all complement.
    P._potential.array[:] = np.cos(np.arange(len(P._potential.array)))
    P._potential.array[P._pinned] = 0.0
    P.gradient.mult(P._potential, P._change)
    gradient = np.zeros_like(w)
    gradient[P._where] = P._change.array
    assert P.norm(P.project(gradient)) <= 1e-12 * P.norm(gradient)
    assert P.distance(inside) <= 1e-12 < 0.01 < P.distance(w)
    P.destroy()


def test_second_kind_elements_pair_with_one_degree_more():
    check(
        projection(cf.DivergenceFree(E), support.box(), {E: ("N2curl", 1)}, CONDUCTOR),
        support.waves,
    )


def test_weighted_class_is_another_class():
    """ε jumps from 4 to 1 across a plane of facets: the weighted projection is orthogonal and
    leaves div E alone.
    """
    mesh = create_unit_cube(MPI.COMM_SELF, 4, 3, 3)
    permittivity = sp.Piecewise((4, cf.x < sp.Rational(1, 2)), (1, True))
    weighted = projection(
        cf.DivergenceFree(E, weight=permittivity), mesh, {E: ("N1curl", 1)}, CONDUCTOR
    )
    plain = projection(cf.DivergenceFree(E), mesh, {E: ("N1curl", 1)}, CONDUCTOR)
    w, inside = check(weighted, support.waves)
    assert plain.residual(inside) > 0.01 * plain.residual(w)


@pytest.mark.parametrize("options", [None, KRYLOV_SADDLE], ids=["direct", "krylov"])
@pytest.mark.parametrize("element", [("Lagrange", 2), ("RT", 1), ("BDM", 1)], ids=str)
def test_leray_projections_are_idempotent_and_orthogonal_and_leave_no_divergence(element, options):
    """No-slip (no flux) and open boundaries; on RT and BDM the divergence vanishes pointwise."""
    for conditions in (NO_SLIP, []):
        P = projection(cf.DivergenceFree(v), support.square(), {v: element}, conditions, options)
        w = support.free_state(P, support.plane_waves)
        inside = P.project(w)
        assert P.residual(inside) <= 1e-12 * P.residual(w)
        assert P.norm(P.project(inside) - inside) <= 1e-12 * P.norm(w)
        assert abs(P.inner(inside, w - inside)) <= 1e-12 * P.norm(w) ** 2
        if element[0] != "Lagrange":
            assert divergence(P, inside) <= 1e-12 * divergence(P, w)
        P.destroy()


def divergence(P, state):
    import ufl
    from dolfinx import fem

    function = P.spaces.function(P.fields[0], state)
    return np.sqrt(P.comm.allreduce(fem.assemble_scalar(fem.form(ufl.div(function) ** 2 * ufl.dx))))


def test_slip_walls_leave_the_pressure_floating():
    """Normal components given on each wall, tangential ones free: a closed box without no-slip."""
    mesh = support.with_sides(create_unit_square(MPI.COMM_SELF, 6, 6))
    walls = [
        cf.Dirichlet(v[0], 0, on=("left", "right")),
        cf.Dirichlet(v[1], 0, on=("bottom", "top")),
    ]
    P = projection(cf.DivergenceFree(v), mesh, {v: ("Lagrange", 2)}, walls)
    _, inside = check(P, support.plane_waves)
    assert np.abs(inside[P.essential.owned]).max() == 0.0


def test_projected_fields_of_a_periodic_channel_are_periodic():
    """Left and right are the same place: the projected field still is periodic, and its
    divergence vanishes there too.
    """
    mesh = support.with_sides(create_unit_square(MPI.COMM_SELF, 6, 6))
    conditions = [cf.Periodic("right", "left"), cf.Dirichlet(v, 0, on=("bottom", "top"))]
    P = projection(cf.DivergenceFree(v), mesh, {v: ("Lagrange", 2)}, conditions)
    w = support.free_state(
        P, lambda x: np.stack([np.sin(2 * np.pi * x[0]) + x[1], np.cos(2 * np.pi * x[0]) * x[1]])
    )
    P.essential.complete(w)
    inside = P.project(w)
    again = inside.copy()
    P.essential.complete(again)
    assert np.abs(again - inside).max() <= 1e-14
    assert P.norm(w - inside) > 0.1 * P.norm(w)
    assert P.residual(inside) <= 1e-12 * P.residual(w)
    assert abs(P.inner(inside, w - inside)) <= 1e-12 * P.norm(w) ** 2
    assert P.norm(P.project(inside) - inside) <= 1e-12 * P.norm(w)


def test_inflow_values_are_kept():
    """Inflow on the left, no-slip above and below, open on the right: P w has the inflow of w
    and no divergence.
    """
    mesh = support.with_sides(create_unit_square(MPI.COMM_SELF, 6, 6))
    channel = [
        cf.Dirichlet(v, (cf.y * (1 - cf.y), 0), on="left"),
        cf.Dirichlet(v, 0, on=("bottom", "top")),
    ]
    P = projection(cf.DivergenceFree(v), mesh, {v: ("Lagrange", 2)}, channel)
    w = support.free_state(P, support.plane_waves)
    P.essential.set_values(w, 0.0)
    inside = P.project(w)
    assert np.abs(inside - w)[P.essential.owned].max() == 0.0
    assert np.abs(inside[P.essential.owned]).max() > 0.2
    assert P.residual(inside) <= 1e-12 * P.residual(w)


def test_projected_raviart_thomas_fields_have_no_divergence_at_any_point():
    P = projection(cf.DivergenceFree(B), support.box(), {B: ("RT", 1)}, [cf.Dirichlet(B, 0)])
    w, inside = check(P, support.waves)
    assert divergence(P, inside) <= 1e-12 * divergence(P, w)


def test_means_are_taken_away_orthogonally():
    for conditions in ([], NO_SLIP):
        P = projection(ZeroMean(v), support.square(), {v: ("Lagrange", 2)}, conditions)
        w = support.free_state(P, support.plane_waves)
        assert np.abs(P.means(P.project(w))).max() <= 1e-14
        assert abs(P.inner(P.project(w), P.complement(w))) <= 1e-13 * P.norm(w) ** 2


def test_any_linear_constraint_gets_its_nearest_member():
    """∂v₀/∂x + 2 v₁ = 0 in Lagrange 1: the saddle point finds the nearest member, which is no
    farther than any other.
    """
    condition = v[0].diff(cf.x) + 2 * v[1]
    P = projection(
        cf.Constraint(condition, multiplier={q: ("Lagrange", 1)}),
        support.square(),
        {v: ("Lagrange", 2)},
        NO_SLIP,
    )
    w, inside = check(P, support.plane_waves)
    other = P.project(support.free_state(P, lambda x: np.stack([x[1] * np.cos(x[0]), x[0]])))
    assert P.norm(w - inside) < P.norm(w - other)


HOLES = [
    ("annulus", E2, 1, 1),
    ("three_holes", E2, 3, 3),
    ("torus", E, 1, 0),
    ("box_with_void", E, 0, 1),
    ("box", E, 0, 0),
]


@pytest.mark.parametrize(
    ("domain", "field", "natural", "conductor"), HOLES, ids=[h[0] for h in HOLES]
)
def test_harmonic_fields_count_the_holes(domain, field, natural, conductor):
    """b₁ with natural conditions; with a conductor b₁ in the plane and b₂ in space. Both
    projections keep them.
    """
    mesh = support.DOMAINS[domain]()
    for dimension, conditions in ((natural, []), (conductor, [cf.Tangential(field, 0)])):
        P = projection(cf.DivergenceFree(field), mesh, {field: ("N1curl", 1)}, conditions)
        harmonic = HarmonicFields(P.discretisation, field)
        assert harmonic.dimension == dimension
        assert harmonic.eigenvalues[dimension] > 1.0
        for h in harmonic.states:
            assert P.norm(P.project(h) - h) <= 1e-10
            assert harmonic.curl_norm(h) <= 1e-10


@pytest.mark.parametrize("domain", ["annulus", "box_with_void"])
def test_curl_free_fields_are_gradients_and_harmonic_fields(domain):
    field = E2 if domain == "annulus" else E
    for conditions in ([], [cf.Tangential(field, 0)]):
        P = projection(
            cf.CurlFree(field), support.DOMAINS[domain](), {field: ("N1curl", 1)}, conditions
        )
        check(P, support.plane_waves if domain == "annulus" else support.waves)
        for h in P.harmonic.states:
            assert P.norm(P.project(h) - h) <= 1e-10


def helmholtz_numbers(comm, element="1", write=""):
    P = projection(
        cf.DivergenceFree(E), support.box(comm), {E: ("N1curl", int(element))}, CONDUCTOR
    )
    w, inside = check(P, support.waves)
    numbers = P.norm(w), P.norm(inside), P.residual(w)
    if write and comm.rank == 0:
        print("numbers", *(f"{number:.15e}" for number in numbers))
    return numbers


@pytest.mark.mpi
def test_same_projection_on_two_ranks(on_ranks):
    alone = helmholtz_numbers(MPI.COMM_SELF)
    printed = on_ranks(2, helmholtz_numbers, "1", "write")
    together = [float(word) for word in printed.split("numbers")[1].split()[:3]]
    np.testing.assert_allclose(together, alone, rtol=1e-11)


def test_iterations_of_helmholtz_projections_stay_flat():
    """What one of 100 000 unknowns costs is measured by `cffem bench projection`."""
    iterations = []
    for cells in (5, 8, 13):
        P = projection(
            cf.DivergenceFree(E),
            create_unit_cube(MPI.COMM_SELF, cells, cells, cells),
            {E: ("N1curl", 1)},
            CONDUCTOR,
        )
        P.project(support.free_state(P, support.waves))
        iterations.append(P.solver.iterations)
    assert max(iterations) <= 1.5 * min(iterations)
