# SPDX-License-Identifier: MIT
"""Sentences about how a problem was read: what was changed or chosen that the user has not
said, for `model.notes` and reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cffem.forms.interior_penalty import trace_constant

if TYPE_CHECKING:
    from cffem.engine.model import Model


def notes_of(model: Model) -> tuple[str, ...]:
    """What was changed or chosen in a model.

    Args:
        model: the model; what only solves can tell is there after them.
    """
    levels = [model.levels_note] if model.levels_note else []
    return (*levels, *_fluxes(model), *_multiplier_terms(model), *_flux_correction(model))


def _fluxes(model: Model) -> list[str]:
    """Which value terms take between cells."""
    d = model.discretisation
    jumping = [
        name for name, weak in d.weak_terms.items() if weak.jumps and model.coefficients.get(name)
    ]
    upwind, central = (
        [name for name in jumping if (name in d.upwind_terms) == upstream]
        for upstream in (True, False)
    )
    found = [f"{', '.join(upwind)}: the flux between cells is upwind"] if upwind else []
    if central:
        found.append(
            f"{', '.join(central)}: the flux between cells is central, the mean of both sides"
        )
    return found + _laws(model) + _penalties(model) + _streamlines(model)


def _streamlines(model: Model) -> list[str]:
    """Which fields are stabilised, and what deletions keep of it."""
    fields = ", ".join(map(str, model.discretisation.streamlines))
    return (
        [
            f"{fields}: stabilised by SUPG, the residual tested with v + τ b·∇v, and τ b of the "
            "factual equation stays in deletions"
        ]
        if fields
        else []
    )


def _laws(model: Model) -> list[str]:
    """The fluxes of nonlinear conservation laws."""
    d = model.discretisation
    names = [name for name in d.conserved_terms if model.coefficients.get(name)]
    if not names:
        return []
    words = f"{', '.join(names)}: the flux between cells is that of Lax and Friedrichs"
    for group in d.coupled:
        words += (
            f"; its dissipation, by the largest speed of {', '.join(map(str, group.fields))} with "
            "the factual coefficients, stays in deletions"
        )
    return [words]


def _penalties(model: Model) -> list[str]:
    """How second derivatives of discontinuous fields are taken."""
    d = model.discretisation
    named: dict[float, list[str]] = {}
    for name, weak in d.weak_terms.items():
        for field in {f for penalty in weak.penalties for f in penalty.matrix}:
            if model.coefficients.get(name):
                constant = trace_constant(d.spaces.elements[field], d.mesh.geometry.dim)
                named.setdefault(constant, []).append(name)
    return [
        f"{', '.join(dict.fromkeys(names))}: the flux between cells is that of the symmetric "
        f"interior penalty method with the penalty {constant:g}·|∂K|/|K|, and boundary values are "
        "given in Nitsche's way"
        for constant, names in named.items()
    ]


def _multiplier_terms(model: Model) -> list[str]:
    """Terms with the multiplier of a constraint, which acts by itself."""
    multiplier = model.discretisation.multiplier
    if multiplier is None:
        return []
    named = [
        name
        for name, value in model.coefficients.items()
        if value and multiplier[0] in model.library[name].atoms()
    ]
    return (
        [
            f"{', '.join(named)} comes in addition to the force −∇{multiplier[0]} by which the "
            "constraint acts"
        ]
        if named
        else []
    )


def _flux_correction(model: Model) -> list[str]:
    """What was taken from measured boundary values."""
    correction = model.flux_correction
    return [] if correction is None else [str(correction)]
