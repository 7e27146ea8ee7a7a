"""Arrow datasets, read fragment by fragment: files of any format, and datasets of other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as ds

from streamgda.blocks.block import Block
from streamgda.sources.arrow_source import ArrowSource
from streamgda.sources.base import Split
from streamgda.sources.batches import blocks_of_batches
from streamgda.sources.errors import decoding
from streamgda.sources.roles import Roles
from streamgda.storage.versions import Version, check_unchanged, current_version

_UNREADABLE = (
    "it is damaged or something else, or a column is not of the type that the dataset has for it (then make "
    "the dataset with a schema that serves all its files)"
)


class DatasetSource(ArrowSource[ds.Dataset]):
    """A dataset of files that are not Parquet or not read as they are stored, or of tables."""

    @property
    def is_local(self) -> bool:
        """Whether some of it is in memory, which Arrow does not send."""
        return _is_in_memory(self._data)

    def splits(self) -> list[Fragment]:
        """The fragments, a split each."""
        return [
            Fragment(self._data.schema, fragment, self._roles, position, _version_of(fragment))
            for position, fragment in enumerate(self._data.get_fragments())
        ]


def _is_in_memory(dataset: ds.Dataset) -> bool:
    parts = getattr(dataset, "children", ())
    return isinstance(dataset, ds.InMemoryDataset) or any(map(_is_in_memory, parts))


def _version_of(fragment: ds.Fragment) -> Version | None:
    """The version of a fragment that is a file; else None."""
    if getattr(fragment, "filesystem", None) is None:
        return None
    return current_version(fragment.filesystem, fragment.path)


@dataclass(frozen=True)
class Fragment(Split):
    """A fragment of a dataset, such as a file of it, in the version that was there when it was planned."""

    schema: pa.Schema
    fragment: ds.Fragment
    roles: Roles
    position: int
    version: Version | None

    @property
    def n_rows(self) -> None:
        """Unknown: to count the rows of a text file is to read it."""

    def blocks(self) -> Iterator[Block]:
        """Read the fragment in order."""
        origin = getattr(self.fragment, "path", f"fragment {self.position} of the dataset")
        return blocks_of_batches(self._batches(origin), self.roles, origin, dataset=origin)

    def _batches(self, origin: str) -> Iterator[pa.RecordBatch]:
        written_as = type(getattr(self.fragment, "format", self.fragment)).__name__
        written_as = written_as.removesuffix("FileFormat").removesuffix("Fragment")
        self._check_unchanged()
        with decoding(origin, written_as, _UNREADABLE):
            for batch in self._scan(list(self.roles.columns)):
                batch.validate(full=True)  # a damaged IPC file would crash the process
                yield batch
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        if self.version is not None:
            check_unchanged(self.fragment.filesystem, self.fragment.path, self.version)

    def _scan(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        if not type(self.fragment).__module__.startswith("pyarrow."):  # such as Lance's
            return iter(self.fragment.scanner(columns=names).to_reader())
        if isinstance(self.fragment, ds.ParquetFileFragment):
            self.fragment.format.default_fragment_scan_options.page_checksum_verification = True
        return iter(
            self.fragment.to_batches(schema=self.schema, columns=names, use_threads=False, batch_readahead=1)
        )
