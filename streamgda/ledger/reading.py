"""Read files, and write an entry for each, on any of Dask's schedulers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from streamgda.ledger.entries import EntryFolder
from streamgda.ledger.manifest import FileRecord
from streamgda.ledger.states import State
from streamgda.passes.accumulate import accumulate_splits
from streamgda.passes.compute import compute_plans, opening_on
from streamgda.passes.plan import Plan, n_rows_of
from streamgda.passes.progress import Progress
from streamgda.passes.schedulers import Scheduler, scheduler_for
from streamgda.sources.base import FilePlan, FileSource, InputFile, Map, Split, group_into_tasks
from streamgda.storage.retries import retried

OnError = Literal["raise", "skip"]


@dataclass(frozen=True)
class Skipped:
    """A file that could not be read, and why."""

    path: str
    reason: str


def read_files(
    source: FileSource,
    files: Mapping[str, InputFile],
    entries: EntryFolder,
    empty: State,
    scheduler: Scheduler,
    progress: Progress,
    on_error: OnError,
) -> tuple[list[FileRecord], list[Skipped]]:
    """Read files, given by the names of their entries, and write the entries. Only their records come back.

    The rows of each file are added to a copy of `empty`. Each entry is written as soon as its file is read,
    so that nothing is read again if the others fail.
    """
    scheduler = scheduler_for(source, scheduler)
    names = {file.path: name for name, file in files.items()}
    plans, skipped = plan_files(source, list(files.values()), on_error, opening_on(scheduler))
    if not plans:
        return [], skipped
    keeping = [_plan_of_file(source, plan, names[plan.file.path], entries, empty, on_error) for plan in plans]
    outcomes = compute_plans(keeping, scheduler, progress)
    records = [outcome for outcome in outcomes if isinstance(outcome, FileRecord)]
    return records, [*skipped, *(outcome for outcome in outcomes if isinstance(outcome, Skipped))]


def plan_files(
    source: FileSource, files: Sequence[InputFile], on_error: OnError, each: Map = map
) -> tuple[list[FilePlan], list[Skipped]]:
    """What is to be read of each file, and the files whose footers cannot be read.

    Those are found by halving the list.
    """
    try:
        return source.plans(files, each) if files else [], []
    except (ValueError, OSError) as error:
        if on_error == "raise":
            raise
        if len(files) == 1:
            return [], [Skipped(files[0].path, str(error))]
    middle = len(files) // 2
    (first, unread), (second, others) = (
        plan_files(source, half, on_error, each) for half in (files[:middle], files[middle:])
    )
    return first + second, unread + others


def _plan_of_file(
    source: FileSource, plan: FilePlan, name: str, entries: EntryFolder, empty: State, on_error: OnError
) -> Plan:
    path = plan.file.path
    groups = list(group_into_tasks(plan.splits, n_rows_of)) or [[]]
    finish = partial(keep, entries=entries, name=name, plan=replace(plan, splits=()))
    if on_error == "raise":
        return Plan(groups, accumulate_splits, empty, finish=finish)
    return Plan(groups, partial(_fold_or_skip, path), empty, partial(_merge_or_skip, path), finish)


def _fold_or_skip(path: str, splits: Sequence[Split], empty: State) -> Any:
    """Read some rows of a file, or say why that cannot be done."""
    try:
        return retried(partial(accumulate_splits, splits, empty))
    except (ValueError, OSError) as error:
        return Skipped(path, str(error))


def _merge_or_skip(path: str, total: State | Skipped, part: State | Skipped) -> Any:
    """Merge parts of a file, or say why one of them could not be read."""
    if isinstance(total, Skipped):
        return total
    if isinstance(part, Skipped):
        return part
    try:
        return total + part
    except ValueError as error:
        return Skipped(path, str(error))


def keep(
    statistics: State | Skipped, entries: EntryFolder, name: str, plan: FilePlan
) -> FileRecord | Skipped:
    """One task: write the entry of a file that has been read."""
    if isinstance(statistics, Skipped):
        return statistics
    record = FileRecord.of(plan, rows=statistics.n_rows, dropped=statistics.n_dropped, entry=name)
    entries.write(name, statistics, [record])
    return record
