"""The state of rows that went through a forest: weights of leaves by class, and of the pairs that occur."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from streamgda.data.blocks import labels
from streamgda.data.blocks.block import Block
from streamgda.data.storage.documents import TableColumns
from streamgda.extensions.leaves.counts import LeafCounts
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceKind, Indices, kind_named
from streamgda.statistics.kernels import Workspace
from streamgda.statistics.labelled import Labelled, squared_weights
from streamgda.statistics.validation import as_counts, check_columns

_ROWS_TOGETHER = 1 << 16  # whose pairs are counted at once
_SUMS = "leaf", "pair"


class LeafStatistics(Statistics):
    """Sufficient statistics of labelled rows at the leaves of a forest.

    They hold the weight of each class, of the rows of each class at each leaf, and of each pair of leaves
    that occurs in a row. If weights are whole, all are exact: the state of some rows has the same bits
    however they were cut, ordered or merged, and a state can be subtracted to the bit.

    Parameters
    ----------
    rule : LeafRows
        The forest.
    """

    has_scatter: ClassVar[bool] = False
    _labelled: Labelled[LeafCounts]

    def __init__(self, rule: Any) -> None:
        super().__init__(LeafCounts.zeros(kind_named("tied"), 0, rule.features.n_outputs), None)
        self._set_labelled(Labelled.empty(self._labelled.moments, rule.features.n_outputs))
        self.rule = rule

    @property
    def _moments(self) -> LeafCounts:
        return self._labelled.moments

    @property
    def _firsts(self) -> Indices:
        """The first leaf of each tree, and the number of all leaves."""
        firsts: Indices = cast("Any", self.rule).features.firsts
        return firsts

    @property
    def leaf_weights(self) -> NDArray[np.float64]:
        """Σ w of the rows at each leaf; shape (n_leaves,)."""
        return self._labelled.moments.leaf_weights

    @property
    def pairs(self) -> sp.csr_array:
        """Σ w of the rows at both of two leaves i ≤ j; shape (n_leaves, n_leaves)."""
        return self._labelled.moments.pairs.copy()

    def sums_of_leaves(self) -> LeafCounts:
        """The sums of all rows, which never change."""
        with self.lock:
            return self._labelled.moments

    # ------------------------------------------------------------------ rows go in

    def _runs(self, blocks: Iterator[Block]) -> Iterator[list[Block]]:
        """Yield consecutive blocks of many rows, whose pairs are counted at once."""
        run: list[Block] = []
        for block in blocks:
            run.append(block)
            if sum(len(one.codes) for one in run) >= _ROWS_TOGETHER:
                yield run
                run = []
        if run:
            yield run

    def _n_values_of(self, block: Block) -> int:
        return max(1, len(block.codes) * len(self._firsts))

    def _n_bytes_of(self, block: Block) -> int:
        return 12 * _ROWS_TOGETHER * len(self._firsts)

    def _from_blocks(self, blocks: Iterable[Block], workspace: Workspace) -> Self | None:
        together: Self | None = None
        for run in self._runs(iter(blocks)):
            part = self._from_run(run)
            together = part if together is None else together._merge(part, owned=True)
        return together

    def _reduce(self, block: Block, workspace: Workspace) -> LeafCounts:
        return self._from_run([block])._labelled.moments

    def _from_run(self, run: Sequence[Block]) -> Self:
        """The state of the rows of some blocks."""
        twin = self._twin(
            Labelled.empty(self._labelled.moments, self.n_features),
            _n_dropped=sum(one.n_dropped for one in run),
        )
        run = [block for block in run if len(block.codes)]
        if not run:
            return twin
        classes = run[0].classes
        for block in run[1:]:
            classes = labels.union(classes, block.classes)
        codes = np.concatenate([classes.searchsorted(block.classes)[block.codes] for block in run])
        leaves = np.concatenate([cast("Any", block.features).leaves_of(block) for block in run])
        is_weighed = any(block.weights is not None for block in run)
        weights = np.concatenate([block.row_weights for block in run]) if is_weighed else None
        counts = np.bincount(codes, minlength=len(classes))
        moments = LeafCounts.of(self._labelled.kind, leaves, self._firsts, codes, weights, len(classes))
        twin._set_labelled(Labelled(classes, counts, moments, squared_weights(codes, weights)))
        return twin

    def decay(self, factor: float) -> Self:
        """Weigh everything seen so far by a factor, in place; see `ClassStatistics.decay`."""
        if not 0 < factor <= 1:
            raise ValueError(f"the factor must be above 0 and at most 1; got {factor!r}")
        with self.lock:
            ours = self._labelled
            squares = ours.squared_weights if factor == 1 else ours.decayed_squares(factor)
            self._set_labelled(Labelled(ours.classes, ours.counts, ours.moments.times(factor), squares))
        return self

    # ------------------------------------------------------------------ states are saved

    def to_columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The state as arrays, and plain values that go with them.

        Returns
        -------
        columns : dict of ndarray
            "label", "count", "weight" and perhaps "squared_weight", (n_classes,). Of the matrices `by_class`
            ("leaf") and `pairs` ("pair"), in one row each: the steps between the places i × n_leaves + j of
            their numbers, as "leaf_step" and "pair_step", and the numbers, "leaf_weight" and "pair_weight".
        metadata : dict
            Plain values, as of `ClassStatistics`.
        """
        state = self.copy()  # of one moment; the lock is free again while it is written
        labelled, moments = state._labelled, state._labelled.moments
        columns = {
            **labels.label_columns(labelled.classes),
            "count": labelled.counts,
            "weight": moments.weights,
        }
        if labelled.squared_weights is not None:
            columns["squared_weight"] = labelled.squared_weights
        if len(labelled.classes):
            for name, matrix in zip(_SUMS, (moments.by_class, moments.pairs), strict=True):
                places, weights = _as_row(matrix)
                columns[f"{name}_step"], columns[f"{name}_weight"] = places[None], weights[None]
        return columns, state._metadata()

    @classmethod
    def n_numbers(cls, kind: CovarianceKind, n_classes: int, n_features: int) -> int:
        """How many numbers of memory a state of so many leaves takes at least."""
        return n_features

    @classmethod
    def from_columns(cls, columns: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> Self:
        """The state from what `to_columns` returned; ValueError if no rows can have such a state."""
        state = super().from_columns(columns, metadata)
        if state.n_features != state._firsts[-1]:
            raise ValueError(f"it has {state.n_features:,} leaves, and its forest {state._firsts[-1]:,}")
        return state

    @classmethod
    def _read_columns(
        cls, kind: CovarianceKind, columns: TableColumns, metadata: Mapping[str, Any], n_features: int
    ) -> Labelled[LeafCounts]:
        check_columns(("label", "count", "weight"), columns)
        n_classes = len(columns["label"])
        if not n_classes:
            return Labelled.empty(LeafCounts.zeros(kind, 0, n_features), n_features)
        check_columns([f"{name}_{part}" for name in _SUMS for part in ("step", "weight")], columns)
        shapes = (n_classes, n_features), (n_features, n_features)
        by_class, pairs = (
            _from_row(columns[f"{name}_step"], columns[f"{name}_weight"], shape)
            for name, shape in zip(_SUMS, shapes, strict=True)
        )
        counts, weights = as_counts(columns["count"]), np.asarray(columns["weight"], np.float64)
        if not (np.isfinite(weights).all() and (weights > 0).all() and (counts > 0).all()):
            raise ValueError("a class has no rows, or no weight")
        squares = columns.get("squared_weight")
        squares = squares if squares is not None and len(squares) else None
        return Labelled(
            labels.labels_in(columns), counts, LeafCounts(kind, weights, by_class, pairs), squares
        ).in_order()


def _as_row(matrix: sp.csr_array) -> tuple[NDArray[Any], NDArray[Any]]:
    """The steps between the places of the numbers of a matrix, and the numbers, in types that are short."""
    ordered = matrix.tocsr()
    ordered.sort_indices()
    coordinates = ordered.tocoo()
    places = coordinates.row.astype(np.int64) * matrix.shape[1] + coordinates.col
    steps, numbers = np.diff(places, prepend=0), ordered.data
    is_whole = (numbers == np.rint(numbers)).all() and numbers.max(initial=0) < 2**53
    return _short(steps), _short(numbers.astype(np.int64)) if is_whole else numbers


def _short(numbers: NDArray[np.int64]) -> NDArray[Any]:
    """The same whole numbers in the shortest unsigned type."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _from_row(steps: NDArray[Any], numbers: NDArray[Any], shape: tuple[int, int]) -> sp.csr_array:
    """The matrix that `_as_row` wrote; ValueError if its places are not inside."""
    places, values = np.cumsum(steps[0].astype(np.int64)), numbers[0].astype(np.float64)
    inside = len(places) == 0 or (
        places[0] >= 0 and places[-1] < shape[0] * shape[1] and (np.diff(places) > 0).all()
    )
    if len(places) != len(values) or not inside or not (values > 0).all() or not np.isfinite(values).all():
        raise ValueError("the weights of leaves are damaged")
    rows, columns = np.divmod(places, shape[1])
    return sp.coo_array((values, (rows, columns)), shape).tocsr()
