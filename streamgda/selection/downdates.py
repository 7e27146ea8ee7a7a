"""Each row scored by the model of all the other rows, in closed form.

Without a row x of weight w, its class k has the mean m_k − w δ / (n_k − w) and the scatter W_k − β δ δᵀ,
where δ = x − m_k and β = w n_k / (n_k − w). So each covariance loses a matrix of rank one, and distances and
determinants follow from those of all the rows (Sherman & Morrison 1950; the matrix determinant lemma).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.wording import counted, named
from streamgda.estimators.classifier import GaussianClassifier, priors_of
from streamgda.estimators.lda import LinearDiscriminantAnalysis
from streamgda.estimators.naive_bayes import GaussianNB
from streamgda.estimators.qda import QuadraticDiscriminantAnalysis
from streamgda.estimators.shrinkage import regularised, shrunk
from streamgda.gaussians.base import LOG_2PI
from streamgda.gaussians.pooling import Pooling
from streamgda.gaussians.tails import deviations_from
from streamgda.gaussians.whitening import Whitening
from streamgda.statistics.base import Statistics
from streamgda.statistics.components import pooled_covariance
from streamgda.statistics.covariances import Array

Codes = NDArray[np.intp]
Flags = NDArray[np.bool_]

_EPS = float(np.finfo(np.float64).eps)
_ROUNDING = 64 * _EPS  # relative to what was subtracted
_LEAST_LEFT = 1e-5  # of a whole; where less is left of it, subtraction has lost five digits


def check_closed_form(estimator: GaussianClassifier[Any]) -> None:
    """Raise ValueError for an estimator whose rows cannot be left out in closed form."""
    kinds = (LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis, GaussianNB)
    estimated = [
        f"{name}={getattr(estimator, name)!r}"
        for name in ("shrinkage", "pooling")
        if isinstance(getattr(estimator, name, None), str)
    ]
    if getattr(estimator, "covariance_estimator", None) is not None:
        estimated.append("a covariance_estimator")
    if getattr(estimator, "predictive", "plugin") != "plugin":
        estimated.append(f"predictive={getattr(estimator, 'predictive', None)!r}")
    if type(estimator) not in kinds or estimated:
        why = f"with {', '.join(estimated)}" if estimated else "of this kind"
        raise ValueError(
            f"cv='loo' has no closed form for {type(estimator).__name__} {why}: each row would need another "
            "fit. It has one for LDA, QDA and GaussianNB with numbers for parameters; else set cv to a number"
        )


class Downdate(ABC):
    """The statistics of all rows, from which a row is taken out.

    Parameters
    ----------
    estimator : estimator
        With its parameters; not fitted.
    statistics : ClassStatistics or ExactClassStatistics
        Of all rows.
    ddof : float, default=0
        Subtracted from the weight of each class before a covariance is divided by it; of a pooled one, from
        the weight of all, once for each class.
    """

    def __init__(self, estimator: GaussianClassifier[Any], statistics: Statistics, ddof: float = 0) -> None:
        self.classes = statistics.classes
        self._estimator = estimator
        self._weights, self._means, self._tails = statistics.weights, statistics.means, statistics.mean_tails
        self._is_pair = statistics.counts == 2
        self._total = float(self._weights.sum())
        self._ddof = ddof
        self._priors = None if estimator.priors is None else priors_of(estimator, statistics)
        is_linear = isinstance(estimator, LinearDiscriminantAnalysis)
        self._share = 1.0 if is_linear else float(getattr(estimator, "pooling", None) or 0.0)
        self._pooling = Pooling.by_share(self._share, self._weights, statistics.n_features)
        single = np.flatnonzero(statistics.counts < 2)
        if len(single):
            raise ValueError(f"class {named(self.classes[single[0]])} has one row, without which it is gone")

    @abstractmethod
    def log_joint(self, X: Array, truth: Codes, weights: Array) -> Array:
        """Ln p(x, k) of rows by the models of all the others: (n, K).

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows that are among those of the statistics.
        truth : ndarray of int of shape (n,)
            The positions of their classes.
        weights : ndarray of shape (n,)
            Their weights.

        Raises
        ------
        ValueError
            If the others do not determine the model.
        """

    def _log_priors(self, truth: Codes, weights: Array) -> Array:
        """Ln of the priors without each row: (n, K)."""
        if self._priors is not None:
            with np.errstate(divide="ignore"):
                return np.tile(np.log(self._priors), (len(truth), 1))
        left = np.tile(self._weights, (len(truth), 1))
        left[np.arange(len(truth)), truth] -= weights
        shares: Array = np.log(left / (self._total - weights)[:, None])
        return shares

    def _from_mean(self, X: Array, classes: int | Codes) -> Array:
        """Rows less the mean of a class, or each less that of its own: (n, d)."""
        return deviations_from(X, self._means[classes], self._tails[classes])

    def _left(self, j: int, truth: Codes, weights: Array) -> _Left:
        """What is left of class j without each row."""
        own = self._weights[truth]
        ratio = own / (own - weights)
        part = np.where(truth == j, 1.0, self._share)
        lost = self._ddof * (1 - self._share + self._share * len(self.classes))
        freedom = self._pooling.divisors[j] - lost
        return _Left(ratio, part * weights * ratio, freedom - part * weights)

    def _check(self, is_left: Any, truth: Codes) -> None:
        if not is_left.all():
            row = int(np.argmin(is_left))
            raise ValueError(
                f"row {row} of class {named(self.classes[truth[row]])}: without it, a covariance is "
                "singular, so leaving it out has no score; regularise, or bring more rows"
            )


@dataclass(frozen=True)
class _Left:
    """What is left of a class without each of n rows.

    Attributes
    ----------
    ratio : ndarray of shape (n,)
        n_k / (n_k − w) of the class of the row.
    beta : ndarray of shape (n,)
        The factor of the δ δᵀ that is subtracted from the scatter.
    freedom : ndarray of shape (n,)
        The divisor of the scatter that is left.
    """

    ratio: Array
    beta: Array
    freedom: Array


class DiscriminantDowndate(Downdate):
    """Linear and quadratic discriminant analysis: plain, shrunk, pooled or regularised by numbers.

    The scatter of class j is B_j = (1 − λ) W_j + λ W, with λ = 0 for quadratic and 1 for linear discriminant
    analysis. In the coordinates in which its regularised covariance is the identity and its ridge is
    diagonal, all the regularised covariances are. They do not depend on the units of the features.

    Where a row holds almost all of a covariance, what is left of it is computed and factored.
    """

    def __init__(self, estimator: Any, statistics: Statistics, ddof: float = 0) -> None:
        super().__init__(estimator, statistics, ddof)
        self._shrinkage = float(estimator.shrinkage or 0.0)
        self._ridge = float(getattr(estimator, "reg_param", 0.0))
        self._is_plain = not (self._shrinkage or self._ridge)
        self._least = float(estimator.tol) ** 2
        self._check_counts(statistics)
        self._scatter = statistics.scatter  # of LDA, that of all classes together
        self._bases = [self._basis(covariance, j) for j, covariance in enumerate(self._pooled(statistics))]

    def _check_counts(self, statistics: Statistics) -> None:
        """Raise ValueError if a class has too few rows to do without one: n rows span n − 1 dimensions."""
        if self._share or not self._is_plain:
            return
        for k in np.flatnonzero(statistics.counts - 2 < statistics.n_features):
            raise ValueError(
                f"class {named(self.classes[k])}: without one of its {statistics.counts[k]} rows, the "
                f"covariance is singular for {counted(statistics.n_features, 'feature')}; regularise, or "
                "bring more rows"
            )

    def _pooled(self, statistics: Statistics) -> list[Array]:
        """The covariance of each class before shrinkage; of LDA the one of all."""
        within = pooled_covariance(statistics)
        if self._share == 1:
            return [within]
        return list(self._pooling.covariances(self._scatter, within))

    def _basis(self, covariance: Array, j: int) -> _Basis:
        means = self._means if self._share else self._means[[j]]
        whitening = Whitening.of(self._regularised(covariance), means, self._least)
        if self._share != 1 and whitening.rank < len(covariance):
            raise ValueError(f"class {named(self.classes[j])}: the covariance is singular; regularise")
        if not whitening.rank:
            raise ValueError("no feature varies within a class, so there is no covariance to work with")
        mean_variance = float(np.trace(covariance)) / len(covariance)
        return _Basis.of(whitening, mean_variance, float(self._ridge_of(mean_variance)))

    def _basis_of(self, j: int) -> _Basis:
        return self._bases[min(j, len(self._bases) - 1)]

    def _ridge_of(self, mean_variance: Any) -> Any:
        """What is added to the diagonal of a covariance of this mean variance."""
        return (1 - self._ridge) * self._shrinkage * mean_variance + self._ridge

    def _regularised(self, covariance: Array) -> Array:
        shrunken = shrunk(covariance, self._shrinkage) if self._shrinkage else covariance.copy()
        return regularised(shrunken, self._ridge)

    def log_joint(self, X: Array, truth: Codes, weights: Array) -> Array:
        """Ln p(x, k) of rows by the models of all the others: (n, K)."""
        result = self._log_priors(truth, weights)
        deviations = self._from_mean(X, truth)
        for j in range(len(self.classes)):
            result[:, j] += self._log_density(j, X, deviations, truth, weights)
        return result

    def _log_density(self, j: int, X: Array, deviations: Array, truth: Codes, weights: Array) -> Array:
        """Ln of the density of class j at each row, without it: (n,)."""
        log_density, is_known = self._in_closed_form(j, X, deviations, truth, weights)
        for i in np.flatnonzero(~is_known):
            log_density[i] = self._computed(j, X[i], deviations[i], int(truth[i]), float(weights[i]))
        self._check(~np.isnan(log_density), truth)
        return log_density

    def _in_closed_form(
        self, j: int, X: Array, deviations: Array, truth: Codes, weights: Array
    ) -> tuple[Array, Flags]:
        """The same, and of which rows it keeps its digits: those that leave much."""
        left, basis = self._left(j, truth, weights), self._basis_of(j)
        own = truth == j
        from_mean = self._from_mean(X, j) @ basis.vectors
        removed = deviations @ basis.vectors if self._share else from_mean * own[:, None]
        from_mean[own] *= left.ratio[own, None]
        values, is_much = self._values(basis, left, deviations, j, truth)
        reduced = removed / values
        gamma = left.beta * (1 - self._ridge) * (1 - self._shrinkage) / left.freedom
        slack = 1 - gamma * np.vecdot(reduced, removed)
        is_known = is_much & (slack >= _LEAST_LEFT)
        slack[~is_known] = 1.0
        squared = np.vecdot(from_mean / values, from_mean)
        squared += gamma * np.vecdot(reduced, from_mean) ** 2 / slack
        log_determinant = np.log(values).sum(axis=1) + np.log(slack) + basis.log_determinant
        return -0.5 * (squared + log_determinant + values.shape[1] * LOG_2PI), is_known

    def _values(
        self, basis: _Basis, left: _Left, deviations: Array, j: int, truth: Codes
    ) -> tuple[Array, Flags]:
        """The variances along the axes, regularised, before the matrix of rank one is taken out: (n, r).

        Also whether much is left of the mean variance by which they are shrunk.
        """
        scale = self._pooling.divisors[j] / left.freedom
        whole = scale * basis.mean_variance
        squares = np.vecdot(deviations, deviations)
        mean_variance = whole - left.beta / left.freedom * squares / deviations.shape[1]
        rounding = _EPS**2 * np.vecdot(self._means, self._means)[truth]
        is_much = np.asarray((mean_variance >= _LEAST_LEFT * whole) | (squares <= rounding))
        if not self._shrinkage:
            is_much[:] = True
        ridges = self._ridge_of(np.where(is_much, np.maximum(mean_variance, 0.0), whole))
        values: Array = scale[:, None] * (1 - basis.ridges) + ridges[:, None] * basis.relative_ridges
        return values, is_much

    def _computed(self, j: int, row: Array, deviation: Array, own: int, weight: float) -> float:
        """Ln of the density of class j at a row of class `own`, without the row; NaN if it is singular."""
        left = self._left(j, np.array([own]), np.array([weight]))
        scatter = self._left_scatter(j, deviation, own, weight * float(left.ratio[0]))
        means, from_mean = self._means.copy(), self._from_mean(row, j)
        means[own] -= (float(left.ratio[0]) - 1) * deviation
        if j == own:
            from_mean *= left.ratio[0]
        covariance = self._regularised(scatter / left.freedom[0])
        whitening = Whitening.of(covariance, means if self._share else means[[j]], self._least)
        if whitening.rank < self._basis_of(j).vectors.shape[1]:
            return float("nan")
        whitened = from_mean @ whitening.matrix
        return -0.5 * float(whitened @ whitened + whitening.log_pdet + whitening.rank * LOG_2PI)

    def _left_scatter(self, j: int, deviation: Array, own: int, beta: float) -> Array:
        """B_j without a row of class `own`: (d, d). One row of two leaves no scatter of its class."""
        removed = beta * np.outer(deviation, deviation)
        if self._scatter.ndim == 2:
            return _less(self._scatter, removed)
        rest = np.zeros_like(removed) if self._is_pair[own] else _less(self._scatter[own], removed)
        scatter: Array = (1 - self._share) * (rest if j == own else self._scatter[j])
        if self._share:
            scatter = scatter + self._share * (np.delete(self._scatter, own, axis=0).sum(axis=0) + rest)
        return scatter


def _less(scatter: Array, removed: Array) -> Array:
    """A scatter (d, d) less a part of it; features of which rounding alone is left are zero."""
    rest = scatter - removed
    gone = rest.diagonal() <= _ROUNDING * scatter.diagonal()
    rest[gone] = 0.0
    rest[:, gone] = 0.0
    return rest


@dataclass(frozen=True)
class _Basis:
    """Coordinates in which a covariance with its ridge is the identity, and the ridge alone diagonal.

    Attributes
    ----------
    vectors : ndarray of shape (d, r)
        V with Vᵀ (a Σ + ρ I) V = I.
    mean_variance : float
        That of Σ.
    ridges : ndarray of shape (r,)
        The diagonal of ρ Vᵀ V, between 0 and 1.
    relative_ridges : ndarray of shape (r,)
        The same over ρ; zero without a ridge.
    log_determinant : float
        ln det (a Σ + ρ I).
    """

    vectors: Array
    mean_variance: float
    ridges: Array
    relative_ridges: Array
    log_determinant: float

    @classmethod
    def of(cls, whitening: Whitening, mean_variance: float, ridge: float) -> _Basis:
        """The coordinates, from others in which the regularised covariance is the identity."""
        matrix, log_determinant = whitening.matrix, whitening.log_pdet
        if not ridge:
            return cls(
                matrix, mean_variance, np.zeros(whitening.rank), np.zeros(whitening.rank), log_determinant
            )
        scaled = math.sqrt(ridge) * matrix
        values, axes = np.linalg.eigh(scaled.T @ scaled)
        ridges = np.clip(values, 0.0, 1.0)
        return cls(matrix @ axes, mean_variance, ridges, ridges / ridge, log_determinant)


class DiagonalDowndate(Downdate):
    """Gaussian naive Bayes, smoothed by the largest variance of the rows that are left."""

    def __init__(self, estimator: Any, statistics: Statistics, ddof: float = 0) -> None:
        super().__init__(estimator, statistics, ddof)
        self._scatters = statistics.scatter
        self._others = _sums_of_others(self._scatters)
        self._smoothing = float(estimator.var_smoothing)
        self._centre, self._variances = statistics.overall_mean(), statistics.total_variance()
        self._centre_tail = self._weights @ self._offsets() / self._total

    def _offsets(self) -> Array:
        """The means of the classes less that of all rows: (K, d)."""
        offsets: Array = (self._means - self._centre) + self._tails
        return offsets

    def log_joint(self, X: Array, truth: Codes, weights: Array) -> Array:
        """Ln p(x, k) of rows by the models of all the others: (n, K)."""
        result = self._log_priors(truth, weights)
        deviations = self._from_mean(X, truth)
        rest = self._rest(deviations, truth, weights)
        smoothing = self._smoothed(X, rest, deviations, truth, weights)
        for j in range(len(self.classes)):
            left = self._left(j, truth, weights)
            from_mean = self._from_mean(X, j)
            from_mean[truth == j] *= left.ratio[truth == j, None]
            variances = self._left_variances(j, left, rest, truth) + smoothing[:, None]
            self._check(np.asarray(variances > 0).all(axis=1), truth)
            terms = from_mean**2 / variances + np.log(variances) + LOG_2PI
            result[:, j] -= 0.5 * terms.sum(axis=1)
        return result

    def _rest(self, deviations: Array, truth: Codes, weights: Array) -> Array:
        """The scatter of the class of each row without it: (n, d). One row of two leaves none."""
        scatter, own = self._scatters[truth], self._weights[truth]
        rest = scatter - (weights * own / (own - weights))[:, None] * deviations**2
        rest[(rest <= _ROUNDING * scatter) | self._is_pair[truth, None]] = 0.0
        return rest

    def _left_variances(self, j: int, left: _Left, rest: Array, truth: Codes) -> Array:
        """The variances of class j without each row: (n, d). Those that rounding left are zero."""
        scatter = np.where((truth == j)[:, None], rest, self._scatters[j])
        if self._share:
            scatter = (1 - self._share) * scatter + self._share * (self._others[truth] + rest)
        variances: Array = scatter / left.freedom[:, None]
        variances[variances <= (_EPS * self._means[j]) ** 2] = 0.0
        return variances

    def _smoothed(self, X: Array, rest: Array, deviations: Array, truth: Codes, weights: Array) -> Array:
        """What is added to each variance, without each row: (n,)."""
        left = self._total - weights
        squares = (weights * self._total / left)[:, None] * (X - self._centre - self._centre_tail) ** 2
        largest = ((self._total * self._variances - squares) / left[:, None]).max(axis=1)
        few = np.flatnonzero(largest < _LEAST_LEFT * self._variances.max())
        largest[few] = self._largest_variances(rest[few], deviations[few], truth[few], weights[few])
        smoothing: Array = self._smoothing * largest
        return smoothing

    def _largest_variances(self, rest: Array, deviations: Array, truth: Codes, weights: Array) -> Array:
        """The largest variance of all rows without each of a few: (n,); within the classes and between."""
        shares, rows = np.tile(self._weights, (len(truth), 1)), np.arange(len(truth))
        shares[rows, truth] -= weights
        offsets = np.tile(self._offsets(), (len(truth), 1, 1))
        offsets[rows, truth] -= (weights / shares[rows, truth])[:, None] * deviations
        shares /= shares.sum(axis=1, keepdims=True)
        offsets -= np.einsum("nk,nkd->nd", shares, offsets)[:, None]
        between = np.einsum("nk,nkd->nd", shares, offsets**2)
        within = (self._others[truth] + rest) / (self._total - weights)[:, None]
        largest: Array = (within + between).max(axis=1, initial=0.0)
        return largest


def _sums_of_others(terms: Array) -> Array:
    """The sums of all terms but one, along the first axis, without a subtraction."""
    sums = np.zeros_like(terms)
    sums[1:] += terms[:-1].cumsum(axis=0)
    sums[:-1] += terms[:0:-1].cumsum(axis=0)[::-1]
    return sums


def downdate_of(estimator: GaussianClassifier[Any], statistics: Statistics, ddof: float = 0) -> Downdate:
    """What leaves rows out of the model of an estimator; see `Downdate`.

    Raises
    ------
    ValueError
        If there is no closed form, or all rows but one do not determine the model.
    """
    check_closed_form(estimator)
    estimator._validate_params()
    statistics = statistics.ordinary()
    if statistics.keeps_patterns:
        raise ValueError(
            "cv='loo' has a closed form for complete rows alone, and here features are missing; set cv to a "
            "number, or leave such rows out, with missing='drop'"
        )
    statistics = statistics.to_covariance_type(**estimator.required_statistics())
    kind = DiagonalDowndate if isinstance(estimator, GaussianNB) else DiscriminantDowndate
    return kind(estimator, statistics, ddof)
