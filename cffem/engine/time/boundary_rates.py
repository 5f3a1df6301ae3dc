# SPDX-License-Identifier: MIT
"""Rates on the boundary with the wrong sign.

Where ∮ β dt(u)·v stands on the right of an equation, an impedance of a wave or a heat capacity of a
wall, ripples along the wall behave like exp(s t + iηy − κx) with κ² = s² + η² or κ² = s + η², and
the condition κ = β s, or β s² for a mass, has a solution whose s grows with η where β > 0: the
finest ripples grow fastest, or derivatives are lost at every reflection (Kreiss; for the heat
equation Vázquez and Vitillaro). On an interval there are no ripples along the wall, and diffusion
of the rate inside outweighs it. All other laws on the boundary are of lower order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from cffem.engine.inputs.place_values import NoNumbers, numbers
from cffem.engine.time.anchor_weights import ROUNDING, place_values
from cffem.symbols.algebra.analysis import canonical, jet, orders
from cffem.symbols.coordinates import t
from cffem.symbols.fields import Field, VectorField
from cffem.symbols.form_terms import FormTerm
from cffem.symbols.operators import as_expr
from cffem.symbols.problem.conditions import Natural
from cffem.symbols.restricted import split_parts

if TYPE_CHECKING:
    from cffem.engine.model import Model


def why_wall_grows(model: Model, coefficients: Mapping[str, float]) -> str:
    """Why rates on the boundary make an equation ill-posed; empty where it is not certain.
    Collective.
    """
    if model.discretisation.mesh.geometry.dim == 1:
        return ""
    for unknown, equation in model.library.equations.items():
        if equation.time_order and not _damped(model, unknown, coefficients):
            words = _on_walls(model, unknown, coefficients)
            if words:
                return words
    return ""


def _damped(model: Model, unknown: Field, coefficients: Mapping[str, float]) -> bool:
    """Whether derivatives of rates, or what no formula tells, stand in the equation."""
    library, dim = model.library, model.discretisation.mesh.geometry.dim
    mine = [
        library[n] for n, value in coefficients.items() if value and library.locate(n)[0] == unknown
    ]
    if any(term.has(FormTerm) for term in mine):
        return True
    values = [value for term in mine for value in jet(canonical(split_parts(term)[0], dim))]
    return any(
        isinstance(v, sp.Derivative) and t in v.variables and len({*v.variables}) > 1
        for v in values
    )


def _on_walls(model: Model, unknown: Field, coefficients: Mapping[str, float]) -> str:
    library, boundary = model.library, model.discretisation.boundary
    dim = model.discretisation.mesh.geometry.dim
    values = {p: v for p, v in library.parameters.items() if v is not None}
    terms = [
        (name, float(alpha), split_parts(library[name].xreplace(values))[1])
        for name, alpha in coefficients.items()
        if alpha and library.locate(name)[0] == unknown and not library[name].has(FormTerm)
    ]
    for part, conditions in boundary.conditions.items():
        laws = [
            (str(c), 1.0, as_expr(c.value))
            for c in conditions
            if isinstance(c, Natural) and c.field == unknown and c.is_law
        ]
        acting = [(name, alpha, parts[part]) for name, alpha, parts in terms if part in parts]
        moving = [entry for entry in (*laws, *acting) if orders(entry[2], dim)[1]]
        if not moving:
            continue
        try:
            found = _worst(model, unknown, part, moving)
        except NoNumbers:
            continue
        if found:
            said = ", ".join(name for name, _, _ in moving)
            return (
                f"the coefficient of {found[0]} on {part!r} is positive{found[1]} ({said}): such a "
                "wall makes the finest ripples along it grow without bound"
            )
    return ""


def _worst(
    model: Model, unknown: Field, part: str, moving: list[tuple[str, float, sp.Expr]]
) -> tuple[str, str] | None:
    """The rate of highest order on a part whose coefficient is positive, and where."""
    discretisation, places = model.discretisation, place_values(model)
    dim, vector = discretisation.mesh.geometry.dim, isinstance(unknown, VectorField)
    points, cells = _corners(model, part)
    order = max(orders(expr, dim)[1] for _, _, expr in moving)
    rates = [
        (unknown[i] if vector else unknown).diff(t, order) for i in range(dim if vector else 1)
    ]
    matrix = np.zeros((len(places.times), len(points), len(rates), len(rates)))
    for _, alpha, expr in moving:
        entries = canonical(expr, dim)
        dummies = {value: sp.Dummy() for value in jet(entries)}
        for i, entry in enumerate(entries):
            for j, rate in enumerate(rates):
                if rate not in dummies:
                    continue
                slope = sp.expand(entry.xreplace(dummies).diff(dummies[rate]))
                slope = slope.xreplace({dummy: value for value, dummy in dummies.items()})
                for k, time in enumerate(places.times):
                    matrix[k, :, i, j] += alpha * numbers(
                        slope, discretisation.known, points, cells, float(time)
                    )
    values = np.linalg.eigvalsh((matrix + np.swapaxes(matrix, -1, -2)) / 2)[..., -1]
    least, where = places.least(-values, points)
    if not least < -ROUNDING * places.largest(matrix):
        return None
    return str(unknown.diff(t, order)), where


def _corners(model: Model, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Middles and corners of the facets of a part, with the cell of each."""
    mesh = model.discretisation.mesh
    facets = model.discretisation.boundary.facets[part].astype(np.int32)
    topology, below = mesh.topology, mesh.topology.dim - 1
    topology.create_connectivity(below, topology.dim)
    topology.create_connectivity(topology.dim, below)
    to_cells = topology.connectivity(below, topology.dim)
    if not len(facets):
        return np.zeros((0, 3)), np.zeros(0, dtype=np.int32)
    from dolfinx.mesh import entities_to_geometry

    nodes = mesh.geometry.x[entities_to_geometry(mesh, below, facets, False)]
    middles = nodes.mean(axis=1, keepdims=True)
    points = np.concatenate([middles, nodes], axis=1)
    cells = np.array([to_cells.links(f)[0] for f in facets], dtype=np.int32)
    return points.reshape(-1, 3), np.repeat(cells, points.shape[1])
