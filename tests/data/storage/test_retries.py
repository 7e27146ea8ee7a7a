"""What a storage refuses for a moment is asked for again; what is wrong is not."""

import logging
import random
import warnings

import pytest

from streamgda.data.storage import retries
from streamgda.data.storage.retries import (
    StorageError,
    is_of_storage,
    noting_retries,
    repeated,
    retried,
    storing,
    warning_of_retries,
)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.01)


class ClientError(Exception):
    """As botocore has one, which is no OSError."""


class Failing:
    """A call that fails some times."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "bytes"


@pytest.mark.parametrize(
    "error", [OSError("AWS Error SLOW_DOWN"), OSError(16, "busy"), TimeoutError(), ClientError("503")]
)
def test_an_outage_is_waited_for_and_said(error, caplog):
    call = Failing(error, error)
    said = "storage failed 2 times and was asked again; the last error: "
    with (
        pytest.warns(UserWarning, match=said),
        warning_of_retries(),
        caplog.at_level(logging.WARNING, "streamgda"),
    ):
        assert retried(call) == "bytes"
    assert [line.split(" in ")[0] for line in caplog.messages] == ["retry 1 of 3", "retry 2 of 3"]


@pytest.mark.parametrize(
    "error", [OSError(16, "busy"), OSError("s3://b/1.parquet: busy"), ClientError("busy")]
)
def test_the_log_names_the_file_once(error, caplog):
    with noting_retries() as noted, caplog.at_level(logging.WARNING, "streamgda"):
        retried(Failing(error), place="s3://b/1.parquet")
    for said in (*caplog.messages, *noted):
        assert said.count("s3://b/1.parquet: ") == 1


@pytest.mark.parametrize(
    "error",
    [
        *(ValueError(), TypeError(), MemoryError(), NotImplementedError()),
        *(FileNotFoundError(), PermissionError(), ImportError()),
    ],
)
def test_what_would_fail_again_is_raised_at_once(error):
    call = Failing(error)
    with noting_retries() as noted, pytest.raises(type(error)), storing():
        retried(call)
    assert (call.calls, noted) == (1, [])


@pytest.mark.parametrize(
    "error", [OSError("busy"), OSError(5, "busy"), ClientError("busy"), EOFError("busy")]
)
def test_what_a_client_of_a_storage_raises_is_told_from_damage(error):
    with pytest.raises(OSError, match="busy") as raised, storing():
        raise error
    assert is_of_storage(raised.value)
    assert not is_of_storage(OSError("Corrupt snappy compressed data."))


def test_an_outage_that_lasts_is_its_own_error():
    call = Failing(*(OSError(k) for k in range(9)))
    with pytest.raises(OSError, match="^3$"):
        retried(call)
    assert call.calls == 4


def test_no_retry_is_no_warning():
    with warnings.catch_warnings(), warning_of_retries():
        warnings.simplefilter("error")
        retried(list)


@pytest.mark.parametrize("error", [KeyError("u"), OSError(5, "mine"), TimeoutError("mine"), RuntimeError()])
def test_an_error_of_a_users_function_is_raised_at_once_as_it_is(error):
    call = Failing(error)
    with noting_retries() as noted, pytest.raises(type(error)) as raised:
        repeated(call)
    assert (raised.value, call.calls, noted) == (error, 1, [])


def test_what_was_asked_again_is_not_asked_again_by_its_caller():
    call = Failing(*(OSError(k) for k in range(99)))
    with pytest.raises(StorageError, match="^s3://b: 3$"):
        repeated(lambda: retried(call, place="s3://b"))
    assert call.calls == 4


def test_a_retry_changes_none_of_the_users_random_numbers():
    before = random.getstate()
    with pytest.warns(UserWarning, match="storage failed once"), warning_of_retries():
        retried(Failing(OSError(16, "busy")))
    assert random.getstate() == before
