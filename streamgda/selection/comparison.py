"""Candidates fitted to the states of folds, and their scores on other folds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import attrgetter
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone

from streamgda.blocks.block import remedying
from streamgda.blocks.wording import Message, abridged, named
from streamgda.estimators.classifier import GaussianClassifier, finalised
from streamgda.estimators.mda import MixtureDiscriminantAnalysis
from streamgda.passes.accumulate import accumulate_folds, read_into
from streamgda.passes.compute import Progress, Scheduler
from streamgda.selection.candidates import Candidate, statistics_for_all
from streamgda.selection.downdates import check_closed_form, downdate_of
from streamgda.selection.reading import (
    MeasuredScorer,
    ModelsByFold,
    ModelScorer,
    Scorer,
    metrics_for,
    score_held_out,
)
from streamgda.selection.scorings import LOG_LIKELIHOOD, TEMPERATURE, LossesByTemperature, mean_log_likelihood
from streamgda.selection.splitters import is_leave_one_out, tested_folds, with_folds
from streamgda.sources.base import Source
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.folded import FoldStatistics, SideBySide
from streamgda.statistics.subclasses import SubclassCenters

_LEARN = Message(
    "⟨let all candidates have |learn, with ⟩⟨missing='marginal'⟩⟨, and learn|,⟩ from what is observed"
)


@dataclass
class Trial:
    """A model that is scored on the rows of some folds.

    Attributes
    ----------
    tested : tuple
        The folds on which the model is scored.
    scores : dict of str to float
        The scores of the model, by scoring. NaN if the trial failed, or if rows are not scored yet.
    fit_time, score_time : float
        Seconds to fit the model to a state, and seconds to score states by the model.
    error : Message
        Why the trial failed; "" if it did not.
    deviations : dict of str to float
        The standard deviations of the scores of rows, by scoring, where rows are left out one by one.
    scorer : Scorer or None
        The object that scores rows. None after the rows are scored, or if no rows need scores.
    by_row : list of str
        The scorings for which rows must be scored.
    losses : LossesByTemperature or None
        The losses of the scored rows, if they are asked for.
    """

    tested: tuple[Any, ...]
    scores: dict[str, float]
    fit_time: float = 0.0
    score_time: float = 0.0
    error: Message = field(default_factory=Message)
    deviations: dict[str, float] = field(default_factory=dict)
    scorer: Scorer | None = None
    by_row: list[str] = field(default_factory=list)
    losses: LossesByTemperature | None = None


class Trials:
    """Candidates that are fitted to the states of folds, and scored on other folds.

    Parameters
    ----------
    statistics : FoldStatistics
        The states.
    scorings : sequence of str
        "log_likelihood" of normal densities needs the states alone; the others need the rows.
    """

    def __init__(self, statistics: FoldStatistics, scorings: Sequence[str]) -> None:
        self._statistics, self._scorings = statistics, scorings
        self._classes = statistics.classes
        self._trials: list[Trial] = []

    def add(
        self, candidate: Candidate, training: Statistics, tested: Iterable[Any], folds: FoldStatistics
    ) -> Trial:
        """Fit a candidate to a state, and score it as far as the states of its folds allow."""
        trial = Trial(tuple(tested), dict.fromkeys(self._scorings, np.nan))
        self._trials.append(trial)
        start = perf_counter()
        try:
            self._check_classes(training)
            model = candidate.fitted(training)
            trial.fit_time = perf_counter() - start
            self._score_states(trial, model, folds)
        except ValueError as error:
            trial.error = Message.of(error)
        return trial

    def _check_classes(self, training: Statistics) -> None:
        lacking = np.setdiff1d(self._classes, training.class_labels)
        if len(lacking):
            raise ValueError(f"the part to learn from lacks class {named(lacking[0])}")

    def add_left_out(self, candidate: Candidate) -> Trial:
        """Score each row by the candidate fitted to all other rows."""
        trial = Trial(tuple(self._statistics.folds), dict.fromkeys(self._scorings, np.nan))
        self._trials.append(trial)
        start = perf_counter()
        try:
            trial.scorer = downdate_of(candidate.estimator, self._statistics.total())
            trial.by_row = list(self._scorings)
        except ValueError as error:
            trial.error = Message.of(error)
        trial.fit_time = perf_counter() - start
        return trial

    def _score_states(self, trial: Trial, model: GaussianClassifier[Any], folds: FoldStatistics) -> None:
        start, state = perf_counter(), finalised(model)
        is_normal = state.densities is state.gaussians
        trial.by_row = [name for name in self._scorings if name != LOG_LIKELIHOOD or not is_normal]
        if LOG_LIKELIHOOD in self._scorings and is_normal:
            held_out = folds.merged(trial.tested)
            trial.scores[LOG_LIKELIHOOD] = mean_log_likelihood(model, held_out)
        if trial.by_row:
            trial.scorer = ModelScorer(state, model.missing)
        trial.score_time = perf_counter() - start

    def read(self, source: Source | None, scheduler: Scheduler, progress: Progress) -> int:
        """Score rows by the models that need a read of them; return how many times the source was read.

        Raises
        ------
        ValueError
            If there is no source.
        """
        waiting = {i: trial for i, trial in enumerate(self._trials) if trial.by_row}
        if not waiting:
            return 0
        if source is None:
            name = next(iter(waiting.values())).by_row[0]
            what = f"calibrate={name!r}" if name == TEMPERATURE else f"scoring {name!r}"
            raise ValueError(
                f"{what} needs the rows, and there are only statistics: give the source to fit, or score "
                "normal densities by 'log_likelihood', and do not calibrate"
            )
        found = score_held_out(source, self._models_by_fold(waiting), scheduler, progress)
        for i, trial in waiting.items():
            trial.scorer = None
            trial.error = found.failures.get(i, Message())
            metrics = {} if trial.error else found.metrics[i]
            trial.scores |= {name: metric.score for name, metric in metrics.items()}
            trial.losses = metrics.get(TEMPERATURE)  # type: ignore[assignment]
            trial.deviations = {name: metric.deviation for name, metric in metrics.items()}
        return 1

    def _models_by_fold(self, waiting: dict[int, Trial]) -> ModelsByFold:
        n_rows, classes = self._statistics.n_rows, self._classes
        by_fold: dict[Any, dict[int, MeasuredScorer]] = {}
        for i, trial in waiting.items():
            assert trial.scorer is not None
            metrics = metrics_for(trial.by_row, n_rows, len(classes), len(waiting))
            measured = MeasuredScorer(trial.scorer, metrics)
            for fold in trial.tested:
                by_fold.setdefault(fold, {})[i] = measured
        return ModelsByFold(self._statistics.rule, classes, by_fold, self._statistics.categories)


@dataclass
class Comparison:
    """The trials of candidates, each on every fold that is held out.

    Attributes
    ----------
    folds : list
        The folds that were held out.
    trials : list of list of Trial
        For each candidate, the trials on the folds.
    n_reads : int
        How many times the rows were read.
    is_by_row : bool
        Whether rows were left out one by one, in one trial for each candidate.
    """

    folds: list[Any]
    trials: list[list[Trial]]
    n_reads: int
    is_by_row: bool = False

    def _table(self, value: Callable[[Trial], Any]) -> Array:
        """A value of each trial: (n_candidates, n_folds)."""
        return np.array([[value(trial) for trial in row] for row in self.trials])

    def filled(self, names: Iterable[str], error_score: Any) -> dict[str, Array]:
        """The scores by some scorings, with `error_score` (NaN, if it is "raise") where a trial failed."""
        filling = np.nan if isinstance(error_score, str) else error_score

        def scores(name: str) -> Array:
            return self._table(lambda trial: filling if trial.error else trial.scores[name])

        return {name: scores(name) for name in names}

    def times(self) -> dict[str, Array]:
        """Seconds to fit the models, and seconds to score states by them: (n_candidates, n_folds)."""
        return {name: self._table(attrgetter(name)) for name in ("fit_time", "score_time")}

    def reasons(self) -> list[str]:
        """Why each candidate failed, in one line: each error once, with its folds; "" if no trial failed."""
        if self.is_by_row:
            return [trial.error for (trial,) in self.trials]
        return [reasons_of_folds({t.tested[0]: t.error for t in row if t.error}) for row in self.trials]

    def deviations(self, name: str) -> Array:
        """The standard deviations of the scores of rows left out, by a scoring: (n_candidates,)."""
        return np.array([row[0].deviations.get(name, np.nan) for row in self.trials])

    def temperatures(self) -> Array:
        """The best temperature of each candidate for the held-out rows: (n_candidates,)."""
        losses = ([trial.losses for trial in row if trial.losses is not None] for row in self.trials)
        pooled = (reduce(LossesByTemperature.merge, row, LossesByTemperature(0)) for row in losses)
        return np.array([row.score for row in pooled])

    @property
    def n_failed(self) -> int:
        """How many trials failed."""
        return sum(bool(trial.error) for row in self.trials for trial in row)


def read_folds(
    candidates: Sequence[Candidate],
    scorings: Sequence[str],
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    cv: Any,
    groups: Any,
    fold: Any,
    scheduler: Scheduler,
    progress: Progress,
) -> tuple[list[FoldStatistics], Source | None, int]:
    """The states of folds of each candidate, the source, and how many times it was read.

    `X` may be states already. The other parameters are those of `StatisticsSearchCV` and its `fit`.

    Raises
    ------
    ValueError
        If the rows need a second read to be scored, but can be read only once.
    """
    if is_leave_one_out(cv):
        for candidate in candidates:
            check_closed_form(candidate.estimator)
    if isinstance(X, FoldStatistics):
        return [X.copy()] * len(candidates), None, 0
    source, rule = with_folds(X, y, sample_weight, cv, groups, fold)
    if source.is_one_shot and _scores_rows(candidates, scorings, cv):
        raise ValueError(
            f"{source!r} can be read once, and these scores take a second read: scan a table, a dataset or "
            "what the stream was made from; or score normal densities by 'log_likelihood', with cv a number"
        )
    source = source.pinned()
    kept = statistics_for_all(candidates)
    if source.keeps_missing:
        _check_learn_incomplete(candidates, source)
    how: dict[str, Any] = {"scheduler": scheduler, "progress": progress}
    with remedying(_LEARN):
        if not any(candidate.estimator._draws_centers for candidate in candidates):
            states = [accumulate_folds(source, rule=rule, **kept, **how)] * len(candidates)
            return states, source, 1
        centers, n_reads = _centers_for(candidates, source, how)
        apart = [next(i for i, one in enumerate(centers) if one == own) for own in centers]
        empties = {}
        for i in apart:
            alike = [candidate for candidate, j in zip(candidates, apart, strict=True) if j == i]
            empty = empty_statistics(
                **{**statistics_for_all(alike), "incomplete": kept["incomplete"] or source.keeps_missing},
                subclass_centers=centers[i],
            )
            empties[i] = FoldStatistics(empty, rule)
        read = read_into(source, SideBySide(list(empties.values())), **how)
    by_centers = dict(zip(empties, read.states, strict=True))
    return [by_centers[i] for i in apart], source, n_reads + 1


def _centers_for(
    candidates: Sequence[Candidate], source: Source, how: Mapping[str, Any]
) -> tuple[list[SubclassCenters | None], int]:
    """The centres of each candidate's statistics, and how many times the rows were read to find them."""
    mixtures = [one.estimator for one in candidates if isinstance(one.estimator, MixtureDiscriminantAnalysis)]
    widest = min(mixtures, key=lambda model: (model.covariance_type == "diag", -model.rows_per_class))
    sampled = (
        clone(widest)
        .set_params(rows_per_class=max(model.rows_per_class for model in mixtures))
        .empty_sample()
    )
    n_reads = int(any(model.subclass_centers is None for model in mixtures))
    if n_reads:
        sampled = read_into(source, sampled, **how)
    drawn = {id(model): model.centers_of(sampled) for model in mixtures}
    return [drawn.get(id(candidate.estimator)) for candidate in candidates], n_reads


def _scores_rows(candidates: Sequence[Candidate], scorings: Sequence[str], cv: Any) -> bool:
    """Whether scoring the candidates needs the rows, not only the states of the folds."""
    plugin = all(getattr(one.estimator, "predictive", "plugin") == "plugin" for one in candidates)
    mixtures = any(one.estimator._draws_centers for one in candidates)
    return is_leave_one_out(cv) or list(scorings) != [LOG_LIKELIHOOD] or not plugin or mixtures


def _check_learn_incomplete(candidates: Sequence[Candidate], source: Source) -> None:
    """Raise ValueError if a candidate cannot learn from the incomplete rows that a source keeps."""
    for candidate in candidates:
        if not candidate.estimator.learns_incomplete:
            raise ValueError(
                Message(
                    f"{source!r} keeps incomplete rows, of which {type(candidate.estimator).__name__} with "
                    "⟨missing='raise'⟩ learns nothing: ",
                    _LEARN,
                    "; or leave them out, with ⟨missing='drop'⟩",
                )
            )


def compare(
    candidates: Sequence[Candidate],
    states: Sequence[FoldStatistics],
    scorings: Sequence[str],
    source: Source | None,
    *,
    cv: Any = None,
    scheduler: Scheduler = None,
    progress: Progress = False,
) -> Comparison:
    """Score candidates on each fold, fitted to the others; or on each row, if `cv` is "loo".

    Parameters
    ----------
    candidates : sequence of Candidate
        The candidates.
    states : sequence of FoldStatistics
        The states of the folds of each candidate.
    scorings : sequence of str
        The scorings.
    source : Source or None
        The rows, for scorings that need them.
    cv, scheduler, progress
        As for `StatisticsSearchCV` and its `fit`.

    Raises
    ------
    ValueError
        If the folds are not valid, or if rows are needed and there is no source.
    """
    trials = Trials(states[0], scorings)
    if is_leave_one_out(cv):
        rows = [[trials.add_left_out(candidate)] for candidate in candidates]
        return Comparison([None], rows, trials.read(source, scheduler, progress), is_by_row=True)
    folds = tested_folds(states[0])
    different = {id(state): state for state in states}
    columns = []
    for fold, *trainings in zip(folds, *(state.held_out(folds) for state in different.values()), strict=True):
        of_state = dict(zip(different, (training for _, training in trainings), strict=True))
        pairs = zip(candidates, states, strict=True)
        columns.append([trials.add(one, of_state[id(state)], [fold], state) for one, state in pairs])
    n_reads = trials.read(source, scheduler, progress)
    return Comparison(folds, [list(row) for row in zip(*columns, strict=True)], n_reads)


_MOST_NAMED = 10


def reasons_of_folds(failed: Mapping[Any, Message]) -> Message:
    """List each error once, with the folds in which it occurred.

    Errors that differ only in numbers count as one: the first is shown, with the other folds.
    """
    alike: dict[str, dict[Any, Message]] = {}
    for fold, error in failed.items():
        alike.setdefault(error.without_amounts(), {})[fold] = error
    reasons = Message()
    for errors in alike.values():
        first = next(iter(errors.values()))
        same = [fold for fold, error in errors.items() if error == first]
        rest = [fold for fold, error in errors.items() if error != first]
        likewise = f"; {_listed(rest)}: likewise" if rest else ""
        reasons = Message(reasons, "; " if reasons else "", f"{_listed(same)}: ", first, likewise)
    return reasons


def _listed(folds: list[Any]) -> str:
    return f"fold{'s' if len(folds) > 1 else ''} {abridged(folds, _MOST_NAMED)}"
