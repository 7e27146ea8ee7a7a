"""Threads that share a model: each prediction is of some moment between two batches, and no batch is lost."""

import sys
import threading

import numpy as np
import pytest

from streamgda import (
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


@pytest.mark.slow_cases("Gaussian", "Linear")
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
