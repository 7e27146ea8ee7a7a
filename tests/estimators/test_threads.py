"""Threads that share a model: each prediction is of some moment between two batches, and no batch is lost."""

import copy
import pickle
import sys
import threading

import numpy as np
import pytest

from streamgda import (
    ClassStatistics,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)

MODELS = [
    GaussianNB(),
    LinearDiscriminantAnalysis(),
    QuadraticDiscriminantAnalysis(reg_param=0.01),
    GaussianDiscriminantAnalysis(covariance_model="EEV"),
]


@pytest.fixture(autouse=True)
def _threads_that_switch_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def batches_of(n_batches, n_rows=40, n_features=4):
    """Batches in which a class appears late."""
    rng = np.random.default_rng(0)
    for i in range(n_batches):
        y = rng.integers(0, 3 if i < n_batches // 2 else 4, n_rows)
        yield rng.normal(size=(n_rows, n_features)) + y[:, None], y


def run_together(*targets):
    failures = []

    def guarded(target):
        try:
            target()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_predictions_beside_a_learning_thread_are_those_of_some_moment(model):
    batches = list(batches_of(60))
    X = batches[0][0][:7]
    steps, learner = [], type(model)(**model.get_params())
    for rows, y in batches:
        steps.append(learner.partial_fit(rows, y).predict_proba(X).tobytes())
    model = type(model)(**model.get_params()).partial_fit(*batches[0])
    learnt, seen = threading.Event(), [[] for _ in range(8)]

    def learn():
        for rows, y in batches[1:]:
            model.partial_fit(rows, y)
        learnt.set()

    def predict(answers):
        while not learnt.is_set():
            answers.append(model.predict_proba(X).tobytes())

    run_together(learn, *[lambda answers=answers: predict(answers) for answers in seen])
    for answers in seen:
        places = [steps.index(answer) for answer in answers]
        assert places == sorted(places)
    assert model.predict_proba(X).tobytes() == steps[-1]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_threads_that_learn_together_lose_no_row(model):
    batches = list(batches_of(80))
    for _ in range(5):
        shared = type(model)(**model.get_params())

        def learn(part, shared=shared):
            for rows, y in batches[part::4]:
                shared.partial_fit(rows, y)

        run_together(*[lambda part=part: learn(part) for part in range(4)])
        alone = type(model)(**model.get_params())
        for rows, y in batches:
            alone.partial_fit(rows, y)
        assert shared.statistics_.counts.tolist() == alone.statistics_.counts.tolist()
        assert shared.statistics_.allclose(alone.statistics_)


def test_a_copy_beside_a_merge_is_whole():
    part = ClassStatistics().update([[1.0, 2.0], [2.0, 5.0], [4.0, 1.0]], [0, 0, 1])
    state, copies, merged = part.copy(), [], threading.Event()

    def merge():
        for _ in range(300):
            state.merge(part)
        merged.set()

    def take():
        while not merged.is_set():
            copies.append(state.copy())

    run_together(merge, take, take)
    for copied in copies:
        times = copied.counts[0] // 2
        assert copied.counts.tolist() == [2 * times, times]
        np.testing.assert_allclose(copied.scatter, times * part.scatter, rtol=1e-12)


def test_a_state_travels_without_its_lock():
    state = ClassStatistics().update([[1.0], [2.0]], [0, 1])
    assert pickle.loads(pickle.dumps(state)) == copy.deepcopy(state) == copy.copy(state) == state
    assert pickle.loads(pickle.dumps(state)).update([[3.0]], [0]).n_rows == 3
