"""Zarr groups with a matrix of rows and an array of labels, in any store, of format 2 or 3.

Batches of consecutive rows are read ahead. The plan of a pass lists the stored chunks and their versions. A
chunk that changes during the pass is an error.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import uuid
from collections.abc import Container, Iterable, Iterator, KeysView, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import zarr
from numpy.typing import NDArray
from zarr.abc.store import Store
from zarr.api.asynchronous import open_array
from zarr.buffer import default_buffer_prototype
from zarr.errors import ContainsArrayError
from zarr.storage import FsspecStore, LocalStore, MemoryStore, StoreLike

from streamgda.data.blocks.arrays import array_blocks, group_codes
from streamgda.data.blocks.block import Block, Missing, Places, check_missing, without_missing
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.parts import Part, rows_of_parts
from streamgda.data.blocks.wording import check_known
from streamgda.data.sources.base import MapFunction, ScorableSource
from streamgda.data.sources.files.errors import add_place
from streamgda.data.sources.packing import Packing
from streamgda.data.sources.splits import ROWS_PER_TASK, ScorableSplit, lists_of
from streamgda.data.sources.stores import (
    ChangedChunkError,
    PlannedArrays,
    ShardIndex,
    WatchedStore,
    ends_in_blosc,
    place_of,
    result_of,
    stored_versions,
    unwrapped,
    with_absolute_path,
    without_secrets,
)
from streamgda.data.storage.documents import digest
from streamgda.data.storage.filesystems import Storage
from streamgda.data.storage.identity import UNTOLD, fields_of
from streamgda.data.storage.paths import shown
from streamgda.data.storage.retries import StorageError, is_of_storage
from streamgda.data.storage.secrets import concealing
from streamgda.data.storage.threads import read_ahead
from streamgda.data.storage.versions import Version

# The kinds of NumPy's types.
_NUMBERS = "biuf"
_STRINGS = "UTO"
_LABELS = _NUMBERS + _STRINGS
_TIMES = "mM"
_OTHERS = "Arrays of one column each: scan_dask(xarray.open_zarr(store).to_dask_dataframe(), target)"

READ_ELEMENTS = 1 << 21  # at a time, or one chunk: longer arrays are no faster to read, and slower to use
_MOST_AHEAD = 1 << 23  # elements that are read ahead, in float64 64 MB
_MOST_OF_SHARD = 1 << 22  # elements of a shard that is read whole, as one chunk: in float64 32 MB


def scan_zarr(
    store: StoreLike | zarr.Group,
    target: str | None = "y",
    *,
    features: str = "X",
    weight: str | None = None,
    missing: Missing = "raise",
    unwritten_labels: Literal["raise", "fill"] = "raise",
) -> ZarrSource:
    """Describe a Zarr group, for `accumulate` and the estimators' `fit` to read.

    Arrays may be of format 2 or 3, sharded or not, with chunks along rows, columns or both. A pass reads each
    chunk once. Tasks begin at rows where chunks of all the arrays begin. Such rows are few if the chunk
    lengths differ a little (1000 rows of X beside 999 labels), or if all labels are in one chunk. Then tasks
    are few and long, and less runs in parallel; memory is still bounded by some chunks. It is best if one
    chunk length divides the other.

    Parameters
    ----------
    store : path, URL, Zarr store or group
        Where the group is. A URL is opened through fsspec; a local path is made absolute now.
    target : str or None, default="y"
        The array of labels, of shape (n_rows,): integers, strings or bools. With None, the source serves
        `predict_dataset` only.
    features : str, default="X"
        The array of rows, of shape (n_rows, n_features), of any real type.
    weight : str, optional
        An array of sample weights, of shape (n_rows,): repetitions of the row, whole or not.
    missing : {"raise", "drop", "marginal"}, default="raise"
        What becomes of a row that has a NaN or infinity in a feature, or has no label or weight. With
        "raise", an error names the row. With "drop", the row is left out, and counted in the statistics'
        `n_dropped`. With "marginal", rows in which features are NaN count by the features that they have,
        rows without a label are left out and counted, and `accumulate` returns `IncompleteStatistics`. A
        model with ``missing="marginal"`` learns from rows that lack features in any case.
    unwritten_labels : {"raise", "fill"}, default="raise"
        What becomes of a chunk of labels that is not in the store. With "raise", an error names the chunk.
        With "fill", all its rows have the fill value of the array, as Zarr reads them. "fill" may be right if
        labels are sorted: Zarr does not write a chunk that holds only the fill value, unless
        ``write_empty_chunks`` is set.

    Returns
    -------
    ZarrSource

    Raises
    ------
    FileNotFoundError
        If there is no group.
    ValueError
        If an array is missing, or has a shape or type that its role cannot have. When rows are read, if a
        chunk of labels was never written.

    Examples
    --------
    >>> import numpy as np, tempfile, zarr
    >>> from streamgda import accumulate, scan_zarr
    >>> folder = tempfile.mkdtemp()
    >>> group = zarr.open_group(folder, mode="w")
    >>> _ = group.create_array("X", data=np.array([[1.0], [3.0], [8.0]]))
    >>> _ = group.create_array("y", data=np.array([0, 0, 1]))
    >>> accumulate(scan_zarr(folder), "diag").means
    array([[2.],
           [8.]])
    """
    check_missing(missing)
    if unwritten_labels not in {"raise", "fill"}:
        raise ValueError(f"unwritten_labels must be 'raise' or 'fill', not {unwritten_labels!r}")
    if not isinstance(features, str):
        raise TypeError(
            f"features names one array of shape (n_rows, n_features); got {features!r:.80}. {_OTHERS}"
        )
    if not isinstance(store, zarr.Group):
        urls = [store] if isinstance(store, str) else []
        if isinstance(store, str) and ("://" in store or "::" in store):
            store = concealing(urls, partial(FsspecStore.from_url, store, read_only=True))
        if isinstance(store, FsspecStore):
            store = without_secrets(store)
        try:
            store = concealing(urls, partial(zarr.open_group, store, mode="r", use_consolidated=False))
        except ContainsArrayError as error:
            raise ValueError(
                f"{shown(str(store))} is an array; scan_zarr takes the group that holds it and the labels, "
                "with features= and target= as their names there"
            ) from error
    source = ZarrSource(
        without_secrets(with_absolute_path(store.store)),
        store.path,
        features,
        target,
        weight,
        missing,
        unwritten_labels=unwritten_labels,
        zarr_format=store.metadata.zarr_format,
    )
    source.arrays()
    return source


@dataclass(frozen=True)
class ZarrSource(ScorableSource):
    """A Zarr group with the roles of its arrays; made by `scan_zarr`.

    Attributes
    ----------
    store : zarr.abc.store.Store
        Where the group is.
    path : str
        Its path there.
    features, target, weight : str
        The names of the arrays.
    missing : {"raise", "drop", "marginal"}
        What becomes of rows in which something is missing.
    kept : tuple of str
        Arrays to be carried over beside predictions.
    groups : str or None
        An array that groups the rows, or names their folds.
    unwritten_labels : {"raise", "fill"}
        What becomes of chunks of labels that are not in the store.
    zarr_format : {2, 3}
        The format of the group.
    parts : tuple of Part
        Which rows are read, if not all.
    """

    store: Store = field(metadata=UNTOLD)  # of which `origin` tells
    path: str
    features: str
    target: str | None
    weight: str | None
    missing: Missing
    kept: tuple[str, ...] = ()
    groups: str | None = None
    unwritten_labels: Literal["raise", "fill"] = "raise"
    zarr_format: Literal[2, 3] = 3
    parts: tuple[Part, ...] = ()

    def __repr__(self) -> str:
        roles = f"features {self.features!r}, target {self.target!r}"
        return f"<Zarr {self.origin}: {'; '.join([roles, *map(str, self.parts)])}>"

    @property
    def n_features(self) -> int:
        """How many features a row has."""
        return int(self.arrays()[0].shape[1])

    is_quick_to_show = True

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the arrays of features, labels and weights, as Arrow has them."""
        rows, *others = self.arrays()
        types = [pa.list_(_arrow_type(rows), rows.shape[1]), *map(_arrow_type, others)]
        return pa.schema(zip((self.features, *self.beside), types, strict=False))

    @property
    def beside(self) -> tuple[str, ...]:  # type: ignore[override]  # a field of other sources
        """The names of the arrays of labels and weights."""
        return tuple(name for name in (self.target, self.weight) if name is not None)

    @property
    def origin(self) -> str:
        """What to call the group in an error."""
        return f"{self.store}/{self.path}".rstrip("/")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays: the features first, and last those that only tell the part of a row."""
        read = (self.features, *self.beside, *([] if self.groups is None else [self.groups]), *self.kept)
        return (*read, *(name for name in self._columns_of_parts if name not in (self.groups, *self.kept)))

    @property
    def _columns_of_parts(self) -> list[str]:
        return list(dict.fromkeys(part.column for part in self.parts if part.column is not None))

    def arrays(self) -> list[zarr.Array[Any]]:
        """The arrays as they are now, checked, in the order of `names`."""
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"{self.origin}: features, target and weight must be arrays of their own")
        try:
            arrays = self.opened(self.store)
        except json.JSONDecodeError as error:
            raise ValueError(f"{self.origin}: the metadata of an array are damaged: {error}") from error
        except ValueError:
            below = zarr.open_group(self.store, path=self.path, mode="r").members(max_depth=None)
            names = sorted(name for name, member in below if isinstance(member, zarr.Array))
            check_known(self.names, names, self.origin, "array")
            raise
        roles: dict[str | None, tuple[str, str]] = {
            self.features: ("the features", _NUMBERS),
            self.target: ("the target", _LABELS + "S"),
            self.weight: ("the weight", _NUMBERS),
            **dict.fromkeys((self.groups, *self._columns_of_parts), ("groups, folds or parts", _LABELS)),
            **dict.fromkeys(self.kept, ("kept", _LABELS + _TIMES)),
        }
        for name, array in zip(self.names, arrays, strict=True):
            role, kinds = roles[name]
            if (dtype := _read_type(array)).kind not in kinds:
                raise ValueError(f"{self.origin}: array {name!r} is {dtype} and cannot be {role}")
            if array.ndim != (2 if name == self.features else 1) or array.shape[0] != arrays[0].shape[0]:
                both = {self.features: arrays[0].shape, name: array.shape}
                shapes = ", ".join(f"{which!r} is {shape}" for which, shape in both.items())
                raise ValueError(
                    f"{self.origin}: {self.features!r} must be (n_rows, n_features) and the others (n_rows,)"
                    f"; {shapes}. {_OTHERS}"
                )
        if not arrays[0].shape[1]:
            raise ValueError(f"{self.origin}: {self.features!r} has no columns, so there are no features")
        return arrays

    def opened(self, store: Store) -> list[zarr.Array[Any]]:
        """The arrays in a store. The metadata of all of them is requested at the same time."""
        paths = [f"{self.path}/{name}".lstrip("/") for name in self.names]
        opened = partial(open_array, store=store, mode="r", zarr_format=self.zarr_format)

        async def open_all() -> list[zarr.AsyncArray[Any]]:
            return await asyncio.gather(*(opened(path=path) for path in paths))

        return [zarr.Array(array) for array in result_of(open_all())]

    def _check_written(self, labels: zarr.Array[Any], stored: Container[str]) -> None:
        for key in _keys_of_rows([labels], 0, labels.shape[0]):
            if key not in stored:
                raise ValueError(
                    f"{self.origin}: chunk {key} of the labels was never written, so its labels would all be "
                    f"{labels.fill_value}, the fill value; write it or, if these are the labels, give "
                    "scan_zarr(unwritten_labels='fill')"
                )

    def with_groups(self, column: str) -> ZarrSource:
        """The same source, which also reads an array (n_rows,) that groups the rows."""
        grouped = replace(self, groups=column)
        grouped.arrays()
        return grouped

    def with_part(self, part: Part) -> ZarrSource:
        """One of the parts of `split`; a column is an array (n_rows,)."""
        divided = replace(self, parts=(*self.parts, part))
        divided.arrays()
        return divided

    def to_score(self, keep: Sequence[str], each: MapFunction = map) -> tuple[list[ZarrRows], pa.Schema]:
        """The same parts to read without labels, and the types of the arrays to keep, as Arrow has them."""
        unlabelled = replace(self, target=None, weight=None, groups=None, kept=tuple(keep))
        _, *arrays = unlabelled.arrays()
        types = [(name, _arrow_type(array)) for name, array in zip(keep, arrays, strict=True)]
        return unlabelled.splits(), pa.schema(types)

    def overlaps(self, storage: Storage, folder: str) -> bool:
        """Whether the group and a folder are the same, or one of them lies in the other."""
        place = place_of(self.store, self.path)
        return place is not None and place.overlaps(storage.place(folder))

    def has_changed(self, parts: Sequence[ZarrRows]) -> bool:
        """Whether arrays or stored chunks have changed: some stores give no version of a chunk on reading."""
        return self.splits() != parts

    def splits(self) -> list[ZarrRows]:
        """Ranges of rows that begin where the chunks of all the arrays do."""
        arrays = self.arrays()
        n_rows = arrays[0].shape[0]
        step = math.lcm(*map(_rows_at_once, arrays))
        size = max(step, ROWS_PER_TASK // step * step)
        stored = stored_versions(self.store, self.path)
        bounds = [(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]
        shards = {f"{array.path}/": index for array in arrays if (index := ShardIndex.of(array))}
        blosc = tuple(f"{array.path}/" for array in arrays if ends_in_blosc(array))
        keys = [_keys_of_metadata(array) for array in arrays]
        is_listed = all(first in stored for first, *_ in keys)
        documents = {key: stored[key] for key in chain(*keys) if key in stored} if is_listed else {}
        if is_listed and self.target is not None and self.unwritten_labels == "raise":
            self._check_written(arrays[1], stored)
        planned = PlannedArrays(_described(arrays), documents, blosc, shards)
        keys_of = partial(_keys_of_rows, arrays)
        return [
            ZarrRows(self, *rows, {key: stored[key] for key in keys_of(*rows) & stored.keys()}, planned)
            for rows in bounds
        ]


@dataclass(frozen=True)
class ZarrRows(ScorableSplit):
    """A range of rows, and the stored chunks as they were when the pass was planned.

    Zarr reads a chunk that is not there as the fill value. So a chunk that has vanished must be told from one
    that was never written. A chunk that was written anew is recognised by size and time on a local disk, and
    by size in other stores.
    """

    source: ZarrSource
    start: int
    stop: int
    stored: Mapping[str, Version | None]
    arrays: PlannedArrays

    n_rows = property(lambda self: self.stop - self.start)

    def blocks(self, among: Labels | None = None) -> Iterator[Block]:
        """Read the rows, batch by batch, each a whole number of chunks of the features."""
        if self.source.target is None:
            raise ValueError(f"{self.source.origin}: no target is named; name the array of labels")
        origin = self.source.origin
        for places, (rows, labels, *others) in self._batches():
            yield from array_blocks(
                rows,
                labels,
                None if self.source.weight is None else others[0],
                missing=self.source.missing,
                origin=origin,
                places=places,
                groups=None if self.source.groups is None else others[self.source.weight is not None],
                among=among,
            )
            del rows  # or they would be held while the next ones are read

    def tables(self) -> Iterator[pa.Table]:
        """Read the rows, batch by batch."""
        for _, (rows, *others) in self._batches():
            columns = [lists_of(rows), *map(pa.array, map(_for_arrow, others))]
            yield pa.table(dict(zip((self.source.features, *self.source.beside), columns, strict=False)))
            del rows, others, columns

    @property
    def keeps_all_rows(self) -> bool:
        """Whether no row is left out."""
        return self.source.missing != "drop" and not self.source.parts

    def enclosing(self, start: int, stop: int) -> tuple[ZarrRows, int]:
        """Just these rows."""
        return replace(self, start=self.start + start, stop=self.start + stop), start

    @property
    def identity(self) -> list[Any]:
        """The group, the rows, the versions of their chunks, and what is read of them, as plain values.

        If the store lists no versions, the identity is different each time.
        """
        unknown = [uuid.uuid4().hex] if None in self.stored.values() else []
        return [self.source.origin, fields_of(self), *unknown]

    def features(self) -> Iterator[tuple[Block, Mapping[str, NDArray[Any]]]]:
        """Read the features, batch by batch, and the arrays kept beside them."""
        for row_name, (rows, *others) in self._batches():
            block = Block(rows, np.zeros(1, np.int64), np.zeros(len(rows), np.uint8), row_name=row_name)
            beside = dict(zip(self.source.kept, map(_for_arrow, others), strict=False))
            yield without_missing(block, beside, self.source.missing)
            del rows, block

    def _batches(self) -> Iterator[tuple[Places, Sequence[NDArray[Any]]]]:
        """Batches of consecutive rows of all the arrays, and their places."""
        source = self.source
        store = WatchedStore(source.store, self.stored, self.arrays)
        arrays = source.opened(store)
        if _described(arrays) != self.arrays.described:
            raise ValueError(f"{source.origin} has changed since the pass was planned; start the pass again")
        near = isinstance(unwrapped(source.store), LocalStore | MemoryStore)
        packings = list(map(_packing, arrays))
        try:
            for start, stored in _aligned_batches(arrays, self.start, self.stop, near=near):
                batch = [one.read(part) if one else part for one, part in zip(packings, stored, strict=True)]
                del stored
                yield self._in_parts(Places(source.origin, start), batch)
                del batch
        except (FileNotFoundError, StorageError, ChangedChunkError):
            raise
        except Exception as error:  # a codec may raise anything
            if isinstance(error, OSError) and is_of_storage(error):
                add_place(error, source.origin)
                raise
            or_too_large = " or too large for the memory" if isinstance(error, MemoryError) else ""
            raise ValueError(
                f"{source.origin}: rows {self.start} to {self.stop} cannot be read, "
                f"a chunk is damaged{or_too_large}: {error}"
            ) from error

    def _in_parts(
        self, places: Places, arrays: Sequence[NDArray[Any]]
    ) -> tuple[Places, Sequence[NDArray[Any]]]:
        """The rows of a batch that are in the parts to be read, and their places."""
        if not (parts := self.source.parts):
            return places, arrays
        by_name, n_rows = dict(zip(self.source.names, arrays, strict=True)), len(arrays[0])

        rows = rows_of_parts(parts, places, n_rows, lambda name: group_codes(by_name[name], n_rows, places))
        return places.take(rows), [array[rows] for array in arrays]


def _for_arrow(values: NDArray[Any]) -> NDArray[Any]:
    """Values as a type that Arrow knows."""
    return values.astype(object if values.dtype.kind in "TO" else _known_to_arrow(values.dtype), copy=False)


def _packing(array: zarr.Array[Any]) -> Packing | None:
    """How the values of an array are packed, if they are."""
    attributes = array.attrs.asdict()
    # In format 2, xarray and the tools of netCDF mark missing values by the fill value. They name dimensions.
    says_fill = array.metadata.zarr_format == 2 and "_ARRAY_DIMENSIONS" in attributes
    try:
        return Packing.of(array.dtype, attributes, array.fill_value if says_fill else None)
    except ValueError as error:
        raise ValueError(f"{array.store_path}: {error}") from error


def _read_type(array: zarr.Array[Any]) -> np.dtype[Any]:
    packing = _packing(array)
    return array.dtype if packing is None else packing.dtype


def _arrow_type(array: zarr.Array[Any]) -> pa.DataType:
    dtype = _read_type(array)
    return pa.string() if dtype.kind in _STRINGS else pa.from_numpy_dtype(_known_to_arrow(dtype))


def _known_to_arrow(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type in the byte order of this machine; for times, with a unit that Arrow has."""
    if dtype.kind in _TIMES and dtype.name.partition("[")[2] not in {"s]", "ms]", "us]", "ns]"}:
        return np.dtype("M8[D]") if dtype == "M8[D]" else np.dtype(f"{dtype.kind}8[s]")
    return dtype.newbyteorder("=")


# ---------------------------------------------------------------------- stored chunks


def _keys_of_rows(arrays: Iterable[zarr.Array[Any]], start: int, stop: int) -> KeysView[str]:
    """The keys of the stored objects (chunks, or shards of them) that hold these rows, in order."""
    keys: dict[str, None] = {}
    for array in arrays:
        objects = array.shards or array.chunks
        first, *others = (
            range(-(-length // size)) for length, size in zip(array.shape, objects, strict=True)
        )
        rows = first[start // objects[0] : -(-stop // objects[0])]
        for coordinates in itertools.product(rows, *others):
            keys[f"{array.path}/{array.metadata.encode_chunk_key(coordinates)}"] = None
    return keys.keys()


def _keys_of_metadata(array: zarr.Array[Any]) -> tuple[str, ...]:
    """The keys of the documents that describe an array; the first is always there."""
    names = ("zarr.json",) if array.metadata.zarr_format == 3 else (".zarray", ".zattrs")
    return tuple(f"{array.path}/{name}" for name in names)


def _described(arrays: Iterable[zarr.Array[Any]]) -> str:
    """A digest of what the documents say of arrays that their values depend on."""
    described = []
    for array in arrays:
        first, *_ = _keys_of_metadata(array)
        documents = array.metadata.to_buffer_dict(default_buffer_prototype())
        described.append(json.loads(documents[first.rpartition("/")[2]].to_bytes()))
        described[-1].pop("attributes", None)
        if (packing := _packing(array)) is not None:
            described[-1]["attributes"] = repr(packing)
    return digest(described)


# ---------------------------------------------------------------------- batches of rows


def _aligned_batches(
    arrays: Sequence[zarr.Array[Any]], start: int, stop: int, *, near: bool
) -> Iterator[tuple[int, tuple[NDArray[Any], ...]]]:
    """Batches of the rows of all the arrays, and where each starts: whole chunks of the first array.

    Parameters
    ----------
    arrays : sequence of zarr.Array
        Arrays of as many rows, the one of features first.
    start, stop : int
        The rows to read.
    near : bool
        Whether the store is on this machine. Then at most one batch is read ahead. For other stores, as many
        batches are read ahead as fit into `_MOST_AHEAD` elements. No batch is read ahead if it has more
        elements.
    """
    n_rows, n_features = _rows_at_once(arrays[0]), arrays[0].shape[1]
    size = n_rows * max(1, READ_ELEMENTS // (n_rows * n_features))
    n_ahead = _MOST_AHEAD // (size * n_features)
    each = [_batches_of(array, start, stop, size, min(n_ahead, 1) if near else n_ahead) for array in arrays]
    return zip(range(start, stop, size), zip(*each, strict=True), strict=True)


def _rows_at_once(array: zarr.Array[Any]) -> int:
    """The rows of a chunk, or of a shard that is small enough to be read whole."""
    shard = array.shards
    return shard[0] if shard is not None and math.prod(shard) <= _MOST_OF_SHARD else array.chunks[0]


def _batches_of(
    array: zarr.Array[Any], start: int, stop: int, size: int, n_ahead: int
) -> Iterator[NDArray[Any]]:
    """Yield batches of `size` rows. A chunk is read once; its rows beyond a batch are kept for the next."""

    def read(rows: tuple[int, int]) -> NDArray[Any]:
        return np.asarray(array[slice(*rows)])

    unit, firsts = _rows_at_once(array), range(start, stop, size)
    ends = [min(-(-min(first + size, stop) // unit) * unit, stop) for first in firsts]
    rest = read((start, start))
    with closing(read_ahead(read, pairwise([start, *ends]), n_ahead)) as batches:
        for first, more in zip(firsts, batches, strict=True):
            rest = np.concatenate([rest, more]) if len(rest) else more
            del more
            yield rest[: min(size, stop - first)]
            rest = rest[size:].copy()  # a view would keep the batch
