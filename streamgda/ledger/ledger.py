"""The ledger itself: refresh it with a dataset of files, and merge what it holds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from streamgda.blocks.folds import FoldRule
from streamgda.blocks.wording import counted
from streamgda.ledger.ages import Age
from streamgda.ledger.comparison import compare
from streamgda.ledger.folder import LedgerFolder
from streamgda.ledger.manifest import FileRecord, Manifest, check_reads_alike
from streamgda.ledger.merging import merged
from streamgda.ledger.names import fold_name
from streamgda.ledger.plan import RefreshPlan, in_held_order, listed, plan_refresh
from streamgda.ledger.reading import OnError, read_files
from streamgda.ledger.report import RefreshReport
from streamgda.ledger.selection import Choice, FileFilter, select, to_table
from streamgda.ledger.states import State, total_of
from streamgda.passes.progress import Progress
from streamgda.passes.schedulers import Scheduler
from streamgda.sources.base import FileSource, Source
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceType
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.folded import FoldStatistics
from streamgda.storage.filesystems import resolve, unwrapped
from streamgda.storage.paths import AnyFileSystem, Path
from streamgda.storage.versions import Version


class StatisticsLedger:
    """A folder with the statistics of each file of a dataset whose files come, change and go.

    `refresh` reads only the files that are new or have changed, and drops those that are gone; `statistics`
    merges what is held. The statistics of each file are an entry, a Parquet table as `ClassStatistics.save`
    writes it. ``manifest.parquet``, a table too, lists the files that count, and is replaced atomically at
    the end of a refresh. A refresh that is killed or meets a full disk has therefore changed nothing, and
    the next one finds what it had read.

    A local ledger is refreshed by one process at a time, which locks the folder; a second one stops at once
    with an error. An object store has no locks. There, two refreshes at once write the same entries under
    the same names, and the manifest that is written last counts. If files changed between the two, an entry
    that it names may be gone: reading it is then an error, and the next refresh reads the file again. No
    file is ever counted twice.

    Parameters
    ----------
    path : str or path
        The folder of the ledger, or a URL such as "s3://bucket/ledger". Made when it is first refreshed.
    covariance_type : {"full", "tied", "diag"}, default="full"
        What to keep of the scatter within the classes; see `ClassStatistics`.
    fourth_moments : bool, default=False
        Whether to keep fourth moments too, for ``shrinkage="auto"``; see `ClassStatistics`.
    exact : bool, default=False
        Whether sums are exact: a file that is dropped or has changed then leaves no trace, and the merged
        state has the bits of a pass over all the files. See `ExactClassStatistics`.
    folds : int, optional
        Keep the statistics of so many folds of the rows of each file, for `fold_statistics`. A ledger keeps
        its number of folds.
    groups : str, optional
        A column of the source: rows of one group share a fold.
    filesystem : pyarrow or fsspec filesystem, optional
        Where `path` is; found from `path` where not given.

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

    def __init__(
        self,
        path: Path,
        covariance_type: CovarianceType = "full",
        *,
        fourth_moments: bool = False,
        exact: bool = False,
        folds: int | None = None,
        groups: str | None = None,
        filesystem: AnyFileSystem | None = None,
    ) -> None:
        if folds is not None and not (isinstance(folds, int) and folds > 1):
            raise ValueError(f"at least 2 folds are needed, a whole number; got folds={folds!r}")
        if groups is not None and folds is None:
            raise ValueError("groups say which rows share a fold; give a number of folds too")
        empty = empty_statistics(covariance_type, fourth_moments=fourth_moments, exact=exact)
        self._empty: State = empty if folds is None else FoldStatistics(empty, FoldRule(folds, groups))
        self.folds, self.groups = folds, groups
        self.path = os.fspath(path)
        self.covariance_type, self.fourth_moments, self.exact = covariance_type, fourth_moments, exact
        found, folder = unwrapped(*resolve(path, filesystem))
        self._folder = LedgerFolder(found, folder.rstrip("/"))

    def __repr__(self) -> str:
        options = "".join(f", {name}=True" for name in ("fourth_moments", "exact") if getattr(self, name))
        options += "" if self.folds is None else f", folds={self.folds}"
        return f"StatisticsLedger({self.path!r}, {self.covariance_type!r}{options})"

    # ------------------------------------------------------------------ what goes in

    def refresh(
        self,
        source: Source,
        *,
        scheduler: Scheduler = None,
        progress: Progress = False,
        dry_run: bool = False,
        on_error: OnError = "raise",
        verify: bool = False,
    ) -> RefreshReport:
        """Read the files of a source that are new or have changed, and drop those that are gone.

        Parameters
        ----------
        source : Source
            A source of files, as `scan_parquet` makes it. Its files are listed anew. It must read the same
            columns, in any order, in the same way each time; only ``missing="drop"`` or ``missing="keep"``
            may follow on ``missing="raise"``.
        scheduler, progress : optional
            As for `accumulate`. The workers write the entries, so the ledger must be where they reach it.
        dry_run : bool, default=False
            Report what would be read, and change nothing.
        on_error : {"raise", "skip"}, default="raise"
            What to do about a file that cannot be read: raise its error, or go on with the others. The
            report says which files were skipped and why, and the next refresh tries them again.
        verify : bool, default=False
            Read the footer of each file that seems unchanged too, and take the file for changed if its
            footer is another one, though size and time (or ETag) are the same.

        Returns
        -------
        RefreshReport
            What was done, and how far the new data lies from the old. It can be printed.

        Raises
        ------
        ValueError
            If a file cannot be read or changes while it is read, or the source reads other columns than the
            ledger holds. The ledger is then as it was.
        RuntimeError
            If another process is refreshing the ledger.
        OSError
            If an entry cannot be written, or the ledger not be reached. The ledger is then as it was.
        """
        if on_error not in {"raise", "skip"}:
            raise ValueError(f"on_error must be 'raise' or 'skip'; got {on_error!r}")
        if not isinstance(source, FileSource):
            raise TypeError(
                f"a ledger keeps up with files, such as scan_parquet finds; got {type(source).__name__}"
            )
        if source.includes(self._folder.filesystem, self._folder.manifest_path):
            raise ValueError(
                f"{self!r} lies in the folder of the dataset, where its own files would be taken for data; "
                'put it elsewhere, or into a subfolder whose name begins with "_"'
            )
        source = in_held_order(source.rescanned(), self._folder.read_manifest())
        if self.groups is not None:
            source = source.with_groups(self.groups)
        if dry_run:
            self._folder.check_no_foreign()
            return self._plan(source, verify)[1].report(dry_run=True)
        with self._folder.locked():
            return self._refresh(source, scheduler, progress, on_error, verify)

    def _plan(self, source: FileSource, verify: bool) -> tuple[Manifest, RefreshPlan]:
        # The entries are listed before the manifest is read, so that none that another refresh adds
        # meanwhile is taken for lost.
        entries = self._folder.entries.listing()
        kept = {name: getattr(self, name) for name in ("covariance_type", "fourth_moments", "exact")}
        kept |= {} if self.folds is None else {"folds": self.folds}
        read_options = {**source.read_options, **kept}
        held = self._folder.read_manifest() or Manifest(read_options, {})
        check_reads_alike(held, read_options)
        return held, plan_refresh(listed(source, held, verify), held, entries, read_options)

    def _refresh(
        self, source: FileSource, scheduler: Scheduler, progress: Progress, on_error: OnError, verify: bool
    ) -> RefreshReport:
        held, plan = self._plan(source, verify)
        entries = self._folder.entries
        found, torn = entries.records(plan.found)
        missing = {**plan.missing, **torn}
        empty = self._empty_for(source)
        read, skipped = read_files(source, missing, entries, empty, scheduler, progress, on_error)
        there = entries.listing()
        kept = held.former((file.path for file in skipped), there)
        fresh = {record.path: record for record in (*found, *read)}
        now = Manifest(plan.read_options, {**plan.reused, **kept, **fresh})
        self._check_present(now, there)
        outcome = compare(self._folder, held, now, there, self._empty)
        if now != held:
            self._folder.write_manifest(now)
        self._folder.tidy(held, now, there)
        return plan.report(
            dry_run=False,
            skipped={file.path: file.reason for file in skipped},
            kept=kept,
            rows=sum(record.rows for record in fresh.values()),
            rows_held=now.n_rows,
            **outcome,
        )

    def _empty_for(self, source: FileSource) -> State:
        """The state of no rows; one with patterns, if the source keeps rows in which features are missing."""
        if not source.keeps_missing:
            return self._empty
        empty = empty_statistics(
            self.covariance_type, fourth_moments=self.fourth_moments, exact=self.exact, incomplete=True
        )
        return FoldStatistics(empty, self._empty.rule) if isinstance(self._empty, FoldStatistics) else empty

    def _check_present(self, now: Manifest, there: Mapping[str, Version]) -> None:
        if missing := now.entries.keys() - there.keys():
            raise OSError(
                f"{counted(len(missing), 'entry')} cannot be found in {self._folder.entries.path}: "
                "the workers wrote elsewhere, or another refresh has deleted what they wrote; use a folder "
                "or URL that all share, and refresh again"
            )

    # ------------------------------------------------------------------ what comes out

    @property
    def read_options(self) -> dict[str, Any]:
        """What is read of each file, and what is kept of it, as plain values."""
        return dict(self._existing_manifest().read_options)

    @property
    def files(self) -> pa.Table:
        """The files held: size, time, rows and entry of each; partition keys are columns."""
        return to_table(self._existing_manifest())

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
            The files that count: a pattern such as ``"2024/*"`` for their paths, or a filter over the
            columns of `files`, such as ``[("region", "=", "north")]``, as
            `pyarrow.parquet.read_table` takes it.
        half_life : timedelta, optional
            The time in which the weight of a row halves. Its age is that of its file, counted from the newest
            of the chosen files; priors, means and covariances depend on the differences alone. A file that
            is dated in the future counts as new.
        since : datetime, optional
            Only files modified at or after this time count.
        age : str, sequence of str, or mapping of str to date, optional
            With `half_life`, what dates a file in place of its modification: a partition key such as "day",
            with values like 2026-01-31; several, such as ``["year", "month", "day"]``; or the date of each
            path in `files`.

        Returns
        -------
        ClassStatistics or ExactClassStatistics
            Merged in the order of the paths, so the same files give the same bits whatever the history.

        Raises
        ------
        ValueError
            If nothing is held, no file is chosen, only some of the files that were folded into one entry are,
            or the age of a file is not known.
        """
        return total_of(self._merged(Choice(where, half_life, since, age)))

    def fold_statistics(
        self,
        *,
        where: FileFilter = None,
        half_life: timedelta | None = None,
        since: datetime | None = None,
        age: Age = None,
    ) -> FoldStatistics:
        """The merged statistics of each fold, for `StatisticsSearchCV.fit`, which then reads nothing.

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
        state = self._merged(Choice(where, half_life, since, age))
        if not isinstance(state, FoldStatistics):
            raise ValueError(f"{self!r} keeps no folds: make it with folds=5")
        return state

    def _merged(self, choice: Choice) -> State:
        manifest = self._existing_manifest()
        self._check_folds(manifest)
        try:
            return self._selected(manifest, choice)
        except FileNotFoundError:
            newer = self._existing_manifest()
            if newer == manifest:
                raise
            return self._selected(newer, choice)  # a refresh has ended meanwhile

    def _check_folds(self, manifest: Manifest) -> None:
        """Raise ValueError if the ledger was filled with another number of folds."""
        held = manifest.read_options.get("folds")
        if held != self.folds:
            raise ValueError(f"the ledger in {self.path} has folds={held}; open it so, not with {self.folds}")

    def _selected(self, manifest: Manifest, choice: Choice) -> State:
        chosen = choice.entries(manifest)
        if not chosen:
            raise ValueError(f"{self!r} holds no file that is chosen, of {len(manifest.records)} in all")
        return merged(self._folder.entries, list(chosen), self._empty, choice.weights(chosen))

    def _existing_manifest(self) -> Manifest:
        manifest = self._folder.read_manifest()
        if manifest is None:
            raise ValueError(f"{self!r} holds nothing yet: refresh it with a source first")
        return manifest

    # ------------------------------------------------------------------ upkeep

    def compact(self, *, where: FileFilter = None, before: datetime | None = None) -> int:
        """Fold entries into one, which keeps the list of its files.

        A ledger of very many files is then merged sooner and takes less room. Folded entries cannot be
        taken apart again: if one of their files changes or goes, the next refresh reads all the others
        again; and `statistics` takes all of them or none. So fold what will not change: old files, one
        partition at a time.

        Parameters
        ----------
        where : optional
            The files whose entries are folded, as for `statistics`; all files where not given.
        before : datetime, optional
            Only files modified before this time are folded.

        Returns
        -------
        int
            How many entries were folded into one; 0 if there were fewer than two.

        Raises
        ------
        ValueError
            If nothing is held, or only some of the files that were folded into one entry before are chosen.
        RuntimeError
            If another process is refreshing the ledger.
        OSError
            If an entry cannot be written, or the ledger not be reached.
        """
        with self._folder.locked():
            manifest = self._existing_manifest()
            folded = select(manifest, where, None, before)
            if len(folded) < 2:
                return 0
            self._fold(manifest, folded)
            return len(folded)

    def _fold(self, manifest: Manifest, folded: Mapping[str, Sequence[FileRecord]]) -> None:
        name, entries = fold_name(folded), self._folder.entries
        held = [replace(record, entry=name) for records in folded.values() for record in records]
        entries.write(name, merged(entries, list(folded), self._empty), held)
        now = replace(manifest, records={**manifest.records, **{record.path: record for record in held}})
        self._folder.write_manifest(now)
        self._folder.tidy(manifest, now, entries.listing())
