"""Moments of maximum likelihood, of rows in which features may be missing."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from streamgda.blocks.labels import Labels
from streamgda.blocks.wording import Message
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, Indices
from streamgda.statistics.exact.rounding import ExactMoments
from streamgda.statistics.exact.state import ExactClassStatistics
from streamgda.statistics.floating.moments import Moments
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.incomplete.available import Group, total_weights
from streamgda.statistics.incomplete.completion import Completion, complete
from streamgda.statistics.incomplete.groups import Groups, of_complete
from streamgda.statistics.incomplete.patterns import features_in
from streamgda.statistics.labelled import Labelled

Plain = ClassStatistics | ExactClassStatistics


class LikeliestMoments(Statistics):
    """Statistics whose moments are those of maximum likelihood, worked out when they are first needed."""

    _labelled: Groups[Any]
    _plain: Plain  # without rows, of the sort that each pattern is summed up in
    _completed: Plain | None
    _completion: Completion | None

    def _set_labelled(self, labelled: Labelled[Any]) -> None:
        """Replace the state, and forget what was worked out of the last one."""
        super()._set_labelled(labelled if isinstance(labelled, Groups) else of_complete(labelled))
        self._completed, self._completion = None, None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_completed": None, "_completion": None}

    @property
    def is_complete(self) -> bool:
        """Whether no row lacks a feature."""
        return self._labelled.complete is not None

    def _groups(self, *, counting: bool = False) -> list[Group]:
        """The groups of rows in floating point; with `counting`, those in which each row is once."""
        chosen = self._labelled.counting if counting else self._labelled.groups
        return [
            Group(
                features_in(pattern, self.n_features),
                np.searchsorted(self._labelled.classes, group.classes),
                group.counts,
                _floating(self._plain._twin(group)),
            )
            for pattern, group in chosen.items()
        ]

    @property
    def completion(self) -> Completion | None:
        """How the likeliest moments were found; None if no row lacks a feature."""
        self._likeliest()
        return self._completion

    @property
    def undetermined(self) -> dict[int, ValueError]:
        """By the position of a class, why its parameters are not determined; empty if all are."""
        reasons = {} if self.completion is None else self.completion.undetermined
        return {k: reason.error(self._name_of) for k, reason in reasons.items()}

    def completed(self) -> Plain:
        """The statistics of complete rows that are expected, given what is observed.

        Returns
        -------
        ClassStatistics
            With the weights and counts of all rows, the means of maximum likelihood, and as scatter the
            covariances of maximum likelihood times the weights; without fourth moments. If no row lacks a
            feature, the statistics of the rows themselves, exact ones if this is exact.

        Raises
        ------
        ValueError
            If the rows do not determine a mean or a covariance; the message names class, features and
            remedies.
        """
        for error in self.undetermined.values():
            raise error
        return self._likeliest().copy()

    def of_classes(self, positions: Indices, classes: Labels | None = None) -> Self:
        """The state of the classes at these positions; its arrays may be those of this one."""
        some = super().of_classes(positions, classes)
        if not self._labelled.kind.is_pooled and self._completed is not None:  # classes by themselves
            some._completed = self._completed.of_classes(positions)
            some._completion = self._completion and self._completion.of_classes(positions)
        return some

    def _likeliest(self) -> Plain:
        """The completed statistics, computed once for a state; NaN for a class that is not determined."""
        with self._lock:
            if self._completed is None:
                self._completed, self._completion = self._complete()
            return self._completed

    def _complete(self) -> tuple[Plain, Completion | None]:
        complete_rows = self._labelled.complete
        if complete_rows is not None:
            plain = self._plain._twin(complete_rows.copy())
            plain._names, plain._n_dropped = self._names, self._n_dropped
            return plain, None
        completion = complete(
            self._groups(),
            self._groups(counting=True),
            self._labelled.kind,
            self._labelled.classes,
            self.n_features,
        )
        statistics = ClassStatistics(self.covariance_type, feature_names=self._names)
        statistics._set_labelled(Labelled(self.classes, self.counts, completion.moments))
        statistics._n_dropped = self._n_dropped
        return statistics, completion

    @property
    def _read_out(self) -> Moments | ExactMoments:
        """The moments of the completed statistics; an error, unless each class has parameters of its own."""
        if not self._labelled.kind.has_products or self._labelled.kind.is_pooled:
            for error in self.undetermined.values():
                raise error
        return self._likeliest()._read_out

    def _name_of(self, feature: int) -> str:
        return repr(self._names[feature]) if self._names else str(feature)

    @property
    def weights(self) -> Array:
        """Sum of the sample weights of each class, of all rows; shape (n_classes,)."""
        weights, _ = total_weights(self._groups(counting=True), len(self._labelled.classes))
        return weights

    @property
    def fourth_moments(self) -> Array | None:
        """Those of the rows, where they are kept and no row lacks a feature.

        Raises
        ------
        ValueError
            If a row lacks a feature: there is no estimate of fourth moments then.
        """
        if self.has_fourth_moments and not self.is_complete:
            raise ValueError(
                Message(
                    "fourth moments, which ⟨shrinkage='auto'⟩ needs, are those of complete rows, and here "
                    "features are missing; set ⟨shrinkage='oas'⟩ or a number"
                )
            )
        return super().fourth_moments


def _floating(state: Plain) -> Moments:
    """The moments of a state in floating point."""
    floating = state.to_float() if isinstance(state, ExactClassStatistics) else state
    return floating._labelled.moments
