"""The pass: a plan that depends on the source alone, and its execution by Dask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from streamgda.blas import single_blas_thread
from streamgda.covariances import CovarianceType, kind_named
from streamgda.moments import Workspace
from streamgda.source import ROWS_PER_TASK, Source, Split
from streamgda.statistics import ClassStatistics

_FAN_IN = 8


def accumulate(
    source: Source,
    covariance_type: CovarianceType = "full",
    *,
    scheduler: Any = None,
    progress: bool = False,
) -> ClassStatistics:
    """Read a source once and return the statistics of all its rows.

    The order in which rows are added and merged is fixed by the source, so every scheduler and any
    number of workers gives the same bits.

    Parameters
    ----------
    source : Source
        Such as `scan_parquet` returns.
    covariance_type : {"full", "tied", "diag"}, default="full"
        What to keep of the scatter within the classes; see `ClassStatistics`.
    scheduler : optional
        What `dask.compute` takes: "threads", "synchronous", "processes", a `distributed.Client`.
        None follows Dask's own rule: an active client, else the configured scheduler, else threads.
    progress : bool, default=False
        Show rows done, rows per second and the time left, in a terminal or a notebook.

    Returns
    -------
    ClassStatistics

    Raises
    ------
    ValueError
        If the source has no rows, or holds what it should not; the message says where.

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
    kind_named(covariance_type)
    groups = list(_group(source.splits()))
    if not groups:
        raise ValueError(f"there is nothing to accumulate: {source!r} has no rows")
    statistics = _run(groups, covariance_type, scheduler, progress)
    if not statistics.n_rows:
        raise ValueError(
            f"there is nothing to accumulate: {source!r} has no rows that count "
            f"({statistics.n_dropped} dropped, the others of weight zero)"
        )
    return statistics


def _group(splits: Iterable[Split]) -> Iterator[list[Split]]:
    """Consecutive splits that together are worth a task."""
    group: list[Split] = []
    rows = 0
    for split in splits:
        if group and rows + split.n_rows > ROWS_PER_TASK:
            yield group
            group, rows = [], 0
        group.append(split)
        rows += split.n_rows
    if group:
        yield group


def _run(
    groups: Sequence[Sequence[Split]], covariance_type: CovarianceType, scheduler: Any, progress: bool
) -> ClassStatistics:
    from dask.base import tokenize
    from dask.delayed import delayed

    token = tokenize(object(), covariance_type)
    keys = [f"accumulate-{token}-{i}" for i in range(len(groups))]
    parts = [
        delayed(partial(accumulate_splits, group, covariance_type), pure=False)(dask_key_name=key)
        for key, group in zip(keys, groups, strict=True)
    ]
    while len(parts) > 1:
        parts = [delayed(merge_all)(parts[i : i + _FAN_IN]) for i in range(0, len(parts), _FAN_IN)]
    rows = {key: sum(split.n_rows for split in group) for key, group in zip(keys, groups, strict=True)}
    with single_blas_thread, _progress_bar(rows) if progress else nullcontext():
        statistics: ClassStatistics = parts[0].compute(scheduler=scheduler)
    return statistics


def accumulate_splits(splits: Iterable[Split], covariance_type: CovarianceType) -> ClassStatistics:
    """One task: the statistics of consecutive splits, read and added in order."""
    statistics = ClassStatistics(covariance_type)
    workspace = Workspace()
    with single_blas_thread:
        for split in splits:
            statistics.update_blocks(split.blocks(), workspace)
    return statistics


def merge_all(parts: Sequence[ClassStatistics]) -> ClassStatistics:
    """One task: the merged statistics of a few parts, in order."""
    return sum(parts[1:], start=parts[0].copy()) if len(parts) > 1 else parts[0]


@contextmanager
def _progress_bar(rows_of_task: dict[str, int]) -> Iterator[None]:
    """A bar that moves by the rows of each task that ends."""
    from dask.callbacks import Callback
    from tqdm.auto import tqdm

    with tqdm(total=sum(rows_of_task.values()), unit=" rows", unit_scale=True) as bar:

        def advance(key: Any, *_: Any) -> None:
            bar.update(rows_of_task.get(key, 0))

        with Callback(posttask=advance):
            yield
