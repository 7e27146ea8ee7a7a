"""Little's test of whether features are missing completely at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtrc

from streamgda.diagnostics.base import Table, singular_class, singular_within
from streamgda.gaussians.whitening import Array, Whitening
from streamgda.incomplete.state import IncompleteStatistics
from streamgda.statistics.base import Statistics, check_statistics
from streamgda.statistics.covariances import Indices
from streamgda.statistics.locking import at_one_moment

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class LittleMCAR(Table):
    """The result of `little_mcar_test`.

    Attributes
    ----------
    chi2 : float
        The squared distances of the means of the patterns from the expected ones, summed over patterns and
        classes.
    df : int
        Its degrees of freedom.
    pvalue : float
        The probability of such a χ², or a larger one, if features are missing completely at random.
    by_class : dict of label to (float, int)
        χ² and degrees of freedom of each class.
    """

    chi2: float
    df: int
    pvalue: float
    by_class: dict[object, tuple[float, int]]

    def to_pandas(self) -> pd.DataFrame:
        """The table as a data frame: a row for each class, and one for all together."""
        import pandas as pd

        rows = {label: (chi2, df, _upper_tail(chi2, df)) for label, (chi2, df) in self.by_class.items()}
        rows["all"] = (self.chi2, self.df, self.pvalue)
        return pd.DataFrame.from_dict(rows, orient="index", columns=["chi2", "df", "p-value"])


@at_one_moment
def little_mcar_test(statistics: Statistics, *, tol: float = 1e-4) -> LittleMCAR:
    """Test whether features are missing completely at random within the classes.

    The means of the rows of each pattern of observed features are compared with the means of maximum
    likelihood. If features are missing completely at random, and rows are normal or many, Σ n d² is about χ²
    distributed, where d is the Mahalanobis distance of the mean of a pattern, in its features. A small
    p-value says that missingness depends on values. Maximum likelihood allows a dependence on observed
    values, but not on the missing value itself. For all classes as one population, test
    ``statistics.as_one_class()``.

    Parameters
    ----------
    statistics : IncompleteStatistics
        Of covariance type "full" or "tied", as `accumulate` makes them of a source with missing="marginal".
    tol : float, default=1e-4
        As for `LinearDiscriminantAnalysis`.

    Returns
    -------
    LittleMCAR

    Raises
    ------
    ValueError
        If the statistics keep no patterns, or do not determine means and covariances.
    numpy.linalg.LinAlgError
        If features that vary are collinear in a class; the message names the class and its features.

    References
    ----------
    Little (1988), "A test of missing completely at random for multivariate data with missing values",
    Journal of the American Statistical Association 83, section 3.

    Examples
    --------
    Size of an apple crop, and percentage of wormy fruit (Little & Rubin 2019, table 7.4):

    >>> from streamgda import IncompleteStatistics
    >>> from streamgda.diagnostics import little_mcar_test
    >>> size = [8, 6, 11, 22, 14, 17, 18, 24, 19, 23, 26, 40, 4, 4, 5, 6, 8, 10]
    >>> wormy = [59, 58, 56, 53, 50, 45, 43, 42, 39, 38, 30, 27, *[float("nan")] * 6]
    >>> state = IncompleteStatistics().update(list(zip(size, wormy)), ["apple"] * 18)
    >>> result = little_mcar_test(state)
    >>> round(result.chi2, 5), result.df, round(result.pvalue, 6)
    (7.35785, 1, 0.006677)
    """
    check_statistics(statistics)
    if not isinstance(statistics, IncompleteStatistics) or statistics.covariance_type == "diag":
        raise ValueError(
            "patterns of missing features and their covariances are needed: accumulate a source with "
            f"missing='marginal', and covariance type 'full' or 'tied'; got {statistics!r}"
        )
    expected = statistics.completed()
    classes, patterns = statistics.classes.tolist(), list(statistics.by_pattern())
    covariances = np.resize(expected.covariance(), (len(classes), *[statistics.n_features] * 2))
    _check_regular(expected, covariances, tol**2)
    by_class = {
        label: _of_class(label, patterns, (expected.means[k], expected.mean_tails[k]), covariances[k], tol**2)
        for k, label in enumerate(classes)
    }
    chi2, df = (sum(column) for column in zip(*by_class.values(), strict=True)) if by_class else (0.0, 0)
    return LittleMCAR(float(chi2), int(df), _upper_tail(float(chi2), int(df)), by_class)


def _check_regular(expected: Statistics, covariances: Array, least_eigenvalue: float) -> None:
    """Raise LinAlgError for a covariance that is singular among the features that vary."""
    is_shared = expected.covariance_type == "tied"
    for k, covariance in enumerate(covariances[:1] if is_shared else covariances):
        means = expected.means if is_shared else expected.means[[k]]
        whitening = Whitening.of(covariance, means, least_eigenvalue)
        if whitening.rank < (np.diag(covariance) > 0).sum():
            if is_shared:
                raise singular_within(expected, whitening)
            raise singular_class(expected, k, whitening.rank, least_eigenvalue)


def _of_class(
    label: object,
    patterns: Sequence[tuple[Indices, Statistics]],
    mean: tuple[Array, Array],
    covariance: Array,
    least_eigenvalue: float,
) -> tuple[float, int]:
    """χ² and degrees of freedom of one class, with this mean and its low part."""
    chi2, df = 0.0, -int((np.diag(covariance) > 0).sum())
    for features, rows in patterns:
        for k in np.flatnonzero(rows.classes == label) if len(features) else ():
            offset = (rows.means[k] - mean[0][features]) + (rows.mean_tails[k] - mean[1][features])
            within = covariance[np.ix_(features, features)]
            whitening = Whitening.of(within, rows.means[[k]], least_eigenvalue)
            chi2 += float(rows.weights[k] * ((offset @ whitening.matrix) ** 2).sum())
            df += whitening.rank
    return chi2, df


def _upper_tail(chi2: float, df: int) -> float:
    return float(chdtrc(df, chi2)) if df else 1.0
