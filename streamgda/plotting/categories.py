"""What the categories of a table say about the classes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.wording import listed, value_named
from streamgda.models.estimators.classifier import GaussianClassifier
from streamgda.models.gaussians.whitening import Array
from streamgda.plotting.drawing import axes, colours, draw_legend, shown_classes

_MOST_CATEGORIES = 30


class CategoryEffectDisplay:
    """Bars of how far each category moves the log-odds of a class, where nothing else of a row is known.

    The bar of category v and class k is ln p(v | k) / p(v | not k): its log-odds given v, less those of its
    prior. Make it with `from_estimator`.

    Parameters
    ----------
    names : list of str
        "column=value" of each category.
    effects : ndarray of shape (n_categories, n_classes)
        The log-odds.
    classes : ndarray of shape (n_classes,)
        The labels.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it is drawn.
    bars_ : list of matplotlib BarContainer
        The bars of each class.

    Examples
    --------
    >>> import pandas as pd
    >>> from streamgda import GaussianNB
    >>> from streamgda.plotting import CategoryEffectDisplay
    >>> rows = pd.DataFrame({"size": [1.0, 2.0, 4.0, 5.0], "colour": ["red", "red", "red", "blue"]})
    >>> model = GaussianNB().fit(rows, [0, 0, 1, 1])
    >>> display = CategoryEffectDisplay.from_estimator(model)
    >>> display.names, display.effects.round(2).ravel()
    (['colour=blue', 'colour=red'], array([ 0.69, -0.41]))
    """

    def __init__(self, *, names: list[str], effects: Array, classes: Labels) -> None:
        self.names, self.effects, self.classes = names, effects, classes

    @classmethod
    def from_estimator(
        cls,
        estimator: GaussianClassifier[Any],
        *,
        column: str | None = None,
        label: Any = None,
        max_categories: int = _MOST_CATEGORIES,
        ax: Any = None,
    ) -> Self:
        """Draw the categories of a model that has tables of them.

        Parameters
        ----------
        estimator : classifier
            Fitted, such as `GaussianNB`, to a table with categories.
        column : str, optional
            The column whose categories are drawn; all columns if None.
        label : label, optional
            The class whose log-odds are drawn. If None, the second of two classes, or each of more.
        max_categories : int, default=30
            How many categories are drawn at most: those whose log-odds are farthest from 0.
        ax : matplotlib Axes, optional
            Where to draw; a new figure if None.

        Raises
        ------
        AttributeError
            If the model has no tables of categories.
        ValueError
            If it has no such column or no such class.
        """
        estimator = estimator.snapshot()
        tables = estimator.category_log_prob_
        if column is not None and column not in tables:
            raise ValueError(
                f"column {column!r} has no categories; those that have are {listed(list(tables))}"
            )
        names, parts = [], []
        for name in tables if column is None else [column]:
            values = zip(estimator.categories_[name], tables[name].T, strict=True)
            known = [(value, logs) for value, logs in values if not np.isnan(logs).any()]
            names += [f"{name}={value_named(value)}" for value, _ in known]
            parts += [logs for _, logs in known]
        effects = _log_odds(np.array(parts), estimator.priors_)
        classes = estimator.classes_
        chosen = shown_classes(classes, label)
        effects, classes = effects[:, chosen], classes[chosen]
        strongest = np.sort(np.argsort(-abs(effects).max(axis=1), kind="stable")[:max_categories])
        display = cls(names=[names[i] for i in strongest], effects=effects[strongest], classes=classes)
        return display.plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the bars, on `ax` or on a new figure.

        Returns
        -------
        CategoryEffectDisplay
            This object.
        """
        n_categories, n_classes = self.effects.shape
        self.ax_ = axes(ax, n_classes, max(3.6, 0.2 * n_categories * max(1, n_classes / 2)))
        self.figure_ = self.ax_.figure
        places, height = np.arange(n_categories), 0.8 / n_classes
        self.bars_ = [
            self.ax_.barh(places - 0.4 + (k + 0.5) * height, self.effects[:, k], height, color=colour)
            for k, colour in enumerate(colours(n_classes))
        ]
        for bars, label in zip(self.bars_, self.classes, strict=True):
            bars.set_label(str(label))
        self.ax_.axvline(0.0, color="0.3", linewidth=0.8)
        self.ax_.set_yticks(places, self.names)
        self.ax_.invert_yaxis()
        self.ax_.set_xlabel("what the category adds to the log-odds")
        draw_legend(self.ax_, "class")
        return self


def _log_odds(log_tables: Array, priors: Array) -> Array:
    """Ln p(v | k) / p(v | not k) of tables (n_categories, n_classes): of the same shape."""
    joint = np.exp(log_tables) * priors
    rest = joint.sum(axis=1, keepdims=True) - joint
    with np.errstate(divide="ignore"):
        return np.asarray(log_tables - np.log(rest / (1 - priors)))
