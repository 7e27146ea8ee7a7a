"""ROC and precision-recall curves from a histogram of log-odds, with the error that their areas may have.

A histogram takes the same memory for any number of rows, and histograms add up. Rows that fall into one bin
count as ties; what the areas would be if their order were known is bounded by the counts of the bin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_MANTISSA_BITS = 7

_SHIFT = 52 - _MANTISSA_BITS

_OCTAVES = 20

_HALF = _OCTAVES << _MANTISSA_BITS

_FIRST = int(np.float64(1.0).view(np.int64)) >> _SHIFT

N_BINS = 2 * _HALF


def bins_of(log_odds: Array) -> NDArray[np.int64]:
    """The bins of log-odds z, numbered upwards from 0 to `N_BINS` − 1.

    The bins are as wide as 1/128 around zero and double with every octave of 1 + |z|, up to 2²⁰: the first
    seven digits of its mantissa, and its exponent, are the number of the bin. So odds near even and
    odds that no probability in float64 could tell from certainty are both resolved to one per cent.
    """
    magnitude = ((np.abs(log_odds) + 1.0).view(np.int64) >> _SHIFT) - _FIRST
    np.minimum(magnitude, _HALF - 1, out=magnitude)
    return np.where(log_odds < 0, _HALF - 1 - magnitude, _HALF + magnitude)


def _lower_edges() -> Array:
    number = np.arange(_HALF + 1)
    octave, step = number >> _MANTISSA_BITS, number & ((1 << _MANTISSA_BITS) - 1)
    magnitude = np.ldexp(1.0 + step / (1 << _MANTISSA_BITS), octave) - 1.0
    magnitude[-1] = np.inf  # the last bins take in all that lies beyond
    return np.concatenate([-magnitude[:0:-1], magnitude[:-1]])


LOWER_EDGES = _lower_edges()


@dataclass(frozen=True)
class ScoreHistogram:
    """The weight of the rows that are of a class, and of those that are not, by the log-odds of the class.

    Attributes
    ----------
    negatives, positives : ndarray of shape (N_BINS,)
        Weights.
    """

    negatives: Array
    positives: Array

    def roc_curve(self) -> tuple[Array, Array, Array]:
        """False-positive rates, true-positive rates and thresholds, as scikit-learn has them."""
        above_n, above_p, thresholds = self._cumulated()
        return _share(above_n), _share(above_p), thresholds

    def precision_recall_curve(self) -> tuple[Array, Array, Array]:
        """Precisions, recalls and thresholds, as scikit-learn has them: from the lowest threshold up."""
        above_n, above_p, thresholds = (column[1:] for column in self._cumulated())
        precision = above_p / (above_p + above_n)
        return np.append(precision[::-1], 1.0), np.append(_share(above_p)[::-1], 0.0), thresholds[::-1]

    def _cumulated(self) -> tuple[Array, Array, Array]:
        """The weights at or above the lower edge of each bin that is not empty, from the highest down."""
        used = np.flatnonzero(self.negatives + self.positives)[::-1]
        negatives, positives = (
            np.concatenate([[0.0], np.cumsum(column[used])]) for column in (self.negatives, self.positives)
        )
        return negatives, positives, np.concatenate([[np.inf], LOWER_EDGES[used]])

    def roc_auc(self) -> tuple[float, float]:
        """The area under the ROC curve, and how far that of the scores themselves may be from it.

        Ties count half. Within a bin with p positives and n negatives, the order of the scores decides
        whether p·n pairs count or not; so the error is at most half of Σ p·n over the number of all pairs.
        """
        pairs = self.positives.sum() * self.negatives.sum()
        if not pairs:
            return np.nan, np.nan
        below = np.cumsum(self.negatives) - self.negatives
        tied = 0.5 * self.positives @ self.negatives
        return float((self.positives @ below + tied) / pairs), float(tied / pairs)

    def average_precision(self) -> tuple[float, float]:
        """Σ (recall gained · precision) from threshold to threshold, and how far off it may be.

        With N negatives and P positives above a bin of n and p, the precision where its positives enter is
        highest if they are a tie above its negatives, (P + p) / (P + p + N), and lowest if they come one by
        one below them: at least the integral of (P + x) / (P + x + N + n) over x from 0 to p.
        """
        total = self.positives.sum()
        if not total:
            return np.nan, np.nan
        used = np.flatnonzero(self.positives)
        above_n, above_p = (np.cumsum(side[::-1])[::-1][used] for side in (self.negatives, self.positives))
        n, p = self.negatives[used], self.positives[used]
        tied = p @ (above_p / (above_p + above_n))
        highest = p @ (above_p / (above_p + (above_n - n)))
        gain = np.divide(p, above_p - p + above_n, out=np.zeros_like(p), where=above_n > 0)
        lowest = (p - above_n * np.log1p(gain)).sum()
        return float(tied / total), float(max(highest - tied, tied - lowest) / total)


def _share(cumulated: Array) -> Array:
    """Cumulated weights as a share of the last; NaN where that is zero."""
    return cumulated / cumulated[-1] if cumulated[-1] else np.full_like(cumulated, np.nan)
