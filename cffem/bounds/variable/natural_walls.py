# SPDX-License-Identifier: MIT
"""The boundary of a scalar problem: where values are given and where A ∇u·n + κ u = g, with g and κ
as expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from cffem.bounds.certificate import NotCovered
from cffem.bounds.variable.variable_operator import VariableOperator, check_place
from cffem.engine.mesh.boundary_parts import Boundary
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.problem.conditions import Dirichlet, Neumann, Robin


@dataclass(frozen=True, eq=False)
class WallPart:
    """A part of the boundary with a natural condition ∂u/∂n + coefficient · u = value.

    Attributes:
        facets: local numbers of its facets.
        value, coefficient: expressions in the coordinates.
    """

    facets: np.ndarray
    value: sp.Expr
    coefficient: sp.Expr

    def flux(self, operator: VariableOperator) -> tuple[sp.Expr, sp.Expr]:
        """g and κ for an operator, whose diffusion multiplies both.

        Raises:
            NotCovered: the condition is not about the flux of this operator.
        """
        if self.value == 0 and self.coefficient == 0:
            return sp.S.Zero, sp.S.Zero
        scalar = operator.scalar
        if scalar is None:
            raise NotCovered("a natural condition that is not zero meets a diffusion tensor")
        return scalar * self.value, scalar * self.coefficient


def natural_parts(model: Any, moving: bool = False) -> list[WallPart]:
    """The parts with natural conditions; all other facets have Dirichlet conditions.

    Args:
        model: the model.
        moving: whether given values may depend on time.

    Raises:
        NotCovered: there is another kind of condition, or none.
    """
    # Interventions may have changed the conditions that the model was made with.
    boundary = Boundary(model.discretisation.domain, model.experiment.boundary)
    found: list[WallPart] = []
    dim = model.discretisation.mesh.topology.dim
    if boundary.periodic:
        raise NotCovered("a part of the boundary is periodic")
    for part, conditions in boundary.conditions.items():
        kinds = {type(c) for c in conditions}
        if kinds == {Dirichlet}:
            continue
        if len(conditions) != 1 or not kinds <= {Neumann, Robin}:
            said = ", ".join(map(str, conditions)) or "no condition"
            raise NotCovered(f"on the boundary part {part!r} there is {said}")
        condition = conditions[0]
        value = condition.value
        coefficient = getattr(condition, "coefficient", 0)
        if not all(isinstance(v, int | float | sp.Expr) for v in (value, coefficient)):
            raise NotCovered(f"{condition} is not given by expressions")
        fixed = sp.sympify(value).xreplace({t: SPACE[0]}) if moving else sp.sympify(value)
        for expr in (fixed, sp.sympify(coefficient)):
            check_place(expr, dim, f"{condition}")
        found.append(WallPart(boundary.facets[part], sp.sympify(value), sp.sympify(coefficient)))
    return found


def marked(parts: list[WallPart], outer: np.ndarray) -> Mapping[int, WallPart]:
    """The part of each natural facet, by its local number."""
    inside = set(outer.tolist())
    return {int(f): part for part in parts for f in part.facets if int(f) in inside}
