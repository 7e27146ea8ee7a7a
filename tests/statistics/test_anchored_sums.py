"""Blocks of many rows, summed up about anchors: the digits of rational arithmetic, on any data."""

from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgda import ClassStatistics
from streamgda.blocks.arrays import array_blocks
from streamgda.kernels import Workspace
from streamgda.statistics.floating.reduction import Accumulation
from tests.reference import exact_means, exact_moments, exact_scatter

KINDS = pytest.mark.parametrize("kind", ["tied", "diag"])
EPS = np.finfo(np.float64).eps


def in_blocks(kind, X, y, cuts):
    """The state of rows that come in blocks, cut at these rows."""
    bounds = [0, *sorted(cuts), len(X)]
    parts = [slice(start, stop) for start, stop in pairwise(bounds) if stop > start]
    state = ClassStatistics(kind)
    state.update_blocks(chain.from_iterable(array_blocks(X[rows], y[rows]) for rows in parts))
    return state


def error(state, exact):
    """The largest error of the scatter, on the scale of its features."""
    expected = exact_scatter(exact, state.covariance_type)
    roots = np.sqrt(expected if state.covariance_type == "diag" else expected.diagonal())
    scale = roots**2 if state.covariance_type == "diag" else np.outer(roots, roots)
    return np.max(np.abs(state.scatter - expected) / np.where(scale == 0, EPS, scale))


def rows_of(rng, n_rows, n_classes, spread, offset=1e8):
    """Rows on a grid, their class means so far apart, in classes that appear by and by."""
    y = rng.integers(0, np.linspace(n_classes // 2, n_classes, n_rows).astype(int))
    centres = offset + spread * rng.integers(-8, 9, size=(n_classes, 2))
    return centres[y] + rng.integers(-1000, 1001, size=(n_rows, 2)) * 2.0**-9, y


@pytest.mark.slow_cases("diag", "0.0-tied", "1.0-tied")
@KINDS
@pytest.mark.parametrize("spread", [0.0, 1.0, 1e8])
@pytest.mark.parametrize("by_column", [False, True])
def test_short_classes_at_an_offset_keep_their_digits(kind, spread, by_column):
    X, y = rows_of(np.random.default_rng(0), 3000, 350, spread)
    state = in_blocks(kind, np.asfortranarray(X) if by_column else X, y, [750, 1500, 2250, 2260])
    exact = exact_moments(X, y)
    assert state.counts.tolist() == [weight for weight, _, _ in exact.values()]
    np.testing.assert_allclose(
        state.means, exact_means(exact), rtol=EPS, atol=4 * EPS
    )  # deviations are about 1
    assert error(state, exact) <= 32 * EPS


@settings(max_examples=5)
@given(st.sampled_from(["tied", "diag"]), st.lists(st.integers(0, 5000), max_size=4), st.integers(0, 99))
def test_any_cut_gives_the_same_moments(kind, cuts, seed):
    X, y = rows_of(np.random.default_rng(seed), 5000, 300, 1.0)
    assert in_blocks(kind, X, y, cuts).allclose(ClassStatistics(kind).update(X, y), rtol=1e-13)


@pytest.mark.slow_cases("20")
@KINDS
@pytest.mark.parametrize("n_blocks", [2, 20])
def test_an_anchor_that_lies_far_away_costs_few_digits(kind, n_blocks):
    """All variance is in the first row of each class, which is its anchor: on both sides of the line.

    Up to 31 rows n about one row, the error is at most n² / 4 of the last digit; more would cost more.
    """
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(64), 20 * n_blocks)
    X = rng.integers(-1000, 1001, size=(len(y), 1)) * 2.0**-30
    X[:64] = 2.0**30 + rng.integers(1, 1000, size=(64, 1)) * 2.0**-20
    state = in_blocks(kind, X, y, range(0, len(y), 64 * 20))
    assert error(state, exact_moments(X, y)) <= 256 * EPS


@pytest.mark.slow
def test_blocks_with_weights_are_centred_between_others():
    rng, accumulation = np.random.default_rng(0), Accumulation(ClassStatistics("diag")._labelled)
    X, y = rng.integers(-1000, 1001, size=(3000, 3)) * 2.0**-9 + 1e6, rng.integers(0, 50, size=3000)
    weights = np.where(np.arange(3000) // 600 % 2, 2.0, 1.0)
    for start in range(0, 3000, 600):
        rows = slice(start, start + 600)
        (block,) = array_blocks(X[rows], y[rows], weights[rows] if start % 1200 else None)
        accumulation.add(block, Workspace())
    state, exact = accumulation.state(), exact_moments(X, y, weights)
    assert state.counts.sum() == 3000
    assert state.moments.weights.tolist() == [weight for weight, _, _ in exact.values()]
    np.testing.assert_allclose(state.moments.scatter, exact_scatter(exact, "diag"), rtol=1e-13)


@KINDS
def test_what_is_constant_in_a_class_does_not_vary(kind):
    y = np.arange(6000) % 500
    X = np.column_stack([0.1 * y, np.full(len(y), 0.3), np.arange(len(y))])
    state = in_blocks(kind, X, y, [1500, 3000, 3100])
    diagonal = state.scatter if kind == "diag" else state.scatter.diagonal()
    assert (diagonal[..., :2] == 0).all()
    np.testing.assert_allclose(diagonal[..., 2].sum(), 500 * 143 * 500**2, rtol=1e-14)


@KINDS
@pytest.mark.parametrize(("value", "message"), [(np.nan, "row 1990: feature 1 is NaN"), (1e200, "too large")])
def test_a_bad_value_in_a_short_class_is_named_and_changes_nothing(kind, value, message):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 3)), rng.integers(0, 300, 4000)
    state = ClassStatistics(kind).update(X, y)
    before, X[1990, 1] = state.copy(), value
    with pytest.raises(ValueError, match=message):
        state.update(X, y)
    assert state == before
