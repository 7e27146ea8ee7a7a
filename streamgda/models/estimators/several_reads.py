"""What users see of a model that is learnt by several reads of the rows."""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning

from streamgda.statistics.missing import Reading


def note_read(line: str) -> None:
    """Show a line about one read, above or below a progress bar."""
    from tqdm.auto import tqdm

    tqdm.write(line)


def warn_unless_enough_reads(reading: Reading) -> None:
    """Warn if more reads would give other statistics."""
    if reading.unfinished:
        warnings.warn(reading.unfinished, ConvergenceWarning, stacklevel=4)
