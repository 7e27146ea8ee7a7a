"""Rows in memory are learnt and scored by several threads, with the bits of one."""

import os
import subprocess
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from streamgda import (
    ClassStatistics,
    ExactClassStatistics,
    GaussianNB,
    IncompleteStatistics,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    RandomFeatureClassifier,
    RandomFeatures,
    evaluate,
)
from streamgda.data.blocks import block
from streamgda.data.blocks.arrays import array_blocks
from streamgda.extensions.ridge.rule import MappedRows
from streamgda.models.estimators import scores
from streamgda.statistics import base
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
    monkeypatch.setattr(base, "_MOST_VALUES", 1 << 12)
    for name in ("_VALUES_PER_BLOCK", "_FEWEST_OF_DISTANCES", "_FEWEST_OF_PRODUCTS"):
        monkeypatch.setattr(scores, name, 256)


def with_threads(n_threads, call):
    with threadpool_limits(n_threads, "blas"):
        return call()


def mapped():
    state = ClassStatistics("tied")
    state.rule = MappedRows(RandomFeatures(20).fit(X))
    state.update_blocks(array_blocks(GAPS, LABELS, missing="drop"))
    return state


STATES = {
    "full": lambda: ClassStatistics().update(X, LABELS, WEIGHTS),
    "tied": lambda: ClassStatistics("tied").update(X.astype(np.float32), LABELS),
    "diag": lambda: ClassStatistics("diag").update(X, LABELS),
    "fourth moments": lambda: ClassStatistics(fourth_moments=True).update(X, LABELS),
    "exact": lambda: ExactClassStatistics().update(X, LABELS),
    "incomplete": lambda: IncompleteStatistics().update(GAPS, LABELS),
    "incomplete, diag": lambda: IncompleteStatistics("diag").update(GAPS, LABELS),
    "new classes": lambda: ClassStatistics().update(X, np.sort(LABELS).astype(str)),
    "mapped": mapped,
}


@pytest.mark.parametrize("kind", STATES)
def test_states_have_the_same_bits_with_any_number_of_threads(kind):
    first, *others = (with_threads(n_threads, STATES[kind]).digest() for n_threads in (1, 2, 3))
    assert others == [first, first]


@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_a_first_block_in_which_no_row_counts(kind):
    n_rows = 3 * (1 << 16)
    rows, labels = np.arange(2.0 * n_rows).reshape(-1, 2), np.arange(n_rows) % 2
    weights = np.repeat([0.0, 1.0], [2 * n_rows // 3, n_rows // 3])
    state = ClassStatistics(kind).update(rows, labels, weights)
    assert state.allclose(ClassStatistics(kind).update(rows[weights > 0], labels[weights > 0]))


@pytest.mark.parametrize("kind", STATES)
def test_no_thread_waits_for_the_lock_that_the_caller_holds(kind):
    state = STATES[kind]()
    rows = GAPS if "incomplete" in kind else X
    with state.lock, threadpool_limits(2, "blas"):
        state.update(rows, LABELS.astype(str) if kind == "new classes" else LABELS)
    assert state.n_rows >= N_ROWS


def test_mapped_rows_are_added_up_in_pieces():
    state = with_threads(2, mapped)
    complete = ~np.isnan(GAPS).any(axis=1)
    assert (state.n_rows, state.n_dropped) == (complete.sum(), N_ROWS - complete.sum())
    made = state.rule.features.transform(GAPS[complete]).astype(np.float64)
    for k in range(3):
        np.testing.assert_allclose(state.means[k], made[LABELS[complete] == k].mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_moments_are_those_of_all_rows(order):
    state = with_threads(2, lambda: ClassStatistics().update(np.asarray(X, order=order), LABELS))
    for k in range(3):
        own = X[LABELS == k]
        np.testing.assert_allclose(state.means[k], own.mean(axis=0), rtol=1e-14)
        np.testing.assert_allclose(state.covariance()[k], np.cov(own.T, bias=True), atol=1e-12)


MODELS = {
    "GaussianNB": GaussianNB(),
    "LDA": LinearDiscriminantAnalysis(),
    "QDA": QuadraticDiscriminantAnalysis(),
    "MDA": MixtureDiscriminantAnalysis(2),
    "missing values": QuadraticDiscriminantAnalysis(missing="marginal"),
    "random features": RandomFeatureClassifier(features=RandomFeatures(20)),
}
METHODS = [f"predict{kind}" for kind in ("", "_proba", "_log_proba")]
METHODS += ["decision_function", "score_samples", "mahalanobis", "p_values", "impute", "transform"]


@pytest.mark.slow_cases("random", "missing", "MDA")
@pytest.mark.parametrize("name", MODELS)
def test_models_predict_the_same_bits_with_any_number_of_threads(name):
    rows = GAPS if name == "missing values" else X.astype(np.float32)

    def everything():
        model = MODELS[name].fit(rows, LABELS)
        called = [method for method in METHODS if hasattr(model, method)]
        called = called[:3] if "random" in name else called
        with model.statistics_.lock:  # for which no thread waits
            return [
                getattr(model, method)(rows) for method in called if "random" not in name or "pr" in method
            ]

    first, *others = (with_threads(n_threads, everything) for n_threads in (1, 2, 3))
    assert len(first) >= 3
    for other in others:
        for one, same in zip(first, other, strict=True):
            np.testing.assert_array_equal(same, one)


def test_the_scores_of_rows_are_those_of_each_alone():
    model = QuadraticDiscriminantAnalysis().fit(X, LABELS)
    alone = np.concatenate([model.predict_proba(row[None]) for row in X[:300]])
    np.testing.assert_array_equal(with_threads(2, lambda: model.predict_proba(X))[:300], alone)


def test_random_features_have_the_same_bits_with_any_number_of_threads():
    features = RandomFeatures(50).fit(X)
    first, *others = (with_threads(n, lambda: features.transform(X)) for n in (1, 2, 3))
    assert all(np.array_equal(other, first) for other in others)
    inputs, angles = np.split(first.astype(np.float64), [features.n_outputs - 50], axis=1)
    np.testing.assert_allclose(angles, np.cos(inputs @ features.frequencies_ + features.offsets_), atol=1e-5)


def test_evaluations_have_the_same_bits_with_any_number_of_threads():
    model = GaussianNB().fit(X[:, :2], LABELS)
    first, *others = (with_threads(n, lambda: evaluate(model, X[:, :2], LABELS, WEIGHTS)) for n in (1, 2, 3))
    assert others == [first, first]
    is_right = model.predict(X[:, :2]) == LABELS
    assert first.accuracy == pytest.approx(np.average(is_right, weights=WEIGHTS), rel=1e-12)
    assert first.n_rows == N_ROWS


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_row_that_is_too_far_is_named(n_threads):
    far = X.copy()
    far[[3210, 4321]] = 1e300
    model = GaussianNB().fit(X, LABELS)
    with threadpool_limits(n_threads, "blas"), pytest.raises(ValueError, match="row 3210 is too far"):
        model.predict(far)


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
            step=97,
        )


# In a process of its own, which has no other threads.
FORKS = """
import os, signal, threading
import numpy as np
from streamgda import QuadraticDiscriminantAnalysis
rng = np.random.default_rng(0)
X, y = rng.normal(size=(40_000, 100)), rng.integers(2, size=40_000)

def everything():
    model = QuadraticDiscriminantAnalysis().fit(X, y)
    return model.statistics_.digest(), model.predict_proba(X[:5000]).tobytes()

before = everything()
learner = threading.Thread(target=lambda: [everything() for _ in range(3)])
learner.start()
for _ in range(4):
    if (child := os.fork()) == 0:
        signal.alarm(200)
        os._exit(0 if everything() == before else 3)
    assert os.waitpid(child, 0)[1] == 0
learner.join()
"""


@pytest.mark.slow  # it imports everything anew
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_a_fork_learns_and_predicts_while_threads_are_at_work():
    threads = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-W", "ignore", "-c", FORKS]
    subprocess.run(command, check=True, timeout=1000, env={**os.environ, **threads})
