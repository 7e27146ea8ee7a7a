"""Maximum likelihood of a normal distribution from incomplete rows: in closed form, or by EM.

Rows are given by their pattern of observed features. The expected sums of all features over the rows of a
pattern follow from their weight, means and scatter, so a step of EM costs O(patterns · d³), whatever the
number of rows. It is assumed that features are missing at random: whether a value is missing may depend on
observed values, and not on the value itself.

References
----------
Anderson (1957), "Maximum likelihood estimates for a multivariate normal distribution when some observations
are missing", Journal of the American Statistical Association 52; Dempster, Laird & Rubin (1977), "Maximum
likelihood from incomplete data via the EM algorithm"; Little & Rubin (2019), "Statistical Analysis with
Missing Data", section 11.2; Varadhan & Roland (2008), "Simple and globally convergent methods for
accelerating the convergence of any EM algorithm", scheme S3.

Complete statistics from incomplete rows: the expected ones at the maximum of the likelihood.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Self

import numpy as np

from streamgda.data.blocks.labels import Labels
from streamgda.extensions.incomplete.available import (
    AvailableCases,
    PatternState,
    Population,
    why_undetermined_in,
    why_unseen,
)
from streamgda.models.gaussians.base import LOG_2PI
from streamgda.models.gaussians.whitening import Reason, Whitening
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, CovarianceKind, Indices
from streamgda.statistics.floating.moments import Moments, two_sum

PATTERN_TOLERANCE = 1e-8
MOST_STEPS = 2000

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

    def of_features(self, features: Indices) -> Cases:
        """The same rows with some of their features."""
        own = np.searchsorted(self.features, features)
        return replace(
            self, features=features, means=self.means[:, own], scatter=self.scatter[np.ix_(own, own)]
        )


@dataclass(frozen=True)
class Normal:
    """Means (K, d) of classes, and the covariance (d, d) that they share."""

    means: Array
    covariance: Array

    @classmethod
    def standard(cls, population: Population) -> Self:
        """The parameters of available cases, in their own units, if features were independent."""
        n_varying = len(population.varying)
        return cls(np.zeros((len(population.places), n_varying)), np.eye(n_varying))

    @property
    def vector(self) -> Array:
        """All parameters."""
        return np.concatenate([self.means.ravel(), self.covariance.ravel()])

    def change_since(self, other: Normal) -> float:
        """The largest change of a mean or a covariance, relative to one or two standard deviations."""
        deviations = np.sqrt(np.maximum(np.diag(self.covariance), np.diag(other.covariance)))
        deviations = np.where(deviations > 0, deviations, 1.0)
        of_means = np.abs(self.means - other.means) / deviations
        of_products = np.abs(self.covariance - other.covariance) / np.outer(deviations, deviations)
        return float(max(of_means.max(initial=0.0), of_products.max(initial=0.0)))


@dataclass(frozen=True)
class Parameters:
    """The parameters of all classes.

    Attributes
    ----------
    kind : CovarianceKind
        "full" for a covariance of each class, "tied" for one that they share.
    classes : ndarray of shape (n_classes,)
        The labels.
    populations : tuple of Population
        The classes that share a covariance.
    normals : sequence of Normal
        The parameters of each population, in its units.
    """

    kind: CovarianceKind
    classes: Labels
    populations: tuple[Population, ...]
    normals: Sequence[Normal]

    def moments(self, weights: Array, weight_tails: Array) -> Moments:
        """The moments of classes of these weights that have these parameters."""
        available = self.populations[0].available
        means, low_means = available.means.copy(), available.low_means.copy()
        covariances = self.kind.zeros(*means.shape)
        for population, normal in zip(self.populations, self.normals, strict=True):
            varying, scale = population.varying, population.scale[population.varying]
            cells = np.ix_(population.places, varying)
            means[cells], low_means[cells] = two_sum(means[cells], low_means[cells] + normal.means * scale)
            covariance = normal.covariance * np.outer(scale, scale)
            population.own_matrix(covariances)[np.ix_(varying, varying)] = covariance
        scatter = covariances * self.kind.freedom(covariances, weights, 0)
        return Moments(self.kind, weights, weight_tails, means, low_means, scatter)

    def maximised(self, expected: Statistics) -> Parameters:
        """The next parameters, from the expected statistics: the M step."""
        means, low_means, covariances = expected.means, expected.mean_tails, expected.covariance()
        normals = []
        for population in self.populations:
            places, varying = population.places, population.varying
            cells, units = np.ix_(places, varying), population.scale[varying]
            in_units = population.in_units(means[cells], low_means[cells], places, varying)
            covariance = population.own_matrix(covariances)[np.ix_(varying, varying)]
            normals.append(Normal(in_units, covariance / np.outer(units, units)))
        return replace(self, normals=normals)

    def change_since(self, other: Parameters) -> float:
        """The largest change of a parameter, in standard deviations."""
        pairs = zip(self.normals, other.normals, strict=True)
        return max((ours.change_since(theirs) for ours, theirs in pairs), default=0.0)


class Conditional:
    """The distribution of all features, given the observed ones, under a covariance.

    Attributes
    ----------
    missing : ndarray of int of shape (d − d_p,)
        The missing features.
    loadings : ndarray of shape (d, d_p)
        The coefficients of the regression of all features on the observed ones. An observed feature has only
        itself.
    residual : ndarray of shape (d − d_p, d − d_p)
        The covariance of the missing features, given the observed ones.
    precision : ndarray of shape (d_p, d_p)
        The inverse of the covariance of the observed features; on its range, if it is singular.
    log_det : float
        The logarithm of the determinant of that covariance; NaN if it is singular.
    """

    def __init__(self, covariance: Array, features: Indices) -> None:
        """The conditional distribution, given some features (Anderson 2003, theorem 2.5.1)."""
        is_missing = np.ones(len(covariance), dtype=bool)
        is_missing[features] = False
        missing = np.flatnonzero(is_missing)
        within = covariance[features[:, None], features]
        whitening = Whitening.of(within, np.zeros((1, len(features))), _SINGULAR)
        precision = whitening.precision
        across = covariance[missing[:, None], features]
        loadings = np.zeros((len(covariance), len(features)))
        loadings[features] = np.eye(len(features))
        loadings[missing] = across @ precision
        residual = covariance[missing[:, None], missing] - loadings[missing] @ across.T
        log_det = whitening.log_pdet if whitening.rank == len(features) else np.nan
        self.missing, self.loadings, self.residual = missing, loadings, residual
        self.precision, self.log_det = precision, log_det


def step(cases: Sequence[Cases], now: Normal) -> tuple[Normal, float]:
    """One step of EM: the next parameters, and the log-likelihood of the present ones.

    The log-likelihood is NaN if the covariance is singular, so that there is no density.
    """
    everything = np.arange(now.means.shape[1])
    log_likelihood, completed = 0.0, list[Cases]()
    for case in cases:
        rest = Conditional(now.covariance, case.features)
        offsets = case.means - now.means[case.places[:, None], case.features]
        log_likelihood += _log_likelihood(case, offsets, rest)
        scatter = rest.loadings @ case.scatter @ rest.loadings.T
        scatter[rest.missing[:, None], rest.missing] += case.weights.sum() * rest.residual
        means = offsets @ rest.loadings.T
        completed.append(replace(case, features=everything, means=means, scatter=scatter))
    weights, shifts, scatter = _together(completed, now.means.shape)
    return Normal(now.means + shifts, (scatter + scatter.T) / (2 * weights.sum())), log_likelihood


def _together(cases: Sequence[Cases], shape: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Weights and means (K, d) of the classes, and the scatter within them, of cases of the same features."""
    weights, sums, scatter = np.zeros(shape[0]), np.zeros(shape), np.zeros((shape[1], shape[1]))
    for case in cases:
        weights[case.places] += case.weights
        sums[case.places] += case.weights[:, None] * case.means
    means = sums / np.where(weights > 0, weights, 1.0)[:, None]
    for case in cases:
        away = np.sqrt(case.weights)[:, None] * (case.means - means[case.places])
        scatter += case.scatter + away.T @ away
    return weights, means, scatter


def _log_likelihood(case: Cases, offsets: Array, conditional: Conditional) -> float:
    weight, precision = case.weights.sum(), conditional.precision
    squares = (precision * case.scatter).sum() + case.weights @ ((offsets @ precision) * offsets).sum(axis=1)
    return float(-(weight * (len(case.features) * LOG_2PI + conditional.log_det) + squares) / 2)


# ---------------------------------------------------------------------- the maximum


Fit = tuple[Normal, int, bool]
"""The parameters, how many steps of EM they took (0 for a closed form), and whether these have converged."""


def maximise(cases: Sequence[Cases], start: Normal) -> Fit:
    """Repeat `step`, accelerated, until parameters and likelihood no longer change.

    EM has converged if a step changes no mean by more than PATTERN_TOLERANCE standard deviations, no
    covariance by more relative to two of them, and the log-likelihood by no more relative to itself. There
    are about MOST_STEPS steps at most.

    Two steps of EM are extrapolated along their path (SQUAREM). The new point is taken only if its covariance
    is positive definite and its likelihood is not below that at the start of the second step. So the
    likelihood never falls.

    Parameters
    ----------
    cases : sequence of Cases
        The rows, of features at about unit variance.
    start : Normal
        The parameters to start from, with a positive definite covariance.
    """
    now, n_iter, converged = start, 0, False
    while n_iter < MOST_STEPS and not converged:
        first, before = step(cases, now)
        second, after = step(cases, first)
        n_iter += 2
        is_flat = not after - before > PATTERN_TOLERANCE * max(1.0, abs(after))
        converged = is_flat and second.change_since(first) <= PATTERN_TOLERANCE
        ahead = None if converged else _extrapolated(now, first, second)
        now = second
        if ahead is not None:
            third, reached = step(cases, ahead)
            n_iter += 1
            now = third if reached >= after else second
    return now, n_iter, converged


def _extrapolated(now: Normal, first: Normal, second: Normal) -> Normal | None:
    """The extrapolation of two steps of EM; None if its covariance is not positive definite."""
    start, middle, end = now.vector, first.vector, second.vector
    stride, bend = middle - start, (end - middle) - (middle - start)
    length = np.linalg.norm(stride) / np.linalg.norm(bend) if bend.any() else 0.0
    if length <= 1:
        return None
    means, covariance = np.split(start + 2 * length * stride + length**2 * bend, [now.means.size])
    covariance = covariance.reshape(now.covariance.shape)
    try:
        np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return None
    return Normal(means.reshape(now.means.shape), covariance)


def closed_form(cases: Sequence[Cases], n_classes: int, n_features: int) -> Fit | None:
    """The likeliest parameters; None unless each pattern holds the next one, and the first all features."""
    falling = sorted(cases, key=lambda case: -len(case.features))
    if not cases or len(falling[0].features) < n_features:
        return None
    if any(np.setdiff1d(small.features, large.features).size for large, small in pairwise(falling)):
        return None
    normal = Normal(np.zeros((n_classes, n_features)), np.zeros((n_features, n_features)))
    known = np.zeros(0, np.intp)
    for number in range(len(falling), 0, -1):
        known = _extend(normal, known, falling[:number])
    return normal, 0, True


def _extend(normal: Normal, known: Indices, cases: Sequence[Cases]) -> Indices:
    """Add the features of the last of some cases, by their regression on those known, in place."""
    features = cases[-1].features
    new = np.setdiff1d(features, known)
    if not len(new):
        return known
    some = [case.of_features(features) for case in cases]
    weights, means, scatter = _together(some, (len(normal.means), len(features)))
    old = np.searchsorted(features, known)
    rest = Conditional(scatter / weights.sum(), old)
    coefficients = rest.loadings[rest.missing]
    gaps = normal.means[:, known] - means[:, old]
    normal.means[:, new] = means[:, rest.missing] + gaps @ coefficients.T
    across = coefficients @ normal.covariance[np.ix_(known, known)]
    normal.covariance[np.ix_(new, known)], normal.covariance[np.ix_(known, new)] = across, across.T
    within = rest.residual + across @ coefficients.T
    normal.covariance[np.ix_(new, new)] = (within + within.T) / 2
    return features


@dataclass
class Completion:
    """The expected moments of all values, under the likeliest parameters given the observed values.

    Attributes
    ----------
    moments : Moments
        The weights of all rows, the likeliest means, and as scatter the likeliest covariance times the
        weight. NaN for an undetermined class.
    n_iter : int
        The largest number of EM steps that a class took; 0 where the solution has a closed form.
    converged : bool
        Whether EM converged in each class.
    undetermined : dict of int to callable
        The reason why a mean or a covariance of a class is undetermined, by the position of the class.
    """

    moments: Moments
    n_iter: int = 0
    converged: bool = True
    undetermined: dict[int, Reason] = field(default_factory=dict)

    def of_classes(self, positions: Indices) -> Completion:
        """The completion of some classes that share no scatter."""
        reasons = {
            i: self.undetermined[k] for i, k in enumerate(positions.tolist()) if k in self.undetermined
        }
        return replace(self, moments=self.moments.take(positions), undetermined=reasons)


def complete(
    states: Sequence[PatternState],
    kind: CovarianceKind,
    classes: Labels,
    weights: tuple[Array, Array],
    names: Sequence[str],
) -> Completion:
    """The completion of rows.

    Parameters
    ----------
    states : sequence of PatternState
        The rows by pattern.
    kind : CovarianceKind
        What is kept of the products of features. It says which model is fitted: a covariance for each class,
        one for all, or independent features.
    classes : ndarray of shape (n_classes,)
        The labels.
    weights : tuple of ndarray of shape (n_classes,)
        The weight of each class and its low part.
    names : sequence of str
        The name of each feature in an error.
    """
    available = AvailableCases(states, len(classes), len(names), pooled=kind.is_pooled)
    undetermined = {
        k: why_unseen(classes[k].item(), np.flatnonzero(available.weights[k] == 0), names)
        for k in np.flatnonzero((available.weights == 0).any(axis=1)).tolist()
    }
    if not kind.has_products:  # features are independent within a class: each from the rows that have it
        seen = available.weights > 0
        variances = np.divide(available.scatter, available.weights, out=np.zeros(seen.shape), where=seen)
        scatter = weights[0][:, None] * variances
        moments = Moments(kind, *weights, available.means, available.low_means, scatter)
        return Completion(moments, undetermined=undetermined)
    populations, most_steps, all_converged = Population.all_of(available, kind), 0, True
    normals = [Normal.standard(population) for population in populations]
    for number, population in enumerate(populations):
        places = population.places.tolist()
        own = [state.of_classes(population.places) for state in states if len(state.features)]
        reason = why_undetermined_in(None if kind.is_pooled else classes[places[0]].item(), own, names)
        if reason is not None:
            undetermined.setdefault(places[0], reason)
        if undetermined.keys().isdisjoint(places):
            cases = list(_cases_of(population, own))
            start = normals[number]
            fit = closed_form(cases, *start.means.shape) or maximise(cases, start)
            normals[number], n_iter, converged = fit
            most_steps, all_converged = max(most_steps, n_iter), all_converged and converged
    moments = Parameters(kind, classes, populations, normals).moments(*weights)
    for k in undetermined:
        moments.means[k] = np.nan
        moments.scatter[... if kind.is_pooled else k] = np.nan
    return Completion(moments, most_steps, all_converged, undetermined)


def _cases_of(population: Population, states: Sequence[PatternState]) -> Iterator[Cases]:
    """The rows of a population that have a feature that varies, in units of the population."""
    for state in states:
        varying = np.flatnonzero(np.isin(state.features, population.varying))
        if len(varying) and len(state.places):
            features, moments = state.features[varying], state.moments
            scatter = moments.scatter if moments.kind.is_pooled else moments.scatter.sum(axis=0)
            means, low_means = moments.means[:, varying], moments.low_means[:, varying]
            units = population.scale[features]
            yield Cases(
                np.searchsorted(population.varying, features),
                np.searchsorted(population.places, state.places),
                moments.weights,
                population.in_units(means, low_means, state.places, features),
                scatter[np.ix_(varying, varying)] / np.outer(units, units),
            )
