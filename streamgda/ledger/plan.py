"""What a refresh has to do: which files to read, whose statistics to keep, and which are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamgda.ledger.manifest import FileRecord, Manifest
from streamgda.ledger.names import entry_name
from streamgda.ledger.report import RefreshReport
from streamgda.sources.base import InputFile


@dataclass(frozen=True)
class RefreshPlan:
    """What becomes of each file.

    Attributes
    ----------
    reused : dict
        By path, the holdings that stay as they are.
    found : dict
        By the name of its entry, each file whose entry is there though the manifest does not know it: a
        refresh that was interrupted had read it.
    missing : dict
        By the name that its entry will have, each file to read.
    held : dict
        By path, all the holdings that there were before.
    dropped : sequence of str
        The paths of those whose files are gone.
    """

    reused: Mapping[str, FileRecord]
    found: Mapping[str, InputFile]
    missing: Mapping[str, InputFile]
    held: Mapping[str, FileRecord]
    dropped: Sequence[str]

    def report(self, *, dry_run: bool, **outcome: Any) -> RefreshReport:
        """The report of a refresh that follows this plan."""
        read = {file.path: file for file in (*self.missing.values(), *self.found.values())}
        known = {path: file for path, file in read.items() if path in self.held}
        changed = {path for path, file in known.items() if self.held[path].version != file.version}
        return RefreshReport(
            dry_run=dry_run,
            added=tuple(sorted(read.keys() - known.keys())),
            changed=tuple(sorted(changed)),
            reread=tuple(sorted(known.keys() - changed)),
            reused=tuple(sorted(self.reused)),
            dropped=tuple(sorted(self.dropped)),
            **outcome,
        )


def plan_refresh(
    files: Sequence[InputFile], manifest: Manifest, entries: Collection[str], read_options: Mapping[str, Any]
) -> RefreshPlan:
    """Compare the files of a source with what a ledger holds, and with the entries that are there.

    An entry that holds several files is of use only while all of them are there, unchanged.

    Raises
    ------
    ValueError
        If a file is listed more than once.
    """
    present = {file.path: file for file in files}
    if len(present) < len(files):
        twice = next(path for path, times in Counter(file.path for file in files).items() if times > 1)
        raise ValueError(f"{twice} is listed more than once; a ledger counts each file once, so list it once")
    whole = {
        entry
        for entry, records in manifest.entries.items()
        if entry in entries and all(_is_unchanged(record, present) for record in records)
    }
    reused = {path: record for path, record in manifest.records.items() if record.entry in whole}
    found: dict[str, InputFile] = {}
    missing: dict[str, InputFile] = {}
    for path, file in present.items():
        if path not in reused:
            name = entry_name(file, read_options)
            (found if name in entries else missing)[name] = file
    dropped = [path for path in manifest.records if path not in present]
    return RefreshPlan(reused, found, missing, manifest.records, dropped)


def _is_unchanged(record: FileRecord, present: Mapping[str, InputFile]) -> bool:
    return record.path in present and present[record.path].version == record.version
