"""The pass that learns: read a source once, and return the statistics of all its rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import partial
from itertools import chain
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar, cast

from streamgda.blocks.folds import FoldRule
from streamgda.blocks.wording import Message, counted
from streamgda.passes.compute import compute_plan, opening_on
from streamgda.passes.plan import Plan, n_rows_of
from streamgda.passes.progress import Progress
from streamgda.passes.schedulers import Scheduler, scheduler_for, single_blas_thread
from streamgda.sources.ahead import begun
from streamgda.sources.base import Source, Split, group_into_tasks
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceType
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.folded import FoldStatistics
from streamgda.statistics.gather import Workspace
from streamgda.statistics.incomplete.reads import (
    READ_TOLERANCE,
    Reading,
    Steps,
    read_incomplete,
    separating,
)
from streamgda.statistics.incomplete.state import MAX_PATTERNS, IncompleteStatistics
from streamgda.statistics.validation import check_whole
from streamgda.storage.paths import Path
from streamgda.storage.retries import RETRIES

if TYPE_CHECKING:
    from streamgda.passes.checkpoint import Checkpoint


def accumulate(
    source: Source,
    covariance_type: CovarianceType = "full",
    *,
    fourth_moments: bool = False,
    exact: bool = False,
    max_patterns: int = MAX_PATTERNS,
    max_reads: int = 1,
    em_tol: float = READ_TOLERANCE,
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
    max_patterns : int, default=256
        How many patterns of observed features may be kept of a source with ``missing="keep"``; see
        `IncompleteStatistics`.
    max_reads : int, default=1
        How often such a source may be read. Where it has more patterns, it is read once more for each step of
        EM, which begins at the available cases. The statistics are then those that complete rows are
        expected to have, at the maximum of the likelihood. If more than one read is allowed and no row lacks
        a feature, they are ordinary statistics.
    em_tol : float, default=0.005
        EM ends when no read changes a mean by more than that, in standard deviations, or a covariance,
        relative to two of them.
    scheduler : optional
        What `dask.compute` takes: "threads", "synchronous", "processes", a `distributed.Client` (of a
        cluster, or of its address).
        None follows Dask's own rule: an active client, else the configured scheduler, else threads. A
        stream (a Polars, DuckDB or pandas frame, a RecordBatchReader) can be read in this process only:
        None then means threads even if a client is active.
        In a script, "processes" needs the guard ``if __name__ == "__main__":``, as all spawning does.
    progress : bool or callable, default=False
        True shows rows done, rows per second and the time left, in a terminal or a notebook; and of each step
        of EM how much it changed. A function is called with a `PassProgress` after each task.
    rows_per_task : int, optional
        How many rows are read into one state at least, if that is more than a part of the source has. Where
        not given, 262,144, and fewer of more than 256 features. More make fewer and longer tasks, and send
        fewer states; the last bits of sums may be others.
    retries : int, default=3
        How often a task reads its rows again, after a pause, where storage fails for a moment. A warning
        tells how often that was needed. Errors that come again, such as a damaged file, are raised at once,
        and a stream is never read twice.
    checkpoint : str or path, optional
        A folder, or a URL such as "s3://bucket/folder", in which states of finished parts of the source are
        kept. The same call takes them up if the pass was ended before, and reads only what is missing. States
        are found by the versions of their files, so those of changed files are read anew. The workers write
        it. For Parquet and Zarr; of EM, the first read is kept.

    Returns
    -------
    ClassStatistics or ExactClassStatistics; IncompleteStatistics of a source with ``missing="keep"``

    Raises
    ------
    ValueError
        If the source has no rows, or values that cannot be learnt from; the message says where. Or if a
        number of reads, rows or retries is no whole number, or too small.
    TypeError
        If `source` is no source, or a stream that `scheduler` would read in another process; or not one of
        files where a checkpoint is given.

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
    _check_source(source)
    check_whole(max_reads, "max_reads", 1)
    check_whole(retries, "retries", 0)
    if rows_per_task is not None:
        check_whole(rows_per_task, "rows_per_task", 1)
    empty = empty_statistics(
        covariance_type,
        fourth_moments=fourth_moments,
        exact=exact,
        incomplete=source.keeps_missing,
        max_patterns=max_patterns,
    )
    many = empty if isinstance(empty, IncompleteStatistics) and max_reads > 1 else None  # reads
    kept = None
    if checkpoint is not None:
        from streamgda.passes.checkpoint import Checkpoint  # and with it pyarrow, where it is used

        kept = Checkpoint.at(checkpoint, source, empty if many is None else separating(many))
    read = partial(
        read_into,
        source if many is None else source.pinned(),
        scheduler=scheduler,
        progress=progress,
        rows_per_task=rows_per_task,
        retries=retries,
        checkpoint=kept,
    )
    if many is not None:
        steps = Steps(max_reads, em_tol)
        reading = read_incomplete(read, many, steps, note_read if progress is True else None)
        warn_unless_enough_reads(reading)
        return reading.statistics
    return read(empty)


def accumulate_folds(
    source: Source,
    covariance_type: CovarianceType = "full",
    *,
    rule: FoldRule,
    incomplete: bool = False,
    scheduler: Scheduler = None,
    progress: Progress = False,
    **kept: Any,
) -> FoldStatistics:
    """Read a source once and return the statistics of the rows of each fold.

    Parameters
    ----------
    source : Source
        With the groups that the rule asks for.
    rule : FoldRule
        Which fold a row is of.
    incomplete : bool, default=False
        Whether rows may lack features; as they may in a source with ``missing="keep"``.
    covariance_type, **kept
        As for `empty_statistics`. The patterns of observed features are those of all folds together.
    scheduler, progress
        As for `accumulate`.

    Raises
    ------
    ValueError, TypeError
        As `accumulate` does.
    """
    _check_source(source)
    empty = empty_statistics(covariance_type, incomplete=incomplete or source.keeps_missing, **kept)
    return read_into(source, FoldStatistics(empty, rule), scheduler, progress)


S = TypeVar("S", bound=Statistics | FoldStatistics)


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
        Where states of this kind are kept.
    empty : state
        Without rows; it is left as it is.

    Raises
    ------
    ValueError, TypeError
        As `accumulate` does.
    """
    scheduler = scheduler_for(source, scheduler)
    kept = checkpoint if checkpoint and checkpoint.kind == type(empty).__name__ else None
    splits = source.planned(opening_on(scheduler))
    groups = list(group_into_tasks(splits, n_rows_of, source.n_features, rows_per_task))
    if not groups:
        raise ValueError(
            f"there is nothing to accumulate: {source!r} has no rows, or none that its filters let through"
        )
    plan = Plan(groups, accumulate_splits, empty, retries=retries, checkpoint=kept)
    state: S = compute_plan(plan, scheduler, progress)
    if not state.n_rows:
        raise ValueError(
            f"there is nothing to accumulate: {source!r} has no rows that count "
            f"({state.n_dropped} dropped, the others filtered out or of weight zero)"
        )
    return state


def _check_source(source: object) -> None:
    if isinstance(source, Source):
        return
    from streamgda.sources.conversion import is_dask

    remedy = "rows in memory are added by ClassStatistics().update(X, y), or become one by scan_arrow"
    if isinstance(source, str | PathLike):
        remedy = "scan_parquet makes one of a path"
    elif is_dask(source):
        remedy = "scan_dask makes one of a Dask collection"
    raise TypeError(f"only a source can be accumulated, got {type(source).__name__}; {remedy}")


def accumulate_splits(splits: Iterable[Split], empty: S) -> S:
    """One task: read consecutive splits in order, and add their rows to a copy of `empty`."""
    state: Any = empty.copy()
    with single_blas_thread:
        state.update_blocks(chain.from_iterable(split.blocks() for split in begun(splits)), Workspace())
    return cast("S", state)


# ---------------------------------------------------------------------- several reads


def note_read(line: str) -> None:
    """Show a line on a read, above or below a progress bar."""
    from tqdm.auto import tqdm

    tqdm.write(line)


def warn_unless_enough_reads(reading: Reading) -> None:
    """Warn if EM that reads the rows for each step stopped early."""
    if not reading.converged:
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            Message(
                f"EM has not converged in {counted(reading.n_reads, 'read')} of the rows: the last one "
                f"changed a parameter by {reading.change:.2g} standard deviations, more than "
                f"⟨em_tol={reading.tol:g}⟩. Raise ⟨max_reads⟩ or ⟨em_tol⟩, or ⟨max_patterns⟩ if memory allows"
            ),
            ConvergenceWarning,
            stacklevel=4,
        )
