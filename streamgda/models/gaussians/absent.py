"""Classes without densities: those of which no row has come, and all of them where rows determine none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.models.gaussians.base import Densities
from streamgda.models.gaussians.posteriors import order_of
from streamgda.models.gaussians.whitening import Array, Observed, Reason


@dataclass(frozen=True, eq=False)
class WithAbsentClasses(Densities):
    """The densities of some classes, among others of which no row has come. The density of those is 0.

    Attributes
    ----------
    present : Densities
        The densities of the classes that have rows.
    places : ndarray of int
        Their positions among all classes.
    n_classes : int
        The number of all classes, K.
    """

    present: Densities
    places: NDArray[np.intp]
    n_classes: int

    def _among_all(self, values: Array, other: float) -> Array:
        """Values of the classes with rows (n, K'), and another value for the rest: (n, K)."""
        result = np.full((len(values), self.n_classes), other, order=order_of(self.n_classes))
        result[:, self.places] = values
        return result

    def _of_present(self, log_priors: Array | float) -> Array | float:
        return np.broadcast_to(log_priors, self.n_classes)[self.places]

    @property
    def scores_from_distances(self) -> bool:
        """Whether scores are best computed from squared distances, and not from the rows."""
        return self.present.scores_from_distances

    @property
    def means(self) -> Array:
        """The means of the classes, NaN for a class without rows: (K, d)."""
        return self._among_all(self.present.means.T, np.nan).T

    @property
    def singular(self) -> Mapping[int, Reason]:
        """The positions of classes whose rows determine no density, and the reason of each."""
        return {int(self.places[k]): reason for k, reason in self.present.singular.items()}

    def squared_distances(self, X: Array) -> Array:
        """Infinite for a class without rows: (n, K)."""
        return self._among_all(self.present.squared_distances(X), np.inf)

    def tail_probabilities(self, X: Array, squared_distances: Array) -> Array:
        """0 for a class without rows: (n, K)."""
        own = np.asfortranarray(squared_distances[:, self.places])
        return self._among_all(self.present.tail_probabilities(X, own), 0.0)

    def log_density(self, X: Array) -> Array:
        """−∞ for a class without rows: (n, K)."""
        return self._among_all(self.present.log_density(X), -np.inf)

    def log_density_from(self, squared_distances: Array) -> Array:
        """`log_density` of rows with these squared distances: (n, K)."""
        return self._among_all(self.present.log_density_from(squared_distances[:, self.places]), -np.inf)

    def discriminants(self, X: Array, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        """−∞ for a class without rows: (n, K)."""
        return self._among_all(self.present.discriminants(X, self._of_present(log_priors)), -np.inf)

    def posterior_scores(self, X: Array, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        """−∞ for a class without rows: (n, K)."""
        return self._among_all(self.present.posterior_scores(X, self._of_present(log_priors)), -np.inf)

    def posterior_scores_from(self, squared_distances: Array) -> Array:
        """`posterior_scores` of rows with these squared distances: (n, K)."""
        return self._among_all(self.present.posterior_scores_from(squared_distances[:, self.places]), -np.inf)

    def marginal(self, observed: Observed) -> Self:
        """The marginal densities of the observed features, given as a mask (d,)."""
        return replace(self, present=self.present.marginal(observed))

    def conditional_mean(self, observed: Observed, marginal: Self, X: Array, posteriors: Array) -> Array:
        """The mean of the missing features given the observed ones: (n, d − d')."""
        own = np.asfortranarray(posteriors[:, self.places])
        return self.present.conditional_mean(observed, marginal.present, X, own)

    def conditional_factors(self, observed: Self, x: Array) -> Array:
        """NaN for a class without rows: (K,)."""
        factors = self.present.conditional_factors(observed.present, x)
        return self._among_all(factors[None], np.nan).ravel()

    def squared_radii(self, probabilities: Array, observed: Self) -> Array:
        """NaN for a class without rows: (K, n)."""
        return self._among_all(self.present.squared_radii(probabilities, observed.present).T, np.nan).T

    def sample(self, k: int, n: int, random: np.random.RandomState) -> Array:
        """Random rows of class k: (n, d). ValueError if no row of it has come."""
        if k not in self.places:
            raise ValueError("no row of this class has come, so none can be drawn from it")
        return self.present.sample(int(np.searchsorted(self.places, k)), n, random)

    def covariance(self, k: int) -> Array:
        """The covariance of class k, NaN if it has no rows: (d, d)."""
        return self._matrix_of(self.present.covariance, k)

    def precision(self, k: int) -> Array:
        """The inverse of the covariance of class k, NaN if it has no rows: (d, d)."""
        return self._matrix_of(self.present.precision, k)

    def _matrix_of(self, of_present: Callable[[int], Array], k: int) -> Array:
        if k not in self.places:
            return np.full((self.means.shape[1],) * 2, np.nan)
        return of_present(int(np.searchsorted(self.places, k)))


@dataclass(frozen=True, eq=False)
class PriorsAlone:
    """Stands for the densities of classes where rows determine none yet. Each row has the priors.

    Whatever needs a density raises the error that says why there is none.

    Attributes
    ----------
    n_classes : int
        The number of classes, K.
    why_none : callable
        Returns the error.
    """

    n_classes: int
    why_none: Reason

    scores_from_distances = has_class_blocks = False
    common = regularisation = None
    singular: ClassVar[Mapping[int, Reason]] = MappingProxyType({})

    def marginal(self, observed: Observed) -> Self:
        """The same for the observed features."""
        return self

    def posterior_scores(self, X: Array, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        """The logarithms of the priors: (n, K)."""
        return np.full((len(X), self.n_classes), log_priors, order=order_of(self.n_classes))

    discriminants = posterior_scores

    def __getattr__(self, name: str) -> Any:
        """Raise the error for all that densities have besides."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise self.why_none()
