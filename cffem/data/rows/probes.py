# SPDX-License-Identifier: MIT
"""Probes: common terms that a library does not contain, evaluated along with it to notice that a
true term is missing.

A model fitted without one of its true terms can look perfect on the data at hand, because the
remaining terms mimic the missing one. If some common term outside the library fits decisively
better, the library is incomplete, and the screen must say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from cffem.data.rows.conservation import Order
from cffem.data.rows.integrands import contributions
from cffem.symbols.algebra.components import to_components
from cffem.symbols.coordinates import SPACE
from cffem.symbols.fields import ScalarField
from cffem.symbols.operators import lap
from cffem.symbols.problem.library import CandidateTerms


@dataclass(frozen=True)
class ProbeSettings:
    """Which common terms are tried.

    Args:
        powers: highest power of the unknown.
        orders: highest order of a derivative.
    """

    powers: int = 3
    orders: int = 4


PROBE_TERMS = ProbeSettings()


def probe_terms(
    library: CandidateTerms, dim: int, most: Order = (PROBE_TERMS.orders,) * 4
) -> dict[str, sp.Expr]:
    """Polynomials of a scalar unknown and their derivatives that the library lacks; nothing for
    vector equations.

    Args:
        library: candidate terms and anchor.
        dim: dimension of space.
        most: highest derivative along x, y, z and t that the data can carry.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(anchor=cf.dt(u), terms={"u": u, "u_x": u.diff(cf.x)})
        >>> list(probe_terms(library, 1))[:3]
        ['probe u_xx', 'probe u_xxx', 'probe u_xxxx']
    """
    time_only, dim = dim == 0, max(1, dim)
    anchor = to_components(library.anchor, dim)
    fields = {f for entry in anchor for f in entry.atoms(ScalarField)}
    if len(anchor) != 1 or len(fields) != 1:
        return {}
    unknown = fields.pop()
    # The anchor explains itself, and so do the derivatives of a steady equation: u_xx = −4u has
    # u_xxxx = −4u_xx.
    known = {signature(term, dim) for term in (library.anchor, *library.terms.values())}
    highest = tuple(
        map(max, zip(*(c.order for c in contributions(library.anchor, dim, None)[0]), strict=True))
    )
    least = PROBE_TERMS.orders if highest[3] else sum(highest) - 1

    def offered(term: sp.Expr) -> bool:
        orders = [c.order for c in contributions(term, dim, None)[0]]
        carried = all(n <= limit for order in orders for n, limit in zip(order, most, strict=True))
        return carried and max(map(sum, orders)) <= least and signature(term, dim) not in known

    return {
        name: term
        for name, term in common_terms(unknown, 0 if time_only else dim).items()
        if offered(term)
    }


@lru_cache(maxsize=64)
def common_terms(unknown: ScalarField, dim: int) -> dict[str, sp.Expr]:
    """Powers of the unknown, their derivatives (1D) or their gradient components and
    Laplacians (2D, 3D).
    """
    terms: dict[str, sp.Expr] = {}
    for power in range(1, PROBE_TERMS.powers + 1):
        base = unknown**power
        label = f"{unknown}" if power == 1 else f"({unknown}^{power})"
        terms[f"probe {label}"] = base
        if dim == 0:
            continue
        if dim == 1:
            for order in range(1, PROBE_TERMS.orders + 1):
                terms[f"probe {label}_{'x' * order}"] = base.diff(SPACE[0], order)
        else:
            for axis in SPACE[:dim]:
                terms[f"probe {label}_{axis}"] = base.diff(axis)
            terms[f"probe lap {label}"] = lap(base)
    return terms


@lru_cache(maxsize=4096)
def signature(term: sp.Expr, dim: int) -> frozenset:
    """What a scalar term integrates, up to a common factor: equal for terms whose columns are
    proportional.
    """
    (parts,) = contributions(term, dim, None)
    if not parts:
        return frozenset()
    ordered = sorted(parts, key=lambda c: (c.order, str(c.core)))
    return frozenset(
        (c.core, c.order, round(c.coefficient / ordered[0].coefficient, 9)) for c in ordered
    )
