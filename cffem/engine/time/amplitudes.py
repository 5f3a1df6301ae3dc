# SPDX-License-Identifier: MIT
"""Uncertain initial and boundary values on a model: the functions of their bases as vectors.

The discrete data are affine in the amplitudes, so that one function each, put on the mesh once,
serves every solve of a fit and its derivative.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem

from cffem import _compat
from cffem.engine.assembly.dirichlet import BoundaryMode, local_dofs
from cffem.engine.inputs import field_data as data
from cffem.engine.inputs import initial
from cffem.engine.solve.factorisation import Pencil
from cffem.engine.solve.scope import Scope
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Component, Field
from cffem.symbols.operators import Vec, as_expr
from cffem.symbols.problem.conditions import BoundaryCondition, Dirichlet, Tangential
from cffem.symbols.problem.interventions import Intervention
from cffem.symbols.problem.measured import rate_of
from cffem.symbols.problem.uncertain import Uncertain

if TYPE_CHECKING:
    from mpi4py import MPI

    from cffem.engine.mesh.boundary_parts import Boundary
    from cffem.engine.model import Model
    from cffem.symbols.problem.experiment import Experiment

# Weights of the axes in the Laplacian whose modes are taken: a little different, so that no two
# modes of a square or a cube have one eigenvalue and each is what it is on any number of ranks.
AXES = (1.0, 1.0137, 1.0291)
CLOSE = 1e-9  # relative accuracy of eigenvalues


class UncertainModes:
    """The functions that uncertain data of a model are made of; collective.

    Args:
        model: the model; its experiment declares what is uncertain.

    Attributes:
        labels: the name of each amplitude.
        deviations: of each before anything is measured; infinite where nothing is known.
        states, velocities: what a unit of each amplitude adds to the initial state and to its rate,
            before boundary values are put in and constraints projected; None for boundary values.
        boundary: what it adds to boundary values; None for initial values.
    """

    def __init__(self, model: Model):
        self.model = model
        self.labels: list[str] = []
        self.deviations: list[float] = []
        self.states: list[np.ndarray | None] = []
        self.velocities: list[np.ndarray | None] = []
        self.boundary: list[BoundaryMode | None] = []
        for each in model.experiment.uncertain:
            self.labels += each.labels
            self.deviations += each.deviations
            if each.on is None:
                self._add_start(each)
            else:
                self._add_boundary(each)

    def __len__(self) -> int:
        return len(self.labels)

    def _add_start(self, each: Uncertain) -> None:
        model, unknown = self.model, each.unknown
        order = model.library.equations[unknown].time_order
        if order < (2 if each.is_rate else 1):
            raise InputError(
                f"{each.field} has no initial value in this model that could be uncertain"
            )
        if each.modes:
            functions = mesh_modes(model, each)
        else:
            functions = [self._function(each, label, f) for label, f in self._given(each)]
        dofs = model.spaces.dofs(unknown)
        mine = dofs < model.spaces.owned
        for function in functions:
            vector = np.zeros(model.spaces.owned)
            vector[dofs[mine]] = function.x.array[mine]
            self.states.append(None if each.is_rate else vector)
            self.velocities.append(vector if each.is_rate else None)
            self.boundary.append(None)

    def _given(self, each: Uncertain) -> list[tuple[str, object]]:
        return list(zip(each.labels, map(data.as_data, each.functions), strict=True))

    def _function(self, each: Uncertain, label: str, value: object) -> fem.Function:
        model = self.model
        function = fem.Function(model.spaces.own(each.unknown)[0])
        data.check_on_mesh(value, each.unknown, model.discretisation.mesh, label)
        about, start = model.discretisation, float(model.times[0])
        initial.put(function, value, each.unknown, start, label, about.sharp, about.known)
        return function

    def _add_boundary(self, each: Uncertain) -> None:
        model, boundary = self.model, self.model.discretisation.boundary
        entries = model.essential.entries
        boundary.check_names([Dirichlet(each.unknown, 0, on=each.on)])
        there = [
            (k, e)
            for k, e in enumerate(entries)
            if e.condition.unknown == each.unknown and _covers(boundary, e.condition.on, each.on)
        ]
        if not there:
            raise InputError(
                f"{each.what} is uncertain, but no value of {each.field} is prescribed there by "
                "Dirichlet or Tangential; a flux through a wall is a term of the library, with its "
                "coefficient"
            )
        for label, value in self._given(each):
            number, entry = there[-1]
            condition = entry.condition
            if isinstance(condition.field, Component):
                raise InputError(
                    f"{each.what}: values of single components cannot be uncertain; prescribe all"
                )
            kind = Tangential if isinstance(condition, Tangential) else Dirichlet
            changed = kind(each.unknown, value, on=each.on)
            later = [e.mine for e in entries[number + 1 :]]
            kept = np.setdiff1d(entry.mine, np.concatenate(later) if later else [])
            mode = BoundaryMode(
                model.spaces, boundary, changed, entry, kept, model.discretisation.known
            )
            if not model.comm.allreduce(len(mode.mine)):
                raise InputError(f"{label}: no value of {each.field} is prescribed there")
            self.states.append(None)
            self.velocities.append(None)
            self.boundary.append(mode)

    def checked(self, change: Intervention) -> tuple[float, ...]:
        """The amplitudes of an intervention, zero where it names none."""
        if not change.amplitudes:
            return (0.0,) * len(self)
        if len(change.amplitudes) != len(self):
            raise InputError(
                f"the experiment has {len(self)} uncertain amplitudes, not {len(change.amplitudes)}"
            )
        if change.conditions or change.initial or change.released or change.spells:
            raise InputError("amplitudes and other changes of data are not taken together")
        return change.amplitudes

    def shifts(self, change: Intervention) -> list[tuple[float, BoundaryMode]]:
        """The amplitudes of boundary values with their functions."""
        pairs = zip(self.checked(change), self.boundary, strict=True)
        return [(value, mode) for value, mode in pairs if mode is not None and value]

    def add_to_start(
        self, change: Intervention, state: np.ndarray, velocity: np.ndarray | None
    ) -> None:
        """Add what the amplitudes make of the initial values, in place."""
        for value, own, rate in zip(
            self.checked(change), self.states, self.velocities, strict=True
        ):
            if own is not None:
                state += value * own
            if rate is not None and velocity is not None:
                velocity += value * rate


def modes_of(model: Model) -> UncertainModes:
    """The uncertain data of a model, put on its mesh once; collective."""
    return model.once("uncertain data", lambda: UncertainModes(model))


def _covers(boundary: Boundary, declared: Sequence[str], part: str | None) -> bool:
    if part is None:
        return False
    wanted = set(boundary.facets_of((part,)).tolist())
    return wanted <= set(boundary.facets_of(tuple(declared)).tolist())


def mesh_modes(model: Model, each: Uncertain) -> list[fem.Function]:
    """The lowest modes of the Laplacian on the mesh, zero where values are prescribed, each with
    the root mean square one; collective.
    """
    unknown, spaces = each.unknown, model.spaces
    space, _ = spaces.own(unknown)
    name = space.element.basix_element.family.name if not unknown.shape else ""
    if name != "P" or space.element.basix_element.discontinuous:
        raise InputError(
            f"modes of the mesh are those of a scalar on Lagrange elements; give {each.what} a "
            "basis of functions"
        )
    if len(each) >= space.dofmap.index_map.size_global:
        raise InputError(f"the mesh has fewer modes than the {len(each)} of {each.what}")
    a, b = ufl.TrialFunction(space), ufl.TestFunction(space)
    dx = ufl.dx(domain=space.mesh.ufl_domain())
    axes = range(space.mesh.geometry.dim)
    stiff = sum(AXES[i] * a.dx(i) * b.dx(i) for i in axes)
    comm = space.mesh.comm
    with Scope() as scope:
        stiffness = scope.own(_compat.assemble_matrix(_compat.form(stiff * dx, comm)))
        mass = scope.own(_compat.assemble_matrix(_compat.form(a * b * dx, comm)))
        size = float(comm.allreduce(fem.assemble_scalar(_compat.form(_one(space) * dx, comm))))
        held = _held_rows(model, unknown, space)
        stiffness.zeroRowsColumns(held, diag=1.0)
        mass.zeroRowsColumns(held, diag=0.0)
        extent = size ** (2 / space.mesh.geometry.dim)
        solver = Pencil(stiffness, mass, -1.0 / extent, len(each), CLOSE)
        found = []
        with solver.solved(f"the modes of {each.what}") as pairs:
            if pairs.getConverged() < len(each):
                raise InputError(f"the modes of {each.what} were not found; give functions")
            vector = scope.own(stiffness.createVecRight())
            work = scope.own(stiffness.createVecRight())
            order = np.argsort([pairs.getEigenvalue(k).real for k in range(pairs.getConverged())])
            for k in order[: len(each)]:
                pairs.getEigenvector(int(k), vector)
                mass.mult(vector, work)
                scale = np.sqrt(size / float(vector.dot(work)))
                function = fem.Function(space)
                count = len(vector.array_r)
                function.x.array[:count] = scale * vector.array_r
                function.x.scatter_forward()
                function.x.array[:] *= _sign(function, comm)
                found.append(function)
    return found


def _one(space: fem.FunctionSpace) -> fem.Constant:
    return fem.Constant(space.mesh, 1.0)


def _sign(function: fem.Function, comm: MPI.Comm) -> float:
    """The sign that makes a generic moment of a mode positive."""
    point = ufl.SpatialCoordinate(function.function_space.mesh)
    dimension = function.function_space.mesh.geometry.dim
    weight = math.prod(1.0 + (0.37 + 0.21 * i) * point[i] for i in range(dimension))
    moment = fem.assemble_scalar(_compat.form(weight * function * ufl.dx, comm))
    cubic = fem.assemble_scalar(_compat.form(weight * function**3 * ufl.dx, comm))
    total = float(comm.allreduce(moment)), float(comm.allreduce(cubic))
    larger = max(total, key=abs)
    return -1.0 if larger < 0 else 1.0


def _held_rows(model: Model, unknown: Field, space: fem.FunctionSpace) -> np.ndarray:
    """Global numbers of the unknowns of a scalar field whose values are prescribed."""
    boundary = model.discretisation.boundary
    held = [
        local_dofs(space, boundary, e.condition.on)
        for e in model.essential.entries
        if e.condition.unknown == unknown
    ]
    local = np.unique(np.concatenate(held)).astype(np.int32) if held else np.zeros(0, np.int32)
    imap = space.dofmap.index_map
    local = local[local < imap.size_local]
    return (local + imap.local_range[0]).astype(np.int32)


def with_amplitudes(model: Model, amplitudes: Sequence[float]) -> Experiment:
    """The experiment of a model with amplitudes in its data, and nothing uncertain any more;
    collective.

    Expressions stay expressions; modes of the mesh and data that are none become functions.
    """
    experiment, first = model.experiment, 0
    initial_values: dict[sp.Expr, object] = dict(experiment.initial)
    conditions = list(experiment.boundary)
    for each in experiment.uncertain:
        own = [float(a) for a in amplitudes[first : first + len(each)]]
        first += len(each)
        if each.on is None:
            given = initial_values[each.field]
            initial_values[each.field] = _start_with(model, each, given, own)
        else:
            number = max(
                k
                for k, c in enumerate(conditions)
                if isinstance(c, Dirichlet | Tangential)
                and c.unknown == each.unknown
                and _covers(model.discretisation.boundary, c.on, each.on)
            )
            condition = conditions[number]
            assert isinstance(condition, BoundaryCondition)
            value = _sum(condition.value, each.functions, own, each.what)
            # On its part alone, before conditions that had the last word there.
            conditions.insert(number + 1, dataclasses.replace(condition, value=value, on=each.on))
    return dataclasses.replace(
        experiment, initial=initial_values, boundary=conditions, uncertain=()
    )


def _start_with(model: Model, each: Uncertain, given: object, own: Sequence[float]) -> object:
    expressions = not each.modes and _is_expression(given)
    if expressions and all(_is_expression(f) for f in each.functions):
        return _sum(given, each.functions, own, each.what)
    modes = modes_of(model)
    start = modes.labels.index(each.labels[0])
    vectors = modes.velocities if each.is_rate else modes.states
    function = fem.Function(model.spaces.own(each.unknown)[0])
    value = rate_of(given) if each.is_rate else given
    about, time = model.discretisation, float(model.times[0])
    initial.put(function, value, each.unknown, time, each.what, about.sharp, about.known)
    dofs = model.spaces.dofs(each.unknown)
    mine = dofs < model.spaces.owned
    for k, amplitude in enumerate(own):
        vector = vectors[start + k]
        assert vector is not None
        function.x.array[np.flatnonzero(mine)] += amplitude * vector[dofs[mine]]
    function.x.scatter_forward()
    return function


def _is_expression(value: object) -> bool:
    parts = value if isinstance(value, tuple | list) else (value,)
    return all(isinstance(p, sp.Basic | int | float) for p in parts)


def _sum(given: object, functions: Sequence[Any], amplitudes: Sequence[float], what: str) -> object:
    """g + Σ a_k φ_k of expressions."""
    if not (_is_expression(given) and all(_is_expression(f) for f in functions)):
        raise InputError(f"{what}: uncertain values are added to expressions, not to data")
    if isinstance(given, Vec) or any(isinstance(f, Vec) for f in functions):
        total = as_expr(given)
        for amplitude, function in zip(amplitudes, functions, strict=True):
            total = total + sp.Float(amplitude) * as_expr(function)
        return total
    if isinstance(given, tuple | list):
        return tuple(
            _sum(part, [f[i] for f in functions], amplitudes, what) for i, part in enumerate(given)
        )
    total = sp.sympify(given)
    for amplitude, function in zip(amplitudes, functions, strict=True):
        total += sp.Float(amplitude) * sp.sympify(function)
    return total
