"""A decorator for methods on rows, so that they also take Dask collections, and arrays on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from inspect import signature
from pkgutil import resolve_name
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import _check_n_features, check_is_fitted, validate_data

from streamgda.data.blocks.arrays import readable
from streamgda.data.blocks.dates import datetimes_of_days
from streamgda.data.blocks.schema import column_of
from streamgda.data.blocks.wording import check_known
from streamgda.data.sources.conversion import is_dask
from streamgda.models.estimators import DEVICES
from streamgda.models.estimators.libraries import lies_elsewhere

R = TypeVar("R")
ColumnNames = Callable[[Any], Any]
Score = Callable[[Any], Any]


def rows_anywhere(columns: ColumnNames) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Decorate a method that scores rows in memory, so that it takes Dask collections and arrays on devices.

    For a dask array it returns a dask array; for a dask DataFrame, a dask Series or DataFrame with the index
    of the rows. The scores are those of the model at the time of the call: later learning does not change
    them. Within scikit-learn's ``array_api_dispatch``, an array of another library is scored on its device.

    Parameters
    ----------
    columns : callable
        Returns the column names of such a DataFrame for a model: `class_labels` or `feature_names`.
    """

    def decorate(method: Callable[..., R]) -> Callable[..., R]:
        call = signature(method)

        @wraps(method)
        def method_or_lazy(model: Any, X: Any, *values: Any, **options: Any) -> Any:
            if isinstance(X, np.ndarray):
                return method(model, X, *values, **options)
            is_elsewhere = lies_elsewhere(X)
            if not is_elsewhere and not is_dask(X):
                return method(model, X, *values, **options)
            options = dict([*call.bind(model, X, *values, **options).arguments.items()][2:])
            if is_elsewhere:
                return resolve_name(DEVICES["answer"])(method, model, X, **options)
            check_lazy(model, X)
            model = model.snapshot()
            score = partial(method, model, **options)
            if hasattr(X, "map_partitions"):
                return _score_frame(score, model, X, columns(model))
            return _score_array(score, model, X)

        return method_or_lazy

    return decorate


def class_labels(model: Any) -> Any:
    """The labels of the classes, as names of columns."""
    return model.classes_


def feature_names(model: Any) -> Any:
    """The names of the features, or their numbers, as names of columns."""
    return model.statistics_.feature_names or range(model.n_features_in_)


def check_lazy(model: Any, X: Any) -> None:
    """Check the shape, features and types of Dask rows before any worker computes them.

    Raises
    ------
    ValueError
        If the rows are not two-dimensional, or their features are not those of the model.
    """
    check_is_fitted(model)
    if getattr(X, "ndim", None) != 2:
        raise ValueError("Dask rows must have two dimensions, rows and features")
    schema = model.statistics_.schema_of_rows
    if not schema.is_numeric and hasattr(X, "columns"):
        check_known(schema.names, X.columns, "the data frame")
    elif hasattr(X, "map_partitions"):
        lists = {column_of(name) for name in schema.names or ()}.difference(schema.names or ())
        if lists.isdisjoint(X.columns):  # whose lengths the partitions tell
            validate_data(model, X._meta, reset=False, skip_check_array=True)
            readable(X._meta_nonempty.drop(columns=[*schema.dates]))  # which may be texts
    else:
        _check_n_features(model, X, reset=False)


def _score_frame(score: Score, model: Any, X: Any, columns: Any) -> Any:
    import pandas as pd

    schema = model.statistics_.schema_of_rows
    learnt = schema.names or X.columns
    names = [name for name in learnt if name not in schema.encoded]
    means = _overall_mean(model, X.dtypes)[:, : len(names)]
    values = {name: values[:1] for name, values in schema.values_by_column().items()}
    row = pd.DataFrame(means, columns=names).assign(**values)
    row = row.assign(**{name: datetimes_of_days(row[name].to_numpy()) for name in schema.dates})
    no_scores = score(row)[:0]
    score_frame = partial(_with_index, partial(_score_partition, score, no_scores), columns)
    return X.map_partitions(score_frame, meta=score_frame(X._meta))


@contextmanager
def in_partition(number: int | None) -> Iterator[None]:
    """Say in an error about a row of which partition of a Dask collection it is, if that is known."""
    try:
        yield
    except ValueError as error:
        if number is None:
            raise
        raise ValueError(f"partition {number}, {error}") from error


def _overall_mean(model: Any, dtypes: Iterable[Any]) -> Any:
    """A row (1, d) that any model can score, in float32 if all columns of the rows to score are."""
    mean = model.typical_row()[None, :]
    return mean.astype("float32") if all(dtype == "float32" for dtype in dtypes) else mean


def _score_partition(score: Score, no_scores: Any, rows: Any, block_id: tuple[int, ...] | None = None) -> Any:
    """The scores of a partition; `no_scores` if it has no rows. Dask gives its place in an array."""
    with in_partition(None if block_id is None else block_id[0]):
        return score(rows) if len(rows) else no_scores


def _with_index(
    score: Score, columns: Any, rows: Any, partition_info: Mapping[str, Any] | None = None
) -> Any:
    """The scores of a pandas DataFrame as a Series or DataFrame with its index. Dask gives its number."""
    import pandas as pd

    with in_partition(partition_info["number"] if partition_info else None):
        scores = score(rows)
    if scores.ndim == 1:
        return pd.Series(scores, index=rows.index)
    return pd.DataFrame(scores, index=rows.index, columns=columns)


def _score_array(score: Score, model: Any, X: Any) -> Any:
    meta = score(_overall_mean(model, [X.dtype]))[:0]
    score_chunk = partial(_score_partition, score, meta)
    X = X.rechunk({1: -1})
    if meta.ndim == 1:
        return X.map_blocks(score_chunk, drop_axis=1, dtype=meta.dtype, meta=meta)
    chunks = (X.chunks[0], (meta.shape[1],))
    return X.map_blocks(score_chunk, chunks=chunks, dtype=meta.dtype, meta=meta)
