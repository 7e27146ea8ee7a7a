"""Which features are missing together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from streamgda.blocks.wording import counted
from streamgda.incomplete.state import IncompleteStatistics
from streamgda.incomplete.table import PatternTable
from streamgda.plotting.drawing import axes, percentage
from streamgda.statistics.base import check_statistics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_PATTERNS = 40
_MOST_NAMES = 60  # of features, below the picture
_DARK, _LIGHT = "0.35", "1.0"


class MissingPatternsDisplay:
    """A matrix of patterns and features: dark where a feature is observed, light where it is missing.

    The patterns are rows, the most frequent on top; each says how many rows of data have it. The columns are
    the features; each says in how many rows it is observed. Make it with `from_statistics`. The picture is
    that of missingno's `matrix` (Bilogur 2018), of patterns in place of rows.

    Parameters
    ----------
    table : PatternTable
        The patterns, as ``statistics.patterns()`` returns them.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it is drawn.
    image_ : matplotlib AxesImage
        The matrix.

    Examples
    --------
    >>> from streamgda import IncompleteStatistics
    >>> from streamgda.plotting import MissingPatternsDisplay
    >>> nan = float("nan")
    >>> state = IncompleteStatistics().update([[1.0, 2.0], [3.0, nan], [4.0, nan]], ["a", "a", "b"])
    >>> display = MissingPatternsDisplay.from_statistics(state)
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['2 rows (67 %)', '1 row (33 %)']
    """

    def __init__(self, *, table: PatternTable) -> None:
        self.table = table

    @classmethod
    def from_statistics(
        cls, statistics: IncompleteStatistics, *, max_patterns: int = _MOST_PATTERNS, ax: Axes | None = None
    ) -> Self:
        """Draw the patterns of statistics.

        Parameters
        ----------
        statistics : IncompleteStatistics
            Of covariance type "full" or "tied".
        max_patterns : int, default=40
            How many patterns to draw, the most frequent ones.
        ax : matplotlib Axes, optional
            Where to draw; a new figure where not given.

        Raises
        ------
        ValueError
            If the statistics keep no patterns.
        """
        check_statistics(statistics)
        if not isinstance(statistics, IncompleteStatistics):
            raise ValueError(
                "patterns of missing features are needed: accumulate a source with missing='marginal'; got "
                f"{statistics!r}"
            )
        return cls(table=statistics.patterns()).plot(max_patterns=max_patterns, ax=ax)

    def plot(self, *, max_patterns: int = _MOST_PATTERNS, ax: Axes | None = None) -> Self:
        """Draw the patterns on `ax` or on a new figure; as `from_statistics`."""
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch

        self.ax_ = ax = axes(ax)
        self.figure_ = ax.figure
        observed = self.table.observed[:max_patterns]
        colours = ListedColormap([_LIGHT, _DARK])
        self.image_ = ax.imshow(
            observed, cmap=colours, vmin=0, vmax=1, aspect="auto", interpolation="nearest"
        )
        self._label(ax, len(observed))
        ax.set_xticks(np.arange(observed.shape[1] + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(len(observed) + 1) - 0.5, minor=True)
        ax.grid(which="minor", color=_LIGHT, linewidth=1)
        ax.tick_params(which="minor", length=0)
        meanings = {"observed": _DARK, "missing": _LIGHT}
        patches = [Patch(facecolor=c, edgecolor=_DARK, label=meaning) for meaning, c in meanings.items()]
        ax.legend(handles=patches, fontsize="small", ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
        return self

    def _label(self, ax: Any, n_shown: int) -> None:
        rows = self.table.counts.sum(axis=1)
        texts = [f"{counted(n, 'row')} ({percentage(n / rows.sum())})" for n in rows[:n_shown]]
        ax.set_yticks(np.arange(n_shown), texts)
        left = len(self.table) - n_shown
        ax.set_ylabel("patterns" + (f", and {left:,} more" if left else ""))
        names, shares = self.table.feature_names, self.table.shares
        if len(names) > _MOST_NAMES:
            ax.set_xlabel(counted(len(names), "feature"))
            return
        texts = [f"{name} ({percentage(share)})" for name, share in zip(names, shares, strict=True)]
        ax.set_xticks(np.arange(len(names)), texts, rotation=90)
        ax.set_xlabel("features, and the share of rows in which each is observed")
