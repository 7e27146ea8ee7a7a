"""Covariances of classes, averaged with the pooled one, which counts more where a class has fewer rows.

The weight of the pooled covariance is given, or follows from the evidence of the classes. In the second case,
the covariance of a class has an inverse Wishart prior. Its mean is Σ, the pooled covariance, and it has
ν = c + p + 1 degrees of freedom for p features. The posterior mean, (c Σ + W_k) / (c + n_k − 1), counts Σ as
c rows. Means have a flat prior, which costs each class one row. One number c serves all classes: the one
under which the scatters W_k are most probable.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betaln, digamma, gammaln

from streamgda.models.gaussians.whitening import Array

_FEWEST, _MOST = 1e-6, 1e6  # prior rows; _MOST is a multiple of the rows of the largest class
_POINTS_PER_DECADE = 4
_LEAST_VARIANCE = 1e-8  # in units of the pooled one; below, a class does not vary


@dataclass(frozen=True, eq=False)
class Regularisation:
    """How the covariance of each class is made of its own scatter and the pooled covariance.

    Σ_k = (a W_k + s_k D_k Σ) / D_k, where W_k is the scatter of the class and Σ the pooled covariance.

    Attributes
    ----------
    prior_rows : float
        How many rows the pooled covariance counts for beside those of a class; infinite if it is the
        covariance of all classes.
    own : ndarray of shape (n_classes,)
        a / D_k, the factor of the scatter W_k.
    shares : ndarray of shape (n_classes,)
        s_k, the factor of the pooled covariance.
    divisors : ndarray of shape (n_classes,)
        D_k.
    degrees : ndarray of shape (n_classes,)
        The degrees of freedom of the predictive density. If they are not positive, it cannot be estimated.
    n_free : float
        The number of free covariances that those of the classes are equivalent to.
    n_lacking : int
        How many classes have no say in the evidence, since they lack a direction.
    share_lacking : float
        Their share of the rows. Above ½, all classes have the pooled covariance.
    """

    prior_rows: float
    own: Array
    shares: Array
    divisors: Array
    degrees: Array
    n_free: float
    n_lacking: int = 0
    share_lacking: float = 0.0

    @classmethod
    def by_share(cls, share: float, weights: Array, rank: int) -> Self:
        """Σ_k = ((1 − λ) W_k + λ W) / ((1 − λ) n_k + λ N), for a share λ and classes of weights n_k.

        Parameters
        ----------
        share : float
            λ in [0, 1]: at 0 each class has its own covariance, at 1 all have the pooled one.
        weights : ndarray of shape (n_classes,)
            The weights of the classes.
        rank : int
            The rank of the pooled covariance, regularised as those of the classes are.

        References
        ----------
        Friedman (1989), "Regularized discriminant analysis", Journal of the American Statistical Association
        84, eq. 16 and 17.
        """
        total = weights.sum()
        divisors = (1 - share) * weights + share * total
        degrees = (1 - share) * (weights - 1) + share * (total - len(weights)) - rank + 1
        prior_rows = share * total / (1 - share) if share < 1 else np.inf
        return cls._of(
            prior_rows, (1 - share) / divisors, share * total / divisors, divisors, degrees, weights
        )

    @classmethod
    def by_evidence(cls, weights: Array, eigenvalues: Array) -> Self:
        """Σ_k = (c Σ + W_k) / (c + n_k − 1), with the number c that `most_likely_prior_rows` finds.

        A class whose weights sum to less than one row counts as one row here: n_k − 1 is then 0.

        Parameters
        ----------
        weights : ndarray of shape (n_classes,)
            The weights n_k of the classes.
        eigenvalues : ndarray of shape (n_classes, n_scatters, p)
            The eigenvalues of the scatters of each class; see `most_likely_prior_rows`.
        """
        rows = np.maximum(weights - 1, 0.0)
        _, n_scatters, dimension = eigenvalues.shape
        scatters = eigenvalues.reshape(-1, dimension) if eigenvalues.size else np.empty((0, 1))
        of_scatters = np.repeat(rows, n_scatters)[: len(scatters)]
        prior_rows = most_likely_prior_rows(scatters, of_scatters)
        divisors = prior_rows + rows
        how = cls._of(prior_rows, 1 / divisors, prior_rows / divisors, divisors, divisors + 2, weights)
        lacking = ~_are_informative(scatters, of_scatters) & (of_scatters > 0)
        share = float(of_scatters[lacking].sum() / max(of_scatters.sum(), 1.0))
        n_lacking = int(lacking.reshape(-1, n_scatters).any(axis=1).sum())
        return replace(how, n_lacking=n_lacking, share_lacking=share)

    @classmethod
    def _of(
        cls, prior_rows: float, own: Array, shares: Array, divisors: Array, degrees: Array, weights: Array
    ) -> Self:
        n_free = own @ weights + shares @ weights / weights.sum()
        return cls(float(prior_rows), own, shares, divisors, degrees, float(n_free))

    def covariances(self, scatter: Array, pooled: Array) -> Array:
        """The covariances of classes with scatters (K, ...) and a pooled covariance (...): (K, ...)."""
        shape = (-1,) + (1,) * pooled.ndim
        return self.own.reshape(shape) * scatter + self.shares.reshape(shape) * pooled


def relative_eigenvalues(scatter: Array, matrix: Array) -> Array:
    """The eigenvalues of Mᵀ W_k M, for scatters W_k (K, d, d) and a whitening matrix M (d, r): (K, 1, r)."""
    eigenvalues = [[np.linalg.eigvalsh(matrix.T @ own @ matrix)] for own in scatter]
    return np.maximum(eigenvalues, 0.0)


def most_likely_prior_rows(eigenvalues: Array, rows: Array) -> float:
    """The number c of prior rows at which the evidence is largest.

    A grid over all orders of magnitude finds each maximum of the evidence, and a root of the derivative gives
    its place. If the evidence rises to the end of the grid, the classes differ no more than by chance. Then c
    is a million times the number of rows of the largest class. It has this value too if no class has
    information on it.

    A class that varies in fewer directions than its rows can span is left out. No normal distribution does
    this, and the evidence of the class would grow without bound as c falls. If most rows are of such classes,
    the others say too little, and c is again the largest value.

    Parameters
    ----------
    eigenvalues : ndarray of shape (n_scatters, p)
        The eigenvalues of Σ^(−1/2) W_k Σ^(−1/2) for each class. If features are independent, there is one row
        for each class and feature, with p = 1.
    rows : ndarray of shape (n_scatters,)
        The rows of each class, less one. A class with zero has no information.

    References
    ----------
    Greene & Rayens (1989), "Partially pooled covariance matrix estimation in discriminant analysis",
    Communications in Statistics 18; Srivastava, Gupta & Frigyik (2007), "Bayesian quadratic discriminant
    analysis", Journal of Machine Learning Research 8.

    Examples
    --------
    >>> alike, unlike = np.full((2, 1), 100.0), np.array([[20.0], [180.0]])
    >>> most_likely_prior_rows(alike, np.full(2, 99.0))
    99000000.0
    >>> round(most_likely_prior_rows(unlike, np.full(2, 99.0)), 4)
    1.0403
    """
    most = float(_MOST * max(rows.max(initial=0.0), 1.0))
    informative = _are_informative(eigenvalues, rows)
    if not eigenvalues[informative].size or rows[informative].sum() < rows.sum() / 2:
        return most
    eigenvalues, rows = eigenvalues[informative], rows[informative]

    def slope(log_c: float) -> float:
        return _slope(np.exp(log_c), eigenvalues, rows)

    grid = np.linspace(np.log(_FEWEST), np.log(most), int(_POINTS_PER_DECADE * np.log10(most / _FEWEST)))
    slopes = np.array([slope(log_c) for log_c in grid])
    tops = np.flatnonzero((slopes[:-1] > 0) & (slopes[1:] <= 0))
    candidates = [float(np.exp(brentq(slope, grid[i], grid[i + 1], xtol=1e-14))) for i in tops]
    candidates += [_FEWEST] * bool(slopes[0] <= 0) + [most] * bool(slopes[-1] > 0)
    return max(candidates, key=lambda c: log_evidence(c, eigenvalues, rows))


def _are_informative(eigenvalues: Array, rows: Array) -> NDArray[np.bool_]:
    """Which scatters are of more than one row, and vary in as many directions as those of normal rows."""
    ranks = (eigenvalues > _LEAST_VARIANCE * rows[:, None]).sum(axis=1)
    informative: NDArray[np.bool_] = (rows > 0) & (ranks >= np.floor(np.minimum(rows, eigenvalues.shape[1])))
    return informative


def log_evidence(prior_rows: float, eigenvalues: Array, rows: Array) -> float:
    """Ln Π_k p(W_k | c), up to a term that does not depend on c. Arguments as for `most_likely_prior_rows`.

    −½ ν ln |I + Λ_k / c| − ½ m_k ln |c I + Λ_k| + ln Γ_p(½ (ν + m_k)) − ln Γ_p(½ ν), summed over the classes,
    where Λ_k are the eigenvalues and m_k the rows.
    """
    halves, different, counts = _gamma_arguments(prior_rows, eigenvalues, rows)
    degrees = prior_rows + eigenvalues.shape[1] + 1
    logs = -0.5 * degrees * np.log1p(eigenvalues / prior_rows).sum()
    logs -= 0.5 * rows @ np.log(prior_rows + eigenvalues).sum(axis=1)
    return float(logs + (log_gamma_ratio(halves, different / 2) @ counts).sum())


def log_gamma_ratio(a: Array, b: Array) -> Array:
    """Ln Γ(a + b) − ln Γ(a) for b > 0; accurate also if a is much larger than b."""
    return gammaln(b) - betaln(a, b)


def _slope(prior_rows: float, eigenvalues: Array, rows: Array) -> float:
    """The derivative of `log_evidence` by the logarithm of c."""
    halves, different, counts = _gamma_arguments(prior_rows, eigenvalues, rows)
    degrees, sums = prior_rows + eigenvalues.shape[1] + 1, prior_rows + eigenvalues
    slope = -0.5 * np.log1p(eigenvalues / prior_rows).sum()
    slope += 0.5 * degrees / prior_rows * (eigenvalues / sums).sum()
    slope -= 0.5 * rows @ (1 / sums).sum(axis=1)
    digammas = (digamma(halves + different / 2) - digamma(halves)) @ counts
    return float(prior_rows * (slope + 0.5 * digammas.sum()))


def _gamma_arguments(prior_rows: float, eigenvalues: Array, rows: Array) -> tuple[Array, Array, Array]:
    """½ (ν − i) for i = 0 … p − 1 as a column, the different numbers of rows, and how often each occurs."""
    dimension = eigenvalues.shape[1]
    different, counts = np.unique(rows, return_counts=True)
    halves = (prior_rows + dimension + 1 - np.arange(dimension)) / 2
    return halves[:, None], different, counts.astype(np.float64)
