"""The laws of statistics of rows in which features are missing."""

import copy
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import streamgda
from streamgda import ClassStatistics, ExactClassStatistics, IncompleteStatistics, accumulate, scan_arrow
from tests.contracts.mergeable_contract import SubtractableContract, often
from tests.contracts.test_laws import agree, is_left
from tests.reference import close, exact_means, exact_moments, exact_scatter
from tests.strategies import kinds, labelled_rows

nan = float("nan")


@st.composite
def holed_rows(draw, min_rows=1, max_rows=30):
    """(X, y) with NaN anywhere; whole rows and whole columns may be missing."""
    X, y = draw(labelled_rows(min_rows, max_rows))
    X[draw(hnp.arrays(np.bool_, X.shape))] = nan
    return X, y


def parts(state):
    return {tuple(features.tolist()): statistics for features, statistics in state.by_pattern()}


class TestFloating(SubtractableContract):
    """A kind is drawn with the rows: that kinds keep the laws by themselves, `test_laws` says."""

    kind = "full"
    exact = False

    def datasets(self, min_rows=1):
        @st.composite
        def rows_for_a_kind(draw):
            self.kind = draw(kinds)
            return draw(holed_rows(min_rows))

        return rows_for_a_kind()

    def of(self, *data):
        state = IncompleteStatistics(self.kind, exact=self.exact)
        return state.update(*data) if data else state

    def assert_agree(self, a, b, data, whole=None):
        X = data[0]
        assert a.classes.tolist() == b.classes.tolist()
        assert a.counts.tolist() == b.counts.tolist()
        ours, theirs = parts(a), parts(b)
        assert ours.keys() == theirs.keys()
        for features, statistics in ours.items():
            values = np.nan_to_num(X[:, list(features)])
            if features and whole is None:
                assert agree(statistics, theirs[features], values)
            elif features:
                assert is_left(statistics, theirs[features], parts(whole)[features], values)

    def spoil(self, state, data):
        state.update(*data)
        for _, statistics in state.by_pattern():
            for name in ("means", "scatter", "sums", "counts", "weights"):
                getattr(statistics, name)[...] = 0
        for name in ("counts", "weights"):
            getattr(state, name)[...] = 0


class TestExact(TestFloating):
    exact = True

    def assert_agree(self, a, b, data, whole=None):
        assert a == b


# ---------------------------------------------------------------------- what is in it


@given(st.sampled_from(["full", "tied"]), holed_rows())
def test_each_pattern_is_what_rational_arithmetic_says_of_its_rows(kind, data):
    X, y = data
    patterns = parts(IncompleteStatistics(kind).update(X, y))
    assert set(patterns) == {tuple(np.flatnonzero(~np.isnan(row)).tolist()) for row in X}
    for features, state in patterns.items():
        rows = [tuple(np.flatnonzero(~np.isnan(row)).tolist()) == features for row in X]
        exact = exact_moments(X[rows][:, list(features)], y[rows])
        assert state.classes.tolist() == list(exact)
        assert state.weights.tolist() == [float(weight) for weight, _, _ in exact.values()]
        if features:
            values = X[rows][:, list(features)]
            np.testing.assert_allclose(
                state.means, exact_means(exact), rtol=1e-15, atol=1e-16 * np.abs(values).max()
            )
            assert close(state.scatter, exact_scatter(exact, kind), kind, values, 1e-11)


@given(holed_rows())
def test_without_products_each_feature_is_summed_over_the_rows_that_have_it(data):
    X, y = data
    state = IncompleteStatistics("diag").update(X, y)
    assert state.classes.tolist() == sorted(set(y.tolist()))
    assert state.counts.tolist() == [int((y == label).sum()) for label in state.classes]
    assert state.n_patterns <= X.shape[1] + 2
    assume(not state.reasons)  # else there are no means
    for j, column in enumerate(X.T):
        for k, label in enumerate(state.classes):
            values = column[(y == label) & ~np.isnan(column)]
            np.testing.assert_allclose(state.means[k, j], values.mean(), rtol=1e-14)
            spread = np.abs(values).max()
            np.testing.assert_allclose(
                state.covariance()[k, j], values.var(), rtol=1e-9, atol=(1e-15 * spread) ** 2
            )


@given(st.sampled_from(["full", "diag"]), st.sampled_from(["tied", "diag"]), holed_rows())
def test_a_narrowed_state_is_that_of_the_narrower_kind(kind, narrower, data):
    if kind == "diag":
        narrower = "diag"
    narrow = IncompleteStatistics(kind).update(*data).to_covariance_type(narrower)
    direct = IncompleteStatistics(narrower).update(*data)
    TestFloating().assert_agree(narrow, direct, data)
    narrow.update(*data)
    assert narrow.counts.tolist() == (2 * direct.counts).tolist()


@given(kinds, labelled_rows())
def test_rows_that_lack_nothing_have_the_bits_of_ordinary_statistics(kind, data):
    assume(kind != "tied" or len(data[1]) >= 2 * len(set(data[1])))  # fewer are merged one by one
    state, plain = IncompleteStatistics(kind).update(*data), ClassStatistics(kind).update(*data)
    assert state.completed() == plain
    for name in ("means", "mean_tails", "scatter", "weights", "counts", "sums"):
        assert getattr(state, name).tolist() == getattr(plain, name).tolist()
    assert state.covariance().tolist() == plain.covariance().tolist()
    assert IncompleteStatistics.from_statistics(plain) == state


@pytest.mark.slow
@given(kinds, holed_rows())
def test_ordinary_statistics_merge_into_incomplete_ones(kind, data):
    X, y = data
    full = np.nan_to_num(X)
    together = IncompleteStatistics(kind).update(X, y).update(full, y)
    plain = ClassStatistics(kind).update(full, y)
    total = IncompleteStatistics(kind).update(X, y) + plain
    TestFloating().assert_agree(total, together, (full, y))
    assert plain + IncompleteStatistics(kind).update(X, y) == total
    assert sum([plain, IncompleteStatistics(kind).update(X, y)]) == total
    in_place = plain.copy()
    in_place += IncompleteStatistics(kind).update(X, y)
    assert in_place == total
    assert plain == ClassStatistics(kind).update(full, y)


def test_incomplete_statistics_do_not_merge_into_ordinary_ones():
    incomplete = IncompleteStatistics().update([[1.0, nan]], [0])
    plain = ClassStatistics().update([[1.0, 2.0]], [0])
    before = copy.deepcopy(plain)
    with pytest.raises(ValueError, match=r"add the two by \+"):
        plain.merge(incomplete)
    with pytest.raises(ValueError, match="holds rows in which features are missing"):
        plain - incomplete
    with pytest.raises(ValueError, match="exact and floating"):
        ExactClassStatistics() + incomplete
    assert plain == before


# ---------------------------------------------------------------------- bounds and errors


def test_too_many_patterns_are_an_error_that_says_what_to_do():
    X = np.where(np.arange(16)[:, None] >> np.arange(4) & 1, nan, 1.0)
    state = IncompleteStatistics(max_patterns=15)
    with pytest.raises(ValueError, match=r"16 patterns .* max_patterns=15 are kept\. Raise max_patterns"):
        state.update(X, np.zeros(16, int))
    assert state == IncompleteStatistics(max_patterns=15)
    state.update(X[:15], np.zeros(15, int))
    before = copy.deepcopy(state)
    with pytest.raises(ValueError, match="16 patterns"):
        state.merge(IncompleteStatistics().update(X[15:], [0]))
    assert state == before
    assert IncompleteStatistics(max_patterns=16).update(X, np.zeros(16, int)).n_patterns == 16
    assert IncompleteStatistics("diag", max_patterns=1).update(X, np.zeros(16, int)).n_rows == 16


@pytest.mark.parametrize("value", [0, -1, 2.5, "many"])
def test_the_number_of_patterns_must_be_positive(value):
    with pytest.raises(ValueError, match="max_patterns must be a whole number, at least 1"):
        IncompleteStatistics(max_patterns=value)


def test_an_infinite_value_is_an_error_beside_missing_ones():
    state = IncompleteStatistics(feature_names=["a", "b"])
    with pytest.raises(ValueError, match="row 1: feature 1 is infinity"):
        state.update([[nan, 1.0], [2.0, np.inf]], [0, 0])
    with pytest.raises(ValueError, match="squares exceed float64 in the rows from row 1"):
        state.update([[nan, 1.0], [2.0, 1e200], [2.0, -1e200]], [0, 0, 0])
    assert state.n_rows == 0


def test_patterns_that_never_went_in_cannot_be_taken_out():
    state = IncompleteStatistics().update([[1.0, 2.0], [nan, 3.0]], [0, 0])
    with pytest.raises(ValueError, match=r"rows with the features \[0\] alone cannot be removed"):
        state - IncompleteStatistics().update([[1.0, nan]], [0])
    with pytest.raises(ValueError, match=r"class 0: cannot remove 2 rows of weight 2 from 1 row of"):
        state - IncompleteStatistics().update([[nan, 3.0], [nan, 3.0]], [0, 0])
    exact = IncompleteStatistics(exact=True).update([[1.0, 2.0], [nan, 3.0]], [0, 0])
    assert exact - exact == IncompleteStatistics(exact=True)


def test_decay_weighs_every_pattern():
    X, y = [[1.0, 2.0], [3.0, 5.0], [nan, 3.0], [2.0, nan], [nan, nan]], [0, 0, 0, 0, 1]
    decayed = IncompleteStatistics().update(X, y).decay(0.5)
    assert decayed.counts.tolist() == [4, 1]
    assert decayed.allclose(IncompleteStatistics().update(X, y, np.full(5, 0.5)))
    with pytest.raises(ValueError, match="cannot decay"):
        IncompleteStatistics(exact=True).update(X, y).decay(0.5)


@pytest.mark.parametrize("exact", [False, True])
def test_moments_that_are_not_kept_are_none_also_where_those_that_are_kept_are_not_determined(kind, exact):
    state = IncompleteStatistics(kind, exact=exact).update([[nan, 1.0], [nan, 2.0]], [0, 0])
    assert state.reasons
    assert (state.third_moments, state.fourth_moments) == (None, None)


# ---------------------------------------------------------------------- saved


@pytest.mark.slow_cases("True")
@pytest.mark.parametrize("exact", [False, True])
@often
@given(kinds, holed_rows())
def test_a_saved_state_is_read_back_to_the_bit(exact, tmp_path_factory, kind, data):
    path = tmp_path_factory.getbasetemp() / "state.parquet"
    state = IncompleteStatistics(kind, exact=exact, max_patterns=100).update(*data)
    state.save(path)
    loaded = streamgda.load(path)
    assert loaded == state
    assert (loaded.exact, loaded.max_patterns) == (exact, 100)
    assert loaded.update(*data) == state.update(*data)
    assert pickle.loads(pickle.dumps(state)) == state


def test_nulls_of_a_table_that_begins_within_another_are_those_of_its_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 70)), np.arange(150) % 2
    missing = (rng.random((3, 70)) < 0.2)[np.arange(150) % 3]
    columns = {f"x{j}": pa.array(X[:, j], mask=missing[:, j]) for j in range(70)}
    table = pa.table({**columns, "y": y}).slice(5)
    expected = IncompleteStatistics(feature_names=list(columns)).update(
        np.where(missing, np.nan, X)[5:], y[5:]
    )
    assert accumulate(scan_arrow(table, "y", missing="marginal")) == expected
