# SPDX-License-Identifier: MIT
"""The assembled equation Σ_k c_k F_k(w, ẇ, ẅ, t) = 0: one matrix per linear term, reused by every
intervention.

Linear ingredients are matrices assembled once; combining them with coefficients is a sum of value
arrays with one sparsity pattern. Nonlinear ones are assembled at each state. The system matrix is
one object whose values are overwritten, so that a factorisation keeps its symbolic analysis through
all deletions and time steps.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from dolfinx import fem, la
from petsc4py import PETSc

from cffem import _compat
from cffem.engine.assembly.discretisation import Discretisation
from cffem.engine.assembly.ingredients import Assembled, Combined, add
from cffem.engine.assembly.natural_conditions import natural_ingredients
from cffem.engine.assembly.patterns import Pattern
from cffem.engine.solve.scaling import FieldBlocks
from cffem.engine.store.kept_matrices import KeptMatrices
from cffem.symbols.errors import InputError
from cffem.symbols.operators import as_expr

if TYPE_CHECKING:
    import ufl

    from cffem.engine.solve.stage_types import StageVectors
    from cffem.symbols.fields import Field


class Equation:
    """The discrete equation with its current coefficients.

    Args:
        discretisation: spaces and forms.

    Attributes:
        terms: the candidate terms by name.
        fixed: anchors, auxiliary equations and the constraint with their signs.
        natural: the natural traces that are given for whole equations.
        kept: the matrices of terms that stay in memory.
    """

    def __init__(self, discretisation: Discretisation):
        self.discretisation = discretisation
        self.comm = discretisation.mesh.comm
        self.spaces = discretisation.spaces
        self.terms = {name: Assembled(i, self) for name, i in discretisation.terms().items()}
        self.fixed = [(sign, Assembled(i, self)) for sign, i in discretisation.fixed()]
        self.natural = [
            (given, Assembled(given.ingredient, self))
            for given in natural_ingredients(discretisation)
        ]
        self._forcing: dict[Hashable, list[tuple[float, Assembled]]] = {}
        self.kept = KeptMatrices(self.comm)
        space = self.spaces.space
        self._work = la.vector(space.dofmap.index_map, space.dofmap.index_map_bs)
        self._image = self.new_vector()
        self._sums: dict[int, PETSc.Mat] = {}
        self._system: PETSc.Mat = None
        self._pattern: Pattern | None = None
        self._reduced: PETSc.Mat = None
        self._active: list[tuple[float, Assembled]] = []
        self._together: Combined | None = None
        self._current: Hashable = None
        self._lent = False  # whether terms and their matrices belong to another equation
        # What the system matrix was last made of, for callers that would make it again; None after
        # any other use of it.
        self.holds: Hashable = None

    def without(self, released: Mapping[Field, Sequence[str]]) -> Equation:
        """This equation without some natural traces; terms and their matrices are shared, so it
        must not outlive this one.

        Args:
            released: fields, each with the parts of the boundary where its trace is not given.
        """
        result = copy.copy(self)
        result.natural = [
            (given, part)
            for given, part in self.natural
            if given.part not in released.get(given.unknown, ())
        ]
        result._image, result._sums, result._active = self.new_vector(), {}, []
        result._system = result._pattern = result._reduced = result._together = None
        result._current = result.holds = None
        result._lent = True
        return result

    def twin(self) -> Equation:
        """This equation with its present coefficients and a system matrix of its own; terms and
        their matrices are shared, so it must not outlive this one.
        """
        result = self.without({})
        result._active, result._current = self._active, self._current
        result._sum_up()
        return result

    # Coefficients
    # ----------------------------------------------------------------------------------------------

    def forcing(self, forcing: Mapping[Any, Any]) -> list[tuple[float, Assembled]]:
        """The ingredients of a forcing, kept for its next use."""
        key = tuple(
            sorted(
                (
                    (str(k), id(v) if isinstance(v, fem.Function) else as_expr(v))
                    for k, v in forcing.items()
                ),
                key=str,
            )
        )
        if key not in self._forcing:
            self._forcing[key] = [
                (sign, Assembled(i, self)) for sign, i in self.discretisation.forcing(forcing)
            ]
        return self._forcing[key]

    def use(
        self,
        coefficients: Mapping[str, float],
        forcing: Mapping[Any, Any],
        constrained: bool = True,
    ) -> None:
        """Take these coefficients and this forcing from now on.

        Raises:
            InputError: a term that is upwind for one sign of its coefficient would be downwind.
        """
        upwind = {n: flux.sign for n, flux in self.discretisation.upwind_terms.items()}
        for name, sign in {**upwind, **self.discretisation.conserved_terms}.items():
            if coefficients.get(name, 0.0) * sign < 0:
                raise InputError(
                    f"the flux of {name} between cells is upwind for coefficients of one sign, "
                    "that of the model; make another "
                    f"model for {coefficients[name]:g}"
                )
        fixed = [(s, a) for s, a in self.fixed if constrained or a.ingredient.name != "constraint"]
        wanted = [
            *fixed,
            *((-coefficients.get(n, 0.0), a) for n, a in self.terms.items()),
            *((-1.0, a) for _, a in self.natural),
            *self.forcing(forcing),
        ]
        active = [(c, a) for c, a in wanted if c != 0.0]
        key = tuple((c, id(a)) for c, a in active)
        if key == self._current:
            return
        self._active, self._current = active, key
        for order in range(3):
            if order in self._sums:
                self._sums[order].zeroEntries()
        self._sum_up()

    def _sum_up(self) -> None:
        """Add up the matrices of active ingredients by order in time."""
        for factor, part in self._active:
            if part.ingredient.by_matrix:
                for order in range(3):
                    if part.ingredient.jacobians[order] is not None:
                        self._add_to_sum(order, factor, part.matrix(order))

    def _add_to_sum(self, order: int, factor: float, matrix: PETSc.Mat) -> None:
        if order not in self._sums:
            self._sums[order] = matrix.duplicate(copy=False)
            self._sums[order].zeroEntries()
        add(self._sums[order], factor, matrix)

    @property
    def linear(self) -> bool:
        """Whether the equation with its current coefficients is linear with coefficients that
        do not change in time.
        """
        return all(part.ingredient.by_matrix for _, part in self._active)

    @property
    def affine(self) -> bool:
        """Whether the equation is linear in the state, its coefficients possibly changing in
        time.
        """
        return all(part.ingredient.linear for _, part in self._active)

    @property
    def elliptic(self) -> bool:
        """Whether a term with the current coefficients differentiates test and trial functions;
        without one a matrix is mass and transport.
        """
        terms = {id(part) for part in self.terms.values()}
        anchors = {id(a) for _, a in self.fixed if a.ingredient.name.startswith("anchor")}
        return any(
            part.ingredient.is_second_order
            for _, part in self._active
            if id(part) in terms | anchors
        )

    @cached_property
    def blocks(self) -> FieldBlocks:
        """Which field each row and column of the system belongs to; collective when first
        asked for.
        """
        return FieldBlocks(self.spaces)

    def rates_in_algebraic(self) -> bool:
        """Whether an equation without a time derivative of its own contains rates, with the
        current coefficients.
        """
        library, current = self.discretisation.library, {id(part) for _, part in self._active}
        orders = {f: equation.time_order for f, equation in library.equations.items()}
        still = {f"anchor of {f}" for f, order in orders.items() if order == 0}
        rows = [part for _, part in self.fixed if part.ingredient.name in still]
        rows += [part for name, part in self.terms.items() if orders[library.locate(name)[0]] == 0]
        rows += [part for given, part in self.natural if orders[given.unknown] == 0]
        return any(
            id(part) in current and part.ingredient.jacobians[1:] != (None, None) for part in rows
        )

    # Evaluation
    # ----------------------------------------------------------------------------------------------

    def place(self, states: StageVectors, time: float) -> None:
        """Make state, rate and acceleration (PETSc vectors or None) and the time visible to
        the compiled forms.
        """
        d = self.discretisation
        d.time.value = time
        if not self.linear:
            for function, vector in zip((d.state, d.rate, d.acceleration), states, strict=True):
                function.x.array[: self.spaces.owned] = 0.0 if vector is None else vector.array_r
                function.x.scatter_forward()

    def residual(
        self,
        states: StageVectors,
        time: float,
        out: PETSc.Vec,
        changes: Mapping[str, float] | None = None,
    ) -> None:
        """out = Σ_k c_k F_k; essential rows are the caller's business.

        Args:
            states: state, rate and acceleration.
            time: the time.
            out: the result.
            changes: what is added to the factors of some terms meanwhile; adding α_j deletes the
                term j.
        """
        self.place(states, time)
        out.set(0.0)
        for order, vector in enumerate(states):
            if order in self._sums and vector is not None:
                self._sums[order].multAdd(vector, out, out)
        for factor, part in self._active:
            if part.ingredient.by_matrix and part.ingredient.constant is not None:
                out.array += factor * part.constant()
        added = {id(self.terms[name]): amount for name, amount in (changes or {}).items()}
        for factor, part in self.changing(added):
            out.array += factor * part.vector()
        for name, amount in (changes or {}).items():
            if id(self.terms[name]) in added:
                self._add_term(self.terms[name], amount, states, out)

    def sizes(self, states: StageVectors, time: float) -> np.ndarray:
        """Σ_k |c_k F_k| row by row, what a residual is the sum of (owned values); essential
        rows are the caller's business.
        """
        self.place(states, time)
        total, part = np.zeros(self.spaces.owned), self.new_vector()
        for factor, term in self._active:
            part.set(0.0)
            self._add_term(term, factor, states, part)
            total += np.abs(part.array_r)
        part.destroy()
        return total

    def changing(self, added: dict[int, float] | None = None) -> list[tuple[float, Assembled]]:
        """The active ingredients without matrices of their own, with their factors.

        Where there are several they are assembled together, in one pass over the mesh. One that is
            switched off is not: zero times
        a term that is not finite would not be zero.

        Args:
            added: what is added to some factors, by the ingredient's identity; those that were
                found here are taken out.
        """
        added = {} if added is None else added
        parts = [
            (factor + added.pop(id(part), 0.0), part)
            for factor, part in self._active
            if not part.ingredient.by_matrix
        ]
        parts = [(factor, part) for factor, part in parts if factor != 0.0]
        if len(parts) < 2:
            return parts
        if self._together is None:
            self._together = Combined(parts, self)
        return [(1.0, self._together)] if self._together.use(parts) else parts

    def _add_term(
        self, part: Assembled, amount: float, states: StageVectors, out: PETSc.Vec
    ) -> None:
        """out += amount · F of one term at the place that was set last."""
        if not part.ingredient.by_matrix:
            out.array += amount * part.vector()
            return
        for order, vector in enumerate(states):
            if part.ingredient.jacobians[order] is not None and vector is not None:
                part.matrix(order).mult(vector, self._image)
                out.axpy(amount, self._image)
        if part.ingredient.constant is not None:
            out.array += amount * part.constant()

    def jacobian(
        self,
        weights: tuple[float, float, float],
        states: StageVectors,
        time: float,
        rows: np.ndarray = None,
    ) -> PETSc.Mat:
        """The system matrix Σ_order weight · ∂F/∂(state, rate, acceleration), rows eliminated;
        always the same object.

        With rows it is the matrix for increments: periodic unknowns are identified as well.

        Args:
            weights: factors of the three Jacobians.
            states: where nonlinear ingredients are linearised.
            time: the time.
            rows: global numbers of rows (and columns) to replace by the identity.
        """
        self.place(states, time)
        if self._system is None:
            self._system = self._new_system()
        system, self.holds = self._system, None
        system.zeroEntries()
        for order, weight in enumerate(weights):
            if weight != 0.0 and order in self._sums:
                add(system, weight, self._sums[order])
        for factor, part in self.changing():
            for order, weight in enumerate(weights):
                if weight != 0.0 and part.ingredient.jacobians[order] is not None:
                    add(system, factor * weight, part.matrix(order))
        if rows is None:
            return system
        reduced = self.eliminated(system, rows, self._reduced)
        self._reduced = None if reduced is system else reduced
        return reduced

    def eliminated(self, matrix: PETSc.Mat, rows: np.ndarray, into: PETSc.Mat = None) -> PETSc.Mat:
        """A matrix for increments: periodic unknowns identified, and the given rows and columns
        replaced by the identity.

        Args:
            matrix: the matrix, which is changed itself where nothing is periodic.
            rows: global numbers of the rows.
            into: the result of an earlier call, to be overwritten where something is periodic.
        """
        periodicity = self.discretisation.periodicity
        if periodicity is not None:
            matrix = periodicity.reduced(matrix, into)
        matrix.zeroRowsColumns(rows, diag=1.0)
        return matrix

    def mass(self) -> tuple[int, PETSc.Mat] | None:
        """The matrix of the anchor with its order in time, where it is the mass matrix of the whole
        space; None elsewhere.

        On curved or twisted cells the quadrature of the anchor is not that of a norm.
        """
        equations = self.discretisation.library.equations
        orders = [equation.time_order for equation in equations.values()]
        if (
            not _compat.straight_simplices(self.discretisation.mesh)
            or len(self.spaces.fields) > 1
            or orders[0] == 0
            or any(equation.is_weighted for equation in equations.values())
        ):
            return None
        return orders[0], self.fixed[0][1].matrix(orders[0])

    def anchor_diagonal(self) -> np.ndarray | None:
        """The diagonal of the matrices of weighted anchors at the present time, zero for other
        unknowns (owned values); None where no anchor has a weight.
        """
        equations = self.discretisation.library.equations
        total = None
        for unknown, equation in equations.items():
            if not equation.is_weighted:
                continue
            name = f"anchor of {unknown}"
            (part,) = (a for _, a in self.fixed if a.ingredient.name == name)
            diagonal = part.matrix(equation.time_order).getDiagonal()
            total = diagonal.array_r + (0.0 if total is None else total)
            diagonal.destroy()
        return total

    def partial(self, order: int) -> list[tuple[float, PETSc.Mat]]:
        """∂F/∂(state, rate or acceleration) where it was last linearised, as factors and
        matrices, all rows included.
        """
        parts = [(1.0, self._sums[order])] if order in self._sums else []
        return parts + [
            (f, part.matrix(order))
            for f, part in self.changing()
            if part.ingredient.jacobians[order] is not None
        ]

    def assembled_matrix(self, form: ufl.Form, matrix: PETSc.Mat | None = None) -> PETSc.Mat:
        """The matrix of a bilinear form of the state space, in the place of an earlier one of
        the same form where that is given.
        """
        known = self._pattern is not None and (matrix is None or self._pattern.made(matrix))
        if not (known and Pattern.fits(form, beside=True)) and not (
            self._pattern is None and Pattern.fits(form)
        ):
            return _compat.assemble_matrix(form, matrix=matrix)
        if self._pattern is None:
            self._pattern = Pattern(form, self.spaces.space)
        matrix = self._pattern.new() if matrix is None else matrix
        self._pattern.assemble(form, matrix)
        return matrix

    def _new_system(self) -> PETSc.Mat:
        """An empty matrix with room for every ingredient, whatever the coefficients are now."""
        everything = [*self.fixed, *((1.0, part) for part in self.terms.values())]
        there = [
            (part, i)
            for _, part in everything
            for i in range(3)
            if part.ingredient.jacobians[i] is not None
        ]
        # One over all cells has a diagonal, which the rows that are replaced by the identity need.
        whole = next((of for of in there if Pattern.fits(of[0].compiled(of[1]))), None)
        template = next((part.matrix(i) for part, i in ([whole] if whole else there)), None)
        if template is None:
            raise InputError(
                "no term and no anchor contains an unknown, so there is nothing to solve"
            )
        system = template.duplicate(copy=False)
        system.setOption(PETSc.Mat.Option.KEEP_NONZERO_PATTERN, True)
        system.setOption(PETSc.Mat.Option.NEW_NONZERO_ALLOCATION_ERR, False)
        if whole is None:
            for row in range(*system.getOwnershipRange()):
                system.setValue(row, row, 0.0, addv=PETSc.InsertMode.ADD_VALUES)
            system.assemble()
        return system

    def term_vector(self, name: str, states: StageVectors, time: float, out: PETSc.Vec) -> None:
        """out = F_j(w, ẇ, ẅ, t) of one term, the vector of ⟨T_j[w], v_i⟩."""
        part = self.terms[name]
        self.discretisation.time.value = time
        if part.ingredient.by_matrix:
            orders = [
                k
                for k in range(3)
                if part.ingredient.jacobians[k] is not None and states[k] is not None
            ]
            if not orders:
                out.set(0.0)
            for place, order in enumerate(orders):
                matrix = part.matrix(order)
                if place:
                    matrix.multAdd(states[order], out, out)
                else:
                    matrix.mult(states[order], out)
            if part.ingredient.constant is not None:
                out.array += part.constant()
            return
        d = self.discretisation
        for function, vector in zip((d.state, d.rate, d.acceleration), states, strict=True):
            function.x.array[: self.spaces.owned] = 0.0 if vector is None else vector.array_r
            function.x.scatter_forward()
        out.array[:] = part.vector()

    def assembled_vector(self, form: ufl.Form) -> np.ndarray:
        """Assemble a linear form; the owned values, copied."""
        work = self._work
        work.array[:] = 0.0
        fem.assemble_vector(work.array, form)
        work.scatter_reverse(la.InsertMode.add)
        return work.array[: self.spaces.owned].copy()

    def new_vector(self) -> PETSc.Vec:
        """A PETSc vector for a state, owned values only."""
        vector = PETSc.Vec().createMPI((self.spaces.owned, None), comm=self.comm)
        vector.set(0.0)
        return vector

    def destroy(self) -> None:
        """Free all matrices; collective."""
        parts = [
            *self.terms.values(),
            *(a for _, a in self.fixed),
            *(a for _, a in self.natural),
            *(a for group in self._forcing.values() for _, a in group),
        ]
        for part in () if self._lent else parts:
            part.destroy()
        if not self._lent:
            self.kept.clear()
        if self._together is not None:
            self._together.destroy()
        for matrix in self._sums.values():
            matrix.destroy()
        for thing in (self._system, self._pattern, self._reduced, self._image):
            if thing is not None:
                thing.destroy()
        self._sums, self._system, self._pattern, self._reduced, self._current = (
            {},
            None,
            None,
            None,
            None,
        )
