"""What a refresh did, or would do, and how far the new data lies from the old."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgda.ledger.drift import ClassDrift

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RefreshReport:
    """What a refresh did or, as a dry run, would do. Printed, it is a table.

    Attributes
    ----------
    dry_run : bool
        Whether nothing was done.
    added, changed, reread : tuple of str
        The files that are read: those that are new, those of another version than was read before, and
        those whose statistics were lost, or folded together with those of a file that changed or went.
    reused, dropped : tuple of str
        The files whose statistics are kept, and those that are gone.
    rows, rows_held : int
        Rows read now, and rows held in all; 0 in a dry run.
    new_classes : tuple
        Labels that had not been seen before.
    drift : tuple of ClassDrift
        For each class that is not new, how far the rows read now lie from those held before.
    feature_names : tuple of str
        The features, in the order of ``ClassDrift.shift``.
    """

    dry_run: bool
    added: tuple[str, ...]
    changed: tuple[str, ...]
    reread: tuple[str, ...]
    reused: tuple[str, ...]
    dropped: tuple[str, ...]
    rows: int = 0
    rows_held: int = 0
    new_classes: tuple[Any, ...] = ()
    drift: tuple[ClassDrift, ...] = field(default=(), repr=False)
    feature_names: tuple[str, ...] = field(default=(), repr=False)

    @property
    def read(self) -> tuple[str, ...]:
        """All the files that are read."""
        return tuple(sorted((*self.added, *self.changed, *self.reread)))

    def to_pandas(self) -> pd.DataFrame:
        """One row for each class that is not new: the largest shift of a mean, and the rest of its drift."""
        import pandas as pd

        rows = [self._row(drift) for drift in self.drift]
        return pd.DataFrame(
            rows, columns=["class", "rows", "shift", "feature", "divergence", "prior before", "prior"]
        ).set_index("class")

    def _row(self, drift: ClassDrift) -> tuple[Any, ...]:
        furthest = int(np.argmax(np.abs(drift.shift)))
        return (
            drift.label,
            drift.rows,
            drift.shift[furthest],
            self.feature_names[furthest] if self.feature_names else furthest,
            drift.divergence,
            drift.prior_before,
            drift.prior,
        )

    def __str__(self) -> str:
        lines = [self._files()]
        if not self.dry_run:
            lines.append(f"{self.rows:,} rows read, {self.rows_held:,} held")
        if self.new_classes:
            lines.append(f"new classes: {_listed(self.new_classes)}")
        if self.drift:
            lines.append(self.to_pandas().to_string(float_format="{:.4g}".format))
        return "\n".join(lines)

    def _files(self) -> str:
        reread = f", {len(self.reread):,} once more" if self.reread else ""
        return (
            f"{'would read' if self.dry_run else 'read'} {_files(len(self.read))} "
            f"({len(self.added):,} new, {len(self.changed):,} changed{reread}), "
            f"reused {len(self.reused):,}, dropped {len(self.dropped):,}"
        )


def _files(number: int) -> str:
    return f"{number:,} file{'' if number == 1 else 's'}"


def _listed(values: Sequence[Any], most: int = 20) -> str:
    more = f" and {len(values) - most:,} more" if len(values) > most else ""
    return ", ".join(map(str, values[:most])) + more
