"""How far a pass is: what a bar shows, and what a function of the user's is called with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from streamgda.data.sources.base import Groups, total


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


# Whether to show a bar; or a function to call with a `PassProgress`.
Progress: TypeAlias = bool | Callable[[PassProgress], object]


class Listener:
    """Adds up what is done of a pass, and calls a function with the progress.

    Parameters
    ----------
    tell : callable or None
        The function to call, if any.
    groups : sequence of sequences of Split
        What the pass reads, one group in a task.
    """

    def __init__(self, tell: Callable[[PassProgress], object] | None, groups: Groups) -> None:
        self.tell, self._groups, self._start = tell, groups, time.monotonic()
        self.total_rows = total(split.n_rows for group in groups for split in group)
        self._rows = self._tasks = 0
        self._bytes: int | None = 0

    def advance(self, groups: Groups) -> None:
        """Add what a task has read."""
        if self.tell:
            splits = [split for group in groups for split in group]
            self._rows += sum(split.n_rows or 0 for split in splits)
            self._bytes = total([self._bytes, *(split.n_bytes for split in splits)])
            self._tasks += len(groups)
            self._say(self._rows, self.total_rows)

    def finish(self, states: Iterable[Any]) -> None:
        """Report the end of a pass whose number of rows, or whose tasks, became known only then.

        The scheduler may be a function that does not call back after each task.
        """
        if self.tell and (self.total_rows is None or self._tasks < len(self._groups)):
            n_rows = self.total_rows
            if n_rows is None:
                n_rows = sum(state.n_rows + state.n_dropped for state in states)
            self._tasks = len(self._groups)
            self._say(n_rows, n_rows)

    def _say(self, rows: int, total_rows: int | None) -> None:
        assert self.tell is not None
        seconds = time.monotonic() - self._start
        self.tell(PassProgress(rows, total_rows, self._tasks, len(self._groups), self._bytes, seconds))


@contextmanager
def telling(progress: Progress, groups: Groups) -> Iterator[Listener]:
    """Yield the listener of a pass: it shows a bar if `progress` is True, and tells nobody if it is False."""
    if progress is not True:
        yield Listener(progress or None, groups)
        return
    from tqdm.auto import tqdm

    listener = Listener(lambda report: bar.update(report.rows - bar.n), groups)
    with tqdm(total=listener.total_rows, unit=" rows", unit_scale=True) as bar:
        yield listener
