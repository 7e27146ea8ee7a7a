"""Statistics and models as Parquet files: the format, and how it is read.

The format, version 1
---------------------
One row per class, its columns:

=================  ==============================  ====================================================
column             type                            what it holds
=================  ==============================  ====================================================
``label``          int64, string or bool           the class, in its own type
``count``          int64                           rows seen of it
``weight``         double                          sum of their weights
``mean``           list of d doubles               the mean
``mean_tail``      list of d doubles               what rounding left of the mean: the mean is their sum
``scatter``        list of doubles                 Σ w (x − mean)(x − mean)ᵀ. For "full" its lower
                                                   triangle, row by row: (i, j) is at i (i + 1) / 2 + j,
                                                   counted from 0; for "diag" the diagonal
``pooled_scatter`` list of doubles                 for "tied", in place of ``scatter``: the one lower
                                                   triangle of all the classes, in the first row, and
                                                   null in the others
``third_moment``   list of d² doubles              Σ w u_i² u_j, where fourth moments are kept; (i, j) is at
                                                   i d + j, and u is the deviation from the mean
``fourth_moment``  list of doubles                 Σ w u_i² u_j², packed as ``scatter``
=================  ==============================  ====================================================

An exact state has ``label`` and ``count``, and in place of the others ``weight_digits``, ``sum_digits`` and
``outer_sum_digits`` (or ``pooled_outer_sum_digits``): lists of the balanced digits, in base 2³², of Σ w,
Σ w x and Σ w x xᵀ, the latter packed as ``scatter``. The lowest digit of each number comes first;
``positions`` in the metadata tells what power of 2³² the lowest stand for.

The file's metadata has one key of this project, ``streamgda``, with a JSON object:

``format_version``
    1.
``kind``
    The kind of state: "ClassStatistics" or "ExactClassStatistics".
``covariance_type``, ``n_features``, ``feature_names``, ``n_dropped``
    As the attributes of the state; ``feature_names`` may be null.
``definite``
    Whether every scatter is positive semidefinite up to 10⁻⁸ on the scale of its features, which is then
    checked when it is read. Rounding can take that from a state of which rows were taken away.
``model``
    For an estimator: its class (``name``) and its hyperparameters (``params``). Not there otherwise.

Columns and keys that are not listed are passed over. Nothing in a file is ever run.

A change of the format
----------------------
1. Raise ``FORMAT_VERSION`` in `streamgda.tables`, and say above what is new.
2. Let `load` turn what the old version holds into what the new one does.
3. Add files of the new version to ``tests/data``, with their test. Those of old versions stay, and load for
   ever.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike
from typing import Any

from streamgda.estimators.classifier import GaussianClassifier
from streamgda.estimators.lda import LinearDiscriminantAnalysis
from streamgda.estimators.naive_bayes import GaussianNB
from streamgda.estimators.qda import QuadraticDiscriminantAnalysis
from streamgda.statistics.saved import state_of
from streamgda.storage import tables

_MODELS: dict[str, type[GaussianClassifier[Any]]] = {
    model.__name__: model for model in (GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis)
}


def load(path: str | PathLike[str], *, filesystem: Any = None) -> Any:
    """Read statistics or a model that `save` wrote.

    Nothing in the file is run, whoever wrote it. A model goes on learning where it stopped.

    Parameters
    ----------
    path : str or path
        A file, or a URL such as "s3://bucket/model.parquet".
    filesystem : pyarrow or fsspec filesystem, optional
        Where `path` is; found from `path` where not given.

    Returns
    -------
    ClassStatistics, ExactClassStatistics or estimator
        What was saved, to the last bit.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is truncated, damaged, of something else or of a newer format, or holds what no
        rows can have led to: shapes that do not agree, a negative count, a scatter that is not positive
        semidefinite.

    Examples
    --------
    >>> import streamgda, tempfile
    >>> path = f"{tempfile.mkdtemp()}/model.parquet"
    >>> streamgda.GaussianNB().fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1]).save(path)
    >>> streamgda.load(path).partial_fit([[9.0]], [2]).classes_
    array([0, 1, 2])
    """
    table, metadata = tables.read(path, filesystem)
    statistics = state_of(table, metadata, os.fspath(path))
    if "model" not in metadata:
        return statistics
    name, params = _model_of(metadata["model"], os.fspath(path))
    try:
        return _MODELS[name](**params)._restore(statistics)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)}: this is no {name}: {error}") from error


def _model_of(document: Any, path: str) -> tuple[str, Mapping[str, Any]]:
    name = document.get("name") if isinstance(document, dict) else None
    params = document.get("params") if isinstance(document, dict) else None
    if not isinstance(name, str) or name not in _MODELS or not isinstance(params, dict):
        raise ValueError(f"{path} holds a model that this version of streamgda does not know: {name!r}")
    return name, params
