# SPDX-License-Identifier: MIT
"""Which linear solver a problem gets: a direct one up to a stated size, beyond it the
preconditioner its structure asks for.

    class of problem                            Krylov method          preconditioner
    single fields in H1 (Poisson, heat, …) CG or GMRES hypre BoomerAMG "amg" curl-curl + β on
    Nédélec elements CG or GMRES hypre AMS "ams" Taylor–Hood saddle points (Stokes, …) FGMRES block
    triangular: AMG, Schur complement "stokes" anything nonsymmetric and well scaled GMRES ILU on
    each rank "ilu" everything else none MUMPS LU "direct"

CG is taken where the matrix is symmetric. Name a preset with `petsc_options={"preset": "amg"}`;
further PETSc options are merged over it, and `ksp_type` or `pc_type` without a preset is the user's
own solver. A preset that was chosen here and fails gives way to the direct solve; one that the user
named does not, except for "marching": "ilu" that may give way, for time steps whose mass matrix
makes incomplete factors good.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from petsc4py import PETSc

from cffem.forms.elements import H1, HCURL, carrier
from cffem.symbols.errors import InputError, nearest

if TYPE_CHECKING:
    from cffem.engine.assembly.dirichlet import EssentialConditions
    from cffem.engine.assembly.equation import Equation
    from cffem.engine.assembly.floating import FloatingConstant
    from cffem.engine.solve.scaling import FieldBlocks
    from cffem.engine.solve.stage_types import OptionValue, PetscOptions

# Up to this many unknowns, by dimension of space, a factorisation by MUMPS is quick and its memory
# modest.
DIRECT_LIMIT = {1: 5_000_000, 2: 250_000, 3: 60_000}

KRYLOV: dict[str, OptionValue] = {"ksp_pc_side": "right", "ksp_gmres_restart": 100}
BOOMERAMG: dict[str, OptionValue] = {"pc_type": "hypre", "pc_hypre_type": "boomeramg"}
PRESETS: dict[str, dict[str, OptionValue]] = {
    # ICNTL(24) and CNTL(3) let MUMPS report pivots that are zero up to rounding; ICNTL(13) makes it
    # look in the last front too. ICNTL(33) keeps the determinant, whose sign changes where branches
    # of solutions cross.
    "direct": {
        "ksp_type": "preonly",
        "pc_type": "lu",
        "pc_factor_mat_solver_type": "mumps",
        "mat_mumps_icntl_13": 1,
        "mat_mumps_icntl_14": 60,
        "mat_mumps_icntl_24": 1,
        "mat_mumps_icntl_33": 1,
        "mat_mumps_cntl_3": 1e-13,
    },
    "amg": {**BOOMERAMG},
    "ams": {"pc_type": "hypre", "pc_hypre_type": "ams"},
    "stokes": {
        "ksp_type": "fgmres",
        **KRYLOV,
        "pc_type": "fieldsplit",
        "pc_fieldsplit_type": "schur",
        "pc_fieldsplit_schur_fact_type": "upper",
        "fieldsplit_velocity_ksp_type": "preonly",
        **{f"fieldsplit_velocity_{key}": value for key, value in BOOMERAMG.items()},
        "fieldsplit_pressure_ksp_type": "preonly",
    },
    "ilu": {"ksp_type": "gmres", **KRYLOV, "pc_type": "bjacobi", "sub_pc_type": "ilu"},
}
MARCHING = "marching"
UNSET = "unset"  # the value of an option of a preset that does not apply


# Unknowns in the plane beyond which incomplete factors get more fill, and the levels of it up to
# there and beyond.
FILLED, LEVELS = 100_000, (1, 3)


def incomplete_factors(dimension: int, unknowns: int) -> dict[str, OptionValue]:
    """Fill and ordering of ILU on each rank: neighbours stay close together, and in the plane one
    level more costs little.

    Measured for P2 with 148k unknowns in the plane: a quarter of the time that ILU(0) takes in the
        mesh's own ordering. The finer
    the mesh, the more a step of a Krylov method has to reach across it: three levels take as long
        as one at 80k unknowns and 0.7 to
    0.85 of the time at 148k and 299k, but a fifth more at 37k.

    Args:
        dimension: of space.
        unknowns: on all ranks.
    """
    levels = 0 if dimension > 2 else LEVELS[unknowns > FILLED]
    # A pivot is zero where it is zero, and not where it is small in the units of a problem.
    return {
        "sub_pc_factor_levels": levels,
        "sub_pc_factor_mat_ordering_type": "rcm",
        "sub_pc_factor_zeropivot": 1e-300,
    }


@dataclass
class SolverPlan:
    """How the systems of one equation are solved.

    Attributes:
        name: one of `PRESETS`, or "own" where the user's options say everything.
        options: the user's PETSc options.
        automatic: whether the preset was chosen here, so that a failure may fall back to the direct
            solve.
        equation: what the matrix comes from; None for a matrix without a history.
        floating: a multiplier determined up to a constant, left free by presets that treat the null
            space themselves.
        held: global numbers of this rank's rows that were eliminated from the matrix.
        chosen: the name and the floating multiplier of a preset that gave way.
    """

    name: str
    options: dict[str, OptionValue]
    automatic: bool = False
    equation: Equation | None = None
    floating: FloatingConstant | None = None
    held: np.ndarray = ()
    chosen: tuple[str, FloatingConstant | None] | None = None

    def rows(self, essential: EssentialConditions) -> np.ndarray:
        """Global numbers of the rows of this rank to eliminate; they are kept as `held`."""
        self.held = essential.rows
        if self.floating is not None and len(essential.rows):
            offset = essential.rows[0] - essential.owned[0]
            self.held = np.setdiff1d(essential.rows, self.floating.pinned + offset).astype(
                PETSc.IntType
            )
        return self.held

    def balance(self, vector: PETSc.Vec) -> None:
        """Give the pinned row of a right-hand side what makes the floating multiplier's part
        compatible with a free row.
        """
        if self.floating is not None:
            vector.array[self.floating.pinned] = 0.0
            total = self.floating.comm.allreduce(
                float(vector.array_r[self.floating.positions].sum())
            )
            vector.array[self.floating.pinned] = -total

    def shift(self, vector: PETSc.Vec) -> None:
        """Add to the floating multiplier the constant that makes its pinned entry zero, as in
        a solve with that row held.
        """
        if self.floating is not None:
            pinned = self.floating.comm.allreduce(float(vector.array_r[self.floating.pinned].sum()))
            vector.array[self.floating.positions] -= pinned

    @property
    def blocks(self) -> FieldBlocks | None:
        """Which field each row belongs to, where there are several."""
        if self.equation is None or len(self.equation.spaces.fields) == 1:
            return None
        return self.equation.blocks

    def give_way(self, matrix: PETSc.Mat) -> None:
        """Turn to the direct solve until `restore`, its pinned row eliminated from the
        present matrix.
        """
        pins = np.empty(0, dtype=PETSc.IntType)
        if self.floating is not None:
            pins = (self.floating.pinned + matrix.getOwnershipRange()[0]).astype(PETSc.IntType)
        matrix.zeroRowsColumns(pins, diag=1.0)
        self.chosen = self.name, self.floating
        self.held = np.union1d(np.asarray(self.held, dtype=PETSc.IntType), pins)
        self.name, self.automatic, self.floating = "direct", False, None

    def restore(self) -> bool:
        """Return to the preset that gave way in another problem; whether there was one."""
        if self.chosen is None:
            return False
        (self.name, self.floating), self.automatic, self.chosen = self.chosen, True, None
        return True

    def all_options(self, symmetric: bool) -> dict[str, OptionValue]:
        """The preset's PETSc options with the user's own merged over them."""
        preset = dict(PRESETS.get(self.name, {}))
        if self.name == "amg" and not self.elliptic:
            preset = {"pc_type": "bjacobi", "sub_pc_type": "ilu"}
        if self.name in ("amg", "ams"):
            preset |= {"ksp_type": "cg"} if symmetric else {"ksp_type": "gmres", **KRYLOV}
        if self.equation is not None:
            preset |= self._fitting(self.equation)
        preset = {key: value for key, value in preset.items() if value != UNSET}
        return {**preset, **self.options}

    @property
    def elliptic(self) -> bool:
        """Whether the preset's multigrid is for the present matrix, true for other presets. Where
        the leading term is deleted, mass and transport are left: incomplete factors serve them at
        any size, and coarse grids do not.
        """
        if self.equation is None or self.name not in ("amg", "stokes"):
            return True
        return self.equation.elliptic

    def _fitting(self, equation: Equation) -> dict[str, Any]:
        """Options that depend on the dimension, the element and the terms."""
        dimension = equation.spaces.mesh.geometry.dim
        if not self.elliptic and self.name == "amg":
            return incomplete_factors(dimension, equation.spaces.size)
        if not self.elliptic and self.name == "stokes":
            block: dict[str, OptionValue] = {"pc_type": "bjacobi", "sub_pc_type": "ilu"}
            block |= incomplete_factors(dimension, equation.spaces.size)
            # Options of multigrid are not read then.
            return {f"fieldsplit_velocity_{key}": value for key, value in block.items()} | {
                "fieldsplit_velocity_pc_hypre_type": UNSET
            }
        strong = {"pc_hypre_boomeramg_strong_threshold": 0.25 if dimension < 3 else 0.5}
        if self.name == "amg":
            return strong
        if self.name == "direct" and dimension == 2:
            # Approximate minimum fill: in the plane its analysis takes a fraction of the time, and
            # its factors are as good.
            return {"mat_mumps_icntl_7": 2}
        if self.name == "stokes":
            return {f"fieldsplit_velocity_{key}": value for key, value in strong.items()}
        if self.name == "ilu":
            return incomplete_factors(dimension, equation.spaces.size)
        if self.name == "ams" and _degree(equation) > 1:
            # With full interpolation matrices the default cycle of AMS reads components that are
            # not there.
            return {"pc_hypre_ams_cycle_type": 7}
        return {}


def plan(
    options: PetscOptions | None,
    equation: Equation | None = None,
    essential: EssentialConditions | None = None,
) -> SolverPlan:
    """Choose how to solve: as the user says, or by problem class and size.

    Raises:
        InputError: the preset does not exist, or does not fit the problem.
    """
    # Options of Newton's method are read by `newton_settings`.
    given = {key: value for key, value in (options or {}).items() if not key.startswith("snes_")}
    name = given.pop("preset", None)
    if name is None:
        own = {"ksp_type", "pc_type"} & set(given)
        chosen = (
            "own"
            if own
            else "direct"
            if equation is None or _released(equation, essential)
            else automatic(equation)
        )
        return SolverPlan(
            chosen, given, not own and chosen != "direct", equation, _floating(chosen, essential)
        )
    if name == MARCHING:
        return SolverPlan("ilu", given, True, equation)
    if name not in PRESETS:
        raise InputError(
            f"there is no solver preset {name!r}; {nearest(str(name), (*PRESETS, MARCHING))}"
        )
    if name in ("ams", "stokes"):
        wanted = (
            "one field on Nédélec elements"
            if name == "ams"
            else "a vector Lagrange field with a Lagrange multiplier"
        )
        if equation is None or structure(equation) != name:
            raise InputError(f"the solver preset {name!r} is for {wanted}; use 'direct'")
        if _released(equation, essential):
            name = "direct"
    return SolverPlan(name, given, False, equation, _floating(name, essential))


def factorised(equation: Equation, held: np.ndarray) -> SolverPlan:
    """The direct solve of a matrix on the state space of an equation, whatever its size.

    Args:
        equation: the equation.
        held: global numbers of this rank's rows that were eliminated.
    """
    return SolverPlan("direct", {}, equation=equation, held=held)


def _floating(name: str, essential: EssentialConditions | None) -> FloatingConstant | None:
    return essential.floating if name == "stokes" and essential is not None else None


def _released(equation: Equation, essential: EssentialConditions | None) -> bool:
    """Whether the multiplier is held everywhere, so that the saddle point is none."""
    multiplier = equation.discretisation.multiplier
    if multiplier is None or essential is None:
        return False
    free = np.setdiff1d(np.flatnonzero(equation.spaces.mask([multiplier[0]])), essential.owned)
    return equation.comm.allreduce(len(free)) == 0


def structure(equation: Equation) -> str:
    """The preset for the structure of an equation, whatever its size."""
    spaces, discretisation = equation.spaces, equation.discretisation
    kinds = [carrier(spaces.elements[unknown]).space for unknown in spaces.fields]
    if kinds == [H1]:
        return "amg"
    if discretisation.periodicity is not None:
        return "direct"
    if kinds == [HCURL] and carrier(
        spaces.elements[spaces.fields[0]]
    ).element.embedded_subdegree < _degree(equation):
        return "ams"
    if kinds == [H1, H1] and discretisation.multiplier is not None:
        leader, multiplier = spaces.fields
        if (
            leader.shape != ()
            and multiplier == discretisation.multiplier[0]
            and multiplier.shape == ()
        ):
            return "stokes"
    return "direct"


def automatic(equation: Equation) -> str:
    """The preset for an equation by class and size."""
    limit = DIRECT_LIMIT[equation.spaces.mesh.geometry.dim]
    return "direct" if equation.spaces.size <= limit else structure(equation)


def _degree(equation: Equation) -> int:
    return equation.spaces.elements[equation.spaces.fields[0]].embedded_superdegree


def symmetric(matrix: PETSc.Mat, held: np.ndarray = ()) -> bool:
    """Whether a matrix is symmetric up to rounding, by its action on a vector without structure.

    Args:
        matrix: the matrix.
        held: global numbers of this rank's rows that are rows of the identity, whose size says
            nothing about the others.
    """
    start, end = matrix.getOwnershipRange()
    vector, image, transposed = (
        matrix.createVecRight(),
        matrix.createVecLeft(),
        matrix.createVecRight(),
    )
    vector.array[:] = np.cos(1.7 * np.arange(start, end) ** 1.5)
    vector.array[np.asarray(held, dtype=np.int64) - start] = 0.0
    matrix.mult(vector, image)
    matrix.multTranspose(vector, transposed)
    size = image.norm()
    transposed.axpy(-1.0, image)
    difference = transposed.norm()
    for thing in (vector, image, transposed):
        thing.destroy()
    return bool(difference <= 1e-11 * size)
