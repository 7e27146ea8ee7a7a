"""Find the files that a path, a folder, a pattern, a list, a URL or a table stands for, on any filesystem.

- A path of a file stands for that file, whatever its name.
- A folder stands for the files of one format in it, at any depth, except hidden ones. A file or folder is
  hidden if its name begins with "." or "_": writers use such names for their own files.
- A pattern stands for the files that match it, and for the files of the format in folders that match it,
  except hidden ones. A pattern in which a name begins with "." or "_", such as "_old*.parquet", finds these
  too.
- A list stands for the files of its entries.
- A table of Delta or Iceberg stands for the files that its library lists. It is recognised by the module of
  its class, so nothing is imported. If the rows of the files are not those of the table, this is an error.

Symbolic links are followed. In a folder or pattern, a file to which several paths lead is found once; in
a list, that is an error. A link to nothing is an error too, for rows may be missing. Files and folders of
other formats are recognised by their names. In the folder of a Delta, Iceberg or Hudi table, a log says which
of the Parquet files are rows of the table.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import attrgetter
from os import PathLike
from posixpath import commonprefix, normpath
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs

from streamgda.data.blocks import wording
from streamgda.data.storage.filesystems import Place, Storage, moved, resolve, resolve_all
from streamgda.data.storage.paths import Address, AnyFileSystem, shown
from streamgda.data.storage.retries import StorageError, retried
from streamgda.data.storage.threads import wait_for
from streamgda.data.storage.versions import Version

SUFFIXES = (".parquet", ".parq", ".pq")
"""How the names of Parquet files end."""

OTHER_FORMATS = (
    "it is damaged or of another format. scan reads names that end in .csv, .tsv, .jsonl, .ndjson or .json, "
    "also with .gz, .bz2, .zst or .lz4, and in .feather, .arrow, .ipc or .orc, and other names by "
    "format='csv' or the like"
)
"""What may be wrong with a file that is not named as Parquet."""

_HIDDEN = re.compile(r"(?:^|/)[._](?![^/]*=)")
"""What the name of a hidden file or folder begins with. A name with a hive key is not hidden."""

_WILDCARD = re.compile(r"[*?[]")

Keys: TypeAlias = Mapping[str, pa.Scalar]
Files: TypeAlias = Mapping[str, Version | None]


@dataclass(frozen=True)
class Listing:
    """The files of a dataset as they are now, in order, and the locations that they were found in.

    The version of a file is None if the storage was not asked for it. Of a table, `columns` are its columns,
    and `keys` has the partition keys of each file and their values.
    """

    storage: Storage
    files: Files
    locations: Sequence[Location]
    columns: pa.Schema | None = None
    keys: Mapping[str, Keys] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """The folder that was given, below which folders may have keys; "" if anything else was given."""
        (first, *others) = self.locations
        return first.root if isinstance(first, Folder) and not others else ""

    @cached_property
    def root(self) -> str:
        """The folder of the dataset: the one that is named, or that all that is named has in common.

        It stays when files are added to a folder. Folders ``key=value`` lie below it, so a partition that is
        scanned alone has the names that it has among others.
        """
        return common_folder(location.root for location in self.locations)

    def includes(self, storage: Storage, path: str) -> bool:
        """Whether a Parquet file that is written to a path would be found from then on."""
        place = storage.place(path)
        return any(location.includes(self.storage, place) for location in self.locations)


def common_folder(folders: Iterable[str]) -> str:
    """The folder that all of these are or lie in, above those named ``key=value``."""
    common = list(commonprefix([normpath(folder).split("/") for folder in folders]))
    while common and "=" in common[-1]:
        common.pop()
    return "/".join(common)


def find_files(
    path: Any,
    filesystem: AnyFileSystem | None = None,
    *,
    first_time: bool = True,
    endings: tuple[str, ...] = SUFFIXES,
) -> Listing:
    """Find the files that a path, a URL, a list of them or a table stands for.

    If the storage fails, it is asked again. The folders above are looked at the first time only, to find out
    whether a table format says which files count. The names of files in folders have one of the `endings`.

    Raises
    ------
    FileNotFoundError
        If there is no such file or folder, or no Parquet file is in it.
    ValueError
        If a list holds a file twice, or files of several filesystems, or files lie in a folder of a table
        format such as Delta's. If rows of the files of a table are deleted or filtered, or a newer protocol
        says how the files are to be read.
    """
    if isinstance(path, str | PathLike):
        storage, name = resolve(path, filesystem)
        location, files = _find(storage, name, Address(path), endings, first_time=first_time)
        return Listing(storage, files, [location])
    if is_table(path):
        return _find_files_of_table(path, filesystem)
    if not isinstance(path, Sequence):
        raise TypeError(
            "path must be a path, a URL, a list of them, or a table of Delta or Iceberg; got "
            f"{type(path).__name__}"
        )
    if not path:
        raise FileNotFoundError("the list of files is empty")
    storage, names = resolve_all(path, filesystem)
    plain = [name for name in names if not _WILDCARD.search(name)]
    listed = wait_for(partial(retried, partial(storage.listed_together, plain)))

    def find_each() -> list[tuple[Location, Files]]:
        return [
            (Location(name), {name: listed[name]})
            if name in listed
            else _find(storage, name, Address(entry), endings, first_time=first_time)
            for name, entry in zip(names, path, strict=True)
        ]

    entries = wait_for(find_each)  # in one thread, where each path would start one
    _check_listed_once(storage, (path for _, files in entries for path in files))
    every = {path: version for _, files in entries for path, version in files.items()}
    return Listing(storage, every, [location for location, _ in entries])


def _find(
    storage: Storage, name: str, address: Address, endings: tuple[str, ...], *, first_time: bool
) -> tuple[Location, Files]:
    """What a path stands for, which the user calls `address`, and the files that are there now, in order."""

    def find() -> tuple[Location, Files]:
        location, listed, files = _located(storage, name, address, endings)
        above = _marks_above(storage, location.root) if first_time and listed else ()
        _check_no_table_format([*listed, *above], files)
        return location, files

    asked = partial(retried, find, place=str(address))
    return asked() if storage.is_local else wait_for(asked)


def _located(
    storage: Storage, name: str, address: Address, endings: tuple[str, ...]
) -> tuple[Location, Files, Files]:
    is_pattern = _WILDCARD.search(name) is not None
    if storage.is_object_store and not is_pattern and not name.endswith(endings):
        folder = Folder(name, endings)
        try:  # listing a folder also shows that it is there
            return folder, *folder.files(storage)
        except StorageError:
            raise
        except OSError:
            pass
    if storage.is_object_store and is_pattern:  # listing it also shows a file or folder of this name
        pattern = Pattern(name, endings)
        listed = pattern.listing(storage)
        if name not in listed:
            return pattern, listed, pattern.files_among(storage, listed)
        kind = pafs.FileType.Directory if listed[name] is None else pafs.FileType.File
    else:
        kind = storage.filesystem.get_file_info(name).type
    if kind not in _LOCATIONS and not is_pattern:
        where = f", which is {name}" if str(address).startswith("~") else ""
        raise FileNotFoundError(f"there is no file or folder {address}{where}")
    location = _LOCATIONS.get(kind, Pattern)(name, endings)
    return location, *location.files(storage)


def _check_listed_once(storage: Storage, paths: Iterable[str]) -> None:
    """Raise ValueError for a file that is listed twice."""
    path_at: dict[Place, str] = {}
    for path in paths:
        place = storage.place(path)
        if place in path_at:
            other = "" if path_at[place] == path else f", as {path_at[place]} too"
            raise ValueError(
                f"{path} is listed more than once{other}; its rows would count twice, so list it once"
            )
        path_at[place] = path


# ---------------------------------------------------------------------- locations


@dataclass(frozen=True)
class Location:
    """Where files are found: a file, unless it is a `Folder` or a `Pattern`.

    The names of files in folders have one of the endings.
    """

    path: str
    endings: tuple[str, ...] = SUFFIXES

    @property
    def root(self) -> str:
        """The folder that all the files are in."""
        return self.path.rpartition("/")[0]

    def files(self, storage: Storage) -> tuple[Files, Files]:
        """All paths that are listed in folders, and the files among them, in order."""
        return {}, {self.path: None}

    def matches(self, path: str) -> bool:
        """Whether a file with this path, which is below `root`, is one of the files."""
        return path == self.path

    def includes(self, storage: Storage, place: Place) -> bool:
        """Whether a file at a place would be one of the files."""
        root = storage.place(self.root)
        return place.is_within(root) and self.matches(moved(place.path, root.path, self.root))


@dataclass(frozen=True)
class Folder(Location):
    """A folder, and what is below it."""

    def files(self, storage: Storage) -> tuple[Files, Files]:
        """All that is in it; and the files of the format at any depth that are not hidden."""
        listed = storage.listing(self.path)
        files: dict[str, Version | None] = {}
        for path in sorted(listed):
            if self.matches(path):
                files[path] = listed[path]
            elif not _HIDDEN.search(_inside(path, self.path)):
                _check_link(storage, path)
        if not files:
            known = ", ".join(
                f"*{end}" for end in self.endings if end.count(".") == 1
            )  # of texts, not packed
            other = "; scan reads other formats" if self.endings == SUFFIXES else ""
            raise FileNotFoundError(f"folder {self.path} holds no file named {known}{other}")
        return listed, files

    root = property(attrgetter("path"))

    def matches(self, path: str) -> bool:
        """Whether it is named as files of the format, and not hidden in the folder."""
        return path.endswith(self.endings) and not _HIDDEN.search(_inside(path, self.path))


@dataclass(frozen=True)
class Pattern(Location):
    """A pattern: *, ? and [...] match within the name of a file or folder, ** any number of folders."""

    def files(self, storage: Storage) -> tuple[Files, Files]:
        """What `listing` lists; and the files that match, and those of the format in folders that match."""
        listed = self.listing(storage)
        return listed, self.files_among(storage, listed)

    def files_among(self, storage: Storage, listed: Files) -> Files:
        """The files that `files` finds, among what `listing` lists."""
        matching = sorted(path for path, version in listed.items() if version and self.matches(path))
        files = self._one_path_each(storage, matching)
        if not files:
            raise FileNotFoundError(
                f"no file matches {self.path}; names that begin with '.' or '_' match only a pattern that "
                "begins so"
            )
        return {path: listed[path] if storage.is_object_store else None for path in files}

    def matches(self, path: str) -> bool:
        """Whether it matches, or is of the format and in a folder that matches, and is not hidden."""
        hidden = _HIDDEN.finditer(_inside(path, self.root))
        if any(mark[0][-1] not in self._first_letters for mark in hidden):
            return False
        parents = [path[: slash.start()] for slash in re.finditer("/", path)]
        return bool(self._regex.match(path)) or (
            path.endswith(self.endings) and any(self._regex.match(parent) for parent in parents if parent)
        )

    @cached_property
    def root(self) -> str:
        """The folder above the first wildcard."""
        folder, slash, _ = _WILDCARD.split(self.path)[0].rpartition("/")
        return folder or slash

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        from fsspec.utils import glob_translate

        return re.compile(glob_translate(self.path.rstrip("/")))

    @cached_property
    def _first_letters(self) -> str:
        """The first characters of the names in the pattern. With "." or "_" there, such names are found."""
        return "".join(part[:1] for part in _inside(self.path, self.root).split("/"))

    def listing(self, storage: Storage) -> dict[str, Version | None]:
        """All paths as deep as the pattern, and those in folders that match: versions of files, else None."""
        if "**" in self.path:
            return dict(storage.listing(self.root))
        depth = _inside(self.path.rstrip("/"), self.root).count("/") + 1
        place = storage.local_path(self.root)
        listed = storage.walk(self.root, depth) if place is None else self._listing_here(place, depth)
        for path in [path for path, version in listed.items() if version is None]:
            if self._regex.match(path):
                listed |= storage.listing(path)
        return listed

    def _listing_here(self, place: str, depth: int) -> dict[str, Version | None]:
        """The paths on this machine. Their versions cost a look at each file, and are left open."""
        from fsspec.implementations.arrow import ArrowFSWrapper

        # On a local disk, fsspec does not show what a link leads to.
        infos = ArrowFSWrapper(pafs.LocalFileSystem()).find(place, maxdepth=depth, withdirs=True, detail=True)
        listed = {
            moved(path, place, self.root): _UNSEEN if info["type"] == "file" else None
            for path, info in infos.items()
        }
        # Arrow leaves links to nothing out.
        matching = pathlib.Path(place).glob(_inside(self.path, self.root).strip("/"))
        gone = (path.as_posix() for path in matching if not path.exists())
        return listed | {moved(path, place, self.root): _UNSEEN for path in gone}

    def _one_path_each(self, storage: Storage, files: Iterable[str]) -> list[str]:
        """One path for each file: the one without a link in it, or else the first."""
        root = storage.place(self.root)
        chosen: dict[Place, str] = {}
        for file in files:
            place = storage.place(file)
            if place not in chosen or place.path == moved(file, self.root, root.path):
                chosen[place] = file
        return sorted(chosen.values())


_UNSEEN = Version(None, None)
"""Stands for the version of a file that was not looked at."""

_LOCATIONS = {pafs.FileType.File: Location, pafs.FileType.Directory: Folder}


def _check_link(storage: Storage, path: str) -> None:
    """Raise FileNotFoundError for a link to nothing, which may have led to a folder of files."""
    if (place := storage.local_path(path)) is not None and not pathlib.Path(place).exists():
        raise FileNotFoundError(
            f"{path} is a link to nothing, so rows may be missing; restore what it led to, or delete it"
        )


def _inside(path: str, folder: str) -> str:
    """A path in a folder, as it is seen from there."""
    return path.removeprefix(folder).lstrip("/")


# ---------------------------------------------------------------------- tables


_METHODS = (("deltalake", "get_add_actions"), ("pyiceberg", "plan_files"), ("pyiceberg", "scan"))
"""What the objects of each library have that can be scanned."""

_HARMLESS = {
    *("timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck"),
    *("variantShredding", "variantShredding-preview", "variantType", "variantType-preview"),
}
"""What Delta's protocol may ask of readers that does not change which numbers and labels the files hold."""

_URI = re.compile(r"(?:([\w+.-]+)://([^/]*))?(.*)", re.DOTALL)

_FIELD_ID = b"PARQUET:field_id"

HAS_DEFAULT = b"initial_default"
"""What the metadata of a column say if rows of files that lack it have a value in it."""


def is_table(data: Any) -> bool:
    """Whether data is a table of Delta's or Iceberg's library, or a scan of one."""
    libraries = {base.__module__.partition(".")[0] for base in type(data).__mro__}
    return any(library in libraries and hasattr(data, method) for library, method in _METHODS)


def _find_files_of_table(table: Any, filesystem: AnyFileSystem | None) -> Listing:
    """List the files of a table in the version that it is open in, in the order of their paths.

    Raises
    ------
    FileNotFoundError
        If the table has no files.
    ValueError
        If rows of the files are deleted or filtered, or a newer protocol says how the files are to be read.
    """
    columns, files = (_files_of_delta if hasattr(table, "get_add_actions") else _files_of_iceberg)(table)
    if not files:
        raise FileNotFoundError("the table has no files")
    uris = [_URI.fullmatch(uri).groups(default="") for uri, _ in files]  # type: ignore[union-attr]  # any text matches
    scheme, authority, _ = uris[0]
    storage, _ = resolve("/" if scheme in {"", "file"} else f"{scheme}://{authority}", filesystem)
    in_bucket = storage.is_object_store  # Azure's containers stand before an "@"
    paths = [f"{bucket.partition('@')[0]}{path}" if in_bucket else path for _, bucket, path in uris]
    _check_listed_once(storage, paths)
    keys = dict(sorted(zip(paths, (keys for _, keys in files), strict=True), key=lambda file: file[0]))
    return Listing(storage, dict.fromkeys(keys), list(map(Location, keys)), columns, keys)


def field_numbers(schema: pa.Schema) -> dict[str, bytes]:
    """The numbers of columns, by name: in Iceberg, a column keeps its number when it is renamed."""
    metadata = {field.name: field.metadata or {} for field in schema}
    return {name: entries[_FIELD_ID] for name, entries in metadata.items() if _FIELD_ID in entries}


def _files_of_delta(table: Any) -> tuple[pa.Schema, list[tuple[str, Keys]]]:
    """The columns, and the URI and the keys of each file."""
    needed = set(table.protocol().reader_features or ()) - _HARMLESS - {"columnMapping"}
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        needed.add("columnMapping")
    if "deletionVectors" in needed and hasattr(table, "deletion_vectors"):
        deleted = pa.RecordBatchReader.from_stream(table.deletion_vectors())
        needed -= set() if any(batch.num_rows for batch in deleted) else {"deletionVectors"}
    if needed:
        raise ValueError(
            f"the Delta table {shown(table.table_uri)} uses {wording.listed(sorted(needed))}, so its rows "
            "are not those of its Parquet files; to read them, use "
            "scan_arrow(pyarrow.RecordBatchReader.from_stream(table.scan()), ...)"
        )
    files = pa.table(table.get_add_actions(flatten=True))
    names, root = table.metadata().partition_columns, table.table_uri.rstrip("/")
    keys = [{name: files[f"partition.{name}"][i] for name in names} for i in range(len(files))]
    uris = [path if "://" in path else f"{root}/{path}" for path in files["path"].to_pylist()]
    return pa.schema(table.schema().to_arrow()), list(zip(map(unquote, uris), keys, strict=True))


def _files_of_iceberg(table: Any) -> tuple[pa.Schema, list[tuple[str, Keys]]]:
    """The columns, and the URI of each file."""
    scan = table.scan() if hasattr(table, "scan") else table
    tasks = list(scan.plan_files())
    reader = "to read its rows, use scan_arrow(scan.to_arrow_batch_reader(), ...)"
    if any(task.delete_files for task in tasks):
        raise ValueError(f"the Iceberg table has delete files, for rows that are deleted; {reader}")
    if scan.limit is not None or any(repr(task.residual) != "AlwaysTrue()" for task in tasks):
        raise ValueError(
            "the scan of the Iceberg table has a limit, or a filter that leaves out rows of files; scan all "
            f"rows, and give filters to scan_parquet; or {reader}"
        )
    columns, fields = scan.projection().as_arrow(), scan.projection().fields
    with_default = [i for i, one in enumerate(fields) if getattr(one, "initial_default", None) is not None]
    for i in with_default:
        columns = columns.set(
            i, columns.field(i).with_metadata({**columns.field(i).metadata, HAS_DEFAULT: b""})
        )
    return columns, [(task.file.file_path, {}) for task in tasks]


# ---------------------------------------------------------------------- folders of tables


_TABLES = (
    (
        "a Delta table",
        re.compile(r"(?:^|/)_delta_log(?=/|$)"),
        "scan_parquet(deltalake.DeltaTable({root!r}), ...)",
    ),
    (
        "an Iceberg table",
        re.compile(r"(?:^|/)metadata/[^/]*\.metadata\.json$"),
        "scan_parquet(catalog.load_table(...), ...)",
    ),
    (
        "a Hudi table",
        re.compile(r"(?:^|/)\.hoodie(?=/|$)"),
        (
            "scan_arrow(pyarrow.Table.from_batches(HudiTableBuilder.from_base_uri({root!r}).build()"
            ".read_snapshot()), ...)"
        ),
    ),
)
"""The name of each table format, what marks the folder of such a table, and what reads it."""


def _check_no_table_format(listed: Iterable[str], files: Collection[str]) -> None:
    """Raise ValueError if files lie in a folder of a table format.

    Parameters
    ----------
    listed : iterable of str
        All paths that are known to be there, from one folder on.
    files : collection of str
        What would be read as rows.
    """
    roots = {
        (name, reader, path[: mark.start()])
        for path in listed
        for name, pattern, reader in _TABLES
        if (mark := pattern.search(path))
    }
    for name, reader, root in roots:
        inside = f"{root}/" if root else ""
        if any(file.startswith(inside) for file in files):
            raise ValueError(
                f"{root or 'the folder'} is {name}, and its log says which rows of its files are still "
                f"part of it; to read these, use {reader.format(root=root)}"
            )


def _marks_above(storage: Storage, folder: str) -> Iterator[str]:
    """Yield the paths that mark a table format in the folders above a folder of its data files.

    The names of folders of data files have hive keys or, in Iceberg, one of them is "data".
    """
    parent, _, name = folder.rpartition("/")
    while "=" in name:
        yield from _marks_in(storage, parent)
        parent, _, name = parent.rpartition("/")
    if name == "data":
        yield from _marks_in(storage, parent)


def _marks_in(storage: Storage, folder: str) -> Iterator[str]:
    inside = f"{folder}/" if folder else ""
    with suppress(OSError):  # a user may be allowed to read the partition alone
        yield from (f"{inside}{name}" for name in storage.children(folder))
        yield from (f"{inside}metadata/{name}" for name in storage.children(f"{inside}metadata"))
