"""The errors of reading files: they name the file, and tell a damaged file from a storage that failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from streamgda.data.sources.files.discovery import OTHER_FORMATS, SUFFIXES
from streamgda.data.storage.paths import one_line
from streamgda.data.storage.retries import is_of_storage, storing

_ENCRYPTED = (
    "it is encrypted (with its keys in a pyarrow dataset, use scan_arrow(dataset.scanner().to_reader(), ...))"
)

NOT_UTF8 = "it is not UTF-8: say its encoding, such as format='csv encoding=latin1'"
"""What to do about a file of CSV in another encoding."""

_KNOWN = {
    "codec can't decode": NOT_UTF8,
    "CSV parse error": "it is of another format, or a line has another number of values than the first",
    "the text is UTF-8": "it has another encoding than its format; files of two encodings are read apart",
    "crypt": _ENCRYPTED,
    "DictAccumulator": "pyarrow reads no dictionary from text in a delta encoding: write it anew, with "
    "use_dictionary=True or as plain text columns",
}
"""What is wrong with a file, by a part of the message of an error."""

_NO_FOLDERS = (
    "it is damaged, of another format or a folder, of which a web server gives a page: name the files by a "
    "glob such as 'https://host/folder/*.parquet', or by a list"
)


@contextmanager
def opening(path: str) -> Iterator[None]:
    """Name the file in an error of the storage.

    Raises
    ------
    OSError
        Of the same type as before: FileNotFoundError, PermissionError and so on.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} is gone, or what it links to is") from error
    except OSError as error:
        add_place(error, path)
        raise


@contextmanager
def decoding(
    path: str, written_as: str = "Parquet", reasons: str = "it is damaged or of another format"
) -> Iterator[None]:
    """Name the file in an error of reading or decoding it.

    Raises
    ------
    ValueError
        For a file that is damaged, of another format, or too large for the memory.
    OSError
        For an error of the storage, as `opening` does.
    """
    try:
        yield
    except MemoryError as error:  # Arrow's too; a damaged file may ask for any number of bytes
        raise ValueError(
            f"{path} cannot be read as {written_as}, it is damaged or too large for the memory: "
            f"{one_line(error) or 'no memory is left'}"
        ) from error
    except (pa.ArrowException, OSError, UnicodeError) as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        if is_of_storage(error):
            with opening(path), storing():
                raise
        if written_as == "Parquet" and not path.endswith(SUFFIXES):
            is_web = path.startswith(("http://", "https://"))
            reasons = _NO_FOLDERS if is_web else OTHER_FORMATS
        reasons = next((told for known, told in _KNOWN.items() if known in str(error)), reasons)
        raise ValueError(f"{path} cannot be read as {written_as}, {reasons}: {one_line(error)}") from error


def add_place(error: OSError, place: str) -> None:
    """Put a place into the message of an error, whose type stays the same."""
    if place in str(error):
        return
    if error.errno is None:
        error.args = (f"{place}: {error}",)
    else:
        error.filename = place
