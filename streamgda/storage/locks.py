"""Locks of folders on local disks: one process at a time writes there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow.fs as pafs

from streamgda.storage.filesystems import is_local, unwrapped

LOCK = ".lock"


@contextmanager
def locked(filesystem: pafs.FileSystem, folder: str, busy: str, name: str = LOCK) -> Iterator[None]:
    """Hold the lock of a folder, which exists, where its filesystem is local; others have no locks.

    What is locked is an empty file in the folder, which stays there unlocked.

    Parameters
    ----------
    filesystem : pyarrow.fs.FileSystem
        Where the folder is.
    folder : str
        Its name there.
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
