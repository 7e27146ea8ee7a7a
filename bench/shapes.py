"""Statistics of many shapes, from Parquet, each beside its own limit; memory in states.

Run as ``python -m bench.shapes``. The limit of a shape is a scan of its files, read as this project reads
them, after it the products that its statistics take, on numbers in cache, and at last the first writing of
the state. Each shape is run with one thread, of which the time of the processor counts, and with several, of
which the time by the clock does. Peak memory is given in MB and in states: how many times the bytes of the
state that the pass returns. The other tables are of layouts (many
small files, single-row row groups, Zarr), of the parts that a pass consists of, of finalising a model of very
many classes, of batches for states of many classes, and of mixtures beside QDA.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from bench import data, report
from bench.arguments import add_data, parser_of
from bench.contest import Contender, Result, contest, limit_threads
from bench.dask import as_zarr, zarr_pass, zarr_read
from bench.parts import parts_table
from bench.passes import (
    BLAS,
    DUCKDB_VARIANCE,
    POLARS,
    SCAN_TUNED,
    blas_products,
    duckdb_variance,
    parquet_pass,
    polars_variance,
    scan_as_we_do,
)

OURS = "streamgda"
MOST_STATES, MOST_BESIDE = 3, 400  # peak memory: states, and MB beside them
ROWS_PER_CHUNK = 65_536


@dataclass(frozen=True)
class Shape:
    """Rows of features in classes, the kind of statistics, and the goal as a multiple of the limit."""

    rows: int
    features: int
    classes: int
    kind: str
    goal: float

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"{self.features:,} × {self.classes:,} {self.kind}"

    @property
    def megabytes_of_state(self) -> float:
        """The means, to twice the precision of float64, and the scatter."""
        means = 2 * self.classes * self.features
        scatter = {"full": self.classes * self.features**2, "tied": self.features**2, "diag": means // 2}
        return 8 * (means + scatter[self.kind]) / 1e6


SHAPES = (
    Shape(2_000_000, 50, 10, "full", 1.4),
    Shape(2_000_000, 50, 10, "tied", 1.3),
    Shape(2_000_000, 50, 10, "diag", 1.3),
    Shape(2_000_000, 50, 1_000, "full", 2.2),
    Shape(2_000_000, 20, 10_000, "diag", 2),
    Shape(1_000_000, 400, 20_000, "tied", 2),
    Shape(200_000, 512, 1_000, "tied", 2),
    Shape(64_000, 2_048, 1_000, "tied", 2),
    Shape(64_000, 2_000, 5, "full", 2),
    Shape(8_000_000, 5, 3, "full", 1.7),
    Shape(1_000_000, 50, 5_000, "full", 2),
    Shape(5_000_000, 20, 100_000, "diag", 2),
)


def shrunk(shape: Shape, options: argparse.Namespace) -> Shape:
    """The shape with a part of its rows, and features and classes up to a limit: for a quick look."""
    features = min(shape.features, options.most_features)
    classes = min(shape.classes, options.most_classes)
    rows = max(int(shape.rows * options.part), 1_000)
    return Shape(rows, features, classes, shape.kind, shape.goal)


def statistics_of(features: int, classes: int) -> Any:
    """Tied statistics of rows that vary as much as the means of their classes."""
    import numpy as np

    from streamgda import ClassStatistics

    rng = np.random.default_rng(0)
    means, few = rng.normal(size=(classes, features)), rng.normal(size=(4 * features, features))
    counts = np.full(classes, 100)
    scatter = few.T @ few * (counts.sum() / len(few))
    return ClassStatistics.from_moments(np.arange(classes), counts, means, scatter, covariance_type="tied")


def finalising(features: int, classes: int) -> Callable[[], Any]:
    """The finalisation of an LDA from its statistics, all that the first prediction of a row waits for."""
    from streamgda import LinearDiscriminantAnalysis

    statistics = statistics_of(features, classes)
    row = statistics.means[:1].copy()
    return lambda: LinearDiscriminantAnalysis.from_statistics(statistics).predict(row)


def predicting(features: int, classes: int, rows: int) -> Callable[[], Any]:
    """The prediction of some rows by a model that is finalised."""
    import numpy as np

    from streamgda import LinearDiscriminantAnalysis

    model = LinearDiscriminantAnalysis.from_statistics(statistics_of(features, classes))
    asked = np.random.default_rng(0).normal(size=(rows, features))
    return lambda: model.predict_proba(asked)


def updating(classes: int, rows: int) -> Callable[[], Any]:
    """Batches for diag statistics of many classes: the times of ten, and no other work."""
    import numpy as np

    from streamgda import ClassStatistics

    rng = np.random.default_rng(0)
    state = ClassStatistics("diag").update(
        rng.normal(size=(2 * classes, 20)), np.arange(2 * classes) % classes
    )
    X, labels = rng.normal(size=(rows, 20)), [rng.integers(classes, size=rows) for _ in range(10)]
    return lambda: [state.update(X, y) for y in labels]


def learning(folder: Path, subclasses: int) -> Callable[[], Any]:
    """The pass of a mixture, its centres given, or of QDA if there is one subclass."""
    from streamgda import MixtureDiscriminantAnalysis, accumulate, scan_parquet

    source = scan_parquet(folder, "y")
    centers = MixtureDiscriminantAnalysis(subclasses).draw_centers(source) if subclasses > 1 else None
    return lambda: accumulate(source, rule=centers, scheduler="synchronous")


def predicting_mixture(folder: Path, subclasses: int, rows: int) -> Callable[[], Any]:
    """The prediction of some rows by a mixture that is finalised, or by QDA."""
    import numpy as np

    from streamgda import MixtureDiscriminantAnalysis, QuadraticDiscriminantAnalysis, scan_parquet

    make = MixtureDiscriminantAnalysis(subclasses) if subclasses > 1 else QuadraticDiscriminantAnalysis()
    model = make.fit(scan_parquet(folder, "y"))
    del model.feature_names_in_  # or a warning would say that a matrix has no names
    asked = np.random.default_rng(0).normal(size=(rows, model.n_features_in_))
    return lambda: model.predict_proba(asked)


def finalising_products(features: int, classes: int) -> Callable[[], Any]:
    """What a finalised LDA takes at least: a Cholesky factor, and the means multiplied by its inverse."""
    from scipy.linalg import cholesky, solve_triangular

    statistics = statistics_of(features, classes)
    scatter, means = statistics.scatter, statistics.means
    return lambda: solve_triangular(cholesky(scatter, lower=True), means.T, lower=True)


def single_row_groups(folder: Path, rows: int, features: int) -> Path:
    """A file in which every row is a row group."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = folder / f"{rows}-groups-of-1x{features}"
    if not target.exists():
        rng = np.random.default_rng(0)
        with data.filled(target) as unfinished:
            columns = {f"x{j}": rng.normal(size=rows) for j in range(features)}
            table = pa.table({**columns, "y": rng.integers(0, 10, size=rows)})
            pq.write_table(table, unfinished / "0.parquet", row_group_size=1)
    return target


def contenders(folder: Path, shape: Shape, threads: int) -> list[Contender]:
    """A pass over a shape and the two parts of its limit; for diag statistics, also other libraries."""
    products = (shape.rows, shape.features, shape.classes, threads, shape.kind)
    found = [
        Contender(OURS, parquet_pass, (folder, shape.kind)),
        Contender(SCAN_TUNED, scan_as_we_do, (folder, threads)),
        Contender(BLAS, blas_products, products),
    ]
    if shape.kind == "diag":
        found.append(Contender(DUCKDB_VARIANCE, duckdb_variance, (folder, shape.features, threads)))
        found.append(Contender(POLARS, polars_variance, (folder,)))
    return found


def measured(options: argparse.Namespace, threads: int) -> dict[Shape, dict[str, Result]]:
    """The results of all shapes with so many threads."""
    limit_threads(threads)
    found = {}
    for shape in dict.fromkeys(shrunk(shape, options) for shape in SHAPES):
        if not options.only or any(part in shape.name for part in options.only):
            folder = data.make(options.data, shape.rows, shape.features, shape.classes)
            found[shape] = contest(contenders(folder, shape, threads), options.repeats)
    return found


def beside_limit(result: dict[str, Result], time: str) -> tuple[list[str], float]:
    """The seconds of a pass, of its scan and of its products; and the pass as a multiple of both."""
    seconds = [getattr(result[name], time) for name in (OURS, SCAN_TUNED, BLAS)]
    return [f"{second:.3f}" for second in seconds], seconds[0] / sum(seconds[1:])


def times_table(one: dict[Shape, dict[str, Result]], several: dict[Shape, dict[str, Result]]) -> str:
    """Each shape: its times and its limit with one and several threads, its state, and its peak memory."""
    rows = []
    for shape, result in several.items():
        times, ratio = beside_limit(one[shape], "processor")
        by_clock, of_several = beside_limit(result, "median")
        state, peak = shape.megabytes_of_state, result[OURS].peak
        threads = by_clock[0], f"{of_several:.2f}"
        memory = f"{state:.1f}", f"{peak:.0f}"
        rows.append((shape.name, f"{shape.rows:,}", *times, f"{ratio:.2f}", *threads, *memory))
    headers = ["features × classes", "rows", "s", "scan s", "products s", "÷ limit", "threads: s", "÷ limit"]
    return report.table([*headers, "state MB", "peak MB"], rows)


def of_shapes(results: dict[Shape, dict[str, Result]]) -> report.Goals:
    """Each shape as a multiple of its limit, with one thread."""
    return report.Goals(
        report.at_most(f"{shape.name} ÷ limit", beside_limit(result, "processor")[1], shape.goal)
        for shape, result in results.items()
    )


def memory(results: dict[Shape, dict[str, Result]]) -> report.Goals:
    """The peak of each shape, beside what a few states take."""
    return report.Goals(
        report.at_most(
            f"peak of {shape.name} ÷ ({MOST_STATES} states + {MOST_BESIDE} MB)",
            result[OURS].peak / (MOST_STATES * shape.megabytes_of_state + MOST_BESIDE),
            1,
        )
        for shape, result in results.items()
    )


def beside_peers(results: dict[int, dict[Shape, dict[str, Result]]]) -> report.Goals:
    """Diag statistics beside other libraries, with each number of threads; of one, the processor's time."""
    rows: list[tuple[str, ...]] = []
    for threads, of_threads in results.items():
        time = attrgetter("processor" if threads == 1 else "median")
        for shape, result in of_threads.items():
            rows += [
                report.at_least(f"{name.split(':')[0]} ÷ {shape.name}, threads {threads}", ratio, 1)
                for name in (DUCKDB_VARIANCE, POLARS)
                if name in result and (ratio := time(result[name]) / time(result[OURS]))
            ]
    return report.Goals(rows)


def of_layouts(options: argparse.Namespace) -> report.Goals:
    """Small files and row groups beside pyarrow alone, and Zarr beside a bare read and the products."""
    threads, features = options.threads, min(50, options.most_features)
    single = single_row_groups(options.data, 2 * options.files, features)
    shape = shrunk(SHAPES[0], options)
    chunks = as_zarr(data.make(options.data, shape.rows, features, shape.classes), ROWS_PER_CHUNK)
    products = Contender(BLAS, blas_products, (shape.rows, features, shape.classes, threads))
    contests: list[tuple[str, float, Sequence[Contender]]] = [
        (small_files_name(options), 3, parquet_beside_scan(small_files(options), threads)),
        (f"{2 * options.files:,} row groups of 1 row", 3, parquet_beside_scan(single, threads)),
        (
            f"Zarr in chunks of {ROWS_PER_CHUNK:,} rows",
            1.5,
            [
                Contender(OURS, zarr_pass, (chunks,)),
                Contender("read", zarr_read, (chunks, threads)),
                products,
            ],
        ),
    ]
    rows = []
    for name, goal, found in contests:
        ours, *limit = contest(found, options.repeats).values()
        least = sum(result.median for result in limit)
        what = f"full statistics of {name}, {ours.median:.3f} s and {ours.peak:.0f} MB, ÷ limit"
        rows.append(report.at_most(what, ours.median / least, goal))
    return report.Goals(rows)


def parquet_beside_scan(folder: Path, threads: int) -> list[Contender]:
    """A pass, and pyarrow alone on the same files."""
    return [
        Contender(OURS, parquet_pass, (folder, "full")),
        Contender(SCAN_TUNED, scan_as_we_do, (folder, threads)),
    ]


def layouts(options: argparse.Namespace, shapes: Iterable[Shape]) -> dict[str, tuple[Path, str]]:
    """The folder and the kind of statistics of each shape, and of many small files."""
    named = {
        shape.name: (data.make(options.data, shape.rows, shape.features, shape.classes), shape.kind)
        for shape in shapes
    }
    return named if options.only else {**named, small_files_name(options): (small_files(options), "full")}


def small_files_name(options: argparse.Namespace) -> str:
    """What the tables call many small files."""
    return f"{options.files:,} files of 1,000 rows"


def small_files(options: argparse.Namespace) -> Path:
    """The folder of many small files."""
    features = min(50, options.most_features)
    return data.make_layout(
        options.data, files=options.files, rows_per_file=1_000, features=features, classes=10
    )


def of_finalising(options: argparse.Namespace) -> report.Goals:
    """The finalisation of an LDA beside its products, and beside predicting with it."""
    features, classes = min(400, options.most_features), min(20_000, options.most_classes)
    ours, limit, predicted = contest(
        [
            Contender(OURS, finalising, (features, classes)),
            Contender("products", finalising_products, (features, classes)),
            Contender("prediction", predicting, (features, classes, 1_000)),
        ],
        options.repeats,
    ).values()
    times = ", ".join(f"{1e3 * result.median:.0f}" for result in (ours, limit, predicted))
    what = (
        f"LDA of {features:,} × {classes:,} finalised ÷ its products ({times} ms with 1,000 rows predicted)"
    )
    return report.Goals([report.at_most(what, ours.median / limit.median, 2)])


def of_batches(options: argparse.Namespace) -> report.Goals:
    """Batches for states of 1,000 and of 100,000 classes."""
    rows = []
    for size in (1_000, 10_000, 100_000):
        few, many = contest(
            [Contender(str(n), updating, (min(n, options.most_classes), size)) for n in (1_000, 100_000)],
            options.repeats,
        ).values()
        what = f"a batch of {size:,} rows, diag of 20 features, 100,000 classes ÷ 1,000"
        rows.append(report.at_most(what, many.processor / few.processor, 2))
    return report.Goals(rows)


def of_mixtures(options: argparse.Namespace, subclasses: int = 8) -> report.Goals:
    """Learning and predicting with mixtures beside QDA."""
    shape = shrunk(Shape(500_000, 50, 10, "full", 0), options)
    folder = data.make(options.data, shape.rows, shape.features, shape.classes)
    rows = []
    for name, prepare, goal, more in (
        ("a pass", learning, 1.6, ()),
        ("2,000 rows predicted", predicting_mixture, 1.1 * subclasses, (2_000,)),
    ):
        mixture, plain = contest(
            [Contender(str(n), prepare, (folder, n, *more)) for n in (subclasses, 1)], options.repeats
        ).values()
        what = f"{name}, {subclasses} subclasses ÷ QDA"
        rows.append(report.at_most(what, mixture.processor / plain.processor, goal))
    return report.Goals(rows)


def main() -> None:
    """Measure and keep the tables."""
    parser = parser_of(__doc__, repeats=5, threads=2, files=1_000, most_features=2_048, most_classes=100_000)
    add_data(parser)
    parser.add_argument("--part", type=float, default=1.0, help="of the rows of each shape")
    parser.add_argument("--only", nargs="*", help="shapes whose names hold one of these, and no other table")
    options = parser.parse_args()
    found = {threads: measured(options, threads) for threads in (1, options.threads)}
    results = found[options.threads]
    details: list[str | report.Goals] = [
        of_shapes(found[1]),
        memory(results),
        beside_peers(found),
        "Parts of a pass, profiled on one thread:",
        parts_table(layouts(options, results)),
    ]
    if not options.only:
        details += [of_layouts(options), of_finalising(options)]
        limit_threads(1)
        details += [of_batches(options), of_mixtures(options)]
    title = f"from Parquet; processor time of one thread, {options.threads} threads by the clock"
    keep = not (options.print_only or options.only)
    report.publish("shapes", title, times_table(found[1], results), *details, keep=keep)


if __name__ == "__main__":
    main()
