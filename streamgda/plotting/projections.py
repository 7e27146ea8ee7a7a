"""The classes of a linear discriminant analysis, along the directions that separate them best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2, norm
from sklearn.utils.validation import check_is_fitted

from streamgda.models.estimators.classifier import finalised
from streamgda.models.estimators.lda import LinearDiscriminantAnalysis
from streamgda.models.gaussians.whitening import Array
from streamgda.plotting.drawing import (
    PROBABILITIES,
    ModelDisplay,
    check_probabilities,
    draw_legend,
    line_styles,
    percentage,
    shares_text,
)


class LinearProjectionDisplay(ModelDisplay):
    """The classes along the directions in which LDA finds them farthest apart.

    In these directions, rows of a class are uncorrelated and have unit variance about their mean. So classes
    are drawn as circles or, in one direction, as normal densities. Make it with `from_estimator`.

    Parameters
    ----------
    means : ndarray of shape (n_classes, n_shown)
        Projected means, in one direction or two.
    classes : ndarray of shape (n_classes,)
        The labels.
    probabilities : sequence of float
        For each, a circle holds this share of the rows of its class; the legend says so.
    xlabel, ylabel : str
        Labels of the axes.
    points : ndarray of shape (n_rows, n_shown), optional
        Projected rows to draw.
    point_classes : ndarray of shape (n_rows,), optional
        Their labels.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it is drawn.
    ellipses_ : list of n_classes lists of matplotlib.patches.Ellipse
        For each class its circles, one for each probability; empty in one direction.
    lines_ : list of matplotlib Line2D
        The density of each class; empty in two directions.
    points_ : list of matplotlib artists
        The rows of each class; in one direction a histogram of them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamgda import LinearDiscriminantAnalysis
    >>> from streamgda.plotting import LinearProjectionDisplay
    >>> model = LinearDiscriminantAnalysis().fit(*load_iris(return_X_y=True))
    >>> LinearProjectionDisplay.from_estimator(model).ax_.get_xlabel()
    'component 1 (99 % of the variance between classes)'
    """

    @classmethod
    def from_estimator(
        cls,
        estimator: LinearDiscriminantAnalysis,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        components: Sequence[int] | None = None,
        probabilities: Sequence[float] = PROBABILITIES,
        ax: Any = None,
    ) -> Self:
        """Project the classes of a fitted LDA and draw them.

        Parameters
        ----------
        estimator : LinearDiscriminantAnalysis
            Fitted.
        X : array-like of shape (n_rows, n_features), optional
            Rows to project and draw; pass some hundreds, since all are drawn.
        y : array-like of shape (n_rows,), optional
            Their labels; rows are then drawn in the colour of their class.
        components : one int or two, optional
            The components to show; by default the first two, or the one there is.
        probabilities : sequence of float, default=(0.5, 0.95)
            For each, a circle holds this share of its class, by the normal density.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        display : LinearProjectionDisplay

        Raises
        ------
        TypeError
            If the model is not a LinearDiscriminantAnalysis.
        ValueError
            If there are no such components, or a probability is not between 0 and 1.
        """
        if not isinstance(estimator, LinearDiscriminantAnalysis):
            raise TypeError(f"only LinearDiscriminantAnalysis projects rows; got {type(estimator).__name__}")
        check_is_fitted(estimator)
        check_probabilities(probabilities)
        estimator = estimator.snapshot()
        shown = _components(estimator, components)
        state, scalings = finalised(estimator), estimator._components
        centre = state.gaussians.centre
        means = estimator._among_announced((state.gaussians.means - centre) @ scalings, np.nan)
        if estimator.solver == "eigen":  # of which transform adds the centre, as scikit-learn's does
            means = means + centre @ scalings
        shares = zip(shown, map(percentage, estimator.explained_variance_ratio_[shown]), strict=True)
        labels = [f"component {i + 1} ({share} of the variance between classes)" for i, share in shares]
        return cls(
            means=means[:, shown],
            classes=estimator.classes_,
            probabilities=probabilities,
            xlabel=labels[0],
            ylabel=labels[1] if len(labels) == 2 else "density",
            points=None if X is None else np.asarray(estimator.transform(X), dtype=np.float64)[:, shown],
            point_classes=None if y is None else np.asarray(y),
        ).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        display : LinearProjectionDisplay
        """
        palette, n_classes = self._begin(ax), len(self.classes)
        self.lines_: list[Any] = []
        self.ellipses_: list[list[Any]] = []
        if self.means.shape[1] == 2:
            radii = np.tile(chi2.ppf(self.probabilities, 2), (n_classes, 1))
            self.ellipses_ = self._draw_ellipses(palette, np.array([np.eye(2)] * n_classes), radii)
            self.points_ = self._draw_points(palette)
            self.ax_.autoscale_view()
            self.ax_.set_aspect("equal", adjustable="datalim")
        else:
            self.lines_ = self._draw_densities(palette)
            self.points_ = self._draw_histograms(palette)
        self.ax_.set(xlabel=self.xlabel, ylabel=self.ylabel)
        title = f"circles: {shares_text(self.probabilities)}" if self.ellipses_ else None
        draw_legend(self.ax_, title, most_inside=self._most_inside)
        return self

    def _draw_densities(self, palette: Array) -> list[Any]:
        x = np.linspace(np.nanmin(self.means) - 4, np.nanmax(self.means) + 4, 400)
        each = zip(self.means[:, 0], self.classes, palette, line_styles(len(self.classes)), strict=True)
        return [
            self.ax_.plot(x, norm.pdf(x, mean), color=colour, linestyle=style, label=str(label))[0]
            for mean, label, colour, style in each
        ]

    def _draw_histograms(self, palette: Array) -> list[Any]:
        return [
            self.ax_.hist(points[:, 0], bins="auto", density=len(points) > 0, color=colour, alpha=0.3)[2]
            for points, colour in self._points_by_class(palette)
        ]


def _components(estimator: LinearDiscriminantAnalysis, components: Sequence[int] | None) -> list[int]:
    n_components = len(estimator.explained_variance_ratio_)
    shown = list(range(min(2, n_components))) if components is None else list(components)
    if len(shown) not in (1, 2) or not set(shown) <= set(range(n_components)):
        raise ValueError(f"one or two of the components 0 to {n_components - 1} can be shown; got {shown}")
    return shown
