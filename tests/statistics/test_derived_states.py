"""States of other features and labels, and of linear maps: as if the derived rows had been read."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from streamgda import ClassStatistics, ExactClassStatistics
from tests.strategies import kinds, labelled_rows

NAMES = ["a", "b", "c"]
X = np.array([[1.0, 5.0, 2.0], [2.0, 3.0, 2.5], [4.0, 4.0, 0.0], [0.0, 1.0, 1.0], [3.0, 1.0, 7.0]])
Y = ["cat", "cat", "dog", "fox", "fox"]


def state_of(X, y, exact, kind="full", **params):
    return (ExactClassStatistics if exact else ClassStatistics)(kind, **params).update(X, y)


def assert_same(derived, read, exact):
    assert derived == read if exact else derived.allclose(read, rtol=1e-9)


@pytest.mark.slow_cases("True")
@pytest.mark.parametrize("exact", [False, True])
@given(data=st.data(), kind=kinds)
def test_selected_features_are_as_if_read_alone(exact, data, kind):
    X, y = data.draw(labelled_rows())
    chosen = data.draw(st.lists(st.integers(0, X.shape[1] - 1), min_size=1, unique=True))
    assert_same(state_of(X, y, exact, kind).select(chosen), state_of(X[:, chosen], y, exact, kind), exact)


@given(data=labelled_rows())
def test_fourth_moments_of_selected_features_are_kept(data):
    X, y = data
    state = state_of(X, y, False, fourth_moments=True)
    chosen = np.arange(X.shape[1])[::-1]
    read = state_of(X[:, chosen], y, False, fourth_moments=True)
    assert state.select(chosen).allclose(read, rtol=1e-9)


@pytest.mark.slow_cases("True")
@pytest.mark.parametrize("exact", [False, True])
@given(data=st.data(), kind=kinds)
def test_relabelled_classes_are_as_if_read_so(exact, data, kind):
    X, y = data.draw(labelled_rows())
    state = state_of(X, y, exact, kind)
    old = state.classes.tolist()
    new = [data.draw(st.sampled_from(["x", "y", "zebra"])) for _ in old]
    mapping = dict(zip(old, new, strict=True))
    read = state_of(X, [mapping[label] for label in y.tolist()], exact, kind)
    before = state.copy()
    assert_same(state.relabel(mapping), read, exact)
    assert state == before


@pytest.mark.slow_cases("True")
@pytest.mark.parametrize("exact", [False, True])
@given(data=labelled_rows(), kind=kinds)
def test_all_rows_as_one_class_are_as_if_read_so(exact, data, kind):
    X, y = data
    state, zeros = state_of(X, y, exact, kind), np.zeros(len(X), int)
    before = state.copy()
    read = state_of(X, zeros, exact, kind).update(X, zeros)
    assert_same(state.as_one_class().update(X, zeros), read, exact)
    assert state == before


@given(data=labelled_rows())
def test_fourth_moments_of_merged_classes_are_kept(data):
    X, y = data
    state = state_of(X, y, False, fourth_moments=True)
    merged = state.relabel(dict.fromkeys(state.classes.tolist(), 0))
    assert merged.allclose(state_of(X, np.zeros(len(X), int), False, fourth_moments=True), rtol=1e-6)


@pytest.mark.slow_cases("True")
@pytest.mark.parametrize("exact", [False, True])
@given(data=st.data(), kind=kinds)
def test_renaming_there_and_back_keeps_every_bit(exact, data, kind):
    X, y = data.draw(labelled_rows())
    state = state_of(X, y, exact, kind)
    there = {label: f"{i}" for i, label in enumerate(reversed(state.classes.tolist()))}
    assert state.relabel(there).relabel({new: old for old, new in there.items()}) == state


small = st.integers(-3, 3).map(float)


@pytest.mark.slow_cases("tied")
@pytest.mark.parametrize("kind", ["full", "tied"])
@given(data=st.data())
def test_linear_maps_are_exact_where_the_mapped_rows_are(kind, data):
    shape = data.draw(st.tuples(st.integers(1, 12), st.integers(1, 3)))
    X = data.draw(hnp.arrays(np.float64, shape, elements=st.integers(-9, 9).map(lambda i: i / 4)))
    y = data.draw(hnp.arrays(np.int64, len(X), elements=st.integers(0, 2)))
    weights = data.draw(hnp.arrays(np.int64, len(X), elements=st.integers(1, 3)))
    A = data.draw(hnp.arrays(np.float64, (data.draw(st.integers(1, 4)), X.shape[1]), elements=small))
    b = data.draw(hnp.arrays(np.float64, len(A), elements=small)) * 1e6
    state = ExactClassStatistics(kind).update(X, y, weights)
    read = ExactClassStatistics(kind).update(X @ A.T + b, y, weights)
    assert state.linear_map(A, b) == read


@pytest.mark.slow_cases("full")
@pytest.mark.parametrize("kind", ["full", "tied"])
@given(data=st.data())
def test_floating_linear_maps_agree_with_rational_arithmetic(kind, data):
    X, y = data.draw(labelled_rows(max_features=3))
    n_new = data.draw(st.integers(1, 3))
    A = data.draw(hnp.arrays(np.float64, (n_new, X.shape[1]), elements=st.floats(-3, 3, width=32)))
    b = data.draw(hnp.arrays(np.float64, n_new, elements=st.floats(-100, 100, width=32)))
    derived = ClassStatistics(kind).update(X, y).linear_map(A, b)
    exact = ExactClassStatistics(kind).update(X, y).linear_map(A, b).to_float()
    np.testing.assert_array_equal(derived.counts, exact.counts)
    deviations = np.sqrt(np.atleast_2d(ExactClassStatistics("diag").update(X, y).scatter))
    scale = deviations.max(axis=0) @ np.abs(A).T
    gap = (derived.means - exact.means) + (derived.mean_tails - exact.mean_tails)
    shifts = 2.0**-104 * np.abs(b)  # means are kept to twice the precision of float64, also of b alone
    assert (np.abs(gap) <= 1e-13 * scale + 1e-24 * (np.abs(X).max(axis=0) @ np.abs(A).T) + shifts).all()
    scales = np.sqrt(len(derived.classes)) * np.outer(scale, scale)
    assert (np.abs(derived.scatter - exact.scatter) <= 1e-12 * scales).all()


def test_exact_maps_are_those_of_rows_in_rational_arithmetic():
    A, b = np.array([[0.1, -0.3, 1e10]]), np.array([1e-5])
    state = state_of(X, [0] * 5, True).linear_map(A, b)
    rows = [
        sum((Fraction(a) * Fraction(x) for a, x in zip(A[0], row, strict=True)), Fraction(b[0])) for row in X
    ]
    mean = sum(rows) / 5
    assert state.means[0, 0] == float(mean)
    assert state.scatter[0, 0, 0] == float(sum((row - mean) ** 2 for row in rows))


def test_digits_at_large_means_survive_a_difference_of_features():
    rng = np.random.default_rng(0)
    rows = 1e8 + rng.normal(size=(1000, 2))
    difference = ClassStatistics().update(rows, [0] * 1000).linear_map([[1.0, -1.0]])
    mean = sum(Fraction(a) - Fraction(b) for a, b in rows.tolist()) / 1000
    assert difference.means[0, 0] == pytest.approx(float(mean), rel=1e-12)
    assert difference.covariance()[0, 0, 0] == pytest.approx(np.diff(rows).var(), rel=1e-10)


def test_a_combination_that_does_not_vary_has_a_variance_of_zero():
    rng = np.random.default_rng(0)
    first = rng.normal(size=100)
    rows = np.column_stack([first, 3 * first])
    assert ClassStatistics().update(rows, [0] * 100).linear_map([[3.0, -1.0]]).scatter[0, 0, 0] == 0


def test_names_are_carried_along():
    state = state_of(X, Y, False, feature_names=NAMES)
    assert state.select(["c", "a"]).feature_names == ("c", "a")
    assert state.select([False, True, True]).feature_names == ("b", "c")
    assert state.select("b").feature_names == ("b",)
    assert state.relabel({"fox": "dog"}).feature_names == tuple(NAMES)
    assert state.linear_map(np.diag([1, 2, 3])).feature_names == tuple(NAMES)
    assert state.linear_map(np.ones((1, 3))).feature_names is None
    assert state.linear_map(np.ones((1, 3)), feature_names=["sum"]).feature_names == ("sum",)


def test_derived_states_go_on_learning_and_are_of_their_own():
    state = state_of(X, Y, False, feature_names=NAMES)
    before = state.copy()
    derived = state.select(["a"]).update([[9.0]], ["cat"])
    derived.relabel({"fox": "cat"}).update([[1.0]], ["owl"])
    assert state == before
    assert derived.counts.tolist() == [3, 1, 2]


@pytest.mark.parametrize(
    ("derive", "message"),
    [
        (lambda s: s.select(["d"]), "no feature 'd'; the features are 'a', 'b', 'c'"),
        (lambda s: s.select([0, 0]), "each once"),
        (lambda s: s.select([]), "names, positions or a mask|at least one"),
        (lambda s: s.select([3]), "no feature 3 among 3"),
        (lambda s: s.select([0.5]), "names, positions or a mask"),
        (lambda s: s.relabel({"cow": "cat"}), "cow"),
        (lambda s: s.relabel({"cat": 1}), "label"),
        (lambda s: s.linear_map([[1.0, 2.0]]), r"A must have shape \(n_new_features, 3\); got \(1, 2\)"),
        (lambda s: s.linear_map([[1.0, 2.0, 3.0]], [1.0, 2.0]), r"b must have shape \(1,\)"),
        (lambda s: s.linear_map([[1.0, np.nan, 3.0]]), "finite"),
        (lambda s: s.linear_map([[1.0, 2.0, 3.0]], feature_names=["a", "b"]), "2 feature names for 1"),
        (lambda s: s.to_covariance_type("diag").linear_map(np.eye(3)), "'diag' does not keep"),
    ],
)
@pytest.mark.parametrize("exact", [False, True])
def test_what_cannot_be_derived_is_refused(derive, message, exact):
    state = state_of(X, Y, exact, feature_names=NAMES)
    with pytest.raises(ValueError, match=message):
        derive(state)


def test_fourth_moments_have_no_linear_map():
    with pytest.raises(ValueError, match="fourth moments of a linear map"):
        state_of(X, Y, False, fourth_moments=True).linear_map(np.eye(3))
