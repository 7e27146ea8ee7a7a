"""Dask collections in, lazy Dask collections out: a method on rows, put on every partition."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial, wraps
from typing import Any, TypeVar

from sklearn.utils.validation import check_is_fitted, validate_data

from streamgda.blocks.arrays import check_readable
from streamgda.sources.conversion import is_dask

R = TypeVar("R")

Columns = Callable[[Any], Any]


def lazy_on_dask(columns: Columns) -> Callable[[Callable[[Any, Any], R]], Callable[[Any, Any], R]]:
    """Let a method of a fitted model that scores rows take Dask rows too, and then return Dask scores.

    A dask array gives a dask array. A dask DataFrame gives a dask Series, or a DataFrame, with the index of
    the rows. The scores are of the model as it is now: what it learns later does not change them.

    Parameters
    ----------
    columns : callable
        Tells the names of the columns of such a DataFrame, from the model.
    """

    def lazy(method: Callable[[Any, Any], R]) -> Callable[[Any, Any], R]:
        @wraps(method)
        def on_rows(model: Any, X: Any) -> Any:
            if not is_dask(X):
                return method(model, X)
            check_lazy(model, X)
            model = as_it_is(model)
            score = partial(method, model)
            if hasattr(X, "map_partitions"):
                return _on_frame(score, model, X, columns(model))
            return _on_array(score, model, X)

        return on_rows

    return lazy


def check_lazy(model: Any, X: Any) -> None:
    """Refuse Dask rows now, where each worker would refuse them later."""
    check_is_fitted(model)
    if getattr(X, "ndim", None) != 2:
        raise ValueError("Dask rows must have two dimensions, rows and features")
    if hasattr(X, "map_partitions"):
        validate_data(model, X._meta, reset=False, skip_check_array=True)
        check_readable(X._meta_nonempty)
    elif X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(model).__name__} is expecting {model.n_features_in_} "
            "features as input"
        )


def as_it_is(model: Any) -> Any:
    """The model with statistics of its own, so that what it learns later changes nothing."""
    twin = copy(model)
    twin.statistics_ = model.statistics_.copy()
    return twin


def _on_array(score: Callable[[Any], Any], model: Any, X: Any) -> Any:
    like = score(_typical_row(model))[:0]
    X = X.rechunk({1: -1})
    if like.ndim == 1:
        return X.map_blocks(partial(_scored, score, like), drop_axis=1, dtype=like.dtype, meta=like)
    chunks = (X.chunks[0], (like.shape[1],))
    return X.map_blocks(partial(_scored, score, like), chunks=chunks, dtype=like.dtype, meta=like)


def _on_frame(score: Callable[[Any], Any], model: Any, X: Any, columns: Any) -> Any:
    import pandas as pd

    like = score(pd.DataFrame(_typical_row(model), columns=X.columns))[:0]
    labelled = partial(_framed, partial(_scored, score, like), columns)
    return X.map_partitions(labelled, meta=labelled(X._meta))


def _typical_row(model: Any) -> Any:
    return model.statistics_.overall_mean()[None, :]


def _scored(score: Callable[[Any], Any], like: Any, rows: Any) -> Any:
    """The scores of a partition, which may have no rows."""
    return score(rows) if len(rows) else like


def _framed(score: Callable[[Any], Any], columns: Any, rows: Any) -> Any:
    import pandas as pd

    scores = score(rows)
    if scores.ndim == 1:
        return pd.Series(scores, index=rows.index)
    return pd.DataFrame(scores, index=rows.index, columns=columns)
