# SPDX-License-Identifier: MIT
"""Which essential conditions an equation can carry once terms have been deleted: Fichera's rule.

Write what is left of an equation as ∂_t u = div(A∇u) − b·∇u + …, A ≥ 0. On a facet with outer
normal n a prescribed value is carried where n·A n ≠ 0; where n·A n = 0 it is carried at inflow
only, b·n < 0 (with −∂_j a_ij n_i in b where A varies); elsewhere nothing in the equation can take
it up, and keeping it makes a layer that no mesh resolves. So diffusion keeps all values, transport
those at its inflow, a reaction none. Nonlinear transport is judged at the prescribed values
themselves. A flow without viscosity under a divergence constraint keeps the normal component
everywhere.

A natural trace that is given for a whole equation is carried as long as some term is left that is
integrated by parts; without one, ∮ g·v would be a source on the boundary that nothing spreads.

Conditions are released only where this rule decides; what it cannot judge (derivatives of higher
order, coupled derivatives of several fields, coefficients that are not expressions) stays
prescribed, and the sentence says so.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from cffem.engine.assembly.natural_conditions import no_longer_carried
from cffem.engine.inputs.place_values import NoNumbers, numbers
from cffem.forms.elements import H1, L2, carrier
from cffem.symbols.algebra.analysis import canonical, jet, orders
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.fields import Field, VectorField
from cffem.symbols.form_terms import FormTerm
from cffem.symbols.known import Known, KnownEntry, KnownTensor
from cffem.symbols.operators import Inverse, as_expr
from cffem.symbols.problem.conditions import BoundaryCondition, Dirichlet, Tangential
from cffem.symbols.restricted import Indicator, split_parts

if TYPE_CHECKING:
    from mpi4py import MPI

    from cffem.engine.assembly.discretisation import Discretisation
    from cffem.engine.mesh.boundary_parts import Boundary


# Relative to the largest value of the symbol, what is smaller is zero up to rounding errors.
ROUNDING = 1e-10
SAMPLES = 5  # times at which transport that changes in time is judged


class NotJudged(Exception):
    """The rule says nothing about this equation; the reason is a phrase."""


@dataclass(frozen=True)
class Release:
    """What a deleted equation does not carry.

    Attributes:
        kept: for each essential condition (by its position in the declared list) pairs of a
            component, or None for all, and the facets on which it is kept; conditions that are not
            named stay as they are.
        sentence: the same in words.
        natural: the fields, each with the parts of the boundary, whose given natural traces are
            not carried.
    """

    kept: Mapping[int, tuple[tuple[int | None, np.ndarray], ...]] = field(default_factory=dict)
    sentence: str = ""
    natural: Mapping[Field, list[str]] = field(default_factory=dict)

    @property
    def changes(self) -> bool:
        """Whether some condition is released; there may be words only."""
        return bool(self.kept or self.natural)


@dataclass(frozen=True)
class Symbol:
    """The symbol of what is left of one equation, for one component of its field.

    Attributes:
        diffusion: A, dim × dim.
        transport: b, with −∂_j a_ij in it.
    """

    diffusion: sp.Matrix
    transport: sp.Matrix


def released(
    discretisation: Discretisation,
    coefficients: Mapping[str, float],
    factual: Mapping[str, float],
    times: np.ndarray,
    judges: dict[Field, Judge | None] | None = None,
) -> Release | None:
    """What equations no longer carry of the declared conditions; None where they carry all that the
    factual ones do.

    Args:
        discretisation: spaces and boundary parts.
        coefficients: α_j of the deleted problem.
        factual: α_j of the factual problem, whose conditions are the user's own choice.
        times: the time levels.
        judges: the rules of the factual equations with these conditions, as far as they are known;
            more are added.
    """
    before = {} if judges is None else judges
    kept: dict[int, tuple[tuple[int | None, np.ndarray], ...]] = {}
    words: list[str] = []
    for unknown, equation in discretisation.library.equations.items():
        if equation.time_order == 2:
            continue  # ∂_tt u = … takes up whatever values its data agree with
        mine = [
            (index, condition)
            for index, condition in enumerate(discretisation.boundary.declared)
            if isinstance(condition, Dirichlet | Tangential) and condition.unknown == unknown
        ]
        space = carrier(discretisation.spaces.elements[unknown]).space
        if not mine or space == L2:
            continue
        try:
            symbol = symbol_of(discretisation, unknown, coefficients)
            if is_elliptic(symbol):
                continue  # which carries all values, whatever the facets
            judge = Judge(discretisation, unknown, symbol, times)
            if space != H1 and (
                judge.constrained
                or any(entry != 0 for entry in (*symbol.diffusion, *symbol.transport))
            ):
                # Traces of these spaces belong to the class, or to derivatives that are left.
                continue
            if unknown not in before:
                before[unknown] = judged_or_none(discretisation, unknown, factual, times)
            judge.before = before[unknown]
            found = {index: judge.kept(condition) for index, condition in mine}
        except NotJudged as reason:
            if str(reason) and not same_diffusion(discretisation, unknown, coefficients, factual):
                words.append(f"the conditions on {unknown} are all kept: {reason}")
            continue
        kept |= {index: parts for index, parts in found.items() if parts is not None}
        words += judge.words()
    natural = no_longer_carried(discretisation, coefficients, factual)
    words += [
        f"the natural trace of {unknown} on {', '.join(parts)} is released: no term is left in its "
        "equation that could carry it"
        for unknown, parts in natural.items()
    ]
    return Release(kept, "; ".join(dict.fromkeys(words)), natural) if kept or words else None


def same_diffusion(
    discretisation: Discretisation, unknown: Field, *models: Mapping[str, float]
) -> bool:
    """Whether the diffusion of an equation is the same, and there is some, so that it carries
    what it did.
    """
    try:
        first, second = (
            symbol_of(discretisation, unknown, coefficients).diffusion for coefficients in models
        )
    except NotJudged:
        return False
    return first == second and any(entry != 0 for entry in first)


def judged_or_none(
    discretisation: Discretisation,
    unknown: Field,
    coefficients: Mapping[str, float],
    times: np.ndarray,
) -> Judge | None:
    """The rule for another set of coefficients; None where it says nothing, and all
    conditions count as carried.
    """
    try:
        return Judge(
            discretisation, unknown, symbol_of(discretisation, unknown, coefficients), times
        )
    except NotJudged:
        return None


# The symbol of what is left
# --------------------------------------------------------------------------------------------------


def symbol_of(
    discretisation: Discretisation, unknown: Field, coefficients: Mapping[str, float]
) -> Symbol:
    """Diffusion and transport of one equation, equal for all components of its field."""
    library, dim = discretisation.library, discretisation.mesh.geometry.dim
    anchor = library.equations[unknown].anchor
    if anchor is not None and anchor.has(KnownTensor):
        raise NotJudged("its rate is multiplied by a tensor")
    values = {p: v for p, v in library.parameters.items() if v is not None}
    vector = isinstance(unknown, VectorField)
    parts = tuple(unknown[i] for i in range(dim)) if vector else (unknown,)
    terms = [
        (within(library[name], discretisation.boundary).xreplace(values), sp.Float(alpha))
        for name, alpha in coefficients.items()
        if alpha and library.locate(name)[0] == unknown
    ]
    terms = [(term, alpha) for term, alpha in terms if term != 0]
    if any(term.has(FormTerm) for term, _ in terms):
        raise NotJudged("a term of it is given as a form, whose derivatives no formula tells")
    if any(term.has(Inverse) or orders(term, dim)[0] > 2 for term, _ in terms):
        # Stresses of finite deformations or derivatives of higher order are left, which carry all.
        raise NotJudged("")
    symbols = summed_symbols(tuple(terms), parts, dim)
    if isinstance(symbols, str):
        raise NotJudged(symbols)
    if any(symbol != symbols[0] for symbol in symbols[1:]):
        raise NotJudged("its components are transported differently")
    return symbols[0]


def within(term: sp.Expr, boundary: Boundary) -> sp.Expr:
    """What of a term acts inside: integrals over parts of the boundary and surfaces left out, and
    the rest in a subdomain times its indicator.
    """
    plain, parts = split_parts(term)
    inside = [p for p in parts if p not in boundary.tags and p not in boundary.surfaces]
    return sp.Add(plain, *(Indicator(part) * parts[part] for part in inside))


def is_elliptic(symbol: Symbol) -> bool:
    """Whether the diffusion is constant and definite.

    Example:
        >>> is_elliptic(Symbol(sp.Matrix([[2, 0], [0, 1]]), sp.zeros(2, 1)))
        True
        >>> is_elliptic(Symbol(sp.Matrix([[2, 0], [0, 0]]), sp.zeros(2, 1)))
        False
    """
    if symbol.diffusion.free_symbols or not all(entry.is_number for entry in symbol.diffusion):
        return False
    values = np.linalg.eigvalsh(np.array(symbol.diffusion.tolist(), dtype=float))
    return bool(values[0] * values[-1] > 0 and min(abs(values)) > ROUNDING * max(abs(values)))


@lru_cache(maxsize=1024)
def summed_symbols(
    terms: tuple[tuple[sp.Expr, sp.Float], ...], parts: tuple[sp.Expr, ...], dim: int
) -> tuple[Symbol, ...] | str:
    """The symbols of terms with their coefficients in the equations of all components, or why they
    are not judged; every level of an error bar asks for the same.
    """
    try:
        found = [(term_symbols(term, parts, dim), c) for term, c in terms]
        return tuple(
            Symbol(
                sum((c * s[i].diffusion for s, c in found), sp.zeros(dim, dim)).expand(),
                sum((c * s[i].transport for s, c in found), sp.zeros(dim, 1)).expand(),
            )
            for i in range(len(parts))
        )
    except NotJudged:  # which another term may make up for, as grad div does for curl curl
        entries = [[c * entry for entry in canonical(term, dim)] for term, c in terms]
        total = [sum(column, sp.S.Zero) for column in zip(*entries, strict=True)]
    try:
        return tuple(one_symbol(entry, parts, i, dim) for i, entry in enumerate(total))
    except NotJudged as reason:
        return str(reason)


@lru_cache(maxsize=1024)
def term_symbols(term: sp.Expr, parts: tuple[sp.Expr, ...], dim: int) -> tuple[Symbol, ...]:
    """The symbols of one term in the equations of all components of its field; they are linear in
    the coefficients, so that one differentiation of each term serves every deletion.
    """
    return tuple(one_symbol(entry, parts, i, dim) for i, entry in enumerate(canonical(term, dim)))


def one_symbol(entry: sp.Expr, parts: tuple[sp.Expr, ...], row: int, dim: int) -> Symbol:
    """Diffusion and transport of one component; derivatives of other fields must not be among
    its highest.
    """
    found = jet([entry])
    dummies = {value: sp.Dummy() for value in found}
    back = {dummy: value for value, dummy in dummies.items()}
    plain = entry.xreplace(dummies)
    diffusion, transport = sp.zeros(dim, dim), sp.zeros(dim, 1)
    for value, dummy in dummies.items():
        variables = getattr(value, "variables", ())
        slope = sp.expand(plain.diff(dummy)).xreplace(back)
        if not variables or slope == 0:
            continue
        if not {*variables} <= {*SPACE[:dim]}:
            raise NotJudged("it has a derivative in time among its terms")
        if value.expr not in parts:
            if len(variables) == 2:
                raise NotJudged(f"it contains second derivatives of {value.expr}")
            continue  # a gradient of another field is a source for this one
        if value.expr != parts[row]:
            # Second derivatives of another component belong to an elliptic operator such as curl
            # curl, which carries values.
            raise NotJudged(
                "" if len(variables) == 2 else "the derivatives of its components are coupled"
            )
        places = [SPACE.index(v) for v in variables]
        if len(places) == 2:
            diffusion[places[0], places[1]] += slope / 2
            diffusion[places[1], places[0]] += slope / 2
        else:
            transport[places[0]] -= slope
    # div(A∇u) = A:∇∇u + (div A)·∇u, so the transport of the divergence form has + div A.
    divergence = [sum(sp.diff(diffusion[i, j], SPACE[i]) for i in range(dim)) for j in range(dim)]
    return Symbol(diffusion, sp.Matrix([transport[j] + divergence[j] for j in range(dim)]))


# Facets
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Places:
    """Where facets are judged.

    Attributes:
        middles: of the facets, one row each.
        cells: the cell at each.
    """

    middles: np.ndarray
    cells: np.ndarray


class Judge:
    """Fichera's rule on the facets of one field."""

    def __init__(
        self, discretisation: Discretisation, unknown: Field, symbol: Symbol, times: np.ndarray
    ):
        self.discretisation, self.unknown, self.symbol = discretisation, unknown, symbol
        self.boundary, self.mesh = discretisation.boundary, discretisation.mesh
        count = min(SAMPLES, len(times))
        self.times = times[np.unique(np.linspace(0, len(times) - 1, count).astype(int))]
        constraint = discretisation.experiment.constraint
        self.constrained = constraint is not None and unknown in constraint.fields
        self.released: dict[str, str] = {}
        self._judged: dict[str, np.ndarray] = {}
        self.before: Judge | None = None

    def kept(
        self, condition: BoundaryCondition
    ) -> tuple[tuple[int | None, np.ndarray], ...] | None:
        """Components and facets on which a condition is kept; None where it is kept as a whole."""
        parts = [
            part
            for part in self.boundary.conditions
            if part in condition.on or "all" in condition.on
        ]
        pieces: dict[int | None, list[np.ndarray]] = {}
        whole = True
        for part in parts:
            facets, carried = (
                self.boundary.facets[part],
                self.carried(part) | ~self.carried_before(part),
            )
            pieces.setdefault(None, []).append(facets[carried])
            left = facets[~carried]
            if self.constrained:
                for component, mine in self.normal_components(part, left):
                    pieces.setdefault(component, []).append(mine)
            gone = self.mesh.comm.allreduce(len(left))
            if gone:
                whole = False
                every = self.mesh.comm.allreduce(len(facets))
                tangential = " (its tangential part)" if self.constrained else ""
                self.released[part] = (
                    f"{part if gone == every else f'a part of {part}'}{tangential}"
                )
        if whole:
            return None
        return tuple((component, np.concatenate(found)) for component, found in pieces.items())

    def words(self) -> list[str]:
        """What was released."""
        if not self.released:
            return []
        where = ", ".join(self.released.values())
        return [
            f"values of {self.unknown} are released on {where}, where the remaining equation "
            "cannot carry them"
        ]

    def normal_components(self, part: str, facets: np.ndarray) -> Iterable[tuple[int, np.ndarray]]:
        """The component along the normal of facets that are aligned with the axes."""
        normals = self.normals(facets)[0]
        along = np.abs(normals) > 1 - 1e-8
        aligned = int(np.all(along.any(axis=1))) if len(facets) else 1
        if not self.mesh.comm.allreduce(aligned, op=_minimum()):
            raise NotJudged(
                f"the normal component alone cannot be kept on {part}, which is not aligned with "
                "the axes"
            )
        return [(i, facets[along[:, i]]) for i in range(normals.shape[1])]

    def carried_before(self, part: str) -> np.ndarray:
        """For each facet of a part whether the factual equation carries a value there."""
        try:
            if self.before is not None:
                return self.before.carried(part)
        except NotJudged:
            self.before = None
        return np.ones(len(self.boundary.facets[part]), dtype=bool)

    def carried(self, part: str) -> np.ndarray:
        """For each facet of a part whether it carries a value."""
        if part not in self._judged:
            facets = self.boundary.facets[part]
            normals, middles = self.normals(facets)
            places = Places(middles, self.cells(facets))
            values = self.boundary_values(part)
            carried = self.diffusive(normals, places, values)
            if self.mesh.comm.allreduce(int(not carried.all())):
                transport = [entry.xreplace(values) for entry in self.symbol.transport]
                # Where the transport turns in time, values are needed while it enters.
                steady = not any(map(changes_in_time, transport))
                for time in self.times[:1] if steady else self.times:
                    carried = carried | self.inflow(transport, normals, places, float(time))
            self._judged[part] = carried
        return self._judged[part]

    def diffusive(
        self, normals: np.ndarray, places: Places, values: Mapping[sp.Symbol, np.ndarray]
    ) -> np.ndarray:
        """Whether n·A n is not zero at some time. A steady equation may be written with either
        sign; one in time with the wrong one is not solved at all.
        """
        dim = normals.shape[1]
        pairs = [(i, j) for i in range(dim) for j in range(dim) if self.symbol.diffusion[i, j] != 0]
        written = {pair: self.symbol.diffusion[pair].xreplace(values) for pair in pairs}
        moving = any(map(changes_in_time, written.values()))
        found, largest = np.zeros(len(normals)), np.zeros(len(normals))
        for time in (self.times if moving else self.times[:1]) if pairs else ():
            along = np.zeros(len(normals))
            for (i, j), expr in written.items():
                entry = self.numbers(expr, places, float(time))
                along += normals[:, i] * normals[:, j] * entry
                largest = np.maximum(largest, np.abs(entry))
            found = np.maximum(found, np.abs(along))
        return found > ROUNDING * self.largest(largest)

    def inflow(
        self, transport: list[sp.Expr], normals: np.ndarray, places: Places, time: float
    ) -> np.ndarray:
        """Whether b·n is negative at a time."""
        values = [self.numbers(entry, places, time) for entry in transport]
        through = sum(normals[:, i] * value for i, value in enumerate(values))
        size = self.largest(np.sqrt(sum(value**2 for value in values)))
        return np.asarray(through) < -ROUNDING * size

    def largest(self, values: np.ndarray) -> float:
        """The largest value on all ranks."""
        return float(self.mesh.comm.allreduce(float(np.max(values, initial=0.0)), op=_maximum()))

    def numbers(self, entry: sp.Expr, places: Places, time: float) -> np.ndarray:
        """An expression in the coordinates and known fields at the middles of facets."""
        try:
            return numbers(entry, self.discretisation.known, places.middles, places.cells, time)
        except NoNumbers as unknown:
            raise NotJudged(
                f"its transport depends on {unknown}, which is not known on the boundary"
            ) from None

    def cells(self, facets: np.ndarray) -> np.ndarray:
        """The cell at each facet of the boundary."""
        topology = self.mesh.topology
        topology.create_connectivity(topology.dim - 1, topology.dim)
        to_cells = topology.connectivity(topology.dim - 1, topology.dim)
        return np.array([to_cells.links(f)[0] for f in facets], dtype=np.int32)

    def boundary_values(self, part: str) -> dict[Hashable, sp.Expr]:
        """The fields whose values are prescribed on a part by expressions."""
        found: dict[Hashable, sp.Expr] = {}
        for condition in self.boundary.conditions[part]:
            value = condition.value
            if not isinstance(condition, Dirichlet) or not isinstance(
                value, int | float | tuple | sp.Basic
            ):
                continue
            unknown = condition.field
            if isinstance(unknown, VectorField):
                entries = (
                    (0,) * unknown.dim
                    if value == 0
                    else value
                    if isinstance(value, tuple)
                    else as_expr(value).args
                )
                found |= {unknown[i]: sp.sympify(entry) for i, entry in enumerate(entries)}
            else:
                found[unknown] = sp.sympify(value)
        return found

    def normals(self, facets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Outer unit normals and middles of facets of the boundary."""
        from dolfinx import mesh as dolfinx_mesh

        topology, geometry = self.mesh.topology, self.mesh.geometry
        below, whole = topology.dim - 1, topology.dim
        topology.create_connectivity(whole, below)
        cells = self.cells(facets)
        middles = dolfinx_mesh.compute_midpoints(self.mesh, below, facets.astype(np.int32))
        outwards = middles - dolfinx_mesh.compute_midpoints(self.mesh, whole, cells)
        if whole == 1:
            normals = outwards
        else:
            from dolfinx.cpp.mesh import cell_normals

            normals = cell_normals(self.mesh._cpp_object, below, facets.astype(np.int32))
            normals = normals * np.sign(np.sum(normals * outwards, axis=1, keepdims=True))
        lengths = np.linalg.norm(normals, axis=1, keepdims=True)
        return (normals / np.where(lengths > 0, lengths, 1.0))[:, : geometry.dim], middles


def changes_in_time(entry: sp.Expr) -> bool:
    """Whether an expression may have other values at other times.

    Example:
        >>> changes_in_time(SPACE[0] ** 2), changes_in_time(SPACE[0] * t)
        (False, True)
    """
    return entry.has(t) or bool(entry.atoms(Known, KnownEntry))


def _maximum() -> MPI.Op:
    from mpi4py import MPI

    return MPI.MAX


def _minimum() -> MPI.Op:
    from mpi4py import MPI

    return MPI.MIN
