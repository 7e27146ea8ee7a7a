"""Several threads work on rows in memory, and what they make does not tell how many they were."""

import os
import threading

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from streamgda.statistics.kernels import blas
from streamgda.statistics.kernels.threads import in_threads


def numbers_of_blas_threads(_=None):
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("n_values", [0, 1, 2, 9])
def test_results_come_in_the_order_of_values(n_threads, n_values):
    with threadpool_limits(n_threads, "blas"):
        assert list(in_threads(lambda value: value**2, range(n_values))) == [i**2 for i in range(n_values)]


def test_there_are_as_many_threads_as_blas_may_have():
    """Each call waits until three are at work, and would wait for ever beside one other."""
    at_work = threading.Barrier(3)

    def call(_):
        at_work.wait(60)
        return threading.get_ident()

    with threadpool_limits(3, "blas"):
        threads = set(in_threads(call, range(6)))
    assert len(threads) == 3
    assert threading.get_ident() in threads


def test_few_large_results_are_made_at_once():
    threads = set()
    with threadpool_limits(3, "blas"):
        list(in_threads(lambda _: threads.add(threading.get_ident()), range(6), lambda _: 1 << 30))
    assert threads == {threading.get_ident()}


def test_one_value_is_left_to_this_thread():
    with threadpool_limits(3, "blas"):
        assert list(in_threads(lambda _: threading.get_ident(), [0])) == [threading.get_ident()]


def test_blas_has_one_thread_and_no_call_starts_others():
    def inside(_):
        within = set(in_threads(lambda _: threading.get_ident(), range(4)))
        return within == {threading.get_ident()} and numbers_of_blas_threads() == {1}

    with threadpool_limits(2, "blas"):
        assert list(in_threads(inside, range(4))) == [True] * 4
        assert numbers_of_blas_threads() == {2}


def test_where_no_library_of_blas_is_known_there_are_at_most_as_many_threads_as_cores(monkeypatch):
    monkeypatch.setattr(blas, "_libraries", list)
    threads = set(in_threads(lambda _: threading.get_ident(), range(50)))
    assert 1 <= len(threads) <= os.cpu_count()


def test_values_are_taken_when_they_are_needed():
    taken = []
    with threadpool_limits(2, "blas"):
        results = in_threads(lambda value: value, (taken.append(i) or i for i in range(100)))
        assert next(results) == 0
        results.close()
    assert len(taken) <= 4


@pytest.mark.parametrize("n_threads", [1, 2])
def test_the_first_error_reaches_the_caller(n_threads):
    def call(value):
        if value in {3, 4}:
            raise ValueError(f"value {value}")
        return value

    made = []
    with threadpool_limits(n_threads, "blas"):
        with pytest.raises(ValueError, match="value 3"):
            made.extend(in_threads(call, range(9)))
        assert numbers_of_blas_threads() == {n_threads}
