# SPDX-License-Identifier: MIT
"""One experiment: domain, elements, data and the time window in which the equation is observed.

It holds what the user says and checks what can be checked without a mesh; the engine turns it into
spaces and forms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy as sp
from sympy.core.relational import Relational

from cffem.symbols.algebra.shapes import shape_of, unify
from cffem.symbols.algebra.splitting import is_stand_in
from cffem.symbols.coordinates import COORDINATES, SPACE, t
from cffem.symbols.errors import AS_TWO_FIELDS, InputError, LibraryError, ShapeError
from cffem.symbols.expression_like import DataLike
from cffem.symbols.fields import Field, fields_of
from cffem.symbols.known import Known, KnownEntry
from cffem.symbols.operators import as_expr
from cffem.symbols.problem.conditions import BoundaryCondition, Natural, Periodic
from cffem.symbols.problem.constraint_classes import Constraint
from cffem.symbols.problem.measured import Interpolated, MeasuredFields, as_data
from cffem.symbols.problem.observations import Observation
from cffem.symbols.problem.term_checks import check_symbols
from cffem.symbols.problem.uncertain import Uncertain, checked_uncertain
from cffem.symbols.problem.window import Window
from cffem.symbols.real_values import check_real_function


@dataclass(frozen=True)
class Experiment:
    """Domain, elements, initial and boundary data, time window and constraint of one experiment.

    Args:
        mesh: a path, a DOLFINx mesh, or what `cffem.mesh` makes.
        elements: for each field a pair (family, degree) such as ("Lagrange", 2), ("N1curl", 1),
            ("RT", 1), or a Basix element.
        initial: values at the start; second order in time needs both the field and its rate
            `dt(E)`.
        boundary: boundary conditions; every part of the boundary where a natural trace remains
            needs one.
        time: a `Window`, or None for a steady problem.
        constraint: `DivergenceFree(...)` or `Constraint(...)`, enforced in every solve.
        forcing: for each field the right-hand side that no term carries.
        comm: the MPI communicator; only needed where the mesh does not bring one.
        known: the values of each `Known` field in terms and data: a number, an expression in x, y,
            z, t (a tuple for a vector, a tuple of rows for a tensor), a value for each named
            subdomain, a DOLFINx function, `Interpolated(function)` of one on another mesh, a
            `Dataset`, or a Python function of the points (and of the time).
        observation: what is measured, `cf.Sensors(…)` say; None for the whole field.
        uncertain: initial or boundary values that are known up to a few amplitudes,
            `cf.Uncertain(u, basis)`; a fit to readings estimates them.
        stabilisation: {u: "SUPG"} for fields on Lagrange elements that are transported: the
            residual is tested along the streamlines as well.
    """

    mesh: Any
    elements: Mapping[Field, Any]
    initial: Mapping[sp.Expr, DataLike] = field(default_factory=dict)
    boundary: Sequence[BoundaryCondition | Periodic] = ()
    time: Window | None = None
    constraint: Any = None
    forcing: Mapping[Field, DataLike] = field(default_factory=dict)
    comm: object = None
    known: Mapping[Known, object] = field(default_factory=dict)
    observation: Observation | None = None
    uncertain: Sequence[Uncertain] = ()
    stabilisation: Mapping[Field, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from cffem.symbols.problem.known_values import checked_known

        for key in self.elements:
            if isinstance(key, Known):
                raise InputError(
                    f"{key} is a known field and has no element; give its values in known={{{key}: "
                    "…}"
                )
        object.__setattr__(self, "known", checked_known(self.known))
        if not self.elements or not all(isinstance(key, Field) for key in self.elements):
            raise InputError(
                "elements must give each field its element, for instance {u: ('Lagrange', 2)}"
            )
        for key, kind in self.stabilisation.items():
            if key not in self.elements:
                raise InputError(f"stabilisation of {key}, which has no element here")
            if kind != "SUPG":
                raise InputError(f"there is no stabilisation {kind!r} for {key}; there is 'SUPG'")
        if not isinstance(self.boundary, Sequence):
            raise InputError(
                "boundary must be a list of boundary conditions, [Dirichlet(u, 0)] say, not "
                f"{self.boundary}"
            )
        for condition in self.boundary:
            if not isinstance(condition, BoundaryCondition | Periodic):
                raise InputError(
                    f"{condition!r} is not a boundary condition; use Dirichlet, Neumann, Robin, "
                    "Natural, Tangential or Periodic"
                )
            if isinstance(condition, BoundaryCondition):
                self._check_known(condition.unknown, str(condition))
                if isinstance(condition, Natural) and condition.is_law:
                    self._check_law(condition)
                else:
                    check_data(condition.value, str(condition))
                check_data(getattr(condition, "coefficient", 0), f"the coefficient of {condition}")
        for name in ("initial", "forcing"):
            object.__setattr__(
                self, name, {key: as_data(value) for key, value in getattr(self, name).items()}
            )
        for key, value in self.initial.items():
            if not isinstance(_base_field(key), Field):
                raise InputError(
                    f"initial values are given for fields u or rates dt(u), not for {key}"
                )
            self._check_known(_base_field(key), f"the initial value of {key}")
            check_data(value, f"the initial value of {key}")
        for key, value in self.forcing.items():
            self._check_known(key, f"the forcing of {key}")
            check_data(value, f"the forcing of {key}")
        if self.constraint is not None and not isinstance(self.constraint, Constraint):
            if isinstance(self.constraint, Relational):
                as_expr(self.constraint)  # says what inequalities are written as
            raise InputError(
                "constraint must be cf.DivergenceFree, cf.CurlFree or cf.Constraint(expr), which "
                f"sets expr to zero, not {self.constraint!r}"
            )
        if self.time is not None and not isinstance(self.time, Window):
            raise InputError(f"time must be a Window or None, not {self.time!r}")
        if self.observation is not None and not isinstance(self.observation, Observation):
            raise InputError(
                "observation must be cf.Sensors, cf.Part, cf.Trace, cf.Series or a sum, not "
                f"{type(self.observation).__name__}"
            )
        object.__setattr__(self, "uncertain", checked_uncertain(self.uncertain, self.elements))
        if self.time is None and any(each.on is None for each in self.uncertain):
            raise InputError("a steady problem has no initial values that could be uncertain")

    def _check_law(self, condition: Natural) -> None:
        """Refuse a law that contains something undeclared, or has another shape than its
        field.
        """
        try:
            law = as_expr(condition.value)
            check_symbols(str(condition), law, [*COORDINATES, *self.elements], on_boundary=True)
            unify(shape_of(law), condition.field.shape, condition)
        except (ShapeError, LibraryError) as error:
            words = str(error)
            named = words if words.startswith(str(condition)) else f"{condition}: {words}"
            raise InputError(named) from None
        multiplier = getattr(self.constraint, "multiplier", None)
        known = {*self.elements, *([multiplier[0]] if multiplier else [])}
        for unknown in sorted(fields_of(law) - known, key=str):
            raise InputError(
                f"{condition} contains {unknown}, which is no field of this experiment"
            )

    def _check_known(self, unknown: Field, what: str) -> None:
        if unknown not in self.elements and not is_stand_in(unknown):
            known = ", ".join(sorted(str(f) for f in self.elements))
            raise InputError(
                f"{what} is for a field that has no element here; fields with elements: {known}"
            )


def _base_field(key: Any) -> Any:
    """u for u, dt(u) and dt(dt(u))."""
    if isinstance(key, sp.Derivative) and set(key.variables) == {t}:
        return key.expr
    return key


def check_data(value: object, what: str) -> None:
    """Refuse data that contain unknowns, undeclared symbols, NaN or infinities, before
    anything is solved.
    """
    if isinstance(value, tuple | list):
        for part in value:
            check_data(part, what)
        return
    if hasattr(value, "function_space") or isinstance(value, MeasuredFields | Interpolated):
        if not isinstance(value, MeasuredFields):
            check_real_function(getattr(value, "function", value), what)
        return  # its values are looked at on all ranks together, when the mesh is known
    if callable(value) and not isinstance(value, sp.Basic):
        return
    try:
        expr = as_expr(value)
    except (TypeError, sp.SympifyError):
        raise InputError(
            f"{what}: {value!r} is neither a number, a SymPy expression, a tuple, a function nor "
            "a dataset"
        ) from None
    if expr.has(sp.nan, sp.oo, -sp.oo, sp.zoo) or any(
        not math.isfinite(float(number)) for number in expr.atoms(sp.Float)
    ):
        raise InputError(f"{what} is not finite: {expr}")
    if expr.has(sp.I):
        raise InputError(f"{what} contains I, but fields are real; {AS_TWO_FIELDS}")
    strange = expr.free_symbols - {*SPACE, t} - {*expr.atoms(Known, KnownEntry)}
    if fields_of(expr) or strange:
        names = ", ".join(sorted(map(str, strange | fields_of(expr))))
        raise InputError(f"{what} may contain x, y, z, t and numbers only, but contains {names}")
