"""The second read: each held-out row is scored by all the models of its fold at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamgda.blocks.arrays import array_blocks
from streamgda.blocks.block import Block, FoldRule
from streamgda.blocks.categories import Categories
from streamgda.blocks.labels import Labels
from streamgda.blocks.wording import Message, named
from streamgda.estimators.classifier import finalised
from streamgda.estimators.reading import MissingAtPrediction, check_rows
from streamgda.estimators.scores import Finalised, score_finalised
from streamgda.passes.compute import (
    Progress,
    Scheduler,
    compute_plan,
    opening_on,
    scheduler_for,
    single_blas_thread,
)
from streamgda.passes.graph import Plan, n_rows_of
from streamgda.scoring.inference import apart
from streamgda.selection.downdates import Codes, Downdate
from streamgda.selection.scorings import LOG_LIKELIHOOD, MEASURED, BinnedRocAuc, Metric, RocAuc, Scored
from streamgda.sources.base import Source, Split, begun, group_into_tasks
from streamgda.statistics.covariances import Array

_VALUES_AT_ONCE = 1 << 18  # limit on the numbers in a block of rows, or of their scores: 2 MB
_MOST_KEPT = 1 << 24  # areas are exact up to this many log-odds of all candidates: 128 MB


@dataclass(frozen=True)
class ModelScorer:
    """The densities of a model, without its statistics. Workers need nothing else."""

    state: Finalised[Any]
    missing: MissingAtPrediction

    def score(self, rows: Array, truth: Codes, weights: Array, *, log_joint: bool) -> Scored:
        """Score rows by the densities that the model predicts by."""
        scores = np.empty((len(rows), len(self.state.classes)), order="F")
        joint = np.empty(len(rows)) if log_joint else None
        for part in score_finalised(self.state, rows, self.missing):
            scores[part.positions] = part.posterior_scores
            if joint is not None:
                densities = part.joint_log_density
                joint[part.positions] = densities[np.arange(len(densities)), truth[part.positions]]
        return Scored(scores, truth, weights, joint, self.state.temperature)


Scorer = ModelScorer | Downdate
"""Scores rows by one model, or each row by the model of all other rows."""


@dataclass(frozen=True)
class MeasuredScorer:
    """A scorer of rows, and the kind of metric of each scoring."""

    scorer: Scorer
    metrics: Mapping[str, type[Any]]


@dataclass(frozen=True)
class ModelsByFold:
    """The models that score the rows of each fold: all that a task needs besides the rows.

    Attributes
    ----------
    rule : FoldRule
        The rule that gives the fold of a row.
    classes : ndarray of shape (K,)
        The classes of all the models, and of all rows.
    by_fold : dict of fold to dict of int to MeasuredScorer
        The models that score the rows of a fold, by their numbers.
    categories : Categories or None
        The categories of all the models, if columns have any.
    """

    rule: FoldRule
    classes: Labels
    by_fold: Mapping[Any, Mapping[int, MeasuredScorer]]
    categories: Categories | None = None


@dataclass
class HeldOutScores:
    """The metrics of all the models by their numbers, or why a model could not score a row."""

    n_rows: int = 0
    n_dropped: int = 0
    metrics: dict[int, dict[str, Metric]] = field(default_factory=dict)
    failures: dict[int, Message] = field(default_factory=dict)

    def __add__(self, other: HeldOutScores) -> HeldOutScores:
        """Merge the metrics of two sets of rows; this may change the first."""
        self.n_rows += other.n_rows
        self.n_dropped += other.n_dropped
        self.failures = {**other.failures, **self.failures}
        for number, theirs in other.metrics.items():
            ours = self.metrics.setdefault(number, theirs)
            if ours is not theirs:
                for name, metric in ours.items():
                    metric.merge(theirs[name])
        return self


def metrics_for(scorings: Sequence[str], n_rows: int, n_classes: int, n_models: int) -> dict[str, type[Any]]:
    """The kind of metric of each scoring; areas are exact as long as their scores take little memory."""
    is_exact = n_rows * n_classes * n_models <= _MOST_KEPT
    kinds = {name: MEASURED[name] for name in scorings}
    return {name: BinnedRocAuc if kind is RocAuc and not is_exact else kind for name, kind in kinds.items()}


def score_held_out(
    source: Source, models: ModelsByFold, scheduler: Scheduler, progress: Progress
) -> HeldOutScores:
    """Read a source once, and score each row by the models of its fold."""
    scheduler = scheduler_for(source, scheduler)
    groups = list(group_into_tasks(source.planned(opening_on(scheduler)), n_rows_of))
    plan = Plan(groups, score_splits, models)
    scores: HeldOutScores = compute_plan(plan, scheduler, progress)
    return scores


def score_splits(splits: Iterable[Split], models: ModelsByFold) -> HeldOutScores:
    """One task: score the rows of consecutive splits, in order."""
    found = HeldOutScores()
    with single_blas_thread:
        for split in begun(splits):
            for block in split.blocks():
                found.n_dropped += block.n_dropped
                found.n_rows += len(block.codes)
                same = block if models.categories is None else block.with_categories(models.categories)
                for fold, rows in models.rule.split(same):
                    if fold in models.by_fold:
                        score_block(found, models.classes, models.by_fold[fold], block.take(rows))
    return found


def score_block(
    found: HeldOutScores, classes: Labels, models: Mapping[int, MeasuredScorer], block: Block
) -> None:
    """Score rows by all the models of their fold, some rows at a time."""
    positions = np.searchsorted(classes, block.classes)
    known = classes.take(positions, mode="clip") == block.classes
    if not known[block.codes].all():
        raise ValueError(
            f"class {named(block.classes[~known][0])} was not among the rows when they were learnt: they "
            "have changed since; start again"
        )
    truth = positions[block.codes]
    weights = block.row_weights
    size = max(1, _VALUES_AT_ONCE // max(block.n_features, len(classes)))
    for start in range(0, len(truth), size):
        piece = slice(start, min(start + size, len(truth)))
        rows = block.matrix(piece.start, piece.stop)
        for number, measured in models.items():
            if number in found.failures:
                continue
            asks = LOG_LIKELIHOOD in measured.metrics
            try:
                scored = measured.scorer.score(rows, truth[piece], weights[piece], log_joint=asks)
            except ValueError as error:
                found.failures[number] = Message(f"counted from {block.row_name(start)}: ", Message.of(error))
                continue
            if number not in found.metrics:
                found.metrics[number] = {name: kind(len(classes)) for name, kind in measured.metrics.items()}
            for metric in found.metrics[number].values():
                metric.add(scored)


@dataclass(frozen=True)
class RowScorer:
    """The score of rows by a scoring, such as "neg_log_loss"; greater is better."""

    scoring: str

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score labelled rows.

        Raises
        ------
        ValueError
            If a row cannot be scored, or if the model does not know its class. For accuracy, a row of an
            unknown class is an error of prediction, and nothing is raised.
        """
        if self.scoring == "accuracy" or y is None:
            return float(estimator.score(X, y, sample_weight))
        maps, estimator = apart(estimator)
        rows = check_rows(estimator, X if maps is None else maps.transform(X))
        classes = estimator.statistics_.class_labels
        scorer = ModelScorer(finalised(estimator), estimator.missing)
        measured, found = MeasuredScorer(scorer, {self.scoring: MEASURED[self.scoring]}), HeldOutScores()
        for block in array_blocks(rows, y, sample_weight):
            for label in np.setdiff1d(block.classes, classes)[:1]:
                raise ValueError(
                    f"the model does not know class {named(label)}: no score by {self.scoring!r}"
                )
            score_block(found, classes, {0: measured}, block)
        for failure in found.failures.values():
            raise ValueError(failure)
        return found.metrics[0][self.scoring].score
