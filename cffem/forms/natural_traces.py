# SPDX-License-Identifier: MIT
"""The natural trace of a whole equation, and its integral where a condition gives it.

With anchor[u] = Σ_j α_j T_j[u] + forcing, integration by parts leaves ∮ N·v on the right, where N
is the sum of the traces of all terms with their coefficients (that of the anchor with a minus).
Where `Natural(u, g)` says N = g, every term loses its traces and ∮ g·v stands in their place, so
that a coefficient changes what is inside and never the data.

Only what a trace can be is taken from g: its tangential part where all traces are tangential, as
n × curl E is, and its normal part where all are normal, as p n is. Nédélec elements have
tangential, RT and BDM elements normal traces only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sympy as sp

from cffem.forms.elements import HCURL, HDIV
from cffem.forms.parts import Trace
from cffem.symbols.fields import Field
from cffem.symbols.operators import Cross, Vec, component, dot, n, split_scalar

WHOLE, TANGENTIAL, NORMAL = "whole", "tangential", "normal"


def direction_of(trace: sp.Expr, weight: sp.Expr, test: Field) -> str:
    """Whether a trace that meets a test function is tangential, normal, or neither by its form.

    Example:
        >>> import cffem as cf
        >>> E, v, p = cf.VectorField("E", 3), cf.VectorField("v", 3), cf.ScalarField("p")
        >>> direction_of(cf.cross(n, cf.curl(E)), v, v), direction_of(p * n, 2 * v, v)
        ('tangential', 'normal')
        >>> direction_of(cf.dot(cf.grad(E), n), v, v)
        'whole'
    """
    if split_scalar(weight)[1] != test:
        return WHOLE
    found = set()
    for summand in sp.Add.make_args(sp.expand_mul(trace)):
        vector = split_scalar(summand)[1]
        turned = isinstance(vector, Vec) and vector.args == (n[1], -n[0])
        across = isinstance(vector, Cross) and n in vector.args
        found.add(NORMAL if vector == n else TANGENTIAL if turned or across else WHOLE)
    return found.pop() if len(found) == 1 else WHOLE


def common_direction(directions: Iterable[str], space: str) -> str:
    """What the natural trace of an equation can be, on an element of this space."""
    if space in (HCURL, HDIV):
        return TANGENTIAL if space == HCURL else NORMAL
    found = set(directions)
    return found.pop() if len(found) == 1 else WHOLE


def directions(traces: Sequence[Trace], test: Field) -> list[str]:
    """The directions of the traces of a term."""
    return [direction_of(trace, weight, test) for trace, weight in traces]


def given_trace(value: sp.Expr, test: Field, direction: str) -> sp.Expr:
    """The integrand g·v with the part of g that can be a trace.

    Example:
        >>> import cffem as cf
        >>> v, g = cf.VectorField("v", 2), cf.VectorField("g", 2)
        >>> given_trace(g, v, "normal")
        dot(n, g)*dot(n, v)
    """
    if value == 0:
        return sp.S.Zero
    if not test.shape:
        return value * test
    if direction == WHOLE:
        return dot(value, test)
    through = dot(value, n) * dot(n, test)
    return through if direction == NORMAL else dot(value, test) - through


def given_components(values: dict[int, sp.Expr], test: Field) -> sp.Expr:
    """The integrand where single components of the trace are given."""
    return sp.Add(*(value * component(test, index) for index, value in values.items()))
