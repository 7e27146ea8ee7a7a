"""One covariance for all classes, updated as rows are learnt, without a new factor.

Rows that are learnt change the scatter W within the classes by a matrix of low rank. In the coordinates in
which W was the identity, it becomes I + V Vᵀ. The inverse is I − B Bᵀ, and each further batch adds columns to
B (Sherman & Morrison 1950; Woodbury 1950). So scores need two narrow products more than those of
`SharedGaussians`. A new factor is computed if there are too many columns, or if scores would lose digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg.blas import dtrmm

from streamgda.gaussians.base import FAR
from streamgda.gaussians.posteriors import order_of
from streamgda.gaussians.products import multiply_rows
from streamgda.gaussians.shared import SharedGaussians
from streamgda.gaussians.whitening import Array, TriangularWhitening, Whitening, constant_features

Positions = NDArray[np.intp]

_MOST_GROWTH = 16.0  # of the scatter in any direction; a loss of 1.2 of 16 digits
_FEWEST_COLUMNS = 16
_LEAST_WORK = 1_500_000  # multiplications of a new factor; with fewer, it takes less time than a change


@dataclass(frozen=True, eq=False)
class LearntRows:
    """Rows that were learnt, and the means and weights of their classes with them.

    Attributes
    ----------
    rows, weights, codes : ndarray of shape (n, d), (n,) and (n,)
        The rows, their weights, and the positions of their classes in `classes`.
    classes, means, mean_tails, class_weights : ndarray of shape (c,), (c, d), (c, d) and (c,)
        The positions of the classes of the rows among all classes; their means, low parts of means and
        weights, with the rows included.
    total : float
        The weight of all classes, with the rows included.
    centre : ndarray of shape (d,)
        The overall mean, with the rows included.
    """

    rows: Array
    weights: Array
    codes: Positions
    classes: Positions
    means: Array
    mean_tails: Array
    class_weights: Array
    total: float
    centre: Array

    @cached_property
    def has_others(self) -> NDArray[np.bool_]:
        """Whether there are other rows of the class of each row: (n,)."""
        several: NDArray[np.bool_] = np.bincount(self.codes)[self.codes] > 1
        return several

    @property
    def n_vectors(self) -> int:
        """The number of vectors that change the scatter: one for each class and each row of `has_others`."""
        return len(self.classes) + int(self.has_others.sum())


@dataclass(frozen=True, eq=False)
class Factor:
    """The last factor, the densities that were computed from it, and the weight of their classes."""

    gaussians: SharedGaussians
    whitening: TriangularWhitening
    total: float

    @cached_property
    def largest(self) -> Array:
        """The largest absolute mean of each feature: (d,)."""
        means = self.gaussians.means
        largest: Array = np.maximum(means.max(axis=0), -means.min(axis=0))
        return largest

    @cached_property
    def mean_tails(self) -> Array:
        """The low parts of the means of the classes; zeros if they are not known: (K, d)."""
        mean_tails = self.gaussians.mean_tails
        return np.zeros_like(self.gaussians.means) if mean_tails is None else mean_tails

    @cached_property
    def variances(self) -> Array:
        """The variance of each feature: (d,)."""
        return np.diag(self.whitening.covariance)

    def whiten(self, vectors: Array, learnt: LearntRows) -> Array:
        """Whiten vectors (n, d), and deviations of class means and centre from the centre of the factor."""
        deviations = np.concatenate([vectors, learnt.means, learnt.centre[None]])
        deviations[len(vectors) :] -= self.gaussians.centre
        deviations[len(vectors) : -1] += learnt.mean_tails
        product: Array = dtrmm(1.0, self.whitening.triangle, deviations.T, lower=True, overwrite_b=True).T
        return product


@dataclass(frozen=True, eq=False)
class Change:
    """What has changed since the last factor, in its coordinates.

    Attributes
    ----------
    total : float
        The weight of all classes.
    centre : ndarray of shape (d,)
        The overall mean.
    classes, means, mean_tails : ndarray of shape (c,), (c, d) and (c, d)
        The classes whose means have changed, their new means, and the low parts of these.
    whitened : ndarray of shape (c + 1, d)
        These means and the centre, whitened.
    slopes : ndarray of shape (c + 1, d)
        The same as slopes: the product of a deviation with a slope is that of the two, whitened.
    vectors : ndarray of shape (m, d)
        The rows of Vᵀ.
    overlaps : ndarray of shape (m,)
        The sum of the absolute products of each vector with all vectors. The largest is a bound of the
        eigenvalues of V Vᵀ.
    growth : ndarray of shape (d,)
        The growth of the variance of each feature by learning, in units of its variance in the last factor.
    columns, column_slopes : ndarray of shape (m, d)
        The rows of Bᵀ, and their slopes.
    products : ndarray of shape (m, K + 1)
        Bᵀ times all means and the centre, whitened.
    lengths : ndarray of shape (K + 1,)
        The squared lengths of these means and the centre, by I − B Bᵀ.
    """

    total: float
    centre: Array
    classes: Positions
    means: Array
    mean_tails: Array
    whitened: Array
    slopes: Array
    vectors: Array
    overlaps: Array
    growth: Array
    columns: Array
    column_slopes: Array
    products: Array
    lengths: Array

    @classmethod
    def none_since(cls, factor: Factor) -> Self:
        """No change."""
        gaussians, none = factor.gaussians, np.empty((0, len(factor.gaussians.centre)))
        return cls(
            total=factor.total,
            centre=gaussians.centre,
            classes=np.empty(0, dtype=np.intp),
            means=none,
            mean_tails=none,
            whitened=np.zeros((1, none.shape[1])),
            slopes=np.zeros((1, none.shape[1])),
            vectors=none,
            overlaps=np.empty(0),
            growth=np.zeros(none.shape[1]),
            columns=none,
            column_slopes=none,
            products=np.empty((0, len(gaussians.means) + 1)),
            lengths=np.append(-2 * gaussians.intercepts, 0.0),
        )

    def followed_by(self, learnt: LearntRows, factor: Factor) -> Change:
        """The change after more rows have been learnt."""
        raw = self._vectors(learnt, factor)
        whitened = factor.whiten(raw, learnt)
        vectors, moved = whitened[: len(raw)], whitened[len(raw) :]
        added = _columns(vectors, self.columns)
        columns = np.concatenate([self.columns, added])
        others = ~(self.classes[:, None] == learnt.classes).any(axis=1)
        still = self.whitened[:-1][others]
        slopes = factor.whitening.slopes(np.concatenate([added, moved]))
        new = added @ factor.gaussians.whitened_means.T
        new[:, self.classes[others]] = added @ still.T
        products, lengths = self._products(new, np.append(learnt.classes, -1), columns, moved)
        return Change(
            total=learnt.total,
            centre=learnt.centre,
            classes=np.concatenate([self.classes[others], learnt.classes]),
            means=np.concatenate([self.means[others], learnt.means]),
            mean_tails=np.concatenate([self.mean_tails[others], learnt.mean_tails]),
            whitened=np.concatenate([still, moved]),
            slopes=np.concatenate([self.slopes[:-1][others], slopes[len(added) :]]),
            vectors=np.concatenate([self.vectors, vectors]),
            overlaps=self._overlaps(vectors),
            growth=self.growth + _squares(raw) / factor.variances,
            columns=columns,
            column_slopes=np.concatenate([self.column_slopes, slopes[: len(added)]]),
            products=products,
            lengths=lengths,
        )

    def _products(self, new: Array, places: Positions, columns: Array, moved: Array) -> tuple[Array, Array]:
        """The products and lengths after columns were added; `new` are the products of these with all means.

        The whitened means at these places, and the centre, have changed to `moved`.
        """
        products = np.empty((len(columns), len(self.lengths)))
        products[: len(self.columns)] = self.products
        products[len(self.columns) :, :-1] = new
        lengths = self.lengths - _squares(products[len(self.columns) :])
        products[:, places] = columns @ moved.T
        lengths[places] = np.vecdot(moved, moved) - _squares(products[:, places])
        return products, lengths

    def _vectors(self, learnt: LearntRows, factor: Factor) -> Array:
        """The rows of Vᵀ that learning adds, in the units of the features.

        They are the deviations within the batch, and those of the class means of the batch from the earlier
        means.
        """
        weights, codes = learnt.weights, learnt.codes
        means, mean_tails = self._means(learnt.classes, factor)
        vectors = (learnt.rows - means[codes]) - mean_tails[codes]
        batch_weights = np.bincount(codes, weights)
        earlier = np.maximum(learnt.class_weights - batch_weights, 0.0)
        roots = np.sqrt(earlier * (batch_weights / learnt.class_weights) / factor.total)[:, None]
        if len(batch_weights) == len(codes):  # one row of each class
            return np.asarray(vectors * roots[codes])
        shares = np.zeros((len(batch_weights), len(codes)))
        shares[codes, np.arange(len(codes))] = weights / batch_weights[codes]
        gaps, several = shares @ vectors, learnt.has_others
        within = vectors[several] - gaps[codes[several]]
        within *= np.sqrt(weights[several] / factor.total)[:, None]
        return np.concatenate([within, gaps * roots])

    def _means(self, classes: Positions, factor: Factor) -> tuple[Array, Array]:
        """The means of some classes before the rows that are learnt now, and their low parts."""
        means, mean_tails = factor.gaussians.means[classes], factor.mean_tails[classes]
        moved, places = np.nonzero(self.classes[:, None] == classes)
        means[places], mean_tails[places] = self.means[moved], self.mean_tails[moved]
        return means, mean_tails

    def _overlaps(self, vectors: Array) -> Array:
        """`overlaps` with those of further vectors."""
        across, among = np.abs(self.vectors @ vectors.T), np.abs(vectors @ vectors.T)
        return np.concatenate([self.overlaps + across.sum(axis=1), across.sum(axis=0) + among.sum(axis=1)])

    def keeps_digits(self, factor: Factor) -> bool:
        """Whether posteriors keep their digits, and a new factor would also have full rank.

        The inverse of I + V Vᵀ loses as many digits as the largest eigenvalue of I + V Vᵀ has. In the units
        of the last factor, the smallest eigenvalue of the correlation matrix has fallen by no more than the
        growth of the variances.
        """
        ratio, whitening = self.total / factor.total, factor.whitening
        largest = np.maximum(factor.largest, np.abs(self.means).max(axis=0, initial=0.0))
        farthest = np.sqrt(ratio * self.lengths[:-1].max()) + np.sqrt(ratio * max(self.lengths[-1], 0.0))
        return (
            bool(self.overlaps.max(initial=0.0) <= _MOST_GROWTH)
            and bool(farthest <= FAR)
            and whitening.is_certain(1 + float(self.growth.max()))
            and not constant_features(factor.variances / ratio, largest[None]).any()
        )


class UpdatedGaussians(SharedGaussians):
    """`SharedGaussians` of a state to which rows were added after its covariance was factorised.

    Scores of rows are computed from the last factor and the changes since then. Everything else is computed
    from the covariance, which is factorised when it is first needed. The scores differ from those of new
    densities by rounding alone.
    """

    def __init__(self, factor: Factor, change: Change) -> None:
        vars(self).update(factor=factor, change=change)

    factor: Factor
    change: Change
    has_class_blocks: ClassVar[bool] = False

    @cached_property
    def means(self) -> Array:
        """The means of the classes: (K, d)."""
        means = self.factor.gaussians.means.copy()
        means[self.change.classes] = self.change.means
        return means

    @cached_property
    def mean_tails(self) -> Array:
        """The low parts of the means: (K, d)."""
        mean_tails = self.factor.mean_tails.copy()
        mean_tails[self.change.classes] = self.change.mean_tails
        return mean_tails

    @cached_property
    def centre(self) -> Array:
        """The overall mean: (d,)."""
        return self.change.centre

    @cached_property
    def whitening(self) -> Whitening:
        """The whitening of the covariance with what was added to it."""
        last = self.factor.whitening
        grown = last.colorizer @ self.change.vectors.T
        covariance = (last.covariance + grown @ grown.T) * (self.factor.total / self.change.total)
        return Whitening.of(covariance, self.means, last.least_eigenvalue)

    @property
    def ranks(self) -> NDArray[np.int64]:
        """The rank of the covariance, which is full."""
        return np.full(len(self.change.lengths) - 1, len(self.centre))

    @property
    def singular_common(self) -> None:
        """None: the covariance is regular."""

    def discriminants(self, X: Array, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        """The discriminants of new densities, up to rounding."""
        factor, change = self.factor, self.change
        deviations = X - factor.gaussians.centre
        moved = multiply_rows(deviations, np.ascontiguousarray(change.slopes.T))
        along = multiply_rows(deviations, np.ascontiguousarray(change.column_slopes.T))
        corrections = multiply_rows(along, change.products)
        corrections += 0.5 * change.lengths
        order = order_of(len(change.lengths) - 1)
        scores = multiply_rows(deviations, factor.gaussians.slopes, order, out)
        scores[:, change.classes] = moved[:, :-1]
        scores -= corrections[:, :-1]
        scores -= (moved[:, -1] - corrections[:, -1])[:, None]
        scores *= change.total / factor.total
        scores += log_priors
        return scores

    def posterior_scores(self, X: Array, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        """The discriminants, which keep their digits as long as no class is far from the centre."""
        return self.discriminants(X, log_priors, out)


def most_columns(n_features: int) -> int:
    """The most columns before a new factor is computed. They cost only a fraction of its time."""
    return _FEWEST_COLUMNS + n_features // 8


def is_worth_following(n_features: int, n_classes: int, n_rows: int) -> bool:
    """Whether a change by so many rows may take less time than a new factor."""
    work = n_features**2 * (n_features + n_classes)
    return n_rows <= most_columns(n_features) and work >= _LEAST_WORK


def follow(gaussians: SharedGaussians, learnt: LearntRows) -> UpdatedGaussians | None:
    """The densities after some rows were learnt; None if a new factor is due."""
    if isinstance(gaussians, UpdatedGaussians):
        factor, change = gaussians.factor, gaussians.change
    elif isinstance(gaussians.whitening, TriangularWhitening):
        factor = Factor(gaussians, gaussians.whitening, learnt.total - float(learnt.weights.sum()))
        change = Change.none_since(factor)
    else:  # scores come from a spectrum
        return None
    if len(change.columns) + learnt.n_vectors > most_columns(len(gaussians.centre)):
        return None
    change = change.followed_by(learnt, factor)
    return UpdatedGaussians(factor, change) if change.keeps_digits(factor) else None


def _columns(vectors: Array, columns: Array) -> Array:
    """The rows that are added to Bᵀ when these vectors are added to Vᵀ."""
    rest = vectors - (vectors @ columns.T) @ columns
    root = np.linalg.cholesky(np.eye(len(vectors)) + vectors @ rest.T)
    added: Array = scipy.linalg.solve_triangular(root, rest, lower=True, check_finite=False)
    return added


def _squares(products: Array) -> Array:
    """The sum of the squares of each column."""
    squares: Array = np.einsum("ij,ij->j", products, products)
    return squares
