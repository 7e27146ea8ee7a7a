"""Zarr: a group with a matrix of rows and an array of labels, in any store and either format."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import zarr
from numpy.typing import NDArray
from zarr.abc.store import Store
from zarr.storage import StoreLike

from streamgda.blocks.arrays import array_blocks
from streamgda.blocks.block import Block, Missing, check_missing, without_missing
from streamgda.blocks.places import Places
from streamgda.sources.ahead import read_ahead
from streamgda.sources.base import ROWS_PER_TASK, Map, ScorableSource, ScorableSplit
from streamgda.sources.errors import add_place, is_of_storage
from streamgda.sources.zarr_chunks import (
    ChangedChunkError,
    Version,
    WatchedStore,
    ends_in_blosc,
    keys_of_rows,
    place_of,
    stored_versions,
    with_absolute_path,
)
from streamgda.storage.places import Place

READ_ELEMENTS = 1 << 21  # at a time, or one chunk: longer arrays are no faster to read, and slower to use

_MOST_AHEAD = 1 << 23  # elements of a slab, in float64 64 MB: longer ones are not read ahead

_MOST_FEATURES = 1 << 27  # in float64, a row of them takes a gigabyte

_NUMBERS = "biuf"

_STRINGS = "UTO"

_LABELS = _NUMBERS + _STRINGS

_TIMES = "mM"


def scan_zarr(
    store: StoreLike | zarr.Group,
    target: str | None = "y",
    *,
    features: str = "X",
    weight: str | None = None,
    missing: Missing = "raise",
) -> ZarrSource:
    """Describe a Zarr group, for `accumulate` and the estimators' `fit` to read.

    Formats 2 and 3, sharded or not, with chunks along rows, columns or both. A pass reads each chunk
    once; where the chunks of the arrays end at different rows, tasks begin at the rows where they meet.
    Chunks that seldom meet (1000 rows of X beside 999 labels), or labels in one chunk, make few and long
    tasks, so less runs in parallel; memory stays bounded by some chunks all the same. Chunk lengths of
    which one divides the other are best.

    Parameters
    ----------
    store : path, URL, Zarr store or group
        Where the group is. A URL is opened through fsspec; a local path is made absolute now.
    target : str or None, default="y"
        The array of labels, of shape (n_rows,): integers, strings or bools. Rows without one, None, are
        for `predict_dataset` alone.
    features : str, default="X"
        The array of rows, of shape (n_rows, n_features), of any real type.
    weight : str, optional
        An array of sample weights, of shape (n_rows,): repetitions of the row, whole or not.
    missing : {"raise", "drop", "keep"}, default="raise"
        What becomes of a row with a NaN or infinity in a feature, or without a label or a weight: an
        error that names it, or left out and counted in the statistics' `n_dropped`. With "keep", rows in
        which features are NaN are kept, and `accumulate` returns `IncompleteStatistics`. A model with
        ``missing="marginal"`` learns from such rows in any case.

    Returns
    -------
    ZarrSource

    Raises
    ------
    FileNotFoundError
        If there is no group.
    TypeError
        If an array is given, or is there, where the group that holds the arrays is needed.
    ValueError
        If an array is missing or has a shape or type that cannot serve.

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
    group = _group_of(store)
    source = ZarrSource(with_absolute_path(group.store), group.path, features, target, weight, missing)
    source.arrays()
    return source


def _group_of(store: Any) -> zarr.Group:
    there = store if isinstance(store, zarr.Group | zarr.Array) else zarr.open(store, mode="r")
    if isinstance(there, zarr.Group):
        return there
    raise TypeError(
        f"{there} is a Zarr array; give the group that holds the array of rows and that of labels, and their "
        "names within it as features and target"
    )


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
    missing : {"raise", "drop", "keep"}
        What becomes of rows in which something is missing.
    kept : tuple of str
        Arrays to be carried over beside predictions.
    groups : str or None
        An array that groups the rows, or names their folds.
    """

    store: Store
    path: str
    features: str
    target: str | None
    weight: str | None
    missing: Missing
    kept: tuple[str, ...] = ()
    groups: str | None = None

    def __repr__(self) -> str:
        return f"<Zarr {self.origin}: features {self.features!r}, target {self.target!r}>"

    @property
    def keeps_missing(self) -> bool:
        """Whether rows in which features are missing are to be learnt."""
        return self.missing == "keep"

    @property
    def n_features(self) -> int:
        """How many features a row has."""
        return int(self.arrays()[0].shape[1])

    @property
    def origin(self) -> str:
        """What to call the group in an error."""
        return f"{self.store}/{self.path}".rstrip("/")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays, the features first."""
        named = (self.features, self.target, self.weight, self.groups)
        return (*(name for name in named if name is not None), *self.kept)

    def arrays(self, store: Store | None = None) -> list[zarr.Array[Any]]:
        """The arrays as they are now, checked, in the order of `names`."""
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"{self.origin}: features, target and weight must be arrays of their own")
        group = zarr.open_group(self.store if store is None else store, path=self.path, mode="r")
        arrays = [self._array(group, name) for name in self.names]
        for name, array in zip(self.names, arrays, strict=True):
            if array.ndim != (2 if name == self.features else 1) or array.shape[0] != arrays[0].shape[0]:
                both = {self.features: arrays[0].shape, name: array.shape}
                found = ", ".join(f"{which!r} is {shape}" for which, shape in both.items())
                raise ValueError(
                    f"{self.origin}: {self.features!r} must be (n_rows, n_features) and the others (n_rows,)"
                    f"; {found}"
                )
        n_features = arrays[0].shape[1]
        if not n_features:
            raise ValueError(f"{self.origin}: {self.features!r} has no columns, so there are no features")
        if n_features > _MOST_FEATURES:
            raise ValueError(
                f"{self.origin}: {self.features!r} has {n_features:,} columns, of which a row takes a "
                "gigabyte or more; its metadata is damaged, or it is the transpose of what is needed"
            )
        return arrays

    def _array(self, group: zarr.Group, name: str) -> zarr.Array[Any]:
        array = group.get(name)
        if not isinstance(array, zarr.Array):
            known = ", ".join(sorted(repr(key) for key in group.array_keys()))
            raise ValueError(f"{self.origin}: there is no array {name!r}; there are {known or 'none'}")
        role, kinds = self._role_of(name)
        if array.dtype.kind not in kinds:
            raise ValueError(f"{self.origin}: array {name!r} is {array.dtype} and cannot be {role}")
        return array

    def _role_of(self, name: str) -> tuple[str, str]:
        """What an array is, and the kinds of types that will do."""
        if name in self.kept:
            return "kept", _LABELS + _TIMES
        if name == self.target:
            return "the target", _LABELS
        if name == self.groups:
            return "groups or folds", _LABELS
        return "the features" if name == self.features else "the weight", _NUMBERS

    def with_groups(self, column: str) -> ZarrSource:
        """The same source, which also reads an array (n_rows,) that groups the rows."""
        grouped = replace(self, groups=column)
        grouped.arrays()
        return grouped

    def to_score(self, keep: Sequence[str], each: Map = map) -> tuple[list[ZarrRows], pa.Schema]:
        """The same parts to read without labels, and the types of the arrays to keep, as Arrow has them."""
        unlabelled = replace(self, target=None, weight=None, groups=None, kept=tuple(keep))
        _, *arrays = unlabelled.arrays()
        types = [(name, _arrow_type(array.dtype)) for name, array in zip(keep, arrays, strict=True)]
        return unlabelled.splits(), pa.schema(types)

    def overlaps(self, filesystem: pafs.FileSystem, folder: str) -> bool:
        """Whether the group is a folder, or one of the two lies in the other."""
        place = place_of(self.store, self.path)
        return place is not None and place.overlaps(Place.of(filesystem, folder))

    def has_changed(self, parts: Sequence[ZarrRows]) -> bool:
        """Whether shapes or chunks are others: not all stores tell the version of a chunk that is read."""
        return self.splits() != parts

    def splits(self) -> list[ZarrRows]:
        """Ranges of rows that begin where the chunks of all the arrays do."""
        arrays = self.arrays()
        n_rows = arrays[0].shape[0]
        step = math.lcm(*(array.chunks[0] for array in arrays))
        size = max(step, ROWS_PER_TASK // step * step)
        stored = stored_versions(self.store, self.path)
        bounds = [(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]
        shapes = tuple(array.shape for array in arrays)
        blosc = tuple(f"{array.path}/" for array in arrays if ends_in_blosc(array))
        return [
            ZarrRows(
                self,
                shapes,
                start,
                stop,
                {key: stored[key] for key in keys_of_rows(arrays, start, stop) & stored.keys()},
                blosc,
            )
            for start, stop in bounds
        ]


@dataclass(frozen=True)
class ZarrRows(ScorableSplit):
    """A range of rows, and the stored chunks as they were when the pass was planned.

    Zarr reads a chunk that is not there as the fill value, so one that has vanished must be told from
    one that was never written. On a local disk, one that was written anew is told by size and time.
    """

    source: ZarrSource
    shapes: tuple[tuple[int, ...], ...]
    start: int
    stop: int
    stored: Mapping[str, Version | None]
    blosc: tuple[str, ...]

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.stop - self.start

    def blocks(self) -> Iterator[Block]:
        """Read the rows, slab by slab, each slab a whole number of chunks of the features."""
        if self.source.target is None:
            raise ValueError(f"{self.source.origin}: no target is named; name the array of labels")
        origin = self.source.origin
        for start, (rows, labels, *others) in self._slabs():
            yield from array_blocks(
                rows,
                labels,
                None if self.source.weight is None else others[0],
                missing=self.source.missing,
                origin=origin,
                places=Places(origin, start),
                groups=None if self.source.groups is None else others[-1],
            )
            del rows  # or they would be held while the next ones are read

    @property
    def keeps_all_rows(self) -> bool:
        """Whether all rows come out."""
        return self.source.missing != "drop"

    def enclosing(self, start: int, stop: int) -> tuple[ZarrRows, int]:
        """Just these rows."""
        return replace(self, start=self.start + start, stop=self.start + stop), start

    @property
    def identity(self) -> list[Any]:
        """The group, the rows, the versions of their chunks, and what is read of them, as plain values.

        In a store that lists no versions, it is different each time.
        """
        versions = [uuid.uuid4().hex] if None in self.stored.values() else sorted(self.stored.items())
        rows = [self.source.origin, self.start, self.stop, versions]
        return [*rows, self.source.names, self.source.missing]

    def features(self) -> Iterator[tuple[Block, Mapping[str, NDArray[Any]]]]:
        """Read the features, slab by slab, and the arrays kept beside them."""
        for start, (rows, *others) in self._slabs():
            row_name = Places(self.source.origin, start)
            block = Block(rows, np.zeros(1, np.int64), np.zeros(len(rows), np.uint8), row_name=row_name)
            beside = dict(zip(self.source.kept, map(_for_arrow, others), strict=True))
            yield without_missing(block, beside, self.source.missing)
            del rows, block

    def _slabs(self) -> Iterator[tuple[int, tuple[NDArray[Any], ...]]]:
        """Slabs of consecutive rows of all the arrays, and where each starts.

        The next slab is read while one is in use, unless chunks are so large that two slabs take much memory.
        """
        arrays = self._arrays()
        n_rows, n_features = arrays[0].chunks[0], arrays[0].shape[1]
        size = n_rows * max(1, READ_ELEMENTS // (n_rows * n_features))
        with self._naming_damage():
            slabs = zip(*(_slabs_of(array, self.start, self.stop, size) for array in arrays), strict=True)
            ready = read_ahead(slabs) if size * n_features <= _MOST_AHEAD else slabs
            yield from zip(range(self.start, self.stop, size), ready, strict=True)

    def _arrays(self) -> list[zarr.Array[Any]]:
        arrays = self.source.arrays(WatchedStore(self.source.store, self.stored, self.blosc))
        if tuple(array.shape for array in arrays) != self.shapes:
            raise ValueError(
                f"{self.source.origin} has changed since the pass was planned; start the pass again"
            )
        return arrays

    @contextmanager
    def _naming_damage(self) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, ChangedChunkError):
            raise
        except Exception as error:  # a codec may raise anything
            if isinstance(error, OSError) and is_of_storage(error):
                add_place(error, self.source.origin)
                raise
            or_too_large = " or too large for the memory" if isinstance(error, MemoryError) else ""
            raise ValueError(
                f"{self.source.origin}: rows {self.start} to {self.stop} cannot be read, "
                f"a chunk is damaged{or_too_large}: {error}"
            ) from error


def _for_arrow(values: NDArray[Any]) -> NDArray[Any]:
    """Values as a type that Arrow knows."""
    return values.astype(object if values.dtype.kind in "TO" else _known_to_arrow(values.dtype), copy=False)


def _arrow_type(dtype: np.dtype[Any]) -> pa.DataType:
    return pa.string() if dtype.kind in _STRINGS else pa.from_numpy_dtype(_known_to_arrow(dtype))


def _known_to_arrow(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """In the byte order of this machine; times in a unit of Arrow's."""
    if dtype.kind in _TIMES and dtype.name.partition("[")[2] not in {"s]", "ms]", "us]", "ns]"}:
        return np.dtype("M8[D]") if dtype == "M8[D]" else np.dtype(f"{dtype.kind}8[s]")
    return dtype.newbyteorder("=")


def _slabs_of(array: zarr.Array[Any], start: int, stop: int, size: int) -> Iterator[NDArray[Any]]:
    """Slabs of `size` rows. A chunk is read once, and what it has beyond a slab is kept for the next."""
    chunk = array.chunks[0]
    held, read = np.asarray(array[start:start]), start
    for first in range(start, stop, size):
        last = min(first + size, stop)
        if last > read:
            end = min(-(-last // chunk) * chunk, stop)
            more = np.asarray(array[read:end])
            held, read = (np.concatenate([held, more]) if len(held) else more), end
        yield held[: last - first]
        held = held[last - first :].copy()  # a view would keep the slab
