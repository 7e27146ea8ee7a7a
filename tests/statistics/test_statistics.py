"""ClassStatistics as its users meet it: exchange with sums, what it refuses, how it prints."""

import math
import tracemalloc
from itertools import chain

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from streamgda import ClassStatistics, ExactClassStatistics, accumulate, from_bytes, load, scan_arrow
from streamgda.data.blocks.arrays import array_blocks
from tests.strategies import KINDS

X = np.array([[1.0, 2.0], [3.0, 5.0], [5.0, 5.0], [0.0, 1.0], [2.0, -1.0]])
Y = np.array(["a", "a", "a", "b", "b"])


SORTS = pytest.mark.parametrize("sort", [ClassStatistics, ExactClassStatistics])


def state(kind="full", rows=slice(None)):
    return ClassStatistics(kind).update(X[rows], Y[rows])


def test_sums_are_the_sums(kind):
    s = state(kind)
    np.testing.assert_allclose(s.sums, [X[Y == c].sum(axis=0) for c in "ab"])
    outer = np.array([X[Y == c].T @ X[Y == c] for c in "ab"])
    expected = {"full": outer, "tied": outer.sum(axis=0), "diag": np.einsum("kii->ki", outer)}[kind]
    np.testing.assert_allclose(s.outer_sums, expected)


def test_equal_states_have_one_digest_whatever_labels_were_once_beside_theirs(kind):
    short, both = np.array(["a", "a"]), np.array(["a", "a", "longer"])
    expected = ClassStatistics(kind).update(X[:1], short[:1])
    found = ClassStatistics(kind).update(X[:1], both[:1])
    assert found == expected
    assert found.digest() == expected.digest()
    rest = (found + ClassStatistics(kind).update(X[:1], both[2:])) - ClassStatistics(kind).update(
        X[:1], both[2:]
    )
    assert rest.digest() == from_bytes(rest.to_bytes()).digest()


@pytest.mark.parametrize("weights", [None, [1, 2, 3, 4, 5]])
def test_from_sums_gives_the_state_back_in_any_order_of_classes(kind, weights):
    s, back = ClassStatistics(kind).update(X, Y, weights), slice(None, None, -1)
    outer = s.outer_sums if kind == "tied" else s.outer_sums[back]
    how = {"covariance_type": kind, "feature_names": ["u", "v"]}
    how |= {"weights": s.weights[back]} if weights else {}
    again = ClassStatistics.from_sums(s.classes[back], s.counts[back], s.sums[back], outer, **how)
    assert again.allclose(s, rtol=1e-12)
    assert again.feature_names == ("u", "v")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ["a", "a"]}, "stands twice"),
        ({"counts": [3, 0]}, "class b has no rows"),
        ({"weights": [3, -1]}, "class b has no rows"),
        ({"sums": [[1.0, 2.0]]}, "one row for each class"),
        ({"outer_sums": np.ones((2, 2))}, r"shape \(2, 2, 2\)"),
        ({"outer_sums": np.zeros((2, 2, 2))}, "cannot be of any rows"),
        ({"outer_sums": np.full((2, 2, 2), np.nan)}, "finite"),
        ({"outer_sums": np.full((2, 2, 2), 99.0) * [[1, 1], [2, 1]]}, "symmetric"),
        ({"outer_sums": [[[35.0, 99], [99, 54]]] * 2}, "a correlation would exceed 1"),
        ({"counts": [3, 1.5]}, "whole number of rows"),
        ({"counts": [3, 1e300]}, "a count is 1e\\+300"),
        ({"counts": [3, np.inf]}, "a count is inf"),
        ({"counts": [3, 2**63]}, "a count is 9.2"),
        ({"feature_names": ["u"]}, "1 feature name for 2 features"),
    ],
)
def test_from_sums_refuses_what_no_rows_could_give(change, message):
    s = state()
    sums = {"classes": s.classes, "counts": s.counts, "sums": s.sums, "outer_sums": s.outer_sums}
    with pytest.raises(ValueError, match=message):
        ClassStatistics.from_sums(**{**sums, **change})


@pytest.mark.parametrize("unit", [1.0, 1e-12, 1e12])
@pytest.mark.parametrize("kind", ["full", "tied"])
def test_moments_that_no_rows_could_give_are_refused_in_every_unit(kind, unit):
    uneven = np.array([[1.0, 0.5, 0], [0.4999, 1, 0], [0, 0, 1]]) * unit**2
    indefinite, rounded = ((1.5 * np.eye(3) - 0.5 - gap * (1 - np.eye(3))) * unit**2 for gap in (1e-6, 1e-10))
    one = rounded if kind == "tied" else rounded[None]
    ClassStatistics.from_moments(["a"], [9], np.zeros((1, 3)), one, covariance_type=kind)
    for scatter, message in ((uneven, "must be symmetric"), (indefinite, "not positive semidefinite")):
        products = scatter if kind == "tied" else scatter[None]
        for make in (ClassStatistics.from_moments, ClassStatistics.from_sums):
            with pytest.raises(ValueError, match=message):
                make(["a"], [9], np.zeros((1, 3)), products, covariance_type=kind)


def test_means_are_close_on_the_scale_of_their_feature(kind):
    rows = np.random.default_rng(0).normal(size=(100, 3)) * [1e-6, 1.0, 1e6]
    moved = rows + 1e-6 * rows.std(axis=0)
    one, other = (ClassStatistics(kind).update(X - rows.mean(axis=0), np.zeros(100)) for X in (rows, moved))
    assert one.allclose(other, rtol=1.1e-6)
    assert not one.allclose(other, rtol=0.9e-6)


def test_moments_are_symmetric_to_the_last_bit():
    scatter = np.array([[[1.0, 0.5], [0.5 + 1e-12, 1.0]]])
    state = ClassStatistics.from_moments(["a"], [9], [[0.0, 0.0]], scatter)
    assert state.scatter[0].tolist() == state.scatter[0].T.tolist()


@pytest.mark.parametrize("unit", [1e-153, 1e-155, 1e-160, 1e-170])
def test_features_whose_squares_are_too_small_are_refused_as_large_ones_are(kind, unit):
    rows, labels = np.random.default_rng(0).normal(size=(100, 2)), np.arange(100) % 2
    plain, small = (ClassStatistics(kind).update(rows * [1, scale], labels) for scale in (1, unit))
    if unit > 1e-154:
        np.testing.assert_allclose(small.total_variance()[1] / unit**2, plain.total_variance()[1], rtol=1e-9)
        small.covariance()
        return
    with pytest.raises(ValueError, match="feature 1 is too small: .* Multiply it by a power of ten"):
        small.covariance()
    (plain + ClassStatistics(kind).update(rows * [1, unit], labels)).covariance()


def test_covariance_divides_by_what_is_asked():
    for c, covariance in zip("ab", state().covariance(ddof=1), strict=True):
        np.testing.assert_allclose(covariance, np.cov(X[Y == c].T))
    within = sum((np.sum(Y == c) - 1) * np.cov(X[Y == c].T) for c in "ab")
    np.testing.assert_allclose(state("tied").covariance(ddof=1), within / (5 - 2))
    np.testing.assert_allclose(state("tied").covariance(), within / 5)
    np.testing.assert_allclose(state("diag").covariance(), [X[Y == c].var(axis=0) for c in "ab"])


@SORTS
def test_no_rows_have_no_mean_and_one_row_no_unbiased_variance(sort):
    for summary in (sort().overall_mean, sort().total_variance):
        with pytest.raises(ValueError, match="no mean of no rows"):
            summary()
    with pytest.raises(ValueError, match="needs more weight"):
        sort().update([[1.0], [2.0], [3.0]], [0, 0, 1]).covariance(ddof=1)


def test_all_rows_together():
    for kind in KINDS:
        np.testing.assert_allclose(state(kind).overall_mean(), X.mean(axis=0))
        np.testing.assert_allclose(state(kind).total_variance(), X.var(axis=0))


def test_frames_bring_their_names():
    frame = pd.DataFrame(X, columns=["u", "v"])
    s = ClassStatistics().update(frame, pd.Series(Y))
    assert s.feature_names == ("u", "v")
    assert s.update(pa.table(frame), pa.chunked_array([Y])).n_rows == 10
    with pytest.raises(ValueError, match="feature 0 is 'u' in one and 'v' in the other"):
        s.merge(ClassStatistics().update(frame[["v", "u"]], Y))
    assert s.n_rows == 10
    assert s.update(X, Y).feature_names == ("u", "v")


def test_it_prints_as_what_it_is():
    assert repr(state("diag")) == "ClassStatistics(covariance_type='diag', classes=2, features=2, rows=5)"


def test_allclose_notices_each_part():
    s = state()
    assert s.allclose(state())
    other_mean = ClassStatistics().update(X + 1e-6, Y)
    other_scatter = ClassStatistics().update(X * (1 + 1e-6), Y)
    other_weight = ClassStatistics().update(X, Y, np.full(5, 1 + 1e-6))
    for other in (other_mean, other_scatter, other_weight, state(rows=slice(4)), state("tied")):
        assert not s.allclose(other)
    assert s.allclose(other_weight, rtol=1e-5)


def test_equality_is_to_the_last_bit():
    assert state() == state()
    assert state() != ClassStatistics().update(X * (1 + 2**-52), Y)
    assert state() != "state"
    with pytest.raises(TypeError, match="unhashable"):
        hash(state())


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (state("tied"), "'full' and 'tied'"),
        (ClassStatistics().update(X[:, :1], Y), "2 and 1 features"),
        (ClassStatistics().update(X, Y == "a"), "str .* and bool"),
        (ClassStatistics().update(X, np.arange(5)), "str .* and int"),
    ],
)
@pytest.mark.parametrize("verb", [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a.merge(b)])
def test_states_that_do_not_fit_are_refused_and_named(other, message, verb):
    s = state()
    with pytest.raises(ValueError, match=message):
        verb(s, other)
    assert s == state()


def test_only_states_merge():
    with pytest.raises(TypeError, match="got int"):
        state().merge(3)
    with pytest.raises(TypeError):
        state() + 1
    with pytest.raises(TypeError):
        state() - 1


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (([[1.0, 1.0]], ["c"]), "class c cannot be removed: the state never saw it"),
        ((np.ones((3, 2)), ["b"] * 3), "class b: cannot remove 3 rows"),
        (([[1.0, 2.0]], ["a"], [4.0]), "class a: cannot remove 1 row of weight 4"),
        (([[1e6, 2.0]], ["a"]), "never went into the state"),
        (([[1.0, 1e6]], ["a"]), "never went into the state"),
    ],
)
@SORTS
def test_subtraction_refuses_what_cannot_be(sort, kind, part, message):
    s, before = sort(kind).update(X, Y), sort(kind).update(X, Y)
    with pytest.raises(ValueError, match=message):
        s - sort(kind).update(*part)
    assert s == before


def test_rows_of_weight_zero_are_no_rows():
    weights = [1, 0, 1, 0, 0]
    s = ClassStatistics().update(np.where(np.array(weights)[:, None] == 0, np.nan, X), Y, weights)
    assert s.allclose(state(rows=[0, 2]))
    assert s.classes.tolist() == ["a"]


@pytest.mark.parametrize("factor", [0, -1, 1.5, np.nan, "a", None])
def test_decay_refuses_a_factor_that_is_none(factor):
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        state().decay(factor)


def test_a_narrow_state_cannot_be_widened():
    with pytest.raises(ValueError, match="accumulate with covariance_type='full'"):
        state("diag").to_covariance_type("full")
    with pytest.raises(ValueError, match="must be one of 'full', 'tied', 'diag'"):
        ClassStatistics("spherical")


@pytest.mark.slow_cases("tied", "-diag")
@pytest.mark.parametrize(
    ("rows", "labels", "weights", "message"),
    [
        ([[1.0], [np.nan]], [0, 1], None, "row 1: feature 0 is NaN"),
        ([[1.0], [np.inf]], [0, 1], None, "row 1: feature 0 is infinity"),
        ([[1.0], [-np.inf]], [0, 1], None, "row 1: feature 0 is infinity"),
        (pd.DataFrame({"u": [1.0, np.nan]}), [0, 1], None, "row 1: feature 'u' is NaN"),
        ([[1.0], [2.0]], ["a", None], None, "row 1 has no label"),
        ([[1.0], [2.0]], [0, np.nan], None, "row 1 has no label"),
        ([[1.0], [2.0]], pd.array([1, None], dtype="Int64"), None, "row 1 has no label"),
        ([[1.0], [2.0]], ["a", np.nan], None, "row 1 has no label"),
        ([[1.0], [2.0]], ["a", 1], None, "int, str"),
        ([[1.0], [2.0]], [True, 2], None, "bool, int"),
        ([[1.0], [2.0]], [2**64, 1], None, "64-bit"),
        ([[1.0], [2.0]], np.ma.array([0, 1], mask=[False, True]), None, "masked"),
        (np.ma.array([[1.0], [2.0]], mask=[[False], [True]]), [0, 1], None, "features are masked"),
        ([[1.0], [2.0]], [0, 1], np.ma.array([1, 2], mask=[False, True]), "weights are masked"),
        (np.array([["2020-01-01"], ["NaT"]], "M8[s]"), [0, 1], None, "not real numbers"),
        ([[10**400], [1]], [0, 1], None, "real numbers|beyond 2"),
        (np.empty((2, 0)), [0, 1], None, "two dimensions"),
        ([[1.0], [2.0]], [0, 1], [1j, 1], "not real numbers"),
        ([[1.0], [2.0]], [0.5, 1.5], None, "continuous"),
        ([[1.0], [2.0]], np.array([1, "a"], dtype=object), None, "int, str"),
        ([[1.0], [2.0]], np.array(["2020", "2021"], dtype="M8[Y]"), None, "not classes"),
        ([[1.0], [2.0]], [[0], [1]], None, "one dimension"),
        ([[1.0], [2.0]], [0], None, "X has 2 rows, y has shape"),
        ([1.0, 2.0], [0, 1], None, "two dimensions"),
        ([["u"], ["v"]], [0, 1], None, "real numbers"),
        ([[1.0], [2.0]], [0, 1], [1.0, -1.0], "row 1 has weight -1.0"),
        ([[1.0], [2.0]], [0, 1], [1.0, np.nan], "row 1 has weight nan"),
        ([[1.0], [2.0]], [0, 1], [1.0], "sample_weight has shape"),
        ([[1.0], [2.0]], np.array([2**63, 1], dtype=np.uint64), None, "64-bit"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
@SORTS
def test_bad_rows_are_named_and_change_nothing(sort, kind, rows, labels, weights, message):
    s = sort(kind).update([[1.0], [2.0], [4.0]], [0, 1, 1])
    before = s.copy()
    with pytest.raises(ValueError, match=message):
        s.update(rows, labels, weights)
    assert s == before


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([3, 1, 1], [1, 3]),
        (np.array([3, 1, 1], dtype=np.uint8), [1, 3]),
        ([2.0, -1.0, -1.0], [-1, 2]),
        ([10**15, -(10**15), 0], [-(10**15), 0, 10**15]),
        (["b", "a", "a"], ["a", "b"]),
        (np.array(["b", "a", "a"], dtype=object), ["a", "b"]),
        (np.array(["b", "a", "a"], dtype=np.dtypes.StringDType()), ["a", "b"]),
        ([True, False, False], [False, True]),
        (np.array([True, False, False], dtype=object), [False, True]),
        (pd.Series(["b", "a", "a"], dtype="category"), ["a", "b"]),
        (pd.Series([2, 1, 1], dtype="Int64"), [1, 2]),
        (pa.array(["b", "a", "a"]), ["a", "b"]),
        (range(300, 303), [300, 301, 302]),
    ],
)
def test_labels_of_every_kind(labels, expected):
    s = ClassStatistics().update([[0.0], [1.0], [3.0]], labels)
    assert s.classes.tolist() == expected
    assert s.counts.sum() == 3


def test_many_classes_keep_apart():
    rng = np.random.default_rng(0)
    labels = rng.permutation(70_000)
    s = ClassStatistics("tied").update(labels[:, None] * 2.0, labels)
    assert s.means.ravel().tolist() == (np.arange(70_000) * 2.0).tolist()
    assert s.scatter.tolist() == [[0.0]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.uint16, np.int64, np.bool_])
@pytest.mark.parametrize("order", ["C", "F"])
def test_features_of_every_type_are_summed_in_float64(dtype, order):
    rng = np.random.default_rng(0)
    rows = np.asarray(rng.integers(0, 2, size=(500, 3)).astype(dtype), order=order)
    labels = rng.integers(0, 3, size=500)
    assert (
        ClassStatistics()
        .update(rows, labels)
        .allclose(ClassStatistics().update(rows.astype(np.float64), labels), rtol=1e-14)
    )


def test_bool_and_int_states_are_not_the_same():
    ints, bools = ClassStatistics().update(X, [0, 0, 0, 1, 1]), ClassStatistics().update(X, Y == "b")
    assert ints != bools
    assert not ints.allclose(bools)


@pytest.mark.slow
def test_what_decays_to_nothing_is_gone():
    s = ClassStatistics().update(X, Y)
    for _ in range(1100):
        s.decay(0.5).update(X[3:], Y[3:])
    assert s.classes.tolist() == ["b"]
    assert np.isfinite(s.covariance()).all()


def test_a_heavy_row_among_light_ones_at_an_offset():
    rows, weights = np.array([[1e15], [1e15 + 3], [1e15 + 4]]), [1.0, 1e-15, 1e-15]
    at_once = ClassStatistics().update(rows, [0, 0, 0], weights)
    one_by_one = ClassStatistics()
    for i in range(3):
        one_by_one.update(rows[i : i + 1], [0], weights[i : i + 1])
    np.testing.assert_allclose(at_once.scatter, [[[2.5e-14]]], rtol=1e-9)
    np.testing.assert_allclose(one_by_one.scatter, at_once.scatter, rtol=1e-9)


def test_a_heavy_row_can_be_taken_out_again():
    light = ClassStatistics().update([[1.0]], [0])
    assert ((light + ClassStatistics().update([[2.0]], [0], [1e9])) - light).weights.tolist() == [1e9]


def test_rows_like_none_that_went_in_do_not_empty_a_class():
    for kind in KINDS:
        other = ClassStatistics(kind).update(X[3:] * 1000 + 5, Y[3:])
        with pytest.raises(ValueError, match="means of a class differ"):
            state(kind) - other


@pytest.mark.parametrize("missing", ["raise", "drop"])
def test_a_row_of_weight_zero_is_no_row_whatever_it_lacks(missing):
    frame = pd.DataFrame({"u": [1.0, 2.0, np.nan, 4.0], "y": ["a", None, "b", "a"], "w": [1, 0, 0, 3]})
    state = accumulate(scan_arrow(frame, "y", weight="w", missing=missing))
    assert (state.n_rows, state.n_dropped) == (2, 0)
    assert state.allclose(ClassStatistics().update([[1.0], [4.0]], ["a", "a"], [1, 3]), rtol=1e-12)
    with pytest.raises(ValueError, match="row 1 has no label"):
        accumulate(scan_arrow(frame, "y", features=["u"]))


@pytest.mark.parametrize("fourth", [False, True])
@pytest.mark.parametrize("weight", [1e308, 1e300])
def test_weights_that_are_too_large_are_refused(weight, fourth):
    with pytest.raises(ValueError, match=r"the features or their weights are too large.*Divide them"):
        ClassStatistics(fourth_moments=fourth).update(X * 1e5, Y, np.full(5, weight))
    s = ClassStatistics(fourth_moments=fourth).update(X[:1], Y[:1], [1e308])
    with pytest.raises(ValueError, match="the weights are too large: their sum"):
        s.update(X[:1], Y[:1], [1e308])
    assert s.n_rows == 1
    first, second = array_blocks(X[:1], ["a"], [1e308]), array_blocks(X[:2], ["a", "new"], [1e308, 1])
    with pytest.raises(ValueError, match="weights are too large"):
        ClassStatistics(fourth_moments=fourth).update_blocks(chain(first, second))
    for values in (X * 1e200, X.astype(np.int8)):
        with pytest.raises(ValueError, match="the features or their weights are"):
            ClassStatistics(fourth_moments=fourth).update(values, Y, np.full(5, 1e308))


# ---------------------------------------------------------------------- what subtraction leaves

LOST = "fewer than six correct digits"


@pytest.mark.slow_cases("True")
@pytest.mark.filterwarnings(f"ignore:.*{LOST}:RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_feature_that_does_not_vary_in_what_is_left_has_no_variance(kind, weighted):
    for seed in range(50):
        rng = np.random.default_rng(seed)
        kept, removed = rng.normal([0, 1e3, 1e8], size=(2, 20, 3))
        kept[:, seed % 3] = 0.1
        weights = rng.uniform(0.1, 2, size=20) if weighted else None
        a, b = (ClassStatistics(kind).update(rows, np.zeros(20), weights) for rows in (kept, removed))
        variances = diagonal((a + b) - b)
        assert variances[seed % 3] == 0
        assert (np.delete(variances, seed % 3) > 0).all()


@pytest.mark.slow_cases("[2-", "30-f", "30-t")
@pytest.mark.filterwarnings(f"ignore:.*{LOST}:RuntimeWarning")
@pytest.mark.parametrize("kind", [*KINDS, "fourth"])
@pytest.mark.parametrize("n_left", [1, 2, 30])
def test_rows_that_went_in_can_be_taken_out_whatever_they_weigh(kind, n_left):
    kept_as = {"fourth_moments": True} if kind == "fourth" else {"covariance_type": kind}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        light, heavy = rng.normal([0, 1e3, 1e8], size=(n_left, 3)), rng.normal([0, 1e3, 1e8], size=(20, 3))
        heavy[:, 0] = 0.1
        light[:, seed % 3] += 1e5
        heavy_weights = rng.uniform(size=20) * 1e10
        rest = ClassStatistics(**kept_as).update(light, np.zeros(n_left))
        part = ClassStatistics(**kept_as).update(heavy, np.zeros(20), heavy_weights)
        whole = rest + part
        for state in (whole, part):
            state.decay(0.9)
        left = whole - part
        assert left.counts.tolist() == [n_left]
        np.testing.assert_allclose(left.weights, 0.9 * n_left, rtol=1e-3)


def test_a_weight_that_rounding_hides_is_named():
    rows = np.random.default_rng(0).normal(size=(5, 2))
    heavy = ClassStatistics().update(rows[:2], ["a"] * 2, [1e14, 1e14])
    both = heavy + ClassStatistics().update(rows[2:], ["a"] * 3)
    with pytest.raises(
        ValueError, match="rounding hides the weight of the other 3 rows; accumulate them anew"
    ):
        both - heavy


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_copies_of_a_feature_are_taken_out_in_every_unit_and_what_is_of_no_rows_is_not(kind, unit):
    rows = np.random.default_rng(0).normal(size=(200, 1)) * [1, 1, 3] * unit
    whole, part, rest = (
        ClassStatistics(kind).update(x, np.zeros(len(x))) for x in (rows, rows[9:], rows[:9])
    )
    np.testing.assert_allclose(diagonal(whole - part), diagonal(rest), rtol=1e-9)
    if kind != "diag":
        turned = ClassStatistics(kind).update(rows[9:] * [1, 1, -1], np.zeros(191))
        with pytest.raises(ValueError, match="a correlation would exceed 1: these rows never went"):
            whole - turned


def test_one_row_that_is_left_does_not_vary(kind):
    rows = np.random.default_rng(0).normal([0, 1e3, 1e8], size=(1000, 3))
    one, others = (ClassStatistics(kind).update(part, np.zeros(len(part))) for part in (rows[:1], rows[1:]))
    assert not ((one + others) - others).scatter.any()
    stranger = ClassStatistics(kind).update(rows[1:] * 0.9, np.zeros(999))
    with pytest.raises(ValueError, match="never went into the state"):
        (one + others) - stranger


def diagonal(state):
    scatter = state.scatter
    return (
        scatter.ravel() if state.covariance_type == "diag" else np.diagonal(np.atleast_3d(scatter.T)[..., 0])
    )


def test_a_variance_that_loses_its_digits_is_told_with_the_remedy(kind):
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(100, 2)), np.repeat(["a", "b"], 50)
    giants = pd.DataFrame({"u": [1e8, -1e8], "v": [1.0, 2.0]})
    state = ClassStatistics(kind).update(rows, labels)
    part = ClassStatistics(kind).update(giants, ["b", "b"])
    where = "the classes" if kind == "tied" else "class b"
    with pytest.warns(RuntimeWarning, match=f"{where}: .*'u' .*{LOST}.*ExactClassStatistics") as caught:
        rest = (state + part) - part
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert (diagonal(rest) >= 0).all()
    tenth = ClassStatistics(kind).update(giants * 1e-4, ["b", "b"])
    (state + tenth) - tenth


# ---------------------------------------------------------------------- weights


@pytest.mark.slow
def test_many_small_weights_add_up_to_twice_the_precision(kind):
    """3,000 times 0.1, in one block and in many: not even rounding differs, so either undoes the other."""
    rows, labels = np.tile([[1.0], [2.0]], (1_500, 1)), np.zeros(3_000, int)
    weights = np.full(3_000, 0.1)
    at_once, one_by_one = ClassStatistics(kind).update(rows, labels, weights), ClassStatistics(kind)
    for i in range(3_000):
        one_by_one.update(rows[i : i + 1], labels[:1], weights[:1])
    assert at_once.weights.tolist() == one_by_one.weights.tolist() == [math.fsum(weights)]
    for whole, part in ((at_once, one_by_one), (one_by_one, at_once)):
        assert (whole - part).n_rows == 0


def test_weights_near_the_largest_float_add_up():
    rows, labels = [[1.0], [1.0], [1.0]], [0, 0, 1]
    state = ClassStatistics().update(rows, labels, [8e307, 9e307, 1e-300])
    assert state.weights.tolist() == [8e307 + 9e307, 1e-300]


def test_the_rest_of_a_weight_is_saved(tmp_path):
    state = ClassStatistics().update([[1.0]] * 3, [0] * 3, [0.1, 1e-20, 7.0])
    state.save(tmp_path / "state.parquet")
    assert load(tmp_path / "state.parquet") == state
    assert state != ClassStatistics().update([[1.0]] * 3, [0] * 3, [0.1, 1e-30, 7.0])
    whole = ClassStatistics().update([[1.0]] * 3, [0] * 3, [1, 2, 3])
    assert "weight_tail" not in whole.to_columns()[0]


# ---------------------------------------------------------------------- memory


def most_memory(function, *arguments):
    """The most bytes that a call allocates at a time, beside those that there were."""
    tracemalloc.start()
    try:
        function(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow_cases("False")
@pytest.mark.parametrize(
    ("kind", "fourth", "shape"),
    [
        ("full", False, (2_000, 20)),
        ("full", True, (2_000, 20)),
        ("tied", False, (100_000, 20)),
        ("diag", False, (100_000, 20)),
    ],
)
def test_merging_takes_little_memory_beside_the_two_states(kind, fourth, shape):
    rows = np.random.default_rng(0).normal(size=shape)
    labels = np.arange(len(rows))
    state = ClassStatistics(kind, fourth_moments=fourth).update(rows, labels)
    assert most_memory(state.merge, state.copy()) < 0.7 * state.nbytes
    few = ClassStatistics(kind, fourth_moments=fourth).update(rows[::7], labels[::7])
    assert most_memory(state.merge, few) < 0.7 * state.nbytes
    assert most_memory(few.merge, state) < 1.7 * state.nbytes


def test_one_long_label_does_not_widen_the_labels_of_all_rows():
    y = np.array(["a", "b"] * 50_000, dtype=object)
    y[7] = "x" * 20_000
    tracemalloc.start()
    state = ClassStatistics("diag").update(np.arange(100_000.0)[:, None], y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert state.classes.tolist() == ["a", "b", "x" * 20_000]
    assert peak < 50e6


@pytest.mark.slow
def test_a_label_too_long_for_so_many_classes_is_named():
    y = np.array([f"class {i}" for i in range(100_000)], dtype=object)
    y[7] = "x" * 20_000
    with pytest.raises(ValueError, match=r"a label has 20,000 characters: 'x{40}'.* 99,999 other classes"):
        ClassStatistics("diag").update(np.zeros((len(y), 1)), y)
    few = ClassStatistics("diag").update([[1.0]], y[7:8])
    with pytest.raises(ValueError, match="a label has 20,000 characters"):
        few.update(np.zeros((len(y) - 8, 1)), y[8:])
    assert few.n_rows == 1
