"""Complete statistics from incomplete rows: the expected ones at the maximum of the likelihood."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from streamgda.blocks.labels import Labels
from streamgda.gaussians.whitening import Reason
from streamgda.statistics.covariances import Array, CovarianceKind, Indices
from streamgda.statistics.floating.moments import Moments
from streamgda.statistics.incomplete.available import (
    AvailableCases,
    PatternState,
    Population,
    apart_in,
    unseen,
)
from streamgda.statistics.incomplete.em import Cases, Fit, Normal, Parameters, closed_form, maximise


@dataclass
class Completion:
    """The expected moments of all values, under the likeliest parameters given the observed values.

    Attributes
    ----------
    moments : Moments
        The weights of all rows, the likeliest means, and as scatter the likeliest covariance times the
        weight. NaN for an undetermined class.
    log_likelihood : float
        Σ w ln p(observed features | class) at these parameters, of the classes that are determined; NaN if
        a covariance is singular.
    n_iter : int
        The largest number of EM steps that a class took; 0 where the solution has a closed form.
    converged : bool
        Whether EM converged in each class.
    undetermined : dict of int to callable
        The reason why a mean or a covariance of a class is undetermined, by the position of the class.
    log_likelihoods : tuple of float
        The log-likelihoods of the steps of EM, which never fall. They are those of the last class, in units
        of the standard deviations of the available cases.
    """

    moments: Moments
    log_likelihood: float = 0.0
    n_iter: int = 0
    converged: bool = True
    undetermined: dict[int, Reason] = field(default_factory=dict)
    log_likelihoods: tuple[float, ...] = ()

    def of_classes(self, positions: Indices) -> Completion:
        """The completion of some classes that share no scatter. The likelihood stays that of all classes."""
        found = {i: self.undetermined[k] for i, k in enumerate(positions.tolist()) if k in self.undetermined}
        return replace(self, moments=self.moments.take(positions), undetermined=found)


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
    available = AvailableCases.of(states, len(classes), len(names), pooled=kind.is_pooled)
    undetermined = {
        k: unseen(classes[k].item(), np.flatnonzero(available.weights[k] == 0), names)
        for k in np.flatnonzero((available.weights == 0).any(axis=1)).tolist()
    }
    if not kind.has_products:
        return replace(_complete_independent(kind, weights, available), undetermined=undetermined)
    populations, fits, log_likelihood = Population.all_of(available, kind), list[Fit](), 0.0
    normals = [Normal.standard(population) for population in populations]
    for number, population in enumerate(populations):
        places = population.places.tolist()
        own = [state.of_classes(population.places) for state in states if len(state.features)]
        reason = apart_in(None if kind.is_pooled else classes[places[0]].item(), own, names)
        if reason is not None:
            undetermined.setdefault(places[0], reason)
        if undetermined.keys().isdisjoint(places):
            cases = list(_cases_of(population, own))
            fit = closed_form(cases, *normals[number].means.shape) or maximise(cases, normals[number])
            fits, normals[number] = [*fits, fit], fit.normal
            logs = np.log(population.scale[population.varying])  # of the units, unlike those of the rows
            in_units = sum(case.weights.sum() * logs[case.features].sum() for case in cases)
            log_likelihood += fit.log_likelihoods[-1] - float(in_units)
    moments = Parameters(kind, classes, populations, normals).moments(*weights)
    for k in undetermined:
        moments.means[k] = np.nan
        moments.scatter[... if kind.is_pooled else k] = np.nan
    return Completion(
        moments,
        log_likelihood,
        max((fit.n_iter for fit in fits), default=0),
        all(fit.converged for fit in fits),
        undetermined,
        fits[-1].log_likelihoods if fits else (),
    )


def _complete_independent(
    kind: CovarianceKind, weights: tuple[Array, Array], available: AvailableCases
) -> Completion:
    """Complete features that are independent within a class: each from the rows that have it."""
    seen = available.weights > 0
    variances = np.divide(available.scatter, available.weights, out=np.zeros(seen.shape), where=seen)
    scatter = weights[0][:, None] * variances
    varies = variances > 0
    logs = np.log(2 * np.pi * variances, out=np.zeros(seen.shape), where=varies) + varies
    moments = Moments(kind, *weights, available.means, available.low_means, scatter)
    return Completion(moments, float(-(available.weights * logs).sum() / 2))


def _cases_of(population: Population, states: Sequence[PatternState]) -> Iterator[Cases]:
    """The rows of a population that have a feature that varies, in units of the population."""
    for state in states:
        kept = np.flatnonzero(np.isin(state.features, population.varying))
        if len(kept) and len(state.places):
            features, moments = state.features[kept], state.moments
            scatter = moments.scatter if moments.kind.is_pooled else moments.scatter.sum(axis=0)
            means, low_means = moments.means[:, kept], moments.low_means[:, kept]
            units = population.scale[features]
            yield Cases(
                np.searchsorted(population.varying, features),
                np.searchsorted(population.places, state.places),
                moments.weights,
                population.in_units(means, low_means, state.places, features),
                scatter[np.ix_(kept, kept)] / np.outer(units, units),
            )
