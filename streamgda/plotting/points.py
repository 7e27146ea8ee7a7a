"""Curves of one value, which are a point with the spread of the folds as its bar."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from streamgda.gaussians.whitening import Array

_SCORES = ("train_scores", "test_scores")


class PointOrCurve:
    """Lets a display of scikit-learn, which has a scale from one value to the next, draw a single one too."""

    _x: str

    def plot(self, ax: Any = None, **options: Any) -> Self:
        """Draw the curve; of a single value, a point with a bar one standard deviation long to each side.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        **options
            Parameters of the `plot` of scikit-learn's display.

        Returns
        -------
        display : object
        """
        draw = super().plot  # type: ignore[misc]
        whole = {name: getattr(self, name) for name in (self._x, *_SCORES)}
        if len(whole[self._x]) > 1:
            draw(ax, **options)
            return self
        try:
            vars(self).update({name: _and_nothing(values) for name, values in whole.items()})
            draw(ax, **_as_point(options))
        finally:
            vars(self).update(whole)
        return self


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
