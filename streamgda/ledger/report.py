"""The report of a refresh: what was read, and how far the new rows lie from the old ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamgda.blocks.wording import abridged, counted
from streamgda.ledger.drift import DriftReport


@dataclass(frozen=True, kw_only=True)
class RefreshReport(DriftReport):
    """What a refresh did or, as a dry run, would do. Prints as a table.

    Attributes
    ----------
    dry_run : bool
        Whether nothing was done.
    added, changed, reread : tuple of str
        The files that are read: new ones, those whose version has changed, and unchanged ones whose
        statistics are no longer there. The latter were lost, folded together with those of a file that
        has changed or is gone, or their labels have changed type.
    reused, dropped : tuple of str
        The files whose statistics are kept and count, and those that are gone.
    skipped : dict of str to str
        With ``on_error="skip"``, the files that could not be read, and why. The next refresh tries again.
        Until then the statistics of a file's former version count, and it is also among `reused`, unless
        they had been folded with those of other files.
    quarantined : dict of str to str
        The files that are kept apart until they are accepted or rejected, and why.
    rejected : tuple of str
        The files that are left out until they change.
    rows, rows_held : int
        Rows read now, and rows held in all; 0 in a dry run.
    new_classes : tuple
        Labels that had not been seen before.
    drift : tuple of ClassDrift
        For each class that is not new, how far the rows of the added and changed files lie from the rows
        held before.
    feature_names : tuple of str
        The features, in the order of ``ClassDrift.shift``.
    """

    dry_run: bool
    added: tuple[str, ...]
    changed: tuple[str, ...]
    reread: tuple[str, ...]
    reused: tuple[str, ...]
    dropped: tuple[str, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    quarantined: Mapping[str, str] = field(default_factory=dict)
    rejected: tuple[str, ...] = ()
    rows: int = 0
    rows_held: int = 0

    @property
    def read(self) -> tuple[str, ...]:
        """All the files that are read, in order of path."""
        return tuple(sorted((*self.added, *self.changed, *self.reread)))

    def __str__(self) -> str:
        lines = [self._files(), *(f"skipped {path}: {reason}" for path, reason in self.skipped.items())]
        if not self.dry_run:
            lines.append(f"{counted(self.rows, 'row')} read, {self.rows_held:,} held")
        lines += [f"quarantined {path}: {alarm}" for path, alarm in self.quarantined.items()]
        if self.rejected:
            lines.append(f"rejected: {abridged(self.rejected, 5)}")
        return "\n".join([*lines, *self._drift_lines()])

    def _files(self) -> str:
        reread = f", {len(self.reread):,} once more" if self.reread else ""
        return (
            f"{'would read' if self.dry_run else 'read'} {counted(len(self.read), 'file')} "
            f"({len(self.added):,} new, {len(self.changed):,} changed{reread}), "
            f"reused {len(self.reused):,}, dropped {len(self.dropped):,}"
        )
