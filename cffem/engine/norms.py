# SPDX-License-Identifier: MIT
"""Norms of states and trajectories.

Space norms are quadratic forms summed over the unknown fields; multipliers and auxiliary fields
count where a norm names them only, see `cffem.symbols.problem.norm_names`. Each is a bilinear form
a(u, v), added up over the fields; `NORMS` holds them by name, and others can be added
(`cffem.extend.add_norm`). The energy
norm is that of the factual operator. The norm of a trajectory integrates its piecewise linear
interpolant in time exactly: on a step with values a, b

    ∫ ‖(1−s) a + s b‖² = Δt/3 (‖a‖² + (a, b) + ‖b‖²).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import ufl
from petsc4py import PETSc

from cffem import _compat
from cffem.engine.assembly.discretisation import Discretisation
from cffem.engine.assembly.equation import Equation
from cffem.engine.collective import summed
from cffem.engine.solve.factorisation import Factors
from cffem.engine.solve.stage_types import PetscOptions
from cffem.symbols.errors import InputError
from cffem.symbols.problem.norm_names import ENERGY, NORMS, NormForm, NormPart, norm_parts

if TYPE_CHECKING:
    from mpi4py import MPI
    from ufl.core.expr import Expr

    from cffem.symbols.fields import Field


def add_norm(name: str, form: NormForm) -> NormForm:
    """Make a norm known to models, studies and reports by its name.

    Args:
        name: how it is called; "NAME[T]" is then that of the field T alone.
        form: the symmetric positive bilinear form a(u, v) in UFL, of trial and test function of one
            field, with its measures.

    Example:
        >>> import ufl
        >>> form = add_norm("half L2", lambda u, v: 0.5 * ufl.inner(u, v) * ufl.dx)
        >>> "half L2" in NORMS
        True
        >>> NORMS.remove("half L2")
    """
    if set(name) & set("[]+"):
        raise InputError(f"the name of a norm has no brackets or +, unlike {name!r}")
    NORMS.add(name, form)
    return form


def _product(u: Expr, v: Expr) -> Expr:
    return ufl.inner(u, v) * ufl.dx


def _with(derivative: Callable[[Expr], Expr]) -> NormForm:
    return lambda u, v: _product(u, v) + _product(derivative(u), derivative(v))


NORMS.add("L2", _product)
NORMS.add("H1", _with(ufl.grad))
NORMS.add("H(curl)", _with(ufl.curl))
NORMS.add("H(div)", _with(ufl.div))
NORMS.add(ENERGY, None)


# MUMPS looks for vanishing pivots, also in the last front, so that it counts signs.
COUNTING: PetscOptions = {"mat_mumps_icntl_24": 1, "mat_mumps_icntl_13": 1}
# A negative eigenvalue smaller than this, relative to the largest row, may be rounding.
ROUNDED = 1e-12


class StateNorm:
    """One norm on the states of a discretisation.

    Args:
        equation: the assembled equation; the energy norm is made of its current coefficients.
        kind: its name, such as "L2" or "L2[T]".
    """

    def __init__(self, equation: Equation, kind: str = "L2"):
        parts = parsed(kind, equation.discretisation)
        self.kind = kind
        self.fields = tuple(dict.fromkeys(field for _, weights in parts for field in weights))
        self.comm = equation.comm
        self._state, self._image = equation.new_vector(), equation.new_vector()
        mass = equation.mass() if kind == "L2" else None
        self._own = mass is None
        self._anchor = (
            equation.anchor_diagonal() if {part.kind for part, _ in parts} == {"L2"} else None
        )
        if len(parts) == 1 and parts[0][0].kind == ENERGY:
            self.matrix = energy_matrix(equation)
        elif mass is not None:
            self.matrix = mass[1]
        else:
            form = _compat.form(norm_form(equation.discretisation, kind), equation.comm)
            self.matrix = equation.assembled_matrix(form)

    def image(self, state: np.ndarray) -> np.ndarray:
        """The matrix times a state (owned values); the result is overwritten by the next
        product.
        """
        self._state.array[:] = state
        self.matrix.mult(self._state, self._image)
        return self._image.array_r

    @cached_property
    def _weights(self) -> np.ndarray:
        """What the squares of a residual count: 1/D, and D/D_ρ² where the anchor has a weight and
        the diagonal D_ρ, since a residual r then changes the solution by M_ρ⁻¹ r.
        """
        if self._anchor is None:
            return self.inverse_diagonal
        positive = self._anchor > 0
        shares = 1.0 / (self.inverse_diagonal * np.where(positive, self._anchor, 1.0))
        return np.where(positive, shares**2, 1.0) * self.inverse_diagonal

    @cached_property
    def inverse_diagonal(self) -> np.ndarray:
        """1/D with the diagonal D of the matrix, one where that is zero (owned values)."""
        diagonal = self.matrix.getDiagonal()
        result = 1.0 / np.where(diagonal.array_r > 0, diagonal.array_r, 1.0)
        diagonal.destroy()
        return result

    def dual(self, residual: np.ndarray) -> float:
        """‖r‖ in D⁻¹, about the dual norm of a residual; collective."""
        return math.sqrt(summed(self.comm, np.dot(residual, residual * self._weights)))

    def inner(self, a: np.ndarray, b: np.ndarray) -> float:
        """The inner product of two states (owned values)."""
        return float(summed(self.comm, a @ self.image(b)))

    def __call__(self, state: np.ndarray) -> float:
        """The norm of a state."""
        squared, scale = products(self.comm, state, self.image(state), [state])
        return root(squared, scale)

    def destroy(self) -> None:
        """Free the matrix, unless it is the equation's; collective."""
        for thing in (*([self.matrix] if self._own else []), self._state, self._image):
            thing.destroy()


class TrajectoryNorm:
    """Accumulates the space–time norm of a trajectory level by level; it never decreases, so an
    early end is a lower bound.

    Args:
        norm: the norm in space.
    """

    def __init__(self, norm: StateNorm):
        self.norm = norm
        self.squared = 0.0
        self._scale = 0.0
        self._previous: np.ndarray | None = None
        self._previous_squared = 0.0

    def add(self, state: np.ndarray, step: float, image: np.ndarray | None = None) -> None:
        """Add the next level.

        Args:
            state: the state there.
            step: the time since the previous one.
            image: the state's image under the norm's matrix, where it is known.
        """
        image = self.norm.image(state) if image is None else image
        before = state if self._previous is None else self._previous
        squared, crossed, scale = products(self.norm.comm, state, image, [state, before])
        self._scale += step * scale
        if self._previous is not None:
            self.squared += step / 3 * (self._previous_squared + crossed + squared)
        self._previous, self._previous_squared = state.copy(), squared

    @property
    def last(self) -> float:
        """The norm of the last level."""
        return math.sqrt(max(self._previous_squared, 0.0))

    @property
    def value(self) -> float:
        """The norm so far."""
        return root(self.squared, self._scale)


def products(
    comm: MPI.Comm, state: np.ndarray, image: np.ndarray, others: Sequence[np.ndarray]
) -> list[float]:
    """The products of an image with some states, and ‖state‖ ‖image‖, which their rounding
    errors are relative to; collective.
    """
    sums = summed(
        comm, np.array([*(other @ image for other in others), state @ state, image @ image])
    ).tolist()
    return [*sums[:-2], math.sqrt(sums[-2] * sums[-1])]


def root(squared: float, scale: float) -> float:
    """The square root of a quadratic form that may be negative by round-off only, that is by
    little on its scale.
    """
    if squared < -1e-10 * scale:
        raise InputError(
            "the factual operator is not positive, so it gives no energy norm; use L2 or H1"
        )
    return math.sqrt(max(squared, 0.0))


def parsed(kind: str, discretisation: Discretisation) -> list[tuple[NormPart, dict[Field, float]]]:
    """The parts of the norm that a name stands for, each with the fields that count and their
    weights.

    Raises:
        InputError: there is no such norm, field or subdomain.
    """
    known = {str(field): field for field in discretisation.spaces.fields}
    found = []
    for part in norm_parts(kind):
        NORMS[part.kind]  # an unknown one is an error that names those there are
        weights = dict(part.weights) or {str(field): 1.0 for field in counted(discretisation)}
        missing = next((name for name in weights if name not in known), None)
        if missing is not None:
            shown = ", ".join(f"L2[{name}]" for name in map(str, discretisation.unknowns))
            raise InputError(
                f"the norm {kind!r} is of a field {missing!r} that is not there; norms of single "
                f"fields are {shown}"
            )
        if part.kind in ("H(curl)", "H(div)"):
            for name in weights:
                _require_vector(known[name], part.kind)
        if part.on:
            region_tag(discretisation, part.on)
        found.append((part, {known[name]: weight for name, weight in weights.items()}))
    return found


def counted(discretisation: Discretisation) -> tuple[Field, ...]:
    """The fields that count where a norm names none: the unknowns whose equations have terms, or
    all where none has; others are auxiliary.
    """
    equations = discretisation.library.equations
    main = tuple(u for u in discretisation.unknowns if u in equations and equations[u].terms)
    return main or discretisation.unknowns


def region_tag(discretisation: Discretisation, name: str) -> int:
    """The number of a subdomain."""
    domain = discretisation.domain
    dimension, tag = domain.names.get(name, (-1, -1))
    if dimension != discretisation.mesh.topology.dim or domain.cell_tags is None:
        dim = discretisation.mesh.topology.dim
        there = ", ".join(sorted(n for n, (d, _) in domain.names.items() if d == dim)) or "none"
        raise InputError(
            f"a norm is on {name!r}, which is no subdomain of this mesh; there are: {there}"
        )
    return tag


def norm_form(discretisation: Discretisation, kind: str) -> ufl.Form:
    """The bilinear form of a norm: (Σ_f (w_f ‖f‖)²)."""
    space = discretisation.spaces.space
    trial = discretisation.spaces.parts(ufl.TrialFunction(space))
    form = 0
    for part, weights in parsed(kind, discretisation):
        make = NORMS[part.kind]
        if make is None:
            raise InputError("the energy norm is that of the whole equation; it has no parts")
        for field, weight in weights.items():
            each = make(trial[field], discretisation.tests[field])
            each = each if not part.on else restricted(each, discretisation, part.on)
            form += each if weight == 1 else weight**2 * each
    return form


def restricted(form: ufl.Form, discretisation: Discretisation, name: str) -> ufl.Form:
    """A form whose integrals over cells are those of a subdomain only."""
    tag = region_tag(discretisation, name)
    tags, domain = discretisation.domain.cell_tags, discretisation.mesh.ufl_domain()
    measure = ufl.Measure("dx", domain=domain, subdomain_data=tags)
    result = 0
    for integral in form.integrals():
        if integral.integral_type() != "cell" or integral.subdomain_id() != "everywhere":
            raise InputError(
                "a norm by a form with measures of its own is not restricted to a subdomain again"
            )
        result += integral.integrand() * measure(tag, metadata=integral.metadata())
    return result


def _require_vector(unknown: Field, kind: str) -> None:
    if unknown.shape == ():
        raise InputError(
            f"the norm {kind} is for vector fields, but {unknown} is a scalar; use L2 or H1"
        )


def energy_matrix(equation: Equation) -> PETSc.Mat:
    """The symmetric part of the state Jacobian of the current equation, restricted to its terms."""
    zero = equation.new_vector()
    matrix = equation.jacobian((1.0, 0.0, 0.0), (zero, None, None), 0.0).copy()
    transposed = matrix.transpose(PETSc.Mat())
    matrix.axpy(1.0, transposed)
    matrix.scale(0.5)
    transposed.destroy()
    zero.destroy()
    return matrix


def check_positive(matrix: PETSc.Mat, rows: np.ndarray) -> None:
    """Refuse an energy that is negative for some state that vanishes where values are given; by
    Sylvester's law of inertia, collective.

    Args:
        matrix: that of the energy.
        rows: global numbers of the unknowns whose values are given.
    """
    shifted = matrix.copy()
    shifted.zeroRowsColumns(rows, diag=1.0)
    shifted.shift(ROUNDED * shifted.norm(PETSc.NormType.NORM_INFINITY))
    factors = Factors(shifted, "cholesky", COUNTING, "the energy norm")
    negative, _, _ = factors.inertia()
    factors.destroy()
    shifted.destroy()
    if negative:
        raise InputError(
            f"the factual operator is not positive, {negative} of its eigenvalues are negative, so "
            "it gives no energy norm; use L2 or H1"
        )
