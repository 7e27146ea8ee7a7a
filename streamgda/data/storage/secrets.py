"""Filesystems whose paths, answers and errors show nothing of the secrets in a URL.

fsspec names a file on a web server by its whole URL, with the user, the password and the options, such as the
signature of a presigned URL. Here such a file is named by its URL without them, and only the filesystem knows
them, as the filesystem of an object store knows its keys.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import wraps
from inspect import iscoroutine
from itertools import chain, count
from typing import Any, Self, TypeVar
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from streamgda.data.storage.paths import links, parts, shown, without_options

T = TypeVar("T")

_LEAST = 4  # letters of a secret; shorter ones, as in ?page=2, are too common to be replaced in a text

_SECRET = re.compile(
    "headers|auth|cookies|.*token|pass(word|wd|phrase)?|.*secret.*|.*(api|account|private)_?key|.*credentials?"
    "|.*connection_string|sas.*",
    re.IGNORECASE,
)
"""The names of options of fsspec's filesystems whose values are secret."""

_SIGNING = {"s3", "gs", "abfs"}  # protocols whose clients send signatures, and never show the key

_WILDCARD = re.compile(r"[*[]")


def secrets_of(url: str) -> frozenset[str]:
    """The users, passwords, values of options and fragments of a URL, or of the URLs of a chain.

    Each is there as it is, and as libraries may write it.

    Examples
    --------
    >>> secrets = secrets_of("https://me:hush!@host/1.parquet?key=a%2Fbc")
    >>> secrets.issuperset({"hush!", "hush%21", "a%2Fbc", "a/bc"})
    True
    """
    texts: set[str] = set()
    for _, user, options in map(parts, links(url)):
        pairs = re.split("[&;#]", options[1:])
        values = (pair.partition("=")[2] for pair in pairs)
        texts |= {user, *user.split(":", 1), options[1:], *pairs, *values}
        texts.add(b64encode(unquote(user).encode()).decode())
    plain = texts.union(*((unquote(text), unquote_plus(text)) for text in texts))
    encoded = ((quote(text), quote(text, safe=""), quote_plus(text)) for text in plain)
    return frozenset(text for text in plain.union(*encoded) if len(text) >= _LEAST)


def hidden(text: str, secrets: Iterable[str]) -> str:
    """A text without URLs' users and options, and with "***" for each secret that is left."""
    text = without_options(text)
    longest_first = sorted(secrets, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest_first))
    return re.sub(pattern, "***", text, flags=re.IGNORECASE) if pattern else text


def _clean(error: Exception, urls: Iterable[str]) -> Exception:
    """An error, if neither it nor its causes show a secret of some URLs; else one of its kind without."""
    secrets = frozenset[str]().union(*map(secrets_of, urls))
    texts = [f"{one}\n{one!r}\n{getattr(one, 'filename', '')}" for one in chain_of(error)]
    if all(hidden(text, secrets) == text for text in texts):
        return error
    kinds = [kind for kind in type(error).__mro__ if kind.__module__ == "builtins"]
    kind = next((kind for kind in kinds if issubclass(kind, OSError)), kinds[0])
    if kind in {Exception, OSError}:
        kind = ConnectionError
    message = hidden(str(error), secrets)
    if type(error) not in {kind, Exception}:
        message = f"{type(error).__name__}: {message}"
    try:
        clean: Exception = kind(message)
    except TypeError:  # such as UnicodeDecodeError, which is made of five parts
        clean = ValueError(message)
    if isinstance(error, OSError) and isinstance(clean, OSError):
        clean.errno = error.errno
    return clean.with_traceback(error.__traceback__)


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """An error, and those that led to it."""
    waiting: list[BaseException | None] = [error]
    ids: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in ids:
            ids.add(id(one))
            yield one
            waiting += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]


def concealing(urls: Iterable[str], call: Callable[[], T]) -> T:
    """Call a function; its errors show nothing of what is secret in some URLs."""
    try:
        return call()
    except Exception as error:  # of any library
        clean = _clean(error, urls)
        if clean is error:
            raise
    raise clean  # not in the handler, or the error with secrets would be its context


class Concealed:
    """An fsspec filesystem, or an open file of one, that takes and returns URLs without secrets.

    Parameters
    ----------
    behind : fsspec filesystem or file
        What answers.
    urls : mapping of str to str
        The whole URLs of files and folders, by those without secrets. The user and the options of a folder
        hold for all that is in it, and the user for the server.
    secret_urls : collection of str
        URLs of which no error shows the secrets.
    """

    def __init__(self, behind: Any, urls: Mapping[str, str], secret_urls: Iterable[str]) -> None:
        self.behind, self.urls, self.secret_urls = behind, dict(urls), frozenset(secret_urls)
        self._names = {url: name for name, url in self.urls.items()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Concealed) and (self.behind, self.urls) == (other.behind, other.urls)

    def __hash__(self) -> int:
        return hash(self.behind)

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        return type(self), (self.behind, self.urls, self.secret_urls)

    def __repr__(self) -> str:
        return f"<{type(self.behind).__name__} of {', '.join(sorted(self.urls))}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in {"behind", "urls", "secret_urls"}:  # also when it is unpickled
            raise AttributeError(name)
        value = getattr(self.behind, name)
        return self._calling(value) if callable(value) else self._answer(value)

    def _calling(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A method that takes and returns URLs without secrets, also in its errors."""

        @wraps(method)
        def call(*values: Any, **options: Any) -> Any:
            values, options = (_converted(asked, self._whole) for asked in (values, options))
            answer = concealing(self.secret_urls, lambda: method(*values, **options))
            return self._awaited(answer) if iscoroutine(answer) else self._answer(answer)

        return call

    async def _awaited(self, answer: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self._answer(await answer)
        except Exception as error:  # as in `concealing`
            clean = _clean(error, self.secret_urls)
            if clean is error:
                raise
        raise clean

    def _answer(self, value: Any) -> Any:
        if hasattr(value, "read") and not isinstance(value, bytes):
            return Concealed(value, self.urls, self.secret_urls)
        return _converted(value, self._public)

    def _public(self, url: str) -> str:
        """The name of a URL."""
        if url in self._names or shown(url) == url:
            return self._names.get(url, url)
        # fsspec lists a file behind the options of its folder: "https://host/folder?key=5fa2/1.parquet".
        for folder, name in self._names.items():
            if url.startswith(f"{folder}/"):
                return f"{name.rstrip('/')}{url.removeprefix(folder)}"
        return shown(url)

    def _whole(self, name: str) -> str:
        """The URL with which a name is asked for."""
        if name in self.urls or "://" not in name:
            return self.urls.get(name, name)
        for folder, url in sorted(self.urls.items(), key=lambda pair: len(pair[0]), reverse=True):
            if name.startswith(f"{folder.rstrip('/')}/"):
                return _inside(name, url)
        near = [url for other, url in self.urls.items() if _server(other) == _server(name)]
        return _inside(name, near[0].partition("?")[0].partition("#")[0]) if near else name


def _converted(value: Any, convert: Callable[[str], str]) -> Any:
    """A value in which each text that is a URL is converted."""
    if isinstance(value, str):
        return convert(value) if "://" in value else value
    if isinstance(value, dict):
        return {_converted(key, convert): _converted(part, convert) for key, part in value.items()}
    if type(value) in {list, tuple, set}:
        return type(value)(_converted(part, convert) for part in value)
    return value


def concealed(filesystem: Any, names: Iterable[str], urls: Iterable[str]) -> tuple[Any, list[str]]:
    """A filesystem whose files have names without secrets, and these names.

    If names differ in nothing but what is left out, the later ones get numbers: "https://host/get~2".

    Parameters
    ----------
    filesystem : fsspec filesystem
        The filesystem of the names. It is returned as it is if there are no secrets.
    names : iterable of str
        Paths on it.
    urls : iterable of str
        What the user gave: paths and URLs.
    """
    whole, secret_urls = list(names), {url for url in urls if shown(url) != url}
    protocols = filesystem.protocol
    if _SIGNING.isdisjoint([protocols] if isinstance(protocols, str) else protocols):
        secret_urls.update(_urls_of_options(getattr(filesystem, "storage_options", {})))
    if not secret_urls:
        return filesystem, whole
    public: dict[str, str] = {}
    by_name: dict[str, str] = {}
    for name in dict.fromkeys(whole):
        plain = shown(name)
        candidates = chain([plain], (f"{plain}~{number}" for number in count(2)))
        public[name] = next(other for other in candidates if other not in by_name)
        by_name[public[name]] = name
        if wildcard := _WILDCARD.search(plain):  # for the files that match
            folder = plain[: wildcard.start()].rpartition("/")[0]
            by_name.setdefault(folder, _inside(folder, name))
    return Concealed(filesystem, by_name, secret_urls), [public[name] for name in whole]


def _urls_of_options(options: Any, *, is_secret: bool = False) -> Iterator[str]:
    """URLs with what is secret in the options of a filesystem, since errors of its client may repeat it."""
    if isinstance(options, Mapping):
        for name, value in options.items():
            secret = is_secret or _SECRET.fullmatch(str(name)) is not None
            yield from _urls_of_options(value, is_secret=secret)
    elif is_secret and isinstance(options, tuple):
        yield f"https://{':'.join(quote(str(text), safe='') for text in options[:2])}@"
    elif is_secret and isinstance(options, str):  # such as "Bearer 5fa2"
        yield f"https://?{quote(options, safe='')}&{quote(options.partition(' ')[2], safe='')}"


def _inside(name: str, url: str) -> str:
    """The URL of a name on the server of another URL, with the user and the options of that URL."""
    _, user, options = parts(url)
    scheme, _, rest = name.partition("://")
    return f"{scheme}://{user}{'@' if user else ''}{rest}{options}"


def _server(url: str) -> str:
    return "/".join(url.split("/", 3)[:3])
