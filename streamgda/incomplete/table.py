"""A table of the patterns of observed features, with the number of rows of each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from streamgda.blocks.labels import Labels
from streamgda.blocks.wording import abridged, as_html
from streamgda.incomplete.available import PatternState
from streamgda.statistics.covariances import Array

if TYPE_CHECKING:
    import pandas as pd

_MOST_NAMES = 8  # of missing features in a line of the table


class PatternTable:
    """The patterns of observed features, the most frequent first.

    Attributes
    ----------
    observed : ndarray of bool of shape (n_patterns, n_features)
        Which features are observed.
    counts : ndarray of int of shape (n_patterns, n_classes)
        How many rows of each class have the pattern.
    weights : ndarray of shape (n_patterns, n_classes)
        The weight of these rows.
    classes : ndarray of shape (n_classes,)
        The labels.
    feature_names : tuple of str
        The names of the features; their positions, as text, if they have no names.
    """

    def __init__(
        self, states: Sequence[PatternState], classes: Labels, n_features: int, names: tuple[str, ...] | None
    ) -> None:
        observed = np.zeros((len(states), n_features), np.bool_)
        counts = np.zeros((len(states), len(classes)), np.int64)
        weights = np.zeros(counts.shape)
        for row, state in enumerate(states):
            observed[row, state.features] = True
            counts[row, state.places] = state.counts
            weights[row, state.places] = state.moments.weights
        order = np.argsort(-counts.sum(axis=1), kind="stable")
        self.observed, self.counts, self.weights = observed[order], counts[order], weights[order]
        self.classes, self.feature_names = classes.copy(), names or tuple(map(str, range(n_features)))

    def __len__(self) -> int:
        return len(self.observed)

    @property
    def shares(self) -> Array:
        """The share of the rows in which each feature is observed; shape (n_features,)."""
        rows = self.counts.sum(axis=1)
        shares: Array = rows @ self.observed / max(rows.sum(), 1)
        return shares

    def to_pandas(self) -> pd.DataFrame:
        """A row for each pattern: the missing features, rows in all, and rows of each class."""
        import pandas as pd

        lacking = ([self.feature_names[j] for j in np.flatnonzero(~row)] for row in self.observed)
        missing = [abridged(names, _MOST_NAMES) or "nothing" for names in lacking]
        of_class = {label: self.counts[:, k] for k, label in enumerate(self.classes.tolist())}
        return pd.DataFrame({"missing": missing, "rows": self.counts.sum(axis=1), **of_class})

    def __str__(self) -> str:
        text: str = self.to_pandas().to_string(index=False)
        return text

    def _repr_html_(self) -> str:
        return as_html(type(self).__name__, self.to_pandas())
