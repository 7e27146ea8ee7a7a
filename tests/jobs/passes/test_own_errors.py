"""Errors of a user's own code end a pass at once, without retries."""

import errno
import re
import time
from copy import copy
from dataclasses import dataclass

import click
import numpy as np
import pytest
from sklearn.base import clone

from streamgda import GaussianNB, StatisticsLedger, accumulate, evaluate, predict_dataset, scan_parquet
from streamgda.cli.errors import describe
from streamgda.data.blocks.arrays import array_blocks
from streamgda.data.sources.base import Source
from streamgda.data.sources.splits import Split
from streamgda.data.storage import retries
from tests.jobs.passes.conftest import N_FILES

AT_ONCE = 60  # seconds, on a busy machine; the first retry would wait longer


class MineError(Exception):
    """An error that no library knows."""


def mine(_):
    raise MineError("mine")


def timeout(_):
    raise TimeoutError("mine")


ERRORS = {mine: MineError, timeout: TimeoutError}

OF_MAPS = [
    *(MineError("mine"), KeyError("mine"), MemoryError("mine"), ValueError("mine"), RuntimeError("mine")),
    *(OSError(errno.EIO, "mine"), TimeoutError("mine"), ConnectionError("mine"), PermissionError("mine")),
]


class Raising:
    """A function that raises an error."""

    def __init__(self, error):
        self.error, self.__qualname__ = error, "raising"

    def __call__(self, rows):
        raise self.error


def pause_for(seconds):
    retries.FIRST_PAUSE = seconds


@pytest.fixture(params=["synchronous", "threads", "cluster"])
def scheduler(request, monkeypatch):
    monkeypatch.setattr(retries, "FIRST_PAUSE", 2 * AT_ONCE)
    if request.param != "cluster":
        yield request.param
        return
    client = request.getfixturevalue("client")
    client.run(pause_for, 2 * AT_ONCE)
    yield client
    client.run(pause_for, 1.0)


@dataclass
class OwnSplit(Split):
    """Rows of which the later ones cannot be read."""

    n_rows = 100
    fail: object

    def blocks(self):
        yield from array_blocks(np.ones((50, 2)), np.arange(50) % 2)
        self.fail(self)


@dataclass
class OwnSource(Source):
    fail: object

    def splits(self):
        return [OwnSplit(self.fail), OwnSplit(self.fail)]


PASSES = {
    "fit": lambda source, model, out, **how: clone(model).fit(source, **how),
    "accumulate": lambda source, _, out, **how: accumulate(source, **how),
    "evaluate": lambda source, model, out, **how: evaluate(model, source, **how),
    "predict_dataset": lambda source, model, out, **how: predict_dataset(model, source, out, **how),
    "refresh": lambda source, _, out, **how: StatisticsLedger(out).refresh(source, **how),
}


def check_at_once(name, call, scheduler, source, folder, out, kinds, **how):
    model = GaussianNB().fit(scan_parquet(folder, "y"))
    begun = time.monotonic()
    with pytest.raises(kinds, match="^mine$"):
        PASSES[name](source, model, out, scheduler=scheduler, **how)
    assert time.monotonic() - begun < AT_ONCE


@pytest.mark.slow_cases(
    "cluster-predict_dataset-timeout",
    "threads-predict",
    "threads-evaluate",
    "threads-accumulate",
    "cluster-fit",
    "cluster-evaluate",
    "-refresh-timeout",
    "synchronous-fit",
    "synchronous-acc",
)
@pytest.mark.parametrize("call", ERRORS)
@pytest.mark.parametrize("name", PASSES)
def test_of_a_progress_function(name, call, scheduler, folder, tmp_path):
    source = scan_parquet(folder, "y")
    check_at_once(name, call, scheduler, source, folder, tmp_path / "out", ERRORS[call], progress=call)


@pytest.mark.slow_cases("predict_dataset", "cluster", "synchronous-r", "threads-f", "threads-e")
@pytest.mark.parametrize("name", PASSES)
def test_of_a_mapped_function_which_come_as_they_are_with_the_rows_in_a_note(
    name, scheduler, folder, tmp_path
):
    model = GaussianNB().fit(scan_parquet(folder, "y"))
    for error in OF_MAPS:
        source = scan_parquet(folder, "y").map(Raising(copy(error)), features=["a", "b"])
        begun = time.monotonic()
        with pytest.raises(type(error)) as caught:
            PASSES[name](source, model, tmp_path / "out", scheduler=scheduler)
        assert time.monotonic() - begun < AT_ONCE
        assert type(caught.value) is type(error)
        assert str(caught.value) == str(error)
        assert re.fullmatch(NOTE, caught.value.__notes__[0])
        with click.Context(click.Command("fit")):
            told = describe(caught.value)
        assert "\n" not in told
        assert re.match(f"{type(error).__name__}: .*mine.*; {NOTE}", told)


NOTE = r"raised by the map raising, for rows from .*\.parquet, row group 0, row 0 on"


@pytest.mark.slow_cases(
    "cluster-T", "cluster-C", "cluster-K", "cluster-M", "cluster-O", "cluster-R", "cluster-P", "threads-"
)
@pytest.mark.parametrize("error", OF_MAPS, ids=lambda error: type(error).__name__)
def test_of_a_map_which_are_no_reason_to_skip_a_file_unless_they_are_of_values(
    error, scheduler, folder, tmp_path
):
    source = scan_parquet(folder, "y").map(Raising(copy(error)), features=["a", "b"])
    ledger = StatisticsLedger(tmp_path / "ledger")
    if isinstance(error, ValueError):
        skipped = ledger.refresh(source, on_error="skip", scheduler=scheduler).skipped
        assert len(skipped) == N_FILES
        assert all(re.fullmatch(f"mine; {NOTE}", reason) for reason in skipped.values())
    else:
        with pytest.raises(type(error), match="mine"):
            ledger.refresh(source, on_error="skip", scheduler=scheduler)


@pytest.mark.parametrize("call", ERRORS)
@pytest.mark.parametrize("name", ["accumulate", "evaluate"])
def test_of_a_source(name, call, scheduler, folder, tmp_path):
    check_at_once(name, call, scheduler, OwnSource(call), folder, tmp_path / "out", ERRORS[call])
