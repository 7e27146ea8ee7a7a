"""The scores of a model as a few arrays, from which other systems compute its probabilities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from streamgda.estimators.classifier import finalised
from streamgda.gaussians.categorical import CategoricalDensities
from streamgda.gaussians.densities import DiagonalGaussians
from streamgda.gaussians.mixtures import Mixtures
from streamgda.gaussians.products import large_low_parts
from streamgda.gaussians.shared import SharedGaussians
from streamgda.statistics.covariances import Array


@dataclass(frozen=True)
class ScoreFormula:
    """Ln p(x, k, j) of the subclasses j of K classes, up to a term that is the same for all of them.

    A class that is no mixture is its only subclass. There are M subclasses, those of a class side by side.

    Attributes
    ----------
    kind : {"linear", "diagonal", "full"}
        How a score comes from the deviations z = x − centre: zᵀ matrix, −½ |z · matrix|² feature by feature,
        or −½ |zᵀ matrix|².
    centres : ndarray of shape (M, d); (1, d) if linear
        What is subtracted from x.
    low_parts : ndarray of shape (M, d), or None
        What is subtracted after the centres, where float64 does not hold the means.
    matrices : ndarray of shape (d, M), (M, d) or (M, d, d), for the three kinds
        The matrices. At rank r < d, the last of d columns are zeros.
    constants : ndarray of shape (M,)
        What is added. It is −∞ for a subclass without density or of a class with a prior of zero.
    starts : ndarray of int of shape (K,)
        Where the subclasses of each class begin.
    temperature : float
        What ln p(x, k) is divided by.
    linear : ndarray of shape (M, d), or None
        What is added for each feature, times x: ln p(v | k) of the dummies of categories.
    """

    kind: Literal["linear", "diagonal", "full"]
    centres: Array
    low_parts: Array | None
    matrices: Array
    constants: Array
    starts: NDArray[np.intp]
    temperature: float
    linear: Array | None = None

    @property
    def by_class(self) -> list[NDArray[np.intp]]:
        """The subclasses of each class."""
        return np.split(np.arange(len(self.constants)), self.starts[1:])


def score_formula(model: Any, system: str) -> ScoreFormula:
    """The scores of a fitted model, for another system, such as "ONNX".

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the model has learnt no rows.
    ValueError
        If the model has ``missing="marginal"`` or ``predictive="student"``.
    """
    state = finalised(model)
    if model.missing != "raise":
        raise ValueError(f"{system} takes no missing values; set missing='raise'")
    if model.predictive != "plugin":
        raise ValueError(f"{system} takes no {model.predictive} densities; set predictive='plugin'")
    densities, starts = state.densities, np.arange(len(state.classes))
    constants = state.log_priors.copy()
    tables = densities if isinstance(densities, CategoricalDensities) else None
    if tables is not None:
        densities = tables.of_numbers
    if isinstance(densities, Mixtures):
        sizes = np.diff(densities.starts, append=len(densities.shares))
        starts, constants = densities.starts, np.repeat(constants, sizes) + np.log(densities.shares)
        densities = densities.components
    constants[list(densities.singular)] = -np.inf
    formula = ScoreFormula(*_normal(densities, constants), starts, state.temperature)
    return formula if tables is None else _with_categories(formula, tables)


def _normal(densities: Any, constants: Array) -> tuple[Any, Array, Array | None, Array, Array]:
    """The kind, centres, low parts, matrices and constants of normal densities."""
    if isinstance(densities, SharedGaussians) and densities.is_compact:
        return "linear", densities.centre[None], None, densities.slopes, constants + densities.intercepts
    constants = constants + densities.posterior_scores_from(np.zeros((1, len(constants))))[0]
    n_classes, n_features = densities.means.shape
    low_parts = large_low_parts(
        densities.low_parts, np.array([np.diag(densities.covariance(k)) for k in range(n_classes)])
    )
    if isinstance(densities, DiagonalGaussians):
        return "diagonal", densities.means, low_parts, 1 / np.sqrt(densities.variances), constants
    shared = isinstance(densities, SharedGaussians)
    whitenings = [densities.whitening] * n_classes if shared else densities.whitenings
    matrices = np.zeros((n_classes, n_features, n_features))
    for matrix, whitening in zip(matrices, whitenings, strict=True):
        triangle = whitening.triangle
        matrix[:, : len(triangle)] = triangle.T
    return "full", densities.means, low_parts, matrices, constants


def _with_categories(formula: ScoreFormula, densities: CategoricalDensities) -> ScoreFormula:
    """The scores of x − B z as those of the features (x, z), and what a table of probabilities adds."""
    n_classes, (p, n_dummies) = len(densities.log_tables), (formula.centres.shape[1], len(densities.groups))
    slopes = np.zeros((n_classes, p, n_dummies))
    for k in range(n_classes) if densities.slopes else ():
        slopes[k] = densities.slopes[min(k, len(densities.slopes) - 1)]
    if formula.kind == "linear":
        matrices = np.vstack([formula.matrices, -slopes[0].T @ formula.matrices])
    elif formula.kind == "diagonal":
        matrices = np.hstack([formula.matrices, np.zeros((n_classes, n_dummies))])
    else:
        of_dummies = -np.swapaxes(slopes, 1, 2) @ formula.matrices
        matrices = np.concatenate([formula.matrices, of_dummies], axis=1)
    beside = ((0, 0), (0, n_dummies))
    centres, low_parts = np.pad(formula.centres, beside), formula.low_parts
    low_parts = None if low_parts is None else np.pad(low_parts, beside)
    linear = np.pad(densities.log_tables, ((0, 0), (p, 0)))
    return replace(formula, centres=centres, low_parts=low_parts, matrices=matrices, linear=linear)
