"""Gaussian naive Bayes without each row."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgda.gaussians.base import LOG_2PI
from streamgda.selection.downdate import LEAST_LEFT, Codes, Downdate, Flags
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array


class DiagonalDowndate(Downdate):
    """Gaussian naive Bayes, smoothed by the largest variance of the rows that are left."""

    def __init__(self, estimator: Any, statistics: Statistics) -> None:
        super().__init__(estimator, statistics)
        self._smoothing = float(estimator.var_smoothing)
        self._centre, self._total_variances = statistics.overall_mean(), statistics.total_variance()
        self._variances = self._fitted.gaussians.variances
        self._unsmoothed = self._variances - self._smoothing * self._total_variances.max()
        offsets = (self._means - self._centre) + self._tails
        self._centre_tail = self._weights @ offsets / self._total

    @property
    def _concerns_all(self) -> bool:
        return True

    def _in_closed_form(self, X: Array, truth: Codes, weights: Array) -> tuple[Array, Flags]:
        densities = np.empty((len(X), len(self.classes)), order="F")
        squares = self._from_mean(X, truth) ** 2
        smoothing, is_known = self._smoothed(X, weights)
        for j in range(len(self.classes)):
            own, left = truth == j, self._left(j, truth, weights)
            from_mean = self._from_mean(X, j)
            from_mean[own] *= left.ratio[own, None]
            scale = self._pooling.divisors[j] / left.freedom
            variances = scale[:, None] * self._unsmoothed[j]
            variances -= (left.beta / left.freedom)[:, None] * squares
            least = LEAST_LEFT * scale[:, None] * self._variances[j]
            if self._counts[j] == 2 and not self._share:  # one row of two leaves no scatter
                variances[own], least[own] = 0.0, np.finfo(np.float64).tiny
            variances += smoothing[:, None]
            is_known &= (variances >= least).all(axis=1)
            variances[~is_known] = 1.0
            terms = from_mean**2 / variances + np.log(variances) + LOG_2PI
            densities[:, j] = -0.5 * terms.sum(axis=1)
        return densities, is_known

    def _smoothed(self, X: Array, weights: Array) -> tuple[Array, Flags]:
        """What is added to each variance, without each row, and of which rows it is certain: (n,)."""
        left = self._total - weights
        squares = (weights * self._total / left)[:, None] * (X - self._centre - self._centre_tail) ** 2
        largest = ((self._total * self._total_variances - squares) / left[:, None]).max(axis=1)
        is_known = largest >= LEAST_LEFT * self._total_variances.max()
        return self._smoothing * largest, is_known
