"""What every kind of statistics can do, whether its sums are floating or exact.

Whoever accumulates, finalises, saves, merges or refreshes statistics goes by this, and need not ask which
kind it has. What follows from what a kind holds is here too, so that the kinds themselves say what they
hold, what is read off it, and how it is added and taken away.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import partial
from os import PathLike
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgda.blocks.arrays import array_blocks
from streamgda.blocks.block import Block
from streamgda.blocks.labels import Labels
from streamgda.statistics.covariances import Array, CovarianceKind, CovarianceType
from streamgda.statistics.gather import Workspace


class Held(Protocol):
    """What a kind of statistics holds, under the labels that it belongs to."""

    @property
    def kind(self) -> CovarianceKind: ...
    @property
    def classes(self) -> Labels: ...
    @property
    def counts(self) -> NDArray[np.int64]: ...
    @property
    def n_features(self) -> int: ...
    def copy(self) -> Any: ...
    def as_one_class(self) -> Any: ...


class Statistics(ABC):
    """Statistics of labelled rows; `ClassStatistics` says what they are."""

    exact: ClassVar[bool]

    _labelled: Held
    _names: tuple[str, ...] | None
    _n_dropped: int
    _revision: object

    # ------------------------------------------------------------------ what a kind says

    @property
    @abstractmethod
    def weights(self) -> Array:
        """Sum of the sample weights of each class; shape (n_classes,)."""

    @property
    @abstractmethod
    def means(self) -> Array:
        """Weighted mean of each class; shape (n_classes, n_features)."""

    @property
    @abstractmethod
    def scatter(self) -> Array:
        """Σ w (x − mean)(x − mean)ᵀ within the classes."""

    @property
    @abstractmethod
    def sums(self) -> Array:
        """Σ w x of each class; shape (n_classes, n_features)."""

    @property
    @abstractmethod
    def outer_sums(self) -> Array:
        """Σ w x xᵀ in the shape of `scatter`."""

    @property
    @abstractmethod
    def has_fourth_moments(self) -> bool:
        """Whether third and fourth moments are kept."""

    @property
    @abstractmethod
    def fourth_moments(self) -> Array | None:
        """Σ w u_i² u_j² with u = x − mean; None where not kept."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held by the arrays of the state."""

    @abstractmethod
    def covariance(self, ddof: float = 0) -> Array:
        """The covariance within the classes: the scatter over the weight less `ddof`."""

    @abstractmethod
    def overall_mean(self) -> Array:
        """Weighted mean of all rows together; shape (n_features,)."""

    @abstractmethod
    def total_variance(self) -> Array:
        """Maximum-likelihood variance of each feature over all rows together; shape (n_features,)."""

    @abstractmethod
    def decay(self, factor: float) -> Self:
        """Weigh everything seen so far by a factor, in place."""

    @abstractmethod
    def to_covariance_type(self, covariance_type: CovarianceType, *, fourth_moments: bool = False) -> Self:
        """A copy that keeps no more than another covariance type needs."""

    @abstractmethod
    def allclose(self, other: Any, rtol: float = 1e-10) -> bool:
        """Whether two states agree in what they count and, up to rounding, in the rest."""

    @abstractmethod
    def to_columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """All that is held: arrays with a row for each class, and, as plain values, what goes with them."""

    @abstractmethod
    def _from_rows(self, block: Block, workspace: Workspace) -> Any:
        """What this kind holds of the rows of a block."""

    @abstractmethod
    def _merge(self, other: Any) -> None:
        """Add what another state of this kind holds: wholly, or, where it raises, not at all."""

    @abstractmethod
    def _subtract(self, other: Any) -> Any:
        """What is held less what another state of this kind holds."""

    def _take(self, held: Any) -> None:
        """Hold this from now on."""
        self._labelled = held
        self._revision = object()

    # ------------------------------------------------------------------ what is held

    @property
    def covariance_type(self) -> CovarianceType:
        """The kind of scatter that is kept: "full", "tied" or "diag"."""
        return self._labelled.kind.name

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the features, where known."""
        return self._names

    @property
    def n_dropped(self) -> int:
        """How many rows were left out because something was missing."""
        return self._n_dropped

    @property
    def revision(self) -> object:
        """An object that is another one whenever the state has changed, to see what is stale by."""
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
    def n_rows(self) -> int:
        """How many rows went in, whatever their weight."""
        return int(self._labelled.counts.sum())

    def _need_rows(self) -> None:
        if not self.n_rows:
            raise ValueError(f"there is no mean of no rows: {self!r}")

    # ------------------------------------------------------------------ rows go in

    def update(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add labelled rows, in place.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Numbers of any real type. A data frame's column names become the feature names.
        y : array-like of shape (n_rows,)
            One integer, string or bool label per row. New ones may appear at any time.
        sample_weight : array-like of shape (n_rows,), optional
            Repetitions of each row, whole or not; of an exact state, whole numbers below 2^53.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a value is NaN or infinite, a label is missing, a weight is negative, or the features
            are not those of the state; of an exact state, also if a weight is not whole or a value would
            have to be rounded. The state is then as it was.
        """
        self.update_blocks(array_blocks(X, y, sample_weight))
        return self

    def update_blocks(self, blocks: Iterable[Block], workspace: Workspace | None = None) -> None:
        """Add the rows of some blocks: of all, or, where one is refused, of none."""
        # A map holds no block while it fetches the next.
        parts = map(partial(self._of_block, workspace=workspace or Workspace()), blocks)
        together = next(parts, None)
        if together is not None:
            for part in parts:
                together.merge(part)
            self.merge(together)

    def _of_block(self, block: Block, workspace: Workspace) -> Self:
        part = self._twin(self._from_rows(block, workspace))
        part._names, part._n_dropped = block.feature_names, block.n_dropped
        return part

    # ------------------------------------------------------------------ states add up

    def merge(self, other: Any) -> Self:
        """Add the rows of another state of the same kind, in place. The other is left as it is.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If one is exact and the other floating, or the two differ in covariance type, fourth moments,
            features or kind of label. This state is then as it was.
        TypeError
            If the other is no state.
        """
        refuse_other_precision(self, other)
        if not isinstance(other, Statistics):
            name = type(self).__name__
            raise TypeError(f"only {name} merge with {name}; got {type(other).__name__}")
        check_compatible(self, other)
        self._merge(other._labelled.copy() if other is self else other._labelled)
        self._n_dropped += other.n_dropped
        self._names = self._names or other._names
        self._revision = object()
        return self

    def __add__(self, other: object) -> Self:
        return self.copy().merge(other) if isinstance(other, Statistics) else NotImplemented

    def __radd__(self, other: object) -> Self:
        """0 + state, which is how ``sum(states)`` begins."""
        return self.copy() if isinstance(other, int) and other == 0 else NotImplemented

    def __iadd__(self, other: object) -> Self:
        return self.merge(other) if isinstance(other, Statistics) else NotImplemented

    def __sub__(self, other: object) -> Self:
        """The state without the rows of another, which must all have gone into this one.

        Of exact states the same bits as if they had never been in; of others equal to the state of the
        remaining rows up to rounding. A class of which no row remains is gone. No variance is ever negative.

        Raises
        ------
        ValueError
            If the other state has a class that this one has not, more rows or weight of a class, or
            more scatter than this one's rows can hold.
        """
        if not isinstance(other, Statistics):
            return NotImplemented
        refuse_other_precision(self, other)
        check_compatible(self, other)
        if other.n_dropped > self.n_dropped:
            raise ValueError(f"cannot take back {other.n_dropped} dropped rows from {self.n_dropped}")
        rest = self._twin(self._subtract(other._labelled))
        rest._n_dropped -= other.n_dropped
        return rest

    def as_one_class(self) -> Self:
        """A copy in which all rows are of the class 0, for what holds of them whatever their class.

        Raises
        ------
        ValueError
            If the classes share one scatter, so that theirs are not known.
        """
        if self.covariance_type == "tied":
            raise ValueError(f"the scatter of each class is needed; {self!r} holds what they share")
        return self._twin(self._labelled.as_one_class())

    def copy(self) -> Self:
        """A state of its own with the same rows."""
        return self._twin(self._labelled.copy())

    def _twin(self, held: Any) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._take(held)
        return twin

    # ------------------------------------------------------------------ states are saved

    def save(self, path: str | PathLike[str], *, filesystem: Any = None) -> None:
        """Write the state as a Parquet table, which `load` reads back to the last bit.

        One row per class: DuckDB, Polars and pandas can read it; `streamgda.storage` says how.

        Parameters
        ----------
        path : str or path
            A file, or a URL such as "s3://bucket/state.parquet". What stands there is replaced.
        filesystem : pyarrow or fsspec filesystem, optional
            Where `path` is; found from `path` where not given.

        Raises
        ------
        OSError
            If it cannot be written. What stood there before is still there.

        Examples
        --------
        >>> import streamgda, tempfile
        >>> state = streamgda.ClassStatistics().update([[1.0], [3.0]], ["a", "a"])
        >>> path = f"{tempfile.mkdtemp()}/state.parquet"
        >>> state.save(path)
        >>> streamgda.load(path) == state
        True
        """
        from streamgda.storage import tables
        from streamgda.storage.columns import to_arrow

        columns, metadata = self.to_columns()
        tables.write(path, to_arrow(columns), metadata, filesystem)

    def _described(self) -> dict[str, Any]:
        """What every kind puts beside its columns."""
        return {
            "kind": type(self).__name__,
            "covariance_type": self.covariance_type,
            "n_features": self.n_features,
            "feature_names": self._names,
            "n_dropped": self._n_dropped,
        }


def refuse_other_precision(ours: Statistics, theirs: object) -> None:
    """Raise ValueError if one state is exact and the other is not."""
    if getattr(theirs, "exact", ours.exact) != ours.exact:
        raise ValueError(
            "exact and floating statistics do not merge, for the sum would not be exact; turn the exact ones "
            "into floating ones first with to_float()"
        )


def check_compatible(ours: Statistics, theirs: Statistics) -> None:
    """Raise ValueError, naming both sides, if two states cannot be merged."""
    if ours.covariance_type != theirs.covariance_type:
        raise ValueError(
            f"states of covariance types {ours.covariance_type!r} and {theirs.covariance_type!r} cannot be "
            "merged; narrow the richer one first with to_covariance_type"
        )
    if ours.has_fourth_moments != theirs.has_fourth_moments:
        raise ValueError(
            "a state with fourth moments and one without cannot be merged; leave them out of the first with "
            f"to_covariance_type({ours.covariance_type!r}), or accumulate both with fourth_moments=True"
        )
    if ours.n_features and theirs.n_features and ours.n_features != theirs.n_features:
        raise ValueError(f"states of {ours.n_features} and {theirs.n_features} features cannot be merged")
    if ours.feature_names and theirs.feature_names and ours.feature_names != theirs.feature_names:
        pairs = zip(ours.feature_names, theirs.feature_names, strict=True)
        position, (here, there) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
        raise ValueError(
            f"states of different features cannot be merged: feature {position} is {here!r} in one and "
            f"{there!r} in the other"
        )


def check_names(names: tuple[str, ...] | None, n_features: int) -> None:
    """Raise ValueError unless there is a name for each feature."""
    if names is not None and len(names) != n_features:
        raise ValueError(f"{len(names)} feature names for {n_features} features")
