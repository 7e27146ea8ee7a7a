"""`StatisticsLedger`: refresh it, merge its statistics, answer its alarms, and compact it."""

from __future__ import annotations

import fnmatch
import os
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import methodcaller
from typing import Any

import pyarrow as pa

from streamgda.blocks.block import FoldRule
from streamgda.blocks.options import refusing_renamed
from streamgda.blocks.wording import abridged, as_html, counted
from streamgda.ledger.drift import DriftReport, RefreshReport
from streamgda.ledger.entries import TABLE_BYTES, State, total_of
from streamgda.ledger.folder import Contents, LedgerFolder
from streamgda.ledger.manifest import (
    OPTIONS,
    Age,
    FileFilter,
    FileRecord,
    Manifest,
    Status,
    check_reads_alike,
    n_files_of,
    scan_options_of,
    select,
    to_table,
    weights_by_age,
)
from streamgda.ledger.refresh import OnError, Reader, RefreshPlan, as_known, compare, plan_refresh, read_files
from streamgda.passes.compute import Scheduler, opening_on, scheduler_for
from streamgda.passes.progress import Progress
from streamgda.sources.base import FileSource, Source
from streamgda.sources.formats import scan
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceType
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.folded import FoldStatistics
from streamgda.statistics.missing import MissingRows, policy_of
from streamgda.statistics.required import Required
from streamgda.statistics.rules import RowRule, to_metadata
from streamgda.statistics.validation import check_whole
from streamgda.storage.filesystems import Version, resolve
from streamgda.storage.paths import Address, AnyFileSystem, Path

_FILES_OF_TABLE = 256  # a table of fewer files, and of less than half the usual size, is small

_MOST_SMALL = 16  # tables; if there are more, they are joined


class StatisticsLedger:
    """A folder with the statistics of each file of a dataset whose files come, change and go.

    `refresh` reads only the files that are new or have changed, and drops those that are gone; `statistics`
    merges what is held. The statistics of many files share a Parquet table. ``manifest.parquet``, a table
    too, lists the files that count, and is replaced atomically at the end of a refresh. A refresh that is
    killed or meets a full disk therefore changes nothing, and the next one finds the tables that it wrote.

    A local ledger is refreshed by one process at a time, which locks the folder; a second one stops at once
    with an error. An object store has no locks. There, the manifest that is written last counts, so what the
    other refresh found is found again by the next one. Tables are deleted there when they are a day old and
    the manifest does not name them. No file is ever counted twice.

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
        Whether sums are exact: then the merged state has the same bits as a pass over all the files, whatever
        files were dropped or changed before. See `ExactClassStatistics`.
    folds : int, optional
        The number of folds whose statistics are kept, for `fold_statistics`. It cannot be changed later.
    groups : str, optional
        A column of the source: rows of one group share a fold.
    missing : {"raise", "marginal"} or Marginal, optional
        How to learn from rows in which features are missing, as for `accumulate`, but in one read of a file.
        If not given, as the source says.
    rule : RowRule, optional
        A rule that divides the rows of each class, as `draw_centers` of a
        `MixtureDiscriminantAnalysis` returns them. A ledger keeps its centres.
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
        self._place = Address(path)
        self.required = Required.of(covariance_type, fourth_moments=fourth_moments, exact=exact)
        if missing is not None:
            policy_of(missing)
        self.missing, self.rule = missing, rule
        in_folds = {
            name: value for name, value in (("folds", folds), ("groups", groups)) if value is not None
        }
        self._own_options = {**self.required.keywords(), **in_folds, **to_metadata(rule)}
        self._empty = self._state_of_no_rows()
        where, name = resolve(path, filesystem)
        storage, folder = where.unwrapped(name)
        self._folder = LedgerFolder(storage, folder.rstrip("/"))

    def _state_of_no_rows(self, missing: MissingRows = "raise") -> State:
        """The state of no rows; with patterns, if features may be missing in rows to be read."""
        empty = empty_statistics(self.required, missing=missing, rule=self.rule)
        return empty if self.folds is None else FoldStatistics(empty, FoldRule(self.folds, self.groups))

    def __repr__(self) -> str:
        return f"StatisticsLedger({self._place!r}, {self.required.covariance_type!r})"

    def _repr_html_(self) -> str:
        return as_html(repr(self), self.files.to_pandas())

    # ------------------------------------------------------------------ refresh

    def refresh(
        self,
        source: Source | Path | Sequence[Path],
        *,
        scheduler: Scheduler = None,
        progress: Progress = False,
        dry_run: bool = False,
        on_error: OnError = "raise",
        verify: bool = False,
        **limits: Any,
    ) -> RefreshReport:
        """Read the files of a source that are new or have changed, and drop those that are gone.

        If limits are given, each of these files is compared by itself with all the rows held. A file that
        exceeds a limit is quarantined: its statistics are kept, but do not count. Each refresh reports it
        until you call `accept` or `reject`, or until the file is gone. A file that changes is compared again,
        and its former version no longer counts. The first refresh has no rows to compare with.

        Parameters
        ----------
        source : Source, path, or sequence of paths
            A source of files, as `scan` makes it. Its files are listed anew. It must read the same columns in
            the same way each time. Only the order of the columns may differ, and `missing` may change: to
            "drop", or to any value while no row has been dropped. If no features are named where it is
            scanned, they are those of the ledger. A ledger that holds files also takes a path: then it reads
            the files there by the options with which it has read the others.
        scheduler, progress : optional
            As for `accumulate`. The workers write the entries, so the ledger must be where they reach it.
        dry_run : bool, default=False
            Report what would be read, and change nothing.
        on_error : {"raise", "skip"}, default="raise"
            What to do about a file that cannot be read: raise its error, or skip the file. The report says
            which files were skipped and why, and the next refresh tries them again. A file is also skipped if
            a function of `Source.map` raises a ValueError for its rows; any other error of it is raised.
        verify : bool, default=False
            Also read the footer of each file that seems unchanged, and count the file as changed if its
            footer has changed, although its size and time (or ETag) are the same.
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
        """
        if on_error not in {"raise", "skip"}:
            raise ValueError(f"on_error must be 'raise' or 'skip'; got {on_error!r}")
        alarms_of = methodcaller("alarms", **limits)
        alarms_of(DriftReport())  # raises if a limit is not known
        files = self._check_source(self._scanned(source))
        scheduler = scheduler_for(files, scheduler)
        if dry_run:
            plan = self._plan(files, self._folder.contents(), scheduler, verify)
            return plan.report(plan.reused, DriftReport(), {}, dry_run=True)
        with self._folder.lock() as contents:
            plan = self._plan(files, contents, scheduler, verify)
            before, folder, source, there = plan.before, self._folder, plan.source, contents.tables
            empty = self._state_of_no_rows(self.missing or source.missing_rows)
            reader = Reader(folder, before.reads, empty, on_error == "skip")
            new: list[FileRecord] = []
            skipped: dict[str, str] = {}
            if plan.missing:
                new, skipped = read_files(source, plan.missing, reader, scheduler, progress)
            there = folder.tables() if new else contents.tables
            former = [before.records[path] for path in skipped if path in before.records]
            fresh = [as_known(record, before) for record in (*plan.leftovers, *new)]
            now = plan.reused.updated([*(one for one in former if one.is_usable(there)), *fresh])
            if lost := now.tables - there.keys():
                raise OSError(
                    f"{counted(len(lost), 'table')} of entries cannot be found in {folder.path}: "
                    "the workers wrote elsewhere, or another refresh has deleted them; use a folder "
                    "or URL that all share, and refresh again"
                )
            now, drift = compare(folder, before, now, there, self._empty, alarms_of)
            _warn_of_copies(now.held, {record.path for record in fresh})
            now = self._compact(now, there)
            if now != contents.manifest:
                folder.write_manifest(now, before)
            folder.restore_apart(now)
            folder.tidy(now, there)
            return plan.report(now, drift, skipped)

    def _scanned(self, source: Any) -> Source:
        """The source of the files at a path, which are read as the ledger has read the files it holds."""
        is_path = isinstance(source, str | os.PathLike | list | tuple)
        return scan(source, **scan_options_of(self.read_options)) if is_path else source

    def _check_source(self, source: Source) -> FileSource:
        if not isinstance(source, FileSource):
            raise TypeError(
                f"a ledger keeps up with files, such as scan_parquet finds; got {type(source).__name__}"
            )
        if source.includes(self._folder.storage, self._folder.manifest_path):
            raise ValueError(
                f"the ledger in {self._place} lies in the folder of the dataset, where its own files "
                'would be taken for data; put it elsewhere, or into a subfolder whose name begins with "_"'
            )
        return source

    def _plan(self, source: FileSource, there: Contents, scheduler: Scheduler, verify: bool) -> RefreshPlan:
        """What is to be read, with the features of the source in the order of the ledger."""
        before = there.manifest or self._folder.read_apart()
        known = {} if before is None else before.read_options
        source = source.as_read(known).rescanned()
        if not known.get("maps"):  # which are given the features in an order of their own
            source = source.in_order_of(known.get("features") or ())
        if self.groups is not None:
            source = source.with_groups(self.groups)
        read_options = {**source.read_options, **self._own_options}
        if before is not None:
            check_reads_alike(before, read_options, str(self._place))
        before = Manifest(read_options, {} if before is None else before.records)
        each = opening_on(scheduler)
        return plan_refresh(source, before, there, self._folder, verify=verify, each=each)

    def _compact(self, now: Manifest, there: Mapping[str, Version], *, every: bool = False) -> Manifest:
        """The manifest with its entries in other tables.

        Tables of old versions, tables of which less than half is used and, if there are many, small ones are
        written anew; or all of them.
        """
        sizes = Counter(record.entry for record in now.records.values())
        names = {name for name, n_files in sizes.items() if every or not 0 < n_files_of(name) <= 2 * n_files}
        few = {name for name, n_files in sizes.items() if n_files < _FILES_OF_TABLE and name in there}
        small = {name for name in few if 2 * (there[name].size or 0) < TABLE_BYTES}
        names |= small if len(small) > _MOST_SMALL else set()
        records = [record for record in now.sorted() if record.entry in names and not record.is_folded]
        if not records:
            return now
        copies = self._folder.write(self._folder.entries(records), now.reads)
        return now.updated(replace(now.records[one.path], entry=one.entry) for one in copies)

    # ------------------------------------------------------------------ files and statistics

    @property
    def rejected(self) -> tuple[str, ...]:
        """The files that were rejected, and do not count until they change; see `StatisticsLedger.reject`."""
        return self._existing_manifest().rejected

    @property
    def read_options(self) -> dict[str, Any]:
        """What is read of each file, and what is kept of it, as plain values."""
        return dict(self._existing_manifest().read_options)

    @property
    def files(self) -> pa.Table:
        """The files that count: size, time, rows and entry of each; partition keys are columns."""
        return to_table(self._existing_manifest().held)

    @property
    def quarantined(self) -> dict[str, str]:
        """The files that do not count, because they have drifted, and why; see `StatisticsLedger.accept`."""
        return self._existing_manifest().quarantined

    def statistics(
        self,
        *,
        where: FileFilter = None,
        half_life: timedelta | None = None,
        since: datetime | None = None,
        age: Age = None,
    ) -> Statistics:
        """The merged statistics of all the files held, or of some of them.

        Parameters
        ----------
        where : str, pyarrow expression, or list of tuples, optional
            Which of the files to merge: a pattern such as ``"2024/*"`` for their paths, or a filter over the
            columns of `files`, such as ``[("region", "=", "north")]``, as `pyarrow.parquet.read_table` takes
            it.
        half_life : timedelta, optional
            The time in which the weight of a row halves. Its age is the difference between the time of its
            file and that of the newest chosen file. A file that is dated in the future counts as new.
        since : datetime, optional
            Only files modified at or after this time are merged. It is in UTC, unless it has a time zone.
        age : str, sequence of str, or mapping of str to date, optional
            With `half_life`, the date of a file, to be used instead of its modification time: a partition key
            such as "day", with values like 2026-01-31; several keys, such as ``["year", "month", "day"]``; or
            a mapping from each path in `files` to its date.

        Returns
        -------
        ClassStatistics or ExactClassStatistics
            Merged in the order of the paths, so the same files give the same bits whatever the history.

        Raises
        ------
        ValueError
            If nothing is held, if no file is chosen, or if the age of a file is not known.
        """
        return total_of(self._merged(where, half_life, since, age))

    def fold_statistics(self, **chosen: Any) -> FoldStatistics:
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
        state = self._merged(**chosen)
        if not isinstance(state, FoldStatistics):
            raise ValueError(f"{self!r} keeps no folds: make it with folds=5")
        return state

    def _merged(
        self,
        where: FileFilter = None,
        half_life: timedelta | None = None,
        since: datetime | None = None,
        age: Age = None,
    ) -> State:
        """The merged entries of the chosen files."""

        def merge(manifest: Manifest) -> State:
            records = select(manifest.held, where, since)
            if not records:
                n_held, n_apart = len(manifest.held.records), len(manifest.quarantined)
                raise ValueError(
                    f"the ledger in {self._place} holds no file that is chosen, of {n_held} in all"
                    + (f"; {counted(n_apart, 'file')} quarantined" if n_apart else "")
                )
            if len(records) < len(manifest.held.records) or half_life:
                _check_unfolded(records)
            weights = weights_by_age(records, half_life, age)
            return self._folder.merged(records, self._empty, weights)

        manifest = None
        while True:
            before, manifest = manifest, self._checked_manifest()
            try:
                return merge(manifest)
            except FileNotFoundError:
                if manifest == before:
                    raise
                # A refresh has replaced the manifest meanwhile.

    def _checked_manifest(self) -> Manifest:
        """The manifest; a ValueError if the ledger was filled with other options than it is opened with."""
        manifest = self._existing_manifest()
        options = {name: value for name, value in manifest.read_options.items() if name not in OPTIONS}
        check_reads_alike(manifest, {**options, **self._own_options}, str(self._place))
        return manifest

    def _existing_manifest(self) -> Manifest:
        return self._existing(self._folder.read_manifest())

    def _existing(self, manifest: Manifest | None) -> Manifest:
        if manifest is None:
            raise ValueError(f"{self!r} holds nothing yet: refresh it with a source first")
        return manifest

    # ------------------------------------------------------------------ quarantined files

    def accept(self, *paths: str) -> None:
        """Let quarantined or rejected files count. No file is read again.

        Parameters
        ----------
        *paths : str
            Paths as in `quarantined`, or patterns such as ``"2026/*"`` for those of quarantined files.

        Raises
        ------
        ValueError
            If the ledger has no such file.
        RuntimeError
            If another process is refreshing the ledger.

        Examples
        --------
        >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq, tempfile
        >>> from streamgda import StatisticsLedger, scan_parquet
        >>> folder, width = tempfile.mkdtemp(), np.random.default_rng(0).normal(size=100)
        >>> ledger = StatisticsLedger(f"{folder}/_ledger")
        >>> for day, shift in (("monday", 0.0), ("tuesday", 9.0)):
        ...     table = pa.table({"width": width + shift, "kind": ["a"] * 100})
        ...     pq.write_table(table, f"{folder}/{day}.parquet")
        ...     _ = ledger.refresh(scan_parquet(folder, "kind"), max_shift=1)
        >>> ledger.quarantined
        {'tuesday.parquet': 'class a: the mean of width has shifted by 9.354 standard deviations'}
        >>> ledger.statistics().n_rows
        100
        >>> ledger.accept("tuesday.parquet")
        >>> ledger.statistics().n_rows
        200
        """
        self._answer(paths, "held")

    def reject(self, *paths: str) -> None:
        """Leave quarantined files, or files that count, out until they change. `accept` undoes it.

        Parameters and errors are those of `accept`.
        """
        self._answer(paths, "rejected")

    def _answer(self, paths: Sequence[str], status: Status) -> None:
        if not paths:
            return
        with self._folder.lock() as contents:
            manifest = self._existing(contents.manifest)
            records = [manifest.records[path] for name in paths for path in _matching(manifest, name)]
            _check_unfolded(records)
            answers = [
                replace(record, status=status, alarm="" if status == "held" else record.alarm)
                for record in records
            ]
            self._folder.write_manifest(manifest.updated(answers), manifest)

    # ------------------------------------------------------------------ compaction

    def compact(self) -> int:
        """Write all entries anew, in the order of their paths, into as few tables as hold them.

        A refresh joins small tables by itself, and writes tables anew that are hardly used. In the order of
        their paths, entries take the least memory to merge.

        Returns
        -------
        int
            How many tables there are now.

        Raises
        ------
        ValueError
            If nothing is held.
        RuntimeError
            If another process is refreshing the ledger.
        OSError
            If a table cannot be written, or the ledger cannot be reached.
        """
        with self._folder.lock() as contents:
            manifest = self._existing(contents.manifest)
            now = self._compact(manifest, contents.tables, every=True)
            self._folder.write_manifest(now, manifest)
            self._folder.tidy(now, contents.tables)
            return len(now.tables)


def _warn_of_copies(held: Manifest, new: Collection[str]) -> None:
    """Warn of files that have just been read, and have the content of another file that counts."""
    if not new:
        return
    known: dict[tuple[Any, ...], str] = {}
    for record in sorted(held.sorted(), key=lambda record: record.path in new):
        content = record.size, record.footer, record.rows
        other = known.setdefault(content, record.path)
        if other != record.path and record.path in new and record.footer and record.rows:
            warnings.warn(
                f"{record.path} seems to be a copy of {other}: its rows count twice; reject or delete it",
                stacklevel=3,
            )


def _check_unfolded(records: Sequence[FileRecord]) -> None:
    """Raise ValueError if the statistics of some files are not to be had by themselves."""
    for record in records:
        if record.is_folded:
            raise ValueError(
                f"an older version has folded {record.path} with other files; refresh the ledger first, "
                "which reads them again"
            )


def _matching(manifest: Manifest, name: str) -> list[str]:
    """The file with this path, or the quarantined files whose paths match this pattern."""
    apart = list(manifest.quarantined)
    paths = [name] if name in manifest.records else fnmatch.filter(apart, name)
    if not paths:
        hint = f"quarantined: {abridged(apart, 10)}" if apart else "no file is quarantined"
        raise ValueError(f"the ledger has no file {name!r}; {hint}")
    return paths
