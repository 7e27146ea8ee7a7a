"""The interface of all statistics, and the methods that floating and exact ones share.

Passes, models, files and ledgers treat floating and exact statistics alike, through `Statistics`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from streamgda.data.blocks import arrays, labels
from streamgda.data.blocks.block import Block
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.records import with_days
from streamgda.data.blocks.schema import Columns, MadeColumns, Schema
from streamgda.data.blocks.wording import as_html, named
from streamgda.statistics.covariances import CovarianceType, Indices
from streamgda.statistics.kernels import Workspace
from streamgda.statistics.kernels.threads import in_threads
from streamgda.statistics.labelled import Labelled, squared_weights
from streamgda.statistics.locking import both_locked
from streamgda.statistics.required import Required
from streamgda.statistics.rules import check_same
from streamgda.statistics.state import State
from streamgda.statistics.validation import as_affine_map, as_feature_positions, check_feature_names

S = TypeVar("S", bound="Statistics")

_BLOCKS_OF_RUN = 4  # which one thread adds up; more if the state is large, fewer if blocks are large
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


class Statistics(State):
    """Statistics of labelled rows; `ClassStatistics` says what they are.

    `merge` adds another state in place; ``+``, ``-`` and ``sum`` return a new one.
    """

    exact = False  # a plain attribute, as it is asked before each prediction
    missing: ClassVar[str] = "raise"
    """What becomes of rows in which features are missing, as the parameter `missing` of a model says."""

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

    def update(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add labelled rows, in place.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
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
        """
        X = arrays.as_table(X, self.feature_names or ())
        rows = arrays.in_order_of(arrays.with_places(X, self.schema), self.feature_names)
        lists = () if rows is X else arrays.list_columns(X, arrays.column_names(rows))
        rows = with_days(rows, self.schema)
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
        if self.rule is not None:
            blocks = map(self.rule.assign, blocks)
            blocks = chain.from_iterable(map(_pieces, blocks)) if workspace is None else blocks
        blocks = iter(blocks)
        first = list(islice(blocks, 2)) if workspace is None else []
        is_of_one_thread, blocks = len(first) < 2 or _is_of_one_thread(first[0]), chain(first, blocks)
        del first  # else it stays in memory until the end
        if is_of_one_thread:
            return self._from_blocks(blocks, workspace or Workspace())
        together: Self | None = None
        for part in in_threads(self._of_run, self._runs(blocks), lambda run: self._n_bytes_of(run[0])):
            together = part if together is None else together._merge(part, owned=True)
        return together

    def _runs(self, blocks: Iterator[Block]) -> Iterator[list[Block]]:
        """Yield consecutive blocks, so many that merging their states takes a small part of the time."""
        for block in blocks:
            n_values = max(1, len(block.codes) * block.n_features)
            of_state = self._n_bytes_of(block) // (4 * n_values)  # twice as many values as its state has
            n_blocks = max(min(_BLOCKS_OF_RUN, _MOST_VALUES // n_values), of_state)
            yield [block, *islice(blocks, max(1, n_blocks) - 1)]

    def _of_run(self, blocks: list[Block]) -> Self:
        """The state of the rows of a run, which is merged with others in their order."""
        state = self._from_blocks(blocks, Workspace())
        assert state is not None  # a run has blocks
        return state

    def _n_bytes_of(self, block: Block) -> int:
        """About the size of the state of a block."""
        return 8 * math.prod(self._labelled.kind.shape(len(block.classes), block.n_features))

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
            labelled = Labelled(block.classes, np.bincount(block.codes), moments, squares)
        else:
            labelled = Labelled.empty(self._labelled.moments, block.n_features)
        return self._twin(labelled, schema=block.schema, _n_dropped=block.n_dropped)

    def _expect(self, block: Block) -> None:
        """Count what a block dropped, and take its feature names; ValueError if it has other features."""
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
            named = self.feature_names
            positions = as_feature_positions(features, named, self.n_features)
            names = None if named is None else [named[i] for i in positions]
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


def _is_of_one_thread(block: Block) -> bool:
    """Whether the thread that gave a block must read its rows."""
    return isinstance(block.features, MadeColumns) and block.features.of_one_thread


def _pieces(block: Block) -> Iterator[Block]:
    """The rows of a block, in equal pieces if a rule has made many features of them."""
    n_rows = len(block.codes)
    n_pieces = 1 if _is_of_one_thread(block) else -(-n_rows * block.n_features // _MOST_VALUES)
    return iter([block]) if n_pieces < 2 else block.pieces(-(-n_rows // n_pieces))


def check_statistics(statistics: object) -> None:
    """Raise TypeError for anything but statistics."""
    if not isinstance(statistics, Statistics):
        where = (
            "of a model in its statistics_" if hasattr(statistics, "statistics_") else "as accumulate returns"
        )
        raise TypeError(f"statistics are needed, {where}; got {type(statistics).__name__}")
