"""Pipelines that end in a model: they are saved as models are, if their steps are of this library."""

from __future__ import annotations

from textwrap import indent
from typing import Any

from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from streamgda.data.sources.computed import ComputedColumns
from streamgda.data.sources.maps.rows import StoredRows
from streamgda.data.storage import saving
from streamgda.statistics.base import Statistics


class ModelPipeline(Pipeline):
    """A pipeline of scikit-learn whose last step is a model, and which `save` keeps as one file."""

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        steps = ",\n".join(f"({name!r}, {step!r})" for name, step in self.steps)
        return f"{type(self).__name__}([{indent(steps, ' ' * 15).lstrip()}])"

    @property
    def statistics_(self) -> Statistics:
        """What the model has learnt."""
        statistics: Statistics = self[-1].statistics_
        return statistics

    save = saving.save
    to_bytes = saving.to_bytes

    def _to_saved(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        (*before, (_, model)) = self.steps
        document: dict[str, Any] = {"name": "Pipeline", "params": {}}
        for _, step in before:
            if isinstance(step, StoredRows):  # a map follows, which the error names
                continue
            if not isinstance(step, ComputedColumns):
                raise TypeError(
                    f"{step!r:.80} is of another library, and load runs no code of files; "
                    "joblib.dump(pipeline, path) saves it, and the command line reads it as NAME.joblib"
                )
            document["columns"] = step.get_params()
        columns, metadata = model._to_saved()
        return columns, {**metadata, "model": {**document, "model": metadata["model"]}}
