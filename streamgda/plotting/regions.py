"""The decision regions of two features, and ellipses of the classes over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.utils.validation import check_is_fitted

from streamgda.covariances import Array
from streamgda.estimators.base import GaussianClassifier
from streamgda.labels import Labels
from streamgda.plotting.drawing import (
    PROBABILITIES,
    axes,
    check_probabilities,
    colours,
    draw_ellipses,
    draw_legend,
    draw_points,
)

_MARGIN = 0.05


class DecisionRegionsDisplay:
    """Ellipses of the classes over the decision regions of two features.

    The other features are marginalised: both the ellipses and the regions are those of the densities of the
    two features alone, whatever the others are. Make it with `from_estimator`.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (n, n)
        A grid of the two features.
    response : ndarray of int of shape (n, n)
        The likeliest class at each point, as its position in `classes`.
    classes : ndarray of shape (n_classes,)
        The labels.
    means : ndarray of shape (n_classes, 2)
        Means of the two features in each class.
    covariances : ndarray of shape (n_classes, 2, 2)
        Their covariances.
    probabilities : sequence of float
        An ellipse holds this share of the rows of its class.
    xlabel, ylabel : str
        The names of the features.
    points : ndarray of shape (n_rows, 2), optional
        Rows to draw.
    point_classes : ndarray of shape (n_rows,), optional
        Their labels.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it is drawn.
    regions_ : sklearn.inspection.DecisionBoundaryDisplay
        The regions.
    ellipses_ : list of n_classes lists of matplotlib.patches.Ellipse
        For each class its ellipses, one for each probability.
    points_ : list of matplotlib PathCollection
        The rows, those of each class apart.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamgda import QuadraticDiscriminantAnalysis
    >>> from streamgda.plotting import DecisionRegionsDisplay
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = QuadraticDiscriminantAnalysis().fit(X, y)
    >>> display = DecisionRegionsDisplay.from_estimator(
    ...     model, X, y, features=["petal length (cm)", "petal width (cm)"]
    ... )
    >>> display.ax_.get_xlabel()
    'petal length (cm)'
    """

    def __init__(
        self,
        *,
        xx0: Array,
        xx1: Array,
        response: NDArray[np.intp],
        classes: Labels,
        means: Array,
        covariances: Array,
        probabilities: Sequence[float] = PROBABILITIES,
        xlabel: str = "",
        ylabel: str = "",
        points: Array | None = None,
        point_classes: Labels | None = None,
    ) -> None:
        self.xx0 = xx0
        self.xx1 = xx1
        self.response = response
        self.classes = classes
        self.means = means
        self.covariances = covariances
        self.probabilities = probabilities
        self.xlabel = xlabel
        self.ylabel = ylabel
        self.points = points
        self.point_classes = point_classes

    @classmethod
    def from_estimator(
        cls,
        estimator: GaussianClassifier[Any],
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        features: Sequence[int | str] = (0, 1),
        probabilities: Sequence[float] = PROBABILITIES,
        grid_resolution: int = 300,
        ax: Any = None,
    ) -> Self:
        """Work out the regions of a fitted model, and draw them.

        Parameters
        ----------
        estimator : GaussianNB, LinearDiscriminantAnalysis or QuadraticDiscriminantAnalysis
            Fitted.
        X : array-like of shape (n_rows, n_features), optional
            Rows to draw over the regions, with all the features of the model. All of them are drawn, so pass
            some hundreds.
        y : array-like of shape (n_rows,), optional
            Their labels, which give them the palette of their classes.
        features : pair of int or str, default=(0, 1)
            The two features to show, by position or name.
        probabilities : sequence of float, default=(0.5, 0.95)
            For each, an ellipse that holds this share of the rows of its class.
        grid_resolution : int, default=300
            Points of the grid along each axis.
        ax : matplotlib Axes, optional
            Where to draw; a new figure where not given.

        Returns
        -------
        display : DecisionRegionsDisplay

        Raises
        ------
        ValueError
            If `features` are not two features of the model, or a probability is not between 0 and 1.
        """
        check_is_fitted(estimator)
        chosen = _two_features(estimator, features)
        check_probabilities(probabilities)
        order = np.argsort(chosen)  # a marginal has its features in the order of the model
        turned = np.argsort(order)
        marginal = estimator._gaussians.marginal(np.isin(np.arange(estimator.n_features_in_), chosen))
        means = marginal.means[:, turned]
        n_classes = len(means)
        covariances = np.array([marginal.covariance(k)[np.ix_(turned, turned)] for k in range(n_classes)])
        points = None if X is None else estimator._rows_of(X, missing="marginal")[:, chosen]
        xx0, xx1 = _grid(means, covariances, max(probabilities), points, grid_resolution)
        grid = np.column_stack([xx0.ravel(), xx1.ravel()])[:, order]
        scores = marginal.discriminants(grid) + estimator._finalised_now().log_priors
        xlabel, ylabel = (_name_of(estimator, feature) for feature in chosen)
        return cls(
            xx0=xx0,
            xx1=xx1,
            response=scores.argmax(axis=1).reshape(xx0.shape),
            classes=estimator.classes_,
            means=means,
            covariances=covariances,
            probabilities=probabilities,
            xlabel=xlabel,
            ylabel=ylabel,
            points=points,
            point_classes=None if y is None else np.asarray(y),
        ).plot(ax)

    def plot(self, ax: Any = None, *, alpha: float = 0.25) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure where not given.
        alpha : float, default=0.25
            The opacity of the regions.

        Returns
        -------
        display : DecisionRegionsDisplay
        """
        self.ax_ = axes(ax)
        self.figure_ = self.ax_.figure
        palette = colours(len(self.classes))
        self._draw_regions(palette, alpha)
        self.ellipses_ = draw_ellipses(self, palette)
        self.points_ = draw_points(self, palette)
        self.ax_.set(
            xlim=(self.xx0.min(), self.xx0.max()),
            ylim=(self.xx1.min(), self.xx1.max()),
            xlabel=self.xlabel,
            ylabel=self.ylabel,
        )
        draw_legend(self.ax_, self.classes)
        return self

    def _draw_regions(self, palette: Array, alpha: float) -> None:
        from matplotlib.colors import ListedColormap

        n_classes = len(self.classes)
        regions = DecisionBoundaryDisplay(
            xx0=self.xx0,
            xx1=self.xx1,
            n_classes=n_classes,
            response=self.response,
            multiclass_colors=list(map(tuple, palette)),
        )
        # A mesh, since contours between classes 0 and 2 have a strip of class 1 along them.
        options = {"cmap": ListedColormap(palette)} if n_classes == 2 else {}
        self.regions_ = regions.plot(
            "pcolormesh", self.ax_, vmin=-0.5, vmax=n_classes - 0.5, alpha=alpha, zorder=-1, **options
        )


def _two_features(estimator: GaussianClassifier[Any], features: Sequence[int | str]) -> list[int]:
    chosen = [_feature(estimator, feature) for feature in features]
    if len(set(chosen)) != 2 or len(chosen) != 2:
        raise ValueError(f"two features are needed; got {list(features)!r}")
    return chosen


def _feature(estimator: GaussianClassifier[Any], feature: int | str) -> int:
    n_features = estimator.n_features_in_
    if isinstance(feature, str):
        names = list(getattr(estimator, "feature_names_in_", []))
        if feature not in names:
            known = ", ".join(map(repr, names[:10])) or "none that is named"
            raise ValueError(f"the model has no feature {feature!r}; it has {known}")
        return names.index(feature)
    if not -n_features <= feature < n_features:
        raise ValueError(f"the model has {n_features} features, numbered from 0; got {feature}")
    return int(feature % n_features)


def _name_of(estimator: GaussianClassifier[Any], feature: int) -> str:
    names = getattr(estimator, "feature_names_in_", None)
    return f"feature {feature}" if names is None else str(names[feature])


def _grid(
    means: Array, covariances: Array, probability: float, points: Array | None, resolution: int
) -> tuple[Array, Array]:
    """A grid that has room for the ellipses of a probability, and for the points."""
    reach = np.sqrt(chi2.ppf(probability, 2) * np.einsum("kii->ki", covariances))
    corners = np.vstack([means - reach, means + reach, means[:0] if points is None else points])
    low, high = np.nanmin(corners, axis=0), np.nanmax(corners, axis=0)
    margin = np.where(high > low, _MARGIN * (high - low), 1.0)
    axes = np.linspace(low - margin, high + margin, resolution).T
    xx0, xx1 = np.meshgrid(*axes)
    return xx0, xx1
