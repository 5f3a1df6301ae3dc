# SPDX-License-Identifier: MIT
"""Initial values: interpolated where interpolation sees them, else projected in L2 with exact
moments.

An interpolant of a step, or of a peak narrower than a cell, has the wrong mass or is zero. Data
that jump, and smooth data from which their interpolant differs as a whole, are therefore projected:
∫ u₀ v is right for all v of the space, to the accuracy of `cffem.engine.inputs.moments`, and so is
the mass. A projected step overshoots near the jump as every L2 projection does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem
from dolfinx.fem.petsc import assemble_vector
from petsc4py import PETSc

from cffem import _compat
from cffem.engine.inputs import field_data as data
from cffem.engine.inputs.known_data import KnownData, has_known
from cffem.engine.inputs.other_meshes import on_mesh
from cffem.engine.inputs.sharp_data import SharpData
from cffem.engine.solve.linear import LinearSolver
from cffem.engine.solve.scope import Scope
from cffem.engine.solve.stage_types import PetscOptions
from cffem.forms.elements import HCURL, HDIV, L2, carrier, determines
from cffem.forms.lowering import Context, Lowering
from cffem.symbols.coordinates import t
from cffem.symbols.fields import Field
from cffem.symbols.operators import as_expr

if TYPE_CHECKING:
    from cffem.engine.inputs.known_fields import KnownFields
    from cffem.symbols.known import Known

MASS: PetscOptions = {"ksp_type": "cg", "pc_type": "jacobi", "ksp_rtol": 1e-13}
# Smooth data whose interpolant is farther from their projection than this share of its norm are
# projected. Interpolation on edge and face elements takes integrals, which miss less than nodes do:
# on coarse meshes it differs from the projection by tens of percent although it sees everything.
FAR, FAR_BY_INTEGRALS = 0.1, 0.9


def put(
    function: fem.Function,
    value: object,
    unknown: Field,
    time: float,
    what: str,
    sharp: SharpData,
    known: KnownFields,
) -> None:
    """Set a function of a field's own space to initial values; collective, and so are its
    errors.
    """
    if has_known(value):
        _put_known(function, KnownData(value, unknown, known, what), value, time, sharp)
        return
    given = data.as_data(value)
    if isinstance(given, fem.Function | data.Interpolated):
        source = on_mesh(given, function.function_space.mesh, what)
        if not determines(*(f.function_space.ufl_element() for f in (source, function))):
            function.x.array[:] = _solved(function.function_space, source, sharp).x.array
            return
        given = source if carrier(source.function_space.ufl_element()).space == L2 else given
        data.interpolate(function, given, unknown, time, what)
        return
    data.interpolate(function, value, unknown, time, what)
    if isinstance(given, data.MeasuredFields) or (
        callable(given) and not isinstance(given, sp.Basic)
    ):
        return
    expr = as_expr(value).xreplace({t: sp.Float(time)})
    # Every deletion starts from the same values.
    if (unknown, expr) not in sharp.starts:
        sharp.starts[unknown, expr] = _projected(function, expr, unknown, what, sharp)
    found = sharp.starts[unknown, expr]
    if found is not None:
        function.x.array[:] = found


def _projected(
    function: fem.Function, expr: sp.Expr, unknown: Field, what: str, sharp: SharpData
) -> np.ndarray | None:
    """The values of the projection, where the interpolated function will not do."""
    parts = data.components(expr, unknown.shape, sharp.mesh.geometry.dim, what)
    if not any(sharp.jumps(part) for part in parts if part.free_symbols):
        return None
    found = projection(function.function_space, expr, sharp)
    stepped = any(
        part.has(sp.Piecewise, sp.Heaviside, sp.sign, sp.floor, sp.ceiling) for part in parts
    )
    by_integrals = carrier(function.function_space.ufl_element()).space in (HCURL, HDIV)
    limit = FAR_BY_INTEGRALS if by_integrals else FAR
    far = stepped or _norm(function - found, sharp) > limit * _norm(found, sharp)
    return found.x.array.copy() if far else None


def _put_known(
    function: fem.Function, given: KnownData, value: object, time: float, sharp: SharpData
) -> None:
    """Values with known fields: projected where these jump and the field does not."""
    given.put(function, time)
    space = function.function_space
    if given.jumps and carrier(space.ufl_element()).space != L2:
        given.known.time.value = time
        expr = as_expr(value).xreplace({t: sp.Float(time)})
        function.x.array[:] = projection(space, expr, sharp, given.known.values).x.array


def projection(
    space: fem.FunctionSpace,
    expr: sp.Expr,
    sharp: SharpData,
    known: Mapping[Known, object] | None = None,
) -> fem.Function:
    """The L2 projection of an expression, with moments that no step or peak escapes; collective.

    Args:
        space: the space.
        expr: the expression.
        sharp: what integrates steps and peaks.
        known: UFL expressions for known fields in it.
    """
    test = ufl.TestFunction(space)
    context = Context(space.mesh.ufl_domain(), dict(known or {}))
    return _solved(space, Lowering(sharp.context(expr, context, test))(expr), sharp)


def _solved(space: fem.FunctionSpace, given: object, sharp: SharpData) -> fem.Function:
    """The L2 projection of a UFL expression; collective."""
    trial, test = ufl.TrialFunction(space), ufl.TestFunction(space)
    dx = ufl.dx(domain=space.mesh.ufl_domain())
    scope, comm = Scope(), space.mesh.comm
    matrix = scope.own(_compat.assemble_matrix(_compat.form(ufl.inner(trial, test) * dx, comm)))
    right = scope.own(assemble_vector(_compat.form(ufl.inner(given, test) * dx, comm)))
    right.ghostUpdate(addv=PETSc.InsertMode.ADD, mode=PETSc.ScatterMode.REVERSE)
    solver, result = scope.own(LinearSolver(matrix, MASS)), fem.Function(space)
    solver.solve(right, result.x.petsc_vec, "the projection of initial values")
    result.x.scatter_forward()
    scope.destroy()
    return result


def _norm(value: object, sharp: SharpData) -> float:
    squared = _compat.form(
        ufl.inner(value, value) * ufl.dx(domain=sharp.mesh.ufl_domain()), sharp.mesh.comm
    )
    return float(sharp.mesh.comm.allreduce(fem.assemble_scalar(squared))) ** 0.5
