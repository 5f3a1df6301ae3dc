"""Fields stored on one number of ranks are the same functions on another, and a file of
another mesh is refused.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx import fem, geometry, mesh
from mpi4py import MPI

import cffem as cf
from cffem import x, y, z
from cffem.engine.assembly.spaces import Spaces, basix_element
from cffem.engine.store.storage import read_header, read_states, write_states
from cffem.engine.store.views import shown_element

SCALAR = sp.sin(3 * x) * sp.exp(y) + z**3
VECTOR = (sp.exp(x * y) + z, sp.cos(2 * x + y), sp.sin(x + 2 * z))
MESHES = {
    "triangle": lambda comm: mesh.create_unit_square(comm, 5, 4),
    "quadrilateral": lambda comm: mesh.create_unit_square(comm, 4, 3, mesh.CellType.quadrilateral),
    "tetrahedron": lambda comm: mesh.create_unit_cube(comm, 2, 2, 3),
    "hexahedron": lambda comm: mesh.create_unit_cube(comm, 2, 3, 2, mesh.CellType.hexahedron),
    "interval": lambda comm: mesh.create_unit_interval(comm, 9),
}
CASES = [
    *((cell, "scalar", ("Lagrange", k)) for cell in ("triangle", "tetrahedron") for k in (1, 2, 3)),
    ("interval", "scalar", ("Lagrange", 3)),
    ("quadrilateral", "scalar", ("Lagrange", 3)),
    ("hexahedron", "scalar", ("Lagrange", 3)),
    ("tetrahedron", "vector", ("Lagrange", 2)),
    *((cell, "vector", ("N1curl", k)) for cell in ("triangle", "tetrahedron") for k in (1, 2)),
    ("tetrahedron", "vector", ("N1curl", 3)),
    ("hexahedron", "vector", ("N1curl", 2)),
    ("quadrilateral", "vector", ("RT", 1)),
    ("triangle", "vector", ("RT", 2)),
    ("tetrahedron", "vector", ("RT", 2)),
    ("tetrahedron", "vector", ("BDM", 2)),
    ("triangle", "scalar", ("DG", 2)),
    ("triangle", "taylor-hood", ("Lagrange", 2)),
]


# Starting on several ranks and compiling norms takes its time: the elements that differ in kind, on
# the cells where it shows.
ON_RANKS = [
    case
    for case in CASES
    if case[:2] != ("triangle", "scalar")
    and case[2] not in (("N1curl", 3), ("BDM", 2), ("Lagrange", 1))
]


def shuffled(domain):
    """The same cells with another order of cells and of the vertices of each simplex, as
    another program might write them.
    """
    rng = np.random.default_rng(0)
    cells = domain.geometry.dofmap[rng.permutation(len(domain.geometry.dofmap))]
    cells = np.array([row[rng.permutation(len(row))] for row in cells], dtype=np.int64)
    points = domain.geometry.x[:, : domain.geometry.dim].copy()
    return mesh.create_mesh(comm=domain.comm, cells=cells, x=points, e=domain.ufl_domain())


def case_spaces(domain, kind, element):
    dim = domain.geometry.dim
    u, v = cf.ScalarField("u"), cf.VectorField("v", dim=dim)
    if kind == "taylor-hood":
        return Spaces(
            domain,
            {v: basix_element(domain, v, element), u: basix_element(domain, u, ("Lagrange", 1))},
        )
    unknown = u if kind == "scalar" else v
    return Spaces(domain, {unknown: basix_element(domain, unknown, element)})


def example_state(spaces):
    """Interpolated data; for DG fields they jump from cell to cell."""
    from cffem.engine.inputs import field_data as data

    state = np.zeros(spaces.owned)
    for unknown in spaces.fields:
        function = fem.Function(spaces.own(unknown)[0])
        value = SCALAR if unknown.shape == () else cf.vector(*VECTOR[: spaces.mesh.geometry.dim])
        data.interpolate(function, value, unknown, 0.0, "test data")
        dofs = spaces.dofs(unknown)
        mine = dofs < spaces.owned
        state[dofs[mine]] = function.x.array[mine]
    return state


def values_and_norms(spaces, state):
    """Values at points of every rank's cells, gathered and averaged, and squared norms."""
    comm = spaces.comm
    points = np.random.default_rng(1).uniform(0.03, 0.97, (12, 3))
    points[:, spaces.mesh.geometry.dim :] = 0.0
    tree = geometry.bb_tree(spaces.mesh, spaces.mesh.topology.dim)
    hits = geometry.compute_colliding_cells(
        spaces.mesh, geometry.compute_collisions_points(tree, points), points
    )
    owned = spaces.mesh.topology.index_map(spaces.mesh.topology.dim).size_local
    result = []
    for unknown in spaces.fields:
        function = spaces.function(unknown, state)
        import ufl

        result.append(
            comm.allreduce(fem.assemble_scalar(fem.form(ufl.inner(function, function) * ufl.dx)))
        )
        size = (
            int(np.prod(unknown.shape or (1,)))
            if unknown.shape in ((), None)
            else spaces.mesh.geometry.dim
        )
        total, count = np.zeros((len(points), size)), np.zeros((len(points), 1))
        for i in range(len(points)):
            cells = [c for c in hits.links(i) if c < owned][:1]
            if cells:
                total[i] += np.atleast_1d(function.eval(points[i], cells[0]))
                count[i] += 1
        total, count = comm.allreduce(total), comm.allreduce(count)
        result.extend((total / count).ravel())
    return np.array(result)


def store_and_compare(comm, how, folder):
    """Store all cases, or restore them and compare values at points and norms with those that
    were stored.
    """
    for number, (cell, kind, element) in enumerate(ON_RANKS):
        spaces = case_spaces(MESHES[cell](comm), kind, element)
        path = os.path.join(folder, f"{number}.npz")
        if how == "store":
            state = example_state(spaces)
            write_states(
                path,
                spaces,
                [("a", state), ("b", -2.0 * state)],
                {"values": list(values_and_norms(spaces, state))},
            )
            continue
        header = read_header(path, comm)
        restored = dict(read_states(path, spaces, header))
        expected = np.array(header["about"]["values"])
        found = values_and_norms(spaces, restored["a"])
        error = np.abs(found - expected).max() / np.abs(expected).max()
        assert error <= 1e-14, (cell, kind, element, error)
        direct = example_state(spaces)
        assert np.abs(restored["a"] - direct).max(initial=0.0) <= 1e-13 * max(
            1.0, np.abs(direct).max(initial=0.0)
        ), (cell, element)
        assert np.array_equal(restored["b"], -2.0 * restored["a"]), (cell, element)


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("writers", "readers"), [pytest.param(1, (2, 3), marks=pytest.mark.slow), (3, (1,))]
)
def test_fields_are_the_same_functions_on_other_numbers_of_ranks(
    on_ranks, tmp_path, writers, readers
):
    on_ranks(writers, store_and_compare, "store", str(tmp_path))
    for ranks in readers:
        on_ranks(ranks, store_and_compare, "restore", str(tmp_path))


@pytest.mark.parametrize(
    ("cell", "kind", "element"),
    [case for case in CASES if case[0] in ("triangle", "tetrahedron", "interval")],
)
def test_restoring_does_not_depend_on_the_order_of_cells_and_vertices(
    tmp_path, cell, kind, element
):
    domain = MESHES[cell](MPI.COMM_SELF)
    spaces, others = (
        case_spaces(domain, kind, element),
        case_spaces(shuffled(domain), kind, element),
    )
    state = example_state(spaces)
    write_states(tmp_path / "u.npz", spaces, [("a", state)])
    back = dict(
        read_states(tmp_path / "u.npz", others, read_header(tmp_path / "u.npz", MPI.COMM_SELF))
    )["a"]
    expected = example_state(others)
    assert np.abs(back - expected).max() <= 1e-13 * np.abs(expected).max()


def maxwell(comm, n=3, omega=1.0):
    field = cf.VectorField("E", dim=2)
    library = cf.Library(
        anchor=cf.dt(cf.dt(field)), terms={"curl": cf.curl(cf.curl(field)), "E": field}
    )
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(comm, n, n),
        elements={field: ("N1curl", 2)},
        initial={field: (sp.sin(sp.pi * y), 0), cf.dt(field): (0, sp.sin(sp.pi * x))},
        boundary=[cf.Tangential(field, 0)],
        time=cf.Window(0, 0.2, steps=3),
    )
    return cf.Model(library, {"curl": -1.0, "E": -omega}, experiment)


def test_trajectories_velocities_and_stages_come_back(tmp_path):
    path = tmp_path / "E.npz"
    with maxwell(MPI.COMM_SELF) as model:
        solution = model.solve(cf.delete("E"), stages=True)
        solution.store(path)
        back = model.restore(path, cf.delete("E"))
        for ours, theirs in (
            (solution.states, back.states),
            (solution.velocities, back.velocities),
        ):
            assert len(ours) == len(theirs) == 4
            assert all(
                np.abs(a - b).max() <= 1e-15 * np.abs(a).max()
                for a, b in zip(ours, theirs, strict=True)
            )
        assert [stage[:2] for stage in solution.stages] == [stage[:2] for stage in back.stages]
        assert np.abs(solution.stages[2][2][2] - back.stages[2][2][2]).max() <= 1e-13
        assert back.record == solution.record
        with pytest.raises(cf.InputError, match="other intervention: delete\\('E'\\)"):
            model.restore(path)
    with (
        maxwell(MPI.COMM_SELF, n=4) as model,
        pytest.raises(cf.InputError, match="another mesh: it has 18 cells, this one 32"),
    ):
        model.restore(path, cf.delete("E"))
    with (
        maxwell(MPI.COMM_SELF, omega=2.0) as model,
        pytest.raises(cf.InputError, match="other coefficients"),
    ):
        model.restore(path, cf.delete("E"))


def test_wrong_damaged_and_missing_files_are_refused(tmp_path):
    domain = MESHES["triangle"](MPI.COMM_SELF)
    spaces, others = (
        case_spaces(domain, "scalar", ("Lagrange", 2)),
        case_spaces(domain, "scalar", ("Lagrange", 1)),
    )
    path = tmp_path / "u.npz"
    write_states(path, spaces, [("a", example_state(spaces))])
    header = read_header(path, MPI.COMM_SELF)
    with pytest.raises(
        cf.InputError, match=r"other fields or elements .*P 2 .* there, P 1 .* here"
    ):
        next(read_states(path, others, header))
    moved = MESHES["triangle"](MPI.COMM_SELF)
    moved.geometry.x[0, 0] -= 1e-9
    with pytest.raises(cf.InputError, match="40 cells, this one 40 at other places"):
        next(read_states(path, case_spaces(moved, "scalar", ("Lagrange", 2)), header))
    whole = path.read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.npz").write_text("not an archive")
    with zipfile.ZipFile(tmp_path / "pickle.npz", "w") as archive:
        np.save(
            archive.open("header.npy", "w"),
            np.array([{"format": "cffem-fields/1"}], dtype=object),
            allow_pickle=True,
        )
    for name in ("cut", "text", "pickle"):
        with pytest.raises(cf.InputError, match="no file of fields"):
            read_header(tmp_path / f"{name}.npz", MPI.COMM_SELF)
    with pytest.raises(cf.InputError, match="there is no file"):
        read_header(tmp_path / "nothing.npz", MPI.COMM_SELF)
    flipped = bytearray(whole)
    flipped[200] ^= 1
    (tmp_path / "flipped.npz").write_bytes(flipped)
    with pytest.raises(cf.InputError, match="damaged"):
        next(read_states(tmp_path / "flipped.npz", spaces, header))


def test_a_failing_write_leaves_the_old_file_and_nothing_else(tmp_path):
    spaces = case_spaces(MESHES["triangle"](MPI.COMM_SELF), "scalar", ("Lagrange", 1))
    path = tmp_path / "u.npz"
    write_states(path, spaces, [("a", example_state(spaces))], "first")

    def broken():
        yield "a", example_state(spaces)
        raise RuntimeError("the solve failed")

    with pytest.raises(RuntimeError, match="the solve failed"):
        write_states(path, spaces, broken(), "second")
    assert read_header(path, MPI.COMM_SELF)["about"] == "first"
    assert [file.name for file in tmp_path.iterdir()] == ["u.npz"]
    with pytest.raises(OSError, match="nowhere"):
        write_states(tmp_path / "nowhere" / "u.npz", spaces, [])


def test_the_header_is_plain_json(tmp_path):
    spaces = case_spaces(MESHES["interval"](MPI.COMM_SELF), "scalar", ("Lagrange", 1))
    write_states(tmp_path / "u.npz", spaces, [("a", example_state(spaces))], {"note": "κ"})
    with np.load(tmp_path / "u.npz", allow_pickle=False) as archive:
        assert json.loads(bytes(archive["header"]))["about"] == {"note": "κ"}
        assert archive["a/u"].shape == (10, 1)


def test_views_for_paraview_are_written_for_every_element(tmp_path):
    with maxwell(MPI.COMM_SELF) as model:
        (file,) = model.solve().write(tmp_path / "E.bp")
        assert file.exists()
    velocity, pressure = cf.VectorField("v", dim=2), cf.ScalarField("p")
    library = cf.Library(terms={"lap": cf.lap(velocity)}, unknown=velocity)
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, 3, 3),
        elements={velocity: ("Lagrange", 2), pressure: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(velocity, 0)],
        constraint=cf.DivergenceFree(velocity, multiplier={pressure: ("Lagrange", 1)}),
        forcing={velocity: (y, 0)},
    )
    with cf.Model(library, {"lap": 1.0}, experiment) as model:
        solution = model.solve()
        files = solution.write(tmp_path / "flow.bp")
        assert [file.name for file in files] == ["flow_v.bp", "flow_p.bp"]
        assert all(file.exists() for file in files)
        with pytest.raises(cf.InputError, match=r"end in \.bp or \.pvd"):
            solution.write(tmp_path / "flow.vtk")


def test_views_without_adios_hold_every_level(tmp_path):
    pyvista = pytest.importorskip("pyvista")
    with maxwell(MPI.COMM_SELF) as model:
        solution = model.solve()
        (file,) = solution.write(tmp_path / "E.pvd")
        grids = sorted(tmp_path.glob("*.vtu"))
        assert file.exists()
        assert len(grids) == len(solution.times)
        shown = pyvista.read(grids[-1])
        function = solution.function()
        largest = float(np.abs(shown.point_data["E"]).max())
        element = shown_element(model.spaces.elements[solution._field(None)])
        target = fem.Function(fem.functionspace(model.spaces.mesh, element))
        target.interpolate(function)
        assert largest == pytest.approx(float(np.abs(target.x.array).max()), rel=1e-6)


NO_ROOM = """
import resource, sys
import cffem as cf
from mpi4py import MPI
from cffem.engine.time.trajectories import DiskLevels

u = cf.ScalarField("u")
mesh = cf.mesh.interval(MPI.COMM_SELF, 0.002)
experiment = cf.Experiment(mesh=mesh, elements={u: ("Lagrange", 2)},
                           boundary=[cf.Dirichlet(u, 0)], forcing={u: 1})
library = cf.Library(terms={"lap": cf.lap(u)}, unknown=u)
solution = cf.Model(library, {"lap": 1.0}, experiment).solve()
levels = DiskLevels(1000)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
state = solution.states[0][:1000]
for write in (lambda: solution.write(sys.argv[1]), lambda: levels.append(state)):
    try:
        write()
    except OSError as error:
        print(error.filename, error.strerror)
"""


def test_no_room_for_views_and_scratch_files_is_an_error_that_names_the_file(tmp_path):
    # A process of its own: what is allowed to it cannot be raised again.
    view = tmp_path / "u.bp"
    done = subprocess.run(
        [sys.executable, "-c", NO_ROOM, str(view)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == f"{view} File too large"
    assert second.startswith("the scratch file of a trajectory in ")
    assert "Traceback" not in done.stderr
