"""The predictive densities of classes: Student t, since means and covariances are estimated.

A normal density with estimated parameters is too narrow. Its mean over their posterior is a Student t
density,

ln p(x | k) = ln Γ(½ (f + r)) − ln Γ(½ f) − ½ r ln(f π) − ½ ln det S − ½ (f + r) ln(1 + q / f),

where q = (x − m)ᵀ S⁻¹ (x − m), f are the degrees of freedom, S is the shape matrix and r its rank. Here S is
a multiple of the covariance of the class, and squared distances are q.

References: Geisser (1964), "Posterior odds for multivariate normal classifications", Journal of the Royal
Statistical Society B 26; Ding (2016), "On the conditional distribution of the multivariate t distribution",
The American Statistician 70; Murphy (2012), "Machine Learning: A Probabilistic Perspective", section 4.6.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import chdtrc, chdtri, fdtrc, stdtr, stdtrit

from streamgda.models.gaussians.base import Densities, Gaussians
from streamgda.models.gaussians.densities import DiagonalGaussians
from streamgda.models.gaussians.products import deviations_from, some_of
from streamgda.models.gaussians.regularisation import log_gamma_ratio
from streamgda.models.gaussians.whitening import Array, Observed, Reason, with_error_alone

G = TypeVar("G", bound=Gaussians)


@dataclass(frozen=True, eq=False)
class StudentDensities(Densities, Generic[G]):
    """Student t densities with the means of normal ones, and with multiples of their covariances as shapes.

    Attributes
    ----------
    normals : Gaussians
        The normal densities.
    degrees : ndarray of shape (K,)
        f, the degrees of freedom; 1 of a class of too few rows.
    scales : ndarray of shape (K,)
        The factors by which covariances become shape matrices; 1 of such a class.
    too_few : mapping of int to callable
        The reason of each class of too few rows, by its position.
    """

    are_independent: ClassVar[bool] = False
    """Whether the features are independent of each other, each with a t density of its own."""

    normals: G
    degrees: Array
    scales: Array
    too_few: Mapping[int, Reason]

    def __getstate__(self) -> dict[str, Any]:
        """The errors themselves in place of the statistics that tell them."""
        errors = {k: with_error_alone(reason) for k, reason in self.too_few.items()}
        return {**self.__dict__, "too_few": errors}

    @property
    def means(self) -> Array:
        return self.normals.means

    @property
    def singular(self) -> Mapping[int, Reason]:
        return {**self.normals.singular, **self.too_few}

    @property
    def ranks(self) -> NDArray[np.int64]:
        return self.normals.ranks

    def squared_distances(self, X: Array) -> Array:
        distances = self.normals.squared_distances(X)
        distances /= self.scales
        distances[:, list(self.too_few)] = np.inf
        return distances

    def own_squared_distances(self, X: Array, codes: NDArray[np.intp]) -> Array:
        distances = self.normals.own_squared_distances(X, codes) / self.scales[codes]
        distances[np.isin(codes, list(self.too_few))] = np.inf
        return distances

    def marginal(self, observed: Observed) -> Self:
        return replace(self, normals=self.normals.marginal(observed))

    def conditional_mean(self, observed: Observed, marginal: Self, X: Array, posteriors: Array) -> Array:
        """That of the normal densities: the regression on the observed features is the same."""
        return self.normals.conditional_mean(observed, marginal.normals, X, posteriors)

    def sample(self, k: int, n: int, random: np.random.RandomState) -> Array:
        if k in self.too_few:
            raise self.too_few[k]()
        rows = self.normals.deviations(k, n, random)
        size = rows.shape if self.are_independent else (n, 1)
        rows *= np.sqrt(self.scales[k] * self.degrees[k] / random.chisquare(self.degrees[k], size))
        rows += self.means[k]
        return rows

    def covariance(self, k: int) -> Array:
        """The shape matrix of class k: (d, d)."""
        shape: Array = self.scales[k] * self.normals.covariance(k)
        return shape

    def precision(self, k: int) -> Array:
        """The inverse of the shape matrix of class k: (d, d)."""
        inverse: Array = self.normals.precision(k) / self.scales[k]
        return inverse


@dataclass(frozen=True, eq=False)
class Students(StudentDensities[Gaussians]):
    """A multivariate Student t density for each class."""

    @cached_property
    def log_normalisers(self) -> Array:
        ranks = self.ranks.astype(np.float64)
        ratios = log_gamma_ratio(self.degrees / 2, np.maximum(ranks, 1) / 2)
        ratios[ranks == 0] = 0.0
        factors = ranks * np.log(self.scales * self.degrees / 2)
        return self.normals.log_normalisers + factors - 2 * ratios

    def log_density_from(self, squared_distances: Array) -> Array:
        exponents = self.degrees + self.ranks
        terms = exponents * np.log1p(squared_distances / self.degrees)
        return -0.5 * (terms + self.log_normalisers)

    def tail_probabilities(self, X: Array, squared_distances: Array) -> Array:
        """As for normal densities, but q / r is compared with the F distribution of r and f degrees."""
        ranks = np.maximum(self.ranks, 1)
        tail = np.asarray(fdtrc(ranks, self.degrees, squared_distances / ranks), dtype=np.float64)
        return np.where(self.ranks > 0, tail, 1.0)

    def conditional_factors(self, observed: Self, x: Array) -> Array:
        """(f + q) / (f + r) for the squared distance q of the r known values (Ding 2016, section 2)."""
        squared = observed.squared_distances(x[None, :])[0]
        factors: Array = (self.degrees + squared) / (self.degrees + observed.ranks)
        return factors

    def squared_radii(self, probabilities: Array, observed: Self) -> Array:
        """Half of a squared radius has the F distribution of 2 and f degrees; known values are added to f."""
        degrees = (self.degrees + observed.ranks)[:, None]
        return degrees * np.expm1(-2 / degrees * np.log1p(-probabilities))


@dataclass(frozen=True, eq=False)
class DiagonalStudents(StudentDensities[DiagonalGaussians]):
    """For each class a Student t density of every feature, independent of the others."""

    scores_from_distances: ClassVar[bool] = False
    are_independent: ClassVar[bool] = True

    @cached_property
    def log_normalisers(self) -> Array:
        ratios = log_gamma_ratio(self.degrees / 2, np.full(len(self.degrees), 0.5))
        terms = np.log(self.scales * self.degrees / 2) - 2 * ratios
        normalisers: Array = self.normals.log_normalisers + self.means.shape[1] * terms
        return normalisers

    def log_density(self, X: Array) -> Array:
        log_density = np.empty((len(X), len(self.means)), order="F")
        for k, degrees in enumerate(self.degrees):
            terms = np.log1p(self._squares(X, k) / degrees).sum(axis=1)
            log_density[:, k] = -0.5 * ((degrees + 1) * terms + self.log_normalisers[k])
        log_density[:, list(self.too_few)] = -np.inf
        return log_density

    def posterior_scores(self, X: Array, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        return self.log_density(X) + log_priors

    def tail_probabilities(self, X: Array, squared_distances: Array) -> Array:
        """Compare with χ² the sum of squares of the normal deviations that have the features' p-values.

        The sum of squared t values has no distribution in closed form. The sum of squared normal values has.
        """
        tail = np.empty((len(X), len(self.means)), order="F")
        for k, degrees in enumerate(self.degrees):
            p_values = 2 * stdtr(degrees, -np.sqrt(self._squares(X, k)))
            tail[:, k] = chdtrc(max(X.shape[1], 1), chdtri(1, p_values).sum(axis=1))
        tail[:, list(self.too_few)] = 0.0
        return tail

    def squared_radii(self, probabilities: Array, observed: Self) -> Array:
        """The quantiles of the sum of two squared t values, which is independent of the known values."""
        return np.array([[_radius_of_two(f, p) ** 2 for p in probabilities] for f in self.degrees])

    def _squares(self, X: Array, k: int) -> Array:
        """The squared deviations from the mean of class k, in units of its scales: (n, d)."""
        deviations = deviations_from(X, self.means[k], some_of(self.normals.large_mean_tails, k))
        squares: Array = deviations * deviations / (self.scales[k] * self.normals.variances[k])
        return squares


def _radius_of_two(degrees: float, probability: float) -> float:
    """The radius of the circle about zero that holds a share of two independent t values.

    It lies between the radii of the inner and the outer circle of the square that holds the share.
    """

    def beyond(radius: float) -> float:
        def within(p: float) -> float:
            rest = np.sqrt(max(radius**2 - stdtrit(degrees, p) ** 2, 0.0))
            return float(2 * stdtr(degrees, rest) - 1)

        return 2 * float(quad(within, 0.5, stdtr(degrees, radius))[0]) - probability

    half = float(stdtrit(degrees, (1 + np.sqrt(probability)) / 2))
    return float(brentq(beyond, half, np.sqrt(2) * half, xtol=1e-10 * half))
