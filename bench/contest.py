"""Time contenders side by side: each in a process of its own, in turn, several times over.

A contender is set up (imports, and the data where it works in memory) before its clock runs. The peak
memory is the most that its process held from then on, less what it held once it was set up.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tqdm import tqdm

from bench import report


@dataclass(frozen=True)
class Contender:
    """Something to time.

    Attributes
    ----------
    name : str
        What the table calls it.
    prepare : callable
        Module-level function of `arguments` that does all that is not timed, and returns the
        function without arguments that is. If it has an attribute `close`, that is called in the end.
    arguments : tuple
        Its arguments.
    """

    name: str
    prepare: Callable[..., Callable[[], Any]]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Result:
    """Seconds of each repeat, by the clock and of the processor; the peak in MB above the set-up."""

    name: str
    seconds: list[float]
    processor_seconds: list[float]
    peak: float

    @property
    def median(self) -> float:
        """The median time in seconds."""
        return statistics.median(self.seconds)

    @property
    def processor(self) -> float:
        """The median time of the processor in seconds, of all threads of the contender's process."""
        return statistics.median(self.processor_seconds)


CELLS: dict[str, Callable[[Result], str]] = {
    "median s": lambda one: f"{one.median:.3f}",
    "processor s": lambda one: f"{one.processor:.3f}",
    "fastest s": lambda one: f"{min(one.seconds):.3f}",
    "min–max s": lambda one: f"{min(one.seconds):.3f}–{max(one.seconds):.3f}",
    "peak MB": lambda one: f"{one.peak:.0f}",
}
"""What columns of a table say of a result, by their headers."""


def cells(result: Result, *columns: str) -> list[str]:
    """What a row of a table says of a result."""
    return [CELLS[column](result) for column in columns]


def times_table(results: Mapping[str, Result], *columns: str, what: str = "contender") -> str:
    """A row for each contender, with its name and these columns."""
    return report.table([what, *columns], [(name, *cells(one, *columns)) for name, one in results.items()])


def median_time(
    call: Callable[[], Any], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """The median seconds of a call."""
    times = []
    for _ in range(repeats):
        start = clock()
        call()
        times.append(clock() - start)
    return statistics.median(times)


def limit_threads(threads: int) -> None:
    """Give every library of this process and its children the same number of threads."""
    for variable in (
        "OPENBLAS_NUM_THREADS",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "POLARS_MAX_THREADS",
        "DASK_NUM_WORKERS",
    ):
        os.environ[variable] = str(threads)


def contest(contenders: Sequence[Contender], repeats: int) -> dict[str, Result]:
    """Run every contender once to warm up, then all of them in turn, `repeats` times."""
    context = multiprocessing.get_context("spawn")
    racers: list[tuple[Contender, Connection, Any]] = []
    times: dict[str, list[tuple[float, float]]] = {contender.name: [] for contender in contenders}
    try:
        for contender in tqdm(contenders, desc="setting up", leave=False):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(contender, there))
            process.start()
            racers.append((contender, here, process))
            there.close()  # so that a contender that fails ends the contest
            here.recv()
        for _ in tqdm(range(repeats), desc="repeats", leave=False):
            for contender, connection, _ in racers:
                connection.send("run")
                times[contender.name].append(connection.recv())
        return {one.name: _finish(one, *rest, times[one.name]) for one, *rest in racers}
    finally:
        for _, _, process in racers:  # those that wait for their turn, where another has failed
            process.terminate()


def _finish(
    contender: Contender, connection: Connection, process: Any, times: list[tuple[float, float]]
) -> Result:
    connection.send("stop")
    peak = connection.recv()
    process.join()
    return Result(contender.name, *map(list, zip(*times, strict=True)), peak)


def _serve(contender: Contender, connection: Connection) -> None:
    run = contender.prepare(*contender.arguments)
    Path("/proc/self/clear_refs").write_text("5")  # the most ever held is counted from here: see proc(5)
    at_start = memory("VmRSS")
    _run_once(run)
    connection.send("ready")
    while connection.recv() == "run":
        connection.send(_run_once(run))
    connection.send(memory("VmHWM") - at_start)
    getattr(run, "close", lambda: None)()


def _run_once(run: Callable[[], Any]) -> tuple[float, float]:
    gc.collect()
    start, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - start, time.process_time() - processor


def memory(field: str) -> float:
    """Memory of this process in MB: VmRSS, what it holds, or VmHWM, the most it has held."""
    status = Path("/proc/self/status").read_text()
    match = re.search(rf"{field}:\s+(\d+) kB", status)
    assert match is not None
    return int(match[1]) * 1024 / 1e6
