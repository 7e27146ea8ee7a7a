"""Fourth moments in the state: the laws of addition, in rational arithmetic and to rounding."""

import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamgda import ClassStatistics
from tests.contracts.mergeable_contract import DecayingContract, SubtractableContract
from tests.strategies import labelled_rows


def of(X, y, sample_weight=None):
    return ClassStatistics(fourth_moments=True).update(X, y, sample_weight)


def exact_co_moments(X, y, weights=None):
    """The third and fourth co-moments of each class as Fractions, straight from their definitions."""
    weights = np.ones(len(y)) if weights is None else weights
    third, fourth = [], []
    for label in sorted(set(y[weights > 0])):
        members = (y == label) & (weights > 0)
        w = [Fraction(float(value)) for value in weights[members]]
        columns = [[Fraction(float(value)) for value in column] for column in X[members].T]
        means = [sum(map(Fraction.__mul__, w, column)) / sum(w) for column in columns]
        u = [[value - mean for value in column] for column, mean in zip(columns, means, strict=True)]
        pairs = [[list(zip(w, a, b, strict=True)) for b in u] for a in u]
        third.append([[float(sum(w * a * a * b for w, a, b in pair)) for pair in row] for row in pairs])
        fourth.append([[float(sum(w * a * a * b * b for w, a, b in pair)) for pair in row] for row in pairs])
    return np.array(third), np.array(fourth)


def sizes(state, X):
    """What the co-moments of the widest class can be as large as, rounding of the values included."""
    noise = np.finfo(np.float64).eps * np.abs(X).max(axis=0)
    deviations = np.sqrt(np.einsum("kii->ki", state.scatter).max(axis=0)) + noise
    roots = np.sqrt(np.einsum("kii->ki", state.fourth_moments).max(axis=0)) + noise**2
    return np.outer(roots, deviations), np.outer(roots, roots)


def assert_same(state, third, fourth, X, scale=None, rtol=1e-11):
    size_of_third, size_of_fourth = sizes(state if scale is None else scale, X)
    assert (np.abs(state.third_moments - third) <= rtol * size_of_third).all()
    assert (np.abs(state.fourth_moments - fourth) <= rtol * size_of_fourth).all()


@given(labelled_rows(max_rows=12), st.data())
def test_they_are_what_rational_arithmetic_says(data, draw):
    X, y = data
    weight = st.sampled_from([0, 0.1, 1, 7.5])
    weights = draw.draw(st.none() | st.lists(weight, min_size=len(y), max_size=len(y)).map(np.array))
    assume(weights is None or weights.any())
    assert_same(of(X, y, weights), *exact_co_moments(X, y, weights), X)


class TestLaws(SubtractableContract, DecayingContract):
    def of(self, *data):
        return of(*data) if data else ClassStatistics(fourth_moments=True)

    def spoil(self, state, data):
        super().spoil(state, data)
        state.decay(0.5)
        state.fourth_moments[:] = state.third_moments[:] = np.nan

    def assert_agree(self, a, b, data, whole=None):
        rtol = 1e-11 if whole is None else 1e-10
        assert a.classes.tolist() == b.classes.tolist()
        assert_same(a, b.third_moments, b.fourth_moments, data[0], scale=whole, rtol=rtol)
        assert (a.fourth_moments >= 0).all()


@pytest.mark.slow
@given(labelled_rows(), st.floats(0.01, 1))
def test_decay_weighs_all_that_was_seen(data, factor):
    X, y = data
    state = of(X, y)
    decayed = of(X, y).decay(factor)
    np.testing.assert_allclose(decayed.third_moments, factor * state.third_moments, rtol=1e-15)
    np.testing.assert_allclose(decayed.fourth_moments, factor * state.fourth_moments, rtol=1e-15)


@pytest.mark.slow_cases("1")
@pytest.mark.parametrize("batch", [1, 10, 3_000])
def test_an_offset_of_1e8_deviations_costs_no_digits(batch):
    rng = np.random.default_rng(0)
    steps = rng.integers(-1000, 1001, size=(3_000, 2)) ** 3 / 2.0**30
    shifted = ClassStatistics(fourth_moments=True)
    for start in range(0, len(steps), batch):
        shifted.update(
            steps[start : start + batch] * 2.0**5 + 2.0**27, np.zeros(len(steps[start:][:batch]), int)
        )
    centred = steps * 2.0**5 + 2.0**27 - 2.0**27
    centred = centred - centred.mean(axis=0)
    squares = centred**2
    np.testing.assert_allclose(shifted.fourth_moments[0], squares.T @ squares, rtol=1e-12)
    np.testing.assert_allclose(
        shifted.third_moments[0], squares.T @ centred, atol=1e-12 * np.abs(squares.T @ np.abs(centred)).max()
    )


def test_states_with_and_without_do_not_mix():
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    rich, plain = of(X, y), ClassStatistics().update(X, y)
    assert plain.third_moments is None
    assert plain.fourth_moments is None
    assert "fourth_moments=True" in repr(rich)
    assert rich.nbytes > plain.nbytes
    assert rich != plain
    assert not rich.allclose(plain)
    for a, b in ((rich, plain), (plain, rich)):
        with pytest.raises(ValueError, match="with fourth moments and one without cannot be merged"):
            a + b
    assert rich.to_covariance_type("full").allclose(plain)
    assert rich.to_covariance_type("full", fourth_moments=True) == rich
    assert rich.to_covariance_type("diag").allclose(ClassStatistics("diag").update(X, y))
    with pytest.raises(ValueError, match=r"holds no fourth moments.*accumulate with fourth_moments=True"):
        plain.to_covariance_type("full", fourth_moments=True)
    for kind in ("tied", "diag"):
        with pytest.raises(ValueError, match=f"beside covariance type 'full' alone, not '{kind}'"):
            ClassStatistics(kind, fourth_moments=True)


@pytest.mark.parametrize("seed", ["0", "1", "2", "3"])
def test_it_is_said_first_that_an_exact_state_has_no_rounding(seed):
    code = """
from streamgda import ClassStatistics, ExactClassStatistics
try:
    ClassStatistics(fourth_moments=True).update([[1.0]], [0]) + ExactClassStatistics().update([[1.0]], [0])
except ValueError as error:
    print(error)
"""
    environment = {**os.environ, "PYTHONHASHSEED": seed}  # the order of a set of names depends on it
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert done.stdout.startswith(b"exact and floating statistics do not merge")


def test_states_that_differ_in_them_alone_are_told_apart():
    y = np.zeros(4, dtype=int)
    a, b = of([[-1.0], [1.0], [-1.0], [1.0]], y), of([[-(2**0.5)], [2**0.5], [0.0], [0.0]], y)
    assert a.to_covariance_type("full").allclose(b.to_covariance_type("full"))
    assert not a.allclose(b)
    assert a.allclose(a.copy())
    rows, y = np.array([[2.0], [-1.0], [-1.0]]), np.zeros(3, dtype=int)
    skewed, mirrored = (of(np.vstack([x, rows]), np.append(y, y + 1)) for x in (rows, -rows))
    assert not skewed.allclose(mirrored)  # in one of two classes


def test_rows_whose_fourth_powers_exceed_the_whole_never_went_in():
    whole = of([[1.0], [-1.0]] * 6, [0] * 12)
    stranger = of([[2.0], [-2.0], [0.0], [0.0], [0.0], [0.0], [0.0], [0.0]], [0] * 8)
    whole.to_covariance_type("full") - stranger.to_covariance_type("full")
    with pytest.raises(
        ValueError, match="fourth moments would be too small: these rows never went into the state"
    ):
        whole - stranger


def test_all_but_one_row_can_be_taken_out():
    X = np.random.default_rng(0).normal(size=(100_000, 3)) + 1e6
    y = np.zeros(len(X), dtype=int)
    rest = of(X, y) - of(X[1:], y[1:])
    assert rest.counts.tolist() == [1]
    assert (np.abs(rest.fourth_moments) < 1e-6).all()
    rest = of(X, y) - of(X[2:], y[2:])
    np.testing.assert_allclose(rest.fourth_moments, of(X[:2], y[:2]).fourth_moments, atol=1e-6)


def test_powers_beyond_float64_are_refused():
    state = of([[1.0], [2.0]], [0, 0])
    before = state.copy()
    with pytest.raises(ValueError, match="their fourth powers exceed float64"):
        state.update([[1e80], [-1e80]], [0, 0])
    with pytest.raises(ValueError, match="their fourth powers exceed float64"):
        state.update([[1e80]], [0])
    assert state == before
    ClassStatistics().update([[1e80], [-1e80]], [0, 0])
