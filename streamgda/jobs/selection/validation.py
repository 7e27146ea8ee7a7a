"""Score an estimator by cross-validation, and compute its learning curve."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import FitFailedWarning

from streamgda.data.blocks.wording import abridged, callers_level
from streamgda.data.sources.running import Progress, Scheduler
from streamgda.jobs.selection.calibration import calibrations
from streamgda.jobs.selection.candidates import candidates_of
from streamgda.jobs.selection.comparison import Comparison, Trial, Trials, compare
from streamgda.jobs.selection.scorings import LOG_LIKELIHOOD, scoring_names
from streamgda.jobs.selection.splitters import read_folds, tested_folds
from streamgda.models.estimators.classifier import GaussianClassifier
from streamgda.statistics.covariances import Array


def cross_validate(
    estimator: GaussianClassifier[Any],
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    cv: Any = 5,
    scoring: str | Iterable[str] = LOG_LIKELIHOOD,
    groups: Any = None,
    fold: Any = None,
    calibrate: Literal["temperature"] | None = None,
    error_score: Any = np.nan,
    scheduler: Scheduler = None,
    progress: Progress = False,
) -> dict[str, Array]:
    """Score an estimator by cross-validation, in one read of the rows or two.

    Parameters
    ----------
    estimator : estimator
        Of this project.
    X, y, sample_weight, scheduler, progress
        As for the `fit` of `StatisticsSearchCV`.
    cv, scoring, groups, fold, error_score
        As for `StatisticsSearchCV`.
    calibrate : {"temperature"} or None, default=None
        Report the temperature that minimises the log loss of the held-out rows. Scores do not change.

    Returns
    -------
    dict of str to ndarray of shape (n_splits,)
        The keys of scikit-learn's `cross_validate`: "fit_time", "score_time" and "test_score", or with
        several scorings ``"test_"`` and their names. With `calibrate` also "temperature".

    Raises
    ------
    ValueError
        As the `fit` of `StatisticsSearchCV` does.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from streamgda import LinearDiscriminantAnalysis, cross_validate
    >>> scores = cross_validate(LinearDiscriminantAnalysis(), *load_wine(return_X_y=True), scoring="accuracy")
    >>> scores["test_score"].round(3)
    array([0.976, 0.976, 0.97 , 1.   , 1.   ])
    """
    names, candidates = scoring_names(scoring), candidates_of(estimator, {})
    measures = [*names, *calibrations(calibrate)]
    how: dict[str, Any] = {"scheduler": scheduler, "progress": progress}
    folds = {"cv": cv, "groups": groups, "fold": fold}
    states, source, _ = read_folds(candidates, measures, X, y, sample_weight, **folds, **how)
    comparison = compare(candidates, states, measures, source, **how)
    report_failures(comparison, error_score)
    table = {name: seconds[0] for name, seconds in comparison.times().items()}
    for name, values in comparison.filled(names, error_score).items():
        table["test_score" if isinstance(scoring, str) else f"test_{name}"] = values[0]
    for name, values in comparison.filled(measures[len(names) :], np.nan).items():
        table[name] = values[0]
    return table


def report_failures(comparison: Comparison, error_score: Any) -> None:
    """Warn of trials that failed, and of scores that are not defined.

    Raises
    ------
    ValueError
        If all of them failed, or `error_score` is "raise" and one did.
    """
    for name, folds in comparison.undefined().items():
        warnings.warn(
            f"{name!r} is not defined in folds {abridged(folds, 10)}, as for rows of one class alone: there "
            "is no mean of all folds",
            stacklevel=callers_level(),
        )
    n_failed, n_trials = comparison.n_failed, sum(map(len, comparison.trials))
    if not n_failed:
        return
    first = next(reason for reason in comparison.reasons() if reason)
    if n_failed == n_trials or (isinstance(error_score, str) and error_score == "raise"):
        raise ValueError(f"{n_failed} of {n_trials} fits failed. The first: {first}")
    message = f"{n_failed} of {n_trials} fits failed, with a score of {error_score}. The first: {first}"
    warnings.warn(message, FitFailedWarning, stacklevel=callers_level())


def learning_curve(
    estimator: GaussianClassifier[Any],
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    cv: Any = 5,
    n_parts: Sequence[int] | None = None,
    scoring: str = LOG_LIKELIHOOD,
    groups: Any = None,
    fold: Any = None,
    scheduler: Scheduler = None,
    progress: Progress = False,
) -> tuple[NDArray[np.int64], Array, Array]:
    """Score an estimator that learns from one fold, from two, from four and so on.

    For each held-out fold, the states of other folds are merged, starting with the fold after it. So the
    whole curve takes one read of the rows, or two. With more folds, the parts are smaller, and there are more
    of them.

    Parameters
    ----------
    estimator : estimator
        Of this project.
    X, y, sample_weight, scheduler, progress
        As for the `fit` of `StatisticsSearchCV`.
    cv, groups, fold
        As for `StatisticsSearchCV`.
    n_parts : sequence of int, optional
        The numbers of folds to learn from. If None, the powers of two below the number of folds, and all but
        the one that is held out.
    scoring : str, default="log_likelihood"
        As for `StatisticsSearchCV`.

    Returns
    -------
    train_sizes : ndarray of int of shape (n_ticks,)
        The mean numbers of rows learnt.
    train_scores, test_scores : ndarray of shape (n_ticks, n_splits)
        Scores on the rows learnt and on those held out; NaN where the estimator could not be fitted.

    Raises
    ------
    ValueError
        As the `fit` of `StatisticsSearchCV` does, or if a number of parts is not below that of the folds.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from streamgda import LinearDiscriminantAnalysis, learning_curve
    >>> curve = learning_curve(LinearDiscriminantAnalysis(), *load_wine(return_X_y=True), scoring="accuracy")
    >>> curve[0], curve[2].mean(axis=1).round(3)
    (array([ 36,  71, 142]), array([0.956, 0.964, 0.984]))
    """
    (name,), (candidate,) = scoring_names(scoring), candidates_of(estimator, {})
    how: dict[str, Any] = {"scheduler": scheduler, "progress": progress}
    fold_options = {"cv": cv, "groups": groups, "fold": fold}
    (states,), source, _ = read_folds([candidate], [name], X, y, sample_weight, **fold_options, **how)
    folds, trials = tested_folds(states), Trials(states, [name])
    made: list[Trial] = []
    sizes = []
    for size, held_out in product(_ticks(n_parts, len(states.folds)), folds):
        place = states.folds.index(held_out)
        parts = [*states.folds[place + 1 :], *states.folds[:place]][:size]
        training = states.merged(parts)
        sizes.append(training.n_rows)
        made += [trials.add(candidate, training, tested, states) for tested in (parts, [held_out])]
    trials.read(source, **how)
    scores = np.reshape([trial.scores[name] for trial in made], (-1, len(folds), 2))
    means = np.reshape(sizes, (-1, len(folds))).mean(axis=1)
    return np.rint(means).astype(np.int64), scores[..., 0], scores[..., 1]


def _ticks(n_parts: Sequence[int] | None, n_folds: int) -> list[int]:
    """The numbers of folds to learn from."""
    if n_parts is None:
        return sorted({*(1 << k for k in range(n_folds.bit_length()) if 1 << k < n_folds), n_folds - 1})
    for size in n_parts:
        if not 0 < size < n_folds or size != int(size):
            raise ValueError(
                f"n_parts are whole numbers from 1 to {n_folds - 1}, as one fold is held out; got {size}"
            )
    return [int(size) for size in n_parts]
