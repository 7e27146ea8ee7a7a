"""The types of what users pass for a file: a path or URL, and the filesystem that it is on."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pyarrow.fs as pafs
    from fsspec import AbstractFileSystem

    AnyFileSystem: TypeAlias = pafs.FileSystem | AbstractFileSystem
else:
    AnyFileSystem = Any  # annotations resolve without loading pyarrow or fsspec

Path = str | PathLike[str]
