"""Which files are in a folder, and in which version each of them is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs

from streamgda.storage.filesystems import fsspec_of, local_path, moved, unwrapped

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


from collections import deque
from collections.abc import Iterator


@dataclass(frozen=True, eq=False, slots=True)
class Version:
    """A file's version: its size, and its ETag or, where the store lists none, its modification time.

    Attributes
    ----------
    size : int or None
        In bytes.
    modified : int or None
        Nanoseconds since 1970, UTC.
    etag : str or None
        The store's own identifier of the content.
    """

    size: int | None
    modified: int | None
    etag: str | None = None

    @property
    def identity(self) -> tuple[int | None, int | str | None]:
        """Size, and ETag or modification time: equal for equal versions."""
        return self.size, self.modified if self.etag is None else self.etag

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)


def listing(filesystem: pafs.FileSystem, folder: str) -> dict[str, Version]:
    """The files in a folder, at any depth, with their present versions. A missing folder has no files.

    On a local disk, symbolic links are followed, and a file to which several paths lead is listed once.
    """
    behind = fsspec_of(filesystem)
    if (place := local_path(filesystem, folder)) is not None:
        return {
            moved(path, place, folder): _version_by_status(status, behind)
            for path, status in walk_files(place)
        }
    if behind is None:
        selector = pafs.FileSelector(folder, recursive=True, allow_not_found=True)
        found, in_seconds = filesystem.get_file_info(selector), _is_of_s3(filesystem)
        return {info.path: _version(info, in_seconds) for info in found if info.type == pafs.FileType.File}
    behind.invalidate_cache()  # or it answers from an earlier listing
    return {name: version_of_info(info) for name, info in behind.find(folder, detail=True).items()}


def children(filesystem: pafs.FileSystem, folder: str) -> list[str]:
    """The names of the files and folders directly in a folder. A missing folder has none."""
    if (behind := fsspec_of(filesystem)) is not None:
        behind.invalidate_cache()  # or it answers from an earlier listing
    selector = pafs.FileSelector(folder, allow_not_found=True)
    return [info.base_name for info in filesystem.get_file_info(selector) if info.base_name]


def current_version(filesystem: pafs.FileSystem, name: str) -> Version:
    """The present version of a file.

    Raises
    ------
    FileNotFoundError
        If it is no longer there.
    """
    behind = fsspec_of(filesystem)
    if (place := local_path(filesystem, name)) is not None:
        try:
            return _version_by_status(Path(place).stat(), behind)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{name} is gone, or what it links to") from error
    if behind is not None:
        behind.invalidate_cache(name)  # or it answers from an earlier listing
        try:
            return version_of_info(behind.info(name))
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{name} is gone") from error
    info = filesystem.get_file_info(name)
    if info.type == pafs.FileType.NotFound:
        raise FileNotFoundError(f"{name} is gone")
    return _version(info, _is_of_s3(filesystem))


def opened(filesystem: pafs.FileSystem, name: str) -> tuple[pa.NativeFile, Version]:
    """Open a file, and return it with its version. On S3, a single request gives both."""
    seen = None if _is_of_s3(filesystem) else current_version(filesystem, name)
    file = filesystem.open_input_file(name)
    if seen is None:
        said = file.metadata() or {}
        if "Content-Length" not in said or "Last-Modified" not in said:
            return file, current_version(filesystem, name)
        seen = Version(int(said["Content-Length"]), _nanoseconds(said["Last-Modified"].decode()))
    return file, seen


def check_unchanged(
    filesystem: pafs.FileSystem, name: str, planned: Version, present: Version | None = None
) -> None:
    """Raise ValueError if a file is no longer in the version for which a pass was planned.

    If `present` is None, the present version is read from the storage.
    """
    if (present or current_version(filesystem, name)) != planned:
        raise ValueError(f"{name} has changed since the pass was planned; start the pass again")


def _version_by_status(status: os.stat_result, behind: AbstractFileSystem | None) -> Version:
    """The version of a local file. Times of fsspec are cut to microseconds."""
    return Version(status.st_size, status.st_mtime_ns if behind is None else _nanoseconds(status.st_mtime))


def _version(info: pafs.FileInfo, in_seconds: bool) -> Version:
    """The version of a file by pyarrow. S3 may list times in milliseconds, but give seconds for one file."""
    return Version(info.size, info.mtime_ns // _SECOND * _SECOND if in_seconds else info.mtime_ns)


def _is_of_s3(filesystem: pafs.FileSystem) -> bool:
    return bool(unwrapped(filesystem, "")[0].type_name == "s3")


_SECOND = 1_000_000_000  # nanoseconds

_ETAGS = ("ETag", "etag", "md5Hash")

_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")


def version_of_info(info: Mapping[str, Any]) -> Version:
    """The version of a file by fsspec, whose filesystems have different keys for the same values."""
    etags = [str(info[key]) for key in _ETAGS if info.get(key)]
    times = [_nanoseconds(info[key]) for key in _TIMES if info.get(key)]
    return Version(info.get("size"), times[0] if times else None, etags[0] if etags else None)


def _nanoseconds(time: float | str | datetime) -> int:
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    seconds = time.timestamp() if isinstance(time, datetime) else time
    return round(seconds * 1_000_000) * 1_000


def walk_files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield each file in a folder, at any depth, once: its path, with "/" in it, and its status.

    If several paths lead to a file or folder, its path is the one without a link, if that lies in the folder.
    A link to nothing is listed as a file, which cannot be read. A missing folder has no files.
    """
    seen: set[str] = set()
    folders, links = deque([folder]), deque[str]()
    while folders or links:
        path = folders.popleft() if folders else links.popleft()
        real = os.path.realpath(path)
        if real in seen:
            continue
        seen.add(real)
        if Path(real).is_file():
            yield path, Path(real).stat()
        for entry in _entries(real):
            inside = f"{path.rstrip('/')}/{entry.name}"
            if entry.is_symlink() and Path(entry.path).exists():
                links.append(inside)
            elif entry.is_dir():
                folders.append(inside)
            elif entry.is_file() or entry.is_symlink():
                seen.add(entry.path)
                yield inside, entry.stat(follow_symlinks=False)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """The files and folders directly in a folder, sorted by name; none if it is not a folder."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
