# SPDX-License-Identifier: MIT
"""Sentences about how a problem was read: what was changed or chosen that the user has not
said, for `model.notes` and reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    return found + (
        [f"{', '.join(central)}: the flux between cells is central, the mean of both sides"]
        if central
        else []
    )


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
