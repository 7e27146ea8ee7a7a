"""Fitted models of scikit-learn that take frames with categories."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from streamgda.categories.columns import Categories


def one_hot_pipeline(peer: Any, categories: Categories) -> Pipeline:
    """A pipeline that takes frames, encodes their categories as dummies, and ends with a fitted peer."""
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import OneHotEncoder

    known: list[Any] = []
    for values in categories.values:
        is_text = any(isinstance(value, str) for value in values)
        plain = [np.nan if value is None else value for value in values]
        known.append(np.array(plain, dtype=object if is_text else None))
    encoder = OneHotEncoder(categories=known, handle_unknown="ignore", sparse_output=False)
    numbers, others = list(categories.numbers), list(categories.columns)
    columns = ColumnTransformer([("numbers", "passthrough", numbers), ("categories", encoder, others)])
    row = pd.DataFrame({name: values[:1] for name, values in zip(others, known, strict=True)})
    columns.fit(row.assign(**dict.fromkeys(numbers, 0.0))[list(categories.names)])
    peer.n_features_in_ = len(categories.feature_names)
    peer.__dict__.pop("feature_names_in_", None)
    return Pipeline([("columns", columns), ("model", peer)])
