"""The saved model that a command puts to work."""

from __future__ import annotations

from typing import Any

from streamgda.cli.contents import statistics_of
from streamgda.cli.data import Data


def loaded_model(path: str, data: Data | None = None) -> Any:
    """A saved model, which takes rows with missing values as the options of the data say.

    Raises
    ------
    ValueError
        If statistics are saved there, of which a model has yet to be made.
    """
    from streamgda import load

    model = load(path)
    if model is statistics_of(model):
        raise ValueError(
            f"{path} holds statistics and no model; make one of them: "
            f"streamgda merge {path} --model qda --out FILE"
        )
    if data is not None and data.missing is not None:
        model.set_params(missing="marginal" if data.missing == "marginal" else "raise")
    return model
