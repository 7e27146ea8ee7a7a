"""Predict a dataset of any size and write the predictions part by part."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from os import PathLike
from typing import Any

import pyarrow as pa
from numpy.typing import ArrayLike

from streamgda.data.blocks.block import Block
from streamgda.data.blocks.wording import RowError
from streamgda.data.sources.base import ScorableSource, Source
from streamgda.data.sources.conversion import is_arrow, is_zarr_path
from streamgda.data.sources.files.discovery import is_table
from streamgda.data.sources.running import Progress, Scheduler
from streamgda.data.sources.splits import group_into_tasks
from streamgda.data.storage.identity import identity_of
from streamgda.data.storage.paths import Address, AnyFileSystem, Path
from streamgda.jobs.passes import compute
from streamgda.jobs.passes.plan import Plan
from streamgda.jobs.scoring import inference
from streamgda.jobs.scoring.columns import ColumnName, PredictionColumns, cut_to_write
from streamgda.jobs.scoring.inference import Model
from streamgda.jobs.scoring.outputs.base import Field, Output, OutputPart, PredictionSummary, Tables, Writes
from streamgda.jobs.scoring.outputs.parquet import ParquetOutput

_FORMAT = 1

_OTHER_FORMATS = (
    *(".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".xlsx", ".arrow", ".feather", ".orc", ".avro"),
    *(".npy", ".npz", ".h5", ".hdf5", ".nc", ".pkl", ".gz", ".bz2", ".xz", ".zst", ".zip"),
)

_REMEDY = (
    "give a path, a lazy frame or a table; of rows in memory, and of Dask collections, the model's predict "
    "and predict_proba are the predictions"
)

_ROWS_PER_TASK = 1 << 16  # of small remote parts, so that a task fetches several at once


def predict_dataset(
    model: Model,
    source: Any,
    out: Path,
    *,
    columns: Sequence[ColumnName] = ("label", "probabilities"),
    keep: Sequence[str] = (),
    top: int = 1,
    threshold: float | None = None,
    pos_label: Any = None,
    costs: ArrayLike | None = None,
    quantile: ArrayLike | None = None,
    filesystem: AnyFileSystem | None = None,
    scheduler: Scheduler = None,
    progress: Progress = False,
) -> PredictionSummary:
    """Predict a dataset: from Parquet, Zarr or Arrow to Parquet or Zarr.

    Rows keep their order; those of Parquet files are in the order of the names of the files. The output is
    written in parts: Parquet files, or ranges of whole Zarr chunks. A Parquet file gets its name when it is
    complete. A Zarr group can be opened when all its parts are complete. The predictions of a stream, such as
    a Polars lazy frame, are one Parquet file.

    If a run was stopped, the same call continues it: it keeps the finished parts that come from the same
    model, columns and input, and writes the others. The input has changed if a file, or a chunk in Zarr, has
    another size, ETag or modification time, or a local file another inode. A Zarr store that lists neither
    ETags nor times is always read again, and so is Arrow data other than Parquet files.

    Any other call replaces the predictions that are in `out`: those of another input, by another model or of
    other columns are deleted. To keep both, write to another place.

    One run at a time writes to an output. On a local disk, a second run stops at once with an error.
    Elsewhere, the run whose output was overwritten ends with an error. After a run has ended by an error or
    by Ctrl-C, its threads, or its tasks on a cluster, may still compute, but nothing of it is written any
    more. Off a local disk, there is one exception: a request to write that had begun may still arrive.

    Parameters
    ----------
    model : estimator, pipeline of transformers and an estimator, or search
        Fitted.
    source : source, path, URL, glob or list of them, table or Arrow data
        A source is made by `scan_parquet`, `scan_zarr` or `scan_arrow`, with or without a target. Tables are
        those that `scan_parquet` takes, and Arrow data is what `scan_arrow` takes, such as a Polars lazy
        frame, a DuckDB relation or a Lance dataset. The features of the model are read, by name; from a path
        that ends in ".zarr", the array "X".
    out : path or URL
        Where to write: a Zarr group, of format 3, if it ends in ".zarr", else a folder of Parquet files. It
        is created if it does not exist, and must hold nothing but predictions, which are replaced.
    columns : sequence of str, default=("label", "probabilities")
        The columns to predict:

        - "label": the predicted class, as `predicted_label`;
        - "probabilities": p(k | x) of each class k, as `probability_k`; in Zarr, as one array
          `probabilities` of shape (n_rows, n_classes), whose attribute `classes` names its columns;
        - "log_density": ln p(x) under the mixture of the classes, as `log_density`;
        - "distance": the Mahalanobis distance from the mean of the likeliest class, as `distance`;
        - "set": whether each class k is in the set of `predict_set`, as `in_set_k`; in Zarr, as one array;
        - "reasons": the columns that contribute most to the log-odds of the predicted class against the
          likeliest other one, as `reason_1`, and their `contributions`, as `contribution_1`.
    keep : sequence of str, optional
        Columns of the input, partition keys, or one-dimensional Zarr arrays to copy to the output. Zarr holds
        no decimals and no lists, and nulls only as NaN in floats and NaT in times; times with a zone are
        written in UTC. Its chunks have up to 65,536 rows however long strings are; long ones are better kept
        in Parquet.
    top : int, default=1
        How many labels to write for each row, the best first: `predicted_label`, `predicted_label_2`, …; and
        how many reasons, the strongest first.
    threshold : float, optional
        Predict the positive class if its probability is at least this, and else the likeliest other one, as
        scikit-learn's `FixedThresholdClassifier` does for two classes.
    pos_label : int, str or bool, optional
        The positive class, to which a threshold applies. By default the second of two.
    costs : array-like of shape (n_classes, n_classes), optional
        The cost of predicting a class (columns) for a row of a class (rows), in the order of `classes_`. The
        class of the least expected cost is predicted.
    quantile : float or array-like of shape (n_classes,), optional
        For the column "set": the least log-odds of the classes in a set, as for `predict_set` of a model.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of `out`. If None, inferred from `out`.
    scheduler : optional
        What `dask.compute` takes, as in `accumulate`.
    progress : bool or callable, default=False
        Show rows done, rows per second and the time left.

    Returns
    -------
    PredictionSummary
        How many rows and parts the output has.

    Raises
    ------
    ValueError
        If the model has no such columns, a feature or a column to keep is missing, a row cannot be scored, or
        the number of rows of a Zarr output is not known because of a filter or ``missing="drop"``, or in a
        stream; if `out` holds anything else, is where the input is, or is named as a file of another format,
        such as "scores.csv". The message names the place. Finished parts stay.
    RuntimeError
        If another run writes to `out` at the same time.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq, tempfile, zarr
    >>> from streamgda import GaussianNB, predict_dataset, scan_parquet
    >>> folder = tempfile.mkdtemp()
    >>> table = pa.table({"id": [7, 8, 9, 10], "x": [1.0, 2.0, 6.0, 9.0], "kind": list("aabb")})
    >>> pq.write_table(table, f"{folder}/1.parquet")
    >>> source = scan_parquet(f"{folder}/1.parquet", "kind", features=["x"])
    >>> model = GaussianNB().fit(source)
    >>> predict_dataset(model, source, f"{folder}/scored", columns=["label"], keep=["id"])
    PredictionSummary(n_rows=4, n_parts=1, n_found=0, n_dropped=0)
    >>> pq.read_table(f"{folder}/scored").to_pydict()
    {'id': [7, 8, 9, 10], 'predicted_label': ['a', 'a', 'b', 'b']}
    >>> _ = predict_dataset(model, source, f"{folder}/scored.zarr")
    >>> group = zarr.open_group(f"{folder}/scored.zarr", mode="r")
    >>> group["probabilities"].shape, group["probabilities"].attrs["classes"]
    ((4, 2), ['a', 'b'])
    """
    whole, (maps, model) = model, inference.maps_and_model(model)
    model = inference.snapshot(model)
    if pos_label is not None and threshold is None:
        raise ValueError("pos_label is the class that a threshold applies to; give threshold too")
    decision = inference.Decision.of(model, threshold, costs, pos_label)
    prediction = PredictionColumns.of(model, columns, decision, top, quantile)
    if isinstance(keep, str):
        raise ValueError(f"keep must be a list of column names; got the string {keep!r}")
    beside = tuple(dict.fromkeys(keep))
    if taken := set(beside).intersection(prediction.names):
        raise ValueError(f"column {min(taken)!r} cannot be kept: predictions are written under this name")
    out = _checked_place(out)
    source = inference.with_features_of(model, as_scorable(whole, source), maps)
    scheduler = compute.scheduler_for(source, scheduler)
    splits, types = source.to_score(beside, compute.opening_on(scheduler))
    if not splits:
        raise ValueError(f"there is nothing to predict: {source!r} has no rows")
    kept = (Field(column.name, (column.name,), column.type) for column in types)
    output = _output_at(out, filesystem, [*kept, *prediction.fields])
    if source.overlaps(output.storage, output.path):
        raise ValueError(
            f"{out} lies in the folder of the input, where predictions would be taken for data; "
            "choose another place"
        )
    model_as_told = model._identity(apart_from=model._told_by_statistics)
    made_by = identity_of(_FORMAT, model_as_told, prediction, output.fields)
    parts = output.parts(splits, made_by)
    with ExitStack() as locking:
        with output.naming():
            locking.enter_context(output.lock())
        return _write_missing(output, parts, prediction, scheduler, progress)


def _write_missing(
    output: Output,
    parts: Sequence[OutputPart],
    columns: PredictionColumns,
    scheduler: Scheduler,
    progress: Progress,
) -> PredictionSummary:
    """Write the parts that are not finished, and complete the output."""
    with output.naming():
        summaries = output.prepare(parts)
    results = list(summaries.values())
    missing = [part for part in parts if part.name not in summaries]
    most = _ROWS_PER_TASK if any(part.is_remote for part in missing) else 1
    groups = list(group_into_tasks(missing, rows_per_task=most))
    if groups:
        plan = Plan(groups, write_parts, (columns, output))
        results.append(compute.compute_plan(plan, scheduler, progress))
    with output.naming():
        output.finish(parts)
    return sum(results, PredictionSummary())


# ---------------------------------------------------------------------- input and output


def as_scorable(model: Model, source: Any) -> ScorableSource:
    """The source of a dataset that can be read without labels; TypeError for what cannot be."""
    if not (isinstance(source, Source | PathLike | Sequence) or is_arrow(source) or is_table(source)):
        raise TypeError(f"a dataset is needed, got {type(source).__name__}: {_REMEDY}")
    source = inference.scan_for(model, source)
    if not isinstance(source, ScorableSource):
        raise TypeError(f"{source!r} cannot be scored part by part: {_REMEDY}")
    return source


def _checked_place(out: Path) -> Address:
    out = Address(out)
    if os.fspath(out).lower().endswith(_OTHER_FORMATS):
        raise ValueError(
            f"{out}: predictions are written as Parquet files into a folder, or as a Zarr group "
            "if the name ends in .zarr; choose such a name"
        )
    return out


def _output_at(out: Path, filesystem: AnyFileSystem | None, fields: Sequence[Field]) -> Output:
    if not is_zarr_path(out):
        return ParquetOutput(out, filesystem, fields)
    from streamgda.jobs.scoring.outputs.zarr import ZarrOutput

    return ZarrOutput(out, filesystem, fields)


# ---------------------------------------------------------------------- tasks


def write_parts(parts: Iterable[OutputPart], shared: tuple[PredictionColumns, Output]) -> PredictionSummary:
    """The task that predicts parts, and writes them."""
    columns, output = shared
    with Writes() as writes:
        summaries = (output.write(part, _predicted_rows(part, columns, output), writes) for part in parts)
        return sum(summaries, PredictionSummary())


def _predicted_rows(part: OutputPart, columns: PredictionColumns, output: Output) -> Tables:
    for block, columns_beside in part.features():
        n_dropped = block.n_dropped
        for rows, beside in cut_to_write(block, columns_beside, len(columns.names), output.schema):
            yield _table(columns, output, rows, beside), n_dropped
            n_dropped = 0
        del block, columns_beside, rows, beside  # or they would be held while the next ones are read


def _table(
    columns: PredictionColumns, output: Output, block: Block, beside: Mapping[str, pa.Array]
) -> pa.Table:
    table = pa.table({**beside, **columns.compute(block)})
    try:
        return output.in_schema(table)
    except RowError as error:
        raise error.named(block.row_name) from error
    except ValueError as error:
        raise ValueError(f"from {block.row_name(0)} on: {error}") from error
