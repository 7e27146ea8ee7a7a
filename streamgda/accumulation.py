"""The pass: a plan that depends on the source alone, and its execution by Dask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from streamgda.blas import single_blas_thread
from streamgda.covariances import CovarianceType
from streamgda.empty import empty_statistics
from streamgda.moments import Workspace
from streamgda.protocol import Statistics
from streamgda.schedulers import client_of, scheduler_for
from streamgda.source import Source, Split, runs

if TYPE_CHECKING:
    from dask.delayed import Delayed

_FAN_IN = 8
_FAN_IN_OF_WIDE_STATES = 2
_WIDE = 90  # features: from here on, a full state is above 64 KB a class, and 90 classes above 5 MB


def accumulate(
    source: Source,
    covariance_type: CovarianceType = "full",
    *,
    fourth_moments: bool = False,
    exact: bool = False,
    scheduler: Any = None,
    progress: bool = False,
) -> Statistics:
    """Read a source once and return the statistics of all its rows.

    The order in which rows are added and merged is fixed by the source, so every scheduler and any
    number of workers gives the same bits.

    Parameters
    ----------
    source : Source
        Such as `scan_parquet` returns.
    covariance_type : {"full", "tied", "diag"}, default="full"
        What to keep of the scatter within the classes; see `ClassStatistics`.
    fourth_moments : bool, default=False
        Whether to keep fourth moments too, for ``shrinkage="auto"``; see `ClassStatistics`.
    exact : bool, default=False
        Whether to keep exact sums: the same bits however the source is cut, and rows can be taken out
        again; see `ExactClassStatistics`.
    scheduler : optional
        What `dask.compute` takes: "threads", "synchronous", "processes", a `distributed.Client` (of a
        cluster, or of its address).
        None follows Dask's own rule: an active client, else the configured scheduler, else threads. But a
        stream (a Polars, DuckDB or pandas frame, a RecordBatchReader) can be read in this process only, so
        None means threads for it also where a client is active.
        "processes" needs the guard ``if __name__ == "__main__":`` in a script, as all spawning does.
    progress : bool, default=False
        Show rows done, rows per second and the time left, in a terminal or a notebook.

    Returns
    -------
    ClassStatistics or ExactClassStatistics

    Raises
    ------
    ValueError
        If the source has no rows, or holds what it should not; the message says where.
    TypeError
        If it is no source, or a stream that `scheduler` would read in another process.

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
            f"only a source can be accumulated, such as scan_parquet makes; got {type(source).__name__}"
        )
    empty = empty_statistics(covariance_type, fourth_moments=fourth_moments, exact=exact)
    scheduler = scheduler_for(source, scheduler)
    groups = list(runs(source.splits(), _rows_of))
    if not groups:
        raise ValueError(
            f"there is nothing to accumulate: {source!r} has no rows, or none that its filters let through"
        )
    with single_blas_thread:
        plan = plan_pass(groups, empty, fan_in_of(source))
        statistics: Statistics = compute_plan(plan, scheduler, progress)
    if not statistics.n_rows:
        raise ValueError(
            f"there is nothing to accumulate: {source!r} has no rows that count "
            f"({statistics.n_dropped} dropped, the others filtered out or of weight zero)"
        )
    return statistics


@dataclass(frozen=True)
class Plan:
    """The Dask graph of a pass: its end, and its beginnings with the rows that each reads."""

    root: Delayed
    parts: list[Delayed]
    rows: list[int | None]


def fan_in_of(source: Source) -> int:
    """How many states are merged at once.

    Dask goes depth first, so what waits to be merged is about a merge's worth for each level of the tree,
    however many splits there are. Where states may be large, it is to be little.
    """
    return _FAN_IN_OF_WIDE_STATES if (source.n_features or 0) >= _WIDE else _FAN_IN


def plan_pass(groups: Sequence[Sequence[Split | Delayed]], empty: Statistics, fan_in: int) -> Plan:
    """The graph that reads groups of splits, a task each, and merges their states in a fixed tree."""
    from dask.delayed import delayed

    parts = [_part(group, empty) for group in groups]
    level = parts
    while len(level) > 1:
        level = [delayed(merge_all)(level[i : i + fan_in]) for i in range(0, len(level), fan_in)]
    return Plan(level[0], parts, [_total(map(_rows_of, group)) for group in groups])


def _part(group: Sequence[Split | Delayed], empty: Statistics) -> Delayed:
    from dask.delayed import delayed

    known = [split for split in group if isinstance(split, Split)]
    part: Delayed
    if len(known) == len(group):  # then Dask need not look for Delayed objects in them
        part = delayed(partial(accumulate_splits, known, empty), pure=False)()
    else:
        part = delayed(accumulate_splits, pure=False)(group, empty)
    return part


def _rows_of(split: Split | Delayed) -> int | None:
    return split.n_rows if isinstance(split, Split) else None


def _total(rows: Iterable[int | None]) -> int | None:
    """The sum, or None where it is not known."""
    known = list(rows)
    return None if None in known else sum(n for n in known if n is not None)


def accumulate_splits(splits: Iterable[Split], empty: Statistics) -> Statistics:
    """One task: the statistics of consecutive splits, read and added in order to a copy of an empty state."""
    statistics = empty.copy()
    workspace = Workspace()
    with single_blas_thread:
        for split in splits:
            statistics.update_blocks(split.blocks(), workspace)
    return statistics


def merge_all(parts: Sequence[Statistics]) -> Statistics:
    """One task: the merged statistics of a few parts, in order."""
    total = parts[0].copy()
    for part in parts[1:]:
        total.merge(part)
    return total


def compute_plan(plan: Plan, scheduler: Any, progress: bool) -> Any:
    """The result of the graph, computed where the scheduler says; with progress, where that is wished."""
    if not progress:
        return plan.root.compute(scheduler=scheduler)
    from tqdm.auto import tqdm

    client = client_of(scheduler)
    with tqdm(total=_total(plan.rows), unit=" rows", unit_scale=True) as bar:
        if client is None:
            statistics = _compute_here(plan, scheduler, bar.update)
        else:
            statistics = _compute_on(client, plan, bar.update)
        if bar.total is None:
            bar.update(statistics.n_rows + statistics.n_dropped - bar.n)
    return statistics


def _compute_here(plan: Plan, scheduler: Any, advance: Callable[[int], object]) -> Statistics:
    """Run the plan on one of Dask's local schedulers, which tell of each task that ends."""
    from dask.callbacks import Callback

    rows = {part.key: n_rows for part, n_rows in zip(plan.parts, plan.rows, strict=True)}
    with Callback(posttask=lambda key, *_: advance(rows.get(key) or 0)):
        statistics: Statistics = plan.root.compute(scheduler=scheduler)
    return statistics


def _compute_on(client: Any, plan: Plan, advance: Callable[[int], object]) -> Statistics:
    """Run the plan on a cluster, whose futures tell; each is let go as soon as it is counted."""
    from distributed import as_completed

    *parts, root = client.compute([*plan.parts, plan.root])
    rows = {part.key: n_rows for part, n_rows in zip(parts, plan.rows, strict=True)}
    with client.as_current():
        waiting = as_completed(parts)
    del parts
    for part in waiting:
        advance(rows[part.key] or 0)
        del part
    statistics: Statistics = root.result()
    return statistics
