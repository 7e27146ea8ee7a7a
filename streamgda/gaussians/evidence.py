"""How many rows the pooled covariance is worth: the maximum of the evidence of the classes.

The covariance of a class has an inverse Wishart prior. Its mean is Σ, the pooled covariance, and it has
ν = c + p + 1 degrees of freedom for p features. The posterior mean, (c Σ + W_k) / (c + n_k − 1), counts Σ as
c rows. Means have a flat prior, which costs each class one row. One number c serves all classes: the one
under which the scatters W_k are most probable.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaln, digamma, gammaln

from streamgda.gaussians.whitening import Array

_FEWEST, _MOST = 1e-6, 1e6  # prior rows; the most are in multiples of the rows of the largest class
_POINTS_PER_DECADE = 4


def most_likely_prior_rows(eigenvalues: Array, rows: Array, dimension: int) -> float:
    """The number c of prior rows at which the evidence is largest.

    A grid over all orders of magnitude finds each maximum, and the root of the derivative its place. If the
    evidence rises to the end, the classes differ no more than by chance: c is then a million times the rows
    of the largest class.

    Parameters
    ----------
    eigenvalues : ndarray of shape (n_classes, r)
        The eigenvalues of Σ^(−1/2) W_k Σ^(−1/2).
    rows : ndarray of shape (n_classes,)
        The rows of each class, less one. A class of zero says nothing.
    dimension : int
        p, the size of the matrices that have a prior of their own: r, or 1 where features are independent.

    References
    ----------
    Greene & Rayens (1989), "Partially pooled covariance matrix estimation in discriminant analysis",
    Communications in Statistics 18; Srivastava, Gupta & Frigyik (2007), "Bayesian quadratic discriminant
    analysis", Journal of Machine Learning Research 8.

    Examples
    --------
    >>> alike, unlike = np.full((2, 1), 100.0), np.array([[20.0], [180.0]])
    >>> most_likely_prior_rows(alike, np.full(2, 99.0), 1)
    99000000.0
    >>> round(most_likely_prior_rows(unlike, np.full(2, 99.0), 1), 4)
    1.0403
    """
    eigenvalues, rows = eigenvalues[rows > 0], rows[rows > 0]
    most = float(_MOST * max(rows.max(initial=0.0), 1.0))
    if not eigenvalues.size:
        return most
    n_points = int(_POINTS_PER_DECADE * np.log10(most / _FEWEST))
    grid = np.linspace(np.log(_FEWEST), np.log(most), n_points)

    def slope(log_c: float) -> float:
        return _slope(np.exp(log_c), eigenvalues, rows, dimension)

    slopes = np.array([slope(log_c) for log_c in grid])
    tops = np.flatnonzero((slopes[:-1] > 0) & (slopes[1:] <= 0))
    candidates = [float(np.exp(brentq(slope, grid[i], grid[i + 1], xtol=1e-14))) for i in tops]
    if slopes[-1] > 0 or not candidates:
        candidates.append(most)
    return max(candidates, key=lambda c: log_evidence(c, eigenvalues, rows, dimension))


def log_evidence(prior_rows: float, eigenvalues: Array, rows: Array, dimension: int) -> float:
    """Ln Π_k p(W_k | c), up to a term that does not depend on c. Arguments as for `most_likely_prior_rows`.

    −½ ν ln |I + Λ_k / c| − ½ m_k ln |c I + Λ_k| + ln Γ_p(½ (ν + m_k)) − ln Γ_p(½ ν), summed over the classes,
    where Λ_k are the eigenvalues and m_k the rows.
    """
    degrees = prior_rows + dimension + 1
    logs = -0.5 * degrees * np.log1p(eigenvalues / prior_rows).sum()
    logs -= 0.5 * rows @ np.log(prior_rows + eigenvalues).sum(axis=1)
    gammas = log_gamma_ratio(_half_degrees(degrees, dimension)[:, None], rows / 2)
    return float(logs + gammas.sum() * (eigenvalues.shape[1] / dimension))


def log_gamma_ratio(a: Array, b: Array) -> Array:
    """Ln Γ(a + b) − ln Γ(a) for b > 0; accurate also where a is by far the larger."""
    ratio: Array = gammaln(b) - betaln(a, b)
    return ratio


def _slope(prior_rows: float, eigenvalues: Array, rows: Array, dimension: int) -> float:
    """The derivative of `log_evidence` by the logarithm of c."""
    degrees = prior_rows + dimension + 1
    sums = prior_rows + eigenvalues
    slope = (
        -0.5 * np.log1p(eigenvalues / prior_rows).sum()
        + 0.5 * degrees / prior_rows * (eigenvalues / sums).sum()
    )
    slope -= 0.5 * rows @ (1 / sums).sum(axis=1)
    halves = _half_degrees(degrees, dimension)[:, None]
    digammas = (digamma(halves + rows / 2) - digamma(halves)).sum()
    return float(prior_rows * (slope + 0.5 * digammas * (eigenvalues.shape[1] / dimension)))


def _half_degrees(degrees: float, dimension: int) -> Array:
    """½ (ν − i) for i = 0 … p − 1: the arguments of the gamma functions in Γ_p(½ ν)."""
    return (degrees - np.arange(dimension)) / 2
