"""Dask collections: data frames by the names of their columns, and rows with labels beside them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, repeat
from typing import Any

import pyarrow as pa
from dask.delayed import Delayed, delayed

from streamgda.data.blocks.arrays import array_blocks, as_arrow, list_columns, with_places
from streamgda.data.blocks.block import Block, Missing, Places, check_missing
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.options import refusing_renamed
from streamgda.data.blocks.parts import Part
from streamgda.data.blocks.schema import Columns
from streamgda.data.blocks.wording import callers_level, counted
from streamgda.data.sources.base import Source
from streamgda.data.sources.batches import BatchSplit, columns_of_frame, rebatched
from streamgda.data.sources.columns.choosing import check_file, check_types, choose_roles
from streamgda.data.sources.columns.encoding import Wanted, encoding_for
from streamgda.data.sources.columns.lists import expanded
from streamgda.data.sources.columns.roles import Roles
from streamgda.data.sources.columns.types import FIRST_ROWS, label_kind
from streamgda.data.sources.splits import LazySplit, Split
from streamgda.data.sources.tabular import TabularSource

_FRAME = "the data frame"
_MANY_CHUNKS = 1000
_SMALL_CHUNK = 1 << 18  # bytes, which are read in less time than a task costs


@refusing_renamed
def scan_dask(
    collection: Any,
    target: Any,
    *,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    categories: Wanted = "auto",
    weight: Any = None,
    missing: Missing = "raise",
) -> Source:
    """Describe a Dask collection, for `accumulate` and the estimators' `fit` to read.

    Each partition is computed where its statistics are taken; the rows are never gathered.

    Parameters
    ----------
    collection : dask DataFrame or dask array of shape (n_rows, n_features)
        Rows. The chunks of an array may cut columns and may be of unknown length.
    target : str, dask Series or dask array of shape (n_rows,)
        The column of labels of a data frame, by name; or labels beside the rows, with the same number of
        partitions. Where the chunks of arrays differ, the labels are rechunked like the rows. In each
        partition, a series is put into the order of the data frame's index.
    features : sequence of str, optional
        Columns of a data frame whose target is named, or patterns such as "x*"; all but the target and the
        weight by default. Columns of lists are learnt as by `scan_parquet`. If columns are of objects, the
        first partition is computed, to see whether they are of lists.
    exclude : sequence of str, optional
        Columns that are not features, if `features` is not given: names, or patterns such as "id*". Name
        identifiers here, since they are columns of numbers too.
    categories : "auto", Categorical or None, default="auto"
        Features with categories: all that hold strings or dictionaries, or those that `Categorical` names.
        Each category is then a feature of 0 and 1. A missing value is a category too. If None, all features
        are numbers.
    weight : str, dask Series or dask array, optional
        Sample weights, given as the target is.
    missing : {"raise", "drop", "marginal"}, default="raise"
        What becomes of a row that has a null, NaN or infinity in a feature, or has no label or weight. With
        "raise", an error names the row. With "drop", the row is left out, and counted in the statistics'
        `n_dropped`. With "marginal", rows in which features are null or NaN count by the features that they
        have, rows without a label are left out and counted, and `accumulate` returns `IncompleteStatistics`.
        A model with ``missing="marginal"`` learns from rows that lack features in any case.

    Returns
    -------
    Source

    Raises
    ------
    TypeError
        If the collection is not one of Dask's.
    ValueError
        If a column is missing, or has a type that its role cannot have. If rows and labels differ in number;
        or in the number of chunks, where the lengths of chunks are unknown.

    Warns
    -----
    UserWarning
        If an array has more than 1,000 chunks that are smaller than 256 KiB on average.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> from streamgda import accumulate, scan_dask
    >>> X = da.from_array(np.array([[1.0], [3.0], [8.0]]), chunks=(2, 1))
    >>> y = da.from_array(np.array([0, 0, 1]), chunks=3)
    >>> accumulate(scan_dask(X, y), "diag").means
    array([[2.],
           [8.]])
    """
    check_missing(missing)
    if not hasattr(collection, "to_delayed"):
        raise TypeError(
            "a dask DataFrame or array is needed, such as the .data of an xarray; scan_arrow takes frames in "
            f"memory; got {type(collection).__name__}"
        )
    if isinstance(target, str):
        if not hasattr(collection, "columns"):
            raise ValueError("the target of a dask array is an array beside it, not a name")
        frame = collection.rename(columns=str)  # as Arrow names them
        types = _with_lists(_known_types(frame, categories), frame)
        choice = target, features, exclude, categories, weight, missing
        return FrameSource(frame, choose_roles(types, _FRAME, *choice, types, partial(_first_rows, frame)))
    if features is not None or exclude:
        raise ValueError("features and exclude name columns of a data frame; then name its target too")
    return _rows_and_labels(collection, target, weight, missing, categories)


class FrameSource(TabularSource):
    """A data frame of Dask with the roles of its columns; made by `scan_dask`."""

    def __repr__(self) -> str:
        return f"<Dask frame of {self._data.npartitions} partitions: {self._roles.in_words}>"

    @property
    def _known(self) -> tuple[pa.Schema, str]:
        return _known_types(self._data), _FRAME

    def splits(self) -> list[LazySplit]:
        """The partitions, each of which becomes a split when it is computed."""
        parts = self._data[list(self._roles.columns)].to_delayed()
        split_of = partial(FramePartition, roles=self._roles)
        return [LazySplit(delayed(partial(split_of, index=i))(part)) for i, part in enumerate(parts)]


@dataclass
class RowsSource(Source):
    """Rows in Dask partitions, with labels beside them; made by `scan_dask`.

    A partition is its rows, labels and weights, and how many rows are before it. The columns of an array are
    a range, and have no roles.
    """

    partitions: list[tuple[Any, ...]]
    columns: Sequence[str] | range
    roles: Roles | None
    missing: Missing
    parts: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        """Name the features of a data frame."""
        if self.roles is not None:
            self.feature_names, self.encoded = self.roles.features, self.roles.encoded

    def __repr__(self) -> str:
        described = f"Dask rows with a target beside them, {len(self.partitions)} partitions"
        return f"<{'; '.join([described, *map(str, self.parts)])}>"

    @property
    def n_features(self) -> int:
        """How many features a row has."""
        return len(self.columns if self.roles is None else self.roles.features)

    @property
    def weight(self) -> Any:
        """The weights of the first partition; None if rows have none."""
        return self.partitions[0][2]

    def with_features(self, names: Sequence[str]) -> RowsSource:
        """The same rows with some of the features of a data frame, in this order."""
        if self.roles is None:
            return super().with_features(names)
        return replace(self, roles=self.roles.of_features(names))

    def as_stored(self) -> RowsSource:
        """The same rows, whose columns that are not numbers come as they are."""
        return replace(self, roles=self.roles and self.roles.as_stored())

    def with_part(self, part: Part) -> RowsSource:
        """One of the parts of `split`."""
        return replace(self, parts=(*self.parts, part)) if part.column is None else super().with_part(part)

    def splits(self) -> list[LazySplit]:
        """The partitions, each of which becomes a split when it is computed."""
        split_of = partial(RowsPartition, source=replace(self, partitions=[]))
        return [
            LazySplit(delayed(partial(split_of, index=i, before=before))(*part))
            for i, (*part, before) in enumerate(self.partitions)
        ]


@dataclass(frozen=True)
class FramePartition(BatchSplit):
    """A computed partition of a data frame."""

    frame: Any
    index: int
    roles: Roles

    n_rows = property(lambda self: len(self.frame))

    def _batches(self) -> Iterator[tuple[pa.RecordBatch, Places]]:
        origin = f"partition {self.index}"
        table = as_arrow(self.frame, origin)
        check_file(self.roles, table.schema, origin)
        yield from rebatched(table.to_batches(), self.roles, Places(origin, dataset=origin))


@dataclass(frozen=True)
class RowsPartition(Split):
    """Computed rows, their labels and weights."""

    rows: Any
    labels: Any
    weights: Any
    index: int
    before: int | None
    source: RowsSource  # without the partitions

    n_rows = property(lambda self: len(self.rows))

    def blocks(self, among: Labels | None = None) -> Iterator[Block]:
        """Cut the rows into blocks."""
        origin, roles = f"partition {self.index}", self.source.roles
        rows, names = self._features(origin)
        unnumbered = Places(origin, dataset=origin)
        places = unnumbered if self.before is None else Places(origin, before=self.before)
        labels, weights = (_in_order_of(self.rows, other, origin) for other in (self.labels, self.weights))
        return array_blocks(
            rows,
            labels,
            weights,
            names,
            missing=self.source.missing,
            origin=origin,
            places=places,
            parts=self.source.parts,
            lists=() if roles is None else list_columns(self.rows, roles.features),
            among=among,
        )

    def _features(self, origin: str) -> tuple[Any, tuple[str, ...] | None]:
        """The rows with their features alone, some of which may be encoded, and the names of these."""
        roles = self.source.roles
        if roles is None or not hasattr(self.rows, "columns"):
            return self.rows, None
        frame, names = self.rows.rename(columns=str), roles.features
        if (columns := tuple(frame.columns)) != self.source.columns:
            declared = list(self.source.columns)
            raise ValueError(f"{origin} has the columns {list(columns)}; the data frame declares {declared}")
        frame = with_places(frame, Columns(names))
        if not roles.encoded:
            return frame[list(names)], names
        features = columns_of_frame(as_arrow(frame, origin), roles, origin)
        return features, features.schema.feature_names


def _in_order_of(rows: Any, other: Any, origin: str) -> Any:
    """Labels or weights in the order of the rows' index, where both have one."""
    if not (hasattr(rows, "index") and hasattr(other, "index")) or len(rows) != len(other):
        return other
    if rows.index.equals(other.index):
        return other
    if not (rows.index.is_unique and rows.index.isin(other.index).all()):
        raise ValueError(
            f"{origin}: the rows and the labels or weights beside them have other indices. If the index says "
            "which belong together, make one frame, as by X.assign(target=y), and name its column; if the "
            "order does, call reset_index(drop=True) on both"
        )
    return other.reindex(rows.index)


def _known_types(frame: Any, wanted: Wanted = None) -> pa.Schema:
    """The types of the columns. Those of objects, which only partitions know, are text if that is wanted."""
    some, encoding = frame._meta_nonempty, encoding_for(wanted)
    value = None if encoding is None or encoding.by_name else ""
    unknown = [name for name, dtype in zip(some.columns, some.dtypes, strict=True) if dtype.name == "object"]
    return as_arrow(some.assign(**dict.fromkeys(unknown, value)), _FRAME).schema.remove_metadata()


def _roles_of(rows: Any, wanted: Wanted, missing: Missing) -> Roles | None:
    """The roles of the columns of a data frame without labels; None for an array."""
    names = _names_of(rows)
    if names is None:
        encoding = encoding_for(wanted)
        if encoding is not None and encoding.by_name and encoding.columns:
            raise ValueError(f"{encoding!r} names columns, and an array has none; give a data frame")
        return None
    frame = rows.rename(columns=str)
    types = _with_lists(_known_types(frame, wanted), frame)
    expanded_names, _ = expanded(names, types, _FRAME, partial(_first_rows, frame))
    roles = Roles(expanded_names, None, None, missing).with_encoded(wanted, types, _FRAME)
    check_types(roles, types, _FRAME, is_frame=True)
    return roles


def _with_lists(types: pa.Schema, frame: Any) -> pa.Schema:
    """The types of the columns. Those of objects have that of the first rows, unless these hold text."""
    objects = [name for name, dtype in frame.dtypes.items() if dtype.name == "object"]
    first = _first_of(frame, objects)
    for name in objects:
        with suppress(ValueError):  # of values of several types, where they are read
            column = as_arrow(first[[name]], _FRAME).schema.field(0)
            if not (pa.types.is_null(column.type) or label_kind(column.type) == "str"):
                types = types.set(types.get_field_index(name), column)
    return types


def _first_rows(frame: Any, names: list[str]) -> pa.Table:
    return as_arrow(_first_of(frame, names), _FRAME)


def _first_of(frame: Any, names: list[str]) -> Any:
    """The first rows of the first partitions, up to that by which each column has a value."""
    import pandas as pd

    first = frame[names]._meta
    for partition in frame[names].partitions if names else ():
        first = pd.concat([first, partition.compute().head(FIRST_ROWS)])
        if first.notna().any().all():
            break
    return first


def _rows_and_labels(rows: Any, labels: Any, weights: Any, missing: Missing, wanted: Wanted) -> RowsSource:
    beside = {"the target": labels} if weights is None else {"the target": labels, "the weight": weights}
    for role, other in beside.items():
        if not hasattr(other, "to_delayed"):
            of_array = "such as dask.array.from_array(y, chunks=X.chunks[0])"
            remedy = of_array if _names_of(rows) is None else "or the name of a column"
            raise TypeError(
                f"{role} of Dask rows must be a Dask collection too, {remedy}; got {type(other).__name__}"
            )
    if rows.ndim != 2:
        raise ValueError(f"rows must have two dimensions, rows and features; they have {rows.ndim}")
    roles = _roles_of(rows, wanted, missing)
    if roles is None:
        rows = rows.rechunk({1: -1})
        _warn_of_small_chunks(rows)
        beside = {role: _chunked_like(rows, other, role) for role, other in beside.items()}
    own, others = _delayed_parts(rows), {role: _delayed_parts(other) for role, other in beside.items()}
    for role, parts in others.items():
        if len(parts) != len(own):
            raise ValueError(
                f"the rows have {len(own)} partitions and {role} has {len(parts)}; repartition one like the "
                "other"
            )
    is_counted = roles is None and not _is_unknown(rows)
    starts = accumulate(rows.chunks[0], initial=0) if is_counted else repeat(None)
    columns = _names_of(rows) or range(int(rows.shape[1]))
    beside_rows = others["the target"], others.get("the weight", repeat(None)), starts
    return RowsSource(list(zip(own, *beside_rows, strict=False)), columns, roles, missing)


def _warn_of_small_chunks(rows: Any) -> None:
    n_chunks = len(rows.chunks[0])
    if n_chunks > _MANY_CHUNKS and rows.nbytes < n_chunks * _SMALL_CHUNK:  # not if lengths are unknown
        warnings.warn(
            f"X has {n_chunks:,} chunks of about {counted(rows.shape[0] // n_chunks, 'row')}, and each costs "
            "some milliseconds beside its rows. Make larger ones where X is made, or by X.rechunk('auto')",
            stacklevel=callers_level(),
        )


def _chunked_like(rows: Any, other: Any, role: str) -> Any:
    """Labels or weights with a chunk for each chunk of rows."""
    if other.ndim != 1:
        raise ValueError(f"{role} must have one dimension, an entry for each row; it has {other.ndim}")
    if not hasattr(other, "chunks"):
        return other  # a series, which is not rechunked
    if other.chunks[0] == rows.chunks[0] or _is_unknown(rows) or _is_unknown(other):
        return other
    if other.shape[0] != rows.shape[0]:
        raise ValueError(f"X has {counted(rows.shape[0], 'row')}, {role} has {other.shape[0]:,}")
    return other.rechunk((rows.chunks[0],))


def _is_unknown(array: Any) -> bool:
    return any(math.isnan(length) for length in array.chunks[0])


def _names_of(rows: Any) -> tuple[str, ...] | None:
    return tuple(map(str, rows.columns)) if hasattr(rows, "columns") else None


def _delayed_parts(collection: Any) -> list[Delayed]:
    """The partitions of a collection, as many as it says that it has.

    Optimised, several small files of a data frame are one partition, and of its labels another number.
    """
    parts = collection.to_delayed()
    if len(parts) < getattr(collection, "npartitions", 0) and hasattr(collection, "simplify"):
        parts = collection.simplify().to_delayed(optimize_graph=False)
    return list(parts.ravel() if hasattr(parts, "ravel") else parts)
