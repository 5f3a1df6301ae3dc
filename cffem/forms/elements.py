# SPDX-License-Identifier: MIT
"""What an element can carry: its Sobolev space, the derivatives it represents and its neighbour in
the discrete de Rham complex.

Functions of H1 have a gradient, of H(curl) a curl, of H(div) a divergence; everything else jumps
between cells. A discontinuous quantity (the divergence of a Nédélec field, the curl of a
Raviart–Thomas field) is defined weakly in the space that comes before in

    Lagrange k → Nédélec k → Raviart–Thomas k → discontinuous k − 1 (plane: Lagrange k →
    Raviart–Thomas k or Nédélec k → …).

Second-kind Nédélec and BDM elements of degree k follow elements of degree k + 1; on quadrilaterals
and hexahedra those are the serendipity ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import basix
import basix.ufl

from cffem.forms.translation_errors import UnsupportedTerm

if TYPE_CHECKING:
    from basix.ufl import _ElementBase


H1, HCURL, HDIV, L2 = "H1", "H(curl)", "H(div)", "L2"
SMOOTH = "smooth"  # of given functions with all derivatives

_PIOLA = {basix.MapType.covariantPiola: HCURL, basix.MapType.contravariantPiola: HDIV}
# The derivative that a function of each space has in L2; in H1 every first derivative.
NATURAL = {HCURL: "curl", HDIV: "div"}


@dataclass(frozen=True)
class Carrier:
    """What one field's element can carry.

    Attributes:
        element: the Basix element.
        space: one of "H1", "H(curl)", "H(div)", "L2".
        degree: the largest degree of which the element holds all polynomials.
    """

    element: _ElementBase
    space: str
    degree: int

    def conforming(self, operator: str, order: int) -> bool:
        """Whether a derivative is square-integrable across cells; `operator` is innermost."""
        return (
            order == 0
            or self.space == SMOOTH
            or (order == 1 and (self.space == H1 or NATURAL.get(self.space) == operator))
        )

    def represents(self, operator: str, order: int) -> bool:
        """Whether a derivative, taken cell by cell, still approximates that of a smooth field."""
        return order <= self.degree if self.space == H1 else self.conforming(operator, order)

    @property
    def description(self) -> str:
        """Words for messages: `degree 1 H(curl) element N1E`."""
        family = getattr(self.element, "family_name", "")
        return f"degree {self.element.embedded_superdegree} {self.space} element {family}".rstrip()


def carrier(element: _ElementBase) -> Carrier:
    """What a Basix element can carry.

    Example:
        >>> import basix.ufl
        >>> carrier(basix.ufl.element("RT", "quadrilateral", 1)).space
        'H(div)'
    """
    # Basix 0.9 calls RT on quadrilaterals and hexahedra H(curl), hence the map is asked first.
    if getattr(element, "discontinuous", False):
        space = L2
    elif element.map_type in _PIOLA:
        space = _PIOLA[element.map_type]
    else:
        space = H1 if element.basix_sobolev_space.name in ("H1", "H2", "HInf") else L2
    return Carrier(element, space, max(element.embedded_subdegree, 0))


def determines(source: _ElementBase, target: _ElementBase) -> bool:
    """Whether a function of one element has one value for every unknown of another: what jumps
    between cells has none at the nodes of what is continuous, only one for each cell there.

    Example:
        >>> import basix.ufl
        >>> constant = basix.ufl.element("DG", "triangle", 0)
        >>> linear = basix.ufl.element("Lagrange", "triangle", 1)
        >>> determines(constant, linear), determines(linear, constant)
        (False, True)
    """
    given, wanted = carrier(source).space, carrier(target).space
    return wanted == L2 or given in (H1, wanted)


def before(element: _ElementBase) -> _ElementBase:
    """The element that comes before in the discrete de Rham complex: Lagrange before Nédélec,
    Nédélec before Raviart–Thomas.

    Example:
        >>> import basix.ufl
        >>> before(basix.ufl.element("N1curl", "tetrahedron", 2)) == basix.ufl.element(
        ...     "Lagrange", "tetrahedron", 2
        ... )
        True
    """
    space, cell = carrier(element).space, element.cell_type.name
    if space not in (HCURL, HDIV):
        raise UnsupportedTerm(f"a {carrier(element).description} has no auxiliary space")
    second_kind = is_second_kind(element)
    degree = element.degree + (1 if second_kind else 0)
    serendipity = second_kind and cell in ("quadrilateral", "hexahedron")
    if space == HCURL or topological_dimension(element) == 2:
        return basix.ufl.element("serendipity" if serendipity else "Lagrange", cell, degree)
    return basix.ufl.element("N2curl" if serendipity else "N1curl", cell, degree)


def after(element: _ElementBase) -> _ElementBase:
    """The discontinuous element onto which the divergence maps an H(div) element, or in the plane
    the curl an H(curl) one.

    Example:
        >>> import basix.ufl
        >>> after(basix.ufl.element("RT", "tetrahedron", 1)).degree
        0
    """
    cell = element.cell_type.name
    serendipity = is_second_kind(element) and cell in ("quadrilateral", "hexahedron")
    return basix.ufl.element(
        "DPC" if serendipity and element.degree > 1 else "DG", cell, element.degree - 1
    )


def is_second_kind(element: _ElementBase) -> bool:
    """Whether an element is a Nédélec element of the second kind or a BDM element, which
    simplices fill with polynomials.
    """
    return element.element_family in (basix.ElementFamily.BDM, basix.ElementFamily.N2E)


def topological_dimension(element: _ElementBase) -> int:
    """The dimension of an element's cell."""
    return len(basix.topology(element.cell_type)) - 1
