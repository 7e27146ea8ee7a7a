"""Names of columns: those that a user gives, which may be patterns, and those that look like identifiers."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase

import pyarrow as pa

from streamgda.data.blocks.schema import column_of
from streamgda.data.blocks.wording import callers_level, check_known, listed


def check_named(
    target: str | None, weight: str | None, features: Sequence[str] | None, schema: pa.Schema, origin: str
) -> None:
    """Raise ValueError if a file lacks a column that the user has named."""
    there = set(schema.names)
    for name in (target, weight, *(features or ())):
        if isinstance(name, str) and not ({name, column_of(name)} & there or _is_pattern(name)):
            check_known([name], there, origin)


def chosen(
    patterns: Sequence[str], known: Collection[str], candidates: Sequence[str], origin: str
) -> list[str]:
    """The features, with the candidates that match a pattern, and are not named, in place of it."""
    names, so_far = set(known), set(patterns)
    features: list[str] = []
    for part in patterns:
        if part in names or not _is_pattern(part):
            features.append(part)
            continue
        found = [name for name in candidates if fnmatchcase(str(name), part)]
        if not found:
            check_known([part], known, origin)
        features += [name for name in found if name not in so_far]
        so_far.update(found)
    return features


def matching(patterns: Iterable[str], names: Collection[str], origin: str) -> set[str]:
    """The columns with these names, or names that match these patterns."""
    columns: set[str] = set()
    for pattern in patterns:
        if pattern not in names and _is_pattern(pattern):
            columns.update(name for name in names if fnmatchcase(str(name), pattern))
        else:
            check_known([pattern], names, origin)
            columns.add(pattern)
    return columns


def _is_pattern(name: str) -> bool:
    return re.search(r"[*?[]", str(name)) is not None


_IDENTIFIER = re.compile(
    r"(.*[_. -])?(id|uuid|guid)|\w*[a-z]I[dD]|index|row_?(id|index|number)|__index_level_\d+__|(Unnamed: 0)?",
    re.ASCII,
)


def is_identifier(name: str) -> bool:
    """Whether a column is named like an identifier: id, user_id, userId, uuid, index, or not at all."""
    return bool(_IDENTIFIER.fullmatch(name) or _IDENTIFIER.fullmatch(name.lower()))


def warn_of_identifiers(features: Sequence[str], schema: pa.Schema, origin: str) -> None:
    """Warn if columns of integers that are named like identifiers are features by default."""
    integers = {field.name for field in schema if pa.types.is_integer(field.type)}
    ids = [name for name in features if name in integers and is_identifier(name)]
    if ids:
        warnings.warn(
            (
                f"{origin}: by default all columns are features, also {listed(ids, 5)}. A column of such a "
                f"name mostly identifies rows or groups. Set exclude={ids}, or name the features to use"
            ),
            stacklevel=callers_level(),
        )
