"""Scorers of rows in memory by a fitted model, which are called as scikit-learn's are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgda.blocks.arrays import array_blocks
from streamgda.blocks.folds import FoldRule
from streamgda.blocks.wording import named
from streamgda.estimators.classifier import GaussianClassifier, finalised
from streamgda.estimators.rows import check_rows
from streamgda.selection.reading import HeldOutScores, MeasuredScorer, ModelsByFold, ModelScorer, score_fold
from streamgda.selection.scorings import METRICS


@dataclass(frozen=True)
class RowScorer:
    """The score of rows by a scoring, such as "neg_log_loss"; greater is better."""

    scoring: str

    def __call__(
        self, estimator: GaussianClassifier[Any], X: Any, y: Any, sample_weight: Any = None
    ) -> float:
        """Score labelled rows.

        Raises
        ------
        ValueError
            If a row cannot be scored, or is of a class that the model does not know, which counts as wrong
            in accuracy alone.
        """
        if self.scoring == "accuracy" or y is None:
            return float(estimator.score(X, y, sample_weight))
        rows, classes = check_rows(estimator, X), estimator.statistics_.classes
        measured = MeasuredScorer(
            ModelScorer(finalised(estimator), estimator.missing), {self.scoring: METRICS[self.scoring]}
        )
        models, found = ModelsByFold(FoldRule(1), classes, {0: {0: measured}}), HeldOutScores()
        for block in array_blocks(rows, y, sample_weight):
            for label in np.setdiff1d(block.classes, classes)[:1]:
                raise ValueError(
                    f"the model does not know class {named(label)}: no score by {self.scoring!r}"
                )
            score_fold(found, models, 0, block)
        for failure in found.failures.values():
            raise ValueError(failure)
        return found.metrics[0][self.scoring].score
