"""A night that adds 1 % of the files beside a pass over all of them; and a ledger of 10,000 entries merged.

Run as ``python -m bench.refresh``. Every contender is a process of its own, all with the same number of
threads, in turn. The files hold whole numbers below 256, so that all of them stay in the memory of the
system and no disk is measured. A night adds files to a folder and refreshes its ledger, report included;
the state is merged from the entries apart from that, since a night without a new model need not do it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import contest, data, report
from bench.arguments import add_data, parser_of

THREADS = 2
contest.limit_threads(THREADS)

import numpy as np

from streamgda import ClassStatistics, StatisticsLedger, accumulate, scan_parquet
from streamgda.ledger.manifest import FileRecord, Manifest, entry_name
from streamgda.sources.base import FilePlan, InputFile
from streamgda.storage.filesystems import Version

PASS = "a pass over all the files: accumulate"
FIRST = "the first night: refresh an empty ledger"
NIGHT = "a night that adds 1 % of the files: refresh"
NIGHT_AND_STATE = "the same, and statistics()"
QUIET = "a night without change: refresh"
DISTINCT = 100


def linked(folder: Path) -> tuple[Path, Path]:
    """A folder of its own with the same files, and a place for its ledger on the same disk."""
    home = Path(tempfile.mkdtemp(dir=folder.parent, prefix="refresh-"))
    (home / "data").mkdir()
    for file in folder.iterdir():
        os.link(file, home / "data" / file.name)
    return home / "data", home / "ledger"


def whole_pass(folder: Path) -> Callable[[], object]:
    """Read every file and keep nothing."""
    return lambda: accumulate(scan_parquet(folder, "y"))


def first_night(folder: Path) -> Callable[[], object]:
    """Read every file and write its entry."""
    files, home = linked(folder)

    def run() -> None:
        shutil.rmtree(home, ignore_errors=True)
        StatisticsLedger(home).refresh(scan_parquet(files, "y"))

    return run


def night(folder: Path, share: float, merge: bool) -> Callable[[], object]:
    """Add files, refresh, and merge all that is held if that is asked for."""
    files, home = linked(folder)
    old = sorted(files.iterdir())
    StatisticsLedger(home).refresh(scan_parquet(files, "y"))
    nights = iter(range(10**6))

    def run() -> None:
        number = next(nights)
        for file in old[: round(share * len(old))]:
            os.link(file, files / f"night-{number}-{file.name}")
        ledger = StatisticsLedger(home)
        refreshed = ledger.refresh(scan_parquet(files, "y"))
        assert len(refreshed.read) == round(share * len(old))
        if merge:
            ledger.statistics()

    return run


def many_entries(folder: Path, entries: int, classes: int, features: int, fold: bool) -> Callable[[], object]:
    """Merge a ledger of so many entries; folded beforehand, if that is asked for.

    The states of 100 entries stand under all the names: what reading one costs is the same.
    """
    home = Path(tempfile.mkdtemp(dir=folder, prefix="entries-"))
    ledger = StatisticsLedger(home)
    (home / "entries").mkdir()
    rng, held, states = np.random.default_rng(0), {}, []
    for i in range(entries):
        file = InputFile(f"{i:05}", f"{i:05}", Version(1, i), {})
        name = entry_name(file, {})
        holding = FileRecord.of(FilePlan(file, (), "", ""), rows=20 * classes, dropped=0, entry=name)
        if i < DISTINCT:
            y = np.arange(20 * classes) % classes
            states.append(ClassStatistics().update(rng.normal(size=(len(y), features)), y))
        ledger._folder.write_entry(name, states[i % DISTINCT], [holding])
        held[file.path] = holding
    records = Manifest(ledger._kept, held)
    ledger._folder.write_manifest(records, Manifest(ledger._kept, {}))
    if fold:
        ledger.compact()
    return lambda: StatisticsLedger(home).statistics()


def main() -> None:
    """Measure and keep the tables."""
    parser = parser_of(
        __doc__, files=200, rows_per_file=100_000, features=50, classes=10, entries=10_000, repeats=5
    )
    add_data(parser)
    options = parser.parse_args()
    folder = data.make_layout(
        options.data,
        files=options.files,
        rows_per_file=options.rows_per_file,
        features=options.features,
        classes=options.classes,
        small=True,
    )
    share = max(0.01, 1 / options.files)
    merging = (options.data, options.entries, options.classes, options.features)
    one_by_one = f"{options.entries:,} entries merged"
    folded = f"the same {options.entries:,}, folded into one by compact()"
    contenders = [
        contest.Contender(PASS, whole_pass, (folder,)),
        contest.Contender(FIRST, first_night, (folder,)),
        contest.Contender(NIGHT, night, (folder, share, False)),
        contest.Contender(NIGHT_AND_STATE, night, (folder, share, True)),
        contest.Contender(QUIET, night, (folder, 0.0, False)),
        contest.Contender(one_by_one, many_entries, (*merging, False)),
        contest.Contender(folded, many_entries, (*merging, True)),
    ]
    try:
        results = contest.contest(contenders, options.repeats)
    finally:
        for pattern in ("refresh-*", "entries-*"):
            for left in options.data.glob(pattern):
                shutil.rmtree(left)
    whole = results[PASS].median
    rows = [
        (name, f"{result.median:.3f}", f"{100 * result.median / whole:.1f} %", f"{result.peak:.0f}")
        for name, result in results.items()
    ]
    title = (
        f"## bench.refresh: {options.files} files of {options.rows_per_file:,} rows × {options.features} "
        f"features, {options.classes} classes; {THREADS} threads"
    )
    goals = [
        report.at_most("a night that adds 1 % ÷ a pass, in %", 100 * results[NIGHT].median / whole, 3),
        report.at_most("the same with statistics()", 100 * results[NIGHT_AND_STATE].median / whole, 3),
    ]
    text = "\n\n".join(
        (
            title,
            report.table(["", "median s", "of a pass", "peak MB"], rows),
            report.table(["goal", "measured", "wanted", ""], goals),
        )
    )
    report.publish("refresh", text, keep=not options.print_only)


if __name__ == "__main__":
    main()
