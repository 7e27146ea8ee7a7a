"""The exact kernel: the sums and products of the rows of a block, as integers on a binary grid.

Most rows of a block hold together in few slices. A few others (a value next to zero, whose last bit is far
below those of the rest; an outlier far above) would cost all of them more: they are cut by themselves.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from streamgda import moments
from streamgda.blocks import Block, Column, Features, Matrix
from streamgda.covariances import Array
from streamgda.exact_numbers import ExactArray, Integers
from streamgda.exact_scatter import ExactScatter, Indices, Segments, Terms
from streamgda.exact_slices import LOW_BITS, TILE_ROWS, WIDTH, Slicer, Slices, Values
from streamgda.exact_sums import Sums
from streamgda.moments import Workspace

_SAMPLE_ROWS = 512
_MOST_LEFT = 1 / 16
_INTEGERS_OF_FLOATS = 1 << 53
_LOW = (1 << LOW_BITS) - 1


def reduce_block(block: Block, scatter: ExactScatter, workspace: Workspace) -> Sums:
    """The sums of the classes of a block.

    Raises
    ------
    ValueError
        If a value is NaN or infinite, or a weight is not a whole number; the message says where.
    """
    n_classes, n_features = len(block.classes), block.n_features
    order = np.argsort(block.codes, kind="stable")
    weights: list[tuple[int, Integers]] = []
    totals: list[tuple[int, Integers]] = []
    products: list[tuple[int, Integers]] = []
    for exponent, rows in _repetitions(block, order):
        bounds = _bounds(block.codes[rows], n_classes)
        sums = _RowSums(scatter, n_classes, n_features)
        sums.add(_gather(block, rows, workspace), bounds)
        weights.append((exponent, np.diff(bounds)))
        totals += [(e + exponent, term) for e, term in sums.totals.items()]
        products += [(e + exponent, scatter.packed(term)) for e, term in sums.products.items()]
    return Sums(
        scatter,
        ExactArray.of_terms(weights, (n_classes,)),
        ExactArray.of_terms(totals, (n_classes, n_features)),
        ExactArray.of_terms(products, (scatter.n_matrices(n_classes), scatter.n_pairs(n_features))),
    )


def _bounds(codes: NDArray[np.integer], n_classes: int) -> Indices:
    return np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=n_classes))))


def _repetitions(block: Block, order: Indices) -> Iterator[tuple[int, Indices]]:
    """The rows that count 2^e times, for each e: a weight is the sum of the powers of two in it."""
    if block.weights is None:
        yield 0, order
        return
    whole = (block.weights == np.floor(block.weights)) & (block.weights < _INTEGERS_OF_FLOATS)
    if not whole.all():
        row = int(np.argmin(whole))
        raise ValueError(
            f"{block.row_name(row)} has weight {block.weights[row]!s}; exact statistics take whole numbers "
            "below 2^53, repetitions of a row. Use ClassStatistics for others, or scale them to be whole"
        )
    weights = block.weights.astype(np.int64)[order]
    for exponent in range(int(weights.max()).bit_length()):
        rows = order[(weights >> exponent) & 1 == 1]
        if len(rows):
            yield exponent, rows


class _RowSums:
    """Sums and products of rows, by the exponents of the integers that they are."""

    def __init__(self, scatter: ExactScatter, n_classes: int, n_features: int) -> None:
        self._scatter = scatter
        self.totals: Terms = defaultdict(lambda: np.zeros((n_classes, n_features), dtype=np.int64))
        self.products: Terms = defaultdict(partial(scatter.zeros, n_classes, n_features))

    def add(self, values: Values, bounds: Indices) -> None:
        """Add rows, where class k holds rows bounds[k]:bounds[k + 1]."""
        highest = _exponent_above(values.largest)
        top, beyond = _usual_top(values, highest)
        left = self._add_but_few(values, bounds, top, beyond)
        if left.any():
            codes = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))[left]
            top += WIDTH * max(0, math.ceil((highest - top) / WIDTH))
            self._add_all(values.take(left), _bounds(codes, len(bounds) - 1), top)

    def _add_but_few(
        self, values: Values, bounds: Indices, top: int, beyond: NDArray[np.bool_] | None
    ) -> NDArray[np.bool_]:
        """Add the rows that hold in as many slices as most do; return which are left."""
        left = np.zeros(values.n_rows, dtype=np.bool_) if beyond is None else beyond
        slicer = Slicer(top)
        for start, tile in _tiles(values):
            here = left[start : start + tile.n_rows]
            usual = Values(np.where(here, 0.0, tile.high)) if here.any() else tile
            slices, rest = slicer.cut(usual, _MOST_LEFT * tile.n_rows)
            here |= rest
            self._add_slices(slices, Segments.within(bounds, start, start + tile.n_rows))
        return left

    def _add_all(self, values: Values, bounds: Indices, top: int) -> None:
        slicer = Slicer(top)
        for start, tile in _tiles(values):
            slices, _ = slicer.cut(tile)
            self._add_slices(slices, Segments.within(bounds, start, start + tile.n_rows))

    def _add_slices(self, slices: Slices, segments: Segments) -> None:
        n_slices, n_features, n_rows = slices.values.shape
        flat = slices.values.reshape(n_slices * n_features, n_rows)
        sums = segments.sums(flat)
        held = _nonzero(flat, sums).reshape(n_slices, n_features)
        for i in np.flatnonzero(held.any(axis=1)):
            of_slice = sums[:, i * n_features : (i + 1) * n_features]
            self.totals[slices.exponents[i]][segments.classes] += of_slice
        self._scatter.add_products(self.products, slices, held, segments)


def _nonzero(rows: Array, sums: Integers) -> NDArray[np.bool_]:
    """Which rows are not all zero; those are not whose sums are not."""
    nonzero = np.asarray(sums.any(axis=0))
    doubtful = np.flatnonzero(~nonzero)
    nonzero[doubtful] = rows[doubtful].any(axis=1)
    return nonzero


def _tiles(values: Values) -> Iterator[tuple[int, Values]]:
    for start in range(0, values.n_rows, TILE_ROWS):
        yield start, values.take(slice(start, start + TILE_ROWS))


def _usual_top(values: Values, highest: int) -> tuple[int, NDArray[np.bool_] | None]:
    """An exponent t such that all values but those of few rows are below 2^t, and those rows."""
    if values.low is not None:
        return highest, None
    sample = np.abs(values.high[:, :: max(1, values.n_rows // _SAMPLE_ROWS)]).max(axis=0)
    usual = _exponent_above(float(np.quantile(sample, 0.9))) + 1
    if highest <= usual:
        return highest, None
    beyond = np.asarray((np.abs(values.high) >= 2.0**usual).any(axis=0))
    return (highest, None) if beyond.mean() > _MOST_LEFT else (usual, beyond)


def _exponent_above(value: float) -> int:
    """The least exponent t with value < 2^t."""
    return math.frexp(value)[1]


def _gather(block: Block, rows: Indices, workspace: Workspace) -> Values:
    """The features as feature-major floats in the order of the rows: two each, where one cannot hold them."""
    features, remainders = _halves(block.features)
    high = workspace.rows(block.n_features, len(rows))
    with np.errstate(over="ignore"):
        moments.gather(features, rows, high, workspace)
    values = Values(high)
    if not math.isfinite(values.largest):
        block.refuse_values()
    if remainders is None:
        return values
    low = np.empty_like(high)
    moments.gather(remainders, rows, low, workspace)
    return Values(high, low)


def _halves(features: Features) -> tuple[Features, Features | None]:
    """The features and None; or, of integers that float64 would round, multiples of 2^11 and the rest."""
    features = _integral(features) if isinstance(features, np.ndarray) else list(map(_integral, features))
    parts = [features] if isinstance(features, np.ndarray) else features
    if not any(_is_rounded(part) for part in parts):
        return features, None
    wide = [_is_rounded(part) for part in parts]
    high = [part >> LOW_BITS << LOW_BITS if w else part for part, w in zip(parts, wide, strict=True)]
    low = [part & _LOW if w else np.zeros(part.shape) for part, w in zip(parts, wide, strict=True)]
    return (high[0], low[0]) if isinstance(features, np.ndarray) else (high, low)


def _integral(values: Matrix) -> Matrix:
    """Whole numbers of 64 bits as integers, where a longer float holds them, as it does beside nulls."""
    if not _is_longer(values):
        return values
    for integers in (np.int64, np.uint64):
        limits = np.iinfo(integers)
        if ((values >= limits.min) & (values <= limits.max) & (values == np.floor(values))).all():
            return values.astype(integers)
    return values


def _is_longer(values: Matrix) -> bool:
    """Whether these are floats of more bits than float64."""
    return values.dtype.kind == "f" and values.dtype.itemsize > 8


def _is_rounded(values: Column) -> bool:
    """Whether float64 may not hold some of these numbers."""
    if _is_longer(values):
        with np.errstate(over="ignore"):
            rounded = values.astype(np.float64) != values
        if rounded.any() and np.isfinite(values).all():  # what is not finite is refused by name
            raise ValueError(
                f"exact statistics take float64 and less; some values of type {values.dtype} need more"
            )
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8 or not values.size:
        return False
    return bool(values.max() > _INTEGERS_OF_FLOATS or values.min() < -_INTEGERS_OF_FLOATS)
