"""Centres of subclasses, drawn by k-means from a sample of the rows of each class."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from streamgda.blocks.wording import listed
from streamgda.statistics.base import Statistics
from streamgda.statistics.components import pooled_covariance
from streamgda.statistics.covariances import Array, CovarianceType
from streamgda.statistics.sampled import Sample, SampledStatistics
from streamgda.statistics.subclasses import SubclassCenters, axes_of, rounded

_ROWS_OF_SUBCLASS = (
    20  # of a class for each of its subclasses; with fewer, their means and covariances are noise
)
_STARTS = 4  # of k-means, of which the best is taken


def within_covariance(statistics: Statistics, covariance_type: CovarianceType) -> Array:
    """The covariance within the classes by which distances from centres are measured: (d, d), or (d,).

    If there are too few rows to determine it, or the type is "diag", the variances within the classes.
    It is rounded, so that it does not depend on the order in which rows were added up.
    """
    statistics = statistics.completed()
    weights = statistics.weights
    if statistics.covariance_type == "diag":
        return rounded(statistics.scatter.sum(axis=0) / weights.sum())
    covariance = pooled_covariance(statistics)
    if covariance_type == "diag" or weights.sum() - len(weights) < len(covariance):
        return rounded(covariance.diagonal())
    return rounded(covariance)


@dataclass(frozen=True)
class Drawing:
    """How centres are drawn from a sample.

    Attributes
    ----------
    n_subclasses : int or dict
        The number of subclasses of each class; by label, those not named have one. A class gets fewer if it
        has fewer than twenty rows for each.
    rows_per_class : int
        How many rows of the sample of a class are used.
    covariance_type : {"full", "tied", "diag"}
        That of the model.
    seed : int
        That of k-means.
    """

    n_subclasses: int | Mapping[Any, int]
    rows_per_class: int
    covariance_type: CovarianceType
    seed: int

    def of_all(self, sampled: SampledStatistics) -> SubclassCenters:
        """Centres for all classes.

        Raises
        ------
        ValueError
            If `n_subclasses` names a class that has no rows.
        """
        classes = sampled.statistics.class_labels.tolist()
        for label in self.n_subclasses if isinstance(self.n_subclasses, Mapping) else ():
            if label not in classes:
                raise ValueError(
                    f"n_subclasses names {label!r}, which is none of the classes: {listed(classes)}"
                )
        covariance = within_covariance(sampled.statistics, self.covariance_type)
        return SubclassCenters(self._centers(sampled, covariance, classes), covariance)

    def of_more(self, sampled: SampledStatistics, held: Statistics | None) -> SubclassCenters:
        """The centres of a state, and of other classes of which a batch has rows enough.

        Before a class has centres, no covariance is known.
        """
        counts = zip(
            sampled.statistics.class_labels.tolist(), sampled.statistics.counts.tolist(), strict=True
        )
        known = None if held is None else held.subclass_centers
        new = [label for label, n in counts if n >= self.rows_per_class and label not in (known or ())]
        if known:
            covariance = known.covariance
        elif new:
            covariance = within_covariance(sampled.statistics, self.covariance_type)
        else:
            covariance = np.zeros(sampled.statistics.n_features)
        drawn = self._centers(sampled, covariance, new)
        for label in drawn.keys() & set([] if held is None else held.class_labels.tolist()):
            drawn[label] = np.vstack([np.full(len(covariance), np.nan), drawn[label]])
        return SubclassCenters({**(known or {}), **drawn}, covariance)

    def _centers(
        self, sampled: SampledStatistics, covariance: Array, labels: Iterable[Any]
    ) -> dict[Any, Array]:
        """The centres of some classes."""
        statistics, centers, wanted = sampled.statistics, {}, self.n_subclasses
        counts = dict(zip(statistics.classes.tolist(), statistics.counts.tolist(), strict=True))
        axes = axes_of(covariance, statistics.means)
        for label in labels:
            if label not in sampled.samples:  # which has complete rows alone
                continue
            sample = sampled.samples[label].first(self.rows_per_class)
            sample = sample._replace(weights=rounded(sample.weights))  # sums of fractions depend on the order
            n_centers = int(wanted.get(label, 1) if isinstance(wanted, Mapping) else wanted)
            n_centers = max(1, min(n_centers, counts[label] // _ROWS_OF_SUBCLASS, len(sample.keys)))
            centers[label] = _centers_of(sample, axes, n_centers, self.seed)
        return centers


def _centers_of(sample: Sample, axes: Array, n_centers: int, seed: int) -> Array:
    """The weighted means of the clusters of a sample; clusters without rows are left out: (R, d)."""
    codes = np.zeros(len(sample.keys), dtype=np.intp)
    if n_centers > 1:
        middle = np.average(sample.rows, axis=0, weights=sample.weights)
        means = KMeans(n_centers, n_init=_STARTS, random_state=seed)
        with warnings.catch_warnings():  # rows that differ may coincide in whitened coordinates
            warnings.simplefilter("ignore", ConvergenceWarning)
            rows = sample.rows - middle
            rows = rows * axes if axes.ndim == 1 else rows @ axes
            codes = means.fit(rows, sample_weight=sample.weights).labels_
    return np.array(
        [
            np.average(sample.rows[codes == j], axis=0, weights=sample.weights[codes == j])
            for j in np.unique(codes)
        ]
    )
