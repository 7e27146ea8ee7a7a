"""The merged state of all entries, kept so that a report need not merge them anew each night."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow.fs as pafs

from streamgda import tables
from streamgda.ledger.entries import digest
from streamgda.protocol import Statistics
from streamgda.states import state_of


@dataclass(frozen=True)
class Total:
    """A state, and of which entries it is: only ever what they add up to, so it may be missing."""

    filesystem: pafs.FileSystem
    path: str

    def read(self, entries: Collection[str]) -> Statistics | None:
        """The state of just these entries; None, if another one or none stands there."""
        try:
            table, metadata = tables.read(self.path, self.filesystem)
            return state_of(table, metadata, self.path) if metadata.get("of") == _of(entries) else None
        except (FileNotFoundError, ValueError):
            return None

    def write(self, statistics: Statistics, entries: Collection[str]) -> None:
        """Put the state of these entries in place of the one that stands there."""
        columns, metadata = statistics.to_columns()
        tables.write(self.path, tables.to_arrow(columns), {**metadata, "of": _of(entries)}, self.filesystem)


def _of(entries: Collection[str]) -> str:
    return digest(sorted(entries), 16)
