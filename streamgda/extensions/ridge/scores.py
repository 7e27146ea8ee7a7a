"""The scores of classes that are linear in the features, without densities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.extensions.ridge.array_api import mapped
from streamgda.extensions.ridge.calibration import Calibrated
from streamgda.extensions.ridge.features import RandomFeatures
from streamgda.extensions.ridge.path import RidgePath
from streamgda.models.gaussians.posteriors import order_of
from streamgda.models.gaussians.products import is_near_zero, multiply_rows
from streamgda.models.gaussians.whitening import Reason
from streamgda.statistics.covariances import Array

_ROWS_TOGETHER = 256  # whose mapped features are in memory


@dataclass(frozen=True, eq=False)
class LinearScores:
    """Scores (x − centre) · slopes + intercepts of each class, in the place of densities.

    Attributes
    ----------
    centre : ndarray of shape (d,)
        What is subtracted from rows.
    slopes : ndarray of shape (d, K)
        Coefficients.
    intercepts : ndarray of shape (K,)
        The scores of `centre`.
    scale : float
        What the fitted values, or the logarithms of a softmax regression, have been multiplied with.
    path : RidgePath
        The regressions that the scores come from.
    alpha : float
        Their penalty.
    calibrated : Calibrated or None
        The calibration that is in the slopes.
    features : RandomFeatures or None
        The map that rows go through first.
    """

    centre: Array
    slopes: Array
    intercepts: Array
    scale: float
    path: RidgePath
    alpha: float
    calibrated: Calibrated | None = None
    features: RandomFeatures | None = None

    scores_from_distances = False
    why_none = common = regularisation = None
    singular: ClassVar[Mapping[int, Reason]] = MappingProxyType({})

    @cached_property
    def takes_sparse(self) -> bool:
        """Whether rows in CSR are scored by their stored values."""
        return self.features is None and is_near_zero(self.centre, self.slopes)

    @property
    def linear_terms(self) -> tuple[Array, Array, Array]:
        """Centre, slopes and intercepts, for rows that have been mapped."""
        return self.centre, self.slopes, self.intercepts

    def mapped(self, X: Any) -> Any:
        """Rows on a device, after the map."""
        return X if self.features is None else mapped(self.features, X)

    def posterior_scores(self, X: Array, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        """The scores of rows (n, d): (n, K). There are no priors in them: the shares are fitted, too."""
        if self.features is None:
            return self._of_mapped(X, out)
        parts = [
            self._of_mapped(self.features.transformed(X[start : start + _ROWS_TOGETHER]))
            for start in range(0, len(X), _ROWS_TOGETHER)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _of_mapped(self, X: Any, out: Array | None = None) -> Array:
        scores = multiply_rows(X, self.slopes, order_of(len(self.intercepts)), out, centre=self.centre)
        scores += self.intercepts
        return scores

    discriminants = posterior_scores

    def __getstate__(self) -> dict[str, Any]:
        """All but the path, which scores do not need and which is large."""
        return {**vars(self), "path": None}

    def parts_with(self, constants: Array) -> tuple[Self, Array, NDArray[np.intp]]:
        """The scores, what is added to them, and where the classes begin."""
        return self, np.zeros(len(constants)), np.arange(len(constants))

    def with_rest(self, formula: Any) -> Any:
        """The scores of rows as arrays (`ScoreFormula`)."""
        return formula

    def tables(self, columns: tuple[str, ...]) -> None:
        """None: there are no probabilities of categories."""

    def __getattr__(self, name: str) -> NoReturn:
        """Raise AttributeError for all that densities have besides."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            "regressions have no densities, and so no distances or likelihoods; LinearDiscriminantAnalysis "
            "learns from the same statistics and has them"
        )
