"""Random problems with a vector unknown agree with plain DOLFINx to 1e-9, or are refused in
words.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

from net_compare import check_seeds
from net_problems import Family

FAMILIES = {
    Family("triangle", ("Lagrange", 2), "vector"): 10,
    Family("quadrilateral", ("Lagrange", 1), "vector"): 10,
    Family("triangle", ("N1curl", 2), "curl"): 8,
    Family("quadrilateral", ("RTCE", 1), "curl"): 8,
    Family("tetrahedron", ("N1curl", 1), "curl"): 8,
    Family("triangle", ("RT", 1), "div"): 8,
}
MORE = [
    Family("triangle", ("Lagrange", 1), "vector"),
    Family("triangle", ("Lagrange", 3), "vector"),
    Family("quadrilateral", ("Lagrange", 2), "vector"),
    Family("hexahedron", ("Lagrange", 1), "vector"),
    Family("tetrahedron", ("Lagrange", 1), "vector"),
    Family("triangle", ("N1curl", 1), "curl", 3),
    Family("triangle", ("N2curl", 1), "curl"),
    Family("triangle", ("BDM", 1), "div", 3),
    Family("tetrahedron", ("N2curl", 1), "curl"),
    Family("tetrahedron", ("N1curl", 2), "curl", 1),
    Family("hexahedron", ("NCE", 1), "curl"),
    Family("quadrilateral", ("RTCF", 1), "div"),
    Family("triangle", ("RT", 2), "div"),
    Family("triangle", ("BDM", 2), "div"),
    Family("tetrahedron", ("RT", 1), "div"),
    Family("hexahedron", ("NCF", 1), "div"),
]


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_random_vector_problems_agree_with_plain_dolfinx(family, record_property):
    check_seeds(family, range(FAMILIES[family]), record_property)


@pytest.mark.slow
@pytest.mark.parametrize("family", [*FAMILIES, *MORE], ids=str)
def test_many_random_vector_problems_agree_with_plain_dolfinx(family, record_property):
    check_seeds(family, range(1000, 1050), record_property)
