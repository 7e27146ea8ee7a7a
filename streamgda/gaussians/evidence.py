"""How many rows the pooled covariance is worth: the maximum of the evidence of the classes.

The covariance of a class has an inverse Wishart prior. Its mean is Σ, the pooled covariance, and it has
ν = c + p + 1 degrees of freedom for p features. The posterior mean, (c Σ + W_k) / (c + n_k − 1), counts Σ as
c rows. Means have a flat prior, which costs each class one row. One number c serves all classes: the one
under which the scatters W_k are most probable.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betaln, digamma, gammaln

from streamgda.gaussians.whitening import Array

_FEWEST, _MOST = 1e-6, 1e6  # prior rows; the most are in multiples of the rows of the largest class
_POINTS_PER_DECADE = 4
_LEAST_VARIANCE = 1e-8  # in units of the pooled one; below, a class does not vary


def most_likely_prior_rows(eigenvalues: Array, rows: Array) -> float:
    """The number c of prior rows at which the evidence is largest.

    A grid over all orders of magnitude finds each maximum, and the root of the derivative its place. If the
    evidence rises to the end, the classes differ no more than by chance: c is then a million times the rows
    of the largest class. It is that, too, if no class says anything.

    A class that varies in fewer directions than its rows can span is left out. No normal distribution does
    this, and its evidence would be the larger the smaller c is, without end. Where most rows are of such
    classes, the others are no guide to c, and it is again the largest.

    Parameters
    ----------
    eigenvalues : ndarray of shape (n_scatters, p)
        The eigenvalues of Σ^(−1/2) W_k Σ^(−1/2), of each class; of each class and feature, with p = 1, where
        features are independent.
    rows : ndarray of shape (n_scatters,)
        The rows of each class, less one. A class of zero says nothing.

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
    kept = _are_informative(eigenvalues, rows)
    if not eigenvalues[kept].size or rows[kept].sum() < rows.sum() / 2:
        return most
    eigenvalues, rows = eigenvalues[kept], rows[kept]

    def slope(log_c: float) -> float:
        return _slope(np.exp(log_c), eigenvalues, rows)

    grid = np.linspace(np.log(_FEWEST), np.log(most), int(_POINTS_PER_DECADE * np.log10(most / _FEWEST)))
    slopes = np.array([slope(log_c) for log_c in grid])
    tops = np.flatnonzero((slopes[:-1] > 0) & (slopes[1:] <= 0))
    candidates = [float(np.exp(brentq(slope, grid[i], grid[i + 1], xtol=1e-14))) for i in tops]
    candidates += [_FEWEST] * bool(slopes[0] <= 0) + [most] * bool(slopes[-1] > 0)
    return max(candidates, key=lambda c: log_evidence(c, eigenvalues, rows))


def _are_informative(eigenvalues: Array, rows: Array) -> NDArray[np.bool_]:
    """Which scatters are of more than one row, and vary in as many directions as normal rows do."""
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
    """Ln Γ(a + b) − ln Γ(a) for b > 0; accurate also where a is by far the larger."""
    ratio: Array = gammaln(b) - betaln(a, b)
    return ratio


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
