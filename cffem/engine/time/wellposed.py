# SPDX-License-Identifier: MIT
"""Whether an equation runs backward in time: dt(u) = −0.1 lap(u) makes the finest ripples grow
fastest.

The highest derivatives of Σ_j α_j T_j make up its principal symbol: σ(ξ) = Σ_kl A_kl ξ_k ξ_l for
second ones. Where σ(ξ) has an eigenvalue with negative real part for some direction ξ at some place
and time, solutions of dt(u) = Σ_j α_j T_j do not depend continuously on their data (Hadamard,
Petrovskii), and the same holds for dt(dt(u)). With a positive weight of the rate it is so as well.
Only what is certain is told:

* the coefficients of the highest derivatives, the second or the fourth ones, are numbers, or
  functions of place and time, known fields included, which are looked at in every cell;
* in a vector equation with a constraint every polarisation grows, so that the constraint cannot
  forbid it;
* equations of a System are judged together where the highest derivatives couple them, and not at
  all where one of them has no rate.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from cffem.engine.inputs.place_values import NoNumbers
from cffem.engine.time.anchor_weights import place_values
from cffem.engine.time.boundary_rates import why_wall_grows
from cffem.engine.time.in_parts import admit, spell_ends
from cffem.symbols.algebra.analysis import canonical, jet
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Component, Field, VectorField
from cffem.symbols.form_terms import FormTerm
from cffem.symbols.operators import Inverse
from cffem.symbols.restricted import Indicator, split_parts

if TYPE_CHECKING:
    from cffem.engine.inputs.place_values import PlaceValues
    from cffem.engine.model import Model
    from cffem.symbols.problem.interventions import Intervention
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System

# Relative to the largest coefficient, what is smaller is zero up to rounding errors.
ROUNDING = 1e-12
# Relative to the largest entry, differences to the transposed matrix that are rounding errors.
SYMMETRIC = 1e-14
# Directions ξ in which symbols of vector equations are tried beside the axes and diagonals.
DIRECTIONS = 32
# Coefficients that are this many functions of the place at most are looked at by their ends first.
FUNCTIONS = 5


class NotCertain(Exception):
    """The symbol says nothing for certain."""


# Asked of a model
# --------------------------------------------------------------------------------------------------


def backward_model(model: Model, coefficients: Mapping[str, float] | None = None) -> str:
    """Why a model with these coefficients (default: its own) runs backward in time; empty where it
    is not certain to do so. Collective.
    """
    if model.experiment.time is None:
        return ""
    constrained = model.experiment.constraint is not None
    discretisation = model.discretisation
    places = place_values(model)
    surfaces = {*discretisation.boundary.tags, *discretisation.boundary.surfaces}
    chosen = model.coefficients if coefficients is None else coefficients
    dim = discretisation.mesh.geometry.dim
    # Most deletions leave second derivatives as they are, of which the answer is known then.
    known: dict[Hashable, str] = model.once("backward in time", dict)
    words = why_backward(
        model.library, chosen, dim, places, constrained, frozenset(surfaces), known
    )
    return words or why_wall_grows(model, chosen)


def backward_change(model: Model, change: Intervention) -> str:
    """Why the problem that an intervention makes of a model runs backward in time, at some time;
    empty where it is not certain to do so. Collective.
    """
    if model.experiment.time is None:
        return ""
    admit(model, change)
    ends = spell_ends(model, change)
    for part in [change.between(a, b) for a, b in pairwise(ends)] or [change]:
        words = backward_model(model, part.apply(model.coefficients))
        if words:
            return words
    return ""


def check_model_direction(model: Model, coefficients: Mapping[str, float]) -> None:
    """Refuse coefficients with which a model runs backward in time; collective.

    Raises:
        InputError: it does; the message names the terms.
    """
    words = backward_model(model, coefficients)
    if words:
        raise InputError(f"{words}; change the sign")


# Symbols
# --------------------------------------------------------------------------------------------------


def why_backward(
    library: Library | System,
    coefficients: Mapping[str, float],
    dim: int,
    places: PlaceValues | None = None,
    constrained: bool = False,
    surfaces: frozenset[str] = frozenset(),
    known: dict[Hashable, str] | None = None,
) -> str:
    """Why a library with these coefficients runs backward in time; empty where it is not certain to
    do so.

    Args:
        library: a `Library` or `System`.
        coefficients: α_j by term name.
        dim: the dimension of space.
        places: where coefficients that are functions are looked at; without it they are not.
        constrained: whether a constraint may forbid some polarisations.
        surfaces: parts that are no subdomains, where terms are integrals over facets.
        known: what was found for the same places and other coefficients; more is added.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(
        ...     anchor=cf.dt(u), terms={"lap": cf.lap(u), "steep": -u.diff(cf.x, 2)}
        ... )
        >>> why_backward(library, {"lap": 1.0, "steep": 0.1}, 2)
        ''
        >>> why_backward(library, {"lap": 0.0, "steep": 0.1}, 2)[:72]
        'the coefficients make the second derivatives of u negative (0.1 steep): '
    """
    if not library.time_order:
        return ""
    active = {name: float(value) for name, value in coefficients.items() if value}
    values = {symbol: v for symbol, v in library.parameters.items() if v is not None}
    terms = {
        name: _inside(library[name].xreplace(values), surfaces)
        for name in active
        if not library[name].has(FormTerm)
    }
    forms = {library.locate(name)[0] for name in active if name not in terms}
    for fields in _coupled(library, terms, dim):
        if forms & {*fields}:
            continue  # whose derivatives no formula tells
        try:
            words = _judged(library, fields, terms, active, dim, places, constrained, known)
        except (NotCertain, NoNumbers):
            continue
        if words:
            return words
    return ""


def _inside(term: sp.Expr, surfaces: frozenset[str]) -> sp.Expr:
    """What of a term acts inside the domain, in a subdomain times its indicator."""
    plain, parts = split_parts(term)
    return sp.Add(plain, *(Indicator(p) * inner for p, inner in parts.items() if p not in surfaces))


def _base(value: sp.Expr) -> Field:
    expr = getattr(value, "expr", value)
    return expr.field if isinstance(expr, Component) else expr


def _order(value: sp.Expr) -> tuple[int, int]:
    """Orders in space and time of a derivative."""
    counts = dict(getattr(value, "variable_count", ()))
    in_time = int(counts.get(t, 0))
    return int(sum(counts.values())) - in_time, in_time


def _coupled(
    library: Library | System, terms: Mapping[str, sp.Expr], dim: int
) -> list[tuple[Field, ...]]:
    """The fields in groups that second or higher derivatives couple."""
    groups = {unknown: {unknown} for unknown in library.unknowns}
    for name, term in terms.items():
        home = library.locate(name)[0]
        for value in () if term.has(Inverse) else jet(canonical(term, dim)):
            other = _base(value)
            if _order(value)[0] > 1 and other in groups and groups[other] is not groups[home]:
                groups[home] |= groups[other]
                for member in groups[home]:
                    groups[member] = groups[home]
    distinct = {id(group): group for group in groups.values()}
    return [tuple(u for u in library.unknowns if u in group) for group in distinct.values()]


def _judged(
    library: Library | System,
    fields: tuple[Field, ...],
    terms: Mapping[str, sp.Expr],
    active: Mapping[str, float],
    dim: int,
    places: PlaceValues | None,
    constrained: bool,
    known: dict[Hashable, str] | None,
) -> str:
    """Why equations that belong together run backward in time."""
    time_orders = {library.equations[unknown].time_order for unknown in fields}
    if len(time_orders) > 1 or 0 in time_orders:
        return ""
    mine = {name: term for name, term in terms.items() if library.locate(name)[0] in fields}
    for term in mine.values():
        others = {_base(v) for v in ([] if term.has(Inverse) else jet(canonical(term, dim)))}
        if any(f in library.equations and not library.equations[f].time_order for f in others):
            return ""  # what an algebraic field stands for is another equation's business
    parts = tuple(
        unknown[j] if isinstance(unknown, VectorField) else unknown
        for unknown in fields
        for j in range(dim if isinstance(unknown, VectorField) else 1)
    )
    rows = {unknown: _rows_of(unknown, parts) for unknown in fields}
    found = {
        name: principal_symbol(term, rows[library.locate(name)[0]], parts, dim)
        for name, term in mine.items()
    }
    entries = [entry for symbol in found.values() for entry in symbol]
    rates = max((entry[1] for entry in entries), default=0)
    if rates and time_orders == {1}:
        return ""  # dt(u) − lap(dt(u)) = … has no fastest growth
    # Diffusion of a rate outweighs what stands without it, if its sign is right.
    found = {name: tuple(e for e in symbol if e[1] == rates) for name, symbol in found.items()}
    order = max((entry[0] for symbol in found.values() for entry in symbol), default=0)
    if order not in (2, 4):
        return ""  # first derivatives are no diffusion, and third ones disperse
    second = {name: symbol for name, symbol in found.items() if any(e[0] == order for e in symbol)}
    memory = {} if known is None else known
    key = fields, order, rates, tuple((name, active[name]) for name in second)
    if key not in memory:
        memory[key] = _negative(fields, parts, second, active, order, dim, places, constrained)
    return memory[key]


def _rows_of(unknown: Field, parts: tuple[sp.Expr, ...]) -> tuple[int, ...]:
    return tuple(i for i, part in enumerate(parts) if _base(part) == unknown)


Key = tuple[int, int, tuple[int, ...]]  # row, part, variables
Table = dict[Key, np.ndarray]  # coefficients at each time and point
Entry = tuple[int, int, int, int, tuple[int, ...], sp.Expr]


@lru_cache(maxsize=1024)
def principal_symbol(
    term: sp.Expr, rows: tuple[int, ...], parts: tuple[sp.Expr, ...], dim: int
) -> tuple[Entry, ...]:
    """The derivatives of second and higher order in a term: order in space and in time, row, part,
    the variables by number, and the coefficient.

    Raises:
        NotCertain: a coefficient depends on the unknowns, or the term is not expanded.
    """
    if term.has(Inverse):
        raise NotCertain
    entries = canonical(term, dim)
    if not any(entries):
        return ()  # a term on surfaces, or zero as it is written
    found: list[Entry] = []
    dummies = {value: sp.Dummy() for value in jet(entries)}
    for row, entry in zip(rows, entries, strict=True):
        plain = entry.xreplace(dummies)
        for value, dummy in dummies.items():
            in_space, in_time = _order(value)
            if in_space < 2:
                continue
            slope = sp.expand(plain.diff(dummy))
            if slope == 0:
                continue
            if slope.atoms(sp.Dummy) & {*dummies.values()} or value.expr not in parts:
                raise NotCertain
            variables = tuple(SPACE.index(v) for v in value.variables if v != t)
            found.append((in_space, in_time, row, parts.index(value.expr), variables, slope))
    return tuple(found)


def _negative(
    fields: tuple[Field, ...],
    parts: tuple[sp.Expr, ...],
    found: Mapping[str, tuple[Entry, ...]],
    active: Mapping[str, float],
    order: int,
    dim: int,
    places: PlaceValues | None,
    constrained: bool,
) -> str:
    """Where the symbol has the wrong sign, in words."""
    tables = _tables(found, active, order, lambda slope: _values(slope, places))
    scale = _scale(tables, places)
    if _positive_at_ends(found, active, order, dim, len(parts), places, scale):
        return ""
    least, where = np.inf, ""
    guilty: list[str] = []
    for growth in _growths(tables.values(), len(parts), order, dim, constrained):
        here, place = _least(growth.values, places)
        if here < min(least, -ROUNDING * scale):
            least, where = here, place
            alone = {name: growth.of(table) for name, table in tables.items()}
            guilty = [
                f"{active[name]:g} {name}"
                for name, values in alone.items()
                if _least(values, places)[0] < -ROUNDING * scale
            ]
    if least == np.inf:
        return ""
    guilty = guilty or [f"{active[name]:g} {name}" for name in tables]
    return (
        f"the coefficients make the {'second' if order == 2 else 'fourth'} derivatives of "
        f"{' and '.join(map(str, fields))} {'negative' if order == 2 else 'positive'}{where} "
        f"({', '.join(guilty)}): such an equation runs backward in time, and its finest ripples "
        "grow without bound"
    )


def _tables(
    found: Mapping[str, tuple[Entry, ...]],
    active: Mapping[str, float],
    order: int,
    values_of: Callable[[sp.Expr], np.ndarray],
) -> dict[str, Table]:
    """The highest derivatives of each term, so that all symbols have to be positive."""
    # dt(u) = A ∂∂u needs A ≥ 0, and dt(u) = B ∂∂∂∂u needs B ≤ 0.
    sign = 1.0 if order == 2 else -1.0
    tables: dict[str, Table] = {}
    for name, entries in found.items():
        for in_space, _, row, part, variables, slope in entries:
            if in_space == order:
                table, key = tables.setdefault(name, {}), (row, part, variables)
                values = sign * active[name] * values_of(slope)
                table[key] = table[key] + values if key in table else values
    return tables


def _scale(tables: Mapping[str, Table], places: PlaceValues | None) -> float:
    sizes = [np.abs(v).max(initial=0.0) for table in tables.values() for v in table.values()]
    scale = float(max(sizes, default=0.0))
    return scale if places is None else places.largest(np.array([scale]))


def _positive_at_ends(
    found: Mapping[str, tuple[Entry, ...]],
    active: Mapping[str, float],
    order: int,
    dim: int,
    size: int,
    places: PlaceValues | None,
    scale: float,
) -> bool:
    """Whether symbols are positive wherever their functions of the place are between their least
    and their largest values; collective.

    The symbol is linear in these functions, and the least eigenvalue of its symmetric part, which
    no real part of an eigenvalue is below, is concave: it is least where all are at their ends.
    """
    slopes = {e[5] for entries in found.values() for e in entries if e[0] == order}
    moving = {slope.as_coeff_Mul()[1] for slope in slopes if not slope.is_number}
    functions = sorted(moving, key=sp.default_sort_key)
    if places is None or len(functions) > FUNCTIONS:
        return False
    ends = {each: _ends(places(each), places) for each in functions}
    corners = np.array(list(product(*ends.values())), dtype=float)

    def at_corners(slope: sp.Expr) -> np.ndarray:
        factor, function = slope.as_coeff_Mul()
        if slope.is_number:
            return np.full((1, 1), float(slope))
        return float(factor) * corners[None, :, functions.index(function)]

    tables = _tables(found, active, order, at_corners)
    for matrix in _symbols(tables.values(), size, order, dim):
        symmetric = (matrix + np.swapaxes(matrix, -1, -2)) / 2
        if np.linalg.eigvalsh(symmetric)[..., 0].min() < -ROUNDING * scale:
            return False
    return True


def _ends(values: np.ndarray, places: PlaceValues) -> tuple[float, float]:
    """The least and the largest value on all ranks; collective."""
    return places.least(values)[0], -places.least(-values)[0]


def _symbols(tables: Iterable[Table], size: int, order: int, dim: int) -> Iterator[np.ndarray]:
    """The symbol in every direction that is looked at, or A itself of one scalar equation."""
    if size == 1 and order == 2:
        yield _matrix(tables, dim, lambda key: (key[2], 1.0))
        return
    for direction in _directions(dim):
        shares = {key: float(np.prod(direction[list(key[2])])) for t in tables for key in t}
        yield _matrix(tables, size, lambda key, shares=shares: (key[:2], shares[key]))


def _values(slope: sp.Expr, places: PlaceValues | None) -> np.ndarray:
    if slope.is_number:
        return np.full((1, 1), float(slope))
    if places is None:
        raise NotCertain
    return places(slope)


def _least(values: np.ndarray, places: PlaceValues | None) -> tuple[float, str]:
    return (float(values.min()), "") if places is None else places.least(values)


@dataclass(frozen=True)
class SymbolGrowth:
    """Minus the rate at which ripples grow, divided by a power of their number, at each time and
    point.

    Attributes:
        values: of the whole symbol.
        of: the same of the symbol of one term.
    """

    values: np.ndarray
    of: Callable[[Table], np.ndarray]


def _growths(
    tables: Iterable[Table], size: int, order: int, dim: int, constrained: bool
) -> Iterator[SymbolGrowth]:
    """For one scalar equation of second order the least eigenvalue of A; else the least real part
    of an eigenvalue of σ(ξ) for some directions ξ, or where a constraint may forbid some
    polarisations, the largest eigenvalue of its symmetric part.
    """
    every = list(tables)
    if size == 1 and order == 2:

        def form(*chosen: Table) -> np.ndarray:
            matrix = _matrix(chosen, dim, lambda key: (key[2], 1.0))
            return np.asarray(
                np.linalg.eigvalsh((matrix + np.swapaxes(matrix, -1, -2)) / 2)[..., 0]
            )

        yield SymbolGrowth(form(*every), form)
        return
    for direction in _directions(dim):

        def along(*chosen: Table, direction: np.ndarray = direction) -> np.ndarray:
            matrix = _matrix(
                chosen, size, lambda key: (key[:2], float(np.prod(direction[list(key[2])])))
            )
            if constrained:
                symmetric = (matrix + np.swapaxes(matrix, -1, -2)) / 2
                return np.asarray(np.linalg.eigvalsh(symmetric)[..., -1])
            return _least_real_part(matrix)

        def trace(table: Table, direction: np.ndarray = direction) -> np.ndarray:
            matrix = _matrix(
                [table], size, lambda key: (key[:2], float(np.prod(direction[list(key[2])])))
            )
            return _least_real_part(matrix)

        yield SymbolGrowth(along(*every), trace)


def _least_real_part(matrix: np.ndarray) -> np.ndarray:
    """The least real part of an eigenvalue of matrices; symmetric ones take a fifth of the time."""
    turned = np.swapaxes(matrix, -1, -2)
    if np.abs(matrix - turned).max(initial=0.0) <= SYMMETRIC * np.abs(matrix).max(initial=0.0):
        return np.asarray(np.linalg.eigvalsh((matrix + turned) / 2)[..., 0])
    return np.asarray(np.linalg.eigvals(matrix).real.min(axis=-1))


def _matrix(
    tables: Iterable[Table],
    size: int,
    place: Callable[[Key], tuple[tuple[int, ...], float]],
) -> np.ndarray:
    """A matrix at each time and point, from entries with the place of each and a factor."""
    chosen = [(place(key), values) for table in tables for key, values in table.items()]
    shape = np.broadcast_shapes((1, 1), *(values.shape for _, values in chosen))
    matrix = np.zeros((*shape, size, size))
    for ((i, j), factor), values in chosen:
        matrix[..., i, j] += factor * values
    return matrix


@lru_cache(maxsize=8)
def _directions(dim: int) -> tuple[np.ndarray, ...]:
    """Directions ξ, up to their sign: axes, diagonals, and some spread evenly."""
    corners = [d for d in product((-1, 0, 1), repeat=dim) if d > tuple(-c for c in d)]
    found = [np.array(d) / np.linalg.norm(d) for d in corners]
    if dim == 2:
        angles = np.pi * (np.arange(DIRECTIONS) + 0.5) / DIRECTIONS
        found += list(np.column_stack([np.cos(angles), np.sin(angles)]))
    if dim == 3:
        heights = (np.arange(DIRECTIONS) + 0.5) / DIRECTIONS
        angles = np.pi * (1 + 5**0.5) * np.arange(DIRECTIONS)
        radii = np.sqrt(1 - heights**2)
        found += list(np.column_stack([radii * np.cos(angles), radii * np.sin(angles), heights]))
    return tuple(found)
