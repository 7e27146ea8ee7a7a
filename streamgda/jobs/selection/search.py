"""Search over the parameters of estimators, from one read of the rows or two.

The table of a search has the keys of scikit-learn's `GridSearchCV`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from threading import RLock
from time import perf_counter
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import _num_samples, check_is_fitted

from streamgda.data.sources.running import Progress, Scheduler
from streamgda.data.storage.paths import Path
from streamgda.jobs.scoring.calibration import warned_of
from streamgda.jobs.scoring.inference import maps_and_model
from streamgda.jobs.selection.calibration import CALIBRATION, calibrations
from streamgda.jobs.selection.candidates import (
    Candidate,
    ParamGrid,
    candidates_of,
    check_have_likelihoods,
    check_no_ages,
    check_that_scores_differ,
    common_encoding,
    statistics_for_all,
    warn_of_uncalibrated,
)
from streamgda.jobs.selection.comparison import Comparison, compare
from streamgda.jobs.selection.row_scores import RowScorer
from streamgda.jobs.selection.scorings import LOG_LIKELIHOOD, scoring_names
from streamgda.jobs.selection.splitters import ArraySource, read_folds, source_of, with_folds
from streamgda.jobs.selection.validation import report_failures
from streamgda.models.estimators import DOCUMENTATION
from streamgda.models.estimators.pipeline import ModelPipeline
from streamgda.statistics.covariances import Array
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.folded import FoldStatistics

Results = dict[str, Any]
Refit = bool | str | Callable[[Results], int]
_RESULTS = frozenset(
    {
        *("cv_results_", "best_estimator_", "best_params_", "best_score_", "best_index_"),
        *("n_splits_", "scorer_", "multimetric_", "refit_time_"),
    }
)
_first_batch = RLock()  # held while a search takes its first batch; later ones hold its statistics' lock


@dataclass(eq=False, repr=False)
class StatisticsSearchCV(ClassifierMixin, BaseEstimator):
    """Search for the best parameters by cross-validation, in one read of the rows or two.

    One read keeps the statistics of each fold. The training part of a fold is the sum of the others, so
    every candidate is fitted to each part without reading again, and its joint log-likelihood of the held-out
    fold is computed from statistics too. Other scorings take one more read, in which each row is scored by
    all the candidates of its fold. Scores are those of scikit-learn's `GridSearchCV` over the same folds.

    The folds of rows are hashes of their places: the file and the number of the row there, or the index of a
    row in memory. Rows keep their folds when others are added, and schedulers and chunks do not matter. Of n
    rows, each fold has n / cv on average. The standard deviation is less than the square root of this mean.
    The same holds for the rows of each class. The first read needs memory for a state of each fold. The
    comparison of candidates needs the same amount again. The second read needs memory for the densities of
    all candidates.

    Parameters
    ----------
    estimator : estimator, pipeline or None
        An estimator of this project, or a pipeline of scikit-learn with fitted transformers before it, whose
        parameters the grid then names as "step__parameter". None if the grid names estimators.
    param_grid : dict of str to sequence, or list of them
        The parameters to try, as for `GridSearchCV`. ``{"estimator": [...], ...}`` tries different
        estimators.
    cv : int or splitter, default=5
        The number of folds. For rows in memory also a splitter of scikit-learn that holds each row out at
        most once, as `KFold`, `StratifiedKFold` and `PredefinedSplit` do.
    scoring : str or list of str, default="log_likelihood"
        "log_likelihood" is the mean of ln p(x, k) over rows and their classes. "accuracy", "neg_log_loss",
        "neg_brier_score", "roc_auc" and "f1_macro" are as in scikit-learn and take one more read.
        "log_loss" and "brier_score" are other names of the two losses. Greater is better, so losses are
        negative. For more than two classes, "roc_auc" is the mean area of each class against the rest.
    groups : str or array-like of shape (n_rows,), optional
        A column of the source, or values in memory: rows of one group share a fold.
    fold : str or array-like of shape (n_rows,), optional
        A column of the source, or values in memory, that names the fold of each row, in place of `cv`. Rows
        of fold -1 are never held out.
    refit : bool, str or callable, default=True
        Whether to make the best candidate from the statistics of all rows. With several scorings, the name
        of the scoring that selects the best candidate. A callable gets `cv_results_` and returns the index
        of the best.
    calibrate : {"temperature"} or None, default=None
        Find the temperature of each candidate that minimises the log loss of the held-out rows of all folds
        together, and give the best candidate its own. "neg_log_loss" is then that at these temperatures,
        without which classifiers that have no densities lose to others. It flatters a candidate by one
        parameter fitted to all n rows, about 1 / n. Other scorings are those of the estimators as they are,
        the Brier score too. This takes a second read, unless `scoring` already needs one.
    error_score : "raise" or float, default=np.nan
        The score of a candidate that cannot be fitted, such as a singular one. `cv_results_["fit_error"]`
        says why. "raise" raises an error instead.

    Attributes
    ----------
    cv_results_ : dict of str to ndarray
        The table of scores, with the keys of `GridSearchCV`; `pandas.DataFrame` takes it. "fit_time" is the
        time to fit a model to statistics, "score_time" the time to score statistics by the model. With
        `calibrate`, "temperature" is the best temperature of each candidate.
    best_estimator_ : estimator
        Fitted to all the rows.
    best_params_ : dict
        The parameters of the best candidate in the grid.
    best_score_ : float
        The mean score of the best candidate.
    best_index_ : int
        The position of the best candidate in `cv_results_`.
    refit_time_ : float
        Seconds that it took to make `best_estimator_` from the statistics.
    multimetric_ : bool
        Whether `scoring` is a list.
    n_reads_ : int
        How many times the rows were read.
    n_splits_ : int
        The number of folds that were held out.
    fold_statistics_ : FoldStatistics
        The states of the folds for the best candidate. Another search can be fitted to them without a read.
    scorer_ : callable, or dict of str to callable
        ``scorer_(best_estimator_, X, y)`` scores rows in memory. A dict by name for several scorings.
    classes_ : ndarray of shape (n_classes,)
        The labels seen, sorted.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if the rows have them.

    References
    ----------
    Izbicki (2013), "Algebraic classifiers: a generic approach to fast cross-validation, online training, and
    parallel training", ICML.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from streamgda import QuadraticDiscriminantAnalysis, StatisticsSearchCV
    >>> X, y = load_wine(return_X_y=True)
    >>> grid = {"reg_param": [0.0, 0.001, 0.01, 0.1]}
    >>> search = StatisticsSearchCV(QuadraticDiscriminantAnalysis(), grid).fit(X, y)
    >>> search.best_params_, search.n_reads_
    ({'reg_param': 0.01}, 1)
    """

    _doc_link_module = "streamgda"
    _doc_link_template = DOCUMENTATION
    estimator: Any
    param_grid: ParamGrid
    _: KW_ONLY
    cv: Any = 5
    scoring: str | Iterable[str] = LOG_LIKELIHOOD
    groups: Any = None
    fold: Any = None
    refit: Refit = True
    calibrate: Literal["temperature"] | None = None
    error_score: Any = np.nan

    # ------------------------------------------------------------------ learning

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        scheduler: Scheduler = None,
        progress: Progress = False,
    ) -> Self:
        """Score all candidates, and make the best one from all the rows.

        Parameters
        ----------
        X : source, array-like of shape (n_rows, n_features), dask array or DataFrame, or FoldStatistics
            Rows, as for the `fit` of an estimator; or what `StatisticsLedger.fold_statistics` returns. In
            this case no rows are read.
        y, sample_weight : optional
            As for the `fit` of an estimator. Weights count in training and in scores.
        scheduler, progress : optional
            As for `accumulate`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a scoring or parameter is not known, a training part lacks a class, a fold has no rows, no
            candidate could be fitted, or none has a score in each fold. Once the rows were read, they are
            kept in `fold_statistics_`. After another error, or Ctrl-C, the search is as it was.
        """
        candidates, scorings = self._candidates(), self._measures()
        ranking = [self.refit] if self.refit in self._scorings() else self._scorings()
        warn_of_uncalibrated(candidates, ranking, self.calibrate)
        how: dict[str, Any] = {"scheduler": scheduler, "progress": progress}
        maps, _ = maps_and_model(self.estimator)
        if maps is not None and not isinstance(X, FoldStatistics):
            rows = source_of(X, y, sample_weight, encoding=common_encoding(candidates, X))
            X, y, sample_weight = rows.map(maps), None, None
        folds = {"cv": self.cv, "groups": self.groups, "fold": self.fold}
        states, source, n_reads = read_folds(candidates, scorings, X, y, sample_weight, **folds, **how)
        after = self._after(states[0], n_reads, states[0].n_rows + states[0].n_dropped)
        try:
            after._choose(compare(candidates, states, scorings, source, **how), states)
        except ValueError:
            self.__dict__ = after.__dict__
            raise
        self.__dict__ = after.__dict__
        return self

    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add a batch of rows, numbered by their arrival. The scores are those of all batches together.

        Candidates are scored again when a result is next asked for. The rows are not kept, so the scoring is
        "log_likelihood".

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows in memory.
        y : array-like of shape (n_rows,)
            Their labels.
        sample_weight : array-like of shape (n_rows,), optional
            Repetitions of each row.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the scoring needs the rows, a candidate has a half-life, or the batch
            cannot be learnt. The search is then unchanged.
        """
        candidates = self._candidates()
        check_no_ages(candidates)
        check_have_likelihoods(candidates, self._scorings())
        if self._measures() != [LOG_LIKELIHOOD]:
            raise ValueError(
                "batches are not kept, so folds of them can be scored by 'log_likelihood' alone, and do not "
                "calibrate"
            )
        maps, _ = maps_and_model(self.estimator)
        rows = X if maps is None else maps.transform(X)
        source, rule = with_folds(candidates, rows, y, sample_weight, self.cv, self.groups, self.fold)
        if not isinstance(source, ArraySource):
            raise TypeError("batches are rows in memory; a source goes to fit")
        former = vars(self).get("fold_statistics_")
        with _first_batch if former is None else former.lock:
            if vars(self).get("fold_statistics_") is former:
                empty = empty_statistics(**statistics_for_all(candidates))
                states = FoldStatistics(empty, rule) if former is None else former.copy()
                arrived = getattr(self, "_n_arrived", 0)
                states.update_blocks(source.blocks(arrived))
                self.__dict__ = self._after(states, 1, arrived + _num_samples(source.rows)).__dict__
                return self
        return self.partial_fit(X, y, sample_weight)  # another thread has replaced the statistics

    def _candidates(self) -> list[Candidate]:
        candidates = candidates_of(self.estimator, self.param_grid)
        check_that_scores_differ(candidates, self._measures())
        return candidates

    def _scorings(self) -> list[str]:
        names = scoring_names(self.scoring)
        needs_no_name = isinstance(self.scoring, str) or callable(self.refit)
        if not needs_no_name and self.refit not in {False, *names}:
            raise ValueError(f"with a list of scorings, refit is False or one of {names}; got {self.refit!r}")
        return names

    def _measures(self) -> list[str]:
        """The scorings, and the temperature if it is asked for."""
        return [*self._scorings(), *calibrations(self.calibrate)]

    def _after(self, states: FoldStatistics, n_reads: int, n_arrived: int) -> Self:
        """A search like this one with other statistics, and no results yet."""
        after = copy(self)
        after.__dict__ = {name: value for name, value in vars(self).items() if not name.endswith("_")}
        after.fold_statistics_, after.n_reads_, after._n_arrived = states, n_reads, n_arrived
        return after

    def _choose(self, comparison: Comparison, states: Sequence[FoldStatistics]) -> None:
        """Set the results of a comparison, and the best candidate."""
        report_failures(comparison, self.error_score)
        candidates, names = self._candidates(), self._scorings()
        params = [candidate.params for candidate in candidates]
        self.cv_results_ = results_table(params, comparison.times(), comparison.reasons())
        if self.calibrate is not None:
            self.cv_results_[CALIBRATION] = comparison.calibrate()
        for name, values in comparison.filled(names, self.error_score).items():
            self.cv_results_ |= scores_table("score" if isinstance(self.scoring, str) else name, values)
        scorers = {name: RowScorer(name) for name in names}
        self.n_splits_ = len(comparison.folds)
        self.multimetric_ = not isinstance(self.scoring, str)
        self.scorer_ = scorers[self.scoring] if isinstance(self.scoring, str) else scorers
        self.n_reads_ += comparison.n_reads
        by = self.refit if self.multimetric_ else "score"
        if by is not False:
            self._select(candidates, by, states)

    def _select(self, candidates: list[Candidate], by: Any, states: Sequence[FoldStatistics]) -> None:
        """Set the best candidate by a scoring, and make its model."""
        if callable(self.refit):
            self.best_index_ = int(self.refit(self.cv_results_))
        else:
            if np.isnan(self.cv_results_[f"mean_test_{by}"]).all():
                raise ValueError(
                    "no candidate has a score in each fold, so that none is the best; let folds have rows "
                    "of all classes, or choose another scoring"
                )
            self.best_index_ = int(self.cv_results_[f"rank_test_{by}"].argmin())
            self.best_score_ = float(self.cv_results_[f"mean_test_{by}"][self.best_index_])
        best, self.fold_statistics_ = candidates[self.best_index_], states[self.best_index_]
        self.best_params_ = dict(best.params)
        if self.refit is not False:
            start = perf_counter()
            others = {}
            if self.calibrate is not None:
                others[CALIBRATION] = warned_of(float(self.cv_results_[CALIBRATION][self.best_index_]))
            self.best_estimator_ = best.fitted(self.fold_statistics_.total(), **others)
            if maps_and_model(self.estimator)[0] is not None:
                steps = self.estimator.steps
                self.best_estimator_.__dict__.pop("feature_names_in_", None)  # transformers give arrays
                self.best_estimator_ = ModelPipeline([*steps[:-1], (steps[-1][0], self.best_estimator_)])
            self.refit_time_ = perf_counter() - start

    def __getattr__(self, name: str) -> Any:
        """The results after batches, which are computed when the first of them is asked for."""
        if name not in _RESULTS or "fold_statistics_" not in vars(self) or "cv_results_" in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        candidates, after = self._candidates(), copy(self)
        folds = after.fold_statistics_
        states = [folds] * len(candidates)
        with folds.lock:
            after._choose(compare(candidates, states, self._scorings(), None), states)
            if self.fold_statistics_ is folds:
                self.__dict__ = after.__dict__
        return getattr(after, name)

    def save(self, path: Path, **options: Any) -> None:
        """Write the best model as one file, as its own `save` does."""
        self._best().save(path, **options)

    # ------------------------------------------------------------------ predicting

    @property
    def classes_(self) -> Any:
        """The labels seen, sorted."""
        return self._best().classes_

    @property
    def n_features_in_(self) -> int:
        """The number of features."""
        return int(self._best().n_features_in_)

    @property
    def feature_names_in_(self) -> Any:
        """The names of the features, if the rows have them."""
        return self._best().feature_names_in_

    def _best(self) -> Any:
        check_is_fitted(self)
        if self.refit is False:
            raise NotFittedError("refit=False: there is no best estimator to predict with")
        return self.best_estimator_

    def predict(self, X: Any) -> Any:
        """The class of each row, by the best estimator."""
        return self._best().predict(X)

    def predict_proba(self, X: Any) -> Any:
        """The posterior probability of each class, by the best estimator."""
        return self._best().predict_proba(X)

    def predict_log_proba(self, X: Any) -> Any:
        """The logarithm of the posterior probability of each class, by the best estimator."""
        return self._best().predict_log_proba(X)

    def decision_function(self, X: Any) -> Any:
        """The decision function of the best estimator."""
        return self._best().decision_function(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The score of rows in memory by the best estimator. Of several scorings, the one in `refit` is used.

        Raises
        ------
        ValueError
            If `refit` is a function, which leaves open which of several scorings is meant.
        """
        best, scorer = self._best(), self.scorer_
        if not isinstance(scorer, dict):
            return scorer(best, X, y, sample_weight)
        if self.refit not in scorer:
            raise ValueError("of several scorings, refit names none to score by; call one of scorer_")
        return scorer[self.refit](best, X, y, sample_weight)

    def __sklearn_is_fitted__(self) -> bool:
        return "fold_statistics_" in vars(self)


def results_table(
    params: Sequence[Mapping[str, Any]], times: Mapping[str, Array], errors: Sequence[str]
) -> Results:
    """The columns of `cv_results_` without the scores.

    Parameters
    ----------
    params : sequence of dict
        The parameters of each candidate.
    times : dict of str to ndarray of shape (n_candidates, n_splits)
        Seconds, by the name of the step, such as fitting.
    errors : sequence of str
        Why a candidate has no score; "" if it has a score.
    """
    table: Results = {}
    for name, seconds in times.items():
        table |= {f"mean_{name}": seconds.mean(axis=1), f"std_{name}": seconds.std(axis=1)}
    table |= _columns_of_params(params)
    table["params"] = [dict(chosen) for chosen in params]
    table["fit_error"] = np.array(errors, dtype=object)
    return table


def scores_table(name: str, scores: Array) -> Results:
    """The scores of candidates, their means, deviations and ranks; candidates without a score come last."""
    splits = {f"split{i}_test_{name}": column for i, column in enumerate(scores.T)}
    with np.errstate(invalid="ignore"):
        means, deviations = scores.mean(axis=1), scores.std(axis=1)
    ranks = rankdata(np.where(np.isnan(means), np.inf, -means), method="min").astype(np.int32)
    return splits | {f"mean_test_{name}": means, f"std_test_{name}": deviations, f"rank_test_{name}": ranks}


def _columns_of_params(params: Sequence[Mapping[str, Any]]) -> Results:
    """A masked array for each parameter. Candidates without the parameter are masked."""
    columns: Results = {}
    for name in dict.fromkeys(name for chosen in params for name in chosen):
        kinds = {type(chosen[name]) for chosen in params if name in chosen}
        dtype = kinds.pop() if len(kinds) == 1 and kinds <= {bool, int, float} else object
        column = np.ma.MaskedArray(np.empty(len(params), dtype), mask=True)
        for i, chosen in enumerate(params):
            if name in chosen:
                column[i] = chosen[name]
        columns[f"param_{name}"] = column
    return columns
