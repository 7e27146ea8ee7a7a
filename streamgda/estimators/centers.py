"""Centres of subclasses, drawn by k-means from a sample of the rows of each class."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from streamgda.blocks.wording import listed
from streamgda.statistics.base import Statistics
from streamgda.statistics.components import pooled_covariance
from streamgda.statistics.covariances import Array
from streamgda.statistics.sampled import Sample, SampledStatistics
from streamgda.statistics.subclasses import SubclassCenters, axes_of, rounded

NumberOfSubclasses: TypeAlias = int | Mapping[Any, int]

_ROWS_OF_SUBCLASS = (
    20  # of a class for each of its subclasses; with fewer, their means and covariances are noise
)
_STARTS = 4  # of k-means, of which the best is taken


def within_covariance(statistics: Statistics) -> Array:
    """The covariance within the classes by which distances from centres are measured: (d, d), or (d,).

    If there are too few rows to determine it, or covariances are not kept, the variances within the classes.
    It is rounded, so that it does not depend on the order in which rows were added up.
    """
    statistics = statistics.completed()
    weights = statistics.weights
    if statistics.covariance_type == "diag":
        return rounded(statistics.scatter.sum(axis=0) / weights.sum())
    covariance = pooled_covariance(statistics)
    if weights.sum() - len(weights) < len(covariance):
        return rounded(covariance.diagonal())
    return rounded(covariance)


def drawn_centers(sampled: SampledStatistics, n_subclasses: NumberOfSubclasses, seed: int) -> SubclassCenters:
    """Centres for all classes.

    Parameters
    ----------
    sampled : SampledStatistics
        The statistics of the rows, whose covariance measures distances, and a sample of each class.
    n_subclasses : int or dict
        The number of subclasses of each class; by label, those not named have one. A class gets fewer if it
        has fewer than twenty rows for each.
    seed : int
        That of k-means.

    Raises
    ------
    ValueError
        If `n_subclasses` names a class that has no rows.
    """
    classes = sampled.statistics.class_labels.tolist()
    for label in n_subclasses if isinstance(n_subclasses, Mapping) else ():
        if label not in classes:
            raise ValueError(f"n_subclasses names {label!r}, which is none of the classes: {listed(classes)}")
    covariance = within_covariance(sampled.statistics)
    return SubclassCenters(_drawn(sampled, covariance, n_subclasses, seed, classes), covariance)


def more_centers(
    held: Statistics | None,
    sampled: SampledStatistics,
    n_subclasses: NumberOfSubclasses,
    seed: int,
    fewest: int,
) -> SubclassCenters:
    """The centres of a state, and of other classes of which a batch has at least `fewest` rows.

    The other arguments are those of `drawn_centers`, of the batch. Before a class has centres, no covariance
    is known.
    """
    counts = zip(sampled.statistics.class_labels.tolist(), sampled.statistics.counts.tolist(), strict=True)
    known = None if held is None else held.subclass_centers
    new = [label for label, count in counts if count >= fewest and label not in (known or ())]
    if not known:
        n_features = sampled.statistics.n_features
        covariance = within_covariance(sampled.statistics) if new else np.zeros(n_features)
    else:
        covariance = known.covariance
    drawn = _drawn(sampled, covariance, n_subclasses, seed, new)
    before = set() if held is None else {*held.class_labels.tolist()}
    for label in before & drawn.keys():
        drawn[label] = np.vstack([np.full(len(covariance), np.nan), drawn[label]])
    return SubclassCenters({**(known or {}), **drawn}, covariance)


def _drawn(
    sampled: SampledStatistics,
    covariance: Array,
    n_subclasses: NumberOfSubclasses,
    seed: int,
    labels: Iterable[Any],
) -> dict[Any, Array]:
    """The centres of some classes."""
    statistics, centers = sampled.statistics, {}
    counts = dict(zip(statistics.classes.tolist(), statistics.counts.tolist(), strict=True))
    axes = axes_of(covariance, statistics.means)
    for label in labels:
        wanted = n_subclasses.get(label, 1) if isinstance(n_subclasses, Mapping) else n_subclasses
        if sample := sampled.samples.get(label):  # which has complete rows alone
            most = max(1, min(int(wanted), counts[label] // _ROWS_OF_SUBCLASS, len(sample.keys)))
            centers[label] = _centers_of(sample, axes, most, seed)
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
