"""Rows in memory to predict: checked, and as an array."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from streamgda.blocks.arrays import check_in_memory, check_readable, real
from streamgda.blocks.frames import column_labels
from streamgda.blocks.wording import Message
from streamgda.estimators.validation import check_batch, check_has_learnt, named_as_fitted, valid_rows

MissingAtPrediction = Literal["raise", "marginal"]

PREDICT_INCOMPLETE = Message(
    "let the model predict by the features that are there: ⟨set_params(|⟩⟨missing='marginal'⟩⟨)|⟩"
)

_OF_PARQUET = "; more rows than fit in memory are predicted from Parquet, by predict_dataset"


def check_rows(
    model: Any,
    X: Any,
    *,
    missing: MissingAtPrediction | None = None,
    other_remedy: str = PREDICT_INCOMPLETE,
) -> NDArray[Any]:
    """Validate rows in memory, and return them as an array that `score_rows` takes.

    Parameters
    ----------
    model : estimator
        Fitted.
    X : array-like of shape (n_rows, n_features)
        Rows.
    missing : {"raise", "marginal"}, optional
        Whether NaN may mark a missing value. If None, the parameter of the model.
    other_remedy : str
        What to do about a missing value but to leave out such rows, in the terms of the caller.

    Raises
    ------
    ValueError
        If a value is infinite, or NaN and `missing` is not "marginal"; or if the features are not those of
        the model.
    TypeError
        If the rows are not in memory.
    """
    missing = missing or model.missing
    check_batch(X)
    check_has_learnt(model)
    check_in_memory(X, _OF_PARQUET)
    valid = valid_rows(model, X)
    if valid is not None and _are_finite(valid, missing):
        return valid
    X = named_as_fitted(model, X)
    if column_labels(X) is not None:  # names first: a column that is not a feature may have any type
        validate_data(model, X, reset=False, skip_check_array=True)
    check_readable(X)
    finite = "allow-nan" if missing == "marginal" else True
    rows: NDArray[Any]
    with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn sums the values to find NaN
        try:
            rows = validate_data(model, X, reset=False, ensure_all_finite=finite)
        except ValueError:
            if missing == "raise":
                rows = validate_data(model, X, reset=False, ensure_all_finite=False)
                _raise_for_missing(model, real(rows, "X"), other_remedy)
            raise
    if rows.dtype.kind == "O":  # as of a list with None, or of Arrow's bools with nulls
        rows = real(rows, "X")
        if missing == "raise":
            _raise_for_missing(model, rows, other_remedy)
    return rows


def _are_finite(rows: NDArray[Any], missing: MissingAtPrediction) -> bool:
    """Whether all values are certainly finite, as their sum is; or NaN, where that may be missing."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(rows.sum())) or (missing == "marginal" and not np.isinf(rows).any())


def _raise_for_missing(model: Any, rows: NDArray[Any], other_remedy: str) -> None:
    """Raise a ValueError that names the first NaN, if there is one."""
    for row, index in np.argwhere(np.isnan(rows))[:1]:
        name = repr(model.feature_names_in_[index]) if hasattr(model, "feature_names_in_") else index
        raise ValueError(
            Message(
                f"row {row}: feature {name} is NaN or null. Mend the data or leave out such rows; or ",
                other_remedy,
            )
        )
