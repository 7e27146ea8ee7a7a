"""Where a path or a URL leads, what is there, and in which version, on pyarrow's and fsspec's filesystems."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
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

        try:
            filesystem, name = url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise ValueError(f"{url}: {one_line(error)}") from error
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


@contextmanager
def reaching(path: str) -> Iterator[None]:
    """Make one error, of one kind and one line, of what filesystems raise when they are out of reach."""
    try:
        yield
    except (FileNotFoundError, MemoryError):
        raise
    except Exception as error:  # every store has its own
        raise OSError(f"{path} cannot be reached: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """What an error says, without line breaks."""
    return " ".join(str(error).split())


@dataclass(frozen=True, eq=False)
class Version:
    """What a change of a file is seen by: its size and its ETag or, where no ETag is listed, its time.

    Times are in nanoseconds since 1970, UTC.
    """

    size: int | None
    modified: int | None
    etag: str | None = None

    @property
    def identity(self) -> tuple[int | None, int | str | None]:
        """What two versions have in common if they are the same."""
        return self.size, self.modified if self.etag is None else self.etag

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)


def listing(filesystem: pafs.FileSystem, folder: str) -> dict[str, Version]:
    """The files in a folder, at any depth, as they are now; none, if there is no such folder."""
    behind = fsspec_of(filesystem)
    if behind is None:
        selector = pafs.FileSelector(folder, recursive=True, allow_not_found=True)
        found = filesystem.get_file_info(selector)
        return {info.path: _version(info) for info in found if info.type == pafs.FileType.File}
    behind.invalidate_cache()  # or it may tell what it saw when it last looked
    return {name: _version_by_fsspec(info) for name, info in behind.find(folder, detail=True).items()}


def children(filesystem: pafs.FileSystem, folder: str) -> list[str]:
    """The names of what lies directly in a folder; none, if there is no such folder."""
    if (behind := fsspec_of(filesystem)) is not None:
        behind.invalidate_cache()  # or it may tell what it saw when it last looked
    selector = pafs.FileSelector(folder, allow_not_found=True)
    return [info.base_name for info in filesystem.get_file_info(selector) if info.base_name]


def current_version(filesystem: pafs.FileSystem, name: str) -> Version:
    """The version of a file as it is now.

    Raises
    ------
    FileNotFoundError
        If it is no longer there.
    """
    behind = fsspec_of(filesystem)
    if behind is not None:
        behind.invalidate_cache(name)  # or it may tell what it saw when it last looked
    info = filesystem.get_file_info(name)
    if info.type == pafs.FileType.NotFound:
        raise FileNotFoundError(f"{name} is gone")
    return _version(info) if behind is None else _version_by_fsspec(behind.info(name))


def _version(info: pafs.FileInfo) -> Version:
    return Version(info.size, info.mtime_ns)


_ETAGS = ("ETag", "etag", "md5Hash")

_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")


def _version_by_fsspec(info: Mapping[str, Any]) -> Version:
    """Every filesystem of fsspec's has its own words for the same things."""
    etags = [str(info[key]) for key in _ETAGS if info.get(key)]
    times = [_nanoseconds(info[key]) for key in _TIMES if info.get(key)]
    return Version(info.get("size"), times[0] if times else None, etags[0] if etags else None)


def _nanoseconds(time: float | str | datetime) -> int:
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    seconds = time.timestamp() if isinstance(time, datetime) else time
    return round(seconds * 1_000_000) * 1_000
