# SPDX-License-Identifier: MIT
"""Meshes from files are made anew with larger cells: the same domain, the same names."""

from __future__ import annotations

import numpy as np
import pytest
from mpi4py import MPI

import cffem as cf
from cffem import _compat
from cffem.bounds.entrance import certify_sweep
from cffem.engine.mesh.meshes import MeshData, mesh_path, read_mesh
from cffem.engine.mesh.msh_format import MeshError
from cffem.engine.mesh.remeshing import remeshed


def area(data):
    mesh = data.mesh
    cells = _compat.cell_geometry(mesh)[0][: mesh.topology.index_map(2).size_local]
    sides = mesh.geometry.x[cells][:, 1:, :2] - mesh.geometry.x[cells][:, :1, :2]
    return mesh.comm.allreduce(float(np.abs(np.linalg.det(sides)).sum() / 2))


def cells_of(data):
    return data.mesh.topology.index_map(2).size_global


@pytest.mark.parametrize("name", ["square", "l_shape"])
@pytest.mark.parametrize("factor", [1.0, 2.0, 4.0])
def test_polygons_keep_their_corners_and_their_area(name, factor):
    data = read_mesh(mesh_path(name), MPI.COMM_SELF)
    coarser = data.remade(factor, MPI.COMM_SELF)
    assert area(coarser) == pytest.approx(area(data), rel=1e-12)
    assert cells_of(data) / cells_of(coarser) == pytest.approx(factor**2, rel=0.35)
    assert coarser.names == data.names
    # Every part of the boundary has the length that it had.
    for part, (dimension, tag) in data.names.items():
        if dimension == 1:
            lengths = [length_of(each, tag) for each in (data, coarser)]
            assert lengths[1] == pytest.approx(lengths[0], rel=1e-12), part


def length_of(data, tag):
    from dolfinx.mesh import entities_to_geometry

    facets = data.facet_tags.indices[data.facet_tags.values == tag]
    ends = data.mesh.geometry.x[entities_to_geometry(data.mesh, 1, facets)]
    return float(np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1).sum())


def test_curves_stay_curves_and_holes_stay_holes():
    data = read_mesh(mesh_path("annulus"), MPI.COMM_SELF)
    coarser = data.remade(2.0, MPI.COMM_SELF)
    radius = np.hypot(*coarser.mesh.geometry.x[:, :2].T)
    assert radius.min() == pytest.approx(0.5, abs=2e-3)
    assert radius.max() == pytest.approx(1.0, abs=2e-3)
    assert cells_of(data) > 3 * cells_of(coarser)


def with_regions(path):
    """A channel over a bump, with a block that stands on the ground, a disk and a named line
    between block and channel.
    """
    import gmsh

    gmsh.initialize(interruptible=False)
    gmsh.option.setNumber("General.Terminal", 0)
    try:
        occ = gmsh.model.occ
        channel = occ.addRectangle(0, 0, 0, 2.2, 0.6)
        occ.cut([(2, channel)], [(2, occ.addDisk(0.5, 0, 0, 0.15, 0.12))])
        block = occ.addRectangle(1.2, 0.0, 0, 0.3, 0.3)
        disk = occ.addDisk(1.8, 0.3, 0, 0.12, 0.12)
        rest = [(2, tag) for _, tag in occ.getEntities(2) if tag not in (block, disk)]
        _, parts = occ.fragment(rest, [(2, block), (2, disk)])
        occ.synchronize()
        inside = [tag for _, tag in (*parts[1], *parts[2])]
        outside = [tag for _, tag in gmsh.model.getEntities(2) if tag not in inside]
        for number, (tags, name) in enumerate(
            [([t for _, t in parts[1]], "block"), ([t for _, t in parts[2]], "disk")], 5
        ):
            gmsh.model.addPhysicalGroup(2, tags, number, name=name)
        gmsh.model.addPhysicalGroup(2, outside, 9, name="water")
        walls, top = [], []
        for _, tag in gmsh.model.getEntities(1):
            x0, y0, _, x1, _, _ = gmsh.model.getBoundingBox(1, tag)
            if x0 > 1.1 and x1 < 1.6 and y0 > 0.25:
                top.append(tag)
            elif len(gmsh.model.getAdjacencies(1, tag)[0]) == 1:
                walls.append(tag)
        gmsh.model.addPhysicalGroup(1, walls, 1, name="walls")
        gmsh.model.addPhysicalGroup(1, top, 2, name="roof")
        gmsh.option.setNumber("Mesh.MeshSizeMax", 0.04)
        gmsh.model.mesh.generate(2)
        gmsh.write(str(path))
    finally:
        gmsh.finalize()
    return path


def areas(data):
    mesh = data.mesh
    cells = _compat.cell_geometry(mesh)[0][: mesh.topology.index_map(2).size_local]
    sides = mesh.geometry.x[cells][:, 1:, :2] - mesh.geometry.x[cells][:, :1, :2]
    sizes = np.abs(np.linalg.det(sides)) / 2
    return {
        name: float(sizes[data.cell_tags.find(tag)].sum())
        for name, (dimension, tag) in data.names.items()
        if dimension == 2
    }


def test_regions_keep_their_place_and_lines_between_them_their_names(tmp_path):
    data = read_mesh(with_regions(tmp_path / "regions.msh"), MPI.COMM_SELF)
    coarser = data.remade(2.0, MPI.COMM_SELF)
    assert cells_of(data) > 3 * cells_of(coarser)
    assert coarser.names == data.names
    given, found = areas(data), areas(coarser)
    assert found["block"] == pytest.approx(0.09, rel=1e-12)
    assert found["disk"] == pytest.approx(given["disk"], rel=0.05)  # a polygon of nine sides
    assert sum(found.values()) == pytest.approx(sum(given.values()), rel=3e-3)
    for name in ("walls", "roof"):
        lengths = [length_of(each, data.names[name][1]) for each in (data, coarser)]
        assert lengths[1] == pytest.approx(lengths[0], rel=2e-3), name


def test_a_named_line_within_a_region_is_refused_in_words(tmp_path):
    data = read_mesh(with_regions(tmp_path / "regions.msh"), MPI.COMM_SELF)
    same = data.cell_tags.values.copy()
    same[same == data.names["block"][1]] = data.names["water"][1]
    from dolfinx.mesh import meshtags

    tags = meshtags(data.mesh, 2, data.cell_tags.indices, same)
    with pytest.raises(MeshError, match="named lines in the interior"):
        remeshed(MeshData(data.mesh, tags, data.facet_tags, data.names), 2.0, MPI.COMM_SELF)


def test_a_mesh_from_a_file_has_levels_below_it():
    """What decides is as cheap as on a shape, and covers the score of a finer mesh."""
    u = cf.ScalarField("u")
    library = cf.Library(terms={"lap": cf.lap(u), "cube": -(u**3), "u_x": u.diff(cf.x)}, unknown=u)
    scores = {}
    for mesh in (mesh_path("l_shape"), cf.mesh.l_shape(MPI.COMM_SELF, 0.03)):
        experiment = cf.Experiment(
            mesh=read_mesh(mesh, MPI.COMM_SELF),
            elements={u: ("Lagrange", 1)},
            boundary=[cf.Dirichlet(u, 0)],
            forcing={u: 10},
        )
        with cf.Model(library, {"lap": 1.0, "cube": 1.0, "u_x": 1.0}, experiment) as model:
            found = model.deletions(["cube", "u_x"])
            scores[str(mesh)[-5:]] = {name: each.score for name, each in found.items()}
            if mesh == mesh_path("l_shape"):
                asked = cf.Certification(epsilon=1e-3)
                bounds = certify_sweep(model, found, asked)
    coarse, fine = scores.values()
    for name, bound in bounds.items():
        assert "the given one the finest" in bound.certificate.method
        assert abs(coarse[name] - fine[name]) < bound.margin < coarse[name]


def disk_file(path, h):
    """A disk of radius 1 with large cells, as gmsh writes it."""
    from cffem.engine.mesh.mesh_shapes import write_shape

    write_shape("disk", path, h=h)
    return path


def test_a_file_that_knows_its_curves_has_no_corners_on_them(tmp_path):
    """Facets turn by more than 30 degrees, and the curve is found all the same."""
    data = read_mesh(disk_file(tmp_path / "disk.msh", 0.6), MPI.COMM_SELF)
    curved = data.curved()
    gaps = [np.pi - area(data), np.pi - integral(curved)]
    assert gaps[0] > 0.1
    assert abs(gaps[1]) < 0.05 * gaps[0]
    assert curved.names == data.names
    assert _compat.cell_geometry(curved.mesh)[1] == 2
    # Cells half as large lie on the same curve, and larger ones can be made larger again.
    radius = np.hypot(*data.remade(0.5, MPI.COMM_SELF).mesh.geometry.x[:, :2].T).max()
    assert radius == pytest.approx(1.0, abs=5e-3)
    assert data.remade(0.5, MPI.COMM_SELF).remade(2.0, MPI.COMM_SELF).names == data.names


def test_polygons_and_files_without_geometry_have_no_curves():
    for name in ("square", "l_shape"):
        assert read_mesh(mesh_path(name), MPI.COMM_SELF).curved is None
    assert MeshData(cf.mesh.disk(MPI.COMM_SELF, 0.5).mesh).curved is None


def integral(data):
    """The area of curved cells."""
    import ufl
    from dolfinx import fem

    one = fem.Constant(data.mesh, 1.0)
    return data.mesh.comm.allreduce(fem.assemble_scalar(fem.form(one * ufl.dx)))


def deletion_on(mesh, degree):
    """The score of the term u in Δu − 4u + x = −1 − y with u = 0 on the boundary, and its bound."""
    u = cf.ScalarField("u")
    library = cf.Library(terms={"lap": cf.lap(u), "u": u, "cube": -(u**3)}, unknown=u)
    experiment = cf.Experiment(
        mesh=mesh,
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1 + cf.x + cf.y},
    )
    return cf.Model(library, {"lap": 1.0, "u": -4.0, "cube": 0.5}, experiment)


def test_error_bars_on_the_mesh_of_a_file_contain_the_gap_to_its_curves(tmp_path):
    """The same problem on fine cells with curved sides lies within the bars, and far outside what
    they would be for the polygon.
    """
    fine = cf.mesh.disk(MPI.COMM_SELF, 0.1, degree=2)
    with deletion_on(fine, 3) as reference:
        exact = reference.factual.distance(reference.solve(cf.delete("u")))
    mesh = read_mesh(disk_file(tmp_path / "disk.msh", 0.35), MPI.COMM_SELF)
    with deletion_on(mesh, 3) as model:
        found = certify_sweep(model, model.deletions(["u"], keep=True), cf.Certification())["u"]
        assert abs(found.score - exact) <= found.margin
        assert "bounded by the curves" in str(found.certificate)
        assert abs(found.score - exact) > found.margin / 10
