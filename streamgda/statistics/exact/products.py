"""The products of the slices of rows, of which each kind of covariance keeps some.

While rows are multiplied, products are held as BLAS gives them: (K, d, d), (1, d, d) if pooled, or (K, d) of
a kind that keeps squares alone. They are symmetric, so after that they are packed, each once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamgda.statistics.covariances import SHORT_CLASS, Array, CovarianceKind, Indices
from streamgda.statistics.exact.numbers import Integers
from streamgda.statistics.exact.slices import Slices

Terms = dict[int, Integers]


@dataclass(frozen=True)
class Segments:
    """The rows of each class in a tile: those of `classes[i]` are starts[i]:stops[i]."""

    classes: Indices
    starts: Indices
    stops: Indices

    @classmethod
    def within(cls, bounds: Indices, start: int, stop: int) -> Segments:
        """The segments of rows start:stop, where class k holds rows bounds[k]:bounds[k + 1]."""
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
        if values.shape[1] < SHORT_CLASS * len(self.starts):
            totals = np.add.reduceat(values, self.starts, axis=1).T
        else:
            ones = np.ones(values.shape[1])
            totals = np.stack([values[:, rows] @ ones[rows] for _, rows in self])
        return totals.astype(np.int64)


class Products:
    """Products of slices, added up over the tiles of a block.

    Parameters
    ----------
    kind : CovarianceKind
        Which products are kept.
    n_classes, n_features : int
        How many classes and features there are.
    """

    def __init__(self, kind: CovarianceKind, n_classes: int, n_features: int) -> None:
        self._kind, self._pairs = kind, kind.pairs(n_features)
        self._are_squares = np.array_equal(*self._pairs)
        sides = (n_features,) if self._are_squares else (n_features, n_features)
        shape = (kind.n_packed(n_classes), *sides)
        self._terms: Terms = defaultdict(lambda: np.zeros(shape, dtype=np.int64))

    def add(self, slices: Slices, held: NDArray[np.bool_], segments: Segments) -> None:
        """Multiply the slices of a tile, and add the products of slices i and j to the term i + j.

        `held`, (n_slices, d), says whether a slice holds anything of a feature.
        """
        if self._kind.is_pooled:
            segments = Segments(*np.array([[0], [0], [slices.values.shape[2]]]))
        if self._are_squares:
            self._add_squares(slices, held, segments)
        else:
            stack = _Stack.of(slices, held)
            for k, rows in segments:
                stack.add_square(self._terms, k, rows)

    def packed(self) -> list[tuple[int, Integers]]:
        """The number of each term, and the term with each product once."""
        first, second = self._pairs
        index = (first,) if self._are_squares else (first, second)
        return [(number, term[:, *index]) for number, term in self._terms.items()]

    def _add_squares(self, slices: Slices, held: NDArray[np.bool_], segments: Segments) -> None:
        used = np.flatnonzero(held.any(axis=1)).tolist()
        for n, i in enumerate(used):
            for j in used[: n + 1]:
                squares = segments.sums(slices.values[i] * slices.values[j])
                term = self._terms[2 * slices.first + i + j]
                term[segments.classes] += squares if i == j else 2 * squares


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
