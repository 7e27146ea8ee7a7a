"""Why rows are predicted so: the contributions of their columns to log-odds."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.dates import datetimes_of_days
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.wording import counted, value_named
from streamgda.models.estimators.contributions import Reasons, contributions
from streamgda.models.estimators.reading import check_rows
from streamgda.models.gaussians.posteriors import largest
from streamgda.models.gaussians.whitening import Array
from streamgda.plotting.drawing import axes, colours

_N_BINS = 60


class ContributionsDisplay:
    """The contributions of columns to the log-odds of two classes: of one row, or of many.

    A waterfall leads from the base value, the mean of the log-odds over all rows learnt, to those of one row.
    A summary has a point for each row and column. Make it with `from_estimator`.

    Parameters
    ----------
    names : list of str
        The columns. Those of features without names are x0, x1 and so on.
    values : ndarray of shape (n_rows, n_columns)
        The contributions. Those of the places of a list are added up.
    base : ndarray of shape (n_rows,)
        The base values.
    data : list of ndarray or None
        What the rows have in each column: numbers, dates or texts; None for a list.
    labels : tuple of str
        The two classes.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it is drawn.
    bars_ : matplotlib BarContainer
        The bars of a waterfall.

    Examples
    --------
    >>> import pandas as pd
    >>> from streamgda import GaussianNB
    >>> from streamgda.plotting import ContributionsDisplay
    >>> rows = pd.DataFrame({"size": [1.0, 2.0, 4.0, 5.0], "colour": ["red", "red", "red", "blue"]})
    >>> model = GaussianNB().fit(rows, [0, 0, 1, 1])
    >>> display = ContributionsDisplay.from_estimator(model, rows[3:])
    >>> display.names, display.values.round(2), display.base.round(2)
    (['size', 'colour'], array([[24.  ,  0.82]]), array([-0.13]))
    """

    def __init__(
        self,
        *,
        names: list[str],
        values: Array,
        base: Array,
        data: list[NDArray[Any] | None],
        labels: tuple[str, str],
    ) -> None:
        self.names, self.values, self.base, self.data, self.labels = names, values, base, data, labels

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        label: Any = None,
        against: Any = None,
        kind: Literal["waterfall", "summary"] = "waterfall",
        max_columns: int = 10,
        ax: Any = None,
    ) -> Self:
        """Compute the contributions of rows, and draw them.

        Parameters
        ----------
        estimator : classifier
            Fitted, with `contributions`.
        X : array-like of shape (n_rows, n_features)
            Rows, as for `predict`; one row for a waterfall.
        label, against : label, optional
            Two of the classes. By default, in a waterfall, the predicted one and the likeliest other; in a
            summary, the second of two classes and the first.
        kind : {"waterfall", "summary"}, default="waterfall"
            What to draw.
        max_columns : int, default=10
            How many columns are drawn at most: the strongest. A waterfall adds up the others.
        ax : matplotlib Axes, optional
            Where to draw; a new figure if None.

        Raises
        ------
        ValueError
            If there are no contributions, a waterfall gets several rows, or a summary of more than two
            classes no label.
        """
        estimator = estimator.snapshot()
        rows, classes = check_rows(estimator, X, accept_sparse=False), estimator.classes_
        if kind == "waterfall" and len(rows) != 1:
            raise ValueError(f"a waterfall is of one row; got {len(rows)}. kind='summary' draws them all")
        label, against = _pair(estimator, X, classes, label, against, kind)
        packed, reasons = contributions(estimator, X, label=label, against=against), Reasons.of(estimator)
        display = cls(
            names=reasons.names,
            values=reasons.by_column(packed[:, :-1]),
            base=packed[:, -1],
            data=_columns_of(estimator, rows, reasons.names),
            labels=(str(label), "the likeliest other" if against is None else str(against)),
        )
        return display.plot(kind=kind, max_columns=max_columns, ax=ax)

    def plot(
        self, *, kind: Literal["waterfall", "summary"] = "waterfall", max_columns: int = 10, ax: Any = None
    ) -> Self:
        """Draw them, on `ax` or on a new figure. The parameters are those of `from_estimator`.

        Returns
        -------
        ContributionsDisplay
            This object.
        """
        self.ax_ = axes(ax)
        self.figure_ = self.ax_.figure
        log_odds = f"log-odds of {self.labels[0]} against {self.labels[1]}"
        if kind == "waterfall":
            self._draw_waterfall(max_columns)
            self.ax_.set_xlabel(log_odds)
        else:
            self._draw_summary(max_columns)
            self.ax_.set_xlabel(f"contribution to the {log_odds}")
        return self

    def _draw_waterfall(self, max_columns: int) -> None:
        """Draw a bar for each column, the strongest first, each from where the last one ends."""
        values = self.values[0]
        order = np.argsort(-abs(values), kind="stable")
        names = [_with_value(self.names[j], self.data[j]) for j in order]
        widths = values[order]
        if (n_others := len(order) - max_columns) > 0:
            names[max_columns:] = [counted(n_others, "other column")]
            widths = np.append(widths[:max_columns], widths[max_columns:].sum())
        ends = self.base[0] + np.cumsum(widths)
        starts, places = ends - widths, np.arange(1, len(widths) + 1)
        down, up = colours(2)
        self.bars_ = self.ax_.barh(places, widths, left=starts, color=np.where(widths[:, None] < 0, down, up))
        self.ax_.bar_label(self.bars_, [f"{width:+.3g}" for width in widths], padding=3, fontsize="small")
        for place, x in enumerate([self.base[0], *ends]):
            self.ax_.plot([x, x], [place - 0.4, place + 1.4], color="0.3", linewidth=0.8)
        names = [f"base: {self.base[0]:.3g}", *names, f"log-odds: {ends[-1]:.3g}"]
        self.ax_.set_yticks(range(len(names)), names)
        self.ax_.invert_yaxis()
        self.ax_.use_sticky_edges = False  # or no room is left beside the first bar and for labels
        self.ax_.margins(x=0.15)

    def _draw_summary(self, max_columns: int) -> None:
        """Draw the rows as points for each column, the strongest on average first."""
        order = np.argsort(-abs(self.values).mean(axis=0), kind="stable")[:max_columns]
        points = None
        for place, j in enumerate(order):
            heights = place + 0.4 * _spread(self.values[:, j])
            data = self.data[j]
            if data is None or data.dtype.kind == "O":
                self.ax_.scatter(self.values[:, j], heights, s=8, color="0.5", linewidth=0)
            else:
                ranks = np.searchsorted(np.sort(data), data, side="left") / max(len(data) - 1, 1)
                points = self.ax_.scatter(
                    self.values[:, j], heights, s=8, c=ranks, vmin=0, vmax=1, linewidth=0
                )
        if points is not None:
            bar = self.figure_.colorbar(points, ax=self.ax_, label="value of the column", ticks=[0, 1])
            bar.ax.set_yticklabels(["low", "high"])
        self.ax_.axvline(0.0, color="0.3", linewidth=0.8)
        self.ax_.set_yticks(range(len(order)), [self.names[j] for j in order])
        self.ax_.invert_yaxis()


def _pair(model: Any, X: Any, classes: Labels, label: Any, against: Any, kind: str) -> tuple[Any, Any]:
    """The two classes; against is None where each row has its own."""
    known = classes.tolist()
    if kind == "summary" and label is None:
        if len(known) != 2:
            raise ValueError(f"a summary of {len(known)} classes is of one of them; give label=")
        return known[1], known[0]
    if len(known) == 2 and label in known and against is None:
        return label, known[1 - known.index(label)]
    if kind == "waterfall" and against is None:
        order = largest(model.predict_log_proba(X), min(len(known), 2))[0]
        ranked = [known[k] for k in order]
        label = ranked[0] if label is None else label
        against = next((one for one in ranked if one != label), None)
    return label, against


def _columns_of(model: Any, rows: Array, names: list[str]) -> list[NDArray[Any] | None]:
    """What rows have in each column: numbers, dates, or the texts of categories; None for a list."""
    schema = model.statistics_.schema_of_rows
    categories = dict(zip(schema.encoded, schema.sums_to_one, strict=True))
    numbers = [name for name in getattr(model, "feature_names_in_", names) if name not in categories]
    found: dict[str, NDArray[Any]] = dict(zip(numbers, rows.T, strict=False))
    found |= {name: datetimes_of_days(found[name]) for name in schema.dates if name in found}
    for name, place in categories.items():
        values = [*map(value_named, schema.values_by_column()[name]), "(unknown)"]
        known = rows[:, place]
        codes = np.where(known.any(axis=1), known.argmax(axis=1), len(values) - 1)
        found[name] = np.array(values, dtype=object)[codes]
    return [found.get(name) for name in names]


def _with_value(name: str, data: NDArray[Any] | None) -> str:
    """The name of a column, with what the first row has in it."""
    if data is None:
        return name
    value = data[0]
    if data.dtype.kind == "M":
        return f"{name} = {np.datetime_as_string(value, 'auto')}"
    return f"{name} = {value}" if data.dtype.kind == "O" else f"{name} = {value:.4g}"


def _spread(values: Array) -> Array:
    """Heights from −1 to 1 at which points of near values lie beside each other."""
    low, high = values.min(), values.max()
    bins = np.floor((values - low) / max(high - low, 1e-300) * (_N_BINS - 1)).astype(np.intp)
    order = np.argsort(bins, kind="stable")
    counts = np.bincount(bins)
    ranks = np.empty(len(values))
    ranks[order] = np.arange(len(values)) - (np.cumsum(counts) - counts)[bins[order]]
    heights: Array = (ranks - (counts[bins] - 1) / 2) / max(counts.max() / 2, 4)
    return heights
