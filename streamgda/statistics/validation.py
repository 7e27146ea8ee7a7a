"""Checks of numbers and names from outside, such as from a file or an SQL engine."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgda.data.blocks.wording import counted, listed
from streamgda.data.storage.documents import TableColumns

_TOO_MANY = 2.0**63  # int64 does not hold it


def check_columns(needed: Iterable[str], columns: TableColumns) -> None:
    """Raise ValueError if a column is missing."""
    for name in needed:
        if name not in columns:
            raise ValueError(f"there is no column {name!r}")


def as_counts(values: NDArray[Any]) -> NDArray[np.int64]:
    """The counts as a new array of int64. An SQL engine may give them as floats.

    Raises
    ------
    ValueError
        If one is no whole number, or beyond 63 bits.
    """
    if values.dtype.kind not in "iuf":
        raise ValueError(f"counts are {values.dtype} where whole numbers are due")
    are_counts = (values == np.floor(values)) & (np.abs(values.astype(np.float64)) < _TOO_MANY)
    if not are_counts.all():
        raise ValueError(f"a count is {values[~are_counts][0]}, which is no whole number of rows")
    return values.astype(np.int64)


def as_count(value: Any, name: str) -> int:
    """A count among the metadata of a file, which may be anything.

    Raises
    ------
    ValueError
        If it is no whole number of at least 0.
    """
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{name} is {value!r} where a whole number is due")
    return value


def physical_memory() -> float:
    """How many bytes of memory the machine has; infinity if that is not known."""
    if not hasattr(os, "sysconf"):
        return math.inf
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(n_bytes: int, n_features: int, covariance_type: str) -> None:
    """Raise MemoryError if a state of so many bytes, and twice as much beside it, exceed the memory."""
    if 3 * n_bytes > physical_memory():
        raise MemoryError(
            f"{n_features:,} features need {n_bytes / 1e9:,.1f} GB for a state of type {covariance_type!r}, "
            f"and twice as much to add states up; this machine has {physical_memory() / 1e9:,.1f} GB. "
            "Hash them to fewer features, as by HashingVectorizer(n_features=2**11)"
            + ("" if covariance_type == "diag" else "; or keep the type 'diag', which GaussianNB needs")
        )


def check_whole(value: Any, name: str, least: int) -> None:
    """Raise ValueError if a parameter is no whole number, or is below `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}; got {value!r}")


def as_feature_names(value: Any) -> tuple[str, ...] | None:
    """Feature names among the metadata of a file, which may be anything.

    Raises
    ------
    ValueError
        If they are no list of strings.
    """
    if value is not None and not (isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)):
        raise ValueError(f"feature_names is {value!r} where a list of strings is due")
    return None if value is None else tuple(value)


def check_feature_names(names: tuple[str, ...] | None, n_features: int) -> None:
    """Raise ValueError unless there is a name for each feature."""
    if names is not None and len(names) != n_features:
        raise ValueError(f"{counted(len(names), 'feature name')} for {counted(n_features, 'feature')}")


def as_feature_positions(
    features: ArrayLike, names: tuple[str, ...] | None, n_features: int
) -> NDArray[np.intp]:
    """The positions of features that a user gives by name, position or mask.

    Raises
    ------
    ValueError
        If a feature is unknown or given twice, or no feature is given.
    """
    chosen = np.atleast_1d(np.asarray(features))
    if chosen.dtype.kind in "UO" and chosen.ndim == 1:
        positions = [_position_of_feature(name, names) for name in chosen.tolist()]
    elif chosen.dtype.kind == "b" and chosen.shape == (n_features,):
        positions = np.flatnonzero(chosen).tolist()
    elif chosen.dtype.kind in "iu" and chosen.ndim == 1:
        positions = chosen.tolist()
    else:
        raise ValueError(
            f"features are names, positions or a mask of {counted(n_features, 'feature')}; got {features!r}"
        )
    for position in positions:
        if not 0 <= position < n_features:
            raise ValueError(f"there is no feature {position} among {n_features}")
    if not positions or len(set(positions)) < len(positions):
        raise ValueError(f"at least one feature is needed, and each once; got {features!r}")
    return np.array(positions, dtype=np.intp)


def as_affine_map(
    A: ArrayLike, b: ArrayLike | None, n_features: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A (m, d) and b (m,) as arrays of float64.

    Raises
    ------
    ValueError
        If a shape is wrong, or a number is not finite.
    """
    matrix = np.asarray(A, dtype=np.float64)
    if matrix.ndim != 2 or not len(matrix) or matrix.shape[1] != n_features:
        raise ValueError(f"A must have shape (n_new_features, {n_features}); got {matrix.shape}")
    shift = np.zeros(len(matrix)) if b is None else np.asarray(b, dtype=np.float64)
    if shift.shape != matrix.shape[:1]:
        raise ValueError(
            f"b must have shape ({len(matrix)},), one number for each row of A; got {shift.shape}"
        )
    if not (np.isfinite(matrix).all() and np.isfinite(shift).all()):
        raise ValueError("A and b must be finite numbers")
    return matrix, shift


def _position_of_feature(name: Any, names: tuple[str, ...] | None) -> int:
    if names is None:
        raise ValueError(f"the features have no names, so {name!r} is unknown; give positions")
    if name not in names:
        raise ValueError(f"there is no feature {name!r}; the features are {listed(names)}")
    return names.index(name)
