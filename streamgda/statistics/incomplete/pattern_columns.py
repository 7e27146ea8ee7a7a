"""A state of incomplete rows as columns of a table: those of its patterns, one below the other.

Vectors of one pattern have an entry for each of its observed features, so a column of vectors is an array of
objects, one vector for each row, or None.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.wording import counted
from streamgda.statistics.incomplete.patterns import Pattern, observed_in, pattern_of
from streamgda.statistics.validation import Columns, check_columns

Part = tuple[Columns, Mapping[str, Any]]

_OF_PATTERN = ("positions", "definite")  # metadata that describes the columns of one pattern


def to_columns(
    parts: Mapping[Pattern, Part], n_features: int
) -> tuple[dict[str, NDArray[Any]], list[dict[str, Any]]]:
    """The columns of all patterns, and the metadata of each pattern."""
    names = dict.fromkeys(name for columns, _ in parts.values() for name in columns)
    together = {name: _joined([columns for columns, _ in parts.values()], name) for name in names}
    lengths = [len(columns["label"]) for columns, _ in parts.values()]
    together["pattern"] = np.repeat(np.arange(len(parts)), lengths)
    described = [
        {
            "observed": "".join(map(str, observed_in(pattern, n_features).astype(int))),
            **{name: metadata[name] for name in _OF_PATTERN if name in metadata},
        }
        for pattern, (_, metadata) in parts.items()
    ]
    return together, described


def from_columns(columns: Columns, described: Any, n_features: int) -> Iterator[tuple[Pattern, Part]]:
    """The columns and metadata of each pattern.

    Raises
    ------
    ValueError
        If a pattern does not have `n_features` features, stands twice, or has no rows.
    """
    check_columns(["label", "pattern"], columns)
    if not isinstance(described, list) or not all(isinstance(entry, dict) for entry in described):
        raise ValueError("its metadata describes no patterns")
    numbers = columns["pattern"]
    if numbers.dtype.kind not in "iu" or not np.array_equal(np.unique(numbers), np.arange(len(described))):
        raise ValueError("its rows are not of the patterns that its metadata describes")
    known: set[Pattern] = set()
    for number, entry in enumerate(described):
        pattern = pattern_of(_mask(entry.get("observed"), n_features))
        if pattern in known:
            raise ValueError(f"the pattern {entry['observed']} stands twice")
        known.add(pattern)
        rows = np.flatnonzero(numbers == number)
        part = {name: _matrix(values[rows], name) for name, values in columns.items() if name != "pattern"}
        yield pattern, (part, {name: value for name, value in entry.items() if name in _OF_PATTERN})


def _joined(parts: list[Columns], name: str) -> NDArray[Any]:
    """The column of this name of all parts, with zeros or None for parts that do not have it."""
    if all(part[name].ndim == 1 for part in parts if name in part):
        return np.concatenate([part.get(name, np.zeros(len(part["label"]))) for part in parts])
    together = [np.full(len(part["label"]), None, dtype=object) for part in parts]
    for part, vectors in zip(parts, together, strict=True):
        for row, vector in enumerate(part.get(name, ())):
            vectors[row] = vector
    return np.concatenate(together)


def _matrix(values: NDArray[Any], name: str) -> NDArray[Any]:
    """The vectors of one pattern, all of the same length. None marks a row without a vector."""
    if values.dtype != object or name == "label":
        return values
    return np.array([vector for vector in values if vector is not None])


def _mask(observed: Any, n_features: int) -> NDArray[np.bool_]:
    if not isinstance(observed, str) or len(observed) != n_features or not set(observed) <= {"0", "1"}:
        raise ValueError(f"{observed!r} is no pattern of {counted(n_features, 'feature')}")
    return np.array([character == "1" for character in observed], np.bool_)
