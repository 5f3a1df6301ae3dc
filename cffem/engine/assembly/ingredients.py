# SPDX-License-Identifier: MIT
"""The summands of a discrete equation: forms, and what is assembled of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from dolfinx import fem
from petsc4py import PETSc
from ufl.argument import Argument
from ufl.corealg.traversal import unique_pre_traversal
from ufl.differentiation import Grad

from cffem import _compat
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    import ufl

    from cffem.engine.assembly.equation import Equation


@dataclass
class Ingredient:
    """One summand of the discrete equation.

    Attributes:
        name: the term's name, or what it is.
        form: the UFL form F(w, ẇ, ẅ, t; v).
        jacobians: ∂F/∂w, ∂F/∂ẇ, ∂F/∂ẅ as UFL forms, None where they vanish.
        constant: F at zero state, None where it vanishes; only of linear ingredients.
        linear: whether the Jacobians do not depend on the state.
        autonomous: whether the Jacobians do not depend on time.
        steady_constant: whether `constant` does not depend on time.
    """

    name: str
    form: ufl.Form
    jacobians: tuple[ufl.Form, ufl.Form, ufl.Form]
    constant: ufl.Form
    linear: bool
    autonomous: bool
    steady_constant: bool

    @property
    def by_matrix(self) -> bool:
        """Whether matrices assembled once represent it."""
        return self.linear and self.autonomous

    @cached_property
    def is_second_order(self) -> bool:
        """Whether both its test and its trial functions are differentiated in space, as in
        diffusion, elasticity and curl curl.
        """
        jacobian = self.jacobians[0]
        if jacobian is None:
            return False
        numbers = {
            node.ufl_operands[0].number()
            for integral in jacobian.integrals()
            for node in unique_pre_traversal(integral.integrand())
            if isinstance(node, Grad) and isinstance(node.ufl_operands[0], Argument)
        }
        return numbers == {0, 1}


SAME, DIFFERENT = (
    PETSc.Mat.Structure.SAME_NONZERO_PATTERN,
    PETSc.Mat.Structure.DIFFERENT_NONZERO_PATTERN,
)
UNKNOWN = PETSc.Mat.Structure.UNKNOWN_NONZERO_PATTERN


class Assembled:
    """The compiled forms, matrices and vectors of one ingredient, made when first needed and
    then kept.
    """

    def __init__(self, ingredient: Ingredient, equation: Equation):
        self.ingredient = ingredient
        self.equation = equation
        self._compiled: dict[str | int, fem.Form] = {}
        self._matrices: dict[int, PETSc.Mat] = {}
        self._constant: np.ndarray | None = None

    def compiled(self, key: str | int) -> fem.Form:
        """A compiled form: "form", "constant", or the order of a Jacobian."""
        if key not in self._compiled:
            ingredient = self.ingredient
            ufl_form = (
                ingredient.jacobians[key] if isinstance(key, int) else getattr(ingredient, key)
            )
            self._compiled[key] = _compat.form(ufl_form, self.equation.comm)
        return self._compiled[key]

    def matrix(self, order: int) -> PETSc.Mat:
        """The Jacobian with respect to the state (0), rate (1) or acceleration (2), without
        boundary conditions.
        """
        if order not in self._matrices:
            self._matrices[order] = self.equation.assembled_matrix(self.compiled(order))
            if self.ingredient.by_matrix:
                if not np.isfinite(self._matrices[order].norm(PETSc.NormType.FROBENIUS)):
                    raise InputError(f"{self.ingredient.name} is not finite everywhere on the mesh")
                self.equation.kept.add(self, order, self._matrices[order])
        elif not self.ingredient.by_matrix:
            self.equation.assembled_matrix(self.compiled(order), self._matrices[order])
        return self._matrices[order]

    def forget(self, order: int) -> None:
        """Assemble a matrix again when it is asked for next; who has it keeps it."""
        self._matrices.pop(order, None)

    def constant(self) -> np.ndarray:
        """The part that does not depend on the state, at the current time (owned values)."""
        if self._constant is None or not self.ingredient.steady_constant:
            first = self._constant is None
            self._constant = self.equation.assembled_vector(self.compiled("constant"))
            # Once, before the first solve; what becomes infinite later is the business of the
            # solver.
            if first and self.equation.comm.allreduce(int(not np.all(np.isfinite(self._constant)))):
                raise InputError(f"{self.ingredient.name} is not finite everywhere on the mesh")
        return self._constant

    def vector(self) -> np.ndarray:
        """The whole form at the current state, rate, acceleration and time (owned values)."""
        return self.equation.assembled_vector(self.compiled("form"))

    def destroy(self) -> None:
        """Free the matrices; collective."""
        for matrix in self._matrices.values():
            matrix.destroy()
        self._matrices.clear()


class Combined(Assembled):
    """Several ingredients without matrices of their own as one, their factors being constants of
    its forms.

    Args:
        parts: factors and ingredients.
        equation: the equation.
    """

    def __init__(self, parts: list[tuple[float, Assembled]], equation: Equation):
        mesh = equation.discretisation.mesh
        self._factors = {
            id(part): fem.Constant(mesh, PETSc.ScalarType(factor)) for factor, part in parts
        }
        ingredients = [(self._factors[id(part)], part.ingredient) for _, part in parts]
        jacobians = [
            [c * i.jacobians[order] for c, i in ingredients if i.jacobians[order] is not None]
            for order in range(3)
        ]
        a, b, c = (sum(summands[1:], summands[0]) if summands else None for summands in jacobians)
        form = sum(
            (c * i.form for c, i in ingredients[1:]), ingredients[0][0] * ingredients[0][1].form
        )
        super().__init__(
            Ingredient("all changing terms", form, (a, b, c), None, False, False, False), equation
        )

    def use(self, parts: list[tuple[float, Assembled]]) -> bool:
        """Take these factors, where the parts are those that this one was made of; whether
        they are.
        """
        if {id(part) for _, part in parts} != {*self._factors}:
            return False
        for factor, part in parts:
            self._factors[id(part)].value = factor
        return True


def add(target: PETSc.Mat, factor: float, matrix: PETSc.Mat) -> None:
    """target += factor · matrix, cheaply where both share a pattern, as matrices of cell
    integrals do.
    """
    kind = PETSc.Mat.InfoType.GLOBAL_SUM
    if target.getInfo(kind)["nz_used"] != matrix.getInfo(kind)["nz_used"]:
        structure = DIFFERENT
    elif target.comm.size == 1:
        structure = UNKNOWN  # PETSc compares the patterns itself, but only where there is one rank
    else:
        structure = SAME if _same_pattern(target, matrix) else DIFFERENT
    target.axpy(factor, matrix, structure=structure)


def _same_pattern(a: PETSc.Mat, b: PETSc.Mat) -> bool:
    """Whether two matrices have their entries in the same places on every rank; integrals of
    two parts of the boundary do not.
    """
    (starts, columns, _), (others, places, _) = a.getValuesCSR(), b.getValuesCSR()
    return not a.comm.tompi4py().allreduce(
        int(not (np.array_equal(starts, others) and np.array_equal(columns, places)))
    )
