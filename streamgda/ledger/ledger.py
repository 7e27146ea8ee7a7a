"""The ledger itself: refresh it with a dataset of files, and merge what it holds."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from streamgda.blocks.wording import abridged, counted
from streamgda.ledger.comparison import as_known, compare
from streamgda.ledger.contents import LedgerContents
from streamgda.ledger.drift import DriftReport
from streamgda.ledger.manifest import FileRecord, Manifest, Status, check_reads_alike
from streamgda.ledger.names import fold_name
from streamgda.ledger.plan import RefreshPlan, in_held_order, listed, plan_refresh
from streamgda.ledger.reading import OnError, read_files
from streamgda.ledger.report import RefreshReport
from streamgda.ledger.selection import FileFilter, select
from streamgda.ledger.states import State
from streamgda.passes.compute import opening_on
from streamgda.passes.progress import Progress
from streamgda.passes.schedulers import Scheduler
from streamgda.sources.base import FileSource, Source
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.folded import FoldStatistics
from streamgda.storage.paths import shown
from streamgda.storage.versions import Version


class StatisticsLedger(LedgerContents):
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
        max_shift: float | None = None,
        max_divergence: float | None = None,
        max_share_shift: float | None = None,
        no_new_classes: bool = False,
    ) -> RefreshReport:
        """Read the files of a source that are new or have changed, and drop those that are gone.

        With limits, each of these files is judged by itself, against all that is held. One that lies too far
        is quarantined: its statistics are kept, but do not count. Each refresh says so until `accept` or
        `reject` answers, or the file is gone. A file that changes is judged anew, and its former version
        counts no more. The first refresh has nothing to judge by.

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
        max_shift, max_divergence, max_share_shift, no_new_classes : optional
            How far a file may drift; see `DriftReport.alarms`. Not at all limited where not given.

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
                f"the ledger in {shown(self.path)} lies in the folder of the dataset, where its own files "
                'would be taken for data; put it elsewhere, or into a subfolder whose name begins with "_"'
            )
        source = in_held_order(source.rescanned(), self._folder.read_manifest())
        if self.groups is not None:
            source = source.with_groups(self.groups)
        if dry_run:
            self._folder.check_no_foreign()
            plan = self._plan(source, scheduler, verify)[1]
            return plan.report(Manifest(plan.read_options, plan.reused), DriftReport(), dry_run=True)
        limits = {
            "max_shift": max_shift,
            "max_divergence": max_divergence,
            "max_share_shift": max_share_shift,
            "no_new_classes": no_new_classes,
        }
        with self._folder.locked():
            return self._refresh(source, scheduler, progress, on_error, verify, limits)

    def _plan(self, source: FileSource, scheduler: Scheduler, verify: bool) -> tuple[Manifest, RefreshPlan]:
        # The entries are listed before the manifest is read, so that none that another refresh adds
        # meanwhile is taken for lost.
        entries = self._folder.entries.listing()
        kept = {name: getattr(self, name) for name in ("covariance_type", "fourth_moments", "exact")}
        kept |= {} if self.folds is None else {"folds": self.folds}
        read_options = {**source.read_options, **kept}
        held = self._folder.read_manifest() or Manifest(read_options, {})
        check_reads_alike(held, read_options)
        files = listed(source, held, verify, opening_on(scheduler))
        return held, plan_refresh(files, held, entries, read_options)

    def _refresh(
        self,
        source: FileSource,
        scheduler: Scheduler,
        progress: Progress,
        on_error: OnError,
        verify: bool,
        limits: Mapping[str, Any],
    ) -> RefreshReport:
        held, plan = self._plan(source, scheduler, verify)
        entries = self._folder.entries
        found, torn = entries.records(plan.found)
        missing = {**plan.missing, **torn}
        empty = self._empty_for(source)
        read, skipped = read_files(source, missing, entries, empty, scheduler, progress, on_error)
        there = entries.listing()
        kept = held.former((file.path for file in skipped), there)
        fresh = {record.path: as_known(record, held) for record in (*found, *read)}
        now = Manifest(plan.read_options, {**plan.reused, **kept, **fresh})
        self._check_present(now, there)
        now, drift = compare(self._folder, held, now, there, self._empty, limits)
        if now != held:
            self._folder.write_manifest(now)
        self._folder.tidy(held, now, there)
        return plan.report(
            now,
            drift,
            skipped={file.path: file.reason for file in skipped},
            kept=kept,
            rows=sum(record.rows for record in fresh.values()),
            rows_held=now.held.n_rows,
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

    # ------------------------------------------------------------------ alarms are answered

    def accept(self, *paths: str) -> None:
        """Let files count that are quarantined, or were rejected. Nothing is read again.

        Parameters
        ----------
        *paths : str
            Paths as in `quarantined`, or patterns such as "2026/*" for those of quarantined files.

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
        """Leave files out until they change: those that are quarantined, or that count. `accept` undoes it.

        Parameters and errors are those of `accept`. It is an error too if a file has been folded with others.
        """
        self._answer(paths, "rejected")

    def _answer(self, paths: Sequence[str], status: Status) -> None:
        with self._folder.locked():
            manifest = self._existing_manifest()
            entries = manifest.entries
            records = dict(manifest.records)
            for path in (path for meant in paths for path in _matching(manifest, meant)):
                record = records[path]
                if status != record.status and len(entries[record.entry]) > 1:
                    raise ValueError(f"{path} has been folded with other files; it cannot be taken out alone")
                alarm = "" if status == "held" else record.alarm
                records[path] = replace(record, status=status, alarm=alarm)
            self._folder.write_manifest(replace(manifest, records=records))

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
            folded = select(manifest.held, where, None, before)
            if len(folded) < 2:
                return 0
            self._fold(manifest, folded)
            return len(folded)

    def _fold(self, manifest: Manifest, folded: Mapping[str, Sequence[FileRecord]]) -> None:
        name, entries = fold_name(folded), self._folder.entries
        held = [replace(record, entry=name) for records in folded.values() for record in records]
        entries.write(name, entries.merged(list(folded), self._empty), held)
        now = replace(manifest, records={**manifest.records, **{record.path: record for record in held}})
        self._folder.write_manifest(now)
        self._folder.tidy(manifest, now, entries.listing())


def _matching(manifest: Manifest, meant: str) -> list[str]:
    """The file of this path, or the quarantined files whose paths fit this pattern."""
    alarms = manifest.alarms()
    found = [meant] if meant in manifest.records else fnmatch.filter(alarms, meant)
    if not found:
        known = f"quarantined: {abridged(list(alarms), 10)}" if alarms else "no file is quarantined"
        raise ValueError(f"the ledger has no file {meant!r}; {known}")
    return found
