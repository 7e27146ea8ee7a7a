"""Curves with a marker at each value; of one value, a point with the spread of the folds as its bar."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from streamgda.gaussians.whitening import Array

_SCORES = ("train_scores", "test_scores")


def draw_curve(display: Any, draw: Callable[..., Any], x: str, ax: Any, options: Mapping[str, Any]) -> None:
    """Draw a display of scikit-learn, which needs two values to choose a scale, of a single one too.

    Parameters
    ----------
    display : LearningCurveDisplay or ValidationCurveDisplay
        With the scores of the folds.
    draw : callable
        The `plot` of scikit-learn's display.
    x : str
        The attribute that holds the values.
    ax : matplotlib Axes, optional
        Where to draw.
    options : mapping
        Parameters of `draw`.
    """
    whole = {name: getattr(display, name) for name in (x, *_SCORES)}
    if len(whole[x]) > 1:
        draw(ax, **_marking_values(options))
        _tick_at(display.ax_, np.unique(whole[x]))
        return
    try:
        vars(display).update({name: _and_nothing(values) for name, values in whole.items()})
        draw(ax, **_as_point(options))
    finally:
        vars(display).update(whole)


def _tick_at(ax: Any, values: Array) -> None:
    """Put a tick at each value that was tried, but for those that would overprint the one before."""
    places = ax.transData.transform(np.column_stack([values, np.zeros(len(values))]))[:, 0]
    room = 0.2 * ax.figure.dpi  # upright digits, and a gap
    kept: list[int] = []
    for i, place in enumerate(places):
        if not kept or place - places[kept[-1]] >= room:
            kept.append(i)
    ax.set_xticks(values[kept], [f"{value:g}" for value in values[kept]], rotation=90)
    ax.minorticks_off()


def _marking_values(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options in which each value that was tried has a marker on its curve."""
    if options.get("std_display_style", "fill_between") == "errorbar":
        return {**options, "errorbar_kw": {"marker": "o", **(options.get("errorbar_kw") or {})}}
    return {**options, "line_kw": {"marker": "o", "markersize": 4, **(options.get("line_kw") or {})}}


def _and_nothing(values: Array) -> Array:
    """The values, and NaN in the place of another, which is not drawn."""
    held = np.asarray(values, dtype=np.float64)
    return np.concatenate([held, np.full_like(held, np.nan)])


def _as_point(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options in which a point can be seen: a marker, and a bar for a band."""
    line, bars = (dict(options.get(name) or {}) for name in ("line_kw", "errorbar_kw"))
    line = {"marker": "o", **line}
    if options.get("std_display_style", "fill_between") is None:
        return {**options, "line_kw": line}
    if "fmt" in bars:
        del line["marker"]
    rest = {name: value for name, value in options.items() if name != "fill_between_kw"}
    return {**rest, "std_display_style": "errorbar", "errorbar_kw": {**line, **bars}}
