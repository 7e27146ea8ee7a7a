"""What displays of models draw: axes, colours, ellipses, rows, a legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import chi2

from streamgda.blocks.labels import Labels
from streamgda.gaussians.whitening import Array

PROBABILITIES = (0.5, 0.95)

_MOST_IN_LEGEND = 20


def check_probabilities(probabilities: Sequence[float]) -> None:
    """Refuse what is no share of rows."""
    if not len(probabilities) or not all(0 < p < 1 for p in probabilities):
        raise ValueError(f"probabilities must lie between 0 and 1; got {list(probabilities)}")


def axes(ax: Any) -> Any:
    """The axes given, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'streamgda[plot]'") from error
    return plt.subplots(layout="constrained")[1]


def colours(n_classes: int) -> Array:
    """A colour for each class: (n_classes, 4)."""
    from matplotlib import colormaps

    if n_classes <= 10:
        return np.asarray(colormaps["tab10"](range(n_classes)))
    return np.asarray(colormaps["turbo"](np.linspace(0, 1, n_classes)))


def draw_ellipses(display: Any, palette: Array) -> list[list[Any]]:
    """For each class the ellipses that hold given shares of its rows."""
    ellipses = []
    for mean, covariance, colour, label in zip(
        display.means, display.covariances, palette, display.classes, strict=True
    ):
        of_class = [_ellipse(mean, covariance, p, colour) for p in display.probabilities]
        of_class[0].set_label(str(label))
        for ellipse in of_class:
            display.ax_.add_patch(ellipse)
        ellipses.append(of_class)
    return ellipses


def _ellipse(mean: Array, covariance: Array, probability: float, colour: Array) -> Any:
    from matplotlib.patches import Ellipse

    values, vectors = np.linalg.eigh(covariance)
    height, width = 2 * np.sqrt(chi2.ppf(probability, 2) * np.maximum(values, 0))
    angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
    return Ellipse(tuple(mean), width, height, angle=angle, fill=False, edgecolor=colour, linewidth=1.5)


def points_by_class(display: Any, palette: Array) -> list[tuple[Array, Any]]:
    """The rows of each class and their colour; all in grey where their classes are not known."""
    if display.points is None:
        return []
    if display.point_classes is None:
        return [(display.points, "0.3")]
    of_classes = [display.points[display.point_classes == label] for label in display.classes]
    return list(zip(of_classes, palette, strict=True))


def draw_points(display: Any, palette: Array) -> list[Any]:
    """The rows of a display, those of each class apart."""
    return [
        display.ax_.scatter(*points.T, s=10, color=colour, edgecolor="white", linewidth=0.3)
        for points, colour in points_by_class(display, palette)
    ]


def draw_legend(ax: Any, classes: Labels) -> None:
    """Name the classes, unless they are too many."""
    if len(classes) <= _MOST_IN_LEGEND:
        ax.legend(loc="best", fontsize="small", ncols=1 + len(classes) // 10)
