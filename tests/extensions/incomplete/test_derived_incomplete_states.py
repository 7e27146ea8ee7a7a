"""States of other features, labels and units, where features are missing in the rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgda import IncompleteStatistics
from tests.contracts.test_laws import agree
from tests.extensions.incomplete.test_incomplete_statistics import holed_rows, parts
from tests.extensions.incomplete.test_learning_incomplete_rows import holed
from tests.strategies import kinds


def assert_agree(a, b, X):
    """Check that states have the same patterns, and for each the same sums up to rounding."""
    assert a.classes.tolist() == b.classes.tolist()
    assert a.counts.tolist() == b.counts.tolist()
    ours, theirs = parts(a), parts(b)
    assert ours.keys() == theirs.keys()
    for features, statistics in ours.items():
        if features:
            assert agree(statistics, theirs[features], np.nan_to_num(X[:, list(features)]))


@pytest.mark.slow_cases("True")
@pytest.mark.parametrize("exact", [False, True])
@given(kinds, holed_rows(), st.data())
def test_some_features_are_those_of_rows_read_with_them_alone(exact, kind, data, draw):
    X, y = data
    features = draw.draw(st.permutations(range(X.shape[1])))[: draw.draw(st.integers(1, X.shape[1]))]
    chosen = IncompleteStatistics(kind, exact=exact).update(X, y).select(features)
    direct = IncompleteStatistics(kind, exact=exact).update(X[:, features], y)
    assert chosen.counts.tolist() == direct.counts.tolist()
    assert chosen.weights.tolist() == direct.weights.tolist()
    if kind != "diag" or len(features) == 1:
        assert_agree(chosen, direct, X[:, features])
        assert not exact or chosen == direct
    elif not direct.reasons:
        np.testing.assert_allclose(chosen.means, direct.means, rtol=1e-14)
        spread = np.nanmax(np.abs(X), initial=0)
        np.testing.assert_allclose(
            chosen.covariance(), direct.covariance(), rtol=1e-9, atol=(1e-15 * spread) ** 2
        )


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
@given(kinds, holed_rows())
def test_other_labels_are_those_of_rows_read_with_them(exact, kind, data):
    X, y = data
    labels = np.unique(y)
    new = labels[np.arange(len(labels)) // 2]  # two become one
    mapping = dict(zip(labels.tolist(), new.tolist(), strict=True))
    renamed = IncompleteStatistics(kind, exact=exact).update(X, y).relabel(mapping)
    direct = IncompleteStatistics(kind, exact=exact).update(X, new[np.searchsorted(labels, y)])
    assert_agree(renamed, direct, X)
    assert not exact or renamed == direct
    one = IncompleteStatistics(kind, exact=exact).update(X, y).as_one_class()
    assert_agree(one, IncompleteStatistics(kind, exact=exact).update(X, np.zeros(len(X), int)), X)


def test_names_go_with_the_features():
    X, y = holed(50)
    state = IncompleteStatistics(feature_names=list("abcd")).update(X, y).select(["d", "a"])
    assert state.feature_names == ("d", "a")
    assert state.allclose(IncompleteStatistics(feature_names=["d", "a"]).update(X[:, [3, 0]], y))
    state.update(X[:, [3, 0]], y)
    assert state.n_rows == 100


def test_a_linear_map_is_that_of_the_completed_statistics():
    X, y = holed(200)
    state = IncompleteStatistics().update(X, y)
    A = np.random.default_rng(0).normal(size=(2, 4))
    with pytest.raises(ValueError, match=r"completed\(\)\.linear_map\(A, b\), or the rows"):
        state.linear_map(A)
    mapped = state.completed().linear_map(A)
    np.testing.assert_allclose(mapped.means, state.means @ A.T, rtol=1e-12)
    np.testing.assert_allclose(mapped.covariance(), A @ state.covariance() @ A.T, rtol=1e-10)
    scaled = IncompleteStatistics().update(X * [1, 2, 4, 8], y)  # the maximum of the likelihood follows units
    diagonal = state.completed().linear_map(np.diag([1, 2, 4, 8]))
    np.testing.assert_allclose(diagonal.covariance(), scaled.covariance(), rtol=1e-6)
