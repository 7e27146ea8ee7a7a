"""Private statistics: one read of rows, one release of noise, and an ordinary state with a record of both."""

from __future__ import annotations

import logging
import math
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamgda.data.blocks.arrays import array_blocks, column_names, with_columns
from streamgda.data.blocks.labels import Labels, as_labels, kind_of
from streamgda.data.blocks.sparse import DENSE, is_sparse
from streamgda.data.blocks.wording import check_known
from streamgda.data.sources.base import Source
from streamgda.data.sources.columns.types import label_kind
from streamgda.data.sources.running import Scheduler
from streamgda.data.sources.splits import Split, group_into_tasks
from streamgda.data.storage.retries import StorageError
from streamgda.extensions.exact.state import ExactClassStatistics
from streamgda.extensions.private.clipping import GRID, Clipping, sensitivity
from streamgda.extensions.private.noise import noise, noise_multiplier
from streamgda.extensions.private.release import Released
from streamgda.extensions.private.state import Privacy, PrivateClassStatistics
from streamgda.jobs.passes.compute import compute_plan, opening_on, scheduler_for
from streamgda.jobs.passes.plan import Plan
from streamgda.statistics.covariances import Array, CovarianceType, kind_named
from streamgda.statistics.kernels.blas import single_blas_thread

_DEVIATIONS = 3  # of its noise, below which a count tells nothing
_LEAST_CLIP = 1e-6  # far below it, squares of scaled rows would be zero, and rows not shortened


def private_statistics(
    source: Any,
    y: ArrayLike | None = None,
    *,
    epsilon: float,
    delta: float,
    bounds: Mapping[str, tuple[float, float]] | ArrayLike,
    clip: float,
    classes: ArrayLike,
    covariance_type: CovarianceType = "tied",
    scheduler: Scheduler = None,
    random_state: int | None = None,
) -> PrivateClassStatistics:
    """Read rows once and return statistics with noise, which are (ε, δ)-differentially private.

    Whether any one row was among those that were read changes the probability of no result by more than the
    factor e^ε, but for a probability of δ. One call is one release: two releases of the same rows add their ε
    and their δ. Nothing else is told of the rows: neither their number nor which were left out, and no error,
    warning or line of the log quotes them.

    Parameters
    ----------
    source : source, or array or data frame of shape (n_rows, n_features)
        Rows, as `accumulate` reads them, scanned with ``missing="drop"`` and without weights; or rows in
        memory, with labels in `y`. A row that lacks a feature, or whose label is none of the classes, is left
        out. The names and types of columns, that of the labels too, are taken to be public; in CSV and JSON
        rows decide them.
    y : array-like of shape (n_rows,), optional
        Labels of rows in memory.
    epsilon, delta : float
        How private the statistics are. δ is to be far below one by the number of rows.
    bounds : mapping of str to pairs, or array-like of shape (n_features, 2)
        The least and the largest value of each feature: by name, which also chooses the features, or in
        order. Public knowledge, such as the range of a sensor or of a scale: bounds that are read off the
        rows tell of them. Values beyond are moved to the bound.
    clip : float
        The largest norm of a row whose features are scaled to [−1, 1]. Longer rows are shortened. None is
        longer than √d; a smaller number means less noise and more bias.
    classes : array-like
        The labels, of the type that they have in the rows. That a class has rows is private too, so they are
        announced. Those whose count cannot be told from the noise are left out of the result, and named in
        ``privacy.left_out``.
    covariance_type : {"tied", "full", "diag"}, default="tied"
        As for `accumulate`. The noise is the same for each number that is kept.
    scheduler : optional
        As for `accumulate`.
    random_state : int, optional
        For tests alone: noise that can be repeated protects nobody, and the record says so.

    Returns
    -------
    PrivateClassStatistics

    Raises
    ------
    TypeError
        If there is neither a source nor an array or frame with `y`, or features of a source are no numbers.
    ValueError
        If a parameter is out of range, the classes are of another kind than the labels, or the rows cannot be
        read. The reason of the latter is not told, since it could quote rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamgda import LinearDiscriminantAnalysis, private_statistics
    >>> X, y = load_iris(return_X_y=True)
    >>> limits = [(4, 8), (2, 5), (1, 7), (0, 3)]
    >>> state = private_statistics(
    ...     X, y, epsilon=3, delta=1e-3, bounds=limits, clip=1.5, classes=[0, 1, 2], random_state=0
    ... )
    >>> state.privacy.epsilon
    3.0
    >>> LinearDiscriminantAnalysis.from_statistics(state).score(X, y) > 0.6
    True

    References
    ----------
    Dwork & Roth (2014), "The algorithmic foundations of differential privacy".
    """
    labels, kind = np.unique(as_labels(classes)), kind_named(covariance_type)
    names = tuple(bounds) if isinstance(bounds, Mapping) else None
    ranges = np.array(list(bounds.values()) if isinstance(bounds, Mapping) else bounds, dtype=np.float64)
    _check(epsilon, delta, ranges, clip, labels)
    d, clip = len(ranges), min(float(clip), math.sqrt(len(ranges)))
    clipping = Clipping(ranges.mean(axis=1), np.diff(ranges)[:, 0] / 2, clip, labels)
    scale = noise_multiplier(epsilon, delta) * sensitivity(d, kind.n_pairs(d))
    noise(0, scale, random_state)  # if there is none, say so before rows are read
    data, names = _features(source, y, names, d)
    _check_kinds(_kind_of_labels(data, y), labels)
    sums = _sums(data, y, clipping, covariance_type, scheduler)
    noisy, deviation = Released.of(sums, labels, kind, d).with_noise(scale, random_state), scale / GRID**2
    is_kept = noisy.counts >= _DEVIATIONS * deviation
    counts, means, scatter = noisy.moments(np.flatnonzero(is_kept), deviation)
    units = clip * clipping.half
    state = PrivateClassStatistics.from_moments(
        labels[is_kept],
        counts,
        clipping.middle + units * means,
        scatter * (np.outer(units, units) if kind.has_products else np.square(units)),
        covariance_type=covariance_type,
        feature_names=names,
    )
    state.privacy = Privacy(
        float(epsilon),
        float(delta),
        clip,
        tuple((low, high) for low, high in ranges.tolist()),
        "discrete Gaussian" if random_state is None else "repeatable noise, which is not private",
        tuple(labels[~is_kept].tolist()),
    )
    return state


def _check(epsilon: float, delta: float, ranges: Array, clip: float, labels: Labels) -> None:
    """Raise ValueError for a parameter that is out of its range."""
    if not (0 < epsilon < math.inf and 0 < delta < 1):
        raise ValueError(f"epsilon is above 0, and delta between 0 and 1; got {epsilon!r} and {delta!r}")
    halves = np.diff(ranges) / 2 if ranges.ndim == 2 and ranges.shape[1] == 2 else np.zeros(1)
    if not (len(ranges) and (halves > 0).all() and np.isfinite(halves).all()):
        raise ValueError("bounds are a finite (least, largest) for each feature, the first below the second")
    if not _LEAST_CLIP <= clip < math.inf:
        raise ValueError(f"clip is a norm, between 0 and √{len(ranges)}; got {clip!r}")
    if not len(labels):
        raise ValueError("classes are the labels that rows may have; there are none")


def _features(
    source: Any, y: ArrayLike | None, names: tuple[str, ...] | None, d: int
) -> tuple[Any, tuple[str, ...] | None]:
    """The rows with the features of the bounds, and the names of these. No row is read."""
    if isinstance(source, Source) and y is None:
        _check_source(source)
        data, known, n_features = source, source.feature_names, source.n_features
    elif y is None or not hasattr(source, "shape"):
        raise TypeError(
            "private statistics are of a source, as scan_parquet makes one, or of an array or data frame X "
            f"and labels y; got {type(source).__name__}{' alone' if y is None else ''}"
        )
    else:
        data, known, n_features = source, column_names(source), (*source.shape, 1)[1]
    if names is not None and known is not None and known != names:
        check_known(names, known, repr(source) if y is None else "the data frame")
        data = data.with_features(names) if y is None else with_columns(data, list(names))
        n_features = d
    if is_sparse(data):
        raise TypeError(f"rows are clipped with their zeros; {DENSE}")
    if getattr(data, "encoded", ()):
        raise TypeError(f"{source!r} has features that are no numbers: {list(data.encoded)}; leave them out")
    if n_features not in {None, d}:
        raise ValueError(f"there are {n_features} features and bounds of {d}; give a pair for each")
    return data, known if names is None else names


def _kind_of_labels(data: Any, y: Any) -> str | None:
    """The kind of labels by their declared type; None for Python objects, which have none."""
    import pyarrow as pa

    if y is not None:
        declared = getattr(y, "dtype", np.dtype(object))
        with suppress(TypeError, NotImplementedError):
            if declared != np.dtype(object):
                return label_kind(pa.array(y[:0]).type)
        return None
    with _silence(), suppress(Exception):  # which could quote rows
        source = data.before_maps
        return label_kind(source.schema.field(getattr(source, "_roles", source).target).type)
    return None


def _check_kinds(kind: str | None, classes: Labels) -> None:
    """Raise ValueError if the classes are of another kind than the labels, so that no row would count."""
    if kind is not None and kind != kind_of(classes):
        words = {"str": "text", "int": "numbers", "bool": "bools"}
        raise ValueError(
            f"the labels are {words[kind]} by their type, and the classes {words[kind_of(classes)]}: "
            "give classes of the type of the labels"
        )


def _check_source(source: Source) -> None:
    """Raise ValueError if the source weighs rows, or a row without a label would be an error."""
    roles = getattr(source.before_maps, "_roles", source.before_maps)
    if getattr(roles, "weight", None) is not None:
        raise ValueError(f"{source!r} has weights, and a row with a weight has no bound; scan it without")
    if getattr(roles, "missing", "drop") != "drop":
        raise ValueError(f"scan {source!r} with missing='drop': an error for a row without label tells of it")


def _sums(
    data: Any, y: ArrayLike | None, clipping: Clipping, covariance_type: CovarianceType, scheduler: Scheduler
) -> ExactClassStatistics:
    """The exact sums of the clipped rows; an error that tells nothing of them if they cannot be read."""
    empty = ExactClassStatistics(covariance_type)
    if y is None:
        scheduler = scheduler_for(data, scheduler)
    with _silence(), suppress(Exception):
        if y is not None:
            blocks = array_blocks(data, y, missing="drop", among=clipping.classes)
            empty.update_blocks(map(clipping, blocks))
            return empty
        groups = list(group_into_tasks(data.planned(opening_on(scheduler)), data.n_features))
        plan = Plan(groups, partial(_read, clipping), empty)
        sums = compute_plan(plan, scheduler, False) if groups else empty
        if not sums.n_dropped:
            return sums
    raise ValueError(
        "the rows cannot be read. Why is not told here, since it could quote rows: accumulate(source), or "
        "ClassStatistics().update(X, y), says it to those who may see them"
    )


def _read(clipping: Clipping, splits: Iterable[Split], empty: ExactClassStatistics) -> ExactClassStatistics:
    """One task. If rows cannot be read, a dropped row says so: workers log errors, which could quote rows."""
    state = empty.copy()
    try:
        with single_blas_thread():
            blocks = chain.from_iterable(split.blocks(clipping.classes) for split in splits)
            state.update_blocks(map(clipping, blocks))
    except StorageError:
        raise  # to be read again
    except Exception:
        state._n_dropped = 1
    return state


@contextmanager
def _silence() -> Iterator[None]:
    """Neither warn of rows nor log how many there are, in this thread."""
    log, thread = logging.getLogger("streamgda"), threading.get_ident()

    def is_of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    log.addFilter(is_of_others)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.removeFilter(is_of_others)
