"""A source from what a user gives: a source already, a Dask collection, Arrow data, or a path."""

from __future__ import annotations

import os
from collections.abc import Sequence
from os import PathLike
from typing import Any

from streamgda.data.blocks.block import Missing
from streamgda.data.blocks.wording import check_known
from streamgda.data.sources.base import Source
from streamgda.data.sources.columns.encoding import Wanted


def as_source(
    data: Any,
    target: Any = None,
    weight: Any = None,
    *,
    features: Sequence[str] | None = None,
    encoding: Wanted = "auto",
    missing: Missing = "raise",
) -> Source:
    """Return a source as it is, and scan anything else.

    Parameters
    ----------
    data : source, dask DataFrame or dask array, Arrow data, path, URL, glob or list of them
        `scan_dask` reads a Dask collection, `scan_arrow` Arrow data, `scan_zarr` a path that ends in ".zarr",
        and `scan` every other path.
    target, weight : optional
        As the function that scans takes them; not given with a source.
    features : sequence of str, optional
        The columns of files or a dask DataFrame that are features, in this order.
    encoding : "auto", Encoding or None, default="auto"
        Which columns that are not numbers are features, and how; not given with a source.
    missing : {"raise", "drop"}, default="raise"
        What becomes of a row with a missing value; not given with a source.

    Raises
    ------
    ValueError
        If a target or weight is given with a source, or rows of it are to be dropped.
    """
    if isinstance(data, Source):
        if target is not None or weight is not None:
            raise ValueError("a source brings its own target and weights; name them where it is scanned")
        if missing != "raise":
            raise ValueError(f"say missing={missing!r} where the source is scanned")
        return data
    options: dict[str, Any] = {"features": features, "categories": encoding}
    if is_dask(data):
        from streamgda.data.sources.dask import scan_dask

        if not isinstance(target, str):  # labels beside rows, all of whose columns are features
            data = _chosen_columns(data, features)
            del options["features"]
        return scan_dask(data, target, weight=weight, missing=missing, **options)
    if is_zarr_path(data):
        from streamgda.data.sources.zarr import scan_zarr

        return scan_zarr(os.fspath(data), target, weight=weight, missing=missing)
    if is_arrow(data):
        from streamgda.data.sources.arrow import scan_arrow

        return scan_arrow(data, target, weight=weight, missing=missing, **options)
    from streamgda.data.sources.files.formats import scan

    return scan(data, target, weight=weight, missing=missing, **options)


def _chosen_columns(data: Any, names: Sequence[str] | None) -> Any:
    if names is None or not hasattr(data, "columns"):
        return data
    check_known(names, data.columns, "the data frame")
    return data[list(names)]


def is_dask(data: Any) -> bool:
    """Whether data is a Dask collection."""
    if not hasattr(data, "__dask_graph__"):
        return False
    from dask.base import is_dask_collection

    return bool(is_dask_collection(data))  # an xarray object has the attribute even if it is in memory


def is_arrow(data: Any) -> bool:
    """Whether data has rows that `scan_arrow` reads, such as a Polars lazy frame or a DuckDB relation."""
    return any(
        hasattr(data, name) for name in ("__arrow_c_stream__", "collect_batches", "scanner", "to_reader")
    )


def is_zarr_path(data: Any) -> bool:
    """Whether data is a path or URL that ends in ".zarr"."""
    return isinstance(data, str | PathLike) and os.fspath(data).rstrip("/").endswith(".zarr")
