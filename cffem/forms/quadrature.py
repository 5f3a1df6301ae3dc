# SPDX-License-Identifier: MIT
"""One quadrature rule for a form and its derivatives.

UFL estimates the degree of each form anew, so the derivative of a form with an exponential would be
integrated by another rule than the form itself and would not be the derivative of what is
assembled: Newton would slow down and Taylor tests fail. Here the degree is estimated once and
written into the integrals, and UFL's derivatives keep it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import ufl
from ufl.algorithms import expand_derivatives
from ufl.algorithms.apply_geometry_lowering import apply_geometry_lowering
from ufl.algorithms.estimate_degrees import estimate_total_polynomial_degree

if TYPE_CHECKING:
    from basix.ufl import _ElementBase
    from ufl.core.expr import Expr


def with_fixed_quadrature(form: ufl.Form) -> ufl.Form:
    """The form with its estimated quadrature degree written into each integral that has none.

    Example:
        >>> import basix.ufl, ufl
        >>> domain = ufl.Mesh(basix.ufl.element("Lagrange", "triangle", 1, shape=(2,)))
        >>> u = ufl.Coefficient(
        ...     ufl.FunctionSpace(domain, basix.ufl.element("Lagrange", "triangle", 2))
        ... )
        >>> form = with_fixed_quadrature(ufl.exp(u) * u * ufl.dx)
        >>> [
        ...     ufl.derivative(f, u).integrals()[0].metadata()
        ...     for f in (form, ufl.derivative(form, u))
        ... ]
        [{'quadrature_degree': 6}, {'quadrature_degree': 6}]
    """
    return ufl.Form([_fixed(integral) for integral in form.integrals()])


def polynomial_degree(expression: Expr) -> int:
    """The estimated degree of an expression, with `sym` and other tensor algebra written out, which
    UFL cannot estimate.

    Example:
        >>> import basix.ufl, ufl
        >>> domain = ufl.Mesh(basix.ufl.element("Lagrange", "triangle", 1, shape=(2,)))
        >>> element = basix.ufl.element("Lagrange", "triangle", 2, shape=(2,))
        >>> strain = ufl.sym(ufl.grad(ufl.Coefficient(ufl.FunctionSpace(domain, element))))
        >>> polynomial_degree(ufl.inner(strain, strain))
        2
    """
    return int(estimate_total_polynomial_degree(expand_derivatives(ufl.as_ufl(expression))))


def _fixed(integral: ufl.Integral) -> ufl.Integral:
    if "quadrature_degree" in integral.metadata():
        return integral
    (expanded,) = expand_derivatives(ufl.Form([integral])).integrals() or (integral,)
    degree = estimate_total_polynomial_degree(expanded.integrand())
    degree += _degree_of_cells(integral.ufl_domain().ufl_coordinate_element())
    return integral.reconstruct(metadata={**integral.metadata(), "quadrature_degree": degree})


@cache
def _degree_of_cells(coordinate_element: _ElementBase) -> int:
    """The degree of the Jacobian of cells that are no affine images of the reference cell."""
    jacobian = apply_geometry_lowering(ufl.JacobianDeterminant(ufl.Mesh(coordinate_element)))
    return estimate_total_polynomial_degree(jacobian)
