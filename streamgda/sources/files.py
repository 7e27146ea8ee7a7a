"""Find the files that a path, a folder, a glob or a URL stands for, on any pyarrow filesystem."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from os import PathLike
from typing import Any

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
        return _find_several(path, filesystem)
    where, name = _resolve(os.fspath(path), filesystem)
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
    return found[0][0], [file for _, files, _ in found for file in files], ""


def _resolve(path: str, filesystem: Any) -> tuple[pafs.FileSystem, str]:
    if filesystem is None:
        if "://" in path:
            where, name = pafs.FileSystem.from_uri(path)
            return where, name
        return pafs.LocalFileSystem(), str(pathlib.Path(path).expanduser().absolute())
    if not isinstance(filesystem, pafs.FileSystem):
        filesystem = pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))
    return filesystem, path


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
