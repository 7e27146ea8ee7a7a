"""Probabilities from scores of rows that a model has not learnt: a temperature, or a softmax regression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from streamgda.data.blocks.labels import Labels, as_labels
from streamgda.statistics.covariances import Array

Method = Literal["temperature", "softmax", "auto"]

_FOLDS = 5
_PENALTY = 10.0  # of the softmax regression, on scores that have been divided by their temperature
_LEAST_LOG, _LARGEST_LOG = -7.0, 7.0  # of temperatures
_NOTHING = 1e-9  # of the largest weight; with less, a row has no say
_LEAST = -52 * np.log(2.0)  # of the logarithm of a probability, as in the log loss


@dataclass(frozen=True)
class Softmax:
    """Scores f · slopes + intercepts of the scores f of rows."""

    slopes: Array
    intercepts: Array

    def __call__(self, scores: Array) -> Array:
        """The scores of rows (n, K) after the regression: (n, K)."""
        return scores @ self.slopes + self.intercepts


@dataclass(frozen=True)
class Calibrated:
    """How scores of these classes become those of probabilities, and how good these are.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        The labels.
    temperature : float
        What the scores are divided by.
    softmax : Softmax or None
        A regression on the scores, if there is one; the temperature is then 1.
    error, log_loss : float
        The share of wrong predictions and the log loss on rows that the model has not seen.
    """

    classes: Labels
    temperature: float
    softmax: Softmax | None
    error: float
    log_loss: float

    def as_softmax(self) -> Self:
        """The same, with a division by a temperature as a softmax regression."""
        if self.softmax is not None:
            return self
        n_classes = len(self.classes)
        scaling = Softmax(np.eye(n_classes) / self.temperature, np.zeros(n_classes))
        return replace(self, softmax=scaling, temperature=1.0)

    def to_document(self) -> dict[str, Any]:
        """Plain values that JSON holds, and `from_document` reads."""
        softmax = self.softmax and [self.softmax.slopes.tolist(), self.softmax.intercepts.tolist()]
        return {**vars(self), "classes": self.classes.tolist(), "softmax": softmax}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The calibration that `to_document` made plain values of."""
        softmax = document["softmax"] and Softmax(*map(np.array, document["softmax"]))
        return cls(**{**document, "classes": as_labels(document["classes"]), "softmax": softmax})


@dataclass(frozen=True)
class HeldOutScores:
    """Scores of rows that a model has not learnt, and their classes and weights."""

    scores: Array
    codes: NDArray[np.intp]
    weights: Array

    @property
    def _effective_rows(self) -> float:
        return float(self.weights.sum() ** 2 / np.square(self.weights).sum())

    def error(self) -> float:
        """The share of rows whose class has not the highest score."""
        return float(np.average(self.scores.argmax(axis=1) != self.codes, weights=self.weights))

    def log_loss(self, temperature: float = 1.0, doubt: float = 0.0) -> float:
        """The mean of −ln p of the true class. A row in `doubt`, a share, is of all classes equally."""
        logs = log_softmax(self.scores / temperature, axis=1)
        own = np.maximum(logs[np.arange(len(logs)), self.codes], _LEAST)
        return -float(np.average((1 - doubt) * own + doubt * logs.mean(axis=1), weights=self.weights))

    def temperature(self) -> float:
        """The temperature of the least log loss, where the class of one row is in doubt.

        Otherwise a few rows that are all predicted rightly would make a model certain.

        References
        ----------
        Guo, Pleiss, Sun & Weinberger (2017), "On calibration of modern neural networks", ICML; Platt (1999),
        "Probabilistic outputs for support vector machines", of the doubt.
        """
        doubt, bounds = 1 / self._effective_rows, (_LEAST_LOG, _LARGEST_LOG)
        best = minimize_scalar(
            lambda log: self.log_loss(float(np.exp(log)), doubt), bounds=bounds, method="bounded"
        )
        return float(np.exp(best.x))

    def softmax(self) -> Softmax:
        """The softmax regression of the classes on the scores, with a small penalty."""
        from sklearn.linear_model import LogisticRegression  # which takes a tenth of a second to import

        temperature, n_classes = self.temperature(), self.scores.shape[1]
        fitted = LogisticRegression(C=1 / _PENALTY, max_iter=1000)
        unit = self.weights.sum() / self._effective_rows
        fitted.fit(self.scores / temperature, self.codes, sample_weight=self.weights / unit)
        slopes, intercepts = np.zeros((n_classes, n_classes)), np.zeros(n_classes)
        own = slice(1, None) if n_classes == 2 else slice(None)
        slopes[:, own], intercepts[own] = fitted.coef_.T / temperature, fitted.intercept_
        return Softmax(slopes, intercepts)

    def calibrated(self, classes: Labels, method: Method) -> Calibrated:
        """The calibration of a model of these classes by the rows.

        Raises
        ------
        ValueError
            If a softmax regression is asked for, and a class has too few rows.
        """
        some = self.weights >= _NOTHING * self.weights.max()
        if not some.all():  # the others would change the folds of these
            rest = HeldOutScores(self.scores[some], self.codes[some], self.weights[some])
            return rest.calibrated(classes, method)
        counts = np.bincount(self.codes, minlength=self.scores.shape[1])
        if method == "softmax" and counts.min() < _FOLDS:
            raise ValueError(
                f"a softmax regression needs {_FOLDS} rows of each class to calibrate with; set "
                "method='temperature', or give more rows"
            )
        temperature = self.temperature()
        loss = self.log_loss(temperature)
        if method == "temperature" or counts.min() < _FOLDS or len(counts) < 2:
            return Calibrated(classes, temperature, None, self.error(), loss)
        folded_error, folded = self._folded()
        if method == "auto" and folded >= loss:
            return Calibrated(classes, temperature, None, self.error(), loss)
        return Calibrated(classes, 1.0, self.softmax(), folded_error, folded)

    def _folded(self) -> tuple[float, float]:
        """Error and log loss of each fifth of the rows by the softmax regression of the others."""
        place = np.empty(len(self.codes), np.intp)
        order = np.random.RandomState(0).permutation(len(self.codes))
        order = order[np.argsort(self.codes[order], kind="stable")]  # the rows of a class in all folds
        place[order] = np.arange(len(order)) % _FOLDS
        scores = np.empty_like(self.scores)
        for fold in range(_FOLDS):
            tested, others = place == fold, place != fold
            rest = HeldOutScores(self.scores[others], self.codes[others], self.weights[others])
            scores[tested] = rest.softmax()(self.scores[tested])
        folded = replace(self, scores=scores)
        return folded.error(), folded.log_loss()
