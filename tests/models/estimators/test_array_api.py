"""Arrays of other libraries in the memory of the host, without scikit-learn's dispatch by array API."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from streamgda import LinearDiscriminantAnalysis, evaluate
from streamgda.models.estimators import ESTIMATORS, estimator_named

xp = pytest.importorskip("array_api_strict")

X, Y = load_iris(return_X_y=True)
ROWS, LABELS = xp.asarray(X), xp.asarray(Y)
BOTH = (X, Y), (ROWS, LABELS)
METHODS = [
    *("predict", "predict_proba", "predict_log_proba", "decision_function"),
    *("score_samples", "mahalanobis", "p_values", "transform"),
]


@pytest.mark.slow_cases("Random", "GaussianDisc")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_rows_of_another_library_are_learnt_and_predicted_in_numpy(name):
    kind = estimator_named(name)
    model, expected = kind().fit(ROWS, LABELS), kind().fit(X, Y)
    assert model.statistics_ == expected.statistics_
    for method in METHODS:
        if hasattr(model, method):
            found = getattr(model, method)(ROWS)
            assert type(found) is np.ndarray
            np.testing.assert_array_equal(found, getattr(expected, method)(X))
    np.testing.assert_array_equal(model.predict_set(ROWS, 0.0), expected.predict_set(X, 0.0))
    assert model.score(ROWS, LABELS) == expected.score(X, Y)
    assert evaluate(model, ROWS, LABELS).accuracy == expected.score(X, Y)
    weighted = kind().fit(ROWS, LABELS, sample_weight=xp.ones(150) * 2.0)
    assert weighted.statistics_ == kind().fit(X, Y, sample_weight=np.full(150, 2.0)).statistics_
    streams = [kind().partial_fit(x[::2, :], y[::2]).partial_fit(x[1::2, :], y[1::2]) for x, y in BOTH]
    assert streams[0].statistics_ == streams[1].statistics_


def test_what_is_missing_is_named():
    rows = xp.asarray(np.where(X > 7, np.nan, X))
    model = LinearDiscriminantAnalysis().fit(ROWS, LABELS)
    with pytest.raises(ValueError, match="row 102: feature 0 is NaN or null"):
        model.predict(rows)
