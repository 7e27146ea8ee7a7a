"""What to say of a class whose covariance is singular."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamgda.covariances import constant_features
from streamgda.gaussians import Spectrum
from streamgda.statistics import ClassStatistics

_MOST_NAMES = 10


def singular_class(statistics: ClassStatistics, k: int, rank: int, tol: float) -> np.linalg.LinAlgError:
    """The error that says which class is singular, for which features, and what helps."""
    classes, means, n_rows = statistics.classes, statistics.means[[k]], int(statistics.counts[k])
    covariance = statistics.covariance()[k]
    constant = np.flatnonzero(constant_features(np.diag(covariance), means))
    n_varying = statistics.n_features - len(constant)
    collinear = Spectrum.of(covariance, means, tol).collinear if n_varying < n_rows else ()
    findings = [f"constant in it: {_named(statistics, constant)}"] if len(constant) else []
    if len(collinear):
        findings.append(f"collinear in it: {_named(statistics, collinear)}")
    if n_varying >= n_rows:
        findings.append("it has no more rows than features that vary")
    shrinkage = "shrinkage, as with shrinkage='auto', or " if n_varying else ""
    return np.linalg.LinAlgError(
        f"class {classes[k]!s}: the covariance has rank {rank} of {statistics.n_features}, from {n_rows} "
        f"rows, so its density is not defined; {'; '.join(findings)}. Raise {shrinkage}reg_param, leave "
        "out constant or collinear features, bring more rows, or use LinearDiscriminantAnalysis or GaussianNB"
    )


def _named(statistics: ClassStatistics, features: Sequence[int] | np.ndarray) -> str:
    """The names of some features, the first few of them if they are many."""
    names = statistics.feature_names
    listed = [repr(names[feature]) if names else str(feature) for feature in features[:_MOST_NAMES]]
    more = len(features) - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more else "")
