"""States of a pass that are kept, so that the pass need not begin from nothing if it is started again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow.fs as pafs

from streamgda.sources.base import ScorableSource, Source
from streamgda.statistics.base import Statistics
from streamgda.statistics.factory import COLUMNS, state_of
from streamgda.storage import tables
from streamgda.storage.documents import FORMAT_VERSION, digest
from streamgda.storage.filesystems import resolve
from streamgda.storage.paths import Path, shown
from streamgda.storage.versions import children


@dataclass(frozen=True)
class Checkpoint:
    """A folder of states, each named by a hash of what it is of.

    The hash is of the files and their versions, the rows, the columns, the kind of statistics and the format.
    So the states of another pass are other files, and one folder may serve several passes.
    """

    filesystem: pafs.FileSystem
    folder: str
    kind: str
    made_by: str

    @classmethod
    def at(cls, path: Path, source: Source, empty: Statistics) -> Self:
        """The checkpoint of a pass, in a folder that is made if need be.

        Raises
        ------
        TypeError
            If the rows have no versions by which a state of them could be found again.
        ValueError
            If the folder is one of the dataset.
        """
        if not isinstance(source, ScorableSource):
            raise TypeError(
                f"checkpoint= needs files that have versions, of Parquet or Zarr; got {source!r}, of which a "
                "pass that begins again cannot tell whether the rows are the same"
            )
        _, metadata = empty.to_columns()
        kept = [empty.has_fourth_moments, getattr(empty, "max_patterns", None)]
        filesystem, folder = resolve(path)
        if source.overlaps(filesystem, folder):
            raise ValueError(
                f"checkpoint={shown(path)!r} lies in the folder of the dataset, where states would be "
                "taken for data; choose another folder"
            )
        filesystem.create_dir(folder, recursive=True)
        kind = type(empty).__name__
        return cls(filesystem, folder.rstrip("/"), kind, digest([FORMAT_VERSION, metadata, *kept]))

    def kept(self) -> set[str]:
        """The names of the states that are there."""
        return set(children(self.filesystem, self.folder))

    def name_of(self, groups: Sequence[Sequence[Any]]) -> str:
        """The name of the state of some groups."""
        identities = [[split.identity for split in group] for group in groups]
        return f"{digest([self.made_by, identities])}.parquet"

    def write(self, name: str, state: Statistics) -> None:
        """Write a state, wholly or not at all."""
        tables.save(f"{self.folder}/{name}", *state.to_columns(), self.filesystem, overwrite=True)

    def read(self, name: str) -> Statistics:
        """The state of a name.

        Raises
        ------
        ValueError
            If it is damaged.
        """
        path = f"{self.folder}/{name}"
        try:
            return state_of(*tables.read(path, COLUMNS, self.filesystem), path)
        except ValueError as error:
            raise ValueError(f"{error}; delete the file, and start the pass again") from error
