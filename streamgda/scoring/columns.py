"""What is asked of a model about each row, and its answers as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamgda.blocks.block import Block
from streamgda.blocks.labels import code_dtype
from streamgda.scoring.inference import Model, judged_pieces
from streamgda.scoring.outputs.base import Field

Column = Literal["label", "probabilities", "log_density", "distance"]


@dataclass(frozen=True)
class Questions:
    """A model, and what it is asked."""

    model: Model
    columns: tuple[Column, ...]

    @classmethod
    def checked(cls, model: Model, columns: Sequence[Column]) -> Questions:
        """The questions, each once.

        Raises
        ------
        ValueError
            If they are not some of those that there are.
        """
        choices = get_args(Column)
        if isinstance(columns, str) or not columns or not set(columns) <= set(choices):
            raise ValueError(f"columns must be some of {', '.join(map(repr, choices))}; got {columns!r}")
        return cls(model, tuple(dict.fromkeys(columns)))

    @property
    def fields(self) -> list[Field]:
        """What the answers are called, and their types."""
        classes = self.model.classes_
        probabilities = tuple(f"probability_{label}" for label in classes)
        number = pa.float64()
        fields = {
            "label": Field("predicted_label", ("predicted_label",), pa.array(classes).type),
            "probabilities": Field("probabilities", probabilities, number, {"classes": classes.tolist()}),
            "log_density": Field("log_density", ("log_density",), number),
            "distance": Field("distance", ("distance",), number),
        }
        return [fields[column] for column in self.columns]

    @property
    def names(self) -> list[str]:
        """The columns that the answers come in."""
        return [name for field in self.fields for name in field.columns]

    def answers(self, block: Block, labels_of: Callable[[NDArray[Any]], Any]) -> dict[str, Any]:
        """The columns of answers on the rows of a block, by name.

        Parameters
        ----------
        block : Block
            Rows.
        labels_of : callable
            Makes labels of their positions among the classes.

        Raises
        ------
        ValueError
            If a row cannot be judged; the message says which.
        """
        n_rows, n_classes = len(block.codes), len(self.model.classes_)
        codes = np.empty(n_rows, dtype=code_dtype(n_classes))
        probabilities = np.empty((n_classes if "probabilities" in self.columns else 0, n_rows))
        density, distance = np.empty((2, n_rows))
        wanted = {"log_density": "log_density" in self.columns, "distance": "distance" in self.columns}
        for piece, verdicts in judged_pieces(self.model, block, **wanted):
            codes[piece] = verdicts.codes
            if len(probabilities):
                probabilities[:, piece] = verdicts.probabilities.T
            if verdicts.log_density is not None:
                density[piece] = verdicts.log_density
            if verdicts.distance is not None:
                distance[piece] = verdicts.distance
        made: dict[Column, Sequence[Any]] = {
            "label": [labels_of(codes)],
            "probabilities": list(probabilities),
            "log_density": [density],
            "distance": [distance],
        }
        values = [values for column in self.columns for values in made[column]]
        return dict(zip(self.names, values, strict=True))
