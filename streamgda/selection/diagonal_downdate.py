"""Gaussian naive Bayes without each row."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgda.gaussians.base import LOG_2PI
from streamgda.selection.downdate import EPS, LEAST_LEFT, ROUNDING, Codes, Downdate, Left
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array


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
        rest[(rest <= ROUNDING * scatter) | self._is_pair[truth, None]] = 0.0
        return rest

    def _left_variances(self, j: int, left: Left, rest: Array, truth: Codes) -> Array:
        """The variances of class j without each row: (n, d). Those that rounding left are zero."""
        scatter = np.where((truth == j)[:, None], rest, self._scatters[j])
        if self._share:
            scatter = (1 - self._share) * scatter + self._share * (self._others[truth] + rest)
        variances: Array = scatter / left.freedom[:, None]
        variances[variances <= (EPS * self._means[j]) ** 2] = 0.0
        return variances

    def _smoothed(self, X: Array, rest: Array, deviations: Array, truth: Codes, weights: Array) -> Array:
        """What is added to each variance, without each row: (n,)."""
        left = self._total - weights
        squares = (weights * self._total / left)[:, None] * (X - self._centre - self._centre_tail) ** 2
        largest = ((self._total * self._variances - squares) / left[:, None]).max(axis=1)
        few = np.flatnonzero(largest < LEAST_LEFT * self._variances.max())
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
