"""Score a dataset of any size, and write what comes of it part by part."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, overload

import numpy as np
import pyarrow as pa

from streamgda.blocks.block import Block
from streamgda.passes.blas import single_blas_thread
from streamgda.passes.compute import compute_plan
from streamgda.passes.plan import plan_fold
from streamgda.passes.schedulers import scheduler_for
from streamgda.scoring.columns import PredictionColumns
from streamgda.scoring.inference import Model, check_features, check_model
from streamgda.scoring.lazy import lazy_predictions
from streamgda.scoring.outputs.base import Field, Output, Part, PredictedRows
from streamgda.scoring.outputs.parquet import ParquetOutput
from streamgda.scoring.outputs.pieces import pieces
from streamgda.scoring.outputs.summary import PredictionSummary
from streamgda.sources.base import ScorableSource
from streamgda.sources.conversion import as_source, is_dask, is_zarr_path
from streamgda.storage.digests import digest

_FORMAT = 1


@overload
def predict_dataset(
    model: Model,
    source: Any,
    out: str | PathLike[str],
    *,
    columns: Sequence[str] = ...,
    keep: Sequence[str] = ...,
    filesystem: Any = ...,
    scheduler: Any = ...,
    progress: bool = ...,
) -> PredictionSummary: ...


@overload
def predict_dataset(
    model: Model, source: Any, out: None = None, *, columns: Sequence[str] = ..., keep: Sequence[str] = ...
) -> Any: ...


def predict_dataset(
    model: Model,
    source: Any,
    out: str | PathLike[str] | None = None,
    *,
    columns: Sequence[str] = ("label", "probabilities"),
    keep: Sequence[str] = (),
    filesystem: Any = None,
    scheduler: Any = None,
    progress: bool = False,
) -> Any:
    """Score a dataset: Parquet or Zarr into Parquet or Zarr, or a Dask collection into a lazy one.

    The rows and their order are those of the input; of Parquet files, when they are read in the order of
    their names. Each task writes a part of its own: a file, which has another name until it is whole, or a
    run of whole Zarr chunks. Started again after it was stopped, it leaves the parts that are there as they
    are, if they come from the same model and the same input. A Zarr group cannot be opened as one until all
    of it is written.

    Parameters
    ----------
    model : estimator
        Fitted.
    source : source, path, URL, glob or list of them, dask DataFrame or dask array
        Made by `scan_parquet` or `scan_zarr`, with or without a target. Of a path or a DataFrame, the columns
        that are the features of the model are read; of a path that ends in ".zarr", the array "X".
    out : path or URL, optional
        A place for the predictions alone: a Zarr group, of format 3, if it ends in ".zarr", else a folder of
        Parquet files; made, if there is none. Of a Dask collection, leave it out.
    columns : sequence of str, default=("label", "probabilities")
        What to tell of each row:

        - "label": the class predicted, as `predicted_label`;
        - "probabilities": p(k | x) of each class k, as `probability_k`; in Zarr, as one array
          `probabilities` of shape (n_rows, n_classes), whose attribute `classes` names its columns;
        - "log_density": ln p(x) under the mixture of the classes, as `log_density`;
        - "distance": the Mahalanobis distance from the mean of the class predicted, as `distance`.
    keep : sequence of str, optional
        Columns of the input, keys of its partitions, or Zarr arrays of one dimension, to have beside these.
        Zarr holds no nulls, but for NaN in floats and NaT in times, no decimals and no lists; times with a
        zone are those of UTC.
    filesystem : pyarrow or fsspec filesystem, optional
        Where `out` is; found from `out` where not given.
    scheduler : optional
        What `dask.compute` takes, as in `accumulate`.
    progress : bool, default=False
        Show rows done, rows per second and the time left.

    Returns
    -------
    PredictionSummary, or a dask DataFrame
        How many rows and parts there are now. Of a Dask collection, the columns, which are yet to be
        computed, or written with its own `to_parquet`; with the index of a DataFrame.

    Raises
    ------
    ValueError
        If a feature or a column to keep is missing, a row cannot be scored, `out` holds something else, or
        rows that may be left out (by a filter, or ``missing="drop"``) are to be written to Zarr, where each
        has its place beforehand; the message says where. Parts that are finished stay.

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
    check_model(model)
    wanted = PredictionColumns.checked(model, columns)
    kept = tuple(dict.fromkeys(keep))
    _check_apart(wanted, kept)
    if is_dask(source):
        _refuse_on_dask(out, filesystem, scheduler, progress)
        return lazy_predictions(wanted, source, kept)
    if out is None:
        raise TypeError("out must name the folder of Parquet files, or the Zarr group, to write")
    source = _scorable(model, source)
    check_features(model, source)
    scheduler = scheduler_for(source, scheduler)
    splits, types = source.to_score(kept)
    if not splits:
        raise ValueError(f"there is nothing to predict: {source!r} has no rows")
    fields = [
        *(Field(field.name, (field.name,), field.type) for field in types),
        *wanted.fields,
    ]
    output = _output_at(out, filesystem, fields)
    if output.feeds(source):
        raise ValueError(
            f"{os.fspath(out)} lies in the folder of the input, where predictions would be taken for data; "
            "choose another place"
        )
    parts = output.parts(splits, _made_by(wanted, kept))
    with output.locked():
        done = output.prepare(parts)
        groups = [[part] for part in parts if part.name not in done]
        written = [*done.values()]
        if groups:
            plan = plan_fold(groups, write_parts, (wanted, output))
            written.append(compute_plan(plan, scheduler, progress))
        output.finish(parts)
    return sum(written, PredictionSummary())


# ---------------------------------------------------------------------- what is to be done


def _scorable(model: Model, source: Any) -> ScorableSource:
    names = getattr(model, "feature_names_in_", None)
    source = as_source(source, features=None if names is None else [str(name) for name in names])
    if not isinstance(source, ScorableSource):
        raise TypeError(
            f"{source!r} cannot be scored part by part; scan Parquet or Zarr, or give a Dask collection "
            "itself"
        )
    return source


def _output_at(out: str | PathLike[str], filesystem: Any, fields: Sequence[Field]) -> Output[Any]:
    if not is_zarr_path(out):
        return ParquetOutput.at(out, filesystem, fields)
    from streamgda.scoring.outputs.zarr import ZarrOutput

    return ZarrOutput.at(out, filesystem, fields)


def _check_apart(columns: PredictionColumns, keep: Sequence[str]) -> None:
    for name in keep:
        if name in columns.names:
            raise ValueError(f"column {name!r} cannot be kept: predictions are written under this name")


def _made_by(columns: PredictionColumns, keep: Sequence[str]) -> list[Any]:
    return [_FORMAT, _digest(columns.model), columns.columns, keep]


def _digest(model: Model) -> str:
    """What tells models apart: their parameters, and the sums that they were learnt from."""
    statistics, params = model.statistics_, model.get_params(deep=False)
    state = hashlib.sha256(digest([type(model).__name__, params, statistics.classes]).encode())
    for sums in (statistics.weights, statistics.counts, statistics.means, statistics.scatter):
        state.update(np.ascontiguousarray(sums).tobytes())
    return state.hexdigest()


def _refuse_on_dask(out: Any, filesystem: Any, scheduler: Any, progress: bool) -> None:
    if out is not None:
        raise ValueError(
            "what comes of a Dask collection is one too: leave out out, and write what is returned with its "
            "to_parquet(...)"
        )
    if filesystem is not None or scheduler is not None or progress:
        raise ValueError(
            "filesystem, scheduler and progress are for what is written at once; of a Dask collection, give "
            "them to compute() or to_parquet()"
        )


# ---------------------------------------------------------------------- tasks


def write_parts(parts: Sequence[Part], shared: tuple[PredictionColumns, Output[Any]]) -> PredictionSummary:
    """One task: score parts of the input, and write them."""
    with single_blas_thread:
        return sum((_write(part, *shared) for part in parts), PredictionSummary())


def _write(part: Part, columns: PredictionColumns, output: Output[Any]) -> PredictionSummary:
    return output.write(part, _predicted_rows(part, columns, output))


def _predicted_rows(part: Part, columns: PredictionColumns, output: Output[Any]) -> Iterator[PredictedRows]:
    for block, kept in part.split.features():
        n_dropped = block.n_dropped
        for piece, beside in pieces(block, kept, len(columns.names)):
            yield PredictedRows(_table(columns, output, piece, beside), n_dropped)
            n_dropped = 0
        del block, kept, piece, beside  # or they would be held while the next ones are read


def _table(
    columns: PredictionColumns, output: Output[Any], block: Block, kept: Mapping[str, pa.Array]
) -> pa.Table:
    classes = pa.array(columns.model.classes_)
    predictions = columns.compute(block, lambda codes: classes.take(pa.array(codes)))
    table = pa.table({**kept, **predictions})
    try:
        return output.checked(table)
    except ValueError as error:
        raise ValueError(f"counted from {block.row_name(0)}: {error}") from error
