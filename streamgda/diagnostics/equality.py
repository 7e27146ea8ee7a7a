"""Whether classes are equal: their means (multivariate analysis of variance), and their covariances (Box)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import chdtrc, fdtrc

from streamgda.data.blocks.wording import as_html, counted, named
from streamgda.models.gaussians.components import (
    deficient_features,
    pooled_covariance,
    singular_features,
    weighted_offsets,
)
from streamgda.models.gaussians.whitening import Array, Whitening
from streamgda.statistics.base import Statistics, check_statistics
from streamgda.statistics.locking import holding_locks


class Table:
    """A result that is a table: readable as a string, and as a data frame for further work."""

    def to_pandas(self) -> pd.DataFrame:
        """The table as a data frame."""
        raise NotImplementedError

    def __str__(self) -> str:
        return str(self.to_pandas().to_string(float_format="{:.6g}".format))

    def _repr_html_(self) -> str:
        return as_html(type(self).__name__, self.to_pandas())


@dataclass(frozen=True)
class ManovaStatistic:
    """A test statistic and its F approximation.

    Attributes
    ----------
    statistic : float
        The statistic.
    f : float
        The value that is compared with the F distribution.
    df : tuple of float
        The degrees of freedom of its numerator and denominator.
    pvalue : float
        The probability of such an F, or a larger one, if all means are equal.
    """

    statistic: float
    f: float
    df: tuple[float, float]
    pvalue: float


@dataclass(frozen=True)
class Manova(Table):
    """The four tests of `manova`.

    Attributes
    ----------
    wilks, pillai, hotelling_lawley, roy : ManovaStatistic
        Wilks' lambda, Pillai's trace, the trace of Hotelling and Lawley, and Roy's largest root. The p-value
        of Roy's root is a lower bound.
    eigenvalues : tuple of float
        The eigenvalues of W⁻¹ B, in falling order, for the scatter W within the classes and B between them.
    """

    wilks: ManovaStatistic
    pillai: ManovaStatistic
    hotelling_lawley: ManovaStatistic
    roy: ManovaStatistic
    eigenvalues: tuple[float, ...]

    def to_pandas(self) -> pd.DataFrame:
        """The table as a data frame, with a row for each test."""
        tests = (self.wilks, self.pillai, self.hotelling_lawley, self.roy)
        names = ["Wilks' lambda", "Pillai's trace", "Hotelling-Lawley trace", "Roy's largest root"]
        rows = [[test.statistic, test.f, *test.df, test.pvalue] for test in tests]
        columns = ["statistic", "F", "numerator df", "denominator df", "p-value"]
        return pd.DataFrame(rows, index=names, columns=columns)


@holding_locks
def manova(statistics: Statistics, *, tol: float = 1e-4) -> Manova:
    """Test whether the means of the classes are equal, given that their covariances are.

    Sample weights count repetitions of rows.

    Parameters
    ----------
    statistics : ClassStatistics or ExactClassStatistics
        Of covariance type "full" or "tied".
    tol : float, default=1e-4
        As for `LinearDiscriminantAnalysis`.

    Returns
    -------
    Manova
        The F approximation of Wilks' lambda is that of Rao. That of the trace of Hotelling and Lawley is
        McKeon's or, if there are too few rows for it, that of Pillai and Samson. With two classes or one
        feature, all four are exact and the same.

    Raises
    ------
    ValueError
        If there is one class, or the covariances of features are not kept.
    numpy.linalg.LinAlgError
        If the covariance within the classes is singular; the message names the features.

    References
    ----------
    Rao (1951), "An asymptotic expansion of the distribution of Wilks' criterion"; McKeon (1974), "F
    approximations to the distribution of Hotelling's T²"; Rencher & Christensen (2012), "Methods of
    Multivariate Analysis", section 6.1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamgda import ClassStatistics
    >>> from streamgda.diagnostics import manova
    >>> print(manova(ClassStatistics().update(*load_iris(return_X_y=True))))
                            statistic       F  numerator df  denominator df      p-value
    Wilks' lambda           0.0234386 199.145             8             288 1.36501e-112
    Pillai's trace             1.1919 53.4665             8             290  9.74216e-53
    Hotelling-Lawley trace    32.4773 582.197             8         203.402 1.07742e-135
    Roy's largest root        32.1919 1166.96             4             145  3.7873e-109
    """
    _check_classes(statistics, covariances=("full", "tied"))
    offsets = weighted_offsets(statistics) @ _whitening_within(statistics, tol**2).matrix
    n_classes, n_features = offsets.shape
    n_roots = min(n_classes - 1, n_features)
    roots: Array = np.linalg.svd(offsets, compute_uv=False)[:n_roots].astype(np.float64) ** 2
    size = n_features, n_classes - 1, float(statistics.weights.sum()) - n_classes
    wilks, pillai, hotelling_lawley, roy = (
        test(roots, *size) for test in (_wilks, _pillai, _hotelling_lawley, _roy)
    )
    return Manova(wilks, pillai, hotelling_lawley, roy, tuple(roots.tolist()))


# Of p features, with q degrees of freedom of the classes and v within them. There are s = min(p, q) roots.


def _tested(statistic: float, f: float, first: float, second: float) -> ManovaStatistic:
    df = float(first), float(second)
    return ManovaStatistic(float(statistic), float(f), df, float(fdtrc(*df, f)))


def _wilks(roots: Array, p: int, q: int, v: float) -> ManovaStatistic:
    log_lambda = -np.log1p(roots).sum()
    t = np.sqrt((p**2 * q**2 - 4) / (p**2 + q**2 - 5)) if p**2 + q**2 > 5 else 1.0
    second = (v - (p - q + 1) / 2) * t - (p * q - 2) / 2
    return _tested(np.exp(log_lambda), np.expm1(-log_lambda / t) * second / (p * q), p * q, second)


def _pillai(roots: Array, p: int, q: int, v: float) -> ManovaStatistic:
    second = len(roots) * (v - p + len(roots))
    trace = (roots / (1 + roots)).sum()
    rest = (1 / (1 + roots)).sum()  # what the trace leaves of s, without cancellation
    return _tested(trace, trace / rest * second / (p * q), p * q, second)


def _hotelling_lawley(roots: Array, p: int, q: int, v: float) -> ManovaStatistic:
    trace, n = roots.sum(), (v - p - 1) / 2
    if n <= 1:
        second = 2 * (len(roots) * n + 1)
        return _tested(trace, trace * second / (len(roots) * p * q), p * q, second)
    b = (p + 2 * n) * (q + 2 * n) / (2 * (2 * n + 1) * (n - 1))
    second = 4 + (p * q + 2) / (b - 1)
    scale = (second - 2) / (2 * n)
    return _tested(trace, trace / scale * second / (p * q), p * q, second)


def _roy(roots: Array, p: int, q: int, v: float) -> ManovaStatistic:
    first = max(p, q)
    second = v - first + q
    return _tested(roots[0], roots[0] * second / first, first, second)


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
        ln det S of the unbiased covariance of each class, which M compares with that of the pooled
        covariance.
    pooled_log_determinant : float
        ln det S of the pooled covariance.
    """

    statistic: float
    chi2: float
    df: float
    pvalue: float
    log_determinants: dict[object, float]
    pooled_log_determinant: float

    def to_pandas(self) -> pd.DataFrame:
        """The table as a data frame of one row."""
        row = {"M": self.statistic, "chi2": self.chi2, "df": self.df, "p-value": self.pvalue}
        return pd.DataFrame([row], index=["Box's M"])


@holding_locks
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
    _check_classes(statistics, covariances=("full",))
    d, n_classes = statistics.n_features, len(statistics.classes)
    freedoms = statistics.weights - 1
    total = float(freedoms.sum())
    of_classes = _log_determinants(statistics, tol**2)
    pooled = _whitening_within(statistics, tol**2).log_pdet + d * float(
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
    log_determinants = []
    for k, (covariance, weight) in enumerate(zip(statistics.covariance(), statistics.weights, strict=True)):
        whitening = Whitening.of(covariance, statistics.means[[k]], least_eigenvalue)
        rank = min(whitening.rank, int(statistics.counts[k]) - 1)
        if rank < statistics.n_features or weight <= statistics.n_features:
            raise np.linalg.LinAlgError(
                f"class {named(statistics.classes[k])}: the covariance has rank {rank} of "
                f"{statistics.n_features}, from {counted(statistics.counts[k], 'row')}; "
                f"{singular_features(statistics, k, least_eigenvalue)}. Leave the class or features out, or "
                "bring more rows"
            )
        log_determinants.append(whitening.log_pdet + statistics.n_features * np.log(weight / (weight - 1)))
    return np.array(log_determinants)


def _check_classes(statistics: Statistics, *, covariances: tuple[str, ...]) -> None:
    """Raise an error unless there are two classes or more, and one of these kinds of covariance."""
    check_statistics(statistics)
    if len(statistics.classes) < 2:
        raise ValueError(f"classes are compared, so at least two are needed; got {statistics!r}")
    if statistics.covariance_type not in covariances:
        kinds = " or ".join(map(repr, covariances))
        raise ValueError(
            f"the covariances of features are needed; accumulate with {kinds}; got {statistics!r}"
        )


def _whitening_within(statistics: Statistics, least_eigenvalue: float) -> Whitening:
    """The whitening of the covariance within the classes.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the covariance is singular, or there are too few rows. The message names the features.
    """
    covariance, n_features = pooled_covariance(statistics), statistics.n_features
    whitening = Whitening.of(covariance, statistics.means, least_eigenvalue)
    n_classes = len(statistics.classes)
    freedom = float(statistics.weights.sum()) - n_classes
    if freedom < n_features:
        raise np.linalg.LinAlgError(
            f"{counted(n_features, 'feature')} in {counted(n_classes, 'class')} take "
            f"{n_features + n_classes:,} rows or more; leave features out with "
            f"statistics.select, or bring more rows. Got {statistics!r}"
        )
    if whitening.rank < n_features:
        features = deficient_features(statistics, covariance, least_eigenvalue)
        raise np.linalg.LinAlgError(
            f"the covariance within the classes has rank {whitening.rank} of {n_features}: {features}. "
            "Leave them out with statistics.select"
        )
    return whitening
