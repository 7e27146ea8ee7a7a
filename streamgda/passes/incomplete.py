"""Messages and warnings where EM takes several reads, since rows have too many patterns to keep."""

from __future__ import annotations

import warnings

from streamgda.blocks.wording import Message, counted
from streamgda.statistics.incomplete.reads import Reading


def note_read(line: str) -> None:
    """Show a line on a read, above or below a progress bar."""
    from tqdm.auto import tqdm

    tqdm.write(line)


def warn_unless_enough_reads(reading: Reading) -> None:
    """Warn if EM that reads the rows for each step stopped early."""
    if not reading.converged:
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            Message(
                f"EM has not converged in {counted(reading.n_reads, 'read')} of the rows: the last one "
                f"changed a parameter by {reading.change:.2g} standard deviations, more than "
                f"⟨em_tol={reading.tol:g}⟩. Raise ⟨max_reads⟩ or ⟨em_tol⟩, or ⟨max_patterns⟩ if memory allows"
            ),
            ConvergenceWarning,
            stacklevel=4,
        )
