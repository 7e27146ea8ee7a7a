"""The checkpoint of a pass: a folder that keeps the states of finished parts for the next start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from streamgda.data.sources.base import ScorableSource, Source
from streamgda.data.storage import tables
from streamgda.data.storage.documents import FORMAT_VERSION
from streamgda.data.storage.filesystems import Storage, reached, resolve
from streamgda.data.storage.identity import identity_of
from streamgda.data.storage.paths import Address, Path
from streamgda.statistics.base import Statistics
from streamgda.statistics.factory import COLUMNS, state_of


@dataclass(frozen=True)
class Checkpoint:
    """A folder of states. The name of each is a hash of what was read into it.

    The hash covers the files and their versions, the rows, the columns, the kind of statistics and the
    format. States of different passes have different names, so one folder may serve several passes.
    """

    storage: Storage
    folder: str
    kind: str
    made_by: str

    @classmethod
    def at(cls, path: Path, source: Source, empty: Statistics) -> Self:
        """The checkpoint of a pass, in a folder that is made if it is not there.

        Raises
        ------
        TypeError
            If the source has no versions, by which the states of its rows are found.
        ValueError
            If files written to the folder would be read as data of the source.
        """
        if not isinstance(source, ScorableSource) or not source.has_versions:
            raise TypeError(
                "checkpoint= needs files that have versions, of Parquet or Zarr, to tell whether the rows "
                f"are still the same; got {source!r}"
            )
        path = Address(path)
        _, metadata = empty.to_columns()
        storage, folder = resolve(path)
        if source.overlaps(storage, folder):
            raise ValueError(
                f"checkpoint={path!r} lies in the folder of the dataset, where states would be "
                "taken for data; choose another folder"
            )
        reached(folder, partial(storage.filesystem.create_dir, folder, recursive=True))
        kind = type(empty).__name__
        made_by = identity_of(FORMAT_VERSION, kind, metadata, empty.required)
        return cls(storage, folder.rstrip("/"), kind, made_by)

    def names(self) -> set[str]:
        """The names of the states in the folder."""
        return set(reached(self.folder, partial(self.storage.children, self.folder)))

    def name_of(self, groups: Sequence[Sequence[Any]]) -> str:
        """The name of the state of some groups."""
        return f"{identity_of(self.made_by, groups)}.parquet"

    def write(self, name: str, state: Statistics) -> None:
        """Write a state and its name, wholly or not at all."""
        columns, metadata = state.to_columns()
        document = {**metadata, "checkpoint": name}
        tables.save_table(f"{self.folder}/{name}", columns, document, self.storage, overwrite=True)

    def load(self, name: str) -> Statistics:
        """Read the state with this name.

        Raises
        ------
        ValueError
            If its file is damaged, or is that of another state.
        """
        path = f"{self.folder}/{name}"
        try:
            table, metadata = tables.read_table(path, COLUMNS, self.storage)
            if (own := metadata.get("checkpoint", name)) != name:  # 0.2 wrote no names
                raise ValueError(f"{path} holds the state of other rows, that of {own}")
            return state_of(table, metadata, path)
        except ValueError as error:
            raise ValueError(f"{error}; delete the file, and start the pass again") from error
