"""`StatisticsLedger`: refresh it with what has come, changed or gone, and take its statistics."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from streamgda.data.blocks.block import FoldRule
from streamgda.data.blocks.options import refusing_renamed
from streamgda.data.blocks.wording import as_html, listed
from streamgda.data.sources.base import FileSource, Source
from streamgda.data.sources.columns.encoding import AS_NAMED
from streamgda.data.sources.files.formats import scan
from streamgda.data.sources.running import Progress, Scheduler
from streamgda.data.storage.documents import digest, to_json
from streamgda.data.storage.filesystems import LOCK, finished_name, reached, resolve
from streamgda.data.storage.footers import release_memory
from streamgda.data.storage.paths import Address, AnyFileSystem, Path
from streamgda.jobs.ledger.drift import Baseline, DriftReport, RefreshReport, check_distances
from streamgda.jobs.ledger.entries import Entries, FileRecord, LedgerFile, State, as_lists, table_of, total_of
from streamgda.jobs.ledger.refresh import OnError, Reader, RefreshPlan, plan_refresh, warn_of_copies
from streamgda.jobs.passes.compute import scheduler_for
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceType
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.folded import FoldStatistics
from streamgda.statistics.missing import MissingRows, policy_of
from streamgda.statistics.registry import RULES
from streamgda.statistics.required import Required
from streamgda.statistics.rules import RowRule, rule_in, to_metadata
from streamgda.statistics.validation import check_whole

LEDGER = "ledger.parquet"
ENTRIES = "entries"

_OLD = "manifest.parquet"  # of ledgers in older formats
_PARAMETERS = (*Required().keywords(), "folds", "groups")
_STEPS = {"columns": "with_columns", "maps": "map", "split": "split"}  # the methods of a source
_SCANNED = ("target", "features", "weight", "missing", "format", "hive_types")


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
        A rule that divides or maps the rows, as ``model.statistics_.rule`` of a fitted
        `RandomFeatureClassifier`, or `draw_centers` of a `MixtureDiscriminantAnalysis`.
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
        self.required = Required(covariance_type, fourth_moments, exact)
        policy_of(missing or "raise")  # raises if it names none
        self.missing, self.rule = missing, rule
        self._empty = self._state_of_no_rows()
        self._options = {**self.required.keywords(), "folds": folds, "groups": groups, **to_metadata(rule)}
        where, name = resolve(path, filesystem)
        self._storage, folder = where.unwrapped(name)
        self._folder = folder.rstrip("/")

    def _state_of_no_rows(self, missing: MissingRows = "raise") -> State:
        empty = empty_statistics(self.required, missing=missing, rule=self.rule)
        return empty if self.folds is None else FoldStatistics(empty, FoldRule(self.folds, self.groups))

    @property
    def _name(self) -> str:
        return f"the ledger in {Address(self.path)}"

    def __repr__(self) -> str:
        return f"StatisticsLedger({Address(self.path)!r}, {self.required.covariance_type!r})"

    def _repr_html_(self) -> str:
        return as_html(repr(self), self.files.to_pandas())

    # ------------------------------------------------------------------ what is held

    @property
    def files(self) -> pa.Table:
        """The files that count: path, size, time and rows of each; partition keys are columns.

        A key with the name of one of these columns shows in the paths alone.
        """
        columns: dict[str, Any] = as_lists(self._existing().records)
        columns["modified"] = pa.array(columns["modified"], pa.timestamp("ns", "UTC"))
        shown = {name: columns[name] for name in ("path", "size", "modified", "rows", "dropped")}
        keys = list(map(json.loads, columns["partition"]))
        names = dict.fromkeys(chain.from_iterable(keys))
        others = {name: _column([key.get(name) for key in keys]) for name in names if name not in shown}
        return pa.table({**shown, **others})

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
        ...     table = pa.table({"width": [1.0, 2.0 * day], "kind": ["a", "a"]})
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
        before = self._existing()
        self._check_alike(before, {**before.reads, **dict.fromkeys((*_PARAMETERS, *RULES)), **self._options})
        if weights is None:
            return before.state(self._empty)
        if unknown := weights.keys() - {record.path for record in before.records}:
            raise ValueError(f"{self!r} holds no file {min(unknown)!r}")
        chosen = [record for record in before.records if weights.get(record.path)]
        total = self._empty.copy()
        try:
            for record, state in self._entries(before.reads).states(chosen, self._empty):
                total += state if weights[record.path] == 1 else state.decay(weights[record.path])
        except FileNotFoundError:
            if self._file().records == before.records:
                raise
            return self._state(weights)  # a refresh has ended meanwhile
        return total

    def _existing(self) -> LedgerFile:
        before = self._file()
        if not before.reads:
            self._names()  # which may be those of an older ledger
            raise ValueError(f"{self!r} holds nothing yet: refresh it with a source first")
        return before

    def _file(self) -> LedgerFile:
        return LedgerFile.at(f"{self._folder}/{LEDGER}", self._storage)

    def _entries(self, reads: Mapping[str, Any]) -> Entries:
        return Entries(self._storage, f"{self._folder}/{ENTRIES}", digest(reads, 4))

    def _check_alike(self, before: LedgerFile, reads: Mapping[str, Any]) -> None:
        known = before.reads
        names = [one for one in dict.fromkeys((*reads, *known)) if known and known.get(one) != reads.get(one)]
        if known.get("missing") == "raise":  # no row of those files lacks anything
            names = [name for name in names if name != "missing"]
        if not names:
            return
        ours, theirs = _texts_of(known, names), _texts_of(reads, names)
        if "rule" in ours and ours["rule"] == theirs["rule"]:
            theirs["rule"] = f"another {theirs['rule']}"
        raise ValueError(
            f"{self._name} holds statistics with {_as_arguments(ours)}, and here it is "
            f"{_as_arguments(theirs)}; {self._remedy(ours)}, or use a ledger of its own for each way to read "
            "a dataset"
        )

    def _remedy(self, ours: dict[str, str]) -> str:
        """How to open and read a ledger that was made with these options, which differ now."""
        if ours.get("rule", "None") != "None":
            ours = {**ours, "rule": f"load_statistics('{Address(self.path)}/{LEDGER}').rule"}
        own = {name: made for name, made in ours.items() if name in (*_PARAMETERS, "rule")}
        read = {name: made for name, made in ours.items() if name not in own and name not in _STEPS}
        source = [f"with {_as_arguments(read)}"] if read else []
        for how, is_made in ("made as before by", True), ("without", False):
            steps = [_STEPS[name] for name in _STEPS if name in ours and (ours[name] != "None") is is_made]
            source += [f"{how} {' and '.join(steps)}"] if steps else []
        ways = [f"open it with {_as_arguments(own)}"] if own else []
        ways += [f"refresh it with a source {', '.join(source)}"] if source else []
        return " and ".join(ways)

    @contextmanager
    def _naming(self, reads: Mapping[str, Any]) -> Iterator[None]:
        """Say how the ledger was made in errors of reading a source in the same way."""
        try:
            yield
        except ValueError as error:
            if not reads:
                raise
            made = _as_arguments(_texts_of(reads, [name for name in _SCANNED if reads.get(name)]))
            raise ValueError(
                f"{error}; {self._name} was made with {made}: use another one for other data"
            ) from error

    # ------------------------------------------------------------------ refresh

    def refresh(
        self,
        source: Source | Path | Sequence[Path],
        *,
        scheduler: Scheduler = None,
        progress: Progress = False,
        dry_run: bool = False,
        on_error: OnError = "raise",
        accept: bool = False,
        exclude: Collection[str] = (),
        **limits: Any,
    ) -> RefreshReport:
        """Read the files of a source that are new or have changed, and drop those that are gone.

        A file has changed if its size, ETag or modification time has, or the inode of a local file: so a copy
        in its place, or a file of a mount that renumbers inodes, is read anew even if all else is the same.

        If limits are given, each of these files is compared by itself with all the rows held. If one exceeds
        a limit, the report names it, and the ledger holds what it held before. What was read is kept beside
        it. So refresh once more with ``accept=True``, other limits, or `exclude`, and no file is read again.
        The first refresh has no rows to compare with.

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
        exclude : collection of str, optional
            Files that are not to count, by their paths as in `files` and in the report. Name them each time.
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
        >>> ledger.refresh(scan_parquet(folder, "kind"), max_shift=1, exclude=["tuesday.parquet"]).rows_held
        100
        >>> ledger.refresh(scan_parquet(folder, "kind"), max_shift=1, accept=True).rows_held
        200
        """
        if on_error not in {"raise", "skip"}:
            raise ValueError(f"on_error must be 'raise' or 'skip'; got {on_error!r}")
        DriftReport().alarms(**limits)  # raises if a limit is not known
        check_distances(total_of(self._empty).has_scatter, **limits)
        if isinstance(source, str | os.PathLike | list | tuple):
            reads = self.read_options
            with self._naming(reads):
                source = scan(source, **scan_options_of(reads))
        self._check_source(source)
        with self._locked(dry_run):
            before = self._file()
            source, reads = self._as_read(source, before)
            scheduler, entries = scheduler_for(source, scheduler), self._entries(reads)
            files = source.files()
            if self.folds is None and not source.parts:
                files = [replace(file, name="") for file in files]
            planned, there = plan_refresh(files, exclude, before.records, entries)
            if dry_run:
                return planned.report([*planned.known, *map(FileRecord.of, planned.missing)], dry_run=True)
            now, skipped = planned.known, dict[str, str]()
            if planned.missing:
                with entries.open() as opened:
                    empty = self._state_of_no_rows(self.missing or source.missing_rows)
                    reader = Reader(opened, empty, on_error)
                    new, skipped = reader.read(source, planned.missing, scheduler, progress)
                there = entries.there()
                now = planned.after(new, skipped, there)
                warn_of_copies(new, now)
            state, drift, alarms = self._merged(entries, planned, now, before, **limits)
            outcome = {"skipped": skipped, "alarms_by_file": alarms, **vars(drift)}
            if alarms and not accept:
                return planned.report(now, before.records, is_refused=True, **outcome)
            report = planned.report(now, now, **outcome)
            now = entries.joined(now, there)
            if not before.reads or now != before.records:
                LedgerFile(reads, now, *state, before.path).commit(self._storage)
            entries.tidy({record.table for record in now}, there)
            return report

    def _check_source(self, source: Any) -> None:
        if not isinstance(source, FileSource):
            raise TypeError(f"a ledger keeps up with files, as scan finds; got {type(source).__name__}")
        if source.includes(self._storage, f"{self._folder}/{LEDGER}"):
            raise ValueError(
                f"{self._name} lies in the folder of the dataset, where its own files would be "
                'taken for data; put it elsewhere, or into a subfolder whose name begins with "_"'
            )

    def _names(self) -> list[str]:
        """What lies in the folder. ValueError if it is of other things, or is an older ledger."""
        inside = reached(self._folder, partial(self._storage.children, self._folder))
        foreign = [name for name in inside if (finished_name(name) or name) not in {LEDGER, ENTRIES, LOCK}]
        if LEDGER in inside or not foreign:
            return inside
        if _OLD in inside:
            raise ValueError(f"{self._name} is of an older format: name a new folder")
        raise ValueError(
            f"{self._folder} is a folder of other things, such as {min(foreign)}: name a new one"
        )

    @contextmanager
    def _locked(self, dry_run: bool) -> Iterator[None]:
        """Lock a local folder, and make it; a folder of other things is left alone."""
        inside = self._names()
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
                    with suppress(FileNotFoundError):  # it was that of a refresh that has ended now
                        self._storage.filesystem.delete_file(f"{self._folder}/{name}")
            yield

    def _as_read(self, source: Any, before: LedgerFile) -> tuple[FileSource, dict[str, Any]]:
        """The source with the features in the order of the ledger, and what is read."""
        known, asked = before.reads, source.read_options
        # First, else the error would be of columns that have other types or are not there.
        self._check_alike(before, {**known, **{name: asked.get(name) for name in ("format", "columns")}})
        with self._naming(known):
            source = source.as_read(known).rescanned()
        if known and source.before_maps.reads_keys:
            source = source.with_kinds_of(total_of(before.state(self._empty)), together=True)
        if not known.get("maps"):  # which are given the features in an order of their own
            source = source.in_order_of(known.get("features") or ())
        if self.groups is not None:
            source = source.with_groups(self.groups)
        reads = json.loads(to_json({**source.read_options, **self._options}))
        self._check_alike(before, reads)
        return source, reads

    def _merged(
        self, entries: Entries, plan: RefreshPlan, now: list[FileRecord], before: LedgerFile, **limits: Any
    ) -> tuple[tuple[pa.Table, Mapping[str, Any]], DriftReport, dict[str, str]]:
        """The state of the files, as a table with its document; and how new files compare with those held."""
        records, empty = [*plan.before.values()], self._empty
        if before.reads and now == records:
            return (before.table, before.document), DriftReport(), {}
        old = before.state(empty)
        baseline, new, alarms = Baseline(total_of(old)), empty.copy(), dict[str, str]()
        # The states are merged in the order of the paths. So what follows all that is held is added to it.
        n_merged = len(records) if now[: len(records)] == records else 0
        total = (old if n_merged else empty).copy()
        for run, part in entries.parts(now[n_merged:], empty):  # new entries are in tables of their own
            if plan.is_new(run[0]):
                new += part
            total += part
            del part  # or it would be in memory while the next one is read
        if not before.reads:
            total_of(total).schema.warn_of_misread()
        if limits and old.n_rows:
            for record, state in entries.states(list(filter(plan.is_new, now)), empty):
                if said := baseline.drift(total_of(state)).alarms(**limits):
                    alarms[record.path] = "; ".join(said)
        release_memory()
        return table_of(total), baseline.drift(total_of(new)), alarms


def _column(values: list[Any]) -> pa.Array:
    """Values as they are; as text if some are text and some are not."""
    is_mixed = len({type(value) for value in values if value is not None}) > 1
    return pa.array([value if value is None else str(value) for value in values] if is_mixed else values)


def scan_options_of(read_options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with which a path is scanned as the files of a ledger were."""
    options = {name: read_options[name] for name in _SCANNED if read_options.get(name) is not None}
    if made := read_options.get("columns"):  # computed features, which no scan makes
        options["features"] = [name for name in options["features"] if name not in made] or None
    return options


def options_of(read_options: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a ledger was made with, from its read options."""
    options = {name: read_options[name] for name in _PARAMETERS if name in read_options}
    rule = rule_in(read_options)
    return options if rule is None else {**options, "rule": rule}


def _texts_of(read_options: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """Some options by the names of their arguments, with their values as text; a rule by its `repr`."""
    known = {name: value for name, value in read_options.items() if value is not None}
    texts = {AS_NAMED.get(name, name): _written(known.get(name)) for name in names if name not in RULES}
    if not RULES.keys().isdisjoint(names):
        texts["rule"] = repr(rule_in(known))
    return texts


def _as_arguments(texts: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={text}" for name, text in texts.items())


def _written(value: Any) -> str:
    return f"[{listed(value)}]" if isinstance(value, list) else f"{value!r:.200}"
