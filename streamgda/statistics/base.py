"""All statistics: how a state is read, filled, merged, compared and saved, and how others are derived.

Passes, models, files and ledgers treat floating and exact statistics alike, through `Statistics`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, islice
from operator import is_not
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgda.data.blocks import arrays, labels
from streamgda.data.blocks.block import Block
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.records import known_dates_as_days
from streamgda.data.blocks.schema import UNNAMED, Columns, Schema, is_of_one_thread, schema_in
from streamgda.data.blocks.sparse import DENSE, SparseRows, is_sparse
from streamgda.data.blocks.wording import as_html, named
from streamgda.data.storage import saving
from streamgda.data.storage.documents import table_digest
from streamgda.statistics.covariances import Array, CovarianceKind, CovarianceType, Indices, kind_named
from streamgda.statistics.kernels import Workspace
from streamgda.statistics.kernels.threads import in_threads
from streamgda.statistics.labelled import Labelled, squared_weights
from streamgda.statistics.locking import Locked, both_locked
from streamgda.statistics.required import Required
from streamgda.statistics.rules import RowRule, check_same, rule_in, to_metadata
from streamgda.statistics.validation import (
    as_affine_map,
    as_count,
    as_feature_names,
    as_feature_positions,
    check_feature_names,
    check_memory,
)

T = TypeVar("T")
S = TypeVar("S", bound="Statistics")

_CHANGES = count()
_BLOCKS_TOGETHER = 4  # which one thread adds up; more if the state is large, fewer if blocks are large
_MOST_VALUES = 1 << 24  # of a block, where a rule makes many features of the rows


class BesideStatistics:
    """A state that holds statistics, and more about the same rows."""

    statistics: Statistics

    @property
    def n_rows(self) -> int:
        """How many rows went into the statistics."""
        return self.statistics.n_rows

    @property
    def n_dropped(self) -> int:
        """How many rows were left out because something was missing."""
        return self.statistics.n_dropped


class Statistics(Locked, ABC):
    """Statistics of labelled rows; `ClassStatistics` says what they are.

    `merge` adds another state in place; ``+``, ``-`` and ``sum`` return a new one. What a state holds is one
    `Labelled`. A lock is held while it changes and while it is copied.

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

    exact = False  # a plain attribute, as it is asked before each prediction
    missing: ClassVar[str] = "raise"
    """What becomes of rows in which features are missing, as the parameter `missing` of a model says."""

    _labelled: Labelled[Any]
    _made: dict[str, Any]
    changes: NDArray[np.int64]
    rule: RowRule | None = None
    schema: Schema = UNNAMED

    def __init__(self, like: Any, feature_names: Sequence[str] | None) -> None:
        self.schema = Columns(None if feature_names is None else tuple(feature_names))
        self._n_dropped = 0
        self._set_labelled(Labelled.empty(like, 0 if feature_names is None else len(feature_names)))

    @classmethod
    def empty(cls, required: Required, feature_names: Sequence[str] | None = None, **own: Any) -> Self:
        """The state of no rows; ValueError if more is required than it can keep."""
        extra = {name: True for name, value in required.keywords().items() if value is True}
        return cls(required.covariance_type, feature_names=feature_names, **extra, **own)

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
        own = {"changes", "_made"}  # numbers and values of this process alone
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

    def _described_as(self, other: Statistics) -> Self:
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

    has_scatter: ClassVar[bool] = True
    """Whether the classes have covariances, by which rows can be compared."""

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
    def n_numbers(cls, kind: CovarianceKind, n_classes: int, n_features: int) -> int:
        """How many numbers of memory a state of so many classes and features takes at least."""
        return math.prod(kind.shape(n_classes, n_features))

    @classmethod
    @abstractmethod
    def _read_columns(
        cls,
        kind: CovarianceKind,
        columns: Mapping[str, NDArray[Any]],
        metadata: Mapping[str, Any],
        n_features: int,
    ) -> Labelled[Any]:
        """The labelled moments that `to_columns` wrote to these columns."""

    def _to_saved(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return self.to_columns()

    def digest(self) -> str:
        """SHA-256 of all that is held, in hexadecimal: the same for equal states, on any machine."""
        with self.lock:
            described = self.schema, self.rule, self._n_dropped  # which may change while the moments stay
            before, digest = self._made.get("digest", ((), ""))
            if not before or any(map(is_not, before, described)):
                digest = table_digest(*self.to_columns())
                self._made["digest"] = described, digest
            return str(digest)

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

    def _repr_html_(self) -> str:
        import pandas as pd

        with self.lock:
            classes = pd.Index(self.classes.tolist(), name="class")
            return as_html(repr(self), pd.DataFrame({"rows": self.counts, "weight": self.weights}, classes))

    # ------------------------------------------------------------------ questions to a state of any sort

    def moments_for(self, model: Any = None) -> Statistics:
        """The state from whose moments a model is computed.

        Parameters
        ----------
        model : estimator, optional
            The model. Unless it has `needs_all_classes`, a class may have no moments.

        Raises
        ------
        ValueError
            If the rows do not determine the moments.
        """
        return self

    @property
    def iteration(self) -> Any:
        """How the moments were found by iteration; None if they are sums of rows."""
        return None

    def simplest(self) -> Statistics:
        """The state of the same rows of the simplest sort that can hold them."""
        return self

    def absorbs(self, other: Statistics) -> bool:
        """Whether another state holds only what this sort can hold."""
        return other.missing in {"raise", self.missing}

    def alike(self, other: Statistics) -> Statistics:
        """The rows of another state in a state of this sort."""
        return other

    def _in_float64(self) -> Labelled[Any]:
        """The moments in float64, with their classes."""
        return self._labelled

    # ------------------------------------------------------------------ rows go in

    def update(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add labelled rows, in place.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_rows, n_features)
            Numbers of any real type. The names of the columns of a frame or Arrow table become those of the
            features. If the state has the same names in another order, columns are matched by name.
        y : array-like of shape (n_rows,)
            One integer, string or bool label per row. New ones may appear at any time.
        sample_weight : array-like of shape (n_rows,), optional
            How often each row counts; any number that is not negative. Below 1e-300, weights have few
            digits: multiply them first. A far row of little weight that comes before heavy ones takes digits
            from the scatter: its relative error was at most 8e-10 in 37,000 random states with weights from
            1e-12 to 1e12 and values up to 1e8. An exact state takes whole numbers below 2^53.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a value is NaN or infinite, a label is missing, a weight is negative, or the features are not
            those of the state. An exact state also refuses weights that are not whole and values that would
            be rounded. The state is then as it was.
        MemoryError
            If the rows are sparse, and have so many features that the state takes more memory than there is.
        """
        if is_sparse(X) and (self.exact or self.missing != "raise"):
            raise ValueError(f"{type(self).__name__} takes no sparse rows; {DENSE}")
        X = arrays.as_table(X, self.feature_names or ())
        rows = arrays.in_order_of(arrays.with_places(X, self.schema), self.feature_names)
        lists = () if rows is X else arrays.list_columns(X, arrays.column_names(rows))
        rows = known_dates_as_days(rows, self.schema)
        self.update_blocks(arrays.array_blocks(rows, y, sample_weight, lists=lists))
        return self

    def update_blocks(self, blocks: Iterable[Block], workspace: Workspace | None = None) -> None:
        """Add the rows of all blocks. If one block is refused, no rows are added.

        A task of a pass gives its workspace. Without one, the rows are in memory, and several threads add up
        those of several blocks.
        """
        together = self.state_of(blocks, workspace)
        if together is not None:
            self._merge(together, owned=True)  # nothing else holds it

    def state_of(self, blocks: Iterable[Block], workspace: Workspace | None = None) -> Self | None:
        """The rows of some blocks as a state of the same kind; None if there are no blocks."""
        blocks = self._to_add(blocks)
        if self.rule is not None and workspace is None:
            blocks = chain.from_iterable(map(self._cut, blocks))
        first = list(islice(blocks, 2)) if workspace is None else []
        stays_here, blocks = len(first) < 2 or is_of_one_thread(first[0].features), chain(first, blocks)
        del first  # else it stays in memory until the end
        if stays_here:
            return self._from_blocks(blocks, workspace or Workspace())
        together: Self | None = None
        groups = self._groups(blocks)
        for part in in_threads(self._of_group, groups, lambda group: self._n_bytes_of(group[0])):
            together = part if together is None else together._merge(part, owned=True)
        return together

    def _to_add(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """The blocks as they are added up: in the classes and features of the rule, and dense where need be.

        Raises
        ------
        MemoryError
            If the state of sparse rows takes more memory than the machine has.
        """
        rows = chain.from_iterable(map(self._sparse_or_dense, blocks))
        return rows if self.rule is None else map(self.rule.assign, rows)

    def _sparse_or_dense(self, block: Block) -> Iterator[Block]:
        """The rows of a block, which stay sparse if they are reduced without their zeros."""
        if not isinstance(block.features, SparseRows):
            return iter((block,))
        if self.rule is not None or not self._keeps_sparse:
            return block.dense()
        check_memory(self._n_bytes_of(block), block.n_features, self.covariance_type)
        return iter((block,))

    @property
    def _keeps_sparse(self) -> bool:
        """Whether sparse rows are reduced without their zeros."""
        return False

    def _groups(self, blocks: Iterator[Block]) -> Iterator[list[Block]]:
        """Yield consecutive blocks, so many that merging their states takes a small part of the time."""
        for block in blocks:
            n_values = self._n_values_of(block)
            of_state = self._n_bytes_of(block) // (4 * n_values)  # twice as many values as its state has
            n_blocks = max(min(_BLOCKS_TOGETHER, _MOST_VALUES // n_values), of_state)
            yield [block, *islice(blocks, max(1, n_blocks) - 1)]

    def _of_group(self, blocks: list[Block]) -> Self:
        """The state of the rows of some blocks, which is merged with others in their order."""
        state = self._from_blocks(blocks, Workspace())
        assert state is not None  # there are blocks
        return state

    def _cut(self, block: Block) -> Iterator[Block]:
        """The rows of a block, in equal blocks if a rule has made many features of them."""
        n_rows = len(block.codes)
        n_blocks = 1 if is_of_one_thread(block.features) else -(-self._n_values_of(block) // _MOST_VALUES)
        return iter([block]) if n_blocks < 2 else block.cut(-(-n_rows // n_blocks))

    def _n_values_of(self, block: Block) -> int:
        """How many numbers are added up of the rows of a block."""
        return max(1, len(block.codes) * block.n_features)

    def _n_bytes_of(self, block: Block) -> int:
        """About the size of the state of a block; of one class if no row of it counts."""
        return 8 * math.prod(self._labelled.kind.shape(max(1, len(block.classes)), block.n_features))

    def _from_blocks(self, blocks: Iterable[Block], workspace: Workspace) -> Self | None:
        """The state of the rows of some blocks; None if there are no blocks."""
        together: Self | None = None
        for block in blocks:
            part = self._from_block(block, workspace)
            together = part if together is None else together.merge(part)
            del block  # else it stays in memory while the next one is fetched
        return together

    @abstractmethod
    def _reduce(self, block: Block, workspace: Workspace) -> Any:
        """The moments of the classes of a block."""

    def _from_block(self, block: Block, workspace: Workspace) -> Self:
        """The state of the rows of a block."""
        block.schema.check_size(len(block.codes), block.features)
        if len(block.codes):
            moments = self._reduce(block, workspace)
            squares = squared_weights(block.codes, block.weights, as_integers=self.exact)
            labelled = Labelled(block.classes, block.counts.copy(), moments, squares)
        else:
            labelled = Labelled.empty(self._labelled.moments, block.n_features)
        return self._twin(labelled, schema=block.schema, _n_dropped=block.n_dropped)

    def _add_description(self, block: Block) -> None:
        """Add the features of a block and what it dropped; ValueError if it has other features."""
        schema = self.schema.union(block.schema)
        schema.check_size(len(block.codes), block.features)
        self._labelled.check_features(block.n_features)
        self.schema = schema
        self._n_dropped += block.n_dropped

    # ------------------------------------------------------------------ states add up

    def merge(self, other: Any) -> Self:
        """Add the rows of another state of the same kind, in place. The other is left as it is.

        Raises
        ------
        ValueError
            If one is exact and the other floating, or the two differ in covariance type, fourth moments,
            features or kind of label. This state is then as it was.
        TypeError
            If the other is no state.
        """
        if not isinstance(other, Statistics):
            name = type(self).__name__
            raise TypeError(f"only {name} merge with {name}; got {type(other).__name__}")
        return self._merge(other.copy() if other is self else other)

    def _merge(self, other: Statistics, *, owned: bool = False) -> Self:
        """Merge another state. If it is `owned`, nothing else holds it, and this one may take its arrays."""
        with both_locked(self, other):
            ours, theirs, schema = self._sides(other)
            ours._check_compatible(theirs)
            added = theirs._labelled
            self._set_labelled(
                ours._labelled.merged(added, owned=owned or theirs is not other),
                added.classes if ours is self else None,
                _n_dropped=self._n_dropped + theirs._n_dropped,
                schema=schema,
            )
        return self

    def _sides(self, other: Statistics) -> tuple[Self, Statistics, Schema]:
        """The state and another one as they can be merged, and the features of both."""
        return self._aligned(other)

    def _aligned(self, other: S) -> tuple[Self, S, Schema]:
        """The state and another one with the features of both; ValueError if these do not go together."""
        if self.schema is other.schema or self.schema == other.schema:
            return self, other, self.schema
        schema = self.schema.union(other.schema)
        schema.check_size(self.n_rows + other.n_rows)
        return self.in_schema(schema), other.in_schema(schema), schema

    def in_schema(self, schema: Schema) -> Self:
        """The state of the same rows with more features, which may share arrays with this one.

        Parameters
        ----------
        schema : Schema
            A union with that of this state. A feature that this state does not have has mean 0 and scatter 0.
        """
        with self.lock:
            places = self.schema.places_in(schema)
            if places is None:
                return self
            return self._twin(self._labelled.placed(places, len(schema.feature_names or ())), schema=schema)

    def _check_fits(self, other: Statistics) -> None:
        """Raise ValueError if another state is not of the kind that can be merged with this one."""
        with both_locked(self, other):
            ours, theirs, _ = self._sides(other)
            ours._check_compatible(theirs)
            labels.union(ours._labelled.classes, theirs._labelled.classes)

    def _check_compatible(self, other: Statistics) -> None:
        if other.missing != self.missing and not self.absorbs(other):
            raise ValueError(
                f"{other!r} holds rows in which features are missing, and {self!r} cannot; add the two by +, "
                "which gives a state that can"
            )
        if self.rule is not other.rule:
            check_same(self.rule, other.rule)
        self._labelled.check_compatible(other._labelled)

    def __add__(self, other: object) -> Self:
        if not isinstance(other, Statistics) or not self.absorbs(other):
            return NotImplemented
        return self.copy().merge(other)

    def __radd__(self, other: object) -> Self:
        """0 + state, which is how ``sum(states)`` begins."""
        return self.copy() if isinstance(other, int) and other == 0 else NotImplemented

    def __iadd__(self, other: object) -> Self:
        if not isinstance(other, Statistics) or not self.absorbs(other):
            return NotImplemented  # so that the sum is another state, as with `+`
        return self.merge(other)

    def __sub__(self, other: object) -> Self:
        """The state without the rows of another, which must all have gone into this one.

        Sums do not tell which rows they are of: what never went in is an error only if the state cannot hold
        so many rows, weight or scatter. Nor do they tell their age: `decay` the other state as much as a
        half-life has this one.

        A class without remaining rows is gone. No variance is ever negative. Exact states give the same bits
        as if these rows had never gone in. Floating states give the state of the remaining rows up to
        rounding, which is relative to the scatter of this state. If its rows vary 10⁴ times as much as the
        remaining ones, the variances of the result lose 8 digits; from 10⁸ times on they are lost, and may be
        0.

        Raises
        ------
        ValueError
            If the other state has a class that this one does not have, more rows or weight of a class, or
            more scatter than the rows of this one can have. Where features may be missing, this holds of the
            rows of each pattern.

        Warns
        -----
        RuntimeWarning
            If a variance keeps fewer than six correct digits. `ExactClassStatistics` loses none.
        """
        if not isinstance(other, Statistics):
            return NotImplemented
        with both_locked(self, other):
            ours, theirs, _ = self._aligned(self.alike(other))
            ours._check_compatible(theirs)
            if other.n_dropped > self.n_dropped:
                raise ValueError(f"cannot take back {other.n_dropped} dropped rows from {self.n_dropped}")
            rounding = getattr(self.rule, "rounding", 0.0)
            labelled = ours._labelled.subtract(theirs._labelled, rounding)
            rest = ours._twin(labelled, _n_dropped=self.n_dropped - other.n_dropped)
            if self.exact and not rest.n_rows:  # as if none had ever gone in
                rest._set_labelled(Labelled.empty(rest._labelled.moments, len(rest.feature_names or ())))
            ours._warn_of_lost_digits(rest)
            return rest

    def _warn_of_lost_digits(self, rest: Self) -> None:
        """Warn if rounding took digits from a variance of what is left of this state."""

    @abstractmethod
    def decay(self, factor: float) -> Self:
        """Weigh everything seen so far by a factor, in place."""

    # ------------------------------------------------------------------ states compare

    def allclose(self, other: Statistics, rtol: float = 1e-10) -> bool:
        """Whether two states have the same classes and counts, and the same moments up to rounding.

        Parameters
        ----------
        other : ClassStatistics, ExactClassStatistics or IncompleteStatistics
            The state to compare with.
        rtol : float, default=1e-10
            Allowed difference: of a weight, relative to it; of a mean, relative to it and to its
            feature's deviation; of a scatter, relative to those of its two features. Where features may be
            missing, this holds of the rows of each pattern.

        Returns
        -------
        bool

        Raises
        ------
        TypeError
            If the other is no state.
        """
        if not isinstance(other, Statistics):
            raise TypeError(f"statistics compare with statistics; got {type(other).__name__}")
        with both_locked(self, other):
            ours, theirs = other.alike(self), self.alike(other)
            is_alike = ours.schema.is_alike(theirs.schema)
            return is_alike and ours._in_float64().is_close(theirs._in_float64(), rtol)

    # ------------------------------------------------------------------ other states are derived

    def to_covariance_type(self, covariance_type: CovarianceType, *, fourth_moments: bool = False) -> Self:
        """A copy that keeps no more than another covariance type needs, and fourth moments if asked to.

        Raises
        ------
        ValueError
            If this state holds too little. "full" gives every type, and any other type gives only itself.
            Fourth moments are kept only with "full".
        """
        return self.narrowed(Required(covariance_type, fourth_moments))

    def narrowed(self, required: Required) -> Self:
        """A copy that keeps no more than is required; ValueError if this state holds too little."""
        with self.lock:
            return self._twin(self._labelled.narrowed(required))

    def of_classes(self, positions: Indices, classes: Labels | None = None) -> Self:
        """The state of the classes at these positions.

        If `classes` is given, it holds their new labels, sorted and without duplicates.
        """
        with self.lock:
            taken = self._labelled.take(positions)
            taken = taken.copy() if taken is self._labelled else taken
            return self._twin(taken if classes is None else taken.renamed(classes))

    def drop_class(self, label: Any) -> Self:
        """Forget all rows of a class, in place.

        Parameters
        ----------
        label : label
            One of `classes`, such as a mistyped one.

        Returns
        -------
        ClassStatistics or ExactClassStatistics
            This object.

        Raises
        ------
        ValueError
            If there is no such class, or the classes share one scatter, out of which one class cannot be
            taken.
        """
        with self.lock:
            k = labels.position_of(label, self._labelled.classes)
            if self._labelled.kind.is_pooled:
                raise ValueError(
                    f"{self!r} holds one scatter of all classes, so class {named(label)} stays in it; learn "
                    "the other rows anew, or keep statistics of the type 'full', as those of QDA"
                )
            self._set_labelled(self._labelled.take(np.delete(np.arange(len(self._labelled.classes)), k)))
        return self

    def as_one_class(self) -> Self:
        """A copy in which all rows are of the class 0.

        Examples
        --------
        >>> from streamgda import ClassStatistics
        >>> state = ClassStatistics("tied").update([[0.0], [2.0], [8.0]], ["cat", "cat", "dog"])
        >>> state.as_one_class().classes, state.as_one_class().scatter
        (array([0]), array([[34.66666667]]))
        """
        with self.lock:
            return self._twin(self._labelled.as_one_class(), rule=None)

    def select(self, features: ArrayLike) -> Self:
        """The state of the same rows with some of their features, in the order given.

        Parameters
        ----------
        features : list of str or of int, or mask of shape (n_features,)
            Names, positions, or True for each feature that is kept.

        Returns
        -------
        ClassStatistics or ExactClassStatistics
            The state of reading the rows with these features alone; with exact sums, to the last bit. Rows
            that were dropped because another feature was missing stay dropped.

        Raises
        ------
        ValueError
            If a feature is unknown or named twice, or none is left.

        Examples
        --------
        >>> from streamgda import ClassStatistics
        >>> state = ClassStatistics(feature_names=["a", "b"]).update([[1.0, 2.0], [3.0, 8.0]], [0, 0])
        >>> state.select(["b"]).means, state.select(["b"]).feature_names
        (array([[5.]]), ('b',))
        """
        with self.lock:
            known = self.feature_names
            positions = as_feature_positions(features, known, self.n_features)
            names = None if known is None else [known[i] for i in positions]
            selected = self._derived(self._labelled.selected(positions), names)
            selected.schema = selected.schema.with_types(self.schema.dates, self.schema.lists)
            return selected

    def relabel(self, mapping: Mapping[Any, Any]) -> Self:
        """The state of the same rows with other labels. Classes that get the same label become one.

        Parameters
        ----------
        mapping : dict
            New labels by old ones. Classes that are not in it keep theirs.

        Returns
        -------
        ClassStatistics or ExactClassStatistics
            The state of reading the rows with these labels; with exact sums, to the last bit.

        Raises
        ------
        ValueError
            If there is no such class, or new labels are of several kinds.

        Examples
        --------
        >>> from streamgda import ClassStatistics
        >>> state = ClassStatistics().update([[1.0], [3.0], [8.0]], ["cat", "kitten", "dog"])
        >>> merged = state.relabel({"kitten": "cat"})
        >>> merged.classes, merged.means.ravel(), merged.covariance().ravel()
        (array(['cat', 'dog'], dtype='<U3'), array([2., 8.]), array([1., 0.]))
        """
        with self.lock:
            classes = self._labelled.classes
            for label in mapping:
                labels.position_of(label, classes)
            if not len(classes):
                return self.copy()
            new = labels.as_labels([mapping.get(label, label) for label in classes.tolist()])
            return self._twin(self._labelled.relabelled(new), rule=None)

    def linear_map(
        self, A: ArrayLike, b: ArrayLike | None = None, *, feature_names: Sequence[str] | None = None
    ) -> Self:
        """The state of the rows A x + b, such as for other units, for sums of features, or for projections.

        Parameters
        ----------
        A : array-like of shape (n_new_features, n_features)
            The matrix.
        b : array-like of shape (n_new_features,), optional
            What is added; zero where not given.
        feature_names : sequence of str, optional
            The names of the new features. Where not given, features keep theirs if A is diagonal.

        Returns
        -------
        ClassStatistics or ExactClassStatistics
            Floating sums are rounded, relative to the variances and means of the terms of A x + b. Exact sums
            are those of A x + b before it is rounded to float64.

        Raises
        ------
        ValueError
            If the covariances of features are not kept ("diag"), if fourth moments are kept, or if A or b is
            not finite or has a wrong shape.

        Examples
        --------
        >>> from streamgda import ClassStatistics
        >>> state = ClassStatistics().update([[1.0, 2.0], [3.0, 8.0]], [0, 0])
        >>> difference = state.linear_map([[-1, 1]], [10], feature_names=["growth"])
        >>> difference.means, difference.covariance(), difference.feature_names
        (array([[13.]]), array([[[4.]]]), ('growth',))
        """
        with self.lock:
            matrix, shift = as_affine_map(A, b, self.n_features)
            if feature_names is None and np.array_equal(matrix, np.diag(np.diag(matrix))):
                feature_names = self.feature_names
            return self._derived(self._labelled.mapped(matrix, shift), feature_names)

    def _derived(self, labelled: Labelled[Any], feature_names: Sequence[str] | None) -> Self:
        """A state with these moments of new features, and all else as here."""
        schema = Columns(None if feature_names is None else tuple(feature_names))
        derived = self._twin(labelled, rule=None, schema=schema)
        check_feature_names(derived.feature_names, derived.n_features)
        return derived


def check_statistics(statistics: object) -> None:
    """Raise TypeError for anything but statistics."""
    if not isinstance(statistics, Statistics):
        where = (
            "of a model in its statistics_" if hasattr(statistics, "statistics_") else "as accumulate returns"
        )
        raise TypeError(f"statistics are needed, {where}; got {type(statistics).__name__}")
