"""Paths as users pass them, and paths and errors as messages show them."""

from __future__ import annotations

import os
import re
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pyarrow.fs as pafs
    from fsspec import AbstractFileSystem

    AnyFileSystem: TypeAlias = pafs.FileSystem | AbstractFileSystem
else:
    AnyFileSystem = Any  # annotations resolve without loading pyarrow or fsspec

Path = str | PathLike[str]


_USER = re.compile(r"(?<=://)[^/?#@:\s]*:(?!\d*(?:[/?#\s]|$))(?:[^/?#\s]*@|[^@\s]*@)")  # not host:port

_OPTIONS = re.compile(r"(://\S*?)\?[^/?\s]*=\S*?(?=\W*(?:\s|$))")  # not a wildcard


def one_line(error: BaseException) -> str:
    """The message of an error, without line breaks."""
    return " ".join(str(error).split())


def shown(path: str | os.PathLike[str]) -> str:
    """A path as messages show it. URLs lose what may be secret: a user with a password, and the options.

    Parameters
    ----------
    path : str or path
        A path, a URL, or a text with URLs in it.

    Examples
    --------
    >>> shown("s3://key:secret@bucket/2026/part-?.parquet?region=eu-west-1")
    's3://bucket/2026/part-?.parquet'
    """
    return _OPTIONS.sub(r"\1", _USER.sub("", os.fspath(path)))
