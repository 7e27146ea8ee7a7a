"""Scorings: sums over the held-out rows that a candidate has scored, and the score of these sums.

Greater scores are better, so losses are negative, as in scikit-learn. To add a scoring, write one class and
its entry in `METRICS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.jobs.scoring.calibration import LEAST_LOG_PROBABILITY
from streamgda.jobs.scoring.curves import ScoreHistogram, most_exact
from streamgda.models.estimators.classifier import GaussianClassifier, finalised
from streamgda.models.estimators.likelihood import joint_log_likelihood
from streamgda.models.gaussians.posteriors import posteriors_and_odds
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array

LOG_LIKELIHOOD = "log_likelihood"
LOG_LOSSES, BRIER_SCORES = ("log_loss", "neg_log_loss"), ("brier_score", "neg_brier_score")


@dataclass(frozen=True)
class Scored:
    """Some rows, scored by a candidate.

    Attributes
    ----------
    scores : ndarray of shape (n, K)
        ln p(x, k) / T, up to a term for each row.
    truth : ndarray of int of shape (n,)
        The positions of the true classes.
    weights : ndarray of shape (n,)
        The weights of the rows.
    log_joint : ndarray of shape (n,), or None
        ln p(x, k) of the true class k. None if no scoring needs it.
    temperature : float
        T.
    """

    scores: Array
    truth: NDArray[np.intp]
    weights: Array
    log_joint: Array | None = None
    temperature: float = 1.0

    @cached_property
    def predicted(self) -> NDArray[np.intp]:
        """The positions of the predicted classes."""
        codes: NDArray[np.intp] = self.scores.argmax(axis=1)
        return codes

    @cached_property
    def posteriors(self) -> tuple[Array, Array, Array]:
        """Probabilities, log-odds, and the log probability of the true class."""
        return posteriors_and_odds(self.scores, self.truth)


class Metric(ABC):
    """Sums over scored rows, and the score that they give. Metrics of other rows are merged into it."""

    _sums: Any

    @abstractmethod
    def add(self, rows: Scored) -> None:
        """Add scored rows."""

    def merge(self, other: Self) -> Self:
        """Add the sums of other rows."""
        self._sums += other._sums
        return self

    @property
    @abstractmethod
    def score(self) -> float:
        """The score of all rows so far; greater is better."""


class Mean(Metric):
    """The weighted mean of a value of each row."""

    def __init__(self, values: Callable[[Scored], Array], n_classes: int) -> None:
        self._values, self._sums = values, np.zeros(2)

    def add(self, rows: Scored) -> None:
        """Add scored rows."""
        self._sums += rows.weights @ self._values(rows), rows.weights.sum()

    @property
    def score(self) -> float:
        """The mean."""
        total, weight = self._sums
        return float(total / weight) if weight else np.nan


def _accuracy(rows: Scored) -> Array:
    return np.asarray(rows.predicted == rows.truth, dtype=np.float64)


def _log_loss(rows: Scored) -> Array:
    return np.maximum(rows.posteriors[2], LEAST_LOG_PROBABILITY)


def _brier_score(rows: Scored) -> Array:
    """The negative Brier score of each row, half as large for two classes, as scikit-learn has it."""
    errors = rows.posteriors[0].copy()
    errors[np.arange(len(errors)), rows.truth] -= 1.0
    squared: Array = np.vecdot(errors, errors)
    return -squared / (2 if errors.shape[1] == 2 else 1)


def _log_likelihood(rows: Scored) -> Array:
    assert rows.log_joint is not None
    return rows.log_joint


class F1Macro(Metric):
    """The mean over classes of the harmonic mean of precision and recall.

    As in scikit-learn, a class without rows that is never predicted does not count.
    """

    def __init__(self, n_classes: int) -> None:
        self._sums = np.zeros((3, n_classes))

    def add(self, rows: Scored) -> None:
        """Add scored rows."""
        hits = rows.weights * (rows.predicted == rows.truth)
        pairs = ((rows.truth, hits), (rows.truth, rows.weights), (rows.predicted, rows.weights))
        n_classes = self._sums.shape[1]
        self._sums += [np.bincount(codes, values, minlength=n_classes) for codes, values in pairs]

    @property
    def score(self) -> float:
        """The mean over the classes."""
        hits, true, predicted = self._sums
        seen = true + predicted > 0
        return float((2 * hits[seen] / (true + predicted)[seen]).mean()) if seen.any() else np.nan


class RocAuc(Metric):
    """The ROC area of the second of two classes, or the mean of the areas of each class against the rest."""

    def __init__(self, n_classes: int) -> None:
        most = most_exact(n_classes)
        self._sums = {k: ScoreHistogram(most) for k in range(n_classes == 2, n_classes)}

    def add(self, rows: Scored) -> None:
        """Add scored rows."""
        for k, histogram in self._sums.items():
            histogram.add(rows.posteriors[1][:, k], rows.truth == k, rows.weights)

    def merge(self, other: Self) -> Self:
        """Add the histograms of other rows."""
        for k, histogram in self._sums.items():
            histogram.merge(other._sums[k])
        return self

    @property
    def score(self) -> float:
        """The area, or the mean of the areas."""
        return float(np.mean([histogram.roc_auc()[0] for histogram in self._sums.values()]))


METRICS: dict[str, Callable[[int], Metric]] = {
    LOG_LIKELIHOOD: partial(Mean, _log_likelihood),
    "accuracy": partial(Mean, _accuracy),
    **dict.fromkeys(LOG_LOSSES, partial(Mean, _log_loss)),
    **dict.fromkeys(BRIER_SCORES, partial(Mean, _brier_score)),
    "roc_auc": RocAuc,
    "roc_auc_ovr": RocAuc,
    "f1_macro": F1Macro,
}
"""The scorings, by their names; those of scikit-learn's scorers are the same."""


def scoring_names(scoring: str | Iterable[str]) -> list[str]:
    """The scorings that are asked for.

    Raises
    ------
    ValueError
        If one is not known, such as a function, or none is asked for.
    """
    names: list[Any] = [scoring] if isinstance(scoring, str) or callable(scoring) else list(scoring)
    for name in names:
        if name not in METRICS:
            known = ", ".join(map(repr, METRICS))
            raise ValueError(f"scoring {name!r} is not known; there are {known}")
    if not names:
        raise ValueError("at least one scoring is needed")
    return names


def mean_log_likelihood(model: GaussianClassifier[Any], statistics: Statistics) -> float:
    """The mean of ln p(x, k) over rows x of classes k, computed from the statistics of the rows.

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
    rows = statistics.by_label().narrowed(model.required_statistics())
    return joint_log_likelihood(finalised(model), rows) / float(rows.weights.sum())
