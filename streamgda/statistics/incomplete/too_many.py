"""The error of rows with too many patterns of observed features."""

from __future__ import annotations

from streamgda.blocks.wording import Message


class TooManyPatternsError(ValueError):
    """Rows have more patterns of observed features than may be kept."""

    def __init__(self, n_patterns: int, max_patterns: int, n_classes: int, n_features: int) -> None:
        nbytes = 8 * n_patterns * n_classes * n_features**2
        super().__init__(
            Message(
                f"the rows have {n_patterns:,} patterns of observed features or more, which take up to "
                f"{_size(nbytes)}; up to ⟨max_patterns={max_patterns}⟩ are kept. Raise ⟨max_patterns⟩; leave "
                "out features that are often missing, or incomplete rows (⟨missing='drop'⟩); fit a model "
                "with ⟨missing='marginal'⟩ to a source or an array, which is then read once for each step; "
                "or use ⟨GaussianNB⟩, which keeps no patterns"
            )
        )


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e9:,.1f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:,.1f} MB"
