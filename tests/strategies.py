"""Random labelled rows for Hypothesis: any labels, any scale, any cut into batches."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from streamgda import (
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)

KINDS = ("full", "tied", "diag")
MODELS = [GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis]
FOUR_MODELS = [*MODELS, GaussianDiscriminantAnalysis]

kinds = st.sampled_from(KINDS)
label_sets = st.sampled_from([[0, 1, 2], [-5, 7, 10**12], ["a", "bb", "c"], [False, True]])


@st.composite
def labelled_rows(draw, min_rows=1, max_rows=30, max_features=4):
    """(X, y): well-scaled values on a random offset and unit for each feature."""
    n_rows = draw(st.integers(min_rows, max_rows))
    n_features = draw(st.integers(1, max_features))
    values = st.floats(-4, 4, width=32)
    X = draw(hnp.arrays(np.float64, (n_rows, n_features), elements=values))
    offset = draw(hnp.arrays(np.float64, n_features, elements=st.sampled_from([0.0, 1.0, -1e4, 1e8])))
    unit = draw(hnp.arrays(np.float64, n_features, elements=st.sampled_from([1e-3, 1.0, 1e5])))
    labels = draw(label_sets)
    codes = draw(hnp.arrays(np.int64, n_rows, elements=st.integers(0, len(labels) - 1)))
    return X * unit + offset * unit, np.array(labels)[codes]


@st.composite
def partitions(draw, n_rows):
    """The rows in any order, cut anywhere, parts without rows included."""
    order = draw(st.permutations(range(n_rows)))
    cuts = sorted(draw(st.lists(st.integers(0, n_rows), max_size=6)))
    return np.split(np.array(order, dtype=np.intp), cuts)
