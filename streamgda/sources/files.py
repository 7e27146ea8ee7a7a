"""Find the files that a path, a folder, a glob or a URL stands for, on any pyarrow filesystem."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from os import PathLike
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

_SUFFIXES = (".parquet", ".parq", ".pq")
_HIDDEN = (".", "_")
_GLOB_SIGNS = "*?["

Path = str | PathLike[str]


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
    where, name = resolve(os.fspath(path), filesystem)
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


def resolve(path: str, filesystem: Any) -> tuple[pafs.FileSystem, str]:
    """The filesystem that a path or URL is on, and its name there."""
    if filesystem is None:
        return _from_url(path) if "://" in path else _local(path)
    if not isinstance(filesystem, pafs.FileSystem):
        path = filesystem._strip_protocol(path)  # fsspec's way to the full path
        filesystem = pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))
    return filesystem, path


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


def _in_folder(where: pafs.FileSystem, folder: str) -> list[str]:
    selector = pafs.FileSelector(folder, recursive=True)
    files = sorted(
        info.path
        for info in where.get_file_info(selector)
        if info.type == pafs.FileType.File
        and info.path.endswith(_SUFFIXES)
        and not _is_hidden(info.path, folder)
    )
    if not files:
        raise FileNotFoundError(
            f"folder {folder} holds no file named {', '.join('*' + s for s in _SUFFIXES)}"
        )
    return files


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
