"""What several test modules share: where the real data is, a cluster, and Hypothesis' settings."""

import os
from pathlib import Path

import pytest
from distributed import Client, LocalCluster
from hypothesis import HealthCheck, settings

os.environ.setdefault("MPLBACKEND", "Agg")  # pictures are looked into, not shown

settings.register_profile(
    "default", deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("quick", settings.get_profile("default"), max_examples=20)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


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
