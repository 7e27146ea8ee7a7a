"""The pass that learns: read a source once, and return the statistics of all its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from streamgda.data.blocks.options import refusing_renamed
from streamgda.data.sources.base import MapFunction, Source
from streamgda.data.sources.running import Progress, Scheduler
from streamgda.data.sources.splits import ROWS_PER_TASK, Split, group_into_tasks
from streamgda.data.storage.paths import Path
from streamgda.data.storage.retries import RETRIES, retried
from streamgda.jobs.passes.compute import compute_plan, opening_on, scheduler_for
from streamgda.jobs.passes.plan import Plan
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceType, kind_named
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.kernels import Workspace
from streamgda.statistics.missing import MissingRows, policy_of
from streamgda.statistics.required import Required
from streamgda.statistics.rules import RowRule
from streamgda.statistics.validation import check_whole

if TYPE_CHECKING:
    from streamgda.jobs.passes.checkpoint import Checkpoint

_VALUES_PER_NUMBER = 4  # of a state: rows of so many values take longer to read than the state to merge
_FEWEST_LONG_TASKS = 4  # that several threads can share
_STEPS = 64  # of an iteration that comes from below


@refusing_renamed
def accumulate(
    source: Source,
    covariance_type: CovarianceType = "full",
    *,
    fourth_moments: bool = False,
    exact: bool = False,
    missing: MissingRows | None = None,
    rule: RowRule | None = None,
    scheduler: Scheduler = None,
    progress: Progress = False,
    rows_per_task: int | None = None,
    retries: int = RETRIES,
    checkpoint: Path | None = None,
) -> Statistics:
    """Read a source once and return the statistics of all its rows.

    The order in which rows are added and merged is fixed by the source, so every scheduler and any
    number of workers gives the same bits.

    Parameters
    ----------
    source : Source
        As `scan_parquet`, `scan_arrow`, `scan_zarr` and `scan_dask` return it.
    covariance_type : {"full", "tied", "diag"}, default="full"
        What to keep of the scatter within the classes; see `ClassStatistics`.
    fourth_moments : bool, default=False
        Whether to keep fourth moments too, for ``shrinkage="auto"``; see `ClassStatistics`.
    exact : bool, default=False
        Whether to keep exact sums: the same bits however the source is cut, and rows can be taken out
        again; see `ExactClassStatistics`.
    missing : {"raise", "marginal"} or Marginal, optional
        How to learn from rows in which features are missing, as models do. With "marginal", statistics are
        those by pattern of a few patterns, see `IncompleteStatistics`, or ordinary ones if no row lacks a
        feature. If there are too many patterns, EM reads the source once more for each step, starting from
        the available cases, and the statistics are those that complete rows are expected to have, at the
        maximum of the likelihood; `Marginal` says how often. If not given, a source with
        ``missing="marginal"`` is read once, by pattern in any case, and any other one is refused such rows.
    rule : RowRule, optional
        A rule that divides the rows of each class, such as the `subclass_centers_` of a
        `MixtureDiscriminantAnalysis`.
    scheduler : optional
        What `dask.compute` takes: "threads", "synchronous", "processes", a `distributed.Client` (of a
        cluster, or of its address). None follows Dask's own rule: an active client, else the configured
        scheduler, else threads. A stream (a Polars, DuckDB or pandas frame, a RecordBatchReader) can be read
        in this process only: None then means threads even if a client is active. In a script, "processes"
        needs the guard ``if __name__ == "__main__":``, since new processes import the script.
    progress : bool or callable, default=False
        True shows rows done, rows per second and the time left, in a terminal or a notebook. It also shows
        how much each step of EM changed the parameters. A function is called with a `PassProgress` after each
        task.
    rows_per_task : int, optional
        The most rows that are read into one state. A state holds at least one part of the source, even if
        that part has more rows. The default is 262,144, or fewer if there are more than 256 features; and
        more where the labels that stand first in Parquet files tell that states are large. A larger number
        makes fewer and longer tasks, which send fewer states. Another number may change the last bits of
        sums.
    retries : int, default=3
        How often a task reads its rows again, after a pause, if the storage fails for a moment. A warning
        says how often this was needed. Errors that would come again, such as that of a damaged file, are
        raised at once. A stream is never read twice.
    checkpoint : str or path, optional
        A folder, or a URL such as "s3://bucket/folder", in which the pass keeps the states of finished parts
        of the source. If the pass is interrupted, the same call loads these states and reads only the other
        parts. States are found by the versions of their files, so changed files are read anew. The workers
        write the states, so all of them must reach the folder. The source must be of Parquet or Zarr. If EM
        reads the source several times, states of the first read are kept.

    Returns
    -------
    ClassStatistics, ExactClassStatistics or IncompleteStatistics

    Raises
    ------
    ValueError
        If the source has no rows, or has values that cannot be learnt from; the message says where. If
        `rows_per_task` or `retries` is not a whole number, or is too small.
    TypeError
        If `source` is not a source, or is a stream that `scheduler` would read in another process. If a
        checkpoint is given and the source is not of Parquet or Zarr. If `progress` is neither a bool nor a
        function.

    Warns
    -----
    UserWarning
        If storage failed and rows were read again.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> from streamgda import accumulate, scan_parquet
    >>> folder = tempfile.mkdtemp()
    >>> pq.write_table(pa.table({"width": [1.0, 3.0, 8.0], "kind": ["a", "a", "b"]}), f"{folder}/1.parquet")
    >>> accumulate(scan_parquet(folder, "kind"), "diag").means
    array([[2.],
           [8.]])
    """
    if not isinstance(source, Source):
        raise TypeError(
            f"only a source can be accumulated, got {type(source).__name__}; scan makes a source of "
            "a path, scan_dask makes a source of a Dask collection, and rows in memory are added by "
            "ClassStatistics().update(X, y), or become a source by scan_arrow"
        )
    check_whole(retries, "retries", 0)
    if rows_per_task is not None:
        check_whole(rows_per_task, "rows_per_task", 1)
    required = Required(covariance_type, fourth_moments, exact)
    empty = empty_statistics(required, missing=missing or source.missing_rows, rule=rule)
    policy, states = None if missing is None else policy_of(missing), None
    if checkpoint is not None:
        from streamgda.jobs.passes.checkpoint import Checkpoint  # and with it pyarrow, where it is used

        states = Checkpoint.at(checkpoint, source, empty if policy is None else policy.first(empty))
    how: dict[str, Any] = {"rows_per_task": rows_per_task, "retries": retries, "checkpoint": states}
    if policy is None:
        return read_into(source, empty, scheduler, progress, **how)
    from streamgda.models.estimators.reading import note_read, warn_unless_enough_reads

    read = partial(read_into, source.pinned(), scheduler=scheduler, progress=progress, **how)
    reading = policy.read(read, empty, note=note_read if progress is True else None)
    warn_unless_enough_reads(reading)
    return reading.statistics


S = TypeVar("S", bound=Any)


def read_into(
    source: Source,
    empty: S,
    scheduler: Scheduler = None,
    progress: Progress = False,
    *,
    rows_per_task: int | None = None,
    retries: int = RETRIES,
    checkpoint: Checkpoint | None = None,
) -> S:
    """Read a source once, and return its rows added to an empty state.

    Parameters
    ----------
    source, scheduler, progress, rows_per_task, retries
        As for `accumulate`.
    checkpoint : Checkpoint, optional
        Where states are kept. It is used only if `empty` is of the kind of statistics that it keeps.
    empty : state
        A state without rows, of any sort that has `n_rows`, `n_dropped`, `copy`, `update_blocks` and ``+=``.
        It is not changed.

    Raises
    ------
    ValueError, TypeError
        As `accumulate` does.
    """
    scheduler = scheduler_for(source, scheduler)
    if checkpoint and checkpoint.kind != type(empty).__name__:
        checkpoint = None
    opening = opening_on(scheduler)
    splits = source.planned(opening)
    if rows_per_task is None and isinstance(empty, Statistics):
        rows_per_task = _rows_beside_state(splits, source.n_features, empty, opening)
    groups = list(group_into_tasks(splits, source.n_features, rows_per_task))
    plan = Plan(groups, accumulate_splits, empty, retries=retries, checkpoint=checkpoint)
    state: S = compute_plan(plan, scheduler, progress) if groups else empty
    if not state.n_rows:
        spent = ". A reader that has been read gives no rows again" if source.is_one_shot else ""
        raise ValueError(
            f"there is nothing to accumulate: {source!r} has no rows that count "
            f"({state.n_dropped} dropped, all others filtered out or of weight zero){spent}"
        )
    return state


def _rows_beside_state(
    splits: Sequence[Split], n_features: int | None, empty: Statistics, each: MapFunction
) -> int | None:
    """How many rows a task reads if its state is so large that to make and merge it takes as long; else None.

    The classes are estimated from the labels of the first rows, as if these were drawn evenly.
    """
    n_rows = sum(split.n_rows or 0 for split in splits)
    if not n_features or n_rows <= _FEWEST_LONG_TASKS * ROWS_PER_TASK:
        return None
    first = next(split for split in splits if split.n_rows)  # files may be empty
    ((n_seen, n_labels),) = list(each(_labels_ahead, [first]))
    n_classes = float(n_labels)
    for _ in range(_STEPS):
        n_classes = n_labels / -np.expm1(-n_seen / n_classes) if n_labels else 0.0
    kind, d = kind_named(empty.covariance_type), n_features
    n_numbers = 2 * n_classes * d + kind.n_packed(round(n_classes)) * kind.n_pairs(d)
    rows = min(int(_VALUES_PER_NUMBER * n_numbers / d), n_rows // _FEWEST_LONG_TASKS)
    return rows if rows > ROWS_PER_TASK else None


def _labels_ahead(split: Split) -> tuple[int, int]:
    return retried(split.labels_ahead) or (0, 0)


def accumulate_splits(splits: Iterable[Split], empty: S) -> S:
    """One task: read consecutive splits in order, and add their rows to a copy of `empty`."""
    state: S = empty.copy()
    state.update_blocks(chain.from_iterable(split.blocks() for split in splits), Workspace())
    return state
