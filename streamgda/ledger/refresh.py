"""The steps of a refresh: plan which files to read, read them, and compare their rows with those held."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from streamgda.ledger.drift import Baseline, DriftReport, RefreshReport
from streamgda.ledger.folder import LedgerFolder, S, State, total_of
from streamgda.ledger.manifest import FileRecord, Manifest, entry_name
from streamgda.passes.accumulate import accumulate_splits
from streamgda.passes.compute import Scheduler, compute_plans, opening_on
from streamgda.passes.plan import Plan
from streamgda.passes.progress import Progress
from streamgda.sources.base import FilePlan, FileSource, InputFile, Map, Split, group_into_tasks
from streamgda.sources.maps import is_of_map
from streamgda.storage.filesystems import Version
from streamgda.storage.retries import repeated

OnError = Literal["raise", "skip"]

# ---------------------------------------------------------------------- planning


@dataclass(frozen=True)
class RefreshPlan:
    """What happens to each file.

    Attributes
    ----------
    source : FileSource
        The files that are there now.
    held : Manifest
        The manifest before the refresh.
    reused : Manifest
        The manifest with only the records that stay unchanged.
    found : mapping of str to InputFile
        The files whose entries exist although the manifest does not name them, by the name of the entry. An
        interrupted refresh has written these entries.
    missing : mapping of str to InputFile
        The files to read, by the name that the entry of each will have.
    dropped : sequence of str
        The paths of the files that are gone.
    """

    source: FileSource
    held: Manifest
    reused: Manifest
    found: Mapping[str, InputFile]
    missing: Mapping[str, InputFile]
    dropped: Sequence[str]

    def report(
        self, now: Manifest, drift: DriftReport, skipped: Mapping[str, str], *, dry_run: bool = False
    ) -> RefreshReport:
        """The report of a refresh that follows this plan.

        Parameters
        ----------
        now : Manifest
            After the refresh.
        drift : DriftReport
            Of the new rows.
        skipped : mapping of str to str
            The files that could not be read, and why.
        dry_run : bool, default=False
            Whether nothing was done.
        """
        files = (*self.missing.values(), *self.found.values())
        read = {file.path: file for file in files if file.path not in skipped}
        known = {path: file for path, file in read.items() if path in self.held.records}
        changed = {path for path, file in known.items() if not self.held.records[path].is_of(file)}
        return RefreshReport(
            dry_run=dry_run,
            added=tuple(sorted(read.keys() - known.keys())),
            changed=tuple(sorted(changed)),
            reread=tuple(sorted(known.keys() - changed)),
            reused=tuple(sorted(now.held.records.keys() - read.keys())),
            dropped=tuple(sorted(self.dropped)),
            skipped=dict(sorted(skipped.items())),
            quarantined=now.quarantined,
            rejected=now.rejected,
            rows=0 if dry_run else sum(now.records[path].rows for path in read),
            rows_held=0 if dry_run else now.held.n_rows,
            **vars(drift),
        )


def plan_refresh(
    source: FileSource,
    held: Manifest,
    entries: Collection[str],
    read_options: Mapping[str, Any],
    *,
    verify: bool,
    each: Map,
) -> RefreshPlan:
    """Compare the files of a source with the records of a ledger, and with the entries that are there.

    An entry of several files can be used only while all of them are there and unchanged.

    Parameters
    ----------
    source : FileSource
        The files.
    held : Manifest
        The records.
    entries : collection of str
        The names of the entries.
    read_options : mapping
        What is read of each file.
    verify : bool
        Whether a file that seems unchanged must also have the same footer.
    each : callable
        Reads these footers.
    """
    files = source.files()
    for file in files:
        file.version.warn_if_size_alone(file.path)
    if verify:
        alike = [file for file in files if file.path in held.records and held.records[file.path].is_of(file)]
        footers = dict(zip((file.path for file in alike), source.footers(alike, each), strict=True))
        files = [replace(file, footer=footers.get(file.path)) for file in files]
    present = {file.path: file for file in files}
    target = str(read_options.get("target"))
    reused: dict[str, FileRecord] = {}
    for entry, records in held.entries.items():
        if entry in entries and all(_is_unchanged(record, present, target) for record in records):
            for record in records:  # whose footer may have been read now
                footer = present[record.path].footer or record.footer
                reused[record.path] = replace(record, footer=footer)
    found: dict[str, InputFile] = {}
    missing: dict[str, InputFile] = {}
    for path, file in present.items():
        if path not in reused:
            name = entry_name(file, read_options)
            (found if name in entries else missing)[name] = file
    dropped = [path for path in held.records if path not in present]
    return RefreshPlan(source, held, Manifest(read_options, reused), found, missing, dropped)


def _is_unchanged(record: FileRecord, present: Mapping[str, InputFile], target: str) -> bool:
    """Whether a file is there, unchanged. If a partition key is the label, its type must be unchanged too."""
    file = present.get(record.path)
    if file is None or not record.is_of(file):
        return False
    return target not in file.partition or record.partition_keys.get(target) == file.partition[target]


# ---------------------------------------------------------------------- reading


def read_files(
    source: FileSource,
    files: Mapping[str, InputFile],
    folder: LedgerFolder,
    empty: State,
    scheduler: Scheduler,
    progress: Progress,
    on_error: OnError,
) -> tuple[list[FileRecord], dict[str, str]]:
    """Read files, write their entries, and return their records.

    `files` has the file for the name of each entry. The rows of a file are added to a copy of `empty`. Each
    entry is written as soon as its file is read, so that the file need not be read again if others fail.

    Returns
    -------
    records : list of FileRecord
        Of the files that were read.
    skipped : dict of str to str
        Why the other files could not be read, by path.
    """
    names = {file.path: name for name, file in files.items()}
    plans, skipped = _plan_files(source, list(files.values()), on_error, opening_on(scheduler))
    if not plans:
        return [], skipped
    keeping = [_plan_of_file(source, plan, names[plan.file.path], folder, empty, on_error) for plan in plans]
    outcomes = compute_plans(keeping, scheduler, progress)
    by_path = dict(zip((plan.file.path for plan in plans), outcomes, strict=True))
    skipped |= {path: reason for path, reason in by_path.items() if isinstance(reason, str)}
    return [record for record in outcomes if isinstance(record, FileRecord)], skipped


def _plan_files(
    source: FileSource, files: Sequence[InputFile], on_error: OnError, each: Map
) -> tuple[list[FilePlan], dict[str, str]]:
    """What is to be read of each file; and why the footers of some files cannot be read, by path.

    Files that cannot be read are found by halving the list.
    """
    try:
        return source.plans(files, each) if files else [], {}
    except (ValueError, OSError) as error:
        if on_error == "raise":
            raise
        if len(files) == 1:
            return [], {files[0].path: str(error)}
    middle = len(files) // 2
    (first, unread), (second, others) = (
        _plan_files(source, half, on_error, each) for half in (files[:middle], files[middle:])
    )
    return first + second, unread | others


def _plan_of_file(
    source: FileSource, plan: FilePlan, name: str, folder: LedgerFolder, empty: State, on_error: OnError
) -> Plan:
    groups = list(group_into_tasks(plan.splits)) or [[]]
    finish = partial(_keep, folder=folder, name=name, plan=replace(plan, splits=()))
    if on_error == "raise":
        return Plan(groups, accumulate_splits, empty, finish=finish)
    return Plan(groups, _fold_or_skip, empty, _merge_or_skip, finish)


def _fold_or_skip(splits: Iterable[Split], empty: State) -> Any:
    """Read some rows of a file, or return why they cannot be read."""
    try:
        return repeated(partial(accumulate_splits, splits, empty))
    except (ValueError, OSError) as error:
        if isinstance(error, OSError) and is_of_map(error):  # which says nothing about the file
            raise
        return "; ".join([str(error), *getattr(error, "__notes__", ())])


def _merge_or_skip(total: State | str, part: State | str) -> Any:
    """Merge parts of a file, or return why one of them could not be read."""
    if isinstance(total, str) or isinstance(part, str):
        return total if isinstance(total, str) else part
    try:
        return total + part
    except ValueError as error:
        return str(error)


def _keep(state: State | str, folder: LedgerFolder, name: str, plan: FilePlan) -> FileRecord | str:
    """One task: write the entry of a file, unless `state` is the reason why it could not be read."""
    if isinstance(state, str):
        return state
    record = FileRecord.of(plan, rows=state.n_rows, dropped=state.n_dropped, entry=name)
    folder.write_entry(name, state, [record])
    return record


# ---------------------------------------------------------------------- comparing


def as_known(record: FileRecord, held: Manifest) -> FileRecord:
    """The record of a file that was read. An unchanged file keeps its status and its alarm."""
    if _is_new(record, held):
        return record
    known = held.records[record.path]
    return replace(record, status=known.status, alarm=known.alarm)


def compare(
    folder: LedgerFolder,
    held: Manifest,
    now: Manifest,
    there: Mapping[str, Version],
    empty: S,
    alarms_of: Callable[[DriftReport], Sequence[str]],
) -> tuple[Manifest, DriftReport]:
    """Compare the rows of new and changed files with the rows held, and quarantine files that drifted.

    Each such file is compared by itself with all that counted before the refresh. If nothing was dropped, the
    total of all that counts now is kept for the next refresh.

    Parameters
    ----------
    folder : LedgerFolder
        Where the entries are.
    held, now : Manifest
        Before and after the refresh.
    there : mapping of str to Version
        The entries that are in the folder.
    empty : Statistics or FoldStatistics
        The statistics of no rows.
    alarms_of : callable
        Returns the alarms of a report.

    Returns
    -------
    now : Manifest
        The manifest after the refresh, in which files with alarms are quarantined.
    report : DriftReport
        Of all the new files together.
    """
    new = [now.records[path] for path in sorted(now.records) if _is_new(now.records[path], held)]
    if not new:
        return now, DriftReport()
    before = held.held
    old: Any = folder.read_total(before, empty)
    if old is None:
        old = folder.merged([name for name in before.entries if name in there], empty, there=there)
    baseline = Baseline(total_of(old))
    drifted = {}
    if old.n_rows:
        states = folder.states([record.entry for record in new], empty, there)
        for record, state in zip(new, states, strict=True):
            if alarms := alarms_of(baseline.drift(total_of(state))):
                drifted[record.path] = replace(record, status="quarantined", alarm="; ".join(alarms))
    now = now.updated(drifted.values())
    both: list[Any] = [
        folder.merged(
            [record.entry for record in new if (record.path in drifted) is is_apart], empty, there=there
        )
        for is_apart in (False, True)
    ]
    taken, apart = both
    report = baseline.drift(total_of(taken + apart))
    if before.entries.keys() <= now.held.entries.keys():
        old += taken
        folder.write_total(old, now.held)
    return now, report


def _is_new(record: FileRecord, held: Manifest) -> bool:
    """Whether a file is new, or has another version or another footer than before."""
    known = held.records.get(record.path)
    return known is None or not known.is_of(record)
