"""What tests of meshes share: the measures of named parts, and an XDMF file."""

from __future__ import annotations

import numpy as np
import ufl
from dolfinx import fem, io
from dolfinx import mesh as dolfinx_mesh
from mpi4py import MPI


def measures(data):
    """Length, area or volume of every named part."""
    mesh = data.mesh
    one = fem.Constant(mesh, 1.0)
    dx = ufl.Measure("dx", domain=mesh, subdomain_data=data.cell_tags)
    ds = ufl.Measure("ds", domain=mesh, subdomain_data=data.facet_tags)
    found = {}
    for name, (dimension, tag) in data.names.items():
        form = fem.form(one * (dx(tag) if dimension == mesh.topology.dim else ds(tag)))
        found[name] = mesh.comm.allreduce(fem.assemble_scalar(form))
    return found


def write_xdmf(folder):
    mesh = dolfinx_mesh.create_unit_square(MPI.COMM_SELF, 3, 3)
    mesh.name = "square"
    mesh.topology.create_connectivity(1, 2)
    left = dolfinx_mesh.locate_entities_boundary(mesh, 1, lambda points: np.isclose(points[0], 0))
    tags = dolfinx_mesh.meshtags(mesh, 1, np.sort(left), np.full(len(left), 7, dtype=np.int32))
    tags.name = "sides"
    with io.XDMFFile(MPI.COMM_SELF, folder / "mesh.xdmf", "w") as file:
        file.write_mesh(mesh)
        file.write_meshtags(tags, mesh.geometry)
    return folder / "mesh.xdmf"
