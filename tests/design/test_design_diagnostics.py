"""Gram accumulation, stacking, aliasing and the other diagnostics of a design."""

import numpy as np
import pytest
import sympy as sp

from cffem.design import Design, RowBlock
from cffem.design.gram import Accumulator, FoldSettings, fold, gram
from cffem.design.spectrum import irrepresentability, sparse_eigenvalues
from cffem.symbols.errors import InputError


def matrix(seed=0, rows=200, columns=5):
    random = np.random.default_rng(seed)
    return random.standard_normal((rows, columns)), random.standard_normal(rows)


def test_streamed_grams_equal_the_full_gram():
    A, y = matrix(rows=1000)
    weights = np.random.default_rng(1).random(1000)
    blocks = [
        RowBlock(A[k : k + 37], y[k : k + 37], weights[k : k + 37], block=k // 300)
        for k in range(0, 1000, 37)
    ]
    grams = fold(blocks)
    Z = np.column_stack([y, A])
    np.testing.assert_allclose(grams.total(), Z.T @ (weights[:, None] * Z), rtol=1e-12)
    assert grams.weight.sum() == pytest.approx(weights.sum())
    assert len(grams.labels) == 4


class FakeComm:
    """Two ranks seen from one of them: allgather returns what both ranks would send."""

    size = 2

    def __init__(self, *others):
        self.others = list(others)

    def allgather(self, mine):
        return [mine, self.others.pop(0)]


def test_ranks_sum_to_the_serial_gram():
    A, y = matrix(rows=400)
    serial = fold([RowBlock(A, y)])
    ranks = []
    for part in (slice(0, 170), slice(170, 400)):
        accumulator = Accumulator()
        accumulator.add(RowBlock(A[part], y[part]))
        ranks.append(accumulator)
    other = ranks[1]
    together = ranks[0].finish(FakeComm(other._totals, other._sample))
    size = np.sqrt(np.outer(np.diag(serial.total()), np.diag(serial.total())))
    assert np.abs(together.total() - serial.total()).max() <= 1e-12 * size.min()


def test_reservoir_is_a_uniform_sample_of_the_rows():
    accumulator = Accumulator()
    for k in range(100):
        index = np.arange(k * 1000, (k + 1) * 1000, dtype=float)
        accumulator.add(RowBlock(index[:, None], index))
    sample = accumulator.finish().sample[:, 0]
    assert len(np.unique(sample)) == 2048
    assert sample.mean() == pytest.approx(50_000, rel=0.05)


def test_a_gram_made_in_chunks_is_the_gram(monkeypatch):
    monkeypatch.setattr("cffem.design.gram.FOLD", FoldSettings(chunk=7))
    A, y = matrix(rows=50)
    Z = np.column_stack([y, A])
    np.testing.assert_allclose(gram(y, A), Z.T @ Z, rtol=1e-12)


def test_coherence_and_column_norms_are_those_found_by_hand():
    A = np.array([[1.0, 2.0, 0.0], [0.0, 2.0, 3.0]])
    design = Design.from_matrix(A, np.ones(2), ["a", "b", "c"])
    assert design.coherence() == pytest.approx(np.sqrt(0.5))
    np.testing.assert_allclose(design.column_norms, np.sqrt([0.5, 4.0, 4.5]))


def test_single_mode_is_reported_as_an_alias():
    x, times = np.linspace(0, 1, 60), np.linspace(0, 0.1, 20)
    u = np.outer(np.sin(np.pi * x), np.exp(-(np.pi**2) * times)).ravel()
    design = Design.from_matrix(
        np.column_stack([u, -(np.pi**2) * u, u**2]), (0.5 - np.pi**2) * u, ["u", "lap", "u2"]
    )
    (group,) = design.alias_groups({"u": sp.Symbol("kappa"), "lap": sp.Symbol("D")})
    assert group.terms == ("u", "lap")
    coefficient = group.identified.coeff(sp.Symbol("D")) / group.identified.coeff(
        sp.Symbol("kappa")
    )
    assert float(coefficient) == pytest.approx(-(np.pi**2), rel=1e-5)
    assert group.estimates[0] == pytest.approx(0.5 - np.pi**2, rel=1e-6)
    assert design.rank() == 2
    assert "identifiable" in str(group)


def test_an_alias_is_told_in_words():
    A = np.random.default_rng(1).standard_normal((60, 2))
    alone, tied = A[:, 0], A[:, 1]
    design = Design.from_matrix(
        np.column_stack([tied, alone, -2.5 * tied]), tied, ["grad div", "u", "lap"]
    )
    (group,) = design.alias_groups()
    assert str(group) == "only α(grad div) − 2.5 α(lap) is identifiable of {grad div, lap}"
    named = design.alias_groups(symbols={"grad div": sp.Symbol("kappa")})[0]
    assert str(named) == "only −2.5 α(lap) + kappa is identifiable of {grad div, lap}"


def test_two_modes_are_not_aliased_and_follow_the_closed_formula():
    x = np.linspace(0, 1, 80)
    kappa, D = 0.3, 0.05
    rows = []
    for k in (1, 2):
        lam = (k * np.pi) ** 2
        u = np.sin(k * np.pi * x)
        rows.append((np.column_stack([u, -lam * u]), (kappa - lam * D) * u))
    first, second = (Design.from_matrix(A, y, ["u", "lap"]) for A, y in rows)
    both = first + second
    assert both.alias_groups() == []
    total = both.grams.total()
    np.testing.assert_allclose(np.linalg.solve(total[1:, 1:], total[1:, 0]), [kappa, D], rtol=1e-9)
    best = first.best_addition({"same mode": first, "second mode": second})
    assert best.name == "second mode"
    assert best.separated == (("lap", "u"),)


def test_three_columns_in_a_plane_identify_two_combinations():
    A, y = matrix(columns=3)
    A[:, 2] = A[:, 0] - 2 * A[:, 1]
    (group,) = Design.from_matrix(A, y, ["a", "b", "c"]).alias_groups()
    assert len(group.identified) == 2
    values = dict(zip(sp.symbols("alpha_a alpha_b alpha_c"), [1.0, -2.0, -1.0], strict=True))
    assert all(
        abs(float(c.subs(values))) < 1e-5 for c in group.identified
    )  # null direction leaves every combination unchanged


def test_vanishing_column_is_not_identified():
    A, y = matrix(columns=2)
    A[:, 1] = 0
    (group,) = Design.from_matrix(A, y, ["a", "b"]).alias_groups()
    assert group.terms == ("b",)
    assert group.identified == 0


def test_high_coherence_alone_is_no_alias():
    random = np.random.default_rng(0)
    a = random.standard_normal(5000)
    b = 0.989 * a + np.sqrt(1 - 0.989**2) * random.standard_normal(5000)
    design = Design.from_matrix(np.column_stack([a, b]), a, ["a", "b"])
    assert design.coherence() > 0.98
    assert design.alias_groups() == []
    assert design.rank() == 2


def test_rank_tolerance_comes_from_the_noise():
    random = np.random.default_rng(1)
    signal = random.standard_normal(6000)
    noisy = np.column_stack([signal, signal]) + 0.3 * random.standard_normal((6000, 2))
    naive = Design.from_matrix(noisy, signal, ["a", "b"])
    informed = Design.from_matrix(noisy, signal, ["a", "b"], column_noise=0.3)
    assert naive.rank() == 2
    assert informed.rank() == 1
    assert informed.alias_groups()[0].terms == ("a", "b")


def test_few_rows_per_term_tie_only_terms_that_a_short_relation_ties():
    random = np.random.default_rng(2)
    rows, columns = 90, 30
    clean = random.standard_normal((rows, columns))
    clean[:, 7] = clean[:, 3] + 0.02 * random.standard_normal(rows)
    noisy = clean + 0.5 * random.standard_normal(clean.shape)
    names = [f"t{k}" for k in range(columns)]
    design = Design.from_matrix(noisy, clean[:, 0], names, column_noise=0.5)
    assert design.rank() < columns - 1  # noise hides some combination of thirty terms
    (group,) = design.alias_groups()
    assert group.terms == ("t3", "t7")
    assert group.null.shape[1] == 1


def test_a_term_below_its_noise_is_not_excited():
    random = np.random.default_rng(3)
    clean = random.standard_normal((60, 20))
    clean[:, 5] *= 1e-3
    noisy = clean + 0.4 * random.standard_normal(clean.shape)
    design = Design.from_matrix(noisy, clean[:, 0], [f"t{k}" for k in range(20)], column_noise=0.4)
    assert [str(g) for g in design.alias_groups()] == ["t5: not excited by this experiment"]


def test_a_stated_tolerance_finds_aliases_behind_discretisation_errors():
    x = np.linspace(0, np.pi, 400)
    u, lap = np.sin(2 * x), -4 * np.sin(2 * x) + 1e-3 * np.cos(40 * x)
    design = Design.from_matrix(np.column_stack([u, lap, np.cos(x)]), u, ["u", "lap", "c"])
    assert design.alias_groups() == []
    (group,) = design.alias_groups(tolerance=1e-5)
    assert group.terms == ("u", "lap")
    assert design.rank(tolerance=1e-5) == 2


def test_loewner_monotonicity_when_stacking():
    A, y = matrix(0)
    B, z = matrix(1)
    first, second = (
        Design.from_matrix(M, v, list("abcde")) for M, v in ((A, y), (B * [1, 10, 0.1, 0, 5], z))
    )
    assert (first.spectrum_growth(second) >= -1e-12).all()
    stacked = first + second
    assert stacked.rows == 400
    np.testing.assert_allclose(stacked.grams.total(), first.grams.total() + second.grams.total())


def test_sparse_eigenvalues_and_irrepresentability():
    sigma = np.array([[1.0, 0.6, 0.0], [0.6, 1.0, 0.3], [0.0, 0.3, 1.0]])
    pairs = sparse_eigenvalues(sigma, 2)
    assert pairs.lower == pytest.approx(0.4)
    assert pairs.upper == pytest.approx(1.6)
    assert pairs.worst_support == (0, 1)
    assert irrepresentability(sigma, [True, False, False]) == pytest.approx(0.6)
    assert irrepresentability(sigma, [True, False, True], [1, 1]) == pytest.approx(0.9)
    assert irrepresentability(sigma, [True, False, True], [1, -1]) == pytest.approx(0.3)


def test_the_condition_of_a_selected_gram_is_the_square_of_that_of_its_columns():
    A, y = matrix()
    design = Design.from_matrix(A, y, list("abcde"))
    columns = A[:, [0, 2]] / np.linalg.norm(A[:, [0, 2]], axis=0)
    assert design.selected_gram(["a", "c"]).condition == pytest.approx(np.linalg.cond(columns) ** 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda A, y: Design.from_matrix(A, y[:-1], list("abcde")), "one y per row"),
        (lambda A, y: Design.from_matrix(A, y, list("abcd")), "one distinct name per column"),
        (lambda A, y: Design.from_matrix(A, y, ["a"] * 5), "one distinct name per column"),
        (lambda A, y: Design.from_matrix(A * np.nan, y, list("abcde")), "A or y contains NaN"),
        (
            lambda A, y: (
                Design.from_matrix(A, y, list("abcde"))
                + Design.from_matrix(A[:, :2], y, list("ab"))
            ),
            "the same terms",
        ),
        (
            lambda A, y: Design.from_fields(None, [], kind="weak"),
            "at least one solution or dataset",
        ),
        (
            lambda A, y: Design.from_fields(None, [], kind="middling"),
            "'weak' or 'strong', not 'middling'",
        ),
        (
            lambda A, y: fold([RowBlock(A, y), RowBlock(A[:, :2], y)]),
            "must have 5 columns, but one has 2",
        ),
        (lambda A, y: fold([]), "at least one row"),
        (
            lambda A, y: fold(
                [RowBlock(A, y), RowBlock(A, y, block=1, denoised=np.column_stack([y, A]))]
            ),
            "carry denoised rows",
        ),
    ],
)
def test_misuse_is_named(call, message):
    A, y = matrix()
    with pytest.raises(InputError, match=message):
        call(A, y)


def test_diagnostics_by_names_are_those_of_the_matrix():
    random = np.random.default_rng(4)
    A = random.standard_normal((60, 4))
    design = Design.from_matrix(A, A @ [1.0, -2.0, 0.0, 0.0], ["a", "b", "c", "d"])
    sigma = design.normalised_gram()
    assert design.sparse_eigenvalues(4).lower == pytest.approx(np.linalg.eigvalsh(sigma)[0])
    weights = sigma[2:, :2] @ np.linalg.inv(sigma[:2, :2])
    assert design.irrepresentability(["b", "a"]) == pytest.approx(np.abs(weights).sum(axis=1).max())
    signed = design.irrepresentability(["b", "a"], signs=[-1.0, 1.0])
    assert signed == pytest.approx(np.abs(weights @ [1.0, -1.0]).max())
    assert repr(design) == "Design(4 terms, 60 rows, 60 independent)"


def test_too_many_supports_are_bounded_by_the_whole_spectrum():
    sigma = np.eye(60) + 0.01
    found = sparse_eigenvalues(sigma, 30)
    assert not found.exact
    assert (found.lower, found.upper) == (pytest.approx(1.0), pytest.approx(1.6))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d: d.sparse_eigenvalues(5), "between 1 and 2 terms"),
        (lambda d: d.selected_gram([]), "empty support"),
        (lambda d: d.mask(["z"]), "no terms"),
        (lambda d: d.restricted_eigenvalue_by_rows(1, [999]), "can draw between"),
        (lambda d: d.best_addition({}), "at least one candidate"),
    ],
)
def test_questions_without_an_answer_are_refused(make, message):
    design = Design.from_matrix(np.eye(6)[:, :2], np.ones(6), ["a", "b"])
    with pytest.raises(InputError, match=message):
        make(design)


def test_dependent_columns_are_never_irrepresentable():
    assert irrepresentability(np.ones((3, 3)), np.array([True, True, False])) == np.inf
