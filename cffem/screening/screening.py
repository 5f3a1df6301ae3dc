# SPDX-License-Identifier: MIT
"""`Screening`: anchored sparse regression behind one scikit-learn-style estimator.

The default is oriented at recall, as false positives are removed later by deletion but a missed term is lost: λ is the smallest
penalty that the noise allows, τ is zero, and the terms of the best-scoring model along the path are always kept.
`method="subset"` returns the sparse model itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from cffem.design.cone import Bracket, restricted_eigenvalue
from cffem.design.design import Design
from cffem.screening import lasso, resampling
from cffem.screening.contract import Contract, check_contract
from cffem.screening.reliability import Reliability, assess
from cffem.screening.selection import Refit, Selection, refit, residual_share, score_supports, select
from cffem.symbols.errors import InputError

try:
    from sklearn.utils.validation import validate_data
except ImportError:  # scikit-learn < 1.6

    def validate_data(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        return estimator._validate_data(*args, **kwargs)


METHODS = ("lasso", "thresholded", "adaptive", "subset")
CRITERIA = ("recall", "ebic")


class Screening(RegressorMixin, BaseEstimator):
    """Sparse screening of candidate terms.

    Args:
        method: `lasso`, `thresholded` (Lasso, then a threshold chosen by EBIC), `adaptive` (Lasso with data-driven weights) or
            `subset` (best subset, for libraries of up to about fifty terms).
        alpha: Lasso penalty λ on normalised columns; None chooses it by `criterion`.
        threshold: τ on normalised columns; None is zero, or chosen by EBIC for `thresholded`.
        criterion: `recall` takes the smallest penalty that the noise allows, `ebic` the best model along the path.
        largest: largest support visited by the best-subset search.
        replicates: bootstrap replicates for frequencies.
        random_state: seed of the bootstrap.

    Attributes (after `fit`):
        coef_, intervals_: refitted coefficients on the original scale (zero off the support) and 95 % intervals.
        support_: boolean mask of the selected terms; `alpha_`, `threshold_`: λ and τ used.
        frequencies_: how often each term is selected over the bootstrap replicates.
        contract_: error bound B_s and the conditions of the screening theorems.
        selection_: the best sparse model with its rivals; `reliable_`, `reasons_`: whether to believe it and why not.

    Example:
        >>> random = np.random.default_rng(0)
        >>> X = random.standard_normal((200, 5))
        >>> y = 2 * X[:, 1] - X[:, 3] + 0.1 * random.standard_normal(200)
        >>> Screening(method="subset").fit(X, y).support_
        array([False,  True, False,  True, False])
    """

    def __init__(
        self,
        method: str = "lasso",
        *,
        alpha: float | None = None,
        threshold: float | None = None,
        criterion: str = "recall",
        largest: int = 6,
        replicates: int = 100,
        random_state: int = 0,
    ) -> None:
        self.method = method
        self.alpha = alpha
        self.threshold = threshold
        self.criterion = criterion
        self.largest = largest
        self.replicates = replicates
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Screening:
        """Screen a design, or a matrix of term evaluations against anchor values.

        Args:
            X: a `Design`, or an n × m matrix.
            y: n anchor values when X is a matrix.
        """
        if self.method not in METHODS:
            raise InputError(f"the screening method is one of {', '.join(METHODS)}, not {self.method!r}")
        if self.criterion not in CRITERIA:
            raise InputError(f"the screening criterion is one of {', '.join(CRITERIA)}, not {self.criterion!r}")
        design = X if isinstance(X, Design) else self._design(X, y)
        self.design_ = design
        self.n_features_in_ = len(design.names)
        self.selection_: Selection = select(design, self.largest, self.replicates, self.random_state)
        chosen = self._choose(design)
        self.support_ = np.isin(np.arange(len(design.names)), list(chosen))
        self._refit(design, chosen)
        best_fit = self.refit_ if tuple(chosen) == self.selection_.support else refit(design, self.selection_.support)
        self.reliability_: Reliability = assess(design, self.selection_, best_fit)
        self.reliable_ = self.reliability_.reliable
        self.reasons_ = [str(reason) for reason in self.reliability_.reasons]
        return self

    def _design(self, X: Any, y: Any) -> Design:
        X, y = validate_data(self, X, y, y_numeric=True, dtype=float, ensure_min_samples=2)
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(X.shape[1])])
        return Design.from_matrix(X, y, names)

    # The choice of the support -------------------------------------------------------------------------------------------

    def _choose(self, design: Design) -> tuple[int, ...]:
        sigma = design.normalised_gram()
        total = design.grams.total()
        right = total[1:, 0] / design.grams.weight.sum() / design.scale
        energy = total[0, 0] / design.grams.weight.sum()
        columns, rows = len(design.names), design.effective_rows
        variance = energy * residual_share(design, self.selection_.support)
        self.noise_level_ = lasso.noise_quantile(variance, columns, rows)
        self.path_ = lasso.lasso_path(sigma, right, self._weights(sigma, right))
        scored = score_supports(design, [s for s in self.path_.supports() if len(s) < max(rows, 2)] or [()])
        best_on_path = scored[0][1].support
        self.alpha_ = self._penalty(best_on_path)
        raw = self.path_.at(self.alpha_)
        self.threshold_ = 0.0 if self.threshold is None else float(self.threshold)
        if self.method == "subset":
            self.frequencies_ = self.selection_.inclusion
            return self.selection_.support
        if self.method == "thresholded" and self.threshold is None:
            self.threshold_ = self._threshold(design, raw)
        chosen = set(np.flatnonzero(np.abs(raw) > self.threshold_).tolist())
        if self.criterion == "recall" and self.method == "lasso" and self.threshold is None and self.alpha is None:
            chosen |= set(best_on_path) | set(self.selection_.support)
        self.frequencies_ = self._frequencies(design, self.alpha_)
        return tuple(sorted(int(j) for j in chosen))

    def _weights(self, sigma: np.ndarray, right: np.ndarray) -> np.ndarray | None:
        """Adaptive weights 1/|ridge estimate|: large coefficients are penalised less."""
        if self.method != "adaptive":
            return None
        first = np.linalg.solve(sigma + 1e-3 * np.eye(len(right)), right)
        largest = np.abs(first).max()
        return largest / np.maximum(np.abs(first), 1e-6 * largest) if largest > 0 else None

    def _penalty(self, best_on_path: tuple[int, ...]) -> float:
        """λ: given, the smallest that the noise allows, or that of the best model along the path."""
        if self.alpha is not None:
            return float(self.alpha)
        knots = [
            a
            for a, c in zip(self.path_.alphas, self.path_.coefficients.T, strict=True)
            if set(np.flatnonzero(c)) == set(best_on_path)
        ]
        at_best = float(min(knots)) if knots else float(self.path_.alphas[0])
        if self.criterion == "ebic" or self.method == "adaptive":
            return at_best
        # λ/2 must dominate the noise for the theorem; twice the noise quantile is the smallest such penalty.
        return 2 * self.noise_level_

    def _threshold(self, design: Design, raw: np.ndarray) -> float:
        """τ by EBIC over the nested supports that the sorted Lasso coefficients give."""
        order = [int(j) for j in np.argsort(-np.abs(raw)) if raw[j] != 0]
        nested = [tuple(sorted(order[:k])) for k in range(len(order) + 1)]
        best = score_supports(design, nested)[0][1].support
        sizes = np.sort(np.abs(raw))[::-1]
        return float((sizes[len(best) - 1] + sizes[len(best)]) / 2) if 0 < len(best) < len(sizes) else 0.0 if best else math.inf

    def _frequencies(self, design: Design, alpha: float) -> np.ndarray:
        """Stability selection: share of block-bootstrap replicates in which the Lasso at λ keeps a term."""
        weights = resampling.bayesian_weights(len(design.grams.labels), self.replicates, self.random_state)
        grams = resampling.reweighted(design.grams.plain, weights) / design.grams.weight.sum()
        sigmas = grams[:, 1:, 1:] / np.outer(design.scale, design.scale)
        rights = grams[:, 1:, 0] / design.scale
        return (np.abs(lasso.batch_lasso(sigmas, rights, alpha)) > self.threshold_).mean(axis=0)

    # What is reported ----------------------------------------------------------------------------------------------------

    def _refit(self, design: Design, chosen: tuple[int, ...]) -> None:
        self.refit_: Refit = refit(design, chosen)
        self.coef_ = np.zeros(len(design.names))
        self.coef_[list(chosen)] = self.refit_.coefficients
        self.intervals_ = np.zeros((len(design.names), 2))
        self.intervals_[list(chosen)] = self.refit_.intervals

    @property
    def contract_(self) -> Contract:
        """Conditions of the screening theorems with plug-ins for the unknown truth."""
        check_is_fitted(self, "support_")
        return self.contract()

    def contract(self, beta: Mapping[str, float] | None = None, noise: float | None = None) -> Contract:
        """Check recall, no-false-positive and sign-recovery conditions at the λ and τ used.

        Args:
            beta: true coefficients by name (original scale); the refitted ones by default.
            noise: true ‖Aᵀη/n‖_∞ on normalised columns; its 95 % quantile by default.
        """
        check_is_fitted(self, "support_")
        design = self.design_
        original = self.coef_ if beta is None else np.array([float(beta.get(name, 0.0)) for name in design.names])
        scaled = original * design.scale
        size = max(1, int((scaled != 0).sum()))
        return check_contract(
            design.normalised_gram(),
            scaled,
            self.alpha_,
            self.threshold_ if math.isfinite(self.threshold_) else 0.0,
            self.noise_level_ if noise is None else noise,
            self._kappa(size),
            estimated=beta is None or noise is None,
        )

    def _kappa(self, size: int) -> Bracket:
        cache = self.__dict__.setdefault("_kappas", {})
        if size not in cache:
            cache[size] = restricted_eigenvalue(self.design_.normalised_gram(), size, seconds=2.0)
        return cache[size]

    def predict(self, X: Any) -> np.ndarray:
        """Anchor values predicted for rows of term evaluations."""
        check_is_fitted(self, "coef_")
        return validate_data(self, X, reset=False, dtype=float) @ self.coef_

    @property
    def names_(self) -> tuple[str, ...]:
        """Names of the selected terms."""
        check_is_fitted(self, "support_")
        return tuple(name for name, kept in zip(self.design_.names, self.support_, strict=True) if kept)
