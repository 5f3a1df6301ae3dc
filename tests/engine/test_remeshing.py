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


def test_regions_inside_are_refused_in_words():
    data = read_mesh(mesh_path("square"), MPI.COMM_SELF)
    half = data.cell_tags.values.copy()
    half[: len(half) // 2] += 1
    from dolfinx.mesh import meshtags

    tags = meshtags(data.mesh, 2, data.cell_tags.indices, half)
    with pytest.raises(MeshError, match="several regions"):
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
