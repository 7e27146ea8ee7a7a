"""ROC and precision-recall curves from a histogram of log-odds, with bounds on the errors of their areas.

A histogram takes the same memory for any number of rows, and histograms can be added. Rows in the same bin
count as ties; the counts of the bins bound the error of the areas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_MANTISSA_BITS = 7  # of 1 + |log-odds|; with the exponent, they number the bin
_SHIFT = 52 - _MANTISSA_BITS
_OCTAVES = 20
_HALF = _OCTAVES << _MANTISSA_BITS  # bins on each side of zero
_FIRST = int(np.float64(1.0).view(np.int64)) >> _SHIFT

N_BINS = 2 * _HALF


def bins_of(log_odds: Array) -> NDArray[np.int64]:
    """The bins of log-odds z, numbered upwards from 0 to `N_BINS` − 1.

    The exponent and the first seven bits of the mantissa of 1 + |z| are the number of the bin, up to 2²⁰. So
    the bins are 1/128 wide at zero, and twice as wide with every octave of 1 + |z|. They resolve even odds,
    and odds whose probability is 0 or 1 in float64, to one per cent.
    """
    magnitude = ((np.abs(log_odds) + 1.0).view(np.int64) >> _SHIFT) - _FIRST
    np.minimum(magnitude, _HALF - 1, out=magnitude)
    return np.where(log_odds < 0, _HALF - 1 - magnitude, _HALF + magnitude)


def _lower_edges() -> Array:
    """The lower edges of all bins: (N_BINS,)."""
    number = np.arange(_HALF + 1)
    octave, step = number >> _MANTISSA_BITS, number & ((1 << _MANTISSA_BITS) - 1)
    magnitude = np.ldexp(1.0 + step / (1 << _MANTISSA_BITS), octave) - 1.0
    magnitude[-1] = np.inf  # the outermost bins have no outer edge
    return np.concatenate([-magnitude[:0:-1], magnitude[:-1]])


LOWER_EDGES = _lower_edges()


@dataclass(frozen=True)
class ScoreHistogram:
    """The weights of the rows of a class and of all other rows, by bins of the log-odds of the class.

    Attributes
    ----------
    negatives, positives : ndarray of shape (N_BINS,)
        The weights of the other rows, and of the rows of the class.
    """

    negatives: Array
    positives: Array

    def roc_curve(self) -> tuple[Array, Array, Array]:
        """False-positive rates, true-positive rates and thresholds, as in scikit-learn."""
        above_n, above_p, thresholds = self._cumulated()
        return _share(above_n), _share(above_p), thresholds

    def precision_recall_curve(self) -> tuple[Array, Array, Array]:
        """Precisions, recalls and thresholds in ascending order of thresholds, as in scikit-learn."""
        above_n, above_p, thresholds = (column[1:] for column in self._cumulated())
        precision = above_p / (above_p + above_n)
        return np.append(precision[::-1], 1.0), np.append(_share(above_p)[::-1], 0.0), thresholds[::-1]

    def _cumulated(self) -> tuple[Array, Array, Array]:
        """The weights at or above the lower edge of each bin that is not empty, in descending order."""
        used = np.flatnonzero(self.negatives + self.positives)[::-1]
        negatives, positives = (
            np.concatenate([[0.0], np.cumsum(column[used])]) for column in (self.negatives, self.positives)
        )
        return negatives, positives, np.concatenate([[np.inf], LOWER_EDGES[used]])

    def roc_auc(self) -> tuple[float, float]:
        """The area under the ROC curve, and a bound on its difference from the area for unbinned scores.

        Ties count half. In a bin with p positives and n negatives, the order of the scores decides whether
        p·n pairs count. So the error is at most half of Σ p·n, divided by the number of all pairs.
        """
        pairs = self.positives.sum() * self.negatives.sum()
        if not pairs:
            return np.nan, np.nan
        below = np.cumsum(self.negatives) - self.negatives
        tied = 0.5 * self.positives @ self.negatives
        return float((self.positives @ below + tied) / pairs), float(tied / pairs)

    def average_precision(self) -> tuple[float, float]:
        """Σ (increase of recall · precision) over the thresholds, and a bound on its error.

        A bin has n negatives and p positives, and N and P of them are above it. The precision of its
        positives is highest if they are tied above its negatives: (P + p) / (P + p + N). It is lowest if
        they come one by one below its negatives; then its sum is at least the integral of
        (P + x) / (P + x + N + n) over x from 0 to p.
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
    """Cumulated weights divided by the last; NaN if that is zero."""
    return cumulated / cumulated[-1] if cumulated[-1] else np.full_like(cumulated, np.nan)
