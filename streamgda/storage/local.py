"""The files in a local folder, with symbolic links followed once."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path


def walk_files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield each file in a folder, at any depth, once: its path, with "/" in it, and its status.

    A file or folder to which several paths lead goes by the one without a link in it, if there is one within
    the folder. A link to nothing is listed as a file, which cannot be read. A folder that is not there has no
    files.
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
    """What lies directly in a folder, by name; nothing, if it is no folder."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
