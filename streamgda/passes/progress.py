"""How far a pass is: what a bar shows, and what a function is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from streamgda.passes.plan import Amount


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
    >>> told = []
    >>> _ = accumulate(scan_arrow(table, "y"), progress=told.append)
    >>> told[-1].rows, told[-1].total_rows, told[-1].tasks
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
    tell : callable
        The function to call.
    amount : Amount
        What the pass reads.
    """

    def __init__(self, tell: Callable[[PassProgress], object], amount: Amount) -> None:
        self._tell, self._amount = tell, amount
        self._done, self._start = Amount(), time.monotonic()

    def advance(self, done: Amount) -> None:
        """Add what a task has read."""
        self._done += done
        self._say(self._done.rows or 0, self._amount.rows)

    def finish(self, states: Iterable[Any]) -> None:
        """Report the end of a pass whose number of rows, or whose tasks, became known only then.

        The scheduler may be a function that does not call back after each task.
        """
        amount = self._amount
        if amount.rows is None or self._done != amount:
            n_rows = amount.rows
            if n_rows is None:
                n_rows = sum(state.n_rows + state.n_dropped for state in states)
            self._done = amount
            self._say(n_rows, n_rows)

    def _say(self, rows: int, total_rows: int | None) -> None:
        seconds = time.monotonic() - self._start
        tasks, total_tasks = self._done.tasks, self._amount.tasks
        self._tell(PassProgress(rows, total_rows, tasks, total_tasks, self._done.bytes, seconds))


@contextmanager
def telling(progress: Progress, amount: Amount) -> Iterator[Listener | None]:
    """Yield the listener of a pass, which shows a bar if `progress` is True; None if it is False."""
    if progress is True:
        from tqdm.auto import tqdm

        with tqdm(total=amount.rows, unit=" rows", unit_scale=True) as bar:
            yield Listener(lambda told: bar.update(told.rows - bar.n), amount)
    else:
        yield Listener(progress, amount) if progress else None
