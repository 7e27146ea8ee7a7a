"""Damaged files of each format are an error that names the file, and never end the process."""

import bz2
import gzip
import json
import subprocess
import sys
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.orc
import pytest

from bench.object_store_stub import ObjectStore
from streamgda import accumulate, scan
from streamgda.data.storage.retries import noting_retries
from tests.data.storage.stores import arrow

TABLE = pa.table({"x": np.linspace(0, 1, 9000), "kind": ["a", "b", "c"] * 3000})
CSV = b"x,kind\n" + b"1.5,a\n" * 9000
JSON = b'{"x": 1.5, "kind": "a"}\n' * 9000


def written(write):
    sink = pa.BufferOutputStream()
    write(TABLE, sink)
    return sink.getvalue().to_pybytes()


WHOLE = {
    "csv": CSV,
    "csv.gz": gzip.compress(CSV),
    "csv.bz2": bz2.compress(CSV),
    "jsonl": JSON,
    "feather": written(lambda table, sink: pyarrow.feather.write_feather(table, sink, chunksize=1000)),
    "orc": written(pyarrow.orc.write_table),
}


def error_of(path, **options):
    with noting_retries() as retries, pytest.raises(ValueError, match=path.name) as raised:
        accumulate(scan(path, "kind", features=["x"], **options), "diag", scheduler="synchronous")
    assert not retries
    return str(raised.value)


@pytest.mark.parametrize("share", [0.5, 0.999])
@pytest.mark.parametrize("ending", ["csv.gz", "csv.bz2", "feather", "orc"])
def test_a_local_file_that_is_cut_off_is_damaged_and_not_read_again(ending, share, tmp_path):
    path = tmp_path / f"cut.{ending}"
    path.write_bytes(WHOLE[ending][: int(share * len(WHOLE[ending]))])
    assert f"cut.{ending} cannot be read as " in error_of(path)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    home = tmp_path_factory.mktemp("store")
    (home / "rows").mkdir()
    for ending, content in WHOLE.items():
        (home / "rows" / f"1.{ending}").write_bytes(content)
    with ObjectStore(home) as store:
        yield store


@pytest.mark.parametrize("ending", WHOLE)
def test_a_short_answer_of_a_store_is_asked_again(ending, store, monkeypatch):
    monkeypatch.setattr("streamgda.data.storage.retries.FIRST_PAUSE", 0.001)
    filesystem = arrow(store)
    state = accumulate(scan(f"rows/1.{ending}", "kind", filesystem=filesystem), scheduler="synchronous")
    for every in (1, 2):  # the look at the columns, or the pass
        store.reset()
        store.set(shorten_every=every, most_faults=1, only="GET")
        with warnings.catch_warnings(action="ignore"):  # which tell the retries of a pass
            source = scan(f"rows/1.{ending}", "kind", filesystem=filesystem)
            assert accumulate(source, scheduler="synchronous") == state
        assert store.counts()["faults"] == 1
    store.set(shorten_every=1, most_faults=-1)
    with pytest.raises(ConnectionError, match=f"rows/1.{ending}"):
        scan(f"rows/1.{ending}", "kind", filesystem=filesystem)
    store.set(shorten_every=0)


@pytest.mark.parametrize("column", ["x", "other"])
@pytest.mark.parametrize("line_ends", [False, True])
def test_values_nested_deeply_are_an_error_before_arrow_parses_them(column, line_ends, tmp_path):
    """Arrow parses by recursion; 20,000 levels overflow the stack."""
    path = tmp_path / "deep.jsonl"
    for opening, closing in (("[", "]"), ('{"x":', "1}")):
        deep = opening * 20_000 + closing * 20_000
        if line_ends:
            deep = deep.replace(opening, f"{opening}\n")
        path.write_bytes(b"%s{%s: %s}\n%s" % (JSON, json.dumps(column).encode(), deep.encode(), JSON))
        options = {"format": ds.JsonFileFormat(VALUES_OVER_LINES)} if line_ends else {}
        assert "nested deeper than 64 levels" in error_of(path, **options)


@pytest.mark.parametrize("text", [b"null", b' null, "x": 1', b"%s \tnull\n%s" % (JSON, JSON)])
def test_rows_that_are_null_are_an_error_before_arrow_parses_them(text, tmp_path):
    """Arrow ends the process where the first row of a block is null."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(text)
    assert "rows.jsonl" in error_of(path)
    assert "a row is null, and no object" in error_of(path)


VALUES_OVER_LINES = ds.JsonFragmentScanOptions(pa.json.ParseOptions(newlines_in_values=True))


def test_brackets_in_texts_and_side_by_side_are_not_nested(tmp_path):
    path = tmp_path / "wide.jsonl"
    row = {"x": 1.5, "kind": '"' + "[{" * 200, "pairs": [[1, 2]] * 200}
    path.write_text(f"{json.dumps(row)}\n" * 3)
    for options in ({}, {"format": ds.JsonFileFormat(VALUES_OVER_LINES)}):
        assert accumulate(scan(path, "kind", features=["x"], **options)).n_rows == 3


@pytest.mark.parametrize("ends", ["", "\n", "\n\n", "\r\n"])
@pytest.mark.slow_cases("200000")
@pytest.mark.parametrize("n_before", [0, 200_000])  # in the first block, or in a later one
def test_a_quote_that_is_not_closed_takes_no_rows(n_before, ends, tmp_path):
    path, end = tmp_path / "quote.csv", ends or "\n"
    lines = ["x,other,kind", *['1.5,"b",a'] * (n_before + 1), '1.5,"b,a', *['1.5,"b",a'] * 3]
    path.write_text(end.join(lines) + ends, newline="")
    n_empty = n_before + 2 if ends == "\n\n" else 0
    assert f"line {n_before + 3 + n_empty}" in error_of(path)
    lines[n_before + 2] = '1.5,"b",a'
    path.write_text(end.join(lines) + ends, newline="")
    assert accumulate(scan(path, "kind", features=["x"])).n_rows == n_before + 5
    lines[n_before + 2] = f'1.5,"b{end}b",a'
    path.write_text(end.join(lines) + ends, newline="")
    assert "newlines_in_values=True" in error_of(path)
    told = ds.CsvFileFormat(pa.csv.ParseOptions(newlines_in_values=True))
    assert accumulate(scan(path, "kind", features=["x"], format=told)).n_rows == n_before + 5


PEAK = """
import resource, sys
from streamgda import accumulate, scan

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

accumulate(scan(sys.argv[1], "kind"), "diag", scheduler="synchronous")
before = peak()
assert accumulate(scan(sys.argv[2], "kind"), "diag", scheduler="synchronous").n_rows == 20_000_000
print(peak() - before)
"""


@pytest.mark.slow
def test_text_that_is_packed_a_thousand_times_is_read_in_bounded_memory(tmp_path):
    with gzip.open(tmp_path / "large.csv.gz", "wb") as file:
        file.write(b"x,kind\n")
        for _ in range(20):
            file.write(b"1.5,a\n" * 1_000_000)
    (tmp_path / "small.csv.gz").write_bytes(WHOLE["csv.gz"])
    paths = [str(tmp_path / name) for name in ("small.csv.gz", "large.csv.gz")]
    run = subprocess.run([sys.executable, "-c", PEAK, *paths], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 200  # MB, of 120 MB of text, whose rows take 500 MB


MUTATED = """
import bz2, gzip, json, pathlib, sys, traceback, warnings
import numpy as np, pyarrow as pa, pyarrow.csv, pyarrow.feather, pyarrow.orc, pyarrow.parquet as pq
from streamgda import accumulate, scan

ending, seed, n, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4])
rng = np.random.default_rng(seed)
days = pa.array(rng.integers(0, 9, 600).astype(np.int32)).cast(pa.date32())
kinds = pa.array(rng.choice(["a", "b", "more than twelve letters"], 600))
features = {"x": rng.normal(size=600), "n": rng.integers(0, 9, 600), "day": days, "shop": kinds}
rows = pa.table({**features, "code": kinds.dictionary_encode(), "list": [[1.5, None]] * 600, "kind": kinds})
plain = rows.drop_columns("list")

def as_lines(table, path):
    path.write_text("".join(json.dumps(row, default=str) + chr(10) for row in table.to_pylist()))

def packed(module, path):
    pa.csv.write_csv(plain, path)
    path.write_bytes(module.compress(path.read_bytes()))

write = {
    "csv": lambda path: pa.csv.write_csv(plain, path),
    "csv.gz": lambda path: packed(gzip, path),
    "csv.bz2": lambda path: packed(bz2, path),
    "jsonl": lambda path: as_lines(rows, path),
    "feather": lambda path: pyarrow.feather.write_feather(rows, path, "uncompressed", chunksize=200),
    "lz4.feather": lambda path: pyarrow.feather.write_feather(rows, path, "lz4", chunksize=200),
    "orc": lambda path: pyarrow.orc.write_table(  # other strings crash Arrow 26, by ORC-2192
        plain.set_column(4, "code", kinds), path, dictionary_key_size_threshold=1.0
    ),
    "parquet": lambda path: pq.write_table(rows, path, row_group_size=200),
}[ending]
path = folder / f"damaged.{ending}"
write(path)
whole = path.read_bytes()

def damaged():
    content = bytearray(whole)
    place, size = int(rng.integers(len(whole))), int(rng.integers(1, 64))
    kind = rng.integers(6)
    if kind == 0:
        return content[:place]
    if kind == 1:
        content[place] ^= 1 << int(rng.integers(8))
    if kind == 2:
        content[place : place + size] = rng.bytes(min(size, len(whole) - place))
    if kind == 3:
        del content[place : place + size]
    if kind == 4:
        content[place:place] = content[:size]
    if kind == 5:
        number = int(rng.choice([-1, -(2**31), 2**31 - 1, 1 << 20]))
        content[place : place + 4] = number.to_bytes(4, "little", signed=True)
    return content

warnings.simplefilter("ignore")
for i in range(n):
    path.write_bytes(damaged())
    print(i, end=" ", flush=True)
    try:
        source = scan(folder, "kind", features=["x", "n", "day", "shop", "code"])
        accumulate(source, "diag", scheduler="synchronous")
    except ValueError as error:
        if f"damaged.{ending}" not in str(error) or len(str(error)) > 1000:
            traceback.print_exc()
            sys.exit(2)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "ending", ["csv", "csv.gz", "csv.bz2", "jsonl", "feather", "lz4.feather", "orc", "parquet"]
)
def test_no_damage_ends_the_process(ending, tmp_path):
    call = [sys.executable, "-c", MUTATED, ending, "0", "300", str(tmp_path)]
    run = subprocess.run(call, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, (run.returncode, run.stdout[-50:], run.stderr[-2000:])
