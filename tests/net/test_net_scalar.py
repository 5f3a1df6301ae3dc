"""Random problems with a scalar unknown agree with plain DOLFINx to 1e-9, or are refused in
words.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

from net_compare import check_seeds
from net_problems import Family

FAMILIES = {
    Family("interval", ("Lagrange", 2), "scalar", 3): 14,
    Family("triangle", ("Lagrange", 1), "scalar"): 14,
    Family("triangle", ("Lagrange", 2), "scalar"): 18,
    Family("quadrilateral", ("Lagrange", 2), "scalar"): 14,
    Family("tetrahedron", ("Lagrange", 1), "scalar"): 10,
    Family("hexahedron", ("Lagrange", 1), "scalar"): 6,
}
MORE = [
    Family("interval", ("Lagrange", 1), "scalar", 4),
    Family("interval", ("Lagrange", 3), "scalar", 2),
    Family("quadrilateral", ("Lagrange", 1), "scalar", 3),
    Family("triangle", ("DG", 0), "discontinuous", 3),
    Family("quadrilateral", ("DG", 1), "discontinuous"),
    Family("triangle", ("Lagrange", 3), "scalar"),
    Family("quadrilateral", ("Lagrange", 3), "scalar"),
    Family("quadrilateral", ("serendipity", 2), "scalar"),
    Family("tetrahedron", ("Lagrange", 2), "scalar"),
    Family("hexahedron", ("Lagrange", 2), "scalar", 1),
    Family("tetrahedron", ("DG", 1), "discontinuous"),
]


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_random_scalar_problems_agree_with_plain_dolfinx(family, record_property):
    check_seeds(family, range(FAMILIES[family]), record_property)


@pytest.mark.slow
@pytest.mark.parametrize("family", [*FAMILIES, *MORE], ids=str)
def test_many_random_scalar_problems_agree_with_plain_dolfinx(family, record_property):
    check_seeds(family, range(1000, 1060), record_property)
