"""Loops in C over rows: sums by class, rows in the order of classes, merges, random features, leaves, scores.

`sums.c` holds the loops. `build` compiles it to a library beside it, which is loaded at the first call.
The GIL is released while a loop runs. The functions here check what they are given, since the loops check
nothing: a type, a shape or a code that does not fit is a ValueError. `blas` gives BLAS one thread, and
`threads` shares rows in memory among several. `versions` lists what all runs on.

After `sums.c` has changed, ``python streamgda/statistics/kernels/build.py`` builds it again. The environment
variable ``STREAMGDA_SUMS`` names another library to load, such as one with a sanitizer.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.statistics.kernels.blas import single_blas_thread
from streamgda.statistics.kernels.build import LIBRARY, load_library

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Codes = NDArray[np.int32]
Singles = NDArray[np.float32]
Features = NDArray[Any] | Sequence[NDArray[Any]]

_FLOAT64 = np.dtype(np.float64)
_READ = np.float64, np.float32  # the types that loops read without a copy
_UNSIGNED = {4: np.uint32, 8: np.uint64}
_ENTRY = 16  # numbers in a table for four features of a class
_ELEMENTS_PER_PAGE = 512
_ELEMENTS_PER_CACHE_LINE = 8
_FEW_CLASSES = 64  # whose rows are written side by side in the first-level cache
_NO_ORDER = np.empty(0, np.int32)
_MOST_OF_ONE_THREAD = 1 << 18  # multiplications; OpenBLAS shares larger products among threads

_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_int64
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "add_rows": (ctypes.c_double, (_POINTER, _POINTER, _POINTER)),
    "end_sums": (None, (_POINTER,)),
    "merge_rows": (ctypes.c_double, (_POINTER, _POINTER, _POINTER, _POINTER)),
    "merge_moments": (None, (_POINTER, *[_SIZE] * 3, *[_POINTER] * 3, _SIZE, _POINTER)),
    "rank_rows": (None, (_POINTER, _SIZE, _POINTER, _POINTER)),
    "gather": (None, (_POINTER, _SIZE, _SIZE, _POINTER, _POINTER, _SIZE)),
    "centre": (ctypes.c_double, (_POINTER, _POINTER, _POINTER, _SIZE, _POINTER)),
    "add_products": (None, (_POINTER, _SIZE, _SIZE, _SIZE, *[_POINTER] * 4)),
    "judge_rows": (ctypes.c_double, (_POINTER,)),
    "count_odds": (None, (_POINTER, _SIZE, _POINTER, _POINTER, _SIZE, _SIZE, _POINTER)),
    "map_angles": (None, (_POINTER, _SIZE, _SIZE, _POINTER, _SIZE, _POINTER, _SIZE)),
    "find_leaves": (None, (_POINTER, _SIZE, _SIZE, _POINTER, _POINTER, _SIZE, _POINTER)),
    "count_pairs": (_SIZE, (_POINTER, _SIZE, _SIZE, *[_POINTER] * 3, _SIZE, *[_POINTER] * 4)),
}


@cache
def library() -> ctypes.CDLL:
    """The library of the loops.

    Raises
    ------
    ImportError
        If it has not been built, is for another processor, or is of another `sums.c`.
    """
    path = os.environ.get("STREAMGDA_SUMS") or str(Path(__file__).with_name(LIBRARY))
    try:
        loaded = load_library(path)
    except (OSError, ValueError) as error:
        raise ImportError(
            f"the compiled part of streamgda cannot be loaded ({error}). Install streamgda again with pip; "
            "if it is installed, start Python outside its source tree, or run "
            "python streamgda/statistics/kernels/build.py there"
        ) from error
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


_DSYRK = b"void (char *, char *, int *, int *, double *, double *, int *, double *, double *, int *)"


@cache
def _syrk() -> int:
    """The address of BLAS's dsyrk, which SciPy holds for Cython.

    Raises
    ------
    ImportError
        If it takes other types than `sums.c` gives it, such as integers of 64 bits.
    """
    from scipy.linalg import cython_blas

    capsule = ctypes.py_object(cython_blas.__pyx_capi__["dsyrk"])
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = _POINTER, [ctypes.py_object, ctypes.c_char_p]
    signature = name_of(capsule)
    if re.sub(rb"\w+_d\b", b"double", signature) != _DSYRK:
        raise ImportError(f"SciPy's dsyrk is {signature.decode()!r}, and streamgda calls {_DSYRK.decode()!r}")
    return int(pointer_of(capsule, signature))


class RowsToRead:
    """Rows as the loops read them: columns of float64 or float32, one step between rows.

    Features are of any real type and any strides. What the loops do not read is copied as float64, once for
    several loops.
    """

    def __init__(self, features: Features, n_features: int | None = None) -> None:
        parts = [features] if isinstance(features, np.ndarray) else list(features)
        like = parts[0]
        are_read = like.dtype in _READ and all(
            part.dtype == like.dtype and part.strides == like.strides and part.flags.aligned for part in parts
        )
        if not are_read:
            with np.errstate(over="ignore"):  # infinity is refused by name
                parts = [np.array(part, dtype=np.float64, order="C") for part in parts]
        self._arrays, like = parts, parts[0]
        if isinstance(features, np.ndarray) and like.ndim == 2:
            self.n_features, between = like.shape[1], like.strides[1]
            addresses = like.ctypes.data + between * np.arange(self.n_features)
        elif like.ndim == 1 and all(part.shape == like.shape for part in parts):
            self.n_features, addresses = len(parts), np.array([part.ctypes.data for part in parts])
        else:
            raise ValueError("features are a matrix, or columns of the same length")
        if n_features is not None and self.n_features != n_features:
            raise ValueError(f"the moments are of {n_features} features; got {self.n_features}")
        self.n_rows, is_single = len(like), like.dtype == np.float32
        self._addresses = addresses
        fields = _to(addresses), like.strides[0], int(is_single), self.n_features, self.n_rows
        self.struct = (_SIZE * len(fields))(*fields)


_BYTE: Any = ctypes.c_char * 1
_MOMENTS = _SIZE * 5


def _to(
    array: NDArray[Any],
    dtype: Any = None,
    shape: tuple[int, ...] | None = None,
    below: int | None = None,
    *,
    is_spaced: bool = False,
) -> int:
    """The address of an array that a loop may write to; ValueError if it is not as the loop takes it.

    Parameters
    ----------
    array : ndarray
        In C order, aligned and writable.
    dtype, shape : optional
        What it must have.
    below : int, optional
        What its numbers must be below. They must not be negative.
    is_spaced : bool, default=False
        Whether it may be a matrix with room between its rows.
    """
    if (dtype is not None and array.dtype != dtype) or (shape is not None and array.shape != shape):
        expected = f"{np.dtype(dtype)} of shape {'any' if shape is None else shape}"
        raise ValueError(f"the loop takes {expected}; got {array.dtype} of shape {array.shape}")
    # Seen as unsigned, a negative number is large.
    if below is not None and array.size and np.maximum.reduce(array.view(_UNSIGNED[array.itemsize])) >= below:
        raise ValueError(f"the loop takes numbers from 0 to {below - 1}; got {array.min()} to {array.max()}")
    if array.flags.carray:
        return ctypes.addressof(_BYTE.from_buffer(array)) if array.size else 0
    (step, between), size = array.strides if array.ndim == 2 else (0, 0), array.itemsize
    is_in_rows = between == size and step % size == 0 and step >= size * array.shape[-1]
    if not (is_spaced and is_in_rows and array.flags.aligned and array.flags.writeable):
        raise ValueError("the loop takes writable arrays in C order")
    return array.ctypes.data


# ---------------------------------------------------------------------- sums about anchors


class AnchoredSums:
    """Sums of rows about an anchor for each class, feature by feature; they are added to moments in the end.

    The anchor a of a class is its first row, or the mean of the rows that went in before. If it is the mean
    of n₁ of n rows, and m that of all, then n₁ (a − m)² ≤ W: the scatter of these rows about m is part of W.
    So, whatever the rows are, the squares about it add up to W + n (a − m)² ≤ (1 + n / n₁) W. The sums of a
    class go into its moments, and begin anew, before that exceeds 32 W, which is five bits, and after 1,024
    rows.

    Parameters
    ----------
    weights : ndarray of shape (n_places,)
        The weights of the rows that are in the moments.
    means, low_means, scatter : ndarray of shape (n_places, n_features)
        Their moments, which change in place: sums of squares alone are kept.
    """

    def __init__(self, weights: Array, means: Array, low_means: Array, scatter: Array) -> None:
        n_places, n_features = self._shape = means.shape
        table = np.zeros((-(-n_features // 4), n_places, _ENTRY))
        self._arrays = means, low_means, scatter, weights.copy(), table
        fields = [_to(part, np.float64, means.shape) for part in self._arrays[:3]]
        fields += [_to(self._arrays[3], np.float64, (n_places,)), _to(table), n_places, n_features]
        self._struct = (_SIZE * len(fields))(*fields)

    def add(self, features: Features, places: Codes) -> bool:
        """Add rows of the classes at these places; return whether all their squares are finite."""
        n_places, n_features = self._shape
        rows = RowsToRead(features, n_features)
        indices = _to(places, np.int32, (rows.n_rows,), n_places)
        return bool(library().add_rows(rows.struct, indices, self._struct) == 0)

    def end(self) -> None:
        """Add to the moments all that is in the sums, which begin anew."""
        library().end_sums(self._struct)


def merge_rows(
    features: Features, places: Codes, row_weights: Array | None, moments: Sequence[Array]
) -> bool:
    """Merge rows one by one into the moments of their classes, feature by feature.

    A row is merged as a class of one row, by Chan, Golub & LeVeque (1983), eq. 2.1.

    Parameters
    ----------
    features : ndarray of shape (n_rows, n_features), or one array per feature
        Any real type.
    places : ndarray of int32 of shape (n_rows,)
        Where the class of each row is in the moments.
    row_weights : ndarray of shape (n_rows,), or None
        The weights of the rows; None means one each.
    moments : sequence of ndarray
        Weights and their low parts, (n_places,); means, their low parts and the sums of squares about them,
        (n_places, n_features). They change in place.

    Returns
    -------
    bool
        Whether all sums of squares are finite.
    """
    n_places, n_features = shape = moments[2].shape
    rows = RowsToRead(features, n_features)
    indices = _to(places, np.int32, (rows.n_rows,), n_places)
    shapes = (n_places,), (n_places,), shape, shape, shape
    fields = [_to(part, np.float64, expected) for part, expected in zip(moments, shapes, strict=True)]
    of_rows = 0 if row_weights is None else _to(row_weights, np.float64, (rows.n_rows,))
    return bool(library().merge_rows(rows.struct, indices, of_rows, (_SIZE * len(fields))(*fields)) == 0)


def _addresses_of(parts: Sequence[Array], n_classes: int, n_features: int, scatter: tuple[int, ...]) -> Any:
    """The addresses of the arrays of moments; ValueError if they are not as the loop takes them."""
    vectors = n_classes, n_features
    shapes = vectors[:1], vectors[:1], vectors, vectors, (n_classes, *scatter)
    return _MOMENTS(*[_to(part, _FLOAT64, shape) for part, shape in zip(parts, shapes, strict=False)])


def merger(places: Indices, ours: Sequence[Array], theirs: Sequence[Array]) -> Callable[..., Array]:
    """A function that merges moments of classes into those of the same classes at these places, in turn.

    By Chan, Golub & LeVeque (1983), eq. 2.1. The bits are the same whichever of the two comes first.

    Parameters
    ----------
    places : ndarray of shape (n_classes,)
        Without `done`, each once.
    ours, theirs : sequence of ndarray
        Weights and their low parts, means and their low parts, and maybe the scatter: squares or matrices of
        each class. Ours change in place.

    Returns
    -------
    callable
        ``merge(done=None, *, in_turn=False)``. With `done`, a c_int64, ours change. The loop sets it to 1 at
        its end, and does nothing if it is 1, so an interrupted call can be repeated. Without `done`, nothing
        changes. With `in_turn`, places may repeat. Without `done`, or in turn, it returns the vectors whose
        outer products belong to the sum of the scatters: (n_classes, n_features).
    """
    (n_places, n_features), n_classes, scatter = ours[2].shape, len(places), ours[-1].shape[1:]
    addresses = (
        _to(places, np.int64, (n_classes,), n_places),
        *(n_classes, n_features, math.prod(scatter) if len(ours) > 4 else 0),
        _addresses_of(ours, n_places, n_features, scatter),
        _addresses_of(theirs, n_classes, n_features, scatter),
    )
    arrays = places, ours, theirs

    def merge(done: ctypes.c_int64 | None = None, *, in_turn: bool = False) -> Array:
        step = n_features if in_turn or done is None else 0
        spread = np.empty((len(arrays[0]) if step else 1, n_features))
        library().merge_moments(*addresses, _to(spread), step, None if done is None else ctypes.byref(done))
        return spread

    return merge


# ---------------------------------------------------------------------- rows in the order of classes


def _order(ranks: Codes, n_positions: int) -> Codes:
    """The row that each position gets; that of a position without a row is arbitrary."""
    order = np.zeros(n_positions, np.int32)
    order[ranks] = np.arange(len(ranks), dtype=np.int32)
    return order


class Workspace:
    """The feature-major buffer that blocks are gathered into, kept from one block to the next."""

    _buffer: Array = np.empty((0, 0))

    def gather(
        self, features: Features | RowsToRead, codes: NDArray[Any], bounds: Indices, *, centred: bool = False
    ) -> tuple[Array, Codes]:
        """Put the rows of each class side by side, as float64.

        Long rows of the buffer are a whole number of pages and one cache line apart: at a power of two, the
        same class of different features would fall on the same cache sets.

        Parameters
        ----------
        features : ndarray of shape (n_rows, n_features), one array per feature, or RowsToRead
            Any real type.
        codes : ndarray of shape (n_rows,)
            The class of each row.
        bounds : ndarray of shape (n_classes + 1,)
            The rows of class k come one after the other from ``bounds[k]`` on, before ``bounds[k + 1]``.
        centred : bool, default=False
            Whether rows will be put there by `centre`, and not yet.

        Returns
        -------
        rows : ndarray of shape (n_features, bounds[-1])
            In the buffer, until the next call. What no row goes to is arbitrary.
        ranks : ndarray of int32 of shape (n_rows,)
            Where each row went.

        Examples
        --------
        >>> features, codes, bounds = np.array([[7], [8], [9]]), np.array([1, 0, 1]), np.array([0, 1, 3])
        >>> Workspace().gather(features, codes, bounds)
        (array([[8., 7., 9.]]), array([1, 0, 2], dtype=int32))
        """
        read = features if isinstance(features, RowsToRead) else RowsToRead(features)
        cursors, n = bounds[:-1].astype(np.int64), int(bounds[-1])
        (n_features_held, stride), n_features = self._buffer.shape, read.n_features
        if n_features_held < n_features or stride < n:
            stride = n
            if n >= _ELEMENTS_PER_PAGE:
                stride = -(-n // _ELEMENTS_PER_PAGE) * _ELEMENTS_PER_PAGE + _ELEMENTS_PER_CACHE_LINE
            self._buffer = np.empty((max(n_features, n_features_held), stride))
        codes = codes.astype(np.int32)
        classes, ranks = _to(codes, np.int32, (read.n_rows,), len(cursors)), np.empty(len(codes), np.int32)
        library().rank_rows(classes, len(codes), _to(cursors), _to(ranks))
        if (cursors > bounds[1:]).any() or (bounds[:1] < 0).any():
            raise ValueError("a class has more rows than its bounds leave room for")
        if not centred:
            order = _order(ranks, n) if len(cursors) > _FEW_CLASSES and len(ranks) else _NO_ORDER
            positions, buffer = (_SIZE * 3)(_to(ranks), _to(order), n), self._buffer
            library().gather(read.struct, 0, n_features, positions, _to(buffer), buffer.shape[1])
        return self._buffer[:n_features, :n], ranks


def centre(
    features: Features | RowsToRead,
    ranks: Codes,
    rows: Array,
    counts: Indices,
    bounds: Indices,
    weighed: tuple[Array, Array] | None,
    of_classes: tuple[Indices, Array, Array, Array],
    means: tuple[Array, Array],
) -> bool:
    """Gather rows, centre them about the means of their classes, and move the means in the moments.

    This is the two-pass algorithm: a row x becomes √w (x − mean). The means are merged as by Chan, Golub &
    LeVeque (1983), eq. 2.1.

    Parameters
    ----------
    features, ranks, rows
        What `Workspace.gather` was given and has returned. Class k has ``counts[k]`` rows, at least one, from
        ``bounds[k]`` on.
    counts, bounds : ndarray of int64 of shapes (K,), (K + 1,)
        A class of several rows that is not new has room for one more: the distance of the two means times
        √(w w' / (w + w')). In a class of one row, this takes the place of the row.
    weighed : tuple of ndarray of shape (n,), or None
        The weights of these rows, and their roots; None means one each.
    of_classes : tuple of ndarray of shape (K,)
        The places of the classes in the moments, the weights of their rows, what share of all their weight
        these are (-1 for a new class), and the factor of the distances.
    means : tuple of ndarray of shape (n_places, n_features)
        The means in the moments, and their low parts.

    Returns
    -------
    bool
        Whether all means are finite.
    """
    places, *numbers = of_classes
    (n_features, n), n_classes, shape = rows.shape, len(counts), means[0].shape
    read = features if isinstance(features, RowsToRead) else RowsToRead(features)
    room = counts + ((counts > 1) & (of_classes[2] >= 0))
    if not shape[1] == n_features == read.n_features:
        raise ValueError(f"the moments are of {shape[1]} features; got {n_features} and {read.n_features}")
    if ((counts < 1) | (bounds[1:] - bounds[:-1] < room)).any():
        raise ValueError("a class has no room for its rows")
    fields = [
        n_classes,
        _to(counts, np.int64, (n_classes,)),
        _to(bounds, np.int64, (n_classes + 1,), n + 1),
        _to(places, np.int64, (n_classes,), shape[0]),
        *[_to(part, np.float64, (n_classes,)) for part in numbers],
        *([_to(part, np.float64, (n,)) for part in weighed] if weighed else (0, 0)),
        *[_to(part, np.float64, shape) for part in means],
    ]
    where = _to(ranks, np.int32, (read.n_rows,), n)
    order = _order(ranks, n) if n_classes > _FEW_CLASSES and len(ranks) else _NO_ORDER
    positions = (_SIZE * 3)(where, _to(order), n)
    buffer = _to(rows, np.float64, is_spaced=True), rows.strides[0] // 8
    return bool(library().centre(read.struct, positions, *buffer, (_SIZE * len(fields))(*fields)) == 0)


def add_products(rows: Array, bounds: Indices, places: Indices, scatter: Array) -> None:
    """Add the products of rows (d, n) with themselves, by class, to matrices (n_places, d, d).

    Class k has the rows from ``bounds[k]`` to ``bounds[k + 1]``, and the matrix at ``places[k]``.
    """
    (n_features, n), n_classes = rows.shape, len(places)
    if (bounds[1:] < bounds[:-1]).any():
        raise ValueError("bounds ascend")
    arguments = (
        _to(rows, np.float64, is_spaced=True),
        rows.strides[0] // 8,
        n_features,
        n_classes,
        _to(bounds, np.int64, (n_classes + 1,), n + 1),
        _to(places, np.int64, (n_classes,), len(scatter)),
        _to(scatter, np.float64, (len(scatter), n_features, n_features)),
        _syrk(),
    )
    with single_blas_thread() if n * n_features**2 > _MOST_OF_ONE_THREAD else nullcontext():
        library().add_products(*arguments)


# ---------------------------------------------------------------------- rows judged by their scores


def judge_rows(
    scores: Array,
    probabilities: Array,
    truth: Indices,
    weights: Array,
    edges: Array,
    sums: Array,
    ranks: Array,
) -> float:
    """Judge rows by the scores and the probabilities of classes: (n, K).

    Parameters
    ----------
    truth, weights : ndarray of shape (n,)
        The class of each row, and its weight.
    edges : ndarray of shape (n_bins - 1,)
        The inner edges of the bins of a probability, ascending. An edge is in the bin below it.
    sums : ndarray of shape (K, 3, n_bins)
        To which the probabilities of a class, the weights of its rows and all weights are added.
    ranks : ndarray of shape (n_ranks + 1,)
        To which the weights of rows are added, by how many classes stand before their own.

    Returns
    -------
    float
        The sum of the weighted squares of the errors.
    """
    n_rows, n_classes = scores.shape
    for matrix in (scores, probabilities):
        if matrix.shape != scores.shape or matrix.dtype != np.float64 or not matrix.flags.aligned:
            raise ValueError("scores and probabilities are float64, and of the same rows and classes")
    n_bins, weights = len(edges) + 1, np.array(weights)  # which may be read-only
    fields = (
        *(scores.ctypes.data, *scores.strides, probabilities.ctypes.data, *probabilities.strides),
        *(n_rows, n_classes, _to(truth, np.int64, (n_rows,), n_classes)),
        *(_to(weights, np.float64, (n_rows,)), _to(edges, np.float64, (n_bins - 1,))),
        *(n_bins, len(ranks) - 1, _to(sums, np.float64, (n_classes, 3, n_bins)), _to(ranks, np.float64)),
    )
    return float(library().judge_rows((_SIZE * len(fields))(*fields)))


def count_odds(
    odds: Array, are_members: NDArray[np.bool_], weights: Array, n_bits: int, table: Array
) -> None:
    """Add the weights of rows to the bins of their log-odds z.

    Parameters
    ----------
    odds, are_members, weights : ndarray of shape (n,)
        Log-odds of a class, whether rows are of it, and weights.
    n_bits : int
        How many bits of the mantissa of 1 + log₂(1 + |z|) number the bin, after its exponent.
    table : ndarray of shape (2, n_bins)
        To which the weights are added, of members last. One half of the bins are below zero.
    """
    kinds = (odds, np.float64), (are_members, np.bool_), (weights, np.float64)
    columns = [np.ascontiguousarray(*of_kind) for of_kind in kinds]  # which may be read-only
    if any(column.shape != (len(odds),) for column in columns) or len(table) != 2:
        raise ValueError("each row has log-odds and a weight, and is a member or not")
    first, *others = (column.ctypes.data for column in columns)
    library().count_odds(first, len(odds), *others, n_bits, table.shape[1], _to(table, np.float64))


# ---------------------------------------------------------------------- random features


def map_angles(angles: Array, offsets: Singles, out: Singles, *, are_hinges: bool) -> None:
    """Write the cosine of angle + offset, or max(0, angle + offset), to an array: (n_rows, n_columns).

    The bits are the same on every processor, which NumPy's cosine has not.
    """
    n_rows, n_columns = angles.shape
    offsets = np.array(offsets, np.float32)  # which may be read-only
    library().map_angles(
        _to(angles, np.float64),
        n_rows,
        n_columns,
        _to(offsets, shape=(n_columns,)),
        int(are_hinges),
        _to(out, np.float32, angles.shape, is_spaced=True),
        out.strides[0] // 4,
    )


# ---------------------------------------------------------------------- leaves of trees


def find_leaves(rows: Singles, nodes: Sequence[NDArray[Any]], roots: Codes) -> Codes:
    """The leaf of each row in each tree: (n_rows, n_trees).

    Parameters
    ----------
    rows : ndarray of float32 of shape (n_rows, n_features)
        In C order.
    nodes : sequence of ndarray
        Of all trees: the feature of each node, -1 at a leaf (n_nodes,), int32; its children (n_nodes, 2),
        int32, of which the first is the number of a leaf; its threshold (n_nodes,), float32; whether NaN goes
        to the first child (n_nodes,), uint8. Children come after their parents.
    roots : ndarray of int32 of shape (n_trees,)
        The first node of each tree.
    """
    (n_rows, n_features), n_nodes, leaves = (
        rows.shape,
        len(nodes[0]),
        np.empty((len(rows), len(roots)), np.int32),
    )
    types = (np.int32, (n_nodes,)), (np.int32, (n_nodes, 2)), (np.float32, (n_nodes,)), (np.uint8, (n_nodes,))
    fields = [_to(array, *kind) for array, kind in zip(nodes, types, strict=True)]
    library().find_leaves(
        _to(rows, np.float32),
        n_rows,
        n_features,
        (_SIZE * len(fields))(*fields),
        _to(roots, np.int32, below=n_nodes),
        len(roots),
        _to(leaves),
    )
    return leaves


def count_pairs(leaves: Codes, weights: Array | None, firsts: Indices) -> tuple[Indices, Codes, Array]:
    """The weights of the pairs of leaves i ≤ j that occur in rows, as arrays of a CSR matrix in any order.

    Parameters
    ----------
    leaves : ndarray of int32 of shape (n_rows, n_trees)
        A leaf of each tree.
    weights : ndarray of shape (n_rows,), or None
        Positive; None means one each.
    firsts : ndarray of shape (n_trees + 1,)
        The first leaf of each tree, and the number of all leaves.

    Returns
    -------
    ends, seconds, pair_weights : ndarray
        Where the pairs of each leaf end, (n_leaves,); the second leaf of each pair, and its weight.
    """
    (n_rows, n_trees), n_leaves = leaves.shape, int(firsts[-1])
    ends, sums = np.empty(n_leaves, np.int64), np.zeros(n_leaves)
    of_rows = 0 if weights is None else _to(weights, np.float64, (n_rows,))
    parts, n_pairs = [], 0
    for t in range(n_trees):
        own, first, last = leaves[:, t], int(firsts[t]), int(firsts[t + 1])
        if n_rows and not first <= own.min() <= own.max() < last:
            raise ValueError(f"the leaves of tree {t} are from {first} to {last - 1}")
        rows, bounds = np.argsort(own, kind="stable").astype(np.int32), np.zeros(last - first + 1, np.int64)
        np.cumsum(np.bincount(own - first, minlength=last - first), out=bounds[1:])
        seconds, found = np.empty(n_rows * (n_trees - t), np.int32), np.empty(n_rows * (n_trees - t))
        buffers = _to(sums), _to(ends[first:last]), _to(seconds), _to(found)
        n = library().count_pairs(
            _to(leaves, np.int32), n_trees, t, of_rows, _to(rows), _to(bounds), last - first, *buffers
        )
        ends[first:last] += n_pairs
        n_pairs += n
        parts.append((seconds[:n].copy(), found[:n].copy()))
    return ends, np.concatenate([part for part, _ in parts]), np.concatenate([part for _, part in parts])
