"""The loops in C against rational arithmetic and NumPy, on any layout; and what is stopped before them."""

import ctypes
import os
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgda import ClassStatistics
from streamgda.statistics import kernels
from streamgda.statistics.kernels import AnchoredSums, Workspace, add_products, centre, merge_rows, merger
from streamgda.statistics.kernels.build import source_hash

EPS = np.finfo(np.float64).eps
FLAGS = ["-std=c11", "-O1", "-g", "-shared", "-fPIC", "-ffp-contract=off", "-fno-builtin"]


def layouts(X):
    """The same rows in any layout that a user may have."""
    spaced = np.zeros((2 * len(X) + 1, 2 * X.shape[1] + 1), X.dtype)
    spaced[1::2, 1::2] = X
    packed = np.zeros(len(X), np.dtype([("flag", "i1"), *((f"x{j}", X.dtype) for j in range(X.shape[1]))]))
    for j, column in enumerate(X.T):
        packed[f"x{j}"] = column
    return {
        "C": np.ascontiguousarray(X),
        "Fortran": np.asfortranarray(X),
        "columns": [column.copy() for column in X.T],
        "spaced": spaced[1::2, 1::2],
        "backwards": X[::-1, ::-1].copy()[::-1, ::-1],
        "not aligned": [packed[f"x{j}"] for j in range(X.shape[1])],
        "of another order": X.astype(X.dtype.newbyteorder()),
        "read-only": np.frombuffer(X.tobytes(), X.dtype).reshape(X.shape),
    }


def exact(X, codes, n_classes):
    """Σ x and Σ (x − mean)² of each class and feature in rational arithmetic."""
    means, squares = np.zeros((2, n_classes, X.shape[1]))
    for k in range(n_classes):
        for j in range(X.shape[1]):
            values = [Fraction(float(value)) for value in X[codes == k, j]]
            mean = sum(values, Fraction(0)) / max(1, len(values))
            means[k, j], squares[k, j] = mean, sum((value - mean) ** 2 for value in values)
    return means, squares


def summed(features, codes, n_classes, n_features):
    """Means and scatter by sums about anchors."""
    means, low, scatter = np.zeros((3, n_classes, n_features))
    sums = AnchoredSums(np.zeros(n_classes), means, low, scatter)
    assert sums.add(features, codes.astype(np.int32))
    sums.end()
    return means + low, scatter


def merged(features, codes, n_classes, n_features):
    """Means and scatter by merging rows one by one."""
    means, low, scatter = moments = np.zeros((3, n_classes, n_features))
    assert merge_rows(features, codes.astype(np.int32), None, [*np.zeros((2, n_classes)), *moments])
    return means + low, scatter


def centred(features, codes, n_classes, n_features):
    """Means, centred rows, and their bounds; every class has a row."""
    counts = np.bincount(codes, minlength=n_classes)
    bounds = np.concatenate(([0], np.cumsum(counts)))
    rows, ranks = Workspace().gather(features, codes, bounds, centred=True)
    means, low = np.zeros((2, n_classes, n_features))
    of_classes = np.arange(n_classes), counts.astype(float), np.full(n_classes, -1.0), np.zeros(n_classes)
    assert centre(features, ranks, rows, counts, bounds, None, of_classes, (means, low))
    return means + low, rows, bounds


@st.composite
def problems(draw):
    n_rows, n_features = draw(st.integers(1, 40)), draw(st.integers(1, 9))
    n_classes, seed = draw(st.integers(1, 6)), draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    offset, dtype = draw(st.sampled_from([0.0, 1e6, -1e9])), draw(st.sampled_from([np.float64, np.float32]))
    X = (rng.integers(-999, 1000, (n_rows, n_features)) * 2.0**-6 + offset).astype(dtype)
    return X, rng.integers(n_classes, size=n_rows), draw(st.sampled_from(sorted(layouts(X))))


@given(problems())
def test_sums_are_those_of_rational_arithmetic_in_any_layout(problem):
    X, y, layout = problem
    _, codes = np.unique(y, return_inverse=True)
    features, shape = layouts(X)[layout], (codes.max() + 1, X.shape[1])
    means, squares = exact(X, codes, shape[0])
    centres, rows, bounds = centred(features, codes, *shape)
    by_class = np.transpose([np.square(part).sum(axis=1) for part in np.split(rows, bounds[1:-1], axis=1)])
    for found in (summed(features, codes, *shape), merged(features, codes, *shape), (centres, by_class.T)):
        np.testing.assert_allclose(found[0], means, rtol=EPS, atol=40 * EPS * np.ptp(X))
        np.testing.assert_allclose(found[1], squares, rtol=1e-12, atol=EPS * EPS * np.abs(X).max())


def some_moments(rng, n_classes, n_features, kind):
    weights, means = rng.integers(1, 5, n_classes) * 0.75, rng.normal(1e6, 1, (n_classes, n_features))
    vectors = rng.normal(size=(n_classes, n_features))
    scatter = vectors**2 if kind == "diag" else vectors[:, :, None] * vectors[:, None, :]
    return [weights, weights * EPS / 8, means, means * EPS * rng.uniform(-0.2, 0.2, means.shape), scatter]


@pytest.mark.parametrize("kind", ["diag", "full"])
@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_merged_moments_are_those_of_rational_arithmetic(kind, n_features):
    rng = np.random.default_rng(n_features)
    ours, theirs = (some_moments(rng, n, n_features, kind) for n in (7, 5))
    places, before = np.array([6, 0, 3, 2, 4]), [part.copy() for part in ours]
    spread = merger(places, ours[:4], theirs[:4])()
    assert all(map(np.array_equal, ours, before))
    merge, done = merger(places, ours, theirs), ctypes.c_int64()
    for _ in range(2):  # the second time, nothing is done
        merge(done)
    assert all(np.array_equal(part[[1, 5]], old[[1, 5]]) for part, old in zip(ours, before, strict=True))
    other = [part.copy() for part in theirs]  # the bits are the same the other way round
    merger(np.arange(5), other, [np.ascontiguousarray(part[places]) for part in before])(ctypes.c_int64())
    assert all(np.array_equal(part[places], same) for part, same in zip(ours, other, strict=True))
    exactly = np.vectorize(Fraction, otypes=[object])
    for k, place in enumerate(places):
        (w, w_low, m, m_low, s), (v, v_low, x, x_low, t) = (
            [exactly(part[i]) for part in side] for i, side in ((place, before), (k, theirs))
        )
        w, v, gap = w + w_low, v + v_low, (x + x_low) - (m + m_low)
        factor = w * v / (w + v)
        scatter = s + t + factor * (gap**2 if kind == "diag" else np.outer(gap, gap))
        weight, low_weight, mean, low_mean, found = (exactly(part[place]) for part in ours)
        assert abs(weight + low_weight - (w + v)) <= 1e-30 * (w + v)
        assert (abs(mean + low_mean - (m + m_low) - gap * v / (w + v)) <= 4 * EPS * abs(gap)).all()
        np.testing.assert_allclose(found.astype(float), scatter.astype(float), rtol=1e-14)
        np.testing.assert_allclose(spread[k], gap.astype(float) * float(factor) ** 0.5, rtol=1e-14)


@pytest.mark.parametrize("n_features", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize(("n_rows", "most"), [(1, 3), (3, 3), (4, 3), (5, 3), (300, 3), (300, 99)])
def test_every_number_of_rows_columns_and_classes(n_rows, most, n_features):
    rng = np.random.default_rng(0)
    X, codes = rng.normal(1e3, 1, (n_rows, n_features)), np.arange(n_rows) % most
    n_classes = codes.max() + 1
    by_class = [X[codes == k] for k in range(n_classes)]
    means = np.array([own[0] + (own - own[0]).mean(axis=0) for own in by_class])
    full = [(own - mean).T @ (own - mean) for own, mean in zip(by_class, means, strict=True)]
    expected, results = [np.diagonal(products) for products in full], []
    for features in layouts(X).values():
        sums = summed(features, codes, n_classes, n_features)
        one_by_one = merged(features, codes, n_classes, n_features)
        for found in (sums, one_by_one):
            np.testing.assert_allclose(found[0], means, rtol=1e-15)
            np.testing.assert_allclose(found[1], expected, rtol=1e-12, atol=1e-24)
        centres, rows, bounds = centred(features, codes, n_classes, n_features)
        products = np.zeros((n_classes + 1, n_features, n_features))
        add_products(rows, bounds, np.arange(1, n_classes + 1), products)
        np.testing.assert_allclose(products[1:], full, rtol=1e-9, atol=1e-11)
        assert not products[0].any()
        np.testing.assert_array_equal(products, products.transpose(0, 2, 1))
        results.append([*sums, *one_by_one, centres, rows])
    for other in results[1:]:
        for ours, theirs in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(ours, theirs)  # to the bit


def test_no_rows_and_no_columns():
    means, low, scatter = np.ones((3, 4, 5))
    sums = AnchoredSums(np.zeros(4), means, low, scatter)
    assert sums.add(np.zeros((0, 5)), np.zeros(0, np.int32))
    sums.end()
    assert (means == 1).all()
    assert (scatter == 1).all()
    rows, ranks = Workspace().gather(np.zeros((0, 5)), np.zeros(0, int), np.array([0, 0]))
    assert rows.shape == (5, 0)
    assert len(ranks) == 0
    assert Workspace().gather(np.zeros((3, 0)), np.zeros(3, int), np.array([0, 3]))[0].shape == (0, 3)


@pytest.mark.parametrize("n_rows", [31, 32, 33, 1024, 5000])
@pytest.mark.parametrize("first", [0.0, 1e7])
def test_sums_begin_anew_before_they_lose_more_than_five_bits(n_rows, first):
    """All but the first row, which is the anchor, are close together."""
    rng = np.random.default_rng(0)
    X = np.vstack([[first], rng.integers(-99, 100, (n_rows, 1)) * 2.0**-5])
    means, scatter = summed(X, np.zeros(len(X), int), 1, 1)
    exactly = exact(X, np.zeros(len(X), int), 1)
    np.testing.assert_allclose(means, exactly[0], rtol=1e-13)
    np.testing.assert_allclose(scatter, exactly[1], rtol=64 * EPS)


@pytest.mark.parametrize("n_classes", [7, 200])
@pytest.mark.parametrize("n_rows", [0, 700])
def test_rows_are_put_where_their_classes_are(n_classes, n_rows):
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(n_rows, 5)), rng.integers(n_classes, size=n_rows)
    counts = np.bincount(codes, minlength=n_classes)
    bounds = np.concatenate(([0], np.cumsum(counts + 2)))  # with room behind each class
    for features in layouts(X).values():
        rows, ranks = Workspace().gather(features, codes, bounds)
        np.testing.assert_array_equal(rows[:, ranks].T, X)
        assert (np.diff(ranks[np.argsort(codes, kind="stable")]) > 0).all()


# ---------------------------------------------------------------------- what is stopped before a loop

CODES = np.zeros(4, np.int32)
TABLE = np.zeros((3, 2, 5))


FITTING = {
    "features": np.zeros((4, 5)),
    "codes": CODES,
    "row_weights": None,
    "weights": np.zeros((2, 2)),
    "moments": TABLE,
}
WRONG = {
    "features": [np.zeros((4, 6)), np.zeros(4), [np.zeros(4)] * 4, [np.zeros(4), np.zeros(3)]],
    "codes": [
        CODES - 1,
        CODES + 2,
        CODES[:3],
        CODES.astype(np.int64),
        np.zeros(8, np.int32)[::2],
        CODES * 1.0,
    ],
    "row_weights": [np.ones(3)],
    "weights": [np.zeros((2, 3))],
    "moments": [
        TABLE[:, :, ::2],
        np.tile(TABLE, 2)[:, :, : TABLE.shape[2]],
        TABLE.astype(np.float32),
        np.broadcast_to(0.0, TABLE.shape),
        TABLE[:, :1],
    ],
}


@pytest.mark.parametrize(("name", "wrong"), [(name, wrong) for name in WRONG for wrong in WRONG[name]])
def test_what_does_not_fit_does_not_reach_a_loop_over_rows(name, wrong):
    features, codes, row_weights, weights, moments = (FITTING | {name: wrong}).values()
    message = "feature|columns" if name == "features" else "the loop takes"
    with pytest.raises(ValueError, match=f"{message}|features" if name == "moments" else message):
        merge_rows(features, codes, row_weights, [*weights, *moments])
    if "weights" not in name:
        with pytest.raises(ValueError, match=message):
            AnchoredSums(np.zeros(2), *moments).add(features, codes)


@pytest.mark.parametrize("moments", WRONG["moments"])
def test_moments_that_do_not_fit_are_not_merged(moments):
    ours = [*np.zeros((2, 2)), *TABLE.copy()]
    for theirs, places in ([*np.zeros((2, 2)), *moments], np.arange(2)), (ours, np.array([0, 2])):
        with pytest.raises(ValueError, match="the loop takes"):
            merger(places, ours, theirs)


@pytest.mark.parametrize("codes", [[0, 1, 2, 0], [0, -1, 1, 0], [0, 0, 0, 1], [0, 1, 0]])
def test_codes_that_do_not_fit_do_not_reach_the_buffer(codes):
    with pytest.raises(ValueError, match=r"the loop takes|more rows than"):
        Workspace().gather(np.zeros((4, 5)), np.array(codes), np.array([0, 2, 4]))


def test_classes_without_room_are_refused():
    rows, ranks = Workspace().gather(X := np.zeros((4, 5)), CODES, np.array([0, 4]), centred=True)
    means = np.zeros((2, 1, 5))
    new = np.zeros(1, int), np.full(1, 4.0), np.full(1, -1.0), np.zeros(1)
    seen = np.zeros(1, int), np.full(1, 4.0), np.full(1, 0.5), np.ones(1)
    four, whole = np.array([4]), np.array([0, 4])
    for counts, bounds, of_classes in [
        (four, whole, seen),  # no room for the distance of the means
        (np.array([5]), whole, new),
        (np.array([0]), np.array([0, 0]), new),
        (four, np.array([0, 9]), new),
        (four, np.array([-4, 0]), new),
        (four, whole, (np.array([1]), *new[1:])),
        (four, whole.astype(np.int32), new),
        (four, whole, (*new[:3], np.zeros(2))),
    ]:
        with pytest.raises(ValueError, match="the loop takes|no room"):
            centre(X, ranks, rows, counts, bounds, None, of_classes, tuple(means))
    of_two = np.arange(2), np.full(2, 2.0), np.array([0.5, -1.0]), np.ones(2)  # there is room for the new one
    with pytest.raises(ValueError, match="no room"):
        centre(
            X, ranks, rows, np.array([2, 2]), np.array([0, 2, 4]), None, of_two, tuple(np.zeros((2, 2, 5)))
        )
    with pytest.raises(ValueError, match="the loop takes"):
        centre(X, ranks, rows[:, ::2], four, whole, None, new, tuple(means))
    with pytest.raises(ValueError, match="ascend"):
        add_products(rows, np.array([0, 3, 2]), np.array([0, 0]), np.zeros((1, 5, 5)))
    with pytest.raises(ValueError, match="the loop takes"):
        add_products(rows, whole, np.array([1]), np.zeros((1, 5, 5)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
@pytest.mark.parametrize("n_rows", [20, 2000])
def test_what_is_not_finite_is_noticed(value, kind, n_rows):
    for j in range(5):
        X, y = np.random.default_rng(0).normal(size=(n_rows, 5)), np.arange(n_rows) % 4
        X[n_rows // 2, j] = value
        name = "too large" if value == 1e200 else rf"row {n_rows // 2}: feature {j} is (NaN|infinity)"
        with pytest.raises(ValueError, match=name):
            ClassStatistics(kind).update(X, y)


# ---------------------------------------------------------------------- the library


def assert_refused(library, reason):
    code = "import numpy as np, streamgda; streamgda.ClassStatistics().update(np.eye(4), [0, 0, 1, 1])"
    environment = os.environ | {"STREAMGDA_SUMS": str(library)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert reason in done.stderr
    assert "Install streamgda again with pip" in done.stderr
    assert "streamgda/statistics/kernels/build.py" in done.stderr


@pytest.mark.slow
def test_a_library_that_is_missing_is_named_with_the_remedy():
    assert_refused("/nowhere/_sums.so", "/nowhere/_sums.so")


def sanitizer():
    """The library of AddressSanitizer that gcc has; None where there is none."""
    if sys.platform != "linux" or not shutil.which("gcc"):
        return None
    found = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=False
    )
    path = Path(found.stdout.strip())
    return path.resolve() if path.is_absolute() and path.exists() else None


@pytest.mark.slow
@pytest.mark.skipif(not sanitizer(), reason="needs gcc with AddressSanitizer")
def test_sanitizers_find_nothing_in_these_tests(tmp_path):
    source, library = Path(kernels.__file__).with_name("sums.c"), tmp_path / "sums.so"
    flags = [*FLAGS, f"-DSOURCE_HASH={source_hash()}ULL", "-fsanitize=address,undefined"]
    flags += ["-fno-sanitize-recover=all"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(library)], check=True)
    environment = os.environ | {
        "STREAMGDA_SUMS": str(library),
        "LD_PRELOAD": str(sanitizer()),
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    chosen = "rational or every_number or anew or where_their or no_rows or not_finite"
    command = [sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", __file__, "-k", chosen]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
