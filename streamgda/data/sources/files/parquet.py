"""Parquet datasets: which files, columns and row groups a pass reads.

The plan is made from the footers alone; what a task then reads is in `row_groups`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Self

import pyarrow as pa

from streamgda.data.blocks.block import Missing
from streamgda.data.blocks.labels import kinds_known
from streamgda.data.blocks.options import refusing_renamed
from streamgda.data.blocks.parts import Part
from streamgda.data.blocks.wording import check_known, counted
from streamgda.data.sources.base import FileSource, MapFunction, ScorableSource
from streamgda.data.sources.columns.choosing import check_file, check_there, check_types, choose_roles
from streamgda.data.sources.columns.encoding import Wanted
from streamgda.data.sources.columns.expressions import Filter
from streamgda.data.sources.columns.names import check_named
from streamgda.data.sources.columns.roles import Roles
from streamgda.data.sources.files.discovery import find_files
from streamgda.data.sources.files.keys import fits, read_as, warn_of_mixed
from streamgda.data.sources.files.planning import Dataset, unified_types
from streamgda.data.sources.files.row_groups import ReadOptions, RowGroups, name_within
from streamgda.data.sources.splits import InputFile, Split
from streamgda.data.sources.tabular import TabularSource
from streamgda.data.storage.filesystems import Storage
from streamgda.data.storage.retries import retried

_FEW_FILES = 100  # whose footers are read in an instant


@refusing_renamed
def scan_parquet(
    path: Any,
    target: str | None = None,
    *,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    categories: Wanted = "auto",
    weight: str | None = None,
    filters: Any = None,
    filesystem: Any = None,
    missing: Missing = "raise",
    hive_types: Mapping[str, Any] | None = None,
) -> ParquetSource:
    """Describe a Parquet dataset, for `accumulate` and the estimators' `fit` to read.

    Only the list of files and one footer are read here: that of the first file, or of the first one that
    is not damaged. A pass reads each row group once, and no column that is not asked for.

    Parameters
    ----------
    path : str, path, or sequence of them; or a table of Delta or Iceberg
        A file, a folder (its .parquet, .parq and .pq files, at any depth), a glob, or a URL such as
        "s3://bucket/folder". Folders named ``key=value`` are hive partitions. Their keys become columns,
        unless the files have a column of that name. Of a ``deltalake.DeltaTable``, or a table or a scan of
        PyIceberg, the files are those of the version in which it is open. Partition columns that the files do
        not store are keys.
    target : str, optional
        The column of labels: integers, strings (plain or dictionary-encoded) or bools. May be a partition
        key. A source without a target serves `predict_dataset` only.
    features : sequence of str, optional
        Columns, in the order wanted: of numbers, bools, dates, texts or lists of numbers; or patterns such as
        "x*". Dates and times count as days since 1970 in UTC, and durations as days. Lists, all of one
        length, make a feature of each place: those of a column "emb" are emb_0, emb_1 and so on, which may
        be named too.
        May be partition keys. By default all columns of the first file but the target, the weight and the
        index of a pandas frame. A column that another file lacks is then an error; of a table, it is
        missing in the rows of that file. A column that the first file lacks is not read.
    exclude : sequence of str, optional
        Columns that are not features, if `features` is not given: names, or patterns such as "id*". Name
        identifiers here, since they are columns of numbers too.
    categories : "auto", Categorical or None, default="auto"
        Features with categories: all that hold strings or dictionaries, or those that `Categorical` names,
        which may be partition keys. Each category is then a feature of 0 and 1. A missing value is a category
        too. If None, all features are numbers.
    weight : str, optional
        A column of sample weights: repetitions of the row, whole or not.
    filters : pyarrow expression, or list of tuples, optional
        Rows to read, as `pyarrow.parquet.read_table` takes them. In a list, dates may be text by ISO 8601,
        and those without a zone are in UTC. Partitions and row groups whose statistics rule them out are not
        read.
    filesystem : pyarrow or fsspec filesystem, optional
        Where `path` is. If None, inferred from `path`, or from the locations of the files of a table.
    missing : {"raise", "drop", "marginal"}, default="raise"
        What becomes of a row that has a null, NaN or infinity in a feature, or has no label or weight. With
        "raise", an error names the row. With "drop", the row is left out, and counted in the statistics'
        `n_dropped`. With "marginal", rows in which features are null or NaN count by the features that they
        have, rows without a label are left out and counted, and `accumulate` returns `IncompleteStatistics`.
        A model with ``missing="marginal"`` learns from rows that lack features in any case.
    hive_types : mapping of str to type, optional
        The types of keys in the names of folders, such as string, int64 or date32. If it is not given, a
        category is text, as it is written. Labels are whole numbers if all are, without zeros in front, and
        else text. Models and ledgers read keys as they have learnt them.

    Returns
    -------
    ParquetSource

    Raises
    ------
    FileNotFoundError
        If there is no such file or folder, or a folder or glob holds no Parquet file.
    ValueError
        If a column is missing, has two roles, or has a type that its role cannot have. If a table has
        deletion vectors, delete files or column mapping, so that its rows are not those of its files.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> from streamgda import QuadraticDiscriminantAnalysis, scan_parquet
    >>> folder = tempfile.mkdtemp()
    >>> table = pa.table({"x": [1.0, 2.0, 6.0, 9.0], "note": list("abcd"), "kind": [0, 0, 1, 1]})
    >>> pq.write_table(table, f"{folder}/1.parquet")
    >>> source = scan_parquet(folder, "kind", features=["x"])
    >>> QuadraticDiscriminantAnalysis().fit(source).means_.ravel()
    array([1.5, 7.5])
    """
    find = partial(find_files, path, filesystem)
    check = partial(check_named, target, weight, features)
    dataset = Dataset.of(find(), find, check, types=hive_types)
    choice = target, features, exclude, categories, weight, missing
    condition = None if filters is None else dataset.condition(filters)
    read = dataset.stored, dataset.first_rows, dataset.types
    roles = choose_roles(dataset.schema, dataset.first.path, *choice, *read)
    return ParquetSource(dataset, roles, condition)


class ParquetSource(TabularSource, FileSource, ScorableSource):
    """Files with the roles of their columns; made by `scan_parquet` and `scan`.

    Attributes
    ----------
    feature_names : tuple of str
        The features, in the order in which statistics hold them.
    target : str or None
        The column of labels.
    """

    def __init__(self, dataset: Dataset, roles: Roles, condition: Filter | None = None) -> None:
        self._dataset, self._filter = dataset, condition
        self.target, self.is_quick_to_show = roles.target, len(dataset.listing.files) <= _FEW_FILES
        self._set_roles(roles)

    def __repr__(self) -> str:
        files = list(self._dataset.listing.files)
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        return f"<{self._dataset.written_as} {files[0]}{more}: {self._roles.in_words}>"

    def splits(self) -> list[Split]:
        """Consecutive row groups of a file, planned from the footers of all the files."""
        return self.planned()

    def planned(self, each: MapFunction = map) -> list[Split]:
        """The splits; `each` opens the files."""
        files = self._dataset.plan(self._files(), self._options, each)
        return [split for file in files for split in file.splits]

    def first_splits(self) -> Iterator[Split]:
        """The same parts as `splits`. A file is opened when its first part is asked for."""
        files = (self._dataset.plan([file], self._options) for file in self._files())
        return (split for (file,) in files for split in file.splits)

    def _files(self, keep: Collection[str] = ()) -> list[InputFile]:
        """The files that neither the filter, by their partition, nor the part rules out."""
        read = {self.target, *keep}.difference(self._dataset.types.names, self._roles.kinds, self.encoded)
        for name, values in self._dataset.values_of_keys.items():
            if name in read:
                warn_of_mixed(name, values)
        files, root = self._dataset.files(self._filter), self._options.root
        for depth, part in enumerate(self._roles.parts):
            files = [file for file in files if part.has_file(name_within(root, file.path), depth)]
        return files

    def to_score(self, keep: Sequence[str], each: MapFunction = map) -> tuple[list[RowGroups], pa.Schema]:
        """The same parts to read without labels, and the types of the columns to keep in all the files."""
        schema, first = self._known
        if keep:
            check_known(keep, schema.names, first)
        roles = replace(self._roles, target=None, weight=None, groups=None)
        kinds = self._dataset.kinds(roles, keep)
        options = replace(self._options, roles=roles, keep=tuple(keep), kinds=kinds)
        splits: list[Any] = []
        last = {}  # file with each schema
        for file in self._dataset.plan(self._files(keep), options, each):
            splits += file.splits
            last[id(file.columns)] = file
        return splits, unified_types(keep, schema, last.values())

    def with_part(self, part: Part) -> Self:
        """One of the parts of `split`."""
        divided = super().with_part(part)
        if not divided._files():
            raise ValueError(
                f"all {counted(len(self._files()), 'file')} of {self!r} are in one part: choose another "
                "random_state or share, or by='rows'"
            )
        return divided

    def rescanned(self) -> Self:
        """The same source with the files that are there now."""
        now = self._dataset.relisted(partial(check_file, self._roles))
        check_there(self._roles, now.schema.names, now.first.path)
        check_types(self._roles, now.stored, now.first.path)
        again = None if self._filter is None else now.condition(self._filter.expression)
        return type(self)(now, self._roles, again)

    def as_read(self, read_options: Mapping[str, Any]) -> Self:
        """The same source with the features that were read before, unless it was scanned for other ones."""
        return self._with_roles(self._roles.as_read(read_options))

    def with_kinds_of(self, state: Any, *, together: bool = False) -> Self:
        """The same source, whose labels and categories in paths and in CSV are read as those of a state."""
        values, untyped = self._dataset.values_of_keys, self._dataset.untyped
        if not (values or untyped):
            return self
        kinds = {self.target if name is None else name: kind for name, kind in kinds_known(state).items()}
        fitting = {
            name: kind
            for name, kind in kinds.items()
            if (name in values and (not together or fits(values[name], kind)))
            or (name in untyped and kind == "str")
        }
        return self._with_roles(replace(self._roles, kinds=fitting))

    @property
    def reads_keys(self) -> bool:
        """Whether labels or categories are keys of folders, or numbers in CSV."""
        by_state = self._dataset.values_of_keys.keys() | self._dataset.untyped
        return not by_state.isdisjoint({self.target, *self.encoded})

    @property
    def _known(self) -> tuple[pa.Schema, str]:
        return self._dataset.schema_as(self._options.kinds), next(iter(self._dataset.listing.files))

    def _set_roles(self, roles: Roles) -> None:
        super()._set_roles(roles)
        listing = self._dataset.listing
        kinds = self._dataset.kinds(roles)
        self._options = ReadOptions(listing.storage, roles, self._filter, root=listing.root, kinds=kinds)

    @property
    def read_options(self) -> dict[str, Any]:
        """What is read of each file, as plain values."""
        written_as, condition = self._dataset.format_as_text, self._filter
        declared = {name: str(kind) for name, kind in self._dataset.types_given.items()}
        return {
            **self._roles.read_options,
            "filters": None if condition is None else condition.identity,
            **({} if written_as == "parquet" else {"format": written_as}),
            **({"hive_types": declared} if declared else {}),
        }

    def files(self) -> list[InputFile]:
        """The files to read, as they were listed, in order."""
        files, listing = self._files(), self._dataset.listing
        folder, storage, kinds = listing.folder, listing.storage, self._options.kinds
        is_listed = any(listing.files.values())
        listed_apart = partial(storage.listed_together, [file.location for file in files])
        versions = listing.files if is_listed else retried(listed_apart)
        return [
            InputFile(
                file.path.removeprefix(folder).lstrip("/") if folder else file.path,
                file.location,
                versions.get(file.path) or retried(partial(storage.version, file.path)),
                {name: read_as(key, kinds.get(name)) for name, key in file.partition.items()},
                self._row_groups_of(file.location),
                name=name_within(self._options.root, file.path),
            )
            for file in files
        ]

    def _row_groups_of(self, path: str) -> tuple[list[int], int] | None:
        """The row groups of a file, if it is of a pyarrow dataset, which may leave some out."""
        if self._dataset.fragments:
            with suppress(ValueError):  # the file is damaged, which an error says where it is read
                return self._dataset.row_groups_of(path)
        return None

    def includes(self, storage: Storage, path: str) -> bool:
        """Whether a Parquet file written to a path would then be one of the files."""
        return self._dataset.listing.includes(storage, path)

    def overlaps(self, storage: Storage, folder: str) -> bool:
        """Whether one of the files lies in a folder, or a file written there would become one of them."""
        place, listing = storage.place(folder), self._dataset.listing
        folders = {file.rpartition("/")[0] for file in listing.files}
        return self.includes(storage, f"{folder.rstrip('/')}/part-00000.parquet") or any(
            listing.storage.place(other).is_within(place) for other in folders
        )

    def plans(self, files: Sequence[InputFile], each: MapFunction = map) -> list[InputFile]:
        """Some of the files with their row groups, in the versions that were listed."""
        written = [replace(file, partition=self._dataset.keys_of(file.location)) for file in files]
        planned = self._dataset.plan(written, self._options, each)
        return [replace(plan, partition=file.partition) for plan, file in zip(planned, files, strict=True)]
