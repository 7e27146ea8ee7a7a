"""Where a command writes: seen to before the work, so that it does not fail after it."""

from __future__ import annotations

import tempfile
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any


def check_folder_of(path: str) -> None:
    """Raise OSError unless a file can be made where `path` is to be; URLs are seen when they are written."""
    if "://" in path:
        return
    place = Path(path).expanduser().absolute()
    if path.endswith("/") or (place.exists() and not place.is_file()):
        raise OSError(f"{path} cannot be written: it is a folder or no regular file")
    folder = place.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {folder}") from None
    except OSError as error:
        raise OSError(f"{path} cannot be written: {folder}: {error.strerror}") from error


def check_replaceable(path: str) -> None:
    """See, besides, that nothing stands there but statistics or a model that was saved.

    Raises
    ------
    ValueError
        If something else does, which may be data.
    """
    from streamgda import load
    from streamgda.storage.filesystems import resolve

    check_folder_of(path)
    resolve(path)
    with suppress(FileNotFoundError):
        try:
            load(path)
        except ValueError as error:
            raise ValueError(
                f"will not overwrite {path}, which holds no model or statistics: {error}"
            ) from error


def check_apart(path: str, source: Any) -> None:
    """Raise ValueError if what is written to `path` would be taken for data of the source from then on."""
    from streamgda.sources.base import FileSource
    from streamgda.storage.filesystems import resolve

    if isinstance(source, FileSource) and source.includes(*resolve(path)):
        raise ValueError(
            f"{path} lies in the folder of the data, where it would be read as data; choose another"
        )


def write_atomically(path: str, content: bytes) -> None:
    """Write a file under another name, and give it its own when it is whole."""
    from streamgda.storage.tables import TEMPORARY

    place = Path(path).expanduser()
    unfinished = place.with_name(f".{place.name}.{uuid.uuid4().hex}{TEMPORARY}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(place)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
