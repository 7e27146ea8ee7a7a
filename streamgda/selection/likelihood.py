"""The joint log-likelihood of held-out rows, from their statistics alone."""

from __future__ import annotations

from typing import Any

from streamgda.estimators.classifier import GaussianClassifier, finalised
from streamgda.estimators.likelihood import joint_log_likelihood
from streamgda.statistics.base import Statistics


def mean_log_likelihood(model: GaussianClassifier[Any], statistics: Statistics) -> float:
    """The mean of ln p(x, k) over rows and their classes k, of which these are the statistics.

    Parameters
    ----------
    model : estimator
        Fitted, to these rows or to others.
    statistics : ClassStatistics or ExactClassStatistics
        Of the rows; of the covariance type that the model needs, or "full". The model knows their classes.

    References
    ----------
    Anderson (2003), "An Introduction to Multivariate Statistical Analysis", section 3.2: the likelihood of
    normal rows depends on their count, mean and scatter alone.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import norm
    >>> from streamgda import ClassStatistics, GaussianNB
    >>> model = GaussianNB(var_smoothing=0).fit([[0.0], [2.0], [6.0], [10.0]], [0, 0, 1, 1])
    >>> rows = ClassStatistics("diag").update([[1.0], [3.0], [7.0]], [0, 0, 1])
    >>> expected = norm.logpdf([1, 3, 7], [1, 1, 8], [1, 1, 2]).mean() + np.log(0.5)
    >>> bool(np.isclose(mean_log_likelihood(model, rows), expected, rtol=1e-14))
    True
    """
    rows = statistics.to_covariance_type(**model.required_statistics())
    return joint_log_likelihood(finalised(model), rows) / float(rows.weights.sum())
