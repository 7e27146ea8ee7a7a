"""The temperature that is best for rows that models have not learnt: of a candidate, or of a fitted model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamgda.data.blocks.block import Block
from streamgda.data.blocks.wording import named
from streamgda.jobs.scoring import inference
from streamgda.jobs.scoring.calibration import (
    N_LOSSES,
    best_temperature,
    loss_at,
    losses_when_divided,
    warned_of,
)
from streamgda.jobs.selection.scorings import METRICS, Metric, Scored
from streamgda.models.estimators.classifier import GaussianClassifier
from streamgda.models.estimators.reading import blocks_to_learn, check_announced, check_has_learnt
from streamgda.statistics.covariances import Array

CALIBRATION = "temperature"


class CalibrationLosses(Metric):
    """The losses at several temperatures. The score is the best temperature, so greater is not better."""

    def __init__(self, n_classes: int) -> None:
        self._sums = np.zeros(N_LOSSES + 1)  # the last is the weight of the rows

    def add(self, rows: Scored) -> None:
        """Add scored rows."""
        scores = rows.scores * rows.temperature
        self._sums[:-1] += losses_when_divided(scores, rows.truth, rows.weights)
        self._sums[-1] += rows.weights.sum()

    @property
    def _means(self) -> Array:
        return self._sums[:-1] / self._sums[-1] if self._sums[-1] else np.full(N_LOSSES, np.nan)

    @property
    def score(self) -> float:
        """The temperature at which the mean loss is least."""
        return best_temperature(self._means)

    def loss_at(self, temperature: float) -> float:
        """The mean loss at a temperature; NaN without rows, or if the temperature is NaN."""
        return np.nan if np.isnan(temperature) else loss_at(self._means, temperature)


MEASURED: dict[str, Callable[[int], Metric]] = {**METRICS, CALIBRATION: CalibrationLosses}
"""The metrics for which rows are scored: the scorings, and the temperature."""


def calibrations(calibrate: Any) -> list[str]:
    """The additional metric that the parameter `calibrate` asks for.

    Raises
    ------
    ValueError
        If it is neither "temperature" nor None.
    """
    if calibrate not in (None, CALIBRATION):
        raise ValueError(f"calibrate is {CALIBRATION!r} or None; got {calibrate!r}")
    return [] if calibrate is None else [calibrate]


_PARTS = 10  # of the rows that a model is calibrated with, each of which is left out once


def calibrate(
    model: GaussianClassifier[Any], X: Any, y: ArrayLike, sample_weight: ArrayLike | None, *, learnt: bool
) -> None:
    """What `GaussianClassifier.calibrate` does."""
    check_has_learnt(model)
    losses = CalibrationLosses(len(model.classes_))
    blocks = list(blocks_to_learn(model, X, y, sample_weight, missing="raise", reset=False))
    for block in blocks:
        check_announced(block.classes, model.known_labels)
    for part in range(_PARTS):
        rows = [block.take(np.arange(part, len(block.codes), _PARTS)) for block in blocks]
        rows = [block for block in rows if len(block.codes)]
        for scored in _scored(_without(model, rows) if learnt else model, rows):
            losses.add(scored)
    if np.isnan(losses.score):
        raise ValueError("no row counts, so that no temperature is the best; give rows with positive weights")
    model.temperature = warned_of(losses.score)


def _without(model: GaussianClassifier[Any], rows: Sequence[Block]) -> GaussianClassifier[Any]:
    """A model of the other rows that this one has learnt."""
    statistics, rest = model.statistics_, copy(model)
    taken = model._empty(model.required_statistics(), statistics.rule)
    taken.update_blocks(rows)
    rest.statistics_ = statistics - taken
    rest.__dict__.pop("_cache", None)
    for label in np.setdiff1d(model.labels_of(statistics), rest.labels_of(rest.statistics_))[:1]:
        raise ValueError(f"class {named(label)} has no other rows than a tenth of these; give fewer of it")
    return rest


def _scored(model: GaussianClassifier[Any], rows: Sequence[Block]) -> Iterator[Scored]:
    """Rows with their scores, their classes and weights."""
    known = model.known_labels
    for block in rows:
        codes = np.searchsorted(known, block.classes)[block.codes]
        for where in inference.slices_of(block, len(known)):
            for scores in inference.score_slice(model, block, where):
                places = np.arange(where.start, where.stop)[scores.positions]
                yield Scored(
                    scores.posterior_scores,
                    codes[places],
                    block.row_weights[places],
                    temperature=scores.finalised.temperature,
                )
