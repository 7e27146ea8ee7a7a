"""Candidates fitted to the states of folds, and their scores on other folds.

Joint log-likelihoods are computed from the states of held-out folds. For other scorings the rows are read a
second time, and scored by `row_scores`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from time import perf_counter
from typing import Any

import numpy as np

from streamgda.data.blocks.wording import abridged, named
from streamgda.data.sources.base import Source
from streamgda.data.sources.running import Progress, Scheduler
from streamgda.data.sources.splits import group_into_tasks
from streamgda.jobs.passes import compute
from streamgda.jobs.passes.plan import Plan
from streamgda.jobs.selection.calibration import CALIBRATION, MEASURED, CalibrationLosses
from streamgda.jobs.selection.candidates import Candidate
from streamgda.jobs.selection.row_scores import (
    HeldOutScores,
    MeasuredScorer,
    ModelsByFold,
    ModelScorer,
    score_splits,
)
from streamgda.jobs.selection.scorings import LOG_LIKELIHOOD, LOG_LOSSES, mean_log_likelihood
from streamgda.jobs.selection.splitters import tested_folds
from streamgda.models.estimators.classifier import GaussianClassifier, finalised
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array
from streamgda.statistics.folded import FoldStatistics

_MOST_NAMED = 10


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
    error : str
        Why the trial failed; "" if it did not.
    scorer : Scorer or None
        The object that scores rows. None after the rows are scored, or if no rows need scores.
    by_row : list of str
        The scorings for which rows must be scored.
    metrics : dict of str to Metric
        The sums over the rows that were scored, by scoring.
    """

    tested: tuple[Any, ...]
    scores: dict[str, float]
    fit_time: float = 0.0
    score_time: float = 0.0
    error: str = ""
    scorer: Any = None
    by_row: list[str] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)


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
        self._unseen: Any = None

    def add(
        self, candidate: Candidate, training: Statistics, tested: Iterable[Any], folds: FoldStatistics
    ) -> Trial:
        """Fit a candidate to a state, and score it as far as the states of its folds allow."""
        trial = Trial(tuple(tested), dict.fromkeys(self._scorings, np.nan))
        self._trials.append(trial)
        self._unseen = self._unseen or getattr(training.rule, "unseen", None)
        start = perf_counter()
        try:
            for lacking in np.setdiff1d(self._classes, training.by_label().classes)[:1]:
                raise ValueError(f"the part to learn from lacks class {named(lacking)}")
            model = candidate.fitted(training)
            trial.fit_time = perf_counter() - start
            self._score_states(trial, model, folds)
        except ValueError as error:
            trial.error = str(error)
        return trial

    def _score_states(self, trial: Trial, model: GaussianClassifier[Any], folds: FoldStatistics) -> None:
        start, state = perf_counter(), finalised(model)
        is_normal = state.densities is state.gaussians
        trial.by_row = [name for name in self._scorings if name != LOG_LIKELIHOOD or not is_normal]
        if LOG_LIKELIHOOD in self._scorings and is_normal:
            held_out = folds.merged(trial.tested)
            trial.scores[LOG_LIKELIHOOD] = mean_log_likelihood(model, held_out)
        if trial.by_row:
            trial.scorer = ModelScorer(state, model.missing, model.statistics_.schema_of_rows)
        trial.score_time = perf_counter() - start

    def read(self, source: Source | None, scheduler: Scheduler = None, progress: Progress = False) -> int:
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
            what = f"calibrate={name!r}" if name == CALIBRATION else f"scoring {name!r}"
            raise ValueError(
                f"{what} needs the rows, and there are only statistics: give the source to fit, or score "
                "normal densities by 'log_likelihood', and do not calibrate"
            )
        scheduler = compute.scheduler_for(source, scheduler)
        groups = list(group_into_tasks(source.planned(compute.opening_on(scheduler))))
        plan = Plan(groups, score_splits, self._models_by_fold(waiting))
        held_out: HeldOutScores = compute.compute_plan(plan, scheduler, progress)
        for i, trial in waiting.items():
            trial.scorer, trial.error = None, held_out.failures.get(i, "")
            if not trial.error and i not in held_out.metrics:
                trial.error = "the map has seen the labels of all rows of the fold; bring more rows"
            if not trial.error:
                trial.metrics = held_out.metrics[i]
                trial.scores |= {name: metric.score for name, metric in trial.metrics.items()}
        return 1

    def _models_by_fold(self, waiting: dict[int, Trial]) -> ModelsByFold:
        """The scorers of each fold, by number."""
        by_fold: dict[Any, dict[int, MeasuredScorer]] = defaultdict(dict)
        for i, trial in waiting.items():
            for fold in trial.tested:
                by_fold[fold][i] = trial.scorer, {name: MEASURED[name] for name in trial.by_row}
        return ModelsByFold(self._statistics.rule, self._classes, by_fold, self._unseen)


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
    """

    folds: list[Any]
    trials: list[list[Trial]]
    n_reads: int

    def filled(self, names: Iterable[str], error_score: Any) -> dict[str, Array]:
        """The scores by some scorings, with `error_score` (NaN, if it is "raise") where a trial failed."""
        filling = np.nan if isinstance(error_score, str) else error_score
        return {
            name: np.array([[filling if t.error else t.scores[name] for t in row] for row in self.trials])
            for name in names
        }

    def times(self) -> dict[str, Array]:
        """Seconds to fit the models, and seconds to score states by them: (n_candidates, n_folds)."""
        names = ("fit_time", "score_time")
        return {name: np.array([[getattr(t, name) for t in row] for row in self.trials]) for name in names}

    def reasons(self) -> list[str]:
        """Why each candidate failed, in one line: each error once, with its folds; "" if no trial failed."""
        return [_reasons_of_folds({t.tested[0]: t.error for t in row if t.error}) for row in self.trials]

    def calibrate(self) -> Array:
        """The best temperature of each candidate, at which `trials` get their log losses: (n_candidates,)."""
        temperatures = []
        for row in self.trials:
            scored = [trial for trial in row if trial.metrics]
            losses: list[CalibrationLosses] = [trial.metrics[CALIBRATION] for trial in scored]
            best = reduce(CalibrationLosses.merge, losses, CalibrationLosses(0)).score
            temperatures.append(best)
            for trial, own in zip(scored, losses, strict=True):
                trial.scores |= {name: -own.loss_at(best) for name in LOG_LOSSES if name in trial.scores}
        return np.array(temperatures)

    def undefined(self) -> dict[str, list[Any]]:
        """The scorings that give no number to a fitted model, and the folds in which they do not."""
        folds = defaultdict[str, dict[Any, None]](dict)
        for trial in chain.from_iterable(self.trials):
            for name, score in trial.scores.items():
                if not trial.error and np.isnan(score):
                    folds[name][trial.tested[0]] = None
        return {name: sorted(some) for name, some in folds.items()}

    @property
    def n_failed(self) -> int:
        """How many trials failed."""
        return sum(bool(trial.error) for row in self.trials for trial in row)


def compare(
    candidates: Sequence[Candidate],
    states: Sequence[FoldStatistics],
    scorings: Sequence[str],
    source: Source | None,
    **how: Any,
) -> Comparison:
    """Score candidates on each fold, fitted to the others.

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
    scheduler, progress
        As for the `fit` of `StatisticsSearchCV`.

    Raises
    ------
    ValueError
        If the folds are not valid, or if rows are needed and there is no source.
    """
    trials = Trials(states[0], scorings)
    folds = tested_folds(states[0])
    by_candidate: list[list[Trial]] = [[] for _ in candidates]
    for state in {id(state): state for state in states}.values():  # which candidates may share
        for fold, training in state.held_out(folds):
            for candidate, own, row in zip(candidates, states, by_candidate, strict=True):
                if own is state:
                    row.append(trials.add(candidate, training, [fold], state))
    return Comparison(folds, by_candidate, trials.read(source, **how))


_AMOUNTS = re.compile(r"\b(rank [\d,]+ of|[\d.,]+ (row|sample|feature)s?|\(of weight [^)]*\))")


def _reasons_of_folds(failed: Mapping[Any, str]) -> str:
    """List each error once, with the folds in which it occurred.

    Errors that differ only in ranks and numbers of rows count as one: the first is shown, with the other
    folds.
    """
    alike: dict[str, dict[Any, str]] = {}
    for fold, error in failed.items():
        alike.setdefault(_AMOUNTS.sub("", error), {})[fold] = error
    reasons = []
    for errors in alike.values():
        first = next(iter(errors.values()))
        same = [fold for fold, error in errors.items() if error == first]
        rest = [fold for fold, error in errors.items() if error != first]
        likewise = f"; {_listed(rest)}: likewise" if rest else ""
        reasons.append(f"{_listed(same)}: {first}{likewise}")
    return "; ".join(reasons)


def _listed(folds: list[Any]) -> str:
    return f"fold{'s' if len(folds) > 1 else ''} {abridged(folds, _MOST_NAMED)}"
