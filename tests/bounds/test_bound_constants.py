"""The constants behind the bounds: interpolation, eigenvalues, convexity, and the
coefficients read off an equation.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import basix
import basix.ufl
import scipy.linalg
import sympy as sp
import ufl
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from cffem.bounds.certificate import NotCovered
from cffem.bounds.elliptic.adjoint_stability import stability
from cffem.bounds.geometry.mesh_constants import Domain, crouzeix_raviart, kobayashi
from cffem.bounds.scalar_problem import equation_operator, operator
from cffem.symbols import x, y

u, OTHER = cf.ScalarField("u"), cf.ScalarField("w")


def planar(points, cells):
    """A mesh of triangles."""
    element = basix.ufl.element("Lagrange", "triangle", 1, shape=(2,))
    return mesh.create_mesh(
        MPI.COMM_SELF,
        np.array(cells, dtype=np.int64),
        x=np.array(points, dtype=float),
        e=ufl.Mesh(element),
    )


def refined(domain, times):
    for _ in range(times):
        domain.topology.create_entities(1)
        domain = mesh.refine(domain)[0]
    return domain


def largest_ratio(corners, degree=6):
    """sup ‖∇(v − Iv)‖ / |v|_{H²} over polynomials v of a degree on a triangle, I being linear
    interpolation.
    """
    points, weights = basix.make_quadrature(basix.CellType.triangle, 2 * degree)
    element = basix.create_element(
        basix.ElementFamily.P, basix.CellType.triangle, degree, basix.LagrangeVariant.gll_warped
    )
    table = element.tabulate(2, points)[:, :, :, 0]
    inverse = np.linalg.inv((corners[1:] - corners[:1]).T)
    first = np.stack([table[basix.index(1, 0)], table[basix.index(0, 1)]], axis=-1) @ inverse
    xx, xy, yy = (table[basix.index(*i)] for i in ((2, 0), (1, 1), (0, 2)))
    second = np.stack([np.stack([xx, xy], -1), np.stack([xy, yy], -1)], -1)
    second = np.einsum("ka,qdkl,lb->qdab", inverse, second, inverse)
    # Functions that vanish at the vertices are exactly the v − Iv.
    keep = np.arange(3, table.shape[2])
    gradients = np.einsum("q,qia,qja->ij", weights, first, first)[np.ix_(keep, keep)]
    hessians = np.einsum("q,qiab,qjab->ij", weights, second, second)[np.ix_(keep, keep)]
    return float(1 / np.sqrt(scipy.linalg.eigh(hessians, gradients, eigvals_only=True)[0]))


def test_kobayashis_constant_bounds_interpolation_on_random_triangles():
    random = np.random.default_rng(3)
    ratios = []
    for _ in range(150):
        # From needles to nearly flat triangles with an angle close to π.
        corners = np.array(
            [[0.0, 0.0], [1.0, 0.0], [random.uniform(-0.5, 1.5), 10 ** random.uniform(-1.0, 0.5)]]
        )
        ratios.append(largest_ratio(corners) / kobayashi(corners[None])[0])
    assert max(ratios) <= 1.0
    assert min(ratios) > 0.85
    assert largest_ratio(np.array([[0.0, 0], [1, 0], [0, 1]])) == pytest.approx(0.4889, abs=2e-4)


TRIANGLES = {
    "equilateral": ([[0, 0], [1, 0], [0.5, np.sqrt(3) / 2]], 16 * np.pi**2 / 3),
    "right isosceles": ([[0, 0], [1, 0], [0, 1]], 5 * np.pi**2),
}


@pytest.mark.parametrize("name", TRIANGLES)
def test_the_eigenvalue_bound_is_below_and_near_the_first_eigenvalue(name):
    points, exact = TRIANGLES[name]
    bounds = [Domain(refined(planar(points, [[0, 1, 2]]), times)).eigenvalue for times in (3, 4)]
    assert bounds[0] < bounds[1] < exact
    assert bounds[1] > 0.95 * exact


def test_the_bound_on_an_l_shape_is_below_its_first_eigenvalue():
    points = [[0, 0], [1, 0], [1, 1], [0, 1], [-1, 1], [-1, 0], [-1, -1], [0, -1]]
    cells = [[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 5], [0, 5, 6], [0, 6, 7]]
    domain = Domain(refined(planar(points, cells), 3))
    # 9.6397238440219 is the first Dirichlet eigenvalue of the L-shape (Trefethen and Betcke).
    assert not domain.convex
    assert np.ptp(domain.interpolation) == 0
    assert 8.0 < domain.eigenvalue < 9.6397238440219


def test_the_crouzeix_raviart_eigenvalue_converges():
    errors = [
        abs(crouzeix_raviart(mesh.create_unit_square(MPI.COMM_SELF, n, n)) - 2 * np.pi**2)
        for n in (4, 8, 16)
    ]
    assert errors[0] > 3 * errors[1] > 9 * errors[2]


def test_boxes_in_space_and_in_the_plane_have_their_own_eigenvalue():
    box = mesh.create_box(MPI.COMM_SELF, [[0, 0, 0], [1, 2, 0.5]], [2, 2, 2])
    assert Domain(box).eigenvalue == pytest.approx(np.pi**2 * (1 + 0.25 + 4), rel=1e-12)
    assert np.ptp(Domain(box).interpolation) == 0


def test_cracks_and_holes_are_not_convex():
    square = [[0, 0], [1, 0], [1, 1], [0, 1], [0.5, 0.5]]
    fan = [[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]]
    assert Domain(refined(planar(square, fan), 1)).convex
    # The crack from the corner 0 to the centre: two copies of the corner.
    cracked = planar([*square, [0, 0]], [[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 5, 4]])
    assert not Domain(cracked).convex
    from cffem.engine.mesh.meshes import mesh_path, read_mesh

    assert not Domain(read_mesh(mesh_path("annulus"), MPI.COMM_SELF).mesh).convex


def test_other_cells_are_refused():
    with pytest.raises(NotCovered, match="straight triangles"):
        Domain(mesh.create_unit_square(MPI.COMM_SELF, 2, 2, mesh.CellType.quadrilateral))


def test_divergence_form_is_read_like_its_expansion():
    found = operator(-cf.div(2 * cf.grad(u)) + cf.div(cf.vector(x * u, 3 * y * u)) - 7, u, 2)
    assert (found.diffusion, found.reaction, found.source, found.divergence) == (2.0, 4.0, -7, 4.0)
    assert found.speed(np.array([[0.0, 0], [1, 0], [0, 1]])) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (cf.lap(u) + u.diff(x, 3), "of higher order or in time"),
        (cf.lap(u) + cf.dt(u), "of higher order or in time"),
        (cf.lap(u) + u**2, "nonlinear"),
        (cf.lap(u) + OTHER, "another field"),
        (cf.lap(u) + OTHER.diff(x), "no derivative of the unknown"),
        (cf.lap(u) + sp.Symbol("k"), "k, which is no coordinate"),
        (cf.lap(u) + u.diff(x, y), "not a constant multiple of the Laplacian"),
        (cf.lap(u) + x**2 * u.diff(x), "not affine"),
    ],
    ids=str,
)
def test_equations_of_another_kind_are_refused_by_name(expression, message):
    with pytest.raises(NotCovered, match=message):
        operator(expression, u, 2)


def test_parameters_take_their_values():
    nu = cf.Parameter("nu")
    library = cf.Library(
        anchor=-cf.lap(u), terms={"u": nu * u, "one": 1}, unknown=u, parameters={nu: 3.0}
    )
    found = equation_operator(library, {"u": -2.0, "one": 5.0}, 2)
    assert (found.diffusion, found.reaction, found.source) == (1.0, 6.0, sp.Float(-5))


def test_adjoint_constants_bound_a_spectral_solution():
    """On the square with b = 0 the adjoint solutions are sums of sines, so the best constants
    are known.
    """
    eigenvalues = np.pi**2 * np.add.outer(np.arange(1, 60) ** 2, np.arange(1, 60) ** 2).ravel()
    for a, c in ((1.0, 0.0), (0.3, -4.0), (2.0, 300.0), (0.1, 1.0)):
        found = stability(operator(-a * cf.lap(u) + c * u, u, 2), 0.0, 2 * np.pi**2)
        best = [
            1 / (a * eigenvalues + c),
            np.sqrt(eigenvalues) / (a * eigenvalues + c),
            a * eigenvalues / (a * eigenvalues + c),
        ]
        for constant, ratios in zip((found.z0, found.z1, found.z2), best, strict=True):
            assert ratios.max() <= constant * (1 + 1e-12)
        assert found.z0 == pytest.approx(best[0].max())
        assert found.z2 <= max(1.0, best[2].max()) * (1 + 1e-12)
