"""Candidates: estimators with parameters, and the statistics that serve them all."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from streamgda.data.blocks.arrays import column_labels
from streamgda.data.blocks.options import check_not_renamed
from streamgda.data.blocks.wording import callers_level, check_known
from streamgda.data.registry import OPTIONS
from streamgda.data.sources.base import Source
from streamgda.data.sources.columns.encoding import Encoding
from streamgda.jobs.selection.scorings import BRIER_SCORES, LOG_LIKELIHOOD, LOG_LOSSES
from streamgda.models.estimators.classifier import GaussianClassifier
from streamgda.models.estimators.generative import GenerativeClassifier
from streamgda.models.estimators.reading import too_few_classes
from streamgda.statistics.base import Statistics
from streamgda.statistics.missing import missing_for_all
from streamgda.statistics.required import Required

_IN_NO_SCORE = {
    "half_life": "all rows of a search are of one age; progressive_score scores a model with half_life",
    "n_components": "it shortens what transform returns",
    "store_covariance": "it sets covariance_",
    "temperature": "set scoring='neg_log_loss', or calibrate='temperature', which finds the best",
}
"""Parameters that change no score of a search, or no log-likelihood, and what to do."""

ParamGrid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]


@dataclass(frozen=True)
class Candidate:
    """An estimator, and its parameters in the grid."""

    params: dict[str, Any]
    estimator: GaussianClassifier[Any]

    def fitted(self, statistics: Statistics, **others: Any) -> GaussianClassifier[Any]:
        """The estimator fitted to the rows of some statistics, with other parameters too.

        Raises
        ------
        ValueError
            If the statistics do not determine the model, or a parameter is not valid.
        """
        if len(labels := self.estimator.labels_of(statistics)) < 2:
            raise too_few_classes(labels)
        params = self.estimator.get_params(deep=False)
        return type(self.estimator).from_statistics(statistics, **{**params, **others})


def common_encoding(candidates: Sequence[Candidate], X: Any) -> Encoding | None:
    """How the columns of rows become features for all candidates, which share one read.

    Raises
    ------
    ValueError
        If the rows have names, and candidates want other columns of them encoded.
    """
    first, *rest = (candidate.estimator._encoding for candidate in candidates)
    if not isinstance(X, Source) and column_labels(X) is not None:
        wanted = None if first is None else first.columns
        for other in rest:
            if wanted != (None if other is None else other.columns):
                raise ValueError(
                    "the candidates share one read of the rows, and encode different columns: "
                    f"{first!r} and {other!r}. Give them the same columns, or search once for each choice"
                )
    return first


def candidates_of(estimator: Any, param_grid: ParamGrid) -> list[Candidate]:
    """The candidates of a grid, in scikit-learn's order.

    Raises
    ------
    TypeError
        If an estimator is not one of this project.
    ValueError
        If the estimator lacks a parameter, if a parameter has an invalid value, or if the grid is an empty
        list.
    """
    if not param_grid and not isinstance(param_grid, Mapping):  # else a KeyError
        raise ValueError("param_grid is an empty list; {} stands for the estimator as it is")
    candidates = []
    for params in ParameterGrid(param_grid):
        rest = {name: value for name, value in params.items() if name != "estimator"}
        chosen = params.get("estimator", estimator)
        if isinstance(estimator, Pipeline) and chosen is estimator:
            step, chosen = estimator.steps[-1]
            rest = {name.removeprefix(f"{step}__"): value for name, value in rest.items()}
        if not isinstance(chosen, GaussianClassifier):
            kind = chosen if isinstance(chosen, type) else type(chosen).__name__
            raise TypeError(
                "candidates are estimators that learn from statistics, such as "
                f"QuadraticDiscriminantAnalysis(); got {kind}"
            )
        check_not_renamed(chosen.get_params(), rest, ValueError)
        # A word may stand for an option, which then tells what it lacks.
        names = [name for name in rest if name.partition("__")[0] not in OPTIONS]
        check_known(names, chosen.get_params(), type(chosen).__name__, "parameter")
        candidate = clone(chosen).set_params(**rest)
        candidate._validate_params()
        candidate._check_learns_in_parts()
        candidates.append(Candidate(dict(params), candidate))
    return candidates


def check_that_scores_differ(candidates: Sequence[Candidate], scorings: Sequence[str]) -> None:
    """Raise ValueError if a grid tries several values of a parameter that changes no score."""
    for parameter, why in _IN_NO_SCORE.items():
        values = [
            value
            for candidate in candidates
            for name, value in candidate.params.items()
            if name.rpartition("__")[2] == parameter
        ]
        is_scored = parameter == "temperature" and set(scorings) != {LOG_LIKELIHOOD}
        if not is_scored and any(value != values[0] for value in values):
            raise ValueError(f"candidates that differ in {parameter} have the same scores: {why}")


def check_no_ages(candidates: Sequence[Candidate]) -> None:
    """Raise ValueError if a candidate has a half-life, for batches that do not age."""
    if any(candidate.estimator.half_life is not None for candidate in candidates):
        raise ValueError(
            "batches of a search do not age, so half_life does nothing here; progressive_score scores a "
            "model with half_life batch by batch"
        )


def check_have_likelihoods(candidates: Sequence[Candidate], scorings: Sequence[str]) -> None:
    """Raise ValueError if a candidate has no densities, whose rows "log_likelihood" cannot score."""
    for model in (candidate.estimator for candidate in candidates):
        if LOG_LIKELIHOOD in scorings and not isinstance(model, GenerativeClassifier):
            raise ValueError(
                f"{type(model).__name__} has no densities, and so no log-likelihood: set "
                "scoring='neg_log_loss' or scoring='accuracy'"
            )


def warn_of_uncalibrated(
    candidates: Sequence[Candidate], ranking: Sequence[Any], calibrate: str | None
) -> None:
    """Warn if log loss or Brier score ranks models that are not calibrated beside models of densities."""
    if not {*ranking} & {*BRIER_SCORES, *(() if calibrate else LOG_LOSSES)}:
        return
    models = [candidate.estimator for candidate in candidates]
    others = [model for model in models if not isinstance(model, GenerativeClassifier)]
    names = {type(model).__name__ for model in others if model.temperature == 1.0}
    if names and len(others) < len(models):
        warnings.warn(
            f"{', '.join(sorted(names))}: not calibrated in a search, and so ranked too low beside models of "
            "densities; set scoring='neg_log_loss' and calibrate='temperature', which ranks each candidate "
            "at its best temperature",
            stacklevel=callers_level(),
        )


def statistics_for_all(candidates: Sequence[Candidate]) -> dict[str, Any]:
    """The statistics from which every candidate can be fitted, as parameters of `empty_statistics`.

    Raises
    ------
    ValueError
        If candidates learn by sums of different sorts.
    """
    return {
        "required": Required.of_all(candidate.estimator.required_statistics() for candidate in candidates),
        "missing": missing_for_all(candidate.estimator.missing for candidate in candidates),
    }
