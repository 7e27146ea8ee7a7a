"""The data of the benchmarks: normal classes, written once as a folder of Parquet files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

ROWS_PER_FILE = 250_000
ROWS_PER_GROUP = 131_072

_MOST_ELEMENTS = 1 << 24  # of a row group; a file has two of them at most


def make(
    folder: Path, rows: int, features: int, classes: int, dtype: str = "float64", *, nullable: bool = True
) -> Path:
    """Write `rows` rows in files of up to 250,000, row groups of 131,072, if that is not done already.

    Wide rows come in smaller files, of row groups of 128 MB and two of them.
    Values are random to the last bit, so dictionaries and compression gain nothing: the features are stored
    plainly (in pages of Arrow's default compression). Integers are hundredths. Columns that are not
    `nullable` say so in their schema, and are decoded faster.
    """
    suffix = ("" if dtype == "float64" else f"-{dtype}") + "-not-null" * (not nullable)
    target = folder / f"{rows}x{features}-{classes}{suffix}"
    if not target.exists():
        with filled(target) as unfinished:
            _write(unfinished, rows, features, classes, dtype, nullable)
    return target


@contextmanager
def filled(folder: Path) -> Iterator[Path]:
    """An empty folder to fill, which gets its name once it is full: what has the name is whole."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    yield unfinished
    unfinished.rename(folder)


def _write(folder: Path, rows: int, features: int, classes: int, dtype: str, nullable: bool) -> None:
    rng = np.random.default_rng(0)
    means = rng.normal(size=(classes, features))
    in_group = min(ROWS_PER_GROUP, _MOST_ELEMENTS // features)
    in_file = min(ROWS_PER_FILE, 2 * in_group)
    for i, start in enumerate(tqdm(range(0, rows, in_file), desc=f"making {rows:,} rows", leave=False)):
        y = rng.integers(0, classes, size=min(in_file, rows - start))
        X = means[y] + rng.normal(size=(len(y), features))
        X = (X * 100 if "int" in dtype else X).astype(dtype)
        columns = {f"x{j}": X[:, j] for j in range(features)}
        table = pa.table({**columns, "y": y})
        table = table.cast(pa.schema([field.with_nullable(nullable) for field in table.schema]))
        pq.write_table(table, folder / f"{i:04}.parquet", row_group_size=in_group, use_dictionary=["y"])


def make_layout(
    folder: Path, *, files: int, rows_per_file: int, features: int, classes: int, small: bool = False
) -> Path:
    """Write so many files of one row group each, if that is not done already.

    Small values are whole numbers below 256, of which a file holds an eighth of the bytes.
    """
    target = folder / f"{files}-files-{rows_per_file}x{features}-{classes}{'-small' * small}"
    if not target.exists():
        with filled(target) as unfinished:
            _write_files(unfinished, files, rows_per_file, features, classes, small)
    return target


def _write_files(folder: Path, files: int, rows: int, features: int, classes: int, small: bool) -> None:
    rng = np.random.default_rng(0)
    for i in tqdm(range(files), desc=f"making {files:,} files", leave=False):
        y = rng.integers(0, classes, size=rows)
        if small:
            columns = {f"x{j}": rng.integers(y, 256, dtype=np.uint8) for j in range(features)}
        else:
            columns = {f"x{j}": rng.normal(size=rows) + y for j in range(features)}
        table = pa.table({**columns, "y": y})
        plain = small or ["y"]
        pq.write_table(table, folder / f"{i:04}.parquet", row_group_size=rows, use_dictionary=plain)


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """The rows as a matrix and the labels, as one would load them for scikit-learn."""
    table = pq.read_table(folder)
    y = table["y"].to_numpy()
    X = np.empty((len(y), table.num_columns - 1))
    for j in range(X.shape[1]):
        X[:, j] = table.column(j).to_numpy()
    return X, y
