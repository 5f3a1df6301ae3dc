# SPDX-License-Identifier: MIT
"""What the presets' preconditioners need besides the matrix: gradients for AMS, mass and Laplace
matrices for saddle points.

AMS (Hiptmair–Xu) splits a Nédélec field into a part of vector Lagrange functions and gradients of
scalar ones, so it wants the discrete gradient and either the constant fields (degree 1) or the
interpolation from vector Lagrange functions (higher degree).

For a saddle point with velocity block ν K + σ M the inverse of the Schur complement is close to ν
M_p⁻¹ + σ L_p⁻¹ (Cahouet and Chabard), M_p and L_p being mass and Laplace matrices of the pressure;
ν and σ are read off the matrix itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import basix.ufl
import numpy as np
import ufl
from dolfinx import fem
from dolfinx.fem import petsc as fem_petsc
from mpi4py import MPI
from petsc4py import PETSc

from cffem import _compat
from cffem.engine.solve.petsc_options import KrylovSettings, new_ksp
from cffem.engine.solve.presets import SolverPlan
from cffem.engine.solve.scaling import MatrixEquilibration, row_sizes
from cffem.engine.solve.scope import Scope
from cffem.forms.elements import before
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh

    from cffem.engine.assembly.equation import Equation
    from cffem.symbols.fields import Field


# The parts of a Schur complement's preconditioner: three digits of each are more than the
# approximation itself has.
SCHUR = KrylovSettings(relative=1e-3, absolute=1e-50, steps=30)


@dataclass(frozen=True)
class AppliedBy:
    """A preconditioner as PETSc calls it.

    Attributes:
        apply: called with PETSc's preconditioner, x and y, which it fills.
    """

    apply: Callable[[PETSc.PC, PETSc.Vec, PETSc.Vec], None]


def extent(mesh: Mesh) -> float:
    """The largest extent of a mesh along an axis; collective."""
    points = mesh.geometry.x
    ends = np.array([points.max(axis=0, initial=-np.inf), -points.min(axis=0, initial=np.inf)])
    mesh.comm.Allreduce(MPI.IN_PLACE, ends, op=MPI.MAX)
    return float(ends.sum(axis=0).max())


class AuxiliarySpaces(Scope):
    """Gradient and interpolation matrices that AMS needs, made once for a Nédélec space.

    Args:
        equation: the equation of one Nédélec field.
    """

    def __init__(self, equation: Equation):
        self.space = equation.spaces.space
        self.mesh = self.space.mesh
        element = equation.spaces.elements[equation.spaces.fields[0]]
        scalar = before(element)
        nodes = fem.functionspace(self.mesh, scalar)
        self.gradient = self.own(fem_petsc.discrete_gradient(nodes, self.space))
        self.gradient.assemble()
        self.interpolation: PETSc.Mat = None
        self.without_mass = False
        if element.embedded_superdegree > 1:
            vectors = basix.ufl.blocked_element(scalar, shape=(self.mesh.geometry.dim,))
            self.interpolation = self.own(
                fem_petsc.interpolation_matrix(fem.functionspace(self.mesh, vectors), self.space)
            )
            self.interpolation.assemble()

    def attach(self, solver: PETSc.KSP, matrix: PETSc.Mat, essential_rows: np.ndarray) -> None:
        """Give hypre's AMS what it needs for this matrix."""
        preconditioner = solver.getPC()
        preconditioner.setHYPREDiscreteGradient(self.gradient)
        dimension = self.mesh.geometry.dim
        if self.interpolation is not None:
            preconditioner.setHYPRESetInterpolations(
                dimension, None, None, self.interpolation, None
            )
        else:
            with Scope() as scope:
                constants = [scope.own(self._constant(axis)) for axis in range(dimension)]
                missing = [None] * (3 - dimension)
                preconditioner.setHYPRESetEdgeConstantVectors(*constants, *missing)
        self.without_mass = self.kills_gradients(matrix, essential_rows)
        if self.without_mass:
            preconditioner.setHYPRESetBetaPoissonMatrix(None)

    def _constant(self, axis: int) -> PETSc.Vec:
        field = fem.Function(self.space)
        unit = np.eye(self.mesh.geometry.dim)[axis]
        field.interpolate(lambda points: np.repeat(unit[:, None], points.shape[1], axis=1))
        vector = PETSc.Vec().createMPI((self.gradient.getLocalSize()[0], None), comm=self.mesh.comm)
        vector.array[:] = field.x.array[: vector.getLocalSize()]
        return vector

    def kills_gradients(self, matrix: PETSc.Mat, essential_rows: np.ndarray) -> bool:
        """Whether the matrix vanishes on gradients of potentials that keep the essential
        conditions: β = 0.
        """
        with Scope() as scope:
            edges, image = (scope.own(m.createVecLeft()) for m in (self.gradient, matrix))
            potential, touched = (scope.own(self.gradient.createVecRight()) for _ in range(2))
            start = edges.getOwnershipRange()[0]
            edges.array[essential_rows - start] = 1.0 + np.cos(essential_rows) ** 2
            self.gradient.multTranspose(edges, touched)
            numbers = np.arange(*potential.getOwnershipRange())
            potential.array[:] = np.where(touched.array_r == 0.0, np.cos(1.7 * numbers**1.5), 0.0)
            self.gradient.mult(potential, edges)
            matrix.mult(edges, image)
            sums = row_sizes(matrix)[1]
            sums[essential_rows - start] = 0.0
            size = self.mesh.comm.allreduce(float(sums.max(initial=0.0)), op=MPI.MAX) * edges.norm()
            return bool(image.norm() <= 1e-12 * size and size > 0)


class SaddlePoint(Scope):
    """The splitting of a velocity–pressure system, and the preconditioner of its Schur complement
    as PETSc calls it.

    Args:
        plan: the plan with the equation; its `floating` constant becomes the null space.
    """

    def __init__(self, plan: SolverPlan):
        assert plan.equation is not None
        self.plan, self.spaces = plan, plan.equation.spaces
        velocity, pressure = self.spaces.fields
        self.velocity_space, _ = self.spaces.own(velocity)
        pressure_space, _ = self.spaces.own(pressure)
        self.velocity_dofs, self.pressure_dofs = self._mine(velocity), self._mine(pressure)
        p, q, comm = (
            ufl.TrialFunction(pressure_space),
            ufl.TestFunction(pressure_space),
            self.spaces.comm,
        )
        self.mass = self.own(_compat.assemble_matrix(_compat.form(p * q * ufl.dx, comm)))
        # The Laplacian with natural conditions is singular; the hint of a mass keeps AMG's coarsest
        # level regular.
        self.size = extent(self.spaces.mesh)
        laplace = (
            ufl.inner(ufl.grad(p), ufl.grad(q)) * ufl.dx + 1e-8 / self.size**2 * p * q * ufl.dx
        )
        self.laplace = self.own(_compat.assemble_matrix(_compat.form(laplace, comm)))
        self.solvers = [
            self._solver(self.mass, "cg", "jacobi"),
            self._solver(self.laplace, "preonly", "hypre"),
        ]
        self.probe = fem.Function(self.velocity_space)
        w = self.probe
        squares = (ufl.inner(ufl.grad(w), ufl.grad(w)) * ufl.dx, ufl.inner(w, w) * ufl.dx)
        self.squares = [_compat.form(square, comm) for square in squares]
        self.order = np.argsort(self.pressure_dofs)
        self.work = [self.own(self.mass.createVecLeft()) for _ in range(3)]
        self.viscosity, self.inertia = 1.0, 0.0

    def _mine(self, unknown: Field) -> np.ndarray:
        dofs = self.spaces.dofs(unknown)
        return dofs[dofs < self.spaces.owned].astype(np.int64)

    def _solver(self, matrix: PETSc.Mat, method: str, preconditioner: str) -> PETSc.KSP:
        solver = self.own(new_ksp(matrix, SCHUR))
        solver.setType(method)
        solver.getPC().setType(preconditioner)
        return solver

    def attach(self, solver: PETSc.KSP, matrix: PETSc.Mat) -> None:
        """Split the system and put the Schur complement's preconditioner in place."""
        preconditioner, offset = solver.getPC(), matrix.getOwnershipRange()[0]
        block = self.velocity_space.dofmap.index_map_bs
        # PETSc wants sorted fields; the components of a node follow each other in the state's space
        # too.
        velocity = PETSc.IS().createGeneral(
            (np.sort(self.velocity_dofs) + offset).astype(PETSc.IntType), comm=matrix.comm
        )
        if self.spaces.comm.allreduce(
            bool(np.all(np.diff(self.velocity_dofs.reshape(-1, block), axis=1) == 1)), op=MPI.LAND
        ):
            velocity.setBlockSize(block)
        pressure = PETSc.IS().createGeneral(
            (self.pressure_dofs[self.order] + offset).astype(PETSc.IntType), comm=matrix.comm
        )
        preconditioner.setFieldSplitIS(("velocity", velocity), ("pressure", pressure))
        preconditioner.setFieldSplitSchurPreType(PETSc.PC.FieldSplitSchurPreType.USER, self.mass)
        velocity.destroy()
        pressure.destroy()
        preconditioner.setUp()
        inner = preconditioner.getFieldSplitSchurGetSubKSP()[1].getPC()
        if inner.getType() != "python":
            inner.setType("python")
            inner.setPythonContext(AppliedBy(self.apply))

    def null_space(self, matrix: PETSc.Mat) -> None:
        """Tell PETSc about the constants of a floating multiplier, after checking that the
        matrix does vanish on them.
        """
        floating = self.plan.floating
        if floating is None:
            return
        with Scope() as scope:
            vector, image = scope.own(matrix.createVecRight()), scope.own(matrix.createVecLeft())
            vector.array[floating.positions] = 1.0
            vector.normalize()
            matrix.mult(vector, image)
            defect = image.norm() / max(matrix.norm(PETSc.NormType.NORM_INFINITY), 1e-300)
            if defect <= 1e-10:
                constants = scope.own(
                    PETSc.NullSpace().create(constant=False, vectors=[vector], comm=matrix.comm)
                )
                matrix.setNullSpace(constants)
                matrix.setTransposeNullSpace(constants)
        if defect > 1e-10:
            raise InputError(
                "constants of the multiplier are not in the null space of the matrix "
                f"({defect:.1e}); use 'direct'"
            )

    def measure(
        self,
        matrix: PETSc.Mat,
        essential_rows: np.ndarray,
        scaling: MatrixEquilibration | None = None,
    ) -> None:
        """Read ν and σ off the velocity block: two fields on which K and M act differently
        determine both.

        Args:
            matrix: the system.
            essential_rows: global numbers of this rank's rows that are rows of the identity.
            scaling: the factors that its blocks have been multiplied by.
        """
        start = matrix.getOwnershipRange()[0]
        points = self.velocity_space.tabulate_dof_coordinates()
        scope = Scope()
        whole, image = scope.own(matrix.createVecRight()), scope.own(matrix.createVecLeft())
        count, block = len(self.velocity_dofs), self.velocity_space.dofmap.index_map_bs
        system, right = np.zeros((2, 2)), np.zeros(2)
        for k, wave in enumerate((1.0, 1e5)):
            values = np.repeat(np.cos(wave / self.size * points @ [1.0, 0.7, 0.4]), block)[:count]
            whole.set(0.0)
            whole.array[self.velocity_dofs] = values
            whole.array[essential_rows - start] = 0.0
            matrix.mult(whole, image)
            right[k] = whole.dot(image)
            self.probe.x.array[:count] = whole.array_r[self.velocity_dofs]
            self.probe.x.scatter_forward()
            system[k] = [
                self.spaces.comm.allreduce(fem.assemble_scalar(square)) for square in self.squares
            ]
        nu, sigma = np.linalg.lstsq(system, right, rcond=None)[0]
        self.inertia = max(float(sigma), 0.0)
        if not self.plan.elliptic and self.inertia > 0:
            self.viscosity = 0.0
        elif nu > 0:
            self.viscosity = float(nu)
        else:
            self.viscosity = max(float(np.abs(right[0] / max(system[0, 0], 1e-300))), 1e-300)
        if scaling is not None:
            # S = −B A⁻¹ Bᵀ is larger by the factors of its own rows and columns only, A by those of
            # the velocity.
            own = scaling.rows * scaling.columns
            ends = [
                own[np.setdiff1d(dofs, essential_rows - start)]
                for dofs in (self.velocity_dofs, self.pressure_dofs)
            ]
            whole_factor = np.prod(
                [
                    self.spaces.comm.allreduce(part.max(initial=0.0), op=MPI.MAX) or 1.0
                    for part in ends
                ]
            )
            self.viscosity, self.inertia = (
                self.viscosity / whole_factor,
                self.inertia / whole_factor,
            )
        scope.destroy()

    def apply(self, preconditioner: PETSc.PC, x: PETSc.Vec, y: PETSc.Vec) -> None:
        """y = −(ν M⁻¹ + σ L⁻¹) x, close to the inverse of the Schur complement −B (ν K + σ
        M)⁻¹ Bᵀ.
        """
        right, result, part = self.work
        right.array[self.order] = x.array_r
        result.set(0.0)
        if self.viscosity > 0:
            self.solvers[0].solve(right, result)
            result.scale(-self.viscosity)
        if self.inertia * self.size**2 > 1e-8 * self.viscosity:
            self.solvers[1].solve(right, part)
            result.axpy(-self.inertia, part)
        y.array[:] = result.array_r[self.order]
