"""Paths as users pass them, and paths and errors as messages show them."""

from __future__ import annotations

import os
import re
from os import PathLike
from typing import Any, TypeAlias

AnyFileSystem: TypeAlias = Any
"""One of pyarrow or of fsspec, which have no types."""

Path = str | PathLike[str]


_PASSWORD = re.compile(r"(?<=://)[^[/?#@:\s]*:(?!\d*(?:[/?#\s]|$))(?:[^/?#\s]*@|[^@\s]*@)")  # not host:port

_USER = re.compile(r"(?<=://)(?<!abfs://)(?<!abfss://)(?<!wasb://)(?<!wasbs://)(?<!az://)[^/?#@\s]*@")
"""A user without a password, who may be a token. Before Azure's hosts stands the container."""

_CHAIN = re.compile(r"::(?=[\w.+-]+:[:/])")  # not within an address of IPv6

_OPTIONS = re.compile(
    r"(\bhttps?://[^\s?#]*)[?#]\S*?([^\w=%&+/-]*)(?=\s|$)|"
    r"(://\S*?)\?[^/?\s]*=\S*?(\W*)(?=\s|$)"  # not a wildcard
)


def one_line(error: BaseException | str) -> str:
    """The message of an error, or a text, without line breaks, and without what may be secret in its URLs."""
    return without_options(" ".join(str(error).split()))


def parts(url: str) -> tuple[str, str, str]:
    """A URL without its user and options; the user, who may be a token; and the options."""
    user = _PASSWORD.search(url) or _USER.search(url)
    plain = url if user is None else url[: user.start()] + url[user.end() :]
    is_web = re.search(r"\bhttps?://", plain)
    options = re.search(r"[?#].*" if is_web else r"(?<=[^/])\?[^/?\s]*=.*", plain, re.DOTALL)
    place = plain if options is None or "://" not in plain else plain[: options.start()]
    return place, user[0][:-1] if user else "", plain.removeprefix(place)


def links(url: str) -> list[str]:
    """The URLs of a chain, such as "simplecache::https://host/1.parquet"."""
    return _CHAIN.split(url)


def shown(path: str | os.PathLike[str]) -> str:
    """A path as messages show it. URLs lose what may be secret: the user, the password and the options.

    Parameters
    ----------
    path : str or path
        A path, a URL or a chain of URLs.

    Examples
    --------
    >>> shown("s3://key:secret@bucket/2026/part-?.parquet?region=eu-west-1")
    's3://bucket/2026/part-?.parquet'
    >>> shown("https://token@host/1.parquet?X-Amz-Signature=5fa2#part")
    'https://host/1.parquet'
    """
    path = os.fspath(path)
    return "::".join(parts(link)[0] for link in links(path)) if "://" in path else path


def without_options(text: str) -> str:
    """A text in which URLs lose what may be secret.

    Examples
    --------
    >>> without_options("403 Forbidden (https://token@host/1.parquet?X-Amz-Signature=5fa2): no access")
    '403 Forbidden (https://host/1.parquet): no access'
    """
    text = _USER.sub("", _PASSWORD.sub("", text))
    return _OPTIONS.sub(lambda match: "".join(part or "" for part in match.groups()), text)


class Address(PathLike[str]):
    """A path or URL as the user gave it. As a text it is what `shown` returns; only `os.fspath` tells it all.

    Examples
    --------
    >>> place = Address("https://token@host/1.parquet?X-Amz-Signature=5fa2")
    >>> f"{place} is gone"
    'https://host/1.parquet is gone'
    """

    def __init__(self, path: Path) -> None:
        self._path = os.fspath(path)

    def __fspath__(self) -> str:
        return self._path

    def __str__(self) -> str:
        return shown(self._path)

    def __repr__(self) -> str:
        return repr(str(self))
