"""Load the files that `save` wrote: statistics, or an estimator with its statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamgda.data.blocks.labels import union
from streamgda.data.sources.computed import ComputedColumns
from streamgda.data.storage import tables
from streamgda.data.storage.documents import SENSELESS
from streamgda.data.storage.paths import Address, AnyFileSystem, Path
from streamgda.models.estimators import ESTIMATORS, estimator_named
from streamgda.models.estimators.dtypes import FittedTypes
from streamgda.models.estimators.pipeline import ModelPipeline
from streamgda.models.estimators.reading import announced_labels
from streamgda.statistics.factory import COLUMNS, state_of

if TYPE_CHECKING:
    from streamgda.models.estimators.generative import GenerativeClassifier
    from streamgda.statistics.base import Statistics


def load(path: Path, *, filesystem: AnyFileSystem | None = None) -> Any:
    """Read statistics or a model that `save` wrote.

    No code in the file is executed. A loaded model can learn more rows with `partial_fit`. For type checkers,
    `load_model` and `load_statistics` say what they return.

    Parameters
    ----------
    path : str or path
        A file, or a URL such as "s3://bucket/model.parquet".
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of `path`. If None, inferred from `path`.

    Returns
    -------
    ClassStatistics, ExactClassStatistics, estimator or pipeline
        Equal to what was saved, to the last bit.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is truncated, damaged, of another kind or of a newer format, or if its statistics are
        impossible: shapes do not agree, a count is negative, a scatter is not positive semidefinite.

    Examples
    --------
    >>> import streamgda, tempfile
    >>> path = f"{tempfile.mkdtemp()}/model.parquet"
    >>> streamgda.GaussianNB().fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1]).save(path)
    >>> streamgda.load(path).partial_fit([[9.0]], [2]).classes_
    array([0, 1, 2])
    """
    return _load(path, filesystem)


def load_model(path: Path, *, filesystem: AnyFileSystem | None = None) -> GenerativeClassifier[Any]:
    """Read a model or a pipeline that `save` wrote, as `load` does; ValueError if the file holds none."""
    saved = _load(path, filesystem)
    if not hasattr(saved, "statistics_"):
        raise ValueError(
            f"{Address(path)} holds statistics and no model; from_statistics of a model makes one of them"
        )
    model: GenerativeClassifier[Any] = saved
    return model


def load_statistics(path: Path, *, filesystem: AnyFileSystem | None = None) -> Statistics:
    """Read statistics that `save` wrote, as `load` does; if the file holds a model, its statistics."""
    saved = _load(path, filesystem)
    statistics: Statistics = getattr(saved, "statistics_", saved)
    return statistics


def from_bytes(content: bytes) -> Any:
    """Statistics or a model from the bytes that `to_bytes` returned, or from the bytes of a saved file.

    Raises
    ------
    ValueError
        As `load` does.

    Examples
    --------
    >>> import streamgda
    >>> model = streamgda.GaussianNB().fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
    >>> streamgda.from_bytes(model.to_bytes()).predict([[5.5]])
    array([1])
    """
    return _load(bytes(content), None)


def load_metadata(path: Path | bytes, *, filesystem: AnyFileSystem | None = None) -> dict[str, Any]:
    """Read the origin of a saved file and its ``save(metadata=)``, without reading the table.

    Parameters
    ----------
    path : str, path or bytes
        A file, or all its bytes. With the same bytes for `from_bytes`, state and metadata are of the same
        moment.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of `path`. If None, inferred from `path`.

    Returns
    -------
    dict
        "library", the name and version of the library that saved it; "time", when `save` was called, in UTC;
        "fingerprint", the `digest` of the statistics; and "metadata". A value that the file does not hold is
        None.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is damaged or of another kind.
    """
    document = tables.read_metadata(path, filesystem)
    return {key: document.get(key) for key in tables.PROVENANCE}


def _load(path: Path | bytes, filesystem: AnyFileSystem | None) -> Any:
    table, metadata = tables.read_table(path, COLUMNS, filesystem)
    name_of_file = tables.name_of(path)
    statistics = state_of(table, metadata, name_of_file)
    if "model" not in metadata:
        return statistics
    whole = document = metadata["model"]
    if isinstance(whole, dict) and whole.get("name") == "Pipeline":
        document = whole.get("model")
    name, params = _model_of(document, name_of_file)
    try:
        if "priors" in document:
            params["priors"] = dict(document["priors"])
        kind = estimator_named(name)
        model: GenerativeClassifier[Any] = kind(**kind._upgraded(params))
        announced = document.get("announced")
        _restore(model, statistics, FittedTypes(**document.get("types", {})), announced)
        model._restore(document)
        return model if whole is document else _pipeline(model, whole.get("columns"))
    except SENSELESS as error:
        raise ValueError(f"{name_of_file}: this is no {name}: {error}") from error


def _pipeline(model: Any, columns: dict[str, Any] | None) -> ModelPipeline:
    """A model after the step that computes its features, if there is one."""
    steps = [] if columns is None else [("columns", ComputedColumns(**columns))]
    for _, step in steps:
        _ = step.computed, step.n_features_in_  # raises if they are damaged
    return ModelPipeline([*steps, ("model", model)])


def _restore(model: Any, statistics: Statistics, types: FittedTypes, announced: list[Any] | None) -> None:
    """Give a model its saved statistics, types and labels, even if they do not yet suffice for predictions.

    Raises
    ------
    ValueError
        If a parameter is not valid, or the statistics are not of the kind that the parameters require.
    """
    model._validate_params()
    if statistics.required != model.required_statistics():
        raise ValueError(f"its statistics, {statistics!r}, are not what its parameters ask for")
    model._hold(statistics)
    model._types = types
    if announced is not None:
        labels = announced_labels(announced)
        union(labels, model.known_labels)  # raises if the two are of different kinds
        model._announced = labels


def _model_of(document: Any, path: str) -> tuple[str, dict[str, Any]]:
    """The name of the class and the parameters of a model, from the metadata of its file."""
    document = document if isinstance(document, dict) else {}
    name, params = document.get("name"), document.get("params")
    if not isinstance(name, str) or name not in ESTIMATORS or not isinstance(params, dict):
        raise ValueError(f"{path} holds a model that this version of streamgda does not know: {name!r}")
    return name, params
