"""Score a Dask collection: a lazy DataFrame of what the model says of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamgda.blocks.block import Block
from streamgda.estimators.lazy import as_it_is, check_lazy
from streamgda.scoring.columns import Questions
from streamgda.sources.roles import check_known


def lazy_answers(questions: Questions, rows: Any, keep: Sequence[str]) -> Any:
    """A dask DataFrame with the columns kept and those asked for, partition by partition.

    Parameters
    ----------
    questions : Questions
        Whose model is taken as it is now.
    rows : dask DataFrame or dask array
        Rows; of a DataFrame, those columns are read that are features of the model or are kept.
    keep : sequence of str
        Columns of a DataFrame.

    Raises
    ------
    ValueError
        If columns are missing, or are not those of the model.
    """
    model = questions.model
    if not hasattr(rows, "columns"):
        check_lazy(model, rows)
        rows = _as_frame(model, rows, keep)
    features = _features_of(model, rows, keep)
    if hasattr(model, "feature_names_in_"):
        check_lazy(model, rows[features])
    answer = _Answer(replace(questions, model=as_it_is(model)), tuple(features), tuple(keep))
    read = rows[list(dict.fromkeys((*features, *keep)))]
    return read.map_partitions(answer, meta=answer(read._meta))


@dataclass(frozen=True)
class _Answer:
    """What becomes of a partition, which may have no rows."""

    questions: Questions
    features: tuple[Any, ...]
    keep: tuple[str, ...]

    def __call__(self, frame: Any) -> Any:
        import pandas as pd

        classes = self.questions.model.classes_
        answers = self.questions.answers(self._block(frame[list(self.features)]), classes.__getitem__)
        return pd.DataFrame({**{name: frame[name] for name in self.keep}, **answers}, index=frame.index)

    def _block(self, frame: Any) -> Block:
        model, rows = self.questions.model, np.empty((0, len(self.features)))
        if len(frame):
            named = hasattr(model, "feature_names_in_")
            rows = model._rows_of(frame if named else frame.to_numpy(), missing=model.missing)
        return Block(rows, np.zeros(1, np.int64), np.zeros(len(rows), np.uint8))


def _as_frame(model: Any, rows: Any, keep: Sequence[str]) -> Any:
    import dask.dataframe as dd

    if keep:
        raise ValueError(f"a dask array has no columns to keep; got {list(keep)}")
    return dd.from_dask_array(rows.rechunk({1: -1}), columns=getattr(model, "feature_names_in_", None))


def _features_of(model: Any, rows: Any, keep: Sequence[str]) -> list[Any]:
    """The features of the model by name; where they have no names, all columns but those kept."""
    known = list(rows.columns)
    for name in (*getattr(model, "feature_names_in_", ()), *keep):
        check_known(name, known, "the data frame")
    features = list(getattr(model, "feature_names_in_", [name for name in known if name not in keep]))
    if len(features) != model.n_features_in_:
        raise ValueError(
            f"the data frame has {len(features)} columns besides those kept, and the model was fitted to "
            f"{model.n_features_in_} features"
        )
    return features
