"""ROC and precision-recall curves from the log-odds of rows, with bounds on the errors of their areas.

As long as there are few different log-odds, they are kept, and curves and areas are exact, up to the order of
log-odds that differ by rounding alone. If there are many, they are counted in bins, which take the same
memory for any number of rows. The limit depends on the number of classes. Rows in the same bin then count as
ties, and the weights in the bins bound the error of the areas. In both cases, the sums of two parts can be
added, and do not depend on how rows are cut into parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.statistics.kernels import count_odds

Array = NDArray[np.float64]

_MANTISSA_BITS = 9
_OCTAVES = 10  # of 1 + the logarithm, which is at most 1024
_HALF = _OCTAVES << _MANTISSA_BITS  # bins on each side of zero

_N_ENDINGS = 1 << 20  # of the last bits of numbers, so many that two seldom end alike

_TIE = 1e-12  # relative to 1 + |z|: rounding decides the order of log-odds that are closer

N_BINS = 2 * _HALF

# Three numbers for each log-odds then take no more memory than two for each bin.
_AS_BINS = 2 * N_BINS // 3
_MOST_OF_CLASS, _MOST_OF_ALL = 1 << 15, 1 << 18  # more of a class would take longer than bins


def most_exact(n_classes: int) -> int:
    """How many different log-odds of a class are kept: at most 6 MB of all classes, or as much as bins take.

    It does not grow with the number of classes. So the order in which classes come does not matter.
    """
    return max(min(_MOST_OF_CLASS, _MOST_OF_ALL // n_classes), _AS_BINS)


def _add_to_bins(table: Array, odds: Array, are_members: NDArray[Any], weight: Array) -> None:
    """Add rows to bins of log-odds z, numbered upwards from 0 to `N_BINS` − 1: (2, N_BINS).

    The exponent and the first nine bits of the mantissa of 1 + log₂(1 + |z|) are the number of the bin, where
    the logarithm is linear between powers of two. So the bins are 1/512 wide at zero, a sixty-fourth of z for
    z near 100, and cover all of float64.
    """
    count_odds(odds, are_members, weight, _MANTISSA_BITS, table)


def _lower_edges() -> Array:
    """The lower edges of all bins: (N_BINS,)."""
    magnitude = _unbits(_unbits(np.arange(_HALF) / 2.0**_MANTISSA_BITS) - 1.0) - 1.0
    return np.concatenate([[-np.inf], -magnitude[:0:-1], magnitude])


def _unbits(logarithm: Array) -> Array:
    """The numbers of which these are the logarithms."""
    octave = np.floor(logarithm)
    return np.ldexp(1.0 + (logarithm - octave), octave.astype(np.int64))


LOWER_EDGES = _lower_edges()


_NONE = np.empty(0)

_Waiting = tuple[tuple[Array, NDArray[Any], Array], ...]
_Rows = tuple[Array | None, Array, _Waiting]
"""The log-odds, their weights, and rows that wait: log-odds, whether they are of the class, and weights."""


def _are_more(odds: Array, most: int) -> bool:
    """Whether there are more different numbers than so many."""
    endings = (odds + 0.0).view(np.int64) % _N_ENDINGS  # which differ only where the numbers do
    have_come = np.zeros(_N_ENDINGS, bool)
    have_come[endings] = True
    if np.count_nonzero(have_come) > most:  # a sixth of the time of sorting
        return True
    ascending = np.sort(odds)
    return bool(np.count_nonzero(ascending[1:] != ascending[:-1]) >= most)


class ScoreHistogram:
    """The weights (2, n) of the rows of a class and of all other rows, by the log-odds of the class."""

    def __init__(
        self, most_exact: int = _AS_BINS, odds: Array | None = _NONE, weights: Array | None = None
    ) -> None:
        # Rows wait until they are as many as may be kept, and are sorted then, or when they are asked for.
        # All is replaced at once, since threads may ask at the same time.
        self._all: _Rows = odds, np.zeros((2, 0)) if weights is None else weights, ()
        self._most_exact = most_exact

    @property
    def odds(self) -> Array | None:
        """The log-odds that occur, ascending; None if they are counted in bins."""
        return self._sorted()[0]

    @property
    def weights(self) -> Array:
        """The weights of the other rows, and of the rows of the class."""
        return self._sorted()[1]

    @property
    def thresholds(self) -> Array:
        """The log-odds that occur, or the lower edges of the bins."""
        return LOWER_EDGES if self.odds is None else self.odds

    def add(self, odds: Array, is_member: NDArray[Any], weight: Array) -> Self:
        """Add rows, given by their log-odds and whether they are of the class."""
        known, weights, waiting = self._all
        if known is None:
            _add_to_bins(weights, odds, is_member, weight)
            return self
        self._all = known, weights, (*waiting, (odds, is_member, weight))
        if sum(len(rows[0]) for rows in self._all[2]) > self._most_exact:
            self._sorted()
        return self

    def _sorted(self) -> _Rows:
        """The log-odds and their weights, when no row waits; bins if there would be too many log-odds."""
        known, weights, waiting = self._all
        if not waiting and (known is None or len(known) <= self._most_exact):
            return self._all
        assert known is not None
        before = ((known, np.full(len(known), side), weights[side]) for side in (0, 1))
        odds, are_members, added = map(np.concatenate, zip(*before, *waiting, strict=True))
        are_exact = len(odds) <= self._most_exact or not _are_more(odds, self._most_exact)
        if are_exact:
            known, places = np.unique(odds, return_inverse=True)
            total = np.zeros((2, len(known)))
            np.add.at(total, (are_members, places), added)
        else:
            total = np.zeros((2, N_BINS))
            _add_to_bins(total, odds, are_members, added)
        self._all = known if are_exact else None, total, ()
        return self._all

    def limit(self, most_exact: int) -> None:
        """Keep at most so many different log-odds from now on."""
        self._most_exact = most_exact
        self._sorted()

    def scale(self, factor: float) -> None:
        """Multiply all weights."""
        odds, weights, _ = self._sorted()
        self._all = odds, weights * factor, ()

    def merge(self, other: ScoreHistogram) -> Self:
        """Add the rows of another histogram, which is not changed."""
        odds, weights, _ = other._sorted()
        if odds is None:
            most, self._most_exact = self._most_exact, -1
            self._sorted()
            self._most_exact = most
            self._all[1][:] += weights
            return self
        for is_member, side in enumerate(weights):
            self.add(odds, np.full(len(odds), bool(is_member)), side)
        return self

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ScoreHistogram)
            and np.array_equal(self.thresholds, other.thresholds)
            and np.array_equal(self.weights, other.weights)
        )

    def roc_curve(self) -> tuple[Array, Array, Array]:
        """False-positive rates, true-positive rates and thresholds, as in scikit-learn."""
        above_n, above_p, thresholds = self._cumulative_weights()
        return _share(above_n), _share(above_p), thresholds

    def precision_recall_curve(self) -> tuple[Array, Array, Array]:
        """Precisions, recalls and thresholds in ascending order of thresholds, as in scikit-learn."""
        above_n, above_p, thresholds = (column[1:] for column in self._cumulative_weights())
        precision = above_p / (above_p + above_n)
        return np.append(precision[::-1], 1.0), np.append(_share(above_p)[::-1], 0.0), thresholds[::-1]

    def _cumulative_weights(self) -> tuple[Array, Array, Array]:
        """The weights of both kinds of rows at or above each log-odds, and these log-odds, descending."""
        bins = np.flatnonzero(self.weights.sum(axis=0))[::-1]
        negatives, positives = (np.concatenate([[0.0], np.cumsum(side[bins])]) for side in self.weights)
        return negatives, positives, np.concatenate([[np.inf], self.thresholds[bins]])

    def roc_auc(self) -> tuple[float, float]:
        """The area under the ROC curve, and a bound on its difference from the area for unbinned scores.

        Ties count half. In a bin with p positives and n negatives, the order of the scores decides whether
        p·n pairs count. So the error is at most half of Σ p·n, divided by the number of all pairs. The same
        holds of log-odds that differ by no more than rounding.
        """
        negatives, positives = self.weights
        pairs = positives.sum() * negatives.sum()
        if not pairs:
            return np.nan, np.nan
        below = np.cumsum(negatives) - negatives
        half_ties = 0.5 * positives @ negatives
        area = (positives @ below + half_ties) / pairs
        if self.odds is None:
            return float(area), float(half_ties / pairs)
        error = 0.0
        for run in self._runs():
            n, p = self.weights[:, run]
            within, most = p @ (np.cumsum(n) - n) + 0.5 * p @ n, p.sum() * n.sum()
            error += max(within, most - within)
        return float(area), float(error / pairs)

    def _runs(self) -> Iterator[slice]:
        """The places of the log-odds whose order rounding decides."""
        assert self.odds is not None
        finite = self.odds[np.isfinite(self.odds)]
        first = np.searchsorted(self.odds, -np.inf, side="right")
        is_close = np.diff(finite) <= _TIE * (1 + np.abs(finite[1:]))
        edges = np.flatnonzero(np.diff(is_close, prepend=False, append=False)).reshape(-1, 2) + first
        for start, stop in edges.tolist():
            yield slice(start, stop + 1)

    def average_precision(self) -> tuple[float, float]:
        """Σ (increase of recall · precision) over the thresholds, and a bound on its error.

        A bin has n negatives and p positives, and N and P of them are above it. The precision of its
        positives is highest if they are tied above its negatives: (P + p) / (P + p + N). It is lowest if
        they come one by one below its negatives; then its sum is at least the integral of
        (P + x) / (P + x + N + n) over x from 0 to p.
        """
        total = self.weights[1].sum()
        if not total:
            return np.nan, np.nan
        bins = np.flatnonzero(self.weights[1])
        above_n, above_p = self.weights[:, ::-1].cumsum(axis=1)[:, ::-1][:, bins]
        n, p = self.weights[:, bins]
        middle = p @ (above_p / (above_p + above_n))
        if self.odds is None:
            lowest, highest = _precise(above_n, above_p, n, p)
            return float(middle / total), float(max(highest - middle, middle - lowest) / total)
        error = 0.0
        for run in self._runs():
            above_n, above_p = self.weights[:, run.start :].sum(axis=1, keepdims=True)
            n, p = self.weights[:, run].sum(axis=1, keepdims=True)
            if p[0]:
                lowest, highest = _precise(above_n, above_p, n, p)
                error += highest - lowest
        return float(middle / total), float(error / total)


def _precise(above_n: Array, above_p: Array, n: Array, p: Array) -> tuple[float, float]:
    """The lowest and the highest sum of the precisions of p positives in bins with n negatives."""
    highest = p @ (above_p / (above_p + (above_n - n)))
    gain = np.divide(p, above_p - p + above_n, out=np.zeros_like(p), where=above_n > 0)
    lowest = (p - above_n * np.log1p(gain)).sum()
    return float(lowest), float(highest)


def _share(sums: Array) -> Array:
    """Cumulated weights divided by the last; NaN if that is zero."""
    return sums / sums[-1] if sums[-1] else np.full_like(sums, np.nan)
