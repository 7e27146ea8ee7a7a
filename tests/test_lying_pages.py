"""Pages of a Parquet file that stand for far more bytes than their values take are refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import GaussianNB, accumulate, predict_dataset, scan_parquet
from streamgda.storage.pages import check_pages
from streamgda.storage.thrift import BINARY, FALSE, INT16, INT32, INT64, LIST, STRUCT, read_struct

CODECS = ["zstd", "brotli", "gzip"]
N = 1000


def unsigned(number):
    groups = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])


def written_value(kind, value):
    if kind in (INT16, INT32, INT64):
        return unsigned(2 * value if value >= 0 else -2 * value - 1)
    if kind == BINARY:
        return unsigned(len(value)) + value
    if kind == STRUCT:
        return written(value)
    if kind == LIST:
        element = {int: INT32, bytes: BINARY, dict: STRUCT}[type(value[0])]
        size = bytes([len(value) << 4 | element] if len(value) < 15 else [0xF0 | element, len(value)])
        return size + b"".join(written_value(element, one) for one in value)
    return b""


def written(struct):
    """A struct in Thrift's compact protocol."""
    content, last = b"", 0
    for (number, kind), value in struct.items():
        written_as = kind if kind > FALSE else FALSE - value  # the value of a bool is its type
        content += bytes([number - last << 4 | written_as]) + written_value(kind, value)
        last = number
    return content + b"\0"


def lying(path, codec, page, values):
    """Write a file with one column x, and replace its page by zeros that say nothing in the footer."""
    schema = pa.schema([pa.field("x", values.type, nullable=False)])
    pq.write_table(pa.table([values], schema), path, compression=codec, use_dictionary=False)
    content = path.read_bytes()
    footer, _ = read_struct(content, len(content) - 8 - int.from_bytes(content[-8:-4], "little"))
    group = footer[4, LIST][0]
    metadata = group[1, LIST][0][3, STRUCT]
    start = metadata[9, INT64]
    header, _ = read_struct(content, start)
    compressed = pa.compress(page, codec, asbytes=True)
    sizes = {(1, INT32): 0, (2, INT32): len(page), (3, INT32): len(compressed)}
    header = written({**sizes, (5, STRUCT): header[5, STRUCT]})
    metadata[7, INT64] = group[6, INT64] = len(header) + len(compressed)
    metadata.pop((16, STRUCT), None)  # counts of values
    group[1, LIST][0] = {(2, INT64): 0, (3, STRUCT): metadata}
    tail = written(footer)
    path.write_bytes(content[:start] + header + compressed + tail + len(tail).to_bytes(4, "little") + b"PAR1")
    return path


@pytest.mark.parametrize("codec", CODECS)
def test_a_page_of_numbers_that_stands_for_far_more_is_refused(tmp_path, codec):
    path = lying(tmp_path / "1.parquet", codec, bytes(1 << 24), pa.array(np.arange(float(N))))
    assert path.stat().st_size < 1 << 15
    (split,), _ = scan_parquet(path, features=["x"]).to_score([])
    with pytest.raises(ValueError, match=r"1\.parquet.*page of column 'x' stands for 16,777,216 bytes"):
        list(split.features())


def test_a_page_of_strings_that_stands_for_far_more_is_refused(tmp_path):
    path = lying(tmp_path / "1.parquet", "zstd", bytes(3 << 27), pa.array(["ab"] * N))
    (tmp_path / "key=3").mkdir()
    path.rename(tmp_path / "key=3" / "1.parquet")
    source = scan_parquet(tmp_path, "x", features=["key"])
    with pytest.raises(ValueError, match="page of column 'x' stands for 402,653,184 bytes"):
        accumulate(source, "diag", scheduler="synchronous")


@pytest.mark.parametrize("codec", [*CODECS, "lz4", "snappy"])
@pytest.mark.parametrize("page", [1 << 10, 1 << 30])
def test_pages_of_any_length_are_read_where_they_say_what_they_hold(tmp_path, codec, page):
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


def test_predict_dataset_reads_no_page_that_lies(tmp_path):
    path = lying(tmp_path / "1.parquet", "zstd", bytes(1 << 24), pa.array(np.arange(float(N))))
    model = GaussianNB().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    with pytest.raises(ValueError, match="page of column 'x' stands for"):
        predict_dataset(model, scan_parquet(path, features=["x"]), tmp_path / "out", scheduler="synchronous")


def damaged(content, start, stop, rng):
    """Damage a few places between two positions: flip a bit, set a byte, insert a run or delete."""
    content = bytearray(content)
    for place in sorted(rng.integers(start, stop, rng.integers(1, 4)), reverse=True):
        byte, length = int(rng.choice([0, 0x1C, 0x19, 0xF7, 0xF9, 0xFF])), int(rng.choice([1, 12, 3000]))
        match rng.integers(4):
            case 0:
                content[place] ^= 1 << int(rng.integers(8))
            case 1:
                content[place] = rng.integers(256)
            case 2:
                content[place:place] = bytes([byte]) * length
            case _:
                del content[place : place + 4]
    return bytes(content)


@pytest.mark.parametrize("n_cases", [2000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_damaged_header_of_a_page_ends_in_one_kind_of_error(n_cases):
    file = pa.BufferOutputStream()
    table = pa.table({"x": np.arange(float(N)), "s": ["a", "b"] * (N // 2), "l": [[1.0], []] * (N // 2)})
    pq.write_table(table, file, compression="zstd")
    content = file.getvalue().to_pybytes()
    group = pq.read_metadata(pa.BufferReader(content)).row_group(0)
    rng, n_damaged = np.random.default_rng(0), 0
    for case in range(n_cases):
        chunk = group.column(case % group.num_columns)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        _, stop = read_struct(content, start)
        try:
            check_pages(pa.BufferReader(damaged(content, start, stop, rng)), group, table.column_names)
        except pa.ArrowInvalid:
            n_damaged += 1
    assert n_cases / 10 < n_damaged < n_cases


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
    pq.write_table(pa.table({"x": np.arange(float(N)), "k": np.arange(N) % 2}), path, compression="zstd")
    content = path.read_bytes()
    start = pq.read_metadata(path).row_group(0).column(0).dictionary_page_offset
    path.write_bytes(content[:start] + header + content[start:])
    with pytest.raises(ValueError, match=r"1\.parquet cannot be read.*the header of a page is damaged"):
        accumulate(scan_parquet(path, "k"), "diag", scheduler="synchronous")
