"""How far a pass is: what a bar shows, and what a function of the user's is called with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from streamgda.data.sources.running import PassProgress, Progress
from streamgda.data.sources.splits import Groups, total


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
        """Report the end of a pass if rows were dropped, or if its rows or tasks became known only then.

        The scheduler may be a function that does not call back after each task.
        """
        if not self.tell:
            return
        n_dropped = sum(getattr(state, "n_dropped", 0) for state in states)
        if n_dropped or self.total_rows is None or self._tasks < len(self._groups):
            n_rows = self.total_rows
            if n_rows is None:
                n_rows = sum(state.n_rows + state.n_dropped for state in states)
            self._tasks = len(self._groups)
            self._say(n_rows, n_rows, n_dropped)

    def _say(self, rows: int, total_rows: int | None, n_dropped: int = 0) -> None:
        assert self.tell is not None
        done = (rows, total_rows, self._tasks, len(self._groups), self._bytes)
        self.tell(PassProgress(*done, time.monotonic() - self._start, n_dropped))


@contextmanager
def telling(progress: Progress, groups: Groups) -> Iterator[Listener]:
    """Yield the listener of a pass: it shows a bar if `progress` is True, and tells nobody if it is False."""
    if progress is not True:
        yield Listener(progress or None, groups)
        return
    from tqdm.auto import tqdm

    def show(report: PassProgress) -> None:
        if report.dropped:
            bar.set_postfix_str(f"{report.dropped:,} dropped")
        bar.update(report.rows - bar.n)

    listener = Listener(show, groups)
    with tqdm(total=listener.total_rows, unit=" rows", unit_scale=True) as bar:
        yield listener
