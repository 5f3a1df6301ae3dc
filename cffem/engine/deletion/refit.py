# SPDX-License-Identifier: MIT
"""Deletion with refitting: the other coefficients make up for the deleted term as well as they can.

On the factual solution anchor[u] − f = Σ_k α_k T_k[u], so regressing the left side on the remaining
terms of an equation is regressing Σ_k α_k T_k[u] on them: the coefficients move from α by the
projection of α_j T_j[u] onto their span,

    β = α + argmin_δ ‖α_j T_j[u] − Σ_{k≠j} δ_k T_k[u]‖   in L2(Ω×(0,T)),

with the inner products of the residual contributions C_j. Nothing but the deletion moves them:
refitting without deleting gives α. Remaining terms that are combinations of one another on this
solution share the change, by the least one in units of C_k; terms that vanish on it up to round-off
keep their coefficients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.response.residual_scores import DEPENDENT, factual_gram
from cffem.symbols.errors import InputError
from cffem.symbols.problem.interventions import CARRIED, Intervention, delete
from cffem.symbols.problem.interventions import set as set_coefficient

if TYPE_CHECKING:
    from cffem.engine.model import Model

REFITS = ("none", "remaining")
# A contribution smaller than this, relative to the largest of its equation, is round-off: nothing
# can be fitted with it.
VANISHING = 1e-10
Refit = str | Mapping[str, Mapping[str, float]]


def refitted(model: Model, names: Iterable[str]) -> dict[str, dict[str, float]]:
    """For each deleted term the coefficients of all terms, those of the remaining active ones
    refitted.

    Args:
        model: the model; its factual solution is the data.
        names: the terms, deleted one at a time.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_interval
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u), "u": u, "u^2": u**2})
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_interval(MPI.COMM_SELF, 8), elements={u: ("Lagrange", 2)},
        ...     boundary=[cf.Neumann(u, 0)], forcing={u: 6})
        >>> model = cf.Model(
        ...     library, {"lap": 1.0, "u": -1.0, "u^2": -1.0}, experiment
        ... )  # u = 2, so u² = 2 u
        >>> {name: round(value, 6) for name, value in model.refitted("u").items()}
        {'lap': 1.0, 'u': 0.0, 'u^2': -1.5}
    """
    samples, gram = factual_gram(model)
    active = list(samples.names)
    sizes = np.sqrt(np.diag(gram))
    scale = np.where(sizes > 0, sizes, 1.0)
    normal = gram / np.outer(scale, scale)
    contributions = sizes * np.abs([model.coefficients[name] for name in active])
    result = {}
    for name in names:
        coefficients = delete(name).apply(model.coefficients)
        if name in active:
            j = active.index(name)
            mine = [
                k for k, other in enumerate(active) if samples.fields[other] == samples.fields[name]
            ]
            least = VANISHING * contributions[mine].max()
            rest = [k for k in mine if k != j and contributions[k] > least]
            wanted = normal[rest, j] * scale[j] * model.coefficients[name]
            change = (
                np.linalg.pinv(normal[np.ix_(rest, rest)], rcond=DEPENDENT, hermitian=True) @ wanted
            )
            for k, value in zip(rest, change / scale[rest], strict=True):
                coefficients[active[k]] += float(value)
        result[name] = coefficients
    return result


def deleting(
    model: Model, names: tuple[str, ...], refit: Refit, conditions: str = CARRIED
) -> dict[str, Intervention]:
    """The intervention that deletes each term under a refit policy.

    Args:
        model: the model.
        names: the terms.
        refit: "none", the others keep their coefficients; "remaining", they are refitted on the
            factual solution; or for each deleted term the coefficients of others, from a regression
            of one's own.
        conditions: what becomes of essential conditions, see `delete`.

    Raises:
        InputError: no such policy, or coefficients are missing or not finite.
    """
    alone = {name: delete(name, conditions=conditions) for name in names}
    for change in alone.values():
        change.apply(model.coefficients)  # an unknown name is an error before anything is solved
    if isinstance(refit, str):
        if refit not in REFITS:
            raise InputError(
                f"unknown refit {refit!r}; there are 'none', 'remaining', or coefficients for "
                "each deleted term"
            )
        if refit == "none":
            return alone
        refit = refitted(model, names)
    missing = [name for name in names if name not in refit]
    if missing:
        raise InputError(
            f"the refitted coefficients for the deletion of {missing[0]!r} are missing"
        )
    changes = {}
    for name, change in alone.items():
        for other, value in refit[name].items():
            if other != name and value != model.coefficients.get(other):
                change = change & set_coefficient(other, value)
        change.apply(model.coefficients)
        changes[name] = change
    return changes
