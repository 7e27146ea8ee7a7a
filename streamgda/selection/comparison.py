"""Compare candidates on held-out folds, fitted to the other ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from streamgda.estimators.classifier import GaussianClassifier
from streamgda.passes.schedulers import Scheduler
from streamgda.selection.candidates import Candidate
from streamgda.selection.folds import tested_folds
from streamgda.selection.likelihood import mean_log_likelihood
from streamgda.selection.reading import Contender, Contest, score_held_out, tallies_for
from streamgda.selection.scorings import LOG_LIKELIHOOD
from streamgda.sources.base import Source
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array
from streamgda.statistics.folded import FoldStatistics


@dataclass
class Comparison:
    """The scores of candidates on held-out folds.

    Attributes
    ----------
    folds : list
        The folds that were held out, in the order of the columns.
    scores : dict of str to ndarray of shape (n_candidates, n_folds)
        By scoring; NaN where a candidate failed.
    fit_time, score_time : ndarray of shape (n_candidates, n_folds)
        Seconds that it took to make the model from a state, and to score a state by it.
    errors : list of dict
        For each candidate, why it failed, by fold.
    n_reads : int
        How many times the rows were read.
    """

    folds: list[Any]
    scores: dict[str, Array]
    fit_time: Array
    score_time: Array
    errors: list[dict[Any, str]]
    n_reads: int = 0

    @classmethod
    def of(cls, n_candidates: int, folds: list[Any], scorings: Sequence[str]) -> Comparison:
        """A comparison in which nothing is scored yet."""
        shape = (n_candidates, len(folds))
        scores = {name: np.full(shape, np.nan) for name in scorings}
        errors: list[dict[Any, str]] = [{} for _ in range(n_candidates)]
        return cls(folds, scores, np.zeros(shape), np.zeros(shape), errors)

    def reasons(self) -> list[str]:
        """Why each candidate failed, in a line; "" where it did not."""
        return ["; ".join(f"fold {fold!s}: {text}" for fold, text in held.items()) for held in self.errors]


def compare(
    candidates: Sequence[Candidate],
    statistics: FoldStatistics,
    scorings: Sequence[str],
    source: Source | None,
    scheduler: Scheduler = None,
    progress: bool = False,
) -> Comparison:
    """Score candidates on each fold, fitted to the others.

    Parameters
    ----------
    candidates : sequence of Candidate
        The candidates.
    statistics : FoldStatistics
        The states of the folds.
    scorings : sequence of str
        "log_likelihood" needs the states alone; others one more read.
    source : Source or None
        The rows, for that read.

    Raises
    ------
    ValueError
        If the folds cannot serve, or rows are needed and there are none to read.
    """
    comparison = Comparison.of(len(candidates), tested_folds(statistics), scorings)
    by_row = [name for name in scorings if name != LOG_LIKELIHOOD]
    if by_row and source is None:
        raise ValueError(
            f"scoring {by_row[0]!r} reads the rows again, and there are only statistics: give the source to "
            "fit, or score by 'log_likelihood'"
        )
    contenders = _score_states(candidates, statistics, comparison, keep=bool(by_row))
    if by_row and source is not None:
        classes = statistics.total().classes
        n_models = sum(map(len, contenders.values()))
        kinds = tallies_for(by_row, statistics.n_rows, len(classes), n_models)
        contest = Contest(statistics.rule, classes, contenders, kinds)
        _score_rows(comparison, contest, source, scheduler, progress)
    return comparison


def _score_states(
    candidates: Sequence[Candidate], statistics: FoldStatistics, comparison: Comparison, *, keep: bool
) -> dict[Any, dict[int, Contender]]:
    """Fit the candidates to each training part, score the held-out states, and keep the models if needed."""
    contenders: dict[Any, dict[int, Contender]] = {}
    for column, (fold, training) in enumerate(statistics.held_out(comparison.folds)):
        contenders[fold] = {}
        for number, candidate in enumerate(candidates):
            place = number, column
            model, comparison.fit_time[place] = _timed(_fitted_or_reason, candidate, training)
            if isinstance(model, str):
                comparison.errors[number][fold] = model
                continue
            if LOG_LIKELIHOOD in comparison.scores:
                score, comparison.score_time[place] = _timed(mean_log_likelihood, model, statistics[fold])
                comparison.scores[LOG_LIKELIHOOD][place] = score
            if keep:
                contenders[fold][number] = Contender.of(model)
    return contenders


def _fitted_or_reason(candidate: Candidate, training: Statistics) -> GaussianClassifier[Any] | str:
    try:
        return candidate.fitted(training)
    except ValueError as error:
        return str(error)


def _timed(work: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    start = perf_counter()
    result = work(*arguments)
    return result, perf_counter() - start


def _score_rows(
    comparison: Comparison, contest: Contest, source: Source, scheduler: Scheduler, progress: bool
) -> None:
    """Fill in the scores that need the rows."""
    board = score_held_out(source, contest, scheduler, progress)
    comparison.n_reads += 1
    for column, fold in enumerate(comparison.folds):
        for number in contest.contenders[fold]:
            if (fold, number) in board.failures:
                comparison.errors[number][fold] = board.failures[fold, number]
                continue
            for name, tally in board.tallies[fold, number].items():
                comparison.scores[name][number, column] = tally.score
