"""What every state holds of labelled rows: how it is replaced, read, compared and saved, at one moment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.schema import UNNAMED, Schema, schema_in
from streamgda.data.blocks.schema import Columns as PlainColumns
from streamgda.data.storage import saving
from streamgda.data.storage.documents import table_digest
from streamgda.statistics.covariances import Array, CovarianceKind, CovarianceType, kind_named
from streamgda.statistics.labelled import Labelled
from streamgda.statistics.locking import Locked, both_locked
from streamgda.statistics.required import Required
from streamgda.statistics.rules import RowRule, rule_in, to_metadata
from streamgda.statistics.validation import Columns, as_count, as_feature_names, check_feature_names

T = TypeVar("T")

_CHANGES = count()


class State(Locked, ABC):
    """A state of labelled rows.

    What it holds of them is one `Labelled`. A lock is held while it changes and while it is copied.

    Attributes
    ----------
    changes : ndarray of int
        A number for each class that grows with it, in an array that is replaced by every change. Where a
        class has the same number in two states of a process, it has the same rows in both.
    rule : RowRule or None
        The rule that gives rows their class before they are added up; None if it is that of their label.
    schema : Schema
        What the features are: columns of numbers, or what is made of other columns.
    """

    _labelled: Labelled[Any]
    _made: dict[str, Any]
    changes: NDArray[np.int64]
    rule: RowRule | None = None
    schema: Schema = UNNAMED

    def __init__(self, like: Any, feature_names: Sequence[str] | None) -> None:
        self.schema = PlainColumns(None if feature_names is None else tuple(feature_names))
        self._n_dropped = 0
        self._set_labelled(Labelled.empty(like, 0 if feature_names is None else len(feature_names)))

    @classmethod
    def empty(cls, required: Required, feature_names: Sequence[str] | None = None, **own: Any) -> Self:
        """The state of no rows; ValueError if more is required than it can keep."""
        make: Any = cls
        extra = {name: True for name, value in required.keywords().items() if value is True}
        state: Self = make(required.covariance_type, feature_names=feature_names, **extra, **own)
        return state

    def _set_labelled(self, labelled: Labelled[Any], changed: Labels | None = None, **others: Any) -> None:
        """Replace the state and other attributes by one store, so that nothing is ever half done.

        If `changed` is given, all other classes have the same rows as before. What is left to be written into
        arrays is written even if that is interrupted.
        """
        classes, number = labelled.classes, next(_CHANGES)
        changes = np.empty(len(classes), dtype=np.int64)
        changes.fill(number)
        if changed is not None and len(self.changes):
            ours = self._labelled.classes
            changes[slice(None) if classes is ours else classes.searchsorted(ours)] = self.changes
            changes[classes.searchsorted(changed)] = number
        try:
            self.__dict__.update(others, _labelled=labelled, changes=changes, _made={})
            labelled.write()
        except BaseException:
            if self.__dict__.get("_labelled") is labelled:
                labelled.write()
            raise

    def __getstate__(self) -> dict[str, Any]:
        own = {"changes", "_made"}  # which other processes do not know
        return {name: value for name, value in super().__getstate__().items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._set_labelled(self._labelled)

    def copy(self) -> Self:
        """A state of the same rows that does not change with this one."""
        with self.lock:
            twin = self._twin(self._labelled.copy())
            twin.changes, twin._made = self.changes, self._made
            return twin

    def _once(self, name: str, derive: Callable[[], T]) -> T:
        """What `derive` computes from the state at the first call; it is kept until the state changes."""
        with self.lock:
            if name not in self._made:
                self._made[name] = derive()
            value: T = self._made[name]
            return value

    def _twin(self, labelled: Labelled[Any], **others: Any) -> Self:
        """A state with other moments and other values of these attributes, and all else as here."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__, lock=twin.lock)
        for name, value in others.items():
            setattr(twin, name, value)
        twin._set_labelled(labelled)
        return twin

    def _described_as(self, other: State) -> Self:
        """Take over all that another state says of the same rows, but for their moments."""
        self.schema, self.rule, self._n_dropped = other.schema, other.rule, other._n_dropped
        return self

    # ------------------------------------------------------------------ what went in

    @property
    def covariance_type(self) -> CovarianceType:
        """The kind of scatter that is kept: "full", "tied" or "diag"."""
        name: CovarianceType = self._labelled.moments.kind.name
        return name

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the features, where known."""
        return self.schema.feature_names

    @property
    def n_dropped(self) -> int:
        """How many rows were left out because something was missing."""
        return self._n_dropped

    @property
    def classes(self) -> Labels:
        """The labels seen, sorted: an int64, str or bool array of shape (n_classes,)."""
        return self._labelled.classes.copy()

    @property
    def schema_of_rows(self) -> Schema:
        """What the features of rows are before the rule is applied to them."""
        mapped = None if self.rule is None else self.rule.schema
        return mapped or self.schema

    def by_label(self) -> Self:
        """The statistics of the classes, if a rule has divided their rows; else these."""
        with self.lock:
            if not self._labelled.classes.dtype.names:
                return self
            return self._twin(self._labelled.relabelled(self._labelled.classes["label"]), rule=None)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Rows seen of each class, whatever their weight; shape (n_classes,)."""
        return self._labelled.counts.copy()

    @property
    def effective_counts(self) -> Array:
        """Effective rows of each class, (Σ w)² / Σ w² for the weights w of its rows; shape (n_classes,).

        A weighted mean of rows varies as much as the plain mean of so many rows. If the rows of a class have
        equal weights, they are its count, and otherwise fewer. Where only the weight of a class is known, as
        in `from_sums` and in files of version 0.2, its rows have equal weights.

        References
        ----------
        Kish (1965), "Survey Sampling", section 11.7.

        Examples
        --------
        >>> from streamgda import ClassStatistics
        >>> ClassStatistics().update([[1.0], [2.0], [4.0]], ["a"] * 3, [2, 1, 1]).effective_counts.round(2)
        array([2.67])
        """
        with self.lock:
            counts, squares = self._labelled.counts.astype(np.float64), self._labelled.rounded_squares
            if squares is None:
                return counts
            weights = self.weights
            return np.clip(weights * (weights / squares), 1.0, counts)

    @property
    def weights_by_feature(self) -> Array:
        """Weight of the rows of each class that have a feature: (n_classes, n_features)."""
        return np.repeat(self.weights[:, None], self.n_features, axis=1)

    @property
    def n_features(self) -> int:
        """How many features a row has; 0 while nothing is known of them."""
        return self._labelled.n_features

    @property
    def has_fourth_moments(self) -> bool:
        """Whether third and fourth moments are kept."""
        return bool(self._labelled.moments.fourth_moments)

    @property
    def required(self) -> Required:
        """What is kept of the rows, to be required of other statistics."""
        return Required(self.covariance_type, self.has_fourth_moments, self._labelled.moments.exact)

    @property
    def n_rows(self) -> int:
        """How many rows went in, whatever their weight."""
        return int(self._labelled.counts.sum())

    @property
    def nbytes(self) -> int:
        """The size of the arrays of the state in bytes."""
        return self._labelled.nbytes

    # ------------------------------------------------------------------ moments

    @property
    @abstractmethod
    def _moments(self) -> Any:
        """The moments of the rows in float64: `Moments` or `ExactMoments`, from which all below is read."""

    @property
    def reasons(self) -> Mapping[int, Callable[[], Exception]]:
        """Why classes have no moments, by their positions."""
        return {}

    @property
    def weights(self) -> Array:
        """Sum of the sample weights of each class; shape (n_classes,)."""
        with self.lock:
            return np.array(self._moments.weights, order="C")

    @property
    def means(self) -> Array:
        """Weighted mean of each class; shape (n_classes, n_features)."""
        with self.lock:
            return np.array(self._moments.rounded_means, order="C")

    @property
    def mean_tails(self) -> Array:
        """The low parts of the means: what `means` lacks of them; shape (n_classes, n_features)."""
        with self.lock:
            return np.array(self._moments.mean_tails, order="C")

    @property
    def scatter(self) -> Array:
        """Σ w (x − mean)(x − mean)ᵀ within the classes.

        Shape (n_classes, n_features, n_features) for "full", (n_features, n_features) for "tied",
        (n_classes, n_features) for "diag".
        """
        with self.lock:
            return np.array(self._moments.scatter, order="C")

    @property
    def sums(self) -> Array:
        """Σ w x of each class, for exchange with SQL engines; shape (n_classes, n_features).

        It is infinite where it exceeds float64, as are `outer_sums`.
        """
        with self.lock:
            return np.array(self._moments.sums, order="C")

    @property
    def outer_sums(self) -> Array:
        """Σ w x xᵀ in the shape of `scatter`, for exchange with SQL engines.

        With floating sums, it loses digits that `scatter` keeps if means are large beside deviations.
        """
        with self.lock:
            return np.array(self._moments.outer_sums, order="C")

    @property
    def third_moments(self) -> Array | None:
        """Σ w u_i² u_j with u = x − mean: (n_classes, n_features, n_features); None where not kept."""
        return self._co_moments("third")

    @property
    def fourth_moments(self) -> Array | None:
        """Σ w u_i² u_j² with u = x − mean: (n_classes, n_features, n_features); None where not kept."""
        return self._co_moments("fourth")

    def _co_moments(self, name: str) -> Array | None:
        with self.lock:
            return np.array(getattr(self._moments, name)) if self.has_fourth_moments else None

    def covariance(self, ddof: float = 0) -> Array:
        """The covariance within the classes: the scatter over the weight less `ddof`.

        Parameters
        ----------
        ddof : float, default=0
            Subtracted from the weight of each class. 0 gives the maximum-likelihood estimate, 1
            the unbiased one. For "tied", where the scatter is pooled, it counts once per class.

        Returns
        -------
        ndarray
            In the shape of `scatter`. With exact sums it is rounded once, and infinite where it exceeds
            float64.

        Raises
        ------
        ValueError
            If a class (for "tied", all classes together) has no more weight than `ddof` takes away, or, with
            floating sums, a feature is so small that float64 does not hold all digits of its squares.
        """
        with self.lock:
            moments = self._moments
            moments.check_squares(self.schema.feature_names)
            try:
                covariance: Array = moments.covariance(ddof)
            except ZeroDivisionError as error:
                raise ValueError(
                    f"a covariance with ddof={ddof} needs more weight than there is in {self!r}"
                ) from error
            return covariance

    def overall_mean(self) -> Array:
        """Weighted mean of all rows together; shape (n_features,)."""
        return self._of_all_rows("overall_mean")

    def total_variance(self) -> Array:
        """Maximum-likelihood variance of each feature over all rows together; shape (n_features,)."""
        return self._of_all_rows("total_variance")

    def _of_all_rows(self, name: str) -> Array:
        with self.lock:
            if not len(self._labelled.classes):
                raise ValueError(f"there is no mean of no rows: {self!r}")
            return np.array(getattr(self._moments, name))

    # ------------------------------------------------------------------ states compare

    def __eq__(self, other: object) -> bool:
        """Whether two states are the same to the last bit."""
        if not isinstance(other, type(self)):
            return NotImplemented
        with both_locked(self, other):
            ours, theirs = ((one.schema, one.n_dropped, one.rule) for one in (self, other))
            return ours == theirs and self._labelled.equals(other._labelled)

    def __repr__(self) -> str:
        labelled = self._labelled
        fourth = "fourth_moments=True, " if self.has_fourth_moments else ""
        return (
            f"{type(self).__name__}(covariance_type={labelled.kind.name!r}, {fourth}"
            f"classes={len(labelled.classes)}, features={labelled.n_features}, rows={labelled.counts.sum()})"
        )

    # ------------------------------------------------------------------ states are saved

    save = saving.save
    to_bytes = saving.to_bytes

    @abstractmethod
    def to_columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The state as arrays with a row for each class, and plain values that go with them."""

    @classmethod
    @abstractmethod
    def _read_columns(
        cls, kind: CovarianceKind, columns: Columns, metadata: Mapping[str, Any], n_features: int
    ) -> Labelled[Any]:
        """The labelled moments that `to_columns` wrote to these columns."""

    def _to_saved(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return self.to_columns()

    def digest(self) -> str:
        """SHA-256 of all that is held, in hexadecimal: the same for equal states, on any machine."""
        return table_digest(*self.to_columns())

    @classmethod
    def from_columns(cls, columns: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> Self:
        """The state from the columns and metadata that `to_columns` returned.

        Raises
        ------
        ValueError
            If no rows can have such a state. The message says why.
        """
        n_features = as_count(metadata["n_features"], "n_features")
        kind, state = kind_named(metadata["covariance_type"]), cls.__new__(cls)
        n_dropped = as_count(metadata["n_dropped"], "n_dropped")
        schema = schema_in(metadata, as_feature_names(metadata["feature_names"]))
        state.schema, state._n_dropped, state.rule = schema, n_dropped, rule_in(metadata)
        state._set_labelled(cls._read_columns(kind, columns, metadata, n_features))
        check_feature_names(state.feature_names, n_features)
        return state

    def _metadata(self) -> dict[str, Any]:
        """The metadata that every state saves with its columns."""
        return {
            "kind": type(self).__name__,
            "covariance_type": self.covariance_type,
            "n_features": self.n_features,
            "n_dropped": self._n_dropped,
            **to_metadata(self.rule),
            **self.schema.to_metadata(),
        }
