"""Passes that overlap in threads, and the state of the process after them."""

import copy
import locale
import os
import random
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import dask
import numpy as np
import pytest
from dask.callbacks import Callback
from threadpoolctl import threadpool_info

from streamgda import GaussianNB, accumulate, evaluate, predict_dataset, scan_parquet
from tests.jobs.passes.conftest import N_FILES


def state_of_random_numbers():
    return random.getstate(), repr(np.random.get_state())  # noqa: NPY002  it must not change either


def state_of_the_process():
    blas = [library["num_threads"] for library in threadpool_info()]
    return copy.deepcopy(
        [
            dask.config.config,
            list(warnings.filters),
            np.geterr(),
            np.get_printoptions(),
            locale.setlocale(locale.LC_ALL),
            blas,
            set(Callback.active),
            dict(os.environ),
            sys.getswitchinterval(),
        ]
    )


@pytest.mark.slow_cases("cluster", "processes")
@pytest.mark.parametrize("scheduler", ["threads", "synchronous", "processes", "cluster"])
def test_ten_passes_at_once_tell_their_progress_and_leave_the_process_as_it_was(folder, client, scheduler):
    where = client if scheduler == "cluster" else scheduler
    source, told = scan_parquet(folder, "y"), [[] for _ in range(3 if scheduler == "processes" else 10)]
    os.environ.setdefault("PYTHONHASHSEED", "6640")  # as Dask does before it starts processes
    before = state_of_the_process()
    with ThreadPoolExecutor(len(told)) as pool, dask.config.set(num_workers=2):
        passing = [
            pool.submit(accumulate, source, rows_per_task=1, scheduler=where, progress=one.append)
            for one in told
        ]
        states = [one.result(timeout=300) for one in passing]
    assert state_of_the_process() == before
    assert all(state == states[0] for state in states)
    for one in told:
        assert [progress.tasks for progress in one] == list(range(1, N_FILES + 1))


def test_evaluations_and_predictions_leave_the_process_as_it_was(folder, tmp_path):
    before = state_of_the_process(), state_of_random_numbers()
    source = scan_parquet(folder, "y")
    model = GaussianNB().fit(source)
    predict_dataset(model, source, tmp_path / "out")
    evaluate(model, source)
    model.predict_proba({"a": [0.0, 1.0], "b": [0.0, 1.0]})
    assert (state_of_the_process(), state_of_random_numbers()) == before


def test_a_function_as_scheduler_that_knows_no_callbacks_tells_the_end(folder):
    def plain(graph, keys):
        return dask.get(graph, keys)

    told = []
    state = accumulate(scan_parquet(folder, "y"), rows_per_task=1, scheduler=plain, progress=told.append)
    assert [(one.rows, one.total_rows, one.tasks) for one in told] == [(state.n_rows, state.n_rows, N_FILES)]


def test_callbacks_of_dask_see_the_tasks_of_a_pass(folder):
    """And Dask's graph gives the bits of a pass that Dask does not run."""
    seen = []
    with Callback(posttask=lambda key, *_: seen.append(key)):
        state = accumulate(scan_parquet(folder, "y"), rows_per_task=1)
    assert len(seen) > N_FILES
    assert state == accumulate(scan_parquet(folder, "y"), rows_per_task=1)
