"""The columns of predictions: a table of their names, types and values, computed for slices of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from streamgda.data.blocks.block import FILL_IN, Block
from streamgda.data.blocks.labels import Labels, code_dtype
from streamgda.data.storage.identity import UNTOLD
from streamgda.jobs.scoring.inference import Decision, Model, score_slice, slices_of
from streamgda.jobs.scoring.outputs.base import Field
from streamgda.models.estimators.classifier import checked_quantile
from streamgda.models.estimators.contributions import Reasons
from streamgda.models.estimators.scores import RowScores
from streamgda.models.gaussians.posteriors import Array, largest

_BYTES_TOGETHER = 1 << 25

_OF_ANY_LENGTH = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())

ColumnName = Literal["label", "probabilities", "log_density", "distance", "set", "reasons"]


@dataclass(frozen=True)
class Column:
    """How one kind of column of predictions is named and computed.

    Attributes
    ----------
    fields : callable
        Returns its fields, which have one type, for the columns to predict.
    values : callable
        Returns its values for these columns and the scores of n rows: (n,), or (n, number of columns).
    dtype : callable, optional
        Returns the type of these values, if it is not that of the fields.
    named : callable
        Returns what is written, from the columns to predict and their values, (number of columns, n), in
        which classes and features are positions.
    """

    fields: Callable[[PredictionColumns], list[Field]]
    values: Callable[[PredictionColumns, RowScores], NDArray[Any]]
    dtype: Callable[[PredictionColumns], Any] | None = None
    named: Callable[[PredictionColumns, NDArray[Any]], Iterable[Any]] = lambda _, values: values


def _number(name: str) -> Callable[[PredictionColumns], list[Field]]:
    return lambda _: [Field(name, (name,), pa.float64())]


def _for_each_class(name: str, prefix: str, kind: pa.DataType) -> Callable[[PredictionColumns], list[Field]]:
    def fields(columns: PredictionColumns) -> list[Field]:
        names = tuple(f"{prefix}_{label}" for label in columns.labels)
        return [Field(name, names, kind, {"classes": columns.labels.tolist()})]

    return fields


def _labels(columns: PredictionColumns) -> list[Field]:
    ranks = range(2, min(columns.top, len(columns.labels)) + 1)
    names = ["predicted_label", *(f"predicted_label_{rank}" for rank in ranks)]
    return [Field(name, (name,), pa.array(columns.labels).type) for name in names]


def _ranked(columns: PredictionColumns, scores: RowScores) -> NDArray[np.intp]:
    n_best = min(columns.top, len(columns.labels))
    if columns.decision.is_by_posterior:
        return scores.best(n_best)
    return columns.decision.ranked(scores.posterior_scores, n_best)


def _reasons(columns: PredictionColumns) -> list[Field]:
    ranks = range(1, min(columns.top, len(columns.reasons.names)) + 1)
    kinds = {"reason": pa.string(), "contribution": pa.float64()}
    return [Field(f"{name}_{i}", (f"{name}_{i}",), kind) for i in ranks for name, kind in kinds.items()]


def _strongest(columns: PredictionColumns, scores: RowScores) -> Array:
    """The positions and values of the strongest contributions to the odds of the predicted class, in turn."""
    values = columns.reasons.of_rows(scores, _ranked(columns, scores)[:, 0])
    best = largest(np.abs(values), min(columns.top, values.shape[1]))
    return np.stack([best, np.take_along_axis(values, best, axis=1)], axis=2).reshape(len(values), -1)


def _with_names(columns: PredictionColumns, values: Array) -> Iterator[Any]:
    names = pa.array(columns.reasons.names)
    for positions, contributions in zip(values[::2], values[1::2], strict=True):
        yield names.take(pa.array(positions.astype(np.intp)))
        yield contributions


COLUMNS: dict[str, Column] = {
    "label": Column(
        _labels,
        _ranked,
        lambda columns: code_dtype(len(columns.labels)),
        lambda columns, codes: map(pa.array(columns.labels).take, map(pa.array, codes)),
    ),
    "probabilities": Column(
        _for_each_class("probabilities", "probability", pa.float64()), lambda _, scores: scores.probabilities
    ),
    "log_density": Column(_number("log_density"), lambda _, scores: scores.log_density),
    "distance": Column(_number("distance"), lambda _, scores: scores.distance),
    "set": Column(
        _for_each_class("set", "in_set", pa.bool_()),
        lambda columns, scores: scores.log_odds >= columns.least_odds,
    ),
    "reasons": Column(_reasons, _strongest, lambda _: np.float64, _with_names),
}


@dataclass(frozen=True)
class PredictionColumns:
    """The columns to predict, and the model."""

    model: Model = field(metadata=UNTOLD)
    columns: tuple[ColumnName, ...]
    decision: Decision
    top: int
    least_odds: Array

    @classmethod
    def of(
        cls,
        model: Model,
        columns: Sequence[ColumnName],
        decision: Decision,
        top: int,
        quantile: ArrayLike | None,
    ) -> PredictionColumns:
        """The columns of these names, without repetitions.

        Raises
        ------
        ValueError
            If a name is unknown, or there is none.
        """
        if isinstance(columns, str) or not columns or not set(columns) <= COLUMNS.keys():
            raise ValueError(f"columns must be some of {', '.join(map(repr, COLUMNS))}; got {columns!r}")
        n_classes = len(model.known_labels)
        ranked = {"labels": n_classes} if "label" in columns else {}
        if "reasons" in columns:
            ranked["reasons"] = len(Reasons.of(model).names)
        if top > 1 and not ranked:
            raise ValueError(f"top={top} writes labels, so columns must have 'label'; got {columns!r}")
        if not (decision.is_by_posterior or ranked):
            raise ValueError(
                f"threshold and costs choose labels, so columns must have 'label'; got {columns!r}"
            )
        most = max(ranked.values(), default=n_classes)
        if not 1 <= top <= most:
            what = " and ".join(ranked) or "labels"
            raise ValueError(f"top is a number of {what}, from 1 to {most}; got {top!r}")
        if (quantile is None) != ("set" not in columns):
            raise ValueError(
                "the column 'set' needs a quantile, as Evaluation.conformal_quantile returns it, and a "
                f"quantile needs this column; got quantile={quantile!r} and columns={columns!r}"
            )
        least_odds = np.array(-np.inf) if quantile is None else checked_quantile(quantile, n_classes)
        return cls(model, tuple(dict.fromkeys(columns)), decision, top, least_odds)

    @cached_property
    def labels(self) -> Labels:
        """The labels of the classes."""
        return self.model.known_labels

    @cached_property
    def reasons(self) -> Reasons:
        """The contributions of the model."""
        return Reasons.of(self.model)

    @cached_property
    def fields(self) -> list[Field]:
        """The names and types of the columns."""
        return [field for _, fields in self._entries for field in fields]

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns in a table."""
        return [name for field in self.fields for name in field.columns]

    def compute(self, block: Block) -> dict[str, Any]:
        """The columns of the rows of a block, by name.

        Raises
        ------
        ValueError
            If a row cannot be scored. The message says which.
        """
        entries = self._entries
        arrays = [
            np.empty(
                (sum(len(field.columns) for field in fields), len(block.codes)),
                fields[0].type.to_pandas_dtype() if column.dtype is None else column.dtype(self),
            )
            for column, fields in entries
        ]
        is_best_alone = self.columns == ("label",) and self.decision.is_by_posterior
        remedy = FILL_IN if "reasons" in self.columns else None
        for where in slices_of(block, 1 if is_best_alone else len(self.labels)):
            for scores in score_slice(self.model, block, where, remedy=remedy):
                for (column, _), array in zip(entries, arrays, strict=True):
                    array[:, where][:, scores.positions] = column.values(self, scores).T
        columns = [
            written
            for (column, _), array in zip(entries, arrays, strict=True)
            for written in column.named(self, array)
        ]
        return dict(zip(self.names, columns, strict=True))

    @cached_property
    def _entries(self) -> list[tuple[Column, list[Field]]]:
        return [(COLUMNS[name], COLUMNS[name].fields(self)) for name in self.columns]


def cut_to_write(
    block: Block, beside: Mapping[str, pa.Array | NDArray[Any]], n_columns: int, schema: pa.Schema
) -> Iterator[tuple[Block, dict[str, pa.Array]]]:
    """Cut a block into blocks of about 32 MB of predictions and kept columns. Yield at least one, in order.

    Parameters
    ----------
    block : Block
        Rows.
    beside : mapping of str to Arrow or NumPy arrays
        Columns of the same rows.
    n_columns : int
        How many columns of predictions there will be, of eight bytes a value.
    schema : pyarrow.Schema
        The types that the columns will have; strings in a dictionary may become strings.
    """
    columns = {name: pa.array(values) for name, values in beside.items()}
    n_bytes = np.full(len(block.codes), 8.0 * n_columns)
    for name, column in columns.items():
        n_bytes += _bytes_of_rows(column, schema.field(name).type)
    cuts = np.flatnonzero(np.diff(n_bytes.cumsum() // _BYTES_TOGETHER)) + 1
    for start, stop in pairwise([0, *cuts.tolist(), len(n_bytes)]):
        yield block.between(start, stop), {name: column[start:stop] for name, column in columns.items()}


def _bytes_of_rows(column: pa.Array, kind: pa.DataType) -> float | NDArray[np.float64]:
    """The bytes of each row of a column; the mean, if all rows take about as many."""
    is_decoded = pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(kind)
    values = column.dictionary if is_decoded else column
    if values.type not in _OF_ANY_LENGTH:
        return float(column.nbytes / max(len(column), 1))
    lengths: NDArray[np.float64] = pc.fill_null(pc.binary_length(values), 0).to_numpy().astype(np.float64)
    return lengths[pc.fill_null(column.indices, 0).to_numpy()] if is_decoded and len(lengths) else lengths
