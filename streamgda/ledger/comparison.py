"""Compare the rows that a refresh has read with those that were held before."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np

from streamgda.ledger.drift import drift
from streamgda.ledger.entries import S
from streamgda.ledger.folder import LedgerFolder
from streamgda.ledger.manifest import FileRecord, Manifest
from streamgda.ledger.merging import merged
from streamgda.ledger.states import total_of
from streamgda.statistics.base import Statistics


def compare(
    folder: LedgerFolder, held: Manifest, now: Manifest, there: Container[str], empty: S
) -> dict[str, Any]:
    """What a report says of the rows that are new: those of files that were not held in this version.

    The total of all that is held is kept for the next time, where nothing was dropped.

    Parameters
    ----------
    folder : LedgerFolder
        Where the entries are.
    held, now : Manifest
        Before and after the refresh.
    there : container of str
        The entries that are in the folder.
    empty : Statistics or FoldStatistics
        The statistics of no rows.
    """
    new_entries = sorted({record.entry for record in now.records.values() if _is_new(record, held)})
    if not new_entries:
        return {}
    new, old = merged(folder.entries, new_entries, empty), folder.total.read(held, empty)
    if old is None:
        old = merged(folder.entries, [name for name in held.entries if name in there], empty)
    if held.entries.keys() <= now.entries.keys():
        folder.total.write(old + new, now)
    difference = _difference(total_of(old), total_of(new))
    return {"feature_names": total_of(new).feature_names or (), **difference}


def _is_new(record: FileRecord, held: Manifest) -> bool:
    known = held.records.get(record.path)
    if known is None or known.version != record.version:
        return True
    return None not in (known.footer, record.footer) and known.footer != record.footer


def _difference(old: Statistics, new: Statistics) -> dict[str, Any]:
    if old.classes.dtype.kind != new.classes.dtype.kind:  # partition keys that became text, say
        return {"new_classes": tuple(new.classes.tolist())}
    return {
        "new_classes": tuple(np.setdiff1d(new.classes, old.classes, assume_unique=True).tolist()),
        "drift": tuple(drift(old, new)) if old.n_rows and new.n_rows else (),
    }
