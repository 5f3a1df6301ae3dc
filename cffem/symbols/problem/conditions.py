# SPDX-License-Identifier: MIT
"""Boundary conditions as users declare them: immutable, checked when written, without a mesh.

`on` names a part of the boundary: a gmsh physical name, a tuple of names, or "all". Values are
numbers, SymPy expressions in x, y, z, t, tuples of them, DOLFINx functions or datasets.

A `Neumann` or `Robin` condition replaces the natural trace that integration by parts produces in
each term, for instance ∂u/∂n in `lap(u)` or n × curl E in `curl(curl(E))`; it is a condition on the
trace, so the coefficient of the term multiplies it. A `Natural` condition gives the whole trace of
the equation in its own units instead, coefficients and signs included.

Terms of third and higher order need conditions on a second derivative too, `Dirichlet(lap(u), 0)`
say, see `cffem.symbols.algebra.splitting`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy as sp

from cffem.symbols.algebra.splitting import as_written, is_second_derivative, stand_in
from cffem.symbols.errors import InputError
from cffem.symbols.expression_like import DataLike
from cffem.symbols.fields import Component, Field, Normal, VectorField
from cffem.symbols.problem.measured import as_data


def _parts(on: object) -> tuple[str, ...]:
    names = (
        (on,)
        if isinstance(on, str)
        else tuple(on)
        if isinstance(on, tuple | list | set | frozenset)
        else ()
    )
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"on={on!r} is not a boundary part: give a physical name, a tuple of names, or 'all'"
        )
    return names


@dataclass(frozen=True)
class BoundaryCondition:
    """Base of all conditions on one field."""

    field: Field | Component
    value: object = 0
    on: Any = "all"

    def __post_init__(self) -> None:
        if is_second_derivative(self.field):
            object.__setattr__(self, "field", stand_in(self.field))
        if not isinstance(self.field, Field | Component):
            raise InputError(
                f"{type(self).__name__} needs a field or a component such as v[0], not "
                f"{self.field!r}"
            )
        object.__setattr__(self, "on", _parts(self.on))
        if isinstance(self.value, list | sp.MatrixBase):
            object.__setattr__(self, "value", tuple(self.value))
        object.__setattr__(self, "value", as_data(self.value))

    @property
    def unknown(self) -> Field:
        """The field whose boundary values or traces are given."""
        return self.field.field if isinstance(self.field, Component) else self.field

    @property
    def is_balanced(self) -> bool:
        """Whether the values may be changed so that they have no net flux."""
        return False

    def __str__(self) -> str:
        return (
            f"{type(self).__name__}({as_written(self.field)}, {self.value}, on={'+'.join(self.on)})"
        )


@dataclass(frozen=True)
class Dirichlet(BoundaryCondition):
    """The field itself is given: its values, on H(curl) its tangential part, on H(div) its normal
    part.

    Where two conditions give the same value, at a corner for one, the later counts. A discontinuous
    field has no values at the boundary; there the value replaces the field in the fluxes, for
    diffusion in Nitsche's way, and for transport only where the flow enters.

    Args:
        balance: whether the net flux of these values may be removed where a divergence constraint
            on a closed boundary needs it, by the change that is smallest in L2 there. By default
            measured values (datasets, functions) may be changed, formulas may not.

    Example:
        >>> import cffem as cf
        >>> u, v = cf.ScalarField("u"), cf.VectorField("v", dim=2)
        >>> print(cf.Dirichlet(u, cf.x * cf.t), cf.Dirichlet(v[0], 0, on="axis"))
        Dirichlet(u, t*x, on=all) Dirichlet(v[0], 0, on=axis)
    """

    balance: bool | None = None

    @property
    def is_balanced(self) -> bool:
        """Whether the values may be changed so that they have no net flux."""
        return not is_formula(self.value) if self.balance is None else self.balance

    def __str__(self) -> str:
        said = super().__str__()
        return said if self.balance is None else f"{said[:-1]}, balance={self.balance})"


@dataclass(frozen=True)
class Tangential(BoundaryCondition):
    """The tangential part of a Nédélec, RT or BDM field is given; `value` is a field whose
    tangential part is taken.

    On a Nédélec field it is essential: n × E, zero on a perfect conductor, where a term that needs
    div E takes it to be zero, too. On RT and BDM fields, whose unknowns are normal components, it
    goes with second derivatives: `Dirichlet(v, 0)` and `Tangential(v, 0)` are walls without slip,
    `Dirichlet(v, 0)` and `Neumann(v, 0)` are walls with free slip, n × curl v = 0.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.field, VectorField):
            raise InputError(f"Tangential needs a vector field, not {self.field}")


@dataclass(frozen=True)
class Neumann(BoundaryCondition):
    """The natural trace of the field is given, for `lap(u)` the normal derivative ∂u/∂n.

    For vector fields the value is a vector: ∂v/∂n for `lap(v)`, sym(grad v)·n for
    `div(sym(grad(v)))`, (div v) n for `grad(div(v))`, and n × curl E (in the plane curl E (n_y,
    −n_x)) for `curl(curl(E))`. On Nédélec, RT and BDM elements `lap(v)` is grad(div(v)) −
    curl(curl(v)) and has their traces; where both the normal and the tangential part of the field
    are free it says div v = 0 and n × curl v = 0. Where one term has several of these traces, as
    `div(2*mu*sym(grad(v)) + la*div(v)*identity(2))` has on Lagrange elements, the value is their
    sum with all factors, the traction σ·n. The coefficient of each term multiplies what is given
    here; `Natural` gives the trace of the whole equation, which no coefficient changes.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.field, Component):
            raise InputError("Neumann takes a whole field, not a component")


@dataclass(frozen=True)
class Robin(BoundaryCondition):
    """The natural trace is `value − coefficient·u`, for `lap(u)`: ∂u/∂n + coefficient·u = value.

    For `curl(curl(E))` this is an impedance condition, n × curl E + coefficient·E_tangential =
    value; on RT and BDM elements it is a slip law, with a negative coefficient where friction
    brakes.
    """

    coefficient: DataLike = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.field, Component):
            raise InputError("Robin takes a whole field, not a component")

    def __str__(self) -> str:
        return (
            f"Robin({self.field}, {self.value}, on={'+'.join(self.on)}, "
            f"coefficient={self.coefficient})"
        )


@dataclass(frozen=True)
class Natural(BoundaryCondition):
    """The natural trace of an equation is given as the equation leaves it, coefficients and signs
    included.

    With anchor[u] = Σ_j α_j T_j[u] + forcing, integration by parts leaves ∮ N·v on the right, where
    N is the sum of the traces of all α_j T_j. `Natural(u, g)` says N = g: the flux k ∂u/∂n of
    `div(k*grad(u))`, the traction σ·n of `div(sigma)`, ν ∂v/∂n − p n of a flow with pressure p,
    −n × (curl E/μ) of `-curl(curl(E)/mu)`, n × H of `curl(H)`. Deleting or scaling a term changes
    the solution and leaves g alone. `Neumann(u, g)` is about ∂u/∂n itself, which each coefficient
    multiplies; both agree where the coefficient of the only trace is one, and where g is zero.

    Args:
        field: a field, or a component of a Lagrange vector.
        value: a number, data, or a law in u, in other fields of the model, in `dt(u)` and the
            normal `n`: `-h*(u - 20)` (Robin), `-u**4` (radiation), `-dt(u)` (absorbing for speed
            one), `-beta*v` (friction). Zero sets every trace of the equation to zero at once.
        on: a part of the boundary, several, or "all".

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> print(cf.Natural(u, -0.2 * (u - 20), on="window"))
        Natural(u, 4.0 - 0.2*u, on=window)
    """

    def __post_init__(self) -> None:
        if is_second_derivative(self.field):
            raise InputError(
                f"Natural takes a field of the model, not {self.field}, whose condition is "
                "Dirichlet or Neumann"
            )
        super().__post_init__()

    @property
    def is_law(self) -> bool:
        """Whether the value contains unknowns or the normal."""
        parts = self.value if isinstance(self.value, tuple) else (self.value,)
        return any(isinstance(part, sp.Basic) and part.has(Field, Normal) for part in parts)


@dataclass(frozen=True)
class Periodic:
    """All fields on the part `on` equal those on the part `to`, shifted by a translation.

    Args:
        on: physical name of the part that is identified with the other (its unknowns are
            eliminated).
        to: physical name of the other part.
    """

    on: str
    to: str

    def __post_init__(self) -> None:
        if not isinstance(self.on, str) or not isinstance(self.to, str) or self.on == self.to:
            raise InputError(
                "Periodic needs two different boundary parts: Periodic(on='right', to='left')"
            )

    def __str__(self) -> str:
        return f"Periodic({self.on} = {self.to})"


def is_formula(value: object) -> bool:
    """Whether a boundary value is a number, a SymPy expression or a tuple of them, and no
    measurement or function.
    """
    if isinstance(value, tuple | list | sp.Tuple):
        return all(is_formula(v) for v in value)
    return isinstance(value, int | float | sp.Expr)


def is_zero(value: object) -> bool:
    """Whether a boundary value is identically zero."""
    if isinstance(value, tuple | list | sp.Tuple):
        return all(is_zero(v) for v in value)
    return isinstance(value, int | float | sp.Expr) and value == 0
