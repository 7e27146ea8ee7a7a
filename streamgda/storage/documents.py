"""The JSON document in the metadata of a saved file, with its checksum."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from streamgda.storage.digests import digest, to_json

FORMAT_VERSION = 3
"""The newest version that is read. What an older one can hold is written in it, so that it is widely read."""

_OLDEST_VERSION = 1

Metadata = Mapping[str, Any]

_KEY = b"streamgda"

_CHECKSUM = "checksum"


def encode(metadata: Metadata) -> dict[bytes, bytes]:
    """Plain values as the metadata of a Parquet file; of the oldest version, unless they name another."""
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
        document = json.loads(content)
        is_whole = _has_its_checksum(document)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: its metadata is not JSON ({error})") from error
    _check_version(document, path)
    if not is_whole:
        raise ValueError(f"{path} is damaged: its metadata differs from its checksum")
    return dict(document)


def _has_its_checksum(document: Any) -> bool:
    """Whether the other values have the checksum that is given, if one is."""
    if not isinstance(document, dict) or _CHECKSUM not in document:
        return True
    found = document.pop(_CHECKSUM)
    return bool(found == digest(document))


def _check_version(document: Any, path: str) -> None:
    version = document.get("format_version") if isinstance(document, dict) else None
    if type(version) is not int or version < 1:
        raise ValueError(f"{path} is damaged: its metadata has no format_version")
    if version > FORMAT_VERSION:
        raise ValueError(
            f"{path} has format {version}, and this version of streamgda reads up to format "
            f"{FORMAT_VERSION}: upgrade streamgda"
        )
