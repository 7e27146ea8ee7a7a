"""What a model reads of its statistics, and the steps from normal densities to those that score rows.

A room above may extend the view: name other classes, take some features to itself, or add a step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from streamgda.data.blocks.labels import Labels
from streamgda.models.gaussians.base import Densities
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array

Predictive = Literal["plugin", "student"]


@dataclass(frozen=True)
class View:
    """What a model reads of its statistics.

    Attributes
    ----------
    labels, weights : ndarray of shape (n_classes,)
        The labels and weights of the classes.
    numbers : Statistics
        The statistics of what is normal, of the classes or their parts.
    chain : tuple of callable
        The steps from the normal densities of `numbers` to those of rows. Each is called with densities and
        the view, and returns densities.
    n_parameters : float
        The free parameters of what is not normal.
    log_likelihood_beside : callable, optional
        What the rest adds to the log likelihood, from the normal densities.
    """

    labels: Labels
    weights: Array
    numbers: Statistics
    chain: tuple[Callable[[Any, View], Densities], ...] = ()
    n_parameters: float = 0.0
    log_likelihood_beside: Callable[[Any], float] = lambda gaussians: 0.0
