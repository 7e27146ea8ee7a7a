"""Read files, and write an entry for each, on any of Dask's schedulers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from streamgda.ledger.entries import EntryFolder
from streamgda.ledger.manifest import FileRecord
from streamgda.ledger.states import State
from streamgda.passes.accumulate import accumulate_splits, plan_pass
from streamgda.passes.compute import compute_plan
from streamgda.passes.plan import Plan, n_rows_of, plan_fold
from streamgda.passes.schedulers import Scheduler, scheduler_for
from streamgda.sources.base import FilePlan, FileSource, InputFile, Split, group_into_tasks

if TYPE_CHECKING:
    from dask.delayed import Delayed

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
    progress: bool,
    on_error: OnError,
) -> tuple[list[FileRecord], list[Skipped]]:
    """Read files, given by the names of their entries, and write the entries. Only their records come back.

    The rows of each file are added to a copy of `empty`. Each entry is written as soon as its file is read,
    so that nothing is read again if the others fail.
    """
    scheduler = scheduler_for(source, scheduler)
    names = {file.path: name for name, file in files.items()}
    plans, skipped = plan_files(source, list(files.values()), on_error)
    if not plans:
        return [], skipped
    keeping = [_plan_of_file(source, plan, names[plan.file.path], entries, empty, on_error) for plan in plans]
    outcomes = compute_plan(_all_of(keeping), scheduler, progress)
    records = [outcome for outcome in outcomes if isinstance(outcome, FileRecord)]
    return records, [*skipped, *(outcome for outcome in outcomes if isinstance(outcome, Skipped))]


def plan_files(
    source: FileSource, files: Sequence[InputFile], on_error: OnError
) -> tuple[list[FilePlan], list[Skipped]]:
    """What is to be read of each file, and the files whose footers cannot be read.

    Those are found by halving the list.
    """
    try:
        return source.plans(files) if files else [], []
    except (ValueError, OSError) as error:
        if on_error == "raise":
            raise
        if len(files) == 1:
            return [], [Skipped(files[0].path, str(error))]
    middle = len(files) // 2
    (first, unread), (second, others) = (
        plan_files(source, half, on_error) for half in (files[:middle], files[middle:])
    )
    return first + second, unread + others


def _plan_of_file(
    source: FileSource, plan: FilePlan, name: str, entries: EntryFolder, empty: State, on_error: OnError
) -> Plan:
    from dask.delayed import delayed

    path = plan.file.path
    groups = list(group_into_tasks(plan.splits, n_rows_of)) or [[]]
    if on_error == "raise":
        read = plan_pass(groups, empty)
    else:
        fold, merge = partial(_fold_or_skip, path), partial(_merge_or_skip, path)
        read = plan_fold(groups, fold, empty, merge)
    root = delayed(keep, pure=False)(read.root, entries, name, replace(plan, splits=()))
    return Plan(root, read.parts, read.rows, empty)


def _all_of(plans: Sequence[Plan]) -> Plan:
    from dask.delayed import delayed

    root: Delayed = delayed(list)([plan.root for plan in plans])
    parts = [part for plan in plans for part in plan.parts]
    return Plan(root, parts, [rows for plan in plans for rows in plan.rows], plans[0].shared)


def _fold_or_skip(path: str, splits: Sequence[Split], empty: State) -> Any:
    """Read some rows of a file, or say why that cannot be done."""
    try:
        return accumulate_splits(splits, empty)
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
