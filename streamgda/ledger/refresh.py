"""The steps of a refresh: plan which files to read, read them, and compare their rows with those held."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Literal, TypeAlias

from streamgda.ledger.drift import Baseline, DriftReport, RefreshReport
from streamgda.ledger.entries import Entry, S, State, total_of
from streamgda.ledger.folder import Contents, LedgerFolder
from streamgda.ledger.manifest import FileRecord, Manifest
from streamgda.passes.accumulate import accumulate_splits
from streamgda.passes.compute import Scheduler, compute_plans, opening_on
from streamgda.passes.plan import Plan
from streamgda.passes.progress import Progress
from streamgda.sources.base import ROWS_PER_TASK, FileSource, InputFile, Map, Split, group_into_tasks
from streamgda.sources.maps import is_of_map
from streamgda.storage.retries import repeated

OnError = Literal["raise", "skip"]

_FILES_PER_TASK = 256  # so that all threads have some, and a crash loses the work of few

# ---------------------------------------------------------------------- planning


@dataclass(frozen=True)
class RefreshPlan:
    """What happens to each file.

    Attributes
    ----------
    source : FileSource
        The files that are there now.
    before : Manifest
        The manifest before the refresh.
    reused : Manifest
        The manifest with only the records that stay unchanged.
    leftovers : sequence of FileRecord
        The files that an interrupted refresh has read: tables that the manifest does not name hold them.
    missing : sequence of InputFile
        The files to read.
    dropped : sequence of str
        The paths of the files that are gone.
    """

    source: FileSource
    before: Manifest
    reused: Manifest
    leftovers: Sequence[FileRecord]
    missing: Sequence[InputFile]
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
        files: tuple[InputFile | FileRecord, ...] = (*self.missing, *self.leftovers)
        by_path = {file.path: file for file in files if file.path not in skipped}
        former = {path: file for path, file in by_path.items() if path in self.before.records}
        changed = {path for path, file in former.items() if not self.before.records[path].is_of(file)}
        return RefreshReport(
            dry_run=dry_run,
            added=tuple(sorted(by_path.keys() - former.keys())),
            changed=tuple(sorted(changed)),
            reread=tuple(sorted(former.keys() - changed)),
            reused=tuple(sorted(now.held.records.keys() - by_path.keys())),
            dropped=tuple(sorted(self.dropped)),
            skipped=dict(sorted(skipped.items())),
            quarantined=now.quarantined,
            rejected=now.rejected,
            rows=0 if dry_run else sum(now.records[path].rows for path in by_path),
            rows_held=0 if dry_run else now.held.n_rows,
            **vars(drift),
        )


def plan_refresh(
    source: FileSource, before: Manifest, contents: Contents, folder: LedgerFolder, *, verify: bool, each: Map
) -> RefreshPlan:
    """Compare the files of a source with the records of a ledger, and with the tables that are there.

    Parameters
    ----------
    source : FileSource
        The files.
    before : Manifest
        The records, and what is read of each file now.
    contents : Contents
        What is in the folder.
    folder : LedgerFolder
        The folder, in which tables are opened that the manifest does not name.
    verify : bool
        Whether a file that seems unchanged must also have the same footer.
    each : callable
        Reads these footers.
    """
    files, records = source.files(), before.records
    for file in files:
        if file.version is not None:
            file.version.warn_if_size_alone(file.path)
    if verify:
        alike = [file for file in files if file.path in records and records[file.path].is_of(file)]
        footers = dict(zip((file.path for file in alike), source.footers(alike, each), strict=True))
        files = [replace(file, footer=footers.get(file.path)) for file in files]
    target = str(before.read_options.get("target"))
    reused: dict[str, FileRecord] = {}
    others: list[InputFile] = []
    for file in files:
        record = records.get(file.path)
        if record and record.is_usable(contents.tables) and _is_unchanged(record, file, target):
            footer = file.footer or record.footer  # which may have been read now
            reused[file.path] = record if footer == record.footer else replace(record, footer=footer)
        else:
            others.append(file)
    strays = contents.tables.keys() - before.tables if others else ()
    unnamed = folder.found(strays, before.reads)
    leftovers, missing = [], []
    for file in others:
        if file.path in unnamed and _is_unchanged(unnamed[file.path], file, target):
            leftovers.append(unnamed[file.path])
        else:
            missing.append(file)
    dropped = records.keys() - {file.path for file in files}
    unchanged = Manifest(before.read_options, reused)
    return RefreshPlan(source, before, unchanged, leftovers, missing, sorted(dropped))


def _is_unchanged(record: FileRecord, file: InputFile, target: str) -> bool:
    """Whether a file is as it was. If a partition key is the label, its type must be unchanged too."""
    if not record.is_of(file):
        return False
    return target not in file.partition or record.partition_keys.get(target) == file.partition[target]


# ---------------------------------------------------------------------- reading

Unread: TypeAlias = tuple[str, str]
"""The path of a file, and why it cannot be read."""


def _entry_of(file: InputFile, state: State) -> Entry:
    """The entry of a file, whose rows are those of a state."""
    record = FileRecord.of(file, rows=state.n_rows, dropped=state.n_dropped, entry="")
    return Entry.of(record, state)


@dataclass(frozen=True)
class Reader:
    """What the tasks of a refresh do: read files, and write tables of their entries.

    Attributes
    ----------
    folder : LedgerFolder
        Where the tables are written.
    reads : str
        A hash of what is read.
    empty : Statistics or FoldStatistics
        The state to whose copies the rows of a file are added.
    skips : bool
        Whether a file that cannot be read is left out, and not an error.
    """

    folder: LedgerFolder
    reads: str
    empty: State
    skips: bool

    def plans(self, files: Sequence[InputFile]) -> Iterator[Plan]:
        """One task reads many small files, and several read a large one."""
        for group in group_into_tasks(files):
            if len(group) > 1 or (group[0].n_rows or 0) <= ROWS_PER_TASK:
                runs = [group[i : i + _FILES_PER_TASK] for i in range(0, len(group), _FILES_PER_TASK)]
                yield Plan(runs, self.read_small, None, retries=0)
            else:
                parts = list(group_into_tasks(group[0].splits))
                finish = partial(self.write_large, group[0])
                yield Plan(parts, self.read, None, self.merge, finish, retries=0)

    def read_small(self, files: Iterable[InputFile], _: None) -> list[FileRecord | Unread]:
        """Read some files one by one, and write their entries."""
        unread: list[FileRecord | Unread] = []

        def entries() -> Iterator[Entry]:
            for file in files:
                state = self.read([file], None)
                if isinstance(state, str):
                    unread.append((file.path, state))
                else:
                    yield _entry_of(file, state)

        records = self.folder.write(entries(), self.reads)  # which fills `unread` too
        return [*unread, *records]

    def read(self, splits: Iterable[Split], _: None) -> State | str:
        """Read some rows of a file; or, if it is to be skipped, return why they cannot be read."""
        try:
            return repeated(partial(accumulate_splits, splits, self.empty))
        except (ValueError, OSError) as error:
            # An OSError of a user's function says nothing about the file.
            if not self.skips or (isinstance(error, OSError) and is_of_map(error)):
                raise
            return "; ".join([str(error), *getattr(error, "__notes__", ())])

    def merge(self, total: State | str, part: State | str) -> State | str:
        """Merge parts of a file; or return why one of them could not be read."""
        if isinstance(total, str) or isinstance(part, str):
            return total if isinstance(total, str) else part
        try:
            return total + part
        except ValueError as error:
            if not self.skips:
                raise
            return str(error)

    def write_large(self, file: InputFile, state: State | str) -> list[FileRecord | Unread]:
        """Write the entry of a file, unless it could not be read."""
        if isinstance(state, str):
            return [(file.path, state)]
        return [*self.folder.write([_entry_of(file, state)], self.reads)]


def read_files(
    source: FileSource, files: Sequence[InputFile], reader: Reader, scheduler: Scheduler, progress: Progress
) -> tuple[list[FileRecord], dict[str, str]]:
    """Read files, write their entries, and return their records.

    Tables are written while other files are read, so that no file need be read again if others fail later.

    Returns
    -------
    records : list of FileRecord
        Of the files that were read.
    skipped : dict of str to str
        Why the other files could not be read, by path.
    """
    planned, skipped = _plan_files(source, files, opening_on(scheduler), skips=reader.skips)
    planned.sort(key=lambda file: file.path)
    tasks = list(reader.plans(planned))
    outcomes: list[Any] = compute_plans(tasks, scheduler, progress) if tasks else []
    every = list(chain.from_iterable(outcomes))
    skipped |= dict(one for one in every if isinstance(one, tuple))
    return [one for one in every if isinstance(one, FileRecord)], skipped


def _plan_files(
    source: FileSource, files: Sequence[InputFile], each: Map, *, skips: bool
) -> tuple[list[InputFile], dict[str, str]]:
    """The files with what is to be read of each; and why the footers of some files cannot be read, by path.

    Files that cannot be read are found by halving the list.
    """
    try:
        return source.plans(files, each), {}
    except (ValueError, OSError) as error:
        if not skips:
            raise
        if len(files) == 1:
            return [], {files[0].path: str(error)}
    middle = len(files) // 2
    (first, unread), (second, others) = (
        _plan_files(source, half, each, skips=skips) for half in (files[:middle], files[middle:])
    )
    return first + second, unread | others


# ---------------------------------------------------------------------- comparing


def as_known(record: FileRecord, before: Manifest) -> FileRecord:
    """The record of a file that was read. An unchanged file keeps its status and its alarm."""
    if _is_new(record, before):
        return record
    former = before.records[record.path]
    return replace(record, status=former.status, alarm=former.alarm)


def compare(
    folder: LedgerFolder,
    before: Manifest,
    now: Manifest,
    there: Collection[str],
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
    before, now : Manifest
        Before and after the refresh.
    there : collection of str
        The tables that are in the folder.
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
    new = [now.records[path] for path in sorted(now.records) if _is_new(now.records[path], before)]
    if not new:
        return now, DriftReport()
    old_files = before.held
    old: Any = folder.read_total(old_files, empty)
    if old is None:
        old = folder.merged([record for record in old_files.sorted() if record.entry in there], empty)
    baseline = Baseline(total_of(old))
    quarantine = {}
    sound: Any = empty.copy()
    suspect: Any = empty.copy()
    with closing(folder.states(new, empty)) as states:
        for record in new:
            _, state = next(states)
            alarms = alarms_of(baseline.drift(total_of(state))) if old.n_rows else ()
            if alarms:
                quarantine[record.path] = replace(record, status="quarantined", alarm="; ".join(alarms))
                suspect += state
            else:
                sound += state
            del state  # or it would be held while the next one is read
    now = now.updated(quarantine.values())
    report = baseline.drift(total_of(sound + suspect))
    records = now.held.records
    if all(path in records and records[path].entry == one.entry for path, one in old_files.records.items()):
        old += sound
        folder.write_total(old, now.held)
    return now, report


def _is_new(record: FileRecord, before: Manifest) -> bool:
    """Whether a file is new, or has another version or another footer than before."""
    former = before.records.get(record.path)
    return former is not record and (former is None or not former.is_of(record))
