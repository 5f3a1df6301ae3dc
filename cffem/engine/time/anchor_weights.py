# SPDX-License-Identifier: MIT
"""Weights of time derivatives: ρ dt(u), or M dt(v) with a tensor.

Where a weight is negative, or a tensor has a negative eigenvalue, the equation runs backward in
time there. Where it vanishes the equation is algebraic, which only schemes bear whose steps end in
a stage. Both are looked at in every cell and at many times, as the values are given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from cffem.engine.inputs.place_values import NoNumbers, PlaceValues
from cffem.symbols.algebra.analysis import canonical
from cffem.symbols.coordinates import t
from cffem.symbols.errors import InputError
from cffem.symbols.fields import VectorField

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.symbols.fields import Field

# Relative to the largest weight, what is smaller is zero up to rounding errors.
ROUNDING = 1e-12


def place_values(model: Model) -> PlaceValues:
    """Where a model's coefficients are looked at, made once."""
    discretisation = model.discretisation
    return model.once(
        "place values",
        lambda: PlaceValues(discretisation.mesh, discretisation.known, model.times),
    )


def check_weights(model: Model) -> None:
    """Refuse weights of time derivatives that are negative, and those that vanish where the scheme
    cannot bear it; collective.

    Raises:
        InputError: the message says where.
    """
    equation, scheme = model.equation, model.marching.scheme
    equations = model.library.equations
    weighted = [u for u, library in equations.items() if library.is_weighted]
    if not weighted:
        return
    for unknown in weighted:
        _check_signs(model, unknown)
    model.discretisation.time.value = float(model.times[0])
    diagonal = equation.anchor_diagonal()
    mine = equation.spaces.mask(weighted) > 0
    vanishes = diagonal is not None and bool((diagonal[mine] == 0).any())
    if equation.comm.allreduce(int(vanishes)) and not scheme.stiffly_accurate:
        raise InputError(
            "the weight of a time derivative vanishes in a part of the domain, which the scheme "
            "cannot bear; take Window(…, scheme='sdirk2')"
        )


def _check_signs(model: Model, unknown: Field) -> None:
    anchor = model.library.equations[unknown].anchor
    places = place_values(model)
    try:
        matrix = _weight(model, unknown, places)
    except NoNumbers as symbol:
        raise InputError(
            f"the sign of the weight of {anchor} is not known, because it depends on {symbol}"
        ) from None
    symmetric = (matrix + np.swapaxes(matrix, -1, -2)) / 2
    values = np.linalg.eigvalsh(symmetric)[..., 0]
    largest = places.largest(symmetric)
    least, where = places.least(values)
    if least < -ROUNDING * largest:
        size = "" if matrix.shape[-1] == 1 else "has an eigenvalue that "
        raise InputError(
            f"the weight of the anchor of {unknown}, {anchor}, {size}is negative somewhere: "
            f"{least:.3g}{where}; such an equation runs backward in time there"
        )
    # A tensor without an inverse mixes rates with what has none.
    whole = np.array([np.diagonal(symmetric, axis1=-2, axis2=-1).min(axis=-1)])[0]
    singular, where = places.least(np.where(whole > ROUNDING * largest, values, np.inf))
    if matrix.shape[-1] > 1 and singular <= ROUNDING * largest:
        raise InputError(
            f"the weight of the anchor of {unknown}, {anchor}, is a tensor without an inverse"
            f"{where}; write one equation for each component, of which some have no rate"
        )


def _weight(model: Model, unknown: Field, places: PlaceValues) -> np.ndarray:
    """The weight as a matrix at each time and point."""
    library, dim = model.library, model.discretisation.mesh.geometry.dim
    values = {p: v for p, v in library.parameters.items() if v is not None}
    anchor, order = library.equations[unknown].anchor, library.equations[unknown].time_order
    assert anchor is not None
    vector = isinstance(unknown, VectorField)
    rates = [
        (unknown[i] if vector else unknown).diff(t, order) for i in range(dim if vector else 1)
    ]
    dummies = {rate: sp.Dummy() for rate in rates}
    entries = [e.xreplace(dummies) for e in canonical(anchor.xreplace(values), dim)]
    found = [[places(sp.expand(e.diff(d))) for d in dummies.values()] for e in entries]
    shape = np.broadcast_shapes(*(v.shape for row in found for v in row))
    whole = np.array([[np.broadcast_to(v, shape) for v in row] for row in found])
    return np.moveaxis(whole, (0, 1), (-2, -1))
