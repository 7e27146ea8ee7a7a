"""A block of checked rows, ready to be reduced to statistics; names of its rows in errors, and their folds.

Folds, for cross-validation, go by the place of a row in its data or by a column. Without a column, the fold
of a row is a hash of its file and of its number in the file. It depends neither on how the rows are cut into
blocks and tasks nor on the rows of other files. So rows keep their folds when files are added.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks import labels
from streamgda.data.blocks.labels import Codes, Labels
from streamgda.data.blocks.schema import UNNAMED, Columns, Lists, MadeColumns, Schema
from streamgda.data.blocks.sparse import SparseRows

Matrix = NDArray[Any]
Column = NDArray[Any]
Features = Matrix | Sequence[Column]
Missing = Literal["raise", "drop", "marginal"]
_CHOICES = get_args(Missing)
RowName = Callable[[int], str]

INTEGERS_OF_FLOATS = 1 << 53  # float64 holds every integer up to here

_LEAVE_OUT = "Mend the data or leave out such rows, as a source does with missing='drop'"

LEARN_INCOMPLETE = "learn from what is observed: set missing='marginal' on the model, or in accumulate"

FILL_IN = (
    "fill it in first, by a SimpleImputer or source.with_columns(x=pc.if_else(pc.is_null("
    "pc.field('x'), nan_is_null=True), VALUE, pc.field('x')))"
)

# The limits of the size of a block.
_TARGET_ELEMENTS = 1 << 21  # 16 MB of float64
_MOST_ELEMENTS = 1 << 23  # of a block that is longer because the data has many classes
_MOST_ROWS = 1 << 16
_FEWEST_ROWS = 1 << 8
_ROWS_OF_CLASS = 128
_FEWEST_ROWS_OF_CLASS = 2  # with fewer, most classes have one row in a block, and long blocks save nothing

# Of the hash that gives a row its fold.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


class MissingValueError(ValueError):
    """A feature is NaN or null in a row that has to be complete.

    Parameters
    ----------
    finding : str
        Which row and feature.
    other_remedy : str
        The remedy besides leaving out such rows, in the terms of the function that the user called.
    """

    def __init__(self, finding: str, other_remedy: str = LEARN_INCOMPLETE) -> None:
        super().__init__(f"{finding}. {_LEAVE_OUT}; or {other_remedy}")
        self.finding, self.other_remedy = finding, other_remedy

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        """Pickle the error by the arguments that make it."""
        return type(self), (self.finding, self.other_remedy)


@contextmanager
def remedying(other_remedy: str) -> Iterator[None]:
    """Replace the second remedy of a `MissingValueError`, if it is the default one."""
    try:
        yield
    except MissingValueError as error:
        if error.other_remedy != LEARN_INCOMPLETE:
            raise
        raise MissingValueError(error.finding, other_remedy) from error


@dataclass(frozen=True)
class Places:
    """Where the rows of a block come from: the data, and the number of each row in it.

    A call with the position of a row in the block returns the name of the row in an error.

    Attributes
    ----------
    origin : str
        The name of the data in an error, such as the path of a file; "" for arrays.
    start : int
        The number that the first row has in the data.
    offsets : ndarray of int, or None
        The rows that are in the block, counted from `start`; None if no row has been left out.
    dataset : str
        The name of the file in its dataset, which stays if the dataset is moved; "" if there is no other.
    before : int
        How many rows of the file come before the row of number 0: those of earlier row groups.
    """

    origin: str = ""
    start: int = 0
    offsets: NDArray[np.intp] | None = None
    dataset: str = ""
    before: int = 0

    def __call__(self, row: int) -> str:
        """The name of a row in an error."""
        number = self.number_of(row)
        return f"{self.origin}, row {number}" if self.origin else f"row {number}"

    def number_of(self, row: int) -> int:
        """The number that a row of the block has in the data."""
        return self.start + (row if self.offsets is None else int(self.offsets[row]))

    def after(self, start: int) -> Places:
        """The places of all rows but the first `start`."""
        if self.offsets is None:
            return replace(self, start=self.start + start)
        return replace(self, offsets=self.offsets[start:])

    def take(self, rows: NDArray[np.intp]) -> Places:
        """The places of some of the rows."""
        return replace(self, offsets=rows if self.offsets is None else self.offsets[rows])

    def numbers(self, n_rows: int) -> NDArray[np.int64]:
        """The numbers of the first `n_rows` rows within their file."""
        offsets = np.arange(n_rows) if self.offsets is None else self.offsets[:n_rows]
        return (self.before + self.start + offsets).astype(np.int64)


NOWHERE = Places()


@dataclass(frozen=True)
class Block:
    """Rows with finite weights and a label each.

    Attributes
    ----------
    features : ndarray of shape (n_rows, n_features), one array per feature, or MadeColumns
        Numbers of any real type, or what makes them. They are converted to float64 when the
        block is reduced.
    classes : ndarray of shape (n_classes,)
        The labels that occur, sorted.
    codes : ndarray of shape (n_rows,)
        The position in `classes` of each row's label.
    weights : ndarray of shape (n_rows,), or None
        All positive. None stands for weights of 1.
    feature_names : tuple of str, or None
        The names of the features in an error.
    n_dropped : int
        How many rows were left out because something was missing.
    row_name : Places
        Gives the name of a row in an error, from its position in the block.
    dates : tuple of str
        The features that are dates, if they are columns of numbers.
    lists : tuple of pairs of str and int
        The columns of lists of which features are places, and the lengths of the lists; sorted.
    groups : tuple of labels and codes, or None
        The labels in the column of groups or folds, and the code of each row. None if the source was not
        asked for such a column.
    """

    features: Features
    classes: Labels
    codes: Codes
    weights: NDArray[np.float64] | None = None
    feature_names: tuple[str, ...] | None = None
    n_dropped: int = 0
    row_name: Places = NOWHERE
    groups: tuple[Labels, Codes] | None = None
    dates: tuple[str, ...] = ()
    lists: Lists = ()

    @cached_property
    def counts(self) -> NDArray[np.intp]:
        """The number of rows of each class: (n_classes,)."""
        return np.bincount(self.codes, minlength=len(self.classes))

    @property
    def n_features(self) -> int:
        """How many features a row has."""
        return self.features.shape[1] if isinstance(self.features, np.ndarray) else len(self.features)

    @property
    def schema(self) -> Schema:
        """What the features are."""
        made = self.features
        if not isinstance(made, np.ndarray | SparseRows) and isinstance(made, MadeColumns):
            return made.schema.with_types(made.schema.dates, self.lists) if self.lists else made.schema
        return UNNAMED if self.feature_names is None else Columns(self.feature_names, self.dates, self.lists)

    @property
    def row_weights(self) -> NDArray[np.float64]:
        """The weight of each row: (n_rows,)."""
        return np.ones(len(self.codes)) if self.weights is None else self.weights

    def feature_name(self, index: int) -> str:
        """The name of a feature in an error."""
        return repr(self.feature_names[index]) if self.feature_names else str(index)

    def matrix(self, start: int, stop: int) -> NDArray[np.float64]:
        """The features of the rows start:stop as float64, in C order."""
        rows = rows_of(self.features, slice(start, stop))
        if isinstance(rows, np.ndarray):
            return np.ascontiguousarray(rows, dtype=np.float64)
        if isinstance(rows, SparseRows):
            return rows.dense()
        matrix = np.empty((len(rows[0]), len(rows)))
        for j, column in enumerate(rows):
            matrix[:, j] = column
        return matrix

    def dense(self) -> Iterator[Block]:
        """Yield sparse rows with their zeros, in blocks of the usual size."""
        for block in self.cut(rows_per_block(self.n_features, len(self.classes))):
            yield replace(block, features=block.matrix(0, len(block.codes)))

    def values(self, rows: slice) -> Any:
        """The features of some rows to be scored: in CSR if they are sparse, else as a matrix."""
        if isinstance(self.features, SparseRows):
            return self.features.rows(rows).csr
        return self.matrix(rows.start, rows.stop)

    def of_numbers(self) -> Block:
        """The rows with their columns of numbers alone; ValueError if there is none."""
        if not isinstance(self.features, MadeColumns):
            return self
        numbers, names = self.features.numbers, self.feature_names
        if not numbers:
            raise ValueError("no column is of numbers, which distances between rows need")
        return replace(self, features=numbers, feature_names=names and names[: len(numbers)])

    def between(self, start: int, stop: int) -> Block:
        """The rows start:stop, with `n_dropped` set to 0."""
        return replace(self._at(slice(start, stop)), n_dropped=0, row_name=self.row_name.after(start))

    def are_finite(self) -> NDArray[np.bool_]:
        """Which rows have neither NaN nor infinity."""
        features = self.features
        if isinstance(features, np.ndarray):
            return np.asarray(np.isfinite(features).all(axis=1))
        if isinstance(features, SparseRows):
            return features.are_finite()
        finite = np.isfinite(features[0])
        for column in _numbers(features)[1:]:
            finite &= np.isfinite(column)
        return finite

    def split_at(self, size: int) -> tuple[Block, Block | None]:
        """At most so many of the first rows, with the `n_dropped` of all; and the rest, or None."""
        first = next(self.cut(size))
        n_rows = len(self.codes)
        return first, self.between(size, n_rows) if n_rows > size else None

    def cut(self, size: int) -> Iterator[Block]:
        """Yield the rows in blocks of so many, at least one block. The first has the `n_dropped` of all."""
        for start in range(0, max(len(self.codes), 1), size):
            cut = self.between(start, start + size)
            classes, codes = labels.drop_unused(cut.classes, cut.codes)
            yield replace(cut, classes=classes, codes=codes, n_dropped=0 if start else self.n_dropped)

    def take(self, rows: NDArray[np.intp]) -> Block:
        """The rows at these positions, with the same `n_dropped`."""
        part = self._at(rows)
        classes, codes = labels.drop_unused(part.classes, part.codes)
        return replace(part, classes=classes, codes=codes, row_name=self.row_name.take(rows))

    def _at(self, rows: slice | NDArray[np.intp]) -> Block:
        """Some of the rows, under the names of the first ones."""
        return replace(
            self,
            features=rows_of(self.features, rows),
            codes=self.codes[rows],
            weights=None if self.weights is None else self.weights[rows],
            groups=self.groups and (self.groups[0], self.groups[1][rows]),
        )

    def in_schema(self, schema: Schema) -> Block:
        """The rows in another schema of the same columns; the block itself if all columns are numbers."""
        if not isinstance(self.features, MadeColumns):
            return self
        return replace(self, features=self.features.onto(schema), feature_names=schema.feature_names)

    def raise_for_values(self, powers: str = "squares", other_remedy: str = LEARN_INCOMPLETE) -> None:
        """Raise the error that names the first value which statistics cannot hold.

        Parameters
        ----------
        powers : str
            What the statistics sum up: "squares" or "fourth powers".
        other_remedy : str
            What else to do about a missing value.

        Raises
        ------
        ValueError
            Always. The message names the first NaN or infinity. If there is none, the features or the weights
            are so large that sums of the powers exceed float64.
        """
        finite = self.are_finite()
        if finite.all():
            raise ValueError(
                f"the features or their weights are too large: their {powers} exceed float64 in the rows "
                f"from {self.row_name(0)} on. Divide them by a power of ten first"
            )
        row = int(np.argmin(finite))
        one = rows_of(self.features, slice(row, row + 1))
        values = _columns(one.dense() if isinstance(one, SparseRows) else one)
        index = next(j for j, column in enumerate(values) if not np.isfinite(column[0]))
        feature = f"{self.row_name(row)}: feature {self.feature_name(index)}"
        if np.isnan(values[index][0]):
            raise MissingValueError(f"{feature} is NaN or null", other_remedy)
        raise ValueError(f"{feature} is infinity. {_LEAVE_OUT}")

    def lacks_numbers(self) -> bool:
        """Whether a number is missing in any row. A missing text is a value like others."""
        features = self.features
        if isinstance(features, SparseRows):
            return bool(np.isnan(features.csr.data).any())
        columns = [features] if isinstance(features, np.ndarray) else _numbers(features)
        return any(column.dtype.kind == "f" and bool(np.isnan(column).any()) for column in columns)

    def check_no_infinity(self) -> None:
        """Raise ValueError if a value is infinite. The message names its row and feature."""
        for j, column in enumerate(_numbers(self.features)):
            infinite = np.isinf(column)
            if infinite.any():
                raise ValueError(
                    f"{self.row_name(int(np.argmax(infinite)))}: feature {self.feature_name(j)} is infinity. "
                    "Mend the data; a missing value is NaN or null"
                )


def check_missing(missing: str) -> None:
    """Raise ValueError unless `missing` is one of the choices."""
    if missing == "keep":
        raise ValueError("missing='keep' is now missing='marginal', as for models")
    if missing not in _CHOICES:
        raise ValueError(f"missing must be {' or '.join(map(repr, _CHOICES))}; got {missing!r}")


def rows_per_block(n_features: int, n_classes: int = 1) -> int:
    """How many rows a block has: a power of two that takes at most 16 MB.

    Most row groups and chunks hold a power of two of rows, so that whole blocks fill them. The cost of adding
    a block to the state grows with its number of classes. So blocks are longer if there are many classes.
    They then have 128 rows for each class, or half as many as there are features if that is more, but take at
    most 64 MB.
    """
    rows = min(_MOST_ROWS, power_of_two_up_to(_TARGET_ELEMENTS // max(n_features, 1)))
    longest = power_of_two_up_to(_MOST_ELEMENTS // max(n_features, 1))
    if longest >= _FEWEST_ROWS_OF_CLASS * n_classes:
        wanted = n_classes * max(_ROWS_OF_CLASS, n_features // 2)
        rows = max(rows, min(longest, power_of_two_up_to(2 * wanted - 1)))  # `wanted`, rounded up
    return max(_FEWEST_ROWS, rows)


def power_of_two_up_to(number: int) -> int:
    """The largest power of two that is no larger than a number; at least 1."""
    return 1 << (max(number, 1).bit_length() - 1)


def cut_into_blocks(
    rows: Block, missing: Missing, unlabelled: NDArray[np.bool_] | None = None
) -> Iterator[Block]:
    """Cut rows into blocks, and check labels and weights.

    Rows of weight zero are left out. With ``missing="drop"``, rows with a NaN or an infinity
    in a feature, or without a label or a weight, are left out and counted; with "marginal", rows without a
    label.

    Parameters
    ----------
    rows : Block
        Any number of rows, whose weights have not been checked. Some classes may have no rows.
    missing : {"raise", "drop", "marginal"}
        "drop" leaves out rows without a feature, a label or a weight, "marginal" those without a label.
    unlabelled : ndarray of bool of shape (n_rows,), optional
        The rows that have no label.

    Raises
    ------
    ValueError
        If a label is missing and `missing` is "raise", if a weight is missing and `missing` is not "drop", or
        if a weight is negative or infinite.
    """
    n_rows, size = len(rows.codes), _FEWEST_ROWS
    if n_rows > size:
        features = rows.features
        n_columns = features.n_columns if isinstance(features, MadeColumns) else rows.n_features
        size = rows_per_block(n_columns, len(rows.classes))
    is_whole = unlabelled is None and rows.weights is None and missing != "drop"
    for start in range(0, n_rows, size):
        block = rows if n_rows <= size else rows.between(start, start + size)
        if not block.counts.all():
            classes, codes = labels.drop_unused(block.classes, block.codes)
            block = replace(block, classes=classes, codes=codes)
        without_label = None if unlabelled is None else unlabelled[start : start + size]
        yield block if is_whole else _checked(block, without_label, missing)


def without_missing(block: Block, beside: dict[str, Any], missing: Missing) -> tuple[Block, dict[str, Any]]:
    """A block and the columns beside it, without the rows that ``missing="drop"`` leaves out."""
    if missing != "drop" or (complete := block.are_finite()).all():
        return block, beside
    rows = np.flatnonzero(complete)
    left = replace(block.take(rows), n_dropped=len(complete) - len(rows))
    return left, {name: column.take(rows) for name, column in beside.items()}


def _checked(block: Block, unlabelled: NDArray[np.bool_] | None, missing: Missing) -> Block:
    blank = np.zeros(len(block.codes), dtype=np.bool_) if unlabelled is None else unlabelled
    if missing == "drop":
        blank = blank | ~block.are_finite()
        blank = blank if block.weights is None else blank | np.isnan(block.weights)
    if block.weights is not None:
        blank = blank & (block.weights != 0)  # a row of weight zero is left out, but not counted as dropped
    if missing == "raise" and blank.any():
        row = block.row_name(int(np.argmax(blank)))
        raise ValueError(f"{row} has no label (null or NaN). {_LEAVE_OUT}, or 'marginal'")
    keep = ~blank
    weights = block.weights
    if weights is not None:
        weights = checked_weights(weights, block.row_name, ignored=blank)
        keep &= weights > 0
    block = replace(block, weights=weights, n_dropped=int(blank.sum()))
    return block if keep.all() else block.take(np.flatnonzero(keep))


def checked_weights(
    weights: NDArray[Any], row_name: RowName, *, ignored: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Weights as float64; ValueError if one that is not ignored is missing, negative or infinite."""
    weights = weights.astype(np.float64, copy=False)
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if ignored is not None:
        bad &= ~ignored
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{row_name(row)} has weight {weights[row]!s}; weights are finite and not negative")
    return weights


def rows_of(features: Features, rows: slice | NDArray[np.intp]) -> Features:
    """Some of the rows."""
    if isinstance(features, np.ndarray):
        return features[rows]
    return features.rows(rows) if isinstance(features, MadeColumns) else [column[rows] for column in features]


def _columns(features: Features) -> Sequence[Column]:
    return list(features.T) if isinstance(features, np.ndarray) else features


def _numbers(features: Features) -> Sequence[Column]:
    """The columns of numbers: only there can a value be missing or infinite."""
    return features.numbers if isinstance(features, MadeColumns) else _columns(features)


# ---------------------------------------------------------------------- folds


@dataclass(frozen=True)
class FoldRule:
    """The rule that gives each row its fold.

    Attributes
    ----------
    n_folds : int or None
        The number of folds, numbered from 0, to which rows or groups of rows are hashed. None if a column
        names the folds.
    column : str or None
        The column of groups, or of folds; None if the fold depends on the place of the row alone.
    """

    n_folds: int | None
    column: str | None = None

    def split(self, block: Block) -> Iterator[tuple[Any, NDArray[np.intp]]]:
        """Yield each fold that occurs in a block, with the positions of its rows."""
        folds, codes = self.assign(block)
        for k, rows in labels.positions_by_code(codes, len(folds)):
            yield folds[k].item(), rows

    def assign(self, block: Block) -> tuple[Labels, Codes]:
        """The folds, sorted, and the position of each row's fold among them."""
        if self.column is None:
            assert self.n_folds is not None
            numbers = block.row_name.numbers(len(block.codes))
            return np.arange(self.n_folds), folds_of_rows(numbers, self.n_folds, block.row_name.dataset)
        assert block.groups is not None
        labels, codes = block.groups
        if self.n_folds is None:
            return labels, codes
        return np.arange(self.n_folds), folds_of_groups(labels, self.n_folds)[codes]


def folds_of_rows(numbers: NDArray[np.int64], n_folds: int, dataset: str = "") -> Codes:
    """The fold of each row, from its number in a file of a dataset."""
    hashed = mixed(numbers.astype(np.uint64), hash_of(dataset))
    return (hashed % np.uint64(n_folds)).astype(labels.code_dtype(n_folds))


def mixed(numbers: NDArray[np.uint64], start: int = 0) -> NDArray[np.uint64]:
    """A hash of each number, by the finaliser of a generator that begins at `start`.

    References
    ----------
    Steele, Lea & Flood (2014), "Fast splittable pseudorandom number generators": SplitMix64.
    """
    hashed = numbers * _GOLDEN
    hashed += np.uint64(start)
    for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS, strict=False):
        hashed ^= hashed >> shift
        hashed *= multiplier
    hashed ^= hashed >> _SHIFTS[2]
    return hashed


def folds_of_groups(groups: Labels, n_folds: int) -> Codes:
    """The fold of each group, from its label."""
    folds = [hash_of(str(label)) % n_folds for label in groups.tolist()]
    return np.array(folds, dtype=labels.code_dtype(n_folds))


def hash_of(text: str) -> int:
    """A hash of a text, of 64 bits."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
