"""Compare the rows that a refresh has read with those that were held before, and judge each new file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from streamgda.ledger.drift import Baseline, DriftReport
from streamgda.ledger.entries import S, added
from streamgda.ledger.folder import LedgerFolder
from streamgda.ledger.manifest import FileRecord, Manifest
from streamgda.ledger.states import total_of


def as_known(record: FileRecord, held: Manifest) -> FileRecord:
    """The record of a file that was read, with the status that it had if it has not changed."""
    known = held.records.get(record.path)
    if known is None or _is_new(record, held):
        return record
    return replace(record, status=known.status, alarm=known.alarm)


def compare(
    folder: LedgerFolder,
    held: Manifest,
    now: Manifest,
    there: Collection[str],
    empty: S,
    limits: Mapping[str, Any],
) -> tuple[Manifest, DriftReport]:
    """What a report says of the rows that are new: those of files that were not there in this version.

    Each new file is judged by itself, against all that counted before the refresh. The total of all that
    counts now is kept for the next time, where nothing was dropped.

    Parameters
    ----------
    folder : LedgerFolder
        Where the entries are.
    held, now : Manifest
        Before and after the refresh.
    there : collection of str
        The entries that are in the folder.
    empty : Statistics or FoldStatistics
        The statistics of no rows.
    limits : mapping
        How far a file may drift; the arguments of `DriftReport.alarms`.

    Returns
    -------
    now : Manifest
        With the files quarantined that have drifted further.
    report : DriftReport
        Of all the new files together.
    """
    new = [now.records[path] for path in sorted(now.records) if _is_new(now.records[path], held)]
    if not new:
        return now, DriftReport()
    before = held.held
    old = folder.total.read(before, empty)
    if old is None:
        old = folder.entries.merged([name for name in before.entries if name in there], empty)
    baseline = Baseline(total_of(old))
    alarms = {}
    if old.n_rows:
        states = folder.entries.statistics([record.entry for record in new], empty)
        for record, state in zip(new, states, strict=True):
            if found := baseline.drift(total_of(state)).alarms(**limits):
                alarms[record.path] = replace(record, status="quarantined", alarm="; ".join(found))
    now = Manifest(now.read_options, {**now.records, **alarms})
    taken, apart = (
        folder.entries.merged([record.entry for record in new if (record.path in alarms) is is_apart], empty)
        for is_apart in (False, True)
    )
    report = baseline.drift(total_of(added(taken.copy(), apart)))
    if before.entries.keys() <= now.held.entries.keys():
        folder.total.write(added(old, taken), now.held)
    return now, report


def _is_new(record: FileRecord, held: Manifest) -> bool:
    """Whether this version of the file has not been seen: its size and time, or its footer, are others."""
    known = held.records.get(record.path)
    if known is None or known.version != record.version:
        return True
    return None not in (known.footer, record.footer) and known.footer != record.footer
