"""Arrow data: tables, datasets, and streams of record batches from whatever library makes them."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from streamgda.blocks.block import Missing
from streamgda.sources.arrow_sources import (
    ArrowSource,
    DatasetSource,
    ReaderSource,
    Stream,
    StreamSource,
    TableSource,
)
from streamgda.sources.base import Source
from streamgda.sources.parquet import ParquetSource
from streamgda.sources.partitions import DatasetFiles
from streamgda.sources.roles import CategoricalFeatures, Roles


def scan_arrow(
    data: Any,
    target: str,
    *,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    categorical_features: CategoricalFeatures = None,
    weight: str | None = None,
    missing: Missing = "raise",
) -> Source:
    """Describe Arrow data, for `accumulate` and the estimators' `fit` to read.

    A table or a dataset is read in parallel. A stream is read in order by one task, in bounded memory, and in
    this process alone. If no scheduler is given, Dask's threads read it, even if a client of a cluster is
    active.

    Parameters
    ----------
    data : pyarrow Table, RecordBatch, Dataset, Scanner or RecordBatchReader, or data of another library
        A Lance dataset; a Polars LazyFrame; or anything with ``__arrow_c_stream__``, such as a Polars frame,
        a DuckDB relation or a pandas frame. A RecordBatchReader can be read once. All the others can be read
        again.
    target : str
        The column of labels: integers, strings (plain or dictionary-encoded) or bools.
    features : sequence of str, optional
        Columns of numbers, in the order wanted, or patterns such as "x*". By default all columns but the
        target, the weight and the index of a pandas frame.
    exclude : sequence of str, optional
        Columns that are not features, if `features` is not given: names, or patterns such as "id*". Name
        identifiers here, since they are columns of numbers too.
    categorical_features : "from_dtype" or list of str, optional
        Features with categories: all that hold strings or dictionaries; or those with these names or
        patterns, whose values are strings, integers or bools. Each category is then a feature of 0 and 1. A
        missing value is a category too. If None, all features are numbers.
    weight : str, optional
        A column of sample weights: repetitions of the row, whole or not.
    missing : {"raise", "drop", "keep"}, default="raise"
        What becomes of a row that has a null, NaN or infinity in a feature, or has no label or weight. With
        "raise", an error names the row. With "drop", the row is left out, and counted in the statistics'
        `n_dropped`. With "keep", rows in which features are null or NaN are kept, and `accumulate` returns
        `IncompleteStatistics`. A model with ``missing="marginal"`` learns from such rows in any case.

    Returns
    -------
    Source

    Raises
    ------
    TypeError
        If the data is none of these.
    FileNotFoundError
        If a dataset has no files.
    ValueError
        If a column is missing, has two roles, or has a type that its role cannot have. If a dataset is
        filtered.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamgda import accumulate, scan_arrow
    >>> table = pa.table({"width": [1.0, 3.0, 8.0], "kind": ["a", "a", "b"]})
    >>> accumulate(scan_arrow(table, "kind"), "diag").means
    array([[2.],
           [8.]])
    """
    if isinstance(data, ds.Dataset):
        data.get_fragments()  # or Arrow's error, as for a filtered dataset, which has no parts
    if isinstance(data, ds.FileSystemDataset) and not data.files:
        raise FileNotFoundError("the dataset has no files")
    if isinstance(data, ds.InMemoryDataset):
        data = data.to_table()  # which can be sent to another process
    if isinstance(data, ds.Dataset) and _is_of_parquet_as_stored(data):
        kind: type[ParquetSource | ArrowSource] = ParquetSource
        data = DatasetFiles.of_dataset(data)
        origin, stored = data.first.path, data.first.schema
    else:
        kind, data = _described(data)
        origin, stored = "the data", data.schema
    roles = Roles.choose(
        data.schema,
        origin,
        target=target,
        missing=missing,
        features=features,
        exclude=exclude,
        categorical_features=categorical_features,
        weight=weight,
        stored=stored,
    )
    return kind(data, roles)


def _is_of_parquet_as_stored(data: ds.Dataset) -> bool:
    """Whether a dataset lists each of its Parquet files once, and reads the stored columns and types.

    A dataset may be given another schema. Then Arrow casts, fills in and leaves out columns.
    """
    if not isinstance(data, ds.FileSystemDataset) or not isinstance(data.format, ds.ParquetFileFormat):
        return False
    first = next(data.get_fragments())
    keys = ds.get_partition_keys(first.partition_expression)
    given, stored = (
        [(field.name, field.type) for field in schema if field.name not in keys]
        for schema in (data.schema, first.physical_schema)
    )
    return given == stored and len(set(data.files)) == len(data.files)


def _described(data: Any) -> tuple[type[ArrowSource], Any]:
    """The kind of source that reads some data, and the data in the form that this kind takes."""
    if isinstance(data, pa.RecordBatch):
        return TableSource, pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return TableSource, data
    if isinstance(data, ds.Dataset):
        return DatasetSource, data
    if isinstance(data, pa.RecordBatchReader):
        return ReaderSource, data
    if isinstance(data, str | PathLike):
        raise TypeError(f"Arrow data is needed, got the path {data}; scan_parquet takes paths")
    if (stream := Stream.of(data)) is not None:
        return StreamSource, stream
    raise TypeError(
        "Arrow data is a Table, a Dataset, a Scanner, a RecordBatchReader or something with "
        f"__arrow_c_stream__; got {type(data).__name__}"
    )
