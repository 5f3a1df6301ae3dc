"""Terms that act in a subdomain, on a part of the boundary or on a surface inside are what plain
DOLFINx makes of them.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

import ufl
from dolfinx import fem
from dolfinx import mesh as dolfinx_mesh
from mpi4py import MPI

import cffem as cf
from cffem import dt, grad, lap, on, x, y

u, v, k = cf.ScalarField("u"), cf.VectorField("v", dim=2), cf.Known("k")


def parted(n: int = 4, comm=MPI.COMM_SELF):
    """The unit square in two halves, with sides and the surface between the halves."""
    return cf.mesh.named(
        dolfinx_mesh.create_unit_square(comm, n, n),
        cells={"coast": lambda p: p[0] < 0.5 + 1e-9, "sea": lambda p: p[0] > 0.5 - 1e-9},
        facets={
            "left": lambda p: p[0] < 1e-9,
            "wall": lambda p: p[0] > 1 - 1e-9,
            "cut": lambda p: abs(p[0] - 0.5) < 1e-9,
        },
    )


class ByHand:
    """Measures of the parts, trial and test function of a model's space."""

    def __init__(self, model):
        domain = model.discretisation.domain
        number = {name: tag for name, (_, tag) in domain.names.items()}
        self.space = model.spaces.space
        self.u, self.v = ufl.TrialFunction(self.space), ufl.TestFunction(self.space)
        self.x, self.n = ufl.SpatialCoordinate(domain.mesh), ufl.FacetNormal(domain.mesh)
        self.dx = ufl.Measure("dx", domain=domain.mesh, subdomain_data=domain.cell_tags)
        self._ds, self._dS = (
            ufl.Measure(kind, domain=domain.mesh, subdomain_data=domain.facet_tags)
            for kind in ("ds", "dS")
        )
        self.number, self.tags = number, domain.facet_tags

    def within(self, name):
        return self.dx(self.number[name])

    def along(self, name):
        return self._ds(self.number[name])

    def across(self, name):
        return self._dS(self.number[name])

    def matrix(self, form):
        return fem.assemble_matrix(fem.form(form)).to_dense()

    def solve(self, left, right):
        """The solution that vanishes on the left side."""
        matrix, vector = self.matrix(left), fem.assemble_vector(fem.form(right)).array
        block = self.space.dofmap.index_map_bs
        given = fem.locate_dofs_topological(self.space, 1, self.tags.find(self.number["left"]))
        given = (block * given[:, None] + np.arange(block)).ravel()
        free = np.setdiff1d(np.arange(len(vector)), given)
        result = np.zeros(len(vector))
        result[free] = np.linalg.solve(matrix[np.ix_(free, free)], vector[free])
        return result


def free_sides(unknown):
    return [cf.Dirichlet(unknown, 0, on="left"), cf.Neumann(unknown, 0, on=("wall", "untagged"))]


def scalar_model(terms, coefficients=None, degree=2, domain=None, boundary=None, **more):
    experiment = cf.Experiment(
        mesh=domain or parted(),
        elements={u: ("Lagrange", degree)},
        boundary=boundary or free_sides(u),
        forcing={u: 1 + x},
        **more,
    )
    library = cf.Library(terms=terms, unknown=u)
    return cf.Model(library, coefficients or dict.fromkeys(terms, 1.0), experiment)


TERMS = {
    "lap": lap(u),
    "coast": on("coast", -u),
    "stiff": on("coast", lap(u)),
    "loss": on("wall", -(1 + y) * u),
    "membrane": on("cut", -2 * u),
}


def test_parts_are_those_of_plain_dolfinx():
    model = scalar_model(TERMS)
    h = ByHand(model)
    gradients = ufl.inner(ufl.grad(h.u), ufl.grad(h.v))
    left = gradients * h.dx + (gradients + h.u * h.v) * h.within("coast")
    left += (1 + h.x[1]) * h.u * h.v * h.along("wall") + 2 * h.u("+") * h.v("+") * h.across("cut")
    expected = h.solve(left, (1 + h.x[0]) * h.v * h.dx)
    assert np.abs(model.solve().states[-1] - expected).max() < 1e-13


def test_a_deletion_of_a_part_is_the_problem_without_it():
    model = scalar_model(TERMS)
    for name in ("coast", "stiff", "loss", "membrane"):
        others = {key: term for key, term in TERMS.items() if key != name}
        without = scalar_model(others)
        gap = model.solve().states[-1] - without.solve().states[-1]
        expected = model.norm("L2")(gap)
        assert model.deletions([name])[name].score == pytest.approx(expected, rel=1e-10)
        assert cf.taylor_linearised(model, name).order > 1.9


def test_two_halves_are_the_whole():
    whole = scalar_model({"lap": lap(u), "u": -u}).solve().states[-1]
    halves = scalar_model(
        {"lap": on("coast", lap(u)) + on("sea", lap(u)), "u": on(("coast", "sea"), -u)}
    )
    assert np.abs(halves.solve().states[-1] - whole).max() < 1e-13


def test_a_conductivity_by_subdomain_in_a_part():
    terms = {"lap": lap(u), "stiff": on("coast", cf.div(k * grad(u)))}
    model = scalar_model(terms, known={k: {"coast": 3, "sea": 5}})
    expected = scalar_model({"lap": lap(u), "stiff": on("coast", 3 * lap(u))})
    assert np.abs(model.solve().states[-1] - expected.solve().states[-1]).max() < 1e-13


def test_radiation_is_a_nonlinear_boundary_term():
    model = scalar_model({"lap": lap(u), "radiation": on("wall", -((1 + u) ** 4))}, degree=1)
    h = ByHand(model)
    value = fem.Function(h.space)
    value.x.array[:] = model.solve().states[-1]
    form = ufl.inner(ufl.grad(value), ufl.grad(h.v)) * h.dx - (1 + h.x[0]) * h.v * h.dx
    form += (1 + value) ** 4 * h.v * h.along("wall")
    residual = fem.assemble_vector(fem.form(form)).array
    given = fem.locate_dofs_topological(h.space, 1, h.tags.find(h.number["left"]))
    assert np.abs(np.delete(residual, given)).max() < 1e-12
    assert cf.taylor_linearised(model, "radiation").order > 1.9


def test_slip_friction_of_a_vector_field():
    tangential = v - cf.dot(v, cf.n) * cf.n
    experiment = cf.Experiment(
        mesh=parted(),
        elements={v: ("Lagrange", 1)},
        boundary=[*free_sides(v)],
        forcing={v: (1, x)},
    )
    library = cf.Library(
        terms={"lap": lap(v), "slip": on("wall", -2 * tangential), "cut": on("cut", -v)}, unknown=v
    )
    model = cf.Model(library, dict.fromkeys(library.names, 1.0), experiment)
    h = ByHand(model)
    left = ufl.inner(ufl.grad(h.u), ufl.grad(h.v)) * h.dx
    sliding = h.u - ufl.dot(h.u, h.n) * h.n
    left += 2 * ufl.inner(sliding, h.v) * h.along("wall")
    left += ufl.inner(h.u("+"), h.v("+")) * h.across("cut")
    expected = h.solve(left, ufl.inner(ufl.as_vector([1.0, h.x[0]]), h.v) * h.dx)
    assert np.abs(model.solve().states[-1] - expected).max() < 1e-13


def test_an_impedance_on_a_part_of_a_nedelec_boundary():
    E = cf.VectorField("E", dim=2)
    experiment = cf.Experiment(
        mesh=parted(),
        elements={E: ("N1curl", 1)},
        boundary=[cf.Tangential(E, 0, on="left"), cf.Neumann(E, 0, on=("wall", "untagged"))],
        forcing={E: (1, x)},
    )
    loss = on("wall", -3 * (E - cf.dot(E, cf.n) * cf.n))
    terms = {"curl curl": -cf.curl(cf.curl(E)), "mass": -E, "loss": loss}
    model = cf.Model(cf.Library(terms=terms, unknown=E), dict.fromkeys(terms, 1.0), experiment)
    h = ByHand(model)
    left = (ufl.curl(h.u) * ufl.curl(h.v) + ufl.inner(h.u, h.v)) * h.dx
    along = h.u - ufl.dot(h.u, h.n) * h.n
    left += 3 * ufl.inner(along, h.v) * h.along("wall")
    expected = h.solve(left, ufl.inner(ufl.as_vector([1.0, h.x[0]]), h.v) * h.dx)
    assert np.abs(model.solve().states[-1] - expected).max() < 1e-12


def test_parts_in_time_and_every_strategy_of_a_sweep():
    experiment = cf.Experiment(
        mesh=parted(),
        elements={u: ("Lagrange", 1)},
        initial={u: sp.cos(sp.pi * x / 2)},
        boundary=[cf.Neumann(u, 0)],
        time=cf.Window(0, 0.4, steps=4),
    )
    terms = {"lap": lap(u), "coast": on("coast", -u), "loss": on("wall", -u), "cut": on("cut", -u)}
    model = cf.Model(cf.Library(dt(u), terms), dict.fromkeys(terms, 0.5), experiment)
    h = ByHand(model)
    M = h.matrix(h.u * h.v * h.dx)
    pieces = {
        "lap": -h.matrix(ufl.inner(ufl.grad(h.u), ufl.grad(h.v)) * h.dx),
        "coast": -h.matrix(h.u * h.v * h.within("coast")),
        "loss": -h.matrix(h.u * h.v * h.along("wall")),
        "cut": -h.matrix(h.u("+") * h.v("+") * h.across("cut")),
    }
    start, step = model.solve().states[0], 0.1

    def marched(without=""):
        A = 0.5 * sum(part for name, part in pieces.items() if name != without)
        states = [start]
        for _ in range(4):
            states.append(np.linalg.solve(M - step / 2 * A, (M + step / 2 * A) @ states[-1]))
        return states

    assert np.abs(np.array(model.solve().states) - np.array(marched())).max() < 1e-13
    sweep = model.deletions(["coast", "loss", "cut"])
    for name in ("coast", "loss", "cut"):
        gaps = [a - b for a, b in zip(marched(), marched(name), strict=True)]
        expected = model.trajectory_norm(gaps, model.times)
        assert sweep[name].score == pytest.approx(expected, rel=1e-8)
        alone = model.solve(cf.delete(name)).states[-1]
        assert np.abs(alone - marched(name)[-1]).max() < 1e-12


def test_certificates_are_never_guaranteed_for_parts():
    closed = [cf.Dirichlet(u, 0)]
    plain = scalar_model({"lap": lap(u), "u": -u}, degree=1, boundary=closed)
    assert cf.certify_solution(plain).kind == "guaranteed"
    for terms, boundary in (
        ({"lap": lap(u), "u": on("coast", -u)}, closed),
        ({"lap": lap(u), "u": on("wall", -u)}, free_sides(u)),
    ):
        model = scalar_model(terms, degree=1, boundary=boundary)
        assert not cf.certify_solution(model)
        assert not cf.certify_deletion(model, "u")
        sweep = model.deletions(["u"], keep=True)
        found = cf.certify_sweep(model, sweep, cf.Certification(effort=40))["u"]
        assert found, found.reason
        assert found.certificate.kind == "estimated"
        assert found.margin > 0


def test_materials_by_subdomain_have_guaranteed_bars():
    model = scalar_model(
        {"lap": cf.div(k * grad(u)), "u": -u},
        degree=1,
        boundary=[cf.Dirichlet(u, 0)],
        known={k: {"coast": 1, "sea": 2}},
    )
    assert cf.certify_solution(model).kind == "guaranteed"


def test_what_is_wrong_with_parts_is_said_in_one_sentence():
    with pytest.raises(cf.InputError, match="no part 'cost'; did you mean 'coast'"):
        scalar_model({"lap": lap(u), "u": on("cost", -u)})
    with pytest.raises(cf.InputError, match="where u is given, and has no effect"):
        scalar_model({"lap": lap(u), "u": on("left", -u)})
    with pytest.raises(cf.InputError, match="values and first derivatives only"):
        scalar_model({"lap": lap(u), "u": on("wall", lap(u))})
    with pytest.raises(cf.LibraryError, match="outside of operators and functions"):
        cf.Library(dt(u), {"u": cf.div(on("coast", grad(u)))})
    with pytest.raises(cf.LibraryError, match="outside of operators and functions"):
        cf.Library(dt(u), {"u": on("coast", u) ** 2})
    with pytest.raises(cf.LibraryError, match="acts in a part only"):
        cf.Library(on("coast", dt(u)), {"u": u})
    with pytest.raises(cf.LibraryError, match="-2 times term 'a'"):
        cf.Library(dt(u), {"a": on("coast", u), "b": on("coast", -2 * u)})
    with pytest.raises(cf.SymbolError, match="takes the name of a part"):
        on(3, u)
    with pytest.raises(cf.SymbolError, match="names two parts at once"):
        on("a", on("b", u))
