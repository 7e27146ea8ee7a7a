"""Scores of the rows of a block, the class that is predicted, and checks before they are computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline

from streamgda.data.blocks.block import Block, remedying
from streamgda.data.blocks.labels import position_of
from streamgda.data.blocks.schema import MadeColumns
from streamgda.data.blocks.sparse import DENSE, SparseRows
from streamgda.data.blocks.wording import RowError, check_known, counted, listed
from streamgda.data.sources.base import Source
from streamgda.data.sources.columns.encoding import KnownDates, by_names
from streamgda.data.sources.computed import ComputedColumns
from streamgda.data.sources.conversion import as_source
from streamgda.data.sources.maps.rows import StoredRows
from streamgda.models.estimators.classifier import GaussianClassifier, score_rows
from streamgda.models.estimators.reading import remedy_to_predict
from streamgda.models.estimators.scores import RowScores
from streamgda.models.gaussians.posteriors import Array, largest, posteriors
from streamgda.models.gaussians.products import TILE_ROWS

Model = GaussianClassifier[Any]

_ELEMENTS_AT_ONCE = 1 << 18  # float64 values: 2 MB


def slices_of(block: Block, n_scores: int) -> list[slice]:
    """Slices of a block whose values and scores take at most 2 MB each, or the fewest rows scored at once."""
    features = block.features
    n_columns = features.n_columns if isinstance(features, SparseRows) else block.n_features
    size = max(1, _ELEMENTS_AT_ONCE // max(n_columns, n_scores))
    size = -(-size // TILE_ROWS) * TILE_ROWS  # whole tiles, which need no padding
    n_rows = len(block.codes)
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def score_slice(
    model: Model, block: Block, where: slice, *, remedy: str | None = None
) -> Iterator[RowScores]:
    """Yield the scores of the rows of a slice. Their positions count from its start.

    A `remedy` of missing values takes the place of that by which the model predicts.

    Raises
    ------
    ValueError
        If a value is infinite, or NaN without ``missing="marginal"``, or a row is too far from all classes.
        The message says where.
    """
    columns, schema = block.features, model.statistics_.schema_of_rows
    if isinstance(columns, MadeColumns) and not schema.is_numeric:
        rows = columns.rows(where).encoded(schema)
    else:
        rows = block.values(where)
    if not np.isfinite(rows.sum()):
        _check_values(model, block, rows, remedy or remedy_to_predict(model))
    try:
        for scores in score_rows(model, rows):
            _ = scores.posterior_scores  # raises here if a row is too far from all classes
            yield scores
    except RowError as error:
        raise error.moved(lambda row: where.start + row).named(block.row_name) from error


def _check_values(model: Model, block: Block, rows: Any, remedy: str) -> None:
    """Raise ValueError if rows of a block, an array or in CSR, hold what the model cannot score."""
    is_dense = isinstance(rows, np.ndarray)
    if is_dense and model.missing != "raise":
        if np.isinf(rows).any():
            block.check_no_infinity()
    elif not np.isfinite(rows if is_dense else rows.data).all():
        with remedying(remedy if is_dense else f"{DENSE}, and {remedy}"):
            block.raise_for_values()


# ---------------------------------------------------------------------- decisions


@dataclass(frozen=True)
class Decision:
    """How classes are ranked by their posterior probabilities.

    Attributes
    ----------
    threshold : float, optional
        The least probability of the positive class at which it is predicted.
    costs : ndarray of shape (n_classes, n_classes), optional
        The cost of predicting a class (columns) for a row of a class (rows).
    positive : int, default=1
        The position of the positive class.
    quantile : float or ndarray of shape (n_classes,), optional
        The least log-odds of the classes in the set of a row.
    """

    threshold: float | None = None
    costs: Array | None = None
    positive: int = 1
    quantile: float | Array | None = None

    @classmethod
    def of(cls, model: Model, threshold: float | None, costs: ArrayLike | None, pos_label: Any) -> Decision:
        """The decision by these parameters; ValueError if they do not fit the model."""
        n_classes = len(model.known_labels)
        positive = 1 if pos_label is None else position_of(pos_label, model.known_labels)
        if threshold is not None and costs is not None:
            raise ValueError("threshold and costs each say which class is predicted; give one of them")
        if threshold is not None and not 0 <= threshold <= 1:
            raise ValueError(f"threshold is a probability, from 0 to 1; got {threshold!r}")
        if threshold is not None and pos_label is None and n_classes != 2:
            raise ValueError(
                "threshold is of the second of two classes, or of pos_label; give pos_label, one of "
                f"{listed(model.known_labels.tolist())}"
            )
        matrix = None if costs is None else np.asarray(costs, dtype=np.float64)
        if matrix is not None and matrix.shape != (n_classes, n_classes):
            raise ValueError(
                "costs has a row for each true class and a column for each predicted one, in the order of "
                f"classes_: shape ({n_classes}, {n_classes}); got {matrix.shape}"
            )
        if matrix is not None and not np.isfinite(matrix).all():
            raise ValueError("costs has a value that is NaN or infinite")
        return cls(threshold, matrix, positive)

    def ranked(self, scores: Array, n_best: int = 1) -> NDArray[np.intp]:
        """The positions of the `n_best` classes of each row, the predicted one first: (n, n_best)."""
        return largest(self._gains(scores), n_best)

    def _gains(self, scores: Array) -> Array:
        if self.costs is not None:
            return posteriors(scores) @ -self.costs
        if self.threshold is not None:
            gains = posteriors(scores)
            is_positive = gains[:, self.positive] >= self.threshold
            gains[:, self.positive] = np.where(is_positive, np.inf, -np.inf)
            return gains
        return scores

    @property
    def is_by_posterior(self) -> bool:
        """Whether the most likely class is predicted."""
        return self.costs is None and self.threshold is None


# ---------------------------------------------------------------------- features and checks


def features_of(model: Model) -> list[str] | None:
    """The names of the features that a model was fitted to; None if it was fitted without names."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def maps_and_model(model: Any) -> tuple[Pipeline | None, Any]:
    """The fitted maps of a pipeline of scikit-learn, and the model after them; None where there is no map.

    A search stands for its best model.
    """
    model = getattr(model, "best_estimator_", model)
    if not isinstance(model, Pipeline):
        return None, model
    return (model[:-1] if len(model) > 1 else None), model[-1]


def _steps_of(maps: Pipeline | None) -> tuple[ComputedColumns | None, StoredRows | None, Pipeline | None]:
    """The step that computes features, the one that takes rows as they are stored, and the maps after."""
    steps = [] if maps is None else [step for _, step in maps.steps]
    computing = next((step for step in steps[:1] if isinstance(step, ComputedColumns)), None)
    first = int(computing is not None)
    rows = next((step for step in steps[first : first + 1] if isinstance(step, StoredRows)), None)
    first += rows is not None
    return computing, rows, None if maps is None or first == len(steps) else maps[first:]


def snapshot(model: Any) -> Any:
    """A copy of a model, so that all rows are scored by what it has learnt by now.

    Raises
    ------
    TypeError
        For any object but a model.
    NotFittedError
        If it is not fitted.
    """
    if not isinstance(model, GaussianClassifier):
        raise TypeError(
            f"a model of this project is needed, got {type(model).__name__}; load reads one from a file, and "
            "Evaluation.update takes the scores of any classifier"
        )
    return model.snapshot()


def columns_of(fitted: Any) -> tuple[list[str] | None, Any]:
    """The columns that a model, maps before it or statistics were fitted to, and how they are encoded."""
    maps, model = maps_and_model(fitted)
    step, _, rest = _steps_of(maps)
    if maps is not None and rest is not None:
        return (features_of(maps) if step is None else step.to_scan), "auto"
    schema = getattr(model, "statistics_", model).schema_of_rows
    names = features_of(model) or (schema.names and list(schema.names))
    encoding = KnownDates(schema.encoding, schema.dates) if schema.dates else schema.encoding
    return (names if step is None else step.to_scan), encoding


def scan_for(model: Any, data: Any, target: Any = None, weight: Any = None) -> Source:
    """A source as it is, or the scan of the columns that a model, or maps before it, were fitted to."""
    features, encoding = columns_of(model)
    return as_source(data, target, weight, features=features, encoding=encoding)


S = TypeVar("S", bound=Source)


def _made_by(steps: Pipeline, source: S, model: Model) -> S:
    """The source with the features that the steps of a pipeline before its model make."""
    step, rows, maps = _steps_of(steps)
    if step is not None:
        computing = source.with_computed(step.referenced, step.computed)
        check_known(step.features, computing.feature_names or (), repr(source))
        source = computing.with_features(step.features)
    elif rows is not None and source.feature_names is not None:
        check_known(rows.schema.names, source.feature_names, repr(source))
        source = source.with_features(rows.schema.names)
    if maps is None:
        return source
    names = features_of(model) or [f"x{i}" for i in range(model.n_features_in_)]
    return cast("S", source.map(maps, names))


def with_features_of(model: Model, source: S, maps: Pipeline | None = None) -> S:
    """The source with the features of the model, in its order. They are matched by name if both have names.

    With `maps`, the features are computed first, or go through them.

    Raises
    ------
    ValueError
        If a feature is missing; or, without names, if the number of features differs.
    """
    ours = features_of(model)
    source = source.with_kinds_of(model.statistics_)
    if maps is not None:
        source = _made_by(maps, source, model)
    theirs = source.feature_names
    if ours is None or theirs is None:
        if source.n_features not in {None, model.n_features_in_}:
            raise ValueError(
                f"{source!r} has {counted(source.n_features, 'feature')}, the model was fitted to "
                f"{model.n_features_in_}; name them where it is scanned"
            )
        return source
    schema = model.statistics_.schema_of_rows
    for name in ours:
        if name not in theirs:
            raise ValueError(
                f"{source!r} does not have feature {name!r} of the model; scan it with "
                "features=list(model.feature_names_in_)"
                + (f", and {by_names(schema.encoded)}" if schema.encoded else "")
            )
    matching = source if list(theirs) == ours else source.with_features(ours)
    matching = matching.with_dates(schema.dates) if schema.dates else matching
    if matching.encoded != schema.encoded:
        wrong = sorted(set(matching.encoded) ^ set(schema.encoded))
        raise ValueError(
            f"the model and {source!r} differ in how they read {listed(wrong)}; scan it "
            f"{by_names(schema.encoded)}"
        )
    return matching
