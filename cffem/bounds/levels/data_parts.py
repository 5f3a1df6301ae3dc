# SPDX-License-Identifier: MIT
"""Where the data of a model are: cells, cells beside the boundary, functions in terms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import basix
import numpy as np
import sympy as sp

from cffem._compat import cell_geometry, exterior_facets, straight_simplices
from cffem.bounds.certificate import NotCovered
from cffem.bounds.enclosed.pieces import CELLS, Simplices
from cffem.bounds.enclosed.sources import SeparatedSource, Sources, taken_apart
from cffem.bounds.levels.level_gaps import Gaps
from cffem.engine.inputs.numeric import numeric
from cffem.symbols.algebra.shapes import shape_of
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.fields import Field
from cffem.symbols.known import Known

if TYPE_CHECKING:
    from basix.ufl import _ElementBase
    from dolfinx.mesh import Mesh

    from cffem.engine.model import Model


@dataclass(frozen=True)
class Looking:
    """How data of levels are compared.

    A jump is the roughest thing that levels resolve: what they miss of it in L2 shrinks by
    s = 2^−1/2 a level, or grows by 2^1/2 with the size that finer cells see of a spike that both
    miss. The limits follow from these two, but for `growth`.

    Attributes:
        most: ρ is at most this many times the largest gap, however slowly gaps shrink; for a jump
            κ s/(1 − s) is 3.6.
        gained: quadrature on the finest level that errs by this many times what the last level has
            gained is resolved; for a jump that is s/(1 − s) = 2.4, and a quarter more is allowed.
        visible: what the finest level misses of data is seen by its gaps only below this share of
            them; a jump in one of twelve layers of cells, three divided twice, has at most
            1/2 · 12^−1/2 = 0.144.
        growing: coefficients and boundary values are not seen, either, where the finest level
            misses this many times as much of them as the one before: more than a constant share,
            which lies in the middle between jumps, 0.71, and missed spikes, 1.41.
        growth: a factor for what a problem makes of data, beyond the estimate for one that does not
            amplify: a choice, which covers a growth rate of 0.7 over the length of the window, and
            no theorem.
        negligible: distances below this share of the data are rounding errors.
        moments: at how many times a moving forcing is looked at in space.
        cancelling: a forcing is finer than the cells where more than this share of it cancels
            around their vertices; of what a mesh resolves, nothing does but along the lines where
            it changes its sign.
    """

    most: float = 4.0
    gained: float = 3.0
    visible: float = 0.15
    growing: float = 1.15
    growth: float = 2.0
    negligible: float = 1e-9
    moments: int = 5
    cancelling: float = 0.5


LOOKING = Looking()


def simplices(mesh: Mesh) -> Simplices:
    """The cells of a mesh.

    Raises:
        NotCovered: they are no straight simplices that fill their space.
    """
    dim = mesh.topology.dim
    if not straight_simplices(mesh) or mesh.geometry.dim != dim:
        raise NotCovered("the cells are no straight simplices")
    mine = mesh.topology.index_map(dim).size_local
    return Simplices(mesh, dim, mesh.geometry.x[cell_geometry(mesh)[0][:mine], :dim])


def given_functions(expr: sp.Expr) -> list[sp.Expr]:
    """The largest parts of a term that are functions of place and time alone and no polynomials.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> given_functions(sp.exp(cf.x) * u.diff(cf.x) + cf.y * u)
        [exp(x)]
    """
    if not isinstance(expr, sp.Basic):
        return []
    scalar = isinstance(expr, sp.Expr) and shape_of(expr) == ()
    if scalar and not expr.has(Field, Known, sp.Derivative):
        places = {*SPACE, t}
        plain = not expr.free_symbols & places or bool(expr.is_polynomial(*places))
        return [] if plain or expr.free_symbols - places else [expr]
    given = [
        arg
        for arg in expr.args
        if isinstance(arg, sp.Expr) and not arg.has(Field, Known) and shape_of(arg) == ()
    ]
    if isinstance(expr, sp.Mul) and given:
        rest = [arg for arg in expr.args if arg not in given]
        return given_functions(sp.Mul(*given)) + [
            part for arg in rest for part in given_functions(arg)
        ]
    return [part for arg in expr.args for part in given_functions(arg)]


def elements_of(model: Model) -> list[_ElementBase]:
    return [model.spaces.own(unknown)[0].element for unknown in model.discretisation.unknowns]


def boundary_cells(cells: Simplices) -> np.ndarray:
    """The corners of the cells with a facet on the boundary."""
    topology, dim = cells.mesh.topology, cells.dim
    topology.create_connectivity(dim - 1, dim)
    links = topology.connectivity(dim - 1, dim)
    found = {int(cell) for facet in exterior_facets(cells.mesh) for cell in links.links(facet)}
    return cells.corners[sorted(cell for cell in found if cell < len(cells.corners))]


def expected_beyond(way: str, gaps: Sequence[float], degree: int = 1) -> float:
    """ρ, what the gaps between three levels leave to be expected beyond the finest."""
    first, second = gaps
    found = Gaps(way, first, second, first + second, degree=degree).rest
    return min(found, LOOKING.most * max(gaps))


def beyond_expected(distance: float, expected: float, size: float) -> float:
    """(e − ρ)₊, nothing where it is a rounding error."""
    missed = distance - expected
    return missed if missed > LOOKING.negligible * size else 0.0


def projection_misses(
    sources: Sources, entry: sp.Expr, exact: int, moments: np.ndarray
) -> tuple[float, float]:
    """How far projections by a plain rule are from Π s, and the size of Π s, integrated over
    time.
    """
    apart = taken_apart(entry) if entry.has(t) else {entry: sp.S.One}
    length = max(float(moments[-1] - moments[0]), 0.0) or 1.0
    if apart is None:
        pairs = [(entry, float(when), length / len(moments)) for when in moments]
    else:
        with np.errstate(all="ignore"):
            weights = [
                np.abs([float(numeric(f, (t,))(float(s))) for s in moments]) for f in apart.values()
            ]
        factor = 1.0 if len(moments) < 2 or moments[-1] == moments[0] else length
        pairs = [(s, 0.0, factor * float(w.mean())) for s, w in zip(apart, weights, strict=True)]
    missed = size = 0.0
    for shape, when, weight in pairs:
        found = SeparatedSource(sources, [sp.S.One], sources.resolved([shape], when))
        points, shares = basix.make_quadrature(CELLS[sources.dim], exact)
        basis = basix.tabulate_polynomials(
            basix.PolynomialType.legendre, CELLS[sources.dim], sources.degree, points
        )
        barycentric = np.column_stack([1 - points.sum(axis=1), points])
        places = [sources.corners[:, :, axis] @ barycentric.T for axis in range(sources.dim)]
        with np.errstate(all="ignore"):
            raw = numeric(shape, (*SPACE[: sources.dim], t))(*places, when)
        values = np.broadcast_to(np.asarray(raw, dtype=float), (len(sources.corners), len(shares)))
        gap = ((shares * basis) @ values.T - found.moments[0]) ** 2
        gap = sources.comm.allreduce(float(gap.sum(axis=0) @ sources.volume))
        missed += weight * math.sqrt(gap)
        inside = sources.comm.allreduce(float((found.moments[0] ** 2).sum(axis=0) @ sources.volume))
        size += weight * math.sqrt(inside)
    return missed, size
