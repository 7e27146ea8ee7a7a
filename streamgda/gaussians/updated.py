"""One covariance for all classes, brought up to date as rows are learnt, without a new factor.

Rows that are learnt change the scatter W within the classes by a matrix of low rank. In coordinates in which
it was the identity before, it is then I + V Vᵀ. The inverse is I − B Bᵀ, and each further batch adds columns
to B (Sherman & Morrison 1950; Woodbury 1950). So scores cost two narrow products more than those of
`SharedGaussians`. After some columns, or after a change that would cost digits, a new factor is due.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg.blas import dtrmm

from streamgda.gaussians.posteriors import order_of
from streamgda.gaussians.products import multiply_rows
from streamgda.gaussians.shared import FAR, SharedGaussians
from streamgda.gaussians.whitening import Array, TriangularWhitening, Whitening, constant_features

Positions = NDArray[np.intp]

_MOST_GROWTH = 16.0  # of the scatter in any direction; of 16 digits it costs 1.2
_FEWEST_COLUMNS = 16
_LEAST_WORK = 1_500_000  # multiplications of a new factor; with fewer it takes less time than a change


@dataclass(frozen=True)
class LearntRows:
    """Rows that were learnt, and what has become of their classes.

    Attributes
    ----------
    rows, weights, codes : ndarray of shape (n, d), (n,) and (n,)
        The rows, their weights, and the positions of their classes in `classes`.
    classes, means, low_parts, class_weights : ndarray of shape (c,), (c, d), (c, d) and (c,)
        The positions of these classes among all, their means, the low parts of these, and their
        weights, with the rows.
    total : float
        The weight of all classes, with the rows.
    centre : ndarray of shape (d,)
        The overall mean, with the rows.
    """

    rows: Array
    weights: Array
    codes: Positions
    classes: Positions
    means: Array
    low_parts: Array
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
        """By how many vectors the rows change the scatter: one of each class, and one of each such row."""
        return len(self.classes) + int(self.has_others.sum())


@dataclass(frozen=True)
class Factor:
    """The last factor: the densities that were computed from it, and the weight of their classes."""

    gaussians: SharedGaussians
    whitening: TriangularWhitening
    total: float

    @property
    def means(self) -> Array:
        """The whitened means of the classes: (K, d)."""
        return self.gaussians.whitened_means

    @cached_property
    def largest(self) -> Array:
        """The largest absolute mean of each feature: (d,)."""
        means = self.gaussians.means
        largest: Array = np.maximum(means.max(axis=0), -means.min(axis=0))
        return largest

    @cached_property
    def low_parts(self) -> Array:
        """The low parts of the means of the classes; zeros if they are not known: (K, d)."""
        low_parts = self.gaussians.low_parts
        return np.zeros_like(self.gaussians.means) if low_parts is None else low_parts

    @cached_property
    def variances(self) -> Array:
        """The variance of each feature: (d,)."""
        return np.diag(self.whitening.covariance)

    def whiten(self, vectors: Array, learnt: LearntRows) -> Array:
        """Whiten vectors (n, d), and deviations of class means and centre from the centre of the factor."""
        deviations = np.concatenate([vectors, learnt.means, learnt.centre[None]])
        deviations[len(vectors) :] -= self.gaussians.centre
        deviations[len(vectors) : -1] += learnt.low_parts
        product: Array = dtrmm(1.0, self.whitening.triangle, deviations.T, lower=True, overwrite_b=True).T
        return product


@dataclass(frozen=True)
class Change:
    """What has changed since the last factor, in its coordinates.

    Attributes
    ----------
    total : float
        The weight of all classes.
    centre : ndarray of shape (d,)
        The overall mean.
    classes, means, low_parts : ndarray of shape (c,), (c, d) and (c, d)
        The classes whose means have moved, and where to.
    whitened : ndarray of shape (c + 1, d)
        These means and the centre, whitened.
    slopes : ndarray of shape (c + 1, d)
        The same, times the whitening: a deviation of a row times a slope is the product of the two whitened.
    vectors : ndarray of shape (m, d)
        The rows of Vᵀ.
    overlaps : ndarray of shape (m,)
        The sums of the absolute products of each with all of them. The largest is a bound of the
        eigenvalues of V Vᵀ.
    growth : ndarray of shape (d,)
        What learning has added to the variance of each feature, in units of its last variance.
    columns, column_slopes : ndarray of shape (m, d)
        The rows of Bᵀ, and their slopes.
    products : ndarray of shape (m, K + 1)
        Bᵀ times all means and the centre, whitened.
    lengths : ndarray of shape (K + 1,)
        Their squared lengths by I − B Bᵀ.
    """

    total: float
    centre: Array
    classes: Positions
    means: Array
    low_parts: Array
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
            low_parts=none,
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
        new = added @ factor.means.T
        new[:, self.classes[others]] = added @ still.T
        products, lengths = self._products(new, np.append(learnt.classes, -1), columns, moved)
        return Change(
            total=learnt.total,
            centre=learnt.centre,
            classes=np.concatenate([self.classes[others], learnt.classes]),
            means=np.concatenate([self.means[others], learnt.means]),
            low_parts=np.concatenate([self.low_parts[others], learnt.low_parts]),
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
        """The products and lengths with columns added, whose products with all means are new.

        The whitened means at some places, the centre among them, have moved.
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

        They are the deviations within the batch, and those of its class means from the earlier ones.
        """
        weights, codes = learnt.weights, learnt.codes
        means, low_parts = self._means(learnt.classes, factor)
        vectors = (learnt.rows - means[codes]) - low_parts[codes]
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
        means, low_parts = factor.gaussians.means[classes], factor.low_parts[classes]
        moved, places = np.nonzero(self.classes[:, None] == classes)
        means[places], low_parts[places] = self.means[moved], self.low_parts[moved]
        return means, low_parts

    def _overlaps(self, vectors: Array) -> Array:
        """`overlaps` with those of further vectors."""
        across, among = np.abs(self.vectors @ vectors.T), np.abs(vectors @ vectors.T)
        return np.concatenate([self.overlaps + across.sum(axis=1), across.sum(axis=0) + among.sum(axis=1)])

    def keeps_digits(self, factor: Factor) -> bool:
        """Whether posteriors keep their digits, and a new factor would have full rank too.

        The inverse of I + V Vᵀ loses as many digits as its largest eigenvalue has. In the units of the last
        factor the smallest eigenvalue of the correlation matrix has not fallen by more than the growth of
        the variances.
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

    Scores of rows are computed by the last factor and what has changed since. All else is computed from the
    covariance, which is factorised when it is first needed. The scores differ from those of new densities by
    rounding alone.
    """

    def __init__(self, factor: Factor, change: Change) -> None:
        vars(self).update(factor=factor, change=change)

    factor: Factor
    change: Change

    @cached_property
    def means(self) -> Array:
        """The means of the classes: (K, d)."""
        means = self.factor.gaussians.means.copy()
        means[self.change.classes] = self.change.means
        return means

    @cached_property
    def low_parts(self) -> Array:
        """The low parts of the means: (K, d)."""
        low_parts = self.factor.low_parts.copy()
        low_parts[self.change.classes] = self.change.low_parts
        return low_parts

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
        """As those of new densities."""
        factor, change = self.factor, self.change
        deviations = X - factor.gaussians.centre
        moved = multiply_rows(deviations, self._moved_slopes)
        corrections = multiply_rows(multiply_rows(deviations, self._column_slopes), change.products)
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

    @cached_property
    def _moved_slopes(self) -> Array:
        return np.ascontiguousarray(self.change.slopes.T)

    @cached_property
    def _column_slopes(self) -> Array:
        return np.ascontiguousarray(self.change.column_slopes.T)


def most_columns(n_features: int) -> int:
    """After how many columns a new factor is due: they then cost no more than a fraction of it."""
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
    else:  # scores need a spectrum
        return None
    if len(change.columns) + learnt.n_vectors > most_columns(len(gaussians.centre)):
        return None
    change = change.followed_by(learnt, factor)
    return UpdatedGaussians(factor, change) if change.keeps_digits(factor) else None


def _columns(vectors: Array, columns: Array) -> Array:
    """The rows of Bᵀ that are added with those of Vᵀ."""
    rest = vectors - (vectors @ columns.T) @ columns
    root = np.linalg.cholesky(np.eye(len(vectors)) + vectors @ rest.T)
    added: Array = scipy.linalg.solve_triangular(root, rest, lower=True, check_finite=False)
    return added


def _squares(products: Array) -> Array:
    """The sum of the squares of each column."""
    squares: Array = np.einsum("ij,ij->j", products, products)
    return squares
