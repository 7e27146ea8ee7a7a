"""How a read is run: on which scheduler, and who is told how far it is."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from distributed import Client

    # What `dask.compute` takes as its scheduler.
    Scheduler: TypeAlias = str | Executor | Client | Callable[..., Any] | None
else:
    Scheduler = Any  # annotations resolve without loading distributed


@dataclass(frozen=True)
class PassProgress:
    """How far a pass is. A function given as ``progress=`` is called with it after each task.

    Attributes
    ----------
    rows : int
        Rows read so far, or loaded from a checkpoint.
    total_rows : int or None
        All rows of the pass; None if they can be counted only by reading them.
    tasks, total_tasks : int
        How many groups of rows are done, and how many there are.
    bytes : int or None
        The bytes of the row groups of Parquet read so far, in all columns and before compression, as the
        footers say; None of other sources.
    seconds : float
        Since the pass began.
    dropped : int
        How many rows were left out because something was missing; known when the pass has ended.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from streamgda import accumulate, scan_arrow
    >>> table = pa.table({"x": [1.0, 3.0, 8.0], "y": [0, 0, 1]})
    >>> reports = []
    >>> _ = accumulate(scan_arrow(table, "y"), progress=reports.append)
    >>> reports[-1].rows, reports[-1].total_rows, reports[-1].tasks
    (3, 3, 1)
    """

    rows: int
    total_rows: int | None
    tasks: int
    total_tasks: int
    bytes: int | None
    seconds: float
    dropped: int = 0


# Whether to show a bar; or a function to call with a `PassProgress`.
Progress: TypeAlias = bool | Callable[[PassProgress], object]
