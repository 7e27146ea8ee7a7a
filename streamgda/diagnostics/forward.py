"""Forward selection of the features that tell the classes apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from streamgda.diagnostics.base import Table, check_classes
from streamgda.gaussians.whitening import Array, constant_features
from streamgda.statistics.base import Statistics
from streamgda.statistics.components import feature_list, pooled_covariance, weighted_offsets
from streamgda.statistics.locking import at_one_moment
from streamgda.statistics.validation import check_whole

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class SelectionStep:
    """A feature that was selected.

    Attributes
    ----------
    feature : str or int
        Its name, or its position where features have no names.
    wilks : float
        Wilks' λ of the features selected so far, with this one.
    partial_wilks : float
        The ratio of this λ to λ without this feature.
    f : float
        The value that is compared with the F distribution.
    df : tuple of float
        The degrees of freedom of its numerator, g − 1, and denominator, n − g − q, with n rows, g classes and
        q features selected before.
    pvalue : float
        The probability of such an F, or a larger one, if the feature adds nothing to the others. It is too
        small, since the feature was chosen as the best of many.
    """

    feature: str | int
    wilks: float
    partial_wilks: float
    f: float
    df: tuple[float, float]
    pvalue: float


@dataclass(frozen=True)
class FeatureSelection(Table):
    """The features that `select_features` selected, in order.

    Attributes
    ----------
    steps : tuple of SelectionStep
        One for each feature.
    collinear : tuple of str or int
        Features that were passed over, since those selected before determine them.
    """

    steps: tuple[SelectionStep, ...]
    collinear: tuple[str | int, ...] = ()

    @property
    def features(self) -> list[str | int]:
        """The features, as `statistics.select` takes them."""
        return [step.feature for step in self.steps]

    def to_pandas(self) -> pd.DataFrame:
        """The table as a data frame, with a row for each step."""
        import pandas as pd

        rows = [[s.feature, s.wilks, s.partial_wilks, s.f, *s.df, s.pvalue] for s in self.steps]
        columns = ["feature", "Wilks' lambda", "partial", "F", "numerator df", "denominator df", "p-value"]
        return pd.DataFrame(rows, columns=columns, index=pd.RangeIndex(1, len(rows) + 1, name="step"))


@at_one_moment
def select_features(
    statistics: Statistics, n_features_to_select: int | None = None, *, alpha: float = 0.05, tol: float = 1e-4
) -> FeatureSelection:
    """Select features one by one, each time the one that makes Wilks' λ smallest.

    λ is the determinant of the scatter within the classes over that of all the scatter: 0 where means are far
    apart, 1 where they are the same. Sample weights count repetitions of rows.

    Parameters
    ----------
    statistics : ClassStatistics or ExactClassStatistics
        Of covariance type "full" or "tied".
    n_features_to_select : int, optional
        The most features to select. If None, there is no limit.
    alpha : float in [0, 1], default=0.05
        Selection ends if the p-value of the next feature is larger. With 1, all features are ranked.
    tol : float, default=1e-4
        A feature is collinear with the selected ones if they leave no more of its variance within the classes
        than the square of `tol`.

    Returns
    -------
    FeatureSelection
        ``statistics.select(selection.features)`` is the state of the selected features.

    Raises
    ------
    ValueError
        If there is one class, the covariances of features are not kept, or a parameter is out of range.
    numpy.linalg.LinAlgError
        If a feature is constant within the classes; the message names it.

    References
    ----------
    Rencher & Christensen (2012), "Methods of Multivariate Analysis", section 6.11; as `greedy.wilks` of the
    package klaR.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamgda import ClassStatistics
    >>> from streamgda.diagnostics import select_features
    >>> selection = select_features(ClassStatistics().update(*load_iris(return_X_y=True)))
    >>> selection.features
    [2, 1, 3, 0]
    >>> print(selection.to_pandas()[["feature", "Wilks' lambda", "F", "p-value"]])
          feature  Wilks' lambda            F       p-value
    step
    1           2       0.058628  1180.161182  2.856777e-91
    2           1       0.036884    43.035453  2.029774e-15
    3           3       0.024976    34.568686  5.296345e-13
    4           0       0.023439     4.721152  1.032884e-02
    """
    check_classes(statistics, covariances=("full", "tied"))
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is a probability; got {alpha!r}")
    if n_features_to_select is not None:
        check_whole(n_features_to_select, "n_features_to_select", 1)
    within, offsets = _standardised(statistics)
    left, steps = np.ones(len(within), dtype=bool), list[SelectionStep]()
    while len(steps) != n_features_to_select and (best := _best(within, offsets, left, tol**2)) is not None:
        step = _step(statistics, *best, steps)
        if step is None or step.pvalue > alpha:
            break
        steps.append(step)
        left[best[0]] = False
        within, offsets = _left_by(best[0], within, offsets)
    collinear = np.flatnonzero(left & (np.diag(within) <= tol**2)).tolist()
    return FeatureSelection(tuple(steps), tuple(_name(statistics, j) for j in collinear))


def _standardised(statistics: Statistics) -> tuple[Array, Array]:
    """The covariance within the classes and the `weighted_offsets`, for features of unit variance within."""
    within = pooled_covariance(statistics)
    constant = np.flatnonzero(constant_features(np.diag(within), statistics.means))
    if len(constant):
        raise np.linalg.LinAlgError(
            f"features are constant within the classes ({feature_list(statistics, constant)}). "
            "Leave them out with statistics.select"
        )
    units = np.sqrt(np.diag(within))
    return within / np.outer(units, units), weighted_offsets(statistics) / units


def _best(within: Array, offsets: Array, left: NDArray[np.bool_], least: float) -> tuple[int, float] | None:
    """The feature whose variance between the classes is largest beside that within, and their ratio.

    None if no feature is left. The variance of all rows is not used, since the variance within may be lost in
    its rounding.
    """
    variances = np.diag(within)
    usable = left & (variances > least)
    ratios = np.where(usable, np.vecdot(offsets.T, offsets.T) / np.where(usable, variances, 1.0), -1.0)
    best = int(ratios.argmax())
    return (best, float(ratios[best])) if usable.any() else None


def _left_by(feature: int, within: Array, offsets: Array) -> tuple[Array, Array]:
    """The covariance within the classes, and the offsets, after a feature is regressed out.

    With the covariance W within and offsets M, that of all rows is W + MᵀM. Both are swept by the feature, to
    W' and W' + M'ᵀM'. In the direction of the offsets of the feature, M' is what the regression within leaves
    of M, over √(1 + ratio) with the ratio of `_best`. In all others it is M.
    """
    slopes = within[feature] / within[feature, feature]
    turned = _turned(offsets, feature)
    ratio = turned[0, feature] ** 2 / within[feature, feature]
    turned[0] -= turned[0, feature] * slopes
    turned[0] /= np.sqrt(1 + ratio)
    return within - np.outer(within[feature], slopes), turned


def _turned(offsets: Array, feature: int) -> Array:
    """Offsets (K, d) reflected so that those of a feature are 0 except for the first."""
    axis = offsets[:, feature]
    length = np.linalg.norm(axis)
    if not length:
        return offsets.copy()
    normal = axis / length
    normal[0] += np.copysign(1.0, normal[0])
    return offsets - np.outer(normal, (2 / (normal @ normal)) * (normal @ offsets))


def _step(
    statistics: Statistics, feature: int, ratio: float, before: list[SelectionStep]
) -> SelectionStep | None:
    """The step that adds a feature with this ratio of variances; None if no degree of freedom is left."""
    first = len(statistics.classes) - 1
    second = float(statistics.weights.sum()) - len(statistics.classes) - len(before)
    if second <= 0:
        return None
    f, partial = ratio * second / first, 1 / (1 + ratio)
    wilks = partial * (before[-1].wilks if before else 1.0)
    pvalue = float(fdtrc(first, second, f))
    return SelectionStep(_name(statistics, feature), wilks, partial, f, (float(first), second), pvalue)


def _name(statistics: Statistics, feature: int) -> str | int:
    return statistics.feature_names[feature] if statistics.feature_names else feature
