"""Rows that go through a map of random features before they are added up, a few thousand at a time.

The products of mapped rows are formed in single precision, in half the time, and added in double precision.
Rows are centred about one mean c for all classes of a block: Σ w (x − c)(x − c)ᵀ less Σ n_k δ_k δ_kᵀ, where
δ_k is the mean of class k less c, is their scatter within the classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from threading import Lock
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk

from streamgda.data.blocks.block import FILL_IN, Block
from streamgda.data.blocks.labels import positions_by_code
from streamgda.data.blocks.schema import Columns, Schema, is_of_one_thread
from streamgda.extensions.devices.rows import DeviceRows
from streamgda.extensions.ridge.array_api import mapped
from streamgda.extensions.ridge.features import RandomFeatures
from streamgda.extensions.ridge.maps import MapColumns, MapRule
from streamgda.extensions.ridge.pytorch import check_device, on_device
from streamgda.statistics.covariances import Array, CovarianceKind
from streamgda.statistics.floating.moments import Moments, sums_of_weights, two_sum
from streamgda.statistics.floating.reduction import Accumulation
from streamgda.statistics.kernels import Singles, Workspace
from streamgda.statistics.kernels.blas import single_blas_thread
from streamgda.statistics.labelled import Labelled

Products = Literal["float32", "float64"]

_ROWS_TOGETHER = 1 << 12
_ROWS_OF_CENTRE = 256
_BETWEEN = (3 - 5**0.5) / 2  # irrational, so that no place is where two rows of whole weights meet
_MOST_COLUMNS = 1 << 11  # of which products are in memory in single precision
_STRIP = 64  # rows of a matrix that are worked on at once
_ON_DEVICE = Lock()  # whose memory holds the matrices of one block at a time
_ROUNDING = 8 * float(np.finfo(np.float32).eps)  # of a sum of squares, relative to it


class MappedColumns(MapColumns):
    """The random features of rows, of which only the rows are in memory."""

    of_one_thread = property(lambda rows: rows.rule.device is not None or is_of_one_thread(rows.given))

    def _made_of(self, rows: Block) -> Singles:
        return _mapped(rows, self.rule)

    def reduced(self, block: Block, kind: CovarianceKind, workspace: Workspace) -> Moments:
        """The moments of the classes, with few mapped rows in memory.

        Raises
        ------
        ValueError
            If a value is NaN or infinite, or squares alone are kept.
        """
        if not kind.has_products:
            raise ValueError("rows are mapped for a covariance type with products, 'tied' or 'full'")
        rows, on_a_device = self.before(block), self.given if hasattr(self.given, "moments") else None
        if self.rule.device is not None and on_a_device is None:
            on_a_device = DeviceRows(on_device(rows.matrix(0, self.n_rows), self.rule.device))
        if on_a_device is not None:
            with _ON_DEVICE:
                moments: Moments = on_a_device.moments(
                    rows, kind, partial(mapped, self.rule.features), len(self)
                )
        elif self.rule.products == "float64":
            return _reduced_in_double(rows, self.rule, kind, workspace)
        else:
            with np.errstate(over="ignore", invalid="ignore"), single_blas_thread():
                moments = _reduced_in_single(rows, self.rule, kind)
        if not moments.are_finite():
            rows.raise_for_values(other_remedy=FILL_IN)
        return moments


class MappedRows(MapRule):
    """The rule by which the rows of a state go through a map of random features.

    The state holds the moments of the mapped rows, and the map. Of a column with categories, the dummies are
    among the inputs; a category that is not among those of `schema` has none.

    Parameters
    ----------
    features : RandomFeatures
        The map, fitted to rows with the features of the schema.
    schema : Schema, optional
        What the features of the rows are. By default they are columns of numbers, with the names that the map
        was fitted to.
    products : {"float32", "float64"}, default="float32"
        In which precision products of rows are formed. They are added in float64. In single precision the
        error of a scatter is about 1e-6 of that of all rows, or less, and the passes of wide maps take
        half the time.
    device : str, optional
        The device of PyTorch on which rows are mapped and multiplied, in float64, such as "cuda". By default
        the host. It is not saved.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamgda import RandomFeatures, accumulate, scan_arrow
    >>> from streamgda.extensions.ridge.rule import MappedRows
    >>> import pyarrow as pa
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> rule = MappedRows(RandomFeatures(100).fit(X[::3]))
    >>> source = scan_arrow(pa.Table.from_pandas(X.assign(species=y)), "species")
    >>> accumulate(source, covariance_type="tied", rule=rule)
    ClassStatistics(covariance_type='tied', classes=3, features=108, rows=150)
    """

    saved_as: ClassVar[str] = "mapped_rows"
    rounding = 2.0**-16  # of features, too: the last digit of a row depends on the processor
    _map, _columns = RandomFeatures, MappedColumns
    _options = ("products",)

    def __init__(
        self,
        features: RandomFeatures,
        schema: Schema | None = None,
        *,
        products: Products = "float32",
        device: str | None = None,
    ) -> None:
        super().__init__(features, schema)
        if products not in {"float32", "float64"}:
            raise ValueError(f"products must be 'float32' or 'float64'; got {products!r}")
        self.products = products
        self.made = Columns(tuple(map(str, features.get_feature_names_out(self.schema.feature_names))))
        self.columns: list[int] = np.flatnonzero(features.factor_).tolist() if features.include_inputs else []
        self.set_device(device)

    def set_device(self, device: str | None) -> None:
        """Set where rows are mapped from now on; ImportError or ValueError if it is not there."""
        if device is not None:
            check_device(device)
        self.device = device


def spread_by_weight(blocks: Sequence[Block], most: int) -> list[NDArray[np.intp]]:
    """The positions in each block of rows that are spread evenly over the weight of all; at most `most`."""
    ends = np.cumsum(np.concatenate([block.row_weights for block in blocks]))
    shares = (np.arange(most) + _BETWEEN) / most
    places = np.unique(np.searchsorted(ends, shares * ends[-1]))
    starts = np.cumsum([0, *(len(block.codes) for block in blocks)])
    return [places[slice(*np.searchsorted(places, both))] - both[0] for both in pairwise(starts)]


def _mapped(rows: Block, rule: MappedRows, out: Singles | None = None) -> Singles:
    """What the map makes of the rows of a block, as the first rows of `out` if it is given."""
    n_rows, features = len(rows.codes), rule.features
    made = np.empty((n_rows, features.n_outputs), np.float32) if out is None else out[:n_rows]
    if not features.write(rows.matrix(0, n_rows), made):
        rows.raise_for_values(other_remedy=FILL_IN)
    return made


def _reduced_in_double(rows: Block, rule: MappedRows, kind: CovarianceKind, workspace: Workspace) -> Moments:
    """The moments of the mapped rows of a block."""
    n_features = rule.features.n_outputs
    accumulation = Accumulation(Labelled.empty(Moments.zeros(kind, 0, n_features), n_features))
    for block in rows.cut(_ROWS_TOGETHER):
        accumulation.add(replace(block, features=_mapped(block, rule), feature_names=None), workspace)
    return accumulation.state().moments


def _reduced_in_single(rows: Block, rule: MappedRows, kind: CovarianceKind) -> Moments:
    """The moments of the mapped rows of a block, of which products are formed in single precision."""
    if kind.is_pooled:
        return Moments(kind, *_pooled_in_single(rows, rule))
    moments = Moments.zeros(kind, len(rows.classes), rule.features.n_outputs)
    for k, own in positions_by_code(rows.codes, len(rows.classes)):
        of_class = _pooled_in_single(rows.take(own), rule)
        for array, part in zip(moments.arrays, of_class, strict=True):
            array[k : k + 1] = part
    return moments


def _pooled_in_single(rows: Block, rule: MappedRows) -> tuple[Array, Array, Array, Array, Array]:
    """The arrays of the moments of all classes of a block, with one scatter."""
    n_rows, n_features = len(rows.codes), rule.features.n_outputs
    memory = np.empty((min(n_rows, _ROWS_TOGETHER), n_features), np.float32)
    products = np.empty(min(n_features, _MOST_COLUMNS) ** 2, np.float32)
    if rows.weights is None:
        few = np.arange(0, n_rows, max(1, n_rows // _ROWS_OF_CENTRE))[: len(memory)]
    else:  # about another centre than that of the rows that count, products lose digits
        few = spread_by_weight([rows], _ROWS_OF_CENTRE)[0]
    centre = _mapped(rows.take(few), rule, memory).mean(axis=0, dtype=np.float64).astype(np.float32)
    bounds = np.concatenate(([0], np.cumsum(np.bincount(rows.codes))))
    rows = rows.take(np.argsort(rows.codes, kind="stable"))
    unit, roots = 1.0, None
    if rows.weights is not None:  # the largest is about 1, so that no square exceeds float32
        unit = 2.0 ** np.floor(np.log2(rows.weights.max()))
        roots = np.sqrt(rows.weights / unit).astype(np.float32)[:, None]
    totals, scatter = np.zeros((len(bounds) - 1, n_features)), np.zeros((n_features, n_features))
    for start in range(0, n_rows, _ROWS_TOGETHER):
        mapped = _mapped(rows.between(start, start + _ROWS_TOGETHER), rule, memory)
        mapped -= centre
        own_roots = None if roots is None else roots[start : start + len(mapped)]
        if own_roots is not None:
            mapped *= own_roots
        inside = np.clip(bounds - start, 0, len(mapped))
        for k in np.flatnonzero(np.diff(inside)):
            own = slice(inside[k], inside[k + 1])
            of_class = mapped[own] if own_roots is None else mapped[own] * own_roots[own]
            totals[k] += np.add.reduce(of_class, axis=0, dtype=np.float64)
        _add_products(mapped, scatter, products)
    weights, weight_tails = sums_of_weights(rows.row_weights, bounds)
    relative = weights[:, None] / unit
    _take_out_means(scatter, totals, relative)
    if unit != 1:
        scatter *= unit
    return weights, weight_tails, *two_sum(centre.astype(np.float64), totals / relative), scatter


def _add_products(mapped: Singles, scatter: Array, memory: Singles) -> None:
    """Add the products of mapped rows to the blocks of a scatter on the diagonal, and above it."""
    columns = [slice(i, i + _MOST_COLUMNS) for i in range(0, len(scatter), _MOST_COLUMNS)]
    for i, rows in enumerate(columns):
        for others in columns[i:]:
            block = scatter[rows, others]
            products = memory[: block.size].reshape(block.shape)
            block += np.matmul(mapped[:, rows].T, mapped[:, others], out=products)


def _take_out_means(scatter: Array, totals: Array, weights: Array) -> None:
    """Make products about one centre a scatter about the means of the classes: totals (K, d) by weights."""
    squares = scatter.diagonal().copy()
    spread = np.asfortranarray((totals / np.sqrt(weights)).T)
    dsyrk(-1.0, spread, beta=1.0, c=scatter.T, overwrite_c=True, lower=True)
    _mirror(scatter)
    constant = scatter.diagonal() <= _ROUNDING * squares  # what is left of them is rounding errors
    scatter[constant] = scatter[:, constant] = 0.0


def _mirror(matrix: Array) -> None:
    """Write what is above the diagonal of a matrix below it."""
    for i in range(0, len(matrix), _STRIP):
        strip, j = matrix[i : i + _STRIP, i:], i + _STRIP
        strip[:, :_STRIP] = np.triu(strip[:, :_STRIP]) + np.triu(strip[:, :_STRIP], 1).T
        matrix[j:, i:j] = strip[:, _STRIP:].T
