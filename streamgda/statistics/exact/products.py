"""What each kind of covariance keeps of the products of features.

K is the number of classes, d of features, P of the pairs of features whose products a kind keeps. While rows
are multiplied, products are held as BLAS gives them, (K, d, d), (1, d, d) or (K, d); after that packed, each
once, (K, P) or (1, P), for they are symmetric.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from streamgda.statistics.covariances import Array, CovarianceType
from streamgda.statistics.exact.numbers import Integers
from streamgda.statistics.exact.slices import Indices, Slices

Terms = dict[int, Integers]

N = TypeVar("N", bound=np.generic)

_SHORT_CLASS = 32  # rows; below, one reduction over all classes is quicker than a product for each


@dataclass(frozen=True)
class Segments:
    """Where in a tile the rows of each class are: `classes[i]` from `starts[i]` to before `stops[i]`."""

    classes: Indices
    starts: Indices
    stops: Indices

    @classmethod
    def within(cls, bounds: Indices, start: int, stop: int) -> Segments:
        """Those of rows start:stop, where class k holds rows bounds[k]:bounds[k + 1]."""
        first = np.searchsorted(bounds, start, side="right") - 1
        last = np.searchsorted(bounds, stop, side="left")
        edges = np.minimum(np.maximum(bounds[first : last + 1], start), stop) - start
        used = np.flatnonzero(np.diff(edges))
        return cls(used + first, edges[used], edges[used + 1])

    def __iter__(self) -> Iterator[tuple[int, slice]]:
        """Each class with its rows."""
        for k, start, stop in zip(self.classes, self.starts, self.stops, strict=True):
            yield k, slice(start, stop)

    def sums(self, values: Array) -> Integers:
        """The sums over the rows of each class: (m, n) to (n_segments, m)."""
        if values.shape[1] < _SHORT_CLASS * len(self.starts):
            totals = np.add.reduceat(values, self.starts, axis=1).T
        else:
            ones = np.ones(values.shape[1])
            totals = np.stack([values[:, rows] @ ones[rows] for _, rows in self])
        return totals.astype(np.int64)


class ExactScatter(ABC):
    """What a kind of covariance must be able to do with exact products."""

    is_pooled = False

    @abstractmethod
    def zeros(self, n_classes: int, n_features: int) -> Integers:
        """Room for products, unpacked."""

    @abstractmethod
    def add_products(self, terms: Terms, slices: Slices, held: NDArray[np.bool_], segments: Segments) -> None:
        """Multiply the slices of a tile, and add the products to the terms of their numbers, which add up.

        `held`, (n_slices, d), says whether a slice holds anything of a feature.
        """

    @abstractmethod
    def pairs(self, n_features: int) -> tuple[Indices, Indices]:
        """The features i ≤ j of each product that is kept: two arrays of shape (P,)."""

    def n_pairs(self, n_features: int) -> int:
        """How many products are kept: P."""
        return n_features * (n_features + 1) // 2

    @abstractmethod
    def packed(self, products: NDArray[N]) -> NDArray[N]:
        """Each product once."""

    @abstractmethod
    def unpacked(self, packed: NDArray[N], n_features: int) -> NDArray[N]:
        """Packed numbers in the shape of the scatter of this kind."""

    def n_matrices(self, n_classes: int) -> int:
        """How many rows packed products have for so many classes."""
        return min(n_classes, 1) if self.is_pooled else n_classes


class _Full(ExactScatter):
    def zeros(self, n_classes: int, n_features: int) -> Integers:
        return np.zeros((n_classes, n_features, n_features), dtype=np.int64)

    def add_products(self, terms: Terms, slices: Slices, held: NDArray[np.bool_], segments: Segments) -> None:
        stack = _Stack.of(slices, held)
        for k, rows in segments:
            stack.add_square(terms, k, rows)

    def pairs(self, n_features: int) -> tuple[Indices, Indices]:
        return _pairs(n_features)

    def packed(self, products: NDArray[N]) -> NDArray[N]:
        first, second = _pairs(products.shape[-1])
        return products[:, first, second]

    def unpacked(self, packed: NDArray[N], n_features: int) -> NDArray[N]:
        first, second = _pairs(n_features)
        square = np.empty((len(packed), n_features, n_features), dtype=packed.dtype)
        square[:, first, second] = packed
        square[:, second, first] = packed
        return square


class _Tied(_Full):
    is_pooled = True

    def zeros(self, n_classes: int, n_features: int) -> Integers:
        return super().zeros(1, n_features)

    def add_products(self, terms: Terms, slices: Slices, held: NDArray[np.bool_], segments: Segments) -> None:
        _Stack.of(slices, held).add_square(terms, 0, slice(None))

    def unpacked(self, packed: NDArray[N], n_features: int) -> NDArray[N]:
        if not len(packed):
            return np.zeros((n_features, n_features), dtype=packed.dtype)
        square: NDArray[N] = super().unpacked(packed, n_features)[0]
        return square


class _Diagonal(ExactScatter):
    def zeros(self, n_classes: int, n_features: int) -> Integers:
        return np.zeros((n_classes, n_features), dtype=np.int64)

    def add_products(self, terms: Terms, slices: Slices, held: NDArray[np.bool_], segments: Segments) -> None:
        used = np.flatnonzero(held.any(axis=1)).tolist()
        for n, i in enumerate(used):
            for j in used[: n + 1]:
                squares = segments.sums(slices.values[i] * slices.values[j])
                term = terms[2 * slices.first + i + j]
                term[segments.classes] += squares if i == j else 2 * squares

    def pairs(self, n_features: int) -> tuple[Indices, Indices]:
        return np.arange(n_features), np.arange(n_features)

    def n_pairs(self, n_features: int) -> int:
        return n_features

    def packed(self, products: NDArray[N]) -> NDArray[N]:
        return products

    def unpacked(self, packed: NDArray[N], n_features: int) -> NDArray[N]:
        return packed


@dataclass(frozen=True)
class _Stack:
    """The slices of a tile one below the other, without the features of which a slice holds nothing."""

    rows: Array
    parts: list[tuple[int, slice, Indices | None]]

    @classmethod
    def of(cls, slices: Slices, held: NDArray[np.bool_]) -> _Stack:
        n_slices, n_features, n_rows = slices.values.shape
        flat = slices.values.reshape(n_slices * n_features, n_rows)
        rows = flat if held.all() else flat[held.ravel()]
        parts, start = [], 0
        for number, holds in enumerate(held, slices.first):
            stop = start + int(holds.sum())
            parts.append((number, slice(start, stop), None if holds.all() else np.flatnonzero(holds)))
            start = stop
        return cls(rows, [part for part in parts if part[1].start < part[1].stop])

    def add_square(self, terms: Terms, k: int, columns: slice) -> None:
        """Add the products of some rows of the data: one multiplication for all slices."""
        rows = self.rows[:, columns]
        square = rows @ rows.T
        for a, here, i in self.parts:
            for b, there, j in self.parts:
                term, values = terms[a + b][k], square[here, there].astype(np.int64)
                if i is None and j is None:
                    term += values
                else:
                    term[_grid(i, j, len(term))] += values


def _grid(i: Indices | None, j: Indices | None, n_features: int) -> tuple[Indices, ...]:
    every = np.arange(n_features)
    return np.ix_(every if i is None else i, every if j is None else j)


@cache
def _pairs(n_features: int) -> tuple[Indices, Indices]:
    """The lower triangle, row by row: the pair of i and j ≤ i is at i (i + 1) / 2 + j."""
    second, first = np.tril_indices(n_features)
    return first, second


SCATTERS: dict[CovarianceType, ExactScatter] = {"full": _Full(), "tied": _Tied(), "diag": _Diagonal()}
