"""The filesystem that a path or URL is on, pyarrow's or fsspec's, and its files.

Different paths may lead to one place: relative and absolute ones, links, and those of different libraries.

A file is written wholly or not at all: first under a temporary name, and renamed when it is complete. The
temporary file is in the same folder. Its name is hidden and ends in ``.unfinished``. Only a crash leaves such
a file behind. `finished_name` returns the name that it was to get, so that the next run can recognise and
delete it.
"""

from __future__ import annotations

import os
import pathlib
import re
import stat
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from operator import attrgetter
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from streamgda.data.storage.paths import AnyFileSystem, Path, one_line, shown
from streamgda.data.storage.retries import StorageError, retried, storing
from streamgda.data.storage.secrets import Concealed, concealed, concealing
from streamgda.data.storage.threads import wait_for
from streamgda.data.storage.versions import Version, version_of_headers, version_of_info, version_of_status

T = TypeVar("T")

_SUFFIX = ".unfinished"

_UNFINISHED = re.compile(rf"\.?(?P<finished>.+)\.[0-9a-f]{{32}}{re.escape(_SUFFIX)}")


_PROTOCOLS = {"local": "file", "s3a": "s3", "gs": "gcs", "abfss": "abfs", "az": "abfs", "arrow_hdfs": "hdfs"}

_OBJECT_STORES = {"s3", "gcs", "abfs", "oci", "oss", "memory"}

_FEWEST_TO_LIST = 8  # files in one folder, which may hold many others

_SECOND = 1_000_000_000  # nanoseconds

LOCK = ".lock"


class Storage:
    """A filesystem, and what follows from which one it is.

    Attributes
    ----------
    filesystem : pyarrow.fs.FileSystem
        Pyarrow's, or the wrapper of one of fsspec's.
    fsspec : fsspec filesystem or None
        The one that is wrapped, if it is one of fsspec's.
    kind : str
        Such as "file" or "s3": the same for all libraries and protocols.
    is_local : bool
        Whether it is that of this machine, whose files can be renamed, flushed and locked.
    is_object_store : bool
        Whether a file there appears only once it is complete.
    beneath, root : Storage, str
        The storage beneath views of folders and wrappers of fsspec, and what its paths begin with.
    """

    def __init__(self, filesystem: pafs.FileSystem) -> None:
        handler = getattr(filesystem, "handler", None)
        self.filesystem = filesystem
        self.fsspec: Any = handler.fs if isinstance(handler, pafs.FSSpecHandler) else None
        protocols = filesystem.type_name if self.fsspec is None else self.fsspec.protocol
        name = protocols if isinstance(protocols, str) else min(protocols)
        self.kind = _PROTOCOLS.get(name, name)
        self.is_local = self.kind == "file"
        self.is_object_store = self.kind in _OBJECT_STORES
        inner, root = self._inner()
        self.beneath, self.root = (self, "") if inner is None else Storage(inner).unwrapped(root)
        self._is_s3 = self.beneath.filesystem.type_name == "s3"

    @property
    def identity(self) -> list[str]:
        """What it holds, whatever the library that reaches it."""
        return [self.beneath.kind, self.root]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Storage) and bool(self.filesystem == other.filesystem)

    def __reduce__(self) -> tuple[type[Storage], tuple[pafs.FileSystem]]:
        return Storage, (self.filesystem,)

    def _inner(self) -> tuple[pafs.FileSystem | None, str]:
        """The filesystem that this one is a view or a wrapper of, and the folder that it is a view of."""
        if isinstance(self.filesystem, pafs.SubTreeFileSystem):
            return self.filesystem.base_fs, self.filesystem.base_path
        if self.fsspec is None:
            return None, ""
        from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
        from fsspec.implementations.dirfs import DirFileSystem
        from fsspec.implementations.local import LocalFileSystem

        if type(self.fsspec) is LocalFileSystem:  # which may make a folder again that was removed
            return pafs.LocalFileSystem(), ""
        if isinstance(self.fsspec, DirFileSystem):
            return _wrapped(self.fsspec.fs), f"{self.fsspec.path}/" if self.fsspec.path else ""
        if isinstance(self.fsspec, AsyncFileSystemWrapper):
            return _wrapped(self.fsspec.sync_fs), ""
        return None, ""

    def unwrapped(self, path: str) -> tuple[Storage, str]:
        """The storage beneath this one, and the path on it."""
        return self.beneath, f"{self.root}{path}"

    def place(self, path: str) -> Place:
        """The place of a path. No file need be there."""
        beneath, path = self.unwrapped(path)
        return Place(beneath.kind, os.path.realpath(path) if beneath.is_local else path.strip("/"))

    def forget_listings(self, path: str | None = None) -> Any:
        """Forget earlier listings of fsspec, and return its filesystem; None if this is one of pyarrow's."""
        if self.fsspec is not None:
            self.fsspec.invalidate_cache(path)
        return self.fsspec

    @storing()
    def listing(self, folder: str) -> dict[str, Version]:
        """The files in a folder, at any depth, with their present versions. A missing folder has no files.

        On a local disk, symbolic links are followed, and a file to which several paths lead is listed once.
        """
        if (place := self.local_path(folder)) is not None:
            return {moved(path, place, folder): version for path, version in walk_files(place)}
        if (behind := self.forget_listings()) is None:
            selector = pafs.FileSelector(folder, recursive=True, allow_not_found=True)
            infos = self.filesystem.get_file_info(selector)
            return {info.path: self._version_of(info) for info in infos if info.is_file}
        return {name: version_of_info(info) for name, info in behind.find(folder, detail=True).items()}

    @storing()
    def walk(self, folder: str, depth: int) -> dict[str, Version | None]:
        """What lies in a remote folder, down to a depth: the versions of files, and None for folders."""
        if (behind := self.forget_listings()) is not None:
            infos = behind.find(folder, maxdepth=depth, withdirs=True, detail=True)
            return {
                name: version_of_info(info) if info["type"] == "file" else None
                for name, info in infos.items()
            }
        versions: dict[str, Version | None] = {}
        folders = [folder]
        for _ in range(depth):
            selectors = [pafs.FileSelector(name, allow_not_found=True) for name in folders]
            inside = [*chain.from_iterable(map(self.filesystem.get_file_info, selectors))]
            folders = [info.path for info in inside if info.type == pafs.FileType.Directory]
            versions |= dict.fromkeys(folders)
            versions |= {info.path: self._version_of(info) for info in inside if info.is_file}
        return versions

    def listed_together(self, paths: Iterable[str]) -> dict[str, Version]:
        """The versions of those remote files that lie in a folder with many others; that folder is listed."""
        folders: dict[str, set[str]] = {}
        # Elsewhere, what a listing says of a file may differ from what is said of it alone.
        for path in paths if self.is_object_store else ():
            folders.setdefault(path.rpartition("/")[0], set()).add(path)
        return {
            path: version
            for folder, inside in folders.items()
            if len(inside) >= _FEWEST_TO_LIST
            for path, version in self.walk(folder, 1).items()
            if version is not None and path in inside
        }

    @storing()
    def children(self, folder: str) -> list[str]:
        """The names of the files and folders directly in a folder. A missing folder has none."""
        if (place := self.local_path(folder)) is not None:  # Arrow fails if the folder is made meanwhile
            return list(map(attrgetter("name"), _entries(place)))
        self.forget_listings()
        selector = pafs.FileSelector(folder, allow_not_found=True)
        return [info.base_name for info in self.filesystem.get_file_info(selector) if info.base_name]

    @storing()
    def version(self, name: str) -> Version:
        """The present version of a file.

        Raises
        ------
        FileNotFoundError
            If it is no longer there.
        """
        try:
            if (place := self.local_path(name)) is not None:
                return version_of_status(pathlib.Path(place).stat())
            if (behind := self.forget_listings(name)) is not None:
                return version_of_info(behind.info(name))
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{name} is gone, or what it links to") from error
        info = self.filesystem.get_file_info(name)
        if info.type == pafs.FileType.NotFound:
            raise FileNotFoundError(f"{name} is gone")
        return self._version_of(info)

    def _version_of(self, info: pafs.FileInfo) -> Version:
        """The version by pyarrow. S3 may list times in milliseconds, but gives seconds for one file."""
        return Version(info.size, info.mtime_ns // _SECOND * _SECOND if self._is_s3 else info.mtime_ns)

    @storing()
    def open(self, name: str) -> tuple[pa.NativeFile, Version]:
        """Open a file, and return it with its version. On S3, a single request gives both."""
        version = None if self._is_s3 else self.version(name)
        file = self.filesystem.open_input_file(name)
        if version is None:
            version = version_of_headers(file.metadata() or {}) or self.version(name)
        return file, version

    def check_unchanged(self, name: str, planned: Version) -> None:
        """Raise ValueError if a file is no longer in the version for which a pass was planned."""
        if self.version(name) != planned:
            raise ValueError(f"{name} has changed since the pass was planned; start the pass again")

    def local_path(self, path: str) -> str | None:
        """A path on a local filesystem as a path of this machine, with its links; None if it is not local."""
        return f"{self.root}{path}" if self.beneath.is_local else None

    @contextmanager
    def replacing(
        self, path: str, *, in_memory: bool = False, run: str | None = None
    ) -> Iterator[pa.NativeFile]:
        """Open a new file for writing. It replaces the file at `path` when the block ends without an error.

        A local file is flushed to the disk before it is renamed, so that a loss of power cannot leave a torn
        one. It gets the permissions of the file that it replaces. If `path` is a link, it stays one.

        Parameters
        ----------
        path : str
            The path of the file on that filesystem. A file that is there stays until the block ends.
        in_memory : bool, default=False
            Whether the content is small enough to be collected in memory. On an object store it is then
            written by one request, without a temporary file, since an object there appears only when it is
            complete.
        run : str, optional
            What `begin_run` has made. Once `end_run` has taken it away, the file cannot get its name any
            more.

        Yields
        ------
        pyarrow.NativeFile
            A stream of bytes. It is closed when the block ends.

        Raises
        ------
        OSError
            If it cannot be written. FileNotFoundError if `run` is not there any more.
        """
        beneath, path = self.unwrapped(path)
        filesystem = beneath.filesystem

        if in_memory and beneath.is_object_store:
            buffer = pa.BufferOutputStream()
            yield buffer
            beneath._check_run(run)
            with storing(path), filesystem.open_output_stream(path, compression=None) as stream:
                stream.write(buffer.getvalue())
            return
        if near := beneath.is_local:
            path = os.path.realpath(path)  # a link stays, and what it leads to is replaced
        temporary = beneath._unfinished(path, run)
        try:
            with storing(path):
                stream = filesystem.open_output_stream(temporary, compression=None)
            if near:
                with suppress(FileNotFoundError, PermissionError):
                    pathlib.Path(temporary).chmod(stat.S_IMODE(pathlib.Path(path).stat().st_mode))
            try:
                yield stream
            finally:
                with storing(path):
                    stream.close()
            beneath._check_run(run)
            with storing(path):
                if near:
                    with pathlib.Path(temporary).open("rb+") as file:
                        os.fsync(file.fileno())
                    pathlib.Path(temporary).replace(path)
                else:
                    filesystem.move(temporary, path)
        except BaseException:
            with suppress(OSError):
                filesystem.delete_file(temporary)
            raise

    def begin_run(self, run: str) -> None:
        """Make what shows that a run goes on: on a disk a folder, in which its files are written; or a file.

        Threads and tasks may outlive a run that fails. On a disk, they can write no file after `end_run`.
        Elsewhere they look for the file before they put another, so only a put that had begun still arrives.
        """
        if self.is_local:
            self.filesystem.create_dir(run, recursive=True)
        else:
            self.filesystem.open_output_stream(run, compression=None).close()

    def end_run(self, run: str) -> None:
        """Let nothing of a run be written any more."""
        with suppress(OSError):
            if self.is_local:
                self.filesystem.move(run, f"{run}-ended")  # while files are made in it, it cannot be deleted
                self.filesystem.delete_dir(f"{run}-ended")
            else:
                self.filesystem.delete_file(run)

    def _unfinished(self, path: str, run: str | None) -> str:
        """Where a file is written until it is complete."""
        folder, slash, name = path.rpartition("/")
        start = f"{folder}{slash}.{name}." if run is None else f"{run}/" if self.is_local else f"{run}."
        return f"{start}{uuid.uuid4().hex}{_SUFFIX}"

    def _check_run(self, run: str | None) -> None:
        """Raise FileNotFoundError if a run is over. On a disk, the file could not be renamed then."""
        if run is not None and not self.is_local:
            self.version(run)

    @contextmanager
    def locked(self, folder: str, busy: str, name: str = LOCK) -> Iterator[None]:
        """Hold the lock of an existing folder, if its filesystem is local; other filesystems have no locks.

        An empty file in the folder is locked. The file stays there afterwards, unlocked.

        Parameters
        ----------
        folder : str
            Its path on that filesystem.
        busy : str
            What the error says if another process holds the lock.
        name : str, default=".lock"
            The name of the lock file; an existing file of this name is emptied.

        Raises
        ------
        RuntimeError
            If another process, or another thread of this one, holds the lock.
        """
        from filelock import FileLock, Timeout

        if (folder_here := self.local_path(folder)) is None:
            yield
            return
        try:
            lock = FileLock(f"{folder_here}/{name}").acquire(timeout=0)
        except Timeout as error:
            raise RuntimeError(busy) from error
        with lock:
            yield


def walk_files(folder: str) -> Iterator[tuple[str, Version]]:
    """Yield each file in a folder, at any depth, once: its path, with "/" in it, and its version.

    If several paths lead to a file or folder, its path is the one without a link, if that lies in the folder.
    A link to nothing is listed as a file, which cannot be read. A missing folder has no files.
    """
    real_paths: set[str] = set()
    folders, links = deque([folder]), deque[str]()
    while folders or links:
        path = folders.popleft() if folders else links.popleft()
        real = os.path.realpath(path)
        if real in real_paths:
            continue
        real_paths.add(real)
        files = [(path, real)] if pathlib.Path(real).is_file() else []
        for entry in _entries(real):
            inside = f"{path.rstrip('/')}/{entry.name}"
            if entry.is_symlink() and pathlib.Path(entry.path).exists():
                links.append(inside)
            elif entry.is_dir():
                folders.append(inside)
            elif entry.is_file() or entry.is_symlink():
                real_paths.add(entry.path)
                files.append((inside, entry.path))
        for name, place in files:
            with suppress(FileNotFoundError):  # gone since its folder was listed
                yield name, version_of_status(os.lstat(place))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """The files and folders directly in a folder, sorted by name; none if it is not a folder."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        return sorted(entries, key=attrgetter("name"))
    return []


def resolve(path: Path, filesystem: AnyFileSystem | Storage | None = None) -> tuple[Storage, str]:
    """The storage that a path or URL is on, and the path there, which holds no secrets.

    Parameters
    ----------
    path : str or path
        A local path, a URL, or a path on `filesystem`.
    filesystem : pyarrow or fsspec filesystem, optional
        If None, inferred from the path.

    Raises
    ------
    ValueError
        If the URL is of no known kind.
    OSError
        If the server in the URL does not answer.
    """
    there, (name,) = resolve_all([path], filesystem)
    return there, name


def resolve_all(
    paths: Sequence[Path], filesystem: AnyFileSystem | Storage | None = None
) -> tuple[Storage, list[str]]:
    """The storage that all paths or URLs are on, and the paths on it. Errors are those of `resolve`.

    Raises
    ------
    ValueError
        If they are on several filesystems.
    """
    urls = [os.fspath(path) for path in paths]
    if isinstance(filesystem, Storage):
        return filesystem, urls
    filesystems, names = zip(*map(_resolved, urls, repeat(filesystem)), strict=True)
    if filesystems.count(filesystems[0]) < len(filesystems):
        raise ValueError("the files of a dataset must all be on one filesystem")
    return conceal(Storage(filesystems[0]), names, urls)


def conceal(storage: Storage, names: Sequence[str], urls: Iterable[str] = ()) -> tuple[Storage, list[str]]:
    """A storage whose files have names without secrets, and these names.

    `urls` has those from which the storage was made.
    """
    if storage.fsspec is None or isinstance(storage.fsspec, Concealed):
        return storage, list(names)
    beneath, names = concealed(storage.fsspec, names, {*names, *urls})
    return storage if beneath is storage.fsspec else Storage(_wrapped(beneath)), names


def _resolved(name: str, filesystem: AnyFileSystem | None) -> tuple[pafs.FileSystem, str]:
    if filesystem is None and "://" in name:
        return concealing([name], lambda: _from_url(name))
    if filesystem is None:
        local = pathlib.Path(name)
        if name.startswith("~"):  # "./~" is a file of that name, which pathlib would take for the home
            with suppress(RuntimeError):  # there is no such user, so the name of the file begins with "~"
                local = local.expanduser()
        return pafs.LocalFileSystem(), str(local.absolute())
    if isinstance(filesystem, pafs.FileSystem):
        return filesystem, name
    full = filesystem._strip_protocol(name)  # the path without the scheme of its URL, as fsspec finds it
    return _wrapped(filesystem), full


def _from_url(url: str) -> tuple[pafs.FileSystem, str]:
    """A pyarrow filesystem for the schemes that pyarrow knows, else one of fsspec."""
    try:
        is_limited = not url.startswith(("gs://", "gcs://")) or "retry_limit_seconds=" in url
        limited = url if is_limited else f"{url}{'&' if '?' in url else '?'}retry_limit_seconds={_RETRIES}"
        filesystem, path = pafs.FileSystem.from_uri(limited)
        return filesystem, path
    except pa.ArrowInvalid as error:
        if url.startswith("file://"):  # with characters that a URL would quote, such as blanks
            return _resolved(url.removeprefix("file://"), None)
        reason = one_line(error)
    place, _, _ = url.partition("?")
    if url.startswith("s3") and shown(place) != place:  # fsspec would take the key for a bucket
        raise ValueError(f"{shown(url)}: {reason}; write a / in a key as %2F")
    filesystem, name = by_fsspec(url)
    return _wrapped(filesystem), name


def by_fsspec(url: str) -> tuple[Any, str]:
    """The filesystem of fsspec that a URL is on, and the path on it. Errors show no secrets of the URL."""
    from fsspec.core import url_to_fs

    try:
        filesystem, name = concealing([url], lambda: url_to_fs(url))
    except (ValueError, ImportError) as error:
        raise ValueError(f"{shown(url)}: {one_line(error)}") from error
    except OSError as error:  # some filesystems connect to their server when they are made
        raise OSError(f"{shown(url)} cannot be reached: {one_line(error)}") from error
    return filesystem, name


_RETRIES = 60  # seconds; without a limit, pyarrow tries for 15 minutes


def _wrapped(filesystem: Any) -> pafs.FileSystem:
    return pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))


def reached(path: Path, call: Callable[[], T]) -> T:
    """Call a function that asks a storage, and call it again if the storage fails.

    Raises
    ------
    OSError
        If it fails; the error has one line and names the path. If a retry could help, a `StorageError`.
    """
    try:
        return wait_for(partial(retried, call, place=shown(path)))
    except (FileNotFoundError, MemoryError):
        raise
    except Exception as error:  # each filesystem raises its own kinds
        message = f"{shown(path)} cannot be reached: {one_line(error)}"
        if not isinstance(error, StorageError):
            raise OSError(message) from error
        error.args = (message,)
        raise


@dataclass(frozen=True)
class Place:
    """A file or folder: two paths to the same one are equal places.

    Local paths are made absolute, without ``..`` and symbolic links. On an object store, a bucket and a key
    are one place for all libraries and endpoints.

    Attributes
    ----------
    kind : str
        The kind of filesystem, such as "file" or "s3".
    path : str
        The full path there.
    """

    kind: str
    path: str

    def is_within(self, folder: Place) -> bool:
        """Whether this place is the given folder, or lies in it at any depth."""
        inside = f"{folder.path.rstrip('/')}/"
        return self.kind == folder.kind and f"{self.path}/".startswith(inside)

    def overlaps(self, other: Place) -> bool:
        """Whether the two places are the same, or one lies in the other."""
        return self.is_within(other) or other.is_within(self)


def moved(path: str, folder: str, other: str) -> str:
    """A path in `folder`, rewritten as the same path in `other`."""
    inside = path.removeprefix(folder).lstrip("/")
    return f"{other.rstrip('/')}/{inside}" if other else inside


# ---------------------------------------------------------------------- writing


def finished_name(name: str) -> str | None:
    """The name that an unfinished file was to get; None if the name is not of an unfinished file.

    Examples
    --------
    >>> finished_name(f".model.parquet.{'0' * 32}.unfinished")
    'model.parquet'
    >>> finished_name("symphony.unfinished")
    """
    match = _UNFINISHED.fullmatch(name)
    return match and match["finished"]
