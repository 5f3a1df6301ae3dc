"""The restricted-eigenvalue bracket against brute force, closed forms and the eigenvalues
that enclose it.
"""

import time
import tracemalloc

import numpy as np
import pytest
from scipy.optimize import minimize

from cffem.design import Design
from cffem.design.cone import (
    SectorSearch,
    cone_generators,
    in_cone,
    restricted_eigenvalue,
    supports_with_signs,
)


def normalised(A):
    A = A / np.sqrt((A**2).mean(axis=0))
    return A.T @ A / len(A)


def random_gram(m, seed, rows=None, correlation=0.0):
    random = np.random.default_rng(seed)
    A = random.standard_normal((rows or 2 * m, m))
    target = correlation ** np.abs(np.subtract.outer(np.arange(m), np.arange(m)))
    return normalised(A @ np.linalg.cholesky(target + 1e-12 * np.eye(m)).T)


def flat_gram(m, small, seed=0):
    """λ_min belongs to a flat vector outside the cone, so that κ̂ lies strictly above it."""
    random = np.random.default_rng(seed)
    flat = np.sign(random.standard_normal(m)) / np.sqrt(m)
    basis, _ = np.linalg.qr(np.column_stack([flat, random.standard_normal((m, m - 1))]))
    values = np.r_[small, random.uniform(0.3, 2.0, m - 1)]
    sigma = basis * values @ basis.T
    scale = np.sqrt(np.diag(sigma))
    return sigma / np.outer(scale, scale)


def brute_force(sigma, s, starts=6):
    """Minimum over all convex pieces of the cone by a general-purpose optimiser in the
    generators' weights.
    """
    random = np.random.default_rng(5)
    best = np.inf
    for support, signs in supports_with_signs(len(sigma), s):
        V = cone_generators(len(sigma), support, signs)
        for _ in range(starts):

            def quotient(w, V=V):
                point = V @ w**2
                return point @ sigma @ point / (point @ point + 1e-300)

            best = min(
                best,
                minimize(
                    quotient, random.random(V.shape[1]), method="BFGS", options={"maxiter": 300}
                ).fun,
            )
    return best


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("m", [5, 6])
def test_bracket_contains_brute_force(m, seed):
    sigma = flat_gram(m, 0.02, seed) if seed % 2 else random_gram(m, seed, correlation=0.6)
    bracket = restricted_eigenvalue(sigma, 1)
    found = brute_force(sigma, 1)
    assert bracket.lower <= found * (1 + 1e-9)
    assert bracket.upper <= found * (1 + 1e-5)
    assert np.linalg.eigvalsh(sigma)[0] <= bracket.upper * (1 + 1e-9)


def test_upper_bound_is_attained_in_the_cone():
    sigma = flat_gram(11, 0.01, 3)
    bracket = restricted_eigenvalue(sigma, 2)
    delta = bracket.minimiser
    assert in_cone(delta, 2)
    assert delta @ sigma @ delta / (delta @ delta) == pytest.approx(bracket.upper, rel=1e-9)
    assert (
        bracket.upper > 1.2 * np.linalg.eigvalsh(sigma)[0]
    )  # the cone really excludes the flat eigenvector


def test_small_columns_count_gives_smallest_eigenvalue():
    sigma = random_gram(8, 1)
    bracket = restricted_eigenvalue(sigma, 2)
    assert bracket.lower == pytest.approx(np.linalg.eigvalsh(sigma)[0], rel=1e-9)
    assert bracket.ratio < 1 + 1e-6


def test_brackets_are_narrow_and_found_in_time():
    ratios = []
    for seed, (m, s) in enumerate([(12, 1), (12, 2), (11, 1), (10, 1), (9, 2), (7, 1), (12, 3)]):
        for sigma in (
            random_gram(m, seed, rows=m + 3),
            random_gram(m, seed, correlation=0.8),
            flat_gram(m, 1e-3, seed),
        ):
            start = time.monotonic()
            ratios.append(restricted_eigenvalue(sigma, s, seconds=3.0).ratio)
            assert time.monotonic() - start < 10
    assert np.median(ratios) <= 1.01
    assert max(ratios) <= 3.0


def test_rank_deficient_design_gives_zero():
    A = np.random.default_rng(0).standard_normal((30, 5))
    design = Design.from_matrix(np.column_stack([A, A[:, 0]]), A[:, 1], list("abcdef"))
    bracket = design.restricted_eigenvalue(1)
    assert bracket.lower <= 1e-12
    assert bracket.upper <= 1e-9


def test_more_sampled_rows_raise_the_constant():
    A = np.random.default_rng(3).standard_normal((4000, 8))
    design = Design.from_matrix(A, A[:, 0], [f"t{k}" for k in range(8)])
    curve = design.restricted_eigenvalue_by_rows(1, [12, 60, 1500])
    medians = [np.median([b.upper for b in curve[count]]) for count in (12, 60, 1500)]
    assert medians[0] < medians[1] < medians[2]
    assert medians[2] > 0.8


def test_invalid_sparsity_is_named():
    with pytest.raises(ValueError, match="sparsity"):
        restricted_eigenvalue(np.eye(3), 4)


def test_nearly_dependent_columns_give_a_valid_bracket():
    points = np.linspace(-1, 1, 300)
    sigma = normalised(np.vander(points, 22))
    bracket = restricted_eigenvalue(sigma, 2, seconds=1.0)
    assert 0 <= bracket.lower <= bracket.upper <= sigma[0, 0]
    assert in_cone(bracket.minimiser, 2)


def two_flat_directions(m=12):
    """Two small eigenvalues with flat vectors, so that the search has a plane of directions
    to divide.
    """
    flat = np.array([np.ones(m), np.tile([1.0, -1.0], m // 2)]).T / np.sqrt(m)
    basis, _ = np.linalg.qr(
        np.column_stack([flat, np.random.default_rng(3).standard_normal((m, m - 2))])
    )
    return basis * np.r_[0.01, 0.02, np.full(m - 2, 1.0)] @ basis.T


def test_a_bracket_with_two_small_eigenvalues_holds_all_sampled_members_of_the_cone():
    sigma = two_flat_directions()
    bracket = restricted_eigenvalue(sigma, 1, seconds=4.0)
    assert 0.02 < bracket.lower <= bracket.upper
    random = np.random.default_rng(0)
    for support, signs in supports_with_signs(len(sigma), 1):
        members = cone_generators(len(sigma), support, signs) @ random.exponential(
            size=(2 * len(sigma) - 2, 200)
        )
        assert (
            (members * (sigma @ members)).sum(axis=0) / (members**2).sum(axis=0)
        ).min() >= bracket.lower


def test_a_target_that_a_member_of_the_cone_refutes_is_not_certified():
    sigma = two_flat_directions()
    upper = restricted_eigenvalue(sigma, 1, seconds=4.0).upper
    search = SectorSearch(sigma, *np.linalg.eigh(sigma), 1, 1.2 * upper)
    assert not search.certified(time.process_time() + 5)
    size = np.sort(np.abs(search.best_vector))
    assert size[:-1].sum() <= 3 * size[-1] * (
        1 + 1e-12
    )  # on the boundary of the cone, up to rounding
    assert search.best_value < 1.2 * upper


def test_many_small_eigenvalues_take_little_memory():
    """The orthants of their eigenvectors were listed, 2^30 of them here."""
    sigma = normalised(np.random.default_rng(5).standard_normal((80, 60)))
    values, vectors = np.linalg.eigh(sigma)
    tracemalloc.start()
    try:
        search = SectorSearch(sigma, values, vectors, 2, float(values[30]))
        assert not search.certified(time.process_time() + 0.5)
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()
    assert next(iter(supports_with_signs(10_000, 3))) == ((0, 1, 2), (1.0, 1.0, 1.0))
