"""What a state of either sort is as an object: labelled sums behind a lock, with names and counts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from threading import RLock
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.labels import Labels
from streamgda.statistics.covariances import CovarianceType
from streamgda.statistics.labelled import ClassSums, Labelled
from streamgda.statistics.revisions import Revision


class Stateful:
    """Labelled sums that are replaced as a whole, and read, copied and pickled under a lock."""

    exact: bool
    keeps_patterns = False  # of observed features, in rows in which some are missing

    _labelled: Labelled[Any]

    def __init__(self, sums: ClassSums, feature_names: Sequence[str] | None) -> None:
        self._lock = RLock()
        self._names = None if feature_names is None else tuple(feature_names)
        self._n_dropped = 0
        self._set_labelled(Labelled.empty(sums, len(self._names or ())))

    def _set_labelled(self, labelled: Labelled[Any]) -> None:
        """Replace the state."""
        self._labelled = labelled
        self._revision = Revision()

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held while the state changes, and while it is copied.

        A thread that holds it reads several quantities of the same rows while others learn.
        """
        return self._lock

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in {"_lock", "_revision"}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=RLock(), _revision=Revision())

    @property
    def covariance_type(self) -> CovarianceType:
        """The kind of scatter that is kept: "full", "tied" or "diag"."""
        return cast("CovarianceType", self._labelled.kind.name)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the features, where known."""
        return self._names

    @property
    def n_dropped(self) -> int:
        """How many rows were left out because something was missing."""
        return self._n_dropped

    @property
    def revision(self) -> Revision:
        """Another object after every update, which tells what was added; for cache invalidation."""
        return self._revision

    @property
    def classes(self) -> Labels:
        """The labels seen, sorted: an int64, str or bool array of shape (n_classes,)."""
        return self._labelled.classes.copy()

    @property
    def counts(self) -> NDArray[np.int64]:
        """Rows seen of each class, whatever their weight; shape (n_classes,)."""
        return self._labelled.counts.copy()

    @property
    def n_features(self) -> int:
        """How many features a row has; 0 while nothing is known of them."""
        return self._labelled.n_features

    @property
    def has_fourth_moments(self) -> bool:
        """Whether third and fourth moments are kept."""
        return self._labelled.has_fourth

    @property
    def n_rows(self) -> int:
        """How many rows went in, whatever their weight."""
        return int(self._labelled.counts.sum())

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays of the state."""
        return self._labelled.nbytes

    def _check_has_rows(self) -> None:
        if not self.n_rows:
            raise ValueError(f"there is no mean of no rows: {self!r}")

    def copy(self) -> Self:
        """A state of the same rows that does not change with this one."""
        with self._lock:
            return self._twin(self._labelled.copy())

    def _twin(self, labelled: Labelled[Any]) -> Self:
        """A state with other sums, and all else as here."""
        twin = type(self).__new__(type(self))
        twin.__setstate__(self.__getstate__())
        twin._set_labelled(labelled)
        return twin

    # ------------------------------------------------------------------ states compare

    def __eq__(self, other: object) -> bool:
        """Whether two states are the same to the last bit."""
        if not isinstance(other, type(self)):
            return NotImplemented
        return (self.feature_names, self.n_dropped) == (
            other.feature_names,
            other.n_dropped,
        ) and self._labelled.equals(other._labelled)

    def __repr__(self) -> str:
        fourth = "fourth_moments=True, " if self.has_fourth_moments else ""
        return (
            f"{type(self).__name__}(covariance_type={self.covariance_type!r}, {fourth}"
            f"classes={len(self._labelled.classes)}, features={self.n_features}, rows={self.n_rows})"
        )
