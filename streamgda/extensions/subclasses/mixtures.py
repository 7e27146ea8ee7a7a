"""Densities of classes that are mixtures: of the densities of their subclasses, weighted by their shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.models.gaussians.base import Densities
from streamgda.models.gaussians.whitening import Array, Observed, Reason


@dataclass(frozen=True, eq=False)
class Mixtures(Densities):
    """The density of a class is p(x | k) = Σ_j p(j | k) p(x | k, j), over its subclasses j.

    Attributes
    ----------
    components : Densities
        The densities of the M subclasses, those of a class side by side.
    starts : ndarray of int of shape (K,)
        Where those of each class begin.
    shares : ndarray of shape (M,)
        p(j | k): the share of each subclass in its class.

    References
    ----------
    Hastie & Tibshirani (1996), "Discriminant analysis by Gaussian mixtures", JRSS B 58.
    """

    scores_from_distances: ClassVar[bool] = False

    components: Densities
    starts: NDArray[np.intp]
    shares: Array

    def parts_with(self, constants: Array) -> tuple[Densities, Array, NDArray[np.intp]]:
        """The densities of the subclasses, and ln of their weights among all rows."""
        return self.components, np.repeat(constants, self._sizes) + self._log_shares, self.starts

    @cached_property
    def means(self) -> Array:
        """The means of the classes: (K, d)."""
        return np.add.reduceat(self.shares[:, None] * self.components.means, self.starts)

    @property
    def singular(self) -> Mapping[int, Reason]:
        """The positions of classes of which no subclass has a density, and the reason of the first."""
        reasons = self.components.singular
        if not reasons:
            return {}
        return {k: reasons[own[0]] for k, own in enumerate(self._by_class) if reasons.keys() >= set(own)}

    @cached_property
    def _by_class(self) -> list[NDArray[np.intp]]:
        """The subclasses of each class."""
        return np.split(np.arange(len(self.shares)), self.starts[1:])

    @cached_property
    def _sizes(self) -> NDArray[np.intp]:
        return np.diff(self.starts, append=len(self.shares))

    @cached_property
    def _log_shares(self) -> Array:
        return np.log(self.shares)

    @cached_property
    def _layers(self) -> tuple[NDArray[np.intp], list[slice], NDArray[np.intp]]:
        """The order in which subclasses are added, where each layer of it lies, and that of each class.

        The first layer has the first subclass of each class, the classes of most subclasses first. So each
        layer is of the first classes of the layer before, and is added to them by one slice.
        """
        by_size = np.argsort(-self._sizes, kind="stable")
        layers = [self.starts[by_size[self._sizes[by_size] > j]] + j for j in range(self._sizes.max())]
        bounds = np.cumsum([0, *map(len, layers)]).tolist()
        return np.concatenate(layers), list(map(slice, bounds, bounds[1:])), np.argsort(by_size)

    def _added(self, scores: Array) -> Array:
        """Ln Σ_j exp(score) of the subclasses of each class: (n, K), of scores (n, M)."""
        order, layers, places = self._layers
        terms = np.ascontiguousarray(scores.T[order])
        added, highest = terms[layers[0]], terms[layers[0]].copy()
        sizes = [layer.stop - layer.start for layer in layers]
        for layer, n in zip(layers, sizes, strict=True):
            np.maximum(highest[:n], terms[layer], out=highest[:n])
        highest[np.isneginf(highest)] = 0.0
        for layer, n in zip(layers, sizes, strict=True):
            terms[layer] -= highest[:n]
        np.exp(terms, out=terms)
        for layer, n in zip(layers[1:], sizes[1:], strict=True):
            added[:n] += terms[layer]
        with np.errstate(divide="ignore"):
            np.log(added, out=added)
        added += highest
        return added[places].T

    def squared_distances(self, X: Array) -> Array:
        """The least squared distance of rows (n, d) from the mean of a subclass of each class: (n, K)."""
        distances: Array = np.minimum.reduceat(self.components.squared_distances(X).T, self.starts)
        return distances.T

    def log_density(self, X: Array) -> Array:
        """The log density of rows (n, d) under each class: (n, K)."""
        return self._added(self.components.log_density(X) + self._log_shares)

    def discriminants(self, X: Array, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        """Ln p(x, k), up to a term that is the same for all rows and classes: (n, K)."""
        return self._added(self.components.discriminants(X, self._log_shares)) + log_priors

    def posterior_scores(self, X: Array, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        """Ln p(x, k), up to a term that is the same for all classes of a row: (n, K)."""
        return self._added(self.components.posterior_scores(X, self._log_shares)) + log_priors

    def tail_probabilities(self, X: Array, squared_distances: Array) -> Array:
        """The largest tail probability of a subclass of each class: (n, K).

        A row of the class has one of at most α with a probability of at most α, as that of its own subclass
        is no larger.
        """
        own = self.components.tail_probabilities(X, self.components.squared_distances(X))
        largest: Array = np.maximum.reduceat(own.T, self.starts)
        return largest.T

    def marginal(self, observed: Observed) -> Self:
        """The marginal densities of the observed features, given as a mask (d,)."""
        return replace(self, components=self.components.marginal(observed))

    def conditional_mean(self, observed: Observed, marginal: Self, X: Array, posteriors: Array) -> Array:
        """The mean of the missing features given the observed ones: (n, d − d')."""
        scores = marginal.components.posterior_scores(X, self._log_shares)
        of_subclasses = np.exp(scores - np.repeat(self._added(scores), self._sizes, axis=1))
        of_subclasses *= np.repeat(posteriors, self._sizes, axis=1)
        return self.components.conditional_mean(observed, marginal.components, X, of_subclasses)

    def sample(self, k: int, n: int, random: np.random.RandomState) -> Array:
        """Random rows of class k: (n, d)."""
        own = self._by_class[k]
        components = random.choice(own, size=n, p=self.shares[own])
        rows = np.empty((n, self.means.shape[1]))
        for j in np.unique(components):
            chosen = np.flatnonzero(components == j)
            rows[chosen] = self.components.sample(j, len(chosen), random)
        return rows

    def covariance(self, k: int) -> Array:
        """The covariance of class k, within its subclasses and between them: (d, d)."""
        own = self._by_class[k]
        within = [self.components.covariance(j) for j in own]
        gaps, shares = self.components.means[own] - self.means[k], self.shares[own]
        covariance: Array = np.tensordot(shares, within, axes=1) + (gaps.T * shares) @ gaps
        return covariance

    def precision(self, k: int) -> Array:
        """The inverse of the covariance of class k: (d, d)."""
        return np.asarray(np.linalg.inv(self.covariance(k)), dtype=np.float64)


def shares_of(starts: NDArray[np.intp], weights: Array) -> Array:
    """The share of each subclass in the weight of its class, of which the first ones begin at `starts`."""
    totals = np.add.reduceat(weights, starts)
    shares: Array = weights / np.repeat(totals, np.diff(starts, append=len(weights)))
    return shares
