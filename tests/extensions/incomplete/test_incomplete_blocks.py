"""Blocks of incomplete rows, as a pass reads them one after the other."""

import numpy as np
import pytest

from streamgda import IncompleteStatistics
from streamgda.data.blocks import block as blocks_module
from streamgda.data.blocks.arrays import array_blocks
from tests.strategies import KINDS

nan = float("nan")


def rows(n_rows=3000, d=70, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_rows)
    return rng.normal(size=(n_rows, d)) + y[:, None] + 1e6, y


def reference(X, y):
    """Count, mean and scatter of each class and feature, over the rows that have it; by NumPy."""
    found = {}
    for label in np.unique(y):
        own = X[y == label]
        means = np.nanmean(own, axis=0)
        found[label] = len(own), means, np.nansum((own - means) ** 2, axis=0)
    return found


@pytest.fixture
def short_blocks(monkeypatch):
    """Blocks of 1,024 rows."""
    monkeypatch.setattr(blocks_module, "rows_per_block", lambda n_features, n_classes=1: 1024)


@pytest.mark.slow_cases("True-F-diag", "F-tied")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("exact", "layout"), [(False, "C"), (False, "F"), (False, "float32"), (True, "F")])
def test_a_block_with_holes_may_come_after_complete_ones(short_blocks, kind, exact, layout):
    X, y = rows()
    X[1024 + 700, 3] = X[2500, [5, 69]] = nan  # in rows that no quick look sees
    X[2900] = nan
    if layout == "float32":
        X = X.astype(np.float32)
    given = np.asfortranarray(X) if layout == "F" else X
    state = IncompleteStatistics(kind, exact=exact)
    state.update_blocks(array_blocks(given, y))
    one_by_one = IncompleteStatistics(kind, exact=exact)
    for part in np.array_split(np.arange(len(X)), 7):
        one_by_one.update(X[part], y[part])
    assert state.allclose(one_by_one)
    assert state.n_patterns == (4 if kind != "diag" else 72)
    assert state.counts.tolist() == np.bincount(y).tolist()


@pytest.mark.parametrize("n_patterns", [5, 40])
def test_features_by_themselves_are_those_of_numpy_for_few_and_many_patterns(short_blocks, n_patterns):
    X, y = rows()
    rng = np.random.default_rng(1)
    patterns = rng.random((n_patterns, X.shape[1])) < 0.3
    X[patterns[rng.integers(0, n_patterns, len(X))]] = nan
    state = IncompleteStatistics("diag").update(X, y)
    for k, (count, means, scatter) in enumerate(reference(X, y).values()):
        assert state.counts[k] == count
        np.testing.assert_allclose(state.means[k], means, rtol=1e-14)
        seen = (~np.isnan(X[y == k])).sum(axis=0)
        np.testing.assert_allclose(state.covariance()[k], scatter / seen, rtol=1e-9)


@pytest.mark.parametrize("d", [1, 7, 8, 64, 65, 130])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_every_pattern_is_found_whatever_the_number_of_features(d, layout):
    X, y = rows(n_rows=200, d=d)
    lacking = np.random.default_rng(d).random((7, d)) < 0.5
    X[lacking[np.arange(200) % 7]] = nan
    state = IncompleteStatistics().update(np.asfortranarray(X) if layout == "F" else X, y)
    found = {tuple(features.tolist()): part.n_rows for features, part in state.by_pattern()}
    expected = {}
    for row in X:
        pattern = tuple(np.flatnonzero(~np.isnan(row)).tolist())
        expected[pattern] = expected.get(pattern, 0) + 1
    assert found == expected


@pytest.mark.parametrize("kind", ["tied", "diag"])
def test_a_hole_among_many_short_classes_spoils_no_sums(short_blocks, kind):
    X, _ = rows(n_rows=4096, d=3)
    y = np.arange(4096) % 300
    X[3000, 1] = nan
    state = IncompleteStatistics(kind, max_patterns=2).update(X, y)
    one_by_one = IncompleteStatistics(kind)
    for part in np.array_split(np.arange(4096), 9):
        one_by_one.update(X[part], y[part])
    assert state.allclose(one_by_one)
    assert state.counts.tolist() == np.bincount(y).tolist()
    np.testing.assert_allclose(state.completed().means[1], X[y == 1].mean(axis=0), rtol=1e-14)
