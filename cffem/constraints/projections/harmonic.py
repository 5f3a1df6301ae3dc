# SPDX-License-Identifier: MIT
"""Harmonic fields: what domains with holes add to a constraint class.

A harmonic field is curl-free and discretely divergence-free without being a gradient of the paired
space. The dimension of their space is a Betti number: with natural conditions b₁ (loops), with a
perfect conductor b₁ in the plane and b₂ (enclosed voids) in space. They are the kernel of the mixed
Hodge–Laplace eigenproblem of Arnold, Falk and Winther,

    (σ, τ) − (∇τ, u) = 0,   (∇σ, v) + (curl u, curl v) = λ (u, v),

which, unlike the curl-curl operator alone, has no gradients in its kernel; SLEPc finds it by shift
and invert.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import basix.ufl
import numpy as np
import ufl
from dolfinx import fem
from mpi4py import MPI
from petsc4py import PETSc

from cffem import _compat
from cffem.engine.assembly.dirichlet import local_dofs
from cffem.engine.assembly.discretisation import Discretisation
from cffem.engine.assembly.traces import essential as all_given
from cffem.engine.solve.factorisation import Pencil
from cffem.engine.solve_errors import SolveError
from cffem.forms.elements import HCURL, before
from cffem.symbols.fields import VectorField


@dataclass(frozen=True)
class HarmonicSettings:
    """The search for harmonic fields.

    Args:
        wanted: eigenvalues that are asked for at first; more are asked for where all of them
            are in the kernel.
        kernel: eigenvalue below which a field is harmonic: those of the kernel come out at
            round-off, the first positive one scales with the domain.
    """

    wanted: int = 6
    kernel: float = 1e-8


HARMONIC = HarmonicSettings()


class HarmonicFields:
    """An orthonormal basis of the harmonic fields of a Nédélec space with its boundary conditions.

    Args:
        discretisation: the state space.
        field: the Nédélec field.
        wanted: how many eigenvalues are sought; more where all of them are zero.

    Attributes:
        states: the basis as states, orthonormal in L2.
        eigenvalues: the smallest eigenvalues of the Hodge Laplacian, times the squared size of the
            domain.
    """

    def __init__(
        self, discretisation: Discretisation, field: VectorField, wanted: int = HARMONIC.wanted
    ):
        self.discretisation = discretisation
        self.spaces = discretisation.spaces
        self.comm = discretisation.mesh.comm
        self.field = field
        self.own, _ = self.spaces.own(field)
        element = basix.ufl.mixed_element(
            [self.spaces.elements[field], before(self.spaces.elements[field])]
        )
        self.mixed = fem.functionspace(discretisation.mesh, element)
        self._curl: Any = None
        points = discretisation.mesh.geometry.x
        lowest = [self.comm.allreduce(float(v), op=MPI.MIN) for v in points.min(axis=0)]
        highest = [self.comm.allreduce(float(v), op=MPI.MAX) for v in points.max(axis=0)]
        self.size = math.dist(lowest, highest)
        fields: list[np.ndarray] = []
        while True:
            self.eigenvalues, fields = self._kernel(wanted)
            if len(fields) < len(self.eigenvalues):
                break
            wanted *= 2
        self.states = self._orthonormal(fields)

    @property
    def dimension(self) -> int:
        """The number of independent harmonic fields."""
        return len(self.states)

    def _pair(self) -> tuple[PETSc.Mat, PETSc.Mat]:
        """Both matrices of the eigenproblem, boundary rows eliminated."""
        (u, s), (v, r) = ufl.TrialFunctions(self.mixed), ufl.TestFunctions(self.mixed)
        boundary = self.discretisation.boundary
        parts = tuple(
            part
            for part, given in boundary.conditions.items()
            if all_given(given, self.field, HCURL)
        )
        dofs = []
        for index in (0, 1):
            space, positions = _compat.collapsed(self.mixed, index)
            dofs.append(positions[local_dofs(space, boundary, parts)])
        fixed = np.unique(np.concatenate(dofs))
        imap = self.mixed.dofmap.index_map
        rows = (fixed[fixed < imap.size_local] + imap.local_range[0]).astype(PETSc.IntType)
        left = (
            ufl.inner(ufl.grad(s), v)
            + ufl.inner(ufl.curl(u), ufl.curl(v))
            + ufl.inner(u, ufl.grad(r))
            - s * r
        ) * ufl.dx
        stiffness = _compat.assemble_matrix(_compat.form(left, self.comm))
        mass = _compat.assemble_matrix(_compat.form(ufl.inner(u, v) * ufl.dx, self.comm))
        stiffness.zeroRowsColumns(rows, diag=1.0)
        mass.zeroRowsColumns(rows, diag=0.0)
        return stiffness, mass

    def _kernel(self, wanted: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """The smallest eigenvalues, and the fields that belong to those at round-off."""
        stiffness, mass = self._pair()
        # Away from zero, where the shifted matrix would be singular, and small beside the first
        # positive eigenvalue.
        pencil = Pencil(stiffness, mass, -0.1 / self.size**2, wanted)
        fields = []
        vector = stiffness.createVecRight()
        with pencil.solved("the Hodge–Laplace eigenproblem") as solver:
            if solver.getConverged() == 0:
                raise SolveError(
                    "the harmonic fields were not found: the Hodge–Laplace eigenproblem did not "
                    "converge"
                )
            count = min(solver.getConverged(), wanted)
            values = np.array([solver.getEigenvalue(k).real for k in range(count)]) * self.size**2
            for k in np.nonzero(np.abs(values) < HARMONIC.kernel)[0]:
                solver.getEigenpair(int(k), vector)
                fields.append(self._state(vector))
        for thing in (stiffness, mass, vector):
            thing.destroy()
        return np.sort(np.abs(values)), fields

    def _state(self, vector: PETSc.Vec) -> np.ndarray:
        """The field of an eigenvector as a state; interpolation, because two collapsed spaces
        may number a field differently.
        """
        source = fem.Function(self.mixed)
        source.x.array[: len(vector.array_r)] = vector.array_r
        source.x.scatter_forward()
        collapsed = source.sub(0).collapse()
        target = fem.Function(self.own)
        target.interpolate(collapsed)
        state = np.zeros(self.spaces.owned)
        dofs = self.spaces.dofs(self.field)
        mine = dofs < self.spaces.owned
        state[dofs[mine]] = target.x.array[mine]
        return state

    def _orthonormal(self, fields: list[np.ndarray]) -> list[np.ndarray]:
        """Gram–Schmidt in L2, twice."""
        if not fields:
            return []
        trial, test = ufl.TrialFunction(self.own), ufl.TestFunction(self.own)
        mass = _compat.assemble_matrix(_compat.form(ufl.inner(trial, test) * ufl.dx, self.comm))
        a, b = mass.createVecs()
        dofs = self.spaces.dofs(self.field)
        where = dofs[dofs < self.spaces.owned]

        def inner(first: np.ndarray, second: np.ndarray) -> float:
            a.array[:] = second[where]
            mass.mult(a, b)
            a.array[:] = first[where]
            return float(a.dot(b))

        basis: list[np.ndarray] = []
        for vector in fields:
            for _ in range(2):
                for other in basis:
                    vector = vector - other * inner(other, vector)
                vector = vector / math.sqrt(inner(vector, vector))
            basis.append(vector)
        for thing in (mass, a, b):
            thing.destroy()
        return basis

    def curl_norm(self, state: np.ndarray) -> float:
        """‖curl w‖ of the field in a state, integrated from the curl itself: its square never
        passes through a matrix.
        """
        if self._curl is None:
            function = fem.Function(self.own)
            form = ufl.inner(ufl.curl(function), ufl.curl(function)) * ufl.dx
            self._curl = function, _compat.form(form, self.comm)
        function, form = self._curl
        function.x.array[:] = self.spaces.function(self.field, state).x.array
        return math.sqrt(self.comm.allreduce(float(fem.assemble_scalar(form))))
