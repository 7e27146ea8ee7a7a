"""Exact sums with the labels they belong to: states that unite their classes as they are added."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks import labels
from streamgda.blocks.block import Block
from streamgda.blocks.labels import Labels
from streamgda.statistics.covariances import CovarianceKind
from streamgda.statistics.exact import reduction as exact_products
from streamgda.statistics.exact.numbers import ExactArray, PythonIntegers
from streamgda.statistics.exact.products import SCATTERS, ExactScatter
from streamgda.statistics.exact.rounding import ExactMoments
from streamgda.statistics.exact.slices import Indices
from streamgda.statistics.exact.sums import Sums
from streamgda.statistics.gather import Workspace
from streamgda.statistics.validation import as_counts, require

_FURTHEST = 1 << 12  # far beyond the squares of float64; a file that claims more would cost memory


@dataclass(frozen=True)
class LabelledSums:
    """The classes seen, in order, with the count of rows and the exact sums of each. It never changes."""

    kind: CovarianceKind
    classes: Labels
    counts: NDArray[np.int64]
    sums: Sums

    @classmethod
    def empty(cls, kind: CovarianceKind, n_features: int) -> Self:
        """The state that has seen no rows."""
        sums = Sums.zeros(SCATTERS[kind.name], 0, n_features)
        return cls(kind, labels.no_labels(), np.zeros(0, np.int64), sums)

    @classmethod
    def of_block(cls, block: Block, kind: CovarianceKind, workspace: Workspace) -> Self:
        """The state of the rows of a block.

        Raises
        ------
        ValueError
            If a value is NaN or infinite, or a weight is not a whole number; the message says where.
        """
        if not len(block.codes):
            return cls.empty(kind, block.n_features)
        sums = exact_products.reduce_block(block, SCATTERS[kind.name], workspace)
        return cls(kind, block.classes, np.bincount(block.codes), sums)

    @property
    def scatter(self) -> ExactScatter:
        """What is kept of products."""
        return self.sums.scatter

    @property
    def n_features(self) -> int:
        """How many features a row has; 0 while nothing is known of them."""
        return self.sums.totals.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.classes.nbytes + self.counts.nbytes + sum(a.digits.nbytes for a in self.sums.arrays)

    def plus(self, other: LabelledSums) -> LabelledSums:
        """The state of the rows of both."""
        classes = labels.union(self.classes, other.classes)
        n_features = max(self.n_features, other.n_features)
        ours, theirs = self.reindexed(classes, n_features), other.reindexed(classes, n_features)
        return replace(ours, counts=ours.counts + theirs.counts, sums=ours.sums + theirs.sums)

    def minus(self, other: LabelledSums) -> LabelledSums:
        """The state of the rows that are in this one but not in the other: the true inverse of `plus`.

        Raises
        ------
        ValueError
            If the other has a class that this one has not, more rows or weight of a class, or the sums
            that would be left are of no rows.
        """
        unseen = np.setdiff1d(labels.union(self.classes, other.classes), self.classes)
        if len(unseen):
            raise ValueError(f"class {unseen[0]!s} cannot be removed: the state never saw it")
        removed = other.reindexed(self.classes, self.n_features)
        rest = replace(self, counts=self.counts - removed.counts, sums=self.sums - removed.sums)
        _check_counts(self, removed, rest)
        _check_emptied(rest)
        rest = rest.of_classes(np.flatnonzero(rest.counts))
        if len(rest.classes) and not ExactMoments(rest.sums).are_of_rows(rest.counts):
            raise ValueError("a variance would be negative: these rows never went into the state")
        return rest

    def reindexed(self, classes: Labels, n_features: int) -> LabelledSums:
        """The state with a place for each of these classes; itself, where it has them all."""
        if (len(classes), n_features) == self.sums.totals.shape:
            return self
        counts = np.zeros(len(classes), dtype=np.int64)
        sums = Sums.zeros(self.scatter, len(classes), n_features)
        if len(self.classes):
            places = np.searchsorted(classes, self.classes)
            counts[places] = self.counts
            sums = self.sums.spread(len(classes), places)
        return replace(self, classes=classes, counts=counts, sums=sums)

    def of_classes(self, kept: Indices) -> LabelledSums:
        """The state of some of the classes, where the others are empty."""
        if len(kept) == len(self.classes):
            return self
        if not len(kept):
            return self.empty(self.kind, self.n_features)
        return replace(self, classes=self.classes[kept], counts=self.counts[kept], sums=self.sums.take(kept))

    def narrowed(self, kind: CovarianceKind) -> LabelledSums:
        """What another kind of covariance would have kept.

        Raises
        ------
        ValueError
            If this one keeps too little.
        """
        if kind is self.kind:
            return self
        if self.kind.name != "full":
            raise ValueError(
                f"a state of covariance type {self.kind.name!r} does not hold what {kind.name!r} needs; "
                f"accumulate with covariance_type={kind.name!r}"
            )
        sums = self.sums.narrowed(SCATTERS[kind.name])
        return replace(self, kind=kind, sums=sums)

    def copy(self) -> Self:
        """Itself, since it never changes."""
        return self

    def as_one_class(self) -> LabelledSums:
        """The state of the same rows, all of the class 0."""
        label, classes = np.array([0]), np.arange(len(self.classes))[:, None]
        parts = [replace(self, classes=label, counts=self.counts[k], sums=self.sums.take(k)) for k in classes]
        return reduce(LabelledSums.plus, parts, self.empty(self.kind, self.n_features))

    def same_counts(self, other: LabelledSums) -> bool:
        """Whether the two have the same kind of covariance, features, classes and counts."""
        return (
            self.kind is other.kind
            and labels.kind_of(self.classes) == labels.kind_of(other.classes)
            and self.n_features == other.n_features
            and np.array_equal(self.classes, other.classes)
            and np.array_equal(self.counts, other.counts)
        )

    def equals(self, other: LabelledSums) -> bool:
        """Whether the two are the same to the last bit."""
        return self.same_counts(other) and all(
            a.equals(b) for a, b in zip(self.sums.arrays, other.sums.arrays, strict=True)
        )

    def to_columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, int]]:
        """The arrays that are held, a row for each class, and the positions of the lowest planes."""
        columns: dict[str, NDArray[Any]] = {"label": _narrow(self.classes), "count": self.counts}
        positions = {}
        for name, numbers in zip(_names(self.scatter), self.sums.arrays, strict=True):
            planes = np.moveaxis(numbers.digits, 0, 1)
            columns[f"{name}_digits"] = planes.reshape(len(planes), math.prod(planes.shape[1:]))
            positions[name] = numbers.position
        return columns, positions

    @classmethod
    def from_columns(
        cls,
        kind: CovarianceKind,
        n_features: int,
        columns: Mapping[str, NDArray[Any]],
        positions: Mapping[str, int],
    ) -> Self:
        """The state that such arrays hold, its classes in any order.

        Raises
        ------
        ValueError
            If a column is missing, shapes do not agree, a class stands twice or is empty, or the sums are of
            no rows.
        """
        scatter = SCATTERS[kind.name]
        require(("label", "count", *(f"{name}_digits" for name in _names(scatter))), columns)
        if not len(columns["label"]):
            return cls.empty(kind, n_features)
        classes = labels.as_labels(columns["label"])
        shapes = [array.shape for array in Sums.zeros(scatter, len(classes), n_features).arrays]
        arrays = [
            ExactArray.of_planes(_planes(columns[f"{name}_digits"], shape, name), _position(positions[name]))
            for name, shape in zip(_names(scatter), shapes, strict=True)
        ]
        return cls.of_sums(kind, classes, np.asarray(columns["count"]), Sums(scatter, *arrays))

    @classmethod
    def from_sums(
        cls,
        kind: CovarianceKind,
        classes: Labels,
        counts: NDArray[Any],
        weights: NDArray[Any],
        sums: PythonIntegers,
        outer_sums: PythonIntegers,
    ) -> Self:
        """The state whose raw sums these integers are, for classes in any order.

        Raises
        ------
        ValueError
            If one is no integer, shapes do not agree, a class stands twice or is empty, or the sums are
            of no rows.
        """
        if sums.ndim != 2 or not len(classes) == len(counts) == len(weights) == len(sums):
            raise ValueError("counts, weights and sums must have one row for each class")
        expected = kind.zeros(*sums.shape).shape
        if outer_sums.shape != expected:
            raise ValueError(
                f"outer_sums must have shape {expected} for {kind.name!r}; got {outer_sums.shape}"
            )
        scatter = SCATTERS[kind.name]
        products = scatter.packed(outer_sums[None] if scatter.is_pooled else outer_sums)
        if (scatter.unpacked(products, sums.shape[1]) != outer_sums).any():
            raise ValueError("outer_sums must be symmetric")
        arrays = [ExactArray.of_integers(_whole(array)) for array in (weights, sums, products)]
        return cls.of_sums(kind, classes, counts, Sums(scatter, *arrays))

    @classmethod
    def of_sums(cls, kind: CovarianceKind, classes: Labels, counts: NDArray[Any], sums: Sums) -> Self:
        """The state that has these sums, for classes in any order.

        Raises
        ------
        ValueError
            If a class stands twice or is empty, or the sums are of no rows.
        """
        if len(np.unique(classes)) != len(classes) or counts.shape != classes.shape:
            raise ValueError("there must be one count for each class, and each class once")
        counts, weights = as_counts(counts), sums.weights.fractions()
        for k in np.flatnonzero(~((counts > 0) & (weights >= counts).astype(bool))):
            raise ValueError(f"class {classes[k]!s} has count {counts[k]} and weight {weights[k]}")
        if any(weight.denominator != 1 for weight in weights):
            raise ValueError("the weights of exact statistics are whole numbers")
        if not len(classes):
            return cls.empty(kind, sums.totals.shape[1])
        if not ExactMoments(sums).are_of_rows(counts):
            raise ValueError(
                "a variance would be negative, or a correlation exceed 1: these sums are of no rows"
            )
        order = np.argsort(classes)
        return cls(kind, classes[order], counts[order], sums.take(order))


def _narrow(classes: Labels) -> Labels:
    """The labels, strings in an array that is no wider than they are, whatever was among them once."""
    return np.array(classes.tolist(), dtype=np.str_) if classes.dtype.kind == "U" else classes


def _names(scatter: ExactScatter) -> tuple[str, str, str]:
    return "weight", "sum", "pooled_outer_sum" if scatter.is_pooled else "outer_sum"


def _whole(numbers: NDArray[Any]) -> PythonIntegers:
    """Numbers as Python integers."""
    values = [_as_integer(value) for value in numbers.flat]
    return np.array(values, dtype=object).reshape(numbers.shape)


def _as_integer(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError as error:
        raise ValueError(
            f"exact sums are integers; got {value!r} of type {type(value).__name__}, which may be rounded"
        ) from error


def _planes(digits: NDArray[Any], shape: tuple[int, ...], name: str) -> NDArray[np.int64]:
    """Planes of digits, (n_planes, *shape), from a row of digits for each class."""
    size = max(1, math.prod(shape[1:]))
    if digits.dtype.kind not in "iu" or digits.ndim != 2 or len(digits) != shape[0] or digits.shape[1] % size:
        raise ValueError(f"{name}_digits has shape {digits.shape}, which does not agree with the rest")
    planes = digits.reshape(shape[0], digits.shape[1] // size, *shape[1:])
    return np.moveaxis(planes, 1, 0).astype(np.int64)


def _position(value: Any) -> int:
    """The position of a plane from outside, which may be anything."""
    if type(value) is not int or abs(value) > _FURTHEST:
        raise ValueError(f"a position is {value!r}, where a whole number of at most {_FURTHEST} is due")
    return value


def _check_counts(whole: LabelledSums, removed: LabelledSums, rest: LabelledSums) -> None:
    left = rest.sums.weights.integers()[0]
    too_light = (left < rest.counts).astype(bool)  # a row weighs one or more
    impossible = (rest.counts < 0) | too_light | ((rest.counts == 0) & (left != 0).astype(bool))
    for k in np.flatnonzero(impossible):
        raise ValueError(
            f"class {whole.classes[k]!s}: cannot remove {removed.counts[k]} rows of weight "
            f"{removed.sums.weights[[k]].fractions()[0]} from {whole.counts[k]} rows of weight "
            f"{whole.sums.weights[[k]].fractions()[0]}"
        )


def _check_emptied(rest: LabelledSums) -> None:
    """Refuse rows that empty a class, or all, and yet leave something of its sums."""
    emptied = np.flatnonzero(rest.counts == 0)
    left = [rest.sums.totals[emptied]]
    if not rest.scatter.is_pooled:
        left.append(rest.sums.products[emptied])
    elif len(emptied) == len(rest.counts):
        left.append(rest.sums.products)
    if any(len(array.digits) for array in left):
        raise ValueError("the sums of a class differ: these rows never went into the state")
