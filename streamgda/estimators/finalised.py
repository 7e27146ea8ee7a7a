"""What is finalised of statistics, and kept while they and the parameters stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array

T = TypeVar("T")


@dataclass(frozen=True)
class Finalised:
    """Densities, and the state and the parameters that they were made from."""

    revision: object
    params: dict[str, Any]
    gaussians: Any
    priors: Array
    log_priors: Array
    derived: dict[str, Any] = field(default_factory=dict)

    def once(self, name: str, derive: Callable[[], T]) -> T:
        """What is derived from the densities when it is first asked for."""
        if name not in self.derived:
            self.derived[name] = derive()
        value: T = self.derived[name]
        return value

    def is_of(self, model: Any) -> bool:
        """Whether the state is as it was, and the parameters are the same objects."""
        return self.revision is model.statistics_.revision and all(
            getattr(model, name) is value for name, value in self.params.items()
        )


def require_two_classes(statistics: Statistics) -> None:
    """Refuse statistics in which there is nothing to tell apart."""
    classes = statistics.classes
    if len(classes) < 2:
        seen = f"only 1 class: {classes[0]!s}" if len(classes) else "none"
        raise ValueError(f"a classifier needs rows of at least two classes; the data has {seen}")


def require_finite(statistics: Statistics) -> None:
    """Refuse exact sums that go beyond float64, as no floating ones do."""
    if statistics.exact and not np.isfinite(statistics.covariance()).all():
        raise ValueError("the features are too large: their squares exceed float64. Rescale them first")
