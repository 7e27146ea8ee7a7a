"""Rows in memory are learnt and scored by several threads, with the bits of one."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from streamgda import ClassStatistics, ExactClassStatistics, IncompleteStatistics, LinearDiscriminantAnalysis
from streamgda.data.blocks import block
from tests.interrupted import check_interruptions

rng = np.random.default_rng(0)
N_ROWS = 5000
LABELS = rng.integers(3, size=N_ROWS)
X = rng.normal(size=(N_ROWS, 4)) + 1e3 + LABELS[:, None]
WEIGHTS = rng.random(N_ROWS)
GAPS = np.where(rng.random(X.shape) < 0.1, np.nan, X)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """A few thousand rows are then in many blocks."""
    monkeypatch.setattr(block, "_MOST_ROWS", 256)


def with_threads(n_threads, call):
    with threadpool_limits(n_threads, "blas"):
        return call()


STATES = {
    "full": lambda: ClassStatistics().update(X, LABELS, WEIGHTS),
    "tied": lambda: ClassStatistics("tied").update(X.astype(np.float32), LABELS),
    "diag": lambda: ClassStatistics("diag").update(X, LABELS),
    "fourth moments": lambda: ClassStatistics(fourth_moments=True).update(X, LABELS),
    "exact": lambda: ExactClassStatistics().update(X, LABELS),
    "incomplete": lambda: IncompleteStatistics().update(GAPS, LABELS),
    "incomplete, diag": lambda: IncompleteStatistics("diag").update(GAPS, LABELS),
    "new classes": lambda: ClassStatistics().update(X, np.sort(LABELS).astype(str)),
}


@pytest.mark.parametrize("kind", STATES)
def test_states_have_the_same_bits_with_any_number_of_threads(kind):
    first, *others = (with_threads(n_threads, STATES[kind]).digest() for n_threads in (1, 2, 3))
    assert others == [first, first]


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_moments_are_those_of_all_rows(order):
    state = with_threads(2, lambda: ClassStatistics().update(np.asarray(X, order=order), LABELS))
    for k in range(3):
        own = X[LABELS == k]
        np.testing.assert_allclose(state.means[k], own.mean(axis=0), rtol=1e-14)
        np.testing.assert_allclose(state.covariance()[k], np.cov(own.T, bias=True), atol=1e-12)


def test_an_error_in_a_thread_names_the_row_and_leaves_the_state():
    wrong = X.copy()
    wrong[4321, 2] = np.nan
    state = ClassStatistics().update(X, LABELS)
    before = state.digest()
    with threadpool_limits(2, "blas"), pytest.raises(ValueError, match="row 4321: feature 2"):
        state.update(wrong, LABELS)
    assert state.digest() == before


def test_learning_is_interrupted_before_or_after():
    with threadpool_limits(2, "blas"):
        check_interruptions(
            lambda: LinearDiscriminantAnalysis().fit(X[:2000], LABELS[:2000]),
            lambda model: model.partial_fit(X, LABELS),
            lambda model: (model.statistics_.digest(), model.statistics_.n_rows),
            step=41,
        )
