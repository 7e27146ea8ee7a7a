"""Effective rows (Σ w)² / Σ w² of each class, against the formula, however rows went in."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamgda
from streamgda import ClassStatistics, ExactClassStatistics, IncompleteStatistics
from tests.strategies import kinds, label_sets, partitions

STATES = {
    "floating": ClassStatistics,
    "exact": ExactClassStatistics,
    "incomplete": IncompleteStatistics,
    "incomplete and exact": lambda kind: IncompleteStatistics(kind, exact=True),
}

whole_weights = st.one_of(st.integers(1, 5), st.integers(0, 2**53 - 1))


@st.composite
def weighted_rows(draw):
    n = draw(st.integers(1, 15))
    X = np.array(draw(st.lists(st.tuples(*[st.integers(-8, 8)] * 2), min_size=n, max_size=n)), float)
    labels = np.array(draw(label_sets))
    y = labels[draw(st.lists(st.integers(0, len(labels) - 1), min_size=n, max_size=n))]
    w = np.array(draw(st.lists(whole_weights, min_size=n, max_size=n)), float)
    cut = draw(partitions(n))
    return X, y, w, cut


def by_formula(y, w):
    """(Σ w)² / Σ w² of each class that has a row of positive weight, in exact arithmetic."""
    found = []
    for label in np.unique(y[w > 0]):
        own = [Fraction(weight) for weight in w[y == label].tolist()]
        found.append(float(sum(own) ** 2 / sum(weight**2 for weight in own)))
    return np.array(found)


@pytest.mark.slow_cases("exact")
@pytest.mark.parametrize("sort", STATES)
@settings(max_examples=8)
@given(rows=weighted_rows(), kind=kinds)
def test_any_cut_and_order_gives_the_formula(sort, rows, kind):
    X, y, w, cut = rows
    merged, fed = STATES[sort](kind), STATES[sort](kind)
    for part in cut:
        merged += STATES[sort](kind).update(X[part], y[part], w[part])
        fed.update(X[part], y[part], w[part])
    together = STATES[sort](kind).update(X, y, w)
    for state in (merged, fed, together):
        np.testing.assert_allclose(state.effective_counts, by_formula(y, w), rtol=1e-9)
    if together.exact:
        assert merged == fed == together
        assert merged.digest() == fed.digest() == together.digest()


@pytest.mark.slow_cases("exact")
@pytest.mark.parametrize("sort", STATES)
@settings(max_examples=8)
@given(rows=weighted_rows(), kind=kinds)
def test_states_travel_with_them(sort, rows, kind):
    X, y, w, _ = rows
    state = STATES[sort](kind).update(X, y, w)
    for twin in (
        streamgda.from_bytes(state.to_bytes()),
        pickle.loads(pickle.dumps(state)),
        state.copy(),
        state.relabel({}),
    ):
        assert twin == state
        np.testing.assert_array_equal(twin.effective_counts, state.effective_counts)
    one = state.select([0])
    np.testing.assert_array_equal(one.effective_counts, state.effective_counts)
    if len(state.classes) > 1:
        (label,) = state.classes[1:2].tolist()
        joined = state.relabel({label: state.classes[0].item()})
        y = np.where(y == label, state.classes[0], y)
        np.testing.assert_allclose(joined.effective_counts, by_formula(y, w), rtol=1e-9)
    if kind != "tied":
        np.testing.assert_allclose(
            state.as_one_class().effective_counts, by_formula(np.zeros(len(w)), w), rtol=1e-9
        )


@settings(max_examples=8)
@given(rows=weighted_rows(), factor=st.floats(0.01, 1))
def test_rows_that_decay_at_each_batch(rows, factor):
    X, y, _, cut = rows
    state, w = ClassStatistics(), np.zeros(len(y))
    for part in cut:
        state.decay(factor).update(X[part], y[part])
        w *= factor
        w[part] = 1
    np.testing.assert_allclose(state.effective_counts, by_formula(y, w), rtol=1e-9)


@pytest.mark.filterwarnings("ignore:.*fewer than six correct digits:RuntimeWarning")
@pytest.mark.parametrize("sort", ["floating", "exact"])
@settings(max_examples=8)
@given(rows=weighted_rows(), n=st.integers(0, 15))
def test_rows_that_are_taken_out_leave_the_others(sort, rows, n):
    X, y, w, _ = rows
    w = np.minimum(w, 9)
    whole, part = (STATES[sort]().update(X[:m], y[:m], w[:m]) for m in (len(y), n))
    rest = STATES[sort]().update(X[n:], y[n:], w[n:])
    left = whole - part
    np.testing.assert_allclose(left.effective_counts, rest.effective_counts, rtol=1e-9)
    if sort == "exact" and rest.n_rows:
        assert left == rest
        assert left.digest() == rest.digest()


def test_rows_of_one_weight_are_taken_out_of_rows_of_several():
    X, y = np.arange(5.0)[:, None], [0] * 5
    state = ClassStatistics().update(X, y, [1, 1, 1, 2, 3]) - ClassStatistics().update(X[:2], y[:2])
    assert state.effective_counts[0] == pytest.approx(6**2 / (1 + 4 + 9))
    state = streamgda.from_bytes(ClassStatistics().update(X[:2], y[:2], [0.5, 1.5]).to_bytes())
    assert state.effective_counts[0] == pytest.approx(2**2 / (0.25 + 2.25))  # though the weight is the count


def test_states_from_outside_know_the_squares_of_their_weights():
    given = {"weights": [4.0], "squared_weights": [10.0]}
    for make in (ClassStatistics.from_moments, ClassStatistics.from_sums):
        assert make(["a"], [2], [[0.0]], [[[0.0]]], **given).effective_counts.tolist() == [1.6]
        assert make(["a"], [2], [[0.0]], [[[0.0]]], squared_weights=[2]) == make(
            ["a"], [2], [[0.0]], [[[0.0]]]
        )
        for squares in ([7.9], [16.1], [np.nan], [[10.0]]):
            with pytest.raises(ValueError, match="squared_weights must"):
                make(["a"], [2], [[0.0]], [[[0.0]]], **given | {"squared_weights": squares})


def test_no_subtraction_leaves_what_no_rows_have():
    """Where the weights of rows are known on one side alone, the difference of squares may be of no rows."""
    alike = ClassStatistics.from_moments([0], [4], [[0.0]], [[[0.0]]], weights=[12.0])
    uneven = ClassStatistics().update(np.zeros((2, 1)), [0, 0], [9.0, 1.0])
    assert (alike - uneven).effective_counts.tolist() == [2]
    uneven.update(np.zeros((2, 1)), [0, 0], [1.0, 1.0])
    alike = ClassStatistics.from_moments([0], [2], [[0.0]], [[[0.0]]], weights=[10.0])
    left = uneven - alike  # two rows of weight 2: one, at the least
    assert left.effective_counts.tolist() == [1]
    more = left.update(np.zeros((8, 1)), [0] * 8)
    assert more.effective_counts[0] == pytest.approx(10**2 / (2**2 + 8))


def test_ordinary_states_are_as_they_were():
    """Weights of 1 and rows of equal weight need no column, and give the counts."""
    X, y = np.arange(12.0).reshape(6, 2), list("aabbbb")
    plain = ClassStatistics().update(X, y)
    assert plain == ClassStatistics().update(X, y, np.ones(6))
    assert "squared_weight" not in plain.to_columns()[0]
    assert plain._labelled.squared_weights is None
    assert plain.nbytes == sum(array.nbytes for array in plain._labelled.moments.arrays) + 2 * (4 + 8)
    doubled = ClassStatistics().update(X, y, np.full(6, 2.0))
    for state in (plain, doubled, plain.copy().decay(0.5)):
        np.testing.assert_allclose(state.effective_counts, [2, 4], rtol=1e-15)
        assert "squared_weight" not in state.to_columns()[0]


@pytest.mark.parametrize("scale", [1e-160, 1.0, 1e160])
def test_light_and_heavy_rows_are_counted_as_rows(scale):
    state = ClassStatistics("diag").update(np.zeros((3, 1)), [0] * 3, np.array([1.0, 2.0, 2.0]) * scale)
    assert 1 <= state.effective_counts[0] <= 3


def test_a_class_that_has_long_decayed_is_unsure():
    state = ClassStatistics("diag").update(np.zeros((3, 1)), [0] * 3, [1.0, 2.0, 2.0])
    for _ in range(600):
        state.decay(0.5)
    assert 1 <= state.effective_counts[0] <= 25 / 9


def test_what_is_summed_elsewhere_is_of_equal_weights():
    for state in (
        ClassStatistics.from_moments([0, 1], [4, 2], [[0.0], [0.0]], [[[1.0]], [[1.0]]], weights=[8.0, 3.0]),
        ClassStatistics.from_sums([0, 1], [4, 2], [[0.0], [0.0]], [[[1.0]], [[1.0]]], weights=[8.0, 3.0]),
        ExactClassStatistics.from_sums([0, 1], [4, 2], [[0], [0]], [[[8]], [[3]]], weights=[8, 4]),
    ):
        assert state.effective_counts.tolist() == [4, 2]
    more = state.update([[0.0]], [0], [1])  # rows of weight 2, 2, 2, 2 and 1
    assert more.effective_counts[0] == pytest.approx(81 / 17)
