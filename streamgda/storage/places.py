"""Where a file or folder is, however its path is written and whichever library reaches it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Self

import pyarrow.fs as pafs

from streamgda.storage.filesystems import fsspec_of, is_local, kind_of, unwrapped


@dataclass(frozen=True)
class Place:
    """A file or folder: two paths to the same one are equal places.

    Local paths are resolved: relative ones, ``..`` and symbolic links. On an object store, a bucket and a key
    are a place, whichever library and endpoint they are reached by.

    Attributes
    ----------
    kind : str
        The kind of filesystem, such as "file" or "s3".
    path : str
        The full path there.
    """

    kind: str
    path: str

    @classmethod
    def of(cls, filesystem: pafs.FileSystem, path: str) -> Self:
        """The place of a path on a filesystem; nothing need be there."""
        filesystem, path = _beneath(*unwrapped(filesystem, path))
        if is_local(filesystem):
            return cls("file", os.path.realpath(path))
        return cls(kind_of(filesystem), path.strip("/"))

    def is_within(self, folder: Place) -> bool:
        """Whether it is a folder, or lies in it at any depth."""
        inside = f"{folder.path.rstrip('/')}/"
        return self.kind == folder.kind and f"{self.path}/".startswith(inside)

    def overlaps(self, other: Place) -> bool:
        """Whether one of the two is the other, or lies in it."""
        return self.is_within(other) or other.is_within(self)


def local_path(filesystem: pafs.FileSystem, path: str) -> str | None:
    """A path on a filesystem as a path of this machine, links unresolved; None, if it is not local."""
    filesystem, path = _beneath(*unwrapped(filesystem, path))
    return path if is_local(filesystem) else None


def moved(path: str, folder: str, other: str) -> str:
    """The path of what lies in a folder, where the folder is called otherwise."""
    inside = path.removeprefix(folder).lstrip("/")
    return f"{other.rstrip('/')}/{inside}" if other else inside


def _beneath(filesystem: pafs.FileSystem, path: str) -> tuple[pafs.FileSystem, str]:
    """The filesystem beneath wrappers of fsspec's, and the path there."""
    if (behind := fsspec_of(filesystem)) is None:
        return filesystem, path
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
    from fsspec.implementations.dirfs import DirFileSystem

    if isinstance(behind, DirFileSystem):
        return _beneath(pafs.PyFileSystem(pafs.FSSpecHandler(behind.fs)), behind._join(path))
    if isinstance(behind, AsyncFileSystemWrapper):
        return _beneath(pafs.PyFileSystem(pafs.FSSpecHandler(behind.sync_fs)), path)
    return filesystem, path
