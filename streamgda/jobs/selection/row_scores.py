"""How a search scores rows: each held-out row by all the models of its fold at once, in the second read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.arrays import array_blocks
from streamgda.data.blocks.block import Block, FoldRule
from streamgda.data.blocks.labels import Codes, Labels
from streamgda.data.blocks.schema import UNNAMED, Schema
from streamgda.data.blocks.wording import RowError, named
from streamgda.data.sources.splits import Split
from streamgda.jobs.scoring.inference import maps_and_model, slices_of
from streamgda.jobs.selection.calibration import MEASURED
from streamgda.jobs.selection.scorings import LOG_LIKELIHOOD, Metric, Scored
from streamgda.models.estimators.classifier import finalised
from streamgda.models.estimators.reading import check_rows
from streamgda.models.estimators.scores import Finalised, score_finalised
from streamgda.statistics.covariances import Array
from streamgda.statistics.missing import MissingRows


@dataclass(frozen=True)
class ModelScorer:
    """The densities of a model, without its statistics. Workers need nothing else."""

    state: Finalised[Any]
    missing: MissingRows
    schema: Schema = UNNAMED

    def score(self, rows: Array, truth: Codes, weights: Array, *, log_joint: bool) -> Scored:
        """Score rows by the densities that the model predicts by."""
        scores = np.empty((len(truth), len(self.state.classes)), order="F")
        joint = np.empty(len(truth)) if log_joint else None
        for part in score_finalised(self.state, rows, self.missing):
            scores[part.positions] = part.posterior_scores
            if joint is not None:
                densities = part.joint_log_density
                joint[part.positions] = densities[np.arange(len(densities)), truth[part.positions]]
        return Scored(scores, truth, weights, joint, self.state.temperature)


MeasuredScorer = tuple[ModelScorer, Mapping[str, Callable[[int], Metric]]]
"""A scorer of rows, and the kind of metric of each scoring."""


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
    unseen : callable or None
        Which rows of a block judge the models, as of `RowRule`: those whose labels made no rule.
    """

    rule: FoldRule
    classes: Labels
    by_fold: Mapping[Any, Mapping[int, MeasuredScorer]]
    unseen: Callable[[Block], NDArray[np.bool_] | None] | None = None


@dataclass
class HeldOutScores:
    """The metrics of all the models by their numbers, or why a model could not score a row."""

    n_rows: int = 0
    n_dropped: int = 0
    metrics: dict[int, dict[str, Metric]] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)

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


def score_splits(splits: Iterable[Split], models: ModelsByFold) -> HeldOutScores:
    """One task: score the rows of consecutive splits, in order."""
    held_out = HeldOutScores()
    for block in chain.from_iterable(split.blocks() for split in splits):
        held_out.n_dropped += block.n_dropped
        held_out.n_rows += len(block.codes)
        some = None if models.unseen is None else models.unseen(block)
        judging = block if some is None else block.take(np.flatnonzero(some))
        for fold, rows in models.rule.split(judging):
            if fold in models.by_fold:
                _score_block(held_out, models.classes, models.by_fold[fold], judging.take(rows))
    return held_out


def _named_in(block: Block, start: int, error: ValueError) -> str:
    """The message of an error about some rows of a block from `start` on, with the name of its row."""
    if isinstance(error, RowError):
        error = error.moved(lambda row: start + row).named(block.row_name)
    return str(error)


def _score_block(
    held_out: HeldOutScores, classes: Labels, models: Mapping[int, MeasuredScorer], block: Block
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
    placed = {scorer.schema: block.in_schema(scorer.schema) for scorer, _ in models.values()}
    for where in slices_of(block, len(classes)):
        rows = {schema: one.values(where) for schema, one in placed.items()}
        for number, (scorer, kinds) in models.items():
            if number in held_out.failures:
                continue
            try:
                scored = scorer.score(
                    rows[scorer.schema], truth[where], weights[where], log_joint=LOG_LIKELIHOOD in kinds
                )
            except ValueError as error:
                held_out.failures[number] = _named_in(block, where.start, error)
                continue
            if number not in held_out.metrics:
                held_out.metrics[number] = {name: kind(len(classes)) for name, kind in kinds.items()}
            for metric in held_out.metrics[number].values():
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
        maps, estimator = maps_and_model(estimator)
        rows = check_rows(estimator, X if maps is None else maps.transform(X))
        classes = estimator.known_labels
        scorer, held_out = ModelScorer(finalised(estimator), estimator.missing), HeldOutScores()
        measured = scorer, {self.scoring: MEASURED[self.scoring]}
        for block in array_blocks(rows, y, sample_weight):
            for label in np.setdiff1d(block.classes, classes)[:1]:
                raise ValueError(
                    f"the model does not know class {named(label)}: no score by {self.scoring!r}"
                )
            _score_block(held_out, classes, {0: measured}, block)
        for failure in held_out.failures.values():
            raise ValueError(failure)
        return held_out.metrics[0][self.scoring].score
