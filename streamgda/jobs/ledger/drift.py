"""Reports on drift and on refreshes: how far new rows lie from old ones, and when that is an alarm."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtri, kl_div, stdtrit

from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.wording import abridged, as_html, counted, named
from streamgda.jobs.ledger.distances import Gaussian, divergence, gaussians_of, shift
from streamgda.statistics.base import Statistics, check_statistics
from streamgda.statistics.covariances import Array, CovarianceKind, kind_named
from streamgda.statistics.locking import holding_locks
from streamgda.statistics.rules import check_same

if TYPE_CHECKING:
    import pandas as pd

_SURE = 0.0027  # one in 370: how often chance passes three standard errors of a normal distribution

_MEANS_BY_CHANCE = 3  # how many times its mean a divergence may be by chance

_COLUMNS = ["class", "rows", "shift", "feature", "divergence", "prior before", "prior", "share shift"]


@holding_locks
def drift(before: Statistics, after: Statistics) -> DriftReport:
    """How far the rows of one state lie from those of another, class by class.

    Parameters
    ----------
    before, after : ClassStatistics, or other statistics of the same kind
        The old and the new rows, such as what a model has learnt, and the last batch of a stream.

    Returns
    -------
    DriftReport
        The shift and the divergence of each class, as in the report of `StatisticsLedger.refresh`. Its method
        `alarms` names what exceeds limits.

    Raises
    ------
    TypeError
        If `before` or `after` is not statistics but, for example, a model.
    ValueError
        If the two differ in covariance type or features, or their rows went through different maps.

    References
    ----------
    Kullback & Leibler (1951), "On information and sufficiency", eq. 2.6 (the divergence J). Wilks (1938),
    "The large-sample distribution of the likelihood ratio for testing composite hypotheses".

    Examples
    --------
    >>> import numpy as np
    >>> from streamgda import ClassStatistics, drift
    >>> X, y = np.random.default_rng(0).normal(size=(400, 2)), np.repeat(["a", "b"], 200)
    >>> report = drift(ClassStatistics().update(X, y), ClassStatistics().update(X + [0, 2], y))
    >>> print(report)
           rows  shift  feature  divergence  prior before  prior  share shift
    class
    a       200  1.986        1       3.957           0.5    0.5            0
    b       200  2.031        1        4.13           0.5    0.5            0
    >>> report.alarms(max_shift=1.7)
    ('class b: the mean of 1 has shifted by 2.031 standard deviations',)
    """
    check_statistics(before)
    check_statistics(after)
    return Baseline(before).drift(after).compared()


@dataclass(frozen=True, eq=False)
class ClassDrift:
    """How the new rows of a class differ from the old ones.

    Attributes
    ----------
    label : int, str or bool
        The class.
    rows_before, rows : int
        Old and new rows of it.
    shift : ndarray of shape (n_features,)
        New mean less old mean, in standard deviations of the old rows; infinite where the old rows do not
        vary and the means differ. NaN if there are no new rows or too few old ones, or if all old or all new
        rows lack the feature.
    divergence : float
        Symmetric Kullback–Leibler divergence of the two Gaussians, KL(old ‖ new) + KL(new ‖ old), in nats;
        infinite if one of them is singular in a direction in which the other is not, or `is_lacking` is
        true of a feature. It is of the features that both old and new rows have. NaN if there are no new
        rows, or too few rows have the same features.
    expected_divergence : float
        The expected divergence for these numbers of rows, if old and new rows come from one Gaussian.
        Infinite if there are too few rows.
    prior_before, prior : float
        Share of the class in the weight of the old and of the new rows.
    share_shift : float
        How far the share has moved, in standard errors: the signed root of the likelihood-ratio statistic of
        two shares against a common one. It is about standard normal if the share has not changed.
    standard_error : float
        The standard error of a shift if all rows have one distribution: √(1 / rows + 1 / rows_before).
    shift_by_chance : float
        The largest shift is beyond this in one of 370 comparisons if old and new rows come from one Gaussian.
        For one feature and many old rows these are three standard errors. It is more for few old rows, whose
        deviation is not sure (Student's t), and for many features. Infinite if there are too few rows.
    divergence_by_chance : float
        Three times the expected divergence, or, for few rows, what the divergence exceeds in about one of 370
        comparisons if old and new rows come from one Gaussian. Infinite if there are too few rows.
    is_lacking : ndarray of bool of shape (n_features,)
        Whether all new rows lack a feature that old rows have, or the other way round. False if this would
        happen by chance in more than one of 370 comparisons.

    Notes
    -----
    Where rows have weights, all but the counts are by effective rows; see `ClassStatistics.effective_counts`.
    """

    label: Any
    rows_before: int
    rows: int
    shift: Array
    divergence: float
    expected_divergence: float
    prior_before: float
    prior: float
    share_shift: float
    standard_error: float
    shift_by_chance: float
    divergence_by_chance: float
    is_lacking: NDArray[np.bool_]


@dataclass(frozen=True)
class _Waiting:
    """Old and new rows that are compared when somebody asks how far they lie from each other."""

    before: Baseline
    after: Statistics


class _WhenAsked:
    """The field `drift` of a report, which compares what is waiting when it is first asked for."""

    def __get__(self, report: Any, owner: Any = None) -> Any:
        if report is None:
            return self
        drift = vars(report)["drift"]
        if isinstance(drift, _Waiting):
            drift = vars(report)["drift"] = tuple(drift.before.drifts(drift.after))
        return drift

    def __set__(self, report: Any, value: Any) -> None:
        vars(report)["drift"] = () if value is self else value


@dataclass(frozen=True, kw_only=True, eq=False)
class DriftReport:
    """How far new rows lie from old ones. Prints as a table.

    Attributes
    ----------
    new_classes : tuple
        Labels that the old rows do not have.
    drift : tuple of ClassDrift
        For each class that is not new, how far its new rows lie from the old ones. A refresh computes it when
        it is first asked for, unless the states to compare take more than 16 MB.
    feature_names : tuple of str
        The features, in the order of ``ClassDrift.shift``. Of columns with categories, these are the
        categories that both old and new rows have; of `RandomFeatures`, the columns that the map includes,
        without those that did not vary when it was fitted.
    new_categories : tuple of str
        The categories that the old rows do not have, as "column=value".
    """

    new_classes: tuple[Any, ...] = ()
    drift: tuple[ClassDrift, ...] = field(default=cast("Any", _WhenAsked()), repr=False)
    feature_names: tuple[str, ...] = field(default=(), repr=False)
    new_categories: tuple[str, ...] = ()

    def compared(self, most: int = 0) -> Self:
        """The same report. It holds no states to compare any more if these take more than so many bytes."""
        waiting = vars(self)["drift"]
        if isinstance(waiting, _Waiting) and waiting.before.nbytes + waiting.after.nbytes > most:
            _ = self.drift
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the comparison, and not the states."""
        return vars(self.compared())

    def alarms(
        self,
        *,
        max_shift: float | None = None,
        max_divergence: float | None = None,
        max_share_shift: float | None = None,
        no_new_classes: bool = False,
        no_new_categories: bool = False,
    ) -> tuple[str, ...]:
        """Say what exceeds the limits, or cannot be compared with them.

        There are no alarms if there are no old rows. Nor are there of a class without new rows, except of its
        share, or of so few rows that chance has no limit. A feature that only old or only new rows have is an
        alarm by `max_shift` and by `max_divergence`, unless that may be by chance (`ClassDrift.is_lacking`).

        Parameters
        ----------
        max_shift : float, optional
            How many standard deviations of the old rows a mean may shift, in addition to what chance gives
            (`ClassDrift.shift_by_chance`).
        max_divergence : float, optional
            How large the divergence of a class may be, in addition to what chance gives
            (`ClassDrift.divergence_by_chance`).
        max_share_shift : float, optional
            How many standard errors the share of a class may move, up or down. Chance alone moves one in
            16,000 shares by more than 4.
        no_new_classes : bool, default=False
            Whether new classes are an alarm.
        no_new_categories : bool, default=False
            Whether new categories of a column are an alarm.

        Raises
        ------
        ValueError
            If a limit is NaN or negative, or of a distance, and the rows are compared by their shares alone.
        """
        limits = {
            "max_shift": max_shift,
            "max_divergence": max_divergence,
            "max_share_shift": max_share_shift,
        }
        for name, limit in limits.items():
            if limit is not None and not limit >= 0:
                raise ValueError(f"{name} must be a number, at least 0; got {limit!r}")
        alarms = [f"class {named(label)} is new" for label in self.new_classes if no_new_classes]
        alarms += [f"category {name} is new" for name in self.new_categories if no_new_categories]
        if limits == dict.fromkeys(limits):
            return tuple(alarms)
        for drift in self.drift:
            check_distances(drift.shift.size > 0, max_shift, max_divergence)
            alarms += [f"class {named(drift.label)}: {alarm}" for alarm in self._alarms_of(drift, **limits)]
        return tuple(alarms)

    def _alarms_of(
        self,
        drift: ClassDrift,
        max_shift: float | None,
        max_divergence: float | None,
        max_share_shift: float | None,
    ) -> Iterator[str]:
        feature, change = self._furthest(drift)
        if max_shift is not None and abs(change) > max_shift + drift.shift_by_chance:
            yield f"the mean of {feature} has shifted by {change:.4g} standard deviations"
        if max_shift is not None and drift.is_lacking.any():
            lacking = [self._named(feature) for feature in np.flatnonzero(drift.is_lacking).tolist()]
            yield f"either all old or all new rows lack {abridged(lacking, 5)}"
        by_chance, distance = drift.divergence_by_chance, drift.divergence
        if max_divergence is not None and by_chance < math.inf and not distance <= max_divergence + by_chance:
            unknown = "unknown, since too few rows have the same features"
            yield f"the divergence is {unknown if np.isnan(distance) else f'{distance:.4g}'}"
        if max_share_shift is not None and not abs(drift.share_shift) <= max_share_shift:
            yield (
                f"its share has moved from {drift.prior_before:.4g} to {drift.prior:.4g}, by "
                f"{drift.share_shift:.4g} standard errors"
            )

    def _furthest(self, drift: ClassDrift) -> tuple[Any, float]:
        """The feature whose mean has shifted most, and how far, of those in which this is known."""
        if not drift.shift.size:
            return None, math.nan
        furthest = int(np.argmax(np.nan_to_num(np.abs(drift.shift), nan=-1.0, posinf=np.inf)))
        return self._named(furthest), float(drift.shift[furthest])

    def _named(self, feature: int) -> Any:
        return self.feature_names[feature] if self.feature_names else feature

    def to_pandas(self) -> pd.DataFrame:
        """One row for each class that is not new, with its largest shift and the feature that shifted."""
        import pandas as pd

        rows = [
            (
                *(drift.label, drift.rows, *reversed(self._furthest(drift))),
                *(drift.divergence, drift.prior_before, drift.prior, drift.share_shift),
            )
            for drift in self.drift
        ]
        return pd.DataFrame(rows, columns=_COLUMNS).set_index("class")

    def __str__(self) -> str:
        return "\n".join(self._drift_lines())

    def _repr_html_(self) -> str:
        return as_html(str(self))

    def _drift_lines(self) -> list[str]:
        lines = [f"new classes: {abridged(self.new_classes, 20)}"] if self.new_classes else []
        lines += [f"new categories: {abridged(self.new_categories, 20)}"] if self.new_categories else []
        if absent := [drift.label for drift in self.drift if not drift.rows]:
            lines.append(f"no new rows: {abridged(absent, 20)}")
        if len(absent) < len(self.drift):
            table = self.to_pandas().query("rows > 0")
            lines.append(table.to_string(float_format="{:.4g}".format))
        return lines


@dataclass(frozen=True, kw_only=True, eq=False)
class RefreshReport(DriftReport):
    """What a refresh did or, as a dry run, would do. Prints as a table.

    Attributes
    ----------
    dry_run : bool
        Whether nothing was done.
    added, changed : tuple of str
        The files that are read: new files, and files whose version has changed.
    reused, dropped : tuple of str
        The files whose statistics are kept and count, and those that are gone.
    skipped : dict of str to str
        With ``on_error="skip"``, the files that could not be read, and why. The next refresh tries again.
        Until then, the statistics of the former version of such a file count, and the file is also in
        `reused`.
    alarms_by_file : dict of str to str
        The files that exceed a limit, and how.
    is_refused : bool
        Whether the ledger is as it was before, because files exceed a limit.
    rows, rows_held : int
        Rows of the files read, and rows held in all; 0 in a dry run.
    rows_dropped : int
        Rows of the files read that were left out because something was missing.
    new_classes, drift, feature_names, new_categories
        As in `DriftReport`, of the rows of added and changed files.
    """

    dry_run: bool = False
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    reused: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    alarms_by_file: Mapping[str, str] = field(default_factory=dict)
    is_refused: bool = False
    rows: int = 0
    rows_held: int = 0
    rows_dropped: int = 0

    @property
    def read(self) -> tuple[str, ...]:
        """All the files that are read, in order of path."""
        return tuple(sorted((*self.added, *self.changed)))

    def __str__(self) -> str:
        did, n_files = "would read" if self.dry_run else "read", counted(len(self.read), "file")
        changes = f"{len(self.added):,} new, {len(self.changed):,} changed"
        lines = [f"{did} {n_files} ({changes}), reused {len(self.reused):,}, dropped {len(self.dropped):,}"]
        lines += [f"skipped {path}: {reason}" for path, reason in self.skipped.items()]
        if not self.dry_run:
            dropped = f" ({self.rows_dropped:,} dropped)" if self.rows_dropped else ""
            lines.append(f"{counted(self.rows, 'row')} read{dropped}, {self.rows_held:,} held")
        lines += [f"alarm of {path}: {alarm}" for path, alarm in self.alarms_by_file.items()]
        if self.is_refused:
            lines.append("refused: the ledger is as it was")
        return "\n".join([*lines, *self._drift_lines()])


class Baseline:
    """Old rows, with which new rows are compared. Their densities are computed once."""

    def __init__(self, before: Statistics) -> None:
        self._before, self._rule = _of_columns(before), before.rule
        self._known: dict[Any, dict[Any, Gaussian]] = {}

    @property
    def nbytes(self) -> int:
        """The size of the old rows' state in bytes."""
        return self._before.nbytes

    def drift(self, after: Statistics) -> DriftReport:
        """How far other rows lie from these; see `drift`. Classes are compared when they are asked for."""
        if hasattr(self._rule, "columns") or hasattr(after.rule, "columns"):
            check_same(self._rule, after.rule)
        before, after = self._before, _of_columns(after)
        if not (before.schema.is_numeric or after.schema.is_numeric) and before.n_rows and after.n_rows:
            before, after, new_categories = _in_common(before, after)
            report = Baseline(before).drift(after)
            return DriftReport(**{**vars(report), "new_categories": new_categories})
        if before.classes.dtype.kind != after.classes.dtype.kind:  # as when partition keys became text
            return DriftReport(new_classes=tuple(after.classes.tolist()))
        new = np.setdiff1d(after.classes, before.classes, assume_unique=True).tolist()
        if not (before.n_rows and after.n_rows):
            return DriftReport(new_classes=tuple(new))
        _check_alike(before, after)
        names = after.feature_names or before.feature_names
        return DriftReport(
            new_classes=tuple(new), feature_names=names or (), drift=cast("Any", _Waiting(self, after))
        )

    def drifts(self, after: Statistics) -> Iterator[ClassDrift]:
        """How far the rows of each class of these lie from other rows of the class."""
        before = self._before
        (sizes, _), (new_sizes, absent) = (_sizes(one) for one in (before, after))
        kind, n_features = kind_named(before.covariance_type), before.n_features * before.has_scatter
        nothing = np.full(n_features, np.nan), np.nan, np.zeros(n_features, np.bool_)
        distances = self._distances(after) if n_features else {}
        for label, size in sizes.items():
            other = new_sizes.get(label, absent)
            shifts, distance, is_lacking = distances.get(label, nothing)
            shifts = shifts if size.freedom > 0 else nothing[0]
            error = math.sqrt(1 / other.rows + 1 / size.rows) if other.count else math.inf
            mean, by_chance = _divergence_by_chance(kind, n_features, size, other)
            rows, shares = (size.count, other.count), (size.share, other.share, _share_shift(size, other))
            chance = error, _shift_by_chance(n_features, size, error), by_chance
            yield ClassDrift(label, *rows, shifts, distance, mean, *shares, *chance, is_lacking)

    def _distances(self, after: Statistics) -> dict[Any, tuple[Array, float, NDArray[np.bool_]]]:
        """`shift`, `divergence` and `is_lacking` of the classes that both have."""
        if not self._before.reasons and not after.reasons:
            nowhere = np.zeros(after.n_features, np.bool_)
            pairs = self._pairs(after, None)
            return {label: (shift(*pair), divergence(*pair), nowhere) for label, pair in pairs.items()}
        sides, labels = (self._before, after), np.intersect1d(self._before.classes, after.classes)
        (old_has, old_rate, n_old), (new_has, new_rate, n_new) = (_presence(one, labels) for one in sides)
        both, by_chance = old_has & new_has, np.where(old_has, old_rate**n_new, new_rate**n_old)
        is_lacking = (old_has != new_has) & (by_chance < _SURE / after.n_features)
        shifts, distances = np.full(both.shape, np.nan), np.full(len(labels), np.nan)
        is_pooled = kind_named(after.covariance_type).is_pooled
        of_all: Array = np.vstack([one.weights_by_feature for one in sides]).min(axis=0, keepdims=True)
        for features in of_all > 0 if is_pooled else np.unique(both, axis=0):
            pairs = self._pairs(after, features)
            for k in np.flatnonzero(is_pooled | (both == features).all(axis=1)).tolist():
                if pair := pairs.get(labels[k].item()):
                    shifts[k, features], distances[k] = shift(*pair), divergence(*pair)
        for j, feature in enumerate(np.eye(after.n_features, dtype=np.bool_)):
            left = np.flatnonzero(both[:, j] & np.isnan(shifts[:, j])).tolist()
            pairs = self._pairs(after, feature) if left else {}
            for k in left:
                shifts[k, feature] = shift(*pairs[labels[k].item()])
        distances[is_lacking.any(axis=1)] = np.inf
        return dict(
            zip(labels.tolist(), zip(shifts, distances.tolist(), is_lacking, strict=True), strict=True)
        )

    def _pairs(
        self, after: Statistics, features: NDArray[np.bool_] | None
    ) -> dict[Any, tuple[Gaussian, Gaussian]]:
        """The old and the new density of some features, of the classes of which both are determined."""
        chosen = None if features is None else tuple(np.flatnonzero(features).tolist())
        if chosen not in self._known:
            self._known[chosen] = gaussians_of(self._before, chosen)
        old, new = self._known[chosen], gaussians_of(after, chosen)
        return {label: (old[label], new[label]) for label in old if label in new}


def _presence(statistics: Statistics, labels: Labels) -> tuple[NDArray[np.bool_], Array, Array]:
    """Which features rows of some classes have, how often one lacks them, and the effective rows.

    How often is by Laplace's rule of succession.
    """
    places = np.searchsorted(statistics.classes, labels)
    weights, rows = statistics.weights_by_feature[places], statistics.effective_counts[places, None]
    lacking = np.clip(1 - weights / statistics.weights[places, None], 0.0, 1.0)
    return weights > 0, (lacking * rows + 1) / (rows + 2), rows


@dataclass(frozen=True)
class _Size:
    """How many rows of a class there are.

    All but the count are effective rows (Kish 1965), which are the count where all rows have weight 1.

    Attributes
    ----------
    count : int
        How many rows went in.
    share : float
        The share of the class in the weight of all rows.
    rows : float
        The effective rows of its mean.
    rows_of_share : float
        How many rows of all classes give a share of this variance.
    rows_of_scatter, freedom : float
        The effective rows of its covariance, which classes may share, and its degrees of freedom.
    """

    count: int
    share: float
    rows: float
    rows_of_share: float
    rows_of_scatter: float
    freedom: float


def _sizes(statistics: Statistics) -> tuple[dict[Any, _Size], _Size]:
    """The size of each class, and that of a class that is not there."""
    weights, rows, counts = statistics.weights, statistics.effective_counts, statistics.counts
    typical, total = weights / rows, weights.sum()  # Σ w² / Σ w of each class, the weight of a typical row
    squares, shares = (weights * typical).sum(), weights / total
    together = total * (total / squares)
    others = np.divide(squares - weights * typical, total - weights, out=typical.copy(), where=shares < 1)
    of_share = np.minimum(total / ((1 - shares) * typical + shares * others), together)
    of_scatter, freedom = rows, rows - 1
    if kind_named(statistics.covariance_type).is_pooled:
        of_scatter = np.full(len(rows), together)
        freedom = of_scatter - typical.sum() * (together / total)
    columns = (counts, shares, rows, of_share, of_scatter, freedom)
    sizes = (_Size(*values) for values in zip(*(column.tolist() for column in columns), strict=True))
    absent = _Size(0, 0.0, 0.0, together, math.nan, math.nan)
    return dict(zip(statistics.classes.tolist(), sizes, strict=True)), absent


def _in_common(before: Statistics, after: Statistics) -> tuple[Statistics, Statistics, tuple[str, ...]]:
    """Old and new rows with the categories that both have, and the names of those that only new rows have."""
    schema = before.schema.union(after.schema)
    both = [one.in_schema(schema) for one in (before, after)]
    is_number = np.arange(both[0].n_features) < schema.n_numbers(both[0].n_features)
    old, new = is_number.copy(), is_number.copy()
    for occurs, one in zip((old, new), both, strict=True):  # numbers may have no means
        occurs[~is_number] = (one.select(~is_number).means != 0).any(axis=0)
    new_names = np.array(schema.feature_names, dtype=object)[new & ~old & ~is_number]
    before, after = (one.select(old & new) for one in both)
    return before, after, tuple(new_names.tolist())


def _of_columns(statistics: Statistics) -> Statistics:
    """The statistics without the features that a map makes, if it includes its input columns too."""
    columns = getattr(statistics.rule, "columns", ())
    return statistics.select(columns) if 0 < len(columns) < statistics.n_features else statistics


def check_distances(
    are_known: bool, max_shift: float | None = None, max_divergence: float | None = None, **_: Any
) -> None:
    """Raise ValueError if distances of classes are limited and not known."""
    if not are_known and (max_shift is not None or max_divergence is not None):
        raise ValueError(
            "a state without covariances is compared by the shares of the classes alone; leave out max_shift "
            "and max_divergence, or limit them in a ledger of the rows as they are"
        )


def _check_alike(before: Statistics, after: Statistics) -> None:
    kinds = [one.covariance_type for one in (before, after)]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"states of covariance types {kinds[0]!r} and {kinds[1]!r} cannot be compared; accumulate "
            "both with one covariance_type, or narrow a 'full' one by to_covariance_type"
        )
    names = [one.feature_names for one in (before, after)]
    if before.n_features != after.n_features or (None not in names and names[0] != names[1]):
        raise ValueError(
            "states of other features cannot be compared; learn both from the same ones, in the same order"
        )


def _share_shift(old: _Size, new: _Size) -> float:
    """The signed root of twice the log likelihood ratio of two shares against a common one."""
    sizes = [(one.share, one.rows_of_share) for one in (old, new)]
    common = sum(share * n for share, n in sizes) / sum(n for _, n in sizes)
    ratio = sum(n * (kl_div(share, common) + kl_div(1 - share, 1 - common)) for share, n in sizes)
    return float(np.copysign(np.sqrt(2 * max(ratio, 0.0)), new.share - old.share))


def _shift_by_chance(n_features: int, old: _Size, standard_error: float) -> float:
    """The largest shift that chance gives: a quantile of Student's t, by Bonferroni's bound."""
    if old.freedom <= 0 or not n_features:
        return math.inf
    quantile = -float(stdtrit(old.freedom, _SURE / 2 / n_features))
    return quantile * math.sqrt(old.rows_of_scatter / old.freedom) * standard_error


def _divergence_by_chance(
    kind: CovarianceKind, n_features: int, old: _Size, new: _Size
) -> tuple[float, float]:
    """The expected divergence between rows of one Gaussian, and the largest that chance gives.

    Of a covariance S with ν degrees of freedom, from r rows, E S = (ν / r) Σ and E S⁻¹ = r / (ν − d − 1) Σ⁻¹
    (the Wishart distribution and its inverse). The results are infinite if this does not exist.

    For many rows, the divergence is a sum of χ². For few, its tail is that of S⁻¹: the smallest eigenvalue of
    S is below ε with a probability of the order ε^((ν − d + 1) / 2). An F distribution has both, if its mean
    is that above, b = ν − d + 1, and a is by Satterthwaite's formula.
    """
    d, features = (n_features, 1) if kind.has_products else (1, n_features)
    least = min(old.freedom, new.freedom)
    if not n_features or not new.count or least <= d + 1:
        return math.inf, math.inf
    both = old, new
    spread = [one.freedom / one.rows_of_scatter for one in both]
    inverse = [one.rows_of_scatter / (one.freedom - d - 1) for one in both]
    covariances, means = spread[0] * inverse[1] + spread[1] * inverse[0] - 2, 1 / old.rows + 1 / new.rows
    mean = features * d / 2 * (covariances + means * sum(inverse))
    terms = [(1 / old.rows_of_scatter + 1 / new.rows_of_scatter, (d + 1) / 2), (means, 1.0)]
    a = features * d * sum(c * n for c, n in terms) ** 2 / sum(c**2 * n for c, n in terms)
    b = least - d + 1
    quantile = float(fdtri(a, b, 1 - _SURE)) * (b - 2) / b
    return mean, max(_MEANS_BY_CHANCE, quantile) * mean
