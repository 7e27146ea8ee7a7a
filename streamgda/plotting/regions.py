"""The decision regions of two features, with ellipses of the classes over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.utils.validation import check_is_fitted

from streamgda.data.blocks.wording import counted, listed, value_named
from streamgda.models.estimators.classifier import GaussianClassifier, finalised
from streamgda.models.estimators.reading import check_rows
from streamgda.models.gaussians.whitening import Array
from streamgda.plotting.drawing import (
    PROBABILITIES,
    ModelDisplay,
    check_probabilities,
    draw_legend,
    shares_text,
)
from streamgda.statistics.validation import as_feature_positions

_MARGIN = 0.05

_MOST_IN_TITLE = 3


@dataclass(kw_only=True, eq=False, repr=False)
class DecisionRegionsDisplay(ModelDisplay):
    """Ellipses of the classes over the decision regions of two features.

    Each other feature is marginalised, or fixed at a given value. With the others marginalised, regions and
    ellipses are those of the joint density of the two features. With features fixed, the regions are a slice
    through those of all the features, and the ellipses are those of the conditional density. The title says
    which features are fixed or marginalised. Make it with `from_estimator`.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (n, n)
        A grid of the two features.
    response : ndarray of int of shape (n, n)
        The most probable class at each point, as its position in `classes`.
    classes : ndarray of shape (n_classes,)
        The labels.
    means : ndarray of shape (n_classes, 2)
        Means of the two features in each class, given those that are fixed.
    covariances : ndarray of shape (n_classes, 2, 2)
        Their covariances.
    probabilities : sequence of float
        For each, an ellipse holds this share of its class; the legend says so.
    squared_radii : ndarray of shape (n_classes, n_probabilities)
        The squared radii of the ellipses, in units of the covariances.
    xlabel, ylabel : str
        The names of the features.
    title : str
        Which other features are fixed or marginalised.
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
        The rows of each class.

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

    xx0: Array
    xx1: Array
    response: NDArray[np.intp]
    covariances: Array
    squared_radii: Array
    title: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: GaussianClassifier[Any],
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        features: Sequence[int | str] = (0, 1),
        fixed: Mapping[int | str, Any] | None = None,
        probabilities: Sequence[float] = PROBABILITIES,
        grid_resolution: int = 300,
        xlim: tuple[float, float] | None = None,
        ylim: tuple[float, float] | None = None,
        ax: Any = None,
    ) -> Self:
        """Compute the regions of a fitted model and draw them.

        Parameters
        ----------
        estimator : GaussianNB, LinearDiscriminantAnalysis or QuadraticDiscriminantAnalysis
            Fitted.
        X : array-like of shape (n_rows, n_features), optional
            Rows to draw over the regions, with all the features of the model. Pass some hundreds, since all
            are drawn, whatever is fixed.
        y : array-like of shape (n_rows,), optional
            Their labels; rows are then drawn in the colour of their class.
        features : pair of int or str, default=(0, 1)
            The two features to show, by position or name.
        fixed : mapping of int or str to float or category, optional
            Values for some of the other features, by position or name, and a category for each column that
            has some (None where it is missing). Features neither shown nor fixed are marginalised. If there
            are none, the region of a point is what `predict` returns for the row.
        probabilities : sequence of float, default=(0.5, 0.95)
            For each, an ellipse holds this share of its class, by the densities that rows are scored by.
        grid_resolution : int, default=300
            Points of the grid along each axis.
        xlim, ylim : pair of float, optional
            The range of each axis; by default the ellipses and the rows fit in. To compare displays, give
            them the same.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        display : DecisionRegionsDisplay

        Raises
        ------
        ValueError
            If `features` are not two features of the model, `fixed` are not finite values of others, or lack
            a category that the model knows, a probability is not between 0 and 1, or a range is empty.

        References
        ----------
        Anderson (2003), "An Introduction to Multivariate Statistical Analysis", theorems 2.4.3 (marginal
        densities) and 2.5.1 (conditional densities).
        """
        check_is_fitted(estimator)
        estimator = estimator.snapshot()
        chosen = _two_features(estimator, features)
        check_probabilities(probabilities)
        encoded = _fixed_in_columns(estimator, fixed or {})
        numbers = {name: value for name, value in (fixed or {}).items() if name not in encoded}
        values = _fixed_values(estimator, chosen, numbers)
        plane = _Plane(estimator, chosen, values, _features_of(estimator, encoded))
        ellipses = (estimator._among_announced(part, np.nan) for part in plane.ellipses(probabilities))
        means, covariances, squared_radii = ellipses  # NaN for a class of which no row has come
        points = (
            None
            if X is None
            else check_rows(estimator, X, missing="marginal", accept_sparse=False)[:, chosen]
        )
        low, high = _extent(means, covariances, squared_radii.max(axis=1), points)
        xx0, xx1 = _grid(xlim or (low[0], high[0]), ylim or (low[1], high[1]), grid_resolution)
        state = finalised(estimator)
        scores = plane.posterior_scores(xx0.ravel(), xx1.ravel()) + state.seen.log_priors
        best = scores.argmax(axis=1) if state.places is None else state.places[scores.argmax(axis=1)]
        xlabel, ylabel = (_name_of(estimator, feature) for feature in chosen)
        return cls(
            xx0=xx0,
            xx1=xx1,
            response=best.reshape(xx0.shape),
            classes=estimator.classes_,
            means=means,
            covariances=covariances,
            probabilities=probabilities,
            squared_radii=squared_radii,
            xlabel=xlabel,
            ylabel=ylabel,
            title=_title(estimator, values, encoded),
            points=points,
            point_classes=None if y is None else np.asarray(y),
        ).plot(ax)

    def plot(self, ax: Any = None, *, alpha: float = 0.25) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        alpha : float, default=0.25
            The opacity of the regions.

        Returns
        -------
        display : DecisionRegionsDisplay
        """
        palette = self._begin(ax)
        self._draw_regions(palette, alpha)
        self.ellipses_ = self._draw_ellipses(palette, self.covariances, self.squared_radii)
        self.points_ = self._draw_points(palette)
        self.ax_.set(
            xlim=(self.xx0.min(), self.xx0.max()),
            ylim=(self.xx1.min(), self.xx1.max()),
            xlabel=self.xlabel,
            ylabel=self.ylabel,
        )
        if self.title and not self.ax_.get_title():  # keep the user's title
            self.ax_.set_title(self.title, fontsize="small")
        title = f"ellipses: {shares_text(self.probabilities)}"
        draw_legend(self.ax_, title, most_inside=self._most_inside)
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
        # A mesh, because contours between classes 0 and 2 would have a strip of class 1 between them.
        options = {"cmap": ListedColormap(palette)} if n_classes == 2 else {}
        self.regions_ = regions.plot(
            "pcolormesh", self.ax_, vmin=-0.5, vmax=n_classes - 0.5, alpha=alpha, zorder=-1, **options
        )


class _Plane:
    """The plane of two features, with some features fixed and all others marginalised.

    Attributes
    ----------
    gaussians : Densities
        The densities of the features shown or fixed, in the order of the model.
    shown : list of int
        The positions of the two features among these.
    fixed : list of int
        The positions of the fixed features among these.
    values : ndarray of shape (n_fixed,)
        Their values.
    n_numbers : int
        How many of them, the first ones, are columns of numbers.
    """

    def __init__(
        self,
        model: GaussianClassifier[Any],
        chosen: list[int],
        numbers: dict[int, float],
        others: dict[int, float],
    ) -> None:
        values, densities = numbers | others, finalised(model).densities
        features = sorted([*chosen, *values])
        observed = np.isin(np.arange(densities.means.shape[1]), features)
        self.gaussians = densities if observed.all() else densities.marginal(observed)
        self.shown = [features.index(feature) for feature in chosen]
        self.fixed = [features.index(feature) for feature in values]
        self.values, self.n_numbers = np.array(list(values.values())), len(numbers)

    def posterior_scores(self, x0: Array, x1: Array) -> Array:
        """The scores of the classes, before their priors, at points of the plane (n,): (n, K)."""
        rows = np.empty((len(x0), len(self.shown) + len(self.fixed)))
        rows[:, self.shown] = np.column_stack([x0, x1])
        rows[:, self.fixed] = self.values
        return self.gaussians.posterior_scores(rows)

    def ellipses(self, probabilities: Sequence[float]) -> tuple[Array, Array, Array]:
        """The means (K, 2), covariances (K, 2, 2) and squared radii (K, n) of the features shown.

        They are those of the conditional densities, given the fixed features.
        """
        gaussians, fixed, x = self.gaussians, self.fixed, self.values
        if (normal := gaussians.given(x[self.n_numbers :])) is not None:
            gaussians, fixed, x = normal, fixed[: self.n_numbers], x[: self.n_numbers]
        n_classes, n_features = gaussians.means.shape
        of_fixed = gaussians.marginal(np.isin(np.arange(n_features), fixed))
        covariances = np.array([gaussians.covariance(k) for k in range(n_classes)])
        across = covariances[:, self.shown][:, :, fixed]
        regression = across @ np.array([of_fixed.precision(k) for k in range(n_classes)])
        conditional = covariances[:, self.shown][:, :, self.shown] - regression @ across.transpose(0, 2, 1)
        return (
            gaussians.means[:, self.shown] + np.vecdot(regression, (x - of_fixed.means)[:, None, :]),
            gaussians.conditional_factors(of_fixed, x)[:, None, None] * conditional,
            gaussians.squared_radii(np.array(probabilities), of_fixed),
        )


def _two_features(estimator: GaussianClassifier[Any], features: Sequence[int | str]) -> list[int]:
    chosen = [_feature(estimator, feature) for feature in features] if np.ndim(features) == 1 else []
    if len(set(chosen)) != 2 or len(chosen) != 2:
        raise ValueError(f"two different features are needed; got {features!r}")
    return chosen


def _fixed_in_columns(estimator: GaussianClassifier[Any], fixed: Mapping[int | str, Any]) -> dict[str, Any]:
    """The value of each column that is no number."""
    known = estimator.statistics_.schema.values_by_column()
    for name, values in known.items():
        if name not in fixed or fixed[name] not in values:
            raise ValueError(f"regions are those of a value of {name!r}: fix it at one of {listed(values)}")
    return {name: fixed[name] for name in known}


def _features_of(estimator: GaussianClassifier[Any], encoded: Mapping[str, Any]) -> dict[int, float]:
    """The features that are made of columns that are no numbers, and their values."""
    if not encoded:
        return {}
    n_numbers = _n_numbers(estimator)
    schema = estimator.statistics_.schema
    any_values = {**dict.fromkeys(schema.names or (), 0.0), **dict.fromkeys(schema.dates, date(1970, 1, 1))}
    row = check_rows(estimator, {**any_values, **encoded})[0]
    return dict(enumerate(row[n_numbers:].tolist(), n_numbers))


def _n_numbers(estimator: GaussianClassifier[Any]) -> int:
    return estimator.statistics_.schema.n_numbers(estimator.n_features_in_)


def _fixed_values(
    estimator: GaussianClassifier[Any], chosen: list[int], fixed: Mapping[int | str, float]
) -> dict[int, float]:
    """The values of the fixed features, in the order of the features."""
    values = {_feature(estimator, feature): float(value) for feature, value in fixed.items()}
    if len(values) < len(fixed) or not values.keys().isdisjoint(chosen):
        raise ValueError(f"a feature can be shown or fixed, and once; got fixed={dict(fixed)!r}")
    if not np.isfinite(list(values.values())).all():
        raise ValueError(f"features can be fixed at finite values only; got fixed={dict(fixed)!r}")
    return dict(sorted(values.items()))


def _feature(estimator: GaussianClassifier[Any], feature: int | str) -> int:
    names, n_features = estimator.statistics_.feature_names, _n_numbers(estimator)
    names = names and names[:n_features]
    if not isinstance(feature, str) and -n_features <= feature < 0:
        feature += n_features
    return int(as_feature_positions(feature, names, n_features)[0])


def _name_of(estimator: GaussianClassifier[Any], feature: int) -> str:
    names = getattr(estimator, "feature_names_in_", None)
    return f"feature {feature}" if names is None else str(names[feature])


def _title(estimator: GaussianClassifier[Any], values: dict[int, float], encoded: Mapping[str, Any]) -> str:
    """Which of the features that are not shown are fixed or marginalised."""
    parts = [f"{_name_of(estimator, feature)} = {value:g}" for feature, value in values.items()]
    parts += [f"{name} = {value_named(value)}" for name, value in encoded.items()]
    if len(parts) > _MOST_IN_TITLE:
        parts = [f"{counted(len(parts), 'feature')} fixed"]
    if n_others := _n_numbers(estimator) - len(values) - 2:
        parts.append(f"{counted(n_others, 'other feature')} marginalised")
    return ", ".join(parts)


def _extent(
    means: Array, covariances: Array, squared_radii: Array, points: Array | None
) -> tuple[Array, Array]:
    """The lowest and the highest corner of axes in which ellipses of these radii (K,) and the points fit."""
    variances = np.maximum(np.einsum("kii->ki", covariances), 0)
    reach = np.sqrt(squared_radii[:, None] * variances)
    corners = np.vstack([means - reach, means + reach, means[:0] if points is None else points])
    low, high = np.nanmin(corners, axis=0), np.nanmax(corners, axis=0)
    margin = np.where(high > low, _MARGIN * (high - low), 1.0)
    return low - margin, high + margin


def _grid(xlim: tuple[float, float], ylim: tuple[float, float], resolution: int) -> tuple[Array, Array]:
    for name, (low, high) in (("xlim", xlim), ("ylim", ylim)):
        if not low < high:
            raise ValueError(f"{name} must be a lower and a higher number; got {(low, high)}")
    xx0, xx1 = np.meshgrid(*(np.linspace(*limits, resolution) for limits in (xlim, ylim)))
    return xx0, xx1
