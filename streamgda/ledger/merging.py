"""Merge the statistics of entries one after the other, so that few are in memory at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

from streamgda.ledger.entries import EntryFolder
from streamgda.statistics.base import Statistics


def merged(
    entries: EntryFolder, names: Sequence[str], empty: Statistics, weights: Iterable[float] | None = None
) -> Statistics:
    """The merged statistics of some entries, in order.

    Parameters
    ----------
    entries : EntryFolder
        Where they are.
    names : sequence of str
        The entries to merge.
    empty : Statistics
        What no entries add up to.
    weights : iterable of float, optional
        A factor for each entry, by which its rows are weighed; 1 where not given.
    """
    total: Statistics | None = None
    states = entries.statistics(names)
    for weight in weights or repeat(1.0, len(names)):
        part = next(states)
        if weight != 1.0:
            part.decay(max(weight, _LEAST))
        total = part if total is None else total.merge(part)
        del part  # or it would be held while the next one is read
    return empty.copy() if total is None else total


_LEAST = 1e-300  # a weight of 0 would be no row at all, and lose the class
