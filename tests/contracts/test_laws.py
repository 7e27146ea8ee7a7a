"""The laws of the state, for every kind of covariance and any rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgda import ClassStatistics
from tests.contracts.mergeable_contract import DecayingContract, SubtractableContract
from tests.reference import close
from tests.strategies import KINDS, labelled_rows


def of(kind, X, y, sample_weight=None):
    return ClassStatistics(kind).update(X, y, sample_weight)


class TestFull(SubtractableContract, DecayingContract):
    kind = "full"

    def of(self, *data):
        state = ClassStatistics(self.kind)
        return state.update(*data) if data else state

    def assert_agree(self, a, b, data, whole=None):
        X = data[0]
        assert a.classes.tolist() == b.classes.tolist()
        assert a.counts.tolist() == b.counts.tolist()
        assert agree(a, b, X) if whole is None else is_left(a, b, whole, X)


@pytest.mark.slow
class TestTied(TestFull):
    kind = "tied"


class TestDiagonal(TestFull):
    kind = "diag"


@pytest.mark.filterwarnings("ignore:.*fewer than six correct digits:RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("ulps", "varies"), [(1, False), (8, True)])
def test_rows_that_are_left_vary_by_more_than_the_last_digit_or_not_at_all(kind, ulps, varies):
    """Beside a mean of 10⁸, a difference in the last digit counts as rounding; nor has it products then."""
    X = np.array([[1e8, 0.0], [1e8 + ulps * np.spacing(1e8), 1.0], [1e8, 3.0], [1e8, 4.0]])
    kept, removed = of(kind, X[:2], [0, 0]), of(kind, X[2:], [0, 0])
    rest = kept + removed - removed
    assert diagonal(kept).all()
    assert diagonal(rest).astype(bool).ravel().tolist() == [varies, True]
    if kind != "diag":
        assert rest.scatter.reshape(2, 2).any(axis=1).tolist() == [varies, True]
        assert bool(rest.scatter.reshape(2, 2)[0, 1]) == varies
    assert is_left(rest, kept, kept + removed, X)


@given(labelled_rows(), st.sampled_from(["tied", "diag"]))
def test_narrowing_is_what_the_narrow_kind_would_have_kept(data, kind):
    X, y = data
    assert agree(of("full", X, y).to_covariance_type(kind), of(kind, X, y), X)


@pytest.mark.slow_cases("tied")
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


def is_left(a, b, whole, X):
    """Whether what is left of a whole is b, on the scale of the whole.

    A feature may be left constant, without products, where rounding alone may be what varies: 64 ulps of the
    scatter of the whole, and an ulp of the mean in each row that is left.
    """
    assert a.classes.tolist() == b.classes.tolist()
    of_a, is_tied = np.isin(whole.classes, a.classes), a.covariance_type == "tied"
    rounding = b.weights[:, None] * (np.finfo(np.float64).eps * b.means) ** 2
    noise = 64 * np.finfo(np.float64).eps * (diagonal(whole) if is_tied else diagonal(whole)[of_a])
    noise = noise + (rounding.sum(axis=0) if is_tied else rounding)
    varies = ((diagonal(a) > 0) | (diagonal(b) > 1.01 * noise)).astype(float)
    expected = b.scatter * (
        varies if a.covariance_type == "diag" else varies[..., None] * varies[..., None, :]
    )
    bound = scale(whole, X) if is_tied else scale(whole, X)[of_a]
    return (
        np.allclose(a.means, b.means, rtol=1e-12, atol=1e-12 * np.abs(X).max())
        and (np.abs(a.scatter - expected) <= 1e-11 * bound).all()
        and (diagonal(a) >= 0).all()
    )


def scale(state, X):
    """What an entry of a scatter can be as large as, in the scatter's shape."""
    roots = np.sqrt(diagonal(state)) + np.sqrt(len(X)) * np.finfo(np.float64).eps * np.abs(X).max(axis=0)
    return roots**2 if state.covariance_type == "diag" else roots[..., :, None] * roots[..., None, :]


def diagonal(state):
    scatter = state.scatter
    return scatter if state.covariance_type == "diag" else np.einsum("...ii->...i", scatter)
