# SPDX-License-Identifier: MIT
"""Guaranteed error bounds for E_tt = −α curl curl E − σ E_t − m E − S E + f between perfectly
conducting walls, div E = 0 or not.

The bound is that of `wave_majorant` with D = curl: no eigenvalue of the domain enters, so that it
holds without a mass term and on domains that are not convex or not simply connected. S is any
matrix that is affine in x, such as E ↦ B₀ × E. Under the constraint div E = 0 a term ∇ div E is
zero, and deleting it changes the exact solution by nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import basix

from cffem.bounds.certificate import NotCovered
from cffem.bounds.waves.wave_certifier import SecondOrderCertifier
from cffem.symbols.fields import VectorField
from cffem.symbols.operators import div

if TYPE_CHECKING:
    from basix.ufl import _ElementBase


class MaxwellCertifier(SecondOrderCertifier):
    """Certificates for one model of Maxwell's equations of second order.

    Args:
        model: the model.

    Raises:
        NotCovered: a hypothesis fails; the message says which.

    Example:
        >>> import cffem as cf, sympy as sp
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_square
        >>> from cffem import curl, dt, x, y
        >>> E = cf.VectorField("E", dim=2)
        >>> library = cf.Library(
        ...     anchor=dt(dt(E)), terms={"curl": -curl(curl(E)), "damping": -dt(E)}
        ... )
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_square(MPI.COMM_SELF, 8, 8),
        ...     elements={E: ("N1curl", 1)},
        ...     initial={E: (sp.sin(sp.pi * y), 0), dt(E): (0, 0)},
        ...     boundary=[cf.Tangential(E, 0)],
        ...     time=cf.Window(0, 1, steps=10),
        ... )
        >>> model = cf.Model(library, {"curl": 1.0, "damping": 0.01}, experiment)
        >>> bound = MaxwellCertifier(model).deletion("damping")
        >>> (
        ...     bound.certificate.kind,
        ...     bound.margin < 0.1 * (bound.eta_factual + bound.eta_counterfactual),
        ... )
        ('guaranteed', True)
    """

    def _check(self) -> None:
        super()._check()
        constraint = self.model.experiment.constraint
        if not isinstance(self.unknown, VectorField):
            raise NotCovered("the unknown is not a single vector field")
        if constraint is not None and constraint.expr != div(self.unknown):
            raise NotCovered("the constraint is not div(E) = 0")
        element = self.model.spaces.elements[self.unknown]
        if getattr(element, "map_type", None) != basix.MapType.covariantPiola or getattr(
            element, "discontinuous", False
        ):
            raise NotCovered("the element is not a Nédélec element")

    def _dual_degree(self, element: _ElementBase) -> int:
        # In space the curls of Nédélec fields that contain all polynomials u_h has, and no more,
        # have the order of the error, and a factor of their normal equations costs as much as one
        # of the model; one degree more costs several times that for bounds that are an eighth
        # smaller. In the plane it is cheap and makes them a fifth smaller. Under the constraint
        # such curls would have to match u_h itself as well, and what they miss of it is in the
        # bound.
        cheap = self.dim == 3 and not self.constrained
        return int(element.embedded_subdegree) + 1 if cheap else super()._dual_degree(element)

    def _hypotheses(self) -> tuple[tuple[str, str], ...]:
        divergence = "div E = 0 and " if self.constrained else ""
        return (
            (
                "the equation is E_tt + σ E_t + α curl curl E + m E + S(x) E = f with α ≥ 0 and "
                "affine S",
                "read off the symbolic terms",
            ),
            (
                f"{divergence}E × n = 0 on the whole boundary of the meshed domain",
                "declared conditions, held unknowns and values",
            ),
            (
                "E_h has continuous tangential components and is otherwise arbitrary",
                "element; its residual is computed anew",
            ),
            ("rounding errors are negligible", "not enclosed"),
        )
