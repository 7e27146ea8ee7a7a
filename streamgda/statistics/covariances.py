"""The kinds of covariance: what each keeps of a scatter matrix, and how it is reduced.

How the floating state of one kind differs from that of another is said here, but for the columns of a
file, which `tabular` names; `exact_scatter` says it of the exact one. All kinds work on the same two
shapes: rows of a block, feature-major and class by class, already centred; and one vector per class, whose
outer product with itself is added or taken away. What the methods of a kind mean is said once, in
`CovarianceKind`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

CovarianceType = Literal["full", "tied", "diag"]

Array = NDArray[np.float64]

Bounds = NDArray[np.intp]

_ROUNDING = 1e-8


@lru_cache(maxsize=4)
def _lower_triangle(n_features: int) -> tuple[NDArray[np.intp], ...]:
    return np.tril_indices(n_features)


class CovarianceKind(ABC):
    """What a kind of covariance must be able to do. K is the number of classes, d of features."""

    name: CovarianceType

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        """There is one object of each kind, also after pickling, so that kinds compare by identity."""
        return kind_named, (self.name,)

    @abstractmethod
    def zeros(self, n_classes: int, n_features: int) -> Array:
        """The scatter of no rows."""

    @abstractmethod
    def products(self, rows: Array, bounds: Bounds) -> Array:
        """The scatter of centred rows (d, n), where class k holds rows bounds[k]:bounds[k + 1]."""

    @abstractmethod
    def outer(self, vectors: Array) -> Array:
        """The outer product of one vector per class (K, d) with itself, in the scatter's shape."""

    @abstractmethod
    def diagonal(self, scatter: Array) -> Array:
        """Each feature's own scatter: (K, d), or (1, d) where the classes share it."""

    @abstractmethod
    def zero(self, scatter: Array, features: NDArray[np.bool_]) -> None:
        """Set to zero all that concerns the features marked, a mask in the diagonal's shape."""

    @abstractmethod
    def freedom(self, weights: Array, ddof: float) -> Array:
        """The weight less `ddof`, by which a scatter becomes a covariance, in a shape that divides it."""

    def is_symmetric(self, scatter: Array) -> bool:
        """Whether a scatter from outside is one that an outer product could be, up to rounding."""
        return bool(np.allclose(scatter, np.swapaxes(scatter, -1, -2)))

    def packed(self, scatter: Array) -> Array:
        """The scatter without what symmetry repeats: lower triangles, row by row, one vector for each."""
        rows, columns = _lower_triangle(scatter.shape[-1])
        return np.atleast_2d(scatter[..., rows, columns])

    def unpacked(self, packed: Array, n_classes: int, n_features: int) -> Array:
        """The scatter that such vectors stand for."""
        scatter = self.zeros(n_classes, n_features)
        rows, columns = _lower_triangle(n_features)
        scatter[..., rows, columns] = scatter[..., columns, rows] = packed.reshape(
            *scatter.shape[:-2], len(rows)
        )
        return scatter

    def is_semidefinite(self, scatter: Array) -> bool:
        """Whether a scatter from outside is one that rows can have, up to rounding."""
        diagonal = np.einsum("...ii->...i", scatter)
        roots = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        correlations = scatter / roots[..., :, None] / roots[..., None, :]
        margin = _ROUNDING * len(roots.T) * np.eye(len(roots.T))
        try:
            np.linalg.cholesky(correlations + margin)
        except np.linalg.LinAlgError:
            return False
        return bool((diagonal >= 0).all())

    def narrowed(self, scatter: Array, kept: CovarianceKind) -> Array:
        """What this kind keeps of a scatter that another kind kept.

        Raises
        ------
        ValueError
            If the other kind keeps too little.
        """
        if kept is self:
            return scatter.copy()
        raise ValueError(
            f"a state of covariance type {kept.name!r} does not hold what {self.name!r} needs; "
            f"accumulate with covariance_type={self.name!r}"
        )

    def take(self, scatter: Array, classes: NDArray[np.intp]) -> Array:
        """The part of a scatter that belongs to some classes."""
        return scatter[classes]

    def put(self, scatter: Array, classes: NDArray[np.intp], part: Array) -> None:
        """Write such a part back."""
        scatter[classes] = part


class Full(CovarianceKind):
    """A matrix for each class: K × d × d."""

    name: CovarianceType = "full"

    def zeros(self, n_classes: int, n_features: int) -> Array:
        return np.zeros((n_classes, n_features, n_features))

    def products(self, rows: Array, bounds: Bounds) -> Array:
        scatter = self.zeros(len(bounds) - 1, len(rows))
        for k, (start, stop) in enumerate(pairwise(bounds)):
            if stop - start > 1:
                of_class = rows[:, start:stop]
                np.matmul(of_class, of_class.T, out=scatter[k])
        return scatter

    def outer(self, vectors: Array) -> Array:
        return vectors[:, :, None] * vectors[:, None, :]

    def diagonal(self, scatter: Array) -> Array:
        return np.diagonal(scatter, axis1=1, axis2=2)

    def zero(self, scatter: Array, features: NDArray[np.bool_]) -> None:
        scatter[features] = 0.0
        scatter.transpose(0, 2, 1)[features] = 0.0

    def freedom(self, weights: Array, ddof: float) -> Array:
        return (weights - ddof)[:, None, None]


class Tied(CovarianceKind):
    """One matrix, pooled within the classes: d × d."""

    name: CovarianceType = "tied"

    def zeros(self, n_classes: int, n_features: int) -> Array:
        return np.zeros((n_features, n_features))

    def products(self, rows: Array, bounds: Bounds) -> Array:
        return rows @ rows.T

    def outer(self, vectors: Array) -> Array:
        return vectors.T @ vectors

    def diagonal(self, scatter: Array) -> Array:
        return np.diagonal(scatter)[None, :]

    def zero(self, scatter: Array, features: NDArray[np.bool_]) -> None:
        scatter[features[0]] = 0.0
        scatter[:, features[0]] = 0.0

    def freedom(self, weights: Array, ddof: float) -> Array:
        return np.atleast_1d(weights.sum() - ddof * len(weights))

    def narrowed(self, scatter: Array, kept: CovarianceKind) -> Array:
        if isinstance(kept, Full):
            pooled: Array = scatter.sum(axis=0)
            return pooled
        return super().narrowed(scatter, kept)

    def take(self, scatter: Array, classes: NDArray[np.intp]) -> Array:
        return scatter

    def put(self, scatter: Array, classes: NDArray[np.intp], part: Array) -> None:
        scatter[...] = part


class Diagonal(CovarianceKind):
    """A variance for each class and feature: K × d."""

    name: CovarianceType = "diag"

    def zeros(self, n_classes: int, n_features: int) -> Array:
        return np.zeros((n_classes, n_features))

    def products(self, rows: Array, bounds: Bounds) -> Array:
        scatter = self.zeros(len(bounds) - 1, len(rows))
        for k, (start, stop) in enumerate(pairwise(bounds)):
            of_class = rows[:, start:stop]
            np.einsum("ij,ij->i", of_class, of_class, out=scatter[k])
        return scatter

    def outer(self, vectors: Array) -> Array:
        return vectors * vectors

    def diagonal(self, scatter: Array) -> Array:
        return scatter

    def zero(self, scatter: Array, features: NDArray[np.bool_]) -> None:
        scatter[features] = 0.0

    def is_symmetric(self, scatter: Array) -> bool:
        return True

    def packed(self, scatter: Array) -> Array:
        return scatter

    def unpacked(self, packed: Array, n_classes: int, n_features: int) -> Array:
        return packed.reshape(n_classes, n_features)

    def is_semidefinite(self, scatter: Array) -> bool:
        return bool((scatter >= 0).all())

    def freedom(self, weights: Array, ddof: float) -> Array:
        return (weights - ddof)[:, None]

    def narrowed(self, scatter: Array, kept: CovarianceKind) -> Array:
        if isinstance(kept, Full):
            return kept.diagonal(scatter).copy()
        return super().narrowed(scatter, kept)


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
