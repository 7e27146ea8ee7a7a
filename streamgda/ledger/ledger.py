"""The ledger: statistics of a dataset whose files come, change and go, without reading any of them twice."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from streamgda.ledger import manifest as manifests
from streamgda.ledger.drift import drift
from streamgda.ledger.entries import EntryFolder, MergedCache
from streamgda.ledger.manifest import FileRecord, Manifest
from streamgda.ledger.names import ENTRIES, LOCK, MANIFEST, TOTAL, fold_name, foreign_names, is_unfinished
from streamgda.ledger.plan import RefreshPlan, plan_refresh
from streamgda.ledger.reading import read_files
from streamgda.ledger.report import RefreshReport
from streamgda.ledger.selection import ages, select, to_table
from streamgda.sources.base import FileSource, Source
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceType
from streamgda.statistics.factory import empty_statistics
from streamgda.storage.filesystems import is_local, reaching, resolve, unwrapped
from streamgda.storage.versions import Version, children

_ORPHANED_FOR = timedelta(days=1)  # longer than a refresh takes: by then a crash has left them


class StatisticsLedger:
    """A folder of small statistics, one entry for each input file of a dataset that comes and goes.

    `refresh` reads only the files that are new or have changed, and drops what is gone; `statistics` merges
    what is held. Each entry is a Parquet table as `ClassStatistics.save` writes it, and ``manifest.parquet``,
    a table too, lists the files that count. The manifest is replaced in one piece when a refresh has done
    all else: killed at any moment, or stopped by a full disk, a refresh has changed nothing, and the next
    one takes up what it had read.

    A local ledger is refreshed by one process at a time, which holds a lock on the folder; a second one
    stops at once with an error. An object store has no locks. There, two refreshes at once write the same
    entries under the same names, and the manifest of the one that ends last stands. If the files changed
    between the two, an entry that it names may be gone: reading it is then an error, and the next refresh
    mends it. No file is ever counted twice.

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
        path: str | PathLike[str],
        covariance_type: CovarianceType = "full",
        *,
        fourth_moments: bool = False,
        exact: bool = False,
        filesystem: Any = None,
    ) -> None:
        self._empty = empty_statistics(covariance_type, fourth_moments=fourth_moments, exact=exact)
        self.path = os.fspath(path)
        self.covariance_type, self.fourth_moments, self.exact = covariance_type, fourth_moments, exact
        self._filesystem, self._folder = unwrapped(*resolve(path, filesystem))
        self._folder = self._folder.rstrip("/")
        self._entries = EntryFolder(self._filesystem, f"{self._folder}/{ENTRIES}")
        self._manifest_path = f"{self._folder}/{MANIFEST}"
        self._total = MergedCache(self._filesystem, f"{self._folder}/{TOTAL}")

    def __repr__(self) -> str:
        options = "".join(f", {name}=True" for name in ("fourth_moments", "exact") if getattr(self, name))
        return f"StatisticsLedger({self.path!r}, {self.covariance_type!r}{options})"

    # ------------------------------------------------------------------ what goes in

    def refresh(
        self,
        source: Source,
        *,
        scheduler: Any = None,
        progress: bool = False,
        dry_run: bool = False,
    ) -> RefreshReport:
        """Read the files of a source that are new or have changed, and drop what is gone.

        Parameters
        ----------
        source : Source
            A source of files, as `scan_parquet` makes it. Its files are listed anew. It must read the same
            columns in the same way each time.
        scheduler, progress : optional
            As for `accumulate`. The workers write the entries, so the ledger must be where they reach it.
        dry_run : bool, default=False
            Say what would be read, and do nothing.

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
        if not isinstance(source, FileSource):
            raise TypeError(
                f"a ledger keeps up with files, such as scan_parquet finds; got {type(source).__name__}"
            )
        if source.includes(self._filesystem, self._manifest_path):
            raise ValueError(
                f"{self!r} lies in the folder of the dataset, where its own files would be taken for data; "
                'put it elsewhere, or into a subfolder whose name begins with "_"'
            )
        if dry_run:
            self._check_folder()
            return self._plan(source.rescanned())[1].report(dry_run=True)
        with self._locked():
            return self._refresh(source.rescanned(), scheduler, progress)

    def _plan(self, source: FileSource) -> tuple[Manifest, RefreshPlan]:
        # The entries are listed first: what another refresh adds from now on is then never taken for gone.
        entries = self._entries.listing()
        kept = {name: getattr(self, name) for name in ("covariance_type", "fourth_moments", "exact")}
        read_options = {**source.read_options, **kept}
        held = self._read_manifest() or Manifest(read_options, {})
        _check_reads_alike(held.read_options, read_options)
        return held, plan_refresh(source.files(), held, entries, read_options)

    def _refresh(self, source: FileSource, scheduler: Any, progress: bool) -> RefreshReport:
        held, plan = self._plan(source)
        fresh = [
            *self._entries.records(plan.found),
            *read_files(source, plan.missing, self._entries, self._empty, scheduler, progress),
        ]
        now = Manifest(held.read_options, {**plan.reused, **{record.path: record for record in fresh}})
        there = self._entries.listing()
        self._check_present(now.entries.keys() - there.keys())
        outcome = self._compare(held, now, sorted(record.entry for record in fresh), there)
        if now != held:
            manifests.write(self._filesystem, self._manifest_path, now)
        self._tidy(held, now, there)
        return plan.report(dry_run=False, rows_held=sum(h.rows for h in now.records.values()), **outcome)

    def _compare(
        self, held: Manifest, now: Manifest, fresh: list[str], there: Container[str]
    ) -> dict[str, Any]:
        """What a report says of the rows that were read."""
        if not fresh:
            return {}
        new, old = self._merged(fresh), self._total.read(held.entries)
        if old is None:
            old = self._merged([name for name in held.entries if name in there])
        if held.entries.keys() <= now.entries.keys():
            self._total.write(old + new, now.entries)
        return {
            "rows": new.n_rows,
            "new_classes": tuple(label.item() for label in new.classes if label not in old.classes),
            "drift": tuple(drift(old, new)) if old.n_rows and new.n_rows else (),
            "feature_names": new.feature_names or (),
        }

    def _check_present(self, missing: Collection[str]) -> None:
        if missing:
            raise OSError(
                f"{len(missing)} entries are not in {self._entries.path}: the workers wrote them elsewhere, "
                "or another refresh has removed them; use a folder or URL that all share, and refresh again"
            )

    def _tidy(self, before: Manifest, now: Manifest, there: Mapping[str, Version]) -> None:
        """Delete the entries that do not count any more, and what crashes have left."""
        superseded = before.entries.keys() - now.entries.keys()
        stray = {name: there[name] for name in there.keys() - now.entries.keys() - superseded}
        if not is_local(self._filesystem):  # another refresh may be about to name them
            latest = (datetime.now(tz=UTC) - _ORPHANED_FOR).timestamp() * 1e9
            stray = {name: seen for name, seen in stray.items() if (seen.modified or latest) < latest}
        else:
            for name in filter(is_unfinished, children(self._filesystem, self._folder)):
                Path(self._folder, name).unlink(missing_ok=True)
        self._entries.delete((*superseded, *stray))

    # ------------------------------------------------------------------ what comes out

    @property
    def read_options(self) -> dict[str, Any]:
        """What is read of each file, and what is kept of it, as plain values."""
        return dict(self._require_manifest().read_options)

    @property
    def files(self) -> pa.Table:
        """The files held: size, time, rows and entry of each; partition keys are columns."""
        return to_table(self._require_manifest())

    def statistics(
        self,
        *,
        where: Any = None,
        half_life: timedelta | None = None,
        since: datetime | None = None,
    ) -> Statistics:
        """The merged statistics of all the files held, or of some of them.

        Parameters
        ----------
        where : str, pyarrow expression, or list of tuples, optional
            The files that count: a pattern such as ``"2024/*"`` for their paths, or a filter over the
            columns of `files`, such as ``[("region", "=", "north")]``, as
            `pyarrow.parquet.read_table` takes it.
        half_life : timedelta, optional
            In so much time the weight of a row halves: by the age of its file, counted from the newest file
            that counts. Priors, means and covariances depend on the differences alone.
        since : datetime, optional
            Only files modified at or after this time count.

        Returns
        -------
        ClassStatistics or ExactClassStatistics
            Merged in the order of the paths, so the same files give the same bits whatever the history.

        Raises
        ------
        ValueError
            If nothing is held, or no file is chosen, or files that have been folded into one entry would have
            to be told apart.
        """
        manifest = self._require_manifest()
        try:
            return self._selected(manifest, where, half_life, since)
        except FileNotFoundError:
            newer = self._require_manifest()
            if newer == manifest:
                raise
            return self._selected(newer, where, half_life, since)  # a refresh has ended meanwhile

    def _selected(
        self, manifest: Manifest, where: Any, half_life: timedelta | None, since: datetime | None
    ) -> Statistics:
        chosen = select(manifest, where, since)
        if not chosen:
            raise ValueError(f"{self!r} holds no file that is chosen, of {len(manifest.records)} in all")
        if half_life is None:
            return self._merged(list(chosen))
        if not half_life > timedelta(0):
            raise ValueError(f"a half-life is longer than nothing; got {half_life}")
        factors = [0.5 ** (age / half_life) for age in ages(chosen)]
        return self._merged(list(chosen), factors)

    def _merged(self, entries: Sequence[str], factors: Iterable[float] | None = None) -> Statistics:
        total: Statistics | None = None
        pairs = zip(self._entries.statistics(entries), factors or itertools.repeat(1.0), strict=False)
        for statistics, factor in pairs:
            part = statistics if factor == 1.0 else statistics.decay(max(factor, 1e-300))
            total = part if total is None else total.merge(part)
        return self._empty.copy() if total is None else total

    # ------------------------------------------------------------------ upkeep

    def compact(self, *, where: Any = None, before: datetime | None = None) -> int:
        """Fold entries into one, which keeps the list of the files that it holds.

        A ledger of very many files is then merged sooner and takes less room. What is folded cannot be told
        apart any more: if one of its files changes or goes, the next refresh reads the others again; and
        `statistics` takes all of it or nothing. So fold what will not change: old files, one partition at
        a time.

        Parameters
        ----------
        where : optional
            The files whose entries are folded, as for `statistics`; all of them where not given.
        before : datetime, optional
            Only files modified before this time are folded.

        Returns
        -------
        int
            How many entries were folded into one; 0 where there were not two.

        Raises
        ------
        ValueError
            If nothing is held, or files that have been folded already would have to be told apart.
        RuntimeError
            If another process is refreshing the ledger.
        OSError
            If an entry cannot be written, or the ledger not be reached.
        """
        with self._locked():
            manifest = self._require_manifest()
            folded = select(manifest, where, None, before)
            if len(folded) < 2:
                return 0
            self._fold(manifest, folded)
            return len(folded)

    def _fold(self, manifest: Manifest, folded: dict[str, list[FileRecord]]) -> None:
        name = fold_name(folded)
        held = [
            FileRecord(**{**vars(record), "entry": name}) for group in folded.values() for record in group
        ]
        self._entries.write(name, self._merged(list(folded)), held)
        now = Manifest(
            manifest.read_options, {**manifest.records, **{record.path: record for record in held}}
        )
        manifests.write(self._filesystem, self._manifest_path, now)
        self._tidy(manifest, now, self._entries.listing())

    # ------------------------------------------------------------------ the folder

    def _read_manifest(self) -> Manifest | None:
        return manifests.read(self._filesystem, self._manifest_path)

    def _require_manifest(self) -> Manifest:
        manifest = self._read_manifest()
        if manifest is None:
            raise ValueError(f"{self!r} holds nothing yet: refresh it with a source first")
        return manifest

    def _check_folder(self) -> None:
        """Refuse a folder of other things, before anything is written or deleted there."""
        if self._read_manifest() is not None:
            return
        with reaching(self._folder):
            foreign = foreign_names(self._filesystem, self._folder)
        if self._total.is_foreign():
            foreign.append(TOTAL)
        if foreign:
            raise ValueError(
                f"{self.path} is a folder of other things, such as {min(foreign)}, and no ledger; "
                "name a new one"
            )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes of this machine, and of those that share its folder, from writing."""
        from filelock import FileLock, Timeout

        self._check_folder()
        self._entries.create()
        if not is_local(self._filesystem):
            yield
            return
        try:
            lock = FileLock(f"{self._folder}/{LOCK}").acquire(timeout=0)
        except Timeout as error:
            raise RuntimeError(
                f"another process is refreshing {self!r}; try again when it has ended"
            ) from error
        with lock:
            yield


def _check_reads_alike(ours: Any, theirs: dict[str, Any]) -> None:
    for name, value in theirs.items():
        if ours.get(name) != value:
            raise ValueError(
                f"the ledger holds statistics with {name}={ours.get(name)!r}, and here it is {value!r}; use "
                "a ledger of its own for each way to read a dataset"
            )
