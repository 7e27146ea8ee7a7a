"""The laws of the state, for every kind of covariance and any rows."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from streamgda import ClassStatistics
from tests.contracts.mergeable_contract import DecayingContract, SubtractableContract
from tests.reference import close, exact_means, exact_moments, exact_scatter
from tests.strategies import KINDS, kinds, labelled_rows


def of(kind, X, y, sample_weight=None):
    return ClassStatistics(kind).update(X, y, sample_weight)


@settings(max_examples=3 * settings.default.max_examples)
@given(kinds, labelled_rows())
def test_a_state_is_what_rational_arithmetic_says(kind, data):
    X, y = data
    state = of(kind, X, y)
    exact = exact_moments(X, y)
    assert state.classes.tolist() == list(exact)
    assert state.weights.tolist() == [float(weight) for weight, _, _ in exact.values()]
    np.testing.assert_allclose(state.means, exact_means(exact), rtol=1e-15, atol=1e-16 * np.abs(X).max())
    assert close(state.scatter, exact_scatter(exact, kind), kind, X, 1e-11)


class TestFull(SubtractableContract, DecayingContract):
    kind = "full"

    def of(self, *data):
        state = ClassStatistics(self.kind)
        return state.update(*data) if data else state

    def assert_agree(self, a, b, data, whole=None):
        X = data[0]
        assert a.classes.tolist() == b.classes.tolist()
        assert a.counts.tolist() == b.counts.tolist()
        if whole is None:
            assert agree(a, b, X)
            return
        np.testing.assert_allclose(a.means, b.means, rtol=1e-12, atol=1e-12 * np.abs(X).max())
        bound = scale(whole, X)
        bound = bound if self.kind == "tied" else bound[np.isin(whole.classes, a.classes)]
        assert (np.abs(a.scatter - b.scatter) <= 1e-11 * bound).all()
        assert (diagonal(a) >= 0).all()


class TestTied(TestFull):
    kind = "tied"


class TestDiagonal(TestFull):
    kind = "diag"


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
