"""Blocks that are added in place: whatever their classes and lengths, what rational arithmetic says."""

from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamgda import ClassStatistics
from streamgda.data.blocks.arrays import array_blocks
from streamgda.data.blocks.block import Block, rows_per_block
from streamgda.statistics.floating import reduction
from tests.reference import close, exact_means, exact_moments, exact_scatter
from tests.strategies import KINDS, kinds, labelled_rows

EPS = np.finfo(np.float64).eps


def in_blocks(kind, X, y, weights, cuts):
    """The state of rows that come in blocks, cut at these rows."""
    bounds = [0, *sorted(cuts), len(X)]
    parts = [slice(start, stop) for start, stop in pairwise(bounds) if stop > start]
    blocks = (array_blocks(X[rows], y[rows], None if weights is None else weights[rows]) for rows in parts)
    state = ClassStatistics(kind)
    state.update_blocks(chain.from_iterable(blocks))
    return state


@given(kinds, labelled_rows(), st.data())
def test_rows_in_any_blocks_are_what_rational_arithmetic_says(kind, data, draw):
    X, y = data
    cuts = draw.draw(st.lists(st.integers(0, len(y)), max_size=5))
    weights = draw.draw(
        st.none() | st.lists(st.integers(0, 3), min_size=len(y), max_size=len(y)).map(np.array)
    )
    assume(weights is None or weights.any())
    state, exact = in_blocks(kind, X, y, weights, cuts), exact_moments(X, y, weights)
    assert state.classes.tolist() == list(exact)
    assert state.weights.tolist() == [float(weight) for weight, _, _ in exact.values()]
    np.testing.assert_allclose(state.means, exact_means(exact), rtol=1e-15, atol=EPS * np.abs(X).max())
    assert close(state.scatter, exact_scatter(exact, kind), kind, X, 1e-11)


def error(state, exact):
    """The largest error of the scatter, on the scale of its features."""
    expected = exact_scatter(exact, state.covariance_type)
    roots = np.sqrt(expected if state.covariance_type == "diag" else np.einsum("...ii->...i", expected))
    scale = roots**2 if state.covariance_type == "diag" else roots[..., :, None] * roots[..., None, :]
    return np.max(np.abs(state.scatter - expected) / np.where(scale == 0, EPS, scale))


def skewed(rng, n_rows):
    """Labels of one class of half the rows, of some of a few rows, and of many of one or two."""
    y = np.concatenate(
        [np.zeros(n_rows // 2, int), rng.integers(1, 20, n_rows // 4), rng.integers(20, n_rows, n_rows // 4)]
    )
    return rng.permutation(y)


@pytest.mark.slow_cases("[1.0-", "100000000.0-tied")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spread", [1.0, 1e8])
def test_long_and_short_classes_at_an_offset_keep_their_digits(kind, spread):
    """Means of 1e8 deviations, all alike or each class far from the others."""
    rng = np.random.default_rng(0)
    y = skewed(rng, 1200)
    centres = 1e8 + spread * rng.integers(-8, 9, size=(1200, 3))
    X = centres[y] + rng.integers(-1000, 1001, size=(len(y), 3)) * 2.0**-9
    state, exact = in_blocks(kind, X, y, None, [300, 301, 700, 900]), exact_moments(X, y)
    assert state.counts.tolist() == [weight for weight, _, _ in exact.values()]
    np.testing.assert_allclose(state.means, exact_means(exact), rtol=1e-15)
    assert error(state, exact) <= 1e-13


def test_a_class_that_begins_far_away_keeps_the_digits_of_its_own_scatter(kind):
    X = np.vstack([[1e8], np.arange(40.0)[:, None] / 8])
    y = np.zeros(len(X), dtype=int)
    state, exact = in_blocks(kind, X, y, None, [1, 5, 6, 30]), exact_moments(X, y)
    np.testing.assert_allclose(state.scatter, exact_scatter(exact, kind), rtol=1e-14)


@pytest.mark.parametrize(("n_rows", "n_classes"), [(200, 90), (6000, 500)])
def test_what_is_constant_in_a_class_does_not_vary_in_any_block(kind, n_rows, n_classes):
    y = np.arange(n_rows) % n_classes
    X = np.column_stack([0.1 * y, np.full(n_rows, 0.3), np.arange(n_rows)])
    state = in_blocks(kind, X, y, None, [n_rows // 4, n_rows // 2, n_rows // 2 + 100])
    diagonal = state.scatter if kind == "diag" else np.einsum("...ii->...i", state.scatter)
    assert (diagonal[..., :2] == 0).all()


@pytest.mark.parametrize(("value", "message"), [(np.nan, "row 7: feature 1 is NaN"), (1e200, "too large")])
def test_a_block_that_is_refused_leaves_the_state_as_it_was(kind, value, message):
    X, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 3
    state = ClassStatistics(kind).update(X, y)
    before, bad = state.copy(), X.copy()
    bad[17, 1] = value
    blocks = chain(array_blocks(X, y), array_blocks(bad[10:], y[10:]))
    with pytest.raises(ValueError, match=message):
        state.update_blocks(blocks)
    assert state == before


def test_blocks_of_other_features_or_labels_are_refused(kind):
    X, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 3
    with pytest.raises(ValueError, match="2 and 1 features"):
        ClassStatistics(kind).update_blocks(chain(array_blocks(X, y), array_blocks(X[:, :1], y)))
    with pytest.raises(ValueError, match="labels of different kinds"):
        ClassStatistics(kind).update_blocks(chain(array_blocks(X, y), array_blocks(X, y.astype(str))))


def test_blocks_are_longer_where_states_are_large_and_never_beyond_memory():
    assert rows_per_block(50, 10) == rows_per_block(50)
    assert rows_per_block(50, 1000) > rows_per_block(50)
    for n_features in (1, 5, 50, 400, 2048):
        for n_classes in (1, 10, 1000, 10**6):
            assert rows_per_block(n_features, n_classes) * n_features <= 1 << 23


def test_states_of_many_features_merge_in_blocks_of_columns(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 11)), np.repeat(["a", "b", "c"], 20)
    first, second = (ClassStatistics("tied").update(X[i::2], y[i::2]) for i in range(2))
    whole = first + second
    monkeypatch.setattr("streamgda.statistics.covariances._MOST_COLUMNS", 4)
    in_blocks = first + second
    assert in_blocks.allclose(whole, 1e-14)
    assert np.array_equal(in_blocks.scatter, in_blocks.scatter.T)


# ---------------------------------------------------------------------- many short classes, about anchors


def rows_of(rng, n_rows, n_classes, spread, offset=1e8):
    """Rows on a grid, their class means so far apart, in classes that appear by and by."""
    y = rng.integers(0, np.linspace(n_classes // 2, n_classes, n_rows).astype(int))
    centres = offset + spread * rng.integers(-8, 9, size=(n_classes, 2))
    return centres[y] + rng.integers(-1000, 1001, size=(n_rows, 2)) * 2.0**-9, y


@pytest.mark.slow_cases("diag", "0.0-tied", "1.0-tied")
@pytest.mark.parametrize("kind", ["tied", "diag"])
@pytest.mark.parametrize("spread", [0.0, 1.0, 1e8])
@pytest.mark.parametrize("by_column", [False, True])
def test_short_classes_at_an_offset_keep_their_digits(kind, spread, by_column):
    X, y = rows_of(np.random.default_rng(0), 3000, 350, spread)
    state = in_blocks(kind, np.asfortranarray(X) if by_column else X, y, None, [750, 1500, 2250, 2260])
    exact = exact_moments(X, y)
    assert state.counts.tolist() == [weight for weight, _, _ in exact.values()]
    np.testing.assert_allclose(
        state.means, exact_means(exact), rtol=EPS, atol=4 * EPS
    )  # deviations are about 1
    assert error(state, exact) <= 32 * EPS


@pytest.mark.slow_cases("20")
@pytest.mark.parametrize("kind", ["tied", "diag"])
@pytest.mark.parametrize("n_blocks", [2, 20])
def test_an_anchor_that_lies_far_away_costs_few_digits(kind, n_blocks):
    """All variance is in the first row of each class, which is its anchor: on both sides of the line.

    Up to 31 rows n about one row, the error is at most n² / 4 of the last digit; more would cost more.
    """
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(64), 20 * n_blocks)
    X = rng.integers(-1000, 1001, size=(len(y), 1)) * 2.0**-30
    X[:64] = 2.0**30 + rng.integers(1, 1000, size=(64, 1)) * 2.0**-20
    state = in_blocks(kind, X, y, None, range(0, len(y), 64 * 20))
    assert error(state, exact_moments(X, y)) <= 256 * EPS


@pytest.mark.parametrize("weighted", [False, True])
def test_columns_for_large_moments_are_merged_class_by_class_to_the_same_bits(weighted, monkeypatch):
    monkeypatch.setattr(reduction, "_BYTES_IN_CACHE", 0)
    X, y = rows_of(np.random.default_rng(0), 600, 350, 1.0)
    weights = np.linspace(0.5, 2, len(y)) if weighted else None
    by_row, by_column = ClassStatistics("diag"), ClassStatistics("diag")
    for some in (slice(0, 300), slice(300, 600)):
        part = None if weights is None else weights[some]
        by_row.update(X[some], y[some], part)
        columns = [Block(list(X[some].T.copy()), *np.unique(y[some], return_inverse=True), part)]
        by_column.update_blocks(columns)
    assert by_row == by_column
