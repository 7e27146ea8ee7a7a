"""Maximum likelihood of a normal distribution from what is observed of its rows, by EM on groups of rows.

Rows are grouped by the features that they have. The expected sums of all features over a group follow from
its weight, means and scatter, so a step costs O(patterns · d³), whatever the number of rows. Features are
missing at random: whether one is missing may depend on what is observed, and not on the value itself.

References
----------
Dempster, Laird & Rubin (1977), "Maximum likelihood from incomplete data via the EM algorithm"; Little & Rubin
(2019), "Statistical Analysis with Missing Data", section 11.2; Varadhan & Roland (2008), "Simple and globally
convergent methods for accelerating the convergence of any EM algorithm", scheme S3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg import cho_solve, cholesky

from streamgda.gaussians.base import LOG_2PI
from streamgda.statistics.covariances import Array, Indices

_SINGULAR = 1e-12  # an eigenvalue of a covariance of features at unit variance that counts as zero


@dataclass(frozen=True)
class Cases:
    """Rows with the same observed features, of one class or of several that share a covariance.

    Attributes
    ----------
    features : ndarray of int of shape (d_p,)
        The observed features; at least one.
    places : ndarray of int of shape (K_p,)
        The positions of the classes.
    weights : ndarray of shape (K_p,)
        The weights of the classes.
    means : ndarray of shape (K_p, d_p)
        Their means.
    scatter : ndarray of shape (d_p, d_p)
        The scatter within the classes.
    """

    features: Indices
    places: Indices
    weights: Array
    means: Array
    scatter: Array


@dataclass(frozen=True)
class Normal:
    """Means (K, d) of classes, and the covariance (d, d) that they share."""

    means: Array
    covariance: Array

    def __add__(self, other: Self) -> Self:
        return type(self)(self.means + other.means, self.covariance + other.covariance)

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.means - other.means, self.covariance - other.covariance)

    def __rmul__(self, factor: float) -> Self:
        return type(self)(factor * self.means, factor * self.covariance)

    @property
    def norm(self) -> float:
        """The Euclidean length of all parameters."""
        return float(np.sqrt((self.means**2).sum() + (self.covariance**2).sum()))

    @property
    def is_definite(self) -> bool:
        """Whether the covariance is positive definite."""
        return _factor(self.covariance) is not None

    def change_since(self, other: Normal) -> float:
        """The largest change of a mean, in standard deviations, or of a covariance, relative to two such."""
        deviations = np.sqrt(np.maximum(np.diag(self.covariance), np.diag(other.covariance)))
        deviations = np.where(deviations > 0, deviations, 1.0)
        of_means = np.abs(self.means - other.means) / deviations
        of_products = np.abs(self.covariance - other.covariance) / np.outer(deviations, deviations)
        return float(max(of_means.max(initial=0.0), of_products.max(initial=0.0)))


@dataclass(frozen=True)
class Conditional:
    """What a covariance says of the missing features, given the observed ones.

    Attributes
    ----------
    missing : ndarray of int of shape (d − d_p,)
        The missing features.
    coefficients : ndarray of shape (d − d_p, d_p)
        Of the regression of the missing features on the observed ones.
    residual : ndarray of shape (d − d_p, d − d_p)
        The covariance of the missing features, given the observed ones.
    precision : ndarray of shape (d_p, d_p)
        The inverse of the covariance of the observed features; on its range, if it is singular.
    log_det : float
        The logarithm of the determinant of that covariance; NaN if it is singular.
    """

    missing: Indices
    coefficients: Array
    residual: Array
    precision: Array
    log_det: float

    @classmethod
    def of(cls, covariance: Array, features: Indices) -> Self:
        """The conditional distribution, given some features (Anderson 2003, theorem 2.5.1)."""
        missing = np.setdiff1d(np.arange(len(covariance)), features, assume_unique=True)
        precision, log_det = _inverse(covariance[np.ix_(features, features)])
        across = covariance[np.ix_(missing, features)]
        coefficients = across @ precision
        residual = covariance[np.ix_(missing, missing)] - coefficients @ across.T
        return cls(missing, coefficients, residual, precision, log_det)


def step(cases: Sequence[Cases], now: Normal) -> tuple[Normal, float]:
    """One step of EM: the next parameters, and the log-likelihood of the present ones.

    That is NaN where the covariance is singular, so that there is no density.
    """
    n_classes, d = now.means.shape
    log_likelihood, weights, sums = 0.0, np.zeros(n_classes), np.zeros((n_classes, d))
    scatter, expected = np.zeros((d, d)), []
    for case in cases:
        conditional = Conditional.of(now.covariance, case.features)
        offsets = case.means - now.means[np.ix_(case.places, case.features)]
        log_likelihood += _log_likelihood(case, offsets, conditional)
        completed = np.zeros((len(offsets), d))
        completed[:, case.features] = offsets
        completed[:, conditional.missing] = offsets @ conditional.coefficients.T
        scatter += _completed_scatter(case, conditional, d)
        np.add.at(weights, case.places, case.weights)
        np.add.at(sums, case.places, case.weights[:, None] * completed)
        expected.append(completed)
    shifts = sums / np.where(weights > 0, weights, 1.0)[:, None]
    for case, completed in zip(cases, expected, strict=True):
        away = np.sqrt(case.weights)[:, None] * (completed - shifts[case.places])
        scatter += away.T @ away
    covariance = (scatter + scatter.T) / (2 * weights.sum())
    return Normal(now.means + shifts, covariance), log_likelihood


def _completed_scatter(case: Cases, conditional: Conditional, d: int) -> Array:
    """The expected scatter of all features about the expected means of the rows."""
    loadings = np.zeros((d, len(case.features)))
    loadings[case.features, np.arange(len(case.features))] = 1.0
    loadings[conditional.missing] = conditional.coefficients
    completed: Array = loadings @ case.scatter @ loadings.T
    completed[np.ix_(conditional.missing, conditional.missing)] += case.weights.sum() * conditional.residual
    return completed


def _log_likelihood(case: Cases, offsets: Array, conditional: Conditional) -> float:
    weight, precision = case.weights.sum(), conditional.precision
    squares = (precision * case.scatter).sum() + case.weights @ ((offsets @ precision) * offsets).sum(axis=1)
    return float(-(weight * (len(case.features) * LOG_2PI + conditional.log_det) + squares) / 2)


def _factor(covariance: Array) -> Array | None:
    """The Cholesky factor; None if the covariance is not positive definite."""
    try:
        return np.asarray(cholesky(covariance, lower=True, check_finite=False))
    except np.linalg.LinAlgError:
        return None


def _inverse(covariance: Array) -> tuple[Array, float]:
    """The inverse, on the range of the covariance, and the logarithm of the determinant."""
    factor = _factor(covariance)
    if factor is not None and (np.diag(factor) ** 2 > _SINGULAR * np.diag(covariance)).all():
        inverse = cho_solve((factor, True), np.eye(len(covariance)), check_finite=False)
        return np.asarray(inverse), float(2 * np.log(np.diag(factor)).sum())
    values, vectors = np.linalg.eigh(covariance)
    kept = values > _SINGULAR * max(float(values[-1]), 0.0)
    scaled = vectors[:, kept] / np.sqrt(values[kept])
    return scaled @ scaled.T, float(np.log(values).sum()) if kept.all() else np.nan


# ---------------------------------------------------------------------- iteration


@dataclass(frozen=True)
class Fit:
    """Where EM ended.

    Attributes
    ----------
    normal : Normal
        The parameters.
    log_likelihoods : tuple of float
        The log-likelihood at each accepted point; it never falls. The last is that of `normal`, and NaN if
        its covariance is singular.
    n_iter : int
        How many steps of EM were made; 0 for a closed form.
    converged : bool
        Whether the last step changed parameters and likelihood by no more than was allowed.
    """

    normal: Normal
    log_likelihoods: tuple[float, ...]
    n_iter: int
    converged: bool


def maximise(cases: Sequence[Cases], start: Normal, tol: float, max_iter: int) -> Fit:
    """Repeat `step`, accelerated, until parameters and likelihood stay.

    Two steps of EM say how far to go on along the path that they began (SQUAREM). The point so reached is
    taken only if its covariance is positive definite and its likelihood is not below that of the second
    step's start, so the likelihood never falls.

    Parameters
    ----------
    cases : sequence of Cases
        The rows, of features at about unit variance.
    start : Normal
        With a positive definite covariance.
    tol : float
        How much a step may still change a mean, in standard deviations, a covariance, relative to two such,
        and the log-likelihood, relative to itself.
    max_iter : int
        The largest number of steps.
    """
    now, n_iter, path, converged = start, 0, list[float](), False
    while n_iter < max_iter and not converged:
        first, before = step(cases, now)
        second, after = step(cases, first)
        n_iter += 2
        path += [likelihood for likelihood in (before, after) if not np.isnan(likelihood)]
        is_flat = not after - before > tol * max(1.0, abs(after))
        converged = is_flat and second.change_since(first) <= tol
        ahead = None if converged else _extrapolated(now, first, second)
        now = second
        if ahead is not None:
            third, reached = step(cases, ahead)
            n_iter += 1
            now = third if reached >= after else second
    return Fit(now, (*path, step(cases, now)[1]), n_iter, converged)


def _extrapolated(now: Normal, first: Normal, second: Normal) -> Normal | None:
    """The point that two steps of EM point to; None if its covariance is not positive definite."""
    stride, bend = first - now, (second - first) - (first - now)
    if not bend.norm:
        return None
    length = max(1.0, stride.norm / bend.norm)
    ahead = now + (2 * length) * stride + length**2 * bend
    return ahead if length > 1 and ahead.is_definite else None
