"""The exact state: the same bits however the rows were cut, ordered, merged or taken back.

Its columns are those of a file. States also come from the integer sums of an SQL engine.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgda.data.blocks import labels
from streamgda.data.blocks.arrays import check_no_rounding
from streamgda.data.blocks.block import Block
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.wording import named
from streamgda.data.storage.documents import TableColumns
from streamgda.extensions.exact.numbers import ExactArray, ExactMoments, PythonIntegers
from streamgda.extensions.exact.reduction import reduce_block
from streamgda.extensions.exact.sums import Sums, check_no_others
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceKind, CovarianceType, kind_named
from streamgda.statistics.floating.moments import Moments
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.kernels import Workspace
from streamgda.statistics.labelled import Labelled
from streamgda.statistics.required import Required
from streamgda.statistics.validation import as_counts, check_columns, check_feature_names

_FURTHEST = 1 << 12  # far beyond the squares of float64; a file that claims more would cost memory


# ---------------------------------------------------------------------- checked sums


def _names(kind: CovarianceKind) -> tuple[str, str, str]:
    """The names of the sums in columns."""
    return "weight", "sum", "pooled_outer_sum" if kind.is_pooled else "outer_sum"


def _from_digits(
    columns: TableColumns, positions: Mapping[str, Any], name: str, shape: tuple[int, ...]
) -> ExactArray:
    """The numbers of this shape whose digits a file holds, in a row for each class."""
    digits, position, size = columns[f"{name}_digits"], positions[name], max(1, math.prod(shape[1:]))
    if digits.dtype.kind not in "iu" or digits.ndim != 2 or len(digits) != shape[0] or digits.shape[1] % size:
        raise ValueError(f"{name}_digits has shape {digits.shape}, which does not agree with the rest")
    if type(position) is not int or abs(position) > _FURTHEST:
        raise ValueError(f"a position is {position!r}, where a whole number of at most {_FURTHEST} is due")
    planes = digits.reshape(shape[0], digits.shape[1] // size, *shape[1:])
    return ExactArray.from_planes(np.moveaxis(planes, 1, 0).astype(np.int64), position)


def _whole(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError as error:
        raise ValueError(
            f"exact sums are integers; got {value!r} of type {type(value).__name__}, which may be rounded"
        ) from error


_WHOLE = np.frompyfunc(_whole, 1, 1)


def _labelled(
    classes: Labels, counts: NDArray[Any], sums: Sums, squares: PythonIntegers | None = None
) -> Labelled[Sums]:
    """The state that has these sums, for classes in any order.

    If the squares of weights are not given, the rows of a class have equal weights.

    Raises
    ------
    ValueError
        If a class stands twice or is empty, or no rows have these sums.
    """
    if counts.shape != classes.shape:
        raise ValueError("there must be one count for each class")
    if sums.weights.position < 0:
        raise ValueError("the weights of exact statistics are whole numbers")
    counts, weights = as_counts(counts), sums.weights.whole()
    if not (are_of_rows := (counts > 0) & (weights >= counts).astype(bool)).all():
        k = are_of_rows.argmin()
        raise ValueError(f"class {named(classes[k])} has count {counts[k]} and weight {weights[k]}")
    if not len(classes):
        return Labelled.empty(sums, sums.n_features)
    if not sums.rounded().are_of_rows(counts):
        raise ValueError("a variance would be negative, or a correlation exceed 1: these sums are of no rows")
    if squares is None and (weights != counts).any():
        squares = sums.least_squares(counts)
    return Labelled(classes, counts, sums, squares).in_order()


class ExactClassStatistics(Statistics):
    """Sufficient statistics of labelled rows with exact sums: the same rows give the same bits.

    The sums Σx and Σxxᵀ are kept as integers on a binary grid, of as many digits as they need. So the
    state of some rows is the same, to the last bit, however they were cut, ordered, merged or distributed;
    and subtraction is the true inverse of addition: rows can be taken out as if they had never been in.
    Means and covariances are the exact ones of the numbers given, each rounded once.

    It has the methods of `ClassStatistics`, but `decay` raises an error. Features are floats and integers of
    up to 64 bits, and bools. Decimals, fractions and text are rounded to the nearest float64, but a number
    beyond 2^53 that would be rounded is refused. Sample weights are whole numbers: repetitions of a row.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag"}, default="full"
        What is kept of the products of features: all of them for each class, all of them over all
        classes, or the squares in each class.
    feature_names : sequence of str, optional
        The names of the features. Later batches that carry names must carry these, in this order.

    References
    ----------
    Ozaki, Ogita, Oishi & Rump (2012), "Error-free transformations of matrix multiplication by using fast
    routines of matrix multiplication and its applications"; Demmel & Nguyen (2013), "Fast reproducible
    floating-point summation".

    Examples
    --------
    At an offset of 1e12, neighbouring floats are 1/8192 apart. Two features vary by a few of these steps,
    with little covariance. The floating state loses digits of the covariance, and the exact one none:

    >>> import numpy as np
    >>> from streamgda import ClassStatistics, ExactClassStatistics
    >>> rows = 1e12 + np.arange(20_000)[:, None] % [7.0, 11.0] / 8192
    >>> labels = np.zeros(len(rows), dtype=int)
    >>> ClassStatistics().update(rows, labels).covariance()[0, 0, 1].item()
    -4.4713541865...e-12
    >>> exact = ExactClassStatistics().update(rows, labels)
    >>> exact.covariance()[0, 0, 1].item()
    -4.471354186534882e-12
    >>> ExactClassStatistics().update(rows - 1e12, labels).covariance()[0, 0, 1].item()
    -4.471354186534882e-12

    Rows that were in and are taken out again leave no trace:

    >>> backwards = ExactClassStatistics().update(rows[::-1], labels)
    >>> stray = ExactClassStatistics().update([[1e300, -0.1]], [0])
    >>> backwards + stray - stray == exact
    True
    """

    exact = True
    _labelled: Labelled[Sums]

    def __init__(
        self, covariance_type: CovarianceType = "full", *, feature_names: Sequence[str] | None = None
    ) -> None:
        super().__init__(Sums.zeros(kind_named(covariance_type), 0, 0), feature_names)

    @classmethod
    def empty(cls, required: Required, feature_names: Sequence[str] | None = None, **own: Any) -> Self:
        """The state of no rows; ValueError if more is required than it can keep."""
        check_no_others(required)
        return cls(required.covariance_type, feature_names=feature_names, **own)

    @property
    def _moments(self) -> ExactMoments:
        return self._once("rounded", self._labelled.moments.rounded)

    def to_float(self) -> ClassStatistics:
        """The floating state of the same rows: means to twice the precision of float64, scatter rounded once.

        Returns
        -------
        ClassStatistics
            A state that can decay, and merge with other floating states.

        Raises
        ------
        ValueError
            If a scatter exceeds float64.
        """
        with self.lock:
            state = ClassStatistics(self.covariance_type)
            state._described_as(self)
            kind, weight_tails = self._labelled.kind, self._moments.weight_tails
            rounded = Moments(kind, self.weights, weight_tails, self.means, self.mean_tails, self.scatter)
            rounded.check_finite()
            squares = self._labelled.rounded_squares
            state._set_labelled(Labelled(self.classes, self.counts, rounded, squares))
            return state

    # ------------------------------------------------------------------ rows go in

    def update(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add rows, as `ClassStatistics.update`; an error for values that float64 would round."""
        check_no_rounding(X)
        return super().update(X, y, sample_weight)

    def _reduce(self, block: Block, workspace: Workspace) -> Sums:
        return reduce_block(block, self._labelled.kind, workspace)

    @classmethod
    def from_sums(
        cls,
        classes: ArrayLike,
        counts: ArrayLike,
        sums: ArrayLike,
        outer_sums: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        covariance_type: CovarianceType = "full",
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Statistics from raw sums of integers, of any size, such as SQL engines give of integer columns.

        Parameters
        ----------
        classes : array-like of shape (n_classes,)
            Labels, each once, in any order.
        counts : array-like of shape (n_classes,)
            Rows of each class.
        sums : array-like of int of shape (n_classes, n_features)
            Σ w x.
        outer_sums : array-like of int
            Σ w x xᵀ, in the shape of `scatter` for this kind of covariance.
        weights : array-like of int of shape (n_classes,), optional
            Σ w; the counts where not given.
        covariance_type, feature_names
            As for the class.

        Raises
        ------
        ValueError
            If a sum is no integer (a float may have been rounded), shapes do not agree, a class stands
            twice or is empty, or no rows could have these sums.

        Examples
        --------
        >>> s = ExactClassStatistics.from_sums(["b", "a"], [2, 1], [[4], [1]], [[[10]], [[1]]])
        >>> s == ExactClassStatistics().update([[1], [3], [1]], ["b", "b", "a"])
        True
        """
        state = cls(covariance_type, feature_names=feature_names)
        known, kind, counts = labels.as_labels(classes).copy(), state._labelled.kind, np.atleast_1d(counts)
        weights = counts if weights is None else np.atleast_1d(weights)
        sums, outer_sums = np.asarray(sums, dtype=object), np.asarray(outer_sums, dtype=object)
        if sums.ndim != 2 or not len(known) == len(counts) == len(weights) == len(sums):
            raise ValueError("counts, weights and sums must have one row for each class")
        shape = kind.shape(*sums.shape)
        if outer_sums.shape != shape:
            raise ValueError(
                f"outer_sums must have shape {shape} for {covariance_type!r}; got {outer_sums.shape}"
            )
        products = kind.packed(outer_sums)
        if (kind.unpacked(products, *sums.shape) != outer_sums).any():
            raise ValueError("outer_sums must be symmetric")
        exact = [ExactArray.from_integers(_WHOLE(values)) for values in (weights, sums, products)]
        state._set_labelled(_labelled(known, counts, Sums(kind, *exact)))
        check_feature_names(state.feature_names, state.n_features)
        return state

    def decay(self, factor: float) -> Self:
        """Refuse: a decayed weight is no whole number.

        Raises
        ------
        ValueError
            Always, with what can be done instead.
        """
        raise ValueError(
            f"exact statistics cannot decay (by {factor!r}): weights would not be whole. Use "
            "to_float().decay(...), or take rows out by subtracting their statistics"
        )

    def _in_float64(self) -> Labelled[Any]:
        return self.to_float()._labelled

    # ------------------------------------------------------------------ states travel

    def to_columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The state as arrays with a row for each class, and metadata; the same for equal states.

        Returns
        -------
        columns : dict of ndarray
            "label" and "count", of shape (K,), and the digits of the exact sums, int32: "weight_digits",
            "sum_digits" and "outer_sum_digits" of shape (K, n_planes × size), the lowest plane first; for
            "tied" "pooled_outer_sum_digits" of one row. A plane stands for 32 bits.
        metadata : dict
            Plain values: "kind", "covariance_type", "n_features", "feature_names", "n_dropped", and
            "positions", of the lowest plane of each sum in units of 32 bits.
        """
        state = self.copy()  # of one moment; the lock is free again while it is written
        labelled, squares = state._labelled, state._labelled.squared_weights
        columns = {**labels.label_columns(labelled.classes), "count": labelled.counts}
        arrays = dict(zip(_names(labelled.kind), labelled.moments.arrays, strict=True))
        if squares is not None and (squares != labelled.moments.least_squares(labelled.counts)).any():
            arrays["squared_weight"] = ExactArray.from_integers(squares)
        for name, numbers in arrays.items():
            planes = np.moveaxis(numbers.digits, 0, 1)
            columns[f"{name}_digits"] = planes.reshape(len(planes), math.prod(planes.shape[1:]))
        positions = {name: numbers.position for name, numbers in arrays.items()}
        return columns, {**state._metadata(), "positions": positions}

    @classmethod
    def _read_columns(
        cls, kind: CovarianceKind, columns: TableColumns, metadata: Mapping[str, Any], n_features: int
    ) -> Labelled[Sums]:
        names, positions = _names(kind), metadata["positions"]
        check_columns(("label", "count", *(f"{name}_digits" for name in names)), columns)
        n_classes, squares = len(columns["label"]), None
        zeros = Sums.zeros(kind, n_classes, n_features)
        if not n_classes:
            return Labelled.empty(zeros, n_features)
        arrays = [
            _from_digits(columns, positions, name, like.shape)
            for name, like in zip(names, zeros.arrays, strict=True)
        ]
        if len(columns.get("squared_weight_digits", ())):
            squares = _from_digits(columns, positions, "squared_weight", (n_classes,)).whole()
        counts = np.asarray(columns["count"])
        return _labelled(labels.labels_in(columns), counts, Sums(kind, *arrays), squares)
