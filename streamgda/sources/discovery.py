"""Find the files that a path, a folder, a glob or a URL stands for, on any pyarrow filesystem."""

from __future__ import annotations

import os
from collections.abc import Sequence
from os import PathLike
from typing import Any

import pyarrow.fs as pafs

from streamgda.storage.filesystems import resolve
from streamgda.storage.paths import Path
from streamgda.storage.versions import listing

_SUFFIXES = (".parquet", ".parq", ".pq")

_HIDDEN = (".", "_")

_GLOB_SIGNS = "*?["


def find_files(path: Path | Sequence[Path], filesystem: Any = None) -> tuple[pafs.FileSystem, list[str], str]:
    """The filesystem, the files in order, and the folder whose partitions they are in.

    Raises
    ------
    FileNotFoundError
        If there is no such file or folder, or nothing Parquet is in it.
    """
    if not isinstance(path, str | PathLike):
        if not isinstance(path, Sequence):
            raise TypeError(f"path must be a path, a URL or a list of them; got {type(path).__name__}")
        return _find_several(path, filesystem)
    where, name = resolve(path, filesystem)
    info = where.get_file_info(name)
    if info.type == pafs.FileType.File:
        return where, [name], ""
    if info.type == pafs.FileType.Directory:
        return where, _in_folder(where, name), name
    if any(sign in name for sign in _GLOB_SIGNS):
        return where, _matching(where, name), ""
    raise FileNotFoundError(f"there is no file or folder {os.fspath(path)}")


def _find_several(paths: Sequence[Path], filesystem: Any) -> tuple[pafs.FileSystem, list[str], str]:
    found = [find_files(path, filesystem) for path in paths]
    if not found:
        raise FileNotFoundError("the list of Parquet files is empty")
    where = found[0][0]
    if any(other != where for other, _, _ in found):
        raise ValueError("the files of a dataset must all be on one filesystem")
    return where, [file for _, files, _ in found for file in files], ""


def _in_folder(where: pafs.FileSystem, folder: str) -> list[str]:
    files = sorted(file for file in listing(where, folder) if lists(folder, file))
    if not files:
        raise FileNotFoundError(
            f"folder {folder} holds no file named {', '.join('*' + s for s in _SUFFIXES)}"
        )
    return files


def lists(folder: str, file: str) -> bool:
    """Whether a file would be found in a folder, however deep in it: a Parquet file that is not hidden."""
    inside = file.startswith(f"{folder.rstrip('/')}/")
    return inside and file.endswith(_SUFFIXES) and not _is_hidden(file, folder)


def _is_hidden(file: str, folder: str) -> bool:
    """Whether the file, or a folder on the way to it, is one that writers use for their own ends."""
    inside = file[len(folder) :].strip("/").split("/")
    return any(part.startswith(_HIDDEN) and "=" not in part for part in inside)


def _matching(where: pafs.FileSystem, pattern: str) -> list[str]:
    from fsspec.implementations.arrow import ArrowFSWrapper

    files = sorted(
        name
        for name in ArrowFSWrapper(where).glob(pattern)
        if where.get_file_info(name).type == pafs.FileType.File
    )
    if not files:
        raise FileNotFoundError(f"no file matches {pattern}")
    return files
