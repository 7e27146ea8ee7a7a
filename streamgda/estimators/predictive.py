"""Classifiers whose rows are scored by normal densities, or by predictive densities: Student t."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from streamgda.blocks.wording import Message, counted, named
from streamgda.estimators.classifier import G
from streamgda.estimators.finalised import Finalised
from streamgda.estimators.generative import GenerativeClassifier
from streamgda.estimators.singular import too_few_rows, warn_of_rank
from streamgda.estimators.validation import one_of
from streamgda.gaussians.base import Densities
from streamgda.gaussians.densities import DiagonalGaussians
from streamgda.gaussians.regularisation import Regularisation
from streamgda.gaussians.students import DiagonalStudents, Students
from streamgda.gaussians.whitening import Whitening
from streamgda.statistics.base import Statistics

Predictive = Literal["plugin", "student"]


class PredictiveClassifier(GenerativeClassifier[G]):
    """A classifier with the parameter `predictive`. Classes of too few rows may be without a density."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GenerativeClassifier._parameter_constraints,
        "predictive": [one_of("plugin", "student")],
    }

    predictive: Predictive
    singular: Literal["raise", "skip"] | None = None

    @abstractmethod
    def _regularisation_of(self, gaussians: G, statistics: Statistics) -> Regularisation:
        """How the covariances were made of the scatters."""

    def _predictive(self, gaussians: G, statistics: Statistics) -> Densities:
        if self.predictive == "plugin":
            return gaussians
        regularisation, weights = self._regularisation_of(gaussians, statistics), statistics.weights
        refused: dict[int, Callable[[], Exception]] = {
            int(k): partial(self._too_few_rows, statistics, int(k))
            for k in np.flatnonzero(~(regularisation.degrees > 0))
        }
        without = {**gaussians.unestimated, **refused}
        if without and (self.singular == "raise" or len(without) == len(weights)):
            raise next(iter(without.values()))()
        with np.errstate(divide="ignore", invalid="ignore"):
            scales = regularisation.divisors / regularisation.degrees * (1 + 1 / weights)
        if isinstance(gaussians, DiagonalGaussians):
            return DiagonalStudents.of(gaussians, regularisation.degrees, scales, refused)
        return Students.of(gaussians, regularisation.degrees, scales, refused)

    def _too_few_rows(self, statistics: Statistics, k: int) -> Exception:
        """The error for a class (at position k) without degrees of freedom."""
        return too_few_rows(statistics, k)

    def _singular_within(self, gaussians: G) -> Whitening | None:
        """The whitening of the covariance within the classes, if it is singular and the classes share it."""
        return None

    def _check_fit(self, state: Finalised[G]) -> None:
        for _, error in state.unestimated:
            if self.singular != "skip":
                raise error()

    def _warn_once(self, state: Finalised[G]) -> None:
        """Warn of a singular pooled covariance, and of classes without a posterior, once of each."""
        super()._warn_once(state)
        warn_of_rank(self, self._singular_within(state.gaussians))
        warned: set[Any] = self.__dict__.pop("_warned", set())
        new = [(label, error) for label, error in state.unestimated if label not in warned]
        if state.unestimated:
            self._warned = {label for label, _ in state.unestimated}
        if new:
            label, error = new[0]
            more = f" (and {counted(len(new) - 1, 'more class')})" if len(new) > 1 else ""
            warnings.warn(
                Message(
                    f"class {named(label)}{more} gets no posterior until it can be estimated. ",
                    Message.of(error()),
                    f"⟨; statistics_.drop_class({label!r}) forgets it|⟩",
                ),
                stacklevel=6,
            )
