"""Plain values as JSON, and as hashes that are equal for equal values, on any machine.

Plain values are what JSON holds, and NumPy's scalars and arrays. The hashes are in saved ledgers and in the
names of their files, so they may never change.
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

    A value of another type, such as a date, counts as the text that it is printed as.

    Examples
    --------
    >>> digest({"a": 1, "b": [2, 3]}, 4) == digest({"b": (2, 3), "a": np.int64(1)}, 4)
    True
    """
    document = json.dumps(values, sort_keys=True, default=_plain_or_text)
    return hashlib.blake2b(document.encode(), digest_size=size).hexdigest()


def table_digest(columns: Mapping[str, NDArray[Any]], document: Mapping[str, Any]) -> str:
    """SHA-256 of the columns of a state and of its document, in hexadecimal: the same on any machine."""
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


def _plain_or_text(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
