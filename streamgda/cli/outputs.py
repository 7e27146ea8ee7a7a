"""Check where a command writes, before the work, so that it does not fail after it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

_TEXT = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")


def file_of_model(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """The callback of an option that names the file of a model or statistics."""
    if path is not None and (path == "-" or path.lower().endswith(_TEXT)):
        raise click.BadParameter(f"{path!r}: models and statistics are saved as a Parquet file.")
    return path


def place_of_predictions(context: click.Context, parameter: click.Parameter, path: str) -> str:
    """The callback of an option that names the place of predictions."""
    if path == "-" or path.lower().endswith(_TEXT):
        raise click.BadParameter(
            f"{path!r}: predictions are written as Parquet files into a folder, or as a Zarr store if "
            "the name ends in .zarr."
        )
    return path


def check_folder_of(path: str) -> None:
    """Raise OSError unless a file can be created at `path`; URLs are checked when they are written."""
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
    """Check that a model or statistics can be saved at `path`, and replace nothing else there.

    Raises
    ------
    OSError
        If a file cannot be created there.
    ValueError
        If there is a file of something else, which may be data.
    """
    from streamgda.storage import tables

    check_folder_of(path)
    tables.check_replaceable(path)


def check_apart(path: str, source: Any) -> None:
    """Raise ValueError if a file written to `path` would be read as data of the source from then on."""
    from streamgda.sources.base import FileSource
    from streamgda.storage.filesystems import resolve

    if isinstance(source, FileSource) and source.includes(*resolve(path)):
        raise ValueError(
            f"{path} lies in the folder of the data, where it would be read as data; choose another"
        )


def write_atomically(path: str, content: bytes) -> None:
    """Write a file under a temporary name, and rename it when it is complete."""
    from streamgda.storage.filesystems import resolve
    from streamgda.storage.writing import replacing

    with replacing(*resolve(path)) as file:
        file.write(content)
