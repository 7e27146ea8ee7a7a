"""Load what `save` wrote: statistics, or an estimator with its statistics."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from streamgda.estimators import ESTIMATORS, estimator_named
from streamgda.statistics.saved import COLUMNS, state_of
from streamgda.storage import tables
from streamgda.storage.paths import AnyFileSystem, Path


def load(path: Path, *, filesystem: AnyFileSystem | None = None) -> Any:
    """Read statistics or a model that `save` wrote.

    Nothing in the file is run, whoever wrote it. A model can go on learning with `partial_fit`.

    Parameters
    ----------
    path : str or path
        A file, or a URL such as "s3://bucket/model.parquet".
    filesystem : pyarrow or fsspec filesystem, optional
        Where `path` is; found from `path` where not given.

    Returns
    -------
    ClassStatistics, ExactClassStatistics or estimator
        Equal to what was saved, to the last bit.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is truncated, damaged, of another kind or of a newer format, or if no rows have such
        statistics: shapes do not agree, a count is negative, a scatter is not positive semidefinite.

    Examples
    --------
    >>> import streamgda, tempfile
    >>> path = f"{tempfile.mkdtemp()}/model.parquet"
    >>> streamgda.GaussianNB().fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1]).save(path)
    >>> streamgda.load(path).partial_fit([[9.0]], [2]).classes_
    array([0, 1, 2])
    """
    table, metadata = tables.read(path, COLUMNS, filesystem)
    statistics = state_of(table, metadata, os.fspath(path))
    if "model" not in metadata:
        return statistics
    name, params = _model_of(metadata["model"], os.fspath(path))
    try:
        return estimator_named(name)(**params)._restore(statistics)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)}: this is no {name}: {error}") from error


def _model_of(document: Any, path: str) -> tuple[str, Mapping[str, Any]]:
    name = document.get("name") if isinstance(document, dict) else None
    params = document.get("params") if isinstance(document, dict) else None
    if not isinstance(name, str) or name not in ESTIMATORS or not isinstance(params, dict):
        raise ValueError(f"{path} holds a model that this version of streamgda does not know: {name!r}")
    return name, params
