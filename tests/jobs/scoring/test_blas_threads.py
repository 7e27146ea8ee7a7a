"""The same bits of scores for any number of BLAS threads."""

import pickle
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis, predict_dataset
from streamgda.statistics.kernels.blas import single_blas_thread
from tests.interrupted import interrupted_at


@pytest.mark.slow_cases("Gaussian", "Linear")
@pytest.mark.parametrize(
    ("kind", "n_rows", "n_features", "n_classes"),
    [
        (GaussianNB, 3000, 257, 101),
        (LinearDiscriminantAnalysis, 3000, 300, 50),
        (QuadraticDiscriminantAnalysis, 2000, 130, 3),
    ],
)
def test_two_blas_threads_predict_with_the_bits_of_one(tmp_path, kind, n_rows, n_features, n_classes):
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n_rows)
    X = rng.normal(size=(n_rows, n_features)) + 0.05 * y[:, None]
    names = [f"x{i}" for i in range(n_features)]
    pq.write_table(pa.table([*X.T], names=names), tmp_path / "rows.parquet")
    with threadpool_limits(1, "blas"):
        model = kind().fit(X, y)
        alone = model.predict_proba(X)
    with threadpool_limits(2, "blas"):
        assert np.array_equal(model.predict_proba(X), alone)
        twin = pickle.loads(pickle.dumps(model))  # without densities, as a worker gets it
        assert np.array_equal(twin.predict_proba(X), alone)
        assert np.array_equal(np.vstack([model.predict_proba(X[:7]), model.predict_proba(X[7:])]), alone)
        predict_dataset(model, tmp_path / "rows.parquet", tmp_path / "out", columns=["probabilities"])
        assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} == {2}
    written = pq.read_table(tmp_path / "out").to_pandas().to_numpy()
    assert np.array_equal(written, alone)


def numbers_of_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_blas_has_one_thread_in_any_thread_of_python():
    """Whichever thread of Python has set the number before."""
    inside = []

    def enter():
        with single_blas_thread():
            inside.append(numbers_of_threads())

    with threadpool_limits(2, "blas"):
        enter()
        other = threading.Thread(target=enter)
        other.start()
        other.join()
        assert inside == [{1}, {1}]
        assert numbers_of_threads() == {2}


@pytest.mark.slow
def test_an_interruption_at_any_line_leaves_no_limit():
    """Not even one that comes before the context is left: the next to leave restores the numbers."""

    def enter():
        with single_blas_thread():
            pass

    with threadpool_limits(2, "blas"):
        n = 1
        while interrupted_at(n, enter):
            with single_blas_thread():
                assert numbers_of_threads() == {1}
            assert numbers_of_threads() == {2}
            n += 1
        assert n > 10
