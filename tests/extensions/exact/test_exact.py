"""The exact state: one multiset of rows, one set of bits, and each number read off it correctly rounded."""

from decimal import Decimal
from fractions import Fraction

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from streamgda import (
    ClassStatistics,
    ExactClassStatistics,
    GaussianNB,
    accumulate,
    scan_arrow,
    scan_dask,
    scan_parquet,
    scan_zarr,
)
from tests.contracts.mergeable_contract import SubtractableContract
from tests.reference import exact_moments
from tests.strategies import FOUR_MODELS, KINDS, kinds, label_sets


def of(kind, X, y, sample_weight=None):
    return ExactClassStatistics(kind).update(X, y, sample_weight)


def bits(state):
    """What is saved of a state."""
    columns, metadata = state.to_columns()
    return state.digest(), {name: values.tobytes() for name, values in columns.items()}, metadata


# ---------------------------------------------------------------------- rows of every kind

floats = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-4, 4),
    st.floats(0.1, 1.0).map(lambda x: 1e12 + x),
    st.sampled_from([0.0, -0.0, 5e-324, -(2.0**-1040), 1e-300, -1e300, 2.0**1023, 0.1, 1 / 3, 1e12, -1e12]),
)
elements = {
    np.float64: floats,
    np.float32: st.floats(width=32, allow_nan=False, allow_infinity=False),
    np.int64: st.one_of(st.integers(-100, 100), st.integers(-(2**63), 2**63 - 1)),
    np.uint64: st.integers(0, 2**64 - 1),
    np.int16: st.integers(-(2**15), 2**15 - 1),
    np.bool_: st.booleans(),
}


@st.composite
def labelled_rows(draw, min_rows=1, max_rows=12):
    dtype = draw(st.sampled_from(list(elements)))
    n_rows, n_features = draw(st.integers(min_rows, max_rows)), draw(st.integers(1, 3))
    X = draw(hnp.arrays(dtype, (n_rows, n_features), elements=elements[dtype]))
    labels = draw(label_sets)
    codes = draw(hnp.arrays(np.int64, n_rows, elements=st.integers(0, len(labels) - 1)))
    return X, np.array(labels)[codes]


def nearest(fraction):
    """The float64 nearest to a rational; Python's division rounds correctly."""
    try:
        return fraction.numerator / fraction.denominator
    except OverflowError:
        return np.inf if fraction > 0 else -np.inf


def rounded(fractions):
    return np.frompyfunc(nearest, 1, 1)(fractions).astype(np.float64)


def expected(kind, X, y, weights=None, ddof=0):
    """Means and covariances from their definitions in rational arithmetic, each rounded once."""
    totals, *sums = zip(*exact_moments(X, y, weights).values(), strict=True)
    means, scatters = map(np.array, sums)
    if kind == "tied":
        totals, scatters = [sum(totals) - ddof * len(totals) + ddof], scatters.sum(axis=0, keepdims=True)
    covariance = [rounded(scatter / (n - ddof)) for scatter, n in zip(scatters, totals, strict=True)]
    shaped = {"full": covariance, "tied": covariance[0], "diag": [np.diagonal(c) for c in covariance]}[kind]
    return rounded(means), np.array(shaped)


@given(kinds, labelled_rows())
def test_means_and_covariances_are_the_exact_ones_rounded_once(kind, data):
    X, y = data
    state = of(kind, X, y)
    means, covariance = expected(kind, X, y)
    np.testing.assert_array_equal(state.means, means)
    np.testing.assert_array_equal(state.covariance(), covariance)
    assert state.counts.tolist() == np.unique(y, return_counts=True)[1].tolist()


@pytest.mark.slow
@given(kinds, labelled_rows(min_rows=2))
def test_ddof_is_part_of_the_one_rounding(kind, data):
    X, y = data
    y = np.zeros(len(y), dtype=int)
    np.testing.assert_array_equal(of(kind, X, y).covariance(1), expected(kind, X, y, ddof=1)[1])


@pytest.mark.slow
@given(labelled_rows())
def test_summaries_of_all_rows_are_rounded_once(data):
    X, y = data
    means, covariance = expected("diag", X, np.zeros(len(y)))
    for kind in KINDS:
        np.testing.assert_array_equal(of(kind, X, y).overall_mean(), means[0])
        np.testing.assert_array_equal(of(kind, X, y).total_variance(), covariance[0])


@pytest.mark.slow
@given(kinds, labelled_rows(), st.data())
def test_a_weight_is_a_repetition(kind, data, draw):
    X, y = data
    weights = np.array(draw.draw(st.lists(st.integers(0, 9), min_size=len(y), max_size=len(y))))
    assume(weights.any())
    weighted, repeated = of(kind, X, y, weights), of(kind, X.repeat(weights, axis=0), y.repeat(weights))
    assert weighted.weights.tolist() == repeated.counts.tolist()
    for name in ("classes", "means", "scatter", "sums", "outer_sums"):
        np.testing.assert_array_equal(getattr(weighted, name), getattr(repeated, name))


def test_heavy_weights_are_exact():
    X, y, weights = np.array([[0.1], [1e12], [-3.0]]), [0, 0, 0], [2**53 - 1, 2**40 + 1, 1]
    state = of("full", X, y, weights)
    means, covariance = expected("full", X, np.array(y), weights)
    assert state.means.tolist() == means.tolist()
    assert state.covariance().tolist() == covariance.tolist()
    assert state.weights.tolist() == [float(sum(weights))]


# ---------------------------------------------------------------------- one multiset of rows, one state


class TestFull(SubtractableContract):
    kind = "full"

    def datasets(self, min_rows=1):
        return labelled_rows(min_rows)

    def of(self, *data):
        return of(self.kind, *data) if data else ExactClassStatistics(self.kind)

    def assert_agree(self, a, b, data, whole=None):
        assert bits(a) == bits(b)


@pytest.mark.slow
class TestTied(TestFull):
    kind = "tied"


@pytest.mark.slow
class TestDiagonal(TestFull):
    kind = "diag"


@given(labelled_rows(), st.sampled_from(["tied", "diag"]))
def test_narrowing_is_what_the_narrow_kind_keeps(data, kind):
    assert bits(of("full", *data).to_covariance_type(kind)) == bits(of(kind, *data))


@given(kinds, labelled_rows())
def test_a_state_travels_as_plain_columns(kind, data):
    state = of(kind, *data)
    columns, metadata = state.to_columns()
    assert all(len(values) == len(state.classes) for name, values in columns.items() if "pooled" not in name)
    backwards = {name: v[::-1] for name, v in columns.items() if "pooled" not in name}
    assert ExactClassStatistics.from_columns({**columns, **backwards}, metadata) == state


@pytest.fixture(scope="module")
def many_rows():
    """Tiles, classes that end within them, outliers, rows of more bits than most; and what integers say."""
    rng = np.random.default_rng(0)
    n = 150_000
    steps = rng.integers(-(2**50), 2**50, size=(n, 2)).astype(object)
    steps[::997] *= 2**40
    steps[5::1009] *= 2
    steps[::2, 1] //= 2**47
    steps *= 2**30
    steps[7::701] += 1
    X = np.ldexp(steps.astype(np.float64), -60)
    steps = np.array([[int(v) for v in row] for row in np.ldexp(X, 60)], dtype=object)
    y = rng.choice(3, size=n, p=[0.2, 0.799, 0.001])
    sums = np.array([steps[y == k].sum(axis=0) for k in range(3)])
    outer = np.array([steps[y == k].T @ steps[y == k] for k in range(3)])
    return X, y, ExactClassStatistics.from_sums(range(3), np.bincount(y), sums, outer)


@pytest.mark.slow_cases("full", "F-diag", "tied")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_many_rows_in_many_blocks(kind, order, many_rows):
    X, y, whole = many_rows
    X, whole = np.asarray(X, order=order), whole.to_covariance_type(kind)
    state = of(kind, X, y)
    assert (state.sums == np.ldexp(whole.sums, -60)).all()
    assert (state.means == np.ldexp(whole.means, -60)).all()
    assert (state.scatter == np.ldexp(whole.scatter, -120)).all()
    assert state == of(kind, X[::-1], y[::-1])


def test_no_number_of_rows_overflows():
    X, y = np.array([[1e12 + 0.1, -3.0], [1e12, 1 / 3], [1e12 + 0.3, 1e-5]]), [0, 0, 0]
    state = of("full", X, y)
    for _ in range(100):
        state += state
    assert state.weights.tolist() == [3 * 2.0**100]
    assert (state.covariance() == of("full", X, y).covariance()).all()
    assert (state.means == of("full", X, y).means).all()


# ---------------------------------------------------------------------- wherever the rows are

N = 5000
RNG = np.random.default_rng(3)
MATRIX = RNG.normal(size=(N, 2)) * [1, 1e-3] + [0, 1e9]
TABLE = pa.table({"u": MATRIX[:, 0], "v": MATRIX[:, 1], "y": RNG.integers(0, 3, size=N)})


def written(kind, table, folder):
    """A source of the same rows, cut into chunks of its own."""
    y = table["y"].to_numpy()
    X = np.column_stack([table["u"], table["v"]])
    if kind == "Parquet":
        pq.write_table(table.slice(0, 1700), folder / "a.parquet", row_group_size=333)
        pq.write_table(table.slice(1700), folder / "b.parquet", row_group_size=1024)
        return scan_parquet(folder, "y")
    if kind == "Zarr":
        group = zarr.open_group(folder / "z", mode="w")
        group.create_array("X", data=X, chunks=(700, 1))
        group.create_array("y", data=y, chunks=(900,))
        return scan_zarr(folder / "z")
    if kind == "Dask":
        return scan_dask(da.from_array(X, chunks=(617, 2)), da.from_array(y, chunks=617))
    return scan_arrow(table, "y")


@pytest.mark.slow_cases("Dask", "Zarr", "diag", "tied")
@pytest.mark.parametrize("where", ["Parquet", "Zarr", "Dask", "Arrow"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_source_scheduler_and_number_of_workers_gives_the_same_bits(where, kind, tmp_path):
    exact = of(kind, MATRIX, TABLE["y"].to_numpy())
    in_any_order = TABLE.take(np.random.default_rng(0).permutation(N))
    source = written(where, in_any_order, tmp_path)
    for scheduler in ("synchronous", "threads"):
        for workers in (1, 2, 3):
            with dask.config.set(num_workers=workers):
                state = accumulate(source, kind, exact=True, scheduler=scheduler)
            assert unnamed(state) == bits(exact)[1:]


def unnamed(state):
    """What is saved of a state, but for the names of the features, which not every source has."""
    _, columns, metadata = bits(state)
    return columns, {**metadata, "feature_names": None}


# ---------------------------------------------------------------------- what cannot be


X = np.array([[1.0, 2.0], [3.0, 5.0], [0.5, 0.25], [7.0, -2.0], [1e12, 0.1]])
Y = np.array(["a", "a", "b", "b", "b"])


def test_rows_that_differ_from_those_that_went_in_by_little_are_not_taken_out(kind):
    state = of(kind, X, Y)
    with pytest.raises(ValueError, match="these rows never went into the state"):
        state - of(kind, X[:2] + 2.0**-40, Y[:2])
    assert state == of(kind, X, Y)


def test_a_scatter_that_no_rows_could_have_is_refused():
    """Rows whose variances fit within those of the state, but whose covariance does not."""
    rows = np.array([[-1.0, -1.0], [1.0, 1.0]] * 10)
    state = of("full", np.vstack([rows, rows * 1.1]), np.zeros(40, dtype=int))
    with pytest.raises(ValueError, match="never went into the state"):
        state - of("full", rows * [1, -1], np.zeros(20, dtype=int))


def test_dropped_rows_are_taken_back_too():
    dirty = pa.table({"u": [1.0, None, 3.0], "y": [0, 0, 1]})
    state = accumulate(scan_arrow(dirty, "y", missing="drop"), exact=True)
    clean = of("full", [[1.0], [3.0]], [0, 1])
    assert state.n_dropped == 1
    assert (state - state).n_dropped == 0
    with pytest.raises(ValueError, match="dropped"):
        clean - state


@pytest.mark.parametrize(
    "verb", [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a.copy().merge(b), lambda a, b: sum([a, b])]
)
def test_exact_and_floating_states_do_not_mix_unasked(verb):
    exact, floating = of("full", X, Y), ClassStatistics().update(X, Y)
    for a, b in ((exact, floating), (floating, exact)):
        with pytest.raises(ValueError, match="to_float"):
            verb(a, b)
    assert (exact.to_float() + floating).n_rows == 10
    assert exact != floating


def test_exact_and_floating_states_of_the_same_rows_compare_either_way(kind):
    y = TABLE["y"].to_numpy()
    exact, floating = of(kind, MATRIX, y), ClassStatistics(kind).update(MATRIX, y)
    made = exact.to_float()
    assert isinstance(made, ClassStatistics)
    for one, other in ((made, floating), (exact, floating), (floating, exact)):
        assert one.allclose(other, rtol=1e-9)
    assert not (floating + floating).allclose(exact)
    assert made.update(MATRIX, y).decay(0.5).n_rows == 2 * N
    assert exact.allclose(made) is False
    for state in (exact, floating):
        with pytest.raises(TypeError, match="statistics compare with statistics; got str"):
            state.allclose("itself")


def test_to_float_keeps_means_to_twice_the_precision():
    rows, labels = np.array([[1e12], [1e12 + 2.0**-13], [1e12]]), [0, 0, 0]
    halves = of("full", rows, labels).to_float() + of("full", rows + 1, labels).to_float()
    assert halves.allclose(of("full", np.vstack([rows, rows + 1]), labels * 2).to_float(), rtol=1e-15)


def test_what_exceeds_float64_has_no_floating_state():
    with pytest.raises(ValueError, match="their squares exceed float64"):
        of("full", np.array([[1e200], [3e200]]), [0, 0]).to_float()


def test_an_exact_state_does_not_decay():
    with pytest.raises(ValueError, match=r"to_float\(\).decay"):
        of("full", X, Y).decay(0.5)


@pytest.mark.parametrize("weight", [0.5, 2.0**53, 1e300, 1 + 2.0**-52])
def test_a_weight_that_is_no_repetition_is_refused(weight):
    state = of("full", X, Y)
    with pytest.raises(ValueError, match="row 2 has weight .* whole numbers below 2.53"):
        state.update(X, Y, [1, 1, weight, 1, 1])
    assert state == of("full", X, Y)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="long double is float64 here")
def test_numbers_of_more_than_64_bits_are_refused():
    rows = X.astype(np.longdouble)
    assert of("full", rows, Y) == of("full", X, Y)
    rows[2, 1] += np.longdouble(2) ** -60
    with pytest.raises(ValueError, match="row 2: feature .*1'? has more digits"):
        of("full", rows, Y)


@pytest.mark.parametrize(
    "rows",
    [
        [[2**53 + 1, 0.5], [1, 2]],
        pd.DataFrame({"t": [2**53 + 1, 1], "u": [0.5, 0.5]}),
        pd.DataFrame({"t": pd.array([2**53 + 1, 1], dtype="Int64"), "u": [0.5, 0.5]}),
        np.array([[2**53 + 1, 0.5], [1, 2]], dtype=object),
    ],
)
def test_integers_that_numpy_would_round_are_refused(rows):
    for learn in (ExactClassStatistics().update, GaussianNB(exact=True).partial_fit):
        with pytest.raises(ValueError, match="column ('t'|0) has integers beyond 2.53"):
            learn(rows, [0, 1])


@pytest.mark.parametrize(
    "value",
    [Decimal(2**53 + 1), Fraction(2**53 + 1), str(2**53 + 1), " 9007199254740993e0 ", 10**400, "1e400"],
)
def test_numbers_of_other_types_that_float64_would_round_are_refused(value):
    array = np.array([[1.0, value], [1.0, 2]], dtype=object)
    for rows in (array, array.tolist(), pd.DataFrame(array, columns=["u", "t"], dtype=object)):
        if hasattr(rows, "columns") and isinstance(value, str):
            continue  # text is no feature of a frame
        with pytest.raises(ValueError, match="column ('t'|1) has (numbers|integers) beyond 2.53"):
            of("diag", rows, [0, 0])
    with pytest.raises(ValueError, match="column 0 has numbers beyond 2.53"):
        of("diag", np.array([[str(value)], ["1"]]), [0, 0])


def test_numbers_of_other_types_that_float64_holds_are_taken():
    rows = np.array([[Decimal(2**53), "1e20"], [Fraction(1, 2), "0.5"]], dtype=object)
    assert of("diag", rows, [0, 0]) == of("diag", rows.astype(np.float64), [0, 0])


def test_decimals_of_a_table_are_not_rounded():
    values, y = [2**53 + 1, 2**62, None, -(2**53) - 1], [0, 0, 0, 0]
    integers = of("diag", np.array([[v] for v in values if v is not None]), [0, 0, 0])
    for kind in (pa.decimal128(25, 0), pa.decimal128(30, 4)):
        column = pa.array([None if v is None else Decimal(v) for v in values], kind)
        state = accumulate(
            scan_arrow(pa.table({"x": column, "y": y}), "y", missing="drop"), "diag", exact=True
        )
        assert state._labelled.equals(integers._labelled)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="long double is float64 here")
@pytest.mark.parametrize(
    "value", [Decimal(2**70 + 1), Decimal(2**53) + Decimal("0.25"), Decimal(2**100 + 2**10)]
)
def test_decimals_of_a_table_that_would_be_rounded_are_refused(value):
    table = pa.table({"x": pa.array([value, Decimal(1)], pa.decimal128(38, 2)), "y": [0, 0]})
    with pytest.raises(ValueError, match="row 0: feature 'x' has more digits"):
        accumulate(scan_arrow(table, "y"), exact=True)
    assert accumulate(scan_arrow(table, "y")).sums.tolist() == [[float(value) + 1]]


def test_the_largest_floats_are_summed_without_a_warning(kind):
    rows = np.random.default_rng(0).normal(size=(600, 2))
    rows[:, 0], rows[5, 1] = 1.7e308, 1e308
    state = of(kind, rows, np.zeros(600, int))
    assert state.means[0, 0] == 1.7e308
    assert state == of(kind, rows[:300], np.zeros(300, int)) + of(kind, rows[300:], np.zeros(300, int))


def test_integers_that_float64_would_round_are_exact():
    rows = np.array([[2**53 + 1, 3], [-(2**63), 5], [2**63 - 1, 7]])
    assert of("full", rows, [0, 0, 0]).sums.tolist() == [[float(2**53), 15.0]]
    nanoseconds = pa.table({"t": [10**18 + 1, 10**18 + 2, 10**18 + 4], "y": [0, 0, 0]})
    assert accumulate(scan_arrow(nanoseconds, "y"), exact=True).covariance().tolist() == [[[14 / 9]]]


# ---------------------------------------------------------------------- sums of integers


def test_integer_sums_are_a_state():
    rows = np.array([[1, 2], [3, 4], [5, 6]])
    for kind in KINDS:
        state = of(kind, rows, ["b", "a", "a"])
        outer = {
            "full": [[[34, 42], [42, 52]], [[1, 2], [2, 4]]],
            "tied": [[35, 44], [44, 56]],
            "diag": [[34, 52], [1, 4]],
        }[kind]
        again = ExactClassStatistics.from_sums(
            ["a", "b"], [2, 1], [[8, 10], [1, 2]], outer, covariance_type=kind
        )
        assert again == state


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sums": [[4.0], [1]]}, "exact sums are integers; got 4.0"),
        ({"sums": [[4], [2]]}, "of no rows"),
        ({"classes": ["a", "a"]}, "stands twice"),
        ({"counts": [2, 0]}, "class a has count 0"),
        ({"weights": [2, -1]}, "class a has count 1 and weight -1"),
        ({"outer_sums": [[[10, 1]], [[1, 1]]]}, "outer_sums must have shape"),
        ({"feature_names": ["u", "v"]}, "2 feature names for 1 feature$"),
    ],
)
def test_sums_that_cannot_be_are_refused(change, message):
    good = {"classes": ["b", "a"], "counts": [2, 1], "sums": [[4], [1]], "outer_sums": [[[10]], [[1]]]}
    with pytest.raises(ValueError, match=message):
        ExactClassStatistics.from_sums(**{**good, **change})


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("count", lambda v: v * 0, "has count 0"),
        ("count", lambda v: v[:1], "one count for each class"),
        ("label", lambda v: v[[0, 0]], "stands twice"),
        ("sum_digits", lambda v: v[:, :-1], "does not agree"),
        ("sum_digits", lambda v: v * 0.5, "does not agree"),
        ("outer_sum_digits", lambda v: -v, "of no rows"),
    ],
)
def test_columns_that_cannot_be_are_refused(name, change, message):
    columns, metadata = of("full", X, Y).to_columns()
    with pytest.raises(ValueError, match=message):
        ExactClassStatistics.from_columns({**columns, name: change(columns[name])}, metadata)


# ---------------------------------------------------------------------- what it is for


@pytest.mark.parametrize("estimator", FOUR_MODELS)
def test_features_too_large_for_a_model_are_refused(estimator):
    rows, labels = np.random.default_rng(0).normal(size=(20, 2)) * 1e200, np.arange(20) % 2
    with pytest.raises(ValueError, match="too large"):
        estimator(exact=True).fit(rows, labels)
    assert np.isinf(of("full", rows, labels).covariance()).any()


def test_the_state_is_small():
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(20_000, 30)), rng.integers(0, 10, size=20_000)
    for kind in KINDS:
        floating = ClassStatistics(kind).update(rows, labels)
        assert of(kind, rows, labels).nbytes < 4 * floating.nbytes


# ---------------------------------------------------------------------- what no rows could have left


def test_one_row_that_is_left_does_not_vary(kind):
    state, before = of(kind, [[0.0], [10.0]], [0, 0]), of(kind, [[0.0], [10.0]], [0, 0])
    with pytest.raises(ValueError, match="never went into the state"):
        state - of(kind, [[5.0]], [0])
    assert state == before
    assert state - of(kind, [[10.0]], [0]) == of(kind, [[0.0]], [0])
    with pytest.raises(ValueError, match="of no rows"):
        ExactClassStatistics.from_sums(
            [0], [1], [[5]], [[50]] if kind != "full" else [[[50]]], covariance_type=kind
        )


def test_no_row_that_is_left_weighs_less_than_one(kind):
    state = of(kind, np.zeros((3, 1)), [0, 0, 0], [1, 1, 5])
    with pytest.raises(ValueError, match="cannot remove 1 row of weight 6 from 3 rows of weight 7"):
        state - of(kind, [[0.0]], [0], [6])


def test_what_is_left_may_weigh_any_power_of_two(kind):
    kept = of(kind, [[0.0], [1.0]], [0, 0], [2**31, 2**31])
    removed = of(kind, [[3.0]], [0], [5])
    assert (kept + removed) - removed == kept


# ---------------------------------------------------------------------- columns beside others


def test_weights_repeat_rows_of_columns(tmp_path, kind):
    """Where rows of some weights are a part of a block, in an array by columns and in a file."""
    X, y, weights = np.arange(10.0).reshape(5, 2) ** 3, np.array([0, 1, 0, 1, 1]), np.array([1, 2, 3, 4, 7])
    repeated = of(kind, np.repeat(X, weights, axis=0), np.repeat(y, weights))
    by_columns = of(kind, np.asfortranarray(X), y, weights)
    pq.write_table(pa.table({"u": X[:, 0], "v": X[:, 1], "y": y, "w": weights}), tmp_path / "0.parquet")
    read = accumulate(scan_parquet(tmp_path, "y", weight="w"), kind, exact=True)
    for state in (by_columns, read):
        assert state.weights.tolist() == repeated.weights.tolist()
        assert state.scatter.tobytes() == repeated.scatter.tobytes()


def test_a_null_does_not_round_the_integers_beside_it(tmp_path):
    values = [2**53 + 1, 2**63 - 1, None, -(2**53) - 1, 5]
    table = pa.table({"x": pa.array(values, pa.int64()), "y": ["a"] * 5})
    pq.write_table(table, tmp_path / "0.parquet")
    state = accumulate(scan_parquet(tmp_path, "y", missing="drop"), exact=True)
    kept = np.array([[value] for value in values if value is not None])
    assert state.n_dropped == 1
    assert state.sums.tolist() == of("full", kept, ["a"] * 4).sums.tolist()
    assert state.scatter.tobytes() == of("full", kept, ["a"] * 4).scatter.tobytes()
    assert state._labelled.equals(of("full", kept, ["a"] * 4)._labelled)
    with pytest.raises(ValueError, match="row 2: feature 'x' is NaN or null"):
        accumulate(scan_parquet(tmp_path, "y"), exact=True)


@pytest.mark.slow  # since fewer rows do not overflow
def test_sums_of_many_rows_of_many_classes_do_not_overflow():
    n, n_classes = 1 << 22, 1 << 15
    values = np.tile([2018.0, 2022.0 - 2**-30], n // 2)
    state = ExactClassStatistics("tied").update(values[:, None], np.arange(n) // 2 % n_classes)
    assert state.covariance().item() == pytest.approx(4, rel=1e-6)
