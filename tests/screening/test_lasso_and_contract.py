"""The Lasso from Grams, its penalty, and the conditions of the screening theorems."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from cffem.design import Design
from cffem.screening import Screening
from cffem.screening.contract import check_contract
from cffem.screening.lasso import batch_lasso, lasso_path
from cffem.screening.reliability import assess
from cffem.screening.resampling import bayesian_weights, jackknife, reweighted


def problem(n=400, m=8, noise=0.3, seed=0):
    random = np.random.default_rng(seed)
    A = random.standard_normal((n, m)) * np.logspace(-2, 2, m)
    beta = np.zeros(m)
    beta[[1, 4]] = [2.0, -1.5] / np.array([np.logspace(-2, 2, m)[1], np.logspace(-2, 2, m)[4]])
    return A, beta, A @ beta + noise * random.standard_normal(n)


def test_path_solves_the_lasso():
    A, _, y = problem()
    scale = np.sqrt((A**2).mean(axis=0))
    X = A / scale
    path = lasso_path(X.T @ X / len(y), X.T @ y / len(y))
    for alpha in (1.0, 0.2, 0.05):
        reference = (
            Lasso(alpha=alpha, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(X, y).coef_
        )
        np.testing.assert_allclose(path.at(alpha), reference, atol=1e-6)


def test_batch_lasso_agrees_with_the_path():
    A, _, y = problem()
    X = A / np.sqrt((A**2).mean(axis=0))
    sigma, right = X.T @ X / len(y), X.T @ y / len(y)
    batch = batch_lasso(np.array([sigma, 2 * sigma]), np.array([right, 2 * right]), 0.1)
    np.testing.assert_allclose(batch[0], lasso_path(sigma, right).at(0.1), atol=1e-3)
    assert batch.shape == (2, 8)


@pytest.mark.parametrize("method", ["lasso", "thresholded", "adaptive", "subset"])
def test_badly_scaled_columns_do_not_hide_terms(method):
    A, beta, y = problem()
    screen = Screening(method=method).fit(A, y)
    assert (screen.support_ == (beta != 0)).all()
    assert screen.screened_[beta != 0].all()
    np.testing.assert_allclose(screen.coef_[[1, 4]], beta[[1, 4]], rtol=0.05)
    assert (screen.frequencies_[[1, 4]] > 0.95).all()


def test_recall_penalty_dominates_the_noise_and_keeps_the_truth():
    hits = 0
    for seed in range(20):
        A, beta, y = problem(seed=seed, noise=0.5)
        screen = Screening().fit(A, y)
        X = A / np.sqrt((A**2).mean(axis=0))
        assert screen.alpha_ / 2 >= np.abs(X.T @ (y - A @ beta) / len(y)).max() * 0.6
        hits += bool(screen.screened_[beta != 0].all() and screen.support_[beta != 0].all())
    assert hits == 20


def test_error_bound_of_the_theorem_holds():
    A, beta, y = problem()
    scale = np.sqrt((A**2).mean(axis=0))
    X = A / scale
    truth = {f"x{j}": beta[j] for j in range(8)}
    noise = float(np.abs(X.T @ (y - A @ beta) / len(y)).max())
    screen = Screening(alpha=2 * noise).fit(A, y)
    contract = screen.contract(truth, noise)
    assert not contract.estimated
    assert contract.noise == "holds"
    assert np.linalg.norm(screen.path_.at(screen.alpha_) - beta * scale) <= contract.bound
    assert contract.recall == "holds"
    assert screen.contract_.estimated


def test_the_contract_holds_fails_or_is_unknown():
    from cffem.design.cone import Bracket

    sigma, beta = np.eye(3), np.array([1.0, 0.0, 0.0])
    exact = Bracket(1.0, 1.0, beta)
    good = check_contract(sigma, beta, 0.1, 0.4, 0.05, exact, estimated=False)
    assert (good.recall, good.no_false_positive, good.sign_recovery) == ("holds", "holds", "holds")
    assert good.bound == pytest.approx(0.4)
    assert (
        check_contract(sigma, beta, 0.1, 0.3, 0.05, exact, estimated=False).no_false_positive
        == "fails"
    )
    assert check_contract(sigma, beta, 0.1, 0.7, 0.05, exact, estimated=False).recall == "fails"
    assert check_contract(sigma, beta, 0.1, 0.4, 0.06, exact, estimated=False).recall == "unknown"
    wide = Bracket(0.1, 1.0, beta)
    assert (
        check_contract(sigma, beta, 0.1, 0.4, 0.05, wide, estimated=False).no_false_positive
        == "unknown"
    )
    dependent = np.array([[1.0, 0.0, 0.8], [0.0, 1.0, 0.8], [0.8, 0.8, 1.28]])
    both = np.array([1.0, 1.0, 0.0])
    assert (
        check_contract(dependent, both, 0.1, 0.0, 0.01, exact, estimated=False).sign_recovery
        == "fails"
    )


def test_errors_in_the_columns_do_not_attenuate():
    random = np.random.default_rng(0)
    clean = random.standard_normal((20_000, 2))
    y = clean @ [1.0, -2.0] + 0.1 * random.standard_normal(20_000)
    noisy = clean + 0.6 * random.standard_normal(clean.shape)
    plain = Screening(method="subset").fit(Design.from_matrix(noisy, y, ["a", "b"]))
    corrected = Screening(method="subset").fit(
        Design.from_matrix(noisy, y, ["a", "b"], column_noise=0.6)
    )
    assert abs(plain.coef_[1]) < 1.6
    np.testing.assert_allclose(corrected.coef_, [1.0, -2.0], rtol=0.04)


def test_intervals_cover_the_truth_nine_times_in_ten():
    covered = []
    for seed in range(40):
        A, beta, y = problem(seed=100 + seed, noise=1.0)
        screen = Screening(method="subset").fit(A, y)
        low, high = screen.intervals_[[1, 4]].T
        covered.append(((low <= beta[[1, 4]]) & (beta[[1, 4]] <= high)).mean())
    assert np.mean(covered) >= 0.9


def test_jackknife_and_bootstrap_of_the_mean():
    values = np.random.default_rng(0).standard_normal((30, 50)) + 3
    blocks = np.array([[[v @ v, v.sum()], [v.sum(), len(v)]] for v in values])
    estimate, error = jackknife(blocks, (0,))
    assert estimate[0] == pytest.approx(values.mean())
    assert error[0] == pytest.approx(values.mean(axis=1).std(ddof=1) / np.sqrt(30), rel=1e-6)
    weights = bayesian_weights(30, 2000)
    replicates = reweighted(blocks, weights)
    spread = (replicates[:, 1, 0] / replicates[:, 1, 1]).std()
    assert spread == pytest.approx(error[0], rel=0.15)


def test_a_thousand_replicates_are_cheap():
    import time

    A, _, y = problem(n=1200, m=12)
    design = Design.from_matrix(A, y, [f"t{k}" for k in range(12)])
    start = time.process_time()
    Screening(replicates=1000).fit(design)
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "magic"}, "unknown screening method 'magic'; there are lasso, thresholded"),
        ({"criterion": "luck"}, "one of recall, ebic, not 'luck'"),
    ],
)
def test_misuse_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Screening(**arguments).fit(np.eye(5), np.ones(5))


@pytest.mark.parametrize(
    ("changes", "statistic", "message"),
    [
        ({}, 0.5, "t0 is only 0.5 standard errors from zero"),
        ({"win_rate": 0.5}, 1e6, "the support wins only 50% of the bootstrap replicates"),
        ({"gap": 1.0, "rival": (1, 2)}, 1e6, "{t1, t2} fits almost as well"),
        ({"agree": False}, 1e6, "raw and denoised rows choose different supports"),
        ({"support": ()}, 1e6, "no term differs from zero"),
    ],
)
def test_each_doubt_about_a_support_is_named(changes, statistic, message):
    A = np.random.default_rng(5).standard_normal((300, 3))
    design = Design.from_matrix(A, A[:, 0], ["t0", "t1", "t2"])
    sound = {
        "support": (0,),
        "win_rate": 1.0,
        "gap": 100.0,
        "rival": None,
        "agree": True,
        "doubts": (),
    }
    fitted = SimpleNamespace(support=(0,), statistics=np.array([statistic]))
    found = assess(design, SimpleNamespace(**{**sound, **changes}), fitted)
    assert not found.reliable
    assert [reason.kind for reason in found.reasons] == ["unstable"]
    assert message in str(found.reasons[0])


def test_a_support_without_doubt_is_reliable():
    A = np.random.default_rng(5).standard_normal((300, 3))
    design = Design.from_matrix(A, A[:, 0], ["t0", "t1", "t2"])
    chosen = SimpleNamespace(
        support=(0,), win_rate=1.0, gap=100.0, rival=None, agree=True, doubts=()
    )
    assert assess(
        design, chosen, SimpleNamespace(support=(0,), statistics=np.array([1e6]))
    ).reliable
