"""What a ledger holds, and how it is merged."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from streamgda.blocks.folds import FoldRule
from streamgda.blocks.wording import counted
from streamgda.ledger.ages import Age
from streamgda.ledger.folder import LedgerFolder
from streamgda.ledger.manifest import Manifest
from streamgda.ledger.selection import Choice, FileFilter, to_table
from streamgda.ledger.states import State, total_of
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceType
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.folded import FoldStatistics
from streamgda.storage.filesystems import resolve, unwrapped
from streamgda.storage.paths import AnyFileSystem, Path, shown


class LedgerContents:
    """The files that a ledger holds; `StatisticsLedger` says what it is, and keeps it up to date."""

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
        return f"StatisticsLedger({shown(self.path)!r}, {self.covariance_type!r}{options})"

    @property
    def rejected(self) -> tuple[str, ...]:
        """The files that do not count until they change; see `StatisticsLedger.reject`."""
        return self._existing_manifest().rejected

    def files_with(self, label: Any) -> tuple[str, ...]:
        """The files that count and have rows of a class. Of files folded together, all or none are named.

        Every entry is read.
        """
        manifest = self._existing_manifest()
        self._check_opened(manifest)
        held = manifest.held.entries
        states = self._folder.entries.statistics(list(held), self._empty)
        found = [
            record.path
            for records, state in zip(held.values(), states, strict=True)
            if label in state.classes.tolist()
            for record in records
        ]
        return tuple(sorted(found))

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
        return self._existing_manifest().alarms()

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
        self._check_opened(manifest)
        try:
            return self._selected(manifest, choice)
        except FileNotFoundError:
            newer = self._existing_manifest()
            if newer == manifest:
                raise
            return self._selected(newer, choice)  # a refresh has ended meanwhile

    def _check_opened(self, manifest: Manifest) -> None:
        """Raise ValueError if the ledger was filled with other options than it has been opened with."""
        held = options_of(manifest.read_options)
        given = {name: getattr(self, name) for name in held}
        if other := [name for name in held if held[name] != given[name]]:
            has, not_with = (
                ", ".join(f"{name}={options[name]!r}" for name in other) for options in (held, given)
            )
            raise ValueError(f"the ledger in {shown(self.path)} has {has}; open it so, not with {not_with}")

    def _selected(self, manifest: Manifest, choice: Choice) -> State:
        chosen = choice.entries(manifest.held)
        if not chosen:
            n_held, n_apart = len(manifest.held.records), len(manifest.alarms())
            raise ValueError(
                f"the ledger in {shown(self.path)} holds no file that is chosen, of {n_held} in all"
                + (f"; {counted(n_apart, 'file')} quarantined" if n_apart else "")
            )
        return self._folder.entries.merged(list(chosen), self._empty, choice.weights(chosen))

    def _existing_manifest(self) -> Manifest:
        manifest = self._folder.read_manifest()
        if manifest is None:
            raise ValueError(f"{self!r} holds nothing yet: refresh it with a source first")
        return manifest


def options_of(read_options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with which a ledger that reads so is opened."""
    plain = {
        "covariance_type": "full",
        "fourth_moments": False,
        "exact": False,
        "folds": None,
        "groups": None,
    }
    return {name: read_options.get(name, default) for name, default in plain.items()}
