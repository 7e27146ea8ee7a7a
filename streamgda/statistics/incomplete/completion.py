"""Complete statistics from incomplete rows: those that the maximum of the likelihood expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from streamgda.blocks.labels import Labels
from streamgda.gaussians.whitening import constant_features
from streamgda.statistics.covariances import Array, CovarianceKind, Indices
from streamgda.statistics.floating.moments import Moments, two_sum
from streamgda.statistics.incomplete.available import AvailableCases, Group, total_weights
from streamgda.statistics.incomplete.em import Cases, Fit, Normal, maximise
from streamgda.statistics.incomplete.monotone import closed_form
from streamgda.statistics.incomplete.undetermined import Undetermined

TOLERANCE = 1e-8
MOST_STEPS = 2000


@dataclass
class Completion:
    """What is expected of all values, under the parameters that are likeliest given the observed ones.

    Attributes
    ----------
    moments : Moments
        With the weights of all rows, the likeliest means, and as scatter the likeliest covariance times the
        weight. NaN for a class that is not determined.
    log_likelihood : float
        Σ w ln p(observed features | class) at these parameters, of the classes that are determined; NaN if
        a covariance is singular.
    n_iter : int
        The largest number of EM steps that a class took; 0 where the solution has a closed form.
    converged : bool
        Whether EM converged in each class.
    undetermined : dict of int to Undetermined
        By the position of a class, why its mean or a covariance is not determined.
    log_likelihoods : tuple of float
        The log-likelihoods that EM passed through, of the last class, in units of the standard deviations of
        the available cases; they never fall.
    """

    moments: Moments
    log_likelihood: float = 0.0
    n_iter: int = 0
    converged: bool = True
    undetermined: dict[int, Undetermined] = field(default_factory=dict)
    log_likelihoods: tuple[float, ...] = ()

    def of_classes(self, positions: Indices) -> Completion:
        """That of some of the classes, which do not share a scatter; the likelihood is that of all."""
        found = {i: self.undetermined[k] for i, k in enumerate(positions.tolist()) if k in self.undetermined}
        return replace(self, moments=self.moments.take(positions), undetermined=found)


def complete(
    groups: Sequence[Group],
    counting: Sequence[Group],
    kind: CovarianceKind,
    classes: Labels,
    n_features: int,
    tol: float = TOLERANCE,
    max_iter: int = MOST_STEPS,
) -> Completion:
    """The completion of groups of rows.

    Parameters
    ----------
    groups : sequence of Group
        All groups.
    counting : sequence of Group
        Those in which each row is once.
    kind : CovarianceKind
        What is kept of the products of features. It says which model is fitted: a covariance for each class,
        one for all, or independent features.
    classes : ndarray of shape (n_classes,)
        The labels.
    n_features : int
        How many features a row has.
    tol, max_iter
        As for `streamgda.statistics.incomplete.em.maximise`.
    """
    available = AvailableCases.of(groups, len(classes), n_features, pooled=kind.is_pooled)
    completion = Completion(_without_scatter(available, counting, kind, classes))
    _find_unseen(completion, available, classes)
    if not kind.has_products:
        _complete_independent(completion, available)
        return completion
    populations = [np.arange(len(classes))] if kind.is_pooled else np.arange(len(classes))[:, None]
    for places in populations:
        population = _Population.of(places, groups, available, pooled=kind.is_pooled)
        population.find_apart(completion, None if kind.is_pooled else classes[places[0]].item())
        if completion.undetermined.keys().isdisjoint(places.tolist()):
            population.complete(completion, tol, max_iter)
    _erase_undetermined(completion)
    return completion


def _without_scatter(
    available: AvailableCases, counting: Sequence[Group], kind: CovarianceKind, classes: Labels
) -> Moments:
    weights, low_weights = total_weights(counting, len(classes))
    means, low_means = available.means.copy(), available.low_means.copy()
    return Moments(kind, weights, low_weights, means, low_means, kind.zeros(*means.shape))


def _find_unseen(completion: Completion, available: AvailableCases, classes: Labels) -> None:
    """Note the classes of which no row has a feature."""
    for k in np.flatnonzero((available.weights == 0).any(axis=1)).tolist():
        unseen = np.flatnonzero(available.weights[k] == 0)
        completion.undetermined[k] = Undetermined(classes[k].item(), unseen=unseen)


def _erase_undetermined(completion: Completion) -> None:
    moments = completion.moments
    for k in completion.undetermined:
        moments.means[k] = np.nan
        moments.scatter[... if moments.kind.is_pooled else k] = np.nan


def _complete_independent(completion: Completion, available: AvailableCases) -> None:
    """Complete features that are independent within a class: each by the rows that have it."""
    seen = available.weights > 0
    variances = np.divide(available.scatter, available.weights, out=np.zeros(seen.shape), where=seen)
    completion.moments.scatter = completion.moments.weights[:, None] * variances
    varies = variances > 0
    logs = np.log(2 * np.pi * variances, out=np.zeros(seen.shape), where=varies) + varies
    completion.log_likelihood = float(-(available.weights * logs).sum() / 2)


@dataclass(frozen=True)
class _Population:
    """The classes that share a covariance, all of them or one alone, with the scale of each feature.

    Attributes
    ----------
    places : ndarray of int
        The positions of the classes.
    groups : list of Group
        Those of their rows that have a feature.
    available : AvailableCases
        Of all classes.
    scale : ndarray of shape (n_features,)
        The standard deviation of each feature over the rows that have it; 0 where it does not vary.
    """

    places: Indices
    groups: list[Group]
    available: AvailableCases
    scale: Array

    @classmethod
    def of(
        cls, places: Indices, groups: Sequence[Group], available: AvailableCases, *, pooled: bool
    ) -> _Population:
        """The population of some classes."""
        weights = available.weights[places].sum(axis=0)
        scatter = available.scatter[0 if pooled else places[0]]
        variances = np.divide(scatter, weights, out=np.zeros(len(weights)), where=weights > 0)
        varies = ~constant_features(variances, available.means[places])
        own = [group.of_classes(places) for group in groups if len(group.features)]
        own = [group for group in own if len(group.places)]
        return cls(places, own, available, np.where(varies, np.sqrt(variances), 0.0))

    def find_apart(self, completion: Completion, label: object) -> None:
        """Note that too few rows have both features of a pair."""
        apart = Undetermined.apart_in(label, self.groups, len(self.scale))
        if apart is not None:
            completion.undetermined.setdefault(int(self.places[0]), apart)

    def complete(self, completion: Completion, tol: float, max_iter: int) -> None:
        """Find the likeliest parameters of features at unit variance, and write them back in their units."""
        varying = np.flatnonzero(self.scale)
        cases = [case for group in self.groups if (case := self._cases_of(group, varying)) is not None]
        start = Normal(np.zeros((len(self.places), len(varying))), np.eye(len(varying)))
        fit = closed_form(cases, *start.means.shape) or maximise(cases, start, tol, max_iter)
        self._write(completion, varying, fit)
        in_units = sum(
            case.weights.sum() * np.log(self.scale[varying[case.features]]).sum() for case in cases
        )
        completion.log_likelihood += fit.log_likelihoods[-1] - float(in_units)
        completion.n_iter = max(completion.n_iter, fit.n_iter)
        completion.converged &= fit.converged
        completion.log_likelihoods = fit.log_likelihoods

    def _cases_of(self, group: Group, varying: Indices) -> Cases | None:
        """A group as deviations from the means of the available cases, in units of the scale."""
        kept = np.flatnonzero(np.isin(group.features, varying))
        if not len(kept):
            return None
        features, moments = group.features[kept], group.moments
        cells, scale = np.ix_(group.places, features), self.scale[features]
        means = (moments.means[:, kept] - self.available.means[cells]) + (
            moments.low_means[:, kept] - self.available.low_means[cells]
        )
        scatter = moments.scatter if moments.kind.is_pooled else moments.scatter.sum(axis=0)
        return Cases(
            np.searchsorted(varying, features),
            np.searchsorted(self.places, group.places),
            moments.weights,
            means / scale,
            scatter[np.ix_(kept, kept)] / np.outer(scale, scale),
        )

    def _write(self, completion: Completion, varying: Indices, fit: Fit) -> None:
        moments, scale = completion.moments, self.scale[varying]
        cells = np.ix_(self.places, varying)
        moments.means[cells], moments.low_means[cells] = two_sum(
            moments.means[cells], moments.low_means[cells] + fit.normal.means * scale
        )
        covariance = fit.normal.covariance * np.outer(scale, scale)
        scatter = moments.scatter if moments.kind.is_pooled else moments.scatter[self.places[0]]
        scatter[np.ix_(varying, varying)] = moments.weights[self.places].sum() * covariance
