# SPDX-License-Identifier: MIT
"""The same three problems as somebody would write them in DOLFINx: the factual one and each
deletion, one after another, one matrix at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import ufl
from dolfinx import fem
from dolfinx import mesh as meshes
from dolfinx.fem import petsc as fem_petsc
from mpi4py import MPI
from petsc4py import PETSc

from cffem import _compat


def solved(matrix: PETSc.Mat, options: dict[str, str]) -> PETSc.KSP:
    solver = PETSc.KSP().create(matrix.comm)
    solver.setOperators(matrix)
    solver.setTolerances(rtol=1e-10, max_it=1000)
    for key, value in options.items():
        PETSc.Options()[key] = value
    solver.setFromOptions()
    for key in options:
        PETSc.Options().delValue(key)
    return solver


def heat(comm: MPI.Comm, unknowns: int) -> int:
    """Backward Euler in place of the midpoint rule: as many solves, matrices and vectors."""
    n = max(round((unknowns**0.5 - 1) / 2), 2)
    domain = meshes.create_unit_square(comm, n, n)
    space = fem.functionspace(domain, ("Lagrange", 2))
    domain.topology.create_connectivity(1, 2)
    facets = meshes.exterior_facet_indices(domain.topology)
    held = fem.dirichletbc(0.0, fem.locate_dofs_topological(space, 1, facets), space)
    trial, test = ufl.TrialFunction(space), ufl.TestFunction(space)
    coefficients = {"lap": 0.1, "u": 0.3, "u_x": -0.2, "u_y": 0.05}
    values = {name: fem.Constant(domain, c) for name, c in coefficients.items()}
    now = fem.Function(space)
    step = 0.025
    right = (
        -values["lap"] * ufl.inner(ufl.grad(trial), ufl.grad(test))
        + values["u"] * trial * test
        + values["u_x"] * trial.dx(0) * test
        + values["u_y"] * trial.dx(1) * test
    )
    a = _compat.form((trial * test - step * right) * ufl.dx, comm)
    load = _compat.form(now * test * ufl.dx, comm)
    factual: list[np.ndarray] = []
    for deleted in ("", *coefficients):
        for name, value in values.items():
            value.value = 0.0 if name == deleted else coefficients[name]
        now.interpolate(lambda q: np.sin(np.pi * q[0]) * np.sin(np.pi * q[1]))
        matrix = fem_petsc.assemble_matrix(a, bcs=[held])
        matrix.assemble()
        options = {"ksp_type": "gmres", "pc_type": "hypre", "pc_hypre_type": "boomeramg"}
        solver, vector = solved(matrix, options), now.x.petsc_vec.duplicate()
        for number in range(4):
            loaded(vector, load, held)
            solver.solve(vector, now.x.petsc_vec)
            now.x.scatter_forward()
            compared(factual, number, deleted, now.x.array)
        for thing in (solver, matrix, vector):
            thing.destroy()
    return space.dofmap.index_map.size_global


def loaded(vector: PETSc.Vec, load: Any, held: Any) -> None:
    with vector.localForm() as local:
        local.set(0.0)
    fem_petsc.assemble_vector(vector, load)
    vector.ghostUpdate(addv=PETSc.InsertMode.ADD, mode=PETSc.ScatterMode.REVERSE)
    fem_petsc.set_bc(vector, [held])


def compared(factual: list[np.ndarray], number: int, deleted: str, values: np.ndarray) -> float:
    """Keep the factual level, or measure how far another one is from it."""
    if not deleted:
        factual.append(values.copy())
        return 0.0
    return float(np.linalg.norm(values - factual[number]))


BY_HAND = {"heat": heat}
