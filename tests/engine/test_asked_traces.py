"""No trace is dropped: where integration by parts leaves one that no element has, a condition
is asked for.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from engine_support import error, unit

import cffem as cf
from cffem import div, dt, grad, lap, x, y

q, p, v = cf.VectorField("q", dim=2), cf.ScalarField("p"), cf.VectorField("v", dim=2)
DARCY = cf.System(
    {
        q: cf.Library(anchor=q, terms={"grad p": -grad(p)}),
        p: cf.Library(terms={"div": -div(q), "leak": -p}, unknown=p),
    }
)
COEFFICIENTS = {"q/grad p": 1.0, "p/div": 1.0, "p/leak": 0.01}
CLOSED = cf.Dirichlet(q, 0, on=("top", "bottom"))
SIDES = ("left", "right")


def darcy(*boundary, elements=None):
    elements = {q: ("RT", 1), p: ("DG", 0)} if elements is None else elements
    experiment = cf.Experiment(
        mesh=unit("triangle", 8), elements=elements, boundary=boundary, forcing={p: 1}
    )
    return cf.Model(DARCY, COEFFICIENTS, experiment)


def mean(model):
    return model.measurement(cf.Average(p)).value(model.factual)


def test_the_trace_of_a_discontinuous_pressure_is_asked_for():
    with pytest.raises(
        cf.InputError,
        match=r"nothing is said about p on the boundary part 'left', .* equation of q",
    ):
        darcy(CLOSED)


def test_a_pressure_of_zero_is_said_by_its_value_or_as_natural():
    """−p″ + 0.01 p = 1 with p = 0 at both ends: the mean is near 1/12."""
    given, natural = (
        mean(darcy(CLOSED, c)) for c in (cf.Dirichlet(p, 0, on=SIDES), cf.Neumann(q, 0, on=SIDES))
    )
    assert given == pytest.approx(natural, rel=1e-12)
    assert given == pytest.approx(1 / 12, rel=2e-2)
    assert mean(darcy(cf.Dirichlet(q, 0))) == pytest.approx(100.0, rel=1e-10)


def test_natural_data_of_another_kind_are_refused():
    with pytest.raises(cf.InputError, match="no term has a natural trace of q"):
        darcy(CLOSED, cf.Neumann(q, (1, 0), on=SIDES))


@pytest.mark.parametrize("flux", [("DG", 0), ("N1curl", 1)], ids=str)
def test_the_normal_flux_of_an_element_without_it_is_asked_for(flux):
    """Tested with a continuous p, div q leaves ∮ q·n p: a closed wall is said by Neumann(p, 0)."""
    elements = {q: flux, p: ("Lagrange", 1)}
    with pytest.raises(
        cf.InputError, match=r"nothing is said about q .* Neumann\(p, 0\) where it is zero"
    ):
        darcy(elements=elements)
    closed = darcy(cf.Neumann(p, 0), elements=elements)
    assert mean(closed) == pytest.approx(100.0, rel=1e-10)
    half = darcy(
        cf.Neumann(p, 0, on=("top", "bottom")), cf.Dirichlet(p, 0, on=SIDES), elements=elements
    )
    assert mean(half) == pytest.approx(1 / 12, rel=2e-2)


def test_stokes_with_a_discontinuous_pressure_has_its_outlet_said():
    """Poiseuille flow as a System: p = 0 and ∂v/∂n = 0 at the outlet, p = 2ν(1 − x) inside,
    which discontinuous P1 contains.
    """
    stokes = cf.System(
        {
            v: cf.Library(terms={"lap": lap(v), "grad p": -grad(p)}, unknown=v),
            p: cf.Library(terms={"div": div(v)}, unknown=p),
        }
    )
    flow, walls = (y * (1 - y), 0), ("left", "top", "bottom")

    def solved(*outlet):
        experiment = cf.Experiment(
            mesh=unit("quadrilateral", 3),
            elements={v: ("Lagrange", 3), p: ("DG", 1)},
            boundary=[cf.Dirichlet(v, flow, on=walls), *outlet],
        )
        return cf.Model(stokes, {"v/lap": 0.7, "v/grad p": 1.0, "p/div": 1.0}, experiment).solve()

    with pytest.raises(cf.InputError, match="nothing is said about"):
        solved()
    solution = solved(cf.Neumann(v, 0, on="right"))
    assert error(solution.function(v), flow) < 1e-10
    assert error(solution.function(p), sp.Rational(14, 10) * (1 - x)) < 1e-9


# The multiplier of a constraint
# ------------------------------------------------------------------------------------------


def flow(element, *boundary, terms=None):
    experiment = cf.Experiment(
        mesh=unit("triangle", 3),
        elements={v: element},
        initial={v: (0, 0)},
        boundary=boundary,
        time=cf.Window(0, 1, steps=2),
        forcing={v: (y, x)},
        constraint=cf.DivergenceFree(v),
    )
    return cf.Model(
        cf.Library(anchor=dt(v), terms=terms or {"drag": -v}), {"drag": 1.0}, experiment
    )


@pytest.mark.parametrize("element", [("Lagrange", 2), ("RT", 1), ("N1curl", 1)], ids=str)
def test_an_open_boundary_of_a_constrained_field_is_said(element):
    """Without viscosity no derivative asks for a condition; the multiplier does."""
    with pytest.raises(
        cf.InputError,
        match=r"nothing is said about v .* trace of the multiplier .* Neumann\(v, 0\)",
    ):
        flow(element)
    assert flow(element, cf.Neumann(v, 0)).factual.norm() > 0
    assert flow(element, cf.Dirichlet(v, 0)).factual.norm() > 0


def test_walls_given_by_their_normal_components_are_closed():
    walls = [cf.Dirichlet(v[0], 0, on=SIDES), cf.Dirichlet(v[1], 0, on=("top", "bottom"))]
    assert flow(("Lagrange", 2), *walls).essential.floating is not None
    with pytest.raises(cf.InputError, match="nothing is said about v"):
        flow(("Lagrange", 2), *walls[:1], cf.Dirichlet(v[0], 0, on=("top", "bottom")))
