"""Plan a refresh: which files to read, whose statistics to reuse, and which files are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from streamgda.ledger.drift import DriftReport
from streamgda.ledger.manifest import FileRecord, Manifest
from streamgda.ledger.names import entry_name
from streamgda.ledger.report import RefreshReport
from streamgda.sources.base import FileSource, InputFile, Map

F = TypeVar("F", bound=FileSource)


@dataclass(frozen=True)
class RefreshPlan:
    """What happens to each file.

    Attributes
    ----------
    read_options : mapping
        What is read of each file.
    reused : mapping of str to FileRecord
        By path, the records that stay as they are.
    found : mapping of str to InputFile
        By the name of its entry, each file whose entry is there although the manifest does not name it: an
        interrupted refresh has written it.
    missing : mapping of str to InputFile
        By the name that its entry will have, each file to read.
    held : mapping of str to FileRecord
        By path, all records before the refresh.
    dropped : sequence of str
        The paths of the files that are gone.
    """

    read_options: Mapping[str, Any]
    reused: Mapping[str, FileRecord]
    found: Mapping[str, InputFile]
    missing: Mapping[str, InputFile]
    held: Mapping[str, FileRecord]
    dropped: Sequence[str]

    def report(
        self,
        now: Manifest,
        drift: DriftReport,
        *,
        dry_run: bool = False,
        skipped: Mapping[str, str] | None = None,
        kept: Collection[str] = (),
        rows: int = 0,
        rows_held: int = 0,
    ) -> RefreshReport:
        """The report of a refresh that follows this plan.

        Parameters
        ----------
        now : Manifest
            After the refresh.
        drift : DriftReport
            Of the new rows.
        dry_run : bool
            Whether nothing was done.
        skipped : mapping of str to str, optional
            The files that could not be read, and why.
        kept : collection of str, optional
            Those of them whose former statistics still count.
        rows, rows_held : int
            How many were read, and how many are held.
        """
        skipped = skipped or {}
        files = (*self.missing.values(), *self.found.values())
        read = {file.path: file for file in files if file.path not in skipped}
        known = {path: file for path, file in read.items() if path in self.held}
        changed = {path for path, file in known.items() if not self.held[path].is_of(file)}
        return RefreshReport(
            dry_run=dry_run,
            added=tuple(sorted(read.keys() - known.keys())),
            changed=tuple(sorted(changed)),
            reread=tuple(sorted(known.keys() - changed)),
            reused=tuple(sorted({*self.reused, *kept} & now.held.records.keys())),
            dropped=tuple(sorted(self.dropped)),
            skipped=dict(sorted(skipped.items())),
            quarantined=now.alarms(),
            rejected=now.rejected,
            rows=rows,
            rows_held=rows_held,
            **vars(drift),
        )


def listed(source: FileSource, manifest: Manifest, verify: bool, each: Map) -> list[InputFile]:
    """The files of a source; to verify them, with the footers of those that seem to be as they were.

    `each` reads the footers.
    """
    files = source.files()
    if not verify:
        return files
    records = manifest.records
    alike = [file for file in files if file.path in records and records[file.path].is_of(file)]
    footers = dict(zip((file.path for file in alike), source.footers(alike, each), strict=True))
    return [replace(file, footer=footers.get(file.path)) for file in files]


def in_held_order(source: F, manifest: Manifest | None) -> F:
    """The source with its features in the order in which a ledger holds them, if they are the same."""
    held = [] if manifest is None else list(manifest.read_options.get("features") or ())
    return source.in_order_of(held)


def plan_refresh(
    files: Sequence[InputFile], manifest: Manifest, entries: Collection[str], read_options: Mapping[str, Any]
) -> RefreshPlan:
    """Compare the files of a source with the records of a ledger, and with the entries that are there.

    An entry of several files is of use only while all of them are there, unchanged.

    Raises
    ------
    ValueError
        If a file is listed more than once.
    """
    present = {file.path: file for file in files}
    if len(present) < len(files):
        twice = next(path for path, times in Counter(file.path for file in files).items() if times > 1)
        raise ValueError(f"{twice} is listed more than once; a ledger counts each file once, so list it once")
    target = str(read_options.get("target"))
    whole = {
        entry
        for entry, records in manifest.entries.items()
        if entry in entries and all(_is_unchanged(record, present, target) for record in records)
    }
    reused = {
        path: _with_footer(record, present[path])
        for path, record in manifest.records.items()
        if record.entry in whole
    }
    found: dict[str, InputFile] = {}
    missing: dict[str, InputFile] = {}
    for path, file in present.items():
        if path not in reused:
            name = entry_name(file, read_options)
            (found if name in entries else missing)[name] = file
    dropped = [path for path in manifest.records if path not in present]
    return RefreshPlan(read_options, reused, found, missing, manifest.records, dropped)


def _is_unchanged(record: FileRecord, present: Mapping[str, InputFile], target: str) -> bool:
    """Whether a file is there as it was read; a label from a partition key must be of the same type."""
    file = present.get(record.path)
    if file is None or not record.is_of(file):
        return False
    return target not in file.partition or record.partition_keys.get(target) == file.partition[target]


def _with_footer(record: FileRecord, file: InputFile) -> FileRecord:
    """The record of an unchanged file, with its footer's digest if that is known by now."""
    return record if file.footer is None else replace(record, footer=file.footer)
