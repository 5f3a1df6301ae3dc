# SPDX-License-Identifier: MIT
"""Residual-certified decisions: error bars for fields that no finite-element solve made, a neural
network's for instance.

The corollary of the robust relevance decision: where ‖u − u_θ‖ ≤ a_f ‖A_f(u_θ)‖ and ‖u_j − v_θ‖ ≤
a_cf ‖A_cf(v_θ)‖ for the residuals of the factual and the deleted problem, the right-hand sides are
η_f and η_cf. Two ways to the constants:

- computed: the fields are taken into the model's space, with the boundary values of the problem,
  and what is certified are the fields there. The guaranteed certificates hold for every function of
  the space, so the stability constants are theirs and the verdict concerns the exact solutions;
- the user's: the fields are SymPy expressions, the residuals are those of the equation as it is
  written, in L2 over space and time, together with the distance from the initial values, and the
  constants are believed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import basix
import numpy as np
import sympy as sp
from dolfinx import fem

from cffem._compat import straight_simplices
from cffem.bounds.certificate import (
    ESTIMATED,
    Certificate,
    DeletionBound,
    NoCertificate,
    NotCovered,
    without_size,
)
from cffem.bounds.entrance import certifier_for
from cffem.bounds.levels.prolongation import affine
from cffem.bounds.representation import given_at, representation_loss
from cffem.bounds.scalar_problem import check_formulas
from cffem.engine.inputs import field_data as data
from cffem.engine.inputs.numeric import numeric
from cffem.engine.solution import Solution
from cffem.engine.solve.solve_record import SolveRecord
from cffem.symbols.algebra.components import evaluate_on
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field
from cffem.symbols.operators import as_expr, dt
from cffem.symbols.problem.interventions import Intervention, delete

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.symbols.problem.window import Window


QUADRATURE = 10
GAUSS = 3


class SuppliedFields:
    """A model whose factual solution was supplied by the user; all else is the model's."""

    def __init__(self, model: Model, factual: Solution):
        self._model, self.factual = model, factual

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def solve(self, *arguments: Any, **keywords: Any) -> Solution:
        """Nothing is solved for fields that are brought along."""
        raise InputError("give the field of each deleted problem as well")


def brought(model: Model, values: Any, intervention: Intervention | None = None) -> Solution:
    """A field of the user's as a solution of the model: interpolated at every time level, with the
    problem's boundary values.

    Args:
        model: the model.
        values: for each unknown field, and for its rate `dt(u)` where the equation is of second
            order, a SymPy expression in x, y, z, t, a callable of (points, time), or a sequence of
            DOLFINx functions, one for each time level; with one unknown its value alone.
        intervention: the problem it is meant to solve.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_square
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u)}, unknown=u)
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_square(MPI.COMM_SELF, 4, 4),
        ...     elements={u: ("Lagrange", 1)},
        ...     boundary=[cf.Dirichlet(u, 0)],
        ...     forcing={u: 1},
        ... )
        >>> model = cf.Model(library, {"lap": 1.0}, experiment)
        >>> brought(model, lambda points, time: points[0] * (1 - points[0])).norm() > 0
        True
    """
    solution = Solution(model, intervention or Intervention(), model.times, SolveRecord())
    unknowns = model.discretisation.unknowns
    given = dict(values) if isinstance(values, Mapping) else {unknowns[0]: values}
    second = model.marching.second_order is not None
    wanted = [*unknowns, *(dt(f) for f in unknowns if second)]
    missing = [str(key) for key in wanted if key not in given]
    if missing or len(given) != len(wanted):
        raise InputError(
            f"a field that is brought along needs values of {', '.join(map(str, wanted))} and "
            "nothing else"
        )
    for level, now in enumerate(model.times):
        state, rate = np.zeros(model.spaces.owned), np.zeros(model.spaces.owned) if second else None
        for unknown in unknowns:
            _put(model, state, unknown, given[unknown], level, float(now))
            if rate is not None:
                _put(model, rate, unknown, given[dt(unknown)], level, float(now))
        model.essential.set_values(state, float(now))
        if rate is not None:
            model.essential.set_velocities(rate, float(now))
        solution.keep(level, state, rate)
    return solution


def _put(
    model: Model, state: np.ndarray, unknown: Field, value: Any, level: int, now: float
) -> None:
    space = model.spaces.own(unknown)[0]
    function = fem.Function(space)
    given = given_at(value, unknown, level, len(model.times), now)
    data.interpolate(function, given, unknown, now, f"the given {unknown}")
    where = model.spaces.dofs(unknown)
    mine = where < model.spaces.owned
    state[where[mine]] = function.x.array[mine]


def certify_fields(
    model: Model,
    factual: Any,
    deleted: Mapping[str, Any],
    norm: str = "L2",
    stability: tuple[float, Mapping[str, float]] | None = None,
) -> dict[str, DeletionBound | NoCertificate]:
    """Error bars for the scores of fields that are brought along; collective.

    Args:
        model: the model, whose mesh and space are used for measuring; nothing is solved.
        factual: the field of the factual problem, see `brought`.
        deleted: for each term the field of the problem without it.
        norm: the norm of the scores.
        stability: the constants (a_f, {term: a_cf}) if they are known; else they are computed,
            where a guaranteed certificate exists for the problem.

    Example:
        >>> import cffem as cf, sympy as sp
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_square
        >>> from cffem import x, y
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)
        >>> mode, square = sp.sin(sp.pi * x) * sp.sin(sp.pi * y), 2 * sp.pi**2
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_square(MPI.COMM_SELF, 8, 8),
        ...     elements={u: ("Lagrange", 2)},
        ...     boundary=[cf.Dirichlet(u, 0)],
        ...     forcing={u: mode},
        ... )
        >>> model = cf.Model(library, {"lap": 1.0, "u": -5.0}, experiment)
        >>> found = certify_fields(model, mode / (square + 5), {"u": mode / square})["u"]
        >>> found.certificate.kind, found.margin < 0.5 * found.score
        ('guaranteed', True)
    """
    if stability is not None:
        return {
            name: _believed(model, name, factual, field, norm, stability)
            for name, field in deleted.items()
        }
    own = brought(model, factual)
    found = certifier_for(SuppliedFields(model, own))
    if isinstance(found, NoCertificate):
        return dict.fromkeys(deleted, found)
    lost = representation_loss(model, factual, own)
    bounds: dict[str, DeletionBound | NoCertificate] = {}
    for name, field in deleted.items():
        change = delete(name)
        change.apply(model.coefficients)
        try:
            other = brought(model, field, change)
            bound = found.deletion(name, norm, other)
            bounds[name] = with_losses(bound, lost, representation_loss(model, field, other))
        except NotCovered as reason:
            bounds[name] = NoCertificate(f"without {name}: {reason}")
    found.destroy()
    return bounds


def with_losses(bound: DeletionBound, factual: float, deleted: float) -> DeletionBound:
    """A bound of fields in the model's space as one of the fields that were brought along.

    Args:
        bound: the bound of what was made of them.
        factual, deleted: how far that is from the fields themselves, in L2 over space and time.
    """
    kept, both = bound.certificate, factual + deleted
    certificate = replace(
        kept,
        value=bound.margin + both,
        inequality=f"{kept.inequality} + {both:.4g}"
        if both > 5e-5 * bound.margin
        else kept.inequality,
        hypotheses=(
            *kept.hypotheses,
            (
                "the score is that of the fields as the space and the time levels of the model "
                "take them, with the boundary "
                "values of the problem",
                f"what that changes, {factual:.2g} and {deleted:.2g} in L2 at quadrature points, "
                "is in the margin",
            ),
        ),
        constants={**without_size(kept), "‖u_θ − u_h‖": factual, "‖v_θ − u_jh‖": deleted},
    )
    return replace(
        bound,
        eta_factual=bound.eta_factual + factual,
        eta_counterfactual=bound.eta_counterfactual + deleted,
        difference=bound.difference + both,
        margin=bound.margin + both,
        certificate=certificate,
    )


# The user's constants
# --------------------------------------------------------------------------------------------------


def residual_size(model: Model, values: Any, intervention: Intervention | None = None) -> float:
    """‖A(w)‖: the residual of the equation for a field given as SymPy expressions, in L2 over space
    and time; collective.

    The distance of the field from the initial values is part of it; its boundary values must be
    those of the problem.

    Args:
        model: the model.
        values: for each unknown an expression in x, y, z, t; with one unknown its expression alone.
        intervention: the problem, if it is not the factual one.

    Raises:
        NotCovered: the field is not given by expressions, or has other boundary values.
    """
    check_formulas(model)
    unknowns, dim = model.discretisation.unknowns, model.discretisation.mesh.geometry.dim
    given = dict(values) if isinstance(values, Mapping) else {unknowns[0]: values}
    if not all(isinstance(given.get(f), int | float | tuple | sp.Basic) for f in unknowns):
        raise NotCovered(
            "with constants of your own, give the fields as SymPy expressions: their residuals "
            "are computed from these"
        )
    _check_boundary(model, given)
    change = intervention or Intervention()
    coefficients, forcing = (
        change.apply(model.coefficients),
        {**dict(model.experiment.forcing), **dict(change.forcing)},
    )
    known = {p: value for p, value in model.library.parameters.items() if value is not None}
    parts: list[sp.Expr] = []
    for unknown, equation in model.library.equations.items():
        terms = [
            alpha * model.library[n]
            for n, alpha in coefficients.items()
            if alpha and model.library.locate(n)[0] == unknown
        ]
        left = (0 if equation.anchor is None else equation.anchor) - sp.Add(*terms)
        entries = evaluate_on(left, {**given, **known}, dim)
        right = evaluate_on(as_expr(forcing.get(unknown, 0)), {}, dim)
        parts += [
            a - (right[k] if len(right) == len(entries) else 0) for k, a in enumerate(entries)
        ]
    square = squared_integral(model, parts, model.experiment.time)
    if model.experiment.time is not None:
        square += _initial_square(model, given, change)
    return math.sqrt(square)


def _initial_square(model: Model, given: Mapping[Any, Any], change: Intervention) -> float:
    dim, start = model.discretisation.mesh.geometry.dim, float(model.times[0])
    values = {**dict(model.experiment.initial), **dict(change.initial)}
    gaps: list[sp.Expr] = []
    for key, value in values.items():
        unknown = key.expr if isinstance(key, sp.Derivative) else key
        own = evaluate_on(key, {unknown: given[unknown]}, dim)
        gaps += [a - b for a, b in zip(own, evaluate_on(as_expr(value), {}, dim), strict=True)]
    return squared_integral(model, gaps, None, start)


def squared_integral(
    model: Model, parts: Sequence[sp.Expr], window: Window | None, when: float = 0.0
) -> float:
    """∫ Σ |part|² over space, and over the window of time by Gauss points in each step."""
    mesh = model.discretisation.mesh
    if not straight_simplices(mesh):
        raise NotCovered(
            "residuals of expressions are integrated on straight intervals, triangles and "
            "tetrahedra only"
        )
    origin, jacobian = affine(
        mesh, np.arange(mesh.topology.index_map(mesh.topology.dim).size_local)
    )
    points, relative = basix.make_quadrature(
        getattr(basix.CellType, mesh.topology.cell_name()), QUADRATURE
    )
    places = origin[:, None] + np.einsum("nij,qj->nqi", jacobian, points)
    weights = np.sqrt(np.linalg.det(np.swapaxes(jacobian, 1, 2) @ jacobian))[:, None] * relative
    coordinates = SPACE[: mesh.geometry.dim]
    functions = [numeric(sp.sympify(part), (*coordinates, t)) for part in parts]
    nodes = [(1.0, when)]
    if window is not None:
        gauss, shares = np.polynomial.legendre.leggauss(GAUSS)
        nodes = [
            (share / 2 * step, start + (point + 1) / 2 * step)
            for start, step in zip(model.times[:-1], np.diff(model.times), strict=True)
            for point, share in zip(gauss, shares, strict=True)
        ]
    total = 0.0
    for share, now in nodes:
        for function in functions:
            values = np.broadcast_to(
                function(*np.moveaxis(places, -1, 0), float(now)), weights.shape
            )
            total += share * float((weights * values**2).sum())
    return float(model.comm.allreduce(total))


def _check_boundary(model: Model, given: Mapping[Any, Any]) -> None:
    """Refuse fields whose values at the essential unknowns are not those of the problem;
    collective.
    """
    worst, times = 0.0, np.asarray(model.times, dtype=float)
    for now in (*times, *(times[:-1] + np.diff(times) / 2)):
        state = np.zeros(model.spaces.owned)
        for unknown in model.discretisation.unknowns:
            _put(model, state, unknown, given[unknown], 0, now)
        wanted = state.copy()
        model.essential.set_values(wanted, now)
        worst = max(
            worst,
            float(np.abs(wanted - state).max(initial=0.0))
            / max(float(np.abs(state).max(initial=0.0)), 1e-300),
        )
    if model.comm.allreduce(int(worst > 1e-10)):
        raise NotCovered(
            "the field does not have the boundary values of the problem, and its residual does "
            "not see that"
        )


def _believed(
    model: Model,
    name: str,
    factual: Solution,
    field: Any,
    norm: str,
    stability: tuple[float, Mapping[str, float]],
) -> DeletionBound | NoCertificate:
    """η_f = a_f ‖A_f(u_θ)‖ and η_cf = a_cf ‖A_cf(v_θ)‖ with the user's constants."""
    change = delete(name)
    change.apply(model.coefficients)
    constants = float(stability[0]), float(stability[1].get(name, math.nan))
    if not all(math.isfinite(a) and a > 0 for a in constants):
        raise InputError(
            f"the stability constants for {name} must be positive numbers, not {constants}"
        )
    try:
        residuals = residual_size(model, factual), residual_size(model, field, change)
    except NotCovered as reason:
        return NoCertificate(str(reason))
    first, second = (a * r for a, r in zip(constants, residuals, strict=True))
    own, other = brought(model, factual), brought(model, field, change)
    score = own.distance(other, norm)
    lost = [
        representation_loss(model, values, taken)
        for values, taken in ((factual, own), (field, other))
    ]
    margin = first + second + sum(lost)
    certificate = Certificate(
        value=margin,
        kind=ESTIMATED,
        norm=norm,
        inequality=f"|‖u − u_j‖ − {score:.4g}| ≤ a_f ‖A_f(u_θ)‖ + a_cf ‖A_cf(v_θ)‖ + "
        f"{sum(lost):.2g} = {margin:.4g}",
        formula=r"\bigl|\,\|u-u_j\| - \|u_\theta-v_\theta\|\,\bigr| \leq "
        r"a_{\mathrm f}\|A_{\mathrm f}(u_\theta)\| "
        rf"+ a_{{\mathrm{{cf}}}}\|A_{{\mathrm{{cf}}}}(v_\theta)\| + {sum(lost):.2g} = {margin:.4g}",
        hypotheses=(
            (
                "‖u − w‖ ≤ a ‖A(w)‖ for the factual and the deleted problem",
                "given by the user, not checked",
            ),
            (
                "the fields have the boundary values of the problem",
                "compared at the unknowns of the boundary",
            ),
            (
                "the score is that of the interpolants, whose distance from the fields is in the "
                "margin",
                f"{lost[0]:.2g} and {lost[1]:.2g} in L2",
            ),
            (
                "integrals of residuals are those of the quadrature, also in time",
                "not enclosed: a narrow pulse may escape",
            ),
        ),
        constants={
            "a_f": constants[0],
            "a_cf": constants[1],
            "‖A_f(u_θ)‖": residuals[0],
            "‖A_cf(v_θ)‖": residuals[1],
        },
        cost={"solves": 0.0},
        method="residuals of the given fields, constants of the user",
    )
    return DeletionBound(name, score, first, second, math.inf, margin, certificate)
