"""Box's test of equal covariances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtrc

from streamgda.diagnostics.base import Table, check_classes, singular_class, whitening_within
from streamgda.gaussians.whitening import Array, Whitening
from streamgda.statistics.base import Statistics

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class BoxM(Table):
    """The result of `box_m`.

    Attributes
    ----------
    statistic : float
        Box's M.
    chi2 : float
        M times Box's correction, which is compared with the χ² distribution.
    df : float
        Its degrees of freedom.
    pvalue : float
        The probability of such a χ², or a larger one, if all covariances are equal.
    log_determinants : dict of label to float
        ln |S| of the unbiased covariance of each class, which M compares with ln |S| of the pooled
        covariance.
    pooled_log_determinant : float
        ln |S| of the pooled covariance.
    """

    statistic: float
    chi2: float
    df: float
    pvalue: float
    log_determinants: dict[object, float]
    pooled_log_determinant: float

    def to_pandas(self) -> pd.DataFrame:
        """The table as a data frame of one row."""
        import pandas as pd

        row = {"M": self.statistic, "chi2": self.chi2, "df": self.df, "p-value": self.pvalue}
        return pd.DataFrame([row], index=["Box's M"])


def box_m(statistics: Statistics, *, tol: float = 1e-4) -> BoxM:
    """Test whether the covariances of the classes are equal, given that the rows are normal.

    With many rows the test finds even small differences. It also rejects if rows have heavy tails. Sample
    weights count repetitions of rows.

    Parameters
    ----------
    statistics : ClassStatistics or ExactClassStatistics
        Of covariance type "full".
    tol : float, default=1e-4
        As for `QuadraticDiscriminantAnalysis`.

    Raises
    ------
    ValueError
        If there is one class, or the covariances of the classes are not kept.
    numpy.linalg.LinAlgError
        If the covariance of a class is singular; the message names the class and its features.

    References
    ----------
    Box (1949), "A general distribution theory for a class of likelihood criteria", Biometrika 36;
    Rencher & Christensen (2012), "Methods of Multivariate Analysis", section 7.3.2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamgda import ClassStatistics
    >>> from streamgda.diagnostics import box_m
    >>> print(box_m(ClassStatistics().update(*load_iris(return_X_y=True))))
                  M    chi2  df     p-value
    Box's M 146.663 140.943  20 3.35203e-20
    """
    check_classes(statistics, covariances=("full",))
    d, n_classes = statistics.n_features, len(statistics.classes)
    freedoms = statistics.weights - 1
    total = float(freedoms.sum())
    of_classes = _log_determinants(statistics, tol**2)
    pooled = whitening_within(statistics, tol**2).log_pdet + d * float(
        np.log(statistics.weights.sum() / total)
    )
    statistic = float(freedoms @ (pooled - of_classes))
    correction = (1 / freedoms).sum() - 1 / total
    correction *= (2 * d**2 + 3 * d - 1) / (6 * (d + 1) * (n_classes - 1))
    df = d * (d + 1) * (n_classes - 1) / 2
    chi2 = float((1 - correction) * statistic)
    by_class = dict(zip(statistics.classes.tolist(), of_classes.tolist(), strict=True))
    return BoxM(statistic, chi2, df, float(chdtrc(df, max(chi2, 0.0))), by_class, pooled)


def _log_determinants(statistics: Statistics, least_eigenvalue: float) -> Array:
    """Ln |S| of the unbiased covariance of each class.

    Raises
    ------
    numpy.linalg.LinAlgError
        If one is singular; the message names the class and its features.
    """
    found = []
    for k, (covariance, weight) in enumerate(zip(statistics.covariance(), statistics.weights, strict=True)):
        whitening = Whitening.of(covariance, statistics.means[[k]], least_eigenvalue)
        rank = min(whitening.rank, int(statistics.counts[k]) - 1)
        if rank < statistics.n_features or weight <= statistics.n_features:
            raise singular_class(statistics, k, rank, least_eigenvalue)
        found.append(whitening.log_pdet + statistics.n_features * np.log(weight / (weight - 1)))
    return np.array(found)
