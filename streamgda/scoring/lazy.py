"""Lazy predictions of a Dask collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from streamgda.blocks.block import Block
from streamgda.blocks.wording import counted
from streamgda.estimators.lazy import check_lazy, snapshot
from streamgda.estimators.reading import check_rows
from streamgda.scoring.columns import PredictionColumns
from streamgda.sources.roles import check_known


def lazy_predictions(columns: PredictionColumns, rows: Any, keep: Sequence[str]) -> Any:
    """A lazy dask DataFrame with the kept columns and the predictions of the rows.

    Parameters
    ----------
    columns : PredictionColumns
        The columns to predict. Later learning of the model does not change the predictions.
    rows : dask DataFrame or dask array
        Rows. Of a DataFrame, only the features of the model and the kept columns are read.
    keep : sequence of str
        Columns of a DataFrame to copy.

    Raises
    ------
    ValueError
        If columns are missing, or the features are not those of the model.
    """
    model = columns.model
    if not hasattr(rows, "columns"):
        check_lazy(model, rows)
        rows = _as_frame(model, rows, keep)
    features = _features_of(model, rows, keep)
    if hasattr(model, "feature_names_in_"):
        check_lazy(model, rows[features])
    columns = replace(columns, model=snapshot(model))
    predict = partial(_predict_partition, columns=columns, features=features, keep=keep)
    read = rows[list(dict.fromkeys((*features, *keep)))]
    return read.map_partitions(predict, meta=predict(read._meta))


def _predict_partition(
    frame: Any, columns: PredictionColumns, features: Sequence[Any], keep: Sequence[str]
) -> Any:
    """Predict the rows of a partition, which may be empty."""
    import pandas as pd

    model, read, rows = columns.model, frame[features], np.empty((0, len(features)))
    if len(frame):
        rows = check_rows(model, read if hasattr(model, "feature_names_in_") else read.to_numpy())
    block = Block(rows, np.zeros(1, np.int64), np.zeros(len(rows), np.uint8))
    predictions = columns.compute(block, model.statistics_.class_labels.__getitem__)
    return pd.DataFrame({**{name: frame[name] for name in keep}, **predictions}, index=frame.index)


def _as_frame(model: Any, rows: Any, keep: Sequence[str]) -> Any:
    import dask.dataframe as dd

    if keep:
        raise ValueError(f"a dask array has no columns to keep; got {list(keep)}")
    return dd.from_dask_array(rows.rechunk({1: -1}), columns=getattr(model, "feature_names_in_", None))


def _features_of(model: Any, rows: Any, keep: Sequence[str]) -> list[Any]:
    """The names of the features of the model; if it has no names, of all columns that are not kept."""
    known = list(rows.columns)
    for name in (*getattr(model, "feature_names_in_", ()), *keep):
        check_known(name, known, "the data frame")
    features = list(getattr(model, "feature_names_in_", [name for name in known if name not in keep]))
    if len(features) != model.n_features_in_:
        raise ValueError(
            f"the data frame has {counted(len(features), 'column')} besides those kept, and the model "
            f"was fitted to {counted(model.n_features_in_, 'feature')}"
        )
    return features
