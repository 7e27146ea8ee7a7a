"""Maps: features go through a fitted transformer, block by block, before they are used.

A digest of the transformer and of all that its code reads tells maps apart. So states and predictions that
were made through another map are not reused for this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from streamgda.blocks.block import Block, rows_per_block
from streamgda.blocks.labels import drop_unused
from streamgda.blocks.wording import check_known, counted, listed
from streamgda.sources.base import (
    FilePlan,
    FileSource,
    InputFile,
    LazySplit,
    Map,
    ScorableSource,
    ScorableSplit,
    Source,
    Split,
    WrappedSource,
)
from streamgda.sources.identity import value_digest
from streamgda.storage.documents import digest

if TYPE_CHECKING:
    import pyarrow as pa

    from streamgda.storage.fetching import Prefetcher
    from streamgda.storage.filesystems import Storage


_RAISED_BY = "raised by the map"  # the first words of a note, which stays with an error of another process


def is_of_map(error: BaseException) -> bool:
    """Whether a transformer or function of the user raised this error."""
    return any(note.startswith(_RAISED_BY) for note in getattr(error, "__notes__", ()))


@dataclass(frozen=True)
class FeatureMap:
    """A fitted transformer, and the names of the features that it makes."""

    transformer: Any
    names: tuple[str, ...]

    @classmethod
    def of(cls, transformer: Any, names: Sequence[str] | None, source: Source) -> Self:
        """The map that a user gives for the features of a source.

        Raises
        ------
        TypeError, ValueError
            As `Source.map` does.
        """
        transformer = _checked(transformer, names)
        expected = getattr(transformer, "n_features_in_", source.n_features)
        if source.n_features not in {None, expected}:
            raise ValueError(f"{source!r}: {_name(transformer)} was fitted to {expected} features")
        if not source.maps:  # later ones are given the array that a transformer makes
            _set_names(transformer, source.feature_names)
        given = transformer.get_feature_names_out(source.feature_names) if names is None else names
        made = tuple(map(str, given))
        if isinstance(names, str) or len(set(made)) < len(made):
            raise ValueError(f"features must be a list of different names for what it makes; got {names!r}")
        return cls(transformer, made)

    @cached_property
    def digest(self) -> str:
        """A hash of the transformer as it is at the first call, and of the names.

        Raises
        ------
        TypeError
            If the transformer depends on something that cannot be hashed.
        """
        return self.digest_now()

    def digest_now(self) -> str:
        """A hash of the transformer as it is now, and of the names; errors are those of `digest`."""
        function = getattr(self.transformer, "feature_names_out", None)
        is_ours = isinstance(function, partial) and function.func is _given
        used = self.transformer.func if is_ours else self.transformer
        return digest([is_ours, value_digest(used, f"the map by {_name(self.transformer)}"), self.names])

    def check_unchanged(self) -> None:
        """Check that the transformer is still as `digest` tells, if that was asked for.

        Raises
        ------
        ValueError
            If it is not: its answers must not be found again as those of the transformer of before.
        """
        if "digest" in vars(self) and self.digest != self.digest_now():
            raise ValueError(
                f"the map by {_name(self.transformer)} depends on values that have changed since the pass "
                "was planned, or that are others in this process; start the pass again. If it changes them "
                "itself, as with a cache in a dict, let it use functools.lru_cache"
            )

    def pieces(self, block: Block) -> Iterator[tuple[Block, slice]]:
        """Yield blocks with what the transformer makes of the rows of a block, and which rows they are.

        Raises
        ------
        ValueError
            If the transformer makes another number of rows or features, or fails where values are missing.
        Exception
            Any other error of the transformer, as it is. A note names the transformer and the rows.
        """
        size = rows_per_block(len(self.names), len(block.classes))
        for start in range(0, max(len(block.codes), 1), size):
            piece = block.between(start, start + size)
            classes, codes = drop_unused(piece.classes, piece.codes)
            labelled = replace(piece, classes=classes, codes=codes, n_dropped=0 if start else block.n_dropped)
            made = replace(labelled, features=self._made_of(piece), feature_names=self.names)
            yield made, slice(start, start + size)

    def _made_of(self, block: Block) -> NDArray[Any]:
        """What the transformer makes of the features of a block: (n_rows, n_features)."""
        is_view = isinstance(block.features, np.ndarray)  # which a transformer with copy=False would change
        rows: Any = np.array(block.matrix(0, len(block.codes)), copy=is_view or None)
        if not len(rows):  # which transformers refuse
            return np.empty((0, len(self.names)))
        try:
            made = self.transformer.transform(_named(self.transformer, rows, block.feature_names))
        except Exception as error:  # a transformer may raise anything
            if isinstance(error, ValueError) and not np.isfinite(rows).all():
                block.raise_for_values(
                    other_remedy=f"let {_name(self.transformer)} come after a step that fills them in, such "
                    "as a SimpleImputer"
                )
            error.add_note(f"{_RAISED_BY} {_name(self.transformer)}, for rows from {block.row_name(0)} on")
            raise
        expected = len(rows), len(self.names)
        values = np.asarray(made.toarray() if hasattr(made, "toarray") else made)
        if values.shape != expected or values.dtype.kind not in "biuf":
            raise ValueError(
                f"{_name(self.transformer)}, for {counted(len(rows), 'row')} from {block.row_name(0)} on: it "
                f"made {values.dtype} of shape {values.shape}, not numbers of shape {expected}"
            )
        return values


def _checked(transformer: Any, names: Sequence[str] | None) -> Any:
    """A copy of a fitted transformer; of a function, a transformer."""
    if isinstance(transformer, type) or not (hasattr(transformer, "transform") or callable(transformer)):
        raise TypeError(f"a fitted transformer or a function is needed; got {transformer!r:.80}")
    if not hasattr(transformer, "transform"):
        if names is None:
            raise ValueError(f"what {transformer!r:.80} makes needs names: map(..., features=[...])")
        return FunctionTransformer(transformer, validate=True, feature_names_out=partial(_given, names))
    if hasattr(transformer, "fit"):
        check_is_fitted(transformer, msg="%(name)s is not fitted; fit it to a sample of the rows first")
    return deepcopy(transformer)


def _given(names: Sequence[str], transformer: Any, input_features: Any) -> NDArray[Any]:
    return np.array(names, dtype=object)


def _set_names(transformer: Any, names: Sequence[str] | None) -> None:
    """Tell a transformer the names of its features, unless it knows them or has other estimators in it."""
    first = transformer
    while isinstance(first, Pipeline):
        first = first[0]
    is_simple = isinstance(first, BaseEstimator) and first.get_params() == first.get_params(deep=False)
    if is_simple and names is not None and not hasattr(first, "feature_names_in_"):
        first.feature_names_in_, first.n_features_in_ = np.array(names, dtype=object), len(names)


def _named(transformer: Any, rows: NDArray[Any], held: Sequence[str] | None) -> Any:
    """Rows as a frame, if a transformer knows the names of its features."""
    names = getattr(transformer, "feature_names_in_", None)
    if names is None:
        return rows
    import pandas as pd

    return pd.DataFrame(rows, columns=names if held is None else held, copy=False)[list(names)]


def _name(transformer: Any) -> str:
    used = getattr(transformer, "func", transformer)
    return str(getattr(used, "__qualname__", f"{used!r:.80}"))


# ---------------------------------------------------------------------- sources


@dataclass(frozen=True)
class MappedSplit(ScorableSplit):
    """A split whose features go through a map. It can be scored if the split can."""

    split: Any
    step: FeatureMap

    is_read_once = property(attrgetter("split.is_read_once"))
    n_rows = property(attrgetter("split.n_rows"))
    n_bytes = property(attrgetter("split.n_bytes"))
    is_remote = property(attrgetter("split.is_remote"))
    keeps_all_rows = property(attrgetter("split.keeps_all_rows"))

    @property
    def identity(self) -> list[Any]:
        """Which rows are read, and through which map."""
        return [self.split.identity, self.step.digest]

    def prefetch(self, prefetcher: Prefetcher) -> Self:
        """Start to fetch the rows."""
        return replace(self, split=self.split.prefetch(prefetcher))

    def enclosing(self, start: int, stop: int) -> tuple[Self, int]:
        """The smallest part to read that holds some rows, and how many rows are before it."""
        part, before = self.split.enclosing(start, stop)
        return replace(self, split=part), before

    def blocks(self) -> Iterator[Block]:
        """Read the rows, in order."""
        for block in self.split.blocks():
            for made, _ in self.step.pieces(block):
                yield made
        self.step.check_unchanged()

    def features(self) -> Iterator[tuple[Block, Mapping[str, Any]]]:
        """Read the rows without labels, in order, with the columns that are kept."""
        for block, kept in self.split.features():
            for made, rows in self.step.pieces(block):
                yield made, {name: values[rows] for name, values in kept.items()}
        self.step.check_unchanged()


def _mapped(part: Split, step: FeatureMap) -> Split:
    if not isinstance(part, LazySplit):
        return MappedSplit(part, step)
    from dask.delayed import delayed

    return LazySplit(delayed(partial(MappedSplit, step=step))(part.delayed))


class MappedSource(WrappedSource):
    """A source whose features go through a map."""

    def __init__(self, source: Source, step: FeatureMap) -> None:
        super().__init__(source)
        if source.encoded:
            raise ValueError(
                f"{source!r} has columns of text, {listed(source.encoded)}, and a map takes numbers; "
                "leave such columns out where it is scanned"
            )
        self.step, self.feature_names = step, step.names
        self.maps = (*source.maps, step.transformer)

    def __repr__(self) -> str:
        return f"{self.source!r} mapped by {_name(self.step.transformer)}"

    @property
    def n_features(self) -> int:
        """How many features the map makes."""
        return len(self.step.names)

    def planned(self, each: Map = map) -> list[Split]:
        """The parts of the source; `each` opens its files."""
        step = replace(self.step)
        return [_mapped(part, step) for part in self.source.planned(each)]

    def has_changed(self, parts: Sequence[Any]) -> bool:
        """Whether the parts of the source are no longer these."""
        return self.source.has_changed([getattr(part, "split", part) for part in parts])

    def with_groups(self, column: str) -> Self:
        """The same source with the values of a column beside the rows."""
        return type(self)(self.source.with_groups(column), self.step)

    def with_features(self, names: Sequence[str]) -> Any:
        """The same source with some of the features that the map makes, in this order."""
        positions = [self.step.names.index(name) for name in names]
        return self.map(partial(np.take, indices=positions, axis=1), names)


class MappedScorableSource(MappedSource, ScorableSource):
    """A mapped source that `predict_dataset` can read."""

    source: ScorableSource

    has_versions = property(attrgetter("source.has_versions"))

    def to_score(self, keep: Sequence[str], each: Map = map) -> tuple[list[MappedSplit], pa.Schema]:
        """The parts to read without labels, and the types of the columns to keep."""
        parts, types = self.source.to_score(keep, each)
        step = replace(self.step)
        return [MappedSplit(part, step) for part in parts], types

    def overlaps(self, storage: Storage, folder: str) -> bool:
        """Whether data of the source lies in a folder."""
        return self.source.overlaps(storage, folder)


class MappedFileSource(MappedScorableSource, FileSource):
    """A mapped source of files, which a `StatisticsLedger` can keep up with."""

    source: Any

    files = property(attrgetter("source.files"))
    includes = property(attrgetter("source.includes"))
    footers = property(attrgetter("source.footers"))

    def rescanned(self) -> Self:
        """The same source with the files and the values of the transformer that are there now."""
        return type(self)(self.source.rescanned(), replace(self.step))

    @property
    def read_options(self) -> dict[str, Any]:
        """What is read of each file, and the hashes of the maps that the features go through."""
        options = self.source.read_options
        return {**options, "maps": [*options.get("maps", []), self.step.digest]}

    def plans(self, files: Sequence[InputFile], each: Map = map) -> list[FilePlan]:
        """What is to be read of some of the files."""
        plans = self.source.plans(files, each)
        return [
            replace(plan, splits=[MappedSplit(part, self.step) for part in plan.splits]) for plan in plans
        ]


def mapped(source: Source, transformer: Any, features: Sequence[str] | None) -> MappedSource:
    """The source that `Source.map` returns: it has the abilities of the source."""
    fitted_to = getattr(transformer, "feature_names_in_", None)
    if fitted_to is not None and source.feature_names is not None:
        check_known(fitted_to, source.feature_names, f"{source!r}, mapped by {_name(transformer)}")
        if list(source.feature_names) != list(fitted_to):
            source = source.with_features(list(fitted_to))
    step = FeatureMap.of(transformer, features, source)
    kinds = {FileSource: MappedFileSource, ScorableSource: MappedScorableSource, Source: MappedSource}
    return next(kind(source, step) for of, kind in kinds.items() if isinstance(source, of))
