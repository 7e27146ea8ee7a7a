"""Find the filesystem, pyarrow's or fsspec's, that a path or URL is on, and the place that it leads to.

Different paths may lead to one place: relative and absolute ones, links, and those of different libraries.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs

from streamgda.storage.paths import AnyFileSystem, Path, one_line, shown

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


from dataclasses import dataclass
from typing import Self


def resolve(path: Path, filesystem: AnyFileSystem | None = None) -> tuple[pafs.FileSystem, str]:
    """The filesystem that a path or URL is on, and the path on that filesystem.

    Parameters
    ----------
    path : str or path
        A local path, a URL, or a path on `filesystem`.
    filesystem : pyarrow or fsspec filesystem, optional
        If None, inferred from the path.

    Raises
    ------
    ValueError
        If the URL is of no known kind.
    OSError
        If the server in the URL does not answer.
    """
    name = os.fspath(path)
    if filesystem is None and "://" in name:
        return _from_url(name)
    if filesystem is None:
        local = pathlib.Path(name)
        with suppress(RuntimeError):  # there is no such user, so the name of the file begins with "~"
            local = local.expanduser()
        return pafs.LocalFileSystem(), str(local.absolute())
    if isinstance(filesystem, pafs.FileSystem):
        return filesystem, name
    full = filesystem._strip_protocol(name)  # the path without the scheme of its URL, as fsspec finds it
    return _wrapped(filesystem), full


def _from_url(url: str) -> tuple[pafs.FileSystem, str]:
    """A pyarrow filesystem for the schemes that pyarrow knows, else one of fsspec."""
    try:
        is_limited = not url.startswith(("gs://", "gcs://")) or "retry_limit_seconds=" in url
        return pafs.FileSystem.from_uri(  # type: ignore[no-any-return]
            url if is_limited else f"{url}{'&' if '?' in url else '?'}retry_limit_seconds={_RETRIES}"
        )
    except pa.ArrowInvalid as error:
        refused = shown(one_line(error))
    place, _, _ = url.partition("?")
    if url.startswith("s3") and shown(place) != place:  # fsspec would take the key for a bucket
        raise ValueError(f"{shown(url)}: {refused}; write a / in a key as %2F")
    from fsspec.core import url_to_fs

    try:
        filesystem, name = url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise ValueError(f"{shown(url)}: {one_line(error)}") from error
    except OSError as error:  # some filesystems connect to their server when they are made
        raise OSError(f"{shown(url)} cannot be reached: {one_line(error)}") from error
    return _wrapped(filesystem), name


_RETRIES = 60  # seconds; without a limit, pyarrow tries for 15 minutes


def _wrapped(filesystem: AbstractFileSystem) -> pafs.FileSystem:
    return pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))


def unwrapped(filesystem: pafs.FileSystem, name: str) -> tuple[pafs.FileSystem, str]:
    """The filesystem beneath views of folders and wrappers of fsspec, and the path on it."""
    if isinstance(filesystem, pafs.SubTreeFileSystem):
        return unwrapped(filesystem.base_fs, f"{filesystem.base_path}{name}")
    if (behind := fsspec_of(filesystem)) is None:
        return filesystem, name
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
    from fsspec.implementations.dirfs import DirFileSystem

    if isinstance(behind, DirFileSystem):
        return unwrapped(_wrapped(behind.fs), behind._join(name))
    if isinstance(behind, AsyncFileSystemWrapper):
        return unwrapped(_wrapped(behind.sync_fs), name)
    return filesystem, name


def is_local(filesystem: pafs.FileSystem) -> bool:
    """Whether a filesystem is that of this machine, whose files can be renamed, flushed and locked."""
    return kind_of(filesystem) == "file"


def is_object_store(filesystem: pafs.FileSystem) -> bool:
    """Whether a filesystem is an object store, where a file appears only once it is complete."""
    return kind_of(filesystem) in {"s3", "gcs", "abfs", "oci", "oss", "memory"}


def kind_of(filesystem: pafs.FileSystem) -> str:
    """The kind of storage, such as "file" or "s3". It is the same for all libraries and protocols."""
    behind = fsspec_of(filesystem)
    protocols = filesystem.type_name if behind is None else behind.protocol
    name = protocols if isinstance(protocols, str) else min(protocols)
    return _KINDS.get(name, name)


_KINDS = {"local": "file", "s3a": "s3", "gs": "gcs", "abfss": "abfs", "az": "abfs", "arrow_hdfs": "hdfs"}


def fsspec_of(filesystem: pafs.FileSystem) -> AbstractFileSystem | None:
    """The fsspec filesystem behind a pyarrow one, or None."""
    handler = getattr(filesystem, "handler", None)
    return handler.fs if isinstance(handler, pafs.FSSpecHandler) else None


@contextmanager
def reaching(path: str) -> Iterator[None]:
    """Turn the errors of a filesystem into one OSError of one line that names the path."""
    try:
        yield
    except (FileNotFoundError, MemoryError):
        raise
    except Exception as error:  # each filesystem raises its own kinds
        raise OSError(f"{shown(path)} cannot be reached: {one_line(error)}") from error


@dataclass(frozen=True)
class Place:
    """A file or folder: two paths to the same one are equal places.

    Local paths are made absolute, without ``..`` and symbolic links. On an object store, a bucket and a key
    are one place for all libraries and endpoints.

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
        """The place of a path on a filesystem. No file need be there."""
        filesystem, path = unwrapped(filesystem, path)
        if is_local(filesystem):
            return cls("file", os.path.realpath(path))
        return cls(kind_of(filesystem), path.strip("/"))

    def is_within(self, folder: Place) -> bool:
        """Whether this place is the given folder, or lies in it at any depth."""
        inside = f"{folder.path.rstrip('/')}/"
        return self.kind == folder.kind and f"{self.path}/".startswith(inside)

    def overlaps(self, other: Place) -> bool:
        """Whether the two places are the same, or one lies in the other."""
        return self.is_within(other) or other.is_within(self)


def local_path(filesystem: pafs.FileSystem, path: str) -> str | None:
    """A path on a local filesystem as a path of this machine, with its links; None if it is not local."""
    filesystem, path = unwrapped(filesystem, path)
    return path if is_local(filesystem) else None


def moved(path: str, folder: str, other: str) -> str:
    """A path in `folder`, rewritten as the same path in `other`."""
    inside = path.removeprefix(folder).lstrip("/")
    return f"{other.rstrip('/')}/{inside}" if other else inside
