"""Ridge regressions of class indicators on features, for every penalty, from statistics alone.

G = W + Σ n_k (m_k − m)(m_k − m)ᵀ is the scatter of all N rows about their mean m, and s_j = √(G_jj / N) the
deviation of feature j. With the spectrum S⁻¹ G S⁻¹ = V diag(e) Vᵀ, the regression of penalty λ has the
coefficients S⁻¹ V (e + λ)⁻¹ P, where P = Vᵀ S⁻¹ [n_k (m_k − m)]. Its sum of squared residuals, its degrees of
freedom and the leverage of a row follow from e, P and V, without a further look at the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.optimize import brentq

from streamgda.models.gaussians.components import between_covariance, pooled_covariance, weighted_offsets
from streamgda.models.gaussians.whitening import constant_features
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array
from streamgda.statistics.kernels.blas import single_blas_thread
from streamgda.statistics.locking import at_one_moment

_N_ALPHAS = 120
_LEAST_ALPHA, _LARGEST_ALPHA = (1e-7, 10.0)  # of the path, in units of the mean eigenvalue
_ROUNDING = 4.0  # times √d and the rounding of its elements: the error of an eigenvalue of a matrix


@dataclass(frozen=True, eq=False)
class RidgePath:
    """The spectrum of the scatter of all rows, and what the regressions of all penalties follow from.

    Attributes
    ----------
    centre, deviations : ndarray of shape (d,)
        The mean of all rows, and what features are divided by; infinity for a feature that does not vary.
    eigenvalues : ndarray of shape (d,)
        e; 0 where rounding may be all there is.
    vectors : ndarray of shape (d, d)
        V, with eigenvectors as columns.
    projections : ndarray of shape (d, K)
        P.
    shares : ndarray of shape (K,)
        The shares n_k / N of the classes.
    weight, n_rows : float
        N, the sum of the weights of the rows; and the greater of it and the number of rows.
    rounding : float
        The relative rounding error of the products in the scatter.
    """

    centre: Array
    deviations: Array
    eigenvalues: Array
    vectors: Array
    projections: Array
    shares: Array
    weight: float
    n_rows: float
    rounding: float

    @classmethod
    @at_one_moment
    def _of(cls, statistics: Statistics, scale: bool, rounding: float) -> Self:
        weight, offsets = float(statistics.weights.sum()), weighted_offsets(statistics)
        covariance = pooled_covariance(statistics) + between_covariance(statistics)
        variances, centre = covariance.diagonal(), statistics.overall_mean()
        deviations = np.sqrt(variances) if scale else np.ones(len(centre))
        if scale:
            deviations[constant_features(variances * (2.0**-52 / rounding) ** 2, statistics.means)] = np.inf
        with single_blas_thread():
            values, vectors = scipy.linalg.eigh(covariance / np.outer(deviations, deviations))
        least = _ROUNDING * np.sqrt(len(values)) * rounding * values.mean() if rounding > 2.0**-52 else 0.0
        values[values <= least] = 0.0
        shares = statistics.weights / weight
        projections = vectors.T @ (weight * np.sqrt(shares)[:, None] * offsets / deviations).T
        projections[values == 0] = 0.0
        n_rows = max(weight, float(statistics.n_rows))
        return cls(
            centre, deviations, weight * values, vectors, projections, shares, weight, n_rows, rounding
        )

    @classmethod
    def of(cls, statistics: Statistics, *, scale: bool, rounding: float = 2.0**-52) -> RidgePath:
        """The path of a state, computed once until that changes.

        Parameters
        ----------
        statistics : Statistics
            Of covariance type "tied" or "full".
        scale : bool
            Whether features are divided by their standard deviations.
        rounding : float
            The relative rounding error of the products in the scatter.
        """
        paths = _paths_of(statistics)
        if (scale, rounding) not in paths:
            paths[scale, rounding] = cls._of(statistics, scale, rounding)
        return paths[scale, rounding]

    @property
    def alphas(self) -> Array:
        """The penalties that are tried, in ascending order: (n_alphas,)."""
        mean = self.eigenvalues.sum() / max(1, np.isfinite(self.deviations).sum()) or 1.0
        least = max(_ROUNDING * np.sqrt(len(self.eigenvalues)) * self.rounding, _LEAST_ALPHA)
        return np.geomspace(least * mean, _LARGEST_ALPHA * mean, _N_ALPHAS)

    def _inverses(self, alpha: float) -> Array:
        """1 / (e + λ); 0 for a direction in which nothing varies, if there is no penalty."""
        sums = self.eigenvalues + alpha
        return np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)

    def degrees_of_freedom(self, alpha: float) -> float:
        """The trace of the matrix that maps labels to fitted values, intercept included."""
        return 1.0 + float(self.eigenvalues @ self._inverses(alpha))

    def residual_sum(self, alpha: float) -> float:
        """Σ_k Σ (y_k − f_k)² over all rows, where y_k is 1 for a row of class k and else 0."""
        inverses, squares = self._inverses(alpha), np.vecdot(self.projections, self.projections)
        total = self.weight * float(self.shares @ (1 - self.shares))
        return total - float(squares @ (inverses * (2.0 - self.eigenvalues * inverses)))

    def gcv(self, alpha: float) -> float:
        """The criterion of generalised cross-validation: n RSS / (n − df)².

        References
        ----------
        Golub, Heath & Wahba (1979), "Generalized cross-validation as a method for choosing a good ridge
        parameter", Technometrics 21.
        """
        freedom = self.n_rows - self.degrees_of_freedom(alpha)
        return self.n_rows * self.residual_sum(alpha) / freedom**2 if freedom > 0 else np.inf

    def best_alpha(self, max_df: float) -> float:
        """The penalty of the least criterion among those with at most `max_df` degrees of freedom a row.

        With as many degrees of freedom as rows, the criterion is 0 / 0, and the regression interpolates.
        """
        tried = self.alphas
        while not self._allows(tried[-1], max_df):
            tried = np.append(tried, 2 * tried[-1])
        first = next(i for i, alpha in enumerate(tried) if self._allows(alpha, max_df))
        least = first + int(np.argmin([self.gcv(alpha) for alpha in tried[first:]]))
        if least in (first, len(tried) - 1):
            return float(tried[least])
        low, high = np.log(tried[[least - 1, least + 1]])
        if self._slope(low) > 0 or self._slope(high) < 0:
            return float(tried[least])
        return float(np.exp(brentq(self._slope, low, high, xtol=1e-14, rtol=1e-14)))

    def _slope(self, log_alpha: float) -> float:
        """Half the derivative of ln GCV by ln λ.

        A minimum is flat: from values of the criterion, only half of the digits of its place are known.
        """
        alpha = float(np.exp(log_alpha))
        inverses, squares = self._inverses(alpha), np.vecdot(self.projections, self.projections)
        of_residuals = alpha * float(squares @ inverses**3) / self.residual_sum(alpha)
        left = self.n_rows - self.degrees_of_freedom(alpha)
        return alpha * (of_residuals - float(self.eigenvalues @ inverses**2) / left)

    def _allows(self, alpha: float, max_df: float) -> bool:
        return self.degrees_of_freedom(alpha) <= max(1.5, max_df * self.n_rows)

    def coefficients(self, alpha: float) -> Array:
        """The coefficients of the deviations x − centre: (d, K)."""
        made: Array = self.vectors @ (self._inverses(alpha)[:, None] * self.projections)
        return made / self.deviations[:, None]

    def left_out(self, alpha: float, X: Array, codes: NDArray[np.intp], weights: Array) -> Array:
        """The fitted values of rows by the regressions of all other rows, in closed form: (n, K).

        f₋ᵢ = y_i − (y_i − f_i) / (1 − h_i), with the leverage h_i = w_i (1 / N + Σ_j (v_jᵀ z_i)² / (e_j + λ))
        of a row z_i in scaled deviations.

        Parameters
        ----------
        alpha : float
            The penalty.
        X : ndarray of shape (n, d)
            Rows among those of the statistics.
        codes : ndarray of int of shape (n,)
            Their classes.
        weights : ndarray of shape (n,)
            Their weights in the statistics.
        """
        inverses = self._inverses(alpha)
        components = ((X - self.centre) / self.deviations) @ self.vectors
        fitted = self.shares + components @ (inverses[:, None] * self.projections)
        leverages = weights * (1 / self.weight + components**2 @ inverses)
        indicators = np.eye(len(self.shares))[codes]
        rest = np.maximum(1 - leverages, 2.0**-26)
        left: Array = indicators - (indicators - fitted) / rest[:, None]
        return left


def _paths_of(statistics: Statistics) -> dict[tuple[bool, float], RidgePath]:
    """The paths that were computed from a state, by their parameters."""
    return statistics._once("ridge paths", dict)


def share_path(statistics: Statistics, copy: Statistics) -> None:
    """Let a copy of a state have the path of that state, so that it is not computed again."""
    paths = _paths_of(statistics)
    copy._once("ridge paths", lambda: paths)
