"""Densities that follow a stream: what has changed since they were finalised, and whether that is enough."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.block import Block
from streamgda.blocks.labels import Labels
from streamgda.estimators.finalised import Finalised
from streamgda.gaussians.updated import LearntRows, is_worth_following
from streamgda.statistics.base import Statistics
from streamgda.statistics.revisions import Revision

_PLAIN: dict[str, Any] = {
    "shrinkage": None,
    "reg_param": 0.0,
    "covariance_estimator": None,
    "pooling": None,
    "predictive": "plugin",
    "exact": False,
}


def is_plain(model: Any, *, but: Collection[str] = ()) -> bool:
    """Whether the covariances of a model are those of its statistics, and floating.

    Parameters
    ----------
    model : estimator
        A model.
    but : collection of str
        Parameters that may have any value.
    """
    return all(getattr(model, name, plain) == plain for name, plain in _PLAIN.items() if name not in but)


def learnt_from(before: Finalised[Any], statistics: Statistics, added: list[Revision]) -> LearntRows | None:
    """The rows that were added; None if they are not known, of a new class, or not worth following."""
    blocks = [update.rows for update in added if update.rows is not None]
    n_classes, n_rows = len(before.classes), sum(len(block.codes) for block in blocks)
    if len(blocks) < len(added) or n_classes < len(statistics.counts):
        return None
    if not is_worth_following(statistics.n_features, n_classes, n_rows):
        return None
    return _gathered(before, statistics, blocks)


def _gathered(before: Finalised[Any], statistics: Statistics, blocks: list[Block]) -> LearntRows:
    """The rows of some blocks, with their weights and classes."""
    weights = np.concatenate([block.row_weights for block in blocks])
    positions = [np.searchsorted(before.classes, block.classes)[block.codes] for block in blocks]
    classes, codes = np.unique(np.concatenate(positions), return_inverse=True)
    some, rows = statistics.of_classes(classes), np.vstack([block.features for block in blocks])
    total, centre = float(statistics.weights.sum()), before.gaussians.centre
    return LearntRows(
        rows=rows,
        weights=weights,
        codes=codes,
        classes=classes,
        means=some.means,
        low_parts=some.mean_tails,
        class_weights=some.weights,
        total=total,
        centre=centre + weights @ (rows - centre) / total,
    )


def changed_positions(before: Finalised[Any], classes: Labels, added: list[Revision]) -> NDArray[np.intp]:
    """Where each class was before, or −1 if it was not, or has changed: (n_classes,).

    The error of a class that is not estimated names it by its position, so it counts as changed where
    classes have come.
    """
    positions = np.full(len(classes), -1)
    positions[np.searchsorted(classes, before.classes)] = np.arange(len(before.classes))
    for update in added:
        positions[np.searchsorted(classes, update.classes)] = -1
    if len(classes) > len(before.classes):
        positions[np.isin(positions, list(before.gaussians.unestimated))] = -1
    return positions
