"""Random problems with known fields, weights and terms in parts agree with plain DOLFINx to 1e-9,
or are refused in words.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

from net_compare import check_seeds
from net_materials import MaterialFamily
from net_stresses import FormFamily, StressFamily

FAMILIES = {
    MaterialFamily("interval", ("Lagrange", 2), "scalar", 3): 12,
    MaterialFamily("triangle", ("Lagrange", 1), "scalar"): 14,
    MaterialFamily("triangle", ("Lagrange", 1), "vector"): 8,
    MaterialFamily("triangle", ("N1curl", 1), "curl"): 10,
    StressFamily("triangle", ("Lagrange", 1), "vector"): 4,
    FormFamily("triangle", ("Lagrange", 1), "scalar"): 4,
}
MORE = [
    MaterialFamily("triangle", ("Lagrange", 2), "scalar"),
    MaterialFamily("quadrilateral", ("Lagrange", 2), "scalar"),
    MaterialFamily("tetrahedron", ("Lagrange", 1), "scalar"),
    MaterialFamily("tetrahedron", ("N1curl", 1), "curl", 1),
    MaterialFamily("hexahedron", ("Lagrange", 1), "scalar"),
    StressFamily("quadrilateral", ("Lagrange", 2), "vector"),
    StressFamily("tetrahedron", ("Lagrange", 1), "vector"),
    FormFamily("interval", ("Lagrange", 3), "scalar", 3),
    FormFamily("hexahedron", ("Lagrange", 1), "scalar"),
]


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_random_problems_with_materials_agree_with_plain_dolfinx(family, record_property):
    check_seeds(family, range(FAMILIES[family]), record_property)


@pytest.mark.slow
@pytest.mark.parametrize("family", [*FAMILIES, *MORE], ids=str)
def test_many_random_problems_with_materials_agree_with_plain_dolfinx(family, record_property):
    check_seeds(family, range(1000, 1040), record_property)
