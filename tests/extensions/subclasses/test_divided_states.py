"""Rows are divided among centres of subclasses whatever rows stand beside them, in bounded memory."""

import numpy as np
import pytest

from streamgda.extensions.subclasses import centers
from streamgda.extensions.subclasses.centers import SubclassCenters
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.required import Required


@pytest.mark.parametrize("exact", [False, True])
def test_rows_between_two_centers_go_to_the_first_however_batches_are_cut(exact):
    rule = SubclassCenters({0: [[3.0, 2.0], [2.0, 1.0]]}, 4.25 * np.eye(2))
    X = np.array([(0, 1), (0, 1), (1, 3), (1, 0), (0, 2), (1, 1), (1, 0), (2, 1)], float)
    whole, by_row = (empty_statistics(Required("full", exact=exact), rule=rule) for _ in range(2))
    whole.update(X, [0] * 8)
    for row in X:
        by_row.update([row], [0])
    assert whole.counts.tolist() == by_row.counts.tolist() == [1, 7]  # (1, 3) is as near to both
    assert (whole - by_row).n_rows == 0


@pytest.mark.slow
def test_rows_of_any_batch_have_the_same_centers():
    rng = np.random.default_rng(0)
    for _ in range(10):
        d, n_centers = rng.integers(1, 6), rng.integers(2, 6)
        A = rng.integers(-2, 3, (d, d))
        rule = SubclassCenters({0: rng.integers(-3, 4, (n_centers, d))}, A @ A.T + 4.25 * np.eye(d))
        X = rng.integers(-4, 5, (40, d)) * 1.0
        X[rng.random(X.shape) < 0.1] = np.nan
        X = X[~np.isnan(X).all(axis=1)]
        states = [empty_statistics(Required("diag"), missing="marginal", rule=rule) for _ in range(3)]
        for state, n_parts in zip(states, (1, 7, len(X)), strict=True):
            for part in np.array_split(X, n_parts):
                state.update(part, [0] * len(part))
        assert len({str(state.counts) for state in states}) == 1


def test_slopes_of_many_patterns_take_little_memory(monkeypatch):
    monkeypatch.setattr(centers, "_MOST_SLOPES", 1000)
    rng = np.random.default_rng(0)
    rule = centers.SubclassCenters({0: rng.normal(size=(2, 12))}, np.ones(12))
    X = np.where(rng.random((500, 12)) < 0.5, np.nan, 1.0)
    empty_statistics(Required("diag"), missing="marginal", rule=rule).update(X, [0] * 500)
    assert sum(slopes.size for _, slopes, *_ in rule._slopes.values()) < 2 * 1000


def test_one_class_has_no_subclasses():
    state = empty_statistics(Required(), rule=SubclassCenters({0: [[0.0], [9.0]]}, [[1.0]]))
    state.update([[1.0], [8.0]], [0, 0])
    one = state.as_one_class()
    assert one.rule is None
    assert one.update([[3.0]], [0]).counts.tolist() == [3]
