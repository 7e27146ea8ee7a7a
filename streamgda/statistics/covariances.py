"""The kinds of covariance: what each keeps of the products of features, and how it is reduced.

`CovarianceKind` says what a kind must be able to do, and `streamgda.statistics` how to add one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamgda.statistics.kernels import add_products

CovarianceType = Literal["full", "tied", "diag"]
Array = NDArray[np.float64]
Bounds = NDArray[np.intp]
Indices = NDArray[np.intp]
Selection = Indices | slice
Pairs = tuple[Indices, Indices]
N = TypeVar("N", bound=np.generic)

_SEMIDEFINITE_TOL = 1e-8
_ASYMMETRY = 1e-5  # of what another library may have computed in float32
_ELEMENTS_IN_CACHE = 1 << 15  # float64 values that fit in the second-level cache
_MOST_COLUMNS = 1 << 11  # of which products are formed at once
_MOST_ELEMENTS = 1 << 20  # of the matrices that are checked at once


class CovarianceKind(ABC):
    """What a state keeps of the products of features, Σ w (x − mean)(x − mean)ᵀ.

    The scatter of a kind is an array: a matrix for each of the K classes, say, or one that the classes share.
    Packed, it has a row for each class, or one row if it is pooled, and a column for each pair of features
    whose product is kept. The methods that are not abstract are right for a scatter of shape (..., d, d);
    a kind of another shape overrides those that look into it.

    Attributes
    ----------
    name : str
        What users call it.
    is_pooled : bool
        Whether the classes share one scatter.
    is_complete : bool
        Whether every product is kept of each class. All other kinds can then be read off it, and fourth
        moments can be kept beside it.
    has_products : bool
        Whether products of two different features are kept. Where they are not, each feature is summed up
        by itself.
    is_exchangeable : bool
        Whether features can be renumbered: the state of any of them, in any order, is of the same kind. Only
        such a kind takes rows that lack features.
    """

    name: CovarianceType
    is_pooled = False
    is_complete = False
    has_products = True
    is_exchangeable = False

    @abstractmethod
    def shape(self, n_classes: int, n_features: int) -> tuple[int, ...]:
        """Shape of the scatter."""

    @abstractmethod
    def pairs(self, n_features: int) -> Pairs:
        """The features i ≥ j of each product that is kept, sorted: two arrays of shape (n_pairs,)."""

    def n_pairs(self, n_features: int) -> int:
        """How many products are kept, counted without making their pairs where that is possible."""
        return len(self.pairs(n_features)[0])

    @abstractmethod
    def outer(self, vectors: Array) -> Array:
        """The outer product of one vector per class (K, d) with itself, in the scatter's shape."""

    def add(self, scatter: Array, places: Indices, rows: Array, bounds: Bounds) -> None:
        """Add, in place, the products of rows with themselves; unless `has_products` is false.

        Parameters
        ----------
        scatter : ndarray
            That of many classes.
        places : ndarray of shape (K,)
            Where the classes of the rows stand in it, each once.
        rows : ndarray of shape (d, n)
            Class k holds rows[:, bounds[k]:bounds[k + 1]].
        bounds : ndarray of shape (K + 1,)
            From 0 to n.
        """
        scatter[... if self.is_pooled else places] += self.products(rows, bounds)

    def products(self, rows: Array, bounds: Bounds) -> Array:
        """The products of rows (d, n), for kinds that do not `add` them otherwise, in the scatter's shape."""
        raise NotImplementedError(f"{type(self).__name__} says neither how to add products nor what they are")

    def add_outer(self, scatter: Array, vectors: Array) -> None:
        """Add, in place, the outer product of a vector for each class."""
        scatter += self.outer(vectors)

    def zeros(self, n_classes: int, n_features: int) -> Array:
        """The scatter of no rows."""
        return np.zeros(self.shape(n_classes, n_features))

    def diagonal(self, scatter: Array) -> Array:
        """Each feature's own scatter: (K, d), or (1, d) where the classes share it."""
        diagonal = scatter.diagonal(axis1=-2, axis2=-1)
        return diagonal[None] if self.is_pooled else diagonal

    def zero(self, scatter: Array, features: NDArray[np.bool_]) -> None:
        """Set to zero, in place, the scatter of the features that a mask in the diagonal's shape marks."""
        matrices = scatter[None] if self.is_pooled else scatter
        matrices[features] = 0.0
        matrices.transpose(0, 2, 1)[features] = 0.0

    def packed(self, scatter: NDArray[N]) -> NDArray[N]:
        """The products that are kept, each once: (K, n_pairs), or (1, n_pairs) if pooled."""
        first, second = self.pairs(scatter.shape[-1])
        packed = np.empty((*scatter.shape[:-2], len(first)), scatter.dtype)
        for i, row in _rows_of(first):
            packed[..., row] = scatter[..., i, second[row]]
        return np.atleast_2d(packed)

    def unpacked(self, packed: NDArray[N], n_classes: int, n_features: int) -> NDArray[N]:
        """The scatter with these products."""
        scatter = np.zeros(self.shape(n_classes, n_features), packed.dtype)
        first, second = self.pairs(n_features)
        if n_classes:
            products = packed.reshape(*scatter.shape[:-2], len(first))
            for i, row in _rows_of(first):
                scatter[..., i, second[row]] = scatter[..., second[row], i] = products[..., row]
        return scatter

    def n_packed(self, n_classes: int) -> int:
        """How many rows a packed scatter has."""
        return min(n_classes, 1) if self.is_pooled else n_classes

    def is_symmetric(self, scatter: Array) -> bool:
        """Whether a scatter from outside is symmetric, up to rounding."""
        gap = np.abs(scatter - np.swapaxes(scatter, -1, -2))
        scale = self.outer(np.sqrt(np.abs(self.diagonal(scatter))))
        return bool((gap <= _ASYMMETRY * np.abs(scatter) + _SEMIDEFINITE_TOL * scale).all())

    def is_semidefinite(self, scatter: Array, squares: Array | None = None) -> bool:
        """Whether a scatter from outside is one that rows can have, up to rounding.

        Rounding is relative to `squares`, in the diagonal's shape: the terms whose difference the scatter is.
        By default it is relative to the diagonal.
        """
        matrices = scatter[None] if self.is_pooled else scatter
        squares = self.diagonal(scatter) if squares is None else squares
        step = max(1, _MOST_ELEMENTS // max(1, scatter.shape[-1] ** 2))
        return all(
            _are_semidefinite(matrices[start : start + step], squares[start : start + step])
            for start in range(0, len(matrices), step)
        )

    def freedom(self, scatter: Array, weights: Array, ddof: float) -> Array:
        """The weight less `ddof`, which divides a scatter to a covariance, in a shape that broadcasts."""
        if self.is_pooled:
            return np.atleast_1d(weights.sum() - ddof * len(weights))
        return (weights - ddof).reshape(-1, *[1] * (scatter.ndim - 1))

    def take(self, scatter: Array, classes: Selection) -> Array:
        """The scatter of some classes; the whole where they share it."""
        return scatter if self.is_pooled else scatter[classes]

    def narrowed(self, scatter: Array, kind: CovarianceKind) -> Array:
        """What this kind keeps of a scatter that another kind kept.

        Raises
        ------
        ValueError
            If the other kind keeps too little.
        """
        if kind is self:
            return scatter.copy()
        n_features = scatter.shape[-1]
        packed = np.ascontiguousarray(kind.packed(scatter)[:, self.positions_in(kind, n_features)])
        n_classes = len(packed)
        return self.unpacked(packed.sum(axis=0) if self.is_pooled else packed, n_classes, n_features)

    def positions_in(self, kind: CovarianceKind, n_features: int) -> Indices:
        """Where the pairs of this kind are among those of another.

        Raises
        ------
        ValueError
            If the other kind keeps too little.
        """
        if not kind.is_complete:
            raise ValueError(
                f"a state of covariance type {kind.name!r} does not hold what {self.name!r} needs; "
                f"accumulate with covariance_type={self.name!r}"
            )
        first, second = self.pairs(n_features)
        return first * (first + 1) // 2 + second

    def positions_of(self, features: Indices, n_features: int) -> Indices:
        """Where the products of some features are among the products that are kept.

        Raises
        ------
        ValueError
            If one of them is not kept.
        """
        all_pairs, pairs = self.pairs(n_features), [features[part] for part in self.pairs(len(features))]
        all_keys = all_pairs[0] * n_features + all_pairs[1]
        keys = np.maximum(*pairs) * n_features + np.minimum(*pairs)
        positions = np.minimum(np.searchsorted(all_keys, keys), max(0, len(all_keys) - 1))
        if (all_keys[positions] != keys).any():
            raise ValueError(
                f"a state of covariance type {self.name!r} does not keep the products of these features"
            )
        return positions

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        """There is one object of each kind, also after pickling, so that kinds compare by identity."""
        return kind_named, (self.name,)


class Full(CovarianceKind):
    """A matrix for each class: K × d × d."""

    name: CovarianceType = "full"
    is_complete = True
    is_exchangeable = True

    def shape(self, n_classes: int, n_features: int) -> tuple[int, ...]:
        return n_classes, n_features, n_features

    def pairs(self, n_features: int) -> Pairs:
        return _lower_triangle(n_features)

    def n_pairs(self, n_features: int) -> int:
        return n_features * (n_features + 1) // 2

    def outer(self, vectors: Array) -> Array:
        return vectors[:, :, None] * vectors[:, None, :]

    def add(self, scatter: Array, places: Indices, rows: Array, bounds: Bounds) -> None:
        add_products(rows, bounds, places, scatter)


class Tied(Full):
    """One matrix, pooled within the classes: d × d."""

    name = "tied"
    is_pooled = True
    is_complete = False

    def shape(self, n_classes: int, n_features: int) -> tuple[int, ...]:
        return n_features, n_features

    def outer(self, vectors: Array) -> Array:
        return vectors.T @ vectors

    def add(self, scatter: Array, places: Indices, rows: Array, bounds: Bounds) -> None:
        add_products(rows, bounds[[0, -1]], np.array([0]), scatter[None])

    def add_outer(self, scatter: Array, vectors: Array) -> None:
        if len(vectors) == 1:
            (vector,) = vectors
            step = max(1, _ELEMENTS_IN_CACHE // max(1, len(vector)))
            for start in range(0, len(vector), step):
                scatter[start : start + step] += vector[start : start + step, None] * vector
            return
        columns = [slice(i, i + _MOST_COLUMNS) for i in range(0, len(scatter), _MOST_COLUMNS)]
        for i, rows in enumerate(columns):
            scatter[rows, rows] += vectors[:, rows].T @ vectors[:, rows]
            for others in columns[i + 1 :]:
                products = vectors[:, rows].T @ vectors[:, others]
                scatter[rows, others] += products
                scatter[others, rows] += products.T


class Diagonal(CovarianceKind):
    """A variance for each class and feature: K × d."""

    name = "diag"
    has_products = False
    is_exchangeable = True

    def shape(self, n_classes: int, n_features: int) -> tuple[int, ...]:
        return n_classes, n_features

    def pairs(self, n_features: int) -> Pairs:
        return np.arange(n_features), np.arange(n_features)

    def n_pairs(self, n_features: int) -> int:
        return n_features

    def outer(self, vectors: Array) -> Array:
        return vectors * vectors

    def diagonal(self, scatter: Array) -> Array:
        return scatter

    def zero(self, scatter: Array, features: NDArray[np.bool_]) -> None:
        scatter[features] = 0.0

    def packed(self, scatter: NDArray[N]) -> NDArray[N]:
        return scatter

    def unpacked(self, packed: NDArray[N], n_classes: int, n_features: int) -> NDArray[N]:
        return packed.reshape(n_classes, n_features).copy()

    def is_symmetric(self, scatter: Array) -> bool:
        return True

    def is_semidefinite(self, scatter: Array, squares: Array | None = None) -> bool:
        return bool((scatter >= 0).all())


@lru_cache(maxsize=4)
def _lower_triangle(n_features: int) -> Pairs:
    """All pairs, row by row: the pair of i and j ≤ i is at i (i + 1) / 2 + j."""
    first, second = np.tril_indices(n_features)
    return first, second


def _rows_of(first: Indices) -> Iterator[tuple[int, slice]]:
    """Each feature i with the slice of its pairs: row by row, packing needs no large temporary arrays."""
    bounds = np.flatnonzero(np.diff(first, prepend=-1, append=-1))
    for start, stop in pairwise(bounds.tolist()):
        yield int(first[start]), slice(start, stop)


def _are_semidefinite(matrices: Array, squares: Array) -> bool:
    """Whether a few matrices are positive semidefinite, up to rounding relative to the squares (K, d)."""
    if (np.einsum("kii->ki", matrices) < 0).any():
        return False
    roots = np.sqrt(np.where(squares > 0, squares, 1.0))
    scaled = matrices / roots[:, :, None]
    scaled /= roots[:, None, :]
    np.einsum("kii->ki", scaled)[...] += _SEMIDEFINITE_TOL * matrices.shape[-1]
    try:
        np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        return False
    return True


KINDS: dict[str, CovarianceKind] = {kind.name: kind for kind in (Full(), Tied(), Diagonal())}


def kind_named(name: Any) -> CovarianceKind:
    """The kind of covariance that a user asks for by name.

    Raises
    ------
    ValueError
        If there is no such kind.
    """
    if not isinstance(name, str) or name not in KINDS:
        raise ValueError(f"covariance_type must be one of {', '.join(map(repr, KINDS))}; got {name!r}")
    return KINDS[name]
