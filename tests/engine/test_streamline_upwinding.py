"""Streamline upwinding on Lagrange elements: layers without ripples, orders, plain DOLFINx,
deletions, and where it is refused.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

import ufl
from dolfinx import fem
from dolfinx.mesh import exterior_facet_indices
from engine_support import assert_order, error, forcing, unit
from mpi4py import MPI
from plain_dolfinx import solved_by_dolfinx

import cffem as cf
from cffem import dot, dt, grad, lap, x, y
from cffem.study.toml.study_file import read_study

u = cf.ScalarField("u")
TERMS = {"adv": -dot(cf.vector(1, sp.Rational(1, 2)), grad(u)), "d": lap(u), "u": -u}
GIVEN = {"adv": 1.0, "d": 1e-3, "u": 0.1}
SUPG = {u: "SUPG"}


def layer(n=20, **kwargs):
    """−ε u″ + u′ = 1 with a layer of width ε at the right end."""
    library = cf.Library(terms={"adv": -u.diff(x), "d": lap(u)}, unknown=u)
    experiment = cf.Experiment(
        mesh=unit("interval", n),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1},
        **kwargs,
    )
    return cf.Model(library, {"adv": 1.0, "d": 1e-4}, experiment)


def test_a_layer_makes_no_ripples():
    wild, calm = (layer(**k).solve().function().x.array for k in ({}, {"stabilisation": SUPG}))
    assert wild.max() > 1.5
    assert -1e-9 < calm.min() < calm.max() < 1.0


@pytest.mark.parametrize("degree", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_smooth_solutions_keep_their_order(degree):
    exact = sp.sin(2 * x + y) + 2
    library = cf.Library(terms=TERMS, unknown=u)

    def at(n):
        experiment = cf.Experiment(
            mesh=unit("triangle", n),
            elements={u: ("Lagrange", degree)},
            boundary=[cf.Dirichlet(u, exact)],
            forcing=forcing(library, GIVEN, {u: exact}, 2),
            stabilisation=SUPG,
        )
        return error(cf.Model(library, GIVEN, experiment).solve().function(), exact)

    assert_order([at(n) for n in (8, 16)], degree + 0.5)


def zero_around(space):
    """Zero on the whole boundary."""
    mesh = space.mesh
    mesh.topology.create_connectivity(1, 2)
    facets = exterior_facet_indices(mesh.topology)
    return fem.dirichletbc(0.0, fem.locate_dofs_topological(space, 1, facets), space)


def test_it_is_that_of_plain_dolfinx_and_deletions_keep_its_weight():
    """Without the reaction the residual has none, and τ b is as before."""
    domain = unit("triangle", 4)
    experiment = cf.Experiment(
        mesh=domain,
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1 + x},
        stabilisation=SUPG,
    )
    model = cf.Model(cf.Library(terms=TERMS, unknown=u), GIVEN, experiment)
    for change, reaction in (((), 0.1), (cf.delete("u"), 0.0)):
        found = model.solve(change).function()
        a, b = ufl.TrialFunction(found.function_space), ufl.TestFunction(found.function_space)
        edges = [ufl.Jacobian(domain.mesh) * ufl.as_vector(e) for e in ((1, 0), (0, 1), (-1, 1))]
        around = sum(ufl.sqrt(ufl.dot(e, e)) for e in edges)
        h = 4 * ufl.CellVolume(domain.mesh) / (2 * around)
        wind = ufl.as_vector((1.0, 0.5))
        tau = 1 / ufl.sqrt(4 * 1.25 / h**2 + 9 * (4e-3 / h**2) ** 2)
        test = b + tau * ufl.dot(wind, ufl.grad(b))
        source = 1 + ufl.SpatialCoordinate(domain.mesh)[0]
        left = (ufl.dot(wind, ufl.grad(a)) + reaction * a) * test * ufl.dx
        left += 1e-3 * ufl.dot(ufl.grad(a), ufl.grad(b)) * ufl.dx
        left -= 1e-3 * ufl.div(ufl.grad(a)) * tau * ufl.dot(wind, ufl.grad(b)) * ufl.dx
        plain = solved_by_dolfinx(left, source * test * ufl.dx, [zero_around(found.function_space)])
        assert np.abs(found.x.array - plain.x.array).max() < 1e-11
    assert model.notes[0].startswith("u: stabilised by SUPG")


def test_derivatives_are_right():
    """Burgers: τ and b depend on the solution, and on nothing of α that changes."""
    library = cf.Library(anchor=dt(u), terms={"adv": -u * u.diff(x), "d": lap(u)})
    experiment = cf.Experiment(
        mesh=unit("interval", 10),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 1)],
        initial={u: 1 + sp.sin(sp.pi * x)},
        time=cf.Window(0, 0.2, steps=4),
        stabilisation=SUPG,
    )
    model = cf.Model(library, {"adv": 1.0, "d": 0.01}, experiment)
    for name in ("adv", "d"):
        assert cf.taylor_linearised(model, name).passed()


@pytest.mark.parametrize(
    ("terms", "elements", "message"),
    [
        ({"d": lap(u), "u": -u}, ("Lagrange", 1), "nothing transports u"),
        ({"adv": -u.diff(x), "u": -u}, ("DG", 1), "defined for Lagrange elements"),
        ({"adv": -u.diff(x), "b": -lap(lap(u))}, ("Lagrange", 2), "third or higher order"),
    ],
)
def test_where_it_is_not_defined_it_is_refused(terms, elements, message):
    experiment = cf.Experiment(
        mesh=unit("triangle", 2),
        elements={u: elements},
        boundary=[cf.Dirichlet(u, 0), *([cf.Neumann(u, 0)] if "b" in terms else [])],
        stabilisation=SUPG,
    )
    with pytest.raises(cf.InputError, match=message):
        cf.Model(cf.Library(terms=terms, unknown=u), dict.fromkeys(terms, 1.0), experiment)
    with pytest.raises(cf.InputError, match="there is 'SUPG'"):
        layer(stabilisation={u: "PSPG"})


def test_studies_in_toml_name_it(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(
        '[fields]\nu = "scalar"\n[library]\nunknown = "u"\n[library.terms]\n'
        'adv = "-diff(u, x)"\nd = "lap(u)"\n[coefficients]\nadv = 1.0\nd = 1e-3\n[[experiments]]\n'
        'mesh = { shape = "interval", h = 0.25 }\nelements = { u = ["Lagrange", 1] }\n'
        'boundary = [{ type = "Dirichlet", field = "u", value = 0, on = "all" }]\n'
        'forcing = { u = "1" }\nstabilisation = { u = "SUPG" }\n[certification]\nepsilon = 1e-3\n'
    )
    (experiment,) = read_study(file, MPI.COMM_SELF).experiments.values()
    assert {str(key): kind for key, kind in experiment.stabilisation.items()} == {"u": "SUPG"}
