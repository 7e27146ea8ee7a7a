"""Axes, colours, ellipses, rows and legends of displays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgda.data.blocks.labels import Labels, position_of
from streamgda.models.gaussians.whitening import Array

PROBABILITIES = (0.5, 0.95)

FEW = 10
"""The most classes that are drawn with solid lines and easily told colours."""

_MOST_INSIDE = 6

_MOST_IN_LEGEND = 60

_LEGEND_ROWS = 20

_LINE_STYLES = ("-", "--", ":", "-.")


def check_probabilities(probabilities: Sequence[float]) -> None:
    """Raise ValueError unless all probabilities are between 0 and 1."""
    if not len(probabilities) or not all(0 < p < 1 for p in probabilities):
        raise ValueError(f"probabilities must lie between 0 and 1; got {list(probabilities)}")


def pyplot() -> Any:
    """The module matplotlib.pyplot.

    Raises
    ------
    ImportError
        If matplotlib is not installed; the message says how to install it.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install matplotlib") from error
    return plt


def axes(ax: Any, n_entries: int = 0, most_inside: int = _MOST_INSIDE) -> Any:
    """The axes given, or those of a new figure, with room for a legend beside them."""
    if ax is not None:
        return ax
    beside = 2 * max(1, _legend_columns(n_entries)) if n_entries > most_inside else 0
    return pyplot().subplots(layout="compressed", figsize=(6.4 + beside, 4.8))[1]


# ---------------------------------------------------------------------- the look of classes


def colours(n_classes: int) -> Array:
    """A colour for each class: (n_classes, 4)."""
    from matplotlib import color_sequences, colormaps
    from matplotlib.colors import to_rgba_array

    if n_classes <= FEW:
        # Which colour-blind people can tell apart.
        return to_rgba_array(color_sequences["petroff10"][:n_classes])
    if n_classes <= 20:
        return np.asarray(colormaps["tab20"](range(n_classes)))
    return np.asarray(colormaps["turbo"](np.linspace(0, 1, n_classes)))


def shown_classes(classes: Labels, labels: Any = None) -> list[int]:
    """The positions of the classes to draw: of one label or several; by default of all, or the second of two.

    Raises
    ------
    ValueError
        If a label is none of the classes.
    """
    if labels is None:
        return [1] if len(classes) == 2 else list(range(len(classes)))
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        labels = [labels]
    return [position_of(label, classes) for label in labels]


def line_styles(n_classes: int) -> list[str]:
    """A line style for each class; many classes have neighbours of similar colours, but not of one style."""
    return [_LINE_STYLES[k % len(_LINE_STYLES) if n_classes > FEW else 0] for k in range(n_classes)]


def percentage(share: float) -> str:
    """A share as a percentage of two significant digits, or of up to four where fewer would show 100 %."""
    value = 100 * round(float(share), 12)  # sums that should be 1 miss it by rounding
    if value < 99.5:
        return f"{value:.2g} %"
    return f"{value if value >= 100 else min(value, 99.99):.4g} %"


# ---------------------------------------------------------------------- what is drawn of a model


@dataclass(kw_only=True, eq=False, repr=False)
class ModelDisplay:
    """The base class of displays of models. The subclasses describe its fields.

    Their modules inherit the signature, so the types in it are objects, and not names of this module.
    """

    means: Array
    classes: Labels
    probabilities: Sequence[float] = PROBABILITIES
    xlabel: str = ""
    ylabel: str = ""
    points: Array | None = None
    point_classes: Labels | None = None

    def _begin(self, ax: Any) -> Array:
        """Choose the axes, and a colour for each class: (n_classes, 4)."""
        self._most_inside = 0 if ax is None else _MOST_INSIDE  # a legend would hide ellipses and rows
        self.ax_ = axes(ax, len(self.classes), most_inside=self._most_inside)
        self.figure_ = self.ax_.figure
        return colours(len(self.classes))

    def _draw_ellipses(self, palette: Array, covariances: Array, squared_radii: Array) -> list[list[Any]]:
        """Draw for each class the ellipses that hold given shares of its rows, and name many classes in them.

        The radii (n_classes, n_probabilities) are in units of the covariances (n_classes, 2, 2).
        """
        ellipses = []
        for k, style in enumerate(line_styles(len(palette))):
            mean, name = self.means[k], str(self.classes[k])
            of_class = [
                _ellipse(mean, covariances[k], radius, palette[k], style) for radius in squared_radii[k]
            ]
            of_class[0].set_label(name)
            for ellipse in of_class:
                self.ax_.add_patch(ellipse)
            if len(palette) > FEW:
                self.ax_.annotate(name, tuple(mean), ha="center", va="center", fontsize="small", clip_on=True)
            ellipses.append(of_class)
        return ellipses

    def _points_by_class(self, palette: Array) -> list[tuple[Array, Any]]:
        """The rows of each class and their colour; all rows in grey if their classes are not given."""
        if self.points is None:
            return []
        if self.point_classes is None:
            return [(self.points, "0.3")]
        each = zip(self.classes, palette, strict=True)
        return [(self.points[self.point_classes == label], colour) for label, colour in each]

    def _draw_points(self, palette: Array) -> list[Any]:
        """Draw the rows, those of each class as one artist."""
        return [
            self.ax_.scatter(points[:, 0], points[:, 1], s=10, color=colour, edgecolor="white", linewidth=0.3)
            for points, colour in self._points_by_class(palette)
        ]


def _ellipse(mean: Array, covariance: Array, squared_radius: float, colour: Array, style: str) -> Any:
    from matplotlib.patches import Ellipse

    values, vectors = np.linalg.eigh(covariance)
    height, width = 2 * np.sqrt(squared_radius * np.maximum(values, 0))
    angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
    return Ellipse(
        tuple(mean), width, height, angle=angle, fill=False, edgecolor=colour, linestyle=style, linewidth=1.5
    )


def shares_text(probabilities: Sequence[float]) -> str:
    """Say which shares of a class its ellipses hold."""
    *others, last = [percentage(p) for p in sorted(probabilities)]
    return f"{', '.join(others)} and {last} of a class" if others else f"{last} of a class"


# ---------------------------------------------------------------------- legends


def draw_legend(ax: Any, title: str | None = None, *, most_inside: int = _MOST_INSIDE) -> None:
    """Draw the legend: many entries beside the axes; of more than sixty only the title."""
    handles, names = ax.get_legend_handles_labels()
    if len(names) > _MOST_IN_LEGEND:
        handles, names = [], []
    place: dict[str, Any] = {"loc": "best"}
    if len(names) > most_inside:
        place = {"loc": "upper left", "bbox_to_anchor": (1.02, 1), "borderaxespad": 0}
        place["ncols"] = _legend_columns(len(names))
    legend = ax.legend(handles, names, title=title, fontsize="small", title_fontsize="small", **place)
    if not names and title is None:
        legend.remove()


def _legend_columns(n_entries: int) -> int:
    return -(-n_entries // _LEGEND_ROWS) if n_entries <= _MOST_IN_LEGEND else 0
