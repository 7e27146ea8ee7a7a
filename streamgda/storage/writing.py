"""Write a file wholly or not at all, and let one process at a time write to a folder.

A file is first written under a temporary name, and renamed when it is complete. The temporary file is in the
same folder. Its name is hidden and ends in ``.unfinished``. Only a crash leaves such a file behind.
`finished_name` returns the name that it was to get, so that the next run can recognise and delete it.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path as LocalPath

import pyarrow as pa
import pyarrow.fs as pafs

from streamgda.storage.filesystems import is_local, is_object_store, unwrapped

_SUFFIX = ".unfinished"

_UNFINISHED = re.compile(rf"\.?(?P<finished>.+)\.[0-9a-f]{{32}}{re.escape(_SUFFIX)}")


@contextmanager
def replacing(filesystem: pafs.FileSystem, path: str, *, in_memory: bool = False) -> Iterator[pa.NativeFile]:
    """Open a new file for writing. It replaces the file at `path` when the block ends without an error.

    A local file is flushed to the disk before it is renamed, so that a loss of power cannot leave a torn one.

    Parameters
    ----------
    filesystem : pyarrow.fs.FileSystem
        Where the file is.
    path : str
        The path of the file on that filesystem. A file that is there stays until the block ends.
    in_memory : bool, default=False
        Whether the content is small enough to be collected in memory. On an object store it is then written
        by one request, without a temporary file, since an object there appears only when it is complete.

    Yields
    ------
    pyarrow.NativeFile
        A stream of bytes. It is closed when the block ends.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    filesystem, path = unwrapped(filesystem, path)
    if in_memory and is_object_store(filesystem):
        buffer = pa.BufferOutputStream()
        yield buffer
        with filesystem.open_output_stream(path, compression=None) as stream:
            stream.write(buffer.getvalue())
        return
    folder, slash, name = path.rpartition("/")
    unfinished = f"{folder}{slash}.{name}.{uuid.uuid4().hex}{_SUFFIX}"
    try:
        with filesystem.open_output_stream(unfinished, compression=None) as stream:
            yield stream
        if is_local(filesystem):
            with LocalPath(unfinished).open("rb+") as file:
                os.fsync(file.fileno())
            LocalPath(unfinished).replace(path)
        else:
            filesystem.move(unfinished, path)
    except BaseException:
        with suppress(OSError):
            filesystem.delete_file(unfinished)
        raise


def finished_name(name: str) -> str | None:
    """The name that an unfinished file was to get; None if the name is not of an unfinished file.

    Examples
    --------
    >>> finished_name(f".model.parquet.{'0' * 32}.unfinished")
    'model.parquet'
    >>> finished_name("symphony.unfinished")
    """
    match = _UNFINISHED.fullmatch(name)
    return match and match["finished"]


LOCK = ".lock"


@contextmanager
def locked(filesystem: pafs.FileSystem, folder: str, busy: str, name: str = LOCK) -> Iterator[None]:
    """Hold the lock of an existing folder, if its filesystem is local; other filesystems have no locks.

    An empty file in the folder is locked. The file stays there afterwards, unlocked.

    Parameters
    ----------
    filesystem : pyarrow.fs.FileSystem
        Where the folder is.
    folder : str
        Its path on that filesystem.
    busy : str
        What the error says if another process holds the lock.
    name : str, default=".lock"
        The name of the lock file; an existing file of this name is emptied.

    Raises
    ------
    RuntimeError
        If another process, or another thread of this one, holds the lock.
    """
    from filelock import FileLock, Timeout

    filesystem, folder = unwrapped(filesystem, folder)
    if not is_local(filesystem):
        yield
        return
    try:
        lock = FileLock(f"{folder}/{name}").acquire(timeout=0)
    except Timeout as error:
        raise RuntimeError(busy) from error
    with lock:
        yield
