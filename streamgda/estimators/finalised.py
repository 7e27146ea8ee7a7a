"""The densities of a model, computed from its statistics and its parameters.

They are valid until the statistics or the parameters change. After a batch, they say which classes have
changed, so that not everything has to be computed anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.labels import Labels
from streamgda.gaussians.base import Densities, Gaussians
from streamgda.gaussians.updated import LearntRows, UpdatedGaussians, is_worth_following
from streamgda.gaussians.whitening import Reason
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array
from streamgda.statistics.revisions import Revision

G = TypeVar("G", bound=Gaussians)
T = TypeVar("T")


@dataclass(frozen=True)
class Finalised(Generic[G]):
    """The densities and priors of a model, and the revision and parameters that they were computed from.

    Attributes
    ----------
    revision : object
        The revision of the statistics.
    params : dict
        The parameters of the estimator.
    classes : ndarray of shape (n_classes,)
        The labels, in the order of the columns of scores.
    gaussians : Gaussians
        The normal densities of the classes, with the means and covariances of the model.
    densities : Densities
        The densities that score rows: `gaussians`, or those of the parameter `predictive`.
    priors, log_priors : ndarray of shape (n_classes,)
        Prior probabilities, and their logarithms. The log prior of a singular class is −∞.
    temperature : float
        What scores are divided by before they become posterior probabilities.
    """

    revision: object
    params: dict[str, Any]
    classes: Labels
    gaussians: G
    densities: Densities
    priors: Array
    log_priors: Array
    temperature: float
    _derived: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, model: Any, statistics: Statistics, gaussians: G, densities: Densities, priors: Array
    ) -> Self:
        """The densities and priors of a model, computed from its current parameters and these statistics."""
        with np.errstate(divide="ignore"):
            log_priors = np.log(priors)
        log_priors[list(densities.singular)] = -np.inf
        return cls(
            statistics.revision,
            model.get_params(deep=False),
            statistics.class_labels,
            gaussians,
            densities,
            priors,
            log_priors,
            float(model.temperature),
        )

    @property
    def singular(self) -> list[tuple[Any, Reason]]:
        """The labels of classes without a density, and the reason of each."""
        return [(self.classes[k].item(), reason) for k, reason in self.densities.singular.items()]

    def once(self, name: str, derive: Callable[[], T]) -> T:
        """The cached value of this name, which `derive` computes at the first call."""
        if name not in self._derived:
            self._derived[name] = derive()
        value: T = self._derived[name]
        return value

    @property
    def is_update(self) -> bool:
        """Whether these are earlier densities, updated. Densities computed anew differ in the last bits."""
        return isinstance(self.gaussians, UpdatedGaussians)

    # ------------------------------------------------------------------ what has changed since

    def unchanged(self, classes: Labels, later: list[Revision]) -> NDArray[np.intp]:
        """The position of each class here; −1 if it is new, or has changed in later revisions.

        The reason of a singular class holds its position. So if there are new classes, a singular class
        counts as changed.
        """
        positions = np.full(len(classes), -1)
        positions[np.searchsorted(classes, self.classes)] = np.arange(len(self.classes))
        for revision in later:
            assert revision.classes is not None  # it is not the first of a chain
            positions[np.searchsorted(classes, revision.classes)] = -1
        if len(classes) > len(self.classes):
            positions[np.isin(positions, list(self.gaussians.singular))] = -1
        return positions

    def learnt_since(self, statistics: Statistics, later: list[Revision], centre: Array) -> LearntRows | None:
        """The rows of later revisions; None if they are not known, or an update does not save time.

        None too if a row is of a new class. `centre` is that of the densities.
        """
        blocks = [revision.rows for revision in later if revision.rows is not None]
        n_classes, n_rows = len(self.classes), sum(len(block.codes) for block in blocks)
        if len(blocks) < len(later) or n_classes < len(statistics.counts):
            return None
        if not is_worth_following(statistics.n_features, n_classes, n_rows):
            return None
        weights = np.concatenate([block.row_weights for block in blocks])
        positions = [np.searchsorted(self.classes, block.classes)[block.codes] for block in blocks]
        classes, codes = np.unique(np.concatenate(positions), return_inverse=True)
        some, rows = statistics.of_classes(classes), np.vstack([block.features for block in blocks])
        total = float(statistics.weights.sum())
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
