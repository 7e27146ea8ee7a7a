"""The laws of the state, for every kind of covariance and any rows."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamgda import ClassStatistics
from tests.reference import close, exact_means, exact_moments, exact_scatter
from tests.strategies import KINDS, kinds, labelled_rows, partitions


def of(kind, X, y, sample_weight=None):
    return ClassStatistics(kind).update(X, y, sample_weight)


@given(kinds, labelled_rows())
def test_a_state_is_what_rational_arithmetic_says(kind, data):
    X, y = data
    state = of(kind, X, y)
    exact = exact_moments(X, y)
    assert state.classes.tolist() == list(exact)
    assert state.weights.tolist() == [float(weight) for weight, _, _ in exact.values()]
    np.testing.assert_allclose(state.means, exact_means(exact), rtol=1e-15, atol=1e-16 * np.abs(X).max())
    assert close(state.scatter, exact_scatter(exact, kind), kind, X, 1e-11)


@given(kinds, labelled_rows(), st.data())
def test_any_partition_in_any_order_is_the_whole(kind, data, draw):
    X, y = data
    parts = [of(kind, X[rows], y[rows]) for rows in draw.draw(partitions(len(y)))]
    whole = of(kind, X, y)
    assert agree(sum(parts), whole, X)
    for part in parts[1:]:
        parts[0] += part
    assert agree(parts[0], whole, X)


@given(kinds, labelled_rows(min_rows=2))
def test_row_by_row_is_the_whole(kind, data):
    X, y = data
    state = ClassStatistics(kind)
    for i in range(len(y)):
        state.update(X[i : i + 1], y[i : i + 1])
    assert agree(state, of(kind, X, y), X)


@given(kinds, labelled_rows(min_rows=2), st.data())
def test_merging_commutes_to_the_last_bit(kind, data, draw):
    X, y = data
    cut = draw.draw(st.integers(0, len(y)))
    a, b = of(kind, X[:cut], y[:cut]), of(kind, X[cut:], y[cut:])
    assert a + b == b + a


@given(kinds, labelled_rows())
def test_the_empty_state_is_the_identity(kind, data):
    state = of(kind, *data)
    assert ClassStatistics(kind) + state == state
    assert state + ClassStatistics(kind) == state
    assert 0 + state == state
    assert sum([state]) == state


@given(kinds, labelled_rows(min_rows=3), st.data())
def test_operands_are_neither_mutated_nor_shared(kind, data, draw):
    X, y = data
    cut = draw.draw(st.integers(1, len(y) - 1))
    a, b = of(kind, X[:cut], y[:cut]), of(kind, X[cut:], y[cut:])
    before = copy.deepcopy(a), copy.deepcopy(b)
    total = a + b
    total.update(X, y).decay(0.5)
    (total - total).update(X, y)
    total.means[:] = np.nan
    total.scatter[:] = np.nan
    assert (a, b) == before
    assert np.isfinite(total.scatter).all()


@given(kinds, labelled_rows(), st.data())
def test_an_integer_weight_is_a_repetition(kind, data, draw):
    X, y = data
    weights = np.array(draw.draw(st.lists(st.integers(0, 3), min_size=len(y), max_size=len(y))))
    assume(weights.any())
    weighted, repeated = of(kind, X, y, weights), of(kind, X.repeat(weights, axis=0), y.repeat(weights))
    assert weighted.classes.tolist() == repeated.classes.tolist()
    assert weighted.weights.tolist() == repeated.counts.tolist()
    np.testing.assert_allclose(weighted.means, repeated.means, rtol=1e-14, atol=1e-15 * np.abs(X).max())
    assert close(weighted.scatter, repeated.scatter, kind, X, 1e-11)


@given(kinds, labelled_rows(min_rows=2), st.data())
def test_subtraction_undoes_addition(kind, data, draw):
    X, y = data
    cut = draw.draw(st.integers(1, len(y)))
    kept, removed = of(kind, X[:cut], y[:cut]), of(kind, X[cut:], y[cut:])
    whole = kept + removed
    rest = whole - removed
    assert rest.classes.tolist() == kept.classes.tolist()
    assert rest.counts.tolist() == kept.counts.tolist()
    np.testing.assert_allclose(rest.means, kept.means, rtol=1e-12, atol=1e-12 * np.abs(X).max())
    assert (diagonal(rest) >= 0).all()
    bound = scale(whole, X) if kind == "tied" else scale(whole, X)[np.isin(whole.classes, kept.classes)]
    assert (np.abs(rest.scatter - kept.scatter) <= 1e-11 * bound).all()
    assert (whole - whole).n_rows == 0


@given(kinds, labelled_rows(), st.floats(0.01, 1))
def test_decay_weighs_all_that_was_seen(kind, data, factor):
    X, y = data
    decayed = of(kind, X, y).decay(factor)
    assert decayed.counts.tolist() == of(kind, X, y).counts.tolist()
    weighted = of(kind, X, y, np.full(len(y), factor))
    np.testing.assert_allclose(decayed.weights, weighted.weights, rtol=1e-12)
    np.testing.assert_allclose(decayed.means, weighted.means, rtol=1e-12)
    np.testing.assert_allclose(decayed.covariance(), of(kind, X, y).covariance(), rtol=1e-12)


@given(kinds, labelled_rows())
def test_a_state_survives_pickling_to_the_bit(kind, data):
    state = of(kind, *data)
    assert pickle.loads(pickle.dumps(state)) == state


@given(labelled_rows(), st.sampled_from(["tied", "diag"]))
def test_narrowing_is_what_the_narrow_kind_would_have_kept(data, kind):
    X, y = data
    assert agree(of("full", X, y).to_covariance_type(kind), of(kind, X, y), X)


@pytest.mark.parametrize("kind", KINDS)
def test_a_million_rows_at_an_offset_of_1e8_deviations(kind):
    """Long sums, in blocks and merged: still every digit but the last few."""
    rng = np.random.default_rng(0)
    steps = rng.integers(-1000, 1001, size=(1_000_000, 2))
    y = rng.integers(0, 2, size=len(steps))
    shifted = of(kind, steps * 2.0**-9 + 1e8, y)
    exact = of(kind, steps * 2.0**-9, y)
    assert (np.abs(shifted.scatter - exact.scatter) <= 1e-13 * np.abs(exact.scatter).max()).all()


def agree(a, b, X):
    """As allclose, but for features that do not vary, of which only rounding is left."""
    return (
        a.classes.tolist() == b.classes.tolist()
        and a.counts.tolist() == b.counts.tolist()
        and np.allclose(a.means, b.means, rtol=1e-14, atol=1e-15 * np.abs(X).max())
        and close(a.scatter, b.scatter, a.covariance_type, X, 1e-11)
    )


def scale(state, X):
    """What an entry of a scatter can be as large as, in the scatter's shape."""
    roots = np.sqrt(diagonal(state)) + np.sqrt(len(X)) * np.finfo(np.float64).eps * np.abs(X).max(axis=0)
    return roots**2 if state.covariance_type == "diag" else roots[..., :, None] * roots[..., None, :]


def diagonal(state):
    scatter = state.scatter
    return scatter if state.covariance_type == "diag" else np.einsum("...ii->...i", scatter)
