"""Refreshes of ledgers of many small files: on a disk, of simulated states, and in an object store.

Run as ``python -m bench.refresh``. Each part is a process of its own, with one thread. The files have 12 rows
of 20 features and 3 classes, so that what a file costs beside its rows is measured. Of 100,000 files there
are states alone, and their listing is made up: a refresh that finds nothing new is measured without it.
The object store answers each request after 20 ms.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import contest, report
from bench.arguments import parser_of

contest.limit_threads(1)

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from bench.object_store_stub import CREDENTIALS, ObjectStore
from streamgda import ClassStatistics, StatisticsLedger, scan_parquet
from streamgda.data.sources.base import FileSource
from streamgda.data.sources.splits import InputFile
from streamgda.data.storage.versions import Version
from streamgda.jobs.ledger.entries import Entry, FileRecord, LedgerFile, table_of

FEATURES, CLASSES, ROWS = 20, 3, 12
DISTINCT = 200  # simulated states
RNG = np.random.default_rng(0)

Line = tuple[str, str, str, str]


def put(path: Path) -> None:
    """Write a file of a few rows."""
    columns: dict[str, Any] = {f"x{j}": RNG.normal(size=ROWS) for j in range(FEATURES)}
    table = pa.table({**columns, "y": np.arange(ROWS) % CLASSES})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="none", use_dictionary=False)


def timed(call: Callable[[], object], repeats: int = 1) -> tuple[float, float]:
    """Processor time and time of a call, the least of some."""
    times = []
    for _ in range(repeats):
        before = time.process_time(), time.perf_counter()
        call()
        times.append((time.process_time() - before[0], time.perf_counter() - before[1]))
    return min(times)


def peak() -> int:
    """The most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def on_disk(n_files: int, goals: dict[str, float]) -> list[Line]:
    """Refresh a ledger of small files on this machine."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        for n in range(n_files):
            put(data / f"{n:06}.parquet")
        ledger = StatisticsLedger(Path(folder, "ledger"))

        def refresh() -> None:
            ledger.refresh(scan_parquet(data, "y"), scheduler="synchronous")

        measured = {"the first refresh": timed(refresh), "nothing new": timed(refresh, 3)}
        measured["statistics()"] = timed(ledger.statistics, 3)
        put(data / "new.parquet")

        def grow() -> None:
            refresh()
            ledger.statistics()

        measured["one new file, and statistics()"] = timed(grow)
    return lines(f"{n_files:,} files, on a disk", measured, goals)


class Simulated(FileSource):
    """A source whose files are a list, and are not there."""

    feature_names = tuple(f"x{j}" for j in range(FEATURES))

    def __init__(self, listed: list[InputFile]) -> None:
        self._listed = listed

    read_options = property(lambda self: {"target": "y", "features": list(self.feature_names)})

    def rescanned(self) -> Simulated:
        """The same files."""
        return self

    def files(self) -> list[InputFile]:
        """The list."""
        return self._listed

    def includes(self, filesystem: pafs.FileSystem, path: str) -> bool:
        """No file that is written is one of the list."""
        return False

    def plans(self, *_: Any) -> Any:
        """No file can be opened."""
        raise NotImplementedError

    splits = plans


class AndOne(Simulated):
    """The same files and one more, which has rows."""

    def __init__(self, listed: list[InputFile], one: FileSource) -> None:
        super().__init__([*listed, *one.files()])
        self._one = one

    def plans(self, files: Any, *how: Any) -> Any:
        """What is to be read of that file."""
        return self._one.plans(files, *how)


def simulated(n_files: int, goals: dict[str, float]) -> list[Line]:
    """Refresh a ledger of states whose files are not there, and then one more that is."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "ledger", "entries").mkdir(parents=True)
        ledger, y = StatisticsLedger(Path(folder, "ledger")), np.arange(ROWS) % CLASSES
        states = [ClassStatistics(feature_names=Simulated.feature_names) for _ in range(DISTINCT)]
        packed = [table_of(one.update(RNG.normal(size=(ROWS, FEATURES)), y)) for one in states]
        total, versions = (
            ClassStatistics(feature_names=Simulated.feature_names),
            range(10**18, 10**18 + n_files),
        )
        paths = [f"day={n // 100:05}/{n:06}.parquet" for n in range(n_files)]
        listed = [
            InputFile(path, path, Version(1, when), {}) for path, when in zip(paths, versions, strict=True)
        ]
        source = Simulated(listed)
        reads = {**source.read_options, **ledger._options}
        records = (FileRecord.of(file)._replace(rows=ROWS) for file in listed)
        entries = (Entry(one, *packed[n % DISTINCT]) for n, one in enumerate(records))
        written = ledger._entries(reads).write(entries)
        for _, part in ledger._entries(reads).parts(written, ledger._empty):
            total += part
        LedgerFile(reads, written, *table_of(total), f"{ledger.path}/ledger.parquet").commit(ledger._storage)
        del written, total, records, entries

        def refresh() -> None:
            assert not ledger.refresh(source).read

        measured = {"nothing new, beside the listing": timed(refresh, 3)}
        for where, name in (("behind", "new.parquet"), ("among", "day=00000/new.parquet")):
            put(Path(folder, where, name))
            one = scan_parquet(Path(folder, where), "y", features=list(Simulated.feature_names))

            def grow(one: FileSource = one) -> None:
                assert ledger.refresh(AndOne(listed, one), scheduler="synchronous").rows == ROWS
                assert ledger.statistics().n_rows == ROWS * (n_files + 1)

            measured[f"one new file {where} the others, and statistics()"] = timed(grow)
    return [
        *lines(f"{n_files:,} states", measured, goals),
        line(f"{n_files:,} states", "peak, MB", peak(), goals["peak"]),
    ]


def in_a_store(n_files: int, goals: dict[str, float]) -> list[Line]:
    """Refresh a ledger in an object store that answers after 20 ms."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "rows", "data")
        for n in range(n_files):
            put(data / f"{n:04}.parquet")
        with ObjectStore(Path(folder), latency=0.02) as store:
            filesystem = pafs.S3FileSystem(endpoint_override=store.endpoint, **CREDENTIALS)
            source = scan_parquet("rows/data", "y", filesystem=filesystem)
            ledger = StatisticsLedger("rows/ledger", filesystem=filesystem)
            place, rows = f"{n_files} files, in a store", []

            def measure(name: str, call: Callable[[], object]) -> None:
                store.reset()
                _, seconds = timed(call)
                n_requests = sum(store.counts()[verb] for verb in ("GET", "HEAD", "LIST", "PUT", "DELETE"))
                rows.append(line(place, f"{name}, s", seconds, goals[name]))
                rows.append(line(place, f"{name}, requests", n_requests, goals.get(f"{name}, requests")))

            def refresh() -> None:
                ledger.refresh(source, scheduler="synchronous")

            measure("the first refresh", refresh)
            measure("nothing new", refresh)
            put(data / "new.parquet")
            measure("one new file", refresh)
            measure("statistics()", ledger.statistics)
    return rows


def lines(place: str, measured: dict[str, tuple[float, float]], goals: dict[str, float]) -> list[Line]:
    """Processor times as lines of a table."""
    return [line(place, f"{name}, cpu s", cpu, goals.get(name)) for name, (cpu, _) in measured.items()]


def line(place: str, name: str, value: float, goal: float | None) -> Line:
    """A line of the table."""
    said = "" if goal is None else "reached" if value <= goal else "not reached"
    text = f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
    return f"{place}: {name}", text, "" if goal is None else f"≤ {goal:g}", said


def main() -> None:
    """Measure and keep the table."""
    options = parser_of(__doc__, files=1000, many=20_000, states=100_000, stored=150).parse_args()
    few = {"the first refresh": 5.3, "nothing new": 0.11, "one new file, and statistics()": 0.30}
    many = {"nothing new, beside the listing": 1.5, "peak": 450}
    many |= {f"one new file {where} the others, and statistics()": 12 for where in ("behind", "among")}
    stored = {"the first refresh": 2.5, "nothing new": 0.25, "nothing new, requests": 9, "one new file": 0.7}
    parts: list[tuple[Callable[..., list[Line]], int, dict[str, float]]] = [
        (on_disk, options.files, few),
        (on_disk, options.many, {}),
        (simulated, options.states, many),
        (in_a_store, options.stored, {**stored, "statistics()": 0.25}),
    ]
    rows: list[Line] = []
    for part, size, goals in parts:
        with multiprocessing.get_context("spawn").Pool(1) as process:
            rows += process.apply(part, (size, goals))
        print(report.table(["", "measured", "wanted", ""], rows), flush=True)
    title = f"files of {ROWS} rows × {FEATURES} features, {CLASSES} classes; one thread"
    table = report.table(["", "measured", "wanted", ""], rows)
    goals = report.Goals(row for row in rows if row[2])
    report.publish("refresh", title, table, goals, keep=not options.print_only)


if __name__ == "__main__":
    main()
