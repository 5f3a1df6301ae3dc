"""Random problems with a scalar unknown agree with plain DOLFINx to 1e-9, or are refused in
words.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

from net_compare import check_seeds
from net_problems import Family, drawn
from net_released import kept_facets

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


def test_default_problems_delete_leading_terms_whose_equations_release_values():
    drawn_ones = [
        drawn(family, seed) for family, count in FAMILIES.items() for seed in range(count)
    ]
    leading = [
        p for p in drawn_ones if p.deleted in {term.name for term, _ in p.terms if term.leading}
    ]
    assert len({p.family for p in leading}) == len(FAMILIES)
    fewer = 0
    for problem in leading:
        domain = problem.mesh()
        given = [c for c in problem.conditions if c.kind == "essential"]
        fewer += any(
            len(kept_facets(problem, domain, problem.deleted, c))
            < len(kept_facets(problem, domain, "", c))
            for c in given
        )
    assert fewer >= 5


@pytest.mark.slow
@pytest.mark.parametrize("family", [*FAMILIES, *MORE], ids=str)
def test_many_random_scalar_problems_agree_with_plain_dolfinx(family, record_property):
    check_seeds(family, range(1000, 1060), record_property)
