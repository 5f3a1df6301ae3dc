# SPDX-License-Identifier: MIT
"""A multiplier that the equation determines up to a constant only, such as the pressure of a flow
in a closed box.

Adding a constant to it changes no equation: with the constraint's form c(v, λ), c(v, 1) = 0 for
every admissible v. One of its unknowns is held during the solve, the constraint's rows are made
compatible by spreading what interpolated boundary data lack evenly over the domain, and the result
is shifted to mean zero. The net flux of measured boundary values is removed before, see
`cffem.engine.assembly.net_flux`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import ufl
from mpi4py import MPI
from petsc4py import PETSc

from cffem import _compat
from cffem.engine.assembly.discretisation import Discretisation
from cffem.engine.assembly.net_flux import FluxBalance, flux_balance
from cffem.engine.solve.scope import Scope
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from cffem.engine.assembly.dirichlet import EssentialConditions

# Interpolated data of a compatible problem miss the balance by their interpolation error; more than
# this is a wrong problem.
MOST_IMBALANCE = 1e-2
# The part of the sums in the constraint's rows, solves included, that rounding can make up.
ROUNDED = 1e-8


class FloatingConstant:
    """Makes a multiplier with mean zero out of one that floats.

    Args:
        positions: local positions of the multiplier's owned unknowns.
        weights: ∫ φ of their basis functions, which sum to one, as those of Lagrange and
            discontinuous elements do.
        reduced: the weights after identification of periodic unknowns.
        pinned: the position of the unknown that is held, on the rank that owns it.
        flux: c(v_i, 1) for all owned unknowns of the state; it vanishes where they are free.
        sizes: Σ_k |c(v_i, μ_k)| over the multiplier's basis, what the constraint's rows are made
            of.
        comm: the communicator.
        measured: what removes the net flux of measured boundary values, or None.
    """

    def __init__(
        self,
        positions: np.ndarray,
        weights: np.ndarray,
        reduced: np.ndarray,
        pinned: np.ndarray,
        flux: np.ndarray,
        sizes: np.ndarray,
        comm: MPI.Comm,
        measured: FluxBalance | None = None,
    ):
        self.positions, self.weights, self.reduced, self.pinned = (
            positions,
            weights,
            reduced,
            pinned,
        )
        self.flux, self.sizes, self.comm, self.measured = flux, sizes, comm, measured
        self.volume = comm.allreduce(float(weights.sum()))
        self._surface = comm.allreduce(float(np.abs(flux).sum()))
        self._given = 0.0

    def balance(self, residual: PETSc.Vec) -> None:
        """Remove from the constraint's rows what no increment can: their sum.

        Raises:
            InputError: the sum is more than interpolation errors: no field with these boundary
                values obeys the constraint.
        """
        rows = residual.array[self.positions]
        surplus, size = self.comm.allreduce(np.array([rows.sum(), np.abs(rows).sum()]))
        if abs(surplus) > MOST_IMBALANCE * (size + self._given):
            raise InputError(
                f"the boundary values carry a net flux of {surplus:.3g} through a boundary on "
                "which all of it is given, so no "
                "solution obeys the constraint; give values without net flux, leave a part free "
                "with Neumann, or, if they are "
                "measured, let Dirichlet(…, balance=True) remove it by the smallest change"
            )
        residual.array[self.positions] -= surplus / self.volume * self.reduced

    def centre(self, state: np.ndarray) -> None:
        """Shift the multiplier to mean zero."""
        mean = self.comm.allreduce(float(self.weights @ state[self.positions])) / self.volume
        state[self.positions] -= mean

    def admit(self, state: np.ndarray, time: float) -> None:
        """Remove the net flux of measured boundary values in a state, and take their size as
        a scale.
        """
        if self.measured is not None:
            self.measured.remove(state, time)
        self.measure(state)

    def measure(self, state: np.ndarray) -> None:
        """Take the size of the boundary values as the scale of what can be out of balance,
        and that of the state for rounding.
        """
        largest = self.comm.allreduce(
            float(np.abs(state[self.flux != 0]).max(initial=0.0)), op=MPI.MAX
        )
        summands = self.comm.allreduce(float(np.abs(state) @ self.sizes))
        self._given = largest * self._surface + ROUNDED * summands

    def allow(self, state: np.ndarray) -> None:
        """Allow the rounding errors of a state that a solve has changed since its boundary
        values were measured.
        """
        self._given = max(
            self._given, ROUNDED * self.comm.allreduce(float(np.abs(state) @ self.sizes))
        )


def floating_constant(
    discretisation: Discretisation, essential: EssentialConditions
) -> FloatingConstant | None:
    """What is needed where the multiplier floats: no held value of it, and constants that act
    on no free unknown.
    """
    if discretisation.multiplier is None or discretisation.multiplier[0].shape != ():
        return None
    multiplier, spaces, comm = (
        discretisation.multiplier[0],
        discretisation.spaces,
        discretisation.mesh.comm,
    )
    dofs = spaces.dofs(multiplier)
    mine = dofs[dofs < spaces.owned].astype(np.int64)
    slaves = (
        essential.periodicity.slaves
        if essential.periodicity is not None
        else np.empty(0, dtype=np.int64)
    )
    held = np.setdiff1d(essential.owned, slaves)
    if comm.allreduce(len(np.intersect1d(held, mine))) > 0:
        return None
    action, sizes = constant_action(discretisation, mine)
    # On a Nédélec field a constant acts on nothing at all, hence the constraint itself is the scale
    # of what is zero.
    scale = comm.allreduce(float(sizes.max(initial=0.0)), op=MPI.MAX)
    free = action.copy()
    if essential.periodicity is not None:
        essential.periodicity.gather(free)
    free.array[essential.owned] = 0.0
    floats = free.norm(PETSc.NormType.NORM_INFINITY) <= 1e-11 * scale
    flux = np.where(np.abs(action.array_r) > 1e-11 * scale, action.array_r, 0.0)
    for vector in (free, action):
        vector.destroy()
    if not floats:
        return None
    weights = np.zeros(spaces.owned)
    weights[mine] = basis_integrals(discretisation)[mine]
    reduced = (
        essential.periodicity.gathered(weights) if essential.periodicity is not None else weights
    )
    pinned = pinned_position(discretisation, np.setdiff1d(mine, slaves))
    measured = flux_balance(discretisation, essential.entries, flux)
    return FloatingConstant(mine, weights[mine], reduced[mine], pinned, flux, sizes, comm, measured)


def constant_action(
    discretisation: Discretisation, positions: np.ndarray
) -> tuple[PETSc.Vec, np.ndarray]:
    """The vector of c(v_i, 1), the constraint's matrix times the constant multiplier, and Σ_k
    |c(v_i, μ_k)| (owned values).
    """
    form = next(
        part.jacobians[0] for _, part in discretisation.fixed() if part.name == "constraint"
    )
    scope = Scope()
    matrix = scope.own(_compat.assemble_matrix(_compat.form(form, discretisation.mesh.comm)))
    one, action = scope.own(matrix.createVecRight()), matrix.createVecLeft()
    one.array[positions] = 1.0
    matrix.mult(one, action)
    starts, columns, values = matrix.getValuesCSR()
    magnitudes = scope.own(
        PETSc.Mat().createAIJ(
            matrix.getSizes(), csr=(starts, columns, np.abs(values)), comm=matrix.comm
        )
    )
    sums = scope.own(magnitudes.createVecLeft())
    magnitudes.mult(one, sums)
    sizes = sums.array_r.copy()
    scope.destroy()
    return action, sizes


def basis_integrals(discretisation: Discretisation) -> np.ndarray:
    """∫ φ for the multiplier's basis functions, over the owned unknowns of the state."""
    assert discretisation.multiplier is not None
    test = discretisation.tests[discretisation.multiplier[0]]
    form = _compat.form(
        test * ufl.dx(domain=discretisation.mesh.ufl_domain()), discretisation.mesh.comm
    )
    return discretisation.spaces.assembled(form)


def pinned_position(discretisation: Discretisation, candidates: np.ndarray) -> np.ndarray:
    """One of the multiplier's unknowns, the same on any number of ranks: the first in the
    order of coordinates.
    """
    assert discretisation.multiplier is not None
    spaces, comm = discretisation.spaces, discretisation.mesh.comm
    own, _ = spaces.own(discretisation.multiplier[0])
    dofs = spaces.dofs(discretisation.multiplier[0])
    index = np.flatnonzero(np.isin(dofs, candidates))
    points = own.tabulate_dof_coordinates()[index]
    order = np.lexsort(points.T[::-1])
    best = tuple(float(c) for c in points[order[0]]) if len(order) else (np.inf,) * 3
    chosen = min(range(comm.size), key=comm.allgather(best).__getitem__)
    mine = dofs[index[order[:1]]] if comm.rank == chosen and len(order) else np.empty(0)
    return np.asarray(mine, dtype=np.int64)
