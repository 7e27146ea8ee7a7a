"""What a run of `predict_dataset` wrote, in numbers that add up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PredictionSummary:
    """What `predict_dataset` wrote.

    Attributes
    ----------
    n_rows : int
        Rows of the predictions.
    n_parts : int
        Parquet files, or ranges of Zarr chunks, that they are in.
    n_found : int
        How many of these an earlier run, which was stopped, had finished.
    n_dropped : int
        Rows that the source left out because a value was missing.
    """

    n_rows: int = 0
    n_parts: int = 0
    n_found: int = 0
    n_dropped: int = 0

    def __add__(self, other: PredictionSummary) -> PredictionSummary:
        return PredictionSummary(
            self.n_rows + other.n_rows,
            self.n_parts + other.n_parts,
            self.n_found + other.n_found,
            self.n_dropped + other.n_dropped,
        )
