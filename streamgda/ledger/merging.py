"""Merge the statistics of entries one after the other, so that few are in memory at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, cast

from streamgda.ledger.entries import EntryFolder, S


def merged(entries: EntryFolder, names: Sequence[str], empty: S, weights: Iterable[float] | None = None) -> S:
    """The merged statistics of some entries, in order.

    Parameters
    ----------
    entries : EntryFolder
        Where they are.
    names : sequence of str
        The entries to merge.
    empty : Statistics or FoldStatistics
        What no entries add up to.
    weights : iterable of float, optional
        A factor for each entry, by which its rows are weighed; 1 where not given.
    """
    total: Any = None
    states = entries.statistics(names, empty)
    for name, weight in zip(names, weights or repeat(1.0), strict=False):
        part: Any = next(states)
        if weight != 1.0:
            part.decay(max(weight, _LEAST))
        try:
            total = part if total is None else added(total, part)
        except ValueError as error:
            raise ValueError(f"{entries.path}/{name} does not fit the other entries: {error}") from error
        del part  # or it would be held while the next one is read
    return cast("S", empty.copy() if total is None else total)


def added(total: Any, part: Any) -> Any:
    """The sum of two states, in place of one of them: of that which keeps patterns of missing features."""
    keeps = [getattr(state, "keeps_patterns", False) for state in (total, part)]
    return part.merge(total) if keeps == [False, True] else total.merge(part)


_LEAST = 1e-300  # a weight of 0 would be no row at all, and lose the class
