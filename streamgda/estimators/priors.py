"""Prior probabilities of the classes: the parameter `priors`, or their shares of the rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array


def class_priors(priors: ArrayLike | None, statistics: Statistics, *, renormalise: bool) -> Array:
    """The prior probabilities of the classes of statistics.

    Parameters
    ----------
    priors : array-like of shape (n_classes,), or None
        As given by the user. None stands for the share of each class in the total weight.
    statistics : ClassStatistics
        The statistics.
    renormalise : bool
        Whether priors that do not sum to 1 are scaled to do so, or are an error.

    Returns
    -------
    ndarray of shape (n_classes,)

    Raises
    ------
    ValueError
        If the priors are not such.
    """
    if priors is None:
        weights = statistics.weights
        shares: Array = weights / weights.sum()
        return shares
    given = _numbers(priors)
    classes = statistics.classes
    if given.shape != classes.shape:
        raise ValueError(
            "Number of priors must match number of classes. There are "
            f"{len(classes)} classes, {', '.join(map(str, classes[:10]))}; priors have shape {given.shape}"
        )
    if not renormalise and not sum_to_one(given):
        raise ValueError(f"The sum of the priors should be 1. It is {given.sum():g}; got {given.tolist()}")
    if not (given >= 0).all() or not given.any():
        subject = "priors" if renormalise else "Priors"  # each word for word as in scikit-learn
        raise ValueError(f"{subject} must be non-negative. One must be above 0; got {given.tolist()}")
    scaled: Array = given / given.sum()
    return scaled


def sum_to_one(priors: ArrayLike) -> bool:
    """Whether priors sum to 1, up to 10⁻⁵."""
    return bool(np.isclose(_numbers(priors).sum(), 1))


def _numbers(priors: ArrayLike) -> Array:
    try:
        return np.array(priors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"priors must be numbers, one for each class; got {priors!r}") from error
