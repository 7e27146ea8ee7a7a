"""Read files, and write an entry for each, on any of Dask's schedulers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from streamgda.ledger.entries import EntryFolder
from streamgda.ledger.manifest import FileRecord
from streamgda.passes.accumulate import fan_in_of, plan_pass
from streamgda.passes.plan import Plan, compute_plan, n_rows_of
from streamgda.passes.schedulers import scheduler_for
from streamgda.sources.base import FilePlan, FileSource, InputFile, group_into_tasks
from streamgda.statistics.base import Statistics

if TYPE_CHECKING:
    from dask.delayed import Delayed


def read_files(
    source: FileSource,
    files: Mapping[str, InputFile],
    entries: EntryFolder,
    empty: Statistics,
    scheduler: Any,
    progress: bool,
) -> list[FileRecord]:
    """Read files, given by the names of their entries, and write the entries. Only their holdings come back.

    The rows of each file are added to a copy of `empty`.

    Each entry is there as soon as its file is read, so that nothing is read again if the others fail.
    """
    from dask.delayed import delayed

    scheduler = scheduler_for(source, scheduler)
    if not files:
        return []
    kept: list[Delayed] = []
    parts: list[Delayed] = []
    rows: list[int | None] = []
    for name, file_plan in zip(files, source.plans(list(files.values())), strict=True):
        groups = list(group_into_tasks(file_plan.splits, n_rows_of)) or [[]]
        plan = plan_pass(groups, empty, fan_in_of(source))
        kept.append(delayed(keep, pure=False)(plan.root, entries, name, _without_splits(file_plan)))
        parts += plan.parts
        rows += plan.rows
    records: list[FileRecord] = compute_plan(Plan(delayed(list)(kept), parts, rows), scheduler, progress)
    return records


def keep(statistics: Statistics, entries: EntryFolder, name: str, plan: FilePlan) -> FileRecord:
    """One task: write the entry of a file that has been read."""
    record = FileRecord.of(
        plan.file, rows=statistics.n_rows, dropped=statistics.n_dropped, schema=plan.schema, entry=name
    )
    entries.write(name, statistics, [record])
    return record


def _without_splits(plan: FilePlan) -> FilePlan:
    return FilePlan(plan.file, (), plan.schema)
