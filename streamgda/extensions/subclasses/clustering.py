"""How many subclasses the classes have, and how their centres are drawn from a sample of the rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from streamgda.data.blocks.labels import whole_classes
from streamgda.data.blocks.options import Option
from streamgda.data.blocks.wording import listed
from streamgda.extensions.subclasses.centers import SubclassCenters, axes_of, rounded
from streamgda.extensions.subclasses.sampled import Sample, SampledStatistics
from streamgda.models.estimators.priors import in_pairs
from streamgda.models.gaussians.components import pooled_covariance
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, CovarianceType
from streamgda.statistics.validation import check_whole

# Of a class, for each of its subclasses: with fewer, means and covariances are noise.
_ROWS_OF_SUBCLASS = 20

_STARTS = 4  # of k-means, of which the best is taken


@dataclass(frozen=True, repr=False)
class Subclasses(Option):
    """How many subclasses each class has, and how their centres are drawn.

    It is a value of the parameter `subclasses` of `MixtureDiscriminantAnalysis`, where a number `n` or a dict
    stands for ``Subclasses(n)``. k-means finds the centres in a sample of the rows of each class.

    Parameters
    ----------
    n : int or dict of label to int, default=3
        The number of subclasses of each class; classes that are not named have one. A class of n rows has at
        most n / 20, as means and covariances of fewer rows are noise.
    rows_per_class : int, default=200
        How many different rows of each class are drawn for k-means, by a hash of their values.
    random_state : int, default=0
        The seed of k-means.

    Raises
    ------
    ValueError
        If a value is not valid.

    Examples
    --------
    >>> from streamgda import MixtureDiscriminantAnalysis, Subclasses
    >>> model = MixtureDiscriminantAnalysis(Subclasses({"a": 2}, rows_per_class=100))
    >>> model.set_params(subclasses__random_state=1).subclasses
    Subclasses(n={'a': 2}, rows_per_class=100, random_state=1)
    """

    n: int | Mapping[Any, int] = 3
    rows_per_class: int = 200
    random_state: int = 0

    def __post_init__(self) -> None:
        check_whole(self.rows_per_class, "rows_per_class", 1)
        check_whole(self.random_state, "random_state", 0)
        if not isinstance(self.n, Mapping):
            check_whole(self.n, "n", 1)
            return
        object.__setattr__(self, "n", dict(self.n))
        for label, number in self.n.items():
            check_whole(number, f"n[{label!r}]", 1)

    # ------------------------------------------------------------------ values of the parameter

    @classmethod
    def of_short(cls, value: Any) -> Any:
        """The option that a number stands for, or a dict of them; the centres that a dict of arrays holds."""
        if isinstance(value, int | np.integer):
            return cls(int(value))
        if not isinstance(value, Mapping) or isinstance(value, SubclassCenters):
            return value
        if not any(map(np.ndim, value.values())):
            return cls(value)
        n_features = np.shape(next(iter(value.values())))[-1:]
        return SubclassCenters(value, np.zeros(n_features or 0))

    def _shortened(self) -> Any:
        return self.n if self == type(self)(self.n) else self

    def to_plain(self) -> dict[str, Any]:
        """The parameters, of which JSON holds the labels too."""
        return {**super().to_plain(), "n": in_pairs(self.n) if isinstance(self.n, Mapping) else self.n}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Any:
        """The value of the parameter that was saved."""
        if "labels" in plain:
            return SubclassCenters.from_document(plain)
        n = plain["n"]
        return cls(**{**plain, "n": dict(n) if isinstance(n, list) else n})._shortened()

    @classmethod
    def from_old(
        cls, *, n_subclasses: Any = 3, subclass_centers: Mapping[str, Any] | None = None, **others: Any
    ) -> Any:
        """The value of the parameter of a model that version 0.2 saved."""
        return cls.from_plain({"n": n_subclasses, **others} if subclass_centers is None else subclass_centers)

    # ------------------------------------------------------------------ centres

    def centers(self, sampled: SampledStatistics, covariance_type: CovarianceType) -> SubclassCenters:
        """Centres for all classes.

        Raises
        ------
        ValueError
            If `n` names a class that has no rows.
        """
        classes = sampled.statistics.classes.tolist()
        for label in self.n if isinstance(self.n, Mapping) else ():
            if label not in classes:
                raise ValueError(
                    f"subclasses names {label!r}, which is none of the classes: {listed(classes)}"
                )
        covariance = _within_covariance(sampled.statistics, covariance_type)
        return SubclassCenters(self._centers_of_classes(sampled, covariance, classes), covariance)

    def more_centers(
        self, sampled: SampledStatistics, covariance_type: CovarianceType, before: Statistics | None = None
    ) -> SubclassCenters:
        """The centres that a state has, and those of other classes of which the sample has enough rows.

        The covariance is not known before a class has centres.
        """
        statistics, known = sampled.statistics, None if before is None else centers_in(before)
        counts = zip(statistics.classes.tolist(), statistics.effective_counts.tolist(), strict=True)
        new = [label for label, n in counts if n >= self.rows_per_class and label not in (known or ())]
        if known:
            covariance = known.covariance
        elif new:
            covariance = _within_covariance(statistics, covariance_type)
        else:
            covariance = np.zeros(_of_numbers(statistics).n_features)
        found = self._centers_of_classes(sampled, covariance, new)
        for label in found.keys() & set([] if before is None else whole_classes(before.classes)[0].tolist()):
            found[label] = np.vstack([np.full(len(covariance), np.nan), found[label]])
        return SubclassCenters({**(known or {}), **found}, covariance)

    def _centers_of_classes(
        self, sampled: SampledStatistics, covariance: Array, labels: list[Any]
    ) -> dict[Any, Array]:
        """The centres of some classes."""
        if not labels:  # features may be missing that no class has yet
            return {}
        statistics, centers = sampled.statistics, {}
        counts = dict(zip(statistics.classes.tolist(), statistics.effective_counts.tolist(), strict=True))
        axes = axes_of(covariance, statistics.means[:, : len(covariance)])
        for label in labels:
            if label not in sampled.samples:  # which has complete rows alone
                continue
            sample = sampled.samples[label].first(self.rows_per_class)
            last = float(sample.keys[-1]) if len(sample.keys) == self.rows_per_class else None
            weights = rounded(sample.weights_for_all(last))  # sums of fractions depend on the order
            sample = sample._replace(weights=weights)
            wanted = self.n.get(label, 1) if isinstance(self.n, Mapping) else self.n
            most = int(counts[label] * (1 + 1e-9)) // _ROWS_OF_SUBCLASS
            n_centers = max(1, min(int(wanted), most, len(sample.keys)))
            centers[label] = _centers_of(sample, axes, n_centers, self.random_state)
        return centers


def centers_in(statistics: Statistics) -> SubclassCenters | None:
    """The centres by which the rows of a state are divided, if there are any."""
    rule = statistics.rule
    return rule if isinstance(rule, SubclassCenters) else None


def _within_covariance(statistics: Statistics, covariance_type: CovarianceType) -> Array:
    """The covariance within the classes by which distances from centres are measured: (d, d), or (d,).

    If there are too few rows to determine it, or the type is "diag", the variances within the classes.
    It is rounded, so that it does not depend on the order in which rows were added up.
    """
    statistics = _of_numbers(statistics.moments_for())
    weights = statistics.weights
    if statistics.covariance_type == "diag":
        return rounded(statistics.scatter.sum(axis=0) / weights.sum())
    covariance = pooled_covariance(statistics)
    if covariance_type == "diag" or weights.sum() - len(weights) < len(covariance):
        return rounded(covariance.diagonal())
    return rounded(covariance)


def _of_numbers(statistics: Statistics) -> Statistics:
    """The statistics of the features that are numbers."""
    n_numbers = statistics.schema.n_numbers(statistics.n_features)
    return statistics if n_numbers == statistics.n_features else statistics.select(np.arange(n_numbers))


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
    clusters = [codes == j for j in np.unique(codes)]
    return np.array([np.average(sample.rows[own], axis=0, weights=sample.weights[own]) for own in clusters])
