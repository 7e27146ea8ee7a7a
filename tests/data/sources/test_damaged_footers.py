"""Flipped bits in the footer of a Parquet file: most are errors, or change nothing; and its pages."""

import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import accumulate, scan_parquet
from streamgda.data.storage.footers import check_footer, read_tail

RNG = np.random.default_rng(0)
TABLE = pa.table({"x": RNG.normal(size=40), "s": [f"n{i}" for i in range(40)], "k": RNG.integers(0, 2, 40)})
FILTER = [("x", ">", -1.0)]


@pytest.fixture
def path(tmp_path):
    pq.write_table(TABLE, tmp_path / "1.parquet", row_group_size=20, write_page_checksum=True)
    return tmp_path / "1.parquet"


def footer_of(content):
    return range(len(content) - 8 - int.from_bytes(content[-8:-4], "little"), len(content) - 8)


def read(path, filters):
    with dask.config.set(scheduler="synchronous"):
        return accumulate(scan_parquet(path, "k", features=["x"], filters=filters), "diag")


def note_outcomes(path, content, filters, bits, expected, notes):
    """Read the file with each of some bits of its footer flipped, and note what comes of it."""
    for bit in bits:
        flipped = bytearray(content)
        flipped[footer_of(content)[bit // 8]] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            outcome = "same" if read(path, filters) == expected else "wrong"
        except (ValueError, OSError):
            outcome = "error"
        with notes.open("a") as file:
            file.write(f"{outcome}\n")


def outcomes(path, filters, bits, notes):
    """What comes of each of some bits; "end" if it ends the process."""
    content, expected = path.read_bytes(), read(path, filters)
    notes.touch()
    while len(done := notes.read_text().split()) < len(bits):
        with ProcessPoolExecutor(1, multiprocessing.get_context("forkserver")) as pool:
            work = pool.submit(note_outcomes, path, content, filters, bits[len(done) :], expected, notes)
            try:
                work.result()
            except BrokenProcessPool:
                with notes.open("a") as file:
                    file.write("end\n")
    return Counter(done)


@pytest.mark.parametrize("filters", [None, FILTER])
@pytest.mark.parametrize("step", [67, pytest.param(5, marks=pytest.mark.slow)])
def test_a_flipped_bit_in_a_footer_is_an_error_or_changes_nothing(path, tmp_path, filters, step):
    """pyarrow itself ends the process at a few of them."""
    bits = range(0, 8 * len(footer_of(path.read_bytes())), step)
    found = outcomes(path, filters, bits, tmp_path / "notes")
    # A filter must trust the least and largest value of a row group, which a bit may change.
    assert found["wrong"] <= (0 if filters is None else len(bits) / 1000)
    assert found["error"] > len(bits) / 10
    assert found["end"] <= len(bits) / 40


def written(tables, **how):
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, tables[0].schema, use_dictionary=False, **how) as writer:
        for table in tables:
            writer.write_table(table)
    return bytes(sink.getvalue())


def test_a_column_in_the_place_of_another_is_found():
    """A flipped bit in the place of a column would give the values of another one, page checksums and all."""
    content = written([pa.table({f"x{j}": np.full(64, float(j)) for j in range(4)})], compression="none")
    tail, metadata = read_tail(pa.BufferReader(content)), pq.read_metadata(pa.BufferReader(content))
    check_footer(metadata, tail, len(content))
    places = [metadata.row_group(0).column(j).data_page_offset for j in (1, 2)]
    moved = tail.replace(*map(zigzag, places))
    with pytest.raises(pa.ArrowInvalid, match="columns overlap"):
        check_footer(pq.read_metadata(pa.BufferReader(moved)), moved, len(content))


def zigzag(number):
    """A number as Thrift's compact protocol writes it."""
    value, groups = 2 * number, []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])


def test_a_file_that_was_cut_has_columns_outside_of_it():
    content = written([TABLE])
    tail = read_tail(pa.BufferReader(content))
    with pytest.raises(pa.ArrowInvalid, match="columns .* lie outside the file"):
        check_footer(pq.read_metadata(pa.BufferReader(content)), tail, len(content) - 100)


def test_a_footer_longer_than_what_is_read_first_is_read_whole():
    table = pa.table({f"a rather long name of column {j}": [1.0] for j in range(1_500)})
    content = written([table])
    tail = read_tail(pa.BufferReader(content))
    assert len(tail) > 1 << 16
    assert tail == content[-len(tail) :]
    assert pq.read_metadata(pa.BufferReader(tail)).num_columns == 1_500


def test_a_name_that_is_no_text_is_damage_of_its_file(path):
    content = path.read_bytes()
    start = footer_of(content).start
    path.write_bytes(content[:start] + content[start:].replace(b"\x18\x01s", b"\x18\x01\x8a"))
    with pytest.raises(ValueError, match=r"1\.parquet cannot be read as Parquet.* 'utf-8' codec"):
        read(path, None)


# ---------------------------------------------------------------------- pages


@pytest.mark.slow_cases("brotli", "gzip", "lz4")
@pytest.mark.slow_cases("1073741824")
@pytest.mark.parametrize("codec", ["zstd", "brotli", "gzip", "lz4", "snappy"])
@pytest.mark.parametrize("page", [1 << 10, 1 << 30])
def test_pages_of_any_length_are_read(tmp_path, codec, page):
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "constant": np.zeros(50_000),
            "x": pa.array(rng.normal(size=50_000), mask=rng.random(50_000) < 0.1),
            "k": rng.choice(["a" * 40, "b" * 300], 50_000),
            "small": rng.integers(0, 2, 50_000).astype(bool),
        }
    )
    for dictionary in (False, True):
        path = tmp_path / f"{dictionary}.parquet"
        pq.write_table(table, path, compression=codec, data_page_size=page, use_dictionary=dictionary)
    source = scan_parquet(tmp_path, "k", missing="drop")
    assert accumulate(source, "diag").n_rows == 2 * (50_000 - table["x"].null_count)


@pytest.mark.parametrize(
    "header",
    [
        b"\x25\xfe" + b"\xff" * 3000 + b"\x01",  # a size of 21,000 bits
        b"\x19\xf7" + b"\xff" * 9 + b"\x01",  # a list of 2 ** 64 numbers of floating point
        b"\x1c" * 3000,  # 3,000 structs, each within the one before
        b"\x1f",  # a type that there is not
    ],
)
def test_an_impossible_header_of_a_page_is_an_error_that_names_the_file(tmp_path, header):
    path = tmp_path / "1.parquet"
    pq.write_table(pa.table({"x": np.arange(1000.0), "k": np.arange(1000) % 2}), path, compression="zstd")
    content = path.read_bytes()
    start = pq.read_metadata(path).row_group(0).column(0).dictionary_page_offset
    path.write_bytes(content[:start] + header + content[start:])
    with pytest.raises(ValueError, match=r"1\.parquet cannot be read as Parquet"):
        accumulate(scan_parquet(path, "k"), "diag", scheduler="synchronous")
