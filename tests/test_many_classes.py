"""Beside many classes, scores lie side by side in memory; rows keep their bits wherever they stand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from streamgda import GaussianNB, LinearDiscriminantAnalysis, evaluate


@pytest.mark.parametrize("n_classes", [63, 64, 130])
@pytest.mark.parametrize("estimator", [LinearDiscriminantAnalysis, GaussianNB])
def test_a_row_has_the_same_bits_alone_and_in_any_block(estimator, n_classes):
    rng = np.random.default_rng(0)
    y = np.arange(5 * n_classes) % n_classes
    X = rng.normal(size=(n_classes, 9))[y] + rng.normal(size=(len(y), 9))
    model = estimator().fit(X, y)
    whole = model.predict_proba(X)
    for start, stop in [(0, 1), (7, 8), (3, 5), (10, 59), (1, len(X))]:
        assert_array_equal(model.predict_proba(X[start:stop]), whole[start:stop])
    assert_allclose(whole, softmax(model.predict_log_proba(X), axis=1), rtol=1e-12)
    assert evaluate(model, X, y).accuracy == model.score(X, y)
