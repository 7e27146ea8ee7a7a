"""The steps of a refresh: plan which files to read, and read them on any scheduler."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal

from streamgda.data.blocks.wording import abridged, callers_level
from streamgda.data.sources.base import FileSource, MapFunction
from streamgda.data.sources.maps.maps import is_of_map
from streamgda.data.sources.running import Progress, Scheduler
from streamgda.data.sources.splits import ROWS_PER_TASK, InputFile, Split, group_into_tasks
from streamgda.data.storage.retries import repeated
from streamgda.data.storage.versions import Version
from streamgda.jobs.ledger.drift import RefreshReport
from streamgda.jobs.ledger.entries import Entries, Entry, FileRecord, State, content_of, in_order, table_of
from streamgda.jobs.passes.accumulate import accumulate_splits
from streamgda.jobs.passes.compute import compute_plans, opening_on
from streamgda.jobs.passes.plan import Plan, batched

OnError = Literal["raise", "skip"]

_COMPARED_LATER = 1 << 24  # bytes of states that a report may hold
_FILES_PER_TASK = 256  # so that all threads have some, and a crash loses the work of few


@dataclass(frozen=True)
class RefreshPlan:
    """What happens to each file.

    Attributes
    ----------
    before : mapping of str to FileRecord
        The files that the ledger holds, by path.
    known : list of FileRecord
        The files whose states are in tables: those that the ledger holds, and what a refresh has read that
        was refused or killed.
    missing : list of InputFile
        The files to read.
    dropped : tuple of str
        The files that are gone.
    """

    before: Mapping[str, FileRecord]
    known: list[FileRecord]
    missing: list[InputFile]
    dropped: tuple[str, ...]

    def is_new(self, record: FileRecord) -> bool:
        """Whether the rows of a file have not been held before."""
        return record.path not in self.before or self.before[record.path].identity != record.identity

    def after(
        self, new: Iterable[FileRecord], skipped: Iterable[str], there: Collection[str]
    ) -> list[FileRecord]:
        """The files that count once others were read; of those that cannot be read, the former version."""
        former = [self.before[path] for path in skipped if path in self.before]
        return in_order([*self.known, *new, *(record for record in former if record.table in there)])

    def report(
        self, now: Iterable[FileRecord], held: Iterable[FileRecord] = (), **outcome: Any
    ) -> RefreshReport:
        """The report of a refresh that has found these files, after which some files are held."""
        paths: dict[str, list[str]] = {"added": [], "changed": [], "reused": []}
        n_read = n_dropped = 0
        for record in in_order(now):
            if self.before.get(record.path) is record:
                paths["reused"].append(record.path)
                continue
            paths["changed" if record.path in self.before else "added"].append(record.path)
            if not outcome.get("dry_run"):
                n_read, n_dropped = n_read + record.rows, n_dropped + record.dropped
        changes: dict[str, Any] = {kind: tuple(some) for kind, some in paths.items()}
        changes |= {"dropped": self.dropped, "rows": n_read, "rows_dropped": n_dropped}
        report = RefreshReport(**changes, rows_held=sum(record.rows for record in held), **outcome)
        return report.compared(_COMPARED_LATER)


def plan_refresh(
    files: Sequence[InputFile], exclude: Collection[str], records: Sequence[FileRecord], entries: Entries
) -> tuple[RefreshPlan, dict[str, Version]]:
    """Compare the files of a source with those that a ledger holds, and with the tables that are there.

    Raises
    ------
    ValueError
        If a file is excluded that there is not.
    """
    there, each = entries.there(), list(map(FileRecord.of, files))
    present = {record.path: record for record in each}
    for unknown in sorted({*exclude} - present.keys()):
        raise ValueError(f"exclude: the source has no file {unknown!r}; paths are as in ledger.files")
    paths = present.keys() - {*exclude}
    wanted = {one.identity: file for one, file in zip(each, files, strict=True) if one.path in paths}
    for file in wanted.values():
        if file.version is not None:
            file.version.warn_if_size_alone(file.path)
    before = {one.path: one.known_as(present.get(one.path)) for one in records}
    read_before = {record.identity: record for record in before.values() if record.table in there}
    if not wanted.keys() <= read_before.keys():  # a refresh that was refused or killed may have read them
        found = entries.found(there.keys() - {record.table for record in records})
        others = (record.known_as(present.get(record.path)) for record in found)
        read_before = {record.identity: record for record in others} | read_before
    known = in_order(read_before[one] for one in wanted if one in read_before)
    missing = [file for one, file in wanted.items() if one not in read_before]
    return RefreshPlan(before, known, missing, tuple(sorted(before.keys() - paths))), there


def warn_of_copies(new: Iterable[FileRecord], now: Iterable[FileRecord]) -> None:
    """Warn of files just read that have the statistics of others, by which a copy of rows is known."""
    paths, read = defaultdict[str, list[str]](list), {record.path: record.content for record in new}
    for record in sorted(now, key=lambda record: record.path in read):
        if record.content and record.rows > 1:
            paths[record.content].append(record.path)
    alike = [paths[content] for content in dict.fromkeys(read.values()) if len(paths[content]) > 1]
    if alike:
        verbs = "seems to be a copy", "seem to be copies"
        said = "; ".join(
            f"{abridged(copies, 5)} {verbs[len(copies) > 1]} of {first}" for first, *copies in alike
        )
        warnings.warn(
            f"{said}, as the statistics are the same. Rows of a copy count twice: remove it, or leave it out "
            "of each refresh",
            stacklevel=callers_level(),
        )


@dataclass(frozen=True)
class Reader:
    """What the tasks of a refresh do: read files into copies of an empty state, and write their entries."""

    entries: Entries
    empty: State
    on_error: OnError

    def read(
        self, source: FileSource, files: Sequence[InputFile], scheduler: Scheduler, progress: Progress
    ) -> tuple[list[FileRecord], dict[str, str]]:
        """Read files, and return their records; and why some could not be read, by path.

        Tables are written while other files are read. So no file need be read again if others fail later.
        """
        planned, skipped = self._planned(source, files, opening_on(scheduler))
        plans = list(self._plans(in_order(planned)))
        outcomes: list[Any] = compute_plans(plans, scheduler, progress) if plans else []
        every = list(chain.from_iterable(outcomes))
        skipped |= dict(one for one in every if not isinstance(one, FileRecord))
        return [one for one in every if isinstance(one, FileRecord)], dict(sorted(skipped.items()))

    def _planned(
        self, source: FileSource, files: Sequence[InputFile], each: MapFunction
    ) -> tuple[list[InputFile], dict[str, str]]:
        """The files with what is to be read of each; and why some cannot be opened, found by halving."""
        try:
            return source.plans(files, each), {}
        except (ValueError, OSError) as error:
            if self.on_error == "raise":
                raise
            if len(files) == 1:
                return [], {files[0].path: str(error)}
        middle = len(files) // 2
        halves = (self._planned(source, half, each) for half in (files[:middle], files[middle:]))
        (first, unread), (second, others) = halves
        return first + second, unread | others

    def _plans(self, files: Sequence[InputFile]) -> Iterator[Plan]:
        """One task reads many small files, and several read a large one."""
        for group in group_into_tasks(files):
            if len(group) > 1 or (group[0].n_rows or 0) <= ROWS_PER_TASK:
                tasks = list(batched(group, _FILES_PER_TASK))
                yield Plan(tasks, self._read_small, None, retries=0)
            else:
                finish = partial(self._write_large, group[0])
                parts = list(group_into_tasks(group[0].splits))
                yield Plan(parts, self._state_of, None, _add, finish, retries=0)

    def _read_small(self, files: Iterable[InputFile], _: None) -> list[Any]:
        """Read some files one by one, and write their entries."""
        return self._written((file, self._state_of([file], None)) for file in files)

    def _state_of(self, splits: Iterable[Split], _: None) -> State | str:
        """Read some rows of a file; or, if it is to be skipped, return why they cannot be read."""
        try:
            return repeated(partial(accumulate_splits, splits, self.empty))
        except (ValueError, OSError) as error:
            # An OSError of a user's function says nothing about the file.
            if self.on_error == "raise" or (isinstance(error, OSError) and is_of_map(error)):
                raise
            return "; ".join([str(error), *getattr(error, "__notes__", ())])

    def _write_large(self, file: InputFile, state: State | str) -> list[Any]:
        return self._written([(file, state)])

    def _written(self, states: Iterable[tuple[InputFile, State | str]]) -> list[Any]:
        """Write the entries of files. Return their records, and why others could not be read, by path."""
        unread: list[Any] = []

        def entries() -> Iterator[Entry]:
            for file, state in states:
                if isinstance(state, str):
                    unread.append((file.path, state))
                else:
                    table, document = table_of(state)
                    record = FileRecord.of(file)._replace(
                        rows=state.n_rows, dropped=state.n_dropped, content=content_of(state, table)
                    )
                    yield Entry(record, table, document)

        return [*self.entries.write(entries()), *unread]


def _add(total: Any, part: Any) -> Any:
    """The sum of two states of a file; or why one of them could not be read."""
    if isinstance(total, str):
        return total
    return part if isinstance(part, str) else total + part
