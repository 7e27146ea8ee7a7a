"""From normal densities with estimated parameters to predictive ones."""

from __future__ import annotations

from functools import partial

import numpy as np

from streamgda.data.blocks.wording import counted, named
from streamgda.extensions.students.densities import DiagonalStudents, Students
from streamgda.models.estimators.view import View
from streamgda.models.gaussians.base import Densities, Gaussians
from streamgda.models.gaussians.densities import DiagonalGaussians, SeparateGaussians
from streamgda.models.gaussians.regularisation import Regularisation
from streamgda.models.gaussians.shared import SharedGaussians
from streamgda.models.gaussians.whitening import Reason
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array


def predictive(gaussians: Gaussians, view: View) -> Densities:
    """The predictive densities of the classes: a step of a view's chain."""
    weights = view.numbers.weights
    how, is_shared = _regularisation_of(gaussians, weights), isinstance(gaussians, SharedGaussians)
    too_few: dict[int, Reason] = {
        int(k): partial(_too_few_rows, view.numbers, int(k), is_shared=is_shared)
        for k in np.flatnonzero(~(how.degrees > 0))
    }
    with np.errstate(divide="ignore", invalid="ignore"):
        scales = how.divisors / how.degrees * (1 + 1 / weights)
    degrees, scales = (np.where(how.degrees > 0, values, 1.0) for values in (how.degrees, scales))
    if isinstance(gaussians, DiagonalGaussians):
        return DiagonalStudents(gaussians, degrees, scales, too_few)
    return Students(gaussians, degrees, scales, too_few)


def _regularisation_of(gaussians: Gaussians, weights: Array) -> Regularisation:
    """How the covariances follow from the scatters of classes with these weights."""
    if isinstance(gaussians, SharedGaussians):
        return Regularisation.by_share(1.0, weights, int(gaussians.ranks[0]))
    if isinstance(gaussians, SeparateGaussians | DiagonalGaussians) and gaussians.regularisation is not None:
        return gaussians.regularisation
    dimension = 1 if isinstance(gaussians, DiagonalGaussians) else gaussians.means.shape[1]
    return Regularisation.by_share(0.0, weights, dimension)


def _too_few_rows(statistics: Statistics, k: int, *, is_shared: bool) -> ValueError:
    """The error for too few rows: of a class (at position k), or of all of them."""
    if is_shared:
        return np.linalg.LinAlgError(
            f"{counted(statistics.n_rows, 'row')} (of weight {statistics.weights.sum():g}) of "
            f"{counted(len(statistics.classes), 'class')} are too few for Student t densities of "
            f"{counted(statistics.n_features, 'feature')}; bring more rows, or set predictive='plugin'"
        )
    return np.linalg.LinAlgError(
        f"class {named(statistics.classes[k])}: {counted(statistics.counts[k], 'row')} (of weight "
        f"{statistics.weights[k]:g}), too few for a Student t density; bring more rows, or set "
        "pooling='bayes' or predictive='plugin'"
    )
