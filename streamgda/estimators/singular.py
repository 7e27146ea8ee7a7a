"""Errors and warnings about singular covariances: which features cause them, and what helps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgda.gaussians.whitening import Array, Spectrum, constant_features
from streamgda.statistics.base import Statistics

_MOST_NAMES = 10  # of features, in a message


def singular_class(
    statistics: Statistics, k: int, rank: int, tol: float, *, regularised: bool, solver: str
) -> np.linalg.LinAlgError:
    """The error for a class (at position k) with a singular covariance: its features, and what helps.

    It begins as scikit-learn's does.
    """
    n_rows = int(statistics.counts[k])
    n_varying = statistics.n_features - len(constant_in_class(statistics, k))
    return np.linalg.LinAlgError(
        f"{_as_in_scikit_learn(statistics, k, regularised, solver)} "
        f"It has rank {rank} of {statistics.n_features}, from {n_rows} rows; "
        f"{singular_features(statistics, k, tol)}. {_remedy(n_rows, n_varying, regularised)}, leave out "
        "constant or collinear features, bring more rows, or use LinearDiscriminantAnalysis or GaussianNB"
    )


def _as_in_scikit_learn(statistics: Statistics, k: int, regularised: bool, solver: str) -> str:
    """What scikit-learn's QDA says of a class, word for word."""
    label, n_rows, n_features = statistics.classes[k], int(statistics.counts[k]), statistics.n_features
    if n_rows == 1 and not regularised:
        return f"y has only 1 sample in class {label!s}, covariance is ill defined."
    said = f"The covariance matrix of class {label!s} is not full rank."
    if solver == "svd" and n_rows <= n_features:
        return (
            f"{said} When using `solver='svd'` the number of samples in each class should be more than the "
            f"number of features, but class {label!s} has {n_rows} samples and {n_features} features. Try "
            "using `solver='eigen'` and setting the parameter `shrinkage` for regularization."
        )
    parameter = "shrinkage" if solver == "eigen" else "reg_param"
    return f"{said} Increase the value of `{parameter}` to reduce the collinearity."


def constant_in_class(statistics: Statistics, k: int) -> NDArray[np.intp]:
    """The features that are constant in a class (at position k) of a "full" state."""
    variances = np.diag(statistics.covariance()[k])
    return np.flatnonzero(constant_features(variances, statistics.means[[k]]))


def singular_features(statistics: Statistics, k: int, tol: float) -> str:
    """Describe the features that make the covariance of a class (at position k) singular, or its few rows."""
    constant = constant_in_class(statistics, k)
    findings = [f"constant in it: {_named(statistics, constant)}"] if len(constant) else []
    if statistics.n_features - len(constant) >= statistics.counts[k]:
        findings.append("it has no more rows than features that vary")
    else:
        spectrum = Spectrum.of(statistics.covariance()[k], statistics.means[[k]], tol)
        if len(spectrum.collinear):
            findings.append(f"collinear in it: {_named(statistics, spectrum.collinear)}")
    return "; ".join(findings)


def deficient_features(statistics: Statistics, covariance: Array, tol: float) -> str:
    """Describe the features that make the covariance (d, d) within the classes singular."""
    constant = np.flatnonzero(constant_features(np.diag(covariance), statistics.means))
    collinear = Spectrum.of(covariance, statistics.means, tol).collinear
    found = [("constant", constant), ("collinear", collinear)]
    return "features are " + " or ".join(
        f"{what} ({_named(statistics, features)})" for what, features in found if len(features)
    )


def _remedy(n_rows: int, n_varying: int, regularised: bool) -> str:
    """The parameters to change, as a sentence."""
    if not n_varying:
        return "Set reg_param above 0"
    if regularised:
        return "Raise reg_param, or set shrinkage to a higher number"
    how = "'auto'" if n_rows > 2 else "a number above 0"  # from two rows, "auto" estimates no error
    return f"Set shrinkage to {how}, or reg_param above 0"


def _named(statistics: Statistics, features: NDArray[np.intp]) -> str:
    """List features by name, at most the first ten."""
    names = statistics.feature_names
    listed = [repr(names[feature]) if names else str(feature) for feature in features[:_MOST_NAMES]]
    more = len(features) - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more else "")
