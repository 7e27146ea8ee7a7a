"""`StatisticsLedger`: refresh it with what has come, changed or gone, and take its statistics."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal

import pyarrow as pa

from streamgda.blocks.block import FoldRule
from streamgda.blocks.options import refusing_renamed
from streamgda.blocks.wording import as_html, counted
from streamgda.ledger.drift import Baseline, DriftReport, RefreshReport
from streamgda.ledger.entries import (
    COLUMNS,
    FORMAT,
    Entries,
    Entry,
    FileRecord,
    State,
    state_in,
    table_of,
    total_of,
)
from streamgda.passes.accumulate import accumulate_splits
from streamgda.passes.compute import Scheduler, compute_plans, opening_on, scheduler_for
from streamgda.passes.plan import Plan
from streamgda.passes.progress import Progress
from streamgda.sources.base import ROWS_PER_TASK, FileSource, InputFile, Map, Source, Split, group_into_tasks
from streamgda.sources.formats import scan
from streamgda.sources.maps import is_of_map
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceType
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.folded import FoldStatistics
from streamgda.statistics.missing import MissingRows, policy_of
from streamgda.statistics.required import Required
from streamgda.statistics.rules import RULES, RowRule, rule_in, to_metadata
from streamgda.statistics.validation import check_whole
from streamgda.storage import tables
from streamgda.storage.documents import SENSELESS, digest
from streamgda.storage.filesystems import LOCK, finished_name, reached, resolve
from streamgda.storage.paths import Address, AnyFileSystem, Path, one_line
from streamgda.storage.retries import repeated

LEDGER = "ledger.parquet"
ENTRIES = "entries"

_FILES_PER_TASK = 256  # so that all threads have some, and a crash loses the work of few
_PARAMETERS = (*Required().keywords(), "folds", "groups")
_SCANNED = ("target", "features", "weight", "missing", "format")


@dataclass(frozen=True)
class Held:
    """What a ledger holds: how files are read, which files in which versions, and their statistics."""

    reads: Mapping[str, Any]
    records: Sequence[FileRecord]
    table: pa.Table
    document: Mapping[str, Any]
    path: str

    @property
    def n_rows(self) -> int:
        """How many rows count."""
        return sum(record.rows for record in self.records)

    def state(self, empty: State) -> State:
        """The merged statistics, of the kind of `empty`."""
        return state_in(self.table, self.document, self.path, empty)


class StatisticsLedger:
    """A folder with the statistics of each file of a dataset whose files come, change and go.

    `refresh` reads only the files that are new or have changed, and drops those that are gone. At its end it
    replaces ``ledger.parquet``, which holds the list of the files and their merged statistics. A refresh that
    is killed or meets a full disk therefore changes nothing, and the next one finds what it has read in
    ``entries``, where the statistics of many files share a table.

    A local ledger is refreshed by one process at a time, which locks the folder; a second one stops at once
    with an error. An object store has no locks. There, the list that is written last counts, and tables are
    deleted when they are a day old. No file is ever counted twice.

    Parameters
    ----------
    path : str or path
        The folder of the ledger, or a URL such as "s3://bucket/ledger". Made when it is first refreshed.
    covariance_type : {"full", "tied", "diag"}, default="full"
        What to keep of the scatter within the classes: "full" serves all models, "tied" linear discriminant
        analysis and "diag" naive Bayes; see `ClassStatistics`.
    fourth_moments : bool, default=False
        Whether to keep fourth moments too, for ``shrinkage="auto"``; see `ClassStatistics`.
    exact : bool, default=False
        Whether sums are exact: then the merged state has the same bits as a pass over all the files. See
        `ExactClassStatistics`.
    folds : int, optional
        The number of folds whose statistics are kept, for `fold_statistics`. It cannot be changed later.
    groups : str, optional
        A column of the source: rows of one group share a fold.
    missing : {"raise", "marginal"} or Marginal, optional
        How to learn from rows in which features are missing, as for `accumulate`, but in one read of a file.
        If not given, as the source says.
    rule : RowRule, optional
        A rule that divides the rows of each class, as `draw_centers` of a
        `MixtureDiscriminantAnalysis` returns them.
    filesystem : pyarrow or fsspec filesystem, optional
        Where `path` is. If None, inferred from `path`.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> from streamgda import StatisticsLedger, scan_parquet
    >>> folder = tempfile.mkdtemp()
    >>> for day, width in (("monday", 1.0), ("tuesday", 2.0)):
    ...     table = pa.table({"width": [width, 2 * width], "kind": ["a", "a"]})
    ...     pq.write_table(table, f"{folder}/{day}.parquet")
    >>> ledger = StatisticsLedger(f"{folder}/ledger")
    >>> print(ledger.refresh(scan_parquet(f"{folder}/*.parquet", "kind")))
    read 2 files (2 new, 0 changed), reused 0, dropped 0
    4 rows read, 4 held
    new classes: a
    >>> print(ledger.refresh(scan_parquet(f"{folder}/*.parquet", "kind")))
    read 0 files (0 new, 0 changed), reused 2, dropped 0
    0 rows read, 4 held
    >>> ledger.statistics().means
    array([[2.25]])
    """

    @refusing_renamed
    def __init__(
        self,
        path: Path,
        covariance_type: CovarianceType = "full",
        *,
        fourth_moments: bool = False,
        exact: bool = False,
        folds: int | None = None,
        groups: str | None = None,
        missing: MissingRows | None = None,
        rule: RowRule | None = None,
        filesystem: AnyFileSystem | None = None,
    ) -> None:
        if folds is not None:
            check_whole(folds, "folds", 2)
        if groups is not None and folds is None:
            raise ValueError("groups say which rows share a fold; give a number of folds too")
        self.path, self.folds, self.groups = os.fspath(path), folds, groups
        self.required = Required.of(covariance_type, fourth_moments=fourth_moments, exact=exact)
        if missing is not None:
            policy_of(missing)
        self.missing, self.rule = missing, rule
        in_folds = {name: value for name, value in (("folds", folds), ("groups", groups)) if value is not None}
        self._options = {**self.required.keywords(), **in_folds, **to_metadata(rule)}
        self._empty = self._state_of_no_rows()
        where, name = resolve(path, filesystem)
        self._storage, folder = where.unwrapped(name)
        self._folder = folder.rstrip("/")

    def _state_of_no_rows(self, missing: MissingRows = "raise") -> State:
        empty = empty_statistics(self.required, missing=missing, rule=self.rule)
        return empty if self.folds is None else FoldStatistics(empty, FoldRule(self.folds, self.groups))

    def __repr__(self) -> str:
        return f"StatisticsLedger({Address(self.path)!r}, {self.required.covariance_type!r})"

    def _repr_html_(self) -> str:
        return as_html(repr(self), self.files.to_pandas())

    # ------------------------------------------------------------------ what is held

    @property
    def files(self) -> pa.Table:
        """The files that count: path, size, time and rows of each; partition keys are columns."""
        return pa.Table.from_pylist([_row_of(record) for record in self._existing().records])

    @property
    def read_options(self) -> dict[str, Any]:
        """What is read of each file, and what is kept of it, as plain values."""
        return dict(self._existing().reads)

    def statistics(self, weights: Mapping[str, float] | None = None) -> Statistics:
        """The merged statistics of all the files, or of some of them.

        Parameters
        ----------
        weights : mapping of str to float, optional
            The weight of each file that is to count, from 0 to 1, by its path as in `files`. So old files may
            count less, and single ones not at all.

        Returns
        -------
        ClassStatistics or ExactClassStatistics
            Merged in the order of the paths, so the same files give the same bits whatever the history.

        Raises
        ------
        ValueError
            If nothing is held, or a path is unknown.

        Examples
        --------
        >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
        >>> from streamgda import StatisticsLedger, scan_parquet
        >>> folder = tempfile.mkdtemp()
        >>> for day in (1, 2):
        ...     table = pa.table({"width": [1.0, 2.0], "kind": ["a", "a"]})
        ...     pq.write_table(table, f"{folder}/{day}.parquet")
        >>> ledger = StatisticsLedger(f"{folder}/_ledger")
        >>> _ = ledger.refresh(scan_parquet(folder, "kind"))
        >>> half_lives = [1, 0]  # of each file, as computed from the times in ledger.files
        >>> paths = ledger.files["path"].to_pylist()
        >>> ledger.statistics({path: 0.5**age for path, age in zip(paths, half_lives)}).weights
        array([3.])
        """
        return total_of(self._state(weights))

    def fold_statistics(self, weights: Mapping[str, float] | None = None) -> FoldStatistics:
        """The merged statistics of each fold. `StatisticsSearchCV.fit` takes them, and then reads no rows.

        Parameters and errors are those of `statistics`; it is an error too if the ledger keeps no folds.

        Examples
        --------
        >>> import tempfile
        >>> from sklearn.datasets import load_wine
        >>> from streamgda import GaussianNB, StatisticsLedger, StatisticsSearchCV, scan_parquet
        >>> folder = tempfile.mkdtemp()
        >>> load_wine(as_frame=True).frame.to_parquet(f"{folder}/monday.parquet")
        >>> ledger = StatisticsLedger(f"{folder}/ledger", "diag", folds=5)
        >>> _ = ledger.refresh(scan_parquet(f"{folder}/*.parquet", "target"))
        >>> search = StatisticsSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1e-5]})
        >>> search.fit(ledger.fold_statistics()).best_params_
        {'var_smoothing': 1e-09}
        """
        state = self._state(weights)
        if not isinstance(state, FoldStatistics):
            raise ValueError(f"{self!r} keeps no folds: make it with folds=5")
        return state

    def _state(self, weights: Mapping[str, float] | None) -> State:
        held = self._existing()
        self._check_alike(held, {**held.reads, **dict.fromkeys((*_PARAMETERS, *RULES)), **self._options})
        if weights is None:
            return held.state(self._empty)
        if unknown := weights.keys() - {record.path for record in held.records}:
            raise ValueError(f"{self!r} holds no file {min(unknown)!r}")
        chosen = [record for record in held.records if weights.get(record.path)]
        total = self._empty.copy()
        try:
            for record, state in self._entries(held.reads).states(chosen, self._empty):
                total += state if weights[record.path] == 1 else state.decay(weights[record.path])
        except FileNotFoundError:
            if (now := self._held()) is None or now.records == held.records:
                raise
            return self._state(weights)  # a refresh has ended meanwhile
        return total

    def _existing(self) -> Held:
        if (held := self._held()) is None:
            raise ValueError(f"{self!r} holds nothing yet: refresh it with a source first")
        return held

    def _held(self) -> Held | None:
        path = f"{self._folder}/{LEDGER}"
        try:
            table, document = tables.read(path, COLUMNS, self._storage)
            records = [FileRecord(**row) for row in document["files"]]
            return Held(document["reads"], records, table, document, path)
        except FileNotFoundError:
            return None
        except SENSELESS as error:
            raise ValueError(
                f"{path} is damaged: {one_line(error)}; delete it, and refresh the ledger, which finds its entries"
            ) from error

    def _entries(self, reads: Mapping[str, Any]) -> Entries:
        return Entries(self._storage, f"{self._folder}/{ENTRIES}", digest(reads, 4))

    def _check_alike(self, held: Held, reads: Mapping[str, Any]) -> None:
        for name in dict.fromkeys((*reads, *held.reads)):
            ours, value = held.reads.get(name), reads.get(name)
            if ours != value:
                raise ValueError(
                    f"the ledger in {self.path} holds statistics with {name}={ours!r:.200}, and here it is "
                    f"{name}={value!r:.200}; open it as it was made, or use a ledger of its own for each way to "
                    "read a dataset"
                )

    # ------------------------------------------------------------------ refresh

    def refresh(
        self,
        source: Source | Path | Sequence[Path],
        *,
        scheduler: Scheduler = None,
        progress: Progress = False,
        dry_run: bool = False,
        on_error: Literal["raise", "skip"] = "raise",
        accept: bool = False,
        **limits: Any,
    ) -> RefreshReport:
        """Read the files of a source that are new or have changed, and drop those that are gone.

        If limits are given, each of these files is compared by itself with all the rows held. If one exceeds
        a limit, the report says so, and the ledger holds what it held before. What was read is kept beside
        it: refresh once more with other limits or ``accept=True``, or without the file, and no file is read
        again. The first refresh has no rows to compare with.

        Parameters
        ----------
        source : Source, path, or sequence of paths
            A source of files, as `scan` makes it. Its files are listed anew. It must read the same columns in
            the same way each time; only their order may differ. If no features are named where it is scanned,
            they are those of the ledger. A ledger that holds files also takes a path: then it reads the files
            there by the options with which it has read the others.
        scheduler, progress : optional
            As for `accumulate`. The workers write the entries, so the ledger must be where they reach it.
        dry_run : bool, default=False
            Report what would be read, and change nothing.
        on_error : {"raise", "skip"}, default="raise"
            What to do about a file that cannot be read: raise its error, or skip the file. The report says
            which files were skipped and why, and the next refresh tries them again. Until then, the former
            version of such a file counts.
        accept : bool, default=False
            Whether files that exceed a limit count nevertheless.
        **limits
            How far a file may drift: `max_shift`, `max_divergence`, `max_share_shift`, `no_new_classes` and
            `no_new_categories`, as for `DriftReport.alarms`. By default there is no limit.

        Returns
        -------
        RefreshReport
            What was done, and how far the new rows lie from the old ones. It can be printed.

        Raises
        ------
        ValueError
            If a file cannot be read or changes while it is read, or the source reads other columns than the
            ledger holds. The ledger is then unchanged.
        TypeError
            If the source is not one of files, or a limit is not known.
        RuntimeError
            If another process is refreshing the ledger.
        OSError
            If an entry cannot be written, or the ledger cannot be reached. The ledger is then unchanged.

        Examples
        --------
        >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq, tempfile
        >>> from streamgda import StatisticsLedger, scan_parquet
        >>> folder, width = tempfile.mkdtemp(), np.random.default_rng(0).normal(size=100)
        >>> ledger = StatisticsLedger(f"{folder}/_ledger")
        >>> for day, shift in (("monday", 0.0), ("tuesday", 9.0)):
        ...     table = pa.table({"width": width + shift, "kind": ["a"] * 100})
        ...     pq.write_table(table, f"{folder}/{day}.parquet")
        ...     report = ledger.refresh(scan_parquet(folder, "kind"), max_shift=1)
        >>> report.alarms_by_file
        {'tuesday.parquet': 'class a: the mean of width has shifted by 9.354 standard deviations'}
        >>> ledger.statistics().n_rows
        100
        >>> ledger.refresh(scan_parquet(folder, "kind"), max_shift=1, accept=True).rows_held
        200
        """
        if on_error not in {"raise", "skip"}:
            raise ValueError(f"on_error must be 'raise' or 'skip'; got {on_error!r}")
        DriftReport().alarms(**limits)  # raises if a limit is not known
        if isinstance(source, str | os.PathLike | list | tuple):
            source = scan(source, **scan_options_of(self.read_options))
        self._check_source(source)
        with self._locked(dry_run):
            held = self._held()
            source, reads = self._as_read(source, held)
            scheduler = scheduler_for(source, scheduler)
            before = {record.path: record for record in held.records} if held else {}
            entries, files = self._entries(reads), {FileRecord.of(file).identity: file for file in source.files()}
            there = entries.there()
            known = {one.identity: one for one in before.values() if one.table in there}
            kept = set(known)
            if files.keys() - kept:  # a refresh that was killed may have read some of them
                strays = entries.found(there.keys() - {one.table for one in known.values()})
                known = {**strays, **known}
            missing = [file for identity, file in files.items() if identity not in known]
            now = [known[identity] for identity in files if identity in known]
            skipped: dict[str, str] = {}
            if missing and not dry_run:
                reader = Reader(entries, self._state_of_no_rows(self.missing or source.missing_rows), on_error)
                new, skipped = reader.read(source, missing, scheduler, progress)
                there = entries.there()
                old = [before[path] for path in skipped if path in before]
                now += [*new, *(one for one in old if one.table in there)]
            now.sort(key=lambda record: record.path)
            paths = {file.path for file in files.values()}
            outcome = {
                "dry_run": dry_run,
                "skipped": dict(sorted(skipped.items())),
                "dropped": tuple(sorted(before.keys() - paths)),
            }
            if dry_run:
                return RefreshReport(**_changes(before, [*now, *map(FileRecord.of, missing)], kept), **outcome)
            if lost := {record.table for record in now} - there.keys():
                raise OSError(
                    f"{counted(len(lost), 'table')} of entries cannot be found in {entries.folder}: the workers "
                    "wrote elsewhere, or another refresh has deleted them; use a folder or URL that all share, "
                    "and refresh again"
                )
            state, drift, alarms = self._merged(entries, now, held, limits)
            changes, rows = _changes(before, now, kept), sum(r.rows for r in now if r.identity not in kept)
            outcome |= {"alarms_by_file": alarms, "rows": rows}
            if held and alarms and not accept:
                return RefreshReport(**changes, **outcome, **vars(drift), rows_held=held.n_rows, is_refused=True)
            now = entries.joined(now, there)
            if held is None or now != held.records or reads != held.reads:
                table, document = table_of(state)
                files_now = [asdict(record) for record in now]
                document |= {"format_version": FORMAT, "reads": reads, "files": files_now}
                tables.write(f"{self._folder}/{LEDGER}", table, document, self._storage)
            entries.tidy({record.table for record in now}, there)
            return RefreshReport(**changes, **outcome, **vars(drift), rows_held=sum(r.rows for r in now))

    def _check_source(self, source: Any) -> None:
        if not isinstance(source, FileSource):
            raise TypeError(f"a ledger keeps up with files, such as scan_parquet finds; got {type(source).__name__}")
        if source.includes(self._storage, f"{self._folder}/{LEDGER}"):
            raise ValueError(
                f"the ledger in {self.path} lies in the folder of the dataset, where its own files would be taken "
                'for data; put it elsewhere, or into a subfolder whose name begins with "_"'
            )

    @contextmanager
    def _locked(self, dry_run: bool) -> Iterator[None]:
        """Lock a local folder, and make it; a folder of other things is left alone."""
        inside = reached(self._folder, partial(self._storage.children, self._folder))
        own = {LEDGER, ENTRIES, LOCK}
        if foreign := [name for name in inside if (finished_name(name) or name) not in own]:
            if LEDGER not in inside:
                raise ValueError(
                    f"{self._folder} is a folder of other things, such as {min(foreign)}, and no ledger of this "
                    "version; name a new one"
                )
        if dry_run:
            yield
            return
        if not self._storage.is_object_store:
            make = partial(self._storage.filesystem.create_dir, f"{self._folder}/{ENTRIES}", recursive=True)
            reached(self._folder, make)
        busy = f"another process is refreshing the ledger {self._folder}; try again when it has ended"
        with self._storage.locked(self._folder, busy):
            for name in inside if self._storage.is_local else ():
                if finished_name(name) == LEDGER:
                    self._storage.filesystem.delete_file(f"{self._folder}/{name}")
            yield

    def _as_read(self, source: FileSource, held: Held | None) -> tuple[FileSource, dict[str, Any]]:
        """The source with the features in the order of the ledger, and what is read."""
        known = held.reads if held else {}
        source = source.as_read(known).rescanned()
        if not known.get("maps"):  # which are given the features in an order of their own
            source = source.in_order_of(known.get("features") or ())
        if self.groups is not None:
            source = source.with_groups(self.groups)
        reads = {**source.read_options, **self._options}
        if held:
            self._check_alike(held, reads)
        return source, reads

    def _merged(
        self, entries: Entries, now: Sequence[FileRecord], held: Held | None, limits: Mapping[str, Any]
    ) -> tuple[State, DriftReport, dict[str, str]]:
        """The state of the files, and how those that the ledger did not hold compare with those it did."""
        before = {record.identity for record in held.records} if held else set()
        if held and before == {record.identity for record in now}:
            return held.state(self._empty), DriftReport(), {}
        baseline = Baseline(total_of(held.state(self._empty) if held else self._empty))
        total, new = self._empty.copy(), self._empty.copy()
        alarms: dict[str, str] = {}
        for run, part in entries.parts(now, self._empty):  # new entries are in tables of their own
            if run[0].identity not in before:
                new += part
            total += part
            del part  # or it would be in memory while the next one is read
        if held and limits:
            for record, state in entries.states([one for one in now if one.identity not in before], self._empty):
                if said := baseline.drift(total_of(state)).alarms(**limits):
                    alarms[record.path] = "; ".join(said)
        return total, baseline.drift(total_of(new)), alarms


def _row_of(record: FileRecord) -> dict[str, Any]:
    import pandas as pd

    time = None if record.modified is None else pd.Timestamp(record.modified, tz="UTC")
    sizes = {"path": record.path, "size": record.size, "modified": time, "rows": record.rows}
    return {**sizes, "dropped": record.dropped, **_keys_of(record)}


def _keys_of(record: FileRecord) -> dict[str, Any]:
    keys: dict[str, Any] = json.loads(record.partition)
    return keys


def _changes(before: Collection[str], now: Iterable[FileRecord], kept: Collection[Any]) -> dict[str, Any]:
    """Which files are new, changed and reused, by the paths held before and the identities that are kept."""
    names: dict[str, list[str]] = {"added": [], "changed": [], "reused": []}
    for record in now:
        read_as = "changed" if record.path in before else "added"
        kind = "reused" if record.identity in kept else read_as
        names[kind].append(record.path)
    return {kind: tuple(sorted(paths)) for kind, paths in names.items()}


def scan_options_of(read_options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with which a path is scanned as the files of a ledger were."""
    return {name: read_options[name] for name in _SCANNED if read_options.get(name) is not None}


def options_of(read_options: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a ledger was made with, from its read options."""
    options = {name: read_options[name] for name in _PARAMETERS if name in read_options}
    rule = rule_in(read_options)
    return options if rule is None else {**options, "rule": rule}


# ---------------------------------------------------------------------- reading


@dataclass(frozen=True)
class Reader:
    """What the tasks of a refresh do: read files into copies of an empty state, and write their entries."""

    entries: Entries
    empty: State
    on_error: str

    def read(
        self, source: FileSource, files: Sequence[InputFile], scheduler: Scheduler, progress: Progress
    ) -> tuple[list[FileRecord], dict[str, str]]:
        """Read files, and return their records; and why some could not be read, by path.

        Tables are written while other files are read, so that no file need be read again if others fail later.
        """
        planned, skipped = self._planned(source, files, opening_on(scheduler))
        plans = list(self._plans(sorted(planned, key=lambda file: file.path)))
        outcomes: list[Any] = compute_plans(plans, scheduler, progress) if plans else []
        every = list(chain.from_iterable(outcomes))
        skipped |= dict(one for one in every if isinstance(one, tuple))
        return [one for one in every if isinstance(one, FileRecord)], skipped

    def _planned(
        self, source: FileSource, files: Sequence[InputFile], each: Map
    ) -> tuple[list[InputFile], dict[str, str]]:
        """The files with what is to be read of each; and why some cannot be opened."""
        try:
            return source.plans(files, each), {}
        except (ValueError, OSError):
            if self.on_error == "raise":
                raise
        planned: list[InputFile] = []
        skipped = {}
        for file in files:
            try:
                planned += source.plans([file])
            except (ValueError, OSError) as error:
                skipped[file.path] = str(error)
        return planned, skipped

    def _plans(self, files: Sequence[InputFile]) -> Iterator[Plan]:
        """One task reads many small files, and several read a large one."""
        for group in group_into_tasks(files):
            if len(group) > 1 or (group[0].n_rows or 0) <= ROWS_PER_TASK:
                runs = [group[i : i + _FILES_PER_TASK] for i in range(0, len(group), _FILES_PER_TASK)]
                yield Plan(runs, self._read_small, None, retries=0)
            else:
                finish = partial(self._write_large, group[0])
                yield Plan(list(group_into_tasks(group[0].splits)), self._state_of, None, self._add, finish, 0)

    def _read_small(self, files: Iterable[InputFile], _: None) -> list[Any]:
        """Read some files one by one, and write their entries."""
        unread: list[Any] = []

        def entries() -> Iterator[Entry]:
            for file in files:
                state = self._state_of([file], None)
                if isinstance(state, str):
                    unread.append((file.path, state))
                else:
                    yield _entry_of(file, state)

        return [*self.entries.write(entries()), *unread]

    def _state_of(self, splits: Iterable[Split], _: None) -> State | str:
        """Read some rows of a file; or, if it is to be skipped, return why they cannot be read."""
        try:
            return repeated(partial(accumulate_splits, splits, self.empty))
        except (ValueError, OSError) as error:
            # An OSError of a user's function says nothing about the file.
            if self.on_error == "raise" or (isinstance(error, OSError) and is_of_map(error)):
                raise
            return "; ".join([str(error), *getattr(error, "__notes__", ())])

    def _add(self, total: State | str, part: State | str) -> State | str:
        return next((one for one in (total, part) if isinstance(one, str)), None) or total + part

    def _write_large(self, file: InputFile, state: State | str) -> list[Any]:
        if isinstance(state, str):
            return [(file.path, state)]
        return self.entries.write([_entry_of(file, state)])


def _entry_of(file: InputFile, state: State) -> Entry:
    record = FileRecord.of(file)
    counts = {"rows": state.n_rows, "dropped": state.n_dropped}
    return Entry(FileRecord(**{**asdict(record), **counts}), *table_of(state))
