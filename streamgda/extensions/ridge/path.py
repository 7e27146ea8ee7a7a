"""Ridge regressions of class indicators on features, for every penalty, from statistics alone.

G = W + Σ n_k (m_k − m)(m_k − m)ᵀ is the scatter of all N rows about their mean m, and s_j = √(G_jj / N) the
deviation of feature j. With the correlations C = S⁻¹ G S⁻¹ / N and B = S⁻¹ [n_k (m_k − m)] / N, the
regression of penalty λ has the coefficients S⁻¹ (C + λ / N)⁻¹ B. Its sum of squared residuals and its degrees
of freedom follow from the banded form of C, and the leverage of a row from a Cholesky factor of C + λ / N,
without a further look at the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import brentq

from streamgda.extensions.ridge.banded import Banded, Powers
from streamgda.extensions.ridge.pytorch import Spectrum, solved
from streamgda.models.gaussians.components import pooled_covariance, weighted_offsets
from streamgda.models.gaussians.whitening import constant_features
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array
from streamgda.statistics.kernels.blas import single_blas_thread
from streamgda.statistics.locking import holding_locks

_N_ALPHAS = 17  # two for each power of ten: between its neighbours, the least criterion has one minimum
_LEAST_ALPHA, _LARGEST_ALPHA = (1e-7, 10.0)  # of the path, in units of the mean eigenvalue
_ROUNDING = 4.0  # times √d and the rounding of its elements: the error of an eigenvalue of a matrix
_PLACE = 1e-12  # to which ln λ is found
_ROWS_TOGETHER = 1 << 10


class Criterion(NamedTuple):
    """What chooses a penalty λ.

    Attributes
    ----------
    df : float
        The degrees of freedom: the trace of the matrix that maps labels to fitted values, intercept included.
    residual_sum : float
        Σ_k Σ (y_k − f_k)² over all rows, where y_k is 1 for a row of class k and else 0.
    gcv : float
        n RSS / (n − df)², the criterion of generalised cross-validation.

    References
    ----------
    Golub, Heath & Wahba (1979), "Generalized cross-validation as a method for choosing a good ridge
    parameter", Technometrics 21.
    """

    df: float
    residual_sum: float
    gcv: float


@dataclass(frozen=True, eq=False)
class RidgePath:
    """The correlations of all rows, and what the regressions of all penalties follow from.

    Attributes
    ----------
    centre, deviations : ndarray of shape (d,)
        The mean of all rows, and what features are divided by; infinity for a feature that does not vary.
    correlations : ndarray of shape (d, d)
        C.
    means : ndarray of shape (d, K)
        B.
    form : Banded or Spectrum
        C and B in coordinates in which C is banded, or on a device diagonal.
    shares : ndarray of shape (K,)
        The shares n_k / N of the classes.
    weight, n_rows : float
        N, the sum of the weights of the rows; and the greater of it and the effective number of rows, (Σ w)²
        / Σ w² (Kish 1965), to which rows that weigh nothing add nothing.
    rounding : float
        The relative rounding error of the products in the scatter.
    device : str, optional
        Where regressions are solved, by PyTorch; by default on the host.
    """

    centre: Array
    deviations: Array
    correlations: Array
    means: Array
    form: Banded | Spectrum
    shares: Array
    weight: float
    n_rows: float
    rounding: float
    device: str | None = None

    @classmethod
    @holding_locks
    def _of(cls, statistics: Statistics, scale: bool, rounding: float, device: str | None) -> Self:
        weight, offsets = float(statistics.weights.sum()), weighted_offsets(statistics)
        matrix = pooled_covariance(statistics)
        with single_blas_thread():
            for rows in _strips(matrix):  # a whole product would be as large as the state
                matrix[rows] += offsets.T[rows] @ offsets
        variances, centre = matrix.diagonal().copy(), statistics.overall_mean()
        deviations = np.sqrt(variances) if scale else np.ones(len(centre))
        if scale:
            deviations[constant_features(variances * (2.0**-52 / rounding) ** 2, statistics.means)] = np.inf
        for rows in _strips(matrix):
            matrix[rows] /= np.outer(deviations[rows], deviations)
        shares = statistics.weights / weight
        means = (np.sqrt(shares)[:, None] * offsets / deviations).T
        squares = statistics.weights**2 / statistics.effective_counts
        n_rows = weight * max(1.0, weight / float(squares.sum()))
        form = Banded.of(matrix, means) if device is None else Spectrum.of(matrix, means, device)
        return cls(centre, deviations, matrix, means, form, shares, weight, n_rows, rounding, device)

    @classmethod
    def of(
        cls, statistics: Statistics, *, scale: bool, rounding: float = 2.0**-52, device: str | None = None
    ) -> RidgePath:
        """The path of a state, computed once until that changes.

        Parameters
        ----------
        statistics : Statistics
            Of covariance type "tied" or "full".
        scale : bool
            Whether features are divided by their standard deviations.
        rounding : float
            The relative rounding error of the products in the scatter.
        device : str, optional
            Where regressions are solved, by PyTorch; by default on the host.
        """
        paths, key = _paths_of(statistics), (scale, rounding, device)
        if key not in paths:
            paths[key] = cls._of(statistics, *key)
        return paths[key]

    @property
    def _mean_eigenvalue(self) -> float:
        varying = max(1, int(np.isfinite(self.deviations).sum()))
        mean = self.weight * float(np.trace(self.correlations)) / varying
        return mean or 1.0

    @property
    def alphas(self) -> Array:
        """The penalties that are tried, in ascending order: (n_alphas,)."""
        least = max(_ROUNDING * np.sqrt(len(self.centre)) * self.rounding, _LEAST_ALPHA)
        return np.geomspace(least, _LARGEST_ALPHA, _N_ALPHAS) * self._mean_eigenvalue

    def _shift(self, alpha: float) -> float:
        """λ / N; a penalty λ below the rounding errors of eigenvalues counts as these."""
        n = len(self.centre)
        least = _ROUNDING * max(math.sqrt(n) * self.rounding, n * 2.0**-52) * self._mean_eigenvalue
        return max(alpha, least) / self.weight

    def criterion(self, alpha: float) -> Criterion:
        """The criterion of a penalty, and what it is made of."""
        shift = self._shift(alpha)
        df, share = self._df_and_share(shift, self.form.powers(shift, all_of_them=False))
        left = self.n_rows - df
        gcv = self.n_rows * self.weight * share / left**2 if left > 0 else np.inf
        return Criterion(df, self.weight * share, gcv)

    def slope(self, alpha: float) -> float:
        """Half the derivative of ln GCV by ln λ, times RSS / N and n − df, which may be 0."""
        shift = self._shift(alpha)
        powers = self.form.powers(shift)
        df, share = self._df_and_share(shift, powers)
        cubes, (first, second) = powers.products[2], powers.traces
        return float(shift**2 * cubes * (self.n_rows - df) - shift * (first - shift * second) * share)

    def _df_and_share(self, shift: float, powers: Powers) -> tuple[float, float]:
        """The degrees of freedom, and RSS / N."""
        df = 1.0 + len(self.centre) - shift * powers.traces[0]
        fitted, squares = powers.products[:2]
        return float(df), float(self.shares @ (1 - self.shares) - fitted - shift * squares)

    def best_alpha(self, max_df: float) -> float:
        """The penalty of the least criterion among those with at most `max_df` degrees of freedom a row.

        With as many degrees of freedom as rows, the criterion is 0 / 0, and the regression interpolates. The
        penalty is the root of the criterion's slope: a minimum is flat, and of its place only half of the
        digits are known from values.
        """
        most = max(1.5, max_df * self.n_rows) * (1 - 1e-12)  # so that rounding stays below the limit
        at = cache(lambda log: self.criterion(np.exp(log)))
        slope = cache(lambda log: self.slope(np.exp(log)))
        logs = [float(log) for log in np.log(self.alphas)]
        while at(logs[-1]).df > most:
            logs.append(logs[-1] + np.log(2))
        first = next(i for i, log in enumerate(logs) if at(log).df <= most)
        if first:
            low, high = logs[first - 1 : first + 1]
            first -= 1
            logs[first] = brentq(lambda log: most - at(log).df, low, high, xtol=_PLACE, rtol=_PLACE)
        logs = logs[first:]
        least = min(range(len(logs)), key=lambda i: at(logs[i]).gcv)
        low, best, high = logs[max(least - 1, 0)], logs[least], logs[min(least + 1, len(logs) - 1)]
        if slope(best) < 0:
            low = best
        else:
            high = best
        if slope(low) < 0 < slope(high):
            best = brentq(slope, low, high, xtol=_PLACE, rtol=_PLACE)
        return float(np.exp(best))

    def at(self, alpha: float) -> RidgeRegression:
        """The regression of a penalty; LinAlgError if its matrix is not positive definite."""
        shift = self._shift(alpha)
        while True:
            factor, slopes, problem = self._solved(shift)
            if not problem:
                return RidgeRegression(self, factor, slopes)
            if not shift < self._mean_eigenvalue:
                raise np.linalg.LinAlgError(
                    f"the correlations with penalty {alpha} are not positive definite"
                )
            shift *= 2  # as rounding errors are larger

    def _solved(self, shift: float) -> tuple[Array, Array, bool]:
        """L of the matrix C + shift, the slopes, and whether the matrix is not positive definite."""
        matrix = self.correlations.T.copy(order="F")
        matrix.flat[:: len(matrix) + 1] += shift
        if self.device is not None:
            return solved(matrix, self.means, self.device)
        with single_blas_thread():
            factor, problem = dpotrf(matrix, lower=True, clean=False, overwrite_a=True)
            slopes, _ = dpotrs(factor, self.means, lower=True)
        return factor, slopes, bool(problem)


@dataclass(frozen=True, eq=False)
class RidgeRegression:
    """The regression of one penalty.

    Attributes
    ----------
    path : RidgePath
        The regressions of all penalties.
    factor : ndarray of shape (d, d)
        Its lower triangle is L, where L Lᵀ = C + λ / N. What is above is not used.
    slopes : ndarray of shape (d, K)
        The coefficients of features that are divided by their deviations.
    """

    path: RidgePath
    factor: Array
    slopes: Array

    @property
    def coefficients(self) -> Array:
        """The coefficients of the deviations x − centre: (d, K)."""
        return self.slopes / self.path.deviations[:, None]

    def left_out(self, X: NDArray[np.floating], codes: NDArray[np.intp], weights: Array) -> Array:
        """The fitted values of rows by the regressions of all other rows, in closed form: (n, K).

        f₋ᵢ = y_i − (y_i − f_i) / (1 − h_i), with the leverage h_i = w_i (1 + |L⁻¹ z_i|²) / N of a row z_i in
        scaled deviations.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows among those of the statistics. If they are in single precision, so are their leverages.
        codes : ndarray of int of shape (n,)
            Their classes.
        weights : ndarray of shape (n,)
            Their weights in the statistics.
        """
        path, left, coefficients = self.path, np.eye(len(self.path.shares))[codes], self.coefficients
        factor = self.factor.astype(X.dtype, copy=False)
        solve = get_blas_funcs("trsm", (factor,))
        with single_blas_thread():
            for start in range(0, len(X), _ROWS_TOGETHER):
                own = slice(start, start + _ROWS_TOGETHER)
                rows = X[own] - path.centre
                residuals = left[own] - path.shares - rows @ coefficients
                rows /= path.deviations
                components = solve(1.0, factor, rows.astype(X.dtype).T, lower=True, overwrite_b=True).T
                leverages = weights[own] * (1 + np.vecdot(components, components)) / path.weight
                left[own] -= residuals / np.maximum(1 - leverages, 2.0**-26)[:, None]
        return left


def _strips(matrix: Array) -> list[slice]:
    """Cut the rows of a matrix into runs of a few megabytes."""
    step = max(1, (1 << 18) // len(matrix))
    return [slice(start, start + step) for start in range(0, len(matrix), step)]


def _paths_of(statistics: Statistics) -> dict[tuple[bool, float, str | None], RidgePath]:
    """The paths that were computed from a state, by their parameters."""
    return statistics._once("ridge paths", dict)


def share_path(statistics: Statistics, copy: Statistics) -> None:
    """Let a copy of a state have the path of that state, so that it is not computed again."""
    paths = _paths_of(statistics)
    copy._once("ridge paths", lambda: paths)
