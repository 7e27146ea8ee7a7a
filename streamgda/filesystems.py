"""Where a path or a URL leads: a filesystem of pyarrow's, or one of fsspec's behind pyarrow's interface."""

from __future__ import annotations

import os
import pathlib
from os import PathLike
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

Path = str | PathLike[str]


def resolve(path: Path, filesystem: Any = None) -> tuple[pafs.FileSystem, str]:
    """The filesystem that a path or URL is on, and its name there.

    Parameters
    ----------
    path : str or path
        A local path, a URL, or a path on `filesystem`.
    filesystem : pyarrow or fsspec filesystem, optional
        Found from the path where not given.
    """
    name = os.fspath(path)
    if filesystem is None:
        return _from_url(name) if "://" in name else _local(name)
    if not isinstance(filesystem, pafs.FileSystem):
        name = filesystem._strip_protocol(name)  # fsspec's way to the full path
        filesystem = pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))
    return filesystem, name


def _local(path: str) -> tuple[pafs.FileSystem, str]:
    return pafs.LocalFileSystem(), str(pathlib.Path(path).expanduser().absolute())


def _from_url(url: str) -> tuple[pafs.FileSystem, str]:
    """A filesystem of pyarrow's for the schemes that it knows, else one of fsspec's."""
    try:
        where, name = pafs.FileSystem.from_uri(url)
    except pa.ArrowInvalid:
        from fsspec.core import url_to_fs

        filesystem, name = url_to_fs(url)
        where = pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))
    return where, name


def unwrapped(filesystem: pafs.FileSystem, name: str) -> tuple[pafs.FileSystem, str]:
    """The filesystem beneath views of its folders, and the name there."""
    while isinstance(filesystem, pafs.SubTreeFileSystem):
        filesystem, name = filesystem.base_fs, f"{filesystem.base_path}{name}"
    return filesystem, name


def is_local(filesystem: pafs.FileSystem) -> bool:
    """Whether paths on it are paths of this machine, which can be renamed, flushed and locked."""
    return not _protocols(filesystem).isdisjoint({"file", "local"})


def is_object_store(filesystem: pafs.FileSystem) -> bool:
    """Whether a file on it appears as a whole, once all of it is written."""
    return not _protocols(filesystem).isdisjoint(_OBJECT_STORES)


_OBJECT_STORES = {"s3", "s3a", "gcs", "gs", "abfs", "abfss", "az", "oci", "oss", "memory"}


def fsspec_of(filesystem: pafs.FileSystem) -> Any:
    """The fsspec filesystem behind a pyarrow one, or None."""
    handler = getattr(filesystem, "handler", None)
    return handler.fs if isinstance(handler, pafs.FSSpecHandler) else None


def _protocols(filesystem: pafs.FileSystem) -> set[str]:
    behind = fsspec_of(filesystem)
    protocol = filesystem.type_name if behind is None else behind.protocol
    return {protocol} if isinstance(protocol, str) else set(protocol)
