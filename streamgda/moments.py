"""The one numerical kernel: rows to moments, and moments merged or taken apart.

A block is centred by its own class means and then multiplied with itself (the two-pass algorithm;
no sum of squares is ever formed). Moments are merged pairwise by the formula of Chan, Golub &
LeVeque (1983, "Algorithms for computing the sample variance", eq. 2.1) in the weighted matrix form
of Schubert & Gertz (2018, "Numerically stable parallel computation of (co-)variance", eq. 22).

A mean is kept as the unevaluated sum of two float64 numbers, ``means + tails``. The difference of
two means, on which the merge rests, is then good to the last digit even where the mean is 10^12
times the deviation; and a mean does not stand still after 10^16 rows have gone into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks import Block, Column, Features
from streamgda.covariances import Array, Bounds, CovarianceKind
from streamgda.fourth_moments import FourthMoments

_ELEMENTS_PER_PAGE = 512
_ELEMENTS_PER_CACHE_LINE = 8
_TILE_ROWS = 256
_SHORT_CLASS = 32
_NEGLIGIBLE_TAIL = 1e-9


@dataclass
class Moments:
    """Weight, mean and scatter of each class; the mean is ``means + tails``.

    Fourth moments are kept where they are asked for; they go with a scatter matrix for each class.
    """

    kind: CovarianceKind
    weights: Array
    means: Array
    tails: Array
    scatter: Array
    fourth: FourthMoments | None = None

    @classmethod
    def zeros(cls, kind: CovarianceKind, n_classes: int, n_features: int, *, fourth: bool = False) -> Moments:
        """The moments of no rows."""
        shape = (n_classes, n_features)
        return cls(
            kind,
            np.zeros(n_classes),
            np.zeros(shape),
            np.zeros(shape),
            kind.zeros(*shape),
            FourthMoments.zeros(*shape) if fourth else None,
        )

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All that is held."""
        return (
            self.weights,
            self.means,
            self.tails,
            self.scatter,
            *(self.fourth.arrays if self.fourth else ()),
        )

    @property
    def diagonal(self) -> Array:
        """Each feature's own scatter: (K, d), or (1, d) where the classes share it."""
        return self.kind.diagonal(self.scatter)

    def copy(self) -> Moments:
        """Moments that share nothing with these."""
        return Moments(
            self.kind,
            self.weights.copy(),
            self.means.copy(),
            self.tails.copy(),
            self.scatter.copy(),
            self.fourth and self.fourth.copy(),
        )

    def take(self, classes: NDArray[np.intp]) -> Moments:
        """The moments of some classes."""
        return Moments(
            self.kind,
            self.weights[classes],
            self.means[classes],
            self.tails[classes],
            self.kind.take(self.scatter, classes),
            self.fourth and self.fourth.take(classes),
        )

    def put(self, classes: NDArray[np.intp], part: Moments) -> None:
        """Write the moments of some classes back."""
        self.weights[classes] = part.weights
        self.means[classes] = part.means
        self.tails[classes] = part.tails
        self.kind.put(self.scatter, classes, part.scatter)
        if self.fourth and part.fourth:
            self.fourth.put(classes, part.fourth)

    def weigh(self, factor: float) -> None:
        """Multiply every weight by a factor, in place."""
        self.weights *= factor
        self.scatter *= factor
        if self.fourth:
            self.fourth.weigh(factor)

    def are_finite(self) -> bool:
        """Whether no value was NaN or infinite and no power of it exceeded float64."""
        finite = all(bool(np.isfinite(array).all()) for array in (self.means, self.tails, self.diagonal))
        return finite and (self.fourth is None or self.fourth.are_finite())


class Workspace:
    """The feature-major buffer that blocks are gathered into, kept from one block to the next."""

    def __init__(self) -> None:
        self._buffer: Array = np.empty((0, 0))
        self._column: Array = np.empty(0)

    def rows(self, n_features: int, n_rows: int) -> Array:
        """Room for (n_features, n_rows).

        Long rows are a whole number of pages and one cache line apart: at a power of two, the same
        class of different features would fall on the same cache sets.
        """
        n_features_held, stride = self._buffer.shape
        if n_features_held != n_features or stride < n_rows:
            stride = n_rows
            if n_rows >= _ELEMENTS_PER_PAGE:
                pages = -(-n_rows // _ELEMENTS_PER_PAGE)
                stride = pages * _ELEMENTS_PER_PAGE + _ELEMENTS_PER_CACHE_LINE
            self._buffer = np.empty((n_features, stride))
        return self._buffer[:, :n_rows]

    def column(self, n_rows: int) -> Array:
        """Room for one feature."""
        if len(self._column) < n_rows:
            self._column = np.empty(n_rows)
        return self._column[:n_rows]


def reduce_block(
    block: Block, kind: CovarianceKind, workspace: Workspace, *, fourth: bool = False
) -> Moments:
    """The moments of the rows of a block, one row of each array for each of its classes."""
    order = np.argsort(block.codes, kind="stable")
    rows = workspace.rows(block.n_features, len(order))
    weights = np.ones(len(order)) if block.weights is None else block.weights[order]
    with np.errstate(over="ignore", invalid="ignore"):
        gather(block.features, order, rows, workspace)
        if len(order) == len(block.classes):
            return _moments_of_single_rows(rows, weights, kind, fourth=fourth)
        bounds = np.concatenate(([0], np.cumsum(np.bincount(block.codes))))
        totals = np.add.reduceat(weights, bounds[:-1])
        means, tails = _centre(rows, weights, totals, bounds, twice=fourth or block.weights is not None)
        if block.weights is not None:
            rows *= np.sqrt(weights)
        scatter = kind.products(rows, bounds)
        powers = FourthMoments.of_rows(rows, weights, bounds) if fourth else None
    return Moments(kind, totals, means, tails, scatter, powers)


def _moments_of_single_rows(rows: Array, weights: Array, kind: CovarianceKind, *, fourth: bool) -> Moments:
    """A row alone in its class is the mean, and there is no scatter; a stream is mostly such blocks."""
    moments = Moments.zeros(kind, len(weights), len(rows), fourth=fourth)
    moments.weights[:] = weights
    moments.means[:] = rows.T
    return moments


def gather(features: Features, order: NDArray[np.intp], rows: Array, workspace: Workspace) -> None:
    """Copy the features, class by class, as float64 into the feature-major buffer."""
    if not isinstance(features, np.ndarray):
        _gather_columns(features, order, rows, workspace)
    elif features.strides[0] < features.strides[1]:
        _gather_columns(list(features.T), order, rows, workspace)
    else:
        _gather_row_major(features, order, rows)


def _gather_columns(
    columns: Sequence[Column], order: NDArray[np.intp], rows: Array, workspace: Workspace
) -> None:
    column = workspace.column(len(columns[0]))  # of which `order` may take a part
    for source, row in zip(columns, rows, strict=True):
        # The copy converts, and it brings the column into the cache in one straight run: the
        # gather jumps, and would wait for memory at every jump.
        np.copyto(column, source, casting="unsafe")
        column.take(order, out=row, mode="wrap")


def _gather_row_major(features: NDArray[np.generic], order: NDArray[np.intp], rows: Array) -> None:
    for start in range(0, len(order), _TILE_ROWS):
        tile = order[start : start + _TILE_ROWS]
        rows[:, start : start + len(tile)] = features.take(tile, axis=0, mode="wrap").T


def _centre(
    rows: Array, weights: Array, totals: Array, bounds: Bounds, *, twice: bool
) -> tuple[Array, Array]:
    """Subtract from each class its mean, in place; return the means and what rounding left of them.

    What is left is subtracted too where it could tell: for fourth moments, with weights, where a heavy row
    may hide it, or where it is not far below the deviation of a row, as in a constant feature or at a huge
    offset. (With equal weights, what is neglected of n rows is below n × 10⁻¹⁸ of the scatter.)
    """
    if len(weights) < _SHORT_CLASS * len(totals):
        return _centre_short(rows, weights, totals, bounds)
    means = np.empty((len(totals), len(rows)))
    tails = np.empty_like(means)
    for k, total in enumerate(totals):
        of_class = slice(bounds[k], bounds[k + 1])
        centred, weight = rows[:, of_class], weights[of_class]
        means[k] = centred @ weight / total
        centred -= means[k][:, None]
        tails[k] = centred @ weight / total
        if twice or (np.abs(tails[k]) > _NEGLIGIBLE_TAIL * np.abs(centred[:, 0])).any():
            centred -= tails[k][:, None]
    return means, tails


def _centre_short(rows: Array, weights: Array, totals: Array, bounds: Bounds) -> tuple[Array, Array]:
    """The same for classes of few rows, where a call for each class would cost more than its rows."""
    counts = np.diff(bounds)

    def mean() -> Array:
        return np.add.reduceat(rows * weights, bounds[:-1], axis=1) / totals

    means = mean()
    rows -= np.repeat(means, counts, axis=1)
    tails = mean()
    rows -= np.repeat(tails, counts, axis=1)
    return means.T, tails.T


def merge(ours: Moments, theirs: Moments) -> Moments:
    """The moments of both sets of rows, for the same classes in the same order.

    The same bits whichever of the two comes first.
    """
    weights = ours.weights + theirs.weights
    our_share = (ours.weights / weights)[:, None]
    their_share = (theirs.weights / weights)[:, None]
    anchor = _heavier_mean(ours, theirs)
    shift = our_share * ((ours.means - anchor) + ours.tails)
    shift += their_share * ((theirs.means - anchor) + theirs.tails)
    means, tails = _two_sum(anchor, shift)
    gap = (theirs.means - ours.means) + (theirs.tails - ours.tails)
    spread = gap * np.sqrt(our_share * their_share * weights[:, None])
    scatter = ours.scatter + theirs.scatter
    scatter += ours.kind.outer(spread)
    fourth = None
    if ours.fourth and theirs.fourth:
        fourth = ours.fourth.about(-their_share * gap, ours.weights, ours.scatter)
        fourth += theirs.fourth.about(our_share * gap, theirs.weights, theirs.scatter)
    return Moments(ours.kind, weights, means, tails, scatter, fourth)


def _heavier_mean(ours: Moments, theirs: Moments) -> Array:
    """The mean that moves less, chosen without regard to the order of the two."""
    heavier = np.where((ours.weights > theirs.weights)[:, None], ours.means, theirs.means)
    tie = (ours.weights == theirs.weights)[:, None]
    return np.where(tie, np.maximum(ours.means, theirs.means), heavier)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and, exactly, what rounding left (Knuth, TAOCP 2, 4.2.2, theorem B)."""
    total = a + b
    b_seen = total - a
    return total, (a - (total - b_seen)) + (b - b_seen)


def split_off(whole: Moments, part: Moments) -> Moments:
    """The moments of the rows that are in the whole but not in the part: the merge, solved for one side.

    Every class must keep some weight. A scatter may come out slightly negative on its diagonal.
    """
    weights = whole.weights - part.weights
    gap = (part.means - whole.means) + (part.tails - whole.tails)
    retreat = gap * (part.weights / weights)[:, None]
    means, tails = _two_sum(whole.means, whole.tails - retreat)
    spread = gap * np.sqrt(part.weights * (whole.weights / weights))[:, None]
    scatter = whole.scatter - part.scatter
    scatter -= whole.kind.outer(spread)
    fourth = None
    if whole.fourth and part.fourth:
        fourth = whole.fourth.about(retreat, whole.weights, whole.scatter)
        fourth -= part.fourth.about(gap + retreat, part.weights, part.scatter)
    return Moments(whole.kind, weights, means, tails, scatter, fourth)


def between_classes(held: Moments) -> tuple[Array, Array]:
    """The mean of all classes together, and the scatter of the class means about it, by feature."""
    anchor = held.means[0]
    offsets = (held.means - anchor) + held.tails
    shift = held.weights / held.weights.sum() @ offsets
    return anchor + shift, held.weights @ (offsets - shift) ** 2


def close(a: Moments, b: Moments, rtol: float) -> bool:
    """Whether they agree to `rtol`, judged on the scale of each feature."""
    spread = np.sqrt(a.diagonal)
    size = np.abs(a.means) + spread / np.sqrt(a.weights)[:, None]
    gap = (b.means - a.means) + (b.tails - a.tails)
    return bool(
        (np.abs(b.weights - a.weights) <= rtol * a.weights).all()
        and (np.abs(gap) <= rtol * size).all()
        and (np.abs(b.scatter - a.scatter) <= rtol * a.kind.outer(spread)).all()
        and (not (a.fourth and b.fourth) or a.fourth.close(b.fourth, a.diagonal, rtol))
    )
