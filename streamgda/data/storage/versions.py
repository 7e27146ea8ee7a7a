"""The version of a file: another one says that the file has changed."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from streamgda.data.storage.documents import digest

_ETAGS = ("ETag", "etag", "md5Hash")

_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified")

_NOT_OF_CONTENT = re.compile(
    r"name|path|type|size|length|.*ur[li]|mime.*|partial|.*access.*|atime|time|.*expir.*|ttl|age|date|.*request.*"
    r"|uid|gid|owner|group|perm.*|mode|ino|.*link|storage.?class",
    re.IGNORECASE,
)

_PLAIN = (bool, int, float, str, bytes, datetime)

_warned_of: list[str] = []  # the first file with a version of size alone


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
    inode : int or None
        Of a local file. Files that swap their names keep it, whatever their sizes and times are.
    """

    size: int | None
    modified: int | None
    etag: str | None = None
    inode: int | None = None

    @property
    def identity(self) -> tuple[int | None, int | str | None, int | None]:
        """What tells the file from others of its name, where states or predictions are found again."""
        return *self.content, self.inode

    @property
    def content(self) -> tuple[int | None, int | str | None]:
        """Size, and ETag or modification time: equal for equal versions. Some mounts change inodes."""
        return self.size, self.modified if self.etag is None else self.etag

    @property
    def tells_content(self) -> bool:
        """Whether more than the size tells it from other versions."""
        return self.modified is not None or self.etag is not None

    def warn_if_size_alone(self, name: str) -> None:
        """Warn, once in a process, that only its size tells a version of a file from others."""
        if not self.tells_content and not _warned_of:
            _warned_of.append(name)
            warnings.warn(
                f"{name}: its store says the size of a file and nothing else that tells its versions apart. "
                "Where states or predictions are found again, other rows of the same size are taken for the "
                "same: give changed files new names",
                stacklevel=2,
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.content == other.content

    def __hash__(self) -> int:
        return hash(self.content)


def version_of_status(status: os.stat_result) -> Version:
    """The version of a local file."""
    return Version(status.st_size, status.st_mtime_ns, inode=status.st_ino)


def version_of_info(info: Mapping[str, Any]) -> Version:
    """The version of a file by fsspec, whose filesystems have different keys for the same values.

    If none of the known keys is there, the version is a digest of all other values, except of those that may
    change while the content does not.
    """
    etag = next((str(info[key]) for key in _ETAGS if info.get(key)), None)
    time = next((info[key] for key in _TIMES if info.get(key)), None)
    if etag is None and time is None:
        known = {key: str(value) for key, value in info.items() if isinstance(value, _PLAIN)}
        known = {key: value for key, value in known.items() if not _NOT_OF_CONTENT.fullmatch(key)}
        etag = digest(known) if known.keys() - {"created"} else None
        time = info.get("created")
    return Version(info.get("size"), _nanoseconds(time) if time else None, etag, info.get("ino"))


def version_of_headers(headers: Mapping[str, bytes]) -> Version | None:
    """The version of a file by what S3 answers, if that tells it."""
    if "Content-Length" not in headers or "Last-Modified" not in headers:
        return None
    return Version(int(headers["Content-Length"]), _nanoseconds(headers["Last-Modified"].decode()))


def _nanoseconds(time: float | str | datetime) -> int:
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    seconds = time.timestamp() if isinstance(time, datetime) else time
    return round(seconds * 1_000_000) * 1_000
