# SPDX-License-Identifier: MIT
"""`Screening`: anchored sparse regression behind one scikit-learn-style estimator.

What is returned is what is judged: support, coefficients and intervals are those of one model,
`reliable_` speaks of that model, and a term whose interval contains zero is not in it. The default
screens for recall first, as a missed term is lost: `screened_` holds all terms that the Lasso keeps
at the smallest penalty that the noise allows, and the model is the best one that passes the
deletion test. Every term outside the model has an interval, too: the coefficient that it could
still have (`limits_`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from cffem.design.cone import Bracket, restricted_eigenvalue
from cffem.design.design import Design
from cffem.screening import lasso, resampling
from cffem.screening.contract import Contract, check_contract
from cffem.screening.detection import detections
from cffem.screening.doubts import Reliability
from cffem.screening.exploring import explore
from cffem.screening.falsity import false_share
from cffem.screening.reliability import assess
from cffem.screening.selection import (
    Refit,
    Selection,
    judged,
    refit,
    residual_share,
    score_supports,
)
from cffem.screening.skill import NullSkill, null_skill
from cffem.screening.writing import equation_latex, equation_text, summary_text
from cffem.symbols.errors import InputError
from cffem.symbols.registry import Registry

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


try:
    from sklearn.utils.validation import validate_data
except ImportError:  # scikit-learn < 1.6

    def validate_data(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        return estimator._validate_data(*args, **kwargs)


# The columns of a design that a method keeps, before the refit; None where the path of the Lasso or
# the search for the best model tells.
Method = Callable[[Design], Sequence[int]]
METHODS: Registry[Method | None] = Registry("screening method")
for _name in ("lasso", "thresholded", "adaptive", "subset"):
    METHODS.add(_name, None)
CRITERIA = ("recall", "ebic")


def add_screening_method(name: str, method: Method) -> Method:
    """Make a method known to `Screening` and to studies by its name.

    Args:
        name: how it is called.
        method: the columns of a `Design` that it keeps; refit, intervals, gates and limits are
            those of every screen.
    """
    METHODS.add(name, method)
    return method


class Screening(RegressorMixin, BaseEstimator):
    """Sparse screening of candidate terms.

    Args:
        method: `lasso`, `thresholded` (Lasso, then a threshold chosen by EBIC), `adaptive` (Lasso
            with data-driven weights) or `subset` (best subset, for libraries of up to about fifty
            terms).
        alpha: Lasso penalty λ on normalised columns; None chooses it by `criterion`.
        threshold: τ on normalised columns; None is zero, or chosen by EBIC for `thresholded`.
        criterion: `recall` takes the smallest penalty that the noise allows, `ebic` the best model
            along the path.
        largest: terms of the largest support that the best-subset search may choose; None lets it
            grow as long as larger supports score better, up to twelve terms. A limit that binds
            makes the screen unreliable.
        replicates: bootstrap replicates for frequencies.
        random_state: seed of the bootstrap.
        bounds: what is known of coefficients, by the name of the term: a pair (low, high), None on
            either side for no bound, or a number for a coefficient that is known. `{"diffusion":
            (0, None), "transport": -1.0}`.

    Attributes:
        coef_, intervals_: refitted coefficients on the original scale (zero off the support) and 95
            % intervals.
        support_: boolean mask of the selected terms; `screened_`: of those that the Lasso keeps
            before the deletion test.
        limits_: 95 % interval of the coefficient that each term could have; for a selected term its
            interval, for another one what is left if it is added to the support.
        alpha_, threshold_: λ and τ used; `frequencies_`: how often each term is selected over the
            bootstrap replicates.
        false_share_: estimate of the expected share of false terms in the support.
        contract_: error bound B_s and the conditions of the screening theorems.
        hidden_share_: largest share of the anchor (root mean square over the rows) that one term
            outside the support could carry at the end of its limits.
        selection_: the model with its rivals; `reliable_`, `reasons_`: whether to believe what is
            returned, and why not. A reliable screen says three things: the terms of the support are
            needed and no other support does as well, their coefficients lie in `intervals_`, and
            every other term of the library has a coefficient within its `limits_`. It does not say
            that nothing else is there: a true term below the noise is left out, and the support
            may lack terms that carry up to `hidden_share_` of the anchor. `summary()` says all
            of this in words.

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
        largest: int | None = None,
        replicates: int = 100,
        random_state: int = 0,
        bounds: Mapping[str, float | tuple[float | None, float | None]] | None = None,
    ) -> None:
        self.method = method
        self.alpha = alpha
        self.threshold = threshold
        self.criterion = criterion
        self.largest = largest
        self.replicates = replicates
        self.random_state = random_state
        self.bounds = bounds

    def fit(self, X: Design | ArrayLike, y: ArrayLike | None = None) -> Screening:
        """Screen a design, or a matrix of term evaluations against anchor values.

        Args:
            X: a `Design`, or an n × m matrix.
            y: n anchor values when X is a matrix.
        """
        self._check_options()
        design = X if isinstance(X, Design) else self._design(X, y)
        self.__dict__.pop("false_share_", None)
        self.__dict__.pop("_kappas", None)
        self.design_ = design
        self.n_features_in_ = len(design.names)
        known, bounds = self._bounds(design)
        free = design.with_known(known) if known else design
        found = explore(free, None if self.largest is None else int(self.largest), bounds)
        self.selection_: Selection = judged(free, found, self.replicates, self.random_state)
        screened = self._screen(free)
        chosen = self._model(free, screened, bounds)
        if chosen != self.selection_.support:
            self.selection_ = judged(free, found, self.replicates, self.random_state, chosen)
        self.refit_: Refit = refit(free, chosen, bounds)
        self.reliability_: Reliability = assess(free, self.selection_, self.refit_)
        self.reliable_ = self.reliability_.reliable
        self.reasons_ = [str(reason) for reason in self.reliability_.reasons]
        self._report(free, screened, known)
        return self

    def _check_options(self) -> None:
        METHODS[self.method]  # an unknown one is an error that names those there are
        if self.criterion not in CRITERIA:
            raise InputError(
                f"the screening criterion is one of {', '.join(CRITERIA)}, not {self.criterion!r}"
            )
        if self.largest is not None and (self.largest < 1 or self.largest != int(self.largest)):
            raise InputError(
                "the largest support is a whole number of at least one term, but largest is "
                f"{self.largest}"
            )

    def _bounds(self, design: Design) -> tuple[dict[str, float], dict[int, tuple[float, float]]]:
        """Known coefficients by name, and bounds of the others by column among the free ones."""
        pairs = {name: as_bounds(name, given) for name, given in (self.bounds or {}).items()}
        design.mask(pairs)
        known = {name: low for name, (low, high) in pairs.items() if low == high}
        free = [name for name in design.names if name not in known]
        return known, {free.index(name): pair for name, pair in pairs.items() if name not in known}

    def _design(self, X: Design | ArrayLike, y: ArrayLike | None) -> Design:
        if gives_rows(X):
            raise InputError(
                "a screen needs a design of a library on these data: "
                "fit(cf.Design.from_fields(library, data))"
            )
        X, y = validate_data(self, X, y, y_numeric=True, dtype=float, ensure_min_samples=2)
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(X.shape[1])])
        return Design.from_matrix(X, y, names)

    # The choice of the support
    # -------------------------------------------------------------------------------------------

    def _screen(self, design: Design) -> tuple[int, ...]:
        """The terms that the Lasso keeps at the chosen penalty and threshold, and for recall
        those of the best models.
        """
        sigma = design.normalised_gram()
        total = design.grams.total()
        right = total[1:, 0] / design.grams.weight.sum() / design.scale
        energy = total[0, 0] / design.grams.weight.sum()
        columns, rows = len(design.names), design.effective_rows
        variance = energy * residual_share(design, self.selection_.support)
        self.noise_level_ = lasso.noise_quantile(variance, columns, rows)
        self.path_ = lasso.lasso_path(sigma, right, self._weights(sigma, right))
        scored = score_supports(
            design, [s for s in self.path_.supports() if len(s) < max(rows, 2)] or [()]
        )
        best_on_path = scored[0][1].support
        self.alpha_ = self._penalty(best_on_path)
        raw = self.path_.at(self.alpha_)
        self.threshold_ = 0.0 if self.threshold is None else float(self.threshold)
        if self.method == "subset":
            self.frequencies_ = self.selection_.inclusion
            return self.selection_.support
        added = METHODS[self.method]
        if added is not None:
            self.frequencies_ = self._frequencies(design, self.alpha_)
            return tuple(sorted(int(j) for j in added(design)))
        if self.method == "thresholded" and self.threshold is None:
            self.threshold_ = self._threshold(design, raw)
        kept = set(np.flatnonzero(np.abs(raw) > self.threshold_).tolist())
        if self._for_recall:
            kept |= set(best_on_path) | set(self.selection_.support)
        self.frequencies_ = self._frequencies(design, self.alpha_)
        return tuple(sorted(int(j) for j in kept))

    @property
    def _for_recall(self) -> bool:
        """Whether the user left penalty and threshold to the screen."""
        return (
            self.criterion == "recall"
            and self.method == "lasso"
            and self.threshold is None
            and self.alpha is None
        )

    def _model(
        self, design: Design, screened: tuple[int, ...], bounds: Mapping[int, tuple[float, float]]
    ) -> tuple[int, ...]:
        """The support that is returned: the best model, or what the asked-for Lasso keeps
        without terms that may be zero.
        """
        if self.method == "subset" or (self._for_recall and self.selection_.support):
            return self.selection_.support
        left = list(screened)
        while left:
            fitted = refit(design, left, bounds)
            low, high = fitted.intervals.T
            doubtful = (low <= 0) & (high >= 0)
            if not doubtful.any():
                break
            left.pop(int(np.where(doubtful, fitted.statistics, np.inf).argmin()))
        return tuple(left)

    def _weights(self, sigma: np.ndarray, right: np.ndarray) -> np.ndarray | None:
        """Adaptive weights 1/|ridge estimate|: large coefficients are penalised less."""
        if self.method != "adaptive":
            return None
        first = np.linalg.solve(sigma + 1e-3 * np.eye(len(right)), right)
        largest = np.abs(first).max()
        return largest / np.maximum(np.abs(first), 1e-6 * largest) if largest > 0 else None

    def _penalty(self, best_on_path: tuple[int, ...]) -> float:
        """λ: given, the smallest that noise allows, or that of the best model along the path."""
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
        # λ/2 must dominate the noise for the theorem; twice the noise quantile is the smallest such
        # penalty.
        return 2 * self.noise_level_

    def _threshold(self, design: Design, raw: np.ndarray) -> float:
        """τ by EBIC over the nested supports that the sorted Lasso coefficients give."""
        order = [int(j) for j in np.argsort(-np.abs(raw)) if raw[j] != 0]
        nested = [tuple(sorted(order[:k])) for k in range(len(order) + 1)]
        best = score_supports(design, nested)[0][1].support
        sizes = np.sort(np.abs(raw))[::-1]
        return (
            float((sizes[len(best) - 1] + sizes[len(best)]) / 2)
            if 0 < len(best) < len(sizes)
            else 0.0
            if best
            else math.inf
        )

    def _frequencies(self, design: Design, alpha: float) -> np.ndarray:
        """Stability selection: share of block-bootstrap replicates where the Lasso keeps a term."""
        weights = resampling.bayesian_weights(
            len(design.grams.labels), self.replicates, self.random_state
        )
        grams = resampling.reweighted(design.grams.plain, weights) / design.grams.weight.sum()
        sigmas = grams[:, 1:, 1:] / np.outer(design.scale, design.scale)
        rights = grams[:, 1:, 0] / design.scale
        return (np.abs(lasso.batch_lasso(sigmas, rights, alpha)) > self.threshold_).mean(axis=0)

    # What is reported
    # ----------------------------------------------------------------------------------------------

    def _report(self, free: Design, screened: tuple[int, ...], known: Mapping[str, float]) -> None:
        """Fitted attributes of all terms, in the order of the design; known coefficients are
        as they were given.
        """
        places = np.array([self.design_.names.index(name) for name in free.names])
        given = np.array([known.get(name, 0.0) for name in self.design_.names])
        chosen = places[list(self.refit_.support)]
        self.coef_ = given.copy()
        self.coef_[chosen] = self.refit_.coefficients
        self.intervals_ = np.column_stack([given, given])
        self.intervals_[chosen] = self.refit_.intervals
        self.limits_ = self.intervals_.copy()
        hidden = detections(free, self.refit_.support)
        for column, found in hidden.items():
            self.limits_[places[column]] = found.interval
        self.hidden_share_ = max((found.share for found in hidden.values()), default=0.0)
        is_given = np.array([name in known for name in self.design_.names])
        self.support_ = is_given | np.isin(np.arange(len(given)), chosen)
        self.screened_ = is_given | np.isin(np.arange(len(given)), places[list(screened)])
        frequencies, coefficients = (
            np.ones(len(given)),
            np.tile(given[:, None] * self.design_.scale[:, None], len(self.path_.alphas)),
        )
        frequencies[places], coefficients[places] = self.frequencies_, self.path_.coefficients
        self.frequencies_, self.path_ = (
            frequencies,
            lasso.LassoPath(self.path_.alphas, coefficients),
        )

    @cached_property
    def false_share_(self) -> float:
        """Estimate of the expected share of false terms in the returned support."""
        check_is_fitted(self, "support_")
        known, bounds = self._bounds(self.design_)
        free = self.design_.with_known(known) if known else self.design_
        return false_share(free, self.refit_, bounds, self.random_state)

    def equation(self, digits: int = 4) -> str:
        """The fitted equation in plain text."""
        check_is_fitted(self, "coef_")
        return equation_text(self.design_, self.coef_, digits)

    def latex(self, digits: int = 4) -> str:
        """The fitted equation as a LaTeX formula."""
        check_is_fitted(self, "coef_")
        return equation_latex(self.design_, self.coef_, digits)

    def summary(self, digits: int = 3) -> str:
        """What the screen says, in words: the equation, what speaks against it, the intervals of
        its coefficients, and what every other term could still be.
        """
        check_is_fitted(self, "coef_")
        return summary_text(
            self.equation(digits + 1),
            self.reasons_,
            {
                name: (bool(kept), tuple(limit))
                for name, kept, limit in zip(
                    self.design_.names, self.support_, self.limits_, strict=True
                )
            },
            self.hidden_share_,
            digits,
        )

    def null_skill(self, surrogates: int = 19) -> NullSkill:
        """Skill on left-out rows beside its distribution on surrogates of the data that
        follow no equation.
        """
        check_is_fitted(self, "support_")
        return null_skill(self, surrogates)

    @property
    def contract_(self) -> Contract:
        """Conditions of the screening theorems with plug-ins for the unknown truth."""
        check_is_fitted(self, "support_")
        return self.contract()

    def contract(
        self, beta: Mapping[str, float] | None = None, noise: float | None = None
    ) -> Contract:
        """Check recall, no-false-positive and sign-recovery conditions at the λ and τ used.

        Args:
            beta: true coefficients by name (original scale); the refitted ones by default.
            noise: true ‖Aᵀη/n‖_∞ on normalised columns; its 95 % quantile by default.
        """
        check_is_fitted(self, "support_")
        design = self.design_
        original = (
            self.coef_
            if beta is None
            else np.array([float(beta.get(name, 0.0)) for name in design.names])
        )
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

    def predict(self, X: Design | ArrayLike) -> np.ndarray:
        """Anchor values predicted for rows of term evaluations, or for the rows of a dataset or
        solution.

        Args:
            X: an n × m matrix, or data on which the library of the fitted design is evaluated.
        """
        check_is_fitted(self, "coef_")
        if gives_rows(X):
            return np.concatenate([block.A @ self.coef_ for block in self._rows(X)])
        return validate_data(self, X, reset=False, dtype=float) @ self.coef_

    def score(
        self,
        X: Design | ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """R² of the prediction: of anchor values on rows of a matrix, or of the anchor on the
        rows of data or of a design.
        """
        check_is_fitted(self, "coef_")
        if isinstance(X, Design):
            residual = np.r_[1.0, -self.coef_]
            total = X.select(self.design_.names).grams.total()
            return float(1 - residual @ total @ residual / total[0, 0])
        if gives_rows(X):
            y = np.concatenate([block.y for block in self._rows(X)])
            return float(1 - ((y - self.predict(X)) ** 2).sum() / (y**2).sum())
        return super().score(X, y, sample_weight)

    def _rows(self, data: Any) -> list[Any]:
        """The rows of the fitted library on other data."""
        if self.design_.origin is None:
            raise InputError(
                "this screen was fitted on a matrix: give it rows of term evaluations, not fields"
            )
        return list(data.rows(self.design_.origin.library, self.design_.origin.kind))

    @property
    def names_(self) -> tuple[str, ...]:
        """Names of the selected terms."""
        check_is_fitted(self, "support_")
        return tuple(
            name for name, kept in zip(self.design_.names, self.support_, strict=True) if kept
        )


def gives_rows(X: Design | ArrayLike) -> bool:
    """Whether something is a dataset or a solution, which evaluates a library row by row."""
    return callable(getattr(X, "rows", None)) and not isinstance(X, Design)


def as_bounds(name: str, given: Any) -> tuple[float, float]:
    """The smallest and the largest coefficient of a term, from a number or a pair with None for no
    bound.

    Example:
        >>> as_bounds("lap", (0, None)), as_bounds("drift", -1)
        ((0.0, inf), (-1.0, -1.0))
    """
    pair = given if isinstance(given, tuple | list) else (given, given)
    if len(pair) != 2:
        raise InputError(
            f"the bounds of {name!r} are a number or a pair (low, high), not {given!r}"
        )
    try:
        low = -math.inf if pair[0] is None else float(pair[0])
        high = math.inf if pair[1] is None else float(pair[1])
    except (TypeError, ValueError):
        raise InputError(f"the bounds of {name!r} are numbers, not {given!r}") from None
    if not low <= high or (low == high and math.isinf(low)):
        raise InputError(f"the bounds of {name!r} are empty: {given!r}")
    return low, high
