"""The second read: each held-out row is scored by all the models of its fold at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.block import Block
from streamgda.blocks.folds import FoldRule
from streamgda.blocks.labels import Labels
from streamgda.estimators.classifier import (
    GaussianClassifier,
    MissingAtPrediction,
    finalised,
    score_finalised,
)
from streamgda.estimators.finalised import Finalised
from streamgda.passes.blas import single_blas_thread
from streamgda.passes.compute import compute_plan
from streamgda.passes.plan import n_rows_of, plan_fold
from streamgda.passes.schedulers import Scheduler, scheduler_for
from streamgda.selection.scorings import LOG_LIKELIHOOD, TALLIES, BinnedRocAuc, RocAuc, Scored, Tally
from streamgda.sources.base import Source, Split, group_into_tasks
from streamgda.statistics.covariances import Array

_VALUES_AT_ONCE = 1 << 18  # of rows, or of their scores: 2 MB
_MOST_KEPT = 1 << 24  # log-odds of all candidates, 128 MB, up to which areas are exact


@dataclass(frozen=True)
class Contender:
    """The densities of a model, without its statistics: what workers need of it."""

    state: Finalised[Any]
    missing: MissingAtPrediction

    @classmethod
    def of(cls, model: GaussianClassifier[Any]) -> Self:
        """The densities of a fitted model."""
        return cls(finalised(model), model.missing)


Place = tuple[Any, int]
"""A fold, and the number of a candidate."""


@dataclass(frozen=True)
class Contest:
    """What a task needs: the models of each fold, and what is summed up of their scores.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        The classes of all the models, and of all rows.
    contenders : dict of fold to dict of int to Contender
        The models that score the rows of a fold, by the number of their candidate.
    tallies : dict of str to type
        What is summed up, by scoring.
    """

    rule: FoldRule
    classes: Labels
    contenders: Mapping[Any, Mapping[int, Contender]]
    tallies: Mapping[str, type[Any]]


@dataclass
class Scoreboard:
    """The tallies of all candidates and folds, or why a candidate could not score a row."""

    n_rows: int = 0
    n_dropped: int = 0
    tallies: dict[Place, dict[str, Tally]] = field(default_factory=dict)
    failures: dict[Place, str] = field(default_factory=dict)

    def __add__(self, other: Scoreboard) -> Scoreboard:
        """The rows of both; the first may change."""
        self.n_rows += other.n_rows
        self.n_dropped += other.n_dropped
        self.failures = {**other.failures, **self.failures}
        for place, theirs in other.tallies.items():
            ours = self.tallies.setdefault(place, theirs)
            if ours is not theirs:
                for name, tally in ours.items():
                    tally.merge(theirs[name])
        return self


def tallies_for(scorings: Sequence[str], n_rows: int, n_classes: int, n_candidates: int) -> dict[str, Any]:
    """What is summed up for each scoring; areas are exact as long as their scores take little memory."""
    is_exact = n_rows * n_classes * n_candidates <= _MOST_KEPT
    kinds = {name: TALLIES[name] for name in scorings}
    return {name: BinnedRocAuc if kind is RocAuc and not is_exact else kind for name, kind in kinds.items()}


def score_held_out(source: Source, contest: Contest, scheduler: Scheduler, progress: bool) -> Scoreboard:
    """Read a source once, and score each row by the models of its fold."""
    rule = contest.rule
    grouped = source if rule.column is None else source.with_groups(rule.column)
    groups = list(group_into_tasks(grouped.splits(), n_rows_of))
    plan = plan_fold(groups, score_splits, contest)
    scoreboard: Scoreboard = compute_plan(plan, scheduler_for(source, scheduler), progress)
    return scoreboard


def score_splits(splits: Iterable[Split], contest: Contest) -> Scoreboard:
    """One task: score the rows of consecutive splits, in order."""
    board = Scoreboard()
    with single_blas_thread:
        for split in splits:
            for block in split.blocks():
                board.n_dropped += block.n_dropped
                board.n_rows += len(block.codes)
                for fold, rows in contest.rule.split(block):
                    if fold in contest.contenders:
                        _score_fold(board, contest, fold, block.take(rows))
    return board


def _score_fold(board: Scoreboard, contest: Contest, fold: Any, block: Block) -> None:
    """Score rows of one fold by all its models, some rows at a time."""
    truth = np.searchsorted(contest.classes, block.classes)[block.codes]
    weights = np.ones(len(truth)) if block.weights is None else block.weights.astype(np.float64)
    size = max(1, _VALUES_AT_ONCE // max(block.n_features, len(contest.classes)))
    for start in range(0, len(truth), size):
        piece = slice(start, min(start + size, len(truth)))
        rows = block.matrix(piece.start, piece.stop)
        for number, contender in contest.contenders[fold].items():
            place = (fold, number)
            if place in board.failures:
                continue
            try:
                scored = _scored(contender, rows, truth[piece], weights[piece], contest.tallies)
            except ValueError as error:
                board.failures[place] = f"counted from {block.row_name(piece.start)}: {error}"
                continue
            for tally in _tallies(board, contest, place).values():
                tally.add(scored)


def _tallies(board: Scoreboard, contest: Contest, place: Place) -> dict[str, Tally]:
    if place not in board.tallies:
        board.tallies[place] = {name: kind(len(contest.classes)) for name, kind in contest.tallies.items()}
    return board.tallies[place]


def _scored(
    contender: Contender,
    rows: Array,
    truth: NDArray[np.intp],
    weights: Array,
    tallies: Mapping[str, Any],
) -> Scored:
    scores = np.empty((len(rows), len(contender.state.classes)), order="F")
    log_joint = np.empty(len(rows)) if LOG_LIKELIHOOD in tallies else None
    for part in score_finalised(contender.state, rows, contender.missing):
        scores[part.positions] = part.posterior_scores
        if log_joint is not None:
            densities = part.joint_log_density
            log_joint[part.positions] = densities[np.arange(len(densities)), truth[part.positions]]
    return Scored(scores, truth, weights, log_joint)
