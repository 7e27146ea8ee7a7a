"""States are written as tables of columns, and read from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

from numpy.typing import NDArray

from streamgda.statistics.covariances import CovarianceKind, kind_named
from streamgda.statistics.labelled import Labelled
from streamgda.statistics.stateful import Stateful
from streamgda.statistics.validation import Columns, as_count, as_feature_names, check_feature_names
from streamgda.storage.digests import table_digest
from streamgda.storage.saving import Savable


class Storable(Stateful, Savable, ABC):
    """A state that is saved as a Parquet table, with a row for each class."""

    @abstractmethod
    def to_columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The state as arrays with a row for each class, and plain values that go with them."""

    @classmethod
    @abstractmethod
    def _read_columns(
        cls, kind: CovarianceKind, columns: Columns, metadata: Mapping[str, Any], n_features: int
    ) -> Labelled[Any]:
        """The sums, with their labels, that `to_columns` made such columns of."""

    def _to_saved(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return self.to_columns()

    def digest(self) -> str:
        """SHA-256 of all that is held, in hexadecimal: the same for equal states, on any machine."""
        return table_digest(*self.to_columns())

    @classmethod
    def from_columns(cls, columns: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> Self:
        """The state whose `to_columns` these are.

        Raises
        ------
        ValueError
            If they cannot be those of any rows; the message says why.
        """
        n_features = as_count(metadata["n_features"], "n_features")
        kind, state = kind_named(metadata["covariance_type"]), cls.__new__(cls)
        names = as_feature_names(metadata["feature_names"])
        n_dropped = as_count(metadata["n_dropped"], "n_dropped")
        state.__setstate__({"_names": None if names is None else tuple(names), "_n_dropped": n_dropped})
        state._set_labelled(cls._read_columns(kind, columns, metadata, n_features))
        check_feature_names(state.feature_names, n_features)
        return state

    def _metadata(self) -> dict[str, Any]:
        """What every state puts beside its columns."""
        return {
            "kind": type(self).__name__,
            "covariance_type": self.covariance_type,
            "n_features": self.n_features,
            "feature_names": self._names,
            "n_dropped": self._n_dropped,
        }
