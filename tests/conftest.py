"""What modules of tests share: estimators, kinds, real data, processes, a cluster, Hypothesis' profiles."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # pytest runs a process for each core
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")  # pictures are looked into, not shown

import importlib
import multiprocessing
import signal
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import dask
import distributed.utils
import pytest
from distributed import Client, LocalCluster
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

# A plugin of pytest may have loaded NumPy before the environment was set.
threadpool_limits(int(os.environ["OPENBLAS_NUM_THREADS"]), user_api="blas")

settings.register_profile(
    "quick", deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("full", settings.get_profile("quick"), max_examples=100)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
settings.load_profile(PROFILE)


# A shell that runs a script in the background lets it ignore Ctrl-C, and so the processes of tests.
signal.signal(signal.SIGINT, signal.default_int_handler)

collect_ignore = ["typing/usage.py"]  # which nothing runs
if not find_spec("numpydoc"):
    collect_ignore.append("cli/table.py")


def pytest_xdist_auto_num_workers(config):
    """All tests run in a process for each core; some of them, which are to start at once, in this one."""
    everything = all(Path(argument).is_dir() for argument in config.args) and not config.option.keyword
    return None if everything else 0


# Dask's processes and the workers of clusters are forked from a server that has imported everything once,
# instead of importing it each time. Examples, which run in processes of their own, have Dask's default.
dask.config.set(
    {"multiprocessing.context": "forkserver", "distributed.worker.multiprocessing-method": "forkserver"}
)
distributed.utils.get_mp_context()  # names what distributed preloads, which the next line replaces
PRELOADED = """
    dask.dataframe distributed duckdb hypothesis polars pyarrow.dataset pytest
    sklearn.discriminant_analysis streamgda.jobs.scoring.predict zarr
"""
multiprocessing.set_forkserver_preload(PRELOADED.split())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the cases of a test as slow that `slow_cases` names by parts of their class and [id]."""
    for item in items:
        for mark in item.iter_markers("slow_cases"):
            case = getattr(item.cls, "__name__", "") + item.name.removeprefix(item.originalname)
            if any(part in case for part in mark.args):
                item.add_marker("slow")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a test that takes more than three seconds of processor time and is not marked as slow.

    Where processors are slow or shared, the limit is higher. The first test that needs a library pays for
    its import, and is not judged.
    """
    before, n_modules = os.times(), len(sys.modules)
    outcome = yield
    seconds = sum(os.times()[:4]) - sum(before[:4])
    is_judged = PROFILE == "quick" and not item.get_closest_marker("slow")
    if seconds > 3 and is_judged and len(sys.modules) < n_modules + 20 and seconds > 6 * half_a_second():
        pytest.fail(f"took {seconds:.2f} s of processor time: make it cheaper, or mark it", pytrace=False)
    return outcome


def half_a_second():
    """What takes half a second on a quiet machine, and longer where processors are slow or shared."""
    start = time.process_time()
    sum(number * number for number in range(200_000))
    return max(0.5, 30 * (time.process_time() - start))


@pytest.fixture(params=["GaussianNB", "LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis"])
def model(request):
    """Each of the three estimators that scikit-learn has too."""
    return getattr(importlib.import_module("streamgda"), request.param)


@pytest.fixture(params=["full", "tied", "diag"])
def kind(request):
    """Each kind of covariance."""
    return request.param


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real datasets."""
    folder = os.environ.get("STREAMGDA_DATA")
    if not folder:
        pytest.skip("STREAMGDA_DATA is not set")
    return Path(folder)


@pytest.fixture(scope="session")
def client():
    """A cluster of two worker processes over TCP."""
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, protocol="tcp://", dashboard_address=":0"
    )
    with cluster, Client(cluster, set_as_default=False) as client:
        yield client
