"""DOLFINx functions as data: those that jump between cells have the same effect on any number of
ranks, and those of other meshes are read where they are defined only.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import ufl
from dolfinx import fem, mesh
from mpi4py import MPI

import cffem as cf
from cffem import div, dt, grad, lap

u, k = cf.ScalarField("u"), cf.Known("k")


def jumping(comm, n, degree=0):
    """A function whose values jump between the cells of a square."""
    domain = mesh.create_unit_square(comm, n, n)
    found = fem.Function(fem.functionspace(domain, ("DG", degree)), name="f")
    found.interpolate(lambda p: 1 + np.floor(7.3 * p[0] + 3.1 * p[1]) % 3)
    return domain, found


def heat(domain, initial, degree=1, **more):
    given = {"boundary": [cf.Neumann(u, 0)], "time": cf.Window(0, 0.1, 2), **more}
    experiment = cf.Experiment(
        mesh=domain, elements={u: ("Lagrange", degree)}, initial={u: initial}, **given
    )
    return cf.Model(cf.Library(dt(u), {"lap": lap(u)}), {"lap": 0.1}, experiment)


def material(domain, values):
    library = cf.Library(terms={"d": div(k * grad(u)), "u": -u}, unknown=u)
    experiment = cf.Experiment(
        mesh=domain,
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1},
        known={k: values},
    )
    return cf.Model(library, {"d": 1.0, "u": 1.0}, experiment)


def norms(comm):
    """Of solutions that start from, or consist of, what jumps on this or on another mesh."""
    domain, here = jumping(comm, 5)
    _, there = jumping(comm, 7, 1)
    return [
        heat(domain, here).solve().norm(),
        heat(domain, cf.Interpolated(there)).solve().norm(),
        material(domain, cf.Interpolated(there)).solve().norm(),
    ]


def norms_printed(comm):
    found = norms(comm)
    if comm.rank == 0:
        print("norms", json.dumps(found))


@pytest.mark.mpi
def test_initial_values_that_jump_are_the_same_on_any_number_of_ranks(on_ranks):
    others = json.loads(on_ranks(2, norms_printed).split("norms ")[1])
    assert others == pytest.approx(norms(MPI.COMM_SELF), rel=1e-10)


def test_initial_values_that_jump_keep_their_mass():
    domain, given = jumping(MPI.COMM_SELF, 5)
    start = heat(domain, given).solve().function(u, 0)
    masses = [fem.assemble_scalar(fem.form(f * ufl.dx)) for f in (start, given)]
    assert masses[0] == pytest.approx(masses[1], rel=1e-12)


def test_jumps_of_a_mesh_with_equal_cells_stay_where_they_are():
    """Nodes of discontinuous elements lie on the sides of cells, where both values are near."""
    domain, given = jumping(MPI.COMM_SELF, 5, 1)
    _, twin = jumping(MPI.COMM_SELF, 5, 1)
    found = material(domain, cf.Interpolated(twin)).solve().norm()
    assert found == pytest.approx(material(domain, given).solve().norm(), rel=1e-10)


def test_given_values_on_the_boundary_do_not_jump():
    domain, given = jumping(MPI.COMM_SELF, 5)
    with pytest.raises(cf.InputError, match=r"jumps between cells.*cf.Known"):
        heat(domain, 0, boundary=[cf.Dirichlet(u, given)]).solve()


def test_holes_in_the_other_mesh_are_seen_at_every_point_that_is_read():
    """The nodes of quadratic elements miss this hole, those of cubic ones do not."""
    source = mesh.create_unit_square(MPI.COMM_SELF, 32, 32)
    kept = mesh.locate_entities(
        source, 2, lambda p: (abs(p[0] - 1 / 3) > 0.07) | (abs(p[1] - 1 / 3) > 0.07)
    )
    holed = mesh.create_submesh(source, 2, kept)[0]
    one = fem.Function(fem.functionspace(holed, ("Lagrange", 1)))
    one.x.array[:] = 1.0
    with pytest.raises(cf.InputError, match="2 points of the mesh lie outside"):
        heat(mesh.create_unit_square(MPI.COMM_SELF, 1, 1), cf.Interpolated(one), degree=3).solve()


def on_groups(comm):
    """A function that lives on all ranks is no data of a model on one of them."""
    group = comm.Split(comm.rank)
    _, everywhere = jumping(comm, 5)
    domain, _ = jumping(group, 5)
    with pytest.raises(cf.InputError, match="on one communicator"):
        heat(domain, cf.Interpolated(everywhere)).solve()
    _, own = jumping(group, 5)
    assert heat(domain, own if own.function_space.mesh is domain else cf.Interpolated(own)).solve()


@pytest.mark.mpi
@pytest.mark.slow
def test_functions_of_other_ranks_are_refused(on_ranks):
    on_ranks(2, on_groups)


def test_a_form_on_a_part_of_the_cells_leaves_room_for_the_other_terms():
    """The first matrix used to make the pattern of all; entries of other cells were lost."""
    domain = cf.mesh.named(
        mesh.create_unit_square(MPI.COMM_SELF, 4, 4), cells={"a": lambda p: p[0] < 0.5 + 1e-9}
    )
    form = cf.Form(lambda u, v, dx: -u * v * dx(domain.names["a"][1]))

    def solved(terms):
        experiment = cf.Experiment(
            mesh=domain,
            elements={u: ("Lagrange", 1)},
            boundary=[cf.Dirichlet(u, 0)],
            forcing={u: 1},
        )
        library = cf.Library(terms=terms, unknown=u)
        return cf.Model(library, dict.fromkeys(terms, 1.0), experiment).solve().function(u).x.array

    first = solved({"form": form, "lap": lap(u)})
    assert np.allclose(first, solved({"lap": lap(u), "form": form}), rtol=1e-12)
    assert np.allclose(first, solved({"lap": lap(u), "on": cf.on("a", -u)}), rtol=1e-12)
