"""Sources and splits whose features go through a map. They can do what those behind the map can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from streamgda.data.blocks.block import Block
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.parts import Part
from streamgda.data.blocks.wording import check_known
from streamgda.data.sources.base import FileSource, MapFunction, ScorableSource, Source, WrappedSource
from streamgda.data.sources.maps.maps import FeatureMap, name_of
from streamgda.data.sources.splits import InputFile, LazySplit, ScorableSplit, Split

if TYPE_CHECKING:
    import pyarrow as pa

    from streamgda.data.storage.filesystems import Storage


@dataclass(frozen=True)
class MappedSplit(ScorableSplit):
    """A split whose features go through a map. It can be scored if the split can."""

    split: Any
    step: FeatureMap

    is_read_once = property(attrgetter("split.is_read_once"))
    n_rows = property(attrgetter("split.n_rows"))
    n_bytes = property(attrgetter("split.n_bytes"))
    is_remote = property(attrgetter("split.is_remote"))
    n_to_fetch = property(attrgetter("split.n_to_fetch"))
    keeps_all_rows = property(attrgetter("split.keeps_all_rows"))

    def fetched(self) -> Self:
        """The same split, whose rows are being fetched."""
        return replace(self, split=self.split.fetched())

    def enclosing(self, start: int, stop: int) -> tuple[Self, int]:
        """The smallest part to read that holds some rows, and how many rows are before it."""
        part, before = self.split.enclosing(start, stop)
        return replace(self, split=part), before

    def blocks(self, among: Labels | None = None) -> Iterator[Block]:
        """Read the rows, in order."""
        for block in self.split.blocks(among):
            for result, _ in self.step.mapped(block):
                yield result
        self.step.check_unchanged()

    def features(self) -> Iterator[tuple[Block, Mapping[str, Any]]]:
        """Read the rows without labels, in order, with the columns that are kept."""
        for block, beside in self.split.features():
            for result, rows in self.step.mapped(block):
                yield result, {name: values[rows] for name, values in beside.items()}
        self.step.check_unchanged()


def _mapped_split(part: Split, step: FeatureMap) -> Split:
    if not isinstance(part, LazySplit):
        return MappedSplit(part, step)
    from dask.delayed import delayed

    return LazySplit(delayed(partial(MappedSplit, step=step))(part.delayed))


class MappedSource(WrappedSource):
    """A source whose features go through a map."""

    n_features = Source.n_features  # by its own names, and not of the source behind the map

    def __init__(self, source: Source, step: FeatureMap) -> None:
        super().__init__(source.as_stored() if source.encoded else source)
        self.step, self.feature_names = step, step.names
        self.maps = (*source.maps, step.transformer)

    def __repr__(self) -> str:
        return f"{self.source!r} mapped by {name_of(self.step.transformer)}"

    @property
    def schema(self) -> pa.Schema:
        """The features that the map makes, and the target and the weight."""
        import pyarrow as pa

        made = [(name, pa.float64()) for name in self.step.names]
        return pa.schema([*made, *(column for column in self.source.schema if column.name in self.beside)])

    def first_splits(self) -> Iterator[Split]:
        """The parts of the source, planned one after the other."""
        return (_mapped_split(part, self.step) for part in self.source.first_splits())

    def planned(self, each: MapFunction = map) -> list[Split]:
        """The parts of the source; `each` opens its files."""
        step = replace(self.step)
        return [_mapped_split(part, step) for part in self.source.planned(each)]

    def has_changed(self, parts: Sequence[Any]) -> bool:
        """Whether the parts of the source are no longer these."""
        return self.source.has_changed([getattr(part, "split", part) for part in parts])

    def with_part(self, part: Part) -> Self:
        """One of the parts of `split`."""
        return type(self)(self.source.with_part(part), self.step)

    def with_kinds_of(self, state: Any, *, together: bool = False) -> Self:
        """The same source, whose keys of folders are read as the labels of statistics are."""
        return type(self)(self.source.with_kinds_of(state, together=together), self.step)

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

    def to_score(self, keep: Sequence[str], each: MapFunction = map) -> tuple[list[MappedSplit], pa.Schema]:
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

    def rescanned(self) -> Self:
        """The same source with the files and the values of the transformer that are there now."""
        return type(self)(self.source.rescanned(), replace(self.step))

    def as_read(self, read_options: Mapping[str, Any]) -> Any:
        """The same source, whose map is given the features that were read before through the same map."""
        maps = read_options.get("maps", [])
        if self.read_options["maps"] != maps:
            return self
        source = self.source.as_read({**read_options, "maps": maps[:-1]})
        return mapped(source, self.step.given, self.step.names)

    @property
    def read_options(self) -> dict[str, Any]:
        """What is read of each file, and the hashes of the maps that the features go through."""
        options = self.source.read_options
        return {**options, "maps": [*options.get("maps", []), self.step.digest]}

    def plans(self, files: Sequence[InputFile], each: MapFunction = map) -> list[InputFile]:
        """Some of the files, with what is to be read of them."""
        planned = self.source.plans(files, each)
        return [
            replace(file, splits=[MappedSplit(part, self.step) for part in file.splits]) for file in planned
        ]


def mapped(source: Source, transformer: Any, features: Sequence[str] | None) -> Source:
    """What `Source.map` returns."""
    fitted_to = getattr(transformer, "feature_names_in_", None)
    if fitted_to is not None and source.feature_names is not None:
        check_known(fitted_to, source.feature_names, f"{source!r}, mapped by {name_of(transformer)}")
        if list(source.feature_names) != list(fitted_to):
            source = source.with_features(list(fitted_to))
    step = FeatureMap.of(transformer, features, source)
    kinds = {FileSource: MappedFileSource, ScorableSource: MappedScorableSource, Source: MappedSource}
    return next(made(source, step) for kind, made in kinds.items() if isinstance(source, kind))
