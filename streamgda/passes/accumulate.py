"""The pass that learns: read a source once, and return the statistics of all its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from operator import add, iadd
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from streamgda.blocks.folds import FoldRule
from streamgda.passes.blas import single_blas_thread
from streamgda.passes.compute import compute_plan
from streamgda.passes.incomplete import note_read, warn_unless_enough_reads
from streamgda.passes.plan import Plan, State, n_rows_of, plan_fold
from streamgda.passes.schedulers import Scheduler, client_of, scheduler_for
from streamgda.sources.base import Source, Split, group_into_tasks
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceType
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.folded import FoldStatistics
from streamgda.statistics.gather import Workspace
from streamgda.statistics.incomplete.reads import TOLERANCE, Steps, read_incomplete
from streamgda.statistics.incomplete.state import MAX_PATTERNS, IncompleteStatistics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dask.delayed import Delayed

    from streamgda.blocks.block import Block


def accumulate(
    source: Source,
    covariance_type: CovarianceType = "full",
    *,
    fourth_moments: bool = False,
    exact: bool = False,
    max_patterns: int = MAX_PATTERNS,
    max_reads: int = 1,
    em_tol: float = TOLERANCE,
    scheduler: Scheduler = None,
    progress: bool = False,
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
    progress : bool, default=False
        Show rows done, rows per second and the time left, in a terminal or a notebook; and of each step of
        EM how much it changed.

    Returns
    -------
    ClassStatistics or ExactClassStatistics; IncompleteStatistics of a source with ``missing="keep"``

    Raises
    ------
    ValueError
        If the source has no rows, or values that cannot be learnt from; the message says where.
    TypeError
        If `source` is no source, or a stream that `scheduler` would read in another process.

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
    empty = empty_statistics(
        covariance_type,
        fourth_moments=fourth_moments,
        exact=exact,
        incomplete=source.keeps_missing,
        max_patterns=max_patterns,
    )
    if isinstance(empty, IncompleteStatistics) and max_reads > 1:
        read = partial(read_into, source.pinned(), scheduler=scheduler, progress=progress)
        steps = Steps(max_reads, em_tol)
        reading = read_incomplete(read, empty, steps, note_read if progress else None)
        warn_unless_enough_reads(reading)
        return reading.statistics
    return read_into(source, empty, scheduler, progress)


def accumulate_folds(
    source: Source,
    covariance_type: CovarianceType = "full",
    *,
    rule: FoldRule,
    fourth_moments: bool = False,
    exact: bool = False,
    incomplete: bool = False,
    max_patterns: int = MAX_PATTERNS,
    scheduler: Scheduler = None,
    progress: bool = False,
) -> FoldStatistics:
    """Read a source once and return the statistics of the rows of each fold.

    Parameters
    ----------
    source : Source
        With the groups that the rule asks for.
    covariance_type, fourth_moments, exact, scheduler, progress
        As for `accumulate`.
    rule : FoldRule
        Which fold a row is of.
    incomplete : bool, default=False
        Whether rows may lack features; as they may in a source with ``missing="keep"``.
    max_patterns : int, default=256
        How many patterns of observed features may then be kept in all folds together.

    Raises
    ------
    ValueError, TypeError
        As `accumulate` does.
    """
    _check_source(source)
    empty = empty_statistics(
        covariance_type,
        fourth_moments=fourth_moments,
        exact=exact,
        incomplete=incomplete or source.keeps_missing,
        max_patterns=max_patterns,
    )
    return read_into(source, FoldStatistics(empty, rule), scheduler, progress)


class Accumulating(State, Protocol):
    """A state to which blocks of rows are added."""

    def copy(self) -> Self:
        """A state of the same rows that does not change with this one."""

    def update_blocks(self, blocks: Iterator[Block], workspace: Workspace) -> None:
        """Add the rows of some blocks."""


S = TypeVar("S", bound=Accumulating)


def read_into(source: Source, empty: S, scheduler: Scheduler = None, progress: bool = False) -> S:
    """Read a source once, and return its rows added to an empty state.

    Parameters
    ----------
    source, scheduler, progress
        As for `accumulate`.
    empty : state
        Without rows; it is left as it is.

    Raises
    ------
    ValueError, TypeError
        As `accumulate` does.
    """
    _check_source(source)
    scheduler = scheduler_for(source, scheduler)
    groups = list(group_into_tasks(source.splits(), n_rows_of, source.n_features))
    if not groups:
        raise ValueError(
            f"there is nothing to accumulate: {source!r} has no rows, or none that its filters let through"
        )
    merge = add if client_of(scheduler) else iadd  # on a cluster, what a merge is of may be asked for again
    plan = plan_pass(groups, empty, merge)
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


def plan_pass(
    groups: Sequence[Sequence[Split | Delayed]],
    empty: Accumulating,
    merge: Callable[[Any, Any], Any] = add,
) -> Plan:
    """The graph of a pass whose states are statistics like `empty`."""
    return plan_fold(groups, accumulate_splits, empty, merge)


def accumulate_splits(splits: Iterable[Split], empty: S) -> S:
    """One task: read consecutive splits in order, and add their rows to a copy of `empty`."""
    statistics = empty.copy()
    with single_blas_thread:
        statistics.update_blocks(chain.from_iterable(split.blocks() for split in splits), Workspace())
    return statistics
