"""The scores of a model as a few arrays, from which other systems compute its probabilities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from streamgda.models.estimators.classifier import finalised
from streamgda.models.estimators.scores import Finalised
from streamgda.models.gaussians.densities import DiagonalGaussians
from streamgda.models.gaussians.products import large_mean_tails
from streamgda.models.gaussians.shared import SharedGaussians
from streamgda.statistics.covariances import Array


@dataclass(frozen=True)
class ScoreFormula:
    """Ln p(x, k, j) of the subclasses j of K classes, up to a term that is the same for all of them.

    A class that is no mixture is its only subclass, and one of which no row has come has none. There are M
    subclasses, those of a class side by side.

    Attributes
    ----------
    kind : {"linear", "diagonal", "full"}
        How a score comes from the deviations z = x − centre: zᵀ matrix, −½ |z · matrix|² feature by feature,
        or −½ |zᵀ matrix|².
    centres : ndarray of shape (M, d); (1, d) if linear
        What is subtracted from x.
    mean_tails : ndarray of shape (M, d), or None
        What is subtracted after the centres, where float64 does not hold the means.
    matrices : ndarray of shape (d, M), (M, d) or (M, d, d), for the three kinds
        The matrices. At rank r < d, the last of d columns are zeros.
    constants : ndarray of shape (M,)
        What is added. It is −∞ for a subclass without density or of a class with a prior of zero.
    starts : ndarray of int of shape (K,)
        Where the subclasses of each class begin.
    temperature : float
        What ln p(x, k) is divided by before it becomes a posterior probability.
    linear : ndarray of shape (M, d), or None
        What is added for each feature, times x: ln p(v | k) of the dummies of categories.
    """

    kind: Literal["linear", "diagonal", "full"]
    centres: Array
    mean_tails: Array | None
    matrices: Array
    constants: Array
    starts: NDArray[np.intp]
    temperature: float
    linear: Array | None = None

    @property
    def members(self) -> list[NDArray[np.intp]]:
        """The subclasses of each class."""
        return np.split(np.arange(len(self.constants)), self.starts[1:])


def score_formula(model: Any, system: str) -> ScoreFormula:
    """The scores of a fitted model, for another system, such as "ONNX".

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the model has learnt no rows.
    ValueError
        If the model has ``missing="marginal"`` or ``predictive="student"``, or maps rows first.
    """
    state = finalised(model)
    check_formula(model, system)
    if model.maps_rows:
        raise ValueError(
            "no other system has the map that rows go through; to_sklearn() makes a pipeline of it and "
            "scikit-learn's RidgeClassifier"
        )
    return formula_of(state)


def check_formula(model: Any, system: str) -> None:
    """Raise ValueError for ``missing="marginal"`` and ``predictive="student"``, which have no formula."""
    if model.missing != "raise":
        raise ValueError(
            f"{system} takes complete rows alone; set missing='raise', and fill in missing values first, or "
            "leave such rows out, as a source does with missing='drop'"
        )
    if model.predictive != "plugin":
        raise ValueError(f"{system} takes no {model.predictive} densities; set predictive='plugin'")


def formula_of(state: Finalised[Any], *, of_distances: bool = False) -> ScoreFormula:
    """The scores by the densities and priors of a model; of rows after the map, if it has one.

    If it is `of_distances`, scores are −½ times squared distances, and −∞ for a class without a density.
    """
    seen = state.seen
    priors = np.zeros(len(seen.classes)) if of_distances else seen.log_priors.copy()
    densities, constants, starts = seen.densities.parts_with(priors)
    constants = np.zeros(len(constants)) if of_distances else constants
    constants[list(densities.singular)] = -np.inf
    normal = _quadratic(densities, constants) if of_distances else _normal(densities, constants)
    formula: ScoreFormula = seen.densities.with_rest(ScoreFormula(*normal, starts, state.temperature))
    if state.places is None:
        return formula
    sizes = np.zeros(len(state.classes), np.intp)
    sizes[state.places] = list(map(len, formula.members))
    return replace(formula, starts=np.cumsum(sizes) - sizes)


def _normal(densities: Any, constants: Array) -> tuple[Any, Array, Array | None, Array, Array]:
    """The kind, centres, low parts, matrices and constants of normal densities."""
    if densities.linear_terms is not None:
        centre, slopes, intercepts = densities.linear_terms
        return "linear", centre[None], None, slopes, constants + intercepts
    at_means = densities.posterior_scores_from(np.zeros((1, len(constants))))[0]
    return _quadratic(densities, constants + at_means)


def _quadratic(densities: Any, constants: Array) -> tuple[Any, Array, Array | None, Array, Array]:
    """The same by squared distances. The matrices of classes that share one are one in memory."""
    n_classes, n_features = densities.means.shape
    mean_tails = large_mean_tails(
        densities.mean_tails, np.array([np.diag(densities.covariance(k)) for k in range(n_classes)])
    )
    if isinstance(densities, DiagonalGaussians):
        return "diagonal", densities.means, mean_tails, 1 / np.sqrt(densities.variances), constants
    shared = isinstance(densities, SharedGaussians)
    whitenings = [densities.whitening] if shared else densities.whitenings
    matrices = np.zeros((len(whitenings), n_features, n_features))
    for matrix, whitening in zip(matrices, whitenings, strict=True):
        triangle = whitening.triangle
        matrix[:, : len(triangle)] = triangle.T
    matrices = np.broadcast_to(matrices, (n_classes, n_features, n_features))
    return "full", densities.means, mean_tails, matrices, constants
