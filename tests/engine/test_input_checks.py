"""Input that cannot be used is refused before any solve, in one sentence that says what is
wrong, on all ranks alike.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import basix.ufl
import sympy as sp
import ufl
from dolfinx import fem
from dolfinx.mesh import create_mesh, create_unit_square
from engine_support import unit
from mpi4py import MPI

import cffem as cf
from cffem import t, x, y, z

u, w = cf.ScalarField("u"), cf.ScalarField("w")
v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")
E = cf.VectorField("E", dim=3)
HEAT = cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u)})
WAVE = cf.Library(anchor=cf.dt(cf.dt(u)), terms={"lap": cf.lap(u)})
FLOW = cf.Library(anchor=cf.dt(v), terms={"lap": cf.lap(v)})
TRANSPORT = cf.Library(anchor=cf.dt(u), terms={"u_x": u.diff(x)})


def build(library=HEAT, coefficients=None, **changes):
    """A model of a heat problem on the unit square, with some entries of its experiment
    replaced.
    """
    given = {
        "mesh": unit("triangle", 2),
        "elements": {u: ("Lagrange", 1)},
        "initial": {u: 0},
        "boundary": [cf.Dirichlet(u, 0)],
        "time": cf.Window(0, 1, steps=2),
    }
    return cf.Model(library, coefficients or {"lap": 1.0}, cf.Experiment(**{**given, **changes}))


def other_mesh_function():
    return fem.Function(fem.functionspace(create_unit_square(MPI.COMM_SELF, 2, 2), ("Lagrange", 1)))


def refused(message, make):
    """The input is refused with this message, in one sentence."""
    with pytest.raises(cf.InputError, match=message) as caught:
        make()
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 300


NOT_FINITE = [math.nan, math.inf, -math.inf, sp.nan, sp.oo, sp.zoo]


@pytest.mark.parametrize("value", [*NOT_FINITE, "one", True, sp.Symbol("a"), None])
def test_coefficients_that_are_no_finite_numbers_are_refused(value):
    refused(
        "coefficient of 'lap' is not a finite number", lambda: build(coefficients={"lap": value})
    )


@pytest.mark.parametrize("value", NOT_FINITE)
def test_data_that_are_not_finite_are_refused(value):
    refused("is not finite", lambda: build(initial={u: value}))
    refused("is not finite", lambda: build(initial={u: x + sp.sympify(value)}))
    refused("is not finite", lambda: build(forcing={u: value}))
    refused("is not finite", lambda: build(boundary=[cf.Dirichlet(u, value)]))
    refused("is not finite", lambda: build(boundary=[cf.Robin(u, 0, coefficient=value)]))
    refused("finite start < end", lambda: cf.Window(0, value, steps=2))


def test_expressions_that_are_not_finite_somewhere_on_the_mesh():
    refused(
        "initial value of u is not finite everywhere", lambda: build(initial={u: sp.log(x)}).solve()
    )
    refused(
        r"not finite everywhere on the mesh, for one at the point \(0.5, 1\)",
        lambda: build(initial={u: 1 / (x - y / 2)}).solve(),
    )
    refused(
        "Dirichlet.* is not finite everywhere",
        lambda: build(boundary=[cf.Dirichlet(u, sp.log(y - sp.Rational(1, 2)))]).solve(),
    )
    refused(
        "forcing of u is not finite everywhere", lambda: build(forcing={u: sp.sqrt(x - 2)}).solve()
    )
    broken = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u), "root": sp.sqrt(x - 2) * u})
    refused(
        "root is not finite everywhere", lambda: build(broken, {"lap": 1.0, "root": 1.0}).solve()
    )


def test_functions_that_are_not_finite_or_of_another_mesh():
    domain = unit("triangle", 2)
    function = fem.Function(fem.functionspace(domain.mesh, ("Lagrange", 1)))
    function.x.array[0] = np.nan
    refused("not finite", lambda: build(mesh=domain, initial={u: function}))
    refused("not finite", lambda: build(mesh=domain, boundary=[cf.Dirichlet(u, function)]))
    refused("not finite", lambda: build(mesh=domain, boundary=[cf.Neumann(u, function)]))
    refused("not finite", lambda: build(mesh=domain, forcing={u: function}))
    refused("another mesh", lambda: build(mesh=domain, initial={u: other_mesh_function()}))
    refused(
        "another mesh", lambda: build(mesh=domain, boundary=[cf.Neumann(u, other_mesh_function())])
    )
    vector = fem.Function(fem.functionspace(domain.mesh, ("Lagrange", 1, (2,))))
    refused("shape", lambda: build(mesh=domain, initial={u: vector}))
    refused("shape", lambda: build(initial={u: lambda points: points}).solve())
    refused("cannot be evaluated", lambda: build(initial={u: lambda points: points[7]}).solve())
    refused(
        "not finite",
        lambda: build(initial={u: lambda points: np.full_like(points[0], np.inf)}).solve(),
    )
    refused("Python function", lambda: build(forcing={u: lambda points: points[0]}))
    refused("Python function", lambda: build(boundary=[cf.Neumann(u, lambda points: points[0])]))


def test_meshes_that_cannot_be_used_are_refused():
    domain = create_unit_square(MPI.COMM_SELF, 2, 2)
    domain.geometry.x[3, 0] = np.nan
    refused("finite", lambda: build(mesh=domain))
    refused("mesh", lambda: build(mesh=3))
    points = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]])
    curve = create_mesh(
        MPI.COMM_SELF,
        cells=np.array([[0, 1], [1, 2]]),
        x=points,
        e=ufl.Mesh(basix.ufl.element("Lagrange", "interval", 1, shape=(2,))),
    )
    refused(
        "cells of dimension 1 in space of dimension 2.*name its surface as well",
        lambda: build(mesh=curve),
    )


def test_data_of_another_shape_or_dimension_are_refused():
    refused("must be a scalar", lambda: build(initial={u: (0, 1)}))
    refused(r"must be a scalar, not \(0, 0\)", lambda: build(initial={u: (0, 0)}))
    refused(r"must be a scalar, not \(0, 0\)", lambda: build(boundary=[cf.Dirichlet(u, (0, 0))]))
    refused("must be a scalar", lambda: build(forcing={u: (0, 1)}))
    refused("must be a scalar", lambda: build(boundary=[cf.Neumann(u, (0, 1))]))
    refused("vector with 2 components", lambda: flow(initial={v: 1}))
    refused("vector with 2 components", lambda: flow(initial={v: (1, 2, 3)}))
    refused("vector with 2 components", lambda: flow(boundary=[cf.Dirichlet(v, (0, 0, 0))]))
    refused("vector with 2 components", lambda: flow(boundary=[cf.Dirichlet(v, x)]))
    refused(
        "must be a scalar", lambda: flow(boundary=[cf.Dirichlet(v[0], (1, 0)), cf.Neumann(v, 0)])
    )
    refused("contains z, but the mesh has dimension 2", lambda: build(initial={u: z}))
    refused(
        "contains z, but the mesh has dimension 2", lambda: build(boundary=[cf.Dirichlet(u, z * t)])
    )
    refused("contains w", lambda: build(initial={u: w}))
    refused("contains a", lambda: build(forcing={u: sp.Symbol("a") * x}))
    refused("neither a number", lambda: build(initial={u: object()}))


def flow(**changes):
    given = {"elements": {v: ("Lagrange", 2)}, "initial": {v: 0}, "boundary": [cf.Dirichlet(v, 0)]}
    return build(**{"library": FLOW, **given, **changes})


def test_elements_that_do_not_fit_their_fields():
    refused("no element", lambda: build(elements={w: ("Lagrange", 1)}, initial={}, boundary=[]))
    refused("elements must give", lambda: build(elements={}))
    refused(
        "occurs in no equation", lambda: build(elements={u: ("Lagrange", 1), w: ("Lagrange", 1)})
    )
    refused(
        "scalar field u cannot live on the vector element N1curl",
        lambda: build(elements={u: ("N1curl", 1)}),
    )
    refused("no element Lagrnge", lambda: build(elements={u: ("Lagrnge", 1)}))
    refused("no element N1curl of degree 0", lambda: flow(elements={v: ("N1curl", 0)}))
    refused(r"\(family, degree\)", lambda: build(elements={u: "Lagrange"}))
    refused(r"\(family, degree\)", lambda: build(elements={u: "P1"}))
    refused(
        "written for 2D, but the mesh or the data are 3D",
        lambda: build(
            mesh=unit("tetrahedron", 1),
            library=FLOW,
            elements={v: ("Lagrange", 1)},
            initial={v: 0},
            boundary=[cf.Dirichlet(v, 0)],
        ),
    )
    refused(
        "tangential conditions need a Nédélec, RT or BDM element",
        lambda: flow(boundary=[cf.Tangential(v, 0)]),
    )
    refused(
        "Lagrange elements only",
        lambda: flow(
            elements={v: ("N1curl", 1)}, boundary=[cf.Dirichlet(v[0], 0), cf.Neumann(v, 0)]
        ),
    )
    refused(
        "stable multiplier",
        lambda: flow(elements={v: ("Lagrange", 1)}, constraint=cf.DivergenceFree(v)),
    )


def test_initial_values_and_windows_that_do_not_fit_are_refused():
    refused("initial value of u is missing", lambda: build(initial={}))
    refused(r"initial value of dt\(u\) is missing", lambda: build(WAVE))
    refused("not of second order", lambda: build(initial={u: 0, cf.dt(u): 0}))
    refused("initial values are given for fields", lambda: build(initial={u: 0, x: 1}))
    refused("no element here", lambda: build(initial={u: 0, w: 1}))
    refused("has no time", lambda: build(time=None))
    steady = cf.Library(terms={"lap": cf.lap(u)}, unknown=u)
    refused("no anchor is a time derivative", lambda: build(steady))
    refused(
        "contain t", lambda: build(steady, time=None, initial={}, boundary=[cf.Dirichlet(u, t)])
    )
    refused("contain t", lambda: build(steady, time=None, initial={}, forcing={u: x * t}))
    refused("Window or None", lambda: build(time=(0, 1)))
    refused("whole number of steps", lambda: cf.Window(0, 1, steps=2.5))
    refused("whole number of steps", lambda: cf.Window(0, 1, steps=0))
    refused("unknown scheme", lambda: cf.Window(0, 1, steps=2, scheme="euler"))


def test_boundary_conditions_that_are_missing_double_or_without_effect():
    refused(
        "nothing is said about u on the boundary part 'right'",
        lambda: build(boundary=[cf.Dirichlet(u, 0, on=("left", "top", "bottom"))]),
    )
    refused("nothing is said", lambda: build(boundary=[]))
    refused("no boundary part 'lft'", lambda: build(boundary=[cf.Dirichlet(u, 0, on="lft")]))
    refused("is not a boundary condition", lambda: build(boundary=[0]))
    refused(
        r"a list of boundary conditions, .* not Dirichlet\(u, 0",
        lambda: build(boundary=cf.Dirichlet(u, 0)),
    )
    refused("no element here", lambda: build(boundary=[cf.Dirichlet(w, 0)]))
    refused("two natural conditions", lambda: build(boundary=[cf.Neumann(u, 0), cf.Neumann(u, 1)]))
    refused(
        "is given on 'left' as well",
        lambda: build(boundary=[cf.Dirichlet(u, 0), cf.Neumann(u, 1, on="left")]),
    )
    refused(
        "would have no effect",
        lambda: build(
            TRANSPORT,
            {"u_x": -1.0},
            boundary=[cf.Dirichlet(u, 0, on="left"), cf.Neumann(u, 1, on="right")],
        ),
    )
    both = cf.Library(anchor=cf.dt(v), terms={"lap": cf.lap(v), "grad_div": cf.grad(cf.div(v))})
    refused("several natural traces", lambda: flow(library=both, boundary=[cf.Neumann(v, (1, 0))]))
    refused(
        "jumps in time",
        lambda: build(
            WAVE, initial={u: 0, cf.dt(u): 0}, boundary=[cf.Dirichlet(u, sp.Heaviside(t - 1))]
        ).solve(),
    )
    carried = cf.Library(anchor=cf.dt(v), terms={"v_x": v.diff(x)})
    inflow = [cf.Dirichlet(v[0], 0, on="left")]
    refused(
        "given as a whole",
        lambda: build(
            carried, {"v_x": -1.0}, elements={v: ("DG", 1)}, initial={v: 0}, boundary=inflow
        ),
    )


def test_conditions_that_are_none_are_refused():
    refused("not a boundary part", lambda: cf.Dirichlet(u, 0, on=3 * (None,)))
    refused("needs a field or a component", lambda: cf.Dirichlet("u", 0))
    refused("needs a vector field", lambda: cf.Tangential(u, 0))
    refused("a whole field", lambda: cf.Neumann(v[0], 0))
    refused("a whole field", lambda: cf.Robin(v[0], 0))
    assert cf.Dirichlet(v, sp.Matrix([1, 2])).value == (1, 2)


def test_equations_and_constraints_that_lack_something():
    other = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u), "w": w})
    refused("field w occurs in a term but has no equation", lambda: build(other))
    measured = cf.Library(anchor=cf.dt(u), terms={"lap": cf.Parameter("k") * cf.lap(u)})
    refused("no value for parameter k", lambda: build(measured))
    refused(
        "the constraint is on v, which has no equation here",
        lambda: build(constraint=cf.DivergenceFree(v)),
    )
    refused("needs a multiplier", lambda: build(constraint=cf.Constraint(u.diff(x))))


def test_questions_that_a_solution_cannot_answer():
    solution = build().solve()
    refused("only equations of second order in time have a velocity", solution.velocity)
    refused("no constraint, so there is no multiplier", solution.multiplier)
    refused("w is not a field of this model", lambda: solution.function(w))
    refused("two solutions of one model", lambda: solution.distance(build().solve()))
    refused("is for vector fields, but u is a scalar", lambda: solution.norm("H(div)"))
    assert repr(solution).endswith("3 time levels, 9 unknowns)")
    pair = cf.System({"u": HEAT, "w": cf.Library(anchor=cf.dt(w), terms={"u": u})})
    given = {"elements": {u: ("Lagrange", 1), w: ("Lagrange", 1)}, "initial": {u: 0, w: 0}}
    refused(
        "say which field: u, w", lambda: build(pair, {"u/lap": 1.0}, **given).solve().function()
    )


def test_the_norm_of_the_divergence_adds_up():
    free = flow(
        initial={v: (x, y)}, boundary=[cf.Neumann(v, (0, 0))], coefficients={"lap": 0.0}
    ).solve()
    assert free.norm("H(div)") == pytest.approx(math.sqrt(2 / 3 + 4))


def test_periodic_conditions_without_partners():
    refused("two different boundary parts", lambda: cf.Periodic(on="left", to="left"))
    refused("no boundary part 'rigt'", lambda: build(boundary=[cf.Periodic(on="rigt", to="left")]))
    skew = unit("triangle", 3)
    points = skew.mesh.geometry.x
    points[np.isclose(points[:, 0], 1.0), 1] **= 2
    refused(
        "has no partner",
        lambda: build(mesh=skew, boundary=[cf.Periodic(on="right", to="left"), cf.Dirichlet(u, 0)]),
    )
    both = [cf.Periodic(on="right", to="left"), cf.Periodic(on="top", to="bottom")]
    refused("has no partner", lambda: flow(mesh=skew, elements={v: ("RT", 1)}, boundary=both))
    squares = {"mesh": unit("quadrilateral", 3), "elements": {v: ("serendipity", 2)}}
    refused("Lagrange, Nédélec, RT or BDM", lambda: flow(**squares, boundary=both))
    half = [
        cf.Periodic(on="right", to="left"),
        cf.Dirichlet(u, 0, on="top"),
        cf.Neumann(u, 0, on="bottom"),
    ]
    build(boundary=half).solve()
    lopsided = [
        cf.Periodic(on="right", to="left"),
        cf.Dirichlet(u, 0, on="left"),
        cf.Neumann(u, 0, on=("top", "bottom")),
    ]
    refused("not at its partner", lambda: build(boundary=lopsided).solve())


def test_a_front_moves_along_an_axis_of_the_mesh():
    refused("no front moves along z", lambda: build().observable_scores(cf.Front(u, along=z)))


def test_interventions_that_do_not_fit_the_model():
    model = build()
    refused("needs a term called 'lpa'", lambda: model.solve(cf.delete("lpa")))
    refused("finite", lambda: cf.scale("lap", math.nan))
    refused(
        "no boundary part 'lft'", lambda: model.solve(cf.boundary(cf.Dirichlet(u, 0, on="lft")))
    )
    refused("no field of this model", lambda: model.solve(cf.boundary(cf.Dirichlet(w, 0))))
    refused("contains z", lambda: model.solve(cf.boundary(cf.Dirichlet(u, z))))
    refused("contains z", lambda: model.solve(cf.start({u: z})))
    refused("contains z", lambda: model.solve(cf.force({u: z})))
    refused("takes Dirichlet", lambda: model.solve(cf.boundary(cf.Periodic(on="left", to="right"))))
    with pytest.raises(cf.InputError, match="lpa"):
        model.deletions(["lap", "lpa"])


def on_two_ranks(comm) -> None:
    """Data that are wrong on one rank only are refused on both."""
    domain = create_unit_square(comm, 4, 4)
    middle = domain.geometry.x[:, 0].mean()
    function = fem.Function(fem.functionspace(domain, ("Lagrange", 1)))
    if comm.rank == 1:
        function.x.array[0] = np.nan
    given = {
        "mesh": domain,
        "elements": {u: ("Lagrange", 1)},
        "boundary": [cf.Dirichlet(u, 0)],
        "time": cf.Window(0, 1, steps=1),
    }

    def fails(points):
        if comm.rank == 1:
            raise ValueError("only here")
        return points[0]

    for value in (function, sp.log(x - middle), fails):
        refused(
            "finite|only here",
            lambda value=value: cf.Model(
                HEAT, {"lap": 1.0}, cf.Experiment(initial={u: value}, **given)
            ).solve(),
        )
    if comm.rank == 1:
        domain.geometry.x[0, 0] = np.inf
    refused(
        "coordinates", lambda: cf.Model(HEAT, {"lap": 1.0}, cf.Experiment(initial={u: 0}, **given))
    )


@pytest.mark.mpi
def test_refusals_reach_every_rank(on_ranks):
    on_ranks(2, on_two_ranks)


FUNCTION = fem.Function(fem.functionspace(create_unit_square(MPI.COMM_SELF, 1, 1), ("DG", 0)))
PLACE = ufl.SpatialCoordinate(FUNCTION.function_space.mesh)


@pytest.mark.parametrize(
    "write",
    [
        lambda f: u * f,
        lambda f: f * u,
        lambda f: u + f,
        lambda f: u / f,
        lambda f: f**u,
        lambda f: cf.grad(u) * f,
        lambda f: f * cf.grad(u),
        lambda f: v * f,
        lambda f: v[0] * f,
        lambda f: x * f,
        lambda f: f + x * y,
        lambda f: cf.grad(f),
        lambda f: cf.dt(f),
        lambda f: cf.vector(f, 1),
        lambda f: sp.exp(f),
        lambda f: u.subs(u, f),
        lambda f: cf.Library(terms={"f": f}, unknown=u),
        lambda f: cf.Integral(f),
    ],
)
@pytest.mark.parametrize(
    "value", [FUNCTION, PLACE[0] * FUNCTION, fem.Constant(FUNCTION.function_space.mesh, 2.0)]
)
def test_finite_element_objects_inside_expressions_are_refused_with_what_to_write(write, value):
    with pytest.raises(cf.SymbolError, match=r"write a field k for it|a number or a cf\.Parameter"):
        write(value)


@pytest.mark.parametrize("on", [7, lambda points: points[0] < 1, None, 3.5, (), ("left", 2)])
def test_boundary_parts_are_names(on):
    refused("is not a boundary part", lambda: cf.Dirichlet(u, 0, on=on))


@pytest.mark.parametrize("expr", [u, v, cf.lap(u), v[0], x * u])
def test_a_field_at_another_place_or_time_is_refused(expr):
    refused("delays, shifts and values at a point", lambda: expr.subs(t, t - 1))
    refused("delays, shifts and values at a point", lambda: expr.subs(x, 0))
    late = cf.dt(u).subs(t, t - 1)
    refused(
        "at another place or time",
        lambda: cf.Library(anchor=cf.dt(u), terms={"late": late, "u": u}),
    )


@pytest.mark.parametrize("whole", [sp.Integral(u, (x, 0, 1)), sp.Sum(u, (sp.Symbol("k"), 1, 2))])
def test_integrals_and_sums_are_no_terms(whole):
    refused(
        "integrals, sums and limits|undeclared symbol k",
        lambda: cf.Library(anchor=cf.dt(u), terms={"memory": whole, "u": u}),
    )


def test_an_anchor_with_a_negative_factor_is_refused_with_what_to_do():
    refused(
        "change all signs of the equation, its coefficients",
        lambda: cf.Library(anchor=-3 * cf.dt(cf.dt(v)), terms={"lap": cf.lap(v)}),
    )
