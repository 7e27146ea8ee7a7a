"""Parquet datasets: which files, columns and row groups a pass reads.

The plan is made from the footers alone; what a task then reads is in `row_groups`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from os import PathLike
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from streamgda.blocks import Missing
from streamgda.source import SourceToScore, runs
from streamgda.sources import columns
from streamgda.sources.faults import decoding
from streamgda.sources.files import find_files
from streamgda.sources.roles import Roles, check_known
from streamgda.sources.row_groups import Layout, RowGroups, version_of

_FOOTER_READERS = 16


def scan_parquet(
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    target: str | None = None,
    *,
    features: Sequence[str] | None = None,
    weight: str | None = None,
    filters: Any = None,
    filesystem: Any = None,
    missing: Missing = "raise",
) -> ParquetSource:
    """Describe a Parquet dataset, for `accumulate` and the estimators' `fit` to read.

    Only the list of files and one footer are read here. A pass reads each row group once, and no
    column that is not asked for.

    Parameters
    ----------
    path : str, path, or sequence of them
        A file, a folder (its .parquet, .parq and .pq files, at any depth), a glob, or a URL such as
        "s3://bucket/folder". Folders named ``key=value`` are hive partitions, and their keys columns.
    target : str, optional
        The column of labels: integers, strings (plain or dictionary-encoded) or bools. May be a
        partition key. Rows without one are for `predict_dataset` alone.
    features : sequence of str, optional
        Columns of numbers, in the order wanted: integer, bool, float or decimal. May be partition
        keys. All the columns of the files but the target and the weight, where not given.
    weight : str, optional
        A column of sample weights: repetitions of the row, whole or not.
    filters : pyarrow expression, or list of tuples, optional
        Rows to read, as `pyarrow.parquet.read_table` takes them. Partitions and row groups whose
        statistics rule them out are not read.
    filesystem : pyarrow or fsspec filesystem, optional
        Where `path` is; found from `path` where not given.
    missing : {"raise", "drop"}, default="raise"
        What becomes of a row with a null, NaN or infinity in a feature, or without a label or a
        weight: an error that names it, or left out and counted in the statistics' `n_dropped`.

    Returns
    -------
    ParquetSource

    Raises
    ------
    FileNotFoundError
        If there is no such file or folder, or a folder or glob holds no Parquet file.
    ValueError
        If a column is missing, has a type that cannot serve, or has two roles.

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
    filesystem, files, base = find_files(path, filesystem)
    with decoding(files[0]):
        dataset = ds.dataset(
            files, format="parquet", partitioning="hive", filesystem=filesystem, partition_base_dir=base
        )
    return ParquetSource(dataset, target, features, weight, filters, missing)


class ParquetSource(SourceToScore):
    """A Parquet dataset with the roles of its columns; made by `scan_parquet`.

    Attributes
    ----------
    feature_names : tuple of str
        The features, in the order in which statistics hold them.
    target : str or None
        The column of labels.
    """

    def __init__(
        self,
        dataset: ds.FileSystemDataset,
        target: str | None,
        features: Sequence[str] | None,
        weight: str | None,
        filters: Any,
        missing: Missing,
    ) -> None:
        self._dataset = dataset
        stored = self._stored = next(dataset.get_fragments()).physical_schema
        roles = Roles.choose(
            dataset.schema.names,
            dataset.files[0],
            target=target,
            features=features,
            weight=weight,
            missing=missing,
            default=stored.names,
        )
        self.feature_names, self.target = roles.features, roles.target
        self._filter = _expression(filters)
        self._layout = Layout(
            dataset.filesystem, roles, self._filter, _referenced(self._filter, dataset.schema)
        )
        roles.check_types(stored, dataset.files[0])

    def __repr__(self) -> str:
        files = self._dataset.files
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        return (
            f"<Parquet {files[0]}{more}: {len(self._layout.roles.features)} features, target {self.target!r}>"
        )

    def splits(self) -> list[RowGroups]:
        """Runs of consecutive row groups of a file, planned from the footers of all the files."""
        fragments = list(self._dataset.get_fragments(filter=self._filter))
        with ThreadPoolExecutor(_FOOTER_READERS) as readers:
            return [split for of_file in readers.map(self._splits_of_file, fragments) for split in of_file]

    def to_score(self, keep: Sequence[str]) -> list[RowGroups]:
        """The same parts to read: the features, and the columns to keep beside them."""
        for name in keep:
            check_known(name, self._dataset.schema.names, self._dataset.files[0])
        roles = replace(self._layout.roles, target=None, weight=None)
        layout = replace(self._layout, roles=roles, kept=tuple(keep))
        return [replace(split, layout=layout) for split in self.splits()]

    def _splits_of_file(self, known: ds.ParquetFileFragment) -> list[RowGroups]:
        # A fragment keeps the footer that it once read; the file may have been rewritten since.
        fragment = known.format.make_fragment(
            known.path, self._dataset.filesystem, known.partition_expression
        )
        version = version_of(self._dataset.filesystem.get_file_info(fragment.path))
        with decoding(fragment.path):
            schema, metadata = fragment.physical_schema, fragment.metadata
            groups = self._row_groups(fragment)
        partition = ds.get_partition_keys(fragment.partition_expression)
        self._check_file(fragment.path, schema, partition)
        rows = {index: metadata.row_group(index).num_rows for index in groups}
        return [
            RowGroups(self._layout, fragment.path, version, {i: rows[i] for i in run}, partition)
            for run in runs(groups, rows.__getitem__)
        ]

    def _row_groups(self, fragment: ds.ParquetFileFragment) -> list[int]:
        """The row groups whose statistics do not rule out that the filter lets rows through."""
        if self._filter is None:
            return [group.id for group in fragment.row_groups]
        kept = fragment.split_by_row_group(filter=self._filter, schema=self._dataset.schema)
        return [group.id for part in kept for group in part.row_groups]

    def _check_file(self, path: str, schema: pa.Schema, partition: dict[str, Any]) -> None:
        if schema.equals(self._stored):
            return  # as in most files, and what could be wrong with the first one has been seen
        for name in self._layout.columns:
            if name not in partition and name not in schema.names:
                raise ValueError(
                    f"{path}: there is no column {name!r}, which other files of the dataset have"
                )
        self._layout.roles.check_types(schema, path)
        if self.target is not None and self.target not in partition:
            kind, first = schema.field(self.target).type, self._dataset.schema.field(self.target).type
            if columns.label_kind(kind) != columns.label_kind(first):
                raise ValueError(f"{path}: target {self.target!r} is {kind}, in the first file it is {first}")


def _expression(filters: Any) -> ds.Expression | None:
    if filters is None or isinstance(filters, ds.Expression):
        return filters
    return pq.filters_to_expression(filters)


def _referenced(expression: ds.Expression | None, schema: pa.Schema) -> pa.Schema:
    """The columns that an expression speaks of: those without which it cannot be evaluated."""
    if expression is None:
        return pa.schema([])
    try:
        schema.empty_table().filter(expression)
    except (pa.ArrowException, TypeError) as error:
        raise ValueError(f"filters: {error}") from error
    return pa.schema(
        [field for i, field in enumerate(schema) if not _can_evaluate(expression, schema.remove(i))]
    )


def _can_evaluate(expression: ds.Expression, schema: pa.Schema) -> bool:
    try:
        schema.empty_table().filter(expression)
    except pa.ArrowInvalid:
        return False
    return True
