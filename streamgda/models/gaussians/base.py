"""The interface of densities of classes: log densities of rows, marginals, conditional means, samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from streamgda.models.gaussians.posteriors import order_of
from streamgda.models.gaussians.whitening import Array, Observed, Reason, Whitening

LOG_2PI = float(np.log(2 * np.pi))
FAR = 100.0  # standard deviations; beyond, squared terms change differences of scores by more than 10⁻¹²


class Densities(ABC):
    """The densities of K classes of d features.

    Scores of rows (n, K) may have either order in memory. With few classes they are Fortran-ordered, since a
    maximum or sum over the classes is then several times as fast.

    Attributes
    ----------
    means : ndarray of shape (K, d)
        The means of the classes.
    mean_tails : ndarray of shape (K, d) or None
        The low parts of the means: what rounding to float64 leaves of them. None if they are not known.
    """

    if TYPE_CHECKING:  # most keep it as a field

        @property
        def means(self) -> Array:
            """The means of the classes: (K, d)."""

        @property
        def mean_tails(self) -> Array | None:
            """The low parts of the means, which rounding to float64 leaves of them: (K, d)."""

        @property
        def scores_from_distances(self) -> bool:
            """Whether scores are best computed from squared distances, and not from the rows."""

        @property
        def log_normalisers(self) -> Array:
            """−2 times the log density of each class at its mean, r ln 2π + ln det Σ of a normal one: (K,).

            Only densities that are functions of squared distances have them.
            """

        @property
        def ranks(self) -> NDArray[np.int64]:
            """The rank of the covariance of each class: (K,). Mixtures have none."""

        @property
        def singular(self) -> Mapping[int, Reason]:
            """The positions of classes without a density, and the reason of each."""

        @property
        def takes_sparse(self) -> bool:
            """Whether scores of rows in CSR are products of their stored values; else rows must be dense."""

        @property
        def linear_terms(self) -> tuple[Array, Array, Array] | None:
            """A centre (d,), slopes (d, K) and intercepts (K,), if scores are linear in x − centre."""

    else:
        scores_from_distances = True
        takes_sparse = False
        linear_terms = None
        singular = MappingProxyType({})

    def _of_classes(self, some: slice | NDArray[np.intp]) -> Densities:
        """The densities of some classes, whose scores differ from ln p(x, k) by the same term."""
        raise NotImplementedError

    @abstractmethod
    def squared_distances(self, X: Array) -> Array:
        """(x − μ)ᵀ Σ⁻¹ (x − μ) of rows (n, d) for each class: (n, K)."""

    def own_squared_distances(self, X: Array, codes: NDArray[np.intp]) -> Array:
        """The squared distance of each row (n, d) from the mean of its own class, by its position: (n,)."""
        return np.take_along_axis(self.squared_distances(X), codes[:, None], axis=1)[:, 0]

    @abstractmethod
    def marginal(self, observed: Observed) -> Self:
        """The marginal densities of the observed features, given as a mask (d,)."""

    def given(self, rest: Array) -> Densities | None:
        """The normal densities of numbers, given the other features (D,); None if all features are normal."""
        return None

    @abstractmethod
    def conditional_mean(self, observed: Observed, marginal: Self, X: Array, posteriors: Array) -> Array:
        """The mean of the missing features given the observed ones: (n, d − d').

        Σ_k p(k | x) (μ_k + Σ_k,missing,observed Σ_k,observed⁻¹ (x − μ_k,observed)).

        Parameters
        ----------
        observed : ndarray of bool of shape (d,)
            Which features are observed.
        marginal : Densities
            Their marginal densities.
        X : ndarray of shape (n, d')
            Their values.
        posteriors : ndarray of shape (n, K)
            p(k | x).

        References
        ----------
        Anderson (2003), "An Introduction to Multivariate Statistical Analysis", theorem 2.5.1.
        """

    @abstractmethod
    def sample(self, k: int, n: int, random: np.random.RandomState) -> Array:
        """Random rows of class k: (n, d)."""

    @abstractmethod
    def covariance(self, k: int) -> Array:
        """The covariance of class k: (d, d)."""

    @abstractmethod
    def precision(self, k: int) -> Array:
        """The inverse of the covariance of class k: (d, d)."""

    def tail_probabilities(self, X: Array, squared_distances: Array) -> Array:
        """The probability that a row of each class is at least as far from its mean as rows of X: (n, K).

        Compares the squared distances (n, K) of the rows (n, d) with χ²; 1 if no feature is observed.
        """
        return chdtrc(np.maximum(self.ranks, 1), squared_distances)

    def conditional_factors(self, observed: Self, x: Array) -> Array:
        """The ratio of the conditional covariance of each class to that of a normal density: (K,).

        Parameters
        ----------
        observed : Densities
            The marginal densities of the features whose values are known.
        x : ndarray of shape (d',)
            Their values.
        """
        return np.ones(len(self.means))

    def squared_radii(self, probabilities: Array, observed: Self) -> Array:
        """The squared radii of ellipses that hold these shares (n,) of two features of each class: (K, n).

        They are in units of the covariance of the two, given the features of other marginal densities.
        """
        radii = -2 * np.log1p(-probabilities)
        return np.broadcast_to(radii, (len(self.means), len(radii)))

    def log_density(self, X: Array) -> Array:
        """The log density of rows (n, d) under each class: (n, K)."""
        return self.log_density_from(self.squared_distances(X))

    def log_density_from(self, squared_distances: Array) -> Array:
        """`log_density` of rows with these squared distances (n, K), with the same bits: (n, K)."""
        return -0.5 * (squared_distances + self.log_normalisers)

    def discriminants(self, X: Array, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        """Ln p(x, k), up to a term that is the same for all rows and classes: (n, K).

        The arguments are those of `posterior_scores`.
        """
        return self.posterior_scores(X, log_priors, out)

    def posterior_scores(self, X: Array, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        """Ln p(x, k), up to a term that is the same for all classes of a row: (n, K).

        Posteriors depend on the scores up to such a term. Scores keep their digits if classes are far apart.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows.
        log_priors : ndarray of shape (K,), default=0
            Logarithms of the prior probabilities.
        out : ndarray of shape (n, K), optional
            Memory that the scores may be written to. It is used if that saves a copy.
        """
        scores = self.posterior_scores_from(self.squared_distances(X))
        scores += log_priors
        return scores

    def posterior_scores_from(self, squared_distances: Array) -> Array:
        """`posterior_scores` of rows with these squared distances (n, K), with the same bits: (n, K)."""
        return self.log_density_from(squared_distances)

    def tables(self, columns: tuple[str, ...]) -> dict[str, Array] | None:
        """Ln p(v | k) of the values of columns that are no numbers; None if there are none."""
        return None

    def with_rest(self, formula: Any) -> Any:
        """The scores of rows as arrays (`ScoreFormula`), from those of the densities of `parts_with`."""
        return formula

    def parts_with(self, constants: Array) -> tuple[Densities, Array, NDArray[np.intp]]:
        """The densities that add up to those of the classes, ln of their weights, and where classes begin.

        `constants` are the logarithms of the weights of the classes: (K,).
        """
        return self, constants, np.arange(len(constants))


class Gaussians(Densities):
    """Normal densities. A model learns their parameters, even if it scores rows by other densities."""

    if TYPE_CHECKING:

        @property
        def common(self) -> Whitening | None:
            """The whitening of what all classes share or are pooled with; None if there is nothing."""

        @property
        def regularisation(self) -> Any:
            """The `Regularisation` by which the classes are pooled; None if they are not."""

        @property
        def why_none(self) -> Reason | None:
            """Returns the error that says why the rows determine no density; None if they do."""

    else:
        common = regularisation = why_none = None

    @property
    @abstractmethod
    def n_free_covariances(self) -> float:
        """The number of free covariances; see `GenerativeClassifier.n_parameters_`."""

    @abstractmethod
    def deviations(self, k: int, n: int, random: np.random.RandomState) -> Array:
        """Deviations of random rows of class k from its mean: (n, d)."""

    def sample(self, k: int, n: int, random: np.random.RandomState) -> Array:
        """Random rows of class k: (n, d)."""
        rows = self.deviations(k, n, random)
        rows += self.means[k]
        return rows

    @abstractmethod
    def total_squared_distance(self, scatter: Array) -> float:
        """The sum of the squared distances of rows from the means of their own classes, Σ tr(Σ_k⁻¹ W_k).

        Parameters
        ----------
        scatter : ndarray of shape (K, d, d), (d, d) or (K, d)
            W_k of each class, their sum if the classes share a covariance, or the diagonals of W_k if
            covariances are diagonal.
        """


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

    scores_from_distances = takes_sparse = False
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
