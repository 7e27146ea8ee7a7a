"""What diagnostics share: results that are tables, and checks of statistics before they are tested."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from streamgda.blocks.wording import as_html, counted, named
from streamgda.gaussians.whitening import Whitening
from streamgda.statistics.base import Statistics, check_statistics
from streamgda.statistics.components import deficient_features, pooled_covariance, singular_features

if TYPE_CHECKING:
    import pandas as pd


class Table(ABC):
    """A result that is a table: readable as a string, and as a data frame for further work."""

    @abstractmethod
    def to_pandas(self) -> pd.DataFrame:
        """The table as a data frame."""

    def __str__(self) -> str:
        text: str = self.to_pandas().to_string(float_format="{:.6g}".format)
        return text

    def _repr_html_(self) -> str:
        return as_html(type(self).__name__, self.to_pandas())


def check_classes(statistics: Statistics, *, covariances: tuple[str, ...]) -> None:
    """Raise an error unless there are two classes or more, and one of these kinds of covariance."""
    check_statistics(statistics)
    if len(statistics.classes) < 2:
        raise ValueError(f"classes are compared, so at least two are needed; got {statistics!r}")
    if statistics.covariance_type not in covariances:
        kinds = " or ".join(map(repr, covariances))
        raise ValueError(
            f"the covariances of features are needed; accumulate with {kinds}; got {statistics!r}"
        )


def whitening_within(statistics: Statistics, least_eigenvalue: float) -> Whitening:
    """The whitening of the covariance within the classes.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the covariance is singular, or there are too few rows. The message names the features.
    """
    covariance, n_features = pooled_covariance(statistics), statistics.n_features
    whitening = Whitening.of(covariance, statistics.means, least_eigenvalue)
    n_classes = len(statistics.classes)
    freedom = float(statistics.weights.sum()) - n_classes
    if freedom < n_features:
        raise np.linalg.LinAlgError(
            f"{counted(n_features, 'feature')} in {counted(n_classes, 'class')} take "
            f"{n_features + n_classes:,} rows or more; leave features out with "
            f"statistics.select, or bring more rows. Got {statistics!r}"
        )
    if whitening.rank < n_features:
        features = deficient_features(statistics, covariance, least_eigenvalue)
        raise np.linalg.LinAlgError(
            f"the covariance within the classes has rank {whitening.rank} of {n_features}: {features}. "
            "Leave them out with statistics.select"
        )
    return whitening


def singular_class(
    statistics: Statistics, k: int, rank: int, least_eigenvalue: float
) -> np.linalg.LinAlgError:
    """The error for a class (at position k) with a singular covariance, which names its features."""
    return np.linalg.LinAlgError(
        f"class {named(statistics.classes[k])}: the covariance has rank {rank} of "
        f"{statistics.n_features}, from {counted(statistics.counts[k], 'row')}; "
        f"{singular_features(statistics, k, least_eigenvalue)}. Leave the class or features out, or "
        "bring more rows"
    )
