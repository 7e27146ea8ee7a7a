"""What several test modules share: where the real data is, and Hypothesis' settings."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default", deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("default")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real datasets."""
    folder = os.environ.get("STREAMGDA_DATA")
    if not folder:
        pytest.skip("STREAMGDA_DATA is not set")
    return Path(folder)
