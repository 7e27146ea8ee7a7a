"""Probabilities from scores of rows that a model has not learnt: a temperature, or a softmax regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from streamgda.statistics.covariances import Array

Method = Literal["temperature", "softmax", "auto"]

_FOLDS = 5
_PENALTY = 10.0  # of the softmax regression, on scores that have been divided by their temperature
_LEAST_LOG, _LARGEST_LOG = -7.0, 7.0  # of temperatures
_LEAST = -52 * np.log(2.0)  # of the logarithm of a probability, as in the log loss


@dataclass(frozen=True)
class Softmax:
    """Scores f · slopes + intercepts of the scores f of rows."""

    slopes: Array
    intercepts: Array

    def __call__(self, scores: Array) -> Array:
        """The scores of rows (n, K) after the regression: (n, K)."""
        made: Array = scores @ self.slopes + self.intercepts
        return made


@dataclass(frozen=True)
class Labelled:
    """Scores of rows that a model has not learnt, and their classes and weights."""

    scores: Array
    codes: NDArray[np.intp]
    weights: Array

    def take(self, rows: NDArray[np.intp]) -> Labelled:
        """Some of the rows."""
        return Labelled(self.scores[rows], self.codes[rows], self.weights[rows])

    def error(self, softmax: Softmax | None = None) -> float:
        """The share of rows whose class has not the highest score."""
        scores = self.scores if softmax is None else softmax(self.scores)
        return float(np.average(scores.argmax(axis=1) != self.codes, weights=self.weights))

    def log_loss(self, temperature: float = 1.0, softmax: Softmax | None = None) -> float:
        """The mean of −ln p of the true class."""
        scores = self.scores if softmax is None else softmax(self.scores)
        logs = log_softmax(scores / temperature, axis=1)[np.arange(len(scores)), self.codes]
        return float(np.average(-np.maximum(logs, _LEAST), weights=self.weights))

    def temperature(self) -> float:
        """The temperature of the least log loss.

        References
        ----------
        Guo, Pleiss, Sun & Weinberger (2017), "On calibration of modern neural networks", ICML.
        """
        best = minimize_scalar(
            lambda log: self.log_loss(float(np.exp(log))), bounds=(_LEAST_LOG, _LARGEST_LOG), method="bounded"
        )
        return float(np.exp(best.x))

    def softmax(self) -> Softmax:
        """The softmax regression of the classes on the scores, with a small penalty."""
        from sklearn.linear_model import LogisticRegression  # which takes a tenth of a second to import

        temperature, n_classes = self.temperature(), self.scores.shape[1]
        fitted = LogisticRegression(C=1 / _PENALTY, max_iter=1000)
        fitted.fit(self.scores / temperature, self.codes, sample_weight=self.weights / self.weights.mean())
        slopes, intercepts = np.zeros((n_classes, n_classes)), np.zeros(n_classes)
        own = slice(1, None) if n_classes == 2 else slice(None)
        slopes[:, own], intercepts[own] = fitted.coef_.T / temperature, fitted.intercept_
        return Softmax(slopes, intercepts)

    def choose(self, method: Method) -> tuple[float, Softmax | None, float]:
        """A temperature, a softmax regression or None, and the log loss of rows that these have not seen.

        Raises
        ------
        ValueError
            If a softmax regression is asked for, and a class has too few rows.
        """
        counts = np.bincount(self.codes, minlength=self.scores.shape[1])
        if method == "softmax" and counts.min() < _FOLDS:
            raise ValueError(
                f"a softmax regression needs {_FOLDS} rows of each class to calibrate with; set "
                "method='temperature', or give more rows"
            )
        temperature = self.temperature()
        loss = self.log_loss(temperature)
        if method == "temperature" or counts.min() < _FOLDS:
            return temperature, None, loss
        folded = self._folded_loss()
        if method == "auto" and folded >= loss:
            return temperature, None, loss
        return 1.0, self.softmax(), folded

    def _folded_loss(self) -> float:
        """The log loss of each fifth of the rows by the softmax regression of the others."""
        place = np.empty(len(self.codes), np.intp)
        order = np.random.RandomState(0).permutation(len(self.codes))
        order = order[np.argsort(self.codes[order], kind="stable")]  # the rows of a class in all folds
        place[order] = np.arange(len(order)) % _FOLDS
        losses, weights = [], []
        for fold in range(_FOLDS):
            tested = self.take(np.flatnonzero(place == fold))
            losses.append(tested.log_loss(softmax=self.take(np.flatnonzero(place != fold)).softmax()))
            weights.append(tested.weights.sum())
        return float(np.average(losses, weights=weights))
