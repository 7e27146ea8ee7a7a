"""Plain values as JSON, as hashes, and as the document in the metadata of a saved file.

Plain values are what JSON holds, and NumPy's scalars and arrays. Hashes are equal for equal values, on any
machine. They are in saved ledgers and in the names of their files, so they may never change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def to_json(values: Any) -> str:
    """Plain values as JSON.

    Raises
    ------
    TypeError
        If a value is of another type.

    Examples
    --------
    >>> to_json({"rows": np.int64(2), "means": np.array([0.5, 1.0])})
    '{"rows": 2, "means": [0.5, 1.0]}'
    """
    return json.dumps(values, default=_plain)


def digest(values: Any, size: int = 16) -> str:
    """A hash of plain values: BLAKE2b of their JSON with sorted keys, `size` bytes as hexadecimal digits.

    Examples
    --------
    >>> digest({"a": 1, "b": [2, 3]}, 4) == digest({"b": (2, 3), "a": np.int64(1)}, 4)
    True
    """
    document = json.dumps(values, sort_keys=True, default=_plain)
    return hashlib.blake2b(document.encode(), digest_size=size).hexdigest()


def table_digest(columns: Mapping[str, NDArray[Any]], document: Mapping[str, Any]) -> str:
    """SHA-256 of the columns and the document of a state, in hexadecimal. It is the same on any machine."""
    sha = hashlib.sha256(json.dumps(document, sort_keys=True, default=_plain).encode())
    for name, values in columns.items():
        for vector in values if values.dtype == object else [values]:
            if vector is not None:
                little = vector.astype(vector.dtype.newbyteorder("<"))
                sha.update(f"{name} {little.dtype.str} {little.shape}".encode() + little.tobytes())
    return sha.hexdigest()


def _plain(value: Any) -> Any:
    """NumPy's arrays and scalars as JSON's lists and numbers."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a value of type {type(value).__name__} cannot be saved: {value!r}")


FORMAT_VERSION = 4
"""The newest version that is read. A file is written in the oldest version that can hold it."""

_OLDEST_VERSION = 1

SENSELESS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of using values of a file that are whole and make no sense."""

Metadata = Mapping[str, Any]
TableColumns = Mapping[str, NDArray[Any]]

_KEY = b"streamgda"

_CHECKSUM = "checksum"


def is_saved(schema: Any) -> bool:
    """Whether a file with this Arrow schema was saved by this library."""
    return _KEY in (schema.metadata or {})


def encode(metadata: Metadata) -> dict[bytes, bytes]:
    """Plain values as the metadata of a Parquet file, in the oldest version unless they name another."""
    document = {"format_version": _OLDEST_VERSION, **metadata}
    return {_KEY: to_json({**document, _CHECKSUM: digest(json.loads(to_json(document)))}).encode()}


def decode(metadata: Mapping[bytes, bytes] | None, path: str) -> dict[str, Any]:
    """The document in the metadata of a Parquet file; `path` is its name in errors.

    Raises
    ------
    ValueError
        If there is none, or it is damaged or of a newer format.
    """
    content = (metadata or {}).get(_KEY)
    if content is None:
        raise ValueError(
            f"{path} is a Parquet file of something else: its metadata has no key {_KEY.decode()!r}"
        )
    try:
        document: dict[str, Any] = json.loads(content)
        is_whole = document.pop(_CHECKSUM, None) in (None, digest(document))
        version = document.get("format_version")
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: its metadata is not a JSON object ({error})") from error
    if type(version) is not int or version < 1:
        raise ValueError(f"{path} is damaged: its metadata has no format_version")
    if version > FORMAT_VERSION:
        raise ValueError(
            f"{path} has format {version}, and this version of streamgda reads up to format "
            f"{FORMAT_VERSION}: upgrade streamgda"
        )
    if not is_whole:
        raise ValueError(f"{path} is damaged: its metadata differs from its checksum")
    return document
